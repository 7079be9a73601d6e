//! WRITE: from a buffer into a file, segment by segment as the decision says.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nfs_io::engine::Engine;
use nfs_io::fs::Stat;
use nfs_io::op::Op;
use nfs_io::plan::Segment;
use nfs_io::{Buf, Errno, Keep, Mode, WriteSync};

use super::super::gate::{Group, Pass};
use super::super::staging::Staged;
use super::super::wcc::Change;
use super::super::{Access, Error, Object, Result, WithWcc};
use super::decide::{Failure, IoCall, len_of, transfer_error};
use super::transfer::Transfer;
use super::{Payload, Stability, WriteDone, must_be_regular};
use crate::exports::policy::Io;
use crate::limits;
use crate::operate::calls::{Note, StepKind, step};
use crate::operate::trace::Event;
use crate::vfs::{Target, Vfs};

/// The range of a WRITE passes 2^63 - 1, the end of any file.
const FILE_TOO_LARGE: Error = Error::Errno(Errno::FBIG);

impl Vfs {
    /// Writes a payload to a regular file, beginning at `offset` bytes, and makes it at least as stable as
    /// was asked for.
    pub(crate) async fn write(
        self: &Arc<Self>,
        engine: &Engine,
        target: &Target,
        offset: u64,
        payload: Payload,
        asked: Stability,
    ) -> WithWcc<WriteDone> {
        // Begun before the attributes are taken: a change that comes between would go unseen.
        let change = target.object.begin_change(target.actor.author);
        let written = self.write_payload(engine, target, &change, offset, payload, asked);
        match written.await {
            (result, Some(before)) => {
                let after = self.attributes(target).await.ok();
                (result, change.wcc(before, after))
            }
            (result, None) => (result, self.wcc_unchanged(target).await),
        }
    }

    /// [`Vfs::write`] for a reply without attributes, which are not asked for then.
    pub(crate) async fn write_untold(
        self: &Arc<Self>,
        engine: &Engine,
        target: &Target,
        offset: u64,
        payload: Payload,
        asked: Stability,
    ) -> Result<WriteDone> {
        let change = target.object.begin_change(target.actor.author);
        let written = self.write_payload(engine, target, &change, offset, payload, asked);
        written.await.0
    }

