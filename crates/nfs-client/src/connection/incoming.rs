//! A connection's bytes on their way from the socket to the record cutter. No I/O beyond one read that is
//! handed in, no clock.
//!
//! Owns the read buffer. A record that lies in it whole is handed out in place; a longer one is put
//! together in memory of its own. The data of a reply whose call gave memory goes from the socket into
//! that memory, and with its rest the head of the next record is received: one system call, no copy.
//!
//! For that, no more than a head may be read where such a reply is expected, because what is read
//! beyond it has to be copied. After a reply with data another one is expected; each other record
//! widens what is read at once, so that small replies that come in numbers are read in numbers.

use std::borrow::Cow;
use std::io::{self, IoSliceMut};

use bytes::BufMut;
use nfs_io::Buf;
use nfs_wire::record::{Hole, RecordCutter, RecordError, RecordLimits, Step, Verdict};

use super::table::Memory;
use crate::limits::{READ_BUFFER_BYTES, REPLY_FRAGMENTS_MAX, REPLY_HEAD_BYTES_MAX};

/// A record up to this is never judged: copying its data costs less than a read of its own.
const SMALL_BYTES: usize = 8 * 1024;

/// One complete record of the stream.
pub(super) enum Record<'a> {
    /// It lay in the read buffer whole.
    InBuffer(&'a [u8]),
    /// It was put together in memory of its own.
    Own(Vec<u8>),
    /// Its data was received into the memory that its call gave.
    Placed(Placed),
}

/// A record whose data lies apart.
pub(super) struct Placed {
    /// The record up to its data.
    pub(super) head: Vec<u8>,
    /// The memory that the data was received into.
    pub(super) memory: Buf,
}

/// What is to be done with a long record, judged by its beginning.
pub(super) enum Judged {
    /// The beginning is too short to tell.
    More,
    /// It is put together in memory of its own.
    Whole,
    /// Its data is received into memory.
    Into(Destination),
}

/// Where the data of a record goes.
pub(super) struct Destination {
    pub(super) xid: u32,
    /// Bytes of the record before its data.
    pub(super) head_len: usize,
    /// Bytes of the data: not more than the memory holds. Data and padding end the record.
    pub(super) data_len: usize,
    pub(super) memory: Memory,
}

/// The state of one connection's incoming bytes.
pub(super) struct Incoming {
    buffer: Vec<u8>,
    /// The bytes in `taken..end` of `buffer` are here and not used up yet.
    taken: usize,
    end: usize,
    cutter: RecordCutter,
    /// Where the data of the record at hand goes, once it was judged to have some.
    destination: Option<Destination>,
    /// Bytes of data that came with other bytes and were copied to their place.
    copied: u64,
    record_bytes_max: usize,
}

impl Incoming {
    pub(super) fn new(record_bytes_max: usize) -> Self {
        Self {
            buffer: vec![0; READ_BUFFER_BYTES],
            taken: 0,
            end: 0,
            cutter: RecordCutter::new(record_limits(record_bytes_max)),
            destination: None,
            copied: 0,
            record_bytes_max,
        }
    }

    /// Forgets everything of the previous connection. The memory of a reply that was under way comes
    /// back with the xid of its call, as long as it was given.
    pub(super) fn reset(&mut self) -> Option<(u32, Memory)> {
        (self.taken, self.end) = (0, 0);
        self.cutter = RecordCutter::new(record_limits(self.record_bytes_max));
        let destination = self.destination.take()?;
        Some((destination.xid, destination.memory))
    }

    /// The bytes that were received last and are not used up. When the first record's mark is refused, they
    /// begin with it.
    pub(super) fn unused(&self) -> &[u8] {
        self.buffer.get(self.taken..self.end).unwrap_or_default()
    }

    /// Bytes of data that had to be copied since this was asked last.
    pub(super) fn take_copied(&mut self) -> u64 {
        std::mem::take(&mut self.copied)
    }

