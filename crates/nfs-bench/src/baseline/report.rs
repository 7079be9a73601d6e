//! The report of the baseline: where the figures come from, and tables of them; all of it is JSON, too.

use nfs_lab::Memory;
use serde::Serialize;

use super::run::Kind;
use super::workload::Workload;
use crate::sample::Sample;
use crate::summary::Summary;
use crate::turns::Machine;
use nfs_load::spread::{Spread, median, ratio};
use nfs_load::table::Table;

/// The machine, the versions and the settings of a run: a figure is worth something only beside them.
#[derive(Debug, Serialize)]
pub struct Header {
    /// The machine that the run took place on.
    #[serde(flatten)]
    pub machine: Machine,
    /// Kind of the file system that is exported.
    pub file_system: String,
    /// Version of the peer, if it is installed.
    pub ganesha: Option<String>,
    /// Length of one measurement in seconds.
    pub seconds: f64,
    /// How many measurements there are of each row.
    pub rounds: usize,
    /// Length of the whole run in seconds.
    pub run_seconds: f64,
}

/// All rounds of one workload at one depth against one server.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The workload that was measured.
    pub workload: Workload,
    /// Number of calls in flight.
    pub depth: usize,
    /// The server that was measured.
    pub server: Kind,
    /// One sample for each round that succeeded.
    pub samples: Vec<Sample>,
    /// Server CPU time per call in microseconds, one for each round.
    pub cpu_us: Vec<f64>,
    /// System calls of the server per call, by name, if they were counted.
    pub system_calls: Option<Vec<(String, f64)>>,
    /// Instructions that the server executes per call, if they were counted.
    pub instructions: Option<f64>,
}

/// The result of a whole run of the baseline.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The machine, the versions and the settings of the run.
    pub header: Header,
    /// Bare TCP ping-pongs by message sizes: the floor of a depth-1 latency.
    pub floors: Vec<(Workload, Vec<Sample>)>,
    /// The measurements, one row for each workload, depth and server.
    pub rows: Vec<Row>,
    /// Memory of each server before and after the load.
    pub memory: Vec<(Kind, Memory, Memory)>,
    /// What could not be measured here, and why.
    pub missing: Vec<String>,
}

impl Row {
    /// The row's name in messages, which no other row of the run has.
    pub fn label(&self) -> String {
        let (workload, server) = (self.workload.name(), self.server.name());
        format!("{workload}, depth {}, {server}", self.depth)
    }

    /// The median of calls per second.
    pub(crate) fn rate(&self) -> Option<f64> {
        median(self.samples.iter().map(Sample::rate))
    }
}

