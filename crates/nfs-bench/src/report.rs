//! The report: a header that says where the figures come from, tables, or JSON with the same content.

use std::fmt::Write as _;
use std::process::Command;

use serde::Serialize;

use crate::counters::Memory;
use crate::sample::{Sample, Spread};
use crate::servers::Kind;
use crate::workload::Workload;

/// Without these beside it a figure means nothing.
#[derive(Debug, Serialize)]
pub struct Header {
    /// `uname -sr`.
    pub kernel: String,
    /// Cores of the machine.
    pub cpus: usize,
    /// Of the tree this was built from; `+` if the tree differs from it.
    pub commit: String,
    /// What is exported.
    pub file_system: String,
    /// Version of the peer, if it took part.
    pub ganesha: Option<String>,
    /// Length of one measurement.
    pub seconds: f64,
    /// How many there are of each.
    pub rounds: usize,
    /// Cores of load and server.
    pub cores: (usize, usize),
}

/// All rounds of one workload at one depth against one server.
#[derive(Debug, Serialize)]
pub struct Row {
    /// What was asked.
    pub workload: Workload,
    /// Calls in flight.
    pub depth: usize,
    /// Who was asked.
    pub server: Kind,
    /// One sample for each round.
    pub samples: Vec<Sample>,
    /// Server CPU time per call in microseconds, one for each round.
    pub cpu_us: Vec<f64>,
    /// System calls of the server per call.
    pub system_calls: Option<Vec<(String, f64)>>,
    /// Instructions of the server per call.
    pub instructions: Option<f64>,
}

/// A whole run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Where and how.
    pub header: Header,
    /// Bare TCP ping-pongs by message sizes: the floor of a depth-1 latency.
    pub floors: Vec<(Workload, Vec<Sample>)>,
    /// The measurements.
    pub rows: Vec<Row>,
    /// Memory of each server before and after the load.
    pub memory: Vec<(Kind, Memory, Memory)>,
    /// What could not be measured here, and why.
    pub missing: Vec<String>,
}

impl Report {
    /// As tables for people.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let h = &self.header;
        let peer = h.ganesha.as_deref().unwrap_or("not measured");
        let _ = writeln!(
            out,
            "kernel {}, {} cores (load on {}, server on {}), commit {}\nexport: {}; ganesha {}; {} rounds of {} s; median (min..max)\n",
            h.kernel,
            h.cpus,
            h.cores.0,
            h.cores.1,
            h.commit,
            h.file_system,
            peer,
            h.rounds,
            h.seconds
        );
        self.rates(&mut out);
        self.floors_text(&mut out);
        self.costs(&mut out);
        self.memory_text(&mut out);
        for missing in &self.missing {
            let _ = writeln!(out, "not measured: {missing}");
        }
        out
    }

    fn rates(&self, out: &mut String) {
        let _ = writeln!(
            out,
            "{:<22} {:>5} {:<19} {:>27} {:>8} {:>20} {:>20} {:>7}",
            "workload", "depth", "server", "calls/s", "x peer", "p50 us", "p99 us", "cpu us"
        );
        for row in &self.rows {
            let cpu = Spread::of(row.cpu_us.iter().copied())
                .map_or("-".into(), |s| format!("{:.1}", s.median));
            let _ = writeln!(
                out,
                "{:<22} {:>5} {:<19} {:>27} {:>8} {:>20} {:>20} {:>7}",
                row.workload.name(),
                row.depth,
                row.server.name(),
                Spread::cell(row.samples.iter().map(Sample::rate), 0),
                self.ratio(row),
                Spread::cell(row.samples.iter().map(|s| s.p50_us), 1),
                Spread::cell(row.samples.iter().map(|s| s.p99_us), 1),
                cpu
            );
        }
        out.push('\n');
    }

    /// Our median rate over the peer's.
    fn ratio(&self, row: &Row) -> String {
        let same = |r: &&Row| {
            r.workload == row.workload && r.depth == row.depth && r.server == Kind::Ganesha
        };
        let peer = self
            .rows
            .iter()
            .find(same)
            .and_then(|r| Spread::of(r.samples.iter().map(Sample::rate)));
        let own = Spread::of(row.samples.iter().map(Sample::rate));
        match (own, peer) {
            (Some(own), Some(peer)) if peer.median > 0.0 => {
                format!("{:.2}", own.median / peer.median)
            }
            _ => "-".to_owned(),
        }
    }

    fn floors_text(&self, out: &mut String) {
        for (workload, samples) in &self.floors {
            let (request, reply) = workload.message_bytes();
            let floor = Spread::of(samples.iter().map(|s| s.p50_us));
            let _ = writeln!(
                out,
                "bare TCP ping-pong, {request} and {reply} bytes: p50 {} us, p99 {} us; p50 of {} in these: {}",
                Spread::cell(samples.iter().map(|s| s.p50_us), 1),
                Spread::cell(samples.iter().map(|s| s.p99_us), 1),
                workload.name(),
                self.above_floor(*workload, floor).join(", ")
            );
        }
        out.push('\n');
    }

    /// Each server's median latency at depth 1 as a multiple of the floor's.
    fn above_floor(&self, workload: Workload, floor: Option<Spread>) -> Vec<String> {
        let rows = self
            .rows
            .iter()
            .filter(|row| row.workload == workload && row.depth == 1);
        rows.filter_map(|row| {
            let own = Spread::of(row.samples.iter().map(|s| s.p50_us))?;
            Some(format!(
                "{} {:.2}",
                row.server.name(),
                own.median / floor?.median
            ))
        })
        .collect()
    }

    fn costs(&self, out: &mut String) {
        for row in &self.rows {
            let Some(calls) = &row.system_calls else {
                continue;
            };
            let total: f64 = calls.iter().map(|(_, n)| n).sum();
            let list: Vec<String> = calls
                .iter()
                .filter(|(_, n)| *n >= 0.01)
                .map(|(name, n)| format!("{name} {n:.2}"))
                .collect();
            let instructions = row
                .instructions
                .map_or(String::new(), |n| format!("; {n:.0} instructions"));
            let _ = writeln!(
                out,
                "per {} at depth {}, {}: {total:.2} system calls ({}){instructions}",
                row.workload.name(),
                row.depth,
                row.server.name(),
                list.join(", ")
            );
        }
        out.push('\n');
    }

    fn memory_text(&self, out: &mut String) {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        for (kind, rest, load) in &self.memory {
            let _ = writeln!(
                out,
                "resident memory of {}: {:.1} MiB at rest, {:.1} MiB at most under load",
                kind.name(),
                mib(rest.resident_bytes),
                mib(load.peak_bytes)
            );
        }
    }
}

/// The commit of the working tree, with `+` if the tree differs from it.
pub fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else {
        return "unknown".to_owned();
    };
    let changed = git(&["status", "--porcelain"]).is_some_and(|status| !status.is_empty());
    format!("{commit}{}", if changed { "+" } else { "" })
}
