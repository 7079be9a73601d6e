//! The tables of the screen: columns, and rows out of an interval, filtered and sorted.

use std::cmp::Ordering;

use nfs_server::operate::control::IoState;
use nfs_server::operate::live::{self, CallRow, ExportRow, Group, Interval};

use super::format::{bytes, count, name, percent, time};

/// What is shown below the curves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tab {
    #[default]
    Exports,
    Clients,
    Procedures,
    Modes,
    Latency,
}

/// A column of a table.
pub(super) struct Column {
    pub(super) title: &'static str,
    /// Columns of the terminal. The first one of a table takes what the others leave, and no less than this.
    pub(super) width: u16,
    /// Where there is no room for all, those with the highest number go first; 0 stays.
    pub(super) spare: u8,
}

/// A figure or a name in a row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) shown: String,
    /// What rows are sorted by; names are sorted by what is shown.
    pub(super) figure: Option<f64>,
    /// Something that should not be: errors, a client that is held back.
    pub(super) is_bad: bool,
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// What the row is of, by which it is found again when the order changes.
    pub(super) key: String,
    /// The export that the row is of, if it is of one.
    pub(super) export: Option<String>,
    pub(super) cells: Vec<Cell>,
}

impl Tab {
    pub(super) const ALL: [Self; 5] = [
        Self::Exports,
        Self::Clients,
        Self::Procedures,
        Self::Modes,
        Self::Latency,
    ];

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Exports => "Exports",
            Self::Clients => "Clients",
            Self::Procedures => "Procedures",
            Self::Modes => "Modes",
            Self::Latency => "Latency",
        }
    }

    pub(super) const fn columns(self) -> &'static [Column] {
        match self {
            Self::Exports => EXPORTS,
            Self::Clients => CLIENTS,
            Self::Procedures => PROCEDURES,
            Self::Modes => MODES,
            Self::Latency => &[],
        }
    }

    /// The column that rows are sorted by until another one is chosen.
    pub(super) fn first_sort(self) -> usize {
        let columns = self.columns().iter();
        let mut numbered = columns.enumerate();
        let busiest = numbered.find(|(_, column)| column.title == "OPS/s");
        busiest.map_or(0, |(index, _)| index)
    }

    /// The rows of `interval`, by name. `policies` says how the exports' bytes are to travel.
    pub(super) fn rows(self, interval: &Interval, policies: &[IoState]) -> Vec<Row> {
        match self {
            Self::Exports => exports(interval, policies),
            Self::Clients => clients(interval),
            Self::Procedures => {
                let rows = live::call_rows(interval, Group::Procedure);
                rows.iter().map(procedure).collect()
            }
            Self::Modes => {
                let rows = live::call_rows(interval, Group::Mode);
                rows.iter().map(mode).collect()
            }
            Self::Latency => Vec::new(),
        }
    }
}

/// Sorts by one column: figures the largest first, names as in a dictionary; the other way round if `reversed`.
pub(super) fn sort(rows: &mut [Row], column: usize, reversed: bool) {
    rows.sort_by(|a, b| {
        let order = match (a.cells.get(column), b.cells.get(column)) {
            (Some(a), Some(b)) => compare(a, b),
            _ => Ordering::Equal,
        };
        let order = if reversed { order.reverse() } else { order };
        order.then_with(|| a.key.cmp(&b.key))
    });
}

fn compare(a: &Cell, b: &Cell) -> Ordering {
    match (a.figure, b.figure) {
        (Some(a), Some(b)) => b.total_cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.shown.cmp(&b.shown),
    }
}

/// Whether a row is wanted: one of its names contains the text, in capitals or not.
pub(super) fn matches(row: &Row, text: &str) -> bool {
    let text = text.to_lowercase();
    let mut names = row.cells.iter().filter(|cell| cell.figure.is_none());
    text.is_empty() || names.any(|cell| cell.shown.to_lowercase().contains(&text))
}

const fn column(title: &'static str, width: u16, spare: u8) -> Column {
    Column {
        title,
        width,
        spare,
    }
}

const EXPORTS: &[Column] = &[
    column("EXPORT", 12, 0),
    column("READS", 9, 0),
    column("WRITES", 9, 0),
    column("OPS/s", 6, 0),
    column("READ/s", 6, 0),
    column("WRITE/s", 7, 0),
    column("P50", 6, 3),
    column("P99", 6, 0),
    column("P99.9", 6, 4),
    column("ERR/s", 6, 2),
    column("OTHER/s", 7, 5),
    column("CACHE", 6, 0),
];

