//! GETATTR, SETATTR, ACCESS, READLINK, VERIFY, NVERIFY (RFC 8881 §18.1, §18.7, §18.15, §18.23, §18.30, §18.31).

use nfs_io::{Errno, Reservation, Share};
use nfs_wire::nfs4::ops::{
    ACCESS4_DELETE, ACCESS4_EXECUTE, ACCESS4_EXTEND, ACCESS4_LOOKUP, ACCESS4_MODIFY, ACCESS4_READ,
    ACCESS4_XALIST, ACCESS4_XAREAD, ACCESS4_XAWRITE, AccessArgs, AccessOk, GetattrArgs, ReadlinkOk,
    SetattrArgs, VerifyArgs,
};
use nfs_wire::nfs4::{Attribute, Bitmap4, Linktext4, MinorVersion, Nfsstat4};

use super::acl::{self, Named};
use super::attributes;
use super::compound::{Compound, Done, put};
use super::owners;
use super::place::Place;
use super::status::status;
use super::wanted::Wanted;
use crate::limits;
use crate::vfs::{Access, Error, FileKind, Parts};

pub(super) async fn getattr(
    compound: &mut Compound<'_>,
    args: &GetattrArgs,
    out: &mut Vec<u8>,
) -> Done {
    let (cx, minor) = (compound.cx, compound.minor);
    let acl = acl(compound, &args.attr_request).await?;
    let named = acl.as_ref().map(|(named, _, _)| named);
    let place = (compound.current()?, named);
    attributes::encode(cx, minor, place, &args.attr_request, out).await?;
    if let Some((_, memory, share)) = acl {
        compound.hold(memory, share);
    }
    Ok(())
}

/// The current object's ACL, if it is asked for and there may be one, with the memory for telling it.
///
/// # Errors
/// NFS4ERR_REP_TOO_BIG for more entries than are told.
async fn acl(
    compound: &Compound<'_>,
    asked: &Bitmap4,
) -> Result<Option<(Named, Reservation, Share)>, Nfsstat4> {
    let Place::File(target) = compound.current()? else {
        return Ok(None);
    };
    if !asked.contains(Attribute::Acl.number()) || !target.object.mount.posix_acls {
        return Ok(None);
    }
    let read = compound.cx.vfs().acls(target);
    // Who holds memory for replies must not wait for more of it.
    let read = if compound.holds_memory() {
        compound.at_once(read).await
    } else {
        read.await.map_err(status)
    };
    let read = read.map_err(|status| match status {
        Nfsstat4::Xattr2big => Nfsstat4::RepTooBig,
        other => other,
    })?;
    let aces = acl::of_posix(&read.acls, target.object.is_directory());
    let cx = compound.cx;
    let whom = || aces.iter().filter_map(acl::Ace::whom);
    let named = if whom().count() <= limits::ACES_NAMED_MAX {
        owners::learn_names(cx, whom()).await;
        Named::new(aces, |kind, id| owners::owner(cx, kind, id))
    } else {
        Named::new(aces, |_kind, id| id.to_string())
    };
    Ok(Some((named, read.memory, read.share)))
}

/// SETATTR. Its result has the attributes that are set, be it all of them or, of one that failed, those before the failure
/// (RFC 8881 §18.30.3).
pub(super) async fn setattr(
    compound: &Compound<'_>,
    args: &SetattrArgs<'_>,
    out: &mut Vec<u8>,
) -> Done {
    let mut set = Bitmap4::EMPTY;
    let done = set_each(compound, args, &mut set).await;
    put(out, &set);
    done
}

async fn set_each(compound: &Compound<'_>, args: &SetattrArgs<'_>, is_set: &mut Bitmap4) -> Done {
    let target = compound.current()?.file(Nfsstat4::Rofs)?;
    let acls = target.object.mount.posix_acls;
    let (cx, minor) = (compound.cx, compound.minor);
    let wanted = Wanted::decode(cx, minor, acls, &args.obj_attributes).await?;
    let acls = wanted.acls(target.object.is_directory())?;
    let target = match wanted.set.size {
        // Whoever opened the file for writing may cut it, whatever its mode says since.
        Some(_) => compound.io_target(&args.stateid, Access::WRITE).await?,
        None => target.clone(),
    };
    let vfs = compound.cx.vfs();
    let set = if wanted.needs_mode() {
        let found = vfs.attributes(&target).await.map_err(status)?;
        wanted.of_mode(found.stat.permissions())?
    } else {
        wanted.of_mode(0)?
    };
    let (result, parts, _wcc) = vfs.set_in_parts(&target, set, |_ctime| true).await;
    *is_set = match result {
        Ok(()) => wanted.set_by(Parts::ALL),
        Err(_) => wanted.set_by(parts),
    };
    result.map_err(status)?;
    // The mode before the ACL, which says more (RFC 8881 §6.4.1.3).
    if let Some(acls) = acls {
        let (result, _wcc) = vfs.set_acls(&target, acls).await;
        result.map_err(|error| match error {
            // Not of this object: a symbolic link.
            Error::Errno(Errno::OPNOTSUPP) => Nfsstat4::Attrnotsupp,
            error => status(error),
        })?;
    }
    *is_set = wanted.mask;
    Ok(())
}

