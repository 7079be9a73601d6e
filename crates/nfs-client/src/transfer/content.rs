//! The bytes of one file, from either side to either side, in order.

use std::collections::VecDeque;
use std::fs::File as LocalFile;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nfs_io::buffer::BufferPool;
use rustix::fs::SeekFrom;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::decide;
use super::disk::Disk;
use super::error::TransferError;
use super::piece::Piece;
use super::place::Location;
use super::stream;
use super::threads::{blocking, joined};
use super::watch::Watch;
use crate::file::{File, ReadStream};
use crate::limits::{LOCAL_PIECES_MAX, TRANSFER_UNCOMMITTED_BYTES_MAX};
use crate::rate::{self, Limit};

/// A file on its way in: its data in order, holes left out where they are known.
pub(super) enum Reader {
    /// A thread reads ahead; ends with the file's length.
    Local {
        pieces: mpsc::Receiver<Piece>,
        thread: Option<JoinHandle<io::Result<u64>>>,
        place: Location,
        len: u64,
    },
    Remote {
        stream: Box<ReadStream>,
        offset: u64,
    },
}

/// How a file of this host is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalRead {
    /// The offset to begin at, in bytes.
    pub(super) from: u64,
    /// The length of a full piece, in bytes.
    pub(super) piece_bytes: usize,
    /// Whether holes are left out.
    pub(super) skip_holes: bool,
}

impl Reader {
    pub(super) fn local(
        file: Arc<Disk>,
        place: Location,
        how: LocalRead,
        pool: &BufferPool,
    ) -> Self {
        let pool = pool.clone();
        Self::thread(place, move |sender| read_pieces(&file, how, &pool, &sender))
    }

    /// What `read` sends, on a thread that may block; it returns the file's length.
    pub(super) fn thread(
        place: Location,
        read: impl FnOnce(mpsc::Sender<Piece>) -> io::Result<u64> + Send + 'static,
    ) -> Self {
        let (sender, pieces) = mpsc::channel(LOCAL_PIECES_MAX);
        let thread = tokio::task::spawn_blocking(move || read(sender));
        Self::Local {
            pieces,
            thread: Some(thread),
            place,
            len: 0,
        }
    }

    pub(super) fn remote(file: &File, from: u64) -> Self {
        Self::Remote {
            stream: Box::new(file.stream(from)),
            offset: from,
        }
    }

    /// The next piece; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Piece>, TransferError> {
        match self {
            Self::Local {
                pieces,
                thread,
                place,
                len,
            } => {
                if let Some(piece) = pieces.recv().await {
                    return Ok(Some(piece));
                }
                if let Some(thread) = thread.take() {
                    *len = joined(thread)
                        .await
                        .map_err(|error| TransferError::local(place, "read", error))?;
                }
                Ok(None)
            }
            Self::Remote { stream, offset } => {
                let Some(data) = stream.next().await? else {
                    return Ok(None);
                };
                let piece = Piece {
                    offset: *offset,
                    data,
                };
                *offset = piece.end();
                Ok(Some(piece))
            }
        }
    }

    /// The file's length, bytes, once [`Self::next`] has given `None`.
    fn len(&self) -> u64 {
        match self {
            Self::Local { len, .. } => *len,
            Self::Remote { offset, .. } => *offset,
        }
    }
}

/// Reads the file from `how.from` to its end, and returns its length. Ends early, without an error,
/// when nobody wants more.
fn read_pieces(
    file: &Disk,
    how: LocalRead,
    pool: &BufferPool,
    pieces: &mpsc::Sender<Piece>,
) -> io::Result<u64> {
    let mut offset = how.from;
    loop {
        let end = match how.skip_holes {
            false => u64::MAX,
            true => match next_data(file, offset)? {
                Some((start, end)) => {
                    offset = start;
                    end
                }
                None => return Ok(file.file().metadata()?.len().max(offset)),
            },
        };
        while offset < end {
            let lens = piece_lens(offset, end, how.piece_bytes, file.pieces_at_once());
            let read = file.read_some(offset, &lens, pool)?;
            if read.is_empty() {
                return Ok(offset);
            }
            for data in read {
                let piece = Piece { offset, data };
                offset = piece.end();
                if pieces.blocking_send(piece).is_err() {
                    return Ok(offset);
                }
            }
        }
    }
}

/// Lengths of up to `count` pieces from `offset` to `end`. They end at multiples of their size, so that
/// WRITEs do, and direct reads begin there.
fn piece_lens(offset: u64, end: u64, piece_bytes: usize, count: usize) -> Vec<usize> {
    let mut at = offset;
    let lens = (0..count).map_while(|_| {
        let into = at % piece_bytes as u64;
        let len = (piece_bytes as u64 - into).min(end.saturating_sub(at));
        at = at.saturating_add(len);
        usize::try_from(len).ok().filter(|&len| len > 0)
    });
    lens.collect()
}

