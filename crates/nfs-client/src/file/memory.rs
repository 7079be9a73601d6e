//! The memory of all files' windows of one client: one budget, one pool of buffers.
//!
//! What is read ahead, on its way, or kept until it is committed counts against the budget; so does
//! data that the caller was given, until it drops it. Windows take what is free and no more, and each
//! has an equal share of it. But one transfer in each direction of each file always goes, whatever
//! others hold ([`Lane`]): nobody waits for memory that only it could give back.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nfs_io::budget::Reclaim;
use nfs_io::{Budget, Buf, BufferPool, Reservation};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::window::Found;

/// What a buffer may be longer than it was asked for, bytes: the pool's sizes are powers of two.
const ROUNDING_BYTES: u64 = 4096;

/// The memory of a client's windows. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    pool: BufferPool,
    /// Windows that hold something: they share the budget.
    windows: AtomicUsize,
    /// What windows' times are counted from: the same for all of a client.
    began: Instant,
    /// Where windows of this client arrived last, of reading and of writing.
    found: [Mutex<Option<Found>>; 2],
    served: [AtomicU64; ServedFrom::ALL.len()],
}

/// Where what a program asked for came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServedFrom {
    /// Data that had been read ahead and was there.
    Ahead,
    /// Data that was being read ahead, and was waited for.
    Coming,
    /// Data that a READ was sent for when it was asked for.
    Read,
    /// Attributes of an open file that were known.
    Known,
    /// Attributes of an open file that a GETATTR was sent for.
    Getattr,
}

impl ServedFrom {
    pub(crate) const ALL: [Self; 5] = [
        Self::Ahead,
        Self::Coming,
        Self::Read,
        Self::Known,
        Self::Getattr,
    ];

    /// A READ ahead, which had to be `waited` for or not.
    pub(crate) fn slot(waited: bool) -> Self {
        match waited {
            true => Self::Coming,
            false => Self::Ahead,
        }
    }
}

/// Which way a window moves data.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// One direction of one file: at most one of its transfers at a time goes beyond the budget.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    one: Arc<Semaphore>,
}

/// The right to have one transfer on its way beyond the budget; given back when it is dropped.
///
/// To be held until the transfer is over, not for as long as its data is kept: who keeps data for a
/// caller does not stop the file's next transfer.
#[must_use = "dropping it lets the file's next transfer go"]
#[derive(Debug)]
pub(crate) struct Beyond {
    _permit: OwnedSemaphorePermit,
}

/// Says that a window holds something. Dropping it gives up the window's share.
#[derive(Debug)]
pub(crate) struct Share {
    shared: Arc<Shared>,
}

