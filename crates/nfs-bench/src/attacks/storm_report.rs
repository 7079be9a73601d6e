//! The report of a storm: a table for each server, a picture of all of them over time, everything as JSON.

use std::fmt;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use super::failures::Failures;
use super::polite::Asked;
use super::storm::{Figures, Phase, Point, REST_SECONDS, Reason};
use crate::baseline::run::Kind;
use crate::summary::plot::{Line, Panel, svg};
use crate::summary::{self, Summary};
use crate::turns::Machine;
use nfs_load::table::Table;

/// The machine and the settings of a run.
#[derive(Debug, Serialize)]
pub struct Header {
    /// The machine that the run took place on.
    #[serde(flatten)]
    pub machine: Machine,
    /// Kind of the file system that is exported.
    pub file_system: String,
    /// Length of the storm in seconds.
    pub seconds: u64,
    /// Silent and half-open connections that the admitted attackers want.
    pub connections: usize,
    /// Length of the whole run in seconds.
    pub run_seconds: f64,
}

/// What became of one server and its polite client.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The server.
    pub server: Kind,
    /// A look every second.
    pub points: Vec<Point>,
    /// Each phase as a whole: what every one of [`Asked::ALL`] came to.
    pub phases: Vec<(Phase, Vec<Figures>)>,
    /// Why calls of the polite client failed.
    pub reasons: Vec<Reason>,
}

/// The result of a whole run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The machine and the settings of the run.
    pub header: Header,
    /// One for each server.
    pub rows: Vec<Row>,
    /// What could not be measured here, and why: a server that died among it.
    pub missing: Vec<String>,
}

impl Row {
    /// A row without figures.
    pub fn new(server: Kind) -> Self {
        Self {
            server,
            points: Vec::new(),
            phases: Vec::new(),
            reasons: Vec::new(),
        }
    }

    /// Notes why calls of a kind failed in a phase.
    pub fn note_failures(&mut self, phase: Phase, asked: Asked, failed: &Failures) {
        let reasons = failed.reasons().into_iter();
        self.reasons.extend(reasons.map(|(reason, calls)| Reason {
            phase,
            asked,
            reason: reason.to_owned(),
            calls,
        }));
    }

    /// Resident memory before the storm, at most, and at the end, in MiB.
    fn memory_mib(&self) -> [f64; 3] {
        let mib = |point: &Point| point.resident_bytes as f64 / f64::from(1 << 20);
        let looks = usize::try_from(REST_SECONDS[0]).unwrap_or(usize::MAX);
        let before = self.points.iter().take(looks);
        [
            before.map(mib).fold(0.0, f64::max),
            self.points.iter().map(mib).fold(0.0, f64::max),
            self.points.last().map_or(0.0, mib),
        ]
    }

    fn memory(&self) -> String {
        let [before, most, after] = self.memory_mib();
        format!("memory {before:.0} MiB before, {most:.0} at most, {after:.0} after")
    }

    fn table(&self) -> Table {
        let heading = ["", "answered", "failed", "p50 ms", "p99 ms", "max ms"];
        let mut lines = Vec::new();
        for (at, asked) in Asked::ALL.iter().enumerate() {
            for (phase, heard) in &self.phases {
                let Some(it) = heard.get(at) else { continue };
                lines.push(vec![
                    format!("{} {}", asked.name(), phase.name()),
                    it.answered.to_string(),
                    it.failed.to_string(),
                    format!("{:.2}", it.p50_ms),
                    format!("{:.2}", it.p99_ms),
                    format!("{:.1}", it.max_ms),
                ]);
            }
        }
        let title = format!("{}: {}", self.server.name(), self.memory());
        Table::new(&title, &heading, lines)
    }

