//! The state directory: what a server keeps over restarts, and how `ctl` finds it.
//!
//! ```text
//! lock           held (flock) by the one server that uses the directory
//! server.json    who that is: process id, addresses; for people and for `ctl`
//! control.sock   the control socket, mode 0600
//! status.sock    the status socket, mode 0660 of the group that may look, 0600 where none is named
//! handle.key     the key of the handles' MACs, mode 0600 (fh.rs)
//! clients.redb   the records of NFSv4 clients, mode 0600 (records.rs)
//! handles.redb   the handle table of an unprivileged server (handle_table.rs)
//! calls.notes    what calls that change names noted of themselves, mode 0600 (call_notes.rs)
//! ```
//!
//! The lock, not the files, says whether a server runs: it goes with the process, however that ends.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::limits;

/// Where the state directories of root's servers are by default.
pub const BASE_OF_ROOT: &str = "/var/lib/penstock";
const LOCK: &str = "lock";
const RECORD: &str = "server.json";
const CONTROL_SOCKET: &str = "control.sock";
const STATUS_SOCKET: &str = "status.sock";

/// A state directory that this process holds. Dropping it lets the next server in.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    /// The lock file, which keeps the directory locked.
    lock: File,
}

impl Drop for StateDir {
    /// Unlocks the directory. Closing the file would not do: a child process that is between fork and exec has a
    /// descriptor of it too, and the lock would last until its exec.
    fn drop(&mut self) {
        if let Err(error) = rustix::fs::flock(&self.lock, FlockOperation::Unlock) {
            tracing::warn!(%error, path = %self.path.display(), "the state directory cannot be unlocked");
        }
    }
}

/// The contents of `server.json`: who serves from the state directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerRecord {
    /// Process id of the server.
    pub pid: u32,
    /// Version of the program that serves.
    pub version: String,
    /// Where MOUNT and NFS are answered.
    pub listeners: Vec<SocketAddr>,
    /// Pseudo paths and directories of the exports.
    pub exports: Vec<(String, PathBuf)>,
}

/// Why a state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateDirError {
    /// No place is configured and none can be made up.
    #[error(
        "no state directory: neither XDG_STATE_HOME nor HOME is set; give one with --state-dir"
    )]
    NoHome,
    /// The directory cannot be created, opened or written.
    #[error("cannot use the state directory {}; give another with --state-dir", path.display())]
    Io {
        /// The file or directory that could not be used.
        path: PathBuf,
        /// What the system says about it.
        source: io::Error,
    },
    /// Others than the server's user could change what is in the directory.
    #[error(
        "the state directory {} can be written by others, who could take over the server's keys; \
         cure: chmod 700 {}", path.display(), path.display()
    )]
    WritableByOthers {
        /// Path of the state directory.
        path: PathBuf,
    },
    /// The directory belongs to somebody else, who could change what is in it.
    #[error("the state directory {} belongs to user {owner}; give another with --state-dir", path.display())]
    ForeignOwner {
        /// Path of the state directory.
        path: PathBuf,
        /// User id of the directory's owner.
        owner: u32,
    },
    /// Another server uses the directory, and has it locked.
    #[error(
        "another server (process {}) uses the state directory {}; stop it, or give another with \
         --state-dir", pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string()), path.display()
    )]
    InUse {
        /// Path of the state directory.
        path: PathBuf,
        /// The process that holds the lock, if its server wrote down its number.
        pid: Option<u32>,
    },
}

