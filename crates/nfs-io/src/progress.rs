//! How far one read, write or flush is, call by call: the one place where short transfers, `EINTR` and
//! `EAGAIN` are judged, the same for both engines and for calls that block.

use crate::limits::{AGAIN_RETRIES_MAX, DIRECT_ALIGN_BYTES_MIN};
use crate::mode::Mode;
use crate::{Errno, Result};

/// What follows after one kernel call of an operation that may need several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The operation is not over: ask the kernel for the rest.
    Again,
    /// The operation is over, with this result: bytes moved, or the error.
    Over(Result<usize>),
}

/// How much of one read, write or flush is done, and how often it may still be tried again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    write: bool,
    direct: bool,
    wanted: usize,
    done: usize,
    again_left: u32,
}

impl Progress {
    /// The progress of an operation before its first call: a transfer of `wanted` bytes, or 0 for what moves
    /// none.
    pub(crate) fn new(write: bool, wanted: usize, mode: Mode) -> Self {
        Self {
            write,
            direct: mode == Mode::Direct,
            wanted,
            done: 0,
            again_left: AGAIN_RETRIES_MAX,
        }
    }

    /// Bytes that all calls have transferred so far.
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
