//! READ, WRITE and COMMIT.
//!
//! The way of the bytes is decided by a plan (`nfs_io::plan`) and gone by the shard's engine; what the
//! page cache has is read at once, without the engine.

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use nfs_io::engine::Engine;
use nfs_io::fs::{self, Stat};
use nfs_io::op::{Keep, Op, WriteSync};
use nfs_io::plan::{Alignment, Mode, Plan, Segment, plan_read, plan_write};
use nfs_io::{Buf, Errno};

use super::{Access, Attributes, Error, FileKind, Object, Result, Wcc, WithWcc};
use crate::config::IoMode;
use crate::core::{Core, Target};

/// What a READ brought.
pub(crate) struct ReadDone {
    /// Exactly the bytes read.
    pub(crate) data: Buf,
    pub(crate) eof: bool,
    pub(crate) attributes: Attributes,
}

/// What a WRITE is to promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stability {
    Unstable,
    DataSync,
    FileSync,
}

/// What a WRITE did.
pub(crate) struct WriteDone {
    /// Bytes written, from the first on; never 0 of more than 0.
    pub(crate) count: usize,
    /// The verifier from before the write: if data is lost from then on, the client sees another.
    pub(crate) verifier: [u8; 8],
}

impl Core {
    /// Reads up to `count` bytes.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is no regular file, else the kernel's.
    pub(crate) async fn read(
        self: &Arc<Self>,
        engine: &Engine,
        target: &Target,
        offset: u64,
        count: usize,
    ) -> Result<ReadDone> {
        let engine = &self.engine_for(engine, target);
        let object = &target.object;
        must_be_regular(object)?;
        let before = self.attributes(object).await?.stat;
        self.check_io(target, Access::READ, before).await?;
        let left = usize::try_from(before.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = count.min(left);
        let budget = self.send_buffers.budget();
        let _share = object
            .mount
            .read_share(wanted, budget)
            .await
            .ok_or(Error::Busy)?;
        let mut data = self.send_buffer(wanted).await?;
        let mut done = 0;
        let mode = mode(target.tree.export.read);
        let plan = plan_read(mode, offset, wanted, 0, &Alignment::default());
        for segment in plan.ok_or(Error::Invalid)?.segments() {
            let fd = self.read_fd(target).await?;
            let range = part(segment, offset);
            let asked = range.len();
            let read;
            (read, data) = self
                .read_segment(engine, target, fd, segment, range, data)
                .await?;
            done += read;
            if read < asked {
                break;
            }
        }
        data.truncate(done);
        let attributes = self.attributes(object).await?;
        let end = offset.saturating_add(done as u64);
        // A short read without the file's end is allowed (RFC 1813 §3.3.6); the client comes again.
        Ok(ReadDone {
            data,
            eof: end >= attributes.stat.size,
            attributes,
        })
    }

    /// The shard's engine for file systems on this machine. A ring executes an operation within the
    /// submitting call if the file system lets it, and FUSE and network file systems let it and then
    /// wait for their peer: those go to the helper pool, where they hold up their own lane only.
    fn engine_for(&self, engine: &Engine, target: &Target) -> Engine {
        if target.object.mount.local {
            engine.clone()
        } else {
            Engine::threads(self.pool.clone())
        }
    }

    /// Reads one segment into `data[range]`: of the page cache what is there, at once; the rest
    /// through the engine.
    async fn read_segment(
        &self,
        engine: &Engine,
        target: &Target,
        file: Arc<OwnedFd>,
        segment: &Segment,
        range: Range<usize>,
        mut data: Buf,
    ) -> Result<(usize, Buf)> {
        let place = data.get_mut(range.clone()).ok_or(Error::Invalid)?;
        // `EAGAIN` and its like: it is not there, or the file system cannot tell.
        let cached = if target.object.mount.local {
            fs::pread_nowait(file.as_fd(), place, segment.file.start, segment.mode).unwrap_or(0)
        } else {
            0
        };
        if cached == range.len() {
            return Ok((cached, data));
        }
        let op = Op::Read {
            file,
            offset: segment.file.start + cached as u64,
            buf: data,
            range: range.start + cached..range.end,
            mode: segment.mode,
            keep: Keep::none(),
        };
        let result = engine.submit(op, &target.creds, target.lane()).await;
        let read = finished(result.result)?;
        Ok((cached + read, result.buf.ok_or(Error::Errno(Errno::IO))?))
    }

    /// Writes `data`.
    pub(crate) async fn write(
        self: &Arc<Self>,
        engine: &Engine,
        target: &Target,
        offset: u64,
        data: Buf,
        stability: Stability,
    ) -> WithWcc<WriteDone> {
        // A ring hands writes that wait to its workers, one at a time for each file: stable writes
        // of one file could not share a flush of the journal. Threads let them.
        let engine = &match stability {
            Stability::Unstable => self.engine_for(engine, target),
            Stability::DataSync | Stability::FileSync => Engine::threads(self.pool.clone()),
        };
        let object = &target.object;
        // Begun before the attributes are taken: a change that comes between would go unseen.
        let change = object.begin_change(target.client);
        let ready = self.ready_to_write(target, offset, data.len()).await;
        let (before, fd) = match ready {
            Ok(ready) => ready,
            Err(error) => return (Err(error), self.wcc_unchanged(object).await),
        };
        let wanted = data.len();
        let budget = self.receive_buffers.budget();
        let Some(_share) = object.mount.write_share(wanted, budget).await else {
            return (Err(Error::Busy), self.wcc_unchanged(object).await);
        };
        let verifier = self.verifier.bytes();
        let sync = match stability {
            Stability::Unstable => WriteSync::None,
            Stability::DataSync => WriteSync::Dsync,
            Stability::FileSync => WriteSync::Sync,
        };
        let mode = mode(target.tree.export.write);
        let plan = plan_write(mode, offset, wanted, data.address(), &Alignment::default());
        let written = write_segments(engine, target, &fd, data, plan, sync).await;
        let result = match written {
            Ok(0) if wanted > 0 => Err(Error::Errno(Errno::NOSPC)),
            Ok(count) => {
                if stability == Stability::Unstable && count > 0 {
                    object.note_unstable(target.client);
                }
                Ok(WriteDone { count, verifier })
            }
            Err(error) => {
                // The kernel tells of a lost write once: this one may have been somebody else's
                // unstable data. A full disk may be met by this write or, with a sync, by theirs.
                let full = matches!(error, Error::Errno(Errno::NOSPC | Errno::DQUOT));
                let theirs = full && sync != WriteSync::None && object.has_unstable();
                if error == Error::Errno(Errno::IO) || theirs {
                    self.lost(object, None);
                }
                Err(error)
            }
        };
        let after = self.attributes(object).await.ok();
        let before = change.is_unmixed().then_some(before);
        (result, Wcc { before, after })
    }

    /// Puts everything written to the file on stable storage: the kernel offers no more for a
    /// range. Returns the verifier from after it.
    pub(crate) async fn commit(
        self: &Arc<Self>,
        engine: &Engine,
        target: &Target,
    ) -> WithWcc<[u8; 8]> {
        let engine = &self.engine_for(engine, target);
        let object = &target.object;
        let change = object.begin_change(target.client);
        let (before, fd) = match self.ready_to_commit(target).await {
            Ok(ready) => ready,
            Err(error) => return (Err(error), self.wcc_unchanged(object).await),
        };
        let result = self.sync_file(engine, target, fd).await;
        let after = self.attributes(object).await.ok();
        let before = change.is_unmixed().then_some(before);
        (result, Wcc { before, after })
    }

    /// One sync of a file at a time: the kernel reports an error to one fsync of a descriptor, and
    /// whoever is told must have marked the others before they answer.
    async fn sync_file(
        self: &Arc<Self>,
        engine: &Engine,
        target: &Target,
        file: Arc<OwnedFd>,
    ) -> Result<[u8; 8]> {
        let object = &target.object;
        let _one_at_a_time = object.sync_turn().await;
        let covered = object.take_unstable();
        let op = Op::Fsync {
            file,
            data_only: false,
        };
        let result = finished(engine.submit(op, &target.creds, target.lane()).await.result);
        match result {
            Ok(_) if object.must_hear_of_error(target.client) => Err(Error::Errno(Errno::IO)),
            Ok(_) => Ok(self.verifier.bytes()),
            Err(Error::Busy) => {
                object.restore_unstable(covered);
                Err(Error::Busy)
            }
            Err(error) => {
                object.sync_failed(covered, Some(target.client));
                self.verifier.change();
                Err(error)
            }
        }
    }

    /// Syncs what clients did not commit, because the descriptors are to be closed. It stays in the
    /// cache meanwhile: a COMMIT that came to other descriptors would not hear of an error.
    pub(crate) fn sync_before_close(&self, object: &Object) {
        let Some(_one_at_a_time) = object.try_sync_turn() else {
            return;
        };
        let covered = object.take_unstable();
        let Some(fd) = object.write_fd_if_open() else {
            object.restore_unstable(covered);
            return;
        };
        if fs::fsync(fd.as_fd()).is_err() {
            object.sync_failed(covered, None);
            self.verifier.change();
        }
    }

    /// Unstable data of this file may be lost.
    fn lost(&self, object: &Object, told: Option<u64>) {
        let covered = object.take_unstable();
        object.sync_failed(covered, told);
        self.verifier.change();
    }

    async fn ready_to_write(
        self: &Arc<Self>,
        target: &Target,
        offset: u64,
        len: usize,
    ) -> Result<(Stat, Arc<OwnedFd>)> {
        must_be_regular(&target.object)?;
        target.must_be_writable()?;
        let end = offset
            .checked_add(len as u64)
            .filter(|end| i64::try_from(*end).is_ok());
        if end.is_none() {
            return Err(Error::Errno(Errno::FBIG));
        }
        let before = self.attributes(&target.object).await?.stat;
        self.check_io(target, Access::WRITE, before).await?;
        let fd = match target.object.write_fd_if_open() {
            Some(fd) => fd,
            None => self.open_for_write(target).await?,
        };
        Ok((before, fd))
    }

    async fn ready_to_commit(self: &Arc<Self>, target: &Target) -> Result<(Stat, Arc<OwnedFd>)> {
        must_be_regular(&target.object)?;
        target.must_be_writable()?;
        let before = self.attributes(&target.object).await?.stat;
        self.check_io(target, Access::WRITE, before).await?;
        // The descriptor that the writes went through knows of their errors.
        let fd = match target.object.write_fd_if_open() {
            Some(fd) => fd,
            None => match self.open_for_write(target).await {
                // A file that an unprivileged server may no longer open for writing, or a program
                // that runs: nothing was written here since the cache let go of it, synced.
                Err(Error::Errno(Errno::ACCESS | Errno::PERM | Errno::TXTBSY)) => {
                    self.read_fd(target).await?
                }
                opened => opened?,
            },
        };
        Ok((before, fd))
    }

    async fn open_for_write(self: &Arc<Self>, target: &Target) -> Result<Arc<OwnedFd>> {
        let (core, object) = (Arc::clone(self), Arc::clone(&target.object));
        self.blocking(target.lane(), move || object.write_fd(core.files.budget()))
            .await?
    }

    async fn read_fd(self: &Arc<Self>, target: &Target) -> Result<Arc<OwnedFd>> {
        if let Some(fd) = target.object.read_fd_if_open() {
            return Ok(fd);
        }
        let (core, object) = (Arc::clone(self), Arc::clone(&target.object));
        self.blocking(target.lane(), move || object.read_fd(core.files.budget()))
            .await?
    }

    async fn check_io(&self, target: &Target, access: Access, stat: Stat) -> Result<()> {
        if target.object.mount.local {
            return target.object.check_io(&target.creds, access, &stat);
        }
        let target = target.clone();
        self.blocking(target.lane(), move || {
            target.object.check_io(&target.creds, access, &stat)
        })
        .await?
    }

    /// Waits until the budget has room.
    async fn send_buffer(&self, len: usize) -> Result<Buf> {
        match self.send_buffers.try_take(len) {
            Some(buf) => Ok(buf),
            None => self.send_buffers.take(len).await.ok_or(Error::Busy),
        }
    }
}

/// Writes the plan's segments in ascending order: a failure leaves a beginning, which is what a reply
/// can tell.
async fn write_segments(
    engine: &Engine,
    target: &Target,
    file: &Arc<OwnedFd>,
    mut data: Buf,
    plan: Option<Plan>,
    sync: WriteSync,
) -> Result<usize> {
    let plan = plan.ok_or(Error::Errno(Errno::FBIG))?;
    let start = plan.segments().next().map_or(0, |first| first.file.start);
    let mut done = 0;
    for segment in plan.segments() {
        let range = part(segment, start);
        let asked = range.len();
        let offset = segment.file.start;
        let op = Op::Write {
            file: Arc::clone(file),
            offset,
            buf: data,
            range,
            sync,
            mode: segment.mode,
            keep: Keep::none(),
        };
        let result = engine.submit(op, &target.creds, target.lane()).await;
        let written = match finished(result.result) {
            Ok(written) => written,
            // Of a lost write the kernel tells once: it is not to be passed over.
            Err(Error::Errno(Errno::IO)) => return Err(Error::Errno(Errno::IO)),
            Err(_) if done > 0 => return Ok(done),
            Err(error) => return Err(error),
        };
        done += written;
        if written < asked {
            break;
        }
        data = result.buf.ok_or(Error::Errno(Errno::IO))?;
    }
    Ok(done)
}

/// Where a segment's bytes are in the buffer of a call that begins at `offset`.
fn part(segment: &Segment, offset: u64) -> Range<usize> {
    // Within one call, whose length is a `usize`.
    let place = |at: u64| usize::try_from(at - offset).unwrap_or(usize::MAX);
    place(segment.file.start)..place(segment.file.end)
}

/// How an export's bytes are moved.
fn mode(configured: IoMode) -> Mode {
    match configured {
        IoMode::Buffered => Mode::Buffered,
    }
}

/// The engine says `EAGAIN` only when too much waits for the file system.
fn finished(result: nfs_io::Result<usize>) -> Result<usize> {
    result.map_err(|errno| {
        if errno == Errno::AGAIN {
            Error::Busy
        } else {
            errno.into()
        }
    })
}

fn must_be_regular(object: &Object) -> Result<()> {
    if object.kind == FileKind::Regular {
        Ok(())
    } else {
        Err(Error::Invalid)
    }
}