impl Report {
    /// The run as people read it: header, tables, what is missing.
    pub fn summary(&self) -> Summary<'_> {
        let workloads = Workload::ALL.into_iter();
        let mut tables: Vec<Table> = workloads.filter_map(|w| self.rates(w)).collect();
        tables.push(self.floors());
        tables.extend(self.costs());
        tables.push(self.memory());
        Summary {
            header: self.header_lines(),
            tables,
            verdicts: Vec::new(),
            missing: &self.missing,
        }
    }

    fn header_lines(&self) -> Vec<String> {
        let h = &self.header;
        let peer = h.ganesha.as_deref().unwrap_or("not installed");
        vec![
            h.machine.line("load"),
            format!(
                "export: {}; {} rounds of {} s, median (min..max); {:.0} s in all",
                h.file_system, h.rounds, h.seconds, h.run_seconds
            ),
            h.machine.others_line(&[format!("ganesha {peer}")]),
        ]
    }

    /// Rates and latencies of one workload, if it was measured.
    fn rates(&self, workload: Workload) -> Option<Table> {
        let rows = self.rows.iter().filter(|row| row.workload == workload);
        let rows = rows.filter(|row| !row.samples.is_empty());
        let cells = |row: &Row| {
            let samples = || row.samples.iter();
            vec![
                format!("depth {}, {}", row.depth, row.server.name()),
                Spread::cell(samples().map(Sample::rate), 0),
                self.ratio(row),
                Spread::cell(samples().map(|s| s.p50_us), 1),
                Spread::cell(samples().map(|s| s.p99_us), 1),
                median(row.cpu_us.iter().copied()).map_or("-".to_owned(), |us| format!("{us:.1}")),
            ]
        };
        let heading = ["", "calls/s", "x peer", "p50 us", "p99 us", "CPU us"];
        let table = Table::new(workload.name(), &heading, rows.map(cells));
        (!table.rows.is_empty()).then_some(table)
    }

    /// The row's median rate divided by Ganesha's at the same workload and depth, or `-` if one of them is
    /// missing.
    fn ratio(&self, row: &Row) -> String {
        let is_peer = |r: &&Row| {
            r.workload == row.workload && r.depth == row.depth && r.server == Kind::Ganesha
        };
        let peer = self.rows.iter().find(is_peer).and_then(Row::rate);
        ratio(row.rate(), peer)
    }

    /// What the network itself takes, and how many times that a call takes.
    fn floors(&self) -> Table {
        let rows = self.floors.iter().map(|(workload, samples)| {
            let (request, reply) = workload.message_bytes();
            let floor = median(samples.iter().map(|s| s.p50_us));
            let alone = self.rows.iter().filter(|row| row.depth == 1);
            let same = alone.filter(|row| row.workload == *workload && !row.samples.is_empty());
            let multiples = same.map(|row| {
                let own = median(row.samples.iter().map(|s| s.p50_us));
                format!("{} {}", row.server.name(), ratio(own, floor))
            });
            vec![
                format!("{request} and {reply} bytes"),
                Spread::cell(samples.iter().map(|s| s.p50_us), 1),
                Spread::cell(samples.iter().map(|s| s.p99_us), 1),
                workload.name().to_owned(),
                multiples.collect::<Vec<_>>().join(", "),
            ]
        });
        let heading = ["", "p50 us", "p99 us", "as long as", "p50 in these"];
        Table::new("bare TCP ping-pong", &heading, rows)
    }

    /// System calls and instructions per call, if they were counted.
    fn costs(&self) -> Option<Table> {
        let counted = self.rows.iter().filter_map(|row| {
            let calls = row.system_calls.as_ref()?;
            let total: f64 = calls.iter().map(|(_, n)| n).sum();
            let often = calls.iter().filter(|(_, n)| *n >= 0.01);
            let often: Vec<String> = often.map(|(name, n)| format!("{name} {n:.2}")).collect();
            let instructions = row.instructions;
            Some(vec![
                row.label(),
                format!("{total:.2}"),
                instructions.map_or("-".to_owned(), |n| format!("{n:.0}")),
                often.join(", "),
            ])
        });
        let heading = ["", "system calls", "instructions", "which"];
        let table = Table::new("per call", &heading, counted);
        (!table.rows.is_empty()).then_some(table)
    }

    fn memory(&self) -> Table {
        let mib = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
        let rows = self.memory.iter().map(|(kind, rest, load)| {
            vec![
                kind.name().to_owned(),
                mib(rest.resident_bytes),
                mib(load.peak_bytes),
            ]
        });
        let heading = ["", "at rest, MiB", "at most under load, MiB"];
        Table::new("resident memory", &heading, rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(server: Kind, seconds: f64) -> Row {
        let mut latencies = hdrhistogram::Histogram::new(3).unwrap();
        latencies.record_n(1000, 100).unwrap();
        Row {
            workload: Workload::Null,
            depth: 1,
            server,
            samples: vec![Sample::new(&latencies, seconds)],
            cpu_us: vec![2.0],
            system_calls: Some(vec![("read".to_owned(), 1.0), ("rare".to_owned(), 0.001)]),
            instructions: None,
        }
    }

    #[test]
    fn ours_is_held_against_the_peer_at_the_same_depth() {
        let mut deeper = row(Kind::Ganesha, 9.0);
        deeper.depth = 32;
        let report = Report {
            header: Header {
                machine: Machine {
                    kernel: String::new(),
                    cpus: 2,
                    commit: String::new(),
                    cores: (0, 1),
                    busy_before: 0.0,
                    cores_apart: None,
                },
                file_system: String::new(),
                ganesha: None,
                seconds: 1.0,
                rounds: 1,
                run_seconds: 1.0,
            },
            floors: Vec::new(),
            rows: vec![
                row(Kind::PenstockUring, 1.0),
                row(Kind::Ganesha, 2.0),
                deeper,
            ],
            memory: Vec::new(),
            missing: Vec::new(),
        };
        let tables = report.summary().tables;
        let rates = &tables[0];
        assert_eq!((rates.title.as_str(), rates.rows.len()), ("null", 3));
        let ratios: Vec<&str> = rates.rows.iter().map(|row| row[2].as_str()).collect();
        assert_eq!(ratios, ["2.00", "1.00", "1.00"]);
        let costs = tables
            .iter()
            .find(|table| table.title == "per call")
            .unwrap();
        assert_eq!(costs.rows[0][1..], ["1.00", "-", "read 1.00"]);
    }
}
