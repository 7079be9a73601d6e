//! One TCP connection: calls in, replies out, in order of completion.
//!
//! A connection holds no buffer while it is idle: it reads into its shard's. Its calls in flight and its unsent
//! replies are capped; at a cap its socket is not read, which is what TCP calls back-pressure. A
//! peer that stalls in the middle of a call, or does not read its replies, is given up after a time
//! that is short when others wait for the memory it holds.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use nfs_io::{Budget, Buf};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

use super::clients::Figures;
use super::output::Output;
use super::receive::{BadRecord, Receiver, Step, Wanted};
use super::shard::Shard;
use crate::core::{Caller, WireIdentity};
use crate::counters::count;
use crate::dispatch::{self, Answer, Reply};
use crate::limits;
use crate::nfs3::Context;

/// See the module.
pub(crate) struct Connection {
    shard: Rc<Shard>,
    stream: TcpStream,
    caller: Caller,
    output: RefCell<Output>,
    in_flight: Cell<usize>,
    /// Something is to be sent, or the connection ends.
    to_send: Notify,
    /// There is room for calls again.
    room: Notify,
    closed: Cell<bool>,
    figures: Arc<Figures>,
}

/// Why a connection ended.
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
}

/// How often a stalled peer is looked at.
const TICK: Duration = Duration::from_secs(1);

/// Serves a connection until its peer closes it, breaks the protocol, or the server drains.
pub(crate) async fn serve(
    shard: Rc<Shard>,
    stream: TcpStream,
    peer: SocketAddr,
    mut drain: watch::Receiver<bool>,
) {
    let caller = Caller {
        addr: peer.ip().to_canonical(),
        port: peer.port(),
        client: shard.client_number(peer.ip().to_canonical()),
        identity: WireIdentity::Nobody,
    };
    let figures = shard.core.clients.enter(peer);
    let connection = Rc::new(Connection {
        shard,
        stream,
        caller,
        output: RefCell::default(),
        in_flight: Cell::new(0),
        to_send: Notify::new(),
        room: Notify::new(),
        closed: Cell::new(false),
        figures,
    });
    let counters = &connection.shard.core.counters;
    let end = tokio::select! {
        end = connection.receive() => end,
        end = connection.send() => end,
        _ = drain.wait_for(|drain| *drain) => {
            connection.finish().await;
            Ok(())
        }
    };
    connection.closed.set(true);
    connection.shard.core.clients.leave(peer);
    if let Err(End::BadRecord(_) | End::NoCall | End::Stalled) = &end {
        count(&counters.connections_dropped);
    }
    if let Err(end) = end {
        tracing::trace!(%peer, %end, "connection ended");
    }
}

impl Connection {
    /// Reads calls and starts them, for as long as the peer sends.
    async fn receive(self: &Rc<Self>) -> Result<(), End> {
        let mut receiver = Receiver::new(self.shard.core.io_bytes_max);
        let mut progress = Progress::new();
        loop {
            self.wait_for_room().await;
            self.wait_readable(&receiver, &mut progress).await?;
            loop {
                let received = self.read_once(&mut receiver).await?;
                progress.moved(received.bytes);
                count_bytes(&self.figures.received_bytes, received.bytes);
                if !received.more || !self.has_room() {
                    break;
                }
            }
            self.flush()?;
        }
    }

    /// One read from the socket, into a WRITE's buffer or the shard's, and what comes of it.
    async fn read_once(self: &Rc<Self>, receiver: &mut Receiver) -> Result<Received, End> {
        if let Some(place) = receiver.direct() {
            let wanted = place.len();
            return match self.stream.try_read(place) {
                Ok(0) => Err(End::Closed),
                Ok(len) => {
                    receiver.received(len);
                    self.take_calls(receiver, &[]).await?;
                    Ok(Received {
                        bytes: len,
                        more: len == wanted,
                    })
                }
                Err(error) => not_ready(error),
            };
        }
        let mut scratch = self.shard.scratch();
        let read = self.stream.try_read(&mut scratch);
        let received = match read {
            Ok(0) => Err(End::Closed),
            Ok(len) => {
                let more = len == scratch.len();
                let bytes = scratch.get(..len).unwrap_or_default();
                self.take_calls(receiver, bytes).await?;
                Ok(Received { bytes: len, more })
            }
            Err(error) => not_ready(error),
        };
        self.shard.give_back(scratch);
        received
    }

