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
//!
//! ```no_run
//! use nfs_client::Client;
//! use nfs_fuse::{Mount, Options};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let url = "nfs://localhost:20049/data".parse()?;
//! let (client, path) = Client::mount(&url).await?;
//! let root = client.resolve(&path).await?;
//! let mount = Mount::new(client, root, "/mnt".as_ref(), Options::default()).await?;
//! // Until somebody unmounts it: `fusermount3 -u /mnt`, or Mount::unmount.
//! mount.ended().await;
//! // What programs wrote and did not flush may still fail here.
//! for file in mount.finish().await {
//!     eprintln!("file {} is not safe: {}", file.number, file.error);
//! }
//! # Ok(())
//! # }
//! ```
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        clippy::too_many_lines
    )
)]

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

pub use mount::{FS_TYPE, Mount, MountError, Unsaved};
pub use options::Options;
