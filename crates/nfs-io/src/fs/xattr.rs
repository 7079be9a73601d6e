//! Extended attributes of the user's namespace (`user.` in xattr(7)), by way of `/proc`: the calls take no `O_PATH`
//! descriptor. No object is opened for it, so that devices and FIFOs notice nothing.

use std::os::fd::BorrowedFd;

use rustix::io::retry_on_intr;

pub use rustix::fs::XattrFlags;

use super::open::FdName;
use crate::limits::{USER_XATTR_NAME_BYTES_MAX, XATTR_LIST_BYTES_MAX, XATTR_VALUE_BYTES_MAX};
use crate::{Errno, Result};

/// What every name of the user's namespace begins with; the functions here take and give names without it.
const NAMESPACE: &[u8] = b"user.";

/// The value of an attribute, at most [`XATTR_VALUE_BYTES_MAX`] bytes; getxattr(2). Asks as the calling thread's
/// identity, which has to be let read the object.
///
/// # Errors
/// `ENODATA` where there is none of this name, and on what is neither file nor directory; `EOPNOTSUPP` where the file
/// system has none, `EACCES`; `EINVAL` and `ENAMETOOLONG` for the name; `E2BIG` for a value that no kernel of today lets
/// be set.
pub fn user_xattr(fd: BorrowedFd<'_>, name: &[u8]) -> Result<Vec<u8>> {
    let (path, name) = (path_of(fd), full_name(name)?);
    let mut value = vec![0; XATTR_VALUE_BYTES_MAX];
    let asked = retry_on_intr(|| rustix::fs::getxattr(&*path, &*name, &mut value[..]));
    let len = asked.map_err(|errno| {
        if errno == Errno::RANGE {
            Errno::TOOBIG
        } else {
            errno
        }
    })?;
    value.truncate(len);
    value.shrink_to_fit();
    Ok(value)
}

/// Sets an attribute: only a new one with [`XattrFlags::CREATE`], only one that is there with [`XattrFlags::REPLACE`];
/// setxattr(2). Acts as the calling thread's identity, which has to be let write the object.
///
/// # Errors
/// `EEXIST` and `ENODATA` by the flags; `E2BIG` for more than [`XATTR_VALUE_BYTES_MAX`] bytes, `ENOSPC` and `EDQUOT`
/// where the file system has no room for the value, which many allow a block at most; `EPERM` on what is neither file nor
/// directory, and on what must not be changed; `EROFS`; else as [`user_xattr`].
pub fn set_user_xattr(
    fd: BorrowedFd<'_>,
    name: &[u8],
    value: &[u8],
    flags: XattrFlags,
) -> Result<()> {
    let (path, name) = (path_of(fd), full_name(name)?);
    retry_on_intr(|| rustix::fs::setxattr(&*path, &*name, value, flags))
}

/// Removes an attribute; removexattr(2).
///
/// # Errors
/// `ENODATA` where there is none of this name, else as [`set_user_xattr`].
pub fn remove_user_xattr(fd: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    let (path, name) = (path_of(fd), full_name(name)?);
    retry_on_intr(|| rustix::fs::removexattr(&*path, &*name))
}

/// The names of an object's attributes, each with a zero byte behind it, in the file system's order, which is the same for as long as none is set or
/// removed; listxattr(2). The kernel asks nobody's permission for it.
///
/// # Errors
/// `EOPNOTSUPP` where the file system has none, `E2BIG` for a list of more than [`XATTR_LIST_BYTES_MAX`] bytes.
pub fn user_xattrs(fd: BorrowedFd<'_>) -> Result<Vec<u8>> {
    let path = path_of(fd);
    let mut list = vec![0; XATTR_LIST_BYTES_MAX];
    let len = retry_on_intr(|| rustix::fs::listxattr(&*path, &mut list[..]))?;
    list.truncate(len);
    let names = list.split_inclusive(|byte| *byte == 0);
    let own = names.filter_map(|name| name.strip_prefix(NAMESPACE));
    Ok(own.flatten().copied().collect())
}

/// Whether the file system of an object has attributes of the user's namespace.
#[must_use]
pub fn has_user_xattrs(fd: BorrowedFd<'_>) -> bool {
    let asked =
        retry_on_intr(|| rustix::fs::getxattr(&*path_of(fd), c"user.penstock", &mut [0; 0]));
    // What is refused is there to be refused.
    asked != Err(Errno::OPNOTSUPP) && asked != Err(Errno::NOSYS)
}

/// The object itself, a symbolic link too, as [`super::reopen`] finds it. There is no form of these calls that takes a
/// directory and a name before Linux 6.13.
pub(super) fn path_of(fd: BorrowedFd<'_>) -> Vec<u8> {
    [&b"/proc/self/fd/"[..], FdName::new(fd).as_bytes()].concat()
}

