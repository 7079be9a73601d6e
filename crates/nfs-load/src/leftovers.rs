//! What a run leaves that was ended before it could clear up: its directory, found and removed by the next one.
//!
//! A run holds a lock on a file in its directory for as long as it lives; the kernel gives it back however the run ends,
//! so no number of a process has to be trusted. A directory is removed only if it has the name of a run's, belongs to
//! this user, has such a file, and nobody holds the lock. Where others may rename what is in the parent directory,
//! nothing is removed. Nothing here panics.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

/// Beginning of the names of directories and memory cgroups of runs; the number of the process follows.
pub(crate) const PREFIX: &str = "penstock-bench-";
/// The file that is locked.
const LOCK: &str = ".running";
/// Digits of the random part of a name.
const RANDOM_DIGITS: usize = 8;

/// Writing for others, and the bit that keeps them from what is not theirs all the same.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// A name that no other run has.
pub(crate) fn unique() -> String {
    let random = fastrand::u32(..);
    format!("{PREFIX}{}-{random:0RANDOM_DIGITS$x}", std::process::id())
}

/// Whether a name is one of [`unique`].
fn is_ours(name: &str) -> bool {
    let parts = name
        .strip_prefix(PREFIX)
        .and_then(|rest| rest.split_once('-'));
    parts.is_some_and(|(process, random)| {
        let is_number = !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit());
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        is_number && random.len() == RANDOM_DIGITS && random.bytes().all(is_hex)
    })
}

/// Says that the directory is a living run's for as long as the file is open. Where locks cannot be had the directory
/// stays without one, and is never taken for a leftover.
///
/// # Errors
/// The directory is gone: another run has found it before it was locked.
pub(crate) fn claim(directory: &Path) -> io::Result<Option<File>> {
    let path = directory.join(LOCK);
    let mut options = OpenOptions::new();
    let file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        // Only another run of this user can have it.
        Err(Errno::WOULDBLOCK) => return Err(io::ErrorKind::NotFound.into()),
        Err(_no_locks_here) => {
            fs::remove_file(&path)?;
            return Ok(None);
        }
    }
    // Whoever swept between the two system calls has unlinked the file that is locked here.
    match file.metadata()?.nlink() {
        0 => Err(io::ErrorKind::NotFound.into()),
        _ => Ok(Some(file)),
    }
}

/// Removes the directories of runs of this user that have ended, and says so on standard error.
pub(crate) fn sweep(parent: &Path) {
    let Ok(metadata) = fs::metadata(parent) else {
        return;
    };
    let user = rustix::process::geteuid().as_raw();
    // Who owns the parent may rename what is in it, sticky or not.
    let is_anothers = ![0, user].contains(&metadata.uid());
    if is_anothers || metadata.mode() & OTHERS_WRITE != 0 && metadata.mode() & STICKY == 0 {
        return;
    }
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if !entry.file_name().to_str().is_some_and(is_ours) {
            continue;
        }
        // Held until the directory is gone.
        let Some(_lock) = left(&path) else {
            continue;
        };
        match fs::remove_dir_all(&path) {
            Ok(()) => eprintln!(
                "penstock: removed {}, which an earlier run left",
                path.display()
            ),
            Err(error) => eprintln!(
                "penstock: cannot remove {}, which an earlier run left: {error}",
                path.display()
            ),
        }
    }
}

/// The lock of a directory that a run of this user has left.
fn left(path: &Path) -> Option<File> {
    let user = rustix::process::geteuid().as_raw();
    let is_own = |found: &fs::Metadata| found.uid() == user;
    let directory = fs::symlink_metadata(path).ok()?;
    if !(directory.is_dir() && is_own(&directory)) {
        return None;
    }
    let mut options = OpenOptions::new();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.read(true).custom_flags(flags.bits().cast_signed());
    let file = options.open(path.join(LOCK)).ok()?;
    let found = file.metadata().ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    (found.is_file() && is_own(&found)).then_some(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    #[test]
    fn only_what_a_run_of_this_user_left_is_removed() {
        let base = tempfile::tempdir().unwrap();
        let made = |name: &str, has_lock: bool| {
            let path = base.path().join(name);
            fs::create_dir_all(path.join("buffered/export")).unwrap();
            if has_lock {
                fs::write(path.join(LOCK), "").unwrap();
            }
            path
        };
        let left = made("penstock-bench-1-0123abcd", true);
        let living = made("penstock-bench-2-0123abcd", false);
        let lock = claim(&living).unwrap().unwrap();
        let kept = [
            living.clone(),
            made("penstock-bench-3-0123abcd", false),
            made("penstock-bench-4-0123abc", true),
            made("penstock-bench-x-0123abcd", true),
            made("penstock-bench-5-0123ABCD", true),
            made("precious", true),
        ];
        let link = base.path().join("penstock-bench-6-0123abcd");
        symlink(&kept[5], &link).unwrap();
        // A lock that is somewhere else is nobody's.
        let lent = made("penstock-bench-7-0123abcd", false);
        symlink(kept[5].join(LOCK), lent.join(LOCK)).unwrap();
        sweep(base.path());
        assert!(!left.exists());
        assert!(kept.iter().all(|path| path.join("buffered").exists()));
        assert!(link.is_symlink() && lent.exists());
        // A child that another test starts may have a descriptor of it until its exec: closing ours would not unlock.
        flock(&lock, FlockOperation::Unlock).unwrap();
        sweep(base.path());
        assert!(!living.exists(), "its run has ended");
    }

    #[test]
    fn nothing_is_removed_of_others_or_where_they_can_rename() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("penstock-bench-1-0123abcd");
        fs::create_dir(&path).unwrap();
        fs::write(path.join(LOCK), "").unwrap();
        let allow = |mode| {
            fs::set_permissions(base.path(), fs::Permissions::from_mode(mode)).unwrap();
        };
        allow(0o777);
        sweep(base.path());
        assert!(path.exists());
        allow(0o1777);
        if rustix::process::geteuid().is_root() {
            chown(&path, Some(12_345), None).unwrap();
            sweep(base.path());
            assert!(path.exists());
            chown(&path, Some(0), None).unwrap();
            chown(base.path(), Some(12_345), None).unwrap();
            sweep(base.path());
            assert!(path.exists());
            chown(base.path(), Some(0), None).unwrap();
        } else {
            eprintln!("SKIP: directories of others: this takes root");
        }
        sweep(base.path());
        assert!(!path.exists());
    }

    #[test]
    fn names_are_known_again() {
        assert!(is_ours(&unique()));
        assert!(!is_ours("penstock-bench--0123abcd") && !is_ours("penstock-bench-12"));
    }

    #[test]
    fn a_directory_that_was_swept_away_cannot_be_claimed() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join(unique());
        assert!(claim(&path).is_err());
    }
}
