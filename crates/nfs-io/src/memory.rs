//! How much memory the page cache may have for this process, and whether tasks wait for memory: the process's
//! control group, of version 2 or of version 1, or the whole machine.
//!
//! The files are opened once, so that a process that gives up its view of the file system can go on asking. Each
//! question reads a handful of them; they are made by the kernel on the spot, without a disk. Nothing here
//! panics on what they say.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use crate::control_groups::{Hierarchy, Version};
use crate::limits::{CGROUP_NO_LIMIT_BYTES, KERNEL_FIGURES_BYTES_MAX};

/// The open files that are asked.
#[derive(Debug, Default)]
pub struct MemoryWatch {
    meminfo: Option<File>,
    /// How long tasks waited, of each of [`Resource::ALL`]: those of the process's own group, where it has one that
    /// says so, else of the machine.
    pressure: [Option<File>; Resource::ALL.len()],
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
    version: Version,
    max: File,
    high: Option<File>,
    current: File,
    stat: File,
}

impl MemoryWatch {
    /// Opens what there is to ask. What is missing is left out.
    #[must_use]
    pub fn open() -> Self {
        Self::open_at(Path::new("/proc"), Path::new("/"))
    }

    /// Like [`MemoryWatch::open`], with the paths of `/proc/self/mountinfo` taken from `root` on.
    fn open_at(proc: &Path, root: &Path) -> Self {
        let text = |name| std::fs::read_to_string(proc.join(name)).unwrap_or_default();
        let (mounts, own) = (text("self/mountinfo"), text("self/cgroup"));
        let of = |version: Version| version.hierarchy("memory", (&mounts, &own), root);
        let unified = of(Version::V2);
        let pressure = Resource::ALL.map(|resource| {
            let word = resource.word();
            let own = unified.as_ref().and_then(|groups| {
                let name = format!("{word}.pressure");
                File::open(groups.own.join(name)).ok()
            });
            // Pressure may be switched off: then the file is there, and reading it fails.
            own.filter(|file| read(file).is_some())
                .or_else(|| File::open(proc.join("pressure").join(word)).ok())
        });
        let mut groups = Vec::new();
        for (version, hierarchy) in [(Version::V2, unified), (Version::V1, of(Version::V1))] {
            let above = hierarchy.iter().flat_map(Hierarchy::own_and_above);
            groups.extend(above.filter_map(|path| Group::open(path, version)));
        }
        Self {
            meminfo: File::open(proc.join("meminfo")).ok(),
            pressure,
            groups,
        }
    }

    /// The smallest limit of the process's control group and those above it, in bytes; `None` without one.
    #[must_use]
    pub fn limit_bytes(&self) -> Option<u64> {
        self.groups.iter().filter_map(Group::limit_bytes).min()
    }

    /// Asks the kernel. Some system calls: not for a thread that serves calls.
    #[must_use]
    pub fn figures(&self) -> MemoryFigures {
        let of_machine = self.meminfo.as_ref().and_then(read);
        let of_machine = of_machine.and_then(|text| available(&text));
        let of_groups = self.groups.iter().filter_map(Group::page_cache_bytes_max);
        let [.., memory] = &self.pressure;
        let pressure = memory.as_ref().and_then(read);
        MemoryFigures {
            page_cache_bytes_max: of_groups.chain(of_machine).min(),
            pressure: pressure.and_then(|text| some_avg10(&text)),
        }
    }
}

impl MemoryWatch {
    /// Memory that the process's own control group has, what it has of the page cache included, in bytes; `None`
    /// where there is no such group. Some system calls.
    #[must_use]
    pub fn used_bytes(&self) -> Option<u64> {
        read(&self.groups.first()?.current)?.trim().parse().ok()
    }

    /// How long tasks of the process's control group, or of the machine where it has none that says so, have waited
    /// for each resource. What the kernel does not tell is left out. Some system calls.
    #[must_use]
    pub fn pressures(&self) -> Vec<Pressure> {
        let files = Resource::ALL.into_iter().zip(&self.pressure);
        let texts =
            files.filter_map(|(resource, file)| Some((resource, file.as_ref().and_then(read)?)));
        let told = texts.map(|(resource, text)| Pressure {
            resource,
            some: waited(&text, "some "),
            full: waited(&text, "full "),
        });
        told.collect()
    }
}

/// What tasks may have to wait for, as the kernel's pressure files have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// A processor.
    Cpu,
    /// A disk.
    Io,
    /// Memory.
    Memory,
}

impl Resource {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Cpu, Self::Io, Self::Memory];

    /// The kernel's word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Io => "io",
            Self::Memory => "memory",
        }
    }
}

/// How long tasks waited for a resource since the machine started; `None` where the kernel does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pressure {
    /// What was waited for.
    pub resource: Resource,
    /// Time in which at least one task waited.
    pub some: Option<Duration>,
    /// Time in which all tasks waited that had anything to do.
    pub full: Option<Duration>,
}

/// `total` of a line of a pressure file, which has microseconds.
fn waited(text: &str, line: &str) -> Option<Duration> {
    let line = text.lines().find_map(|it| it.strip_prefix(line))?;
    let total = line
        .split(' ')
        .find_map(|field| field.strip_prefix("total="))?;
    total.trim().parse().ok().map(Duration::from_micros)
}

