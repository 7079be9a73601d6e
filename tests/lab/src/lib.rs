//! What tests and measurements run on: processes, servers of our own and of others, guests with a
//! kernel of their own, network namespaces, file systems and bytes that say where they belong.
//!
//! Everything here is owned: dropping the value ends the process, unmounts the file system, frees
//! the device, also while a failure unwinds. Nothing here judges a server and nothing prints, but
//! for what could not be given back. `nfs-test`, `nfs-bench` and the crates' own tests build on it.

mod frozen;
pub mod held_fs;
mod hold;
mod knfsd;
mod lines;
mod loopfs;
mod mounted;
pub mod needs;
mod netns;
pub mod pattern;
mod process;
mod scratch;
mod server;
pub mod uml;
mod zram;

use std::path::PathBuf;

pub use frozen::Frozen;
pub use hold::{Held, Hold};
pub use knfsd::{KernelNfsd, Promise};
pub use lines::{Heard, Lines};
pub use loopfs::{FsKind, Knife, LoopFs};
pub use mounted::Mounted;
pub use netns::{Netns, Wire};
pub use process::{Memory, Running, copy_program, output, output_within, run};
pub use scratch::{Scratch, left_by};
pub use server::{IoFigures, Server, ServerOptions, counter, operations};
pub use uml::{Guest, GuestOutcome, Kernel, Mount, test_binary};
pub use zram::Zram;

/// The I/O engine that a server is started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// The engine that submits reads and writes to `io_uring`.
    Uring,
    /// The engine that makes blocking calls on a pool of threads.
    Threads,
}

impl Engine {
    /// The engine's word for the server's `--engine` option.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uring => "uring",
            Self::Threads => "threads",
        }
    }
}

/// The program under test, and where a test keeps what it makes.
#[derive(Debug, Clone)]
pub struct Lab {
    /// Path of the `penstock` binary.
    pub program: PathBuf,
    /// The I/O engine of the servers that are started.
    pub engine: Engine,
    /// The directory for the test's logs, configurations and state.
    pub dir: PathBuf,
}

/// Says aloud that something is not tested on this machine or as this user; the caller then returns.
///
/// # Panics
/// With `PENSTOCK_STRICT=1` in the environment, where a skip is a failure.
#[track_caller]
pub fn skipped(reason: &str) {
    let strict = std::env::var("PENSTOCK_STRICT").is_ok_and(|value| value == "1");
    assert!(!strict, "would skip, but PENSTOCK_STRICT=1: {reason}");
    eprintln!("SKIP: {reason}");
}
