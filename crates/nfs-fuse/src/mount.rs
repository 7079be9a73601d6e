//! Mounting, and ending it without losing what was written.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::IntoRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use fuser::{Config, MountOption, SessionACL};
use nfs_client::Node;
use nfs_client::nfs3::Ftype3;
use nfs_client::{Client, ClientError};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::limits::THREADS_MAX;
use crate::options::Options;
use crate::session::Session;
use crate::tree::Tree;

/// The device that the kernel's requests come through.
const DEVICE: &str = "/dev/fuse";

/// The type of the file system of a [`Mount`], as `/proc/self/mountinfo` has it.
pub const FS_TYPE: &str = "fuse.penstock";

/// What it says behind `fuse.`.
const SUBTYPE: &str = "penstock";

/// Why a directory cannot be mounted or unmounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The kernel has no FUSE.
    #[error(
        "{DEVICE} is missing: load the module (`modprobe fuse`), or give the container the device"
    )]
    NoFuse,
    /// A file system that is not served any more is mounted there.
    #[error(
        "{}: what is mounted here is not served any more; unmount it first: fusermount3 -u {}",
        point.display(),
        point.display()
    )]
    Dead {
        /// The directory that was to be mounted on.
        point: PathBuf,
    },
    /// The mount point cannot be used.
    #[error("{}: {cause}", point.display())]
    Point {
        /// The directory that was to be mounted on.
        point: PathBuf,
        /// The error that the system gave.
        cause: io::Error,
    },
    /// What is to be mounted is not a directory.
    #[error("only a directory can be mounted")]
    NotADirectory,
    /// Neither the system nor `fusermount3` mounts it.
    #[error("cannot mount on {}: {}{}", point.display(), cause.to_string().trim_end(), mount_cure(cause))]
    Mount {
        /// The directory that was to be mounted on.
        point: PathBuf,
        /// What the system or `fusermount3` said.
        cause: io::Error,
    },
    /// Programs still use the mount.
    #[error(
        "{} is in use: see who uses it with `fuser -vm {}`",
        point.display(),
        point.display()
    )]
    Busy {
        /// The directory that was to be mounted on.
        point: PathBuf,
    },
    /// The system does not unmount it.
    #[error("cannot unmount {}: {cause}", point.display())]
    Unmount {
        /// The directory that was to be mounted on.
        point: PathBuf,
        /// What the system or `fusermount3` said.
        cause: io::Error,
    },
}

fn mount_cure(cause: &io::Error) -> &'static str {
    let text = cause.to_string();
    if text.contains("user_allow_other") {
        "; as root add the line `user_allow_other` to /etc/fuse.conf, or leave out allow_other"
    } else if cause.kind() == io::ErrorKind::PermissionDenied {
        "; everybody has to be able to open /dev/fuse (mode 0666), and the directory has to be yours"
    } else if cause.kind() == io::ErrorKind::NotFound {
        "; without being root, mounting takes `fusermount3` (package fuse3)"
    } else {
        ""
    }
}

/// A file whose last writes are not on stable storage.
#[derive(Debug)]
pub struct Unsaved {
    /// Its number: what `ls -i` shows.
    pub number: u64,
    /// Why it could not be saved.
    pub error: ClientError,
}

/// A mounted export. Dropping it does not unmount: programs may be using it.
#[derive(Debug)]
pub struct Mount {
    tree: Arc<Tree>,
    point: PathBuf,
    ended: watch::Receiver<bool>,
}

impl Mount {
    /// Mounts `root`, a directory of the export that `client` has mounted, on the directory `point`.
    /// Requests are worked on by the runtime that this is called on; it should have several threads.
    ///
    /// # Errors
    /// See [`MountError`]. Nothing is mounted then.
    pub async fn new(
        client: Client,
        root: Node,
        point: &Path,
        options: Options,
    ) -> Result<Self, MountError> {
        if root.attributes.ftype != Ftype3::Dir {
            return Err(MountError::NotADirectory);
        }
        let point = usable(point)?;
        let config = config(&options);
        let tree = Arc::new(Tree::new(client, &root, options));
        let session = Session::new(Arc::clone(&tree), Handle::current());
        let place = point.clone();
        let mounted = move || {
            let session = fuser::Session::new(session, &place, &config)?;
            let notifier = session.notifier();
            Ok::<_, io::Error>((session.spawn()?, notifier))
        };
        let (session, notifier) = match tokio::task::spawn_blocking(mounted).await {
            Ok(Ok(mounted)) => mounted,
            Ok(Err(cause)) => return Err(MountError::Mount { point, cause }),
            Err(cause) => {
                let cause = io::Error::other(cause);
                return Err(MountError::Mount { point, cause });
            }
        };
        tree.set_notifier(notifier);
        let (tell, ended) = watch::channel(false);
        let wait = move || {
            if let Err(error) = session.join() {
                tracing::warn!(%error, "the kernel's requests cannot be read any more");
            }
            let _ = tell.send(true);
        };
        let waiting = thread::Builder::new().name("fuse-end".into()).spawn(wait);
        match waiting {
            Ok(_) => Ok(Self { tree, point, ended }),
            Err(cause) => Err(MountError::Mount { point, cause }),
        }
    }

    /// Where it is mounted: absolute, without symbolic links.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// Waits until it is unmounted and no program uses it any more.
    pub async fn ended(&self) {
        let mut ended = self.ended.clone();
        // The thread that tells it ends with telling it.
        let _ = ended.wait_for(|ended| *ended).await;
    }

