//! What tests of this crate share.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

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

    /// Opens the object of that name in the test's directory as an `O_PATH` descriptor.
    pub(crate) fn object(&self, name: &str) -> OwnedFd {
        fs::open_path_beneath(self.dir(), name.as_bytes()).unwrap()
    }
}

/// A tmpfs of `bytes` that is mounted nowhere and goes away with the descriptor of its root. `None` where the
/// process may not mount.
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

/// The root of a file system of a kind that has direct I/O, of 512-byte blocks or larger, mounted
/// nowhere: it goes away with the descriptor. `Err` says what is missing.
pub(crate) fn disk_fs(kind: &str, sector_bytes: u32) -> std::result::Result<OwnedFd, String> {
    disk_fs_in(&std::env::temp_dir(), kind, sector_bytes, false)
}

/// A file system as [`disk_fs`] makes it, whose disk can be made to hang.
pub(crate) struct HangingFs {
    pub(crate) root: OwnedFd,
    /// Holds the disk's image.
    beneath: OwnedFd,
}

impl HangingFs {
    /// On a disk that wants pages to stay as they are while they are written back.
    pub(crate) fn with_stable_pages(kind: &str) -> std::result::Result<Self, String> {
        let beneath = disk_fs("ext4", 512)?;
        let root = disk_fs_in(&path_of(&beneath), kind, 512, true)?;
        Ok(Self { root, beneath })
    }

    /// The disk takes no write from now on.
    pub(crate) fn hang(&self) {
        self.fsfreeze("--freeze");
    }

    /// The disk makes all writes that wait.
    pub(crate) fn go_on(&self) {
        self.fsfreeze("--unfreeze");
    }

    fn fsfreeze(&self, what: &str) {
        let path = path_of(&self.beneath);
        run("fsfreeze", &[what, &path.to_string_lossy()]).unwrap();
    }
}

impl Drop for HangingFs {
    fn drop(&mut self) {
        // A loop device keeps what was set for whoever has its number next.
        let dev = fs::statx(self.root.as_fd()).unwrap().dev;
        let (major, minor) = (rustix::fs::major(dev), rustix::fs::minor(dev));
        set_stable_pages(&format!("/sys/dev/block/{major}:{minor}"), false).unwrap();
    }
}

/// A path to it for other processes too.
fn path_of(dir: &OwnedFd) -> PathBuf {
    let (process, fd) = (std::process::id(), dir.as_raw_fd());
    format!("/proc/{process}/fd/{fd}").into()
}

fn disk_fs_in(
    dir: &Path,
    kind: &str,
    sector_bytes: u32,
    stable_pages: bool,
) -> std::result::Result<OwnedFd, String> {
    if !caps::has(Capability::SysAdmin) {
        return Err("mounting a file system needs CAP_SYS_ADMIN".into());
    }
    let image = tempfile::NamedTempFile::new_in(dir).map_err(|error| error.to_string())?;
    // As large as the pickiest of them asks for; a hole.
    let bytes = 320 << 20;
    image
        .as_file()
        .set_len(bytes)
        .map_err(|error| error.to_string())?;
    let path = image.path().to_string_lossy();
    let sector = sector_bytes.to_string();
    let device = run(
        "losetup",
        &[
            "--find",
            "--show",
            "--direct-io=off",
            "--sector-size",
            &sector,
            &path,
        ],
    )?;
    let mounted = run(&format!("mkfs.{kind}"), &["-q", &device])
        .and_then(|_| set_stable_pages(&device.replace("/dev", "/sys/block"), stable_pages))
        .and_then(|()| mount_device(kind, &device).map_err(|errno| errno.to_string()));
    // While it is mounted this only says that the device ends with the mount; the image, which has
    // no name from here on, ends with the device.
    run("losetup", &["--detach", &device])?;
    mounted
}

fn set_stable_pages(device_dir: &str, wanted: bool) -> std::result::Result<(), String> {
    let attribute = format!("{device_dir}/queue/stable_writes");
    let word = if wanted { "1" } else { "0" };
    let now = std::fs::read_to_string(&attribute).unwrap_or_default();
    if now.trim() == word {
        return Ok(());
    }
    std::fs::write(&attribute, word).map_err(|error| format!("{attribute}: {error}"))
}

fn run(program: &str, arguments: &[&str]) -> std::result::Result<String, String> {
    let output = std::process::Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("{program} {arguments:?}: {said}"))
    }
}

fn mount_device(kind: &str, device: &str) -> Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), "source", device)?;
    fsconfig_create(context.as_fd())?;
    let flags = FsMountFlags::FSMOUNT_CLOEXEC;
    let mount = fsmount(context.as_fd(), flags, MountAttrFlags::empty())?;
    fs::reopen(mount.as_fd(), fs::OFlags::RDONLY | fs::OFlags::DIRECTORY)
}

/// Credentials of somebody who owns none of the test's files.
pub(crate) fn stranger() -> Creds {
    Creds::new(LocalUid(54_321), LocalGid(54_322), &[54_323, 54_324])
}

/// Numbers that a seed determines (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// The next one, from 0 up to but not including `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}
