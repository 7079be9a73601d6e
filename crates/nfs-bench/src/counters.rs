//! What a server spends: CPU time, memory, system calls, instructions.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// CPU seconds, user and system together, that a process has used so far; in steps of a hundredth.
///
/// # Errors
/// The process is gone.
pub fn cpu_seconds(pid: u32) -> Result<f64> {
    let (user, system) = cpu_times(pid)?;
    Ok(user + system)
}

/// CPU seconds that a process has used so far, in its own code and in the kernel; in steps of a hundredth.
///
/// # Errors
/// The process is gone.
pub fn cpu_times(pid: u32) -> Result<(f64, f64)> {
    Ok(Stat::of(pid)?.own())
}

/// CPU seconds, user and system, of this process's children that have ended and were waited for, and of theirs.
///
/// # Errors
/// `/proc` is not there.
pub fn children_times() -> Result<(f64, f64)> {
    Ok(Stat::of(std::process::id())?.children())
}

/// What `/proc/PID/stat` says of the work of a process (proc(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Minor faults, own and of waited-for children; user and system ticks, own and of such children.
    numbers: [u64; 6],
}

impl Stat {
    /// Reads the figures of the process `pid`; those of a process that has ended can be read until somebody
    /// waits for it.
    ///
    /// # Errors
    /// The process is gone.
    pub fn of(pid: u32) -> Result<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        Self::parse(&stat).context("unexpected /proc/PID/stat")
    }

    fn parse(stat: &str) -> Option<Self> {
        // Behind the name, which may hold anything, the third field comes first.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let mut numbers = [0; 6];
        for (number, field) in numbers.iter_mut().zip([10, 11, 14, 15, 16, 17]) {
            *number = fields.get(field - 3)?.parse().ok()?;
        }
        Some(Self { numbers })
    }

    /// CPU seconds of the process itself, in its own code and in the kernel.
    pub fn own(&self) -> (f64, f64) {
        let [_, _, user, system, _, _] = self.numbers;
        (seconds(user), seconds(system))
    }

    /// CPU seconds of the process's children that have ended and were waited for, and of the children's own,
    /// in their own code and in the kernel.
    pub fn children(&self) -> (f64, f64) {
        let [_, _, _, _, user, system] = self.numbers;
        (seconds(user), seconds(system))
    }

    /// Page faults that needed no disk, those of waited-for children included.
    pub fn minor_faults(&self) -> u64 {
        let [own, children, ..] = self.numbers;
        own + children
    }
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// CPU seconds of all cores since boot that were neither idle nor waiting for a disk.
///
/// # Errors
/// `/proc` is not there.
pub fn machine_busy_seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let ticks = busy_ticks(&stat).context("unexpected /proc/stat")?;
    Ok(ticks / rustix::param::clock_ticks_per_second() as f64)
}

/// user, nice, system, irq, softirq; without idle, iowait, and what other machines took.
fn busy_ticks(stat: &str) -> Option<f64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Vec<f64> = line
        .split_whitespace()
        .map(|field| field.parse().ok())
        .collect::<Option<_>>()?;
    [0, 1, 2, 5, 6].iter().map(|&index| fields.get(index)).sum()
}

/// How much of the machine's cores is in use, over half a second, while we do nothing.
///
/// # Errors
/// `/proc` is not there.
pub fn busy_share(cpus: usize) -> Result<f64> {
    let before = machine_busy_seconds()?;
    let span = Duration::from_millis(500);
    // SLEEP: what is measured is what goes on meanwhile.
    std::thread::sleep(span);
    let busy = machine_busy_seconds()? - before;
    Ok(busy / span.as_secs_f64() / cpus as f64)
}

/// Bytes of memory that can be used without pushing anything out to a disk.
///
/// # Errors
/// `/proc` is not there.
pub fn memory_available() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo")?;
    let kib = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .context("unexpected /proc/meminfo")?;
    let kib: u64 = kib.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
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
    fn busy_is_what_is_not_idle() {
        let stat = "cpu  1 2 4 1000 2000 8 16 4000 0 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(busy_ticks(stat), Some(31.0));
        assert_eq!(busy_ticks("cpu 1 2"), None);
    }

    #[test]
    fn fields_are_counted_behind_the_name() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 100 20 9 9 10 20 30 40 20 0 1";
        let numbers = [100, 20, 10, 20, 30, 40];
        assert_eq!(Stat::parse(stat), Some(Stat { numbers }));
        assert_eq!(Stat::parse("7 (a) S 1"), None);
    }

    #[test]
    fn our_own_figures_can_be_read() {
        let pid = std::process::id();
        assert!(cpu_seconds(pid).unwrap() >= 0.0);
    }
}
