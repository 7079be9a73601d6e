//! A driver for tests: a disk that is a map, a host that is a list, and clients that keep their sequences.
//!
//! Each test uses the part it needs.
#![allow(
    dead_code,
    reason = "each test file is a crate of its own and uses a part of this"
)]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use nfs_state::{
    Admission, BackChannel, Begun, Bits, Bounds, CallbackAuth, Channel, Claim, ClientId,
    Completion, Config, ConnId, CreateSession, Created, Digest, Epoch, Error, ExchangeId,
    Exchanged, Expiry, FileState, Host, LockArgs, LockKind, LockRefused, Locker, Millis, NewPermit,
    OpenArgs, OpenState, Origin, OwnerBytes, Principal, Range, Record, Recovered, Refused,
    Released, SequenceCall, Sequenced, Session, Share, State, StateId, Verifier, Why,
};

/// What the tests pin with an open: nothing.
pub(crate) type Pin = ();

pub(crate) const LEASE: u64 = 60_000;

pub(crate) const CHANNEL: Channel = Channel {
    request_bytes_max: 1 << 20,
    response_bytes_max: 1 << 20,
    cached_bytes_max: 1024,
    operations_max: 16,
    slots_max: 64,
};

pub(crate) const CONFIG: Config = Config {
    lease_ms: LEASE,
    grace_ms: LEASE,
    reply_bytes_max: 64 << 20,
    bounds: Bounds::DEFAULT,
    fore: CHANNEL,
    back: CHANNEL,
};

/// What outlives a restart.
#[derive(Clone, Default)]
pub(crate) struct Disk {
    pub(crate) epoch: u32,
    pub(crate) records: BTreeMap<OwnerBytes, Record>,
}

/// A server with its disk. Time stands still unless a test moves it.
pub(crate) struct Server {
    pub(crate) state: State<Pin>,
    pub(crate) disk: Disk,
    now: Cell<u64>,
}

impl Server {
    pub(crate) fn new() -> Self {
        Self::start(Disk::default(), CONFIG)
    }

    pub(crate) fn start(mut disk: Disk, config: Config) -> Self {
        disk.epoch += 1;
        let recovered = Recovered {
            epoch: Epoch(disk.epoch),
            records: disk.records.values().cloned().collect(),
        };
        Self {
            state: State::new(config, recovered, Millis(0)),
            disk,
            now: Cell::new(0),
        }
    }

    /// Power goes and comes back: only the disk is left.
    pub(crate) fn restart(self) -> Self {
        Self::start(self.disk, CONFIG)
    }

    pub(crate) fn now(&self) -> Millis {
        Millis(self.now.get())
    }

    pub(crate) fn pass(&self, ms: u64) {
        self.now.set(self.now.get() + ms);
    }

    pub(crate) fn exchange(
        &self,
        name: &str,
        verifier: u8,
        user: &str,
        update: bool,
    ) -> Result<Exchanged, Error> {
        let asked = ExchangeId {
            owner: &bytes(name),
            verifier: Verifier([verifier; 8]),
            principal: &principal(user),
            update,
            from: origin(1),
        };
        self.state.exchange_id(&asked, self.now())
    }

    /// EXCHANGE_ID of a client of another host than usual.
    pub(crate) fn exchange_from(&self, host: u8, name: &str) -> Result<Exchanged, Error> {
        let asked = ExchangeId {
            owner: &bytes(name),
            verifier: Verifier([1; 8]),
            principal: &principal("root"),
            update: false,
            from: origin(host),
        };
        self.state.exchange_id(&asked, self.now())
    }

    /// A client of this host, which has a session and nothing to reclaim.
    pub(crate) fn join_from(&mut self, host: u8, name: &str) -> Result<Peer, Error> {
        let exchanged = self.exchange_from(host, name)?;
        let created = self.create(exchanged.client, exchanged.sequence, "root")?;
        let peer = Peer {
            id: exchanged.client,
            session: created.session.expect("no retry"),
            sequence: Cell::new(0),
        };
        self.complete(&peer)?;
        Ok(peer)
    }

    pub(crate) fn create(
        &self,
        client: ClientId,
        sequence: u32,
        user: &str,
    ) -> Result<Created<Pin>, Error> {
        let asked = CreateSession {
            client,
            sequence,
            principal: &principal(user),
            fore: CHANNEL,
            back: None,
            binds_back: false,
            connection: ConnId(1),
            nonce: 0,
        };
        self.state.create_session(&asked, self.now())
    }

    /// A client that has a session and said nothing yet.
    pub(crate) fn arrive(&self, name: &str, verifier: u8) -> Peer {
        let exchanged = self
            .exchange(name, verifier, "root", false)
            .expect("a new life");
        let created = self.create(exchanged.client, exchanged.sequence, "root");
        let session = created.expect("confirmed").session.expect("no retry");
        Peer {
            id: exchanged.client,
            session,
            sequence: Cell::new(0),
        }
    }

    /// A client that has nothing to reclaim.
    pub(crate) fn join(&mut self, name: &str) -> Peer {
        let peer = self.arrive(name, 1);
        self.complete(&peer).expect("the first time");
        peer
    }

    pub(crate) fn complete(&mut self, peer: &Peer) -> Result<bool, Error> {
        let request = peer.request(self);
        loop {
            match self.state.reclaim_complete(&request, self.now())? {
                Completion::Done { grace_is_due } => return Ok(grace_is_due),
                Completion::Record(write) => {
                    let record = write.record();
                    self.disk.records.insert(record.owner.clone(), record);
                    let _permit = write.on_disk();
                }
            }
        }
    }

