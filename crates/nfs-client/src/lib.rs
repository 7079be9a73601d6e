//! Penstock's NFS client: a library that a program links, with no kernel mount and no page cache.
//!
//! Three levels, each usable alone:
//!
//! - [`connection`]: one TCP connection shared by many concurrent calls; xids, time limits,
//!   reconnects, and several of them to one server. For other RPC programs, and for tests that send
//!   what no client should.
//! - [`nfs3`], [`mount3`], [`portmap`]: one async function per procedure, with the RFC's names and
//!   typed results.
//! - [`Client`] and [`File`]: paths, files and directories of one mounted export, found by an
//!   [`NfsUrl`]; a [`Cursor`] reads and writes a file through tokio's traits, and [`blocking`] is all of that without an
//!   event loop. On top of it, [`transfer`] copies whole files and trees, and [`trees`] finds, removes
//!   and changes what is in them; [`doctor`] examines the server.
//!
//! The procedures, over a connection of one's own (the server of this example answers everything with
//! an empty success, which is right for NULL):
//!
//! ```
//! # use nfs_client::RawConnection;
//! # async fn serve(listener: tokio::net::TcpListener) -> std::io::Result<()> {
//! #     let mut peer = RawConnection::from_stream(listener.accept().await?.0);
//! #     while let Some(call) = peer.receive_record().await? {
//! #         let success = [&call[..4], &[0, 0, 0, 1], &[0; 16]].concat();
//! #         peer.send_record(&success).await?;
//! #     }
//! #     Ok(())
//! # }
//! use nfs_client::{ConnectOptions, Connection, Identity, Nfs3, Target};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! # let port = listener.local_addr()?.port();
//! # tokio::spawn(serve(listener));
//! let target = Target::new("localhost", port);
//! let connection = Connection::connect(target, ConnectOptions::default()).await?;
//! let nfs = Nfs3::new(connection, Identity::sys(1000, 1000, &[]));
//! nfs.null().await?;
//! assert_eq!(nfs.connection().stats().replies, 1);
//! # Ok(())
//! # }
//! ```
//!
//! A file by its URL:
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
//! [`file`](mod@file) shows a file written and read, [`transfer`] a tree copied. Whole programs to begin with, one for each
//! level, are `examples/procedures.rs`, `examples/file.rs` and `examples/copy.rs`.
//!
//! Without features there is what opens, reads, writes and lists. `blocking`, `transfer` and `doctor` are behind features
//! of their names, [`rate`] comes with `transfer`; a program that does not ask for them does not build them, nor what they
//! need.
//!
//! Each module uses only those that stand before it, and none of those after it:
//! `limits`, `random`, [`path`] · [`identity`], [`error`] · [`connection`] · [`nfs3`], [`nfs4`], [`mount3`], [`portmap`],
//! [`url`](mod@url) · [`nfs`] · [`file`](mod@file), [`rate`] · [`cursor`], [`client`] · [`transfer`], [`trees`],
//! [`blocking`] · [`doctor`].
//!
//! Names and directories are not cached: each call asks the server. An open file has its windows, what
//! was written and is not yet on stable storage, and its attributes for a few seconds
//! ([`File::stat`]). All bytes that a server sends are checked before they choose an allocation, an
//! index or an offset; a server that breaks the protocol gets a typed error, never a panic.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        clippy::too_many_lines
    )
)]

#[cfg(feature = "blocking")]
pub mod blocking;
pub mod client;
pub mod connection;
pub mod cursor;
#[cfg(feature = "doctor")]
pub mod doctor;
pub mod error;
pub mod file;
mod hint;
pub mod identity;
pub mod limits;
pub mod mount3;
pub mod nfs;
pub mod nfs3;
pub mod nfs4;
pub mod path;
pub mod portmap;
mod random;
#[cfg(feature = "transfer")]
pub mod rate;
#[cfg(feature = "transfer")]
pub mod transfer;
pub mod trees;
pub mod url;

pub use client::{Client, MountOptions, Statistics};
pub use connection::{
    ConnectOptions, Connection, Connections, Liveness, Procedure, RawConnection, Reconnect, Silent,
    Target,
};
pub use cursor::Cursor;
pub use error::{ClientError, RpcError};
pub use file::{Depth, File, TransferSizes, Windows};
pub use hint::{Hint, UnknownHint};
pub use identity::Identity;
pub use nfs::Nfs;
pub use nfs3::{Nfs3, Node};
pub use nfs4::{Nfs4, Nfs4Error};
pub use path::AsPath;
pub use url::{NfsUrl, UrlError, UrlPattern, Version};

/// The memory that data is received into: [`Nfs3::read_into`].
pub use nfs_io::{Budget, Buf, BufferPool};
/// The messages, and how arguments and results of one's own are encoded and decoded.
pub use nfs_wire;

/// The examples of the crate's README, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
