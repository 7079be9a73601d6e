//! Random histories of a few clients, files and byte ranges, step by step against a naive model: a table with
//! one cell for each byte, and a list of who was granted what when.
//!
//! `PENSTOCK_MODEL_SEED` and `PENSTOCK_MODEL_STEPS` run other histories or more of them.

mod clients;
mod locks;
mod opens;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use nfs_state::{
    Bits, Claim, ClientId, Completion, Error, FileState, HostWork, LockArgs, LockKind, LockOwner,
    LockRefused, Locker, OpenArgs, OpenState, Range, Refused, Sequenced, Share, StateId, Step, Why,
};
use support::{LEASE, Peer, Pin, Server, bytes, principal};

const CLIENTS: usize = 4;
const FILES: usize = 3;
const OWNERS: usize = 2;
/// Bytes of a file that differ; the last cell is all the rest of it.
const CELLS: usize = 12;
const HISTORIES: u64 = 1_200;
const STEPS: usize = 2_500;

#[test]
fn random_histories_agree_with_the_model() {
    let first = from_environment("PENSTOCK_MODEL_SEED").unwrap_or(1);
    let steps = from_environment("PENSTOCK_MODEL_STEPS").unwrap_or(HISTORIES * STEPS as u64);
    let mut all = [0; Met::ALL.len()];
    for seed in first..first + steps / STEPS as u64 {
        let run = std::panic::AssertUnwindSafe(|| history(seed));
        let Ok(met) = std::panic::catch_unwind(run) else {
            panic!("the history of seed {seed} differs from the model");
        };
        for (all, one) in all.iter_mut().zip(met) {
            *all += one;
        }
    }
    let met: Vec<_> = Met::ALL.iter().zip(all).collect();
    println!("{met:?}");
    let never: Vec<_> = met
        .iter()
        .filter(|(_, times)| *times < steps / 20_000)
        .collect();
    assert!(
        never.is_empty(),
        "histories that hardly meet {never:?} prove little"
    );
}

/// What a history should come across.
#[derive(Clone, Copy, Debug)]
enum Met {
    OpenGranted,
    OpenDenied,
    LockGranted,
    LockDenied,
    LockRefusedByHost,
    ExpiredForConflict,
    ExpiryPutOff,
    NotBeforeCompletion,
    OpenReclaimed,
    LockReclaimed,
    ReclaimRefused,
    RestartInGrace,
    CompletedWithState,
}

impl Met {
    const ALL: [Self; 13] = [
        Self::OpenGranted,
        Self::OpenDenied,
        Self::LockGranted,
        Self::LockDenied,
        Self::LockRefusedByHost,
        Self::ExpiredForConflict,
        Self::ExpiryPutOff,
        Self::NotBeforeCompletion,
        Self::OpenReclaimed,
        Self::LockReclaimed,
        Self::ReclaimRefused,
        Self::RestartInGrace,
        Self::CompletedWithState,
    ];
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn history(seed: u64) -> [u64; Met::ALL.len()] {
    let mut world = World::new(seed);
    for _ in 0..STEPS {
        world.step();
        world.check();
    }
    world.met
}

/// When something was granted, in the order of all grants.
type Stamp = u64;

/// What one open-owner, and the lock-owner of the same number, have of one file.
#[derive(Clone, Default)]
struct Held {
    /// The combinations that it was opened with since the last downgrade.
    seen: Vec<(u32, u32)>,
    cells: [Option<(LockKind, Stamp)>; CELLS],
}

impl Held {
    fn share(&self) -> (u32, u32) {
        self.seen
            .iter()
            .fold((0, 0), |all, one| (all.0 | one.0, all.1 | one.1))
    }
}

type Place = (usize, usize);

/// A client as the model sees it.
#[derive(Default)]
struct Client {
    verifier: u8,
    id: Option<ClientId>,
    peer: Option<Peer>,
    /// A second request, which keeps the client from being expired.
    busy: Option<Sequenced<Pin>>,
    renewed: u64,
    /// Until when nothing is heard of it.
    away_until: u64,
    complete: bool,
    /// By owner and file.
    held: BTreeMap<Place, Held>,
    opens: BTreeMap<Place, Arc<OpenState<Pin>>>,
    locks: BTreeMap<Place, StateId>,
    /// What it held before the restart, and would reclaim.
    memory: BTreeMap<Place, Held>,
    /// Since which life of the server a record says that it may.
    record: Option<u32>,
    /// In this life of the server it was given a record of its own.
    recorded_now: bool,
}

struct World {
    random: fastrand::Rng,
    server: Server,
    clients: Vec<Client>,
    files: Vec<Arc<FileState>>,
    hosts: Vec<[Option<LockKind>; CELLS]>,
    stamp: Stamp,
    /// The last grant that was no reclaim, by file, cell, client and kind.
    granted: BTreeMap<(usize, usize, usize, LockKind), Stamp>,
    met: [u64; Met::ALL.len()],
}

impl World {
    fn new(seed: u64) -> Self {
        let clients = (0..CLIENTS).map(|_| Client::default()).collect();
        Self {
            random: fastrand::Rng::with_seed(seed),
            server: Server::new(),
            clients,
            files: (0..FILES).map(|_| support::file()).collect(),
            hosts: vec![[None; CELLS]; FILES],
            stamp: 0,
            granted: BTreeMap::new(),
            met: [0; Met::ALL.len()],
        }
    }

