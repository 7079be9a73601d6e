//! How much of the files of the open-file cache is in the kernel's page cache.

use std::os::fd::AsFd as _;

use nfs_io::fs::{self, OFlags};

use super::{FileKind, Object};

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
