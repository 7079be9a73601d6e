//! How long calls take: one histogram for each procedure, kept at a few additions a call.
//!
//! A time falls into one of four classes for each power of two microseconds, so that a percentile is told
//! by the upper bound of its class: never too short, and by a quarter too long at most. The longest time is
//! kept as it was. Figures only grow; each shard adds to its own, and they are added up when somebody asks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The last class holds all that took 29 seconds and longer.
const CLASSES: usize = 96;

/// The times of one procedure's calls.
pub(crate) struct Latency {
    /// How many calls fell into each class of times, the shortest first.
    classes: [AtomicU64; CLASSES],
    microseconds_max: AtomicU64,
}

/// How often a procedure was called and how long that took: from the moment the call was received whole to
/// the one its reply was ready to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcedureStatus {
    /// The procedure's name in RFC 1813, or the operation's in RFC 8881 or RFC 7862.
    pub procedure: String,
    /// How many calls of the procedure were answered.
    pub calls: u64,
    /// Half of the calls took less time than this, in microseconds.
    pub p50_below_us: u64,
    /// Ninety-nine of a hundred calls took less time than this, in microseconds.
    pub p99_below_us: u64,
    /// The time that the longest call took, in whole microseconds.
    pub max_us: u64,
}

impl Default for Latency {
    fn default() -> Self {
        Self {
            classes: std::array::from_fn(|_| AtomicU64::new(0)),
            microseconds_max: AtomicU64::new(0),
        }
    }
}

impl Latency {
    /// Counts a call that took this long.
    pub(crate) fn record(&self, took: Duration) {
        let microseconds = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if let Some(class) = self.classes.get(class_of(microseconds)) {
            class.fetch_add(1, Ordering::Relaxed);
        }
        // Most calls are not the longest: those only look.
        if microseconds > self.microseconds_max.load(Ordering::Relaxed) {
            self.microseconds_max
                .fetch_max(microseconds, Ordering::Relaxed);
        }
    }

    /// The figures for `procedure`, of all shards together; `None` if it was never called.
    pub(crate) fn status<'l>(
        of_shards: impl Iterator<Item = &'l Self>,
        procedure: &str,
    ) -> Option<ProcedureStatus> {
        let (mut classes, mut max_us) = ([0; CLASSES], 0);
        for of_shard in of_shards {
            for (sum, class) in classes.iter_mut().zip(&of_shard.classes) {
                *sum += class.load(Ordering::Relaxed);
            }
            max_us = max_us.max(of_shard.microseconds_max.load(Ordering::Relaxed));
        }
        let calls: u64 = classes.iter().sum();
        let below = |percent: u64| below(&classes, (calls * percent).div_ceil(100), max_us);
        (calls > 0).then(|| ProcedureStatus {
            procedure: procedure.to_owned(),
            calls,
            p50_below_us: below(50),
            p99_below_us: below(99),
            max_us,
        })
    }
}

/// Microseconds that `least` calls or more stay below.
fn below(classes: &[u64; CLASSES], least: u64, max_us: u64) -> u64 {
    let mut so_far = 0;
    let class = classes.iter().position(|calls| {
        so_far += calls;
        so_far >= least
    });
    let longest = max_us.saturating_add(1);
    match class {
        Some(class) if class + 1 < CLASSES => upper_bound(class).min(longest),
        Some(_) | None => longest,
    }
}

/// The class of a time: the highest three bits of its microseconds.
fn class_of(microseconds: u64) -> usize {
    let shift = microseconds
        .checked_ilog2()
        .and_then(|bit| bit.checked_sub(2));
    let class = shift.map_or(microseconds, |shift| {
        4 * u64::from(shift) + (microseconds >> shift)
    });
    usize::try_from(class).unwrap_or(CLASSES).min(CLASSES - 1)
}

/// The first microsecond that is no more of the class.
fn upper_bound(class: usize) -> u64 {
    let next = class as u64 + 1;
    match (next / 4).checked_sub(1) {
        None => next,
        Some(shift) => (4 + next % 4) << shift,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn latency(microseconds: &[u64]) -> ProcedureStatus {
        let latency = Latency::default();
        for &microseconds in microseconds {
            latency.record(Duration::from_micros(microseconds));
        }
        Latency::status([&latency].into_iter(), "READ").unwrap()
    }

    fn figures(microseconds: &[u64]) -> (u64, u64, u64) {
        let status = latency(microseconds);
        (status.p50_below_us, status.p99_below_us, status.max_us)
    }

    #[test]
    fn what_was_never_called_has_no_figures() {
        let latency = Latency::default();
        assert_eq!(Latency::status([&latency].into_iter(), "READ"), None);
    }

    #[test]
    fn percentiles_are_bounds_and_the_longest_is_exact() {
        assert_eq!(figures(&[0]), (1, 1, 0));
        assert_eq!(figures(&[100]), (101, 101, 100), "no more than the longest");
        assert_eq!(figures(&[10, 1000]), (12, 1001, 1000));
        assert_eq!(figures(&[10, 1000, 1000]), (1001, 1001, 1000));
        let mut many = vec![100; 98];
        many.extend([5000; 2]);
        assert_eq!(figures(&many), (112, 5001, 5000));
        many.extend([100; 100]);
        assert_eq!(
            figures(&many),
            (112, 112, 5000),
            "one in a hundred is beyond it"
        );
        let hours = 7_200_000_000;
        assert_eq!(figures(&[hours]), (hours + 1, hours + 1, hours));
        assert_eq!(latency(&[1, 2, 3]).calls, 3);
    }

    #[test]
    fn shards_are_added_up() {
        let [one, other] = [(); 2].map(|()| Latency::default());
        one.record(Duration::from_micros(10));
        other.record(Duration::from_micros(1000));
        let status = Latency::status([&one, &other].into_iter(), "READ").unwrap();
        assert_eq!(
            (status.calls, status.p50_below_us, status.max_us),
            (2, 12, 1000)
        );
    }

    #[test]
    fn classes_follow_each_other_without_a_gap() {
        for class in 0..CLASSES - 2 {
            let next = upper_bound(class);
            assert_eq!(class_of(next - 1), class, "{class}");
            assert_eq!(class_of(next), class + 1, "{class}");
        }
        assert_eq!(class_of(u64::MAX), CLASSES - 1);
    }

    proptest! {
        #[test]
        fn a_bound_is_above_and_by_a_quarter_at_most(microseconds in 0_u64..28_000_000) {
            let bound = upper_bound(class_of(microseconds));
            prop_assert!(microseconds < bound);
            prop_assert!(bound <= microseconds + microseconds / 4 + 1);
        }
    }
}
