//! Where the control groups of this process are to be seen, of version 2 or of version 1.
//!
//! Nothing here panics on what the kernel's files say.

use std::path::{Path, PathBuf};

use crate::limits::CGROUP_DEPTH_MAX;

/// Which interface of control groups the kernel shows a controller in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// One hierarchy for each controller, or for some of them together.
    V1,
    /// One hierarchy for all controllers.
    V2,
}

/// Where the control groups of a hierarchy are to be seen, and which of them is this process's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    /// The directory that the hierarchy is mounted at.
    mounted_at: PathBuf,
    /// The directory of the process's own group, there or below.
    pub(crate) own: PathBuf,
}

impl Version {
    /// The hierarchy of the controller of this version, from `/proc/self/mountinfo` and `/proc/self/cgroup`, with the
    /// paths of the former taken from `root` on. `None` where it is not mounted.
    pub(crate) fn hierarchy(
        self,
        controller: &str,
        (mounts, own): (&str, &str),
        root: &Path,
    ) -> Option<Hierarchy> {
        let mut lines = own.lines();
        let own = lines.find_map(|line| self.own_group(controller, line))?;
        let mut lines = mounts.lines();
        let mounted = lines.find_map(|line| self.mounted(controller, line))?;
        let at = root.join(mounted.at.trim_start_matches('/'));
        // A container sees its own group as the root of the hierarchy, under the name that the host has for it.
        let below = own.strip_prefix(mounted.root.trim_end_matches('/'));
        let below = below.filter(|path| path.is_empty() || path.starts_with('/'));
        let below = below.unwrap_or_default().trim_start_matches('/');
        // Of a group outside the process's own view.
        let outside = below.split('/').any(|name| name == "..");
        (!outside).then(|| Hierarchy {
            own: at.join(below),
            mounted_at: at,
        })
    }

    /// The path of the process's group, if this line of `/proc/self/cgroup` is of the controller of this version.
    fn own_group<'t>(self, controller: &str, line: &'t str) -> Option<&'t str> {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let is_ours = match self {
            Self::V1 => controllers.split(',').any(|name| name == controller),
            Self::V2 => controllers.is_empty(),
        };
        is_ours.then_some(path)
    }

    /// What this line of `/proc/self/mountinfo` says, if it is of the controller of this version.
    fn mounted<'t>(self, controller: &str, line: &'t str) -> Option<Mounted<'t>> {
        let (mount, of_system) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, at) = (fields.next()?, fields.next()?);
        let mut fields = of_system.split(' ');
        let kind = fields.next()?;
        let is_ours = match self {
            Self::V1 => {
                kind == "cgroup" && fields.nth(1)?.split(',').any(|name| name == controller)
            }
            Self::V2 => kind == "cgroup2",
        };
        is_ours.then_some(Mounted { root, at })
    }
}

/// A mounted hierarchy, as `/proc/self/mountinfo` has it.
struct Mounted<'t> {
    /// The group that is to be seen at the mount point.
    root: &'t str,
    /// The mount point.
    at: &'t str,
}

impl Hierarchy {
    /// The directories of the process's group and of those above it that it can see. The root of a whole hierarchy
    /// has no limit, and no files that tell one.
    pub(crate) fn own_and_above(&self) -> impl Iterator<Item = &Path> {
        let above = self.own.ancestors().take(CGROUP_DEPTH_MAX);
        above.take_while(|group| group.starts_with(&self.mounted_at))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const MOUNTS: &str = "25 1 0:22 / /sys rw - sysfs sysfs rw\n\
        29 25 0:26 / /groups rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    /// A machine with groups of version 1, one hierarchy for each controller, as a container sees them.
    pub(crate) const MOUNTS_OF_V1: &str = "30 25 0:27 /lxc/box /groups/cpu rw shared:5 - cgroup cgroup rw,cpu,cpuacct\n\
        31 25 0:28 /lxc/box /groups/memory rw shared:6 - cgroup cgroup rw,memory\n\
        32 25 0:29 / /groups/unified rw shared:7 - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_own_group_is_found_where_the_process_can_see_it() {
        let found = |version: Version, mounts, own| {
            version.hierarchy("memory", (mounts, own), Path::new("/"))
        };
        let at = |mounted_at: &str, own: &str| {
            Some(Hierarchy {
                mounted_at: mounted_at.into(),
                own: own.into(),
            })
        };
        let (v1, v2) = (Version::V1, Version::V2);
        let whole = at("/groups", "/groups/a/b");
        assert_eq!(found(v2, MOUNTS, "1:cpu:/x\n0::/a/b\n"), whole);
        assert_eq!(found(v2, MOUNTS, "0::/\n"), at("/groups", "/groups/"));
        assert_eq!(found(v2, MOUNTS, "0::/../up\n"), None);
        assert_eq!(found(v2, MOUNTS, "4:memory:/x\n"), None);
        assert_eq!(found(v2, "", "0::/a\n"), None);
        let boxed = |own: &str| at("/groups/memory", &format!("/groups/memory/{own}"));
        let own = "3:cpu:/lxc/box/x\n4:hugetlb,memory:/lxc/box/a\n";
        assert_eq!(found(v1, MOUNTS_OF_V1, own), boxed("a"));
        assert_eq!(found(v1, MOUNTS_OF_V1, "4:memory:/lxc/box\n"), boxed(""));
        // With a view of its own the process names its group from there.
        assert_eq!(found(v1, MOUNTS_OF_V1, "4:memory:/lxc/boxes\n"), boxed(""));
        assert_eq!(found(v1, MOUNTS, own), None);
        // Several controllers may have one hierarchy.
        let of_cpu = v1.hierarchy(
            "cpu",
            (MOUNTS_OF_V1, "4:cpu,cpuacct:/lxc/box/a\n"),
            Path::new("/"),
        );
        assert_eq!(of_cpu, at("/groups/cpu", "/groups/cpu/a"));
        for line in [
            "",
            " - ",
            "1 2 3 4 - cgroup2",
            "1 2 3 4 5 - ",
            "x - cgroup y",
        ] {
            assert!(v1.mounted("memory", line).is_none(), "{line}");
        }
    }
}
