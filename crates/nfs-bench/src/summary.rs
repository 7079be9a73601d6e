//! What is shown of a comparison, whatever was compared: where it ran, tables, goals, what is missing. In a terminal, and as a
//! directory with a page, pictures and everything that was measured.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use self::verdict::Verdict;
use nfs_load::table::Table;

pub mod plot;
pub mod verdict;

/// A comparison as people read it, in a terminal or as a page.
#[derive(Debug)]
pub struct Summary<'a> {
    /// Lines that say on which machine and with which settings the figures were measured.
    pub header: Vec<String>,
    /// The figures, one table for each subject.
    pub tables: Vec<Table>,
    /// The goals that the figures are held against, each met or not.
    pub verdicts: Vec<Verdict>,
    /// What could not be measured and why, one entry for each.
    pub missing: &'a [String],
}

impl Summary<'_> {
    /// The summary as plain text for a terminal.
    pub fn text(&self) -> String {
        let mut out = self.header.join("\n");
        out.push_str("\n\n");
        for table in &self.tables {
            out.push_str(&table.text());
            out.push('\n');
        }
        for verdict in &self.verdicts {
            let _ = writeln!(out, "{verdict}");
        }
        for missing in self.missing {
            let _ = writeln!(out, "not measured: {missing}");
        }
        out
    }

    /// The summary as a page of Markdown, with `pictures` (sections of their own) between the goals and the
    /// figures.
    pub fn page(&self, title: &str, pictures: &str) -> String {
        let mut page = format!("# {title}\n\n");
        for line in &self.header {
            let _ = writeln!(page, "- {line}");
        }
        page.push_str("\nWhat the columns mean, and how far they can be trusted: docs/benchmarking.md.\n\n## Goals\n\n");
        page.push_str("| | goal | measured | bound |\n|---|---|---:|---:|\n");
        for verdict in &self.verdicts {
            page.push_str(&verdict.markdown());
        }
        let _ = write!(page, "\n{pictures}## Figures\n\n");
        for table in &self.tables {
            let _ = writeln!(page, "{}", table.markdown());
        }
        for missing in self.missing {
            let _ = writeln!(page, "- not measured: {missing}");
        }
        page
    }
}

/// Writes `page` as `index.md`, `pictures` by their names and `report`, with every round, as `results.json` into `directory`.
///
/// # Errors
/// It cannot be written.
pub fn write(
    directory: &Path,
    page: &str,
    pictures: impl IntoIterator<Item = (String, String)>,
    report: &impl Serialize,
) -> Result<()> {
    std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    let put = |name: &str, bytes: &[u8]| {
        let path = directory.join(name);
        std::fs::write(&path, bytes).with_context(|| path.display().to_string())
    };
    for (name, svg) in pictures {
        put(&name, svg.as_bytes())?;
    }
    put("index.md", page.as_bytes())?;
    put("results.json", &serde_json::to_vec(report)?)
}
