//! The calls of one connection that wait for their replies: a fixed array of slots, found by xid.
//!
//! A call's slot is `xid % slots`. Xids count up; one whose slot is still busy is passed over, so a
//! call that waits long costs its neighbours nothing. No I/O here, and the clock comes in as arguments.
//!
//! A slot keeps its call's bytes until the reply is there, so that the call can be sent again, with
//! the same xid, over the next connection.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use nfs_io::Buf;
use tokio::time::Instant;

use super::operations::{Kind, Operation, Operations};
use super::stats::Stats;
use super::{Cut, Reply, ReplyMemory, Times};
use crate::error::{Lost, RpcError};

/// What became of a call.
pub(super) type Outcome = Result<Reply, RpcError>;

/// What a reply brought: the results' bytes, and the call's memory if their data lies in it.
pub(super) struct Arrived {
    /// Bytes of the whole record.
    pub(super) record_len: usize,
    pub(super) results: Bytes,
    pub(super) filled: Option<Buf>,
}

/// Memory for the data of a reply.
pub(super) struct Memory {
    pub(super) buf: Buf,
    pub(super) cut: Cut,
}

/// Which slot a call has, and the xid that proves that it is still this call's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) index: usize,
    pub(super) xid: u32,
}

pub(super) struct Table {
    slots: Vec<Slot>,
    xid_next: u32,
    waiting: usize,
    /// Since when there is always some call that waits.
    busy_since: Instant,
    /// What a call that ran out of time says it was given.
    timeout: Duration,
    /// Xids of the calls to send, in order. May name calls that were given up since.
    queue: VecDeque<u32>,
    /// No deadline of a waiting call is earlier than this, nor the time to send one again.
    earliest: Option<Instant>,
    /// Set once: why no call can be made any more.
    over: Option<RpcError>,
    pub(super) stats: Stats,
    operations: Operations,
}

struct Slot {
    xid: u32,
    kind: Kind,
    /// When its caller made it.
    begun: Instant,
    /// When it was sent first.
    sent_at: Option<Instant>,
    state: State,
    call: Call,
    deadline: Instant,
    sent: bool,
    /// It was sent over an earlier connection, too.
    resent: bool,
    /// When to send it once more over this one.
    again_at: Option<Instant>,
    memory: Option<Memory>,
}

enum State {
    Free,
    Waiting(Option<Waker>),
    Done(Outcome),
}

/// The bytes of a call, record mark included.
#[derive(Debug, Default)]
pub(super) struct Call {
    /// The record up to the payload, or all of it if there is none.
    pub(super) head: Vec<u8>,
    /// Sent after the head without being copied.
    pub(super) payload: Option<Bytes>,
    /// Zero bytes that pad the payload to the XDR unit.
    pub(super) padding: usize,
}

/// Bytes of a record's mark (RFC 5531 §11).
const MARK_BYTES: usize = 4;

/// How large a kept head buffer may stay when its call is over.
const HEAD_KEPT_BYTES: usize = 4096;

#[expect(
    clippy::indexing_slicing,
    reason = "an index is of a ticket, which this table gave out, or of `index`, which is below the \
              number of slots whatever the xid"
)]
impl Table {
    /// A table for `in_flight_max` calls at once, xids counting from `xid_first`.
    pub(super) fn new(in_flight_max: u32, xid_first: u32, timeout: Duration, now: Instant) -> Self {
        let slots = usize::try_from(in_flight_max)
            .unwrap_or(1)
            .max(1)
            .next_power_of_two();
        let slots = (0..slots).map(|_| Slot {
            xid: 0,
            kind: Kind::Other,
            begun: now,
            sent_at: None,
            state: State::Free,
            call: Call::default(),
            deadline: now,
            sent: false,
            resent: false,
            again_at: None,
            memory: None,
        });
        Self {
            slots: slots.collect(),
            xid_next: xid_first,
            waiting: 0,
            busy_since: now,
            timeout,
            queue: VecDeque::new(),
            earliest: None,
            over: None,
            stats: Stats::default(),
            operations: Operations::default(),
        }
    }

    /// What the calls of each kind came to so far.
    pub(super) fn operations(&self) -> Vec<Operation> {
        let mut all = self.operations.all();
        let waits = |slot: &&Slot| matches!(slot.state, State::Waiting(_));
        for slot in self.slots.iter().filter(waits) {
            if let Some(operation) = all.iter_mut().find(|one| one.kind == slot.kind) {
                operation.in_flight += 1;
            }
        }
        all
    }

