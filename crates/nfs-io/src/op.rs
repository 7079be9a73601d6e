//! Reads, writes and flushes as values: what an [`crate::Engine`] executes.

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use crate::faults::{self, Call, Fault};
use crate::limits::{AGAIN_RETRIES_MAX, DIRECT_ALIGN_BYTES_MIN};
use crate::plan::Mode;
use crate::{Buf, Errno, Result};

/// One operation on an open file. Owns all it needs, so that whoever asked for it may go away.
#[derive(Debug)]
pub enum Op {
    /// Read from `offset` (bytes) into `buf[range]` until the range is full or the file ends.
    Read {
        /// Open for reading.
        file: Arc<OwnedFd>,
        /// Where in the file, in bytes.
        offset: u64,
        /// Where to.
        buf: Buf,
        /// Which part of the buffer; within its length.
        range: Range<usize>,
        /// How. `Direct`: the file was opened with `O_DIRECT`; offset, length and the address
        /// of the part are aligned as the file asks for.
        mode: Mode,
        /// What must not end before the operation has.
        keep: Keep,
    },
    /// Write all of `buf[range]` to `offset` (bytes).
    Write {
        /// Open for writing.
        file: Arc<OwnedFd>,
        /// Where in the file, in bytes.
        offset: u64,
        /// Where from.
        buf: Buf,
        /// Which part of the buffer; within its length.
        range: Range<usize>,
        /// What is on stable storage when it is done.
        sync: WriteSync,
        /// How; as for a read.
        mode: Mode,
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
    /// Nothing.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    /// This value. It is dropped on whatever thread the operation ends.
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
    /// Nothing promised.
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

impl Mode {
    /// The `RWF_*` bits of preadv2(2) and pwritev2(2). `Direct` is a property of the open file.
    pub(crate) fn rwf(self) -> u32 {
        match self {
            Self::Buffered | Self::Direct => 0,
            Self::DontCache => RWF_DONTCACHE,
        }
    }
}

/// `<linux/fs.h>`, Linux 6.14; libc has no name for it yet.
pub(crate) const RWF_DONTCACHE: u32 = 0x80;
const RWF_DSYNC: u32 = libc::RWF_DSYNC as u32;
const RWF_SYNC: u32 = libc::RWF_SYNC as u32;

/// How an operation ended.
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

    /// Bytes that are to be moved.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Read { range, .. } | Self::Write { range, .. } => range.len(),
            Self::Fsync { .. } => 0,
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

/// Which part of the buffer the next call moves: what is behind the first `done` bytes, or less
/// where a test wants that.
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

/// What follows after one kernel call of an operation that may need several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Ask for the rest.
    Again,
    /// Over, with this result.
    Over(Result<usize>),
}

/// How far an operation is. The one place where short transfers are judged, the same for both
/// engines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    write: bool,
    direct: bool,
    wanted: usize,
    done: usize,
    again_left: u32,
}

impl Progress {
    pub(crate) fn new(op: &Op) -> Self {
        let (write, wanted, mode) = match op {
            Op::Read { range, mode, .. } => (false, range.len(), *mode),
            Op::Write { range, mode, .. } => (true, range.len(), *mode),
            Op::Fsync { .. } => (false, 0, Mode::Buffered),
        };
        Self::of(write, wanted, mode)
    }

    /// Of a transfer of `wanted` bytes.
    pub(crate) fn of(write: bool, wanted: usize, mode: Mode) -> Self {
        Self {
            write,
            direct: mode == Mode::Direct,
            wanted,
            done: 0,
            again_left: AGAIN_RETRIES_MAX,
        }
    }

    /// Bytes transferred so far.
    pub(crate) fn done(&self) -> usize {
        self.done
    }

