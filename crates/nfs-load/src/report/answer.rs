//! The answer of a report in a sentence or two, made of its figures.

use super::{Report, Row, ceiling, connections, number, over_time, replayed};
use crate::spread::Spread;
use crate::unpack;
use crate::workload::{Unit, Workload};

/// What share of the best throughput counts as a full pipe.
const FULL: f64 = 0.95;

/// The answer to the report's question.
#[must_use]
pub fn answer(report: &Report) -> String {
    if report.rows.is_empty() {
        return "Nothing could be measured.".to_owned();
    }
    match report.workload {
        Workload::Mixed => beside(report),
        Workload::Iozone => by_record(report),
        Workload::MkfileDd => full_pipe(report),
        Workload::OutOfOrder => shuffled(report),
        Workload::TipOver => over_time::answer(report),
        Workload::Untar => unpacked(report),
        Workload::Ceiling => ceiling::answer(report),
        Workload::Connections => connections::answer(report),
        Workload::Replay => replayed::answer(report),
        _ => by_step(report),
    }
}

/// One sentence for each step: who is best, and how far the others are.
fn by_step(report: &Report) -> String {
    let is_by_clock = report.settings.rate.is_some();
    let sentences = report.steps().into_iter().map(|step| {
        let rows: Vec<&Row> = report.of_step(step).collect();
        let shown = ranked(&rows, |row| {
            match is_by_clock || step.contains(" beside ") {
                // The throughput is given, or says little beside another load; what differs is how long a call takes.
                true => (row.figures.p99_us, false, "µs for 99 of 100 calls"),
                false => (row.figures.throughput, true, row.unit.word()),
            }
        });
        format!("{}: {shown}.", capital(step))
    });
    sentences.collect::<Vec<_>>().join(" ")
}

