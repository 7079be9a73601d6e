//! OPEN, CLOSE, OPEN_DOWNGRADE (RFC 8881 §18.2, §18.16, §18.18).

use nfs_state::{Bits, Share};
use nfs_wire::nfs4::ops::{
    CloseArgs, Createhow4, OPEN4_RESULT_LOCKTYPE_POSIX, OPEN4_RESULT_MAY_NOTIFY_LOCK,
    OPEN4_SHARE_ACCESS_BOTH, OPEN4_SHARE_ACCESS_WANT_DELEG_MASK, OPEN4_SHARE_ACCESS_WANT_NO_DELEG,
    OpenArgs, OpenClaim4, OpenDelegation4, OpenDowngradeArgs, OpenNoneDelegation4, OpenOk,
    Openflag4,
};
use nfs_wire::nfs4::{
    Attribute, Bitmap4, ChangeInfo4, Changeid4, Component4, Fattr4, Nfsstat4, Verifier4,
};

use super::attributes::{change, change_info};
use super::compound::{Compound, Done, put};
use super::data::regular;
use super::directory::{directory, set_acls};
use super::names::entry_name;
use super::place::Place;
use super::stateids;
use super::status::{refused, status};
use super::wanted::Wanted;
use crate::front::exclusive;
use crate::vfs::{
    Access, Acls, EntryName, Error, NewNode, Opened, Precondition, SetAttributes, Step, Target,
};

type Result<T> = core::result::Result<T, Nfsstat4>;

/// A file on its way to be opened.
struct Found {
    target: Target,
    /// What keeps it, after the caller was found to be let do what it wants.
    opened: Opened,
    /// The directory around the look-up or the creation.
    cinfo: ChangeInfo4,
    /// The attributes that were set.
    attrset: Bitmap4,
}

pub(super) async fn open(
    compound: &mut Compound<'_>,
    args: &OpenArgs<'_>,
    out: &mut Vec<u8>,
) -> Done {
    let share = share(args.share_access, args.share_deny)?;
    let access = access_of(share.access);
    let reclaims = matches!(args.claim, OpenClaim4::Previous(_));
    // Nothing is made or cut before it is known that the file may be opened at all.
    let permit = stateids::permit(compound, reclaims).await?;
    let found = match (args.claim, args.openhow) {
        (OpenClaim4::Null(name), Openflag4::Nocreate) => existing(compound, name, access).await?,
        (OpenClaim4::Null(name), Openflag4::Create(how)) => {
            create(compound, name, how, access).await?
        }
        (OpenClaim4::Fh | OpenClaim4::Previous(_), Openflag4::Nocreate) => {
            by_handle(compound, access).await?
        }
        // Only a name can be made (RFC 8881 §18.16.3).
        (OpenClaim4::Fh | OpenClaim4::Previous(_), Openflag4::Create(_)) => {
            return Err(Nfsstat4::Inval);
        }
        // There are no delegations.
        (OpenClaim4::DelegateCur(_) | OpenClaim4::DelegCurFh(_), _) => {
            return Err(Nfsstat4::BadStateid);
        }
        (OpenClaim4::DelegatePrev(_) | OpenClaim4::DelegPrevFh, _) => {
            return Err(Nfsstat4::Notsupp);
        }
    };
    let owner = args.owner.owner.0;
    let may_notify = match compound
        .states()?
        .core
        .promise_notices(compound.sequenced()?)
    {
        true => OPEN4_RESULT_MAY_NOTIFY_LOCK,
        false => 0,
    };
    let stateid = stateids::open(compound, &permit, &found.target, owner, share).await?;
    drop(found.opened);
    compound.go_to(Place::File(Box::new(found.target)));
    compound.set_stateid(stateid);
    put(
        out,
        &OpenOk {
            stateid,
            cinfo: found.cinfo,
            rflags: OPEN4_RESULT_LOCKTYPE_POSIX | may_notify,
            attrset: found.attrset,
            delegation: no_delegation(args.share_access),
        },
    );
    Ok(())
}

/// What a client asks to do and to deny to others, without what it would like of delegations.
fn share(share_access: u32, share_deny: u32) -> Result<Share> {
    /// OPEN4_SHARE_ACCESS_WANT_*: wishes, each of which a server may pass over.
    const WANT_MASK: u32 = 0x003f_ff00;
    let access = Bits::from_wire(share_access & !WANT_MASK).map_err(refused)?;
    let deny = Bits::from_wire(share_deny).map_err(refused)?;
    Share::new(access, deny).map_err(refused)
}

fn access_of(bits: Bits) -> Access {
    let mut access = Access::NONE;
    if bits.has(Bits::READ) {
        access |= Access::READ;
    }
    if bits.has(Bits::WRITE) {
        access |= Access::WRITE;
    }
    access
}

