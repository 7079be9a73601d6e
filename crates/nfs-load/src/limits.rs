//! Caps of the load generator.

/// Replies that the responder holds back on one connection; the next call is read when there is room.
pub const RESPONDER_REPLIES_MAX: usize = 1024;
/// Replies with data that the responder sends at once: two places in memory each, of 1024 that writev(2) takes.
pub const RESPONDER_PIECES_MAX: usize = 64;
/// Files and directories that the responder gives handles of, where it has any.
pub const RESPONDER_FILES_MAX: usize = 4096;
/// Longest name that the responder takes, in bytes: what Linux's file systems take.
pub const NAME_BYTES_MAX: usize = 255;
/// Longest record whose payload may be discarded unread, in bytes: far above any READ or WRITE that is
/// measured.
pub const DISCARDED_BYTES_MAX: usize = 64 << 20;
/// Connections of one load.
pub const CONNECTIONS_MAX: usize = 1024;
/// Threads of this process that the connections of one load are shared out among: up to so many, each has its own.
pub const CONNECTION_THREADS_MAX: usize = 16;
/// Connections that a load keeps idle: a host has ports for no more to one server.
pub const IDLE_CONNECTIONS_MAX: usize = 25_000;
/// Longest answer to the NULL call of an idle connection, in bytes: without results it has 24, and a verifier of at most 400.
pub const NULL_ANSWER_BYTES_MAX: usize = 1024;
/// How often a directory or a cgroup is made anew that another run took for a leftover before it was locked.
pub const CLAIMS_MAX: usize = 8;
/// How often a server is started that finds one of its ports taken.
pub const STARTS_MAX: u32 = 5;
/// Calls in flight on one connection of a load.
pub const DEPTH_MAX: usize = 1024;
/// Threads of one load on a file system of this host, where each call in flight is one.
pub const LOCAL_THREADS_MAX: usize = 1024;
/// Largest READ or WRITE that is asked for, in bytes: beyond it servers and clients gain nothing.
pub const PIECE_BYTES_MAX: u32 = 1 << 20;
/// Longest record that a program is taken to read or write at once, in bytes.
pub const RECORD_BYTES_MAX: u32 = 16 << 20;
/// Memory of one connection that READs are received into, in bytes.
pub const READ_MEMORY_BYTES: u64 = 1 << 30;
/// Bytes of the file of a measurement.
pub const FILE_BYTES_MAX: u64 = 16 << 40;
/// Names that a measurement makes in one directory.
pub const NAMES_MAX: u64 = 10_000_000;
/// Measurements of each figure; more only narrow its spread.
pub const REPETITIONS_MAX: u32 = 99;
/// Bytes of free memory that are written to before a measurement.
pub const TOUCHED_BYTES_MAX: u64 = 2 << 30;
/// No more is written to than one part in this many of what is free.
pub const TOUCHED_FREE_FRACTION: u64 = 2;
/// Bytes of it that are written to before it is looked whether the run is over: some hundredths of a second.
pub const TOUCHED_PIECE_BYTES: usize = 32 << 20;
/// Seconds of one measurement.
pub const SECONDS_MAX: f64 = 24.0 * 3600.0;
/// Calls per second that are begun by the clock.
pub const RATE_MAX: f64 = 10_000_000.0;
/// Longest latency that is told apart from longer ones, in nanoseconds: a day.
pub const LATENCY_NANOSECONDS_MAX: u64 = 24 * 3600 * 1_000_000_000;
/// Moments of one time series; where a measurement goes on, two of them become one.
pub const SERIES_MOMENTS_MAX: usize = 240;
/// Servers and file systems that one run compares.
pub const TARGETS_MAX: usize = 16;
/// Bytes of a report that is read: far more than any run writes.
pub const REPORT_BYTES_MAX: u64 = 256 << 20;
/// The least memory that a server is started in, in bytes: in less its own buffers are all there is room for.
pub const SERVER_MEMORY_BYTES_MIN: u64 = 64 << 20;
/// Bytes of one record of a recording, without the byte that has its length.
pub const RECORDING_ENTRY_BYTES_MAX: usize = 255;
/// Calls of a recording that is replayed: each takes some 200 bytes of memory.
pub const REPLAYED_CALLS_MAX: usize = 4_000_000;
/// Files and directories that a replay makes.
pub const REPLAYED_OBJECTS_MAX: usize = 1_000_000;
/// Connections of one client of a replay.
pub const REPLAYED_CONNECTIONS_MAX: usize = 16;
/// Calls of a replay that have begun, or wait for their turn, at once.
pub const REPLAYED_IN_FLIGHT_MAX: usize = 1024;
/// How much faster than it was recorded a load is replayed, by the clock.
pub const REPLAY_SPEED_MAX: f64 = 1_000_000.0;
