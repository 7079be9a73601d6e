//! WRITE.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use nfs_io::engine::Engine;
use nfs_io::fs::Stat;
use nfs_io::op::{Op, WriteSync};
use nfs_io::plan::{Mode, Segment, plan_write};
use nfs_io::{Buf, Errno, Keep};

use super::super::gate::{Group, Pass};
use super::super::{Access, Error, Object, Result, WithWcc};
use super::mode::{Moving, alignment};
use super::{Payload, Stability, WriteDone, finished, must_be_regular};
use crate::exports::policy::Io;
use crate::limits;
use crate::operate::trace::Event;
use crate::vfs::{Target, Vfs};

impl Vfs {
    /// Writes a payload.
    pub(crate) async fn write(
        self: &Arc<Self>,
        engine: &Engine,
        target: &Target,
        offset: u64,
        payload: Payload,
        asked: Stability,
    ) -> WithWcc<WriteDone> {
        let object = &target.object;
        // Begun before the attributes are taken: a change that comes between would go unseen.
        let change = object.begin_change(target.actor.author);
        let ready = self
            .ready_to_write(target, offset, payload.data.len())
            .await;
        let (before, fd) = match ready {
            Ok(ready) => ready,
            Err(error) => {
                self.unreachable(target, error);
                return (Err(error), self.wcc_unchanged(object).await);
            }
        };
        change.found(&before);
        let wanted = payload.data.len();
        let about = target.about();
        self.trace
            .io(Event::WriteOpened, about, offset, wanted as u64);
        let budget = &self.write_budget;
        let Some(_share) = object.mount.write_share(wanted, budget).await else {
            return (Err(Error::Busy), self.wcc_unchanged(object).await);
        };
        let choice = target.choose(Io::Write, wanted as u64);
        let committed = choice.stable.raise(asked);
        let verifier = self.verifier.bytes();
        let mut moving = Moving::new(object, Io::Write, choice.mode);
        moving.moved.copied(payload.copied);
        let write = Write {
            target,
            fd,
            offset,
            stability: committed,
        };
        let written = self
            .write_range(engine, &write, &mut moving, payload.data, &before)
            .await;
        let result = match written {
            Ok(0) if wanted > 0 => Err(Error::Errno(Errno::NOSPC)),
            Ok(count) => {
                self.trace
                    .io(Event::WriteIoDone, about, offset, count as u64);
                Ok(WriteDone {
                    count,
                    committed,
                    verifier,
                })
            }
            Err(error) => Err(error),
        };
        self.drop_edges(target, write.fd, limits::EDGE_PAGES_KEPT_MAX)
            .await;
        if committed != Stability::Unstable {
            self.close_if_written(target).await;
        }
        moving.count(target, result.as_ref().map_or(0, |done| done.count));
        let after = self.attributes(object).await.ok();
        (result, change.wcc(before, after))
    }

    /// Writes the segments of the plan in ascending order: a failure leaves a beginning, which is what
    /// a reply can tell. Returns its length; it is as stable as asked.
    async fn write_range(
        self: &Arc<Self>,
        engine: &Engine,
        write: &Write<'_>,
        moving: &mut Moving<'_>,
        mut data: Buf,
        before: &Stat,
    ) -> Result<usize> {
        let object = &write.target.object;
        let alignment = alignment(object, before);
        let plan = plan_write(
            moving.mode,
            write.offset,
            data.len(),
            data.address(),
            &alignment,
        );
        let plan = plan.ok_or(Error::Errno(Errno::FBIG))?;
        moving.note_fallback(plan.fallback());
        // Each segment's own sync would flush the journal and the disk's cache; one at the end is as
        // safe, since nothing is said before it.
        let one_sync = write.stability != Stability::Unstable && plan.segments().count() > 1;
        let sync = if one_sync {
            WriteSync::None
        } else {
            write.stability.sync()
        };
        let mut done = 0;
        for segment in plan.segments() {
            let asked = part(segment, write.offset).len();
            let result;
            (result, data) = self
                .write_segment(engine, write, moving, segment, data, sync)
                .await?;
            match finished(result) {
                Ok(written) => done += written,
                // Of a lost write the kernel tells once: it is not to be passed over.
                Err(error) if done == 0 || error == Error::Errno(Errno::IO) => {
                    self.write_failed(object, error, sync);
                    return Err(error);
                }
                Err(_the_next_write_meets_it) => break,
            }
            if result != Ok(asked) {
                break;
            }
        }
        if done > 0 && (one_sync || write.stability == Stability::Unstable) {
            object.note_unstable(write.target.actor.author);
        }
        if done > 0 && one_sync {
            let whole = write.stability == Stability::FileSync;
            let fd = Arc::clone(&write.fd);
            self.sync_file(engine, write.target, fd, whole).await?;
        }
        Ok(done)
    }

