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

/// Bytes of a credential's or verifier's body (RFC 5531 §8.2).
pub const AUTH_BODY_BYTES_MAX: usize = 400;
/// Bytes of the machine name in an AUTH_SYS credential (RFC 5531 appendix A).
pub const MACHINE_NAME_BYTES_MAX: usize = 255;
/// Supplementary groups in an AUTH_SYS credential (RFC 5531 appendix A).
pub const AUTH_SYS_GIDS_MAX: usize = 16;

/// Fragments of one record. The RFC sets no limit; peers that fragment at all do it at the size
/// of their send buffer, the smallest of which is about 4 KiB.
pub const RECORD_FRAGMENTS_MAX: u32 = 4096;

/// Bytes of a path in the MOUNT protocol: MNTPATHLEN (RFC 1813 §5.1.2).
pub const MOUNT_PATH_BYTES_MAX: usize = 1024;
/// Bytes of a name in the MOUNT protocol: MNTNAMLEN (RFC 1813 §5.1.2).
pub const MOUNT_NAME_BYTES_MAX: usize = 255;
/// Authentication flavors in the reply to MNT. The RFC sets no limit; there are about ten flavors.
pub const AUTH_FLAVORS_MAX: usize = 64;

/// Bytes of a network id, a universal address or an owner in rpcbind. RFC 1833 sets no limit; the
/// longest of them is the path of a local socket.
pub const RPCBIND_STRING_BYTES_MAX: usize = 255;

/// Bytes of a `netobj` in the lock manager's protocol, a cookie or a handle: MAXNETOBJ_SZ (XNFS).
pub const NETOBJ_BYTES_MAX: usize = 1024;
/// Bytes of a machine's name in the lock manager's protocol: LM_MAXSTRLEN (XNFS).
pub const LOCK_NAME_BYTES_MAX: usize = 1024;