/// The next run of data at or behind `offset`; `None` if only a hole follows.
fn next_data(file: &Disk, offset: u64) -> io::Result<Option<(u64, u64)>> {
    let start = match rustix::fs::seek(file.file(), SeekFrom::Data(offset)) {
        Ok(start) => start,
        Err(rustix::io::Errno::NXIO) => return Ok(None),
        // No holes to be had from this file system.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => {
            return Ok(Some((offset, u64::MAX)));
        }
        Err(error) => return Err(error.into()),
    };
    match rustix::fs::seek(file.file(), SeekFrom::Hole(start)) {
        Ok(end) => Ok(Some((start, end))),
        // Cut off in between.
        Err(rustix::io::Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A file on its way out.
pub(super) enum Writer {
    /// A file of this host, which a thread writes behind the sender.
    Local {
        orders: Option<mpsc::Sender<Order>>,
        thread: Option<JoinHandle<io::Result<()>>>,
        place: Location,
    },
    Remote(File),
}

/// What the writing thread is told.
pub(super) enum Order {
    Write(Piece),
    /// Tells when all before it is done; brought to stable storage if so.
    Flush(oneshot::Sender<()>, bool),
}

impl Writer {
    pub(super) fn local(file: Arc<Disk>, place: Location, pool: &BufferPool) -> Self {
        let pool = pool.clone();
        Self::thread(place, move |queue| write_pieces(&file, queue, &pool))
    }

    /// The stream `sink` of this host.
    pub(super) fn stream(sink: Arc<LocalFile>, place: Location) -> Self {
        Self::thread(place, move |queue| stream::write_all(&sink, queue))
    }

    fn thread(
        place: Location,
        write: impl FnOnce(mpsc::Receiver<Order>) -> io::Result<()> + Send + 'static,
    ) -> Self {
        let (orders, queue) = mpsc::channel(LOCAL_PIECES_MAX);
        let thread = tokio::task::spawn_blocking(move || write(queue));
        Self::Local {
            orders: Some(orders),
            thread: Some(thread),
            place,
        }
    }

    pub(super) async fn write(&mut self, piece: Piece) -> Result<(), TransferError> {
        match self {
            Self::Remote(file) => Ok(file.write_at(piece.offset, piece.data).await?),
            Self::Local { orders, .. } => {
                let sent = match orders {
                    Some(orders) => orders.send(Order::Write(piece)).await.is_ok(),
                    None => false,
                };
                if sent { Ok(()) } else { self.end().await }
            }
        }
    }

    /// Waits until all that was written is there: on stable storage of a server, or handed to this
    /// host's file system, and on its disk if `stable`.
    pub(super) async fn flush(&mut self, stable: bool) -> Result<(), TransferError> {
        match self {
            Self::Remote(file) => Ok(file.sync().await?),
            Self::Local { orders, .. } => {
                let (told, done) = oneshot::channel();
                let sent = match orders {
                    Some(orders) => orders.send(Order::Flush(told, stable)).await.is_ok(),
                    None => false,
                };
                if sent && done.await.is_ok() {
                    Ok(())
                } else {
                    self.end().await
                }
            }
        }
    }

    /// All that was written below this is on stable storage, bytes; of a file of this host nothing is
    /// known, and nothing promised.
    fn stable_end(&self) -> u64 {
        match self {
            Self::Local { .. } => u64::MAX,
            Self::Remote(file) => file.committed(),
        }
    }

    /// Ends the thread of a local file and tells what went wrong.
    async fn end(&mut self) -> Result<(), TransferError> {
        let Self::Local {
            orders,
            thread,
            place,
        } = self
        else {
            return Ok(());
        };
        *orders = None;
        match thread.take() {
            Some(thread) => joined(thread)
                .await
                .map_err(|error| TransferError::local(place, "write", error)),
            None => Ok(()),
        }
    }

    /// After the last write: everything is there as by [`Self::flush`], and the file is let go.
    pub(super) async fn finish(mut self, stable: bool) -> Result<(), TransferError> {
        match self {
            Self::Remote(file) => Ok(file.close().await?),
            Self::Local { .. } => {
                self.flush(stable).await?;
                self.end().await
            }
        }
    }
}

fn write_pieces(
    file: &Disk,
    mut queue: mpsc::Receiver<Order>,
    pool: &BufferPool,
) -> io::Result<()> {
    let mut put_off = None;
    while let Some(order) = put_off.take().or_else(|| queue.blocking_recv()) {
        match order {
            Order::Write(piece) => {
                let mut run = vec![piece];
                put_off = gather(file, &mut run, &mut queue);
                file.write(&run, pool)?;
            }
            Order::Flush(told, stable) => {
                if stable {
                    file.file().sync_data()?;
                }
                // Who asked may have gone; then nobody wants to know.
                let _ = told.send(());
            }
        }
    }
    Ok(())
}

/// Adds to `run` what has come meanwhile and can be written with it; the first order that cannot.
fn gather(file: &Disk, run: &mut Vec<Piece>, queue: &mut mpsc::Receiver<Order>) -> Option<Order> {
    while run.len() < file.pieces_at_once() {
        match queue.try_recv().ok()? {
            Order::Write(next) if run.last().is_some_and(|last| file.joins(last, &next)) => {
                run.push(next);
            }
            order => return Some(order),
        }
    }
    None
}

/// How far [`pump`] has come when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pumped {
    /// The whole of it: the source's length, and where the last data written ended, bytes.
    All { len: u64, written: u64 },
    /// Stopped by the watch: all below this offset was handed to the writer, bytes.
    Stopped { at: u64 },
}

/// How fast, and who sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace<'a> {
    pub(super) watch: &'a Watch,
    pub(super) limit: Option<&'a Limit>,
}

