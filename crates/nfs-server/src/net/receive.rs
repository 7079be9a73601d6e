//! Records on their way in: cut from the stream, incrementally, within bounds.
//!
//! A small record that is complete in the bytes at hand is taken as it is. What is incomplete is kept,
//! up to [`limits::CALL_BYTES_UNACCOUNTED_MAX`] for free; beyond that the memory budget is asked
//! first. The data of a large WRITE is received into a buffer of its own, placed so that what is
//! aligned in the file is aligned in memory.
//!
//! At first, and after each large WRITE, another is expected: no more is read than its head has, so that
//! its data goes from the socket to its place, and is copied by nobody ([`Receiver::read_limit`]). Any
//! other call widens that step by step, up to [`limits::CALLS_READ_BYTES_MAX`]: small calls that come in
//! numbers are read in numbers.

use nfs_io::{Buf, Reservation};
use nfs_wire::limits::DATA_BYTES_MAX;
use nfs_wire::record::FragmentHeader;

use crate::front::dispatch::{WriteCut, write_head_len};
use crate::limits;

/// One connection's state between reads.
pub(crate) struct Receiver {
    state: State,
    /// The record so far, without marks.
    record: Vec<u8>,
    fragments: u32,
    /// The record was looked at and is no WRITE to be cut.
    judged: bool,
    /// Where the WRITE whose data is waited for is cut.
    cut: Option<WriteCut>,
    /// The head's length of the last WRITE that was cut; 0 before the first.
    head_len: usize,
    /// Bytes that may be read from the socket when a call begins.
    window: usize,
    /// Bytes of the WRITE's data that came with other bytes and were copied to their place.
    copied: usize,
    /// What the record's memory was reserved with, once it is large.
    reservation: Option<Reservation>,
    io_bytes_max: u32,
}

enum State {
    /// Within a fragment's mark.
    Mark { bytes: [u8; 4], have: usize },
    /// Within a fragment.
    Fragment { last: bool, left: usize },
    /// Within a WRITE's data.
    Payload {
        data: Buf,
        filled: usize,
        padding: usize,
    },
}

/// What the bytes so far come to.
pub(crate) enum Step {
    /// All bytes are used up, and no call is complete.
    More,
    Call(Received),
    /// The call goes on with memory: [`Receiver::reserved`] or [`Receiver::received_into`].
    Memory(Wanted),
}

/// A whole call.
pub(crate) struct Received {
    /// The record, without a WRITE's data where that was received apart.
    pub(crate) record: Vec<u8>,
    /// A WRITE's data, where it was received apart.
    pub(crate) data: Option<Buf>,
    /// How much of that had to be copied, bytes.
    pub(crate) copied: usize,
    /// What a long record is held with; `None` for one up to [`WHOLE_BYTES`], of which the number of
    /// calls in progress bounds how many there are. (A call that holds memory must not wait for
    /// more: all of them together could wait for ever.)
    pub(crate) reservation: Option<Reservation>,
}

/// What memory a call needs before more of it is read.
pub(crate) enum Wanted {
    /// For the record itself, bytes.
    Record(usize),
    /// For a WRITE's data.
    Data {
        /// Bytes.
        len: usize,
        /// How far behind a page's beginning it is to start.
        start: usize,
    },
}

/// The peer does not speak ONC RPC, or asks too much.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadRecord {
    #[error("a record longer than any call")]
    TooLong,
    #[error("a record in too many fragments")]
    TooManyFragments,
}

/// A WRITE's head is looked for once this much of the record is here: longer than any head
/// (RPC header with two 400-byte bodies, handle, and fixed fields).
const HEAD_BYTES: usize = 1024;
/// A call up to this that arrived whole is taken without asking the memory budget: the number of
/// calls in progress bounds how many there are.
pub(crate) const WHOLE_BYTES: usize = 16 << 10;
/// A WRITE below this is taken whole: copying it costs less than another buffer and read.
const SPLIT_BYTES: usize = 8192;
const MARK_BYTES: usize = 4;
/// By how much a call that is no large WRITE widens what is read at once.
const WIDENING: usize = 8;

impl Receiver {
    pub(crate) fn new(io_bytes_max: u32) -> Self {
        Self {
            state: State::Mark {
                bytes: [0; 4],
                have: 0,
            },
            record: Vec::new(),
            fragments: 0,
            judged: false,
            cut: None,
            head_len: 0,
            window: MARK_BYTES + HEAD_BYTES,
            copied: 0,
            reservation: None,
            io_bytes_max,
        }
    }

