//! `cargo xtask test`: all test levels in order, each printing as it goes.

mod build;
mod examples;
pub(crate) mod fuzz;
mod newer_kernel;
pub(crate) mod python;
mod setup;
mod system;
mod tally;
pub(crate) mod test_program;
mod unit;

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;

use self::build::{Built, Server};
pub(crate) use self::tally::Tally;

/// How to run the levels.
pub(crate) struct Options {
    /// Count a skip as a failure.
    pub(crate) strict: bool,
    /// All rounds of each scenario, on an optimised server, and longer runs of the fuzz targets.
    pub(crate) long: bool,
    /// Run only tests whose name contains this.
    pub(crate) filter: Option<String>,
    /// How many system scenarios run side by side.
    pub(crate) jobs: Option<u8>,
}

impl Options {
    /// The server that the scenarios run. Building the optimised one takes longer than the short forms
    /// gain by it.
    fn server(&self) -> Server {
        if self.long {
            Server::Checked
        } else {
            Server::Development
        }
    }

    /// Seconds for which each fuzz target runs.
    fn fuzz_seconds(&self) -> u64 {
        if self.long { 10 } else { 2 }
    }
}

/// Installs what `bench` measures with, where that is possible.
pub(crate) fn set_up_for_measurements() {
    setup::for_measurements();
}

/// Runs every level and prints the closing line.
pub(crate) fn test(root: &Path, options: &Options) -> Result<ExitCode> {
    let mut levels = if options.long {
        Levels::of(&[SET_UP, BUILD, UNIT, SYSTEM, EXAMPLES, PYTHON, FUZZ])
    } else {
        Levels::of(&[SET_UP, BUILD_SHORT, UNIT, SYSTEM_SHORT, PYTHON, FUZZ_SHORT])
    };
    levels.run(|| Ok(setup::all()))?;
    let built = levels.build(root, options.server())?;
    if let Some(built) = &built {
        levels.run(|| unit::run(root, options))?;
        levels.run(|| system::run(root, built, options))?;
        if options.long {
            levels.run(|| examples::run(root, built))?;
        }
        let filter = options.filter.as_deref();
        levels.run(|| python::run(root, &built.server(), filter))?;
        levels.run(|| fuzz::run_targets(root, filter, options.fuzz_seconds()))?;
    }
    Ok(levels.tally.close(options.strict))
}

/// What a contributor runs before a push: the unit tests and the short forms of a few scenarios.
pub(crate) fn before_a_push(root: &Path) -> Result<ExitCode> {
    let options = Options {
        strict: false,
        long: false,
        filter: None,
        jobs: None,
    };
    let mut levels = Levels::of(&[BUILD_SHORT, UNIT, BEFORE_A_PUSH]);
    let built = levels.build(root, Server::Development)?;
    if let Some(built) = &built {
        levels.run(|| unit::run(root, &options))?;
        levels.run(|| system::run_before_a_push(root, built))?;
    }
    Ok(levels.tally.close(false))
}

/// Runs the scenarios with foreign peers alone, and closes the tally.
pub(crate) fn peers(root: &Path, options: &Options) -> Result<ExitCode> {
    let mut levels = Levels::of(&[BUILD, PEERS]);
    let built = levels.build(root, Server::Checked)?;
    if let Some(built) = &built {
        levels.run(|| system::run_peers(root, built, options))?;
    }
    Ok(levels.tally.close(options.strict))
}

/// A test level, with the seconds that it takes on two idle cores from a fresh clone, about: for what is said to be left.
#[derive(Clone, Copy)]
struct Level {
    name: &'static str,
    seconds: u64,
}

const fn level(name: &'static str, seconds: u64) -> Level {
    Level { name, seconds }
}

const SET_UP: Level = level("set-up", 15);
const BUILD: Level = level("build", 400);
const BUILD_SHORT: Level = level("build", 240);
const UNIT: Level = level("unit", 160);
const SYSTEM: Level = level("system, long forms", 700);
const SYSTEM_SHORT: Level = level("system, short forms", 350);
const BEFORE_A_PUSH: Level = level("system, a few scenarios", 20);
const PEERS: Level = level("system, foreign peers", 360);
const EXAMPLES: Level = level("examples", 60);
const PYTHON: Level = level("python", 100);
const FUZZ: Level = level("fuzz", 410);
const FUZZ_SHORT: Level = level("fuzz, two seconds each", 240);

/// The levels of one run, in their order.
struct Levels {
    all: &'static [Level],
    /// How many levels have begun.
    begun: usize,
    tally: Tally,
}

impl Levels {
    fn of(all: &'static [Level]) -> Self {
        Self {
            all,
            begun: 0,
            tally: Tally::default(),
        }
    }

    /// Builds what the other levels run; `None`, and a failure counted, where it does not build.
    fn build(&mut self, root: &Path, server: Server) -> Result<Option<Built>> {
        let mut built = None;
        self.run(|| {
            let made = Built::make(root, server)?;
            let counts = build::tally(&made);
            built = made.ok();
            Ok(counts)
        })?;
        Ok(built)
    }

    /// Runs the next one, and prints what it counted and how long it took.
    fn run(&mut self, level: impl FnOnce() -> Result<Tally>) -> Result<()> {
        eprintln!("==> {}", self.announcement());
        let name = self.all.get(self.begun).map_or("", |level| level.name);
        self.begun += 1;
        let start = Instant::now();
        let counts = level()?;
        let seconds = start.elapsed().as_secs();
        self.tally.add(&format!("{name} ({seconds} s)"), counts);
        Ok(())
    }

    /// What is about to run, and about how long it and all that follows take.
    fn announcement(&self) -> String {
        let ahead = self.all.get(self.begun..).unwrap_or_default();
        let (name, own) = ahead
            .first()
            .map_or(("", 0), |level| (level.name, level.seconds));
        let left: u64 = ahead.iter().map(|level| level.seconds).sum();
        let (number, of) = (self.begun + 1, self.all.len());
        format!(
            "level {number} of {of}: {name} (on two idle cores about {}; with what follows {})",
            minutes(own),
            minutes(left)
        )
    }
}

/// A time as people say it: seconds up to a minute and a half, then minutes.
fn minutes(seconds: u64) -> String {
    match seconds {
        0..=90 => format!("{seconds} s"),
        _ => format!("{} min", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_says_what_is_left() {
        const ALL: &[Level] = &[level("a", 30), level("b", 60), level("c", 300)];
        let mut levels = Levels::of(ALL);
        levels.run(|| Ok(Tally::one(true))).unwrap();
        let said = levels.announcement();
        assert!(said.starts_with("level 2 of 3: b ("), "{said}");
        assert!(
            said.contains("about 60 s; with what follows 6 min"),
            "{said}"
        );
        levels.run(|| Ok(Tally::one(false))).unwrap();
        assert!(levels.announcement().starts_with("level 3 of 3: c ("));
        assert_eq!((levels.tally.passed, levels.tally.failed), (1, 1));
    }
}
