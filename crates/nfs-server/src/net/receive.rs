//! Records on their way in: cut from the stream, incrementally, within bounds.
//!
//! A small record that is complete in the bytes at hand is taken as it is; the data of a small WRITE is copied from
//! there to its buffer, once. What is incomplete is kept,
//! up to [`limits::CALL_BYTES_UNACCOUNTED_MAX`] for free; beyond that the memory budget is asked
//! first. The data of a large WRITE is received into a buffer of its own, placed so that what is
//! aligned in the file is aligned in memory; where in the record it stands is for
//! [`look`] to say. What follows it, as operations of a COMPOUND may, is kept with the record's beginning.
//!
//! At first, and after each large WRITE, another is expected: no more is read than its head has, so that
//! its data goes from the socket to its place, and is copied by nobody ([`Receiver::read_limit`]). Any
//! other call widens that step by step, up to [`limits::CALLS_READ_BYTES_MAX`]: small calls that come in
//! numbers are read in numbers.

use std::time::Duration;

use nfs_io::limits::COPY_LARGE_BYTES_MIN;
use nfs_io::{Buf, BufferPool, Reservation};
use nfs_wire::limits::{DATA_BYTES_MAX, WRITE_TAIL_BYTES_MAX};
use nfs_wire::record::{self, MARK_BYTES, RecordCutter, RecordError, RecordLimits, Verdict};

use super::receive_shares::Taken;
use crate::front::dispatch::{Apart, Begun, Call, Look, Place, look};
use crate::limits;

/// One connection's state between reads.
pub(crate) struct Receiver {
    cutter: RecordCutter,
    /// The place that the data of a WRITE needs.
    wanted: Option<Place>,
    /// The data that is being received.
    apart: Option<Box<Apart>>,
    /// What of its client's share the call on its way has.
    taken: Option<Taken>,
    /// What the record's memory was reserved with, once it is large.
    reservation: Option<Reservation>,
    /// Where the data of a small WRITE is copied to.
    buffers: BufferPool,
    io_bytes_max: u32,
    /// When the latest bytes were read, and when the first of the call on its way were, in ticks.
    read_at: u64,
    first_bytes: u64,
}

/// What the bytes so far come to.
pub(crate) enum Step {
    /// All bytes are used up, and no call is complete.
    More,
    Call(Call),
    /// The call goes on with memory: [`Receiver::reserved`] or [`Receiver::received_into`].
    Memory(Wanted),
}

/// What memory a call needs before more of it is read.
pub(crate) enum Wanted {
    /// Room in the budget for the record itself, bytes.
    Record(usize),
    /// A buffer for the data of a WRITE.
    Data {
        /// The length of the data in bytes.
        len: usize,
        /// How far behind a page's beginning the data is to start in memory, in bytes.
        start: usize,
    },
}

impl Wanted {
    /// How much of its client's share the call takes.
    pub(crate) fn bytes(&self) -> u64 {
        match *self {
            Self::Record(bytes) | Self::Data { len: bytes, .. } => bytes as u64,
        }
    }

    /// Whether it is for data that may wait until what came before it is copied ([`nfs_io::engine::Copies`]).
    pub(crate) fn is_large(&self) -> bool {
        matches!(*self, Self::Data { len, .. } if len >= COPY_LARGE_BYTES_MIN)
    }
}

/// The peer does not speak ONC RPC, or asks too much.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadRecord {
    #[error("{0}")]
    Marking(#[from] RecordError),
    #[error("a call that needs more memory than there is")]
    TooLarge,
}

/// The data of a WRITE below this is read with its record and copied: that costs less than another read.
const SPLIT_BYTES: usize = 8192;
/// A record from here on may be such a WRITE; nearly all others have some hundred bytes.
const COPIED_APART_BYTES_MIN: usize = 1024;

impl Receiver {
    /// `buffers`: for the data of small WRITEs. What is larger asks for its buffer ([`Wanted::Data`]).
    pub(crate) fn new(io_bytes_max: u32, buffers: BufferPool) -> Self {
        Self {
            cutter: RecordCutter::new(record_limits(io_bytes_max)),
            wanted: None,
            apart: None,
            taken: None,
            reservation: None,
            buffers,
            io_bytes_max,
            read_at: 0,
            first_bytes: 0,
        }
    }

