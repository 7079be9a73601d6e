//! Who may make state now: something new, or something that was held before a restart. A permit is a value, and
//! OPEN and LOCK take one.

use crate::sync::atomic::Ordering;
use std::sync::Arc;

use super::State;
use crate::client::{Client, Sequenced};
use crate::error::Error;
use crate::grace::Reclaiming;
use crate::id::ClientId;
use crate::record::Record;

/// That a client may get something new: no grace period, it has nothing left to reclaim, and its record is on the disk.
/// None of the three ceases to be so while a request of the client is in progress.
#[derive(Clone, Copy, Debug)]
pub struct NewPermit(ClientId);

/// That a client may reclaim. The grace period does not end before this is dropped: keep it until what is reclaimed is
/// held.
#[derive(Debug)]
pub struct ReclaimPermit {
    client: ClientId,
    _reclaiming: Reclaiming,
}

/// On what ground state is made.
#[derive(Clone, Copy, Debug)]
pub enum Claim<'a> {
    /// It is new (CLAIM_NULL, CLAIM_FH; `reclaim` of LOCK is false).
    New(&'a NewPermit),
    /// It was held before the restart (CLAIM_PREVIOUS; `reclaim` of LOCK is true).
    Reclaim(&'a ReclaimPermit),
}

impl Claim<'_> {
    pub(super) const fn is_reclaim(self) -> bool {
        matches!(self, Self::Reclaim(_))
    }

    /// A permit is its client's.
    pub(super) fn check(self, client: ClientId) -> Result<(), Error> {
        let permitted = match self {
            Self::New(permit) => permit.0,
            Self::Reclaim(permit) => permit.client,
        };
        if permitted == client {
            Ok(())
        } else {
            Err(Error::Perm)
        }
    }
}

/// What [`State::permit_new`] finds.
#[derive(Debug)]
pub enum Admission<P> {
    /// Go on.
    Granted(NewPermit),
    /// First write this record durably; then [`RecordWrite::on_disk`] is the permit. If it cannot be written,
    /// answer [`NOT_ON_DISK`](crate::record::NOT_ON_DISK).
    Record(RecordWrite<P>),
}

/// A record that has to be on the disk before the client gets something.
#[derive(Debug)]
#[must_use]
pub struct RecordWrite<P> {
    client: Arc<Client<P>>,
}

impl<P> RecordWrite<P> {
    /// From now on the record may be there, also if the disk does not say so.
    fn begin(client: &Arc<Client<P>>) -> Self {
        client.may_be_recorded.store(true, Ordering::Release);
        Self {
            client: Arc::clone(client),
        }
    }

    /// What to write, under its owner as the key, over whatever is there.
    #[must_use]
    pub fn record(&self) -> Record {
        Record {
            owner: self.client.owner.clone(),
            client: self.client.id,
            principal: self.client.principal.clone(),
        }
    }

    /// It is on the disk, synced. Calling this earlier is the one lie that the crate cannot find out.
    #[must_use]
    pub fn on_disk(self) -> NewPermit {
        self.client.recorded.store(true, Ordering::Release);
        NewPermit(self.client.id)
    }
}

/// What [`State::reclaim_complete`] finds.
#[derive(Debug)]
pub enum Completion<P> {
    /// Done. If the grace period is due for its end now, the driver ends it ([`State::end_grace`]).
    Done {
        /// Everybody has come back.
        grace_is_due: bool,
    },
    /// The client has reclaimed something: first write this record durably, then ask again.
    Record(RecordWrite<P>),
}

impl<P> State<P> {
    /// Before state is made anew. [`Error::Grace`] during a grace period, and before the client's RECLAIM_COMPLETE (RFC 8881
    /// §18.51.3).
    pub fn permit_new(&self, by: &Sequenced<P>) -> Result<Admission<P>, Error> {
        self.grace.check_over()?;
        let client = by.client();
        if !client.is_complete() {
            return Err(Error::Grace);
        }
        Ok(match client.is_recorded() {
            true => Admission::Granted(NewPermit(client.id)),
            false => Admission::Record(RecordWrite::begin(client)),
        })
    }

    /// Before state is reclaimed. [`Error::NoGrace`] when the time for it is over, for all or for this client;
    /// [`Error::ReclaimBad`] if no record says that it held anything, or if the record is another principal's.
    pub fn permit_reclaim(&self, by: &Sequenced<P>) -> Result<ReclaimPermit, Error> {
        let client = by.client();
        if client.is_complete() {
            return Err(Error::NoGrace);
        }
        let reclaiming = self.grace.reclaim(&client.owner, &client.principal)?;
        Ok(ReclaimPermit {
            client: client.id,
            _reclaiming: reclaiming,
        })
    }

    /// RECLAIM_COMPLETE for all file systems (`rca_one_fs` is false). [`Error::CompleteAlready`] the second time. A client that
    /// has reclaimed something has its record written before it is believed that it is done, so that a further
    /// restart finds it.
    pub fn reclaim_complete(
        &self,
        by: &Sequenced<P>,
        now: crate::Millis,
    ) -> Result<Completion<P>, Error> {
        let client = by.client();
        if client.is_complete() {
            return Err(Error::CompleteAlready);
        }
        if !client.is_recorded() && client.inner.read().holds_state() {
            return Ok(Completion::Record(RecordWrite::begin(client)));
        }
        if client.complete.swap(true, Ordering::AcqRel) {
            return Err(Error::CompleteAlready);
        }
        self.grace.came_back(&client.owner);
        let grace_is_due = self.grace.is_due(now);
        Ok(Completion::Done { grace_is_due })
    }
}
