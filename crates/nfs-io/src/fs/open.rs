//! Opening: beneath a directory, by name, without following anything.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::retry_on_intr;

use super::one_name;
use crate::limits::OPENAT2_RETRIES_MAX;
use crate::{Errno, Result};

/// How to open; openat2(2).
#[derive(Clone, Copy, Debug)]
pub struct OpenHow {
    /// `O_*`; `O_CLOEXEC` is always added.
    pub flags: OFlags,
    /// Permission bits of a file that is created (`07777`); 0 where nothing is.
    pub mode: u32,
    /// `RESOLVE_*`.
    pub resolve: ResolveFlags,
}

impl OpenHow {
    /// With these flags, creating nothing, never leaving the directory and never through a link.
    #[must_use]
    pub fn beneath(flags: OFlags) -> Self {
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
        Self {
            flags,
            mode: 0,
            resolve,
        }
    }
}

/// Opens the component `name` of `dir`; openat2(2), Linux 5.6.
///
/// # Errors
/// `EXDEV` where the name leads out of `dir` under `RESOLVE_BENEATH`, `ELOOP` for a link under
/// `RESOLVE_NO_SYMLINKS`. `EAGAIN` means two things, told apart by what was asked: with
/// `RESOLVE_CACHED`, that the answer is not in memory (ask again without it, where blocking is
/// allowed); without, that renames kept interfering for [`OPENAT2_RETRIES_MAX`] tries, or, with
/// `O_NONBLOCK`, that a lease is in the way.
pub fn openat2(dir: BorrowedFd<'_>, name: &[u8], how: OpenHow) -> Result<OwnedFd> {
    let name = one_name(name)?;
    let flags = how.flags | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(how.mode & 0o7777);
    let again_means_no =
        how.resolve.contains(ResolveFlags::CACHED) || how.flags.contains(OFlags::NONBLOCK);
    let mut tries_left = if again_means_no {
        0
    } else {
        OPENAT2_RETRIES_MAX
    };
    loop {
        match retry_on_intr(|| rustix::fs::openat2(dir, name, flags, mode, how.resolve)) {
            Err(Errno::AGAIN) if tries_left > 0 => tries_left -= 1,
            done => return done,
        }
    }
}

/// An `O_PATH` descriptor of the object `name` in `dir`, of any type; a symbolic link is itself
/// the object. Never leaves `dir`.
///
/// # Errors
/// As [`openat2`]; `EXDEV` for `..`.
pub fn open_path_beneath(dir: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd> {
    openat2(dir, name, PATH_BENEATH)
}

/// [`open_path_beneath`] answered from the kernel's memory alone: never waits.
///
/// # Errors
/// `EAGAIN` where it would have to wait (or on Linux before 5.12, which cannot): use
/// [`open_path_beneath`] where blocking is allowed.
pub fn open_path_beneath_cached(dir: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd> {
    let how = OpenHow {
        resolve: PATH_BENEATH.resolve.union(ResolveFlags::CACHED),
        ..PATH_BENEATH
    };
    match openat2(dir, name, how) {
        // A kernel that does not know RESOLVE_CACHED refuses the flag.
        Err(Errno::INVAL) if one_name(name).is_ok() => Err(Errno::AGAIN),
        done => done,
    }
}

const PATH_BENEATH: OpenHow = OpenHow {
    flags: OFlags::PATH.union(OFlags::NOFOLLOW),
    mode: 0,
    resolve: ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS),
};

/// Opens the directory at an operator's `path`, as an `O_PATH` descriptor. Links on the way are
/// followed: the operator chose the path.
///
/// # Errors
/// `ENOTDIR` for anything but a directory, and what openat(2) reports.
pub fn open_root(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    retry_on_intr(|| rustix::fs::openat(CWD, path, flags, Mode::empty()))
}

/// Opens the directory at an operator's `path` for reading, as [`super::open_by_handle`] (its
/// mount), `syncfs` and `getdents` need it.
///
/// # Errors
/// `ENOTDIR` for anything but a directory, and what openat(2) reports.
pub fn open_dir(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    retry_on_intr(|| rustix::fs::openat(CWD, path, flags, Mode::empty()))
}

/// Opens the object of a descriptor (an `O_PATH` one too) anew with other flags, checking the
/// calling thread's permission on it. Needs `/proc`.
///
/// `O_NOFOLLOW` is removed: the way leads through a link of `/proc/self/fd`, which leads to the
/// very object, also when that was renamed or removed. Add `O_NONBLOCK` unless the object is
/// known to be a regular file or directory: opening a FIFO waits for its other end.
///
/// # Errors
/// `ELOOP` for a symbolic link, `ENXIO` for a socket, else what openat(2) reports.
pub fn reopen(fd: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd> {
    let flags = (flags - OFlags::NOFOLLOW) | OFlags::CLOEXEC;
    let proc_fd = proc_fd_dir()?;
    let number = FdName::new(fd);
    retry_on_intr(|| rustix::fs::openat(proc_fd, number.as_bytes(), flags, Mode::empty()))
}

/// Creates (with `O_CREAT` in `flags`) and opens the file `name` of `dir`; never through a link
/// (`O_NOFOLLOW` is added). `mode` are the permission bits (`07777`) of a new file.
///
/// # Errors
/// `EEXIST` under `O_EXCL`, `ELOOP` where the name is a symbolic link, else as openat2(2).
pub fn openat_create(
    dir: BorrowedFd<'_>,
    name: &[u8],
    flags: OFlags,
    mode: u32,
) -> Result<OwnedFd> {
    let how = OpenHow {
        mode,
        ..OpenHow::beneath(flags | OFlags::NOFOLLOW)
    };
    openat2(dir, name, how)
}

/// A new file without a name in the file system of `dir`, open for reading and writing.
///
/// # Errors
/// `EOPNOTSUPP` where the file system has no `O_TMPFILE`.
pub fn tmpfile(dir: BorrowedFd<'_>, mode: u32) -> Result<OwnedFd> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(mode & 0o7777);
    retry_on_intr(|| rustix::fs::openat(dir, c".", flags, mode))
}

/// `/proc/self/fd`, opened once: works later in a chroot, and the walk is one step.
pub(super) fn proc_fd_dir() -> Result<BorrowedFd<'static>> {
    static DIR: OnceLock<OwnedFd> = OnceLock::new();
    if let Some(dir) = DIR.get() {
        return Ok(std::os::fd::AsFd::as_fd(dir));
    }
    let opened = open_root(Path::new("/proc/self/fd"))?;
    Ok(std::os::fd::AsFd::as_fd(DIR.get_or_init(|| opened)))
}

/// The name of a descriptor in `/proc/self/fd`, formatted without allocating.
pub(super) struct FdName {
    digits: [u8; 10],
    start: usize,
}

impl FdName {
    pub(super) fn new(fd: BorrowedFd<'_>) -> Self {
        let mut left = fd.as_raw_fd().unsigned_abs();
        let mut name = Self {
            digits: [b'0'; 10],
            start: 10,
        };
        loop {
            name.start -= 1;
            name.digits[name.start] = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                return name;
            }
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.digits[self.start..]
    }
}
