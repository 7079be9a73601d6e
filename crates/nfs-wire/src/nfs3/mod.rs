//! NFS version 3 (RFC 1813): every procedure's arguments and results.
//!
//! The RFC's words with Rust's capitals: `GETATTR3args` is [`GetattrArgs`], `GETATTR3res` is
//! `Result<GetattrOk, Failure<()>>`. Names and data are borrowed from the message; file handles and
//! attributes are copied out.

mod attributes;
mod call;
mod create;
mod data;
mod directory;
mod filesystem;
mod object;
mod readdir;
mod types;

pub use crate::handle::FileHandleTooLong;
pub use attributes::{Fattr3, Ftype3, Nfstime3, Sattr3, SetTime, Specdata3, WccAttr, WccData};
pub use call::{Call, Procedure};
pub use create::{
    CreateArgs, CreateHow, CreateOk, DeviceData, MkdirArgs, MknodArgs, Mknoddata, PipeData,
    SymlinkArgs, SymlinkData,
};
pub use data::{
    CommitArgs, CommitOk, ReadArgs, ReadOk, ReadOkHead, StableHow, WriteArgs, WriteHead, WriteOk,
};
pub use directory::{LinkArgs, LinkBody, RemoveArgs, RemoveOk, RenameArgs, RenameBody, RmdirArgs};
pub use filesystem::{
    FSF3_CANSETTIME, FSF3_HOMOGENEOUS, FSF3_LINK, FSF3_SYMLINK, FsinfoArgs, FsinfoOk, FsstatArgs,
    FsstatOk, PathconfArgs, PathconfOk,
};
pub use object::{
    ACCESS3_DELETE, ACCESS3_EXECUTE, ACCESS3_EXTEND, ACCESS3_LOOKUP, ACCESS3_MODIFY, ACCESS3_READ,
    AccessArgs, AccessOk, GetattrArgs, GetattrOk, LookupArgs, LookupOk, ReadlinkArgs, ReadlinkOk,
    SetattrArgs,
};
pub use readdir::{
    Entry3, EntryPlus3, READDIR_OK_FIXED_LEN, ReaddirArgs, ReaddirOk, ReaddirplusArgs,
    ReaddirplusOk,
};
pub use types::{
    DirOpArgs, Failure, FileHandle, Filename, Nfspath3, Nfsstat3, PostOpAttr, PostOpFh3,
};

/// The program number of NFS.
pub const PROGRAM: u32 = 100_003;
/// The version of this module.
pub const VERSION: u32 = 3;

#[cfg(test)]
mod tests;
