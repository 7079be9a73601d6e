//! What there is to know of a file about how its bytes travel, for an operator who asks: nothing is
//! read, written or remembered.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use nfs_io::Mode;
use nfs_io::fs::{self, OFlags, Stat};
use nfs_io::plan::Alignment;

use nfs_io::auto::{Around, History};

use super::io::decide::Refused;
use super::{Error, FileKind, Result, Tree};
use crate::exports::policy::Io;
use crate::operate::io_counters::Reason;
use crate::vfs::Vfs;
use crate::vfs::file_cache::InodeId;

/// What was found out about a file: what decides how its bytes are moved.
pub(crate) struct FileFacts {
    /// Path of the file on the server's host.
    pub(crate) path: PathBuf,
    pub(crate) stat: Stat,
    pub(crate) alignment: Alignment,
    pub(crate) name: KnownName,
    /// What the server remembers that the file refused: such calls are not tried.
    pub(crate) refused: Refused,
    /// What the file would refuse and no call has met: the next call will.
    pub(crate) would_refuse: Refused,
    /// Pages in the cache and, of these, ones that are not on disk yet; `None` where the kernel does not say.
    pub(crate) cached_bytes: Option<(u64, u64)>,
    /// What was seen of the file's calls, for modes that are chosen from it.
    pub(crate) history: History,
    /// The machine around.
    pub(crate) around: Around,
}

/// The name by which rules know the file, and where it is from.
pub(crate) enum KnownName {
    /// The file is in the file cache, and a client found it by this name.
    Remembered(Vec<u8>),
    /// The file is not in the file cache: a client that opens it looks this name up.
    OfPath(Vec<u8>),
    /// The file is in the file cache, and came there without a name.
    Unknown,
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
        let refused = object.as_ref().map(|object| object.io.refusals.of(io));
        let mut would_refuse = Refused::default();
        let mut cached_bytes = None;
        if let Ok(file) = fs::reopen(found.as_fd(), OFlags::RDONLY | OFlags::NONBLOCK) {
            cached_bytes = fs::cachestat(file.as_fd(), 0, 0).ok().map(in_bytes);
            if fs::takes_dontcache(file.as_fd()) == Ok(false) {
                would_refuse.dontcache = Some(Reason::RefusedDontCache);
            }
        }
        let direct = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::DIRECT;
        if fs::reopen(found.as_fd(), direct).is_err_and(Mode::is_open_refused_by) {
            would_refuse.direct = Some(Reason::OpenRefused);
        }
        Ok(FileFacts {
            path: fs::fd_path(found.as_fd())?,
            alignment: stat.alignment(mount.block_bytes),
            stat,
            name,
            refused: refused.unwrap_or_default(),
            would_refuse,
            cached_bytes,
            history: object.map_or_else(History::default, |object| object.io.auto.known()),
            around: self.surroundings.now(),
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
