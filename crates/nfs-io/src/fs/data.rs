//! Data that is already in memory, and flushing. Everything else goes through an engine.

use std::io::IoSliceMut;
use std::num::NonZero;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, IntoRawFd as _, OwnedFd};

use rustix::io::{ReadWriteFlags, retry_on_intr};

use crate::faults::{self, Call};
use crate::limits::SPLICED_BYTES_MAX;
use crate::mode::Mode;
use crate::{Errno, Result};

/// Reads what the page cache holds, without waiting for a device; preadv2(2) `RWF_NOWAIT`.
/// Returns how many bytes: fewer than asked at the end of the file, or where the cached part
/// ends. 0 is the end of the file.
///
/// What is not there may begin to be read ahead: with `DontCache` it will not stay. `Direct` of a
/// file that is open with `O_DIRECT` is never in memory; of another it means nothing.
///
/// # Errors
/// `EAGAIN` where the first byte is not there, `EOPNOTSUPP` where the file system cannot do it, or
/// knows no `DontCache`.
pub fn pread_nowait(
    file: BorrowedFd<'_>,
    buffer: &mut [u8],
    offset: u64,
    mode: Mode,
) -> Result<usize> {
    if faults::expected(Call::Read, file) {
        return Err(Errno::AGAIN);
    }
    let flags = ReadWriteFlags::NOWAIT | ReadWriteFlags::from_bits_retain(mode.rwf());
    retry_on_intr(|| {
        let mut slices = [IoSliceMut::new(buffer)];
        rustix::io::preadv2(file, &mut slices, offset, flags)
    })
}

/// Hands the dirty pages of `len` bytes of a file from `offset` on to its disk, and waits until that has them;
/// sync_file_range(2). They are on stable storage with the next flush of the disk, which each change of the file
/// system's journal begins with; no attributes are.
///
/// # Errors
/// What the disk or the file system reports, of pages that could not be written before as well: the descriptor does not
/// tell of those again.
pub fn write_back(file: BorrowedFd<'_>, offset: u64, len: u64) -> Result<()> {
    let offset = i64::try_from(offset).map_err(|_| Errno::INVAL)?;
    let len = i64::try_from(len).map_err(|_| Errno::INVAL)?;
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    retry_on_intr(|| {
        // SAFETY: the descriptor is open for as long as it is borrowed, and the call touches no memory of ours.
        let done = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, flags) };
        if done < 0 {
            Err(
                rustix::io::Errno::from_io_error(&std::io::Error::last_os_error())
                    .unwrap_or(Errno::IO),
            )
        } else {
            Ok(())
        }
    })
}

/// Where a read moves nothing and touches no page: far behind any file's end.
const BEHIND_ANY_END: u64 = 1 << 62;

/// Whether somebody has a lock of the file for which a read would wait, as XFS has one: a write holds it that waits for
/// the disk, or a change of the file's size. `false` where the file system cannot tell. Asked with a read far behind any
/// file's end, that waits for nothing (`RWF_NOWAIT`).
#[must_use]
pub fn reads_are_locked_out(file: BorrowedFd<'_>) -> bool {
    let mut byte = [0];
    let asked = retry_on_intr(|| {
        let mut slices = [IoSliceMut::new(&mut byte)];
        rustix::io::preadv2(file, &mut slices, BEHIND_ANY_END, ReadWriteFlags::NOWAIT)
    });
    asked == Err(Errno::AGAIN)
}

