//! One open regular file: reads, writes, commits, and a stream of its bytes.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use nfs_wire::nfs3::{Fattr3, FileHandle, Ftype3, Sattr3, StableHow};

use crate::client::{Client, ClientError, Node};
use crate::client::{printable, refused};
use crate::limits::{EMPTY_WRITES_MAX, STREAM_WINDOW, WRITE_RESTARTS_MAX};

/// An open regular file. "Open" is this side's word: NFSv3 has no open, so nothing has to be closed.
#[derive(Clone, Debug)]
pub struct File {
    client: Client,
    handle: FileHandle,
    path: Vec<u8>,
}

/// What a read brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadAt {
    /// The bytes: as many as were asked for, or fewer at the end of the file.
    pub data: Bytes,
    /// The last byte read is the file's last, or there was none to read.
    pub eof: bool,
}

/// What a write achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenAt {
    /// How stable the bytes are: at least what was asked for.
    pub committed: StableHow,
    /// The server's write verifier. A later COMMIT with another one means that what was not
    /// committed may be lost and has to be written again (RFC 1813 §3.3.7).
    pub verifier: [u8; 8],
}

impl File {
    pub(crate) fn new(client: Client, node: Node, path: &[u8]) -> Result<Self, ClientError> {
        let what = match node.attributes.ftype {
            Ftype3::Reg => {
                return Ok(Self {
                    client,
                    handle: node.handle,
                    path: path.to_vec(),
                });
            }
            Ftype3::Dir => "directory",
            Ftype3::Lnk => "symbolic link",
            Ftype3::Blk => "block device",
            Ftype3::Chr => "character device",
            Ftype3::Sock => "socket",
            Ftype3::Fifo => "fifo",
        };
        Err(ClientError::NotAFile {
            path: printable(path),
            what,
        })
    }

    /// The file's handle.
    pub fn handle(&self) -> &FileHandle {
        &self.handle
    }

    /// The present attributes (GETATTR).
    pub async fn stat(&self) -> Result<Fattr3, ClientError> {
        self.client.stat_handle(&self.handle).await
    }

    /// Sets the length, bytes (SETATTR).
    pub async fn set_len(&self, len: u64) -> Result<(), ClientError> {
        let attributes = Sattr3 {
            size: Some(len),
            ..Sattr3::default()
        };
        let answer = self
            .client
            .nfs()
            .setattr(&self.handle, &attributes, None)
            .await?;
        answer
            .map(drop)
            .map_err(|failure| refused("SETATTR", &self.path, failure.status))
    }

    /// Reads `len` bytes from `offset`, fewer only at the end of the file. Takes as many READs as the
    /// server's sizes ask for, one after the other; one that suffices is not copied.
    pub async fn read_at(&self, offset: u64, len: usize) -> Result<ReadAt, ClientError> {
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

    /// Writes `data` at `offset`, at least as stable as `stable`. Takes as many WRITEs as the
    /// server's sizes ask for, one after the other. If the server's verifier changes in between,
    /// everything is written again.
    pub async fn write_at(
        &self,
        offset: u64,
        data: impl Into<Bytes>,
        stable: StableHow,
    ) -> Result<WrittenAt, ClientError> {
        let data = data.into();
        for _ in 0..=WRITE_RESTARTS_MAX {
            if let Some(written) = self.write_once(offset, data.clone(), stable).await? {
                return Ok(written);
            }
        }
        Err(ClientError::VerifierKeepsChanging {
            path: printable(&self.path),
        })
    }

    /// `None` if the verifier changed on the way and some of it was not stable yet.
    async fn write_once(
        &self,
        mut offset: u64,
        mut data: Bytes,
        stable: StableHow,
    ) -> Result<Option<WrittenAt>, ClientError> {
        let mut so_far: Option<WrittenAt> = None;
        let mut empty_writes = 0;
        loop {
            let size = usize::try_from(self.client.transfer_sizes().write).unwrap_or(usize::MAX);
            let part = data.slice(..data.len().min(size.max(1)));
            let asked = part.len();
            let ok = match self
                .client
                .nfs()
                .write(&self.handle, offset, stable, part)
                .await?
            {
                Ok(ok) => ok,
                Err(failure) => return Err(refused("WRITE", &self.path, failure.status)),
            };
            let now = WrittenAt {
                committed: ok.committed,
                verifier: ok.verf,
            };
            let changed = so_far.is_some_and(|before| {
                before.verifier != now.verifier && before.committed == StableHow::Unstable
            });
            if changed {
                return Ok(None);
            }
            let committed =
                so_far.map_or(now.committed, |before| before.committed.min(now.committed));
            let written = WrittenAt {
                committed,
                verifier: now.verifier,
            };
            so_far = Some(written);
            let taken = usize::try_from(ok.count).unwrap_or(usize::MAX).min(asked);
            empty_writes = if taken == 0 { empty_writes + 1 } else { 0 };
            if empty_writes > EMPTY_WRITES_MAX {
                return Err(ClientError::NoProgress {
                    path: printable(&self.path),
                    offset,
                });
            }
            bytes::Buf::advance(&mut data, taken);
            offset = offset.saturating_add(u64::try_from(taken).unwrap_or(u64::MAX));
            if data.is_empty() {
                return Ok(Some(written));
            }
        }
    }

    /// Puts what was written to `offset..offset + count` on stable storage; `count` 0 means to the
    /// end of the file (COMMIT). Returns the write verifier, to be compared with those of the writes.
    pub async fn commit(&self, offset: u64, count: u32) -> Result<[u8; 8], ClientError> {
        match self
            .client
            .nfs()
            .commit(&self.handle, offset, count)
            .await?
        {
            Ok(ok) => Ok(ok.verf),
            Err(failure) => Err(refused("COMMIT", &self.path, failure.status)),
        }
    }

    /// The file's bytes from `offset` to its end, in order, with a few READs in flight.
    pub fn stream(&self, offset: u64) -> ReadStream {
        ReadStream {
            file: self.clone(),
            next: offset,
            window: VecDeque::new(),
            ended: false,
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
        let size = self.file.client.transfer_sizes().read;
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
