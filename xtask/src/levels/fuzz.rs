//! The fuzz level: each target of `fuzz/` for some seconds, two at a time.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context, Result, bail};

use super::Tally;
use crate::run::{self, Outcome, Patience};

/// Targets run side by side: the machines this is made for have two cores.
const WORKERS: usize = 2;

/// Seconds that a target may take beside the time that it is told to run: to read its inputs, and to end.
const SECONDS_BESIDE: u64 = 120;

/// What makes a compiler count which branches an input takes, for the engine to steer by.
const COVERAGE_FLAGS: [&str; 7] = [
    "--cfg fuzzing",
    "-Ccodegen-units=1",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// Captured messages: the best inputs to start from for a target that takes whole messages.
const VECTORS: (&str, &str) = ("rpc_call", "crates/nfs-wire/tests/vectors");

/// Runs the targets whose name contains `filter`, each for `seconds`.
pub(crate) fn run_targets(root: &Path, filter: Option<&str>, seconds: u64) -> Result<Tally> {
    let directory = root.join("fuzz");
    let manifest = directory.join("Cargo.toml");
    if !manifest.exists() {
        eprintln!("SKIP: fuzz: there is no fuzz/Cargo.toml");
        return Ok(Tally::skip());
    }
    let text = std::fs::read_to_string(&manifest).context("fuzz/Cargo.toml")?;
    let mut targets = target_names(&text)?;
    targets.retain(|name| filter.is_none_or(|f| name.contains(f)));
    if targets.is_empty() {
        return Ok(Tally::default());
    }
    let built = match build(&directory)? {
        Ok(built) => built,
        Err(last) => {
            return Ok(Tally::build_failure(
                "fuzz: the targets do not build",
                &last,
            ));
        }
    };
    let queue = Mutex::new(targets.into_iter());
    let total = Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().map(|mut q| q.next());
                    let Ok(Some(name)) = next else { return };
                    let outcome = run_one(root, &built, &name, seconds);
                    let outcome = outcome.unwrap_or_else(|error| {
                        eprintln!("fuzz {name}: {error:#}");
                        Outcome::Failed
                    });
                    let counted = match outcome {
                        Outcome::Succeeded => Tally::one(true),
                        Outcome::Failed => {
                            Tally::failure(&format!("fuzz {name}; its lines above begin so"))
                        }
                        Outcome::Late(hang) => Tally::hang(&format!("fuzz {name}"), &hang),
                    };
                    if let Ok(mut total) = total.lock() {
                        total.merge(counted);
                    }
                }
            });
        }
    });
    total
        .into_inner()
        .map_err(|_| anyhow::anyhow!("a fuzz worker panicked"))
}

/// Builds all targets with coverage counters; where they are, or what the build said last if it failed. A stable compiler does:
/// this is what cargo-fuzz would ask for, without the sanitizer that needs a nightly one.
fn build(directory: &Path) -> Result<Result<PathBuf, Vec<String>>> {
    // Naming the host as the target keeps the counters out of build scripts and macros.
    let host = host_triple()?;
    let mut build = Command::new(run::cargo());
    build
        .current_dir(directory)
        .args(["build", "--release", "--target", &host]);
    build.env("RUSTFLAGS", COVERAGE_FLAGS.join(" "));
    if let Err(last) = run::build("build fuzz targets", &mut build)? {
        return Ok(Err(last));
    }
    let target = crate::cargo::target_directory(directory)?;
    Ok(Ok(target.join(host).join("release")))
}

fn host_triple() -> Result<String> {
    let output = Command::new("rustc")
        .arg("-vV")
        .output()
        .context("rustc -vV")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc -vV names no host")
}

/// The names of the binaries of the fuzz package.
fn target_names(manifest: &str) -> Result<Vec<String>> {
    let table: toml::Table = manifest.parse().context("fuzz/Cargo.toml")?;
    let bins = table
        .get("bin")
        .and_then(toml::Value::as_array)
        .context("fuzz/Cargo.toml has no [[bin]]")?;
    let names: Vec<String> = bins
        .iter()
        .filter_map(|bin| bin.get("name")?.as_str().map(str::to_owned))
        .collect();
    if names.len() != bins.len() {
        bail!("a [[bin]] of fuzz/Cargo.toml has no name");
    }
    Ok(names)
}

fn run_one(root: &Path, built: &Path, name: &str, seconds: u64) -> Result<Outcome> {
    let corpus = working_directory(root, "corpus", name)?;
    let artifacts = working_directory(root, "artifacts", name)?;
    let mut command = Command::new(built.join(name));
    command.current_dir(root);
    command.arg(&corpus);
    let vectors = root.join(VECTORS.1);
    if name == VECTORS.0 && vectors.is_dir() {
        command.arg(vectors);
    }
    let seeds = root.join("fuzz/seeds").join(name);
    if seeds.is_dir() {
        command.arg(seeds);
    }
    command.arg(format!("-max_total_time={seconds}"));
    command.args(["-max_len=4096", "-rss_limit_mb=2048", "-timeout=10"]);
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    let patience = Patience::seconds(seconds + SECONDS_BESIDE);
    run::merged(&format!("fuzz {name}"), &mut command, patience, |line| {
        is_news(&line).then(|| format!("fuzz {name}: {line}"))
    })
}

/// Leaves out the engine's line for every input that it learnt something from: there are thousands.
fn is_news(line: &str) -> bool {
    let routine = [
        "NEW ",
        "NEW_FUNC",
        "REDUCE ",
        "INFO: ",
        "WARNING: Failed to find function",
        "# Uses:",
        "ecommended dictionary",
    ];
    !routine.iter().any(|word| line.contains(word))
}

fn working_directory(root: &Path, kind: &str, name: &str) -> Result<PathBuf> {
    let directory = root.join("fuzz").join(kind).join(name);
    std::fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
    Ok(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_from_the_manifest() {
        let manifest = "[package]\nname = \"fuzz\"\n[[bin]]\nname = \"record\"\npath = \"a.rs\"\n[[bin]]\nname = \"call\"\n";
        assert_eq!(target_names(manifest).unwrap(), ["record", "call"]);
        assert!(target_names("[package]\nname = \"fuzz\"\n").is_err());
        assert!(target_names("[[bin]]\npath = \"a.rs\"\n").is_err());
    }
}
