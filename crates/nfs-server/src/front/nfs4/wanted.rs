//! What a client wants set of an object: the attributes that SETATTR, CREATE and OPEN come with (RFC 8881 §5).

use nfs_io::fs::Timestamp;
use nfs_wire::nfs4::{
    Attribute, Attributes as Values, Bitmap4, Fattr4, MinorVersion, Nfsstat4, Settime4, Utf8str,
};

use super::acl::{self, Ace};
use super::attributes::supported;
use super::owners;
use super::status::status;
use crate::front::context::Context;
use crate::host::accounts::Kind;
use crate::operate::audit::Asked;
use crate::vfs::{Acls, Parts, SetAttributes, Target, TimeChange};

type Result<T> = core::result::Result<T, Nfsstat4>;

/// The attributes by which a client says what mode an object is to have.
const MODES: &[Attribute] = &[
    Attribute::Mode,
    Attribute::ModeSetMasked,
    Attribute::ModeUmask,
];

/// The attributes that an object has not got which was made without the ACL that was asked for: that, and the mode, as it
/// was made for its owner alone.
pub(super) fn gone_with_acl() -> Bitmap4 {
    let modes = MODES.iter();
    modes.fold(Attribute::Acl.bit(), |gone, mode| gone.or(&mode.bit()))
}

/// What a client wants set.
pub(super) struct Wanted {
    pub(super) set: SetAttributes,
    /// Bits of the mode that are to be set or reset, and those that are meant.
    masked: Option<(u32, u32)>,
    /// The mode of an object to be made, and the umask that a default ACL takes the place of.
    umasked: Option<(u32, u32)>,
    acl: Option<Vec<Ace>>,
    /// The attributes that it named.
    pub(super) mask: Bitmap4,
}

impl Wanted {
    /// What a client sends, on a file system with ACLs or without. Waits for the numbers of those whom it names.
    ///
    /// # Errors
    /// NFS4ERR_ATTRNOTSUPP, NFS4ERR_INVAL, NFS4ERR_BADOWNER, NFS4ERR_BADXDR, NFS4ERR_FBIG; NFS4ERR_DELAY where the user
    /// database does not answer in time.
    pub(super) async fn decode(
        cx: &Context,
        minor: MinorVersion,
        acls: bool,
        attributes: &Fattr4<'_>,
    ) -> Result<Self> {
        let values = decode_to_set(minor, acls, attributes)?;
        let owner = values.owner.iter().map(|owner| (Kind::User, owner.0));
        let group = values.owner_group.iter();
        let group = group.map(|group| (Kind::Group, group.0));
        let aces = values.acl.as_deref().unwrap_or_default();
        let named = owner.chain(group).chain(acl::whom(aces));
        owners::learn_ids(cx, named).await?;
        Self::of_values(cx, values, attributes.attrmask)
    }

    /// The same by what is known of the user database, without waiting.
    ///
    /// # Errors
    /// Those of [`Wanted::decode`].
    pub(super) fn decode_at_once(
        cx: &Context,
        minor: MinorVersion,
        acls: bool,
        attributes: &Fattr4<'_>,
    ) -> Result<Self> {
        let values = decode_to_set(minor, acls, attributes)?;
        Self::of_values(cx, values, attributes.attrmask)
    }