/// There are no delegations: a client that wished for one is told why, one that did not is told nothing (RFC 8881
/// §18.16.4).
fn no_delegation(share_access: u32) -> OpenDelegation4<'static> {
    match share_access & OPEN4_SHARE_ACCESS_WANT_DELEG_MASK {
        0 => OpenDelegation4::None,
        OPEN4_SHARE_ACCESS_WANT_NO_DELEG => {
            OpenDelegation4::NoneExt(OpenNoneDelegation4::NotWanted)
        }
        _ => OpenDelegation4::NoneExt(OpenNoneDelegation4::Resource(false)),
    }
}

async fn by_handle(compound: &Compound<'_>, access: Access) -> Result<Found> {
    let target = regular(compound)?.clone();
    let vfs = compound.cx.vfs();
    let opened = vfs.open_file(&target, access).await.map_err(status)?;
    Ok(Found {
        target,
        opened,
        cinfo: ChangeInfo4::default(),
        attrset: Bitmap4::EMPTY,
    })
}

async fn existing(compound: &Compound<'_>, name: Component4<'_>, access: Access) -> Result<Found> {
    let name = entry_name(name.0)?;
    let directory = match compound.current()? {
        Place::File(_) => directory(compound)?,
        // What is above the exports leads to directories only.
        Place::Node(_) => {
            compound
                .current()?
                .lookup(compound.cx, name.bytes())
                .await?;
            return Err(Nfsstat4::Isdir);
        }
    };
    look_up(compound, &directory, name, access).await
}

/// Opens what a name leads to.
async fn look_up(
    compound: &Compound<'_>,
    directory: &Target,
    name: EntryName<'_>,
    access: Access,
) -> Result<Found> {
    let vfs = compound.cx.vfs();
    let (found, around) = vfs.lookup(directory, Step::Entry(name)).await;
    let (object, _) = found.map_err(status)?;
    let target = directory.with_object(object);
    must_be_file(&target)?;
    let opened = vfs.open_file(&target, access).await.map_err(status)?;
    let now = around.map_or(Changeid4::default(), |around| change(&around.stat));
    Ok(Found {
        target,
        opened,
        cinfo: ChangeInfo4 {
            atomic: false,
            before: now,
            after: now,
        },
        attrset: Bitmap4::EMPTY,
    })
}

fn must_be_file(target: &Target) -> Result<()> {
    use crate::vfs::FileKind;
    match target.object.kind {
        FileKind::Regular => Ok(()),
        FileKind::Directory => Err(Nfsstat4::Isdir),
        FileKind::Symlink => Err(Nfsstat4::Symlink),
        FileKind::BlockDevice
        | FileKind::CharDevice
        | FileKind::Fifo
        | FileKind::Socket
        | FileKind::Unknown => Err(Nfsstat4::WrongType),
    }
}

/// How a file is to be made.
struct How {
    precondition: Precondition,
    /// What the file is made with.
    at_once: SetAttributes,
    /// The length that it is to have.
    size: Option<u64>,
    /// What is set once it is there: an exclusive one keeps its mark in the times meanwhile.
    afterwards: Option<SetAttributes>,
    acls: Option<Acls>,
    attrset: Bitmap4,
}

/// The times that keep the verifier of an exclusive creation: the client sets them once it has the file.
const MARKED: Bitmap4 = Bitmap4::EMPTY
    .with(Attribute::TimeAccessSet.number())
    .with(Attribute::TimeModifySet.number());

async fn how(compound: &Compound<'_>, directory: &Target, how: Createhow4<'_>) -> Result<How> {
    let (precondition, attrs) = match how {
        Createhow4::Unchecked(attrs) => (Precondition::Unchecked, attrs),
        Createhow4::Guarded(attrs) => (Precondition::Guarded, attrs),
        Createhow4::Exclusive(verifier) => return Ok(marked(verifier, None, MARKED)),
        Createhow4::Exclusive41(with) => {
            let wanted = decode(compound, directory, &with.attrs).await?;
            if !wanted.mask.and(&MARKED).is_empty() {
                return Err(Nfsstat4::Inval);
            }
            let set = wanted.of_new(compound.cx, directory, true).await?;
            return Ok(How {
                acls: wanted.acls(false)?,
                ..marked(with.verf, Some(set), wanted.mask.or(&MARKED))
            });
        }
    };
    let wanted = decode(compound, directory, &attrs).await?;
    let set = wanted.of_new(compound.cx, directory, false).await?;
    Ok(How {
        precondition,
        at_once: SetAttributes { size: None, ..set },
        size: set.size,
        afterwards: None,
        acls: wanted.acls(false)?,
        attrset: wanted.mask,
    })
}

