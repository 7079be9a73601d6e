//! What a run came to: one structure, from which the JSON, the page and the tables are made.

pub mod answer;
mod ceiling;
mod connections;
pub mod html;
pub mod lines;
mod over_time;
pub mod page;
pub mod replayed;
pub mod svg;

use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::sample::Sample;
use crate::series::Series;
use crate::spread::Spread;
use crate::workload::{Settings, Unit, Workload};

/// The form of the JSON; another number means that older programs cannot read it.
pub const FORMAT: u32 = 1;

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: u32,
    /// What was measured.
    pub workload: Workload,
    /// What the report answers.
    pub question: String,
    /// The answer, made of the figures.
    pub answer: String,
    /// When the run began, RFC 3339.
    pub began: String,
    /// How long it took, in seconds.
    pub run_seconds: f64,
    /// The command that repeats it.
    pub command: String,
    /// Version of this program.
    pub version: String,
    /// The commit that it was built from, with `+` if the tree differed from it; `None` if whoever built it did not tell.
    #[serde(default)]
    pub commit: Option<String>,
    /// The numbers of the workload.
    pub settings: Settings,
    /// How often each figure was measured, without the first time, which is thrown away.
    pub repetitions: u32,
    /// Where it took place.
    pub environment: Environment,
    /// The figures, by step and target.
    pub rows: Vec<Row>,
    /// What the load comes to against a responder that does nothing, by step.
    pub ceiling: Vec<Ceiling>,
    /// What could not be measured, and why.
    pub missing: Vec<String>,
    /// What idle connections cost, where that is measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub idle: Vec<IdleMemory>,
    /// What was replayed, where that is the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<replayed::Replayed>,
}

/// The figures of one target at one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Name of the step of the workload.
    pub step: String,
    /// Name of the server or file system that was measured.
    pub target: String,
    /// What the throughput is counted in.
    pub unit: Unit,
    /// The measurements, in the order in which they were made.
    pub samples: Vec<Sample>,
    /// What they come to.
    pub figures: Figures,
    /// How the measurement in the middle went, second by second, where the workload is about that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<Series>,
}

/// What several measurements of the same come to: the median of each figure, and from where to where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// MiB or calls per second, COMMIT included.
    pub throughput: Spread,
    /// Microseconds of the whole measurement for a call: with one call in flight what a call takes, its share of the
    /// COMMIT included.
    pub us_per_call: Spread,
    /// Latency at these shares of the calls.
    pub p50_us: Spread,
    /// What 90 of 100 calls took at most.
    pub p90_us: Spread,
    /// What 99 of 100 calls took at most.
    pub p99_us: Spread,
    /// What 999 of 1000 calls took at most.
    pub p999_us: Spread,
    /// The longest call.
    pub max_us: Spread,
    /// Share of the time (0 to 1) that is COMMIT, where there was one.
    pub commit_share: Option<Spread>,
    /// Processor time of the server: seconds for a GiB, or microseconds for a call.
    pub cpu: Option<Spread>,
    /// How late the generator itself was with calls that begin by the clock.
    pub late_p99_us: Option<Spread>,
    /// Share (0 to 1) of the calls that were due by the clock and did not begin before the end; `None` for none.
    #[serde(default)]
    pub left_share: Option<Spread>,
}

/// What the generator can do at most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// Name of the step of the workload.
    pub step: String,
    /// The measurement against the responder.
    pub sample: Sample,
}

/// What idle connections cost a server that was started for the run, beside those that it had before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IdleMemory {
    /// Name of the server.
    pub target: String,
    /// How many idle connections it had already: what it takes once, and not for each connection, it has taken by then.
    #[serde(default)]
    pub open_before: usize,
    /// How many were opened beside these.
    pub connections: usize,
    /// Resident memory of its process before they were opened, in bytes. What the kernel has for sockets is in no process.
    pub before_bytes: u64,
    /// The same with all of them open.
    pub after_bytes: u64,
}

impl IdleMemory {
    /// Memory of one connection more, in bytes.
    #[must_use]
    pub fn bytes_each(&self) -> f64 {
        self.after_bytes.saturating_sub(self.before_bytes) as f64 / self.connections.max(1) as f64
    }
}

