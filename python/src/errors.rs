//! What Python is told when a call fails: one match from the client's errors to the system's error numbers, by which
//! `OSError` chooses its own subclass (`FileNotFoundError`, `PermissionError`, ...).

use nfs_client::nfs_wire::mount3::Mountstat3;
use nfs_client::nfs3::Nfsstat3;
use nfs_client::{ClientError, RpcError};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use rustix::io::Errno;

/// Why a call of this package failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The client says so.
    Client(ClientError),
    /// The path cannot be what is meant.
    Path(Errno, &'static str),
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Client(error) => os_error(of(&error), error.to_string()),
            Failure::Path(errno, why) => os_error(errno, why.to_owned()),
        }
    }
}

/// `ValueError` for a text that is no address.
pub(crate) fn bad_url(error: &nfs_client::UrlError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// `ValueError`, as Python's own files raise it.
pub(crate) fn closed() -> PyErr {
    PyValueError::new_err("I/O operation on closed file")
}

/// What a child process is told that uses what its parent opened.
pub(crate) fn forked() -> PyErr {
    let why = "opened before this process was forked: open it again here";
    os_error(Errno::BADF, why.to_owned())
}

fn os_error(errno: Errno, message: String) -> PyErr {
    PyOSError::new_err((errno.raw_os_error(), message))
}

/// The error number for an operation that failed.
const fn of(error: &ClientError) -> Errno {
    match error {
        ClientError::Rpc(error) => of_rpc(error),
        ClientError::Nfs { status, .. } => of_status(*status),
        ClientError::Mount { status, .. } => of_mount(*status),
        ClientError::SymlinkLoop { .. } => Errno::LOOP,
        ClientError::NotAFile { what, .. } => match what.as_bytes() {
            b"directory" => Errno::ISDIR,
            _ => Errno::INVAL,
        },
        ClientError::OnlyV3 { .. } => Errno::OPNOTSUPP,
        ClientError::InTheWay { .. } => Errno::NOTDIR,
        ClientError::TooManyNames { .. } => Errno::NAMETOOLONG,
        ClientError::NoName { .. } => Errno::INVAL,
        ClientError::OutsideExport { .. } => Errno::NOENT,
        ClientError::NotRegistered { .. } => Errno::CONNREFUSED,
        // What there is no number for, and what the client may come to tell.
        _ => Errno::IO,
    }
}

/// The error number for a call that brought no results.
const fn of_rpc(error: &RpcError) -> Errno {
    match error {
        RpcError::Connect { .. } => Errno::CONNREFUSED,
        RpcError::Disconnected(_) => Errno::CONNRESET,
        RpcError::Timeout { .. } => Errno::TIMEDOUT,
        RpcError::Denied { .. } => Errno::ACCESS,
        RpcError::ProcUnavail | RpcError::ProgUnavail { .. } | RpcError::ProgMismatch { .. } => {
            Errno::OPNOTSUPP
        }
        RpcError::BadReply(_) | RpcError::RpcMismatch { .. } | RpcError::GarbageArgs => {
            Errno::PROTO
        }
        RpcError::CallTooLarge { .. } => Errno::MSGSIZE,
        _ => Errno::IO,
    }
}

/// The error number for a mount that was refused (RFC 1813 §5.1.5).
const fn of_mount(status: Mountstat3) -> Errno {
    match status {
        Mountstat3::Perm => Errno::PERM,
        Mountstat3::Noent => Errno::NOENT,
        Mountstat3::Acces => Errno::ACCESS,
        Mountstat3::Notdir => Errno::NOTDIR,
        Mountstat3::Inval => Errno::INVAL,
        Mountstat3::Nametoolong => Errno::NAMETOOLONG,
        Mountstat3::Notsupp => Errno::OPNOTSUPP,
        Mountstat3::Io | Mountstat3::Serverfault => Errno::IO,
    }
}

/// The error number for a status of the server (RFC 1813 §2.6).
const fn of_status(status: Nfsstat3) -> Errno {
    match status {
        Nfsstat3::Perm | Nfsstat3::Badtype => Errno::PERM,
        Nfsstat3::Noent => Errno::NOENT,
        Nfsstat3::Nxio => Errno::NXIO,
        Nfsstat3::Acces => Errno::ACCESS,
        Nfsstat3::Exist => Errno::EXIST,
        Nfsstat3::Xdev => Errno::XDEV,
        Nfsstat3::Nodev => Errno::NODEV,
        Nfsstat3::Notdir => Errno::NOTDIR,
        Nfsstat3::Isdir => Errno::ISDIR,
        Nfsstat3::Inval | Nfsstat3::BadCookie => Errno::INVAL,
        Nfsstat3::Fbig => Errno::FBIG,
        Nfsstat3::Nospc => Errno::NOSPC,
        Nfsstat3::Rofs => Errno::ROFS,
        Nfsstat3::Mlink => Errno::MLINK,
        Nfsstat3::Nametoolong => Errno::NAMETOOLONG,
        Nfsstat3::Notempty => Errno::NOTEMPTY,
        Nfsstat3::Dquot => Errno::DQUOT,
        Nfsstat3::Stale | Nfsstat3::Badhandle => Errno::STALE,
        Nfsstat3::Remote => Errno::REMOTE,
        Nfsstat3::Notsupp => Errno::OPNOTSUPP,
        // The client has asked again until the call's time was over.
        Nfsstat3::Jukebox => Errno::TIMEDOUT,
        Nfsstat3::Ok
        | Nfsstat3::Io
        | Nfsstat3::NotSync
        | Nfsstat3::Toosmall
        | Nfsstat3::Serverfault => Errno::IO,
    }
}