async fn decode(compound: &Compound<'_>, directory: &Target, attrs: &Fattr4<'_>) -> Result<Wanted> {
    let acls = directory.object.mount.posix_acls;
    Wanted::decode(compound.cx, compound.minor, acls, attrs).await
}

fn marked(verifier: Verifier4, afterwards: Option<SetAttributes>, attrset: Bitmap4) -> How {
    How {
        precondition: Precondition::Marked(exclusive::mark(verifier.0)),
        at_once: SetAttributes::default(),
        size: None,
        afterwards,
        acls: None,
        attrset,
    }
}

/// Makes a file, or opens the one that is there as far as the client lets that do.
async fn create(
    compound: &Compound<'_>,
    name: Component4<'_>,
    createhow: Createhow4<'_>,
    access: Access,
) -> Result<Found> {
    let directory = directory(compound)?;
    let name = entry_name(name.0)?;
    let how = how(compound, &directory, createhow).await?;
    let vfs = compound.cx.vfs();
    let node = NewNode::File(how.precondition);
    let (made, wcc) = vfs.create(&directory, name, node, how.at_once).await;
    let made = match made {
        // It is there, and is no regular file.
        Err(Error::Exists) if how.precondition == Precondition::Unchecked => {
            return look_up(compound, &directory, name, access).await;
        }
        made => made.map_err(status)?,
    };
    let target = directory.with_object(made.object);
    // An earlier try of the same call made it as the same user. Another's empty file may happen to have the
    // mark's times, and is opened as any other.
    let own = target.actor.creds.uid().0 == made.attributes.stat.uid;
    let is_marked = matches!(how.precondition, Precondition::Marked(_));
    let is_ours = made.is_new || (is_marked && own);
    let opened = if is_ours {
        // Whoever makes a file may use it, whatever mode it gave it.
        target.object.opened()
    } else {
        vfs.open_file(&target, access).await.map_err(status)?
    };
    let attrset = finish(compound, &target, how, is_ours).await?;
    Ok(Found {
        target,
        opened,
        cinfo: change_info(&wcc),
        attrset,
    })
}

/// Sets what is left to be set of a file that was made, or of one that was there: of that only the length 0
/// (RFC 8881 §18.16.3). Returns the attributes that are set by now.
async fn finish(
    compound: &Compound<'_>,
    target: &Target,
    how: How,
    is_ours: bool,
) -> Result<Bitmap4> {
    let vfs = compound.cx.vfs();
    let size = how.size.filter(|size| is_ours || *size == 0);
    let afterwards = how.afterwards.filter(|_| is_ours).unwrap_or_default();
    let set = SetAttributes {
        size: size.or(afterwards.size),
        ..afterwards
    };
    if !is_ours && size.is_some() {
        stateids::must_not_be_denied(target, Bits::WRITE)?;
    }
    if !set.is_empty() {
        let target = if is_ours {
            compound.opened(target, Access::WRITE)
        } else {
            target.clone()
        };
        let (done, _wcc) = vfs.set_attributes(&target, set, |_ctime| true).await;
        done.map_err(status)?;
    }
    Ok(match (is_ours, size) {
        (true, _) => set_acls(compound, target, how.acls, how.attrset).await,
        (false, Some(_)) => Attribute::Size.bit(),
        (false, None) => Bitmap4::EMPTY,
    })
}

pub(super) async fn close(
    compound: &mut Compound<'_>,
    args: &CloseArgs,
    out: &mut Vec<u8>,
) -> Done {
    regular(compound)?;
    let stateid = stateids::close(compound, &args.open_stateid)?;
    compound.set_stateid(stateid);
    put(out, &stateid);
    Ok(())
}

pub(super) fn open_downgrade(
    compound: &mut Compound<'_>,
    args: &OpenDowngradeArgs,
    out: &mut Vec<u8>,
) -> Done {
    regular(compound)?;
    if args.share_access & !OPEN4_SHARE_ACCESS_BOTH != 0 {
        return Err(Nfsstat4::Inval);
    }
    let share = share(args.share_access, args.share_deny)?;
    let stateid = stateids::downgrade(compound, &args.open_stateid, share)?;
    compound.set_stateid(stateid);
    put(out, &stateid);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_open_wishes_of_delegations_is_no_access() {
        let parsed = share(0x10_0401, 2).unwrap();
        assert_eq!((parsed.access, parsed.deny), (Bits::READ, Bits::WRITE));
        assert_eq!(share(0, 0), Err(Nfsstat4::Inval));
        assert_eq!(share(4, 0), Err(Nfsstat4::Inval));
        assert_eq!(share(1, 4), Err(Nfsstat4::Inval));
    }
}