    /// Takes note of what one call did.
    pub(crate) fn step(&mut self, step: Result<usize>) -> Next {
        match step {
            Ok(0) if self.write && self.done < self.wanted => {
                // What writes nothing and names no error would go on for ever.
                self.over(Errno::IO)
            }
            Ok(0) => Next::Over(Ok(self.done)),
            Ok(bytes) => {
                self.done += bytes;
                // Off every alignment, what is left could only be refused, or moved in another
                // way than was asked. Where a device's own alignment is larger, it refuses.
                let askable = !self.direct || self.done.is_multiple_of(DIRECT_ALIGN_BYTES_MIN);
                if self.done >= self.wanted || !askable {
                    Next::Over(Ok(self.done))
                } else {
                    Next::Again
                }
            }
            Err(Errno::INTR) => Next::Again,
            Err(Errno::AGAIN) if self.again_left > 0 => {
                self.again_left -= 1;
                Next::Again
            }
            // A blocking call has no business to say so over and over.
            Err(Errno::AGAIN) => self.over(Errno::IO),
            // It may be a lost write of somebody else that a stable write's sync found, which the
            // kernel tells of once: there is no next call that meets it.
            Err(Errno::IO) if self.write => Next::Over(Err(Errno::IO)),
            Err(errno) => self.over(errno),
        }
    }

    /// write(2): what was transferred counts, and the error meets the next call.
    fn over(&self, errno: Errno) -> Next {
        Next::Over(if self.done > 0 {
            Ok(self.done)
        } else {
            Err(errno)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(write: bool, wanted: usize) -> Progress {
        Progress {
            write,
            direct: false,
            wanted,
            done: 0,
            again_left: AGAIN_RETRIES_MAX,
        }
    }

    #[test]
    fn short_transfers_are_resumed_and_ends_recognised() {
        let mut read = progress(false, 10);
        assert_eq!(read.step(Ok(4)), Next::Again);
        assert_eq!(read.step(Err(Errno::INTR)), Next::Again);
        assert_eq!(read.step(Ok(0)), Next::Over(Ok(4)), "end of the file");
        assert_eq!(
            read.step(Err(Errno::IO)),
            Next::Over(Ok(4)),
            "the next read meets the error"
        );
        let mut write = progress(true, 10);
        assert_eq!(write.step(Ok(4)), Next::Again);
        assert_eq!(write.step(Ok(6)), Next::Over(Ok(10)));
        let mut lost = progress(true, 10);
        assert_eq!(lost.step(Ok(4)), Next::Again);
        assert_eq!(
            lost.step(Err(Errno::IO)),
            Next::Over(Err(Errno::IO)),
            "told once"
        );
        assert_eq!(progress(true, 0).step(Ok(0)), Next::Over(Ok(0)));
        assert_eq!(progress(true, 5).step(Ok(0)), Next::Over(Err(Errno::IO)));
        assert_eq!(
            progress(true, 5).step(Err(Errno::NOSPC)),
            Next::Over(Err(Errno::NOSPC))
        );
    }

    #[test]
    fn a_direct_transfer_is_resumed_on_the_alignment_only() {
        let direct = |write| Progress {
            direct: true,
            ..progress(write, 8192)
        };
        for write in [false, true] {
            let mut off = direct(write);
            assert_eq!(off.step(Ok(4196)), Next::Over(Ok(4196)));
            let mut on = direct(write);
            assert_eq!(on.step(Ok(512)), Next::Again);
            assert_eq!(on.step(Err(Errno::INTR)), Next::Again);
            assert_eq!(on.step(Ok(3584)), Next::Again);
            assert_eq!(on.step(Ok(4096)), Next::Over(Ok(8192)));
            let mut device_of_4096 = direct(write);
            assert_eq!(device_of_4096.step(Ok(512)), Next::Again);
            assert_eq!(device_of_4096.step(Err(Errno::INVAL)), Next::Over(Ok(512)));
            let refused = direct(write).step(Err(Errno::INVAL));
            assert_eq!(refused, Next::Over(Err(Errno::INVAL)));
        }
        let mut end = direct(false);
        assert_eq!(end.step(Ok(4096)), Next::Again);
        assert_eq!(end.step(Ok(0)), Next::Over(Ok(4096)), "an aligned end");
        let mut lost = direct(true);
        assert_eq!(lost.step(Ok(4096)), Next::Again);
        assert_eq!(lost.step(Err(Errno::IO)), Next::Over(Err(Errno::IO)));
    }

    #[test]
    fn eagain_is_tried_again_but_never_for_ever_and_never_shown() {
        let mut read = progress(false, 10);
        for _ in 0..AGAIN_RETRIES_MAX {
            assert_eq!(read.step(Err(Errno::AGAIN)), Next::Again);
        }
        assert_eq!(read.step(Err(Errno::AGAIN)), Next::Over(Err(Errno::IO)));
    }
}
