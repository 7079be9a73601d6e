//! Names of directory entries, and the steps that a look-up takes by them.

use super::{Error, Result};
use crate::limits;

/// A name that a directory entry may have. The kernel never sees another as the name of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryName<'n>(&'n [u8]);

impl<'n> EntryName<'n> {
    /// # Errors
    /// [`Error::NameTooLong`] beyond 255 bytes; [`Error::BadName`] for the empty name, `.`, `..` and names with
    /// a slash or a zero byte.
    pub(crate) fn new(name: &'n [u8]) -> Result<Self> {
        if name.len() > limits::NAME_BYTES_MAX {
            return Err(Error::NameTooLong);
        }
        let special = name.is_empty() || name == b"." || name == b"..";
        if special || name.contains(&b'/') || name.contains(&0) {
            return Err(Error::BadName);
        }
        Ok(Self(name))
    }

    pub(crate) const fn bytes(self) -> &'n [u8] {
        self.0
    }
}

/// Where a look-up leads from a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step<'n> {
    /// The step stays at the directory itself.
    Itself,
    /// The step leads to the directory above; from the root of an export to the root.
    Parent,
    /// The step leads to the entry of this name.
    Entry(EntryName<'n>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_entries_pass() {
        for good in [&b"a"[..], b"...", b"\xff\xfe", b" ", &[b'n'; 255]] {
            assert_eq!(EntryName::new(good).map(EntryName::bytes), Ok(good));
        }
        for bad in [&b""[..], b".", b"..", b"a/b", b"/", b"a\0b"] {
            assert_eq!(EntryName::new(bad), Err(Error::BadName));
        }
        assert_eq!(EntryName::new(&[b'n'; 256]), Err(Error::NameTooLong));
    }
}
