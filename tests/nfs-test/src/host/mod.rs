//! What a scenario uses on the host. Everything here is owned: dropping the value ends the process,
//! unmounts the file system, frees the device, also while a failure unwinds.

mod frozen;
mod ganesha;
mod hold;
mod io_mode;
mod knfsd;
mod loopfs;
mod mounted;
pub(crate) mod needs;
mod netns;
mod peer;
mod place;
mod process;
mod server;
pub(crate) mod slow_fs;
pub(crate) mod turn_fs;
mod uml;
pub(crate) mod wire;

use std::path::PathBuf;

pub(crate) use frozen::Frozen;
pub(crate) use hold::Hold;
pub(crate) use io_mode::{IoSetting, Mode};
pub(crate) use loopfs::{FsKind, Knife, LoopFs};
pub(crate) use mounted::Mounted;
pub(crate) use netns::Netns;
pub(crate) use peer::{Peer, PeerServer};
pub(crate) use place::Place;
pub(crate) use process::{Running, copy_program, output, output_within, run};
pub(crate) use server::{IoFigures, Server, ServerOptions, counter};
pub(crate) use uml::{Guest, GuestOutcome, Mount, test_binary};

/// Which of the server's I/O engines a scenario runs with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Uring,
    Threads,
}

impl Engine {
    /// The word of the server's `--engine` option.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Uring => "uring",
            Self::Threads => "threads",
        }
    }
}

/// What a scenario is given.
pub(crate) struct Context {
    /// The server's binary.
    pub(crate) server: PathBuf,
    pub(crate) engine: Engine,
    pub(crate) seed: u64,
    /// Fewer rounds than CI runs.
    pub(crate) quick: bool,
    /// The long forms: every offset with every length, gibibytes instead of mebibytes.
    pub(crate) full: bool,
    /// Power cuts for each file system.
    pub(crate) cuts: u32,
    /// The scenario's own directory; logs in it are shown when it fails.
    pub(crate) dir: PathBuf,
}
