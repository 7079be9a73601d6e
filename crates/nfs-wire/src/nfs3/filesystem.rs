//! FSSTAT, FSINFO, PATHCONF (RFC 1813 §3.3.18 to §3.3.20). Failures carry the object's attributes.

use super::{FileHandle, Nfstime3, PostOpAttr};
use crate::xdr::define::xdr_struct;

xdr_struct! {
    /// The arguments of FSSTAT: `FSSTAT3args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FsstatArgs {
        /// An object of the file system.
        pub fsroot: FileHandle,
    }
}

xdr_struct! {
    /// The space of a file system: `FSSTAT3resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FsstatOk {
        /// The attributes of the object that was asked about.
        pub obj_attributes: PostOpAttr,
        /// The size of the file system, bytes.
        pub tbytes: u64,
        /// How many bytes of the file system are free.
        pub fbytes: u64,
        /// How many bytes are free for the caller.
        pub abytes: u64,
        /// How many objects (inodes) the file system has room for.
        pub tfiles: u64,
        /// How many objects there is still room for.
        pub ffiles: u64,
        /// How many more objects (inodes) the caller may make.
        pub afiles: u64,
        /// Seconds for which this will not change; 0 where that cannot be told.
        pub invarsec: u32,
    }
}

xdr_struct! {
    /// The arguments of FSINFO: `FSINFO3args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FsinfoArgs {
        /// The root of the file system.
        pub fsroot: FileHandle,
    }
}

/// The file system has hard links.
pub const FSF3_LINK: u32 = 0x0001;
/// The file system has symlinks.
pub const FSF3_SYMLINK: u32 = 0x0002;
/// PATHCONF says the same for every object.
pub const FSF3_HOMOGENEOUS: u32 = 0x0008;
/// The property that SETATTR can set times.
pub const FSF3_CANSETTIME: u32 = 0x0010;

xdr_struct! {
    /// The limits of a file system and its server: `FSINFO3resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FsinfoOk {
        /// The attributes of the object that was asked about.
        pub obj_attributes: PostOpAttr,
        /// The largest READ that is answered in full, bytes.
        pub rtmax: u32,
        /// The READ that is best, bytes.
        pub rtpref: u32,
        /// What a READ's size should be a multiple of.
        pub rtmult: u32,
        /// The largest WRITE that is carried out in full, bytes.
        pub wtmax: u32,
        /// The WRITE that is best, bytes.
        pub wtpref: u32,
        /// What a WRITE's size should be a multiple of.
        pub wtmult: u32,
        /// The READDIR that is best, bytes.
        pub dtpref: u32,
        /// The largest size that a file may have, bytes.
        pub maxfilesize: u64,
        /// The resolution of the timestamps that the server keeps.
        pub time_delta: Nfstime3,
        /// What the file system can do: bits `FSF3_*`.
        pub properties: u32,
    }
}

xdr_struct! {
    /// The arguments of PATHCONF: `PATHCONF3args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PathconfArgs {
        /// The handle of the object that is asked about.
        pub object: FileHandle,
    }
}

xdr_struct! {
    /// The POSIX limits of an object: `PATHCONF3resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PathconfOk {
        /// The attributes of the object that was asked about.
        pub obj_attributes: PostOpAttr,
        /// The most hard links of a file.
        pub linkmax: u32,
        /// The longest name that an entry may have, bytes.
        pub name_max: u32,
        /// A longer name is an error (true) or cut off.
        pub no_trunc: bool,
        /// Only a privileged user may give a file away.
        pub chown_restricted: bool,
        /// Names that differ only in case are the same.
        pub case_insensitive: bool,
        /// The case of names is kept.
        pub case_preserving: bool,
    }
}
