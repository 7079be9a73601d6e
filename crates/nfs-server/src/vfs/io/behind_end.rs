//! What lies between a file's end and a WRITE that begins behind it: zeros, and zeros after a power cut too.
//!
//! A file that was truncated may have what was cut off on its disk still, from its end to the end of that block. XFS
//! sets those bytes to zero in the page cache when the file is truncated or grows, and nothing makes the zeros wait
//! for the disk before the new length does: a direct WRITE, one in the mode dontcache and a stable one put their own
//! range on the disk, and the length that comes with it. A power cut then shows what was cut off in the middle of
//! the file, and the client that sends its WRITE again sends none of these bytes.
//!
//! So the page is written back first. After a power cut the zeros may be in no page: a file of which the server does
//! not know better is made longer instead, up to the end of its last block, or the WRITE if it begins in there, in
//! the one way in which the kernel itself writes the zeros back before the length: by fallocate(2), which never makes a
//! file shorter and replaces no data, whoever else writes there (`xfs_setattr_size` in `fs/xfs/xfs_iops.c`). That
//! writes back whatever of the file the disk's length does not reach yet, so that it is not done more often.
//!
//! A direct WRITE at the end, or over it, is no better off if it goes past the last block: what it has in that one goes
//! through the page cache, and the rest makes the file longer. If the power goes, and its client never sends it again,
//! there has to be nothing of what was cut off.
//!
//! ext4 has the zeros written with the transaction of the truncation (`data=ordered`), and btrfs never writes over
//! a block: there the call finds nothing to do but the length.

use std::ops::Range;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use nfs_io::identity::Guard;
use nfs_io::{Errno, Mode, fs};

use super::super::gate::Changing;
use super::super::tail::{Growing, Tail};
use super::super::{Object, Result};
use crate::vfs::{Target, Vfs};

impl Vfs {
    /// A WRITE of `len` bytes from `offset` on begins, if it may leave the file's last block in part.
    pub(super) fn begin_growing(
        &self,
        object: &Object,
        offset: u64,
        len: usize,
    ) -> Option<Growing> {
        let block = object.mount.block_bytes.max(1);
        let is_whole = offset.is_multiple_of(block) && (len as u64).is_multiple_of(block);
        (!is_whole).then(|| Growing::begin(object.gate(&self.gates)))
    }

    /// Before a WRITE of `range`, into a file of `size` bytes: what of the file's last block lies before
    /// it, or is not written directly with the rest of it, is zeros, on stable storage no later than any length that the
    /// WRITE gives the file.
    ///
    /// # Errors
    /// [`Error::Busy`](super::super::Error::Busy) when too much waits for the file system, and what fallocate(2)
    /// reports. A file system that knows no fallocate(2) is no error.
    pub(super) async fn zero_behind_end(
        self: &Arc<Self>,
        target: &Target,
        file: &Arc<OwnedFd>,
        mut growing: Option<&mut Growing>,
        (size, range, mode): (u64, &Range<u64>, Mode),
    ) -> Result<()> {
        let block = target.object.mount.block_bytes.max(1);
        let writes = growing.as_mut().filter(|_| !range.is_empty());
        let is_zeros = writes.is_some_and(|write| write.is_zeros(size, range, block));
        if range.is_empty() || is_zeros {
            return Ok(());
        }
        let to = match mode {
            Mode::Direct if range.start <= size => end_of_head(size, range, block),
            Mode::Direct | Mode::Buffered | Mode::DontCache => end_of_gap(size, range.start, block),
        };
        let Some(to) = to else {
            return Ok(());
        };
        let (file, job) = (Arc::clone(file), target.clone());
        let gate = Arc::clone(target.object.gate(&self.gates));
        let changing = Changing::of(&gate);
        let fill = move || {
            let _changing = changing;
            let _identity = Guard::enter(&job.actor.creds)?;
            fill(file.as_fd(), &gate.tail, size..to, block)
        };
        self.blocking(target.queue(), fill).await??;
        if let Some(growing) = growing {
            growing.filled(size, range);
        }
        Ok(())
    }

    /// The same for bytes that the kernel copies into a file from `offset` on; to be called as the caller, on a thread
    /// that may wait for the disk.
    pub(in crate::vfs) fn zero_before_copy(
        &self,
        object: &Object,
        file: BorrowedFd<'_>,
        offset: u64,
    ) -> nfs_io::Result<()> {
        let block = object.mount.block_bytes.max(1);
        let size = fs::statx(file)?.size;
        match end_of_gap(size, offset, block) {
            Some(to) => fill(file, &object.gate(&self.gates).tail, size..to, block),
            None => Ok(()),
        }
    }
}

/// Has zeros in a part of a file's last block, from its end on, before the file is longer on the disk.
fn fill(file: BorrowedFd<'_>, tail: &Tail, part: Range<u64>, block: u64) -> nfs_io::Result<()> {
    if tail.was_zeros() {
        return fs::write_back(file, part.start - part.start % block, block);
    }
    match fs::allocate(file, part.start, part.end.saturating_sub(part.start)) {
        // Nothing else can be done there.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        done => done?,
    }
    tail.is_zeros_now();
    Ok(())
}

/// Where the last block of a file of `size` bytes ends, or the WRITE at `offset` begins in it; `None` where nothing of
/// that block lies between. `block` is its bytes, at least 1.
fn end_of_gap(size: u64, offset: u64, block: u64) -> Option<u64> {
    if offset <= size || size.is_multiple_of(block) {
        return None;
    }
    let end = size.checked_next_multiple_of(block);
    Some(end.unwrap_or(offset).min(offset))
}

/// Where the last block of a file of `size` bytes ends, if it is not full, and a WRITE of `range` begins within it, but
/// not with it, and goes past it.
fn end_of_head(size: u64, range: &Range<u64>, block: u64) -> Option<u64> {
    let end = size.checked_next_multiple_of(block)?;
    let begins_within = size < end && range.start > end.saturating_sub(block);
    (begins_within && end < range.end).then_some(end)
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
    }

    #[test]
    fn only_what_goes_past_the_last_block_has_a_head_in_it() {
        let head = |size, range| end_of_head(size, &range, 4096);
        assert_eq!(head(4173, 4173..8193), Some(8192));
        assert_eq!(head(4173, 4100..8193), Some(8192));
        // It ends there, or the block is written with what is behind it.
        assert_eq!(head(4173, 4173..8192), None);
        assert_eq!(head(4173, 4096..20_000), None);
        assert_eq!(head(4173, 100..20_000), None);
        // The last block is full, or there is none.
        assert_eq!(head(8192, 8192..20_000), None);
        assert_eq!(head(0, 0..20_000), None);
    }
}
