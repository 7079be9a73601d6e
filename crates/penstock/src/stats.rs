//! `penstock stats`: what a mount tells about itself.

mod find;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use nfs_client::Statistics;

use self::find::Found;
use crate::show::{self, STANDARD_OUTPUT};
use crate::statistics::figures::Figures;
use crate::statistics::page::page;

/// Show what a mount of `penstock mount` does: operations, latencies, windows
///
/// The words are those of nfsiostat and mountstats: avg RTT is from the moment a
/// call is sent until its reply is there, avg queue is what it waited before
/// that, avg exe is both; retrans is what was sent again. A kB is 1024 bytes.
/// With an INTERVAL, the first page is about all the time since the export was
/// mounted, each further one about the time since the one before.
///
/// DIR may be any path in the mount. Whoever mounted may look, and root. The
/// mount itself is not asked, so that this works while the server does not
/// answer.
///
/// Examples:
///
///   penstock stats /mnt
///
///   penstock stats /mnt/photos 5
///
///   penstock stats --json /mnt 1 60 | jq '.operations[] | [.name, .rtt.p99_ms]'
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, after_long_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Print one JSON object for each page: docs/client.md describes it
    #[arg(long)]
    json: bool,

    /// A directory or file in the mount
    dir: PathBuf,

    /// Go on, with a page every INTERVAL seconds
    #[arg(value_parser = crate::session::seconds)]
    interval: Option<Duration>,

    /// End after so many pages
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

const AFTER_HELP: &str = "\
Exit codes: 0 done, 1 DIR is in no mount of penstock, the mount is another
user's, or its process does not answer, 2 wrong usage.";

impl Args {
    /// Shows the pages that were asked for.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the event loop")?;
        let shown = runtime.block_on(self.pages());
        // A look at a mount that hangs must not hold this up.
        runtime.shutdown_background();
        match shown {
            Err(error) if show::is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
            shown => shown.map(|()| ExitCode::SUCCESS),
        }
    }

    async fn pages(&self) -> anyhow::Result<()> {
        let found = Found::of(&self.dir)?;
        let pages = self.count.or(self.interval.is_none().then_some(1));
        let mut tick = self.interval.map(tokio::time::interval);
        let mut before: Option<Statistics> = None;
        let mut shown = 0;
        while pages.is_none_or(|pages| shown < pages) {
            if let Some(tick) = &mut tick {
                tick.tick().await;
            }
            let figures = found.ask().await?;
            let now = figures.statistics();
            let new = before.as_ref().and_then(|before| now.since(before));
            self.show(&figures, new.as_ref(), shown > 0)?;
            before = Some(now);
            shown += 1;
        }
        Ok(())
    }

    /// Shows what is `new`, or all of it where nothing was shown before.
    fn show(&self, figures: &Figures, new: Option<&Statistics>, again: bool) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        if self.json {
            let new = new.map(|new| Figures::new(figures.about.clone(), figures.at_unix_ms, new));
            let line = serde_json::to_string(new.as_ref().unwrap_or(figures))?;
            return writeln!(out, "{line}").context(STANDARD_OUTPUT);
        }
        if again {
            writeln!(out)?;
        }
        let text = match new {
            Some(new) => page(&figures.about, new, false),
            None => page(&figures.about, &figures.statistics(), true),
        };
        out.write_all(text.as_bytes())?;
        out.flush()?;
        Ok(())
    }
}
