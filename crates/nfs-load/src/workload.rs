//! The named workloads: what each asks, and which loads it is made of.

mod calls;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::LoadError;
use crate::limits;
use crate::load::{Amount, Load, Name, Names, Work};
use crate::place::Stable;
use crate::records::{Order, Records};

/// A workload by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// A file from its beginning to its end, read.
    SeqRead,
    /// A new file from its beginning to its end, and COMMIT.
    SeqWrite,
    /// 4 KiB at random places: read, written, and written to stable storage each time.
    #[serde(rename = "random-4k")]
    Random4k,
    /// Names of one directory: made, looked at, listed, renamed, removed.
    Metadata,
    /// Small calls by the clock, alone and beside floods of WRITEs, of READs and of stable WRITEs.
    Mixed,
    /// Calls that move no data, many in flight; and NULL beside a flood of stable WRITEs.
    SmallCalls,
    /// READs over more and more connections, and beside idle ones.
    Connections,
    /// IOzone's table: records of 1 KiB to 16 MiB, written, rewritten, read, reread.
    Iozone,
    /// A file written and read with more and more calls in flight.
    MkfileDd,
    /// IOR's easy pattern: each client has a file of its own.
    IorEasy,
    /// IOR's hard pattern: clients take turns in one file, with records that are aligned to nothing.
    IorHard,
    /// One stream of WRITEs, shuffled within more and more of them.
    OutOfOrder,
    /// A file that is written and read while it outgrows the server's memory.
    TipOver,
    /// A source tree that is unpacked: directories, many small files, some symbolic links.
    Untar,
    /// The generator itself: small calls, READs and WRITEs against the responder that touches no file.
    Ceiling,
    /// A load that was recorded on a server.
    Replay,
}

/// The numbers of a run. What a workload does not use is at its default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Bytes of each file.
    pub size_bytes: u64,
    /// Bytes that the application moves with one call.
    pub record_bytes: u32,
    /// Calls in flight on each connection.
    pub depth: usize,
    /// Connections.
    pub connections: usize,
    /// Length of those measurements that time ends, in seconds.
    pub seconds: f64,
    /// Calls that begin in a second; `None` for as many as are answered.
    pub rate: Option<f64>,
    /// Names in the directory.
    pub names: u64,
    /// Whether files that are read may be in the page cache already; otherwise they are dropped from this host's.
    pub cached: bool,
    /// Connections that are open and idle beside those that are measured.
    #[serde(default)]
    pub idle: usize,
    /// How long the generator looks for replies before it sleeps, and the responder for calls, in microseconds.
    #[serde(default)]
    pub busy_poll_us: u64,
}

/// A number of [`Settings`] that can be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// [`Settings::size_bytes`].
    Size,
    /// [`Settings::record_bytes`].
    Record,
    /// [`Settings::depth`].
    Depth,
    /// [`Settings::connections`].
    Connections,
    /// [`Settings::seconds`].
    Seconds,
    /// [`Settings::rate`].
    Rate,
    /// [`Settings::names`].
    Names,
    /// [`Settings::cached`].
    Cached,
    /// [`Settings::idle`].
    Idle,
}

/// What a row's throughput is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// MiB per second.
    Mib,
    /// Calls per second.
    Calls,
    /// Files and symbolic links per second.
    Files,
}

/// One measurement of a workload, and what surrounds it.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its name in the report.
    pub name: String,
    /// What its throughput is counted in.
    pub unit: Unit,
    /// What is measured.
    pub load: Load,
    /// What goes on beside it, and its name in the report.
    pub beside: Option<(String, Load)>,
    /// What is done first, and not measured.
    pub before: Option<Before>,
    /// What is removed afterwards, and not measured.
    pub after: Option<After>,
    /// Whether how it went is kept, moment by moment.
    pub is_watched: bool,
    /// How many connections are open and idle meanwhile.
    pub idle: usize,
}

/// What is done before a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Before {
    /// This file is dropped from this host's page cache, if it is there.
    Cold(Name),
    /// This directory is made.
    Directory(String),
}

/// What is removed after a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum After {
    /// This file, or each connection's.
    File(Name),
    /// This directory with all that is in it.
    Directory(String),
}

