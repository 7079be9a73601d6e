//! What reads and writes of each kind do on a file of our own: tried, not believed.
//!
//! A system call that succeeds says little: tmpfs takes `O_DIRECT` and moves bytes through the
//! page cache, which is where its files are; btrfs makes a buffered write of a direct one where
//! data has checksums, and drops the pages before it returns. So every trial starts with none of
//! the file in the page cache (where that is possible), looks what is there afterwards and, for
//! writes, from another thread all the while, and compares the bytes.

use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};
use rustix::io::{ReadWriteFlags, preadv2, pwritev2, retry_on_intr};
use rustix::time::{ClockId, clock_gettime};

use super::residency::Meter;
use crate::fs::{self, OFlags, Stat};
use crate::limits::WATCHED_TRIES_MAX;
use crate::{Errno, Result};

/// What became of one kind of I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Done, and nothing of it went through, or stayed in, the page cache.
    Uncached,
    /// Done through the page cache: pages were filled or dirtied, and had left when the call
    /// returned (or, for a write that drops behind, when it was on the disk), but for a few that
    /// the kernel was holding for itself at that moment and so left where they were.
    PassedThrough,
    /// Done through the page cache, and this many pages of it, most of them, stay there.
    Cached {
        /// Pages in the page cache afterwards.
        pages: u64,
    },
    /// Done; whether the page cache was used cannot be told here.
    NotMeasured,
    /// The kernel or the file system refused it.
    Refused(Errno),
    /// Fewer bytes were moved than asked for, inside of the file.
    Short,
    /// The bytes read back are not those that were written.
    WrongBytes,
}

impl Outcome {
    /// Whether the bytes were moved rightly, in whatever way.
    #[must_use]
    pub fn works(self) -> bool {
        match self {
            Self::Uncached | Self::PassedThrough | Self::Cached { .. } | Self::NotMeasured => true,
            Self::Refused(_) | Self::Short | Self::WrongBytes => false,
        }
    }
}

/// One kind of direct I/O, in each placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DirectTrials {
    /// Offset, length and memory are multiples of 4096 or of what statx asks for.
    pub aligned: Outcome,
    /// The smallest that statx allows: one unit, in memory aligned no better than it asks for.
    /// `None` where statx names no alignment.
    pub smallest: Option<Outcome>,
    /// The I/O begins at an offset that is no multiple of anything.
    pub odd_offset: Outcome,
    /// The I/O has a length that is no multiple of anything.
    pub odd_length: Outcome,
    /// The memory of the I/O is at an odd address.
    pub odd_memory: Outcome,
}

/// The outcomes of everything that was tried on one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Trials {
    /// How cached pages were counted; `None` where nothing can count them here.
    pub meter: Option<Meter>,
    /// Memory alignment that statx names for direct I/O, in bytes; 0 where it names none.
    pub memory_align: u32,
    /// Offset and length alignment of direct I/O, in bytes; 0 where statx names none.
    pub offset_align: u32,
    /// Offset and length alignment of direct reads where it differs, in bytes; else 0.
    pub read_offset_align: u32,
    /// The file system's block: what statx calls the preferred I/O size, in bytes.
    pub block_bytes: u32,
    /// Opening the file again with `O_DIRECT`.
    pub open_direct: std::result::Result<(), Errno>,
    /// Direct reads; `None` where the file could not be opened with `O_DIRECT`.
    pub direct_read: Option<DirectTrials>,
    /// Direct writes; `None` where the file could not be opened with `O_DIRECT`.
    pub direct_write: Option<DirectTrials>,
    /// A read with `RWF_DONTCACHE` (Linux 6.14).
    pub dontcache_read: Outcome,
    /// A write with `RWF_DONTCACHE` that makes the file longer.
    pub dontcache_append: Outcome,
    /// A write with `RWF_DONTCACHE` over bytes that are there already.
    pub dontcache_overwrite: Outcome,
    /// A write with `RWF_DSYNC`: on stable storage when it is done.
    pub write_dsync: Outcome,
    /// A write with `RWF_SYNC`: on stable storage with all attributes when it is done.
    pub write_sync: Outcome,
    /// A read of cached bytes with `RWF_NOWAIT`.
    pub read_nowait: Outcome,
}

