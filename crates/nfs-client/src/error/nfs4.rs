//! What a session of NFSv4 reports.

use nfs_wire::nfs4::{Nfsstat4, Opnum};

use super::RpcError;
use crate::limits::NFS4_LONG_HANDLES_MAX;

/// Why a COMPOUND brought nothing.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Nfs4Error {
    /// The call brought no results.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// An operation failed; those behind it were not carried out.
    #[error("{opnum}: the server answers {status}")]
    Status {
        /// The operation that failed.
        opnum: Opnum,
        /// Its status.
        status: Nfsstat4,
    },
    /// The server answered another operation than was asked for, or left its result out.
    #[error("the server's reply has no result of {0}")]
    Unexpected(Opnum),
    /// The server sends attributes that cannot be read, or leaves out some that every server has.
    #[error("the server's reply has not the attributes that were asked for")]
    Attributes,
    /// Too many handles that are longer than NFSv3's.
    #[error(
        "the server has more than {NFS4_LONG_HANDLES_MAX} handles of over 64 bytes here: use NFSv3, or a part at a time"
    )]
    LongHandles,
    /// Every slot of the session has a request whose reply never came.
    #[error(
        "no slot of the session can be used any more: the server did not reply in time, again and again"
    )]
    SlotsGivenUp,
    /// The runtime ends.
    #[error("the call was given up because the program ends")]
    Ended,
    /// A directory that does not end.
    #[error("the server's listing of a directory does not end")]
    EndlessDirectory,
}
