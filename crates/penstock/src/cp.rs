//! `penstock cp`: files and trees to, from and between NFS servers.

mod options;
mod report;
mod run;

use std::process::ExitCode;

use nfs_client::transfer;

pub(crate) use self::options::Args;
pub(crate) use self::options::local_mode;
pub(crate) use self::run::{Doing, Run};

impl Args {
    /// Runs the copy that the arguments ask for, and reports it.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let places = self.all_places()?;
        let options = self.options();
        let run = Run {
            common: &self.common,
            progress: &self.progress,
            windows: &self.windows,
            limit: self.limit,
            standard_streams: true,
            one_source: false,
            asks: self.interactive,
            shows_progress: self.has_terminal_to_itself(),
            verbose: self.verbose,
            tells_totals: self.tells_totals(),
            doing: match self.dry_run {
                true => Doing::DryRun,
                false => Doing::Really,
            },
            again: self.again(),
        };
        run.run(&places, async |mut places, watch| {
            // There are two at least.
            let destination = places.pop().unwrap_or_else(|| transfer::Place::local("."));
            transfer::copy(&places, &destination, &options, watch).await
        })
    }
}