    /// True when no call is half received.
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.state, State::Mark { have: 0, .. }) && self.record.is_empty()
    }

    /// True when it holds memory of the budget that others may wait for.
    pub(crate) fn holds_memory(&self) -> bool {
        self.reservation.is_some() || matches!(self.state, State::Payload { .. })
    }

    /// The most bytes to read from the socket beyond [`Receiver::direct`]. What is read beyond this
    /// may be data that would have to be copied.
    pub(crate) fn read_limit(&self) -> usize {
        match &self.state {
            State::Mark { have, .. } if self.fragments == 0 => self.window.saturating_sub(*have),
            State::Mark { .. } => usize::MAX,
            State::Fragment { last: true, left } if self.is_unjudged(*left) => {
                self.head_end() - self.record.len()
            }
            State::Fragment { left, .. } => self.window.saturating_add(*left),
            State::Payload { padding, .. } => self.window.saturating_add(*padding),
        }
    }

    /// Where the next bytes of the stream belong, when that is a WRITE's buffer.
    pub(crate) fn direct(&mut self) -> Option<&mut [u8]> {
        match &mut self.state {
            State::Payload { data, filled, .. } => {
                data.get_mut(*filled..).filter(|rest| !rest.is_empty())
            }
            State::Mark { .. } | State::Fragment { .. } => None,
        }
    }

    /// `len` bytes were received into [`Receiver::direct`].
    pub(crate) fn received(&mut self, len: usize) {
        if let State::Payload { filled, .. } = &mut self.state {
            *filled += len;
        }
    }

    /// Takes bytes from the front of the stream until a call is complete or something is needed.
    pub(crate) fn feed(&mut self, bytes: &mut &[u8]) -> Result<Step, BadRecord> {
        loop {
            match &mut self.state {
                State::Mark { bytes: mark, have } => {
                    let Some(place) = mark.get_mut(*have..) else {
                        return Err(BadRecord::TooLong);
                    };
                    let len = move_bytes(bytes, place);
                    *have += len;
                    if *have < 4 {
                        return Ok(Step::More);
                    }
                    let mark = FragmentHeader::parse(*mark);
                    self.fragment(&mark)?;
                }
                State::Fragment { last, left } => {
                    let (last, left) = (*last, *left);
                    if let Some(step) = self.in_fragment(bytes, last, left)? {
                        return Ok(step);
                    }
                }
                State::Payload {
                    data,
                    filled,
                    padding,
                } => {
                    if let Some(place) = data.get_mut(*filled..) {
                        let moved = move_bytes(bytes, place);
                        *filled += moved;
                        self.copied += moved;
                    }
                    let skipped = (*padding).min(bytes.len());
                    if *filled < data.len() {
                        return Ok(Step::More);
                    }
                    *bytes = bytes.get(skipped..).unwrap_or_default();
                    *padding -= skipped;
                    if *padding > 0 {
                        return Ok(Step::More);
                    }
                    return Ok(self.end_of_record());
                }
            }
        }
    }

    /// The budget gave what [`Wanted::Record`] asked for.
    pub(crate) fn reserved(&mut self, reservation: Reservation) {
        self.reservation = Some(reservation);
        if let (State::Fragment { left, .. }, 1) = (&self.state, self.fragments) {
            // Reserved for all of it: growing step by step would take twice as much.
            self.record.reserve_exact(*left);
        }
    }

    /// The budget gave the buffer that [`Wanted::Data`] asked for.
    pub(crate) fn received_into(&mut self, mut data: Buf) {
        let State::Fragment { left, .. } = self.state else {
            return;
        };
        let Some(cut) = self.cut.take() else { return };
        // What came with the head beyond it is the beginning of the data.
        let total = self.record.len() + left;
        let early = self.record.split_off(cut.head_len);
        let filled = early.len().min(data.len());
        if let (Some(place), Some(bytes)) = (data.get_mut(..filled), early.get(..filled)) {
            place.copy_from_slice(bytes);
        }
        self.head_len = cut.head_len;
        self.window = MARK_BYTES + cut.head_len;
        self.copied = filled;
        // Padding, and of a WRITE beyond wtmax what will not be written.
        let padding = total - cut.head_len - data.len() - (early.len() - filled);
        self.state = State::Payload {
            data,
            filled,
            padding,
        };
    }

    fn fragment(&mut self, mark: &FragmentHeader) -> Result<(), BadRecord> {
        self.fragments += 1;
        if self.fragments > limits::FRAGMENTS_PER_RECORD_MAX {
            return Err(BadRecord::TooManyFragments);
        }
        let left = mark.len as usize;
        // A WRITE beyond wtmax is told by its head; it becomes a short one (RFC 1813 §3.3.7).
        let longest = match (mark.last, self.fragments) {
            (true, 1) => self.longest().max(DATA_BYTES_MAX + HEAD_BYTES + 4),
            _ => self.longest(),
        };
        if self.record.len().saturating_add(left) > longest {
            return Err(BadRecord::TooLong);
        }
        self.state = State::Fragment {
            last: mark.last,
            left,
        };
        Ok(())
    }

    /// The longest record, bytes: the largest WRITE, or a call without data.
    fn longest(&self) -> usize {
        (self.io_bytes_max as usize + HEAD_BYTES + 4).max(limits::CALL_BYTES_MAX)
    }

    /// Moves a fragment's bytes into the record. `None`: the state moved on, look again.
    fn in_fragment(
        &mut self,
        bytes: &mut &[u8],
        last: bool,
        left: usize,
    ) -> Result<Option<Step>, BadRecord> {
        let total = self.record.len() + left;
        let single = last && self.fragments == 1;
        // Of a long record only a head is taken at first, to see what it is.
        let unjudged = last && self.is_unjudged(left);
        let take = if unjudged {
            self.head_end() - self.record.len()
        } else {
            left
        };
        // A call that is here whole is gone from here at once.
        let whole = last && left <= bytes.len() && total <= WHOLE_BYTES;
        let kept = if whole {
            WHOLE_BYTES
        } else {
            limits::CALL_BYTES_UNACCOUNTED_MAX
        };
        let free = kept.max(self.reserved_bytes());
        let room = free.saturating_sub(self.record.len());
        let moved = take.min(left).min(room).min(bytes.len());
        let (now, rest) = bytes.split_at_checked(moved).ok_or(BadRecord::TooLong)?;
        self.record.extend_from_slice(now);
        *bytes = rest;
        let left = left - now.len();
        self.state = State::Fragment { last, left };
        if left == 0 {
            if last {
                return Ok(Some(self.end_of_record()));
            }
            self.state = State::Mark {
                bytes: [0; 4],
                have: 0,
            };
            return Ok(None);
        }
        if unjudged && now.len() == take {
            self.cut = write_head_len(&self.record, total, self.io_bytes_max);
            if let Some(cut) = self.cut {
                return Ok(Some(Step::Memory(cut.wanted())));
            }
            self.judged = self.record.len() >= HEAD_BYTES;
            if self.judged && total > self.longest() {
                return Err(BadRecord::TooLong);
            }
        }
        if room == now.len() && self.reservation.is_none() {
            // Of a record in several fragments nobody knows how long it will be.
            let wanted = if single { total } else { self.longest() };
            return Ok(Some(Step::Memory(Wanted::Record(wanted))));
        }
        Ok(bytes.is_empty().then_some(Step::More))
    }

    /// Is this a record, with `left` bytes to come, of which it is not known yet whether it is a
    /// large WRITE?
    fn is_unjudged(&self, left: usize) -> bool {
        self.fragments == 1 && !self.judged && self.record.len() + left > SPLIT_BYTES
    }

    /// Up to here a long record is read to be judged: as long as the last WRITE's head was, or
    /// as long as any head is.
    fn head_end(&self) -> usize {
        if self.record.len() < self.head_len {
            self.head_len
        } else {
            HEAD_BYTES
        }
    }

    fn reserved_bytes(&self) -> usize {
        let bytes = self.reservation.as_ref().map_or(0, Reservation::bytes);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    fn end_of_record(&mut self) -> Step {
        let state = std::mem::replace(
            &mut self.state,
            State::Mark {
                bytes: [0; 4],
                have: 0,
            },
        );
        let data = match state {
            State::Payload { data, .. } => Some(data),
            State::Mark { .. } | State::Fragment { .. } => None,
        };
        if data.is_none() {
            let wider = self.window.saturating_mul(WIDENING);
            self.window = wider.min(limits::CALLS_READ_BYTES_MAX);
        }
        self.fragments = 0;
        self.judged = false;
        let record = std::mem::take(&mut self.record);
        let reservation = self.reservation.take();
        Step::Call(Received {
            reservation: reservation.filter(|_| record.len() > WHOLE_BYTES),
            record,
            data,
            copied: std::mem::take(&mut self.copied),
        })
    }
}

impl WriteCut {
    fn wanted(&self) -> Wanted {
        Wanted::Data {
            len: self.data_len,
            start: self.placement,
        }
    }
}

fn move_bytes(from: &mut &[u8], to: &mut [u8]) -> usize {
    let len = from.len().min(to.len());
    if let (Some((now, rest)), Some(place)) = (from.split_at_checked(len), to.get_mut(..len)) {
        place.copy_from_slice(now);
        *from = rest;
    }
    len
}

#[cfg(test)]
mod tests;
