//! How much of the files of the open-file cache is in the kernel's page cache.
//!
//! The figure of each export is sampled, beside all calls and only while somebody asks for it: a round goes through the
//! whole cache, part by part, one part each second, and what is told is the sum that the last whole round found. A part
//! ends when it took [`limits::PAGE_CACHE_LOOK_MILLISECONDS_MAX`] or looked at
//! [`limits::PAGE_CACHE_FILES_PER_LOOK_MAX`] files, and a large file is looked at in pieces of
//! [`limits::PAGE_CACHE_PIECE_BYTES`], since cachestat(2) takes time by the folios that it meets. A file that is not open for
//! reading is opened for it, and not again before a client has come to it.

use std::collections::HashMap;
use std::os::fd::AsFd as _;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use nfs_io::fs::{self, OFlags};
use parking_lot::Mutex;

use super::{FileKind, Object, Tree};
use crate::limits;
use crate::vfs::Vfs;
use crate::vfs::file_cache::{Cursor, FileCache};

/// What the page cache holds of a file, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageCache {
    /// All of the file that is in the page cache.
    pub(crate) bytes: u64,
    /// Those of them whose contents are not on disk yet.
    pub(crate) dirty_bytes: u64,
}

impl From<fs::CacheStat> for PageCache {
    fn from(stat: fs::CacheStat) -> Self {
        let page = rustix::param::page_size() as u64;
        Self {
            bytes: stat.cached * page,
            dirty_bytes: (stat.dirty + stat.writeback) * page,
        }
    }
}

/// What the page cache holds of `len` bytes of a file from `offset` on, or with `len` 0 of all from there on. `None` for
/// what is no regular file, for one that was not open for reading or writing since it is in the open-file cache (to
/// open it for this alone could disturb local programs), for one on a file system that may not answer, and where the
/// kernel does not say: before Linux 6.5, or for a file of others.
pub(super) fn page_cache(object: &Object, offset: u64, len: u64) -> Option<PageCache> {
    if object.kind != FileKind::Regular || !object.mount.local || !object.io.was_open() {
        return None;
    }
    // One for writing is not borrowed: it is to be closed as soon as nobody writes.
    let stat = match object.read_fd_if_open() {
        Some(file) => fs::cachestat(file.as_fd(), offset, len),
        None => {
            let file = fs::reopen(object.path(), OFlags::RDONLY | OFlags::NONBLOCK).ok()?;
            fs::cachestat(file.as_fd(), offset, len)
        }
    };
    stat.ok().map(PageCache::from)
}

/// What the page cache holds of the open files of each export.
#[derive(Default)]
pub(crate) struct PageCacheWatch {
    round: Mutex<Round>,
    /// What the last whole round found, by the number of the export; `None` until there was one.
    found: Mutex<Option<HashMap<u32, u64>>>,
    /// When somebody asked for it last.
    asked: Mutex<Option<Instant>>,
}

/// How far a round has come.
#[derive(Default)]
struct Round {
    cursor: Cursor,
    /// The objects from before the cursor that are still to be looked at, the next one last.
    next: Vec<Weak<Object>>,
    /// The cursor is at the end of the cache.
    is_last: bool,
    /// Where in the next object the look goes on.
    offset: u64,
    /// What the pieces of it before there hold.
    so_far: Option<SeenInPageCache>,
    bytes: HashMap<u32, u64>,
}

/// What the page cache held of a file, and how often it had been found in the open-file cache by then.
#[derive(Clone, Copy)]
pub(super) struct SeenInPageCache {
    uses: u64,
    bytes: u64,
}

/// How many objects a round takes from the cache at once.
const BATCH: usize = 64;

impl Round {
    /// The object to be looked at; `None` at the end of the cache.
    fn current(&mut self, files: &FileCache) -> Option<Arc<Object>> {
        loop {
            if let Some(object) = self.next.last().and_then(Weak::upgrade) {
                return Some(object);
            }
            (self.offset, self.so_far) = (0, None);
            if self.next.pop().is_some() {
                continue;
            }
            if self.is_last {
                return None;
            }
            let batch = files.some(&mut self.cursor, BATCH);
            self.next.extend(batch.iter().map(Arc::downgrade));
            self.is_last = self.cursor.is_at_start();
        }
    }

