//! What is on its way to the readers of one file, or here and not read yet.
//!
//! [`Reading`] owns the READs ahead of all readers of a file as *slots*: disjoint ranges of the file,
//! each one READ with its buffer. A reader takes its bytes out of slots, and moves the window of slots
//! along as it goes; only that sends READs, and a reader that says what it will need. A slot whose bytes are all taken is forgotten; so are slots
//! that nobody came for within [`READ_AHEAD_KEPT`], or sooner when memory is short. Nothing is kept for
//! a second reader: this is no cache.
//!
//! READs ahead run in tasks of their own, which end with the file. A reader's own READ, where no slot
//! serves it, runs in the reader ([`Reading::exact`]).

mod told;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};
use std::time::Duration;

use bytes::Bytes;
use nfs_io::Buf;
use nfs_io::budget::Reclaim;
use nfs_wire::nfs3::{Fattr3, FileHandle};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::memory::{Direction, Lane, Memory, ServedFrom, Share};
use super::pattern::{Advice, Patterns};
use super::window::{Sent, Transferred, Window};
use super::{Depth, Files, TransferSizes, Windows};
use crate::error::{ClientError, printable, refused};
use crate::hint::Hint;
use crate::limits::{
    READ_AHEAD_KEPT, READ_AHEAD_KEPT_WHEN_SHORT, READ_AHEAD_TRANSFERS_MAX, READ_BYTES_MAX,
    TRANSFER_BYTES_MAX,
};
use crate::nfs::Nfs;
use crate::nfs3::Node;

/// What is asked whenever attributes of the file come with a reply.
type Observer = Box<dyn Fn(&Fattr3) + Send + Sync>;

/// The reads of one file, and what is ahead of them. See the module's documentation.
pub(super) struct Reading {
    source: Arc<Source>,
    state: Mutex<State>,
    /// Readers that wait for a slot.
    waiting: AtomicUsize,
    lane: Lane,
}

/// Where the bytes come from.
struct Source {
    nfs: Nfs,
    handle: FileHandle,
    path: Vec<u8>,
    memory: Memory,
    /// Bytes of one READ at first: all are this, doubled as often as the window says.
    transfer: u64,
    observer: OnceLock<Observer>,
}

struct State {
    slots: BTreeMap<u64, Entry>,
    patterns: Patterns,
    window: Window,
    /// The file's size as far as known: nothing is read ahead beyond it.
    size: u64,
    /// The last time somebody read.
    used: Instant,
    /// Held while there are slots.
    share: Option<Share>,
    /// The task that forgets what nobody reads.
    watch: Option<AbortHandle>,
    /// The memory knows whom to ask.
    registered: bool,
}

/// A slot in its place.
struct Entry {
    slot: Arc<Slot>,
    stream: u32,
    /// Bytes given to readers so far.
    taken: u64,
    sent: Sent,
    task: AbortHandle,
}

/// One READ ahead, and what came of it.
struct Slot {
    offset: u64,
    len: u64,
    /// As far as was known when it was sent, it reaches the end of the file.
    last: bool,
    outcome: OnceLock<Outcome>,
    ready: Notify,
}

/// What READs of one range brought.
struct Outcome {
    data: Bytes,
    end: End,
    /// When it came, by [`Memory::now`].
    at: Duration,
}

/// Why the data ends where it does.
enum End {
    /// It is all that was asked for.
    Full,
    /// The file ends where the data ends.
    Eof,
    /// The next byte could not be read.
    Failed(ClientError),
    /// The READ was given up.
    GivenUp,
}

/// How a read goes on, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub(super) enum Follow {
    /// It does not: only what is asked for is read.
    Exact,
    /// With what follows, to `until`; the reader's stream has come to `end`.
    Sequential { stream: u32, end: u64, until: u64 },
    /// With `ahead` more reads of `len` bytes, each `stride` bytes further than the one `from` there.
    Strided {
        stream: u32,
        from: u64,
        stride: i64,
        len: u64,
        ahead: u32,
    },
}

/// Bytes for a reader: at least one, or the file's end.
pub(super) struct Piece {
    pub(super) data: Bytes,
    /// The file ends behind them.
    pub(super) eof: bool,
}

/// A reader that waits for a slot. As long as one does, the slot's memory is not taken back.
struct Waiter<'a> {
    reading: &'a Reading,
    slot: Arc<Slot>,
}

