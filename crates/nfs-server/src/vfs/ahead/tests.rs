use std::future::Future;

use nfs_io::{Budget, BufferPool, Sharer};

use super::*;
use crate::vfs::gate::{Changing, Gates};

const MIB: u64 = 1 << 20;

/// One file, read by one client from its beginning on.
struct Bed {
    ahead: Arc<Ahead>,
    file: Arc<FileAhead>,
    gate: Arc<Gate>,
    counters: Arc<IoCounters>,
    pool: BufferPool,
    now: Instant,
}

impl Bed {
    fn new() -> Self {
        Self {
            ahead: Ahead::new(64 * MIB),
            file: Arc::default(),
            gate: Gates::default().of((1, 2)),
            counters: Arc::default(),
            pool: BufferPool::new(Budget::new(64 * MIB)),
            now: Instant::now(),
        }
    }

    /// The file as it is now, if nobody but us has changed it.
    fn stamp(&self) -> Stamp {
        Stamp {
            changes: self.gate.changes(),
            size: 100 * MIB,
            mtime: at(1),
            ctime: at(1),
        }
    }

    /// A READ of one MiB from this one on.
    fn read(&self, mib: u64, stamp: Stamp) -> Reading {
        let asked = Asked {
            client: Author(1),
            range: mib * MIB..(mib + 1) * MIB,
            window: 4 * MIB,
            grain: 4096,
            may_begin: true,
        };
        Reading::begin(&self.file, stamp, &asked, self.now)
    }

    /// The READs of the first two MiB, and the pieces that the second one begins.
    fn begun(&self) -> Vec<Filler> {
        drop(self.read(0, self.stamp()));
        let mut second = self.read(1, self.stamp());
        let pieces = std::iter::from_fn(|| second.next_piece()).collect::<Vec<_>>();
        let begin = |piece| second.add(&self.ahead, &self.gate, piece, &self.counters);
        pieces.iter().map(|piece| begin(piece).unwrap()).collect()
    }

    fn fill(&self, filler: Filler) {
        let everybody = Shares::new(64 * MIB, Rule::Everything);
        let client = Sharer::of([127, 0, 0, 1].into());
        let share = || everybody.try_take(client, MIB).unwrap();
        filler.fill(Bytes {
            data: self.pool.try_take(MIB as usize).unwrap(),
            share: share(),
            _ahead: share(),
        });
    }

    fn dropped(&self, why: Dropped) -> u64 {
        let tally = crate::operate::io_counters::Tally::default();
        let (read, direct) = (crate::exports::policy::Io::Read, nfs_io::Mode::Direct);
        self.counters.record(read, direct, &tally);
        let ahead = self.counters.stats("/").remove(0).ahead;
        let dropped = ahead.unwrap_or_default().dropped_bytes;
        dropped.get(why.word()).copied().unwrap_or(0)
    }
}

