//! Landlock: a program changes files only in the places that it was started for, and reads those and
//! what the system has for all.
//!
//! Landlock asks for the path of each file that is opened. A file that was opened by a kernel's handle
//! (`open_by_handle_at`) may have none: the kernel knows the inode and, while nobody has looked it up
//! by name, no directory above it. Linux then goes on at the root of the mount through which it was
//! opened, since landlock's erratum 3 was mended (6.18 and later stable kernels); before, it refuses.
//! So where files are opened by handles, their mounts must begin in the places that are allowed, and
//! the kernel must be one of those: [`mount_root`] and [`finds_files_of_handles`].

use std::path::{Path, PathBuf};

use landlock::{
    ABI, AccessFs, Compatible as _, Erratum, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _,
    RulesetStatus, path_beneath_rules,
};
use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags};

/// Where a program may go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Beneath these all may be read and changed.
    pub changed: Vec<PathBuf>,
    /// Beneath these all may be read; `None` leaves reading free everywhere.
    pub read: Option<Vec<PathBuf>>,
}

/// From now on the calling thread, and those that it makes, open, make and remove files in these
/// places only, and execute none. [`super::no_new_privileges`] comes first. A place that is not there
/// is passed over. What is open already stays open.
///
/// # Errors
/// In words: the kernel has no landlock, has it switched off, or one that forbids to rename files
/// into other directories (before Linux 5.19).
pub fn restrict(places: &Places) -> Result<(), String> {
    let changes = AccessFs::from_write(NEWEST) | AccessFs::Execute;
    let reads = AccessFs::ReadFile | AccessFs::ReadDir;
    let handled = match places.read {
        Some(_) => changes | reads,
        None => changes,
    };
    let read = places.read.as_deref().unwrap_or_default();
    let failed = |error: landlock::RulesetError| format!("landlock: {error}");
    // The oldest that knows renames between directories, below which there is nothing to be had.
    Ruleset::default()
        .set_compatibility(landlock::CompatLevel::HardRequirement)
        .handle_access(AccessFs::Refer)
        .map_err(|_| "this kernel has no landlock, or one before Linux 5.19".to_owned())?;
    let allowed = handled & !AccessFs::Execute;
    let status = Ruleset::default()
        .handle_access(handled)
        .and_then(Ruleset::create)
        .and_then(|rules| rules.add_rules(path_beneath_rules(&places.changed, allowed)))
        .and_then(|rules| rules.add_rules(path_beneath_rules(read, allowed & reads)))
        .and_then(landlock::RulesetCreated::restrict_self)
        .map_err(failed)?;
    match status.ruleset {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => Err("landlock is switched off in this kernel".to_owned()),
    }
}

/// Whether this kernel's landlock goes on at the root of the mount where a file that was opened by
/// a handle has no directory above it.
#[must_use]
pub fn finds_files_of_handles() -> bool {
    Erratum::current().contains(Erratum::DisconnectedDirectoryHandling)
}

/// The root of the mount that the directory `path`, which has no links in it, is in.
///
/// # Errors
/// What statx(2) reports, of `path` or a directory above it.
pub fn mount_root(path: &Path) -> crate::Result<&Path> {
    for place in path.ancestors() {
        if is_mount_point(place)? {
            return Ok(place);
        }
    }
    Err(crate::Errno::NOENT)
}

fn is_mount_point(place: &Path) -> crate::Result<bool> {
    let stat = rustix::fs::statx(CWD, place, AtFlags::empty(), StatxFlags::BASIC_STATS)?;
    let told = StatxAttributes::from_bits_retain(stat.stx_attributes_mask.bits());
    Ok((stat.stx_attributes & told).contains(StatxAttributes::MOUNT_ROOT))
}

/// The newest rights that are known here; a kernel that knows fewer restricts what it knows.
const NEWEST: ABI = ABI::V3;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::ErrorKind;

    use super::*;
    use crate::testing::skip;

    fn confined<T: Send>(places: &Places, work: impl Fn() -> T + Sync) -> Result<T, String> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                super::super::no_new_privileges().unwrap();
                restrict(places)?;
                Ok(work())
            });
            thread.join().unwrap()
        })
    }

    #[test]
    fn changes_stay_in_the_places_named_and_reading_where_it_was_limited() {
        let directory = tempfile::tempdir().unwrap();
        let [inside, shown, outside] = ["inside", "shown", "outside"].map(|name| {
            let path = directory.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("file"), name).unwrap();
            path
        });
        let free = Places {
            changed: vec![inside.clone()],
            read: None,
        };
        let narrow = Places {
            read: Some(vec![shown.clone()]),
            ..free.clone()
        };
        let work = || {
            let kind = |result: std::io::Result<()>| result.err().map(|error| error.kind());
            fs::create_dir_all(inside.join("a/b")).unwrap();
            fs::rename(inside.join("file"), inside.join("a/b/file")).unwrap();
            fs::hard_link(inside.join("a/b/file"), inside.join("file")).unwrap();
            fs::remove_dir_all(inside.join("a")).unwrap();
            let changes = [
                kind(fs::write(outside.join("file"), "changed")),
                kind(fs::write(outside.join("new"), "made")),
                kind(fs::remove_file(outside.join("file"))),
                kind(fs::hard_link(outside.join("file"), inside.join("linked"))),
                kind(fs::write(shown.join("file"), "changed")),
            ];
            let read = |place: &Path| kind(fs::read(place.join("file")).map(drop));
            (changes, read(&shown), read(&outside))
        };
        let denied = Some(ErrorKind::PermissionDenied);
        for (places, outside_read) in [(&free, None), (&narrow, denied)] {
            let (changes, shown_read, found) = match confined(places, work) {
                Ok(outcome) => outcome,
                Err(reason) => skip!("{reason}"),
            };
            for change in changes {
                let is_kept = matches!(
                    change,
                    Some(ErrorKind::PermissionDenied | ErrorKind::CrossesDevices)
                );
                assert!(is_kept, "{changes:?}");
            }
            assert_eq!((shown_read, found), (None, outside_read));
        }
    }

    #[test]
    fn the_root_of_a_mount_is_found_above_a_directory() {
        assert_eq!(mount_root(Path::new("/proc")), Ok(Path::new("/proc")));
        assert_eq!(
            mount_root(Path::new("/proc/self/task")),
            Ok(Path::new("/proc"))
        );
        let missing = mount_root(Path::new("/proc/not/there"));
        assert_eq!(missing, Err(crate::Errno::NOENT));
    }
}