const DATA: &str = "data";
const NEW: &str = "written";
const NAMES: &str = "names";
const RANDOM_BYTES: u32 = 4096;
const LARGEST_BYTES: u32 = 1 << 20;
const HARD_BYTES: u32 = 47_008;
const SEED: u64 = 1;
/// IOzone's table goes from 1 KiB to 16 MiB in steps of four, and the last is what is left.
const IOZONE_KIB: [u32; 8] = [1, 4, 16, 64, 256, 1024, 4096, 16384];
const IN_FLIGHT: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// Within how many WRITEs an out-of-order stream is shuffled.
const WITHIN: [u64; 5] = [1, 2, 4, 20, 64];
/// The flood of a mixed load: calls in flight, on a connection of its own.
const FLOOD_DEPTH: usize = 16;
const FLOOD_BYTES: u32 = 1 << 20;

impl Workload {
    /// All of them that are made up, in the order of the help: without the replay, which takes a recording.
    pub const ALL: [Self; 15] = [
        Self::SeqRead,
        Self::SeqWrite,
        Self::Random4k,
        Self::Metadata,
        Self::Mixed,
        Self::SmallCalls,
        Self::Connections,
        Self::Iozone,
        Self::MkfileDd,
        Self::IorEasy,
        Self::IorHard,
        Self::OutOfOrder,
        Self::TipOver,
        Self::Untar,
        Self::Ceiling,
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SeqRead => "seq-read",
            Self::SeqWrite => "seq-write",
            Self::Random4k => "random-4k",
            Self::Metadata => "metadata",
            Self::Mixed => "mixed",
            Self::SmallCalls => "small-calls",
            Self::Connections => "connections",
            Self::Iozone => "iozone",
            Self::MkfileDd => "mkfile-dd",
            Self::IorEasy => "ior-easy",
            Self::IorHard => "ior-hard",
            Self::OutOfOrder => "out-of-order",
            Self::TipOver => "tip-over",
            Self::Untar => "untar",
            Self::Ceiling => "ceiling",
            Self::Replay => "replay",
        }
    }

    /// What its report answers.
    #[must_use]
    pub const fn question(self) -> &'static str {
        match self {
            Self::SeqRead => "How fast is a file read from one end to the other?",
            Self::SeqWrite => {
                "How fast is a new file written from one end to the other, COMMIT included?"
            }
            Self::Random4k => "How fast are 4 KiB at random places of a file read and written?",
            Self::Metadata => {
                "How fast are names made, looked at, listed, renamed and removed in one directory?"
            }
            Self::Mixed => "How long do small calls take beside somebody who floods the server?",
            Self::SmallCalls => "How many calls that move no data are answered in a second?",
            Self::Connections => "What do more connections cost, busy and idle ones?",
            Self::Iozone => "How long does a call take, by the length of the record?",
            Self::MkfileDd => "How many calls in flight fill the pipe?",
            Self::IorEasy => "How fast do clients write and read, each a file of its own?",
            Self::IorHard => {
                "How fast do clients write and read one file together, with records of 47008 bytes?"
            }
            Self::OutOfOrder => "What does it cost when WRITEs come out of order?",
            Self::TipOver => "What happens when the data outgrows the server's memory?",
            Self::Untar => "How fast is a source tree unpacked?",
            Self::Ceiling => "What can the load generator itself do on this machine?",
            Self::Replay => "What would this have done for the load that was recorded?",
        }
    }

    /// The numbers that a run has unless it is told others.
    #[must_use]
    pub fn defaults(self) -> Settings {
        let (size_mib, record_bytes, depth, connections) = match self {
            Self::SeqRead | Self::SeqWrite => (256, 1 << 20, 16, 1),
            Self::Random4k => (256, RANDOM_BYTES, 32, 1),
            Self::Metadata => (0, RANDOM_BYTES, 8, 1),
            Self::Mixed => (128, RANDOM_BYTES, 16, 1),
            Self::SmallCalls => (64, RANDOM_BYTES, 32, 1),
            Self::Connections => (64, RANDOM_BYTES, 256, 1),
            Self::Iozone => (16, RANDOM_BYTES, 1, 1),
            Self::MkfileDd => (64, 64 << 10, 1, 1),
            Self::IorEasy => (64, 1 << 20, 8, 4),
            Self::IorHard => (128, HARD_BYTES, 8, 4),
            Self::OutOfOrder => (128, 64 << 10, 64, 1),
            Self::TipOver => (2048, 1 << 20, 16, 1),
            Self::Untar => (0, RANDOM_BYTES, 1, 1),
            Self::Ceiling => (64, LARGEST_BYTES, 1, 1),
            Self::Replay => (0, 1, 1, 1),
        };
        Settings {
            size_bytes: size_mib << 20,
            record_bytes,
            depth,
            connections,
            seconds: match self {
                Self::Ceiling => 0.5,
                Self::SmallCalls | Self::Connections => 1.0,
                _ => 2.0,
            },
            rate: match self {
                Self::Mixed => Some(500.0),
                _ => None,
            },
            names: match self {
                Self::Metadata | Self::Untar => 1000,
                _ => 0,
            },
            cached: false,
            idle: match self {
                Self::Connections => 1000,
                _ => 0,
            },
            busy_poll_us: 0,
        }
    }

    /// The size that files have unless another one is given, for servers of so much memory.
    #[must_use]
    pub fn default_size_bytes(self, memory_bytes: Option<u64>) -> u64 {
        match (self, memory_bytes) {
            // Most of what is read has to be outside of memory in the end.
            (Self::TipOver, Some(bytes)) => bytes.saturating_mul(4),
            _ => self.defaults().size_bytes,
        }
    }

    /// Whether the workload is changed by this number.
    #[must_use]
    pub const fn uses(self, number: Number) -> bool {
        match number {
            Number::Size => !matches!(
                self,
                Self::Metadata | Self::Untar | Self::Ceiling | Self::Replay
            ),
            Number::Cached => !matches!(
                self,
                Self::Metadata
                    | Self::SmallCalls
                    | Self::Connections
                    | Self::TipOver
                    | Self::Untar
                    | Self::Ceiling
            ),
            Number::Record => !matches!(
                self,
                Self::Metadata | Self::Iozone | Self::Untar | Self::Ceiling
            ),
            Number::Depth => !matches!(self, Self::MkfileDd | Self::Ceiling),
            Number::Connections => !matches!(self, Self::Connections),
            Number::Idle => matches!(self, Self::Connections),
            Number::Seconds => matches!(
                self,
                Self::Random4k | Self::Mixed | Self::SmallCalls | Self::Connections | Self::Ceiling
            ),
            Number::Rate => matches!(
                self,
                Self::SeqRead | Self::SeqWrite | Self::Random4k | Self::Metadata | Self::Mixed
            ),
            Number::Names => matches!(self, Self::Metadata | Self::Untar),
        }
    }

    /// The files that are made before anything is measured.
    #[must_use]
    pub fn files(self, settings: &Settings) -> Option<(Name, Records)> {
        // Whatever the length of a record, the last one is whole.
        let whole = settings.size_bytes.next_multiple_of(1 << 20);
        let all = || Records::new(1 << 20, whole, Order::Forward);
        match self {
            Self::SeqRead | Self::Random4k | Self::Mixed | Self::SmallCalls | Self::Connections => {
                Some((shared(DATA), all()))
            }
            _ => None,
        }
    }

    /// Bytes that the files of so many targets have at most, at the same time.
    #[must_use]
    pub fn bytes_needed(self, settings: &Settings, targets: u64) -> u64 {
        let files = match self {
            // Each target's file is gone before the next one's turn.
            Self::SeqWrite | Self::OutOfOrder | Self::TipOver => targets.min(1),
            Self::Mixed => targets.saturating_mul(2),
            Self::IorEasy => targets.saturating_mul(settings.connections as u64),
            _ => targets,
        };
        settings.size_bytes.saturating_mul(files)
    }

    /// What is measured, in this order.
    ///
    /// # Errors
    /// A number is out of its range.
    pub fn steps(self, settings: &Settings) -> Result<Vec<Step>, LoadError> {
        settings.check(self)?;
        Ok(match self {
            Self::SeqRead => vec![settings.sequential("read", false)],
            Self::SeqWrite => vec![settings.sequential("write", true)],
            Self::Random4k => settings.random(),
            Self::Metadata => settings.metadata(),
            Self::Mixed => settings.mixed(),
            Self::SmallCalls => settings.small_calls(),
            Self::Connections => settings.connecting(),
            Self::Iozone => settings.iozone(),
            Self::MkfileDd => settings.in_flight(),
            Self::IorEasy => settings.ior(&Name::Own(NEW.to_owned())),
            Self::IorHard => settings.ior(&shared(NEW)),
            Self::OutOfOrder => settings.out_of_order(),
            Self::TipOver => vec![settings.growing()],
            Self::Untar => vec![settings.unpacking()],
            Self::Ceiling => settings.ceiling(),
            // Its calls come out of a recording.
            Self::Replay => Vec::new(),
        })
    }
}

