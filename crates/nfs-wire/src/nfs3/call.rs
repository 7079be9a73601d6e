//! The procedures of NFS version 3, and their calls with the arguments.

use super::{
    AccessArgs, CommitArgs, CreateArgs, FsinfoArgs, FsstatArgs, GetattrArgs, LinkArgs, LookupArgs,
    MkdirArgs, MknodArgs, PathconfArgs, ReadArgs, ReaddirArgs, ReaddirplusArgs, ReadlinkArgs,
    RemoveArgs, RenameArgs, RmdirArgs, SetattrArgs, SymlinkArgs, WriteArgs,
};
use crate::xdr::define::procedures;

procedures! {
    /// The procedures of NFSv3 (RFC 1813 §3.3).
    pub enum Procedure;

    /// A call of any procedure, with its arguments.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Call<'a>;

    /// Does nothing, and so tells that the program is there.
    Null = 0 "NULL" (()),
    /// Asks for an object's attributes.
    Getattr = 1 "GETATTR" (GetattrArgs),
    /// Sets some attributes of an object.
    Setattr = 2 "SETATTR" (SetattrArgs),
    /// Asks for the handle of a name in a directory.
    Lookup = 3 "LOOKUP" (LookupArgs<'a>),
    /// Asks what the caller may do.
    Access = 4 "ACCESS" (AccessArgs),
    /// Asks for what a symlink holds.
    Readlink = 5 "READLINK" (ReadlinkArgs),
    /// Reads a range of a file's bytes.
    Read = 6 "READ" (ReadArgs),
    /// Writes bytes to a file from an offset on.
    Write = 7 "WRITE" (WriteArgs<'a>),
    /// Makes a regular file, or finds one that is there.
    Create = 8 "CREATE" (CreateArgs<'a>),
    /// Makes a directory that has no entries.
    Mkdir = 9 "MKDIR" (MkdirArgs<'a>),
    /// Makes a symlink that holds the path given.
    Symlink = 10 "SYMLINK" (SymlinkArgs<'a>),
    /// Makes a device file, socket or FIFO.
    Mknod = 11 "MKNOD" (MknodArgs<'a>),
    /// Removes an entry that is no directory.
    Remove = 12 "REMOVE" (RemoveArgs<'a>),
    /// Removes a directory that has no entries left.
    Rmdir = 13 "RMDIR" (RmdirArgs<'a>),
    /// Renames an entry, within a directory or between two.
    Rename = 14 "RENAME" (RenameArgs<'a>),
    /// Gives an object another name: a hard link.
    Link = 15 "LINK" (LinkArgs<'a>),
    /// Lists a directory's entries, names and numbers only.
    Readdir = 16 "READDIR" (ReaddirArgs),
    /// Lists a directory's entries with their attributes and handles.
    Readdirplus = 17 "READDIRPLUS" (ReaddirplusArgs),
    /// Asks how much space a file system has.
    Fsstat = 18 "FSSTAT" (FsstatArgs),
    /// Asks for the limits of a file system and of the server.
    Fsinfo = 19 "FSINFO" (FsinfoArgs),
    /// Asks for the POSIX limits of an object.
    Pathconf = 20 "PATHCONF" (PathconfArgs),
    /// Puts written data on stable storage.
    Commit = 21 "COMMIT" (CommitArgs),
}
