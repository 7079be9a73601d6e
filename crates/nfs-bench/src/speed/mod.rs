//! The speed that the project asks of itself: each bar of its list, measured in turn in one run, and the page of it.
//!
//! What moves data is measured by `penstock bench` and by anybody who likes; small calls by the prepared calls of
//! [`crate::baseline`], because the client library is slower at them than the server. Files lie on XFS in memory, which
//! takes direct I/O and is no disk, but where a line says "on the disk".

mod copies;
mod data;
mod lines;
mod list;
mod mounts;
mod page;
mod values;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use nfs_load::cores;
use nfs_load::report::Report;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::baseline;
use crate::baseline::run::Kind;
use crate::content::Data;
use crate::limits;
use crate::product::{self, Asked};
use crate::stage::{anew, output, set_network};
use crate::supervise::Setting;
use crate::volume::{Volume, xfs_in_a_file};
use list::{CALLS, IDLE, On, RUNS, Run};
use values::Value;

/// Bytes of the file system in memory: `penstock bench` wants twice what its files take.
pub const FAST_BYTES: u64 = 16 << 30;
/// Where the page of all runs is kept.
const OUT: &str = "docs/results/speed";
/// Connections that a run with idle ones has beside them, at most.
const BUSY_CONNECTIONS: u64 = 300;
/// Bytes of the XFS in a file on the disk, which the files of its runs take twice over as well.
const XFS_BYTES: u64 = 4 << 30;
/// The name of the prepared calls in `--only`.
const CALLS_NAME: &str = "calls";
/// The runs that are not of `penstock bench`.
const PREPARED: [&str; 4] = [CALLS_NAME, data::NAME, copies::NAME, mounts::NAME];

/// What a run is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the page and its figures go.
    pub out: PathBuf,
    /// Only these runs, and the lines that are made of them; all if there are none.
    pub only: Vec<String>,
    /// Measurements of each figure.
    pub rounds: usize,
}

/// Everything that was measured, as the page's JSON has it.
#[derive(Debug, Default, Serialize)]
struct Measured {
    /// The lines of the page.
    lines: Vec<Value>,
    /// The prepared calls.
    calls: Option<baseline::report::Report>,
    /// The prepared calls that move much data.
    data: Option<data::Data>,
    /// Copies by clients.
    copies: Option<copies::Copies>,
    /// Copies through a mount.
    mounts: Option<mounts::Mounts>,
    /// The reports of `penstock bench`, by the name of the run.
    reports: BTreeMap<&'static str, Report>,
    /// The words of each of these runs, but for where files and reports go.
    commands: BTreeMap<&'static str, String>,
    /// Measurements of each figure.
    rounds: usize,
    /// Length of the whole in seconds.
    seconds: f64,
}

impl Options {
    /// The options of a run, whose page goes to `out`, or where the committed one is: a page of some runs only would take
    /// the whole one's place there.
    ///
    /// # Errors
    /// A run is named that there is not, or some are and no place for their page.
    pub fn new(out: Option<PathBuf>, only: Vec<String>, rounds: usize) -> Result<Self> {
        if !only.is_empty() && out.is_none() {
            bail!(
                "--only: name a directory for the page of these runs (--out DIR): {OUT} has that of all of them"
            );
        }
        let out = out.unwrap_or_else(|| PathBuf::from(OUT));
        let options = Self { out, only, rounds };
        options.check().map(|()| options)
    }

    fn check(&self) -> Result<()> {
        let is_prepared = |name: &str| PREPARED.contains(&name);
        let is_known = |name: &str| is_prepared(name) || RUNS.iter().any(|run| run.name == name);
        match self.only.iter().find(|name| !is_known(name)) {
            None => Ok(()),
            Some(name) => {
                let names = RUNS.iter().map(|run| run.name);
                let names: Vec<&str> = PREPARED.into_iter().chain(names).collect();
                bail!("no run is called {name}: there are {}", names.join(", "))
            }
        }
    }

    /// Whether a run is made.
    fn has(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }
}

/// Measures, and writes the page.
///
/// # Errors
/// Not started by [`crate::supervise::run_inside`], the file system cannot be made, or the page not be written.
pub fn run(options: &Options) -> Result<()> {
    let started = std::time::Instant::now();
    let setting = Setting::ours()?;
    set_network()?;
    let (memory, disk) = (setting.disk.join("memory"), setting.disk.join("disk"));
    for directory in [&memory, &disk] {
        std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    }
    let data = match options.has(data::NAME) {
        true => Some(data::measure(&disk.join("data"), options.rounds)?),
        false => None,
    };
    let copies = match options.has(copies::NAME) {
        true => Some(copies::measure(&disk, options.rounds)?),
        false => None,
    };
    let size = format!("size={FAST_BYTES}");
    output(
        "mount",
        &[
            "-t",
            "tmpfs",
            "-o",
            &size,
            "tmpfs",
            &memory.display().to_string(),
        ],
    )?;
    let mounts = options
        .has(mounts::NAME)
        .then(|| mounts::measure(&memory.join("mounts"), options.rounds));
    let zram = setting.zram.as_deref();
    let fast = Volume::fast(zram, &memory.join("fast"), FAST_BYTES, Data::Noise)?;
    let xfs = disk.join("xfs");
    let is_wanted = |run: &&Run| run.on == On::XfsOnDisk && options.has(run.name);
    if RUNS.iter().any(|run| is_wanted(&run)) {
        xfs_in_a_file(&xfs, XFS_BYTES)?;
    }
    let calls = match options.has(CALLS_NAME) {
        true => Some(calls(options, &fast.directory.join("calls"))?),
        false => None,
    };
    let has_peer = product::has_peer();
    let (mut reports, mut commands) = (BTreeMap::new(), BTreeMap::new());
    for run in RUNS.iter().filter(|run| options.has(run.name)) {
        fast.settle()?;
        let directory = match run.on {
            On::Memory => &fast.directory,
            On::Disk => &disk,
            On::XfsOnDisk => &xfs,
        };
        let out = setting.disk.join("reports").join(run.name);
        let (words, report) = bench(run, options, has_peer, (directory, &out))?;
        commands.insert(run.name, words);
        reports.extend(report.map(|report| (run.name, report)));
    }
    let mut measured = Measured {
        lines: Vec::new(),
        calls,
        data,
        copies,
        mounts,
        reports,
        commands,
        rounds: options.rounds,
        seconds: started.elapsed().as_secs_f64(),
    };
    measured.lines = values::all(&measured);
    write(&options.out, &measured, &fast.description)
}

