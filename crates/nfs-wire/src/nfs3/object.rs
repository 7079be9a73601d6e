//! GETATTR, SETATTR, LOOKUP, ACCESS, READLINK (RFC 1813 §3.3.1 to §3.3.5).

use super::{DirOpArgs, Fattr3, FileHandle, Nfspath3, Nfstime3, PostOpAttr, Sattr3};
use crate::xdr::define::xdr_struct;

xdr_struct! {
    /// The arguments of GETATTR: `GETATTR3args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct GetattrArgs {
        /// The handle of the object that is asked about.
        pub object: FileHandle,
    }
}

xdr_struct! {
    /// The result of a GETATTR that went well: `GETATTR3resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct GetattrOk {
        /// The attributes of the object that was asked about.
        pub obj_attributes: Fattr3,
    }
}

xdr_struct! {
    /// `SETATTR3args`; both results carry `wcc_data`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SetattrArgs {
        /// The handle of the object to change.
        pub object: FileHandle,
        /// The attributes to set, and which of them.
        pub new_attributes: Sattr3,
        /// `sattrguard3`: only if the object's ctime is still this.
        pub guard: Option<Nfstime3>,
    }
}

xdr_struct! {
    /// The arguments of LOOKUP: `LOOKUP3args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LookupArgs<'a> {
        /// The directory to look in, and the name to look for.
        pub what: DirOpArgs<'a>,
    }
}

xdr_struct! {
    /// `LOOKUP3resok`; the failure carries the directory's attributes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LookupOk {
        /// The handle of the object that has this name.
        pub object: FileHandle,
        /// The attributes of the object that was found.
        pub obj_attributes: PostOpAttr,
        /// The attributes of the directory that was looked in.
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
/// The right to execute a file.
pub const ACCESS3_EXECUTE: u32 = 0x20;

xdr_struct! {
    /// The arguments of ACCESS: `ACCESS3args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AccessArgs {
        /// The handle of the object that is asked about.
        pub object: FileHandle,
        /// What is asked for: bits `ACCESS3_*`.
        pub access: u32,
    }
}

xdr_struct! {
    /// `ACCESS3resok`; the failure carries the object's attributes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AccessOk {
        /// The attributes of the object that was asked about.
        pub obj_attributes: PostOpAttr,
        /// What is granted of what was asked for.
        pub access: u32,
    }
}

xdr_struct! {
    /// The arguments of READLINK: `READLINK3args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ReadlinkArgs {
        /// The handle of the symlink to read.
        pub symlink: FileHandle,
    }
}

xdr_struct! {
    /// `READLINK3resok`; the failure carries the symlink's attributes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ReadlinkOk<'a> {
        /// The symlink's attributes after the call.
        pub symlink_attributes: PostOpAttr,
        /// The path that the symlink holds.
        pub data: Nfspath3<'a>,
    }
}
