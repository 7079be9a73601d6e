//! Why an operation on a file did not happen, in words of no protocol version.

use nfs_io::Errno;

use crate::exports::Refused;

/// An operation's failure. One total match per protocol version maps it to the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    /// The kernel refused the operation with this error.
    #[error("{0}")]
    Errno(Errno),
    /// The bytes have not the form of a handle.
    #[error("the handle has not the form of a handle of this server")]
    BadHandle,
    /// The handle's object or export is gone, or what the handle was made with: key or table.
    #[error("the object is gone, or the handle has been revoked")]
    Stale,
    /// The object is of a type on which the operation makes no sense.
    #[error("the operation does not fit the object's type")]
    WrongType,
    /// The name is `.` or `..`, empty, or holds a slash or a zero byte.
    #[error("the name cannot be that of a directory entry")]
    BadName,
    /// The name is longer than the file system takes.
    #[error("the name is too long")]
    NameTooLong,
    /// An entry of that name exists.
    #[error("the entry exists")]
    Exists,
    /// The export, or the client's access to it, is read-only.
    #[error("the export is read-only for this client")]
    ReadOnly,
    /// The object is not in the export: behind a mount point, or outside of its directory.
    #[error("it lies outside of the export, or behind a mount point (crossmnt)")]
    NotExported,
    /// The rules of the export refuse the client.
    #[error("refused: {0}")]
    Refused(Refused),
    /// The attributes are not those that the caller wanted to change.
    #[error("the object changed since the client looked")]
    Changed,
    /// The cookie or its verifier is not one of ours.
    #[error("the cookie is not one that this directory gave out")]
    BadCookie,
    /// The reply would not fit even one entry.
    #[error("the reply's size does not fit one entry")]
    TooSmall,
    /// A value is out of range.
    #[error("a value is out of range")]
    Invalid,
    /// The type of object cannot be made by this call.
    #[error("objects of this type cannot be made this way")]
    BadType,
    /// The two objects are on different file systems or exports.
    #[error("the objects are on different file systems")]
    CrossDevice,
    /// Too much is queued for this file system: the client should come back.
    #[error("too many requests wait for this file system")]
    Busy,
    /// A handle cannot be made for the object.
    #[error("no handle can be made for the object")]
    NoHandle,
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::STALE => Self::Stale,
            Errno::XDEV => Self::CrossDevice,
            _ => Self::Errno(errno),
        }
    }
}

impl From<crate::vfs::fh::HandleTooLong> for Error {
    fn from(_: crate::vfs::fh::HandleTooLong) -> Self {
        Self::NoHandle
    }
}

/// The result of an operation on a file.
pub(crate) type Result<T> = core::result::Result<T, Error>;
