//! A file with a place in it, for code that reads and writes through the traits of [`tokio::io`].
//!
//! [`File`] is read and written at offsets; a [`Cursor`] adds the place that the traits want, and moves it along.
//! It has no buffer: small reads are served from the window that is read ahead, and small writes are put together
//! behind, as with the file itself.
//!
//! # What is on stable storage
//! A write is done when the data is taken over. [`AsyncWrite::poll_flush`] and [`AsyncWrite::poll_shutdown`] bring
//! all of it to stable storage (COMMIT), as [`File::sync`] does, and tell if that failed, or if any write did since
//! the file was opened; so does every flush after that. Only a flush that succeeded says that data is safe.
//!
//! A cursor that is dropped with data that no flush has called safe leaves that to a task behind it, and
//! [`Client::unmount`](crate::Client::unmount) waits for such tasks and tells what failed.

use std::future::Future;
use std::io::{self, SeekFrom};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};
use tokio::task::JoinHandle;

use crate::error::{ClientError, Lost, RpcError};
use crate::file::File;
use crate::limits::{CURSOR_READ_BYTES_MAX, CURSOR_WRITE_BYTES_MAX};

/// A file and a place in it. See the module's documentation.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/served/mod.rs"));
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let served = Served::start();
/// # let url = served.url.clone();
/// use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _};
///
/// let (client, _) = nfs_client::Client::mount(&url).await?;
/// let mut notes = client.create(b"notes.txt", 0o644).await?.cursor();
/// notes.write_all(b"first line\nsecond line\n").await?;
/// // Only from here on it is on stable storage.
/// notes.flush().await?;
///
/// notes.seek(std::io::SeekFrom::Start(6)).await?;
/// let mut line = String::new();
/// notes.read_to_string(&mut line).await?;
/// assert_eq!(line, "line\nsecond line\n");
/// # Ok(())
/// # }
/// ```
pub struct Cursor {
    file: File,
    /// Where the next read or write begins, bytes.
    position: u64,
    /// What was read at `position` for a caller that did not come back for all of it.
    rest: Bytes,
    at_work: Exclusive<Option<Work>>,
    seeking: Option<SeekFrom>,
    /// Something was written that no flush has called safe.
    unsafe_data: bool,
}

/// What was begun and is not ended.
enum Work {
    Reading(Boxed<Bytes>),
    /// It goes on by itself: the data is taken over already, and others may wait for it.
    Writing(JoinHandle<Result<(), ClientError>>),
    Syncing(Boxed<()>),
    /// For the size of the file.
    Looking(Boxed<u64>),
}

/// A value that is reached through its only owner, so that sharing the owner between threads is harmless: the lock is
/// never taken.
struct Exclusive<T>(Mutex<T>);

