//! Who is to be told that a lock may be had now: from where that happens to the one who calls clients.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nfs_state::{FileState, Notify};
use parking_lot::Mutex;

use crate::limits;

/// A waiter that may try now, and the file.
pub(crate) type Notice = (Arc<FileState>, Notify);

/// Notices on their way. What does not fit is left out: who waits asks again by itself.
#[derive(Default)]
pub(crate) struct Notices {
    queue: Mutex<VecDeque<Notice>>,
    /// Tells that there is one.
    pub(crate) more: tokio::sync::Notify,
    /// Calls that were sent to clients.
    pub(crate) callbacks: AtomicU64,
    /// Calls to clients that failed, or were not answered.
    pub(crate) callbacks_failed: AtomicU64,
    /// Waiters that could not be told.
    pub(crate) untold: AtomicU64,
}

impl Notices {
    /// Has these waiters told, all of one file.
    pub(crate) fn put(&self, file: &Arc<FileState>, notify: Vec<Notify>) {
        self.put_all(notify.into_iter().map(|notify| (Arc::clone(file), notify)));
    }

    /// Has these waiters told.
    pub(crate) fn put_all(&self, notices: impl IntoIterator<Item = Notice>) {
        let mut notices = notices.into_iter().peekable();
        if notices.peek().is_none() {
            return;
        }
        let mut queue = self.queue.lock();
        for notice in notices {
            if queue.len() < limits::NOTICES_MAX {
                queue.push_back(notice);
            } else {
                self.untold.fetch_add(1, Ordering::Relaxed);
            }
        }
        drop(queue);
        self.more.notify_one();
    }

    /// All that are to be told now.
    pub(crate) fn take(&self) -> VecDeque<Notice> {
        std::mem::take(&mut *self.queue.lock())
    }
}
