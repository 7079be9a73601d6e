//! READ.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use nfs_io::engine::Engine;
use nfs_io::fs;
use nfs_io::op::Op;
use nfs_io::plan::{Mode, ReadPlan, plan_read};
use nfs_io::{Buf, Errno, Keep};

use super::super::{Access, Attributes, Error, Result};
use super::mode::{Moving, alignment};
use super::{ReadDone, finished, must_be_regular};
use crate::exports::policy::Io;
use crate::operate::trace::Event;
use crate::vfs::{Target, Vfs};

impl Vfs {
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
        let object = &target.object;
        must_be_regular(object)?;
        let before = self.attributes(object).await?;
        self.check_io(target, Access::READ, before.stat).await?;
        let left = usize::try_from(before.stat.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = count.min(left);
        let mut moving = Moving::new(object, Io::Read, target.choose(Io::Read, count as u64).mode);
        let read = self
            .read_range(engine, target, &mut moving, offset, wanted, &before)
            .await;
        moving.count(target, read.as_ref().map_or(0, |data| data.len()));
        let data = read?;
        let done = data.len() as u64;
        self.trace
            .io(Event::ReadIoDone, target.about(), offset, done);
        let end = offset.saturating_add(done);
        // What was there when the attributes were taken has been read: they say how far the file goes.
        // Only who got less looks again: the file was cut, or the read ended before the file.
        let attributes = if data.len() == wanted {
            before
        } else {
            self.attributes(object).await?
        };
        // A short read without the file's end is allowed (RFC 1813 §3.3.6); the client comes again.
        Ok(ReadDone {
            data,
            eof: end >= attributes.stat.size,
            attributes,
        })
    }

    /// Reads `wanted` bytes, or what there is of them.
    async fn read_range(
        self: &Arc<Self>,
        engine: &Engine,
        target: &Target,
        moving: &mut Moving<'_>,
        offset: u64,
        wanted: usize,
        before: &Attributes,
    ) -> Result<Buf> {
        let object = &target.object;
        let budget = self.read_buffers.budget();
        let alignment = alignment(object, &before.stat);
        let plan = |mode| plan_read(mode, offset, wanted, 0, &alignment).ok_or(Error::Invalid);
        let mut planned = plan(moving.mode)?;
        let share = object.mount.read_share(rounded_len(&planned), budget);
        let _share = share.await.ok_or(Error::Busy)?;
        let mut data = self.send_buffer(rounded_len(&planned)).await?;
        loop {
            moving.note_fallback(planned.fallback());
            let Some(segment) = planned.segments().next() else {
                return Ok(data);
            };
            let (mode, start) = (segment.mode, segment.file.start);
            let fd = if mode == Mode::Direct {
                self.direct_fd(target, moving).await?
            } else {
                Some(self.read_fd(target).await?)
            };
            if let Some(fd) = fd {
                let file = (start, data.len() as u64);
                moving.trace(&self.trace, target, file, mode);
                let result;
                (result, data) = self
                    .read_into(engine, target, fd, start, mode, data)
                    .await?;
                match result {
                    Ok(read) => {
                        moving.moved.segment(mode, read);
                        data.narrow(planned.window_of(read));
                        return Ok(data);
                    }
                    Err(errno)
                        if moving.is_refused(mode, errno)
                            || moving.is_direct_failure(mode, errno) => {}
                    Err(errno) => return finished(Err(errno)).map(|_| data),
                }
            }
            // Refused: what was asked, without its surroundings, through the page cache.
            planned = plan(moving.mode)?;
            data.truncate(rounded_len(&planned));
        }
    }

    /// Fills `data` from `offset` on: of the page cache what is there, at once; the rest through the
    /// engine.
    async fn read_into(
        &self,
        engine: &Engine,
        target: &Target,
        file: Arc<OwnedFd>,
        offset: u64,
        mode: Mode,
        mut data: Buf,
    ) -> Result<(nfs_io::Result<usize>, Buf)> {
        let engine = &self.engine_for(engine, target);
        // `EAGAIN` and its like: it is not there, or the file system cannot tell.
        let cached = if target.object.mount.local && mode != Mode::Direct {
            fs::pread_nowait(file.as_fd(), &mut data, offset, mode).unwrap_or(0)
        } else {
            0
        };
        let wanted = data.len();
        if cached == wanted {
            return Ok((Ok(cached), data));
        }
        let op = Op::Read {
            file,
            offset: offset + cached as u64,
            buf: data,
            range: cached..wanted,
            mode,
            keep: Keep::none(),
        };
        let result = engine.submit(op, &target.actor.creds, target.lane()).await;
        let data = result.buf.ok_or(Error::Errno(Errno::IO))?;
        Ok((result.result.map(|read| cached + read), data))
    }

    /// Waits until the budget has room.
    async fn send_buffer(&self, len: usize) -> Result<Buf> {
        match self.read_buffers.try_take(len) {
            Some(buf) => Ok(buf),
            None => self.read_buffers.take(len).await.ok_or(Error::Busy),
        }
    }
}

/// Bytes to read from the file.
fn rounded_len(plan: &ReadPlan) -> usize {
    let rounded = plan.rounded();
    // At most two alignments more than a call's length, which is a `usize`.
    usize::try_from(rounded.end - rounded.start).unwrap_or(usize::MAX)
}
