//! Access control lists (RFC 8881 §6.2).

use super::Utf8str;
use crate::xdr::define::xdr_struct;

xdr_struct! {
    /// `nfsace4`: an access control entry.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Nfsace4<'a> {
        /// Whether the entry allows, denies or reports: `ACE4_*_ACE_TYPE`.
        pub acetype: u32,
        /// To whom and what it passes on: `ACE4_*_ACE`, `ACE4_IDENTIFIER_GROUP`.
        pub flag: u32,
        /// What is allowed, denied or reported: `ACE4_*`.
        pub access_mask: u32,
        /// Whom it is about: a user, a group, or a special name such as `OWNER@`.
        pub who: Utf8str<'a>,
    }
}

xdr_struct! {
    /// `nfsacl41`: an access control list with flags (minor version 1).
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Nfsacl41<'a> {
        /// How the list came to be and passes on: `ACL4_*`.
        pub flag: u32,
        /// The entries, in the order in which they are looked at.
        pub aces: Vec<Nfsace4<'a>>,
    }
}

/// ALLOW entries are supported: a bit of the attribute `aclsupport`.
pub const ACL4_SUPPORT_ALLOW_ACL: u32 = 0x1;
/// DENY entries are supported: a bit of the attribute `aclsupport`.
pub const ACL4_SUPPORT_DENY_ACL: u32 = 0x2;
/// AUDIT entries are supported: a bit of the attribute `aclsupport`.
pub const ACL4_SUPPORT_AUDIT_ACL: u32 = 0x4;
/// ALARM entries are supported: a bit of the attribute `aclsupport`.
pub const ACL4_SUPPORT_ALARM_ACL: u32 = 0x8;

/// The entry allows what its mask has.
pub const ACE4_ACCESS_ALLOWED_ACE_TYPE: u32 = 0;
/// The entry denies what its mask has.
pub const ACE4_ACCESS_DENIED_ACE_TYPE: u32 = 1;
/// The entry has accesses logged.
pub const ACE4_SYSTEM_AUDIT_ACE_TYPE: u32 = 2;
/// The entry has accesses reported at once.
pub const ACE4_SYSTEM_ALARM_ACE_TYPE: u32 = 3;

/// New files in the directory get the entry.
pub const ACE4_FILE_INHERIT_ACE: u32 = 0x01;
/// New directories in the directory get the entry.
pub const ACE4_DIRECTORY_INHERIT_ACE: u32 = 0x02;
/// The entry passes on to the directory's own entries, and no further.
pub const ACE4_NO_PROPAGATE_INHERIT_ACE: u32 = 0x04;
/// The entry passes on and means nothing for the directory itself.
pub const ACE4_INHERIT_ONLY_ACE: u32 = 0x08;
/// AUDIT and ALARM: accesses that succeed.
pub const ACE4_SUCCESSFUL_ACCESS_ACE_FLAG: u32 = 0x10;
/// AUDIT and ALARM: accesses that fail.
pub const ACE4_FAILED_ACCESS_ACE_FLAG: u32 = 0x20;
/// The entry is about a group.
pub const ACE4_IDENTIFIER_GROUP: u32 = 0x40;
/// The entry was inherited.
pub const ACE4_INHERITED_ACE: u32 = 0x80;

/// Reading a file's data, which of a directory is its list of names.
pub const ACE4_READ_DATA: u32 = 0x0000_0001;
/// Listing a directory.
pub const ACE4_LIST_DIRECTORY: u32 = 0x0000_0001;
/// Writing a file's data, which of a directory is making files in it.
pub const ACE4_WRITE_DATA: u32 = 0x0000_0002;
/// Making a file in a directory.
pub const ACE4_ADD_FILE: u32 = 0x0000_0002;
/// Writing behind a file's end.
pub const ACE4_APPEND_DATA: u32 = 0x0000_0004;
/// Making a directory in a directory.
pub const ACE4_ADD_SUBDIRECTORY: u32 = 0x0000_0004;
/// Reading named attributes.
pub const ACE4_READ_NAMED_ATTRS: u32 = 0x0000_0008;
/// Writing named attributes.
pub const ACE4_WRITE_NAMED_ATTRS: u32 = 0x0000_0010;
/// Executing a file, or passing through a directory.
pub const ACE4_EXECUTE: u32 = 0x0000_0020;
/// Removing an entry of a directory.
pub const ACE4_DELETE_CHILD: u32 = 0x0000_0040;
/// Reading the basic attributes.
pub const ACE4_READ_ATTRIBUTES: u32 = 0x0000_0080;
/// Changing the times.
pub const ACE4_WRITE_ATTRIBUTES: u32 = 0x0000_0100;
/// Changing the retention.
pub const ACE4_WRITE_RETENTION: u32 = 0x0000_0200;
/// Changing the holds of the retention.
pub const ACE4_WRITE_RETENTION_HOLD: u32 = 0x0000_0400;
/// Removing the object itself.
pub const ACE4_DELETE: u32 = 0x0001_0000;
/// Reading the ACL.
pub const ACE4_READ_ACL: u32 = 0x0002_0000;
/// Writing the ACL and the mode.
pub const ACE4_WRITE_ACL: u32 = 0x0004_0000;
/// Changing the owner and the group.
pub const ACE4_WRITE_OWNER: u32 = 0x0008_0000;
/// Synchronous access by programs on the server itself.
pub const ACE4_SYNCHRONIZE: u32 = 0x0010_0000;

/// Subdirectories inherit the list by themselves.
pub const ACL4_AUTO_INHERIT: u32 = 0x1;
/// The list does not change with the parent's.
pub const ACL4_PROTECTED: u32 = 0x2;
/// The list was made by the server's default.
pub const ACL4_DEFAULTED: u32 = 0x4;
