//! Every bound of the server, by name, with what happens at it.
//!
//! A limit that an operator may change is a default here and a key in `config.rs`.

// Configuration and exports.

/// Largest configuration file, in bytes. A larger one is refused before it is read.
pub const CONFIG_BYTES_MAX: u64 = 1 << 20;
/// How deep blocks lie in each other in another server's configuration that is imported; what is deeper is not understood.
pub const IMPORT_DEPTH_MAX: usize = 8;
/// Most `[[export]]` sections in one configuration.
pub const EXPORTS_MAX: usize = 1024;
/// Most client rules of one export. They are tried in order, so this bounds the work of a MOUNT.
pub const CLIENT_RULES_PER_EXPORT_MAX: usize = 256;
/// Most names of hosts and netgroups in the `clients` of one configuration.
pub const CLIENT_NAMES_MAX: usize = 256;
/// Most hosts whose addresses are looked up, the hosts of netgroups among them; those beyond are let in by no name.
pub const CLIENT_HOSTS_MAX: usize = 1024;
/// Most look-ups of names that are under way at once, each on a thread of its own.
pub const CLIENT_LOOKUPS_MAX: usize = 8;
/// Addresses of a name that are shown to people; programs are told all.
pub const SHOWN_ADDRESSES_MAX: usize = 8;
/// Seconds after which a name that has addresses is looked up again.
pub const CLIENT_NAME_SECONDS: u64 = 60;
/// Seconds after which a name that has none, or could not be asked for, is looked up again.
pub const CLIENT_NAME_FAILED_SECONDS: u64 = 10;
/// Seconds that a look-up may take until it is told that no answer comes.
pub const CLIENT_NAME_WAIT_SECONDS_MAX: u64 = 5;
/// Seconds for which the last addresses of a name are gone by while the name services do not answer.
pub const CLIENT_NAME_KEPT_SECONDS_MAX: u64 = 15 * 60;
/// Largest weight of a client beside others.
pub const WEIGHT_MAX: u32 = 1000;
/// Fewest bytes a second that a client can be held to: the largest call then takes a minute.
pub const RATE_BYTES_PER_SECOND_MIN: u64 = 64 << 10;
/// Most calls a second that a client can be held to; more is no limit.
pub const RATE_CALLS_PER_SECOND_MAX: u64 = 10_000_000;
/// Clients and exports whose rates are kept in mind. At the cap those are forgotten that owe no time, and if
/// none is such, all.
pub const PACES_MAX: usize = 16 << 10;
/// Most I/O rules of one export. They are tried in order at every READ and WRITE, so this bounds their
/// work.
pub const IO_RULES_PER_EXPORT_MAX: usize = 64;
/// What is read ahead of a sequential stream of direct READs when nothing is configured, bytes: 4 MiB, some READs
/// of the recommended size.
pub const READ_AHEAD_BYTES_DEFAULT: u64 = 4 << 20;
/// Least that may be configured to be read ahead, bytes, but for nothing.
pub const READ_AHEAD_BYTES_MIN: u64 = 64 << 10;
/// Most that may be configured to be read ahead of one stream, bytes.
pub const READ_AHEAD_BYTES_MAX: u64 = 64 << 20;
/// Fewest bytes of a READ whose pages are sent from the page cache. What is less costs less to copy.
pub const SPLICED_BYTES_MIN: u64 = 16 << 10;
/// Fewest bytes of a READ that a helper thread brings into the page cache for that.
pub const SPLICED_FROM_DISK_BYTES_MIN: usize = 256 << 10;
/// Most pipes for the pages of READs, each of two descriptors and some 10 KiB of the kernel's memory; one client has half of
/// them at most. Where there are no more, READs are copied.
pub const PIPES_MAX: usize = 512;
/// Descriptors of the open-file cache for each pipe that there may be.
pub const DESCRIPTORS_PER_PIPE: usize = 16;
/// Most client networks of one I/O rule.
pub const IO_RULE_CLIENTS_MAX: usize = 64;
/// Most addresses that one server listens on.
pub const LISTENERS_MAX: usize = 16;
/// Longest pseudo path of an export, in bytes: MNTPATHLEN of RFC 1813 §5.1.2.
pub const PSEUDO_PATH_BYTES_MAX: usize = 1024;
/// Most problems reported for one configuration; the rest is summed up in one line.
pub const CONFIG_PROBLEMS_MAX: usize = 50;
/// Smallest memory budget in bytes, 16 MiB: room for a few of the largest READs and WRITEs at once.
pub const MEMORY_BYTES_MIN: u64 = 16 << 20;
/// Memory budget in bytes when none is configured: 256 MiB.
pub const MEMORY_BYTES_DEFAULT: u64 = 256 << 20;
/// Most shards (event-loop threads) that a server may be configured to have.
pub const SHARDS_MAX: usize = 256;
/// Milliseconds after which a shard that reads calls looks how busy the shards are, and lets one connection at most go
/// to another.
pub const SHARD_LOOK_MILLISECONDS: u64 = 50;
/// Looks for which a connection stays where it is before it goes to another shard: what it does has to be known.
pub const SHARD_LOOKS_BEFORE_A_MOVE: u64 = 4;
/// For how much of the time a shard is busy from which connections go, in thousandths: small calls wait on it more often
/// than not.
pub const SHARD_BUSY_THOUSANDTHS_MIN: u64 = 500;
/// By how much less a shard is busy to which connections go, in thousandths.
pub const SHARD_DIFFERENCE_THOUSANDTHS_MIN: u64 = 300;
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
/// Longest path tried to find an object again, in bytes: what one openat2 takes (PATH_MAX). An unprivileged server loses
/// files that lie deeper from its cache's sight.
pub const HANDLE_TABLE_PATH_BYTES_MAX: usize = 4096;
/// Most records of the handle table read to make the paths to one object.
pub const HANDLE_TABLE_CLIMB_STEPS_MAX: usize = 4096;
/// Most objects written by one transaction, over all callers that wait.
pub const HANDLE_TABLE_GROUP_MAX: usize = 8192;
/// Callers that may wait for the committer; more wait to be let in.
pub const HANDLE_TABLE_QUEUE_MAX: usize = 256;
/// Used objects whose age is yet to be written; more are not noted and may be forgotten earlier.
pub const HANDLE_TABLE_TOUCHED_MAX: usize = 64 << 10;
/// How long nothing is written to a table that could not be written. It is longer where opening the table
/// takes long: at least nine times that.
pub const HANDLE_TABLE_RETRY: std::time::Duration = std::time::Duration::from_secs(1);
/// How often a caller that asks the table waits for it to be opened anew, before the failure is the answer.
pub const HANDLE_TABLE_READ_TRIES_MAX: usize = 2;
/// Names that went while the table could not be told, to be written when it can: some hundred bytes
/// each. What is beyond stays in the table, where it leads to nothing.
pub const HANDLE_TABLE_OWED_MAX: usize = 16 << 10;
/// Memory for pages of the table's file, in bytes.
pub const HANDLE_TABLE_CACHE_BYTES_MAX: usize = 8 << 20;
/// Longest name, in bytes: more than any Linux file system takes (255).
pub const HANDLE_TABLE_NAME_BYTES_MAX: usize = 4096;

