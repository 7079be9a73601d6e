//! One measurement: a fresh server in a fresh cgroup, one new file, and a look at where its blocks are.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nfs_lab::Engine;
use nfs_load::cgroup::Cgroup;
use serde::Serialize;

use super::run::Case;
use crate::counters;
use crate::modes::measure::read_back;
use crate::modes::stream::{self, Checked, Job, Outcome};
use crate::modes::work::Work;
use crate::servers::{Penstock, Program, Start};
use crate::stage::output;
use crate::volume::Volume;

/// The file that is written; gone after each measurement.
const NAME: &str = "shuffled";
/// The port of the one server that runs at a time.
const PORT: u16 = 20_503;

/// What all measurements of a run have in common.
#[derive(Clone, Debug)]
pub struct Common {
    /// Number of WRITEs in flight.
    pub depth: usize,
    /// Size of the written file in bytes.
    pub file_bytes: u64,
    /// Memory limit of the server's cgroup in bytes.
    pub memory_bytes: u64,
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
    /// Bytes, times and latencies as the load saw them, COMMIT included.
    pub outcome: Outcome,
    /// Extents of the file on its volume: pieces that are not next to each other.
    pub extents: u64,
    /// CPU seconds of the server, own code and kernel.
    pub cpu_seconds: f64,
}

/// Writes one file as `case` says, and compares some of it.
///
/// # Errors
/// The server does not start, answers wrongly, or wrote what nobody sent.
pub fn measure(common: &Common, volume: &Volume, case: Case, turn: usize) -> Result<Figures> {
    volume.settle()?;
    let cgroup = Cgroup::new(&format!("{}{turn}", common.cgroups), common.memory_bytes)?;
    let wrapper = cgroup.wrapper();
    let work = common.root.join(format!("server-{turn}"));
    let start = Start {
        name: &case.name(),
        program: Program::Penstock(Penstock {
            engine: Some(Engine::Uring),
            mode: Some(case.mode.word()),
            reserve: Some(case.ahead.reserves()),
            order: case.ahead.orders(),
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
    let job = Job {
        work: Work::Write64k,
        clients: 1,
        depth: common.depth,
        name: NAME.to_owned(),
        file_bytes: common.file_bytes,
        at_most: None,
        // The same order for everybody.
        seed: 0x5eed,
        shuffled: case.senders,
        data: volume.data,
        checked: Checked::Some,
    };
    let outcome = stream::run(&server.place, &job, &std::sync::atomic::AtomicU64::new(0));
    let cpu_seconds = counters::cpu_seconds(server.pid);
    drop(server);
    let file = volume.directory.join(NAME);
    let figures = outcome.and_then(|outcome| {
        read_back(&file, Work::Write64k, volume.data, outcome.bytes)?;
        Ok(Figures {
            outcome,
            extents: extents(&file)?,
            cpu_seconds: cpu_seconds?,
        })
    });
    if file.exists() {
        std::fs::remove_file(&file).with_context(|| file.display().to_string())?;
    }
    let _ = std::fs::remove_dir_all(work);
    figures
}

/// In how many pieces a file lies, by filefrag of e2fsprogs, which asks the file system (FIEMAP).
fn extents(file: &Path) -> Result<u64> {
    let said = output("filefrag", &[&file.display().to_string()])?;
    parse(&said).with_context(|| format!("filefrag said {said:?}"))
}

/// The number in `PATH: 12 extents found`.
fn parse(said: &str) -> Option<u64> {
    let (_, found) = said.rsplit_once(": ")?;
    let (number, rest) = found.split_once(' ')?;
    rest.starts_with("extent").then(|| number.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_extents_is_read() {
        assert_eq!(parse("/a: b/f: 1 extent found"), Some(1));
        assert_eq!(parse("/a/f: 1234 extents found\n"), Some(1234));
        assert_eq!(parse("/a/f: FIBMAP unsupported"), None);
        assert_eq!(parse(""), None);
    }
}
