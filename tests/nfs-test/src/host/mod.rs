//! What a scenario uses on the host: the laboratory, and what only scenarios need besides.

use nfs_lab::Lab;

mod io_mode;
mod peer;
pub(crate) mod wire;

pub(crate) use io_mode::{IoSetting, Mode};
pub(crate) use peer::{Peer, PeerServer};

/// What a scenario is given.
pub(crate) struct Context {
    /// The server's binary, its engine, and the scenario's own directory; logs in it are shown when
    /// the scenario fails.
    pub(crate) lab: Lab,
    /// Random decisions follow from it; it is printed, and repeats a run.
    pub(crate) seed: u64,
    /// Fewer rounds than CI runs.
    pub(crate) quick: bool,
    /// The long forms: every offset with every length, gibibytes instead of mebibytes.
    pub(crate) full: bool,
    /// Power cuts for each file system.
    pub(crate) cuts: u32,
}
