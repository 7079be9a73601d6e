//! `penstock bench ceiling`: what the load generator itself can do on this machine.

use std::path::PathBuf;
use std::process::ExitCode;

use nfs_load::run::Plan;
use nfs_load::target::Target;
use nfs_load::workload::{Settings, Workload};

use super::{carried_out, plan};
use crate::message;
use crate::session::Common;

/// What the load generator itself can do on this machine
///
/// Makes NULL and GETATTR calls, and READs and WRITEs of 4 KiB, 64 KiB and 1 MiB,
/// with 1 and with 32 in flight, against a responder in the same process that
/// touches no file. What a server comes to near these figures says more about the
/// generator than about the server. Every other run measures this for its own
/// steps, and shows it as `of the generator's`.
///
/// Example:
///
///   penstock bench ceiling --connections 2
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment)]
pub(super) struct Args {
    /// Measurements of each figure, in turn, after one that is thrown away
    #[arg(long, value_name = "N", default_value_t = 3)]
    repetitions: u32,
    /// Connections, each a thread of the generator and one of the responder
    #[arg(long, value_name = "N", default_value_t = 1)]
    connections: usize,
    /// Length of each measurement
    #[arg(long, value_name = "SECONDS", default_value_t = Workload::Ceiling.defaults().seconds)]
    seconds: f64,
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
        let targets = vec![Target::Responder];
        let plan = Plan {
            settings: Settings {
                connections: self.connections,
                seconds: self.seconds,
                ..Workload::Ceiling.defaults()
            },
            ..plan(Workload::Ceiling, targets, self.repetitions, &self.common)?
        };
        carried_out(plan, self.report.as_deref(), &self.common)
    }
}
