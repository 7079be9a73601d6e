//! The report as tables, and the goals.

use super::measure::Figures;
use super::run::{Ahead, Case, Report, SENDERS, extents, rate};
use crate::modes::contender::Mode;
use crate::summary::Summary;
use crate::summary::verdict::Verdict;
use nfs_load::spread::{Spread, ratio};
use nfs_load::table::Table;

/// The most senders, whose disorder the goals are about.
const MOST: u64 = 64;
/// Least throughput with the most senders, as a part of that with one.
const RATE_BOUND: f64 = 0.95;
/// Most extents with the most senders, as a multiple of those of the file that is written in order.
const EXTENTS_BOUND: f64 = 1.1;

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
                "file {} MiB in WRITEs of 64 KiB, server's memory {} MiB, {} calls in flight on one connection; \
                 {} rounds, median (min..max); {:.0} s in all",
                h.file_bytes >> 20,
                h.memory_bytes >> 20,
                h.depth,
                h.rounds,
                h.run_seconds
            ),
            h.machine.others_line(&[]),
        ];
        for (name, description) in &h.volumes {
            lines.push(format!("{name}: {description}"));
        }
        lines
    }

    /// The run's tables: one for each mode on each volume, with a row for each number of senders and setting.
    pub fn tables(&self) -> Vec<Table> {
        let mut tables = Vec::new();
        for (volume, _) in &self.header.volumes {
            for mode in Mode::ALL {
                let cases = SENDERS.into_iter().flat_map(|senders| {
                    Ahead::ALL.map(|ahead| Case {
                        mode,
                        ahead,
                        senders,
                    })
                });
                let rows: Vec<Vec<String>> =
                    cases.filter_map(|case| self.cells(volume, case)).collect();
                if rows.is_empty() {
                    continue;
                }
                let title = format!("{volume}: {}", mode.word());
                let heading = ["k and setting", "MiB/s", "x k = 1", "extents", "CPU s/GiB"];
                tables.push(Table::new(title, &heading, rows));
            }
        }
        tables
    }

    /// The row of a case; `None` if nothing of it was measured.
    fn cells(&self, volume: &str, case: Case) -> Option<Vec<String>> {
        let rounds = &self.row(volume, case)?.rounds;
        let in_order = self.figure(volume, Case { senders: 1, ..case }, rate);
        let spread =
            |figure: fn(&Figures) -> f64, digits| Spread::cell(rounds.iter().map(figure), digits);
        (!rounds.is_empty()).then(|| {
            vec![
                format!("{}, {}", case.senders, case.setting()),
                spread(rate, 0),
                ratio(self.figure(volume, case, rate), in_order),
                spread(extents, 0),
                spread(cpu_per_gib, 2),
            ]
        })
    }

    /// Every goal, for each mode on each volume, with and without space taken ahead.
    pub fn verdicts(&self) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for (volume, _) in &self.header.volumes {
            for mode in Mode::ALL {
                for ahead in Ahead::ALL {
                    verdicts.extend(self.verdicts_of(volume, mode, ahead));
                }
            }
        }
        verdicts
    }

    fn verdicts_of(&self, volume: &str, mode: Mode, ahead: Ahead) -> [Verdict; 2] {
        let case = |ahead, senders| Case {
            mode,
            ahead,
            senders,
        };
        let figure = |case, figure| self.figure(volume, case, figure);
        let most = case(ahead, MOST);
        let one = figure(case(ahead, 1), rate);
        let part = figure(most, rate).zip(one).map(|(most, one)| most / one);
        // The file that anybody would get who writes it in order, without anything taken ahead.
        let in_order = figure(case(Ahead::Nothing, 1), extents);
        let times = figure(most, extents).zip(in_order);
        let times = times.map(|(most, in_order)| most / in_order);
        let name = format!("{volume}, {}", most.setting());
        [
            Verdict::at_least(
                format!("{name}: throughput, k = {MOST} / k = 1"),
                part,
                Some(RATE_BOUND),
            ),
            Verdict::at_most(
                format!("{name}: extents, k = {MOST} / written in order"),
                times,
                Some(EXTENTS_BOUND),
            ),
        ]
    }
}

fn cpu_per_gib(figures: &Figures) -> f64 {
    figures.cpu_seconds * f64::from(1 << 30) / figures.outcome.bytes.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::super::run::{Header, Row};
    use super::*;
    use crate::modes::stream::Outcome;
    use crate::turns::Machine;

    fn row(case: Case, rounds: &[(f64, u64)]) -> Row {
        let figures = |&(rate, extents): &(f64, u64)| Figures {
            outcome: Outcome {
                bytes: 1 << 30,
                calls: 1 << 14,
                seconds: 1024.0 / rate,
                commit_seconds: 0.0,
                p50_us: 1.0,
                p99_us: 1.0,
                p999_us: 1.0,
                max_us: 1.0,
                checked_bytes: 0,
            },
            extents,
            cpu_seconds: 0.5,
        };
        Row {
            volume: "fast",
            case,
            rounds: rounds.iter().map(figures).collect(),
        }
    }

    fn report() -> Report {
        let case = |ahead, senders| Case {
            mode: Mode::Direct,
            ahead,
            senders,
        };
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
                depth: 64,
                rounds: 3,
                run_seconds: 1.0,
            },
            rows: vec![
                row(
                    case(Ahead::Nothing, 1),
                    &[(1000.0, 10), (900.0, 10), (5000.0, 10)],
                ),
                row(case(Ahead::Nothing, 64), &[(600.0, 700)]),
                row(case(Ahead::Reserve, 1), &[(1000.0, 1)]),
                row(case(Ahead::Reserve, 64), &[(960.0, 11)]),
            ],
            missing: Vec::new(),
        }
    }

    #[test]
    fn goals_are_held_against_the_same_setting_and_the_file_in_order() {
        let verdicts = report().verdicts();
        let met = |words: &str| {
            let mut found = verdicts.iter().filter(|one| one.goal.starts_with(words));
            let one = found.next().expect("the goal is listed");
            assert!(found.next().is_none(), "{words} is one goal");
            one.met
        };
        assert_eq!(met("fast, direct: throughput"), Some(false));
        assert_eq!(met("fast, direct: extents"), Some(false));
        assert_eq!(met("fast, direct reserve: throughput"), Some(true));
        assert_eq!(met("fast, direct reserve: extents"), Some(true), "11 of 10");
        assert_eq!(met("fast, buffered: throughput"), None);
    }

    #[test]
    fn a_table_has_a_row_for_each_case_that_was_measured() {
        let tables = report().tables();
        assert_eq!(tables.len(), 1);
        let rows = &tables[0].rows;
        assert_eq!(rows.len(), 4);
        assert!(rows.iter().all(|row| row.len() == tables[0].heading.len()));
        assert_eq!(rows[0][1], "1000 (900..5000)");
        assert_eq!((rows[2][2].as_str(), rows[3][2].as_str()), ("0.60", "0.96"));
    }
}
