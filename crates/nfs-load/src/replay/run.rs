//! A replay on all targets, in turn, and the report of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use hdrhistogram::Histogram;
use nfs_io::BusyPoll;
use rustix::fs::Advice;

use super::Speed;
use super::play::{Played, play};
use super::player::{Tally, place_of, tallies};
use super::script::{Group, Script};
use crate::cgroup;
use crate::environment::Environment;
use crate::error::LoadError;
use crate::limits;
use crate::load::Around;
use crate::noise::Noise;
use crate::pace::Stop;
use crate::report::replayed::{ALL, RECORDED, Replayed};
use crate::report::{Ceiling, FORMAT, Report, Row, answer};
use crate::run::{self, Event};
use crate::sample::{Latency, Sample};
use crate::target::{Scratch, Setup, Standing, Target, at, responder};
use crate::workload::{Unit, Workload};

/// What is to be replayed, and on whom.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Targets, repetitions and all that every run has; of the settings nothing is used.
    pub run: run::Plan,
    /// The calls.
    pub script: Arc<Script>,
    /// How fast.
    pub speed: Speed,
}

impl Plan {
    /// Whether the plan can be carried out, as far as that can be told without doing it. Makes the settings those of the
    /// recording.
    ///
    /// # Errors
    /// A number is out of its range, a target is no server, or there is no room for the files.
    pub fn check(&mut self) -> Result<(), LoadError> {
        let is_local = |target: &Target| matches!(target, Target::Local(_) | Target::Mounted(_));
        if self.run.targets.iter().any(is_local) {
            return Err(LoadError::Setting(
                "--local, --mounted: a recording is calls to a server, with handles and COMMITs that a file system does not have: \
                 leave it out, and name --self, --peer or --server"
                    .to_owned(),
            ));
        }
        self.speed.check(self.script.seconds())?;
        let settings = &mut self.run.settings;
        settings.size_bytes = self.script.bytes();
        settings.connections = self.script.clients.len();
        settings.rate = self
            .speed
            .seconds(self.script.seconds())
            .map(|seconds| self.script.plays.len() as f64 / seconds.max(1e-3))
            .map(|rate| rate.clamp(0.001, limits::RATE_MAX));
        self.run.check()
    }
}

/// Carries a plan out, which was checked. `tell` is told how far it is.
///
/// # Errors
/// A target cannot be started, nothing could be measured, or the run was told to stop.
pub fn run(plan: &Plan, stop: &Stop, tell: &mut dyn FnMut(Event<'_>)) -> Result<Report, LoadError> {
    let started = Instant::now();
    let is_here = plan.run.targets.iter().any(Target::is_here);
    let longest = usize::try_from(limits::PIECE_BYTES_MAX).unwrap_or(usize::MAX);
    let around = Around {
        noise: Noise::new(longest),
        stop: stop.clone(),
        busy_poll: BusyPoll::OFF,
    };
    let mut environment = Environment::look(is_here.then_some(plan.run.directory.as_path()));
    environment.server_memory_bytes = plan.run.memory_bytes;
    environment.peers = plan.run.peers()?;
    let scratch = is_here
        .then(|| Scratch::new(&plan.run.directory))
        .transpose()?;
    if plan.run.memory_bytes.is_some() {
        cgroup::sweep();
    }
    let fallback = std::env::temp_dir();
    let setup = Setup {
        program: &plan.run.program,
        scratch: scratch.as_ref().map_or(&fallback, |scratch| scratch.path()),
        options: &plan.run.options,
        memory_bytes: plan.run.memory_bytes,
    };
    let mut standing = Vec::new();
    for target in &plan.run.targets {
        tell(Event::Preparing(&target.name()));
        standing.push(Standing::start(target, &setup)?);
    }
    let mut measured = Measured::new(plan, standing.len());
    for round in 0..=plan.run.repetitions {
        measured.round(round, &standing, &around, tell)?;
    }
    let (rows, mut missing, refused) = measured.rows(&standing)?;
    missing.extend(standing.iter_mut().filter_map(Standing::leave));
    tell(Event::Preparing("the generator's own ceiling"));
    let ceiling = match ceiling(plan, &around) {
        Err(LoadError::Interrupted) => return Err(LoadError::Interrupted),
        Err(error) => {
            missing.push(format!("the generator's own ceiling: {error}"));
            Vec::new()
        }
        Ok(ceiling) => ceiling,
    };
    let mut report = Report {
        format: FORMAT,
        workload: Workload::Replay,
        question: Workload::Replay.question().to_owned(),
        answer: String::new(),
        began: plan.run.began.clone(),
        run_seconds: started.elapsed().as_secs_f64(),
        command: plan.run.command.clone(),
        version: plan.run.version.clone(),
        commit: plan.run.commit.clone(),
        settings: plan.run.settings.clone(),
        repetitions: plan.run.repetitions,
        environment,
        rows,
        ceiling,
        missing,
        idle: Vec::new(),
        replay: Some(replayed(plan, refused)),
    };
    report.answer = answer::answer(&report);
    Ok(report)
}

/// The calls as fast as the responder answers them, which has any file at once and nothing to look for: what the player
/// itself can do with this recording, in the order that its files ask for.
fn ceiling(plan: &Plan, around: &Around) -> Result<Vec<Ceiling>, LoadError> {
    let place = responder(&plan.run.options, around.busy_poll)?;
    let (hollow, ready) = ((&place, false), || Ok(()));
    let played = play(hollow, &plan.script, Speed::Max, around, ready, || None)?;
    if let Some((what, count)) = played.refused.first_key_value() {
        return Err(LoadError::Setting(format!(
            "the responder refused what servers answer: {count} {what}"
        )));
    }
    let mut samples = Samples::default();
    keep(&mut samples, played)?;
    let all = steps().zip(samples).flat_map(|(step, samples)| {
        let of_step = move |sample| Ceiling {
            step: step.to_owned(),
            sample,
        };
        samples.into_iter().map(of_step)
    });
    Ok(all.collect())
}

/// The steps of the report, in the order of [`Samples`].
fn steps() -> impl Iterator<Item = &'static str> {
    std::iter::once(ALL).chain(Group::ALL.map(Group::name))
}

