//! NFSv4.1 and NFSv4.2 (RFC 8881, RFC 7862): one function per operation, in files by theme. Each shapes the call for
//! [`vfs`](crate::vfs), waits for it, and shapes the answer; none sees bytes or descriptors.
//!
//! A COMPOUND is looked through before any of its operations runs ([`nfs_wire::nfs4::Compound::scan`]), and then carried
//! out one operation after the other until one fails. What cannot be decoded fails where it stands: the operations
//! before it are carried out (RFC 8881 §15.2).

mod acl;
mod advise;
mod attributes;
mod audited;
mod callback;
mod compound;
mod data;
mod directory;
mod handles;
mod lock;
mod names;
mod object;
mod open;
mod owners;
mod place;
mod read_plus;
mod readdir;
mod recorded;
mod session;
mod space;
mod stateids;
mod status;
mod wanted;
mod xattr;

use std::rc::Rc;
use std::time::Duration;

use nfs_wire::Decoder;
use nfs_wire::nfs4::{
    ArgOp, Compound as Call, CompoundReply, MinorVersion, Nfsstat4, Opnum, Place as Stands,
    ReplyLimits, Scan,
};
use nfs_wire::record::MARK_BYTES;
use nfs_wire::rpc::AcceptStat;
use nfs_wire::xdr::padding;

use self::audited::told;
pub(crate) use self::callback::notify_waiters;
use self::compound::{Compound, Done};
pub(crate) use self::data::data_behind;
use self::place::Place;
use self::recorded::recorded;
use self::session::Begun;
use crate::exports::NfsVersion;
use crate::front::context::Context;
use crate::front::service::Service;
use crate::limits;
use crate::operate::call_counters::{Called, Ended};
use crate::operate::calls::{self, Note, StepKind, step};
use crate::rpc::caller::Caller;
use crate::rpc::reply::Draft;
use crate::vfs::Payload;

/// The record of a COMPOUND as it was received.
pub(crate) struct Received<'a> {
    /// The record, without a WRITE's data where that was received apart.
    pub(crate) record: &'a [u8],
    pub(crate) apart: Option<Apart>,
}

/// A WRITE's data that was received apart from its record.
pub(crate) struct Apart {
    /// Where the data belongs in the record, in bytes from its beginning.
    pub(crate) at: usize,
    /// Bytes that the data has in the record, its padding and what of it is too much included.
    pub(crate) len_in_record: usize,
    /// `None` where nothing was received, because the WRITE would have been refused anyhow.
    pub(crate) payload: Option<Payload>,
}

/// What became of a COMPOUND.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ran {
    /// Its reply is complete.
    ToItsEnd,
    /// Its connection went, and it would have changed nothing: there is no reply.
    LeftOff,
}

/// Whether a caller may get as far as the file of a WRITE whose data is still to come: the minor version is served,
/// the handle was made here, and its export lets the caller in.
pub(crate) fn lets_in(
    service: &Service,
    caller: &Caller,
    minor: MinorVersion,
    handle: &[u8],
) -> bool {
    served(service, minor).is_some_and(|version| {
        let caller = Caller {
            version,
            ..caller.clone()
        };
        service.lets_in(&caller, handle)
    })
}

/// Carries out a COMPOUND, whose arguments are in `decoder`, and appends its results to the reply.
///
/// One that changes nothing and whose reply is not kept ends with its connection: nobody waits for it any more, and
/// its client asks for it anew.
///
/// # Errors
/// GARBAGE_ARGS for what has not even the beginning of a COMPOUND.
pub(crate) async fn run(
    cx: &mut Context,
    received: Received<'_>,
    mut decoder: Decoder<'_>,
    reply: &mut Draft,
) -> Result<Ran, AcceptStat> {
    let decoding = step(StepKind::Decode);
    let call = Call::decode(&mut decoder).map_err(|_| AcceptStat::GarbageArgs)?;
    decoding.end();
    let begin = reply.out().len();
    let before_any = ReplyLimits {
        message: limits::COMPOUND_REPLY_BYTES_NO_SESSION,
        cached: None,
    };
    let mut results = CompoundReply::begin(reply.out(), MARK_BYTES, &call.tag, before_any);
    let Some((minor, version)) = minor(cx, call.minorversion) else {
        results.fail_whole(Nfsstat4::MinorVersMismatch);
        results.finish(reply.first_mut());
        return Ok(Ran::ToItsEnd);
    };
    cx.caller.version = version;
    let scan = call.scan(minor);
    cx.shares_looks = !scan.changes;
    let is_lasting = scan.changes || scan.sequence.is_none_or(|sequence| sequence.cachethis);
    let mut all = All {
        call: &call,
        scan,
        is_lasting,
        minor,
        begin,
        received,
        operations_at: decoder.position(),
    };
    if is_lasting {
        carry_out(cx, &mut all, &mut results, reply).await;
        return Ok(Ran::ToItsEnd);
    }
    let gone = Rc::clone(&cx.gone);
    Ok(tokio::select! {
        biased;
        () = carry_out(cx, &mut all, &mut results, reply) => Ran::ToItsEnd,
        () = gone.notified() => Ran::LeftOff,
    })
}

