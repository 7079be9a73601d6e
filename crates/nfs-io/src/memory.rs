//! How much memory the page cache may have for this process, and whether tasks wait for memory: the process's
//! control group (version 2), or the whole machine.
//!
//! The files are opened once, so that a process that gives up its view of the file system can go on asking. Each
//! question reads a handful of them; they are made by the kernel on the spot, without a disk. Nothing here
//! panics on what they say.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::limits::{CGROUP_DEPTH_MAX, KERNEL_FIGURES_BYTES_MAX};

/// Where the root of the control groups of version 2 is mounted.
const CGROUP_ROOT: &str = "/sys/fs/cgroup";

/// The open files that are asked.
#[derive(Debug, Default)]
pub struct MemoryWatch {
    meminfo: Option<File>,
    /// The process's own group, where it has one that says so, else the machine's.
    pressure: Option<File>,
    /// The process's group and those above it that can have a limit.
    groups: Vec<Group>,
}

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryFigures {
    /// Bytes that the page cache has or could have; `None` where the kernel does not say.
    pub page_cache_bytes_max: Option<u64>,
    /// Hundredths of a percent of the last ten seconds in which some task waited for memory.
    pub pressure: Option<u16>,
}

/// A control group's files.
#[derive(Debug)]
struct Group {
    max: File,
    high: Option<File>,
    current: File,
    stat: File,
}

impl MemoryWatch {
    /// Opens what there is to ask. What is missing is left out.
    #[must_use]
    pub fn open() -> Self {
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let own = own_group(&own).map(|path| Path::new(CGROUP_ROOT).join(path));
        Self::open_at(Path::new("/proc"), own.as_deref(), Path::new(CGROUP_ROOT))
    }

    fn open_at(proc: &Path, own: Option<&Path>, root: &Path) -> Self {
        let above = own.into_iter().flat_map(Path::ancestors);
        let above = above.take_while(|group| *group != root && group.starts_with(root));
        let groups = above.take(CGROUP_DEPTH_MAX).filter_map(Group::open);
        let of_group = own.and_then(|own| File::open(own.join("memory.pressure")).ok());
        // Pressure may be switched off: then the file is there, and reading it fails.
        let of_group = of_group.filter(|file| read(file).is_some());
        Self {
            meminfo: File::open(proc.join("meminfo")).ok(),
            pressure: of_group.or_else(|| File::open(proc.join("pressure/memory")).ok()),
            groups: groups.collect(),
        }
    }

    /// Asks the kernel. Some system calls: not for a thread that serves calls.
    #[must_use]
    pub fn figures(&self) -> MemoryFigures {
        let of_machine = self.meminfo.as_ref().and_then(read);
        let of_machine = of_machine.and_then(|text| available(&text));
        let of_groups = self.groups.iter().filter_map(Group::page_cache_bytes_max);
        let pressure = self.pressure.as_ref().and_then(read);
        MemoryFigures {
            page_cache_bytes_max: of_groups.chain(of_machine).min(),
            pressure: pressure.and_then(|text| some_avg10(&text)),
        }
    }
}

impl Group {
    fn open(path: &Path) -> Option<Self> {
        let open = |name| File::open(path.join(name)).ok();
        Some(Self {
            max: open("memory.max")?,
            high: open("memory.high"),
            current: open("memory.current")?,
            stat: open("memory.stat")?,
        })
    }

    /// What the group's limit leaves for the page cache beside what cannot be let go of. `None` without a limit.
    fn page_cache_bytes_max(&self) -> Option<u64> {
        let limit = |file: &File| read(file)?.trim().parse::<u64>().ok();
        let limits = [limit(&self.max), self.high.as_ref().and_then(limit)];
        let limit = limits.into_iter().flatten().min()?;
        let current = read(&self.current)?.trim().parse::<u64>().ok()?;
        let cached = file_bytes(&read(&self.stat)?);
        Some(limit.saturating_sub(current.saturating_sub(cached)))
    }
}

/// The whole of a small file of the kernel's.
fn read(file: &File) -> Option<String> {
    let mut bytes = vec![0; KERNEL_FIGURES_BYTES_MAX];
    let len = file.read_at(&mut bytes, 0).ok()?;
    bytes.truncate(len);
    String::from_utf8(bytes).ok()
}

/// The process's group of version 2 below the mount point, as `/proc/self/cgroup` names it.
fn own_group(text: &str) -> Option<PathBuf> {
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    // Of a group outside the process's own view.
    (!path.split('/').any(|name| name == "..")).then(|| PathBuf::from(path))
}

/// MemAvailable of `/proc/meminfo`, in bytes.
fn available(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Pages of files in the cache that can be let go of, of `memory.stat`, in bytes.
fn file_bytes(text: &str) -> u64 {
    let of = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        value.and_then(|value| value.trim().parse::<u64>().ok())
    };
    let parts = ["active_file ", "inactive_file "].map(of);
    parts.into_iter().flatten().fold(0, u64::saturating_add)
}

