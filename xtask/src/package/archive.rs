//! The tarballs: the static program with all that belongs to it, and its debug symbols.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::build::Program;
use super::staging::{self, Facts, Layout};

/// Makes `penstock-VERSION-PROCESSOR-linux.tar.gz`, and the same with `-debug`.
///
/// # Errors
/// A tool is missing, or a file cannot be written.
pub(super) fn make(
    root: &Path,
    facts: &Facts,
    program: &Program,
    output: &Path,
) -> Result<Vec<PathBuf>> {
    let name = format!("penstock-{}-{}-linux", facts.version, program.processor);
    let work = output.join("tarball");
    staging::empty(&work)?;
    let layout = Layout {
        top: work.join(&name),
        prefix: "",
        program: "/usr/local/bin/penstock",
    };
    layout.fill(root, program)?;
    let symbols_name = format!("{name}-debug");
    let symbols = work.join(&symbols_name).join("penstock.debug");
    program.split(&layout.at("bin/penstock"), &symbols)?;
    let made = [&name, &symbols_name].map(|name| pack(facts, &work, name, output));
    let made: Result<Vec<PathBuf>> = made.into_iter().collect();
    std::fs::remove_dir_all(&work)?;
    made
}

/// Packs the directory `name` of `work`.
fn pack(facts: &Facts, work: &Path, name: &str, output: &Path) -> Result<PathBuf> {
    let archive = output.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{}", facts.time));
    tar.args(["--use-compress-program=gzip -6 -n", "-cf"]);
    tar.arg(&archive).arg("-C").arg(work).arg(name);
    let status = tar.status().context("tar")?;
    ensure!(status.success(), "tar: {status}");
    Ok(archive)
}
