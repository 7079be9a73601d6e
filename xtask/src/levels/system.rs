//! The system level: `nfs-test`, which runs the real server against real kernels, tools and power cuts.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::{Options, Tally, target_directory};
use crate::run;

/// What `cargo xtask interop` selects.
pub(crate) const PEERS_FILTER: &str = "peer";

/// Optimised like a release, with overflow checks and debug assertions on.
const PROFILE: &str = "checked";

/// Seconds after which the whole run is ended: a hang must not look like slowness.
const SECONDS_MAX: &str = "2100";

/// Builds server and tests, then runs the tests.
pub(crate) fn run(root: &Path, options: &Options) -> Result<Tally> {
    let mut build = Command::new(run::cargo());
    build.current_dir(root).args([
        "build",
        "--profile",
        PROFILE,
        "-p",
        "penstock",
        "-p",
        "nfs-test",
    ]);
    if !run::streams("build penstock and nfs-test", &mut build)? {
        return Ok(Tally::one(false));
    }
    let target = target_directory(root)?.join(PROFILE);
    let mut command = Command::new("timeout");
    command
        .current_dir(root)
        .args(["--kill-after=20", SECONDS_MAX]);
    command.arg(target.join("nfs-test")).arg("run");
    command.arg("--server").arg(target.join("penstock"));
    if options.strict {
        command.arg("--strict").env("PENSTOCK_STRICT", "1");
    }
    if options.quick {
        command.arg("--quick");
    }
    if let Some(filter) = &options.filter {
        command.args(["--filter", filter]);
    }
    let mut closing = None;
    let succeeded = run::lines("nfs-test", &mut command, |line| {
        closing = Tally::parse(line).or(closing)
    })?;
    let mut tally = closing.unwrap_or_default();
    // Ended by the clock, or by a panic of the test program itself.
    let excused = tally.failed > 0 || (options.strict && tally.skipped > 0);
    if closing.is_none() || (!succeeded && !excused) {
        tally.merge(Tally::one(false));
    }
    Ok(tally)
}