impl Settings {
    fn check(&self, workload: Workload) -> Result<(), LoadError> {
        let refused = |text: String| Err(LoadError::Setting(text));
        let record = self.record_bytes;
        if record == 0 || record > limits::RECORD_BYTES_MAX {
            let most = limits::RECORD_BYTES_MAX >> 20;
            return refused(format!("--record: give 1 byte to {most} MiB"));
        }
        if workload.uses(Number::Size)
            && !(u64::from(record)..=limits::FILE_BYTES_MAX).contains(&self.size_bytes)
        {
            return refused("--size: give at least one record, and at most 16 TiB".to_owned());
        }
        let counts = [
            ("--depth", self.depth, limits::DEPTH_MAX),
            ("--connections", self.connections, limits::CONNECTIONS_MAX),
        ];
        let wrong = counts
            .iter()
            .find(|(_, value, most)| !(1..=*most).contains(value));
        if let Some((option, _, most)) = wrong {
            return refused(format!("{option}: give 1 to {most}"));
        }
        if self.idle > limits::IDLE_CONNECTIONS_MAX {
            let most = limits::IDLE_CONNECTIONS_MAX;
            return refused(format!("--idle: give 0 to {most}"));
        }
        if !(0.01..=limits::SECONDS_MAX).contains(&self.seconds) {
            return refused("--seconds: give 0.01 to 86400".to_owned());
        }
        let within = |rate: f64| (0.001..=limits::RATE_MAX).contains(&rate);
        if !self.rate.is_none_or(within) {
            return refused("--rate: give 0.001 to 10000000 calls a second".to_owned());
        }
        if workload.uses(Number::Names) && !(1..=limits::NAMES_MAX).contains(&self.names) {
            return refused(format!("--names: give 1 to {}", limits::NAMES_MAX));
        }
        Ok(())
    }

