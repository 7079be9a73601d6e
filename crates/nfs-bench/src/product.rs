//! `penstock bench`, run as anybody would run it, and its report taken.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use nfs_load::report::Report;
use nfs_load::{cores, ganesha};

use crate::servers;

/// One run of `penstock bench`.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    /// Name of the workload.
    pub(crate) workload: &'a str,
    /// Targets and sizes.
    pub(crate) options: &'a [&'a str],
    /// Whether Ganesha is measured beside ours.
    pub(crate) has_peer: bool,
    /// Where the files of the measurement are made.
    pub(crate) directory: &'a Path,
    /// Where the report goes.
    pub(crate) out: &'a Path,
}

/// Whether another server is installed here, which is told on standard error.
pub(crate) fn has_peer() -> bool {
    match ganesha::version() {
        Ok(version) => {
            eprintln!("with NFS-Ganesha {version}");
            true
        }
        Err(error) => {
            eprintln!("without a peer: {error}");
            false
        }
    }
}

impl Asked<'_> {
    /// The words behind `penstock bench` that say what is measured, but not where.
    pub(crate) fn words(&self) -> Vec<&str> {
        let peer = self.has_peer.then_some("--peer=ganesha");
        let words = std::iter::once(self.workload).chain(self.options.iter().copied());
        words.chain(peer).collect()
    }

    /// Measures; `None` if nothing could be measured, which `penstock bench` has told.
    ///
    /// # Errors
    /// The program is not there, or a report cannot be written or read.
    pub(crate) fn measure(&self) -> Result<Option<Report>> {
        let out = self.out;
        std::fs::create_dir_all(out).with_context(|| out.display().to_string())?;
        let path = out.join("report.json");
        if path.exists() {
            // What is found afterwards is of this run.
            std::fs::remove_file(&path).with_context(|| path.display().to_string())?;
        }
        let mut command = Command::new(servers::binary()?);
        command.arg("bench").args(self.words());
        command.arg("--directory").arg(self.directory);
        command.arg("--report").arg(out);
        let status = cores::tell(&mut command).status();
        let status = status.context("penstock bench")?;
        if !status.success() {
            eprintln!("{}: penstock bench ended with {status}", self.workload);
        }
        let Ok(text) = std::fs::read_to_string(&path) else {
            return Ok(None);
        };
        // The same in few bytes; the page has what report.md has.
        let report: Report = serde_json::from_str(&text)?;
        let value: serde_json::Value = serde_json::from_str(&text)?;
        std::fs::write(&path, format!("{value}\n")).with_context(|| path.display().to_string())?;
        let other = out.join("report.md");
        std::fs::remove_file(&other).with_context(|| other.display().to_string())?;
        Ok(Some(report))
    }
}
