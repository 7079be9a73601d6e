//! Cuts the byte stream of a connection into records (RFC 5531 §11). No I/O beyond one read that is
//! handed in, no clock.
//!
//! Owns the read buffer. A record that lies in it whole is handed out in place; a longer one is put
//! together in memory of its own. The data of a reply whose call gave memory goes from the socket into
//! that memory, and with its rest the head of the next record is received: one system call, no copy.
//!
//! For that, no more than a head may be read where such a reply is expected, because what is read
//! beyond it has to be copied. After a reply with data another one is expected; each other record
//! widens what is read at once, so that small replies that come in numbers are read in numbers.

use std::io::{self, IoSliceMut};

use bytes::BufMut;
use nfs_io::Buf;
use nfs_wire::record::FragmentHeader;

use super::table::Memory;
use crate::error::Framing;
use crate::limits::{READ_BUFFER_BYTES, REPLY_FRAGMENTS_MAX, REPLY_HEAD_BYTES_MAX};

const MARK_BYTES: usize = 4;
/// A record up to this is waited for in the buffer and never judged: copying its data costs less than
/// a read of its own.
const SMALL_BYTES: usize = 8 * 1024;
/// By how much a record without data in given memory widens what is read at once.
const WIDENING: usize = 8;

/// A complete record.
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
    /// The data.
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
    partial: Option<Partial>,
    payload: Option<Payload>,
    /// Bytes to read at once where a record begins.
    window: usize,
    /// Bytes of data that came with other bytes and were copied to their place.
    copied: u64,
    record_bytes_max: usize,
}

/// A record that did not lie in the buffer whole.
struct Partial {
    data: Vec<u8>,
    /// Bytes of the current fragment that are still to come.
    left: usize,
    last: bool,
    fragments: usize,
}

/// A record whose data goes into given memory.
struct Payload {
    head: Vec<u8>,
    to: Destination,
    filled: usize,
    padding: usize,
}

impl Incoming {
    pub(super) fn new(record_bytes_max: usize) -> Self {
        Self {
            buffer: vec![0; READ_BUFFER_BYTES],
            taken: 0,
            end: 0,
            partial: None,
            payload: None,
            window: READ_BUFFER_BYTES,
            copied: 0,
            record_bytes_max,
        }
    }

    /// Forgets everything of the previous connection. The memory of a reply that was under way comes
    /// back with the xid of its call, as long as it was given.
    pub(super) fn reset(&mut self) -> Option<(u32, Memory)> {
        self.taken = 0;
        self.end = 0;
        self.partial = None;
        self.window = READ_BUFFER_BYTES;
        let payload = self.payload.take()?;
        Some((payload.to.xid, payload.to.memory))
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
        if let Some(partial) = &mut self.partial
            && partial.left > 0
        {
            let wanted = partial.left;
            let bytes = append(&mut (&mut partial.data).limit(wanted))?;
            partial.left = wanted.saturating_sub(bytes);
            return Ok(bytes);
        }
        self.buffer.copy_within(self.taken..self.end, 0);
        self.end -= self.taken;
        self.taken = 0;
        let limit = self.limit();
        let next = self.buffer.get_mut(self.end..).unwrap_or_default();
        let len = next.len().min(limit);
        let next = next.get_mut(..len).unwrap_or_default();
        let data = self.payload.as_mut().map(Payload::rest).unwrap_or_default();
        let direct = data.len();
        let bytes = if direct == 0 {
            read(&mut [IoSliceMut::new(next)])?
        } else {
            read(&mut [IoSliceMut::new(data), IoSliceMut::new(next)])?
        };
        if let Some(payload) = &mut self.payload {
            payload.filled += bytes.min(direct);
        }
        self.end += bytes.saturating_sub(direct).min(len);
        Ok(bytes)
    }

    /// The most bytes to read into the buffer now; at least 1.
    fn limit(&self) -> usize {
        let have = self.end - self.taken;
        if let Some(payload) = &self.payload {
            return payload.padding + self.window;
        }
        match self.mark() {
            None => self.window.saturating_sub(have).max(MARK_BYTES),
            Some(mark) => {
                let whole = MARK_BYTES.saturating_add(length(&mark));
                if whole <= MARK_BYTES + SMALL_BYTES {
                    whole.saturating_sub(have) + self.window
                } else {
                    // The head was not enough to judge it by: it is longer than the last one's.
                    (MARK_BYTES + REPLY_HEAD_BYTES_MAX)
                        .saturating_sub(have)
                        .max(1)
                }
            }
        }
    }

    fn mark(&self) -> Option<FragmentHeader> {
        let fresh = self.buffer.get(self.taken..self.end)?;
        Some(FragmentHeader::parse(*fresh.first_chunk::<MARK_BYTES>()?))
    }

