//! `penstock top`: what a running server does, as it does it.
//!
//! Three threads tell of keys, signals and figures; the main thread alone has the screen. The rates are
//! [`nfs_server::operate::live`]'s, as on the web page.

mod batch;
mod curves;
mod draw;
mod feed;
mod format;
mod screen;
mod spread;
mod table;
mod view;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use crate::exit::UsageError;
use crate::show::When;
use crate::{results, running};

use table::Tab;

/// Watch a running server: exports, clients, procedures, modes, latencies
///
/// The server is found by its state directory, as by `penstock ctl`. Whoever may only look (a member of the status
/// socket's group) sees the same, and changes nothing. `?` shows the keys, `m` changes the mode of an export, after
/// a confirmation.
///
/// With --batch or --json nothing is drawn: two looks, an interval apart, give one page of text or one JSON object.
#[derive(clap::Args, Debug)]
#[command(after_help = "NO_COLOR in the environment, if it is not empty, has no colours used.")]
pub(crate) struct Args {
    /// State directory of the server. Default: that of the only server that runs
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Time between two looks at the server, from 0.1 to 30 seconds
    #[arg(long, short = 'd', value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
    /// What is shown first, or by --batch, which shows procedures for latency
    #[arg(long, value_name = "VIEW", default_value = "exports")]
    view: ViewName,
    /// Print one page and end
    #[arg(long)]
    batch: bool,
    /// Print one JSON object and end
    #[arg(long)]
    json: bool,
    /// Only rows whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// When colours are used
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: When,
}

/// The views by the names that they have on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ViewName {
    Exports,
    Clients,
    Procedures,
    Modes,
    Latency,
}

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        results::begin(self.json);
        let directory = match &self.state_dir {
            Some(directory) => directory.clone(),
            None => running::only_one()?,
        };
        let door = feed::Door::new(&directory);
        if self.batch || self.json {
            return batch::run(&self, &door);
        }
        if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
            let message =
                "top draws on a terminal, and this is none; use --batch or --json in a script";
            return Err(UsageError(message.to_owned()).into());
        }
        screen::run(&self, &directory, door)
    }
}

impl ViewName {
    const fn tab(self) -> Tab {
        match self {
            Self::Exports => Tab::Exports,
            Self::Clients => Tab::Clients,
            Self::Procedures => Tab::Procedures,
            Self::Modes => Tab::Modes,
            Self::Latency => Tab::Latency,
        }
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok();
    let seconds = seconds.filter(|seconds| (0.1..=30.0).contains(seconds));
    let seconds = seconds.ok_or("a number of seconds from 0.1 to 30 is wanted")?;
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests;
