//! From a path to the socket of the mount that it is in, without asking the mount.

use std::io;
use std::path::{Component, Path, PathBuf};

use nfs_fuse::FS_TYPE;
use nfs_io::mounts::Mount;
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::limits::MOUNT_LOOK_MAX;
use crate::show::escape;
use crate::statistics::figures::Figures;
use crate::statistics::socket;

/// A mount of penstock.
#[derive(Debug)]
pub(super) struct Found {
    point: PathBuf,
    owner: u32,
    socket: PathBuf,
}

/// Why a path leads to no statistics.
#[derive(Debug)]
pub(super) enum Unknown {
    /// The system does not tell.
    System(String, io::Error),
    /// Another file system is there.
    NoMount { dir: PathBuf, fs_type: String },
    /// Only that user, and root, may look.
    Foreign { point: PathBuf, owner: u32 },
    /// Nobody serves the mount any more.
    Gone { point: PathBuf },
    /// The mount is not there any more.
    Unmounted { point: PathBuf },
    /// The mount is served, and its process does not tell.
    Untold {
        point: PathBuf,
        socket: PathBuf,
        cause: io::Error,
    },
}

impl Found {
    /// The mount that `dir` is in.
    ///
    /// # Errors
    /// [`Unknown`].
    pub(super) fn of(dir: &Path) -> Result<Self, Unknown> {
        let about = |path: &Path| escape(path.as_os_str().as_encoded_bytes());
        let mounts = nfs_io::mounts::mounts();
        let mounts =
            mounts.map_err(|error| Unknown::System("/proc/self/mountinfo".to_owned(), error))?;
        let plain = std::path::absolute(dir);
        let plain = plain.map_err(|error| Unknown::System(about(dir), error))?;
        // As it was given first: to find out where links lead, the mount would have to be asked.
        let has_parents = plain
            .components()
            .any(|component| component == Component::ParentDir);
        let as_given = holder(&mounts, &plain).filter(|mount| is_ours(mount) && !has_parents);
        let mount = match as_given {
            Some(mount) => Some(mount),
            None => {
                let real = dir.canonicalize();
                let real = real.map_err(|error| Unknown::System(about(dir), error))?;
                holder(&mounts, &real)
            }
        };
        let Some(mount) = mount.filter(|mount| is_ours(mount)) else {
            return Err(Unknown::NoMount {
                dir: dir.to_owned(),
                fs_type: mount.map_or_else(String::new, |mount| mount.fs_type.clone()),
            });
        };
        let point = mount.mount_point.clone();
        let us = geteuid().as_raw();
        let owner = owner(mount).unwrap_or(us);
        if us != 0 && us != owner {
            return Err(Unknown::Foreign { point, owner });
        }
        let directory = match us == owner {
            true => socket::own_directory(),
            false => Ok(socket::directory_of(owner)),
        };
        let directory = directory.map_err(|cause| Unknown::Untold {
            point: point.clone(),
            socket: PathBuf::new(),
            cause,
        })?;
        Ok(Self {
            socket: directory.join(socket::name(mount.dev)),
            owner,
            point,
        })
    }

    /// What the mount tells now.
    ///
    /// # Errors
    /// [`Unknown`].
    pub(super) async fn ask(&self) -> Result<Figures, Unknown> {
        match socket::ask(&self.socket, self.owner).await {
            Ok(figures) => Ok(figures),
            Err(cause) => Err(self.gone().await.unwrap_or_else(|| Unknown::Untold {
                point: self.point.clone(),
                socket: self.socket.clone(),
                cause,
            })),
        }
    }

    /// How it has ended, if it has. The mount has to be asked for that, which may wait for a server that is away: then
    /// somebody serves it.
    async fn gone(&self) -> Option<Unknown> {
        let point = self.point.clone();
        let look = tokio::task::spawn_blocking(move || match std::fs::metadata(&point) {
            Err(error) => {
                let dead = error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error());
                dead.then_some(Unknown::Gone { point })
            }
            Ok(_) => {
                let mounts = nfs_io::mounts::mounts().ok()?;
                let there = |one: &Mount| one.mount_point == point && is_ours(one);
                (!mounts.iter().any(there)).then_some(Unknown::Unmounted { point })
            }
        });
        let looked = tokio::time::timeout(MOUNT_LOOK_MAX, look).await;
        looked.ok()?.ok()?
    }
}

/// The mount that a path without links is in: that with the longest mount point, of several on one the last.
fn holder<'m>(mounts: &'m [Mount], path: &Path) -> Option<&'m Mount> {
    let holding = mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.mount_point));
    holding.max_by_key(|mount| mount.mount_point.components().count())
}

fn is_ours(mount: &Mount) -> bool {
    mount.fs_type == FS_TYPE
}

/// The user that mounted it, as FUSE says.
fn owner(mount: &Mount) -> Option<u32> {
    let mut options = mount.super_options.split(',');
    options.find_map(|option| option.strip_prefix("user_id=")?.parse().ok())
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = |path: &Path| escape(path.as_os_str().as_encoded_bytes());
        match self {
            Self::System(about, error) => write!(f, "{about}: {error}"),
            Self::NoMount { dir, fs_type } => write!(
                f,
                "{}: no mount of penstock, but {}: `penstock mount` makes some, and `grep {FS_TYPE} \
                 /proc/self/mounts` lists them",
                name(dir),
                match fs_type.as_str() {
                    "" => "of no file system that is known".to_owned(),
                    "nfs" | "nfs4" => format!("the kernel's ({fs_type}), which nfsiostat is for"),
                    other => escape(other.as_bytes()),
                }
            ),
            Self::Foreign { point, owner } => write!(
                f,
                "{}: user {owner} has mounted it; only that user and root may look",
                name(point)
            ),
            Self::Gone { point } => write!(
                f,
                "{}: nobody serves this mount any more: its process has ended; unmount it with `fusermount3 -u {}`",
                name(point),
                name(point)
            ),
            Self::Unmounted { point } => write!(f, "{}: not mounted any more", name(point)),
            Self::Untold {
                point,
                socket,
                cause,
            } => {
                write!(f, "{}: its process does not tell: ", name(point))?;
                match cause.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => write!(
                        f,
                        "nobody listens at {}. It was mounted by an older penstock, or with another XDG_RUNTIME_DIR \
                         than this one, or without any",
                        name(socket)
                    ),
                    _ => write!(f, "{cause}"),
                }
            }
        }
    }
}

impl std::error::Error for Unknown {}

#[cfg(test)]
mod tests;
