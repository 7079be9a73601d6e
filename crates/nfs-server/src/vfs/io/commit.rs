//! COMMIT, and the sync at the end of a WRITE.
//!
//! Whoever needs a file on stable storage joins a round. One of a round syncs the file for all who
//! had joined when it began; who comes later is of the next round, since what they wrote may have come too
//! late. One round at a time: the kernel reports an error to one fsync of a descriptor, and whoever
//! is told must have marked the others before they answer.

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use nfs_io::engine::Engine;
use nfs_io::fs::Stat;
use nfs_io::op::Op;
use nfs_io::{Errno, fs};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::super::staging::Why;
use super::super::{Access, Error, Object, Result, WithWcc};
use super::decide::transfer_error;
use super::must_be_regular;
use crate::operate::calls::{StepKind, step};
use crate::vfs::{Target, Vfs};

/// The round of one file that may still be joined.
#[derive(Default)]
pub(crate) struct Rounds(Mutex<Arc<Round>>);

#[derive(Default)]
struct Round {
    /// Whether somebody needs all attributes on stable storage too, and not the data alone.
    whole: AtomicBool,
    /// The result of the round, once it is over.
    result: OnceLock<Result<()>>,
    /// Tells those of the round that there is a result.
    over: Notify,
}

impl Round {
    /// Waits until the round is over.
    async fn result(&self) -> Result<()> {
        loop {
            // Made before the look, it misses nothing.
            let over = self.over.notified();
            if let Some(result) = self.result.get() {
                return *result;
            }
            over.await;
        }
    }
}

impl Rounds {
    fn join(&self, whole: bool) -> Arc<Round> {
        let open = self.0.lock();
        if whole {
            open.whole.store(true, Ordering::Relaxed);
        }
        Arc::clone(&open)
    }

    /// Whoever joins from now on is of another round.
    fn close(&self, round: &Arc<Round>) {
        let mut open = self.0.lock();
        if Arc::ptr_eq(&open, round) {
            *open = Arc::default();
        }
    }
}

/// How many stable WRITEs of one file are under way.
#[derive(Default)]
pub(crate) struct StableWrites(AtomicUsize);

/// One of them; it is over when dropped.
pub(super) struct StableWrite<'f> {
    all: &'f StableWrites,
    /// How many there were when it began.
    pub(super) others: usize,
}

impl StableWrites {
    pub(super) fn begin(&self) -> StableWrite<'_> {
        StableWrite {
            all: self,
            others: self.0.fetch_add(1, Ordering::Relaxed),
        }
    }
}

