//! A server made for tests: in memory, over TCP on loopback, and as bad as it is told to be.
//!
//! It serves NFSv3 and MOUNT from a [`Store`] that knows what is on stable storage. Each call meets the
//! faults of a [`Profile`], chosen by a seed. What it did is counted, so that a test can tell that the
//! fault it is about happened.
//!
//! It never executes a call that came over a connection after a newer connection was made: what an old
//! request that wanders about in the network can do to NFSv3, no client can prevent.
#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod chance;
pub(crate) mod faults;
#[path = "../loopback/mod.rs"]
mod loopback;
mod serve;
pub(crate) mod store;

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nfs_client::NfsUrl;
use nfs_wire::mount3::{self, Dirpath, ExportEntry, ExportList, MountOk};
use nfs_wire::nfs3::{Call, Procedure};
use nfs_wire::rpc::CallHeader;
use nfs_wire::{Decoder, encode_to_vec};
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::watch;
use tokio::task::JoinSet;

use chance::Chance;
use faults::{Fault, Plan, Profile};
use store::{ROOT, Store};

/// A running double. It ends with the runtime.
#[derive(Clone)]
pub(crate) struct Double {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

struct State {
    store: Store,
    chance: Chance,
    profile: Profile,
    /// How often each fault happened, and all calls.
    counts: BTreeMap<Fault, u64>,
    calls: BTreeMap<u32, u64>,
    /// The replies of calls that were executed, by their xid.
    answered: HashMap<u32, Vec<u8>>,
    /// Which connection is the newest.
    newest: u64,
    /// Every connection older than this has ended.
    restarted: u64,
    /// How often the server was restarted; whoever serves a connection waits for a change.
    restarts: watch::Sender<u64>,
}

impl Double {
    /// Starts one that behaves, until [`Self::misbehave`].
    pub(crate) async fn start(seed: u64) -> Self {
        let listener = TcpListener::bind(loopback::own_address()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State {
            store: Store::new(),
            chance: Chance::new(seed),
            profile: Profile::default(),
            counts: BTreeMap::new(),
            calls: BTreeMap::new(),
            answered: HashMap::new(),
            newest: 0,
            restarted: 0,
            restarts: watch::Sender::new(0),
        }));
        let double = Self { address, state };
        tokio::spawn(accept(double.clone(), listener));
        double
    }

    pub(crate) fn url(&self, path: &str) -> NfsUrl {
        format!("nfs://{}/{path}", self.address).parse().unwrap()
    }

    pub(crate) fn misbehave(&self, profile: Profile) {
        self.state.lock().profile = profile;
    }

    pub(crate) fn behave(&self) {
        self.misbehave(Profile::default());
    }

    /// Cuts the power: connections end, and what is not stable may be lost.
    pub(crate) fn restart(&self) {
        self.state.lock().restart();
    }

    /// How often the fault happened.
    pub(crate) fn count(&self, fault: Fault) -> u64 {
        self.state.lock().counts.get(&fault).copied().unwrap_or(0)
    }

    pub(crate) fn counts(&self) -> BTreeMap<Fault, u64> {
        self.state.lock().counts.clone()
    }

    /// Calls of one procedure, repeats included.
    pub(crate) fn calls(&self, procedure: Procedure) -> u64 {
        let calls = &self.state.lock().calls;
        calls.get(&(procedure as u32)).copied().unwrap_or(0)
    }

    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut Store) -> T) -> T {
        look(&mut self.state.lock().store)
    }

    /// What would be left of a file after a power cut, at worst.
    pub(crate) fn stable(&self, path: &str) -> Option<Vec<u8>> {
        self.with(|store| {
            let content = store.content(store.at(path)?).ok()?;
            Some(content.stable.clone())
        })
    }

    /// Every size that a file had so far, in order; bytes.
    pub(crate) fn sizes(&self, path: &str) -> Vec<usize> {
        self.with(|store| {
            let file = store.at(path).unwrap();
            store.content(file).unwrap().sizes.clone()
        })
    }
}

