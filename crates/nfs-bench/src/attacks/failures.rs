//! Why calls failed: how often each reason was met.

use std::collections::BTreeMap;

use crate::limits::FAILURE_REASONS_MAX;

/// Reasons in words, and how many calls failed for each. Bounded by [`FAILURE_REASONS_MAX`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    by_reason: BTreeMap<String, u64>,
    /// Calls that failed for reasons beyond the bound.
    others: u64,
}

/// What stands for the reasons beyond the bound.
const OTHERS: &str = "other reasons";

impl Failures {
    /// Notes that one call failed.
    pub fn add(&mut self, reason: String) {
        self.add_times(reason, 1);
    }

    /// Adds what was noted elsewhere.
    pub fn merge(&mut self, other: &Self) {
        for (reason, times) in &other.by_reason {
            self.add_times(reason.clone(), *times);
        }
        self.others += other.others;
    }

    /// How many calls failed, for whatever reason.
    pub fn count(&self) -> u64 {
        self.by_reason.values().sum::<u64>() + self.others
    }

    /// Each reason and how often it was met, the most frequent one first.
    pub fn reasons(&self) -> Vec<(&str, u64)> {
        let known = self.by_reason.iter();
        let mut reasons: Vec<_> = known.map(|(reason, times)| (&**reason, *times)).collect();
        reasons.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
        reasons.extend((self.others > 0).then_some((OTHERS, self.others)));
        reasons
    }

    fn add_times(&mut self, reason: String, times: u64) {
        let known = self.by_reason.len();
        match self.by_reason.get_mut(&reason) {
            Some(so_far) => *so_far += times,
            None if known < FAILURE_REASONS_MAX => {
                self.by_reason.insert(reason, times);
            }
            None => self.others += times,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_and_the_most_frequent_is_first() {
        let mut failures = Failures::default();
        for reason in ["reset", "no answer", "no answer"] {
            failures.add(reason.to_owned());
        }
        let mut sum = failures.clone();
        sum.merge(&failures);
        assert_eq!(sum.reasons(), [("no answer", 4), ("reset", 2)]);
        assert_eq!((failures.count(), sum.count()), (3, 6));
    }

    #[test]
    fn any_number_of_reasons_takes_bounded_room_and_all_are_counted() {
        let mut failures = Failures::default();
        for number in 0..1000 {
            failures.add(format!("reason {number}"));
        }
        assert_eq!(failures.reasons().len(), FAILURE_REASONS_MAX + 1);
        let others = 1000 - FAILURE_REASONS_MAX as u64;
        assert_eq!(failures.reasons().last(), Some(&(OTHERS, others)));
        let mut sum = failures.clone();
        sum.merge(&failures);
        assert_eq!(sum.count(), 2000);
    }
}
