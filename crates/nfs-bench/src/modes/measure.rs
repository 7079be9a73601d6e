//! One measurement: a cold file, a fresh server in a fresh cgroup, one load, one set of figures.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nfs_load::cgroup::Cgroup;
use rustix::fs::{Advice, fadvise};
use serde::Serialize;

use super::contender::{Contender, Serving, Start};
use super::count::read_modify_writes;
use super::fio::Fio;
use super::sampler::{Point, Watch, cached_bytes};
use super::stream::{self, Checked, Job, Outcome};
use super::work::{Direction, Places, Work};
use crate::content::{Content, Data};
use crate::counters;
use crate::volume::Volume;

/// The file that every READ workload reads; it stays over the run.
pub const READ_NAME: &str = "read-me";
/// The file that a WRITE workload writes; gone after each.
const WRITE_NAME: &str = "written";
/// How much of a written file is read back and compared: a number of random pieces, and the bytes of each.
const READ_BACK: (usize, usize) = (64, 64 << 10);

/// What all measurements of a run have in common.
#[derive(Clone, Debug)]
pub struct Common {
    /// Number of clients that move the measured file together, each over a connection of its own.
    pub clients: usize,
    /// Number of calls in flight on each connection.
    pub depth: usize,
    /// Whether our server takes space ahead of streams of WRITEs; its own choice if not given.
    pub reserve: Option<bool>,
    /// Size of the measured file in bytes.
    pub file_bytes: u64,
    /// Memory limit of the cgroup that the server or fio runs in, in bytes.
    pub memory_bytes: u64,
    /// How long a workload that is not random may send new calls; `None` lets it go through the whole file.
    pub at_most: Option<Duration>,
    /// How long random READs last, which have no end of their own.
    pub random_for: Duration,
    /// Beginning of the names of this run's cgroups.
    pub cgroups: String,
    /// Scratch directory for the servers' logs, configurations and state.
    pub root: PathBuf,
    /// Core of the server, or of fio. The load's is the caller's.
    pub cpu: usize,
    /// Path of `unfsd`, if unfs3 is there.
    pub unfsd: Option<PathBuf>,
}

/// The figures of one measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Bytes, times and latencies as the load saw them.
    pub outcome: Outcome,
    /// CPU seconds of the server (or of fio) in its own code.
    pub user: f64,
    /// CPU seconds of the server (or of fio) in the kernel on its own behalf.
    pub system: f64,
    /// CPU seconds of the load, 0 of fio, which has none. Where they are as many as [`Outcome::seconds`], the load's core
    /// had no time left.
    pub load: f64,
    /// CPU seconds of the machine that neither the server nor the load account for: the kernel's threads.
    pub elsewhere: f64,
    /// Bytes of the file in the page cache right after the load.
    pub cached_bytes: u64,
    /// The most bytes of the file that were seen in the page cache.
    pub cached_peak_bytes: u64,
    /// The most resident memory of the server that was seen.
    pub resident_peak_bytes: u64,
    /// The most bytes that the cgroup was charged with, if the kernel tells.
    pub charged_peak_bytes: Option<u64>,
    /// Bytes that the volume's device was read while the load ran, by whomever; `None` where the device is not known.
    pub device_read_bytes: Option<u64>,
    /// Parts of blocks that our server left to the page cache, which reads and writes the rest; `None` of READs and
    /// of others.
    pub read_modify_writes: Option<u64>,
    /// The measurement over time; empty for fio, which is not looked at while it runs.
    pub points: Vec<Point>,
}

impl Figures {
    /// CPU seconds of the server per GiB: own code and kernel.
    pub fn cpu_per_gib(&self) -> f64 {
        (self.user + self.system) / self.gib()
    }

    /// For how much of the time the load's core was busy, in per cent.
    pub fn load_percent(&self) -> f64 {
        self.load * 100.0 / self.outcome.seconds
    }

    /// Bytes that the device was read, in MiB; zero where that is not known.
    pub fn device_read_mib(&self) -> f64 {
        self.device_read_bytes.unwrap_or_default() as f64 / f64::from(1 << 20)
    }

    /// Read-modify-writes for each thousand calls.
    pub fn modified_per_thousand(&self) -> f64 {
        let modified = self.read_modify_writes.unwrap_or_default();
        modified as f64 * 1000.0 / self.outcome.calls.max(1) as f64
    }

    /// The most of the file that was seen in the page cache, in per cent of what was moved.
    pub fn cached_percent(&self) -> f64 {
        self.cached_peak_bytes as f64 * 100.0 / self.outcome.bytes.max(1) as f64
    }

