//! What a report shows of measurements that were watched as they went.

use super::page::Section;
use super::svg::{Chart, Line, Lines, Shape};
use super::{Report, number};
use crate::series::{Moment, Series};
use crate::table::Table;

const MIB: f64 = (1 << 20) as f64;

/// The targets that were watched, in their order.
fn watched(report: &Report) -> Vec<(&str, &Series)> {
    let rows = report.rows.iter();
    rows.filter_map(|row| Some((row.target.as_str(), row.series.as_ref()?)))
        .collect()
}

/// A sentence for each target: whether it tipped over, when, and what of the data was in the page cache.
pub(super) fn answer(report: &Report) -> String {
    let sentences = watched(report).into_iter().map(|(target, series)| {
        let cached = series
            .data_cached_bytes_max()
            .map_or(String::new(), |bytes| {
                format!(
                    "; at most {} of the data was in the page cache",
                    of_data(bytes, series)
                )
            });
        format!("{target} {}{cached}.", course(series))
    });
    sentences.collect::<Vec<_>>().join(" ")
}

/// "tipped over after 3.20 s, with 480 MiB written of 512 MiB of memory: from 900 to 300 MiB/s"
fn course(series: &Series) -> String {
    let memory = series.memory_bytes.map(mib);
    let whole = series.moving().last().map_or(0.0, |last| {
        let sums = series.moving().iter().scan(0.0, |before, one| {
            let length = one.seconds - std::mem::replace(before, one.seconds);
            Some(one.mib_per_second * length)
        });
        sums.sum::<f64>() / last.seconds
    });
    match (series.tipped_at(), series.sides()) {
        (Some(at), Some((before, after))) => {
            let moments = series.moving();
            let last = at.checked_sub(1).and_then(|at| moments.get(at));
            let last = last.copied().unwrap_or_default();
            let memory = memory.map_or(String::new(), |memory| format!(" and {memory} of memory"));
            format!(
                "tipped over after {} s, with {} of data{memory}: from {} to {} MiB/s",
                number(last.seconds),
                mib(last.written_bytes),
                number(before.mib_per_second),
                number(after.mib_per_second)
            )
        }
        (None, Some((before, after))) => format!(
            "did not tip over: {} MiB/s while the data fitted into {}, {} MiB/s afterwards",
            number(before.mib_per_second),
            memory.unwrap_or_default(),
            number(after.mib_per_second)
        ),
        _ => format!("did not tip over, with {} MiB/s", number(whole)),
    }
}

fn mib(bytes: u64) -> String {
    format!("{}\u{a0}MiB", number(bytes as f64 / MIB))
}

/// "470 MiB (23.0 %)"
fn of_data(bytes: u64, series: &Series) -> String {
    let share = bytes as f64 / series.written_bytes().max(1) as f64;
    format!("{} ({}\u{a0}%)", mib(bytes), number(share * 100.0))
}