impl<T> Exclusive<T> {
    fn get(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

type Boxed<T> = Pin<Box<dyn Future<Output = Result<T, ClientError>> + Send>>;

impl File {
    /// A cursor at the file's beginning; several may be in one file.
    pub fn cursor(&self) -> Cursor {
        Cursor::new(self.clone())
    }
}

impl Cursor {
    /// A cursor at the beginning of `file`.
    pub fn new(file: File) -> Self {
        Self {
            file,
            position: 0,
            rest: Bytes::new(),
            at_work: Exclusive(Mutex::new(None)),
            seeking: None,
            unsafe_data: false,
        }
    }

    /// The file that this cursor reads and writes.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where the next read or write begins, bytes.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Moves the place; it may be beyond the end of the file.
    pub fn set_position(&mut self, position: u64) {
        if position != self.position {
            self.position = position;
            self.forget_read();
        }
    }

    /// Whether something was written that no flush has called safe.
    pub fn is_dirty(&self) -> bool {
        self.unsafe_data
    }

    /// Brings everything written so far to stable storage (COMMIT), as a flush does.
    ///
    /// # Errors
    /// Also those of earlier writes: see [`File`].
    pub async fn sync(&mut self) -> Result<(), ClientError> {
        std::future::poll_fn(|cx| self.poll_sync(cx)).await
    }

    /// Something was written past this cursor that only its next flush calls safe.
    #[cfg(feature = "blocking")]
    pub(crate) fn mark_unsafe(&mut self) {
        self.unsafe_data = true;
    }

    /// Whoever wrote knows what became of it.
    #[cfg(feature = "blocking")]
    pub(crate) fn mark_told(&mut self) {
        self.unsafe_data = false;
    }

    /// Keeps a failure for whoever unmounts, since nobody else is there to be told.
    #[cfg(feature = "blocking")]
    pub(crate) fn remember(&mut self, failed: Result<(), ClientError>) {
        self.unsafe_data = false;
        self.file.leave_behind(async move { failed });
    }

    /// What was read, or is being read, belongs to another place or is out of date.
    fn forget_read(&mut self) {
        self.rest = Bytes::new();
        let at_work = self.at_work.get();
        if matches!(at_work, Some(Work::Reading(_))) {
            *at_work = None;
        }
    }

    /// Waits for what is at work, except a read, which is given up.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        let at_work = self.at_work.get();
        let done = match at_work {
            None => return Poll::Ready(Ok(())),
            Some(Work::Reading(_)) => Ok(()),
            Some(Work::Writing(write)) => ready!(Pin::new(write).poll(cx)).unwrap_or(Err(ended())),
            Some(Work::Syncing(sync)) => ready!(sync.as_mut().poll(cx)),
            Some(Work::Looking(look)) => ready!(look.as_mut().poll(cx)).map(drop),
        };
        *at_work = None;
        Poll::Ready(done)
    }

    fn begin_reading(&mut self, len: usize) {
        let (file, at) = (self.file.clone(), self.position);
        let len = len.min(CURSOR_READ_BYTES_MAX);
        let read = async move { Ok(file.read_at(at, len).await?.data) };
        *self.at_work.get() = Some(Work::Reading(Box::pin(read)));
    }

    /// Takes over a first part of `data`, and returns how long it is.
    fn begin_writing(&mut self, cx: &mut Context<'_>, data: &[u8]) -> io::Result<usize> {
        let len = data.len().min(CURSOR_WRITE_BYTES_MAX);
        let (piece, _) = data.split_at(len);
        let (file, at) = (self.file.clone(), self.position);
        let end = u64::try_from(len).ok().and_then(|len| at.checked_add(len));
        let end = end.ok_or(io::ErrorKind::FileTooLarge)?;
        let piece = Bytes::copy_from_slice(piece);
        let mut write: Boxed<()> = Box::pin(async move { file.write_at(at, piece).await });
        self.unsafe_data = true;
        if let Poll::Ready(written) = write.as_mut().poll(cx) {
            written?;
        } else {
            // It holds what others wait for, and nobody has to come back to this cursor soon.
            let task = self.file.runtime().spawn(write);
            *self.at_work.get() = Some(Work::Writing(task));
        }
        self.position = end;
        Ok(len)
    }

    /// Brings all that was written to stable storage.
    fn poll_sync(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        loop {
            if let Some(Work::Syncing(sync)) = self.at_work.get() {
                let synced = ready!(sync.as_mut().poll(cx));
                *self.at_work.get() = None;
                self.unsafe_data &= synced.is_err();
                return Poll::Ready(synced);
            }
            // A write that failed is told by the sync as well, and by each one after it.
            drop(ready!(self.poll_idle(cx)));
            let file = self.file.clone();
            let sync = async move { file.sync().await };
            *self.at_work.get() = Some(Work::Syncing(Box::pin(sync)));
        }
    }

    /// The place that `from` says, counted from the present one or from the end of the file.
    fn poll_place(&mut self, cx: &mut Context<'_>, from: SeekFrom) -> Poll<io::Result<u64>> {
        let (base, by) = match from {
            SeekFrom::Start(place) => return Poll::Ready(Ok(place)),
            SeekFrom::Current(by) => (self.position, by),
            SeekFrom::End(by) => loop {
                if let Some(Work::Looking(look)) = self.at_work.get() {
                    let size = ready!(look.as_mut().poll(cx));
                    *self.at_work.get() = None;
                    break (size?, by);
                }
                // Data on its way counts. A write that failed is told by the next one, or by a flush.
                drop(ready!(self.poll_idle(cx)));
                let file = self.file.clone();
                let look = async move { Ok(file.stat().await?.size) };
                *self.at_work.get() = Some(Work::Looking(Box::pin(look)));
            },
        };
        Poll::Ready(base.checked_add_signed(by).ok_or_else(|| {
            let text = "a place before the file's beginning, or beyond what a file can have";
            io::Error::new(io::ErrorKind::InvalidInput, text)
        }))
    }
}

impl AsyncRead for Cursor {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            if buf.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            if !this.rest.is_empty() {
                let given = this.rest.split_to(this.rest.len().min(buf.remaining()));
                buf.put_slice(&given);
                this.position = this.position.saturating_add(as_u64(given.len()));
                return Poll::Ready(Ok(()));
            }
            if let Some(Work::Reading(read)) = this.at_work.get() {
                let data = ready!(read.as_mut().poll(cx));
                *this.at_work.get() = None;
                this.rest = data?;
                if this.rest.is_empty() {
                    return Poll::Ready(Ok(()));
                }
                continue;
            }
            ready!(this.poll_idle(cx))?;
            this.begin_reading(buf.remaining());
        }
    }
}

impl AsyncWrite for Cursor {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_idle(cx))?;
        self.forget_read();
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        Poll::Ready(self.begin_writing(cx, buf))
    }

    /// Brings all that was written to stable storage, and tells if any of it did not come there.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_sync(cx).map_err(io::Error::from)
    }

    /// As a flush.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_sync(cx).map_err(io::Error::from)
    }
}

impl AsyncSeek for Cursor {
    fn start_seek(mut self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        self.seeking = Some(position);
        Ok(())
    }

    fn poll_complete(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        if let Some(from) = self.seeking {
            let place = ready!(self.poll_place(cx, from));
            self.seeking = None;
            self.set_position(place?);
        }
        Poll::Ready(Ok(self.position))
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        if !self.unsafe_data {
            return;
        }
        let write = match self.at_work.get().take() {
            Some(Work::Writing(write)) => Some(write),
            _ => None,
        };
        let file = self.file.clone();
        self.file.leave_behind(async move {
            if let Some(write) = write {
                drop(write.await);
            }
            file.sync().await
        });
    }
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor")
            .field("file", &self.file)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

fn as_u64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// The runtime that carried a write on has ended.
fn ended() -> ClientError {
    ClientError::Rpc(RpcError::Disconnected(Lost::Here))
}
