//! The end of a client whose lease is over, and what is due with time.
//!
//! A client is never expired under a request of its own, and what it held is free only when its record is gone from
//! the disk: a restart in between finds either the record and everything still held, or neither.

use crate::sync::atomic::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::State;
use crate::client::Client;
use crate::counters::Count;
use crate::effects::Released;
use crate::error::Error;
use crate::host::{Host, What};
use crate::id::ClientId;
use crate::limits;
use crate::record::RecordRemoval;
use crate::time::Millis;

/// Why a client is expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its lease is over, and somebody wants what it holds, or it has been away for too long.
    LeaseOver,
    /// The operator says so.
    Operator,
    /// Its host wants room for another client ([`State::who_gives_way`]), and it holds nothing or its lease is over.
    Room,
}

/// How far an expiry got.
#[derive(Debug)]
#[must_use]
pub enum Expiry<P> {
    /// The client is gone; it had no record.
    Done(Released<P>),
    /// The client's record has to be removed first.
    Remove(Expiring<P>),
}

/// A client that is being expired: none of its requests is let in. Dropped, it is as before, but that its record may be
/// gone: before it gets anything new, it is written again.
#[derive(Debug)]
#[must_use]
pub struct Expiring<P> {
    client: Arc<Client<P>>,
    removal: RecordRemoval,
    ended: bool,
}

/// What is due.
#[derive(Debug, Default)]
pub struct Tick {
    /// Clients to be expired ([`Why::LeaseOver`]).
    pub expire: Vec<ClientId>,
    /// Clients whose lease is over and who keep what they hold.
    pub courtesy: usize,
    /// The grace period is to end ([`State::end_grace`]).
    pub grace_is_due: bool,
}

impl<P> State<P> {
    /// Begins to expire a client. [`Error::Delay`] while a request of it is in progress, while somebody else expires it, or
    /// if it came back in the meantime. A client that is gone already is done.
    pub fn expire(&self, id: ClientId, why: Why, now: Millis) -> Result<Expiry<P>, Error> {
        let Some(client) = self.client(id) else {
            return Ok(Expiry::Done(Released::default()));
        };
        if !client.gate.close_if_empty() {
            return Err(Error::Delay);
        }
        let is_over = client.lease_is_over(now, self.config.lease_ms);
        let may_go = match why {
            Why::LeaseOver => is_over,
            Why::Room => is_over || !client.inner.read().holds_state(),
            Why::Operator => true,
        };
        if !may_go {
            client.gate.reopen();
            return Err(Error::Delay);
        }
        match client.removal() {
            Some(removal) => Ok(Expiry::Remove(Expiring {
                client,
                removal,
                ended: false,
            })),
            None => Ok(Expiry::Done(self.end_client(&client, now))),
        }
    }

    /// The record of a client that is being expired is gone from the disk: the client is gone as well.
    pub fn record_removed(&self, mut expiring: Expiring<P>, now: Millis) -> Released<P> {
        expiring.ended = true;
        self.end_client(&expiring.client, now)
    }

    fn end_client(&self, client: &Client<P>, now: Millis) -> Released<P> {
        client.gate.seal();
        self.directory.write().remove(client.id.index);
        self.counters.add(Count::Expired);
        client.release_all(now)
    }

    /// What is due by now; to be asked about once a second.
    pub fn tick(&self, now: Millis) -> Tick {
        let lease_ms = self.config.lease_ms;
        self.directory.write().drop_candidates(now, lease_ms);
        let somebody_waits = self.directory.read().has_waiters();
        let mut away: Vec<Arc<Client<P>>> = {
            let directory = self.directory.read();
            let over = directory
                .clients()
                .filter(|c| c.lease_is_over(now, lease_ms));
            over.cloned().collect()
        };
        away.sort_by_key(|client| client.renewed.get());
        let mut too_many = TooMany::of(&away, limits::COURTESY_MAX);
        let keep_ms = lease_ms.saturating_add(limits::COURTESY_MS_MAX);
        let mut tick = Tick {
            grace_is_due: self.grace.is_due(now),
            ..Tick::default()
        };
        for client in &away {
            let is_due = too_many.gives_way(client.from().host)
                || client.lease_is_over(now, keep_ms)
                || !client.inner.read().holds_state()
                || (somebody_waits && client.is_waited_for());
            match is_due && tick.expire.len() < limits::EXPIRIES_PER_TICK_MAX {
                true => tick.expire.push(client.id),
                false => tick.courtesy += 1,
            }
        }
        tick
    }
}

/// How many clients whose lease is over are to go for being too many, and whose they are: those of hosts that have
/// more than an equal part.
struct TooMany {
    left: usize,
    share: usize,
    of_host: BTreeMap<Host, usize>,
}

impl TooMany {
    fn of<P>(away: &[Arc<Client<P>>], max: usize) -> Self {
        let mut of_host = BTreeMap::new();
        for client in away {
            *of_host.entry(client.from().host).or_insert(0) += 1;
        }
        Self {
            left: away.len().saturating_sub(max),
            share: max / of_host.len().max(1),
            of_host,
        }
    }

    /// Whether a client of this host has to go; asked for the one that has been away longest first.
    fn gives_way(&mut self, host: Host) -> bool {
        let Some(has) = self.of_host.get_mut(&host) else {
            return false;
        };
        let goes = self.left > 0 && *has > self.share;
        if goes {
            self.left -= 1;
            *has -= 1;
        }
        goes
    }
}

impl<P> Expiring<P> {
    /// What to remove durably before [`State::record_removed`].
    #[must_use]
    pub const fn removal(&self) -> &RecordRemoval {
        &self.removal
    }
}

impl<P> Drop for Expiring<P> {
    fn drop(&mut self) {
        if !self.ended {
            self.client.recorded.store(false, Ordering::Release);
            self.client.gate.reopen();
        }
    }
}

impl<P> Client<P> {
    pub(super) fn removal(&self) -> Option<RecordRemoval> {
        let may_be_recorded = self.may_be_recorded.load(Ordering::Acquire);
        may_be_recorded.then(|| RecordRemoval {
            owner: self.owner.clone(),
            client: self.id,
        })
    }

    /// Whether another client waits in a file in which it has locks, of which so many are looked at.
    fn is_waited_for(&self) -> bool {
        let inner = self.inner.read();
        let mut locks = inner.locks.iter().take(limits::LOCKS_LOOKED_AT_MAX);
        locks.any(|lock| lock.open.file().is_waited_for_by_others(self.id))
    }

    /// Ends all its sessions; nobody makes another one, as its gate is sealed.
    pub(super) fn end_sessions(&self) {
        let sessions = std::mem::take(&mut self.inner.write().sessions);
        for session in sessions {
            session.close(false);
        }
    }

    /// Gives back everything it holds. Its gate is sealed.
    pub(super) fn release_all(&self, now: Millis) -> Released<P> {
        self.end_sessions();
        let mut inner = self.inner.write();
        let opens = inner.opens.take_all();
        inner.locks.clear();
        drop(inner);
        let mut released = Released::default();
        for open in &opens {
            let mut file = open.file().lock();
            file.remove_share(open.key);
            let before = file.range_count();
            let notify = file.release(|owner| owner.client() == Some(self.id), now);
            self.holdings
                .changed(What::Range, before, file.range_count());
            let behind = file.is_behind();
            drop(file);
            released.note(open.file(), notify, behind);
        }
        released.opens = opens;
        released
    }
}
