//! What the rows lie on: exports with known contents, and a client for each identity.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use nfs_client::mount3::Mount3;
use nfs_client::nfs3::{CreateHow, Fattr3, FileHandle, Nfs3, Sattr3};
use nfs_client::{ConnectOptions, Connection, Identity};

/// A user who owns some of the files.
pub(super) const OWNER: u32 = 1001;
/// A user who owns none of the files.
pub(super) const OTHER: u32 = 1002;
/// A group that some of the files have.
pub(super) const GROUP: u32 = 2001;

/// The directories that the server exports.
pub(super) struct Place {
    pub(super) export: PathBuf,
    pub(super) read_only: Option<PathBuf>,
    pub(super) squashed: Option<PathBuf>,
    /// The server runs as this user and can act as no other.
    pub(super) only_user: Option<u32>,
}

/// Connections of several users, and the root handles of the exports.
pub(super) struct Bed {
    pub(super) nfs: SocketAddr,
    pub(super) export: PathBuf,
    /// The server runs as this user and can act as no other.
    pub(super) only_user: Option<u32>,
    /// The connection as user 0; `owner` and `other` are those of [`OWNER`] and [`OTHER`].
    pub(super) root: Nfs3,
    pub(super) owner: Nfs3,
    pub(super) other: Nfs3,
    pub(super) mount: Mount3,
    pub(super) top: FileHandle,
    pub(super) read_only: Option<FileHandle>,
    pub(super) squashed: Option<FileHandle>,
}

impl Place {
    /// Fills the directories; what was in them is removed.
    pub(super) fn prepare(&self) -> Result<()> {
        let others = [self.read_only.as_ref(), self.squashed.as_ref()];
        for dir in [Some(&self.export)].into_iter().chain(others).flatten() {
            fs::create_dir_all(dir)?;
            for entry in fs::read_dir(dir)? {
                let path = entry?.path();
                if path.is_dir() && !path.is_symlink() {
                    fs::remove_dir_all(path)?;
                } else {
                    fs::remove_file(path)?;
                }
            }
            fill(dir)?;
            give(dir, self.only_user)?;
        }
        Ok(())
    }

    /// A configuration that lets our server export these directories.
    pub(super) fn config(&self) -> String {
        let export =
            |path: &Path, more: &str| format!("[[export]]\npath = {:?}\n{more}\n", path.display());
        let mut text = export(&self.export, "squash = \"none\"");
        if let Some(path) = &self.read_only {
            text += &export(path, "squash = \"none\"\naccess = \"ro\"");
        }
        if let Some(path) = &self.squashed {
            text += &export(path, "squash = \"root\"");
        }
        text
    }
}

fn fill(dir: &Path) -> Result<()> {
    let mode = |name: &str, mode| {
        fs::set_permissions(dir.join(name), fs::Permissions::from_mode(mode))
            .with_context(|| format!("set the mode of {name}"))
    };
    let own = |name: &str, uid, gid| chown(dir.join(name), Some(uid), Some(gid));
    fs::set_permissions(dir, fs::Permissions::from_mode(0o777))?;
    for name in ["file", "private", "owned", "grouped"] {
        fs::write(dir.join(name), "The contents of a file.\n")?;
    }
    for name in ["dir", "empty", "closed", "shared", "sticky", "plain"] {
        fs::create_dir(dir.join(name))?;
        if name != "empty" {
            fs::write(dir.join(name).join("inner"), "inner\n")?;
        }
    }
    symlink("file", dir.join("link"))?;
    rustix::fs::mknodat(
        rustix::fs::CWD,
        dir.join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o666),
        0,
    )?;
    mode("file", 0o644)?;
    mode("private", 0o600)?;
    mode("owned", 0o644)?;
    own("owned", OWNER, OWNER)?;
    mode("grouped", 0o660)?;
    own("grouped", 0, GROUP)?;
    mode("closed", 0o700)?;
    mode("shared", 0o777)?;
    mode("sticky", 0o1777)?;
    own("sticky/inner", OWNER, OWNER)?;
    for name in ["dir", "empty", "plain"] {
        mode(name, 0o755)?;
    }
    Ok(())
}

