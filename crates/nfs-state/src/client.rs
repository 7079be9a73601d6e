//! A client: who it is, how long it may be silent, and everything it holds.
//!
//! A [`Client`] is confirmed: before CREATE_SESSION there is only a [`Candidate`]. From then on it is one of
//! three things, and which follows from two values alone: its [`Gate`] and the time of its last renewal.
//! **Confirmed**, as long as the lease runs; **courtesy**, when it has run out and nobody minded yet; **expired**, when
//! its gate was closed for good. It can only be closed while no request of the client is in progress.

mod back;
mod locks;
mod opens;
mod sequenced;
mod session;

use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

pub use self::back::{BackChannel, Callback, CallbackAuth, CallbackEnd, Direction};
pub(crate) use self::locks::{LockState, Locks, lock_owner};
pub use self::opens::OpenState;
pub(crate) use self::opens::Opens;
pub use self::sequenced::{Begun, SequenceCall, SequenceStatus, Sequenced};
pub(crate) use self::session::SessionParts;
pub use self::session::{Channel, Session};
use crate::error::Error;
use crate::gate::{Gate, Shut};
use crate::host::{Counted, Holdings, Origin, Place, What};
use crate::id::{ClientId, OwnerBytes, Principal, Verifier};
use crate::limits;
use crate::rank::{Rank, RankedRwLock};
use crate::time::{Latest, Millis};

use std::sync::Arc;

/// What EXCHANGE_ID left: a client that has not confirmed by CREATE_SESSION. It holds nothing.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) id: ClientId,
    pub(crate) owner: OwnerBytes,
    pub(crate) verifier: Verifier,
    pub(crate) principal: Principal,
    pub(crate) from: Origin,
    pub(crate) since: Millis,
}

impl Candidate {
    /// Its first CREATE_SESSION came; it is counted for its host.
    pub(crate) fn confirm<P>(self, holdings: &Arc<Holdings>, now: Millis) -> Client<P> {
        Client {
            id: self.id,
            owner: self.owner,
            verifier: self.verifier,
            principal: self.principal,
            from: self.from,
            holdings: Arc::clone(holdings),
            _counted: holdings.count(What::Client),
            gate: Gate::new(),
            renewed: Latest::new(now),
            recorded: AtomicBool::new(false),
            may_be_recorded: AtomicBool::new(false),
            complete: AtomicBool::new(false),
            told: AtomicBool::new(false),
            waiting: Arc::default(),
            inner: RankedRwLock::new(Rank::Client, Inner::default()),
        }
    }
}

/// A confirmed client. `P` is what the driver pins with each open: the object.
#[derive(Debug)]
pub struct Client<P> {
    pub(crate) id: ClientId,
    pub(crate) owner: OwnerBytes,
    pub(crate) verifier: Verifier,
    pub(crate) principal: Principal,
    from: Origin,
    /// What its host holds.
    pub(crate) holdings: Arc<Holdings>,
    _counted: Counted,
    pub(crate) gate: Gate,
    pub(crate) renewed: Latest,
    /// A record of it is on the disk, with this id.
    pub(crate) recorded: AtomicBool,
    /// There may be one, for all that is known: to write or to remove it was begun.
    pub(crate) may_be_recorded: AtomicBool,
    /// It said RECLAIM_COMPLETE.
    pub(crate) complete: AtomicBool,
    /// It was told that it will be notified of locks that it waits for.
    told: AtomicBool,
    /// Its places in queues for locks.
    waiting: Arc<AtomicUsize>,
    pub(crate) inner: RankedRwLock<Inner<P>>,
}

/// How much a client holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    /// Sessions.
    pub sessions: usize,
    /// Opens.
    pub opens: usize,
    /// Lock stateids: one for each lock-owner and file.
    pub lock_states: usize,
}

/// What a client holds.
#[derive(Debug)]
pub(crate) struct Inner<P> {
    pub(crate) sessions: Vec<Arc<Session<P>>>,
    pub(crate) next_session: u32,
    /// The counter of the next state, one row for all kinds.
    pub(crate) next_state: u32,
    pub(crate) opens: Opens<P>,
    pub(crate) locks: Locks<P>,
}