/// How long a round of group commit waits for changes: for those that other threads are at work on, of which most take
/// some tens of microseconds, and before that for those to come whose clients were answered just now. One that has to
/// wait for its disk takes part in a later round.
pub const ROUND_WAITS_MAX: std::time::Duration = std::time::Duration::from_micros(500);
/// How many times as long as the last flush took a round of group commit waits for changes to come, within
/// [`ROUND_WAITS_MAX`]: a change that is there waits longer by so much, so that a flush less is made.
pub const ROUND_GATHERS_FLUSHES_MAX: u32 = 4;
/// Of 2 to this power rounds in a row one waits for changes to come, where the last that did have waited in vain.
pub const ROUNDS_PASSED_LOG2_MAX: u32 = 5;

// Connections.

/// Calls of one connection that may run at once; at the cap its socket is not read. Hundreds may
/// wait for a file system that has stopped answering while others of the same connection go on.
pub const IN_FLIGHT_PER_CONNECTION_MAX: usize = 1024;
/// Calls of one connection that may run when one more is to wait for another run of itself, which began over
/// an earlier connection. Beyond, and beyond half of a shard's, it is dropped: its client asks again.
pub const IN_FLIGHT_BESIDE_AWAITED_MAX: usize = IN_FLIGHT_PER_CONNECTION_MAX / 2;
/// What a connection keeps in mind while it is idle, bytes, beside what tokio and the kernel have for a socket: so much is
/// taken for each of those that are open.
pub const CONNECTION_BYTES_MAX: usize = 2304;
/// Calls of one shard that may run at once, where the memory budget is large enough for so many
/// ([`MEMORY_BYTES_PER_CALL_IN_FLIGHT`]); at the cap its sockets are not read.
pub const IN_FLIGHT_PER_SHARD_MAX: usize = 8192;
/// Bytes of the memory budget for each place of a call that may run at once, on all shards together: 16 KiB. A call that
/// waits takes no more than that besides the budget, with what it keeps in mind ([`CALL_IN_PROGRESS_BYTES_MAX`],
/// [`COMPOUND_IN_PROGRESS_BYTES_MAX`]), the steps that are recorded of it ([`CALL_RECORDED_BYTES_MAX`]) and the record that
/// it came in ([`RECORD_BYTES_PER_PLACE`]). Each shard has places for [`IN_FLIGHT_PER_CONNECTION_MAX`] calls at least.
pub const MEMORY_BYTES_PER_CALL_IN_FLIGHT: u64 = 16 << 10;
/// Bytes of its record with which a call that waits takes one place. One with a longer record takes a place more for each
/// further so many, up to 16 ([`CALL_BYTES_WHOLE_MAX`]); what is longer still is in the memory budget. Nearly all have
/// some hundred bytes.
pub const RECORD_BYTES_PER_PLACE: usize = 1024;
/// What a call in progress keeps in mind while it waits, bytes, without the record it came in: all that is boxed at
/// once for each call. What a COMPOUND needs besides is boxed where one is called.
pub const CALL_IN_PROGRESS_BYTES_MAX: usize = 4608;
/// Boxes of that size that each shard keeps for calls to come, 144 KiB at most. A call that is over when it was looked at
/// once needs one alone; as many as this may wait together.
pub const CALL_BOXES_SPARE_PER_SHARD: usize = 32;
/// The same of a COMPOUND, besides.
pub const COMPOUND_IN_PROGRESS_BYTES_MAX: usize = 6656;
/// Boxes of that size that each shard keeps for COMPOUNDs to come, 104 KiB at most.
pub const COMPOUND_BOXES_SPARE_PER_SHARD: usize = 16;
/// Tasks that each shard keeps for calls to come that have to wait, some 20 KiB at most.
pub const CALL_TASKS_SPARE_PER_SHARD: usize = 32;
/// Bytes that the reply to a COMPOUND has room for when it begins: a GETATTR's with its SEQUENCE, mostly.
pub const COMPOUND_REPLY_BYTES_AT_FIRST: usize = 384;
/// Bytes that the result of one operation has room for when the first begins: all attributes that Linux asks for.
pub const OPERATION_RESULT_BYTES_AT_FIRST: usize = 320;
/// What is recorded of a call that waits, bytes, with all the steps that it may have ([`CALL_STEPS_MAX`]).
pub const CALL_RECORDED_BYTES_MAX: usize = 3584;
/// Calls that one client may have running on a shard, as a multiple of the places that this leaves free, for
/// a weight of 1: half of all where it is alone, so that there is room at once for whoever comes next. A
/// connection of which no call runs may always begin one.
pub const IN_FLIGHT_TIMES_FREE_MAX: u32 = 1;
/// What a connection may use of its shard's thread in one turn, where it has others beside it, in calls that
/// move few bytes, of some microseconds each: a READ or WRITE of 1 MiB, in and out.
pub const TURN_COST_MAX: u64 = 66;
/// Bytes that are moved in the time of a call that moves few: once into the server's memory, and once out of it.
pub const TURN_BYTES_PER_COST: u64 = 32 << 10;
/// What a client may use without a turn each time that the event loop has looked for what came. Cheap calls of
/// somebody who makes few of them wait for nobody's turn.
pub const FREE_COST_MAX: u64 = 8;
/// After how much of its turn a connection lets the event loop look for what came: some tenth of a millisecond.
pub const PAUSE_COST: u64 = 8;
/// Bytes of replies that are sent before the event loop looks for what came, where another connection is beside:
/// a little more than a quarter of a reply to a READ of 1 MiB, and more than is free ([`FREE_COST_MAX`]).
pub const SENT_PER_PAUSE_BYTES_MAX: usize = 288 << 10;
/// Bytes that are received at once where another connection is beside. To receive takes half as long as to send.
pub const RECEIVED_PER_PAUSE_BYTES_MAX: usize = 512 << 10;
/// Bytes of replies that are sent at once on the only connection of a shard: a READ of 1 MiB, head and data.
pub const SENT_AT_ONCE_BYTES_MAX: usize = (1 << 20) + 4096;
/// The part of the READ buffers, and of the WRITE buffers, that one file system may hold, as a divisor:
/// calls that wait for a file system that does not answer leave the rest to others.
pub const BUFFERS_PER_MOUNT_DIVISOR: u64 = 2;
/// How much one client may hold of an export's turns with descriptors, and of the buffers that one file system's
/// READs and its WRITEs may hold: so many times what is left free. Alone it is three parts of four.
pub const TIMES_FREE_PER_MOUNT_MAX: u32 = 3;
/// Seconds that a WRITE waits for its file system, which holds all the buffers that it may
/// ([`BUFFERS_PER_MOUNT_DIVISOR`]), before the client is told to come again.
pub const WRITE_WAITS_SECONDS_MAX: u64 = 5;
/// A stable WRITE is synced with others of its file where so many of them are under way.
pub const SYNCED_WITH_OTHERS_WRITES_MIN: usize = 12;
/// Bytes of a file that clients wrote and did not commit, up to which stable WRITEs of it that come together are synced
/// together: a sync of the file has to wait for those too.
pub const SYNCED_WITH_OTHERS_BYTES_MAX: u64 = 1 << 20;
/// Bytes read at once from a socket where calls begin: some hundred small ones. Of a large WRITE
/// that comes behind them, no more than this has to be copied.
pub const CALLS_READ_BYTES_MAX: usize = 32 << 10;
/// What one client may hold of the memory for replies, as a multiple of what this leaves free, for a weight of 1:
/// three quarters of all where it is alone, which is more than one file system may
/// ([`BUFFERS_PER_MOUNT_DIVISOR`]), so that a client of which one does not answer can use another.
pub const UNSENT_TIMES_FREE_MAX: u32 = 3;
/// Seconds that a client has to take a reply as a whole, from when it is the first that waits, while others
/// wait and it holds more than its share of the memory for replies.
pub const REPLY_SECONDS_UNDER_PRESSURE_MAX: u64 = 5;
/// Bytes read at once from a socket while others wait for memory.
pub const READ_BYTES_UNDER_PRESSURE_MAX: usize = 4096;
/// Bytes of replies that may wait for a slow reader before its socket is read no more.
pub const UNSENT_BYTES_MAX: usize = 4 << 20;
/// Bytes of replies that may wait for a slow reader and are no part of the memory budget by themselves
/// (all but READ, READDIR and READDIRPLUS); they are accounted in the budget from [`UNSENT_BYTES_UNACCOUNTED_MAX`] on.
pub const UNSENT_LOOSE_BYTES_MAX: usize = 512 << 10;
/// Bytes of replies other than those of READ, READDIR and READDIRPLUS that a connection may hold without
/// asking the memory budget.
pub const UNSENT_BYTES_UNACCOUNTED_MAX: usize = 16 << 10;
/// Places for replies, of about 170 bytes each, that a shard keeps for whichever of its connections has replies next. A
/// connection that has sent all keeps none: very many are idle.
pub const UNSENT_PLACES_SPARE: usize = 256;
/// Bytes of a call that a connection may hold without asking the memory budget.
pub const CALL_BYTES_UNACCOUNTED_MAX: usize = 4096;
/// Largest call, bytes, that is taken without asking the memory budget if the rest of it is here: the number
/// of calls in progress bounds how many there are.
pub const CALL_BYTES_WHOLE_MAX: usize = 16 << 10;
/// A WRITE's data begins within so many bytes of its record: RPC header with two 400-byte bodies, handle,
/// and fixed fields.
pub const CALL_HEAD_BYTES_MAX: usize = 1024;
/// Largest call that is no WRITE, bytes: a SYMLINK with the longest path, and room.
pub const CALL_BYTES_MAX: usize = 192 << 10;
/// Most fragments of one record.
pub const FRAGMENTS_PER_RECORD_MAX: u32 = 1024;
/// Seconds that a peer may stay silent in the middle of a call, or read nothing of its replies.
pub const STALLED_PEER_SECONDS_MAX: u64 = 30;
/// Seconds that a peer may stay silent in the middle of a call while others wait for the memory it holds.
pub const STALLED_PEER_SECONDS_UNDER_PRESSURE_MAX: u64 = 1;
/// Bytes a second that a peer must move in the middle of a call when others wait for memory.
pub const PEER_BYTES_PER_SECOND_UNDER_PRESSURE_MIN: usize = 64 << 10;
/// Seconds for which the memory for a call on its way in stays with it, when others wait for memory and its client
/// has more than its share. (What each client may have shrinks as others come.)
pub const RECEIVE_SECONDS_OVER_SHARE_MAX: u64 = 3;
/// Buffers of [`CALLS_READ_BYTES_MAX`] and more that the connections of one shard may have read into and wait with;
/// others read [`READ_BYTES_UNDER_PRESSURE_MAX`] bytes at once until some are back.
pub const SCRATCHES_LENT_MAX: usize = 64;
/// Largest READ and WRITE, bytes.
pub const IO_BYTES_MAX: u32 = 4 << 20;
/// READ and WRITE size recommended to clients, bytes.
pub const IO_BYTES_PREFERRED: u32 = 1 << 20;
/// READDIR size recommended to clients, bytes.
pub const READDIR_BYTES_PREFERRED: u32 = 64 << 10;
/// Largest READDIR and READDIRPLUS reply, bytes.
pub const READDIR_BYTES_MAX: u32 = 1 << 20;
/// Memory that a listing takes while it is made, as a multiple of its reply: entries are kept as
/// values before they are encoded.
pub const READDIR_MEMORY_FACTOR: u64 = 5;
/// Longest name of an extended attribute, bytes: the kernel's 255 with its `user.`. A longer one is
/// NFS4ERR_NAMETOOLONG.
pub const XATTR_NAME_BYTES_MAX: usize = nfs_io::limits::USER_XATTR_NAME_BYTES_MAX;
/// Largest value of an extended attribute, bytes, as the kernel has it. A larger one is NFS4ERR_XATTR2BIG.
pub const XATTR_VALUE_BYTES_MAX: usize = nfs_io::limits::XATTR_VALUE_BYTES_MAX;
/// Longest list of the names of an object's extended attributes, bytes, as the kernel has it.
pub const XATTR_LIST_BYTES_MAX: usize = nfs_io::limits::XATTR_LIST_BYTES_MAX;
/// Memory that the answer to a GETXATTR or LISTXATTRS takes, bytes: the largest value or list, and as much again for
/// each of its copies on the way into the reply.
pub const XATTR_MEMORY_BYTES: u64 = 4 * (64 << 10);
/// Most entries (ACEs) of an ACL that is set; more are NFS4ERR_FBIG. Each becomes an entry of a POSIX ACL at most, so that
/// what was set can be read again.
pub const ACES_MAX: usize = nfs_io::limits::POSIX_ACL_ENTRIES_MAX - 4;
/// Most users and groups of an ACL that are sent by their names; those of a longer one are sent as numbers, so that
/// names take no more memory than [`ACL_MEMORY_BYTES`].
pub const ACES_NAMED_MAX: usize = 256;
/// Memory that the answer to a GETATTR takes which asks for an ACL, bytes: two POSIX ACLs of as many entries as are read,
/// each told in two entries of 32 bytes, and their copies on the way into the reply.
pub const ACL_MEMORY_BYTES: u64 = 512 << 10;
/// Most parts, data and holes, of what one READ_PLUS reads; what would be more is sent as data.
pub const READ_PLUS_SEGMENTS_MAX: usize = 8;
/// Holes that READ_PLUS tells apart from data, bytes: the zeros of shorter ones are sent, which costs less than reading
/// the data around them apart.
pub const READ_PLUS_HOLE_BYTES_MIN: u64 = 64 << 10;
/// Descriptors kept free for listeners, the state directory, mounts, and calls in progress.
pub const FDS_RESERVED: usize = 256;
/// Most connections, further bounded by half of the descriptor limit.
pub const CONNECTIONS_MAX: usize = 65_536;
/// The part of the connections that one host, or one user of the server's own machine, may have, as a divisor.
/// An IPv6 /64 counts as one host. At the cap the one of its connections goes that was idle for longest.
pub const CONNECTIONS_PER_HOLDER_DIVISOR: usize = 4;
/// Milliseconds without a byte and without a call in progress after which a connection may be closed to make room
/// for another.
pub const CONNECTION_IDLE_MILLISECONDS_MIN: u64 = 1000;
/// Connections that were told to make room for others and have not ended yet; at the cap newcomers are refused,
/// and at half of it those of hosts that have their share already: who comes again and again for places of
/// its own leaves room to whoever has none. Each is closed by its shard in a moment, but shards may be busy.
pub const CONNECTIONS_CLOSING_MAX: usize = 512;
/// The same as a part of all connections, where that is less: each still has its descriptor.
pub const CONNECTIONS_CLOSING_DIVISOR: usize = 8;
/// Hosts with more than their share of the connections of which, when all places are taken, an idle connection is
/// looked for before a newcomer is refused.
pub const CONNECTION_HOLDERS_ASKED_MAX: usize = 8;
/// Connections that may wait in a listener until they are accepted, as far as the kernel allows
/// (`net.core.somaxconn`): those that are refused must not be in the way of others.
pub const LISTEN_BACKLOG_MAX: i32 = 4096;
/// When so many connections have ended since the last time, the heap's free pages are given back to the system: about
/// a megabyte of connections that were idle. For fewer it would not be worth the time.
pub const HEAP_TRIM_CONNECTIONS_MIN: u64 = 256;
/// When so many bytes of idle buffers were given up, likewise: the small ones of them were the heap's.
pub const HEAP_TRIM_BUFFERS_BYTES_MIN: u64 = 1 << 20;
/// Seconds given to calls in progress when the server ends.
pub const DRAIN_SECONDS_MAX: u64 = 20;
/// Milliseconds that a peer is given, when the server ends, to take its last replies and close.
pub const LINGER_MILLISECONDS_MAX: u64 = 1000;

