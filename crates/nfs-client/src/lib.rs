//! Penstock's NFS client: a library that a program links, with no kernel mount and no page cache.
//!
//! Three levels, each usable alone:
//!
//! - [`connection`]: one TCP connection shared by many concurrent calls; xids, time limits,
//!   reconnects. For other RPC programs, and for tests that send what no client should.
//! - [`nfs3`], [`mount3`], [`portmap`]: one async function per procedure, with the RFC's names and
//!   typed results.
//! - [`Client`] and [`File`]: paths, files and directories of one mounted export, found by an
//!   [`NfsUrl`].
//!
//!   With [`transfer`], whole files and trees.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let url = "nfs://localhost:20049/data/readme.txt".parse()?;
//! let (client, path) = nfs_client::Client::mount(&url).await?;
//! let file = client.open(&path).await?;
//! let part = file.read_at(0, 100).await?;
//! println!("{} bytes, {}", part.data.len(), if part.eof { "to the end" } else { "more follows" });
//! # Ok(())
//! # }
//! ```
//!
//! Nothing here is cached: each call asks the server. All bytes that a server sends are checked
//! before they choose an allocation, an index or an offset; a server that breaks the protocol gets a
//! typed error, never a panic.

pub mod client;
pub mod connection;
pub mod error;
pub mod file;
pub mod identity;
pub mod limits;
pub mod mount3;
pub mod nfs3;
pub mod portmap;
pub mod transfer;
pub mod url;

pub use client::{Client, ClientError, MountOptions};
pub use connection::{
    ConnectOptions, Connection, Connections, Procedure, RawConnection, Reconnect, Target,
};
pub use error::RpcError;
pub use file::{Depth, File, Windows};
pub use identity::Identity;
pub use nfs3::Nfs3;
pub use url::{NfsUrl, UrlError};
