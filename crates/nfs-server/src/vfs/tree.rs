//! An export as it is served: its root and the file systems in it.
//!
//! A `Tree` is made when an export is first served and lives until a reload drops or changes the export. It
//! knows which mounted file system a handle's [`MountKey`] means. Mount points below the export are
//! entered only with `crossmnt`; otherwise the kernel is told not to (`RESOLVE_NO_XDEV`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nfs_io::caps::{self, Capability};
use nfs_io::fs::{self, FsStat, OFlags, OpenHow, ResolveFlags, Stat};
use nfs_io::turns::Rule;
use nfs_io::{Budget, Errno, Lane, ReadWaits, Share, Sharer, Shares, WriteWaits};
use parking_lot::RwLock;

use super::{Error, FileKind, Object, Result, room};
use crate::exports::Export;
use crate::limits;
use crate::operate::call_counters::CallCounters;
use crate::operate::io_counters::IoCounters;
use crate::vfs::fh::{MountKey, PlaceMark};

/// An export as it is served: its root, the file systems in it, and what is counted of it.
pub(crate) struct Tree {
    pub(crate) export: Arc<Export>,
    /// The figures of how its bytes were moved, which reloads leave as they are.
    pub(crate) io: Arc<IoCounters>,
    /// What became of calls on it, likewise.
    pub(crate) calls: Arc<CallCounters>,
    place: Arc<Place>,
    /// The number of the directory of another export in whose place its root is found, once that was looked for.
    pub(super) covered: OnceLock<Option<u64>>,
}

/// The directory that is served, whatever the settings of its export: a reload that changes only
/// those keeps it, and with it all that is cached of it.
struct Place {
    mark: PlaceMark,
    /// Handles of the directory's files are those of the handle table: the kernel's cannot be had or opened.
    by_table: bool,
    root: OnceLock<Arc<Object>>,
    /// The turns of calls that may have descriptors opened; `None` where there are more than calls.
    turns: OnceLock<Option<Shares>>,
    /// The file system of the export's root.
    root_mount: Arc<Mount>,
    /// All file systems that were entered, the root's among them.
    mounts: RwLock<Vec<Arc<Mount>>>,
    /// No export serves it any more: nothing cached of it may be used.
    retired: Arc<AtomicBool>,
}

/// One file system of an export.
pub(crate) struct Mount {
    pub(crate) key: MountKey,
    /// The export that it is served with.
    pub(super) export_id: u32,
    /// Told to clients: the same after a restart, whatever device number the kernel gives.
    pub(crate) fsid: u64,
    pub(crate) dev: u64,
    /// Stands for the file system in the handle table, see [`Mount::mark_of`].
    mark: u64,
    mnt_id: u64,
    root_ino: u64,
    /// `statx` on a cached inode of it does not wait for anybody: it may run on a shard's thread.
    pub(crate) local: bool,
    /// When a READ waits for the disk within the submission.
    pub(super) read_waits: ReadWaits,
    /// When a WRITE to its page cache waits for the disk within the submission.
    pub(super) write_waits: WriteWaits,
    /// The size of a block of the file system, in bytes.
    pub(crate) block_bytes: u64,
    /// The largest file it takes, found by asking it (0 where it could not be asked).
    pub(crate) file_size_max: u64,
    /// It has extended attributes of the user's namespace.
    pub(crate) user_xattrs: bool,
    /// It has POSIX ACLs.
    pub(crate) posix_acls: bool,
    /// Opened for reading: `open_by_handle_at` does not take an `O_PATH` descriptor.
    fd: Arc<OwnedFd>,
    path: PathBuf,
    /// What its READs may hold of the buffers while they run, in the order of the clients' turns.
    read_share: OnceLock<Shares>,
    /// What its WRITEs may hold of the buffers.
    write_share: OnceLock<Shares>,
    /// Bytes taken ahead of streams that extend files, beyond what has been written there.
    pub(super) reserved: AtomicU64,
    /// No space can be taken ahead here, which was found by trying.
    no_space_ahead: AtomicBool,
    retired: Arc<AtomicBool>,
}

