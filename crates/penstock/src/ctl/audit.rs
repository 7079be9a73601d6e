//! `penstock ctl audit`: follows the audit of a server.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use nfs_server::host::state_dir;
use nfs_server::operate::control::{self, AuditLine};

#[derive(clap::Subcommand, Debug)]
pub(super) enum Action {
    /// Print what is audited as it happens, until interrupted
    ///
    /// With --json the lines are those of the log. Who reads them too slowly loses some and is told how
    /// many; the server waits for nobody.
    Follow,
}

impl Action {
    pub(super) fn run(self, directory: &Path, json: bool) -> anyhow::Result<ExitCode> {
        let Self::Follow = self;
        let socket = state_dir::control_socket(directory);
        let mut out = io::stdout().lock();
        let begun = || eprintln!("following; interrupt to end");
        let outcome = control::follow_audit(&socket, begun, |line| {
            match print_line(&mut out, &line, json) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            }
        });
        match outcome.context("penstock ctl")? {
            // A reader that has gone is a way to end: exit.rs knows it.
            Some(error) => Err(error.into()),
            None => Err(anyhow::Error::msg(
                "the server has ended, and its audit with it",
            )),
        }
    }
}

fn print_line(out: &mut impl Write, line: &AuditLine, json: bool) -> io::Result<()> {
    if json {
        serde_json::to_writer(&mut *out, line)?;
        writeln!(out)?;
    } else {
        writeln!(out, "{line}")?;
    }
    out.flush()
}