// NFSv4.

/// Operations of one COMPOUND, and of those that a session agrees to. Linux asks for 8; with more the rest of them is
/// refused (NFS4ERR_TOO_MANY_OPS).
pub const COMPOUND_OPERATIONS_MAX: u32 = 64;
/// Bytes of a reply to a COMPOUND that came in no session: those that make one are answered with some hundred.
pub const COMPOUND_REPLY_BYTES_NO_SESSION: usize = 16 << 10;
/// Bytes of a reply that must be left before an operation is carried out that cannot be carried out twice: more than the
/// longest result of one, OPEN's with its attributes left out.
pub const COMPOUND_RESULT_BYTES_MIN: usize = 512;
/// Bytes of a call or reply beside the data of one READ or WRITE: RPC's header, and the operations around it.
pub const COMPOUND_BYTES_BESIDE_DATA: u32 = 4096;
/// Seconds that a further READ of one COMPOUND waits for memory or the disk, while it keeps others from the memory of
/// those before; then its client comes again for it.
pub const COMPOUND_DATA_WAITS_SECONDS_MAX: u64 = 2;
/// Bytes that one COPY moves: some tenth of a second from a fast disk. The client asks again for the rest.
pub const COPY_BYTES_MAX: u64 = 64 << 20;
/// How often a client whose lease is over is put out of the way of one operation; then its client comes again.
pub const EXPIRIES_PER_OPERATION_MAX: usize = 3;
/// Sessions that one connection is taken out of when it ends; those of more are told of it by nothing but silence.
pub const ENDINGS_PER_CONNECTION_MAX: usize = 64;
/// Ranges of which a client may have said something for one open (IO_ADVISE); with one more, the first is forgotten.
pub const ADVISED_RANGES_PER_OPEN_MAX: usize = 8;
/// Ranges of all opens together; what is said beyond is not followed. Some 100 bytes each.
pub const ADVISED_RANGES_MAX: u64 = 64 << 10;
/// Bytes that one WILLNEED has read into the page cache; of a longer range, the first.
pub const ADVISED_BYTES_MAX: u64 = 8 << 20;
/// Bytes that all WILLNEEDs together may be asking the kernel for; what is said beyond is not followed.
pub const ADVISED_BYTES_UNDER_WAY_MAX: u64 = 64 << 20;
/// How many of those ranges, and of those bytes, one host may have, as a multiple of what this leaves free: half of all
/// where it is alone.
pub const ADVISED_TIMES_FREE_MAX: u32 = 1;
/// Files of which local programs have locked what clients wait for, that are looked at once a second; who waits in
/// others asks again by itself.
pub const WATCHED_FILES_MAX: usize = 256;
/// How many of those one host may have, as a multiple of what this leaves free: half of all where it is alone.
pub const WATCHED_TIMES_FREE_MAX: u32 = 1;
/// Those who wait in such a file whose ranges are looked at, the first of them: a system call each.
pub const WATCHED_WAITERS_MAX: usize = 8;
/// Seconds in which a client answers a call of the server. It is a hint to a client that asks by itself every 30 s; who
/// takes longer is not called until it binds a connection anew.
pub const CALLBACK_SECONDS_MAX: u64 = 5;
/// Bytes of a client's reply to a call of the server: two results and a tag, some 150.
pub const CALLBACK_REPLY_BYTES_MAX: usize = 4096;
/// Calls of the server in flight over one connection; of each session one.
pub const CALLBACKS_PER_CONNECTION_MAX: usize = 16;
/// Calls of the server in flight to the clients of one host: so many may not answer, each for its time.
pub const CALLBACKS_PER_HOST_MAX: usize = 64;
/// Calls of the server in flight to all clients, of about 2 KiB each.
pub const CALLBACKS_MAX: usize = 4096;
/// Waiters that are to be told through one session and were not yet: as many as can wait in one file.
pub const NOTICES_PER_SESSION_MAX: usize = nfs_state::limits::WAITERS_PER_FILE_MAX;
/// Waiters of the clients of one host that are to be told and were not yet.
pub const NOTICES_PER_HOST_MAX: usize = NOTICES_MAX / 8;
/// Waiters that are to be told and were not yet, of all clients; of about 300 bytes each, and at most 2.5 KiB.
pub const NOTICES_MAX: usize = 16_384;
/// Bytes of replies that all sessions together keep for repeated calls, beyond what each has for sure.
pub const KEPT_REPLIES_BYTES_MAX: usize = 64 << 20;
/// How long nothing is written to the records of NFSv4 clients after that failed.
pub const RECORDS_RETRY: std::time::Duration = std::time::Duration::from_secs(1);
/// Seconds that a client's state is kept after its last call, where nothing is configured.
pub const LEASE_SECONDS_DEFAULT: u32 = 60;
/// Least seconds of a lease that may be configured: clients renew it each two thirds of it.
pub const LEASE_SECONDS_MIN: u32 = 5;
/// Most seconds of a lease, and of a grace period, that may be configured.
pub const LEASE_SECONDS_MAX: u32 = 3600;

