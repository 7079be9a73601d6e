//! What the figures are held against: the goals of the client, each met or not. Nothing fails when one is not.

use super::plan::Part;
use super::run::Report;
use super::serve::Server;
use super::tool::{Tool, Work};
use crate::modes::verdict::Verdict;

/// Sequential, against `nfs-cp` on the same server.
const SEQUENTIAL_RATIO: f64 = 2.0;
/// Small files, against one `nfs-cp` after another.
const SMALL_RATIO: f64 = 5.0;
/// Against a responder without I/O, of what loopback TCP carries.
const TCP_SHARE: f64 = 0.8;
/// How much more memory a large file may take than a small one, in MiB: what an allocator may happen to keep.
const PEAK_MIB: f64 = 8.0;

/// Every goal, for what was measured.
pub fn verdicts(report: &Report) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for server in [Server::Penstock, Server::Ganesha] {
        for work in [Work::CopyDown, Work::CopyUp] {
            verdicts.push(against_libnfs(report, server, work, SEQUENTIAL_RATIO));
        }
        for work in [Work::ManyDown, Work::ManyUp] {
            verdicts.push(against_libnfs(report, server, work, SMALL_RATIO));
        }
    }
    for work in [Work::Read, Work::Write] {
        let rate = ours(report, Server::Responder, work, is_library);
        let share = rate.zip(report.ceiling().map(|ceiling| ceiling.median));
        let goal = format!("{} on a responder without I/O / loopback TCP", work.name());
        let share = share.map(|(rate, ceiling)| rate / ceiling);
        verdicts.push(Verdict::at_least(goal, share, Some(TCP_SHARE)));
    }
    for work in [Work::Read, Work::Write] {
        let peak = |part| {
            let rows = report.of(part, Server::Penstock, work);
            let row = rows.into_iter().find(|row| is_command(row.tool));
            row.map(super::plan::Row::peak_mib)
        };
        let (large, small) = (peak(Part::Compared), peak(Part::Memory));
        let goal = format!(
            "{}: peak memory with {} MiB, in MiB, against a small file's + {PEAK_MIB}",
            work.name(),
            report.header.file_bytes >> 20
        );
        verdicts.push(Verdict::at_most(
            goal,
            large,
            small.map(|mib| mib + PEAK_MIB),
        ));
    }
    verdicts
}

fn against_libnfs(report: &Report, server: Server, work: Work, bound: f64) -> Verdict {
    let of = |wanted: fn(Tool) -> bool| ours(report, server, work, wanted);
    let ratio = of(is_command).zip(of(|tool| tool == Tool::Libnfs));
    let goal = format!("{}, {}: ours / nfs-cp", server.name(), work.name());
    Verdict::at_least(goal, ratio.map(|(ours, theirs)| ours / theirs), Some(bound))
}

fn ours(report: &Report, server: Server, work: Work, wanted: fn(Tool) -> bool) -> Option<f64> {
    let rows = report.of(Part::Compared, server, work);
    let row = rows.into_iter().find(|row| wanted(row.tool))?;
    Some(row.rate().median)
}

fn is_command(tool: Tool) -> bool {
    matches!(tool, Tool::Penstock(_))
}

fn is_library(tool: Tool) -> bool {
    matches!(tool, Tool::Library(_))
}
