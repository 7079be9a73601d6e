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
//! - [`host_names`]: the addresses of hosts and netgroups by their names.
//! - [`future_boxes`], [`tasks`]: boxes for futures, and tasks, that are used again.
//! - [`op`], [`engine`], [`plan`], [`probe`]: reads, writes and flushes as values, executed by an
//!   io_uring ring or by the thread pool with the same results.
//! - [`pages`]: what the page cache has of a file, on its way to a socket without a copy.
//! - [`read_waits`], [`write_waits`]: which reads, and which writes to the page cache, wait for the disk although they
//!   are told not to wait.
//! - [`auto`], [`memory`]: which way of moving bytes suits a file, and what that depends on around it.
//!
//! A program that wants only a part of it takes the features of that part. Without any, there are [`budget`],
//! [`buffer`], [`glob`], [`size`] and [`finding`], with few dependencies; `files` adds [`fs`] with what it needs, and
//! `serve`, the default, all else.
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

#[cfg(feature = "serve")]
pub mod accounts;
#[cfg(feature = "serve")]
pub mod auto;
pub mod budget;
pub mod buffer;
#[cfg(feature = "serve")]
pub mod busy_poll;
#[cfg(feature = "files")]
pub mod caps;
#[cfg(feature = "serve")]
pub mod confine;
#[cfg(feature = "serve")]
mod control_groups;
#[cfg(feature = "serve")]
pub mod crash;
#[cfg(feature = "serve")]
pub mod engine;
#[cfg(feature = "serve")]
pub mod event_loop;
#[cfg(all(feature = "files", any(test, feature = "faults")))]
pub mod faults;
#[cfg(all(feature = "files", not(any(test, feature = "faults"))))]
#[path = "no_faults.rs"]
mod faults;
pub mod finding;
#[cfg(feature = "files")]
pub mod fs;
#[cfg(feature = "serve")]
pub mod future_boxes;
pub mod glob;
#[cfg(feature = "serve")]
pub mod heap;
#[cfg(feature = "serve")]
pub mod host_names;
#[cfg(feature = "files")]
pub mod identity;
#[cfg(feature = "serve")]
pub mod lanes;
pub mod limits;
#[cfg(feature = "serve")]
pub mod memory;
#[cfg(feature = "files")]
mod mode;
#[cfg(feature = "files")]
pub mod mounts;
#[cfg(feature = "serve")]
pub mod op;
#[cfg(feature = "serve")]
pub mod pages;
#[cfg(feature = "serve")]
pub mod peer;
#[cfg(feature = "files")]
pub mod plan;
#[cfg(feature = "serve")]
pub mod pool;
#[cfg(feature = "serve")]
pub mod probe;
#[cfg(feature = "serve")]
pub mod processors;
#[cfg(feature = "files")]
mod progress;
#[cfg(feature = "serve")]
pub mod promptness;
#[cfg(feature = "serve")]
pub mod read_waits;
#[cfg(feature = "serve")]
mod rests;
#[cfg(feature = "serve")]
pub mod shares;
pub mod size;
#[cfg(feature = "serve")]
pub mod socket;
#[cfg(feature = "serve")]
pub mod staging;
#[cfg(feature = "serve")]
pub mod tasks;
#[cfg(feature = "serve")]
pub mod turns;
#[cfg(feature = "serve")]
pub mod usage;
#[cfg(feature = "serve")]
pub mod wake_ups;
#[cfg(feature = "serve")]
pub mod write_waits;

#[cfg(test)]
mod testing;

pub use budget::{Budget, Reservation};
pub use buffer::{Buf, BufferPool};
#[cfg(feature = "serve")]
pub use busy_poll::BusyPoll;
#[cfg(feature = "serve")]
pub use engine::{Completion, Engine, EngineKind};
#[cfg(feature = "serve")]
pub use future_boxes::{FutureBox, FutureBoxes};
#[cfg(feature = "files")]
pub use identity::{Creds, LocalGid, LocalUid};
#[cfg(feature = "serve")]
pub use lanes::{Client, Lane, Queue};
#[cfg(feature = "files")]
pub use mode::{Mode, UnknownMode};
#[cfg(feature = "serve")]
pub use op::{Keep, Op, OpResult, WriteSync};
#[cfg(feature = "serve")]
pub use pages::{FileData, Pages, Pipes};
#[cfg(feature = "serve")]
pub use pool::{Pool, PoolFull, PoolLimits};
#[cfg(feature = "serve")]
pub use read_waits::ReadWaits;
pub use rustix::io::Errno;
#[cfg(feature = "serve")]
pub use shares::{Share, Shares};
#[cfg(feature = "serve")]
pub use tasks::Tasks;
#[cfg(feature = "serve")]
pub use turns::{ClientKey, Sharer};
#[cfg(feature = "serve")]
pub use write_waits::WriteWaits;

/// Result of everything that asks the kernel: the value, or the kernel's errno.
pub type Result<T> = core::result::Result<T, Errno>;
