//! One TCP connection: calls in, replies out, in order of completion.
//!
//! A connection holds no buffer while it is idle: it reads into its shard's. Its calls in flight and its unsent
//! replies are capped; at a cap its socket is not read, which is what TCP calls back-pressure, and
//! calls that were read already are not begun. A peer that stalls in the middle of a call, or does
//! not read its replies, is given up after a time that is short when others wait for the memory it holds.
//!
//! When a connection ends its socket is shut down and its unsent replies are dropped at once, and so are its
//! calls that change nothing; others of it that still run keep nothing but themselves.
//!
//! While nothing of it is on its way it may go to another shard ([`loads`](super::loads)), and is the same connection
//! there to its client and to everybody else.

mod moving;
mod sending;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::num::NonZero;
use std::ops::Range;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use nfs_io::{ClientKey, Lane};
use rustix::net::Shutdown;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

pub(super) use self::moving::{Known, Moving};
use super::clients::{Entered, Figures};
use super::loads::ConnectionLoad;
use super::output::Output;
use super::progress::{NotReady, Progress};
use super::receive::{BadRecord, Receiver, Step, Wanted};
use super::shard::{Scratch, Shard};
use super::turns::ConnectionTurns;
use crate::front::context::Context;
use crate::front::dispatch::{self, Answer, Begun, Call};
use crate::limits;
use crate::operate::calls::{self, CallRecord, Recorded, Times};
use crate::operate::counters::{count, count_bytes};
use crate::rpc::caller::Caller;
use crate::rpc::client_id::Peer;
use crate::rpc::reply::Reply;
use crate::rpc::reply_cache::Origin;

/// One TCP connection, shared by its receiving and sending halves and by its calls in flight.
pub(crate) struct Connection {
    shard: Rc<Shard>,
    stream: TcpStream,
    from: Rc<Peer>,
    caller: Caller,
    origin: Arc<Origin>,
    output: RefCell<Output>,
    in_flight: Cell<usize>,
    /// Tells the receiving half that there is room for calls again.
    room: Notify,
    turns: ConnectionTurns,
    receiving_turn: Rc<Notify>,
    sending_turn: Rc<Notify>,
    closed: Cell<bool>,
    /// Tells calls that change nothing that nobody waits for them.
    gone: Rc<Notify>,
    figures: Arc<Figures>,
    load: ConnectionLoad,
}

/// Why the server stopped serving a connection.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("the peer closed it")]
    Closed,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    BadRecord(#[from] BadRecord),
    #[error("the peer sent what is no call")]
    NoCall,
    #[error("the peer stalled")]
    Stalled,
    /// It goes on on the shard of this number.
    #[error("it goes to shard {0}")]
    Moves(usize),
}

impl From<NotReady> for End {
    fn from(not_ready: NotReady) -> Self {
        match not_ready {
            NotReady::Stalled => Self::Stalled,
            NotReady::Io(error) => Self::Io(error),
        }
    }
}

/// Work on the server's own files: no file system of an export has this number.
const OWN_FILES: Lane = Lane(u64::MAX - 1);
/// How often a connection that waits for room, and is not read meanwhile, looks whether its peer is still there.
const LOOK_FOR_PEER: Duration = Duration::from_secs(1);
/// Bytes to read or write that are handed to the kernel, and bytes of replies that are sent, without
/// waiting for more.
const HAND_OVER_BYTES: usize = 256 << 10;
/// Where the shard had nothing to do for so long before it read, its peer has probably sent all that it may have in
/// flight, and waits for the replies: those to the first half of it go out before the others are made. If the shard has
/// always something to do, they go out together, which takes fewer system calls.
const LOCKSTEP_WAIT: Duration = Duration::from_micros(5);
/// Fewest replies that are sent by themselves so, which takes a system call, and fewest calls in flight that are handed to
/// the kernel for that.
const HALF_REPLIES_MIN: usize = 4;
/// Reads from one socket before other connections of the shard have their turn.
const READS_PER_TURN: usize = 4;

