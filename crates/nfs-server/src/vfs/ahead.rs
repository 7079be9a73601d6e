//! Pieces of files that are read before a client asks for them: read-ahead for READs in mode `direct`, for which
//! the kernel has none.
//!
//! A piece is read past the page cache, as a READ would be, into memory of the READs' pool. It is kept for one
//! stream of READs ([`streams`]) of one client, for [`limits::READ_AHEAD_MILLISECONDS_MAX`] at most, and for as long as
//! nobody needs the memory: READs that wait for memory have all pieces dropped.
//!
//! What a READ is answered with from a piece is what the file held at some moment since the piece was begun. So
//! a piece serves only while nothing of the file has changed since then. Changes by us are counted by the
//! file's gate, which all exports of the file share: a piece is not begun while one goes on, and none that
//! was begun before a change is served once it has begun ([`Gate::changes`](super::gate::Gate::changes)). Changes by
//! others show in ctime, mtime and size, which every READ asks for anyway. They are put in place before the
//! bytes are, so no piece is begun of a file that was changed a moment ago; see `docs/io-modes.md` for what is
//! left, and why it is bounded.
//!
//! Locks: a file's pieces, then a piece's bytes. Nothing is dropped, submitted or waited for under either.

pub(super) mod streams;

use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use nfs_io::budget::Reclaim;
use nfs_io::fs::{Stat, Timestamp};
use nfs_io::turns::Rule;
use nfs_io::{Buf, Share, Shares};
use parking_lot::Mutex;
use tokio::sync::Notify;

use self::streams::{ReadCall, StreamId, Streams};
use super::gate::Gate;
use super::{Author, Error, Result};
use crate::limits;
use crate::operate::io_counters::{Dropped, IoCounters};

/// What is read ahead of all files together.
pub(crate) struct Ahead {
    /// Who may have how much memory for it.
    pub(super) shares: Shares,
    /// The files of which pieces may be held.
    files: Mutex<Vec<Weak<FileAhead>>>,
}

impl Ahead {
    /// `budget_bytes`: the memory for all replies, of which this may use a part.
    pub(super) fn new(budget_bytes: u64) -> Arc<Self> {
        let rule = Rule::TimesFree(limits::READ_AHEAD_TIMES_FREE_MAX);
        let most = budget_bytes / limits::READ_AHEAD_MEMORY_DIVISOR;
        Arc::new(Self {
            shares: Shares::new(most, rule),
            files: Mutex::default(),
        })
    }

    /// Lets go of all that nobody asked for yet: somebody needs the memory.
    pub(super) fn give_way(&self) {
        let files = std::mem::take(&mut *self.files.lock());
        for file in files.iter().filter_map(Weak::upgrade) {
            let dropped = file.0.lock().take_all(Dropped::MemoryWanted);
            drop(dropped);
        }
    }

    /// Lets go of what is too old to be used, and forgets files of which nothing is left.
    pub(crate) fn drop_old(&self, now: Instant) {
        let files = std::mem::take(&mut *self.files.lock());
        let mut left = Vec::new();
        for listed in files {
            let Some(file) = listed.upgrade() else {
                continue;
            };
            let (dropped, is_empty) = {
                let mut held = file.0.lock();
                let dropped = held.take_old(now);
                held.listed = !held.pieces.is_empty();
                (dropped, held.pieces.is_empty())
            };
            drop(dropped);
            if !is_empty {
                left.push(listed);
            }
        }
        self.files.lock().append(&mut left);
    }

    fn list(&self, file: &Arc<FileAhead>) {
        self.files.lock().push(Arc::downgrade(file));
    }
}

impl Reclaim for Ahead {
    fn reclaim(&self, _bytes: u64) {
        self.give_way();
    }
}

/// What is known of the READs of one file, and what is read ahead of them.
#[derive(Default)]
pub(super) struct FileAhead(Mutex<Held>);

#[derive(Default)]
struct Held {
    streams: Streams,
    pieces: Vec<Piece>,
    /// The file is in the list of [`Ahead`].
    listed: bool,
}

/// A state of a file, as far as it can be seen without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Changes that we had begun.
    changes: u64,
    size: u64,
    mtime: Timestamp,
    ctime: Timestamp,
}

impl Stamp {
    pub(super) fn of(gate: &Gate, stat: &Stat) -> Self {
        Self {
            changes: gate.changes(),
            size: stat.size,
            mtime: stat.mtime,
            ctime: stat.ctime,
        }
    }

