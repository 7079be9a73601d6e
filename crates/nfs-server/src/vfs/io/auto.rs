//! Modes that are chosen from what is seen of a file: where its history is kept, and what it is told.
//!
//! The choice itself is pure ([`nfs_io::auto`]). Here a call is put into its words, and what it says is taken, traced
//! and counted. A history lives with the object in the file cache and is made by the first call that is judged.
//! What it has to know of the machine is asked for once a second, by a thread that serves no calls
//! ([`Surroundings::look`]), and read from atomics.

use std::os::fd::AsFd as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::time::Instant;

use nfs_io::auto::{Around, Call, Direction, History};
use nfs_io::fs;
use nfs_io::memory::MemoryWatch;
use parking_lot::Mutex;

use super::decide::{IoCall, IoFacts};
use crate::exports::policy::{Choice, Io, Stability};
use crate::limits;
use crate::operate::metrics::{Builder, MEMORY_LIMIT, MEMORY_USED, PRESSURE};
use crate::vfs::{Object, Target, Vfs};

/// What one file's calls were like; empty until a call of it is judged.
#[derive(Default)]
pub(crate) struct FileAuto(OnceLock<Box<Mutex<History>>>);

impl FileAuto {
    fn history(&self) -> &Mutex<History> {
        self.0.get_or_init(Box::default)
    }

    /// What is known so far.
    pub(crate) fn known(&self) -> History {
        self.0
            .get()
            .map_or_else(History::default, |history| *history.lock())
    }
}

/// The machine around, as it was found last.
pub(crate) struct Surroundings {
    watch: MemoryWatch,
    /// The moment from which the times of calls are counted.
    began: Instant,
    memory_bytes: AtomicU64,
    pressure: AtomicU16,
    pressed: AtomicBool,
    flooded: AtomicBool,
    streamed_bytes: AtomicU64,
    /// Bytes that streams moved since the last look.
    streamed_since: AtomicU64,
}

impl Surroundings {
    /// Finds out for the first time. Reads some files of the kernel's.
    pub(crate) fn new(watch: MemoryWatch) -> Self {
        let unknown = Around::default();
        let surroundings = Self {
            watch,
            began: Instant::now(),
            memory_bytes: AtomicU64::new(unknown.memory_bytes),
            pressure: AtomicU16::new(unknown.pressure),
            pressed: AtomicBool::new(unknown.pressed),
            flooded: AtomicBool::new(unknown.flooded),
            streamed_bytes: AtomicU64::new(unknown.streamed_bytes),
            streamed_since: AtomicU64::new(0),
        };
        surroundings.look();
        surroundings
    }

    /// Adds how much memory there is, and how long tasks waited. Reads some files of the kernel's.
    pub(crate) fn measure(&self, into: &mut Builder) {
        if let Some(bytes) = self.watch.limit_bytes() {
            into.number(&MEMORY_LIMIT, &[], bytes);
        }
        if let Some(bytes) = self.watch.used_bytes() {
            into.number(&MEMORY_USED, &[], bytes);
        }
        for pressure in self.watch.pressures() {
            let resource = pressure.resource.word();
            let kinds = [("some", pressure.some), ("full", pressure.full)];
            for (kind, waited) in kinds {
                if let Some(waited) = waited {
                    into.number(&PRESSURE, &[resource, kind], waited.as_secs_f64());
                }
            }
        }
    }

    /// Finds out anew; to be called once a second. Reads some files of the kernel's.
    pub(crate) fn look(&self) {
        let found = self.watch.figures();
        let streamed = self.streamed_since.swap(0, Ordering::Relaxed);
        let now = self
            .now()
            .after_a_second(found.page_cache_bytes_max, found.pressure, streamed);
        // One after the other: a call between them is judged by some of the old, which was true a moment ago.
        self.memory_bytes.store(now.memory_bytes, Ordering::Relaxed);
        self.pressure.store(now.pressure, Ordering::Relaxed);
        self.pressed.store(now.pressed, Ordering::Relaxed);
        self.flooded.store(now.flooded, Ordering::Relaxed);
        self.streamed_bytes
            .store(now.streamed_bytes, Ordering::Relaxed);
    }