/// What has to be known about the figures.
pub(super) fn notes(report: &Report) -> Vec<String> {
    let watched = watched(report);
    let names = |which: fn(&Series) -> bool| {
        let some = watched.iter().filter(|(_, series)| which(series));
        some.map(|(target, _)| *target)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let mut notes = Vec::new();
    let mut note = |targets: String, text: &str| {
        if !targets.is_empty() {
            notes.push(format!("{targets}: {text}"));
        }
    };
    let fits = |series: &Series| series.memory_bytes.is_some() && series.outgrown_at().is_none();
    note(
        names(fits),
        "the data never outgrew memory. Give it less of it, or a larger --size.",
    );
    let is_host = |series: &Series| series.memory_bytes.is_some() && !series.is_cache_of_group;
    note(
        names(is_host),
        "not in a memory cgroup with a limit: the page cache in report.json is that of the whole host.",
    );
    let stalls = |series: &Series| {
        let last = series.moments.last();
        !series.is_pressure_of_group && last.is_some_and(|last| last.memory_stall.is_some())
    };
    note(names(stalls), "the stalls are those of the whole host.");
    notes
}

/// The table and the pictures; `None` where nothing was watched.
pub(super) fn section(report: &Report) -> Option<Section> {
    let watched = watched(report);
    if watched.is_empty() {
        return None;
    }
    let heading = [
        "before → after",
        "tipped over after",
        "MiB/s",
        "p99 ms",
        "system cores",
        "waits for memory %",
        "waits for a device %",
        "data in the page cache",
    ];
    let rows = watched.iter().map(|(target, series)| row(target, series));
    Some(Section {
        table: Table::new("Over time", &heading, rows),
        charts: charts(&watched),
    })
}

fn row(target: &str, series: &Series) -> Vec<String> {
    let tipped = series
        .tipped_at()
        .and_then(|at| series.moving().get(at.checked_sub(1)?));
    let tipped = tipped.map_or("no".to_owned(), |last| {
        format!(
            "{}\u{a0}s, {}",
            number(last.seconds),
            mib(last.written_bytes)
        )
    });
    let sides = series.sides();
    let both = |value: fn(&crate::series::Stretch) -> Option<f64>, factor: f64| {
        let shown = sides.as_ref().and_then(|(before, after)| {
            let (before, after) = (value(before)? * factor, value(after)? * factor);
            // A cell of two figures stays on one line.
            Some(format!("{}\u{a0}→\u{a0}{}", number(before), number(after)))
        });
        shown.unwrap_or_else(|| "-".to_owned())
    };
    let cached = series.data_cached_bytes_max();
    vec![
        target.to_owned(),
        tipped,
        both(|side| Some(side.mib_per_second), 1.0),
        both(|side| side.p99_us, 1e-3),
        both(|side| side.system_cores, 1.0),
        both(|side| side.memory_stall, 100.0),
        both(|side| side.io_stall, 100.0),
        cached.map_or("-".to_owned(), |bytes| of_data(bytes, series)),
    ]
}

type Value = fn(&Moment) -> Option<f64>;

fn charts(watched: &[(&str, &Series)]) -> Vec<Chart> {
    let all: [(&str, Value); 7] = [
        ("Throughput, MiB/s", |one| Some(one.mib_per_second)),
        ("Half of the calls took at most, ms", |one| {
            Some(one.p50_us? / 1e3)
        }),
        ("99 of 100 calls took at most, ms", |one| {
            Some(one.p99_us? / 1e3)
        }),
        ("The server in the kernel, cores", |one| one.system_cores),
        ("Data in the page cache, MiB", |one| {
            Some(one.data_cached_bytes? as f64 / MIB)
        }),
        ("Somebody waits for memory, % of the time", |one| {
            Some(one.memory_stall? * 100.0)
        }),
        ("Somebody waits for a device, % of the time", |one| {
            Some(one.io_stall? * 100.0)
        }),
    ];
    let charts = all.into_iter().filter_map(|(title, value)| {
        let lines: Vec<Line> = watched
            .iter()
            .enumerate()
            .map(|(colour, (target, series))| line(target, colour, series, value))
            .filter(|line| !line.points.is_empty())
            .collect();
        (!lines.is_empty()).then(|| {
            Chart::Lines(Lines {
                title: title.to_owned(),
                along: "seconds".to_owned(),
                mark: "the data is as large as memory".to_owned(),
                shape: Shape::Line,
                lines,
            })
        })
    });
    charts.collect()
}

fn line(target: &str, colour: usize, series: &Series, value: Value) -> Line {
    let point = |one: &Moment| Some((one.seconds, value(one)?));
    let outgrown = series.outgrown_at().and_then(|at| series.moments.get(at));
    Line {
        label: target.to_owned(),
        colour,
        points: series.moments.iter().filter_map(point).collect(),
        mark: outgrown.and_then(point),
    }
}
