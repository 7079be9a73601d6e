//! The mode of one call: what was decided for it, what the file is known to refuse, and the
//! descriptors that go with it.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use nfs_io::Errno;
use nfs_io::fs::{self, Stat};
use nfs_io::plan::{Alignment, Fallback, Mode};

use super::super::{Error, Object, Result};
use crate::exports::policy::Io;
use crate::operate::io_counters::{Moved, Reason};
use crate::operate::trace::Trace;
use crate::vfs::{Target, Vfs};

/// What a file has refused: asking again costs a system call that fails. Forgotten when the
/// file leaves the cache.
#[derive(Default)]
pub(crate) struct Refusals(AtomicU8);

impl Refusals {
    /// Why this mode need not be tried again.
    pub(crate) fn of(&self, io: Io, mode: Mode) -> Option<Reason> {
        let bit = bit(io, mode)?;
        let refused = self.0.load(Ordering::Relaxed);
        if refused & opening(bit) != 0 {
            return Some(Reason::OpenRefused);
        }
        (refused & bit != 0).then_some(reason(mode)?)
    }

    /// Opening with `O_DIRECT` was refused: what was not tried is not to be counted as if it had been.
    fn remember_open(&self, io: Io) {
        if let Some(bit) = bit(io, Mode::Direct) {
            self.0.fetch_or(opening(bit), Ordering::Relaxed);
        }
    }

    fn remember(&self, io: Io, mode: Mode) {
        if let Some(bit) = bit(io, mode) {
            self.0.fetch_or(bit, Ordering::Relaxed);
        }
    }
}

/// A file system knows `RWF_DONTCACHE` or does not; direct I/O it may take one way only.
fn bit(io: Io, mode: Mode) -> Option<u8> {
    match (mode, io) {
        (Mode::Buffered, _) => None,
        (Mode::DontCache, _) => Some(1),
        (Mode::Direct, Io::Read) => Some(2),
        (Mode::Direct, Io::Write) => Some(4),
    }
}

/// Beside the bit of a mode, the one that says that already opening the file for it was refused.
const fn opening(bit: u8) -> u8 {
    bit << 3
}

fn reason(mode: Mode) -> Option<Reason> {
    match mode {
        Mode::Buffered => None,
        Mode::DontCache => Some(Reason::RefusedDontCache),
        Mode::Direct => Some(Reason::RefusedDirect),
    }
}

/// Of the kernel's pages, about: only for counting them.
const PAGE_BYTES: usize = 4096;

/// How one call moves its bytes: begins as decided, ends as it was possible.
pub(super) struct Moving<'c> {
    object: &'c Object,
    io: Io,
    decided: Mode,
    pub(super) mode: Mode,
    /// Why that is not what was decided.
    fallback: Option<Reason>,
    pub(super) moved: Moved,
}

impl<'c> Moving<'c> {
    /// `decided`, unless the file has refused that before.
    pub(super) fn new(object: &'c Object, io: Io, decided: Mode) -> Self {
        let mut moving = Self {
            object,
            io,
            decided,
            mode: decided,
            fallback: None,
            moved: Moved::default(),
        };
        if let Some(reason) = object.refusals.of(io, decided) {
            moving.fall_back(reason);
        }
        moving
    }

    /// The plan had to leave the decided mode.
    pub(super) fn note_fallback(&mut self, fallback: Option<Fallback>) {
        if let Some(fallback) = fallback {
            let reason = fallback.into();
            self.moved.fallback(reason);
            self.fallback = Some(reason);
        }
    }

    /// Goes on through the page cache.
    fn fall_back(&mut self, reason: Reason) {
        self.moved.fallback(reason);
        self.fallback = Some(reason);
        self.mode = Mode::Buffered;
    }

