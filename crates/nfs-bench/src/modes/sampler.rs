//! What happens while a load runs, looked at from outside every so often: the shape of a run over time.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nfs_lab::Memory;
use nfs_load::cgroup::Cgroup;
use serde::Serialize;

use crate::counters;

/// Time between two looks at the server and its cgroup.
pub const INTERVAL: Duration = Duration::from_millis(125);

/// The figures of one look at the server; times and bytes count from the beginning of the load.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Point {
    /// Seconds since the load began.
    pub seconds: f64,
    /// Payload bytes that the load has moved so far.
    pub bytes: u64,
    /// CPU seconds of the server, in its own code.
    pub user: f64,
    /// CPU seconds of the server, in the kernel.
    pub system: f64,
    /// CPU seconds of the whole machine that were neither idle nor waiting.
    pub machine: f64,
    /// Bytes of the file in the page cache.
    pub cached_bytes: u64,
    /// Bytes that the cgroup is charged with.
    pub charged_bytes: u64,
    /// Resident memory of the server in bytes.
    pub resident_bytes: u64,
}

/// The server, the cgroup and the file that are looked at while a load runs.
#[derive(Debug)]
pub struct Watch<'a> {
    /// Process id of the server.
    pub pid: u32,
    /// The cgroup that the server runs in.
    pub cgroup: &'a Cgroup,
    /// The file that is read or written; it may come to be later.
    pub file: PathBuf,
}

/// CPU seconds that were used so far, by the server and by the whole machine.
#[derive(Clone, Copy, Debug)]
struct Used {
    user: f64,
    system: f64,
    machine: f64,
}

impl Watch<'_> {
    /// Runs `work`, which counts the bytes it has moved in the number it gets, and looks at the server every
    /// [`INTERVAL`] and once at the end. The first point is all zero but for memory and cache.
    ///
    /// # Errors
    /// `work` fails, or the server has died.
    pub fn over<T: Send>(
        &self,
        work: impl FnOnce(&AtomicU64) -> Result<T> + Send,
    ) -> Result<(T, Vec<Point>)> {
        let progress = AtomicU64::new(0);
        let done = AtomicBool::new(false);
        let used = self.used()?;
        let start = Instant::now();
        let mut points = vec![self.look(start, used, 0)?];
        let value = std::thread::scope(|scope| {
            let this = std::thread::current();
            let (progress, done) = (&progress, &done);
            let worker = scope.spawn(move || {
                let value = work(progress);
                done.store(true, Ordering::Release);
                this.unpark();
                value
            });
            for turn in 1.. {
                let next = start + INTERVAL * turn;
                while let Some(rest) = next.checked_duration_since(Instant::now()) {
                    if done.load(Ordering::Acquire) {
                        break;
                    }
                    std::thread::park_timeout(rest);
                }
                // The last look is the first thing after the load, before anything settles.
                let bytes = progress.load(Ordering::Relaxed);
                points.push(self.look(start, used, bytes)?);
                if done.load(Ordering::Acquire) {
                    break;
                }
            }
            worker
                .join()
                .map_err(|_| anyhow::anyhow!("the load panicked"))?
        })?;
        Ok((value, points))
    }

    fn used(&self) -> Result<Used> {
        let (user, system) = counters::cpu_times(self.pid).context("the server has died")?;
        let machine = counters::machine_busy_seconds()?;
        Ok(Used {
            user,
            system,
            machine,
        })
    }

    fn look(&self, start: Instant, before: Used, bytes: u64) -> Result<Point> {
        let used = self.used()?;
        Ok(Point {
            seconds: start.elapsed().as_secs_f64(),
            bytes,
            user: used.user - before.user,
            system: used.system - before.system,
            machine: used.machine - before.machine,
            cached_bytes: cached_bytes(&self.file, self.cgroup)?,
            charged_bytes: self.cgroup.charged()?.all,
            resident_bytes: Memory::of(self.pid)?.resident_bytes,
        })
    }
}

/// How much of a file is in the page cache, in bytes; by the group's account where the kernel does not tell.
///
/// # Errors
/// The group cannot be read.
pub fn cached_bytes(file: &Path, cgroup: &Cgroup) -> Result<u64> {
    let Ok(file) = std::fs::File::open(file) else {
        return Ok(0);
    };
    match nfs_io::fs::cachestat(file.as_fd(), 0, 0) {
        Ok(stat) => Ok(stat.cached * rustix::param::page_size() as u64),
        // Before Linux 6.5.
        Err(_) => Ok(cgroup.charged()?.cache),
    }
}
