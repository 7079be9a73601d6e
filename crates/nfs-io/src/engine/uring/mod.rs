//! The ring engine: operations go to the kernel by io_uring(7).
//!
//! Everything the kernel may touch (file, buffer) belongs to a slot of the in-flight table from
//! before the kernel learns of it until the kernel has answered. Dropping the engine cancels and
//! waits; what even then has not ended is leaked, because a leak is harmless and a freed buffer
//! that the kernel still writes to is not.
//!
//! The kernel gets at most `in_flight_max` operations, and may use as many worker threads: an
//! operation stuck in a file system that does not answer keeps a worker, but never the last one
//! another operation needs. Lanes and clients share the table by the rule of [`crate::lanes`].

use std::cell::RefCell;
use std::future::poll_fn;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use io_uring::IoUring;
use io_uring::types::{CancelBuilder, SubmitArgs, Timespec};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::counters::{Counted, EngineCounters};
use crate::lanes::{LaneLimits, Lanes};
use crate::limits::{
    RING_DROP_SECONDS, RING_IN_FLIGHT_CEILING, RING_IN_FLIGHT_MAX, RING_LANE_QUEUED_MAX,
};
use crate::progress::Next;
use crate::{Creds, Errno, Op, OpResult, Queue, Result};

mod personality;
mod table;

use personality::Personalities;
use table::{InFlight, Table};

/// The bounds of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UringLimits {
    /// Operations in the kernel at once, and worker threads it may use for them.
    pub in_flight_max: u32,
    /// Operations of one lane in the kernel at once, at most `in_flight_max`.
    pub lane_in_flight_max: u32,
    /// Operations of one lane that wait for their turn.
    pub lane_queued_max: usize,
}

impl Default for UringLimits {
    fn default() -> Self {
        Self {
            in_flight_max: RING_IN_FLIGHT_MAX,
            lane_in_flight_max: RING_IN_FLIGHT_MAX / 2,
            lane_queued_max: RING_LANE_QUEUED_MAX,
        }
    }
}

/// A ring and all it owes answers for.
pub(super) struct Uring {
    inner: RefCell<Ring>,
    ring_fd: RawFd,
}

/// A ring with what is queued for it, what the kernel works on, and who waits.
struct Ring {
    io_uring: IoUring,
    /// Not dropped with the rest: `drain` empties it, or what is left is leaked.
    table: ManuallyDrop<Table>,
    lanes: Lanes<Queued>,
    personalities: Personalities,
    /// Bytes of operations that the kernel has not seen yet, about.
    queued_bytes: usize,
    /// The task that drives the ring.
    driver: Option<Waker>,
    /// Tasks to wake once nothing is borrowed.
    to_wake: Vec<Waker>,
    /// How long dropping the ring waits for operations that the kernel still works on.
    patience: Duration,
    counters: Arc<EngineCounters>,
}

/// An operation that waits for its lane's turn.
struct Queued {
    op: Op,
    creds: Creds,
    answer: Answer,
    counted: Counted,
}

impl Queued {
    /// Nobody waits for it any more, and nothing would be different after it.
    fn is_left(&self) -> bool {
        Rc::strong_count(&self.answer) == 1 && self.op.changes_nothing()
    }
}

/// The place where the result of an operation is left for whoever waits for it.
type Answer = Rc<RefCell<AnswerState>>;

#[derive(Default)]
pub(super) struct AnswerState {
    result: Option<OpResult>,
    waker: Option<Waker>,
}

/// Waits for the end of one operation, whose answer comes by way of the ring.
pub(super) struct Waiter {
    answer: Answer,
}

