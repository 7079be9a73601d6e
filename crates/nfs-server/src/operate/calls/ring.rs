//! The flight recorder: for each shard a ring with the calls that are over, and a place for each one that waits.

use std::cell::RefCell;
use std::hash::RandomState;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::clock::now;
use super::follow::Listener;
use super::record::{CallRecord, Times};
use super::recording::Sink;
use super::steps::Weight;
use crate::limits;
use crate::operate::trace::ExportNames;

/// What the flight recorder keeps of calls that nobody follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecorderLevel {
    /// Nothing.
    Off,
    /// Every call, with the steps that may wait for something or ask the kernel.
    #[default]
    Waits,
    /// Every call with all of its steps.
    All,
}

/// The recorder of one server.
pub(crate) struct Recorder {
    /// From which weight on steps are recorded: by the level, or because somebody follows.
    wanted: AtomicU8,
    level: Mutex<RecorderLevel>,
    pub(super) listeners: ArcSwap<Vec<Arc<Listener>>>,
    /// Those who record, and whether there are any.
    pub(super) sinks: ArcSwap<Vec<Arc<Sink>>>,
    pub(super) is_recording: AtomicBool,
    /// Makes numbers of handles and names for those who record; its key is in this process only.
    pub(super) hasher: RandomState,
    books: Mutex<Vec<Arc<Book>>>,
    pub(super) exports: ExportNames,
    /// Calls that were lost, by all followers together.
    pub(super) lost: Arc<AtomicU64>,
    /// The time from which the times of calls are told.
    pub(super) started: u64,
}

/// One shard's part of it.
#[derive(Debug)]
pub(super) struct Book {
    pub(super) shard: usize,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
#[expect(
    clippy::vec_box,
    reason = "records are swapped, not moved: each has hundreds of bytes"
)]
struct Entries {
    /// The calls that are over, the oldest at `next` once there are as many as are kept.
    over: Vec<Box<CallRecord>>,
    next: usize,
    /// The calls that wait; a place is used again when its call goes on.
    waiting: Vec<Option<Box<CallRecord>>>,
    free: Vec<usize>,
}

thread_local! {
    /// The book of the shard that this thread is.
    static BOOK: RefCell<Option<(Arc<Recorder>, Arc<Book>)>> = const { RefCell::new(None) };
    /// Records that were put out of the ring, for the next calls: a batch of calls begins before the first of it ends.
    #[expect(clippy::vec_box, reason = "as those of the ring")]
    static SPARE: RefCell<Vec<Box<CallRecord>>> = const { RefCell::new(Vec::new()) };
}

/// The book of the shard that runs on this thread; there is one for as long as this is kept.
#[derive(Debug)]
pub(crate) struct ShardBook;

/// Where the record of a call lies that waits.
pub(super) struct Parked {
    book: Arc<Book>,
    place: usize,
}

impl Recorder {
    pub(crate) fn new(exports: ExportNames) -> Arc<Self> {
        Arc::new(Self {
            wanted: AtomicU8::new(Weight::Waits as u8),
            level: Mutex::default(),
            listeners: ArcSwap::default(),
            sinks: ArcSwap::default(),
            is_recording: AtomicBool::new(false),
            hasher: RandomState::new(),
            books: Mutex::default(),
            exports,
            lost: Arc::default(),
            started: now(),
        })
    }

    /// Opens the book of the shard that this thread is from now on.
    pub(crate) fn open_book(self: &Arc<Self>, shard: usize) -> ShardBook {
        let book = Arc::new(Book {
            shard,
            entries: Mutex::default(),
        });
        self.books.lock().push(Arc::clone(&book));
        BOOK.set(Some((Arc::clone(self), book)));
        ShardBook
    }

    /// Calls that followers lost so far, because they did not read them in time.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// What is kept of calls that nobody follows.
    pub(crate) fn level(&self) -> RecorderLevel {
        *self.level.lock()
    }

    /// Sets what is kept, of the calls that begin from now on.
    pub(crate) fn set_level(&self, level: RecorderLevel) {
        *self.level.lock() = level;
        self.recount();
    }

    pub(super) fn recount(&self) {
        let level = self.level.lock();
        let is_recording = !self.sinks.load().is_empty();
        // One that records needs to know whose each call is, and no steps.
        let least = if is_recording { Weight::Waits as u8 } else { 0 };
        let wanted = if !self.listeners.load().is_empty() {
            Weight::Short as u8
        } else {
            match *level {
                RecorderLevel::Off => 0,
                RecorderLevel::Waits => Weight::Waits as u8,
                RecorderLevel::All => Weight::Short as u8,
            }
        };
        self.wanted.store(wanted.max(least), Ordering::Relaxed);
        self.is_recording.store(is_recording, Ordering::Relaxed);
    }

    /// The calls that are in the books, those that wait among them, each with its shard.
    pub(super) fn all(&self) -> Vec<(usize, CallRecord)> {
        let mut all = Vec::new();
        for book in self.books.lock().iter() {
            let entries = book.entries.lock();
            all.extend(entries.all().map(|call| (book.shard, call.clone())));
        }
        all
    }

    /// The same for a process that dies, whose threads may hold any lock: false if a book was in use and is left out.
    pub(super) fn all_at_death(&self, all: &mut Vec<(usize, CallRecord)>) -> bool {
        let patience = Duration::from_millis(limits::CRASH_LOCK_MILLISECONDS_MAX);
        let Some(books) = self.books.try_lock_for(patience) else {
            return false;
        };
        let mut complete = true;
        for book in books.iter() {
            match book.entries.try_lock_for(patience) {
                Some(entries) => {
                    all.extend(entries.all().map(|call| (book.shard, call.clone())));
                }
                None => complete = false,
            }
        }
        complete
    }
}

