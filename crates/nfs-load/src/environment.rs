//! Where a run took place: what a figure depends on besides what is measured.

use std::fs;
use std::path::Path;

use nfs_io::mounts;
use serde::{Deserialize, Serialize};

use crate::cgroup::MemoryGroup;
use crate::cores::Apart;

/// The machine of a run. What cannot be found out is `None`, or empty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Name and release of the kernel.
    pub kernel: String,
    /// Model of the processor.
    pub processor: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Memory of the machine in bytes.
    pub memory_bytes: Option<u64>,
    /// The least that a memory cgroup around this process allows, in bytes.
    pub memory_limit_bytes: Option<u64>,
    /// What each server that was started for the run may use, in bytes; `None` for all there is.
    #[serde(default)]
    pub server_memory_bytes: Option<u64>,
    /// Names and versions of the servers of others that were started for the run.
    #[serde(default)]
    pub peers: Vec<String>,
    /// Where the targets are mounted that were measured through a mount, in their order.
    #[serde(default)]
    pub mounts: Vec<FileSystem>,
    /// TCP congestion control that sockets of this host have unless they are told otherwise. `bbr` spreads over time what is
    /// sent, which costs throughput over loopback.
    #[serde(default)]
    pub congestion_control: Option<String>,
    /// Where the files are, if that is on this host.
    pub file_system: Option<FileSystem>,
    /// Share of the cores (0 to 1) that was in use before the run began: other work on the machine.
    pub busy_before: Option<f64>,
    /// How far apart the cores were during the run, where that was looked at.
    #[serde(default)]
    pub cores_apart: Option<Apart>,
}

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileSystem {
    /// Its type, such as `ext4`.
    pub kind: String,
    /// What is mounted, mostly a device.
    pub source: String,
    /// Its mount options.
    pub options: String,
}

impl FileSystem {
    /// What is mounted at the directory, or at the nearest one above it.
    #[must_use]
    pub fn at(directory: &Path) -> Option<Self> {
        file_system(directory)
    }

    fn shown(&self) -> String {
        format!("{} on {}, {}", self.kind, self.source, self.options)
    }
}

impl Environment {
    /// Looks around; `directory` is where files of this host will be.
    #[must_use]
    pub fn look(directory: Option<&Path>) -> Self {
        let name = rustix::system::uname();
        let (system, release) = (name.sysname(), name.release());
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        Self {
            kernel: format!("{} {}", system.to_string_lossy(), release.to_string_lossy()),
            processor: processor(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_bytes: kib_field(&meminfo, "MemTotal:"),
            memory_limit_bytes: MemoryGroup::of("self").and_then(|group| group.limit_bytes()),
            server_memory_bytes: None,
            peers: Vec::new(),
            mounts: Vec::new(),
            congestion_control: congestion_control(),
            file_system: directory.and_then(file_system),
            busy_before: busy(),
            cores_apart: None,
        }
    }

    /// Why figures of one environment say nothing about those of the other; empty if they do.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let mut differ = |what: &str, old: &str, new: &str| {
            if old != new {
                found.push(format!("{what}: {old} and {new}"));
            }
        };
        let bytes = |bytes: Option<u64>| bytes.map_or("unknown".to_owned(), |b| b.to_string());
        let on = |place: &Option<FileSystem>| {
            let shown = |fs: &FileSystem| format!("{} ({})", fs.kind, fs.options);
            place.as_ref().map_or("unknown".to_owned(), shown)
        };
        differ("kernel", &self.kernel, &other.kernel);
        differ("processor", &self.processor, &other.processor);
        let cores = (self.cores.to_string(), other.cores.to_string());
        differ("cores", &cores.0, &cores.1);
        let memory = (bytes(self.memory_bytes), bytes(other.memory_bytes));
        differ("memory", &memory.0, &memory.1);
        let limits = (
            bytes(self.memory_limit_bytes),
            bytes(other.memory_limit_bytes),
        );
        differ("memory limit", &limits.0, &limits.1);
        let servers = (self.server_memory_bytes, other.server_memory_bytes);
        let all = |bytes: Option<u64>| bytes.map_or("all there is".to_owned(), |b| b.to_string());
        differ("memory of a server", &all(servers.0), &all(servers.1));
        let peers = (self.peers.join(", "), other.peers.join(", "));
        differ("other servers", &peers.0, &peers.1);
        // Reports of before it was looked at say nothing of it.
        if let (Some(old), Some(new)) = (&self.congestion_control, &other.congestion_control) {
            differ("congestion control", old, new);
        }
        let mounts = |of: &Self| of.mounts.iter().map(FileSystem::shown).collect::<Vec<_>>();
        differ(
            "mounts",
            &mounts(self).join("; "),
            &mounts(other).join("; "),
        );
        differ(
            "file system",
            &on(&self.file_system),
            &on(&other.file_system),
        );
        found
    }

    /// The environment as rows of a table.
    #[must_use]
    pub fn rows(&self) -> Vec<[String; 2]> {
        let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
        let row = |name: &str, text: String| [name.to_owned(), text];
        let mut rows = vec![
            row("Kernel", self.kernel.clone()),
            row(
                "Processor",
                format!("{}, {} cores", self.processor, self.cores),
            ),
        ];
        rows.extend(self.memory_bytes.map(|bytes| row("Memory", mib(bytes))));
        let limit = self.memory_limit_bytes.map_or("none".to_owned(), mib);
        rows.push(row("Memory limit", limit));
        let servers = self.server_memory_bytes;
        rows.extend(servers.map(|bytes| row("Memory of each server", mib(bytes))));
        if !self.peers.is_empty() {
            rows.push(row("Other servers", self.peers.join(", ")));
        }
        let mounts = self.mounts.iter();
        rows.extend(mounts.map(|fs| row("Mounted", fs.shown())));
        let congestion = self.congestion_control.clone();
        rows.extend(congestion.map(|name| row("Congestion control", name)));
        let place = self.file_system.iter();
        rows.extend(place.map(|fs| row("File system", fs.shown())));
        rows.extend(self.busy_before.map(|share| {
            row(
                "In use before the run",
                format!("{:.0} % of the cores", share * 100.0),
            )
        }));
        let apart = self.cores_apart.as_ref();
        rows.extend(apart.map(|apart| row("Between two cores", apart.words())));
        rows
    }
}

