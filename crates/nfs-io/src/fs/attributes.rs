//! Changing attributes, and asking for permission. All but [`truncate`] work on `O_PATH`
//! descriptors.

use std::ffi::{c_int, c_long};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::OnceLock;

use rustix::fs::{AtFlags, Gid, Mode, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid};
use rustix::io::retry_on_intr;

use super::Timestamp;
use super::open::{FdName, proc_fd_dir};
use crate::identity::{LocalGid, LocalUid};
use crate::{Errno, Result};

/// What somebody wants to do with an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Access {
    /// Read the file or list the directory.
    pub read: bool,
    /// Write the file or change the directory.
    pub write: bool,
    /// Run the file or search the directory.
    pub execute: bool,
}

/// Whether the calling thread's file-system identity may do `all` of that; faccessat2(2),
/// Linux 5.8. Nothing asked is always allowed.
///
/// # Errors
/// `EACCES` where not, `EROFS` for writing on a read-only mount, `ETXTBSY` for writing a running
/// program.
pub fn access(fd: BorrowedFd<'_>, all: Access) -> Result<()> {
    let mut mode = 0;
    if all.read {
        mode |= libc::R_OK;
    }
    if all.write {
        mode |= libc::W_OK;
    }
    if all.execute {
        mode |= libc::X_OK;
    }
    // AT_EACCESS: by the identity that file operations use, not by the real user id.
    let flags = libc::AT_EMPTY_PATH | libc::AT_EACCESS;
    retry_on_intr(|| empty_path_call(libc::SYS_faccessat2, fd, mode, flags))
}

/// Sets the permission bits (`07777`); fchmodat2(2), Linux 6.6, else by way of `/proc`.
///
/// # Errors
/// `EOPNOTSUPP` for a symbolic link, `EPERM` for a caller that is neither owner nor privileged.
pub fn chmod(fd: BorrowedFd<'_>, mode: u32) -> Result<()> {
    let mode = mode & 0o7777;
    if fchmodat2_works() {
        let flags = libc::AT_EMPTY_PATH;
        return retry_on_intr(|| empty_path_call(SYS_FCHMODAT2, fd, mode as c_int, flags));
    }
    let (dir, name) = (proc_fd_dir()?, FdName::new(fd));
    let mode = Mode::from_raw_mode(mode);
    retry_on_intr(|| rustix::fs::chmodat(dir, name.as_bytes(), mode, AtFlags::empty()))
}

/// Sets owner and group; `None` leaves one as it is.
///
/// # Errors
/// `EPERM` where the identity may not, `EINVAL` for an id without a mapping here.
pub fn chown(fd: BorrowedFd<'_>, uid: Option<LocalUid>, gid: Option<LocalGid>) -> Result<()> {
    // The id -1 says "leave" to the kernel: it must not be taken for a user.
    if uid == Some(LocalUid(u32::MAX)) || gid == Some(LocalGid(u32::MAX)) {
        return Err(Errno::INVAL);
    }
    let uid = uid.map(|id| Uid::from_raw(id.0));
    let gid = gid.map(|id| Gid::from_raw(id.0));
    retry_on_intr(|| rustix::fs::chownat(fd, c"", uid, gid, AtFlags::EMPTY_PATH))
}

/// What to do with one of the two times of [`set_times`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// Leave the file's time as it is.
    Omit,
    /// The present time, as the file system keeps it.
    Now,
    /// Set the file's time to this one; the file system rounds and clamps it to what it can hold.
    At(Timestamp),
}

