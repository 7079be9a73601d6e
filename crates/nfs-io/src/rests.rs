//! Rests: for how long something is not tried again that did not pay. Each that follows soon on the last one is twice
//! as long.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

/// When something that did not pay is not tried again.
#[derive(Debug)]
pub(crate) struct Rests {
    /// When the last one ends.
    until: Instant,
    /// How long the last one was to be.
    last: Duration,
    lengths: RangeInclusive<Duration>,
}

impl Rests {
    /// None yet. They are as long as `milliseconds` says, the first of them as short as that.
    pub(crate) fn new(now: Instant, milliseconds: RangeInclusive<u64>) -> Self {
        let (least, most) = milliseconds.into_inner();
        Self {
            until: now,
            last: Duration::ZERO,
            lengths: Duration::from_millis(least)..=Duration::from_millis(most),
        }
    }

    /// It did not pay: a rest begins, for twice as long as the last time if that ended no longer ago than it lasted. One
    /// that is not over begins again.
    pub(crate) fn begin(&mut self, now: Instant) {
        let (least, most) = (*self.lengths.start(), *self.lengths.end());
        if now >= self.until {
            self.last = match now.duration_since(self.until) <= self.last {
                true => (self.last * 2).clamp(least, most),
                false => least,
            };
        }
        self.until = now + self.last;
    }

    /// Whether there is none at that time.
    pub(crate) fn are_over(&self, now: Instant) -> bool {
        now >= self.until
    }
}
