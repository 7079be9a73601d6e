//! The descriptors for writing: opened at the first WRITE, or kept from the call that made the file, and closed again as
//! soon as nobody writes.
//!
//! While one is open, a program of the server's own host cannot execute the file (ETXTBSY), and a lease on
//! it is refused. So they are closed before the reply to the WRITE or COMMIT after which nothing of the file is
//! under way and all that was written is on stable storage: a few times between two sweeps, so that a stream of
//! such calls does not open the file for each. What that leaves open, the sweep closes when nobody wrote for
//! a second or two.
//!
//! A descriptor stays while data of the file is not on stable storage: the kernel tells of a lost write
//! to those that were open by then. It stays too where the server could not open the file again.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use nfs_io::Lane;
use nfs_io::fs::{self, OFlags};
use parking_lot::Mutex;

use super::file_io::Open;
use super::{Object, Result};
use crate::limits;
use crate::operate::calls::{StepKind, step};
use crate::vfs::file_cache::FdBudget;
use crate::vfs::{Target, Vfs};

/// One file's descriptor for WRITE, COMMIT and truncation, and what is known of its use.
#[derive(Default)]
pub(super) struct Writing {
    open: Option<Open>,
    /// Somebody asked for the descriptor since the last sweep.
    used: bool,
    /// How often the descriptor was closed since the last sweep before a reply went out.
    early_closes: u32,
    /// The file is in the list of [`Writers`].
    listed: bool,
}

/// Files that are open for writing, or were at the last sweep: what the sweep looks at. At most about twice as
/// many as there are descriptors.
#[derive(Default)]
pub(crate) struct Writers {
    files: Mutex<Vec<Weak<Object>>>,
    opens: AtomicU64,
}

/// For how many more files the list of writers gets room at least when it grows.
const WRITERS_AT_FIRST: usize = 64;

impl Writers {
    /// How often a file was opened for writing.
    pub(crate) fn opens(&self) -> u64 {
        self.opens.load(Ordering::Relaxed)
    }

    fn add(&self, object: &Arc<Object>) {
        let mut files = self.files.lock();
        if files.len() == files.capacity() {
            // It grows with the files that are open, not with those that were.
            files.retain(|file| file.strong_count() > 0);
            let len = files.len();
            files.reserve(len.max(WRITERS_AT_FIRST));
        }
        files.push(Arc::downgrade(object));
    }
}

impl Object {
    /// The descriptor for WRITE, COMMIT and truncation if it is open already; see
    /// [`Object::read_fd_if_open`].
    pub(crate) fn write_fd_if_open(&self) -> Option<Arc<OwnedFd>> {
        let mut writing = self.io.write.try_lock()?;
        writing.used = true;
        writing.open.as_ref().map(|open| Arc::clone(&open.fd))
    }

    /// The descriptor for WRITE, COMMIT and truncation if it is open, for a helper thread, which may wait for
    /// somebody who is opening it.
    pub(super) fn write_fd_for_sync(&self) -> Option<Arc<OwnedFd>> {
        let writing = self.io.write.lock();
        writing.open.as_ref().map(|open| Arc::clone(&open.fd))
    }

    /// Opens the file for WRITE, COMMIT and truncation if it is not; see [`Object::read_fd`].
    pub(crate) fn write_fd(
        self: &Arc<Self>,
        slots: &FdBudget,
        writers: &Writers,
    ) -> Result<Arc<OwnedFd>> {
        let mut writing = self.io.write.lock();
        writing.used = true;
        if writing.open.is_none() {
            writers.opens.fetch_add(1, Ordering::Relaxed);
        }
        let fd = self.open(&mut writing.open, OFlags::WRONLY, slots)?;
        if !std::mem::replace(&mut writing.listed, true) {
            writers.add(self);
        }
        Ok(fd)
    }

    /// Takes over the descriptor that made the file.
    pub(crate) fn adopt_write_fd(
        self: &Arc<Self>,
        fd: Arc<OwnedFd>,
        slots: &FdBudget,
        writers: &Writers,
    ) {
        self.io.is_open_now();
        let mut writing = self.io.write.lock();
        writing.used = true;
        let slot = || slots.take();
        writing
            .open
            .get_or_insert_with(|| Open { fd, _slot: slot() });
        if !std::mem::replace(&mut writing.listed, true) {
            writers.add(self);
        }
    }

    /// Takes the descriptors for writing if nobody uses them and nothing written waits for stable storage.
    pub(super) fn take_writing(&self) -> Vec<Open> {
        self.take_from(&mut self.io.write.lock())
    }