    /// Receives once to where the next bytes belong, by `read` (into one place after the other) or
    /// `append` (to the end of a vector, within its limit), and says how many bytes came; 0 when the
    /// peer has ended the stream. Call only after [`Self::next`] returned `None`.
    pub(super) fn receive(
        &mut self,
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
        append: impl FnOnce(&mut bytes::buf::Limit<&mut Vec<u8>>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        if self.cutter.append_room() > SMALL_BYTES {
            return self
                .cutter
                .append(|record, room| append(&mut record.limit(room)));
        }
        let limit = self.cutter.read_limit().min(self.buffer.len());
        let next = self.buffer.get_mut(..limit).unwrap_or_default();
        let (from, room) = (self.cutter.payload_filled(), self.cutter.payload_room());
        let data = match &mut self.destination {
            Some(to) => to.memory.buf.get_mut(from..from + room).unwrap_or_default(),
            None => &mut [],
        };
        let direct = data.len();
        let bytes = if direct == 0 {
            read(&mut [IoSliceMut::new(next)])?
        } else {
            read(&mut [IoSliceMut::new(data), IoSliceMut::new(next)])?
        };
        self.cutter.received_payload(bytes.min(direct));
        self.taken = 0;
        self.end = bytes.saturating_sub(direct).min(limit);
        Ok(bytes)
    }

    /// The next complete record, if its bytes are all there. `judge` is shown the beginning of a long
    /// record and its length, and says what becomes of it.
    pub(super) fn next(
        &mut self,
        mut judge: impl FnMut(&[u8], usize) -> Judged,
    ) -> Result<Option<Record<'_>>, RecordError> {
        loop {
            let mut fresh = self.buffer.get(self.taken..self.end).unwrap_or_default();
            let destination = &mut self.destination;
            let step = self.cutter.feed(&mut fresh, |beginning, total| {
                verdict(&mut judge, destination, beginning, total)
            })?;
            self.taken = self.end - fresh.len();
            match step {
                Step::More => return Ok(None),
                // Its place is the memory that was judged to be for it.
                Step::Hole(_) => {}
                Step::Payload { at, bytes } => {
                    let memory = self.destination.as_mut().map(|to| &mut to.memory.buf);
                    let place = memory.and_then(|memory| memory.get_mut(at..at + bytes.len()));
                    if let Some(place) = place {
                        place.copy_from_slice(bytes);
                    }
                    self.copied += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                }
                // One record at a time, of at most `record_bytes_max`: the memory is reserved, but its
                // pages are touched only as bytes come.
                Step::Memory { bytes } => self.cutter.grant(bytes),
                Step::Record(record) => {
                    let bytes = match record.bytes {
                        Cow::Owned(bytes) => bytes,
                        Cow::Borrowed(bytes) => {
                            let start = self.taken - bytes.len();
                            return Ok(self.buffer.get(start..self.taken).map(Record::InBuffer));
                        }
                    };
                    return Ok(Some(match self.destination.take() {
                        None => Record::Own(bytes),
                        Some(mut to) => {
                            to.memory.buf.truncate(to.data_len);
                            Record::Placed(Placed {
                                head: bytes,
                                memory: to.memory.buf,
                            })
                        }
                    }));
                }
            }
        }
    }
}

/// What `judge` says of a record, in the words of the cutter. The destination of its data is put into
/// `destination`.
fn verdict(
    judge: &mut impl FnMut(&[u8], usize) -> Judged,
    destination: &mut Option<Destination>,
    beginning: &[u8],
    total: Option<usize>,
) -> Verdict {
    // In several fragments, or here already.
    let Some(total) = total.filter(|total| *total > beginning.len()) else {
        return Verdict::Whole;
    };
    match judge(beginning, total) {
        Judged::More => Verdict::More {
            bytes: REPLY_HEAD_BYTES_MAX,
        },
        Judged::Whole => Verdict::Whole,
        Judged::Into(to) => {
            debug_assert!(to.data_len > 0 && to.data_len <= to.memory.buf.len());
            let hole = Hole {
                at: to.head_len,
                len: to.data_len,
                skipped: total.saturating_sub(to.head_len + to.data_len),
            };
            *destination = Some(to);
            Verdict::Hole(hole)
        }
    }
}

const fn record_limits(record_bytes_max: usize) -> RecordLimits {
    RecordLimits {
        record_bytes_max,
        kept_bytes_max: record_bytes_max,
        fragments_max: REPLY_FRAGMENTS_MAX,
        small_bytes_max: SMALL_BYTES,
        in_place_bytes_max: READ_BUFFER_BYTES,
        unasked_bytes_max: SMALL_BYTES,
        head_bytes_max: REPLY_HEAD_BYTES_MAX,
        read_ahead_bytes_first: READ_BUFFER_BYTES,
        read_ahead_bytes_max: READ_BUFFER_BYTES,
    }
}

#[cfg(test)]
mod tests;