impl Row {
    /// What the samples come to; `None` if there are none.
    #[must_use]
    pub fn new(step: &str, target: &str, unit: Unit, samples: Vec<Sample>) -> Option<Self> {
        let of = |value: fn(&Sample) -> f64| Spread::of(samples.iter().map(value));
        let all = |value: fn(&Sample) -> Option<f64>| {
            let values: Option<Vec<f64>> = samples.iter().map(value).collect();
            values.and_then(Spread::of)
        };
        let share = |sample: &Sample| sample.commit_seconds / sample.seconds;
        let commits = samples.iter().any(|sample| sample.commit_seconds > 0.0);
        let figures = Figures {
            throughput: match unit {
                Unit::Mib => of(Sample::mib_per_second)?,
                Unit::Calls | Unit::Files => of(Sample::rate)?,
            },
            us_per_call: of(|sample| 1e6 / sample.rate())?,
            p50_us: of(|sample| sample.latency.p50_us)?,
            p90_us: of(|sample| sample.latency.p90_us)?,
            p99_us: of(|sample| sample.latency.p99_us)?,
            p999_us: of(|sample| sample.latency.p999_us)?,
            max_us: of(|sample| sample.latency.max_us)?,
            commit_share: Spread::of(samples.iter().map(share)).filter(|_| commits),
            cpu: match unit {
                Unit::Mib => all(Sample::cpu_per_gib),
                Unit::Calls | Unit::Files => all(Sample::cpu_us_per_call),
            },
            late_p99_us: all(|sample| sample.late_p99_us),
            left_share: of(Sample::share_left).filter(|share| share.max > 0.0),
        };
        Some(Self {
            step: step.to_owned(),
            target: target.to_owned(),
            unit,
            samples,
            figures,
            series: None,
        })
    }

    /// The row with how the measurement went that took the time in the middle; `all` has one of each sample.
    #[must_use]
    pub fn with_series(mut self, all: Vec<Series>) -> Self {
        let mut order: Vec<usize> = (0..self.samples.len()).collect();
        let seconds = |at: usize| self.samples.get(at).map_or(0.0, |sample| sample.seconds);
        order.sort_by(|one, other| seconds(*one).total_cmp(&seconds(*other)));
        let middle = order.get(order.len().saturating_sub(1) / 2).copied();
        self.series = middle.and_then(|middle| all.into_iter().nth(middle));
        self
    }
}

impl Unit {
    /// The word for it in tables.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Mib => "MiB/s",
            Self::Calls => "calls/s",
            Self::Files => "files/s",
        }
    }

    /// The word for processor time beside it.
    #[must_use]
    pub const fn cpu_word(self) -> &'static str {
        match self {
            Self::Mib => "CPU s/GiB",
            Self::Calls => "CPU µs/call",
            Self::Files => "CPU µs/file",
        }
    }
}

impl Report {
    /// The steps in their order, each once.
    #[must_use]
    pub fn steps(&self) -> Vec<&str> {
        let mut steps: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !steps.contains(&row.step.as_str()) {
                steps.push(&row.step);
            }
        }
        steps
    }

    /// The targets in their order, each once.
    #[must_use]
    pub fn targets(&self) -> Vec<&str> {
        let mut targets: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !targets.contains(&row.target.as_str()) {
                targets.push(&row.target);
            }
        }
        targets
    }

    /// The rows of one step.
    pub fn of_step(&self, step: &str) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.step == step)
    }

    /// The row of one step and target.
    #[must_use]
    pub fn row(&self, step: &str, target: &str) -> Option<&Row> {
        let of_both = |row: &&Row| row.step == step && row.target == target;
        self.rows.iter().find(of_both)
    }

    /// What the generator can do at this step, in the unit of `row`; nothing for what is asked by system calls, or was
    /// recorded.
    #[must_use]
    pub fn ceiling(&self, row: &Row) -> Option<f64> {
        let is_by_others = ["local ", "mounted ", replayed::RECORDED];
        if is_by_others.iter().any(|one| row.target.starts_with(one)) {
            return None;
        }
        let is_of_step = |ceiling: &&Ceiling| ceiling.step == row.step;
        let found = self.ceiling.iter().find(is_of_step)?;
        Some(match row.unit {
            Unit::Mib => found.sample.mib_per_second(),
            Unit::Calls | Unit::Files => found.sample.rate(),
        })
    }
}

