//! The level of the unit tests: `cargo test --workspace`, with its tests counted.

use std::path::Path;
use std::thread;

use anyhow::Result;

use super::{Options, Tally, test_program};
use crate::cargo::cargo;
use crate::run::{self, Outcome, Patience};

/// How long the tests may take: a quarter of an hour on a slow machine. A hang must not look like slowness.
const PATIENCE: Patience = Patience::seconds(1200);

/// What runs side by side, each with cargo's options that choose it: much of what tests do is wait, and cargo runs one
/// test program after the other.
const SIDE_BY_SIDE: [(&str, &[&str]); 4] = [
    ("libraries and programs", &["--lib", "--bins", "--examples"]),
    ("tests, a to l", &["--test", "[a-l]*"]),
    ("tests, all others", &["--test", "[!a-l]*"]),
    ("documentation", &["--doc"]),
];

/// Runs all unit and integration tests of the workspace, which have been built: the time limit is one of tests, and
/// what the compiler says is not among what they say.
pub(crate) fn run(root: &Path, options: &Options) -> Result<Tally> {
    let tallies: Vec<Result<Tally>> = thread::scope(|scope| {
        let running = SIDE_BY_SIDE
            .map(|(name, chosen)| scope.spawn(move || run_some(root, options, name, chosen)));
        let ended = running.into_iter().map(|one| {
            let panicked = |_| Err(anyhow::anyhow!("reading what tests say panicked"));
            one.join().unwrap_or_else(panicked)
        });
        ended.collect()
    });
    let mut all = Tally::default();
    for tally in tallies {
        all.merge(tally?);
    }
    Ok(all)
}

fn run_some(root: &Path, options: &Options, name: &str, chosen: &[&str]) -> Result<Tally> {
    let mut command = cargo(root);
    command
        .args(["test", "--workspace", "--no-fail-fast"])
        .args(test_program::runner())
        .args(chosen)
        .args(["--", "--show-output"]);
    command.args(options.filter.as_deref());
    if options.strict {
        command.env("PENSTOCK_STRICT", "1");
    }
    let mut reader = Reader::default();
    let outcome = run::merged(
        &format!("cargo test --workspace, {name}"),
        &mut command,
        PATIENCE,
        |line| reader.read(&line),
    )?;
    match outcome {
        // What was to run does not build.
        Outcome::Failed if reader.tally.failed == 0 => {
            let said = format!("unit tests, {name}: cargo failed after {}", reader.program);
            reader.tally.merge(Tally::failure(&said));
        }
        Outcome::Succeeded | Outcome::Failed => {}
        Outcome::Late(hang) => {
            let program = &reader.program;
            let said = format!("unit tests, {name}, in {program}");
            reader.tally.merge(Tally::hang(&said, &hang));
            reader.say_what_had_not_ended();
        }
    }
    Ok(reader.tally)
}

/// Reads what the test programs print, one after the other.
#[derive(Default)]
struct Reader {
    tally: Tally,
    /// The test program that runs, as cargo names it.
    program: String,
    /// Its tests that have run for a minute or more.
    slow: Vec<String>,
    /// Whether the line read last is in the part of a program's output that repeats what its failed tests
    /// said.
    failures: bool,
    /// Whether the line read last is part of what one of the failed tests said.
    within: bool,
}

impl Reader {
    /// Takes a line; what is to be printed of it: how many passed, of what did not, everything, and what takes long.
    fn read(&mut self, line: &str) -> Option<String> {
        let program = ["Running ", "Doc-tests "].map(|word| line.trim_start().strip_prefix(word));
        if let Some(program) = program.into_iter().flatten().next() {
            let program = program.split(" (").next().unwrap_or(program);
            program.clone_into(&mut self.program);
            self.slow.clear();
            return None;
        }
        self.note_slow(line);
        if let Some(said) = line.strip_prefix(test_program::SAYS) {
            self.read_of_program(said);
        }
        if line == "failures:" {
            // It comes twice: before what they said, and before their names alone.
            self.within = false;
            self.failures = true;
        } else if line.starts_with("test result: ") {
            (self.failures, self.within) = (false, false);
        } else if let Some(name) = line.strip_prefix("---- ").filter(|_| self.failures) {
            let name = name.trim_end_matches(" ----").trim_end_matches(" stdout");
            self.tally.say(&format!("unit: {name}"));
            self.within = true;
        } else if self.within {
            self.tally.say_more(line);
        }
        let before = self.tally.passed;
        let is_news = count(&mut self.tally, line);
        if line.starts_with("test result: ok") {
            let passed = self.tally.passed - before;
            return Some(format!("     {}: {passed} passed", self.program));
        }
        let is_news = is_news
            || self.failures
            || line.ends_with("... FAILED")
            || line.starts_with("error: ")
            || line.contains(" has been running for over ");
        is_news.then(|| line.to_owned())
    }

    /// Takes what is said of a program that did not end by itself.
    fn read_of_program(&mut self, said: &str) {
        if let Some(more) = said.strip_prefix("  ") {
            self.tally.say_more(more);
            return;
        }
        // Before what else is said of the program, so that it stands behind its first line.
        self.say_what_had_not_ended();
        let failure = format!("unit tests, {}: {said}", self.program);
        self.tally.merge(Tally::failure(&failure));
    }

    /// Notes which tests take long, and which of these have ended.
    fn note_slow(&mut self, line: &str) {
        let Some(said) = line.strip_prefix("test ") else {
            return;
        };
        if let Some((name, _)) = said.split_once(" has been running for over ") {
            self.slow.push(name.to_owned());
        } else if let Some((name, _)) = said.split_once(" ... ") {
            self.slow.retain(|slow| slow != name);
        }
    }

