//! Space for a file beyond its end: taken ahead of data that is to come, and given back.

use std::os::fd::{AsRawFd as _, BorrowedFd};

use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::retry_on_intr;

use super::attributes::{SetTime, set_times, truncate};
use super::stat::{Stat, statx};
use crate::caps::{self, Capability};
use crate::faults::{self, Call};
use crate::identity::{Creds, Guard, LocalGid, LocalUid, ServerIdentity};
use crate::limits::HOLES_PER_GIVING_BACK_MAX;
use crate::{Errno, Result};

/// The command of fcntl(2) that chooses the signal, 10 on every architecture of Linux; libc has no name for it.
const F_SETSIG: libc::c_int = 10;

/// Takes blocks for `len` bytes of a file from `offset` on without changing its length; fallocate(2)
/// `FALLOC_FL_KEEP_SIZE`. What is there already stays as it is; what is taken reads as zeros. The file's
/// ctime and mtime change.
///
/// # Errors
/// `EOPNOTSUPP` where the file system cannot, `ENOSPC` and `EDQUOT` where there is not so much space (some of it
/// may have been taken then: see [`give_back`]), `EFBIG` past what the file system holds, `EBADF` for a
/// descriptor that is not open for writing.
pub fn allocate_ahead(file: BorrowedFd<'_>, offset: u64, len: u64) -> Result<()> {
    faults::refuse(Call::Allocate, file)?;
    retry_on_intr(|| rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, offset, len))
}

/// Gives back the blocks that a file has beyond its end, and within `holes` (ranges below the end) what was
/// taken ahead and never written. Neither the file's bytes nor its length nor its mtime change; its ctime
/// does.
///
/// To release blocks beyond the end is to truncate the file to the length that it has. Somebody who appends
/// between the look at the length and the truncation would lose what was appended. So it is done under a write
/// lease (`F_SETLEASE`), which the kernel grants only where no other description of the file is open, and while
/// it is held whoever opens the file waits. No other call does it without a race on every file system: a hole
/// punched beyond the end releases blocks on XFS and not on ext4, and `truncate(2)` by a path, which would leave
/// the times alone, waits for the lease of its own caller.
///
/// `file` must be the only description of the file that this process has open for reading or writing.
/// One that was opened with `O_PATH` is none.
///
/// # Errors
/// `EAGAIN` while somebody else has the file open; `EACCES` without `CAP_LEASE` for a file whose owner's
/// identity cannot be taken on; `EINVAL` where the file system knows no lease; `EPERM` where the truncation would
/// take a set-user-ID bit away or the mtime could not be set back: in all of these cases the file is as it was. Else
/// what ftruncate(2) and fallocate(2) report.
pub fn give_back(file: BorrowedFd<'_>, holes: &[(u64, u64)]) -> Result<()> {
    let lease = WriteLease::take(file)?;
    // Looked at under the lease: from here on nobody else changes the length.
    let stat = statx(file)?;
    if would_show(&stat) {
        return Err(Errno::PERM);
    }
    truncate(file, stat.size)?;
    let punched = release_holes(file, stat.size, holes);
    // Both said that the file was modified now, which it was not.
    let restored = set_times(file, SetTime::Omit, SetTime::At(stat.mtime));
    drop(lease);
    punched.and(restored)
}

/// Whether the truncation would leave more than the ctime changed: it takes the set-user-ID and set-group-ID
/// bits away from a caller without `CAP_FSETID`, and the mtime may be set back by the owner or with
/// `CAP_FOWNER` alone.
fn would_show(stat: &Stat) -> bool {
    const SET_IDS: u32 = 0o6000;
    let is_owner = ServerIdentity::current().creds().uid().0 == stat.uid;
    let set_ids = stat.mode & SET_IDS != 0 && !caps::has(Capability::Fsetid);
    set_ids || !(is_owner || caps::has(Capability::Fowner))
}

/// Punches what the file system says is a hole: ranges without data, whether or not there are blocks beneath.
/// What is data stays, whoever wrote it.
fn release_holes(file: BorrowedFd<'_>, size: u64, holes: &[(u64, u64)]) -> Result<()> {
    let mut left = HOLES_PER_GIVING_BACK_MAX;
    for &(from, to) in holes {
        let (mut at, to) = (from, to.min(size));
        while at < to && left > 0 {
            left -= 1;
            let start = seek(file, SeekFrom::Hole(at))?;
            if start >= to {
                break;
            }
            let end = match seek(file, SeekFrom::Data(start)) {
                Ok(end) => end.min(to),
                // No data from there to the end of the file.
                Err(Errno::NXIO) => to,
                Err(error) => return Err(error),
            };
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let len = end.saturating_sub(start);
            if len > 0 {
                retry_on_intr(|| rustix::fs::fallocate(file, flags, start, len))?;
            }
            at = end.max(at.saturating_add(1));
        }
    }
    Ok(())
}

fn seek(file: BorrowedFd<'_>, to: SeekFrom) -> Result<u64> {
    retry_on_intr(|| rustix::fs::seek(file, to))
}

/// A write lease on a file, given up when dropped.
struct WriteLease<'f>(BorrowedFd<'f>);

impl<'f> WriteLease<'f> {
    fn take(file: BorrowedFd<'f>) -> Result<Self> {
        // Whoever opens the file while the lease is held makes the kernel signal its holder. By default that
        // is SIGIO, which ends a process; this one is ignored unless somebody asks for it.
        control(file, F_SETSIG, libc::SIGURG)?;
        match control(file, libc::F_SETLEASE, libc::F_WRLCK) {
            // Without CAP_LEASE only a file's owner may.
            Err(Errno::ACCESS) => {
                let stat = statx(file)?;
                let owner = Creds::new(LocalUid(stat.uid), LocalGid(stat.gid), &[]);
                let _identity = Guard::enter(&owner)?;
                control(file, libc::F_SETLEASE, libc::F_WRLCK)?;
            }
            taken => taken?,
        }
        Ok(Self(file))
    }
}

impl Drop for WriteLease<'_> {
    fn drop(&mut self) {
        // Fails only where there is no lease any more: the kernel takes one away whose holder keeps others
        // waiting for too long.
        let _given_up = control(self.0, libc::F_SETLEASE, libc::F_UNLCK);
    }
}

/// fcntl(2) with a number for its argument.
fn control(file: BorrowedFd<'_>, command: libc::c_int, argument: libc::c_int) -> Result<()> {
    // SAFETY: the commands this is used for, F_SETSIG and F_SETLEASE, take an int and touch no memory; the
    // descriptor is open for as long as it is borrowed.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), command, argument) };
    if done < 0 {
        Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
    } else {
        Ok(())
    }
}
