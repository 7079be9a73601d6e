//! What the driver is to do about the world outside: release, tell, remove. Nothing here is done by the
//! crate itself.

use std::sync::Arc;

use crate::client::OpenState;
use crate::file::{FileState, Notify};

/// What became free. Each file in it is to be told to the host ([`FileState::host_turn`]), each waiter is to be
/// notified, and what was pinned goes when this goes: drop it where closing a file does not matter.
#[derive(Debug)]
#[must_use]
pub struct Released<P> {
    /// Opens that are over, each with what it pinned.
    pub opens: Vec<Arc<OpenState<P>>>,
    /// Files of which something became free that the host may have to be told.
    pub files: Vec<Arc<FileState>>,
    /// Who may try again, and in which file.
    pub notify: Vec<(Arc<FileState>, Notify)>,
}

impl<P> Default for Released<P> {
    fn default() -> Self {
        Self {
            opens: Vec::new(),
            files: Vec::new(),
            notify: Vec::new(),
        }
    }
}

impl<P> Released<P> {
    pub(crate) fn note(&mut self, file: &Arc<FileState>, notify: Vec<Notify>, is_behind: bool) {
        if is_behind && !self.files.iter().any(|f| f.number() == file.number()) {
            self.files.push(Arc::clone(file));
        }
        let notices = notify.into_iter().map(|n| (Arc::clone(file), n));
        self.notify.extend(notices);
    }

    /// Whether there is nothing to be done.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.opens.is_empty() && self.files.is_empty() && self.notify.is_empty()
    }
}

/// `SEQ4_STATUS_*`, the flags in the results of SEQUENCE (RFC 8881 §18.46.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatusFlags(pub u32);

impl StatusFlags {
    /// No way back to the client is there (SEQ4_STATUS_CB_PATH_DOWN).
    pub const CB_PATH_DOWN: Self = Self(0x0001);
    /// The way back over this session is not there (SEQ4_STATUS_CB_PATH_DOWN_SESSION).
    pub const CB_PATH_DOWN_SESSION: Self = Self(0x0200);
}