/// Fills `file`, which is empty and nobody else's, and tries everything on it. It grows to
/// [`FILE_BYTES`].
///
/// # Errors
/// What filling, flushing or looking reports: `ENOSPC` and `EDQUOT` on a full disk, `EIO` on a
/// broken one. What a trial itself reports is an [`Outcome`].
pub(super) fn run(file: BorrowedFd<'_>) -> Result<Trials> {
    let content = Content::new();
    write_all(file, content.of(0..FILE_BYTES, 0))?;
    let stat = fs::statx(file)?;
    let mut bench = Bench {
        file,
        meter: Meter::choose(file, FILE_BYTES),
        memory: Memory::new(),
        content,
        generation: 0,
        pages_stay: false,
    };
    // Readahead would fill pages that no trial asked for.
    retry_on_intr(|| fadvise(file, 0, None, Advice::Random))?;
    let direct = fs::reopen(file, OFlags::RDWR | OFlags::DIRECT);
    let (direct_read, direct_write) = match &direct {
        Ok(direct) => (
            Some(bench.direct_reads(direct, &stat)?),
            Some(bench.direct_writes(direct, &stat)?),
        ),
        Err(_) => (None, None),
    };
    let dontcache_read = bench.read(file, PLAIN, DONTCACHE)?;
    let dontcache_overwrite = bench.dropping_write(PLAIN)?;
    let write_dsync = bench.write(file, PLAIN, ReadWriteFlags::DSYNC)?;
    let write_sync = bench.write(file, PLAIN, ReadWriteFlags::SYNC)?;
    let read_nowait = bench.nowait_read()?;
    // Last: it makes the file empty before it makes it longer.
    let dontcache_append = bench.dropping_append()?;
    Ok(Trials {
        meter: bench.meter,
        memory_align: stat.dio_mem_align,
        offset_align: stat.dio_offset_align,
        read_offset_align: stat.dio_read_offset_align,
        block_bytes: stat.blksize,
        open_direct: direct.map(drop),
        direct_read,
        direct_write,
        dontcache_read,
        dontcache_append,
        dontcache_overwrite,
        write_dsync,
        write_sync,
        read_nowait,
    })
}

/// Bytes of the file. Long enough that what passes through the page cache is there for a while.
pub const FILE_BYTES: usize = 4 << 20;

const DONTCACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(libc::RWF_DONTCACHE as u32);
const NONE: ReadWriteFlags = ReadWriteFlags::empty();

/// The unit of the trials that are to be aligned: no device asks for more.
const UNIT: usize = 4096;

/// How long the pages of a write may take to leave the page cache once it is on the disk.
const DROP_PATIENCE: Duration = Duration::from_millis(200);
/// Pause between two looks at whether the pages of a write have left the page cache.
const DROP_PAUSE: Duration = Duration::from_millis(2);

/// How often a write that left no page behind is watched well before it counts as one past the
/// page cache: pages that pass through are there for a part of it only.
const WATCHED_WELL_TRIES: u32 = 3;
/// How long pages may take to leave the page cache when they are told to. The kernel holds a page
/// for a moment longer than its writeback takes, and on a busy machine moments are long.
const EVICT_PATIENCE: Duration = Duration::from_secs(1);

/// Where an I/O of a trial is in the file, and how far behind a multiple of [`UNIT`] its memory
/// starts.
#[derive(Clone, Copy)]
struct Place {
    offset: usize,
    len: usize,
    behind: usize,
}

impl Place {
    fn range(self) -> Range<usize> {
        self.offset..self.offset + self.len
    }

    /// The whole pages around it: offset and length.
    fn pages(self) -> (u64, usize) {
        let page = rustix::param::page_size();
        let start = self.offset / page * page;
        let len = (self.offset + self.len).next_multiple_of(page) - start;
        (start as u64, len)
    }
}

/// All but the first and last units, so that every neighbour of it exists.
const PLAIN: Place = Place {
    offset: UNIT,
    len: FILE_BYTES - 2 * UNIT,
    behind: 0,
};