    /// A call's time was over before there was a place for it.
    pub(super) fn never_began(&mut self, kind: Kind, error: &RpcError) {
        if let Some(operation) = self.operations.at(kind) {
            operation.begun();
            operation.failed(error);
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Since when some call has always been waiting; `None` if none is.
    pub(super) fn busy_since(&self) -> Option<Instant> {
        (self.waiting > 0).then_some(self.busy_since)
    }

    pub(super) fn earliest(&self) -> Option<Instant> {
        self.earliest
    }

    /// Begins a call: `encode` writes it, given its xid. There must be a free slot; the connection's
    /// semaphore sees to it.
    pub(super) fn begin(
        &mut self,
        times: Times,
        kind: Kind,
        encode: impl FnOnce(u32, &mut Call) -> Result<(), RpcError>,
    ) -> Result<Ticket, RpcError> {
        if let Some(error) = &self.over {
            return Err(error.clone());
        }
        let xid = self.free_xid();
        let index = self.index(xid);
        let slot = &mut self.slots[index];
        slot.call.head.clear();
        encode(xid, &mut slot.call)?;
        let Times {
            begun,
            now,
            deadline,
        } = times;
        slot.xid = xid;
        slot.kind = kind;
        slot.begun = begun;
        slot.sent_at = None;
        if let Some(operation) = self.operations.at(kind) {
            operation.begun();
        }
        slot.state = State::Waiting(None);
        slot.deadline = deadline;
        slot.sent = false;
        slot.resent = false;
        slot.again_at = None;
        if self.waiting == 0 {
            self.busy_since = now;
        }
        self.waiting += 1;
        self.stats.calls += 1;
        self.earliest = Some(
            self.earliest
                .map_or(deadline, |earliest| earliest.min(deadline)),
        );
        if self.queue.len() >= 2 * self.slots.len() {
            self.forget_unsent();
        }
        self.queue.push_back(xid);
        Ok(Ticket { index, xid })
    }

    /// The outcome of a call, if there is one; it is taken, and the slot is free again.
    pub(super) fn poll(&mut self, ticket: Ticket, cx: &Context<'_>) -> Poll<Outcome> {
        let slot = &mut self.slots[ticket.index];
        match &mut slot.state {
            State::Waiting(waker) => {
                match waker {
                    Some(waker) => waker.clone_from(cx.waker()),
                    None => *waker = Some(cx.waker().clone()),
                }
                Poll::Pending
            }
            State::Done(_) => match slot.vacate() {
                State::Done(outcome) => Poll::Ready(outcome),
                State::Free | State::Waiting(_) => unreachable!("matched just above"),
            },
            State::Free => unreachable!("a ticket is used until its call is over, and not after"),
        }
    }

    /// Gives a call up: its reply, if it still comes, is a stray one.
    pub(super) fn give_up(&mut self, ticket: Ticket) {
        let slot = &mut self.slots[ticket.index];
        if let State::Waiting(_) = slot.vacate() {
            self.waiting -= 1;
            if let Some(operation) = self.operations.at(slot.kind) {
                operation.given_up();
            }
        }
    }

    /// Whether a call with this xid waits for a reply.
    pub(super) fn is_waiting(&self, xid: u32) -> bool {
        let slot = &self.slots[self.index(xid)];
        slot.xid == xid && matches!(slot.state, State::Waiting(_))
    }

    /// Gives a call that has just begun memory for its reply's data.
    pub(super) fn give_memory(&mut self, ticket: Ticket, memory: Memory) {
        self.slots[ticket.index].memory = Some(memory);
    }

    /// How a waiting call's results are cut, and how much memory it gave.
    pub(super) fn memory(&mut self, xid: u32) -> Option<&mut Option<Memory>> {
        if !self.is_waiting(xid) {
            return None;
        }
        let index = self.index(xid);
        Some(&mut self.slots[index].memory)
    }

    /// Memory comes back from a reply that ended half-way; dropped if its call waits no longer.
    pub(super) fn give_back(&mut self, xid: u32, memory: Memory) {
        if let Some(place) = self.memory(xid) {
            *place = Some(memory);
        }
    }

    /// Ends the call with this xid, if one waits, by a reply that came at `now`. The waker is to be woken after the
    /// lock is dropped.
    pub(super) fn finish(
        &mut self,
        xid: u32,
        arrived: Result<Arrived, RpcError>,
        now: Instant,
    ) -> Option<Waker> {
        if !self.is_waiting(xid) {
            self.stats.stray_replies += 1;
            return None;
        }
        self.stats.replies += 1;
        let index = self.index(xid);
        let slot = &mut self.slots[index];
        let unused = slot.memory.take();
        let resent = slot.resent;
        if let (Ok(arrived), Some(operation)) = (&arrived, self.operations.at(slot.kind)) {
            let sent_at = slot.sent_at.unwrap_or(slot.begun);
            let queue = sent_at.saturating_duration_since(slot.begun);
            let rtt = now.saturating_duration_since(sent_at);
            operation.answered(as_u64(arrived.record_len), &arrived.results, queue, rtt);
        }
        let outcome = arrived.map(|arrived| Reply {
            results: arrived.results,
            memory: match (arrived.filled, unused) {
                (Some(filled), _) => ReplyMemory::Filled(filled),
                (None, Some(unused)) => ReplyMemory::Unused(unused.buf),
                (None, None) => ReplyMemory::Nothing,
            },
            resent,
        });
        self.end(index, outcome)
    }

    /// Whether there may be a call to send.
    pub(super) fn has_queued(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The next call to send, at `now`. The bytes stay in the table.
    ///
    /// One that went out over an earlier connection is sent again at `again_at()` if no reply has come by
    /// then: a server that was still at work on it drops the repetition, and sends its reply over the
    /// connection that is no more (what asks again later finds it in the reply cache). While other calls
    /// are answered, nothing else would show that this one is not.
    pub(super) fn next_to_send(
        &mut self,
        now: Instant,
        again_at: impl FnOnce() -> Instant,
    ) -> Option<&Call> {
        while let Some(xid) = self.queue.pop_front() {
            if self.is_waiting(xid) {
                let index = self.index(xid);
                let slot = &mut self.slots[index];
                slot.sent = true;
                let again = slot.sent_at.is_some();
                slot.sent_at.get_or_insert(now);
                if let Some(operation) = self.operations.at(slot.kind) {
                    operation.sent(as_u64(slot.call.len()), again);
                }
                if slot.resent {
                    let at = again_at();
                    slot.again_at = Some(at);
                    self.earliest = Some(self.earliest.map_or(at, |earliest| earliest.min(at)));
                }
                return Some(&slot.call);
            }
        }
        None
    }

    /// Ends the calls whose time is over, and queues those that are to be sent once more.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<Waker> {
        let mut wakers = Vec::new();
        self.earliest = None;
        for index in 0..self.slots.len() {
            let slot = &mut self.slots[index];
            if !matches!(slot.state, State::Waiting(_)) {
                continue;
            }
            if slot.deadline <= now {
                self.stats.timeouts += 1;
                let after = self.timeout;
                wakers.extend(self.end(index, Err(RpcError::Timeout { after })));
            } else {
                if slot.again_at.is_some_and(|at| at <= now) {
                    slot.again_at = None;
                    self.queue.push_back(slot.xid);
                    self.stats.resent_calls += 1;
                }
                let next = slot
                    .again_at
                    .map_or(slot.deadline, |at| at.min(slot.deadline));
                self.earliest = Some(self.earliest.map_or(next, |e| e.min(next)));
            }
        }
        wakers
    }

    /// The connection is lost: what was on its way is sent again over the next one, in the old
    /// order, or fails with `cause` if `resend` is false. What was not sent yet waits in either case.
    pub(super) fn lost(&mut self, cause: &Lost, resend: bool) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let mut again = Vec::new();
        for index in 0..self.slots.len() {
            let slot = &mut self.slots[index];
            if !matches!(slot.state, State::Waiting(_)) {
                continue;
            }
            if slot.sent && !resend {
                wakers.extend(self.end(index, Err(RpcError::Disconnected(cause.clone()))));
            } else {
                self.stats.resent_calls += u64::from(slot.sent);
                slot.resent |= slot.sent;
                slot.sent = false;
                slot.again_at = None;
                again.push(slot.xid);
            }
        }
        // Oldest first; the xids may have wrapped since.
        let oldest = self.xid_next;
        again.sort_by_key(|xid| std::cmp::Reverse(oldest.wrapping_sub(*xid)));
        self.queue = again.into();
        wakers
    }

    /// Ends all calls, and each one made from now on, with `error`.
    pub(super) fn close(&mut self, error: &RpcError) -> Vec<Waker> {
        self.over.get_or_insert_with(|| error.clone());
        self.queue.clear();
        self.fail_all(error)
    }

    /// Ends all calls that wait with `error`.
    pub(super) fn fail_all(&mut self, error: &RpcError) -> Vec<Waker> {
        let mut wakers = Vec::new();
        for index in 0..self.slots.len() {
            if matches!(self.slots[index].state, State::Waiting(_)) {
                wakers.extend(self.end(index, Err(error.clone())));
            }
        }
        wakers
    }

    fn end(&mut self, index: usize, outcome: Outcome) -> Option<Waker> {
        let slot = &mut self.slots[index];
        if let (Err(error), Some(operation)) = (&outcome, self.operations.at(slot.kind)) {
            operation.failed(error);
        }
        let before = std::mem::replace(&mut slot.state, State::Done(outcome));
        slot.call.release();
        slot.memory = None;
        self.waiting -= 1;
        match before {
            State::Waiting(waker) => waker,
            State::Free | State::Done(_) => unreachable!("only a waiting call ends"),
        }
    }

    /// Drops calls that were given up from the queue, so that it stays bounded by the slots.
    fn forget_unsent(&mut self) {
        let mut queue = std::mem::take(&mut self.queue);
        queue.retain(|&xid| self.is_waiting(xid));
        self.queue = queue;
    }

    fn free_xid(&mut self) -> u32 {
        for _ in 0..=self.slots.len() {
            let xid = self.xid_next;
            self.xid_next = self.xid_next.wrapping_add(1);
            if matches!(self.slots[self.index(xid)].state, State::Free) {
                return xid;
            }
        }
        unreachable!("the semaphore has no more permits than there are slots")
    }

    fn index(&self, xid: u32) -> usize {
        usize::try_from(xid).unwrap_or_default() & (self.slots.len() - 1)
    }
}

impl Slot {
    fn vacate(&mut self) -> State {
        self.call.release();
        self.memory = None;
        std::mem::replace(&mut self.state, State::Free)
    }
}

impl Call {
    /// Bytes of the record, without its mark.
    fn len(&self) -> usize {
        let payload = self.payload.as_ref().map_or(0, Bytes::len);
        (self.head.len() + payload + self.padding).saturating_sub(MARK_BYTES)
    }

