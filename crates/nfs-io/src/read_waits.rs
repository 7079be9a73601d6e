//! Which reads wait for the disk although they are told not to wait.
//!
//! A ring tries a read within the submission, with `IOCB_NOWAIT`, and so does a look into the page cache
//! ([`crate::fs::pread_nowait`]). Where the data is not there, the kernel begins to read it, and for that it has to
//! know where on the disk it is. The map of the file, and on btrfs the checksums of its data, are read at once where
//! they are not in memory, whatever flags the read has: read-ahead is not told not to wait (`page_cache_sync_ra`, Linux
//! 6.1 to 7.2). A disk that hangs would so hold the thread that asks, and all that it serves.
//!
//! XFS besides takes a lock of the file for each read through the page cache. A look into the page cache does not wait
//! for it, but a ring that has tried once without waiting tries again (`io_rw_should_retry`), and then waits for the
//! lock within the submission, for as long as a write holds it that itself waits for the disk.

use crate::Mode;
use crate::fs::statfs::{EXT, RAMFS, TMPFS, XFS};

/// When a read waits for the disk, though it is told not to wait, before it can begin to read data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadWaits {
    /// Never: there is no disk.
    Never,
    /// A read through the page cache that comes before the map of the file is in memory, where it stays for as long as
    /// the file is in use. Others are handed to a worker by the kernel itself.
    ForTheMap,
    /// Any that finds a part of the map of the file not in memory.
    ForPartsOfTheMap,
    /// Any of data that is not in memory.
    Often,
}

impl ReadWaits {
    /// So many pieces of a file have room in its inode, which is in memory for as long as the file is open, where
    /// other pieces are in blocks of their own: four on ext4, more on XFS.
    const PIECES_IN_INODE: u64 = 4;

    /// What is known of a file system of the type `fs_type` ([`crate::fs::FsStat::fs_type`]). What is not known counts
    /// as waiting often, which costs time and does no harm.
    ///
    /// XFS reads the whole map of a file at the first need, ext4 a block of it at a time. btrfs reads checksums, too.
    #[must_use]
    pub fn of(fs_type: u32) -> Self {
        match fs_type {
            TMPFS | RAMFS => Self::Never,
            XFS => Self::ForTheMap,
            EXT => Self::ForPartsOfTheMap,
            _ => Self::Often,
        }
    }

    /// Whether a read through the page cache takes a lock of the file that writes hold while they wait for the disk:
    /// [`crate::fs::reads_are_locked_out`] tells whether one does.
    #[must_use]
    pub fn takes_lock(self) -> bool {
        self == Self::ForTheMap
    }

    /// Whether a read in `mode` may wait if the data is not in memory, and the map of the file was not read either. The
    /// file has `blocks` ([`crate::fs::Stat::blocks`]) on a file system with blocks of `block_bytes`.
    #[must_use]
    pub fn may_wait(self, mode: Mode, blocks: u64, block_bytes: u64) -> bool {
        let has_map = blocks.saturating_mul(512) > block_bytes * Self::PIECES_IN_INODE;
        match self {
            Self::Never => false,
            Self::ForTheMap => has_map && mode != Mode::Direct,
            Self::ForPartsOfTheMap => has_map,
            Self::Often => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_few_blocks_has_no_map_to_be_read() {
        const BLOCK: u64 = 4096;
        let of_blocks = |waits: ReadWaits, blocks: u64| {
            [Mode::Buffered, Mode::DontCache, Mode::Direct]
                .map(|mode| waits.may_wait(mode, blocks * (BLOCK / 512), BLOCK))
        };
        assert_eq!(of_blocks(ReadWaits::of(TMPFS), 1000), [false; 3]);
        assert_eq!(of_blocks(ReadWaits::of(XFS), 4), [false; 3]);
        assert_eq!(of_blocks(ReadWaits::of(XFS), 5), [true, true, false]);
        assert_eq!(of_blocks(ReadWaits::of(EXT), 4), [false; 3]);
        assert_eq!(of_blocks(ReadWaits::of(EXT), 5), [true; 3]);
        assert_eq!(of_blocks(ReadWaits::of(1), 0), [true; 3]);
    }
}
