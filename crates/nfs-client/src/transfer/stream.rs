//! Streams of this host: fifos, devices, and descriptors that are open already. Their bytes come or go once and in
//! order; nothing is known of their end before it is there, and nothing of them is cut, renamed or gone on with.
//!
//! Opening and reading may wait for another program, for ever: both happen on threads that may block, and a copy
//! that is stopped leaves them where they are.

use std::fs::File as LocalFile;
use std::io::{self, Read, Write as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;
use nfs_io::buffer::BufferPool;
use nfs_wire::nfs3::Ftype3;
use rustix::fs::OFlags;
use rustix::io::Errno;
use tokio::sync::mpsc;

use super::content::{self, Order, Pumped, Reader, Writer};
use super::dir::Side;
use super::error::TransferError;
use super::file;
use super::item::type_name;
use super::job::{Context, Job, piece_bytes};
use super::local;
use super::options::Existing;
use super::piece::Piece;
use super::watch::{Done, What};

/// How a stream is reached.
#[derive(Clone, Debug)]
pub(super) enum Stream {
    /// By its name, where it is to be opened.
    Named,
    /// By a descriptor, which is open already.
    Open(Arc<OwnedFd>),
}

/// Whether a file of this host that was named goes as a stream: of a socket no bytes can be had.
pub(super) fn is_stream(ftype: Ftype3) -> bool {
    match ftype {
        Ftype3::Fifo | Ftype3::Chr | Ftype3::Blk => true,
        Ftype3::Reg | Ftype3::Dir | Ftype3::Lnk | Ftype3::Sock => false,
    }
}

/// Refuses what needs a stream's bytes twice.
pub(super) fn check(
    context: &Context,
    job: &Job,
    to: Option<&Stream>,
) -> Result<(), TransferError> {
    let options = &context.options;
    let place = match (&job.stream, to) {
        (Some(_), _) => job.from.location.join(&job.item.name),
        (None, Some(_)) => job.to.location.join(&job.name),
        (None, None) => return Ok(()),
    };
    if options.verify || options.existing == Existing::Resume {
        return Err(TransferError::Once {
            place: Box::new(place),
        });
    }
    Ok(())
}

/// Copies a file, or a stream, into the stream `to`.
pub(super) async fn copy_into(
    context: &Context,
    job: &Job,
    to: &Stream,
) -> Result<Done, TransferError> {
    check(context, job, Some(to))?;
    let ftype = job.item.attributes.ftype;
    if job.stream.is_none() && ftype != Ftype3::Reg {
        return Err(TransferError::InTheWay {
            place: Box::new(job.to.location.join(&job.name)),
            is: "stream",
            by: type_name(ftype),
        });
    }
    if context.options.dry_run {
        context.watch.moved(job.item.attributes.size);
        return Ok(job.done(What::Copied, job.item.attributes.size));
    }
    // The source first: one that cannot be read must not open a fifo for nothing.
    let content = file::open_source(context, job).await?;
    let sink = open_sink(context, job, to).await?;
    let mut writer = Writer::stream(sink, job.to.location.join(&job.name));
    let fsync = context.options.fsync;
    let len = match content {
        file::Content::Small(data) => {
            let len = data.len() as u64;
            if len > 0 {
                writer.write(Piece { offset: 0, data }).await?;
            }
            context.watch.moved(len);
            writer.finish(fsync).await?;
            len
        }
        file::Content::Large(source) => {
            let mut reader = file::reader(context, job, &source, 0, false);
            moved(context, job, &mut reader, writer).await?
        }
        file::Content::Stream(source) => {
            let mut reader = reader(context, job, &source, Piecing::AsItComes);
            moved(context, job, &mut reader, writer).await?
        }
    };
    Ok(job.done(What::Copied, len))
}

async fn moved(
    context: &Context,
    job: &Job,
    reader: &mut Reader,
    mut writer: Writer,
) -> Result<u64, TransferError> {
    match content::pump(reader, &mut writer, 0, false, context.pace()).await? {
        Pumped::All { len, .. } => {
            writer.finish(context.options.fsync).await?;
            Ok(len)
        }
        // A reader that takes nothing more must not be waited for.
        Pumped::Stopped { at } => Err(stopped(job, at)),
    }
}

fn stopped(job: &Job, committed: u64) -> TransferError {
    TransferError::Stopped {
        place: Box::new(job.from.location.join(&job.item.name)),
        other: Box::new(job.to.location.join(&job.name)),
        committed,
    }
}

/// Opens the source of `job`, which is a stream.
pub(super) async fn open_source(
    context: &Context,
    job: &Job,
    from: &Stream,
) -> Result<Arc<LocalFile>, TransferError> {
    let flags = OFlags::RDONLY;
    let (dir, name) = (&job.from, &job.item.name);
    opened(context, job, from, (dir, name), flags).await
}

async fn open_sink(
    context: &Context,
    job: &Job,
    to: &Stream,
) -> Result<Arc<LocalFile>, TransferError> {
    opened(context, job, to, (&job.to, &job.name), OFlags::WRONLY).await
}

async fn opened(
    context: &Context,
    job: &Job,
    stream: &Stream,
    (dir, name): (&super::dir::Dir, &Vec<u8>),
    flags: OFlags,
) -> Result<Arc<LocalFile>, TransferError> {
    let place = || dir.location.join(name);
    let fd = match stream {
        Stream::Open(fd) => {
            let fd = fd.try_clone();
            return fd
                .map(|fd| Arc::new(fd.into()))
                .map_err(|error| TransferError::local(&place(), "dup", error));
        }
        Stream::Named => match &dir.side {
            Side::Local(fd) => fd,
            Side::Remote { .. } => {
                let error = io::Error::from(io::ErrorKind::Unsupported);
                return Err(TransferError::local(&place(), "open", error));
            }
        },
    };
    // A fifo waits for its other end.
    let opening = dir.local(fd, name, "open", move |dir, name| {
        local::open_stream(dir, name, flags)
    });
    tokio::select! {
        opened = opening => Ok(Arc::new(opened?)),
        () = context.watch.stop_asked() => Err(stopped(job, 0)),
    }
}

/// How much of a stream is handed on at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piecing {
    /// Full pieces, for WRITEs and disks.
    Full,
    /// What there is, for who waits at the other end.
    AsItComes,
}

