//! What the figures are held against: the goals of the I/O modes, each met or not.

use nfs_lab::Engine;

use super::contender::{Contender, Mode};
use super::measure::Figures;
use super::run::Report;
use super::work::Work;
use crate::summary::verdict::Verdict;

const DIRECT: Contender = Contender::Penstock(Engine::Uring, Mode::Direct);
const BUFFERED: Contender = Contender::Penstock(Engine::Uring, Mode::Buffered);
/// READ and WRITE + COMMIT of whole files.
const SEQUENTIAL: [Work; 2] = [Work::SeqRead1m, Work::SeqWrite1m];

/// What one thread with synchronous direct I/O on reused buffers, and no checks at all, reached where the goals were set:
/// two cores, Linux 6.18, XFS on zram. Another machine has other figures.
const PLAIN_PROGRAM_MIB: [(Work, f64); 2] = [(Work::SeqRead1m, 2048.0), (Work::SeqWrite1m, 2741.0)];

/// Every goal, for what was measured on each volume.
pub fn verdicts(report: &Report) -> Vec<Verdict> {
    if report.header.depth == 1 {
        return alone(report);
    }
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
    if has("fast") {
        for (work, bound) in PLAIN_PROGRAM_MIB {
            let goal = format!(
                "fast, {}: direct, MiB/s, against a plain program's",
                work.name()
            );
            verdicts.push(Verdict::at_least(
                goal,
                report.rate("fast", work, DIRECT),
                Some(bound),
            ));
        }
    }
    for (volume, _) in &report.header.volumes {
        let staged = report.rate(volume, Work::Write47008, Contender::Staged);
        let aligned = report.rate(volume, Work::Write48k, DIRECT);
        if let (Some(staged), Some(aligned)) = (staged, aligned) {
            let goal = format!("{volume}: 47008-byte records staged / 48 KiB ones direct");
            verdicts.push(Verdict::at_least(goal, Some(staged / aligned), Some(0.9)));
        }
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

/// With one call in flight: what is read ahead by the server is not to be slower than what the kernel reads ahead.
fn alone(report: &Report) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (volume, _) in &report.header.volumes {
        for work in [Work::SeqRead1m, Work::SeqRead128k] {
            let of_kernel = Contender::Penstock(Engine::Uring, Mode::DontCache);
            let ratio = ratio(report, volume, work, report.rate(volume, work, of_kernel));
            let goal = format!("{volume}, {}, alone: direct / dontcache", work.name());
            verdicts.push(Verdict::at_least(goal, ratio, Some(1.0)));
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
        Some(row.median(Figures::cpu_per_gib))
    };
    let direct = cpu(DIRECT);
    let cached = report
        .row(volume, work, DIRECT)
        .map(|row| row.median(Figures::cached_percent));
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

#[cfg(test)]
mod tests {
    use super::super::fixture::{report, row};
    use super::*;

    fn goal<'a>(verdicts: &'a [Verdict], words: &[&str]) -> &'a Verdict {
        let fits = |v: &&Verdict| words.iter().all(|word| v.goal.contains(word));
        let mut found = verdicts.iter().filter(fits);
        let first = found.next().expect("the goal is listed");
        assert!(found.next().is_none(), "{words:?} is one goal");
        first
    }

    #[test]
    fn goals_are_held_against_medians_and_the_best_peer() {
        let rows = vec![
            row(
                Work::SeqRead1m,
                DIRECT,
                &[(1700.0, 0.3, 0), (100.0, 9.0, 1 << 30), (1800.0, 0.2, 0)],
            ),
            row(Work::SeqRead1m, BUFFERED, &[(900.0, 0.4, 1 << 29)]),
            row(Work::SeqRead1m, Contender::Ganesha, &[(500.0, 0.5, 0)]),
            row(Work::SeqRead1m, Contender::Unfs3, &[(1000.0, 0.1, 0)]),
        ];
        let verdicts = verdicts(&report(rows));
        let read = "fast, seq-read-1m";
        let peer = goal(&verdicts, &[read, "best peer"]);
        assert!((peer.value.unwrap() - 1.7).abs() < 1e-9, "{peer}");
        assert_eq!(peer.met, Some(true));
        assert_eq!(goal(&verdicts, &[read, "against buffered"]).met, Some(true));
        // 0.3 against 0.25.
        assert_eq!(goal(&verdicts, &[read, "Ganesha"]).met, Some(false));
        assert_eq!(goal(&verdicts, &[read, "page cache"]).met, Some(true));
        assert_eq!(goal(&verdicts, &[read, "plain program"]).met, Some(false));
        assert_eq!(goal(&verdicts, &["seq-write-1m", "best peer"]).met, None);
    }

    #[test]
    fn alone_the_kernels_read_ahead_is_what_ours_is_held_against() {
        let cached = Contender::Penstock(Engine::Uring, Mode::DontCache);
        let mut report = report(vec![
            row(Work::SeqRead128k, DIRECT, &[(300.0, 0.3, 0)]),
            row(Work::SeqRead128k, cached, &[(200.0, 0.3, 0)]),
        ]);
        report.header.depth = 1;
        let verdicts = verdicts(&report);
        assert_eq!(verdicts.len(), 2);
        let small = goal(&verdicts, &["seq-read-128k, alone"]);
        assert!((small.value.unwrap() - 1.5).abs() < 1e-9);
        assert_eq!(small.met, Some(true));
        assert_eq!(goal(&verdicts, &["seq-read-1m, alone"]).met, None);
    }

    #[test]
    fn a_table_has_a_cell_for_each_column() {
        let rows = vec![
            row(
                Work::SeqRead1m,
                DIRECT,
                &[(2000.0, 0.3, 0), (1000.0, 0.3, 0)],
            ),
            row(Work::SeqRead1m, BUFFERED, &[(1000.0, 0.4, 1 << 29)]),
            row(Work::SeqRead1m, Contender::Responder, &[(4000.0, 0.1, 0)]),
            row(Work::SeqRead1m, Contender::Unfs3, &[]),
        ];
        let tables = report(rows).tables();
        assert_eq!(tables.len(), 1);
        let table = &tables[0];
        assert_eq!(table.rows.len(), 3, "what was never measured has no row");
        assert!(
            table
                .rows
                .iter()
                .all(|row| row.len() == table.heading.len())
        );
        assert_eq!(table.rows[0][1], "1500 (1000..2000)");
        assert_eq!(table.rows[0][2], "1.50", "ours against buffered");
        assert_eq!(table.rows[0][3], "-", "no peer was measured");
        assert_eq!(table.rows[1][12], "50 (50..50)", "half a core for the load");
        assert_eq!(table.rows[1][15], "50.0", "half of the data was cached");
        assert!(table.markdown().contains("| penstock direct | 1500"));
    }
}