// Objects and their caches.

/// Longest handle that a client is given, bytes: what NFSv3 allows (RFC 1813 §2.4).
pub const HANDLE_BYTES_MAX: usize = 64;
/// Longest kernel handle, bytes: what a file handle's frame leaves of [`HANDLE_BYTES_MAX`].
pub const KERNEL_HANDLE_BYTES_MAX: usize = 36;
/// Longest name of a directory entry, bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Longest symlink contents, bytes: what Linux takes.
pub const SYMLINK_BYTES_MAX: usize = 4095;
/// Largest file, bytes, whose data is synced with its attributes, in a round that all changes of the file
/// system share, unless it has data that was not committed: no more than this can wait in the page cache.
pub const FLUSHED_WITH_DATA_BYTES_MAX: u64 = 1 << 20;
/// Credentials whose permission checks are remembered for one object.
pub const PERMITS_PER_OBJECT_MAX: usize = 8;
/// Streams of direct READs of one file that are told apart, about 200 bytes each; for one more that goes of which
/// nobody read for longest, first one of the client that has most.
pub const READ_STREAMS_PER_FILE_MAX: usize = 16;
/// The same for one client.
pub const READ_STREAMS_PER_CLIENT_MAX: usize = 4;
/// READs of a stream that may be ahead of one that is still to come, as they do where several are on their way; with
/// more the stream is taken to have moved on.
pub const READS_OUT_OF_ORDER_MAX: usize = 8;
/// READs of a stream that may run at once for it to be read ahead: a client that has more on their way keeps the
/// disk busy by itself.
pub const READ_AHEAD_CALLS_MAX: u32 = 4;
/// READs of less than [`READ_AHEAD_BYTES_MIN`] that must go on where others ended before anything is read ahead of
/// them, more than of larger ones: of random small READs of a small file some do by chance.
pub const READ_AHEAD_SMALL_READS_MIN: u32 = 3;
/// Streams of READs of one file through the page cache that are told from each other.
pub const READ_STREAMS_FOLLOWED: usize = 8;
/// How near to where the last READ of a file through the page cache ended another must begin to count as one of a
/// stream, which the kernel may read ahead of, in READs of its length: those of a stream come in any order.
pub const READ_FOLLOWS_CALLS_MAX: u64 = 32;
/// How far behind a READ, in bytes, the page cache must have a file if the kernel is to begin no read-ahead because of
/// it: twice the largest window that is common (`read_ahead_kb` of 4096, as btrfs has it).
pub const KERNEL_READ_AHEAD_BYTES: u64 = 8 << 20;
/// Into how many parts a file is divided at most to remember of which a worker has read data.
pub const MAP_PARTS_MAX: u64 = 4096;
/// Least bytes of such a part: what the smallest block of a file's map tells of in a file of pieces of 4 KiB.
pub const MAP_PART_BYTES_MIN: u64 = 1 << 20;
/// Seconds for which it is remembered at most: the kernel may let go of the map when memory is short.
pub const MAP_PART_KEPT_SECONDS: u64 = 10;
/// The part of the memory for replies that all pieces read ahead may take together, as a divisor.
pub const READ_AHEAD_MEMORY_DIVISOR: u64 = 4;
/// What one client may have of that, as a multiple of what this leaves free, for a weight of 1: three quarters
/// where it is alone. It counts as well against its share of the memory for replies ([`UNSENT_TIMES_FREE_MAX`]).
pub const READ_AHEAD_TIMES_FREE_MAX: u32 = 3;
/// Smallest READs, bytes, that are answered with a piece as it was read, without a copy; smaller ones are
/// answered from pieces of [`READ_AHEAD_PIECE_BYTES`].
pub const READ_AHEAD_WHOLE_BYTES_MIN: u64 = 256 << 10;
/// Bytes of a piece that is read ahead of small READs, or of ones that are not aligned.
pub const READ_AHEAD_PIECE_BYTES: u64 = 512 << 10;
/// Milliseconds after which no READ is answered from a piece any more, from when it was begun: what bounds how old the
/// bytes of an answer may be, whatever local programs do. Twice this at most the memory is kept.
pub const READ_AHEAD_MILLISECONDS_MAX: u64 = 1000;
/// Milliseconds for which a file's ctime and mtime must have stayed before pieces of it are read ahead: far more than
/// the step of the kernel's clock, so that any later change gives the file other times.
pub const READ_AHEAD_QUIET_MILLISECONDS: u64 = 100;
/// The same where the file system keeps whole seconds only.
pub const READ_AHEAD_QUIET_COARSE_MILLISECONDS: u64 = 1100;
/// Most READs in sequence that a stream must show again after pieces of it were lost to changes.
pub const READ_AHEAD_DEBT_MAX: u32 = 64;
/// Pages that the edges of direct WRITEs to one file may leave in the page cache before it is asked to
/// let go of them; a COMMIT does that too.
pub const EDGE_PAGES_KEPT_MAX: u32 = 4096;
/// Bytes of a block whose parts are held until a neighbour completes it: a page, and the least that a direct
/// middle is a multiple of. Files that ask for larger ones are not staged.
pub const STAGED_BLOCK_BYTES: usize = 4096;
/// Milliseconds for which a part of a block waits for its neighbour. Then it is written without it, half a second
/// later at most.
pub const STAGED_MILLISECONDS_MAX: u64 = 1000;
/// Milliseconds between two looks at what waits.
pub const STAGED_SWEEP_MILLISECONDS: u64 = 250;
/// Blocks of one file that are held or under way.
pub const STAGED_BLOCKS_PER_FILE_MAX: usize = 4096;
/// Files of which something is held. They stay in the file cache meanwhile.
pub const STAGED_FILES_MAX: usize = 256;
/// Held parts take one part in this many of the memory for the data of WRITEs.
pub const STAGED_BUDGET_DIVISOR: u64 = 8;
/// Of that memory a client holds at most so many times what is left free: alone half of it, beside another
/// such client a third.
pub const STAGED_TIMES_FREE_MAX: u32 = 1;
/// How often a file is asked for its size while what is held of it goes into it.
pub const STAGED_SIZE_TRIES_MAX: u32 = 16;
/// Space taken ahead of a stream of WRITEs that extends a file, in bytes, the first time; then twice as much each
/// time, up to [`RESERVE_BYTES_MAX`].
pub const RESERVE_BYTES_FIRST: u64 = 4 << 20;
/// Least space, in bytes, that is taken ahead of a stream where little is left: below that none is.
pub const RESERVE_BYTES_MIN: u64 = 1 << 20;
/// Most space, in bytes, that is taken ahead of a stream at once.
pub const RESERVE_BYTES_MAX: u64 = 64 << 20;
/// How far before the end of a stream, in bytes, a WRITE may begin that still belongs to it: its client has
/// others on their way that come before.
pub const RESERVE_WINDOW_BYTES_MAX: u64 = 64 << 20;
/// Ranges of a stream that are kept in mind as yet to come, 16 bytes each; with more it is no stream, and has
/// no more space taken ahead.
pub const RESERVE_GAPS_MAX: usize = 128;
/// The part of the free space of a file system that may be held ahead of all streams of one export there, as a
/// divisor.
pub const RESERVE_FREE_DIVISOR: u64 = 8;
/// The part of what is left of that which one stream may take at once, as a divisor: however many streams one
/// client has, something stays for others.
pub const RESERVE_LEFT_DIVISOR: u64 = 4;
/// How long a WRITE that leaves a gap before it waits, with `order`, for the one that fills it.
pub const ORDER_WAIT_MAX: std::time::Duration = std::time::Duration::from_millis(5);
/// For how long after a WRITE that came late and filled a gap others are expected to come late. After such a time
/// without any WRITE the file's end is looked up anew.
pub const ORDER_EXPECTED_FOR: std::time::Duration = std::time::Duration::from_millis(100);
/// How far a WRITE may be, in bytes, from where its stream has come to that waits for the WRITEs between.
pub const ORDER_WINDOW_BYTES_MAX: u64 = 64 << 20;
/// WRITEs of one file that wait so at once; more do not wait.
pub const ORDER_WAITING_MAX: usize = 128;
/// Ranges beyond a gap that are kept in mind because their WRITEs did not wait, 16 bytes each; with more the
/// order begins anew behind them.
pub const ORDER_PASSED_MAX: usize = 128;
/// Clients named as writers of one file's unstable data, and clients of it that have to hear of a lost write.
/// Others learn of it by the write verifier alone, which makes them send their data again.
pub const UNSTABLE_WRITERS_PER_OBJECT_MAX: usize = 64;
/// Objects put out of the file cache by one insertion.
pub const EVICTIONS_PER_INSERT_MAX: usize = 8;
/// Objects of which a shard keeps the latest look at their attributes, for calls that came before it.
pub const LATEST_LOOKS_MAX: usize = 8;
/// Names of which LOOKUP remembers where they led.
pub const LOOKUP_HINTS_MAX: usize = 8192;
/// Between two sweeps, how often a file is closed for writing before a reply goes out. A stream of stable WRITEs,
/// one after the other, opens it again as often; from then on it stays open until the stream is over.
pub const EARLY_CLOSES_PER_SWEEP_MAX: u32 = 4;
/// Files that are closed for writing by one job of the helper pool, where the sweep finds many.
pub const CLOSED_TOGETHER_MAX: usize = 64;
/// Seconds between two sweeps: a file to which nobody wrote for this long, or twice this, is closed for
/// writing.
pub const SWEEP_SECONDS: u64 = 1;
/// Files of the open-file cache of which it is found out each second how much the page cache holds of them, while
/// somebody asks for that: about 4 microseconds each.
pub const PAGE_CACHE_FILES_PER_LOOK_MAX: usize = 2000;
/// Milliseconds after which that is broken off until the next second.
pub const PAGE_CACHE_LOOK_MILLISECONDS_MAX: u64 = 5;
/// Bytes of a file that are looked at in one system call, for 2 ms where they are 65536 folios of 4 KiB.
pub const PAGE_CACHE_PIECE_BYTES: u64 = 256 << 20;
/// Seconds for which it is found out after somebody asked.
pub const PAGE_CACHE_ASKED_SECONDS: u64 = 300;
/// Cached objects that one sweep asks whether they were removed on the server's host, at about half a microsecond
/// each. With so many or fewer cached, the space of a file is free two sweeps after it was removed.
pub const OBJECTS_PER_SWEEP_MAX: usize = 8192;
/// Descriptors that one call may hold: of the object itself, for READ or WRITE through the page cache and past
/// it, or of directories and what is found in them.
pub const DESCRIPTORS_PER_CALL: usize = 4;
/// The part of the descriptors that calls of one export may use at once, as a divisor; more calls wait,
/// [`WRITE_WAITS_SECONDS_MAX`] at most.
pub const TURNS_PER_EXPORT_DIVISOR: usize = 2;
/// Fewer descriptors than this for open files are worth a word at start.
pub const FILE_CACHE_FDS_FEW: usize = 4096;
/// Seconds between two lines of the log that say that descriptors are used up.
pub const FILE_CACHE_FULL_SECONDS: u64 = 600;
/// How far the file cache may be over its budget before look-ups that could be answered at once make room first.
pub const FILE_CACHE_OVER_MAX: usize = 32;
/// Seconds after which an unused object leaves the file cache: between this and twice this.
pub const FILE_CACHE_IDLE_SECONDS: u64 = 10;
/// Seconds for which a directory that is in use is taken to be in its export still. One that was moved out on
/// the server's host, or lies in one that was, is NFS3ERR_STALE no later than this.
pub const DIRECTORY_PLACE_SECONDS_MAX: u64 = 2;
/// Looks at a directory's path while the export itself is being moved; the client then has to come again.
pub const PLACE_LOOKS_MAX: usize = 16;
/// Steps up from a directory whose path is too long to be asked for. One that lies deeper is taken to be
/// outside of its export.
pub const CLIMB_STEPS_MAX: usize = 64 << 10;
/// File systems of one export that clients may walk into.
pub const MOUNTS_PER_EXPORT_MAX: usize = 256;
/// Seconds for which a reply is kept for repetitions of its call. Longer than a client waits before it asks
/// again (60 for Linux over TCP); its xids do not come round meanwhile.
pub const REPLY_CACHE_SECONDS_MAX: u64 = 300;
/// Replies kept for repeated calls other than WRITE. At the cap the oldest goes of who holds most; see
/// `reply_cache.rs`. About 1000 bytes of memory each,
/// note included.
pub const REPLY_CACHE_NAMES_MAX: usize = 16 << 10;
/// Replies of WRITEs kept for repetitions, which is most of a second of the smallest at the highest rate
/// (100,000 a second), and a minute at 1 GiB/s in pieces of 1 MiB. A client repeats only what it has no
/// reply to: what may be in flight, some thousand calls. At the cap as above. About 350 bytes
/// of memory each.
pub const REPLY_CACHE_WRITES_MAX: usize = 64 << 10;
/// Longest reply that is kept, bytes. The longest of the calls that are remembered is CREATE's, with 308.
pub const REPLY_CACHE_REPLY_BYTES_MAX: usize = 384;
/// Places for the notes of calls that change names, 128 bytes each in a file of the state directory: one for
/// each reply that is kept, and for those of an earlier life of the server. At the cap those are forgotten, and
/// then a call is carried out without a note.
pub const CALL_NOTES_MAX: u32 = 32 << 10;
/// Clients of one address whose replies are told apart; for one more, all those go of the client that has
/// said nothing for longest.
pub const REPLY_CACHE_CLIENTS_PER_ADDRESS_MAX: usize = 256;
/// Seconds that an MNT waits where too much of its client waits for the file system already. MOUNT has no status by
/// which a client comes again: it is told of a failure then. Longer than a mount(8) waits for one answer.
pub const MOUNT_WAITS_SECONDS_MAX: u64 = 60;
/// Mounts remembered for MOUNT's DUMP.
pub const MOUNT_LIST_ENTRIES_MAX: usize = 4096;
/// Bytes of all paths together that MOUNT's DUMP remembers.
pub const MOUNT_LIST_BYTES_MAX: usize = 256 << 10;
/// Symbolic links that one MNT follows, as many as Linux; one more is an error.
pub const MOUNT_WALK_LINKS_MAX: usize = 40;
/// Names that one MNT walks through, those of links included; with more the path is too long.
pub const MOUNT_WALK_NAMES_MAX: usize = 4096;
/// Pairs of client and export whose first use was noted; a forgotten one has its line again. Some 100 bytes each.
pub const FIRST_USES_MAX: usize = 8192;
/// Exports of which a connection remembers that it used them; of more, each call asks the table of all clients.
pub const EXPORTS_PER_CONNECTION_NOTED_MAX: usize = 16;
/// Bytes of a path that a client sent which a line of the log shows.
pub const NOTICE_PATH_BYTES_MAX: usize = 200;
/// Answers of the user database that are remembered: names, numbers and group lists. Some 100 bytes each, and 4 KiB at
/// most for the groups of a user.
pub const ACCOUNTS_MAX: usize = 16 << 10;
/// Answers that say that there is no such user or group.
pub const ACCOUNTS_UNKNOWN_MAX: usize = 4096;
/// Seconds for which an answer of the user database is remembered.
pub const ACCOUNT_SECONDS: u64 = 300;
/// Seconds for which it is remembered that there is no such user or group: somebody may be about to make it.
pub const ACCOUNT_UNKNOWN_SECONDS: u64 = 60;
/// Seconds for which the user database is not asked again what it could not be asked.
pub const ACCOUNT_FAILED_SECONDS: u64 = 5;
/// How long a name that is only shown is gone by while it is asked for anew, as a multiple of the time for which it is
/// remembered.
pub const ACCOUNT_STALE_TIMES: u32 = 12;
/// Questions to the user database that may be under way, those that wait for a thread too.
pub const ACCOUNTS_ASKED_MAX: u64 = 8192;
/// How many of those one host may have, as a multiple of what this leaves free: half of all where it is alone.
pub const ACCOUNTS_ASKED_TIMES_FREE_MAX: u32 = 1;
/// Seconds that a call waits for the user database where it cannot be answered without: then the client is told to come
/// again.
pub const ACCOUNT_WAIT_SECONDS_MAX: u64 = 5;
/// Milliseconds that a call waits for a name that it can send the number for.
pub const ACCOUNT_NAME_WAIT_MS_MAX: u64 = 1000;
/// Names of owners that one answer asks the user database for, at most; what is beyond is sent as numbers.
pub const OWNERS_ASKED_PER_ANSWER_MAX: usize = 1024;
/// Longest name of a user or group that is sent, bytes; one with a longer name is sent as a number. Linux's tools make
/// none of more than 32.
pub const OWNER_NAME_BYTES_MAX: usize = 64;
/// Longest number of a user or group in decimal, bytes; a longer one is NFS4ERR_BADOWNER.
pub const OWNER_NUMBER_BYTES_MAX: usize = 10;
/// Longest `idmap_domain`, bytes.
pub const IDMAP_DOMAIN_BYTES_MAX: usize = 64;
/// Longest owner that is taken, bytes, a name with its domain; a longer one is NFS4ERR_BADOWNER.
pub const OWNER_BYTES_MAX: usize = 256 + IDMAP_DOMAIN_BYTES_MAX;
// The control socket.

