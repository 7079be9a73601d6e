//! `penstock status`: one page about a running server, for whoever may look.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use nfs_server::host::state_dir;
use nfs_server::metrics::{
    self, CLIENT_BYTES, CLIENT_OPERATIONS, Definition, Sample, Snapshot, Value,
};
use nfs_server::operate::control::{self, Command, ControlError, Listening, Status};
use serde::de::DeserializeOwned;

use crate::{limits, results, running};

/// Show how a running server is, on one page
///
/// What it serves, how much is asked of it and by whom, what fails, and how memory is; all counted since its start.
/// Whoever is in the group of the server's `status_group` may ask too. `penstock ctl status` and `penstock ctl
/// metrics` tell everything.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// State directory of the server. Default: that of the only server that runs below /var/lib/penstock or
    /// ~/.local/state/penstock
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Print the state and all figures as JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        results::begin(self.json);
        let directory = match self.state_dir {
            Some(directory) => directory,
            None => running::only_one_to_look_at()?,
        };
        let status: Status = ask(&directory, &Command::Status)?;
        let snapshot: Snapshot = ask(&directory, &Command::Metrics)?;
        let mut out = std::io::stdout().lock();
        if self.json {
            let mut metrics = serde_json::to_value(&snapshot)?;
            results::date(&mut metrics);
            let answer = serde_json::json!({ "status": status, "metrics": metrics });
            writeln!(out, "{answer}")?;
        } else {
            print(&mut out, &status, &snapshot)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Asks over the control socket and, where that is not ours, over the status socket.
fn ask<T: DeserializeOwned>(directory: &Path, command: &Command) -> anyhow::Result<T> {
    let control = state_dir::control_socket(directory);
    let answer = match control::request(&control, command.clone()) {
        Err(ControlError::Connect { .. }) => {
            control::request(&state_dir::status_socket(directory), command.clone())
        }
        answer => answer,
    };
    answer.context("penstock status")
}

fn print(out: &mut impl Write, status: &Status, figures: &Snapshot) -> std::io::Result<()> {
    let state = match status.state {
        Listening::Serving => "serving",
        Listening::Draining => "draining",
    };
    let addresses: Vec<String> = status.listeners.iter().map(ToString::to_string).collect();
    let sum = |of: &Definition| figures.sum(of, &[]);
    writeln!(
        out,
        "penstock {}, process {}, {state} for {}",
        status.version,
        status.pid,
        time(status.uptime_seconds as f64)
    )?;
    writeln!(out, "addresses    {}", addresses.join(" "))?;
    writeln!(
        out,
        "load         {} connections, {} calls that wait, {} of processor time",
        status.connections,
        sum(&metrics::CALLS_RUNNING),
        time(sum(&metrics::PROCESS_CPU))
    )?;
    let budget = status.memory.budget_bytes as f64;
    writeln!(
        out,
        "memory       {} resident; buffers {} of {}",
        bytes(sum(&metrics::PROCESS_RESIDENT)),
        bytes(status.memory.in_use_bytes as f64),
        bytes(budget)
    )?;
    let (hits, misses) = (
        sum(&metrics::FILE_CACHE_HITS),
        sum(&metrics::FILE_CACHE_MISSES),
    );
    writeln!(
        out,
        "open files   {} objects cached, {} of {} descriptors, {} found in the cache",
        sum(&metrics::FILE_CACHE_OBJECTS),
        sum(&metrics::FILE_CACHE_DESCRIPTORS),
        sum(&metrics::FILE_CACHE_DESCRIPTORS_LIMIT),
        part(hits, hits + misses)
    )?;
    print_exports(out, figures)?;
    print_clients(out, figures)?;
    print_troubles(out, figures)
}

/// A row for each export that was used, and one for each of its errors.
fn print_exports(out: &mut impl Write, figures: &Snapshot) -> std::io::Result<()> {
    let exports = by_label(figures, &metrics::OPERATIONS, "export");
    let exports: Vec<_> = exports
        .into_iter()
        .filter(|(export, _)| !export.is_empty())
        .collect();
    if exports.is_empty() {
        return writeln!(out, "\nnothing was asked of any export yet");
    }
    let width = exports.iter().map(|(export, _)| export.len()).max();
    let width = width.unwrap_or(0).max("EXPORT".len());
    writeln!(
        out,
        "\n{:<width$}  {:>12}  {:>10}  {:>10}  {:>10}",
        "EXPORT", "OPERATIONS", "FAILED", "READ", "WRITTEN"
    )?;
    for (export, operations) in &exports {
        let labels = [("export", export.as_str())];
        writeln!(
            out,
            "{export:<width$}  {operations:>12}  {:>10}  {:>10}  {:>10}",
            figures.sum(&metrics::OPERATION_ERRORS, &labels),
            bytes(figures.sum(&metrics::READ_BYTES, &labels)),
            bytes(figures.sum(&metrics::WRITTEN_BYTES, &labels))
        )?;
    }
    Ok(())
}

/// The clients that asked for most.
fn print_clients(out: &mut impl Write, figures: &Snapshot) -> std::io::Result<()> {
    let clients = by_label(figures, &CLIENT_OPERATIONS, "client");
    let mut clients: Vec<_> = clients
        .into_iter()
        .filter(|(_, calls)| *calls > 0.0)
        .collect();
    clients.sort_by(|one, other| other.1.total_cmp(&one.1));
    if clients.is_empty() {
        return Ok(());
    }
    let left_out = clients
        .len()
        .saturating_sub(limits::STATUS_CLIENTS_SHOWN_MAX);
    clients.truncate(limits::STATUS_CLIENTS_SHOWN_MAX);
    let width = clients.iter().map(|(client, _)| client.len()).max();
    let width = width.unwrap_or(0).max("CLIENT".len());
    writeln!(
        out,
        "\n{:<width$}  {:>12}  {:>10}  {:>10}",
        "CLIENT", "CALLS", "RECEIVED", "SENT"
    )?;
    for (client, calls) in &clients {
        let moved = |direction| {
            let labels = [("client", client.as_str()), ("direction", direction)];
            bytes(figures.sum(&CLIENT_BYTES, &labels))
        };
        let (received, sent) = (moved("received"), moved("sent"));
        writeln!(
            out,
            "{client:<width$}  {calls:>12}  {received:>10}  {sent:>10}"
        )?;
    }
    if left_out > 0 {
        writeln!(out, "and {left_out} more")?;
    }
    Ok(())
}

/// What is not as it should be: all of it counted, and none of it where all is well.
fn print_troubles(out: &mut impl Write, figures: &Snapshot) -> std::io::Result<()> {
    let mut troubles = Vec::new();
    for (limit, times) in by_label(figures, &metrics::REFUSALS, "limit") {
        troubles.push((times, format!("refused at the limit of {limit}")));
    }
    for (status, times) in by_label(figures, &metrics::OPERATION_ERRORS, "status") {
        if ["NFS3ERR_IO", "NFS4ERR_IO"].contains(&status.as_str()) {
            troubles.push((times, format!("operations failed with {status}")));
        }
    }
    for (reason, times) in by_label(figures, &metrics::IO_FALLBACKS, "reason") {
        troubles.push((times, format!("READs or WRITEs fell back ({reason})")));
    }
    let verifier = figures.sum(&metrics::VERIFIER_CHANGES, &[]);
    troubles.push((
        verifier,
        "changes of the write verifier: data may be lost".to_owned(),
    ));
    let system_calls = figures.sum(&metrics::SYSTEM_CALLS_REFUSED, &[]);
    troubles.push((
        system_calls,
        "system calls refused by the confinement".to_owned(),
    ));
    troubles.retain(|(times, _)| *times > 0.0);
    if troubles.is_empty() {
        return writeln!(out, "\nnothing was refused, and no input or output failed");
    }
    writeln!(out)?;
    for (times, what) in troubles {
        writeln!(out, "{times:>12}  {what}")?;
    }
    Ok(())
}

/// The sums of a family's numbers by the values of one label, in their order.
fn by_label(figures: &Snapshot, of: &Definition, label: &str) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    let samples = figures
        .family(of)
        .into_iter()
        .flat_map(|family| &family.samples);
    for Sample { labels, value } in samples {
        if let (Some(word), Value::Number(number)) = (labels.get(label), value) {
            *sums.entry(word.clone()).or_default() += number.as_f64();
        }
    }
    sums
}

