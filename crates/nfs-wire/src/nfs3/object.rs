//! GETATTR, SETATTR, LOOKUP, ACCESS, READLINK (RFC 1813 §3.3.1 to §3.3.5).

use super::{DirOpArgs, Fattr3, FileHandle, Nfspath3, Nfstime3, PostOpAttr, Sattr3};
use crate::xdr::define::xdr_struct;

xdr_struct! {
    /// `GETATTR3args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct GetattrArgs {
        /// The object.
        pub object: FileHandle,
    }
}

xdr_struct! {
    /// `GETATTR3resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct GetattrOk {
        /// Its attributes.
        pub obj_attributes: Fattr3,
    }
}

xdr_struct! {
    /// `SETATTR3args`; both results carry `wcc_data`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SetattrArgs {
        /// The object.
        pub object: FileHandle,
        /// What to set.
        pub new_attributes: Sattr3,
        /// `sattrguard3`: only if the object's ctime is still this.
        pub guard: Option<Nfstime3>,
    }
}

xdr_struct! {
    /// `LOOKUP3args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LookupArgs<'a> {
        /// Directory and name.
        pub what: DirOpArgs<'a>,
    }
}

xdr_struct! {
    /// `LOOKUP3resok`; the failure carries the directory's attributes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LookupOk {
        /// What was found.
        pub object: FileHandle,
        /// Its attributes.
        pub obj_attributes: PostOpAttr,
        /// The directory's.
        pub dir_attributes: PostOpAttr,
    }
}

/// Read data from a file, or read a directory.
pub const ACCESS3_READ: u32 = 0x01;
/// Look up a name in a directory.
pub const ACCESS3_LOOKUP: u32 = 0x02;
/// Rewrite data, or change entries of a directory.
pub const ACCESS3_MODIFY: u32 = 0x04;
/// Write new data, or add entries to a directory.
pub const ACCESS3_EXTEND: u32 = 0x08;
/// Delete an entry of a directory.
pub const ACCESS3_DELETE: u32 = 0x10;
/// Execute a file.
pub const ACCESS3_EXECUTE: u32 = 0x20;

xdr_struct! {
    /// `ACCESS3args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AccessArgs {
        /// The object.
        pub object: FileHandle,
        /// What is asked for: bits `ACCESS3_*`.
        pub access: u32,
    }
}

xdr_struct! {
    /// `ACCESS3resok`; the failure carries the object's attributes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AccessOk {
        /// The object's attributes.
        pub obj_attributes: PostOpAttr,
        /// What is granted of what was asked for.
        pub access: u32,
    }
}

xdr_struct! {
    /// `READLINK3args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ReadlinkArgs {
        /// The symlink.
        pub symlink: FileHandle,
    }
}

xdr_struct! {
    /// `READLINK3resok`; the failure carries the symlink's attributes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ReadlinkOk<'a> {
        /// The symlink's attributes.
        pub symlink_attributes: PostOpAttr,
        /// What it holds.
        pub data: Nfspath3<'a>,
    }
}