    /// Have the file's times stayed for so long that whoever changes it from now on gives it others?
    pub(super) fn has_settled(&self, now: SystemTime) -> bool {
        [self.ctime, self.mtime].into_iter().all(|time| {
            let quiet = if time.nsec == 0 {
                limits::READ_AHEAD_QUIET_COARSE_MILLISECONDS
            } else {
                limits::READ_AHEAD_QUIET_MILLISECONDS
            };
            let since = now
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap_or_default();
            let at = Duration::new(u64::try_from(time.sec).unwrap_or(0), time.nsec);
            // A time in the future tells nothing about when the next one comes.
            let age = since.checked_sub(at);
            age.is_some_and(|age| age >= Duration::from_millis(quiet))
        })
    }
}

/// A part of a file that is being read, or was read, before anybody asked for it.
struct Piece {
    stream: StreamId,
    range: Range<u64>,
    stamp: Stamp,
    begun: Instant,
    slot: Arc<Slot>,
    counted: Counted,
}

/// Counts a piece when it goes.
struct Counted {
    bytes: u64,
    used: u64,
    why: Dropped,
    counters: Arc<IoCounters>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let unused = self.bytes.saturating_sub(self.used);
        self.counters.dropped_ahead(self.why, unused);
    }
}

impl Piece {
    fn dropped(mut self, why: Dropped) -> Self {
        self.counted.why = why;
        self
    }

    fn is_old(&self, now: Instant) -> bool {
        let most = Duration::from_millis(limits::READ_AHEAD_MILLISECONDS_MAX);
        now.saturating_duration_since(self.begun) >= most
    }
}

/// Where the bytes of a piece come to.
pub(super) struct Slot {
    outcome: Mutex<Outcome>,
    told: Notify,
}

enum Outcome {
    UnderWay,
    Read(Bytes),
    /// It could not be read, or an answer has it.
    Gone,
}

/// What was read: the bytes that the file has of the piece, and their part of what their client may hold.
pub(super) struct Bytes {
    pub(super) data: Buf,
    pub(super) share: Share,
    pub(super) _ahead: Share,
}

/// Whoever reads a piece. Dropped before it is done, it wakes those who wait.
pub(super) struct Filler(Arc<Slot>);

impl Filler {
    pub(super) fn fill(self, bytes: Bytes) {
        *self.0.outcome.lock() = Outcome::Read(bytes);
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        let mut outcome = self.0.outcome.lock();
        if matches!(*outcome, Outcome::UnderWay) {
            *outcome = Outcome::Gone;
        }
        drop(outcome);
        self.0.told.notify_waiters();
    }
}

impl Slot {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            outcome: Mutex::new(Outcome::UnderWay),
            told: Notify::new(),
        })
    }

    /// Waits until it is known what became of it, and gives that to `take`.
    async fn when_known<T>(&self, take: impl Fn(&mut Outcome) -> T) -> T {
        loop {
            // Made before the look, it misses nothing.
            let told = self.told.notified();
            {
                let mut outcome = self.outcome.lock();
                if !matches!(*outcome, Outcome::UnderWay) {
                    return take(&mut outcome);
                }
            }
            told.await;
        }
    }

    fn has_failed(&self) -> bool {
        matches!(*self.outcome.lock(), Outcome::Gone)
    }
}

impl Held {
    /// Takes out the pieces for which `why` says why they are dropped.
    fn take_if(&mut self, why: impl Fn(&Piece) -> Option<Dropped>) -> Vec<Piece> {
        let mut taken = Vec::new();
        let mut at = 0;
        while let Some(piece) = self.pieces.get(at) {
            match why(piece) {
                Some(why) => taken.push(self.pieces.swap_remove(at).dropped(why)),
                None => at += 1,
            }
        }
        taken
    }

    fn take_all(&mut self, why: Dropped) -> Vec<Piece> {
        let taken = self.take_if(|_| Some(why));
        self.listed = false;
        self.forget(&taken);
        taken
    }

    fn take_old(&mut self, now: Instant) -> Vec<Piece> {
        let taken = self.take_if(|piece| piece.is_old(now).then_some(Dropped::Unasked));
        self.forget(&taken);
        taken
    }

    /// Takes out what must not be served to a READ that found the file in the state of `stamp`.
    fn take_stale(&mut self, stamp: &Stamp, now: Instant) -> Vec<Piece> {
        let taken = self.take_if(|piece| {
            if piece.stamp.changes != stamp.changes {
                Some(Dropped::Written)
            } else if piece.stamp != *stamp {
                Some(Dropped::ChangedLocally)
            } else if piece.slot.has_failed() {
                Some(Dropped::Failed)
            } else {
                piece.is_old(now).then_some(Dropped::Unasked)
            }
        });
        self.forget(&taken);
        taken
    }