const CLIENTS: &[Column] = &[
    column("CLIENT", 15, 0),
    column("OPS/s", 8, 0),
    column("SENT/s", 8, 0),
    column("RECEIVED/s", 10, 0),
    column("IN FLIGHT", 9, 1),
    column("CONNS", 5, 2),
    column("HELD BACK", 9, 0),
];

const PROCEDURES: &[Column] = &[
    column("PROCEDURE", 20, 0),
    column("NFS", 3, 0),
    column("OPS/s", 7, 0),
    column("ERR/s", 7, 0),
    column("P50", 7, 0),
    column("P90", 7, 1),
    column("P99", 7, 0),
    column("P99.9", 7, 2),
];

const MODES: &[Column] = &[
    column("EXPORT", 14, 0),
    column("CALL", 5, 0),
    column("MODE", 9, 0),
    column("OPS/s", 7, 0),
    column("BYTES/s", 7, 0),
    column("P50", 7, 0),
    column("P90", 7, 1),
    column("P99", 7, 0),
    column("P99.9", 7, 2),
];

fn text(shown: &str) -> Cell {
    Cell {
        shown: name(shown),
        figure: None,
        is_bad: false,
    }
}

fn figure(shown: String, figure: f64) -> Cell {
    Cell {
        shown,
        figure: Some(figure),
        is_bad: false,
    }
}

/// A figure that is bad where it is more than nothing.
fn bad(shown: String, number: f64) -> Cell {
    Cell {
        is_bad: number > 0.0,
        ..figure(shown, number)
    }
}

fn took(seconds: Option<f64>) -> Cell {
    figure(time(seconds), seconds.unwrap_or(-1.0))
}

/// What calls are named after that are about no export.
const NO_EXPORT: &str = "(none)";

fn shown_export(export: &str) -> &str {
    if export.is_empty() { NO_EXPORT } else { export }
}

fn exports(interval: &Interval, policies: &[IoState]) -> Vec<Row> {
    let row = |row: ExportRow| {
        let flow = &row.flow;
        let others = flow.operations - flow.read.operations - flow.write.operations;
        let cache = flow.page_cache_bytes;
        let cells = vec![
            text(shown_export(&row.export)),
            text(or_dash(&row.reads)),
            text(or_dash(&row.writes)),
            figure(count(flow.operations), flow.operations),
            figure(bytes(flow.read.bytes), flow.read.bytes),
            figure(bytes(flow.write.bytes), flow.write.bytes),
            took(row.took.p50),
            took(row.took.p99),
            took(row.took.p999),
            bad(count(flow.errors), flow.errors),
            figure(count(others), others),
            figure(
                cache.map_or_else(|| "-".to_owned(), bytes),
                cache.unwrap_or(-1.0),
            ),
        ];
        Row {
            cells,
            export: Some(row.export.clone()).filter(|_| !row.reads.is_empty()),
            key: row.export,
        }
    };
    live::export_rows(interval, policies)
        .into_iter()
        .map(row)
        .collect()
}

const fn or_dash(word: &str) -> &str {
    if word.is_empty() { "-" } else { word }
}

fn clients(interval: &Interval) -> Vec<Row> {
    let row = |row: live::ClientRow| {
        let known = |number: Option<f64>, shown: fn(f64) -> String| {
            let text = number.map_or_else(|| "-".to_owned(), shown);
            figure(text, number.unwrap_or(-1.0))
        };
        Row {
            cells: vec![
                text(&row.client),
                figure(count(row.operations), row.operations),
                figure(bytes(row.sent_bytes), row.sent_bytes),
                figure(bytes(row.received_bytes), row.received_bytes),
                known(row.in_flight_bytes, bytes),
                known(row.connections, count),
                bad(percent(row.throttled), row.throttled),
            ],
            export: None,
            key: row.client,
        }
    };
    live::client_rows(interval).into_iter().map(row).collect()
}

fn procedure(row: &CallRow) -> Row {
    Row {
        key: format!("{} {}", row.version, row.procedure),
        export: None,
        cells: vec![
            text(&row.procedure),
            text(&row.version),
            figure(count(row.operations), row.operations),
            bad(count(row.errors), row.errors),
            took(row.took.p50),
            took(row.took.p90),
            took(row.took.p99),
            took(row.took.p999),
        ],
    }
}

fn mode(row: &CallRow) -> Row {
    Row {
        key: format!("{} {} {}", row.export, row.procedure, row.mode),
        export: Some(row.export.clone()).filter(|export| !export.is_empty()),
        cells: vec![
            text(shown_export(&row.export)),
            text(&row.procedure),
            text(&row.mode),
            figure(count(row.operations), row.operations),
            figure(bytes(row.bytes), row.bytes),
            took(row.took.p50),
            took(row.took.p90),
            took(row.took.p99),
            took(row.took.p999),
        ],
    }
}
