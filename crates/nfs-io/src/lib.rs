//! Files, buffers, identity and I/O engines: everything of Penstock that talks to the kernel
//! about files, and nothing that knows a protocol.
//!
//! Layers, each usable alone:
//!
//! - [`fs`], [`mounts`], [`caps`], [`identity`]: one function per system call that a file server
//!   needs, typed, retried on `EINTR`, with the fallbacks an older kernel asks for. They block.
//! - [`budget`], [`buffer`], [`pool`]: bounded memory and bounded threads; [`promptness`]: which threads run first.
//! - [`turns`], [`shares`], [`lanes`]: who gets what of something that many clients want.
//! - [`confine`]: what the process gives up of itself.
//! - [`peer`], [`accounts`]: who is at the other end of a connection, and what the user database says of them.
//! - [`op`], [`engine`], [`plan`], [`probe`]: reads, writes and flushes as values, executed by an
//!   io_uring ring or by the thread pool with the same results.
//! - [`auto`], [`memory`]: which way of moving bytes suits a file, and what that depends on around it.
//!
//! This is the only crate of the workspace with unsafe code. Every block has a `// SAFETY:` line
//! that names the invariant and who keeps it; callers of this crate's public functions never have
//! to keep one.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::too_many_lines))]
#![allow(
    unsafe_code,
    reason = "system calls that rustix does not wrap, aligned memory, io_uring"
)]
#![deny(clippy::undocumented_unsafe_blocks)]

pub mod accounts;
pub mod auto;
pub mod budget;
pub mod buffer;
pub mod caps;
pub mod confine;
pub mod crash;
pub mod engine;
#[cfg(any(test, feature = "faults"))]
pub mod faults;
#[cfg(not(any(test, feature = "faults")))]
#[path = "no_faults.rs"]
mod faults;
pub mod finding;
pub mod fs;
pub mod glob;
pub mod heap;
pub mod identity;
pub mod lanes;
pub mod limits;
pub mod memory;
mod mode;
pub mod mounts;
pub mod op;
pub mod peer;
pub mod plan;
pub mod pool;
pub mod probe;
mod progress;
pub mod promptness;
pub mod shares;
pub mod size;
pub mod socket;
pub mod staging;
pub mod turns;
pub mod usage;

#[cfg(test)]
mod testing;

pub use budget::{Budget, Reservation};
pub use buffer::{Buf, BufferPool};
pub use engine::{Completion, Engine, EngineKind};
pub use identity::{Creds, LocalGid, LocalUid};
pub use lanes::{Client, Lane, Queue};
pub use mode::{Mode, UnknownMode};
pub use op::{Keep, Op, OpResult, WriteSync};
pub use pool::{Pool, PoolFull, PoolLimits};
pub use rustix::io::Errno;
pub use shares::{Share, Shares};
pub use turns::{ClientKey, Sharer};

/// Result of everything that asks the kernel: the value, or the kernel's errno.
pub type Result<T> = core::result::Result<T, Errno>;
