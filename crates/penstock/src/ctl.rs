//! `penstock ctl`: asks and tells a running server, through its control socket.

mod audit;
mod cache;
mod clients;
mod exports;
mod figures;
mod held;
pub(crate) mod io;
mod trace;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nfs_server::exports::config::{LogLevel, from_word, word_of};
use nfs_server::exports::reload::ReloadReport;
use nfs_server::host::state_dir;
use nfs_server::metrics;
use nfs_server::operate::control::{
    self, Command, HeldQuery, Status, TraceChange, VerifierOrder, VerifierStatus,
};

use crate::exit::UsageError;
use crate::{results, running};

/// Ask or tell a running server
///
/// The server is found by its state directory. Without --state-dir the only server that runs under
/// the default base (/var/lib/penstock for root, else ~/.local/state/penstock) is meant; if there
/// are several they are listed.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// State directory of the server
    #[arg(long, value_name = "DIR", global = true)]
    state_dir: Option<PathBuf>,
    /// Print the server's answer as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Show the server: engine, addresses, memory, counters, how long calls took, how bytes were moved
    Status,
    /// Show all figures of the moment in the text format of Prometheus, as /metrics has them; docs/metrics.md has a
    /// list of them
    Metrics,
    /// Show the exports, with who may do what; add one, or remove one
    Exports {
        #[command(subcommand)]
        action: Option<exports::Action>,
    },
    /// Show the clients that are connected, and NFSv4's; shut hosts out, or send them away
    Clients {
        #[command(subcommand)]
        action: Option<clients::Action>,
    },
    /// Show how far the time after a restart is in which NFSv4 clients reclaim what they held
    ///
    /// Until all have come back, or the time is over, nobody gets anything new.
    Grace {
        #[command(subcommand)]
        action: Option<held::GraceAction>,
    },
    /// Show what NFSv4 clients have open, with what each open denies to others
    Opens(held::Part),
    /// Show what is locked in the files that NFSv4 clients have open, by them and by local programs
    Locks(held::Part),
    /// End what an NFSv4 client holds, at once: its opens, its locks, its sessions
    ///
    /// It finds that out with its next request, and begins anew. Its programs get errors for files that they had
    /// locked.
    Expire {
        /// Its id or its name, as `penstock ctl clients nfs4` shows them
        #[arg(value_name = "CLIENT")]
        client: String,
    },
    /// Show what is in the open-file cache, or drop a file from it
    Cache {
        #[command(subcommand)]
        action: cache::Action,
    },
    /// Show the write verifier, or change it
    ///
    /// The server tells it with every UNSTABLE WRITE and every COMMIT. A client that sees another one than before sends
    /// again all that it wrote and has not committed.
    Verifier {
        /// Change it, so that every client sends its uncommitted data again: when a disk or its cache has lost data
        /// and nothing told the server. It costs them that much writing, and loses nothing
        #[arg(long)]
        change: bool,
        /// Confirm the change
        #[arg(long, requires = "change")]
        yes: bool,
    },
    /// Read the configuration again; a wrong one changes nothing
    Reload,
    /// Take no new connections, finish what is under way, end
    Drain,
    /// Show how much is logged, or change it
    LogLevel {
        /// error, warn, info, debug or trace; unless given, the level is only shown
        #[arg(value_parser = |word: &str| from_word(word, LogLevel::WORDS))]
        level: Option<LogLevel>,
    },
    Io(Box<io::Args>),
    /// Show who creates, removes, renames and changes what
    ///
    /// For the exports whose configuration says `audit = "changes"` or "all". The same goes to the log of the
    /// audit, a file of JSON lines in the state directory or the journal.
    Audit {
        #[command(subcommand)]
        action: audit::Action,
    },
    /// Show what calls do, event by event or step by step
    ///
    /// The events, of READ, WRITE and COMMIT, have the names of the Linux kernel's server (nfsd:*). While nobody
    /// listens they cost nothing.
    Trace {
        #[command(subcommand)]
        action: trace::Action,
    },
}

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        results::begin(self.json);
        let command = self.action.command()?;
        let directory = match self.state_dir {
            Some(directory) => directory,
            None => running::only_one()?,
        };
        let action = match self.action {
            Action::Trace { action } => return action.run(&directory, self.json),
            Action::Audit { action } => return action.run(&directory, self.json),
            Action::Io(args) if args.wants_counters() => return args.count(&directory, self.json),
            other => other,
        };
        let mut out = std::io::stdout().lock();
        if self.json {
            let is_snapshot = matches!(command, Command::Metrics);
            let mut answer: serde_json::Value = ask(&directory, command)?;
            if is_snapshot {
                results::date(&mut answer);
            }
            writeln!(out, "{answer}")?;
            return Ok(ExitCode::SUCCESS);
        }
        match action {
            Action::Status => print_status(&mut out, &ask(&directory, command)?)?,
            Action::Metrics => {
                let snapshot = ask(&directory, command)?;
                write!(out, "{}", metrics::prometheus(&snapshot))?;
            }
            Action::Exports { action } => exports::run(&mut out, &directory, action, command)?,
            Action::Clients { action } => clients::run(&mut out, &directory, action, command)?,
            Action::Grace { .. } | Action::Opens(_) | Action::Locks(_) | Action::Expire { .. } => {
                if let Command::Held(query) = command {
                    held::run(&mut out, &directory, query)?;
                }
            }
            Action::Cache { action } => cache::run(&mut out, &directory, action.query())?,
            Action::Verifier { .. } => {
                let VerifierStatus { verifier, changes } = ask(&directory, command)?;
                writeln!(out, "{verifier}, changed {changes} times since the start")?;
            }
            Action::Reload => print_reload(&mut out, &ask(&directory, command)?)?,
            Action::Drain => {
                ask::<()>(&directory, command)?;
                writeln!(out, "draining")?;
            }
            Action::LogLevel { .. } => {
                let level = ask::<LogLevel>(&directory, command)?;
                writeln!(out, "{}", word_of(level, LogLevel::WORDS))?;
            }
            Action::Trace { .. } | Action::Audit { .. } => ask::<()>(&directory, command)?,
            Action::Io(_) => match &command {
                Command::IoWhy(_) => io::print_why(&mut out, &ask(&directory, command)?)?,
                Command::IoSet(_) => io::print_changed(&mut out, &ask(&directory, command)?)?,
                _ => io::print_states(&mut out, &ask::<Vec<_>>(&directory, command)?)?,
            },
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Action {
    fn command(&self) -> anyhow::Result<Command> {
        Ok(match self {
            Self::Status => Command::Status,
            Self::Metrics => Command::Metrics,
            Self::Exports { action } => exports::command(action.as_ref())?,
            Self::Clients { action } => clients::command(action.as_ref()),
            Self::Grace { action } => Command::Held(held::grace_query(*action)),
            Self::Opens(part) => Command::Held(HeldQuery::Opens(part.page())),
            Self::Locks(part) => Command::Held(HeldQuery::Locks(part.page())),
            Self::Expire { client } => Command::Held(HeldQuery::Expire(client.clone())),
            Self::Verifier {
                change: true,
                yes: false,
            } => {
                let message = "every client would send again all that it wrote UNSTABLE and has not committed; say \
                               --change --yes if that is wanted";
                return Err(UsageError(message.to_owned()).into());
            }
            Self::Cache { action } => Command::Cache(action.query()),
            Self::Verifier { change, .. } => Command::Verifier(VerifierOrder { change: *change }),
            Self::Reload => Command::Reload,
            Self::Drain => Command::Drain,
            Self::LogLevel { level } => Command::LogLevel(*level),
            Self::Io(args) => args.command()?,
            // Its subcommands make their own.
            Self::Trace { .. } => Command::Trace(TraceChange::List),
            Self::Audit { .. } => Command::AuditFollow,
        })
    }
}

fn ask<T: serde::de::DeserializeOwned>(directory: &Path, command: Command) -> anyhow::Result<T> {
    let socket = state_dir::control_socket(directory);
    Ok(control::request(&socket, command)?)
}

fn print_status(out: &mut impl Write, status: &Status) -> std::io::Result<()> {
    let addresses: Vec<String> = status.listeners.iter().map(ToString::to_string).collect();
    let state = match status.state {
        control::Listening::Serving => "serving",
        control::Listening::Draining => "draining",
    };
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let rows = [
        (
            "server",
            format!("penstock {}, process {}", status.version, status.pid),
        ),
        ("state", format!("{state} for {} s", status.uptime_seconds)),
        ("addresses", addresses.join(" ")),
        ("exports", status.exports.to_string()),
        ("connections", status.connections.to_string()),
        ("blocked", clients::blocked_in_short(&status.blocked)),
        ("shards", shards_in_words(status)),
        ("TCP", tcp_in_words(status)),
        ("engine", status.engine.clone()),
        ("handles", status.handles.clone()),
        ("capabilities", status.capabilities.clone()),
        ("verifier", status.verifier.clone()),
        (
            "buffers",
            format!(
                "{} of {} in use, {} at most so far",
                mib(status.memory.in_use_bytes),
                mib(status.memory.budget_bytes),
                mib(status.memory.peak_bytes)
            ),
        ),
        ("state dir", status.state_dir.display().to_string()),
    ];
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        writeln!(out, "{name:<14}{value}")?;
    }
    for part in &status.confinement {
        writeln!(out, "{part}")?;
    }
    if !status.counters.is_empty() {
        writeln!(out, "counters")?;
    }
    let width = status.counters.keys().map(String::len).max().unwrap_or(0);
    for (name, value) in &status.counters {
        writeln!(out, "  {name:<width$}  {value}")?;
    }
    figures::print_procedures(out, "PROCEDURE", &status.procedures)?;
    figures::print_procedures(out, "NFSv4 OPERATION", &status.operations)?;
    figures::print(out, &status.io)
}

