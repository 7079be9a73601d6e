//! What is measured: every row of the report, in the order in which they take turns.

use serde::Serialize;

use super::serve::Server;
use super::tool::{Tool, Tuning, Work};
use super::watch::Spent;

/// Depths of the window that are measured, beside the one that is found.
pub const WINDOWS: [u32; 5] = [1, 2, 4, 8, 16];
/// Transfer sizes that are measured, in KiB; the last is the largest that the commands take.
pub const TRANSFERS_KIB: [u32; 3] = [64, 256, 1024];
/// Numbers of connections to one server that are measured.
pub const CONNECTIONS: [u32; 3] = [1, 2, 4];
/// Ways of moving files of a local disk that are measured.
pub const LOCAL_WAYS: [&str; 3] = ["buffered", "dontcache", "direct"];

/// The part of the report that a row belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Our client beside others, with window, transfer size and connections at its defaults.
    Compared,
    /// Our client with a window of each depth in [`WINDOWS`], and with one whose depth it finds itself.
    Window,
    /// Our client with each transfer size in [`TRANSFERS_KIB`].
    Transfer,
    /// Our client with each number of connections in [`CONNECTIONS`].
    Connections,
    /// A small file, for its memory beside the large one's.
    Memory,
    /// The local file on a disk's file system instead of in memory.
    Disk,
}

/// The figures of one measurement.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// Number of payload bytes that were moved.
    pub bytes: u64,
    /// Number of files that were moved.
    pub files: usize,
    /// Time, CPU and memory that the client took.
    pub client: Spent,
    /// CPU seconds that the server used meanwhile.
    pub server_seconds: f64,
}

impl Figures {
    /// Throughput in MiB/s, from the client's start to its end.
    pub fn mib_per_second(&self) -> f64 {
        self.mib() / self.client.seconds
    }

    /// Files per second, from the client's start to its end.
    pub fn files_per_second(&self) -> f64 {
        self.files as f64 / self.client.seconds
    }

    /// Payload that was moved, in MiB.
    pub fn mib(&self) -> f64 {
        self.bytes as f64 / f64::from(1 << 20)
    }
}

/// One row of the report: what is measured, and the figures of all its rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The part of the report that this row belongs to.
    pub part: Part,
    /// The server that the files are on.
    pub server: Server,
    /// What is moved, and in which direction.
    pub work: Work,
    /// The client that moves it.
    pub tool: Tool,
    /// Size of the large file in bytes.
    pub file_bytes: u64,
    /// The figures of each round that succeeded.
    pub rounds: Vec<Figures>,
}

impl Row {
    /// The row's name in messages, which no other row of the run has.
    pub fn label(&self) -> String {
        let size = match self.part {
            Part::Memory => format!(" of {} MiB", self.file_bytes >> 20),
            Part::Disk if self.work.is_up() => " from a disk".to_owned(),
            Part::Disk => " to a disk".to_owned(),
            _ => String::new(),
        };
        let (server, work) = (self.server.name(), self.work.name());
        format!("{server}, {work}{size}: {}", self.tool.name(self.work))
    }
}

/// Sizes of the files that are measured with, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Size of the large file in the comparison.
    pub whole: u64,
    /// Size of the large file in the rows by window, transfer size and connections, for the kernel's client
    /// and for a local disk.
    pub swept: u64,
    /// Size of the file that shows how much memory a client takes for a small one.
    pub small: u64,
}

/// Every row; those of the kernel's client only if `kernel` asks for them.
pub fn rows(sizes: Sizes, kernel: bool) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |part, server, work, tool, file_bytes| {
        rows.push(Row {
            part,
            server,
            work,
            tool,
            file_bytes,
            rounds: Vec::new(),
        });
    };
    let ours = Tool::Penstock(Tuning::default());
    let alone = Tool::Library(Tuning::default());
    for work in [Work::Read, Work::Write] {
        add(Part::Compared, Server::Responder, work, alone, sizes.whole);
        add(Part::Compared, Server::Responder, work, ours, sizes.whole);
    }
    add(
        Part::Compared,
        Server::Responder,
        Work::Read,
        Tool::Libnfs,
        sizes.whole,
    );
    for server in [Server::Penstock, Server::Ganesha] {
        for work in Work::ALL {
            add(Part::Compared, server, work, ours, sizes.whole);
            // It has no command that writes what comes through a pipe.
            if work != Work::Write {
                add(Part::Compared, server, work, Tool::Libnfs, sizes.whole);
            }
            if kernel && matches!(work, Work::Read | Work::Write) {
                add(Part::Compared, server, work, Tool::Kernel, sizes.swept);
            }
        }
    }
    for work in [Work::Read, Work::Write] {
        add(Part::Memory, Server::Penstock, work, ours, sizes.small);
    }
    for server in [Server::Penstock, Server::Ganesha] {
        for work in [Work::CopyDown, Work::CopyUp] {
            for way in LOCAL_WAYS {
                let tuning = Tuning {
                    local: Some(way),
                    ..Tuning::default()
                };
                add(
                    Part::Disk,
                    server,
                    work,
                    Tool::Penstock(tuning),
                    sizes.swept,
                );
            }
            add(Part::Disk, server, work, Tool::Libnfs, sizes.swept);
        }
    }
    for (part, tunings) in sweeps() {
        for work in [Work::Read, Work::Write] {
            for &tuning in &tunings {
                let tool = Tool::Penstock(tuning);
                add(part, Server::Penstock, work, tool, sizes.swept);
                if part == Part::Window {
                    // Without a file at either end: only the window makes a difference.
                    let tool = Tool::Library(tuning);
                    add(part, Server::Distant, work, tool, sizes.swept);
                }
            }
        }
    }
    rows
}

fn sweeps() -> [(Part, Vec<Tuning>); 3] {
    let none = Tuning::default();
    let windows = WINDOWS.map(Some).into_iter().chain([None]);
    [
        (
            Part::Window,
            windows.map(|window| Tuning { window, ..none }).collect(),
        ),
        (
            Part::Transfer,
            TRANSFERS_KIB
                .map(|kib| Tuning {
                    transfer_kib: Some(kib),
                    ..none
                })
                .to_vec(),
        ),
        (
            Part::Connections,
            CONNECTIONS
                .map(|connections| Tuning {
                    nconnect: Some(connections),
                    ..none
                })
                .to_vec(),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_tell_the_rows_of_a_part_apart() {
        let sizes = Sizes {
            whole: 4 << 30,
            swept: 1 << 30,
            small: 256 << 20,
        };
        let mut labels: Vec<(String, String)> = rows(sizes, true)
            .iter()
            .map(|row| (format!("{:?}", row.part), row.label()))
            .collect();
        let all = labels.len();
        labels.sort();
        labels.dedup();
        assert_eq!(labels.len(), all);
    }
}
