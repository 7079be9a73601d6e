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
        let left_out = add(&mut self.queue.lock(), notices);
        self.untold.fetch_add(left_out, Ordering::Relaxed);
        self.more.notify_one();
    }

    /// All that are to be told now.
    pub(crate) fn take(&self) -> VecDeque<Notice> {
        std::mem::take(&mut *self.queue.lock())
    }
}

/// Adds what fits. How many did not.
fn add<T>(queue: &mut VecDeque<T>, more: impl Iterator<Item = T>) -> u64 {
    let mut left_out = 0;
    for one in more {
        if queue.len() < limits::NOTICES_MAX {
            queue.push_back(one);
        } else {
            left_out += 1;
        }
    }
    left_out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_told_has_an_end() {
        let mut queue = VecDeque::new();
        assert_eq!(add(&mut queue, 0..10_000), 0);
        assert_eq!(add(&mut queue, 10_000..20_000), 20_000 - 16_384);
        assert_eq!(queue.len(), 16_384);
        assert_eq!(queue.back(), Some(&16_383), "who came first is told");
        queue.pop_front();
        assert_eq!(add(&mut queue, 0..2), 1);
    }
}
