//! What makes an acknowledgement true: syncs, their errors, and the write verifier.
//!
//! **Group commit.** An operation on names is on stable storage before its reply (RFC 1813 §4.8).
//! Whoever needs a sync hands its descriptor to the file system's [`Committer`] and waits. One job
//! per file system takes everything that waits, syncs each inode once, wakes all, and looks
//! again: whatever came in meanwhile shares the next round. The first sync of a round writes the
//! journal; the others mostly find their part written.
//!
//! A sync takes longer than a change, so a round begins when it is worth most: behind the changes that waited for a
//! thread when it was asked for, and when those have joined, or failed, that were [under way](UnderWay) on other threads.
//! For what is stuck nobody waits longer than [`limits::ROUND_WAITS_MAX`], once. Whoever makes a change joins on the
//! thread that made it, which then is the one to run the round if nothing else is to be done, and the shard hears of both
//! at once.
//!
//! Several clients, or one with several calls, would fall into two halves that take turns: while the flush of one half
//! runs the changes of the other are made, and their round would begin before the first half, answered just now, can have
//! sent its next calls. So a round that follows another waits for as many changes as were answered, for some times as long
//! as the last flush took ([`limits::ROUND_GATHERS_FLUSHES_MAX`]) and never longer than for one that is stuck; where they
//! do not come, fewer and fewer rounds wait. After a lone change nobody waits.
//!
//! What may take long shares nothing with that: a file that may have much data in the page cache, which an
//! fsync writes back first, and a whole file system each have rounds of their own.
//!
//! **Errors.** The kernel reports a lost write once per descriptor. A failed sync changes the
//! [`Verifier`], so that every client sends its uncommitted data again, and is told as
//! NFS3ERR_IO to each client that wrote to the file without a COMMIT since.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nfs_io::engine::sync_attributes;
use nfs_io::wake_ups::{gathered, together};
use nfs_io::{Errno, Lane, Pool, Queue, fs};
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use super::file_io::FileIo;
use super::{Author, Error, Result};
use crate::limits;

mod changes;

use changes::{Answered, Changes, Gathering, gathers_for};

/// The write verifier (RFC 1813 §3.3.7, §3.3.21): different after each start of the server and
/// after each loss of unstable data.
pub(crate) struct Verifier {
    value: AtomicU64,
    changes: AtomicU64,
}

impl Verifier {
    pub(crate) fn new(random: u64) -> Self {
        Self {
            value: AtomicU64::new(random),
            changes: AtomicU64::new(0),
        }
    }

    pub(crate) fn bytes(&self) -> [u8; 8] {
        self.value.load(Ordering::SeqCst).to_be_bytes()
    }

    /// Unstable data may be lost: clients must send theirs again.
    pub(crate) fn change(&self) {
        self.value.fetch_add(1, Ordering::SeqCst);
        if self.changes.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::error!(
                "a sync failed: data that clients had written is lost; the write verifier \
                 was changed so that they send it again (said once; see the counters)"
            );
        }
    }

    /// The operator wants clients to send again what they wrote and have not committed.
    pub(crate) fn change_as_asked(&self) {
        self.value.fetch_add(1, Ordering::SeqCst);
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }
}

/// A flush that waits for its round, and who waits for it.
struct Waiting {
    what: Flush,
    party: Arc<Party>,
    is_over: bool,
}

impl Waiting {
    fn end(mut self, result: core::result::Result<(), Errno>) {
        self.is_over = true;
        if let Err(errno) = result {
            self.party.failed(Error::Errno(errno));
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.is_over {
            self.party.failed(Error::Busy);
        }
    }
}

/// What is done with the result of a change's flushes.
type Answer = Box<dyn FnOnce(Result<()>) + Send>;

/// Who waits for some flushes; answered when the last of them is over.
struct Party {
    failure: Mutex<Option<Error>>,
    answer: Mutex<Option<Answer>>,
}

impl Party {
    fn failed(&self, error: Error) {
        self.failure.lock().get_or_insert(error);
    }
}

impl Drop for Party {
    fn drop(&mut self) {
        let result = self.failure.get_mut().take().map_or(Ok(()), Err);
        if let Some(answer) = self.answer.get_mut().take() {
            answer(result);
        }
    }
}

/// A change that a thread is at work on. It ends when it has joined a round, or when there is nothing to join for.
pub(crate) struct UnderWay {
    committer: Arc<Committer>,
    lane: Lane,
    number: u64,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut lanes = self.committer.changes.lock();
        let Some(changes) = lanes.get_mut(&self.lane) else {
            return;
        };
        changes.under_way.remove(&self.number);
        match changes.waits_below {
            Some(number) if self.number < number && changes.are_over_below(number) => {
                self.committer.change_over.notify_all();
            }
            None if changes.under_way.is_empty() => {
                lanes.remove(&self.lane);
            }
            _ => {}
        }
    }
}

