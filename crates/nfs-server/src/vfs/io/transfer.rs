//! One call's bytes on their way: what was decided, what really happened, and what is counted of it.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nfs_io::Mode;
use nfs_io::fs::{self, Stat};
use nfs_io::plan::Segment;

use super::super::staging::Staged;
use super::super::{Object, Result};
use super::decide::{Decision, Failure, IoCall, IoFacts, choose, decide, len_of};
use crate::exports::policy::Io;
use crate::operate::calls::{StepKind, step};
use crate::operate::io_counters::{Reason, Tally};
use crate::operate::trace::Trace;
use crate::vfs::{Target, Vfs};

/// The kernel's pages, about: only for counting those that the edges of direct WRITEs leave behind.
const PAGE_BYTES: usize = 4096;

/// A READ or WRITE that is under way: its decision, and what it met so far.
pub(super) struct Transfer<'c> {
    object: &'c Object,
    io: Io,
    /// The file's length before the call, in bytes.
    pub(super) size: u64,
    /// What it took of the disk, in units of 512 bytes.
    pub(super) blocks: u64,
    pub(super) decision: Decision,
    /// Why bytes do not go the way that was chosen, as last met.
    fallback: Option<Reason>,
    pub(super) tally: Tally,
    /// Where a WRITE's ends are staged.
    pub(super) staged: Option<Staged>,
}

impl<'c> Transfer<'c> {
    /// A call on `target`, whose attributes are `stat`. `None` where the range passes the end of any file.
    pub(super) fn new(vfs: &Vfs, target: &'c Target, call: &IoCall, stat: &Stat) -> Option<Self> {
        let _step = step(StepKind::Decide);
        let object = &target.object;
        let policy = target.tree.export.io.now();
        let name = policy.uses_names().then(|| object.name()).flatten();
        let facts = IoFacts {
            name: name.as_deref(),
            size: stat.size,
            alignment: stat.alignment(object.mount.block_bytes),
            refused: object.io.refusals.of(call.io),
        };
        let mut choice = choose(&policy, call, &facts);
        vfs.judge(target, &mut choice, call, &facts);
        let decision = decide(choice, call, &facts)?;
        let mut tally = Tally::default();
        if let Some(reason) = decision.fallback {
            tally.fallback(reason);
        }
        Some(Self {
            object,
            io: call.io,
            size: stat.size,
            blocks: stat.blocks,
            fallback: decision.fallback,
            decision,
            tally,
            staged: None,
        })
    }

    /// What to move after `segment` failed, if the decision has an answer to that; the file's refusal is
    /// counted and remembered then. `None`: the call ends with that error.
    pub(super) fn fall_back(&mut self, segment: &Segment, failure: Failure) -> Option<Segment> {
        let reason = self.decision.reason_to_fall_back(segment, failure)?;
        self.object.io.refusals.remember(self.io, reason);
        self.tally.fallback(reason);
        self.fallback = Some(reason);
        Some(self.decision.instead(segment))
    }

    /// Tells the trace that a segment is about to be moved.
    pub(super) fn trace(&self, trace: &Trace, target: &Target, segment: &Segment) {
        // The edges of a direct WRITE are as they are meant to be.
        let fallback = self
            .fallback
            .filter(|_| segment.mode != self.decision.choice.mode);
        let file = (segment.file.start, len_of(segment) as u64);
        trace.segment(self.io, target.about(), file, segment.mode, fallback);
    }

    /// Counts `bytes` of a WRITE that were written in `mode`.
    pub(super) fn wrote(&mut self, mode: Mode, bytes: usize) {
        self.tally.segment(mode, bytes);
        if self.decision.choice.mode == Mode::Direct && mode != Mode::Direct {
            let pages = u32::try_from(bytes / PAGE_BYTES + 1).unwrap_or(u32::MAX);
            self.object.stages.note_partial_block();
            self.object
                .io
                .edge_pages
                .fetch_add(pages, Ordering::Relaxed);
        }
    }

    /// Counts the call, which is over; `bytes` went into its reply.
    pub(super) fn count(mut self, target: &Target, bytes: usize) {
        self.tally.set_bytes(bytes);
        let chosen = self.decision.choice.mode;
        target.tree.io.record(self.io, chosen, &self.tally);
    }
}

impl Vfs {
    /// The descriptor for direct I/O.
    ///
    /// # Errors
    /// Also the kernel's refusal to open the file for it.
    pub(super) async fn direct_fd(
        self: &Arc<Self>,
        target: &Target,
        io: Io,
    ) -> Result<Arc<OwnedFd>> {
        let looking = step(StepKind::OpenFile);
        let open = target.object.direct_fd_if_open(io);
        looking.hit(open.is_some());
        if let Some(fd) = open {
            return Ok(fd);
        }
        let (vfs, object) = (Arc::clone(self), Arc::clone(&target.object));
        self.opening(target.queue(), move || {
            object.direct_fd(io, vfs.files.budget())
        })
        .await?
    }

    /// Lets go of what the edges of direct WRITEs left in the page cache, `least` pages or more of it. Pages
    /// that are still dirty are written back and go another time. Not where READs are meant to find
    /// the file in the cache.
    pub(super) async fn evict_unaligned_pages(
        &self,
        target: &Target,
        file: Arc<OwnedFd>,
        least: u32,
    ) {
        let object = &target.object;
        if object.io.edge_pages.load(Ordering::Relaxed) < least {
            return;
        }
        object.io.edge_pages.store(0, Ordering::Relaxed);
        let read = self.mode_of_reads(target, u64::from(self.io_bytes_max));
        if read == Mode::Direct {
            let job = move || fs::drop_cached(file.as_fd());
            // Nothing depends on it: pages that stay are the kernel's to judge.
            if let Err(error) = self.blocking(target.queue(), job).await {
                tracing::trace!(%error, "edges stay in the page cache");
            }
        }
    }
}
