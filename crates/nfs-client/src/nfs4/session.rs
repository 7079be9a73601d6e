//! A session with a server: how it begins, how each COMPOUND goes through one of its slots, and how it is
//! made anew when the server has lost it.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use nfs_wire::nfs4::ops::{
    CallbackSecParms4, ChannelAttrs4, ClientOwner4, CreateSessionArgs, CreateSessionOk,
    DestroyClientidArgs, DestroySessionArgs, EXCHGID4_FLAG_USE_NON_PNFS, ExchangeIdArgs,
    ReclaimCompleteArgs, SequenceArgs, SequenceOk, StateProtect4A,
};
use nfs_wire::nfs4::{
    ArgOp, CALLBACK_PROGRAM, Clientid4, MinorVersion, Nfsstat4, Opaque4, Opnum, PROC_COMPOUND,
    PROGRAM, ResOp, Sessionid4, Tag, VERSION, Verifier4,
};
use nfs_wire::{Decode, DecodeError, Decoder, Encode, Encoder};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::opens::Opens;
use super::slots::{Fate, Slots, Taken};
use super::{Nfs4Error, Results};
use crate::connection::retry::jukebox_pause;
use crate::connection::{Connections, Cut, Extra, Kind, Procedure, Reply, ReplyMemory, Times};
use crate::error::RpcError;
use crate::identity::Identity;
use crate::limits;
use crate::random;

/// What clones share.
#[derive(Debug)]
pub(super) struct Shared {
    connections: Connections,
    identity: Identity,
    minor: MinorVersion,
    owner: Vec<u8>,
    verifier: Verifier4,
    /// The session at present.
    current: Mutex<Arc<Session>>,
    /// Held while a session is made anew.
    renewing: tokio::sync::Mutex<()>,
    /// What is open, whoever opened it; opened again where the server has lost it.
    pub(super) opens: Opens,
}

/// What a COMPOUND brought, and how it was asked.
#[derive(Debug)]
pub(super) struct Ran {
    /// The results; where `data` has the data of a READ, only what stands before it.
    pub(super) results: Results,
    /// The memory that was given for the reply's data.
    pub(super) data: ReplyMemory,
    /// It went out once more in another session: the server may have carried it out before, and does not remember.
    pub(super) anew: bool,
}

/// What goes beside a COMPOUND.
pub(super) enum Beside {
    Nothing,
    /// The data of a WRITE, which is its last operation.
    Payload(Bytes),
    /// Memory for the data of a READ, which is its last operation.
    Memory(nfs_io::Buf, Cut),
}

/// One session, from CREATE_SESSION on.
#[derive(Debug)]
pub(super) struct Session {
    clientid: Clientid4,
    id: Sessionid4,
    pub(super) attrs: ChannelAttrs4,
    slots: Mutex<Slots>,
    /// A slot was given back.
    free: Notify,
}

impl Shared {
    /// Says who we are and begins a session.
    pub(super) async fn begin(
        connections: Connections,
        identity: Identity,
        minor: MinorVersion,
    ) -> Result<Self, Nfs4Error> {
        let random = [random::bytes(), random::bytes()].concat();
        let owner = format!("penstock {}", random.escape_ascii()).into_bytes();
        let verifier = Verifier4(random::bytes());
        let caller = Caller {
            connections: &connections,
            identity: &identity,
            minor,
        };
        let session = caller.begin(&owner, verifier, None).await?;
        Ok(Self {
            current: Mutex::new(Arc::new(session)),
            opens: Opens::default(),
            connections,
            identity,
            minor,
            owner,
            verifier,
            renewing: tokio::sync::Mutex::new(()),
        })
    }

    pub(super) fn current(&self) -> Arc<Session> {
        lock(&self.current).clone()
    }

    pub(super) fn connections(&self) -> &Connections {
        &self.connections
    }