/// What is to be on stable storage.
#[derive(Clone)]
pub(crate) enum Flush {
    /// This inode (device, number): its attributes and, for a directory, its entries. Its data has little to
    /// wait for.
    Inode { id: (u64, u64), fd: Arc<OwnedFd> },
    /// The attributes of this file, which may have much data in the page cache. The data goes along where the
    /// file system, or a server without io_uring, can do no less.
    AttributesOf { id: (u64, u64), fd: Arc<OwnedFd> },
    /// The whole file system that this descriptor is on, for objects that cannot be opened.
    FileSystem { fd: Arc<OwnedFd> },
}

/// Flushes that share rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Group {
    /// Those that are soon done.
    Short,
    /// Those of this one file.
    File((u64, u64)),
    /// Those of the whole file system.
    FileSystem,
}

impl Flush {
    fn group(&self) -> Group {
        match self {
            Self::Inode { .. } => Group::Short,
            Self::AttributesOf { id, .. } => Group::File(*id),
            Self::FileSystem { .. } => Group::FileSystem,
        }
    }
}

/// Who waits in one group. It is there while a round of it runs or is about to.
type Waiters = Vec<Waiting>;

/// Puts changes on stable storage for many callers at once: group commit, as the module describes it.
pub(crate) struct Committer {
    queues: Mutex<HashMap<(Lane, Group), Waiters>>,
    /// Of file systems where something is under way or waited for.
    changes: Mutex<HashMap<Lane, Changes>>,
    /// Signalled when a change is over that a round waits for.
    change_over: Condvar,
    /// How long a round waits for changes: [`limits::ROUND_WAITS_MAX`].
    patience: Duration,
    /// For how many times the last flush's length it waits for such as have not begun:
    /// [`limits::ROUND_GATHERS_FLUSHES_MAX`].
    flushes: u32,
    verifier: Arc<Verifier>,
    pool: Pool,
    /// Attributes may be synced by way of io_uring.
    by_ring: bool,
    requests: AtomicU64,
    syncs: AtomicU64,
    rounds: AtomicU64,
}

/// How many flushes were asked for and made.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub(crate) struct CommitterStats {
    /// Operations that needed stable storage.
    pub(crate) requests: u64,
    /// fsync and syncfs calls made for them.
    pub(crate) syncs: u64,
    /// Rounds: flushes that were shared.
    pub(crate) rounds: u64,
}

impl Committer {
    pub(crate) fn new(pool: Pool, verifier: Arc<Verifier>, by_ring: bool) -> Arc<Self> {
        Arc::new(Self {
            queues: Mutex::default(),
            changes: Mutex::default(),
            change_over: Condvar::new(),
            patience: limits::ROUND_WAITS_MAX,
            flushes: limits::ROUND_GATHERS_FLUSHES_MAX,
            verifier,
            pool,
            by_ring,
            requests: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
        })
    }

    /// Returns when all of `what` is on stable storage. `queue` is the caller's: what may take long waits for a
    /// thread there.
    ///
    /// # Errors
    /// The sync's own error; the verifier has changed by then. [`Error::Busy`] where no thread is to be had for
    /// it.
    pub(crate) async fn sync(self: &Arc<Self>, queue: Queue, what: Vec<Flush>) -> Result<()> {
        let (sender, result) = oneshot::channel();
        let under_way = self.begin(queue.lane);
        // A party that went away (its connection broke) needs no answer.
        self.join(queue, what, |result| {
            let _gone = sender.send(result);
        });
        drop(under_way);
        gathered(result).await.unwrap_or(Err(Error::Busy))
    }

