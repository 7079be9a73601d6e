//! POSIX ACLs: what they say, and the kernel's extended attributes that hold them (acl(5), `linux/posix_acl_xattr.h`).
//! The calls go by way of `/proc`, as those of [`super::xattr`] do, and open nothing.

use std::os::fd::BorrowedFd;

use rustix::io::retry_on_intr;

use super::xattr::{XattrFlags, path_of};
use crate::limits::POSIX_ACL_ENTRIES_MAX;
use crate::{Errno, Result};

/// What an entry of an ACL lets do: any of reading, writing and executing, in the bits that a mode has for others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Perms(u8);

impl Perms {
    /// Nothing at all may be done.
    pub const NONE: Self = Self(0);
    /// Executing a file, or passing through a directory.
    pub const EXECUTE: Self = Self(1);
    /// Writing a file, or changing a directory's entries.
    pub const WRITE: Self = Self(2);
    /// Reading a file, or listing a directory.
    pub const READ: Self = Self(4);
    /// Reading, writing and executing.
    pub const ALL: Self = Self(7);

    /// The lowest three bits of a mode; all others are passed over.
    #[must_use]
    pub const fn of_bits(bits: u32) -> Self {
        Self((bits & 7) as u8)
    }

    /// The lowest three bits of a mode.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0 as u32
    }

    /// Everything that either of them lets do.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What both of them let do.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What this one does not let do.
    #[must_use]
    pub const fn not(self) -> Self {
        Self(!self.0 & 7)
    }

    /// Whether it lets do all that the other one does.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// An ACL, by the kernel's rules: users and groups are in ascending order, each there once, and with any of them
/// there is a mask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PosixAcl {
    /// What the owner may do, whom nothing else is about.
    pub owner: Perms,
    /// What users may do by their number, within the mask.
    pub users: Vec<(u32, Perms)>,
    /// What the owning group may do, within the mask.
    pub group: Perms,
    /// What groups may do by their number, within the mask.
    pub groups: Vec<(u32, Perms)>,
    /// The most that named users and all groups may do.
    pub mask: Option<Perms>,
    /// What everybody may do whom no other entry is about.
    pub other: Perms,
}

impl PosixAcl {
    /// The ACL of an object that has none beside its mode.
    #[must_use]
    pub fn of_mode(mode: u32) -> Self {
        Self {
            owner: Perms::of_bits(mode >> 6),
            group: Perms::of_bits(mode >> 3),
            other: Perms::of_bits(mode),
            ..Self::default()
        }
    }

    /// The permission bits of the mode of an object that has this ACL: for the group those of the mask, if there is one.
    #[must_use]
    pub const fn mode(&self) -> u32 {
        let group = match self.mask {
            Some(mask) => mask,
            None => self.group,
        };
        self.owner.bits() << 6 | group.bits() << 3 | self.other.bits()
    }

    /// Reads an ACL as the kernel gives it.
    ///
    /// # Errors
    /// `EINVAL` for bytes that the kernel would not take either, `E2BIG` for more than [`POSIX_ACL_ENTRIES_MAX`]
    /// entries.
    pub fn from_xattr(bytes: &[u8]) -> Result<Self> {
        let (version, rest) = bytes.split_first_chunk::<4>().ok_or(Errno::INVAL)?;
        let (entries, []) = rest.as_chunks::<ENTRY_LEN>() else {
            return Err(Errno::INVAL);
        };
        if u32::from_le_bytes(*version) != VERSION {
            return Err(Errno::INVAL);
        }
        if entries.len() > POSIX_ACL_ENTRIES_MAX {
            return Err(Errno::TOOBIG);
        }
        let mut acl = Self::default();
        let mut base = 0;
        for [tag0, tag1, perm0, perm1, id @ ..] in entries {
            let tag = u16::from_le_bytes([*tag0, *tag1]);
            let perms = Perms::of_bits(u16::from_le_bytes([*perm0, *perm1]).into());
            let id = u32::from_le_bytes(*id);
            match tag {
                USER_OBJ => acl.owner = perms,
                USER => acl.users.push((id, perms)),
                GROUP_OBJ => acl.group = perms,
                GROUP => acl.groups.push((id, perms)),
                MASK => acl.mask = Some(perms),
                OTHER => acl.other = perms,
                _ => return Err(Errno::INVAL),
            }
            base |= tag;
        }
        let names_somebody = !acl.users.is_empty() || !acl.groups.is_empty();
        if base & BASE != BASE || names_somebody && acl.mask.is_none() {
            return Err(Errno::INVAL);
        }
        Ok(acl)
    }