    /// Starts every call that these bytes complete.
    async fn take_calls(
        self: &Rc<Self>,
        receiver: &mut Receiver,
        mut bytes: &[u8],
    ) -> Result<(), End> {
        loop {
            match receiver.feed(&mut bytes)? {
                Step::More => return Ok(()),
                Step::Call(record, data) => self.start(record, data)?,
                Step::Memory(wanted) => {
                    // Waiting for memory must not hold back replies that would free some.
                    self.flush()?;
                    self.reserve(receiver, wanted).await?;
                }
            }
        }
    }

    async fn reserve(&self, receiver: &mut Receiver, wanted: Wanted) -> Result<(), End> {
        let pool = &self.shard.core.receive_buffers;
        match wanted {
            Wanted::Record(bytes) => {
                let budget = pool.budget();
                let reservation = budget
                    .reserve(bytes as u64)
                    .await
                    .ok_or(BadRecord::TooLong)?;
                receiver.reserved(reservation);
            }
            Wanted::Data(bytes) => {
                let data = match pool.try_take(bytes) {
                    Some(data) => data,
                    None => pool.take(bytes).await.ok_or(BadRecord::TooLong)?,
                };
                receiver.received_into(data);
            }
        }
        Ok(())
    }

    /// Runs a call as far as it goes at once; what has to wait goes on as a task of its own.
    fn start(self: &Rc<Self>, record: Vec<u8>, data: Option<Buf>) -> Result<(), End> {
        let context = Context {
            core: self.shard.core.clone(),
            engine: self.shard.engine.clone(),
            caller: self.caller.clone(),
        };
        let mut call: Pin<Box<dyn Future<Output = Answer>>> =
            Box::pin(dispatch::answer(context, record, data));
        // Whatever it waits for is asked again, with a real waker, by the task below.
        let mut at_once = TaskContext::from_waker(Waker::noop());
        count(&self.figures.calls);
        match call.as_mut().poll(&mut at_once) {
            Poll::Ready(Answer::Reply(reply)) => push(self, reply),
            Poll::Ready(Answer::Nothing) => {}
            Poll::Ready(Answer::Close) => return Err(End::NoCall),
            Poll::Pending => self.go_on(call),
        }
        Ok(())
    }

    fn go_on(self: &Rc<Self>, call: Pin<Box<dyn Future<Output = Answer>>>) {
        let running = Running::new(self);
        tokio::task::spawn_local(async move {
            let answer = call.await;
            running.end(answer);
        });
    }

    /// Sends what could not be sent at once, and what calls that ran on have answered.
    async fn send(&self) -> Result<(), End> {
        loop {
            self.to_send.notified().await;
            let mut progress = Progress::new();
            loop {
                let before = self.output.borrow().bytes();
                if self.flush()? {
                    break;
                }
                progress.moved(before.saturating_sub(self.output.borrow().bytes()));
                let budget = self.shard.core.send_buffers.budget();
                progress.wait(budget, self.stream.writable()).await?;
            }
        }
    }

    /// True when nothing is left to be sent.
    fn flush(&self) -> Result<bool, End> {
        let done = {
            let mut output = self.output.borrow_mut();
            output.flush(&self.stream)?
        };
        if !done {
            self.to_send.notify_one();
        }
        self.room.notify_one();
        Ok(done)
    }

