//! One TCP connection to an RPC server, shared by any number of concurrent calls.
//!
//! [`Connection::call`] writes a call into the connection's table and waits for its reply; a driver
//! task, one per connection, moves bytes both ways: it sends what is queued in as few writes as it
//! can, and hands each reply to its call by xid, in whatever order the replies come. A call costs no
//! task and no channel.
//!
//! A connection that is lost is made again when a call needs it, with growing pauses, and what was on
//! its way is sent again *with the same xid*, so that a server's reply cache can tell a repeat from a
//! new call (RFC 1813 §4.5). [`Reconnect`] says how far this goes. A connection over which nothing came
//! for [`ConnectOptions::retry_after`] while calls waited counts as lost, too. Over its first connection a
//! call goes out once: TCP does the rest. Over a later one it goes out again after the same time without a
//! reply, because a server that was still at work on it drops what it takes for a repetition. Every call
//! ends: with a reply, an error, or its timeout.
//!
//! Dropping a call's future gives the call up: its slot is free at once, and its reply, if one still
//! comes, is ignored. Dropping the last clone of a [`Connection`] closes it.
//!
//! Needs a tokio runtime with I/O and time enabled; either flavour.

mod connect;
mod driver;
mod foreign;
mod incoming;
mod liveness;
mod many;
mod operations;
mod raw;
mod reply;
pub(crate) mod retry;
mod stats;
mod table;

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use nfs_io::Buf;
use nfs_wire::auth::OpaqueAuth;
use nfs_wire::record::FragmentHeader;
use nfs_wire::rpc::CallHeader;
use nfs_wire::xdr::padding;
use nfs_wire::{Decode, DecodeError, Encode, Encoder};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::Instant;

pub use self::connect::Target;
pub use self::liveness::{Liveness, Silent};
pub use self::many::Connections;
pub use self::operations::{Kind, Latencies, Operation};
pub use self::raw::RawConnection;
pub use self::stats::Stats;

use self::driver::Driver;
use self::table::{Call, Memory, Table, Ticket};
use crate::error::{BadReply, Lost, RpcError};
use crate::identity::Identity;
use crate::limits;
use crate::random;

/// How a connection is made and what is done when it is lost.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Calls that may wait for replies at once, 1 to [`limits::IN_FLIGHT_MAX`]; more wait their turn.
    pub in_flight_max: u32,
    /// How long a call may take, reconnects included, before it ends with [`RpcError::Timeout`].
    pub call_timeout: Duration,
    /// How long a connection may say nothing while calls wait before it counts as lost, with
    /// [`Reconnect::Resend`]; doubled each time in a row, up to [`limits::RETRY_AFTER_MAX`]. Without
    /// resending, and where that is shorter, this is [`Self::call_timeout`].
    pub retry_after: Duration,
    /// How long one attempt to connect may take.
    pub connect_timeout: Duration,
    /// Largest reply record accepted, bytes.
    pub reply_bytes_max: usize,
    /// What is done when the connection is lost.
    pub reconnect: Reconnect,
    /// The local address to connect from; the system's choice if `None`.
    pub source: Option<IpAddr>,
    /// The local port to connect from.
    pub source_port: SourcePort,
    /// The network interface to use (`SO_BINDTODEVICE`); the system's choice if `None`.
    pub interface: Option<String>,
    /// Who can be asked which servers do not answer.
    pub liveness: Liveness,
}

impl ConnectOptions {
    /// With times that the clock can be put forward by: a caller may mean "for ever".
    fn bounded(mut self) -> Self {
        let times = [
            &mut self.call_timeout,
            &mut self.retry_after,
            &mut self.connect_timeout,
        ];
        for time in times {
            *time = (*time).min(limits::TIMEOUT_MAX);
        }
        self
    }
}

/// What is done when a connection is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconnect {
    /// Nothing: all calls fail, now and later, with [`RpcError::Disconnected`].
    Never,
    /// Calls on their way fail with [`RpcError::Disconnected`]; later calls connect again.
    ForNewCalls,
    /// Calls on their way are sent again over the next connection, with the same xid, until they
    /// run out of time. A server that has lost its reply cache (a restart) may execute a call that
    /// is not idempotent twice, as with every NFSv3 client.
    Resend,
}

