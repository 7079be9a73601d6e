//! Data that is already in memory, and flushing. Everything else goes through an engine.

use std::io::IoSliceMut;
use std::os::fd::BorrowedFd;

use rustix::io::{ReadWriteFlags, retry_on_intr};

use crate::Result;

/// Reads what the page cache holds, without waiting for a device; preadv2(2) `RWF_NOWAIT`.
/// Returns how many bytes: fewer than asked at the end of the file, or where the cached part
/// ends. 0 is the end of the file.
///
/// # Errors
/// `EAGAIN` where the first byte is not there, `EOPNOTSUPP` where the file system cannot do it.
pub fn pread_nowait(file: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize> {
    retry_on_intr(|| {
        let mut slices = [IoSliceMut::new(buffer)];
        rustix::io::preadv2(file, &mut slices, offset, ReadWriteFlags::NOWAIT)
    })
}

/// Puts data and attributes of a file or directory on stable storage.
///
/// # Errors
/// `EIO`, `ENOSPC`, `EDQUOT` where writing back failed, now or since the last call on this open
/// file; `EINVAL` for what cannot be flushed; `EBADF` for an `O_PATH` descriptor.
pub fn fsync(fd: BorrowedFd<'_>) -> Result<()> {
    retry_on_intr(|| rustix::fs::fsync(fd))
}

/// As [`fsync`], without the attributes that reading the data back does not need.
///
/// # Errors
/// As [`fsync`].
pub fn fdatasync(fd: BorrowedFd<'_>) -> Result<()> {
    retry_on_intr(|| rustix::fs::fdatasync(fd))
}

/// Puts the whole file system of `fd` on stable storage.
///
/// # Errors
/// `EIO` and the like where writing back failed (since Linux 5.8); `EBADF` for an `O_PATH`
/// descriptor.
pub fn syncfs(fd: BorrowedFd<'_>) -> Result<()> {
    retry_on_intr(|| rustix::fs::syncfs(fd))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::Errno;
    use crate::testing::Scratch;

    #[test]
    fn cached_bytes_are_read_without_waiting() {
        let scratch = Scratch::new();
        let file = scratch.file("f", &[7; 10_000]);
        let mut buffer = [0; 16_384];
        match pread_nowait(file.as_fd(), &mut buffer, 0) {
            Ok(bytes) => {
                assert!((1..=10_000).contains(&bytes) && buffer[..bytes] == [7; 10_000][..bytes])
            }
            Err(errno) => assert!([Errno::AGAIN, Errno::OPNOTSUPP].contains(&errno), "{errno}"),
        }
        let past = pread_nowait(file.as_fd(), &mut buffer, 10_000);
        assert!([Ok(0), Err(Errno::AGAIN), Err(Errno::OPNOTSUPP)].contains(&past));
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
