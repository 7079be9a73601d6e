//! The client's named limits. Each says what it bounds and why it has its value.

use std::time::Duration;

/// Longest text that is read as a URL, bytes: what Linux takes as one argument of a program.
pub const URL_BYTES_MAX: usize = 128 * 1024;

/// Longest decoded path of a URL, bytes. Each name of it is looked up by itself, so that no PATH_MAX
/// bounds what lies in a tree; written out with each byte as %XX it fits [`URL_BYTES_MAX`].
pub const URL_PATH_BYTES_MAX: usize = 32 * 1024;

/// Longest path that MOUNT is asked for, bytes: MNTPATHLEN (RFC 1813 §5.1.2).
pub const MOUNT_PATH_BYTES_MAX: usize = 1024;

/// The smallest pieces that a limit on bytes per second cuts data into, bytes.
pub const LIMIT_PIECE_BYTES_MIN: u64 = 4096;

/// The longest that somebody who waits for a limit on bytes per second sleeps without looking whether
/// to stop.
pub const LIMIT_WAIT_MAX: Duration = Duration::from_millis(100);

/// The longest time that a URL may give a call, seconds: some days, and nowhere near an overflow.
pub const URL_TIMEOUT_SECONDS_MAX: u64 = 1_000_000;

/// The longest name of a network interface, bytes: IFNAMSIZ without its NUL.
pub const INTERFACE_BYTES_MAX: usize = 15;

/// How long a call may take whose URL forbids to send it again, unless it says: libnfs's `timeo`.
pub const SOFT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);

/// Calls that wait for their replies on one connection, unless the options say otherwise.
pub const IN_FLIGHT_DEFAULT: u32 = 256;

/// The most calls that the options may let wait on one connection.
pub const IN_FLIGHT_MAX: u32 = 16 * 1024;

/// Largest reply record accepted, bytes: 4 MiB of READ data with room for its head. One record at a
/// time is assembled per connection.
pub const REPLY_BYTES_MAX: usize = 4 * 1024 * 1024 + 64 * 1024;

/// Fragments that one reply record may come in. Real servers send one.
pub const REPLY_FRAGMENTS_MAX: u32 = 1024;

/// Answers to calls of the server that may wait to be sent, bytes; what comes beyond is not answered.
/// Without callbacks a server has no reason to call at all.
pub const ANSWERS_BYTES_MAX: usize = 4096;

/// Read buffer of a connection, bytes. Replies that fit are cut out of it; longer ones are received
/// straight into their own memory.
pub const READ_BUFFER_BYTES: usize = 64 * 1024;

/// A reply's head is looked for within this, bytes: RPC header with the longest verifier, status,
/// attributes and the fixed fields before READ's data come to 532.
pub const REPLY_HEAD_BYTES_MAX: usize = 1024;

/// Calls smaller than this share one buffer on their way out, bytes.
pub const BATCH_BYTES: usize = 64 * 1024;

/// Pieces handed to one vectored write.
pub const WRITE_PIECES_MAX: usize = 64;

/// How long a call waits for its reply unless the options say otherwise, reconnects included: a server
/// that restarts may check its file systems first.
pub const CALL_TIMEOUT_DEFAULT: Duration = Duration::from_secs(300);

/// What a longer time of a connection's options counts as: the clock cannot be put forward by any.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// How long a connection may say nothing while calls wait before it is made again, unless the options
/// say otherwise; doubled each time in a row, up to [`RETRY_AFTER_MAX`].
pub const RETRY_AFTER_DEFAULT: Duration = Duration::from_secs(15);

/// The longest that a silent connection is waited for, unless the options start with more.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// First pause after `NFS3ERR_JUKEBOX`; doubled at each further one.
pub const JUKEBOX_PAUSE_FIRST: Duration = Duration::from_millis(100);

/// The longest pause before a call that met `NFS3ERR_JUKEBOX` is made again.
pub const JUKEBOX_PAUSE_MAX: Duration = Duration::from_secs(5);

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

/// Names that one pattern in an address may match.
pub const PATTERN_MATCHES_MAX: usize = 128 * 1024;

/// READ and WRITE size of the file API where the server takes it, bytes.
pub const TRANSFER_BYTES_MAX: u32 = 1024 * 1024;

/// The smallest READ and WRITE size that a server's FSINFO is believed, bytes: with a few bytes each, no
/// transfer would ever end. What Linux takes at the least (`NFS_MIN_FILE_IO_SIZE`).
pub const TRANSFER_BYTES_MIN: u32 = 1024;

/// The most READs ahead of one reader whose window is found by measuring: at 1 MiB each, what a link of
/// 10 Gbit/s carries in 27 ms.
pub const READ_AHEAD_TRANSFERS_MAX: u32 = 32;

/// How often a window becomes shallow for two rounds to measure the latency again, whole seconds.
pub const WINDOW_LATENCY_EVERY: Duration = Duration::from_secs(4);

