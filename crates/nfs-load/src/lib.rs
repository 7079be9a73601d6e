//! Loads for NFS servers, and reports of how they were borne: what `penstock bench` is made of.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::too_many_lines))]

pub mod compare;
pub mod environment;
pub mod error;
pub mod input;
pub mod limits;
pub mod load;
pub mod noise;
pub mod pace;
pub mod place;
pub mod records;
pub mod report;
pub mod respond;
pub mod run;
pub mod sample;
pub mod spread;
pub mod table;
pub mod target;
pub mod workload;