impl StateDir {
    /// Creates (mode 0700) or opens the directory, and locks it.
    ///
    /// # Errors
    /// See [`StateDirError`].
    pub fn open(path: &Path) -> Result<Self, StateDirError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            |source: io::Error| StateDirError::Io { path, source }
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(failed(path))?;
        let found = path.metadata().map_err(failed(path))?;
        let own = rustix::process::geteuid().as_raw();
        if found.uid() != own && found.uid() != 0 {
            return Err(StateDirError::ForeignOwner {
                path: path.to_owned(),
                owner: found.uid(),
            });
        }
        if found.mode() & 0o022 != 0 {
            return Err(StateDirError::WritableByOthers {
                path: path.to_owned(),
            });
        }
        let lock_path = path.join(LOCK);
        let lock = open_private(&lock_path).map_err(failed(&lock_path))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self {
                path: path.to_owned(),
                lock,
            }),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let pid = record(path).map(|record| record.pid);
                Err(StateDirError::InUse {
                    path: path.to_owned(),
                    pid,
                })
            }
            Err(errno) => Err(failed(&lock_path)(errno.into())),
        }
    }

    /// Path of the state directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Path of a file in the state directory.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Path of the control socket in the state directory.
    #[must_use]
    pub fn control_socket(&self) -> PathBuf {
        control_socket(&self.path)
    }

    /// Path of the status socket in the state directory.
    #[must_use]
    pub fn status_socket(&self) -> PathBuf {
        status_socket(&self.path)
    }

    /// Lets the members of a group reach what is in the directory and open to them, by its name (mode 0710), and
    /// nobody without one. Listing it stays the owner's. Returns the directory above that keeps the group out all
    /// the same, if one does.
    ///
    /// # Errors
    /// [`StateDirError::Io`]: a server without privileges can give the directory to its own groups only.
    pub fn let_through(&self, group: u32) -> Result<Option<PathBuf>, StateDirError> {
        let failed = |source| StateDirError::Io {
            path: self.path.clone(),
            source,
        };
        let mode = self.path.metadata().map_err(failed)?.mode();
        std::os::unix::fs::chown(&self.path, None, Some(group)).map_err(failed)?;
        let mode = std::fs::Permissions::from_mode((mode & 0o7707) | 0o010);
        std::fs::set_permissions(&self.path, mode).map_err(failed)?;
        let real = self.path.canonicalize().map_err(failed)?;
        let keeps_out = |path: &&Path| {
            path.metadata().is_ok_and(|found| {
                let through = if found.gid() == group { 0o010 } else { 0o001 };
                found.mode() & through == 0
            })
        };
        Ok(real.ancestors().skip(1).find(keeps_out).map(Path::to_owned))
    }

    /// Writes `server.json`, whole or not at all.
    ///
    /// # Errors
    /// [`StateDirError::Io`].
    pub fn write_record(&self, record: &ServerRecord) -> Result<(), StateDirError> {
        let path = self.join(RECORD);
        let write = || {
            let text = serde_json::to_string_pretty(record).map_err(io::Error::other)?;
            let temporary = self.join("server.json.new");
            std::fs::write(&temporary, text + "\n")?;
            std::fs::rename(&temporary, &path)
        };
        write().map_err(|source| StateDirError::Io {
            path: path.clone(),
            source,
        })
    }
}

/// A file that only its owner may read, created if it is missing.
fn open_private(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

/// The control socket of the state directory `path`.
#[must_use]
pub fn control_socket(path: &Path) -> PathBuf {
    path.join(CONTROL_SOCKET)
}

/// The status socket of the state directory `path`.
#[must_use]
pub fn status_socket(path: &Path) -> PathBuf {
    path.join(STATUS_SOCKET)
}

/// What the state directory `path` says of its server, whether it still runs or not.
#[must_use]
pub fn record(path: &Path) -> Option<ServerRecord> {
    serde_json::from_slice(&std::fs::read(path.join(RECORD)).ok()?).ok()
}

/// Does a server hold the state directory `path` now?
#[must_use]
pub fn is_in_use(path: &Path) -> bool {
    // For reading only: another user's server is seen too, where its directory may be looked into.
    let lock = match File::open(path.join(LOCK)) {
        Ok(lock) => lock,
        // Who may only look sees a server by its status socket.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return UnixStream::connect(status_socket(path)).is_ok();
        }
        Err(_) => return false,
    };
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared)
        == Err(rustix::io::Errno::WOULDBLOCK)
}

/// Where state directories are by default: `/var/lib/penstock` for root, else
/// `$XDG_STATE_HOME/penstock` or `~/.local/state/penstock`.
///
/// # Errors
/// [`StateDirError::NoHome`].
pub fn default_base() -> Result<PathBuf, StateDirError> {
    let absolute = |name: &str| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    base_for(
        rustix::process::geteuid().is_root(),
        absolute("XDG_STATE_HOME"),
        absolute("HOME"),
    )
}

fn base_for(
    is_root: bool,
    state_home: Option<PathBuf>,
    home: Option<PathBuf>,
) -> Result<PathBuf, StateDirError> {
    if is_root {
        return Ok(PathBuf::from(BASE_OF_ROOT));
    }
    let state = state_home.or_else(|| home.map(|home| home.join(".local/state")));
    state
        .map(|state| state.join("penstock"))
        .ok_or(StateDirError::NoHome)
}

/// The default state directory of a server of `served`: the exported directory, or the
/// configuration file. Always the same for the same path, as the handles' key lies there.
///
/// # Errors
/// [`StateDirError::NoHome`].
pub fn default_path(served: &Path) -> Result<PathBuf, StateDirError> {
    let served = served.canonicalize().unwrap_or_else(|_| served.to_owned());
    Ok(default_base()?.join(format!("{:016x}", path_hash(&served))))
}

/// FNV-1a, 64 bit: the same in every build.
fn path_hash(path: &Path) -> u64 {
    use std::os::unix::ffi::OsStrExt as _;
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let bytes = path.as_os_str().as_bytes().iter();
    bytes.fold(OFFSET_BASIS, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(PRIME)
    })
}

