//! The changes of one file system that a round of group commit waits for: those that are under way, and those that are
//! likely to come, since their clients were answered just now.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::limits;

/// The changes of one file system that threads are at work on: each is about to join a round, or to fail.
#[derive(Default)]
pub(super) struct Changes {
    /// The number of the next to begin.
    pub(super) next: u64,
    pub(super) under_way: BTreeSet<u64>,
    /// A round has waited for those below this number for as long as any does: no other waits for them.
    given_up: u64,
    /// A round waits for those below this number, or is going to.
    pub(super) waits_below: Option<u64>,
}

impl Changes {
    /// One more begins; this is its number.
    pub(super) fn begin(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        self.under_way.insert(number);
        number
    }

    pub(super) fn has_any_below(&self, number: u64) -> bool {
        self.given_up < number && self.under_way.range(self.given_up..number).next().is_some()
    }

    /// Whether all below this number have begun and ended.
    pub(super) fn are_over_below(&self, number: u64) -> bool {
        number <= self.next && !self.has_any_below(number)
    }

    /// Nobody waits any more for those below this number that have begun.
    pub(super) fn give_up(&mut self, number: u64) {
        self.given_up = self.given_up.max(number.min(self.next));
    }
}

/// What a round that was answered just now lets the next one expect.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    /// How many were answered: each is likely to be followed by another change of the same client.
    pub(super) count: u64,
    /// When as many have come, this is the number of the next to begin.
    pub(super) until: u64,
    /// Until when the next round may wait for them.
    pub(super) deadline: Instant,
}

/// Which rounds wait for changes that have not come yet. Where they waited in vain, fewer and fewer do.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// How often in a row it was in vain.
    in_vain: u32,
    /// So many rounds more do not wait.
    pass: u32,
}

impl Gathering {
    /// Whether the round that comes now is to wait.
    pub(super) fn is_due(&mut self) -> bool {
        let is_due = self.pass == 0;
        self.pass = self.pass.saturating_sub(1);
        is_due
    }

    /// A round waited, and so many came of those that it waited for.
    pub(super) fn came(&mut self, came: u64, expected: u64) {
        if came.saturating_mul(2) >= expected {
            *self = Self::default();
            return;
        }
        self.in_vain = (self.in_vain + 1).min(limits::ROUNDS_PASSED_LOG2_MAX);
        self.pass = (1 << self.in_vain) - 1;
    }
}

/// How long a round waits for changes to come, where the last flush took so long.
pub(super) fn gathers_for(last_flush: Duration, flushes: u32, patience: Duration) -> Duration {
    last_flush.saturating_mul(flushes).min(patience)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nobody_comes_few_rounds_wait() {
        let mut gathering = Gathering::default();
        let mut waited = 0;
        for _round in 0..1000 {
            if gathering.is_due() {
                waited += 1;
                gathering.came(1, 8);
            }
        }
        let most = 1 << limits::ROUNDS_PASSED_LOG2_MAX;
        assert!(waited <= 1000 / most + limits::ROUNDS_PASSED_LOG2_MAX);
        assert!(waited >= 1000 / most, "it tries again");
        while !gathering.is_due() {}
        gathering.came(4, 8);
        assert!(gathering.is_due() && gathering.is_due());
    }

    #[test]
    fn a_round_gathers_for_some_flushes_and_never_for_long() {
        let (fast, slow) = (Duration::from_micros(50), Duration::from_millis(20));
        let most = limits::ROUND_WAITS_MAX;
        assert_eq!(gathers_for(fast, 2, most), Duration::from_micros(100));
        assert_eq!(gathers_for(slow, 2, most), most);
    }

    #[test]
    fn what_has_not_begun_is_neither_over_nor_given_up() {
        let mut changes = Changes::default();
        assert!(!changes.are_over_below(1));
        let first = changes.begin();
        assert!(!changes.are_over_below(1) && changes.are_over_below(first));
        changes.give_up(10);
        assert!(changes.are_over_below(1) && !changes.are_over_below(2));
        let second = changes.begin();
        assert!(changes.has_any_below(second + 1));
    }
}