    /// Bytes were read at that time, in ticks: those that it is fed next, or that were received in their place.
    pub(crate) fn was_read(&mut self, at: u64) {
        if self.is_idle() {
            self.first_bytes = at;
        }
        self.read_at = at;
    }

    /// True when no call is half received.
    pub(crate) fn is_idle(&self) -> bool {
        self.cutter.is_between_records()
    }

    /// True when it holds memory of the budget that others may wait for.
    pub(crate) fn holds_memory(&self) -> bool {
        let has_buffer = |apart: &Apart| apart.payload.is_some();
        self.reservation.is_some() || self.apart.as_deref().is_some_and(has_buffer)
    }

    /// How long a call on its way has had memory for.
    pub(crate) fn held_for(&self) -> Option<Duration> {
        self.taken.as_ref().map(Taken::held_for)
    }

    /// The WRITE whose data a buffer is wanted for.
    pub(crate) fn begun(&self) -> Option<&Begun> {
        self.wanted.as_ref().map(|place| &place.begun)
    }

    /// The most bytes to read from the socket beyond [`Receiver::direct`]. What is read beyond this
    /// may be data that would have to be copied.
    pub(crate) fn read_limit(&self) -> usize {
        let has_no_buffer = |apart: &Apart| apart.payload.is_none();
        let dropped = if self.apart.as_deref().is_some_and(has_no_buffer) {
            self.cutter.payload_room()
        } else {
            0
        };
        self.cutter.read_limit().saturating_add(dropped)
    }

    /// Where the next bytes of the stream belong, when that is a WRITE's buffer.
    pub(crate) fn direct(&mut self) -> Option<&mut [u8]> {
        let from = self.cutter.payload_filled();
        let to = from + self.cutter.payload_room();
        let data = self.apart.as_mut()?.range_mut(from, to);
        (!data.is_empty()).then_some(data)
    }

    /// `len` bytes were received into [`Receiver::direct`].
    pub(crate) fn received(&mut self, len: usize) {
        self.cutter.received_payload(len);
    }

    /// Takes bytes from the front of the stream until a call is complete or something is needed.
    pub(crate) fn feed(&mut self, bytes: &mut &[u8]) -> Result<Step, BadRecord> {
        loop {
            let (io_bytes_max, wanted) = (self.io_bytes_max, &mut self.wanted);
            let judge = |beginning: &[u8], total| match look(beginning, total, io_bytes_max) {
                Look::More { bytes } => Verdict::More { bytes },
                Look::Whole => Verdict::Whole,
                Look::Apart(place) => {
                    *wanted = Some(place);
                    Verdict::Hole(place.hole)
                }
            };
            match self.cutter.feed(bytes, judge)? {
                record::Step::More => return Ok(Step::More),
                record::Step::Hole(hole) => {
                    let start = self.wanted.map_or(0, |place| place.start);
                    let len = hole.len;
                    return Ok(Step::Memory(Wanted::Data { len, start }));
                }
                record::Step::Memory { bytes } => {
                    return Ok(Step::Memory(Wanted::Record(bytes)));
                }
                record::Step::Payload { at, bytes } => {
                    if let Some(apart) = &mut self.apart {
                        apart.copy_in(at, bytes);
                    }
                }
                record::Step::Record(record) => {
                    let missing = record.missing;
                    let is_whole = self.apart.is_none();
                    let split = is_whole.then(|| split(&record.bytes, &self.buffers, io_bytes_max));
                    let record = match split.flatten() {
                        Some((record, apart)) => {
                            self.apart = Some(apart);
                            record
                        }
                        None => record.bytes.into_owned(),
                    };
                    return Ok(Step::Call(self.call(record, missing)));
                }
            }
        }
    }

