//! READ: from a file into a buffer, segment by segment as the decision says.

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use nfs_io::engine::Engine;
use nfs_io::fs;
use nfs_io::op::Op;
use nfs_io::plan::Segment;
use nfs_io::{Buf, BufferPool, Errno, FileData, Keep, Mode, Pages, Share};
use rustix::param::page_size;

use super::super::staging::Why;
use super::super::{Access, Error, Result};
use super::decide::{Failure, IoCall, len_of};
use super::spliced::{Spliced, range_to_splice};
use super::transfer::Transfer;
use super::{ReadDone, Stability, must_be_regular};
use crate::exports::policy::Io;
use crate::operate::calls::{Note, StepKind, step};
use crate::operate::trace::Event;
use crate::vfs::ahead::Reading;
use crate::vfs::reads::Shape;
use crate::vfs::{Target, Vfs};

impl Vfs {
    /// Reads up to `count` bytes at `offset`. The attributes that are told are from before the data is read: whoever is told
    /// both never takes old data for that of a file which has changed since. Where the call has changed nothing
    /// (`shares_looks`) they are those of [`Vfs::attributes_since_call`].
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is no regular file, else the kernel's.
    pub(crate) async fn read(
        self: &Arc<Self>,
        engine: &Engine,
        target: &Target,
        (offset, count): (u64, usize),
        shares_looks: bool,
    ) -> Result<ReadDone> {
        let object = &target.object;
        must_be_regular(object)?;
        let mut before = match shares_looks {
            true => self.attributes_since_call(target).await?,
            false => self.attributes(target).await?,
        };
        self.check_io(target, Access::READ, before.stat).await?;
        if self.stages.of(object.inode()).is_some() {
            let range = offset..offset.saturating_add(count as u64);
            self.settle(object.inode(), &range, Why::Read).await?;
            before = self.attributes(target).await?;
        }
        let call = IoCall {
            io: Io::Read,
            offset,
            bytes: count,
            client: target.actor.call.client.ip(),
            open: target.actor.open,
            stable: Stability::Unstable,
            memory: 0,
        };
        let mut transfer =
            Transfer::new(self, target, &call, &before.stat).ok_or(Error::Invalid)?;
        let wanted = transfer.decision.bytes();
        let mode = transfer.decision.choice.mode;
        let mut ahead = self.reading(target, &transfer.decision, &before.stat);
        let ahead = ahead.as_mut();
        let read = self.read_range(engine, target, &mut transfer, ahead).await;
        transfer.count(target, read.as_ref().map_or(0, |(data, _)| data.len()));
        let (data, share) = read?;
        let done = data.len() as u64;
        self.trace
            .io(Event::ReadIoDone, target.about(), offset, done);
        let end = offset.saturating_add(done);
        // What was there when the attributes were taken has been read: they say how far the file goes.
        // Only who got less looks again: the file was cut, or the read ended before the file.
        let attributes = if data.len() == wanted {
            before
        } else {
            self.attributes(target).await?
        };
        // A short read without the file's end is allowed (RFC 1813 §3.3.6); the client comes again.
        Ok(ReadDone {
            data,
            share,
            eof: end >= attributes.stat.size,
            mode,
            attributes,
        })
    }

    /// Reads what was decided, or what there is of it: of what was read ahead if it is there.
    async fn read_range(
        self: &Arc<Self>,
        engine: &Engine,
        target: &Target,
        transfer: &mut Transfer<'_>,
        ahead: Option<&mut Reading>,
    ) -> Result<(FileData, Share)> {
        let Some(ahead) = ahead else {
            return self.read_segment(engine, target, transfer, None).await;
        };
        if !ahead.is_covered {
            // What was asked for comes first.
            let read = self.read_segment(engine, target, transfer, None).await?;
            self.read_ahead(engine, target, ahead);
            return Ok(read);
        }
        self.read_ahead(engine, target, ahead);
        let taking = step(StepKind::ReadAhead);
        let piece = ahead.take_whole().await;
        taking.hit(piece.is_some());
        taking.end();
        if let Some(piece) = piece {
            self.answered_ahead(target, transfer, piece.data.len());
            return Ok((FileData::Copied(piece.data), piece.share));
        }
        let ahead = Some(&*ahead);
        self.read_segment(engine, target, transfer, ahead).await
    }