/// Sets the times of last read and last change; utimensat(2).
///
/// # Errors
/// `EPERM` for a caller that is not the owner (with [`SetTime::At`]), `EACCES` for one that may not write
/// (with [`SetTime::Now`]), `EINVAL` for nanoseconds of a second or more.
pub fn set_times(fd: BorrowedFd<'_>, atime: SetTime, mtime: SetTime) -> Result<()> {
    let times = Timestamps {
        last_access: timespec(atime)?,
        last_modification: timespec(mtime)?,
    };
    let direct = retry_on_intr(|| rustix::fs::utimensat(fd, c"", &times, AtFlags::EMPTY_PATH));
    match direct {
        // Linux before 5.8 knows no AT_EMPTY_PATH here.
        Err(Errno::INVAL | Errno::NOENT) => {
            let (dir, name) = (proc_fd_dir()?, FdName::new(fd));
            retry_on_intr(|| rustix::fs::utimensat(dir, name.as_bytes(), &times, AtFlags::empty()))
        }
        done => done,
    }
}

/// Sets the length of a file open for writing, in bytes.
///
/// # Errors
/// `EINVAL` for a descriptor not open for writing, `EFBIG` past what the file system holds.
pub fn truncate(file: BorrowedFd<'_>, size: u64) -> Result<()> {
    if i64::try_from(size).is_err() {
        return Err(Errno::FBIG);
    }
    retry_on_intr(|| rustix::fs::ftruncate(file, size))
}

fn timespec(time: SetTime) -> Result<Timespec> {
    match time {
        SetTime::Omit => Ok(Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        }),
        SetTime::Now => Ok(Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        }),
        // Also keeps a client's number from meaning "now" or "omit".
        SetTime::At(time) if time.nsec >= 1_000_000_000 => Err(Errno::INVAL),
        SetTime::At(time) => Ok(Timespec {
            tv_sec: time.sec,
            tv_nsec: time.nsec.into(),
        }),
    }
}

/// A call of the form `(fd, "", int, flags)`.
fn empty_path_call(number: c_long, fd: BorrowedFd<'_>, mode: c_int, flags: c_int) -> Result<()> {
    // SAFETY: both calls this is used for take (descriptor, path, int, int); the path is a
    // constant, and no memory is written.
    let done = unsafe { libc::syscall(number, fd.as_raw_fd(), c"".as_ptr(), mode, flags) };
    if done < 0 {
        Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
    } else {
        Ok(())
    }
}

/// Whether the kernel has fchmodat2 and lets us call it. A container's system call filter may
/// answer an unknown call with `EPERM`, which on a real file would look like the file's answer;
/// so it is asked once with flags that only the call itself can refuse.
fn fchmodat2_works() -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    *WORKS.get_or_init(|| {
        let nothing = rustix::fs::CWD;
        empty_path_call(SYS_FCHMODAT2, nothing, 0, -1) == Err(Errno::INVAL)
    })
}

