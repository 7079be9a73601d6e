//! The caps of this crate.

use std::time::Duration;

/// Threads on which the connections of one session run: one receives while another sends.
pub(crate) const THREADS: usize = 2;

/// How long Python's signal handlers wait at most while a call is on its way.
pub(crate) const SIGNALS_EVERY: Duration = Duration::from_millis(100);

/// How long the end of a session may take when Python ends: a server that does not answer is left to its lease.
pub(crate) const FAREWELL_MAX: Duration = Duration::from_secs(2);

/// Bytes that one read asks the client for at once; a longer one is put together from these in its place.
pub(crate) const READ_PIECE_BYTES: u64 = 16 * 1024 * 1024;

/// Symbolic links of a listing that are looked at side by side.
pub(crate) const LINKS_AT_ONCE: usize = 16;

/// Ranges that are read side by side.
pub(crate) const RANGES_AT_ONCE: usize = 16;

/// Bytes of memory that one read of a whole file takes at once because the server says that the file is as long: what
/// is longer is read in parts, each of which came before there is memory for the next.
pub(crate) const READ_WHOLE_BYTES_MAX: u64 = 1024 * 1024 * 1024;
