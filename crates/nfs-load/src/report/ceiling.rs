//! What a report shows of the generator itself: a line for each kind of call.

use super::page::{Section, title};
use super::svg::{Bar, Chart};
use super::{Report, Row, cell, number};
use crate::table::Table;
use crate::workload::Unit;

/// The small calls, and those that move data.
pub(super) fn sections(report: &Report) -> Vec<Section> {
    let of = |heading: &str, unit: Unit| {
        let rows: Vec<&Row> = report.rows.iter().filter(|row| row.unit == unit).collect();
        section(heading, unit, &rows)
    };
    vec![
        of("Small calls", Unit::Calls),
        of("READ and WRITE", Unit::Mib),
    ]
}

fn section(heading: &str, unit: Unit, rows: &[&Row]) -> Section {
    let mut columns = vec!["", unit.word(), "p50 µs", "p99 µs"];
    if unit == Unit::Mib {
        columns.push("µs for each");
    }
    let cells = rows.iter().map(|row| {
        let f = &row.figures;
        let mut cells = vec![title(&row.step), cell(&f.throughput)];
        cells.extend([&f.p50_us, &f.p99_us].map(cell));
        if unit == Unit::Mib {
            cells.push(cell(&f.us_per_call));
        }
        cells
    });
    let bars = rows.iter().map(|row| Bar {
        label: title(&row.step),
        colour: 0,
        spread: row.figures.throughput,
    });
    Section {
        table: Table::new(heading, &columns, cells),
        charts: vec![Chart::Bars {
            title: format!("{heading}, {}: more is better", unit.word()),
            bars: bars.collect(),
        }],
    }
}

/// The most that it does of each kind, and how long one call takes it.
pub(super) fn answer(report: &Report) -> String {
    let rows = |begins: &'static str| {
        let rows = report.rows.iter();
        rows.filter(move |row| row.step.starts_with(begins))
    };
    let most = |begins| {
        rows(begins)
            .map(|row| row.figures.throughput.median)
            .fold(0.0, f64::max)
    };
    let told = format!(
        "The generator makes at most {} NULL calls and {} GETATTRs a second, and moves {} MiB/s by READ and {} by WRITE.",
        number(most("NULL")),
        number(most("GETATTR")),
        number(most("READ ")),
        number(most("WRITE "))
    );
    match rows("NULL, 1 in flight").next() {
        Some(row) => format!(
            "{told} A call that nobody works at takes {} µs.",
            number(row.figures.p50_us.median)
        ),
        None => told,
    }
}

/// What has to be known about the figures.
pub(super) fn note() -> String {
    "These are figures of generator, loopback and a responder in the same process that touches no file. Where a server \
     comes near to them, it is the generator that was measured."
        .to_owned()
}
