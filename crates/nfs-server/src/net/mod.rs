//! TCP: listeners, shards, connections. Knows records and replies, and nothing of files.
#![deny(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation
)]
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation
    )
)]

pub(crate) mod clients;
pub(crate) mod connection;
mod output;
pub(crate) mod receive;
pub(crate) mod shard;