/// `avg10` of the line `some` of a pressure file, in hundredths of a percent.
fn some_avg10(text: &str) -> Option<u16> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let value = line
        .split(' ')
        .find_map(|field| field.strip_prefix("avg10="))?;
    let (whole, part) = value.split_once('.')?;
    let (whole, part): (u16, u16) = (whole.parse().ok()?, part.get(..2)?.parse().ok()?);
    whole.checked_mul(100)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str =
        "MemTotal:       24612345 kB\nMemFree: 1 kB\nMemAvailable:   23000000 kB\n";
    const PRESSURE: &str = "some avg10=12.34 avg60=5.00 avg300=1.00 total=99\n\
                            full avg10=3.00 avg60=0.00 avg300=0.00 total=9\n";

    /// A directory with files as the kernel shows them: a machine, and a group in a group.
    struct Shown(tempfile::TempDir);

    impl Shown {
        fn new(files: &[(&str, &str)]) -> Self {
            let shown = Self(tempfile::tempdir().unwrap());
            for (name, text) in files {
                let path = shown.0.path().join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            shown
        }

        fn figures(&self) -> MemoryFigures {
            let root = self.0.path().join("groups");
            let own = root.join("outer/inner");
            MemoryWatch::open_at(&self.0.path().join("proc"), Some(&own), &root).figures()
        }
    }

    fn group<'t>(max: &'t str, high: &'t str, current: &'t str, stat: &'t str) -> [&'t str; 4] {
        [max, high, current, stat]
    }

    fn with_groups(outer: [&str; 4], inner: [&str; 4]) -> MemoryFigures {
        let names = ["memory.max", "memory.high", "memory.current", "memory.stat"];
        let of = |path: &str, texts: [&str; 4]| {
            let named = names.iter().zip(texts);
            let named =
                named.map(|(name, text)| (format!("groups/{path}/{name}"), text.to_owned()));
            named.collect::<Vec<_>>()
        };
        let mut files = of("outer", outer);
        files.extend(of("outer/inner", inner));
        files.push(("proc/meminfo".to_owned(), MEMINFO.to_owned()));
        files.push(("proc/pressure/memory".to_owned(), PRESSURE.to_owned()));
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()))
            .collect();
        Shown::new(&files).figures()
    }

    #[test]
    fn a_machine_without_groups_has_what_is_available() {
        let files = [
            ("proc/meminfo", MEMINFO),
            ("proc/pressure/memory", PRESSURE),
        ];
        let figures = MemoryFigures {
            page_cache_bytes_max: Some(23_000_000 << 10),
            pressure: Some(1234),
        };
        assert_eq!(Shown::new(&files).figures(), figures);
        assert_eq!(Shown::new(&[]).figures(), MemoryFigures::default());
    }

    #[test]
    fn the_tightest_limit_of_a_group_and_those_above_it_holds() {
        const MIB: u64 = 1 << 20;
        let stat = "anon 1\nactive_file 10485760\ninactive_file 20971520\nfile 99\n";
        let free = group("max\n", "max\n", "99\n", stat);
        // 512 MiB, of which 100 MiB are in use, 30 MiB of these for files.
        let tight = group("536870912\n", "max\n", "104857600\n", stat);
        let left = Some((512 - 70) * MIB);
        assert_eq!(with_groups(free, tight).page_cache_bytes_max, left);
        assert_eq!(with_groups(tight, free).page_cache_bytes_max, left);
        let high = group("536870912\n", "134217728\n", "104857600\n", stat);
        let left = Some((128 - 70) * MIB);
        assert_eq!(with_groups(tight, high).page_cache_bytes_max, left);
        let over = group("1048576\n", "max\n", "104857600\n", "");
        assert_eq!(with_groups(free, over).page_cache_bytes_max, Some(0));
    }

    #[test]
    fn what_cannot_be_understood_is_left_out() {
        for text in [
            "",
            "some",
            "some avg10=",
            "some avg10=1",
            "some avg10=x.00",
            "full avg10=1.00",
        ] {
            assert_eq!(some_avg10(text), None, "{text}");
        }
        assert_eq!(some_avg10("some avg10=100.00 x"), Some(10_000));
        for text in [
            "",
            "MemAvailable:",
            "MemAvailable: 1",
            "MemAvailable: -1 kB",
        ] {
            assert_eq!(available(text), None, "{text}");
        }
        assert_eq!(own_group("1:cpu:/x\n0::/a/b\n"), Some("a/b".into()));
        assert_eq!(own_group("0::/\n"), Some("".into()));
        assert_eq!(own_group("0::/../up\n"), None);
        assert_eq!(own_group("4:memory:/x\n"), None);
    }

    #[test]
    fn this_machine_says_how_much_memory_there_is() {
        let figures = MemoryWatch::open().figures();
        assert!(figures.page_cache_bytes_max.is_some());
    }
}
