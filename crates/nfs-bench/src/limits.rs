//! Caps of the measuring program.

/// Calls in flight on one connection of a load.
pub const DEPTH_MAX: usize = 256;
/// Clients that move one file together: each is a thread of the load.
pub const CLIENTS_MAX: usize = 64;
/// Longest reply that a load accepts, in bytes: nothing it asks for is longer than 1 MiB of data.
pub const REPLY_BYTES_MAX: usize = (1 << 20) + 64 * 1024;
/// Rounds of one run; more only narrow the spread of the medians.
pub const ROUNDS_MAX: usize = 99;
/// Seconds a server may take to accept connections; under callgrind each takes many times longer than bare.
pub const START_SECONDS_MAX: u64 = 90;
/// READs or WRITEs that one call of an application becomes.
pub const PIECES_MAX: u32 = 256;
/// Seconds that a load waits for the next reply before it gives the server up.
pub const REPLY_SECONDS_MAX: i64 = 120;
/// Size of a measured file in GiB: more only takes longer, and the fast device lies in memory.
pub const FILE_GIB_MAX: f64 = 1024.0;
/// Largest READ or WRITE that is asked for, in bytes: beyond it servers and clients gain nothing.
pub const PIECE_BYTES_MAX: u32 = 1 << 20;
/// Small files of the client comparison: more only take longer, and they lie in memory.
pub const SMALL_FILES_MAX: usize = 100_000;
/// Seconds that a guest with the kernel's client may take for one measurement, its boot included.
pub const GUEST_SECONDS_MAX: u64 = 300;
/// Seconds of a storm: a figure for each of them is kept.
pub const STORM_SECONDS_MAX: u64 = 24 * 3600;
/// Reasons for failed calls of a storm's polite client that are told apart; calls that fail for others are counted
/// together.
pub const FAILURE_REASONS_MAX: usize = 32;
/// Idle connections that the list of bars asks for.
pub const IDLE_CONNECTIONS_MAX: u64 = 10_000;
/// How often a measurement is taken again that was taken while the machine's cores were far apart.
pub const AGAIN_MAX: usize = 3;
