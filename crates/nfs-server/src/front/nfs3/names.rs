//! Which names RFC 1813 lets each procedure have, and what it answers to the others.

use crate::vfs::{EntryName, Error, Step};

type Result<T> = core::result::Result<T, Error>;

/// The name of what CREATE, MKDIR, SYMLINK, MKNOD or LINK makes. `.` and `..` exist already.
pub(super) fn new_name(name: &[u8]) -> Result<EntryName<'_>> {
    match name {
        b"." | b".." => Err(Error::Exists),
        _ => EntryName::new(name),
    }
}

/// The name of what REMOVE or, with `directories`, RMDIR removes. RFC 1813 §3.3.13 gives RMDIR of `.` and `..`
/// errors of their own.
pub(super) fn doomed_name(name: &[u8], directories: bool) -> Result<EntryName<'_>> {
    match (name, directories) {
        (b".", true) => Err(Error::Invalid),
        (b"..", true) => Err(Error::Exists),
        _ => EntryName::new(name),
    }
}

/// Either name of a RENAME; `.` and `..` are NFS3ERR_INVAL (RFC 1813 §3.3.14).
pub(super) fn renamed_name(name: &[u8]) -> Result<EntryName<'_>> {
    match name {
        b"." | b".." => Err(Error::Invalid),
        _ => EntryName::new(name),
    }
}

/// Where LOOKUP leads: `.` is the directory itself, `..` the one above (RFC 1813 §3.3.3).
pub(super) fn step(name: &[u8]) -> Result<Step<'_>> {
    match name {
        b"." => Ok(Step::Itself),
        b".." => Ok(Step::Parent),
        _ => EntryName::new(name).map(Step::Entry),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_and_dot_dot_are_answered_as_each_procedure_has_it() {
        for name in [&b"."[..], b".."] {
            assert_eq!(new_name(name), Err(Error::Exists));
            assert_eq!(renamed_name(name), Err(Error::Invalid));
            assert_eq!(doomed_name(name, false), Err(Error::BadName));
        }
        assert_eq!(doomed_name(b".", true), Err(Error::Invalid));
        assert_eq!(doomed_name(b"..", true), Err(Error::Exists));
        assert_eq!(step(b"."), Ok(Step::Itself));
        assert_eq!(step(b".."), Ok(Step::Parent));
        assert_eq!(step(b"a/b"), Err(Error::BadName));
    }
}