impl Memory {
    /// Memory for all files of a client, `bytes` together.
    pub(crate) fn new(bytes: u64) -> Self {
        let shared = Shared {
            pool: BufferPool::new(Budget::new(bytes)),
            windows: AtomicUsize::new(0),
            began: Instant::now(),
            found: Default::default(),
            served: Default::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// The budget: what is in use, and what was at most.
    pub(crate) fn budget(&self) -> &Budget {
        self.shared.pool.budget()
    }

    /// A buffer of `len` bytes if there is room for it now; idle memory, and what others read ahead
    /// and do not use, is given back for it. Not to be called with a window's lock held.
    pub(crate) fn try_buffer(&self, len: usize) -> Option<Buf> {
        self.shared.pool.try_take(len)
    }

    /// A buffer of `len` bytes, waiting for room, or for the lane's one transfer beyond the budget;
    /// then the second value is to be held until the transfer is over. `None` only for more than the
    /// largest buffer there is.
    pub(crate) async fn buffer(&self, len: usize, lane: &Lane) -> Option<(Buf, Option<Beyond>)> {
        if let Some(buf) = self.try_buffer(len) {
            return Some((buf, None));
        }
        tokio::select! {
            biased;
            Some(buf) = self.shared.pool.take(len) => Some((buf, None)),
            beyond = lane.beyond() => Some((lone_buffer(len)?, Some(beyond))),
        }
    }

    /// Counts `bytes` of somebody else's memory (data that a caller gave to write) if there is room
    /// now. Not to be called with a window's lock held.
    pub(crate) fn try_reserve(&self, bytes: u64) -> Option<Reservation> {
        self.budget().try_reserve(bytes)
    }

    /// As [`Self::try_reserve`], waiting for room, or for the lane's one transfer beyond the budget.
    pub(crate) async fn reserve(&self, bytes: u64, lane: &Lane) -> Result<Reservation, Beyond> {
        tokio::select! {
            biased;
            Some(reservation) = self.budget().reserve(bytes) => Ok(reservation),
            beyond = lane.beyond() => Err(beyond),
        }
    }

    /// Registers who can give back what nobody waits for when the budget is short. It is called in
    /// anybody's [`Self::try_buffer`], and so must not wait for a lock.
    pub(crate) fn register(&self, reclaim: &Arc<impl Reclaim + 'static>) {
        let weak = Arc::downgrade(reclaim);
        self.budget().register_reclaim(weak);
    }

    /// Announces a window that holds something.
    pub(crate) fn share(&self) -> Share {
        self.shared.windows.fetch_add(1, Ordering::Relaxed);
        Share {
            shared: self.shared.clone(),
        }
    }

    /// How many windows hold something.
    pub(crate) fn windows(&self) -> u32 {
        let windows = self.shared.windows.load(Ordering::Relaxed);
        u32::try_from(windows).unwrap_or(u32::MAX)
    }

    /// How many transfers of `bytes` each window may hold, at least 1: an equal share for all that
    /// hold something.
    pub(crate) fn transfers_max(&self, bytes: u32) -> u32 {
        let windows = self.shared.windows.load(Ordering::Relaxed).max(1);
        let windows = u64::try_from(windows).unwrap_or(u64::MAX);
        let transfers = self.budget().total() / windows / u64::from(bytes.max(1));
        u32::try_from(transfers).unwrap_or(u32::MAX).max(1)
    }

    /// The time that windows are told.
    pub(crate) fn now(&self) -> Duration {
        self.shared.began.elapsed()
    }

    /// Something that was asked for came from there.
    pub(crate) fn served(&self, from: ServedFrom) {
        if let Some(count) = self.shared.served.get(from as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often something that was asked for came from there.
    pub(crate) fn served_count(&self, from: ServedFrom) -> u64 {
        let count = self.shared.served.get(from as usize);
        count.map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Where a window of this client arrived last, if one did.
    pub(crate) fn found(&self, direction: Direction) -> Option<Found> {
        *self.last_found(direction)
    }

    /// Tells the windows to come where to begin.
    pub(crate) fn arrived(&self, direction: Direction, found: Found) {
        *self.last_found(direction) = Some(found);
    }

    fn last_found(&self, direction: Direction) -> MutexGuard<'_, Option<Found>> {
        let [read, write] = &self.shared.found;
        let last = match direction {
            Direction::Read => read,
            Direction::Write => write,
        };
        last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lane {
    pub(crate) fn new() -> Self {
        Self {
            one: Arc::new(Semaphore::new(1)),
        }
    }

    async fn beyond(&self) -> Beyond {
        match self.one.clone().acquire_owned().await {
            Ok(permit) => Beyond { _permit: permit },
            Err(_) => unreachable!("the semaphore is never closed"),
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shared.windows.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A buffer of its own that no budget counts; its memory goes when it is dropped.
fn lone_buffer(len: usize) -> Option<Buf> {
    let bytes = u64::try_from(len.max(1).next_power_of_two()).ok()?;
    BufferPool::new(Budget::new(bytes + ROUNDING_BYTES)).try_take(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
    }

    #[test]
    fn one_transfer_of_a_file_goes_whatever_is_held() {
        runtime().block_on(async {
            let memory = Memory::new(2 << 20);
            let held: Vec<Buf> = (0..2).map(|_| memory.try_buffer(MIB).unwrap()).collect();
            assert!(memory.try_buffer(MIB).is_none());
            let (one, other) = (Lane::new(), Lane::new());
            let (first, beyond) = memory.buffer(MIB, &one).await.unwrap();
            assert!(beyond.is_some());
            // The lane's second waits for the first one's end, another file does not.
            let waiter = memory.buffer(MIB, &one);
            tokio::pin!(waiter);
            tokio::select! {
                biased;
                _ = &mut waiter => panic!("a second transfer beyond the budget"),
                taken = memory.buffer(MIB, &other) => assert!(taken.unwrap().1.is_some()),
            }
            // It goes on although the first one's data is still kept.
            drop(beyond);
            let (second, beyond) = waiter.await.unwrap();
            assert!(beyond.is_some());
            assert_eq!((first.len(), second.len()), (MIB, MIB));
            assert_eq!(memory.budget().peak(), 2 << 20);
            drop(held);
            assert!(memory.buffer(MIB, &one).await.unwrap().1.is_none());
        });
    }

    #[test]
    fn what_no_budget_could_hold_still_goes_one_by_one() {
        runtime().block_on(async {
            let memory = Memory::new(4096);
            let lane = Lane::new();
            let (buf, beyond) = memory.buffer(MIB, &lane).await.unwrap();
            assert_eq!((buf.len(), beyond.is_some()), (MIB, true));
            assert!(memory.reserve(4096, &lane).await.is_ok());
            drop(beyond);
            assert!(memory.reserve(4097, &lane).await.is_err());
        });
    }

    #[test]
    fn windows_share_the_budget() {
        let memory = Memory::new(64 << 20);
        assert_eq!(memory.transfers_max(1 << 20), 64);
        let shares: Vec<Share> = (0..4).map(|_| memory.share()).collect();
        assert_eq!(memory.transfers_max(1 << 20), 16);
        assert_eq!(memory.transfers_max(u32::MAX), 1);
        drop(shares);
        assert_eq!(memory.transfers_max(0), 64 << 20);
    }
}
