//! Names of directory entries.

use super::{Error, Result};
use crate::limits;

/// A name that a directory entry may have: for CREATE, REMOVE, RENAME and their like.
///
/// # Errors
/// [`Error::NameTooLong`] beyond 255 bytes; [`Error::BadName`] for the empty name, `.`, `..` and names with a
/// slash or a zero byte, none of which the kernel must ever see as a path.
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > limits::NAME_BYTES_MAX {
        return Err(Error::NameTooLong);
    }
    if name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') || name.contains(&0)
    {
        return Err(Error::BadName);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_entries_pass() {
        for good in [&b"a"[..], b"...", b"\xff\xfe", b" ", &[b'n'; 255]] {
            assert_eq!(check_name(good), Ok(()));
        }
        for bad in [&b""[..], b".", b"..", b"a/b", b"/", b"a\0b"] {
            assert_eq!(check_name(bad), Err(Error::BadName));
        }
        assert_eq!(check_name(&[b'n'; 256]), Err(Error::NameTooLong));
    }
}
