//! Measures NFS servers against each other: workloads, samples, comparison, report.
//!
//! A figure is worth something only beside another one measured in the same run, on the same machine, over
//! the same path. So a run takes its servers in turn, several rounds, each measurement in a process of its
//! own that is pinned to one core while the server is pinned to another, and reports medians
//! with their spread. Nothing here judges: there are no
//! thresholds but the bars of [`speed`], which its page holds the figures against.
//!
//! The measured loop ([`baseline::load`]) is deliberately not the client library: a prepared call is patched and sent, a
//! reply's status is looked at, and nothing else happens, so that what is measured is the server.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::too_many_lines))]

pub mod attacks;
pub mod auto;
pub mod baseline;
mod calls;
pub mod claims;
pub mod client;
pub mod content;
pub mod counters;
pub mod ior_hard;
pub mod kernel_client;
pub mod limits;
pub mod mirror;
pub mod modes;
mod mounted;
pub mod out_of_order;
pub mod pin;
mod product;
pub mod sample;
pub mod servers;
pub mod speed;
pub mod stage;
pub mod summary;
pub mod supervise;
pub mod turns;
pub mod volume;