impl State {
    fn restart(&mut self) {
        let mut chance = Chance::new(self.chance.next());
        self.store.restart(&mut chance);
        self.answered.clear();
        self.restarted = self.newest + 1;
        self.restarts.send_modify(|count| *count += 1);
    }

    /// Executes a call, or remembers that it did. `None`: there is nothing to say.
    fn execute(&mut self, header: &Header, call: &Call<'_>, plan: &Plan) -> Option<Vec<u8>> {
        if plan.has(Fault::CloseBefore) {
            return None;
        }
        if plan.has(Fault::Restart) {
            self.restart();
            return None;
        }
        if let Some(reply) = self
            .answered
            .get(&header.xid)
            .filter(|_| self.profile.remembers)
        {
            return Some(reply.clone());
        }
        if plan.has(Fault::OtherVerifier) {
            self.store.verifier += 1;
        }
        let results = serve::execute(&mut self.store, call, plan);
        if plan.has(Fault::CommitIo) {
            self.restart_storage();
        }
        let reply = [accepted(header.xid), results].concat();
        // JUKEBOX is no answer to keep: the next call has an xid of its own.
        self.answered.insert(header.xid, reply.clone());
        Some(reply)
    }

    /// As after a disk that failed to take what was written: it is lost, and the verifier tells.
    fn restart_storage(&mut self) {
        let mut chance = Chance::new(self.chance.next());
        self.store.restart(&mut chance);
    }
}

/// Tells what happens, when one seed is looked at alone.
pub(crate) fn trace(line: impl FnOnce() -> String) {
    if std::env::var_os("DOUBLE_SEED").is_some() {
        eprintln!("{}", line());
    }
}

struct Header {
    xid: u32,
}

/// A call in few words.
fn shown(call: &Call<'_>) -> String {
    match call {
        Call::Read(args) => format!("READ {} at {}", args.count, args.offset),
        Call::Write(args) => {
            let (len, offset) = (args.data.len(), args.offset);
            format!("WRITE {len} at {offset} {:?}", args.stable)
        }
        Call::Setattr(args) => format!("SETATTR {:?}", args.new_attributes.size),
        call => format!("{:?}", call.procedure()),
    }
}

fn accepted(xid: u32) -> Vec<u8> {
    [xid, 1, 0, 0, 0, 0].map(u32::to_be_bytes).concat()
}

/// Takes connections; after a restart, nobody listens for a while.
async fn accept(double: Double, mut listener: TcpListener) {
    let restarts = double.state.lock().restarts.clone();
    let mut restarts = restarts.subscribe();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted.unwrap().0,
            _ = restarts.changed() => {
                let away = Duration::from_millis(double.state.lock().chance.next() % 700);
                drop(listener);
                // SLEEP: being away is what this server is for.
                tokio::time::sleep(away).await;
                listener = TcpListener::bind(double.address).await.unwrap();
                restarts.mark_unchanged();
                continue;
            }
        };
        let (number, restarts) = {
            let mut state = double.state.lock();
            state.newest += 1;
            (state.newest, state.restarts.subscribe())
        };
        accepted.set_nodelay(true).unwrap();
        let mut restarted = restarts;
        let serving = connection(double.clone(), accepted, number);
        tokio::spawn(async move {
            tokio::select! {
                () = serving => {}
                _ = restarted.changed() => {}
            }
        });
    }
}

/// Serves one connection. Its calls end with it.
async fn connection(double: Double, stream: tokio::net::TcpStream, number: u64) {
    let (reading, writing) = stream.into_split();
    let writing = Arc::new(tokio::sync::Mutex::new(writing));
    let mut reader = Records::new(reading);
    let mut calls = JoinSet::new();
    loop {
        let record = tokio::select! {
            record = reader.next() => record,
            // A call that closes the connection ends it for all.
            Some(ended) = calls.join_next() => match ended {
                Ok(true) => return,
                _ => continue,
            },
        };
        let Some(record) = record else { return };
        if double.state.lock().restarted > number {
            return;
        }
        calls.spawn(call(double.clone(), record, writing.clone(), number));
    }
}

