//! Loads for NFS servers, and reports of how they were borne: what `penstock bench` is made of.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::too_many_lines))]

pub mod input;
pub mod limits;
pub mod respond;
pub mod spread;
pub mod table;
