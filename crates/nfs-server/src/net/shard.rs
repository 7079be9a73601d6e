//! A shard: one thread with its event loop, its engine, and its connections.

use std::cell::{Cell, RefCell};
use std::hash::RandomState;
use std::net::IpAddr;
use std::ops::{Deref, DerefMut, Range};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nfs_io::engine::{Engine, EngineKind, UringLimits};
use nfs_io::{BusyPoll, FutureBoxes, Tasks, event_loop};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::LocalSet;

use super::clients::{Clients, Entered};
use super::connection::{self, Known, Unfinished};
use super::loads::OwnLoad;
use super::output::Spare;
use super::shards::{Shards, Taken};
use super::turns::{self, ShardTurns};
use crate::front::service::Service;
use crate::limits;
use crate::operate::counters::count;
use crate::rpc::client_id::Peer;

/// What all connections of a shard share; lives on its thread.
pub(crate) struct Shard {
    pub(crate) service: Arc<Service>,
    pub(crate) engine: Engine,
    scratch: RefCell<Vec<Vec<u8>>>,
    /// Buffers of [`SCRATCH_BYTES`] that connections have.
    scratches_lent: Cell<usize>,
    pub(super) turns: Rc<ShardTurns>,
    /// Places for replies that no connection has.
    pub(super) spare_places: Spare,
    /// Boxes for the calls that are carried out.
    pub(super) call_boxes: FutureBoxes,
    /// The same for what a COMPOUND needs besides.
    pub(super) compound_boxes: FutureBoxes,
    /// Tasks for the calls that have to wait.
    pub(super) call_tasks: Rc<Tasks<Unfinished>>,
    client_hasher: RandomState,
    pub(super) clients: Arc<Clients>,
    pub(super) load: OwnLoad,
    /// The server ends: connections finish their calls and read no others.
    is_draining: Cell<bool>,
    to_drain: Notify,
}

/// A connection on its way to its shard, and its place in the books.
pub(crate) struct Accepted {
    pub(crate) stream: std::net::TcpStream,
    pub(crate) entered: Entered,
    pub(super) taken: Taken,
    /// What is known of one that was another shard's before.
    pub(super) known: Option<Known>,
}

/// All that a shard is started with.
pub(crate) struct ShardStart {
    pub(crate) service: Arc<Service>,
    pub(crate) engine: EngineKind,
    pub(crate) connections: mpsc::UnboundedReceiver<Accepted>,
    pub(crate) drain: watch::Receiver<bool>,
    pub(crate) client_hasher: RandomState,
    pub(crate) clients: Arc<Clients>,
    /// The server's memory budget, in bytes.
    pub(crate) memory_bytes: u64,
    /// The number of the shard, from 0 on.
    pub(crate) number: usize,
    pub(crate) shards: Arc<Shards>,
    /// How long its event loop polls before it sleeps.
    pub(crate) busy_poll: BusyPoll,
}

/// How many buffers a shard keeps for its connections to read into.
const SCRATCHES: usize = 4;
/// Bytes read from a socket at once, beside a WRITE's data: twice what is read where calls begin, for
/// long records that come in fragments.
const SCRATCH_BYTES: usize = 2 * limits::CALLS_READ_BYTES_MAX;

impl Shard {
    /// A buffer to read into: a small one while connections that wait have many large ones
    /// ([`limits::SCRATCHES_LENT_MAX`]).
    pub(super) fn scratch(self: &Rc<Self>) -> Scratch {
        let lent = self.scratches_lent.get();
        let bytes = if lent < limits::SCRATCHES_LENT_MAX {
            self.scratches_lent.set(lent + 1);
            let kept = self.scratch.borrow_mut().pop();
            kept.unwrap_or_else(|| vec![0; SCRATCH_BYTES])
        } else {
            vec![0; limits::READ_BYTES_UNDER_PRESSURE_MAX]
        };
        let shard = Rc::clone(self);
        Scratch { shard, bytes }
    }

    fn give_back(&self, scratch: Vec<u8>) {
        if scratch.len() != SCRATCH_BYTES {
            return;
        }
        self.scratches_lent.set(self.scratches_lent.get() - 1);
        let mut kept = self.scratch.borrow_mut();
        if kept.len() < SCRATCHES {
            kept.push(scratch);
        }
    }

    /// Waits until the server ends. Every connection waits for it beside its peer, and what it waits for is asked
    /// at each call: this costs less than a [`watch`] of its own.
    pub(super) async fn drained(&self) {
        // Made before the look, it misses nothing.
        let told = self.to_drain.notified();
        if !self.is_draining.get() {
            told.await;
        }
    }

    fn drain(&self) {
        self.is_draining.set(true);
        self.to_drain.notify_waiters();
    }

    /// The peer at the other end of a connection from `addr`. No other connection has its `number`.
    pub(super) fn peer(&self, addr: IpAddr, number: u64) -> Peer {
        Peer::new(self.client_hasher.clone(), addr, number)
    }
}

/// A buffer of a shard's that a connection reads into.
pub(super) struct Scratch {
    shard: Rc<Shard>,
    bytes: Vec<u8>,
}