    /// The ACL as the kernel takes it.
    #[must_use]
    pub fn to_xattr(&self) -> Vec<u8> {
        let of_nobody = |tag, perms| (tag, perms, UNDEFINED);
        let users = self.users.iter().map(|(id, perms)| (USER, *perms, *id));
        let groups = self.groups.iter().map(|(id, perms)| (GROUP, *perms, *id));
        let entries = core::iter::once(of_nobody(USER_OBJ, self.owner))
            .chain(users)
            .chain([of_nobody(GROUP_OBJ, self.group)])
            .chain(groups)
            .chain(self.mask.map(|mask| of_nobody(MASK, mask)))
            .chain([of_nobody(OTHER, self.other)]);
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for (tag, perms, id) in entries {
            bytes.extend_from_slice(&tag.to_le_bytes());
            bytes.extend_from_slice(&[perms.0, 0]);
            bytes.extend_from_slice(&id.to_le_bytes());
        }
        bytes
    }
}

/// Which ACL of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AclKind {
    /// Who may do what with the object; what it says is also in the mode.
    Access,
    /// What is made in the directory begins with it.
    Default,
}

impl AclKind {
    const fn xattr(self) -> &'static core::ffi::CStr {
        match self {
            Self::Access => c"system.posix_acl_access",
            Self::Default => c"system.posix_acl_default",
        }
    }
}

/// An object's ACL, `None` where it has none: then its mode says all, or what is made in the directory begins with the
/// mode that its maker gives it. Nobody's permission is needed for it.
///
/// # Errors
/// `EOPNOTSUPP` where the file system has none, `E2BIG` for more than [`POSIX_ACL_ENTRIES_MAX`] entries.
pub fn posix_acl(fd: BorrowedFd<'_>, kind: AclKind) -> Result<Option<PosixAcl>> {
    let path = path_of(fd);
    let mut value = vec![0; HEADER_LEN + ENTRY_LEN * POSIX_ACL_ENTRIES_MAX];
    match retry_on_intr(|| rustix::fs::getxattr(&*path, kind.xattr(), &mut value[..])) {
        Ok(len) => {
            value.truncate(len);
            PosixAcl::from_xattr(&value).map(Some)
        }
        Err(Errno::NODATA) => Ok(None),
        Err(Errno::RANGE) => Err(Errno::TOOBIG),
        Err(errno) => Err(errno),
    }
}

/// Gives an object an ACL, or takes its default ACL away. Acts as the calling thread's identity, which has to own the
/// object or be privileged. The kernel changes the mode with the access ACL.
///
/// # Errors
/// `EPERM` for whom the object does not belong to; `EOPNOTSUPP` where the file system has no ACLs, and for a symbolic
/// link; `EACCES` for a default ACL of what is no directory; `EINVAL` for one that the kernel does not take; `ENOSPC` and
/// `EDQUOT` where it has too many entries for the file system; `EROFS`.
pub fn set_posix_acl(fd: BorrowedFd<'_>, kind: AclKind, acl: Option<&PosixAcl>) -> Result<()> {
    let path = path_of(fd);
    let Some(acl) = acl else {
        let removed = retry_on_intr(|| rustix::fs::removexattr(&*path, kind.xattr()));
        return match removed {
            Err(Errno::NODATA) => Ok(()),
            removed => removed,
        };
    };
    let value = acl.to_xattr();
    let flags = XattrFlags::empty();
    retry_on_intr(|| rustix::fs::setxattr(&*path, kind.xattr(), &value, flags))
}

/// Whether the file system of an object has POSIX ACLs.
#[must_use]
pub fn has_posix_acls(fd: BorrowedFd<'_>) -> bool {
    let name = AclKind::Access.xattr();
    let asked = retry_on_intr(|| rustix::fs::getxattr(&*path_of(fd), name, &mut [0; 0]));
    asked != Err(Errno::OPNOTSUPP) && asked != Err(Errno::NOSYS)
}

