//! LOCK, LOCKT, LOCKU.

use std::sync::Arc;

use super::{Claim, State};
use crate::client::{Client, Inner, OpenState, Sequenced, Session, lock_owner};
use crate::counters::Count;
use crate::error::Error;
use crate::file::{FileState, LockOwner, Notify, RangeConflict, Wait};
use crate::host::What;
use crate::id::{ClientId, Lock, OwnerBytes, StateId, StateIdOf};
use crate::limits;
use crate::range::{LockKind, Locked, Range};
use crate::share::Bits;
use crate::time::Millis;

/// Whose lock it is to be (`locker4`).
#[derive(Clone, Debug)]
pub enum Locker<'a> {
    /// The first lock of this owner in the file, through this open. An owner that has some all the same goes on with
    /// the stateid it has.
    New {
        /// The stateid of the open.
        open: StateId,
        /// The lock-owner.
        owner: &'a OwnerBytes,
    },
    /// A further one.
    Existing(StateId),
}

/// The arguments of LOCK.
#[derive(Clone, Debug)]
pub struct LockArgs<'a> {
    /// Whose.
    pub locker: Locker<'a>,
    /// Of the current filehandle.
    pub file: &'a FileState,
    /// Which bytes.
    pub range: Range,
    /// How.
    pub kind: LockKind,
    /// READW_LT or WRITEW_LT: if it is denied, the owner waits to be told.
    pub wait: bool,
}

/// Who has what was asked for (`LOCK4denied`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Who.
    pub owner: LockOwner,
    /// Which bytes.
    pub range: Range,
    /// How.
    pub kind: LockKind,
}

/// Why LOCK or LOCKT is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockRefused {
    /// With this status.
    Status(Error),
    /// NFS4ERR_DENIED.
    Denied(Holder),
    /// This client is in the way, and its lease is over: [`State::expire`] it and try again, three times at the
    /// most, then answer [`Error::Delay`].
    Expirable(ClientId),
}

impl From<Error> for LockRefused {
    fn from(error: Error) -> Self {
        Self::Status(error)
    }
}

/// What LOCKU did.
#[derive(Debug)]
pub struct Unlocked {
    /// The stateid from now on.
    pub stateid: StateIdOf<Lock>,
    /// Who may try now.
    pub notify: Vec<Notify>,
}

/// What a waiter is told, and over what (CB_NOTIFY_LOCK).
#[derive(Debug)]
pub struct Notice<P> {
    /// The client's sessions; any with a way back will do.
    pub sessions: Vec<Arc<Session<P>>>,
    /// The client, and the lock-owner as it names it.
    pub client: ClientId,
    /// The lock-owner.
    pub owner: OwnerBytes,
    /// The open through which it asked: it leads to the filehandle.
    pub open: Arc<OpenState<P>>,
}

impl<P> State<P> {
    /// LOCK, its first half: reserves the range. Then the host is asked, if the host's locks are mirrored
    /// ([`FileState::host_turn`]), and the reservation is confirmed or given up. [`Error::BadStateId`],
    /// [`Error::OldStateId`], [`Error::OpenMode`], [`Error::ReclaimConflict`], [`Error::Delay`] while somebody else's
    /// reservation is in the way, [`Error::Resource`].
    pub fn lock(
        &self,
        by: &Sequenced<P>,
        claim: Claim<'_>,
        args: &LockArgs<'_>,
        now: Millis,
    ) -> Result<Reservation<P>, LockRefused> {
        let client = by.client();
        claim.check(client.id)?;
        let (open, owner) = self.find_locker(client, args)?;
        let locked = Locked {
            range: args.range,
            kind: args.kind,
            owner: lock_owner(client.id, &owner),
        };
        if !client.holdings.has_room(What::Range) {
            return Err(self.over_limit(Count::LocksFull).into());
        }
        let reserved = self.reserve(client, &open, locked, args.wait && !claim.is_reclaim(), now);
        match reserved {
            Ok(number) => Ok(Reservation {
                client: Arc::clone(client),
                open,
                owner,
                number: Some(number),
                at: now,
            }),
            Err(RangeConflict::Held(_)) if claim.is_reclaim() => Err(Error::ReclaimConflict.into()),
            Err(conflict) => Err(self.lock_refused(conflict, now)),
        }
    }

