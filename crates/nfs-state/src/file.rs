//! What is held in one file: share reservations, byte-range locks, who waits for them, and how much of it the
//! host has been told.
//!
//! A [`FileState`] hangs from the driver's object for as long as that lives; every open pins the object,
//! so no state outlives it. It knows names of clients only, never a client itself: a conflict is returned
//! as a name, and whether its holder is still there is asked when this file is no longer locked.
//!
//! **The host's locks.** The union of what all remote owners have locked is shown to the host on one
//! open-file-description lock, so that local programs see it. A lock is first reserved here, then asked for on the
//! host, then granted. [`FileState::host_turn`] says what there is to be done on the host and hands out one turn at a
//! time; what comes of it is told to the turn, and until then nobody else is given one.

mod waiters;

use std::sync::Arc;

use self::waiters::Waiters;
pub use self::waiters::{Notify, Wait};
use crate::error::Error;
use crate::host::Place;
use crate::id::{ClientId, OwnerBytes};
use crate::limits;
use crate::range::{LockKind, Locked, Range, RangeTable, Step, Union};
use crate::rank::{Held, Rank, RankedMutex};
use crate::share::{Bits, OpenKey, ShareTable};
use crate::sync::MutexGuard;
use crate::sync::atomic::{AtomicU8, Ordering};
use crate::time::Millis;

/// Who locks byte ranges.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockOwner {
    /// A lock-owner of a client.
    V4 {
        /// The client.
        client: ClientId,
        /// The owner, as the client names it.
        owner: OwnerBytes,
    },
    /// An owner of the network lock manager.
    Nlm {
        /// The host that locks, by the number that the driver gives it.
        host: u32,
        /// The process there, as its host names it.
        owner: OwnerBytes,
    },
}

impl LockOwner {
    /// The client, of an owner that has one.
    #[must_use]
    pub const fn client(&self) -> Option<ClientId> {
        match self {
            Self::V4 { client, .. } => Some(*client),
            Self::Nlm { .. } => None,
        }
    }
}

/// What is held in one file. Shared by the driver's object and by every open of it.
#[derive(Debug)]
pub struct FileState {
    number: u64,
    /// What the opens deny, for I/O that has no open: asked without a lock.
    denied: AtomicU8,
    inner: RankedMutex<FileInner>,
}

#[derive(Debug, Default)]
pub(crate) struct FileInner {
    pub(crate) shares: ShareTable,
    ranges: RangeTable<LockOwner>,
    pending: Vec<Pending>,
    next_pending: u64,
    waiters: Waiters,
    /// What the host has been told, as far as it agreed.
    mirror: Union,
    /// Where the mirror may be behind.
    behind: Option<Range>,
    turn_taken: bool,
}

/// A lock that is reserved, and neither granted nor given up yet.
#[derive(Debug)]
struct Pending {
    number: u64,
    locked: Locked<LockOwner>,
}

/// Why a range is not to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RangeConflict {
    /// Somebody holds it, or was promised it.
    Held(Locked<LockOwner>),
    /// Somebody is about to get it, or not.
    Pending,
    /// Too many ranges or changes under way.
    Full,
}

impl Default for FileState {
    fn default() -> Self {
        Self::new()
    }
}

impl FileState {
    /// A file in which nothing is held.
    #[must_use]
    pub fn new() -> Self {
        // A static has to be the standard library's own, also where orders of threads are tried out.
        static NUMBERS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        Self {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            denied: AtomicU8::new(0),
            inner: RankedMutex::new(Rank::File, FileInner::default()),
        }
    }

    /// Which file, among all that were ever made.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// Whether the host holds no lock of this file, as far as it was told.
    #[must_use]
    pub fn is_free_on_host(&self) -> bool {
        self.inner.lock().mirror == Union::default()
    }

    /// Whether the host has something to be told.
    #[must_use]
    pub fn is_behind_on_host(&self) -> bool {
        self.inner.lock().behind.is_some()
    }

    /// What the opens of this file deny to I/O that has no open of its own. One atomic load.
    #[must_use]
    pub fn denied(&self) -> Bits {
        Bits::from_wire(u32::from(self.denied.load(Ordering::Acquire))).unwrap_or(Bits::BOTH)
    }

