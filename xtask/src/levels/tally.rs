//! Counting: what passed, what failed, what could not be tried here; and what the failed ones said, to be read at the
//! end of a long log.

use std::process::ExitCode;

use crate::run::Hang;

/// Lines of one failure that are shown again at the end; the rest is where it happened.
const SAID_LINES_MAX: usize = 60;

/// Characters of a failure's first line in the list of all that did not pass.
const NAME_CHARS_MAX: usize = 500;

/// Failures that are shown again at the end. Where more fail, they fail for one reason.
const SAID_MAX: usize = 40;

/// The numbers of tests by their outcome, and what those said that did not pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Tests that ran and held.
    pub(crate) passed: u64,
    /// Tests that ran and did not hold, or could not be started at all.
    pub(crate) failed: u64,
    /// Tests that were not tried: this machine lacks something they need.
    pub(crate) skipped: u64,
    /// What did not pass: its name, and what it said, in lines.
    said: Vec<Vec<String>>,
}

impl Tally {
    /// The tally of one test, which passed or failed.
    pub(crate) fn one(passed: bool) -> Self {
        Self {
            passed: u64::from(passed),
            failed: u64::from(!passed),
            ..Self::default()
        }
    }

    /// The tally of one test that failed, with what is to be said of it.
    pub(crate) fn failure(said: &str) -> Self {
        let mut tally = Self::one(false);
        tally.say(said);
        tally
    }

    /// The tally of a build that failed, with what it said last.
    pub(crate) fn build_failure(said: &str, last: &[String]) -> Self {
        let mut tally = Self::failure(said);
        for line in last {
            tally.say_more(line);
        }
        tally
    }

    /// The tally of what did not end in time, with what its processes did then.
    pub(crate) fn hang(name: &str, hang: &Hang) -> Self {
        let mut tally = Self::failure(&format!("{name}: {}", hang.why));
        for line in &hang.processes {
            tally.say_more(line);
        }
        tally
    }

    /// The tally of one test that could not be tried.
    pub(crate) fn skip() -> Self {
        Self {
            skipped: 1,
            ..Self::default()
        }
    }

    /// Begins what one test says that did not pass.
    pub(crate) fn say(&mut self, line: &str) {
        self.said.push(vec![line.to_owned()]);
    }

    /// Adds a line to what the last failure said.
    pub(crate) fn say_more(&mut self, line: &str) {
        match self.said.last_mut() {
            Some(said) => said.push(line.to_owned()),
            None => self.say(line),
        }
    }

    /// Adds `level`'s counts and prints them.
    pub(crate) fn add(&mut self, level: &str, counts: Self) {
        eprintln!("==> {level}: {}", counts.line());
        self.merge(counts);
    }

    /// Adds the counts of another tally without printing anything.
    pub(crate) fn merge(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.said.extend(other.said);
    }

    /// Prints what did not pass once more and the closing line; the exit code that goes with it. In strict mode a skip
    /// is a failure.
    pub(crate) fn close(self, strict: bool) -> ExitCode {
        for line in self.summary() {
            eprintln!("{line}");
        }
        println!("{}", self.line());
        if self.holds(strict) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }

    /// What did not pass, each with the end of what it said: there a panic and an error are.
    fn summary(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for said in self.said.iter().take(SAID_MAX) {
            let Some((name, rest)) = said.split_first() else {
                continue;
            };
            lines.push(format!("==> did not pass: {name}"));
            let left_out = rest.len().saturating_sub(SAID_LINES_MAX);
            if left_out > 0 {
                lines.push(format!("    ({left_out} lines more above)"));
            }
            lines.extend(rest.iter().skip(left_out).map(|line| format!("    {line}")));
            if let Some(filter) = filter_of(name) {
                lines.push(format!(
                    "    again, alone: cargo xtask test --filter {filter}"
                ));
            }
        }
        if let Some(more) = self
            .said
            .len()
            .checked_sub(SAID_MAX)
            .filter(|&more| more > 0)
        {
            lines.push(format!("==> and {more} more"));
        }
        lines.extend(self.names());
        lines
    }

    /// What did not pass, a line each, for who reads the last lines alone: a long log may come without its middle.
    fn names(&self) -> Vec<String> {
        if self.said.is_empty() {
            return Vec::new();
        }
        let names = self
            .said
            .iter()
            .take(SAID_MAX)
            .filter_map(|said| said.first());
        let short = names.map(|name| {
            format!(
                "    {}",
                name.chars().take(NAME_CHARS_MAX).collect::<String>()
            )
        });
        let head = "==> did not pass, in short:".to_owned();
        std::iter::once(head).chain(short).collect()
    }

    fn holds(&self, strict: bool) -> bool {
        self.failed == 0 && !(strict && self.skipped > 0)
    }

    fn line(&self) -> String {
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
            said: Vec::new(),
        };
        parts.next().is_none().then_some(tally)
    }
}

/// What `--filter` has to be given so that the test which `said` names runs again.
fn filter_of(said: &str) -> Option<&str> {
    match said.split_once(' ')? {
        ("unit:", name) => name.split(' ').next(),
        ("FAIL", rest) => rest.split(": ").next(),
        _ => None,
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
            ..Tally::default()
        };
        assert_eq!(Tally::parse(&tally.line()), Some(tally));
        assert_eq!(Tally::parse("12 passed"), None);
        assert_eq!(Tally::parse("12 passed, 0 failed, 3 skipped, 9 odd"), None);
    }

    #[test]
    fn what_failed_is_shown_at_the_end() {
        let mut tally = Tally::failure("unit: a");
        tally.say_more("panicked");
        let mut long = Tally::failure("unit: b");
        for number in 0..=SAID_LINES_MAX {
            long.say_more(&number.to_string());
        }
        tally.merge(long);
        let lines = tally.summary();
        let first = [
            "==> did not pass: unit: a",
            "    panicked",
            "    again, alone: cargo xtask test --filter a",
            "==> did not pass: unit: b",
            "    (1 lines more above)",
            "    1",
        ];
        assert_eq!(lines[..6], first);
        let tail = [
            "    60",
            "    again, alone: cargo xtask test --filter b",
            "==> did not pass, in short:",
            "    unit: a",
            "    unit: b",
        ];
        assert_eq!(lines[lines.len() - 5..], tail);
        assert!(Tally::one(true).summary().is_empty());
        assert_eq!(
            (tally.failed, tally.line().as_str()),
            (2, "0 passed, 2 failed, 0 skipped")
        );
        for _ in 0..SAID_MAX {
            tally.merge(Tally::failure("c"));
        }
        let more = "==> and 2 more".to_owned();
        assert!(tally.summary().contains(&more));
    }

    #[test]
    fn strict_turns_a_skip_into_a_failure() {
        let skipped = Tally {
            passed: 5,
            failed: 0,
            skipped: 1,
            ..Tally::default()
        };
        assert!(skipped.holds(false) && !skipped.holds(true));
        assert!(!Tally::one(false).holds(false));
        assert!(Tally::one(true).holds(true));
    }
}