    /// Why calls failed; `None` where none did.
    fn reasons_table(&self) -> Option<Table> {
        let lines: Vec<_> = self
            .reasons
            .iter()
            .map(|it| {
                let what = format!("{} {}", it.asked.name(), it.phase.name());
                vec![what, it.calls.to_string(), it.reason.clone()]
            })
            .collect();
        let title = format!("{}: why calls failed", self.server.name());
        (!lines.is_empty()).then(|| Table::new(title, &["", "calls", "reason"], lines))
    }

    fn line(&self) -> Line {
        let panel = |of: &dyn Fn(&Point) -> f64| {
            let points = self.points.iter();
            points.map(|point| (point.seconds, of(point))).collect()
        };
        let heard = |point: &Point, asked: Asked| {
            let at = Asked::ALL.iter().position(|it| *it == asked);
            at.and_then(|at| point.heard.get(at).copied())
                .unwrap_or_default()
        };
        Line {
            name: self.server.name().to_owned(),
            panels: vec![
                panel(&|point| point.resident_bytes as f64 / f64::from(1 << 20)),
                panel(&|point| point.connections as f64),
                panel(&|point| heard(point, Asked::Getattr).p50_ms),
                panel(&|point| heard(point, Asked::Getattr).p99_ms),
                panel(&|point| {
                    let calls = [Asked::Getattr, Asked::Read, Asked::Write];
                    let slowest = calls.map(|asked| heard(point, asked).max_ms);
                    slowest.into_iter().fold(0.0, f64::max)
                }),
                panel(&|point| heard(point, Asked::Mount).max_ms),
            ],
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.memory())
    }
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::During => "during",
            Self::After => "after",
        }
    }
}

impl Report {
    /// The run as people read it: header, tables, what is missing.
    pub fn summary(&self) -> Summary<'_> {
        let h = &self.header;
        let header = vec![
            h.machine.line("attackers and polite client"),
            format!(
                "export: {}; {} s of every attack at once, {} silent or half-open connections wanted by admitted hosts",
                h.file_system, h.seconds, h.connections
            ),
            h.machine
                .others_line(&[format!("{:.0} s in all", h.run_seconds)]),
        ];
        Summary {
            header,
            tables: self
                .rows
                .iter()
                .flat_map(|row| [Some(row.table()), row.reasons_table()])
                .flatten()
                .collect(),
            verdicts: Vec::new(),
            missing: &self.missing,
        }
    }

    fn picture(&self) -> String {
        let none = |title| Panel { title, level: None };
        let panels = [
            none("resident memory of the server, MiB"),
            none("TCP connections"),
            none("GETATTR of the polite client, median of each second, ms"),
            none("the same, 99th percentile"),
            none("the polite client's slowest GETATTR, READ or WRITE in each second, ms"),
            none("its slowest MNT over a new connection in each second, ms"),
        ];
        let lines: Vec<Line> = self.rows.iter().map(Row::line).collect();
        let title = format!(
            "Every attack at once for {} s, from second {} on",
            self.header.seconds, REST_SECONDS[0]
        );
        svg(
            &title,
            "seconds since the polite client began",
            &panels,
            &lines,
        )
    }
}

/// Writes the report into `directory`.
///
/// # Errors
/// It cannot be written.
pub fn write(report: &Report, directory: &Path) -> Result<()> {
    let pictures = "## Over time\n\n![the storm over time](storm.svg)\n\n";
    let page = report.summary().page("A storm, measured", pictures);
    let drawn = [("storm.svg".to_owned(), report.picture())];
    summary::write(directory, &page, drawn, report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_says_why_calls_failed_and_only_where_some_did() {
        let mut row = Row::new(Kind::PenstockUring);
        row.note_failures(Phase::Before, Asked::Read, &Failures::default());
        assert!(row.reasons_table().is_none());
        let mut failed = Failures::default();
        failed.add("connection reset".to_owned());
        row.note_failures(Phase::After, Asked::Mount, &failed);
        let told = row.reasons_table().unwrap().text();
        for part in ["MNT, new connection after", "connection reset"] {
            assert!(told.contains(part), "{told}");
        }
    }
}