/// Does the file system of this file know `RWF_DONTCACHE` (Linux 6.14)? Asked with a read far behind any
/// file's end, which moves nothing and touches no page.
///
/// # Errors
/// What else the kernel says; `EBADF` for an `O_PATH` descriptor or one that is not open for reading.
pub fn takes_dontcache(file: BorrowedFd<'_>) -> Result<bool> {
    let flags = ReadWriteFlags::from_bits_retain(Mode::DontCache.rwf());
    let mut byte = [0];
    let asked = retry_on_intr(|| {
        let mut slices = [IoSliceMut::new(&mut byte)];
        rustix::io::preadv2(file, &mut slices, BEHIND_ANY_END, flags)
    });
    match asked {
        Ok(_) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::INVAL) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Puts data and attributes of a file or directory on stable storage.
///
/// # Errors
/// `EIO`, `ENOSPC`, `EDQUOT` where writing back failed, now or since the last call on this open
/// file; `EINVAL` for what cannot be flushed; `EBADF` for an `O_PATH` descriptor.
pub fn fsync(fd: BorrowedFd<'_>) -> Result<()> {
    faults::refuse(Call::Fsync, fd)?;
    retry_on_intr(|| rustix::fs::fsync(fd))
}

/// Puts a file on stable storage as [`fsync`] does, but without the attributes that reading the data back
/// does not need.
///
/// # Errors
/// As [`fsync`].
pub fn fdatasync(fd: BorrowedFd<'_>) -> Result<()> {
    faults::refuse(Call::Fsync, fd)?;
    retry_on_intr(|| rustix::fs::fdatasync(fd))
}

/// Closes a file that was written, and tells what its file system has against it: one on the network
/// (FUSE, NFS) may not say before that the data did not get to its place. The descriptor is gone either
/// way, and so is not closed again on `EINTR`.
///
/// # Errors
/// `EIO`, `ENOSPC`, `EDQUOT` where writing back failed.
pub fn close(fd: OwnedFd) -> Result<()> {
    faults::refuse(Call::Close, fd.as_fd())?;
    // SAFETY: the descriptor was owned, and nobody has it any more: it is closed once.
    let done = unsafe { libc::close(fd.into_raw_fd()) };
    if done == 0 {
        Ok(())
    } else {
        Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
    }
}

/// Puts the whole file system of `fd` on stable storage.
///
/// # Errors
/// `EIO` and the like where writing back failed (since Linux 5.8); `EBADF` for an `O_PATH`
/// descriptor.
pub fn syncfs(fd: BorrowedFd<'_>) -> Result<()> {
    retry_on_intr(|| rustix::fs::syncfs(fd))
}

/// Asks the kernel to let go of what the page cache holds of a file, and to begin writing back what
/// cannot go yet; posix_fadvise(2) `POSIX_FADV_DONTNEED`. Pages that are mapped, dirty or in use stay.
///
/// # Errors
/// `EBADF` for an `O_PATH` descriptor.
pub fn drop_cached(file: BorrowedFd<'_>) -> Result<()> {
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)
}

/// Asks the kernel to let go of what the page cache holds of `len` bytes from `offset` on, as [`drop_cached`] does of
/// all. What lies beyond any file is nothing.
///
/// # Errors
/// `EBADF` for an `O_PATH` descriptor.
pub fn drop_cached_range(file: BorrowedFd<'_>, offset: u64, len: u64) -> Result<()> {
    advise(file, (offset, len), rustix::fs::Advice::DontNeed)
}

/// Asks the kernel to begin to read `len` bytes from `offset` on into the page cache; posix_fadvise(2)
/// `POSIX_FADV_WILLNEED`. Waits until it has begun, not for the bytes.
///
/// # Errors
/// `EBADF` for an `O_PATH` descriptor.
pub fn read_ahead(file: BorrowedFd<'_>, offset: u64, len: u64) -> Result<()> {
    advise(file, (offset, len), rustix::fs::Advice::WillNeed)
}

fn advise(
    file: BorrowedFd<'_>,
    (offset, len): (u64, u64),
    advice: rustix::fs::Advice,
) -> Result<()> {
    // To the kernel, no bytes are all bytes.
    let len = len.min(i64::MAX.unsigned_abs().saturating_sub(offset));
    match NonZero::new(len) {
        None => Ok(()),
        Some(len) => retry_on_intr(|| rustix::fs::fadvise(file, offset, Some(len), advice)),
    }
}

/// What the page cache holds of a range, in pages; cachestat(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CacheStat {
    /// Pages of the range that are in the cache.
    pub cached: u64,
    /// Cached pages that were changed and are not being written back yet.
    pub dirty: u64,
    /// Cached pages that are being written back.
    pub writeback: u64,
    /// Pages that were in the cache and were given up.
    pub evicted: u64,
    /// Evicted pages that were given up so lately that bringing them back would say that memory is short.
    pub recently_evicted: u64,
}

