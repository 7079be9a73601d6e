//! The report as a directory: tables and pictures.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;

use super::table::{DRAWN, name, summary};
use crate::modes::page::{mib, picture};
use crate::modes::run::Report;
use crate::summary;

/// Writes the report into `directory`.
///
/// # Errors
/// It cannot be written.
pub fn write(report: &Report, directory: &Path) -> Result<()> {
    let mut pictures = "## Over time\n\n".to_owned();
    let mut drawn = Vec::new();
    for (volume, _) in &report.header.volumes {
        let rows = DRAWN
            .into_iter()
            .flat_map(|work| report.drawn(volume, work));
        let rows: Vec<_> = rows.map(|row| (name(row), row)).collect();
        if rows.is_empty() {
            continue;
        }
        let file = format!("{volume}.svg");
        let _ = writeln!(pictures, "![written on {volume} over time]({file})\n");
        let (clients, size) = (report.header.clients, mib(report.header.file_bytes));
        let what = format!("{volume}: a file of {size:.0} MiB, {clients} clients by turns");
        drawn.push((file, picture(report, &what, &rows)));
    }
    let page = summary(report).page("IOR's hard pattern, measured", &pictures);
    summary::write(directory, &page, drawn, report)
}
