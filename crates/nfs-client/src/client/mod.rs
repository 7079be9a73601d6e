//! Paths, files and directories of one mounted export.
//!
//! A [`Client`] holds a connection, an identity and the export's root handle; clones share them. Over NFSv4 the
//! export is the server's whole name space, and the connection a session. It
//! caches nothing but what open files have ([`crate::file`]): every answer is the server's of this
//! moment. Symbolic links are followed here, not by the server (RFC 1813 §3.3.5), inside the export
//! only.
//!
//! Paths and names are bytes, and paths begin at the export's root, with a `/` or without; most methods take text and
//! the paths of this system as well ([`AsPath`]). What asks the
//! server ends in a [`ClientError`] when it says no ([`ClientError::status`] has its word), when it cannot
//! be reached in the call's time, or when its answer breaks the protocol. A method names only the errors
//! that it has beyond these.

mod directory;
mod entries;
mod handles;
mod mount;
mod namespace;
mod services;
mod statistics;
mod tree;
mod v4;
mod walk;

use std::sync::Arc;

use nfs_wire::nfs3::{CreateHow, Fattr3, FileHandle, Sattr3};

pub use self::directory::{DirEntry, DirStream};
pub use self::entries::Entries;
pub use self::mount::MountOptions;
pub use self::statistics::Statistics;
pub use self::tree::{Found, Tree, TreeOptions, Visit};

use self::walk::parent_and_name;
use crate::error::ClientError;
use crate::file::{File, Files, TransferSizes, Windows};
use crate::identity::Identity;
use crate::mount3::Mount3;
use crate::nfs::Nfs;
use crate::nfs3::Node;
use crate::path::AsPath;

/// A mounted export. See the module's documentation.
#[derive(Clone, Debug)]
pub struct Client {
    nfs: Nfs,
    /// What gave the root; none over NFSv4.
    mount: Option<Mount3>,
    export: Vec<u8>,
    root: FileHandle,
    files: Arc<Files>,
}

impl Client {
    /// The procedures, as this client's identity.
    pub fn nfs(&self) -> &Nfs {
        &self.nfs
    }

    /// A client of this export over the same connections, called as `identity`. Files that both have open are
    /// one: each sees what the other writes. What one has read ahead is not given to the other.
    pub fn with_identity(&self, identity: Identity) -> Self {
        Self {
            nfs: self.nfs.with_identity(identity),
            ..self.clone()
        }
    }

    /// The handle of the export's root.
    pub fn root(&self) -> &FileHandle {
        &self.root
    }

    /// The path that was mounted, as MNT was given it.
    pub fn export(&self) -> &[u8] {
        &self.export
    }

    /// The MOUNT program that gave the root; NFSv4 has none.
    pub fn mount_service(&self) -> Option<&Mount3> {
        self.mount.as_ref()
    }

    /// What is left of `path` below this export's, both in the server's name space; `None` for a path
    /// outside. Another export may lie in between: see [`Mount3::export`].
    pub fn below_export(&self, path: &[u8]) -> Option<Vec<u8>> {
        mount::rest_below(path, &self.export)
    }

    /// How much is moved per call.
    pub fn transfer_sizes(&self) -> TransferSizes {
        self.files.transfer_sizes()
    }

    /// How much may be on its way.
    pub fn windows(&self) -> Windows {
        self.files.windows()
    }

    /// This client with other windows, and memory of their own, for the files that it opens.
    #[must_use]
    pub fn with_windows(self, windows: Windows) -> Self {
        let files = Files::new(self.transfer_sizes(), windows).hinted(self.files.hint());
        let files = Arc::new(files);
        Self { files, ..self }
    }

    /// The most memory that the windows of all files had at once, and what they have now, bytes.
    pub fn window_bytes(&self) -> (u64, u64) {
        let budget = self.files.budget();
        (budget.peak(), budget.in_use())
    }

    /// Files that are open, and those that were dropped with WRITEs on their way which are not answered yet.
    pub fn files_known(&self) -> usize {
        self.files.count()
    }

    /// The attributes of what `path` leads to; symbolic links are followed.
    pub async fn stat(&self, path: impl AsPath) -> Result<Fattr3, ClientError> {
        let path = path.as_path();
        Ok(self.resolve(path).await?.attributes)
    }

    /// Opens the regular file that `path` leads to; symbolic links are followed.
    pub async fn open(&self, path: impl AsPath) -> Result<File, ClientError> {
        let path = path.as_path();
        let node = self.resolve(path).await?;
        self.open_node(node, path)
    }

    /// Creates a regular file with permission bits `mode`, or opens the one that is there: its content
    /// stays, and on most servers its mode.
    pub async fn create(&self, path: impl AsPath, mode: u32) -> Result<File, ClientError> {
        let path = path.as_path();
        let (dir, name) = self.parent(path).await?;
        let how = CreateHow::Unchecked(with_mode(mode));
        let node = self.create_in(&dir, name, &how).await;
        self.open_node(node.map_err(|error| error.of(path))?, path)
    }

