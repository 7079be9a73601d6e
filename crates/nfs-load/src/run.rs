//! A run: everybody is started, everything is measured in turn, and a report is made of it.
//!
//! The targets take turns at each step, and the steps are gone through as often as there are repetitions (A B A B), so
//! that what changes on the machine meanwhile changes for all of them. The first time is thrown away.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nfs_client::{MountOptions, NfsUrl};
use rustix::fs::Advice;

use crate::environment::Environment;
use crate::error::LoadError;
use crate::limits;
use crate::load::{self, Amount, Around, Load, Name, Work};
use crate::noise::Noise;
use crate::pace::Stop;
use crate::place::{Place, Stable};
use crate::report::{Ceiling, FORMAT, Report, Row, answer};
use crate::respond::{self, Answers};
use crate::sample::Sample;
use crate::target::{Scratch, Setup, Standing, Target, at};
use crate::workload::{After, Before, Settings, Step, Workload};

/// How long the generator is measured against the responder, at each step.
const CEILING_FOR: Duration = Duration::from_millis(500);

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The workload.
    pub workload: Workload,
    /// Its numbers.
    pub settings: Settings,
    /// Whom.
    pub targets: Vec<Target>,
    /// How often, without the first time.
    pub repetitions: u32,
    /// Where files of this host go: a directory of the run's own is made in it.
    pub directory: PathBuf,
    /// The program of this project.
    pub program: PathBuf,
    /// How servers are mounted.
    pub options: MountOptions,
    /// The command that repeats the run.
    pub command: String,
    /// When the run begins, RFC 3339.
    pub began: String,
    /// Version of the program.
    pub version: String,
}

/// How far a run is.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// A target is started, or its files are made.
    Preparing(&'a str),
    /// A measurement begins: its number, and how many there will be.
    Measuring {
        /// Name of the step of the workload.
        step: &'a str,
        /// Name of the server or file system that is measured.
        target: &'a str,
        /// How many were before it.
        done: usize,
        /// How many there are.
        all: usize,
    },
    /// A target failed at a step, which is left out from then on.
    Failed {
        /// Name of the step of the workload.
        step: &'a str,
        /// Name of the server or file system that is measured.
        target: &'a str,
        /// The reason for which it failed.
        error: &'a LoadError,
    },
}