/// Reads the stream `source` to its end, on a thread of its own.
pub(super) fn reader(
    context: &Context,
    job: &Job,
    source: &Arc<LocalFile>,
    piecing: Piecing,
) -> Reader {
    let place = job.from.location.join(&job.item.name);
    let (source, pool) = (source.clone(), context.pool.clone());
    let len = piece_bytes(&job.to, false);
    Reader::thread(place, move |pieces| {
        read_all(&source, len, piecing, &pool, &pieces)
    })
}

fn read_all(
    mut source: &LocalFile,
    len: usize,
    piecing: Piecing,
    pool: &BufferPool,
    pieces: &mpsc::Sender<Piece>,
) -> io::Result<u64> {
    let mut offset = 0;
    loop {
        let data = read_piece(&mut source, len, piecing == Piecing::Full, pool)?;
        if data.is_empty() {
            return Ok(offset);
        }
        let piece = Piece { offset, data };
        offset = piece.end();
        if pieces.blocking_send(piece).is_err() {
            return Ok(offset);
        }
    }
}

/// The next bytes of `input`: up to `len` of them, with `full` fewer only at its end; empty at its end. Their memory
/// is of `pool` while that has any.
///
/// # Errors
/// Those of reading; an interrupted call is made again.
pub fn read_piece(
    input: &mut impl Read,
    len: usize,
    full: bool,
    pool: &BufferPool,
) -> io::Result<Bytes> {
    let Some(mut piece) = pool.try_take(len) else {
        let mut plain = vec![0; len];
        let have = fill(input, &mut plain, full)?;
        plain.truncate(have);
        return Ok(plain.into());
    };
    let have = fill(input, &mut piece, full)?;
    piece.truncate(have);
    Ok(Bytes::from_owner(piece))
}

fn fill(input: &mut impl Read, piece: &mut [u8], full: bool) -> io::Result<usize> {
    let mut have = 0;
    while let Some(rest) = piece.get_mut(have..)
        && !rest.is_empty()
    {
        match input.read(rest) {
            Ok(0) => break,
            Ok(count) => have += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        if !full {
            break;
        }
    }
    Ok(have)
}

/// Writes what is ordered, one behind the other.
pub(super) fn write_all(mut sink: &LocalFile, mut queue: mpsc::Receiver<Order>) -> io::Result<()> {
    let mut at = 0;
    while let Some(order) = queue.blocking_recv() {
        match order {
            Order::Write(piece) => {
                assert_eq!(piece.offset, at, "a stream has no holes");
                at = piece.end();
                sink.write_all(&piece.data)?;
            }
            Order::Flush(told, stable) => {
                if stable {
                    sync(sink)?;
                }
                // Who asked may have gone; then nobody wants to know.
                let _ = told.send(());
            }
        }
    }
    Ok(())
}

/// Brings a device to stable storage. What has none, such as a pipe, says so by EINVAL (fsync(2)).
fn sync(sink: &LocalFile) -> io::Result<()> {
    match rustix::fs::fsync(sink) {
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
