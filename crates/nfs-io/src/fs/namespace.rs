//! Names: making, removing, renaming, linking. None follows a link in the last component.

use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, FileType, Mode, makedev};
use rustix::io::retry_on_intr;

use super::FileKind;
use super::one_name;
use super::open::{FdName, proc_fd_dir};
use crate::{Errno, Result};

/// Makes a directory with the permission bits `mode` (`07777`; see [`super::umask_zero`]).
///
/// # Errors
/// What mkdirat(2) reports.
pub fn mkdirat(dir: BorrowedFd<'_>, name: &[u8], mode: u32) -> Result<()> {
    let name = one_name(name)?;
    retry_on_intr(|| rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(mode & 0o7777)))
}

/// Makes a FIFO, socket, device node or empty regular file. `rdev` is (major, minor) of a
/// device, else ignored.
///
/// # Errors
/// `EINVAL` for a directory, a link or an unknown kind, `EPERM` for a device without
/// `CAP_MKNOD`, else what mknodat(2) reports.
pub fn mknodat(
    dir: BorrowedFd<'_>,
    name: &[u8],
    kind: FileKind,
    mode: u32,
    rdev: (u32, u32),
) -> Result<()> {
    let name = one_name(name)?;
    let (file_type, dev) = match kind {
        FileKind::Regular => (FileType::RegularFile, 0),
        FileKind::Fifo => (FileType::Fifo, 0),
        FileKind::Socket => (FileType::Socket, 0),
        FileKind::CharDevice => (FileType::CharacterDevice, makedev(rdev.0, rdev.1)),
        FileKind::BlockDevice => (FileType::BlockDevice, makedev(rdev.0, rdev.1)),
        FileKind::Directory | FileKind::Symlink | FileKind::Unknown => return Err(Errno::INVAL),
    };
    let mode = Mode::from_raw_mode(mode & 0o7777);
    retry_on_intr(|| rustix::fs::mknodat(dir, name, file_type, mode, dev))
}

/// Makes a symbolic link `name` that says `target`. The target is data: any bytes but NUL, kept
/// as they are.
///
/// # Errors
/// `ENOENT` for an empty target, `EINVAL` for one with NUL, else what symlinkat(2) reports.
pub fn symlinkat(target: &[u8], dir: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    let name = one_name(name)?;
    retry_on_intr(|| rustix::fs::symlinkat(target, dir, name))
}

/// Gives the object of a descriptor (an `O_PATH` one too; a symbolic link itself) one more name.
///
/// By way of `/proc`: that needs no privilege, while `AT_EMPTY_PATH` needs
/// `CAP_DAC_READ_SEARCH`, which a thread acting for a client does not have. Without `/proc` the
/// latter is tried.
///
/// # Errors
/// `ENOENT` for an object without a name left, `EPERM` for a directory or where
/// `fs.protected_hardlinks` forbids it, `EXDEV` across mounts, `EMLINK`.
pub fn linkat(object: BorrowedFd<'_>, dir: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    let name = one_name(name)?;
    match proc_fd_dir() {
        Ok(proc_fd) => {
            let number = FdName::new(object);
            let number = number.as_bytes();
            retry_on_intr(|| {
                rustix::fs::linkat(proc_fd, number, dir, name, AtFlags::SYMLINK_FOLLOW)
            })
        }
        Err(_) => retry_on_intr(|| rustix::fs::linkat(object, c"", dir, name, AtFlags::EMPTY_PATH)),
    }
}

/// Removes a name that is not a directory's.
///
/// # Errors
/// `EISDIR` for a directory, else what unlinkat(2) reports.
pub fn unlinkat(dir: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    let name = one_name(name)?;
    retry_on_intr(|| rustix::fs::unlinkat(dir, name, AtFlags::empty()))
}

/// Removes an empty directory.
///
/// # Errors
/// `ENOTEMPTY`, `ENOTDIR`, `EINVAL` for `.`, else what unlinkat(2) reports.
pub fn rmdirat(dir: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    let name = one_name(name)?;
    retry_on_intr(|| rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR))
}

/// Renames, replacing what has the new name.
///
/// # Errors
/// `EXDEV` across mounts, else what renameat(2) reports.
pub fn renameat(
    from_dir: BorrowedFd<'_>,
    from_name: &[u8],
    to_dir: BorrowedFd<'_>,
    to_name: &[u8],
) -> Result<()> {
    let (from_name, to_name) = (one_name(from_name)?, one_name(to_name)?);
    retry_on_intr(|| rustix::fs::renameat(from_dir, from_name, to_dir, to_name))
}

