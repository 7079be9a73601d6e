//! The lines of the table, with their figures in place.

use nfs_load::report::{IdleMemory, Report, Row};
use nfs_load::spread::{Spread, median};
use serde::Serialize;

use super::lines::LINES;
use super::list::{BUFFERED, Bar, DIRECT, Figure, From, Limit, Line, POLLING};
use super::{Measured, copies, data, mounts};
use crate::baseline::run::Kind;
use crate::sample::Sample;

const PEER: &str = "ganesha";
/// The responder with busy polling, asked by a load that polls.
const POLLING_RESPONDER: &str = "responder polling";

/// The responder as a plain program, among the prepared calls.
const PLAIN: &str = "plain program";
/// The same beside what moves much data: past the page cache, and through it.
const PLAIN_DIRECT: &str = "plain program direct";
const PLAIN_BUFFERED: &str = "plain program buffered";

/// A line of the table with its figures. What could not be measured is `None`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Value {
    /// What was measured.
    pub(super) label: &'static str,
    /// What of ours was looked at.
    pub(super) target: &'static str,
    /// Name of the run that it is from.
    pub(super) run: &'static str,
    /// Our figure.
    pub(super) ours: Option<f64>,
    /// The same of NFS-Ganesha.
    pub(super) peer: Option<f64>,
    /// What it is shown beside: the most that was to be expected at the same load.
    pub(super) limit: Option<f64>,
    /// What that is.
    pub(super) limit_is: &'static str,
    /// What the figure should be.
    pub(super) bar: String,
    /// Whether it is; `None` where something for that was not measured.
    pub(super) is_met: Option<bool>,
    /// Who has less to do than a server and misses the bar at the same load as well.
    pub(super) missed_by: Vec<&'static str>,
    /// In how many of how many rounds the load's core was busy all the time and the server's was not: they tell of the
    /// load. `None` where that is not known.
    pub(super) rounds_of_load: Option<(usize, usize)>,
    /// Whether less is better.
    pub(super) is_less_better: bool,
}

impl Value {
    /// Whether the bar is missed, and is by who has less to do: load, transport, file system or machine come to less than
    /// it asks.
    pub(super) fn is_missed_by_others(&self) -> bool {
        self.is_met == Some(false) && !self.missed_by.is_empty()
    }
}

/// All lines whose run was made.
pub(super) fn all(measured: &Measured) -> Vec<Value> {
    let values = LINES.iter().map(|line| value(measured, line));
    values
        .filter(|value| match value.run {
            super::CALLS_NAME => measured.calls.is_some(),
            data::NAME => measured.data.is_some(),
            copies::NAME => measured.copies.is_some(),
            mounts::NAME => measured.mounts.is_some(),
            run => measured.commands.contains_key(run),
        })
        .collect()
}

fn value(measured: &Measured, line: &Line) -> Value {
    let figure = |target: &str| figure(measured, line.from, line.figure, target);
    let (ours, peer) = (figure(line.ours), figure(PEER));
    let responder = match line.from {
        From::Calls(..) if line.ours == POLLING => figure(POLLING_RESPONDER),
        From::Calls(..) => figure("responder"),
        From::Data(_) => figure("bare responder"),
        // A copy has a file at its end.
        From::Copies(..) | From::Mounts(_) => None,
        From::Bench(run, step) => {
            let report = measured.reports.get(run);
            report.and_then(|r| ceiling(r, step, line.figure))
        }
    };
    let (limit, limit_is) = match line.limit {
        Limit::Nothing => (None, ""),
        Limit::Local(target) => (figure(target), target),
        Limit::Own(run, step) => {
            let from = From::Bench(run, step);
            (self::figure(measured, from, line.figure, line.ours), "ours")
        }
        Limit::Plain => (figure(plain(line)), PLAIN),
        Limit::Responder => match line.from {
            From::Copies(..) | From::Mounts(_) => (None, ""),
            From::Calls(..) | From::Data(_) | From::Bench(..) => (responder, "responder"),
        },
    };
    Value {
        label: line.label,
        target: line.ours,
        run: match line.from {
            From::Bench(run, _) => run,
            From::Calls(..) => super::CALLS_NAME,
            From::Data(_) => data::NAME,
            From::Copies(..) => copies::NAME,
            From::Mounts(_) => mounts::NAME,
        },
        is_met: is_met(line.bar, ours, peer, limit),
        missed_by: {
            let others = others(line, responder, figure);
            let misses = |other| is_met(line.bar, Some(other), peer, limit) == Some(false);
            let missing = others.into_iter().filter(|(_, figure)| misses(*figure));
            missing.map(|(name, _)| name).collect()
        },
        rounds_of_load: match line.from {
            From::Data(work) => {
                let data = measured.data.as_ref();
                data.and_then(|data| data.rounds_of_load(work, line.ours))
            }
            From::Bench(..) | From::Calls(..) | From::Copies(..) | From::Mounts(_) => None,
        },
        bar: bar(line),
        ours,
        peer,
        limit,
        limit_is,
        is_less_better: line.figure.is_less_better(),
    }
}

