//! Loads for NFS servers, and reports of how they were borne: what `penstock bench` is made of.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::too_many_lines))]

pub mod cgroup;
pub mod compare;
pub mod cores;
pub mod environment;
pub mod error;
pub mod ganesha;
mod grow;
mod idle;
pub mod input;
mod leftovers;
pub mod limits;
pub mod load;
pub mod noise;
pub mod own;
pub mod pace;
pub mod place;
pub mod recording;
pub mod records;
pub mod replay;
pub mod report;
pub mod respond;
pub mod run;
pub mod sample;
pub mod series;
mod serving;
pub mod spread;
pub mod table;
pub mod target;
pub mod touch;
pub mod unpack;
pub mod watch;
pub mod workload;
