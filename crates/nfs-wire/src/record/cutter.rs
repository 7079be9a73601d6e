//! Records out of a stream, with a hole where one is placed.
//!
//! The cutter holds what it was given of the record at hand and no more; it does no I/O. Who uses it
//! receives bytes, feeds them, and does what the [`Step`] says. A record that lies in the bytes at hand
//! whole is handed out as it lies there, without a copy.
//!
//! **Holes.** The beginning of a record that is not small is shown to a function of the user's. Where that
//! says that the record has a [`Hole`], the bytes there never come into the cutter's memory: they are to
//! be received straight to their place ([`RecordCutter::payload_room`]), and those that had been received
//! with others are handed out to be copied there ([`Step::Payload`]). What stands behind the hole
//! is put together with what stands before it.
//!
//! **How much to read.** Where a record with a hole is expected, no more may be read than its head has, as
//! every byte beyond it is one to copy. So after such a record no more is read than the head of that
//! one had; each record without a hole widens that, so that small ones that come in numbers are
//! read in numbers ([`RecordCutter::read_limit`]).

use std::borrow::Cow;

use super::fragments::{Fragments, Position};
use super::{MARK_BYTES, RecordError, RecordLimits, take_front};

/// Puts records together from the bytes of a stream as they arrive.
#[derive(Debug)]
pub struct RecordCutter {
    limits: RecordLimits,
    fragments: Fragments,
    /// The record so far, without the bytes of its hole.
    kept: Vec<u8>,
    plan: Plan,
    /// Bytes of the record that memory was granted for; 0 before it is asked for.
    granted: usize,
    /// Bytes before the hole of the last record that had one; 0 before the first.
    head_len: usize,
    /// Bytes to read at once where a record begins.
    read_ahead: usize,
}

/// Part of a record that is received to a place of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// How many bytes of the record come before the hole.
    pub at: usize,
    /// Bytes that are received apart, at least 1.
    pub len: usize,
    /// Bytes behind these that nobody needs and that are dropped: padding, and what is too much.
    pub skipped: usize,
}

/// What the beginning of a record tells about a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The beginning is too short to tell.
    More {
        /// How many bytes of the beginning are needed. Beyond
        /// [`RecordLimits::head_bytes_max`], which is also what to say when the number is not known, the
        /// record is taken to have no hole.
        bytes: usize,
    },
    /// The record has no hole: it is put together whole.
    Whole,
    /// The record has this hole. One that is empty or reaches beyond the record's end counts as none.
    Hole(Hole),
}

/// A record of which everything has come, its hole included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The record's bytes without those of the hole; borrowed where they lay in the bytes at hand.
    pub bytes: Cow<'a, [u8]>,
    /// The hole: its bytes belong before `bytes[hole.at]`.
    pub hole: Option<Hole>,
    /// How many bytes of the hole, the skipped ones included, the record ended without. More than 0 only
    /// where the record's beginning told a lie and its length was not known when the hole was placed.
    pub missing: usize,
}

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Receive more: all bytes were taken.
    More,
    /// A place for this hole is to be had before the next call.
    Hole(Hole),
    /// Copy these bytes to the place of the hole.
    Payload {
        /// Where the bytes belong, counted from the beginning of the hole.
        at: usize,
        /// The bytes to copy, at least one.
        bytes: &'a [u8],
    },
    /// The record goes on only after [`RecordCutter::grant`].
    Memory {
        /// Bytes that the record may come to.
        bytes: usize,
    },
    /// Take this record, of which everything has come.
    Record(Record<'a>),
}

/// What becomes of the record at hand.
#[derive(Clone, Copy, Debug)]
enum Plan {
    /// Not known: its beginning is shown when there is this much of it.
    Unknown { look_at: usize },
    /// The record has no hole and is put together as it is.
    Whole,
    /// The record has a hole, which is being filled.
    Hole(Opened),
}

/// A hole that is being filled.
#[derive(Clone, Copy, Debug)]
struct Opened {
    hole: Hole,
    filled: usize,
    skipped: usize,
    /// Bytes of `kept` from `hole.at` on that were handed out, and are removed by the next step.
    handed_out: usize,
}