/// The plain program's name, in the mode of the line.
fn plain(line: &Line) -> &'static str {
    match line.ours {
        DIRECT => PLAIN_DIRECT,
        BUFFERED => PLAIN_BUFFERED,
        _ => PLAIN,
    }
}

/// Who has less to do than a server, by name, with the figure at the load of the line.
fn others(
    line: &Line,
    responder: Option<f64>,
    figure: impl Fn(&str) -> Option<f64>,
) -> Vec<(&'static str, f64)> {
    // What is cached, or buffered, is not held against a direct one.
    let local = match (line.from, line.ours, line.limit) {
        (From::Data(_), DIRECT, _) => Some("local fio direct"),
        (From::Data(_), BUFFERED, _) => Some("local fio buffered"),
        (From::Bench(..), _, Limit::Local(target)) if line.figure == Figure::Throughput => {
            Some(target)
        }
        _ => None,
    };
    let one_after_the_other = match (line.figure, line.limit) {
        (Figure::P50, Limit::Local(target)) => {
            let both = responder.zip(figure(target));
            both.map(|(call, file)| {
                (
                    "the responder and the file system, one after the other",
                    call + file,
                )
            })
        }
        _ => None,
    };
    let plain = match (line.from, line.limit) {
        (_, Limit::Plain) => None,
        (From::Data(_) | From::Calls(..), _) => figure(plain(line)),
        (From::Bench(..) | From::Copies(..) | From::Mounts(_), _) => None,
    };
    let plain = plain.map(|figure| ("the plain program", figure));
    let responder = responder.map(|figure| ("the responder", figure));
    let local = local.and_then(|name| Some((name, figure(name)?)));
    let all = [responder, plain, local, one_after_the_other];
    all.into_iter().flatten().collect()
}

/// Whether a figure is what it should be.
fn is_met(bar: Bar, ours: Option<f64>, peer: Option<f64>, limit: Option<f64>) -> Option<bool> {
    let ours = ours?;
    Some(match bar {
        Bar::OfLimit(share) => ours >= limit? * share,
        Bar::OfPeer(times) => ours >= peer? * times,
        Bar::AtLeast(least) => ours >= least,
        Bar::AtMost(most) => ours <= most,
    })
}

fn bar(line: &Line) -> String {
    match line.bar {
        Bar::OfLimit(times) if times > 1.0 => format!("≥ {times} × the limit"),
        Bar::OfLimit(share) => format!("≥ {share} of the limit"),
        Bar::OfPeer(times) if times > 1.0 => format!("≥ {times} × Ganesha"),
        Bar::OfPeer(_) => "≥ Ganesha".to_owned(),
        Bar::AtLeast(least) => format!("≥ {least:.0}"),
        Bar::AtMost(most) => format!("≤ {most}"),
    }
}

