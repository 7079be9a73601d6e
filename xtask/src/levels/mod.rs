//! `cargo xtask test`: all test levels in order, cheapest first, each printing as it goes.

pub(crate) mod fuzz;
mod setup;
pub(crate) mod system;
mod tally;
mod unit;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

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
    let mut tally = Tally::default();
    tally.add("set-up", setup::packages());
    tally.add("unit", unit::run(root, options)?);
    tally.add("system", system::run(root, options)?);
    let target = options.filter.as_deref();
    tally.add(
        "fuzz",
        fuzz::run_targets(root, target, options.fuzz_seconds())?,
    );
    Ok(tally.close(options.strict))
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
