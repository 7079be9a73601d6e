//! The report as a page of a terminal.

use std::io::{self, IsTerminal as _, Write};

use anstyle::AnsiColor::{Cyan, Green, Red, Yellow};
use nfs_client::doctor;
use nfs_io::finding::Finding;
use nfs_io::probe::diagnosis::{Diagnosis, Level, Modes, Section, fs_name};
use nfs_io::probe::directory::{DirectoryFacts, ProcessFacts};
use ratatui::crossterm::terminal;
use textwrap::{WordSeparator, WordSplitter};

use crate::limits::PAGE_COLUMNS_MAX;

/// The look of the page: how wide it is, whether it has colours, and which colour means what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    coloured: bool,
    columns: usize,
}

impl Style {
    /// A page for standard output: as wide as its terminal, within reason.
    pub(super) fn of_output(coloured: bool) -> Self {
        let columns = if io::stdout().is_terminal() {
            terminal::size().map_or(COLUMNS, |(columns, _)| usize::from(columns))
        } else {
            COLUMNS
        };
        Self::new(coloured, columns)
    }

    pub(super) fn new(coloured: bool, columns: usize) -> Self {
        let columns = columns.clamp(COLUMNS_MIN, PAGE_COLUMNS_MAX);
        Self { coloured, columns }
    }