/// The file under trial and the memory that is read into and written from.
struct Bench<'a> {
    file: BorrowedFd<'a>,
    meter: Option<Meter>,
    memory: Memory,
    content: Content,
    /// Which content the file has: grows with every write, so that old bytes are told from new.
    generation: usize,
    /// Pages do not leave the page cache when they are told to.
    pages_stay: bool,
}

impl Bench<'_> {
    fn direct_reads(&mut self, direct: &OwnedFd, stat: &Stat) -> Result<DirectTrials> {
        let unit = match stat.dio_read_offset_align {
            0 => stat.dio_offset_align,
            align => align,
        };
        let mut each = |place| self.read(direct.as_fd(), place, NONE);
        direct_trials(unit, stat.dio_mem_align, &mut each)
    }

    fn direct_writes(&mut self, direct: &OwnedFd, stat: &Stat) -> Result<DirectTrials> {
        let mut each = |place| self.write(direct.as_fd(), place, NONE);
        direct_trials(stat.dio_offset_align, stat.dio_mem_align, &mut each)
    }

    fn read(&mut self, fd: BorrowedFd<'_>, at: Place, flags: ReadWriteFlags) -> Result<Outcome> {
        let before = self.evict()?;
        self.read_now(fd, at, flags, before)
    }

    fn nowait_read(&mut self) -> Result<Outcome> {
        // Into the page cache first: what is not there cannot be read without waiting.
        let Outcome::Refused(errno) = self.read(self.file, PLAIN, NONE)? else {
            return self.read_now(self.file, PLAIN, ReadWriteFlags::NOWAIT, Some(0));
        };
        Err(errno)
    }

    /// `before` is the number of pages in the page cache.
    fn read_now(
        &mut self,
        fd: BorrowedFd<'_>,
        at: Place,
        flags: ReadWriteFlags,
        before: Option<u64>,
    ) -> Result<Outcome> {
        let offset = at.offset as u64;
        let expected = self.content.of(at.range(), self.generation);
        let into = self.memory.slice_mut(at.behind, at.len);
        // What the read leaves alone is not right by chance.
        into.copy_from_slice(self.content.of(at.range(), self.generation + 1));
        let done = retry_on_intr(|| preadv2(fd, &mut [IoSliceMut::new(into)], offset, flags));
        match done {
            Err(errno) => return Ok(Outcome::Refused(errno)),
            Ok(bytes) if bytes < at.len => return Ok(Outcome::Short),
            Ok(_) => {}
        }
        if *into != *expected {
            return Ok(Outcome::WrongBytes);
        }
        let after = self.cached(at)?;
        Ok(told(at, before, Some(0), after))
    }

    /// Writes, more than once where that tells more: pages that pass through the page cache are
    /// there for a moment only.
    fn write(&mut self, fd: BorrowedFd<'_>, at: Place, flags: ReadWriteFlags) -> Result<Outcome> {
        let mut outcome = Outcome::NotMeasured;
        let mut watched_well = 0;
        for _ in 0..WATCHED_TRIES_MAX {
            let before = self.evict()?;
            let (failed, seen) = self.watched(at, |bench| bench.write_now(fd, at, flags));
            if let Some(failed) = failed? {
                return Ok(failed);
            }
            let after = self.cached(at)?;
            if !self.reads_back(at)? {
                return Ok(Outcome::WrongBytes);
            }
            outcome = told(at, before, seen.map(|seen| seen.pages_max), after);
            watched_well += u32::from(seen.is_some_and(Seen::is_well));
            if outcome != Outcome::Uncached || watched_well == WATCHED_WELL_TRIES {
                break;
            }
        }
        Ok(outcome)
    }

    /// Runs `work` and counts, from another thread and all the while, the pages of a place that
    /// are in the page cache.
    fn watched<T>(&mut self, at: Place, work: impl FnOnce(&mut Self) -> T) -> (T, Option<Seen>) {
        let Some(meter) = self.meter else {
            return (work(self), None);
        };
        let (file, (start, len)) = (self.file, at.pages());
        let (looking, done) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let mut pages_max = meter.cached_pages(file, start, len)?;
                let began = Instant::now();
                let ran_before = thread_time();
                looking.store(true, Ordering::Release);
                while !done.load(Ordering::Acquire) {
                    pages_max = pages_max.max(meter.cached_pages(file, start, len)?);
                }
                Ok(Seen {
                    pages_max,
                    ran: thread_time().saturating_sub(ran_before),
                    took: began.elapsed(),
                })
            });
            // It has ended without looking where it could not count.
            while !looking.load(Ordering::Acquire) && !watcher.is_finished() {
                std::thread::yield_now();
            }
            // Raised also if the work panics: the scope waits for the watcher.
            let raised = Raise(&done);
            let value = work(self);
            drop(raised);
            let seen: Option<Result<Seen>> = watcher.join().ok();
            (value, seen.and_then(Result::ok))
        })
    }

    /// A write with `RWF_DONTCACHE`, and whether its pages have left once it is on the disk.
    fn dropping_write(&mut self, at: Place) -> Result<Outcome> {
        let before = self.evict()?;
        self.dropping_write_now(at, before)
    }

    fn dropping_append(&mut self) -> Result<Outcome> {
        self.evict()?;
        fs::truncate(self.file, 0)?;
        let whole = Place {
            offset: 0,
            len: FILE_BYTES,
            behind: 0,
        };
        self.dropping_write_now(whole, Some(0))
    }

    fn dropping_write_now(&mut self, at: Place, before: Option<u64>) -> Result<Outcome> {
        if let Some(failed) = self.write_now(self.file, at, DONTCACHE)? {
            return Ok(failed);
        }
        fs::fdatasync(self.file)?;
        // The pages leave when the disk has answered, by a worker of the kernel: a moment later.
        let deadline = Instant::now() + DROP_PATIENCE;
        let after = loop {
            let after = self.cached(at)?;
            if after.is_none_or(|pages| pages == 0) || Instant::now() > deadline {
                break after;
            }
            std::thread::sleep(DROP_PAUSE);
        };
        if !self.reads_back(at)? {
            return Ok(Outcome::WrongBytes);
        }
        // Through the cache by definition: what matters is whether it stays.
        Ok(told(at, before, Some(u64::MAX), after))
    }

    /// Writes fresh bytes; what failed, if anything did. The file then holds what it held before:
    /// a direct write that is refused for its length can have written all of it up to the last
    /// extent of the file, where the length is looked at.
    fn write_now(
        &mut self,
        fd: BorrowedFd<'_>,
        at: Place,
        flags: ReadWriteFlags,
    ) -> Result<Option<Outcome>> {
        let fresh = self.generation + 1;
        let offset = at.offset as u64;
        let from = self.memory.slice_mut(at.behind, at.len);
        from.copy_from_slice(self.content.of(at.range(), fresh));
        let failed = match retry_on_intr(|| pwritev2(fd, &[IoSlice::new(from)], offset, flags)) {
            Err(errno) => Outcome::Refused(errno),
            Ok(bytes) if bytes < at.len => Outcome::Short,
            Ok(_) => {
                self.generation = fresh;
                return Ok(None);
            }
        };
        self.restore()?;
        Ok(Some(failed))
    }

    /// Whether the file holds what was just written, seen through the page cache. The rest of
    /// the file is made to hold it as well.
    fn reads_back(&mut self, at: Place) -> Result<bool> {
        let into = self.memory.slice_mut(0, at.len);
        into.fill(0);
        let offset = at.offset as u64;
        let read =
            retry_on_intr(|| preadv2(self.file, &mut [IoSliceMut::new(into)], offset, NONE))?;
        let expected = self.content.of(at.range(), self.generation);
        let right = read == at.len && *into == *expected;
        self.restore()?;
        Ok(right)
    }

    /// Makes the whole file hold the content of its generation.
    fn restore(&self) -> Result<()> {
        write_all(self.file, self.content.of(0..FILE_BYTES, self.generation))
    }

    /// Puts the file on the disk and out of the page cache. How many pages of it stay there all
    /// the same; `None` where that cannot be told.
    fn evict(&mut self) -> Result<Option<u64>> {
        fs::fdatasync(self.file)?;
        let deadline = Instant::now() + EVICT_PATIENCE;
        loop {
            retry_on_intr(|| fadvise(self.file, 0, None, Advice::DontNeed))?;
            let Some(meter) = self.meter else {
                return Ok(None);
            };
            let pages = meter.cached_pages(self.file, 0, FILE_BYTES)?;
            if pages == 0 {
                self.pages_stay = false;
            }
            if pages == 0 || self.pages_stay {
                return Ok(Some(pages));
            }
            // Waited for once: where they never leave (tmpfs), they will not the next time.
            self.pages_stay = Instant::now() > deadline;
            std::thread::sleep(DROP_PAUSE);
        }
    }

    /// Pages of a place that are in the page cache.
    fn cached(&self, at: Place) -> Result<Option<u64>> {
        let (start, len) = at.pages();
        self.meter
            .map(|meter| meter.cached_pages(self.file, start, len))
            .transpose()
    }
}

