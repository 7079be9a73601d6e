//! Child processes that never outlive the test and are never waited for without a deadline.

use std::fs::File;
use std::io::Read;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// How long a helper command (mount, mkfs, ip, ...) may take.
const COMMAND_DEADLINE: Duration = Duration::from_secs(60);

/// How often the memory of a process is looked at.
const LOOK_AT_MEMORY: Duration = Duration::from_millis(20);

/// A running child; killed (SIGKILL) and reaped on drop.
pub struct Running {
    child: Child,
    what: String,
}

impl Running {
    /// Starts `command`; its standard streams are as the caller has set them.
    ///
    /// # Errors
    /// When there is no such program, or it may not be run.
    pub fn start(command: &mut Command) -> Result<Self> {
        let what = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().with_context(|| format!("start {what}"))?;
        Ok(Self { child, what })
    }

    /// The process id, which stays this child's until this value is dropped.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The child as the standard library sees it, for its standard streams.
    pub const fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Sends a signal; an ended process is no error.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            // The child is reaped only by us, so the id cannot belong to another process yet.
            let _ended_before = kill_process(pid, signal);
        }
    }

    /// The exit status, or `None` while it runs.
    ///
    /// # Errors
    /// When the child cannot be asked.
    pub fn exited(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// When the process still runs at the deadline.
    pub fn wait(&mut self, within: Duration) -> Result<ExitStatus> {
        let status = self.ended_within(within)?;
        status.with_context(|| format!("{} still runs after {within:?}", self.what))
    }

    /// Waits for the end; with the status, the largest resident set that was seen, in bytes.
    ///
    /// # Errors
    /// When the process still runs at the deadline.
    pub fn wait_measured(&mut self, within: Duration) -> Result<(ExitStatus, u64)> {
        let deadline = Instant::now() + within;
        let mut most = 0;
        loop {
            // An ended process has no memory any more.
            most = Memory::of(self.id())
                .map_or(0, |memory| memory.peak_bytes)
                .max(most);
            if let Some(status) = self.ended_within(LOOK_AT_MEMORY)? {
                return Ok((status, most));
            }
            ensure!(Instant::now() < deadline, "{} still runs", self.what);
        }
    }

    /// Waits for the end for some time; `None` when the process still runs then.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub fn ended_within(&mut self, within: Duration) -> Result<Option<ExitStatus>> {
        if self.child.try_wait()?.is_none() {
            self.wait_for_end_or(None, Instant::now() + within)?;
        }
        Ok(self.child.try_wait()?)
    }

    /// Waits until the process has ended, `other` can be read, or the deadline has passed.
    pub(crate) fn wait_for_end_or(
        &self,
        other: Option<BorrowedFd<'_>>,
        deadline: Instant,
    ) -> Result<()> {
        let pid = Pid::from_raw(self.child.id().cast_signed()).context("a child has an id")?;
        let end = pidfd_open(pid, PidfdFlags::empty()).context("pidfd_open")?;
        let mut awaited = vec![PollFd::new(&end, PollFlags::IN)];
        awaited.extend(other.map(|other| PollFd::from_borrowed_fd(other, PollFlags::IN)));
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match poll(&mut awaited, Some(&Timespec::try_from(left)?)) {
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error).context("poll a process"),
            }
        }
    }

    /// Asks the process to end (SIGTERM) and waits; one that still runs after `within` is killed.
    pub fn end(mut self, within: Duration) {
        self.signal(Signal::TERM);
        // Dropping it kills what is left.
        let _ended_or_not = self.ended_within(within);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // Nothing can be done about either error while a test is being cleaned up.
            let _already_ended = self.child.kill();
            let _already_reaped = self.child.wait();
        }
    }
}

/// Memory of a running process, in bytes.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Memory {
    /// Resident memory that the process has now, in bytes.
    pub resident_bytes: u64,
    /// The most that it has had so far.
    pub peak_bytes: u64,
}

impl Memory {
    /// Reads the figures of the process `pid` from `/proc` (`VmRSS` and `VmHWM` of proc(5)).
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

/// Runs a helper command to its end; its output is part of the error.
///
/// # Errors
/// When it fails or takes longer than a minute.
pub fn run(program: &str, args: &[&str]) -> Result<()> {
    let mut command = Command::new(program);
    command.args(args);
    output(&mut command).map(drop)
}

/// Runs a command to its end and returns what it wrote on standard output.
///
/// # Errors
/// When it fails (its standard error is part of the error) or takes longer than a minute.
pub fn output(command: &mut Command) -> Result<Vec<u8>> {
    output_within(command, COMMAND_DEADLINE)
}

/// Runs a command to its end, within the given time, and returns what it wrote on standard output.
///
/// # Errors
/// When it fails or takes too long.
pub fn output_within(command: &mut Command, within: Duration) -> Result<Vec<u8>> {
    // Files instead of pipes: no pipe can fill up while we wait for the end.
    let (out, err) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(err.try_clone()?);
    let status = Running::start(command)?.wait(within)?;
    let what = format!("{command:?}");
    ensure!(
        status.success(),
        "{what}: {status}: {}",
        String::from_utf8_lossy(&all(err)?).trim()
    );
    all(out)
}

/// Copies a program that is to be run, for any user. Whoever finds the copy in its place finds all of it: others may
/// run it, or copy it anew, meanwhile.
///
/// # Errors
/// When it cannot be copied.
pub fn copy_program(program: &Path, to: &Path) -> Result<()> {
    static COPIES: AtomicU64 = AtomicU64::new(0);
    let number = COPIES.fetch_add(1, Ordering::Relaxed);
    let unfinished = to.with_extension(format!("copy-{}-{number}", std::process::id()));
    // By a process of its own: a child that another thread forks meanwhile would keep the copy open for
    // writing until it executes something else, and the kernel runs no such file (ETXTBSY).
    output(
        Command::new("install")
            .args(["-m", "755"])
            .args([program, &unfinished]),
    )?;
    std::fs::rename(&unfinished, to)?;
    Ok(())
}

fn all(mut file: File) -> Result<Vec<u8>> {
    use std::io::Seek;
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn a_copy_that_is_found_can_be_run() {
        const FINDERS: usize = 4;
        const ROUNDS: u32 = 30;
        let dir = tempfile::tempdir().unwrap();
        let together = Barrier::new(FINDERS);
        let runs = |copy: &Path| {
            if !copy.exists() {
                copy_program(Path::new("/bin/true"), copy)?;
            }
            Ok::<_, anyhow::Error>(Command::new(copy).status()?.success())
        };
        // Whoever fails goes on: the others wait for it at each round.
        let count_runs = || {
            let round = |round: u32| {
                let copy = dir.path().join(round.to_string());
                together.wait();
                runs(&copy).is_ok_and(|ran| ran)
            };
            (0..ROUNDS).filter(|&number| round(number)).count()
        };
        let ran: Vec<usize> = std::thread::scope(|scope| {
            let finders: Vec<_> = (0..FINDERS).map(|_| scope.spawn(count_runs)).collect();
            finders.into_iter().map(|it| it.join().unwrap()).collect()
        });
        assert_eq!(ran, [ROUNDS as usize; FINDERS]);
    }
}