    /// Carries out `ops` behind a SEQUENCE. Where the server has lost the session, which it says before it
    /// does anything, another one is made and the operations are sent again; so are they after NFS4ERR_DELAY
    /// where none before the delayed one changes anything.
    pub(super) async fn run(
        &self,
        identity: &Identity,
        ops: &[ArgOp<'_>],
        mut beside: Beside,
    ) -> Result<Ran, Nfs4Error> {
        let kind = Kind::of_compound(ops);
        let cachethis = ops.iter().any(|op| op.opnum().changes());
        let timeout = self.connections.first().options().call_timeout;
        let deadline = Instant::now() + timeout;
        let (mut delays, mut renewals) = (0, 0);
        loop {
            let session = self.current();
            // Waiting for a slot is part of a call's queue.
            let begun = Instant::now();
            let taken = session.take(deadline, timeout).await?;
            let args = self.encode(&session, taken, cachethis, ops);
            let (extra, again) = beside.once();
            let counted = (kind, begun);
            let reply = self.send(session.clone(), taken, identity, args, extra, counted);
            let reply = reply.await?;
            let ran = Ran {
                results: Results {
                    bytes: reply.results,
                },
                data: reply.memory,
                anew: renewals > 0,
            };
            match ran.verdict(ops)? {
                Verdict::Done => return Ok(ran),
                Verdict::Later => {
                    delays += 1;
                    let left = deadline.saturating_duration_since(Instant::now());
                    let Some(pause) = jukebox_pause(delays, left) else {
                        return Ok(ran);
                    };
                    self.connections.first().waits_for_jukebox(pause);
                    tokio::time::sleep(pause).await;
                }
                Verdict::AsNew => {}
                Verdict::SessionLost if renewals < limits::NFS4_RENEWALS_MAX => {
                    renewals += 1;
                    self.renew(&session).await?;
                }
                Verdict::SessionLost => return Ok(ran),
            }
            beside = again.with(ran.data);
        }
    }

    /// The arguments of COMPOUND: SEQUENCE and the operations.
    fn encode(
        &self,
        session: &Session,
        taken: Taken,
        cachethis: bool,
        ops: &[ArgOp<'_>],
    ) -> Vec<u8> {
        let sequence = session.sequence(taken, cachethis);
        encode_compound(self.minor, std::iter::once(&sequence).chain(ops))
    }

    /// Sends a COMPOUND in its slot, and gives the slot back when its fate is known. That is done by a task, so
    /// that a caller who gives up leaves no slot at a number that nobody knows.
    async fn send(
        &self,
        session: Arc<Session>,
        taken: Taken,
        identity: &Identity,
        args: Vec<u8>,
        extra: Extra,
        (kind, begun): (Kind, Instant),
    ) -> Result<Reply, Nfs4Error> {
        let connection = self.connections.least_busy().clone();
        let identity = identity.clone();
        let task = connection.runtime().spawn({
            let connection = connection.clone();
            async move {
                let times = Times {
                    begun,
                    ..Times::from_now(connection.options().call_timeout)
                };
                let args = Encoded(args);
                let reply = connection.call_until(COMPOUND, kind, &identity, &args, extra, times);
                let reply = reply.await;
                session.give_back(taken, reply.as_ref().map(|reply| &reply.results));
                reply
            }
        });
        Ok(task.await.map_err(|_| Nfs4Error::Ended)??)
    }

    /// Makes another session in place of `lost`, unless somebody else has.
    async fn renew(&self, lost: &Arc<Session>) -> Result<(), Nfs4Error> {
        let _alone = self.renewing.lock().await;
        if !Arc::ptr_eq(&self.current(), lost) {
            return Ok(());
        }
        let before = Some((lost.clientid, &self.opens));
        let caller = self.caller();
        let session = caller.begin(&self.owner, self.verifier, before).await?;
        *lock(&self.current) = Arc::new(session);
        // Whoever waits for a slot of the lost one finds the new one.
        lost.free.notify_waiters();
        Ok(())
    }

    /// Ends the session and has the client forgotten, once nothing is open any more.
    pub(super) async fn end(&self) -> Result<(), Nfs4Error> {
        let session = self.current();
        let sessionid = session.id;
        let clientid = session.clientid;
        let caller = self.caller();
        let destroy = ArgOp::DestroySession(DestroySessionArgs { sessionid });
        caller.alone(&destroy).await?;
        let destroy = ArgOp::DestroyClientid(DestroyClientidArgs { clientid });
        caller.alone(&destroy).await?;
        Ok(())
    }

    fn caller(&self) -> Caller<'_> {
        Caller {
            connections: &self.connections,
            identity: &self.identity,
            minor: self.minor,
        }
    }
}

impl Session {
    /// Takes a slot, and waits for one until the deadline.
    async fn take(&self, deadline: Instant, timeout: Duration) -> Result<Taken, Nfs4Error> {
        loop {
            // Told of what happens from here on, so that nothing is missed between the look and the wait.
            let mut free = pin!(self.free.notified());
            free.as_mut().enable();
            {
                let mut slots = lock(&self.slots);
                if let Some(taken) = slots.take() {
                    return Ok(taken);
                }
                if slots.are_given_up() {
                    return Err(Nfs4Error::SlotsGivenUp);
                }
            }
            let waited = tokio::time::timeout_at(deadline, free).await;
            waited.map_err(|_| RpcError::Timeout { after: timeout })?;
        }
    }