/// What a symbolic link says; `link` is an `O_PATH` descriptor of the link itself.
///
/// # Errors
/// `EINVAL` (or `ENOENT`) for an object that is no link.
pub fn readlink(link: BorrowedFd<'_>) -> Result<Vec<u8>> {
    let target = retry_on_intr(|| rustix::fs::readlinkat(link, c"", Vec::new()))?;
    Ok(target.into_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::super::{chown, statx, statx_at};
    use super::*;
    use crate::caps::{self, Capability};
    use crate::identity::{LocalUid, can_switch, run_as};
    use crate::testing::{Scratch, skip, stranger};

    #[test]
    fn names_are_single_components() {
        let scratch = Scratch::new();
        let dir = scratch.dir();
        for name in [&b""[..], b"a/b", b"/a", b"a\0"] {
            assert_eq!(mkdirat(dir, name, 0o755), Err(Errno::INVAL));
            assert_eq!(
                mknodat(dir, name, FileKind::Fifo, 0o600, (0, 0)),
                Err(Errno::INVAL)
            );
            assert_eq!(symlinkat(b"t", dir, name), Err(Errno::INVAL));
            assert_eq!(linkat(dir, dir, name), Err(Errno::INVAL));
            assert_eq!(unlinkat(dir, name), Err(Errno::INVAL));
            assert_eq!(rmdirat(dir, name), Err(Errno::INVAL));
            assert_eq!(renameat(dir, name, dir, b"x"), Err(Errno::INVAL));
            assert_eq!(renameat(dir, b"x", dir, name), Err(Errno::INVAL));
        }
        assert_eq!(symlinkat(b"a\0b", dir, b"l"), Err(Errno::INVAL));
        assert_eq!(symlinkat(b"", dir, b"l"), Err(Errno::NOENT));
    }

    #[test]
    fn makes_and_removes_every_kind() {
        let scratch = Scratch::new();
        let dir = scratch.dir();
        super::super::umask_zero();
        mkdirat(dir, b"d", 0o2775).unwrap();
        assert_eq!(statx_at(dir, b"d").unwrap().permissions() & 0o777, 0o775);
        for kind in [FileKind::Regular, FileKind::Fifo, FileKind::Socket] {
            mknodat(dir, b"n", kind, 0o622, (0, 0)).unwrap();
            let stat = statx_at(dir, b"n").unwrap();
            assert_eq!((stat.kind(), stat.permissions()), (kind, 0o622));
            assert_eq!(mknodat(dir, b"n", kind, 0o622, (0, 0)), Err(Errno::EXIST));
            assert_eq!(rmdirat(dir, b"n"), Err(Errno::NOTDIR));
            unlinkat(dir, b"n").unwrap();
        }
        let directory = mknodat(dir, b"n", FileKind::Directory, 0o755, (0, 0));
        assert_eq!(directory, Err(Errno::INVAL));
        assert_eq!(unlinkat(dir, b"d"), Err(Errno::ISDIR));
        rmdirat(dir, b"d").unwrap();
        assert_eq!(rmdirat(dir, b"d"), Err(Errno::NOENT));
    }

    #[test]
    fn makes_device_nodes_with_the_capability() {
        if !caps::has(Capability::Mknod) {
            skip!("device nodes need CAP_MKNOD");
        }
        let scratch = Scratch::new();
        for kind in [FileKind::CharDevice, FileKind::BlockDevice] {
            mknodat(scratch.dir(), b"n", kind, 0o600, (300, 70_000)).unwrap();
            let stat = statx_at(scratch.dir(), b"n").unwrap();
            assert_eq!((stat.kind(), stat.rdev), (kind, (300, 70_000)));
            unlinkat(scratch.dir(), b"n").unwrap();
        }
    }

    #[test]
    fn links_whatever_the_descriptor_is_of() {
        let scratch = Scratch::new();
        let dir = scratch.dir();
        drop(scratch.file("f", b""));
        symlinkat(b"f", dir, b"l").unwrap();
        for (name, kind) in [("f", FileKind::Regular), ("l", FileKind::Symlink)] {
            let object = scratch.object(name);
            linkat(object.as_fd(), dir, b"more").unwrap();
            let stat = statx_at(dir, b"more").unwrap();
            assert_eq!(
                (stat.ino, stat.kind()),
                (statx(object.as_fd()).unwrap().ino, kind)
            );
            assert_eq!(stat.nlink, 2);
            assert_eq!(linkat(object.as_fd(), dir, b"more"), Err(Errno::EXIST));
            unlinkat(dir, b"more").unwrap();
        }
        assert_eq!(linkat(dir, dir, b"more"), Err(Errno::PERM), "a directory");
        let object = scratch.object("f");
        unlinkat(dir, b"f").unwrap();
        assert_eq!(
            linkat(object.as_fd(), dir, b"more"),
            Err(Errno::NOENT),
            "removed"
        );
    }

    #[test]
    fn links_need_no_privilege() {
        if !can_switch() {
            skip!("taking another identity needs CAP_SETUID and CAP_SETGID");
        }
        let scratch = Scratch::new();
        let file = scratch.file("f", b"");
        chown(file.as_fd(), Some(LocalUid(54_321)), None).unwrap();
        super::super::chmod(scratch.dir(), 0o777).unwrap();
        let object = scratch.object("f");
        let link = || linkat(object.as_fd(), scratch.dir(), b"more");
        assert_eq!(run_as(&stranger(), link), Ok(()));
    }

    #[test]
    fn renames_and_replaces() {
        let scratch = Scratch::new();
        let dir = scratch.dir();
        drop((scratch.file("a", b"1"), scratch.file("b", b"22")));
        renameat(dir, b"a", dir, b"b").unwrap();
        assert_eq!(statx_at(dir, b"b").unwrap().size, 1);
        assert_eq!(renameat(dir, b"a", dir, b"b"), Err(Errno::NOENT));
    }

    #[test]
    fn reads_links_of_any_length_and_nothing_else() {
        let scratch = Scratch::new();
        for len in [1, 255, 256, 257, 4095] {
            let target = vec![b'\xff'; len];
            symlinkat(&target, scratch.dir(), b"l").unwrap();
            assert_eq!(readlink(scratch.object("l").as_fd()).unwrap(), target);
            unlinkat(scratch.dir(), b"l").unwrap();
        }
        drop(scratch.file("f", b""));
        let refused = readlink(scratch.object("f").as_fd()).unwrap_err();
        assert!([Errno::INVAL, Errno::NOENT].contains(&refused), "{refused}");
    }
}
