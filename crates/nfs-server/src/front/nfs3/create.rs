//! CREATE, MKDIR, SYMLINK, MKNOD (RFC 1813 §3.3.8 to §3.3.11).

use nfs_wire::nfs3::{
    CreateArgs, CreateHow, CreateOk, DirOpArgs, Failure, MkdirArgs, MknodArgs, Mknoddata, Sattr3,
    SymlinkArgs, WccData,
};

use super::Context;
use super::convert::{fail, fattr3, file_handle, set_attributes, wcc_data};
use super::names::new_name;
use crate::front::exclusive;
use crate::limits;
use crate::vfs::{Error, NewNode, Precondition};

type CreateResult = Result<CreateOk, Failure<WccData>>;

pub(super) async fn create(cx: &Context, args: &CreateArgs<'_>) -> CreateResult {
    let (precondition, sattr) = match args.how {
        CreateHow::Unchecked(sattr) => (Precondition::Unchecked, sattr),
        CreateHow::Guarded(sattr) => (Precondition::Guarded, sattr),
        CreateHow::Exclusive(verifier) => (
            Precondition::Marked(exclusive::mark(verifier)),
            Sattr3::default(),
        ),
    };
    make(cx, &args.where_, NewNode::File(precondition), &sattr).await
}

pub(super) async fn mkdir(cx: &Context, args: &MkdirArgs<'_>) -> CreateResult {
    make(cx, &args.where_, NewNode::Directory, &args.attributes).await
}

pub(super) async fn symlink(cx: &Context, args: &SymlinkArgs<'_>) -> CreateResult {
    let target = args.symlink.symlink_data.0;
    let invalid = if target.len() > limits::SYMLINK_BYTES_MAX {
        Some(Error::NameTooLong)
    } else if target.is_empty() || target.contains(&0) {
        Some(Error::Invalid)
    } else {
        None
    };
    if let Some(error) = invalid {
        return refuse(cx, &args.where_, error).await;
    }
    let node = NewNode::Symlink {
        target: target.to_vec(),
    };
    make(cx, &args.where_, node, &args.symlink.symlink_attributes).await
}

pub(super) async fn mknod(cx: &Context, args: &MknodArgs<'_>) -> CreateResult {
    let (node, sattr) = match args.what {
        Mknoddata::CharacterDevice(device) => (
            NewNode::CharacterDevice {
                major: device.spec.major,
                minor: device.spec.minor,
            },
            device.dev_attributes,
        ),
        Mknoddata::BlockDevice(device) => (
            NewNode::BlockDevice {
                major: device.spec.major,
                minor: device.spec.minor,
            },
            device.dev_attributes,
        ),
        Mknoddata::Socket(pipe) => (NewNode::Socket, pipe.pipe_attributes),
        Mknoddata::Fifo(pipe) => (NewNode::Fifo, pipe.pipe_attributes),
        Mknoddata::Other(_) => return refuse(cx, &args.where_, Error::BadType).await,
    };
    make(cx, &args.where_, node, &sattr).await
}

async fn make(cx: &Context, place: &DirOpArgs<'_>, node: NewNode, sattr: &Sattr3) -> CreateResult {
    let set = match set_attributes(sattr) {
        Ok(set) => set,
        Err(error) => return refuse(cx, place, error).await,
    };
    let none = WccData::default();
    let directory = cx
        .target(&place.dir)
        .await
        .map_err(|error| fail(error, none))?;
    let (result, wcc) = match new_name(place.name.0) {
        Ok(name) => cx.vfs().create(&directory, name, node, set).await,
        Err(error) => (Err(error), cx.vfs().wcc_unchanged(&directory).await),
    };
    let dir_wcc = wcc_data(&wcc);
    match result {
        Ok(created) => Ok(CreateOk {
            // A handle that cannot be sent is left out, as RFC 1813 allows: the client looks the name up.
            obj: file_handle(&created.object.handle).ok(),
            obj_attributes: Some(fattr3(&created.attributes)),
            dir_wcc,
        }),
        Err(error) => Err(fail(error, dir_wcc)),
    }
}

/// Fails with the directory's attributes; a bad handle is the better reason if there is one.
async fn refuse(cx: &Context, place: &DirOpArgs<'_>, error: Error) -> CreateResult {
    let none = WccData::default();
    let directory = cx
        .target(&place.dir)
        .await
        .map_err(|error| fail(error, none))?;
    let wcc = cx.vfs().wcc_unchanged(&directory).await;
    Err(fail(error, wcc_data(&wcc)))
}
