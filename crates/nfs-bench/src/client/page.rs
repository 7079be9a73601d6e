//! The comparison of clients as a directory: tables and a picture.

use std::path::Path;

use anyhow::Result;

use super::plan::Part;
use super::run::Report;
use super::serve::Server;
use super::tool::Work;
use crate::summary;
use crate::summary::plot::{Line, Panel, svg};

/// File name of the picture in the report's directory.
const PICTURE: &str = "windows.svg";

/// Writes the report into `directory`.
///
/// # Errors
/// It cannot be written.
pub fn write(report: &Report, directory: &Path) -> Result<()> {
    let drawn = picture(report);
    let pictures = drawn.as_ref().map_or(String::new(), |_| {
        format!("## By window\n\n![throughput by depth of the window]({PICTURE})\n\n")
    });
    let page = report.summary().page("The client, measured", &pictures);
    let drawn = drawn.map(|svg| (PICTURE.to_owned(), svg));
    summary::write(directory, &page, drawn, report)
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
