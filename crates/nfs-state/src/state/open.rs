//! OPEN, OPEN_DOWNGRADE, CLOSE.

use std::sync::Arc;

use super::{Claim, Refused, State};
use crate::client::{Client, Inner, OpenState, Sequenced};
use crate::counters::Count;
use crate::effects::Released;
use crate::error::Error;
use crate::file::FileState;
use crate::host::{Holdings, What};
use crate::id::{Open, OwnerBytes, Principal, StateId, StateIdOf};
use crate::limits;
use crate::share::{Combinations, OpenKey, Share};
use crate::time::Millis;

/// The arguments of OPEN that are the state's.
#[derive(Clone, Debug)]
pub struct OpenArgs<P> {
    /// The open-owner, in the bytes of its client.
    pub owner: OwnerBytes,
    /// Who opens. Whether they may, the driver has asked.
    pub principal: Principal,
    /// What is held in the file that is opened.
    pub file: Arc<FileState>,
    /// What the open pins: the object whose the file state is.
    pub pin: P,
    /// What is wanted and denied.
    pub share: Share,
}

/// What CLOSE did. The stateid of the reply is [`StateId::INVALID`] (RFC 8881 §18.2.4).
#[derive(Debug)]
pub struct Closed<P> {
    /// The open that is over, and locks that went with it.
    pub released: Released<P>,
}

impl<P> State<P> {
    /// OPEN of a file that the driver has found or made: a new open, or more for one of the same owner. The stateid is
    /// [`OpenState::stateid`]. [`Error::ShareDenied`], [`Error::ReclaimConflict`], [`Error::Resource`].
    pub fn open(
        &self,
        by: &Sequenced<P>,
        claim: Claim<'_>,
        args: OpenArgs<P>,
        now: Millis,
    ) -> Result<Arc<OpenState<P>>, Refused> {
        let client = by.client();
        claim.check(client.id)?;
        let opened = self.try_open(client, args);
        opened.map_err(|stop| match stop {
            Stop::Status(error) => error.into(),
            Stop::Conflict(_) if claim.is_reclaim() => Error::ReclaimConflict.into(),
            Stop::Conflict((holder, _)) if self.is_expirable(holder, now) => {
                Refused::Expirable(holder)
            }
            Stop::Conflict(_) => Error::ShareDenied.into(),
        })
    }

    fn try_open(&self, client: &Client<P>, args: OpenArgs<P>) -> Result<Arc<OpenState<P>>, Stop> {
        let mut inner = client.inner.write();
        if let Some(open) = inner.opens.find(&args.owner, &args.file) {
            let to = open.combinations().with(args.share);
            reserve_share(&args.file, Some(open.key), open.key, to.union)?;
            open.change(to, &args.principal);
            return Ok(Arc::clone(open));
        }
        if inner.opens.len() >= limits::OPENS_PER_CLIENT_MAX {
            return Err(Stop::Status(self.over_limit(Count::OpensFull)));
        }
        let Some(counted) = client.holdings.take(What::Open) else {
            return Err(Stop::Status(self.over_limit(Count::OpensFull)));
        };
        let key = (client.id, inner.new_counter());
        reserve_share(&args.file, None, key, args.share)?;
        let combinations = Combinations::new(args.share);
        let open = OpenState::new(
            key,
            args.owner,
            args.principal,
            args.file,
            args.pin,
            combinations,
            counted,
        );
        let open = Arc::new(open);
        inner.opens.insert(Arc::clone(&open));
        Ok(open)
    }

    /// OPEN_DOWNGRADE: back to a union of what was asked for. [`Error::Inval`] for anything else,
    /// [`Error::BadStateId`], [`Error::OldStateId`].
    pub fn open_downgrade(
        &self,
        by: &Sequenced<P>,
        id: StateId,
        file: &FileState,
        share: Share,
    ) -> Result<StateIdOf<Open>, Error> {
        let client = by.client();
        let inner = client.inner.write();
        let open = inner.open_of(client, id, file)?;
        let to = open.combinations().downgraded(share)?;
        open.file().lock().set_share(open.key, to.union);
        open.change(to, open.principal());
        Ok(open.stateid())
    }

    /// CLOSE. Locks that were asked for through this open go with it. [`Error::BadStateId`], [`Error::OldStateId`].
    pub fn close(
        &self,
        by: &Sequenced<P>,
        id: StateId,
        file: &FileState,
        now: Millis,
    ) -> Result<Closed<P>, Error> {
        let client = by.client();
        let mut inner = client.inner.write();
        let open = Arc::clone(inner.open_of(client, id, file)?);
        let mut released = Released::default();
        inner.end_open(&open, &client.holdings, &mut released, now);
        inner.opens.remove(&open);
        drop(inner);
        released.opens.push(open);
        Ok(Closed { released })
    }
}

/// Why an open was not made, as long as it is not known who is in the way.
enum Stop {
    Status(Error),
    Conflict(OpenKey),
}

/// Enters a share, if nobody else's stands against it.
fn reserve_share(
    file: &FileState,
    own: Option<OpenKey>,
    key: OpenKey,
    share: Share,
) -> Result<(), Stop> {
    let mut file = file.lock();
    match file.shares().conflict(own, share) {
        Some(holder) => Err(Stop::Conflict(holder)),
        None => {
            file.set_share(key, share);
            Ok(())
        }
    }
}

impl<P> Inner<P> {
    /// The open of this file that a stateid of a request names.
    pub(super) fn open_of(
        &self,
        client: &Client<P>,
        id: StateId,
        file: &FileState,
    ) -> Result<&Arc<OpenState<P>>, Error> {
        let open = self.opens.check(StateIdOf::of(id, client.id)?)?;
        match open.file().number() == file.number() {
            true => Ok(open),
            false => Err(Error::BadStateId),
        }
    }

    /// Takes an open's share and the locks under it out of its file.
    pub(crate) fn end_open(
        &mut self,
        open: &OpenState<P>,
        holdings: &Holdings,
        released: &mut Released<P>,
        now: Millis,
    ) {
        let under = self.locks.under(open);
        let owners: Vec<_> = under
            .iter()
            .filter_map(|lock| self.locks.get(*lock))
            .map(crate::client::LockState::lock_owner)
            .collect();
        for lock in under {
            self.locks.remove(lock);
        }
        let mut file = open.file().lock();
        file.remove_share(open.key);
        if owners.is_empty() {
            drop(file);
        } else {
            let before = file.range_count();
            let notify = file.release(|owner| owners.contains(owner), now);
            holdings.changed(What::Range, before, file.range_count());
            let behind = file.is_behind();
            drop(file);
            released.note(open.file(), notify, behind);
        }
        let notify = open.file().lock().leave(open.key, now);
        released.note(open.file(), notify, false);
    }
}
