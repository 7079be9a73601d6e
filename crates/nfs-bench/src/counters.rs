//! What a server spends: CPU time, memory, system calls, instructions.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;

/// CPU seconds, user and system, that a process has used so far; in steps of a hundredth.
///
/// # Errors
/// The process is gone.
pub fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The second field is a name in parentheses and may hold spaces; user and system time are 14 and 15.
    let rest = stat
        .rsplit_once(')')
        .context("unexpected /proc/PID/stat")?
        .1;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |index: usize| -> Result<f64> {
        Ok(fields.get(index).context("short /proc/PID/stat")?.parse()?)
    };
    Ok((ticks(11)? + ticks(12)?) / rustix::param::clock_ticks_per_second() as f64)
}

/// Resident memory of a process in bytes.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Memory {
    /// Now.
    pub resident_bytes: u64,
    /// The most there has been.
    pub peak_bytes: u64,
}

impl Memory {
    /// Reads it from `/proc`.
    ///
    /// # Errors
    /// The process is gone.
    pub fn of(pid: u32) -> Result<Self> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let field = |name: &str| -> Result<u64> {
            let line = status
                .lines()
                .find_map(|l| l.strip_prefix(name))
                .context("no such field")?;
            let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
            Ok(kib * 1024)
        };
        Ok(Self {
            resident_bytes: field("VmRSS:")?,
            peak_bytes: field("VmHWM:")?,
        })
    }
}

/// How often a server made each system call while `work` ran, most frequent first.
///
/// # Errors
/// strace is missing or may not attach, or `work` fails.
pub fn system_calls<T>(
    pid: u32,
    scratch: &Path,
    work: impl FnOnce() -> Result<T>,
) -> Result<(T, Vec<(String, u64)>)> {
    let summary = scratch.join("strace.txt");
    let mut tracer = Command::new("strace")
        .args(["-f", "-c", "-U", "name,calls", "-o"])
        .arg(&summary)
        .args(["-p", &pid.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("starting strace")?;
    let mut messages = BufReader::new(tracer.stderr.take().context("no standard error")?);
    let mut first = String::new();
    messages.read_line(&mut first)?;
    if !first.contains("attached") {
        bail!("strace: {}", first.trim());
    }
    let value = work();
    let tracer_pid = Pid::from_raw(tracer.id().cast_signed()).context("pid")?;
    kill_process(tracer_pid, Signal::INT).context("ending strace")?;
    // It writes a line for each thread it lets go; a full pipe would keep it from ending.
    std::io::copy(&mut messages, &mut std::io::sink())?;
    tracer.wait()?;
    let text = std::fs::read_to_string(&summary).context("strace left no summary")?;
    Ok((value?, parse_summary(&text)))
}

fn parse_summary(text: &str) -> Vec<(String, u64)> {
    let mut calls: Vec<(String, u64)> = text
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_whitespace();
            let (name, count) = (fields.next()?, fields.next()?.parse().ok()?);
            (name != "total").then(|| (name.to_owned(), count))
        })
        .collect();
    calls.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    calls
}

/// The wrapper under which a server's instructions are counted, and the file the count goes to.
pub fn callgrind(scratch: &Path, name: &str) -> (Vec<String>, std::path::PathBuf) {
    let out = scratch.join(format!("callgrind.{name}"));
    let wrapper = ["valgrind", "--tool=callgrind", "--quiet"]
        .map(str::to_owned)
        .to_vec();
    let file = format!("--callgrind-out-file={}", out.display());
    ([wrapper, vec![file]].concat(), out)
}

/// Instructions in a file that callgrind wrote at the end of a process.
///
/// # Errors
/// The file is not there: the process did not end by itself.
pub fn instructions(out: &Path) -> Result<u64> {
    let text = std::fs::read_to_string(out).with_context(|| out.display().to_string())?;
    let total = text.lines().find_map(|l| {
        l.strip_prefix("totals:")
            .or_else(|| l.strip_prefix("summary:"))
    });
    let total = total.context("no totals in callgrind's file")?;
    Ok(total
        .split_whitespace()
        .next()
        .context("empty totals")?
        .parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_read() {
        let text = "syscall              calls\n---------------- ---------\nepoll_wait             12\nsendto                 20\n---------------- ---------\ntotal                  32\n";
        assert_eq!(
            parse_summary(text),
            [("sendto".to_owned(), 20), ("epoll_wait".to_owned(), 12)]
        );
    }

    #[test]
    fn our_own_figures_can_be_read() {
        let pid = std::process::id();
        assert!(cpu_seconds(pid).unwrap() >= 0.0);
        let memory = Memory::of(pid).unwrap();
        assert!(memory.resident_bytes > 0 && memory.peak_bytes >= memory.resident_bytes / 2);
    }
}
