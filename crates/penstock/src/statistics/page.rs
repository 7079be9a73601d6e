//! The statistics of a client for people, in 80 columns and in the words of nfsiostat(8) and mountstats(8). Pure.

use std::fmt::Write as _;
use std::time::Duration;

use nfs_client::connection::{Kind, Latencies, Operation};
use nfs_client::{Depth, Statistics};
use unicode_width::UnicodeWidthStr as _;

use super::figures::{About, status_word};
use crate::progress::bytes_text;
use crate::show::{escape, padding};

/// A page about `statistics`: of the time since the beginning, or of one interval.
pub(crate) fn page(about: &About, statistics: &Statistics, since_beginning: bool) -> String {
    let mut text = String::new();
    // Nothing is written but to memory, which does not fail.
    let _never = write_page(&mut text, about, statistics, since_beginning);
    text
}

fn write_page(
    out: &mut String,
    about: &About,
    statistics: &Statistics,
    since_beginning: bool,
) -> std::fmt::Result {
    write!(out, "{}", escape(about.url.as_bytes()))?;
    if let Some(mount) = &about.mount {
        write!(out, " mounted on {}", escape(mount.dir.as_bytes()))?;
    }
    let over = match since_beginning {
        true => "from the first connection on,",
        false => "the last",
    };
    writeln!(out, "\n{over} {} s:\n", seconds(statistics.age))?;
    let operations = operations(statistics);
    if operations.is_empty() {
        writeln!(out, "no calls\n")?;
    } else {
        write_table(out, &counts(&operations, statistics.age), "  ")?;
        writeln!(out)?;
        write_table(out, &latencies(&operations), " ")?;
        writeln!(out)?;
    }
    write_rest(out, statistics)?;
    write_errors(out, &operations)
}

/// The kinds that there were calls of: READ and WRITE first, as with nfsiostat, then those with most calls.
fn operations(statistics: &Statistics) -> Vec<&Operation> {
    let all = statistics.operations.iter();
    let mut all: Vec<_> = all
        .filter(|one| one.calls + one.ops + one.in_flight > 0)
        .collect();
    let rank = |one: &&Operation| match one.kind.name() {
        "READ" => 0,
        "WRITE" => 1,
        _ => 2,
    };
    all.sort_by_key(|one| (rank(one), std::cmp::Reverse(one.calls)));
    all
}