    fn paint(self, style: anstyle::Style, text: &str) -> String {
        if self.coloured {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }

    fn bold(self, text: &str) -> String {
        self.paint(anstyle::Style::new().bold(), text)
    }

    fn dim(self, text: &str) -> String {
        self.paint(anstyle::Style::new().dimmed(), text)
    }

    fn level(self, level: Level) -> String {
        let code = match level {
            Level::Ok => Green.on_default(),
            Level::Warn => Yellow.on_default(),
            Level::Missing => Red.on_default().bold(),
        };
        self.paint(code, &format!("{:<7}", level.word()))
    }

    fn level_of_server(self, level: doctor::Level) -> String {
        let code = match level {
            doctor::Level::Ok => Green.on_default(),
            doctor::Level::Note => Cyan.on_default(),
            doctor::Level::Warning => Yellow.on_default(),
            doctor::Level::Problem => Red.on_default().bold(),
        };
        self.paint(code, &format!("{:<7}", level.word()))
    }
}

/// Columns of a page that is for no terminal, or for one that does not tell its width.
const COLUMNS: usize = 100;
/// The fewest columns: a terminal that is narrower breaks the lines itself.
const COLUMNS_MIN: usize = 60;
/// Column in which begins what a mode does, behind the mode and the operation.
const MODE_COLUMN: usize = 2 + 11 + 8;
/// Column in which the text of a finding begins, behind its level and subject.
const TEXT_COLUMN: usize = 2 + 8 + SUBJECT_COLUMNS;
/// Room for the longest subject and a space.
const SUBJECT_COLUMNS: usize = 18;

/// Prints all that was found out about one directory.
pub(super) fn print(
    out: &mut impl Write,
    style: Style,
    facts: &DirectoryFacts,
    process: &ProcessFacts,
    diagnosis: &Diagnosis,
) -> io::Result<()> {
    let path = crate::show::escape(facts.path.as_os_str().as_encoded_bytes());
    let title = format!("{} on Linux {}", fs_name(facts), process.kernel);
    writeln!(out, "{}  {}", style.bold(&path), style.dim(&title))?;
    for section in Section::ALL {
        writeln!(out, "\n{}", style.bold(section.word()))?;
        let all = diagnosis.findings.iter();
        for finding in all.filter(|finding| finding.section == section) {
            print_finding(out, style, &style.level(finding.level), finding)?;
        }
    }
    match &diagnosis.modes {
        Some(modes) => print_modes(out, style, modes),
        None => Ok(()),
    }
}

/// Prints all that was found out about one server.
pub(super) fn print_server(
    out: &mut impl Write,
    style: Style,
    url: &str,
    diagnosis: &doctor::Diagnosis,
) -> io::Result<()> {
    let url = crate::show::escape(url.as_bytes());
    writeln!(out, "{}", style.bold(&url))?;
    for section in doctor::Section::ALL {
        let of_section = |finding: &&doctor::Finding| finding.section == section;
        let mut findings = diagnosis.findings.iter().filter(of_section).peekable();
        if findings.peek().is_some() {
            writeln!(out, "\n{}", style.bold(section.word()))?;
        }
        for finding in findings {
            let level = style.level_of_server(finding.level);
            print_finding(out, style, &level, finding)?;
        }
    }
    Ok(())
}

fn print_finding<S, L>(
    out: &mut impl Write,
    style: Style,
    level: &str,
    finding: &Finding<S, L>,
) -> io::Result<()> {
    let subject = format!("{:<SUBJECT_COLUMNS$}", finding.subject);
    write!(out, "  {level} {subject}")?;
    let fact = crate::show::escape(finding.fact.as_bytes());
    let columns = style.columns;
    print_wrapped(out, &fact, (TEXT_COLUMN, columns), |line| line.to_owned())?;
    if !finding.meaning.is_empty() {
        write!(out, "{:TEXT_COLUMN$}", "")?;
        print_wrapped(out, &finding.meaning, (TEXT_COLUMN, columns), |line| {
            style.dim(line)
        })?;
    }
    if let Some(cure) = &finding.cure {
        write!(out, "{:TEXT_COLUMN$}", "")?;
        let cure = format!("cure: {cure}");
        print_wrapped(out, &cure, (TEXT_COLUMN, columns), |line| line.to_owned())?;
    }
    Ok(())
}

fn print_modes(out: &mut impl Write, style: Style, modes: &Modes) -> io::Result<()> {
    writeln!(out, "\n{}", style.bold("what a mode does here"))?;
    for row in &modes.rows {
        let cells = [
            ("READ", &row.read),
            ("WRITE", &row.write),
            ("COMMIT", &row.commit),
        ];
        for (index, (operation, cell)) in cells.into_iter().enumerate() {
            let mode = if index == 0 { row.mode.word() } else { "" };
            let mode = style.bold(&format!("{mode:<10}"));
            write!(out, "  {mode} {operation:<7} ")?;
            print_wrapped(out, cell, (MODE_COLUMN, style.columns), |line| {
                line.to_owned()
            })?;
        }
    }
    let chosen = &modes.recommendation;
    writeln!(out, "\n{}", style.bold("recommended"))?;
    writeln!(out, "  read = \"{}\"", chosen.read)?;
    writeln!(out, "  write = \"{}\"", chosen.write)?;
    for line in wrap(&chosen.why, style.columns - 2) {
        writeln!(out, "  {}", style.dim(&line))?;
    }
    Ok(())
}

/// Prints lines between two columns; the first is begun already.
fn print_wrapped(
    out: &mut impl Write,
    text: &str,
    (from, to): (usize, usize),
    paint: impl Fn(&str) -> String,
) -> io::Result<()> {
    for (index, line) in wrap(text, to - from).iter().enumerate() {
        if index > 0 {
            write!(out, "{:from$}", "")?;
        }
        writeln!(out, "{}", paint(line))?;
    }
    Ok(())
}

/// Lines of at most `columns` columns, broken at spaces; a longer word stays whole. At least one line.
fn wrap(text: &str, columns: usize) -> Vec<String> {
    let options = textwrap::Options::new(columns)
        .break_words(false)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation);
    let lines = textwrap::wrap(text, options).into_iter();
    lines.map(|line| line.into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_at_spaces() {
        assert_eq!(wrap("", 10), [""]);
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("a verylongword b", 5), ["a", "verylongword", "b"]);
        assert_eq!(wrap("gr\u{fc}n gr\u{fc}n", 9), ["gr\u{fc}n gr\u{fc}n"]);
    }

    #[test]
    fn colours_are_optional() {
        assert_eq!(Style::new(false, 80).level(Level::Warn), "warn   ");
        assert_eq!(
            Style::new(true, 80).level(Level::Ok),
            "\x1b[32mok     \x1b[0m"
        );
        assert_eq!(Style::new(false, 80).bold("a"), "a");
    }
}
