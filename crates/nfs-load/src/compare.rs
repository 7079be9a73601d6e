//! Two reports of the same workload, held against each other.
//!
//! A figure is worse where its median is, by more than is tolerated, and where the ranges do not meet: what repetitions
//! of one run already differ by is no regression.

use serde::Serialize;

use crate::report::{FORMAT, Report, Row, cell, number};
use crate::spread::Spread;
use crate::table::Table;
use crate::workload::Unit;

/// What became of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// It is better than it was.
    Better,
    /// It is as it was, within the spread and what is tolerated.
    Same,
    /// It is worse than it was.
    Worse,
}

/// One figure of both reports.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Name of the step of the workload.
    pub step: String,
    /// Name of the server or file system that was measured.
    pub target: String,
    /// What the figure is, with its unit.
    pub figure: String,
    /// As it was.
    pub old: Spread,
    /// As it is.
    pub new: Spread,
    /// What became of it.
    pub change: Change,
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// All figures that both reports have.
    pub figures: Vec<Compared>,
    /// What only one of them has.
    pub alone: Vec<String>,
    /// Share by which a median may be worse and count as the same.
    pub tolerance: f64,
}

/// Why two reports cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Incomparable {
    /// A report has a form that this program does not know.
    #[error(
        "the {which} report has the form {found}, and this program knows {FORMAT}: make it anew"
    )]
    Format {
        /// Which of the two.
        which: &'static str,
        /// Its form.
        found: u32,
    },
    /// They are about different things.
    #[error("they measured different workloads: {old} and {new}")]
    Workload {
        /// The workload of the old one.
        old: &'static str,
        /// The workload of the new one.
        new: &'static str,
    },
    /// The workload had other numbers.
    #[error("the workload had other numbers: {0}")]
    Settings(String),
    /// They were measured elsewhere.
    #[error("they were measured in different environments: {0}")]
    Environment(String),
    /// A figure was measured once, so nobody knows by how much it differs by itself.
    #[error("the {0} report measured each figure once, which has no spread: give --repetitions 3")]
    NoSpread(&'static str),
    /// They have no figure in common.
    #[error("they have no target in common: {old} and {new}")]
    Nothing {
        /// The targets of the old one.
        old: String,
        /// The targets of the new one.
        new: String,
    },
}

/// Holds a new report against an old one. `tolerance` is the share by which a median may be worse.
///
/// # Errors
/// The figures of one say nothing about those of the other.
pub fn compare(old: &Report, new: &Report, tolerance: f64) -> Result<Comparison, Incomparable> {
    are_alike(old, new)?;
    let mut figures = Vec::new();
    let mut alone = Vec::new();
    for row in &old.rows {
        match new.row(&row.step, &row.target) {
            Some(other) => compare_rows(row, other, tolerance, &mut figures),
            None => alone.push(format!("only in the old one: {}, {}", row.step, row.target)),
        }
    }
    let added = new
        .rows
        .iter()
        .filter(|row| old.row(&row.step, &row.target).is_none());
    alone.extend(added.map(|row| format!("only in the new one: {}, {}", row.step, row.target)));
    if figures.is_empty() {
        return Err(Incomparable::Nothing {
            old: old.targets().join(", "),
            new: new.targets().join(", "),
        });
    }
    Ok(Comparison {
        figures,
        alone,
        tolerance,
    })
}

fn are_alike(old: &Report, new: &Report) -> Result<(), Incomparable> {
    for (which, report) in [("old", old), ("new", new)] {
        if report.format != FORMAT {
            let found = report.format;
            return Err(Incomparable::Format { which, found });
        }
    }
    if old.workload != new.workload {
        let (old, new) = (old.workload.name(), new.workload.name());
        return Err(Incomparable::Workload { old, new });
    }
    if old.settings != new.settings {
        let text = format!("{:?} and {:?}", old.settings, new.settings);
        return Err(Incomparable::Settings(text));
    }
    let recording = |report: &Report| {
        let replay = report.replay.as_ref();
        replay.map(|replay| {
            (
                replay.recorded_ns,
                replay.calls,
                replay.speed.map(f64::to_bits),
            )
        })
    };
    if recording(old) != recording(new) {
        let text = "not the same recording at the same speed".to_owned();
        return Err(Incomparable::Settings(text));
    }
    let differences = old.environment.differences(&new.environment);
    if !differences.is_empty() {
        return Err(Incomparable::Environment(differences.join("; ")));
    }
    for (which, report) in [("old", old), ("new", new)] {
        if report.repetitions < 2 {
            return Err(Incomparable::NoSpread(which));
        }
    }
    Ok(())
}

fn compare_rows(old: &Row, new: &Row, tolerance: f64, out: &mut Vec<Compared>) {
    let mut put = |figure: &str, old_value: Spread, new_value: Spread, more_is_better| {
        out.push(Compared {
            step: old.step.clone(),
            target: old.target.clone(),
            figure: figure.to_owned(),
            old: old_value,
            new: new_value,
            change: change(old_value, new_value, more_is_better, tolerance),
        });
    };
    let (was, is) = (&old.figures, &new.figures);
    put(old.unit.word(), was.throughput, is.throughput, true);
    put("p50 µs", was.p50_us, is.p50_us, false);
    put("p99 µs", was.p99_us, is.p99_us, false);
    if let (Some(was), Some(is)) = (was.cpu, is.cpu) {
        // Processor time is counted in hundredths of a second: what is near to none of them says nothing.
        if old.unit == Unit::Mib || was.median > 0.0 {
            put(old.unit.cpu_word(), was, is, false);
        }
    }
}