    /// The next complete record, if its bytes are all there. `judge` is shown the beginning of a long
    /// record and its length, and says what becomes of it.
    pub(super) fn next(
        &mut self,
        mut judge: impl FnMut(&[u8], usize) -> Judged,
    ) -> Result<Option<Record<'_>>, Framing> {
        loop {
            if self.payload.is_some() {
                return Ok(self.finish_payload().map(Record::Placed));
            }
            if let Some(partial) = &mut self.partial {
                if partial.left > 0 {
                    let fresh = self.buffer.get(self.taken..self.end).unwrap_or_default();
                    let part = fresh.get(..partial.left).unwrap_or(fresh);
                    partial.data.extend_from_slice(part);
                    partial.left -= part.len();
                    self.taken += part.len();
                    if partial.left > 0 {
                        return Ok(None);
                    }
                }
                if partial.last {
                    self.widen();
                    let done = self.partial.take().map(|partial| partial.data);
                    return Ok(done.map(Record::Own));
                }
            }
            let Some(mark) = self.mark() else {
                return Ok(None);
            };
            let len = length(&mark);
            let start = self.taken + MARK_BYTES;
            let have = self.end - start;
            let alone = mark.last && self.partial.is_none() && len <= self.record_bytes_max;
            if alone && have >= len {
                self.taken = start + len;
                self.widen();
                return Ok(self.buffer.get(start..start + len).map(Record::InBuffer));
            }
            if alone && len <= SMALL_BYTES {
                return Ok(None);
            }
            if alone {
                let head = self.buffer.get(start..self.end).unwrap_or_default();
                match judge(head, len) {
                    Judged::More if have < REPLY_HEAD_BYTES_MAX => return Ok(None),
                    Judged::Into(to) => {
                        self.begin_payload(start, len, to);
                        continue;
                    }
                    Judged::More | Judged::Whole => {}
                }
            }
            self.begin_fragment(len, mark.last)?;
            self.taken = start;
        }
    }

    /// The record of `len` bytes that begins at `start` has its data received into memory.
    fn begin_payload(&mut self, start: usize, len: usize, to: Destination) {
        debug_assert!(to.data_len <= to.memory.buf.len() && start + to.head_len <= self.end);
        let data_start = start + to.head_len;
        let head = self.buffer.get(start..data_start).unwrap_or_default();
        self.window = MARK_BYTES + to.head_len;
        self.payload = Some(Payload {
            head: head.to_vec(),
            filled: 0,
            padding: len.saturating_sub(to.head_len + to.data_len),
            to,
        });
        self.taken = data_start;
    }

    /// What is in the buffer goes to the payload's memory; the record, if that completes it.
    fn finish_payload(&mut self) -> Option<Placed> {
        let payload = self.payload.as_mut()?;
        let fresh = self.buffer.get(self.taken..self.end).unwrap_or_default();
        let place = payload.rest();
        let count = fresh.len().min(place.len());
        let (data, after) = fresh.split_at(count);
        if let Some(place) = place.get_mut(..count) {
            place.copy_from_slice(data);
        }
        let skipped = after.len().min(payload.padding);
        payload.filled += count;
        self.copied += u64::try_from(count).unwrap_or(u64::MAX);
        self.taken += count;
        if payload.filled < payload.to.data_len {
            return None;
        }
        payload.padding -= skipped;
        self.taken += skipped;
        if payload.padding > 0 {
            return None;
        }
        let mut payload = self.payload.take()?;
        payload.to.memory.buf.truncate(payload.to.data_len);
        Some(Placed {
            head: payload.head,
            memory: payload.to.memory.buf,
        })
    }

    fn widen(&mut self) {
        self.window = self.window.saturating_mul(WIDENING).min(READ_BUFFER_BYTES);
    }

    fn begin_fragment(&mut self, len: usize, last: bool) -> Result<(), Framing> {
        let partial = self.partial.get_or_insert_with(|| Partial {
            data: Vec::new(),
            left: 0,
            last: false,
            fragments: 0,
        });
        let total = partial.data.len().saturating_add(len);
        if total > self.record_bytes_max {
            return Err(Framing::TooLarge {
                len: total,
                max: self.record_bytes_max,
            });
        }
        partial.fragments += 1;
        if partial.fragments > REPLY_FRAGMENTS_MAX {
            return Err(Framing::TooManyFragments {
                max: REPLY_FRAGMENTS_MAX,
            });
        }
        // One record at a time, of at most `record_bytes_max`: the memory is reserved, but its pages
        // are touched only as bytes come.
        partial.data.reserve_exact(len);
        partial.left = len;
        partial.last = last;
        Ok(())
    }
}

impl Payload {
    /// The part of the memory that is not filled yet.
    fn rest(&mut self) -> &mut [u8] {
        self.to
            .memory
            .buf
            .get_mut(self.filled..self.to.data_len)
            .unwrap_or_default()
    }
}

fn length(mark: &FragmentHeader) -> usize {
    usize::try_from(mark.len).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
