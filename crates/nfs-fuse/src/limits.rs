//! The mount's named limits. Each says what it bounds and why it has its value.

use std::time::Duration;

/// Bytes of requests in work at once; a request that would exceed it waits, and those behind it with
/// it. A read or a write counts with its data, everything else with [`REQUEST_BYTES`].
pub const IN_WORK_BYTES_MAX: u32 = 64 * 1024 * 1024;

/// What a request without data counts, bytes: so at most 1024 of them are in work.
pub const REQUEST_BYTES: u32 = 64 * 1024;

/// Largest READ and WRITE of the kernel, bytes: what Linux sends at most without being told otherwise
/// (`fs.fuse.max_pages_limit`).
pub const TRANSFER_BYTES_MAX: u32 = 1024 * 1024;

/// Requests that the kernel may have under way without a process that waits: read-ahead, releases.
pub const BACKGROUND_REQUESTS_MAX: u16 = 128;

/// Inodes that the table holds. The kernel says which it still needs, and keeps them as long as it has
/// memory; beyond this a name that was not known is not looked up any more (ENOMEM).
pub const INODES_MAX: usize = 8 * 1024 * 1024;

/// Files and directories open at once.
pub const OPEN_MAX: usize = 1024 * 1024;

/// Callers whose groups are remembered.
pub const CALLERS_MAX: usize = 4096;

/// How long a caller's groups are remembered. A process that changes them is taken for what it was
/// that long.
pub const CALLER_AGE_MAX: Duration = Duration::from_secs(1);

/// Identities of callers whose clients are kept.
pub const IDENTITIES_MAX: usize = 1024;

/// Bytes of `/proc/PID/status` that are read for a caller's groups.
pub const PROC_STATUS_BYTES_MAX: u64 = 64 * 1024;

/// Room for one reply of the server with part of a directory, bytes.
pub const DIRECTORY_REPLY_BYTES: u32 = 64 * 1024;

/// Names tried for a file that is removed while it is open.
pub const SILLY_NAMES_MAX: u32 = 16;

/// How long the kernel may remember names and attributes unless the options say otherwise.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(1);

/// The longest time that names and attributes may be remembered.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(3600);

/// Most threads that take requests from the kernel.
pub const THREADS_MAX: usize = 64;

/// The longest name that FUSE carries in a listing, bytes (`FUSE_NAME_MAX`).
pub const NAME_BYTES_MAX: usize = 1024;

/// Who wrote to a file since it was last safe, told apart; with more of them, whoever closes it waits.
pub const WRITERS_MAX: usize = 64;

/// How often a program that waits for the server is looked at: whether it was asked to end (a file of
/// `/proc` read each time).
pub const ENDING_LOOK_EVERY: Duration = Duration::from_millis(250);

/// Files whose last bytes were lost after their last close that are remembered, to be told at the end.
pub const LOST_MAX: usize = 1024;
