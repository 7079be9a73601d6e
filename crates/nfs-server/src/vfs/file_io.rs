//! How the bytes of one file are moved: its open descriptors, the ways of moving bytes that it refused, and
//! what of it is not on stable storage yet.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use nfs_io::fs::{self, OFlags};
use parking_lot::Mutex;

use super::ahead::FileAhead;
use super::closing::Writing;
use super::gate::{Gate, Gates};
use super::io::{FileAuto, InOrder, Refusals, Reserve, Rounds, StableWrites};
use super::page_cache::SeenInPageCache;
use super::reads::Reads;
use super::stable::Unstable;
use super::{Error, FileKind, Object, Result};
use crate::exports::policy::Io;
use crate::vfs::file_cache::{FdBudget, FdSlot};

/// How the bytes of one file are moved: the descriptors it is open with, what it refused, and what is not on
/// stable storage yet.
#[derive(Default)]
pub(super) struct FileIo {
    pub(super) read: Mutex<Option<Open>>,
    pub(super) write: Mutex<Writing>,
    pub(super) direct_read: Mutex<Option<Open>>,
    pub(super) direct_write: Mutex<Option<Open>>,
    /// One of these was opened since the object is in the cache.
    was_open: AtomicBool,
    /// Ways of moving bytes that the file did not take.
    pub(super) refusals: Refusals,
    /// What its calls were like, where that decides how they are moved.
    pub(super) auto: FileAuto,
    /// Pages that went into the page cache although they were meant to go past it, about.
    pub(super) edge_pages: AtomicU32,
    /// The gate of the file, set by the first write to it.
    gate: OnceLock<Arc<Gate>>,
    /// Which READs may wait for more than their data.
    pub(super) reads: Reads,
    /// What is read ahead of direct READs, from the first one on.
    pub(super) ahead: OnceLock<Arc<FileAhead>>,
    /// Held by the COMMIT that runs: there is one at a time.
    sync_turn: tokio::sync::Mutex<()>,
    pub(super) rounds: Rounds,
    /// WRITEs that are to be stable when they are answered.
    pub(super) stable_writes: StableWrites,
    /// Space taken ahead of a stream that extends the file.
    pub(crate) reserve: Reserve,
    /// WRITEs that wait for those before them.
    pub(crate) in_order: InOrder,
    pub(super) unstable: Mutex<Unstable>,
    /// What the page cache held of it when that was looked at last.
    pub(super) in_page_cache: Mutex<Option<SeenInPageCache>>,
}

/// An open descriptor and its place in the budget.
pub(super) struct Open {
    pub(super) fd: Arc<OwnedFd>,
    pub(super) _slot: FdSlot,
}

impl Open {
    /// Whether nobody but the object has the descriptor. The answer holds for as long as the caller holds the
    /// lock of the descriptor's place.
    pub(super) fn is_unused(&self) -> bool {
        Arc::strong_count(&self.fd) == 1
    }
}

impl FileIo {
    /// Lets go of descriptors that nobody uses and that are only there to be found open. Says how many they were.
    pub(crate) fn close_spare(&self) -> usize {
        let mut closed = 0;
        for place in [&self.read, &self.direct_read] {
            let spare = place
                .try_lock()
                .and_then(|mut open| open.take_if(|open| open.is_unused()));
            closed += usize::from(spare.is_some());
            // Closed outside the lock.
            drop(spare);
        }
        closed
    }

    /// Whether the file was open for reading or writing at some time since the object is in the cache.
    pub(super) fn was_open(&self) -> bool {
        self.was_open.load(Ordering::Relaxed)
    }

    /// The file is open for reading or writing.
    pub(super) fn is_open_now(&self) {
        self.was_open.store(true, Ordering::Relaxed);
    }

    /// The file was truncated from a length to another.
    pub(crate) fn truncated(&self, from: u64, to: u64) {
        self.reserve.truncated(from, to);
        self.in_order.truncated();
        if let Some(gate) = self.gate.get() {
            gate.tail.truncated();
        }
    }