/// Counts what the page cache holds of `len` bytes from `offset` on, or with `len` 0 of all from
/// there on; cachestat(2), Linux 6.5.
///
/// # Errors
/// `ENOSYS` on an older kernel (and `EPERM` where a container's rules answer for it); `EPERM` for
/// a file that is not open for writing, of which the caller is neither the owner nor may write it;
/// `EBADF` for an `O_PATH` descriptor; `EOPNOTSUPP` for hugetlbfs.
pub fn cachestat(file: BorrowedFd<'_>, offset: u64, len: u64) -> Result<CacheStat> {
    let range = [offset, len];
    let mut stat = CacheStat::default();
    // SAFETY: the range is two u64 and the result five, as `struct cachestat_range` and `struct
    // cachestat` of <linux/mman.h>; both live until the call has returned.
    let done = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_raw_fd(),
            range.as_ptr(),
            &raw mut stat,
            0,
        )
    };
    if done == 0 {
        Ok(stat)
    } else {
        Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
    }
}

/// Whether the page cache has all of `len` bytes of a file from `offset` on, read and ready, so that nothing need be
/// waited for to have them. `false` also for more than [`SPLICED_BYTES_MAX`] bytes, and where the kernel does not say: before Linux 6.5, and for a file that
/// the caller neither owns nor may write.
///
/// cachestat(2) counts pages, but also those that are still being read; mincore(2), which needs them mapped for that, tells
/// the ones that are ready.
#[must_use]
pub fn holds_whole(file: BorrowedFd<'_>, offset: u64, len: usize) -> bool {
    let page = rustix::param::page_size() as u64;
    let start = offset - offset % page;
    let Some(end) = offset.checked_add(len as u64) else {
        return false;
    };
    let pages = (end - start).div_ceil(page);
    if len == 0 || len > SPLICED_BYTES_MAX {
        return false;
    }
    let counted = cachestat(file, offset, len as u64);
    counted.is_ok_and(|counted| counted.cached >= pages)
        && pages_are_ready(file, start, (end - start) as usize)
}

/// Whether all pages of `len` bytes from `start` on, which is the beginning of a page, are in the page cache and ready.
fn pages_are_ready(file: BorrowedFd<'_>, start: u64, len: usize) -> bool {
    const PAGES_MAX: usize = SPLICED_BYTES_MAX / 4096 + 1;
    let pages = len.div_ceil(rustix::param::page_size());
    let mut ready = [0_u8; PAGES_MAX];
    let (Ok(at), Some(ready)) = (i64::try_from(start), ready.get_mut(..pages)) else {
        return false;
    };
    // SAFETY: a new mapping, at a place of the kernel's choice, of which nothing is ever read or written: it allows no
    // access.
    let mapped = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            len,
            libc::PROT_NONE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            at,
        )
    };
    if mapped == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: the range is the mapping made above, and `ready` has a byte for each of its pages.
    let told = unsafe { libc::mincore(mapped, len, ready.as_mut_ptr()) };
    // SAFETY: the mapping was made above, nobody else knows of it, and it is not used any more.
    unsafe { libc::munmap(mapped, len) };
    told == 0 && ready.iter().all(|page| page & 1 == 1)
}

