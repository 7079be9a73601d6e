//! Where a name led the last time: lets LOOKUP of a name that is looked up again do without opening
//! what it finds.
//!
//! A hint is only a guess at the inode. `statx` by name says whether it is still right, and the file cache
//! has the object, pinned, so that its inode number cannot mean another file meanwhile. The name was
//! in the kernel's memory when the hint was made. An object that was opened by it keeps it there; one
//! that was opened by handle, or renamed since, may rarely make the look-up wait for a disk.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use parking_lot::Mutex;

use crate::limits;
use crate::vfs::file_cache::InodeId;

/// A table of guesses; a new one displaces what is in its place.
pub(crate) struct Hints {
    places: Box<[Mutex<Hint>]>,
    /// Quick, and no more than that: whoever makes names meet in one place spoils guesses at these, nothing else.
    hasher: RandomState,
}

#[derive(Clone, Copy, Default)]
struct Hint {
    key: u64,
    inode: Option<InodeId>,
}

impl Hints {
    pub(crate) fn new() -> Self {
        Self {
            places: (0..limits::LOOKUP_HINTS_MAX)
                .map(|_| Mutex::default())
                .collect(),
            hasher: RandomState::default(),
        }
    }

    /// The inode that the name led to the last time, if a hint of it is kept: a guess, to be checked.
    pub(super) fn recall(&self, directory: InodeId, name: &[u8]) -> Option<InodeId> {
        let key = self.key(directory, name);
        let hint = *self.place(key)?.lock();
        hint.inode.filter(|_| hint.key == key)
    }

    /// The name led here, found without waiting.
    pub(super) fn remember(&self, directory: InodeId, name: &[u8], inode: InodeId) {
        let key = self.key(directory, name);
        if let Some(place) = self.place(key) {
            *place.lock() = Hint {
                key,
                inode: Some(inode),
            };
        }
    }

    fn key(&self, directory: InodeId, name: &[u8]) -> u64 {
        self.hasher.hash_one((directory, name))
    }

    fn place(&self, key: u64) -> Option<&Mutex<Hint>> {
        let place = key % limits::LOOKUP_HINTS_MAX as u64;
        self.places.get(usize::try_from(place).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_for_one_name_in_one_directory() {
        let hints = Hints::new();
        let inode = |ino| InodeId {
            fsid: 1,
            dev: 2,
            ino,
        };
        hints.remember(inode(1), b"name", inode(7));
        assert_eq!(hints.recall(inode(1), b"name"), Some(inode(7)));
        assert_eq!(hints.recall(inode(2), b"name"), None);
        assert_eq!(hints.recall(inode(1), b"other"), None);
    }
}
