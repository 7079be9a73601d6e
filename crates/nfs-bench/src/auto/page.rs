//! The comparison as a directory: tables and pictures.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;

use super::measure::Figures;
use super::run::{Case, Report, Way};
use super::table::p99;
use super::workload::Workload;
use crate::summary;
use crate::summary::plot::{Line, Panel, svg};

/// Writes the report into `directory`.
///
/// # Errors
/// It cannot be written.
pub fn write(report: &Report, directory: &Path) -> Result<()> {
    let mut pictures = "## By workload\n\n".to_owned();
    for (number, workload) in Workload::ALL.into_iter().enumerate() {
        let _ = writeln!(pictures, "{}. {}", number + 1, workload.name());
    }
    let mut drawn = Vec::new();
    for (volume, _) in &report.header.volumes {
        let name = format!("{volume}.svg");
        let _ = writeln!(pictures, "\n![{volume} by workload]({name})");
        drawn.push((name, picture(report, volume)));
    }
    let page = report
        .summary()
        .page("The mode that is chosen, measured", &pictures);
    summary::write(directory, &page, drawn, report)
}

fn picture(report: &Report, volume: &str) -> String {
    let title = format!(
        "{volume}: each mode at each workload, server in {} MiB",
        report.header.memory_bytes >> 20
    );
    let panels = [
        Panel {
            title: "throughput, as a part of that of the best fixed mode",
            level: Some((0.95, "goal of auto")),
        },
        Panel {
            title: "p99, as a multiple of that of the worst fixed mode but one",
            level: Some((1.0, "goal of auto")),
        },
    ];
    let lines = Way::ALL.into_iter().map(|way| {
        let of = |figure: fn(&Figures) -> f64, number: usize| {
            let numbered = (1..).zip(Workload::ALL);
            let points = numbered.filter_map(|(at, workload): (u32, _)| {
                let fixed = report.fixed(volume, workload, figure)?;
                let own = report.figure(volume, Case { workload, way }, figure)?;
                Some((f64::from(at), own / fixed.get(number)?))
            });
            points.collect::<Vec<_>>()
        };
        Line {
            name: way.word().to_owned(),
            panels: vec![of(Figures::mib_per_second, 2), of(p99, 1)],
        }
    });
    let lines: Vec<Line> = lines.collect();
    svg(&title, "workload, by its number", &panels, &lines)
}