    /// There is something to do for the file before it may leave the cache: data to be put on stable storage,
    /// or space to be given back.
    pub(crate) fn must_stay(&self) -> bool {
        self.has_unstable() || self.reserve.is_held()
    }

    /// Waits until no other COMMIT of this file runs.
    pub(super) async fn sync_turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.sync_turn.lock().await
    }

    /// The turn of a COMMIT without waiting for it: `None` while another COMMIT of this file runs.
    pub(super) fn try_sync_turn(&self) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        self.sync_turn.try_lock().ok()
    }
}

impl Object {
    /// The descriptor for READ, READDIR's sync and COMMIT, opened at first use with the server's
    /// own rights: whoever uses it has asked [`Object::check`] first.
    pub(crate) fn read_fd(&self, slots: &FdBudget) -> Result<Arc<OwnedFd>> {
        self.open(&mut self.io.read.lock(), OFlags::RDONLY, slots)
    }

    /// The descriptor for READ if it is open already. Never waits: somebody may be opening it on a
    /// file system that does not answer.
    pub(crate) fn read_fd_if_open(&self) -> Option<Arc<OwnedFd>> {
        let place = self.io.read.try_lock()?;
        place.as_ref().map(|open| Arc::clone(&open.fd))
    }

    /// The descriptor for direct READs or WRITEs; see [`Object::read_fd`].
    ///
    /// # Errors
    /// EINVAL where the file system has no direct I/O.
    pub(crate) fn direct_fd(&self, io: Io, slots: &FdBudget) -> Result<Arc<OwnedFd>> {
        let (place, access) = match io {
            Io::Read => (&self.io.direct_read, OFlags::RDONLY),
            Io::Write => (&self.io.direct_write, OFlags::WRONLY),
        };
        self.open(&mut place.lock(), access | OFlags::DIRECT, slots)
    }

    /// The descriptor for direct I/O if it is open already; see [`Object::read_fd_if_open`].
    pub(crate) fn direct_fd_if_open(&self, io: Io) -> Option<Arc<OwnedFd>> {
        let place = match io {
            Io::Read => &self.io.direct_read,
            Io::Write => &self.io.direct_write,
        };
        place.try_lock()?.as_ref().map(|open| Arc::clone(&open.fd))
    }

    /// Whether the file is open for direct I/O now; `true` while somebody is about to open it.
    pub(super) fn has_direct_fd(&self, io: Io) -> bool {
        let place = match io {
            Io::Read => &self.io.direct_read,
            Io::Write => &self.io.direct_write,
        };
        place.try_lock().is_none_or(|open| open.is_some())
    }

    /// The descriptor in `place`, opened if there is none.
    pub(super) fn open(
        &self,
        place: &mut Option<Open>,
        access: OFlags,
        slots: &FdBudget,
    ) -> Result<Arc<OwnedFd>> {
        if let Some(open) = &*place {
            return Ok(Arc::clone(&open.fd));
        }
        let kind_flags = match self.kind {
            FileKind::Regular => OFlags::empty(),
            FileKind::Directory => OFlags::DIRECTORY,
            // Opening a device or a FIFO has effects of its own; NFS never does.
            FileKind::Symlink
            | FileKind::BlockDevice
            | FileKind::CharDevice
            | FileKind::Fifo
            | FileKind::Socket
            | FileKind::Unknown => return Err(Error::WrongType),
        };
        // O_NONBLOCK: a lease held by a local process answers EWOULDBLOCK instead of stalling.
        let fd = fs::reopen(self.path(), access | kind_flags | OFlags::NONBLOCK)?;
        self.io.is_open_now();
        let fd = Arc::new(fd);
        *place = Some(Open {
            fd: Arc::clone(&fd),
            _slot: slots.take(),
        });
        Ok(fd)
    }

    /// What keeps writes through the page cache and past it apart.
    pub(super) fn gate(&self, gates: &Gates) -> &Arc<Gate> {
        self.io.gate.get_or_init(|| gates.of((self.dev, self.ino)))
    }
}