impl Drop for StableWrite<'_> {
    fn drop(&mut self) {
        self.all.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Vfs {
    /// Puts what was written to `range` of the file on stable storage, and returns the verifier from after it.
    /// What is held of the blocks of the range goes into the file; then the whole file is synced, since the kernel
    /// has no sync of a range that covers what is needed to find its data again. What is held of other blocks
    /// stays held: in the middle of a stream its neighbour is still on its way.
    pub(crate) async fn commit(
        self: &Arc<Self>,
        engine: &Engine,
        target: &Target,
        range: &Range<u64>,
    ) -> WithWcc<[u8; 8]> {
        let object = &target.object;
        let change = object.begin_change(target.actor.author);
        let (before, fd) = match self.ready_to_commit(target).await {
            Ok(ready) => ready,
            Err(error) => {
                self.unreachable(target, error);
                return (Err(error), self.wcc_unchanged(target).await);
            }
        };
        change.found(&before);
        let held = self.settle_all(object.inode(), range, Why::Commit).await;
        let synced = match held {
            Ok(()) => self.sync_file(engine, target, Arc::clone(&fd), true).await,
            Err(error) => Err(error),
        };
        let result = match synced {
            Err(Error::Busy) => Err(Error::Busy),
            // Asked in any case: to answer with an error is to tell.
            result if object.io.must_hear_of_error(target.actor.author) => {
                result.and(Err(Error::Errno(Errno::IO)))
            }
            result => result,
        };
        if result.is_ok() {
            self.evict_unaligned_pages(target, fd, 1).await;
            self.give_space_back_if_written(target).await;
            self.close_if_written(target).await;
        }
        let after = self.attributes(target).await.ok();
        let wcc = change.wcc(Some(before), after);
        (result.map(|()| self.verifier.bytes()), wcc)
    }

    /// Returns when what was written to the file before the call is on stable storage: the data
    /// and what is needed to read it back, or all attributes too (`whole`).
    pub(super) async fn sync_file(
        self: &Arc<Self>,
        engine: &Engine,
        target: &Target,
        file: Arc<OwnedFd>,
        whole: bool,
    ) -> Result<()> {
        let object = &target.object;
        let round = object.io.rounds.join(whole);
        let waiting = step(StepKind::SyncTurn);
        let _one_at_a_time = tokio::select! {
            // All of a round are told at once; one by one, each would be let in to be told.
            biased;
            result = round.result() => return result,
            turn = object.io.sync_turn() => turn,
        };
        waiting.end();
        if let Some(result) = round.result.get() {
            return *result;
        }
        object.io.rounds.close(&round);
        let data_only = !round.whole.load(Ordering::Relaxed);
        let result = self.sync_now(engine, target, file, data_only).await;
        // Too much waits for the file system: the others of the round may have more luck.
        if result != Err(Error::Busy) {
            // Set by nobody else: who has the turn sets it.
            round.result.get_or_init(|| result);
            round.over.notify_waiters();
        }
        result
    }

    /// Puts the file on stable storage. The caller has the turn to do so.
    async fn sync_now(
        &self,
        engine: &Engine,
        target: &Target,
        file: Arc<OwnedFd>,
        data_only: bool,
    ) -> Result<()> {
        let object = &target.object;
        let _step = step(StepKind::Sync);
        let covered = object.io.take_unstable();
        let engine = self.engine_for(engine, target);
        let op = Op::Fsync { file, data_only };
        let result = engine
            .submit(op, &target.actor.creds, target.queue())
            .await
            .result
            .map_err(transfer_error);
        match result {
            Ok(_) => Ok(()),
            Err(Error::Busy) => {
                object.io.restore_unstable(covered);
                Err(Error::Busy)
            }
            Err(error) => {
                object.io.sync_failed(covered);
                self.verifier.change();
                Err(error)
            }
        }
    }

    /// Syncs what clients did not commit, because the descriptors are to be closed. It stays in the
    /// cache meanwhile: a COMMIT that came to other descriptors would not hear of an error.
    fn sync_before_close(&self, object: &Object) {
        let Some(_one_at_a_time) = object.io.try_sync_turn() else {
            return;
        };
        // Taken first: while somebody has it, the file is not closed for writing.
        let Some(fd) = object.write_fd_for_sync() else {
            return;
        };
        let covered = object.io.take_unstable();
        if fs::fsync(fd.as_fd()).is_err() {
            object.io.sync_failed(covered);
            self.verifier.change();
        }
    }

    /// Does what has to be done before an object may leave the cache: puts what clients did not commit on stable
    /// storage, and gives space back.
    pub(crate) fn make_ready_to_leave(&self, object: &Object) {
        if object.io.has_unstable() {
            self.sync_before_close(object);
        }
        self.give_space_back_at_last(object);
    }

    /// Empties the file cache at the end of the server.
    pub(crate) fn sync_all(&self) {
        for object in self.files.drain() {
            self.make_ready_to_leave(&object);
        }
    }

    /// Unstable data of this file may be lost.
    pub(in crate::vfs) fn lost(&self, object: &Object) {
        let covered = object.io.take_unstable();
        object.io.sync_failed(covered);
        self.verifier.change();
    }

    /// A call that changes the file failed before it came to that. If the disk is why (XFS that was
    /// shut down does not even tell attributes), nothing that was accepted will get there.
    pub(super) fn unreachable(&self, target: &Target, error: Error) {
        let object = &target.object;
        if error == Error::Errno(Errno::IO) && object.io.has_unstable() {
            self.lost(object);
            // To answer with an error is to tell.
            object.io.must_hear_of_error(target.actor.author);
        }
    }

    async fn ready_to_commit(self: &Arc<Self>, target: &Target) -> Result<(Stat, Arc<OwnedFd>)> {
        must_be_regular(&target.object)?;
        target.must_be_writable()?;
        let before = self.attributes(target).await?.stat;
        self.check_io(target, Access::WRITE, before).await?;
        // The descriptor that the writes went through knows of their errors.
        let fd = match self.write_fd(target).await {
            // A file that an unprivileged server may no longer open for writing, or a program
            // that runs: nothing was written here since the cache let go of it, synced.
            Err(Error::Errno(Errno::ACCESS | Errno::PERM | Errno::TXTBSY)) => {
                self.read_fd(target).await?
            }
            opened => opened?,
        };
        Ok((before, fd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_joins_after_a_round_began_is_of_the_next() {
        let rounds = Rounds::default();
        let first = rounds.join(false);
        assert!(!first.whole.load(Ordering::Relaxed));
        let with_all = rounds.join(true);
        assert!(Arc::ptr_eq(&first, &with_all));
        assert!(first.whole.load(Ordering::Relaxed), "for all of it");
        rounds.close(&first);
        let second = rounds.join(false);
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(!second.whole.load(Ordering::Relaxed));
        // One that was given up in the middle is begun again by the next of it.
        rounds.close(&first);
        assert!(Arc::ptr_eq(&second, &rounds.join(false)));
    }
}