    fn release(&mut self) {
        self.payload = None;
        self.padding = 0;
        if self.head.capacity() > HEAD_KEPT_BYTES {
            self.head = Vec::new();
        }
    }
}

fn as_u64(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use nfs_wire::nfs3::Procedure;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(1);
    const NULL: Kind = Kind::Nfs3(Procedure::Null);

    fn times(now: Instant, deadline: Instant) -> Times {
        Times {
            begun: now,
            now,
            deadline,
        }
    }

    fn table(slots: u32, first: u32) -> (Table, Instant) {
        let now = Instant::now();
        (Table::new(slots, first, TIMEOUT, now), now)
    }

    fn begin(table: &mut Table, now: Instant) -> Ticket {
        let encode = |xid: u32, call: &mut Call| {
            call.head.extend_from_slice(&xid.to_be_bytes());
            Ok(())
        };
        let deadline = now + TIMEOUT;
        table.begin(times(now, deadline), NULL, encode).unwrap()
    }

    fn arrived(results: &'static [u8]) -> Result<Arrived, RpcError> {
        Ok(Arrived {
            record_len: 24 + results.len(),
            results: Bytes::from_static(results),
            filled: None,
        })
    }

    fn cx() -> Context<'static> {
        Context::from_waker(Waker::noop())
    }

