//! A whole run: who is measured on what, in which order, and what is done with the figures.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nfs_lab::Engine;
use serde::Serialize;

use super::contender::{Contender, Mode};
use super::count::{Count, count};
use super::measure::{self, Common, Figures};
use super::work::{Direction, Work};
use crate::content::Data;
use crate::pin;
use crate::servers::{WITHOUT_GANESHA, ganesha_is_installed};
use crate::stage::{self, output};
use crate::supervise::Setting;
use crate::turns::{Machine, Turns};
use crate::volume::Volume;
use nfs_load::spread::median;

/// What a run is about: which workloads and contenders it has where nothing else is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The I/O modes: all workloads, by everybody.
    Modes,
    /// A client that is alone with its file: sequential READs, one in flight, of our server.
    Alone,
    /// IOR's "hard" pattern: clients that take turns in one file with records that are aligned to nothing, and the
    /// same with aligned ones.
    IorHard,
}

/// Settings of a run of the mode comparison.
#[derive(Clone, Debug)]
pub struct Options {
    /// Size of the measured file in bytes.
    pub file_bytes: u64,
    /// Memory limit of the server's cgroup in bytes.
    pub memory_bytes: u64,
    /// Number of clients that move a file together, each over a connection of its own.
    pub clients: usize,
    /// Number of calls in flight on each connection.
    pub depth: usize,
    /// What the run is about.
    pub about: About,
    /// Whether our server takes space ahead of streams of WRITEs; its own choice if not given.
    pub reserve: Option<bool>,
    /// How long a measurement that is not random may send new calls; `None` lets it go through the whole
    /// file.
    pub at_most: Option<Duration>,
    /// How long a measurement with random READs lasts.
    pub random_for: Duration,
    /// Number of rounds: each row is measured once in every round.
    pub rounds: usize,
    /// Measure only workloads whose name contains this.
    pub filter: Option<String>,
    /// Only contenders whose name contains one of these.
    pub who: Vec<String>,
    /// Measure only the volume with this name.
    pub on: Option<String>,
    /// Contents of the files on the fast device.
    pub data: Data,
    /// Count system calls and copied bytes as well.
    pub count: bool,
    /// Whether to measure our server with the threads engine, too.
    pub threads: bool,
    /// Where unfs3 is, if not on the path.
    pub unfsd: Option<PathBuf>,
}

impl Options {
    /// Bytes of the fast device, if it is wanted: the file that is read, the file that is written, and room for
    /// the file system's own.
    pub fn fast_bytes(&self) -> Option<u64> {
        let wanted = self.on.as_deref().is_none_or(|on| on == "fast");
        wanted.then(|| 2 * self.file_bytes + (1 << 30))
    }
}

/// All rounds of one contender at one workload on one volume.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Name of the volume that the file is on.
    pub volume: &'static str,
    /// The workload that was measured.
    pub work: Work,
    /// The server, or local I/O, that was measured.
    pub contender: Contender,
    /// The figures of each round that succeeded.
    pub rounds: Vec<Figures>,
}

/// The machine, the versions and the settings of a run: a figure is worth something only beside them.
#[derive(Debug, Serialize)]
pub struct Header {
    /// The machine that the run took place on.
    #[serde(flatten)]
    pub machine: Machine,
    /// Name and description of each volume that was measured.
    pub volumes: Vec<(&'static str, String)>,
    /// Versions of fio and of the servers that ours is compared with.
    pub versions: Vec<String>,
    /// Size of the measured file in bytes.
    pub file_bytes: u64,
    /// Memory limit of the server's cgroup in bytes.
    pub memory_bytes: u64,
    /// Number of clients that moved a file together, each over a connection of its own.
    pub clients: usize,
    /// Number of calls in flight on each connection.
    pub depth: usize,
    /// Whether our server took space ahead of streams of WRITEs; `None` if that was its own choice.
    pub reserve: Option<bool>,
    /// Seconds after which a measurement that is not random sent no new calls, if there was such a limit.
    pub seconds_at_most: Option<f64>,
    /// Number of rounds: each row was measured once in every round.
    pub rounds: usize,
    /// Length of the whole run in seconds.
    pub run_seconds: f64,
}

/// The result of a whole run of the mode comparison.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The machine, the versions and the settings of the run.
    pub header: Header,
    /// The measurements, one row for each contender, workload and volume.
    pub rows: Vec<Row>,
    /// System calls and copied bytes of each server, if they were to be counted.
    pub counts: Vec<Count>,
    /// What could not be measured and why, one entry for each.
    pub missing: Vec<String>,
}

