//! `penstock bench replay`: a recorded load on other servers, or in other modes.

use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use nfs_load::pace::Stop;
use nfs_load::replay::script::Script;
use nfs_load::replay::{Plan, Speed, run};
use nfs_load::run::Event;
use nfs_load::workload::Workload;

use super::targets::TargetArgs;
use super::{told, usage};
use crate::exit::UsageError;
use crate::message;
use crate::session::Common;

/// A load that `penstock trace record` kept, on made-up files
///
/// Makes files as large as the recording touched them, in a new directory of each
/// target, and then the calls of each recorded client, in their order for each file:
/// at their own pace, or faster. Says how long they take beside how long they took,
/// so that `--self=buffered,direct` tells what each mode would have done for the load.
/// Calls that cannot be replayed are left out and counted.
///
/// Examples:
///
///   penstock bench replay morning.rec --self=buffered,direct
///
///   penstock bench replay morning.rec --speed max --server nfs://server/export
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment)]
pub(super) struct Args {
    /// The recording
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    targets: TargetArgs,
    /// How fast: 1 for the recording's own pace, 10 for ten times that, max for as fast as calls are answered
    #[arg(long, value_name = "SPEED", default_value = "1", value_parser = Speed::parse)]
    speed: Speed,
    /// Replays on each target, in turn, after one that is thrown away
    #[arg(long, value_name = "N", default_value_t = 3)]
    repetitions: u32,
    /// Write the report into this directory: report.html, report.json, report.md
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

impl Args {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        message::begin(self.common.log_json);
        crate::results::begin(self.common.json);
        let mut plan = self.plan()?;
        // What is out of range is known before anything is started.
        plan.check().map_err(usage)?;
        let run = move |stop: &Stop, tell: &mut dyn FnMut(Event<'_>)| run(&plan, stop, tell);
        told(self.report.as_deref(), &self.common, run)
    }

    fn plan(&self) -> anyhow::Result<Plan> {
        let shown = || self.file.display().to_string();
        let file = File::open(&self.file).with_context(shown)?;
        let script = Script::read(file).map_err(|error| {
            let text = format!("{}: {error}", shown());
            anyhow::Error::new(UsageError(text))
        })?;
        Ok(Plan {
            run: self
                .targets
                .plan(Workload::Replay, self.repetitions, &self.common)?,
            script: Arc::new(script),
            speed: self.speed,
        })
    }
}
