//! Why the state refuses something, in the words of RFC 8881 §15.1. The front has one total match from
//! these to the wire.

/// A refusal. Each is named after the NFS4ERR_ word that the front answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Error {
    /// NFS4ERR_BAD_HIGH_SLOT: `sa_highest_slotid` is beyond what was negotiated.
    #[error("the highest slot is beyond the session's table")]
    BadHighSlot,
    /// NFS4ERR_BADSESSION: no such session (any more).
    #[error("no such session")]
    BadSession,
    /// NFS4ERR_BADSLOT: the slot is beyond what was negotiated.
    #[error("no such slot")]
    BadSlot,
    /// NFS4ERR_BAD_STATEID: it names nothing, or nothing of this kind, client or file.
    #[error("the stateid names nothing that fits")]
    BadStateId,
    /// NFS4ERR_CLIENTID_BUSY: the client has sessions or state.
    #[error("the client has sessions or state")]
    ClientIdBusy,
    /// NFS4ERR_CLID_INUSE: another principal holds this client owner.
    #[error("the client owner is another principal's")]
    ClidInUse,
    /// NFS4ERR_COMPLETE_ALREADY: RECLAIM_COMPLETE was sent before.
    #[error("reclaims were declared complete before")]
    CompleteAlready,
    /// NFS4ERR_DELAY: not now; the same request may succeed a moment later.
    #[error("not now")]
    Delay,
    /// NFS4ERR_GRACE: only reclaims are possible yet.
    #[error("only reclaims are possible yet")]
    Grace,
    /// NFS4ERR_INVAL: an argument that can never be right.
    #[error("an argument that cannot be right")]
    Inval,
    /// NFS4ERR_LOCKED: a share reservation stands against READ or WRITE.
    #[error("a share reservation stands against it")]
    Locked,
    /// NFS4ERR_LOCKS_HELD: byte ranges are locked under this stateid.
    #[error("byte ranges are locked under it")]
    LocksHeld,
    /// NFS4ERR_NOENT: there is no confirmed record to update.
    #[error("no confirmed record to update")]
    NoEnt,
    /// NFS4ERR_NO_GRACE: the time of reclaims is over, for everybody or for this client.
    #[error("the time of reclaims is over")]
    NoGrace,
    /// NFS4ERR_NOT_SAME: an update with another verifier.
    #[error("an update with another verifier")]
    NotSame,
    /// NFS4ERR_OLD_STATEID: the stateid was replaced by a later one.
    #[error("a later stateid replaced it")]
    OldStateId,
    /// NFS4ERR_OPENMODE: the file is not open for this.
    #[error("the file is not open for this")]
    OpenMode,
    /// NFS4ERR_PERM: an update by another principal.
    #[error("an update by another principal")]
    Perm,
    /// NFS4ERR_RECLAIM_BAD: no record says that this client held anything.
    #[error("no record says that the client held anything")]
    ReclaimBad,
    /// NFS4ERR_RECLAIM_CONFLICT: somebody else holds what is reclaimed.
    #[error("somebody else holds what is reclaimed")]
    ReclaimConflict,
    /// NFS4ERR_RESOURCE (4.0) or NFS4ERR_DELAY (4.1): a bound of [`limits`](crate::limits) is reached.
    #[error("a bound is reached")]
    Resource,
    /// NFS4ERR_SEQ_FALSE_RETRY: the sequence of the last request with other arguments.
    #[error("a retry that is not one")]
    SeqFalseRetry,
    /// NFS4ERR_SEQ_MISORDERED: neither the last sequence nor the next one.
    #[error("neither the last sequence nor the next")]
    SeqMisordered,
    /// NFS4ERR_SHARE_DENIED: another open's share reservation stands against it.
    #[error("another open's share reservation stands against it")]
    ShareDenied,
    /// NFS4ERR_STALE_CLIENTID: no such client (any more).
    #[error("no such client")]
    StaleClientId,
    /// NFS4ERR_TOOSMALL: a channel in which no call fits.
    #[error("a channel in which no call fits")]
    TooSmall,
    /// NFS4ERR_WRONG_CRED: the client's state belongs to another principal.
    #[error("the client is another principal's")]
    WrongCred,
}
