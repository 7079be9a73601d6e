//! READs without a copy: the pages that the page cache has of a file are sent from there (splice(2)).
//!
//! It is done for large READs through the page cache whose client's memory for replies has room at once, and of which a
//! pipe is free. What the page cache has whole costs the shard no wait. The rest of a very large READ is brought into the
//! page cache by a helper thread, as splice(2) waits for the disk. All other READs are copied.

use std::ops::{Range, RangeInclusive};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use nfs_io::plan::Segment;
use nfs_io::turns::Rule;
use nfs_io::{Mode, Pages, Pipes, Reservation, Share, Shares, fs};

use super::decide::within_call;
use super::transfer::Transfer;
use crate::limits;
use crate::operate::calls::{Note, StepKind, step};
use crate::vfs::{Target, Vfs};

/// The pipes of a server, of which no client may hold more than are left for all others.
pub(in crate::vfs) struct ClientPipes {
    pipes: Pipes,
    shares: Shares,
}

impl ClientPipes {
    /// Those of a server that may have so many files open for its clients: where descriptors are few, pipes are, too.
    pub(in crate::vfs) fn of(fds_max: usize) -> Self {
        let most = limits::PIPES_MAX.min(fds_max / limits::DESCRIPTORS_PER_PIPE);
        Self {
            pipes: Pipes::new(most),
            shares: Shares::new(most as u64, Rule::TimesFree(1)),
        }
    }
}

/// The memory that pages count as, and their client's share of the pipes.
type Held = (Reservation, Share);

/// How the pages of a READ are had.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Spliced {
    /// They are in the page cache.
    Cached,
    /// They have to be read from the disk.
    FromDisk,
}

impl Vfs {
    /// Reads a range without a copy, if its pages can be had so. `may_wait`: whether it may wait for the disk before its
    /// data can be asked for.
    pub(super) async fn splice(
        &self,
        target: &Target,
        file: &Arc<OwnedFd>,
        (range, may_wait): (&Range<u64>, bool),
    ) -> Option<(Pages, Share, Spliced)> {
        let len = within_call(range.end - range.start);
        if !may_wait && is_at_hand(target, file, range) {
            let (held, share) = self.held_by_pages(target, len as u64)?;
            let step = step(StepKind::PageCache);
            let pipes = &self.client_pipes.pipes;
            let pages = pipes.read(file.as_fd(), range.start, len, held);
            step.note(Note::moved(
                Mode::Buffered,
                pages.as_ref().map_or(0, Pages::len),
            ));
            Some((pages?, share, Spliced::Cached))
        } else if len >= limits::SPLICED_FROM_DISK_BYTES_MIN {
            let (pages, share) = self.splice_from_disk(target, file, range.clone()).await?;
            Some((pages, share, Spliced::FromDisk))
        } else {
            None
        }
    }

    /// Reads a range by a helper thread, which may wait for the disk.
    async fn splice_from_disk(
        &self,
        target: &Target,
        file: &Arc<OwnedFd>,
        range: Range<u64>,
    ) -> Option<(Pages, Share)> {
        let bytes = range.end - range.start;
        // A file system that does not answer keeps no more of the memory than for other READs of it.
        let of_mount = {
            let budget_bytes = self.read_buffers.budget().total();
            let shares = target.object.mount.read_share(budget_bytes);
            shares.try_take(target.sharer(), bytes)?
        };
        let (held, share) = self.held_by_pages(target, bytes)?;
        let (pipes, file) = (self.client_pipes.pipes.clone(), Arc::clone(file));
        // Where nobody waits for it any more when its turn comes, nothing is read.
        let waits = Arc::new(());
        let who_waits = Arc::downgrade(&waits);
        let job = move || {
            let _of_mount = of_mount;
            let is_waited_for = who_waits.strong_count() > 0;
            let read = || pipes.read(file.as_fd(), range.start, within_call(bytes), held);
            let pages = is_waited_for.then(read).flatten();
            pages.map(|pages| (pages, share))
        };
        let pages = self.blocking(target.queue(), job).await;
        drop(waits);
        // Where too much of the client waits for helper threads, the READ goes the other way.
        pages.ok().flatten()
    }

    /// What so many bytes of pages are held with, and their client's share of the memory, where a pipe and memory are free
    /// for them now.
    fn held_by_pages(&self, target: &Target, bytes: u64) -> Option<(Held, Share)> {
        let client = target.sharer();
        let of_pipes = self.client_pipes.shares.try_take(client, 1)?;
        let share = self.read_shares.try_take(client, bytes)?;
        let memory = self.read_buffers.budget().try_reserve(bytes)?;
        Some(((memory, of_pipes), share))
    }
}

/// What is to be spliced of a segment, if its pages can be had: all that the file has of it.
pub(super) fn range_to_splice(
    target: &Target,
    transfer: &Transfer<'_>,
    segment: &Segment,
) -> Option<Range<u64>> {
    const BYTES: RangeInclusive<u64> =
        limits::SPLICED_BYTES_MIN..=nfs_io::limits::SPLICED_BYTES_MAX as u64;
    let range = segment.file.start..segment.file.end.min(transfer.size);
    let may_be = transfer.decision.splices(segment) && target.object.mount.local;
    let is_large = BYTES.contains(&range.end.saturating_sub(range.start));
    (may_be && is_large).then_some(range)
}

/// Whether the page cache has the range whole, and nobody keeps readers from the file.
fn is_at_hand(target: &Target, file: &OwnedFd, range: &Range<u64>) -> bool {
    let takes_lock = target.object.mount.read_waits.takes_lock();
    let is_locked_out = || takes_lock && fs::reads_are_locked_out(file.as_fd());
    let len = within_call(range.end - range.start);
    fs::holds_whole(file.as_fd(), range.start, len) && !is_locked_out()
}
