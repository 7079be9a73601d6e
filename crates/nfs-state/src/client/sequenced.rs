//! SEQUENCE, and the request that it begins.

use std::sync::Arc;

use super::{Client, Direction, Hold, Session};
use crate::error::Error;
use crate::id::{ConnId, SessionId};
use crate::slot::{Digest, Replay, Verdict};
use crate::sync::atomic::Ordering;
use crate::time::Millis;

/// The arguments of SEQUENCE, and what the driver knows of the request behind it.
#[derive(Clone, Copy, Debug)]
pub struct SequenceCall {
    /// `sa_slotid`.
    pub slot: u32,
    /// `sa_sequenceid`.
    pub sequence: u32,
    /// `sa_highest_slotid`.
    pub highest_slot: u32,
    /// `sa_cachethis`.
    pub cache_this: bool,
    /// Of all operations.
    pub digest: Digest,
    /// The connection it came over, if this is the first of the session there: it is bound by the request's being
    /// accepted (RFC 8881 §2.10.3.1).
    pub connection: Option<ConnId>,
}

/// What becomes of a request.
#[derive(Debug)]
pub enum Begun<P> {
    /// It is new: carry it out, then [`Sequenced::finish`] it.
    Run(Sequenced<P>),
    /// It was carried out before: answer so. The status is for where SEQUENCE has to be answered anew.
    Again(Replay, SequenceStatus),
}

/// The results of SEQUENCE, without the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceStatus {
    /// `sr_sessionid`.
    pub session: SessionId,
    /// `sr_sequenceid`.
    pub sequence: u32,
    /// `sr_slotid`.
    pub slot: u32,
    /// `sr_highest_slotid`: what the table has.
    pub highest_slot: u32,
    /// `sr_target_highest_slotid`: what the client is to use.
    pub target_highest_slot: u32,
}

/// A request in its slot. All operations that touch state ask for one, and only [`State::begin`](crate::State::begin) makes it. As long as
/// it lives its client is not expired. Dropped without [`Sequenced::finish`], its slot is free again, and a retry
/// of the request is told that the server failed, unless [`Sequenced::may_be_left_off`] was said before.
#[derive(Debug)]
pub struct Sequenced<P> {
    hold: Hold<P>,
    visit: Visit<P>,
    /// Bytes that were taken for the reply.
    reserved: usize,
    ended: bool,
    /// What a retry is told where nobody finishes it.
    unfinished: Replay,
    status: SequenceStatus,
}

impl<P> Session<P> {
    /// SEQUENCE: decides whether a request is a new one, and if so, puts it into its slot and renews the lease.
    ///
    /// What is refused has changed nothing: [`Error::BadSession`] (also when client and server disagreed about
    /// the slot for a whole lease), [`Error::BadSlot`], [`Error::BadHighSlot`], [`Error::SeqMisordered`],
    /// [`Error::SeqFalseRetry`], and [`Error::Delay`] while the same request is in progress, while the client is being
    /// expired, and where there is no memory for the reply.
    pub(crate) fn begin(
        self: &Arc<Self>,
        call: &SequenceCall,
        now: Millis,
        lease_ms: u64,
    ) -> Result<Begun<P>, Error> {
        let client = self.client.upgrade().ok_or(Error::BadSession)?;
        let slot = self.slot(call.slot)?;
        if call.highest_slot >= self.channel().slots_max {
            return Err(Error::BadHighSlot);
        }
        let hold = Hold::take(client)?;
        let visit = Visit::enter(self)?;
        let reserved = match call.cache_this {
            true => self.channel().cached_bytes_max as usize,
            false => 0,
        };
        let mut guard = slot.lock();
        let kept = guard.kept_bytes();
        // The reply that is kept gives its room to the new one.
        let room = || self.reserve(reserved.saturating_sub(kept));
        let verdict = guard.begin(call.sequence, call.digest, room);
        drop(guard);
        let verdict = verdict.map_err(|error| match error {
            Error::SeqMisordered => self.misordered(call.slot, now, lease_ms),
            other => other,
        })?;
        hold.client().renewed.advance(now);
        if let Some(connection) = call.connection {
            self.bind(connection, Direction::Fore);
        }
        let status = self.status(call);
        match verdict {
            Verdict::Again(replay) => Ok(Begun::Again(replay, status)),
            Verdict::New => {
                self.give_back(kept.saturating_sub(reserved));
                Ok(Begun::Run(Sequenced {
                    hold,
                    visit,
                    reserved,
                    ended: false,
                    unfinished: Replay::Faulted,
                    status,
                }))
            }
        }
    }

    fn status(&self, call: &SequenceCall) -> SequenceStatus {
        let slots = self.channel().slots_max;
        if self.told.load(Ordering::Relaxed) < slots {
            self.give_back_slots(call.highest_slot);
        }
        SequenceStatus {
            session: self.id(),
            sequence: call.sequence,
            slot: call.slot,
            highest_slot: slots - 1,
            target_highest_slot: self.target() - 1,
        }
    }
}

/// A request is in progress in this session: as long as this lives, nobody else destroys it.
#[derive(Debug)]
struct Visit<P>(Arc<Session<P>>);

impl<P> Visit<P> {
    fn enter(session: &Arc<Session<P>>) -> Result<Self, Error> {
        let entered = session.gate.enter();
        entered.map_err(|_| Error::BadSession)?;
        Ok(Self(Arc::clone(session)))
    }
}

impl<P> Drop for Visit<P> {
    fn drop(&mut self) {
        self.0.gate.leave();
    }
}

impl<P> Sequenced<P> {
    /// The client that asks.
    #[must_use]
    pub fn client(&self) -> &Arc<Client<P>> {
        self.hold.client()
    }

    /// The session it asks through.
    #[must_use]
    pub const fn session(&self) -> &Arc<Session<P>> {
        &self.visit.0
    }

    /// The results of SEQUENCE.
    #[must_use]
    pub const fn status(&self) -> SequenceStatus {
        self.status
    }

    /// Whether the reply is kept (`sa_cachethis`).
    #[must_use]
    pub const fn is_kept(&self) -> bool {
        self.reserved > 0
    }

    /// The request changes nothing, and may be dropped before it is finished: its client can ask for it anew. A retry is
    /// told so (NFS4ERR_RETRY_UNCACHED_REP), and not that the server failed. Of no effect where the reply is kept.
    pub fn may_be_left_off(&mut self) {
        if !self.is_kept() {
            self.unfinished = Replay::Uncached;
        }
    }

    /// The request was carried out, and this is the whole reply. It is kept for a retry if the client asked for
    /// that. One that is longer than was agreed is not kept; the front refuses such requests before they run.
    pub fn finish(mut self, reply: &[u8]) {
        let kept = if reply.len() <= self.reserved && self.reserved > 0 {
            Replay::Reply(reply.into())
        } else {
            Replay::Uncached
        };
        self.end(kept);
    }

    fn end(&mut self, replay: Replay) {
        self.ended = true;
        let session = &self.visit.0;
        let Ok(slot) = session.slot(self.status.slot) else {
            return;
        };
        let mut slot = slot.lock();
        slot.finish(replay);
        let kept = slot.kept_bytes();
        drop(slot);
        session.give_back(self.reserved.saturating_sub(kept));
    }
}

impl<P> Drop for Sequenced<P> {
    fn drop(&mut self) {
        if !self.ended {
            let unfinished = std::mem::replace(&mut self.unfinished, Replay::Faulted);
            self.end(unfinished);
        }
    }
}
