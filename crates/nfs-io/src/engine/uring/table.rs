//! The in-flight table: owner of every file and buffer that the kernel works on.

use std::os::fd::AsRawFd;

use io_uring::opcode;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, FsyncFlags};

use super::Answer;
use crate::engine::counters::Counted;
use crate::faults::Fault;
use crate::op::left;
use crate::progress::{Next, Progress};
use crate::{Op, OpResult, Queue, Result};

/// A fixed number of slots. A slot's index is the `user_data` of its operation.
pub(super) struct Table {
    slots: Vec<Option<InFlight>>,
    free: Vec<usize>,
}

/// One operation with the kernel, or about to be.
pub(super) struct InFlight {
    op: Op,
    progress: Progress,
    /// What a test wants of the call that the kernel works on.
    fault: Option<Fault>,
    personality: u16,
    pub(super) queue: Queue,
    pub(super) answer: Answer,
    counted: Counted,
}

impl InFlight {
    pub(super) fn new(
        op: Op,
        personality: u16,
        queue: Queue,
        answer: Answer,
        counted: Counted,
    ) -> Self {
        let progress = op.progress();
        Self {
            op,
            progress,
            fault: None,
            personality,
            queue,
            answer,
            counted,
        }
    }

    pub(super) fn into_result(self, result: Result<usize>) -> OpResult {
        self.counted.completed();
        OpResult {
            result,
            buf: self.op.into_buf(),
        }
    }
}

impl Table {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            slots: std::iter::repeat_with(|| None).take(slots).collect(),
            free: (0..slots).rev().collect(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts an operation into a free slot. The lanes let no more start than there are slots.
    pub(super) fn insert(&mut self, in_flight: InFlight) -> usize {
        let index = self
            .free
            .pop()
            .expect("the lanes admit no more than the table holds");
        self.slots[index] = Some(in_flight);
        index
    }

    /// Empties the slot of an operation that the kernel has answered.
    pub(super) fn remove(&mut self, index: usize) -> InFlight {
        let in_flight = self.slots[index]
            .take()
            .expect("a completion names a slot in use");
        self.free.push(index);
        in_flight
    }

    /// Takes note of what the kernel did for a slot's operation.
    pub(super) fn step(&mut self, index: usize, step: Result<usize>) -> Next {
        let slot = self.slot(index);
        let step = match slot.fault.take() {
            Some(fault) => fault.told(step),
            None => step,
        };
        slot.progress.step(step)
    }

    /// The description of what is left of a slot's operation. What it points to lives as long
    /// as the slot is not emptied.
    pub(super) fn entry(&mut self, index: usize) -> Entry {
        let slot = self.slot(index);
        let (personality, done) = (slot.personality, slot.progress.done());
        slot.fault = slot.op.fault();
        let fault = slot.fault;
        let whose = if slot.op.waits_in_spite_of_nowait() {
            // A worker's, from the beginning.
            Flags::ASYNC
        } else {
            Flags::empty()
        };
        let entry = match &mut slot.op {
            // Its answer is known: the kernel only carries it around the ring.
            _ if fault.and_then(Fault::errno).is_some() => opcode::Nop::new().build(),
            Op::Read {
                file,
                offset,
                buf,
                range,
                mode,
                ..
            } => {
                let left = &mut buf[left(range, done, *mode, fault)];
                let read =
                    opcode::Read::new(Fd(file.as_raw_fd()), left.as_mut_ptr(), length(left.len()));
                read.offset(offset.saturating_add(done as u64))
                    .rw_flags(mode.rwf() as _)
                    .build()
                    .flags(whose)
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
                let left = &buf[left(range, done, *mode, fault)];
                let write =
                    opcode::Write::new(Fd(file.as_raw_fd()), left.as_ptr(), length(left.len()));
                write
                    .offset(offset.saturating_add(done as u64))
                    .rw_flags((sync.rwf() | mode.rwf()) as _)
                    .build()
                    .flags(whose)
            }
            Op::Fsync { file, data_only } => {
                let flags = if *data_only {
                    FsyncFlags::DATASYNC
                } else {
                    FsyncFlags::empty()
                };
                opcode::Fsync::new(Fd(file.as_raw_fd()))
                    .flags(flags)
                    .build()
            }
        };
        entry.personality(personality).user_data(index as u64)
    }

    /// The answers of all operations in the table, each of which somebody may be waiting for.
    pub(super) fn answers(&self) -> Vec<Answer> {
        self.slots
            .iter()
            .flatten()
            .map(|slot| slot.answer.clone())
            .collect()
    }

    fn slot(&mut self, index: usize) -> &mut InFlight {
        self.slots[index]
            .as_mut()
            .expect("a completion names a slot in use")
    }
}

/// A buffer is at most 64 MiB long ([`crate::limits::BUFFER_BYTES_MAX`]).
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a buffer is shorter than 4 GiB")
}
