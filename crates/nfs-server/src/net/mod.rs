//! TCP: listeners, shards, connections. Knows records and replies, and nothing of files.

pub(crate) mod accept;
pub(crate) mod clients;
pub(crate) mod connection;
mod output;
mod progress;
pub(crate) mod receive;
pub(crate) mod shard;
mod shares;
mod turns;
