//! The comparison of orders as a directory: tables and pictures.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;

use super::run::{Ahead, Case, Report, SENDERS, extents, rate};
use crate::modes::contender::Mode;
use crate::summary;
use crate::summary::plot::{Line, Panel, svg};

/// Writes the report into `directory`.
///
/// # Errors
/// It cannot be written.
pub fn write(report: &Report, directory: &Path) -> Result<()> {
    let mut pictures = "## By the number of senders\n\n".to_owned();
    let mut drawn = Vec::new();
    for (volume, _) in &report.header.volumes {
        let name = format!("{volume}.svg");
        let _ = writeln!(pictures, "![{volume} by the number of senders]({name})\n");
        drawn.push((name, picture(report, volume)));
    }
    let page = report
        .summary()
        .page("WRITEs out of order, measured", &pictures);
    summary::write(directory, &page, drawn, report)
}

fn picture(report: &Report, volume: &str) -> String {
    let title = format!(
        "{volume}: a file of {} MiB in WRITEs of 64 KiB, shuffled within each k",
        report.header.file_bytes >> 20
    );
    let panels = [
        Panel {
            title: "throughput, COMMIT included, MiB/s",
            level: None,
        },
        Panel {
            title: "extents of the file",
            level: None,
        },
    ];
    let mut lines = Vec::new();
    for mode in Mode::ALL {
        for ahead in Ahead::ALL {
            let of = |figure| {
                let point = |senders: u64| {
                    let case = Case {
                        mode,
                        ahead,
                        senders,
                    };
                    Some((senders as f64, report.figure(volume, case, figure)?))
                };
                SENDERS.into_iter().filter_map(point).collect::<Vec<_>>()
            };
            let case = Case {
                mode,
                ahead,
                senders: 1,
            };
            let panels = vec![of(rate), of(extents)];
            if panels.iter().any(|points| !points.is_empty()) {
                lines.push(Line {
                    name: case.setting(),
                    panels,
                });
            }
        }
    }
    svg(
        &title,
        "k, WRITEs that arrive in a random order",
        &panels,
        &lines,
    )
}
