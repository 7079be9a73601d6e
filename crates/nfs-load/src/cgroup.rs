//! A memory cgroup: what makes a file larger than "memory" on a machine that has plenty.
//!
//! Version 1 and version 2 of the interface are understood. Everything a server allocates, its sockets' buffers and the page
//! cache it fills are charged to the group; the load, outside, is not slowed by it.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use crate::error::LoadError;
use crate::leftovers;
use crate::limits::CLAIMS_MAX;

/// Beginning of the name of every group that is made here; the id of the process that made it follows.
pub const PREFIX: &str = leftovers::PREFIX;

/// A group, removed when dropped; its processes have to be gone by then.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
    version: Version,
    /// The group's directory, locked as long as it is in use.
    _lock: File,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

impl Version {
    /// The file that has the limit.
    const fn limit(self) -> &'static str {
        match self {
            Self::V1 => "memory.limit_in_bytes",
            Self::V2 => "memory.max",
        }
    }

    /// The line of `memory.stat` that has the page cache of the group and of those in it.
    const fn cache(self) -> &'static str {
        match self {
            Self::V1 => "total_cache",
            Self::V2 => "file",
        }
    }
}

/// What a group is charged with, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Charged {
    /// All memory that the group is charged with, the page cache included.
    pub all: u64,
    /// Page cache that the group is charged with, shared memory included.
    pub cache: u64,
}

impl Cgroup {
    /// Makes the group `PREFIX` + `name`, limited to `bytes` of memory, below the memory controller's root.
    ///
    /// # Errors
    /// The machine has no memory controller, or this process may not use it.
    pub fn new(name: &str, bytes: u64) -> Result<Self, LoadError> {
        let (root, version) = root()?;
        let path = root.join(format!("{PREFIX}{name}"));
        let group = Self {
            _lock: made(&path).map_err(refused(&path))?,
            path,
            version,
        };
        let file = group.path.join(version.limit());
        std::fs::write(&file, bytes.to_string()).map_err(refused(&file))?;
        Ok(group)
    }

    /// Words to put before a command, so that it starts inside.
    pub fn wrapper(&self) -> Vec<String> {
        let enter = format!(
            "echo $$ > '{}/cgroup.procs' && exec \"$@\"",
            self.path.display()
        );
        ["sh", "-c", &enter, "sh"].map(str::to_owned).to_vec()
    }

    /// The memory that the group is charged with now.
    ///
    /// # Errors
    /// Its files cannot be read.
    pub fn charged(&self) -> Result<Charged, LoadError> {
        let usage = match self.version {
            Version::V1 => "memory.usage_in_bytes",
            Version::V2 => "memory.current",
        };
        let cache = self.version.cache();
        Ok(Charged {
            all: self.number(usage)?,
            cache: self.number_in("memory.stat", |text| field(text, cache))?,
        })
    }

    /// The most it has been charged with, in bytes. Before Linux 5.19 version 2 does not know.
    pub fn peak_bytes(&self) -> Option<u64> {
        let name = match self.version {
            Version::V1 => "memory.max_usage_in_bytes",
            Version::V2 => "memory.peak",
        };
        self.number(name).ok()
    }

    fn number(&self, name: &str) -> Result<u64, LoadError> {
        self.number_in(name, |text| text.trim().parse().ok())
    }

    fn number_in(
        &self,
        name: &str,
        find: impl FnOnce(&str) -> Option<u64>,
    ) -> Result<u64, LoadError> {
        let path = self.path.join(name);
        let text = std::fs::read_to_string(&path).map_err(LoadError::local(&path))?;
        let missing = || io::Error::other("the number that was looked for is not in it");
        find(&text).ok_or_else(|| LoadError::local(&path)(missing()))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.path) {
            eprintln!("penstock: cannot remove {}: {error}", self.path.display());
        }
    }
}

/// The memory cgroup of a process, of either version of the interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryGroup {
    root: PathBuf,
    directory: PathBuf,
    version: Version,
}

impl MemoryGroup {
    /// The group that a process is in: its number, or `self`.
    #[must_use]
    pub fn of(process: &str) -> Option<Self> {
        let groups = std::fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
        memberships(&groups).find_map(|(controllers, path)| {
            let (root, version) = match controllers {
                "" => ("/sys/fs/cgroup", Version::V2),
                _ if controllers.split(',').any(|one| one == "memory") => {
                    ("/sys/fs/cgroup/memory", Version::V1)
                }
                _ => return None,
            };
            let root = PathBuf::from(root);
            let directory = root.join(path.trim_start_matches('/'));
            // The other version's hierarchy has no controller of memory.
            directory.join("memory.stat").is_file().then_some(Self {
                root,
                directory,
                version,
            })
        })
    }

    /// The least that the group and those around it allow, in bytes; `None` for as much as there is.
    #[must_use]
    pub fn limit_bytes(&self) -> Option<u64> {
        let file = self.version.limit();
        let groups = self.directory.ancestors();
        let groups = groups.take_while(|group| group.starts_with(&self.root));
        let limits = groups.filter_map(|group| {
            let text = std::fs::read_to_string(group.join(file)).ok()?;
            text.trim().parse::<u64>().ok()
        });
        // Version 1 writes "no limit" as the largest number of whole pages.
        limits.min().filter(|bytes| *bytes < 1 << 60)
    }

    /// Page cache that the group is charged with, in bytes.
    #[must_use]
    pub fn cache_bytes(&self) -> Option<u64> {
        let name = self.version.cache();
        let stat = std::fs::read_to_string(self.directory.join("memory.stat")).ok()?;
        field(&stat, name)
    }
}

/// For each hierarchy its controllers, none for version 2, and the group in it.
pub(crate) fn memberships(groups: &str) -> impl Iterator<Item = (&str, &str)> {
    groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        Some((parts.next()?, parts.next()?))
    })
}