const fn at(sec: i64) -> Timestamp {
    Timestamp { sec, nsec: 5 }
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

#[test]
fn a_piece_answers_the_read_that_asks_for_it_once() {
    let bed = Bed::new();
    let fillers = bed.begun();
    assert_eq!(fillers.len(), 4);
    fillers.into_iter().for_each(|filler| bed.fill(filler));
    for mib in 2..6 {
        let read = bed.read(mib, bed.stamp());
        assert!(read.is_covered, "{mib}");
        let bytes = block_on(read.take_whole()).unwrap();
        assert_eq!(bytes.data.len() as u64, MIB);
        assert!(block_on(read.take_whole()).is_none(), "it is gone");
    }
    assert!(!bed.read(6, bed.stamp()).is_covered);
    for why in Dropped::ALL {
        assert_eq!(bed.dropped(why), 0, "{why:?}");
    }
}

#[test]
fn no_piece_from_before_a_change_is_served_once_the_change_has_begun() {
    let bed = Bed::new();
    bed.begun().into_iter().for_each(|filler| bed.fill(filler));
    let change = Changing::of(&bed.gate);
    assert!(!bed.read(2, bed.stamp()).is_covered);
    drop(change);
    assert!(!bed.read(3, bed.stamp()).is_covered);
    assert_eq!(bed.dropped(Dropped::Written), 4 * MIB);
}

#[test]
fn no_piece_is_begun_while_a_change_goes_on_or_for_what_was_seen_before_it() {
    let bed = Bed::new();
    drop(bed.read(0, bed.stamp()));
    let mut second = bed.read(1, bed.stamp());
    let piece = second.next_piece().unwrap();
    let add = |read: &Reading| read.add(&bed.ahead, &bed.gate, &piece, &bed.counters);
    let change = Changing::of(&bed.gate);
    assert!(add(&second).is_none());
    let during = bed.read(2, bed.stamp());
    assert!(add(&during).is_none(), "it knows of it, and it goes on");
    drop(change);
    assert!(add(&second).is_none());
    assert!(add(&during).is_some(), "it is over");
}

#[test]
fn any_difference_that_a_look_at_the_file_shows_drops_what_was_read() {
    let changes: [fn(&mut Stamp); 3] = [
        |stamp| stamp.size += 1,
        |stamp| stamp.mtime.nsec += 1,
        |stamp| stamp.ctime = at(0),
    ];
    for change in changes {
        let bed = Bed::new();
        bed.begun().into_iter().for_each(|filler| bed.fill(filler));
        let mut seen = bed.stamp();
        change(&mut seen);
        assert!(!bed.read(2, seen).is_covered);
        assert!(bed.dropped(Dropped::ChangedLocally) == 4 * MIB);
    }
}

#[test]
fn what_is_too_old_is_served_to_nobody() {
    let mut bed = Bed::new();
    bed.begun().into_iter().for_each(|filler| bed.fill(filler));
    let most = Duration::from_millis(limits::READ_AHEAD_MILLISECONDS_MAX);
    bed.now = Instant::now() + most;
    assert!(!bed.read(2, bed.stamp()).is_covered);
    assert_eq!(bed.dropped(Dropped::Unasked), 4 * MIB);
    let bed = Bed::new();
    bed.begun().into_iter().for_each(|filler| bed.fill(filler));
    bed.ahead.drop_old(bed.now);
    assert!(bed.read(2, bed.stamp()).is_covered);
    bed.ahead.drop_old(Instant::now() + most);
    assert!(!bed.read(3, bed.stamp()).is_covered);
    assert!(bed.ahead.files.lock().is_empty(), "the file is forgotten");
}

#[test]
fn who_needs_memory_gets_what_nobody_asked_for() {
    let bed = Bed::new();
    bed.begun().into_iter().for_each(|filler| bed.fill(filler));
    bed.ahead.give_way();
    assert_eq!(bed.dropped(Dropped::MemoryWanted), 4 * MIB);
    assert!(!bed.read(2, bed.stamp()).is_covered);
}

#[test]
fn who_waits_for_a_piece_that_nobody_reads_any_more_is_told() {
    let bed = Bed::new();
    let fillers = bed.begun();
    let read = bed.read(2, bed.stamp());
    let mut waits = Box::pin(read.take_whole());
    let mut out = vec![0; MIB as usize];
    let next = bed.read(3, bed.stamp());
    let mut copies = Box::pin(next.copy_into(&mut out, bed.now));
    let waker = std::task::Waker::noop();
    let mut context = std::task::Context::from_waker(waker);
    assert!(waits.as_mut().poll(&mut context).is_pending());
    assert!(copies.as_mut().poll(&mut context).is_pending());
    drop(fillers);
    assert!(block_on(waits).is_none());
    assert_eq!(block_on(copies), Ok(false));
}

#[test]
fn a_file_has_settled_when_its_times_are_older_than_a_clocks_step() {
    let stamp = |mtime, ctime| Stamp {
        changes: 0,
        size: 0,
        mtime,
        ctime,
    };
    let now = |millis| SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
    let (old, young) = (at(1), at(10));
    assert!(!stamp(old, young).has_settled(now(10_099)));
    assert!(stamp(old, young).has_settled(now(10_101)));
    assert!(!stamp(young, old).has_settled(now(10_050)));
    assert!(!stamp(young, old).has_settled(now(9_000)), "of the future");
    // Whole seconds: a change within the same one would not show.
    let coarse = Timestamp { sec: 10, nsec: 0 };
    assert!(!stamp(old, coarse).has_settled(now(10_999)));
    assert!(stamp(old, coarse).has_settled(now(11_100)));
}
