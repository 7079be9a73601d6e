//! Operations on handles: what a caller uses that walks trees itself (a copy, a mount).

use nfs_wire::nfs3::{
    CreateHow, Fattr3, FileHandle, FsinfoOk, FsstatOk, Mknoddata, PathconfOk, Sattr3,
};

use super::error::refused;
use super::{Client, ClientError, Node};
use crate::file::File;

impl Client {
    /// The regular file `node`, open. `path` is what messages call it.
    ///
    /// # Errors
    /// [`ClientError::NotAFile`] for anything else.
    pub fn open_node(&self, node: Node, path: &[u8]) -> Result<File, ClientError> {
        File::open(self, node, path)
    }

    /// The present attributes of what `handle` names (GETATTR).
    pub async fn stat_handle(&self, handle: &FileHandle) -> Result<Fattr3, ClientError> {
        match self.nfs.getattr(handle).await? {
            Ok(ok) => Ok(ok.obj_attributes),
            Err(failure) => Err(refused("GETATTR", &[], failure.status)),
        }
    }

    /// Changes attributes (SETATTR); the attributes after it, if the server told them. Of a file that is
    /// open, what was written before is sent first.
    pub async fn setattr_handle(
        &self,
        handle: &FileHandle,
        new: &Sattr3,
    ) -> Result<Option<Fattr3>, ClientError> {
        if let Some(changed) = self.open_files().set_attributes(handle, new).await {
            return changed;
        }
        match self.nfs.setattr(handle, new, None).await? {
            Ok(wcc) => Ok(wcc.after),
            Err(failure) => Err(refused("SETATTR", &[], failure.status)),
        }
    }

    /// Which of the `ACCESS3_*` bits in `bits` this client's identity has (ACCESS).
    pub async fn access(&self, handle: &FileHandle, bits: u32) -> Result<u32, ClientError> {
        match self.nfs.access(handle, bits).await? {
            Ok(ok) => Ok(ok.access),
            Err(failure) => Err(refused("ACCESS", &[], failure.status)),
        }
    }

    /// Where the symbolic link `handle` points: bytes that the server does not interpret.
    pub async fn readlink(&self, handle: &FileHandle) -> Result<Vec<u8>, ClientError> {
        match self.nfs.readlink(handle).await? {
            Ok(ok) => Ok(ok.data),
            Err(failure) => Err(refused("READLINK", &[], failure.status)),
        }
    }

    /// Creates a regular file `name` in `dir` (CREATE).
    pub async fn create_in(
        &self,
        dir: &FileHandle,
        name: &[u8],
        how: &CreateHow,
    ) -> Result<Node, ClientError> {
        match self.nfs.create(dir, name, how).await? {
            Ok(ok) => self.complete(dir, name, ok.obj, ok.obj_attributes).await,
            Err(failure) => Err(refused("CREATE", name, failure.status)),
        }
    }

    /// Creates a directory `name` in `dir` (MKDIR).
    pub async fn mkdir_in(
        &self,
        dir: &FileHandle,
        name: &[u8],
        attributes: &Sattr3,
    ) -> Result<Node, ClientError> {
        match self.nfs.mkdir(dir, name, attributes).await? {
            Ok(ok) => self.complete(dir, name, ok.obj, ok.obj_attributes).await,
            Err(failure) => Err(refused("MKDIR", name, failure.status)),
        }
    }

    /// Creates a symbolic link `name` in `dir` that points to `target` (SYMLINK).
    pub async fn symlink_in(
        &self,
        dir: &FileHandle,
        name: &[u8],
        target: &[u8],
        attributes: &Sattr3,
    ) -> Result<Node, ClientError> {
        match self.nfs.symlink(dir, name, attributes, target).await? {
            Ok(ok) => self.complete(dir, name, ok.obj, ok.obj_attributes).await,
            Err(failure) => Err(refused("SYMLINK", name, failure.status)),
        }
    }

    /// Creates a device, socket or fifo `name` in `dir` (MKNOD).
    pub async fn mknod_in(
        &self,
        dir: &FileHandle,
        name: &[u8],
        what: &Mknoddata,
    ) -> Result<Node, ClientError> {
        match self.nfs.mknod(dir, name, what).await? {
            Ok(ok) => self.complete(dir, name, ok.obj, ok.obj_attributes).await,
            Err(failure) => Err(refused("MKNOD", name, failure.status)),
        }
    }

    /// Removes `name`, not a directory's, from `dir` (REMOVE).
    pub async fn remove_in(&self, dir: &FileHandle, name: &[u8]) -> Result<(), ClientError> {
        let answer = self.nfs.remove(dir, name).await?;
        answer
            .map(drop)
            .map_err(|failure| refused("REMOVE", name, failure.status))
    }

    /// Removes the empty directory `name` from `dir` (RMDIR).
    pub async fn rmdir_in(&self, dir: &FileHandle, name: &[u8]) -> Result<(), ClientError> {
        let answer = self.nfs.rmdir(dir, name).await?;
        answer
            .map(drop)
            .map_err(|failure| refused("RMDIR", name, failure.status))
    }

    /// Renames `from` in `from_dir` to `to` in `to_dir`, replacing what has that name (RENAME).
    pub async fn rename_in(
        &self,
        from_dir: &FileHandle,
        from: &[u8],
        to_dir: &FileHandle,
        to: &[u8],
    ) -> Result<(), ClientError> {
        let answer = self.nfs.rename(from_dir, from, to_dir, to).await?;
        answer
            .map(drop)
            .map_err(|failure| refused("RENAME", from, failure.status))
    }

    /// Gives `file` the further name `name` in `dir` (LINK).
    pub async fn link_in(
        &self,
        file: &FileHandle,
        dir: &FileHandle,
        name: &[u8],
    ) -> Result<(), ClientError> {
        let answer = self.nfs.link(file, dir, name).await?;
        answer
            .map(drop)
            .map_err(|failure| refused("LINK", name, failure.status))
    }

    /// Space and inodes of the file system that holds `handle` (FSSTAT).
    pub async fn statfs(&self, handle: &FileHandle) -> Result<FsstatOk, ClientError> {
        match self.nfs.fsstat(handle).await? {
            Ok(ok) => Ok(ok),
            Err(failure) => Err(refused("FSSTAT", &[], failure.status)),
        }
    }

    /// Sizes and abilities of the file system that holds `handle` (FSINFO).
    pub async fn fsinfo(&self, handle: &FileHandle) -> Result<FsinfoOk, ClientError> {
        match self.nfs.fsinfo(handle).await? {
            Ok(ok) => Ok(ok),
            Err(failure) => Err(refused("FSINFO", &[], failure.status)),
        }
    }

    /// Limits on names and links where `handle` is (PATHCONF).
    pub async fn pathconf(&self, handle: &FileHandle) -> Result<PathconfOk, ClientError> {
        match self.nfs.pathconf(handle).await? {
            Ok(ok) => Ok(ok),
            Err(failure) => Err(refused("PATHCONF", &[], failure.status)),
        }
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
