//! Counters of which each shard has its own, so that two shards do not take one cache line from each other with
//! every call.
//!
//! Who counts where is a guess, not a rule: adding is atomic, and a sum is right whoever added.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits;

/// A `T` for each shard; those beyond [`limits::COUNTER_STRIPES_MAX`] share them.
pub(crate) struct Striped<T>(Box<[Apart<T>]>);

/// Two cache lines apart from the next, since processors fetch them in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Apart<T>(T);

impl<T: Default> Default for Striped<T> {
    fn default() -> Self {
        static STRIPES: OnceLock<usize> = OnceLock::new();
        let stripes = *STRIPES.get_or_init(|| {
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            processors.min(limits::COUNTER_STRIPES_MAX)
        });
        let stripes = std::iter::repeat_with(Apart::default).take(stripes);
        Self(stripes.collect())
    }
}

impl<T> Striped<T> {
    /// The calling shard's. `None` is never returned: there is one at least.
    pub(crate) fn own(&self) -> Option<&T> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        std::thread_local! {
            // Few threads but shards count, so they are numbered one after the other.
            static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
        }
        let number = NUMBER.with(|number| *number);
        let stripe = self.0.get(number.checked_rem(self.0.len())?);
        stripe.map(|stripe| &stripe.0)
    }

    /// All of them, to be added up.
    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|stripe| &stripe.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_do_not_share_cache_lines() {
        assert_eq!(align_of::<Apart<u8>>(), 128);
        assert_eq!(size_of::<Apart<u8>>() % 128, 0);
    }
}
