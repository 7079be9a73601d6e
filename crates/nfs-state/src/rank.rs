//! Locks with a rank. There is one order: directory, client, file; nobody takes a lock of the same rank or
//! of a lower one while holding one. In builds with debug assertions, each thread keeps count and panics
//! at the first breach, whether or not it would have been a deadlock that time.
//!
//! A slot's lock, a session's paths and the list inside [`Grace`](crate::grace) are taken with any
//! of the others held or none, and nothing is taken under them: they are leaves.

use crate::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::ops::{Deref, DerefMut};

/// Where in the order a lock stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// The table of clients.
    Directory = 1,
    /// What one client holds.
    Client = 2,
    /// What is held in one file.
    File = 3,
    /// Nothing is locked under it.
    Leaf = 4,
}

/// A mutex of a rank. A thread that panicked under it leaves it usable: every change under a lock is
/// made whole before anything can panic, and a release build ends at a panic anyway.
#[derive(Debug)]
pub(crate) struct RankedMutex<T> {
    rank: Rank,
    inner: Mutex<T>,
}

impl<T> RankedMutex<T> {
    pub(crate) const fn new(rank: Rank, value: T) -> Self {
        Self {
            rank,
            inner: Mutex::new(value),
        }
    }

    pub(crate) fn lock(&self) -> Held<MutexGuard<'_, T>> {
        let mark = Mark::take(self.rank);
        let guard = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        Held { guard, _mark: mark }
    }
}

/// A readers-writer lock of a rank.
#[derive(Debug)]
pub(crate) struct RankedRwLock<T> {
    rank: Rank,
    inner: RwLock<T>,
}

impl<T> RankedRwLock<T> {
    pub(crate) const fn new(rank: Rank, value: T) -> Self {
        Self {
            rank,
            inner: RwLock::new(value),
        }
    }

    pub(crate) fn read(&self) -> Held<RwLockReadGuard<'_, T>> {
        let mark = Mark::take(self.rank);
        let guard = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        Held { guard, _mark: mark }
    }

    pub(crate) fn write(&self) -> Held<RwLockWriteGuard<'_, T>> {
        let mark = Mark::take(self.rank);
        let guard = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        Held { guard, _mark: mark }
    }
}

/// A lock that is held. The guard goes before the mark does.
#[derive(Debug)]
pub(crate) struct Held<G> {
    guard: G,
    _mark: Mark,
}

impl<G: Deref> Deref for Held<G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Held<G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

#[cfg(debug_assertions)]
use checked::Mark;
#[cfg(not(debug_assertions))]
use unchecked::Mark;

#[cfg(debug_assertions)]
mod checked {
    use std::cell::Cell;

    use super::Rank;

    // One bit for each rank that this thread holds a lock of.
    #[cfg(not(test))]
    std::thread_local! {
        static HELD: Cell<u8> = const { Cell::new(0) };
    }
    #[cfg(test)]
    shuttle::thread_local! {
        static HELD: Cell<u8> = Cell::new(0);
    }

    /// That this thread holds a lock of this rank.
    #[derive(Debug)]
    pub(super) struct Mark(u8);

    impl Mark {
        pub(super) fn take(rank: Rank) -> Self {
            let bit = 1 << rank as u8;
            let held = HELD.with(Cell::get);
            assert!(held < bit, "a lock of rank {rank:?} under {held:#b}");
            HELD.with(|all| all.set(held | bit));
            Self(bit)
        }
    }

    impl Drop for Mark {
        fn drop(&mut self) {
            HELD.with(|all| all.set(all.get() & !self.0));
        }
    }
}

#[cfg(not(debug_assertions))]
mod unchecked {
    /// Nothing, where nobody counts.
    #[derive(Debug)]
    pub(super) struct Mark;

    impl Mark {
        pub(super) const fn take(_: super::Rank) -> Self {
            Self
        }
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;
    use crate::sync::alone;

    #[test]
    fn locks_are_taken_in_order() {
        alone(|| {
            let directory = RankedRwLock::new(Rank::Directory, ());
            let client = RankedRwLock::new(Rank::Client, ());
            let file = RankedMutex::new(Rank::File, ());
            let _first = directory.read();
            let _second = client.write();
            let _third = file.lock();
        });
    }

    #[test]
    #[should_panic(expected = "a lock of rank Client")]
    fn a_client_under_a_file_is_refused() {
        alone(|| {
            let client = RankedRwLock::new(Rank::Client, ());
            let file = RankedMutex::new(Rank::File, ());
            let _file = file.lock();
            let _client = client.read();
        });
    }

    #[test]
    #[should_panic(expected = "a lock of rank File")]
    fn two_of_a_kind_are_refused() {
        alone(|| {
            let (one, other) = (
                RankedMutex::new(Rank::File, ()),
                RankedMutex::new(Rank::File, ()),
            );
            let _one = one.lock();
            let _other = other.lock();
        });
    }
}
