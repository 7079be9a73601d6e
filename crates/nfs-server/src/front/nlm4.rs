//! The lock manager's NLM version 4, for saying no: there are no locks here yet.
//!
//! A client that mounts without `nolock` and finds no lock manager asks for one for ever, and its programs
//! hang in flock(2) and fcntl(2). One that is told LCK_DENIED_NOLOCKS gives them ENOLCK at once. So this
//! answers everybody alike, whatever the handle, and holds nothing: there is no state to fill.
//!
//! The asynchronous procedures are not known (PROC_UNAVAIL): their results would have to be called back to a
//! program of the client's, which is looked up with its port mapper. Clients of today that lock over TCP
//! use the synchronous ones.

use nfs_wire::nlm4::{Call, Netobj, Res, ShareRes, Stats, TestReply, TestRes};
use nfs_wire::{Encode, Encoder};

/// Answers a call: appends its results to `out`. True if a lock was asked for, and refused.
pub(crate) fn run(call: &Call<'_>, out: &mut Vec<u8>) -> bool {
    let mut e = Encoder::new(out);
    match call {
        Call::Null(()) | Call::FreeAll(_) => {}
        Call::Test(args) => TestRes {
            cookie: args.cookie,
            reply: TestReply::Other(Stats::DeniedNolocks),
        }
        .encode(&mut e),
        Call::Lock(args) | Call::NmLock(args) => {
            result(args.cookie, Stats::DeniedNolocks).encode(&mut e);
        }
        // Nobody holds a lock, so it is free. Linux asks again for ever where a CANCEL gets
        // DENIED_NOLOCKS, and writes a line to its log where an UNLOCK does (fs/lockd/clntproc.c).
        Call::Cancel(args) => result(args.cookie, Stats::Granted).encode(&mut e),
        Call::Unlock(args) => result(args.cookie, Stats::Granted).encode(&mut e),
        // A word for clients, of which we are none: nobody here waits for a lock.
        Call::Granted(args) => result(args.cookie, Stats::Denied).encode(&mut e),
        Call::Share(args) => share_result(args.cookie, Stats::DeniedNolocks).encode(&mut e),
        Call::Unshare(args) => share_result(args.cookie, Stats::Granted).encode(&mut e),
    }
    matches!(
        call,
        Call::Test(_) | Call::Lock(_) | Call::NmLock(_) | Call::Share(_)
    )
}

const fn result(cookie: Netobj<'_>, stat: Stats) -> Res<'_> {
    Res { cookie, stat }
}

const fn share_result(cookie: Netobj<'_>, stat: Stats) -> ShareRes<'_> {
    ShareRes {
        cookie,
        stat,
        sequence: 0,
    }
}
