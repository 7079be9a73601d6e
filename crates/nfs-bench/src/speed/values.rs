//! The lines of the table, with their figures in place.

use nfs_load::report::{IdleMemory, Report, Row};
use nfs_load::spread::{Spread, median};
use serde::Serialize;

use super::list::{Bar, Figure, From, LINES, Limit, Line, POLLING};
use super::{Measured, copies, data, mounts};
use crate::baseline::run::Kind;
use crate::sample::Sample;

const PEER: &str = "ganesha";

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
    /// What nobody can be better than.
    pub(super) limit: Option<f64>,
    /// What that is.
    pub(super) limit_is: &'static str,
    /// What the figure should be.
    pub(super) bar: String,
    /// Whether it is; `None` where something for that was not measured.
    pub(super) is_met: Option<bool>,
    /// Whether a responder that touches no file would meet the bar at the same load; `None` where it has no such figure.
    pub(super) responder_meets: Option<bool>,
    /// Whether less is better.
    pub(super) is_less_better: bool,
}

impl Value {
    /// Whether the bar is missed, and would be by a server that had nothing to do: load, transport and machine come to
    /// less than it asks.
    pub(super) fn is_out_of_reach(&self) -> bool {
        self.is_met == Some(false) && self.responder_meets == Some(false)
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
        // The load polls there, and the responder was not asked by such a load.
        From::Calls(..) if line.ours == POLLING => None,
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
        responder_meets: is_met(line.bar, responder, peer, limit),
        bar: bar(line),
        ours,
        peer,
        limit,
        limit_is,
        is_less_better: line.figure.is_less_better(),
    }
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

    #[test]
    fn out_of_reach_is_what_is_missed_and_would_be_by_who_touches_no_file() {
        let of = |is_met, responder_meets| {
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
                responder_meets,
                is_less_better: false,
            };
            value.is_out_of_reach()
        };
        assert!(of(Some(false), Some(false)));
        assert!(!of(Some(false), Some(true)), "it can be done");
        assert!(!of(Some(false), None), "nobody knows");
        assert!(!of(Some(true), Some(false)), "it is met");
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
