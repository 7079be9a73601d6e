//! The time after a restart in which clients reclaim what they held, and nobody gets anything new.
//!
//! It begins only if some client has a record, and ends when all of those came back and said RECLAIM_COMPLETE, when
//! its time is over, or on the operator's word. The end is one way, in three steps: no reclaim begins any
//! more; the last one in progress ends; the records of those who did not come back are removed durably. Only
//! then is something new granted. Thus no reclaim meets a new grant, and who missed this grace period cannot
//! reclaim in the next one what others were given meanwhile (RFC 8881 §8.4.3).

use crate::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::Error;
use crate::gate::Gate;
use crate::id::{Epoch, OwnerBytes, Principal};
use crate::limits;
use crate::rank::{Rank, RankedMutex};
use crate::record::Record;
use crate::time::Millis;

#[derive(Debug)]
pub(crate) struct Grace {
    epoch: Epoch,
    /// Reclaims come through it.
    reclaims: Arc<Gate>,
    over: AtomicBool,
    inner: RankedMutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    until: Millis,
    /// Those with a record who did not say yet that they are done.
    waiting: BTreeMap<OwnerBytes, Principal>,
    /// Somebody is removing the records.
    ending: bool,
}

/// How far the grace period is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraceStatus {
    /// Whether it is over.
    pub is_over: bool,
    /// Until when it lasts at most.
    pub until: Millis,
    /// How many clients have not come back.
    pub waiting: usize,
}

impl Grace {
    /// Begins, if there is anybody to wait for and any time to wait.
    pub(crate) fn new(epoch: Epoch, records: Vec<Record>, now: Millis, grace_ms: u64) -> Self {
        let all = records.into_iter().take(limits::RECORDS_MAX);
        let waiting: BTreeMap<_, _> = all.map(|r| (r.owner, r.principal)).collect();
        let over = waiting.is_empty();
        Self {
            epoch,
            reclaims: Arc::new(if over { Gate::closed() } else { Gate::new() }),
            over: AtomicBool::new(over),
            inner: RankedMutex::new(
                Rank::Leaf,
                Inner {
                    until: now.plus(grace_ms),
                    waiting,
                    ending: false,
                },
            ),
        }
    }

    /// [`Error::Grace`] while only reclaims are possible. One atomic load.
    pub(crate) fn check_over(&self) -> Result<(), Error> {
        match self.over.load(Ordering::Acquire) {
            true => Ok(()),
            false => Err(Error::Grace),
        }
    }

    /// Lets a reclaim of this client begin. It lasts as long as what comes back is held.
    pub(crate) fn reclaim(
        &self,
        owner: &OwnerBytes,
        principal: &Principal,
    ) -> Result<Reclaiming, Error> {
        self.reclaims.enter().map_err(|_| Error::NoGrace)?;
        let reclaiming = Reclaiming(Arc::clone(&self.reclaims));
        match self.inner.lock().waiting.get(owner) {
            Some(recorded) if recorded == principal => Ok(reclaiming),
            _ => Err(Error::ReclaimBad),
        }
    }

    /// This client has reclaimed what it wanted.
    pub(crate) fn came_back(&self, owner: &OwnerBytes) {
        self.inner.lock().waiting.remove(owner);
    }

    /// Whether it should end by now.
    pub(crate) fn is_due(&self, now: Millis) -> bool {
        if self.over.load(Ordering::Acquire) {
            return false;
        }
        let inner = self.inner.lock();
        !inner.ending && (inner.waiting.is_empty() || now >= inner.until)
    }

    /// Begins to end it. None if it is over, if somebody else is ending it, or as long as a reclaim is in progress:
    /// no other begins, so that the next attempt gets further.
    pub(crate) fn end(self: &Arc<Self>) -> Option<GraceEnding> {
        let mut inner = self.inner.lock();
        if self.over.load(Ordering::Acquire) || inner.ending || !self.reclaims.close_behind() {
            return None;
        }
        inner.ending = true;
        drop(inner);
        Some(GraceEnding(Arc::clone(self)))
    }

    /// The names of some that have not come back.
    pub(crate) fn waiting(&self, most: usize) -> Vec<OwnerBytes> {
        let inner = self.inner.lock();
        inner.waiting.keys().take(most).cloned().collect()
    }

    pub(crate) fn status(&self) -> GraceStatus {
        let inner = self.inner.lock();
        GraceStatus {
            is_over: self.over.load(Ordering::Acquire),
            until: inner.until,
            waiting: inner.waiting.len(),
        }
    }
}

/// A reclaim in progress.
#[derive(Debug)]
pub(crate) struct Reclaiming(Arc<Gate>);

impl Drop for Reclaiming {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// The grace period is to end: remove all records of epochs before [`GraceEnding::epoch`] durably, then say
/// [`GraceEnding::records_removed`]. Dropped without that, reclaims stay over, nothing new is granted either,
/// and the next tick asks again.
#[derive(Debug)]
#[must_use]
pub struct GraceEnding(Arc<Grace>);

impl GraceEnding {
    /// Records of this epoch stay.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.0.epoch
    }

    /// The records are gone from the disk: from now on everything is granted.
    pub fn records_removed(self) {
        self.0.inner.lock().waiting.clear();
        self.0.over.store(true, Ordering::Release);
    }
}

impl Drop for GraceEnding {
    fn drop(&mut self) {
        self.0.inner.lock().ending = false;
    }
}