/// Longest request on the control socket, in bytes.
pub const CONTROL_REQUEST_BYTES_MAX: usize = 64 << 10;
/// Longest reply a `ctl` command takes, in bytes.
pub const CONTROL_REPLY_BYTES_MAX: u64 = 64 << 20;
/// Connections served at once on the control socket; more wait to be accepted.
pub const CONTROL_CONNECTIONS_MAX: usize = 16;
/// A control connection that says nothing for this many seconds is closed.
pub const CONTROL_IDLE_SECONDS_MAX: u64 = 30;
/// How long a `ctl` command waits for its answer, in seconds: a reload opens directories, perhaps on
/// slow disks.
pub const CONTROL_ANSWER_SECONDS_MAX: u64 = 60;
/// State directories that `ctl` looks at below the default base; more are an accident.
pub const STATE_DIRS_LISTED_MAX: usize = 1024;
/// Rows of one answer about NFSv4's clients and what they hold; more are asked for with a further request.
pub const CONTROL_HELD_ROWS_MAX: usize = 10_000;
/// Objects of the open-file cache in one answer; more are asked for with a further request.
pub const CONTROL_CACHE_ROWS_MAX: usize = 10_000;
/// Names of clients that have not come back in a grace period, in one answer.
pub const CONTROL_GRACE_NAMES_MAX: usize = 100;
/// How often the end of a client, or of the grace period, is tried while requests are in its way, 20 ms apart.
pub const CONTROL_TRIES_MAX: u32 = 100;
/// Clients listed by `ctl clients`.
pub const CONTROL_CLIENTS_MAX: usize = 10_000;