/// A number with about three digits that count.
#[must_use]
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// So many of something, which has a plural as most words have.
pub(crate) fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// A figure with its range, if it has one.
#[must_use]
pub fn cell(spread: &Spread) -> String {
    let [median, min, max] = [spread.median, spread.min, spread.max].map(number);
    match min == max {
        true => median,
        false => format!("{median} ({min}..{max})"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::sample::Latency;
    use crate::series::tests::series;

    /// A sample of `mib` MiB in a second.
    pub(crate) fn sample(mib: u64, p50_us: f64) -> Sample {
        Sample {
            calls: mib,
            bytes: mib << 20,
            seconds: 1.0,
            commit_seconds: 0.25,
            latency: Latency {
                mean_us: p50_us,
                p50_us,
                p90_us: p50_us * 2.0,
                p99_us: p50_us * 4.0,
                p999_us: p50_us * 8.0,
                max_us: p50_us * 16.0,
            },
            late_p99_us: None,
            calls_left: 0,
            cpu_seconds: Some(0.5),
        }
    }

    /// A report of `workload` with the targets `a` and `b`, of which `b` is `times` as fast.
    pub(crate) fn report(workload: Workload, times: u64) -> Report {
        let settings = workload.defaults();
        let mut rows = Vec::new();
        for step in workload.steps(&settings).unwrap() {
            for (target, mib) in [("a", 1000), ("b", 1000 * times)] {
                let samples = [mib - 10, mib, mib + 30].map(|mib| sample(mib, 321.0));
                let mut row = Row::new(&step.name, target, step.unit, samples.to_vec()).unwrap();
                if step.is_watched {
                    let mut throughputs = vec![mib as f64; 20];
                    throughputs[12..].fill(400.0);
                    row.series = Some(series(&throughputs, Some(5 << 30)));
                }
                rows.push(row);
            }
        }
        let mut report = Report {
            format: FORMAT,
            workload,
            question: workload.question().to_owned(),
            answer: String::new(),
            began: "2026-01-02T03:04:05Z".to_owned(),
            run_seconds: 12.0,
            command: format!("penstock bench {} --self", workload.name()),
            version: "0.1.0".to_owned(),
            commit: Some("0123456789ab".to_owned()),
            settings,
            repetitions: 3,
            environment: Environment::look(None),
            rows,
            ceiling: Vec::new(),
            missing: Vec::new(),
            idle: Vec::new(),
            replay: None,
        };
        report.answer = answer::answer(&report);
        report
    }

    #[test]
    fn figures_are_those_of_the_samples() {
        let row = Row::new(
            "s",
            "t",
            Unit::Mib,
            vec![sample(100, 5.0), sample(300, 7.0)],
        )
        .unwrap();
        assert_eq!(
            (row.figures.throughput.min, row.figures.throughput.max),
            (100.0, 300.0)
        );
        assert_eq!(row.figures.p99_us.median, 24.0);
        assert_eq!(row.figures.commit_share.unwrap().median, 0.25);
        let cpu = row.figures.cpu.unwrap();
        assert!((cpu.max - 5.12).abs() < 1e-9, "{cpu:?}");
        assert_eq!(Row::new("s", "t", Unit::Mib, Vec::new()), None);
    }

    #[test]
    fn a_report_comes_back_from_its_json() {
        for workload in Workload::ALL {
            let report = report(workload, 2);
            let json = serde_json::to_string(&report).unwrap();
            let read: Report = serde_json::from_str(&json).unwrap();
            // The last bit of a fraction may be another one, which nobody sees.
            let shown = |report| page::Page::of(report).markdown();
            assert_eq!(shown(&read), shown(&report));
            assert_eq!(
                (read.settings, read.rows.len()),
                (report.settings, report.rows.len())
            );
        }
    }

    #[test]
    fn what_an_idle_connection_takes_is_shown_and_told() {
        let mut report = report(Workload::Connections, 2);
        report.idle = vec![IdleMemory {
            target: "b".to_owned(),
            open_before: 300,
            connections: 1000,
            before_bytes: 10 << 20,
            after_bytes: (10 << 20) + 3500 * 1024,
        }];
        let page = page::Page::of(&report);
        let markdown = page.markdown();
        assert!(
            markdown.contains("| b | 300 | 1000 | 10.0 | 13.4 | 3.50 |"),
            "{markdown}"
        );
        let told = answer::answer(&report);
        assert!(told.contains("256 connections, 1.00 of that over 16 beside 1000 idle ones; an idle one more takes 3.50 KiB."), "{told}");
    }

    #[test]
    fn numbers_have_about_three_digits() {
        let table = [
            (1234.6, "1235"),
            (99.96, "100"),
            (12.34, "12.3"),
            (0.123, "0.12"),
        ];
        for (value, shown) in table {
            assert_eq!(number(value), shown);
        }
        assert_eq!(cell(&Spread::of([1.0, 1.0]).unwrap()), "1.00");
        assert_eq!(
            cell(&Spread::of([1.0, 20.0, 3.0]).unwrap()),
            "3.00 (1.00..20.0)"
        );
    }
}