/// Measures all rows in all rounds; says what it is doing on standard error.
///
/// # Errors
/// Not started by [`crate::supervise::run_inside`], or the volumes cannot be made.
pub fn run(options: &Options) -> Result<Report> {
    let setting = Setting::ours()?;
    let mut turns = Turns::new().touching(options.file_bytes);
    let machine = Machine::look()?;
    let cores = machine.cores;
    pin::pin_thread(cores.0)?;
    let root = stage::set_network_and_run()?;
    let fast_at = root.join("fast");
    let fast = (setting.zram.as_deref(), &*fast_at, options.fast_bytes());
    let volumes = Volume::wanted(fast, &setting.disk, options.on.as_deref(), options.data)?;
    let unfsd = unfsd(options);
    let contenders = contenders(options, unfsd.is_some(), &mut turns.missing);
    let common = Common {
        clients: options.clients,
        reserve: options.reserve,
        depth: options.depth,
        file_bytes: options.file_bytes,
        memory_bytes: options.memory_bytes,
        at_most: options.at_most,
        random_for: options.random_for,
        cgroups: setting.cgroups.clone(),
        root,
        cpu: cores.1,
        unfsd,
    };
    let mut rows = rows(options, &volumes, &contenders);
    if rows.is_empty() {
        bail!("nothing is left to measure: --filter, --who and --on leave nothing over");
    }
    let reads = |row: &Row| row.work.direction() == Direction::Read;
    for volume in volumes.iter().filter(|_| rows.iter().any(reads)) {
        eprintln!("writing the file that is read to {}", volume.name);
        measure::make_read_file(volume, options.file_bytes)?;
    }
    for round in 1..=options.rounds {
        turns.round(round, options.rounds);
        for row in &mut rows {
            one(&common, &volumes, row, &mut turns)?;
        }
    }
    let counts = match volumes.first() {
        Some(volume) if options.count => counts(&common, volume, &rows, &mut turns),
        _ => Vec::new(),
    };
    let header = Header {
        machine: turns.on(machine),
        volumes: volumes
            .iter()
            .map(|volume| (volume.name, volume.description.clone()))
            .collect(),
        versions: versions(),
        file_bytes: options.file_bytes,
        memory_bytes: options.memory_bytes,
        clients: options.clients,
        depth: options.depth,
        reserve: options.reserve,
        seconds_at_most: options.at_most.map(|most| most.as_secs_f64()),
        rounds: options.rounds,
        run_seconds: turns.seconds(),
    };
    Ok(Report {
        header,
        rows,
        counts,
        missing: turns.missing,
    })
}

fn one(common: &Common, volumes: &[Volume], row: &mut Row, turns: &mut Turns) -> Result<()> {
    let label = format!(
        "{} {}, {}",
        row.volume,
        row.work.name(),
        row.contender.name()
    );
    let volume = volumes
        .iter()
        .find(|volume| volume.name == row.volume)
        .context("a row without a volume")?;
    let say = |figures: &Figures| {
        let (rate, cpu) = (figures.outcome.mib_per_second(), figures.cpu_per_gib());
        format!("{rate:>7.0} MiB/s {cpu:>6.2} CPU s/GiB")
    };
    let measure = |turn| measure::measure(common, volume, row.work, row.contender, turn);
    let figures = turns.take(&label, measure, say);
    row.rounds.extend(figures);
    Ok(())
}

/// Counts what was measured on the first volume, except at random places and locally.
fn counts(common: &Common, volume: &Volume, rows: &[Row], turns: &mut Turns) -> Vec<Count> {
    let mut counts = Vec::new();
    let servers = rows.iter().filter(|row| {
        let serves = row.contender.is_peer() || row.contender.mode().is_some();
        serves && row.volume == volume.name && !row.work.is_random()
    });
    for (index, row) in servers.enumerate() {
        let label = format!("{}, {}", row.work.name(), row.contender.name());
        eprintln!("counting {label}");
        let turn = turns.taken() + 1 + index;
        match count(common, volume, row.work, row.contender, turn) {
            Ok(counted) => counts.push(counted),
            Err(error) => turns.missing.push(format!("counts of {label}: {error:#}")),
        }
    }
    counts
}

fn unfsd(options: &Options) -> Option<PathBuf> {
    match &options.unfsd {
        Some(given) => Some(given.clone()),
        None => output("which", &["unfsd"]).ok().map(PathBuf::from),
    }
}

