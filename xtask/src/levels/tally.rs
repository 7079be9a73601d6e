//! Counting: what passed, what failed, what could not be tried here.

use std::process::ExitCode;

/// Tests by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Ran and held.
    pub(crate) passed: u64,
    /// Ran and did not hold, or could not be started at all.
    pub(crate) failed: u64,
    /// Not tried: this machine lacks something.
    pub(crate) skipped: u64,
}

impl Tally {
    /// One test that passed or failed.
    pub(crate) fn one(passed: bool) -> Self {
        Self {
            passed: u64::from(passed),
            failed: u64::from(!passed),
            skipped: 0,
        }
    }

    /// One test that could not be tried.
    pub(crate) fn skip() -> Self {
        Self {
            passed: 0,
            failed: 0,
            skipped: 1,
        }
    }

    /// Adds `level`'s counts and prints them.
    pub(crate) fn add(&mut self, level: &str, counts: Self) {
        eprintln!("==> {level}: {}", counts.line());
        self.merge(counts);
    }

    /// Adds counts without printing.
    pub(crate) fn merge(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// Prints the closing line; the exit code that goes with it. In strict mode a skip is a failure.
    pub(crate) fn close(self, strict: bool) -> ExitCode {
        println!("{}", self.line());
        if self.holds(strict) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }

    fn holds(self, strict: bool) -> bool {
        self.failed == 0 && !(strict && self.skipped > 0)
    }

    fn line(self) -> String {
        format!(
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        )
    }

    /// Reads a line of the form `N passed, N failed, N skipped`.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut parts = line.trim().split(", ");
        let mut count = |word: &str| parts.next()?.strip_suffix(word)?.trim().parse().ok();
        let tally = Self {
            passed: count(" passed")?,
            failed: count(" failed")?,
            skipped: count(" skipped")?,
        };
        parts.next().is_none().then_some(tally)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_is_read_back() {
        let tally = Tally {
            passed: 12,
            failed: 0,
            skipped: 3,
        };
        assert_eq!(Tally::parse(&tally.line()), Some(tally));
        assert_eq!(Tally::parse("12 passed"), None);
        assert_eq!(Tally::parse("12 passed, 0 failed, 3 skipped, 9 odd"), None);
    }

    #[test]
    fn strict_turns_a_skip_into_a_failure() {
        let skipped = Tally {
            passed: 5,
            failed: 0,
            skipped: 1,
        };
        assert!(skipped.holds(false) && !skipped.holds(true));
        assert!(!Tally::one(false).holds(false));
        assert!(Tally::one(true).holds(true));
    }
}