// HTTP: /metrics, and the page of `penstock serve --web`.

/// Connections served at once by one HTTP listener, a quarter of them of one host. At the cap the one goes that was
/// idle for longest, as with [`CONNECTIONS_MAX`].
pub const HTTP_CONNECTIONS_MAX: usize = 64;
/// Seconds from when an HTTP connection is accepted until it is closed: for its request, the answer and the time
/// in which that is taken.
pub const HTTP_SECONDS_MAX: u64 = 10;
/// Longest head of an HTTP request, in bytes; also the most that is written to a connection at once.
pub const HTTP_HEAD_BYTES_MAX: usize = 8 << 10;
/// Names of the server in HTTP requests, in `http_names`.
pub const HTTP_NAMES_MAX: usize = 16;
/// Longest name of a host, in bytes (RFC 1035 §2.3.4).
pub const HOST_NAME_BYTES_MAX: usize = 253;
/// Headers of one HTTP request.
pub const HTTP_HEADERS_MAX: usize = 64;
/// Bytes of the name of the group in `status_group`.
pub const GROUP_NAME_BYTES_MAX: usize = 255;

// Lines of the log that a peer can cause. Each kind of line has these quotas for itself.

/// Lines of one kind about one address (an IPv6 /64 is one) that may be written one after the other; what is
/// beyond is counted and told of later, in one line.
pub const NOTICES_PER_ADDRESS: u32 = 16;
/// Seconds after which an address may have one more line of a kind.
pub const NOTICE_PER_ADDRESS_SECONDS: u64 = 30;
/// Lines of one kind about all addresses together that may be written one after the other.
pub const NOTICES_OVERALL: u32 = 256;
/// Seconds after which all addresses together may have one more line of a kind: with some hundred bytes in a
/// line, at most 10 MB of log a day for each kind, whoever attacks.
pub const NOTICE_OVERALL_SECONDS: u64 = 2;
/// Addresses, counted once for each kind of line, whose quotas are remembered, about 100 bytes each. Those
/// beyond share one address's quota until others have been quiet.
pub const NOTICED_MAX: usize = 8192;