/// Answers one call; true if the connection is to be closed.
async fn call(
    double: Double,
    record: Vec<u8>,
    writing: Arc<tokio::sync::Mutex<OwnedWriteHalf>>,
    number: u64,
) -> bool {
    let mut d = Decoder::new(&record);
    let header = CallHeader::decode(&mut d).unwrap();
    let (program, procedure) = (header.program, header.procedure);
    let header = Header { xid: header.xid };
    if program == mount3::PROGRAM {
        let reply = [accepted(header.xid), mount(procedure)].concat();
        return send(&writing, &reply).await.is_err();
    }
    let procedure = Procedure::try_from(procedure).unwrap();
    let nfs_call = Call::decode(procedure, &mut d).unwrap();
    let (plan, reply) = {
        let state = &mut *double.state.lock();
        if state.restarted > number || (state.newest != number && !state.profile.faults.is_empty())
        {
            return true;
        }
        *state.calls.entry(procedure as u32).or_default() += 1;
        let plan = faults::decide(&state.profile, &mut state.chance, procedure);
        for &fault in &plan.faults {
            *state.counts.entry(fault).or_default() += 1;
        }
        trace(|| {
            let (xid, call) = (header.xid & 0xffff, shown(&nfs_call));
            format!("  {number}:{xid:04x} {call} {:?}", plan.faults)
        });
        let reply = state.execute(&header, &nfs_call, &plan);
        (plan, reply)
    };
    let Some(reply) = reply else { return true };
    if plan.has(Fault::CloseAfter) {
        return true;
    }
    if plan.has(Fault::NoReply) {
        return false;
    }
    if !plan.pause.is_zero() {
        // SLEEP: being late is what this server is for.
        tokio::time::sleep(plan.pause).await;
    }
    if double.state.lock().restarted > number {
        return true;
    }
    if plan.has(Fault::HalfReply) {
        let framed = frame(&reply);
        let mut writing = writing.lock().await;
        let _ = writing.write_all(&framed[..framed.len() / 2]).await;
        // No other reply may follow: it would be taken for the other half.
        let _ = writing.shutdown().await;
        return true;
    }
    let mut failed = send(&writing, &reply).await.is_err();
    if plan.has(Fault::Twice) {
        failed |= send(&writing, &reply).await.is_err();
    }
    failed
}

fn frame(reply: &[u8]) -> Vec<u8> {
    let mark = 1 << 31 | u32::try_from(reply.len()).unwrap();
    [mark.to_be_bytes().as_slice(), reply].concat()
}

async fn send(writing: &tokio::sync::Mutex<OwnedWriteHalf>, reply: &[u8]) -> std::io::Result<()> {
    writing.lock().await.write_all(&frame(reply)).await
}

/// Records as they come; dropped between two, nothing is lost.
struct Records {
    reading: tokio::net::tcp::OwnedReadHalf,
    buffer: Vec<u8>,
}

impl Records {
    fn new(reading: tokio::net::tcp::OwnedReadHalf) -> Self {
        Self {
            reading,
            buffer: Vec::new(),
        }
    }

    /// The next record; `None` at the end. These clients send one fragment per record.
    async fn next(&mut self) -> Option<Vec<u8>> {
        use tokio::io::AsyncReadExt as _;
        loop {
            if let Some(mark) = self.buffer.first_chunk() {
                let mark = u32::from_be_bytes(*mark);
                assert!(mark >> 31 == 1, "a record in several fragments");
                let end = 4 + usize::try_from(mark & 0x7fff_ffff).unwrap();
                if self.buffer.len() >= end {
                    let record = self.buffer[4..end].to_vec();
                    self.buffer.drain(..end);
                    return Some(record);
                }
            }
            match self.reading.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }
}

/// The results of a MOUNT procedure: one export, `/`.
fn mount(procedure: u32) -> Vec<u8> {
    match procedure {
        1 => encode_to_vec(&Ok::<_, mount3::Mountstat3>(MountOk {
            fhandle: Store::handle(ROOT),
            auth_flavors: vec![1],
        })),
        5 => encode_to_vec(&ExportList(vec![ExportEntry {
            directory: Dirpath(b"/"),
            groups: Vec::new(),
        }])),
        _ => Vec::new(),
    }
}