    fn sequence(&self, taken: Taken, cachethis: bool) -> ArgOp<'static> {
        ArgOp::Sequence(SequenceArgs {
            sessionid: self.id,
            sequenceid: taken.sequenceid,
            slotid: taken.slotid,
            highest_slotid: taken.highest_slotid,
            cachethis,
        })
    }

    /// Gives a slot back by what the reply says.
    fn give_back(&self, taken: Taken, reply: Result<&Bytes, &RpcError>) {
        let mut slots = lock(&self.slots);
        let (fate, told) = fate_of(reply);
        slots.give_back(taken.slotid, fate);
        if let Some(told) = told {
            slots.aim_at(told.target_highest_slotid);
        }
        drop(slots);
        self.free.notify_one();
    }
}

impl Beside {
    /// What goes with one call, and what is left for the next one.
    fn once(self) -> (Extra, Again) {
        match self {
            Self::Nothing => (Extra::None, Again::Nothing),
            Self::Payload(data) => (Extra::Payload(data.clone()), Again::Payload(data)),
            Self::Memory(buf, cut) => (Extra::Memory { buf, cut }, Again::Memory(cut)),
        }
    }
}

/// What goes beside a call that is made again, without the memory that the reply gives back.
enum Again {
    Nothing,
    Payload(Bytes),
    Memory(Cut),
}

impl Again {
    fn with(self, memory: ReplyMemory) -> Beside {
        match (self, memory) {
            (Self::Payload(data), _) => Beside::Payload(data),
            (Self::Memory(cut), ReplyMemory::Unused(buf)) => Beside::Memory(buf, cut),
            // Without memory the data comes among the results.
            (Self::Nothing | Self::Memory(_), _) => Beside::Nothing,
        }
    }
}

/// What a reply says of its request's slot.
fn fate_of(reply: Result<&Bytes, &RpcError>) -> (Fate, Option<SequenceOk>) {
    match reply.ok().and_then(|bytes| first_result(bytes).ok()) {
        Some(ResOp::Sequence(Ok(ok))) => (Fate::Taken, Some(ok)),
        Some(ResOp::Sequence(Err(status))) => (fate_by_status(status), None),
        _ => (Fate::Unknown, None),
    }
}

/// The result of the first operation, whatever follows.
fn first_result(results: &[u8]) -> Result<ResOp<'_>, DecodeError> {
    let mut d = Decoder::new(results);
    Nfsstat4::decode(&mut d)?;
    Tag::decode(&mut d)?;
    d.u32("resarray")?;
    ResOp::decode(&mut d)
}

/// What a failure of SEQUENCE says of the slot (RFC 8881 §2.10.6.1.3).
fn fate_by_status(status: Nfsstat4) -> Fate {
    match status {
        // The number is behind the server's: it has seen this one.
        Nfsstat4::RetryUncachedRep | Nfsstat4::SeqFalseRetry => Fate::Taken,
        Nfsstat4::SeqMisordered => Fate::Unknown,
        _ => Fate::Refused,
    }
}

/// What is to be done about a reply.
enum Verdict {
    Done,
    /// Asked again later.
    Later,
    /// Sent again at once as a new request: an earlier one was carried out, and its reply is gone.
    AsNew,
    /// Sent again in another session.
    SessionLost,
}