    /// The figure by which `work` is compared: calls per second for random places, MiB/s otherwise.
    pub fn rate(work: Work) -> fn(&Self) -> f64 {
        if work.is_random() {
            |figures| figures.outcome.calls as f64 / figures.outcome.seconds
        } else {
            |figures| figures.outcome.mib_per_second()
        }
    }

    /// Payload that was moved, in GiB.
    pub fn gib(&self) -> f64 {
        self.outcome.bytes as f64 / f64::from(1 << 30)
    }
}

/// Measures `work` on `volume` as `contender` does it; `turn` differs for each measurement of a run.
///
/// # Errors
/// The contender does not start, answers wrongly, or wrote what nobody sent.
pub fn measure(
    common: &Common,
    volume: &Volume,
    work: Work,
    contender: Contender,
    turn: usize,
) -> Result<Figures> {
    volume.settle()?;
    let file = volume.directory.join(name_of(work));
    if work.direction() == Direction::Read {
        forget(&file)?;
    }
    let cgroup = Cgroup::new(&format!("{}{turn}", common.cgroups), common.memory_bytes)?;
    let figures = match contender {
        Contender::Fio { direct } => local(common, &file, work, (direct, volume.data), &cgroup),
        _ => served(common, volume, work, contender, turn, &cgroup),
    };
    if work.direction() == Direction::Read || contender == Contender::Responder {
        return figures;
    }
    let figures = figures.and_then(|figures| {
        // fio writes contents of its own.
        if !matches!(contender, Contender::Fio { .. }) {
            read_back(&file, work, volume.data, figures.outcome.bytes)?;
        }
        Ok(figures)
    });
    if file.exists() {
        std::fs::remove_file(&file).with_context(|| file.display().to_string())?;
    }
    figures
}

/// The file that the READ workloads read.
///
/// # Errors
/// There is no room for it.
pub fn make_read_file(volume: &Volume, bytes: u64) -> Result<()> {
    make_file(volume, READ_NAME, bytes)
}

/// A file that is there before anything is measured, on the disk and not in the page cache.
pub(crate) fn make_file(volume: &Volume, name: &str, bytes: u64) -> Result<()> {
    let path = volume.directory.join(name);
    let file = Content::new(volume.data, 1 << 20).make_file(&path, bytes)?;
    file.sync_all()?;
    forget(&path)
}

fn served(
    common: &Common,
    volume: &Volume,
    work: Work,
    contender: Contender,
    turn: usize,
    cgroup: &Cgroup,
) -> Result<Figures> {
    let wrapper = cgroup.wrapper();
    let server = start(common, volume, contender, turn, &wrapper)?;
    let job = job(common, volume, work, contender);
    let watch = Watch {
        pid: server.server.pid,
        cgroup,
        file: volume.directory.join(&job.name),
    };
    let own = counters::cpu_seconds(std::process::id())?;
    let read_before = volume.device_read_bytes();
    let (outcome, points) = watch
        .over(|progress| stream::run(&server.server.place, &job, progress))
        .with_context(|| format!("{} against {}", work.name(), contender.name()))?;
    let own = counters::cpu_seconds(std::process::id())? - own;
    let device_read_bytes = volume.device_read_bytes().zip(read_before);
    let last = *points.last().context("no look at the server")?;
    let most = |of: fn(&Point) -> u64| points.iter().map(of).max().unwrap_or_default();
    let figures = Figures {
        outcome,
        user: last.user,
        system: last.system,
        load: own,
        elsewhere: (last.machine - last.user - last.system - own).max(0.0),
        cached_bytes: last.cached_bytes,
        cached_peak_bytes: most(|p| p.cached_bytes),
        resident_peak_bytes: nfs_lab::Memory::of(server.server.pid)?.peak_bytes,
        charged_peak_bytes: cgroup.peak_bytes(),
        device_read_bytes: device_read_bytes.map(|(after, before)| after.saturating_sub(before)),
        read_modify_writes: match (contender.mode(), work.direction()) {
            (Some(_), Direction::Write) => Some(read_modify_writes(&server)?),
            _ => None,
        },
        points,
    };
    if common.clients > 1 && work.direction() == Direction::Write {
        read_through(&server, &job, outcome.bytes)?;
    }
    drop(server);
    // Its state held the handle key of a directory that outlives it; the next server makes its own.
    let _ = std::fs::remove_dir_all(common.root.join(format!("server-{turn}")));
    Ok(figures)
}

/// Has clients as many as wrote a file read it all through the same server, and compares every byte.
fn read_through(server: &Serving, written: &Job, bytes: u64) -> Result<()> {
    let job = Job {
        work: Work::Read47008,
        file_bytes: bytes,
        at_most: None,
        checked: Checked::All,
        ..written.clone()
    };
    let read = stream::run(&server.server.place, &job, &AtomicU64::new(0));
    read.context("reading what was written").map(drop)
}

