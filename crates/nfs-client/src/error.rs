//! What can go wrong between a call and its reply, by who is to blame.
//!
//! A status that the server put into the results (`NFS3ERR_...`) is not an error here: procedures
//! return it beside their results. [`RpcError`] is for calls that brought no results at all;
//! [`ClientError`] is what [`Client`](crate::Client) and [`File`](crate::File) report, such a status included.

mod client;
mod kind;
mod nfs4;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use nfs_wire::DecodeError;
use nfs_wire::auth::AuthStat;
use nfs_wire::record::RecordError;

pub use self::client::{ClientError, Listed};
pub(crate) use self::client::{printable, refused};
pub use self::nfs4::Nfs4Error;

/// Why a call brought no results.
///
/// Cheap to clone: one lost connection ends many calls with the same cause.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RpcError {
    /// No connection could be made.
    #[error("cannot connect to {place}: {cause}{}", connect_cure(cause))]
    Connect {
        /// The host and port that were tried.
        place: String,
        /// The error that the system gave.
        cause: Arc<io::Error>,
    },
    /// The connection ended before the reply came, and the options forbid sending the call again.
    /// The server may or may not have executed it.
    #[error("the connection ended before the reply came: {0}")]
    Disconnected(Lost),
    /// No reply within the call's time, reconnects included. The server may have executed it.
    #[error("no reply within {after:?}: the server is slow, stopped, or cut off")]
    Timeout {
        /// The time the call was given.
        after: Duration,
    },
    /// The reply cannot be decoded: the server (or what answers on this port) broke the protocol.
    #[error("the reply is not what the protocol says: {0}")]
    BadReply(BadReply),
    /// The call is longer than one record may be.
    #[error("the call is {len} bytes long; at most {max} fit one record")]
    CallTooLarge {
        /// The length of the call, in bytes.
        len: usize,
        /// The most bytes that one record holds.
        max: usize,
    },
    /// The server refuses the credentials (RFC 5531 §9, `AUTH_ERROR`).
    #[error("the server refuses the credentials: {stat:?}{}", auth_cure(*stat))]
    Denied {
        /// The reason that the server gave.
        stat: AuthStat,
    },
    /// The server speaks no RPC version 2 (RFC 5531 §9, `RPC_MISMATCH`).
    #[error("the server speaks RPC versions {low} to {high} only")]
    RpcMismatch {
        /// The lowest RPC version that it speaks.
        low: u32,
        /// The highest RPC version that it speaks.
        high: u32,
    },
    /// The server has no such program on this port (RFC 5531 §9, `PROG_UNAVAIL`).
    #[error("the server has no program {program} on this port: give the port that has it")]
    ProgUnavail {
        /// The program that was called.
        program: u32,
    },
    /// The server has the program in other versions only (RFC 5531 §9, `PROG_MISMATCH`).
    #[error("the server has versions {low} to {high} of the program only")]
    ProgMismatch {
        /// The lowest version of the program that it has.
        low: u32,
        /// The highest version of the program that it has.
        high: u32,
    },
    /// The program has no such procedure (RFC 5531 §9, `PROC_UNAVAIL`).
    #[error("the server does not have this procedure")]
    ProcUnavail,
    /// The server cannot decode the arguments (RFC 5531 §9, `GARBAGE_ARGS`).
    #[error("the server cannot decode the arguments")]
    GarbageArgs,
    /// The server failed inside (RFC 5531 §9, `SYSTEM_ERR`).
    #[error("the server reports an error of its own; its log may say which")]
    SystemErr,
    /// An operation of NFSv4 failed in a way that NFSv3 has no word for.
    #[error("{0}")]
    Nfs4(Arc<Nfs4Error>),
}

/// Why a connection is no more.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Lost {
    /// The server closed the connection.
    #[error("the server closed it")]
    ByServer,
    /// Nothing came over it for too long, though calls waited.
    #[error("nothing came over it for too long, though calls waited")]
    Silent,
    /// The system reported an error on it.
    #[error("{0}")]
    Io(Arc<io::Error>),
    /// What came over it cannot be cut into records any more.
    #[error("{0}")]
    Framing(RecordError),
    /// Something else than RPC is spoken on this port.
    #[error(
        "the port answers {0}: it is not an NFS server's; give the port that NFS is on, usually 2049"
    )]
    Foreign(Foreign),
    /// It was closed on this side, or the runtime that drove it has ended.
    #[error("it was closed on this side")]
    Here,
}

/// A protocol that is no RPC, and whose servers are known by their first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Foreign {
    /// A web server, or whatever else speaks HTTP (RFC 9112).
    Http,
    /// TLS (RFC 8446), whatever is inside it.
    Tls,
    /// A secure shell server (RFC 4253).
    Ssh,
    /// A mail or FTP server: both greet alike.
    Mail,
    /// A remote desktop of VNC (RFC 6143).
    Vnc,
}

impl std::fmt::Display for Foreign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Http => "HTTP",
            Self::Tls => "TLS",
            Self::Ssh => "SSH",
            Self::Mail => "as a mail or FTP server",
            Self::Vnc => "VNC",
        })
    }
}

/// How a reply failed to be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadReply {
    /// Header or results do not decode.
    #[error("{0}")]
    Decode(#[from] DecodeError),
    /// The server answered READ with more data than was asked for, or with another count than data.
    #[error("READ of {asked} bytes answered with count {count} and {len} bytes of data")]
    ReadCount {
        /// How many bytes were asked for.
        asked: u32,
        /// The count in the results.
        count: u32,
        /// Bytes of data in the results.
        len: usize,
    },
}

fn connect_cure(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::ConnectionRefused => {
            ": nothing listens there; is the server running, and is this its port?"
        }
        io::ErrorKind::TimedOut => ": a firewall in between may drop packets to this port",
        _ => "",
    }
}

fn auth_cure(stat: AuthStat) -> &'static str {
    match stat {
        AuthStat::TooWeak => {
            "; the server asks for a stronger flavor, or for calls from a port below 1024"
        }
        _ => "",
    }
}
