//! Which WRITEs to the page cache may meet a page that is being written back, on file systems where a write then waits
//! for the disk even within the submission ([`WriteWaits`]). A worker of the ring makes those; all others are made within
//! the submission, which costs less. It belongs to the gate of a file, for as long as that lives.
//!
//! Behind the end of the file there are no pages, so that a stream that extends it never waits. Before the end the
//! kernel is asked what the page cache has there (cachestat(2), Linux 6.5), which waits for nobody: what is neither
//! dirty nor being written back was not written to lately. A dirty page counts, as its write-back may begin at any
//! time. What a local program dirties in the moment between the look and the write goes unseen.
//!
//! The replies to WRITEs of a file leave in the order in which the ring is done with them, and that is to be the order
//! in which they came: what is made within the submission would overtake what a worker has, while workers make the
//! writes of one file one after the other. So all WRITEs that come while a worker has one go to a worker too.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use nfs_io::WriteWaits;

/// What of a file may be under write-back, as far as our own WRITEs tell, and which WRITEs workers have.
#[derive(Default)]
pub(super) struct Rewrites {
    /// Where the WRITE to the page cache ends that reaches furthest, in bytes.
    end: AtomicU64,
    /// WRITEs that workers of a ring have.
    with_workers: AtomicU32,
}

impl Rewrites {
    /// A WRITE to `range` is about to be made, of a file that was `size` bytes long; pages begin at multiples of
    /// `page_bytes`. Whether a worker is to make it. `is_clean` asks whether no page of the range is dirty or being
    /// written back.
    pub(super) fn may_wait(
        &self,
        waits: WriteWaits,
        range: &Range<u64>,
        (size, page_bytes): (u64, u64),
        is_clean: impl FnOnce() -> bool,
    ) -> bool {
        match waits {
            WriteWaits::Never => false,
            WriteWaits::Often => true,
            WriteWaits::ForWriteBack => {
                let end = self.end.fetch_max(range.end, Ordering::Relaxed).max(size);
                let has_pages = range.start < end.next_multiple_of(page_bytes);
                self.with_workers.load(Ordering::Relaxed) > 0 || has_pages && !is_clean()
            }
        }
    }

    /// A worker gets a WRITE.
    pub(super) fn begin(&self) {
        self.with_workers.fetch_add(1, Ordering::Relaxed);
    }

    /// A worker is done with a WRITE that began.
    pub(super) fn end(&self) {
        self.with_workers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;

    /// Does a WRITE to this range of a file of `size` bytes go to a worker, where the page cache is dirty?
    fn to_dirty(rewrites: &Rewrites, range: Range<u64>, size: u64) -> bool {
        rewrites.may_wait(WriteWaits::ForWriteBack, &range, (size, PAGE), || false)
    }

    #[test]
    fn a_stream_that_extends_a_file_meets_no_page() {
        let rewrites = Rewrites::default();
        for at in 0..8 {
            assert!(!to_dirty(&rewrites, at * PAGE..(at + 1) * PAGE, at * PAGE));
        }
        assert!(
            to_dirty(&rewrites, 7 * PAGE..8 * PAGE, 0),
            "what came meanwhile is known, though the attributes are from before"
        );
        assert!(!to_dirty(&rewrites, 8 * PAGE..8 * PAGE + 1, 0));
        assert!(
            to_dirty(&rewrites, 8 * PAGE + 1..8 * PAGE + 2, 0),
            "the page of the end"
        );
    }

    #[test]
    fn what_is_clean_is_not_waited_for() {
        let rewrites = Rewrites::default();
        assert!(to_dirty(&rewrites, 0..PAGE, PAGE));
        let clean = || true;
        assert!(!rewrites.may_wait(WriteWaits::ForWriteBack, &(0..PAGE), (PAGE, PAGE), clean));
        assert!(rewrites.may_wait(WriteWaits::Often, &(0..PAGE), (0, PAGE), clean));
        let unasked = || panic!("nobody needs to know");
        assert!(!rewrites.may_wait(WriteWaits::Never, &(0..PAGE), (PAGE, PAGE), unasked));
    }

    #[test]
    fn no_write_overtakes_one_that_a_worker_has() {
        let rewrites = Rewrites::default();
        rewrites.begin();
        rewrites.begin();
        rewrites.end();
        let behind = 8 * PAGE..9 * PAGE;
        assert!(to_dirty(&rewrites, behind.clone(), 0));
        rewrites.end();
        assert!(!to_dirty(&rewrites, 9 * PAGE..10 * PAGE, 0));
    }
}
