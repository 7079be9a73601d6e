//! What tests of this crate share.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount,
    fsopen,
};
use tempfile::TempDir;

use crate::caps::{self, Capability};
use crate::identity::{Creds, LocalGid, LocalUid};
use crate::{Result, fs};

/// Ends a test that this machine or user cannot run, aloud; with `PENSTOCK_STRICT=1` in the
/// environment that is a failure.
macro_rules! skip {
    ($($reason:tt)+) => {{
        $crate::testing::skipped(&format!($($reason)+));
        return;
    }};
}
pub(crate) use skip;

/// The work of [`skip!`] but for leaving the test.
pub(crate) fn skipped(reason: &str) {
    let strict = std::env::var("PENSTOCK_STRICT").is_ok_and(|value| value == "1");
    assert!(!strict, "would skip, but PENSTOCK_STRICT=1: {reason}");
    eprintln!("SKIP: {reason}");
}

/// A directory of its own for a test, removed at the end.
pub(crate) struct Scratch {
    pub(crate) path: TempDir,
    dir: OwnedFd,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let path = tempfile::Builder::new()
            .prefix("nfs-io-")
            .tempdir()
            .unwrap();
        let dir = fs::open_dir(path.path()).unwrap();
        Self { path, dir }
    }

    pub(crate) fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// A file with these bytes, open for reading and writing.
    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> OwnedFd {
        std::fs::write(self.path.path().join(name), bytes).unwrap();
        self.open(name, fs::OFlags::RDWR).unwrap()
    }

    pub(crate) fn open(&self, name: &str, flags: fs::OFlags) -> Result<OwnedFd> {
        fs::openat2(self.dir(), name.as_bytes(), fs::OpenHow::beneath(flags))
    }

    /// An `O_PATH` descriptor.
    pub(crate) fn object(&self, name: &str) -> OwnedFd {
        fs::open_path_beneath(self.dir(), name.as_bytes()).unwrap()
    }
}

/// A tmpfs of `bytes` that is mounted nowhere and goes away with the descriptor of its root.
/// `None` for who may not mount.
pub(crate) fn small_tmpfs(bytes: u64) -> Option<OwnedFd> {
    if !caps::has(Capability::SysAdmin) {
        return None;
    }
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).ok()?;
    fsconfig_set_string(context.as_fd(), "size", bytes.to_string()).ok()?;
    fsconfig_create(context.as_fd()).ok()?;
    let flags = FsMountFlags::FSMOUNT_CLOEXEC;
    let mount = fsmount(context.as_fd(), flags, MountAttrFlags::empty()).ok()?;
    // The mount's own descriptor is an O_PATH one.
    let flags = fs::OFlags::RDONLY | fs::OFlags::DIRECTORY;
    fs::reopen(mount.as_fd(), flags).ok()
}

/// Somebody who owns nothing here.
pub(crate) fn stranger() -> Creds {
    Creds::new(LocalUid(54_321), LocalGid(54_322), &[54_323, 54_324])
}
