//! `cargo xtask test`: all test levels in order, cheapest first, each printing as it goes.

pub(crate) mod fuzz;
mod setup;
pub(crate) mod system;
mod tally;
mod unit;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result, bail};

pub(crate) use self::tally::Tally;
use crate::run;

/// How to run the levels.
pub(crate) struct Options {
    /// A skip counts as a failure.
    pub(crate) strict: bool,
    /// Fewer rounds.
    pub(crate) quick: bool,
    /// Only tests whose name contains this.
    pub(crate) filter: Option<String>,
    /// System scenarios that run side by side.
    pub(crate) jobs: Option<u8>,
}

impl Options {
    /// Seconds for which each fuzz target runs.
    fn fuzz_seconds(&self) -> u64 {
        match (self.quick, self.strict) {
            (true, _) => 2,
            (false, true) => 60,
            (false, false) => 10,
        }
    }
}

/// Runs every level and prints the closing line.
pub(crate) fn test(root: &Path, options: &Options) -> Result<ExitCode> {
    let mut levels = Levels::default();
    levels.run("set-up", || Ok(setup::packages()))?;
    levels.run("unit", || unit::run(root, options))?;
    levels.run("system", || system::run(root, options))?;
    let target = options.filter.as_deref();
    let seconds = options.fuzz_seconds();
    levels.run("fuzz", || fuzz::run_targets(root, target, seconds))?;
    Ok(levels.tally.close(options.strict))
}

/// What a contributor runs before a push: the unit tests and the short forms of a few scenarios.
pub(crate) fn before_a_push(root: &Path) -> Result<ExitCode> {
    let options = Options {
        strict: false,
        quick: true,
        filter: None,
        jobs: None,
    };
    let mut levels = Levels::default();
    levels.run("unit", || unit::run(root, &options))?;
    levels.run("system, in short", || system::run_before_a_push(root))?;
    Ok(levels.tally.close(false))
}

/// The levels that have run so far.
#[derive(Default)]
struct Levels {
    tally: Tally,
}

impl Levels {
    /// Runs one more, and prints what it counted and how long it took.
    fn run(&mut self, name: &str, level: impl FnOnce() -> Result<Tally>) -> Result<()> {
        let start = Instant::now();
        let counts = level()?;
        let seconds = start.elapsed().as_secs();
        self.tally.add(&format!("{name} ({seconds} s)"), counts);
        Ok(())
    }
}

/// Where cargo puts what it builds.
pub(crate) fn target_directory(root: &Path) -> Result<PathBuf> {
    let output = Command::new(run::cargo())
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--offline",
        ])
        .current_dir(root)
        .output()
        .context("cargo metadata")?;
    if !output.status.success() {
        bail!(
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let directory = metadata["target_directory"]
        .as_str()
        .context("no target_directory")?;
    Ok(directory.into())
}