/// The local port a connection comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourcePort {
    /// Whichever port the system chooses.
    Any,
    /// One below 1024, which some servers ask for and only root (`CAP_NET_BIND_SERVICE`) may take.
    Privileged,
    /// One below 1024 if this process may take it and one is free, else the system's choice.
    PrivilegedIfAllowed,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            in_flight_max: limits::IN_FLIGHT_DEFAULT,
            call_timeout: limits::CALL_TIMEOUT_DEFAULT,
            retry_after: limits::RETRY_AFTER_DEFAULT,
            connect_timeout: limits::CONNECT_TIMEOUT_DEFAULT,
            reply_bytes_max: limits::REPLY_BYTES_MAX,
            reconnect: Reconnect::Resend,
            source: None,
            source_port: SourcePort::Any,
            interface: None,
            liveness: Liveness::default(),
        }
    }
}

/// Which procedure of which program a call is for (RFC 5531 §8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Procedure {
    /// The number of the RPC program.
    pub program: u32,
    /// The version of the program.
    pub version: u32,
    /// The number of the procedure within the program.
    pub number: u32,
}

/// The results of a call, and what became of the memory given to it.
#[derive(Debug)]
pub struct Reply {
    /// The results' bytes: what follows the RPC header of a successful reply. Where their data lies in
    /// the call's memory, only what is before it.
    pub results: Bytes,
    /// The memory that the call gave.
    pub memory: ReplyMemory,
    /// The call went out more than once: the server may have executed it before, and answered what it
    /// found after that.
    pub resent: bool,
}

/// Memory that was given to a call, as it comes back with the reply.
#[derive(Debug)]
pub enum ReplyMemory {
    /// No memory was given to the call.
    Nothing,
    /// It holds the results' data, and is as long as that.
    Filled(Buf),
    /// The results are whole and in [`Reply::results`].
    Unused(Buf),
}

/// Where in the results the data is that ends them, as opaque data of variable length (RFC 4506 §4.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataAt {
    /// Bytes before the data, its length among them.
    pub head_len: usize,
    /// How long the data is, in bytes.
    pub data_len: usize,
}

/// Finds the data in a procedure's results by their beginning: `None` if these have none,
/// [`DecodeError::Missing`] if more of them is needed to know.
pub type Cut = fn(&[u8]) -> Result<Option<DataAt>, DecodeError>;

/// A connection to an RPC server. Clones share it.
#[derive(Clone, Debug)]
pub struct Connection {
    handle: Arc<Handle>,
}

/// When a call begins, and when it has to end. Asking for the time costs a tenth of a small call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// When its caller made it: before it waited for a place.
    pub(crate) begun: Instant,
    pub(crate) now: Instant,
    pub(crate) deadline: Instant,
}

impl Times {
    pub(crate) fn from_now(timeout: Duration) -> Self {
        let now = Instant::now();
        Self {
            begun: now,
            now,
            deadline: now + timeout,
        }
    }
}

/// What goes with a call beside its arguments.
pub(crate) enum Extra {
    None,
    /// Sent after the arguments from where it is.
    Payload(Bytes),
    /// For the data of the reply.
    Memory {
        buf: Buf,
        cut: Cut,
    },
}

/// Closes the connection when the last clone is dropped.
#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
}

/// What the calls and the driver share.
struct Shared {
    state: Mutex<Inner>,
    /// One permit per call that may be in the table.
    permits: Semaphore,
    target: Target,
    options: ConnectOptions,
    /// What the driver runs on.
    runtime: tokio::runtime::Handle,
    /// Calls that are in the table or wait to be.
    load: AtomicU32,
    /// There is a live connection, as far as is known.
    up: AtomicBool,
    /// Connections made after the first; counted before anything is received over them.
    remade: AtomicU64,
    /// The local port of the last connection that was made; 0 where the system does not say.
    source_port: AtomicU16,
    /// What its statistics count from.
    made_at: Instant,
}