/// A COMPOUND as it came.
struct All<'a> {
    call: &'a Call<'a>,
    scan: Scan,
    /// It is carried out to its end though its connection goes.
    is_lasting: bool,
    minor: MinorVersion,
    /// Where its reply begins, behind RPC's header.
    begin: usize,
    received: Received<'a>,
    /// Where in the record its operations begin.
    operations_at: usize,
}

impl All<'_> {
    /// Bytes of the whole record.
    fn record_len(&self) -> usize {
        let apart = self.received.apart.as_ref();
        self.received.record.len() + apart.map_or(0, |apart| apart.len_in_record)
    }

    /// The bytes of its operations in order, wherever they were received to.
    fn operations(&self) -> [&[u8]; 4] {
        static ZEROS: [u8; 3] = [0; 3];
        let record = self.received.record;
        let part = |from: usize, to: usize| record.get(from..to).unwrap_or_default();
        match &self.received.apart {
            None => [part(self.operations_at, record.len()), &[], &[], &[]],
            Some(apart) => {
                let data = apart.payload.as_ref().map(|payload| &*payload.data);
                let data = data.unwrap_or_default();
                let padding = ZEROS.get(..padding(data.len())).unwrap_or_default();
                let before = part(self.operations_at, apart.at);
                [before, data, padding, part(apart.at, record.len())]
            }
        }
    }
}

/// The minor version, if it is served.
fn minor(cx: &Context, number: u32) -> Option<(MinorVersion, NfsVersion)> {
    let minor = MinorVersion::try_from(number).ok()?;
    Some((minor, served(&cx.service, minor)?))
}

/// The version of NFS that a minor version is, if it is served.
fn served(service: &Service, minor: MinorVersion) -> Option<NfsVersion> {
    let version = match minor {
        MinorVersion::V0 => return None,
        MinorVersion::V1 => NfsVersion::V41,
        MinorVersion::V2 => NfsVersion::V42,
    };
    service.versions.contains(version).then_some(version)
}

/// Carries out all operations, in the session that the first of them names, or without one. The reply is complete
/// afterwards.
async fn carry_out(
    cx: &mut Context,
    all: &mut All<'_>,
    results: &mut CompoundReply,
    reply: &mut Draft,
) {
    let mut clock = Clock::start();
    let session = match (all.scan.sequence, outside(&all.scan, all.call.announced)) {
        (Some(sequence), _) => {
            let step = step(StepKind::Operation);
            step.note(Note::Operation(Opnum::Sequence.number(), 0));
            let begun = session::begin(cx, all, &sequence, results, reply);
            step.end();
            let counters = &cx.service.counters;
            let called = Called::V4(Opnum::Sequence);
            let took = clock.lap();
            counters.called(called, took);
            counters.no_export.record(&Ended {
                called,
                mode: None,
                error: match &begun {
                    Begun::Run(_) => None,
                    Begun::Answered(failed) => failed.map(Nfsstat4::word),
                },
                took,
            });
            match begun {
                Begun::Run(mut session) => {
                    if !all.is_lasting {
                        session.may_be_left_off();
                    }
                    Some(session)
                }
                // It failed, or came before: the reply is there.
                Begun::Answered(_) => return,
            }
        }
        (None, Ok(())) => None,
        (None, Err(failed)) => {
            let (opnum, status) = failed;
            let _ends_the_compound = results.put_failure(reply.out(), opnum, status);
            results.finish(reply.first_mut());
            return;
        }
    };
    let ops = match session {
        Some(_) => all.call.ops_behind_first(all.minor, &all.scan),
        None => all.call.ops(all.minor),
    };
    let apart = all.received.apart.take().and_then(|apart| apart.payload);
    let mut compound = Compound::new(cx, all.minor, session, apart);
    compound.holds_record = all.received.record.len() > limits::CALL_BYTES_WHOLE_MAX;
    for op in ops {
        let ended = match op {
            Ok(op) => {
                let ended = one(&mut compound, &op, results, reply).await;
                count_one(&compound, op.opnum(), ended.err(), clock.lap());
                ended
            }
            Err(bad) => results.put_failure(reply.out(), bad.opnum(), bad.status()),
        };
        if ended.is_err() {
            break;
        }
    }
    results.finish(reply.first_mut());
    if let Some(session) = compound.session.take() {
        // What is kept is short: its results were held to that, so that no READ in it is spliced.
        let kept = session.is_kept().then(|| reply.to_bytes()).flatten();
        let kept = kept.as_deref().and_then(|bytes| bytes.get(all.begin..));
        session.finish(kept.unwrap_or_default());
    }
}

