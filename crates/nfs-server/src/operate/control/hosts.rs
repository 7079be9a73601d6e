//! What is said on the control socket about hosts that are shut out.

use serde::{Deserialize, Serialize};

/// Shuts hosts out: [`Command::Block`](super::Command::Block), answered with a list of [`BlockStatus`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockOrder {
    /// The address, or the network with its length (`10.0.0.0/24`).
    pub net: String,
    /// How many minutes it lasts; `None`: until it is lifted or the server ends.
    pub minutes: Option<u64>,
}

/// A network that is shut out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BlockStatus {
    /// The network, with its length.
    pub net: String,
    /// How many seconds are left of it; absent: until it is lifted or the server ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_left: Option<u64>,
    /// Connections and calls that it refused.
    pub refused: u64,
}