/// Carries a plan out. `tell` is told how far it is.
///
/// # Errors
/// A target cannot be started, nothing could be measured, or the run was told to stop.
pub fn run(plan: &Plan, stop: &Stop, tell: &mut dyn FnMut(Event<'_>)) -> Result<Report, LoadError> {
    let started = Instant::now();
    plan.check()?;
    let steps = plan.workload.steps(&plan.settings)?;
    let is_here = plan.targets.iter().any(Target::is_here);
    let around = Around {
        noise: Noise::new(longest(plan)),
        stop: stop.clone(),
    };
    let environment = Environment::look(is_here.then_some(plan.directory.as_path()));
    let scratch = is_here.then(|| Scratch::new(&plan.directory)).transpose()?;
    let fallback = std::env::temp_dir();
    let setup = Setup {
        program: &plan.program,
        scratch: scratch.as_ref().map_or(&fallback, |scratch| scratch.path()),
        options: &plan.options,
    };
    let mut standing = Vec::new();
    for target in &plan.targets {
        tell(Event::Preparing(&target.name()));
        let one = Standing::start(target, &setup)?;
        make_files(plan, &one, &around)?;
        standing.push(one);
    }
    let mut measured = Measured::new(&steps, &standing, plan.repetitions + 1);
    for round in 0..=plan.repetitions {
        measured.round(round, &around, tell)?;
    }
    let (rows, missing) = measured.rows()?;
    for one in &mut standing {
        one.clean()?;
    }
    tell(Event::Preparing("the generator's own ceiling"));
    let ceiling = ceiling(&steps, plan, &around)?;
    let mut report = Report {
        format: FORMAT,
        workload: plan.workload,
        question: plan.workload.question().to_owned(),
        answer: String::new(),
        began: plan.began.clone(),
        run_seconds: started.elapsed().as_secs_f64(),
        command: plan.command.clone(),
        version: plan.version.clone(),
        settings: plan.settings.clone(),
        repetitions: plan.repetitions,
        environment,
        rows,
        ceiling,
        missing,
    };
    report.answer = answer::answer(&report);
    Ok(report)
}

impl Plan {
    /// Whether the plan can be carried out, as far as that can be told without doing it.
    ///
    /// # Errors
    /// A number is out of its range, or there is no room for the files.
    pub fn check(&self) -> Result<(), LoadError> {
        self.workload.steps(&self.settings)?;
        check(self)
    }
}

fn check(plan: &Plan) -> Result<(), LoadError> {
    let refused = |text: String| Err(LoadError::Setting(text));
    if plan.targets.is_empty() || plan.targets.len() > limits::TARGETS_MAX {
        return refused(format!("name 1 to {} targets", limits::TARGETS_MAX));
    }
    if !(1..=limits::REPETITIONS_MAX).contains(&plan.repetitions) {
        return refused(format!(
            "--repetitions: give 1 to {}",
            limits::REPETITIONS_MAX
        ));
    }
    let here = plan
        .targets
        .iter()
        .filter(|target| target.is_here())
        .count() as u64;
    if here > 0 {
        let needed = plan
            .workload
            .bytes_needed(&plan.settings)
            .saturating_mul(here);
        let path = &plan.directory;
        let room =
            rustix::fs::statvfs(path).map_err(|error| LoadError::local(path)(error.into()))?;
        let free = room.f_bavail.saturating_mul(room.f_frsize);
        // As much again stays free for whoever else uses the file system.
        if free < needed.saturating_mul(2) {
            return Err(LoadError::NoRoom {
                path: path.clone(),
                free,
                needed,
            });
        }
    }
    Ok(())
}

/// The longest piece of noise that is asked for at once.
fn longest(plan: &Plan) -> usize {
    let record = plan.settings.record_bytes.max(limits::PIECE_BYTES_MAX);
    let record = match plan.workload {
        Workload::Iozone => limits::RECORD_BYTES_MAX,
        _ => record,
    };
    usize::try_from(record).unwrap_or(usize::MAX)
}

/// Writes the files that a workload finds, through the target.
fn make_files(plan: &Plan, standing: &Standing, around: &Around) -> Result<(), LoadError> {
    let Some((file, records)) = plan.workload.files(&plan.settings) else {
        return Ok(());
    };
    let load = Load {
        work: Work::Write {
            file,
            records,
            stable: Stable::AtTheEnd,
            is_new: true,
        },
        connections: 1,
        depth: 8,
        rate: None,
        amount: Amount::Once,
    };
    load::run(&standing.place, &load, None, around, || None).map(drop)
}

/// The measurements of a run so far.
struct Measured<'a> {
    steps: &'a [Step],
    standing: &'a [Standing],
    rounds: u32,
    done: usize,
    /// For each step and target its samples, and those of what goes on beside it; or why there are none.
    cells: Vec<Result<Cell, LoadError>>,
}

#[derive(Debug, Default)]
struct Cell {
    own: Vec<Sample>,
    beside: Vec<Sample>,
}

impl<'a> Measured<'a> {
    fn new(steps: &'a [Step], standing: &'a [Standing], rounds: u32) -> Self {
        let cells = steps.len() * standing.len();
        Self {
            steps,
            standing,
            rounds,
            done: 0,
            cells: (0..cells).map(|_| Ok(Cell::default())).collect(),
        }
    }

    fn round(
        &mut self,
        round: u32,
        around: &Around,
        tell: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), LoadError> {
        let all = self.cells.len() * usize::try_from(self.rounds).unwrap_or(usize::MAX);
        let both = self
            .steps
            .iter()
            .flat_map(|step| self.standing.iter().map(move |one| (step, one)));
        for ((step, target), cell) in both.zip(&mut self.cells) {
            tell(Event::Measuring {
                step: &step.name,
                target: &target.name,
                done: self.done,
                all,
            });
            self.done += 1;
            let Ok(found) = cell else { continue };
            match measure(step, target, around) {
                Ok((own, beside)) if round > 0 => {
                    found.own.push(own);
                    found.beside.extend(beside);
                }
                Ok(_warm_up) => {}
                Err(LoadError::Interrupted) => return Err(LoadError::Interrupted),
                Err(error) => {
                    tell(Event::Failed {
                        step: &step.name,
                        target: &target.name,
                        error: &error,
                    });
                    *cell = Err(error);
                }
            }
        }
        Ok(())
    }

