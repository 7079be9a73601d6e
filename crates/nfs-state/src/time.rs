//! Points in time as the driver tells them: milliseconds since the server started. The crate never
//! asks a clock, so that a test decides how late it is.

use crate::sync::atomic::{AtomicU64, Ordering};

/// Milliseconds since the server started. Only differences mean something, and no value outlives the
/// process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millis(pub u64);

impl Millis {
    /// This long after `self`; the end of time if that overflows.
    #[must_use]
    pub const fn plus(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to `self`, 0 if `earlier` is later: shards read the clock each for
    /// itself, and may tell of times in another order.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A point in time that several threads move forwards.
#[derive(Debug, Default)]
pub(crate) struct Latest(AtomicU64);

impl Latest {
    pub(crate) const fn new(at: Millis) -> Self {
        Self(AtomicU64::new(at.0))
    }

    pub(crate) fn get(&self) -> Millis {
        Millis(self.0.load(Ordering::Acquire))
    }

    /// Never moves backwards: of two threads the later time wins.
    pub(crate) fn advance(&self, to: Millis) {
        if self.0.load(Ordering::Relaxed) < to.0 {
            self.0.fetch_max(to.0, Ordering::AcqRel);
        }
    }
}
