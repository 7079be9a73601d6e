//! Reads, writes and flushes as values: what an [`crate::Engine`] executes.

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use crate::faults::{self, Call, Fault};
use crate::mode::Mode;
use crate::progress::Progress;
use crate::{Buf, Errno, Result};

/// One operation on an open file. Owns all it needs, so that whoever asked for it may go away.
#[derive(Debug)]
pub enum Op {
    /// Read from `offset` (bytes) into `buf[range]` until the range is full or the file ends.
    Read {
        /// The file that is read, open for reading.
        file: Arc<OwnedFd>,
        /// Where in the file to begin, in bytes.
        offset: u64,
        /// The buffer that is read into.
        buf: Buf,
        /// Which part of the buffer is filled, in bytes; within its length.
        range: Range<usize>,
        /// The mode of the transfer. For `Direct` the file was opened with `O_DIRECT`, and offset, length and
        /// the address of the part are aligned as the file asks for.
        mode: Mode,
        /// It may have to wait for the disk before the data can be asked for: see [`crate::read_waits`].
        may_wait: bool,
        /// What must not end before the operation has.
        keep: Keep,
    },
    /// Write all of `buf[range]` to `offset` (bytes).
    Write {
        /// The file that is written, open for writing.
        file: Arc<OwnedFd>,
        /// Where in the file to begin, in bytes.
        offset: u64,
        /// The buffer that holds the data.
        buf: Buf,
        /// Which part of the buffer is written, in bytes; within its length.
        range: Range<usize>,
        /// What is on stable storage when it is done.
        sync: WriteSync,
        /// The mode of the transfer, with the conditions that a read has for `Direct`.
        mode: Mode,
        /// It may have to wait for the disk before it can change the page cache: see [`crate::write_waits`].
        may_wait: bool,
        /// What must not end before the operation has.
        keep: Keep,
    },
    /// Put what was written before on stable storage.
    Fsync {
        /// Any open file, or directory open for reading.
        file: Arc<OwnedFd>,
        /// Whether attributes that reading does not need may be left out.
        data_only: bool,
    },
}

/// Something that lives until the kernel works no more on an operation, also where nobody waits
/// for it any longer: a turn, a share, a lock. Dropped before the waiter learns of the end, in
/// the midst of the engine's work: dropping it must not use the engine.
#[derive(Default)]
pub struct Keep(Option<Box<dyn Send>>);

impl Keep {
    /// Keeps nothing alive: for operations that need nothing beyond their own fields.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    /// Keeps this value alive. It is dropped on whatever thread the operation ends.
    #[must_use]
    pub fn new(value: impl Send + 'static) -> Self {
        Self(Some(Box::new(value)))
    }
}

impl std::fmt::Debug for Keep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Keep(..)" } else { "Keep" })
    }
}

/// What is on stable storage when a write is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteSync {
    /// The data may be in memory only.
    None,
    /// The data and what is needed to read it back: `RWF_DSYNC`.
    Dsync,
    /// Data and all attributes: `RWF_DSYNC | RWF_SYNC`.
    Sync,
}

impl WriteSync {
    /// The `RWF_*` bits of pwritev2(2).
    #[must_use]
    pub fn rwf(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Dsync => RWF_DSYNC,
            Self::Sync => RWF_DSYNC | RWF_SYNC,
        }
    }
}

const RWF_DSYNC: u32 = libc::RWF_DSYNC as u32;
const RWF_SYNC: u32 = libc::RWF_SYNC as u32;

/// The end of an operation: what was moved, and the buffer back.
#[derive(Debug)]
pub struct OpResult {
    /// Bytes read or written; 0 for a flush. Fewer than asked: for a read the end of the file,
    /// or an error behind the first bytes that the next read will meet; for a write an error
    /// behind the first bytes, which the next write will meet (never `EIO`, of which the kernel tells once). What is counted is as durable as
    /// was asked.
    ///
    /// Of a direct transfer fewer than asked may also be a part that ends off the alignment: what
    /// is left cannot be asked for directly. `EINVAL`, `EOPNOTSUPP` or `ENOTBLK` of one in a mode
    /// other than `Buffered`: the mode is refused. A beginning may have been moved all the same
    /// (ext4, a direct write over several extents): move all of it again.
    ///
    /// `EAGAIN` says that the lane's queue is full and nothing was done: the only case in which
    /// it appears. `EINVAL` for an offset of 2^63 or more.
    pub result: Result<usize>,
    /// The operation's buffer. `None` for a flush, and where the engine was shut down before
    /// the operation had ended (`ECANCELED`).
    pub buf: Option<Buf>,
}