impl Pace<'_> {
    /// Waits until `bytes` may go; no longer when the copy is stopped.
    pub(super) async fn wait(&self, bytes: u64) {
        if let Some(limit) = self.limit {
            limit.take(bytes, || self.watch.is_stopped()).await;
        }
    }

    /// Waits for so long; no longer when the copy is stopped.
    pub(super) async fn pause(&self, pause: Duration) {
        rate::sleep(pause, || self.watch.is_stopped()).await;
    }

    /// `part`, cut so that it goes evenly.
    fn cut(&self, part: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let step = self.limit.map_or(usize::MAX, Limit::piece_bytes);
        let end = part.end;
        part.step_by(step)
            .map(move |start| start..end.min(start.saturating_add(step)))
    }
}

/// Moves everything from `reader`, which begins at `from`, to `writer`. With `zeros`, blocks of zeros
/// are left out.
pub(super) async fn pump(
    reader: &mut Reader,
    writer: &mut Writer,
    from: u64,
    zeros: bool,
    pace: Pace<'_>,
) -> Result<Pumped, TransferError> {
    let watch = pace.watch;
    let mut at = from;
    let mut written = from;
    loop {
        if watch.is_stopped() {
            return Ok(Pumped::Stopped { at });
        }
        // A stream may bring nothing for long.
        let next = tokio::select! {
            next = reader.next() => next?,
            () = watch.stop_asked() => return Ok(Pumped::Stopped { at }),
        };
        let Some(piece) = next else {
            break;
        };
        let end = piece.end();
        let parts = match zeros {
            true => decide::without_zeros(piece.offset, &piece.data),
            false => std::iter::once(0..piece.data.len()).collect(),
        };
        for part in parts.into_iter().flat_map(|part| pace.cut(part)) {
            pace.wait(part.len() as u64).await;
            if watch.is_stopped() {
                return Ok(Pumped::Stopped { at });
            }
            let part = Piece {
                offset: piece.offset + part.start as u64,
                data: piece.data.slice(part),
            };
            // A copy that goes on after a crash counts on this; see `decide::onto`. Where windows are
            // of the usual size and there are no holes, the writer's own commits come first.
            let reach = part.end().saturating_sub(writer.stable_end());
            if reach > TRANSFER_UNCOMMITTED_BYTES_MAX {
                writer.flush(false).await?;
            }
            written = part.end();
            writer.write(part).await?;
            watch.moved(written.saturating_sub(at));
            at = at.max(written);
        }
        watch.moved(end.saturating_sub(at));
        at = end;
    }
    let len = reader.len();
    watch.moved(len.saturating_sub(at));
    Ok(Pumped::All { len, written })
}

/// Two pieces of a file that a copy is to go on with: its first block, and the one before `from`.
/// Whether they are the same on both sides; if not, it is another file.
pub(super) fn probes(from: u64, block: u64) -> VecDeque<u64> {
    let mut offsets = VecDeque::from([0]);
    let last = from.saturating_sub(block);
    if last > 0 {
        offsets.push_back(last);
    }
    offsets
}

/// Up to `len` bytes at `offset` of an open file of either side.
pub(super) async fn sample(
    opened: &Opened,
    place: &Location,
    offset: u64,
    len: usize,
    pool: &BufferPool,
) -> Result<Bytes, TransferError> {
    match opened {
        Opened::Remote(file) => Ok(file.read_at(offset, len).await?.data),
        Opened::Local(file) => {
            let (file, pool) = (file.clone(), pool.clone());
            let read = blocking(move || file.read(offset, len, &pool)).await;
            read.map_err(|error| TransferError::local(place, "read", error))
        }
    }
}

/// An open file of either side.
#[derive(Clone, Debug)]
pub(super) enum Opened {
    Local(Arc<Disk>),
    Remote(File),
}