/// Times a COMPOUND's operations: each from the end of the one before it, so that the clock is asked once for each; and
/// that of the steps, which takes half the time of the kernel's. In its ticks.
struct Clock(u64);

impl Clock {
    fn start() -> Self {
        Self(calls::now())
    }

    /// How long it is since the start, or since this was asked last.
    fn lap(&mut self) -> Duration {
        let now = calls::now();
        let took = calls::nanoseconds(self.0, now);
        self.0 = now;
        Duration::from_nanos(took)
    }
}

/// Whether a COMPOUND may be carried out that names no session (RFC 8881 §2.10.2.1, §18.46.3).
///
/// # Errors
/// The operation that fails, and how.
fn outside(scan: &Scan, announced: u32) -> Result<(), (Opnum, Nfsstat4)> {
    let Some(first) = scan.first else {
        // A bad one is answered in its place; where there is none, nothing is.
        return Ok(());
    };
    match first.place() {
        Stands::Alone if announced == 1 => Ok(()),
        Stands::Alone => Err((first, Nfsstat4::NotOnlyOp)),
        Stands::Behind | Stands::First => Err((first, Nfsstat4::OpNotInSession)),
    }
}

/// Carries out one operation and puts its result into the reply.
///
/// # Errors
/// The status with which the COMPOUND ends.
async fn one(
    compound: &mut Compound<'_>,
    op: &ArgOp<'_>,
    results: &mut CompoundReply,
    reply: &mut Draft,
) -> Result<(), Nfsstat4> {
    let number = op.opnum().number();
    let step = step(StepKind::Operation);
    step.note(Note::Operation(number, 0));
    let ended = answer_one(compound, op, results, reply).await;
    step.note(Note::Operation(
        number,
        ended.err().unwrap_or(Nfsstat4::Ok) as u32,
    ));
    step.end();
    ended
}

/// Counts an operation, for the export in which the COMPOUND is behind it.
fn count_one(compound: &Compound<'_>, operation: Opnum, failed: Option<Nfsstat4>, took: Duration) {
    let called = Called::V4(operation);
    let ended = Ended {
        called,
        mode: compound.cx.mode.take(),
        error: failed.map(Nfsstat4::word),
        took,
    };
    let counters = &compound.cx.service.counters;
    counters.called(called, took);
    match compound.current() {
        Ok(Place::File(target)) => target.tree.calls.record(&ended),
        Ok(Place::Node(_)) | Err(_) => counters.no_export.record(&ended),
    }
}

async fn answer_one(
    compound: &mut Compound<'_>,
    op: &ArgOp<'_>,
    results: &mut CompoundReply,
    reply: &mut Draft,
) -> Result<(), Nfsstat4> {
    let opnum = op.opnum();
    let refused = compound
        .may_begin(op)
        .and_then(|()| results.check_before(op));
    if let Err(status) = refused {
        return results.put_failure(reply.out(), opnum, status);
    }
    compound.begin_result(results.room());
    let mut body = compound.take_scratch();
    let told = told(compound, op);
    let recorded = recorded(compound, op);
    let done = perform(compound, op, &mut body).await;
    let status = done.err().unwrap_or(Nfsstat4::Ok);
    if let Some(recorded) = recorded {
        recorded.answered(compound, status, &body);
    }
    if let Some(told) = told {
        told.answered(Some(status.word()));
    }
    // What has more to tell of a failure than its status has told it there.
    let is_told = status == Nfsstat4::Ok || has_failure_body(opnum, status);
    if !is_told {
        compound.give_back_scratch(body);
        compound.drop_data();
        return results.put_failure(reply.out(), opnum, status);
    }
    let _encoding = step(StepKind::Encode);
    let data_len = compound.data_len();
    let ended = results.put_with(reply.out(), opnum, data_len, |e| {
        e.u32(opnum.number());
        e.u32(status as u32);
        e.opaque_fixed(&body);
        status
    });
    let body_len = body.len();
    compound.give_back_scratch(body);
    match ended {
        Ok(()) => compound.hand_over(body_len, reply),
        Err(_does_not_fit) => compound.drop_data(),
    }
    ended
}

/// Whether an operation that failed so tells more than its status (RFC 8881 §18.10.2, §18.11.2, §18.30.2).
fn has_failure_body(opnum: Opnum, status: Nfsstat4) -> bool {
    match opnum {
        Opnum::Lock | Opnum::Lockt => status == Nfsstat4::Denied,
        Opnum::Setattr => true,
        _ => false,
    }
}

