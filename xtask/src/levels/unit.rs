//! `cargo test --workspace`, counted.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::{Options, Tally};
use crate::run;

/// Runs all unit and integration tests of the workspace.
pub(crate) fn run(root: &Path, options: &Options) -> Result<Tally> {
    let mut command = Command::new(run::cargo());
    command.current_dir(root).args([
        "test",
        "--workspace",
        "--no-fail-fast",
        "--",
        "--show-output",
    ]);
    command.args(options.filter.as_deref());
    if options.strict {
        command.env("PENSTOCK_STRICT", "1");
    }
    let mut tally = Tally::default();
    let succeeded = run::lines("cargo test --workspace", &mut command, |line| {
        count(&mut tally, line)
    })?;
    // It did not compile, or a test program died before it could report.
    if !succeeded && tally.failed == 0 {
        tally.failed = 1;
    }
    Ok(tally)
}

/// A test that skips passes as far as the harness knows, and prints `SKIP: <test>: <reason>`.
fn count(tally: &mut Tally, line: &str) {
    if line.trim_start().starts_with("SKIP: ") {
        tally.skipped += 1;
        tally.passed = tally.passed.saturating_sub(1);
        return;
    }
    let Some(result) = line.trim_start().strip_prefix("test result: ") else {
        return;
    };
    for part in result.split(['.', ';']) {
        if let Some(n) = part
            .trim()
            .strip_suffix(" passed")
            .and_then(|n| n.parse::<u64>().ok())
        {
            tally.passed += n;
        }
        if let Some(n) = part
            .trim()
            .strip_suffix(" failed")
            .and_then(|n| n.parse::<u64>().ok())
        {
            tally.failed += n;
        }
        if let Some(n) = part
            .trim()
            .strip_suffix(" ignored")
            .and_then(|n| n.parse::<u64>().ok())
        {
            tally.skipped += n;
        }
    }
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
        assert_eq!(
            tally,
            Tally {
                passed: 14,
                failed: 1,
                skipped: 1
            }
        );
    }

    #[test]
    fn a_skip_is_not_a_pass() {
        let mut tally = Tally::default();
        count(
            &mut tally,
            "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
        );
        count(&mut tally, "SKIP: ring::writes: io_uring is forbidden here");
        assert_eq!(
            tally,
            Tally {
                passed: 1,
                failed: 0,
                skipped: 1
            }
        );
    }
}
