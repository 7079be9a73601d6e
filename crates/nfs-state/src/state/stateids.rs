//! TEST_STATEID and FREE_STATEID.

use super::State;
use crate::client::{Client, Inner, Sequenced};
use crate::error::Error;
use crate::id::{Lock, Open, StateId, StateIdOf, StateKind};

impl<P> State<P> {
    /// TEST_STATEID: what each stateid is worth to this client. Never "stale": a client that is told so here may ask
    /// for ever; one of another life of the server is bad (RFC 8881 §18.48.3).
    #[must_use]
    pub fn test_stateids(&self, by: &Sequenced<P>, ids: &[StateId]) -> Vec<Result<(), Error>> {
        let client = by.client();
        let inner = client.inner.read();
        ids.iter().map(|id| inner.test(client, *id)).collect()
    }

    /// FREE_STATEID: forgets locks of an owner that has none left. [`Error::LocksHeld`] for one that has, and for an open;
    /// [`Error::BadStateId`], [`Error::OldStateId`].
    pub fn free_stateid(&self, by: &Sequenced<P>, id: StateId) -> Result<(), Error> {
        let client = by.client();
        let mut inner = client.inner.write();
        inner.test(client, id)?;
        let counter = match id.kind_for(client.id) {
            Some((StateKind::Lock, counter)) => counter,
            Some((StateKind::Open, _)) => return Err(Error::LocksHeld),
            Some((StateKind::Deleg, _)) | None => return Err(Error::BadStateId),
        };
        let state = inner.locks.get(counter).ok_or(Error::BadStateId)?;
        let owner = state.lock_owner();
        let file = state.open.file().lock();
        if file.holds(&owner) || file.is_pending(&owner) {
            return Err(Error::LocksHeld);
        }
        drop(file);
        inner.locks.remove(counter);
        Ok(())
    }
}

impl<P> Inner<P> {
    fn test(&self, client: &Client<P>, id: StateId) -> Result<(), Error> {
        match id.kind_for(client.id) {
            Some((StateKind::Open, _)) => {
                self.opens.check(StateIdOf::<Open>::of(id, client.id)?)?;
                Ok(())
            }
            Some((StateKind::Lock, _)) => {
                self.locks.check(StateIdOf::<Lock>::of(id, client.id)?)?;
                Ok(())
            }
            Some((StateKind::Deleg, _)) | None => Err(Error::BadStateId),
        }
    }
}
