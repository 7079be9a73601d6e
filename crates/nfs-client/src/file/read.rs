//! Reading: what callers ask for, put together from the pieces of the window ([`super::ahead`]).

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::ahead::{Follow, Reading};
use super::{File, Inner};
use crate::error::ClientError;
use crate::hint::Hint;

/// The bytes of one read, and whether the file ends behind them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadAt {
    /// The bytes: as many as were asked for, or fewer at the end of the file. They count against the
    /// client's memory ([`super::Windows::memory_bytes_max`]) until they are dropped.
    pub data: Bytes,
    /// The last byte read is the file's last, or there was none to read.
    pub eof: bool,
}

impl Inner {
    /// Reads `len` bytes from `offset`, fewer only at the end of the file. What one READ brings is not
    /// copied.
    pub(super) async fn read_at(
        &self,
        offset: u64,
        len: usize,
        hint: Hint,
    ) -> Result<ReadAt, ClientError> {
        let reading = &self.reading;
        let end = offset.saturating_add(u64::try_from(len).unwrap_or(u64::MAX));
        let noted = reading.note(offset, end - offset, hint);
        let mut passing = None;
        let follow = match noted {
            Follow::Sequential {
                stream,
                end: reached,
                until,
            } => Follow::Sequential {
                stream,
                end: reached,
                until: until.max(end),
            },
            // A read of several transfers is a stream of its own while it lasts.
            Follow::Exact | Follow::Strided { .. } if end - offset > reading.transfer_bytes() => {
                let stream = reading.stream();
                passing = Some(Passing { reading, stream });
                Follow::Sequential {
                    stream,
                    end: offset,
                    until: end,
                }
            }
            noted => noted,
        };
        let mut read = Joined::default();
        let mut at = offset;
        loop {
            let piece = reading.piece(at, end, follow).await?;
            at = at.saturating_add(u64::try_from(piece.data.len()).unwrap_or(u64::MAX));
            read.push(piece.data);
            if piece.eof || at >= end {
                drop(passing);
                if hint == Hint::NoReuse {
                    reading.leave_behind(follow, at);
                }
                let data = read.into_bytes();
                let eof = piece.eof && (at < end || self.shared.writing.end() <= at);
                return Ok(ReadAt { data, eof });
            }
        }
    }
}

/// Leaves nothing behind of a stream that lasts as long as one read.
struct Passing<'a> {
    reading: &'a Arc<Reading>,
    stream: u32,
}

impl Drop for Passing<'_> {
    fn drop(&mut self) {
        self.reading.forget_stream(self.stream);
    }
}

/// Pieces put together; a single one as it is.
#[derive(Default)]
struct Joined {
    only: Bytes,
    all: BytesMut,
}

impl Joined {
    fn push(&mut self, data: Bytes) {
        if self.only.is_empty() && self.all.is_empty() {
            self.only = data;
            return;
        }
        if self.all.is_empty() {
            self.all.extend_from_slice(&std::mem::take(&mut self.only));
        }
        self.all.extend_from_slice(&data);
    }

    fn into_bytes(self) -> Bytes {
        if self.all.is_empty() {
            self.only
        } else {
            self.all.freeze()
        }
    }
}

/// A file's bytes in order, with READs in flight ahead of the reader: see [`File::stream`]. Dropping it
/// gives up what is ahead.
#[must_use = "nothing is read before the next bytes are asked for"]
pub struct ReadStream {
    file: File,
    /// Offset of the next byte to give out.
    next: u64,
    /// Behind the last one to give out.
    end: u64,
    stream: u32,
    ended: bool,
}

impl ReadStream {
    pub(super) fn new(file: File, offset: u64) -> Self {
        let stream = file.inner.reading.stream();
        Self {
            file,
            next: offset,
            end: u64::MAX,
            stream,
            ended: false,
        }
    }

    /// This stream, ending in front of offset `end` if the file does not end before; nothing is
    /// read from there on.
    pub fn until(mut self, end: u64) -> Self {
        self.end = end;
        self
    }

    /// The next bytes, never empty: what one READ brought, without a copy. `None` at the end of the
    /// file. After an error, `None`. Dropped before it is ready, it has taken nothing.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        if self.ended || self.next >= self.end {
            return Ok(None);
        }
        let piece = self.piece().await;
        // Not before: who gives up a wait and asks again must not take that for the end of the file.
        self.ended = piece.as_ref().map_or(true, |(_, ended)| *ended);
        let (data, _) = piece?;
        let len = u64::try_from(data.len()).unwrap_or(u64::MAX);
        self.next = self.next.saturating_add(len);
        Ok((!data.is_empty()).then_some(data))
    }

    /// The bytes at `self.next`, and whether the file ends behind them.
    async fn piece(&self) -> Result<(Bytes, bool), ClientError> {
        let mut asked_again = false;
        loop {
            let follow = match self.file.advised.now() {
                Hint::Random => Follow::Exact,
                Hint::Normal | Hint::Sequential | Hint::NoReuse | Hint::WillNeed { .. } => {
                    Follow::Sequential {
                        stream: self.stream,
                        end: self.next,
                        until: self.end,
                    }
                }
            };
            let inner = &self.file.inner;
            // No piece reaches beyond what own writes were waited for.
            let reach = self.next.saturating_add(inner.reading.transfer_bytes_now());
            let reach = reach.min(self.end);
            let seen = inner.shared.writing.visible(self.next, reach).await;
            let piece = inner.reading.piece(self.next, reach, follow).await?;
            if !inner.shared.writing.still_good(seen) {
                continue;
            }
            let len = u64::try_from(piece.data.len()).unwrap_or(u64::MAX);
            let next = self.next.saturating_add(len);
            // The server's end is not ours while data beyond it is still on its way there.
            let ended = piece.eof && inner.shared.writing.end() <= next;
            if !piece.data.is_empty() || ended || asked_again {
                return Ok((piece.data, ended));
            }
            // Once: a server that lost it in a restart has to be told by a COMMIT before it has it again.
            asked_again = true;
        }
    }
}

impl Drop for ReadStream {
    fn drop(&mut self) {
        self.file.inner.reading.forget_stream(self.stream);
    }
}