    /// How many opens there are.
    #[must_use]
    pub fn opens(&self) -> usize {
        self.inner.lock().shares.len()
    }

    /// The locked ranges, for the operator's eyes.
    #[must_use]
    pub fn locks(&self) -> Vec<(LockOwner, Range, LockKind)> {
        let inner = self.inner.lock();
        inner
            .ranges
            .iter()
            .map(|l| (l.owner.clone(), l.range, l.kind))
            .collect()
    }

    /// How many wait for ranges.
    #[must_use]
    pub fn waiters(&self) -> usize {
        self.inner.lock().waiters.len()
    }

    /// What the first of those want who wait, so many at most: to be held against what local programs have locked.
    #[must_use]
    pub fn wanted_first(&self, most: usize) -> Vec<(Range, LockKind)> {
        let inner = self.inner.lock();
        let waits = inner.waiters.first(most);
        waits.map(|wait| (wait.range, wait.kind)).collect()
    }

    /// Whether others than this client wait for ranges.
    pub(crate) fn is_waited_for_by_others(&self, client: ClientId) -> bool {
        self.inner.lock().waiters.has_others(client)
    }

    /// Who may try now, after time has passed: to be asked [`limits::CLAIM_MS_MAX`] after somebody was notified, as who
    /// does not take up what it was promised stands in nobody's way then.
    pub fn promises_lapsed(&self, now: Millis) -> Vec<Notify> {
        self.inner.lock().wake(now)
    }

    /// Of what was wanted ([`FileState::wanted_first`]), local programs have these not any more. Who may try now.
    pub fn host_let_go(&self, free: &[(Range, LockKind)], now: Millis) -> Vec<Notify> {
        let mut inner = self.inner.lock();
        inner.waiters.host_let_go(free);
        inner.wake(now)
    }

    /// Somebody could not be notified: it asks again by itself, and nothing is promised to it. Who may try instead.
    pub fn could_not_tell(&self, notify: &Notify, now: Millis) -> Vec<Notify> {
        let mut inner = self.inner.lock();
        inner.waiters.forget(&notify.0);
        inner.wake(now)
    }

    pub(crate) fn lock(&self) -> FileGuard<'_> {
        FileGuard {
            file: self,
            inner: self.inner.lock(),
        }
    }

    /// What there is to be done on the host, as a turn that nobody else has until it is over.
    pub fn host_turn(self: &Arc<Self>) -> HostWork {
        let mut inner = self.inner.lock();
        if inner.turn_taken {
            return HostWork::Taken;
        }
        let Some(window) = inner.behind.take() else {
            return HostWork::Nothing;
        };
        let steps = inner.mirror.steps_to(&inner.wanted(window), window);
        if steps.is_empty() {
            return HostWork::Nothing;
        }
        inner.turn_taken = true;
        HostWork::Turn(HostTurn {
            file: Arc::clone(self),
            steps,
            window,
            at: 0,
            done: Vec::new(),
        })
    }
}

/// What [`FileState::host_turn`] finds.
#[derive(Debug)]
pub enum HostWork {
    /// The host has been told everything.
    Nothing,
    /// Somebody else is telling it something: wait until that turn is over, then ask again.
    Taken,
    /// Do these steps in their order.
    Turn(HostTurn),
}

/// The right to change the host's lock of one file. A step that was not said to have [succeeded](Self::succeeded)
/// when it is dropped counts as not done, and comes again with the next turn if it is wanted then.
#[derive(Debug)]
pub struct HostTurn {
    file: Arc<FileState>,
    steps: Vec<Step>,
    window: Range,
    at: usize,
    done: Vec<Step>,
}

impl HostTurn {
    /// The step to be done now; none when all are.
    #[must_use]
    pub fn next_step(&self) -> Option<Step> {
        self.steps.get(self.at).copied()
    }

    /// The host did what [`HostTurn::next_step`] says.
    pub fn succeeded(&mut self) {
        self.done.extend(self.next_step());
        self.at += 1;
    }

    /// The host did not: somebody else has a part of that range. The steps behind it may be done all the same.
    pub fn refused(&mut self) {
        self.at += 1;
    }
}

