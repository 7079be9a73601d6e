//! `penstock bench compare`: whether anything became worse.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use nfs_load::compare::compare;
use nfs_load::limits::REPORT_BYTES_MAX;
use nfs_load::report::Report;

use crate::exit::UsageError;

/// Hold a report against an older one: exit code 1 if a figure is worse
///
/// Takes the report.json of two runs of the same workload with the same numbers on
/// the same machine, and refuses others with the reason. A figure is worse where its
/// median is, by more than --tolerance, and the ranges of the repetitions do not
/// meet.
///
/// Example:
///
///   penstock bench compare old/report.json new/report.json
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment)]
pub(super) struct Args {
    /// The older report
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// The newer report
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// By how many percent a median may be worse
    #[arg(long, value_name = "PERCENT", default_value = "5", value_parser = percent)]
    tolerance: f64,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let number = number.filter(|number| (0.0..=1000.0).contains(number));
    number.ok_or_else(|| "give a number from 0 to 1000".to_owned())
}

impl Args {
    /// Compares, and prints what came of it.
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        crate::results::begin(self.json);
        let (old, new) = (read(&self.old)?, read(&self.new)?);
        let found = compare(&old, &new, self.tolerance / 100.0);
        let found = found.map_err(|refused| UsageError(refused.to_string()))?;
        let text = match self.json {
            true => format!("{}\n", serde_json::to_string(&found)?),
            false => found.text(),
        };
        std::io::stdout().lock().write_all(text.as_bytes())?;
        Ok(match found.is_worse() {
            true => ExitCode::FAILURE,
            false => ExitCode::SUCCESS,
        })
    }
}

fn read(path: &Path) -> anyhow::Result<Report> {
    let shown = || path.display().to_string();
    let file = File::open(path).with_context(shown)?;
    let mut text = String::new();
    let mut limited = file.take(REPORT_BYTES_MAX + 1);
    limited.read_to_string(&mut text).with_context(shown)?;
    if text.len() as u64 > REPORT_BYTES_MAX {
        return Err(UsageError(format!("{}: longer than any report", path.display())).into());
    }
    serde_json::from_str(&text).map_err(|error| {
        let text = format!("{}: no report of penstock bench: {error}", path.display());
        UsageError(text).into()
    })
}
