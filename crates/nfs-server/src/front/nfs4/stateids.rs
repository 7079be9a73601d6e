//! From a stateid to what it lets an operation do, and back (RFC 8881 §8.2, §9); TEST_STATEID and FREE_STATEID
//! (§18.38, §18.48).

use std::sync::Arc;

use nfs_io::Sharer;
use nfs_state::{
    Bits, FileState, IoRight, OpenArgs, OpenState, OwnerBytes, Principal, Read, Refused, Sequenced,
    Share, StateId, StateRef, Why, Write,
};
use nfs_wire::nfs4::ops::{FreeStateidArgs, TestStateidArgs, TestStateidOk};
use nfs_wire::nfs4::{Nfsstat4, Stateid4};

use super::compound::{Compound, Done, put};
use super::place::Place;
use super::session::principal;
use super::status::refused;
use crate::exports::policy::{OpenAs, OpenShare};
use crate::limits;
use crate::state::{Permit, States};
use crate::vfs::{Access, Opened, Target};

type Result<T> = core::result::Result<T, Nfsstat4>;

impl Compound<'_> {
    pub(super) fn states(&self) -> Result<&Arc<States>> {
        let states = self.cx.service.states.as_ref();
        states.ok_or(Nfsstat4::Serverfault)
    }

    /// The request's place in its session, without which no state is touched.
    pub(super) fn sequenced(&self) -> Result<&Sequenced<Opened>> {
        self.session.as_ref().ok_or(Nfsstat4::OpNotInSession)
    }

    /// A stateid of a request, with what "current" stands for put in (RFC 8881 §16.2.3.1.2).
    pub(super) fn named(&self, stateid: &Stateid4) -> Result<StateRef> {
        match parse(stateid)? {
            StateRef::Current => match parse(&self.stateid())? {
                // No operation of this COMPOUND gave one.
                StateRef::Anonymous | StateRef::ReadBypass | StateRef::Current => {
                    Err(Nfsstat4::BadStateid)
                }
                named @ StateRef::Named(_) => Ok(named),
            },
            other => Ok(other),
        }
    }

    /// A stateid that has to name a state.
    pub(super) fn state_id(&self, stateid: &Stateid4) -> Result<StateId> {
        match self.named(stateid)? {
            StateRef::Named(id) => Ok(id),
            StateRef::Anonymous | StateRef::ReadBypass | StateRef::Current => {
                Err(Nfsstat4::BadStateid)
            }
        }
    }

    /// The current object, to be read or written as a stateid lets.
    ///
    /// # Errors
    /// What the stateid, or a share reservation, says against it.
    pub(super) async fn io_target(&self, stateid: &Stateid4, access: Access) -> Result<Target> {
        self.io_target_of((self.current()?, None), stateid, access)
            .await
    }

    /// Whose share of what is kept for the caller's host something of this object takes.
    pub(super) fn host_sharer(&self, target: &Target) -> Sharer {
        self.cx.caller.host_sharer(target.actor.weight())
    }

    /// The target of a call that begins at this place of the file.
    ///
    /// # Errors
    /// As [`Compound::io_target`].
    pub(super) async fn io_target_at(
        &self,
        offset: u64,
        stateid: &Stateid4,
        access: Access,
    ) -> Result<Target> {
        self.io_target_of((self.current()?, Some(offset)), stateid, access)
            .await
    }

    /// The same of another object than the current one.
    ///
    /// # Errors
    /// As [`Compound::io_target`].
    pub(super) async fn io_target_of(
        &self,
        (place, offset): (&Place, Option<u64>),
        stateid: &Stateid4,
        access: Access,
    ) -> Result<Target> {
        let target = place.file(Nfsstat4::Isdir)?;
        let (with, principal) = (self.named(stateid)?, principal(self.cx)?);
        let file = target.object.file_state();
        let is_write = access.contains(Access::WRITE);
        let (is_open, open) = self
            .without_the_expired(|| match is_write {
                true => self.right::<Write>(&principal, with, file),
                false => self.right::<Read>(&principal, with, file),
            })
            .await?;
        let mut target = match is_open {
            true => self.opened(target, access),
            false => target.clone(),
        };
        if let Some(open) = open {
            let asks = target.tree.export.io.now().uses_opens();
            target.actor.open = open_as(&open, asks, offset);
        }
        Ok(target)
    }

    /// The open that a stateid is of, or that its lock was taken through; `None` for a special stateid.
    ///
    /// # Errors
    /// What the stateid says against it.
    pub(super) async fn open_of(&self, stateid: &Stateid4) -> Result<Option<Arc<Open>>> {
        let target = self.current()?.file(Nfsstat4::Isdir)?;
        let (with, principal) = (self.named(stateid)?, principal(self.cx)?);
        let file = target.object.file_state();
        let right = self.without_the_expired(|| self.right::<Read>(&principal, with, file));
        right.await.map(|(_is_open, open)| open)
    }

    /// Whether the caller goes by an open; and the open that it names, which may be somebody else's.
    fn right<A: nfs_state::Access>(
        &self,
        principal: &Principal,
        with: StateRef,
        file: &FileState,
    ) -> core::result::Result<(bool, Option<Arc<Open>>), Stop> {
        let states = self.states()?;
        let right =
            states
                .core
                .io_right::<A>(self.sequenced()?, principal, with, file, states.now());
        match right {
            Ok(IoRight::Open(right)) => Ok((true, Some(Arc::clone(right.open())))),
            Ok(IoRight::PerCall(open)) => Ok((false, open)),
            Err(refused) => Err(refused.into()),
        }
    }

    /// The same object for a caller who has opened it for this: the kernel is not asked again.
    pub(super) fn opened(&self, target: &Target, access: Access) -> Target {
        let mut target = target.clone();
        target.actor.opened_for = access;
        target
    }

    /// Does something; clients whose lease is over and who are in the way of it are expired first.
    pub(super) async fn without_the_expired<T>(
        &self,
        mut attempt: impl FnMut() -> core::result::Result<T, Stop>,
    ) -> Result<T> {
        for _ in 0..=limits::EXPIRIES_PER_OPERATION_MAX {
            let client = match attempt() {
                Ok(done) => return Ok(done),
                Err(Stop::Status(status)) => return Err(status),
                Err(Stop::Expirable(client)) => client,
            };
            let expired = self
                .states()?
                .expire(self.cx.vfs(), client, Why::LeaseOver)
                .await;
            expired.map_err(refused)?;
        }
        Err(Nfsstat4::Delay)
    }
}