    /// Reads the one segment that a READ has, if it has any.
    async fn read_segment(
        self: &Arc<Self>,
        engine: &Engine,
        target: &Target,
        transfer: &mut Transfer<'_>,
        ahead: Option<&Reading>,
    ) -> Result<(FileData, Share)> {
        let first = transfer.decision.segments().next();
        let mut known = None;
        if let Some(segment) = &first
            && let Some(range) = range_to_splice(target, transfer, segment)
        {
            match self.read_pages(target, transfer, segment, range).await {
                Ok((pages, share)) => return Ok((FileData::Pages(pages), share)),
                Err(to_be_copied) => known = to_be_copied.may_wait,
            }
        }
        let len = first.as_ref().map_or(0, len_of);
        let (share, _of_mount) = self.room_for(target, BufferPool::bytes_of(len)).await;
        let mut data = self.send_buffer(len).await?;
        let Some(mut segment) = first else {
            return Ok((FileData::Copied(data), share));
        };
        if let Some(ahead) = ahead
            && ahead.copy_into(&mut data, Instant::now()).await?
        {
            data.truncate(transfer.decision.bytes());
            self.answered_ahead(target, transfer, data.len());
            return Ok((FileData::Copied(data), share));
        }
        loop {
            let file = match segment.mode {
                Mode::Direct => self.direct_fd(target, Io::Read).await,
                Mode::Buffered | Mode::DontCache => self.read_fd(target).await,
            };
            let failure = match file {
                Ok(file) => {
                    transfer.trace(&self.trace, target, &segment);
                    let result;
                    let shape = shape(target, transfer);
                    let known = known.take();
                    let may_wait =
                        known.unwrap_or_else(|| may_wait(target, shape, &file, &segment));
                    (result, data) = self
                        .read_into(engine, target, file, (&segment, may_wait), data)
                        .await?;
                    if may_wait && result.is_ok_and(|read| read > 0) {
                        let reads = &target.object.io.reads;
                        reads.made_by_worker(shape, &segment.file);
                    }
                    match result {
                        Ok(read) => {
                            transfer.tally.segment(segment.mode, read);
                            data.narrow(transfer.decision.window(&segment, read));
                            return Ok((FileData::Copied(data), share));
                        }
                        Err(errno) => Failure::Transfer(errno),
                    }
                }
                Err(error) => Failure::Open(error),
            };
            let instead = transfer.fall_back(&segment, failure);
            segment = instead.ok_or_else(|| failure.error())?;
            data.truncate(len_of(&segment));
        }
    }

    /// Reads a segment without a copy: this range, all that the file has of it.
    async fn read_pages(
        self: &Arc<Self>,
        target: &Target,
        transfer: &mut Transfer<'_>,
        segment: &Segment,
        range: Range<u64>,
    ) -> core::result::Result<(Pages, Share), ToBeCopied> {
        let Ok(file) = self.read_fd(target).await else {
            // Whoever copies meets the error, and knows what to do.
            return Err(ToBeCopied { may_wait: None });
        };
        let shape = shape(target, transfer);
        let may_wait = may_wait(target, shape, &file, segment);
        let spliced = self.splice(target, &file, (&range, may_wait)).await;
        let Some((pages, share, way)) = spliced else {
            let may_wait = Some(may_wait);
            return Err(ToBeCopied { may_wait });
        };
        let len = pages.len();
        self.trace
            .io(Event::ReadSplice, target.about(), range.start, len as u64);
        if way == Spliced::FromDisk {
            let reads = &target.object.io.reads;
            reads.made_by_worker(shape, &range);
        }
        transfer.tally.segment(segment.mode, len);
        transfer.tally.spliced(len);
        Ok((pages, share))
    }

