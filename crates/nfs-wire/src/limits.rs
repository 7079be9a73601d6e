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

/// Entries of an array that no limit of its own has. Memory grows with the entries that are there; this
/// holds a record's bytes to a few megabytes of what is decoded from them.
pub const ARRAY_ENTRIES_MAX: usize = 65_536;

/// Bytes of an NFSv4 file handle: NFS4_FHSIZE (RFC 7530 §2.1).
pub const FILE_HANDLE4_BYTES_MAX: usize = 128;
/// Bytes of names that a client or server has for itself or for an owner: NFS4_OPAQUE_LIMIT (RFC 8881
/// §3.2).
pub const OPAQUE4_BYTES_MAX: usize = 1024;
/// Bytes of a COMPOUND's tag. The RFCs set no limit; it comes back in the reply, and this is what
/// Linux's server takes.
pub const TAG_BYTES_MAX: usize = 1024;
/// Operations of a COMPOUND that are looked at. Linux's client sends at most 8 of them and its server takes
/// 50 at most by default; what a session allows is agreed on far below this.
pub const COMPOUND_OPS_MAX: usize = 256;
/// Words of a bitmap4 that are read. The RFCs set no limit; the highest number that any of them defines
/// is 86, in the third word. Test suites ask for attribute 1000, in the 32nd.
pub const BITMAP_WORDS_MAX: usize = 64;
/// Bytes of the values of one set of attributes. The largest are ACLs, of which Linux takes up to
/// 64 KiB.
pub const ATTRLIST_BYTES_MAX: usize = 256 * 1024;
/// Bytes of the values of extended attributes that are decoded: above Linux's 65536, so that a longer one
/// can be answered with NFS4ERR_XATTR2BIG instead of being garbage.
pub const XATTR_VALUE_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of what only a layout type explains: layouts, device addresses, hints and updates.
pub const LAYOUT_BODY_BYTES_MAX: usize = 256 * 1024;
/// Bytes of a network id or universal address. The RFCs set no limit; this is OPAQUE4_BYTES_MAX's.
pub const NETADDR_BYTES_MAX: usize = 1024;
/// Bytes of GSS handles, object identifiers, digests and secrets.
pub const GSS_OPAQUE_BYTES_MAX: usize = 65_536;
/// Bytes of the operations of a COMPOUND that may follow a WRITE whose data is received apart: a GETATTR
/// of a few words is what clients send. With the head of the record it is what a server keeps without asking
/// for memory.
pub const WRITE_TAIL_BYTES_MAX: usize = 2048;
