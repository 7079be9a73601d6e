//! Why something was not copied.

use std::io;
use std::sync::Arc;

use super::place::Location;
use crate::error::ClientError;
use crate::nfs3::Nfsstat3;

/// Why something was not copied. Each says what it is about, and what to do where there is a cure.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// Something failed on the side of a server.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Something failed on this host.
    #[error("{place}: {operation}: {error}")]
    Local {
        /// The file or directory that it was about.
        place: Box<Location>,
        /// What was tried, in the system call's word.
        operation: &'static str,
        /// The error that the system gave.
        error: Arc<io::Error>,
    },
    /// A directory, and trees are not to be copied.
    #[error("{place}: is a directory: give -r to copy it with all that it holds")]
    IsDirectory {
        /// The directory that it is about.
        place: Box<Location>,
    },
    /// Source and destination are one and the same.
    #[error("{place}: is the same file as {other}")]
    SameFile {
        /// The source that was to be copied.
        place: Box<Location>,
        /// The destination that it was to be copied to.
        other: Box<Location>,
    },
    /// The destination lies in the directory that is to be copied.
    #[error("{place}: cannot be copied into itself, {other}")]
    IntoItself {
        /// The source that was to be copied.
        place: Box<Location>,
        /// The destination that it was to be copied to.
        other: Box<Location>,
    },
    /// What is at the destination cannot be replaced by what is to come there.
    #[error("{place}: is a {is}: cannot be replaced by a {by}; remove it first")]
    InTheWay {
        /// The destination of the copy.
        place: Box<Location>,
        /// The type of what is there, in a word.
        is: &'static str,
        /// What was to come there.
        by: &'static str,
    },
    /// The destination has to be a directory and is none.
    #[error("{place}: is not a directory{cure}")]
    NotADirectory {
        /// The destination of the copy.
        place: Box<Location>,
        /// What to do; may be empty.
        cure: &'static str,
    },
    /// A fifo, socket or device, and trees are not to be copied.
    #[error("{place}: is a {is}, not a regular file: give -r to make one like it")]
    Special {
        /// The source that was to be copied.
        place: Box<Location>,
        /// The type of what is there, in a word.
        is: &'static str,
    },
    /// A stream, and something is asked for that needs its bytes twice.
    #[error(
        "{place}: is a stream, whose bytes come or go once: leave out --verify and --resume, or copy by way of a file"
    )]
    Once {
        /// The stream that it is about.
        place: Box<Location>,
    },
    /// Nobody reads the stream that is written to any more.
    #[error("{place}: whoever reads it closed it before the end: what was left is not copied")]
    ReaderGone {
        /// The stream that was written to.
        place: Box<Location>,
    },
    /// The file was copied, but its copy is another.
    #[error("{place}: the copy {other} differs: {theirs}, not {ours}; copy it again")]
    Differs {
        /// The source that was to be copied.
        place: Box<Location>,
        /// The destination that it was to be copied to.
        other: Box<Location>,
        /// The checksum of the source's content, in hexadecimal.
        ours: String,
        /// The checksum of the destination's content, in hexadecimal.
        theirs: String,
    },
    /// The copy was stopped in the middle of this file.
    #[error("{place}: stopped; {committed} bytes of {other} are there")]
    Stopped {
        /// The source that was to be copied.
        place: Box<Location>,
        /// The destination that it was to be copied to.
        other: Box<Location>,
        /// Bytes from the start that are on stable storage (a server) or written (this host).
        committed: u64,
    },
    /// Two sources have the same name, and would go to one place.
    #[error("{place}: another source of this name goes to the same directory")]
    Twice {
        /// The source that was given later.
        place: Box<Location>,
    },
    /// Directories nested deeper than the cap.
    #[error(
        "{place}: more than {} directories deep",
        crate::limits::TREE_DEPTH_MAX
    )]
    TooDeep {
        /// The directory that it is about.
        place: Box<Location>,
    },
    /// A directory with more names than a mirror keeps in mind.
    #[error("{place}: has more than {max} names, which is more than can be compared")]
    TooMany {
        /// The directory that it is about.
        place: Box<Location>,
        /// The most names that one may have.
        max: usize,
    },
    /// What the source does not have was not removed, or not all of it.
    #[error("{place}: what the source does not have stays: {why}")]
    NotRemoved {
        /// The directory that was to become like the source.
        place: Box<Location>,
        /// The reason, and the cure.
        why: String,
    },
    /// Something that a list names is not in the source.
    #[error("{place}: is not there, and the list names it")]
    NotThere {
        /// The place where it was looked for.
        place: Box<Location>,
    },
    /// Somebody makes and removes the destination again and again.
    #[error("{place}: appears and vanishes while it is written; somebody else works there")]
    Unsteady {
        /// The destination of the copy.
        place: Box<Location>,
    },
}

impl TransferError {
    pub(super) fn local(place: &Location, operation: &'static str, error: io::Error) -> Self {
        let place = Box::new(place.clone());
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::ReaderGone { place };
        }
        Self::Local {
            place,
            operation,
            error: Arc::new(error),
        }
    }

    /// The place that it is about; `None` where the client's error alone says it ([`ClientError::path`]).
    pub fn place(&self) -> Option<&Location> {
        match self {
            Self::Client(_) => None,
            Self::Local { place, .. }
            | Self::IsDirectory { place }
            | Self::SameFile { place, .. }
            | Self::IntoItself { place, .. }
            | Self::InTheWay { place, .. }
            | Self::NotADirectory { place, .. }
            | Self::Special { place, .. }
            | Self::Once { place }
            | Self::ReaderGone { place }
            | Self::Differs { place, .. }
            | Self::Stopped { place, .. }
            | Self::Twice { place }
            | Self::TooDeep { place }
            | Self::TooMany { place, .. }
            | Self::NotRemoved { place, .. }
            | Self::NotThere { place }
            | Self::Unsteady { place } => Some(place),
        }
    }

    /// Whether it may go away by itself: another attempt may succeed.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Client(_) | Self::Local { .. } => !self.is_not_permitted(),
            Self::Differs { .. } | Self::Unsteady { .. } => true,
            Self::IsDirectory { .. }
            | Self::SameFile { .. }
            | Self::IntoItself { .. }
            | Self::InTheWay { .. }
            | Self::NotADirectory { .. }
            | Self::Special { .. }
            | Self::Once { .. }
            | Self::ReaderGone { .. }
            | Self::Stopped { .. }
            | Self::Twice { .. }
            | Self::TooDeep { .. }
            | Self::TooMany { .. }
            | Self::NotRemoved { .. }
            | Self::NotThere { .. } => false,
        }
    }

    /// Whether it says that the caller may not do this.
    pub(super) fn is_not_permitted(&self) -> bool {
        match self {
            Self::Client(error) => {
                matches!(error.status(), Some(Nfsstat3::Perm | Nfsstat3::Acces))
            }
            Self::Local { error, .. } => error.kind() == io::ErrorKind::PermissionDenied,
            _ => false,
        }
    }
}
