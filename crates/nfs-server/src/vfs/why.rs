//! What there is to know of a file about how its bytes travel, for an operator who asks: nothing is
//! read, written or remembered.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use nfs_io::Errno;
use nfs_io::fs::{self, OFlags, Stat};
use nfs_io::plan::{Alignment, Mode};

use super::{Error, FileKind, Result, Tree};
use crate::exports::policy::Io;
use crate::operate::io_counters::Reason;
use crate::vfs::Vfs;
use crate::vfs::file_cache::InodeId;

/// See the module.
pub(crate) struct FileFacts {
    /// On the server's host.
    pub(crate) path: PathBuf,
    pub(crate) stat: Stat,
    pub(crate) alignment: Alignment,
    pub(crate) name: KnownName,
    /// Refused by the file before, or found out just now without trying.
    pub(crate) refused: Refused,
    /// Pages in the cache and, of these, ones that are not on disk yet; `None` where the kernel does not say.
    pub(crate) cached_bytes: Option<(u64, u64)>,
}

/// By which name rules know the file.
pub(crate) enum KnownName {
    /// A client found it by this one.
    Remembered(Vec<u8>),
    /// It is not in the file cache: a client that opens it looks this one up.
    OfPath(Vec<u8>),
    /// It is in the file cache, and came there without a name.
    Unknown,
}

/// Why a mode other than `buffered` will not be tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) direct: Option<Reason>,
    pub(crate) dontcache: Option<Reason>,
    /// Which of them the server remembers; what it does not, the next call will find out.
    pub(crate) direct_remembered: bool,
    pub(crate) dontcache_remembered: bool,
}

impl Vfs {
    /// Looks at a regular file below an export's root. `path` is walked as a client's look-ups are: within the
    /// export, through no link. May wait for the disk.
    ///
    /// # Errors
    /// The kernel's; [`Error::WrongType`] for what is no regular file, [`Error::NotExported`] behind
    /// a mount point that the export does not cross.
    pub(crate) fn file_facts(&self, tree: &Tree, path: &[u8], io: Io) -> Result<FileFacts> {
        let found = tree.open_below(path, OFlags::PATH)?;
        let stat = fs::statx(found.as_fd())?;
        if stat.kind() != FileKind::Regular {
            return Err(Error::WrongType);
        }
        let mount = tree.mount_of(&tree.root_mount(), &stat)?;
        let id = InodeId {
            fsid: mount.fsid,
            dev: stat.dev,
            ino: stat.ino,
        };
        let object = self.files.by_inode(id);
        let of_path = || path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let name = match &object {
            None => KnownName::OfPath(of_path().to_vec()),
            Some(object) => object.name().map_or(KnownName::Unknown, |name| {
                KnownName::Remembered(name.to_vec())
            }),
        };
        let mut refused = Refused::default();
        if let Some(object) = &object {
            refused.direct = object.refusals.of(io, Mode::Direct);
            refused.dontcache = object.refusals.of(io, Mode::DontCache);
            refused.direct_remembered = refused.direct.is_some();
            refused.dontcache_remembered = refused.dontcache.is_some();
        }
        let mut cached_bytes = None;
        if let Ok(file) = fs::reopen(found.as_fd(), OFlags::RDONLY | OFlags::NONBLOCK) {
            cached_bytes = fs::cachestat(file.as_fd(), 0, 0).ok().map(in_bytes);
            if fs::takes_dontcache(file.as_fd()) == Ok(false) {
                refused.dontcache.get_or_insert(Reason::RefusedDontCache);
            }
        }
        let direct = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::DIRECT;
        if let Err(Errno::INVAL | Errno::OPNOTSUPP) = fs::reopen(found.as_fd(), direct) {
            refused.direct.get_or_insert(Reason::OpenRefused);
        }
        Ok(FileFacts {
            path: fs::fd_path(found.as_fd())?,
            alignment: Alignment::of(&stat, mount.block_bytes),
            stat,
            name,
            refused,
            cached_bytes,
        })
    }

    /// What of a path on this host lies below the root of `tree`, by the export's own path or by where that
    /// leads.
    pub(crate) fn path_below<'p>(&self, tree: &Tree, path: &'p Path) -> Option<&'p Path> {
        let below = path.strip_prefix(&tree.export.path).ok();
        below.or_else(|| {
            let root = fs::fd_path(tree.root_mount().fd()).ok()?;
            path.strip_prefix(root).ok()
        })
    }
}

/// Pages in the cache, and of these ones whose contents are not on disk yet, in bytes.
fn in_bytes(stat: fs::CacheStat) -> (u64, u64) {
    let page = rustix::param::page_size() as u64;
    (stat.cached * page, (stat.dirty + stat.writeback) * page)
}
