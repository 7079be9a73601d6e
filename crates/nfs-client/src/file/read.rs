//! Reading: READs in flight ahead of the reader.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use bytes::{Bytes, BytesMut};

use super::{File, Inner};
use crate::client::{ClientError, printable, refused};
use crate::limits::STREAM_WINDOW;

/// What a read brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadAt {
    /// The bytes: as many as were asked for, or fewer at the end of the file.
    pub data: Bytes,
    /// The last byte read is the file's last, or there was none to read.
    pub eof: bool,
}

impl Inner {
    /// Reads `len` bytes from `offset`, fewer only at the end of the file. Takes as many READs as the
    /// server's sizes ask for, one after the other; one that suffices is not copied.
    pub(super) async fn read_at(&self, offset: u64, len: usize) -> Result<ReadAt, ClientError> {
        let mut first: Option<Bytes> = None;
        let mut all = BytesMut::new();
        let mut have = 0;
        loop {
            let want = u32::try_from(len - have).unwrap_or(u32::MAX);
            let count = want.min(self.client.transfer_sizes().read);
            let position = offset.saturating_add(u64::try_from(have).unwrap_or(u64::MAX));
            let ok = match self
                .client
                .nfs()
                .read(&self.handle, position, count)
                .await?
            {
                Ok(ok) => ok,
                Err(failure) => return Err(refused("READ", &self.path, failure.status)),
            };
            let empty = ok.data.is_empty();
            have += ok.data.len();
            match first.take() {
                None if all.is_empty() => first = Some(ok.data),
                before => {
                    all.extend_from_slice(&before.unwrap_or_default());
                    all.extend_from_slice(&ok.data);
                }
            }
            if ok.eof || have >= len {
                let data = first.unwrap_or_else(|| all.freeze());
                return Ok(ReadAt { data, eof: ok.eof });
            }
            if empty {
                let path = printable(&self.path);
                return Err(ClientError::NoProgress {
                    path,
                    offset: position,
                });
            }
        }
    }
}

type ReadFuture = Pin<Box<dyn Future<Output = Result<ReadAt, ClientError>> + Send>>;

/// A read that is on its way, or what it brought.
enum Slot {
    Pending(ReadFuture),
    Ready(Result<ReadAt, ClientError>),
}

/// See [`File::stream`]. Holds at most [`STREAM_WINDOW`] READs' data.
pub struct ReadStream {
    file: File,
    /// Offset of the next READ to send, bytes.
    next: u64,
    window: VecDeque<Slot>,
    ended: bool,
}

impl ReadStream {
    pub(super) fn new(file: File, offset: u64) -> Self {
        Self {
            file,
            next: offset,
            window: VecDeque::new(),
            ended: false,
        }
    }

    /// The next bytes, never empty; `None` at the end of the file. After an error, `None`.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            if self.ended {
                return Ok(None);
            }
            self.fill();
            let Some(read) = self.front().await else {
                return Ok(None);
            };
            let read = match read {
                Ok(read) => read,
                Err(error) => {
                    self.end();
                    return Err(error);
                }
            };
            if read.eof {
                self.end();
            }
            if !read.data.is_empty() {
                return Ok(Some(read.data));
            }
        }
    }

    fn fill(&mut self) {
        let size = self.file.client().transfer_sizes().read;
        while self.window.len() < STREAM_WINDOW {
            let (file, offset) = (self.file.clone(), self.next);
            let len = usize::try_from(size).unwrap_or(usize::MAX);
            let read = Box::pin(async move { file.read_at(offset, len).await });
            self.window.push_back(Slot::Pending(read));
            self.next = self.next.saturating_add(u64::from(size));
        }
    }

    /// Waits for the oldest read, while all of them move on.
    async fn front(&mut self) -> Option<Result<ReadAt, ClientError>> {
        poll_fn(|cx| {
            for slot in &mut self.window {
                if let Slot::Pending(read) = slot
                    && let Poll::Ready(done) = read.as_mut().poll(cx)
                {
                    *slot = Slot::Ready(done);
                }
            }
            match self.window.pop_front() {
                Some(Slot::Ready(done)) => Poll::Ready(Some(done)),
                Some(pending) => {
                    self.window.push_front(pending);
                    Poll::Pending
                }
                None => Poll::Ready(None),
            }
        })
        .await
    }

    fn end(&mut self) {
        self.ended = true;
        self.window.clear();
    }
}
