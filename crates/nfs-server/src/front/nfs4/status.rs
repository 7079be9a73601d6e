//! The one map from an operation's failure to NFSv4's status (RFC 8881 §15).
// A status that is added is to be answered, not swallowed by a last arm.
#![deny(clippy::wildcard_enum_match_arm)]

use nfs_io::Errno;
use nfs_wire::nfs4::Nfsstat4;

use crate::exports::Refused;
use crate::vfs::Error;

/// No errno ever leaves: each failure has its word of the RFC.
pub(super) fn status(error: Error) -> Nfsstat4 {
    match error {
        Error::Errno(errno) => status_of_errno(errno),
        Error::BadHandle => Nfsstat4::Badhandle,
        Error::Stale => Nfsstat4::Stale,
        Error::WrongType => Nfsstat4::WrongType,
        Error::Invalid => Nfsstat4::Inval,
        // What the empty name, `.` and a slash are answered the names' own table says.
        Error::BadName => Nfsstat4::Badname,
        // Over another version, or as another user, the client might be let in; RPC's flavors are all the same.
        Error::NotExported
        | Error::Refused(
            Refused::NotListed
            | Refused::PortNotPrivileged
            | Refused::Version
            | Refused::LocalBarred
            | Refused::NoIdentity,
        ) => Nfsstat4::Access,
        Error::NameTooLong => Nfsstat4::Nametoolong,
        Error::Exists => Nfsstat4::Exist,
        Error::ReadOnly => Nfsstat4::Rofs,
        Error::Changed => Nfsstat4::NotSame,
        Error::BadCookie => Nfsstat4::BadCookie,
        Error::TooSmall => Nfsstat4::Toosmall,
        Error::BadType => Nfsstat4::Badtype,
        Error::CrossDevice => Nfsstat4::Xdev,
        Error::Busy => Nfsstat4::Delay,
        Error::NoHandle => Nfsstat4::Serverfault,
    }
}

/// The same of what the state of clients refuses.
pub(super) const fn refused(error: nfs_state::Error) -> Nfsstat4 {
    use nfs_state::Error as Refused;
    match error {
        Refused::BadHighSlot => Nfsstat4::BadHighSlot,
        Refused::BadSession => Nfsstat4::Badsession,
        Refused::BadSlot => Nfsstat4::Badslot,
        Refused::BadStateId => Nfsstat4::BadStateid,
        Refused::ClientIdBusy => Nfsstat4::ClientidBusy,
        Refused::ClidInUse => Nfsstat4::ClidInuse,
        Refused::CompleteAlready => Nfsstat4::CompleteAlready,
        // RESOURCE is a word of 4.0 alone.
        Refused::Delay | Refused::Resource => Nfsstat4::Delay,
        Refused::Grace => Nfsstat4::Grace,
        Refused::Inval => Nfsstat4::Inval,
        Refused::Locked => Nfsstat4::Locked,
        Refused::LocksHeld => Nfsstat4::LocksHeld,
        Refused::NoEnt => Nfsstat4::Noent,
        Refused::NoGrace => Nfsstat4::NoGrace,
        Refused::NotSame => Nfsstat4::NotSame,
        Refused::OldStateId => Nfsstat4::OldStateid,
        Refused::OpenMode => Nfsstat4::Openmode,
        Refused::Perm => Nfsstat4::Perm,
        Refused::ReclaimBad => Nfsstat4::ReclaimBad,
        Refused::ReclaimConflict => Nfsstat4::ReclaimConflict,
        Refused::SeqFalseRetry => Nfsstat4::SeqFalseRetry,
        Refused::SeqMisordered => Nfsstat4::SeqMisordered,
        Refused::ShareDenied => Nfsstat4::ShareDenied,
        Refused::StaleClientId => Nfsstat4::StaleClientid,
        Refused::TooSmall => Nfsstat4::Toosmall,
        Refused::WrongCred => Nfsstat4::WrongCred,
    }
}

fn status_of_errno(errno: Errno) -> Nfsstat4 {
    match errno {
        Errno::PERM => Nfsstat4::Perm,
        Errno::NOENT => Nfsstat4::Noent,
        Errno::NXIO | Errno::NODEV => Nfsstat4::Nxio,
        // A mount point on the server is in the way: that does not pass by waiting.
        Errno::ACCESS | Errno::BUSY => Nfsstat4::Access,
        Errno::EXIST => Nfsstat4::Exist,
        Errno::XDEV => Nfsstat4::Xdev,
        Errno::NOTDIR => Nfsstat4::Notdir,
        Errno::ISDIR => Nfsstat4::Isdir,
        Errno::INVAL => Nfsstat4::Inval,
        Errno::LOOP => Nfsstat4::Symlink,
        Errno::FBIG => Nfsstat4::Fbig,
        Errno::NOSPC => Nfsstat4::Nospc,
        Errno::ROFS => Nfsstat4::Rofs,
        Errno::MLINK => Nfsstat4::Mlink,
        Errno::NAMETOOLONG => Nfsstat4::Nametoolong,
        Errno::NOTEMPTY => Nfsstat4::Notempty,
        Errno::DQUOT => Nfsstat4::Dquot,
        Errno::STALE => Nfsstat4::Stale,
        Errno::OPNOTSUPP | Errno::NOSYS => Nfsstat4::Notsupp,
        // Only calls about extended attributes end so (RFC 8276 §8.4).
        Errno::NODATA => Nfsstat4::Noxattr,
        Errno::TOOBIG => Nfsstat4::Xattr2big,
        // A program that runs is a file that is open (RFC 8881 §15.1.4.4).
        Errno::TXTBSY => Nfsstat4::FileOpen,
        // What passes by itself: the client tries again later.
        Errno::AGAIN | Errno::MFILE | Errno::NFILE | Errno::NOMEM => Nfsstat4::Delay,
        // EIO, a shut-down file system (EUCLEAN on some), and all that has no word of its own.
        _ => Nfsstat4::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_the_words_of_the_rfc() {
        for (error, expected) in [
            (Error::Errno(Errno::NOENT), Nfsstat4::Noent),
            (Error::Errno(Errno::DQUOT), Nfsstat4::Dquot),
            (Error::Errno(Errno::TXTBSY), Nfsstat4::FileOpen),
            (Error::Errno(Errno::UCLEAN), Nfsstat4::Io),
            (Error::Errno(Errno::MFILE), Nfsstat4::Delay),
            (Error::BadHandle, Nfsstat4::Badhandle),
            (Error::ReadOnly, Nfsstat4::Rofs),
        ] {
            assert_eq!(status(error), expected, "{error:?}");
        }
    }
}