    /// Open and owner of a LOCK, with everything about them that does not depend on the file's locks.
    fn find_locker(
        &self,
        client: &Client<P>,
        args: &LockArgs<'_>,
    ) -> Result<(Arc<OpenState<P>>, OwnerBytes), Error> {
        let inner = client.inner.read();
        let (open, owner) = match args.locker {
            Locker::New { open, owner } => {
                let open = inner.open_of(client, open, args.file)?;
                let is_new = inner.locks.find(owner, args.file).is_none();
                let is_full = inner.locks.len() >= limits::LOCK_STATES_PER_CLIENT_MAX
                    || !client.holdings.has_room(What::LockState);
                if is_new && is_full {
                    return Err(self.over_limit(Count::LocksFull));
                }
                (open, owner)
            }
            Locker::Existing(id) => {
                let state = inner.lock_of(client, id, args.file)?;
                (&state.open, &state.owner)
            }
        };
        let needed = match args.kind {
            LockKind::Read => Bits::READ,
            LockKind::Write => Bits::WRITE,
        };
        match open.access().has(needed) {
            true => Ok((Arc::clone(open), owner.clone())),
            false => Err(Error::OpenMode),
        }
    }

    fn reserve(
        &self,
        client: &Client<P>,
        open: &OpenState<P>,
        locked: Locked<LockOwner>,
        wait: bool,
        now: Millis,
    ) -> Result<u64, RangeConflict> {
        let mut file = open.file().lock();
        let free = file.check(&locked.owner, locked.range, locked.kind, now);
        if matches!(free, Err(RangeConflict::Held(_))) && wait {
            let waits = Wait {
                owner: locked.owner,
                range: locked.range,
                kind: locked.kind,
                open: Some(open.key.1),
            };
            if !file.wait(waits, now, || client.place()) {
                self.counters.add(Count::WaitersFull);
            }
            return free.map(|()| 0);
        }
        free?;
        file.reserve(locked)
    }

    fn lock_refused(&self, conflict: RangeConflict, now: Millis) -> LockRefused {
        match conflict {
            RangeConflict::Held(Locked { range, kind, owner }) => match owner.client() {
                Some(holder) if self.is_expirable(holder, now) => LockRefused::Expirable(holder),
                _ => LockRefused::Denied(Holder { owner, range, kind }),
            },
            RangeConflict::Pending => Error::Delay.into(),
            RangeConflict::Full => self.over_limit(Count::LocksFull).into(),
        }
    }

    /// LOCKT: whether LOCK would be granted. The host is the driver's to ask. [`Error::Grace`] during a grace period.
    pub fn test_lock(
        &self,
        by: &Sequenced<P>,
        owner: &OwnerBytes,
        file: &FileState,
        (range, kind): (Range, LockKind),
        now: Millis,
    ) -> Result<(), LockRefused> {
        self.grace.check_over()?;
        let owner = lock_owner(by.client().id, owner);
        let checked = file.lock().check(&owner, range, kind, now);
        match checked {
            Ok(()) => Ok(()),
            Err(conflict) => Err(self.lock_refused(conflict, now)),
        }
    }

    /// LOCKU. Afterwards the host is told ([`FileState::host_turn`]). [`Error::BadStateId`], [`Error::OldStateId`];
    /// [`Error::Delay`] while a LOCK of the same owner is under way there; [`Error::Resource`] if a range would be
    /// split into too many.
    pub fn unlock(
        &self,
        by: &Sequenced<P>,
        id: StateId,
        file: &FileState,
        range: Range,
        now: Millis,
    ) -> Result<Unlocked, Error> {
        let client = by.client();
        let mut inner = client.inner.write();
        let state = inner.lock_of(client, id, file)?;
        let counter = state.counter;
        let mut guard = file.lock();
        let before = guard.range_count();
        let unlocked = guard.unlock(&state.lock_owner(), range, now);
        let after = guard.range_count();
        drop(guard);
        client.holdings.changed(What::Range, before, after);
        let notify = unlocked.map_err(|conflict| match conflict {
            RangeConflict::Full => self.over_limit(Count::LocksFull),
            other => other.into(),
        })?;
        let stateid = inner.locks.changed(counter).ok_or(Error::BadStateId)?;
        Ok(Unlocked { stateid, notify })
    }

    /// Whether who is denied a lock in a file that this request opens may be told that it will be notified
    /// (OPEN4_RESULT_MAY_NOTIFY_LOCK): there is a way back to the client. From then on SEQUENCE says where that is missing.
    pub fn promise_notices(&self, by: &Sequenced<P>) -> bool {
        let can_be_called = by.session().can_be_called();
        if can_be_called {
            by.client().was_told();
        }
        can_be_called
    }

