//! What the figures are held against: the goals of the client, each met or not.

use nfs_client::limits::MEMORY_BYTES_DEFAULT;

use super::plan::{LOCAL_WAYS, Part, Row};
use super::run::Report;
use super::serve::Server;
use super::tool::{Tool, Work};
use crate::summary::verdict::Verdict;

/// How many times as fast as `nfs-cp` a sequential copy has to be on the same server.
const SEQUENTIAL_RATIO: f64 = 2.0;
/// How many times as fast as one `nfs-cp` after another a copy of small files has to be.
const SMALL_RATIO: f64 = 5.0;
/// Share of what loopback TCP carries (0 to 1) that the client has to reach on a responder without I/O.
const TCP_SHARE: f64 = 0.8;
/// Memory that a command may take beside that of its windows, in MiB: the program itself, and the pieces on
/// their way from or to a local file.
const BESIDE_WINDOWS_MIB: f64 = 24.0;
/// How much more memory a large file may take than a small one, in MiB. The windows are full or half empty as the server
/// is slow or fast at the moment, and both files see only some of those moments.
const PEAK_MIB: f64 = 24.0;

/// Every goal of the client, held against what `report` has measured.
pub fn verdicts(report: &Report) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for server in [Server::Penstock, Server::Ganesha] {
        for work in [Work::CopyDown, Work::CopyUp] {
            verdicts.push(against_libnfs(report, server, work, SEQUENTIAL_RATIO));
        }
        for work in [Work::ManyDown, Work::ManyUp] {
            verdicts.push(against_libnfs(report, server, work, SMALL_RATIO));
        }
        for work in [Work::CopyDown, Work::CopyUp] {
            verdicts.extend(LOCAL_WAYS.map(|way| on_a_disk(report, server, work, way)));
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
            row.map(Row::peak_mib)
        };
        let (large, small) = (peak(Part::Compared), peak(Part::Memory));
        let (name, mib) = (work.name(), report.header.file_bytes >> 20);
        let windows = (MEMORY_BYTES_DEFAULT >> 20) as f64;
        verdicts.push(Verdict::at_most(
            format!(
                "{name}: peak memory with {mib} MiB, in MiB, against a small file's + {PEAK_MIB}"
            ),
            large,
            small.map(|mib| mib + PEAK_MIB),
        ));
        verdicts.push(Verdict::at_most(
            format!("{name}: most memory with {mib} MiB, in MiB, against the windows' {windows} + {BESIDE_WINDOWS_MIB}"),
            large,
            Some(windows + BESIDE_WINDOWS_MIB),
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

fn on_a_disk(report: &Report, server: Server, work: Work, way: &str) -> Verdict {
    let rows = report.of(Part::Disk, server, work);
    let rate = |wanted: &dyn Fn(Tool) -> bool| {
        let row = rows.iter().find(|row| wanted(row.tool))?;
        Some(row.rate().median)
    };
    let ours = rate(&|tool| tool.tuning().and_then(|tuning| tuning.local) == Some(way));
    let ratio = ours.zip(rate(&|tool| tool == Tool::Libnfs));
    let ratio = ratio.map(|(ours, theirs)| ours / theirs);
    let (server, work) = (server.name(), work.name());
    let goal = format!("{server}, {work}, local file on a disk: ours {way} / nfs-cp");
    Verdict::at_least(goal, ratio, Some(SEQUENTIAL_RATIO))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::ceiling::Ceiling;
    use crate::client::plan::Figures;
    use crate::client::run::Header;
    use crate::client::tool::Tuning;
    use crate::client::watch::Spent;
    use crate::turns::Machine;

    const OURS: Tool = Tool::Penstock(Tuning {
        window: None,
        transfer_kib: None,
        nconnect: None,
        local: None,
    });

    fn row(part: Part, work: Work, tool: Tool, (seconds, peak_mib): (f64, u64)) -> Row {
        let client = Spent {
            seconds,
            peak_bytes: peak_mib << 20,
            ..Spent::default()
        };
        Row {
            part,
            server: Server::Penstock,
            work,
            tool,
            file_bytes: 1 << 30,
            rounds: vec![Figures {
                bytes: 1 << 30,
                files: 100,
                client,
                server_seconds: 0.5,
            }],
        }
    }

    fn report(rows: Vec<Row>) -> Report {
        Report {
            header: Header {
                machine: Machine {
                    kernel: String::new(),
                    cpus: 2,
                    commit: String::new(),
                    cores: (0, 1),
                    busy_before: 0.0,
                    cores_apart: None,
                },
                versions: Vec::new(),
                file_bytes: 1 << 30,
                files: 100,
                rounds: 1,
                disk: None,
                run_seconds: 1.0,
            },
            ceilings: vec![Ceiling {
                bytes: 1 << 30,
                seconds: 1.0,
                sender_seconds: 0.4,
                receiver_seconds: 0.3,
            }],
            rows,
            missing: Vec::new(),
        }
    }

    fn met(report: &Report, goal: &str) -> Option<bool> {
        let all = verdicts(report);
        let mut found = all.iter().filter(|verdict| verdict.goal.contains(goal));
        let verdict = found.next().unwrap_or_else(|| panic!("no goal {goal}"));
        assert!(found.next().is_none(), "{goal} is not the name of one goal");
        verdict.met
    }

    #[test]
    fn ratios_are_those_of_the_commands_on_one_server() {
        let compared = |work, tool, seconds| row(Part::Compared, work, tool, (seconds, 10));
        let report = report(vec![
            compared(Work::CopyUp, OURS, 1.0),
            compared(Work::CopyUp, Tool::Libnfs, 2.1),
            compared(Work::CopyDown, OURS, 1.0),
            compared(Work::CopyDown, Tool::Libnfs, 1.9),
            compared(Work::ManyUp, OURS, 1.0),
            compared(Work::ManyUp, Tool::Libnfs, 5.5),
        ]);
        assert_eq!(met(&report, "penstock, copy up:"), Some(true));
        assert_eq!(met(&report, "penstock, copy down:"), Some(false));
        assert_eq!(met(&report, "penstock, many up"), Some(true));
        assert_eq!(met(&report, "penstock, many down"), None);
        assert_eq!(met(&report, "ganesha, copy up:"), None);
        assert!(report.summary().text().contains("copy down on penstock"));
    }

    #[test]
    fn each_way_on_a_disk_is_held_against_nfs_cp_on_that_disk() {
        let way = |way| {
            Tool::Penstock(Tuning {
                local: Some(way),
                ..Tuning::default()
            })
        };
        let on_disk = |tool, seconds| row(Part::Disk, Work::CopyDown, tool, (seconds, 10));
        let report = report(vec![
            row(Part::Compared, Work::CopyDown, Tool::Libnfs, (9.0, 10)),
            on_disk(way("buffered"), 2.0),
            on_disk(way("direct"), 1.0),
            on_disk(Tool::Libnfs, 2.0),
        ]);
        let goal = |way| format!("penstock, copy down, local file on a disk: ours {way} /");
        assert_eq!(met(&report, &goal("buffered")), Some(false));
        assert_eq!(met(&report, &goal("direct")), Some(true));
        assert_eq!(met(&report, &goal("dontcache")), None, "not measured");
        assert!(report.summary().text().contains("local file on a disk"));
    }

    #[test]
    fn memory_may_not_grow_with_the_file_nor_beyond_the_windows() {
        let with = |large, small| {
            report(vec![
                row(Part::Compared, Work::Read, OURS, (1.0, large)),
                row(Part::Memory, Work::Read, OURS, (1.0, small)),
            ])
        };
        assert_eq!(met(&with(43, 20), "read: peak memory"), Some(true));
        assert_eq!(met(&with(45, 20), "read: peak memory"), Some(false));
        assert_eq!(met(&with(87, 80), "read: most memory"), Some(true));
        assert_eq!(met(&with(89, 80), "read: most memory"), Some(false));
    }

    #[test]
    fn the_library_alone_is_held_against_tcp() {
        let mut alone = row(
            Part::Compared,
            Work::Write,
            Tool::Library(Tuning::default()),
            (1.2, 10),
        );
        alone.server = Server::Responder;
        let report = report(vec![alone]);
        assert_eq!(met(&report, "write on a responder"), Some(true));
        assert_eq!(met(&report, "read on a responder"), None);
    }
}
