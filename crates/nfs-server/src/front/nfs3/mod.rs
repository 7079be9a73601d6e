//! NFSv3 (RFC 1813): one function per procedure. Each shapes the call for [`vfs`](crate::vfs),
//! waits for it, and shapes the answer; none sees bytes or descriptors.

mod audited;
pub(super) mod convert;
mod create;
mod data;
mod directory;
mod filesystem;
mod names;
mod object;
mod readdir;
mod recorded;
mod status;

use nfs_io::{FileData, Reservation, Share};
use nfs_wire::nfs3::{Call, Nfsstat3, Procedure, WriteHead};
use nfs_wire::{Encode, Encoder};

use crate::front::context::Context;
use crate::front::told::Told;
use crate::operate::calls::{StepKind, step};
use crate::vfs::Payload;

use self::audited::{deed, status_of};
pub(crate) use self::data::data_behind;
use self::recorded::recorded;

/// A call with what it carries: a WRITE's data is not in the record but in a buffer of its own,
/// `None` where the memory budget had none.
pub(crate) enum Request<'a> {
    Write(WriteHead, Option<Payload>),
    Other(Call<'a>),
}

/// Memory of the budget that a reply holds until it is sent.
#[derive(Default)]
pub(crate) struct Held {
    /// READ's data, to be sent behind the results.
    pub(crate) data: Option<FileData>,
    /// What the results themselves are held with, where they may be long.
    pub(crate) reservation: Option<Reservation>,
    /// What of its client's share the reply is.
    pub(crate) share: Option<Share>,
}

/// Must not run twice: a repetition is answered from the reply cache. A WRITE among them: by the time that
/// it runs again the client may have been answered and have written the same bytes anew, and the old ones
/// would stand over them. A COMMIT may: it changes no byte, and flushing once more is only more than
/// was asked for.
pub(crate) fn is_remembered(procedure: Procedure) -> bool {
    match procedure {
        Procedure::Setattr
        | Procedure::Write
        | Procedure::Create
        | Procedure::Mkdir
        | Procedure::Symlink
        | Procedure::Mknod
        | Procedure::Remove
        | Procedure::Rmdir
        | Procedure::Rename
        | Procedure::Link => true,
        Procedure::Null
        | Procedure::Getattr
        | Procedure::Lookup
        | Procedure::Access
        | Procedure::Readlink
        | Procedure::Read
        | Procedure::Readdir
        | Procedure::Readdirplus
        | Procedure::Fsstat
        | Procedure::Fsinfo
        | Procedure::Pathconf
        | Procedure::Commit => false,
    }
}

/// Runs a call and appends its results to `out`; tells the audit of it, and those who record. The request is taken by reference, as
/// it is large: a future that it is moved into moves it again with itself. Of a WRITE the data is taken out.
pub(crate) async fn run(cx: &Context, request: &mut Request<'_>, out: &mut Vec<u8>) -> Held {
    let audit = &cx.service.audit;
    let told = audit
        .is_wanted()
        .then(|| Box::new(Told::new(cx, deed(cx, request))));
    let recorded = recorded(cx, request);
    let begin = out.len();
    let held = perform(cx, request, out).await;
    if let Some(recorded) = recorded {
        recorded.answered(cx, out.get(begin..).unwrap_or_default(), &held);
    }
    if let Some(told) = told {
        told.answered(status_of(out.get(begin..).unwrap_or_default()));
    }
    held
}

/// The word of the status with which a call failed, by the results of its reply; `None` where it went well, and of
/// NULL, which has no status.
pub(crate) fn error_of(procedure: Procedure, results: Option<&[u8]>) -> Option<&'static str> {
    let first = results?.first_chunk()?;
    let status = Nfsstat3::try_from(u32::from_be_bytes(*first)).ok()?;
    (procedure != Procedure::Null && status != Nfsstat3::Ok).then(|| status.word())
}

async fn perform(cx: &Context, request: &mut Request<'_>, out: &mut Vec<u8>) -> Held {
    let call = match request {
        Request::Write(head, payload) => {
            put(out, &data::write(cx, head, payload.take()).await);
            return Held::default();
        }
        Request::Other(call) => call,
    };
    match call {
        // NULL has no results; a WRITE always comes as `Request::Write`.
        Call::Null(()) | Call::Write(_) => {}
        Call::Getattr(args) => put(out, &object::getattr(cx, args).await),
        Call::Setattr(args) => put(out, &object::setattr(cx, args).await),
        Call::Lookup(args) => put(out, &object::lookup(cx, args).await),
        Call::Access(args) => put(out, &object::access(cx, args).await),
        Call::Readlink(args) => object::readlink(cx, args, out).await,
        Call::Read(args) => {
            return data::read(cx, args, out).await;
        }
        Call::Create(args) => put(out, &create::create(cx, args).await),
        Call::Mkdir(args) => put(out, &create::mkdir(cx, args).await),
        Call::Symlink(args) => put(out, &create::symlink(cx, args).await),
        Call::Mknod(args) => put(out, &create::mknod(cx, args).await),
        Call::Remove(args) => put(out, &directory::remove(cx, &args.object, false).await),
        Call::Rmdir(args) => put(out, &directory::remove(cx, &args.object, true).await),
        Call::Rename(args) => put(out, &directory::rename(cx, args).await),
        Call::Link(args) => put(out, &directory::link(cx, args).await),
        Call::Readdir(args) => return readdir::readdir(cx, args, out).await,
        Call::Readdirplus(args) => return readdir::readdirplus(cx, args, out).await,
        Call::Fsstat(args) => put(out, &filesystem::fsstat(cx, args).await),
        Call::Fsinfo(args) => put(out, &filesystem::fsinfo(cx, args).await),
        Call::Pathconf(args) => put(out, &filesystem::pathconf(cx, args).await),
        Call::Commit(args) => put(out, &data::commit(cx, args).await),
    }
    Held::default()
}

fn put(out: &mut Vec<u8>, result: &impl Encode) {
    let _step = step(StepKind::Encode);
    result.encode(&mut Encoder::new(out));
}
