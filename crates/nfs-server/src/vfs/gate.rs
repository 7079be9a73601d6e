//! Who may write to a file at the same time: writes through the page cache together, writes past it
//! together, never both.
//!
//! The kernel orders the two by the inode lock, but a direct write that a ring runs gives that lock
//! up when it is submitted. A page that a cached write makes dirty before the direct write has
//! landed cannot be thrown out afterwards (`invalidate_inode_pages2_range` answers `EBUSY`): the
//! cache then keeps bytes that are not the disk's, the kernel notes `EIO` for the next fsync, and
//! acknowledged data is over-written by the page when it is written back. So two such writes of one file
//! are kept apart here.
//!
//! READs need no gate: a direct one has dirty pages written back first, and what a cached one
//! brought into the cache meanwhile is clean, which the kernel can always throw out when the direct
//! write has landed, before it says so. Neither does truncation: it waits for direct writes in flight
//! (`inode_dio_wait`) under the inode lock. Nor an fsync: pages under write-back are waited for.
//!
//! The gate is the inode's: two exports that hold one file share it.
//!
//! The order is fair by phases: who comes while the other group waits, waits behind it; when a phase
//! ends, all of the other group that wait are let in together. A pass belongs to the operation that
//! the kernel works on, not to the call that waits for it: a call that goes away opens no gate.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use nfs_io::Mode;
use parking_lot::Mutex;

use super::rewrites::Rewrites;
use super::seen::Seen;
use super::tail::Tail;

/// The kind of writes that may run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Group {
    /// Writes through the page cache.
    Cached,
    /// Writes past the page cache.
    Direct,
}

impl Group {
    pub(super) fn of(mode: Mode) -> Self {
        match mode {
            Mode::Buffered | Mode::DontCache => Self::Cached,
            Mode::Direct => Self::Direct,
        }
    }
}

/// The gates of all files that were written to and are still open here.
#[derive(Default)]
pub(crate) struct Gates(Arc<Mutex<Known>>);

/// The gates by device and inode number. Whoever holds a gate has the file open, so that its number cannot
/// come to mean another file.
type Known = HashMap<(u64, u64), Weak<Gate>>;

impl Gates {
    /// The gate of an inode; the caller has it open for as long as it uses the gate.
    pub(super) fn of(&self, inode: (u64, u64)) -> Arc<Gate> {
        let mut known = self.0.lock();
        if let Some(gate) = known.get(&inode).and_then(Weak::upgrade) {
            return gate;
        }
        let gate = Arc::new(Gate {
            state: Mutex::default(),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            seen: Seen::default(),
            rewrites: Rewrites::default(),
            tail: Tail::default(),
            inode,
            home: Arc::clone(&self.0),
        });
        known.insert(inode, Arc::downgrade(&gate));
        gate
    }
}

/// The gate of one file, which lets in writes through the page cache or writes past it, never both.
pub(super) struct Gate {
    state: Mutex<State<Waker>>,
    /// Changes of the file's bytes that were begun by us, and of these the ones that have ended.
    begun: AtomicU64,
    ended: AtomicU64,
    /// The attributes that WRITEs share.
    pub(super) seen: Seen,
    /// Which writes through the page cache may wait for write-back.
    pub(super) rewrites: Rewrites,
    /// Whether the rest of the file's last block is zeros on its disk.
    pub(super) tail: Tail,
    inode: (u64, u64),
    home: Arc<Mutex<Known>>,
}

impl Drop for Gate {
    fn drop(&mut self) {
        let mut known = self.home.lock();
        // Somebody may have asked for the inode again since the last holder went.
        let gone = |gate: &Weak<Self>| gate.strong_count() == 0;
        if known.get(&self.inode).is_some_and(gone) {
            known.remove(&self.inode);
        }
    }
}

/// The right to have one write with the kernel. Given back when dropped.
pub(super) struct Pass {
    changing: Changing,
    /// The write is counted among those that workers of a ring have.
    by_worker: bool,
}

impl Pass {
    /// Waits until the file takes a write of this group.
    pub(super) async fn of(gate: &Arc<Gate>, group: Group) -> Self {
        gate.enter(group).await;
        Self {
            changing: Changing::of(gate),
            by_worker: false,
        }
    }

    /// What is known of the file's pages.
    pub(super) fn rewrites(&self) -> &Rewrites {
        &self.changing.0.rewrites
    }

    /// A worker of a ring makes the write.
    pub(super) fn goes_by_worker(&mut self) {
        if !self.by_worker {
            self.by_worker = true;
            self.rewrites().begin();
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if self.by_worker {
            self.rewrites().end();
        }
        self.changing.0.leave();
    }
}

/// A change of the file's bytes that goes on. What was read of the file before it began, or while it goes on,
/// may not be what the file holds when it has ended.
pub(super) struct Changing(Arc<Gate>);

impl Changing {
    pub(super) fn of(gate: &Arc<Gate>) -> Self {
        gate.begun.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(gate))
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::AcqRel);
    }
}