    /// Looks at the next piece of an object. Says whether it was its last.
    fn look(&mut self, object: &Object) -> bool {
        let (uses, _) = object.uses();
        let seen = *object.io.in_page_cache.lock();
        if self.offset == 0
            && let Some(seen) = seen.filter(|seen| seen.uses == uses)
            && object.read_fd_if_open().is_none()
        {
            // Nobody came to it since. It would have to be opened, which local programs can see, and leaves the
            // open-file cache soon.
            self.end(object, Some(seen));
            return true;
        }
        let piece = limits::PAGE_CACHE_PIECE_BYTES;
        let held = page_cache(object, self.offset, piece);
        if let Some(held) = held {
            let none = SeenInPageCache { uses, bytes: 0 };
            self.so_far.get_or_insert(none).bytes += held.bytes;
        }
        self.offset = self.offset.saturating_add(piece);
        let goes_on = |size: u64| held.is_some() && size > self.offset;
        let is_last = !fs::statx(object.path()).is_ok_and(|stat| goes_on(stat.size));
        if is_last {
            let found = self.so_far.take();
            *object.io.in_page_cache.lock() = found;
            self.end(object, found);
        }
        is_last
    }

    /// An object was looked at whole.
    fn end(&mut self, object: &Object, found: Option<SeenInPageCache>) {
        if let Some(found) = found {
            *self.bytes.entry(object.mount.export_id).or_default() += found.bytes;
        }
        self.next.pop();
        (self.offset, self.so_far) = (0, None);
    }
}

impl PageCacheWatch {
    /// Looks at the next part of the cache. `may_go_on` is asked after each piece.
    fn look(&self, files: &FileCache, may_go_on: impl Fn() -> bool) {
        let mut round = self.round.lock();
        let mut left = limits::PAGE_CACHE_FILES_PER_LOOK_MAX;
        while left > 0 {
            let Some(object) = round.current(files) else {
                let round = std::mem::take(&mut *round);
                *self.found.lock() = Some(round.bytes);
                return;
            };
            left -= usize::from(round.look(&object));
            if !may_go_on() {
                return;
            }
        }
    }

    /// Forgets what was found, when nobody asks any more: it would be told for new later.
    fn forget(&self) {
        *self.round.lock() = Round::default();
        *self.found.lock() = None;
    }
}

impl Vfs {
    /// Looks at the next part of the open-file cache, if somebody asked for the figure lately. For a thread that may
    /// block; to be called once a second.
    pub(crate) fn look_at_page_cache(&self, now: Instant) {
        let watch = &self.page_cache;
        let lately = Duration::from_secs(limits::PAGE_CACHE_ASKED_SECONDS);
        let asked = *watch.asked.lock();
        if asked.is_none_or(|asked| now.saturating_duration_since(asked) > lately) {
            watch.forget();
            return;
        }
        let most = Duration::from_millis(limits::PAGE_CACHE_LOOK_MILLISECONDS_MAX);
        watch.look(&self.files, || now.elapsed() < most);
    }

    /// What the page cache holds of the open files of an export, in bytes, as the last whole round found. `None` until
    /// there was one since somebody began to ask, and where the kernel does not say.
    pub(crate) fn page_cache_bytes(&self, tree: &Tree) -> Option<u64> {
        let found = self.page_cache.found.lock();
        let bytes = found.as_ref()?.get(&tree.export.id).copied();
        bytes.or_else(|| {
            // Nothing of it was read or written, or nothing could be told.
            let root = tree.root_mount();
            let tells = root.local && fs::cachestat(root.fd(), 0, 0).is_ok();
            tells.then_some(0)
        })
    }

    /// Has the figures of [`Vfs::page_cache_bytes`] found out from now on.
    pub(crate) fn ask_for_page_cache(&self, now: Instant) {
        *self.page_cache.asked.lock() = Some(now);
    }
}
