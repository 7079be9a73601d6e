//! A report as a directory: tables and a picture in `index.md`, everything in `results.json`.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};

use super::plan::Part;
use super::run::Report;
use super::serve::Server;
use super::tool::Work;
use super::verdict::verdicts;
use crate::modes::plot::{Line, Panel, svg};
use crate::modes::table::met;

/// The picture's file.
const PICTURE: &str = "windows.svg";

/// Writes the report into `directory`.
///
/// # Errors
/// It cannot be written.
pub fn write(report: &Report, directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    let put = |name: &str, bytes: &[u8]| {
        let path = directory.join(name);
        std::fs::write(&path, bytes).with_context(|| path.display().to_string())
    };
    let mut page = "# The client, measured\n\n".to_owned();
    for line in report.header_lines() {
        let _ = writeln!(page, "- {line}");
    }
    page.push_str("\nWhat the columns mean, and how far they can be trusted: docs/benchmarking.md.\n\n## Goals\n\n");
    page.push_str("| | goal | measured | bound |\n|---|---|---:|---:|\n");
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
    for verdict in verdicts(report) {
        let (value, bound) = (number(verdict.value), number(verdict.bound));
        let (met, goal) = (met(&verdict), &verdict.goal);
        let _ = writeln!(page, "| {met} | {goal} | {value} | {bound} |");
    }
    if let Some(picture) = picture(report) {
        put(PICTURE, picture.as_bytes())?;
        let _ = writeln!(
            page,
            "\n## By window\n\n![throughput by depth of the window]({PICTURE})"
        );
    }
    page.push_str("\n## Figures\n\n");
    for table in report.tables() {
        let _ = writeln!(page, "{}", table.markdown());
    }
    for missing in &report.missing {
        let _ = writeln!(page, "- not measured: {missing}");
    }
    put("index.md", page.as_bytes())?;
    put("results.json", &serde_json::to_vec(report)?)
}

/// Throughput by depth of the window, and what the client reaches that finds it by itself.
fn picture(report: &Report) -> Option<String> {
    let all = [
        (Server::Penstock, Work::Read, "penstock, read: MiB/s"),
        (Server::Penstock, Work::Write, "penstock, write: MiB/s"),
        (
            Server::Distant,
            Work::Read,
            "a responder 2 ms away, read: MiB/s",
        ),
        (
            Server::Distant,
            Work::Write,
            "a responder 2 ms away, write: MiB/s",
        ),
    ];
    let (mut panels, mut lines) = (Vec::new(), Vec::new());
    for (server, work, title) in all {
        let rows = report.of(Part::Window, server, work);
        let mut points = Vec::new();
        let mut found = None;
        for row in rows {
            match row.tool.tuning().and_then(|tuning| tuning.window) {
                Some(window) => points.push((f64::from(window), row.rate().median)),
                None => found = Some(row.rate().median),
            }
        }
        if points.is_empty() {
            continue;
        }
        panels.push(Panel {
            title,
            level: found.map(|found| (found, "found by itself")),
        });
        lines.push(points);
    }
    if panels.is_empty() {
        return None;
    }
    let line = Line {
        name: "with a fixed window".to_owned(),
        panels: lines,
    };
    let title = "Throughput by depth of the window";
    Some(svg(title, "transfers in flight", &panels, &[line]))
}
