//! Procedures and their calls.

use super::{
    AccessArgs, CommitArgs, CreateArgs, FsinfoArgs, FsstatArgs, GetattrArgs, LinkArgs, LookupArgs,
    MkdirArgs, MknodArgs, PathconfArgs, ReadArgs, ReaddirArgs, ReaddirplusArgs, ReadlinkArgs,
    RemoveArgs, RenameArgs, RmdirArgs, SetattrArgs, SymlinkArgs, WriteArgs,
};
use crate::{Decode, DecodeError, Decoder, Encode, Encoder};

macro_rules! procedures {
    ($( $(#[$meta:meta])* $name:ident = $value:literal $word:literal ($args:ty), )*) => {
        /// The procedures of NFSv3 (RFC 1813 §3.3).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Procedure {
            $( $(#[$meta])* $name = $value, )*
        }

        impl Procedure {
            /// Every procedure, in the RFC's order.
            pub const ALL: &[Self] = &[$( Self::$name ),*];

            /// The RFC's word.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $( Self::$name => $word, )* }
            }
        }

        impl TryFrom<u32> for Procedure {
            type Error = DecodeError;

            fn try_from(value: u32) -> Result<Self, DecodeError> {
                match value {
                    $( $value => Ok(Self::$name), )*
                    value => Err(DecodeError::BadValue { field: "procedure", value }),
                }
            }
        }

        /// A call of any procedure, with its arguments.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Call<'a> {
            $( $(#[$meta])* $name($args), )*
        }

        impl<'a> Call<'a> {
            /// Reads the arguments of a procedure; the caller checks that nothing is left.
            ///
            /// # Errors
            /// [`DecodeError`], which becomes GARBAGE_ARGS.
            pub fn decode(procedure: Procedure, d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
                Ok(match procedure {
                    $( Procedure::$name => Self::$name(Decode::decode(d)?), )*
                })
            }

            /// Which procedure this calls.
            #[must_use]
            pub const fn procedure(&self) -> Procedure {
                match self { $( Self::$name(_) => Procedure::$name, )* }
            }
        }

        impl Encode for Call<'_> {
            fn encode(&self, e: &mut Encoder<'_>) {
                match self { $( Self::$name(args) => args.encode(e), )* }
            }
        }
    };
}

procedures! {
    /// Does nothing.
    Null = 0 "NULL" (()),
    /// Attributes of an object.
    Getattr = 1 "GETATTR" (GetattrArgs),
    /// Sets attributes.
    Setattr = 2 "SETATTR" (SetattrArgs),
    /// From a name to a handle.
    Lookup = 3 "LOOKUP" (LookupArgs<'a>),
    /// Asks what the caller may do.
    Access = 4 "ACCESS" (AccessArgs),
    /// Contents of a symlink.
    Readlink = 5 "READLINK" (ReadlinkArgs),
    /// Reads from a file.
    Read = 6 "READ" (ReadArgs),
    /// Writes to a file.
    Write = 7 "WRITE" (WriteArgs<'a>),
    /// Makes a regular file.
    Create = 8 "CREATE" (CreateArgs<'a>),
    /// Makes a directory.
    Mkdir = 9 "MKDIR" (MkdirArgs<'a>),
    /// Makes a symlink.
    Symlink = 10 "SYMLINK" (SymlinkArgs<'a>),
    /// Makes a device file, socket or FIFO.
    Mknod = 11 "MKNOD" (MknodArgs<'a>),
    /// Removes an entry that is no directory.
    Remove = 12 "REMOVE" (RemoveArgs<'a>),
    /// Removes a directory.
    Rmdir = 13 "RMDIR" (RmdirArgs<'a>),
    /// Renames an entry.
    Rename = 14 "RENAME" (RenameArgs<'a>),
    /// Makes a hard link.
    Link = 15 "LINK" (LinkArgs<'a>),
    /// Entries of a directory.
    Readdir = 16 "READDIR" (ReaddirArgs),
    /// Entries with attributes and handles.
    Readdirplus = 17 "READDIRPLUS" (ReaddirplusArgs),
    /// Space of a file system.
    Fsstat = 18 "FSSTAT" (FsstatArgs),
    /// Limits of a file system and of the server.
    Fsinfo = 19 "FSINFO" (FsinfoArgs),
    /// POSIX limits of an object.
    Pathconf = 20 "PATHCONF" (PathconfArgs),
    /// Puts written data on stable storage.
    Commit = 21 "COMMIT" (CommitArgs),
}