    pub(crate) fn permit(&mut self, request: &Sequenced<Pin>) -> Result<NewPermit, Error> {
        match self.state.permit_new(request)? {
            Admission::Granted(permit) => Ok(permit),
            Admission::Record(write) => {
                let record = write.record();
                self.disk.records.insert(record.owner.clone(), record);
                Ok(write.on_disk())
            }
        }
    }

    pub(crate) fn end_grace(&mut self) -> bool {
        let Some(ending) = self.state.end_grace() else {
            return false;
        };
        let epoch = ending.epoch();
        self.disk
            .records
            .retain(|_, record| record.client.epoch >= epoch);
        ending.records_removed();
        true
    }

    pub(crate) fn expire(&mut self, client: ClientId, why: Why) -> Result<Released<Pin>, Error> {
        match self.state.expire(client, why, self.now())? {
            Expiry::Done(released) => Ok(released),
            Expiry::Remove(expiring) => {
                let removal = expiring.removal();
                let stored = self.disk.records.get(&removal.owner);
                if stored.is_some_and(|record| removal.applies_to(record)) {
                    self.disk.records.remove(&removal.owner);
                }
                Ok(self.state.record_removed(expiring, self.now()))
            }
        }
    }

    pub(crate) fn open(
        &mut self,
        peer: &Peer,
        owner: &str,
        file: &Arc<FileState>,
        access: Bits,
        deny: Bits,
    ) -> Result<Arc<OpenState<Pin>>, Refused> {
        let request = peer.request(self);
        let permit = self.permit(&request)?;
        let args = open_args(owner, file, access, deny);
        self.state
            .open(&request, Claim::New(&permit), args, self.now())
    }

    pub(crate) fn reclaim_open(
        &self,
        peer: &Peer,
        owner: &str,
        file: &Arc<FileState>,
        access: Bits,
    ) -> Result<Arc<OpenState<Pin>>, Refused> {
        let request = peer.request(self);
        let permit = self.state.permit_reclaim(&request)?;
        let args = open_args(owner, file, access, Bits::NONE);
        self.state
            .open(&request, Claim::Reclaim(&permit), args, self.now())
    }

    /// LOCK without a host, by a new owner or one that is known.
    pub(crate) fn lock(
        &mut self,
        peer: &Peer,
        open: &OpenState<Pin>,
        owner: &str,
        range: Range,
        kind: LockKind,
    ) -> Result<StateId, LockRefused> {
        let request = peer.request(self);
        let permit = self.permit(&request)?;
        self.lock_by(&request, Claim::New(&permit), open, owner, range, kind)
    }

    pub(crate) fn lock_by(
        &self,
        request: &Sequenced<Pin>,
        claim: Claim<'_>,
        open: &OpenState<Pin>,
        owner: &str,
        range: Range,
        kind: LockKind,
    ) -> Result<StateId, LockRefused> {
        let locker = Locker::New {
            open: open.stateid().to_wire(),
            owner: &bytes(owner),
        };
        let args = LockArgs {
            locker,
            file: open.file(),
            range,
            kind,
            wait: false,
        };
        let reservation = self.state.lock(request, claim, &args, self.now())?;
        let (stateid, _notify) = reservation.confirm(self.now())?;
        Ok(stateid.to_wire())
    }
}

/// A client's end of a session, on slot 0.
pub(crate) struct Peer {
    pub(crate) id: ClientId,
    pub(crate) session: Arc<Session<Pin>>,
    sequence: Cell<u32>,
}

impl Peer {
    /// The client's end of a session that was just made.
    pub(crate) fn of(id: ClientId, session: Arc<Session<Pin>>) -> Self {
        let sequence = Cell::new(0);
        Self {
            id,
            session,
            sequence,
        }
    }

    /// The next request.
    pub(crate) fn request(&self, server: &Server) -> Sequenced<Pin> {
        self.try_request(server).expect("it is the next sequence")
    }

    pub(crate) fn try_request(&self, server: &Server) -> Result<Sequenced<Pin>, Error> {
        let call = call(0, self.sequence.get() + 1);
        match server.state.begin(&self.session, &call, server.now())? {
            Begun::Run(request) => {
                self.sequence.set(call.sequence);
                Ok(request)
            }
            Begun::Again(..) => panic!("a sequence that was never used is no retry"),
        }
    }
}

pub(crate) fn call(slot: u32, sequence: u32) -> SequenceCall {
    SequenceCall {
        slot,
        sequence,
        highest_slot: slot,
        cache_this: true,
        digest: Digest(7),
        connection: None,
    }
}

/// A client of the host with this number.
pub(crate) fn origin(host: u8) -> Origin {
    Origin {
        host: Host(host.into()),
        address: [192, 0, 2, host].into(),
        minor: 1,
    }
}

pub(crate) fn bytes(name: &str) -> OwnerBytes {
    OwnerBytes::new(name.as_bytes()).expect("short")
}

pub(crate) fn principal(user: &str) -> Principal {
    Principal::new(user.as_bytes()).expect("short")
}

pub(crate) fn file() -> Arc<FileState> {
    Arc::new(FileState::new())
}

pub(crate) fn range(offset: u64, length: u64) -> Range {
    Range::new(offset, length).expect("a range")
}

fn open_args(owner: &str, file: &Arc<FileState>, access: Bits, deny: Bits) -> OpenArgs<Pin> {
    OpenArgs {
        owner: bytes(owner),
        principal: principal("user"),
        file: Arc::clone(file),
        pin: (),
        share: Share::new(access, deny).expect("some access"),
    }
}

/// How the server calls a client that does not mind who it is.
pub(crate) fn no_auth() -> CallbackAuth {
    CallbackAuth {
        flavor: 0,
        body: Arc::default(),
    }
}

pub(crate) fn way_back() -> BackChannel {
    BackChannel {
        program: 0x4000_0000,
        auth: no_auth(),
        channel: CHANNEL,
    }
}