fn shards_in_words(status: &Status) -> String {
    let (shards, time) = (status.shards, status.busy_poll_us);
    match (time, status.busy_poll_is_auto) {
        (0, false) => shards.to_string(),
        (0, true) => {
            format!("{shards}, none polls: the processor time of the control group is limited")
        }
        (_, true) => {
            format!("{shards}, each polls for {time} us before it sleeps while it has much to do")
        }
        (_, false) => format!("{shards}, each polls for {time} us before it sleeps"),
    }
}

/// Nothing where the operator has chosen nothing.
fn tcp_in_words(status: &Status) -> String {
    let chosen = status.congestion_control.as_deref();
    chosen.map_or(String::new(), |name| {
        format!("replies are sent with {name}")
    })
}

fn print_reload(out: &mut impl Write, report: &ReloadReport) -> std::io::Result<()> {
    let Some(file) = &report.file else {
        return writeln!(
            out,
            "nothing to reload: the server was started from flags alone"
        );
    };
    writeln!(out, "{} is in effect", file.display())?;
    let lists = [
        ("added", &report.added),
        ("removed", &report.removed),
        ("changed", &report.changed),
    ];
    for (what, pseudos) in lists.into_iter().filter(|(_, pseudos)| !pseudos.is_empty()) {
        writeln!(out, "  {what}: {}", pseudos.join(" "))?;
    }
    if !report.needs_restart.is_empty() {
        writeln!(
            out,
            "  after a restart only: {}",
            report.needs_restart.join(", ")
        )?;
    }
    for warning in &report.warnings {
        writeln!(out, "  warning: {warning}")?;
    }
    Ok(())
}