    fn has_room(&self) -> bool {
        self.in_flight.get() < limits::IN_FLIGHT_PER_CONNECTION_MAX
            && self.output.borrow().bytes() < limits::UNSENT_BYTES_MAX
            && self.shard.has_room()
    }

    async fn wait_for_room(&self) {
        while !self.has_room() {
            if self.shard.has_room() {
                self.room.notified().await;
            } else {
                self.shard.room().await;
            }
        }
    }

    async fn wait_readable(&self, receiver: &Receiver, progress: &mut Progress) -> Result<(), End> {
        if receiver.is_idle() {
            self.stream.readable().await?;
            *progress = Progress::new();
            return Ok(());
        }
        let budget = self.shard.core.receive_buffers.budget();
        progress.wait(budget, self.stream.readable()).await
    }

    /// Waits for the calls in flight and sends their replies; no new ones are read.
    async fn finish(&self) {
        while self.in_flight.get() > 0 || !self.output.borrow().is_empty() {
            match self.flush() {
                Err(_) => return,
                Ok(true) => self.to_send.notified().await,
                Ok(false) => {
                    if self.stream.writable().await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

/// A call that runs on as a task; counts as in flight until dropped.
struct Running(Rc<Connection>);

impl Running {
    fn new(connection: &Rc<Connection>) -> Self {
        connection.in_flight.set(connection.in_flight.get() + 1);
        connection.shard.begin();
        connection.figures.in_flight.fetch_add(1, Ordering::Relaxed);
        Self(Rc::clone(connection))
    }

    fn end(self, answer: Answer) {
        if self.0.closed.get() {
            return;
        }
        if let Answer::Reply(reply) = answer {
            push(&self.0, reply);
        }
    }
}

fn push(connection: &Connection, reply: Reply) {
    let mut output = connection.output.borrow_mut();
    let before = output.bytes();
    output.push(reply);
    count_bytes(&connection.figures.sent_bytes, output.bytes() - before);
}

fn count_bytes(counter: &AtomicU64, bytes: usize) {
    counter.fetch_add(bytes as u64, Ordering::Relaxed);
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.in_flight.set(self.0.in_flight.get() - 1);
        self.0.shard.end();
        self.0.figures.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.0.to_send.notify_one();
        self.0.room.notify_one();
    }
}

/// What one read brought.
struct Received {
    bytes: usize,
    /// The socket may hold more.
    more: bool,
}

fn not_ready(error: io::Error) -> Result<Received, End> {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(Received {
            bytes: 0,
            more: false,
        }),
        _ => Err(End::Io(error)),
    }
}

/// How a peer in the middle of something gets on.
struct Progress {
    last: Instant,
    tick: Instant,
    bytes: usize,
}

impl Progress {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            last: now,
            tick: now,
            bytes: 0,
        }
    }

    fn moved(&mut self, bytes: usize) {
        if bytes > 0 {
            self.last = Instant::now();
            self.bytes += bytes;
        }
    }

    /// Waits until the socket is ready.
    ///
    /// # Errors
    /// [`End::Stalled`] when the peer moves nothing for too long or, with others waiting for memory, too little.
    async fn wait(
        &mut self,
        budget: &Budget,
        ready: impl Future<Output = io::Result<()>>,
    ) -> Result<(), End> {
        let mut ready = std::pin::pin!(ready);
        loop {
            if let Ok(ready) = timeout(TICK, &mut ready).await {
                return Ok(ready?);
            }
            let silent = self.last.elapsed().as_secs();
            let pressed = budget.has_waiters();
            let slow = self.bytes < limits::PEER_BYTES_PER_SECOND_UNDER_PRESSURE_MIN;
            let ticked =
                self.tick.elapsed().as_secs() >= limits::STALLED_PEER_SECONDS_UNDER_PRESSURE_MAX;
            if silent >= limits::STALLED_PEER_SECONDS_MAX || (pressed && slow && ticked) {
                return Err(End::Stalled);
            }
            self.tick = Instant::now();
            self.bytes = 0;
        }
    }
}