    /// Has all of `what` put on stable storage, and then `answer` be told, as [`Committer::sync`] would.
    ///
    /// A helper thread calls this as the last that it does: the round may be its own next job.
    pub(crate) fn join(
        self: &Arc<Self>,
        queue: Queue,
        what: Vec<Flush>,
        answer: impl FnOnce(Result<()>) + Send + 'static,
    ) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let party = Arc::new(Party {
            failure: Mutex::default(),
            answer: Mutex::new(Some(Box::new(answer))),
        });
        let mut idle = Vec::new();
        {
            let mut queues = self.queues.lock();
            for what in what {
                let group = what.group();
                let waiters = queues.entry((queue.lane, group)).or_insert_with(|| {
                    idle.push(group);
                    Waiters::new()
                });
                waiters.push(Waiting {
                    what,
                    party: Arc::clone(&party),
                    is_over: false,
                });
            }
        }
        for group in idle {
            let round = Round {
                committer: Arc::clone(self),
                lane: queue.lane,
                group,
                gathering: Gathering::default(),
                finished: false,
            };
            // A pool that takes no jobs drops it, and with it those who wait.
            match group {
                Group::Short => self
                    .pool
                    .run_behind(queue.lane, move || round.run_short(None)),
                Group::FileSystem => drop(self.pool.run(queue.lane, move || round.run())),
                Group::File(_) => drop(self.pool.run(queue, move || round.run())),
            }
        }
    }

    /// Says that the calling thread is at work on a change that is going to join a round: one that is asked for
    /// meanwhile waits for it.
    pub(crate) fn begin(self: &Arc<Self>, lane: Lane) -> UnderWay {
        let mut lanes = self.changes.lock();
        let number = lanes.entry(lane).or_default().begin();
        UnderWay {
            committer: Arc::clone(self),
            lane,
            number,
        }
    }

    /// Waits for the changes that are under way now, and for as many to come as were answered just now. Says how many of
    /// those came.
    fn wait_for_changes(&self, lane: Lane, answered: Option<Answered>) -> u64 {
        let now = Instant::now();
        let deadline = now + self.patience;
        let mut lanes = self.changes.lock();
        let Some(next) = lanes.get(&lane).map(|changes| changes.next) else {
            return 0;
        };
        let mut until = answered.map_or(next, |answered| answered.until.max(next));
        let gathers_until = answered.map_or(now, |answered| answered.deadline.min(deadline));
        let mut is_late = false;
        while let Some(changes) = lanes.get_mut(&lane) {
            if is_late && changes.next < until {
                until = changes.next;
                is_late = Instant::now() >= deadline;
            }
            if is_late || changes.are_over_below(until) {
                if is_late {
                    changes.give_up(until);
                }
                changes.waits_below = None;
                let missing = answered.map_or(0, |answered| answered.until.saturating_sub(until));
                if changes.under_way.is_empty() {
                    lanes.remove(&lane);
                }
                return answered.map_or(0, |answered| answered.count.saturating_sub(missing));
            }
            changes.waits_below = Some(until);
            let wakes_at = if changes.next < until {
                gathers_until
            } else {
                deadline
            };
            is_late = self
                .change_over
                .wait_until(&mut lanes, wakes_at)
                .timed_out();
        }
        0
    }

    /// So many are about to be answered, whose flush took so long: what the next round may expect.
    fn expect_again(&self, lane: Lane, count: u64, took: Duration) -> Answered {
        let mut lanes = self.changes.lock();
        let changes = lanes.entry(lane).or_default();
        let until = changes.next + count;
        changes.waits_below = Some(until);
        Answered {
            count,
            until,
            deadline: Instant::now() + gathers_for(took, self.flushes, self.patience),
        }
    }

    /// No round waits for changes any more.
    fn expect_nobody(&self, lane: Lane) {
        let mut lanes = self.changes.lock();
        if let Some(changes) = lanes.get_mut(&lane) {
            changes.waits_below = None;
            if changes.under_way.is_empty() {
                lanes.remove(&lane);
            }
        }
    }

    /// Whether nobody is known who would share a round with one that comes.
    fn is_lone(&self, lane: Lane, answered: Answered) -> bool {
        answered.count < 2 && {
            let queues = self.queues.lock();
            let waiters = queues.get(&(lane, Group::Short));
            waiters.is_none_or(Vec::is_empty)
        }
    }

    pub(crate) fn stats(&self) -> CommitterStats {
        CommitterStats {
            requests: self.requests.load(Ordering::Relaxed),
            syncs: self.syncs.load(Ordering::Relaxed),
            rounds: self.rounds.load(Ordering::Relaxed),
        }
    }

    /// Whoever waits now; a group for which nobody waits is over.
    fn take_waiting(&self, lane: Lane, group: Group) -> Waiters {
        let mut queues = self.queues.lock();
        let waiting = queues.get_mut(&(lane, group)).map(std::mem::take);
        let waiting = waiting.unwrap_or_default();
        if waiting.is_empty() {
            queues.remove(&(lane, group));
        }
        waiting
    }

    /// Syncs each inode once, then answers everybody; `before` is told when that begins.
    fn round(&self, waiting: Vec<Waiting>, before: impl FnOnce()) {
        self.rounds.fetch_add(1, Ordering::Relaxed);
        let mut seen = HashSet::new();
        let mut results: HashMap<(u64, u64), core::result::Result<(), Errno>> = HashMap::new();
        let mut whole = None;
        for party in &waiting {
            match &party.what {
                Flush::Inode { id, fd } if seen.insert(*id) => {
                    results.insert(*id, self.one(|| fs::fsync(fd.as_fd())));
                }
                Flush::AttributesOf { id, fd } if seen.insert(*id) => {
                    results.insert(*id, self.one(|| self.sync_attributes(fd)));
                }
                Flush::Inode { .. } | Flush::AttributesOf { .. } => {}
                Flush::FileSystem { fd } if whole.is_none() => {
                    whole = Some(self.one(|| fs::syncfs(fd.as_fd())));
                }
                Flush::FileSystem { .. } => {}
            }
        }
        before();
        // Their shards are woken when all are answered.
        together(|| {
            for party in waiting {
                let result = match &party.what {
                    Flush::Inode { id, .. } | Flush::AttributesOf { id, .. } => {
                        results.get(id).copied()
                    }
                    Flush::FileSystem { .. } => whole,
                };
                party.end(result.unwrap_or(Err(Errno::IO)));
            }
        });
    }

    fn sync_attributes(&self, fd: &OwnedFd) -> core::result::Result<(), Errno> {
        if self.by_ring {
            sync_attributes(fd)
        } else {
            fs::fsync(fd.as_fd())
        }
    }

    fn one(
        &self,
        sync: impl FnOnce() -> core::result::Result<(), Errno>,
    ) -> core::result::Result<(), Errno> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        let result = sync();
        if result.is_err() {
            self.verifier.change();
        }
        result
    }
}

