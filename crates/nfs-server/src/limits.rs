//! Every bound of the server, by name, with what happens at it.
//!
//! A limit that an operator may change is a default here and a key in `config.rs`.

// Configuration and exports.

/// Largest configuration file, in bytes. A larger one is refused before it is read.
pub const CONFIG_BYTES_MAX: u64 = 1 << 20;
/// Most `[[export]]` sections in one configuration.
pub const EXPORTS_MAX: usize = 1024;
/// Most client rules of one export. They are tried in order, so this bounds the work of a MOUNT.
pub const CLIENT_RULES_PER_EXPORT_MAX: usize = 256;
/// Most addresses that one server listens on.
pub const LISTENERS_MAX: usize = 16;
/// Longest pseudo path of an export, in bytes: MNTPATHLEN of RFC 1813 §5.1.2.
pub const PSEUDO_PATH_BYTES_MAX: usize = 1024;
/// Most problems reported for one configuration; the rest is summed up in one line.
pub const CONFIG_PROBLEMS_MAX: usize = 50;
/// Smallest memory budget: room for a few of the largest READs and WRITEs at once.
pub const MEMORY_BYTES_MIN: u64 = 16 << 20;
/// Memory budget when none is configured.
pub const MEMORY_BYTES_DEFAULT: u64 = 256 << 20;
/// Most shards (event-loop threads).
pub const SHARDS_MAX: usize = 256;
/// Most helper threads for calls that may block.
pub const HELPER_THREADS_MAX: usize = 1024;