/// A connection that is to be served: what it needs is put together before its task is made, which would hold the pieces
/// for as long as it lives.
pub(super) fn new(
    shard: &Rc<Shard>,
    stream: TcpStream,
    entered: &Entered,
    known: Option<Known>,
) -> Rc<Connection> {
    let figures = Arc::clone(&entered.figures);
    let (peer, standing) = (figures.peer, figures.standing);
    let addr = peer.ip().to_canonical();
    let known = known.unwrap_or_else(|| Known {
        from: shard.peer(addr, figures.number),
        origin: shard.service.replies.origin(),
    });
    let from = Rc::new(known.from);
    let from_port = (addr, peer.port());
    let caller = Caller::of_connection(from_port, standing, from.unnamed(), Instant::now().into());
    let turns = shard.turns.enter(ClientKey::of(addr));
    Rc::new(Connection {
        shard: Rc::clone(shard),
        stream,
        from,
        caller,
        origin: known.origin,
        output: RefCell::default(),
        in_flight: Cell::new(0),
        room: Notify::new(),
        turns,
        receiving_turn: Rc::default(),
        sending_turn: Rc::default(),
        closed: Cell::new(false),
        gone: Rc::default(),
        figures,
        load: shard.load.enter(),
    })
}

/// Serves a connection until its peer closes it, breaks the protocol, the server drains, or it is to go to another
/// shard.
pub(super) async fn serve(connection: Rc<Connection>) -> Option<Moving> {
    let end = tokio::select! {
        // All are asked each time, so their order gives nobody an advantage, and a random one costs.
        biased;
        end = connection.receive() => end,
        end = connection.send() => end,
        () = connection.shard.drained() => {
            connection.finish().await;
            Ok(())
        }
        () = connection.figures.to_close.notified() => {
            // It was idle when it was chosen. A call that has come since is answered, unless that takes long.
            let patience = Duration::from_millis(limits::LINGER_MILLISECONDS_MAX);
            timeout(patience, connection.finish()).await.or(Err(End::Stalled))
        }
    };
    if let Err(End::Moves(to)) = end {
        return Connection::leave(connection, to);
    }
    if matches!(end, Err(End::Closed)) && connection.has_delivered_all() {
        let replies = &connection.shard.service.replies;
        if let Some(note) = replies.ended_in_order(&connection.origin) {
            // Nobody waits for it; where the pool is full it is left out.
            drop(connection.shard.service.vfs.pool.run(OWN_FILES, note));
        }
    }
    connection.close();
    if let Err(end) = end {
        connection.count_end(&end);
        let peer = connection.figures.peer;
        tracing::trace!(%peer, %end, "connection ended");
    }
    None
}

impl Connection {
    /// Reads calls and starts them, for as long as the peer sends.
    async fn receive(self: &Rc<Self>) -> Result<(), End> {
        let service = &self.shard.service;
        let mut receiver = Receiver::new(service.vfs.io_bytes_max, service.receive_buffers.clone());
        let mut progress = Progress::new();
        loop {
            if self.wait_for_room().await? {
                progress = Progress::new();
            }
            if let Some(to) = self.way_out(&receiver) {
                return Err(End::Moves(to));
            }
            self.wait_readable(&receiver, &mut progress).await?;
            let mut more = true;
            for _ in 0..READS_PER_TURN {
                let data = receiver.direct().map_or(0, |place| place.len());
                let piece = data.min(limits::RECEIVED_PER_PAUSE_BYTES_MAX);
                let cost = ConnectionTurns::cost(0, piece);
                if self.turns.has_to_wait(cost) || self.turns.has_to_pause() {
                    let asked = Instant::now();
                    self.wait_for_turn(cost, cost).await;
                    progress.excuse(asked.elapsed());
                }
                let read = self.read_once(&mut receiver).await?;
                if read.waited {
                    // The time that we let the peer wait is not held against it.
                    progress = Progress::new();
                }
                progress.moved(read.bytes, Instant::now());
                self.flush()?;
                more = read.more;
                if !more || !self.has_room() {
                    break;
                }
            }
            if more {
                tokio::task::yield_now().await;
            }
        }
    }