/// The job that works one group of a file system until nobody waits. If it is dropped before it ran,
/// those who wait are let go.
struct Round {
    committer: Arc<Committer>,
    lane: Lane,
    group: Group,
    gathering: Gathering,
    finished: bool,
}

impl Round {
    fn run(mut self) {
        loop {
            let waiting = self.committer.take_waiting(self.lane, self.group);
            if waiting.is_empty() {
                self.finished = true;
                return;
            }
            self.committer.round(waiting, || {});
        }
    }

    /// Works one round of those that are soon done. The next one is behind what waits by then.
    fn run_short(mut self, answered: Option<Answered>) {
        self.wait_for_changes(answered);
        let waiting = self.committer.take_waiting(self.lane, self.group);
        if waiting.is_empty() {
            self.finished = true;
            return;
        }
        let count = parties(&waiting);
        let begin = Instant::now();
        let mut answered = None;
        self.committer.round(waiting, || {
            let took = begin.elapsed();
            answered = Some(self.committer.expect_again(self.lane, count, took));
        });
        let pool = self.committer.pool.clone();
        pool.run_behind(self.lane, move || self.run_short(answered));
    }

    fn wait_for_changes(&mut self, answered: Option<Answered>) {
        let (committer, lane) = (&self.committer, self.lane);
        let expected = answered
            .filter(|answered| !committer.is_lone(lane, *answered) && self.gathering.is_due());
        let came = committer.wait_for_changes(lane, expected);
        if let Some(expected) = expected {
            self.gathering.came(came, expected.count);
        }
    }
}

