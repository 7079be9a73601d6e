//! Every bound of this crate, in one place. Units are in the names.

/// Start of every [`crate::Buf`] is a multiple of this; smallest size class. A page on every
/// machine we run on, and at least the memory alignment any block device asks for.
pub const BUFFER_ALIGN_BYTES: usize = 4096;

/// Largest single buffer. Far above any NFSv3 transfer (`rtmax` is at most a few MiB); a larger
/// request is our own mistake.
pub const BUFFER_BYTES_MAX: usize = 1 << 26;

/// Share of the budget that idle buffers may keep warm: one part in this many.
pub const BUFFER_IDLE_FRACTION: u64 = 4;

/// Longest kernel file handle (`MAX_HANDLE_SZ` of `<linux/exportfs.h>`).
pub const KERNEL_HANDLE_BYTES_MAX: usize = 128;

/// How often an `openat2` that lost a race against a rename is tried again.
pub const OPENAT2_RETRIES_MAX: u32 = 64;

/// Bytes asked of one `getdents64` when the caller does not say.
pub const DIRENTS_BYTES: usize = 32 * 1024;

/// Smallest `getdents64` buffer: one entry with a 255-byte name fits in with room to spare.
pub const DIRENTS_BYTES_MIN: usize = 1024;

/// Largest `getdents64` buffer.
pub const DIRENTS_BYTES_MAX: usize = 1 << 20;