    fn records(&self, bytes: u32, order: Order) -> Records {
        Records::new(bytes, self.size_bytes, order)
    }

    fn load(&self, work: Work, amount: Amount) -> Load {
        Load {
            work,
            connections: self.connections,
            depth: self.depth,
            rate: self.rate,
            amount,
        }
    }

    fn for_seconds(&self) -> Amount {
        Amount::For(Duration::from_secs_f64(self.seconds))
    }

    fn cold(&self, file: Name) -> Option<Before> {
        (!self.cached).then_some(Before::Cold(file))
    }

    fn sequential(&self, name: &str, is_write: bool) -> Step {
        let records = self.records(self.record_bytes, Order::Forward);
        let mut step = match is_write {
            true => Step {
                after: Some(After::File(shared(NEW))),
                ..step(name, Unit::Mib, self.load(new(NEW, records), Amount::Once))
            },
            false => Step {
                before: self.cold(shared(DATA)),
                ..step(
                    name,
                    Unit::Mib,
                    self.load(read(DATA, records), Amount::Once),
                )
            },
        };
        if self.rate.is_some() {
            // The throughput is given then, and what matters is how long a call takes.
            step.unit = Unit::Calls;
        }
        step
    }

    fn random(&self) -> Vec<Step> {
        let records = |seed| self.records(self.record_bytes, Order::Random(seed));
        let written = |stable, seed| Work::Write {
            file: shared(DATA),
            records: records(seed),
            stable,
            is_new: false,
        };
        let load = |work| self.load(work, self.for_seconds());
        vec![
            Step {
                before: self.cold(shared(DATA)),
                ..step("read", Unit::Calls, load(read(DATA, records(SEED))))
            },
            step(
                "write and COMMIT",
                Unit::Calls,
                load(written(Stable::AtTheEnd, SEED + 1)),
            ),
            step(
                "write FILE_SYNC",
                Unit::Calls,
                load(written(Stable::AtOnce, SEED + 2)),
            ),
        ]
    }

    fn growing(&self) -> Step {
        let work = Work::Grow {
            file: shared(NEW),
            records: self.records(self.record_bytes, Order::Forward),
        };
        Step {
            after: Some(After::File(shared(NEW))),
            is_watched: true,
            ..step("write and read", Unit::Mib, self.load(work, Amount::Once))
        }
    }

