//! What reading and writing in a directory comes to: its file system, device, kernel, and what
//! every kind of I/O really does there. Facts only; what they mean for a server is said by who
//! asks.
//!
//! One file of [`FILE_BYTES`] is made, without a name where the file system can do that
//! (`O_TMPFILE`), else with one that is removed before anything is written. It is gone when
//! [`probe`] returns, however that ends, and with the process if that is killed; only a kill
//! between two system calls of the second way leaves an empty file.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};
use thiserror::Error;

pub use super::device::{Device, DeviceKind};
pub use super::residency::Meter;
pub use super::trials::{DirectTrials, FILE_BYTES, Outcome, Trials};
use crate::caps::{self, Capability};
use crate::fs::{self, FileKind, FsStat, OFlags};
use crate::memory::MemoryWatch;
use crate::mounts::{Mount, mounts};
use crate::probe::{UringFacts, uring};
use crate::{Errno, Result};

/// Everything found out about a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryFacts {
    /// The directory as it was named.
    pub path: PathBuf,
    /// Space, limits and type number of the file system.
    pub fs: FsStat,
    /// The mount it is on; `None` where `/proc` does not tell.
    pub mount: Option<Mount>,
    /// The block device beneath; `None` where there is none or sysfs does not tell.
    pub device: Option<Device>,
    /// Kernel file handles of this file system.
    pub handles: HandleFacts,
    /// What was tried on a file in it, or why nothing could be.
    pub trials: std::result::Result<Trials, NoTrials>,
    /// How the file of the trials was made; `None` where none could be made.
    pub scratch: Option<Scratch>,
}

/// How the file of the trials was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scratch {
    /// The file never had a name (`O_TMPFILE`).
    Nameless,
    /// The file had a name that was removed at once.
    Unlinked,
}

/// Whether files can be found again by the kernel's handles; name_to_handle_at(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HandleFacts {
    /// Asking for the handle of the directory.
    pub made: std::result::Result<(), Errno>,
    /// Opening the directory by it; `EPERM` without `CAP_DAC_READ_SEARCH`.
    pub opened: std::result::Result<(), Errno>,
}

/// Why nothing could be tried in a directory, though it could be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoTrials {
    /// The mount or the file system is read-only.
    #[error("it is mounted read-only: probe a writable directory of the same file system")]
    ReadOnly,
    /// The user may not make files here.
    #[error(
        "this user may not make files in it: run as one who may; where root may not, it holds no \
         files of users (/sys), is immutable (lsattr -d), or is squashed by its own server"
    )]
    Forbidden,
    /// No space, no inodes or no quota left.
    #[error("no space is left for a file of 4 MiB (or its quota is used up): make room")]
    NoSpace,
    /// Files cannot be made here by anybody: `/proc`, `/sys` and their like.
    #[error("files cannot be made in it: it does not hold files of users")]
    NoFiles,
    /// The process may not make files so large.
    #[error("this process may not write a file of 4 MiB (RLIMIT_FSIZE): raise ulimit -f")]
    FileSizeLimit,
    /// A call failed in another way.
    #[error("a file could not be made, filled or flushed in it: {0}")]
    Failed(Errno),
}

/// Why a directory could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProbeError {
    /// There is nothing with the name that was given.
    #[error("{}: there is no such directory", .0.display())]
    Missing(PathBuf),
    /// The path names something that is not a directory.
    #[error("{}: this is not a directory; name the one that is to be exported", .0.display())]
    NotADirectory(PathBuf),
    /// The user who looks may not enter the directory.
    #[error("{}: this user may not enter it; run as one who may, or as root", .0.display())]
    Forbidden(PathBuf),
    /// Opening or looking at the directory failed for another reason.
    #[error("{}: it cannot be looked at: {errno}", path.display())]
    Failed {
        /// The directory as it was named.
        path: PathBuf,
        /// The error that the kernel answered.
        errno: Errno,
    },
}

/// Looks at a directory and tries every kind of I/O on a file of its own in it. Blocks: a second
/// on a slow disk, for ever on a file system that does not answer.
///
/// # Errors
/// When the directory cannot be looked at. One that can be looked at but not written to is no
/// error: see [`DirectoryFacts::trials`].
pub fn probe(path: &Path) -> std::result::Result<DirectoryFacts, ProbeError> {
    look(path).map_err(|errno| {
        let path = path.to_owned();
        match errno {
            Errno::NOENT => ProbeError::Missing(path),
            Errno::NOTDIR => ProbeError::NotADirectory(path),
            Errno::ACCESS | Errno::PERM => ProbeError::Forbidden(path),
            errno => ProbeError::Failed { path, errno },
        }
    })
}

fn look(path: &Path) -> Result<DirectoryFacts> {
    let dir = fs::open_root(path)?;
    let fs = fs::statfs(dir.as_fd())?;
    let stat = fs::statx(dir.as_fd())?;
    let mount = mount_of(stat.mnt_id, path);
    let device = mount.as_ref().and_then(Device::of);
    let handles = handles(dir.as_fd());
    let made = if fs.read_only() {
        Err(NoTrials::ReadOnly)
    } else {
        scratch(dir.as_fd())
    };
    let scratch = made.as_ref().ok().map(|(_, scratch)| *scratch);
    let trials = made.and_then(|(file, _)| super::trials::run(file.as_fd()).map_err(why_no_trials));
    Ok(DirectoryFacts {
        path: path.to_owned(),
        fs,
        mount,
        device,
        handles,
        trials,
        scratch,
    })
}