struct Inner {
    table: Table,
    /// The connection is to be made even if no call waits for it.
    wanted: bool,
    driver: Option<Waker>,
    /// The driver sleeps, and has to be woken to see a new call.
    driver_asleep: bool,
    closed: bool,
    /// When the last bytes came over any of its connections; `None` before the first.
    heard_at: Option<Instant>,
}

impl Connection {
    /// Connects to `target`, trying its addresses once each, and starts the driver task.
    ///
    /// # Errors
    /// [`RpcError::Connect`] if no address answers in the options' time.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn connect(target: Target, options: ConnectOptions) -> Result<Self, RpcError> {
        let options = options.bounded();
        let attempt = options.liveness.attempt(&target);
        let stream = connect::open(&target, &options).await?;
        drop(attempt);
        let port = source_port_of(&stream);
        let connection = Self::start(target, options, Some(stream));
        connection
            .handle
            .shared
            .source_port
            .store(port, Ordering::Relaxed);
        Ok(connection)
    }

    /// Starts the driver, with a connection that is there or without: then the first call makes it.
    fn start(target: Target, options: ConnectOptions, stream: Option<TcpStream>) -> Self {
        let in_flight_max = options.in_flight_max.clamp(1, limits::IN_FLIGHT_MAX);
        let table = Table::new(
            in_flight_max,
            random::number(),
            options.call_timeout,
            Instant::now(),
        );
        let inner = Inner {
            table,
            wanted: false,
            driver: None,
            driver_asleep: false,
            closed: false,
            heard_at: None,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(inner),
            permits: Semaphore::new(usize::try_from(in_flight_max).unwrap_or(1)),
            target,
            options,
            runtime: tokio::runtime::Handle::current(),
            load: AtomicU32::new(0),
            up: AtomicBool::new(stream.is_some()),
            remade: AtomicU64::new(0),
            source_port: AtomicU16::new(0),
            made_at: Instant::now(),
        });
        shared.options.liveness.watch(&shared);
        tokio::spawn(Driver::new(shared.clone()).run(stream));
        Self {
            handle: Arc::new(Handle { shared }),
        }
    }

    /// Calls `procedure` with `args`, as `identity`, and waits for the results' bytes: what follows
    /// the RPC header of a successful reply.
    ///
    /// # Errors
    /// [`RpcError`] for everything that is not a successful reply.
    pub async fn call<A: Encode + ?Sized>(
        &self,
        procedure: Procedure,
        identity: &Identity,
        args: &A,
    ) -> Result<Bytes, RpcError> {
        let encode = |out: &mut Vec<u8>| args.encode(&mut Encoder::new(out));
        let reply = self.call_with(
            procedure,
            Kind::of(procedure),
            identity,
            encode,
            Extra::None,
            None,
        );
        Ok(reply.await?.results)
    }

    /// As [`Self::call`], with arguments that are bytes already, right or wrong: for tests that send
    /// what no encoder of ours would.
    pub async fn call_raw(
        &self,
        procedure: Procedure,
        identity: &Identity,
        args: &[u8],
    ) -> Result<Bytes, RpcError> {
        let encode = |out: &mut Vec<u8>| out.extend_from_slice(args);
        let reply = self.call_with(
            procedure,
            Kind::of(procedure),
            identity,
            encode,
            Extra::None,
            None,
        );
        Ok(reply.await?.results)
    }

    /// As [`Self::call`], with arguments that end in `payload` as opaque data: `head` encodes all up
    /// to and with the payload's length; the payload itself is sent from where it is.
    pub async fn call_with_payload<A: Encode + ?Sized>(
        &self,
        procedure: Procedure,
        identity: &Identity,
        head: &A,
        payload: Bytes,
    ) -> Result<Bytes, RpcError> {
        let encode = |out: &mut Vec<u8>| head.encode(&mut Encoder::new(out));
        let extra = Extra::Payload(payload);
        let reply = self.call_with(
            procedure,
            Kind::of(procedure),
            identity,
            encode,
            extra,
            None,
        );
        Ok(reply.await?.results)
    }

    /// As [`Self::call`], with what goes beside the arguments, and its own times; counted as `kind`.
    pub(crate) async fn call_until<A: Encode + ?Sized>(
        &self,
        procedure: Procedure,
        kind: Kind,
        identity: &Identity,
        args: &A,
        extra: Extra,
        times: Times,
    ) -> Result<Reply, RpcError> {
        let encode = |out: &mut Vec<u8>| args.encode(&mut Encoder::new(out));
        self.call_with(procedure, kind, identity, encode, extra, Some(times))
            .await
    }

    /// The runtime that it lives on: what is done in its callers' name, and not by them, lives there too.
    pub(crate) fn runtime(&self) -> &tokio::runtime::Handle {
        &self.handle.shared.runtime
    }

    /// What was counted so far.
    pub fn stats(&self) -> Stats {
        self.handle.shared.lock().table.stats
    }

    /// What the calls of each kind came to so far, in the order of [`Kind::all`]; kinds without a call are left out.
    pub fn operations(&self) -> Vec<Operation> {
        self.handle.shared.lock().table.operations()
    }

    /// Whether there is a live connection, as far as is known.
    pub fn is_up(&self) -> bool {
        self.handle.shared.up.load(Ordering::Relaxed)
    }

    /// When it was made, or begun to be made.
    pub(crate) fn made_at(&self) -> Instant {
        self.handle.shared.made_at
    }

    /// The host and port that this connection goes to.
    pub fn target(&self) -> &Target {
        &self.handle.shared.target
    }

    /// The options it was made with.
    pub fn options(&self) -> &ConnectOptions {
        &self.handle.shared.options
    }

    /// The local port that it was made from last; `None` where the system does not say. Servers may ask for
    /// one below 1024.
    pub fn source_port(&self) -> Option<u16> {
        let port = self.handle.shared.source_port.load(Ordering::Relaxed);
        (port != 0).then_some(port)
    }

    /// A call is made again later, after `pause`, because the server asked for time.
    pub(crate) fn waits_for_jukebox(&self, pause: Duration) {
        let stats = &mut self.handle.shared.lock().table.stats;
        stats.jukebox_waits += 1;
        stats.jukebox_waited += pause;
    }

    async fn call_with(
        &self,
        procedure: Procedure,
        kind: Kind,
        identity: &Identity,
        args: impl FnOnce(&mut Vec<u8>),
        extra: Extra,
        times: Option<Times>,
    ) -> Result<Reply, RpcError> {
        let shared = &*self.handle.shared;
        let _load = Load::of(shared);
        let timeout = shared.options.call_timeout;
        let mut times = times.unwrap_or_else(|| Times::from_now(timeout));
        let permit = match shared.permits.try_acquire() {
            Ok(permit) => permit,
            Err(_) => {
                let permit =
                    tokio::time::timeout_at(times.deadline, shared.permits.acquire()).await;
                let permit = permit.map_err(|_| {
                    let late = RpcError::Timeout { after: timeout };
                    shared.lock().table.never_began(kind, &late);
                    late
                })?;
                times.now = Instant::now();
                // Never closed: the permits live as long as this borrow.
                permit.map_err(|_| RpcError::Disconnected(Lost::Here))?
            }
        };
        let ticket = shared.begin(procedure, kind, identity, args, extra, times)?;
        let reply = Pending {
            shared,
            ticket,
            over: false,
        }
        .await;
        drop(permit);
        match reply {
            Err(RpcError::ProgUnavail { .. }) => Err(RpcError::ProgUnavail {
                program: procedure.program,
            }),
            reply => reply,
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut inner = self.shared.lock();
        inner.closed = true;
        let wake = inner.driver.take();
        drop(inner);
        wake.inspect(Waker::wake_by_ref);
    }
}

