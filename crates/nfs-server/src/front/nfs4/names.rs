//! Which names NFSv4 lets an entry have, and what it answers to the others (RFC 8881 §14.3, §15.1.7).

use nfs_wire::nfs4::Nfsstat4;

use super::status::status;
use crate::vfs::EntryName;

/// The name of an entry. `.` and `..` are none: LOOKUPP leads upwards, and nothing leads to where one is.
/// That names are UTF-8 is not asked for, as Linux asks for nothing.
pub(super) fn entry_name(name: &[u8]) -> Result<EntryName<'_>, Nfsstat4> {
    if name.is_empty() {
        return Err(Nfsstat4::Inval);
    }
    if name == b"." || name == b".." {
        return Err(Nfsstat4::Badname);
    }
    if name.contains(&b'/') || name.contains(&0) {
        return Err(Nfsstat4::Badchar);
    }
    EntryName::new(name).map_err(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_bad_name_has_its_word() {
        assert!(entry_name(b"...").is_ok() && entry_name(b"\xff").is_ok());
        assert!(entry_name(&[b'n'; 255]).is_ok());
        for (name, expected) in [
            (&b""[..], Nfsstat4::Inval),
            (b".", Nfsstat4::Badname),
            (b"..", Nfsstat4::Badname),
            (b"a/b", Nfsstat4::Badchar),
            (b"a\0b", Nfsstat4::Badchar),
            (&[b'n'; 256], Nfsstat4::Nametoolong),
        ] {
            assert_eq!(entry_name(name), Err(expected), "{name:?}");
        }
    }
}
