//! What a file system says about itself; statfs(2).

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::retry_on_intr;
use rustix::process::{Resource, getrlimit};

use super::tmpfile;
use crate::{Errno, Result};

/// Space and limits of a file system. Blocks are in units of `frsize` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FsStat {
    /// The kernel's magic number of the type (`<linux/magic.h>`).
    pub fs_type: u32,
    /// Id of the file system, 0 where it has none.
    pub fsid: u64,
    /// Preferred I/O size in bytes.
    pub bsize: u64,
    /// Unit of the block counts in bytes.
    pub frsize: u64,
    /// Size of the file system, in units of `frsize` bytes.
    pub blocks: u64,
    /// Free space, in units of `frsize` bytes.
    pub bfree: u64,
    /// Free space that unprivileged users may use, in units of `frsize` bytes.
    pub bavail: u64,
    /// Number of inodes; 0 where the file system makes them as needed.
    pub files: u64,
    /// Inodes that are free to be made into files.
    pub ffree: u64,
    /// Free inodes for unprivileged users. Linux keeps no such number: the same as `ffree`.
    pub favail: u64,
    /// Length of the longest possible name, in bytes.
    pub namelen: u32,
    /// Mount flags (`ST_RDONLY` = 1, `ST_NOSUID` = 2, ...).
    pub flags: u64,
}

impl FsStat {
    /// Whether the mount is read-only.
    #[must_use]
    pub fn read_only(&self) -> bool {
        self.flags & 1 != 0
    }

    /// The id of the file system, and on btrfs of the subvolume, where the kernel makes it of a UUID
    /// that is kept on the disk: the same after a restart of the machine. XFS, f2fs and others make
    /// theirs of the device number; of what is not listed here nothing is known.
    #[must_use]
    pub fn lasting_fsid(&self) -> Option<u64> {
        matches!(self.fs_type, EXT | BTRFS).then_some(self.fsid)
    }
}

/// Space and limits of the file system of an object (an `O_PATH` descriptor too).
///
/// # Errors
/// What fstatfs(2) reports.
pub fn statfs(fd: BorrowedFd<'_>) -> Result<FsStat> {
    let raw = retry_on_intr(|| rustix::fs::fstatfs(fd))?;
    let vfs = retry_on_intr(|| rustix::fs::fstatvfs(fd))?;
    Ok(FsStat {
        fs_type: raw.f_type as u32,
        fsid: vfs.f_fsid,
        bsize: vfs.f_bsize,
        frsize: vfs.f_frsize,
        blocks: vfs.f_blocks,
        bfree: vfs.f_bfree,
        bavail: vfs.f_bavail,
        files: vfs.f_files,
        ffree: vfs.f_ffree,
        favail: vfs.f_favail,
        namelen: u32::try_from(vfs.f_namemax).unwrap_or(u32::MAX),
        flags: vfs.f_flag.bits(),
    })
}

/// Limits and habits of a file system, for PATHCONF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathConf {
    /// How many names an object can have at most.
    pub link_max: u32,
    /// Length of the longest possible name, in bytes.
    pub name_max: u32,
    /// Whether too long a name is refused rather than cut: always, on Linux.
    pub no_trunc: bool,
    /// Whether only root gives files away: always, on Linux.
    pub chown_restricted: bool,
    /// Whether `A` and `a` are one name. Directories of ext4 and f2fs with the casefold
    /// attribute are not recognised.
    pub case_insensitive: bool,
    /// Whether names keep their case.
    pub case_preserving: bool,
}

/// Limits of the file system of an object. The kernel does not tell the number of links or the
/// handling of case; these come from a table of file systems.
///
/// # Errors
/// What fstatfs(2) reports.
pub fn path_conf(fd: BorrowedFd<'_>) -> Result<PathConf> {
    let fs = statfs(fd)?;
    let link_max = match fs.fs_type {
        EXT => 65_000,
        BTRFS => 65_535,
        XFS | ZFS => i32::MAX.unsigned_abs(),
        F2FS | TMPFS | RAMFS | BCACHEFS => u32::MAX,
        MSDOS | EXFAT => 1,
        _ => 32_000,
    };
    let folds_case = matches!(fs.fs_type, MSDOS | EXFAT);
    Ok(PathConf {
        link_max,
        name_max: fs.namelen,
        no_trunc: true,
        chown_restricted: true,
        case_insensitive: folds_case,
        case_preserving: true,
    })
}