    /// One read from the socket, into a WRITE's buffer and the shard's, and what comes of it.
    async fn read_once(self: &Rc<Self>, receiver: &mut Receiver) -> Result<Read, End> {
        let mut scratch = self.shard.scratch();
        // What is read and cannot be used yet is held outside the budget: little, when it is tight.
        let pressed = self.shard.service.receive_buffers.budget().has_waiters();
        let mut limit = receiver.read_limit().min(scratch.len());
        if pressed {
            limit = limit.min(limits::READ_BYTES_UNDER_PRESSURE_MAX);
        }
        let mut place = receiver.direct().unwrap_or_default();
        if place.len() > limits::RECEIVED_PER_PAUSE_BYTES_MAX && !self.turns.is_alone() {
            place = place
                .get_mut(..limits::RECEIVED_PER_PAUSE_BYTES_MAX)
                .unwrap_or_default();
            limit = 0;
        }
        let next = scratch.get_mut(..limit).unwrap_or_default();
        let direct = place.len();
        let read = if direct == 0 {
            self.stream.try_read(next)
        } else {
            // The rest of this call's data and the next call's head at once.
            let mut parts = [IoSliceMut::new(place), IoSliceMut::new(next)];
            self.stream.try_read_vectored(&mut parts)
        };
        match read {
            Ok(0) => Err(End::Closed),
            Ok(len) => {
                let wanted = direct + limit;
                let read = ReadAt {
                    time: Instant::now(),
                    ticks: calls::now(),
                };
                receiver.was_read(read.ticks);
                self.shard.load.look(read.time.into());
                count_bytes(&self.figures.received_bytes, len);
                self.shard.clients.moved(&self.figures, read.time.into());
                self.note_drained(len < wanted);
                self.turns.use_up(0, len.min(direct));
                receiver.received(len.min(direct));
                let behind = 0..len.saturating_sub(direct);
                Ok(Read {
                    bytes: len,
                    more: len == wanted,
                    waited: self.take_calls(receiver, scratch, behind, read).await?,
                })
            }
            Err(error) => not_ready(error),
        }
    }

    /// A read that did not fill its buffer emptied the socket: the next wait is for new bytes, without
    /// another read to be told so. Bytes that came since are announced by epoll (edge-triggered).
    fn note_drained(&self, drained: bool) {
        if drained {
            let nothing = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
            // Its answer is the one just given.
            let _would_block = self.stream.try_io(Interest::READABLE, nothing);
        }
    }

    /// Starts every call that the bytes `left` of `scratch` complete, and sends the replies to half of them early where
    /// their peer waits for that. True when it had to wait for memory or room.
    async fn take_calls(
        self: &Rc<Self>,
        receiver: &mut Receiver,
        mut scratch: Scratch,
        mut left: Range<usize>,
        read: ReadAt,
    ) -> Result<bool, End> {
        let mut waited = false;
        let mut half = self.half_of(left.len());
        loop {
            let mut bytes = scratch.get(left.clone()).unwrap_or_default();
            let step = receiver.feed(&mut bytes)?;
            left.start = left.end - bytes.len();
            match step {
                Step::More => return Ok(waited),
                Step::Call(call) => {
                    let is_half = half
                        .take_if(|half| left.len() <= half.get() as usize)
                        .is_some();
                    let read = (call, read);
                    self.take_call(read, is_half, &mut scratch, &mut left)
                        .await?;
                }
                Step::Memory(wanted) => {
                    // Waiting for memory must not hold back replies that would free some.
                    self.flush()?;
                    if !self.reserve_at_once(receiver, &wanted)? {
                        scratch.set_down(&mut left);
                        self.figures.held_up.store(true, Ordering::Relaxed);
                        self.reserve(receiver, wanted).await?;
                        self.figures.held_up.store(false, Ordering::Relaxed);
                    }
                    waited = true;
                }
            }
            if !left.is_empty() && !self.has_room() {
                self.flush()?;
                scratch.set_down(&mut left);
                waited |= self.wait_for_room().await?;
            }
        }
    }

