//! Locks of byte ranges: LOCK, LOCKT, LOCKU (RFC 8881 §18.10 to §18.12).

use crate::nfs4::{LockType4, Nfsstat4, StateOwner4, Stateid4};
use crate::xdr::define::{xdr_struct, xdr_union};
use crate::{Decode, DecodeError, Decoder, Encode, Encoder};

xdr_struct! {
    /// `open_to_lock_owner4`: the first lock of an owner on a file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OpenToLockOwner4<'a> {
        /// Minor version 0: the open-owner's next seqid.
        pub open_seqid: u32,
        /// The open under which it locks.
        pub open_stateid: Stateid4,
        /// Minor version 0: the lock-owner's first seqid.
        pub lock_seqid: u32,
        /// Who locks.
        pub lock_owner: StateOwner4<'a>,
    }
}

xdr_struct! {
    /// `exist_lock_owner4`: a further lock of an owner on a file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ExistLockOwner4 {
        /// The locks that the owner has on the file.
        pub lock_stateid: Stateid4,
        /// Minor version 0: the lock-owner's next seqid.
        pub lock_seqid: u32,
    }
}

xdr_union! {
    /// `locker4`: who locks.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Locker4<'a> as "new_lock_owner" {
        /// An owner that has locks on the file.
        Exists(ExistLockOwner4) = 0,
        /// An owner that has none yet.
        New(OpenToLockOwner4<'a>) = 1,
    }
}

xdr_struct! {
    /// `LOCK4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LockArgs<'a> {
        /// What kind of lock.
        pub locktype: LockType4,
        /// It was held before the server restarted.
        pub reclaim: bool,
        /// Where the range begins, bytes.
        pub offset: u64,
        /// Length of the range in bytes; all ones reaches to the end of the file, wherever that is.
        pub length: u64,
        /// Who locks.
        pub locker: Locker4<'a>,
    }
}

xdr_struct! {
    /// `LOCK4denied`: a lock that is in the way.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LockDenied<'a> {
        /// Where its range begins, bytes.
        pub offset: u64,
        /// Length of its range in bytes; all ones reaches to the end of the file.
        pub length: u64,
        /// What kind of lock it is.
        pub locktype: LockType4,
        /// Who has it.
        pub owner: StateOwner4<'a>,
    }
}

/// Why LOCK or LOCKT failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockFailure<'a> {
    /// This lock is in the way: NFS4ERR_DENIED.
    Denied(LockDenied<'a>),
    /// Any other status but success.
    Other(Nfsstat4),
}

/// `LOCK4res`: the stateid of the owner's locks.
pub type LockRes<'a> = Result<Stateid4, LockFailure<'a>>;
/// `LOCKT4res`: the lock could be had.
pub type LocktRes<'a> = Result<(), LockFailure<'a>>;

impl<'a, T: Decode<'a>> Decode<'a> for Result<T, LockFailure<'a>> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(match Nfsstat4::decode(d)? {
            Nfsstat4::Ok => Ok(Decode::decode(d)?),
            Nfsstat4::Denied => Err(LockFailure::Denied(Decode::decode(d)?)),
            status => Err(LockFailure::Other(status)),
        })
    }
}

impl<T: Encode> Encode for Result<T, LockFailure<'_>> {
    fn encode(&self, e: &mut Encoder<'_>) {
        match self {
            Ok(ok) => {
                Nfsstat4::Ok.encode(e);
                ok.encode(e);
            }
            Err(LockFailure::Denied(denied)) => {
                Nfsstat4::Denied.encode(e);
                denied.encode(e);
            }
            Err(LockFailure::Other(status)) => status.encode(e),
        }
    }
}

xdr_struct! {
    /// `LOCKT4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LocktArgs<'a> {
        /// What kind of lock.
        pub locktype: LockType4,
        /// Where the range begins, bytes.
        pub offset: u64,
        /// Length of the range in bytes; all ones reaches to the end of the file.
        pub length: u64,
        /// Who would lock.
        pub owner: StateOwner4<'a>,
    }
}

xdr_struct! {
    /// `LOCKU4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LockuArgs {
        /// What kind of lock it is.
        pub locktype: LockType4,
        /// Minor version 0: the lock-owner's next seqid.
        pub seqid: u32,
        /// The owner's locks on the file.
        pub lock_stateid: Stateid4,
        /// Where the range to be freed begins, bytes.
        pub offset: u64,
        /// Its length in bytes; all ones reaches to the end of the file.
        pub length: u64,
    }
}
