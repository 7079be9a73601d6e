//! `penstock trace`: what single calls of a running server do, step by step; and, with `record`, a file of them.

mod record;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use nfs_server::host::state_dir;
use nfs_server::operate::control::{
    self, CallLine, CallQuery, ChromeTrace, FileNumber, check_call,
};

use crate::{results, running};

/// Show what single calls do, step by step, and how long each step takes
///
/// Each call is printed when its reply is sent, in the form of the Linux kernel's function graph: the steps in the
/// nesting of the code, each with its time. All steps of all calls are recorded for as long as this runs.
/// `penstock ctl trace tree` is the same command.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// State directory of the server. Default: that of the only one that runs
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Print one JSON object for each call
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    tree: TreeArgs,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    Record(record::Args),
}

/// Which calls are shown, how many and in which form.
#[derive(clap::Args, Debug)]
pub(crate) struct TreeArgs {
    /// Only these procedures, and COMPOUNDs with these operations; separated by commas
    #[arg(value_name = "CALL", value_delimiter = ',', value_parser = check_call)]
    calls: Vec<String>,
    /// Only calls on this export (the path that clients mount)
    #[arg(long, value_name = "PATH")]
    export: Option<String>,
    /// Only calls that come from this address
    #[arg(long, value_name = "ADDR")]
    client: Option<IpAddr>,
    /// Only calls on this file or directory: its path on the server's host, not as clients see it
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// Only calls that take this long or longer, as 500us, 10ms or 2s
    #[arg(long, value_name = "TIME", value_parser = time)]
    slower_than: Option<Duration>,
    /// Only the N calls that took longest, the slowest first, once the time is over; without --for that is 10 s
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    slowest: Option<u16>,
    /// End after this time, as 500ms or 10s
    #[arg(long = "for", value_name = "TIME", value_parser = time, conflicts_with = "recorded")]
    limit: Option<Duration>,
    /// End after so many calls
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "slowest")]
    count: Option<u64>,
    /// Show what the flight recorder has, the calls under way among them, instead of what happens from now on
    #[arg(long)]
    recorded: bool,
    /// Write the calls to this file instead, for Perfetto (ui.perfetto.dev) or chrome://tracing
    #[arg(long, value_name = "FILE")]
    chrome: Option<PathBuf>,
}

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if let Some(Action::Record(args)) = self.action {
            return args.run();
        }
        results::begin(self.json);
        let directory = match self.state_dir {
            Some(directory) => directory,
            None => running::only_one()?,
        };
        self.tree.run(&directory, self.json)
    }
}

/// Where calls go.
enum Sink {
    Lines,
    Json,
    Chrome(ChromeTrace<BufWriter<File>>),
}

impl TreeArgs {
    /// The calls that the flight recorder has, of all kinds.
    pub(crate) fn all_recorded() -> Self {
        Self {
            calls: Vec::new(),
            export: None,
            client: None,
            file: None,
            slower_than: None,
            slowest: None,
            limit: None,
            count: None,
            recorded: true,
            chrome: None,
        }
    }

    pub(crate) fn run(self, directory: &Path, json: bool) -> anyhow::Result<ExitCode> {
        let query = self.query()?;
        let mut left = self.count.unwrap_or(u64::MAX);
        let has_end = query.recorded || query.for_ms.is_some();
        let mut sink = match &self.chrome {
            Some(path) => {
                let file = File::create(path);
                let file = file.with_context(|| format!("cannot write {}", path.display()))?;
                Sink::Chrome(ChromeTrace::begin(BufWriter::new(file))?)
            }
            None if json => Sink::Json,
            None => Sink::Lines,
        };
        let begun = || {
            if !has_end {
                eprintln!("following; interrupt to end");
            }
        };
        let socket = state_dir::control_socket(directory);
        let ended = control::follow_calls(&socket, query, begun, |line| {
            if let Err(error) = sink.take(&line) {
                return ControlFlow::Break(Err(error));
            }
            left -= u64::from(matches!(line, CallLine::Call(_)));
            match left {
                0 => ControlFlow::Break(Ok(())),
                _ => ControlFlow::Continue(()),
            }
        });
        match ended.context("penstock trace")? {
            Some(outcome) => outcome?,
            None if has_end => {}
            None => anyhow::bail!("the server has ended, and the trace with it"),
        }
        if let Sink::Chrome(trace) = sink {
            trace.end()?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn query(&self) -> anyhow::Result<CallQuery> {
        let file = match &self.file {
            Some(path) => {
                let stat = std::fs::symlink_metadata(path);
                let stat = stat.with_context(|| format!("cannot look at {}", path.display()))?;
                Some(FileNumber {
                    dev: stat.dev(),
                    inode: stat.ino(),
                })
            }
            None => None,
        };
        /// How long the slowest calls are looked for where nothing is said.
        const SLOWEST_OF: Duration = Duration::from_secs(10);
        let is_live = !self.recorded;
        let limit = self.limit.or_else(|| {
            let wants_end = self.slowest.is_some() && is_live;
            wants_end.then_some(SLOWEST_OF)
        });
        let whole = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
        Ok(CallQuery {
            calls: self.calls.clone(),
            export: self.export.clone(),
            client: self.client,
            file,
            slower_than_us: self.slower_than.map(|time| whole(time.as_micros())),
            slowest: self.slowest.map(usize::from),
            for_ms: limit.map(|limit| whole(limit.as_millis())),
            recorded: self.recorded,
        })
    }
}

impl Sink {
    fn take(&mut self, line: &CallLine) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match self {
            Self::Lines => writeln!(out, "{line}")?,
            Self::Json => {
                serde_json::to_writer(&mut out, line)?;
                writeln!(out)?;
            }
            Self::Chrome(trace) => match line {
                CallLine::Call(call) => trace.add(call)?,
                CallLine::Lost { lost } => {
                    eprintln!("{lost} calls are missing: they came too fast")
                }
            },
        }
        out.flush()
    }
}

/// A time with its unit.
fn time(text: &str) -> Result<Duration, String> {
    let cure = || format!("'{text}' is not a time: write 500us, 10ms or 2s");
    let unit_at = text.find(|letter: char| !letter.is_ascii_digit());
    let (number, unit) = text.split_at(unit_at.unwrap_or(text.len()));
    let number: u64 = number.parse().map_err(|_| cure())?;
    match unit {
        "us" => Ok(Duration::from_micros(number)),
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        _ => Err(cure()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(time("500us"), Ok(Duration::from_micros(500)));
        assert_eq!(time("10ms"), Ok(Duration::from_millis(10)));
        assert_eq!(time("2s"), Ok(Duration::from_secs(2)));
        for wrong in ["", "2", "s", "-1s", "1 s", "1h", "99999999999999999999s"] {
            assert!(time(wrong).is_err(), "{wrong:?}");
        }
    }
}