/// The number of cachestat(2), the same on every architecture; libc has it only for some of them.
const SYS_CACHESTAT: libc::c_long = 451;

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::super::{OFlags, OpenHow, openat2, tmpfile};
    use super::*;
    use crate::testing::{Scratch, skip, small_tmpfs};

    #[test]
    fn asking_for_dontcache_moves_nothing() {
        let scratch = Scratch::new();
        let file = tmpfile(scratch.dir(), 0o600).unwrap();
        let asked = takes_dontcache(file.as_fd()).unwrap();
        assert_eq!(
            takes_dontcache(file.as_fd()),
            Ok(asked),
            "the same each time"
        );
        let path = super::super::reopen(file.as_fd(), OFlags::PATH).unwrap();
        assert_eq!(takes_dontcache(path.as_fd()), Err(Errno::BADF));
    }

    #[test]
    fn cached_bytes_are_read_without_waiting() {
        let scratch = Scratch::new();
        let file = scratch.file("f", &[7; 10_000]);
        let mut buffer = [0; 16_384];
        match pread_nowait(file.as_fd(), &mut buffer, 0, Mode::Buffered) {
            Ok(bytes) => {
                assert!((1..=10_000).contains(&bytes) && buffer[..bytes] == [7; 10_000][..bytes])
            }
            Err(errno) => assert!([Errno::AGAIN, Errno::OPNOTSUPP].contains(&errno), "{errno}"),
        }
        let past = pread_nowait(file.as_fd(), &mut buffer, 10_000, Mode::Buffered);
        assert!([Ok(0), Err(Errno::AGAIN), Err(Errno::OPNOTSUPP)].contains(&past));
    }

    #[test]
    fn the_cache_is_counted_in_pages() {
        let Some(mount) = small_tmpfs(1 << 20) else {
            skip!("mounting a tmpfs needs CAP_SYS_ADMIN");
        };
        // A tmpfs is nothing but page cache, which nobody else gives up.
        let page = rustix::param::page_size();
        let file = tmpfile(mount.as_fd(), 0o600).unwrap();
        rustix::io::pwrite(&file, &vec![1; 3 * page], 0).unwrap();
        let whole = match cachestat(file.as_fd(), 0, 0) {
            Err(Errno::NOSYS) => skip!("cachestat needs Linux 6.5"),
            counted => counted.unwrap(),
        };
        assert_eq!((whole.cached, whole.evicted), (3, 0));
        let page = page as u64;
        let part = cachestat(file.as_fd(), page, page + 1).unwrap();
        assert_eq!(part.cached, 2, "one and a byte of the next");
        assert_eq!(cachestat(file.as_fd(), 3 * page, 0).unwrap().cached, 0);
        let object = openat2(mount.as_fd(), b".", OpenHow::beneath(OFlags::PATH)).unwrap();
        assert_eq!(cachestat(object.as_fd(), 0, 0), Err(Errno::BADF));
    }

    #[test]
    fn a_file_is_held_whole_where_each_page_is_there() {
        let Some(mount) = small_tmpfs(4 << 20) else {
            skip!("mounting a tmpfs needs CAP_SYS_ADMIN");
        };
        let page = rustix::param::page_size();
        let file = tmpfile(mount.as_fd(), 0o600).unwrap();
        if cachestat(file.as_fd(), 0, 0) == Err(Errno::NOSYS) {
            skip!("cachestat needs Linux 6.5");
        }
        rustix::io::pwrite(&file, &vec![1; 3 * page], 0).unwrap();
        rustix::io::pwrite(&file, &vec![1; page], 5 * page as u64).unwrap();
        let holds = |offset: usize, len| holds_whole(file.as_fd(), offset as u64, len);
        assert!(holds(0, 3 * page) && holds(100, 3 * page - 100) && holds(page + 1, page));
        assert!(!holds(0, 3 * page + 1) && !holds(2 * page, 4 * page));
        assert!(holds(5 * page, page) && !holds(5 * page, page + 1));
        assert!(!holds(0, 0) && !holds(usize::MAX, 1) && !holds(0, SPLICED_BYTES_MAX + 1));
    }

    #[test]
    fn nobody_locks_readers_out_of_a_file_that_nobody_writes() {
        let scratch = Scratch::new();
        let file = scratch.file("f", &[7; 10_000]);
        assert!(!reads_are_locked_out(file.as_fd()));
        let path = super::super::reopen(file.as_fd(), OFlags::PATH).unwrap();
        assert!(!reads_are_locked_out(path.as_fd()));
    }

    #[test]
    fn what_is_clean_can_be_dropped_from_the_cache() {
        let scratch = Scratch::new();
        let file = scratch.file("f", &[7; 100_000]);
        // What tmpfs holds is nowhere else.
        let is_tmpfs = crate::fs::statfs(file.as_fd()).unwrap().fs_type == 0x0102_1994;
        let left = || -> Result<u64> {
            fsync(file.as_fd())?;
            drop_cached(file.as_fd())?;
            Ok(cachestat(file.as_fd(), 0, 0)?.cached)
        };
        // A page that the kernel itself is looking at stays, this time.
        let all: Result<Vec<u64>> = (0..16).map(|_| left()).collect();
        match all {
            Ok(all) => assert!(is_tmpfs || all.contains(&0), "{all:?}"),
            Err(errno) => assert_eq!(errno, Errno::NOSYS),
        }
        let object = scratch.object("f");
        assert_eq!(drop_cached(object.as_fd()), Err(Errno::BADF));
    }

    #[test]
    fn flushing_needs_a_real_descriptor() {
        let scratch = Scratch::new();
        let file = scratch.file("f", b"x");
        for fd in [file.as_fd(), scratch.dir()] {
            assert_eq!((fsync(fd), fdatasync(fd)), (Ok(()), Ok(())));
        }
        assert_eq!(syncfs(scratch.dir()), Ok(()));
        let object = scratch.object("f");
        assert_eq!(fsync(object.as_fd()), Err(Errno::BADF));
        assert_eq!(syncfs(object.as_fd()), Err(Errno::BADF));
    }
}
