//! The network lock manager, version 4: file locks of NFSv3 (RFC 1813 appendix II, and the X/Open
//! XNFS specification that it changes).
//!
//! The procedures that answer by their own reply. The asynchronous ones (numbers 6 to 15), whose answer is
//! a call in the other direction, are left out. Versions 1 to 3 have offsets of 32 bits and belong to NFSv2.

use crate::limits::{LOCK_NAME_BYTES_MAX, NETOBJ_BYTES_MAX};
use crate::xdr::define::{procedures, xdr_enum, xdr_struct};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

/// The number of the lock manager's program.
pub const PROGRAM: u32 = 100_021;
/// The version that belongs to NFSv3.
pub const VERSION: u32 = 4;

procedures! {
    /// The synchronous procedures of NLM version 4.
    pub enum Procedure;

    /// A call of any procedure, with its arguments.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Call<'a>;

    /// Does nothing, and so tells that the program is there.
    Null = 0 "NULL" (()),
    /// Asks whether a lock could be had. Gives a [`TestRes`].
    Test = 1 "TEST" (TestArgs<'a>),
    /// Asks for a lock. Gives a [`Res`].
    Lock = 2 "LOCK" (LockArgs<'a>),
    /// Asks no more for a lock that could not be had at once. Gives a [`Res`].
    Cancel = 3 "CANCEL" (CancelArgs<'a>),
    /// Gives a lock back. Gives a [`Res`].
    Unlock = 4 "UNLOCK" (UnlockArgs<'a>),
    /// Tells a client that the lock it waits for is its own now. Gives a [`Res`].
    Granted = 5 "GRANTED" (TestArgs<'a>),
    /// Reserves a file as DOS programs do. Gives a [`ShareRes`].
    Share = 20 "SHARE" (ShareArgs<'a>),
    /// Gives a reservation back. Gives a [`ShareRes`].
    Unshare = 21 "UNSHARE" (ShareArgs<'a>),
    /// Asks for a lock by a client that no status monitor watches. Gives a [`Res`].
    NmLock = 22 "NM_LOCK" (LockArgs<'a>),
    /// Gives all locks and reservations of a client back. Without results.
    FreeAll = 23 "FREE_ALL" (Notify<'a>),
}

/// Bytes that mean something to who made them alone: `netobj`, at most [`NETOBJ_BYTES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Netobj<'a>(pub &'a [u8]);

/// The name of a machine: at most [`LOCK_NAME_BYTES_MAX`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MachineName<'a>(pub &'a [u8]);

xdr_enum! {
    /// What became of a call: `nlm4_stats`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Stats as "nlm4_stats" {
        /// The request was carried out: NLM4_GRANTED.
        Granted = 0,
        /// Somebody else holds a lock that is in the way.
        Denied = 1,
        /// The server has no means to keep locks.
        DeniedNolocks = 2,
        /// The call waits for the lock; the server calls GRANTED when it has it.
        Blocked = 3,
        /// The server has restarted and takes only locks that were held before.
        DeniedGracePeriod = 4,
        /// The lock was refused because waiting for it would never end.
        Deadlck = 5,
        /// The file system is read-only.
        Rofs = 6,
        /// The file handle names nothing any more.
        StaleFh = 7,
        /// The range goes beyond what the server can lock.
        Fbig = 8,
        /// The call failed for another reason.
        Failed = 9,
    }
}

xdr_struct! {
    /// A range of a file, and who locks it: `nlm4_lock`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Lock<'a> {
        /// What the client calls its machine.
        pub caller_name: MachineName<'a>,
        /// The handle of the file to lock, as NFS gave it.
        pub fh: Netobj<'a>,
        /// The client's name for the owner.
        pub oh: Netobj<'a>,
        /// The client's number for the owner: a process.
        pub svid: u32,
        /// Where the range begins, bytes.
        pub l_offset: u64,
        /// Length of the range in bytes; 0 reaches to the end of the file, wherever that is.
        pub l_len: u64,
    }
}

xdr_struct! {
    /// The arguments of TEST and GRANTED: `nlm4_testargs`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TestArgs<'a> {
        /// Comes back in the result.
        pub cookie: Netobj<'a>,
        /// A lock that nobody else's may overlap?
        pub exclusive: bool,
        /// The file, the range and who asks for it.
        pub alock: Lock<'a>,
    }
}

xdr_struct! {
    /// The arguments of LOCK and NM_LOCK: `nlm4_lockargs`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LockArgs<'a> {
        /// Comes back in the result.
        pub cookie: Netobj<'a>,
        /// Wait for it where it cannot be had at once?
        pub block: bool,
        /// A lock that nobody else's may overlap?
        pub exclusive: bool,
        /// The file, the range and who asks for it.
        pub alock: Lock<'a>,
        /// Was it held before the server restarted?
        pub reclaim: bool,
        /// The client's status monitor's count of its restarts.
        pub state: u32,
    }
}

xdr_struct! {
    /// The arguments of CANCEL: `nlm4_cancargs`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CancelArgs<'a> {
        /// Comes back in the result.
        pub cookie: Netobj<'a>,
        /// Whether the LOCK that is cancelled was to wait.
        pub block: bool,
        /// Whether the LOCK that is cancelled was exclusive.
        pub exclusive: bool,
        /// The lock that the cancelled LOCK asked for.
        pub alock: Lock<'a>,
    }
}

xdr_struct! {
    /// The arguments of UNLOCK: `nlm4_unlockargs`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct UnlockArgs<'a> {
        /// Comes back in the result.
        pub cookie: Netobj<'a>,
        /// The range to be freed.
        pub alock: Lock<'a>,
    }
}

xdr_struct! {
    /// A file, and how it is reserved: `nlm4_share`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Share<'a> {
        /// What the client calls its machine.
        pub caller_name: MachineName<'a>,
        /// The handle of the file to reserve, as NFS gave it.
        pub fh: Netobj<'a>,
        /// The client's name for the owner.
        pub oh: Netobj<'a>,
        /// What others may not do meanwhile: `fsh4_mode`, a number from 0 to 3 that is not looked at here.
        pub mode: u32,
        /// What the owner wants to do: `fsh4_access`, likewise.
        pub access: u32,
    }
}

xdr_struct! {
    /// The arguments of SHARE and UNSHARE: `nlm4_shareargs`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ShareArgs<'a> {
        /// Comes back in the result.
        pub cookie: Netobj<'a>,
        /// The file, who reserves it, and against what.
        pub share: Share<'a>,
        /// Was it held before the server restarted?
        pub reclaim: bool,
    }
}

xdr_struct! {
    /// The arguments of FREE_ALL: `nlm4_notify`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Notify<'a> {
        /// What the client calls its machine.
        pub name: MachineName<'a>,
        /// The count of the machine's restarts that its status monitor keeps.
        pub state: u32,
    }
}