    /// Writes within a change that has begun; tells the attributes from before it, if anything was tried.
    async fn write_payload(
        self: &Arc<Self>,
        engine: &Engine,
        target: &Target,
        change: &Change,
        offset: u64,
        payload: Payload,
        asked: Stability,
    ) -> (Result<WriteDone>, Option<Stat>) {
        let object = &target.object;
        let ready = self
            .ready_to_write(target, offset, payload.data.len())
            .await;
        let (before, fd) = match ready {
            Ok(ready) => ready,
            Err(error) => {
                self.unreachable(target, error);
                return (Err(error), None);
            }
        };
        change.found(&before);
        let wanted = payload.data.len();
        let about = target.about();
        self.trace
            .io(Event::WriteOpened, about, offset, wanted as u64);
        let budget = &self.write_budget;
        let share = object.mount.write_share(target.sharer(), wanted, budget);
        let waiting = step(StepKind::Memory);
        let share = share.await;
        waiting.end();
        let Some(_share) = share else {
            return (Err(Error::Busy), None);
        };
        let call = IoCall {
            io: Io::Write,
            offset,
            bytes: wanted,
            client: target.actor.call.client.ip(),
            open: target.actor.open,
            stable: asked,
            memory: payload.data.address(),
        };
        let Some(mut transfer) = Transfer::new(self, target, &call, &before) else {
            return (Err(FILE_TOO_LARGE), None);
        };
        transfer.tally.copied(payload.copied);
        self.await_turn(target, &before, &transfer.decision).await;
        self.reserve_ahead(target, &fd, &before, &transfer.decision)
            .await;
        let committed = transfer.decision.stability;
        let verifier = self.verifier.bytes();
        let written = self
            .write_staged(engine, target, &fd, &mut transfer, payload.data)
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
                    mode: transfer.decision.choice.mode,
                })
            }
            Err(error) => Err(error),
        };
        self.evict_unaligned_pages(target, fd, limits::EDGE_PAGES_KEPT_MAX)
            .await;
        if committed != Stability::Unstable {
            self.close_if_written(target).await;
        }
        transfer.count(target, result.as_ref().map_or(0, |done| done.count));
        (result, Some(before))
    }

    /// Stages what of the data is to be staged and writes the rest: see [`Vfs::write_range`].
    async fn write_staged(
        self: &Arc<Self>,
        engine: &Engine,
        target: &Target,
        file: &Arc<OwnedFd>,
        transfer: &mut Transfer<'_>,
        mut data: Buf,
    ) -> Result<usize> {
        let offset = transfer.decision.asked().start;
        let staging = step(StepKind::Stage);
        let staged = self.stage(target, file, transfer, &mut data).await;
        staging.end();
        let written = match staged {
            Ok(()) => self.write_range(engine, target, file, transfer, data).await,
            Err(error) => Err(error),
        };
        transfer.end_staging(written, offset)
    }

    /// Writes the segments in ascending order: a failure leaves a beginning, which is what a reply can tell.
    /// `file` is the descriptor for the page cache. Returns the beginning's length; it is as stable as
    /// decided.
    async fn write_range(
        self: &Arc<Self>,
        engine: &Engine,
        target: &Target,
        file: &Arc<OwnedFd>,
        transfer: &mut Transfer<'_>,
        mut data: Buf,
    ) -> Result<usize> {
        let object = &target.object;
        let sync = transfer.decision.sync_of_each();
        let mut done = 0;
        for segment in transfer.decision.segments() {
            let asked = len_of(&segment);
            let result;
            (result, data) = self
                .write_segment(engine, target, file, transfer, segment, data)
                .await?;
            match result.map_err(transfer_error) {
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
        let stability = transfer.decision.stability;
        let sync_now = done > 0 && transfer.decision.is_synced_once();
        if sync_now || done > 0 && stability == Stability::Unstable {
            object.io.note_unstable(target.actor.author);
        }
        if sync_now {
            let whole = stability == Stability::FileSync;
            self.sync_file(engine, target, Arc::clone(file), whole)
                .await?;
        }
        Ok(done)
    }

    /// Writes one segment as decided or, where that is refused, through the page cache.
    async fn write_segment(
        self: &Arc<Self>,
        engine: &Engine,
        target: &Target,
        buffered: &Arc<OwnedFd>,
        transfer: &mut Transfer<'_>,
        mut segment: Segment,
        mut data: Buf,
    ) -> Result<(nfs_io::Result<usize>, Buf)> {
        let sync = transfer.decision.sync_of_each();
        loop {
            let file = match segment.mode {
                Mode::Direct => self.direct_fd(target, Io::Write).await,
                Mode::Buffered | Mode::DontCache => Ok(Arc::clone(buffered)),
            };
            let file = match file {
                Ok(file) => file,
                Err(error) => {
                    let instead = transfer.fall_back(&segment, Failure::Open(error));
                    segment = instead.ok_or(error)?;
                    continue;
                }
            };
            transfer.trace(&self.trace, target, &segment);
            let engine = self.engine_for_write(engine, target, sync);
            let group = Group::of(segment.mode);
            let waiting = step(StepKind::Gate);
            let pass = Pass::of(target.object.gate(&self.gates), group).await;
            waiting.end();
            let op = Op::Write {
                file,
                offset: segment.file.start,
                buf: data,
                range: transfer.decision.part(&segment),
                sync,
                mode: segment.mode,
                keep: Keep::new((pass, transfer.staged.as_ref().and_then(Staged::kept))),
            };
            let moving = step(StepKind::Segment);
            moving.note(Note::moved(segment.mode, len_of(&segment)));
            let done = engine.submit(op, &target.actor.creds, target.queue()).await;
            moving.end();
            // Lost with the engine: nobody waits for an answer any more.
            data = done.buf.ok_or(Error::Errno(Errno::IO))?;
            match done.result {
                Ok(written) => {
                    transfer.wrote(segment.mode, written);
                    return Ok((Ok(written), data));
                }
                Err(errno) => match transfer.fall_back(&segment, Failure::Transfer(errno)) {
                    Some(instead) => segment = instead,
                    None => return Ok((Err(errno), data)),
                },
            }
        }
    }

    /// A ring hands writes that wait to its workers, one at a time for each file: stable writes
    /// of one file could not share a flush of the journal. Threads let them.
    fn engine_for_write(&self, engine: &Engine, target: &Target, sync: WriteSync) -> Engine {
        match sync {
            WriteSync::None => self.engine_for(engine, target),
            WriteSync::Dsync | WriteSync::Sync => self.thread_engine(),
        }
    }

    fn write_failed(&self, object: &Object, error: Error, sync: WriteSync) {
        object.io.reserve.write_failed();
        // The kernel tells of a lost write once: this one may have been somebody else's
        // unstable data. A full disk may be met by this write or, with a sync, by theirs.
        let full = matches!(error, Error::Errno(Errno::NOSPC | Errno::DQUOT));
        let theirs = full && sync != WriteSync::None && object.io.has_unstable();
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
            return Err(FILE_TOO_LARGE);
        }
        let before = self.attributes(target).await?.stat;
        self.check_io(target, Access::WRITE, before).await?;
        Object::check_sealed(&before)?;
        // Opened for a direct write too: it knows of errors from now on, and COMMIT asks it.
        let fd = self.write_fd(target).await?;
        Ok((before, fd))
    }
}
