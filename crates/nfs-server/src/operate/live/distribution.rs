//! How long the calls of an interval took: the difference of two histograms, and percentiles out of it.

/// Calls by the time that they took. The classes are in ascending order; each holds what took longer than the
/// bound of the one before it and not longer than its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    /// The upper bound of each class in seconds, and how many calls fell into it.
    classes: Vec<(f64, u64)>,
    /// Calls that took longer than the last bound.
    above: u64,
}

/// What half, nine of ten, 99 of 100 and 999 of 1000 calls stayed below, in seconds. `None` where there was no call.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Percentiles {
    /// The median of the times, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    /// Nine of ten calls took less, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p90: Option<f64>,
    /// Ninety-nine of a hundred calls took less, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    /// 999 of 1000 calls took less, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p999: Option<f64>,
}

impl Distribution {
    /// What came into a cumulative histogram between two looks at it: `before` and `now` are bounds in seconds with
    /// the number of calls that took no longer, and the count of all. An infinite bound may be there or not.
    ///
    /// `None` if the histogram went back, so that it was begun anew between the two: what it holds now may be of
    /// any time.
    #[must_use]
    pub fn between(before: (&[(f64, u64)], u64), now: (&[(f64, u64)], u64)) -> Option<Self> {
        let mut classes = Vec::with_capacity(now.0.len());
        let mut below = 0_u64;
        let mut old = Cursor::new(before.0);
        for &(bound, cumulative) in now.0.iter().filter(|(bound, _)| bound.is_finite()) {
            let came = cumulative.checked_sub(old.up_to(bound))?;
            classes.push((bound, came.checked_sub(below)?));
            below = came;
        }
        let all = now.1.checked_sub(before.1)?;
        Some(Self {
            classes,
            above: all.checked_sub(below)?,
        })
    }

    /// How many calls there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        let counts = self.classes.iter().map(|(_, count)| count);
        counts.fold(self.above, |sum, count| sum.saturating_add(*count))
    }

    /// Takes the calls of `other` in.
    pub fn add(&mut self, other: &Self) {
        self.above = self.above.saturating_add(other.above);
        if self.classes.is_empty() {
            self.classes.clone_from(&other.classes);
            return;
        }
        for &(bound, count) in &other.classes {
            let place = self
                .classes
                .binary_search_by(|(own, _)| own.total_cmp(&bound));
            match place {
                Ok(index) => {
                    if let Some((_, own)) = self.classes.get_mut(index) {
                        *own = own.saturating_add(count);
                    }
                }
                Err(index) => self.classes.insert(index, (bound, count)),
            }
        }
    }

    /// The time in seconds that `share` (0 to 1) of the calls did not take longer than; `None` without a call.
    ///
    /// It lies in the class that the call of that rank is in, where within it by the rule of three, as Prometheus's
    /// `histogram_quantile` has it. Of a call beyond the last bound no more is known than that: the bound is given.
    #[must_use]
    pub fn percentile(&self, share: f64) -> Option<f64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = share.clamp(0.0, 1.0) * count as f64;
        let (mut below, mut lower) = (0_u64, 0.0);
        for &(upper, in_class) in &self.classes {
            let up_to = below.saturating_add(in_class);
            if in_class > 0 && up_to as f64 >= rank {
                let within = ((rank - below as f64) / in_class as f64).clamp(0.0, 1.0);
                return Some(lower + (upper - lower) * within);
            }
            (below, lower) = (up_to, upper);
        }
        Some(lower)
    }

    /// The percentiles that the screens show.
    #[must_use]
    pub fn percentiles(&self) -> Percentiles {
        Percentiles {
            p50: self.percentile(0.5),
            p90: self.percentile(0.9),
            p99: self.percentile(0.99),
            p999: self.percentile(0.999),
        }
    }

    /// The classes in ascending order: the upper bound in seconds (infinite for the last) and the number of calls.
    pub fn classes(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let above = (f64::INFINITY, self.above);
        self.classes.iter().copied().chain([above])
    }
}

/// Goes through a cumulative histogram once, in ascending order.
struct Cursor<'h> {
    rest: &'h [(f64, u64)],
    cumulative: u64,
}

impl<'h> Cursor<'h> {
    const fn new(buckets: &'h [(f64, u64)]) -> Self {
        Self {
            rest: buckets,
            cumulative: 0,
        }
    }

