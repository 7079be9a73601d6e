//! Runs the scenarios one after the other and prints one verdict line for each.

use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow};

use crate::host::{Context, Engine, Place, needs};
use crate::random::seed_from_clock;
use crate::scenarios::{Scenario, TABLE};

/// What `nfs-test run` is told.
#[derive(clap::Args)]
pub(crate) struct RunArgs {
    /// The server to test.
    #[arg(long, value_name = "PATH_TO_PENSTOCK")]
    server: PathBuf,
    /// Run only scenarios whose name contains this.
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
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum EngineChoice {
    Uring,
    Threads,
    Both,
}

/// Prints every scenario with its needs.
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
/// When the server's binary is not there.
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode> {
    let server = args.server.canonicalize().with_context(|| {
        format!(
            "no server at {} (build it: cargo build -p penstock)",
            args.server.display()
        )
    })?;
    own_mounts()?;
    let seed = args.seed.unwrap_or_else(seed_from_clock);
    println!("seed {seed}");
    let (mut passed, mut failed, mut skipped) = (0_u32, 0_u32, 0_u32);
    for (name, scenario, engine) in selected(args) {
        if let Some(reason) = scenario
            .needs
            .iter()
            .find_map(|need| needs::missing(*need, engine))
        {
            println!("SKIP {name}: {reason}");
            skipped += 1;
            continue;
        }
        let start = Instant::now();
        let place = Place::new(&name)?;
        let context = Context {
            server: server.clone(),
            engine,
            seed,
            quick: args.quick,
            full: args.full,
            cuts: args.cuts.unwrap_or(if args.quick { 8 } else { 70 }),
            dir: place.path().to_path_buf(),
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| (scenario.run)(&context)))
            .unwrap_or_else(|panic| Err(anyhow!("panicked: {}", panic_text(&*panic))));
        let seconds = start.elapsed().as_secs_f64();
        match outcome {
            Ok(note) => {
                println!("PASS {name} ({seconds:.1} s) {note}");
                passed += 1;
                if args.keep {
                    place.keep();
                }
            }
            Err(error) => {
                println!("FAIL {name}: {error:#} ({seconds:.1} s)");
                failed += 1;
                place.keep_and_show();
            }
        }
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    let bad = failed > 0 || (args.strict && skipped > 0);
    Ok(if bad {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
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
        let engines = if scenario.server_is_foreign() {
            engines.get(..1).unwrap_or_default()
        } else {
            engines
        };
        for engine in engines {
            let name = format!("{}:{}", scenario.name, engine.name());
            if args.filter.is_empty() || args.filter.iter().any(|part| name.contains(part)) {
                chosen.push((name, scenario, *engine));
            }
        }
    }
    chosen
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("(no message)")
}