/// By how much a record without a hole widens what is read at once.
const WIDENING: usize = 8;

impl RecordCutter {
    /// Begins with a stream's first byte.
    ///
    /// # Panics
    /// When a record's beginning may be longer than what is kept unasked.
    #[must_use]
    pub const fn new(limits: RecordLimits) -> Self {
        assert!(
            limits.head_bytes_max <= limits.unasked_bytes_max,
            "the beginning of a record is kept unasked"
        );
        Self {
            fragments: Fragments::new(limits.record_bytes_max, limits.fragments_max),
            kept: Vec::new(),
            plan: Plan::Unknown {
                look_at: limits.head_bytes_max,
            },
            granted: 0,
            head_len: 0,
            read_ahead: limits.read_ahead_bytes_first,
            limits,
        }
    }

    /// Takes bytes from the front of `bytes` as far as they go. Call it again with what it left, until it
    /// says [`Step::More`].
    ///
    /// `judge` is shown the beginning of a record, and the record's length where that is known: not in
    /// a fragment that is not the last. It is asked again while it wants more, and never about a record
    /// up to [`RecordLimits::small_bytes_max`]. A record may be empty.
    ///
    /// # Errors
    /// [`RecordError`] when a record breaks a limit; then on every further call too.
    pub fn feed<'s, 'b: 's>(
        &'s mut self,
        bytes: &mut &'b [u8],
        mut judge: impl FnMut(&[u8], Option<usize>) -> Verdict,
    ) -> Result<Step<'s>, RecordError> {
        self.drop_handed_out();
        if self.has_early_payload() {
            return Ok(self.hand_out_early_payload());
        }
        loop {
            let (left, last) = match self.position(bytes)? {
                Position::Mark { .. } => return Ok(Step::More),
                Position::Fragment { left, last } => (left, last),
                Position::End => {
                    let bytes = Cow::Owned(std::mem::take(&mut self.kept));
                    return Ok(Step::Record(self.end_record(bytes)));
                }
            };
            let step = match self.plan {
                Plan::Unknown { look_at } => self.look(bytes, left, last, look_at, &mut judge),
                Plan::Whole => self.keep(bytes, left, last, left)?,
                Plan::Hole(opened) => self.feed_hole(bytes, left, last, opened)?,
            };
            if let Some(step) = step {
                return Ok(step);
            }
        }
    }

    /// The next record, for a receiver that has no place for holes and need not be asked for memory. `None`:
    /// all bytes were taken, and more are wanted.
    ///
    /// # Errors
    /// As [`RecordCutter::feed`].
    pub fn feed_whole<'b>(
        &mut self,
        bytes: &mut &'b [u8],
    ) -> Result<Option<Cow<'b, [u8]>>, RecordError> {
        loop {
            let (left, last) = match self.position(bytes)? {
                Position::Mark { .. } => return Ok(None),
                Position::Fragment { left, last } => (left, last),
                Position::End => {
                    let bytes = Cow::Owned(std::mem::take(&mut self.kept));
                    return Ok(Some(self.end_record(bytes).bytes));
                }
            };
            match self.keep(bytes, left, last, left)? {
                Some(Step::Record(record)) => return Ok(Some(record.bytes)),
                Some(Step::Memory { bytes }) => self.grant(bytes),
                Some(Step::More) => return Ok(None),
                Some(Step::Hole(_) | Step::Payload { .. }) | None => {}
            }
        }
    }

    /// Gives the memory that [`Step::Memory`] asked for. The current fragment's part of it is
    /// reserved at once: growing step by step would take twice as much.
    pub fn grant(&mut self, bytes: usize) {
        self.granted = bytes;
        let room = bytes.saturating_sub(self.kept.len());
        self.kept.reserve_exact(self.fragments.left().min(room));
    }

    /// How many of the stream's next bytes belong to the hole: to be received there, and told by
    /// [`RecordCutter::received_payload`]. Of use after [`Step::More`]; 0 where there is no hole.
    #[must_use]
    pub fn payload_room(&self) -> usize {
        match self.plan {
            Plan::Hole(opened) if self.kept.len() == opened.hole.at => {
                (opened.hole.len - opened.filled).min(self.fragments.left())
            }
            Plan::Hole(_) | Plan::Unknown { .. } | Plan::Whole => 0,
        }
    }

    /// How many bytes of the hole are in their place; the next bytes belong behind them.
    #[must_use]
    pub const fn payload_filled(&self) -> usize {
        match &self.plan {
            Plan::Hole(opened) => opened.filled,
            Plan::Unknown { .. } | Plan::Whole => 0,
        }
    }

    /// Says that `len` bytes were received to the hole's place.
    ///
    /// # Panics
    /// When that is beyond [`RecordCutter::payload_room`], which is a mistake of the caller.
    pub fn received_payload(&mut self, len: usize) {
        assert!(
            len <= self.payload_room(),
            "more than the hole has is received"
        );
        if let Plan::Hole(opened) = &mut self.plan {
            opened.filled += len;
            self.fragments.take(len);
        }
    }

    /// How many of the stream's next bytes are of a long record that is put together whole: they may be
    /// received by [`RecordCutter::append`]. Of use after [`Step::More`].
    #[must_use]
    pub fn append_room(&self) -> usize {
        match self.plan {
            Plan::Whole => {
                let granted = self.granted.saturating_sub(self.kept.len());
                self.fragments.left().min(granted)
            }
            Plan::Hole(_) | Plan::Unknown { .. } => 0,
        }
    }

    /// Has `receive` append bytes of the stream to the record: at most as many as it is told.
    ///
    /// # Errors
    /// Those of `receive`.
    ///
    /// # Panics
    /// When `receive` appends more or takes something away.
    pub fn append<E>(
        &mut self,
        receive: impl FnOnce(&mut Vec<u8>, usize) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let room = self.append_room();
        let before = self.kept.len();
        self.kept.reserve_exact(room);
        let received = receive(&mut self.kept, room)?;
        let appended = self.kept.len().checked_sub(before);
        self.fragments
            .take(appended.expect("bytes are appended and none taken away"));
        Ok(received)
    }

    /// The most bytes to read now beyond [`RecordCutter::payload_room`], at least 1. What is read beyond
    /// this may be payload that would have to be copied. Of use after [`Step::More`].
    #[must_use]
    pub fn read_limit(&self) -> usize {
        let (have, left) = (self.kept.len(), self.fragments.left());
        let mark = MARK_BYTES - self.fragments.mark_have();
        if self.fragments.count() == 0 {
            let ahead = self.read_ahead.saturating_sub(self.fragments.mark_have());
            return ahead.max(mark);
        }
        match self.plan {
            Plan::Unknown { look_at } => {
                let head = look_at.saturating_sub(have).max(1);
                if left == 0 { mark + head } else { head }
            }
            Plan::Whole if left == 0 => usize::MAX,
            Plan::Whole => self.read_ahead.saturating_add(left),
            Plan::Hole(opened) if have < opened.hole.at => opened.hole.at - have,
            Plan::Hole(opened) => {
                let to_fill = opened.hole.len - opened.filled;
                match left.checked_sub(to_fill) {
                    // The hole goes on behind the next mark.
                    None => mark,
                    Some(behind) => self.read_ahead.saturating_add(behind),
                }
            }
        }
    }

    /// Whether the last record is complete and nothing of the next is here: where a peer may close
    /// the stream without losing anything.
    #[must_use]
    pub const fn is_between_records(&self) -> bool {
        self.fragments.is_between_records()
    }

    /// Bytes of memory that the record at hand has taken so far.
    #[must_use]
    pub fn kept_capacity(&self) -> usize {
        self.kept.capacity()
    }

    /// Finds out where the next byte of the stream belongs. With an error the record so far is given up.
    fn position(&mut self, bytes: &mut &[u8]) -> Result<Position, RecordError> {
        self.fragments
            .next(bytes)
            .inspect_err(|_| self.kept = Vec::new())
    }

    /// Shows a record's beginning to `judge` once there is enough of it.
    fn look<'b>(
        &mut self,
        bytes: &mut &'b [u8],
        left: usize,
        last: bool,
        look_at: usize,
        judge: &mut impl FnMut(&[u8], Option<usize>) -> Verdict,
    ) -> Option<Step<'b>> {
        let total = last.then_some(self.kept.len() + left);
        if total.is_some_and(|total| total <= self.limits.small_bytes_max) {
            self.plan = Plan::Whole;
            return None;
        }
        let at_hand: &'b [u8] = bytes;
        let here = at_hand.get(..left).unwrap_or(at_hand);
        let (verdict, shown) = if self.kept.is_empty() && here.len() >= look_at {
            (judge(here, total), here.len())
        } else {
            let wanted = look_at.saturating_sub(self.kept.len());
            let taken = take_front(bytes, wanted.min(left));
            self.kept.extend_from_slice(taken);
            self.fragments.take(taken.len());
            if self.kept.len() < look_at {
                // Else the fragment is at its end and others follow.
                return (taken.len() < left).then_some(Step::More);
            }
            (judge(&self.kept, total), self.kept.len())
        };
        match verdict {
            Verdict::More { bytes } if shown < self.limits.head_bytes_max => {
                let look_at = bytes.clamp(shown + 1, self.limits.head_bytes_max);
                self.plan = Plan::Unknown { look_at };
                None
            }
            Verdict::Hole(hole) if hole.len > 0 && total.is_none_or(|total| hole.fits(total)) => {
                self.open(hole);
                Some(Step::Hole(hole))
            }
            Verdict::More { .. } | Verdict::Whole | Verdict::Hole(_) => {
                self.plan = Plan::Whole;
                None
            }
        }
    }

    fn open(&mut self, hole: Hole) {
        self.head_len = hole.at;
        self.read_ahead = MARK_BYTES + hole.at;
        self.plan = Plan::Hole(Opened {
            hole,
            filled: 0,
            skipped: 0,
            handed_out: 0,
        });
    }

    /// Takes bytes of a fragment of a record that has a hole.
    fn feed_hole<'b>(
        &mut self,
        bytes: &mut &'b [u8],
        left: usize,
        last: bool,
        opened: Opened,
    ) -> Result<Option<Step<'b>>, RecordError> {
        let Opened {
            hole,
            filled,
            skipped,
            ..
        } = opened;
        self.check_len(left)?;
        if self.kept.len() < hole.at {
            return self.keep(bytes, left, last, hole.at - self.kept.len());
        }
        if filled == hole.len && skipped == hole.skipped {
            return self.keep(bytes, left, last, left);
        }
        if bytes.is_empty() {
            return Ok(Some(Step::More));
        }
        let to_fill = hole.len - filled;
        let wanted = if to_fill > 0 {
            to_fill
        } else {
            hole.skipped - skipped
        };
        let taken = take_front(bytes, wanted.min(left));
        self.fragments.take(taken.len());
        if to_fill == 0 {
            let skipped = skipped + taken.len();
            self.plan = Plan::Hole(Opened { skipped, ..opened });
            return Ok(None);
        }
        self.plan = Plan::Hole(Opened {
            filled: filled + taken.len(),
            ..opened
        });
        Ok(Some(Step::Payload {
            at: filled,
            bytes: taken,
        }))
    }

    /// The length in bytes that the record has at the end of this fragment, of which `left` bytes are to come,
    /// without those of its hole. Asked as soon as a hole is known, so that where a stream is cut decides
    /// nothing about when a record is refused.
    ///
    /// # Errors
    /// [`RecordError::TooLarge`] when that is more than may be kept.
    fn check_len(&mut self, left: usize) -> Result<usize, RecordError> {
        let total = self.kept.len().saturating_add(left);
        let without_hole = total.saturating_sub(self.plan.hole_left());
        if without_hole > self.limits.kept_bytes_max {
            self.kept = Vec::new();
            return Err(self.fragments.fail(RecordError::TooLarge {
                len: without_hole as u64,
                max: self.limits.kept_bytes_max,
            }));
        }
        Ok(without_hole)
    }

    /// Moves at most `most` bytes of the fragment into the record, as far as memory is allowed. `None`:
    /// the plan moved on, or the fragment is at its end.
    fn keep<'b>(
        &mut self,
        bytes: &mut &'b [u8],
        left: usize,
        last: bool,
        most: usize,
    ) -> Result<Option<Step<'b>>, RecordError> {
        let without_hole = self.check_len(left)?;
        let total = self.kept.len().saturating_add(left);
        let at_hand = last && left <= bytes.len() && total <= self.limits.in_place_bytes_max;
        let has_hole = matches!(self.plan, Plan::Hole(_));
        if at_hand && self.kept.is_empty() && !has_hole {
            let record = take_front(bytes, left);
            self.fragments.take(left);
            self.fragments.end_record();
            let record = self.end_record(Cow::Borrowed(record));
            return Ok(Some(Step::Record(record)));
        }
        let free = if at_hand {
            self.limits.in_place_bytes_max
        } else {
            self.limits.unasked_bytes_max.max(self.granted)
        };
        let wanted = most.min(left);
        let room = free.saturating_sub(self.kept.len());
        let taken = take_front(bytes, wanted.min(room));
        self.kept.extend_from_slice(taken);
        self.fragments.take(taken.len());
        if taken.len() == wanted {
            return Ok(None);
        }
        if taken.len() == room && self.granted == 0 {
            // Of a record in several fragments nobody knows how long it will be.
            let is_single = last && self.fragments.count() == 1;
            let bytes = if is_single {
                without_hole
            } else {
                self.limits.kept_bytes_max
            };
            return Ok(Some(Step::Memory { bytes }));
        }
        Ok(Some(Step::More))
    }

    /// Removes what the last step handed out, and of what is to be skipped as much as is here.
    fn drop_handed_out(&mut self) {
        let Plan::Hole(opened) = &mut self.plan else {
            return;
        };
        let mut gone = std::mem::take(&mut opened.handed_out);
        let behind = self.kept.len().saturating_sub(opened.hole.at + gone);
        if opened.filled == opened.hole.len && opened.skipped < opened.hole.skipped {
            let skipped = behind.min(opened.hole.skipped - opened.skipped);
            opened.skipped += skipped;
            gone += skipped;
        }
        if gone > 0 {
            self.kept.drain(opened.hole.at..opened.hole.at + gone);
        }
    }

    /// Whether bytes of the hole came with the record's beginning and are not handed out yet.
    fn has_early_payload(&self) -> bool {
        match &self.plan {
            Plan::Hole(opened) => {
                opened.filled < opened.hole.len && self.kept.len() > opened.hole.at
            }
            Plan::Unknown { .. } | Plan::Whole => false,
        }
    }

    fn hand_out_early_payload(&mut self) -> Step<'_> {
        let Plan::Hole(opened) = &mut self.plan else {
            return Step::More;
        };
        let at = opened.filled;
        let early = self.kept.get(opened.hole.at..).unwrap_or_default();
        let bytes = early.get(..opened.hole.len - at).unwrap_or(early);
        opened.filled += bytes.len();
        opened.handed_out = bytes.len();
        Step::Payload { at, bytes }
    }

    fn end_record<'b>(&mut self, bytes: Cow<'b, [u8]>) -> Record<'b> {
        let missing = self.plan.hole_left();
        let hole = match self.plan {
            Plan::Hole(opened) => Some(opened.hole),
            Plan::Unknown { .. } | Plan::Whole => None,
        };
        if hole.is_none() {
            let wider = self.read_ahead.saturating_mul(WIDENING);
            self.read_ahead = wider.min(self.limits.read_ahead_bytes_max);
        }
        let look_at = match self.head_len {
            0 => self.limits.head_bytes_max,
            head_len => head_len.min(self.limits.head_bytes_max),
        };
        self.plan = Plan::Unknown { look_at };
        self.granted = 0;
        Record {
            bytes,
            hole,
            missing,
        }
    }
}

impl Hole {
    fn fits(&self, total: usize) -> bool {
        let end = self.at.checked_add(self.len);
        let end = end.and_then(|end| end.checked_add(self.skipped));
        end.is_some_and(|end| end <= total)
    }
}

impl Plan {
    /// Bytes of the hole, the skipped ones included, that are still to come.
    fn hole_left(&self) -> usize {
        match self {
            Self::Hole(opened) => {
                (opened.hole.len - opened.filled) + (opened.hole.skipped - opened.skipped)
            }
            Self::Unknown { .. } | Self::Whole => 0,
        }
    }
}

#[cfg(test)]
mod tests;
