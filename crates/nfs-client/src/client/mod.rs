//! Paths, files and directories of one mounted export.
//!
//! A [`Client`] holds a connection, an identity and the export's root handle; clones share them. It
//! caches nothing: every answer is the server's of this moment. Symbolic links are followed here, not
//! by the server (RFC 1813 §3.3.5), inside the export only.

mod directory;
mod error;
mod mount;
mod walk;

use nfs_wire::nfs3::{CreateHow, Fattr3, FileHandle, Sattr3};

pub use self::directory::DirEntry;
pub use self::error::ClientError;
pub use self::mount::MountOptions;

pub(crate) use self::error::{printable, refused};
use self::walk::parent_and_name;
use crate::file::File;
use crate::mount3::Mount3;
use crate::nfs3::Nfs3;

/// A mounted export. See the module's documentation.
#[derive(Clone, Debug)]
pub struct Client {
    nfs: Nfs3,
    mount: Mount3,
    export: Vec<u8>,
    root: FileHandle,
    transfer: TransferSizes,
}

/// How much the client moves per call, bytes: what the server prefers (FSINFO), capped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferSizes {
    /// Bytes per READ.
    pub read: u32,
    /// Bytes per WRITE.
    pub write: u32,
    /// Bytes of one READDIR or READDIRPLUS reply.
    pub directory: u32,
}

/// Something in the export: its handle and its attributes when they were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// The server's name for it.
    pub handle: FileHandle,
    /// Its attributes at the time of the answer.
    pub attributes: Fattr3,
}

impl Client {
    /// The procedures of NFS version 3, as this client's identity.
    pub fn nfs(&self) -> &Nfs3 {
        &self.nfs
    }

    /// The handle of the export's root.
    pub fn root(&self) -> &FileHandle {
        &self.root
    }

    /// The path that was mounted, as MNT was given it.
    pub fn export(&self) -> &[u8] {
        &self.export
    }

    /// How much is moved per call.
    pub fn transfer_sizes(&self) -> TransferSizes {
        self.transfer
    }

    /// The attributes of what `path` leads to; symbolic links are followed.
    pub async fn stat(&self, path: &[u8]) -> Result<Fattr3, ClientError> {
        Ok(self.resolve(path).await?.attributes)
    }

    /// The present attributes of what `handle` names (GETATTR).
    pub async fn stat_handle(&self, handle: &FileHandle) -> Result<Fattr3, ClientError> {
        match self.nfs.getattr(handle).await? {
            Ok(ok) => Ok(ok.obj_attributes),
            Err(failure) => Err(refused("GETATTR", &[], failure.status)),
        }
    }

    /// Opens the regular file that `path` leads to; symbolic links are followed.
    pub async fn open(&self, path: &[u8]) -> Result<File, ClientError> {
        let node = self.resolve(path).await?;
        File::new(self.clone(), node, path)
    }

    /// Creates a regular file with permission bits `mode`, or opens it if it exists and `exclusive`
    /// is false; with `exclusive`, an existing file is `NFS3ERR_EXIST`.
    pub async fn create(
        &self,
        path: &[u8],
        mode: u32,
        exclusive: bool,
    ) -> Result<File, ClientError> {
        let (dir, name) = self.parent(path).await?;
        let attributes = Sattr3 {
            mode: Some(mode),
            ..Sattr3::default()
        };
        let how = if exclusive {
            CreateHow::Guarded(attributes)
        } else {
            CreateHow::Unchecked(attributes)
        };
        let node = match self.nfs.create(&dir, name, &how).await? {
            Ok(ok) => self.complete(&dir, name, ok.obj, ok.obj_attributes).await?,
            Err(failure) => return Err(refused("CREATE", path, failure.status)),
        };
        File::new(self.clone(), node, path)
    }

    /// Creates a directory with permission bits `mode`.
    pub async fn mkdir(&self, path: &[u8], mode: u32) -> Result<Node, ClientError> {
        let (dir, name) = self.parent(path).await?;
        let attributes = Sattr3 {
            mode: Some(mode),
            ..Sattr3::default()
        };
        match self.nfs.mkdir(&dir, name, &attributes).await? {
            Ok(ok) => self.complete(&dir, name, ok.obj, ok.obj_attributes).await,
            Err(failure) => Err(refused("MKDIR", path, failure.status)),
        }
    }

    /// Creates a symbolic link at `path` that points to `target`.
    pub async fn symlink(&self, path: &[u8], target: &[u8]) -> Result<Node, ClientError> {
        let (dir, name) = self.parent(path).await?;
        match self
            .nfs
            .symlink(&dir, name, &Sattr3::default(), target)
            .await?
        {
            Ok(ok) => self.complete(&dir, name, ok.obj, ok.obj_attributes).await,
            Err(failure) => Err(refused("SYMLINK", path, failure.status)),
        }
    }

    /// Removes a name that is not a directory's.
    pub async fn remove(&self, path: &[u8]) -> Result<(), ClientError> {
        let (dir, name) = self.parent(path).await?;
        let answer = self.nfs.remove(&dir, name).await?;
        answer
            .map(drop)
            .map_err(|failure| refused("REMOVE", path, failure.status))
    }

    /// Removes an empty directory.
    pub async fn rmdir(&self, path: &[u8]) -> Result<(), ClientError> {
        let (dir, name) = self.parent(path).await?;
        let answer = self.nfs.rmdir(&dir, name).await?;
        answer
            .map(drop)
            .map_err(|failure| refused("RMDIR", path, failure.status))
    }

    /// Renames `from` to `to`, replacing what `to` names, as rename(2) does.
    pub async fn rename(&self, from: &[u8], to: &[u8]) -> Result<(), ClientError> {
        let (from_dir, from_name) = self.parent(from).await?;
        let (to_dir, to_name) = self.parent(to).await?;
        let answer = self
            .nfs
            .rename(&from_dir, from_name, &to_dir, to_name)
            .await?;
        answer
            .map(drop)
            .map_err(|failure| refused("RENAME", from, failure.status))
    }

    /// Where the symbolic link `handle` points: bytes that the server does not interpret.
    pub async fn readlink(&self, handle: &FileHandle) -> Result<Vec<u8>, ClientError> {
        match self.nfs.readlink(handle).await? {
            Ok(ok) => Ok(ok.data),
            Err(failure) => Err(refused("READLINK", &[], failure.status)),
        }
    }

    /// Tells the server that the export is not used any more (UMNT). Advisory: a server keeps its
    /// list of mounts for people to look at, and nothing fails without it (RFC 1813 §5.2.3).
    pub async fn unmount(self) -> Result<(), ClientError> {
        Ok(self.mount.umnt(&self.export).await?)
    }

    async fn parent<'p>(&self, path: &'p [u8]) -> Result<(FileHandle, &'p [u8]), ClientError> {
        let (parent, name) = parent_and_name(path)?;
        Ok((self.resolve(parent).await?.handle, name))
    }

    /// Handle and attributes of a new object: servers may leave either out of their answer.
    async fn complete(
        &self,
        dir: &FileHandle,
        name: &[u8],
        handle: Option<FileHandle>,
        attributes: Option<Fattr3>,
    ) -> Result<Node, ClientError> {
        match (handle, attributes) {
            (Some(handle), Some(attributes)) => Ok(Node { handle, attributes }),
            (Some(handle), None) => Ok(Node {
                handle,
                attributes: self.stat_handle(&handle).await?,
            }),
            (None, _) => self.lookup(dir, name).await,
        }
    }
}