/// The state directories below `base` that a server holds now, with what it says of itself.
#[must_use]
pub fn running_below(base: &Path) -> Vec<(PathBuf, Option<ServerRecord>)> {
    let Ok(entries) = std::fs::read_dir(base) else {
        return Vec::new();
    };
    let paths = entries
        .take(limits::STATE_DIRS_LISTED_MAX)
        .filter_map(|entry| Some(entry.ok()?.path()));
    let mut running: Vec<_> = paths
        .filter(|path| is_in_use(path))
        .map(|path| (path.clone(), record(&path)))
        .collect();
    running.sort_by(|left, right| left.0.cmp(&right.0));
    running
}

/// The state directories below `base` in which there is a file of this name, or its old one with `.1`.
///
/// # Errors
/// `base` cannot be read.
pub fn with_file_below(base: &Path, name: &str) -> std::io::Result<Vec<PathBuf>> {
    let old = format!("{name}.1");
    let paths = std::fs::read_dir(base)?
        .take(limits::STATE_DIRS_LISTED_MAX)
        .filter_map(|entry| Some(entry.ok()?.path()));
    let mut found: Vec<PathBuf> = paths
        .filter(|path| path.join(name).is_file() || path.join(&old).is_file())
        .collect();
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server_record() -> ServerRecord {
        ServerRecord {
            pid: 7,
            version: "0".to_owned(),
            listeners: vec!["[::1]:2049".parse().unwrap()],
            exports: vec![("/".to_owned(), "/srv".into())],
        }
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().mode() & 0o7777
    }

    #[test]
    fn one_server_at_a_time() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("deeper/state");
        let first = StateDir::open(&path).unwrap();
        assert_eq!((mode(&path), mode(&first.join(LOCK))), (0o700, 0o600));
        first.write_record(&server_record()).unwrap();
        let refused = StateDir::open(&path).unwrap_err();
        assert!(
            matches!(refused, StateDirError::InUse { pid: Some(7), .. }),
            "{refused}"
        );
        assert_eq!(record(&path), Some(server_record()));
        // What a child process has until it executes its program.
        let inherited = first.lock.try_clone().unwrap();
        drop(first);
        assert!(!is_in_use(&path));
        let second = StateDir::open(&path).unwrap();
        drop(inherited);
        assert!(is_in_use(&path));
        drop(second);
    }

    #[test]
    fn a_group_is_let_through_and_told_what_is_in_its_way() {
        let base = tempfile::tempdir().unwrap();
        let group = rustix::process::getegid().as_raw();
        let state = StateDir::open(&base.path().join("closed/state")).unwrap();
        let closed = base.path().join("closed").canonicalize().unwrap();
        assert_eq!(mode(state.path()), 0o700);
        let own = closed.metadata().unwrap().gid() == group;
        assert_eq!(state.let_through(group).unwrap(), Some(closed.clone()));
        assert_eq!(mode(state.path()), 0o710);
        let open = if own { 0o710 } else { 0o701 };
        std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(open)).unwrap();
        assert_ne!(state.let_through(group).unwrap(), Some(closed));
        drop(state);
        StateDir::open(&base.path().join("closed/state")).unwrap();
    }

    #[test]
    fn a_directory_that_others_can_write_is_refused() {
        let base = tempfile::tempdir().unwrap();
        std::fs::set_permissions(base.path(), std::fs::Permissions::from_mode(0o770)).unwrap();
        let refused = StateDir::open(base.path()).unwrap_err();
        assert!(refused.to_string().contains("cure: chmod 700"), "{refused}");
    }

    #[test]
    fn running_servers_are_found_below_a_base() {
        let base = tempfile::tempdir().unwrap();
        let _running = StateDir::open(&base.path().join("b")).unwrap();
        let ended = StateDir::open(&base.path().join("a")).unwrap();
        drop(ended);
        let found = running_below(base.path());
        assert_eq!(found, [(base.path().join("b"), None)]);
        assert!(running_below(&base.path().join("none")).is_empty());
    }

    #[test]
    fn the_default_is_below_the_users_state_home() {
        let base = |root, state: Option<&str>, home: Option<&str>| {
            base_for(root, state.map(Into::into), home.map(Into::into))
        };
        assert_eq!(
            base(true, None, None).unwrap(),
            Path::new("/var/lib/penstock")
        );
        assert_eq!(
            base(false, Some("/s"), Some("/h")).unwrap(),
            Path::new("/s/penstock")
        );
        assert_eq!(
            base(false, None, Some("/h")).unwrap(),
            Path::new("/h/.local/state/penstock")
        );
        assert!(matches!(
            base(false, None, None),
            Err(StateDirError::NoHome)
        ));
        // The hash names directories that hold keys: its values must never change.
        assert_eq!(path_hash(Path::new("a")), 0xaf63_dc4c_8601_ec8c);
    }
}