    /// Whom to tell what, for a notice that something gave rise to. None if its client is gone, or waits through no open.
    #[must_use]
    pub fn notice(&self, notify: &Notify) -> Option<Notice<P>> {
        let LockOwner::V4 { client, owner } = &notify.0.owner else {
            return None;
        };
        let found = self.client(*client)?;
        let inner = found.inner.read();
        Some(Notice {
            sessions: inner.sessions.clone(),
            client: *client,
            owner: owner.clone(),
            open: Arc::clone(inner.opens.get(notify.0.open?)?),
        })
    }
}

/// A lock that is reserved: nobody else gets it, and its owner does not have it yet. Dropped, it is given up.
#[derive(Debug)]
#[must_use]
pub struct Reservation<P> {
    client: Arc<Client<P>>,
    open: Arc<OpenState<P>>,
    owner: OwnerBytes,
    /// None when it is settled.
    number: Option<u64>,
    at: Millis,
}

impl<P> Reservation<P> {
    /// The open through which the lock was asked for.
    #[must_use]
    pub const fn open(&self) -> &Arc<OpenState<P>> {
        &self.open
    }

    /// The host agreed, or need not be asked: the lock is granted. Who may try now, if a stronger lock was exchanged for a
    /// weaker one. [`Error::BadStateId`] if the open was closed meanwhile: then nothing is granted, and the host is to
    /// be told as after an unlock.
    pub fn confirm(mut self, now: Millis) -> Result<(StateIdOf<Lock>, Vec<Notify>), Error> {
        let client = Arc::clone(&self.client);
        let mut inner = client.inner.write();
        if !inner.opens.has(self.open.key.1) {
            drop(inner);
            self.settle(false, now);
            return Err(Error::BadStateId);
        }
        let counter = match inner.locks.find(&self.owner, self.open.file()) {
            Some(state) => state.counter,
            None => {
                let counter = inner.new_counter();
                let (owner, open) = (self.owner.clone(), Arc::clone(&self.open));
                let counted = client.holdings.count(What::LockState);
                inner.locks.insert(counter, owner, open, counted);
                counter
            }
        };
        let stateid = inner.locks.changed(counter).ok_or(Error::BadStateId)?;
        Ok((stateid, self.settle(true, now)))
    }

    /// The host refused: nothing is granted. Who may try now.
    pub fn give_up(mut self, now: Millis) -> Vec<Notify> {
        self.settle(false, now)
    }

    /// The host refused, and the owner waits: it has a place in the queue, if there is one for it. Nobody says when a local
    /// program lets go: the driver looks now and then ([`FileState::wanted_first`]). Who may try now.
    pub fn give_up_for_now(mut self, now: Millis) -> Vec<Notify> {
        let open = Arc::clone(&self.open);
        let wait = self.number.and_then(|number| {
            let file = open.file().lock();
            let locked = file.reserved(number)?;
            Some(Wait {
                owner: locked.owner.clone(),
                range: locked.range,
                kind: locked.kind,
                open: Some(open.key.1),
            })
        });
        let notify = self.settle(false, now);
        if let Some(wait) = wait {
            // Where there is no place, it asks again by itself.
            let mut file = open.file().lock();
            let _has_place = file.wait_for_host(wait, now, || self.client.place());
        }
        notify
    }

    fn settle(&mut self, granted: bool, now: Millis) -> Vec<Notify> {
        match self.number.take() {
            Some(number) => {
                let mut file = self.open.file().lock();
                let before = file.range_count();
                let notify = file.settle(number, granted, now);
                let after = file.range_count();
                drop(file);
                self.client.holdings.changed(What::Range, before, after);
                notify
            }
            None => Vec::new(),
        }
    }
}

impl<P> Drop for Reservation<P> {
    fn drop(&mut self) {
        // Who waits for it asks again by itself: nobody is here to tell.
        let _notify = self.settle(false, self.at);
    }
}

impl<P> Inner<P> {
    /// The locks in this file that a stateid of a request names.
    fn lock_of(
        &self,
        client: &Client<P>,
        id: StateId,
        file: &FileState,
    ) -> Result<&crate::client::LockState<P>, Error> {
        let state = self.locks.check(StateIdOf::of(id, client.id)?)?;
        match state.open.file().number() == file.number() {
            true => Ok(state),
            false => Err(Error::BadStateId),
        }
    }
}