    /// How many took no longer than `bound`. A class that is not in the histogram was empty.
    fn up_to(&mut self, bound: f64) -> u64 {
        while let Some((&(first, cumulative), rest)) = self.rest.split_first() {
            if first > bound {
                break;
            }
            (self.cumulative, self.rest) = (cumulative, rest);
        }
        self.cumulative
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: [f64; 6] = [0.001, 0.002, 0.004, 0.1, 1.0, 30.0];

    fn cumulative(times: &[f64]) -> Vec<(f64, u64)> {
        let up_to = |bound: f64| times.iter().filter(|time| **time <= bound).count() as u64;
        BOUNDS.map(|bound| (bound, up_to(bound))).to_vec()
    }

    fn between(before: &[f64], all: &[f64]) -> Option<Distribution> {
        let counts = (before.len() as u64, all.len() as u64);
        let (before, all) = (cumulative(before), cumulative(all));
        Distribution::between((&before, counts.0), (&all, counts.1))
    }

    #[test]
    fn without_a_call_there_is_no_percentile() {
        let nothing = between(&[0.5], &[0.5]).unwrap();
        assert_eq!((nothing.count(), nothing.percentile(0.99)), (0, None));
        assert_eq!(nothing.percentiles(), Percentiles::default());
    }

    #[test]
    fn a_histogram_that_went_back_tells_nothing() {
        assert_eq!(between(&[0.5, 0.5], &[0.5]), None);
        // As many calls as before, and other ones.
        assert_eq!(between(&[0.0015], &[0.5]), None);
    }

    #[test]
    fn a_class_that_was_not_there_before_was_empty() {
        let before = [(0.004, 3)];
        let now = [(0.002, 1), (0.004, 5), (f64::INFINITY, 6)];
        let seen = Distribution::between((&before, 3), (&now, 6));
        // One that took no longer than 2 ms: the earlier histogram counted none below 4 ms apart.
        assert_eq!(seen.map(|seen| seen.count()), Some(3));
    }

    #[test]
    fn beyond_the_last_bound_the_bound_is_told() {
        let late = between(&[], &[31.0, 500.0]).unwrap();
        assert_eq!(late.percentile(0.5), Some(30.0));
        assert_eq!(late.classes().last(), Some((f64::INFINITY, 2)));
    }

    proptest! {
        #[test]
        fn a_percentile_lies_in_the_class_of_the_call_of_that_rank(
            before in prop::collection::vec(0.0_f64..40.0, 0..30),
            came in prop::collection::vec(0.0_f64..40.0, 1..60),
            share in 0.001_f64..=1.0,
        ) {
            let all = [before.clone(), came.clone()].concat();
            let seen = between(&before, &all).unwrap();
            let told = seen.percentile(share).unwrap();
            let mut sorted = came.clone();
            sorted.sort_by(f64::total_cmp);
            let rank = (share * came.len() as f64).ceil() as usize;
            let real = sorted[rank.max(1) - 1];
            let upper = BOUNDS.iter().copied().find(|bound| real <= *bound);
            let lower = BOUNDS.iter().copied().rev().find(|bound| *bound < real);
            let (lower, upper) = (lower.unwrap_or(0.0), upper.unwrap_or(30.0));
            prop_assert!(lower <= told && told <= upper, "{real} told as {told}");
        }

        #[test]
        fn two_together_are_as_if_seen_as_one(
            one in prop::collection::vec(0.0_f64..40.0, 0..40),
            other in prop::collection::vec(0.0_f64..40.0, 0..40),
        ) {
            let mut sum = between(&[], &one).unwrap();
            sum.add(&between(&[], &other).unwrap());
            let all = [one, other].concat();
            prop_assert_eq!(sum, between(&[], &all).unwrap());
        }

        #[test]
        fn percentiles_rise(times in prop::collection::vec(0.0_f64..40.0, 1..60)) {
            let p = between(&[], &times).unwrap().percentiles();
            prop_assert!(p.p50 <= p.p90 && p.p90 <= p.p99 && p.p99 <= p.p999);
        }

        #[test]
        fn any_two_histograms_give_an_answer(
            before in prop::collection::vec((0.0_f64..9.0, any::<u64>()), 0..6),
            now in prop::collection::vec((0.0_f64..9.0, any::<u64>()), 0..6),
            counts in any::<(u64, u64)>(),
            share in any::<f64>(),
        ) {
            let seen = Distribution::between((&before, counts.0), (&now, counts.1));
            let told = seen.and_then(|seen| seen.percentile(share));
            prop_assert!(told.is_none_or(|seconds| seconds >= 0.0));
        }
    }
}
