//! What kind of error it is to code that knows [`std::io`] and nothing of NFS.

use std::io;

use nfs_wire::mount3::Mountstat3;
use nfs_wire::nfs3::Nfsstat3;
use nfs_wire::nfs4::Nfsstat4;

use super::{ClientError, Lost, Nfs4Error, RpcError};

impl ClientError {
    /// The kind that the standard library has for it; [`io::ErrorKind::Other`] where it has none.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Rpc(error) => of_rpc(error),
            Self::Nfs { status, .. } => of_status(*status),
            Self::Nfs4 { error, .. } => of_nfs4(error),
            Self::Mount { status, .. } => of_mount(*status),
            Self::NotRegistered { .. } => io::ErrorKind::ConnectionRefused,
            Self::OnlyV3 { .. } => io::ErrorKind::Unsupported,
            Self::OutsideExport { .. } | Self::NoName { .. } => io::ErrorKind::InvalidInput,
            Self::TooManyNames { .. } => io::ErrorKind::InvalidFilename,
            Self::InTheWay { .. } => io::ErrorKind::NotADirectory,
            Self::NotAFile { what, .. } => match *what {
                "directory" => io::ErrorKind::IsADirectory,
                _ => io::ErrorKind::InvalidInput,
            },
            Self::EndlessDirectory | Self::BadName { .. } => io::ErrorKind::InvalidData,
            Self::Thread { cause } => cause.kind(),
            Self::SymlinkLoop { .. }
            | Self::TooManyMatches
            | Self::NoProgress { .. }
            | Self::VerifierKeepsChanging { .. } => io::ErrorKind::Other,
        }
    }
}

/// As [`ClientError::kind`] says; the error itself is inside ([`io::Error::downcast`]).
impl From<ClientError> for io::Error {
    fn from(error: ClientError) -> Self {
        Self::new(error.kind(), error)
    }
}

fn of_rpc(error: &RpcError) -> io::ErrorKind {
    match error {
        RpcError::Connect { cause, .. } => cause.kind(),
        RpcError::Disconnected(Lost::Io(cause)) => cause.kind(),
        RpcError::Disconnected(Lost::Silent) | RpcError::Timeout { .. } => io::ErrorKind::TimedOut,
        RpcError::Disconnected(Lost::Here) => io::ErrorKind::NotConnected,
        RpcError::Disconnected(Lost::ByServer) => io::ErrorKind::ConnectionReset,
        RpcError::Disconnected(Lost::Framing(_) | Lost::Foreign(_)) | RpcError::BadReply(_) => {
            io::ErrorKind::InvalidData
        }
        RpcError::CallTooLarge { .. } | RpcError::GarbageArgs => io::ErrorKind::InvalidInput,
        RpcError::Denied { .. } => io::ErrorKind::PermissionDenied,
        RpcError::RpcMismatch { .. }
        | RpcError::ProgUnavail { .. }
        | RpcError::ProgMismatch { .. }
        | RpcError::ProcUnavail => io::ErrorKind::Unsupported,
        RpcError::SystemErr => io::ErrorKind::Other,
        RpcError::Nfs4(error) => of_nfs4(error),
    }
}

fn of_nfs4(error: &Nfs4Error) -> io::ErrorKind {
    match error {
        Nfs4Error::Rpc(error) => of_rpc(error),
        Nfs4Error::Status { status, .. } => match *status {
            Nfsstat4::ShareDenied | Nfsstat4::Locked | Nfsstat4::FileOpen => {
                io::ErrorKind::ResourceBusy
            }
            _ => io::ErrorKind::Other,
        },
        Nfs4Error::Unexpected(_) | Nfs4Error::Attributes | Nfs4Error::EndlessDirectory => {
            io::ErrorKind::InvalidData
        }
        Nfs4Error::Ended => io::ErrorKind::NotConnected,
        Nfs4Error::LongHandles | Nfs4Error::SlotsGivenUp => io::ErrorKind::Other,
    }
}

fn of_mount(status: Mountstat3) -> io::ErrorKind {
    match status {
        Mountstat3::Perm | Mountstat3::Acces => io::ErrorKind::PermissionDenied,
        Mountstat3::Noent => io::ErrorKind::NotFound,
        Mountstat3::Notdir => io::ErrorKind::NotADirectory,
        Mountstat3::Inval => io::ErrorKind::InvalidInput,
        Mountstat3::Nametoolong => io::ErrorKind::InvalidFilename,
        Mountstat3::Notsupp => io::ErrorKind::Unsupported,
        Mountstat3::Io | Mountstat3::Serverfault => io::ErrorKind::Other,
    }
}

fn of_status(status: Nfsstat3) -> io::ErrorKind {
    match status {
        Nfsstat3::Perm | Nfsstat3::Acces => io::ErrorKind::PermissionDenied,
        Nfsstat3::Noent => io::ErrorKind::NotFound,
        Nfsstat3::Exist => io::ErrorKind::AlreadyExists,
        Nfsstat3::Xdev => io::ErrorKind::CrossesDevices,
        Nfsstat3::Notdir => io::ErrorKind::NotADirectory,
        Nfsstat3::Isdir => io::ErrorKind::IsADirectory,
        Nfsstat3::Inval => io::ErrorKind::InvalidInput,
        Nfsstat3::Fbig => io::ErrorKind::FileTooLarge,
        Nfsstat3::Nospc => io::ErrorKind::StorageFull,
        Nfsstat3::Rofs => io::ErrorKind::ReadOnlyFilesystem,
        Nfsstat3::Mlink => io::ErrorKind::TooManyLinks,
        Nfsstat3::Nametoolong => io::ErrorKind::InvalidFilename,
        Nfsstat3::Notempty => io::ErrorKind::DirectoryNotEmpty,
        Nfsstat3::Dquot => io::ErrorKind::QuotaExceeded,
        Nfsstat3::Stale | Nfsstat3::Badhandle => io::ErrorKind::StaleNetworkFileHandle,
        Nfsstat3::Notsupp | Nfsstat3::Badtype => io::ErrorKind::Unsupported,
        Nfsstat3::Jukebox => io::ErrorKind::ResourceBusy,
        Nfsstat3::Ok
        | Nfsstat3::Io
        | Nfsstat3::Nxio
        | Nfsstat3::Nodev
        | Nfsstat3::Remote
        | Nfsstat3::NotSync
        | Nfsstat3::BadCookie
        | Nfsstat3::Toosmall
        | Nfsstat3::Serverfault => io::ErrorKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::refused;

    #[test]
    fn an_error_keeps_its_kind_and_itself() {
        let error = io::Error::from(refused("LOOKUP", b"a", Nfsstat3::Noent));
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert_eq!(error.to_string(), "a: LOOKUP: no such file or directory");
        let inside: ClientError = error.downcast().unwrap();
        assert_eq!(inside.status(), Some(Nfsstat3::Noent));
        let cause = std::sync::Arc::new(io::ErrorKind::BrokenPipe.into());
        let lost = ClientError::Rpc(RpcError::Disconnected(Lost::Io(cause)));
        assert_eq!(lost.kind(), io::ErrorKind::BrokenPipe);
    }
}
