//!
//! Three levels, each usable alone:
//!
//! - [`connection`]: one TCP connection shared by many concurrent calls; xids, time limits,
//!   typed results.
//!   [`NfsUrl`].
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let url = "nfs://localhost:20049/data/readme.txt".parse()?;
//! println!("{} bytes, {}", part.data.len(), if part.eof { "to the end" } else { "more follows" });
//! # Ok(())
//! # }
//! ```
//!
//! Nothing here is cached: each call asks the server. All bytes that a server sends are checked
//! before they choose an allocation, an index or an offset; a server that breaks the protocol gets a
//! typed error, never a panic.

pub mod connection;
pub mod error;
pub mod identity;
pub mod limits;
pub mod nfs3;
pub mod url;

pub use connection::{ConnectOptions, Connection, Procedure, RawConnection, Reconnect, Target};
pub use error::RpcError;
pub use identity::Identity;
pub use nfs3::Nfs3;
pub use url::{NfsUrl, UrlError};