impl Drop for HostTurn {
    fn drop(&mut self) {
        let mut inner = self.file.inner.lock();
        for step in &self.done {
            inner.mirror.set(step.range, step.kind);
        }
        if self.done.len() < self.steps.len() {
            inner.note_behind(self.window);
        }
        inner.turn_taken = false;
    }
}

/// A file's state, locked.
#[derive(Debug)]
pub(crate) struct FileGuard<'a> {
    file: &'a FileState,
    inner: Held<MutexGuard<'a, FileInner>>,
}

impl FileGuard<'_> {
    pub(crate) fn shares(&self) -> &ShareTable {
        &self.inner.shares
    }

    pub(crate) fn set_share(&mut self, key: OpenKey, share: crate::share::Share) {
        self.inner.shares.set(key, share);
        self.publish();
    }

    pub(crate) fn remove_share(&mut self, key: OpenKey) {
        self.inner.shares.remove(key);
        self.publish();
    }

    fn publish(&self) {
        let denied = self.inner.shares.denied().to_wire();
        let byte = u8::try_from(denied).unwrap_or(u8::MAX);
        self.file.denied.store(byte, Ordering::Release);
    }

    /// Whether `owner` could lock `range` now.
    pub(crate) fn check(
        &mut self,
        owner: &LockOwner,
        range: Range,
        kind: LockKind,
        now: Millis,
    ) -> Result<(), RangeConflict> {
        self.inner.waiters.lapse(now);
        if let Some(held) = self.inner.ranges.conflict(owner, range, kind) {
            return Err(RangeConflict::Held(held.clone()));
        }
        let pending = self.inner.pending.iter().map(|p| &p.locked);
        if pending
            .clone()
            .any(|p| p.range.overlaps(range) && (p.owner == *owner || p.kind.conflicts(kind)))
        {
            return Err(RangeConflict::Pending);
        }
        match self.inner.waiters.promised(owner, range, kind) {
            Some(promised) => Err(RangeConflict::Held(promised)),
            None => Ok(()),
        }
    }

    /// Reserves what [`FileGuard::check`] found free. The number by which the reservation is granted or given up.
    pub(crate) fn reserve(&mut self, locked: Locked<LockOwner>) -> Result<u64, RangeConflict> {
        let inner = &mut *self.inner;
        if inner.pending.len() >= limits::PENDING_PER_FILE_MAX || !inner.ranges.has_room() {
            return Err(RangeConflict::Full);
        }
        let number = inner.next_pending;
        inner.next_pending += 1;
        inner.note_behind(locked.range);
        inner.pending.push(Pending { number, locked });
        Ok(number)
    }

    /// What is reserved by this number.
    pub(crate) fn reserved(&self, number: u64) -> Option<&Locked<LockOwner>> {
        let mut pending = self.inner.pending.iter();
        pending.find(|p| p.number == number).map(|p| &p.locked)
    }

    /// Ends a reservation: the range is the owner's, or it is nobody's.
    pub(crate) fn settle(&mut self, number: u64, granted: bool, now: Millis) -> Vec<Notify> {
        let inner = &mut *self.inner;
        let Some(at) = inner.pending.iter().position(|p| p.number == number) else {
            return Vec::new();
        };
        let Locked { range, kind, owner } = inner.pending.remove(at).locked;
        // What was a write lock of the same owner may be weaker now; else a grant is what the host was told already.
        let weakens = kind == LockKind::Read
            && inner.ranges.iter().any(|held| {
                held.owner == owner && held.kind == LockKind::Write && held.range.overlaps(range)
            });
        if !granted || weakens {
            inner.note_behind(range);
        }
        if granted {
            inner.ranges.set(&owner, range, Some(kind));
            inner.waiters.served(&owner, range);
        }
        // A write lock may have become a read lock, and what was reserved in vain may be waited for.
        inner.wake(now)
    }

    /// Gives back what `owner` has of `range`. [`RangeConflict::Pending`] while a lock of its own is being asked for
    /// there.
    pub(crate) fn unlock(
        &mut self,
        owner: &LockOwner,
        range: Range,
        now: Millis,
    ) -> Result<Vec<Notify>, RangeConflict> {
        let inner = &mut *self.inner;
        let mut pending = inner.pending.iter().map(|p| &p.locked);
        if pending.any(|p| p.owner == *owner && p.range.overlaps(range)) {
            return Err(RangeConflict::Pending);
        }
        if !inner.ranges.has_room() {
            return Err(RangeConflict::Full);
        }
        inner.ranges.set(owner, range, None);
        inner.note_behind(range);
        Ok(inner.wake(now))
    }

    /// Forgets all locks and waits of the owners for whom `gone` says so.
    pub(crate) fn release(
        &mut self,
        gone: impl Fn(&LockOwner) -> bool,
        now: Millis,
    ) -> Vec<Notify> {
        let inner = &mut *self.inner;
        for locked in inner.ranges.remove(&gone) {
            inner.note_behind(locked.range);
        }
        let mut kept = Vec::with_capacity(inner.pending.len());
        for pending in std::mem::take(&mut inner.pending) {
            match gone(&pending.locked.owner) {
                true => inner.note_behind(pending.locked.range),
                false => kept.push(pending),
            }
        }
        inner.pending = kept;
        inner.waiters.remove(&gone);
        inner.wake(now)
    }

    /// Puts a request that was denied into the queue. False where that is full: the client asks again by itself.
    pub(crate) fn wait(
        &mut self,
        wait: Wait,
        now: Millis,
        place: impl FnOnce() -> Option<Place>,
    ) -> bool {
        self.inner.waiters.add(wait, now, place)
    }

    /// The same for a request that the host refused.
    pub(crate) fn wait_for_host(
        &mut self,
        wait: Wait,
        now: Millis,
        place: impl FnOnce() -> Option<Place>,
    ) -> bool {
        let waiters = &mut self.inner.waiters;
        let has_place = waiters.add(wait.clone(), now, place);
        waiters.stands_behind_host(&wait);
        has_place
    }

    /// Nobody waits through this open any more. Who may try now.
    pub(crate) fn leave(&mut self, key: OpenKey, now: Millis) -> Vec<Notify> {
        match self.inner.waiters.leave(key) {
            true => self.inner.wake(now),
            false => Vec::new(),
        }
    }

    /// How many ranges are locked.
    pub(crate) fn range_count(&self) -> usize {
        self.inner.ranges.len()
    }

    pub(crate) fn holds(&self, owner: &LockOwner) -> bool {
        self.inner.ranges.holds(owner)
    }

    pub(crate) fn is_pending(&self, owner: &LockOwner) -> bool {
        self.inner.pending.iter().any(|p| p.locked.owner == *owner)
    }

    /// Whether the host has something to be told.
    pub(crate) fn is_behind(&self) -> bool {
        self.inner.behind.is_some()
    }
}