    #[test]
    fn busy_slots_are_passed_over_and_xids_wrap() {
        let (mut table, now) = table(4, u32::MAX - 1);
        let tickets: Vec<Ticket> = (0..4).map(|_| begin(&mut table, now)).collect();
        assert_eq!(
            tickets.iter().map(|t| t.xid).collect::<Vec<_>>(),
            [!0 - 1, !0, 0, 1]
        );
        assert!(table.finish(0, arrived(b"r"), now).is_none());
        assert!(matches!(table.poll(tickets[2], &cx()), Poll::Ready(Ok(_))));
        let next = begin(&mut table, now);
        assert_eq!(
            next,
            Ticket {
                index: tickets[2].index,
                xid: 4
            }
        );
        assert_eq!(table.waiting(), 4);
    }

    #[test]
    fn second_and_unknown_replies_are_strays() {
        let (mut table, now) = table(2, 7);
        let ticket = begin(&mut table, now);
        assert!(table.poll(ticket, &cx()).is_pending());
        assert!(table.finish(7, arrived(b"a"), now).is_some());
        assert!(table.finish(7, arrived(b"b"), now).is_none());
        assert!(table.finish(9, arrived(b""), now).is_none());
        match table.poll(ticket, &cx()) {
            Poll::Ready(Ok(reply)) => assert_eq!(&reply.results[..], b"a"),
            other => panic!("{other:?}"),
        }
        assert_eq!(table.stats.stray_replies, 2);
        assert_eq!(table.stats.replies, 1);
    }

