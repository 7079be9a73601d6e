//! What NFSv4.2 has of a file's space: ALLOCATE, DEALLOCATE, SEEK, CLONE, COPY (RFC 7862 §15.1, §15.2, §15.4,
//! §15.11, §15.13).

use nfs_wire::nfs4::ops::{
    AllocateArgs, CloneArgs, CopyArgs, CopyOk, CopyRequirements4, DataContent4, SeekArgs, SeekOk,
    WriteResponse4,
};
use nfs_wire::nfs4::{Nfsstat4, StableHow4, Stateid4, Verifier4};

use super::compound::{Compound, Done, put};
use super::data::regular_at;
use super::status::status;
use crate::vfs::{Access, Content, Extent, Target};

type Result<T> = core::result::Result<T, Nfsstat4>;

pub(super) async fn allocate(compound: &Compound<'_>, args: &AllocateArgs) -> Done {
    let (target, extent) = writable(compound, args).await?;
    let done = compound.cx.vfs().allocate(&target, extent).await;
    done.map_err(status)
}

pub(super) async fn deallocate(compound: &Compound<'_>, args: &AllocateArgs) -> Done {
    let (target, extent) = writable(compound, args).await?;
    let done = compound.cx.vfs().deallocate(&target, extent).await;
    done.map_err(status)
}

async fn writable(compound: &Compound<'_>, args: &AllocateArgs) -> Result<(Target, Extent)> {
    regular_at(compound.current()?)?;
    let extent = extent(args.offset, args.length)?;
    if extent.len == 0 {
        return Err(Nfsstat4::Inval);
    }
    let target = compound.io_target(&args.stateid, Access::WRITE).await?;
    Ok((target, extent))
}

/// # Errors
/// NFS4ERR_INVAL for bytes beyond 64 bits, NFS4ERR_FBIG for those beyond the end of any file.
fn extent(offset: u64, len: u64) -> Result<Extent> {
    let end = offset.checked_add(len).ok_or(Nfsstat4::Inval)?;
    match i64::try_from(end) {
        Ok(_) => Ok(Extent { offset, len }),
        Err(_) => Err(Nfsstat4::Fbig),
    }
}

pub(super) async fn seek(compound: &Compound<'_>, args: &SeekArgs, out: &mut Vec<u8>) -> Done {
    regular_at(compound.current()?)?;
    let content = match args.what {
        Ok(DataContent4::Data) => Content::Data,
        Ok(DataContent4::Hole) => Content::Hole,
        Err(_) => return Err(Nfsstat4::UnionNotsupp),
    };
    let target = compound.io_target(&args.stateid, Access::READ).await?;
    let found = compound.cx.vfs().seek(&target, args.offset, content).await;
    let (offset, eof) = found.map_err(status)?;
    put(out, &SeekOk { eof, offset });
    Ok(())
}

/// Both files of an operation on two: the saved one, from which, and the current one, to which.
async fn both(
    compound: &Compound<'_>,
    (source, target): (&Stateid4, &Stateid4),
) -> Result<(Target, Target)> {
    regular_at(compound.saved()?)?;
    regular_at(compound.current()?)?;
    let from = compound
        .io_target_of((compound.saved()?, None), source, Access::READ)
        .await?;
    let to = compound.io_target(target, Access::WRITE).await?;
    Ok((from, to))
}

pub(super) async fn clone(compound: &Compound<'_>, args: &CloneArgs) -> Done {
    let what = extent(args.src_offset, args.count)?;
    extent(args.dst_offset, args.count)?;
    let (from, to) = both(compound, (&args.src_stateid, &args.dst_stateid)).await?;
    let vfs = compound.cx.vfs();
    let cloned = vfs.clone_range((&from, what), (&to, args.dst_offset)).await;
    cloned.map_err(status)
}

/// Copies within the server, at once, and no more than that takes a moment: the client asks again for the rest
/// (RFC 7862 §15.2.3).
pub(super) async fn copy(compound: &Compound<'_>, args: &CopyArgs<'_>, out: &mut Vec<u8>) -> Done {
    if !args.source_server.is_empty() {
        return Err(Nfsstat4::Notsupp);
    }
    let what = extent(args.src_offset, args.count)?;
    extent(args.dst_offset, args.count)?;
    let (from, to) = both(compound, (&args.src_stateid, &args.dst_stateid)).await?;
    let vfs = compound.cx.vfs();
    let copied = vfs.copy_range((&from, what), (&to, args.dst_offset)).await;
    let (count, verifier) = copied.map_err(status)?;
    // No more than COPY_BYTES_MAX.
    compound
        .cx
        .meter(&to, usize::try_from(count).unwrap_or(usize::MAX));
    put(
        out,
        &CopyOk {
            response: WriteResponse4 {
                callback_id: None,
                count,
                committed: StableHow4::Unstable,
                writeverf: Verifier4(verifier),
            },
            requirements: CopyRequirements4 {
                consecutive: true,
                synchronous: true,
            },
        },
    );
    Ok(())
}
