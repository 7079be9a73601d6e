//! Share reservations: what each open of a file wants to do with it, and what it denies to others.

use std::collections::BTreeMap;
use std::ops::{BitAnd, BitOr};

use crate::error::Error;
use crate::id::ClientId;

/// Reading, writing, both or neither: the two bits of `OPEN4_SHARE_ACCESS_*` and `OPEN4_SHARE_DENY_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bits(u8);

impl Bits {
    /// Neither reading nor writing.
    pub const NONE: Self = Self(0);
    /// Reading, and nothing else.
    pub const READ: Self = Self(1);
    /// Writing, and nothing else.
    pub const WRITE: Self = Self(2);
    /// Both, reading and writing.
    pub const BOTH: Self = Self(3);

    /// From the wire, after what a client "wants" of delegations was taken off. [`Error::Inval`] for more than the
    /// two bits.
    pub fn from_wire(wire: u32) -> Result<Self, Error> {
        match wire {
            0 => Ok(Self::NONE),
            1 => Ok(Self::READ),
            2 => Ok(Self::WRITE),
            3 => Ok(Self::BOTH),
            _ => Err(Error::Inval),
        }
    }

    /// As it is on the wire.
    #[must_use]
    pub const fn to_wire(self) -> u32 {
        self.0 as u32
    }

    /// Whether all of `other` is in it.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Bits {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Bits {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// What an open wants and denies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share {
    /// What is done through it.
    pub access: Bits,
    /// What others must not do.
    pub deny: Bits,
}

impl Share {
    /// [`Error::Inval`] without any access (RFC 8881 §18.16.3).
    pub fn new(access: Bits, deny: Bits) -> Result<Self, Error> {
        match access {
            Bits::NONE => Err(Error::Inval),
            _ => Ok(Self { access, deny }),
        }
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self {
            access: self.access | other.access,
            deny: self.deny | other.deny,
        }
    }

    fn within(self, other: Self) -> bool {
        other.access.has(self.access) && other.deny.has(self.deny)
    }

    const fn conflicts(self, other: Self) -> bool {
        self.access.meets(other.deny) || self.deny.meets(other.access)
    }

    const fn bit(self) -> u16 {
        1 << (self.access.0 << 2 | self.deny.0)
    }

    fn all() -> impl Iterator<Item = Self> {
        (1..=3).flat_map(|access| {
            (0..=3).map(move |deny| Self {
                access: Bits(access),
                deny: Bits(deny),
            })
        })
    }
}

/// Which combinations an open-owner opened one file with, and what they are together. OPEN_DOWNGRADE may go back
/// to the union of some of them and to nothing else (RFC 8881 §18.18.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Combinations {
    pub(crate) union: Share,
    seen: u16,
}

impl Combinations {
    pub(crate) const fn new(share: Share) -> Self {
        Self {
            union: share,
            seen: share.bit(),
        }
    }

    pub(crate) fn with(self, share: Share) -> Self {
        Self {
            union: self.union.union(share),
            seen: self.seen | share.bit(),
        }
    }

    /// [`Error::Inval`] if `to` is no union of combinations that were asked for.
    pub(crate) fn downgraded(self, to: Share) -> Result<Self, Error> {
        let kept = || Share::all().filter(|s| self.seen & s.bit() != 0 && s.within(to));
        let union = kept().reduce(Share::union);
        if union != Some(to) {
            return Err(Error::Inval);
        }
        Ok(Self {
            union: to,
            seen: kept().fold(0, |seen, share| seen | share.bit()),
        })
    }
}

/// An open, as the table of its file names it.
pub(crate) type OpenKey = (ClientId, u32);

/// The opens of one file.
#[derive(Debug, Default)]
pub(crate) struct ShareTable {
    opens: BTreeMap<OpenKey, Share>,
    denying: usize,
}

impl ShareTable {
    /// The open of somebody else that stands against `share`. The same client's other owners count as others.
    /// As long as nobody denies anything, which is the rule, nobody is looked through.
    pub(crate) fn conflict(&self, own: Option<OpenKey>, share: Share) -> Option<OpenKey> {
        if self.denying == 0 && share.deny == Bits::NONE {
            return None;
        }
        let mut others = self.opens.iter().filter(|(key, _)| Some(**key) != own);
        others
            .find(|(_, other)| share.conflicts(**other))
            .map(|(key, _)| *key)
    }

    pub(crate) fn set(&mut self, key: OpenKey, share: Share) {
        self.remove(key);
        self.denying += usize::from(share.deny != Bits::NONE);
        self.opens.insert(key, share);
    }

    pub(crate) fn remove(&mut self, key: OpenKey) {
        if let Some(gone) = self.opens.remove(&key) {
            self.denying -= usize::from(gone.deny != Bits::NONE);
        }
    }

    /// What all opens together deny.
    pub(crate) fn denied(&self) -> Bits {
        match self.denying {
            0 => Bits::NONE,
            _ => self
                .opens
                .values()
                .fold(Bits::NONE, |all, share| all | share.deny),
        }
    }

    /// Who denies `access`, if anybody does.
    pub(crate) fn denier(&self, access: Bits) -> Option<OpenKey> {
        let mut denying = self
            .opens
            .iter()
            .filter(|(_, share)| share.deny.meets(access));
        denying.next().map(|(key, _)| *key)
    }

    pub(crate) fn len(&self) -> usize {
        self.opens.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Epoch;

    const fn share(access: u8, deny: u8) -> Share {
        Share {
            access: Bits(access),
            deny: Bits(deny),
        }
    }

    fn key(index: u32) -> OpenKey {
        let epoch = Epoch(1);
        (ClientId { epoch, index }, 1)
    }

    #[test]
    fn all_pairs_of_shares_conflict_as_the_bits_say() {
        for held in Share::all() {
            for asked in Share::all() {
                let mut table = ShareTable::default();
                table.set(key(1), held);
                let free = held.access.0 & asked.deny.0 == 0 && held.deny.0 & asked.access.0 == 0;
                assert_eq!(
                    table.conflict(None, asked).is_none(),
                    free,
                    "{asked:?} beside {held:?}"
                );
                assert_eq!(table.conflict(Some(key(1)), asked), None);
                table.remove(key(1));
                assert_eq!(table.conflict(None, asked), None);
                assert_eq!(table.denied(), Bits::NONE);
            }
        }
    }

    #[test]
    fn a_downgrade_leads_to_what_was_opened_and_nowhere_else() {
        let both = Combinations::new(share(3, 0));
        assert_eq!(both.downgraded(share(1, 0)), Err(Error::Inval));
        let three = Combinations::new(share(1, 0))
            .with(share(2, 1))
            .with(share(1, 2));
        assert_eq!(three.union, share(3, 3));
        for (to, fits) in [
            (share(1, 0), true),
            (share(2, 1), true),
            (share(3, 1), true),
            (share(1, 2), true),
            (share(3, 3), true),
            (share(3, 0), false),
            (share(1, 3), false),
            (share(2, 0), false),
        ] {
            assert_eq!(three.downgraded(to).is_ok(), fits, "to {to:?}");
        }
        let one = three.downgraded(share(3, 1)).expect("a union");
        assert_eq!(one.downgraded(share(1, 2)), Err(Error::Inval));
        assert!(one.downgraded(share(1, 0)).is_ok());
    }
}