    /// Tells the streams what they have no more.
    fn forget(&mut self, pieces: &[Piece]) {
        let mut lost = Vec::new();
        for piece in pieces {
            if lost.contains(&piece.stream) {
                continue;
            }
            match piece.counted.why {
                Dropped::Written | Dropped::ChangedLocally | Dropped::Failed => {
                    lost.push(piece.stream);
                    self.streams.lost(piece.stream);
                }
                Dropped::Unasked | Dropped::MemoryWanted => self.streams.dropped(piece.stream),
                Dropped::Left | Dropped::Closed => {}
            }
        }
    }

    /// The pieces that hold `asked` of a stream without a gap, in ascending order, each with its part of the
    /// range: none if there is a gap.
    fn parts(&self, stream: StreamId, asked: &Range<u64>) -> Vec<(usize, Range<u64>)> {
        let mut parts = Vec::new();
        let mut at = asked.start;
        while at < asked.end {
            let mut pieces = self.pieces.iter();
            let holds = |piece: &Piece| piece.stream == stream && piece.range.contains(&at);
            let Some(index) = pieces.position(holds) else {
                return Vec::new();
            };
            let Some(piece) = self.pieces.get(index) else {
                return Vec::new();
            };
            let end = piece.range.end.min(asked.end);
            parts.push((index, at..end));
            at = end;
        }
        parts
    }
}

/// A READ of a file whose READs are watched. Ends when dropped.
pub(super) struct Reading {
    file: Arc<FileAhead>,
    stream: StreamId,
    stamp: Stamp,
    /// What the READ is to be answered with.
    asked: Range<u64>,
    /// What of the file is to be read ahead because of it, until that is begun.
    plan: Range<u64>,
    piece_bytes: u64,
    pub(super) is_covered: bool,
    /// Something would have been read ahead, had pieces been allowed to begin.
    pub(super) held_back: bool,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.file.0.lock().streams.ended(self.stream);
    }
}

/// A READ as the streams are told of it, but for whether pieces may be begun.
pub(super) struct Asked {
    pub(super) client: Author,
    /// What the file has of the range; not empty.
    pub(super) range: Range<u64>,
    pub(super) window: u64,
    pub(super) grain: u64,
    /// Whether it is a time to begin pieces.
    pub(super) may_begin: bool,
}

impl Reading {
    /// A READ begins, which found the file in the state of `stamp`.
    pub(super) fn begin(file: &Arc<FileAhead>, stamp: Stamp, asked: &Asked, now: Instant) -> Self {
        let mut held = file.0.lock();
        let mut dropped = held.take_stale(&stamp, now);
        let noted = held.streams.note(&ReadCall {
            client: asked.client,
            range: asked.range.clone(),
            size: stamp.size,
            window: asked.window,
            grain: asked.grain,
            may_begin: asked.may_begin,
        });
        if let Some(left) = noted.left {
            let left = |piece: &Piece| (piece.stream == left).then_some(Dropped::Left);
            dropped.append(&mut held.take_if(left));
        }
        let is_covered = !held.parts(noted.stream, &asked.range).is_empty();
        drop(held);
        drop(dropped);
        Self {
            file: Arc::clone(file),
            stream: noted.stream,
            stamp,
            asked: asked.range.clone(),
            plan: noted.ahead,
            piece_bytes: noted.piece_bytes,
            is_covered,
            held_back: noted.held_back,
        }
    }

    /// The next piece to be begun; none when all are.
    pub(super) fn next_piece(&mut self) -> Option<Range<u64>> {
        let start = self.plan.start;
        let end = self.plan.end.min(start.checked_add(self.piece_bytes)?);
        self.plan.start = end;
        let piece = start..end;
        if piece.is_empty() {
            return None;
        }
        let held = self.file.0.lock();
        let is_ahead = held.streams.is_still_ahead(self.stream, &piece);
        drop(held);
        if !is_ahead {
            self.give_up(&piece);
            return None;
        }
        Some(piece)
    }

    /// Nothing more is begun, from this piece on.
    pub(super) fn give_up(&mut self, piece: &Range<u64>) {
        self.plan = piece.end..piece.end;
        let mut held = self.file.0.lock();
        held.streams.not_begun(self.stream, piece.start);
    }

