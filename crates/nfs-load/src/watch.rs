//! What a server does to its machine while a load runs: processor time, page cache, pressure.
//!
//! All of it comes from files of the kernel, found by the number of the server's process. What a file does not say, or
//! a kernel does not have, is `None`.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use nfs_io::fs::cachestat;
use nfs_io::usage;

use crate::cgroup::{MemoryGroup, memberships};
use crate::environment::kib_field;

/// A server that is watched, and the file that the load works on.
#[derive(Clone, Debug)]
pub struct Watch {
    process: Option<u32>,
    file: Option<PathBuf>,
    /// Its group, if that has a limit.
    group: Option<MemoryGroup>,
    pressure: Option<Pressure>,
}

/// Where the kernel tells of the time that was lost to a lack of something (PSI).
#[derive(Clone, Debug)]
struct Pressure {
    memory: PathBuf,
    io: PathBuf,
    is_of_group: bool,
}

/// One look. Times count from some moment in the past, which is the same for all looks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Look {
    /// Processor time of the process in its own code, in seconds.
    pub user_seconds: Option<f64>,
    /// Processor time of the process in the kernel, in seconds.
    pub system_seconds: Option<f64>,
    /// Bytes of the file in this host's page cache.
    pub data_cached_bytes: Option<u64>,
    /// Page cache of the group, or of the host.
    pub page_cache_bytes: Option<u64>,
    /// Time in which at least one task waited for memory, in seconds.
    pub memory_stall_seconds: Option<f64>,
    /// Time in which at least one task waited for a device, in seconds.
    pub io_stall_seconds: Option<f64>,
}

impl Watch {
    /// Watches the process, and the file where that is on this host; without either there is nothing to see.
    #[must_use]
    pub fn new(process: Option<u32>, file: Option<PathBuf>) -> Self {
        let name = process.map(|process| process.to_string());
        let group = name.as_deref().and_then(MemoryGroup::of);
        Self {
            process,
            file,
            group: group.filter(|group| group.limit_bytes().is_some()),
            pressure: name.as_deref().and_then(Pressure::of),
        }
    }

    /// How much memory the server may use, in bytes: its group's limit, or all of the machine's.
    #[must_use]
    pub fn memory_bytes(&self) -> Option<u64> {
        self.process?;
        let limit = self.group.as_ref().and_then(MemoryGroup::limit_bytes);
        limit.or_else(|| host_bytes("MemTotal:"))
    }

    /// Whether the page cache is that of a memory cgroup, and the pressure that of a cgroup.
    #[must_use]
    pub fn is_of_group(&self) -> (bool, bool) {
        let pressure = self.pressure.as_ref();
        let is_pressure = pressure.is_some_and(|pressure| pressure.is_of_group);
        (self.group.is_some(), is_pressure)
    }

    /// Looks.
    #[must_use]
    pub fn look(&self) -> Look {
        let used = self.process.and_then(usage::of);
        let stalled = |path: fn(&Pressure) -> &Path| stall_seconds(path(self.pressure.as_ref()?));
        Look {
            user_seconds: used.map(|used| used.user.as_secs_f64()),
            system_seconds: used.map(|used| used.system.as_secs_f64()),
            data_cached_bytes: self.file.as_deref().and_then(cached_bytes),
            page_cache_bytes: match &self.group {
                Some(group) => group.cache_bytes(),
                None => self.process.and_then(|_| host_bytes("Cached:")),
            },
            memory_stall_seconds: stalled(|pressure| &pressure.memory),
            io_stall_seconds: stalled(|pressure| &pressure.io),
        }
    }
}

impl Pressure {
    /// That of the process's cgroup of version 2 if it is in one, else of the host.
    fn of(process: &str) -> Option<Self> {
        let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
        let (_, path) = memberships(&groups).find(|(controllers, _)| controllers.is_empty())?;
        let path = path.trim_start_matches('/');
        let of_group =
            ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(|root| Path::new(root).join(path));
        let of_group = of_group
            .into_iter()
            .filter(|_| !path.is_empty())
            .map(|directory| Self {
                memory: directory.join("memory.pressure"),
                io: directory.join("io.pressure"),
                is_of_group: true,
            });
        let of_host = Self {
            memory: "/proc/pressure/memory".into(),
            io: "/proc/pressure/io".into(),
            is_of_group: false,
        };
        let mut all = of_group.chain([of_host]);
        all.find(|one| stall_seconds(&one.memory).is_some())
    }
}

/// The sum in `some avg10=0.00 avg60=0.00 avg300=0.00 total=38696443`, which is in microseconds.
fn stall_seconds(path: &Path) -> Option<f64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with("some "))?;
    let total = line.rsplit_once("total=")?.1;
    total.parse::<u64>().ok().map(|us| us as f64 / 1e6)
}

/// A file that is not there yet has nothing in the page cache.
fn cached_bytes(path: &Path) -> Option<u64> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(0),
        opened => opened.ok()?,
    };
    // Before Linux 6.5 nobody can tell.
    let stat = cachestat(file.as_fd(), 0, 0).ok()?;
    Some(stat.cached * rustix::param::page_size() as u64)
}

/// A line of `/proc/meminfo`, in bytes.
fn host_bytes(name: &str) -> Option<u64> {
    kib_field(&fs::read_to_string("/proc/meminfo").ok()?, name)
}

/// Whether a process has ended: there is none of that number any more, or only its exit code is left.
pub(crate) fn has_ended(process: u32) -> bool {
    match fs::read_to_string(format!("/proc/{process}/stat")) {
        // The state follows the name, which is in parentheses and may have some in it.
        Ok(stat) => {
            let rest = stat.rsplit_once(") ").map(|(_name, rest)| rest);
            rest.is_some_and(|rest| rest.starts_with(['Z', 'X']))
        }
        Err(error) => {
            error.kind() == io::ErrorKind::NotFound && Path::new("/proc/self/stat").exists()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_are_those_of_some_tasks() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text =
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 total=7\n";
        fs::write(file.path(), text).unwrap();
        assert_eq!(stall_seconds(file.path()), Some(2.5));
        assert_eq!(stall_seconds(Path::new("/nowhere")), None);
    }

    #[test]
    fn a_process_has_ended_before_and_after_its_exit_code_is_asked_for() {
        assert!(!has_ended(std::process::id()));
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        assert!(!has_ended(child.id()));
        child.kill().unwrap();
        while !has_ended(child.id()) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(has_ended(child.id()));
    }

    #[test]
    fn what_is_not_there_is_not_cached_and_of_what_cannot_be_opened_nobody_knows() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("file");
        assert_eq!(cached_bytes(&path), Some(0));
        std::os::unix::fs::symlink("file", &path).unwrap();
        assert_eq!(cached_bytes(&path), None);
    }

    #[test]
    fn this_process_can_be_watched_and_nobody_cannot() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let watch = Watch::new(Some(std::process::id()), Some(file.path().to_owned()));
        let seen = watch.look();
        assert!(seen.user_seconds.is_some() && seen.page_cache_bytes.is_some());
        assert!(watch.memory_bytes().is_some_and(|bytes| bytes > 1 << 20));
        let nobody = Watch::new(None, None);
        assert_eq!(nobody.look(), Look::default());
        assert_eq!(nobody.memory_bytes(), None);
    }
}