fn replayed(plan: &Plan, refused: BTreeMap<String, u64>) -> Replayed {
    let script = &plan.script;
    Replayed {
        recorded_ns: script.began_ns,
        server: script.server.clone(),
        calls: script.calls,
        played: script.plays.len() as u64,
        left_out: script.left_out.clone(),
        lost: script.lost,
        is_cut: script.is_cut,
        clients: script.clients.len(),
        seconds: script.seconds(),
        speed: match plan.speed {
            Speed::Times(times) => Some(times),
            Speed::Max => None,
        },
        refused,
    }
}

/// The samples of a target, by group, those of all calls first.
type Samples = [Vec<Sample>; 5];

struct Measured<'a> {
    plan: &'a Plan,
    cells: Vec<Result<Samples, LoadError>>,
    refused: BTreeMap<String, u64>,
    done: usize,
}

impl<'a> Measured<'a> {
    fn new(plan: &'a Plan, targets: usize) -> Self {
        Self {
            plan,
            cells: (0..targets).map(|_| Ok(Samples::default())).collect(),
            refused: BTreeMap::new(),
            done: 0,
        }
    }

    fn round(
        &mut self,
        round: u32,
        standing: &[Standing],
        around: &Around,
        tell: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), LoadError> {
        let rounds = usize::try_from(self.plan.run.repetitions)
            .unwrap_or(usize::MAX)
            .saturating_add(1);
        let all = self.cells.len().saturating_mul(rounds);
        for (target, cell) in standing.iter().zip(&mut self.cells) {
            tell(Event::Measuring {
                step: "replay",
                target: &target.name,
                done: self.done,
                all,
            });
            self.done += 1;
            let Ok(samples) = cell else { continue };
            match measure(self.plan, target, around, &format!("replay-{round}")) {
                Ok(played) if round > 0 => {
                    for (what, count) in &played.refused {
                        let what = format!("{}: {what}", target.name);
                        *self.refused.entry(what).or_default() += count;
                    }
                    keep(samples, played)?;
                }
                Ok(_warm_up) => {}
                Err(LoadError::Interrupted) => return Err(LoadError::Interrupted),
                Err(error) => {
                    target.note(&error);
                    tell(Event::Failed {
                        step: "replay",
                        target: &target.name,
                        error: &error,
                    });
                    *cell = Err(error);
                }
            }
        }
        Ok(())
    }

