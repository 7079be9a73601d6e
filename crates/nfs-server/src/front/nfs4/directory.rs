//! CREATE, REMOVE, RENAME, LINK (RFC 8881 §18.4, §18.9, §18.25, §18.26).

use std::sync::Arc;

use nfs_wire::nfs4::ops::{
    CreateArgs, CreateOk, Createtype4, LinkArgs, RemoveArgs, RenameArgs, RenameOk,
};
use nfs_wire::nfs4::{Bitmap4, Nfsstat4};

use super::attributes::change_info;
use super::compound::{Compound, Done, put};
use super::names::entry_name;
use super::place::{Place, must_be_directory};
use super::status::status;
use super::wanted::{self, Wanted};
use crate::limits;
use crate::vfs::{Acls, FileKind, NewNode, Step, Target};

type Result<T> = core::result::Result<T, Nfsstat4>;

/// Makes everything but a regular file, which OPEN makes; it is the current object afterwards.
pub(super) async fn create(
    compound: &mut Compound<'_>,
    args: &CreateArgs<'_>,
    out: &mut Vec<u8>,
) -> Done {
    let directory = directory(compound)?;
    let node = new_node(&args.objtype)?;
    let name = entry_name(args.objname.0)?;
    let acls = directory.object.mount.posix_acls;
    let (cx, minor) = (compound.cx, compound.minor);
    let wanted = Wanted::decode(cx, minor, acls, &args.createattrs).await?;
    let acls = wanted.acls(node == NewNode::Directory)?;
    if wanted.set.size.is_some() {
        return Err(Nfsstat4::Inval);
    }
    let set = wanted.of_new(compound.cx, &directory, false).await?;
    let (made, wcc) = compound.cx.vfs().create(&directory, name, node, set).await;
    let made = made.map_err(status)?;
    let cinfo = change_info(&wcc);
    let target = directory.with_object(made.object);
    let attrset = set_acls(compound, &target, acls, wanted.mask).await;
    compound.go_to(Place::File(Box::new(target)));
    put(out, &CreateOk { cinfo, attrset });
    Ok(())
}

/// Gives a new object its ACLs, and tells the attributes that it has then. It is there by now, so that a failure is told
/// by leaving the ACL out of them, as Linux's server does, and the mode with it: nobody but the owner may use the object
/// then.
pub(super) async fn set_acls(
    compound: &Compound<'_>,
    target: &Target,
    acls: Option<Acls>,
    attrset: Bitmap4,
) -> Bitmap4 {
    let Some(acls) = acls else {
        return attrset;
    };
    match compound.cx.vfs().set_acls(target, acls).await {
        (Ok(()), _wcc) => attrset,
        (Err(_), _wcc) => attrset.minus(&wanted::gone_with_acl()),
    }
}

fn new_node(objtype: &Createtype4<'_>) -> Result<NewNode> {
    Ok(match objtype {
        Createtype4::Lnk(link) => {
            let target = link.0;
            if target.len() > limits::SYMLINK_BYTES_MAX {
                return Err(Nfsstat4::Nametoolong);
            }
            if target.is_empty() || target.contains(&0) {
                return Err(Nfsstat4::Inval);
            }
            NewNode::Symlink {
                target: target.to_vec(),
            }
        }
        Createtype4::Blk(device) => NewNode::BlockDevice {
            major: device.major,
            minor: device.minor,
        },
        Createtype4::Chr(device) => NewNode::CharacterDevice {
            major: device.major,
            minor: device.minor,
        },
        Createtype4::Sock => NewNode::Socket,
        Createtype4::Fifo => NewNode::Fifo,
        Createtype4::Dir => NewNode::Directory,
        // A regular file is made by OPEN (RFC 8881 §18.4.3).
        Createtype4::Other(_) => return Err(Nfsstat4::Badtype),
    })
}

/// Removes an entry, be it a directory's or another's.
pub(super) async fn remove(
    compound: &Compound<'_>,
    args: &RemoveArgs<'_>,
    out: &mut Vec<u8>,
) -> Done {
    let directory = directory(compound)?;
    let name = entry_name(args.target.0)?;
    let vfs = compound.cx.vfs();
    // The kernel removes directories by another call; what it is may change until then, and then that fails.
    let (found, _) = vfs.lookup(&directory, Step::Entry(name)).await;
    let (object, _) = found.map_err(status)?;
    let (done, wcc) = vfs.remove(&directory, name, object.is_directory()).await;
    done.map_err(status)?;
    put(out, &change_info(&wcc));
    Ok(())
}

/// Moves an entry of the saved directory into the current one.
pub(super) async fn rename(
    compound: &Compound<'_>,
    args: &RenameArgs<'_>,
    out: &mut Vec<u8>,
) -> Done {
    let to = directory(compound)?;
    let from = compound.saved()?.file(Nfsstat4::Rofs)?.clone();
    must_be_directory(&from)?;
    let (old, new) = (entry_name(args.oldname.0)?, entry_name(args.newname.0)?);
    if from.tree.export.id != to.tree.export.id {
        return Err(Nfsstat4::Xdev);
    }
    let renamed = compound.cx.vfs().rename(&from, old, &to, new).await;
    let (done, from_wcc, to_wcc) = renamed;
    done.map_err(|error| match status(error) {
        // A directory over something else, or the other way round (RFC 8881 §18.26.3).
        Nfsstat4::Notdir | Nfsstat4::Isdir | Nfsstat4::Notempty => Nfsstat4::Exist,
        other => other,
    })?;
    put(
        out,
        &RenameOk {
            source_cinfo: change_info(&from_wcc),
            target_cinfo: change_info(&to_wcc),
        },
    );
    Ok(())
}

/// Gives the saved object another name, in the current directory.
pub(super) async fn link(compound: &Compound<'_>, args: &LinkArgs<'_>, out: &mut Vec<u8>) -> Done {
    let directory = directory(compound)?;
    let saved = compound.saved()?.file(Nfsstat4::Isdir)?;
    if saved.object.kind == FileKind::Directory {
        return Err(Nfsstat4::Isdir);
    }
    let name = entry_name(args.newname.0)?;
    if saved.tree.export.id != directory.tree.export.id {
        return Err(Nfsstat4::Xdev);
    }
    let object = Arc::clone(&saved.object);
    let (done, wcc) = compound.cx.vfs().link(object, &directory, name).await;
    done.map_err(status)?;
    put(out, &change_info(&wcc));
    Ok(())
}

/// The current object, which has to be a directory of an export: above the exports nothing can be changed.
pub(super) fn directory(compound: &Compound<'_>) -> Result<Target> {
    let target = compound.current()?.file(Nfsstat4::Rofs)?;
    must_be_directory(target).map_err(|_also_a_link| Nfsstat4::Notdir)?;
    Ok(target.clone())
}