/// Makes a group and locks its directory.
fn made(path: &Path) -> io::Result<File> {
    let mut left = CLAIMS_MAX;
    loop {
        std::fs::create_dir(path)?;
        left -= 1;
        let locked = File::open(path).and_then(|directory| {
            flock(&directory, FlockOperation::NonBlockingLockExclusive)?;
            // Whoever swept before this has removed the group.
            path.metadata().map(|_there| directory)
        });
        match locked {
            Err(_swept) if left > 0 && !path.exists() => {}
            locked => return locked,
        }
    }
}

/// Removes the groups of this user's runs that have ended. The kernel removes none that has processes, and none is touched
/// that a living run has locked because it is about to put one there.
pub fn sweep() {
    let Ok((root, _)) = root() else {
        return;
    };
    let user = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let is_ours = process.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        let is_own = entry
            .metadata()
            .is_ok_and(|m| m.is_dir() && m.uid() == user);
        if !(is_ours && is_own) {
            continue;
        }
        let path = entry.path();
        let lock = File::open(&path).and_then(|directory| {
            flock(&directory, FlockOperation::NonBlockingLockExclusive)?;
            Ok(directory)
        });
        if lock.is_ok() && std::fs::remove_dir(&path).is_ok() {
            eprintln!(
                "penstock: removed {}, which an earlier run left",
                path.display()
            );
        }
    }
}

/// Removes what a run that was cut short has left; the processes in the groups have to be ending.
///
/// # Errors
/// A group stays busy, or is not ours to remove.
pub fn remove_all(name: &str) -> Result<(), LoadError> {
    let Ok((root, _)) = root() else {
        return Ok(());
    };
    for entry in std::fs::read_dir(&root).map_err(LoadError::local(&root))? {
        let entry = entry.map_err(LoadError::local(&root))?;
        let prefix = format!("{PREFIX}{name}");
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            remove(&entry.path()).map_err(LoadError::local(&entry.path()))?;
        }
    }
    Ok(())
}

/// The last process may still be on its way out.
fn remove(path: &Path) -> io::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match std::fs::remove_dir(path) {
            Err(error)
                if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < deadline =>
            {
                // SLEEP: a poll for the kernel to take the last process out of the group.
                std::thread::sleep(Duration::from_millis(20));
            }
            done => return done,
        }
    }
}

/// The directory of the memory controller's root group.
fn root() -> Result<(PathBuf, Version), LoadError> {
    let v1 = Path::new("/sys/fs/cgroup/memory");
    if v1.join("memory.limit_in_bytes").exists() || v1.join("memory.usage_in_bytes").exists() {
        return Ok((v1.to_owned(), Version::V1));
    }
    let v2 = Path::new("/sys/fs/cgroup");
    let enabled = std::fs::read_to_string(v2.join("cgroup.subtree_control")).unwrap_or_default();
    if enabled
        .split_whitespace()
        .any(|controller| controller == "memory")
    {
        return Ok((v2.to_owned(), Version::V2));
    }
    let offered = std::fs::read_to_string(v2.join("cgroup.controllers")).unwrap_or_default();
    if offered
        .split_whitespace()
        .any(|controller| controller == "memory")
    {
        let switch = v2.join("cgroup.subtree_control");
        std::fs::write(&switch, "+memory").map_err(refused(&switch))?;
        return Ok((v2.to_owned(), Version::V2));
    }
    let missing = io::Error::new(
        io::ErrorKind::NotFound,
        "the kernel offers no memory controller there (boot with cgroup_enable=memory)",
    );
    Err(refused(v2)(missing))
}

fn refused(path: &Path) -> impl FnOnce(io::Error) -> LoadError {
    move |error| LoadError::Cgroup {
        path: path.to_owned(),
        error,
    }
}

/// The number behind a name in `memory.stat`.
fn field(stat: &str, name: &str) -> Option<u64> {
    stat.lines().find_map(|line| {
        let (key, value) = line.split_once(' ')?;
        (key == name).then(|| value.trim().parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_the_one_with_just_that_name() {
        let stat = "cache 1\nrss 2\ntotal_cache 4096\nfile 7\nfile_dirty 8\n";
        assert_eq!(field(stat, "total_cache"), Some(4096));
        assert_eq!(field(stat, "file"), Some(7));
        assert_eq!(field(stat, "cach"), None);
    }

    #[test]
    fn the_least_limit_around_a_group_counts() {
        let base = tempfile::tempdir().unwrap();
        let (root, inner) = (base.path().join("memory"), base.path().join("memory/a/b"));
        std::fs::create_dir_all(&inner).unwrap();
        let write = |path: &str, text: &str| std::fs::write(root.join(path), text).unwrap();
        for (version, none) in [
            (Version::V1, "9223372036854771712\n"),
            (Version::V2, "max\n"),
        ] {
            let limit = version.limit();
            let group = MemoryGroup {
                root: root.clone(),
                directory: inner.clone(),
                version,
            };
            write(&format!("a/b/{limit}"), none);
            assert_eq!(group.limit_bytes(), None);
            write(&format!("a/{limit}"), "4096\n");
            write(limit, "8192\n");
            assert_eq!(group.limit_bytes(), Some(4096));
            // What is outside of the hierarchy is no group.
            std::fs::write(base.path().join(limit), "1\n").unwrap();
            assert_eq!(group.limit_bytes(), Some(4096));
        }
        write("a/b/memory.stat", "file 5\ntotal_cache 6\n");
        let group = MemoryGroup {
            root,
            directory: inner,
            version: Version::V2,
        };
        assert_eq!(group.cache_bytes(), Some(5));
    }
}