/// Gives a directory and what is in it to `user`, if there is one to give it to.
fn give(dir: &Path, user: Option<u32>) -> Result<()> {
    if user.is_none() {
        return Ok(());
    }
    lchown(dir, user, user)?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            give(&entry.path(), user)?;
        } else {
            lchown(entry.path(), user, user)?;
        }
    }
    Ok(())
}

impl Bed {
    /// Connects to the server and mounts its exports.
    pub(super) async fn new(place: &Place, nfs: SocketAddr, mount: SocketAddr) -> Result<Self> {
        let options = ConnectOptions {
            call_timeout: Duration::from_secs(20),
            ..ConnectOptions::default()
        };
        let connection = Connection::connect(nfs.into(), options).await?;
        let mount = if mount == nfs {
            connection.clone()
        } else {
            Connection::connect(mount.into(), ConnectOptions::default()).await?
        };
        let mount = Mount3::new(mount, Identity::sys(0, 0, &[]));
        let root_of = async |path: Option<&PathBuf>| match path {
            None => Ok(None),
            Some(path) => match mount.mnt(path.as_os_str().as_bytes()).await? {
                Ok(ok) => Ok(Some(ok.fhandle)),
                Err(status) => Err(anyhow!("mount {}: {status:?}", path.display())),
            },
        };
        let top = root_of(Some(&place.export))
            .await?
            .context("the export's root")?;
        let read_only = root_of(place.read_only.as_ref()).await?;
        let squashed = root_of(place.squashed.as_ref()).await?;
        let root = Nfs3::new(connection, Identity::sys(0, 0, &[]));
        Ok(Self {
            nfs,
            export: place.export.clone(),
            only_user: place.only_user,
            owner: root.with_identity(Identity::sys(OWNER, OWNER, &[])),
            other: root.with_identity(Identity::sys(OTHER, OTHER, &[])),
            root,
            mount,
            top,
            read_only,
            squashed,
        })
    }

    /// Looks up the handle of a path below the export, as user 0.
    pub(super) async fn handle(&self, path: &str) -> Result<FileHandle> {
        self.handle_in(self.top, path).await
    }

    /// Looks up the handle of a path below `top`, as user 0.
    pub(super) async fn handle_in(&self, top: FileHandle, path: &str) -> Result<FileHandle> {
        let mut handle = top;
        for name in path.split('/') {
            match self.root.lookup(&handle, name.as_bytes()).await? {
                Ok(ok) => handle = ok.object,
                Err(failure) => return Err(anyhow!("LOOKUP {path}: {}", failure.status.word())),
            }
        }
        Ok(handle)
    }

    /// A new regular file in the export's root with mode 0644, made as user 0 over NFS.
    pub(super) async fn new_file(&self, name: &str) -> Result<FileHandle> {
        let attributes = Sattr3 {
            mode: Some(0o644),
            ..Sattr3::default()
        };
        let how = CreateHow::Guarded(attributes);
        match self.root.create(&self.top, name.as_bytes(), &how).await? {
            Ok(ok) => match ok.obj {
                Some(handle) => Ok(handle),
                None => self.handle(name).await,
            },
            Err(failure) => Err(anyhow!("CREATE {name}: {}", failure.status.word())),
        }
    }

    /// A new directory in the export's root, made as user 0 over NFS.
    pub(super) async fn new_dir(&self, name: &str) -> Result<FileHandle> {
        let attributes = Sattr3 {
            mode: Some(0o755),
            ..Sattr3::default()
        };
        match self
            .root
            .mkdir(&self.top, name.as_bytes(), &attributes)
            .await?
        {
            Ok(ok) => match ok.obj {
                Some(handle) => Ok(handle),
                None => self.handle(name).await,
            },
            Err(failure) => Err(anyhow!("MKDIR {name}: {}", failure.status.word())),
        }
    }

    /// The present attributes of an object, as GETATTR gives them to user 0.
    pub(super) async fn attributes(&self, handle: &FileHandle) -> Result<Fattr3> {
        match self.root.getattr(handle).await? {
            Ok(ok) => Ok(ok.obj_attributes),
            Err(failure) => Err(anyhow!("GETATTR: {}", failure.status.word())),
        }
    }
}