/// A file as an open-owner has it open.
type Open = OpenState<Opened>;

/// What is told of an open to the export's I/O rules: what it is open for only where a rule `asks`.
fn open_as(open: &Open, asks: bool, offset: Option<u64>) -> OpenAs {
    let mut told = OpenAs {
        hint: open.pin().hint(offset),
        ..OpenAs::default()
    };
    if asks {
        told.access = share_of(open.access());
        told.deny = share_of(open.deny());
    }
    told
}

fn share_of(bits: Bits) -> OpenShare {
    match (bits.has(Bits::READ), bits.has(Bits::WRITE)) {
        (true, true) => OpenShare::Both,
        (true, false) => OpenShare::Read,
        (false, true) => OpenShare::Write,
        (false, false) => OpenShare::None,
    }
}

/// Why something is not done.
pub(super) enum Stop {
    Status(Nfsstat4),
    /// A client is in the way whose lease is over.
    Expirable(nfs_state::ClientId),
}

impl From<Nfsstat4> for Stop {
    fn from(status: Nfsstat4) -> Self {
        Self::Status(status)
    }
}

impl From<Refused> for Stop {
    fn from(why: Refused) -> Self {
        match why {
            Refused::Status(error) => Self::Status(refused(error)),
            Refused::Expirable(client) => Self::Expirable(client),
        }
    }
}

