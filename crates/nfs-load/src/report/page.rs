//! A report as people read it: text, tables and charts, the same for HTML, Markdown and a terminal.

use std::fmt::Write as _;

use super::svg::{Bar, Chart, Heat, Line, Lines, Points, Shape};
use super::{
    Report, Row, answer, ceiling, cell, connections, counted, number, over_time, replayed,
};
use crate::spread::Spread;
use crate::table::Table;
use crate::unpack;
use crate::workload::{Unit, Workload};

/// What is shown of a report.
#[derive(Clone, Debug)]
pub struct Page {
    /// The heading.
    pub title: String,
    /// What was asked.
    pub question: String,
    /// What came out.
    pub answer: String,
    /// The figures.
    pub sections: Vec<Section>,
    /// The machine, the versions and the settings.
    pub environment: Vec<[String; 2]>,
    /// What has to be known about the figures, and what is missing.
    pub notes: Vec<String>,
    /// The command that repeats the run.
    pub command: String,
}

/// A table, and pictures of it.
#[derive(Clone, Debug)]
pub struct Section {
    /// The figures; its title is the section's.
    pub table: Table,
    /// Pictures of the same figures.
    pub charts: Vec<Chart>,
}

impl Page {
    /// What is shown of a report.
    #[must_use]
    pub fn of(report: &Report) -> Self {
        let mut sections = match report.workload {
            Workload::Iozone => vec![iozone(report)],
            Workload::Ceiling => ceiling::sections(report),
            Workload::MkfileDd | Workload::OutOfOrder => vec![matrix(report)],
            Workload::Connections => std::iter::once(matrix(report))
                .chain(connections::idle(report))
                .collect(),
            _ => report
                .steps()
                .into_iter()
                .map(|step| by_target(report, step))
                .collect(),
        };
        sections.splice(0..0, over_time::section(report));
        Self {
            title: format!("penstock bench {}", report.workload.name()),
            question: report.question.clone(),
            answer: report.answer.clone(),
            sections,
            environment: environment(report),
            notes: notes(report),
            command: report.command.clone(),
        }
    }

    /// The page in Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut out = format!(
            "# {}\n\n{}\n\n**{}**\n\n",
            self.title, self.question, self.answer
        );
        for section in &self.sections {
            let _ = writeln!(out, "{}", section.table.markdown());
        }
        let rows = self.environment.iter().map(|row| row.to_vec());
        let table = Table::new("Environment", &["", ""], rows);
        let _ = writeln!(out, "{}", table.markdown());
        for note in &self.notes {
            let _ = writeln!(out, "- {note}");
        }
        let _ = writeln!(out, "\nAgain:\n\n```sh\n{}\n```", self.command);
        out
    }

    /// The page for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = format!("{}\n{}\n\n", self.question, self.answer);
        for section in &self.sections {
            let _ = writeln!(out, "{}", section.table.text());
        }
        for [name, text] in &self.environment {
            let _ = writeln!(out, "{name}: {text}");
        }
        for note in &self.notes {
            let _ = writeln!(out, "note: {note}");
        }
        out
    }
}

/// One step, its targets below each other.
fn by_target(report: &Report, step: &str) -> Section {
    let rows: Vec<&Row> = report.of_step(step).collect();
    let unit = rows.first().map_or(Unit::Calls, |row| row.unit);
    let is = |has: fn(&Row) -> bool| rows.iter().any(|row| has(row));
    let has_commit = is(|row| row.figures.commit_share.is_some());
    let has_cpu = is(|row| row.figures.cpu.is_some());
    let has_late = is(|row| row.figures.late_p99_us.is_some());
    let has_left = is(|row| row.figures.left_share.is_some());
    let has_ceiling = rows.iter().any(|row| report.ceiling(row).is_some());
    // A directory of files is one call of the application, and many of the protocol.
    let calls = unpack::calls_per_entry(report.settings.names);
    let has_calls = unit == Unit::Files;
    let mut heading = vec!["", unit.word(), "p50 µs", "p99 µs", "p99.9 µs", "max µs"];
    let further = [
        (has_calls, "calls/s"),
        (has_commit, "COMMIT %"),
        (has_cpu, unit.cpu_word()),
        (has_late, "late p99 µs"),
        (has_left, "not begun %"),
        (has_ceiling, "of the generator's"),
    ];
    heading.extend(
        further
            .iter()
            .filter(|(shown, _)| *shown)
            .map(|(_, word)| *word),
    );
    let cells = |row: &&Row| {
        let f = &row.figures;
        let mut cells = vec![row.target.clone(), cell(&f.throughput)];
        cells.extend([&f.p50_us, &f.p99_us, &f.p999_us, &f.max_us].map(cell));
        let optional = |spread: Option<Spread>| spread.map_or("-".to_owned(), |s| cell(&s));
        let percent = f.commit_share.map(|share| share.times(100.0));
        let share = report
            .ceiling(row)
            .map(|most| number(f.throughput.median / most));
        let further = [
            (has_calls, cell(&f.throughput.times(calls))),
            (has_commit, optional(percent)),
            (has_cpu, optional(f.cpu)),
            (has_late, optional(f.late_p99_us)),
            (
                has_left,
                optional(f.left_share.map(|left| left.times(100.0))),
            ),
            (has_ceiling, share.unwrap_or_else(|| "-".to_owned())),
        ];
        cells.extend(
            further
                .into_iter()
                .filter(|(shown, _)| *shown)
                .map(|(_, text)| text),
        );
        cells
    };
    let table = Table::new(title(step), &heading, rows.iter().map(cells));
    Section {
        table,
        charts: charts(&rows, unit, report.settings.rate.is_some()),
    }
}

