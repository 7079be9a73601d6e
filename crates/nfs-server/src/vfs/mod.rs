//! Operations on the files of an export, in words of no protocol version: the only place that
//! touches them.
//!
//! An operation takes a [`Target`](crate::core::Target): an object, the credentials it is asked
//! with, and whether the client may change anything. What may wait for a disk runs on the helper
//! pool or the engine; what cannot (a `statx` of a cached inode, a look-up in the dentry cache, a
//! READ from the page cache) is done at once on the shard's own thread.
//!
//! The kernel decides what a caller may do: changes of names run under an identity
//! [`Guard`](nfs_io::identity::Guard); LOOKUP, READ and WRITE are done by the server for itself, after
//! the kernel was asked for the caller.

mod access;
mod again;
mod attributes;
mod closing;
mod create;
mod error;
pub(crate) mod fh;
pub(crate) mod file_cache;
pub(crate) mod gate;
pub(crate) mod handle_table;
pub(crate) mod hints;
mod info;
mod io;
mod lookup;
mod names;
mod object;
mod readdir;
mod resolve;
mod room;
pub(crate) mod stable;
mod tree;
mod walk;
mod why;

pub(crate) use access::Access;
pub(crate) use attributes::{Attributes, SetAttributes, TimeChange};
pub(crate) use closing::Writers;
pub(crate) use create::{NewNode, Precondition};
pub(crate) use error::{Error, Result};
pub(crate) use info::FsFacts;
pub(crate) use io::Stability;
pub(crate) use names::check_name;
pub(crate) use nfs_io::fs::FileKind;
pub(crate) use object::Object;
pub(crate) use readdir::{DirEntry, Listing};
pub(crate) use room::Turn;
pub(crate) use tree::{Mount, Tree};
pub(crate) use why::{FileFacts, KnownName, Refused};

/// The attributes of an object before and after a change, as far as they could be had.
/// `before` is missing when another client's change overlapped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wcc {
    pub(crate) before: Option<nfs_io::fs::Stat>,
    pub(crate) after: Option<Attributes>,
}

/// An operation's result with the attributes that RFC 1813 sends in both cases.
pub(crate) type WithWcc<T> = (Result<T>, Wcc);