    /// The rows of the report, and what is missing in it.
    fn rows(self) -> Result<(Vec<Row>, Vec<String>), LoadError> {
        let (mut rows, mut besides, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        let mut first = None;
        let both = self
            .steps
            .iter()
            .flat_map(|step| self.standing.iter().map(move |one| (step, one)));
        for ((step, target), cell) in both.zip(self.cells) {
            match cell {
                Ok(cell) => {
                    rows.extend(Row::new(&step.name, &target.name, step.unit, cell.own));
                    if let Some((name, load)) = &step.beside {
                        let unit = unit_of(load);
                        besides.extend(Row::new(name, &target.name, unit, cell.beside));
                    }
                }
                Err(error) => {
                    missing.push(format!("{}, {}: {error}", step.name, target.name));
                    first.get_or_insert(error);
                }
            }
        }
        match first {
            Some(error) if rows.is_empty() => Err(error),
            _ => {
                rows.extend(besides);
                Ok((rows, missing))
            }
        }
    }
}

const fn unit_of(load: &Load) -> crate::workload::Unit {
    match load.work {
        Work::Read { .. } | Work::Write { .. } => crate::workload::Unit::Mib,
        _ => crate::workload::Unit::Calls,
    }
}

fn measure(
    step: &Step,
    target: &Standing,
    around: &Around,
) -> Result<(Sample, Option<Sample>), LoadError> {
    match &step.before {
        None => {}
        Some(Before::Cold(name)) => {
            if let Some(directory) = &target.backing {
                make_cold(directory, name, &step.load)?;
            }
        }
        Some(Before::Directory(name)) => {
            at(&target.place, async |session| {
                session.make_directory(name).await
            })?;
        }
    }
    let beside = step.beside.as_ref().map(|(_, load)| load);
    let done = load::run(&target.place, &step.load, beside, around, || {
        target.cpu_seconds()
    });
    let removed = match &step.after {
        None => Ok(()),
        Some(After::Directory(name)) => at(&target.place, async |session| {
            session.remove_tree(name).await
        }),
        Some(After::File(name)) => at(&target.place, async |session| {
            for name in names(name, &step.load) {
                session.remove(&name).await?;
            }
            Ok(())
        }),
    };
    let done = done?;
    removed?;
    Ok(done)
}

fn names(name: &Name, load: &Load) -> Vec<String> {
    match name {
        Name::Shared(name) => vec![name.clone()],
        Name::Own(_) => (0..load.connections).map(|one| name.of(one)).collect(),
    }
}

/// Takes a file out of this host's page cache.
fn make_cold(directory: &Path, name: &Name, load: &Load) -> Result<(), LoadError> {
    for name in names(name, load) {
        let path = directory.join(name);
        let file = File::open(&path).map_err(LoadError::local(&path))?;
        file.sync_all().map_err(LoadError::local(&path))?;
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)
            .map_err(|error| LoadError::local(&path)(error.into()))?;
    }
    Ok(())
}

/// What the generator does against a responder in this process that touches no file, for each step that it can answer.
fn ceiling(steps: &[Step], plan: &Plan, around: &Around) -> Result<Vec<Ceiling>, LoadError> {
    if !plan
        .targets
        .iter()
        .any(|target| !matches!(target, Target::Local(_)))
    {
        return Ok(Vec::new());
    }
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listener = listen().map_err(LoadError::system("listen on loopback"))?;
    let address = listener
        .local_addr()
        .map_err(LoadError::system("listen on loopback"))?;
    let answers = Answers {
        file_bytes: plan.settings.size_bytes.max(1 << 20),
        delay: Duration::ZERO,
        copied: false,
    };
    // It ends with the process: connections that are closed end its threads.
    std::thread::spawn(move || respond::accept(&listener, answers));
    let url = NfsUrl {
        host: address.ip().to_string(),
        port: Some(address.port()),
        mount_port: Some(address.port()),
        path: respond::EXPORT.as_bytes().to_vec(),
        ..NfsUrl::default()
    };
    let place = Place::Nfs {
        url,
        options: plan.options.clone(),
    };
    let mut found = Vec::new();
    for step in steps {
        let Some(load) = answerable(&step.load) else {
            continue;
        };
        let (sample, _) = load::run(&place, &load, None, around, || None)?;
        found.push(Ceiling {
            step: step.name.clone(),
            sample,
        });
    }
    Ok(found)
}

/// The load as the responder can answer it: its files have no contents, and its directories no names.
fn answerable(load: &Load) -> Option<Load> {
    let mut load = load.clone();
    load.amount = Amount::For(CEILING_FOR);
    load.rate = None;
    match &mut load.work {
        Work::Read { is_checked, .. } => *is_checked = false,
        Work::Write { .. } => {}
        Work::Create(names) | Work::Stat(names) | Work::Rename(names) | Work::Remove(names) => {
            "directory".clone_into(&mut names.directory);
        }
        Work::List(_) | Work::Small { .. } => return None,
    }
    Some(load)
}
