//! Penstock's NFS server: exports, handles, open-file cache, procedures and control plane.
//!
//! A call's way: `net` cuts records from connections, `dispatch` decodes and answers them, `nfs3` and
//! `mount3` shape each procedure, and `nfs4` each operation, for `vfs`, which alone touches the files of an
//! export; `state` has what NFSv4's clients hold; `nlm4` refuses locks.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        clippy::too_many_lines
    )
)]
#![forbid(unsafe_code)]

pub mod exports;
mod front;
#[doc(hidden)]
pub mod fuzzing;
pub mod host;
pub mod limits;
mod net;
mod network;
pub mod operate;
mod rpc;
pub mod server;
mod slots;
mod state;
mod vfs;

pub use operate::metrics;
pub use server::{Server, ServerOptions, StartError};