    /// The time, in nanoseconds since the start.
    fn nanos(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// What was found last.
    pub(crate) fn now(&self) -> Around {
        Around {
            memory_bytes: self.memory_bytes.load(Ordering::Relaxed),
            pressure: self.pressure.load(Ordering::Relaxed),
            pressed: self.pressed.load(Ordering::Relaxed),
            flooded: self.flooded.load(Ordering::Relaxed),
            streamed_bytes: self.streamed_bytes.load(Ordering::Relaxed),
        }
    }
}

/// A call in the words of the choice.
pub(crate) fn call_of(choice: &Choice, call: &IoCall, facts: &IoFacts<'_>) -> Call {
    let bytes = call.bytes as u64;
    let stable = choice.stable.raise(call.stable) != Stability::Unstable;
    let block = facts.alignment.of_writes();
    let known = facts.alignment.memory != 0 && facts.alignment.offset != 0;
    let whole = |at: u64| block != 0 && at.is_multiple_of(block);
    let staged = choice.staging
        && !stable
        && block == limits::STAGED_BLOCK_BYTES as u64
        && bytes >= 2 * block;
    let (direction, aligned, end) = match call.io {
        Io::Read => (Direction::Read, true, 0),
        Io::Write => (
            Direction::Write,
            staged || whole(call.offset) && whole(bytes),
            call.offset.saturating_add(bytes),
        ),
    };
    Call {
        direction,
        offset: call.offset,
        bytes,
        file_bytes: facts.size.max(end),
        aligned,
        stable: call.io == Io::Write && stable,
        hint: choice.hint,
        takes_direct: known && facts.refused.direct.is_none(),
        takes_dontcache: facts.refused.dontcache.is_none(),
    }
}

/// The direction in which an operation moves bytes.
pub(crate) const fn direction_of(io: Io) -> Direction {
    match io {
        Io::Read => Direction::Read,
        Io::Write => Direction::Write,
    }
}

impl Vfs {
    /// What is chosen for a call from what was seen of its file, where its policy wants that: told, counted and, if
    /// the policy takes it, put into `choice`.
    pub(super) fn judge(
        &self,
        target: &Target,
        choice: &mut Choice,
        call: &IoCall,
        facts: &IoFacts<'_>,
    ) {
        if !choice.is_judged() {
            return;
        }
        let judged = call_of(choice, call, facts);
        let around = self.surroundings.now();
        let history = target.object.io.auto.history();
        let verdict = {
            let mut history = history.lock();
            let verdict = history.judge(&judged, &around);
            if verdict.sample {
                history.sampled_at(judged.direction, self.surroundings.nanos());
            }
            verdict
        };
        if verdict.streamed_bytes > 0 {
            let streamed = &self.surroundings.streamed_since;
            streamed.fetch_add(verdict.streamed_bytes.into(), Ordering::Relaxed);
        }
        let taken = choice.takes_verdict();
        if taken {
            choice.mode = verdict.mode;
        }
        target.tree.io.judged(call.io, &verdict, taken);
        if let Some(switch) = verdict.switch {
            let range = (call.offset, judged.bytes);
            self.trace
                .mode_changed(call.io, target.about(), range, &switch, taken);
        }
        if let Some(at) = verdict.look_at
            && target.object.mount.local
        {
            look_into_cache(&target.object, call.io, at, judged.bytes);
        }
    }

    /// The mode of READs of `bytes` that come now, as far as that is known.
    pub(in crate::vfs) fn mode_of_reads(&self, target: &Target, bytes: u64) -> nfs_io::Mode {
        let choice = target.choose(Io::Read, bytes);
        let seen = target.object.io.auto.known().mode(Direction::Read);
        match seen {
            Some(mode) if choice.takes_verdict() => mode,
            Some(_) | None => choice.mode,
        }
    }
}

/// Tells the history how much of a range is in the page cache: a system call, which waits for nothing.
fn look_into_cache(object: &Object, io: Io, at: u64, bytes: u64) {
    let fd = object.read_fd_if_open();
    let Some(fd) = fd.or_else(|| object.direct_fd_if_open(io)) else {
        return;
    };
    // Before Linux 6.5, and on some file systems, the kernel does not say.
    if let Ok(found) = fs::cachestat(fd.as_fd(), at, bytes.max(1)) {
        let page = rustix::param::page_size() as u64;
        let pages = bytes.div_ceil(page).max(1);
        let mut history = object.io.auto.history().lock();
        history.found_cached(direction_of(io), found.cached, pages);
    }
}