impl Shared {
    /// Puts a call into the table and sees that the driver knows of it.
    fn begin(
        &self,
        procedure: Procedure,
        kind: Kind,
        identity: &Identity,
        args: impl FnOnce(&mut Vec<u8>),
        extra: Extra,
        times: Times,
    ) -> Result<Ticket, RpcError> {
        let (payload, memory) = match extra {
            Extra::None => (None, None),
            Extra::Payload(payload) => (Some(payload), None),
            Extra::Memory { buf, cut } => (None, Some(Memory { buf, cut })),
        };
        let mut inner = self.lock();
        let ticket = inner.table.begin(times, kind, |xid, call| {
            encode_call(call, xid, procedure, identity, args, payload)
        })?;
        if let Some(memory) = memory {
            inner.table.give_memory(ticket, memory);
        }
        let wake = inner.driver_to_wake();
        drop(inner);
        wake.inspect(Waker::wake_by_ref);
        Ok(ticket)
    }

    /// Has the connection made again, though no call waits for it.
    fn bring_up(&self) {
        let mut inner = self.lock();
        if std::mem::replace(&mut inner.wanted, true) {
            return;
        }
        let wake = inner.driver_to_wake();
        drop(inner);
        wake.inspect(Waker::wake_by_ref);
    }

    /// A panic while the lock was held would be a bug here, but it leaves nothing half-done that
    /// another call could not live with.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

impl Inner {
    /// Since when nothing has come though calls wait; `None` if none does.
    fn silent_since(&self) -> Option<Instant> {
        let busy_since = self.table.busy_since()?;
        Some(self.heard_at.map_or(busy_since, |at| at.max(busy_since)))
    }

