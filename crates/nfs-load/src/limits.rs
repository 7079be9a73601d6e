//! Caps of the load generator.

/// Replies that the responder holds back on one connection; the next call is read when there is room.
pub const RESPONDER_REPLIES_MAX: usize = 1024;
/// Longest record whose payload may be discarded unread, in bytes: far above any READ or WRITE that is
/// measured.
pub const DISCARDED_BYTES_MAX: usize = 64 << 20;
