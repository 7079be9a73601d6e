//! Operations on the files of an export, in words of no protocol version: the only place that
//! touches them.
//!
//! An operation takes a [`Target`]: an object, and an [`Actor`] with the credentials it is asked with. What may wait for a disk runs on the helper
//! pool or the engine; what cannot (a `statx` of a cached inode, a look-up in the dentry cache, a
//! READ from the page cache) is done at once on the shard's own thread.
//!
//! The kernel decides what a caller may do: changes of names run under an identity
//! [`Guard`](nfs_io::identity::Guard); LOOKUP, READ and WRITE are done by the server for itself, after
//! the kernel was asked for the caller.

mod access;
mod acls;
mod advise;
mod again;
pub(crate) mod ahead;
mod attributes;
mod cached;
mod changing;
mod closing;
mod create;
mod error;
pub(crate) mod fh;
pub(crate) mod file_cache;
mod file_io;
pub(crate) mod gate;
pub(crate) mod handle_table;
pub(crate) mod hints;
mod host_lock;
mod info;
mod io;
mod lookup;
mod names;
mod object;
mod open;
mod page_cache;
mod permits;
mod readdir;
mod reads;
mod resolve;
mod rewrites;
mod room;
mod seen;
mod space;
pub(crate) mod stable;
pub(crate) mod staging;
mod tail;
mod target;
mod tree;
mod trees;
mod walk;
mod wcc;
mod why;
mod xattrs;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use nfs_io::budget::Reclaim;
use nfs_io::engine::EngineCounters;
use nfs_io::memory::MemoryWatch;
use nfs_io::turns::Rule;
use nfs_io::{Budget, BufferPool, Engine, Pool, PoolLimits, Queue, Shares};

use crate::exports::ExportTable;
use crate::limits;
use crate::operate::calls::{self, StepKind, step};
use crate::operate::trace::Trace;

use ahead::Ahead;
use fh::{HandleKey, claimed_export};
use file_cache::FileCache;
use gate::Gates;
use handle_table::HandleTable;
use hints::Hints;
use stable::{Committer, Verifier};
use staging::Stages;

pub(crate) use access::Access;
pub(crate) use acls::Acls;
pub(crate) use attributes::{Attributes, Parts, SetAttributes, TimeChange};
pub(crate) use cached::{CachedFile, Dropped};
pub(crate) use closing::Writers;
pub(crate) use create::{Mark, NewNode, Precondition};
pub(crate) use error::{Error, Result};
pub(crate) use host_lock::HostSays;
pub(crate) use info::FsFacts;
pub(crate) use io::{Payload, ReadDone, Stability, auto, decide};
pub(crate) use names::{EntryName, Step};
pub(crate) use nfs_io::fs::FileKind;
pub(crate) use object::{Object, Opened};
use page_cache::PageCacheWatch;
pub(crate) use readdir::{DirEntry, Listing};
pub(crate) use room::Turn;
pub(crate) use space::{Content, Extent, Layout};
pub(crate) use target::{Actor, Target};
pub(crate) use tree::{Mount, Tree};
pub(crate) use trees::Trees;
pub(crate) use wcc::{Wcc, WithWcc};
pub(crate) use why::{FileFacts, KnownName};
pub(crate) use xattrs::SetXattr;

/// The files of all exports, and what the operations on them share. Made once at start; every shard and
/// helper thread holds it.
pub(crate) struct Vfs {
    pub(crate) trees: ArcSwap<Trees>,
    pub(crate) files: FileCache,
    pub(crate) writers: Writers,
    pub(crate) key: HandleKey,
    /// Opened with the first export for which the kernel's handles are not to be had.
    pub(crate) table: OnceLock<HandleTable>,
    /// Where the handle table is kept.
    pub(crate) table_path: PathBuf,
    pub(crate) pool: Pool,
    /// What is counted of operations that go to the pool.
    pub(crate) thread_counters: Arc<EngineCounters>,
    /// Memory that the data of WRITEs is held in while they wait.
    pub(crate) write_budget: Budget,
    /// Buffers that READs read into.
    pub(crate) read_buffers: BufferPool,
    /// Who may have how much of them.
    pub(crate) read_shares: Shares,
    /// For the pages of READs that are not copied.
    client_pipes: io::ClientPipes,
    pub(crate) verifier: Arc<Verifier>,
    pub(crate) hints: Hints,
    /// Who may have how much of what clients advise.
    pub(crate) advice_shares: advise::AdviceShares,
    pub(crate) committer: Arc<Committer>,
    pub(crate) gates: Gates,
    pub(crate) ahead: Arc<Ahead>,
    /// Ends of direct WRITEs that wait for their neighbours.
    pub(crate) stages: Arc<Stages>,
    pub(crate) trace: Arc<Trace>,
    /// What modes that are chosen from what is seen have to know of the machine.
    pub(crate) surroundings: io::Surroundings,
    pub(crate) counters: VfsCounters,
    /// What the page cache holds of open files.
    pub(crate) page_cache: PageCacheWatch,
    /// No object stays in the file cache from one call to the next, as far as that loses nothing: for measurements.
    pub(crate) keeps_no_files: AtomicBool,
    /// The largest READ and WRITE, in bytes.
    pub(crate) io_bytes_max: u32,
}

