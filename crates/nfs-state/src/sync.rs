//! Where locks and atomics come from: the standard library, or in this crate's own unit tests from shuttle, which
//! runs threads in orders of its choice (`interleavings.rs`). Such a test runs inside of
//! [`alone`] or one of shuttle's own checks.

#[cfg(test)]
pub(crate) use shuttle::sync::{
    Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic,
};
#[cfg(not(test))]
pub(crate) use std::sync::{
    Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic,
};

/// Runs a test that has no other threads.
#[cfg(test)]
pub(crate) fn alone(test: impl Fn() + Send + Sync + 'static) {
    shuttle::check_random(test, 1);
}
