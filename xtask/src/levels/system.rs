//! The system level: `nfs-test`, which runs the real server against real kernels, tools and power cuts.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::build::Built;
use super::{Options, Tally, newer_kernel};
use crate::run;

/// The scenarios with foreign peers: what `cargo xtask interop` runs.
const PEERS: [&str; 5] = ["kernel", "libnfs", "rpcbind", "ganesha", "nfsd"];

/// Seconds after which the whole run is ended: a hang must not look like slowness.
const SECONDS_MAX: &str = "2700";

/// All scenarios, or those that `options` select.
pub(super) fn run(root: &Path, built: &Built, options: &Options) -> Result<Tally> {
    let filters: Vec<&str> = options.filter.as_deref().into_iter().collect();
    run_filtered(root, built, options, &filters)
}

/// Runs the scenarios with foreign peers alone.
pub(super) fn run_peers(root: &Path, built: &Built, options: &Options) -> Result<Tally> {
    run_filtered(root, built, options, &PEERS)
}

/// Scenarios that a contributor waits for before a push: the wire, the commands, a killed server and a cut power, each in
/// its short form with one engine.
const BEFORE_A_PUSH: [&str; 6] = [
    "wire-table:uring",
    "wire-table-unprivileged:uring",
    "commands:uring",
    "rpcbind:uring",
    "kill:uring",
    "power-xfs:uring",
];

/// Runs the scenarios of [`BEFORE_A_PUSH`] in their short forms.
pub(super) fn run_before_a_push(root: &Path, built: &Built) -> Result<Tally> {
    let mut command = Command::new(built.scenarios());
    command.current_dir(root).arg("run").arg("--server");
    command.arg(built.server());
    command.args(["--quick", "--engine", "uring"]);
    for filter in BEFORE_A_PUSH {
        command.args(["--filter", filter]);
    }
    run_counted(&mut command, false)
}

fn run_filtered(root: &Path, built: &Built, options: &Options, filters: &[&str]) -> Result<Tally> {
    let mut command = Command::new("timeout");
    command
        .current_dir(root)
        .args(["--kill-after=20", SECONDS_MAX]);
    command.arg(built.scenarios()).arg("run");
    command.arg("--server").arg(built.server());
    if options.strict {
        command.arg("--strict").env("PENSTOCK_STRICT", "1");
    }
    if !options.long {
        command.arg("--quick");
    }
    for filter in filters {
        command.args(["--filter", filter]);
    }
    if let Some(jobs) = options.jobs {
        command.args(["--jobs", &jobs.to_string()]);
    }
    run_counted(&mut command, options.strict)
}

/// Runs `nfs-test` and counts what it says.
fn run_counted(command: &mut Command, strict: bool) -> Result<Tally> {
    let mut reader = Reader::default();
    if let Some(directory) = newer_kernel::directory() {
        command.env(newer_kernel::VARIABLE, directory);
    }
    let succeeded = run::lines("nfs-test", command, |line| {
        reader.read(&line);
        Some(line)
    })?;
    let has_ended = reader.closing.is_some();
    let mut tally = reader.closing.unwrap_or_default();
    tally.merge(reader.said);
    // Ended by the clock, or by a panic of the test program itself.
    let excused = tally.failed > 0 || (strict && tally.skipped > 0);
    if !has_ended || (!succeeded && !excused) {
        tally.merge(Tally::failure(&format!(
            "system: nfs-test died, or was ended after {SECONDS_MAX} s; it ran {}",
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
    /// Whether the line read last is part of what a failed or skipped scenario said.
    within: bool,
    /// Name of the scenario that began last.
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
            "PASS" | "RUN" => self.within = false,
            "FAIL" | "SKIP" => {
                self.said.say(line);
                self.within = true;
            }
            _ if self.within => self.said.say_more(line),
            _ => {}
        }
        if verdict == "RUN" {
            self.last = line.chars().skip(5).take(40).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_pass_is_kept() {
        let mut reader = Reader::default();
        let output = "seed 7\nSKIP d:uring: no tap devices\nRUN  a:uring\nRUN  b:uring\nPASS a:uring (1.0 s)\n\
                      FAIL b:uring: bytes differ (2.0 s)\n     the end of b.log:\nRUN  c:uring\nPASS c:uring (1.0 s)\n\
                      2 passed, 1 failed, 1 skipped\nremoved";
        output.lines().for_each(|line| reader.read(line));
        let mut said = Tally::default();
        said.say("SKIP d:uring: no tap devices");
        said.say("FAIL b:uring: bytes differ (2.0 s)");
        said.say_more("     the end of b.log:");
        assert_eq!(reader.said, said);
        assert_eq!(reader.closing.unwrap().failed, 1);
        assert_eq!(reader.last, "c:uring");
    }
}
