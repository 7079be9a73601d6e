//! The receiving half of a connection: records taken apart as they come, payloads left in the kernel.
//!
//! A load generator that copies every payload to memory spends on it what it should measure. Bytes that nobody looks
//! at are discarded by the kernel (`MSG_TRUNC` on TCP: tcp(7)), which never copies them; what is looked at goes
//! straight to its destination. Servers that split a record into fragments are understood.

use std::io;
use std::net::TcpStream;
use std::num::TryFromIntError;

use nfs_io::BusyPoll;
use nfs_wire::limits::RECORD_FRAGMENTS_MAX;
use nfs_wire::record::{Fragments, Position, RecordError};
use rustix::net::{RecvFlags, recv};

use crate::limits;

/// Why the next bytes of a record are not to be had.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The socket cannot be read or written; the time to wait may be over.
    #[error("waiting for the other end: {0}")]
    Io(#[from] io::Error),
    /// The other end closed the connection.
    #[error("the server closed the connection")]
    Closed,
    /// The record ends before what was to be in it.
    #[error("the record is too short")]
    TooShort,
    /// The record breaks a limit.
    #[error("the record cannot be taken apart: {0}")]
    Record(#[from] RecordError),
    /// A length in the record is more than this machine can count.
    #[error("a length of the record is out of range: {0}")]
    Length(#[from] TryFromIntError),
    /// A call has a handle that nobody gave out.
    #[error("a handle that was never given out")]
    Handle,
    /// A call has a name that is longer than any file system's.
    #[error("a name of more than {} bytes", limits::NAME_BYTES_MAX)]
    Name,
}

/// The next record, from a socket whose reads time out.
#[derive(Debug)]
pub struct Input {
    stream: TcpStream,
    ahead: Vec<u8>,
    start: usize,
    end: usize,
    fragments: Fragments,
    /// Buffer that is given where bytes are to be discarded; the kernel never writes to it.
    nowhere: Vec<u8>,
    busy_poll: BusyPoll,
}

impl Input {
    /// `ahead_bytes` are read at once where a record's beginning is awaited: few where payloads are large and are to
    /// stay in the kernel, many where whole replies are small.
    pub fn new(stream: TcpStream, ahead_bytes: usize) -> Self {
        Self {
            stream,
            ahead: vec![0; ahead_bytes],
            start: 0,
            end: 0,
            fragments: Fragments::new(limits::DISCARDED_BYTES_MAX, RECORD_FRAGMENTS_MAX),
            nowhere: vec![0; NOWHERE_BYTES],
            busy_poll: BusyPoll::OFF,
        }
    }

    /// Looks for more bytes for so long before it sleeps until they come.
    #[must_use]
    pub fn polling(mut self, busy_poll: BusyPoll) -> Self {
        self.busy_poll = busy_poll;
        self
    }

    /// Whether bytes of the next record have been read already.
    pub fn has_bytes(&self) -> bool {
        self.start < self.end
    }

    /// The next four bytes of the record as a number.
    pub fn word(&mut self) -> Result<u32, InputError> {
        let mut word = [0; 4];
        self.take(&mut word)?;
        Ok(u32::from_be_bytes(word))
    }

    /// Fills `out` with the next bytes of the record.
    pub fn take(&mut self, out: &mut [u8]) -> Result<(), InputError> {
        let mut at = 0;
        while at < out.len() {
            let wanted = self.available(out.len() - at)?;
            let target = &mut out[at..at + wanted];
            let taken = if self.has_bytes() {
                let taken = wanted.min(self.end - self.start);
                target[..taken].copy_from_slice(&self.ahead[self.start..self.start + taken]);
                self.start += taken;
                taken
            } else {
                receive(&self.stream, target, RecvFlags::WAITALL)?
            };
            self.fragments.take(taken);
            at += taken;
        }
        Ok(())
    }

    /// Passes over the next `len` bytes of the record.
    pub fn skip(&mut self, mut len: usize) -> Result<(), InputError> {
        while len > 0 {
            let wanted = self.available(len)?.min(self.nowhere.len());
            let skipped = if self.has_bytes() {
                let skipped = wanted.min(self.end - self.start);
                self.start += skipped;
                skipped
            } else {
                let flags = RecvFlags::TRUNC | RecvFlags::WAITALL;
                receive(&self.stream, &mut self.nowhere[..wanted], flags)?
            };
            self.fragments.take(skipped);
            len -= skipped;
        }
        Ok(())
    }

    /// Passes over what is left of the record.
    pub fn finish_record(&mut self) -> Result<(), InputError> {
        while let Some(left) = self.fragment()? {
            self.skip(left)?;
        }
        Ok(())
    }

    /// At most `wanted`, at least one byte of the fragment at hand.
    fn available(&mut self, wanted: usize) -> Result<usize, InputError> {
        let left = self.fragment()?.ok_or(InputError::TooShort)?;
        if !self.has_bytes() && wanted < self.ahead.len() {
            self.fill()?;
        }
        Ok(wanted.min(left))
    }

    /// How many bytes of the fragment at hand are left, after its mark has been read; `None` at the end of
    /// the record.
    fn fragment(&mut self) -> Result<Option<usize>, InputError> {
        loop {
            let mut ahead = &self.ahead[self.start..self.end];
            let position = self.fragments.next(&mut ahead)?;
            self.start = self.end - ahead.len();
            match position {
                Position::Mark { .. } => self.fill()?,
                Position::Fragment { left, .. } => return Ok(Some(left)),
                Position::End => return Ok(None),
            }
        }
    }

    fn fill(&mut self) -> Result<(), InputError> {
        self.start = 0;
        let (stream, ahead) = (&self.stream, &mut self.ahead);
        let polled = self
            .busy_poll
            .look(|| match receive(stream, ahead, RecvFlags::DONTWAIT) {
                Err(InputError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => None,
                received => Some(received),
            });
        self.end = polled.unwrap_or_else(|| receive(stream, ahead, RecvFlags::empty()))?;
        Ok(())
    }
}

/// Most bytes that one call discards.
const NOWHERE_BYTES: usize = 4 << 20;

fn receive(stream: &TcpStream, out: &mut [u8], flags: RecvFlags) -> Result<usize, InputError> {
    let (received, _) =
        rustix::io::retry_on_intr(|| recv(stream, &mut *out, flags)).map_err(io::Error::from)?;
    if received == 0 {
        return Err(InputError::Closed);
    }
    Ok(received)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use nfs_wire::record::FragmentHeader;

    use super::*;

    /// Records of (fragment, last) pairs, read back with little and with much read ahead.
    fn input(ahead_bytes: usize, fragments: &[(&[u8], bool)]) -> Input {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        for (bytes, last) in fragments {
            let len = u32::try_from(bytes.len()).unwrap();
            let header = FragmentHeader { last: *last, len };
            peer.write_all(&header.to_bytes()).unwrap();
            peer.write_all(bytes).unwrap();
        }
        Input::new(listener.accept().unwrap().0, ahead_bytes)
    }

    #[test]
    fn records_in_fragments_are_joined() {
        let polls = [BusyPoll::OFF, BusyPoll::of_microseconds(100)];
        let aheads = [1, 5, 16, 4096].into_iter();
        for (ahead, poll) in aheads.flat_map(|ahead| polls.map(|poll| (ahead, poll))) {
            let fragments: [(&[u8], bool); 4] = [
                (b"\0\0\0", false),
                (b"\x07abcdef", false),
                (b"", true),
                (b"\0\0\0\x08tail", true),
            ];
            let mut input = input(ahead, &fragments).polling(poll);
            assert_eq!(input.word().unwrap(), 7);
            input.skip(2).unwrap();
            let mut rest = [0; 4];
            input.take(&mut rest).unwrap();
            assert_eq!(&rest, b"cdef");
            input.finish_record().unwrap();
            assert_eq!(input.word().unwrap(), 8, "ahead {ahead}");
            input.finish_record().unwrap();
            assert!(!input.has_bytes());
            assert!(input.word().is_err(), "the peer is gone");
        }
    }

    #[test]
    fn skipped_bytes_are_skipped_exactly() {
        let payload = vec![7; 300_000];
        let mut input = input(64, &[(&payload, true), (b"\0\0\0\x01", true)]);
        input.skip(299_999).unwrap();
        let mut last = [0];
        input.take(&mut last).unwrap();
        assert_eq!(last, [7]);
        input.finish_record().unwrap();
        assert_eq!(input.word().unwrap(), 1);
    }
}