/// Carries out an operation, which appends to `out` what its result has beside its status.
async fn perform(compound: &mut Compound<'_>, op: &ArgOp<'_>, out: &mut Vec<u8>) -> Done {
    match op {
        ArgOp::Access(args) => object::access(compound, args, out).await,
        ArgOp::Close(args) => open::close(compound, args, out).await,
        ArgOp::Commit(args) => data::commit(compound, args, out).await,
        ArgOp::Create(args) => directory::create(compound, args, out).await,
        ArgOp::Getattr(args) => object::getattr(compound, args, out).await,
        ArgOp::Getfh(()) => handles::getfh(compound, out),
        ArgOp::Link(args) => directory::link(compound, args, out).await,
        ArgOp::Lock(args) => lock::lock(compound, args, out).await,
        ArgOp::Lockt(args) => lock::lockt(compound, args, out).await,
        ArgOp::Locku(args) => lock::locku(compound, args, out).await,
        ArgOp::Lookup(args) => handles::lookup(compound, args).await,
        ArgOp::Lookupp(()) => handles::lookupp(compound).await,
        ArgOp::Nverify(args) => object::nverify(compound, args).await,
        ArgOp::Open(args) => open::open(compound, args, out).await,
        ArgOp::OpenDowngrade(args) => open::open_downgrade(compound, args, out),
        ArgOp::Putfh(args) => handles::putfh(compound, args).await,
        ArgOp::Putpubfh(()) | ArgOp::Putrootfh(()) => handles::putrootfh(compound).await,
        ArgOp::Read(args) => data::read(compound, args, out).await,
        ArgOp::Readdir(args) => readdir::readdir(compound, args, out).await,
        ArgOp::Readlink(()) => object::readlink(compound, out).await,
        ArgOp::Remove(args) => directory::remove(compound, args, out).await,
        ArgOp::Rename(args) => directory::rename(compound, args, out).await,
        ArgOp::Restorefh(()) => handles::restorefh(compound),
        ArgOp::Savefh(()) => handles::savefh(compound),
        ArgOp::Secinfo(args) => handles::secinfo(compound, args, out).await,
        ArgOp::SecinfoNoName(args) => handles::secinfo_no_name(compound, args, out).await,
        ArgOp::Setattr(args) => object::setattr(compound, args, out).await,
        ArgOp::Verify(args) => object::verify(compound, args).await,
        ArgOp::Write(args) => data::write(compound, args, out).await,
        ArgOp::BackchannelCtl(args) => session::backchannel_ctl(compound, args),
        ArgOp::BindConnToSession(args) => session::bind(compound, args, out),
        ArgOp::ExchangeId(args) => session::exchange_id(compound, args, out),
        ArgOp::CreateSession(args) => session::create_session(compound, args, out).await,
        ArgOp::DestroySession(args) => session::destroy_session(compound, args),
        ArgOp::DestroyClientid(args) => session::destroy_clientid(compound, args).await,
        ArgOp::FreeStateid(args) => stateids::free(compound, args),
        ArgOp::TestStateid(args) => stateids::test(compound, args, out),
        ArgOp::ReclaimComplete(args) => session::reclaim_complete(compound, args).await,
        // Only the first operation may be one (RFC 8881 §18.46.3).
        ArgOp::Sequence(_) => Err(Nfsstat4::SequencePos),
        of_later => perform_of_42(compound, of_later, out).await,
    }
}

/// The same of the operations that came with minor version 2.
async fn perform_of_42(compound: &mut Compound<'_>, op: &ArgOp<'_>, out: &mut Vec<u8>) -> Done {
    match op {
        ArgOp::Allocate(args) => space::allocate(compound, args).await,
        ArgOp::Clone(args) => space::clone(compound, args).await,
        ArgOp::Copy(args) => space::copy(compound, args, out).await,
        ArgOp::Deallocate(args) => space::deallocate(compound, args).await,
        ArgOp::IoAdvise(args) => advise::io_advise(compound, args, out).await,
        ArgOp::Getxattr(args) => xattr::getxattr(compound, args, out).await,
        ArgOp::Listxattrs(args) => xattr::listxattrs(compound, args, out).await,
        ArgOp::Removexattr(args) => xattr::removexattr(compound, args, out).await,
        ArgOp::Setxattr(args) => xattr::setxattr(compound, args, out).await,
        ArgOp::ReadPlus(args) => read_plus::read_plus(compound, args, out).await,
        ArgOp::Seek(args) => space::seek(compound, args, out).await,
        _ => Err(Nfsstat4::Notsupp),
    }
}