/// The mount by its id (Linux 5.8), else by the longest mount point above the path; of several
/// on one mount point the last covers the others.
fn mount_of(id: u64, path: &Path) -> Option<Mount> {
    let all = mounts().ok()?;
    if let Some(found) = all.iter().find(|mount| id != 0 && mount.id == id) {
        return Some(found.clone());
    }
    let path = std::fs::canonicalize(path).ok()?;
    all.into_iter()
        .filter(|mount| path.starts_with(&mount.mount_point))
        .max_by_key(|mount| mount.mount_point.components().count())
}

fn handles(dir: BorrowedFd<'_>) -> HandleFacts {
    match fs::name_to_handle(dir) {
        Err(errno) => HandleFacts {
            made: Err(errno),
            opened: Err(errno),
        },
        Ok((handle, _)) => {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let opened = fs::reopen(dir, flags)
                .and_then(|mount| fs::open_by_handle(mount.as_fd(), &handle, OFlags::PATH));
            HandleFacts {
                made: Ok(()),
                opened: opened.map(drop),
            }
        }
    }
}

/// Makes an empty file for the trials, without a name.
fn scratch(dir: BorrowedFd<'_>) -> std::result::Result<(OwnedFd, Scratch), NoTrials> {
    // Past this limit the kernel would not only refuse but send a deadly signal.
    let limit = getrlimit(Resource::Fsize).current;
    if limit.is_some_and(|limit| limit < FILE_BYTES as u64) {
        return Err(NoTrials::FileSizeLimit);
    }
    match fs::tmpfile(dir, 0o600) {
        Ok(file) => Ok((file, Scratch::Nameless)),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOSYS | Errno::INVAL) => unlinked(dir)
            .map(|file| (file, Scratch::Unlinked))
            .map_err(why_no_trials),
        Err(errno) => Err(why_no_trials(errno)),
    }
}

fn unlinked(dir: BorrowedFd<'_>) -> Result<OwnedFd> {
    // Nobody else makes a name with our process id; one left by a process that had it is not
    // touched (O_EXCL), and the next number is taken.
    for number in 0..u32::from(u8::MAX) {
        let name = format!(".penstock-probe-{}-{number}", std::process::id());
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR;
        match fs::openat_create(dir, name.as_bytes(), flags, 0o600) {
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
            Ok(file) => {
                let kind = fs::statx(file.as_fd()).map(|stat| stat.kind());
                fs::unlinkat(dir, name.as_bytes())?;
                return match kind? {
                    FileKind::Regular => Ok(file),
                    _ => Err(Errno::OPNOTSUPP),
                };
            }
        }
    }
    Err(Errno::EXIST)
}

fn why_no_trials(errno: Errno) -> NoTrials {
    match errno {
        Errno::ROFS => NoTrials::ReadOnly,
        Errno::ACCESS | Errno::PERM => NoTrials::Forbidden,
        Errno::NOSPC | Errno::DQUOT => NoTrials::NoSpace,
        // What a file system answers that has no way to make a file.
        Errno::NOENT | Errno::OPNOTSUPP => NoTrials::NoFiles,
        Errno::FBIG => NoTrials::FileSizeLimit,
        errno => NoTrials::Failed(errno),
    }
}

/// What the machine and the process bring, whatever the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessFacts {
    /// The kernel's release as it calls itself; empty where `/proc` does not tell.
    pub kernel: String,
    /// The first two numbers of the kernel's release, (6, 14) for 6.14.3; `None` where it has no such
    /// numbers.
    pub kernel_version: Option<(u32, u32)>,
    /// Memory of the machine, or less where a control group (version 2) allows the process less;
    /// in bytes. Page cache counts against either.
    pub memory_bytes: Option<u64>,
    /// Effective user id of the process.
    pub uid: u32,
    /// Each capability the server asks about, and whether it is held.
    pub capabilities: [(&'static str, bool); Capability::ALL.len()],
    /// What io_uring can do, or why it cannot be used.
    pub uring: std::result::Result<UringFacts, String>,
    /// Descriptors the process may have.
    pub descriptors: u64,
}

/// Asks for the facts that do not depend on a directory.
#[must_use]
pub fn process() -> ProcessFacts {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel = kernel.trim_end().to_owned();
    let memory = std::fs::read_to_string("/proc/meminfo").ok();
    let memory = memory.as_deref().and_then(memory_total);
    ProcessFacts {
        kernel_version: version(&kernel),
        kernel,
        memory_bytes: memory
            .into_iter()
            .chain(MemoryWatch::open().limit_bytes())
            .min(),
        uid: rustix::process::geteuid().as_raw(),
        capabilities: Capability::ALL.map(|one| (one.name(), caps::has(one))),
        uring: uring(),
        descriptors: fs::nofile(),
    }
}

/// The first two numbers of a release such as `6.18.44-1-amd64` or `7.2-rc1`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn memory_total(meminfo: &str) -> Option<u64> {
    let mut lines = meminfo.lines();
    let total = lines.find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests;
