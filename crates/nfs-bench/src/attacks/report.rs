//! The report of the attacks: a table for each, a line for each server; all of it is JSON, too.

use serde::Serialize;

use super::kind::Attack;
use super::run::{Bout, POLITE_CALLS};
use crate::baseline::run::Kind;
use crate::sample::Sample;
use crate::summary::Summary;
use crate::turns::Machine;
use nfs_load::spread::Spread;
use nfs_load::table::Table;

/// The machine, the versions and the settings of a run.
#[derive(Debug, Serialize)]
pub struct Header {
    /// The machine that the run took place on.
    #[serde(flatten)]
    pub machine: Machine,
    /// Kind of the file system that is exported.
    pub file_system: String,
    /// Version of the peer, if it is installed.
    pub ganesha: Option<String>,
    /// Length of one measurement of the polite client in seconds.
    pub seconds: f64,
    /// How many times each attack was run against each server.
    pub rounds: usize,
    /// Length of the whole run in seconds.
    pub run_seconds: f64,
}

/// All rounds of one attack on one server.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The attack.
    pub attack: Attack,
    /// The server that is attacked.
    pub server: Kind,
    /// What came of it, one entry for each round.
    pub bouts: Vec<Bout>,
}

/// The result of a whole run of the attacks.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The machine, the versions and the settings of the run.
    pub header: Header,
    /// One row for each attack and server.
    pub rows: Vec<Row>,
    /// What could not be measured here, and why.
    pub missing: Vec<String>,
}

impl Row {
    /// A row without figures.
    pub fn new(attack: Attack, server: Kind) -> Self {
        Self {
            attack,
            server,
            bouts: Vec::new(),
        }
    }

    /// The row's name in messages, which no other row of the run has.
    pub fn label(&self) -> String {
        format!("{}, {}", self.attack.name(), self.server.name())
    }

    fn cells(&self) -> Vec<String> {
        let mut cells = vec![self.server.name().to_owned()];
        for at in 0..POLITE_CALLS.len() {
            for us in [|s: &Sample| s.p50_us, |s: &Sample| s.p99_us] {
                let before = self.samples(at, |(_, before, _)| *before, us);
                let during = self.samples(at, |(_, _, during)| *during, us);
                cells.push(format!("{before} -> {during}"));
            }
        }
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let memory = |of: fn(&Bout) -> u64| {
            Spread::of(self.bouts.iter().map(|bout| mib(of(bout))))
                .map_or("-".to_owned(), |spread| format!("{:.0}", spread.median))
        };
        cells.push(format!(
            "{} -> {} -> {}",
            memory(|bout| bout.rest.resident_bytes),
            memory(|bout| bout.attacked.resident_bytes),
            memory(|bout| bout.after.resident_bytes)
        ));
        let moved = self.bouts.iter().map(|bout| bout.moved_per_second / 1e6);
        cells.push(Spread::cell(moved, 2));
        cells
    }

    /// The median over the rounds in milliseconds; says so where a call was not answered.
    fn samples(
        &self,
        at: usize,
        of: impl Fn(
            &(
                crate::baseline::workload::Workload,
                Option<Sample>,
                Option<Sample>,
            ),
        ) -> Option<Sample>,
        us: fn(&Sample) -> f64,
    ) -> String {
        let found: Vec<Option<Sample>> = self
            .bouts
            .iter()
            .filter_map(|bout| bout.polite.get(at).map(&of))
            .collect();
        if found.is_empty() || found.iter().any(Option::is_none) {
            return "none".to_owned();
        }
        let values = found.iter().flatten().map(|sample| us(sample) / 1e3);
        Spread::of(values).map_or("-".to_owned(), |spread| format!("{:.2}", spread.median))
    }
}

impl Report {
    /// The run as people read it: header, tables, what is missing.
    pub fn summary(&self) -> Summary<'_> {
        let tables = Attack::ALL
            .into_iter()
            .filter_map(|attack| self.table(attack));
        Summary {
            header: self.header_lines(),
            tables: tables.collect(),
            verdicts: Vec::new(),
            missing: &self.missing,
        }
    }

    fn header_lines(&self) -> Vec<String> {
        let h = &self.header;
        let peer = h.ganesha.as_deref().unwrap_or("not installed");
        vec![
            h.machine.line("load and attacker"),
            format!(
                "export: {}; {} rounds of {} s for each kind of call; {:.0} s in all",
                h.file_system, h.rounds, h.seconds, h.run_seconds
            ),
            h.machine.others_line(&[format!("NFS-Ganesha {peer}")]),
            "the polite client's calls, one in flight: milliseconds without -> with the attack, `none` \
             where no answer came within 30 s; resident memory before -> during -> after it, MiB; \
             what the attacker moved, MB/s (names and stable-writes: million calls a second)"
                .to_owned(),
        ]
    }

    fn table(&self, attack: Attack) -> Option<Table> {
        let mut heading = vec!["server".to_owned()];
        for workload in POLITE_CALLS {
            heading.extend(["p50", "p99"].map(|figure| format!("{} {figure}", workload.name())));
        }
        heading.extend(["memory", "moved"].map(str::to_owned));
        let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
        let rows: Vec<_> = self
            .rows
            .iter()
            .filter(|row| row.attack == attack && !row.bouts.is_empty())
            .map(Row::cells)
            .collect();
        (!rows.is_empty()).then(|| Table::new(attack.name(), &heading, rows))
    }
}
