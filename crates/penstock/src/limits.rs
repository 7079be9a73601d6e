//! The commands' named limits.

/// Calls that a command which goes down a tree keeps on their way.
pub(crate) const CALLS_IN_FLIGHT_MAX: usize = 32;

/// How often `rm -r` goes down a tree again because directories were not empty after all: the server's
/// listing may have lost names while others were removed.
pub(crate) const REMOVE_ROUNDS_MAX: usize = 4;
