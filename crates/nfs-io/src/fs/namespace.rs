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
