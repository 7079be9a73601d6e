//! The future of a call with its record, and work of a call on another thread.

use super::steps::StepKind;
use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use nfs_io::FutureBox;

use super::clock::now;
use super::record::{self, Answered, CallRecord, Running, Times};
use super::ring::{Parked, ShardBook};

/// The future of a call. It has the record, if there is one, in the thread's hands while it is polled. Its output
/// is the call's, and the record for the reply.
pub(crate) struct Recorded<T> {
    call: Option<FutureBox<'static, T>>,
    record: State,
}

enum State {
    Unrecorded,
    /// It has not been polled yet.
    Here(Box<CallRecord>),
    /// It waits, and its record lies in the book of its shard.
    Parked(Parked),
}

impl<T> Recorded<T> {
    /// A call of `client` that begins now. It is recorded where a [`ShardBook`] is open on this thread and wants it.
    pub(crate) fn new(client: SocketAddr, times: Times, call: FutureBox<'static, T>) -> Self {
        Self {
            call: Some(call),
            record: match ShardBook::new_record(client, times) {
                Some(record) => State::Here(record),
                None => State::Unrecorded,
            },
        }
    }

    fn take_record(&mut self) -> Option<Box<CallRecord>> {
        match std::mem::replace(&mut self.record, State::Unrecorded) {
            State::Unrecorded => None,
            State::Here(record) => Some(record),
            State::Parked(parked) => parked.take(),
        }
    }
}

impl<T> Future for Recorded<T> {
    type Output = (T, Option<Box<CallRecord>>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let running = self.take_record().map(Running::enter);
        let Some(call) = &mut self.call else {
            // It is over. Whoever polls it again waits for ever, as with any future.
            return Poll::Pending;
        };
        let polled = Pin::new(call).poll(cx);
        let record = running.and_then(Running::leave);
        match polled {
            Poll::Ready(output) => {
                self.call = None;
                Poll::Ready((output, record))
            }
            Poll::Pending => {
                if let Some(record) = record {
                    self.record = ShardBook::park(record).map_or(State::Unrecorded, State::Parked);
                }
                Poll::Pending
            }
        }
    }
}

impl<T> Drop for Recorded<T> {
    fn drop(&mut self) {
        // The steps that are under way end with the call, which is left off.
        let Some(record) = self.take_record() else {
            return;
        };
        let running = Running::enter(record);
        self.call = None;
        if let Some(mut record) = running.leave() {
            record.answer = Answered::Nothing;
            record.times.answered = now();
            record.end();
        }
    }
}

impl<T> fmt::Debug for Recorded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorded")
    }
}

impl CallRecord {
    /// The call is over: its reply was handed to the kernel, or there is none.
    pub(crate) fn end(self: Box<Self>) {
        ShardBook::enter(std::iter::once(self));
    }

    /// The same of calls whose replies were handed to the kernel together.
    pub(crate) fn end_all(records: impl Iterator<Item = Box<Self>>) {
        ShardBook::enter(records);
    }

    /// The call is over, and nothing is sent.
    pub(crate) fn end_without_reply(mut self: Box<Self>) {
        self.answer = Answered::Nothing;
        self.times.answered = now();
        self.end();
    }
}

/// A call's work for another thread, whose steps are wanted.
#[derive(Debug)]
pub(crate) struct HandedOver {
    at: u64,
    wanted: u8,
}

/// What was recorded on the other thread.
#[derive(Debug)]
pub(crate) struct Brought {
    handed_over: u64,
    record: Box<CallRecord>,
}

/// Hands work over to another thread now; `None` if nothing of it is wanted.
pub(crate) fn hand_over() -> Option<HandedOver> {
    record::is_wanted().then(|| HandedOver {
        at: now(),
        wanted: record::wanted(),
    })
}

impl HandedOver {
    /// Does the work, on the other thread.
    pub(crate) fn run<T>(self, work: impl FnOnce() -> T) -> (T, Option<Brought>) {
        let mut record = Box::new(CallRecord::new());
        let nobody = SocketAddr::from(([0, 0, 0, 0], 0));
        record.begin(nobody, Times::default(), self.wanted);
        let running = Running::enter(record);
        let result = work();
        let brought = running.leave().map(|mut record| {
            record.times.ended = now();
            Brought {
                handed_over: self.at,
                record,
            }
        });
        (result, brought)
    }
}

/// Takes over what was recorded on another thread, behind which a step of that kind was waited for, until now.
pub(crate) fn take_back_waiting(brought: &Brought, kind: StepKind) {
    record::take_over_and_wait(brought.handed_over, &brought.record, kind);
}

/// Takes over what was recorded on another thread.
pub(crate) fn take_back(brought: &Brought) {
    record::take_over(brought.handed_over, &brought.record);
}
