//! What a scenario uses on the host: the laboratory, and what only scenarios need besides.

use nfs_lab::Lab;

mod io_mode;
mod peer;
pub(crate) mod raw_client4;
pub(crate) mod wire;

pub(crate) use io_mode::{IoSetting, Mode};
pub(crate) use peer::{Peer, PeerServer};

/// The program under test and the amount of work, as a scenario gets them.
pub(crate) struct Context {
    /// The server's binary, its engine, and the scenario's own directory; logs in it are shown when
    /// the scenario fails.
    pub(crate) lab: Lab,
    /// Seed of all random decisions; it is printed, and repeats a run.
    pub(crate) seed: u64,
    /// Whether to run fewer rounds than CI does.
    pub(crate) quick: bool,
    /// Whether to run the long forms: every offset with every length, gibibytes instead of mebibytes.
    pub(crate) full: bool,
    /// Number of power cuts for each file system.
    pub(crate) cuts: u32,
}
