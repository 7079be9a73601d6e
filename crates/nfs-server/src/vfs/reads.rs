//! Which READs of a file may wait for the disk before its data can be asked for, even where they are told not to wait
//! ([`ReadWaits`]). A worker of the ring makes those, or a helper thread; all others are made within the submission, or
//! of the page cache by the shard itself, which costs less.
//!
//! What the page cache has whole waits for nobody, and cachestat(2) (Linux 6.5) tells that without waiting. Where the
//! kernel does not say, as before 6.5 or for other users' files where the server is no root, READs are made as if it had
//! all. Neither does a READ wait near to what a worker has read lately: the map of that part of the file is in memory,
//! unless memory was so short that the kernel let go of it within seconds. A worker takes twice as long for a small READ.
//!
//! One more thing waits: a READ of cached data that comes to the page at which the kernel begins to read ahead. A stream
//! of READs meets such pages, so the page cache has to have what follows as well, as far as read-ahead may go. A READ
//! elsewhere meets one seldom, and then waits all the same.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use nfs_io::{Mode, ReadWaits};

use crate::limits;

/// What is known of the READs of one file. It lives as long as the file is in the open-file cache, and so in memory.
#[derive(Default)]
pub(super) struct Reads {
    /// A worker has read data of it, so that the kernel has read the map where that is read whole.
    map_is_read: AtomicBool,
    streams: Streams,
    /// Where workers have read lately, once there was a need to know.
    parts: OnceLock<Box<Parts>>,
}

/// Where READs of a file go on one behind the other.
#[derive(Default)]
struct Streams {
    /// Where the last READ of each ended, in bytes.
    ends: [AtomicU64; limits::READ_STREAMS_FOLLOWED],
    /// Which of them the next READ that follows none takes the place of.
    oldest: AtomicUsize,
}

impl Streams {
    /// Takes note of a READ. Whether it follows another.
    fn follows(&self, range: &Range<u64>) -> bool {
        let near = limits::READ_FOLLOWS_CALLS_MAX * (range.end - range.start);
        let ended_near =
            |end: &&AtomicU64| end.load(Ordering::Relaxed).abs_diff(range.start) <= near;
        if let Some(end) = self.ends.iter().find(ended_near) {
            end.store(range.end, Ordering::Relaxed);
            return true;
        }
        let place = self.oldest.fetch_add(1, Ordering::Relaxed) % self.ends.len();
        if let Some(end) = self.ends.get(place) {
            end.store(range.end, Ordering::Relaxed);
        }
        false
    }
}

/// The parts of a file that workers have read data of, for as long as [`limits::MAP_PART_KEPT_SECONDS`].
struct Parts {
    /// A bit for each part.
    read: [AtomicU64; (limits::MAP_PARTS_MAX / 64) as usize],
    begun: Instant,
    /// Which period it is that the bits are of, counted from the beginning.
    period: AtomicU64,
}

impl Parts {
    fn new() -> Self {
        Self {
            read: [const { AtomicU64::new(0) }; _],
            begun: Instant::now(),
            period: AtomicU64::new(0),
        }
    }

    /// The numbers of the parts that a range of a file of this size has a part in.
    fn of(range: &Range<u64>, size: u64) -> impl Iterator<Item = u64> + use<> {
        let part = size.div_ceil(limits::MAP_PARTS_MAX);
        let part = part.max(limits::MAP_PART_BYTES_MIN);
        let last = range.end.min(size).saturating_sub(1) / part;
        (range.start / part..=last).map(|part| part % limits::MAP_PARTS_MAX)
    }

    /// Forgets what is from before.
    fn go_on(&self, now: Instant) {
        let since = now.saturating_duration_since(self.begun).as_secs();
        let period = since / limits::MAP_PART_KEPT_SECONDS;
        if self.period.swap(period, Ordering::Relaxed) != period {
            for parts in &self.read {
                parts.store(0, Ordering::Relaxed);
            }
        }
    }

    fn has_all(&self, range: &Range<u64>, size: u64) -> bool {
        self.go_on(Instant::now());
        Self::of(range, size).all(|part| {
            let parts = self.read.get((part / 64) as usize);
            parts.is_some_and(|bits| bits.load(Ordering::Relaxed) & (1 << (part % 64)) != 0)
        })
    }

    fn add(&self, range: &Range<u64>, size: u64) {
        self.go_on(Instant::now());
        for part in Self::of(range, size) {
            if let Some(bits) = self.read.get((part / 64) as usize) {
                bits.fetch_or(1 << (part % 64), Ordering::Relaxed);
            }
        }
    }
}

/// A file as far as a READ's waiting depends on it.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) waits: ReadWaits,
    /// Its length in bytes.
    pub(super) size: u64,
    /// What it takes of the disk, in units of 512 bytes.
    pub(super) blocks: u64,
    /// Bytes of a block of its file system.
    pub(super) block_bytes: u64,
}

impl Reads {
    /// Whether a READ of `range` in `mode` may wait. `is_cached` asks whether the page cache has a range whole.
    pub(super) fn may_wait(
        &self,
        file: Shape,
        mode: Mode,
        range: &Range<u64>,
        is_cached: impl Fn(&Range<u64>) -> bool,
    ) -> bool {
        let waits = file.waits;
        let is_empty = range.start >= file.size.min(range.end);
        if is_empty || !waits.may_wait(mode, file.blocks, file.block_bytes) {
            return false;
        }
        match waits {
            ReadWaits::Never => false,
            ReadWaits::ForTheMap => !self.map_is_read.load(Ordering::Relaxed),
            ReadWaits::ForPartsOfTheMap | ReadWaits::Often if mode == Mode::Direct => {
                !self.is_near(range, file.size)
            }
            ReadWaits::ForPartsOfTheMap | ReadWaits::Often => {
                let is_cached_whole = || is_cached(&(range.start..range.end.min(file.size)));
                if self.streams.follows(range) {
                    !is_cached_whole() || !is_cached(&page_ahead(range, file.size))
                } else {
                    !self.is_near(range, file.size) && !is_cached_whole()
                }
            }
        }
    }