fn counts(operations: &[&Operation], age: Duration) -> Vec<Vec<String>> {
    let head = ["", "ops", "ops/s", "kB/s", "kB/op", "retrans", "errors"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for one in operations {
        let bytes = one.bytes_sent.saturating_add(one.bytes_received);
        let kb = bytes as f64 / 1024.0;
        let seconds = age.as_secs_f64();
        rows.push(vec![
            name(one.kind),
            one.ops.to_string(),
            figure(ratio(one.ops as f64, seconds)),
            figure(ratio(kb, seconds)),
            figure(ratio(kb, one.ops as f64)),
            part(one.resent, one.ops),
            part(one.errors, one.ops),
        ]);
    }
    rows
}

fn latencies(operations: &[&Operation]) -> Vec<Vec<String>> {
    let head = [
        "ms",
        "avg RTT",
        "p50",
        "p99",
        "max",
        "avg queue",
        "p99",
        "avg exe",
        "p99",
        "max",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for one in operations {
        let ms = |time: Option<Duration>| match time {
            Some(time) => figure(Some(time.as_secs_f64() * 1e3)),
            None => "-".to_owned(),
        };
        let at = |times: &Latencies, part| ms(times.quantile(part));
        let Operation {
            queue,
            rtt,
            execute,
            ..
        } = one;
        rows.push(vec![
            name(one.kind),
            ms(rtt.average()),
            at(rtt, 0.5),
            at(rtt, 0.99),
            ms(rtt.max()),
            ms(queue.average()),
            at(queue, 0.99),
            ms(execute.average()),
            at(execute, 0.99),
            ms(execute.max()),
        ]);
    }
    rows
}

/// What is not of single procedures.
fn write_rest(out: &mut String, statistics: &Statistics) -> std::fmt::Result {
    let (windows, cache) = (&statistics.windows, &statistics.cache);
    let stats = &statistics.transport;
    writeln!(
        out,
        "connections  {} of {} up, {} made again; {} calls sent again, {} timeouts",
        statistics.connections_up,
        statistics.connections,
        stats.reconnects,
        stats.resent_calls,
        stats.timeouts,
    )?;
    writeln!(
        out,
        "jukebox      {} waits, {} s together",
        stats.jukebox_waits,
        seconds(stats.jukebox_waited),
    )?;
    let in_flight = |name| {
        let ours = statistics.operations.iter();
        let ours = ours.filter(|one| one.kind.name() == name);
        ours.map(|one| one.in_flight).sum::<u64>()
    };
    let window = |name, depth, found: Option<u32>, bytes| {
        let deep = match (depth, found) {
            (Depth::Fixed(depth), _) => format!("{depth} deep (given)"),
            (Depth::Measured, Some(depth)) => format!("{depth} deep (found)"),
            (Depth::Measured, None) => "not measured yet".to_owned(),
        };
        let (bytes, now) = (bytes_text(bytes), in_flight(name));
        format!("{name:5} {deep}, {bytes} each, {now} in flight")
    };
    let read = window("READ", windows.read, windows.read_found, windows.read_bytes);
    writeln!(out, "windows      {read}")?;
    let write = window(
        "WRITE",
        windows.write,
        windows.write_found,
        windows.write_bytes,
    );
    writeln!(out, "             {write}")?;
    writeln!(
        out,
        "             {} busy, {} files open",
        windows.busy, windows.files,
    )?;
    writeln!(
        out,
        "memory       {} now, {} at most, of {}",
        bytes_text(windows.memory_bytes),
        bytes_text(windows.memory_bytes_peak),
        bytes_text(windows.memory_bytes_max),
    )?;
    writeln!(
        out,
        "read ahead   {} pieces there, {} waited for, {} asked for",
        cache.data_ahead, cache.data_coming, cache.data_asked,
    )?;
    writeln!(
        out,
        "attributes   of open files: {} known, {} asked for",
        cache.attributes_known, cache.attributes_asked,
    )
}

/// How calls ended that did not end well, one line for each procedure that had such.
fn write_errors(out: &mut String, operations: &[&Operation]) -> std::fmt::Result {
    let mut title = "errors";
    for one in operations {
        let statuses = one.statuses.iter().map(|&(status, count)| {
            let word = status_word(one.kind, status).map(str::to_owned);
            (word.unwrap_or_else(|| format!("status {status}")), count)
        });
        let ends = [
            ("refused", one.refused),
            ("timeouts", one.timeouts),
            ("disconnected", one.disconnected),
            ("given up", one.given_up),
        ];
        let ends = ends.map(|(word, count)| (word.to_owned(), count));
        let told: Vec<String> = statuses
            .chain(ends)
            .filter(|(_, count)| *count > 0)
            .map(|(word, count)| format!("{word} {count}"))
            .collect();
        if !told.is_empty() {
            writeln!(out, "{title:12} {}: {}", name(one.kind), told.join(", "))?;
            title = "";
        }
    }
    Ok(())
}

/// READ, and of another protocol than NFS, `MOUNT MNT`.
fn name(kind: Kind) -> String {
    match kind {
        Kind::Nfs3(_) | Kind::Nfs4(_) => kind.name().to_owned(),
        Kind::Mount3(_) | Kind::Other => format!("{} {}", kind.protocol(), kind.name()),
    }
}

fn ratio(above: f64, below: f64) -> Option<f64> {
    (below > 0.0).then(|| above / below)
}

/// A count and its part of the whole, as nfsiostat has them: `3 (0.1%)`.
fn part(count: u64, of: u64) -> String {
    let percent = ratio(count as f64 * 100.0, of as f64).unwrap_or(0.0);
    format!("{count} ({percent:.1}%)")
}

/// A number in five columns, as long as it is below 100,000; `-` where there is none.
fn figure(number: Option<f64>) -> String {
    match number {
        None => "-".to_owned(),
        Some(number) if number < 9.9995 => format!("{number:.3}"),
        Some(number) if number < 99.995 => format!("{number:.2}"),
        Some(number) if number < 999.95 => format!("{number:.1}"),
        Some(number) => format!("{number:.0}"),
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64())
}

/// Rows in columns with `gap` in between: the first to the left, the others to the right.
fn write_table(out: &mut String, rows: &[Vec<String>], gap: &str) -> std::fmt::Result {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.width()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            match column {
                0 => write!(line, "{cell}{}", padding(cell, *width))?,
                _ => write!(line, "{gap}{}{cell}", padding(cell, *width))?,
            }
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