/// Rounds of transfers between two trials of larger ones, after many that did not pay.
pub const WINDOW_SIZE_PAUSE_MAX: u32 = 768;

/// Readers of one file that are told apart; the one unused for longest gives way.
pub const READ_STREAMS_MAX: usize = 8;

/// Reads of one file that are remembered to find readers in: four of each of four readers.
pub const READS_SEEN_MAX: usize = 16;

/// Ranges that a sequential reader passed over, kept to know late reads from repeated ones.
pub const STREAM_HOLES_MAX: usize = 8;

/// A reader's credit: a read in its place adds one, up to this; any other takes one.
pub const STREAM_CREDIT_MAX: u32 = 8;

/// How long data read ahead is kept for a reader that does not come for it, and so how old it may be
/// when it is given out.
pub const READ_AHEAD_KEPT: Duration = Duration::from_secs(1);

/// How long data read ahead is kept for a reader that does not come for it while another needs the
/// memory.
pub const READ_AHEAD_KEPT_WHEN_SHORT: Duration = Duration::from_millis(50);

/// Most bytes that one read of a [`Cursor`](crate::Cursor) asks the file for: its caller may give any room.
pub const CURSOR_READ_BYTES_MAX: usize = 1024 * 1024;

/// Most bytes that one write of a [`Cursor`](crate::Cursor) copies and takes over.
pub const CURSOR_WRITE_BYTES_MAX: usize = 1024 * 1024;

/// Largest READ, bytes: its reply has to fit [`REPLY_BYTES_MAX`].
pub const READ_BYTES_MAX: u32 = 4 * 1024 * 1024;

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

/// Files copied at once unless the options say otherwise: enough to keep a server and a network of
/// some milliseconds busy with small files; one large file fills its window alone.
pub const JOBS_DEFAULT: u32 = 32;

/// The most files that the options may let be copied at once.
pub const JOBS_MAX: u32 = 1024;

/// Directories that a copy reads at once. Each keeps its place in its ancestors.
pub const WALKERS_MAX: usize = 8;

/// Files found and not yet begun that a copy holds in memory.
pub const WORK_QUEUE_MAX: usize = 64;

/// Files with several names that a copy remembers, to link their further names; some 100 bytes each.
pub const HARD_LINKS_MAX: usize = 1024 * 1024;

/// Bytes per read and write of a file of this host.
pub const LOCAL_PIECE_BYTES: usize = 1024 * 1024;

/// Pieces of a file of this host that are read ahead, or wait to be written.
pub const LOCAL_PIECES_MAX: usize = 4;

/// Buffers for files of this host that are used again, bytes. What does not fit is allocated.
pub const LOCAL_MEMORY_BYTES: u64 = 64 * 1024 * 1024;

/// What direct reads and writes of this host's files begin and end at, bytes: enough for all disks
/// that Linux knows.
pub const DIRECT_ALIGN_BYTES: usize = 4096;

/// How far the data of one file that is not yet on stable storage may reach below its end, bytes.
/// What an interrupted copy left is trusted below that.
pub const TRANSFER_UNCOMMITTED_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// A copy that goes on begins at a multiple of this, bytes.
pub const RESUME_ALIGN_BYTES: u64 = 1024 * 1024;

/// Bytes of zeros that become a hole.
pub const SPARSE_BLOCK_BYTES: usize = 4096;

/// How often a destination may appear or vanish under a copy before it gives up.
pub const UNSTEADY_MAX: u32 = 4;
/// LOOKUPs on their way for entries that a listing gave without attributes.
pub const LISTING_LOOKUPS_MAX: usize = 16;

/// Directories of a tree whose listing is begun before the walk comes to them. Each holds one page of
/// entries, at most [`READDIR_BYTES`] of the reply.
pub const TREE_AHEAD_DEFAULT: usize = 8;

/// Listings begun ahead that a tree keeps, the ones that it has not come to for long among them.
pub const TREE_AHEAD_KEPT_MAX: usize = 4 * TREE_AHEAD_DEFAULT;

/// How far down from the next entry a tree looks for directories to begin ahead.
pub const TREE_AHEAD_LOOK_MAX: usize = 1024;

/// Calls that a removal or a change of a tree keeps on their way.
pub const TREE_CALLS_MAX: usize = 32;

/// How often the removal of a tree goes through it because directories were not empty after all: the
/// server's listing may have lost names while others were removed.
pub const REMOVE_ROUNDS_MAX: u32 = 4;

/// Directories within each other that a tree goes down; deeper ones are an error of theirs.
pub const TREE_DEPTH_MAX: usize = 4096;
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

