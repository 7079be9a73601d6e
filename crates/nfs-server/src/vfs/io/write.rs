//! WRITE: from a buffer into a file, segment by segment as the decision says.

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use nfs_io::engine::{Engine, EngineKind};
use nfs_io::fs::{self, Stat};
use nfs_io::op::Op;
use nfs_io::plan::Segment;
use nfs_io::{Buf, Errno, Keep, Mode, Share, WriteSync, WriteWaits};
use rustix::param::page_size;

use super::super::gate::{Group, Pass};
use super::super::seen::Look;
use super::super::staging::Staged;
use super::super::tail::Growing;
use super::super::wcc::Change;
use super::super::{Access, Attributes, Error, Object, Result, Wcc, WithWcc};
use super::commit::StableWrite;
use super::decide::{Decision, Failure, IoCall, len_of, transfer_error};
use super::transfer::Transfer;
use super::{Payload, Stability, WriteDone, must_be_regular};
use crate::exports::policy::Io;
use crate::limits;
use crate::operate::calls::{Note, StepKind, step};
use crate::operate::trace::Event;
use crate::vfs::{Target, Vfs};

/// The range of a WRITE passes 2^63 - 1, the end of any file.
const FILE_TOO_LARGE: Error = Error::Errno(Errno::FBIG);

/// A file as it was before a WRITE, with its times only where they are needed: to ask for them makes stable
/// WRITEs dearer ([`nfs_io::fs::statx_untimed`]).
enum Before {
    Timed(Stat),
    Untimed(Stat),
}

impl Before {
    const fn stat(&self) -> &Stat {
        match self {
            Self::Timed(stat) | Self::Untimed(stat) => stat,
        }
    }

    const fn timed(&self) -> Option<Stat> {
        match self {
            Self::Timed(stat) => Some(*stat),
            Self::Untimed(_) => None,
        }
    }
}

/// A file that a WRITE may write: as it was found, its descriptor for the page cache, and what it may leave of its last
/// block.
type Ready = (Before, Arc<OwnedFd>, Option<Growing>);

impl Vfs {
    /// Writes a payload to a regular file, beginning at `offset` bytes, and makes it at least as stable as
    /// was asked for. Of stable WRITEs of one client that overlap, the last to end has attributes for its
    /// reply: [`WccChain`](super::super::wcc::WccChain).
    pub(crate) async fn write(
        self: &Arc<Self>,
        engine: &Engine,
        target: &Target,
        offset: u64,
        payload: Payload,
        asked: Stability,
    ) -> WithWcc<WriteDone> {
        // Begun before the attributes are taken: a change that comes between would go unseen.
        let tells = Self::tells(target, asked);
        let author = target.actor.author;
        let mut change = if tells {
            target.object.begin_told_change(author)
        } else {
            target.object.begin_change(author)
        };
        let written = self.write_payload(engine, target, &change, offset, payload, asked);
        let (result, before) = written.await;
        // Asked before the attributes are: whoever is silent relies on a look that comes after its change.
        let may_be_silent = change.may_be_silent() || !tells;
        match (result, before) {
            (Ok(done), _) if done.committed != Stability::Unstable && may_be_silent => {
                (Ok(done), Wcc::default())
            }
            (result, Some(before)) => {
                let before = before.timed();
                let after = self.attributes_after(target).await.ok();
                (result, change.wcc(before, after))
            }
            (result, None) => (result, self.wcc_unchanged(target).await),
        }
    }

