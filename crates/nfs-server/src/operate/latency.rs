//! How long calls take: one histogram for each procedure, kept at a few additions a call.
//!
//! A time falls into one of four classes for each power of two microseconds, so that a percentile is told
//! by the upper bound of its class: never too short, and by a quarter too long at most. The longest time and the
//! sum of all are kept as they were. Figures only grow; all shards add to the same ones.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::metrics::Histogram;

/// The last class holds all that took 29 seconds and longer.
const CLASSES: usize = 96;

/// The times of one procedure's calls.
pub(crate) struct Latency {
    /// How many calls fell into each class of times, the shortest first.
    classes: [AtomicU64; CLASSES],
    microseconds_max: AtomicU64,
    nanoseconds_sum: AtomicU64,
}

/// The bounds of [`Latency::histogram`]: powers of two microseconds, from 2^3 (8 us) to 2^24 (16.8 s).
const BOUNDS: std::ops::RangeInclusive<u32> = 3..=24;

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
            nanoseconds_sum: AtomicU64::new(0),
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
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds_sum
            .fetch_add(nanoseconds, Ordering::Relaxed);
        // Most calls are not the longest: those only look.
        if microseconds > self.microseconds_max.load(Ordering::Relaxed) {
            self.microseconds_max
                .fetch_max(microseconds, Ordering::Relaxed);
        }
    }

    /// The times as Prometheus has them; `None` if there are none.
    pub(crate) fn histogram(&self) -> Option<Histogram> {
        let classes = self.classes.each_ref();
        let mut classes = classes
            .map(|class| class.load(Ordering::Relaxed))
            .into_iter();
        let (mut next, mut below) = (0, 0);
        let buckets = BOUNDS.map(|power| {
            // Whole classes: each power of two is where one begins.
            let bound = 1 << power;
            while next < class_of(bound) {
                below += classes.next().unwrap_or(0);
                next += 1;
            }
            (bound as f64 / 1e6, below)
        });
        let buckets: Vec<(f64, u64)> = buckets.collect();
        let count = below + classes.sum::<u64>();
        (count > 0).then(|| Histogram {
            buckets,
            sum: self.nanoseconds_sum.load(Ordering::Relaxed) as f64 / 1e9,
            count,
        })
    }

    /// The figures for `procedure`; `None` if it was never called.
    pub(crate) fn status(&self, procedure: &str) -> Option<ProcedureStatus> {
        let classes = self.classes.each_ref();
        let classes = classes.map(|class| class.load(Ordering::Relaxed));
        let calls: u64 = classes.iter().sum();
        let max_us = self.microseconds_max.load(Ordering::Relaxed);
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
        latency.status("READ").unwrap()
    }

    fn figures(microseconds: &[u64]) -> (u64, u64, u64) {
        let status = latency(microseconds);
        (status.p50_below_us, status.p99_below_us, status.max_us)
    }

    #[test]
    fn what_was_never_called_has_no_figures() {
        assert_eq!(Latency::default().status("READ"), None);
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
    fn classes_follow_each_other_without_a_gap() {
        for class in 0..CLASSES - 2 {
            let next = upper_bound(class);
            assert_eq!(class_of(next - 1), class, "{class}");
            assert_eq!(class_of(next), class + 1, "{class}");
        }
        assert_eq!(class_of(u64::MAX), CLASSES - 1);
    }

    #[test]
    fn a_histogram_counts_what_took_as_long_as_its_bounds_or_less() {
        assert_eq!(Latency::default().histogram(), None);
        let latency = Latency::default();
        let times = [0, 7, 8, 1000, 30_000_000];
        for time in times {
            latency.record(Duration::from_micros(time));
        }
        let histogram = latency.histogram().unwrap();
        assert_eq!(histogram.count, 5);
        assert!((histogram.sum - 30.001_015).abs() < 1e-9, "{histogram:?}");
        let of = |bound: f64| {
            let bucket = histogram.buckets.iter().find(|(it, _)| *it == bound);
            bucket.unwrap().1
        };
        assert_eq!(of(0.000_008), 2, "what took 8.0 us and more is beyond");
        assert_eq!((of(0.000_016), of(0.000_512)), (3, 3));
        assert_eq!((of(0.001_024), of(16.777_216)), (4, 4));
        let bounds = histogram.buckets.iter().map(|(bound, _)| *bound);
        assert!(bounds.is_sorted(), "{histogram:?}");
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
