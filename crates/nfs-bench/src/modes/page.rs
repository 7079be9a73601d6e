//! The comparison of I/O modes as a directory: tables and pictures.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;

use super::measure::Figures;
use super::run::{Report, Row};
use super::sampler::Point;
use super::work::Work;
use crate::summary;
use crate::summary::plot::{Line, Panel, svg};

/// Shortest time in seconds over which a share of CPU time is taken, since CPU times come in hundredths of a
/// second.
const SHARE_SECONDS: f64 = 0.24;

/// Writes the report into `directory`.
///
/// # Errors
/// It cannot be written.
pub fn write(report: &Report, directory: &Path) -> Result<()> {
    let mut pictures = "## Over time\n\n".to_owned();
    let mut drawn = Vec::new();
    for (volume, _) in &report.header.volumes {
        for (work, word) in [(Work::SeqRead1m, "read"), (Work::SeqWrite1m, "written")] {
            let rows = report.drawn(volume, work);
            if rows.is_empty() {
                continue;
            }
            let rows: Vec<_> = rows
                .into_iter()
                .map(|row| (row.contender.name(), row))
                .collect();
            let name = format!("{volume}-{word}.svg");
            let _ = writeln!(pictures, "![{word} on {volume} over time]({name})\n");
            let file = mib(report.header.file_bytes);
            let what = format!("{volume}: a file of up to {file:.0} MiB, {word} in calls of 1 MiB");
            drawn.push((name, picture(report, &what, &rows)));
        }
    }
    let page = report.summary().page("The I/O modes, measured", &pictures);
    summary::write(directory, &page, drawn, report)
}

/// Draws the middle rounds of `rows`, each by its name, over time; `what` they did is the beginning of the title.
pub(crate) fn picture(report: &Report, what: &str, rows: &[(String, &Row)]) -> String {
    let memory = mib(report.header.memory_bytes);
    let title = format!("{what}; {memory:.0} MiB of memory");
    let panels = [
        Panel {
            title: "throughput, MiB/s",
            level: None,
        },
        Panel {
            title: "CPU of the server in the kernel, % of its core",
            level: Some((100.0, "all of it")),
        },
        Panel {
            title: "CPU of the whole machine, % of one core (load generator included)",
            level: None,
        },
        Panel {
            title: "page cache held of the file, MiB",
            level: Some((memory, "the memory limit")),
        },
    ];
    let lines: Vec<Line> = rows
        .iter()
        .filter_map(|(name, row)| {
            let points = &middle(row)?.points;
            Some(Line {
                name: name.clone(),
                panels: vec![
                    slope(points, 0.0, |p| mib(p.bytes)),
                    slope(points, SHARE_SECONDS, |p| p.system * 100.0),
                    slope(points, SHARE_SECONDS, |p| p.machine * 100.0),
                    points
                        .iter()
                        .map(|p| (p.seconds, mib(p.cached_bytes)))
                        .collect(),
                ],
            })
        })
        .collect();
    svg(&title, "seconds since the first call", &panels, &lines)
}

/// Bytes in MiB.
pub(crate) fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The round in the middle by throughput: a run as it was, not an average of runs.
fn middle(row: &Row) -> Option<&Figures> {
    let mut rounds: Vec<&Figures> = row.rounds.iter().filter(|f| f.points.len() > 1).collect();
    rounds.sort_by(|a, b| a.outcome.seconds.total_cmp(&b.outcome.seconds));
    rounds.get(rounds.len() / 2).copied()
}

/// How fast a figure grows, per second, between looks that are at least `seconds` apart.
fn slope(points: &[Point], seconds: f64, figure: fn(&Point) -> f64) -> Vec<(f64, f64)> {
    let mut slopes = Vec::new();
    for (index, point) in points.iter().enumerate().skip(1) {
        // The last look comes when the load has ended, which may be right after the one before.
        let apart = seconds.max(SHARE_SECONDS / 4.0);
        let earlier = points[..index]
            .iter()
            .rev()
            .find(|earlier| point.seconds - earlier.seconds >= apart)
            .unwrap_or(&points[0]);
        let passed = point.seconds - earlier.seconds;
        if passed > 0.0 {
            slopes.push((point.seconds, (figure(point) - figure(earlier)) / passed));
        }
    }
    slopes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slope_is_taken_over_long_enough() {
        let at = |seconds: f64, bytes: u64| Point {
            seconds,
            bytes,
            ..Point::default()
        };
        let points = [at(0.0, 0), at(0.5, 100), at(1.0, 400), at(1.001, 400)];
        let of = |seconds| slope(&points, seconds, |p| p.bytes as f64);
        assert_eq!(of(0.0)[..2], [(0.5, 200.0), (1.0, 600.0)]);
        let last = of(0.0)[2];
        assert!(
            last.1 > 500.0,
            "not zero for having been looked at twice: {last:?}"
        );
        assert_eq!(of(1.0)[1], (1.0, 400.0));
        assert!(slope(&points[..1], 0.0, |p| p.bytes as f64).is_empty());
    }
}
