//! Several buffers at once, for a thread that may block: one system call keeps a device busier than
//! one for each, and no two writes of one file wait for each other.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;

use rustix::io::ReadWriteFlags;

use crate::faults::{self, Call, Fault};
use crate::mode::Mode;
use crate::progress::{Next, Progress};
use crate::{Errno, Result};

/// Reads from `offset` (bytes) into `buffers`, one after the other, until they are full or the file
/// ends; preadv2(2). For `Direct` the file is open with `O_DIRECT`, and offset, addresses and lengths are
/// aligned as it asks for. Of the bytes read fewer than asked: as [`crate::OpResult::result`] says.
///
/// # Errors
/// What preadv2(2) reports for the first byte; `EINVAL`, `EOPNOTSUPP` or `ENOTBLK` where `mode` is
/// refused.
pub fn read_pieces(
    file: BorrowedFd<'_>,
    mut buffers: &mut [IoSliceMut<'_>],
    offset: u64,
    mode: Mode,
) -> Result<usize> {
    let wanted = buffers.iter().map(|buffer| buffer.len()).sum();
    let flags = ReadWriteFlags::from_bits_retain(mode.rwf());
    run(Progress::new(false, wanted, mode), offset, |at, moved| {
        IoSliceMut::advance_slices(&mut buffers, moved);
        match faults::next(Call::Read, mode, file) {
            None => rustix::io::preadv2(file, buffers, at, flags),
            Some(fault) => met(fault, || {
                let first = buffers.first_mut().map_or(&mut [][..], |first| first);
                let len = fault.asked(first.len(), mode);
                let mut part = [IoSliceMut::new(&mut first[..len])];
                rustix::io::preadv2(file, &mut part, at, flags)
            }),
        }
    })
}

/// Writes all of `buffers`, one after the other, to `offset` (bytes); pwritev2(2). Alignment and a
/// number lower than asked: as for [`read_pieces`].
///
/// # Errors
/// What pwritev2(2) reports, and what refuses `mode` as for [`read_pieces`].
pub fn write_pieces(
    file: BorrowedFd<'_>,
    mut buffers: &mut [IoSlice<'_>],
    offset: u64,
    mode: Mode,
) -> Result<usize> {
    let wanted = buffers.iter().map(|buffer| buffer.len()).sum();
    let flags = ReadWriteFlags::from_bits_retain(mode.rwf());
    run(Progress::new(true, wanted, mode), offset, |at, moved| {
        IoSlice::advance_slices(&mut buffers, moved);
        match faults::next(Call::Write, mode, file) {
            None => rustix::io::pwritev2(file, buffers, at, flags),
            Some(fault) => met(fault, || {
                let first = buffers.first().map_or(&[][..], |first| first);
                let part = [IoSlice::new(&first[..fault.asked(first.len(), mode)])];
                rustix::io::pwritev2(file, &part, at, flags)
            }),
        }
    })
}

/// Calls until nothing is left; `call` gets where in the file, and how many bytes the one before moved.
fn run(
    mut progress: Progress,
    offset: u64,
    mut call: impl FnMut(u64, usize) -> Result<usize>,
) -> Result<usize> {
    let mut moved = 0;
    loop {
        let before = progress.done();
        // Cannot wrap: the kernel transfers nothing beyond 2^63.
        let step = call(offset.saturating_add(before as u64), moved);
        if let Next::Over(result) = progress.step(step) {
            return result;
        }
        moved = progress.done() - before;
    }
}

/// What a test wants instead of the call.
fn met(fault: Fault, call: impl FnOnce() -> Result<usize>) -> Result<usize> {
    match fault.errno() {
        Some(errno) => Err::<usize, Errno>(errno),
        None => fault.told(call()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::faults::Rule;
    use crate::testing::Scratch;

    #[test]
    fn pieces_come_back_as_they_went() {
        let scratch = Scratch::new();
        let file = scratch.file("f", b"");
        let (one, other) = ([1_u8; 5000], [2_u8; 300]);
        for shorten in [None, Some(1), Some(4096), Some(5000)] {
            let _shorter = shorten.map(|bytes| {
                let rule = |call| Rule::new(call, Fault::Shorten(bytes)).of_file(&file);
                (rule(Call::Write).inject(), rule(Call::Read).inject())
            });
            let mut pieces = [IoSlice::new(&one), IoSlice::new(&other)];
            let wrote = write_pieces(file.as_fd(), &mut pieces, 7, Mode::Buffered);
            assert_eq!(wrote, Ok(5300), "{shorten:?}");
            let (mut small, mut rest) = ([0_u8; 299], [9_u8; 6000]);
            let mut pieces = [IoSliceMut::new(&mut small), IoSliceMut::new(&mut rest)];
            let read = read_pieces(file.as_fd(), &mut pieces, 7, Mode::Buffered);
            assert_eq!(read, Ok(5300), "ends with the file: {shorten:?}");
            assert_eq!((small, rest[4700], rest[4701]), ([1; 299], 1, 2));
            assert_eq!((rest[5000], rest[5001]), (2, 9), "nothing behind the end");
        }
    }

    #[test]
    fn the_first_error_is_told_and_a_later_one_left_to_the_next_call() {
        let scratch = Scratch::new();
        let file = scratch.file("f", b"");
        let full = Rule::new(Call::Write, Fault::Fail(Errno::NOSPC)).of_file(&file);
        let full = full.inject();
        let mut pieces = [IoSlice::new(b"abc")];
        let wrote = write_pieces(file.as_fd(), &mut pieces, 0, Mode::DontCache);
        assert_eq!(wrote, Err(Errno::NOSPC));
        drop(full);
        let none = write_pieces(file.as_fd(), &mut [], 0, Mode::Buffered);
        assert_eq!(none, Ok(0));
    }
}