impl FileInner {
    /// The union of what is locked and what is reserved.
    fn wanted(&self, window: Range) -> Union {
        let pending = self.pending.iter().map(|p| &p.locked);
        let all = self.ranges.iter().chain(pending);
        Union::of(all.map(|l| (l.range, l.kind)), window)
    }

    fn note_behind(&mut self, range: Range) {
        self.behind = Some(self.behind.map_or(range, |behind| behind.hull(range)));
    }

    fn wake(&mut self, now: Millis) -> Vec<Notify> {
        if self.waiters.is_empty() {
            return Vec::new();
        }
        let (ranges, pending) = (&self.ranges, &self.pending);
        self.waiters.wake(now, |wait| {
            let reserved = pending.iter().map(|p| &p.locked).any(|p| {
                p.owner != wait.owner && p.range.overlaps(wait.range) && p.kind.conflicts(wait.kind)
            });
            !reserved
                && ranges
                    .conflict(&wait.owner, wait.range, wait.kind)
                    .is_none()
        })
    }

    #[cfg(test)]
    pub(crate) fn mirror_is_true(&self) -> bool {
        self.mirror == Union::of(self.ranges.iter().map(|l| (l.range, l.kind)), Range::WHOLE)
    }
}

impl From<RangeConflict> for Error {
    /// What is answered where the holder's name has no place.
    fn from(conflict: RangeConflict) -> Self {
        match conflict {
            RangeConflict::Held(_) => Self::Locked,
            RangeConflict::Pending => Self::Delay,
            RangeConflict::Full => Self::Resource,
        }
    }
}

#[cfg(test)]
mod tests;
