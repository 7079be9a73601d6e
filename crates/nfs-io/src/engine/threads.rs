//! Executing an operation with blocking calls, on a thread that may block.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::AsFd;

use rustix::io::ReadWriteFlags;

use crate::faults::Fault;
use crate::identity::run_as;
use crate::op::left;
use crate::progress::Next;
use crate::{Creds, Op, OpResult, Result, fs};

/// Runs `op` to its end with the identity `creds`.
pub(super) fn execute(mut op: Op, creds: &Creds) -> OpResult {
    let result = run_as(creds, || run(&mut op));
    OpResult {
        result,
        buf: op.into_buf(),
    }
}

fn run(op: &mut Op) -> Result<usize> {
    let mut progress = op.progress();
    loop {
        let step = call(op, progress.done());
        if let Next::Over(result) = progress.step(step) {
            return result;
        }
    }
}

/// One system call, for what is left behind the first `done` bytes; or what a test wants instead.
fn call(op: &mut Op, done: usize) -> Result<usize> {
    // A flush asks for its own: it is also called from elsewhere.
    let moves = !matches!(op, Op::Fsync { .. });
    let Some(fault) = moves.then(|| op.fault()).flatten() else {
        return ask(op, done, None);
    };
    match fault.errno() {
        Some(errno) => Err(errno),
        None => fault.told(ask(op, done, Some(fault))),
    }
}

fn ask(op: &mut Op, done: usize, fault: Option<Fault>) -> Result<usize> {
    match op {
        Op::Read {
            file,
            offset,
            buf,
            range,
            mode,
            ..
        } => {
            let left = left(range, done, *mode, fault);
            let mut left = [IoSliceMut::new(&mut buf[left])];
            let flags = ReadWriteFlags::from_bits_retain(mode.rwf());
            rustix::io::preadv2(&*file, &mut left, at(*offset, done), flags)
        }
        Op::Write {
            file,
            offset,
            buf,
            range,
            sync,
            mode,
            ..
        } => {
            let left = [IoSlice::new(&buf[left(range, done, *mode, fault)])];
            let flags = ReadWriteFlags::from_bits_retain(sync.rwf() | mode.rwf());
            rustix::io::pwritev2(&*file, &left, at(*offset, done), flags)
        }
        Op::Fsync {
            file,
            data_only: true,
        } => fs::fdatasync(file.as_fd()).map(|()| 0),
        Op::Fsync {
            file,
            data_only: false,
        } => fs::fsync(file.as_fd()).map(|()| 0),
    }
}

/// Behind what is done. Cannot wrap: the kernel transfers nothing beyond 2^63.
fn at(offset: u64, done: usize) -> u64 {
    offset.saturating_add(done as u64)
}
