//! The report as tables, and the goals.

use nfs_lab::Engine;

use crate::modes::contender::{Contender, Mode};
use crate::modes::measure::Figures;
use crate::modes::run::{Report, Row};
use crate::modes::work::Work;
use crate::summary::Summary;
use crate::summary::verdict::Verdict;
use nfs_load::spread::{Spread, ratio};
use nfs_load::table::Table;

/// The workloads, the limit first.
pub(super) const DRAWN: [Work; 2] = [ALIGNED, HARD];
/// Records that are aligned to nothing.
const HARD: Work = Work::Write47008;
/// Records that are: the limit for the others.
const ALIGNED: Work = Work::Write48k;
const DIRECT: Contender = Contender::Penstock(Engine::Uring, Mode::Direct);

/// Least throughput with staging, as a part of that of aligned records.
const RATE_BOUND: f64 = 0.9;
/// Most read-modify-writes with staging, for a thousand WRITEs: those at the end of the file, and where clients
/// COMMIT while others still write.
const MODIFIED_BOUND: f64 = 1.0;
/// Most of the data that is seen in the page cache with staging, in per cent.
const CACHED_BOUND: f64 = 1.0;

/// The run as people read it: header, tables, goals, what is missing.
pub fn summary(report: &Report) -> Summary<'_> {
    let mut header = report.header_lines();
    if let Some(reserve) = report.header.reserve {
        header.push(format!("space ahead of streams, ours: {reserve}"));
    }
    Summary {
        header,
        tables: tables(report),
        verdicts: verdicts(report),
        missing: &report.missing,
    }
}

/// What a row is called in tables and pictures.
pub(super) fn name(row: &Row) -> String {
    let contender = row.contender.name();
    match row.work == ALIGNED {
        true => format!("{contender}, aligned"),
        false => contender,
    }
}

fn tables(report: &Report) -> Vec<Table> {
    let table = |volume: &str| {
        let of = |work| {
            let rows = report.rows.iter();
            rows.filter(move |row| row.volume == volume && row.work == work)
        };
        let rows = DRAWN.into_iter().flat_map(of);
        let rows = rows.filter(|row| !row.rounds.is_empty());
        let rows: Vec<Vec<String>> = rows.map(|row| cells(report, row)).collect();
        let heading = [
            "",
            "MiB/s",
            "x aligned",
            "read-modify-writes",
            "per 1000 WRITEs",
            "device read MiB",
            "cached MiB",
            "peak",
            "% of data",
            "CPU s/GiB",
        ];
        (!rows.is_empty())
            .then(|| Table::new(format!("{volume}: records by turns"), &heading, rows))
    };
    let volumes = report.header.volumes.iter();
    volumes.filter_map(|(volume, _)| table(volume)).collect()
}

fn cells(report: &Report, row: &Row) -> Vec<String> {
    let spread =
        |figure: fn(&Figures) -> f64, digits| Spread::cell(row.rounds.iter().map(figure), digits);
    let of = |figure: fn(&Figures) -> f64| row.median(figure);
    let all = |is_known: fn(&Figures) -> bool, text: String| match row.rounds.iter().all(is_known) {
        true => text,
        false => "-".to_owned(),
    };
    let mib = |bytes: f64| format!("{:.0}", bytes / f64::from(1 << 20));
    let counted = |figures: &Figures| figures.read_modify_writes.is_some();
    let modified = |figures: &Figures| figures.read_modify_writes.unwrap_or_default() as f64;
    let limit = report.rate(row.volume, ALIGNED, DIRECT);
    vec![
        name(row),
        spread(Figures::rate(row.work), 0),
        ratio(Some(of(Figures::rate(row.work))), limit),
        all(counted, spread(modified, 0)),
        all(
            counted,
            format!("{:.2}", of(Figures::modified_per_thousand)),
        ),
        all(
            |figures| figures.device_read_bytes.is_some(),
            spread(Figures::device_read_mib, 1),
        ),
        mib(of(|figures| figures.cached_bytes as f64)),
        mib(of(|figures| figures.cached_peak_bytes as f64)),
        format!("{:.1}", of(Figures::cached_percent)),
        spread(Figures::cpu_per_gib, 2),
    ]
}

/// Every goal, on each volume.
fn verdicts(report: &Report) -> Vec<Verdict> {
    let goals = |volume: &str| {
        let staged = report.row(volume, HARD, Contender::Staged);
        let of = |figure: fn(&Figures) -> f64| staged.map(|row| row.median(figure));
        let limit = report.rate(volume, ALIGNED, DIRECT);
        let part = of(Figures::rate(HARD)).zip(limit);
        [
            Verdict::at_least(
                format!("{volume}: throughput, staging / aligned direct"),
                part.map(|(staged, limit)| staged / limit),
                Some(RATE_BOUND),
            ),
            Verdict::at_most(
                format!("{volume}: read-modify-writes with staging, for 1000 WRITEs"),
                of(Figures::modified_per_thousand),
                Some(MODIFIED_BOUND),
            ),
            Verdict::at_most(
                format!("{volume}: page cache held with staging, % of the data"),
                of(Figures::cached_percent),
                Some(CACHED_BOUND),
            ),
        ]
    };
    let volumes = report.header.volumes.iter();
    volumes.flat_map(|(volume, _)| goals(volume)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modes::fixture;

    fn report() -> Report {
        let mut staged = fixture::row(HARD, Contender::Staged, &[(930.0, 0.5, 0)]);
        for figures in &mut staged.rounds {
            figures.read_modify_writes = Some(2);
            figures.device_read_bytes = Some(3 << 19);
        }
        fixture::report(vec![
            fixture::row(HARD, Contender::Ganesha, &[(500.0, 1.0, 1 << 29)]),
            fixture::row(HARD, DIRECT, &[(100.0, 0.9, 1 << 29)]),
            staged,
            fixture::row(
                ALIGNED,
                DIRECT,
                &[(1000.0, 0.5, 0), (900.0, 0.5, 0), (2000.0, 0.5, 0)],
            ),
        ])
    }

    #[test]
    fn goals_are_held_against_aligned_records() {
        let report = report();
        let verdicts = verdicts(&report);
        let met: Vec<_> = verdicts.iter().map(|verdict| verdict.met).collect();
        // 2 of 1024.
        assert_eq!(met, [Some(true), Some(false), Some(true)], "{verdicts:?}");
    }

    #[test]
    fn a_table_has_the_limit_first_and_dashes_where_nothing_was_counted() {
        let report = report();
        let tables = tables(&report);
        let [table] = &tables[..] else {
            panic!("{tables:?}");
        };
        assert!(
            table
                .rows
                .iter()
                .all(|row| row.len() == table.heading.len())
        );
        let row = |name: &str| table.rows.iter().find(|row| row[0] == name).unwrap();
        assert_eq!(table.rows[0][0], "penstock direct, aligned");
        assert_eq!(table.rows[0][1], "1000 (900..2000)");
        assert_eq!(row("ganesha")[2..6], ["0.50", "-", "-", "-"]);
        let staged = row("penstock direct, staging");
        assert_eq!(staged[2..6], ["0.93", "2 (2..2)", "1.95", "1.5 (1.5..1.5)"]);
        assert_eq!(
            row("penstock direct")[8],
            "50.0",
            "half of the data was cached"
        );
    }
}