/// What the file cache did by itself. Every number only grows.
#[derive(Default)]
pub(crate) struct VfsCounters {
    /// Files that were synced so that their descriptors could be used for others.
    pub(crate) synced_for_room: AtomicU64,
    /// Objects let go of because they were removed on the server's host.
    pub(crate) removed_locally: AtomicU64,
    /// Looks at files that are open for writing.
    pub(crate) sweeps: AtomicU64,
    /// Space taken ahead of streams.
    pub(crate) reserve: io::ReserveCounters,
    /// WRITEs that came out of order.
    pub(crate) order: io::OrderCounters,
}

/// Stands for whoever changes a file, where only sameness matters: attributes from before a change are not
/// told to one author when another's change overlapped, and each author of unstable data hears once that it
/// was lost. A front gives all calls of one client the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Author(pub(crate) u64);

/// What the operations of a [`Vfs`] may use, all exports together.
pub(crate) struct Resources {
    /// The bounds of the pool of helper threads, where calls run that may block.
    pub(crate) pool: PoolLimits,
    /// The server may use io_uring.
    pub(crate) ring: bool,
    /// Descriptors of files that clients use.
    pub(crate) fds_max: usize,
    /// Memory for the data of WRITEs, which the front receives into it.
    pub(crate) write_budget: Budget,
    /// Memory for what READs bring.
    pub(crate) read_budget: Budget,
}

impl Vfs {
    /// Opens the directories of the exports, and the handle key and, where it is needed, the handle table in
    /// `state_dir`.
    ///
    /// # Errors
    /// What cannot be opened, and why.
    pub(crate) fn open(
        state_dir: &Path,
        exports: ExportTable,
        resources: Resources,
    ) -> core::result::Result<Self, String> {
        let Resources {
            pool,
            ring,
            fds_max,
            write_budget,
            read_budget,
        } = resources;
        let key = HandleKey::load_or_create(state_dir);
        let key = key.map_err(|error| format!("handle key: {error}"))?;
        let trees = Trees::open(Arc::new(exports), None)?;
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| format!("random numbers: {error}"))?;
        let verifier = Arc::new(Verifier::new(u64::from_be_bytes(random)));
        let pool = Pool::new(pool);
        let trace = Trace::new(claimed_export);
        trace.set_exports(trees.table.exports().iter().map(AsRef::as_ref));
        // The largest call must fit into its half of the budget several times.
        let affordable = u32::try_from(write_budget.total() / 4).unwrap_or(u32::MAX);
        let ahead = Ahead::new(read_budget.total());
        let gives_way: Arc<dyn Reclaim> = ahead.clone();
        read_budget.register_reclaim(Arc::downgrade(&gives_way));
        let vfs = Self {
            trees: ArcSwap::from_pointee(trees),
            files: FileCache::new(fds_max),
            writers: Writers::default(),
            key,
            table: OnceLock::new(),
            table_path: state_dir.join("handles.redb"),
            hints: Hints::new(),
            advice_shares: advise::AdviceShares::default(),
            committer: Committer::new(pool.clone(), Arc::clone(&verifier), ring),
            gates: Gates::default(),
            ahead,
            stages: Arc::new(Stages::new(write_budget.clone())),
            pool,
            thread_counters: Arc::default(),
            write_budget,
            read_shares: Shares::new(
                read_budget.total(),
                Rule::TimesFree(limits::UNSENT_TIMES_FREE_MAX),
            ),
            client_pipes: io::ClientPipes::of(fds_max),
            read_buffers: BufferPool::new(read_budget),
            verifier,
            trace,
            surroundings: io::Surroundings::new(MemoryWatch::open()),
            counters: VfsCounters::default(),
            page_cache: PageCacheWatch::default(),
            keeps_no_files: AtomicBool::new(false),
            io_bytes_max: limits::IO_BYTES_MAX.min(affordable) & !4095,
        };
        vfs.open_table_for(&vfs.trees.load())?;
        Ok(vfs)
    }

    /// An engine whose operations go to the helper pool.
    pub(crate) fn thread_engine(&self) -> Engine {
        Engine::threads_counting(self.pool.clone(), Arc::clone(&self.thread_counters))
    }

    /// Runs what may wait for a disk or a peer on the helper pool.
    ///
    /// # Errors
    /// [`Error::Busy`] when too much of this client waits for that file system already: then nothing was done.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        queue: impl Into<Queue>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let queue = queue.into();
        let _step = step(StepKind::Helper);
        let Some(handed_over) = calls::hand_over() else {
            let done = self.pool.run(queue, work).await;
            return done.map_err(|_full| Error::Busy);
        };
        let done = self.pool.run(queue, move || handed_over.run(work)).await;
        let (result, brought) = done.map_err(|_full| Error::Busy)?;
        if let Some(brought) = &brought {
            calls::take_back(brought);
        }
        Ok(result)
    }
}
