//! What moves much data, by the prepared calls of [`crate::modes`]: load and server each on a core of its own, and the
//! server in as little memory as `modes` gives it.

use std::path::Path;

use anyhow::{Context as _, Result};
use nfs_lab::Engine;
use nfs_load::cores::Apart;
use nfs_load::spread::median;
use serde::{Deserialize, Serialize};

use super::list::Figure;
use super::{by_this_program, is};
use crate::modes::contender::{Contender, Mode};
use crate::modes::work::Work;

/// The name of these runs in `--only`.
pub(super) const NAME: &str = "data";
/// The workloads, each a run of its own.
pub(super) const WORKS: [Work; 3] = [Work::SeqRead1m, Work::SeqWrite1m, Work::RandRead4k];
/// A core was busy all the time from this share of it on: the kernel counts in ticks, and at both ends of a load there is
/// something to wait for.
const LOAD_BUSY_SHARE: f64 = 0.9;
/// A core that was busy for less than this share of the time waited for the load.
const SERVER_BUSY_SHARE: f64 = 0.8;
/// Who takes part: whose name contains one of these.
const WHO: [&str; 4] = ["buffered", "direct", "ganesha", "responder"];

/// What `nfs-bench modes` writes as JSON, as far as it is looked at.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Data {
    #[serde(default)]
    pub(super) header: Header,
    rows: Vec<Row>,
    /// What could not be measured, and why.
    pub(super) missing: Vec<String>,
}