fn parse(stateid: &Stateid4) -> Result<StateRef> {
    StateRef::parse(StateId {
        seqid: stateid.seqid,
        other: stateid.other,
    })
    .map_err(refused)
}

pub(super) const fn wire(id: StateId) -> Stateid4 {
    Stateid4 {
        seqid: id.seqid,
        other: id.other,
    }
}

/// The permit to make state, for an operation that is about to.
///
/// # Errors
/// NFS4ERR_GRACE and its like; NFS4ERR_DELAY where the client's record cannot be written.
pub(super) async fn permit(compound: &Compound<'_>, reclaims: bool) -> Result<Permit> {
    let by = compound.sequenced()?;
    let permit = compound.states()?.permit(compound.cx.vfs(), by, reclaims);
    permit.await.map_err(refused)
}

/// Opens a file for an owner, whom the kernel has let do what it wants.
pub(super) async fn open(
    compound: &Compound<'_>,
    permit: &Permit,
    target: &Target,
    owner: &[u8],
    share: Share,
) -> Result<Stateid4> {
    let owner = OwnerBytes::new(owner).map_err(refused)?;
    let principal = principal(compound.cx)?;
    let states = compound.states()?;
    let opened = compound.without_the_expired(|| {
        let args = OpenArgs {
            owner: owner.clone(),
            principal: principal.clone(),
            file: Arc::clone(target.object.file_state()),
            pin: target.object.opened(),
            share,
        };
        let by = compound.sequenced()?;
        let open = states.core.open(by, permit.claim(), args, states.now());
        Ok(open?.stateid())
    });
    opened.await.map(|stateid| wire(stateid.to_wire()))
}

/// Whether another open denies this to everybody else.
///
/// # Errors
/// NFS4ERR_SHARE_DENIED.
pub(super) fn must_not_be_denied(target: &Target, access: Bits) -> Done {
    if target.object.file_state().denied() & access == Bits::NONE {
        Ok(())
    } else {
        Err(Nfsstat4::ShareDenied)
    }
}

/// Closes an open. The stateid that is answered is one that is never valid (RFC 8881 §18.2.4).
pub(super) fn close(compound: &Compound<'_>, stateid: &Stateid4) -> Result<Stateid4> {
    let states = compound.states()?;
    let target = compound.current()?.file(Nfsstat4::Isdir)?;
    let id = compound.state_id(stateid)?;
    let (by, file) = (compound.sequenced()?, target.object.file_state());
    let closed = states.core.close(by, id, file, states.now());
    states.release(compound.cx.vfs(), closed.map_err(refused)?.released);
    Ok(Stateid4::INVALID)
}

pub(super) fn downgrade(
    compound: &Compound<'_>,
    stateid: &Stateid4,
    share: Share,
) -> Result<Stateid4> {
    let target = compound.current()?.file(Nfsstat4::Isdir)?;
    let id = compound.state_id(stateid)?;
    let (by, file) = (compound.sequenced()?, target.object.file_state());
    let downgraded = compound.states()?.core.open_downgrade(by, id, file, share);
    let stateid = downgraded.map_err(refused)?;
    Ok(wire(stateid.to_wire()))
}

pub(super) fn test(compound: &Compound<'_>, args: &TestStateidArgs, out: &mut Vec<u8>) -> Done {
    let ids = args.stateids.iter().map(|stateid| StateId {
        seqid: stateid.seqid,
        other: stateid.other,
    });
    let ids: Vec<StateId> = ids.collect();
    let by = compound.sequenced()?;
    let tested = compound.states()?.core.test_stateids(by, &ids);
    let status_codes = tested
        .into_iter()
        .map(|tested| tested.err().map_or(Nfsstat4::Ok, refused))
        .collect();
    put(out, &TestStateidOk { status_codes });
    Ok(())
}

pub(super) fn free(compound: &Compound<'_>, args: &FreeStateidArgs) -> Done {
    let id = compound.state_id(&args.stateid)?;
    let by = compound.sequenced()?;
    let freed = compound.states()?.core.free_stateid(by, id);
    freed.map_err(refused)
}