    /// How many of these bytes are left when the replies are sent that are made by then; `None` if all go out together.
    fn half_of(&self, bytes: usize) -> Option<NonZero<u32>> {
        let waits = self.shard.load.waited() >= LOCKSTEP_WAIT;
        // So small as every connection keeps it in mind.
        let half = u32::try_from(bytes / 2).ok().filter(|_| waits);
        half.and_then(NonZero::new)
    }

    /// Starts a call, of which the last bytes were read then, in its turn. What changes something has begun before anything is
    /// waited for: that is carried out though its connection ends. If `is_half`, the replies that are there behind it are
    /// sent, as half of the bytes that were read are done.
    async fn take_call(
        self: &Rc<Self>,
        (call, read): (Call, ReadAt),
        is_half: bool,
        scratch: &mut Scratch,
        left: &mut Range<usize>,
    ) -> Result<(), End> {
        // No call of which the head has come is behind it.
        let is_last = left.start == left.end;
        let cost = ConnectionTurns::cost(1, call.bytes() + call.bytes_asked_for());
        self.shard.load.note(&self.load, cost);
        if !call.may_change() && (self.turns.has_to_wait(cost) || self.turns.has_to_pause()) {
            self.flush()?;
            scratch.set_down(left);
            // What comes behind it is to find something left.
            let wanted = if is_last { cost } else { limits::TURN_COST_MAX };
            self.wait_for_turn(cost, wanted).await;
        }
        let may_change = call.may_change();
        let mut handed_over = self.start(call, read)?;
        if is_half && !may_change && self.in_flight.get() >= HALF_REPLIES_MIN {
            // What the kernel does at once is answered now. Changes gain more from being made together.
            handed_over |= self.shard.engine.hand_over(1);
        }
        if self.turns.has_to_pause() {
            scratch.set_down(left);
            self.turns.pause().await;
        }
        if self.output.borrow().bytes() >= HAND_OVER_BYTES {
            // Its buffer is free for the next call once it is sent.
            self.flush()?;
        }
        // Nothing is waited for but a turn that is going to be used, or what has gone before its turn.
        if (may_change || !is_last) && self.turns.has_to_wait(1) {
            self.flush()?;
            scratch.set_down(left);
            let wanted = if is_last { 1 } else { limits::TURN_COST_MAX };
            self.turns.next(&self.receiving_turn, wanted).await;
        } else if handed_over {
            // It may have been carried out here and now: others have their turn.
            scratch.set_down(left);
            tokio::task::yield_now().await;
        }
        if is_half && self.output.borrow().replies() >= HALF_REPLIES_MIN {
            // The peer takes them while the others are made, and sends more.
            self.flush()?;
        }
        Ok(())
    }

    /// Waits until something of this cost may be done here and now, in a turn of as much as is wanted.
    async fn wait_for_turn(&self, cost: u64, wanted: u64) {
        if self.turns.has_to_wait(cost) {
            self.turns.next(&self.receiving_turn, wanted).await;
        } else if self.turns.has_to_pause() {
            self.turns.pause().await;
        }
    }

