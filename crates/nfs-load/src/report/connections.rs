//! What a report shows of connections: what many of them cost, busy and idle.

use super::page::Section;
use super::{IdleMemory, Report, number};
use crate::table::Table;

const KIB: f64 = 1024.0;

/// A line for each server that was started for the run.
pub(super) fn idle(report: &Report) -> Option<Section> {
    let mib = |bytes: u64| number(bytes as f64 / KIB / KIB);
    let cells = |one: &IdleMemory| {
        vec![
            one.target.clone(),
            one.open_before.to_string(),
            one.connections.to_string(),
            mib(one.before_bytes),
            mib(one.after_bytes),
            number(one.bytes_each() / KIB),
        ]
    };
    let columns = [
        "",
        "open before",
        "connections more",
        "MiB before",
        "MiB with them",
        "KiB for each",
    ];
    let table = Table::new(
        "Resident memory of idle connections",
        &columns,
        report.idle.iter().map(cells),
    );
    (!report.idle.is_empty()).then_some(Section {
        table,
        charts: Vec::new(),
    })
}

/// For each target what it does over one connection, what is left of it over most, and what an idle one costs.
pub(super) fn answer(report: &Report) -> String {
    let sentences = report.targets().into_iter().filter_map(|target| {
        let rows: Vec<_> = report
            .rows
            .iter()
            .filter(|row| row.target == target)
            .collect();
        let first = rows.first()?;
        let figure = |row: &super::Row| row.figures.throughput.median;
        let others = rows.iter().skip(1).map(|row| {
            let share = number(figure(row) / figure(first));
            format!("{share} of that over {}", row.step)
        });
        let others: Vec<String> = others.collect();
        let idle = report.idle.iter().find(|one| one.target == target);
        let idle = idle.map_or(String::new(), |one| {
            format!(
                "; an idle one more takes {} KiB",
                number(one.bytes_each() / KIB)
            )
        });
        Some(format!(
            "{target}: {} calls/s over {}, {}{idle}.",
            number(figure(first)),
            first.step,
            others.join(", ")
        ))
    });
    sentences.collect::<Vec<_>>().join(" ")
}