    /// The driver's waker if it sleeps; from now on it counts as woken.
    fn driver_to_wake(&mut self) -> Option<Waker> {
        if !std::mem::take(&mut self.driver_asleep) {
            return None;
        }
        self.driver.clone()
    }
}

/// One call that counts in [`Shared::load`].
struct Load<'a>(&'a AtomicU32);

impl<'a> Load<'a> {
    fn of(shared: &'a Shared) -> Self {
        shared.load.fetch_add(1, Ordering::Relaxed);
        Self(&shared.load)
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A call that is in the table.
struct Pending<'a> {
    shared: &'a Shared,
    ticket: Ticket,
    over: bool,
}

impl Future for Pending<'_> {
    type Output = Result<Reply, RpcError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = self.shared.lock().table.poll(self.ticket, cx);
        self.over = outcome.is_ready();
        outcome
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.shared.lock().table.give_up(self.ticket);
        }
    }
}

/// Writes a whole call record: mark, header, arguments.
fn encode_call(
    call: &mut Call,
    xid: u32,
    procedure: Procedure,
    identity: &Identity,
    args: impl FnOnce(&mut Vec<u8>),
    payload: Option<Bytes>,
) -> Result<(), RpcError> {
    let head = &mut call.head;
    head.extend_from_slice(&[0; 4]);
    call_header(xid, procedure, identity).encode(&mut Encoder::new(head));
    args(head);
    let (payload, padding) = match payload {
        Some(payload) if payload.len() <= limits::PAYLOAD_INLINE_BYTES => {
            head.extend_from_slice(&payload);
            head.resize(head.len() + padding(payload.len()), 0);
            (None, 0)
        }
        Some(payload) => {
            let padding = padding(payload.len());
            (Some(payload), padding)
        }
        None => (None, 0),
    };
    let len = head.len() - 4 + payload.as_ref().map_or(0, Bytes::len) + padding;
    let Some(len) = u32::try_from(len).ok().filter(|&len| len < 1 << 31) else {
        return Err(RpcError::CallTooLarge {
            len,
            max: (1 << 31) - 1,
        });
    };
    if let Some(mark) = head.first_chunk_mut() {
        *mark = FragmentHeader { last: true, len }.to_bytes();
    }
    call.payload = payload;
    call.padding = padding;
    Ok(())
}

fn call_header(xid: u32, procedure: Procedure, identity: &Identity) -> CallHeader<'_> {
    CallHeader {
        xid,
        program: procedure.program,
        version: procedure.version,
        procedure: procedure.number,
        credential: identity.credential(),
        verifier: OpaqueAuth::NONE,
    }
}

/// The local port of a connection; 0 where the system does not say.
fn source_port_of(stream: &TcpStream) -> u16 {
    stream.local_addr().map_or(0, |addr| addr.port())
}

/// Decodes all of a call's results as `T`.
pub(crate) fn decode_results<'a, T: Decode<'a>>(results: &'a [u8]) -> Result<T, RpcError> {
    nfs_wire::decode_all(results).map_err(|error| RpcError::BadReply(BadReply::Decode(error)))
}
