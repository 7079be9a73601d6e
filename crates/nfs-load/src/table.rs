//! Figures as tables: for people in a terminal, and as Markdown.

use std::fmt::Write as _;

/// Cells under a heading; the first column is text, the others are figures.
#[derive(Clone, Debug)]
pub struct Table {
    /// Title of the table, which says what its figures are about.
    pub title: String,
    /// Headings of the columns, one for each.
    pub heading: Vec<String>,
    /// The rows, each with as many cells as there are headings.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table of `rows`, each with as many cells as `heading`.
    pub fn new(
        title: impl Into<String>,
        heading: &[&str],
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Self {
        Self {
            title: title.into(),
            heading: heading.iter().map(|cell| (*cell).to_owned()).collect(),
            rows: rows.into_iter().collect(),
        }
    }

    /// The table as plain text, its columns aligned with spaces.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n", self.title);
        let widths: Vec<usize> = (0..self.heading.len())
            .map(|column| {
                let cells = std::iter::once(&self.heading).chain(&self.rows);
                cells
                    .map(|row| row[column].chars().count())
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        for row in std::iter::once(&self.heading).chain(&self.rows) {
            let cells: Vec<String> = row
                .iter()
                .zip(&widths)
                .enumerate()
                .map(|(column, (cell, &width))| {
                    if column == 0 {
                        format!("{cell:<width$}")
                    } else {
                        format!("{cell:>width$}")
                    }
                })
                .collect();
            let _ = writeln!(out, "  {}", cells.join("  ").trim_end());
        }
        out
    }

    /// The table in Markdown, under a heading of the third level.
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let mut rule = vec!["---".to_owned()];
        rule.resize(self.heading.len(), "---:".to_owned());
        let mut out = format!(
            "### {}\n\n{}{}",
            self.title,
            line(&self.heading),
            line(&rule)
        );
        self.rows.iter().for_each(|row| out.push_str(&line(row)));
        out
    }
}
