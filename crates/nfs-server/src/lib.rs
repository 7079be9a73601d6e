//! Penstock's NFS server: exports, handles, open-file cache, procedures and control plane.
//!
//! A call's way: `net` cuts records from connections, `dispatch` decodes and answers them, `nfs3` and
//! `mount3` shape each procedure for `vfs`, which alone touches the files of an export; `nlm4` refuses locks.
#![forbid(unsafe_code)]

mod call_notes;
mod client_id;
pub mod config;
pub mod control;
mod core;
mod counters;
mod dispatch;
pub mod exports;
mod fh;
mod file_cache;
#[doc(hidden)]
pub mod fuzzing;
mod groups;
pub mod handle_table;
mod io_counters;
pub mod limits;
mod mount3;
mod net;
mod nfs3;
mod nlm4;
pub mod policy;
pub mod portmap;
pub mod reload;
mod reply_cache;
pub mod rpcbind;
pub mod server;
mod standing;
pub mod state_dir;
pub mod systemd;
mod trace;
mod vfs;

pub use server::{Server, ServerOptions, StartError};
