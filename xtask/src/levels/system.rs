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
        return Ok(Tally::failure(
            "system: penstock or nfs-test does not build",
        ));
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
    let mut reader = Reader::default();
    let succeeded = run::lines("nfs-test", &mut command, |line| {
        reader.read(&line);
        Some(line)
    })?;
    let has_ended = reader.closing.is_some();
    let mut tally = reader.closing.unwrap_or_default();
    tally.merge(reader.said);
    // Ended by the clock, or by a panic of the test program itself.
    let excused = tally.failed > 0 || (options.strict && tally.skipped > 0);
    if !has_ended || (!succeeded && !excused) {
        tally.merge(Tally::failure(&format!(
            "system: nfs-test died, or was ended after {SECONDS_MAX} s, in the scenario after {}",
            reader.last
        )));
    }
    Ok(tally)
}

/// Reads the verdicts that `nfs-test` prints.
#[derive(Default)]
struct Reader {
    closing: Option<Tally>,
    /// What the scenarios said that did not pass; nothing is counted here.
    said: Tally,
    /// In what one of them said.
    within: bool,
    /// The last verdict.
    last: String,
}

impl Reader {
    fn read(&mut self, line: &str) {
        if let Some(closing) = Tally::parse(line) {
            self.closing = Some(closing);
            self.within = false;
            return;
        }
        let verdict = line.split(' ').next().unwrap_or_default();
        match verdict {
            "PASS" => self.within = false,
            "FAIL" | "SKIP" => {
                self.said.say(line);
                self.within = true;
            }
            _ if self.within => self.said.say_more(line),
            _ => {}
        }
        if matches!(verdict, "PASS" | "FAIL" | "SKIP") {
            self.last = line.chars().take(40).collect();
        }
    }
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new(run::cargo());
    command.current_dir(root);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_pass_is_kept() {
        let mut reader = Reader::default();
        let output = "seed 7\nPASS a:uring (1.0 s)\nFAIL b:uring: bytes differ (2.0 s)\n     the end of b.log:\nPASS c:uring (1.0 s)\n\
                      SKIP d:uring: no tap devices\n2 passed, 1 failed, 1 skipped\nremoved";
        output.lines().for_each(|line| reader.read(line));
        let mut said = Tally::default();
        said.say("FAIL b:uring: bytes differ (2.0 s)");
        said.say_more("     the end of b.log:");
        said.say("SKIP d:uring: no tap devices");
        assert_eq!(reader.said, said);
        assert_eq!(reader.closing.unwrap().failed, 1);
        assert_eq!(reader.last, "SKIP d:uring: no tap devices");
    }
}
