//! `penstock ctl trace`: switches trace events of a server on and off, and follows them.

use std::io::{self, Write};
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use nfs_server::host::state_dir;
use nfs_server::operate::control::{
    self, Command, EventStatus, FollowRequest, RecorderLevel, TraceChange, TraceLine, TraceStatus,
    check_event,
};

use super::ask;
use crate::trace::TreeArgs;

#[derive(clap::Subcommand, Debug)]
pub(super) enum Action {
    /// Send events to the server's log
    On {
        /// Names of events, separated by commas, or all
        #[arg(required = true, value_name = "EVENT", value_delimiter = ',', value_parser = check_event)]
        events: Vec<String>,
    },
    /// Send events to the server's log no more
    Off {
        /// Names of events, separated by commas; without any, all of them
        #[arg(value_name = "EVENT", value_delimiter = ',', value_parser = check_event)]
        events: Vec<String>,
    },
    /// Show what there is, what it means and what is on
    List,
    /// Show what single calls do, step by step, and how long each step takes
    ///
    /// As `penstock trace` does.
    Tree(TreeArgs),
    /// Show the last calls, as the flight recorder has them, and those under way
    ///
    /// With the steps that may wait, or all of them where that is asked for. The same as `tree --recorded`.
    Dump,
    /// Show or change what the flight recorder keeps of calls that nobody follows
    Recorder {
        /// off: nothing; waits: every call, with the steps that may wait or ask the kernel; all: with all steps
        #[arg(value_parser = level)]
        level: Option<RecorderLevel>,
    },
    /// Print events as they happen, until interrupted
    ///
    /// The events are on for as long as this runs, whatever goes to the server's log. Who reads them too
    /// slowly loses some and is told how many; the server waits for nobody.
    Follow {
        /// Names of events, separated by commas, or all
        #[arg(value_name = "EVENT", value_delimiter = ',', value_parser = check_event, default_value = "all")]
        events: Vec<String>,
        /// Only calls on this export (the path that clients mount)
        #[arg(long, value_name = "PATH")]
        export: Option<String>,
        /// Only calls that come from this address
        #[arg(long, value_name = "ADDR")]
        client: Option<IpAddr>,
    },
}

impl Action {
    pub(super) fn run(self, directory: &Path, json: bool) -> anyhow::Result<ExitCode> {
        let change = match self {
            Self::On { events } => TraceChange::On(events),
            Self::Off { events } => TraceChange::Off(events),
            Self::List => TraceChange::List,
            Self::Tree(tree) => return tree.run(directory, json),
            Self::Dump => return TreeArgs::all_recorded().run(directory, json),
            Self::Recorder { level } => return recorder(directory, level, json),
            Self::Follow {
                events,
                export,
                client,
            } => {
                let request = FollowRequest {
                    events,
                    export,
                    client,
                };
                return follow(directory, request, json);
            }
        };
        let is_list = change == TraceChange::List;
        let mut out = io::stdout().lock();
        let command = Command::Trace(change);
        if json {
            let answer: serde_json::Value = ask(directory, command)?;
            writeln!(out, "{answer}")?;
        } else {
            let status: TraceStatus = ask(directory, command)?;
            if is_list {
                print_events(&mut out, &status)?;
            } else {
                print_logged(&mut out, &status)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn level(word: &str) -> Result<RecorderLevel, String> {
    match word {
        "off" => Ok(RecorderLevel::Off),
        "waits" => Ok(RecorderLevel::Waits),
        "all" => Ok(RecorderLevel::All),
        _ => Err(format!("'{word}' is not off, waits or all")),
    }
}

fn recorder(
    directory: &Path,
    level: Option<RecorderLevel>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let level: RecorderLevel = ask(directory, Command::Recorder(level))?;
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string(&level)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let words = match level {
        RecorderLevel::Off => "off: calls are recorded only while somebody follows them",
        RecorderLevel::Waits => "waits: of every call the steps that may wait or ask the kernel",
        RecorderLevel::All => "all: of every call all steps",
    };
    writeln!(out, "{words}")?;
    Ok(ExitCode::SUCCESS)
}

fn follow(directory: &Path, request: FollowRequest, json: bool) -> anyhow::Result<ExitCode> {
    let socket = state_dir::control_socket(directory);
    let mut out = io::stdout().lock();
    let begun = || eprintln!("following; interrupt to end");
    let outcome = control::follow(&socket, request, begun, |line| {
        match print_line(&mut out, &line, json) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    });
    match outcome.context("penstock ctl")? {
        // A reader that has gone is a way to end: exit.rs knows it.
        Some(error) => Err(error.into()),
        None => Err(anyhow::Error::msg(
            "the server has ended, and the trace with it",
        )),
    }
}

fn print_line(out: &mut impl Write, line: &TraceLine, json: bool) -> io::Result<()> {
    if json {
        serde_json::to_writer(&mut *out, line)?;
        writeln!(out)?;
    } else {
        writeln!(out, "{line}")?;
    }
    out.flush()
}

fn print_events(out: &mut impl Write, status: &TraceStatus) -> io::Result<()> {
    for event in &status.events {
        let on = on(event);
        writeln!(out, "{:<18}{on:<12}{}", event.name, event.meaning)?;
    }
    if status.lost > 0 {
        writeln!(
            out,
            "{} events lost so far: they came faster than somebody read them",
            status.lost
        )?;
    }
    Ok(())
}

/// Where an event goes, in a few words.
fn on(event: &EventStatus) -> String {
    match (event.log, event.followers) {
        (false, 0) => "off".to_owned(),
        (true, 0) => "log".to_owned(),
        (false, followers) => format!("followed {followers}"),
        (true, followers) => format!("log, {followers}"),
    }
}

fn print_logged(out: &mut impl Write, status: &TraceStatus) -> io::Result<()> {
    let logged = status.events.iter().filter(|event| event.log);
    let names: Vec<&str> = logged.map(|event| event.name.as_str()).collect();
    if names.is_empty() {
        writeln!(out, "no trace event goes to the log")
    } else {
        writeln!(out, "to the log go: {}", names.join(" "))
    }
}