/// Starts a server with a state of its own.
pub(crate) fn start(
    common: &Common,
    volume: &Volume,
    contender: Contender,
    turn: usize,
    wrapper: &[String],
) -> Result<Serving> {
    let start = Start {
        export: &volume.directory,
        work: common.root.join(format!("server-{turn}")),
        cpu: common.cpu,
        reserve: common.reserve,
        wrapper,
        unfsd: common.unfsd.as_deref(),
    };
    start.start(contender)
}

/// The job that a load has to do to measure `work` of `contender` on `volume`.
pub(crate) fn job(common: &Common, volume: &Volume, work: Work, contender: Contender) -> Job {
    Job {
        work,
        clients: common.clients,
        depth: common.depth,
        name: name_of(work).to_owned(),
        file_bytes: common.file_bytes,
        at_most: if work.is_random() {
            Some(common.random_for)
        } else {
            common.at_most
        },
        // The same places for everybody.
        seed: 0x5eed,
        shuffled: 1,
        data: volume.data,
        checked: match contender {
            Contender::Responder => Checked::Nothing,
            _ => Checked::Some,
        },
    }
}

fn name_of(work: Work) -> &'static str {
    match work.direction() {
        Direction::Read => READ_NAME,
        Direction::Write => WRITE_NAME,
    }
}

fn local(
    common: &Common,
    file: &Path,
    work: Work,
    (direct, data): (bool, Data),
    cgroup: &Cgroup,
) -> Result<Figures> {
    let wrapper = cgroup.wrapper();
    let at_most = if work.is_random() {
        Some(common.random_for)
    } else {
        common.at_most
    };
    let fio = Fio {
        work,
        depth: common.depth,
        direct,
        data,
        file,
        bytes: common.file_bytes,
        at_most: at_most.map(|most| most.as_secs_f64()),
        cpu: common.cpu,
        wrapper: &wrapper,
    };
    let machine = counters::machine_busy_seconds()?;
    let (outcome, user, system) = fio.run()?;
    let machine = counters::machine_busy_seconds()? - machine;
    let cached = cached_bytes(file, cgroup)?;
    Ok(Figures {
        outcome,
        user,
        system,
        load: 0.0,
        elsewhere: (machine - user - system).max(0.0),
        cached_bytes: cached,
        cached_peak_bytes: cached,
        resident_peak_bytes: 0,
        charged_peak_bytes: cgroup.peak_bytes(),
        device_read_bytes: None,
        read_modify_writes: None,
        points: Vec::new(),
    })
}

/// Drops what the page cache holds of a file.
pub(crate) fn forget(path: &Path) -> Result<()> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    file.sync_all()?;
    fadvise(&file, 0, None, Advice::DontNeed).context("dropping the file from the page cache")
}

/// Compares pieces of what was written, all over the file, with what was sent.
pub(crate) fn read_back(path: &Path, work: Work, data: Data, bytes: u64) -> Result<()> {
    forget(path)?;
    let file = File::open(path).with_context(|| path.display().to_string())?;
    let len = file.metadata()?.len();
    if len != bytes {
        bail!(
            "{} bytes were written and committed, the file has {len}",
            bytes
        );
    }
    let (pieces, piece_bytes) = READ_BACK;
    let content = Content::new(data, piece_bytes);
    let mut piece = vec![0; piece_bytes];
    let ends = [0, bytes.saturating_sub(piece_bytes as u64)];
    let within = Places::new(work.call_bytes(), bytes, Some(bytes));
    for offset in ends.into_iter().chain(within.take(pieces)) {
        let wanted = usize::try_from((bytes - offset).min(piece_bytes as u64))?;
        file.read_exact_at(&mut piece[..wanted], offset)?;
        content
            .check(offset, &piece[..wanted])
            .context("a written file is not what was sent")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_file_is_compared() {
        let path = std::env::temp_dir().join(format!("nfs-bench-read-back-{}", std::process::id()));
        let bytes = 3 * 47_008 * 10;
        let mut whole = Vec::new();
        Content::new(Data::Noise, 1 << 20)
            .fill(&mut whole, bytes)
            .unwrap();
        std::fs::write(&path, &whole).unwrap();
        let right = read_back(&path, Work::Write47008, Data::Noise, bytes);
        let short = read_back(&path, Work::Write47008, Data::Noise, bytes + 1);
        let end = whole.len() - 1;
        whole[end] ^= 1;
        std::fs::write(&path, &whole).unwrap();
        let wrong = read_back(&path, Work::Write47008, Data::Noise, bytes);
        std::fs::remove_file(&path).unwrap();
        right.unwrap();
        assert!(short.unwrap_err().to_string().contains("the file has"));
        assert!(format!("{:#}", wrong.unwrap_err()).contains("wrong byte"));
    }
}
