//! Locks of byte ranges that belong to an open file description (`F_OFD_SETLK`): they last as long as it is open, and
//! stand against every other description's and every process's, whoever has them. Locks of flock(2) are apart.

use std::os::fd::{AsRawFd as _, BorrowedFd};

use rustix::io::retry_on_intr;

use crate::{Errno, Result};

/// How a range is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfdLock {
    /// Shared with other readers. The description has to be open for reading.
    Read,
    /// Nobody else's. The description has to be open for writing.
    Write,
}

/// A lock of somebody else that stands in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfdHolder {
    /// How the range is locked.
    pub lock: OfdLock,
    /// The first byte.
    pub start: i64,
    /// How many bytes; 0 to the end of the file, wherever that will be.
    pub length: i64,
    /// The process, where the lock is a process's and the process has a number here.
    pub pid: Option<u32>,
}

/// Locks `length` bytes from `start`, or unlocks them if `lock` is none. What this description has there already is
/// replaced at once, without a moment in which it has neither. A length of 0 reaches to the end of the file.
///
/// # Errors
/// [`Errno::AGAIN`] if somebody else holds a part of it; [`Errno::BADF`] if the description is not open for it;
/// `ENOLCK` and others where the file system has no locks.
pub fn set_ofd_lock(
    file: BorrowedFd<'_>,
    lock: Option<OfdLock>,
    (start, length): (i64, i64),
) -> Result<()> {
    let mut range = describe(lock, start, length);
    match call(file, libc::F_OFD_SETLK, &mut range) {
        // Both words are allowed for the same thing.
        Err(Errno::ACCESS) => Err(Errno::AGAIN),
        done => done,
    }
}

/// Who stands in the way of such a lock, if anybody does. One of several.
///
/// # Errors
/// As the file system says.
pub fn ofd_lock_holder(
    file: BorrowedFd<'_>,
    lock: OfdLock,
    (start, length): (i64, i64),
) -> Result<Option<OfdHolder>> {
    let mut range = describe(Some(lock), start, length);
    call(file, libc::F_OFD_GETLK, &mut range)?;
    let lock = match libc::c_int::from(range.l_type) {
        libc::F_UNLCK => return Ok(None),
        libc::F_RDLCK => OfdLock::Read,
        _ => OfdLock::Write,
    };
    Ok(Some(OfdHolder {
        lock,
        start: range.l_start,
        length: range.l_len,
        // -1 for a lock of a description, 0 for a process of another namespace.
        pid: u32::try_from(range.l_pid).ok().filter(|pid| *pid != 0),
    }))
}

fn describe(lock: Option<OfdLock>, start: i64, length: i64) -> libc::flock64 {
    let kind = match lock {
        None => libc::F_UNLCK,
        Some(OfdLock::Read) => libc::F_RDLCK,
        Some(OfdLock::Write) => libc::F_WRLCK,
    };
    // The constants are 0, 1 and 2; the field is shorter than the constants' type.
    let narrow = |value: libc::c_int| libc::c_short::try_from(value).unwrap_or_default();
    libc::flock64 {
        l_type: narrow(kind),
        l_whence: narrow(libc::SEEK_SET),
        l_start: start,
        l_len: length,
        // Anything else is refused.
        l_pid: 0,
    }
}

fn call(file: BorrowedFd<'_>, command: libc::c_int, range: &mut libc::flock64) -> Result<()> {
    retry_on_intr(|| {
        // SAFETY: F_OFD_SETLK reads and F_OFD_GETLK writes one flock64, which is borrowed for the call; the
        // descriptor is open for as long as it is borrowed.
        let done = unsafe { libc::fcntl(file.as_raw_fd(), command, std::ptr::from_mut(range)) };
        match done {
            0.. => Ok(()),
            _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd as _;

    use rustix::fs::{FlockOperation, fcntl_lock, flock};
    use tempfile::NamedTempFile;

    use super::*;

    const TO_THE_END: (i64, i64) = (0, 0);

    /// Two descriptions of one file.
    fn descriptions() -> (NamedTempFile, File) {
        let one = NamedTempFile::new().expect("a scratch file");
        let other = one.reopen().expect("it is there");
        (one, other)
    }

    fn set(file: &File, lock: Option<OfdLock>, range: (i64, i64)) -> Result<()> {
        set_ofd_lock(file.as_fd(), lock, range)
    }

    fn holder(file: &File, range: (i64, i64)) -> Option<OfdHolder> {
        ofd_lock_holder(file.as_fd(), OfdLock::Write, range).expect("the file system has locks")
    }

    #[test]
    fn descriptions_exclude_each_other_and_end_with_their_last_descriptor() {
        let (one, other) = descriptions();
        set(one.as_file(), Some(OfdLock::Write), (10, 10)).expect("free");
        assert_eq!(set(&other, Some(OfdLock::Read), (15, 1)), Err(Errno::AGAIN));
        set(&other, Some(OfdLock::Read), (20, 0)).expect("free");
        let expected = OfdHolder {
            lock: OfdLock::Write,
            start: 10,
            length: 10,
            pid: None,
        };
        assert_eq!(holder(&other, TO_THE_END), Some(expected));
        let again = one.reopen().expect("it is there");
        drop(one);
        // Other tests start programs: until a child runs its own it has our descriptors open.
        let gone = (0..10_000_000).any(|_| holder(&other, TO_THE_END).is_none());
        assert!(gone, "the lock outlives its description");
        assert!(holder(&again, TO_THE_END).is_some(), "the reader's own");
    }

    #[test]
    fn one_description_holds_a_union_that_changes_piece_by_piece() {
        let (one, other) = descriptions();
        set(one.as_file(), Some(OfdLock::Read), (0, 100)).expect("free");
        set(one.as_file(), Some(OfdLock::Write), (40, 20)).expect("its own");
        set(&other, Some(OfdLock::Read), (0, 40)).expect("readers share");
        assert_eq!(set(&other, Some(OfdLock::Read), (59, 1)), Err(Errno::AGAIN));
        set(one.as_file(), None, (40, 10)).expect("its own");
        set(&other, Some(OfdLock::Write), (40, 10)).expect("free");
    }

    #[test]
    fn a_process_that_holds_a_lock_is_named() {
        let (one, other) = descriptions();
        fcntl_lock(&other, FlockOperation::NonBlockingLockExclusive).expect("free");
        let found = holder(one.as_file(), (5, 5)).expect("the process holds it");
        assert_eq!(found.pid, Some(std::process::id()));
        assert_eq!((found.start, found.length), TO_THE_END);
    }

    #[test]
    fn locks_of_flock_are_apart() {
        let (one, other) = descriptions();
        flock(&other, FlockOperation::NonBlockingLockExclusive).expect("free");
        set(one.as_file(), Some(OfdLock::Write), TO_THE_END).expect("nobody is in the way");
    }
}