impl Measured {
    /// The reports, in the order in which they were made.
    fn in_order(&self) -> impl Iterator<Item = (&'static Run, &Report)> {
        let found = |run: &'static Run| Some((run, self.reports.get(run.name)?));
        RUNS.iter().filter_map(found)
    }
}

/// A run of this program as anybody would start it, with these words: what it writes as JSON, to this file.
fn by_this_program<T: DeserializeOwned>(words: &[String], json: &Path) -> Result<T> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(words).arg("--json").arg(json);
    let status = cores::tell(anew(&mut command)).status()?;
    ensure!(status.success(), "{}: {status}", words.join(" "));
    let text = std::fs::read_to_string(json).with_context(|| json.display().to_string())?;
    Ok(serde_json::from_str(&text)?)
}

/// Whether this is what was written to JSON there.
fn is(written: &serde_json::Value, what: impl Serialize) -> bool {
    serde_json::to_value(what).is_ok_and(|what| *written == what)
}

/// The prepared calls, ours, Ganesha's and against the responder.
fn calls(options: &Options, directory: &Path) -> Result<baseline::report::Report> {
    std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    baseline::run::run(&baseline::run::Options {
        seconds: 1.0,
        rounds: options.rounds,
        directory: Some(directory.to_owned()),
        quick: true,
        servers: vec![
            Kind::PenstockUring,
            Kind::PenstockPolling,
            Kind::Ganesha,
            Kind::Responder,
            Kind::ResponderPolling,
            Kind::Plain,
        ],
        filter: None,
        workloads: CALLS.to_vec(),
    })
}

/// One run of `penstock bench`, and its command.
fn bench(
    run: &Run,
    options: &Options,
    has_peer: bool,
    (directory, out): (&Path, &Path),
) -> Result<(String, Option<Report>)> {
    eprintln!("{}: {}", run.name, run.workload);
    let repetitions = format!("--repetitions={}", options.rounds);
    // Our server gives one host an eighth of its descriptors. Servers inherit what this process may have.
    let wanted = (limits::IDLE_CONNECTIONS_MAX + BUSY_CONNECTIONS) * 8;
    let idle = (nfs_io::fs::raise_nofile(wanted) / 8).saturating_sub(BUSY_CONNECTIONS);
    let idle = format!("{IDLE}={}", idle.min(limits::IDLE_CONNECTIONS_MAX));
    let words = run.options.iter().map(|word| match *word {
        IDLE => idle.as_str(),
        word => word,
    });
    let words: Vec<&str> = words.chain([repetitions.as_str()]).collect();
    let asked = Asked {
        workload: run.workload,
        options: &words,
        has_peer,
        directory,
        out,
    };
    let report = asked.measure()?;
    Ok((
        format!("penstock bench {}", asked.words().join(" ")),
        report,
    ))
}

fn write(out: &Path, measured: &Measured, file_system: &str) -> Result<()> {
    std::fs::create_dir_all(out).with_context(|| out.display().to_string())?;
    let files = [
        (
            "speed.json",
            format!("{}\n", serde_json::to_string(measured)?),
        ),
        ("README.md", page::markdown(measured, file_system)),
    ];
    for (name, text) in files {
        let path = out.join(name);
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_some_runs_takes_the_place_of_the_whole_one_only_where_that_is_said() {
        let options = |out: Option<&str>, only: &[&str]| {
            let only = only.iter().copied().map(str::to_owned).collect();
            Options::new(out.map(PathBuf::from), only, 1)
        };
        assert_eq!(options(None, &[]).unwrap().out, Path::new(OUT));
        let refused = options(None, &["names"]).unwrap_err().to_string();
        assert!(refused.contains("--out"), "{refused}");
        let named = options(Some("/tmp/page"), &["names"]).unwrap();
        assert!(named.out == Path::new("/tmp/page") && named.has("names") && !named.has("read"));
        let unknown = options(Some("/tmp/page"), &["nothing"]).unwrap_err();
        assert!(unknown.to_string().contains("names"), "{unknown}");
    }
}
