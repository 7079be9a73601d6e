//! Whether the processor time of this process is rationed.

use std::path::Path;

use crate::control_groups::{Hierarchy, Version};

/// Whether the control group of this process, or one above it, may have only so much processor time in a period
/// (`cpu.max`, or `cpu.cfs_quota_us` of version 1): once that is used up, all of its threads stand still until the next
/// one. Reads a handful of the kernel's files; what is missing is no limit.
#[must_use]
pub fn time_is_rationed() -> bool {
    is_rationed_at(Path::new("/proc"), Path::new("/"))
}

/// Like [`time_is_rationed`], with the paths of `/proc/self/mountinfo` taken from `root` on.
fn is_rationed_at(proc: &Path, root: &Path) -> bool {
    let text = |name| std::fs::read_to_string(proc.join(name)).unwrap_or_default();
    let (mounts, own) = (text("self/mountinfo"), text("self/cgroup"));
    let files = [(Version::V2, "cpu.max"), (Version::V1, "cpu.cfs_quota_us")];
    files.into_iter().any(|(version, name)| {
        let hierarchy = version.hierarchy("cpu", (&mounts, &own), root);
        let mut groups = hierarchy.iter().flat_map(Hierarchy::own_and_above);
        groups
            .any(|group| std::fs::read_to_string(group.join(name)).is_ok_and(|text| limits(&text)))
    })
}

/// Whether such a file has a number of microseconds: `max` and -1 are none.
fn limits(text: &str) -> bool {
    let mut words = text.split_whitespace();
    words.next().is_some_and(|word| word.parse::<u64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_groups::tests::{MOUNTS, MOUNTS_OF_V1};

    fn is_rationed(mounts: &str, own: &str, files: &[(&str, &str)]) -> bool {
        let shown = tempfile::tempdir().unwrap();
        let more = [("proc/self/mountinfo", mounts), ("proc/self/cgroup", own)];
        for (path, text) in files.iter().chain(&more) {
            let path = shown.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        is_rationed_at(&shown.path().join("proc"), shown.path())
    }

    #[test]
    fn a_limit_of_the_own_group_or_of_one_above_it_rations() {
        let of = |outer, inner| {
            let files = [
                ("groups/outer/cpu.max", outer),
                ("groups/outer/inner/cpu.max", inner),
            ];
            is_rationed(MOUNTS, "0::/outer/inner\n", &files)
        };
        let (none, some) = ("max 100000\n", "50000 100000\n");
        assert!(of(none, some) && of(some, none));
        assert!(!of(none, none));
    }

    #[test]
    fn limits_of_version_1_are_found_and_no_files_are_none() {
        let of = |quota| {
            let own = "4:cpu,cpuacct:/lxc/box/a\n0::/\n";
            is_rationed(
                MOUNTS_OF_V1,
                own,
                &[("groups/cpu/a/cpu.cfs_quota_us", quota)],
            )
        };
        assert!(of("50000\n") && !of("-1\n") && !of("\n"));
        assert!(!is_rationed("", "", &[]));
    }
}