enum Next<'a> {
    Slot(Waiter<'a>),
    /// No slot has it: so many bytes are to be asked for.
    Exact(u64),
}

impl Reading {
    /// The reads of `node` as the identity of `nfs`, with none ahead yet. Errors call the file `path`.
    pub(super) fn new(files: &Files, nfs: &Nfs, node: &Node, path: &[u8]) -> Arc<Self> {
        let windows = files.windows;
        let (transfer, doublings) = transfer(files.transfer, windows);
        let memory = files.memory.clone();
        let start = memory.found(Direction::Read);
        let state = State {
            slots: BTreeMap::new(),
            patterns: Patterns::default(),
            window: Window::new(windows.read, start, READ_AHEAD_TRANSFERS_MAX)
                .may_double(doublings),
            size: node.attributes.size,
            used: Instant::now(),
            share: None,
            watch: None,
            registered: false,
        };
        let source = Source {
            nfs: nfs.clone(),
            handle: node.handle,
            path: path.to_vec(),
            memory,
            transfer: u64::from(transfer),
            observer: OnceLock::new(),
        };
        Arc::new(Self {
            source: Arc::new(source),
            state: Mutex::new(state),
            waiting: AtomicUsize::new(0),
            lane: Lane::new(),
        })
    }

    /// Calls `observer` with the attributes of each reply from now on. Only the first is kept.
    pub(super) fn observe(&self, observer: impl Fn(&Fattr3) + Send + Sync + 'static) {
        // Set once, where the file is made.
        let _second = self.source.observer.set(Box::new(observer));
    }

    /// Bytes of one READ at least, where so many are wanted.
    pub(super) fn transfer_bytes(&self) -> u64 {
        self.source.transfer
    }

    /// Bytes of one READ ahead now.
    pub(super) fn transfer_bytes_now(&self) -> u64 {
        self.source.transfer << self.lock().window.doubled()
    }

    /// Takes note of a reader's wish, and finds how it may go on, with what the reader says of itself.
    pub(super) fn note(&self, offset: u64, len: u64, hint: Hint) -> Follow {
        let mut state = self.lock();
        let advice = match hint {
            Hint::Normal | Hint::NoReuse | Hint::WillNeed { .. } => {
                state.patterns.read(offset, len)
            }
            Hint::Sequential => state.patterns.read_sequential(offset, len),
            Hint::Random => Advice::Exact,
        };
        while let Some(gone) = state.patterns.next_gone() {
            state.forget_stream(gone);
        }
        match advice {
            Advice::Exact => Follow::Exact,
            Advice::Sequential { stream, end, ahead } => Follow::Sequential {
                stream,
                end,
                until: match hint {
                    Hint::Sequential => u64::MAX,
                    _ => end.saturating_add(ahead),
                },
            },
            Advice::Strided {
                stream,
                stride,
                ahead,
            } => Follow::Strided {
                stream,
                from: offset,
                stride,
                len,
                ahead,
            },
        }
    }

    /// An id for a reader that says itself that it goes on; for [`Self::forget_stream`].
    pub(super) fn stream(&self) -> u32 {
        self.lock().patterns.id()
    }

    /// Forgets what was read ahead for a stream that is no more.
    pub(super) fn forget_stream(&self, stream: u32) {
        self.lock().forget_stream(stream);
    }

    /// The file's size became known. Nothing is read ahead beyond it; what is asked for is asked for
    /// all the same.
    pub(super) fn saw_size(&self, size: u64) {
        self.lock().size = size;
    }

    /// What `range` holds has changed: nothing of it that was asked for before is given to a read that
    /// begins later; nor does one learn that the file ends in front of it.
    pub(super) fn invalidate(&self, range: Range<u64>) {
        let mut state = self.lock();
        state.forget(|slot| {
            let overlaps = slot.offset < range.end && slot.end() > range.start;
            overlaps || slot.end() <= range.start && slot.may_end_the_file()
        });
    }

    /// As [`Self::invalidate`], for the whole file.
    pub(super) fn invalidate_all(&self) {
        self.lock().forget(|_| true);
    }

