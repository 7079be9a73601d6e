//! READ, WRITE, COMMIT (RFC 1813 §3.3.6, §3.3.7, §3.3.21).

use nfs_wire::nfs3::{
    CommitArgs, CommitOk, Failure, Nfsstat3, PostOpAttr, Procedure, ReadArgs, ReadOk, ReadOkHead,
    StableHow, WccData, WriteHead, WriteOk,
};
use nfs_wire::{Decode, DecodeError, Decoder};

use super::convert::{fail, fattr3, wcc_data};
use super::object::post_op_attr;
use super::{Context, Held, put};
use crate::front::context::committed_range;
use crate::operate::calls;
use crate::operate::counters::count_bytes;
use crate::operate::trace::Event;
use crate::vfs::{Error, Payload, Stability};

/// The arguments of a call that has data behind them and nothing behind that, as only a WRITE has it: so
/// large that it is worth receiving to a place of its own. `total`: the record's length, where it is known.
///
/// # Errors
/// [`DecodeError::Missing`] when `arguments` is too short to tell; others where the call is garbage.
pub(crate) fn data_behind(
    procedure: u32,
    arguments: &mut Decoder<'_>,
    total: Option<usize>,
) -> Result<Option<WriteHead>, DecodeError> {
    if procedure != Procedure::Write as u32 {
        return Ok(None);
    }
    let head = WriteHead::decode(arguments)?;
    let end = arguments.position().checked_add(head.tail_len());
    let is_whole = total.is_none_or(|total| end == Some(total));
    Ok(is_whole.then_some(head))
}

pub(super) async fn read(cx: &Context, args: &ReadArgs, out: &mut Vec<u8>) -> Held {
    let (trace, about) = (&cx.vfs().trace, cx.caller.about(args.file.as_ref()));
    trace.start(Event::ReadStart, about, args.offset, args.count.into());
    calls::of_range(args.offset, args.count.into());
    let outcome = read_data(cx, args, out).await;
    if let Err(status) = &outcome {
        trace.error(Event::ReadErr, about, args.offset, status.word());
    }
    let held = outcome.unwrap_or_default();
    let len = held.data.as_ref().map_or(0, |data| data.len());
    trace.done(Event::ReadDone, about, args.offset, len as u64);
    held
}

/// The results go to `out`, those of a failure too.
async fn read_data(cx: &Context, args: &ReadArgs, out: &mut Vec<u8>) -> Result<Held, Nfsstat3> {
    let refused = |failure: Failure<PostOpAttr>, out: &mut Vec<u8>| {
        let status = failure.status;
        put(out, &Err::<ReadOk<'_>, _>(failure));
        Err(status)
    };
    let target = match cx.target(&args.file).await {
        Ok(target) => target,
        Err(error) => return refused(fail(error, PostOpAttr::None), out),
    };
    // More than rtmax is answered with rtmax: a short read is the protocol's own way to say so.
    let count = args.count.min(cx.vfs().io_bytes_max) as usize;
    cx.meter(&target, count);
    let range = (args.offset, count);
    match cx.vfs().read(&cx.engine, &target, range, true).await {
        Ok(done) => {
            let file_attributes = Some(fattr3(&done.attributes));
            // At most `io_bytes_max`, which has 32 bits.
            let data_len = u32::try_from(done.data.len()).unwrap_or(u32::MAX);
            count_bytes(&cx.service.counters.bytes_read, done.data.len());
            cx.mode.set(Some(done.mode));
            put(out, &Nfsstat3::Ok);
            put(
                out,
                &ReadOkHead {
                    file_attributes,
                    eof: done.eof,
                    data_len,
                },
            );
            Ok(Held {
                data: Some(done.data),
                reservation: None,
                share: Some(done.share),
            })
        }
        Err(error) => {
            let attributes = post_op_attr(cx, &target).await;
            refused(fail(error, attributes), out)
        }
    }
}

pub(super) async fn write(
    cx: &Context,
    args: &WriteHead,
    payload: Option<Payload>,
) -> Result<WriteOk, Failure<WccData>> {
    let (trace, about) = (&cx.vfs().trace, cx.caller.about(args.file.as_ref()));
    trace.start(Event::WriteStart, about, args.offset, args.count.into());
    calls::of_range(args.offset, args.count.into());
    let outcome = write_data(cx, args, payload).await;
    if let Err(failure) = &outcome {
        trace.error(Event::WriteErr, about, args.offset, failure.status.word());
    }
    let len = outcome.as_ref().map_or(0, |ok| ok.count);
    trace.done(Event::WriteDone, about, args.offset, len.into());
    outcome
}

async fn write_data(
    cx: &Context,
    args: &WriteHead,
    payload: Option<Payload>,
) -> Result<WriteOk, Failure<WccData>> {
    let none = WccData::default();
    let target = cx
        .target(&args.file)
        .await
        .map_err(|error| fail(error, none))?;
    if args.count != args.data_len {
        // RFC 1813 §3.3.7: count is the number of bytes of data; which of two to believe is
        // not for the server to guess.
        let wcc = cx.vfs().wcc_unchanged(&target).await;
        return Err(fail(Error::Invalid, wcc_data(&wcc)));
    }
    cx.meter(&target, args.data_len as usize);
    let Some(payload) = payload else {
        let wcc = cx.vfs().wcc_unchanged(&target).await;
        return Err(fail(Error::Busy, wcc_data(&wcc)));
    };
    let stability = match args.stable {
        StableHow::Unstable => Stability::Unstable,
        StableHow::DataSync => Stability::DataSync,
        StableHow::FileSync => Stability::FileSync,
    };
    let (result, wcc) = cx
        .vfs()
        .write(&cx.engine, &target, args.offset, payload, stability)
        .await;
    let file_wcc = wcc_data(&wcc);
    match result {
        Ok(done) => {
            count_bytes(&cx.service.counters.bytes_written, done.count);
            cx.mode.set(Some(done.mode));
            Ok(WriteOk {
                file_wcc,
                // At most `args.count`.
                count: u32::try_from(done.count).unwrap_or(args.count),
                committed: stable_how(done.committed),
                verf: done.verifier,
            })
        }
        Err(error) => Err(fail(error, file_wcc)),
    }
}

pub(super) async fn commit(cx: &Context, args: &CommitArgs) -> Result<CommitOk, Failure<WccData>> {
    let (trace, about) = (&cx.vfs().trace, cx.caller.about(args.file.as_ref()));
    trace.start(Event::CommitStart, about, args.offset, args.count.into());
    calls::of_range(args.offset, args.count.into());
    let outcome = commit_file(cx, args).await;
    if let Err(failure) = &outcome {
        trace.error(Event::CommitErr, about, args.offset, failure.status.word());
    }
    trace.done(Event::CommitDone, about, args.offset, args.count.into());
    outcome
}

async fn commit_file(cx: &Context, args: &CommitArgs) -> Result<CommitOk, Failure<WccData>> {
    let none = WccData::default();
    let target = cx
        .target(&args.file)
        .await
        .map_err(|error| fail(error, none))?;
    let range = committed_range(args.offset, args.count);
    let (result, wcc) = cx.vfs().commit(&cx.engine, &target, &range).await;
    let file_wcc = wcc_data(&wcc);
    match result {
        Ok(verf) => Ok(CommitOk { file_wcc, verf }),
        Err(error) => Err(fail(error, file_wcc)),
    }
}

fn stable_how(stability: Stability) -> StableHow {
    match stability {
        Stability::Unstable => StableHow::Unstable,
        Stability::DataSync => StableHow::DataSync,
        Stability::FileSync => StableHow::FileSync,
    }
}