/// What the thread saw that looked while a write ran.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// The most pages that were in the page cache at once.
    pages_max: u64,
    /// How long the watching thread had a processor.
    ran: Duration,
    /// How long the watching thread looked in all, with and without a processor.
    took: Duration,
}

impl Seen {
    /// Whether it looked for most of the time: then pages that were there for most of it were seen.
    fn is_well(self) -> bool {
        self.ran * 2 >= self.took
    }
}

/// How much processor time the calling thread has had since it was started.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(time.tv_nsec.cast_unsigned())
}

/// Sets a flag when it is dropped, also by a panic.
struct Raise<'a>(&'a AtomicBool);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// What the number of cached pages says of an I/O: from that before it, the largest meanwhile, and that
/// after it. `None` stands for a number that could not be had.
fn told(at: Place, before: Option<u64>, meanwhile: Option<u64>, after: Option<u64>) -> Outcome {
    match (before, meanwhile, after) {
        (_, _, Some(pages)) if stay(at, pages) => Outcome::Cached { pages },
        (Some(0), Some(0), Some(0)) => Outcome::Uncached,
        (Some(0), Some(_), Some(_)) => Outcome::PassedThrough,
        // Pages that do not leave when told to say nothing when they are gone.
        _ => Outcome::NotMeasured,
    }
}

