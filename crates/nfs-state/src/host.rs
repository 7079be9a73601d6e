//! What each host holds of what is bounded, and how much of it a host may hold.
//!
//! A host may make as many clients as it likes, each with its own bounds, so that those keep no host from taking
//! everything. So clients, sessions, opens, locks and kept replies are counted for the host that a client came from as
//! well: it may hold so many times what it leaves free ([`limits::STATE_TIMES_FREE_MAX`]): half of all where it is
//! alone, a third beside another one that takes all it can. Who holds nothing finds room.

use core::net::IpAddr;
use std::sync::Arc;

use crate::limits;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// A host, as the driver tells hosts apart: the same number for whoever shares one share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Host(pub u128);

/// Where a client comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The host that what it holds is counted for.
    pub host: Host,
    /// Its address, for the operator's eyes.
    pub address: IpAddr,
    /// The minor version of NFSv4 that it speaks, for the operator's eyes.
    pub minor: u32,
}

/// How much there may be of each thing, of all hosts together.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Confirmed clients.
    pub clients_max: usize,
    /// Sessions.
    pub sessions_max: usize,
    /// Opens.
    pub opens_max: usize,
    /// Lock stateids.
    pub lock_states_max: usize,
    /// Locked ranges.
    pub ranges_max: usize,
    /// Places in queues for locks.
    pub waiters_max: usize,
}

impl Bounds {
    /// Those of [`limits`], which a server has.
    pub const DEFAULT: Self = Self {
        clients_max: limits::CLIENTS_MAX,
        sessions_max: limits::SESSIONS_MAX,
        opens_max: limits::OPENS_MAX,
        lock_states_max: limits::LOCK_STATES_MAX,
        ranges_max: limits::RANGES_MAX,
        waiters_max: limits::WAITERS_MAX,
    };
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Client,
    Session,
    Open,
    LockState,
    Range,
    Waiter,
}

const KINDS: usize = What::Waiter as usize + 1;

#[derive(Debug, Default)]
struct Counts([AtomicUsize; KINDS]);

impl Counts {
    fn get(&self, what: What) -> usize {
        let count = self.0.get(what as usize);
        count.map_or(0, |count| count.load(Ordering::Relaxed))
    }

    fn add(&self, what: What, more: usize) {
        if let Some(count) = self.0.get(what as usize) {
            count.fetch_add(more, Ordering::Relaxed);
        }
    }

    fn sub(&self, what: What, less: usize) {
        if let Some(count) = self.0.get(what as usize) {
            let before = count.fetch_sub(less, Ordering::Relaxed);
            debug_assert!(before >= less, "more given back than taken of {what:?}");
        }
    }
}

/// What all hosts hold together.
#[derive(Debug)]
pub(crate) struct Totals {
    bounds: Bounds,
    counts: Counts,
}

impl Totals {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            counts: Counts::default(),
        }
    }

    const fn max(&self, what: What) -> usize {
        match what {
            What::Client => self.bounds.clients_max,
            What::Session => self.bounds.sessions_max,
            What::Open => self.bounds.opens_max,
            What::LockState => self.bounds.lock_states_max,
            What::Range => self.bounds.ranges_max,
            What::Waiter => self.bounds.waiters_max,
        }
    }

    pub(crate) fn has_any(&self, what: What) -> bool {
        self.counts.get(what) > 0
    }

    fn free(&self, what: What) -> usize {
        self.max(what).saturating_sub(self.counts.get(what))
    }
}

/// What one host holds. Everything that is counted keeps it.
#[derive(Debug)]
pub(crate) struct Holdings {
    counts: Counts,
    /// Bytes of kept replies.
    pub(crate) reply_bytes: AtomicUsize,
    totals: Arc<Totals>,
}

impl Holdings {
    pub(crate) fn new(totals: Arc<Totals>) -> Self {
        Self {
            counts: Counts::default(),
            reply_bytes: AtomicUsize::new(0),
            totals,
        }
    }

    /// Whether the host may have one more. Threads that ask at the same time may each be told so: the bound is passed by
    /// no more than there are threads.
    pub(crate) fn has_room(&self, what: What) -> bool {
        may_hold(self.counts.get(what), 1, self.totals.free(what))
    }

    /// Counts one, if the host may have it.
    pub(crate) fn take(self: &Arc<Self>, what: What) -> Option<Counted> {
        self.has_room(what).then(|| self.count(what))
    }

    /// Counts one that there is in any case.
    pub(crate) fn count(self: &Arc<Self>, what: What) -> Counted {
        self.totals.counts.add(what, 1);
        self.counts.add(what, 1);
        let holdings = Arc::clone(self);
        Counted { holdings, what }
    }

    /// There are so many of what there were so many of before.
    pub(crate) fn changed(&self, what: What, before: usize, after: usize) {
        for counts in [&self.counts, &self.totals.counts] {
            counts.add(what, after.saturating_sub(before));
            counts.sub(what, before.saturating_sub(after));
        }
    }
}

/// Whether a host that holds so much may take more where so much is free.
pub(crate) const fn may_hold(held: usize, more: usize, free: usize) -> bool {
    let after = held.saturating_add(more);
    let share = free.saturating_mul(limits::STATE_TIMES_FREE_MAX);
    more <= free && (held == 0 || after <= share)
}

/// One thing that is counted, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Counted {
    holdings: Arc<Holdings>,
    what: What,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.holdings.counts.sub(self.what, 1);
        self.holdings.totals.counts.sub(self.what, 1);
    }
}

/// A place in a queue, counted for a client and its host for as long as this lives.
#[derive(Debug)]
pub(crate) struct Place {
    _counted: Counted,
    of_client: Arc<AtomicUsize>,
}

impl Place {
    pub(crate) fn new(counted: Counted, of_client: &Arc<AtomicUsize>) -> Self {
        of_client.fetch_add(1, Ordering::Relaxed);
        Self {
            _counted: counted,
            of_client: Arc::clone(of_client),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.of_client.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holdings(totals: &Arc<Totals>) -> Arc<Holdings> {
        Arc::new(Holdings::new(Arc::clone(totals)))
    }

    fn all_that_goes(of: &Arc<Holdings>) -> Vec<Counted> {
        std::iter::from_fn(|| of.take(What::Open)).collect()
    }

    #[test]
    fn a_host_has_half_and_the_next_half_of_the_rest() {
        crate::sync::alone(|| {
            let bounds = Bounds {
                opens_max: 1000,
                ..Bounds::DEFAULT
            };
            let totals = Arc::new(Totals::new(bounds));
            let (one, two) = (holdings(&totals), holdings(&totals));
            let of_one = all_that_goes(&one);
            assert!((499..=501).contains(&of_one.len()), "{}", of_one.len());
            let of_two = all_that_goes(&two);
            assert!((249..=251).contains(&of_two.len()), "{}", of_two.len());
            let others = (3..40).map(|_| holdings(&totals));
            let first: Vec<_> = others.filter_map(|other| other.take(What::Open)).collect();
            assert_eq!(first.len(), 37, "who has nothing finds room");
            drop(of_one);
            assert!(two.take(What::Open).is_some(), "there is room again");
            drop((of_two, first));
            assert_eq!(totals.free(What::Open), 1000);
        });
    }

    #[test]
    fn no_host_gets_more_than_there_is() {
        assert!(may_hold(0, 1, 1));
        assert!(!may_hold(0, 1, 0));
        assert!(!may_hold(0, 5, 4));
        assert!(may_hold(usize::MAX, 0, usize::MAX));
    }
}
