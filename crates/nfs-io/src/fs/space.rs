//! Space of a file: taken ahead of data that is to come, and given back; holes, found and made; blocks that two
//! files share.

use std::os::fd::{AsRawFd as _, BorrowedFd};

use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::retry_on_intr;
use rustix::ioctl::{Setter, opcode};

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

/// Takes blocks for `len` bytes of a file from `offset` on, so that writing there cannot fail for want of space; the
/// file becomes as long as that, if it was shorter; fallocate(2).
///
/// # Errors
/// As [`allocate_ahead`].
pub fn allocate(file: BorrowedFd<'_>, offset: u64, len: u64) -> Result<()> {
    faults::refuse(Call::Allocate, file)?;
    retry_on_intr(|| rustix::fs::fallocate(file, FallocateFlags::empty(), offset, len))
}

/// Gives back the blocks of `len` bytes of a file from `offset` on, which read as zeros from then on; its length
/// stays. fallocate(2) `FALLOC_FL_PUNCH_HOLE`.
///
/// # Errors
/// `EOPNOTSUPP` where the file system cannot, `EBADF` for a descriptor that is not open for writing.
pub fn punch_hole(file: BorrowedFd<'_>, offset: u64, len: u64) -> Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    retry_on_intr(|| rustix::fs::fallocate(file, flags, offset, len))
}

/// Where the next data, or the next hole, of a file begins at `offset` or behind it; lseek(2) `SEEK_DATA`,
/// `SEEK_HOLE`. The end of the file counts as a hole. The position of the descriptor moves: nothing may rely on
/// it.
///
/// # Errors
/// `ENXIO` where `offset` is at the end of the file or behind it, or no data is behind it.
pub fn next_data(file: BorrowedFd<'_>, offset: u64) -> Result<u64> {
    seek(file, SeekFrom::Data(offset))
}

/// The same of the next hole; see [`next_data`].
///
/// # Errors
/// `ENXIO` where `offset` is at the end of the file or behind it.
pub fn next_hole(file: BorrowedFd<'_>, offset: u64) -> Result<u64> {
    seek(file, SeekFrom::Hole(offset))
}

/// Copies up to `len` bytes from one file to another within the kernel; copy_file_range(2). Returns how many:
/// fewer than asked are no error, and 0 is the end of `from`.
///
/// # Errors
/// `EINVAL` for ranges of one file that overlap, `EXDEV` where the two file systems cannot, `EBADF`, `ENOSPC` and
/// the file systems' others.
pub fn copy_range(
    from: (BorrowedFd<'_>, u64),
    to: (BorrowedFd<'_>, u64),
    len: usize,
) -> Result<usize> {
    let (mut from_at, mut to_at) = (from.1, to.1);
    retry_on_intr(|| {
        let (from_at, to_at) = (Some(&mut from_at), Some(&mut to_at));
        rustix::fs::copy_file_range(from.0, from_at, to.0, to_at, len)
    })
}

/// Lets a range of a file be the same blocks as a range of another, until one of the two is written; `ioctl`
/// FICLONERANGE. A length of 0 means up to the end of `from`.
///
/// # Errors
/// `EOPNOTSUPP` where the file system shares no blocks, `EINVAL` for ranges that are not aligned to its
/// blocks, `EXDEV` for files of two file systems.
pub fn clone_range(from: (BorrowedFd<'_>, u64), to: (BorrowedFd<'_>, u64), len: u64) -> Result<()> {
    let range = FileCloneRange {
        src_fd: from.0.as_raw_fd().into(),
        src_offset: from.1,
        src_length: len,
        dest_offset: to.1,
    };
    retry_on_intr(|| {
        // SAFETY: the opcode is FICLONERANGE's, which reads one struct of this form and writes nothing; the source's
        // descriptor, which is in it, is open for as long as it is borrowed.
        unsafe {
            let clone = Setter::<{ opcode::write::<FileCloneRange>(0x94, 13) }, _>::new(range);
            rustix::ioctl::ioctl(to.0, clone)
        }
    })
}

/// The argument of FICLONERANGE, as `<linux/fs.h>` has it.
#[repr(C)]
#[derive(Clone, Copy)]
struct FileCloneRange {
    src_fd: i64,
    src_offset: u64,
    src_length: u64,
    dest_offset: u64,
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

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::testing::Scratch;

    #[test]
    fn holes_are_made_and_found_again() {
        const BLOCK: usize = 64 << 10;
        let scratch = Scratch::new();
        let file = scratch.file("f", &vec![7; 3 * BLOCK]);
        let block = BLOCK as u64;
        match punch_hole(file.as_fd(), block, block) {
            // Where there are no holes, none can be found.
            Err(Errno::OPNOTSUPP) => return,
            done => done.unwrap(),
        }
        assert_eq!(statx(file.as_fd()).unwrap().size, 3 * block);
        assert_eq!(next_hole(file.as_fd(), 0), Ok(block));
        assert_eq!(next_data(file.as_fd(), block), Ok(2 * block));
        assert_eq!(next_hole(file.as_fd(), 2 * block), Ok(3 * block));
        assert_eq!(next_data(file.as_fd(), 3 * block), Err(Errno::NXIO));
        allocate(file.as_fd(), 3 * block, block).unwrap();
        assert_eq!(statx(file.as_fd()).unwrap().size, 4 * block);
    }

    #[test]
    fn a_range_is_copied_to_another_file() {
        let scratch = Scratch::new();
        let from = scratch.file("from", b"0123456789");
        let to = scratch.file("to", b"ab");
        let copied = copy_range((from.as_fd(), 2), (to.as_fd(), 1), 100);
        match copied {
            Ok(len) => assert_eq!(len, 8, "to the end of the file"),
            Err(errno) => panic!("{errno}"),
        }
        let found = std::fs::read(scratch.path.path().join("to")).unwrap();
        assert_eq!(found, b"a23456789");
        let behind = copy_range((from.as_fd(), 10), (to.as_fd(), 0), 1);
        assert_eq!(behind, Ok(0));
    }

    #[test]
    fn blocks_are_shared_or_the_file_system_says_that_it_cannot() {
        const BLOCK: usize = 64 << 10;
        let scratch = Scratch::new();
        let from = scratch.file("from", &vec![7; BLOCK]);
        let to = scratch.file("to", b"");
        match clone_range((from.as_fd(), 0), (to.as_fd(), 0), 0) {
            Ok(()) => {
                let found = std::fs::read(scratch.path.path().join("to")).unwrap();
                assert!(found == vec![7; BLOCK]);
            }
            Err(errno) => assert!(
                matches!(errno, Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL),
                "{errno}"
            ),
        }
    }
}