    /// Gives a call on its way what it wants, if that is there and within its client's share, or nothing, if it
    /// is to be refused. True when it can go on.
    ///
    /// # Errors
    /// [`BadRecord::TooLarge`] when it has memory already: who has some must not wait for more.
    fn reserve_at_once(&self, receiver: &mut Receiver, wanted: &Wanted) -> Result<bool, End> {
        let service = &self.shard.service;
        if receiver.holds_memory() {
            return Err(BadRecord::TooLarge.into());
        }
        let is_let_in = |begun: &Begun| begun.is_let_in(service, &self.caller);
        if receiver.begun().is_some_and(|begun| !is_let_in(begun)) {
            receiver.received_into_nothing();
            return Ok(true);
        }
        if self.has_to_put_off(wanted) {
            return Ok(false);
        }
        let pool = &service.receive_buffers;
        let Some(taken) = self.figures.share.try_take(wanted.bytes()) else {
            return Ok(false);
        };
        match *wanted {
            Wanted::Record(bytes) => {
                let Some(reservation) = pool.budget().try_reserve(bytes as u64) else {
                    return Ok(false);
                };
                receiver.reserved(reservation);
            }
            Wanted::Data { len, start } => {
                let Some(data) = pool.try_take_placed(len, start) else {
                    return Ok(false);
                };
                receiver.received_into(data);
            }
        }
        receiver.took(taken);
        Ok(true)
    }

    /// Is this the data of a large WRITE, while enough of its client's is being copied into the page cache?
    fn has_to_put_off(&self, wanted: &Wanted) -> bool {
        wanted.is_large() && self.turns.copies().are_in_the_way()
    }

    async fn reserve(&self, receiver: &mut Receiver, wanted: Wanted) -> Result<(), End> {
        if self.has_to_put_off(&wanted) {
            count(&self.shard.service.counters.data_put_off);
            // In a box, so that every connection is no larger for it.
            Box::pin(self.turns.copies().wait()).await;
        }
        let taken = self.figures.share.take(wanted.bytes()).await;
        let pool = &self.shard.service.receive_buffers;
        match wanted {
            Wanted::Record(bytes) => {
                let reservation = pool.budget().reserve(bytes as u64).await;
                receiver.reserved(reservation.ok_or(BadRecord::TooLarge)?);
            }
            Wanted::Data { len, start } => {
                let data = pool.take_placed(len, start).await;
                receiver.received_into(data.ok_or(BadRecord::TooLarge)?);
            }
        }
        receiver.took(taken);
        Ok(())
    }

    /// Runs a call as far as it goes at once; what has to wait goes on as a task of its own. True when a
    /// large transfer was handed to the kernel.
    fn start(self: &Rc<Self>, call: Call, read: ReadAt) -> Result<bool, End> {
        let mut caller = self.caller.clone();
        caller.call.started = read.time.into();
        let (client, times) = (caller.call.client, Times::of(call.first_bytes, read.ticks));
        let context = Context {
            service: self.shard.service.clone(),
            engine: self.shard.engine.noting(self.turns.copies()),
            compound_boxes: self.shard.compound_boxes.clone(),
            peer: Rc::clone(&self.from),
            turn: Default::default(),
            caller,
            received: read.ticks,
            origin: Arc::clone(&self.origin),
            crowded: self.is_crowded(),
            export: Cell::default(),
            mode: Cell::default(),
            shares_looks: false,
            call_note: None,
            gone: Rc::clone(&self.gone),
        };
        self.turns.use_up(1, call.bytes());
        let (runs_on, places) = (call.runs_on(), call.places());
        // Changes that the kernel has done together are answered in the order in which they came: a Linux client that
        // handles two replies of NFSv3 in another order than they come in would otherwise read its file again, where
        // both tell one time.
        let is_behind_others = call.may_change() && self.in_flight.get() > 0;
        let answer = self.shard.call_boxes.put(dispatch::answer(context, call));
        let mut call = Recorded::new(client, times, answer);
        // Whatever it waits for is asked again, with a real waker, by the task below.
        let mut at_once = TaskContext::from_waker(Waker::noop());
        count(&self.figures.calls);
        let mut polled = Pin::new(&mut call).poll(&mut at_once);
        let handed_over = polled.is_pending() && self.shard.engine.hand_over(HAND_OVER_BYTES);
        if handed_over && !is_behind_others {
            // A fast disk is done with it by now.
            polled = Pin::new(&mut call).poll(&mut at_once);
        }
        self.turns.set_weight(self.from.weight());
        match polled {
            Poll::Ready((Answer::Reply(reply), record)) => push(self, reply, record),
            Poll::Ready((Answer::Nothing, record)) => end_without_reply(record),
            Poll::Ready((Answer::Close, record)) => {
                end_without_reply(record);
                return Err(End::NoCall);
            }
            Poll::Pending => self.go_on(call, runs_on, places),
        }
        Ok(handed_over)
    }

