//! READ_PLUS (RFC 7862 §15.10): a range of a file in parts, of which holes are told and not sent. Each part with data is
//! read as a READ of it would be.

use nfs_io::{FileData, Share};
use nfs_wire::nfs4::Nfsstat4;
use nfs_wire::nfs4::ops::{DataContent4, ReadArgs};
use nfs_wire::{Encode, Encoder};

use super::compound::{Compound, Done};
use super::data::regular;
use super::status::status;
use crate::limits;
use crate::operate::counters::count_bytes;
use crate::operate::trace::Event;
use crate::vfs::{Access, Content, Extent, Layout, Target};

type Result<T> = core::result::Result<T, Nfsstat4>;

/// Bytes of a result beside its parts: whether the file ends there, and how many there are.
const FIXED_LEN: usize = 4 + 4;
/// Bytes of a part beside its data, and the most padding of that.
const PART_FIXED_LEN: usize = 4 + 8 + 8 + 3;

/// A part of what was read.
enum Part {
    Data {
        offset: u64,
        data: FileData,
        share: Share,
    },
    Hole {
        offset: u64,
        len: u64,
    },
}

pub(super) async fn read_plus(
    compound: &mut Compound<'_>,
    args: &ReadArgs,
    out: &mut Vec<u8>,
) -> Done {
    let file = regular(compound)?.object.handle;
    let (trace, about) = (
        &compound.cx.vfs().trace,
        compound.cx.caller.about(file.as_ref()),
    );
    trace.start(Event::ReadStart, about, args.offset, args.count.into());
    let outcome = read_parts(compound, args, out).await;
    if let Err(status) = &outcome {
        trace.error(Event::ReadErr, about, args.offset, status.word());
    }
    let len = outcome.unwrap_or(0);
    trace.done(Event::ReadDone, about, args.offset, len);
    outcome.map(drop)
}

/// Returns how many bytes of the file were told, holes among them.
async fn read_parts(
    compound: &mut Compound<'_>,
    args: &ReadArgs,
    out: &mut Vec<u8>,
) -> Result<u64> {
    let target = compound
        .io_target_at(args.offset, &args.stateid, Access::READ)
        .await?;
    let vfs = compound.cx.vfs();
    let count = args.count.min(vfs.io_bytes_max);
    // As many parts as fit into the reply beside all that was asked for.
    let beside = compound.room(out).checked_sub(FIXED_LEN + count as usize);
    let parts_max = beside.map_or(0, |room| room / PART_FIXED_LEN);
    if parts_max == 0 {
        return Err(Nfsstat4::RepTooBig);
    }
    let what = Extent {
        offset: args.offset,
        len: count.into(),
    };
    let parts_max = parts_max.min(limits::READ_PLUS_SEGMENTS_MAX);
    let layout = vfs.layout(&target, what, parts_max).await.map_err(status)?;
    let (parts, eof) = read_layout(compound, &target, args.offset, &layout).await?;
    let told = parts.iter().map(|part| match part {
        Part::Data { data, .. } => data.len() as u64,
        Part::Hole { len, .. } => *len,
    });
    let told = told.sum();
    put_parts(compound, parts, eof, out);
    Ok(told)
}

/// Reads the data of a layout, and says whether the file ends with it. What cannot be had at once is left out at the
/// end, which makes it a short read.
async fn read_layout(
    compound: &Compound<'_>,
    target: &Target,
    offset: u64,
    layout: &Layout,
) -> Result<(Vec<Part>, bool)> {
    let cx = compound.cx;
    let mut parts = Vec::with_capacity(layout.segments.len());
    let (mut eof, mut has_data) = (offset >= layout.size, false);
    for (content, range) in &layout.segments {
        let offset = range.start;
        let len = range.end - range.start;
        if *content == Content::Hole {
            parts.push(Part::Hole { offset, len });
            eof = range.end >= layout.size;
            continue;
        }
        // At most what was asked for, which has 32 bits.
        let wanted = usize::try_from(len).unwrap_or(usize::MAX);
        cx.meter(target, wanted);
        let read = cx.read(target, (offset, wanted));
        // Two COMPOUNDs that hold memory and wait for each other's would wait for ever.
        let read = if compound.holds_memory() || has_data {
            compound.at_once(read).await
        } else {
            read.await.map_err(status)
        };
        let done = match read {
            Ok(done) => done,
            Err(_late) if !parts.is_empty() => return Ok((parts, false)),
            Err(failed) => return Err(failed),
        };
        count_bytes(&cx.service.counters.bytes_read, done.data.len());
        cx.mode.set(Some(done.mode));
        (eof, has_data) = (done.eof, true);
        let is_short = done.data.len() < wanted;
        if !done.data.is_empty() {
            parts.push(Part::Data {
                offset,
                data: done.data,
                share: done.share,
            });
        }
        if is_short {
            break;
        }
    }
    Ok((parts, eof))
}

fn put_parts(compound: &mut Compound<'_>, parts: Vec<Part>, eof: bool, out: &mut Vec<u8>) {
    let mut e = Encoder::new(out);
    eof.encode(&mut e);
    // At most READ_PLUS_SEGMENTS_MAX.
    e.u32(u32::try_from(parts.len()).unwrap_or(u32::MAX));
    for part in parts {
        let mut e = Encoder::new(out);
        match part {
            Part::Hole { offset, len } => {
                DataContent4::Hole.encode(&mut e);
                e.u64(offset);
                e.u64(len);
            }
            Part::Data {
                offset,
                data,
                share,
            } => {
                DataContent4::Data.encode(&mut e);
                e.u64(offset);
                // At most `io_bytes_max`, which has 32 bits.
                e.u32(u32::try_from(data.len()).unwrap_or(u32::MAX));
                compound.send(out, data, share);
            }
        }
    }
}
