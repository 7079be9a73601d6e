//! Caps of the load generator.

/// Replies that the responder holds back on one connection; the next call is read when there is room.
pub const RESPONDER_REPLIES_MAX: usize = 1024;
/// Longest record whose payload may be discarded unread, in bytes: far above any READ or WRITE that is
/// measured.
pub const DISCARDED_BYTES_MAX: usize = 64 << 20;
/// Connections of one load: each is a thread of this process.
pub const CONNECTIONS_MAX: usize = 64;
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
/// Seconds of one measurement.
pub const SECONDS_MAX: f64 = 24.0 * 3600.0;
/// Calls per second that are begun by the clock.
pub const RATE_MAX: f64 = 10_000_000.0;
/// Longest latency that is told apart from longer ones, in nanoseconds: a day.
pub const LATENCY_NANOSECONDS_MAX: u64 = 24 * 3600 * 1_000_000_000;
/// Servers and file systems that one run compares.
pub const TARGETS_MAX: usize = 16;
/// Bytes of a report that is read: far more than any run writes.
pub const REPORT_BYTES_MAX: u64 = 256 << 20;