    /// The rows of the report, what is missing in it, and what was refused.
    #[expect(clippy::type_complexity, reason = "it is taken apart at once")]
    fn rows(
        self,
        standing: &[Standing],
    ) -> Result<(Vec<Row>, Vec<String>, BTreeMap<String, u64>), LoadError> {
        let recorded = recorded(&self.plan.script)?;
        let (mut missing, mut first) = (Vec::new(), None);
        let mut all = vec![(RECORDED.to_owned(), recorded)];
        for (target, cell) in standing.iter().zip(self.cells) {
            match cell {
                Ok(samples) => all.push((target.name.clone(), samples)),
                Err(error) => {
                    missing.push(format!("replay, {}: {error}", target.name));
                    first.get_or_insert(error);
                }
            }
        }
        if let (1, Some(error)) = (all.len(), first) {
            return Err(error);
        }
        let mut rows = Vec::new();
        for (at, name) in steps().enumerate() {
            for (target, samples) in &all {
                let samples = samples.get(at).cloned().unwrap_or_default();
                rows.extend(Row::new(name, target, Unit::Calls, samples));
            }
        }
        Ok((rows, missing, self.refused))
    }
}

/// Plays the script once, in a directory of its own.
fn measure(
    plan: &Plan,
    target: &Standing,
    around: &Around,
    name: &str,
) -> Result<Played, LoadError> {
    at(&target.place, async |session| {
        session.make_directory(name).await
    })?;
    let place = target.place.below(name);
    let ready = || match &target.backing {
        Some(directory) => make_cold(&directory.join(name)),
        None => Ok(()),
    };
    let cpu = || target.cpu_seconds();
    let filled = (&place, true);
    let played = play(filled, &plan.script, plan.speed, around, ready, cpu);
    if played.as_ref().is_err_and(LoadError::is_silence) {
        // There is nobody who could remove anything.
        return played;
    }
    let removed = at(&target.place, async |session| {
        session.remove_tree(name).await
    });
    let played = played?;
    removed?;
    Ok(played)
}

/// Takes the files below a directory of this host out of its page cache.
fn make_cold(directory: &Path) -> Result<(), LoadError> {
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries = std::fs::read_dir(&directory).map_err(LoadError::local(&directory))?;
        for entry in entries {
            let entry = entry.map_err(LoadError::local(&directory))?;
            let (path, kind) = (entry.path(), entry.file_type());
            let kind = kind.map_err(LoadError::local(&path))?;
            if kind.is_dir() {
                directories.push(path);
            } else if kind.is_file() {
                let file = std::fs::File::open(&path).map_err(LoadError::local(&path))?;
                rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)
                    .map_err(|error| LoadError::local(&path)(error.into()))?;
            }
        }
    }
    Ok(())
}

fn keep(samples: &mut Samples, played: Played) -> Result<(), LoadError> {
    let late = Some(played.late).filter(|late| !late.is_empty());
    let late_p99_us = late.map(|late| late.value_at_quantile(0.99) as f64 / 1000.0);
    let whole = whole(&played.groups)?;
    let sample = |tally: &Tally, cpu_seconds| Sample {
        calls: tally.calls,
        bytes: tally.bytes,
        seconds: played.seconds,
        commit_seconds: 0.0,
        latency: Latency::of(&tally.latencies),
        late_p99_us,
        cpu_seconds,
        calls_left: 0,
    };
    let groups = played.groups.iter().map(|tally| sample(tally, None));
    let all = std::iter::once(sample(&whole, played.cpu_seconds)).chain(groups);
    for (samples, sample) in samples.iter_mut().zip(all) {
        if sample.calls > 0 {
            samples.push(sample);
        }
    }
    Ok(())
}

/// What the recorded server did with the calls that are played.
fn recorded(script: &Script) -> Result<Samples, LoadError> {
    let mut groups = tallies()?;
    let mut end_ns = 1;
    for play in &script.plays {
        if let Some(tally) = groups.get_mut(place_of(play.act.group())) {
            tally.count(play.took_ns, 0);
        }
        end_ns = play.at_ns.saturating_add(play.took_ns).max(end_ns);
    }
    let mut samples = Samples::default();
    let played = Played {
        groups,
        late: Histogram::new(1)
            .map_err(|error| LoadError::Setting(format!("histogram: {error}")))?,
        seconds: end_ns as f64 / 1e9,
        refused: BTreeMap::new(),
        cpu_seconds: None,
    };
    keep(&mut samples, played)?;
    Ok(samples)
}

fn whole(groups: &[Tally]) -> Result<Tally, LoadError> {
    let mut whole = Tally::new()?;
    for tally in groups {
        whole.calls += tally.calls;
        whole.bytes = whole.bytes.saturating_add(tally.bytes);
        let added = whole.latencies.add(&tally.latencies);
        added.map_err(|error| LoadError::Setting(format!("histogram: {error}")))?;
    }
    Ok(whole)
}