/// The model of the first processor; on some machines there is only an implementer and a part number.
fn processor(cpuinfo: &str) -> String {
    let field = |name: &str| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    let part = || {
        Some(format!(
            "{} part {}",
            field("CPU implementer")?,
            field("CPU part")?
        ))
    };
    field("model name")
        .or_else(part)
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// A line of the form `MemTotal:   24105 kB`, in bytes.
pub(crate) fn kib_field(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    kib.checked_mul(1024)
}

fn congestion_control() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").ok()?;
    Some(name.trim().to_owned())
}

fn file_system(directory: &Path) -> Option<FileSystem> {
    let directory = fs::canonicalize(directory).ok()?;
    let all = mounts::mounts().ok()?;
    // Of two mounts on one place the later one is seen.
    let mount = all
        .into_iter()
        .filter(|mount| directory.starts_with(&mount.mount_point))
        .max_by_key(|mount| mount.mount_point.components().count())?;
    Some(FileSystem {
        kind: mount.fs_type,
        source: mount.source,
        options: format!("{},{}", mount.options, mount.super_options),
    })
}

/// What share of the cores is in use while this process does nothing, over a fifth of a second.
fn busy() -> Option<f64> {
    let before = ticks(&fs::read_to_string("/proc/stat").ok()?)?;
    // SLEEP: what is measured is what goes on meanwhile.
    std::thread::sleep(std::time::Duration::from_millis(200));
    let after = ticks(&fs::read_to_string("/proc/stat").ok()?)?;
    let all = after.1.checked_sub(before.1).filter(|all| *all > 0)?;
    Some(after.0.saturating_sub(before.0) as f64 / all as f64)
}

/// Ticks of all cores: those that were in use, and all of them.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Vec<u64> = line
        .split_whitespace()
        .map_while(|field| field.parse().ok())
        .collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; guests are in user already.
    let of = |numbers: &[usize]| -> Option<u64> {
        numbers
            .iter()
            .map(|&number| fields.get(number).copied())
            .sum()
    };
    Some((of(&[0, 1, 2, 5, 6])?, of(&[0, 1, 2, 3, 4, 5, 6, 7])?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_kernel_and_a_file_system() {
        let found = Environment::look(Some(Path::new("/proc")));
        assert!(found.kernel.starts_with("Linux "), "{}", found.kernel);
        assert_eq!(found.file_system.as_ref().unwrap().kind, "proc");
        assert!(found.memory_bytes.is_some() && found.cores > 0);
        assert_eq!(found.differences(&found), Vec::<String>::new());
    }

    #[test]
    fn each_difference_is_told() {
        let one = Environment::look(None);
        let mut other = one.clone();
        other.kernel = "Linux 99".to_owned();
        other.memory_limit_bytes = Some(7);
        other.server_memory_bytes = Some(8);
        other.busy_before = Some(0.5);
        let found = one.differences(&other).join("; ");
        assert!(
            found.contains("Linux 99") && found.contains("memory limit: "),
            "{found}"
        );
        assert!(
            found.contains("memory of a server: all there is and 8"),
            "{found}"
        );
        assert!(!found.contains("0.5"), "{found}");
    }

    #[test]
    fn a_processor_without_a_name_has_its_numbers() {
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(processor(arm), "0x41 part 0xd0c");
        assert_eq!(processor("model name\t: A B\n"), "A B");
        assert_eq!(processor(""), std::env::consts::ARCH);
    }

    #[test]
    fn busy_is_what_is_neither_idle_nor_waiting() {
        let stat = "cpu  1 2 4 1000 2000 8 16 4000 0 0\ncpu0 1 1\n";
        assert_eq!(ticks(stat), Some((31, 7031)));
        assert_eq!(ticks("cpu 1 2"), None);
    }
}