/// The name of a step as a heading.
pub(super) fn title(step: &str) -> String {
    let mut letters = step.chars();
    letters.next().map_or(String::new(), |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

fn charts(rows: &[&Row], unit: Unit, is_by_clock: bool) -> Vec<Chart> {
    let bar = |colour: usize, row: &&Row, spread: &Spread| Bar {
        label: row.target.clone(),
        colour,
        spread: *spread,
    };
    let mut charts = Vec::new();
    if !is_by_clock || unit == Unit::Mib {
        let each = rows.iter().enumerate();
        let bars = each.map(|(colour, row)| bar(colour, row, &row.figures.throughput));
        charts.push(Chart::Bars {
            title: format!("Throughput, {}: more is better", unit.word()),
            bars: bars.collect(),
        });
    }
    charts.push(Chart::Latencies {
        title: "Latency, µs: less is better".to_owned(),
        rows: rows.iter().map(|row| points(row)).collect(),
    });
    let cpu: Vec<Bar> = rows
        .iter()
        .enumerate()
        .filter_map(|(colour, row)| Some(bar(colour, row, row.figures.cpu.as_ref()?)))
        .collect();
    if !cpu.is_empty() {
        charts.push(Chart::Bars {
            title: format!("{}: less is better", unit.cpu_word()),
            bars: cpu,
        });
    }
    if !is_by_clock || unit == Unit::Mib {
        let targets: Vec<&str> = rows.iter().map(|row| row.target.as_str()).collect();
        charts.extend(price(rows, &targets, unit));
    }
    charts
}

/// Processor time against throughput, where there are several targets; by the colours of the other pictures.
fn price(rows: &[&Row], targets: &[&str], unit: Unit) -> Option<Chart> {
    let line = |(colour, target): (usize, &&str)| Line {
        label: (*target).to_owned(),
        colour,
        points: rows
            .iter()
            .filter(|row| row.target == *target)
            .filter_map(|row| {
                let figures = &row.figures;
                Some((figures.throughput.median, figures.cpu?.median))
            })
            .collect(),
        mark: None,
    };
    let lines = targets.iter().enumerate().map(line);
    let lines: Vec<Line> = lines.filter(|line| !line.points.is_empty()).collect();
    (lines.len() > 1).then(|| {
        Chart::Lines(Lines {
            title: format!("{} against {}", unit.cpu_word(), unit.word()),
            along: format!("{}: best at the right, below", unit.word()),
            mark: String::new(),
            shape: Shape::Dots,
            lines,
        })
    })
}

fn points(row: &Row) -> Points {
    let f = &row.figures;
    let all = [f.p50_us, f.p90_us, f.p99_us, f.p999_us, f.max_us];
    Points {
        label: row.target.clone(),
        values: all.map(|spread| spread.median),
    }
}

/// Steps below each other, targets beside each other.
fn matrix(report: &Report) -> Section {
    let targets = report.targets();
    let unit = report.rows.first().map_or(Unit::Mib, |row| row.unit);
    let mut heading = vec![unit.word()];
    heading.extend(&targets);
    let rows = report.steps().into_iter().map(|step| {
        let cells = targets.iter().map(|target| {
            let row = report.row(step, target);
            row.map_or("-".to_owned(), |row| cell(&row.figures.throughput))
        });
        std::iter::once(title(step)).chain(cells).collect()
    });
    let charts = targets.iter().enumerate().map(|(colour, target)| {
        let rows = report.rows.iter().filter(|row| row.target == *target);
        Chart::Bars {
            title: format!("{target}, {}: more is better", unit.word()),
            bars: rows
                .map(|row| Bar {
                    label: title(&row.step),
                    colour,
                    spread: row.figures.throughput,
                })
                .collect(),
        }
    });
    let all: Vec<&Row> = report.rows.iter().collect();
    Section {
        charts: charts.chain(price(&all, &targets, unit)).collect(),
        table: Table::new("Throughput", &heading, rows),
    }
}

/// Records below each other; for each target write, rewrite, read and reread beside each other.
fn iozone(report: &Report) -> Section {
    let targets = report.targets();
    let mut heading = vec!["µs per call"];
    heading.extend(&targets);
    let steps = report.steps();
    let value =
        |step: &str, target: &str| report.row(step, target).map(|row| row.figures.us_per_call);
    let rows = steps.iter().map(|step| {
        let cells = targets
            .iter()
            .map(|target| value(step, target).map_or("-".to_owned(), |us| cell(&us)));
        std::iter::once(title(step)).chain(cells).collect()
    });
    let first = targets.first().copied().unwrap_or_default();
    let heats = targets.iter().map(|target| {
        let cells = steps.iter().map(|step| {
            let (own, other) = (value(step, target)?, value(step, first)?);
            Some((own.median, other.median / own.median))
        });
        Chart::Heat(Heat {
            title: format!("{target}: µs per call"),
            columns: ["write", "rewrite", "read", "reread"]
                .map(str::to_owned)
                .to_vec(),
            rows: steps
                .iter()
                .step_by(4)
                .map(|step| step.trim_start_matches("write ").to_owned())
                .collect(),
            cells: cells.collect(),
            against: (*target != first).then(|| first.to_owned()),
        })
    });
    Section {
        charts: heats.collect(),
        table: Table::new("Time of a call, COMMIT included", &heading, rows),
    }
}

fn environment(report: &Report) -> Vec<[String; 2]> {
    let row = |name: &str, text: String| [name.to_owned(), text];
    let mut rows = report.environment.rows();
    let s = &report.settings;
    let mut load = vec![
        counted(s.connections, "connection"),
        format!("{} in flight on each", s.depth),
    ];
    match report.workload {
        // How much is in flight, and how long the records are, is in the name of each step.
        Workload::Ceiling => load.truncate(1),
        // So is over how many connections.
        Workload::Connections => load = vec![format!("{} in flight on all connections", s.depth)],
        _ => {}
    }
    if s.size_bytes > 0 && report.workload != Workload::Ceiling {
        load.push(format!("files of {} MiB", s.size_bytes >> 20));
        load.push(format!("records of {} bytes", s.record_bytes));
    }
    if s.names > 0 {
        load.push(format!("{} names", s.names));
    }
    if let Some(rate) = s.rate {
        load.push(format!("{} calls begin in a second", number(rate)));
    }
    if s.busy_poll_us > 0 {
        load.push(format!("the generator polls for {} µs", s.busy_poll_us));
    }
    let load = replayed::load(report).unwrap_or_else(|| load.join(", "));
    rows.push(row("Load", load));
    let repetitions = report.repetitions;
    let taken =
        format!("{repetitions} in turn, after one that is thrown away; median (least..most)");
    rows.push(row("Repetitions", taken));
    let commit = report.commit.as_ref();
    let commit = commit.map_or(String::new(), |commit| format!(", commit {commit}"));
    rows.push(row(
        "Program",
        format!("penstock {}{commit}", report.version),
    ));
    rows.push(row(
        "Begun",
        format!("{}, {:.0} s in all", report.began, report.run_seconds),
    ));
    rows
}

fn notes(report: &Report) -> Vec<String> {
    let mut notes = answer::near_ceiling(report);
    notes.extend(over_time::notes(report));
    notes.extend(replayed::notes(report));
    notes.extend((report.workload == Workload::Ceiling).then(ceiling::note));
    let has_local = report
        .targets()
        .iter()
        .any(|target| target.starts_with("local"));
    if has_local {
        notes.push(
            "local: processor time is that of this program, which makes the calls itself."
                .to_owned(),
        );
    }
    let behind = |row: &&Row| row.figures.left_share.is_some();
    let behind: Vec<String> = report
        .rows
        .iter()
        .filter(behind)
        .map(|row| format!("{}, {}", row.step, row.target))
        .collect();
    if !behind.is_empty() {
        notes.push(format!(
            "The rate is more than these can do, so that calls that were due did not begin before the end, and their \
             waiting is in no latency: {}.",
            behind.join("; ")
        ));
    }
    if report.workload == Workload::Untar {
        notes.push(
            "Latency is that of a directory: MKDIR and LOOKUP, then CREATE, WRITE, SETATTR and COMMIT for each file in it."
                .to_owned(),
        );
    }
    let are_names_made = matches!(report.workload, Workload::Metadata | Workload::Untar);
    let targets = report.targets();
    let mut unsynced = targets
        .iter()
        .filter(|target| target.starts_with("local") && !target.ends_with("+sync"));
    if let (true, Some(local)) = (are_names_made, unsynced.next()) {
        notes.push(format!("{local}: names are not brought to stable storage; a server that keeps the rules of NFSv3 does so before it answers, and local buffered+sync."));
    }
    if are_names_made && targets.iter().any(|target| target.ends_with("+async")) {
        notes.push("+async: names are acknowledged before they are on stable storage, and a power cut loses them.".to_owned());
    }
    if report
        .environment
        .busy_before
        .is_some_and(|share| share > 0.1)
    {
        notes.push(
            "The machine was busy with something else when the run began: look at the spread."
                .to_owned(),
        );
    }
    notes.extend(
        report
            .missing
            .iter()
            .map(|missing| format!("Not measured: {missing}")),
    );
    notes
}
