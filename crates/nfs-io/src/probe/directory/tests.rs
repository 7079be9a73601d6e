//! The probe on directories of every kind, the odd ones first.

use super::*;
use crate::identity::{can_switch, run_as};
use crate::testing::{Scratch as Dir, skip, small_tmpfs, stranger};

fn entries(path: &Path) -> usize {
    std::fs::read_dir(path).unwrap().count()
}

#[test]
fn a_directory_of_ours_is_probed_and_left_as_it_was() {
    let dir = Dir::new();
    let facts = probe(dir.path.path()).unwrap();
    assert_eq!(entries(dir.path.path()), 0, "something was left behind");
    assert!(facts.trials.is_ok(), "{:?}", facts.trials);
    assert!(facts.scratch.is_some());
    let mount = facts.mount.unwrap();
    assert!(dir.path.path().starts_with(mount.mount_point));
    if caps::has(Capability::DacReadSearch) && facts.handles.made.is_ok() {
        assert_eq!(facts.handles.opened, Ok(()));
    }
}

#[test]
fn a_named_file_is_removed_at_once() {
    let dir = Dir::new();
    let file = unlinked(dir.dir()).unwrap();
    assert_eq!(entries(dir.path.path()), 0);
    assert_eq!(fs::statx(file.as_fd()).unwrap().nlink, 0);
    // A name that is taken is left alone.
    let taken = format!(".penstock-probe-{}-0", std::process::id());
    std::fs::write(dir.path.path().join(&taken), b"somebody's").unwrap();
    drop(unlinked(dir.dir()).unwrap());
    assert_eq!(
        std::fs::read(dir.path.path().join(&taken)).unwrap(),
        b"somebody's"
    );
}

#[test]
fn odd_directories_have_errors_of_their_own() {
    let dir = Dir::new();
    drop(dir.file("f", b"x"));
    let file = dir.path.path().join("f");
    assert_eq!(probe(&file), Err(ProbeError::NotADirectory(file)));
    let gone = dir.path.path().join("gone");
    assert_eq!(probe(&gone), Err(ProbeError::Missing(gone)));
    for path in ["/proc", "/sys", "/proc/self/fd", "/dev"] {
        // Whatever is tried there, facts or an error come back.
        match probe(Path::new(path)) {
            Ok(facts) => {
                let named = facts.mount.is_some_and(|mount| !mount.fs_type.is_empty());
                assert!(named, "{path} is of no known type");
            }
            Err(error) => assert!(error.to_string().contains(path), "{error}"),
        }
    }
    let facts = probe(Path::new("/proc")).unwrap();
    assert!(facts.trials.is_err(), "{:?}", facts.trials);
    assert_eq!(facts.handles.made, Err(Errno::OPNOTSUPP));
}

#[test]
fn a_full_disk_is_told() {
    let Some(mount) = small_tmpfs(1 << 20) else {
        skip!("mounting a tmpfs needs CAP_SYS_ADMIN");
    };
    let (file, how) = scratch(mount.as_fd()).unwrap();
    assert_eq!(how, Scratch::Nameless);
    let failed = super::super::trials::run(file.as_fd()).map_err(why_no_trials);
    assert_eq!(failed, Err(NoTrials::NoSpace));
}

#[test]
fn a_stranger_is_told_what_is_forbidden() {
    if !can_switch() {
        skip!("changing identity needs root");
    }
    let dir = Dir::new();
    let inner = dir.path.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    let set_mode = |path: &Path, mode| {
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(path, permissions).unwrap();
    };
    // Another test of this process may have set the mask of new files' modes to 0.
    set_mode(&inner, 0o755);
    let as_stranger = |mode: u32| {
        let path = inner.clone();
        set_mode(dir.path.path(), mode);
        run_as(&stranger(), || Ok(probe(&path))).unwrap()
    };
    assert_eq!(
        as_stranger(0o700),
        Err(ProbeError::Forbidden(inner.clone()))
    );
    let facts = as_stranger(0o755).unwrap();
    assert_eq!(facts.trials, Err(NoTrials::Forbidden));
    assert_eq!(facts.scratch, None);
}

#[test]
fn releases_and_memory_are_read() {
    assert_eq!(version("6.18.44-1-amd64"), Some((6, 18)));
    assert_eq!(version("7.2-rc1"), Some((7, 2)));
    assert_eq!(version("5.10.0"), Some((5, 10)));
    assert_eq!(version("quite new"), None);
    assert_eq!(version(""), None);
    let meminfo = "MemTotal:       24689124 kB\nMemFree:  1 kB\n";
    assert_eq!(memory_total(meminfo), Some(24_689_124 * 1024));
    assert_eq!(memory_total("MemFree: 1 kB\n"), None);
    let facts = process();
    assert!(facts.kernel_version >= Some((5, 10)), "{facts:?}");
    assert!(facts.memory_bytes > Some(0) && facts.descriptors > 0);
}

#[test]
fn every_errno_has_a_reason() {
    for (errno, reason) in [
        (Errno::ROFS, NoTrials::ReadOnly),
        (Errno::ACCESS, NoTrials::Forbidden),
        (Errno::DQUOT, NoTrials::NoSpace),
        (Errno::NOENT, NoTrials::NoFiles),
        (Errno::FBIG, NoTrials::FileSizeLimit),
        (Errno::IO, NoTrials::Failed(Errno::IO)),
    ] {
        assert_eq!(why_no_trials(errno), reason);
        assert!(!reason.to_string().is_empty());
    }
}
