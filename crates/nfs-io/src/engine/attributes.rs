//! Putting an inode's attributes on stable storage without the data that waits in the page cache.
//!
//! fsync(2) writes all of a file's data back before its attributes. The kernel can do it for a range of the
//! data: that is what a write with `O_SYNC` ends in, and what io_uring offers as an operation. A range
//! behind the end of every file has no data. The file system does for it what it does for the attributes after
//! an `O_SYNC` write: XFS and ext4 force their log as far as the inode's last change is in it. File systems
//! that make the range a whole file (btrfs), or leave the work to a peer, write the data as well.
//!
//! The ring belongs to the calling thread and has room for one operation.

use std::cell::RefCell;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use io_uring::IoUring;
use io_uring::opcode;
use io_uring::types::Fd;

use super::uring::{build, errno_of};
use crate::{Errno, Result, fs};

/// A byte that no file has: the kernel's largest offset is one less than 2^63, and no file goes as far.
const BEHIND_EVERY_FILE: u64 = (1 << 63) - 4096;

/// What the ring says of an operation that it could not start.
const NOT_BEGUN: [Errno; 4] = [Errno::CANCELED, Errno::AGAIN, Errno::INTR, Errno::OPNOTSUPP];

thread_local! {
    static RING: RefCell<Option<IoUring>> = const { RefCell::new(None) };
}

/// Puts what was changed of a file's attributes on stable storage, its size among them, and of its data as
/// little as the file system allows. Waits for it. Where the kernel has no io_uring for us this is an fsync.
///
/// # Errors
/// As fsync(2).
pub fn sync_attributes(file: impl AsFd) -> Result<()> {
    let asked = RING.with_borrow_mut(|ring| {
        if ring.is_none() {
            *ring = Some(build(1)?.0);
        }
        let Some(ring) = ring else {
            return Err(Errno::NOSYS);
        };
        sync_nothing_of(ring, file.as_fd().as_raw_fd())
    });
    match asked {
        Ok(0) => Ok(()),
        // The operation's own failure. What says that it was not begun is no answer.
        Ok(result) if !NOT_BEGUN.contains(&errno(result)) => Err(errno(result)),
        Ok(_) | Err(_) => {
            RING.with_borrow_mut(|ring| *ring = None);
            fs::fsync(file.as_fd())
        }
    }
}

fn errno(result: i32) -> Errno {
    Errno::from_raw_os_error(result.saturating_neg())
}

/// The result of the operation; an error where the ring itself does not work.
fn sync_nothing_of(ring: &mut IoUring, file: RawFd) -> Result<i32> {
    let entry = opcode::Fsync::new(Fd(file))
        .offset(BEHIND_EVERY_FILE)
        .len(1)
        .build();
    // SAFETY: the entry points to no memory. The caller borrows the descriptor until this returns, which is
    // after the kernel has looked at it: it does so when the entry is submitted.
    let pushed = unsafe { ring.submission().push(&entry) };
    pushed.map_err(|_full| Errno::BUSY)?;
    loop {
        match ring.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if errno_of(&error) == Errno::INTR => {}
            Err(error) => return Err(errno_of(&error)),
        }
        if let Some(completion) = ring.completion().next() {
            return Ok(completion.result());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::{CacheStat, cachestat, tmpfile};
    use crate::probe;
    use crate::testing::{disk_fs, skip};

    #[test]
    fn attributes_are_synced_while_the_data_waits() {
        const BYTES: usize = 8 << 20;
        /// The kernel writes back what is dirty when it likes, more of it the busier the machine is.
        const TRIES: u32 = 16;
        if let Err(reason) = probe::uring() {
            skip!("{reason}");
        }
        for kind in ["xfs", "ext4"] {
            let root = match disk_fs(kind, 512) {
                Ok(root) => root,
                Err(missing) => skip!("{missing}"),
            };
            let waiting = |stat: CacheStat| stat.dirty + stat.writeback;
            let counts = || -> crate::Result<(u64, u64)> {
                let file = tmpfile(root.as_fd(), 0o600)?;
                rustix::io::pwrite(&file, &vec![1; BYTES], 0)?;
                fs::chmod(file.as_fd(), 0o640)?;
                let before = waiting(cachestat(file.as_fd(), 0, 0)?);
                sync_attributes(&file)?;
                sync_attributes(&file)?;
                Ok((before, waiting(cachestat(file.as_fd(), 0, 0)?)))
            };
            // A sync of the data would leave none of it waiting, each time.
            let all: crate::Result<Vec<_>> = (0..TRIES).map(|_| counts()).collect();
            let all = match all {
                Err(Errno::NOSYS) => skip!("cachestat needs Linux 6.5"),
                counted => counted.unwrap(),
            };
            let waited = all
                .iter()
                .any(|&(before, after)| before > 0 && after == before);
            assert!(waited, "{kind}: {all:?}");
        }
    }

    #[test]
    fn what_cannot_be_synced_is_an_error_and_the_next_call_works() {
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        assert_eq!(sync_attributes(&reader), Err(Errno::INVAL));
        let file = tempfile::tempfile().unwrap();
        assert_eq!(sync_attributes(&file), Ok(()));
    }
}
