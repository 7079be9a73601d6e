//! A number of bytes that many parts of the process share and never exceed.
//!
//! What is reserved is a promise about memory, not memory. Waiters are served in the order they
//! came. Who keeps memory only because it may be useful again (idle buffers) registers a
//! [`Reclaim`] and is asked to give back before anybody waits.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// A holder of reservations that can be given back at once.
pub trait Reclaim: Send + Sync {
    /// Gives back up to `bytes`, or all there is.
    fn reclaim(&self, bytes: u64);
}

/// A shared number of bytes. Cheap to clone; clones share.
#[derive(Clone)]
pub struct Budget {
    inner: Arc<Inner>,
}

struct Inner {
    /// Permits that are free, one per [`UNIT`] bytes.
    permits: Semaphore,
    units: u64,
    peak_units: AtomicU64,
    waiting: AtomicUsize,
    reclaim: Mutex<Vec<Weak<dyn Reclaim>>>,
}

/// Bytes are counted in steps of this many, rounded up.
const UNIT: u64 = 1024;

impl Budget {
    /// A budget of `bytes` (rounded down to KiB; at most 2^60).
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        let units = (bytes / UNIT).min(Semaphore::MAX_PERMITS as u64);
        let inner = Inner {
            permits: Semaphore::new(units as usize),
            units,
            peak_units: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            reclaim: Mutex::new(Vec::new()),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Reserves `bytes` if they are free now. `None` also for what the whole budget could never
    /// hold.
    #[must_use]
    pub fn try_reserve(&self, bytes: u64) -> Option<Reservation> {
        let units = self.units(bytes)?;
        self.try_units(units).or_else(|| {
            self.reclaim(bytes);
            self.try_units(units)
        })
    }

    /// Reserves `bytes` at once or not at all, like [`Budget::try_reserve`], but asks nobody to give memory
    /// back: for what is good to have and not needed.
    pub(crate) fn try_reserve_free(&self, bytes: u64) -> Option<Reservation> {
        self.try_units(self.units(bytes)?)
    }

    /// Reserves `bytes`, waiting for others to give back. First come, first served: a large
    /// request is not overtaken for ever by small ones. Dropping the future gives up the place.
    /// `None` for what the whole budget could never hold.
    pub async fn reserve(&self, bytes: u64) -> Option<Reservation> {
        let units = self.units(bytes)?;
        if let Some(reservation) = self.try_units(units) {
            return Some(reservation);
        }
        // Announced before asking for memory back, so that nobody starts to keep more meanwhile.
        let _waiter = Waiter::new(&self.inner);
        self.reclaim(bytes);
        // The semaphore is never closed.
        self.inner.permits.acquire_many(units).await.ok()?.forget();
        Some(self.reserved(units))
    }

    /// Bytes of the whole budget.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.inner.units * UNIT
    }

    /// Bytes that are reserved now, in whole units.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        (self.inner.units - self.inner.permits.available_permits() as u64) * UNIT
    }

    /// The largest [`Budget::in_use`] so far.
    #[must_use]
    pub fn peak(&self) -> u64 {
        self.inner.peak_units.load(Ordering::Relaxed) * UNIT
    }

    /// Whether somebody waits: memory kept only for later should be given back.
    #[must_use]
    pub fn has_waiters(&self) -> bool {
        self.inner.waiting.load(Ordering::SeqCst) > 0
    }

    /// Registers a holder of memory that is asked to give back when the budget is exhausted.
    pub fn register_reclaim(&self, reclaim: Weak<dyn Reclaim>) {
        let mut all = self.inner.reclaim.lock();
        all.retain(|one| one.strong_count() > 0);
        all.push(reclaim);
    }

    fn units(&self, bytes: u64) -> Option<u32> {
        let units = bytes.div_ceil(UNIT);
        if units > self.inner.units {
            None
        } else {
            u32::try_from(units).ok()
        }
    }

    fn try_units(&self, units: u32) -> Option<Reservation> {
        self.inner.permits.try_acquire_many(units).ok()?.forget();
        Some(self.reserved(units))
    }

    fn reserved(&self, units: u32) -> Reservation {
        let in_use = self.inner.units - self.inner.permits.available_permits() as u64;
        self.inner.peak_units.fetch_max(in_use, Ordering::Relaxed);
        Reservation {
            budget: self.clone(),
            units,
        }
    }

    fn reclaim(&self, bytes: u64) {
        // Not called under the lock: giving back drops reservations, which may do anything.
        let all: Vec<_> = self
            .inner
            .reclaim
            .lock()
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        for one in all {
            one.reclaim(bytes);
        }
    }
}

