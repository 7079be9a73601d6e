//! `cargo xtask`: the house's own commands.
//!
//! What a contributor, a reviewer and CI run is the same program, so that "it passed here" means the
//! same thing everywhere. `check` holds the rules, `test` runs every test level, `fuzz`, `interop` and `python` run one
//! of them, `bench` measures, `suites` keeps what other people's tests found, `man` writes the manual pages, `package` makes
//! what is installed.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::too_many_lines))]

mod cargo;
mod check;
mod levels;
mod package;
mod python;
mod run;
mod suites;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};

use crate::levels::{Options, fuzz, python as python_level, test_program};

/// The house's own commands.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: What,
}

#[derive(Subcommand)]
enum What {
    /// Format, lints and the house's rules
    Check {
        /// Only the house's rules, which take a second
        #[arg(long)]
        rules: bool,
    },
    /// Every test level, set-up included; the last line counts them
    Test(TestArgs),
    /// What to run before a push, in a few minutes: check, the unit tests, a few scenarios in their short form
    Prepush,
    /// Run one fuzz target, or each in turn
    Fuzz {
        /// The target's name (all if not given)
        target: Option<String>,
        /// How long to run each target
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// Build the Python package's wheel and run its tests
    Python(PythonArgs),
    /// Measure; prints tables and judges nothing
    Bench(BenchArgs),
    /// Only the tests with foreign peers: the Linux kernel's client, libnfs, rpcbind, Ganesha
    Interop {
        /// A skipped test is a failure
        #[arg(long)]
        strict: bool,
    },
    /// What the field's test suites found, test by test
    #[command(subcommand)]
    Suites(Suites),
    /// Write the manual pages to docs/man
    Man,
    /// Make what is installed: a tarball with a static program, a Debian package, a container's context
    Package(package::Args),
    /// Run a test program with a deadline; `test` has cargo do so
    #[command(hide = true)]
    TestProgram {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        program: Vec<OsString>,
    },
}

#[derive(Subcommand)]
enum Suites {
    /// How many tests of each suite passed, by the lists in docs/results/suites
    List,
    /// In which tests a new list differs from the kept one with the same file name; fails if there are any
    Compare {
        /// A list: on each line `pass NAME`, `fail NAME` or `skip NAME`
        file: PathBuf,
    },
}

#[derive(Args)]
struct TestArgs {
    /// A skipped test is a failure
    #[arg(long)]
    strict: bool,
    /// The long forms: all rounds, on an optimised server, and ten seconds a fuzz target (CI runs these)
    #[arg(long)]
    long: bool,
    /// Only tests whose name contains this
    #[arg(long)]
    filter: Option<String>,
    /// System scenarios that run side by side (one more than there are processors if not given)
    #[arg(long, value_name = "N")]
    jobs: Option<u8>,
}

/// Arguments for `python` go to pytest as they are.
#[derive(Args)]
struct PythonArgs {
    /// For example: -k transaction
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Arguments for `bench` go to the measuring program as they are.
#[derive(Args)]
struct BenchArgs {
    /// For example: baseline --seconds 3 --rounds 5 --json
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

fn main() -> ExitCode {
    match run_command(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run_command(command: What) -> Result<ExitCode> {
    let root = root()?;
    match command {
        What::Check { rules } => {
            let checked = if rules {
                check::check_rules(&root)
            } else {
                check::check(&root)
            };
            checked.map(|()| ExitCode::SUCCESS)
        }
        What::Test(args) => {
            let options = Options {
                strict: args.strict,
                long: args.long,
                filter: args.filter,
                jobs: args.jobs,
            };
            levels::test(&root, &options)
        }
        What::Prepush => {
            check::check(&root)?;
            levels::before_a_push(&root)
        }
        What::Fuzz { target, seconds } => {
            let tally = fuzz::run_targets(&root, target.as_deref(), seconds)?;
            Ok(tally.close(false))
        }
        What::Python(args) => python(&root, &args.arguments),
        What::Bench(args) => bench(&root, &args.arguments),
        What::Interop { strict } => {
            let options = Options {
                strict,
                long: true,
                filter: None,
                jobs: None,
            };
            levels::peers(&root, &options)
        }
        What::Suites(Suites::List) => suites::list(&root),
        What::Suites(Suites::Compare { file }) => suites::compare(&root, &file),
        What::Man => man(&root),
        What::Package(args) => package::run(&root, &args),
        What::TestProgram { program } => test_program::run(&program),
    }
}

/// The workspace's root: the directory above this crate's manifest.
fn root() -> Result<PathBuf> {
    let own = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let own = own.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    let root = own.parent().context("xtask has no parent directory")?;
    Ok(root.to_owned())
}

fn python(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let mut build = cargo::cargo(root);
    build.args(["build", "-p", "penstock"]);
    if !run::streams("build penstock", &mut build)? {
        return Ok(ExitCode::FAILURE);
    }
    let server = cargo::target_directory(root)?.join("debug/penstock");
    let tally = python_level::run_tests(root, &server, arguments)?;
    Ok(tally.close(false))
}

fn bench(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let asks_only = |word: &String| matches!(word.as_str(), "help" | "--help" | "-h");
    if !arguments.is_empty() && !arguments.iter().any(asks_only) {
        levels::set_up_for_measurements();
    }
    let mut build = Command::new(run::cargo());
    build
        .current_dir(root)
        .args(["build", "--profile", package::PROFILE])
        .args(["-p", "penstock", "-p", "nfs-bench"])
        .env("PENSTOCK_COMMIT", commit(root));
    if !run::streams("build penstock and nfs-bench, as packaged", &mut build)? {
        return Ok(ExitCode::FAILURE);
    }
    let target = cargo::target_directory(root)?.join(package::PROFILE);
    let mut measure = Command::new(target.join("nfs-bench"));
    measure
        .current_dir(root)
        .args(arguments)
        .env("PENSTOCK_SERVER", target.join("penstock"));
    Ok(if run::streams("nfs-bench", &mut measure)? {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The commit of the working tree, with `+` if the tree differs from it; reports of `penstock bench` tell it.
fn commit(root: &Path) -> String {
    let git = |words: &[&str]| {
        let said = Command::new("git").current_dir(root).args(words).output();
        let said = said.ok().filter(|said| said.status.success())?;
        Some(String::from_utf8_lossy(&said.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return String::new();
    };
    // What a run writes makes no other program.
    let changed =
        git(&["status", "--porcelain", "--", ":!docs"]).is_some_and(|text| !text.is_empty());
    format!("{commit}{}", if changed { "+" } else { "" })
}

fn man(root: &Path) -> Result<ExitCode> {
    let directory = root.join("docs/man");
    std::fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
    let mut command = Command::new(run::cargo());
    command
        .current_dir(root)
        .args(["run", "--quiet", "-p", "penstock", "--", "man"])
        .arg(&directory);
    Ok(if run::streams("penstock man", &mut command)? {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
