//! One page of text, or one JSON object, for scripts.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context as _;
use nfs_server::operate::live::{self, Group, Interval, Moment};
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr as _;

use super::feed::Door;
use super::format::{bytes, count, percent, time};
use super::table::Tab;
use super::view::View;
use super::{Args, format};
use crate::results;
use crate::show::padding;

/// Looks twice, an interval apart, and prints what happened in between.
pub(super) fn run(args: &Args, door: &Door) -> anyhow::Result<ExitCode> {
    let mut view = View::new(String::new());
    view.tab = match args.view.tab() {
        // Bars are for the eye; the procedures' rows have the percentiles.
        Tab::Latency => Tab::Procedures,
        tab => tab,
    };
    view.filter.clone_from(&args.filter);
    for look in 0..2 {
        if look > 0 {
            std::thread::sleep(args.interval);
        }
        let told = door.look().context("penstock top")?;
        view.take(&told.snapshot, told.policies);
    }
    let mut out = std::io::stdout().lock();
    let watch = view.watch();
    let (Some(interval), Some(moment)) = (watch.now(), watch.moments().next_back()) else {
        anyhow::bail!("the server told the same moment twice; is its clock running?");
    };
    if args.json {
        let object = as_json(&view, interval, moment)?;
        writeln!(out, "{object}")?;
    } else {
        page(&mut out, &view, moment)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn as_json(view: &View, interval: &Interval, moment: &Moment) -> anyhow::Result<Value> {
    let exports = live::export_rows(interval, &view.policies);
    let clients = live::client_rows(interval);
    let wanted = |name: &str| name.to_lowercase().contains(&view.filter.to_lowercase());
    let exports: Vec<_> = exports.iter().filter(|row| wanted(&row.export)).collect();
    let clients: Vec<_> = clients.iter().filter(|row| wanted(&row.client)).collect();
    let mut object = json!({
        "at_unix_ms": interval.at_unix_ms,
        "seconds": interval.seconds,
        "host": moment.host,
        "all": moment.all,
        "exports": exports,
        "clients": clients,
        "procedures": live::call_rows(interval, Group::Procedure),
        "modes": live::call_rows(interval, Group::Mode),
        "policies": serde_json::to_value(&view.policies)?,
    });
    results::date(&mut object);
    Ok(object)
}

fn page(out: &mut impl Write, view: &View, moment: &Moment) -> anyhow::Result<()> {
    let (all, host) = (&moment.all, &moment.host);
    let known =
        |value: Option<f64>, show: fn(f64) -> String| value.map_or_else(|| "-".to_owned(), show);
    let cpu = host
        .cpu_user
        .zip(host.cpu_system)
        .map(|(user, system)| user + system);
    writeln!(
        out,
        "{} UTC  ops/s {}  err/s {}  read/s {}  write/s {}  read p99 {}  write p99 {}",
        format::clock(moment.at_unix_ms),
        count(all.operations),
        count(all.errors),
        bytes(all.read.bytes),
        bytes(all.write.bytes),
        time(all.read.took.p99),
        time(all.write.took.p99),
    )?;
    writeln!(
        out,
        "cpu {}  mem {} of {}  cache {}  waits mem {} io {} cpu {}  conn {}",
        known(cpu, |cpu| format!("{cpu:.2}")),
        known(host.memory_used_bytes, bytes),
        known(host.memory_limit_bytes, bytes),
        known(all.page_cache_bytes, bytes),
        known(host.memory_some, percent),
        known(host.io_some, percent),
        known(host.cpu_some, percent),
        known(host.connections, count),
    )?;
    writeln!(out)?;
    let columns = view.tab.columns();
    let rows = view.rows();
    let mut lines: Vec<Vec<String>> = vec![
        columns
            .iter()
            .map(|column| column.title.to_owned())
            .collect(),
    ];
    lines.extend(
        rows.into_iter()
            .map(|row| row.cells.into_iter().map(|cell| cell.shown).collect()),
    );
    let width = |index: usize| {
        let cells = lines.iter().filter_map(|line| line.get(index));
        cells.map(|cell| cell.width()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    for line in &lines {
        let cells = line.iter().zip(&widths).enumerate();
        let cells = cells.map(|(index, (cell, width))| match index {
            0 => format!("{cell}{}", padding(cell, *width)),
            _ => format!("{}{cell}", padding(cell, *width)),
        });
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}
