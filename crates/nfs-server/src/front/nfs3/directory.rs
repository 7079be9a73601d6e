//! REMOVE, RMDIR, RENAME, LINK (RFC 1813 §3.3.12 to §3.3.15).

use nfs_wire::nfs3::{
    DirOpArgs, Failure, LinkArgs, LinkBody, RemoveOk, RenameArgs, RenameBody, WccData,
};

use std::sync::Arc;

use super::Context;
use super::convert::{fail, wcc_data};
use super::names::{doomed_name, new_name, renamed_name};
use super::object::post_op_attr;
use crate::vfs::Error;

pub(super) async fn remove(
    cx: &Context,
    object: &DirOpArgs<'_>,
    directories: bool,
) -> Result<RemoveOk, Failure<RemoveOk>> {
    let none = RemoveOk {
        wcc: WccData::default(),
    };
    let directory = cx
        .target(&object.dir)
        .await
        .map_err(|error| fail(error, none))?;
    let (result, wcc) = match doomed_name(object.name.0, directories) {
        Ok(name) => cx.vfs().remove(&directory, name, directories).await,
        Err(error) => (Err(error), cx.vfs().wcc_unchanged(&directory).await),
    };
    let body = RemoveOk {
        wcc: wcc_data(&wcc),
    };
    result.map(|()| body).map_err(|error| fail(error, body))
}

pub(super) async fn rename(
    cx: &Context,
    args: &RenameArgs<'_>,
) -> Result<RenameBody, Failure<RenameBody>> {
    let none = RenameBody::default();
    let from = cx
        .target(&args.from.dir)
        .await
        .map_err(|error| fail(error, none))?;
    let to = cx
        .target(&args.to.dir)
        .await
        .map_err(|error| fail(error, none))?;
    let names = renamed_name(args.from.name.0)
        .and_then(|from_name| Ok((from_name, renamed_name(args.to.name.0)?)));
    let (result, from_wcc, to_wcc) = match names {
        Ok((from_name, to_name)) => cx.vfs().rename(&from, from_name, &to, to_name).await,
        Err(error) => (
            Err(error),
            cx.vfs().wcc_unchanged(&from).await,
            cx.vfs().wcc_unchanged(&to).await,
        ),
    };
    let body = RenameBody {
        fromdir_wcc: wcc_data(&from_wcc),
        todir_wcc: wcc_data(&to_wcc),
    };
    result.map(|()| body).map_err(|error| fail(error, body))
}

pub(super) async fn link(cx: &Context, args: &LinkArgs<'_>) -> Result<LinkBody, Failure<LinkBody>> {
    let none = LinkBody::default();
    let file = cx
        .target(&args.file)
        .await
        .map_err(|error| fail(error, none))?;
    let directory = cx
        .target(&args.link.dir)
        .await
        .map_err(|error| fail(error, none))?;
    let same_export = file.tree.export.id == directory.tree.export.id;
    let name = if same_export {
        new_name(args.link.name.0)
    } else {
        Err(Error::CrossDevice)
    };
    let (result, wcc) = match name {
        Ok(name) => {
            cx.vfs()
                .link(Arc::clone(&file.object), &directory, name)
                .await
        }
        Err(error) => (Err(error), cx.vfs().wcc_unchanged(&directory).await),
    };
    let body = LinkBody {
        file_attributes: post_op_attr(cx, &file).await,
        linkdir_wcc: wcc_data(&wcc),
    };
    result.map(|()| body).map_err(|error| fail(error, body))
}
