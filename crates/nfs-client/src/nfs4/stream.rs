//! A file from one offset to another, in order, with READs on their way ahead of the reader.

use std::collections::VecDeque;

use bytes::Bytes;
use tokio::task::JoinHandle;

use super::{Nfs4, Nfs4Error, OpenFile4, Read4};
use crate::limits::NFS4_STREAM_READS;

/// The bytes of an open file, in order.
#[derive(Debug)]
pub struct ReadStream4 {
    nfs: Nfs4,
    file: OpenFile4,
    /// Where the next READ begins.
    next: u64,
    end: u64,
    /// Bytes of one READ.
    count: u32,
    /// READs on their way, in order: where each begins, and how many bytes it asks for.
    ahead: VecDeque<(u64, u32, Asked)>,
}

/// A READ on its way, which is given up when nobody waits for it any more.
#[derive(Debug)]
struct Asked(JoinHandle<Result<Read4, Nfs4Error>>);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Nfs4 {
    /// Reads `file` from the byte `start` up to `end` or the file's end, with at most `count` bytes in a READ.
    #[must_use]
    pub fn stream(&self, file: &OpenFile4, start: u64, end: u64, count: u32) -> ReadStream4 {
        ReadStream4 {
            nfs: self.clone(),
            file: file.clone(),
            next: start,
            end,
            count: count.clamp(1, self.data_bytes_max()),
            ahead: VecDeque::new(),
        }
    }
}

impl ReadStream4 {
    /// The next piece; none at the end. A server may give less than it was asked for; the rest is asked for again.
    ///
    /// # Errors
    /// [`Nfs4Error`]. Nothing more comes after one.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Nfs4Error> {
        self.ask();
        let Some((at, asked, mut reply)) = self.ahead.pop_front() else {
            return Ok(None);
        };
        let read = (&mut reply.0).await.map_err(|_| Nfs4Error::Ended)??;
        let got = u32::try_from(read.data.len()).unwrap_or(u32::MAX);
        if read.eof {
            self.end = self.next;
            self.ahead.clear();
        } else if got == 0 {
            return Err(Nfs4Error::Unexpected(super::Opnum::Read));
        } else if got < asked {
            self.next = at + u64::from(got);
            self.ahead.clear();
        }
        Ok((got > 0).then_some(read.data))
    }

    fn ask(&mut self) {
        while self.next < self.end && self.ahead.len() < NFS4_STREAM_READS {
            let left = u32::try_from(self.end - self.next).unwrap_or(u32::MAX);
            let (at, count) = (self.next, self.count.min(left));
            let (nfs, file) = (self.nfs.clone(), self.file.clone());
            let runtime = self.nfs.connections().first().runtime().clone();
            let reply = runtime.spawn(async move { nfs.read(&file, at, count).await });
            self.ahead.push_back((at, count, Asked(reply)));
            self.next = at.saturating_add(u64::from(count));
        }
    }
}
