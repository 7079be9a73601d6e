//! What lies between a file's end and a WRITE that begins behind it: zeros, and zeros after a power cut too.
//!
//! A file that was truncated may have what was cut off on its disk still, from its end to the end of that block. XFS
//! sets those bytes to zero in the page cache when the file is truncated or grows, and nothing makes the zeros wait
//! for the disk before the new length does: a direct WRITE, one in the mode dontcache and a stable one put their own
//! range on the disk, and the length that comes with it. A power cut then shows what was cut off in the middle of
//! the file, and the client that sends its WRITE again sends none of these bytes. So the file is first made longer
//! up to the end of its last block, or the WRITE if it begins in there, in the one way in which the kernel writes
//! the zeros back before the length: by fallocate(2), which never makes a file shorter and replaces no data, whoever
//! else writes there. (`xfs_setattr_size` in `fs/xfs/xfs_iops.c` says what it is for.)
//!
//! ext4 has the zeros written with the transaction of the truncation (`data=ordered`), and btrfs never writes over
//! a block: there the call finds nothing to do but the length.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use nfs_io::identity::Guard;
use nfs_io::{Errno, fs};

use super::super::gate::Changing;
use super::super::{Object, Result};
use crate::vfs::{Target, Vfs};

impl Vfs {
    /// Before a WRITE that begins at `offset` into a file of `size` bytes: what of the file's last block lies before
    /// it is zeros, on stable storage no later than any length that the WRITE gives the file.
    ///
    /// # Errors
    /// [`Error::Busy`](super::super::Error::Busy) when too much waits for the file system, and what fallocate(2)
    /// reports. A file system that knows no fallocate(2) is no error.
    pub(super) async fn zero_behind_end(
        self: &Arc<Self>,
        target: &Target,
        file: &Arc<OwnedFd>,
        size: u64,
        offset: u64,
    ) -> Result<()> {
        let block = target.object.mount.block_bytes;
        let Some(to) = end_of_gap(size, offset, block) else {
            return Ok(());
        };
        let (file, job) = (Arc::clone(file), target.clone());
        let changing = Changing::of(target.object.gate(&self.gates));
        let lengthen = move || {
            let _changing = changing;
            let _identity = Guard::enter(&job.actor.creds)?;
            lengthen(file.as_fd(), size, to)
        };
        let done = self.blocking(target.queue(), lengthen).await?;
        done.map_err(Into::into)
    }
}

/// The same for bytes that the kernel copies into a file from `offset` on; to be called as the caller, on a thread
/// that may wait for the disk.
pub(in crate::vfs) fn zero_before_copy(
    object: &Object,
    file: BorrowedFd<'_>,
    offset: u64,
) -> nfs_io::Result<()> {
    let size = fs::statx(file)?.size;
    match end_of_gap(size, offset, object.mount.block_bytes) {
        Some(to) => lengthen(file, size, to),
        None => Ok(()),
    }
}

fn lengthen(file: BorrowedFd<'_>, size: u64, to: u64) -> nfs_io::Result<()> {
    match fs::allocate(file, size, to.saturating_sub(size)) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        done => done,
    }
}

/// Where the last block of a file of `size` bytes ends, or the WRITE at `offset` begins in it; `None` where nothing of
/// that block lies between.
fn end_of_gap(size: u64, offset: u64, block: u64) -> Option<u64> {
    if offset <= size || block == 0 || size.is_multiple_of(block) {
        return None;
    }
    let end = size.checked_next_multiple_of(block);
    Some(end.unwrap_or(offset).min(offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_gap_within_the_last_block_is_filled() {
        let gap = |size, offset| end_of_gap(size, offset, 4096);
        assert_eq!(gap(4173, 92_563), Some(8192));
        assert_eq!(gap(4173, 8192), Some(8192));
        assert_eq!(gap(4173, 5000), Some(5000));
        // It begins at the end, or before it.
        assert_eq!(gap(4173, 4173), None);
        assert_eq!(gap(4173, 0), None);
        // The last block is full, or there is none.
        assert_eq!(gap(8192, 20_000), None);
        assert_eq!(gap(0, 20_000), None);
        // A file system that names no block.
        assert_eq!(end_of_gap(4173, 92_563, 0), None);
    }
}
