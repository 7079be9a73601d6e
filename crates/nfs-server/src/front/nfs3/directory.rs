//! REMOVE, RMDIR, RENAME, LINK (RFC 1813 §3.3.12 to §3.3.15).

use nfs_wire::nfs3::{
    DirOpArgs, Failure, LinkArgs, LinkBody, RemoveOk, RenameArgs, RenameBody, WccData,
};

use super::Context;
use super::convert::{fail, wcc_data};
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
    let (result, wcc) = cx
        .vfs()
        .remove(&directory, object.name.0, directories)
        .await;
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
    let (result, from_wcc, to_wcc) = cx
        .vfs()
        .rename(&from, args.from.name.0, &to, args.to.name.0)
        .await;
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
    let (result, wcc) = if file.tree.export.id == directory.tree.export.id {
        cx.vfs()
            .link(file.object.clone(), &directory, args.link.name.0)
            .await
    } else {
        (
            Err(Error::CrossDevice),
            cx.vfs().wcc_unchanged(&directory.object).await,
        )
    };
    let body = LinkBody {
        file_attributes: post_op_attr(cx, &file).await,
        linkdir_wcc: wcc_data(&wcc),
    };
    result.map(|()| body).map_err(|error| fail(error, body))
}