/// The number of fchmodat2(2): one for every architecture, as for all calls since Linux 5.1.
const SYS_FCHMODAT2: c_long = 452;

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::super::{OFlags, statx, symlinkat};
    use super::*;
    use crate::identity::{Creds, can_switch, run_as};
    use crate::testing::{Scratch, skip, stranger};

    #[test]
    fn modes_are_set_on_path_descriptors() {
        let scratch = Scratch::new();
        drop(scratch.file("f", b""));
        let object = scratch.object("f");
        for mode in [0o000, 0o640, 0o4755, 0o1777] {
            chmod(object.as_fd(), mode).unwrap();
            assert_eq!(statx(object.as_fd()).unwrap().permissions(), mode);
        }
        chmod(object.as_fd(), 0o170_600).unwrap();
        let stat = statx(object.as_fd()).unwrap();
        assert_eq!(
            (stat.permissions(), stat.kind()),
            (0o600, super::super::FileKind::Regular)
        );
        symlinkat(b"f", scratch.dir(), b"l").unwrap();
        let link = scratch.object("l");
        assert_eq!(chmod(link.as_fd(), 0o777), Err(Errno::OPNOTSUPP));
        assert_eq!(
            statx(object.as_fd()).unwrap().permissions(),
            0o600,
            "not through the link"
        );
    }

    #[test]
    fn times_are_set_left_and_checked() {
        let scratch = Scratch::new();
        drop(scratch.file("f", b""));
        let object = scratch.object("f");
        let at = |sec, nsec| SetTime::At(Timestamp { sec, nsec });
        set_times(object.as_fd(), at(1_000, 5), at(2_000, 999_999_999)).unwrap();
        let stat = statx(object.as_fd()).unwrap();
        assert_eq!(
            stat.atime,
            Timestamp {
                sec: 1_000,
                nsec: 5
            }
        );
        assert_eq!(
            stat.mtime,
            Timestamp {
                sec: 2_000,
                nsec: 999_999_999
            }
        );
        set_times(object.as_fd(), SetTime::Omit, SetTime::Now).unwrap();
        let stat = statx(object.as_fd()).unwrap();
        assert_eq!(stat.atime.sec, 1_000);
        assert!(stat.mtime.sec > 1_000_000_000);
        for nsec in [1_000_000_000, u32::MAX, UTIME_NOW as u32, UTIME_OMIT as u32] {
            let set = set_times(object.as_fd(), at(0, nsec), SetTime::Omit);
            assert_eq!(set, Err(Errno::INVAL), "{nsec}");
        }
        assert_eq!(statx(object.as_fd()).unwrap().atime.sec, 1_000);
    }

    #[test]
    fn times_of_a_link_are_its_own() {
        let scratch = Scratch::new();
        symlinkat(b"nowhere", scratch.dir(), b"l").unwrap();
        let link = scratch.object("l");
        let time = SetTime::At(Timestamp { sec: 77, nsec: 0 });
        set_times(link.as_fd(), SetTime::Omit, time).unwrap();
        assert_eq!(statx(link.as_fd()).unwrap().mtime.sec, 77);
    }

    #[test]
    fn owners_are_changed_by_who_may() {
        if !can_switch() {
            skip!("changing owners needs privileges");
        }
        let scratch = Scratch::new();
        drop(scratch.file("f", b""));
        let object = scratch.object("f");
        chown(object.as_fd(), Some(LocalUid(7)), None).unwrap();
        chown(object.as_fd(), None, Some(LocalGid(8))).unwrap();
        let stat = statx(object.as_fd()).unwrap();
        assert_eq!((stat.uid, stat.gid), (7, 8));
        assert_eq!(
            chown(object.as_fd(), Some(LocalUid(u32::MAX)), None),
            Err(Errno::INVAL)
        );
        let give_away = || chown(object.as_fd(), Some(LocalUid(9)), None);
        assert_eq!(run_as(&stranger(), give_away), Err(Errno::PERM));
        let owner = Creds::new(LocalUid(7), LocalGid(8), &[9]);
        assert_eq!(
            run_as(&owner, give_away),
            Err(Errno::PERM),
            "not even the owner"
        );
        let regroup = || chown(object.as_fd(), None, Some(LocalGid(9)));
        assert_eq!(
            run_as(&owner, regroup),
            Ok(()),
            "into a group of the owner's"
        );
    }

    #[test]
    fn lengths_need_a_file_open_for_writing() {
        let scratch = Scratch::new();
        let file = scratch.file("f", b"12345");
        truncate(file.as_fd(), 3).unwrap();
        truncate(file.as_fd(), 1 << 20).unwrap();
        assert_eq!(statx(file.as_fd()).unwrap().size, 1 << 20);
        assert_eq!(truncate(file.as_fd(), u64::MAX), Err(Errno::FBIG));
        let reader = scratch.open("f", OFlags::RDONLY).unwrap();
        assert_eq!(truncate(reader.as_fd(), 0), Err(Errno::INVAL));
        assert_eq!(truncate(scratch.object("f").as_fd(), 0), Err(Errno::BADF));
    }

    #[test]
    fn nothing_asked_is_allowed() {
        let scratch = Scratch::new();
        assert_eq!(access(scratch.dir(), Access::default()), Ok(()));
        let all = Access {
            read: true,
            write: true,
            execute: true,
        };
        assert_eq!(access(scratch.dir(), all), Ok(()));
    }
}
