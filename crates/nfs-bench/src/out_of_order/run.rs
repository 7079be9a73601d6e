//! A whole run: every case in turn, several rounds.

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::measure::{Common, Figures, measure};
use crate::content::Data;
use crate::modes::contender::Mode;
use crate::pin;
use crate::stage;
use crate::supervise::Setting;
use crate::turns::{Machine, Turns};
use crate::volume::Volume;
use nfs_load::spread::median;

/// How many WRITEs that follow each other arrive in a random order: as if so many senders took turns.
pub const SENDERS: [u64; 5] = [1, 2, 4, 20, 64];

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Size of the written file in bytes.
    pub file_bytes: u64,
    /// Memory limit of the server's cgroup in bytes.
    pub memory_bytes: u64,
    /// Number of WRITEs in flight.
    pub depth: usize,
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
    /// Bytes of the fast device, if it is wanted: the file, and room for what is taken ahead of it.
    pub fn fast_bytes(&self) -> Option<u64> {
        let wanted = self.on.as_deref().is_none_or(|on| on == "fast");
        wanted.then(|| 2 * self.file_bytes + (1 << 30))
    }
}

/// What the server does about the order of WRITEs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ahead {
    /// Nothing: WRITEs go to the file as they come.
    Nothing,
    /// Space is taken ahead of the stream.
    Reserve,
    /// WRITEs that come out of order wait for those before them.
    Order,
    /// Both.
    Both,
}

impl Ahead {
    /// Every setting, in the order of the report.
    pub const ALL: [Self; 4] = [Self::Nothing, Self::Reserve, Self::Order, Self::Both];

    /// Whether space is taken ahead.
    pub fn reserves(self) -> bool {
        matches!(self, Self::Reserve | Self::Both)
    }

    /// Whether WRITEs wait for those before them.
    pub fn orders(self) -> bool {
        matches!(self, Self::Order | Self::Both)
    }

    /// The words behind the mode in a case's name.
    fn words(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Reserve => " reserve",
            Self::Order => " order",
            Self::Both => " reserve order",
        }
    }
}

/// One way of sending and serving the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Case {
    /// How the server moves bytes.
    pub mode: Mode,
    /// What the server does about the order.
    pub ahead: Ahead,
    /// How many WRITEs that follow each other arrive in a random order.
    pub senders: u64,
}

impl Case {
    /// The server's setting: what a line of a picture, or a column of a table, is of.
    pub fn setting(self) -> String {
        format!("{}{}", self.mode.word(), self.ahead.words())
    }

    /// The case's name in messages.
    pub fn name(self) -> String {
        format!("{}, k = {}", self.setting(), self.senders)
    }
}

/// All rounds of one case on one volume.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Name of the volume that the file is on.
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
    /// Size of the written file in bytes.
    pub file_bytes: u64,
    /// Memory limit of the server's cgroup in bytes.
    pub memory_bytes: u64,
    /// Number of WRITEs in flight.
    pub depth: usize,
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
    let cores = machine.cores;
    pin::pin_thread(cores.0)?;
    let root = stage::set_network_and_run()?;
    let fast_at = root.join("fast");
    let fast = (setting.zram.as_deref(), &*fast_at, options.fast_bytes());
    let volumes = Volume::wanted(fast, &setting.disk, options.on.as_deref(), options.data)?;
    let common = Common {
        depth: options.depth,
        file_bytes: options.file_bytes,
        memory_bytes: options.memory_bytes,
        cgroups: setting.cgroups.clone(),
        root,
        cpu: cores.1,
    };
    let mut rows = rows(&options.who, &volumes);
    if rows.is_empty() {
        bail!("nothing is left to measure: --who leaves nothing over");
    }
    for round in 1..=options.rounds {
        turns.round(round, options.rounds);
        for row in &mut rows {
            let volume = volumes.iter().find(|volume| volume.name == row.volume);
            let volume = volume.context("a row without a volume")?;
            let label = format!("{} {}", row.volume, row.case.name());
            let say = |figures: &Figures| {
                let rate = figures.outcome.mib_per_second();
                format!("{rate:>7.0} MiB/s {:>6} extents", figures.extents)
            };
            let figures = turns.take(&label, |turn| measure(&common, volume, row.case, turn), say);
            row.rounds.extend(figures);
        }
    }
    let header = Header {
        machine: turns.on(machine),
        volumes: volumes
            .iter()
            .map(|volume| (volume.name, volume.description.clone()))
            .collect(),
        file_bytes: options.file_bytes,
        memory_bytes: options.memory_bytes,
        depth: options.depth,
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
    let mut rows = Vec::new();
    for volume in volumes {
        for mode in Mode::ALL {
            for senders in SENDERS {
                for ahead in Ahead::ALL {
                    let case = Case {
                        mode,
                        ahead,
                        senders,
                    };
                    let name = case.name();
                    if who.is_empty() || who.iter().any(|who| name.contains(who)) {
                        rows.push(Row {
                            volume: volume.name,
                            case,
                            rounds: Vec::new(),
                        });
                    }
                }
            }
        }
    }
    rows
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
}

/// Throughput, COMMIT included, in MiB/s.
pub fn rate(figures: &Figures) -> f64 {
    figures.outcome.mib_per_second()
}

/// Extents of the written file.
pub fn extents(figures: &Figures) -> f64 {
    figures.extents as f64
}