impl Ran {
    fn verdict(&self, ops: &[ArgOp<'_>]) -> Result<Verdict, Nfs4Error> {
        if matches!(self.data, ReplyMemory::Filled(_)) {
            return Ok(Verdict::Done);
        }
        let res = self.results.decode()?;
        if let Some(ResOp::Sequence(Err(status))) = res.resarray.first() {
            return Ok(match status {
                Nfsstat4::Delay => Verdict::Later,
                Nfsstat4::RetryUncachedRep => Verdict::AsNew,
                Nfsstat4::Badsession
                | Nfsstat4::Deadsession
                | Nfsstat4::ConnNotBoundToSession
                | Nfsstat4::StaleClientid => Verdict::SessionLost,
                _ => Verdict::Done,
            });
        }
        let before = res.resarray.len().saturating_sub(2);
        let changed = ops.iter().take(before).any(|op| op.opnum().changes());
        Ok(match res.status {
            Nfsstat4::Delay | Nfsstat4::Grace if !changed => Verdict::Later,
            _ => Verdict::Done,
        })
    }
}

const COMPOUND: Procedure = Procedure {
    program: PROGRAM,
    version: VERSION,
    number: PROC_COMPOUND,
};

/// Arguments that are bytes already.
struct Encoded(Vec<u8>);

impl Encode for Encoded {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.opaque_fixed(&self.0);
    }
}

/// Calls without a session.
#[derive(Clone, Copy)]
struct Caller<'a> {
    connections: &'a Connections,
    identity: &'a Identity,
    minor: MinorVersion,
}

