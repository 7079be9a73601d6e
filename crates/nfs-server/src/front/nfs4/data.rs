//! READ, WRITE, COMMIT (RFC 8881 §18.3, §18.22, §18.32). The bytes go the same ways as those of NFSv3: modes, gate,
//! shares and memory are the files' and not the protocol's.

use nfs_io::plan::placement;
use nfs_wire::nfs4::ops::{CommitArgs, CommitOk, ReadArgs, WriteArgs, WriteOk};
use nfs_wire::nfs4::{Nfsstat4, PROC_COMPOUND, StableHow4, Verifier4, WriteHead};
use nfs_wire::{DecodeError, Decoder, Payload as Data};

use super::compound::{Compound, Done, put};
use super::place::Place;
use super::status::status;
use crate::front::context::committed_range;
use crate::operate::calls::{self, StepKind, step};
use crate::operate::counters::count_bytes;
use crate::operate::trace::Event;
use crate::vfs::{Access, FileKind, Payload, Stability, Target};

type Result<T> = core::result::Result<T, Nfsstat4>;

/// Bytes of a READ's result beside its data: whether the file ends there, and the length.
const READ_FIXED_LEN: usize = 4 + 4;

/// The head of a COMPOUND that has data behind it, as only a WRITE has it: so large that it is worth receiving to a
/// place of its own. `total`: the record's length, where it is known.
///
/// # Errors
/// [`DecodeError::Missing`] when `arguments` is too short to tell; others where the call is garbage.
pub(crate) fn data_behind(
    procedure: u32,
    arguments: &mut Decoder<'_>,
    total: Option<usize>,
) -> core::result::Result<Option<WriteHead>, DecodeError> {
    // Of a record in fragments nobody knows how much comes behind the data, which has to be kept beside it.
    if procedure != PROC_COMPOUND || total.is_none() {
        return Ok(None);
    }
    let head = WriteHead::find(arguments, total)?;
    Ok(head.filter(|head| head.data_len > 0))
}

pub(super) async fn read(compound: &mut Compound<'_>, args: &ReadArgs, out: &mut Vec<u8>) -> Done {
    let file = regular(compound)?.object.handle;
    let (trace, about) = (
        &compound.cx.vfs().trace,
        compound.cx.caller.about(file.as_ref()),
    );
    trace.start(Event::ReadStart, about, args.offset, args.count.into());
    calls::of_range(args.offset, args.count.into());
    let outcome = read_data(compound, args, out).await;
    if let Err(status) = &outcome {
        trace.error(Event::ReadErr, about, args.offset, status.word());
    }
    let len = outcome.unwrap_or(0) as u64;
    trace.done(Event::ReadDone, about, args.offset, len);
    outcome.map(drop)
}

async fn read_data(
    compound: &mut Compound<'_>,
    args: &ReadArgs,
    out: &mut Vec<u8>,
) -> Result<usize> {
    let target = compound
        .io_target_at(args.offset, &args.stateid, Access::READ)
        .await?;
    let cx = compound.cx;
    // More than the largest READ is answered with that much: a short read is the protocol's own way to say so.
    let count = args.count.min(cx.vfs().io_bytes_max) as usize;
    let padded = count.next_multiple_of(4);
    if padded + READ_FIXED_LEN > compound.room(out) {
        return Err(Nfsstat4::RepTooBig);
    }
    cx.meter(&target, count);
    let read = cx.read(&target, (args.offset, count));
    // A second READ holds memory already: two COMPOUNDs that wait for each other's would wait for ever.
    let done = if compound.holds_memory() {
        compound.at_once(read).await
    } else {
        read.await.map_err(status)
    }?;
    count_bytes(&cx.service.counters.bytes_read, done.data.len());
    cx.mode.set(Some(done.mode));
    put(out, &done.eof);
    // At most `io_bytes_max`, which has 32 bits.
    put(out, &u32::try_from(done.data.len()).unwrap_or(u32::MAX));
    let len = done.data.len();
    compound.send(out, done.data, done.share);
    Ok(len)
}

pub(super) async fn write(
    compound: &mut Compound<'_>,
    args: &WriteArgs<'_>,
    out: &mut Vec<u8>,
) -> Done {
    let file = regular(compound)?.object.handle;
    let (trace, about) = (
        &compound.cx.vfs().trace,
        compound.cx.caller.about(file.as_ref()),
    );
    let len = len_of(&args.data) as u64;
    trace.start(Event::WriteStart, about, args.offset, len);
    calls::of_range(args.offset, len);
    let outcome = write_data(compound, args).await;
    if let Err(status) = &outcome {
        trace.error(Event::WriteErr, about, args.offset, status.word());
    }
    let len = outcome.as_ref().map_or(0, |ok| ok.count);
    trace.done(Event::WriteDone, about, args.offset, len.into());
    put(out, &outcome?);
    Ok(())
}