    /// The next bytes of `at..end`, which is not empty: from a slot without a copy, or read now.
    pub(super) async fn piece(
        self: &Arc<Self>,
        at: u64,
        end: u64,
        follow: Follow,
    ) -> Result<Piece, ClientError> {
        let waiter = match self.next(at, end, follow) {
            Next::Slot(waiter) => waiter,
            Next::Exact(len) => return self.exact(at, len).await,
        };
        let waited = waiter.slot.wait().await;
        match self.take(&waiter.slot, at, end, waited, follow) {
            Some(answer) => {
                self.source.memory.served(ServedFrom::slot(waited));
                answer
            }
            None => self.exact(at, end - at).await,
        }
    }

    /// Sends the READs that the window wants, and finds where the first byte of `at..end` is to come
    /// from.
    fn next(self: &Arc<Self>, at: u64, end: u64, follow: Follow) -> Next<'_> {
        let mut state = self.lock();
        state.used = Instant::now();
        self.fill(&mut state, at, true, follow);
        if let Some(entry) = state.covering(at) {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            let slot = entry.slot.clone();
            return Next::Slot(Waiter {
                reading: self,
                slot,
            });
        }
        let next = state.slots.range(at..).next();
        let len = next.map_or(end, |(offset, _)| end.min(*offset)) - at;
        Next::Exact(if at < state.size {
            len.min(state.size - at)
        } else {
            len
        })
    }

    /// Takes the bytes of `at..end` that the slot has. `None` if they are to be asked for again: what
    /// failed before anybody wanted it tells nothing about now, nor does an error of a READ that was
    /// longer than what is wanted.
    fn take(
        self: &Arc<Self>,
        slot: &Arc<Slot>,
        at: u64,
        end: u64,
        waited: bool,
        follow: Follow,
    ) -> Option<Result<Piece, ClientError>> {
        let mut state = self.lock();
        let outcome = slot.outcome.get()?;
        let start = usize::try_from(at - slot.offset).ok()?;
        let rest = outcome.data.len().saturating_sub(start);
        if rest == 0 {
            state.forget(|other| std::ptr::eq(other, &**slot));
            return match &outcome.end {
                End::Eof if waited => Some(Ok(Piece {
                    data: Bytes::new(),
                    eof: true,
                })),
                End::Failed(error) if waited => {
                    let all_wanted = slot.end() <= end || matches!(error, ClientError::Rpc(_));
                    all_wanted.then(|| Err(error.clone()))
                }
                End::Eof | End::Failed(_) | End::Full | End::GivenUp => None,
            };
        }
        let count = rest.min(usize::try_from(end - at).unwrap_or(usize::MAX));
        let eof = count == rest && matches!(outcome.end, End::Eof);
        let bytes = u64::try_from(count).unwrap_or(0);
        let through = state.took(slot, bytes, outcome.at, &self.source.memory);
        if eof {
            state.forget(|other| other.offset > slot.offset);
        } else if through {
            // Behind the slot: its own bytes are taken, if not in order.
            self.fill(&mut state, slot.end(), false, follow);
        }
        let data = outcome.data.slice(start..start + count);
        Some(Ok(Piece { data, eof }))
    }

    /// Reads at most `len` bytes at `at` now, at most one transfer.
    async fn exact(&self, at: u64, len: u64) -> Result<Piece, ClientError> {
        let len = usize::try_from(len.min(self.source.transfer)).unwrap_or(usize::MAX);
        let memory = &self.source.memory;
        memory.served(ServedFrom::Read);
        let Some((buf, beyond)) = memory.buffer(len, &self.lane).await else {
            unreachable!("a transfer is not longer than the largest buffer")
        };
        let outcome = self.source.fetch(at, buf, |size| self.saw_size(size)).await;
        drop(beyond);
        match outcome.end {
            End::Failed(error) if outcome.data.is_empty() => Err(error),
            End::Eof => Ok(Piece {
                data: outcome.data,
                eof: true,
            }),
            End::Full | End::GivenUp | End::Failed(_) => Ok(Piece {
                data: outcome.data,
                eof: false,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How READs ahead are chosen and sent.
impl Reading {
    /// Sends the READs that a reader at `at` wants to have on their way. With `wanted`, it waits for
    /// the first: that one is sent wherever the file is thought to end.
    fn fill(self: &Arc<Self>, state: &mut State, at: u64, wanted: bool, follow: Follow) {
        let transfer = self.source.transfer << state.window.doubled();
        let bytes = u32::try_from(transfer).unwrap_or(u32::MAX);
        let depth_max = self.source.memory.transfers_max(bytes);
        let depth = state.window.depth().min(depth_max);
        match follow {
            Follow::Exact => {}
            Follow::Sequential { stream, end, until } => {
                let row = (stream, end, until);
                self.fill_row(state, at, wanted, (depth, transfer), row);
            }
            Follow::Strided {
                stream,
                from,
                stride,
                len,
                ahead,
            } if len <= self.source.transfer => {
                self.fill_strides(state, from, (stream, stride, len, ahead.min(depth)));
            }
            Follow::Strided { .. } => {}
        }
    }

    fn fill_row(
        self: &Arc<Self>,
        state: &mut State,
        at: u64,
        wanted: bool,
        (depth, transfer): (u32, u64),
        (stream, end, until): (u32, u64, u64),
    ) {
        // What the reader left behind by more than a transfer it has passed over.
        let behind = at.saturating_sub(transfer);
        state.forget_of(stream, |slot| slot.end() <= behind);
        let mut next = at;
        for _ in 0..depth {
            if let Some(entry) = state.covering(next) {
                next = entry.slot.end();
                continue;
            }
            let first = wanted && next == at;
            let left = until.saturating_sub(next);
            // Not in crumbs: while little may be read ahead, half of it is read before more is asked.
            let crumb = left < transfer && next > end && next - end > left;
            if !first && (left == 0 || next >= state.size || crumb) {
                break;
            }
            // READs end at multiples of their size, wherever a reader begins: what is aligned here
            // is aligned for the server's disk too.
            let mut stop = (next - next % transfer).saturating_add(transfer).min(until);
            if next < state.size {
                stop = stop.min(state.size);
            }
            if let Some((&after, _)) = state.slots.range(next..).next() {
                stop = stop.min(after);
            }
            if !self.ask(state, next..stop, stream) {
                break;
            }
            next = stop;
        }
    }

    fn fill_strides(
        self: &Arc<Self>,
        state: &mut State,
        from: u64,
        (stream, stride, len, ahead): (u32, i64, u64, u32),
    ) {
        let onward = |slot: &Slot| (slot.offset > from) == (stride > 0);
        let reach = stride.unsigned_abs().saturating_mul(u64::from(ahead));
        state.forget_of(stream, |slot| {
            !onward(slot) && slot.offset.abs_diff(from) > reach
        });
        let mut next = from;
        for _ in 0..ahead {
            let Some(offset) = next.checked_add_signed(stride) else {
                break;
            };
            let stop = offset.saturating_add(len).min(state.size);
            if offset >= stop {
                break;
            }
            next = offset;
            let after = state.slots.range(offset..).next();
            let free = after.is_none_or(|(&start, _)| start >= stop);
            if free && state.covering(offset).is_none() && !self.ask(state, offset..stop, stream) {
                break;
            }
        }
    }

    /// Sends a READ of `range`; false if there is no memory for it now, or nothing to ask for.
    fn ask(self: &Arc<Self>, state: &mut State, range: Range<u64>, stream: u32) -> bool {
        let len = range.end.saturating_sub(range.start);
        let memory = &self.source.memory;
        let Some(buf) = usize::try_from(len)
            .ok()
            .filter(|&len| len > 0)
            .and_then(|len| memory.try_buffer(len))
        else {
            return false;
        };
        let slot = Arc::new(Slot {
            offset: range.start,
            len,
            last: range.end >= state.size,
            outcome: OnceLock::new(),
            ready: Notify::new(),
        });
        let reader = Arc::downgrade(self);
        let run = run(self.source.clone(), slot.clone(), buf, reader);
        // Not the caller's: what nobody reads is to be forgotten when that has ended, too.
        let runtime = self.source.nfs.connection().runtime();
        let entry = Entry {
            slot,
            stream,
            taken: 0,
            sent: state.window.sent(memory.now()),
            task: runtime.spawn(run).abort_handle(),
        };
        state.slots.insert(range.start, entry);
        state.share.get_or_insert_with(|| memory.share());
        if !std::mem::replace(&mut state.registered, true) {
            memory.register(self);
        }
        if state.watch.is_none() {
            let watch = runtime.spawn(watch(Arc::downgrade(self)));
            state.watch = Some(watch.abort_handle());
        }
        true
    }

    /// Forgets everything if nobody has read for `kept`; whether there is nothing left to forget.
    fn forget_unused(&self, state: &mut State, kept: Duration) -> bool {
        let waiting = self.waiting.load(Ordering::Relaxed) > 0;
        if !waiting && state.used.elapsed() >= kept {
            state.forget(|_| true);
        }
        state.slots.is_empty()
    }
}

impl State {
    /// The slot that has the byte at `at`.
    fn covering(&self, at: u64) -> Option<&Entry> {
        let (_, entry) = self.slots.range(..=at).next_back()?;
        (at < entry.slot.end()).then_some(entry)
    }

    fn forget_stream(&mut self, stream: u32) {
        self.forget_of(stream, |_| true);
    }

    fn forget_of(&mut self, stream: u32, which: impl Fn(&Slot) -> bool) {
        self.slots
            .retain(|_, entry| !(entry.stream == stream && which(&entry.slot) && entry.leave()));
        self.give_up_share();
    }

    fn forget(&mut self, which: impl Fn(&Slot) -> bool) {
        self.slots
            .retain(|_, entry| !(which(&entry.slot) && entry.leave()));
        self.give_up_share();
    }

    /// How many readers have something ahead of them.
    fn readers(&self) -> u32 {
        let mut streams: Vec<u32> = self.slots.values().map(|entry| entry.stream).collect();
        streams.sort_unstable();
        streams.dedup();
        u32::try_from(streams.len()).unwrap_or(u32::MAX)
    }

    /// Gives the share of the memory up to others if no slot is left.
    fn give_up_share(&mut self) {
        if self.slots.is_empty() {
            self.share = None;
        }
    }

    /// A reader took `count` bytes of the slot. When that was all of it, it has gone through the
    /// window: then true.
    fn took(&mut self, slot: &Arc<Slot>, count: u64, answered: Duration, memory: &Memory) -> bool {
        let entry = self.slots.get_mut(&slot.offset);
        let Some(entry) = entry.filter(|entry| Arc::ptr_eq(&entry.slot, slot)) else {
            return false;
        };
        self.used = Instant::now();
        entry.taken += count;
        let data = slot.outcome.get().map_or(0, |outcome| outcome.data.len());
        if entry.taken < u64::try_from(data).unwrap_or(u64::MAX) {
            return false;
        }
        let (bytes, sent) = (entry.taken, entry.sent);
        let moved = Transferred {
            sent,
            answered,
            bytes,
            readers: self.readers(),
            windows: memory.windows(),
        };
        self.slots.remove(&slot.offset);
        self.give_up_share();
        self.window.moved(memory.now(), &moved);
        if let Some(found) = self.window.found() {
            memory.arrived(Direction::Read, found);
        }
        true
    }
}

impl Entry {
    /// Ends the READ unless somebody waits for it; true, for what is forgotten.
    fn leave(&self) -> bool {
        // One is here and one is the task's; who waits takes one while the state is locked.
        if Arc::strong_count(&self.slot) <= 2 {
            self.task.abort();
        }
        true
    }
}

impl Slot {
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }

    /// What it brought, or may bring, says where the file ended then.
    fn may_end_the_file(&self) -> bool {
        match self.outcome.get() {
            Some(outcome) => !matches!(outcome.end, End::Full),
            None => self.last,
        }
    }

    /// Waits for the outcome; false if it was there already.
    async fn wait(&self) -> bool {
        if self.outcome.get().is_some() {
            return false;
        }
        loop {
            let mut ready = std::pin::pin!(self.ready.notified());
            ready.as_mut().enable();
            if self.outcome.get().is_some() {
                return true;
            }
            ready.await;
        }
    }

    fn finish(&self, outcome: Outcome) {
        // The first counts: the guard's is only for a task that was ended.
        let _second = self.outcome.set(outcome);
        self.ready.notify_waiters();
    }
}

impl Source {
    /// Reads into all of `buf`, with as many READs as the server makes of it.
    async fn fetch(&self, offset: u64, buf: Buf, saw_size: impl Fn(u64)) -> Outcome {
        let len = buf.len();
        let failed = |data: Option<Buf>, error| Outcome {
            data: data.map_or_else(Bytes::new, Bytes::from_owner),
            end: End::Failed(error),
            at: self.memory.now(),
        };
        let refuse = |status| refused("READ", &self.path, status);
        let first = match self.nfs.read_into(&self.handle, offset, buf).await {
            Ok(Ok(first)) => first,
            Ok(Err(failure)) => return failed(None, refuse(failure.status)),
            Err(error) => return failed(None, ClientError::from(error).of(&self.path)),
        };
        let (mut data, mut eof) = (first.data, first.eof);
        let mut last = (data.len(), first.file_attributes);
        loop {
            if let (_, Some(attributes)) = &last {
                saw_size(attributes.size);
                if let Some(observer) = self.observer.get() {
                    observer(attributes);
                }
            }
            if data.len() >= len || eof {
                let end = if eof { End::Eof } else { End::Full };
                let data = Bytes::from_owner(data);
                let at = self.memory.now();
                return Outcome { data, end, at };
            }
            let here = offset + u64::try_from(data.len()).unwrap_or(0);
            if last.0 == 0 {
                let path = printable(&self.path);
                let error = ClientError::NoProgress { path, offset: here };
                return failed(Some(data), error);
            }
            // Short: rare enough to be copied.
            let want = u32::try_from(len - data.len()).unwrap_or(u32::MAX);
            let more = match self.nfs.read(&self.handle, here, want).await {
                Ok(Ok(more)) => more,
                Ok(Err(failure)) => return failed(Some(data), refuse(failure.status)),
                Err(error) => return failed(Some(data), ClientError::from(error).of(&self.path)),
            };
            let have = data.len();
            data.set_len(have + more.data.len());
            data.split_at_mut(have).1.copy_from_slice(&more.data);
            eof = more.eof;
            last = (more.data.len(), more.file_attributes);
        }
    }
}

/// Bytes of one READ at first, and how often they may be doubled: from what the server prefers to what
/// it takes, within the options. With a depth that is given nothing is measured; then a maximum above
/// our usual one is taken as the size that is wanted.
fn transfer(sizes: TransferSizes, windows: Windows) -> (u32, u32) {
    let max = sizes.read_max.min(windows.transfer_bytes_max);
    let first = sizes.read.min(windows.transfer_bytes_max);
    let given = matches!(windows.read, Depth::Fixed(_));
    let first = if given && windows.transfer_bytes_max > TRANSFER_BYTES_MAX {
        max.max(first)
    } else {
        first
    };
    let first = first.clamp(1, READ_BYTES_MAX);
    (
        first,
        (max.min(READ_BYTES_MAX) / first)
            .checked_ilog2()
            .unwrap_or(0),
    )
}

/// Reads one slot. Whatever becomes of it, who waits is told.
async fn run(source: Arc<Source>, slot: Arc<Slot>, buf: Buf, reading: Weak<Reading>) {
    struct Ended(Arc<Slot>);
    impl Drop for Ended {
        fn drop(&mut self) {
            if self.0.outcome.get().is_none() {
                let data = Bytes::new();
                let end = End::GivenUp;
                let at = Duration::ZERO;
                self.0.finish(Outcome { data, end, at });
            }
        }
    }
    let ended = Ended(slot);
    let saw_size = |size| {
        if let Some(reading) = reading.upgrade() {
            reading.saw_size(size);
        }
    };
    let outcome = source.fetch(ended.0.offset, buf, saw_size).await;
    ended.0.finish(outcome);
}

/// Forgets what nobody reads, until there is nothing more to forget.
async fn watch(reading: Weak<Reading>) {
    loop {
        tokio::time::sleep(READ_AHEAD_KEPT).await;
        let Some(reading) = reading.upgrade() else {
            return;
        };
        let mut state = reading.lock();
        if reading.forget_unused(&mut state, READ_AHEAD_KEPT) {
            state.watch = None;
            return;
        }
    }
}

impl Reclaim for Reading {
    fn reclaim(&self, _bytes: u64) {
        // Called while others' windows are locked: this one gives nothing back while it is.
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        self.forget_unused(&mut state, READ_AHEAD_KEPT_WHEN_SHORT);
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let mut state = self.lock();
        state.forget(|_| true);
        if let Some(watch) = state.watch.take() {
            watch.abort();
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.reading.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reading").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
