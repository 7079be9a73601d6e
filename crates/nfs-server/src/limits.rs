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

// The handle table of a server that may not open by handle (rootless).

/// Most objects the handle table remembers; the oldest unused is forgotten for a new one and its
/// handles become stale. About 200 bytes of disk each.
pub const HANDLE_TABLE_OBJECTS_MAX: u64 = 4 << 20;
/// Names remembered per object (hard links, old names); the oldest is forgotten for a new one.
pub const HANDLE_TABLE_LOCATIONS_MAX: usize = 8;
/// Most paths tried to find an object again (its hard links, and those of directories on the way).
pub const HANDLE_TABLE_PATHS_MAX: usize = 16;
/// Longest such path, in bytes: what one openat2 takes (PATH_MAX). An unprivileged server loses
/// files that lie deeper from its cache's sight.
pub const HANDLE_TABLE_PATH_BYTES_MAX: usize = 4096;
/// Most records read to make these paths.
pub const HANDLE_TABLE_CLIMB_STEPS_MAX: usize = 4096;
/// Most objects written by one transaction, over all callers that wait.
pub const HANDLE_TABLE_GROUP_MAX: usize = 8192;
/// Callers that may wait for the committer; more wait to be let in.
pub const HANDLE_TABLE_QUEUE_MAX: usize = 256;
/// Used objects whose age is yet to be written; more are not noted and may be forgotten earlier.
pub const HANDLE_TABLE_TOUCHED_MAX: usize = 64 << 10;
/// Memory for pages of the table's file, in bytes.
pub const HANDLE_TABLE_CACHE_BYTES_MAX: usize = 8 << 20;
/// Longest name, in bytes: more than any Linux file system takes (255).
pub const HANDLE_TABLE_NAME_BYTES_MAX: usize = 4096;

// The control socket.

/// Longest request on the control socket, in bytes.
pub const CONTROL_REQUEST_BYTES_MAX: usize = 64 << 10;
/// Longest reply a `ctl` command takes, in bytes.
pub const CONTROL_REPLY_BYTES_MAX: u64 = 64 << 20;
/// Connections served at once on the control socket; more wait to be accepted.
pub const CONTROL_CONNECTIONS_MAX: usize = 16;
/// A control connection that says nothing for this many seconds is closed.
pub const CONTROL_IDLE_SECONDS_MAX: u64 = 30;
/// Clients listed by `ctl clients`.
pub const CONTROL_CLIENTS_MAX: usize = 10_000;

// portmap and rpcbind.

/// Longest call that our own portmap takes and longest reply we take from an rpcbind, in bytes.
pub const PORTMAP_RECORD_BYTES_MAX: usize = 16 << 10;
/// TCP connections our own portmap serves at once; more wait to be accepted.
pub const PORTMAP_CONNECTIONS_MAX: usize = 64;
/// A connection to our own portmap that sends nothing for this many seconds is closed.
pub const PORTMAP_IDLE_SECONDS_MAX: u64 = 10;
/// How long an rpcbind may take for one answer, in seconds.
pub const RPCBIND_ANSWER_SECONDS_MAX: u64 = 2;