impl Mount {
    fn new(
        key: MountKey,
        export_id: u32,
        fd: OwnedFd,
        stat: &Stat,
        retired: Arc<AtomicBool>,
    ) -> Result<Self> {
        let facts = fs::statfs(fd.as_fd())?;
        let mark = number_of(&key.0.to_be_bytes(), &mark(stat, &facts).0);
        let path = fs::fd_path(fd.as_fd())?;
        let file_size_max = fs::file_size_max(fd.as_fd()).unwrap_or(0);
        let user_xattrs = fs::has_user_xattrs(fd.as_fd());
        let posix_acls = fs::has_posix_acls(fd.as_fd());
        Ok(Self {
            key,
            export_id,
            fsid: u64::from(export_id) << 32 | u64::from(key.0),
            dev: stat.dev,
            mark,
            mnt_id: stat.mnt_id,
            root_ino: stat.ino,
            local: fs::is_local(facts.fs_type),
            read_waits: ReadWaits::of(facts.fs_type),
            write_waits: WriteWaits::of(facts.fs_type, stat.dev),
            block_bytes: facts.bsize,
            file_size_max,
            user_xattrs,
            posix_acls,
            fd: Arc::new(fd),
            path,
            read_share: OnceLock::new(),
            write_share: OnceLock::new(),
            reserved: AtomicU64::new(0),
            no_space_ahead: AtomicBool::new(false),
            retired,
        })
    }

    /// True when the export that it was opened for serves it no more.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    /// Is this the mount that an object's attributes name?
    pub(super) fn is_mounted_as(&self, mnt_id: u64) -> bool {
        self.mnt_id == mnt_id
    }

    /// What tells the file system of an object of this mount from others, also after a restart of the
    /// machine, when device numbers may be others: where it is mounted, which directory its root is
    /// (inode number and birth time), and the kernel's own id of it where that lasts.
    ///
    /// # Errors
    /// Those of fstatfs(2).
    pub(super) fn mark_of(&self, fd: BorrowedFd<'_>, stat: &Stat) -> Result<u64> {
        if stat.dev == self.dev {
            return Ok(self.mark);
        }
        // A btrfs subvolume within the mount: its snapshots have the same inodes, and ids of their own.
        let subvolume = fs::statfs(fd)?.lasting_fsid().unwrap_or(0);
        Ok(number_of(
            &self.mark.to_be_bytes(),
            &subvolume.to_be_bytes(),
        ))
    }

    pub(crate) fn root_ino(&self) -> u64 {
        self.root_ino
    }

    /// Is this the root directory of it, in the same mount?
    fn is(&self, stat: &Stat) -> bool {
        (self.mnt_id, self.dev, self.root_ino) == (stat.mnt_id, stat.dev, stat.ino)
    }

    /// The lane of the helper pool in which work on this file system waits.
    pub(crate) fn lane(&self) -> Lane {
        Lane(self.dev)
    }

    /// What this file system's READs may hold of a budget of so many bytes. No client has all of it: else the
    /// READs of one that wait for a lock of its own file would keep every other client's READs waiting too.
    pub(super) fn read_share(&self, budget_bytes: u64) -> &Shares {
        let most = budget_bytes / limits::BUFFERS_PER_MOUNT_DIVISOR;
        let rule = Rule::TimesFree(limits::TIMES_FREE_PER_MOUNT_MAX);
        self.read_share.get_or_init(|| Shares::new(most, rule))
    }

    /// Waits until this file system's WRITEs, whose data is here already, hold little enough of the buffers
    /// for `bytes` more, in the order of the clients' turns. `None` when the file system keeps them waiting for so long that it seems to have
    /// stopped. Their memory is then to be given back, or no WRITE to another file system could be received.
    pub(super) async fn write_share(
        &self,
        client: Sharer,
        bytes: usize,
        budget: &Budget,
    ) -> Option<Share> {
        let shares = self.write_share.get_or_init(|| {
            let most = budget.total() / limits::BUFFERS_PER_MOUNT_DIVISOR;
            Shares::new(most, Rule::TimesFree(limits::TIMES_FREE_PER_MOUNT_MAX))
        });
        let bytes = bytes as u64;
        if let Some(share) = shares.try_take(client, bytes) {
            return Some(share);
        }
        let patience = Duration::from_secs(limits::WRITE_WAITS_SECONDS_MAX);
        tokio::time::timeout(patience, shares.take(client, bytes))
            .await
            .ok()
    }