xdr_struct! {
    /// The result of LOCK, CANCEL, UNLOCK, GRANTED and NM_LOCK: `nlm4_res`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Res<'a> {
        /// The cookie of the call that this answers.
        pub cookie: Netobj<'a>,
        /// What became of the request.
        pub stat: Stats,
    }
}

xdr_struct! {
    /// The result of SHARE and UNSHARE: `nlm4_shareres`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ShareRes<'a> {
        /// The cookie of the call that this answers.
        pub cookie: Netobj<'a>,
        /// What became of the reservation.
        pub stat: Stats,
        /// Means nothing (XNFS leaves it over from a protocol before it).
        pub sequence: u32,
    }
}

/// The result of TEST: `nlm4_testres`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestRes<'a> {
    /// The cookie of the call that this answers.
    pub cookie: Netobj<'a>,
    /// Whether the lock could be had, and who is in the way.
    pub reply: TestReply<'a>,
}

/// What TEST says of a lock: `nlm4_testrply`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestReply<'a> {
    /// Somebody holds a lock that is in the way: [`Stats::Denied`].
    Denied(Holder<'a>),
    /// Anything else; never [`Stats::Denied`], which says more.
    Other(Stats),
}

xdr_struct! {
    /// Who holds a lock: `nlm4_holder`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Holder<'a> {
        /// May nobody else's overlap it?
        pub exclusive: bool,
        /// The client's number for the owner.
        pub svid: u32,
        /// The client's name for the owner.
        pub oh: Netobj<'a>,
        /// Where the range begins, bytes.
        pub l_offset: u64,
        /// Length of the range in bytes; 0 reaches to the end of the file.
        pub l_len: u64,
    }
}

impl<'a> Decode<'a> for Netobj<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        d.opaque(NETOBJ_BYTES_MAX, "netobj").map(Self)
    }
}

impl Encode for Netobj<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.opaque(self.0);
    }
}

impl<'a> Decode<'a> for MachineName<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        d.opaque(LOCK_NAME_BYTES_MAX, "name").map(Self)
    }
}

impl Encode for MachineName<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.opaque(self.0);
    }
}

impl<'a> Decode<'a> for TestRes<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        let cookie = Netobj::decode(d)?;
        let reply = match Stats::decode(d)? {
            Stats::Denied => TestReply::Denied(Holder::decode(d)?),
            stat => TestReply::Other(stat),
        };
        Ok(Self { cookie, reply })
    }
}

impl Encode for TestRes<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        self.cookie.encode(e);
        match &self.reply {
            TestReply::Denied(holder) => {
                Stats::Denied.encode(e);
                holder.encode(e);
            }
            TestReply::Other(stat) => stat.encode(e),
        }
    }
}

#[cfg(test)]
mod tests;