    fn go_on(self: &Rc<Self>, call: Recorded<Answer>, runs_on: bool, places: usize) {
        let running = Running::new(self, places);
        let call = Unfinished {
            call,
            runs_on,
            running,
        };
        self.shard.call_tasks.begin(call, Unfinished::finish);
    }

    fn has_room(&self) -> bool {
        let in_flight = self.in_flight.get();
        // A connection of which no call runs is always read, whatever its client does elsewhere.
        let may_begin = in_flight == 0 || self.turns.has_room();
        may_begin
            && self.from.resume().is_none()
            && in_flight < limits::IN_FLIGHT_PER_CONNECTION_MAX
            && self.output.borrow().has_room()
    }

    /// Calls that only wait for another run of theirs would soon be in the way of those that can go on.
    fn is_crowded(&self) -> bool {
        self.in_flight.get() >= limits::IN_FLIGHT_BESIDE_AWAITED_MAX || self.turns.is_crowded()
    }

    /// Waits until another call may begin. True when it had to wait.
    ///
    /// # Errors
    /// [`End::Closed`] when the peer has gone meanwhile: what it sent and was not read is nobody's any more.
    async fn wait_for_room(&self) -> Result<bool, End> {
        let mut waited = false;
        while !self.has_room() {
            waited = true;
            self.figures.held_up.store(true, Ordering::Relaxed);
            if let Some(resume) = self.from.resume() {
                let paused = Instant::now();
                tokio::time::sleep_until(resume.into()).await;
                self.figures.throttled_for(paused.elapsed());
                self.from.resumed(resume);
                continue;
            }
            // Told when a call of this connection ends: while none runs there is room.
            let told = timeout(LOOK_FOR_PEER, self.room.notified()).await;
            if told.is_err() && nfs_io::socket::has_hung_up(self.stream.as_fd()) {
                return Err(End::Closed);
            }
        }
        if waited {
            self.figures.held_up.store(false, Ordering::Relaxed);
        }
        Ok(waited)
    }

    async fn wait_readable(&self, receiver: &Receiver, progress: &mut Progress) -> Result<(), End> {
        if receiver.is_idle() {
            self.stream.readable().await?;
            *progress = Progress::new();
            return Ok(());
        }
        if !receiver.holds_memory() {
            return Ok(progress.wait(|| false, self.stream.readable()).await?);
        }
        let (budget, share) = (
            self.shard.service.receive_buffers.budget(),
            &self.figures.share,
        );
        let most = Duration::from_secs(limits::RECEIVE_SECONDS_OVER_SHARE_MAX);
        let overdue = receiver.held_for().is_some_and(|held| held > most);
        if overdue && budget.has_waiters() && share.is_over() {
            return Err(End::Stalled);
        }
        let pressed = || budget.has_waiters() || share.has_waiters();
        Ok(progress.wait(pressed, self.stream.readable()).await?)
    }

    /// Every call was answered, and the peer's TCP has acknowledged every byte of the answers.
    fn has_delivered_all(&self) -> bool {
        self.in_flight.get() == 0
            && self.output.borrow().is_empty()
            && nfs_io::socket::unacknowledged_bytes(self.stream.as_fd()) == Ok(0)
    }

    /// Ends the connection for the peer, though calls of it may still run.
    fn close(&self) {
        self.closed.set(true);
        self.gone.notify_waiters();
        self.from.line().end();
        // Replies to calls before one that broke the protocol: as far as they go at once.
        let unsent = self.flush_now().is_err();
        drop(self.output.take());
        if let Err(error) = rustix::net::shutdown(&self.stream, Shutdown::Both) {
            tracing::trace!(%error, unsent, "the peer had closed");
        }
    }