    /// Brings everything that was written to stable storage; what could not be is told.
    pub async fn sync(&self) -> Vec<Unsaved> {
        unsaved(self.tree.sync_all().await)
    }

    /// Takes it off the directory tree. `lazily` also while programs use it: they go on with what they
    /// have open, and [`Self::ended`] waits for them.
    ///
    /// # Errors
    /// [`MountError::Busy`] while programs use it, unless `lazily`.
    pub async fn unmount(&self, lazily: bool) -> Result<(), MountError> {
        if *self.ended.borrow() {
            return Ok(());
        }
        let point = self.point.clone();
        let unmounted = tokio::task::spawn_blocking(move || unmount(&point, lazily)).await;
        unmounted.unwrap_or_else(|cause| {
            let (point, cause) = (self.point.clone(), io::Error::other(cause));
            Err(MountError::Unmount { point, cause })
        })
    }

    /// Takes it off the directory tree because this process is about to end, whoever uses it and without waiting for
    /// anything: a directory without its process answers ENOTCONN until somebody unmounts it. What was not saved is
    /// lost, and programs that go on with what they have open get that error.
    ///
    /// # Errors
    /// When the system does not unmount it.
    pub async fn abandon(&self) -> Result<(), MountError> {
        // As long as it is held, the kernel does not take the mount apart, for which it would have us write what it
        // keeps. It is let go with the process, and the device before it.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let held = rustix::fs::open(&self.point, flags, Mode::empty());
        let _to_the_end = held.map(IntoRawFd::into_raw_fd);
        self.unmount(true).await
    }

    /// What is left to do after [`Self::ended`]: the end of each file that was still open. What could
    /// not be brought to stable storage is told.
    pub async fn finish(self) -> Vec<Unsaved> {
        unsaved(self.tree.end().await)
    }
}

fn unsaved(failed: Vec<(u64, ClientError)>) -> Vec<Unsaved> {
    let file = |(number, error)| Unsaved { number, error };
    failed.into_iter().map(file).collect()
}

/// The mount point's real path.
fn usable(point: &Path) -> Result<PathBuf, MountError> {
    if !Path::new(DEVICE).exists() {
        return Err(MountError::NoFuse);
    }
    let problem = |cause: io::Error| {
        let point = point.to_owned();
        if cause.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()) {
            MountError::Dead { point }
        } else {
            MountError::Point { point, cause }
        }
    };
    let real = point.canonicalize().map_err(problem)?;
    if real.metadata().map_err(problem)?.is_dir() {
        Ok(real)
    } else {
        Err(problem(io::ErrorKind::NotADirectory.into()))
    }
}

fn config(options: &Options) -> Config {
    let root = rustix::process::geteuid().is_root();
    let mut mount = vec![MountOption::FSName(if root {
        options.name.clone()
    } else {
        // fusermount3 takes a list with commas in between.
        options.name.replace('\\', "\\\\").replace(',', "\\,")
    })];
    mount.push(if root {
        MountOption::CUSTOM(format!("subtype={SUBTYPE}"))
    } else {
        MountOption::Subtype(SUBTYPE.to_owned())
    });
    if options.read_only {
        mount.push(MountOption::RO);
    }
    if options.default_permissions {
        mount.push(MountOption::DefaultPermissions);
    }
    let flags = [
        (options.suid, MountOption::Suid),
        (options.dev, MountOption::Dev),
        (options.no_exec, MountOption::NoExec),
    ];
    mount.extend(
        flags
            .into_iter()
            .filter_map(|(set, flag)| set.then_some(flag)),
    );
    let mut config = Config::default();
    config.mount_options = mount;
    config.acl = if options.allow_other {
        SessionACL::All
    } else {
        SessionACL::Owner
    };
    config.n_threads = Some(options.threads.clamp(1, THREADS_MAX));
    // Each thread gets a queue of its own where this process may open the device.
    config.clone_fd = OpenOptions::new()
        .read(true)
        .write(true)
        .open(DEVICE)
        .is_ok();
    config
}

fn unmount(point: &Path, lazily: bool) -> Result<(), MountError> {
    let mut flags = UnmountFlags::NOFOLLOW;
    if lazily {
        flags |= UnmountFlags::DETACH;
    }
    let point = point.to_owned();
    match rustix::mount::unmount(&point, flags) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(MountError::Busy { point }),
        // Not mounted any more: somebody was faster.
        Err(Errno::INVAL) => Ok(()),
        Err(Errno::PERM) => fusermount(point, lazily),
        Err(cause) => {
            let cause = cause.into();
            Err(MountError::Unmount { point, cause })
        }
    }
}

fn fusermount(point: PathBuf, lazily: bool) -> Result<(), MountError> {
    let mut command = Command::new("fusermount3");
    command.arg("-u");
    if lazily {
        command.arg("-z");
    }
    let output = command
        .arg("--")
        .arg(&point)
        .stdin(Stdio::null())
        .env("LC_ALL", "C")
        .output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            if said.contains("busy") {
                return Err(MountError::Busy { point });
            }
            let cause = io::Error::other(said.trim_end().to_owned());
            Err(MountError::Unmount { point, cause })
        }
        Err(cause) => Err(MountError::Unmount { point, cause }),
    }
}