/// The figure of a target, at the median of its measurements.
fn figure(measured: &Measured, from: From, figure: Figure, target: &str) -> Option<f64> {
    match from {
        From::Bench(run, step) => {
            let report = measured.reports.get(run)?;
            if figure == Figure::Idle {
                let of_target = |one: &&IdleMemory| one.target == target;
                let found = report.idle.iter().find(of_target)?;
                return Some(found.bytes_each() / 1024.0);
            }
            of_row(report.row(step, target)?, figure)
        }
        From::Data(work) => measured.data.as_ref()?.figure(work, figure, target),
        From::Mounts(copy) => measured.mounts.as_ref()?.figure(copy, figure, target),
        From::Copies(server, copy) => {
            let copies = measured.copies.as_ref()?;
            copies.figure((server, copy), figure, target)
        }
        From::Calls(workload, depth) => {
            let kind = match target {
                PEER => Kind::Ganesha,
                "responder" => Kind::Responder,
                PLAIN => Kind::Plain,
                POLLING_RESPONDER => Kind::ResponderPolling,
                POLLING => Kind::PenstockPolling,
                _ => Kind::PenstockUring,
            };
            let mut rows = measured.calls.as_ref()?.rows.iter();
            let row = rows
                .find(|row| row.workload == workload && row.depth == depth && row.server == kind)?;
            let of = |value: fn(&Sample) -> f64| median(row.samples.iter().map(value));
            match figure {
                Figure::Throughput => of(Sample::rate),
                Figure::P50 => of(|sample| sample.p50_us),
                Figure::P99 => of(|sample| sample.p99_us),
                Figure::Processor => median(row.cpu_us.iter().copied()),
                Figure::Spread | Figure::Idle => None,
            }
        }
    }
}

fn of_row(row: &Row, figure: Figure) -> Option<f64> {
    let f = &row.figures;
    let spread = |spread: Spread| spread.max / spread.min;
    match figure {
        Figure::Throughput => Some(f.throughput.median),
        Figure::P50 => Some(f.p50_us.median),
        Figure::P99 => Some(f.p99_us.median),
        Figure::Processor => f.cpu.map(|cpu| cpu.median),
        // One measurement has none.
        Figure::Spread => (row.samples.len() > 1).then(|| spread(f.throughput)),
        Figure::Idle => None,
    }
}

