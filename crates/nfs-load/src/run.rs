//! A run: everybody is started, everything is measured in turn, and a report is made of it.
//!
//! The targets take turns at each step, and the steps are gone through as often as there are repetitions (A B A B), so
//! that what changes on the machine meanwhile changes for all of them. The first time is thrown away. Where measurements
//! were taken while the machine's cores were far apart ([`cores`](crate::cores)), there are further times, at most as many
//! again, and those are used last.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nfs_client::MountOptions;
use nfs_io::{BusyPoll, usage};
use rustix::fs::Advice;

use crate::cgroup;
use crate::cores::Cores;
use crate::environment::{Environment, FileSystem};
use crate::error::LoadError;
use crate::idle::Idle;
use crate::limits;
use crate::load::{self, Amount, Around, Load, Name, Watched, Work};
use crate::noise::Noise;
use crate::pace::Stop;
use crate::place::{Stable, Way};
use crate::report::{Ceiling, FORMAT, IdleMemory, Report, Row, answer};
use crate::sample::Sample;
use crate::series::Series;
use crate::target::{Scratch, Setup, Standing, Target, at, responder};
use crate::touch::touch;
use crate::watch::Watch;
use crate::workload::{After, Before, Settings, Step, Workload};

/// Of the idle connections this part is open before the memory of a server is looked at first.
const FIRST_IDLE_DIVISOR: usize = 4;
/// Calls that the server has answered before its memory is looked at: what it keeps of the last calls, however many
/// connections there are, is there by then.
const CALLS_BEFORE_IDLE: usize = 1 << 14;
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
    /// Memory of each server that is started for the run, in bytes; `None` for all there is.
    pub memory_bytes: Option<u64>,
    /// When the run begins, RFC 3339.
    pub began: String,
    /// Version of the program.
    pub version: String,
    /// The commit that it was built from, if whoever built it told.
    pub commit: Option<String>,
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
    let mut cores = Cores::choose();
    let is_here = plan.targets.iter().any(Target::is_here);
    let around = Around {
        noise: Noise::new(longest(plan)),
        stop: stop.clone(),
        busy_poll: BusyPoll::of_microseconds(plan.settings.busy_poll_us),
    };
    let mut environment = Environment::look(is_here.then_some(plan.directory.as_path()));
    environment.server_memory_bytes = plan.memory_bytes;
    environment.peers = plan.peers()?;
    environment.mounts = plan.mounts();
    let scratch = is_here.then(|| Scratch::new(&plan.directory)).transpose()?;
    if plan.memory_bytes.is_some() {
        cgroup::sweep();
    }
    let fallback = std::env::temp_dir();
    let setup = Setup {
        program: &plan.program,
        scratch: scratch.as_ref().map_or(&fallback, |scratch| scratch.path()),
        options: &plan.options,
        memory_bytes: plan.memory_bytes,
    };
    let mut standing = Vec::new();
    for target in &plan.targets {
        tell(Event::Preparing(&target.name()));
        let one = Standing::start(target, &setup)?;
        make_files(plan, &one, &around).inspect_err(|error| one.note(error))?;
        standing.push(one);
    }
    let (idle, mut lacking) = idle_memory(plan.settings.idle, &standing, tell);
    // One target has its turn at a time.
    let used = plan.workload.bytes_needed(&plan.settings, 1);
    let mut measured = Measured::new(&steps, &standing, plan.repetitions, used);
    measured.all(&around, &mut cores, tell)?;
    let (rows, missing) = measured.rows(&mut cores)?;
    environment.cores_apart = cores.apart();
    lacking.extend(missing);
    lacking.extend(standing.iter_mut().filter_map(Standing::leave));
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
        commit: plan.commit.clone(),
        settings: plan.settings.clone(),
        repetitions: plan.repetitions,
        environment,
        rows,
        ceiling,
        missing: lacking,
        idle,
        replay: None,
    };
    report.answer = answer::answer(&report);
    Ok(report)
}

