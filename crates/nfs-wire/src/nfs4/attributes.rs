//! Attributes: one table of all of them, from which the sets, the values and their encoding follow (RFC 8881
//! §5, RFC 7862 §12, RFC 8275, RFC 8276 §8.2, RFC 9754).

mod table;
mod values;

pub use table::{Attribute, AttributeWriter, Attributes};
pub use values::{
    ChangeAttrType4, ChangePolicy4, FsLocation4, FsLocations4, FsLocationsInfo4, FsLocationsItem4,
    FsLocationsServer4, FsStatus4, Layouthint4, OpenArguments4, Pathname4, RetentionGet4,
    RetentionSet4, SecLabel4, ThresholdItem4,
};

use super::{Bitmap4, Fattr4, MinorVersion, Nfsstat4, Settime4};
use crate::{DecodeError, Encode, Encoder};

/// Whether an attribute may be read, set or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// Read only. To set it is NFS4ERR_INVAL.
    Get,
    /// Set only. To ask for it is NFS4ERR_INVAL.
    Set,
    /// Read and set.
    GetSet,
}

/// Where a server has the value of an attribute from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The object itself: what `statx` tells.
    Stat,
    /// The file system of the object: what `statvfs` tells, and what is known of its kind.
    FileSystem,
    /// The export: what is configured, and where it is in the server's tree.
    Export,
    /// The server: the same for all objects.
    Server,
    /// The object's access control list.
    Acl,
    /// The object's extended attributes, or whether it may have any.
    Xattr,
    /// Open files, delegations and layouts.
    State,
}

/// Why a set of attributes that a client sent cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttributeError {
    /// The set has an attribute that is not supported: NFS4ERR_ATTRNOTSUPP.
    #[error("an attribute is not supported")]
    NotSupported,
    /// An attribute cannot be used so, or its value is none that it can have: NFS4ERR_INVAL.
    #[error("an attribute cannot be used so, or has an impossible value")]
    Inval,
    /// The values are not what the set says: NFS4ERR_BADXDR.
    #[error("the values are malformed: {0}")]
    BadXdr(#[from] DecodeError),
}

impl AttributeError {
    /// What the client is told.
    #[must_use]
    pub const fn status(&self) -> Nfsstat4 {
        match self {
            Self::NotSupported => Nfsstat4::Attrnotsupp,
            Self::Inval => Nfsstat4::Inval,
            Self::BadXdr(_) => Nfsstat4::Badxdr,
        }
    }
}

impl Attribute {
    /// The set of every attribute that is known here.
    pub const ANY: Bitmap4 = {
        let mut any = Bitmap4::EMPTY;
        let mut rest = Self::ALL;
        while let [first, others @ ..] = rest {
            any.insert(first.number());
            rest = others;
        }
        any
    };

    /// Its bit in a set.
    #[must_use]
    pub const fn bit(self) -> Bitmap4 {
        Bitmap4::EMPTY.with(self.number())
    }

    /// The attributes of which this is true.
    #[must_use]
    pub fn those(mut are: impl FnMut(Self) -> bool) -> Bitmap4 {
        let all = Self::ALL
            .iter()
            .copied()
            .filter(|attribute| are(*attribute));
        all.map(Self::number).collect()
    }

    /// The attributes that a minor version has.
    #[must_use]
    pub fn of_minor(minor: MinorVersion) -> Bitmap4 {
        Self::those(|attribute| attribute.since() <= minor)
    }

    /// The attributes that can be read.
    #[must_use]
    pub fn readable() -> Bitmap4 {
        Self::those(|attribute| attribute.uses() != Use::Set)
    }

    /// The attributes that can be set.
    #[must_use]
    pub fn settable() -> Bitmap4 {
        Self::those(|attribute| attribute.uses() != Use::Get)
    }

    /// The attributes that can be set by an exclusive create which keeps its verifier in the times.
    #[must_use]
    pub fn settable_at_exclusive_create() -> Bitmap4 {
        Self::those(Self::goes_with_exclusive_create)
    }
}

