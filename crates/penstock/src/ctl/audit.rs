//! `penstock ctl audit`: follows the audit of a server.

use std::path::Path;
use std::process::ExitCode;

use crate::audit::{self, Filter, Look};
use crate::show::When;

#[derive(clap::Subcommand, Debug)]
pub(super) enum Action {
    /// Print what is audited as it happens, until interrupted
    ///
    /// The same as `penstock audit --follow`, which can choose what to show. With --json the lines are those of
    /// the log. Who reads them too slowly loses some and is told how many; the server waits for nobody.
    Follow,
}

impl Action {
    pub(super) fn run(self, directory: &Path, json: bool) -> anyhow::Result<ExitCode> {
        let Self::Follow = self;
        let look = Look {
            json,
            coloured: When::Auto.is_now(),
        };
        audit::follow(directory, &Filter::default(), look)
    }
}