/// Networks that the administrator may have shut out at once; while there are any, each call asks them all.
pub const BLOCKS_MAX: usize = 256;
/// Longest time that a network is shut out for, if a time is given: a year.
pub const BLOCK_MINUTES_MAX: u64 = 366 * 24 * 60;

// Counting and tracing.

/// Stripes of counters that every call adds to; more shards than these share them. For each export one takes less
/// than 2 KiB, and with calls of every procedure and operation 30 KiB more.
pub const COUNTER_STRIPES_MAX: usize = 16;
/// Clients that have figures of their own in the metrics, over their connections; for one more the least active of
/// those that are away is counted with all others. About 100 bytes each, and eight lines of `/metrics`.
pub const CLIENT_FIGURES_MAX: usize = 256;
/// Trace events that wait for one listener, about 150 bytes each; those beyond are lost, counted, and said.
pub const TRACE_QUEUE_EVENTS_MAX: usize = 8192;
/// Seconds that the log is given, when the server ends, to take the trace events that wait for it.
pub const TRACE_LOG_END_SECONDS_MAX: u64 = 2;
/// Connections that follow the trace at once. Fewer than [`CONTROL_CONNECTIONS_MAX`]: others must
/// still be able to ask.
pub const TRACE_FOLLOWERS_MAX: usize = 8;
/// Calls that the flight recorder keeps of each shard; then the oldest goes. Each takes some 800 bytes, and with all the
/// steps that one may have 3.4 KiB, which makes less than 4 MiB.
pub const FLIGHT_RECORDER_CALLS_PER_SHARD: usize = 1024;
/// Records that each shard keeps for calls to come: as many calls begin together, before the first of them is over.
pub const FLIGHT_RECORDER_SPARE_PER_SHARD: usize = 64;
/// Steps that are recorded of one call, at 32 bytes; those beyond are counted. A READ or WRITE has up to 25, and each
/// operation of a COMPOUND some more.
pub const CALL_STEPS_MAX: usize = 96;
/// How long the writer of such a file waits for one shard, in milliseconds: the one that failed may hold its lock for ever.
pub const CRASH_LOCK_MILLISECONDS_MAX: u64 = 50;
/// Files that tell of crashes, each with the last calls of all shards: some 2 MiB for each shard. Then the oldest goes.
pub const CRASH_FILES_MAX: usize = 8;
/// Calls that wait for one that follows calls; those beyond are lost, counted, and said.
pub const CALLS_QUEUE_MAX: usize = 1024;
/// Procedures and operations that wait for one that records them, each of some 170 bytes; those beyond are lost, counted,
/// and said.
pub const RECORDING_QUEUE_MAX: usize = 64 << 10;
/// Connections that record calls at once.
pub const RECORDINGS_MAX: usize = 2;
/// Most calls that are kept for one that asks for the slowest.
pub const CALLS_SLOWEST_MAX: usize = 1000;
/// Unsent replies of one connection whose calls' records wait for them to be sent; the records of others end when the
/// reply is there.
pub const UNSENT_RECORDS_MAX: usize = 64;
/// Bytes of trace lines that are put together before they are written.
pub const TRACE_WRITE_BYTES_MAX: usize = 64 << 10;