    /// Fills `data` from the beginning of `segment` on: of the page cache what is there, at once, unless already that
    /// may wait for the disk; the rest through the engine.
    async fn read_into(
        &self,
        engine: &Engine,
        target: &Target,
        file: Arc<OwnedFd>,
        (segment, may_wait): (&Segment, bool),
        mut data: Buf,
    ) -> Result<(nfs_io::Result<usize>, Buf)> {
        let engine = &self.engine_for(engine, target);
        let (offset, mode) = (segment.file.start, segment.mode);
        // `EAGAIN` and its like: it is not there, or the file system cannot tell.
        let looks = target.object.mount.local && mode != Mode::Direct && !may_wait;
        let cached = if looks {
            let step = step(StepKind::PageCache);
            let cached = fs::pread_nowait(file.as_fd(), &mut data, offset, mode).unwrap_or(0);
            step.note(Note::moved(mode, cached));
            cached
        } else {
            0
        };
        let wanted = data.len();
        if cached == wanted {
            return Ok((Ok(cached), data));
        }
        let takes_lock = target.object.mount.read_waits.takes_lock();
        let is_locked_out = || takes_lock && cached == 0 && fs::reads_are_locked_out(file.as_fd());
        let may_wait = may_wait || (mode != Mode::Direct && is_locked_out());
        let step = step(StepKind::Segment);
        step.note(Note::moved(mode, wanted - cached));
        let op = Op::Read {
            file,
            offset: offset + cached as u64,
            buf: data,
            range: cached..wanted,
            mode,
            may_wait,
            keep: Keep::none(),
        };
        let result = engine.submit(op, &target.actor.creds, target.queue()).await;
        step.end();
        let data = result.buf.ok_or(Error::Errno(Errno::IO))?;
        Ok((result.result.map(|read| cached + read), data))
    }

    /// Waits until the call's client and its file system hold little enough of the memory for replies for so many
    /// bytes more. Nothing of the one is held while waiting for the other: a client that takes no replies
    /// would keep the file system from others, and a file system that does not answer its clients from the
    /// other ones.
    pub(in crate::vfs) async fn room_for(&self, target: &Target, bytes: u64) -> (Share, Share) {
        let client = target.sharer();
        let of_clients = &self.read_shares;
        let budget_bytes = self.read_buffers.budget().total();
        let of_mount = target.object.mount.read_share(budget_bytes);
        loop {
            let client_part = match of_clients.try_take(client, bytes) {
                Some(part) => part,
                None => {
                    // What was read ahead is not worth a wait.
                    self.ahead.give_way();
                    let _waiting = step(StepKind::Memory);
                    of_clients.take(client, bytes).await
                }
            };
            if let Some(mount_part) = of_mount.try_take(client, bytes) {
                return (client_part, mount_part);
            }
            drop(client_part);
            self.ahead.give_way();
            let _waiting = step(StepKind::Memory);
            let mount_part = of_mount.take(client, bytes).await;
            if let Some(client_part) = of_clients.try_take(client, bytes) {
                return (client_part, mount_part);
            }
        }
    }

    /// Waits until the budget has room.
    async fn send_buffer(&self, len: usize) -> Result<Buf> {
        match self.read_buffers.try_take(len) {
            Some(buf) => Ok(buf),
            None => {
                let _waiting = step(StepKind::Memory);
                self.read_buffers.take(len).await.ok_or(Error::Busy)
            }
        }
    }
}

/// A READ that cannot be spliced.
struct ToBeCopied {
    /// Whether it may wait for the disk before its data can be asked for, if that is known already: it is asked once for
    /// each READ.
    may_wait: Option<bool>,
}

/// The file that is read, as far as waiting depends on it.
fn shape(target: &Target, transfer: &Transfer<'_>) -> Shape {
    let mount = &target.object.mount;
    Shape {
        waits: mount.read_waits,
        size: transfer.size,
        blocks: transfer.blocks,
        block_bytes: mount.block_bytes,
    }
}

/// Whether a READ may wait for the disk before the data can be asked for: see [`Reads`](crate::vfs::reads::Reads).
fn may_wait(target: &Target, shape: Shape, file: &OwnedFd, segment: &Segment) -> bool {
    let is_cached = |range: &Range<u64>| is_cached(file, range);
    let reads = &target.object.io.reads;
    target.object.mount.local && reads.may_wait(shape, segment.mode, &segment.file, is_cached)
}

/// Whether the page cache has the range whole; `true` where the kernel does not say.
fn is_cached(file: &OwnedFd, range: &Range<u64>) -> bool {
    let page = page_size() as u64;
    let pages = range.end.div_ceil(page) - range.start / page;
    let cached = fs::cachestat(file.as_fd(), range.start, range.end - range.start);
    cached.map_or(true, |cached| cached.cached >= pages)
}
