//! The one map from an operation's failure to NFSv3's status (RFC 1813 §2.6).
// A status that is added is to be answered, not swallowed by a last arm.
#![deny(clippy::wildcard_enum_match_arm)]

use nfs_io::Errno;
use nfs_wire::nfs3::Nfsstat3;

use crate::vfs::Error;

/// No errno ever leaves: each failure has its word of the RFC.
pub(super) fn status(error: Error) -> Nfsstat3 {
    match error {
        Error::Errno(errno) => status_of_errno(errno),
        Error::BadHandle => Nfsstat3::Badhandle,
        Error::Stale => Nfsstat3::Stale,
        Error::WrongType | Error::Invalid => Nfsstat3::Inval,
        Error::BadName | Error::NotExported | Error::Refused(_) => Nfsstat3::Acces,
        Error::NameTooLong => Nfsstat3::Nametoolong,
        Error::Exists => Nfsstat3::Exist,
        Error::ReadOnly => Nfsstat3::Rofs,
        Error::Changed => Nfsstat3::NotSync,
        Error::BadCookie => Nfsstat3::BadCookie,
        Error::TooSmall => Nfsstat3::Toosmall,
        Error::BadType => Nfsstat3::Badtype,
        Error::CrossDevice => Nfsstat3::Xdev,
        Error::Busy => Nfsstat3::Jukebox,
        Error::NoHandle => Nfsstat3::Serverfault,
    }
}

fn status_of_errno(errno: Errno) -> Nfsstat3 {
    match errno {
        Errno::PERM => Nfsstat3::Perm,
        Errno::NOENT => Nfsstat3::Noent,
        Errno::NXIO => Nfsstat3::Nxio,
        // A mount point on the server is in the way: that does not pass by waiting.
        Errno::ACCESS | Errno::BUSY => Nfsstat3::Acces,
        Errno::EXIST => Nfsstat3::Exist,
        Errno::XDEV => Nfsstat3::Xdev,
        Errno::NODEV => Nfsstat3::Nodev,
        Errno::NOTDIR => Nfsstat3::Notdir,
        Errno::ISDIR => Nfsstat3::Isdir,
        Errno::INVAL | Errno::LOOP => Nfsstat3::Inval,
        Errno::FBIG => Nfsstat3::Fbig,
        Errno::NOSPC => Nfsstat3::Nospc,
        Errno::ROFS => Nfsstat3::Rofs,
        Errno::MLINK => Nfsstat3::Mlink,
        Errno::NAMETOOLONG => Nfsstat3::Nametoolong,
        Errno::NOTEMPTY => Nfsstat3::Notempty,
        Errno::DQUOT => Nfsstat3::Dquot,
        Errno::STALE => Nfsstat3::Stale,
        Errno::OPNOTSUPP | Errno::NOSYS => Nfsstat3::Notsupp,
        // What passes by itself: the client tries again later.
        Errno::AGAIN | Errno::MFILE | Errno::NFILE | Errno::NOMEM => Nfsstat3::Jukebox,
        // EIO, a shut-down file system (EUCLEAN on some), a running program (ETXTBSY), and all
        // that has no word of its own.
        _ => Nfsstat3::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_the_words_of_the_rfc() {
        for (error, expected) in [
            (Error::Errno(Errno::NOENT), Nfsstat3::Noent),
            (Error::Errno(Errno::DQUOT), Nfsstat3::Dquot),
            (Error::Errno(Errno::TXTBSY), Nfsstat3::Io),
            (Error::Errno(Errno::UCLEAN), Nfsstat3::Io),
            (Error::Errno(Errno::MFILE), Nfsstat3::Jukebox),
            (Error::BadHandle, Nfsstat3::Badhandle),
            (Error::ReadOnly, Nfsstat3::Rofs),
        ] {
            assert_eq!(status(error), expected, "{error:?}");
        }
    }
}
