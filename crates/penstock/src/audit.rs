//! `penstock audit`: who created, removed, renamed or changed what, as it was kept or as it happens.

mod filter;
mod kept;
mod page;

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use nfs_server::host::state_dir;
use nfs_server::operate::control;

pub(crate) use self::filter::Filter;
pub(crate) use self::page::Look;
use self::page::Page;
use crate::{results, running, show};

/// Show who created, removed, renamed or changed what
///
/// For the exports of a server whose configuration says `audit = "changes"` or "all". Printed is what has been
/// kept, the oldest first, of the files audit.jsonl.1 and audit.jsonl in the server's state directory; the server
/// need not run. With --follow it is what happens from now on. What the journal keeps is read with
/// `journalctl -o cat -t penstock-audit | penstock audit --file -`.
///
/// All conditions have to hold; of one that is given several times, one of its values.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// State directory of the server. Default: the only one under /var/lib/penstock (for root, else
    /// ~/.local/state/penstock) that has an audit
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Read this file, or - for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["state_dir", "follow"])]
    file: Option<PathBuf>,
    /// Print what happens from now on, until interrupted
    #[arg(short, long, conflicts_with = "since")]
    follow: bool,
    #[command(flatten)]
    filter: Filter,
    /// Print the lines of the audit's log, one JSON object each
    #[arg(long)]
    json: bool,
    /// Colour what failed: always, never, or on a terminal unless NO_COLOR is set
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: show::When,
}

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        results::begin(self.json);
        let look = Look {
            json: self.json,
            coloured: self.color.is_now(),
        };
        if self.follow {
            let directory = match self.state_dir {
                Some(directory) => directory,
                None => running::only_one()?,
            };
            return follow(&directory, &self.filter, look);
        }
        let files = match (self.file, self.state_dir) {
            (Some(file), _) => kept::named(&file)?,
            (None, Some(directory)) => kept::of(&directory)?,
            (None, None) => kept::of(&kept::only_one()?)?,
        };
        let mut page = Page::new(io::stdout().lock(), look);
        let mut chosen = self.filter.begin();
        let sound = kept::read(files, |line| {
            if chosen.takes(&line) {
                page.line(&line)?;
            }
            Ok(())
        })?;
        page.end()?;
        if page.is_empty() && !look.json {
            eprintln!("nothing of the audit is as asked for");
        }
        Ok(if sound {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

/// Prints what `filter` takes of what is audited from now on, until interrupted.
///
/// # Errors
/// No server, nothing audited, or the server has ended.
pub(crate) fn follow(directory: &Path, filter: &Filter, look: Look) -> anyhow::Result<ExitCode> {
    let socket = state_dir::control_socket(directory);
    let mut page = Page::new(io::stdout().lock(), look);
    let mut chosen = filter.begin();
    let begun = || eprintln!("following; interrupt to end");
    let outcome = control::follow_audit(&socket, begun, |line| {
        if !chosen.takes(&line) {
            return ControlFlow::Continue(());
        }
        match page.line(&line).and_then(|()| page.end()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    });
    match outcome.context("following the audit")? {
        // A reader that has gone is a way to end: exit.rs knows it.
        Some(error) => Err(error.into()),
        None => Err(anyhow::Error::msg(
            "the server has ended, and its audit with it",
        )),
    }
}
