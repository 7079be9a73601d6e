//! Replies on their way out: in order of completion, READ data from the buffer it was read into.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use nfs_wire::xdr::padding;
use tokio::net::TcpStream;

use crate::dispatch::Reply;

/// What waits to be sent on one connection.
#[derive(Default)]
pub(super) struct Output {
    replies: VecDeque<Reply>,
    /// Bytes of the first reply that were sent already.
    sent: usize,
    bytes: usize,
}

/// Slices handed to the kernel at once.
const SLICES: usize = 64;
static PADDING: [u8; 3] = [0; 3];

impl Output {
    pub(super) fn push(&mut self, reply: Reply) {
        self.bytes += len(&reply);
        self.replies.push_back(reply);
    }

    /// Bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }

    /// Sends as much as the socket takes. True when everything is gone.
    ///
    /// # Errors
    /// When the connection is broken.
    pub(super) fn flush(&mut self, stream: &TcpStream) -> io::Result<bool> {
        while !self.replies.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let used = self.slices(&mut slices);
            match stream.try_write_vectored(slices.get(..used).unwrap_or_default()) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => self.advance(sent),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>; SLICES]) -> usize {
        let mut used = 0;
        let mut skip = self.sent;
        for reply in &self.replies {
            for part in parts(reply) {
                let skipped = skip.min(part.len());
                skip -= skipped;
                let Some(rest) = part.get(skipped..).filter(|rest| !rest.is_empty()) else {
                    continue;
                };
                let Some(slice) = slices.get_mut(used) else {
                    return used;
                };
                *slice = IoSlice::new(rest);
                used += 1;
            }
        }
        used
    }

    fn advance(&mut self, sent: usize) {
        self.bytes -= sent;
        self.sent += sent;
        while let Some(first) = self.replies.front() {
            let first_len = len(first);
            if self.sent < first_len {
                return;
            }
            self.sent -= first_len;
            self.replies.pop_front();
        }
    }
}

fn parts(reply: &Reply) -> [&[u8]; 3] {
    let data: &[u8] = reply.data.as_deref().unwrap_or_default();
    [
        &reply.head,
        data,
        PADDING.get(..padding(data.len())).unwrap_or_default(),
    ]
}

fn len(reply: &Reply) -> usize {
    parts(reply).iter().map(|part| part.len()).sum()
}
