//! A gate counts who is inside and can be closed: a client that requests are in progress for, or the time of
//! grace that reclaims are made in. Once it is closed nobody comes in, and it only ever closes when nobody is
//! inside. This is all that keeps an expiry from pulling a client out from under a request.

use crate::sync::atomic::{AtomicU32, Ordering};

/// Nobody comes in any more; who is inside stays until leaving.
const CLOSING: u32 = 1 << 31;
/// Closed, and nobody is inside.
const CLOSED: u32 = 1 << 30;
/// Who is inside: far above the slots of all sessions of a client.
const INSIDE: u32 = CLOSED - 1;

#[derive(Debug, Default)]
pub(crate) struct Gate(AtomicU32);

/// Why somebody does not come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shut {
    /// It may open again.
    ForNow,
    /// It stays closed.
    ForGood,
}

impl Gate {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// A gate that nobody ever comes through.
    pub(crate) const fn closed() -> Self {
        Self(AtomicU32::new(CLOSED))
    }

    /// Comes in, unless the gate is closing or closed. Who came in leaves again.
    pub(crate) fn enter(&self) -> Result<(), Shut> {
        let step = |word: u32| {
            let free = word & (CLOSING | CLOSED) == 0 && word & INSIDE < INSIDE;
            free.then_some(word.wrapping_add(1))
        };
        match self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, step)
        {
            Ok(_) => Ok(()),
            Err(word) if word & CLOSED != 0 => Err(Shut::ForGood),
            Err(_) => Err(Shut::ForNow),
        }
    }

    /// Leaves. Whether this was the last one inside of a gate that is closing: it is closed now.
    pub(crate) fn leave(&self) -> bool {
        let step = |word: u32| match word.checked_sub(1) {
            Some(CLOSING) => Some(CLOSED),
            less => less,
        };
        let before = self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, step);
        debug_assert!(before.is_ok_and(|word| word & INSIDE != 0), "left twice");
        before == Ok(CLOSING | 1)
    }

    /// Closes for now if nobody is inside and it is open. Whoever gets `true` opens or seals it.
    pub(crate) fn close_if_empty(&self) -> bool {
        self.0
            .compare_exchange(0, CLOSING, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Opens what [`Gate::close_if_empty`] closed.
    pub(crate) fn reopen(&self) {
        let before = self.0.swap(0, Ordering::AcqRel);
        debug_assert_eq!(before, CLOSING, "opened by who had not closed it");
    }

    /// Closes for good what [`Gate::close_if_empty`] closed.
    pub(crate) fn seal(&self) {
        let before = self.0.swap(CLOSED, Ordering::AcqRel);
        debug_assert_eq!(before, CLOSING, "sealed by who had not closed it");
    }

    /// Lets nobody in any more; closed at once, or when the last one inside leaves. Whether it is closed now.
    pub(crate) fn close_behind(&self) -> bool {
        let step = |word: u32| match word {
            0 => Some(CLOSED),
            word if word & CLOSED != 0 => None,
            word => Some(word | CLOSING),
        };
        let before = self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, step);
        matches!(before, Ok(0) | Err(_))
    }

    pub(crate) fn is_open(&self) -> bool {
        self.0.load(Ordering::Acquire) & (CLOSING | CLOSED) == 0
    }

    pub(crate) fn inside(&self) -> u32 {
        self.0.load(Ordering::Acquire) & INSIDE
    }
}