impl Op {
    /// Whether the kernel may be asked: an offset is a file position, of 63 bits. (io_uring
    /// takes 2^64 - 1 for "the file's own position".)
    ///
    /// # Panics
    /// When the range is not within the buffer: a mistake of ours, not of a peer.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Self::Read {
                offset, buf, range, ..
            }
            | Self::Write {
                offset, buf, range, ..
            } => {
                assert!(
                    range.start <= range.end && range.end <= buf.len(),
                    "{range:?} is not within {buf:?}"
                );
                if i64::try_from(*offset).is_err() {
                    Err(Errno::INVAL)
                } else {
                    Ok(())
                }
            }
            Self::Fsync { .. } => Ok(()),
        }
    }

    /// What a test wants of the next call for this operation.
    pub(crate) fn fault(&self) -> Option<Fault> {
        match self {
            Self::Read { file, mode, .. } => faults::next(Call::Read, *mode, file.as_fd()),
            Self::Write { file, mode, .. } => faults::next(Call::Write, *mode, file.as_fd()),
            Self::Fsync { file, .. } => faults::next(Call::Fsync, Mode::Buffered, file.as_fd()),
        }
    }

    /// Whether it need not be done where nobody waits for it any more: nothing is different after it.
    pub(crate) fn changes_nothing(&self) -> bool {
        matches!(self, Self::Read { .. })
    }

    /// Whether it may wait for the disk though the kernel is told not to wait (`IOCB_NOWAIT`).
    ///
    /// Of a read that waits before it asks for the data, and of a write to the page cache that waits before it changes
    /// anything, its `may_wait` tells.
    /// What has to be stable is flushed at the end of the write: XFS does that at once where the data went into the page
    /// cache, or where the device has ended the direct write by then. And what is not to stay in the page cache is handed
    /// to the device at the end of the write, which may have no room for it (`filemap_fdatawrite_range_kick`).
    pub(crate) fn waits_in_spite_of_nowait(&self) -> bool {
        match self {
            Self::Write {
                sync,
                mode,
                may_wait,
                ..
            } => *may_wait || !matches!(sync, WriteSync::None) || *mode == Mode::DontCache,
            Self::Read { may_wait, .. } => *may_wait,
            Self::Fsync { .. } => false,
        }
    }

    /// Bytes that the operation is to move; 0 for a flush.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Read { range, .. } | Self::Write { range, .. } => range.len(),
            Self::Fsync { .. } => 0,
        }
    }

    /// Where the operation stands before its first call.
    pub(crate) fn progress(&self) -> Progress {
        match self {
            Self::Read { range, mode, .. } => Progress::new(false, range.len(), *mode),
            Self::Write { range, mode, .. } => Progress::new(true, range.len(), *mode),
            Self::Fsync { .. } => Progress::new(false, 0, Mode::Buffered),
        }
    }

    pub(crate) fn into_buf(self) -> Option<Buf> {
        match self {
            Self::Read { buf, .. } | Self::Write { buf, .. } => Some(buf),
            Self::Fsync { .. } => None,
        }
    }

    pub(crate) fn failed(self, errno: Errno) -> OpResult {
        OpResult {
            result: Err(errno),
            buf: self.into_buf(),
        }
    }
}

/// Which part of the buffer the next call moves: what lies behind the first `done` bytes, or less where a
/// test wants that.
pub(crate) fn left(
    range: &Range<usize>,
    done: usize,
    mode: Mode,
    fault: Option<Fault>,
) -> Range<usize> {
    let start = range.start + done;
    let len = range.end - start;
    start..start + fault.map_or(len, |fault| fault.asked(len, mode))
}