/// What the generator itself does at the step.
fn ceiling(report: &Report, step: &str, figure: Figure) -> Option<f64> {
    let row = report.rows.iter().find(|row| row.step == step)?;
    let latency = |value: fn(&nfs_load::sample::Latency) -> f64| {
        let found = report.ceiling.iter().find(|one| one.step == step)?;
        Some(value(&found.sample.latency))
    };
    match figure {
        Figure::Throughput => report.ceiling(row),
        Figure::P50 => latency(|l| l.p50_us),
        Figure::P99 => latency(|l| l.p99_us),
        Figure::Processor | Figure::Spread | Figure::Idle => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modes::work::Work;

    fn line(figure: Figure, from: From, ours: &'static str, limit: Limit) -> Line {
        Line {
            label: "",
            figure,
            from,
            ours,
            limit,
            bar: Bar::AtMost(250.0),
        }
    }

    #[test]
    fn others_are_told_of_where_they_miss_what_is_missed() {
        let of = |is_met, missed_by: &[&'static str]| {
            let value = Value {
                label: "",
                target: "",
                run: "",
                ours: None,
                peer: None,
                limit: None,
                limit_is: "",
                bar: String::new(),
                is_met,
                missed_by: missed_by.to_vec(),
                rounds_of_load: None,
                is_less_better: false,
            };
            value.is_missed_by_others()
        };
        assert!(of(Some(false), &["the responder"]));
        assert!(!of(Some(false), &[]), "it can be done, or nobody knows");
        assert!(!of(Some(true), &["the responder"]), "it is met");
    }

    #[test]
    fn one_call_after_the_other_takes_as_long_as_it_and_what_it_asks_for() {
        let from = From::Bench("stable-alone", "write FILE_SYNC");
        let line = line(Figure::P50, from, DIRECT, Limit::Local("local direct"));
        let figure = |target: &str| (target == "local direct").then_some(199.0);
        let names = |responder| {
            let known = others(&line, responder, figure);
            known.iter().map(|one| one.1).collect::<Vec<_>>()
        };
        assert_eq!(names(Some(70.0)), [70.0, 269.0]);
        assert_eq!(names(None), [0.0; 0], "half of it says nothing");
    }

    #[test]
    fn what_moves_data_is_held_against_a_local_program_of_its_kind() {
        let from = From::Data(Work::SeqRead1m);
        let figure = |target: &str| match target {
            "local fio direct" => Some(5245.0),
            "local fio buffered" => Some(3667.0),
            PLAIN_DIRECT => Some(4900.0),
            _ => None,
        };
        let of = |ours, limit| {
            let line = line(Figure::Throughput, from, ours, limit);
            others(&line, None, figure)
        };
        let fio = ("local fio direct", 5245.0);
        let plain = ("the plain program", 4900.0);
        assert_eq!(of(DIRECT, Limit::Responder), [plain, fio]);
        assert_eq!(of(DIRECT, Limit::Plain), [fio], "it is the limit");
        let fio = ("local fio buffered", 3667.0);
        assert_eq!(of(BUFFERED, Limit::Responder), [fio]);
    }

    #[test]
    fn a_plain_program_moves_data_as_the_mode_that_is_held_against_it() {
        use crate::modes::contender::Contender;
        use crate::modes::fixture;

        let plain = |direct, rate| {
            let rounds = [(rate, 0.5, 0)];
            fixture::row(Work::SeqRead1m, Contender::Plain { direct }, &rounds)
        };
        let report = fixture::report(vec![plain(true, 200.0), plain(false, 100.0)]);
        let json = serde_json::to_string(&report).unwrap();
        let measured = Measured {
            data: Some(serde_json::from_str(&json).unwrap()),
            ..Measured::default()
        };
        let of = |ours| {
            let from = From::Data(Work::SeqRead1m);
            let line = line(Figure::Throughput, from, ours, Limit::Plain);
            let value = value(&measured, &line);
            (value.limit.map(f64::round), value.limit_is)
        };
        assert_eq!(of(DIRECT), (Some(200.0), PLAIN));
        assert_eq!(of(BUFFERED), (Some(100.0), PLAIN));
    }

    #[test]
    fn what_makes_names_is_held_against_a_local_program_that_keeps_the_same_promise() {
        let from = From::Bench("names", "create");
        let of = |figure, limit| {
            let figures = |target: &str| (target == "local buffered+sync").then_some(12_000.0);
            others(
                &line(figure, from, BUFFERED, limit),
                Some(78_000.0),
                figures,
            )
        };
        let local = Limit::Local("local buffered+sync");
        let both = [
            ("the responder", 78_000.0),
            ("local buffered+sync", 12_000.0),
        ];
        assert_eq!(of(Figure::Throughput, local), both);
        assert_eq!(of(Figure::Throughput, Limit::Responder), both[..1]);
        assert_eq!(
            of(Figure::P99, local),
            both[..1],
            "alone it waits for nobody"
        );
    }

    #[test]
    fn a_bar_is_met_from_its_figure_on_and_unknown_without_one() {
        let (peer, limit) = (Some(100.0), Some(1000.0));
        let met = |bar, ours| is_met(bar, Some(ours), peer, limit);
        assert_eq!(met(Bar::OfLimit(0.9), 900.0), Some(true));
        assert_eq!(met(Bar::OfLimit(0.9), 899.0), Some(false));
        assert_eq!(met(Bar::OfPeer(1.5), 150.0), Some(true));
        assert_eq!(met(Bar::OfPeer(1.5), 149.0), Some(false));
        assert_eq!(met(Bar::AtLeast(5.0), 5.0), Some(true));
        assert_eq!(met(Bar::AtMost(5.0), 5.1), Some(false));
        assert_eq!(is_met(Bar::OfPeer(1.5), Some(1.0), None, limit), None);
        assert_eq!(is_met(Bar::AtMost(5.0), None, peer, limit), None);
    }
}
