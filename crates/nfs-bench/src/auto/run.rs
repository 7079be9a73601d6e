//! A whole run: every case in turn, several rounds.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::measure::{Common, Figures, measure};
use super::workload::{Sizes, Workload};
use crate::content::Data;
use crate::modes::contender::Mode;
use crate::modes::measure::make_file;
use crate::pin;
use crate::stage;
use crate::supervise::Setting;
use crate::turns::{Machine, Turns};
use crate::volume::Volume;
use nfs_load::spread::median;

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Size of the large files in bytes.
    pub file_bytes: u64,
    /// Memory limit of the server's cgroup in bytes.
    pub memory_bytes: u64,
    /// How long small calls are made in a measurement.
    pub random_for: Duration,
    /// Number of rounds: each case is measured once in every round.
    pub rounds: usize,
    /// Only cases whose name contains one of these.
    pub who: Vec<String>,
    /// Only the volume with this name.
    pub on: Option<String>,
    /// Contents of the files on the fast device.
    pub data: Data,
}

impl Options {
    /// Bytes of the fast device, if it is wanted: the files that are there, the one that is written, and room for
    /// the file system's own.
    pub fn fast_bytes(&self) -> Option<u64> {
        let wanted = self.on.as_deref().is_none_or(|on| on == "fast");
        wanted.then(|| 2 * self.file_bytes + 2 * self.memory_bytes + (1 << 30))
    }
}

/// How the server finds the mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// It is this one.
    Fixed(Mode),
    /// It chooses for itself.
    Auto,
}

impl Way {
    /// Every way, in the order of the report.
    pub const ALL: [Self; 4] = [
        Self::Fixed(Mode::Buffered),
        Self::Fixed(Mode::DontCache),
        Self::Fixed(Mode::Direct),
        Self::Auto,
    ];

    /// The word in the server's configuration.
    pub fn word(self) -> &'static str {
        match self {
            Self::Fixed(mode) => mode.word(),
            Self::Auto => "auto",
        }
    }
}

/// One workload, served in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Case {
    /// What is moved.
    pub workload: Workload,
    /// How the server finds the mode.
    pub way: Way,
}

impl Case {
    /// The case's name in messages.
    pub fn name(self) -> String {
        format!("{}, {}", self.workload.name(), self.way.word())
    }
}

/// All rounds of one case on one volume.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Name of the volume that the files are on.
    pub volume: &'static str,
    /// What was measured.
    pub case: Case,
    /// The figures of each round that succeeded.
    pub rounds: Vec<Figures>,
}

/// The machine and the settings of a run: a figure is worth something only beside them.
#[derive(Debug, Serialize)]
pub struct Header {
    /// The machine that the run took place on.
    #[serde(flatten)]
    pub machine: Machine,
    /// Name and description of each volume.
    pub volumes: Vec<(&'static str, String)>,
    /// Size of the large files in bytes.
    pub file_bytes: u64,
    /// Memory limit of the server's cgroup in bytes.
    pub memory_bytes: u64,
    /// Seconds for which small calls were made.
    pub random_seconds: f64,
    /// Number of rounds.
    pub rounds: usize,
    /// Length of the whole run in seconds.
    pub run_seconds: f64,
}

/// The result of a whole run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The machine and the settings of the run.
    pub header: Header,
    /// The measurements, one row for each case on each volume.
    pub rows: Vec<Row>,
    /// What could not be measured and why, one entry for each.
    pub missing: Vec<String>,
}

/// Measures all cases in all rounds; says what it is doing on standard error.
///
/// # Errors
/// Not started by [`crate::supervise::run_inside`], or the volumes cannot be made.
pub fn run(options: &Options) -> Result<Report> {
    let setting = Setting::ours()?;
    let mut turns = Turns::new();
    let machine = Machine::look()?;
    pin::pin_thread(machine.cores.0)?;
    let root = stage::set_network_and_run()?;
    let fast_at = root.join("fast");
    let fast = (setting.zram.as_deref(), &*fast_at, options.fast_bytes());
    let volumes = Volume::wanted(fast, &setting.disk, options.on.as_deref(), options.data)?;
    let common = Common {
        sizes: Sizes {
            large: options.file_bytes,
            memory: options.memory_bytes,
            random_for: options.random_for,
        },
        cgroups: setting.cgroups.clone(),
        root,
        cpu: machine.cores.1,
    };
    let mut rows = rows(&options.who, &volumes);
    if rows.is_empty() {
        bail!("nothing is left to measure: --who leaves nothing over");
    }
    for volume in &volumes {
        eprintln!("writing the files that are read to {}", volume.name);
        for (name, bytes) in common.sizes.files() {
            make_file(volume, name, bytes)?;
        }
    }
    for round in 1..=options.rounds {
        turns.round(round, options.rounds);
        for row in &mut rows {
            let volume = volumes.iter().find(|volume| volume.name == row.volume);
            let volume = volume.context("a row without a volume")?;
            let label = format!("{} {}", row.volume, row.case.name());
            let say = |figures: &Figures| {
                let (rate, p99) = (figures.mib_per_second(), figures.p99_us);
                format!("{rate:>9.1} MiB/s, p99 {p99:>8.0} us")
            };
            let figures = turns.take(&label, |turn| measure(&common, volume, row.case, turn), say);
            row.rounds.extend(figures);
        }
    }
    let described = volumes.iter();
    let header = Header {
        machine: turns.on(machine),
        volumes: described
            .map(|volume| (volume.name, volume.description.clone()))
            .collect(),
        file_bytes: options.file_bytes,
        memory_bytes: options.memory_bytes,
        random_seconds: options.random_for.as_secs_f64(),
        rounds: options.rounds,
        run_seconds: turns.seconds(),
    };
    Ok(Report {
        header,
        rows,
        missing: turns.missing,
    })
}

/// Every case on every volume, those that are compared next to each other in time.
fn rows(who: &[String], volumes: &[Volume]) -> Vec<Row> {
    let cases = Workload::ALL.into_iter().flat_map(|workload| {
        let of = move |way| Case { workload, way };
        Way::ALL.map(of)
    });
    let wanted = |case: &Case| {
        let name = case.name();
        who.is_empty() || who.iter().any(|who| name.contains(who))
    };
    let cases: Vec<Case> = cases.filter(wanted).collect();
    let on = |volume: &Volume| {
        let name = volume.name;
        cases.iter().map(move |&case| Row {
            volume: name,
            case,
            rounds: Vec::new(),
        })
    };
    volumes.iter().flat_map(on).collect()
}

impl Report {
    /// The middle of a figure of a case over the rounds; `None` if it was not measured.
    pub fn figure(&self, volume: &str, case: Case, figure: fn(&Figures) -> f64) -> Option<f64> {
        let row = self.row(volume, case)?;
        median(row.rounds.iter().map(figure))
    }

    /// The row of a case, if it is among those that were measured.
    pub fn row(&self, volume: &str, case: Case) -> Option<&Row> {
        let same = |row: &&Row| row.volume == volume && row.case == case;
        self.rows.iter().find(same)
    }

    /// A figure of every fixed mode at a workload, in ascending order; `None` unless all were measured.
    pub fn fixed(
        &self,
        volume: &str,
        workload: Workload,
        figure: fn(&Figures) -> f64,
    ) -> Option<[f64; Mode::ALL.len()]> {
        let of = |mode| {
            let way = Way::Fixed(mode);
            self.figure(volume, Case { workload, way }, figure)
        };
        let [one, two, three] = Mode::ALL.map(of);
        let mut figures = [one?, two?, three?];
        figures.sort_by(f64::total_cmp);
        Some(figures)
    }
}
