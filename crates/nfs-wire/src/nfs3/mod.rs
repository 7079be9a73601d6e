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
    DirOpArgs, Failure, FileHandle, FileHandleTooLong, Filename, Nfspath3, Nfsstat3, PostOpAttr,
    PostOpFh3,
};

/// The program number of NFS.
pub const PROGRAM: u32 = 100_003;
/// The version of this module.
pub const VERSION: u32 = 3;

/// Defines a message as a struct whose fields are encoded and decoded in order.
macro_rules! xdr_struct {
    (
        $(#[$meta:meta])*
        pub struct $name:ident $(<$life:lifetime>)? {
            $( $(#[$field_meta:meta])* pub $field:ident : $type:ty ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        pub struct $name $(<$life>)? {
            $( $(#[$field_meta])* pub $field: $type, )*
        }

        $crate::nfs3::xdr_struct!(@decode $name, ($($life)?), $($field),*);

        impl $(<$life>)? $crate::Encode for $name $(<$life>)? {
            fn encode(&self, e: &mut $crate::Encoder<'_>) {
                $( $crate::Encode::encode(&self.$field, e); )*
            }
        }
    };
    (@decode $name:ident, (), $($field:ident),*) => {
        impl $crate::Decode<'_> for $name {
            fn decode(d: &mut $crate::Decoder<'_>) -> Result<Self, $crate::DecodeError> {
                Ok(Self {
                    $( $field: $crate::Decode::decode(d)
                        .map_err(|error: $crate::DecodeError| error.within(stringify!($field)))?, )*
                })
            }
        }
    };
    (@decode $name:ident, ($life:lifetime), $($field:ident),*) => {
        impl<$life> $crate::Decode<$life> for $name<$life> {
            fn decode(d: &mut $crate::Decoder<$life>) -> Result<Self, $crate::DecodeError> {
                Ok(Self {
                    $( $field: $crate::Decode::decode(d)
                        .map_err(|error: $crate::DecodeError| error.within(stringify!($field)))?, )*
                })
            }
        }
    };
}
pub(crate) use xdr_struct;

#[cfg(test)]
mod tests;
