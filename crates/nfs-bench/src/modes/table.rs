//! The report as tables.

use nfs_lab::Engine;

use super::contender::{Contender, Mode};
use super::count;
use super::measure::Figures;
use super::run::{Report, Row};
use super::verdict::verdicts;
use super::work::Work;
use crate::summary::Summary;
use nfs_load::spread::{Spread, ratio};
use nfs_load::table::Table;

impl Report {
    /// The run as people read it: header, tables, goals, what is missing.
    pub fn summary(&self) -> Summary<'_> {
        Summary {
            header: self.header_lines(),
            tables: self.tables(),
            verdicts: verdicts(self),
            missing: &self.missing,
        }
    }

    /// Lines that say on which machine and with which settings the figures were measured.
    pub(crate) fn header_lines(&self) -> Vec<String> {
        let h = &self.header;
        let mib = |bytes: u64| bytes >> 20;
        let most = h
            .seconds_at_most
            .map_or(String::new(), |s| format!(", no calls after {s} s"));
        let connections = match h.clients {
            1 => "one connection".to_owned(),
            clients => format!("each of {clients} connections"),
        };
        let mut lines = vec![
            h.machine.line("load"),
            format!(
                "file {} MiB, server's memory {} MiB, {} calls in flight on {connections}{most}; {} rounds, median (min..max); {:.0} s in all",
                mib(h.file_bytes),
                mib(h.memory_bytes),
                h.depth,
                h.rounds,
                h.run_seconds
            ),
            h.machine.others_line(&h.versions),
        ];
        for (name, description) in &h.volumes {
            lines.push(format!("{name}: {description}"));
        }
        lines
    }

    /// The run's tables: one for each workload on each volume, and one of what was counted.
    pub fn tables(&self) -> Vec<Table> {
        let mut tables = Vec::new();
        for (volume, _) in &self.header.volumes {
            for work in Work::ALL {
                let rows: Vec<&Row> = self
                    .rows
                    .iter()
                    .filter(|row| {
                        row.volume == *volume && row.work == work && !row.rounds.is_empty()
                    })
                    .collect();
                if !rows.is_empty() {
                    tables.push(self.table(volume, work, &rows));
                }
            }
        }
        if !self.counts.is_empty() {
            tables.push(count::table(&self.counts));
        }
        tables
    }

    fn table(&self, volume: &str, work: Work, rows: &[&Row]) -> Table {
        let rate = if work.is_random() { "calls/s" } else { "MiB/s" };
        let heading = [
            "",
            rate,
            "x buffered",
            "x peer",
            "x fio",
            "p50 ms",
            "p99",
            "p99.9",
            "CPU s/GiB",
            "user",
            "kernel",
            "elsewhere",
            "load %",
            "cached MiB",
            "peak",
            "% of data",
            "RSS peak",
            "cgroup peak",
        ];
        let title = format!("{volume}: {}", work.name());
        Table::new(title, &heading, rows.iter().map(|row| self.cells(row)))
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        let of = |figure: fn(&Figures) -> f64| row.median(figure);
        let mib = |bytes: f64| format!("{:.0}", bytes / f64::from(1 << 20));
        let local = matches!(row.contender, Contender::Fio { .. });
        let responds = row.contender == Contender::Responder;
        let ratio = |other: Option<f64>| ratio(Some(of(Figures::rate(row.work))), other);
        let same = |contender| self.rate(row.volume, row.work, contender);
        let buffered = same(Contender::Penstock(Engine::Uring, Mode::Buffered));
        let fio = [true, false].map(|direct| same(Contender::Fio { direct }));
        let kept = |text: String| if responds { "-".to_owned() } else { text };
        let remembered = |text: String| {
            if local || responds {
                "-".to_owned()
            } else {
                text
            }
        };
        vec![
            row.contender.name(),
            Spread::cell(row.rounds.iter().map(Figures::rate(row.work)), 0),
            ratio(buffered),
            ratio(self.best_peer(row.volume, row.work)),
            // Direct where that can be done locally.
            ratio(fio[0].or(fio[1])),
            format!("{:.2}", of(|f| f.outcome.p50_us / 1000.0)),
            format!("{:.2}", of(|f| f.outcome.p99_us / 1000.0)),
            format!("{:.2}", of(|f| f.outcome.p999_us / 1000.0)),
            format!("{:.3}", of(Figures::cpu_per_gib)),
            format!("{:.3}", of(|f| f.user / f.gib())),
            format!("{:.3}", of(|f| f.system / f.gib())),
            format!("{:.3}", of(|f| f.elsewhere / f.gib())),
            if local {
                "-".to_owned()
            } else {
                Spread::cell(row.rounds.iter().map(Figures::load_percent), 0)
            },
            kept(mib(of(|f| f.cached_bytes as f64))),
            kept(mib(of(|f| f.cached_peak_bytes as f64))),
            kept(format!("{:.1}", of(Figures::cached_percent))),
            remembered(mib(of(|f| f.resident_peak_bytes as f64))),
            kept(mib(of(|f| f.charged_peak_bytes.unwrap_or_default() as f64))),
        ]
    }
}