/// How many wait for these flushes; the flushes of each are side by side.
fn parties(waiting: &[Waiting]) -> u64 {
    let parties = waiting.chunk_by(|one, next| Arc::ptr_eq(&one.party, &next.party));
    parties.count() as u64
}

impl Drop for Round {
    fn drop(&mut self) {
        if !self.finished {
            if self.group == Group::Short {
                self.committer.expect_nobody(self.lane);
            }
            let group = (self.lane, self.group);
            let abandoned = self.committer.queues.lock().remove(&group);
            drop(abandoned);
        }
    }
}

/// Data of one file that was accepted UNSTABLE and not committed, and who has still to hear of
/// an error.
#[derive(Default)]
pub(crate) struct Unstable {
    /// The clients that have uncommitted data in the file.
    writers: HashSet<Author>,
    /// More clients than are named in `writers` wrote.
    more_writers: bool,
    /// How many bytes of it wait for a COMMIT, and not for a sync that their own WRITE is about to wait for.
    bytes: u64,
    /// Clients that have to be told of a lost write once. When more than
    /// [`limits::UNSTABLE_WRITERS_PER_OBJECT_MAX`] have, others learn of it by the verifier alone, which has
    /// changed and makes them send their data again.
    to_tell: HashSet<Author>,
}

impl Unstable {
    fn wrote(&mut self, author: Author) {
        if self.writers.len() < limits::UNSTABLE_WRITERS_PER_OBJECT_MAX {
            self.writers.insert(author);
        } else if !self.writers.contains(&author) {
            self.more_writers = true;
        }
    }

    fn restore(&mut self, covered: Covered) {
        for writer in covered.writers {
            self.wrote(writer);
        }
        self.more_writers |= covered.more;
        self.bytes = self.bytes.saturating_add(covered.bytes);
    }

    fn lost(&mut self, covered: Covered) {
        for writer in covered.writers {
            if self.to_tell.len() < limits::UNSTABLE_WRITERS_PER_OBJECT_MAX {
                self.to_tell.insert(writer);
            }
        }
    }
}

impl FileIo {
    /// An UNSTABLE write of this client was accepted.
    pub(crate) fn note_unstable(&self, author: Author, bytes: u64) {
        let mut unstable = self.unstable.lock();
        unstable.wrote(author);
        unstable.bytes = unstable.bytes.saturating_add(bytes);
    }

    /// A write of this client was accepted, which is answered once the sync is over that it joins next.
    pub(crate) fn note_to_be_synced(&self, author: Author) {
        self.unstable.lock().wrote(author);
    }

    /// How many bytes that nobody waits for a sync of the whole file may have to put there.
    pub(crate) fn uncommitted_bytes(&self) -> u64 {
        self.unstable.lock().bytes
    }

    /// True when some accepted write is not known to be on stable storage.
    pub(crate) fn has_unstable(&self) -> bool {
        let unstable = self.unstable.lock();
        !unstable.writers.is_empty() || unstable.more_writers
    }

    /// A sync of the whole file begins: what it will cover. Writes accepted from now on are noted anew.
    pub(crate) fn take_unstable(&self) -> Covered {
        let mut unstable = self.unstable.lock();
        Covered {
            bytes: std::mem::take(&mut unstable.bytes),
            writers: std::mem::take(&mut unstable.writers),
            more: std::mem::take(&mut unstable.more_writers),
        }
    }

    /// The sync failed: every client that wrote is to hear of it once.
    pub(crate) fn sync_failed(&self, covered: Covered) {
        self.unstable.lock().lost(covered);
    }

    /// Has this client still to hear of a lost write? Asking is telling.
    pub(crate) fn must_hear_of_error(&self, author: Author) -> bool {
        self.unstable.lock().to_tell.remove(&author)
    }

    /// Puts back what a sync that did not happen would have covered.
    pub(crate) fn restore_unstable(&self, covered: Covered) {
        self.unstable.lock().restore(covered);
    }
}

/// The writers whose data a sync covers.
pub(crate) struct Covered {
    writers: HashSet<Author>,
    more: bool,
    bytes: u64,
}

#[cfg(test)]
mod tests;
