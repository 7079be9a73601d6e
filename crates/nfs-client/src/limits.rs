//! The client's named limits. Each says what it bounds and why it has its value.

use std::time::Duration;

/// Longest text that is read as a URL, bytes.
pub const URL_BYTES_MAX: usize = 16 * 1024;

/// Longest decoded path of a URL, bytes: what Linux takes as a path.
pub const URL_PATH_BYTES_MAX: usize = 4096;

/// Calls that wait for their replies on one connection, unless the options say otherwise.
pub const IN_FLIGHT_DEFAULT: u32 = 256;

/// The most calls that the options may let wait on one connection.
pub const IN_FLIGHT_MAX: u32 = 16 * 1024;

/// Largest reply record accepted, bytes: 4 MiB of READ data with room for its head. One record at a
/// time is assembled per connection.
pub const REPLY_BYTES_MAX: usize = 4 * 1024 * 1024 + 64 * 1024;

/// Fragments that one reply record may come in. Real servers send one.
pub const REPLY_FRAGMENTS_MAX: usize = 1024;

/// Read buffer of a connection, bytes. Replies that fit are cut out of it; longer ones are received
/// straight into their own memory.
pub const READ_BUFFER_BYTES: usize = 64 * 1024;

/// Calls smaller than this share one buffer on their way out, bytes.
pub const BATCH_BYTES: usize = 64 * 1024;

/// Pieces handed to one vectored write.
pub const WRITE_PIECES_MAX: usize = 64;

/// How long a call waits for its reply unless the options say otherwise, reconnects included.
pub const CALL_TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);

/// How long one attempt to connect may take unless the options say otherwise.
pub const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// First pause before connecting again; doubled at each failure.
pub const RECONNECT_PAUSE_FIRST: Duration = Duration::from_millis(20);

/// Longest pause before connecting again.
pub const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(5);

/// Symbolic links followed in one path walk, as Linux does (`MAXSYMLINKS`).
pub const SYMLINKS_MAX: usize = 40;

/// Names of one path walk.
pub const WALK_NAMES_MAX: usize = 4096;

/// Bytes of one READDIR or READDIRPLUS reply that the file API asks for.
pub const READDIR_BYTES: u32 = 64 * 1024;

/// Entries that a whole-directory listing keeps in memory.
pub const READDIR_ENTRIES_MAX: usize = 16 * 1024 * 1024;

/// READ and WRITE size of the file API where the server takes it, bytes.
pub const TRANSFER_BYTES_MAX: u32 = 1024 * 1024;

/// READs kept in flight while a file is streamed.
pub const STREAM_WINDOW: usize = 4;

/// How often a listing starts again because the server's cookies became invalid under it.
pub const READDIR_RESTARTS_MAX: u32 = 3;

/// How often in a row a server may take no byte of a WRITE.
pub const EMPTY_WRITES_MAX: u32 = 4;

/// Payloads up to this go out in one piece with their call's head, bytes: copying so little costs less
/// than one more piece in the write.
pub const PAYLOAD_INLINE_BYTES: usize = 4096;

/// Memory of all files' windows of one client unless the options say otherwise, bytes.
pub const MEMORY_BYTES_DEFAULT: u64 = 64 * 1024 * 1024;

/// The most connections of one client to one server.
pub const NCONNECT_MAX: u32 = 16;

/// Write verifiers that a server may show, one after the other, while nothing of a file comes to stable
/// storage: so many restarts in a row are no accident.
pub const VERIFIER_CHANGES_MAX: u32 = 32;

/// States of one file that are remembered to tell our changes from others': more than changes of one
/// file are ever on their way.
pub const WCC_STATES_MAX: usize = 256;

/// How long a file's attributes count as fresh while every change that is seen is our own: the shortest
/// time of the Linux kernel's client (`acregmin`).
pub const ATTRIBUTES_AGE_MAX: Duration = Duration::from_secs(3);

/// How long written data waits for a neighbour before it is sent alone.
pub const WRITE_LINGER: Duration = Duration::from_secs(1);

/// WRITEs in flight behind one writer, where the depth is measured.
pub const WRITE_BEHIND_TRANSFERS_MAX: u32 = 64;

/// Pieces of less than a transfer divided by this are copied together into one WRITE; larger ones are
/// sent from where the caller has them.
pub const GATHER_FRACTION: usize = 4;

/// Bytes of one file that are written and not committed, at most, however much memory there is: what
/// has to be sent again when the server restarts, and what an interrupted copy loses.
pub const FILE_UNCOMMITTED_BYTES_MAX: u64 = 64 * 1024 * 1024;
