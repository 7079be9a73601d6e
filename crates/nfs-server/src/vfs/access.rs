//! What somebody wants to do with an object, as a small set.

use std::ops::{BitOr, BitOrAssign, Sub};

/// A set of read, write and execute (for a directory: list, change, search).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access(u8);

impl Access {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const READ: Self = Self(4);
    pub(crate) const WRITE: Self = Self(2);
    pub(crate) const EXECUTE: Self = Self(1);
    pub(crate) const WRITE_EXECUTE: Self = Self(3);

    /// The rights in this set, each as a set of its own.
    pub(crate) fn each(self) -> impl Iterator<Item = Self> {
        [Self::READ, Self::WRITE, Self::EXECUTE]
            .into_iter()
            .filter(move |one| self.contains(*one))
    }

    pub(crate) fn contains(self, all: Self) -> bool {
        self.0 & all.0 == all.0
    }

    pub(super) fn kernel(self) -> nfs_io::fs::Access {
        nfs_io::fs::Access {
            read: self.contains(Self::READ),
            write: self.contains(Self::WRITE),
            execute: self.contains(Self::EXECUTE),
        }
    }
}

impl BitOr for Access {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Access {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl Sub for Access {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}
