//! The commands' named limits.

use std::time::Duration;

/// Calls that a command which goes down a tree keeps on their way.
pub(crate) const CALLS_IN_FLIGHT_MAX: usize = 32;

/// How often `rm -r` goes down a tree again because directories were not empty after all: the server's
/// listing may have lost names while others were removed.
pub(crate) const REMOVE_ROUNDS_MAX: usize = 4;

/// Largest window that `--window` takes, transfers.
pub(crate) const WINDOW_MAX: u32 = 1024;

/// Pieces of a file's contents that wait for the thread that writes standard output.
pub(crate) const PIECES_WAITING_MAX: usize = 1;

/// The longest time of an answer that `ping` tells apart, nanoseconds: what `--timeout` takes at most.
pub(crate) const PING_NANOSECONDS_MAX: u64 = 1_000_000_000_000_000;

/// How long the server is given to take a mount that has ended off its list.
pub(crate) const GOODBYE_MAX: Duration = Duration::from_secs(1);
