//! Runs the scenarios, each as a process of its own, and prints one verdict line for each.
//!
//! The process that was started chooses the scenarios and hands them out ([`queue`]); for each it
//! starts itself again with `--only NAME`. So a scenario that dies takes no other with it, and
//! several can run side by side, each in a mount namespace of its own.

mod queue;
mod times;

use std::num::NonZero;
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow};
use nfs_deadline::Patience;
use nfs_lab::{Engine, Lab, Scratch, needs};

use crate::host::Context;
use crate::scenarios::{Scenario, TABLE};
use queue::{Item, Outcome};

/// Bound of the seeds that are drawn, which keeps them short enough to type again.
const SEEDS: u64 = 1_000_000_000;

/// What `nfs-test run` is told.
#[derive(clap::Args)]
pub(crate) struct RunArgs {
    /// The server to test.
    #[arg(long, value_name = "PATH_TO_PENSTOCK")]
    server: PathBuf,
    /// Run only scenarios whose name contains this, or the one whose whole name it is.
    #[arg(long, value_name = "SUBSTR")]
    filter: Vec<String>,
    /// The server's I/O engine.
    #[arg(long, value_enum, default_value_t = EngineChoice::Both)]
    engine: EngineChoice,
    /// A skipped scenario is a failure.
    #[arg(long)]
    strict: bool,
    /// Fewer operations and power cuts: a minute or two in all, for a look while working.
    #[arg(long)]
    quick: bool,
    /// The long forms of the io scenarios: every offset with every length, 4 GiB transfers.
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    /// Power cuts per file system and engine.
    #[arg(long, value_name = "N")]
    cuts: Option<u32>,
    /// Seed of everything random; printed at the start of each run.
    #[arg(long)]
    seed: Option<u64>,
    /// Keep the directories of scenarios that passed, too.
    #[arg(long)]
    keep: bool,
    /// Scenarios that run side by side; one more than there are processors if not given. Those that need the
    /// whole machine run alone in any case.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16))]
    jobs: Option<u8>,
    /// Run exactly this scenario, in this process: its whole name, for example kill:uring.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["filter", "jobs"])]
    only: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum EngineChoice {
    Uring,
    Threads,
    Both,
}

/// Prints every scenario with what it shows and what it needs.
pub(crate) fn list() {
    for scenario in TABLE {
        let needs: Vec<_> = scenario.needs.iter().map(|need| need.name()).collect();
        println!(
            "{:<22} {} [needs: {}]",
            scenario.name,
            scenario.about,
            needs.join(", ")
        );
    }
}

/// Runs what `args` selects; the exit code is 1 when anything failed (or, with `--strict`, was
/// skipped).
///
/// # Errors
/// When the server's binary is not there, or no scenario has the name given with `--only`.
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode> {
    let server = args.server.canonicalize().with_context(|| {
        format!(
            "no server at {} (build it: cargo build -p penstock)",
            args.server.display()
        )
    })?;
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..SEEDS));
    let chosen = selected(args);
    if let Some(only) = &args.only {
        own_mounts()?;
        let (name, scenario, engine) = chosen
            .into_iter()
            .find(|(name, ..)| name == only)
            .with_context(|| format!("no scenario is called {only} (see: nfs-test list)"))?;
        return run_here(args, server, seed, &name, scenario, engine);
    }
    println!("seed {seed}");
    let (mut items, mut skipped) = (Vec::new(), 0_u32);
    for (name, scenario, engine) in chosen {
        let mut needs = scenario.needs.iter();
        match needs.find_map(|need| needs::missing(*need, engine)) {
            Some(reason) => {
                println!("SKIP {name}: {reason}");
                skipped += 1;
            }
            None => items.push(Item {
                command: again(args, &server, seed, &name)?,
                seconds: times::typical_seconds(scenario.name),
                patience: patience(args),
                alone: scenario.runs_alone(),
                name,
            }),
        }
    }
    let jobs = args.jobs.map_or_else(jobs_by_default, usize::from);
    let Outcome { passed, failed } = queue::run(items, jobs);
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    Ok(verdict(failed > 0 || (args.strict && skipped > 0)))
}

/// One scenario more than there are processors, for each waits during a third of its time or more; and no more
/// than have been seen to get along.
fn jobs_by_default() -> usize {
    const SEEN_TO_GET_ALONG: usize = 4;
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    (processors + 1).min(SEEN_TO_GET_ALONG)
}

/// How long a scenario may take: as long as it wants in its longest form, else longer than what it waits for itself,
/// of which it says more. No deadline of its own is later than 900 s.
fn patience(args: &RunArgs) -> Patience {
    if args.full || args.cuts.is_some() {
        Patience::ENDLESS
    } else {
        Patience::seconds(1000)
    }
}