    fn of_values(cx: &Context, values: Values<'_>, mask: Bitmap4) -> Result<Self> {
        // Bits of a umask that are no permissions have no meaning (RFC 8275 §5).
        let umasked = values
            .mode_umask
            .map(|both| (both.mode & 0o7777, both.umask));
        if umasked.is_some_and(|(_, umask)| umask & !0o777 != 0) {
            return Err(Nfsstat4::Inval);
        }
        let id = |kind, owner: Option<Utf8str<'_>>| {
            let id = owner.map(|owner| owners::id(cx, kind, owner.0));
            id.transpose()
        };
        let of_ace = |kind, who: &[u8]| owners::id(cx, kind, who);
        Ok(Self {
            set: SetAttributes {
                mode: values.mode.map(|mode| mode & 0o7777),
                uid: id(Kind::User, values.owner)?,
                gid: id(Kind::Group, values.owner_group)?,
                size: values.size,
                atime: time_change(values.time_access_set),
                mtime: time_change(values.time_modify_set),
            },
            masked: values
                .mode_set_masked
                .map(|masked| (masked.value_to_set & 0o7777, masked.mask_bits & 0o7777)),
            umasked,
            acl: values
                .acl
                .map(|aces| acl::decode(&aces, of_ace))
                .transpose()?,
            mask,
        })
    }

    /// The ACLs to be set, if any, of a directory or of something else.
    ///
    /// # Errors
    /// NFS4ERR_ATTRNOTSUPP for entries that no POSIX ACL can have.
    pub(super) fn acls(&self, is_directory: bool) -> Result<Option<Acls>> {
        let aces = self.acl.as_deref();
        aces.map(|aces| acl::to_posix(aces, is_directory))
            .transpose()
    }

    /// What is to be set of an object that has this mode.
    ///
    /// # Errors
    /// NFS4ERR_INVAL for a mode both as a whole and bit by bit (RFC 8881 §6.2.6), and for one with a umask, which only
    /// new objects have (RFC 8275 §5).
    pub(super) fn of_mode(&self, mode: u32) -> Result<SetAttributes> {
        if self.umasked.is_some() {
            return Err(Nfsstat4::Inval);
        }
        self.with_bits(mode)
    }

    /// What is to be set of a new object in a directory. `later`: its mode is set when it is there already.
    ///
    /// # Errors
    /// NFS4ERR_INVAL for a mode that is given in more than one way, and what the file system says.
    pub(super) async fn of_new(
        &self,
        cx: &Context,
        directory: &Target,
        later: bool,
    ) -> Result<SetAttributes> {
        let mut set = self.with_bits(0)?;
        let (mode, umask) = match (self.umasked, set.mode) {
            (Some(_), Some(_)) => return Err(Nfsstat4::Inval),
            (Some((mode, umask)), None) => (Some(mode), umask),
            (None, mode) => (mode, 0),
        };
        // Other modes the kernel keeps within the directory's default ACL, when it makes the object.
        let is_ours_to_keep = |mode: u32| later || umask != 0 || mode & 0o7000 != 0;
        set.mode = match mode {
            Some(mode) if is_ours_to_keep(mode) => {
                let mode = cx.vfs().mode_of_new(directory, mode, umask).await;
                Some(mode.map_err(status)?)
            }
            mode => mode,
        };
        if self.acl.is_some() {
            // Nobody but the owner may use it before its ACL is there.
            set.mode = set.mode.map(|mode| mode & 0o7700);
        }
        Ok(set)
    }

    fn with_bits(&self, mode: u32) -> Result<SetAttributes> {
        match self.masked {
            None => Ok(self.set),
            Some(_) if self.set.mode.is_some() => Err(Nfsstat4::Inval),
            Some((bits, mask)) => Ok(SetAttributes {
                mode: Some(mode & !mask | bits & mask),
                ..self.set
            }),
        }
    }

    /// The attributes that are set where these parts of them are. An ACL is set apart.
    pub(super) fn set_by(&self, parts: Parts) -> Bitmap4 {
        [
            (parts.size, &[Attribute::Size][..]),
            (parts.owner, &[Attribute::Owner, Attribute::OwnerGroup]),
            (parts.mode, MODES),
            (
                parts.times,
                &[Attribute::TimeAccessSet, Attribute::TimeModifySet],
            ),
        ]
        .into_iter()
        .filter(|(is_set, _)| *is_set)
        .flat_map(|(_, attributes)| attributes)
        .fold(Bitmap4::EMPTY, |set, attribute| set.or(&attribute.bit()))
        .and(&self.mask)
    }

    /// What the audit is told of it. A mode of which only some bits are set is not known before the object is.
    pub(super) fn told(&self) -> Asked {
        let umasked = self.umasked.map(|(mode, umask)| mode & !umask);
        Asked {
            mode: self.set.mode.or(umasked),
            uid: self.set.uid,
            gid: self.set.gid,
            size: self.set.size,
        }
    }

    /// Bits are to be set one by one, for which the mode has to be known.
    pub(super) const fn needs_mode(&self) -> bool {
        self.masked.is_some()
    }
}

/// The values that a client wants set, of those that it may.
///
/// # Errors
/// NFS4ERR_ATTRNOTSUPP, NFS4ERR_INVAL, NFS4ERR_BADXDR.
fn decode_to_set<'a>(
    minor: MinorVersion,
    acls: bool,
    attributes: &Fattr4<'a>,
) -> Result<Values<'a>> {
    let values = attributes.decode_to_set(&supported(minor, acls));
    values.map_err(|error| error.status())
}

fn time_change(set: Option<Settime4>) -> TimeChange {
    match set {
        None => TimeChange::Keep,
        Some(Settime4::ServerTime) => TimeChange::Now,
        Some(Settime4::ClientTime(time)) => TimeChange::To(Timestamp {
            sec: time.seconds,
            nsec: time.nseconds,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_a_mode_are_set_one_by_one() {
        let wanted = |mode, masked| Wanted {
            set: SetAttributes {
                mode,
                ..SetAttributes::default()
            },
            masked,
            umasked: None,
            acl: None,
            mask: Bitmap4::EMPTY,
        };
        let set = wanted(None, Some((0o600, 0o700))).of_mode(0o755).unwrap();
        assert_eq!(set.mode, Some(0o655));
        let both = wanted(Some(0o644), Some((0, 0o700))).of_mode(0);
        assert_eq!(both.map(|set| set.mode), Err(Nfsstat4::Inval));
    }
}
