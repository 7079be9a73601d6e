//! The system level: `nfs-test`, which runs the real server against real kernels, tools and power cuts.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::{Options, Tally, target_directory};
use crate::run;

/// The scenarios with foreign peers: what `cargo xtask interop` runs.
const PEERS: [&str; 5] = ["kernel", "libnfs", "rpcbind", "ganesha", "nfsd"];

/// The server: optimised like a release, with overflow checks and debug assertions on. Its panics abort, as
/// a user's would. The tests are built for development: theirs have to unwind to be reported.
const SERVER_PROFILE: &str = "checked";

/// What the server is built with besides: bytes that are not a file's can be told from a file's, and the disk's
/// errors can be had.
const SERVER_FEATURES: &str = "penstock/poison,penstock/faults";

/// Seconds after which the whole run is ended: a hang must not look like slowness.
const SECONDS_MAX: &str = "2700";

/// All scenarios, or those that `options` select.
pub(crate) fn run(root: &Path, options: &Options) -> Result<Tally> {
    let filters: Vec<&str> = options.filter.as_deref().into_iter().collect();
    run_filtered(root, options, &filters)
}

/// The scenarios with foreign peers.
pub(crate) fn run_peers(root: &Path, options: &Options) -> Result<Tally> {
    run_filtered(root, options, &PEERS)
}

fn run_filtered(root: &Path, options: &Options, filters: &[&str]) -> Result<Tally> {
    let mut server = cargo(root);
    server.args(["build", "--profile", SERVER_PROFILE, "-p", "penstock"]);
    server.args(["--features", SERVER_FEATURES]);
    let mut tests = cargo(root);
    tests.args(["build", "-p", "nfs-test"]);
    let built =
        run::streams("build penstock", &mut server)? && run::streams("build nfs-test", &mut tests)?;
    if !built {
        return Ok(Tally::one(false));
    }
    let target = target_directory(root)?;
    let mut command = Command::new("timeout");
    command
        .current_dir(root)
        .args(["--kill-after=20", SECONDS_MAX]);
    command.arg(target.join("debug/nfs-test")).arg("run");
    command
        .arg("--server")
        .arg(target.join(SERVER_PROFILE).join("penstock"));
    if options.strict {
        command.arg("--strict").env("PENSTOCK_STRICT", "1");
    }
    if options.quick {
        command.arg("--quick");
    }
    for filter in filters {
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

fn cargo(root: &Path) -> Command {
    let mut command = Command::new(run::cargo());
    command.current_dir(root);
    command
}