/// The command that runs one scenario alone, as it runs in this whole run.
fn again(args: &RunArgs, server: &std::path::Path, seed: u64, name: &str) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("run").arg("--server").arg(server);
    command.args(["--only", name, "--seed", &seed.to_string()]);
    for (flag, given) in [
        ("--strict", args.strict),
        ("--quick", args.quick),
        ("--full", args.full),
        ("--keep", args.keep),
    ] {
        if given {
            command.arg(flag);
        }
    }
    if let Some(cuts) = args.cuts {
        command.args(["--cuts", &cuts.to_string()]);
    }
    Ok(command)
}

/// Runs one scenario in this process and prints its verdict, with the ends of its logs if it failed.
fn run_here(
    args: &RunArgs,
    server: PathBuf,
    seed: u64,
    name: &str,
    scenario: &Scenario,
    engine: Engine,
) -> Result<ExitCode> {
    let mut needs = scenario.needs.iter();
    if let Some(reason) = needs.find_map(|need| needs::missing(*need, engine)) {
        println!("SKIP {name}: {reason}");
        return Ok(verdict(args.strict));
    }
    let start = Instant::now();
    let scratch = Scratch::new(name)?;
    let context = Context {
        lab: Lab {
            program: server,
            engine,
            dir: scratch.path().to_path_buf(),
        },
        seed,
        quick: args.quick,
        full: args.full,
        cuts: args.cuts.unwrap_or(if args.quick { 8 } else { 70 }),
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| (scenario.run)(&context)))
        .unwrap_or_else(|panic| Err(anyhow!("panicked: {}", panic_text(&*panic))));
    let seconds = start.elapsed().as_secs_f64();
    match outcome {
        Ok(note) => {
            let computed = times::computed_seconds().unwrap_or_default();
            println!("PASS {name} ({seconds:.1} s, {computed:.1} s of computing) {note}");
            if args.keep {
                scratch.keep();
            }
            Ok(verdict(false))
        }
        Err(error) => {
            println!("FAIL {name}: {error:#} ({seconds:.1} s)");
            scratch.keep_and_show();
            Ok(verdict(true))
        }
    }
}

fn verdict(is_bad: bool) -> ExitCode {
    if is_bad {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Goes on in a mount namespace of its own, if this is root's process and has none yet: nobody else
/// can hold on to a file system whose power was cut, and every mount ends with this process.
fn own_mounts() -> Result<()> {
    const MARK: &str = "NFS_TEST_OWN_MOUNTS";
    if !rustix::process::geteuid().is_root() || std::env::var_os(MARK).is_some() {
        return Ok(());
    }
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--propagation", "private"])
        .arg(std::env::current_exe()?);
    // Comes back only if it fails.
    let error = command
        .args(std::env::args_os().skip(1))
        .env(MARK, "yes")
        .exec();
    Err(error).context("start unshare (apt install util-linux)")
}

fn selected(args: &RunArgs) -> Vec<(String, &'static Scenario, Engine)> {
    let mut chosen = Vec::new();
    let engines: &[Engine] = match args.engine {
        EngineChoice::Both => &[Engine::Uring, Engine::Threads],
        EngineChoice::Uring => &[Engine::Uring],
        EngineChoice::Threads => &[Engine::Threads],
    };
    for scenario in TABLE {
        let engines = if scenario.runs_with_one_engine() {
            engines.get(..1).unwrap_or_default()
        } else {
            engines
        };
        for engine in engines {
            chosen.push((full_name(scenario, *engine), scenario, *engine));
        }
    }
    if args.only.is_none() && !args.filter.is_empty() {
        let all: Vec<String> = chosen.iter().map(|(name, ..)| name.clone()).collect();
        chosen.retain(|(name, ..)| {
            args.filter
                .iter()
                .any(|filter| is_meant(name, filter, &all))
        });
    }
    chosen
}

/// What a scenario is called with one engine, for example `kill:uring`.
fn full_name(scenario: &Scenario, engine: Engine) -> String {
    format!("{}:{}", scenario.name, engine.name())
}

/// Does `filter` mean the scenario `name`? A whole name means that one alone: `kill:uring` is not
/// `client-kill:uring`.
fn is_meant(name: &str, filter: &str, all: &[String]) -> bool {
    if all.iter().any(|whole| whole == filter) {
        name == filter
    } else {
        name.contains(filter)
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("(no message)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_name_means_one_scenario_and_a_part_means_many() {
        let all = ["kill:uring", "client-kill:uring", "kill:threads"].map(str::to_owned);
        let meant = |filter: &str| {
            let meant = all.iter().filter(|name| is_meant(name, filter, &all));
            meant.count()
        };
        assert_eq!(
            (meant("kill:uring"), meant("kill:"), meant("uring")),
            (1, 3, 2)
        );
    }
}