impl Waiter {
    pub(super) fn poll(&self, context: &mut Context<'_>) -> Poll<OpResult> {
        let mut answer = self.answer.borrow_mut();
        match answer.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                answer.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// Sets up a ring with `entries` submission entries, as cooperative as the kernel allows:
/// completions are noted when the thread enters the kernel anyway, not by interrupting it.
/// The second value tells whether it is (Linux 6.0).
pub(crate) fn build(entries: u32) -> Result<(IoUring, bool)> {
    let cooperative = IoUring::builder()
        .setup_clamp()
        .setup_submit_all()
        .setup_coop_taskrun()
        .setup_single_issuer()
        .build(entries);
    match cooperative {
        Ok(ring) => Ok((ring, true)),
        Err(error) if errno_of(&error) == Errno::INVAL => {
            let plain = IoUring::builder().setup_clamp().build(entries);
            plain
                .map(|ring| (ring, false))
                .map_err(|error| errno_of(&error))
        }
        Err(error) => Err(errno_of(&error)),
    }
}

impl Uring {
    pub(super) fn new(limits: UringLimits) -> Result<Self> {
        let in_flight_max = limits.in_flight_max.clamp(1, RING_IN_FLIGHT_CEILING);
        let (ring, _cooperative) = build(in_flight_max)?;
        // Bounded workers (files and block devices) and unbounded ones (the rest).
        let mut workers = [in_flight_max, in_flight_max];
        ring.submitter()
            .register_iowq_max_workers(&mut workers)
            .map_err(|error| errno_of(&error))?;
        let ring_fd = ring.as_raw_fd();
        let inner = Ring {
            io_uring: ring,
            table: ManuallyDrop::new(Table::new(in_flight_max as usize)),
            lanes: Lanes::new(LaneLimits {
                places_max: in_flight_max as usize,
                lane_max: limits.lane_in_flight_max.clamp(1, in_flight_max) as usize,
                queued_max: limits.lane_queued_max,
            }),
            personalities: Personalities::default(),
            queued_bytes: 0,
            driver: None,
            to_wake: Vec::new(),
            patience: Duration::from_secs(RING_DROP_SECONDS),
            counters: Arc::default(),
        };
        Ok(Self {
            inner: RefCell::new(inner),
            ring_fd,
        })
    }

    pub(super) fn counters(&self) -> Arc<EngineCounters> {
        Arc::clone(&self.inner.borrow().counters)
    }

    pub(super) fn submit(&self, op: Op, creds: &Creds, queue: Queue) -> Waiter {
        let answer = Answer::default();
        let waiter = Waiter {
            answer: answer.clone(),
        };
        let driver = {
            let mut inner = self.inner.borrow_mut();
            let queued = Queued {
                op,
                creds: creds.clone(),
                answer,
                counted: Counted::submitted(&inner.counters),
            };
            if inner.lanes.start_at_once(queue) {
                inner.start(queue, queued);
            } else {
                inner.wait(queue, queued);
            }
            inner.driver.clone()
        };
        if let Some(driver) = driver {
            driver.wake();
        }
        self.wake_waiters();
        waiter
    }

    pub(super) fn in_flight(&self) -> usize {
        let inner = self.inner.borrow();
        inner.table.len() + inner.lanes.queued()
    }

    pub(super) async fn drive(&self) -> Result<()> {
        let ring = Borrowed(self.ring_fd);
        // SAFETY: `self` owns the ring, and so the descriptor's number, and is borrowed until
        // this future, which owns the registration, is gone.
        let ring = unsafe { AsyncFd::register_with_interest(ring, Interest::READABLE) }
            .map_err(|refused| errno_of(&refused.into()))?;
        poll_fn(|context| self.turn(&ring, context)).await
    }

    /// One turn of the event loop: hands over what is queued, takes what has ended, and goes to
    /// sleep when the kernel says that nothing more has.
    fn turn(&self, ring: &AsyncFd<Borrowed>, context: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            let idle = {
                let mut inner = self.inner.borrow_mut();
                inner.driver = Some(context.waker().clone());
                inner.exchange()
            };
            self.wake_waiters();
            match idle {
                Err(errno) => return Poll::Ready(Err(errno)),
                Ok(Exchanged::MoreToSubmit) => {
                    // The kernel is short of memory: let the others run, then try again.
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Ok(Exchanged::All) => {}
            }
            // Readiness is cleared before the queue is looked at once more: what ends in between
            // makes the descriptor ready anew, so no end is missed.
            match ready!(ring.poll_read_ready(context)) {
                Ok(mut guard) => guard.clear_ready(),
                Err(error) => return Poll::Ready(Err(errno_of(&error))),
            }
        }
    }

    /// Exchanges now what is queued if it is `least` bytes or more; whether it was.
    pub(super) fn hand_over(&self, least: usize) -> bool {
        {
            let mut inner = self.inner.borrow_mut();
            if inner.queued_bytes < least.max(1) {
                return false;
            }
            // What the kernel did not take, and a ring that failed, are the driver's to see: it was
            // woken when these operations came.
            if inner.exchange().is_err() {
                return false;
            }
        }
        self.wake_waiters();
        true
    }

    fn wake_waiters(&self) {
        let wakers = std::mem::take(&mut self.inner.borrow_mut().to_wake);
        for waker in wakers {
            waker.wake();
        }
    }
}

/// Whether [`Ring::exchange`] could hand over everything that was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exchanged {
    /// Everything queued is with the kernel, everything ended is answered.
    All,
    /// The kernel takes no more for now.
    MoreToSubmit,
}

impl Ring {
    /// Lets an operation wait for its turn, or refuses it or another.
    fn wait(&mut self, queue: Queue, queued: Queued) {
        let refused = if self.lanes.takes(queue) {
            self.lanes.wait(queue, queued)
        } else {
            Some(queued)
        };
        self.counters.waits();
        if let Some(Queued {
            op,
            answer,
            counted,
            ..
        }) = refused
        {
            counted.refused();
            self.answer(&answer, op.failed(Errno::AGAIN));
        }
        self.start_waiting();
    }