    fn unpacking(&self) -> Step {
        let names = Names {
            directory: NAMES.to_owned(),
            count: self.names,
        };
        Step {
            before: Some(Before::Directory(NAMES.to_owned())),
            after: Some(After::Directory(NAMES.to_owned())),
            ..step(
                "unpack",
                Unit::Files,
                self.load(Work::Unpack(names), Amount::Once),
            )
        }
    }

    fn metadata(&self) -> Vec<Step> {
        let names = || Names {
            directory: NAMES.to_owned(),
            count: self.names,
        };
        let load = |work| self.load(work, Amount::Once);
        let mut listing = self.load(Work::List(names()), Amount::Once);
        // One listing is one call after another.
        (listing.connections, listing.depth, listing.rate) = (1, 1, None);
        vec![
            Step {
                before: Some(Before::Directory(NAMES.to_owned())),
                ..step("create", Unit::Calls, load(Work::Create(names())))
            },
            step("stat", Unit::Calls, load(Work::Stat(names()))),
            step("readdir", Unit::Calls, listing),
            step("rename", Unit::Calls, load(Work::Rename(names()))),
            Step {
                after: Some(After::Directory(NAMES.to_owned())),
                ..step("remove", Unit::Calls, load(Work::Remove(names())))
            },
        ]
    }

    fn mixed(&self) -> Vec<Step> {
        let small = || Work::Small {
            file: shared(DATA),
            records: self.records(self.record_bytes, Order::Random(SEED)),
        };
        let load = || self.load(small(), self.for_seconds());
        let flood = |work| Load {
            work,
            connections: 1,
            depth: FLOOD_DEPTH,
            rate: None,
            amount: Amount::Beside,
        };
        let all = self.records(FLOOD_BYTES, Order::Forward);
        vec![
            step("small calls alone", Unit::Calls, load()),
            Step {
                beside: Some(("the writer".to_owned(), flood(new(NEW, all)))),
                after: Some(After::File(shared(NEW))),
                ..step("small calls beside a writer", Unit::Calls, load())
            },
            Step {
                beside: Some(("the reader".to_owned(), flood(read(DATA, all)))),
                ..step("small calls beside a reader", Unit::Calls, load())
            },
            Step {
                beside: Some(("the stable writer".to_owned(), self.stable_flood())),
                ..step("small calls beside a stable writer", Unit::Calls, load())
            },
        ]
    }

    fn iozone(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for kib in IOZONE_KIB {
            let bytes = kib << 10;
            if u64::from(bytes) > self.size_bytes {
                break;
            }
            let records = self.records(bytes, Order::Forward);
            let rewrite = Work::Write {
                file: shared(NEW),
                records,
                stable: Stable::AtTheEnd,
                is_new: false,
            };
            let all = [
                ("write", new(NEW, records)),
                ("rewrite", rewrite),
                ("read", read(NEW, records)),
                ("reread", read(NEW, records)),
            ];
            let size = human_kib(kib);
            steps.extend(all.into_iter().map(|(name, work)| {
                let load = self.load(work, Amount::Once);
                step(&format!("{name} {size}"), Unit::Mib, load)
            }));
            if let Some(last) = steps.last_mut() {
                last.after = Some(After::File(shared(NEW)));
            }
        }
        steps
    }

    fn in_flight(&self) -> Vec<Step> {
        let records = self.records(self.record_bytes, Order::Forward);
        let step = |name: &str, depth: usize, work| {
            let mut load = self.load(work, Amount::Once);
            load.depth = depth;
            step(&format!("{name}, {depth} in flight"), Unit::Mib, load)
        };
        let both = |depth| {
            [
                step("mkfile", depth, new(NEW, records)),
                Step {
                    before: self.cold(shared(NEW)),
                    after: Some(After::File(shared(NEW))),
                    ..step("dd", depth, read(NEW, records))
                },
            ]
        };
        IN_FLIGHT.into_iter().flat_map(both).collect()
    }