/// "B is fastest with N, 1.5 times as good as A", by a figure, whether more of it is better, and its unit.
fn ranked(rows: &[&Row], figure: impl Fn(&Row) -> (Spread, bool, &'static str)) -> String {
    let mut sorted = rows.to_vec();
    sorted.sort_by(|one, other| {
        let (one, more_is_better, _) = figure(one);
        let order = one.median.total_cmp(&figure(other).0.median);
        if more_is_better {
            order.reverse()
        } else {
            order
        }
    });
    let (Some(best), Some(last)) = (sorted.first(), sorted.last()) else {
        return String::new();
    };
    let (spread, _, unit) = figure(best);
    let (name, said) = (&best.target, format!("{} {unit}", number(spread.median)));
    if sorted.len() == 1 {
        return format!("{name} does {said}");
    }
    let meets_best = |row: &Row| {
        let other = figure(row).0;
        spread.min <= other.max && other.min <= spread.max
    };
    if meets_best(last) {
        return format!("no difference is larger than the spread; {name} does {said}");
    }
    let rest = sorted.iter().skip(1);
    let equals: Vec<&str> = rest
        .filter(|row| meets_best(row))
        .map(|row| row.target.as_str())
        .collect();
    let equal = match equals[..] {
        [] => String::new(),
        _ => format!(" (as {} within the spread)", equals.join(", ")),
    };
    let (one, other) = (spread.median, figure(last).0.median);
    let factor = number((one / other).max(other / one));
    format!(
        "{name} is best with {said}{equal}, {factor} times as good as {}",
        last.target
    )
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// For each target what a small call takes alone and beside the floods.
fn beside(report: &Report) -> String {
    let sentences = report.targets().into_iter().map(|target| {
        let small = report
            .steps()
            .into_iter()
            .filter(|step| step.starts_with("small calls "));
        let told = small.filter_map(|step| {
            let row = report.row(step, target)?;
            let us = row.figures.p99_us.median;
            Some(format!(
                "{} µs {}",
                number(us),
                step.trim_start_matches("small calls ")
            ))
        });
        let told = told.collect::<Vec<_>>().join(", ");
        format!("{target} answers 99 of 100 small calls within {told}.")
    });
    sentences.collect::<Vec<_>>().join(" ")
}

fn by_record(report: &Report) -> String {
    let targets = report.targets();
    let (steps, Some(first)) = (report.steps(), targets.first()) else {
        return String::new();
    };
    let per_call = |step: &str, target: &str| {
        report
            .row(step, target)
            .map(|row| row.figures.us_per_call.median)
    };
    if targets.len() == 1 {
        let shown = |step: &str| {
            per_call(step, first).map_or(String::new(), |us| format!("{step}: {} µs", number(us)))
        };
        let some = steps.iter().filter(|step| step.ends_with(" 4 KiB"));
        let some: Vec<String> = some.map(|step| shown(step)).collect();
        return format!("{first}, for a call: {}.", some.join(", "));
    }
    let fastest = |target: &&str| {
        let is_fastest = |step: &&&str| {
            let own = per_call(step, target);
            own.is_some_and(|own| {
                targets
                    .iter()
                    .all(|other| per_call(step, other).is_none_or(|us| own <= us))
            })
        };
        steps.iter().filter(is_fastest).count()
    };
    let told = targets
        .iter()
        .map(|target| format!("{target} in {}", fastest(target)));
    format!(
        "Of {} cells of the table, the fastest is: {}.",
        steps.len(),
        told.collect::<Vec<_>>().join(", ")
    )
}

fn full_pipe(report: &Report) -> String {
    let mut sentences = Vec::new();
    for (prefix, doing) in [("mkfile, ", "writes"), ("dd, ", "reads")] {
        for target in report.targets() {
            let rows: Vec<&Row> = report
                .rows
                .iter()
                .filter(|row| row.target == target && row.step.starts_with(prefix))
                .collect();
            let best = rows
                .iter()
                .map(|row| row.figures.throughput.median)
                .fold(0.0, f64::max);
            let full = rows
                .iter()
                .find(|row| row.figures.throughput.median >= best * FULL);
            let (Some(full), Some(first)) = (full, rows.first()) else {
                continue;
            };
            sentences.push(format!(
                "{target} {doing} {} MiB/s with one call in flight; the pipe is full with {} ({} MiB/s).",
                number(first.figures.throughput.median),
                full.step.trim_start_matches(prefix),
                number(full.figures.throughput.median)
            ));
        }
    }
    sentences.join(" ")
}

fn shuffled(report: &Report) -> String {
    let sentences = report.targets().into_iter().filter_map(|target| {
        let steps = report.steps();
        let (first, last) = (steps.first()?, steps.last()?);
        let in_order = report.row(first, target)?.figures.throughput.median;
        let mixed = report.row(last, target)?.figures.throughput.median;
        Some(format!(
            "{target}: {} MiB/s in order, {} of that {}.",
            number(in_order),
            number(mixed / in_order),
            last.trim_start_matches("write ")
        ))
    });
    sentences.collect::<Vec<_>>().join(" ")
}

/// Who is best in files per second, and how many calls that is.
fn unpacked(report: &Report) -> String {
    let rows: Vec<&Row> = report.rows.iter().collect();
    let most = rows
        .iter()
        .map(|row| row.figures.throughput.median)
        .fold(0.0, f64::max);
    let calls = most * unpack::calls_per_entry(report.settings.names);
    format!(
        "{}. The best is {} calls/s.",
        by_step(report).trim_end_matches('.'),
        number(calls)
    )
}

/// What is said of a figure that comes near to what the generator itself can do.
#[must_use]
pub fn near_ceiling(report: &Report) -> Vec<String> {
    const NEAR: f64 = 0.8;
    let near = report.rows.iter().filter_map(|row| {
        let ceiling = report.ceiling(row)?;
        let share = row.figures.throughput.median / ceiling;
        // A rate that was given says nothing about what could be done.
        let is_own = report.settings.rate.is_none() || row.unit == Unit::Mib;
        (share >= NEAR && is_own).then(|| {
            format!(
                "{}, {}: {} % of what the generator does against a server that does nothing. The generator may be the limit.",
                row.step,
                row.target,
                number(share * 100.0)
            )
        })
    });
    near.collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::report;
    use super::*;

    #[test]
    fn the_best_is_named_with_its_lead() {
        let text = answer(&report(Workload::SeqRead, 3));
        assert_eq!(
            text,
            "Read: b is best with 3000 MiB/s, 3.00 times as good as a."
        );
    }

    #[test]
    fn what_the_spread_covers_is_no_difference() {
        let text = answer(&report(Workload::SeqWrite, 1));
        assert!(
            text.contains("no difference is larger than the spread"),
            "{text}"
        );
    }

    #[test]
    fn by_the_clock_less_is_better() {
        let mut report = report(Workload::SeqRead, 3);
        report.settings.rate = Some(10.0);
        for row in &mut report.rows {
            let factor = if row.target == "a" { 1.0 } else { 5.0 };
            row.figures.p99_us = row.figures.p99_us.times(factor);
        }
        let text = answer(&report);
        assert!(
            text.contains("a is best with") && text.contains("5.00 times as good as b"),
            "{text}"
        );
    }

    #[test]
    fn every_workload_has_an_answer() {
        for workload in Workload::ALL {
            let text = answer(&report(workload, 2));
            assert!(
                text.contains('b') && text.ends_with('.'),
                "{}: {text}",
                workload.name()
            );
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        }
    }
}