/// The shard that this thread is, if it is one.
pub(super) fn shard_here() -> Option<usize> {
    let here = BOOK.try_with(|book| {
        let book = book.try_borrow().ok()?;
        book.as_ref().map(|(_, book)| book.shard)
    });
    here.ok().flatten()
}

/// Works with the recorder of the shard that this thread is, if it is one.
pub(super) fn recorder_here(work: impl FnOnce(&Recorder)) {
    let worked = BOOK.try_with(|book| {
        if let Ok(book) = book.try_borrow()
            && let Some((recorder, _)) = book.as_ref()
        {
            work(recorder);
        }
    });
    if worked.is_err() {
        tracing::trace!("a call acted after its shard's end");
    }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Recorder")
    }
}

impl ShardBook {
    /// A record for a call that begins now, if calls are recorded on this thread.
    pub(super) fn new_record(client: SocketAddr, times: Times) -> Option<Box<CallRecord>> {
        let wanted = BOOK.with_borrow(|book| {
            let (recorder, _) = book.as_ref()?;
            Some(recorder.wanted.load(Ordering::Relaxed))
        })?;
        if wanted == 0 {
            return None;
        }
        let spare = SPARE.with_borrow_mut(Vec::pop);
        let mut record = spare.unwrap_or_else(|| Box::new(CallRecord::new()));
        record.begin(client, times, wanted);
        Some(record)
    }

    /// Puts the record of a call down that waits.
    pub(super) fn park(record: Box<CallRecord>) -> Option<Parked> {
        BOOK.with_borrow(|open| {
            let (_, book) = open.as_ref()?;
            let mut entries = book.entries.lock();
            let place = match entries.free.pop() {
                Some(place) => place,
                None => {
                    entries.waiting.push(None);
                    entries.waiting.len() - 1
                }
            };
            if let Some(free) = entries.waiting.get_mut(place) {
                *free = Some(record);
            }
            drop(entries);
            let book = Arc::clone(book);
            Some(Parked { book, place })
        })
    }

    /// Puts records of calls that are over now into the ring, and shows them to those who follow.
    pub(super) fn enter(records: impl Iterator<Item = Box<CallRecord>>) {
        let ended = now();
        // On another thread, or after the shard's end, there is no book: nobody will ask for them.
        let known = BOOK.try_with(|open| {
            let Ok(open) = open.try_borrow() else {
                return;
            };
            let Some((recorder, book)) = open.as_ref() else {
                return;
            };
            let listeners = recorder.listeners.load();
            let mut entries = book.entries.lock();
            for mut record in records {
                record.times.ended = ended;
                for listener in listeners.iter() {
                    listener.offer(book.shard, &record);
                }
                keep_spare(entries.put(record));
            }
        });
        if known.is_err() {
            tracing::trace!("a call ended after its shard");
        }
    }
}

/// Keeps a record for a call to come, if there are not enough.
fn keep_spare(record: Option<Box<CallRecord>>) {
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < limits::FLIGHT_RECORDER_SPARE_PER_SHARD {
            spare.extend(record);
        }
    });
}

impl Drop for ShardBook {
    fn drop(&mut self) {
        BOOK.set(None);
    }
}

impl Parked {
    pub(super) fn take(self) -> Option<Box<CallRecord>> {
        let mut entries = self.book.entries.lock();
        let record = entries.waiting.get_mut(self.place)?.take();
        entries.free.push(self.place);
        record
    }
}

impl Entries {
    /// Puts a call into the ring; returns the record of the one that leaves it.
    fn put(&mut self, record: Box<CallRecord>) -> Option<Box<CallRecord>> {
        if self.over.len() < limits::FLIGHT_RECORDER_CALLS_PER_SHARD {
            self.over.push(record);
            return None;
        }
        let place = self.over.get_mut(self.next)?;
        self.next = (self.next + 1) % limits::FLIGHT_RECORDER_CALLS_PER_SHARD;
        Some(std::mem::replace(place, record))
    }

    fn all(&self) -> impl Iterator<Item = &CallRecord> {
        let waiting = self.waiting.iter().flatten();
        self.over.iter().chain(waiting).map(AsRef::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_keeps_the_last_calls_and_no_more() {
        let mut entries = Entries::default();
        let most = limits::FLIGHT_RECORDER_CALLS_PER_SHARD;
        for xid in 0..3 * most + 7 {
            let mut record = Box::new(CallRecord::new());
            record.xid = u32::try_from(xid).unwrap();
            let put_out = entries.put(record);
            let expected = xid.checked_sub(most).map(|xid| xid as u32);
            assert_eq!(put_out.map(|record| record.xid), expected);
        }
        assert_eq!(entries.all().count(), most);
        assert_eq!(entries.over.capacity(), most.next_power_of_two());
    }

    #[test]
    fn records_are_used_again_by_a_batch_of_calls_and_not_kept_without_end() {
        let most = limits::FLIGHT_RECORDER_SPARE_PER_SHARD;
        for _ in 0..2 * most {
            keep_spare(Some(Box::new(CallRecord::new())));
        }
        let spare = || SPARE.with_borrow_mut(Vec::pop);
        assert_eq!(std::iter::from_fn(spare).count(), most);
    }
}