/// Everybody who takes part, in the order in which they take turns: each of ours has a peer or local I/O near
/// it in time.
fn contenders(options: &Options, unfs3: bool, missing: &mut Vec<String>) -> Vec<Contender> {
    let ours = |engine| Mode::ALL.map(|mode| Contender::Penstock(engine, mode));
    let mut all = ours(Engine::Uring).to_vec();
    all.push(match options.about {
        About::Alone => Contender::NothingAhead,
        About::Modes | About::IorHard => Contender::Staged,
    });
    if options.threads {
        all.extend(ours(Engine::Threads));
    }
    if ganesha_is_installed() {
        all.push(Contender::Ganesha);
    } else {
        missing.push(WITHOUT_GANESHA.to_owned());
    }
    if unfs3 {
        all.push(Contender::Unfs3);
    } else {
        missing.push("unfs3: there is no unfsd on the path, and --unfsd was not given".to_owned());
    }
    if options.about != About::IorHard {
        if output("fio", &["--version"]).is_ok() {
            all.extend([true, false].map(|direct| Contender::Fio { direct }));
        } else {
            missing.push("local fio: install fio".to_owned());
        }
        all.extend([true, false].map(|direct| Contender::Plain { direct }));
        all.push(Contender::Responder);
    }
    if options.about == About::Alone && options.who.is_empty() {
        all.retain(|contender| contender.mode().is_some());
        missing.clear();
    }
    let named = |contender: &Contender| {
        let name = contender.name();
        options.who.is_empty() || options.who.iter().any(|who| name.contains(who))
    };
    all.retain(named);
    all
}

fn rows(options: &Options, volumes: &[Volume], contenders: &[Contender]) -> Vec<Row> {
    let wanted = |work: &Work| match (options.filter.as_deref(), options.about) {
        (Some(filter), _) => work.name().contains(filter),
        (None, About::Modes) => true,
        (None, About::Alone) => [Work::SeqRead1m, Work::SeqRead128k].contains(work),
        (None, About::IorHard) => [Work::Write48k, Work::Write47008].contains(work),
    };
    let mut rows = Vec::new();
    for (at, volume) in volumes.iter().enumerate() {
        for work in Work::ALL.into_iter().filter(wanted) {
            for &contender in contenders {
                let makes_sense = match contender {
                    // Direct I/O at odd offsets is refused; that ours can do it is the point.
                    Contender::Fio { direct: true } | Contender::Plain { direct: true } => {
                        work.is_aligned()
                    }
                    // Nothing of other calls is staged.
                    Contender::Staged => work.direction() == Direction::Write && !work.is_aligned(),
                    // Aligned records are the limit for the others, which ours sets itself.
                    _ if options.about == About::IorHard && work.is_aligned() => {
                        contender == Contender::Penstock(Engine::Uring, Mode::Direct)
                    }
                    // It touches no volume, so once is enough.
                    Contender::Responder => at == 0,
                    _ => true,
                };
                if makes_sense {
                    rows.push(Row {
                        volume: volume.name,
                        work,
                        contender,
                        rounds: Vec::new(),
                    });
                }
            }
        }
    }
    rows
}

fn versions() -> Vec<String> {
    let fio = output("fio", &["--version"]).ok();
    let ganesha = output(
        "dpkg-query",
        &["-W", "-f=ganesha ${Version}", "nfs-ganesha"],
    )
    .ok();
    fio.into_iter().chain(ganesha).collect()
}

impl Report {
    /// The row of a contender, if it was measured.
    pub fn row(&self, volume: &str, work: Work, contender: Contender) -> Option<&Row> {
        let same =
            |row: &&Row| row.volume == volume && row.work == work && row.contender == contender;
        self.rows
            .iter()
            .find(same)
            .filter(|row| !row.rounds.is_empty())
    }

    /// A contender's median rate over the rounds, in the unit of [`Figures::rate`]; `None` if it was not
    /// measured.
    pub fn rate(&self, volume: &str, work: Work, contender: Contender) -> Option<f64> {
        let row = self.row(volume, work, contender)?;
        Some(row.median(Figures::rate(work)))
    }

    /// The rate of the peer that is best at this.
    pub fn best_peer(&self, volume: &str, work: Work) -> Option<f64> {
        [Contender::Ganesha, Contender::Unfs3]
            .into_iter()
            .filter_map(|peer| self.rate(volume, work, peer))
            .max_by(f64::total_cmp)
    }

    /// Rows of a workload whose runs over time can be drawn.
    pub fn drawn(&self, volume: &str, work: Work) -> Vec<&Row> {
        let has_points = |row: &&Row| {
            row.volume == volume
                && row.work == work
                && row.contender != Contender::Responder
                && row.rounds.iter().any(|figures| figures.points.len() > 1)
        };
        self.rows.iter().filter(has_points).collect()
    }
}

impl Row {
    /// The middle of a figure over the rounds; zero without any.
    pub fn median(&self, figure: fn(&Figures) -> f64) -> f64 {
        median(self.rounds.iter().map(figure)).unwrap_or_default()
    }
}
