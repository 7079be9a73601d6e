//! The policy of an export that is served: the configured one, or what was put in its place since.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::IoPolicy;

/// What an export holds. A reload makes a new one from the configuration, so a live change lasts until
/// the next reload or restart.
#[derive(Debug)]
pub struct LivePolicy {
    configured: Arc<IoPolicy>,
    current: ArcSwap<IoPolicy>,
}

impl LivePolicy {
    /// Starts with the policy that the configuration has.
    #[must_use]
    pub fn new(configured: IoPolicy) -> Self {
        let configured = Arc::new(configured);
        Self {
            current: ArcSwap::new(Arc::clone(&configured)),
            configured,
        }
    }

    /// The policy that holds now. For one decision: whoever keeps it decides by an old one after a
    /// change. Costs no lock and, in most cases, no shared counter.
    pub fn now(&self) -> arc_swap::Guard<Arc<IoPolicy>> {
        self.current.load()
    }

    /// The policy that a reload or a restart goes back to.
    #[must_use]
    pub fn configured(&self) -> &IoPolicy {
        &self.configured
    }

    /// Does something else hold than is configured?
    #[must_use]
    pub fn is_changed(&self) -> bool {
        **self.now() != *self.configured
    }

    /// Puts what `change` makes of the present policy in its place, as one step: two changes at once
    /// follow each other. Returns the policies before and after.
    pub fn change(&self, change: impl Fn(&IoPolicy) -> IoPolicy) -> (Arc<IoPolicy>, Arc<IoPolicy>) {
        loop {
            let before = self.current.load_full();
            let after = Arc::new(change(&before));
            let found = self.current.compare_and_swap(&before, Arc::clone(&after));
            if Arc::ptr_eq(&found, &before) {
                return (before, after);
            }
        }
    }
}

impl PartialEq for LivePolicy {
    /// Compares what is configured: a live change makes no other export.
    fn eq(&self, other: &Self) -> bool {
        self.configured == other.configured
    }
}

impl Eq for LivePolicy {}