async fn write_data(compound: &mut Compound<'_>, args: &WriteArgs<'_>) -> Result<WriteOk> {
    let target = compound
        .io_target_at(args.offset, &args.stateid, Access::WRITE)
        .await?;
    let cx = compound.cx;
    cx.meter(&target, len_of(&args.data));
    let payload = match args.data {
        Data::Here(data) => copied_payload(compound, args.offset, data).await,
        // It was received to a place of its own; there is one WRITE of which it can be.
        Data::Apart { .. } => compound.apart.take(),
    };
    let payload = payload.ok_or(Nfsstat4::Delay)?;
    let stability = match args.stable {
        StableHow4::Unstable => Stability::Unstable,
        StableHow4::DataSync => Stability::DataSync,
        StableHow4::FileSync => Stability::FileSync,
    };
    let written = cx
        .vfs()
        .write_untold(&cx.engine, &target, args.offset, payload, stability);
    let done = written.await.map_err(status)?;
    count_bytes(&cx.service.counters.bytes_written, done.count);
    cx.mode.set(Some(done.mode));
    Ok(WriteOk {
        // At most the data, whose length has 32 bits.
        count: u32::try_from(done.count).unwrap_or(u32::MAX),
        committed: match done.committed {
            Stability::Unstable => StableHow4::Unstable,
            Stability::DataSync => StableHow4::DataSync,
            Stability::FileSync => StableHow4::FileSync,
        },
        writeverf: Verifier4(done.verifier),
    })
}

/// The data of a WRITE, copied to a buffer that lies as the file's bytes do; `None` where the memory budget has
/// none. It is waited for only where this COMPOUND holds none of it.
async fn copied_payload(compound: &Compound<'_>, offset: u64, data: &[u8]) -> Option<Payload> {
    let cx = compound.cx;
    // Of a WRITE beyond the largest, as much as is taken: it becomes a short one.
    let most = cx.vfs().io_bytes_max as usize;
    let data = data.get(..most).unwrap_or(data);
    let (pool, start) = (&cx.service.receive_buffers, placement(offset));
    let holds_some = compound.holds_record || compound.apart.is_some() || compound.holds_memory();
    let mut buf = match pool.try_take_placed(data.len(), start) {
        Some(buf) => buf,
        None if holds_some => return None,
        None => {
            let _waiting = step(StepKind::Memory);
            pool.take_placed(data.len(), start).await?
        }
    };
    buf.copy_from_slice(data);
    Some(Payload {
        data: buf,
        copied: data.len(),
    })
}

/// Bytes of a WRITE's data, wherever it is.
pub(super) const fn len_of(data: &Data<'_>) -> usize {
    match data {
        Data::Here(data) => data.len(),
        Data::Apart { len } => *len as usize,
    }
}

pub(super) async fn commit(
    compound: &mut Compound<'_>,
    args: &CommitArgs,
    out: &mut Vec<u8>,
) -> Done {
    let target = regular(compound)?.clone();
    let cx = compound.cx;
    let (trace, about) = (
        &cx.vfs().trace,
        cx.caller.about(target.object.handle.as_ref()),
    );
    trace.start(Event::CommitStart, about, args.offset, args.count.into());
    calls::of_range(args.offset, args.count.into());
    let range = committed_range(args.offset, args.count);
    let (result, _wcc) = cx.vfs().commit(&cx.engine, &target, &range).await;
    let outcome = result.map_err(status);
    if let Err(status) = &outcome {
        trace.error(Event::CommitErr, about, args.offset, status.word());
    }
    trace.done(Event::CommitDone, about, args.offset, args.count.into());
    let writeverf = Verifier4(outcome?);
    put(out, &CommitOk { writeverf });
    Ok(())
}

/// The current object, which has to be a regular file.
///
/// # Errors
/// NFS4ERR_ISDIR, NFS4ERR_SYMLINK, NFS4ERR_WRONG_TYPE (RFC 8881 §18.22.3).
pub(super) fn regular<'c>(compound: &'c Compound<'_>) -> Result<&'c Target> {
    regular_at(compound.current()?)
}

/// The same of any place.
///
/// # Errors
/// As [`regular`].
pub(super) fn regular_at(place: &Place) -> Result<&Target> {
    let target = place.file(Nfsstat4::Isdir)?;
    match target.object.kind {
        FileKind::Regular => Ok(target),
        FileKind::Directory => Err(Nfsstat4::Isdir),
        FileKind::Symlink => Err(Nfsstat4::Symlink),
        FileKind::BlockDevice
        | FileKind::CharDevice
        | FileKind::Fifo
        | FileKind::Socket
        | FileKind::Unknown => Err(Nfsstat4::WrongType),
    }
}
