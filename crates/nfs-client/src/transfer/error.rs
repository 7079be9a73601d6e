//! Why something was not copied.

use std::io;
use std::sync::Arc;

use super::place::Location;
use crate::error::ClientError;
use crate::nfs3::Nfsstat3;

/// Why something was not copied. Each says what it is about, and what to do where there is a cure.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TransferError {
    /// The server's side.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// This host's side.
    #[error("{place}: {operation}: {error}")]
    Local {
        /// What it was about.
        place: Box<Location>,
        /// What was tried, in the system call's word.
        operation: &'static str,
        /// What the system said.
        error: Arc<io::Error>,
    },
    /// A directory, and trees are not to be copied.
    #[error("{place}: is a directory: give -r to copy it with all that it holds")]
    IsDirectory {
        /// The directory.
        place: Box<Location>,
    },
    /// Source and destination are one and the same.
    #[error("{place}: is the same file as {other}")]
    SameFile {
        /// The source.
        place: Box<Location>,
        /// The destination.
        other: Box<Location>,
    },
    /// The destination lies in the directory that is to be copied.
    #[error("{place}: cannot be copied into itself, {other}")]
    IntoItself {
        /// The source.
        place: Box<Location>,
        /// The destination.
        other: Box<Location>,
    },
    /// What is at the destination cannot be replaced by what is to come there.
    #[error("{place}: is a {is}: cannot be replaced by a {by}; remove it first")]
    InTheWay {
        /// The destination.
        place: Box<Location>,
        /// What it is.
        is: &'static str,
        /// What was to come there.
        by: &'static str,
    },
    /// The destination has to be a directory and is none.
    #[error("{place}: is not a directory{cure}")]
    NotADirectory {
        /// The destination.
        place: Box<Location>,
        /// What to do; may be empty.
        cure: &'static str,
    },
    /// A fifo, socket or device, and trees are not to be copied.
    #[error("{place}: is a {is}, not a regular file: give -r to make one like it")]
    Special {
        /// The source.
        place: Box<Location>,
        /// What it is.
        is: &'static str,
    },
    /// The file was copied, but its copy is another.
    #[error("{place}: the copy {other} differs: {theirs}, not {ours}; copy it again")]
    Differs {
        /// The source.
        place: Box<Location>,
        /// The destination.
        other: Box<Location>,
        /// Checksum of the source.
        ours: String,
        /// Checksum of the destination.
        theirs: String,
    },
    /// The copy was stopped in the middle of this file.
    #[error("{place}: stopped; {committed} bytes of {other} are there")]
    Stopped {
        /// The source.
        place: Box<Location>,
        /// The destination.
        other: Box<Location>,
        /// Bytes from the start that are on stable storage (a server) or written (this host).
        committed: u64,
    },
    /// Two sources have the same name, and would go to one place.
    #[error("{place}: another source of this name goes to the same directory")]
    Twice {
        /// The later one.
        place: Box<Location>,
    },
    /// Directories nested deeper than the cap.
    #[error(
        "{place}: more than {} directories deep",
        crate::limits::TREE_DEPTH_MAX
    )]
    TooDeep {
        /// The directory.
        place: Box<Location>,
    },
    /// Somebody makes and removes the destination again and again.
    #[error("{place}: appears and vanishes while it is written; somebody else works there")]
    Unsteady {
        /// The destination.
        place: Box<Location>,
    },
}

impl TransferError {
    pub(super) fn local(place: &Location, operation: &'static str, error: io::Error) -> Self {
        Self::Local {
            place: Box::new(place.clone()),
            operation,
            error: Arc::new(error),
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