    /// Starts what waits and may start.
    fn start_waiting(&mut self) {
        while let Some((queue, queued)) = self.lanes.next() {
            if queued.is_left() {
                self.lanes.leave(queue);
            } else {
                self.start(queue, queued);
            }
        }
        self.counters.set_waiting(self.lanes.queued());
    }

    /// Gives an operation a slot and the ring its description; the kernel sees it at the next
    /// submission.
    fn start(&mut self, queue: Queue, queued: Queued) {
        let Queued {
            op,
            creds,
            answer,
            counted,
        } = queued;
        match self.personality(&creds) {
            Ok(personality) => {
                self.queued_bytes += op.bytes();
                let index =
                    self.table
                        .insert(InFlight::new(op, personality, queue, answer, counted));
                self.push(index);
            }
            Err(errno) => {
                self.lanes.leave(queue);
                counted.completed();
                self.answer(&answer, op.failed(errno));
            }
        }
    }

    fn personality(&mut self, creds: &Creds) -> Result<u16> {
        if let Some(known) = self.personalities.find(creds) {
            return Ok(known);
        }
        if self.personalities.is_full() {
            // Entries in the queue name the identity by number: the kernel must have seen them
            // before a number is given up.
            self.submit()?;
        }
        self.personalities.register(&self.io_uring, creds)
    }

    /// Describes what is left of a slot's operation to the ring.
    fn push(&mut self, index: usize) {
        let entry = self.table.entry(index);
        let mut queue = self.io_uring.submission();
        // SAFETY: what the entry points to (descriptor, memory) belongs to the slot, which is
        // emptied only by the completion that carries its index (`complete`), or leaked.
        let pushed = unsafe { queue.push(&entry) };
        // The queue has as many entries as the table has slots, and a slot has at most one.
        assert!(
            pushed.is_ok(),
            "the submission queue is smaller than the in-flight table"
        );
    }

    /// Submits and reaps until there is nothing more to do at once.
    fn exchange(&mut self) -> Result<Exchanged> {
        loop {
            let submitted = self.submit()?;
            let reaped = self.reap();
            let left = !self.io_uring.submission().is_empty();
            match (left, submitted || reaped) {
                (false, _) => return Ok(Exchanged::All),
                // No progress: not even room for what the kernel refused before.
                (true, false) => return Ok(Exchanged::MoreToSubmit),
                (true, true) => {}
            }
        }
    }