/// What each idle connection more costs each server that was started for the run, before it had any other load: memory
/// that a load leaves behind would hold them. A part of them is opened before the first look, so that what a server
/// takes once and not for each is in both looks. Beside it, what could not be measured.
fn idle_memory(
    count: usize,
    standing: &[Standing],
    tell: &mut dyn FnMut(Event<'_>),
) -> (Vec<IdleMemory>, Vec<String>) {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    if count == 0 {
        return (found, missing);
    }
    for target in standing {
        let Some(process) = target.server() else {
            continue;
        };
        tell(Event::Preparing("idle connections"));
        let resident = || usage::of(process).map_or(0, |usage| usage.resident_bytes);
        let open_before = count / FIRST_IDLE_DIVISOR;
        let connections = count - open_before;
        let looked = Idle::open(&target.place, open_before).and_then(|mut idle| {
            idle.ask_again(&target.place, CALLS_BEFORE_IDLE)?;
            let before_bytes = resident();
            idle.open_more(&target.place, connections)?;
            let after_bytes = resident();
            idle.check().map(|()| (before_bytes, after_bytes))
        });
        match looked {
            Ok((before_bytes, after_bytes)) => found.push(IdleMemory {
                target: target.name.clone(),
                open_before,
                connections,
                before_bytes,
                after_bytes,
            }),
            Err(error) => {
                target.note(&error);
                missing.push(format!("idle connections, {}: {error}", target.name));
            }
        }
    }
    (found, missing)
}

impl Plan {
    /// Whether the plan can be carried out, as far as that can be told without doing it.
    ///
    /// # Errors
    /// A number is out of its range, or there is no room for the files.
    pub fn check(&self) -> Result<(), LoadError> {
        self.workload.steps(&self.settings)?;
        self.peers()?;
        check(self)
    }

    fn mounts(&self) -> Vec<FileSystem> {
        let mounts = self.targets.iter().filter_map(|target| match target {
            Target::Mounted(directory) => FileSystem::at(directory),
            Target::Server(_)
            | Target::Own(_)
            | Target::Peer(_)
            | Target::Local(_)
            | Target::Responder => None,
        });
        mounts.collect()
    }

    /// Names and versions of the servers of others, which have to be installed.
    pub(crate) fn peers(&self) -> Result<Vec<String>, LoadError> {
        let versions = self.targets.iter().filter_map(|target| match target {
            Target::Peer(peer) => Some(peer.version()),
            Target::Server(_)
            | Target::Own(_)
            | Target::Mounted(_)
            | Target::Local(_)
            | Target::Responder => None,
        });
        let found: Vec<String> = versions.collect::<Result<_, _>>()?;
        let hidden =
            std::fs::canonicalize(&self.directory).is_ok_and(|dir| dir.starts_with("/run"));
        match hidden && !found.is_empty() {
            true => Err(LoadError::Setting(
                "--directory: ganesha gets a /run of its own and does not see this one; name another place".to_owned(),
            )),
            false => Ok(found),
        }
    }

    /// A limit holds for the processes that are started, and for nobody else.
    fn check_memory(&self) -> Result<(), LoadError> {
        let refused = |text: String| Err(LoadError::Setting(text));
        let Some(bytes) = self.memory_bytes else {
            return Ok(());
        };
        if bytes < limits::SERVER_MEMORY_BYTES_MIN {
            let least = limits::SERVER_MEMORY_BYTES_MIN >> 20;
            return refused(format!("--memory: give at least {least} MiB"));
        }
        // Past the page cache there is nothing that a limit would change.
        let is_beyond = |target: &&Target| match target {
            Target::Server(_) | Target::Mounted(_) => true,
            Target::Local(way) => *way != Way::Direct,
            Target::Own(_) | Target::Peer(_) | Target::Responder => false,
        };
        match self.targets.iter().find(is_beyond) {
            None => Ok(()),
            Some(target) => refused(format!(
                "--memory limits the servers that are started for the run, and {} would have all there is: leave it \
                 out, or --memory (--local=direct may stay: it keeps nothing in memory)",
                target.name()
            )),
        }
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
    plan.check_memory()?;
    if plan.workload == Workload::Untar && plan.targets.contains(&Target::Local(Way::Direct)) {
        return refused(
            "untar: small files of any length cannot be written past the page cache: give --local=buffered".to_owned(),
        );
    }
    let has_names = matches!(plan.workload, Workload::Metadata | Workload::Untar);
    if !has_names && plan.targets.contains(&Target::Local(Way::Synced)) {
        return refused(format!(
            "{}: it makes no names that could be put on stable storage: give --local=buffered, or metadata or untar",
            plan.workload.name()
        ));
    }
    let has_no_server = |target: &Target| matches!(target, Target::Local(_) | Target::Mounted(_));
    if matches!(plan.workload, Workload::SmallCalls | Workload::Connections)
        && plan.targets.iter().any(has_no_server)
    {
        return refused(format!(
            "{}: a file system has no connections and no NULL: leave --local and --mounted out",
            plan.workload.name()
        ));
    }
    let here = plan
        .targets
        .iter()
        .filter(|target| target.is_here())
        .count() as u64;
    if here > 0 {
        let needed = plan.workload.bytes_needed(&plan.settings, here);
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
    let watched = Watched {
        process: standing.server(),
        watch: None,
    };
    load::run_watched(&standing.place, &load, None, around, || None, watched).map(drop)
}

/// The measurements of a run so far.
struct Measured<'a> {
    steps: &'a [Step],
    standing: &'a [Standing],
    /// Measurements of each that are used.
    repetitions: usize,
    /// How often everything is measured, as far as is known.
    rounds: usize,
    done: usize,
    /// Bytes of free memory that are touched before each measurement.
    touched_bytes: u64,
    /// For each step and target its measurements; or why there are none.
    cells: Vec<Result<Vec<Taken>, LoadError>>,
}

/// A measurement of a step and target, and where the cores were.
struct Taken {
    done: load::Done,
    /// The machine's cores were near each other.
    is_near: bool,
}

/// The measurements of a step and target that are used.
#[derive(Debug, Default)]
struct Cell {
    own: Vec<Sample>,
    /// Of what goes on beside it.
    beside: Vec<Sample>,
    /// How each measurement of `own` went, where that is watched.
    series: Vec<Series>,
}

impl Cell {
    /// So many of the measurements, as far as there are: those that were taken while the cores were near first.
    fn of(taken: Vec<Taken>, repetitions: usize, cores: &mut Cores) -> Self {
        let (mut used, far): (Vec<_>, Vec<_>) = taken.into_iter().partition(|one| one.is_near);
        used.truncate(repetitions);
        let far_used = far.len().min(repetitions - used.len());
        cores.note(far.len() - far_used, far_used);
        used.extend(far.into_iter().take(far_used));
        let mut cell = Self::default();
        for Taken { done, .. } in used {
            cell.own.push(done.own);
            cell.beside.extend(done.beside);
            cell.series.extend(done.series);
        }
        cell
    }
}

impl<'a> Measured<'a> {
    fn new(
        steps: &'a [Step],
        standing: &'a [Standing],
        repetitions: u32,
        touched_bytes: u64,
    ) -> Self {
        let cells = steps.len() * standing.len();
        let repetitions = usize::try_from(repetitions).unwrap_or(usize::MAX);
        Self {
            steps,
            standing,
            repetitions,
            rounds: repetitions.saturating_add(1),
            done: 0,
            touched_bytes,
            cells: (0..cells).map(|_| Ok(Vec::new())).collect(),
        }
    }

    /// Goes through all steps as often as there are repetitions, and once before. Further times follow while something
    /// lacks a measurement that was taken while the cores were near, at most as many again.
    fn all(
        &mut self,
        around: &Around,
        cores: &mut Cores,
        tell: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), LoadError> {
        let (planned, most) = (self.rounds, self.rounds + self.repetitions);
        for round in 0..most {
            if round >= planned {
                if !self.lacks() {
                    break;
                }
                self.rounds += 1;
            }
            self.round(round, around, cores, tell)?;
        }
        Ok(())
    }

    fn lacks(&self) -> bool {
        let near = |taken: &[Taken]| taken.iter().filter(|one| one.is_near).count();
        let mut measured = self.cells.iter().flatten();
        measured.any(|taken| near(taken) < self.repetitions)
    }

    fn round(
        &mut self,
        round: usize,
        around: &Around,
        cores: &mut Cores,
        tell: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), LoadError> {
        let all = self.cells.len() * self.rounds;
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
            cores.wait(|| around.stop.is_set());
            touch(self.touched_bytes, || around.stop.is_set());
            match measure(step, target, around) {
                Ok(done) if round > 0 => found.push(Taken {
                    done,
                    is_near: cores.are_near(),
                }),
                Ok(_warm_up) => {}
                Err(LoadError::Interrupted) => return Err(LoadError::Interrupted),
                // Its first silence was told.
                Err(LoadError::Silent) => *cell = Err(LoadError::Silent),
                Err(error) => {
                    target.note(&error);
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
    fn rows(self, cores: &mut Cores) -> Result<(Vec<Row>, Vec<String>), LoadError> {
        let (mut rows, mut besides, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        let mut first = None;
        let both = self
            .steps
            .iter()
            .flat_map(|step| self.standing.iter().map(move |one| (step, one)));
        for ((step, target), cell) in both.zip(self.cells) {
            match cell {
                Ok(taken) => {
                    let cell = Cell::of(taken, self.repetitions, cores);
                    let row = Row::new(&step.name, &target.name, step.unit, cell.own);
                    rows.extend(row.map(|row| row.with_series(cell.series)));
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
        Work::Read { .. } | Work::Write { .. } | Work::Grow { .. } => crate::workload::Unit::Mib,
        Work::Unpack(_) => crate::workload::Unit::Files,
        _ => crate::workload::Unit::Calls,
    }
}

fn measure(step: &Step, target: &Standing, around: &Around) -> Result<load::Done, LoadError> {
    target.check()?;
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
    let watch = step.is_watched.then(|| {
        let file = file_of(&step.load.work).zip(target.backing.as_ref());
        Watch::new(
            target.process(),
            file.map(|(name, directory)| directory.join(name)),
        )
    });
    if step.load.connections > limits::CONNECTION_THREADS_MAX {
        // A client whose connection is closed makes it anew, for as long as it takes: whether the server gives this host
        // so many is seen before.
        Idle::open(&target.place, step.load.connections + step.idle)?.check()?;
    }
    let idle = Idle::open(&target.place, step.idle)?;
    let cpu = || target.cpu_seconds();
    let place = &target.place;
    let watched = Watched {
        process: target.server(),
        watch: watch.as_ref(),
    };
    let done = load::run_watched(place, &step.load, beside, around, cpu, watched);
    if let Err(error) = &done
        && (matches!(error, LoadError::Ended) || error.is_silence())
    {
        // There is nobody who could remove anything.
        return done;
    }
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
    idle.check()?;
    Ok(done)
}

/// The file that all connections work on.
fn file_of(work: &Work) -> Option<&str> {
    match work {
        Work::Read {
            file: Name::Shared(name),
            ..
        }
        | Work::Write {
            file: Name::Shared(name),
            ..
        }
        | Work::Grow {
            file: Name::Shared(name),
            ..
        } => Some(name),
        _ => None,
    }
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
        .any(Target::is_held_against_the_responder)
    {
        return Ok(Vec::new());
    }
    let place = responder(&plan.options, around.busy_poll)?;
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
        Work::Write { .. } | Work::Ask { .. } => {}
        Work::Unpack(names) => {
            // The responder takes any number of directories of one name; each is full.
            (names.count, names.directory) = (u64::MAX, "directory".to_owned());
        }
        Work::Create(names) | Work::Stat(names) | Work::Rename(names) | Work::Remove(names) => {
            "directory".clone_into(&mut names.directory);
        }
        Work::List(_) | Work::Small { .. } | Work::Grow { .. } => return None,
    }
    Some(load)
}

#[cfg(test)]
mod tests;
