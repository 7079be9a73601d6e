//! NFSv4.1 and NFSv4.2 (RFC 8881, RFC 7862): one function per operation, in files by theme. Each shapes the call for
//! [`vfs`](crate::vfs), waits for it, and shapes the answer; none sees bytes or descriptors.
//!
//! A COMPOUND is looked through before any of its operations runs ([`nfs_wire::nfs4::Compound::scan`]), and then carried
//! out one operation after the other until one fails. What cannot be decoded fails where it stands: the operations
//! before it are carried out (RFC 8881 §15.2).

mod attributes;
mod audited;
mod compound;
mod data;
mod directory;
mod handles;
mod lock;
mod names;
mod object;
mod open;
mod place;
mod read_plus;
mod readdir;
mod session;
mod space;
mod stateids;
mod status;
mod xattr;

use nfs_wire::Decoder;
use nfs_wire::nfs4::{
    ArgOp, Compound as Call, CompoundReply, MinorVersion, Nfsstat4, Opnum, Place as Stands,
    ReplyLimits, Scan,
};
use nfs_wire::record::MARK_BYTES;
use nfs_wire::rpc::AcceptStat;

use self::audited::told;
use self::compound::{Compound, Done};
use self::session::Begun;
use crate::exports::NfsVersion;
use crate::front::context::Context;
use crate::limits;
use crate::rpc::reply::Draft;

/// Carries out a COMPOUND, whose arguments are in `decoder`, and appends its results to the reply.
///
/// # Errors
/// GARBAGE_ARGS for what has not even the beginning of a COMPOUND.
pub(crate) async fn run(
    cx: &mut Context,
    record: &[u8],
    mut decoder: Decoder<'_>,
    reply: &mut Draft,
) -> Result<(), AcceptStat> {
    let call = Call::decode(&mut decoder).map_err(|_| AcceptStat::GarbageArgs)?;
    let operations = record.get(decoder.position()..).unwrap_or_default();
    let begin = reply.out().len();
    let before_any = ReplyLimits {
        message: limits::COMPOUND_REPLY_BYTES_NO_SESSION,
        cached: None,
    };
    let mut results = CompoundReply::begin(reply.out(), MARK_BYTES, &call.tag, before_any);
    match minor(cx, call.minorversion) {
        Some((minor, version)) => {
            cx.caller.version = version;
            let all = All {
                call: &call,
                operations,
                minor,
                begin,
                record_len: record.len(),
            };
            carry_out(cx, &all, &mut results, reply).await;
        }
        None => {
            results.fail_whole(Nfsstat4::MinorVersMismatch);
            results.finish(reply.first_mut());
        }
    }
    Ok(())
}

/// A COMPOUND as it came.
struct All<'a> {
    call: &'a Call<'a>,
    /// The bytes of its operations.
    operations: &'a [u8],
    minor: MinorVersion,
    /// Where its reply begins, behind RPC's header.
    begin: usize,
    /// Bytes of the whole record.
    record_len: usize,
}

/// The minor version, if it is served.
fn minor(cx: &Context, number: u32) -> Option<(MinorVersion, NfsVersion)> {
    let version = match MinorVersion::try_from(number).ok()? {
        MinorVersion::V0 => return None,
        minor @ MinorVersion::V1 => (minor, NfsVersion::V41),
        minor @ MinorVersion::V2 => (minor, NfsVersion::V42),
    };
    cx.service.versions.contains(version.1).then_some(version)
}

/// Carries out all operations, in the session that the first of them names, or without one. The reply is complete
/// afterwards.
async fn carry_out(
    cx: &mut Context,
    all: &All<'_>,
    results: &mut CompoundReply,
    reply: &mut Draft,
) {
    let scan = all.call.scan(all.minor);
    let session = match (scan.sequence, outside(&scan, all.call.announced)) {
        (Some(sequence), _) => match session::begin(cx, all, &sequence, results, reply) {
            Begun::Run(session) => Some(session),
            // It failed, or came before: the reply is there.
            Begun::Answered => return,
        },
        (None, Ok(())) => None,
        (None, Err(failed)) => {
            let (opnum, status) = failed;
            let _ends_the_compound = results.put_failure(reply.out(), opnum, status);
            results.finish(reply.first_mut());
            return;
        }
    };
    let passed = usize::from(session.is_some());
    let mut compound = Compound::new(cx, all.minor, session, None);
    for op in all.call.ops(all.minor).skip(passed) {
        let ended = match op {
            Ok(op) => one(&mut compound, &op, results, reply).await,
            Err(bad) => results.put_failure(reply.out(), bad.opnum(), bad.status()),
        };
        if ended.is_err() {
            break;
        }
    }
    results.finish(reply.first_mut());
    if let Some(session) = compound.session.take() {
        // What is kept is short: its results were held to that.
        let kept = session.is_kept().then(|| reply.to_bytes());
        let kept = kept.as_deref().and_then(|bytes| bytes.get(all.begin..));
        session.finish(kept.unwrap_or_default());
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
    let done = perform(compound, op, &mut body).await;
    let status = done.err().unwrap_or(Nfsstat4::Ok);
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
        ArgOp::Setattr(args) => {
            let set = object::setattr(compound, args).await?;
            compound::put(out, &set);
            Ok(())
        }
        ArgOp::Verify(args) => object::verify(compound, args).await,
        ArgOp::Write(args) => data::write(compound, args, out).await,
        ArgOp::BackchannelCtl(_) => Ok(()),
        ArgOp::BindConnToSession(args) => session::bind(compound, args, out),
        ArgOp::ExchangeId(args) => session::exchange_id(compound, args, out),
        ArgOp::CreateSession(args) => session::create_session(compound, args, out),
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
        ArgOp::IoAdvise(args) => space::io_advise(compound, args, out),
        ArgOp::Getxattr(args) => xattr::getxattr(compound, args, out).await,
        ArgOp::Listxattrs(args) => xattr::listxattrs(compound, args, out).await,
        ArgOp::Removexattr(args) => xattr::removexattr(compound, args, out).await,
        ArgOp::Setxattr(args) => xattr::setxattr(compound, args, out).await,
        ArgOp::ReadPlus(args) => read_plus::read_plus(compound, args, out).await,
        ArgOp::Seek(args) => space::seek(compound, args, out).await,
        _ => Err(Nfsstat4::Notsupp),
    }
}