    fn ior(&self, file: &Name) -> Vec<Step> {
        let records = self.records(self.record_bytes, Order::Forward);
        let written = Work::Write {
            file: file.clone(),
            records,
            stable: Stable::AtTheEnd,
            is_new: true,
        };
        let reading = Work::Read {
            file: file.clone(),
            records,
            is_checked: true,
        };
        vec![
            step("write", Unit::Mib, self.load(written, Amount::Once)),
            Step {
                before: self.cold(file.clone()),
                after: Some(After::File(file.clone())),
                ..step("read", Unit::Mib, self.load(reading, Amount::Once))
            },
        ]
    }

    fn out_of_order(&self) -> Vec<Step> {
        let each = |within| {
            let records = self.records(self.record_bytes, Order::Shuffled(within));
            let name = match within {
                1 => "write in order".to_owned(),
                _ => format!("write shuffled within {within}"),
            };
            Step {
                after: Some(After::File(shared(NEW))),
                ..step(&name, Unit::Mib, self.load(new(NEW, records), Amount::Once))
            }
        };
        WITHIN.into_iter().map(each).collect()
    }
}

fn step(name: &str, unit: Unit, load: Load) -> Step {
    Step {
        name: name.to_owned(),
        unit,
        load,
        beside: None,
        before: None,
        after: None,
        is_watched: false,
        idle: 0,
    }
}

fn shared(name: &str) -> Name {
    Name::Shared(name.to_owned())
}

fn read(name: &str, records: Records) -> Work {
    Work::Read {
        file: shared(name),
        records,
        is_checked: true,
    }
}

fn new(name: &str, records: Records) -> Work {
    Work::Write {
        file: shared(name),
        records,
        stable: Stable::AtTheEnd,
        is_new: true,
    }
}

fn human_kib(kib: u32) -> String {
    match kib {
        1024.. => format!("{} MiB", kib >> 10),
        _ => format!("{kib} KiB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_has_steps_of_different_names() {
        for workload in Workload::ALL {
            let steps = workload.steps(&workload.defaults()).unwrap();
            assert!(!steps.is_empty(), "{}", workload.name());
            let mut names: Vec<_> = steps.iter().map(|step| &step.name).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), steps.len(), "{}", workload.name());
        }
    }

    #[test]
    fn what_a_step_makes_is_removed_by_it_or_a_later_one() {
        for workload in Workload::ALL {
            let mut there = Vec::new();
            for step in workload.steps(&workload.defaults()).unwrap() {
                for load in std::iter::once(&step.load).chain(step.beside.as_ref().map(|b| &b.1)) {
                    if let Work::Write {
                        file, is_new: true, ..
                    }
                    | Work::Grow { file, .. } = &load.work
                    {
                        assert!(!there.contains(file), "{}", step.name);
                        there.push(file.clone());
                    }
                }
                if let Some(After::File(file)) = &step.after {
                    there.retain(|one| one != file);
                }
            }
            assert_eq!(there, [], "{}", workload.name());
        }
    }

    #[test]
    fn names_are_those_of_the_json() {
        for workload in Workload::ALL {
            let json = serde_json::to_string(&workload).unwrap();
            assert_eq!(json, format!("\"{}\"", workload.name()));
        }
    }

    #[test]
    fn what_is_removed_with_each_step_needs_room_once() {
        for workload in Workload::ALL {
            let settings = workload.defaults();
            let steps = workload.steps(&settings).unwrap();
            let is_gone = |step: &Step| matches!(&step.after, Some(After::File(_)));
            let is_once = workload.files(&settings).is_none() && steps.iter().all(is_gone);
            let [one, four] = [1, 4].map(|targets| workload.bytes_needed(&settings, targets));
            assert_eq!(
                four,
                one * if is_once { 1 } else { 4 },
                "{}",
                workload.name()
            );
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let refused = |workload: Workload, change: fn(&mut Settings)| {
            let mut settings = workload.defaults();
            change(&mut settings);
            assert!(workload.steps(&settings).is_err(), "{}", workload.name());
        };
        refused(Workload::SeqRead, |settings| settings.record_bytes = 0);
        refused(Workload::SeqRead, |settings| settings.size_bytes = 1);
        refused(Workload::SeqRead, |settings| settings.depth = 0);
        refused(Workload::IorEasy, |settings| settings.connections = 99_999);
        refused(Workload::Random4k, |settings| settings.seconds = f64::NAN);
        refused(Workload::Mixed, |settings| settings.rate = Some(0.0));
        refused(Workload::Metadata, |settings| settings.names = 0);
        refused(Workload::Connections, |settings| settings.idle = 99_999);
    }
}