/// Slots of an NFSv4.1 session that are asked for: as many requests are under way at once.
pub const NFS4_SLOTS_MAX: u32 = 64;
/// Operations of a COMPOUND that are asked for, SEQUENCE included: a path of some names in one call.
pub const NFS4_OPS_MAX: u32 = 16;
/// The longest message of a session that is asked for, bytes: 1 MiB of data and what stands around it.
pub const NFS4_MESSAGE_BYTES_MAX: u32 = (1 << 20) + NFS4_OVERHEAD_BYTES;
/// Bytes of a message beside its data: RPC headers, SEQUENCE, PUTFH and the operation.
pub const NFS4_OVERHEAD_BYTES: u32 = 2048;
/// The longest reply that is to be kept for a repetition, bytes: OPEN with GETFH and GETATTR.
pub const NFS4_CACHED_BYTES_MAX: u32 = 4096;
/// Bytes of entries that one READDIR asks for.
pub const NFS4_READDIR_BYTES: u32 = 64 * 1024;
/// How often in a row a session is made anew for one COMPOUND: a server that loses each at once is not asked
/// for ever.
pub const NFS4_RENEWALS_MAX: u32 = 4;
/// Names of a path that go into one COMPOUND: with SEQUENCE, PUTFH, GETFH and GETATTR no more than
/// [`NFS4_OPS_MAX`] operations, and as few as servers give that allow fewer.
pub const NFS4_NAMES_MAX: usize = 4;
/// Files of a session that stay open without anybody who holds them: those that were just made, and those that are
/// read and written by their handles alone.
pub const NFS4_OPENS_UNHELD_MAX: usize = 64;
/// How often in a row one READ or WRITE opens its file, where the server loses the open each time.
pub const NFS4_REOPENS_MAX: u32 = 8;
/// Results of a COMPOUND that reads: those of SEQUENCE, PUTFH, GETATTR and READ.
pub const NFS4_READ_RESULTS: u32 = 4;
/// Handles of more than 64 bytes that a client of NFSv4 keeps, for which shorter ones stand on this side: some 20 MiB.
pub const NFS4_LONG_HANDLES_MAX: usize = 64 * 1024;

/// Longest name that file systems take, bytes: NAME_MAX.
pub const NAME_BYTES_MAX: usize = 255;
/// Names of one directory that a mirror compares with the source's; some 250 bytes each. As many as a whole-directory
/// listing keeps.
pub const MIRROR_NAMES_MAX: usize = 16 * 1024 * 1024;
/// Names beyond the source that a mirror keeps until the end to remove them.
pub const MIRROR_EXTRAS_MAX: usize = 4 * 1024 * 1024;
/// The first pause before a file that failed is tried again; doubled at each further one.
pub const RETRY_PAUSE_FIRST: Duration = Duration::from_secs(1);
/// The longest pause before a file that failed is tried again.
pub const RETRY_PAUSE_MAX: Duration = Duration::from_secs(30);

/// Exports that an error names whose path lies in none of them.
pub const EXPORTS_TOLD_MAX: usize = 10;

/// How long an examination of a server ([`crate::doctor`]) may take in all, its cleaning up left out.
pub const DOCTOR_TIME_MAX: Duration = Duration::from_secs(60);

/// How long an examination measures one kind of call.
pub const DOCTOR_MEASURE_MAX: Duration = Duration::from_secs(4);

/// Calls that an examination times of each kind that changes nothing.
pub const DOCTOR_SAMPLES: usize = 200;

/// Rounds of an unstable WRITE, its COMMIT and a stable WRITE in an examination.
pub const DOCTOR_STABLE_SAMPLES: u32 = 64;

/// Bytes of the READs and WRITEs of an examination: a small one, a page of most file systems.
pub const DOCTOR_READ_BYTES: u32 = 4096;

/// Bytes of the one listing in which an examination looks for a file to read.
pub const DOCTOR_LISTED_MAX: u32 = 32 * 1024;

/// Entries of the directory that an examination lists while it changes.
pub const DOCTOR_ENTRIES: usize = 64;

/// Bytes of each page of that listing: some ten entries.
pub const DOCTOR_PAGE_BYTES: u32 = 1200;

/// Pages after which a listing in an examination counts as one without an end.
pub const DOCTOR_PAGES_MAX: usize = 256;

/// Looks at the server's clock in an examination, of which the best counts.
pub const DOCTOR_CLOCK_LOOKS: usize = 8;

/// Names that an examination tries for its directory where each is taken; one has 64 random bits.
pub const DOCTOR_NAMES_TRIED_MAX: usize = 4;

/// How long an examination tries to remove what it made, and to take leave: less than Ctrl-C waits for.
pub const DOCTOR_CLEAN_UP_MAX: Duration = Duration::from_secs(4);

/// How long an examination waits for a host's portmapper, which firewalls like to hide.
pub const DOCTOR_PORTMAP_TIMEOUT: Duration = Duration::from_secs(2);

/// Registered programs and exports that an examination keeps and prints.
pub const DOCTOR_PROGRAMS_MAX: usize = 256;

/// Different statuses that are counted apart for one procedure; a server may answer any number.
pub const STATUSES_COUNTED_MAX: usize = 24;

/// The longest time that the statistics of calls tell apart: longer ones count as this in percentiles.
pub const LATENCY_TOLD_MAX: Duration = Duration::from_secs(64);