    #[test]
    fn a_call_given_up_is_neither_sent_nor_answered() {
        let (mut table, now) = table(2, 0);
        let (gone, kept) = (begin(&mut table, now), begin(&mut table, now));
        table.give_up(gone);
        assert_eq!(
            table.next_to_send(now, || now).unwrap().head,
            kept.xid.to_be_bytes()
        );
        assert!(table.next_to_send(now, || now).is_none());
        assert!(table.finish(gone.xid, arrived(b""), now).is_none());
        assert_eq!(table.waiting(), 1);
    }

    #[test]
    fn the_queue_stays_bounded_when_calls_are_given_up_unsent() {
        let (mut table, now) = table(4, 0);
        for _ in 0..10_000 {
            let ticket = begin(&mut table, now);
            table.give_up(ticket);
        }
        assert!(table.queue.len() <= 8);
    }

    #[test]
    fn a_call_of_an_earlier_connection_is_asked_about_again() {
        let (mut table, now) = table(4, 0);
        let seconds = |count| now + Duration::from_secs(count);
        let begin = |table: &mut Table| {
            let deadline = seconds(60);
            table
                .begin(times(now, deadline), NULL, |_, _| Ok(()))
                .unwrap()
        };
        let old = begin(&mut table);
        table.next_to_send(now, || seconds(1)).unwrap();
        assert_eq!(table.earliest(), Some(seconds(60)), "the first connection");
        table.lost(&Lost::ByServer, true);
        begin(&mut table);
        for _ in 0..2 {
            table.next_to_send(now, || seconds(5)).unwrap();
        }
        assert_eq!(table.earliest(), Some(seconds(5)));
        // The old one only, and once.
        table.expire(seconds(5));
        assert_eq!(table.queue, [old.xid]);
        assert_eq!(table.earliest(), Some(seconds(60)));
        table.expire(seconds(6));
        assert_eq!(table.queue, [old.xid]);
        table.next_to_send(now, || seconds(12)).unwrap();
        table.lost(&Lost::ByServer, true);
        assert_eq!(table.queue.len(), 2, "each once");
        assert_eq!(table.stats.resent_calls, 4);
    }

    #[test]
    fn deadlines() {
        let (mut table, now) = table(4, 0);
        let first = begin(&mut table, now);
        let second = begin(&mut table, now + Duration::from_millis(500));
        assert_eq!(table.earliest(), Some(now + Duration::from_secs(1)));
        table.expire(now + Duration::from_secs(1));
        assert!(matches!(
            table.poll(first, &cx()),
            Poll::Ready(Err(RpcError::Timeout { .. }))
        ));
        assert!(table.poll(second, &cx()).is_pending());
        assert_eq!(table.earliest(), Some(now + Duration::from_millis(1500)));
    }

    #[test]
    fn a_connection_is_busy_from_the_first_call_that_waits_to_the_last() {
        let (mut table, start) = table(4, 0);
        assert_eq!(table.busy_since(), None);
        let seconds = |count| start + Duration::from_secs(count);
        let first = begin(&mut table, seconds(10));
        let second = begin(&mut table, seconds(20));
        table.finish(first.xid, arrived(b""), seconds(21));
        assert_eq!(table.busy_since(), Some(seconds(10)));
        table.give_up(second);
        assert_eq!(table.busy_since(), None);
        begin(&mut table, seconds(30));
        assert_eq!(table.busy_since(), Some(seconds(30)));
    }