/// `POSIX_ACL_XATTR_VERSION`.
const VERSION: u32 = 2;
const HEADER_LEN: usize = 4;
const ENTRY_LEN: usize = 8;
/// Whom an entry is about (`linux/posix_acl.h`).
const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;
/// The entries that every ACL has.
const BASE: u16 = USER_OBJ | GROUP_OBJ | OTHER;
/// The id of entries that are about nobody by number.
const UNDEFINED: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use proptest::prelude::*;

    use super::super::{statx, symlinkat};
    use super::*;
    use crate::identity::{can_switch, run_as};
    use crate::testing::{Scratch, skip, stranger};

    fn with_names() -> PosixAcl {
        PosixAcl {
            users: vec![(1000, Perms::READ), (4711, Perms::ALL)],
            groups: vec![(7, Perms::WRITE.or(Perms::READ))],
            mask: Some(Perms::READ.or(Perms::EXECUTE)),
            ..PosixAcl::of_mode(0o640)
        }
    }

    #[test]
    fn an_acl_is_kept_by_the_kernel_and_says_the_mode() {
        let scratch = Scratch::new();
        drop(scratch.file("f", b""));
        std::fs::create_dir(scratch.path.path().join("d")).unwrap();
        let object = scratch.object("f");
        let fd = object.as_fd();
        assert!(has_posix_acls(fd), "the test needs a directory with them");
        assert_eq!(posix_acl(fd, AclKind::Access), Ok(None));
        set_posix_acl(fd, AclKind::Access, Some(&with_names())).unwrap();
        assert_eq!(posix_acl(fd, AclKind::Access), Ok(Some(with_names())));
        assert_eq!(with_names().mode(), 0o650);
        assert_eq!(statx(fd).unwrap().permissions(), 0o650);
        let plain = PosixAcl::of_mode(0o421);
        set_posix_acl(fd, AclKind::Access, Some(&plain)).unwrap();
        assert_eq!(statx(fd).unwrap().permissions(), 0o421);
        assert_eq!(posix_acl(fd, AclKind::Access), Ok(None), "the mode says it");
        let no = set_posix_acl(fd, AclKind::Default, Some(&plain));
        assert_eq!(no, Err(Errno::ACCESS));

        let directory = scratch.object("d");
        let fd = directory.as_fd();
        set_posix_acl(fd, AclKind::Default, None).unwrap();
        set_posix_acl(fd, AclKind::Default, Some(&with_names())).unwrap();
        assert_eq!(posix_acl(fd, AclKind::Default), Ok(Some(with_names())));
        set_posix_acl(fd, AclKind::Default, None).unwrap();
        assert_eq!(posix_acl(fd, AclKind::Default), Ok(None));
    }

    #[test]
    fn only_the_owner_sets_one_and_nothing_is_followed() {
        if !can_switch() {
            skip!("acting as another user needs privileges");
        }
        let scratch = Scratch::new();
        drop(scratch.file("f", b""));
        symlinkat(b"f", scratch.dir(), b"l").unwrap();
        let (file, link) = (scratch.object("f"), scratch.object("l"));
        let plain = PosixAcl::of_mode(0o777);
        let set = || set_posix_acl(file.as_fd(), AclKind::Access, Some(&plain));
        assert_eq!(run_as(&stranger(), set), Err(Errno::PERM));
        let of_link = set_posix_acl(link.as_fd(), AclKind::Access, Some(&plain));
        assert_eq!(of_link, Err(Errno::OPNOTSUPP));
        assert_eq!(statx(file.as_fd()).unwrap().permissions() & 0o7, 0o4);
    }

    #[test]
    fn a_file_system_without_them_says_so() {
        let Ok(proc) = super::super::open_root(std::path::Path::new("/proc/self")) else {
            skip!("/proc is not there");
        };
        assert!(!has_posix_acls(proc.as_fd()));
        let got = posix_acl(proc.as_fd(), AclKind::Access);
        assert_eq!(got, Err(Errno::OPNOTSUPP));
    }

    #[test]
    fn more_entries_than_are_looked_at_are_too_many() {
        let named = |id| (id, Perms::READ);
        // The owner, the group, the mask and others are entries as well.
        let most = u32::try_from(POSIX_ACL_ENTRIES_MAX).unwrap() - 4;
        let mut acl = PosixAcl {
            users: (0..most).map(named).collect(),
            mask: Some(Perms::ALL),
            ..PosixAcl::of_mode(0o700)
        };
        assert_eq!(PosixAcl::from_xattr(&acl.to_xattr()), Ok(acl.clone()));
        acl.users.push(named(most));
        let larger = acl.to_xattr();
        assert_eq!(PosixAcl::from_xattr(&larger), Err(Errno::TOOBIG));
    }

    #[test]
    fn malformed_acls_are_refused_whole_ones_cut_anywhere_too() {
        let bytes = with_names().to_xattr();
        for len in 0..bytes.len() {
            let cut = PosixAcl::from_xattr(&bytes[..len]);
            assert_eq!(cut, Err(Errno::INVAL), "{len}");
        }
        for (at, byte) in [(0, 3), (4, 0x40)] {
            let mut bad = bytes.clone();
            bad[at] = byte;
            assert_eq!(PosixAcl::from_xattr(&bad), Err(Errno::INVAL));
        }
        let maskless = PosixAcl {
            mask: None,
            ..with_names()
        };
        let maskless = PosixAcl::from_xattr(&maskless.to_xattr());
        assert_eq!(maskless, Err(Errno::INVAL));
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_acl_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(acl) = PosixAcl::from_xattr(&bytes) {
                prop_assert_eq!(PosixAcl::from_xattr(&acl.to_xattr()), Ok(acl));
            }
        }
    }
}