    fn count_end(&self, end: &End) {
        let counters = &self.shard.service.counters;
        match end {
            End::BadRecord(_) => {
                count(&counters.bad_records);
                count(&counters.connections_dropped);
            }
            End::NoCall | End::Stalled => count(&counters.connections_dropped),
            End::Closed | End::Io(_) | End::Moves(_) => {}
        }
    }
}

/// A call that runs on as a task; counts as in flight, in so many places, until dropped.
struct Running(Rc<Connection>, usize);

impl Running {
    fn new(connection: &Rc<Connection>, places: usize) -> Self {
        connection.in_flight.set(connection.in_flight.get() + 1);
        connection.turns.begin(places);
        connection.figures.in_flight.fetch_add(1, Ordering::Relaxed);
        count(&connection.shard.service.counters.calls_running);
        Self(Rc::clone(connection), places)
    }

    fn end(self, answer: Answer, record: Option<Box<CallRecord>>) {
        match answer {
            Answer::Reply(reply) if !self.0.closed.get() => push(&self.0, reply, record),
            Answer::Reply(_) | Answer::Nothing | Answer::Close => end_without_reply(record),
        }
    }
}

/// A call that had to wait for something.
pub(super) struct Unfinished {
    call: Recorded<Answer>,
    /// Also when its connection has gone.
    runs_on: bool,
    running: Running,
}

impl Unfinished {
    async fn finish(self) {
        let Self {
            call,
            runs_on,
            running,
        } = self;
        let (answer, record) = if runs_on {
            call.await
        } else {
            tokio::select! {
                biased;
                answer = call => answer,
                () = running.0.gone.notified() => (Answer::Nothing, None),
            }
        };
        running.end(answer, record);
    }
}

fn end_without_reply(record: Option<Box<CallRecord>>) {
    if let Some(record) = record {
        record.end_without_reply();
    }
}

fn push(connection: &Connection, reply: Reply, record: Option<Box<CallRecord>>) {
    let mut output = connection.output.borrow_mut();
    let before = output.bytes();
    let record = record.map(|mut record| {
        record.answered(reply.head());
        record
    });
    output.take_places(&connection.shard.spare_places);
    output.push(reply);
    if let Some(record) = record {
        output.record(record);
    }
    let bytes = output.bytes() - before;
    connection.turns.use_up(0, bytes);
    count_bytes(&connection.figures.sent_bytes, bytes);
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.in_flight.set(self.0.in_flight.get() - 1);
        self.0.turns.end(self.1);
        self.0.figures.in_flight.fetch_sub(1, Ordering::Relaxed);
        let counters = &self.0.shard.service.counters;
        counters.calls_running.fetch_sub(1, Ordering::Relaxed);
        self.0.to_send().notify_one();
        self.0.room.notify_one();
    }
}

/// When bytes were read from the socket.
#[derive(Clone, Copy)]
struct ReadAt {
    time: Instant,
    /// The same by the clock of the steps.
    ticks: u64,
}

/// What one read from the socket brought.
struct Read {
    bytes: usize,
    /// Whether the socket may hold more bytes that can be read now.
    more: bool,
    /// The peer was let wait for memory or room.
    waited: bool,
}

fn not_ready(error: io::Error) -> Result<Read, End> {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(Read {
            bytes: 0,
            more: false,
            waited: false,
        }),
        _ => Err(End::Io(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_idle_connection_keeps_in_mind_is_bounded() {
        const fn bytes<F: Future>(_: fn(Rc<Connection>) -> F) -> usize {
            size_of::<F>()
        }
        let bytes = bytes(serve) + size_of::<Connection>();
        let most = limits::CONNECTION_BYTES_MAX;
        assert!(bytes <= most, "{bytes} bytes of {most}");
    }
}