impl Group {
    fn open(path: &Path, version: Version) -> Option<Self> {
        let open = |name| File::open(path.join(name)).ok();
        Some(match version {
            Version::V1 => Self {
                version,
                max: open("memory.limit_in_bytes")?,
                high: None,
                current: open("memory.usage_in_bytes")?,
                stat: open("memory.stat")?,
            },
            Version::V2 => Self {
                version,
                max: open("memory.max")?,
                high: open("memory.high"),
                current: open("memory.current")?,
                stat: open("memory.stat")?,
            },
        })
    }

    /// What the group and those below it may have in all. `None` without a limit.
    fn limit_bytes(&self) -> Option<u64> {
        let limit = |file: &File| read(file)?.trim().parse::<u64>().ok();
        let limits = [limit(&self.max), self.high.as_ref().and_then(limit)];
        let is_limit = |limit: &u64| *limit < CGROUP_NO_LIMIT_BYTES;
        limits.into_iter().flatten().filter(is_limit).min()
    }

    /// What the group's limit leaves for the page cache beside what cannot be let go of. `None` without a limit.
    fn page_cache_bytes_max(&self) -> Option<u64> {
        let limit = self.limit_bytes()?;
        let current = read(&self.current)?.trim().parse::<u64>().ok()?;
        let cached = file_bytes(self.version, &read(&self.stat)?);
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

/// Pages of files in the cache that can be let go of, of a group and those below it, as `memory.stat` has them, in
/// bytes.
fn file_bytes(version: Version, text: &str) -> u64 {
    let names = match version {
        Version::V1 => ["total_active_file ", "total_inactive_file "],
        Version::V2 => ["active_file ", "inactive_file "],
    };
    let of = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        value.and_then(|value| value.trim().parse::<u64>().ok())
    };
    let parts = names.map(of);
    parts.into_iter().flatten().fold(0, u64::saturating_add)
}

/// MemAvailable of `/proc/meminfo`, in bytes.
fn available(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
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
    use crate::control_groups::tests::{MOUNTS, MOUNTS_OF_V1};

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

        fn watch(&self) -> MemoryWatch {
            MemoryWatch::open_at(&self.0.path().join("proc"), self.0.path())
        }

        fn figures(&self) -> MemoryFigures {
            self.watch().figures()
        }
    }

    #[test]
    fn pressure_is_told_of_the_own_group_and_else_of_the_machine() {
        let own = PRESSURE.replace("total=99", "total=1500000");
        let shown = Shown::new(&[
            ("proc/self/mountinfo", MOUNTS),
            ("proc/self/cgroup", "0::/inner\n"),
            ("groups/inner/io.pressure", &own),
            ("proc/pressure/io", PRESSURE),
            (
                "proc/pressure/cpu",
                "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n",
            ),
        ]);
        let watch = shown.watch();
        let told = |resource, some, full: Option<u64>| Pressure {
            resource,
            some: Some(Duration::from_micros(some)),
            full: full.map(Duration::from_micros),
        };
        let expected = [
            told(Resource::Cpu, 7, None),
            told(Resource::Io, 1_500_000, Some(9)),
        ];
        assert_eq!(watch.pressures(), expected);
        assert_eq!(watch.used_bytes(), None);
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
        let more = [
            ("proc/meminfo", MEMINFO),
            ("proc/pressure/memory", PRESSURE),
            ("proc/self/cgroup", "1:name=systemd:/x\n0::/outer/inner\n"),
            ("proc/self/mountinfo", MOUNTS),
        ];
        files.extend(more.map(|(path, text)| (path.to_owned(), text.to_owned())));
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()))
            .collect();
        Shown::new(&files).figures()
    }

    #[test]
    fn groups_of_version_1_have_limits_too() {
        const MIB: u64 = 1 << 20;
        let files = |limit| {
            let stat = "active_file 1\ntotal_active_file 10485760\ntotal_inactive_file 20971520\n";
            [
                ("proc/meminfo", MEMINFO),
                ("proc/self/mountinfo", MOUNTS_OF_V1),
                (
                    "proc/self/cgroup",
                    "4:cpu,cpuacct:/lxc/box/a\n3:memory:/lxc/box/a\n0::/\n",
                ),
                ("groups/memory/a/memory.limit_in_bytes", limit),
                ("groups/memory/a/memory.usage_in_bytes", "104857600\n"),
                ("groups/memory/a/memory.stat", stat),
            ]
        };
        let limited = Shown::new(&files("536870912\n")).figures();
        assert_eq!(limited.page_cache_bytes_max, Some((512 - 70) * MIB));
        // What version 1 shows for no limit, on machines with pages of 4 KiB and of 64 KiB.
        for none in ["9223372036854771712\n", "9223372036854710272\n"] {
            let shown = Shown::new(&files(none));
            assert_eq!(shown.figures().page_cache_bytes_max, Some(23_000_000 << 10));
            assert_eq!(shown.watch().limit_bytes(), None, "{none}");
        }
        let shown = Shown::new(&files("536870912\n"));
        assert_eq!(shown.watch().limit_bytes(), Some(512 * MIB));
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
    }

    #[test]
    fn this_machine_says_how_much_memory_there_is() {
        let figures = MemoryWatch::open().figures();
        assert!(figures.page_cache_bytes_max.is_some());
    }
}