impl std::fmt::Debug for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Budget({} of {} bytes in use)",
            self.in_use(),
            self.total()
        )
    }
}

/// Bytes of a [`Budget`], given back when this is dropped.
#[must_use = "dropping it gives the bytes back"]
#[derive(Debug)]
pub struct Reservation {
    budget: Budget,
    units: u32,
}

impl Reservation {
    /// Bytes held: what was asked for, rounded up to KiB.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(self.units) * UNIT
    }

    /// Makes `bytes` of it (rounded up to KiB; at most all) a reservation of their own.
    pub(crate) fn split(&mut self, bytes: u64) -> Self {
        let units = self
            .units
            .min(u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX));
        self.units -= units;
        Self {
            budget: self.budget.clone(),
            units,
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.inner.permits.add_permits(self.units as usize);
    }
}

/// Counts one waiter for as long as it waits, also when its future is dropped.
struct Waiter<'a>(&'a Inner);

impl<'a> Waiter<'a> {
    fn new(inner: &'a Inner) -> Self {
        inner.waiting.fetch_add(1, Ordering::SeqCst);
        Self(inner)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn reserves_up_to_the_total_and_not_beyond() {
        let budget = Budget::new(10 * 1024);
        let most = budget.try_reserve(9 * 1024).unwrap();
        assert!(
            budget.try_reserve(1025).is_none(),
            "rounded up to 2 KiB: too much"
        );
        let last = budget.try_reserve(1).unwrap();
        assert_eq!((most.bytes(), last.bytes()), (9 * 1024, 1024));
        assert_eq!(budget.in_use(), budget.total());
        drop(most);
        assert_eq!((budget.in_use(), budget.peak()), (1024, 10 * 1024));
    }

    #[test]
    fn what_can_never_fit_is_refused_and_does_not_wait() {
        let budget = Budget::new(4096);
        assert!(budget.try_reserve(4097).is_none());
        assert!(budget.try_reserve(u64::MAX).is_none());
        assert!(matches!(
            poll(pin!(budget.reserve(1 << 50))),
            Poll::Ready(None)
        ));
    }

    #[test]
    fn waiters_are_served_in_order_and_may_give_up() {
        let budget = Budget::new(4096);
        let all = budget.try_reserve(4096).unwrap();
        let mut large = Box::pin(budget.reserve(4096));
        let mut small = Box::pin(budget.reserve(1024));
        assert!(poll(large.as_mut()).is_pending());
        assert!(poll(small.as_mut()).is_pending());
        assert!(budget.has_waiters());
        drop(all);
        assert!(
            poll(small.as_mut()).is_pending(),
            "the large one came first"
        );
        let Poll::Ready(Some(got)) = poll(large.as_mut()) else {
            panic!("its turn")
        };
        drop(got);
        let mut third = Box::pin(budget.reserve(4096));
        assert!(poll(third.as_mut()).is_pending());
        drop(small);
        assert!(
            poll(third.as_mut()).is_ready(),
            "who gave up does not block the next"
        );
        drop(third);
        assert!(!budget.has_waiters());
        assert_eq!(budget.in_use(), 0);
    }
}
