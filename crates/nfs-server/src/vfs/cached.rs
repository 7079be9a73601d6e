//! What an operator sees of the open-file cache, and drops from it.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nfs_io::fs::{self, OFlags};

use super::page_cache::{PageCache, page_cache};
use super::{Error, FileKind, Object, Result, Tree};
use crate::exports::policy::Io;
use crate::vfs::Vfs;
use crate::vfs::fh::Handle;
use crate::vfs::file_cache::InodeId;

/// An object of the open-file cache, as an operator sees it.
pub(crate) struct CachedFile {
    pub(crate) object: Arc<Object>,
    /// What it is open for, beside the descriptor that only names it.
    pub(crate) open: Vec<&'static str>,
    /// How many times clients of NFSv4 have it open.
    pub(crate) client_opens: u32,
    /// How often it was found in the cache.
    pub(crate) uses: u64,
    /// Seconds since it was last found there.
    pub(crate) idle_seconds: u32,
    /// Data that is not on stable storage, or space taken ahead: that is seen to before it leaves.
    pub(crate) must_stay: bool,
    /// What the page cache holds of it, where that is known.
    pub(crate) page_cache: Option<PageCache>,
}

/// What came of dropping a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// It was in the open-file cache.
    pub(crate) was_cached: bool,
    /// It is there no more, and all of its descriptors are closed.
    pub(crate) has_left: bool,
    /// Descriptors that were closed though it stays.
    pub(crate) closed: usize,
    /// How many times clients of NFSv4 have it open, for which it stays.
    pub(crate) client_opens: u32,
    /// It has data that could not be put on stable storage yet, for which it stays.
    pub(crate) must_stay: bool,
    /// What the page cache held of it before and after, where its pages were dropped.
    pub(crate) pages: Option<(PageCache, PageCache)>,
}

impl Vfs {
    /// How many objects of one export, or of all, the open-file cache has, and `most` of them but for the first `skip`.
    /// The order stays while nothing comes or goes.
    pub(crate) fn cached(
        &self,
        export: Option<u32>,
        skip: usize,
        most: usize,
    ) -> (usize, Vec<Arc<Object>>) {
        let (mut total, mut found) = (0, Vec::new());
        self.files.for_each(|object| {
            if export.is_some_and(|id| id != object.mount.export_id) {
                return;
            }
            if total >= skip && found.len() < most {
                found.push(Arc::clone(object));
            }
            total += 1;
        });
        (total, found)
    }

    /// Looks at an object of the open-file cache; no use of it. Waits for no disk.
    pub(crate) fn look_at_cached(&self, object: Arc<Object>) -> CachedFile {
        let open = [
            (
                "read",
                object.io.read.try_lock().is_none_or(|it| it.is_some()),
            ),
            ("write", object.has_write_fd()),
            ("direct-read", object.has_direct_fd(Io::Read)),
            ("direct-write", object.has_direct_fd(Io::Write)),
        ];
        let (uses, used_at) = object.uses();
        CachedFile {
            open: open.iter().filter(|it| it.1).map(|it| it.0).collect(),
            client_opens: object.opens(),
            uses,
            idle_seconds: self.files.set_clock().saturating_sub(used_at),
            must_stay: object.io.must_stay(),
            page_cache: page_cache(&object, 0, 0),
            object,
        }
    }

    /// Drops a file by its path below the root of an export, which is walked as a client's look-ups are; see
    /// [`Vfs::drop_object`]. May wait for the disk.
    ///
    /// # Errors
    /// The kernel's; [`Error::WrongType`] for the pages of what is no regular file, [`Error::NotExported`] behind a
    /// mount point that the export does not cross.
    pub(crate) fn drop_file(&self, tree: &Tree, path: &[u8], pages: bool) -> Result<Dropped> {
        let found = tree.open_below(path, OFlags::PATH)?;
        let stat = fs::statx(found.as_fd())?;
        let mount = tree.mount_of(&tree.root_mount(), &stat)?;
        let id = InodeId {
            fsid: mount.fsid,
            dev: stat.dev,
            ino: stat.ino,
        };
        let dropped = self.files.glimpse_inode(id).map(|it| self.let_out(it));
        Ok(Dropped {
            pages: match pages {
                true => Some(drop_pages(found.as_fd(), stat.kind())?),
                false => None,
            },
            ..dropped.unwrap_or_default()
        })
    }

    /// Drops the object of a handle: what is not on stable storage is put there, descriptors that no call uses are closed,
    /// and it leaves the open-file cache if nobody holds it. With `pages` what the page cache holds of it is given up as
    /// well, as far as it is on disk and not mapped. May wait for the disk.
    ///
    /// # Errors
    /// The kernel's; [`Error::WrongType`] for the pages of what is no regular file.
    pub(crate) fn drop_object(&self, handle: &Handle, pages: bool) -> Result<Dropped> {
        let Some(object) = self.files.glimpse(handle) else {
            return Ok(Dropped::default());
        };
        let kind = object.kind;
        let named = fs::reopen(object.path(), OFlags::PATH)?;
        let dropped = self.let_out(object);
        Ok(Dropped {
            pages: match pages {
                true => Some(drop_pages(named.as_fd(), kind)?),
                false => None,
            },
            ..dropped
        })
    }

    fn let_out(&self, object: Arc<Object>) -> Dropped {
        // Somebody else may be about it already.
        if !object.cleaning.swap(true, Ordering::Relaxed) {
            self.make_ready_to_leave(&object);
            object.cleaning.store(false, Ordering::Relaxed);
        }
        let closed = object.io.close_spare() + object.take_writing().len();
        // What it stays with is looked at anew.
        *object.io.in_page_cache.lock() = None;
        let (client_opens, must_stay) = (object.opens(), object.io.must_stay());
        let left = self.files.take_out(object);
        Dropped {
            was_cached: true,
            has_left: left.is_some(),
            closed,
            client_opens,
            must_stay,
            pages: None,
        }
    }
}

/// Gives up what the page cache holds of a file, and says what that was before and after.
fn drop_pages(file: BorrowedFd<'_>, kind: FileKind) -> Result<(PageCache, PageCache)> {
    if kind != FileKind::Regular {
        return Err(Error::WrongType);
    }
    let file = fs::reopen(file, OFlags::RDONLY | OFlags::NONBLOCK)?;
    let held = || fs::cachestat(file.as_fd(), 0, 0).map(PageCache::from);
    // Where the kernel does not say, they are dropped all the same.
    let before = held().unwrap_or_default();
    fs::drop_cached(file.as_fd())?;
    Ok((before, held().unwrap_or_default()))
}
