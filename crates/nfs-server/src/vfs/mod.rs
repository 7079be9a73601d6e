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
mod again;
mod attributes;
mod closing;
mod create;
mod error;
pub(crate) mod fh;
pub(crate) mod file_cache;
mod file_io;
pub(crate) mod gate;
pub(crate) mod handle_table;
pub(crate) mod hints;
mod info;
mod io;
mod lookup;
mod names;
mod object;
mod permits;
mod readdir;
mod resolve;
mod room;
pub(crate) mod stable;
mod target;
mod tree;
mod trees;
mod walk;
mod wcc;
mod why;

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use nfs_io::{Budget, BufferPool, Lane, Pool};

use crate::operate::trace::Trace;

use fh::HandleKey;
use file_cache::FileCache;
use gate::Gates;
use handle_table::HandleTable;
use hints::Hints;
use stable::{Committer, Verifier};

pub(crate) use access::Access;
pub(crate) use attributes::{Attributes, SetAttributes, TimeChange};
pub(crate) use closing::Writers;
pub(crate) use create::{NewNode, Precondition};
pub(crate) use error::{Error, Result};
pub(crate) use info::FsFacts;
pub(crate) use io::{Payload, Stability, decide};
pub(crate) use names::check_name;
pub(crate) use nfs_io::fs::FileKind;
pub(crate) use object::Object;
pub(crate) use readdir::{DirEntry, Listing};
pub(crate) use room::Turn;
pub(crate) use target::{Actor, Target};
pub(crate) use tree::{Mount, Tree};
pub(crate) use trees::Trees;
pub(crate) use wcc::{Wcc, WithWcc};
pub(crate) use why::{FileFacts, KnownName};

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
    /// Memory that the data of WRITEs is held in while they wait.
    pub(crate) write_budget: Budget,
    /// Buffers that READs read into.
    pub(crate) read_buffers: BufferPool,
    pub(crate) verifier: Arc<Verifier>,
    pub(crate) hints: Hints,
    pub(crate) committer: Arc<Committer>,
    pub(crate) gates: Gates,
    pub(crate) trace: Arc<Trace>,
    pub(crate) counters: VfsCounters,
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
}

/// Stands for whoever changes a file, where only sameness matters: attributes from before a change are not
/// told to one author when another's change overlapped, and each author of unstable data hears once that it
/// was lost. A front gives all calls of one client the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Author(pub(crate) u64);

impl Vfs {
    /// Runs what may wait for a disk or a peer on the helper pool.
    ///
    /// # Errors
    /// [`Error::Busy`] when too much waits for that file system already.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        lane: Lane,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        self.pool.run(lane, work).await.map_err(|_full| Error::Busy)
    }
}