    /// A piece is begun. `None` where the file is being changed, or was since the READ found it.
    pub(super) fn add(
        &self,
        ahead: &Ahead,
        gate: &Gate,
        piece: &Range<u64>,
        counters: &Arc<IoCounters>,
    ) -> Option<Filler> {
        let is_quiet = gate.is_quiet() && gate.changes() == self.stamp.changes;
        if !is_quiet {
            return None;
        }
        let slot = Slot::new();
        let filler = Filler(Arc::clone(&slot));
        let mut held = self.file.0.lock();
        held.pieces.push(Piece {
            stream: self.stream,
            range: piece.clone(),
            stamp: self.stamp,
            begun: Instant::now(),
            slot,
            counted: Counted {
                // The last piece reaches to the alignment behind the file's end.
                bytes: piece.end.min(self.stamp.size).saturating_sub(piece.start),
                used: 0,
                why: Dropped::Closed,
                counters: Arc::clone(counters),
            },
        });
        let is_listed = std::mem::replace(&mut held.listed, true);
        drop(held);
        if !is_listed {
            ahead.list(&self.file);
        }
        Some(filler)
    }

    /// The bytes of a piece that is all that was asked for and no more, once they are read.
    pub(super) async fn take_whole(&self) -> Option<Bytes> {
        let asked = &self.asked;
        let mut piece = {
            let mut held = self.file.0.lock();
            let is_all = |piece: &Piece| {
                let end = piece.range.end.min(self.stamp.size);
                piece.stream == self.stream && (piece.range.start..end) == *asked
            };
            let at = held.pieces.iter().position(is_all)?;
            held.pieces.swap_remove(at)
        };
        let take = |outcome: &mut Outcome| std::mem::replace(outcome, Outcome::Gone);
        let wanted = usize::try_from(asked.end - asked.start).ok()?;
        match piece.slot.when_known(take).await {
            Outcome::Read(mut bytes) if bytes.data.len() >= wanted => {
                bytes.data.truncate(wanted);
                piece.counted.used = piece.counted.bytes;
                self.file.0.lock().streams.answered(self.stream);
                Some(bytes)
            }
            Outcome::Read(_) | Outcome::Gone | Outcome::UnderWay => {
                piece.counted.why = Dropped::Failed;
                self.file.0.lock().streams.lost(self.stream);
                None
            }
        }
    }

    /// Copies what was asked for into the beginning of `out`, once it is read. False where that is not all
    /// there: then `out` holds nothing of use.
    ///
    /// # Errors
    /// [`Error::Invalid`] where `out` is shorter than what was asked for: a mistake of ours.
    pub(super) async fn copy_into(&self, out: &mut [u8], now: Instant) -> Result<bool> {
        let slots: Vec<(Arc<Slot>, Range<usize>, Range<usize>)> = {
            let mut held = self.file.0.lock();
            let old = held.take_old(now);
            let parts = held.parts(self.stream, &self.asked);
            let parts = parts.into_iter().filter_map(|(index, part)| {
                let piece = held.pieces.get(index)?;
                let from = within(&part, piece.range.start)?;
                Some((
                    Arc::clone(&piece.slot),
                    from,
                    within(&part, self.asked.start)?,
                ))
            });
            let parts = parts.collect();
            drop(held);
            drop(old);
            parts
        };
        if slots.is_empty() {
            return Ok(false);
        }
        for (slot, from, to) in slots {
            let out = out.get_mut(to).ok_or(Error::Invalid)?;
            let is_there = slot.when_known(|outcome| matches!(outcome, Outcome::Read(_)));
            if !is_there.await {
                return Ok(false);
            }
            // Looked at once more, because of the lock: an answer may have taken it since.
            let outcome = slot.outcome.lock();
            let Outcome::Read(bytes) = &*outcome else {
                return Ok(false);
            };
            match bytes.data.get(from) {
                Some(bytes) => out.copy_from_slice(bytes),
                None => return Ok(false),
            }
        }
        self.copied();
        Ok(true)
    }

    /// Takes note that what was asked for was copied; pieces that were used up go.
    fn copied(&self) {
        let mut held = self.file.0.lock();
        for (index, part) in held.parts(self.stream, &self.asked) {
            if let Some(piece) = held.pieces.get_mut(index) {
                piece.counted.used += part.end - part.start;
            }
        }
        let used_up = held.take_if(|piece| {
            let is_used_up = piece.counted.used >= piece.counted.bytes;
            is_used_up.then_some(Dropped::Unasked)
        });
        held.streams.answered(self.stream);
        drop(held);
        drop(used_up);
    }
}

/// Where `part` is in what begins at `start`.
fn within(part: &Range<u64>, start: u64) -> Option<Range<usize>> {
    let place = |at: u64| usize::try_from(at.checked_sub(start)?).ok();
    Some(place(part.start)?..place(part.end)?)
}

#[cfg(test)]
mod tests;
