//! What the figures are held against: the goals of the I/O modes, each met or not.
//!
//! A run passes or fails nothing. A goal is a line of the report, so that nobody has to compute it by hand.

use std::fmt;

use serde::Serialize;

use super::contender::{Contender, Engine, Mode};
use super::measure::Figures;
use super::run::Report;
use super::table::{cached_percent, median, met};
use super::work::Work;

/// A goal and how far it was reached.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// In words.
    pub goal: String,
    /// What was measured.
    pub value: Option<f64>,
    /// What it is held against.
    pub bound: Option<f64>,
    /// Whether it is enough; `None` where something was not measured.
    pub met: Option<bool>,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.3}"));
        let (value, bound) = (number(self.value), number(self.bound));
        write!(
            f,
            "{:<12} {}: {value} (bound {bound})",
            met(self),
            self.goal
        )
    }
}

impl Verdict {
    fn at_least(goal: String, value: Option<f64>, bound: Option<f64>) -> Self {
        let met = value.zip(bound).map(|(value, bound)| value >= bound);
        Self {
            goal,
            value,
            bound,
            met,
        }
    }

    fn at_most(goal: String, value: Option<f64>, bound: Option<f64>) -> Self {
        let met = value.zip(bound).map(|(value, bound)| value <= bound);
        Self {
            goal,
            value,
            bound,
            met,
        }
    }
}

const DIRECT: Contender = Contender::Penstock(Engine::Uring, Mode::Direct);
const BUFFERED: Contender = Contender::Penstock(Engine::Uring, Mode::Buffered);
/// READ and WRITE + COMMIT of whole files.
const SEQUENTIAL: [Work; 2] = [Work::SeqRead1m, Work::SeqWrite1m];

/// Every goal, for what was measured on each volume.
pub fn verdicts(report: &Report) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let has = |name: &str| {
        report
            .header
            .volumes
            .iter()
            .any(|(volume, _)| *volume == name)
    };
    if has("disk") {
        for work in SEQUENTIAL {
            let ratio = ratio(
                report,
                "disk",
                work,
                report.rate("disk", work, Contender::Fio { direct: true }),
            );
            let goal = format!("disk, {}: direct / local direct fio", work.name());
            verdicts.push(Verdict::at_least(goal, ratio, Some(0.8)));
        }
    }
    if has("fast") {
        for (work, bound) in [
            (Work::SeqRead1m, 1.7),
            (Work::SeqWrite1m, 1.5),
            (Work::RandRead4k, 2.0),
        ] {
            let ratio = ratio(report, "fast", work, report.best_peer("fast", work));
            let goal = format!("fast, {}: direct / best peer", work.name());
            verdicts.push(Verdict::at_least(goal, ratio, Some(bound)));
        }
    }
    for (volume, _) in &report.header.volumes {
        for work in SEQUENTIAL {
            verdicts.extend(costs(report, volume, work));
        }
        if *volume != "fast" {
            let ratio = ratio(
                report,
                volume,
                Work::RandRead4k,
                report.best_peer(volume, Work::RandRead4k),
            );
            let goal = format!("{volume}, {}: direct / best peer", Work::RandRead4k.name());
            verdicts.push(Verdict::at_least(goal, ratio, Some(2.0)));
        }
    }
    verdicts
}

fn ratio(report: &Report, volume: &str, work: Work, other: Option<f64>) -> Option<f64> {
    let own = report.rate(volume, work, DIRECT)?;
    other.filter(|other| *other > 0.0).map(|other| own / other)
}

fn costs(report: &Report, volume: &str, work: Work) -> [Verdict; 3] {
    let cpu = |contender| {
        let row = report.row(volume, work, contender)?;
        Some(median(row, Figures::cpu_per_gib))
    };
    let direct = cpu(DIRECT);
    let cached = report
        .row(volume, work, DIRECT)
        .map(|row| median(row, cached_percent));
    let name = work.name();
    [
        Verdict::at_most(
            format!("{volume}, {name}: CPU s/GiB direct, against buffered"),
            direct,
            cpu(BUFFERED),
        ),
        Verdict::at_most(
            format!("{volume}, {name}: CPU s/GiB direct, against half of Ganesha's"),
            direct,
            cpu(Contender::Ganesha).map(|cpu| cpu / 2.0),
        ),
        Verdict::at_most(
            format!("{volume}, {name}: page cache held in direct mode, % of the data"),
            cached,
            Some(1.0),
        ),
    ]
}
