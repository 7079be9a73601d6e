//! The whole: what the driver calls. Each part of it is in a module of its own; none takes a lock across a
//! return.

mod expire;
mod identity;
mod io;
mod lock;
mod open;
mod permit;
mod stateids;

use core::net::IpAddr;
use std::sync::Arc;

pub use self::expire::{Expiring, Expiry, Tick, Why};
pub use self::identity::{CreateSession, Created, ExchangeId, Exchanged};
pub use self::io::{Access, IoRight, OpenRight, Read, Write};
pub use self::lock::{Holder, LockArgs, LockRefused, Locker, Notice, Reservation, Unlocked};
pub use self::open::{Closed, OpenArgs};
pub use self::permit::{Admission, Claim, Completion, NewPermit, ReclaimPermit, RecordWrite};
use crate::client::{Begun, Channel, Client, SequenceCall, Session};
use crate::counters::{Count, Counters};
use crate::directory::Directory;
use crate::effects::StatusFlags;
use crate::error::Error;
use crate::grace::{Grace, GraceEnding, GraceStatus};
use crate::host::{Bounds, Totals};
use crate::id::{ClientId, Epoch, OwnerBytes, SessionId};
use crate::rank::{Rank, RankedRwLock};
use crate::record::Record;
use crate::slot::ReplyBudget;
use crate::time::Millis;

/// What the operator may set, and what the server has.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Milliseconds that a client may be silent.
    pub lease_ms: u64,
    /// Milliseconds that a grace period lasts at most. 0 gives nobody time to reclaim.
    pub grace_ms: u64,
    /// Bytes that the kept replies of all sessions take together, besides what each has for sure
    /// ([`limits::SESSION_REPLY_BYTES_ASSURED`](crate::limits::SESSION_REPLY_BYTES_ASSURED)).
    pub reply_bytes_max: usize,
    /// How much there may be of what clients hold.
    pub bounds: Bounds,
    /// The most that a client gets for its calls.
    pub fore: Channel,
    /// The most that the server uses of a way back.
    pub back: Channel,
}

/// What the disk says at the start.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// This life's epoch: one more than the last, and on the disk already.
    pub epoch: Epoch,
    /// The clients that had state in earlier lives.
    pub records: Vec<Record>,
}

/// The state of an NFSv4.1 server. Shared by all threads; every method takes `&self`, none blocks for longer than
/// another thread holds a lock, and none holds one across a return.
#[derive(Debug)]
pub struct State<P> {
    config: Config,
    epoch: Epoch,
    directory: RankedRwLock<Directory<P>>,
    grace: Arc<Grace>,
    budget: Arc<ReplyBudget>,
    counters: Counters,
}

/// Why OPEN, READ or WRITE is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// With this status.
    Status(Error),
    /// This client is in the way, and its lease is over: [`State::expire`] it and try again, three times at the
    /// most, then answer [`Error::Delay`].
    Expirable(ClientId),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Status(error)
    }
}

impl<P> State<P> {
    /// Begins a life of the server. If clients have records, it begins with a grace period.
    #[must_use]
    pub fn new(config: Config, recovered: Recovered, now: Millis) -> Self {
        let Recovered { epoch, records } = recovered;
        Self {
            config,
            epoch,
            directory: RankedRwLock::new(
                Rank::Directory,
                Directory::new(epoch, Arc::new(Totals::new(config.bounds))),
            ),
            grace: Arc::new(Grace::new(epoch, records, now, config.grace_ms)),
            budget: Arc::new(ReplyBudget::new(config.reply_bytes_max)),
            counters: Counters::default(),
        }
    }

    /// What it was made with.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// This life of the server.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Finds a session that the connection does not know yet. [`Error::BadSession`] if there is none.
    pub fn session(&self, id: SessionId) -> Result<Arc<Session<P>>, Error> {
        let client = self.client(id.client()).ok_or(Error::BadSession)?;
        client.session(id).ok_or(Error::BadSession)
    }

    /// SEQUENCE: see [`Begun`]. What is refused has changed nothing: [`Error::BadSession`] (also when client and server
    /// disagreed about the slot for a whole lease), [`Error::BadSlot`], [`Error::BadHighSlot`],
    /// [`Error::SeqMisordered`], [`Error::SeqFalseRetry`], and [`Error::Delay`] while the same request is in
    /// progress, while the client is being expired, and where there is no memory for the reply.
    pub fn begin(
        &self,
        session: &Arc<Session<P>>,
        call: &SequenceCall,
        now: Millis,
    ) -> Result<Begun<P>, Error> {
        let begun = session.begin(call, now, self.config.lease_ms);
        match &begun {
            Ok(Begun::Again(..)) => self.counters.add(Count::Replayed),
            Ok(Begun::Run(_)) => {}
            Err(error) => self.counters.refused(*error),
        }
        begun
    }

    /// `sr_status_flags` for a session: that its client cannot be called, where something rests on that. Where nothing
    /// does, a client is not sent to repair what nobody uses.
    #[must_use]
    pub fn status_flags(&self, session: &Session<P>) -> StatusFlags {
        if !session.is_back_down() {
            return StatusFlags::default();
        }
        let client = session.client();
        match client.filter(|client| client.rests_on_callbacks()) {
            None => StatusFlags::default(),
            Some(client) if client.sessions().iter().any(|it| it.can_be_called()) => {
                StatusFlags::CB_PATH_DOWN_SESSION
            }
            Some(_) => {
                StatusFlags(StatusFlags::CB_PATH_DOWN.0 | StatusFlags::CB_PATH_DOWN_SESSION.0)
            }
        }
    }

    /// A confirmed client.
    #[must_use]
    pub fn client(&self, id: ClientId) -> Option<Arc<Client<P>>> {
        self.directory.read().client(id).cloned()
    }

    /// All confirmed clients, for the operator's eyes.
    #[must_use]
    pub fn clients(&self) -> Vec<Arc<Client<P>>> {
        self.directory.read().clients().cloned().collect()
    }

    /// The addresses of two machines that lately took turns under a client's name, for the operator's eyes.
    #[must_use]
    pub fn name_shared_by(&self, client: &Client<P>, now: Millis) -> Option<[IpAddr; 2]> {
        self.directory.read().shared_by(&client.owner, now)
    }

    /// Clients that said EXCHANGE_ID and no more.
    #[must_use]
    pub fn unconfirmed(&self) -> usize {
        self.directory.read().candidate_count()
    }

    /// What was counted since the start.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Bytes of kept replies, of all sessions.
    #[must_use]
    pub fn reply_bytes(&self) -> usize {
        self.budget.used()
    }

    /// How far the grace period is.
    #[must_use]
    pub fn grace(&self) -> GraceStatus {
        self.grace.status()
    }

    /// The names of clients, so many at most, that have not come back in the grace period.
    #[must_use]
    pub fn grace_waiting(&self, most: usize) -> Vec<OwnerBytes> {
        self.grace.waiting(most)
    }

    /// Ends the grace period: because [`Tick`] or [`Completion`] says that it is due, or on the operator's word. None if it
    /// is over, if somebody is ending it, or as long as a reclaim is in progress; then the next tick says so again.
    pub fn end_grace(&self) -> Option<GraceEnding> {
        self.grace.end()
    }

    /// Whether a client's lease is over, so that it can be expired for somebody else's sake.
    fn is_expirable(&self, id: ClientId, now: Millis) -> bool {
        let client = self.client(id);
        client.is_some_and(|c| c.lease_is_over(now, self.config.lease_ms))
    }

    fn over_limit(&self, count: Count) -> Error {
        self.counters.add(count);
        Error::Resource
    }
}