pub(super) async fn access(compound: &Compound<'_>, args: &AccessArgs, out: &mut Vec<u8>) -> Done {
    let of_xattrs = match (compound.minor, compound.current()?) {
        (MinorVersion::V2, Place::File(target)) if target.object.mount.user_xattrs => XATTR_ACCESS,
        _ => &[],
    };
    let known = |meanings: &'static [(u32, Access)]| {
        let all = meanings.iter().chain(of_xattrs);
        all.filter(|(bit, _)| args.access & bit != 0)
    };
    let (meanings, granted) = match compound.current()? {
        Place::Node(_) => (DIRECTORY_ACCESS, Access::READ | Access::EXECUTE),
        Place::File(target) => {
            let meanings = if target.object.is_directory() {
                DIRECTORY_ACCESS
            } else {
                FILE_ACCESS
            };
            let wanted = known(meanings).fold(Access::NONE, |wanted, (_, needs)| wanted | *needs);
            let vfs = compound.cx.vfs();
            let attributes = compound.cx.attributes(target).await.map_err(status)?;
            let granted = vfs.access(target, wanted, &attributes).await;
            (meanings, granted.map_err(status)?)
        }
    };
    let known = known(meanings);
    let supported = known.clone().fold(0, |bits, (bit, _)| bits | bit);
    let access = known
        .filter(|(_, needs)| granted.contains(*needs))
        .fold(0, |bits, (bit, _)| bits | bit);
    put(out, &AccessOk { supported, access });
    Ok(())
}

/// What each bit asks of the kernel (RFC 8881 §18.1.3). LOOKUP and DELETE say nothing of a file.
const FILE_ACCESS: &[(u32, Access)] = &[
    (ACCESS4_READ, Access::READ),
    (ACCESS4_MODIFY, Access::WRITE),
    (ACCESS4_EXTEND, Access::WRITE),
    (ACCESS4_EXECUTE, Access::EXECUTE),
];
const DIRECTORY_ACCESS: &[(u32, Access)] = &[
    (ACCESS4_READ, Access::READ),
    (ACCESS4_LOOKUP, Access::EXECUTE),
    (ACCESS4_MODIFY, Access::WRITE_EXECUTE),
    (ACCESS4_EXTEND, Access::WRITE_EXECUTE),
    (ACCESS4_DELETE, Access::WRITE_EXECUTE),
];
/// The same of extended attributes, of any object (RFC 8276 §8.5).
const XATTR_ACCESS: &[(u32, Access)] = &[
    (ACCESS4_XAREAD, Access::READ),
    (ACCESS4_XAWRITE, Access::WRITE),
    (ACCESS4_XALIST, Access::READ),
];

/// # Errors
/// NFS4ERR_WRONG_TYPE for what is no symbolic link (RFC 8881 §18.23.3).
pub(super) async fn readlink(compound: &Compound<'_>, out: &mut Vec<u8>) -> Done {
    let target = compound.current()?.file(Nfsstat4::WrongType)?;
    if target.object.kind != FileKind::Symlink {
        return Err(Nfsstat4::WrongType);
    }
    let (link, _) = compound.cx.vfs().readlink(target).await.map_err(status)?;
    let link = Linktext4(&link);
    put(out, &ReadlinkOk { link });
    Ok(())
}

pub(super) async fn verify(compound: &Compound<'_>, args: &VerifyArgs<'_>) -> Done {
    match is_same(compound, args).await? {
        true => Ok(()),
        false => Err(Nfsstat4::NotSame),
    }
}

pub(super) async fn nverify(compound: &Compound<'_>, args: &VerifyArgs<'_>) -> Done {
    match is_same(compound, args).await? {
        true => Err(Nfsstat4::Same),
        false => Ok(()),
    }
}

async fn is_same(compound: &Compound<'_>, args: &VerifyArgs<'_>) -> Result<bool, Nfsstat4> {
    let (cx, minor) = (compound.cx, compound.minor);
    let acl = acl(compound, &args.obj_attributes.attrmask).await?;
    let named = acl.as_ref().map(|(named, _memory, _share)| named);
    let place = (compound.current()?, named);
    attributes::are_same(cx, minor, place, &args.obj_attributes).await
}
