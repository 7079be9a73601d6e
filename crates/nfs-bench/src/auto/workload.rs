//! The workloads: what is moved, one after another or at once.

use std::time::Duration;

use serde::Serialize;

use crate::modes::work::Work;

/// The files that are there before anything is measured; each workload that reads or overwrites has its own.
pub const LARGE: &str = "large";
/// A file of an eighth of the server's memory.
pub const SMALL: &str = "small";
/// A file of the size of the server's memory, with a database's blocks.
pub const TABLE: &str = "table";
/// The file that is written; gone after each measurement.
pub const WRITTEN: &str = "written";

/// How many small files are written and read back.
const SMALL_FILES: usize = 200;
/// Passes over a file that is read again and again.
const PASSES: usize = 8;

/// A workload of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// A file of several times the memory, once, in 1 MiB.
    StreamLarge,
    /// A file of an eighth of the memory, once, in 1 MiB.
    StreamSmall,
    /// READs of 4 KiB here and there in a sixteenth of the memory.
    HotRandom,
    /// READs of 4 KiB here and there in several times the memory.
    ColdRandom,
    /// A file of an eighth of the memory, again and again.
    Rescans,
    /// A stream of several times the memory, and beside it small READs of what fits.
    MixedClients,
    /// A new file in records of 47008 bytes.
    Write47008,
    /// A log, line by line.
    AppendLog,
    /// FILE_SYNC WRITEs of 8 KiB here and there.
    Database,
    /// A new file of several times the memory, and all of it back.
    BackupRestore,
    /// Small files, written and read back.
    SmallFiles,
    /// A file of several times the memory in READs of 128 KiB, one at a time.
    OneInFlight,
}

/// One load of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// What is moved, and in which pieces.
    pub work: Work,
    /// The file's name.
    pub name: &'static str,
    /// How many files there are: the name is followed by a number if there are several.
    pub files: usize,
    /// How much of the file is moved, in bytes.
    pub bytes: u64,
    /// Calls in flight.
    pub depth: usize,
    /// How often.
    pub times: usize,
    /// No new calls after so long.
    pub at_most: Option<Duration>,
}

/// The sizes that workloads are made for.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Bytes of the large file.
    pub large: u64,
    /// The server's memory in bytes.
    pub memory: u64,
    /// How long small calls are made.
    pub random_for: Duration,
}

impl Sizes {
    /// The files that are to be there, with their sizes.
    pub fn files(&self) -> [(&'static str, u64); 3] {
        [
            (LARGE, self.large),
            (SMALL, self.memory / 8),
            (TABLE, self.memory),
        ]
    }
}

impl Workload {
    /// Every workload, in the order of the report.
    pub const ALL: [Self; 12] = [
        Self::StreamLarge,
        Self::StreamSmall,
        Self::HotRandom,
        Self::ColdRandom,
        Self::Rescans,
        Self::MixedClients,
        Self::Write47008,
        Self::AppendLog,
        Self::Database,
        Self::BackupRestore,
        Self::SmallFiles,
        Self::OneInFlight,
    ];

    /// The workload's name in the report and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::StreamLarge => "stream-large",
            Self::StreamSmall => "stream-small",
            Self::HotRandom => "hot-random",
            Self::ColdRandom => "cold-random",
            Self::Rescans => "rescans",
            Self::MixedClients => "mixed-clients",
            Self::Write47008 => "write-47008",
            Self::AppendLog => "append-log",
            Self::Database => "database",
            Self::BackupRestore => "backup-restore",
            Self::SmallFiles => "small-files",
            Self::OneInFlight => "one-in-flight",
        }
    }

    /// Whether its loads run beside each other instead of one after another.
    pub fn is_at_once(self) -> bool {
        self == Self::MixedClients
    }

    /// The loads that it consists of.
    pub fn steps(self, sizes: &Sizes) -> Vec<Step> {
        let random = Some(sizes.random_for);
        let step = |work, name, bytes| Step {
            work,
            name,
            files: 1,
            bytes,
            depth: 16,
            times: 1,
            at_most: None,
        };
        let (large, memory) = (sizes.large, sizes.memory);
        let here_and_there = |name, bytes| Step {
            at_most: random,
            ..step(Work::RandRead4k, name, bytes)
        };
        match self {
            Self::StreamLarge => vec![step(Work::SeqRead1m, LARGE, large)],
            Self::StreamSmall => vec![step(Work::SeqRead1m, SMALL, memory / 8)],
            Self::HotRandom => vec![here_and_there(LARGE, memory / 16)],
            Self::ColdRandom => vec![here_and_there(LARGE, large)],
            Self::Rescans => vec![Step {
                times: PASSES,
                ..step(Work::SeqRead1m, SMALL, memory / 8)
            }],
            Self::MixedClients => vec![
                Step {
                    at_most: random,
                    ..step(Work::SeqRead1m, LARGE, large)
                },
                here_and_there(SMALL, memory / 8),
            ],
            Self::Write47008 => vec![step(Work::Write47008, WRITTEN, large / 2)],
            Self::AppendLog => vec![Step {
                at_most: random,
                ..step(Work::Append200, WRITTEN, large)
            }],
            Self::Database => vec![Step {
                at_most: random,
                ..step(Work::SyncWrite8k, TABLE, memory)
            }],
            Self::BackupRestore => vec![
                step(Work::SeqWrite1m, WRITTEN, large),
                step(Work::SeqRead1m, WRITTEN, large),
            ],
            Self::SmallFiles => [Work::Write64k, Work::Read47008]
                .map(|work| Step {
                    files: SMALL_FILES,
                    ..step(work, WRITTEN, 64 << 10)
                })
                .to_vec(),
            Self::OneInFlight => vec![Step {
                depth: 1,
                ..step(Work::SeqRead128k, LARGE, large / 4)
            }],
        }
    }
}

impl Step {
    /// The names of the step's files.
    pub fn names(&self) -> impl Iterator<Item = String> + use<> {
        let (name, files) = (self.name, self.files);
        (0..files).map(move |number| match files {
            1 => name.to_owned(),
            _ => format!("{name}-{number}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modes::work::Direction;

    #[test]
    fn every_file_that_is_read_is_there_or_was_written() {
        let sizes = Sizes {
            large: 2 << 30,
            memory: 512 << 20,
            random_for: Duration::from_secs(1),
        };
        for workload in Workload::ALL {
            let mut there: Vec<String> = sizes.files().map(|(name, _)| name.to_owned()).to_vec();
            for step in workload.steps(&sizes) {
                assert!(
                    step.bytes >= u64::from(step.work.call_bytes()),
                    "{workload:?}"
                );
                if step.work.makes_file() {
                    there.extend(step.names());
                    continue;
                }
                assert!(
                    step.names().all(|name| there.contains(&name)),
                    "{workload:?}"
                );
                let size = sizes
                    .files()
                    .into_iter()
                    .find(|(name, _)| *name == step.name);
                let written = step.work.direction() == Direction::Write || step.name == WRITTEN;
                assert!(size.map_or(written, |(_, size)| step.bytes <= size));
            }
        }
    }
}