    fn call(&mut self, record: Vec<u8>, missing: usize) -> Call {
        self.wanted = None;
        self.taken = None;
        let reservation = self.reservation.take();
        let mut apart = self.apart.take();
        if let Some(apart) = &mut apart {
            apart.missing = missing;
        }
        // What is behind it in the same bytes is the next one's.
        let first_bytes = std::mem::replace(&mut self.first_bytes, self.read_at);
        Call {
            first_bytes,
            apart,
            reservation: reservation.filter(|_| record.len() > limits::CALL_BYTES_WHOLE_MAX),
            record,
        }
    }

    /// The call on its way has so much of its client's share.
    pub(crate) fn took(&mut self, taken: Taken) {
        self.taken = Some(taken);
    }

    /// The budget gave what [`Wanted::Record`] asked for.
    pub(crate) fn reserved(&mut self, reservation: Reservation) {
        let bytes = usize::try_from(reservation.bytes()).unwrap_or(usize::MAX);
        self.cutter.grant(bytes);
        self.reservation = Some(reservation);
    }

    /// The budget gave the buffer that [`Wanted::Data`] asked for.
    pub(crate) fn received_into(&mut self, data: Buf) {
        let place = self.wanted.take();
        self.apart = place.map(|place| Box::new(place.receive_into(Some(data))));
    }

    /// The data that [`Wanted::Data`] is about is not wanted: it is received and dropped.
    pub(crate) fn received_into_nothing(&mut self) {
        let place = self.wanted.take();
        self.apart = place.map(|place| Box::new(place.receive_into(None)));
    }
}

/// Copies the data of a small WRITE, of which all bytes are at hand, to where it is written from, and what else is in
/// the record to a place of its own. `None` for any other call, and where no buffer is to be had at once: then the
/// record is kept as it is, and the call waits for one.
fn split(record: &[u8], buffers: &BufferPool, io_bytes_max: u32) -> Option<(Vec<u8>, Box<Apart>)> {
    if !(COPIED_APART_BYTES_MIN..=SPLIT_BYTES).contains(&record.len()) {
        return None;
    }
    let Look::Apart(place) = look(record, Some(record.len()), io_bytes_max) else {
        return None;
    };
    let (head, rest) = record.split_at_checked(place.hole.at)?;
    let (data, tail) = rest.split_at_checked(place.hole.len)?;
    let tail = tail.get(place.hole.skipped..)?;
    if data.is_empty() {
        return None;
    }
    let buffer = buffers.try_take_placed(data.len(), place.start)?;
    let mut apart = Box::new(place.receive_into(Some(buffer)));
    apart.copy_in(0, data);
    Some(([head, tail].concat(), apart))
}

/// What is kept of a record with data is held without asking the budget, which holds the data already.
const _: () = assert!(
    limits::CALL_HEAD_BYTES_MAX + WRITE_TAIL_BYTES_MAX <= limits::CALL_BYTES_UNACCOUNTED_MAX,
    "a WRITE's head and tail are received without memory of the budget"
);

const fn record_limits(io_bytes_max: u32) -> RecordLimits {
    let head = limits::CALL_HEAD_BYTES_MAX + 4;
    let write = io_bytes_max as usize + head;
    RecordLimits {
        // A WRITE beyond wtmax is told by its head; it becomes a short one (RFC 1813 §3.3.7).
        record_bytes_max: DATA_BYTES_MAX + head,
        // The largest WRITE, when it comes in a way in which it is not received apart, or a call
        // without data.
        kept_bytes_max: if write > limits::CALL_BYTES_MAX {
            write
        } else {
            limits::CALL_BYTES_MAX
        },
        fragments_max: limits::FRAGMENTS_PER_RECORD_MAX,
        small_bytes_max: SPLIT_BYTES,
        in_place_bytes_max: limits::CALL_BYTES_WHOLE_MAX,
        unasked_bytes_max: limits::CALL_BYTES_UNACCOUNTED_MAX,
        head_bytes_max: limits::CALL_HEAD_BYTES_MAX,
        read_ahead_bytes_first: MARK_BYTES + limits::CALL_HEAD_BYTES_MAX,
        read_ahead_bytes_max: limits::CALLS_READ_BYTES_MAX,
    }
}

#[cfg(test)]
mod tests;