impl Scratch {
    /// Gives the shard its large buffer back before a wait, where what of it is still of use, the bytes `left`,
    /// fits a small one. It begins there then.
    pub(super) fn set_down(&mut self, left: &mut Range<usize>) {
        let of_use = self.bytes.get(left.clone()).unwrap_or_default();
        if self.bytes.len() != SCRATCH_BYTES || of_use.len() > limits::READ_BYTES_UNDER_PRESSURE_MAX
        {
            return;
        }
        let of_use = of_use.to_vec();
        *left = 0..of_use.len();
        self.shard
            .give_back(std::mem::replace(&mut self.bytes, of_use));
    }
}

impl Deref for Scratch {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.shard.give_back(std::mem::take(&mut self.bytes));
    }
}

/// The life of a shard's thread: serves what it is given until the server drains.
///
/// # Errors
/// When the event loop or the engine cannot be made.
pub(crate) fn run(start: ShardStart) -> std::io::Result<()> {
    // Where that is refused, calls wait longer while many other threads are busy.
    let _refused_or_not = nfs_io::promptness::run_soon();
    // Longer than any call.
    let _book = start.service.calls.open_book(start.number);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (poll, shards) = (start.busy_poll, Arc::clone(&start.shards));
    let Some(times) = shards.loads().nth(start.number) else {
        return Err(std::io::Error::other("a shard of no number"));
    };
    event_loop::run(&runtime, &LocalSet::new(), (poll, times), serve(start))
}

async fn serve(start: ShardStart) -> std::io::Result<()> {
    let ShardStart {
        service,
        engine,
        mut connections,
        mut drain,
        client_hasher,
        clients,
        memory_bytes,
        number,
        shards,
        busy_poll: _,
    } = start;
    let engine = match engine {
        EngineKind::Uring => {
            let engine = Engine::new_uring(UringLimits::default())?;
            service.rings.lock().push(engine.counters());
            engine
        }
        EngineKind::Threads => service.vfs.thread_engine(),
    };
    tokio::task::spawn_local(drive(engine.clone()));
    tokio::task::spawn_local(nfs_io::wake_ups::gather());
    let places = turns::places(memory_bytes, shards.loads().len());
    let turns = Rc::new(ShardTurns::new(places));
    let shard = Rc::new(Shard {
        service,
        engine,
        scratch: RefCell::default(),
        scratches_lent: Cell::new(0),
        turns: Rc::clone(&turns),
        spare_places: Spare::default(),
        call_boxes: FutureBoxes::new(limits::CALL_BOXES_SPARE_PER_SHARD),
        compound_boxes: FutureBoxes::new(limits::COMPOUND_BOXES_SPARE_PER_SHARD),
        call_tasks: Tasks::new(limits::CALL_TASKS_SPARE_PER_SHARD),
        client_hasher,
        clients,
        load: OwnLoad::new(shards, number),
        is_draining: Cell::new(false),
        to_drain: Notify::new(),
    });
    let counting = Arc::clone(&shard.service);
    tokio::task::spawn_local(async move {
        turns.give(|| count(&counting.counters.turns_given)).await;
    });
    let open = Rc::new(Open::default());
    loop {
        tokio::select! {
            accepted = connections.recv() => match accepted {
                Some(accepted) => begin(&shard, accepted, &open),
                None => break,
            },
            _ = drain.wait_for(|drain| *drain) => break,
        }
    }
    shard.drain();
    let patience = Duration::from_secs(limits::DRAIN_SECONDS_MAX);
    if tokio::time::timeout(patience, open.all_closed())
        .await
        .is_err()
    {
        tracing::warn!("calls that did not end within {patience:?} were given up");
    }
    Ok(())
}

/// Does the work of a shard's engine for as long as its event loop runs.
async fn drive(engine: Engine) {
    if let Err(error) = engine.drive().await {
        // Calls in flight on it will never end; a server that hangs is worse than one that is
        // started again.
        tracing::error!(%error, "the I/O engine failed; the server ends");
        std::process::abort();
    }
}

fn begin(shard: &Rc<Shard>, accepted: Accepted, open: &Rc<Open>) {
    let Accepted {
        stream,
        entered,
        taken,
        known,
    } = accepted;
    let stream = match TcpStream::from_std(stream) {
        Ok(stream) => stream,
        Err(error) => {
            tracing::debug!(%error, "a connection could not be taken over");
            shard
                .service
                .counters
                .connections
                .fetch_sub(1, Ordering::Relaxed);
            return;
        }
    };
    let connection = connection::new(shard, stream, &entered, known);
    let shard = Rc::clone(shard);
    let counted = open.count();
    tokio::task::spawn_local(async move {
        let moving = connection::serve(connection).await;
        let counters = &shard.service.counters;
        let goes_on = match moving {
            Some(moving) => shard.load.shards().give_over(moving, entered),
            None => {
                drop(entered);
                false
            }
        };
        if goes_on {
            count(&counters.connections_moved);
        } else {
            counters.connections.fetch_sub(1, Ordering::Relaxed);
        }
        drop((counted, taken));
    });
}

/// Counts the shard's open connections, and tells when the last one has ended.
#[derive(Default)]
struct Open {
    count: Cell<usize>,
    closed: Notify,
}

struct Counted(Rc<Open>);

impl Open {
    fn count(self: &Rc<Self>) -> Counted {
        self.count.set(self.count.get() + 1);
        Counted(Rc::clone(self))
    }

    async fn all_closed(&self) {
        while self.count.get() > 0 {
            self.closed.notified().await;
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.count.set(self.0.count.get() - 1);
        self.0.closed.notify_one();
    }
}