impl<P> Default for Inner<P> {
    fn default() -> Self {
        Self {
            sessions: Vec::new(),
            next_session: 1,
            next_state: 1,
            opens: Opens::default(),
            locks: Locks::default(),
        }
    }
}

impl<P> Inner<P> {
    pub(crate) fn holds_state(&self) -> bool {
        !self.opens.is_empty() || !self.locks.is_empty()
    }

    /// A counter that no state of this client has.
    pub(crate) fn new_counter(&mut self) -> u32 {
        loop {
            let counter = self.next_state;
            self.next_state = counter.wrapping_add(1);
            if !self.opens.has(counter) && !self.locks.has(counter) {
                return counter;
            }
        }
    }
}

impl<P> Client<P> {
    /// Its name.
    #[must_use]
    pub const fn id(&self) -> ClientId {
        self.id
    }

    /// The name it gave itself (`co_ownerid`).
    #[must_use]
    pub const fn owner(&self) -> &OwnerBytes {
        &self.owner
    }

    /// Who it was when it came.
    #[must_use]
    pub const fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Where it came from.
    #[must_use]
    pub const fn from(&self) -> Origin {
        self.from
    }

    /// Milliseconds since it was last heard of.
    #[must_use]
    pub fn silent_ms(&self, now: Millis) -> u64 {
        now.since(self.renewed.get())
    }

    /// Its sessions, for the operator's eyes.
    #[must_use]
    pub fn sessions(&self) -> Vec<Arc<Session<P>>> {
        self.inner.read().sessions.clone()
    }

    /// Its opens, for the operator's eyes.
    #[must_use]
    pub fn opens(&self) -> Vec<Arc<OpenState<P>>> {
        self.inner.read().opens.iter().cloned().collect()
    }

    /// How much it holds, for the operator's eyes.
    #[must_use]
    pub fn holds(&self) -> Holds {
        let inner = self.inner.read();
        Holds {
            sessions: inner.sessions.len(),
            opens: inner.opens.len(),
            lock_states: inner.locks.len(),
        }
    }

    /// Whether it was told that it will be notified of locks that it waits for ([`State::promise_notices`](crate::State::promise_notices)).
    #[must_use]
    pub fn expects_notices(&self) -> bool {
        self.told.load(Ordering::Relaxed)
    }

    pub(crate) fn was_told(&self) {
        if !self.expects_notices() {
            self.told.store(true, Ordering::Relaxed);
        }
    }

    /// Whether something of it rests on being called: it expects notices, and has files open.
    pub(crate) fn rests_on_callbacks(&self) -> bool {
        self.expects_notices() && self.inner.read().holds_state()
    }

    /// A place in a queue for a lock, if it and its host may have one more.
    pub(crate) fn place(&self) -> Option<Place> {
        if self.waiting.load(Ordering::Relaxed) >= limits::WAITERS_PER_CLIENT_MAX {
            return None;
        }
        let counted = self.holdings.take(What::Waiter)?;
        Some(Place::new(counted, &self.waiting))
    }

    pub(crate) fn is_recorded(&self) -> bool {
        self.recorded.load(Ordering::Acquire)
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.complete.load(Ordering::Acquire)
    }

    pub(crate) fn lease_is_over(&self, now: Millis, lease_ms: u64) -> bool {
        now.since(self.renewed.get()) > lease_ms
    }

    pub(crate) fn session(&self, id: crate::id::SessionId) -> Option<Arc<Session<P>>> {
        let inner = self.inner.read();
        inner.sessions.iter().find(|s| s.id() == id).cloned()
    }
}

/// A request of this client is in progress: as long as this lives, nobody expires it.
#[derive(Debug)]
pub(crate) struct Hold<P>(Arc<Client<P>>);

impl<P> Hold<P> {
    /// [`Error::Delay`] while it is being expired, [`Error::BadSession`] when it was.
    pub(crate) fn take(client: Arc<Client<P>>) -> Result<Self, Error> {
        match client.gate.enter() {
            Ok(()) => Ok(Self(client)),
            Err(Shut::ForNow) => Err(Error::Delay),
            Err(Shut::ForGood) => Err(Error::BadSession),
        }
    }

    pub(crate) const fn client(&self) -> &Arc<Client<P>> {
        &self.0
    }
}

impl<P> Drop for Hold<P> {
    fn drop(&mut self) {
        self.0.gate.leave();
    }
}
