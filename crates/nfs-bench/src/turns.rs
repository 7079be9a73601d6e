//! What the long comparisons share: the machine that they ran on, and the turns that everybody takes in several rounds.

use std::time::{Duration, Instant};

use anyhow::Result;
use nfs_load::cores::{Apart, Cores};
use nfs_load::touch::touch;
use serde::Serialize;

use crate::stage::output;
use crate::{counters, limits, pin};

/// Share of the machine (0 to 1) that others may use before the run warns that its figures are worth little.
const BUSY_SHARE_TOLD: f64 = 0.1;
/// A measurement that takes longer is not taken again.
const AGAIN_WITHIN: Duration = Duration::from_secs(30);

/// The machine, and what else was going on.
#[derive(Debug, Serialize)]
pub struct Machine {
    /// Kernel name and release, as `uname -sr` prints them.
    pub kernel: String,
    /// Number of cores that the machine offers to this process.
    pub cpus: usize,
    /// Commit of the tree that this program runs in, with `+` behind it if files of the tree differ from it.
    pub commit: String,
    /// Cores of the load (or client) and of the server.
    pub cores: (usize, usize),
    /// Share of the cores that others used while nothing was measured yet: other work on the machine.
    pub busy_before: f64,
    /// How far apart the cores were during the measurements; `None` where that was not looked at.
    pub cores_apart: Option<Apart>,
}

impl Machine {
    /// Looks at the machine and says on standard error when it is busy. This has to be called before the
    /// process binds itself to one of the cores.
    ///
    /// # Errors
    /// `/proc` or `uname` cannot be read.
    pub fn look() -> Result<Self> {
        let cpus = std::thread::available_parallelism()?.get();
        let busy_before = counters::busy_share(cpus)?;
        if busy_before > BUSY_SHARE_TOLD {
            let percent = busy_before * 100.0;
            eprintln!(
                "this machine is {percent:.0} % busy with something else: the figures will be worth little"
            );
        }
        Ok(Self {
            kernel: output("uname", &["-sr"])?,
            cpus,
            commit: commit(),
            cores: pin::cores(),
            busy_before,
            cores_apart: None,
        })
    }

    /// The machine's line of a report, where the first core is `load`'s.
    pub fn line(&self, load: &str) -> String {
        let (first, server) = self.cores;
        let (kernel, cpus, commit) = (&self.kernel, self.cpus, &self.commit);
        let apart = self.cores_apart.as_ref();
        let apart = apart.map_or_else(String::new, |apart| {
            format!("; between two cores: {}", apart.words())
        });
        format!(
            "kernel {kernel}, {cpus} cores ({load} on {first}, server on {server}), commit {commit}{apart}"
        )
    }

    /// The line that says what others did, and which versions took part.
    pub fn others_line(&self, versions: &[String]) -> String {
        let percent = self.busy_before * 100.0;
        let versions = versions.join(", ");
        format!("{percent:.0} % of the machine was in use before the run; {versions}")
    }
}

/// The measurements of a run, one after another.
#[derive(Debug)]
pub struct Turns {
    started: Instant,
    taken: usize,
    cores: Cores,
    /// Bytes of free memory that are touched before each measurement.
    touched: u64,
    /// What could not be measured and why, one entry for each.
    pub missing: Vec<String>,
}

impl Turns {
    /// Begins a run: its clock starts now. This has to be called before the process binds itself to one of the cores.
    #[expect(clippy::new_without_default, reason = "it starts a clock")]
    pub fn new() -> Self {
        Self {
            started: Instant::now(),
            taken: 0,
            cores: Cores::choose(),
            touched: 0,
            missing: Vec::new(),
        }
    }

    /// The same run, with so many bytes of free memory written to before each measurement ([`nfs_load::touch`]).
    #[must_use]
    pub fn touching(self, bytes: u64) -> Self {
        Self {
            touched: bytes,
            ..self
        }
    }

    /// Seconds since the run began.
    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// The machine, with how far apart its cores were so far.
    pub fn on(&self, machine: Machine) -> Machine {
        Machine {
            cores_apart: self.cores.apart(),
            ..machine
        }
    }

    /// Number of turns so far, those of rows that were left out included.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Tells on standard error that `round` of `rounds` begins.
    pub fn round(&self, round: usize, rounds: usize) {
        let elapsed = self.started.elapsed().as_secs();
        eprintln!("round {round} of {rounds}, after {elapsed} s");
    }

    /// Takes one measurement: `measure` gets the turn's number, and `say` gives what is printed of its
    /// figures. What fails is noted under `label` and left out of later rounds, so that one contender's
    /// trouble costs only its row. What was measured while the machine's cores were far apart
    /// ([`nfs_load::cores`]) is measured again, a few times.
    pub fn take<F>(
        &mut self,
        label: &str,
        mut measure: impl FnMut(usize) -> Result<F>,
        say: impl FnOnce(&F) -> String,
    ) -> Option<F> {
        self.taken += 1;
        if self.missing.iter().any(|entry| entry.starts_with(label)) {
            return None;
        }
        let mut again = 0;
        let measured = loop {
            // Who interrupts the run ends this process.
            self.cores.wait(|| false);
            touch(self.touched, || false);
            let begun = Instant::now();
            let measured = measure(self.taken);
            if measured.is_err() || self.cores.are_near() {
                break measured;
            }
            if again == limits::AGAIN_MAX || begun.elapsed() > AGAIN_WITHIN {
                self.cores.note(0, 1);
                break measured;
            }
            again += 1;
            self.taken += 1;
        };
        self.cores.note(again, 0);
        match measured {
            Ok(figures) => {
                eprintln!("  {label:<64} {}", say(&figures));
                Some(figures)
            }
            Err(error) => {
                eprintln!("  {label:<64} {error:#}");
                self.missing.push(format!("{label}: {error:#}"));
                None
            }
        }
    }
}

/// The commit of the working tree, with `+` if the tree differs from it.
fn commit() -> String {
    let Ok(commit) = output("git", &["rev-parse", "--short", "HEAD"]) else {
        return "unknown".to_owned();
    };
    let changed = output("git", &["status", "--porcelain"]).is_ok_and(|status| !status.is_empty());
    format!("{commit}{}", if changed { "+" } else { "" })
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn what_failed_once_takes_no_further_turns() {
        let mut turns = Turns::new();
        let (mut asked, mut failed) = (Vec::new(), 0);
        for _ in 0..2 {
            let good = turns.take(
                "good",
                |turn| {
                    asked.push(turn);
                    Ok(turn)
                },
                |_| String::new(),
            );
            assert_eq!(good, asked.last().copied());
            let fail = |turn| {
                failed += 1;
                bail!("turn {turn}")
            };
            let bad = turns.take("bad", fail, |(): &()| String::new());
            assert_eq!(bad, None);
        }
        // Each has a number of its own, also where one is taken again.
        assert!(asked.len() >= 2 && asked.is_sorted_by(|one, next| one < next));
        assert_eq!((failed, turns.missing.len()), (1, 1));
        assert!(turns.missing[0].starts_with("bad: turn "));
    }
}
