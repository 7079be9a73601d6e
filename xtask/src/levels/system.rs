//! The system level: `nfs-test`, which runs the real server against real kernels, tools and power cuts.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::build::Built;
use super::{Options, Tally, newer_kernel};
use crate::run::{self, Outcome, Patience};

/// The scenarios with foreign peers: what `cargo xtask interop` runs.
const PEERS: [&str; 5] = ["kernel", "libnfs", "rpcbind", "ganesha", "nfsd"];

/// How long the whole run may take: 25 minutes on a slow machine. A hang must not look like slowness.
const PATIENCE: Patience = Patience::seconds(1800);

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
    let mut command = Command::new(built.scenarios());
    command.current_dir(root).arg("run").arg("--server");
    command.arg(built.server());
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
    let outcome = run::lines("nfs-test", command, PATIENCE, |line| {
        reader.read(&line);
        Some(line)
    })?;
    let has_ended = reader.closing.is_some();
    let mut tally = reader.closing.unwrap_or_default();
    tally.merge(reader.said);
    let ran = reader.running.join(", ");
    let excused = tally.failed > 0 || (strict && tally.skipped > 0);
    match outcome {
        Outcome::Late(hang) => {
            tally.merge(Tally::hang(&format!("system: nfs-test ({ran})"), &hang));
        }
        // A panic of the test program itself.
        Outcome::Failed | Outcome::Succeeded if !has_ended => {
            let said = format!("system: nfs-test died; it ran {ran}");
            tally.merge(Tally::failure(&said));
        }
        Outcome::Failed if !excused => {
            tally.merge(Tally::failure("system: nfs-test died at its end"));
        }
        Outcome::Failed | Outcome::Succeeded => {}
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
    /// The scenarios that have begun and not ended.
    running: Vec<String>,
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
        let name = line.split_whitespace().nth(1).unwrap_or_default();
        match verdict {
            "RUN" => self.running.push(name.to_owned()),
            "PASS" | "FAIL" => {
                let name = name.trim_end_matches(':');
                self.running.retain(|running| running != name);
            }
            _ => {}
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
                      FAIL b:uring: bytes differ (2.0 s)\n     the end of b.log:\nRUN  c:uring\nRUN  e:uring\nPASS c:uring (1.0 s)\n\
                      2 passed, 1 failed, 1 skipped\nremoved";
        output.lines().for_each(|line| reader.read(line));
        let mut said = Tally::default();
        said.say("SKIP d:uring: no tap devices");
        said.say("FAIL b:uring: bytes differ (2.0 s)");
        said.say_more("     the end of b.log:");
        assert_eq!(reader.said, said);
        assert_eq!(reader.closing.unwrap().failed, 1);
        assert_eq!(reader.running, ["e:uring"]);
    }
}