    /// Whether space may be taken ahead of streams here, as far as is known. Not where another machine or a
    /// program decides about it, and about leases.
    pub(super) fn takes_space_ahead(&self) -> bool {
        self.local && !self.no_space_ahead.load(Ordering::Relaxed)
    }

    /// The file system knows no fallocate.
    pub(super) fn note_no_space_ahead(&self) {
        self.no_space_ahead.store(true, Ordering::Relaxed);
    }

    /// How much of `wanted` bytes a stream may take ahead now: a part of what is left of the part of the free
    /// space that the server may hold so. `None` where that is little. May wait for the disk.
    pub(super) fn may_take_ahead(&self, wanted: u64) -> Option<u64> {
        let facts = fs::statfs(self.fd()).ok()?;
        let free = facts.bavail.saturating_mul(facts.frsize);
        let held = self.reserved.load(Ordering::Relaxed);
        let left = (free / limits::RESERVE_FREE_DIVISOR).saturating_sub(held);
        let most = left / limits::RESERVE_LEFT_DIVISOR;
        let most = most - most % limits::RESERVE_BYTES_MIN;
        (most > 0).then(|| wanted.min(most))
    }

    /// A descriptor on it, for flushing the whole of it.
    pub(crate) fn flush_fd(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.fd)
    }

    /// The descriptor of the file system's root.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Place {
    fn open(export_id: u32, fd: OwnedFd, stat: &Stat) -> Result<Self> {
        let by_table = !has_kernel_handles(fd.as_fd());
        let retired: Arc<AtomicBool> = Arc::default();
        let mark = mark(stat, &fs::statfs(fd.as_fd())?);
        let mount = Mount::new(MountKey::ROOT, export_id, fd, stat, Arc::clone(&retired))?;
        let root_mount = Arc::new(mount);
        Ok(Self {
            root_mount: Arc::clone(&root_mount),
            mark,
            by_table,
            root: OnceLock::new(),
            turns: OnceLock::new(),
            mounts: RwLock::new(vec![root_mount]),
            retired,
        })
    }
}

/// The root's inode number and birth time, and the file system's own id where that lasts: some keep
/// the birth time of their first directory in seconds, and two are made in one. Not the device: its
/// number may be another after a restart.
fn mark(root: &Stat, facts: &FsStat) -> PlaceMark {
    let mut mark = [0; 28];
    let (fsid, root_mark) = mark.split_at_mut(8);
    fsid.copy_from_slice(&facts.lasting_fsid().unwrap_or(0).to_be_bytes());
    let (ino, btime) = root_mark.split_at_mut(8);
    ino.copy_from_slice(&root.ino.to_be_bytes());
    if let Some(time) = root.btime {
        let (sec, nsec) = btime.split_at_mut(8);
        sec.copy_from_slice(&time.sec.to_be_bytes());
        nsec.copy_from_slice(&time.nsec.to_be_bytes());
    }
    PlaceMark(mark)
}