// portmap and rpcbind.

/// Longest call that our own portmap takes and longest reply we take from an rpcbind, in bytes.
pub const PORTMAP_RECORD_BYTES_MAX: usize = 16 << 10;
/// TCP connections our own portmap serves at once, a quarter of them of one host. At the cap the one goes that was
/// idle for longest, as with [`CONNECTIONS_MAX`].
pub const PORTMAP_CONNECTIONS_MAX: usize = 64;
/// A connection to our own portmap that sends nothing, or does not take a reply, for this many seconds is closed.
pub const PORTMAP_IDLE_SECONDS_MAX: u64 = 10;
/// How long an rpcbind may take for one answer, in seconds.
pub const RPCBIND_ANSWER_SECONDS_MAX: u64 = 2;

/// Directories of `confine_beneath`: each is a rule that the kernel looks for at every file that is
/// opened.
pub const CONFINE_BENEATH_MAX: usize = 64;

/// Records of the audit that wait for its readers, at most 3 KiB each; of more than these a reader that
/// is too slow loses the oldest.
pub const AUDIT_QUEUE_RECORDS_MAX: usize = 4096;
/// Bytes of a name that the audit keeps: no file system here takes a longer one.
pub const AUDIT_NAME_BYTES_MAX: usize = 255;
/// Bytes of a path that the audit keeps; a longer one is left out, and the handle tells the object.
pub const AUDIT_PATH_BYTES_MAX: usize = 1024;
/// Connections that follow the audit at once; see [`TRACE_FOLLOWERS_MAX`].
pub const AUDIT_FOLLOWERS_MAX: u64 = 8;
/// Seconds until a READ or WRITE of the same file by the same user of the same client is told again.
pub const AUDIT_AGAIN_SECONDS: u64 = 600;
/// Files, each with who read or wrote it, that are remembered for that, at 24 bytes; beyond, some are
/// told again earlier.
pub const AUDIT_FILES_MAX: usize = 65_536;
/// Bytes of the audit's file; then it becomes the old one, of which one is kept.
pub const AUDIT_FILE_BYTES_MAX: u64 = 64 << 20;
/// Bytes of the audit's lines that are put together before they are written.
pub const AUDIT_WRITE_BYTES_MAX: usize = 64 << 10;
/// Seconds between two lines of the server's log that the audit's cannot be written.
pub const AUDIT_FAILURE_SECONDS: u64 = 60;
/// Seconds that the journal may take for one entry, before it counts as lost.
pub const AUDIT_JOURNAL_SECONDS_MAX: u64 = 1;
/// Seconds that the audit's log is given, when the server ends, to take what waits for it.
pub const AUDIT_LOG_END_SECONDS_MAX: u64 = 2;

/// Moments that the live picture of a server keeps: five minutes, at one a second.
pub const LIVE_MOMENTS_MAX: usize = 300;
/// Exports that a moment of the live picture keeps one by one; the others are kept together.
pub const LIVE_EXPORTS_MAX: usize = 24;
/// Rows of each table that the web page is told; the busiest are kept.
pub const LIVE_ROWS_MAX: usize = 100;
/// Milliseconds between two looks of a server at itself, for the curves of the web page.
pub const LIVE_PERIOD_MS: u64 = 1000;
/// Moments that the web page is told when it has those before them.
pub const LIVE_LATEST_MAX: usize = 10;
/// Two looks of the live picture that are closer than this, in milliseconds, are one: what comes in so short a time is
/// no rate.
pub const LIVE_APART_MS_MIN: u64 = 50;
/// Two looks of the live picture that are farther apart, in milliseconds, are not compared: what is shown as now would
/// be of long ago.
pub const LIVE_APART_MS_MAX: u64 = 30_000;
