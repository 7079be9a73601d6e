//! One measurement: cold files, a fresh server in a fresh cgroup, and a workload's loads.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use anyhow::{Context, Result};
use nfs_lab::Engine;
use nfs_load::cgroup::Cgroup;
use serde::Serialize;

use super::run::Case;
use super::workload::{Sizes, Step, WRITTEN, Workload};
use crate::counters;
use crate::modes::measure::{forget, read_back};
use crate::modes::sampler::Watch;
use crate::modes::stream::{self, Checked, Job, Outcome};
use crate::servers::{Penstock, Place, Program, Start};
use crate::volume::Volume;

/// The port of the one server that runs at a time.
const PORT: u16 = 20_504;

/// What all measurements of a run have in common.
#[derive(Clone, Debug)]
pub struct Common {
    /// The sizes of files and of the server's memory.
    pub sizes: Sizes,
    /// Beginning of the names of this run's cgroups.
    pub cgroups: String,
    /// Scratch directory for the servers' logs, configurations and state.
    pub root: PathBuf,
    /// Core of the server. The load's is the caller's.
    pub cpu: usize,
}

/// The figures of one measurement.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// Payload that was moved, in bytes.
    pub bytes: u64,
    /// Seconds that it took, COMMITs included.
    pub seconds: f64,
    /// 99th percentile of the latency of calls in microseconds, of the load in which it was the largest.
    pub p99_us: f64,
    /// The most bytes of the first file that were seen in the page cache.
    pub cached_peak_bytes: u64,
    /// The most bytes that the cgroup was charged with, if the kernel tells.
    pub charged_peak_bytes: Option<u64>,
    /// CPU seconds of the server, own code and kernel.
    pub cpu_seconds: f64,
}

impl Figures {
    /// Throughput, COMMIT included, in MiB/s.
    pub fn mib_per_second(&self) -> f64 {
        self.bytes as f64 / f64::from(1 << 20) / self.seconds
    }
}

/// Measures `case` on `volume`; `turn` differs for each measurement of a run.
///
/// # Errors
/// The server does not start, answers wrongly, or wrote what nobody sent.
pub fn measure(common: &Common, volume: &Volume, case: Case, turn: usize) -> Result<Figures> {
    volume.settle()?;
    for (name, _) in common.sizes.files() {
        forget(&volume.directory.join(name))?;
    }
    let steps = case.workload.steps(&common.sizes);
    let figures = served(common, volume, case, &steps, turn);
    let written = written(&volume.directory, &steps);
    let checked = figures.and_then(|figures| {
        for (step, path) in &written {
            if step.at_most.is_none() {
                let whole = step.bytes / u64::from(step.work.call_bytes());
                let bytes = whole * u64::from(step.work.call_bytes());
                read_back(path, step.work, volume.data, bytes)?;
            }
        }
        Ok(figures)
    });
    for (_, path) in written {
        if path.exists() {
            std::fs::remove_file(&path).with_context(|| path.display().to_string())?;
        }
    }
    checked
}

/// The files that the steps make.
fn written(directory: &Path, steps: &[Step]) -> Vec<(Step, PathBuf)> {
    let makes = steps.iter().filter(|step| step.work.makes_file());
    let files = makes.flat_map(|step| step.names().map(|name| (*step, directory.join(name))));
    files.collect()
}

fn served(
    common: &Common,
    volume: &Volume,
    case: Case,
    steps: &[Step],
    turn: usize,
) -> Result<Figures> {
    let cgroup = Cgroup::new(&format!("{}{turn}", common.cgroups), common.sizes.memory)?;
    let wrapper = cgroup.wrapper();
    let work = common.root.join(format!("server-{turn}"));
    let start = Start {
        name: &case.name(),
        program: Program::Penstock(Penstock {
            engine: Some(Engine::Uring),
            mode: Some(case.way.word()),
            pseudo: "/",
            ..Penstock::default()
        }),
        directory: &volume.directory,
        work: &work,
        port: PORT,
        cpu: common.cpu,
        wrapper: &wrapper,
    };
    let server = start.start()?;
    let first = steps.first().context("a workload without a load")?;
    let watch = Watch {
        pid: server.pid,
        cgroup: &cgroup,
        file: volume
            .directory
            .join(first.names().next().unwrap_or_else(|| WRITTEN.to_owned())),
    };
    let done = watch.over(|_progress| load(&server.place, volume, case.workload, steps));
    let (outcomes, points) = done.with_context(|| case.name())?;
    let cpu_seconds = counters::cpu_seconds(server.pid)?;
    drop(server);
    let _ = std::fs::remove_dir_all(work);
    let seconds = outcomes.iter().map(|outcome| outcome.seconds);
    Ok(Figures {
        bytes: outcomes.iter().map(|outcome| outcome.bytes).sum(),
        seconds: match case.workload.is_at_once() {
            true => seconds.fold(0.0, f64::max),
            false => seconds.sum(),
        },
        p99_us: outcomes
            .iter()
            .map(|outcome| outcome.p99_us)
            .fold(0.0, f64::max),
        cached_peak_bytes: points
            .iter()
            .map(|point| point.cached_bytes)
            .max()
            .unwrap_or(0),
        charged_peak_bytes: cgroup.peak_bytes(),
        cpu_seconds,
    })
}

fn load(
    place: &Place,
    volume: &Volume,
    workload: Workload,
    steps: &[Step],
) -> Result<Vec<Outcome>> {
    if !workload.is_at_once() {
        let outcomes = steps.iter().map(|step| one(place, volume, step));
        return Ok(outcomes.collect::<Result<Vec<_>>>()?.concat());
    }
    std::thread::scope(|scope| {
        let running = steps
            .iter()
            .map(|step| scope.spawn(move || one(place, volume, step)));
        let running: Vec<_> = running.collect();
        let mut outcomes = Vec::new();
        for load in running {
            let ended = load
                .join()
                .map_err(|_| anyhow::anyhow!("a load panicked"))?;
            outcomes.extend(ended?);
        }
        Ok(outcomes)
    })
}

fn one(place: &Place, volume: &Volume, step: &Step) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for _ in 0..step.times {
        for name in step.names() {
            let job = Job {
                work: step.work,
                depth: step.depth,
                name,
                file_bytes: step.bytes,
                at_most: step.at_most,
                // The same places for everybody.
                seed: 0x5eed,
                shuffled: 1,
                data: volume.data,
                clients: 1,
                checked: Checked::Some,
            };
            outcomes.push(stream::run(place, &job, &AtomicU64::new(0))?);
        }
    }
    Ok(outcomes)
}
