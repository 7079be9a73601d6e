//! The report as tables, and the goals.

use super::measure::Figures;
use super::run::{Case, Report, Way};
use super::workload::Workload;
use crate::summary::Summary;
use crate::summary::verdict::Verdict;
use nfs_load::spread::{Spread, ratio};
use nfs_load::table::Table;

/// Least throughput, as a part of that of the fixed mode that is best at the workload.
const RATE_BOUND: f64 = 0.95;
/// Most latency, as a multiple of that of the fixed mode that is the worst but one at the workload.
const P99_BOUND: f64 = 1.0;

impl Report {
    /// The run as people read it: header, tables, goals, what is missing.
    pub fn summary(&self) -> Summary<'_> {
        Summary {
            header: self.header_lines(),
            tables: self.tables(),
            verdicts: self.verdicts(),
            missing: &self.missing,
        }
    }

    fn header_lines(&self) -> Vec<String> {
        let h = &self.header;
        let mut lines = vec![
            h.machine.line("load"),
            format!(
                "large files of {} MiB, server's memory {} MiB, small calls for {} s; {} rounds, median \
                 (min..max); {:.0} s in all",
                h.file_bytes >> 20,
                h.memory_bytes >> 20,
                h.random_seconds,
                h.rounds,
                h.run_seconds
            ),
            h.machine.others_line(&[]),
        ];
        let volumes = h.volumes.iter();
        lines.extend(volumes.map(|(name, description)| format!("{name}: {description}")));
        lines
    }

    /// The run's tables: one for each workload on each volume, with a row for each way.
    pub fn tables(&self) -> Vec<Table> {
        let mut tables = Vec::new();
        for (volume, _) in &self.header.volumes {
            for workload in Workload::ALL {
                let cases = Way::ALL.map(|way| Case { workload, way });
                let rows = cases
                    .into_iter()
                    .filter_map(|case| self.cells(volume, case));
                let rows: Vec<Vec<String>> = rows.collect();
                if rows.is_empty() {
                    continue;
                }
                let title = format!("{volume}: {}", workload.name());
                let heading = [
                    "mode",
                    "MiB/s",
                    "x best fixed",
                    "p99 us",
                    "cached MiB",
                    "CPU s/GiB",
                ];
                tables.push(Table::new(title, &heading, rows));
            }
        }
        tables
    }

    /// The row of a case; `None` if nothing of it was measured.
    fn cells(&self, volume: &str, case: Case) -> Option<Vec<String>> {
        let rounds = &self.row(volume, case)?.rounds;
        let fixed = self.fixed(volume, case.workload, Figures::mib_per_second);
        let best = fixed.map(|[_, _, best]| best);
        let spread =
            |figure: fn(&Figures) -> f64, digits| Spread::cell(rounds.iter().map(figure), digits);
        (!rounds.is_empty()).then(|| {
            vec![
                case.way.word().to_owned(),
                spread(Figures::mib_per_second, 1),
                ratio(self.figure(volume, case, Figures::mib_per_second), best),
                spread(p99, 0),
                spread(cached_mib, 0),
                spread(cpu_per_gib, 2),
            ]
        })
    }

    /// Every goal, for each workload on each volume.
    pub fn verdicts(&self) -> Vec<Verdict> {
        let volumes = self.header.volumes.iter();
        let goals = volumes.flat_map(|(volume, _)| {
            Workload::ALL.map(|workload| self.verdicts_of(volume, workload))
        });
        goals.flatten().collect()
    }

    fn verdicts_of(&self, volume: &str, workload: Workload) -> [Verdict; 3] {
        let way = Way::Auto;
        let case = Case { workload, way };
        let against = |figure: fn(&Figures) -> f64, number: usize| {
            let fixed = self.fixed(volume, workload, figure)?;
            Some(self.figure(volume, case, figure)? / fixed.get(number)?)
        };
        let name = format!("{volume}, {}", workload.name());
        let memory = (self.header.memory_bytes >> 20) as f64;
        [
            Verdict::at_least(
                format!("{name}: throughput, auto / best fixed"),
                against(Figures::mib_per_second, 2),
                Some(RATE_BOUND),
            ),
            Verdict::at_most(
                format!("{name}: p99, auto / worst fixed but one"),
                against(p99, 1),
                Some(P99_BOUND),
            ),
            Verdict::at_most(
                format!("{name}: page cache held / memory"),
                self.figure(volume, case, cached_mib)
                    .map(|held| held / memory),
                Some(1.0),
            ),
        ]
    }
}

/// The 99th percentile of latency in microseconds.
pub(super) fn p99(figures: &Figures) -> f64 {
    figures.p99_us
}

fn cached_mib(figures: &Figures) -> f64 {
    figures.cached_peak_bytes as f64 / f64::from(1 << 20)
}

fn cpu_per_gib(figures: &Figures) -> f64 {
    figures.cpu_seconds * f64::from(1 << 30) / figures.bytes.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::super::run::{Header, Row};
    use super::*;
    use crate::turns::Machine;

    fn row(workload: Workload, way: Way, rate: f64, p99_us: f64) -> Row {
        let figures = Figures {
            bytes: 1 << 30,
            seconds: 1024.0 / rate,
            p99_us,
            cached_peak_bytes: 256 << 20,
            charged_peak_bytes: None,
            cpu_seconds: 1.0,
        };
        Row {
            volume: "fast",
            case: Case { workload, way },
            rounds: vec![figures],
        }
    }

    fn report() -> Report {
        let figures = [(100.0, 50.0), (300.0, 20.0), (200.0, 30.0), (290.0, 31.0)];
        let rows = Way::ALL.into_iter().zip(figures);
        let rows = rows.map(|(way, (rate, p99))| row(Workload::Rescans, way, rate, p99));
        Report {
            header: Header {
                machine: Machine {
                    kernel: String::new(),
                    cpus: 2,
                    commit: String::new(),
                    cores: (0, 1),
                    busy_before: 0.0,
                    cores_apart: None,
                },
                volumes: vec![("fast", String::new())],
                file_bytes: 1 << 30,
                memory_bytes: 1 << 29,
                random_seconds: 1.0,
                rounds: 1,
                run_seconds: 1.0,
            },
            rows: rows.collect(),
            missing: Vec::new(),
        }
    }

    #[test]
    fn auto_is_held_against_the_best_throughput_and_the_worst_latency_but_one() {
        let verdicts = report().verdicts();
        let met = |words: &str| {
            let found = verdicts
                .iter()
                .find(|verdict| verdict.goal.starts_with(words));
            found.expect("the goal is listed").met
        };
        assert_eq!(met("fast, rescans: throughput"), Some(true), "290 of 300");
        assert_eq!(met("fast, rescans: p99"), Some(false), "31 of 30");
        assert_eq!(met("fast, rescans: page cache"), Some(true));
        assert_eq!(met("fast, database: throughput"), None);
    }

    #[test]
    fn a_table_has_a_row_for_each_way_that_was_measured() {
        let tables = report().tables();
        assert_eq!(tables.len(), 1);
        let rows = &tables[0].rows;
        let words: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(words, ["buffered", "dontcache", "direct", "auto"]);
        assert!(rows.iter().all(|row| row.len() == tables[0].heading.len()));
        assert_eq!(rows[3][2], "0.97");
    }
}