/// A number for a part of a place: FNV-1a, 64 bit. It is kept on disk, so it must be the same in every
/// build.
fn number_of(place: &[u8], part: &[u8]) -> u64 {
    let bytes = place.iter().chain(part);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Can this process make and open kernel handles here, and do they fit into NFSv3's? (overlayfs has
/// none unless it was mounted for it.)
fn has_kernel_handles(root: BorrowedFd<'_>) -> bool {
    if !caps::has(Capability::DacReadSearch) {
        return false;
    }
    fs::name_to_handle(root).is_ok_and(|(handle, _)| {
        handle.bytes().len() <= limits::KERNEL_HANDLE_BYTES_MAX
            && fs::open_by_handle(root, &handle, OFlags::PATH).is_ok()
    })
}

impl Tree {
    /// Opens an export's root directory. What `old`, the tree of the same export before a reload,
    /// knows of it is kept if it is the same directory; its figures are kept in any case.
    ///
    /// # Errors
    /// When the directory cannot be opened.
    pub(crate) fn open(export: Arc<Export>, old: Option<&Self>) -> Result<Self> {
        let fd = fs::open_dir(&export.path)?;
        let stat = fs::statx(fd.as_fd())?;
        let kept = old
            .filter(|old| old.export.crossmnt == export.crossmnt)
            .filter(|old| old.root_mount().is(&stat));
        let place = match kept {
            Some(old) => Arc::clone(&old.place),
            None => Arc::new(Place::open(export.id, fd, &stat)?),
        };
        let io = old.map_or_else(Arc::default, |old| Arc::clone(&old.io));
        let calls = old.map_or_else(Arc::default, |old| Arc::clone(&old.calls));
        Ok(Self {
            export,
            io,
            calls,
            place,
            covered: OnceLock::new(),
        })
    }

    /// The export's own file system.
    pub(crate) fn root_mount(&self) -> Arc<Mount> {
        Arc::clone(&self.place.root_mount)
    }

    /// The mark of the directory that is served, which the handles of its files carry.
    pub(crate) fn mark(&self) -> &PlaceMark {
        &self.place.mark
    }

    /// Whether handles of this tree are those of the handle table, and not the kernel's.
    pub(crate) fn is_by_table(&self) -> bool {
        self.place.by_table
    }

    /// The turns of this tree's calls under a budget of `fds_max` descriptors; `None` where no call need wait
    /// for one.
    pub(super) fn turns(&self, fds_max: usize) -> Option<&Shares> {
        let turns = self.place.turns.get_or_init(|| room::turns(fds_max));
        turns.as_ref()
    }

    /// Whether both trees serve the same directory and share what is known of it.
    pub(crate) fn shares_place(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.place, &other.place)
    }

    /// Marks the tree as served no more: what the file cache holds of it must not be used.
    pub(crate) fn retire(&self) {
        self.place.retired.store(true, Ordering::Relaxed);
    }

    /// The export's root directory; set once, by whoever made its handle.
    pub(crate) fn root(&self) -> Option<Arc<Object>> {
        self.place.root.get().cloned()
    }

    pub(crate) fn set_root(&self, root: Arc<Object>) {
        // Two callers that raced made the same root twice; either will do.
        if self.place.root.set(root).is_err() {
            tracing::debug!(export = %self.export.id, "root was made twice");
        }
    }

    /// Does anybody ask for the name of a file with these attributes?
    pub(super) fn wants_name_of(&self, stat: &Stat) -> bool {
        stat.kind() == FileKind::Regular && self.export.io.now().uses_names()
    }

    /// A client found an object by this name.
    pub(super) fn found_as(&self, object: &Object, name: &[u8]) {
        if object.kind == FileKind::Regular && self.export.io.now().uses_names() {
            object.remember_name(name);
        }
    }

    /// How names are resolved in this tree: never out of it, never through a link.
    pub(crate) fn resolve_flags(&self) -> ResolveFlags {
        let beneath =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        if self.export.crossmnt {
            beneath
        } else {
            beneath | ResolveFlags::NO_XDEV
        }
    }

    /// The file system of an object that was reached by name from an object on `parent`.
    ///
    /// # Errors
    /// [`Error::NotExported`] where it is another file system and the export does not cross.
    pub(crate) fn mount_of(&self, parent: &Arc<Mount>, stat: &Stat) -> Result<Arc<Mount>> {
        if stat.mnt_id == parent.mnt_id {
            return Ok(Arc::clone(parent));
        }
        if let Some(mount) = self
            .place
            .mounts
            .read()
            .iter()
            .find(|mount| mount.mnt_id == stat.mnt_id)
        {
            return Ok(Arc::clone(mount));
        }
        if !self.export.crossmnt {
            return Err(Error::NotExported);
        }
        self.enter(stat)
    }

    /// The file system that a handle names.
    ///
    /// # Errors
    /// [`Error::Stale`] when nothing is mounted there any more.
    pub(crate) fn mount_by_key(&self, key: MountKey) -> Result<Arc<Mount>> {
        let known = |mount: &&Arc<Mount>| mount.key == key;
        if let Some(mount) = self.place.mounts.read().iter().find(known) {
            return Ok(Arc::clone(mount));
        }
        if !self.export.crossmnt {
            return Err(Error::Stale);
        }
        // A handle from before a restart: find the mount point whose path gives this key.
        let root = self.root_mount();
        let beneath = nfs_io::mounts::mounts_beneath(&root.path).map_err(|_| Error::Stale)?;
        for mount in beneath {
            if self.key_of(&mount.mount_point) != Some(key) {
                continue;
            }
            let below = self.below(&mount.mount_point).ok_or(Error::Stale)?;
            let fd = self.open_below(below.as_os_str().as_bytes(), OFlags::PATH)?;
            let stat = fs::statx(fd.as_fd())?;
            return self.enter(&stat);
        }
        Err(Error::Stale)
    }

    /// Is this directory still in the export? A local rename may have moved it, or one above it, out. May
    /// take a while where it lies very deep.
    pub(crate) fn contains(&self, directory: BorrowedFd<'_>) -> Result<bool> {
        match self.contains_by_path(directory) {
            Err(Error::Errno(Errno::NAMETOOLONG)) => self.contains_by_climbing(directory),
            answer => answer,
        }
    }

    /// Is this directory still in the export, as far as the kernel's memory tells? Waits for nobody.
    ///
    /// # Errors
    /// ENAMETOOLONG where the path is longer than the kernel tells (a page): [`Tree::contains`] knows.
    /// [`Error::Busy`] while somebody moves the export without a pause.
    pub(super) fn contains_by_path(&self, directory: BorrowedFd<'_>) -> Result<bool> {
        let mount = self.root_mount();
        let root = || Ok(fs::fd_path(mount.fd())?);
        is_beneath(|| Ok(fs::fd_path(directory)?), root)
    }

    /// Where in the export this object is, as the kernel remembers it: `/` for the root. Waits for nobody.
    /// `None` where the kernel knows no name of it, or none in the export.
    pub(super) fn path_of(&self, object: &Object) -> Option<Vec<u8>> {
        let root = self.root_mount();
        let path = fs::fd_path(object.path()).ok()?;
        let below = path.strip_prefix(fs::fd_path(root.fd()).ok()?).ok()?;
        let below = below.as_os_str().as_bytes();
        let is_root = object.mount.key == MountKey::ROOT && object.ino == root.root_ino();
        // The kernel shows an object without a name as the root of all, and a removed one with this end.
        if below.is_empty() != is_root || below.ends_with(b" (deleted)") {
            return None;
        }
        Some([b"/", below].concat())
    }

    /// Is this directory in the export? Found out by going up until the root is met, or the top of all.
    fn contains_by_climbing(&self, directory: BorrowedFd<'_>) -> Result<bool> {
        let root = self.root_mount();
        let how = OpenHow {
            flags: OFlags::PATH | OFlags::DIRECTORY,
            mode: 0,
            resolve: ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
        };
        let mut at = fs::reopen(directory, how.flags)?;
        let mut stat = fs::statx(at.as_fd())?;
        for _ in 0..limits::CLIMB_STEPS_MAX {
            if root.is(&stat) {
                return Ok(true);
            }
            at = fs::openat2(at.as_fd(), b"..", how)?;
            let above = fs::statx(at.as_fd())?;
            if (above.mnt_id, above.dev, above.ino) == (stat.mnt_id, stat.dev, stat.ino) {
                return Ok(false);
            }
            stat = above;
        }
        Ok(false)
    }

    /// A mount point may be a directory or, for a bind mount, any file.
    fn enter(&self, stat: &Stat) -> Result<Arc<Mount>> {
        let mounts = nfs_io::mounts::mounts().map_err(|_| Error::Errno(Errno::IO))?;
        let mount = mounts.into_iter().find(|mount| mount.id == stat.mnt_id);
        let mount_point = mount.ok_or(Error::Stale)?.mount_point;
        let key = self.key_of(&mount_point).ok_or(Error::NotExported)?;
        let below = self.below(&mount_point).ok_or(Error::NotExported)?;
        let below = below.as_os_str().as_bytes();
        let fd = self.open_below(below, OFlags::RDONLY | OFlags::NONBLOCK)?;
        let root_stat = fs::statx(fd.as_fd())?;
        if root_stat.mnt_id != stat.mnt_id {
            return Err(Error::Stale);
        }
        let retired = Arc::clone(&self.place.retired);
        let mount = Arc::new(Mount::new(key, self.export.id, fd, &root_stat, retired)?);
        let mut mounts = self.place.mounts.write();
        if let Some(present) = mounts.iter().find(|old| old.mnt_id == mount.mnt_id) {
            return Ok(Arc::clone(present));
        }
        // The place may hold what was mounted there before: the new one takes its key.
        mounts.retain(|old| old.key != key || old.key == MountKey::ROOT);
        if mounts.len() >= limits::MOUNTS_PER_EXPORT_MAX {
            return Err(Error::NotExported);
        }
        mounts.push(Arc::clone(&mount));
        Ok(mount)
    }

    /// Opens a path below the root, name by name, never out of the tree. The server's own walk: no
    /// client's path comes here.
    pub(crate) fn open_below(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd> {
        let root = self.root_mount();
        let mut at = fs::reopen(root.fd(), OFlags::PATH | OFlags::DIRECTORY)?;
        let mut names = path
            .split(|byte| *byte == b'/')
            .filter(|name| !name.is_empty())
            .peekable();
        while let Some(name) = names.next() {
            let flags = if names.peek().is_some() {
                OFlags::PATH
            } else {
                flags
            };
            let flags = flags | OFlags::NOFOLLOW;
            let how = OpenHow {
                flags,
                mode: 0,
                resolve: self.resolve_flags(),
            };
            at = fs::openat2(at.as_fd(), name, how)?;
        }
        Ok(at)
    }

    fn below<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        path.strip_prefix(&self.root_mount().path).ok()
    }

    /// The key of a mount point: FNV-1a of its path below the export; never the root's key. Two mount points
    /// of one export that collide would show as one file system going stale; the odds of that are one in
    /// 2^32.
    fn key_of(&self, mount_point: &Path) -> Option<MountKey> {
        let bytes = self.below(mount_point)?.as_os_str().as_bytes();
        let hash = bytes.iter().fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
        });
        Some(MountKey(hash.max(1)))
    }
}