    /// Whether a worker has read from the same parts of the file lately.
    fn is_near(&self, range: &Range<u64>, size: u64) -> bool {
        let parts = self.parts.get();
        parts.is_some_and(|parts| parts.has_all(range, size))
    }

    /// A worker has read this range.
    pub(super) fn made_by_worker(&self, file: Shape, range: &Range<u64>) {
        self.map_is_read.store(true, Ordering::Relaxed);
        if file.waits != ReadWaits::ForTheMap {
            let parts = self.parts.get_or_init(|| Box::new(Parts::new()));
            parts.add(range, file.size);
        }
    }
}

/// A byte as far behind the range as the kernel reads ahead, or the last one of the file.
fn page_ahead(range: &Range<u64>, size: u64) -> Range<u64> {
    let end = range.end.saturating_add(limits::KERNEL_READ_AHEAD_BYTES);
    let end = end.min(size);
    end - 1..end
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;
    const SIZE: u64 = 64 << 20;

    fn file(waits: ReadWaits) -> Shape {
        Shape {
            waits,
            size: SIZE,
            blocks: SIZE / 512,
            block_bytes: PAGE,
        }
    }

    fn nothing(_range: &Range<u64>) -> bool {
        false
    }

    #[test]
    fn of_xfs_a_worker_reads_first() {
        let reads = Reads::default();
        let file = file(ReadWaits::ForTheMap);
        for _ in 0..2 {
            assert!(reads.may_wait(file, Mode::Buffered, &(0..PAGE), nothing));
            assert!(!reads.may_wait(file, Mode::Direct, &(0..PAGE), nothing));
        }
        reads.made_by_worker(file, &(0..PAGE));
        assert!(!reads.may_wait(file, Mode::DontCache, &(0..PAGE), nothing));
    }

    #[test]
    fn what_is_in_memory_waits_for_nobody() {
        let reads = Reads::default();
        for waits in [ReadWaits::ForPartsOfTheMap, ReadWaits::Often] {
            let file = file(waits);
            let here = 16 << 20..(16 << 20) + PAGE;
            assert!(reads.may_wait(file, Mode::Buffered, &here, nothing));
            assert!(reads.may_wait(file, Mode::Direct, &here, |_| true));
            assert!(!reads.may_wait(file, Mode::Buffered, &here, |_| true));
            let behind = SIZE..SIZE + PAGE;
            assert!(!reads.may_wait(file, Mode::Buffered, &behind, nothing));
            let asked = |range: &Range<u64>| {
                assert!(range.end <= SIZE);
                true
            };
            let across = SIZE - PAGE..SIZE + PAGE;
            assert!(!reads.may_wait(file, Mode::Buffered, &across, asked));
        }
    }

    #[test]
    fn near_to_what_a_worker_has_read_lately_nothing_is_asked() {
        let reads = Reads::default();
        let file = file(ReadWaits::ForPartsOfTheMap);
        let part = limits::MAP_PART_BYTES_MIN;
        // Far enough from each other to be no stream.
        let at = |part_no: u64, within: u64| {
            let start = part_no * part + within;
            start..start + PAGE
        };
        let may_wait = |range| reads.may_wait(file, Mode::Buffered, &range, nothing);
        assert!(may_wait(at(10, 0)));
        reads.made_by_worker(file, &at(10, 0));
        assert!(may_wait(at(20, 0)));
        assert!(!may_wait(at(10, part - PAGE)));
        assert!(!reads.may_wait(file, Mode::Direct, &at(10, PAGE), nothing));
        assert!(may_wait(at(30, 0)));
        assert!(may_wait(at(10, part - 1)), "its end is in the next part");
        let parts = reads.parts.get().unwrap();
        let later = std::time::Duration::from_secs(limits::MAP_PART_KEPT_SECONDS);
        parts.go_on(parts.begun + later);
        assert!(
            !parts
                .read
                .iter()
                .any(|bits| bits.load(Ordering::Relaxed) != 0)
        );
        let large = 1 << 60;
        reads.made_by_worker(
            Shape {
                size: large,
                ..file
            },
            &(large - PAGE..large),
        );
    }

    #[test]
    fn a_stream_needs_what_follows_too() {
        let reads = Reads::default();
        let file = file(ReadWaits::Often);
        let cached_to = |end: u64| move |range: &Range<u64>| range.end <= end;
        let mut at = 32 << 20;
        let mut next = |cached_behind: u64| {
            let range = at..at + PAGE;
            at = range.end;
            reads.may_wait(
                file,
                Mode::Buffered,
                &range,
                cached_to(range.end + cached_behind),
            )
        };
        assert!(!next(0), "the first is no stream");
        assert!(next(0));
        assert!(next(limits::KERNEL_READ_AHEAD_BYTES - 1));
        assert!(!next(limits::KERNEL_READ_AHEAD_BYTES));
        let elsewhere = 8 << 20..(8 << 20) + PAGE;
        let is_alone = || !reads.may_wait(file, Mode::Buffered, &elsewhere, cached_to(9 << 20));
        assert!(is_alone());
        assert!(next(0), "both are followed");
        assert!(!is_alone());
    }
}
