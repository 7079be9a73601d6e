//! What a program is told when the server refuses or does not answer: one total match.

use fuser::Errno;
use nfs_client::nfs3::Nfsstat3;
use nfs_client::{ClientError, RpcError};

/// The error number for a status of the server (RFC 1813 §2.6).
pub(crate) const fn of_status(status: Nfsstat3) -> Errno {
    match status {
        Nfsstat3::Perm | Nfsstat3::Badtype => Errno::EPERM,
        Nfsstat3::Noent => Errno::ENOENT,
        Nfsstat3::Nxio => Errno::ENXIO,
        Nfsstat3::Acces => Errno::EACCES,
        Nfsstat3::Exist => Errno::EEXIST,
        Nfsstat3::Xdev => Errno::EXDEV,
        Nfsstat3::Nodev => Errno::ENODEV,
        Nfsstat3::Notdir => Errno::ENOTDIR,
        Nfsstat3::Isdir => Errno::EISDIR,
        Nfsstat3::Inval | Nfsstat3::BadCookie => Errno::EINVAL,
        Nfsstat3::Fbig => Errno::EFBIG,
        Nfsstat3::Nospc => Errno::ENOSPC,
        Nfsstat3::Rofs => Errno::EROFS,
        Nfsstat3::Mlink => Errno::EMLINK,
        Nfsstat3::Nametoolong => Errno::ENAMETOOLONG,
        Nfsstat3::Notempty => Errno::ENOTEMPTY,
        Nfsstat3::Dquot => Errno::EDQUOT,
        // Linux takes a handle that the server never knew for one that it forgot.
        Nfsstat3::Stale | Nfsstat3::Badhandle => Errno::ESTALE,
        Nfsstat3::Remote => Errno::EREMOTE,
        Nfsstat3::Notsupp => Errno::EOPNOTSUPP,
        // The client has asked again until the call's time was over.
        Nfsstat3::Jukebox => Errno::ETIMEDOUT,
        Nfsstat3::Ok
        | Nfsstat3::Io
        | Nfsstat3::NotSync
        | Nfsstat3::Toosmall
        | Nfsstat3::Serverfault => Errno::EIO,
    }
}

/// The error number for a call that brought no results.
pub(crate) const fn of_rpc(error: &RpcError) -> Errno {
    match error {
        RpcError::Timeout { .. } => Errno::ETIMEDOUT,
        RpcError::Denied { .. } => Errno::EACCES,
        RpcError::ProcUnavail | RpcError::ProgUnavail { .. } | RpcError::ProgMismatch { .. } => {
            Errno::EOPNOTSUPP
        }
        _ => Errno::EIO,
    }
}

/// The error number for an operation that failed.
pub(crate) const fn of(error: &ClientError) -> Errno {
    match error {
        ClientError::Rpc(error) => of_rpc(error),
        ClientError::Nfs { status, .. } => of_status(*status),
        ClientError::SymlinkLoop { .. } => Errno::ELOOP,
        ClientError::NotAFile { .. } => Errno::EINVAL,
        ClientError::OnlyV3 { .. } => Errno::EOPNOTSUPP,
        ClientError::InTheWay { .. } => Errno::ENOTDIR,
        ClientError::TooManyNames { .. } => Errno::ENAMETOOLONG,
        ClientError::NoName { .. } => Errno::EINVAL,
        ClientError::OutsideExport { .. } | ClientError::Mount { .. } => Errno::ENOENT,
        // What the kernel has no number for, and what the client may come to tell.
        _ => Errno::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_success_and_server_errors_become_eio() {
        let eio: Vec<Nfsstat3> = Nfsstat3::ALL
            .iter()
            .copied()
            .filter(|status| of_status(*status).code() == Errno::EIO.code())
            .collect();
        let expected = [
            Nfsstat3::Ok,
            Nfsstat3::Io,
            Nfsstat3::NotSync,
            Nfsstat3::Toosmall,
            Nfsstat3::Serverfault,
        ];
        assert_eq!(eio, expected);
    }

    #[test]
    fn statuses_below_100_are_the_error_numbers_of_linux() {
        // RFC 1813 took these from Unix; three of them have other numbers on Linux.
        let moved = [
            Nfsstat3::Nametoolong,
            Nfsstat3::Notempty,
            Nfsstat3::Dquot,
            Nfsstat3::Stale,
            Nfsstat3::Remote,
            Nfsstat3::Ok,
        ];
        for status in Nfsstat3::ALL {
            let number = *status as i32;
            if number < 100 && !moved.contains(status) {
                assert_eq!(of_status(*status).code(), number, "{status}");
            }
        }
        assert_eq!(of_status(Nfsstat3::Stale).code(), 116);
        assert_eq!(of_status(Nfsstat3::Notempty).code(), 39);
    }
}