/// Whether so many pages of a place are what a call leaves that drops none. btrfs drops those of a direct
/// write in disguise with `invalidate_mapping_pages`, which leaves each page that somebody else refers to, and
/// the kernel itself does so for up to 31 pages that a processor has not put on its lists yet.
fn stay(at: Place, pages: u64) -> bool {
    let of_place = at.pages().1.div_ceil(rustix::param::page_size()) as u64;
    pages.saturating_mul(2) > of_place
}

fn direct_trials(
    unit: u32,
    memory: u32,
    each: &mut impl FnMut(Place) -> Result<Outcome>,
) -> Result<DirectTrials> {
    let smallest = match (usize::try_from(unit), usize::try_from(memory)) {
        (Ok(unit @ 1..=UNIT), Ok(memory @ 1..=UNIT)) => Some(each(Place {
            offset: 3 * unit,
            len: unit,
            behind: memory % UNIT,
        })?),
        _ => None,
    };
    Ok(DirectTrials {
        aligned: each(PLAIN)?,
        smallest,
        odd_offset: each(Place {
            offset: UNIT + 103,
            ..PLAIN
        })?,
        odd_length: each(Place {
            len: PLAIN.len - 101,
            ..PLAIN
        })?,
        odd_memory: each(Place { behind: 1, ..PLAIN })?,
    })
}

/// Room for the whole file at any of the placements, starting at a multiple of [`UNIT`].
struct Memory {
    bytes: Vec<u8>,
    start: usize,
}

impl Memory {
    fn new() -> Self {
        let bytes = vec![0; FILE_BYTES + 2 * UNIT];
        let start = bytes.as_ptr().align_offset(UNIT);
        Self { bytes, start }
    }

    fn slice_mut(&mut self, behind: usize, len: usize) -> &mut [u8] {
        &mut self.bytes[self.start + behind..][..len]
    }
}

/// What the file holds, generation by generation: one row of random bytes, which each generation
/// begins a little further on, so that bytes of another page or another write do not fit.
struct Content(Vec<u8>);