/// What a report of `nfs-bench modes` tells of the machine, as far as it is looked at.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) cores_apart: Option<Apart>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Row {
    work: serde_json::Value,
    contender: serde_json::Value,
    rounds: Vec<Round>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Round {
    outcome: Outcome,
    /// CPU seconds of the server in its own code and in the kernel.
    user: f64,
    system: f64,
    /// CPU seconds of the load; none is told of fio, which has none.
    load: f64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Outcome {
    bytes: u64,
    calls: u64,
    seconds: f64,
}

/// The words behind `nfs-bench` of one run.
pub(super) fn words(work: Work, rounds: usize) -> Vec<String> {
    let of_run = ["modes", "--quick", "--on=fast", "--gib=4"].map(str::to_owned);
    let mut words = of_run.to_vec();
    words.push(format!("--filter={}", work.name()));
    words.extend(WHO.map(|who| format!("--who={who}")));
    words.push(format!("--rounds={rounds}"));
    words
}

/// Measures all workloads, each by this program as anybody would start it.
///
/// # Errors
/// A run fails, or does not leave its figures.
pub(super) fn measure(directory: &Path, rounds: usize) -> Result<Data> {
    std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    let mut all = Data::default();
    for work in WORKS {
        eprintln!("{NAME}: {}", work.name());
        let json = directory.join(work.name()).with_extension("json");
        let mut words = words(work, rounds);
        words.push(format!("--directory={}", directory.display()));
        let report: Data = by_this_program(&words, &json)?;
        let both = [&all.header, &report.header];
        let both = both.into_iter().flat_map(|of| of.cores_apart.clone());
        all.header.cores_apart = both.reduce(|all, one| all.and(&one));
        all.rows.extend(report.rows);
        let known = |text: &String| all.missing.contains(text);
        let new: Vec<_> = report
            .missing
            .into_iter()
            .filter(|text| !known(text))
            .collect();
        all.missing.extend(new);
    }
    Ok(all)
}

impl Data {
    /// Who is called so at this work.
    fn row(&self, work: Work, target: &str) -> Option<&Row> {
        let ours = Mode::ALL.map(|mode| Contender::Penstock(Engine::Uring, mode));
        let local = [true, false].map(|direct| Contender::Fio { direct });
        let plain = [true, false].map(|direct| Contender::Plain { direct });
        let others = [Contender::Ganesha, Contender::Responder];
        let mut all = ours.into_iter().chain(local).chain(plain).chain(others);
        let contender = all.find(|one| one.name() == target)?;
        let mut rows = self.rows.iter();
        rows.find(|row| is(&row.work, work) && is(&row.contender, contender))
    }

    /// In how many of how many rounds the load's core was busy all the time and the server's was not.
    pub(super) fn rounds_of_load(&self, work: Work, target: &str) -> Option<(usize, usize)> {
        let rounds = &self.row(work, target)?.rounds;
        let of_load = rounds.iter().filter(|round| round.is_of_load());
        Some((of_load.count(), rounds.len()))
    }

    /// A figure of whoever is called so, at the median of the rounds.
    pub(super) fn figure(&self, work: Work, figure: Figure, target: &str) -> Option<f64> {
        let row = self.row(work, target)?;
        let of = |value: fn(&Round) -> f64| median(row.rounds.iter().map(value));
        match figure {
            Figure::Throughput if work.is_random() => of(Round::calls_per_second),
            Figure::Throughput => of(Round::mib_per_second),
            Figure::Processor => of(Round::cpu_per_gib),
            Figure::Spread if row.rounds.len() > 1 => {
                let rates = || row.rounds.iter().map(Round::mib_per_second);
                Some(rates().fold(0.0, f64::max) / rates().fold(f64::MAX, f64::min))
            }
            Figure::Spread | Figure::P50 | Figure::P99 | Figure::Idle => None,
        }
    }
}

impl Round {
    fn calls_per_second(&self) -> f64 {
        self.outcome.calls as f64 / self.outcome.seconds
    }

    fn mib_per_second(&self) -> f64 {
        self.outcome.bytes as f64 / f64::from(1 << 20) / self.outcome.seconds
    }

    /// Whether it tells of the load: its core had no time left, and the server's had.
    fn is_of_load(&self) -> bool {
        let share = |busy: f64| busy / self.outcome.seconds;
        share(self.load) >= LOAD_BUSY_SHARE && share(self.user + self.system) <= SERVER_BUSY_SHARE
    }

    fn cpu_per_gib(&self) -> f64 {
        (self.user + self.system) / (self.outcome.bytes as f64 / f64::from(1 << 30))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modes::fixture;

    fn read_again(rows: Vec<crate::modes::run::Row>) -> Data {
        let json = serde_json::to_string(&fixture::report(rows)).unwrap();
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn rounds_whose_load_had_no_time_left_and_whose_server_had_tell_of_the_load() {
        // Rounds of one second.
        let mut row = fixture::row(
            Work::SeqWrite1m,
            Contender::Ganesha,
            &[(1024.0, 0.5, 0), (1024.0, 0.9, 0), (1024.0, 0.5, 0)],
        );
        for round in &mut row.rounds[..2] {
            round.load = 0.95;
        }
        let data = read_again(vec![row]);
        let of = |target| data.rounds_of_load(Work::SeqWrite1m, target);
        assert_eq!(
            of("ganesha"),
            Some((1, 3)),
            "the second server had none either"
        );
        assert_eq!(of("penstock direct"), None);
    }

    #[test]
    fn figures_are_those_of_the_row_that_is_named() {
        let direct = Contender::Penstock(Engine::Uring, Mode::Direct);
        let rounds = [(100.0, 0.5, 0), (300.0, 0.5, 0), (200.0, 0.5, 0)];
        let rows = [(direct, 1.0), (Contender::Ganesha, 2.0)].map(|(contender, slower)| {
            let rounds = rounds.map(|(rate, cpu, cached)| (rate / slower, cpu, cached));
            fixture::row(Work::SeqRead1m, contender, &rounds)
        });
        let data = read_again(rows.into());
        let figure = |figure, target| data.figure(Work::SeqRead1m, figure, target);
        let near = |value: Option<f64>, expected: f64| {
            let value = value.unwrap();
            assert!(
                (value - expected).abs() < 0.01 * expected,
                "{value} {expected}"
            );
        };
        near(figure(Figure::Throughput, "penstock direct"), 200.0);
        near(figure(Figure::Throughput, "ganesha"), 100.0);
        near(figure(Figure::Spread, "ganesha"), 3.0);
        near(figure(Figure::Processor, "ganesha"), 0.5);
        assert_eq!(figure(Figure::Throughput, "penstock buffered"), None);
        assert_eq!(
            data.figure(Work::SeqWrite1m, Figure::Throughput, "ganesha"),
            None
        );
    }
}
