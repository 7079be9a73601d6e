//! An NFS export as a file system that every program sees: FUSE on one side, Penstock's client on the
//! other.
//!
//! [`Mount::new`] mounts a directory of an export; requests of the kernel become calls of
//! [`nfs_client::Client`] and [`nfs_client::File`], each answered on its own, so a slow one holds up
//! nobody. By default the kernel caches no file contents: reads are fetched ahead and writes sent
//! behind by the client, and `close` brings them to the server's stable storage. What programs can
//! rely on is in `docs/client.md`.
//!
//! Linux only, for root or through `fusermount3` for everybody else.

mod attributes;
mod callers;
mod endings;
mod errno;
mod inodes;
pub mod limits;
mod mount;
mod options;
mod session;
mod tree;
mod writers;

pub use mount::{Mount, MountError, Unsaved};
pub use options::Options;
