//! TCP: listeners, shards, connections. Knows records and replies, and nothing of files.

pub(crate) mod accept;
pub(crate) mod client_figures;
pub(crate) mod clients;
mod connection;
mod loads;
mod output;
mod progress;
pub(crate) mod receive;
mod receive_shares;
pub(crate) mod shard;
pub(crate) mod shards;
mod turns;