impl<'a> Fattr4<'a> {
    /// What the values say, whichever attributes they are of: what a client does with what a server sent.
    ///
    /// # Errors
    /// [`AttributeError::NotSupported`] for an attribute that is not known here, behind which nothing can be
    /// read; [`AttributeError::BadXdr`].
    pub fn decode_values(&self) -> Result<Attributes<'a>, AttributeError> {
        if !self.attrmask.is_within(&Attribute::ANY) {
            return Err(AttributeError::NotSupported);
        }
        Attributes::decode_values(&self.attrmask, self.attr_vals.0)
    }

    /// What a client asks to be set: SETATTR, and what CREATE and OPEN make. `supported` is what the server
    /// has of this object's file system.
    ///
    /// # Errors
    /// [`AttributeError`]: in this order, so that a client learns first what it can do nothing about.
    pub fn decode_to_set(&self, supported: &Bitmap4) -> Result<Attributes<'a>, AttributeError> {
        if !self.attrmask.is_within(supported) {
            return Err(AttributeError::NotSupported);
        }
        if !self.attrmask.is_within(&Attribute::settable()) {
            return Err(AttributeError::Inval);
        }
        let values = self.decode_values()?;
        if values.has_impossible_time() {
            return Err(AttributeError::Inval);
        }
        Ok(values)
    }

    /// Writes a `fattr4` of those attributes of `asked` that `write` has a value of, in the order of their numbers; it gives
    /// `None` for the others. Only these are asked for, so that a server puts together no more than a client wants.
    pub fn encode_each(
        asked: &Bitmap4,
        e: &mut Encoder<'_>,
        write: impl Fn(&mut AttributeWriter<'_, '_>) -> Option<()>,
    ) {
        let begin = e.position();
        let mut mask = asked.and(&Attribute::ANY);
        loop {
            mask.encode(e);
            let mut missing = Bitmap4::EMPTY;
            e.opaque_of(|e| {
                for number in mask.iter() {
                    let written = Attribute::try_from(number)
                        .ok()
                        .and_then(|asked| write(&mut AttributeWriter::new(asked, e)));
                    if written.is_none() {
                        missing.insert(number);
                    }
                }
            });
            if missing.is_empty() {
                return;
            }
            e.truncate(begin);
            mask = mask.minus(&missing);
        }
    }

    /// What a client asks to be compared: VERIFY and NVERIFY.
    ///
    /// # Errors
    /// [`AttributeError`]. Attributes that can only be set, and `rdattr_error`, cannot be compared (RFC 8881
    /// §18.30.3).
    pub fn decode_to_compare(&self, supported: &Bitmap4) -> Result<Attributes<'a>, AttributeError> {
        if !self.attrmask.is_within(supported) {
            return Err(AttributeError::NotSupported);
        }
        let comparable = Attribute::readable().minus(&Attribute::RdattrError.bit());
        if !self.attrmask.is_within(&comparable) {
            return Err(AttributeError::Inval);
        }
        self.decode_values()
    }
}

impl Attributes<'_> {
    /// Writes a `fattr4` of those values that are there and asked for, in the order of their numbers.
    pub fn encode_asked(&self, asked: &Bitmap4, e: &mut Encoder<'_>) {
        let mask = self.present().and(asked);
        mask.encode(e);
        e.opaque_of(|e| self.encode_values(&mask, e));
    }

    /// Whether a time to be set has a second or more of nanoseconds (RFC 8881 §3.3.1).
    fn has_impossible_time(&self) -> bool {
        let set = [&self.time_access_set, &self.time_modify_set];
        let set = set.into_iter().flatten().filter_map(|time| match time {
            Settime4::ClientTime(time) => Some(time),
            Settime4::ServerTime => None,
        });
        let others = [
            &self.time_backup,
            &self.time_create,
            &self.time_deleg_access,
            &self.time_deleg_modify,
        ];
        set.chain(others.into_iter().flatten())
            .any(|time| !time.is_valid())
    }
}

/// All values that are there.
impl Encode for Attributes<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        self.encode_asked(&self.present(), e);
    }
}

#[cfg(test)]
mod tests;