    /// Is the reply to a WRITE to tell attributes, as far as its export is concerned?
    fn tells(target: &Target, asked: Stability) -> bool {
        let export = &target.tree.export;
        let stable = export.io.now().stable.raise(asked);
        export.stable_write_attributes || stable == Stability::Unstable
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
    ) -> (Result<WriteDone>, Option<Before>) {
        let ready = self.ready_to_write(target, change, offset, payload.data.len());
        let (found, fd, mut growing) = match ready.await {
            Ok(ready) => ready,
            Err(error) => {
                self.unreachable(target, error);
                return (Err(error), None);
            }
        };
        if let Some(before) = found.timed() {
            change.found(&before);
        }
        let before = found.stat();
        let wanted = payload.data.len();
        let about = target.about();
        self.trace
            .io(Event::WriteOpened, about, offset, wanted as u64);
        let Some(_share) = self.memory_for(target, wanted).await else {
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
        let Some(mut transfer) = Transfer::new(self, target, &call, before) else {
            return (Err(FILE_TOO_LARGE), None);
        };
        transfer.tally.copied(payload.copied);
        let prepared = self.prepare(target, &fd, before, &transfer.decision, growing.as_mut());
        if let Err(error) = prepared.await {
            return (Err(error), Some(found));
        }
        let committed = transfer.decision.stability;
        let verifier = self.verifier.bytes();
        let written = self
            .write_staged(engine, target, &fd, &mut transfer, payload.data)
            .await;
        let result = match written {
            Ok(0) if wanted > 0 => Err(Error::Errno(Errno::NOSPC)),
            Ok(count) => {
                if let Some(growing) = growing {
                    growing.reached(offset.saturating_add(count as u64));
                }
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
        (result, Some(found))
    }

    /// Memory for the data of a WRITE; `None` where there is none for this client.
    async fn memory_for(&self, target: &Target, bytes: usize) -> Option<Share> {
        let budget = &self.write_budget;
        let mount = &target.object.mount;
        let _waiting = step(StepKind::Memory);
        mount.write_share(target.sharer(), bytes, budget).await
    }

    /// What is done to the file and waited for before a WRITE's bytes go on their way.
    async fn prepare(
        self: &Arc<Self>,
        target: &Target,
        file: &Arc<OwnedFd>,
        before: &Stat,
        decision: &Decision,
        growing: Option<&mut Growing>,
    ) -> Result<()> {
        self.await_turn(target, before, decision).await;
        self.reserve_ahead(target, file, before, decision).await;
        let range = decision.asked();
        let asked = (before.size, &range, decision.choice.mode);
        let zeroed = self.zero_behind_end(target, file, growing, asked);
        // It may tell of data that somebody else wrote, as a sync does.
        zeroed
            .await
            .inspect_err(|error| self.write_failed(&target.object, *error, WriteSync::Dsync))
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
        let begun = self.begin_stable(engine, target, &mut transfer.decision);
        let sync = transfer.decision.sync_of_each();
        // A ring hands writes that wait to its workers, one at a time for each file: stable ones that overlap could not
        // share a flush of the journal. Threads let them.
        let is_alone = begun.as_ref().is_some_and(|begun| begun.others == 0);
        let writer = match sync {
            WriteSync::Dsync | WriteSync::Sync if !is_alone => self.thread_engine(),
            WriteSync::None | WriteSync::Dsync | WriteSync::Sync => self.engine_for(engine, target),
        };
        let mut done = 0;
        for segment in transfer.decision.segments() {
            let asked = len_of(&segment);
            let result;
            (result, data) = self
                .write_segment(&writer, target, file, transfer, segment, data)
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
        if done > 0 && stability == Stability::Unstable {
            object.io.note_unstable(target.actor.author, done as u64);
        }
        if done > 0 && transfer.decision.is_synced_once() {
            object.io.note_to_be_synced(target.actor.author);
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
            let group = Group::of(segment.mode);
            let waiting = step(StepKind::Gate);
            let mut pass = Pass::of(target.object.gate(&self.gates), group).await;
            waiting.end();
            let may_wait = may_wait(
                engine,
                target,
                &file,
                &segment,
                (sync, transfer.size),
                &mut pass,
            );
            let op = Op::Write {
                file,
                offset: segment.file.start,
                buf: data,
                range: transfer.decision.part(&segment),
                sync,
                mode: segment.mode,
                may_wait,
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

    /// A stable WRITE begins. Beside many others of its file it is written to the page cache first, and synced with
    /// them then ([`Vfs::sync_file`]): one sync does for all that came during the last one, and no thread waits for
    /// each. Beside few, that would cost each of them the wait for a sync of others. Of a file that has much data which
    /// nobody waits for, a sync would have to wait for that too.
    fn begin_stable<'f>(
        &self,
        engine: &Engine,
        target: &'f Target,
        decision: &mut Decision,
    ) -> Option<StableWrite<'f>> {
        if decision.stability == Stability::Unstable {
            return None;
        }
        let io = &target.object.io;
        let begun = io.stable_writes.begin();
        let by_ring = self.engine_for(engine, target).kind() == EngineKind::Uring;
        if by_ring
            && begun.others >= limits::SYNCED_WITH_OTHERS_WRITES_MIN
            && io.uncommitted_bytes() <= limits::SYNCED_WITH_OTHERS_BYTES_MAX
        {
            decision.sync_with_others();
        }
        Some(begun)
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
        change: &Change,
        offset: u64,
        len: usize,
    ) -> Result<Ready> {
        must_be_regular(&target.object)?;
        target.must_be_writable()?;
        let end = offset
            .checked_add(len as u64)
            .filter(|end| i64::try_from(*end).is_ok());
        if end.is_none() {
            return Err(FILE_TOO_LARGE);
        }
        let growing = self.begin_growing(&target.object, offset, len);
        let found = self.before_write(target, change).await?;
        self.check_io(target, Access::WRITE, *found.stat()).await?;
        Object::check_sealed(found.stat())?;
        // Opened for a direct write too: it knows of errors from now on, and COMMIT asks it.
        let fd = self.write_fd(target).await?;
        Ok((found, fd, growing))
    }

    async fn before_write(&self, target: &Target, change: &Change) -> Result<Before> {
        if !change.needs_before() {
            let stat = self.attributes_since_it_came(target).await?;
            let (object, actor) = (&target.object, &target.actor);
            if object.may_unasked(actor, Access::WRITE, stat.uid) {
                return Ok(Before::Untimed(stat));
            }
            // The kernel's answers are remembered by the ctime.
        }
        Ok(Before::Timed(self.attributes(target).await?.stat))
    }

    /// The attributes of a file, perhaps without its times, from no sooner than the call came.
    async fn attributes_since_it_came(&self, target: &Target) -> Result<Stat> {
        let gate = target.object.gate(&self.gates);
        let (came, changes) = (target.actor.call.started, gate.ended());
        if let Some(stat) = gate.seen.since(came, changes, false)
            && self.may_share_looks()
        {
            return Ok(stat);
        }
        let at = Instant::now();
        let stat = self.untimed_attributes(target).await?;
        gate.seen.note(Look {
            stat,
            is_timed: false,
            at,
            changes,
        });
        Ok(stat)
    }

    /// The attributes of a file from after a WRITE, which is done.
    async fn attributes_after(&self, target: &Target) -> Result<Attributes> {
        let gate = target.object.gate(&self.gates);
        let (came, fsid) = (target.actor.call.started, target.object.mount.fsid);
        // A look that has all changes in it which had begun has this one in it.
        if let Some(stat) = gate.seen.since(came, gate.changes(), true)
            && self.may_share_looks()
        {
            return Ok(Attributes { stat, fsid });
        }
        let (changes, at) = (gate.ended(), Instant::now());
        let after = self.attributes(target).await?;
        gate.seen.note(Look {
            stat: after.stat,
            is_timed: true,
            at,
            changes,
        });
        Ok(after)
    }

    /// What is held in memory of files changes their length while no change of theirs is seen to be going on.
    fn may_share_looks(&self) -> bool {
        !self.stages.has_files()
    }
}

/// Whether a worker of the ring is to make a write: see [`Rewrites`](super::super::rewrites). Workers make all that are
/// to be stable or to leave the page cache at once.
fn may_wait(
    engine: &Engine,
    target: &Target,
    file: &OwnedFd,
    segment: &Segment,
    (sync, size): (WriteSync, u64),
    pass: &mut Pass,
) -> bool {
    let mount = &target.object.mount;
    if segment.mode == Mode::Direct || mount.write_waits == WriteWaits::Never {
        return false;
    }
    let asks = segment.mode == Mode::Buffered
        && sync == WriteSync::None
        && engine.kind() == EngineKind::Uring;
    let is_clean = || !asks || is_clean(file, &segment.file);
    let page_bytes = mount.block_bytes.max(page_size() as u64);
    let may_wait = pass.rewrites().may_wait(
        mount.write_waits,
        &segment.file,
        (size, page_bytes),
        is_clean,
    );
    if may_wait {
        pass.goes_by_worker();
    }
    may_wait
}

/// Whether no page of the range is dirty or being written back; `false` where the kernel does not say.
fn is_clean(file: &OwnedFd, range: &Range<u64>) -> bool {
    // To the kernel, no bytes are all bytes.
    let len = range.end.saturating_sub(range.start).max(1);
    let cached = fs::cachestat(file.as_fd(), range.start, len);
    cached.is_ok_and(|cached| cached.dirty == 0 && cached.writeback == 0)
}