    /// Runs `work` with a descriptor for writing that is the only one this object has open, but for the `O_PATH`
    /// one, on a thread that may wait for the disk: others are closed, and whoever wants one waits. `None`
    /// while a call uses one.
    pub(super) fn alone<T>(
        &self,
        work: impl FnOnce(BorrowedFd<'_>) -> Result<T>,
    ) -> Option<Result<T>> {
        let mut writing = self.io.write.lock();
        // In the order of `take_from`; nobody else takes two of them.
        let mut others = [
            self.io.direct_write.lock(),
            self.io.read.lock(),
            self.io.direct_read.lock(),
        ];
        let in_use = |open: &Option<Open>| open.as_ref().is_some_and(|open| !open.is_unused());
        if in_use(&writing.open) || others.iter().any(|open| in_use(open)) {
            return None;
        }
        for open in &mut others {
            **open = None;
        }
        let opened;
        let file = match &mut writing.open {
            Some(open) => open.fd.as_fd(),
            None => {
                let flags = OFlags::WRONLY | OFlags::NONBLOCK;
                opened = match fs::reopen(self.path(), flags) {
                    Ok(opened) => opened,
                    Err(error) => return Some(Err(error.into())),
                };
                opened.as_fd()
            }
        };
        Some(work(file))
    }

    /// Whether the file is open for writing now. No use of it; `true` while somebody is about to open it.
    pub(super) fn has_write_fd(&self) -> bool {
        let writing = self.io.write.try_lock();
        writing.is_none_or(|writing| writing.open.is_some())
    }

    /// Whether a call uses the descriptor for writing now, or it is being opened.
    pub(super) fn is_written(&self) -> bool {
        self.io.write.try_lock().is_none_or(|writing| {
            let open = writing.open.as_ref();
            open.is_some_and(|open| !open.is_unused())
        })
    }

    fn take_from(&self, writing: &mut Writing) -> Vec<Open> {
        // Whoever writes holds a copy of this descriptor, past the page cache too, and notes what it wrote as
        // unstable before it lets go of the copy. Copies are made under the lock that we hold.
        let done = |open: &mut Open| {
            open.is_unused() && !self.io.has_unstable() && self.may_be_opened_again()
        };
        let Some(open) = writing.open.take_if(done) else {
            return Vec::new();
        };
        let mut direct = self.io.direct_write.lock();
        let direct = direct.take_if(|open| open.is_unused());
        [Some(open), direct].into_iter().flatten().collect()
    }

    /// Takes the descriptors for writing as `take_writing` does, for a call that is about to be answered: it
    /// does not wait for a lock, and takes them at most [`limits::EARLY_CLOSES_PER_SWEEP_MAX`] times between
    /// two sweeps.
    fn take_early(&self) -> Vec<Open> {
        let Some(mut writing) = self.io.write.try_lock() else {
            return Vec::new();
        };
        if writing.early_closes >= limits::EARLY_CLOSES_PER_SWEEP_MAX {
            return Vec::new();
        }
        let taken = self.take_from(&mut writing);
        if !taken.is_empty() {
            writing.early_closes += 1;
        }
        taken
    }

    /// Finds out for the sweep how a file is used, and counts anew from here.
    fn look(&self) -> Look {
        let Some(mut writing) = self.io.write.try_lock() else {
            return Look::Later;
        };
        writing.early_closes = 0;
        if std::mem::take(&mut writing.used) {
            Look::Later
        } else if self.io.reserve.is_held() {
            Look::Quiet
        } else if writing.open.is_none() {
            writing.listed = false;
            Look::Closed
        } else if self.io.has_unstable() {
            Look::Later
        } else {
            Look::Quiet
        }
    }
}

/// What the sweep finds of a file that is open for writing.
enum Look {
    /// The file was used a moment ago, or has data that waits for a COMMIT.
    Later,
    /// Nobody wrote to the file since the last sweep: it may be closed, and space given back.
    Quiet,
    /// The file is not open for writing any more.
    Closed,
}

impl Vfs {
    /// Closes a file for writing before the last reply to who wrote it, if nobody else writes. The caller has
    /// let go of the descriptor.
    pub(super) async fn close_if_written(&self, target: &Target) {
        let object = &target.object;
        // Elsewhere already asking whether it may be opened again may wait.
        if !object.mount.local {
            return;
        }
        let taken = object.take_early();
        if taken.is_empty() {
            return;
        }
        let _step = step(StepKind::CloseWritten);
        // On a helper thread, since the file system may have work to do. If its queue is full, here and now.
        if let Ok(closed) = self.pool.submit(target.queue(), taken, drop) {
            // The pool ends only with the server.
            let _ended = closed.await;
        }
    }

    /// Closes files for writing to which nobody wrote since it was called before. Waits for nobody.
    pub(crate) fn close_quiet(self: &Arc<Self>) {
        let listed = std::mem::take(&mut *self.writers.files.lock());
        let mut stay = Vec::new();
        let mut quiet: BTreeMap<Lane, Vec<Arc<Object>>> = BTreeMap::new();
        for file in listed {
            let Some(object) = file.upgrade() else {
                continue;
            };
            match object.look() {
                Look::Closed => continue,
                Look::Later => {}
                Look::Quiet => quiet.entry(object.mount.lane()).or_default().push(object),
            }
            stay.push(file);
        }
        for (lane, objects) in quiet {
            for some in objects.chunks(limits::CLOSED_TOGETHER_MAX) {
                let vfs = Arc::clone(self);
                let close = move |some: Vec<Arc<Object>>| {
                    for object in some {
                        vfs.give_space_back(&object);
                        drop(object.take_writing());
                    }
                };
                // Too much waits for the file system: another time.
                drop(self.pool.submit(lane, some.to_vec(), close));
            }
        }
        self.writers.files.lock().append(&mut stay);
    }
}