impl Gate {
    /// How many changes of the file's bytes were begun.
    pub(super) fn changes(&self) -> u64 {
        self.begun.load(Ordering::Acquire)
    }

    /// How many of them have ended.
    pub(super) fn ended(&self) -> u64 {
        self.ended.load(Ordering::Acquire)
    }

    /// Whether none of them goes on. In this order: what was begun by the second look had ended by the first.
    pub(super) fn is_quiet(&self) -> bool {
        let ended = self.ended();
        ended == self.changes()
    }

    fn enter(&self, group: Group) -> Enter<'_> {
        Enter {
            gate: self,
            group,
            place: Place::New,
        }
    }

    fn leave(&self) {
        let admitted = self.state.lock().leave();
        wake(admitted);
    }
}

fn wake(admitted: Vec<Waker>) {
    for waker in admitted {
        waker.wake();
    }
}

/// Waits for admission; whoever is told that it is ready owes one [`Gate::leave`].
struct Enter<'g> {
    gate: &'g Gate,
    group: Group,
    place: Place,
}

enum Place {
    New,
    /// The writer has this number in the queue, or was admitted since it was last asked.
    Waiting(u64),
    Over,
}

impl Future for Enter<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.gate.state.lock();
        let waiting = match self.place {
            Place::Over => None,
            Place::New => state.enter(self.group, || context.waker().clone()),
            Place::Waiting(number) => match state.waiter(number) {
                Some(waker) => {
                    waker.clone_from(context.waker());
                    Some(number)
                }
                None => None,
            },
        };
        drop(state);
        match waiting {
            Some(number) => {
                self.place = Place::Waiting(number);
                Poll::Pending
            }
            None => {
                self.place = Place::Over;
                Poll::Ready(())
            }
        }
    }
}

impl Drop for Enter<'_> {
    fn drop(&mut self) {
        if let Place::Waiting(number) = self.place {
            let admitted = self.gate.state.lock().give_up(number);
            wake(admitted);
        }
    }
}

/// Which writers are in and which wait, without a clock and without a memory of the past.
struct State<W> {
    /// How many writers are in, all of them of `group`.
    running: usize,
    group: Group,
    /// The writers that wait, first come first; there are some only while somebody is in.
    queue: VecDeque<Waiter<W>>,
    next: u64,
}

struct Waiter<W> {
    number: u64,
    group: Group,
    waker: W,
}

impl<W> Default for State<W> {
    fn default() -> Self {
        Self {
            running: 0,
            group: Group::Cached,
            queue: VecDeque::new(),
            next: 0,
        }
    }
}

impl<W> State<W> {
    /// Admits at once (`None`) or queues, and says under which number.
    fn enter(&mut self, group: Group, waker: impl FnOnce() -> W) -> Option<u64> {
        if self.queue.is_empty() && (self.running == 0 || self.group == group) {
            self.group = group;
            self.running += 1;
            return None;
        }
        let number = self.next;
        self.next += 1;
        let waker = waker();
        self.queue.push_back(Waiter {
            number,
            group,
            waker,
        });
        Some(number)
    }

    /// Takes note that one of the writers in the gate is done. Returns those who are let in now.
    #[must_use]
    fn leave(&mut self) -> Vec<W> {
        self.running -= 1;
        self.admit()
    }

    /// Takes out a writer that waited and goes away, perhaps after it was admitted. Returns those who are let
    /// in now.
    #[must_use]
    fn give_up(&mut self, number: u64) -> Vec<W> {
        let at = self.queue.iter().position(|waiter| waiter.number == number);
        match at {
            Some(at) => {
                self.queue.remove(at);
                self.admit()
            }
            None => self.leave(),
        }
    }

    fn waiter(&mut self, number: u64) -> Option<&mut W> {
        let mut waiters = self.queue.iter_mut();
        let waiter = waiters.find(|waiter| waiter.number == number);
        waiter.map(|waiter| &mut waiter.waker)
    }

    /// Lets in whom nothing holds up: a whole group at the end of a phase, and, where one that
    /// waited first has gone away, who is of the group that is in.
    fn admit(&mut self) -> Vec<W> {
        let mut admitted = Vec::new();
        let Some(first) = self.queue.front().map(|waiter| waiter.group) else {
            return admitted;
        };
        if self.running == 0 {
            self.group = first;
            let waiting = std::mem::take(&mut self.queue);
            for waiter in waiting {
                if waiter.group == first {
                    admitted.push(waiter.waker);
                } else {
                    self.queue.push_back(waiter);
                }
            }
        } else if first == self.group {
            while self.queue.front().is_some_and(|next| next.group == first) {
                admitted.extend(self.queue.pop_front().map(|waiter| waiter.waker));
            }
        }
        self.running += admitted.len();
        admitted
    }
}

#[cfg(test)]
mod tests;
