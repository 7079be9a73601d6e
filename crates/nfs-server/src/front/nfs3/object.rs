//! GETATTR, SETATTR, LOOKUP, ACCESS, READLINK (RFC 1813 §3.3.1 to §3.3.5).

use nfs_io::Errno;
use nfs_wire::nfs3::{
    ACCESS3_DELETE, ACCESS3_EXECUTE, ACCESS3_EXTEND, ACCESS3_LOOKUP, ACCESS3_MODIFY, ACCESS3_READ,
    AccessArgs, AccessOk, Failure, GetattrArgs, GetattrOk, LookupArgs, LookupOk, Nfspath3,
    PostOpAttr, ReadlinkArgs, ReadlinkOk, RemoveOk, SetattrArgs, WccData,
};

use super::convert::{fail, fattr3, file_handle, same_time, set_attributes, wcc_data};
use super::names::step;
use super::{Context, put};
use crate::vfs::Target;
use crate::vfs::{Access, Error};

pub(super) async fn getattr(cx: &Context, args: &GetattrArgs) -> Result<GetattrOk, Failure<()>> {
    let attributes = async {
        let target = cx.target(&args.object).await?;
        cx.vfs().attributes_since_call(&target).await
    };
    match attributes.await {
        Ok(attributes) => Ok(GetattrOk {
            obj_attributes: fattr3(&attributes),
        }),
        Err(error) => Err(fail(error, ())),
    }
}

pub(super) async fn setattr(
    cx: &Context,
    args: &SetattrArgs,
) -> Result<RemoveOk, Failure<RemoveOk>> {
    let none = RemoveOk {
        wcc: WccData::default(),
    };
    let target = cx
        .target(&args.object)
        .await
        .map_err(|error| fail(error, none))?;
    let set = set_attributes(&args.new_attributes).map_err(|error| fail(error, none))?;
    let guard = args.guard;
    let unchanged = move |ctime| guard.is_none_or(|guard| same_time(guard, ctime));
    let (result, wcc) = cx.vfs().set_attributes(&target, set, unchanged).await;
    let body = RemoveOk {
        wcc: wcc_data(&wcc),
    };
    result.map(|()| body).map_err(|error| fail(error, body))
}

pub(super) async fn lookup(
    cx: &Context,
    args: &LookupArgs<'_>,
) -> Result<LookupOk, Failure<PostOpAttr>> {
    let directory = cx
        .target(&args.what.dir)
        .await
        .map_err(|error| fail(error, None))?;
    let attributes = cx.vfs().attributes_since_call(&directory).await;
    let found = match (step(args.what.name.0), &attributes) {
        (Ok(step), Ok(attributes)) => cx.vfs().lookup_in(&directory, attributes, step).await,
        (Ok(_), Err(error)) => Err(*error),
        (Err(_), _) if !directory.object.is_directory() => Err(Error::Errno(Errno::NOTDIR)),
        (Err(error), _) => Err(error),
    };
    let dir_attributes = attributes.as_ref().ok().map(fattr3);
    let found = found.and_then(|(object, attributes)| {
        let handle = file_handle(&object.handle)?;
        Ok((handle, attributes))
    });
    match found {
        Ok((object, attributes)) => Ok(LookupOk {
            object,
            obj_attributes: Some(fattr3(&attributes)),
            dir_attributes,
        }),
        Err(error) => Err(fail(error, dir_attributes)),
    }
}

pub(super) async fn access(
    cx: &Context,
    args: &AccessArgs,
) -> Result<AccessOk, Failure<PostOpAttr>> {
    let target = cx
        .target(&args.object)
        .await
        .map_err(|error| fail(error, None))?;
    let meanings = if target.object.is_directory() {
        DIRECTORY_ACCESS
    } else {
        FILE_ACCESS
    };
    let asked = meanings.iter().filter(|(bit, _)| args.access & bit != 0);
    let wanted = asked.fold(Access::NONE, |wanted, (_, needs)| wanted | *needs);
    let vfs = cx.vfs();
    let attributes = vfs.attributes_since_call(&target).await;
    let attributes = attributes.map_err(|error| fail(error, None))?;
    let granted = vfs.access(&target, wanted, &attributes).await;
    let granted = granted.map_err(|error| fail(error, None))?;
    let access = meanings
        .iter()
        .filter(|(bit, needs)| args.access & bit != 0 && granted.contains(*needs))
        .fold(0, |access, (bit, _)| access | bit);
    Ok(AccessOk {
        obj_attributes: Some(fattr3(&attributes)),
        access,
    })
}

/// What each bit asks of the kernel (RFC 1813 §3.3.4). DELETE says nothing of a file.
const FILE_ACCESS: &[(u32, Access)] = &[
    (ACCESS3_READ, Access::READ),
    (ACCESS3_MODIFY, Access::WRITE),
    (ACCESS3_EXTEND, Access::WRITE),
    (ACCESS3_EXECUTE, Access::EXECUTE),
];
const DIRECTORY_ACCESS: &[(u32, Access)] = &[
    (ACCESS3_READ, Access::READ),
    (ACCESS3_LOOKUP, Access::EXECUTE),
    (ACCESS3_MODIFY, Access::WRITE_EXECUTE),
    (ACCESS3_EXTEND, Access::WRITE_EXECUTE),
    (ACCESS3_DELETE, Access::WRITE_EXECUTE),
];

pub(super) async fn readlink(cx: &Context, args: &ReadlinkArgs, out: &mut Vec<u8>) {
    let target = match cx.target(&args.symlink).await {
        Ok(target) => target,
        Err(error) => {
            return put(
                out,
                &Err::<ReadlinkOk<'_>, _>(fail(error, PostOpAttr::None)),
            );
        }
    };
    match cx.vfs().readlink(&target).await {
        Ok((data, attributes)) => put(
            out,
            &Ok::<_, Failure<PostOpAttr>>(ReadlinkOk {
                symlink_attributes: Some(fattr3(&attributes)),
                data: Nfspath3(&data),
            }),
        ),
        Err(error) => {
            let attributes = post_op_attr(cx, &target).await;
            put(out, &Err::<ReadlinkOk<'_>, _>(fail(error, attributes)));
        }
    }
}

pub(super) async fn post_op_attr(cx: &Context, target: &Target) -> PostOpAttr {
    cx.vfs()
        .attributes(target)
        .await
        .ok()
        .map(|attributes| fattr3(&attributes))
}