impl Caller<'_> {
    /// Says who we are and begins a session, in which what was open `before`, as another client, is reclaimed. A
    /// server that ends once more meanwhile is begun with once more.
    async fn begin(
        &self,
        owner: &[u8],
        verifier: Verifier4,
        before: Option<(Clientid4, &Opens)>,
    ) -> Result<Session, Nfs4Error> {
        for _ in 0..limits::NFS4_RENEWALS_MAX {
            match self.begin_once(owner, verifier, before).await {
                Err(Nfs4Error::Status {
                    status: Nfsstat4::Badsession | Nfsstat4::Deadsession | Nfsstat4::StaleClientid,
                    ..
                }) => {}
                begun => return begun,
            }
        }
        self.begin_once(owner, verifier, before).await
    }

    async fn begin_once(
        &self,
        owner: &[u8],
        verifier: Verifier4,
        before: Option<(Clientid4, &Opens)>,
    ) -> Result<Session, Nfs4Error> {
        let (clientid, sequence) = self.exchange_id(owner, verifier).await?;
        let made = self.create_session(clientid, sequence).await?;
        let session = Session {
            clientid,
            id: made.sessionid,
            attrs: made.fore_chan_attrs,
            slots: Mutex::new(Slots::new(
                made.fore_chan_attrs.maxrequests.min(limits::NFS4_SLOTS_MAX),
            )),
            free: Notify::new(),
        };
        // A server that knows the client still has all that it had open.
        if let Some((before, opens)) = before
            && before != clientid
        {
            self.reclaim(&session, opens).await?;
        }
        self.reclaim_complete(&session).await?;
        Ok(session)
    }

    /// Opens what was open before the server ended. What it does not give back is opened as something new by who
    /// uses it next.
    async fn reclaim(&self, session: &Session, opens: &Opens) -> Result<(), Nfs4Error> {
        for open in opens.granted() {
            let Some(ops) = open.reclaim() else {
                continue;
            };
            let caller = Caller {
                identity: open.identity(),
                ..*self
            };
            let results = caller.in_session(session, &ops).await?;
            let res = results.decode()?;
            if let Some(ResOp::Sequence(Err(_))) = res.resarray.first() {
                return Err(results.failure(res.status));
            }
            open.reclaimed(&res);
        }
        Ok(())
    }

    async fn exchange_id(
        &self,
        owner: &[u8],
        verifier: Verifier4,
    ) -> Result<(Clientid4, u32), Nfs4Error> {
        let args = ArgOp::ExchangeId(ExchangeIdArgs {
            clientowner: ClientOwner4 {
                verifier,
                ownerid: Opaque4(owner),
            },
            flags: EXCHGID4_FLAG_USE_NON_PNFS,
            state_protect: StateProtect4A::None,
            client_impl_id: None,
        });
        let results = self.alone(&args).await?;
        match results.decode()?.resarray.last() {
            Some(ResOp::ExchangeId(Ok(ok))) => Ok((ok.clientid, ok.sequenceid)),
            _ => Err(Nfs4Error::Unexpected(Opnum::ExchangeId)),
        }
    }

    async fn create_session(
        &self,
        clientid: Clientid4,
        sequence: u32,
    ) -> Result<CreateSessionOk, Nfs4Error> {
        let args = ArgOp::CreateSession(CreateSessionArgs {
            clientid,
            sequence,
            flags: 0,
            fore_chan_attrs: ChannelAttrs4 {
                headerpadsize: 0,
                maxrequestsize: limits::NFS4_MESSAGE_BYTES_MAX,
                maxresponsesize: limits::NFS4_MESSAGE_BYTES_MAX,
                maxresponsesize_cached: limits::NFS4_CACHED_BYTES_MAX,
                maxoperations: limits::NFS4_OPS_MAX,
                maxrequests: limits::NFS4_SLOTS_MAX,
                rdma_ird: None,
            },
            back_chan_attrs: ChannelAttrs4 {
                headerpadsize: 0,
                maxrequestsize: 4096,
                maxresponsesize: 4096,
                maxresponsesize_cached: 0,
                maxoperations: 2,
                maxrequests: 1,
                rdma_ird: None,
            },
            cb_program: CALLBACK_PROGRAM,
            sec_parms: vec![CallbackSecParms4::None],
        });
        let results = self.alone(&args).await?;
        match results.decode()?.resarray.last() {
            Some(ResOp::CreateSession(Ok(ok))) => Ok(*ok),
            _ => Err(Nfs4Error::Unexpected(Opnum::CreateSession)),
        }
    }

    /// A server in its grace period waits for this.
    async fn reclaim_complete(&self, session: &Session) -> Result<(), Nfs4Error> {
        let complete = ArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
        let results = self.in_session(session, &[complete]).await?;
        match results.status()? {
            Nfsstat4::Ok | Nfsstat4::CompleteAlready => Ok(()),
            status => Err(results.failure(status)),
        }
    }

    /// Carries out operations in a session that nobody else knows yet.
    async fn in_session(&self, session: &Session, ops: &[ArgOp<'_>]) -> Result<Results, Nfs4Error> {
        let taken = lock(&session.slots).take();
        let taken = taken.ok_or(Nfs4Error::SlotsGivenUp)?;
        let sequence = session.sequence(taken, true);
        let reply = self.call(std::iter::once(&sequence).chain(ops)).await;
        session.give_back(taken, reply.as_ref());
        Results::new(reply?)
    }

    /// Carries out one operation that needs no session; asked again while the server needs time.
    async fn alone(&self, op: &ArgOp<'_>) -> Result<Results, Nfs4Error> {
        let deadline = Instant::now() + self.connections.first().options().call_timeout;
        let mut delays = 0;
        loop {
            let results = Results::new(self.call(std::iter::once(op)).await?)?;
            let status = results.status()?;
            delays += 1;
            let left = deadline.saturating_duration_since(Instant::now());
            match (status, jukebox_pause(delays, left)) {
                (Nfsstat4::Ok, _) => return Ok(results),
                (Nfsstat4::Delay, Some(pause)) => {
                    self.connections.first().waits_for_jukebox(pause);
                    tokio::time::sleep(pause).await;
                }
                (status, _) => return Err(results.failure(status)),
            }
        }
    }

    async fn call<'o>(&self, ops: impl Iterator<Item = &'o ArgOp<'o>>) -> Result<Bytes, RpcError> {
        let ops: Vec<_> = ops.collect();
        let kind = Kind::of_compound(ops.iter().copied());
        let args = Encoded(encode_compound(self.minor, ops.into_iter()));
        let connection = self.connections.first();
        let times = Times::from_now(connection.options().call_timeout);
        let (identity, extra) = (self.identity, Extra::None);
        let reply = connection.call_until(COMPOUND, kind, identity, &args, extra, times);
        Ok(reply.await?.results)
    }
}

fn encode_compound<'o>(minor: MinorVersion, ops: impl Iterator<Item = &'o ArgOp<'o>>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(256);
    let mut e = Encoder::new(&mut bytes);
    Tag(b"").encode(&mut e);
    e.u32(minor as u32);
    let ops: Vec<_> = ops.collect();
    e.len(ops.len());
    for op in ops {
        op.encode(&mut e);
    }
    bytes
}

/// A panic while a lock was held would be a bug here, but leaves nothing half-done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