fn full_name(name: &[u8]) -> Result<Vec<u8>> {
    if name.is_empty() || name.contains(&0) {
        return Err(Errno::INVAL);
    }
    if name.len() > USER_XATTR_NAME_BYTES_MAX {
        return Err(Errno::NAMETOOLONG);
    }
    Ok([NAMESPACE, name].concat())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::super::{FileKind, OFlags, mknodat, symlinkat};
    use super::*;
    use crate::identity::{can_switch, run_as};
    use crate::testing::{Scratch, skip, stranger};

    const EITHER: XattrFlags = XattrFlags::empty();

    #[test]
    fn attributes_are_set_read_listed_and_removed_on_path_descriptors() {
        let scratch = Scratch::new();
        drop(scratch.file("f", b""));
        std::fs::create_dir(scratch.path.path().join("d")).unwrap();
        for name in ["f", "d"] {
            let object = scratch.object(name);
            let fd = object.as_fd();
            assert!(has_user_xattrs(fd), "the test needs a directory with them");
            assert_eq!(user_xattrs(fd), Ok(vec![]));
            assert_eq!(user_xattr(fd, b"a"), Err(Errno::NODATA));
            set_user_xattr(fd, b"a", b"", XattrFlags::CREATE).unwrap();
            let again = set_user_xattr(fd, b"a", b"x", XattrFlags::CREATE);
            assert_eq!(again, Err(Errno::EXIST));
            set_user_xattr(fd, b"a", b"\0value", XattrFlags::REPLACE).unwrap();
            let missing = set_user_xattr(fd, b"b", b"x", XattrFlags::REPLACE);
            assert_eq!(missing, Err(Errno::NODATA));
            set_user_xattr(fd, b"user.b", b"x", EITHER).unwrap();
            assert_eq!(user_xattr(fd, b"a").unwrap(), b"\0value");
            let names = user_xattrs(fd).unwrap();
            assert!(
                names == b"a\0user.b\0" || names == b"user.b\0a\0",
                "{names:?}"
            );
            remove_user_xattr(fd, b"a").unwrap();
            assert_eq!(remove_user_xattr(fd, b"a"), Err(Errno::NODATA));
        }
    }

    #[test]
    fn names_and_values_have_their_bounds() {
        let scratch = Scratch::new();
        drop(scratch.file("f", b""));
        let object = scratch.object("f");
        let fd = object.as_fd();
        let longest = [b'n'; USER_XATTR_NAME_BYTES_MAX];
        set_user_xattr(fd, &longest, b"x", EITHER).unwrap();
        assert_eq!(user_xattrs(fd).unwrap(), [&longest[..], b"\0"].concat());
        let longer = [b'n'; USER_XATTR_NAME_BYTES_MAX + 1];
        for (name, expected) in [
            (&longer[..], Errno::NAMETOOLONG),
            (b"", Errno::INVAL),
            (b"a\0b", Errno::INVAL),
        ] {
            assert_eq!(set_user_xattr(fd, name, b"x", EITHER), Err(expected));
            assert_eq!(user_xattr(fd, name), Err(expected));
            assert_eq!(remove_user_xattr(fd, name), Err(expected));
        }
        let larger = vec![0; XATTR_VALUE_BYTES_MAX + 1];
        let set = set_user_xattr(fd, b"large", &larger, EITHER);
        assert_eq!(set, Err(Errno::TOOBIG));
    }

    #[test]
    fn links_and_fifos_have_none_and_nothing_is_followed_or_opened() {
        let scratch = Scratch::new();
        let file = scratch.file("f", b"");
        set_user_xattr(file.as_fd(), b"a", b"x", EITHER).unwrap();
        symlinkat(b"f", scratch.dir(), b"l").unwrap();

        mknodat(scratch.dir(), b"p", FileKind::Fifo, 0o600, (0, 0)).unwrap();
        for name in ["l", "p"] {
            let object = scratch.object(name);
            let fd = object.as_fd();
            assert_eq!(user_xattr(fd, b"a"), Err(Errno::NODATA), "{name}");
            assert_eq!(set_user_xattr(fd, b"a", b"y", EITHER), Err(Errno::PERM));
            assert_eq!(user_xattrs(fd), Ok(vec![]));
        }
        assert_eq!(user_xattr(file.as_fd(), b"a").unwrap(), b"x");
    }

    #[test]
    fn who_may_not_read_or_write_is_refused() {
        if !can_switch() {
            skip!("acting as another user needs privileges");
        }
        let scratch = Scratch::new();
        let file = scratch.file("f", b"");
        set_user_xattr(file.as_fd(), b"a", b"x", EITHER).unwrap();
        let object = scratch.object("f");
        let fd = object.as_fd();
        for (mode, read, written) in [
            (0o600, Err(Errno::ACCESS), Err(Errno::ACCESS)),
            (0o604, Ok(b"x".to_vec()), Err(Errno::ACCESS)),
            (0o602, Err(Errno::ACCESS), Ok(())),
        ] {
            super::super::chmod(fd, mode).unwrap();
            assert_eq!(run_as(&stranger(), || user_xattr(fd, b"a")), read);
            let set = || set_user_xattr(fd, b"b", b"x", EITHER);
            assert_eq!(run_as(&stranger(), set), written);
        }
        let opened = scratch.open("f", OFlags::RDONLY).unwrap();
        assert_eq!(user_xattr(opened.as_fd(), b"b").unwrap(), b"x");
    }

    #[test]
    fn a_file_system_without_them_says_so() {
        let Ok(proc) = super::super::open_root(std::path::Path::new("/proc/self")) else {
            skip!("/proc is not there");
        };
        assert!(!has_user_xattrs(proc.as_fd()));
        let got = user_xattr(proc.as_fd(), b"a");
        assert_eq!(got, Err(Errno::OPNOTSUPP));
    }
}
