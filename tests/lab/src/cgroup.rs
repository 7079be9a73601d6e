//! A memory cgroup: what makes a file larger than "memory" on a machine that has plenty.
//!
//! Version 1 and version 2 of the interface are understood. Everything a server allocates, its sockets' buffers and the page
//! cache it fills are charged to the group; the load, outside, is not slowed by it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Beginning of the name of every group that is made here; the id of the process that made it follows.
pub const PREFIX: &str = "penstock-bench-";

/// A group, removed when dropped; its processes have to be gone by then.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
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
    pub fn new(name: &str, bytes: u64) -> Result<Self> {
        let (root, version) = root()?;
        let path = root.join(format!("{PREFIX}{name}"));
        std::fs::create_dir(&path).with_context(|| path.display().to_string())?;
        let group = Self { path, version };
        let limit = match version {
            Version::V1 => "memory.limit_in_bytes",
            Version::V2 => "memory.max",
        };
        group.write(limit, &bytes.to_string())?;
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
    pub fn charged(&self) -> Result<Charged> {
        let (usage, cache) = match self.version {
            Version::V1 => ("memory.usage_in_bytes", "total_cache"),
            Version::V2 => ("memory.current", "file"),
        };
        Ok(Charged {
            all: self.number(usage)?,
            cache: field(&self.read("memory.stat")?, cache).context("no cache in memory.stat")?,
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

    fn number(&self, name: &str) -> Result<u64> {
        let text = self.read(name)?;
        text.trim()
            .parse()
            .with_context(|| format!("{name} holds {text:?}"))
    }

    fn read(&self, name: &str) -> Result<String> {
        let path = self.path.join(name);
        std::fs::read_to_string(&path).with_context(|| path.display().to_string())
    }

    fn write(&self, name: &str, value: &str) -> Result<()> {
        let path = self.path.join(name);
        std::fs::write(&path, value).with_context(|| path.display().to_string())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.path) {
            eprintln!("cannot remove {}: {error:#}", self.path.display());
        }
    }
}

/// Removes what a run that was cut short has left; the processes in the groups have to be ending.
///
/// # Errors
/// A group stays busy, or is not ours to remove.
pub fn remove_all(name: &str) -> Result<()> {
    let Ok((root, _)) = root() else {
        return Ok(());
    };
    for entry in std::fs::read_dir(&root).with_context(|| root.display().to_string())? {
        let entry = entry?;
        let prefix = format!("{PREFIX}{name}");
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// The last process may still be on its way out.
fn remove(path: &Path) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match std::fs::remove_dir(path) {
            Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                if Instant::now() > deadline {
                    bail!("it stays busy");
                }
                // SLEEP: a poll for the kernel to take the last process out of the group.
                std::thread::sleep(Duration::from_millis(20));
            }
            done => return done.with_context(|| path.display().to_string()),
        }
    }
}

/// The directory of the memory controller's root group.
fn root() -> Result<(PathBuf, Version)> {
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
        std::fs::write(v2.join("cgroup.subtree_control"), "+memory")
            .context("switching the memory controller on for child groups")?;
        return Ok((v2.to_owned(), Version::V2));
    }
    bail!("no memory controller in /sys/fs/cgroup: boot with cgroup_enable=memory")
}

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
}
