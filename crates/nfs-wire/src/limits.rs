//! What a peer may make us read at most. Each cap has the RFC's limit or the reason beside it.

/// Bytes of a file handle: NFS3_FHSIZE (RFC 1813 §2.4).
pub const FILE_HANDLE_BYTES_MAX: usize = 64;
/// Bytes of a name that are decoded: far above any file system's 255, so that a longer name can
/// be answered with NFS3ERR_NAMETOOLONG instead of being garbage.
pub const NAME_BYTES_MAX: usize = 65_536;
/// Bytes of a path (a symlink's contents) that are decoded; Linux takes 4095.
pub const PATH_BYTES_MAX: usize = 65_536;
/// Bytes of READ and WRITE data in one message.
pub const DATA_BYTES_MAX: usize = 16 * 1024 * 1024;
