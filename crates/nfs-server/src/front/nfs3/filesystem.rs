//! FSSTAT, FSINFO, PATHCONF (RFC 1813 §3.3.18 to §3.3.20).

use nfs_wire::nfs3::{
    FSF3_CANSETTIME, FSF3_HOMOGENEOUS, FSF3_LINK, FSF3_SYMLINK, Failure, FileHandle, FsinfoArgs,
    FsinfoOk, FsstatArgs, FsstatOk, Nfstime3, PathconfArgs, PathconfOk, PostOpAttr,
};

use super::Context;
use super::convert::{fail, fattr3};
use crate::limits;
use crate::vfs::FsFacts;

pub(super) async fn fsstat(
    cx: &Context,
    args: &FsstatArgs,
) -> Result<FsstatOk, Failure<PostOpAttr>> {
    let facts = facts(cx, &args.fsroot).await?;
    let space = &facts.space;
    let bytes = |blocks: u64| blocks.saturating_mul(space.frsize);
    Ok(FsstatOk {
        obj_attributes: Some(fattr3(&facts.attributes)),
        tbytes: bytes(space.blocks),
        fbytes: bytes(space.bfree),
        abytes: bytes(space.bavail),
        tfiles: space.files,
        ffiles: space.ffree,
        afiles: space.favail,
        invarsec: 0,
    })
}

pub(super) async fn fsinfo(
    cx: &Context,
    args: &FsinfoArgs,
) -> Result<FsinfoOk, Failure<PostOpAttr>> {
    let facts = facts(cx, &args.fsroot).await?;
    let largest = cx.vfs().io_bytes_max;
    let preferred = largest.min(limits::IO_BYTES_PREFERRED);
    let block = u32::try_from(facts.space.bsize).unwrap_or(4096);
    Ok(FsinfoOk {
        obj_attributes: Some(fattr3(&facts.attributes)),
        rtmax: largest,
        rtpref: preferred,
        rtmult: block,
        wtmax: largest,
        wtpref: preferred,
        wtmult: block,
        dtpref: limits::READDIR_BYTES_PREFERRED,
        maxfilesize: facts.file_size_max,
        time_delta: Nfstime3 {
            seconds: 0,
            nseconds: 1,
        },
        properties: FSF3_LINK | FSF3_SYMLINK | FSF3_HOMOGENEOUS | FSF3_CANSETTIME,
    })
}

pub(super) async fn pathconf(
    cx: &Context,
    args: &PathconfArgs,
) -> Result<PathconfOk, Failure<PostOpAttr>> {
    let facts = facts(cx, &args.object).await?;
    let limits = &facts.limits;
    Ok(PathconfOk {
        obj_attributes: Some(fattr3(&facts.attributes)),
        linkmax: limits.link_max,
        name_max: limits.name_max,
        no_trunc: limits.no_trunc,
        chown_restricted: limits.chown_restricted,
        case_insensitive: limits.case_insensitive,
        case_preserving: limits.case_preserving,
    })
}

async fn facts(cx: &Context, object: &FileHandle) -> Result<FsFacts, Failure<PostOpAttr>> {
    let target = cx.target(object).await.map_err(|error| fail(error, None))?;
    cx.vfs()
        .file_system(&target)
        .await
        .map_err(|error| fail(error, None))
}