    #[test]
    fn a_lost_connection_sends_again_in_the_old_order_or_fails_what_was_sent() {
        let (mut table, now) = table(4, u32::MAX);
        let tickets: Vec<Ticket> = (0..3).map(|_| begin(&mut table, now)).collect();
        table.next_to_send(now, || now).unwrap();
        table.next_to_send(now, || now).unwrap();
        assert!(table.lost(&Lost::ByServer, true).is_empty());
        assert_eq!(table.stats.resent_calls, 2);
        for ticket in &tickets {
            assert_eq!(
                table.next_to_send(now, || now).unwrap().head,
                ticket.xid.to_be_bytes()
            );
        }
        table.lost(&Lost::ByServer, true);
        table.next_to_send(now, || now).unwrap();
        table.lost(&Lost::ByServer, false);
        let failed = table.poll(tickets[0], &cx());
        assert!(matches!(
            failed,
            Poll::Ready(Err(RpcError::Disconnected(Lost::ByServer)))
        ));
        assert_eq!(
            table.next_to_send(now, || now).unwrap().head,
            tickets[1].xid.to_be_bytes()
        );
    }

    #[test]
    fn nothing_begins_after_close() {
        let (mut table, now) = table(4, 0);
        let ticket = begin(&mut table, now);
        table.close(&RpcError::Disconnected(Lost::Here));
        assert!(matches!(
            table.poll(ticket, &cx()),
            Poll::Ready(Err(RpcError::Disconnected(_)))
        ));
        let deadline = now;
        let refused = table.begin(times(now, deadline), NULL, |_, _| Ok(()));
        assert!(matches!(refused, Err(RpcError::Disconnected(Lost::Here))));
    }

    #[test]
    fn a_call_has_a_queue_a_round_trip_and_bytes_each_time_it_is_sent() {
        let (mut table, start) = table(4, 0);
        let seconds = |count| start + Duration::from_secs(count);
        let encode = |_, call: &mut Call| {
            call.head.extend_from_slice(&[0; 44]);
            Ok(())
        };
        let times = Times {
            now: seconds(1),
            ..times(start, seconds(100))
        };
        let ticket = table.begin(times, NULL, encode).unwrap();
        table.next_to_send(seconds(2), || seconds(50)).unwrap();
        table.lost(&Lost::ByServer, true);
        table.next_to_send(seconds(4), || seconds(50)).unwrap();
        table.finish(ticket.xid, arrived(b"1234"), seconds(5));
        let [null] = &table.operations()[..] else {
            panic!("{:?}", table.operations());
        };
        assert_eq!((null.calls, null.ops), (1, 1));
        assert_eq!((null.transmissions, null.resent), (2, 1));
        assert_eq!((null.bytes_sent, null.bytes_received), (80, 28));
        let all = [&null.queue, &null.rtt, &null.execute].map(|one| one.total().as_secs());
        assert_eq!(all, [2, 3, 5]);
    }

    #[test]
    fn each_call_ends_in_one_count() {
        let (mut table, now) = table(8, 0);
        let tickets: Vec<Ticket> = (0..6).map(|_| begin(&mut table, now)).collect();
        table.give_up(tickets[0]);
        table.finish(tickets[1].xid, arrived(b""), now);
        table.finish(tickets[2].xid, Err(RpcError::GarbageArgs), now);
        let count = |table: &Table| {
            let [null] = &table.operations()[..] else {
                panic!("{:?}", table.operations());
            };
            let ended = (null.ops, null.refused, null.timeouts, null.disconnected);
            (null.calls, null.given_up, ended, null.in_flight)
        };
        assert_eq!(count(&table), (6, 1, (1, 1, 0, 0), 3));
        // Late: the call was given up.
        table.finish(tickets[0].xid, arrived(b""), now);
        table.expire(now + TIMEOUT);
        assert_eq!(count(&table), (6, 1, (1, 1, 3, 0), 0));
        begin(&mut table, now);
        table.close(&RpcError::Disconnected(Lost::Here));
        let late = RpcError::Timeout { after: TIMEOUT };
        table.never_began(NULL, &late);
        assert_eq!(count(&table), (8, 1, (1, 1, 4, 1), 0));
    }
}
