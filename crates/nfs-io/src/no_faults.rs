//! What `faults` is where it is not built in: nothing, of which nothing is left in the program.

use std::os::fd::BorrowedFd;

use crate::mode::Mode;
use crate::{Errno, Result};

#[derive(Clone, Copy)]
pub(crate) enum Call {
    Read,
    Write,
    Fsync,
    OpenDirect,
    Allocate,
    Close,
}

/// A fault, of which there is none in a build without fault injection: no value of this type exists.
#[derive(Clone, Copy)]
pub(crate) enum Fault {}

impl Fault {
    pub(crate) fn errno(self) -> Option<Errno> {
        match self {}
    }

    pub(crate) fn asked(self, _: usize, _: Mode) -> usize {
        match self {}
    }

    pub(crate) fn told(self, _: Result<usize>) -> Result<usize> {
        match self {}
    }
}

#[inline(always)]
pub(crate) fn next(_: Call, _: Mode, _: BorrowedFd<'_>) -> Option<Fault> {
    None
}

#[inline(always)]
pub(crate) fn expected(_: Call, _: BorrowedFd<'_>) -> bool {
    false
}

#[inline(always)]
pub(crate) fn refuse(_: Call, _: BorrowedFd<'_>) -> Result<()> {
    Ok(())
}