fn bytes(count: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = count;
    for unit in units {
        if value < 1024.0 || unit == "PiB" {
            let digits = usize::from(unit != "B");
            return format!("{value:.digits$} {unit}");
        }
        value /= 1024.0;
    }
    String::new()
}

/// A time in the two largest units that fit.
fn time(seconds: f64) -> String {
    let whole = Duration::try_from_secs_f64(seconds).map_or(0, |time| time.as_secs());
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        3600..86400 => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
        _ => format!("{} d {} h", whole / 86400, whole % 86400 / 3600),
    }
}

fn part(of: f64, all: f64) -> String {
    if all > 0.0 {
        format!("{:.1} %", 100.0 * of / all)
    } else {
        "none".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use nfs_server::metrics::Builder;

    use super::*;

    #[test]
    fn a_page_says_who_asks_for_what_and_what_fails() {
        let mut builder = Builder::default();
        builder.number(&metrics::OPERATIONS, &["/a", "READ", "3", "direct"], 7);
        builder.number(&metrics::OPERATIONS, &["", "NULL", "3", ""], 1);
        builder.number(
            &metrics::OPERATION_ERRORS,
            &["/a", "READ", "3", "NFS3ERR_IO"],
            2,
        );
        builder.number(&metrics::READ_BYTES, &["/a", "direct"], 3 << 20);
        builder.number(&metrics::REFUSALS, &["connections"], 4);
        for client in 0..20 {
            builder.number(&CLIENT_OPERATIONS, &[&format!("10.0.0.{client}")], client);
        }
        let mut out = Vec::new();
        print(&mut out, &Status::default(), &builder.build()).unwrap();
        let page = String::from_utf8(out).unwrap();
        for expected in [
            "/a                 7           2     3.0 MiB         0 B",
            "10.0.0.19",
            "2  operations failed with NFS3ERR_IO",
            "4  refused at the limit of connections",
        ] {
            assert!(page.contains(expected), "{expected} in\n{page}");
        }
        let shown = page
            .lines()
            .filter(|line| line.starts_with("10.0.0."))
            .count();
        assert_eq!(shown, limits::STATUS_CLIENTS_SHOWN_MAX);
        assert!(!page.contains("verifier"), "{page}");
    }

    #[test]
    fn an_idle_server_has_a_page_too() {
        let mut out = Vec::new();
        print(&mut out, &Status::default(), &Snapshot::default()).unwrap();
        let page = String::from_utf8(out).unwrap();
        assert!(
            page.contains("nothing was asked of any export yet"),
            "{page}"
        );
        assert!(
            page.ends_with("nothing was refused, and no input or output failed\n"),
            "{page}"
        );
    }

    #[test]
    fn times_and_sizes_are_short() {
        let times = [
            (0.5, "0.5 s"),
            (61.0, "1 min 1 s"),
            (7260.0, "2 h 1 min"),
            (90_000.0, "1 d 1 h"),
        ];
        for (seconds, expected) in times {
            assert_eq!(time(seconds), expected);
        }
        for (count, expected) in [(0.0, "0 B"), (1536.0, "1.5 KiB"), (3e18, "2664.5 PiB")] {
            assert_eq!(bytes(count), expected);
        }
    }
}