    fn now(&self) -> u64 {
        self.server.now().0
    }

    fn meet(&mut self, what: Met) {
        self.met[what as usize] += 1;
    }

    fn step(&mut self) {
        let who = self.random.usize(..CLIENTS);
        match self.random.u32(..1000) {
            0..3 => self.restart(),
            3..12 => self.end_grace(),
            12..20 => self.client_restarts(who),
            20..30 => self.expire_by_operator(who),
            30..50 => self.toggle_busy(who),
            50..130 => self.pass(),
            130..150 => self.tick(),
            150..165 => self.clients[who].away_until = self.now() + self.random.u64(..4 * LEASE),
            _ if self.clients[who].away_until > self.now() => {}
            _ => self.act(who),
        }
    }

    fn act(&mut self, who: usize) {
        if !self.is_connected(who) {
            return self.arrive(who);
        }
        let place = (self.random.usize(..OWNERS), self.random.usize(..FILES));
        if !self.clients[who].complete && self.random.u32(..8) == 0 {
            return self.complete(who);
        }
        match self.random.u32(..100) {
            0..25 => self.open(who, place),
            25..30 => self.downgrade(who, place),
            30..38 => self.close(who, place),
            38..68 => self.lock(who, place),
            68..82 => self.unlock(who, place),
            82..98 => self.reclaim(who, place),
            _ => self.complete(who),
        }
    }

    fn tell_hosts(&mut self) {
        for (file, host) in self.files.iter().zip(&mut self.hosts) {
            while let HostWork::Turn(mut turn) = file.host_turn() {
                while let Some(step) = turn.next_step() {
                    on_host(host, step);
                    turn.succeeded();
                }
            }
        }
    }

    fn check(&mut self) {
        let number = self.random.usize(..FILES);
        let file = &self.files[number];
        let mut locked = [[[None; CELLS]; OWNERS]; CLIENTS];
        for (owner, range, kind) in file.locks() {
            let LockOwner::V4 { client, owner } = owner else {
                panic!("nobody else locks");
            };
            let who = self.who(client);
            let owner = usize::from(owner.as_bytes()[0] - b'0');
            for cell in in_cells(range) {
                assert_eq!(locked[who][owner][cell].replace(kind), None, "locked twice");
            }
        }
        let mut strongest = [None; CELLS];
        let mut opens = 0;
        for (who, (client, locked)) in self.clients.iter().zip(&locked).enumerate() {
            for (owner, locked) in locked.iter().enumerate() {
                let held = client.held.get(&(owner, number));
                opens += usize::from(held.is_some());
                let cells = held.map_or([None; CELLS], |held| held.cells);
                let kinds = cells.map(|cell| cell.map(|(kind, _)| kind));
                assert_eq!(*locked, kinds, "client {who}, owner {owner}");
                for (strongest, kind) in strongest.iter_mut().zip(kinds) {
                    *strongest = kind.max(*strongest);
                }
            }
        }
        assert_eq!(file.opens(), opens);
        assert_eq!(self.hosts[number], strongest, "what the host was told");
    }
}

impl Client {
    fn forget(&mut self) {
        self.held.clear();
        self.opens.clear();
        self.locks.clear();
    }
}

fn cells(from: usize, to: usize) -> Range {
    let length = if to == CELLS - 1 {
        u64::MAX
    } else {
        (to - from + 1) as u64
    };
    Range::new(from as u64, length).expect("a range")
}

fn in_cells(range: Range) -> std::ops::Range<usize> {
    let from = usize::try_from(range.offset()).expect("a cell");
    let length = usize::try_from(range.length()).unwrap_or(CELLS);
    from..from.saturating_add(length).min(CELLS)
}

fn on_host(host: &mut [Option<LockKind>; CELLS], step: Step) {
    host[in_cells(step.range)].fill(step.kind);
}