    /// Counts the tests as failed that were running when their program was ended.
    fn say_what_had_not_ended(&mut self) {
        for test in std::mem::take(&mut self.slow) {
            let said = format!("unit: {test} had not ended");
            self.tally.merge(Tally::failure(&said));
        }
    }
}

/// A test that skips passes as far as the harness knows, and prints `SKIP: <test>: <reason>`. Whether the line said
/// anything that counts.
fn count(tally: &mut Tally, line: &str) -> bool {
    if line.trim_start().starts_with("SKIP: ") {
        tally.skipped += 1;
        tally.passed = tally.passed.saturating_sub(1);
        tally.say(line.trim_start());
        return true;
    }
    let Some(result) = line.trim_start().strip_prefix("test result: ") else {
        return false;
    };
    for part in result.split(['.', ';']) {
        let number = |word| part.trim().strip_suffix(word)?.parse::<u64>().ok();
        tally.passed += number(" passed").unwrap_or(0);
        tally.failed += number(" failed").unwrap_or(0);
        tally.skipped += number(" ignored").unwrap_or(0);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_summed() {
        let mut tally = Tally::default();
        for line in [
            "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.03s",
            "running 3 tests",
            "test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.00s",
        ] {
            count(&mut tally, line);
        }
        assert_eq!((tally.passed, tally.failed, tally.skipped), (14, 1, 1));
    }

    #[test]
    fn a_skip_is_not_a_pass() {
        let mut tally = Tally::default();
        count(
            &mut tally,
            "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
        );
        count(&mut tally, "SKIP: ring::writes: io_uring is forbidden here");
        assert_eq!((tally.passed, tally.failed, tally.skipped), (1, 0, 1));
    }

    #[test]
    fn what_failed_tests_said_is_kept_and_nothing_else() {
        let mut reader = Reader::default();
        let output = "test a ... ok\ntest b ... FAILED\n\nsuccesses:\n\n---- a stdout ----\nfine\n\n\nsuccesses:\n    a\n\n\
                      failures:\n\n---- b stdout ----\npanicked at b.rs\n\nfailures:\n    b\n\n\
                      test result: FAILED. 1 passed; 1 failed; 0 ignored\n---- c stdout ----\nfine\n";
        let printed: Vec<String> = output
            .lines()
            .filter_map(|line| reader.read(line))
            .collect();
        let mut expected = Tally::failure("unit: b");
        expected.say_more("panicked at b.rs");
        expected.say_more("");
        expected.passed = 1;
        assert_eq!(reader.tally, expected);
        assert_eq!(
            printed.join("\n"),
            "test b ... FAILED\nfailures:\n\n---- b stdout ----\npanicked at b.rs\n\nfailures:\n    b\n\n\
             test result: FAILED. 1 passed; 1 failed; 0 ignored"
        );
    }

    #[test]
    fn tests_that_had_not_ended_are_named() {
        let mut reader = Reader::default();
        let output = "     Running tests/a.rs (a-0)\ntest a has been running for over 60 seconds\n\
                      test b has been running for over 60 seconds\ntest c::d has been running for over 60 seconds\n\
                      test b ... ok\n";
        for line in output.lines() {
            reader.read(line);
        }
        reader.say_what_had_not_ended();
        let mut expected = Tally::failure("unit: a had not ended");
        expected.merge(Tally::failure("unit: c::d had not ended"));
        assert_eq!(reader.tally, expected);
    }

    #[test]
    fn a_program_that_hangs_or_dies_is_a_failure_and_others_are_counted() {
        let mut reader = Reader::default();
        let says = test_program::SAYS;
        let output = format!(
            "     Running tests/a.rs (a-0)\ntest x has been running for over 60 seconds\n\
             {says}it has run for 600 s, and was ended\n{says}  process 7, a-0: 2 threads\n{says}    main S\n\
             error: test failed, to rerun pass `-p a --test a`\n     Running tests/b.rs (b-0)\n\
             test result: ok. 3 passed; 0 failed; 0 ignored\n     Running tests/c.rs (c-0)\n{says}it died: signal: 6\n"
        );
        let printed = output.lines().filter_map(|line| reader.read(line));
        assert_eq!(printed.count(), 7);
        let mut expected = Tally::failure("unit: x had not ended");
        expected.merge(Tally::failure(
            "unit tests, tests/a.rs: it has run for 600 s, and was ended",
        ));
        expected.say_more("process 7, a-0: 2 threads");
        expected.say_more("  main S");
        expected.merge(Tally::failure("unit tests, tests/c.rs: it died: signal: 6"));
        expected.passed = 3;
        assert_eq!(reader.tally, expected);
    }

    #[test]
    fn of_what_passed_the_number_is_printed() {
        let mut reader = Reader::default();
        let output = "     Running tests/a.rs (target/debug/deps/a-0)\n\nrunning 2 tests\ntest a ... ok\ntest b ... ok\n\nsuccesses:\n\n---- a stdout ----\nfine\n\n\
                      test result: ok. 2 passed; 0 failed; 0 ignored\n\n\
   Doc-tests nfs_io\n\nrunning 1 test\ntest c has been running for over 60 seconds\nSKIP: c: no disk\n\n\
                      test result: ok. 1 passed; 0 failed; 0 ignored\n";
        let printed: Vec<String> = output
            .lines()
            .filter_map(|line| reader.read(line))
            .collect();
        assert_eq!(
            printed,
            [
                "     tests/a.rs: 2 passed",
                "test c has been running for over 60 seconds",
                "SKIP: c: no disk",
                "     nfs_io: 1 passed"
            ]
        );
    }
}
