//! What makes an acknowledgement true: syncs, their errors, and the write verifier.
//!
//! **Group commit.** An operation on names is on stable storage before its reply (RFC 1813 §4.8).
//! Whoever needs a sync hands its descriptor to the file system's [`Committer`] and waits. One job
//! per file system takes everything that waits, syncs each inode once, wakes all, and looks
//! again: whatever came in meanwhile shares the next round. The first sync of a round writes the
//! journal; the others mostly find their part written.
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

use nfs_io::engine::sync_attributes;
use nfs_io::{Errno, Lane, Pool, Queue, fs};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::file_io::FileIo;
use super::{Author, Error, Result};
use crate::limits;

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

/// A flush that waits for its round, and where its result goes.
struct Waiting {
    what: Flush,
    done: oneshot::Sender<core::result::Result<(), Errno>>,
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
        let mut results = Vec::with_capacity(what.len());
        let mut idle = Vec::new();
        {
            let mut queues = self.queues.lock();
            for what in what {
                let group = what.group();
                let (done, result) = oneshot::channel();
                let waiters = queues.entry((queue.lane, group)).or_insert_with(|| {
                    idle.push(group);
                    Waiters::new()
                });
                waiters.push(Waiting { what, done });
                results.push(result);
            }
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        for group in idle {
            let round = Round {
                committer: Arc::clone(self),
                lane: queue.lane,
                group,
                finished: false,
            };
            let queue = match group {
                Group::Short | Group::FileSystem => queue.lane.into(),
                Group::File(_) => queue,
            };
            // The job answers through each party's channel. A pool that is full drops it: then
            // every party learns of it by its closed channel.
            drop(self.pool.run(queue, move || round.run()));
        }
        for result in results {
            match result.await {
                Ok(Ok(())) => {}
                Ok(Err(errno)) => return Err(Error::Errno(errno)),
                Err(_closed) => return Err(Error::Busy),
            }
        }
        Ok(())
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

    /// Syncs each inode once, then answers everybody.
    fn round(&self, waiting: Vec<Waiting>) {
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
        for party in waiting {
            let result = match &party.what {
                Flush::Inode { id, .. } | Flush::AttributesOf { id, .. } => {
                    results.get(id).copied()
                }
                Flush::FileSystem { .. } => whole,
            };
            // A party that went away (its connection broke) needs no answer.
            let _gone = party.done.send(result.unwrap_or(Err(Errno::IO)));
        }
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
            self.committer.round(waiting);
        }
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        if !self.finished {
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
    pub(crate) fn note_unstable(&self, author: Author) {
        self.unstable.lock().wrote(author);
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
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;
    use std::task::{Context, Waker};

    use nfs_io::PoolLimits;

    use super::*;

    #[test]
    fn a_peer_that_writes_under_many_names_fills_no_memory() {
        let mut unstable = Unstable::default();
        let most = limits::UNSTABLE_WRITERS_PER_OBJECT_MAX;
        for round in 0..3 {
            let covered = Covered {
                writers: std::mem::take(&mut unstable.writers),
                more: false,
            };
            for name in 0..1000 {
                unstable.wrote(Author(round * 1000 + name));
            }
            assert!(unstable.more_writers);
            // The file system is too busy for a sync; then its disk fails.
            unstable.restore(covered);
            assert!(unstable.writers.len() <= most);
            let covered = Covered {
                writers: unstable.writers.clone(),
                more: true,
            };
            unstable.lost(covered);
            assert!(unstable.to_tell.len() <= most);
        }
    }

    #[test]
    fn what_comes_while_a_round_runs_shares_the_next() {
        const LANE: Lane = Lane(1);
        let pool = Pool::new(PoolLimits {
            threads_max: 1,
            ..PoolLimits::default()
        });
        // The pool's one thread waits, as for a slow disk, until all have asked.
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let slow = pool.run(LANE, move || gone.recv().is_err());
        let committer = Committer::new(pool, Arc::new(Verifier::new(1)), true);
        let directory = tempfile::tempdir().unwrap();
        let flushes = ["a", "b"].map(|name| {
            let file = std::fs::File::create(directory.path().join(name)).unwrap();
            let stat = file.metadata().unwrap();
            Flush::Inode {
                id: (stat.dev(), stat.ino()),
                fd: Arc::new(file.into()),
            }
        });
        let mut syncs: Vec<_> = (0..200)
            .map(|number| Box::pin(committer.sync(LANE.into(), vec![flushes[number % 2].clone()])))
            .collect();
        let mut context = Context::from_waker(Waker::noop());
        for sync in &mut syncs {
            assert!(sync.as_mut().poll(&mut context).is_pending());
        }
        drop(go);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            assert!(slow.await.unwrap());
            for sync in syncs {
                sync.await.unwrap();
            }
        });
        let CommitterStats {
            requests,
            syncs,
            rounds,
        } = committer.stats();
        assert_eq!((requests, syncs, rounds), (200, 2, 1));
        // A round for each that comes when none runs.
        runtime
            .block_on(committer.sync(LANE.into(), vec![flushes[0].clone()]))
            .unwrap();
        assert_eq!(committer.stats().rounds, 2);
    }

    #[test]
    fn what_may_take_long_is_in_no_round_with_others() {
        let committer = Committer::new(
            Pool::new(PoolLimits::default()),
            Arc::new(Verifier::new(1)),
            true,
        );
        let directory = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(directory.path().join("long")).unwrap();
        let stat = file.metadata().unwrap();
        let (id, fd) = ((stat.dev(), stat.ino()), Arc::new(file.into()));
        let inode = Flush::Inode {
            id,
            fd: Arc::clone(&fd),
        };
        let attributes = Flush::AttributesOf {
            id,
            fd: Arc::clone(&fd),
        };
        let whole = Flush::FileSystem { fd };
        let groups = [&inode, &attributes, &whole].map(Flush::group);
        assert_eq!(groups, [Group::Short, Group::File(id), Group::FileSystem]);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let all = vec![inode, attributes, whole];
        runtime
            .block_on(committer.sync(Lane(1).into(), all))
            .unwrap();
        let stats = committer.stats();
        assert_eq!((stats.requests, stats.syncs, stats.rounds), (1, 3, 3));
        // A round looks once more after its answers.
        committer.pool.shutdown(std::time::Duration::from_secs(60));
        assert!(committer.queues.lock().is_empty(), "nothing stays behind");
    }
}
