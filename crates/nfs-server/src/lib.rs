//! Penstock's NFS server: exports, handles, open-file cache, procedures and control plane.

pub mod config;
pub mod exports;
pub mod handle_table;
pub mod limits;