/// Whether the file system is one of this machine's own: attributes of an object that is in
/// memory never wait for another machine or process. What is not known counts as remote.
#[must_use]
pub fn is_local(fs_type: u32) -> bool {
    matches!(
        fs_type,
        EXT | XFS
            | BTRFS
            | TMPFS
            | RAMFS
            | F2FS
            | ZFS
            | BCACHEFS
            | MSDOS
            | EXFAT
            | EROFS
            | SQUASHFS
            | ISO9660
            | UDF
    )
}

/// The largest size a file of the file system of `dir` can have, in bytes: found by trying on a
/// file without a name. `dir` is a directory in which the caller may create files.
///
/// # Errors
/// `EOPNOTSUPP` where the file system has no `O_TMPFILE`; `EROFS`, `EACCES`, `ENOSPC`.
pub fn file_size_max(dir: BorrowedFd<'_>) -> Result<u64> {
    let file = tmpfile(dir, 0o600)?;
    // Past RLIMIT_FSIZE the kernel would send a deadly signal.
    let ceiling = getrlimit(Resource::Fsize)
        .current
        .unwrap_or(i64::MAX.unsigned_abs())
        .min(i64::MAX.unsigned_abs());
    let (mut fits, mut too_big) = (0, ceiling.saturating_add(1));
    while too_big - fits > 1 {
        // The first try is the ceiling itself: tmpfs and xfs answer at once.
        let size = if too_big > ceiling {
            ceiling
        } else {
            fits + (too_big - fits) / 2
        };
        match retry_on_intr(|| rustix::fs::ftruncate(file.as_fd(), size)) {
            Ok(()) => fits = size,
            Err(Errno::FBIG | Errno::INVAL) => too_big = size,
            Err(errno) => return Err(errno),
        }
    }
    Ok(fits)
}

// <linux/magic.h>, and the file systems' own headers.
const BCACHEFS: u32 = 0xca45_1a4e;
pub(crate) const BTRFS: u32 = 0x9123_683e;
const EROFS: u32 = 0xe0f5_e1e2;
const EXFAT: u32 = 0x2011_bab0;
pub(crate) const EXT: u32 = 0xef53;
const F2FS: u32 = 0xf2f5_2010;
const ISO9660: u32 = 0x9660;
const MSDOS: u32 = 0x4d44;
pub(crate) const RAMFS: u32 = 0x8584_58f6;
const SQUASHFS: u32 = 0x7371_7368;
pub(crate) const TMPFS: u32 = 0x0102_1994;
const UDF: u32 = 0x1501_3346;
pub(crate) const XFS: u32 = 0x5846_5342;
const ZFS: u32 = 0x2fc1_2fc1;

#[cfg(test)]
mod tests {
    use super::super::{open_root, truncate};
    use super::*;
    use crate::testing::{Scratch, skip, small_tmpfs};

    #[test]
    fn agrees_with_what_was_mounted() {
        let Some(mount) = small_tmpfs(1 << 20) else {
            skip!("mounting a tmpfs needs CAP_SYS_ADMIN");
        };
        let fs = statfs(mount.as_fd()).unwrap();
        assert_eq!(
            (fs.fs_type, fs.blocks * fs.frsize, fs.namelen),
            (TMPFS, 1 << 20, 255)
        );
        assert!(fs.bavail <= fs.bfree && fs.bfree <= fs.blocks && !fs.read_only());
        assert!(is_local(fs.fs_type));
        assert_eq!(path_conf(mount.as_fd()).unwrap().name_max, 255);
        assert_eq!(file_size_max(mount.as_fd()), Ok(i64::MAX.unsigned_abs()));
    }

    #[test]
    fn the_largest_size_is_exact() {
        let scratch = Scratch::new();
        let max = match file_size_max(scratch.dir()) {
            Ok(max) => max,
            Err(errno) => skip!("no file without a name here: {errno}"),
        };
        let file = scratch.file("f", b"");
        assert_eq!(truncate(file.as_fd(), max), Ok(()));
        if max < i64::MAX.unsigned_abs() {
            assert_eq!(truncate(file.as_fd(), max + 1), Err(Errno::FBIG));
        }
    }

    #[test]
    fn what_is_not_known_is_not_local() {
        let proc_root = open_root(std::path::Path::new("/proc")).unwrap();
        let fs = statfs(proc_root.as_fd()).unwrap();
        assert!(
            !is_local(fs.fs_type),
            "reading a process's files may wait for it"
        );
        assert!(!is_local(0x6969), "nfs");
        assert!(!is_local(0x6573_5546), "fuse");
    }
}