    /// Writes one segment as planned or, where that is refused, through the page cache.
    async fn write_segment(
        self: &Arc<Self>,
        engine: &Engine,
        write: &Write<'_>,
        moving: &mut Moving<'_>,
        segment: &Segment,
        mut data: Buf,
        sync: WriteSync,
    ) -> Result<(nfs_io::Result<usize>, Buf)> {
        let target = write.target;
        let mut mode = segment.mode;
        loop {
            let file = match mode {
                Mode::Direct => match self.direct_fd(target, moving).await? {
                    Some(fd) => fd,
                    None => {
                        mode = Mode::Buffered;
                        continue;
                    }
                },
                Mode::Buffered | Mode::DontCache => Arc::clone(&write.fd),
            };
            let len = segment.file.end - segment.file.start;
            moving.trace(&self.trace, target, (segment.file.start, len), mode);
            let engine = self.engine_for_write(engine, target, sync);
            let pass = Pass::of(target.object.gate(&self.gates), Group::of(mode)).await;
            let op = Op::Write {
                file,
                offset: segment.file.start,
                buf: data,
                range: part(segment, write.offset),
                sync,
                mode,
                keep: Keep::new(pass),
            };
            let done = engine.submit(op, &target.actor.creds, target.lane()).await;
            // Lost with the engine: nobody waits for an answer any more.
            data = done.buf.ok_or(Error::Errno(Errno::IO))?;
            match done.result {
                Ok(written) => {
                    moving.wrote(mode, written);
                    return Ok((Ok(written), data));
                }
                Err(errno) if moving.is_refused(mode, errno) => mode = Mode::Buffered,
                Err(errno) => return Ok((Err(errno), data)),
            }
        }
    }

    /// A ring hands writes that wait to its workers, one at a time for each file: stable writes
    /// of one file could not share a flush of the journal. Threads let them.
    fn engine_for_write(&self, engine: &Engine, target: &Target, sync: WriteSync) -> Engine {
        match sync {
            WriteSync::None => self.engine_for(engine, target),
            WriteSync::Dsync | WriteSync::Sync => Engine::threads(self.pool.clone()),
        }
    }

    fn write_failed(&self, object: &Object, error: Error, sync: WriteSync) {
        // The kernel tells of a lost write once: this one may have been somebody else's
        // unstable data. A full disk may be met by this write or, with a sync, by theirs.
        let full = matches!(error, Error::Errno(Errno::NOSPC | Errno::DQUOT));
        let theirs = full && sync != WriteSync::None && object.has_unstable();
        if error == Error::Errno(Errno::IO) || theirs {
            self.lost(object);
        }
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
        Object::check_sealed(&before)?;
        // Opened for a direct write too: it knows of errors from now on, and COMMIT asks it.
        let fd = self.write_fd(target).await?;
        Ok((before, fd))
    }
}

/// One WRITE but for its data.
struct Write<'t> {
    target: &'t Target,
    /// The descriptor for the page cache.
    fd: Arc<OwnedFd>,
    offset: u64,
    stability: Stability,
}

impl Stability {
    fn sync(self) -> WriteSync {
        match self {
            Self::Unstable => WriteSync::None,
            Self::DataSync => WriteSync::Dsync,
            Self::FileSync => WriteSync::Sync,
        }
    }
}

/// Where a segment's bytes are in the buffer of a call that begins at `offset`.
fn part(segment: &Segment, offset: u64) -> Range<usize> {
    // Within one call, whose length is a `usize`.
    let place = |at: u64| usize::try_from(at - offset).unwrap_or(usize::MAX);
    place(segment.file.start)..place(segment.file.end)
}
