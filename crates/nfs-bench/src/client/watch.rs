//! One process from its start to its end: how long it took, what it spent, the most memory it had.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nfs_lab::Memory;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde::Serialize;

use crate::counters::Stat;

/// How often its memory is looked at. The kernel keeps the peak, so only what grows after the last look is missed.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// The resources that a process took, those of the processes that it started and waited for included.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Spent {
    /// Seconds from just before the process's start to its end.
    pub seconds: f64,
    /// CPU seconds in its own code; in steps of a hundredth.
    pub user: f64,
    /// CPU seconds in the kernel; in steps of a hundredth.
    pub system: f64,
    /// Most resident memory of the process itself, in bytes.
    pub peak_bytes: u64,
    /// Number of page faults that needed no disk.
    pub faults: u64,
}

/// Runs `command` to its end.
///
/// # Errors
/// It cannot be started, or fails.
pub fn watch(command: &mut Command) -> Result<Spent> {
    let program = command.get_program().to_owned();
    let start = Instant::now();
    let mut child = command
        .spawn()
        .with_context(|| format!("starting {}", program.display()))?;
    let pid = Pid::from_child(&child);
    let ended = AtomicBool::new(false);
    let (spent, peak_bytes) = std::thread::scope(|scope| {
        let looker = scope.spawn(|| peak(child.id(), &ended));
        // Left in the process table, so that its times can still be read.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let waited = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), options));
        let seconds = start.elapsed().as_secs_f64();
        ended.store(true, Ordering::Relaxed);
        looker.thread().unpark();
        let times = waited
            .map_err(anyhow::Error::from)
            .and_then(|_| times(child.id()));
        let spent = times.map(|(user, system, faults)| Spent {
            seconds,
            user,
            system,
            peak_bytes: 0,
            faults,
        });
        (spent, looker.join().unwrap_or_default())
    });
    let status = child.wait()?;
    if !status.success() {
        bail!("{}: {status}", program.display());
    }
    Ok(Spent {
        peak_bytes,
        ..spent?
    })
}

fn peak(pid: u32, ended: &AtomicBool) -> u64 {
    let mut most = 0;
    while !ended.load(Ordering::Relaxed) {
        // Gone already, or about to be: the last look counts.
        if let Ok(memory) = Memory::of(pid) {
            most = most.max(memory.peak_bytes);
        }
        std::thread::park_timeout(BETWEEN_LOOKS);
    }
    most
}

/// User and system seconds and minor faults of an ended process that nobody has waited for yet, with its children's.
fn times(pid: u32) -> Result<(f64, f64, u64)> {
    let stat = Stat::of(pid)?;
    let (own, children) = (stat.own(), stat.children());
    let times = (own.0 + children.0, own.1 + children.1);
    Ok((times.0, times.1, stat.minor_faults()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_watched_to_its_end() {
        let mut command = Command::new("sh");
        command.args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"]);
        let spent = watch(&mut command).unwrap();
        assert!(spent.seconds > 0.0 && spent.user > 0.0, "{spent:?}");
        assert!(spent.peak_bytes > 100_000, "{spent:?}");
        assert!(spent.faults > 10, "{spent:?}");
    }

    #[test]
    fn failures_are_told() {
        assert!(watch(&mut Command::new("false")).is_err());
        assert!(watch(&mut Command::new("/nonexistent/program")).is_err());
    }
}