fn change(old: Spread, new: Spread, more_is_better: bool, tolerance: f64) -> Change {
    if old.min <= new.max && new.min <= old.max {
        return Change::Same;
    }
    if (new.median - old.median).abs() <= old.median.abs() * tolerance {
        return Change::Same;
    }
    match (new.median > old.median) == more_is_better {
        true => Change::Better,
        false => Change::Worse,
    }
}

impl Comparison {
    /// Whether anything is worse than it was.
    #[must_use]
    pub fn is_worse(&self) -> bool {
        self.figures
            .iter()
            .any(|figure| figure.change == Change::Worse)
    }

    /// The comparison for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let rows = self.figures.iter().map(|one| {
            let ratio = one.new.median / one.old.median;
            vec![
                format!("{}, {}, {}", one.step, one.target, one.figure),
                cell(&one.old),
                cell(&one.new),
                match ratio.is_finite() {
                    true => number(ratio),
                    false => "-".to_owned(),
                },
                match one.change {
                    Change::Better => "better",
                    Change::Same => "same",
                    Change::Worse => "WORSE",
                }
                .to_owned(),
            ]
        });
        let mut out = Table::new("", &["", "old", "new", "new/old", ""], rows).text();
        for alone in &self.alone {
            out.push_str(&format!("note: {alone}\n"));
        }
        let worse = self
            .figures
            .iter()
            .filter(|one| one.change == Change::Worse)
            .count();
        let percent = number(self.tolerance * 100.0);
        out.push_str(&match worse {
            0 => format!("Nothing is worse by more than {percent} % and the spread.\n"),
            _ => format!(
                "{worse} of {} figures are worse by more than {percent} % and the spread.\n",
                self.figures.len()
            ),
        });
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;
    use crate::workload::Workload;

    fn spread(values: [f64; 3]) -> Spread {
        Spread::of(values).unwrap()
    }

    #[test]
    fn worse_is_what_neither_spread_nor_tolerance_covers() {
        let old = spread([100.0, 102.0, 104.0]);
        let table = [
            ([100.0, 90.0, 80.0], Change::Same),
            ([99.0, 99.0, 99.0], Change::Same),
            ([90.0, 91.0, 92.0], Change::Worse),
            ([120.0, 121.0, 122.0], Change::Better),
        ];
        for (new, expected) in table {
            assert_eq!(change(old, spread(new), true, 0.05), expected, "{new:?}");
            let turned = match expected {
                Change::Better => Change::Worse,
                Change::Worse => Change::Better,
                Change::Same => Change::Same,
            };
            assert_eq!(change(old, spread(new), false, 0.05), turned, "{new:?}");
        }
    }

    #[test]
    fn a_report_is_as_good_as_itself() {
        for workload in Workload::ALL {
            let report = report(workload, 2);
            let found = compare(&report, &report, 0.0).unwrap();
            assert!(!found.is_worse() && found.alone.is_empty());
            assert!(found.text().contains("Nothing is worse"));
        }
    }

    #[test]
    fn half_the_throughput_is_told() {
        let (old, new) = (report(Workload::SeqRead, 4), report(Workload::SeqRead, 2));
        let found = compare(&old, &new, 0.05).unwrap();
        assert!(found.is_worse());
        let worse: Vec<_> = found
            .figures
            .iter()
            .filter(|one| one.change == Change::Worse)
            .collect();
        assert!(worse.iter().all(|one| one.target == "b"), "{worse:?}");
        assert!(found.text().contains("WORSE"));
        assert!(
            !compare(&new, &old, 0.05)
                .unwrap()
                .figures
                .iter()
                .any(|one| { one.figure == "MiB/s" && one.change == Change::Worse })
        );
    }

    #[test]
    fn what_cannot_be_compared_is_refused_with_the_reason() {
        let old = report(Workload::SeqRead, 2);
        let refused = |change: fn(&mut Report)| {
            let mut new = old.clone();
            change(&mut new);
            compare(&old, &new, 0.05).unwrap_err()
        };
        let error = refused(|new| new.workload = Workload::Mixed);
        assert!(
            matches!(error, Incomparable::Workload { new: "mixed", .. }),
            "{error}"
        );
        let error = refused(|new| new.settings.depth = 99);
        assert!(matches!(error, Incomparable::Settings(_)), "{error}");
        let error = refused(|new| new.environment.kernel = "Linux 99".to_owned());
        assert!(error.to_string().contains("Linux 99"), "{error}");
        let error = refused(|new| new.environment.congestion_control = Some("other".to_owned()));
        assert!(error.to_string().contains("and other"), "{error}");
        let mut of_before = old.clone();
        of_before.environment.congestion_control = None;
        assert!(compare(&old, &of_before, 0.05).is_ok(), "nothing is known");
        let error = refused(|new| new.repetitions = 1);
        assert_eq!(error, Incomparable::NoSpread("new"));
        let error = refused(|new| new.format = 99);
        assert!(
            matches!(error, Incomparable::Format { found: 99, .. }),
            "{error}"
        );
        let error = refused(|new| new.rows.clear());
        assert!(matches!(error, Incomparable::Nothing { .. }), "{error}");
    }
}