    /// Hands queued entries to the kernel; whether it took any.
    fn submit(&mut self) -> Result<bool> {
        if self.io_uring.submission().is_empty() {
            return Ok(false);
        }
        self.queued_bytes = 0;
        let took_some = match self.io_uring.submit() {
            Ok(taken) => taken > 0,
            Err(error) => match errno_of(&error) {
                Errno::INTR => return Ok(true),
                // Short of memory, or completions must be taken first.
                Errno::AGAIN | Errno::BUSY => false,
                errno => return Err(errno),
            },
        };
        self.counters.offered(took_some);
        Ok(took_some)
    }

    /// Takes the ended operations; whether there were any.
    fn reap(&mut self) -> bool {
        let mut any = false;
        loop {
            // One at a time: completing needs the whole of `self`.
            let mut completions = self.io_uring.completion();
            let Some(completion) = completions.next() else {
                self.counters.set_overflows(completions.overflow());
                return any;
            };
            drop(completions);
            any = true;
            self.complete(completion.user_data(), completion.result(), true);
        }
    }

    /// Judges what the kernel says about a slot's operation: more to do, or over.
    fn complete(&mut self, index: u64, result: i32, resume: bool) {
        let index = index as usize;
        let step = usize::try_from(result).map_err(|_| Errno::from_raw_os_error(-result));
        let result = match self.table.step(index, step) {
            Next::Again if resume => return self.push(index),
            Next::Again => Err(Errno::CANCELED),
            Next::Over(result) => result,
        };
        let slot = self.table.remove(index);
        self.lanes.leave(slot.queue);
        let answer = slot.answer.clone();
        self.answer(&answer, slot.into_result(result));
        // While draining nothing waits in the lanes any more.
        self.start_waiting();
    }

    fn answer(&mut self, answer: &Answer, result: OpResult) {
        let mut answer = answer.borrow_mut();
        answer.result = Some(result);
        self.to_wake.extend(answer.waker.take());
    }

    /// Ends everything: what has not started is answered with `ECANCELED`, what the kernel has
    /// is cancelled and waited for.
    fn drain(&mut self, patience: Duration) {
        for queued in self.lanes.take_all() {
            self.answer(&queued.answer, queued.op.failed(Errno::CANCELED));
        }
        let deadline = Instant::now() + patience;
        while !self.table.is_empty() {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                break;
            };
            // Entries must be with the kernel before they can be cancelled. Whatever any of
            // these calls reports, only completions taken below count.
            let _completions_tell = self.submit();
            let timeout = Timespec::from(left.min(Duration::from_millis(100)));
            let _older_kernels_cannot = self
                .io_uring
                .submitter()
                .register_sync_cancel(Some(timeout), CancelBuilder::any());
            let wait = SubmitArgs::new().timespec(&timeout);
            let _completions_tell = self.io_uring.submitter().submit_with_args(1, &wait);
            loop {
                let next = self.io_uring.completion().next();
                let Some(completion) = next else { break };
                self.complete(completion.user_data(), completion.result(), false);
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.drain(self.patience);
        for answer in self.table.answers() {
            // The buffer stays with the kernel: the waiter learns that much.
            self.answer(
                &answer,
                OpResult {
                    result: Err(Errno::CANCELED),
                    buf: None,
                },
            );
        }
        for waker in self.to_wake.drain(..) {
            waker.wake();
        }
        if self.table.is_empty() {
            // SAFETY: nothing uses the table after this; it is dropped here only.
            unsafe { ManuallyDrop::drop(&mut self.table) };
        }
        // Else the table is leaked with the files and buffers that the kernel still uses.
    }
}

/// The ring's descriptor for the event loop; does not close it.
struct Borrowed(RawFd);

impl AsRawFd for Borrowed {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

pub(crate) fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests;
