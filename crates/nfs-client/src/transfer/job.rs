//! One file to copy, and what all files of one copy share.

use std::fs::File as LocalFile;
use std::sync::Arc;

use nfs_io::budget::Budget;
use nfs_io::buffer::BufferPool;

use super::content::Pace;
use super::dir::{Dir, Side};
use super::disk::Disk;
use super::item::Item;
use super::links::Links;
use super::mirror::{Extras, Only};
use super::options::Options;
use super::stream::Stream;
use super::watch::{Done, Watch, What};
use crate::limits::{LOCAL_MEMORY_BYTES, LOCAL_PIECE_BYTES};
use crate::rate::Limit;

/// What all files of one copy share.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) options: Options,
    pub(super) watch: Watch,
    pub(super) pool: BufferPool,
    pub(super) links: Links,
    pub(super) extras: Extras,
    pub(super) only: Only,
    limit: Option<Limit>,
}

impl Context {
    pub(super) fn new(options: Options, watch: Watch) -> Self {
        Self {
            limit: options.rate.map(Limit::new),
            only: Only::new(&options.only),
            extras: Extras::default(),
            options,
            watch,
            // A COMMIT gives back many at once, and all are soon taken again.
            pool: BufferPool::keeping(Budget::new(LOCAL_MEMORY_BYTES), LOCAL_MEMORY_BYTES),
            links: Links::default(),
        }
    }

    /// How content is moved on.
    pub(super) fn pace(&self) -> Pace<'_> {
        Pace {
            watch: &self.watch,
            limit: self.limit.as_ref(),
        }
    }

    /// Counts a source whose times are to be kept and cannot be, for the end of the copy.
    pub(super) fn look_at_times(&self, source: &Item) {
        if self.options.preserve.times && source.times_cut {
            self.watch.time_not_kept();
        }
    }

    /// A file of this host, moved as the options say.
    pub(super) fn disk(&self, file: LocalFile) -> Arc<Disk> {
        Arc::new(Disk::new(file, self.options.local, &self.watch))
    }
}

/// One file that is to be copied.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// The directory it is in.
    pub(super) from: Dir,
    /// The file as its directory told it.
    pub(super) item: Item,
    /// How it is reached if it is no file but a stream.
    pub(super) stream: Option<Stream>,
    /// The directory it goes to.
    pub(super) to: Dir,
    /// The name that it gets there.
    pub(super) name: Vec<u8>,
    /// What is known of that name.
    pub(super) there: Destination,
    /// What an earlier run left of it, under the name that its content has until it is complete.
    pub(super) partial: Option<Item>,
}

/// What is known of the destination.
#[derive(Clone, Debug)]
pub(super) enum Destination {
    /// The name is free, for the directory is new.
    Free,
    /// Nobody has looked for the name yet.
    Unknown,
    /// Something has the name already: this.
    Taken(Item),
    /// It is a stream, which takes what is written to it.
    Stream(Stream),
}

impl Job {
    /// Whether one of its sides is a stream: what was moved cannot be moved again.
    pub(super) fn is_once(&self) -> bool {
        self.stream.is_some() || matches!(self.there, Destination::Stream(_))
    }

    /// The report that `what` was done with `bytes` bytes of content.
    pub(super) fn done(&self, what: What, bytes: u64) -> Done {
        Done {
            source: self.from.location.join(&self.item.name),
            destination: self.to.location.join(&self.name),
            what,
            bytes,
            checksum: None,
        }
    }
}

/// Bytes that travel in one READ and one WRITE.
pub(super) fn small_bytes(job: &Job) -> usize {
    piece_bytes(&job.to, false).min(piece_bytes(&job.from, true))
}

/// Bytes per transfer on a side.
pub(super) fn piece_bytes(dir: &Dir, read: bool) -> usize {
    match &dir.side {
        Side::Local(_) => LOCAL_PIECE_BYTES,
        Side::Remote { client, .. } => {
            let sizes = client.transfer_sizes();
            let size = if read { sizes.read } else { sizes.write };
            usize::try_from(size.max(1)).unwrap_or(LOCAL_PIECE_BYTES)
        }
    }
}
