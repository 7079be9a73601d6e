//! One function per file-system call of a server, on descriptors and single names, never on
//! paths a client chose.
//!
//! All functions block as long as the file system does (the two with `cached` or `nowait` in
//! their name excepted), are retried on `EINTR`, and act with the identity of the calling thread
//! (see [`crate::identity`]). A `name` is one component: empty, or with `/` or NUL in it, it is
//! `EINVAL` before the kernel is asked.

mod acl;
mod attributes;
mod data;
mod dir;
pub mod handle;
mod namespace;
mod ofd;
mod open;
mod process;
mod space;
mod stat;
pub(crate) mod statfs;
mod vectored;
mod xattr;

pub use acl::{AclKind, Perms, PosixAcl, has_posix_acls, posix_acl, set_posix_acl};
pub use attributes::{Access, SetTime, access, chmod, chown, set_times, truncate};
pub use data::{
    CacheStat, cachestat, close, drop_cached, drop_cached_range, fdatasync, fsync, holds_whole,
    pread_nowait, read_ahead, reads_are_locked_out, syncfs, takes_dontcache, write_back,
};
pub use dir::{Batch, Dirent, Dirents, FileKind};
pub use handle::{KernelHandle, name_to_handle, name_to_handle_at, open_by_handle};
pub use namespace::{linkat, mkdirat, mknodat, readlink, renameat, rmdirat, symlinkat, unlinkat};
pub use ofd::{OfdHolder, OfdLock, ofd_lock_holder, set_ofd_lock};
pub use open::{
    OpenHow, open_dir, open_path_beneath, open_path_beneath_cached, open_root, openat_create,
    openat2, reopen, tmpfile,
};
pub use process::{fd_path, nofile, raise_nofile, umask_zero};
pub use rustix::fs::{Mode, OFlags, ResolveFlags};
pub use space::{
    allocate, allocate_ahead, clone_range, copy_range, give_back, next_data, next_hole, punch_hole,
};
pub use stat::{Stat, Timestamp, statx, statx_at, statx_cached, statx_untimed};
pub use statfs::{FsStat, PathConf, file_size_max, is_local, path_conf, statfs};
pub use vectored::{read_pieces, write_pieces};
pub use xattr::{
    XattrFlags, has_user_xattrs, remove_user_xattr, set_user_xattr, user_xattr, user_xattrs,
};

use crate::{Errno, Result};

/// Checks that `name` is one path component.
fn one_name(name: &[u8]) -> Result<&[u8]> {
    let bad = name.is_empty() || name.iter().any(|&byte| byte == b'/' || byte == 0);
    if bad { Err(Errno::INVAL) } else { Ok(name) }
}