/// Whether a directory is beneath a root, by the paths that they have when they are looked at.
///
/// # Errors
/// [`Error::Busy`] while the root has another path at each look.
fn is_beneath(
    directory: impl Fn() -> Result<PathBuf>,
    root: impl Fn() -> Result<PathBuf>,
) -> Result<bool> {
    let mut before = root()?;
    for _ in 0..limits::PLACE_LOOKS_MAX {
        if directory()?.starts_with(&before) {
            return Ok(true);
        }
        // The root itself may have been moved between the two looks, and all in it is where it was.
        let now = root()?;
        if now == before {
            return Ok(false);
        }
        before = now;
    }
    Err(Error::Busy)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_directory_is_looked_for_anew_while_the_export_moves_but_not_for_ever() {
        let path = |text: &str| Ok(PathBuf::from(text));
        let (inside, outside) = (|| path("/e/d"), || path("/elsewhere/e/d"));
        assert_eq!(is_beneath(inside, || path("/e")), Ok(true));
        assert_eq!(is_beneath(outside, || path("/e")), Ok(false));
        let looks = Cell::new(0);
        // The root has been moved so often when it is looked at, and stands where it is after that.
        let moved = |times: usize| {
            let looks = &looks;
            looks.set(0);
            move || {
                let look = looks.get();
                assert!(look < 1000, "it is looked for for ever");
                looks.set(look + 1);
                path(&format!("/moved-{}", look.min(times)))
            }
        };
        let last = format!("/moved-{}/d", limits::PLACE_LOOKS_MAX - 1);
        let found = is_beneath(|| path(&last), moved(limits::PLACE_LOOKS_MAX - 1));
        assert_eq!(found, Ok(true));
        assert_eq!(is_beneath(outside, moved(usize::MAX)), Err(Error::Busy));
        assert_eq!(looks.get(), limits::PLACE_LOOKS_MAX + 1);
    }
}
