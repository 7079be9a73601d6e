//! Penstock's NFS server: exports, handles, open-file cache, procedures and control plane.

pub mod config;
pub mod control;
pub mod exports;
pub mod handle_table;
pub mod limits;
pub mod portmap;
pub mod reload;
pub mod rpcbind;
pub mod server;
pub mod state_dir;
pub mod systemd;

pub use server::{Server, ServerOptions, StartError};
