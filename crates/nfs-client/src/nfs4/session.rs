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
    ArgOp, CALLBACK_PROGRAM, Clientid4, CompoundRes, MinorVersion, Nfsstat4, Opaque4, Opnum,
    PROC_COMPOUND, PROGRAM, ResOp, Sessionid4, Tag, VERSION, Verifier4,
};
use nfs_wire::{Encode, Encoder};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::slots::{Fate, Slots, Taken};
use super::{Nfs4Error, Results};
use crate::connection::retry::jukebox_pause;
use crate::connection::{Connections, Procedure, decode_results};
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
        let session = caller.begin(&owner, verifier).await?;
        Ok(Self {
            current: Mutex::new(Arc::new(session)),
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
    pub(super) async fn compound(&self, ops: &[ArgOp<'_>]) -> Result<Results, Nfs4Error> {
        let cachethis = ops.iter().any(|op| op.opnum().changes());
        let timeout = self.connections.first().options().call_timeout;
        let deadline = Instant::now() + timeout;
        let (mut delays, mut renewals) = (0, 0);
        loop {
            let session = self.current();
            let taken = session.take(deadline, timeout).await?;
            let args = self.encode(&session, taken, cachethis, ops);
            let results = self.send(session.clone(), taken, args).await?;
            match results.verdict(ops)? {
                Verdict::Done => return Ok(results),
                Verdict::Later => {
                    delays += 1;
                    let left = deadline.saturating_duration_since(Instant::now());
                    let Some(pause) = jukebox_pause(delays, left) else {
                        return Ok(results);
                    };
                    tokio::time::sleep(pause).await;
                }
                Verdict::AsNew => {}
                Verdict::SessionLost if renewals < limits::NFS4_RENEWALS_MAX => {
                    renewals += 1;
                    self.renew(&session).await?;
                }
                Verdict::SessionLost => return Ok(results),
            }
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
        let sequence = ArgOp::Sequence(SequenceArgs {
            sessionid: session.id,
            sequenceid: taken.sequenceid,
            slotid: taken.slotid,
            highest_slotid: taken.highest_slotid,
            cachethis,
        });
        encode_compound(self.minor, std::iter::once(&sequence).chain(ops))
    }

    /// Sends a COMPOUND in its slot, and gives the slot back when its fate is known. That is done by a task, so
    /// that a caller who gives up leaves no slot at a number that nobody knows.
    async fn send(
        &self,
        session: Arc<Session>,
        taken: Taken,
        args: Vec<u8>,
    ) -> Result<Results, Nfs4Error> {
        let connection = self.connections.least_busy().clone();
        let identity = self.identity.clone();
        let task = connection.runtime().spawn({
            let connection = connection.clone();
            async move {
                let reply = connection.call_raw(COMPOUND, &identity, &args).await;
                session.give_back(taken, &reply);
                reply
            }
        });
        let reply = task.await.map_err(|_| Nfs4Error::Ended)??;
        Results::new(reply)
    }

    /// Makes another session in place of `lost`, unless somebody else has.
    async fn renew(&self, lost: &Arc<Session>) -> Result<(), Nfs4Error> {
        let _alone = self.renewing.lock().await;
        if !Arc::ptr_eq(&self.current(), lost) {
            return Ok(());
        }
        let session = self.caller().begin(&self.owner, self.verifier).await?;
        *lock(&self.current) = Arc::new(session);
        // Whoever waits for a slot of the lost one finds the new one.
        lost.free.notify_waiters();
        Ok(())
    }

    /// Ends the session and has the client forgotten.
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

    /// Gives a slot back by what the reply says.
    fn give_back(&self, taken: Taken, reply: &Result<Bytes, RpcError>) {
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

/// What a reply says of its request's slot.
fn fate_of(reply: &Result<Bytes, RpcError>) -> (Fate, Option<SequenceOk>) {
    let Ok(bytes) = reply else {
        return (Fate::Unknown, None);
    };
    let Ok(res) = decode_results::<CompoundRes<'_>>(bytes) else {
        return (Fate::Unknown, None);
    };
    match res.resarray.first() {
        Some(ResOp::Sequence(Ok(ok))) => (Fate::Taken, Some(*ok)),
        Some(ResOp::Sequence(Err(status))) => (fate_by_status(*status), None),
        _ => (Fate::Unknown, None),
    }
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

impl Results {
    fn verdict(&self, ops: &[ArgOp<'_>]) -> Result<Verdict, Nfs4Error> {
        let res = self.decode()?;
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

/// Calls without a session.
struct Caller<'a> {
    connections: &'a Connections,
    identity: &'a Identity,
    minor: MinorVersion,
}

impl Caller<'_> {
    /// Says who we are and begins a session; nothing of before is reclaimed.
    async fn begin(&self, owner: &[u8], verifier: Verifier4) -> Result<Session, Nfs4Error> {
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
        self.reclaim_complete(&session).await?;
        Ok(session)
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
        let taken = lock(&session.slots).take();
        let taken = taken.ok_or(Nfs4Error::SlotsGivenUp)?;
        let sequence = ArgOp::Sequence(SequenceArgs {
            sessionid: session.id,
            sequenceid: taken.sequenceid,
            slotid: taken.slotid,
            highest_slotid: taken.highest_slotid,
            cachethis: true,
        });
        let complete = ArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
        let reply = self.call([&sequence, &complete].into_iter()).await;
        session.give_back(taken, &reply);
        let results = Results::new(reply?)?;
        match results.status()? {
            Nfsstat4::Ok | Nfsstat4::CompleteAlready => Ok(()),
            status => Err(results.failure(status)),
        }
    }

    /// Carries out one operation that needs no session.
    async fn alone(&self, op: &ArgOp<'_>) -> Result<Results, Nfs4Error> {
        let results = Results::new(self.call(std::iter::once(op)).await?)?;
        match results.status()? {
            Nfsstat4::Ok => Ok(results),
            status => Err(results.failure(status)),
        }
    }

    async fn call<'o>(&self, ops: impl Iterator<Item = &'o ArgOp<'o>>) -> Result<Bytes, RpcError> {
        let args = encode_compound(self.minor, ops);
        let connection = self.connections.first();
        connection.call_raw(COMPOUND, self.identity, &args).await
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
