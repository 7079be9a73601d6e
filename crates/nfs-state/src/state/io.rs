//! READ, WRITE and SETATTR of a size: with what right.

use std::marker::PhantomData;
use std::sync::Arc;

use super::{Refused, State};
use crate::client::{OpenState, Sequenced};
use crate::error::Error;
use crate::file::FileState;
use crate::id::{Lock, Open, Principal, StateId, StateIdOf, StateKind, StateRef};
use crate::share::Bits;
use crate::time::Millis;

/// What is done with a file, as a type.
pub trait Access {
    /// The same, as the bits of a share.
    const BITS: Bits;
}

/// Reading the data of a file, as a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {}
/// Writing, and changing the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {}

impl Access for Read {
    const BITS: Bits = Bits::READ;
}
impl Access for Write {
    const BITS: Bits = Bits::WRITE;
}

/// That a file is open for this to who asks: the kernel was asked when it was opened, and is not asked again. Made only
/// from a stateid that was checked, of the same client and principal as the request.
#[derive(Debug)]
pub struct OpenRight<A, P> {
    open: Arc<OpenState<P>>,
    access: PhantomData<fn() -> A>,
}

impl<A, P> OpenRight<A, P> {
    /// The open that gives the right.
    #[must_use]
    pub const fn open(&self) -> &Arc<OpenState<P>> {
        &self.open
    }
}

/// With what right a file is read or written.
#[derive(Debug)]
pub enum IoRight<A, P> {
    /// The right of an open that covers it.
    Open(OpenRight<A, P>),
    /// That of who asks, now: the kernel decides. The open, if the request named one: that of somebody else, or one
    /// for writing through which a page cache reads.
    PerCall(Option<Arc<OpenState<P>>>),
}

impl<P> State<P> {
    /// Checks the stateid of a READ (`A` is [`Read`]) or of a WRITE or SETATTR ([`Write`]).
    ///
    /// [`Error::BadStateId`], [`Error::OldStateId`]; [`Error::OpenMode`] for writing through an open for reading; with a
    /// special stateid also [`Error::Locked`] for a share reservation, and [`Error::Grace`] (RFC 8881 §8.4.2). What the
    /// current stateid stands for, the caller has put in.
    pub fn io_right<A: Access>(
        &self,
        by: &Sequenced<P>,
        principal: &Principal,
        with: StateRef,
        file: &FileState,
        now: Millis,
    ) -> Result<IoRight<A, P>, Refused> {
        match with {
            StateRef::Named(id) => Ok(named(by, principal, id, file)?),
            StateRef::ReadBypass if A::BITS == Bits::READ => {
                self.grace.check_over()?;
                Ok(IoRight::PerCall(None))
            }
            // Of anything but a READ, passing over reservations is no part (RFC 8881 §8.2.3).
            StateRef::Anonymous | StateRef::ReadBypass => {
                self.grace.check_over()?;
                self.check_denied(A::BITS, file, now)?;
                Ok(IoRight::PerCall(None))
            }
            StateRef::Current => Err(Error::BadStateId.into()),
        }
    }

    fn check_denied(&self, access: Bits, file: &FileState, now: Millis) -> Result<(), Refused> {
        if file.denied() & access == Bits::NONE {
            return Ok(());
        }
        let denier = file.lock().shares().denier(access);
        match denier {
            None => Ok(()),
            Some((holder, _)) if self.is_expirable(holder, now) => Err(Refused::Expirable(holder)),
            Some(_) => Err(Error::Locked.into()),
        }
    }
}

fn named<A: Access, P>(
    by: &Sequenced<P>,
    principal: &Principal,
    id: StateId,
    file: &FileState,
) -> Result<IoRight<A, P>, Error> {
    let client = by.client();
    let inner = client.inner.read();
    let open = match id.kind_for(client.id) {
        Some((StateKind::Open, _)) => inner.opens.check(StateIdOf::<Open>::of(id, client.id)?)?,
        Some((StateKind::Lock, _)) => {
            &inner
                .locks
                .check(StateIdOf::<Lock>::of(id, client.id)?)?
                .open
        }
        Some((StateKind::Deleg, _)) | None => return Err(Error::BadStateId),
    };
    if open.file().number() != file.number() {
        return Err(Error::BadStateId);
    }
    let open = Arc::clone(open);
    if open.access().has(A::BITS) {
        return Ok(match open.is_of(principal) {
            true => IoRight::Open(OpenRight {
                open,
                access: PhantomData,
            }),
            false => IoRight::PerCall(Some(open)),
        });
    }
    // A client's page cache reads around what it writes (RFC 8881 §9.1.2 leaves it to the server).
    match A::BITS == Bits::READ {
        true => Ok(IoRight::PerCall(Some(open))),
        false => Err(Error::OpenMode),
    }
}
