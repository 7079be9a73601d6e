//! Operations on handles: what a caller uses that walks trees itself (a copy, a mount). Those that
//! change directories are in `namespace`.

use nfs_wire::nfs3::{Fattr3, FileHandle, FsinfoOk, FsstatOk, PathconfOk, Sattr3};

use super::Client;
use crate::error::{ClientError, refused};
use crate::file::File;
use crate::nfs3::Node;

impl Client {
    /// The regular file `node`, open. `path` is what messages call it.
    ///
    /// # Errors
    /// [`ClientError::NotAFile`] for anything else.
    pub fn open_node(&self, node: Node, path: &[u8]) -> Result<File, ClientError> {
        File::open(&self.files, &self.nfs, &node, path)
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
        if let Some(changed) = self.files.set_attributes(&self.nfs, handle, new).await {
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
}