impl Content {
    fn new() -> Self {
        let words = (FILE_BYTES + GENERATION_BYTES * GENERATIONS) / 8;
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut bytes = Vec::with_capacity(words * 8);
        for _ in 0..words {
            // Marsaglia's xorshift64.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend_from_slice(&state.to_le_bytes());
        }
        Self(bytes)
    }

    fn of(&self, file: Range<usize>, generation: usize) -> &[u8] {
        let start = file.start + GENERATION_BYTES * (generation % GENERATIONS);
        &self.0[start..][..file.len()]
    }
}

/// By how many bytes the content of a generation begins behind that of the one before it.
const GENERATION_BYTES: usize = 24;
/// After so many generations the contents are the same again.
const GENERATIONS: usize = 256;

fn write_all(file: BorrowedFd<'_>, bytes: &[u8]) -> Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let rest = &bytes[done..];
        match retry_on_intr(|| rustix::io::pwrite(file, rest, done as u64))? {
            0 => return Err(Errno::IO),
            wrote => done += wrote,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scratch, disk_fs, skip, small_tmpfs};

    #[test]
    fn what_is_told_follows_from_the_counts() {
        let cases = [
            ((Some(0), Some(0), Some(0)), Outcome::Uncached),
            ((Some(0), Some(900), Some(0)), Outcome::PassedThrough),
            // As many as a processor had not put on its lists yet.
            ((Some(0), Some(900), Some(31)), Outcome::PassedThrough),
            ((Some(0), Some(0), Some(31)), Outcome::PassedThrough),
            ((Some(0), Some(8), Some(4)), Outcome::PassedThrough),
            (
                (Some(0), Some(0), Some(900)),
                Outcome::Cached { pages: 900 },
            ),
            (
                (Some(9), Some(900), Some(900)),
                Outcome::Cached { pages: 900 },
            ),
            ((Some(9), Some(9), Some(0)), Outcome::NotMeasured),
            ((Some(9), Some(9), Some(9)), Outcome::NotMeasured),
            ((Some(0), None, Some(0)), Outcome::NotMeasured),
            ((None, None, None), Outcome::NotMeasured),
        ];
        for ((before, meanwhile, after), outcome) in cases {
            assert_eq!(told(PLAIN, before, meanwhile, after), outcome);
        }
        let one_page = Place { len: 1, ..PLAIN };
        let outcome = told(one_page, Some(0), Some(1), Some(1));
        assert_eq!(outcome, Outcome::Cached { pages: 1 });
    }

    #[test]
    fn a_write_was_watched_well_if_the_watcher_ran_for_half_of_it() {
        for (ran, took, well) in [(0, 1, false), (4, 9, false), (5, 10, true), (10, 10, true)] {
            let (ran, took) = (Duration::from_millis(ran), Duration::from_millis(took));
            let seen = Seen {
                pages_max: 0,
                ran,
                took,
            };
            assert_eq!(seen.is_well(), well, "{seen:?}");
        }
    }

    #[test]
    fn the_bytes_of_a_trial_are_told_from_all_others() {
        let content = Content::new();
        let page = content.of(UNIT..2 * UNIT, 5);
        assert_eq!(page, &content.of(0..FILE_BYTES, 5)[UNIT..2 * UNIT]);
        assert_ne!(page, content.of(0..UNIT, 5), "another page");
        assert_ne!(page, content.of(UNIT..2 * UNIT, 6), "another write");
        assert_eq!(content.of(0..FILE_BYTES, 255).len(), FILE_BYTES);
        let mut memory = Memory::new();
        assert_eq!(memory.slice_mut(0, 1).as_ptr() as usize % UNIT, 0);
    }

    #[test]
    fn a_tmpfs_is_its_page_cache() {
        let Some(mount) = small_tmpfs(16 << 20) else {
            skip!("mounting a tmpfs needs CAP_SYS_ADMIN");
        };
        let file = fs::tmpfile(mount.as_fd(), 0o600).unwrap();
        let trials = run(file.as_fd()).unwrap();
        assert_eq!(trials.dontcache_read, Outcome::Refused(Errno::OPNOTSUPP));
        assert_eq!(
            trials.dontcache_overwrite,
            Outcome::Refused(Errno::OPNOTSUPP)
        );
        assert!(trials.write_dsync.works() && trials.write_sync.works());
        // Linux 6.6 lets O_DIRECT pass; earlier ones refuse the open.
        match (trials.direct_read, trials.direct_write) {
            (Some(read), Some(write)) => {
                for outcome in [read.aligned, read.odd_memory, write.aligned] {
                    assert!(matches!(outcome, Outcome::Cached { .. }), "{outcome:?}");
                }
            }
            _ => assert_eq!(trials.open_direct, Err(Errno::INVAL)),
        }
    }

    #[test]
    fn disks_move_direct_bytes_past_the_cache() {
        for (kind, sector) in [("xfs", 512), ("xfs", 4096), ("ext4", 512), ("ext4", 4096)] {
            let mount = match disk_fs(kind, sector) {
                Ok(mount) => mount,
                Err(reason) => skip!("{kind}: {reason}"),
            };
            let file = fs::tmpfile(mount.as_fd(), 0o600).unwrap();
            let trials = run(file.as_fd()).unwrap();
            // Linux 6.1 tells it.
            assert!([0, sector].contains(&trials.offset_align), "{trials:?}");
            let smallest = (trials.offset_align > 0).then_some(Outcome::Uncached);
            for direct in [trials.direct_read, trials.direct_write] {
                let direct = direct.unwrap();
                assert_eq!(direct.aligned, Outcome::Uncached, "{kind} {sector}");
                assert_eq!(direct.smallest, smallest, "{kind} {sector}");
                for odd in [direct.odd_offset, direct.odd_length, direct.odd_memory] {
                    assert_eq!(odd, Outcome::Refused(Errno::INVAL), "{kind} {sector}");
                }
            }
            let stays = matches!(trials.write_dsync, Outcome::Cached { .. });
            assert!(
                stays,
                "{kind}: a buffered write leaves its pages: {trials:?}"
            );
        }
    }

    #[test]
    fn a_write_in_disguise_is_seen() {
        let mount = match disk_fs("btrfs", 512) {
            Ok(mount) => mount,
            Err(reason) => skip!("btrfs: {reason}"),
        };
        let file = fs::tmpfile(mount.as_fd(), 0o600).unwrap();
        let trials = run(file.as_fd()).unwrap();
        let write = trials.direct_write.unwrap();
        // An odd length has always been written through the page cache and dropped; of data with
        // checksums everything is, since Linux 6.15.
        assert_eq!(write.odd_length, Outcome::PassedThrough);
        assert!(write.aligned.works(), "{trials:?}");
        assert_eq!(trials.dontcache_read, Outcome::Refused(Errno::OPNOTSUPP));
    }

    #[test]
    fn a_full_disk_is_an_error_of_its_own() {
        let Some(mount) = small_tmpfs(1 << 20) else {
            skip!("mounting a tmpfs needs CAP_SYS_ADMIN");
        };
        let file = fs::tmpfile(mount.as_fd(), 0o600).unwrap();
        assert_eq!(run(file.as_fd()), Err(Errno::NOSPC));
    }

    #[test]
    fn every_trial_has_an_answer_here() {
        let scratch = Scratch::new();
        let file = scratch.file("f", b"");
        let trials = run(file.as_fd()).unwrap();
        let refusals = [Errno::OPNOTSUPP, Errno::INVAL];
        let mut outcomes = vec![trials.dontcache_read, trials.dontcache_append];
        outcomes.extend([trials.dontcache_overwrite, trials.read_nowait]);
        for trials in [trials.direct_read, trials.direct_write].iter().flatten() {
            outcomes.extend([trials.odd_offset, trials.odd_length, trials.odd_memory]);
            assert!(trials.aligned.works(), "{trials:?}");
            assert!(trials.smallest.is_none_or(Outcome::works), "{trials:?}");
        }
        for outcome in outcomes {
            let refused = matches!(outcome, Outcome::Refused(errno) if refusals.contains(&errno));
            assert!(outcome.works() || refused, "{outcome:?}");
        }
        assert!(trials.write_dsync.works() && trials.write_sync.works());
    }
}
