//! Cuts the byte stream of a connection into records (RFC 5531 §11). No I/O, no clock.
//!
//! Owns the read buffer. Records that lie in it whole are handed out in place; of a longer one the
//! bytes go into memory of its own, which the socket then fills directly.

use nfs_wire::record::FragmentHeader;

use crate::error::Framing;
use crate::limits::{READ_BUFFER_BYTES, REPLY_FRAGMENTS_MAX};

const MARK_BYTES: usize = 4;

/// A complete record.
pub(super) enum Record<'a> {
    /// It lay in the read buffer whole.
    InBuffer(&'a [u8]),
    /// It was put together in memory of its own.
    Own(Vec<u8>),
}

/// Where the socket's next bytes go: append at most `room` bytes to `into`.
pub(super) struct Room<'a> {
    pub(super) into: &'a mut Vec<u8>,
    pub(super) room: usize,
}

/// The state of one connection's incoming bytes.
pub(super) struct Incoming {
    buffer: Vec<u8>,
    /// Bytes of `buffer` that are used up.
    taken: usize,
    partial: Option<Partial>,
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

impl Incoming {
    pub(super) fn new(record_bytes_max: usize) -> Self {
        Self {
            buffer: Vec::with_capacity(READ_BUFFER_BYTES),
            taken: 0,
            partial: None,
            record_bytes_max,
        }
    }

    /// Forgets everything of the previous connection.
    pub(super) fn reset(&mut self) {
        self.buffer.clear();
        self.taken = 0;
        self.partial = None;
    }

    /// Where to receive to. Call only after [`Self::next`] returned `None`.
    pub(super) fn room(&mut self) -> Room<'_> {
        match &mut self.partial {
            Some(partial) if partial.left > 0 => Room {
                room: partial.left,
                into: &mut partial.data,
            },
            _ => {
                self.buffer.drain(..self.taken);
                self.taken = 0;
                Room {
                    room: READ_BUFFER_BYTES - self.buffer.len(),
                    into: &mut self.buffer,
                }
            }
        }
    }

    /// Says that `count` bytes were appended where [`Self::room`] said.
    pub(super) fn received(&mut self, count: usize) {
        if let Some(partial) = &mut self.partial
            && partial.left > 0
        {
            partial.left = partial.left.saturating_sub(count);
        }
    }

    /// The next complete record, if its bytes are all there.
    pub(super) fn next(&mut self) -> Result<Option<Record<'_>>, Framing> {
        loop {
            if let Some(partial) = &mut self.partial {
                if partial.left > 0 {
                    let fresh = self.buffer.get(self.taken..).unwrap_or_default();
                    let part = fresh.get(..partial.left).unwrap_or(fresh);
                    partial.data.extend_from_slice(part);
                    partial.left -= part.len();
                    self.taken += part.len();
                    if partial.left > 0 {
                        return Ok(None);
                    }
                }
                if partial.last {
                    let done = self.partial.take().map(|partial| partial.data);
                    return Ok(done.map(Record::Own));
                }
            }
            let fresh = self.buffer.get(self.taken..).unwrap_or_default();
            let Some(mark) = fresh.first_chunk::<MARK_BYTES>() else {
                return Ok(None);
            };
            let header = FragmentHeader::parse(*mark);
            let len = usize::try_from(header.len).unwrap_or(usize::MAX);
            let start = self.taken + MARK_BYTES;
            let whole = header.last && fresh.len() - MARK_BYTES >= len;
            if whole && self.partial.is_none() && len <= self.record_bytes_max {
                self.taken = start + len;
                return Ok(self.buffer.get(start..start + len).map(Record::InBuffer));
            }
            self.begin_fragment(len, header.last)?;
            self.taken = start;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `stream` in steps of at most `step` bytes, as a socket would, and collects the records.
    fn cut(stream: &[u8], step: usize, max: usize) -> Result<Vec<Vec<u8>>, Framing> {
        let mut incoming = Incoming::new(max);
        let mut records = Vec::new();
        let mut rest = stream;
        loop {
            while let Some(record) = incoming.next()? {
                records.push(match record {
                    Record::InBuffer(bytes) => bytes.to_vec(),
                    Record::Own(bytes) => bytes,
                });
            }
            if rest.is_empty() {
                return Ok(records);
            }
            let room = incoming.room();
            assert!(room.room > 0, "there is always room for the next byte");
            let (now, later) = rest.split_at(step.min(room.room).min(rest.len()));
            room.into.extend_from_slice(now);
            incoming.received(now.len());
            rest = later;
        }
    }

    fn fragment(last: bool, body: &[u8]) -> Vec<u8> {
        let len = u32::try_from(body.len()).unwrap();
        let mut bytes = FragmentHeader { last, len }.to_bytes().to_vec();
        bytes.extend_from_slice(body);
        bytes
    }

    #[test]
    fn records_come_out_whole_whatever_the_cuts() {
        let long: Vec<u8> = (0..200_000u32).map(|i| i.to_le_bytes()[0]).collect();
        let stream = [
            fragment(true, b"one"),
            fragment(true, b""),
            fragment(false, b"tw"),
            fragment(false, b""),
            fragment(true, b"o"),
            fragment(true, &long),
            fragment(false, &long[..100]),
            fragment(true, &long[100..]),
            fragment(true, b"end"),
        ]
        .concat();
        let expected: Vec<&[u8]> = vec![b"one", b"", b"two", &long, &long, b"end"];
        for step in [1, 2, 3, 5, 7, 64, 4096, 65536, 1 << 20] {
            assert_eq!(
                cut(&stream, step, 1 << 20).unwrap(),
                expected,
                "step {step}"
            );
        }
    }

    #[test]
    fn declared_lengths_are_capped() {
        let stream = [0xff, 0xff, 0xff, 0xff];
        let error = cut(&stream, 4, 1000).unwrap_err();
        assert_eq!(
            error,
            Framing::TooLarge {
                len: 0x7fff_ffff,
                max: 1000
            }
        );
        let stream = [fragment(false, &[0; 600]), fragment(true, &[0; 401])].concat();
        let error = cut(&stream, 4096, 1000).unwrap_err();
        assert_eq!(
            error,
            Framing::TooLarge {
                len: 1001,
                max: 1000
            }
        );
    }

    #[test]
    fn fragments_are_counted() {
        let stream = fragment(false, b"").repeat(REPLY_FRAGMENTS_MAX + 1);
        let error = cut(&stream, 4096, 1000).unwrap_err();
        assert_eq!(
            error,
            Framing::TooManyFragments {
                max: REPLY_FRAGMENTS_MAX
            }
        );
    }
}
