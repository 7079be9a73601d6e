//! Opening: beneath a directory, by name, without following anything.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::retry_on_intr;

use super::one_name;
use crate::faults::{self, Call};
use crate::limits::OPENAT2_RETRIES_MAX;
use crate::{Errno, Result};

/// How a file is to be opened: the `struct open_how` of openat2(2).
#[derive(Clone, Copy, Debug)]
pub struct OpenHow {
    /// `O_*`; `O_CLOEXEC` is always added.
    pub flags: OFlags,
    /// Permission bits of a file that is created (`07777`); 0 where nothing is.
    pub mode: u32,
    /// The `RESOLVE_*` flags, which say what resolving the path may pass through.
    pub resolve: ResolveFlags,
}

impl OpenHow {
    /// Opens with these flags, creates nothing, never leaves the directory and never follows a link.
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
/// With `O_DIRECT`, the new descriptor moves bytes past the page cache: a file that is open both
/// ways needs one for each.
///
/// # Errors
/// `ELOOP` for a symbolic link, `ENXIO` for a socket, `EINVAL` for `O_DIRECT` where the file system
/// has none, else what openat(2) reports.
pub fn reopen(fd: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd> {
    let flags = (flags - OFlags::NOFOLLOW) | OFlags::CLOEXEC;
    if flags.contains(OFlags::DIRECT) {
        faults::refuse(Call::OpenDirect, fd)?;
    }
    let proc_fd = proc_fd_dir()?;
    let number = FdName::new(fd);
    retry_on_intr(|| rustix::fs::openat(proc_fd, number.as_bytes(), flags, Mode::empty()))
}

/// Creates (with `O_CREAT` in `flags`) and opens the file `name` of `dir`; never through a link
/// (`O_NOFOLLOW` is added). `mode` are the permission bits (`07777`) of a new file, and not
/// looked at without `O_CREAT`.
///
/// # Errors
/// `EEXIST` under `O_EXCL`, `ELOOP` where the name is a symbolic link, else as openat2(2).
pub fn openat_create(
    dir: BorrowedFd<'_>,
    name: &[u8],
    flags: OFlags,
    mode: u32,
) -> Result<OwnedFd> {
    // openat2(2) refuses a mode where nothing is created.
    let mode = if flags.contains(OFlags::CREATE) {
        mode
    } else {
        0
    };
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

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::super::{FileKind, readlink, statx, symlinkat, unlinkat};
    use super::*;
    use crate::testing::Scratch;

    #[test]
    fn nothing_leads_out_of_the_directory() {
        let scratch = Scratch::new();
        std::fs::create_dir(scratch.path.path().join("export")).unwrap();
        drop(scratch.file("outside", b"secret"));
        let export = scratch
            .open("export", OFlags::RDONLY | OFlags::DIRECTORY)
            .unwrap();
        let export = export.as_fd();
        for (name, target) in [
            (b"up", &b"../outside"[..]),
            (b"ab", b"/etc/passwd"),
            (b"me", b"/proc/self/root"),
        ] {
            symlinkat(target, export, name).unwrap();
            // The link itself is an object of the directory; through it leads no way.
            let link = open_path_beneath(export, name).unwrap();
            assert_eq!(statx(link.as_fd()).unwrap().kind(), FileKind::Symlink);
            assert_eq!(readlink(link.as_fd()).unwrap(), target);
            let followed = openat2(export, name, OpenHow::beneath(OFlags::RDONLY));
            assert_eq!(followed.unwrap_err(), Errno::LOOP);
            let followed = OpenHow {
                resolve: ResolveFlags::BENEATH,
                ..PATH_FOLLOW
            };
            assert_eq!(openat2(export, name, followed).unwrap_err(), Errno::XDEV);
            let written = openat_create(export, name, OFlags::CREATE | OFlags::WRONLY, 0o666);
            assert_eq!(written.unwrap_err(), Errno::LOOP);
        }
        assert_eq!(open_path_beneath(export, b"..").unwrap_err(), Errno::XDEV);
        let cached = open_path_beneath_cached(export, b"..").unwrap_err();
        assert!([Errno::XDEV, Errno::AGAIN].contains(&cached), "{cached}");
        for name in [&b""[..], b"/", b"a/b", b"../outside", b"/etc", b"a\0b"] {
            assert_eq!(open_path_beneath(export, name).unwrap_err(), Errno::INVAL);
            assert_eq!(
                open_path_beneath_cached(export, name).unwrap_err(),
                Errno::INVAL
            );
        }
        assert_eq!(
            open_path_beneath(export, &[b'x'; 256]).unwrap_err(),
            Errno::NAMETOOLONG
        );
    }

    const PATH_FOLLOW: OpenHow = OpenHow {
        flags: OFlags::PATH,
        mode: 0,
        resolve: ResolveFlags::empty(),
    };

    #[test]
    fn a_name_in_memory_is_found_without_waiting() {
        let scratch = Scratch::new();
        drop(scratch.file("here", b""));
        let slow = open_path_beneath(scratch.dir(), b"here").unwrap();
        match open_path_beneath_cached(scratch.dir(), b"here") {
            Ok(fast) => {
                let ino = |fd: &OwnedFd| statx(fd.as_fd()).unwrap().ino;
                assert_eq!(ino(&slow), ino(&fast));
            }
            Err(errno) => assert_eq!(errno, Errno::AGAIN),
        }
        let missing = open_path_beneath_cached(scratch.dir(), b"missing").unwrap_err();
        assert!([Errno::NOENT, Errno::AGAIN].contains(&missing), "{missing}");
    }

    #[test]
    fn an_object_is_reopened_after_it_lost_its_name() {
        let scratch = Scratch::new();
        drop(scratch.file("file", b"still here"));
        let object = scratch.object("file");
        unlinkat(scratch.dir(), b"file").unwrap();
        let file = reopen(object.as_fd(), OFlags::RDWR | OFlags::NOFOLLOW).unwrap();
        let mut bytes = [0; 10];
        assert_eq!(rustix::io::pread(&file, &mut bytes, 0), Ok(10));
        assert_eq!(&bytes, b"still here");
        assert_eq!(statx(file.as_fd()).unwrap().nlink, 0);
        symlinkat(b"x", scratch.dir(), b"link").unwrap();
        let link = scratch.object("link");
        assert_eq!(
            reopen(link.as_fd(), OFlags::RDONLY).unwrap_err(),
            Errno::LOOP
        );
    }

    #[test]
    fn creating_is_exclusive_when_asked() {
        let scratch = Scratch::new();
        let create = |flags| openat_create(scratch.dir(), b"new", OFlags::RDWR | flags, 0o600);
        assert_eq!(create(OFlags::empty()).unwrap_err(), Errno::NOENT);
        assert!(create(OFlags::CREATE | OFlags::EXCL).is_ok());
        assert_eq!(
            create(OFlags::CREATE | OFlags::EXCL).unwrap_err(),
            Errno::EXIST
        );
        let again = create(OFlags::CREATE).unwrap();
        assert_eq!(statx(again.as_fd()).unwrap().permissions(), 0o600);
    }

    #[test]
    fn roots_are_directories() {
        let scratch = Scratch::new();
        drop(scratch.file("file", b""));
        let path = scratch.path.path();
        assert!(open_root(path).is_ok() && open_dir(path).is_ok());
        assert_eq!(open_root(&path.join("file")).unwrap_err(), Errno::NOTDIR);
        assert_eq!(open_dir(&path.join("none")).unwrap_err(), Errno::NOENT);
    }

    #[test]
    fn descriptors_are_named_by_their_digits() {
        let zero = std::fs::File::open("/dev/null").unwrap();
        let name = FdName::new(zero.as_fd());
        assert_eq!(name.as_bytes(), zero.as_raw_fd().to_string().as_bytes());
    }
}
