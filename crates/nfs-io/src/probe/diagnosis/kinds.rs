//! File systems by the name of their type, where that decides what a mode can do.

use crate::probe::directory::DirectoryFacts;

/// The name of the file system's type, as the mount table has it.
pub fn fs_name(facts: &DirectoryFacts) -> String {
    match &facts.mount {
        Some(mount) => mount.fs_type.clone(),
        None => format!("type {:#x}", facts.fs.fs_type),
    }
}

/// Files of these are memory: the page cache is their only home.
pub(super) fn is_memory(name: &str) -> bool {
    matches!(name, "tmpfs" | "ramfs" | "devtmpfs" | "hugetlbfs")
}

/// Files of these are another machine's, or another process's.
pub(super) fn is_remote(name: &str) -> bool {
    let known = [
        "9p", "afs", "beegfs", "ceph", "cifs", "gpfs", "lustre", "nfs", "nfs4", "smb3", "virtiofs",
    ];
    known.contains(&name) || name == "fuse" || name.starts_with("fuse.")
}