    /// Creates a regular file with permission bits `mode`. One that is there already is `NFS3ERR_EXIST`, and
    /// of several clients that try one succeeds.
    pub async fn create_new(&self, path: impl AsPath, mode: u32) -> Result<File, ClientError> {
        let path = path.as_path();
        let (dir, name) = self.parent(path).await?;
        let node = self.create_new_in(&dir, name, &with_mode(mode)).await;
        self.open_node(node.map_err(|error| error.of(path))?, path)
    }

    /// Creates a directory with permission bits `mode`.
    pub async fn mkdir(&self, path: impl AsPath, mode: u32) -> Result<Node, ClientError> {
        let path = path.as_path();
        let (dir, name) = self.parent(path).await?;
        let made = self.mkdir_in(&dir, name, &with_mode(mode)).await;
        made.map_err(|error| error.of(path))
    }

    /// Creates a symbolic link at `path` that points to `target`.
    pub async fn symlink(
        &self,
        path: impl AsPath,
        target: impl AsPath,
    ) -> Result<Node, ClientError> {
        let (path, target) = (path.as_path(), target.as_path());
        let (dir, name) = self.parent(path).await?;
        let made = self
            .symlink_in(&dir, name, target, &Sattr3::default())
            .await;
        made.map_err(|error| error.of(path))
    }

    /// Gives what `existing` names (a symbolic link itself, not what it leads to) the further name
    /// `path`.
    pub async fn link(&self, existing: impl AsPath, path: impl AsPath) -> Result<(), ClientError> {
        let path = path.as_path();
        let file = self.resolve_link(existing).await?.handle;
        let (dir, name) = self.parent(path).await?;
        let made = self.link_in(&file, &dir, name).await;
        made.map_err(|error| error.of(path))
    }

    /// Removes a name that is not a directory's.
    pub async fn remove(&self, path: impl AsPath) -> Result<(), ClientError> {
        let path = path.as_path();
        let (dir, name) = self.parent(path).await?;
        let removed = self.remove_in(&dir, name).await;
        removed.map_err(|error| error.of(path))
    }

    /// Removes the directory `path`, which has to be empty.
    pub async fn rmdir(&self, path: impl AsPath) -> Result<(), ClientError> {
        let path = path.as_path();
        let (dir, name) = self.parent(path).await?;
        let removed = self.rmdir_in(&dir, name).await;
        removed.map_err(|error| error.of(path))
    }

    /// Renames `from` to `to`, replacing what `to` names, as rename(2) does.
    pub async fn rename(&self, from: impl AsPath, to: impl AsPath) -> Result<(), ClientError> {
        let (from, to) = (from.as_path(), to.as_path());
        let (from_dir, from_name) = self.parent(from).await?;
        let (to_dir, to_name) = self.parent(to).await?;
        let renamed = self.rename_in(&from_dir, from_name, &to_dir, to_name).await;
        renamed.map_err(|error| error.of(from))
    }

    /// Changes attributes of what `path` leads to; symbolic links are followed.
    pub async fn setattr(&self, path: impl AsPath, new: &Sattr3) -> Result<(), ClientError> {
        let path = path.as_path();
        let node = self.resolve(path).await?;
        let changed = self.setattr_handle(&node.handle, new).await;
        changed.map(drop).map_err(|error| error.of(path))
    }

    /// Tells the server that the export is not used any more. Over NFSv3 (UMNT) that is advisory: a server keeps
    /// its list of mounts for people to look at, and nothing fails without it (RFC 1813 §5.2.3). Over NFSv4 it
    /// ends the session, for all clones; without it the server keeps what was open until the lease is over.
    ///
    /// Waits first for what was left behind by [`Cursor`](crate::Cursor)s that were dropped before all was on stable
    /// storage.
    ///
    /// # Errors
    /// Also the first failure of data that was left behind so, and is lost.
    pub async fn unmount(self) -> Result<(), ClientError> {
        let left = self.files.finish_left_behind().await;
        self.tell_server().await?;
        left
    }

    async fn tell_server(self) -> Result<(), ClientError> {
        match (self.nfs, self.mount) {
            (Nfs::V3(_), Some(mount)) => Ok(mount.umnt(&self.export).await?),
            (Nfs::V3(_), None) => Ok(()),
            (Nfs::V4(nfs), _) => Ok(nfs.session().clone().end().await?),
        }
    }

    /// The handle of the directory that holds the last name of `path`, and that name.
    ///
    /// # Errors
    /// [`ClientError::NoName`] for a path that ends in nothing that can be made or removed: `/`, `..`.
    pub async fn parent<'p>(&self, path: &'p [u8]) -> Result<(FileHandle, &'p [u8]), ClientError> {
        let (parent, name) = parent_and_name(path)?;
        Ok((self.resolve(parent).await?.handle, name))
    }
}

fn with_mode(mode: u32) -> Sattr3 {
    Sattr3 {
        mode: Some(mode),
        ..Sattr3::default()
    }
}