    /// Was this error the refusal of a mode other than `buffered`? Then the same is to be done
    /// again, which will be through the page cache.
    pub(super) fn is_refused(&mut self, mode: Mode, errno: Errno) -> bool {
        let refusal = matches!(errno, Errno::INVAL | Errno::OPNOTSUPP | Errno::NOTBLK);
        match reason(mode) {
            Some(reason) if refusal => {
                self.object.refusals.remember(self.io, mode);
                self.fall_back(reason);
                true
            }
            Some(_) | None => false,
        }
    }

    /// A direct read failed with EIO. XFS says that of a page that a local program made dirty through a
    /// mapping while the read began, so it is tried once more, through the page cache. A disk that
    /// fails does so again.
    pub(super) fn is_direct_failure(&mut self, mode: Mode, errno: Errno) -> bool {
        let failed = mode == Mode::Direct && errno == Errno::IO;
        if failed {
            self.fall_back(Reason::DirectFailed);
        }
        failed
    }

    /// The file could not be opened with `O_DIRECT`.
    fn open_refused(&mut self) {
        self.object.refusals.remember_open(self.io);
        self.fall_back(Reason::OpenRefused);
    }

    /// A segment is about to be moved in this mode.
    pub(super) fn trace(&self, trace: &Trace, target: &Target, file: (u64, u64), mode: Mode) {
        // The edges of a direct WRITE are as they are meant to be.
        let fallback = self.fallback.filter(|_| mode != self.decided);
        trace.segment(self.io, target.about(), file, mode, fallback);
    }

    /// `bytes` were written in this mode.
    pub(super) fn wrote(&mut self, mode: Mode, bytes: usize) {
        self.moved.segment(mode, bytes);
        if self.decided == Mode::Direct && mode != Mode::Direct {
            let pages = u32::try_from(bytes / PAGE_BYTES + 1).unwrap_or(u32::MAX);
            self.object.edge_pages.fetch_add(pages, Ordering::Relaxed);
        }
    }

    /// The call is over; `bytes` went into its reply.
    pub(super) fn count(mut self, target: &Target, bytes: usize) {
        self.moved.set_bytes(bytes);
        target.tree.io.record(self.io, self.decided, &self.moved);
    }
}

impl Vfs {
    /// The descriptor for direct I/O. `None`, with `moving` fallen back, where the file system refuses it.
    pub(super) async fn direct_fd(
        self: &Arc<Self>,
        target: &Target,
        moving: &mut Moving<'_>,
    ) -> Result<Option<Arc<OwnedFd>>> {
        let io = moving.io;
        if let Some(fd) = target.object.direct_fd_if_open(io) {
            return Ok(Some(fd));
        }
        let (vfs, object) = (Arc::clone(self), Arc::clone(&target.object));
        let opened = self
            .opening(target.lane(), move || {
                object.direct_fd(io, vfs.files.budget())
            })
            .await?;
        match opened {
            Ok(fd) => Ok(Some(fd)),
            Err(Error::Errno(Errno::INVAL | Errno::OPNOTSUPP)) => {
                moving.open_refused();
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

impl Vfs {
    /// Lets go of what the edges of direct WRITEs left in the page cache, `least` pages or more of it. Pages
    /// that are still dirty are written back and go another time. Not where READs are meant to find
    /// the file in the cache.
    pub(super) async fn drop_edges(&self, target: &Target, file: Arc<OwnedFd>, least: u32) {
        let object = &target.object;
        if object.edge_pages.load(Ordering::Relaxed) < least {
            return;
        }
        object.edge_pages.store(0, Ordering::Relaxed);
        let read = target.choose(Io::Read, u64::from(self.io_bytes_max)).mode;
        if read == Mode::Direct {
            let job = move || fs::drop_cached(file.as_fd());
            // Nothing depends on it: pages that stay are the kernel's to judge.
            if let Err(error) = self.blocking(target.lane(), job).await {
                tracing::trace!(%error, "edges stay in the page cache");
            }
        }
    }
}

/// What direct I/O on this file asks for.
pub(super) fn alignment(object: &Object, stat: &Stat) -> Alignment {
    Alignment::of(stat, object.mount.block_bytes)
}
