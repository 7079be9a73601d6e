//! Names: looked up, made, removed, changed.

use fuser::{Errno, FileAttr, RenameFlags};
use nfs_client::ClientError;
use nfs_client::Node;
use nfs_client::nfs3::{CreateHow, DeviceData, Mknoddata, PipeData, Sattr3};
use rustix::fs::FileType;

use super::{Answer, Tree, refuse};
use crate::attributes;
use crate::callers::Caller;

/// The special file that a MKNOD request makes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Special {
    pub(crate) mode: u32,
    pub(crate) device: u32,
}

impl Tree {
    /// The object that `name` in the directory `parent` leads to.
    pub(crate) async fn lookup(
        &self,
        caller: Caller,
        parent: u64,
        name: &[u8],
    ) -> Answer<FileAttr> {
        let dir = self.handle(parent)?;
        let found = self.client(caller).lookup(&dir, name).await;
        let node = found.map_err(|error| refuse(&error))?;
        // What is written to a file that is open here may still be on its way.
        let number = self.inodes.lock().number(&node.handle);
        match number.and_then(|number| self.data(number)) {
            Some(file) => {
                let attributes = file.settled().await.map_err(|error| refuse(&error))?;
                let node = Node { attributes, ..node };
                Ok(self.told_of(&node)?.1)
            }
            None => Ok(self.told_of(&node)?.1),
        }
    }

    /// Makes a device, a socket, a fifo or an empty regular file.
    pub(crate) async fn mknod(
        &self,
        caller: Caller,
        parent: u64,
        name: &[u8],
        special: Special,
    ) -> Answer<FileAttr> {
        let dir = self.handle(parent)?;
        let client = self.client(caller);
        let new = with_mode(special.mode);
        let device = DeviceData {
            dev_attributes: new,
            spec: attributes::device_numbers(special.device),
        };
        let pipe = PipeData {
            pipe_attributes: new,
        };
        let what = match FileType::from_raw_mode(special.mode) {
            FileType::RegularFile => {
                let how = CreateHow::Guarded(new);
                return self.made(client.create_in(&dir, name, &how).await);
            }
            FileType::CharacterDevice => Mknoddata::CharacterDevice(device),
            FileType::BlockDevice => Mknoddata::BlockDevice(device),
            FileType::Socket => Mknoddata::Socket(pipe),
            FileType::Fifo => Mknoddata::Fifo(pipe),
            FileType::Directory | FileType::Symlink | FileType::Unknown => {
                return Err(Errno::EINVAL);
            }
        };
        self.made(client.mknod_in(&dir, name, &what).await)
    }

    /// Makes the directory `name` in the directory `parent`.
    pub(crate) async fn mkdir(
        &self,
        caller: Caller,
        parent: u64,
        name: &[u8],
        mode: u32,
    ) -> Answer<FileAttr> {
        let dir = self.handle(parent)?;
        let client = self.client(caller);
        self.made(client.mkdir_in(&dir, name, &with_mode(mode)).await)
    }

    /// Makes a symbolic link to `target`.
    pub(crate) async fn symlink(
        &self,
        caller: Caller,
        parent: u64,
        name: &[u8],
        target: &[u8],
    ) -> Answer<FileAttr> {
        let dir = self.handle(parent)?;
        let client = self.client(caller);
        let usual = Sattr3::default();
        self.made(client.symlink_in(&dir, name, target, &usual).await)
    }

    /// Gives a file one more name.
    pub(crate) async fn link(
        &self,
        caller: Caller,
        number: u64,
        parent: u64,
        name: &[u8],
    ) -> Answer<FileAttr> {
        let (handle, dir) = (self.handle(number)?, self.handle(parent)?);
        let client = self.client(caller);
        let made = client.link_in(&handle, &dir, name).await;
        made.map_err(|error| refuse(&error))?;
        let attributes = self.present(&client, number).await?;
        Ok(self.told_of(&Node { handle, attributes })?.1)
    }

    /// Removes a name that is not a directory's.
    pub(crate) async fn unlink(&self, caller: Caller, parent: u64, name: &[u8]) -> Answer<()> {
        let dir = self.handle(parent)?;
        let client = self.client(caller);
        if let Some(file) = self.in_the_way(&client, &dir, name).await? {
            return self.hide(caller, &dir, name, &file).await;
        }
        let removed = client.remove_in(&dir, name).await;
        removed.map_err(|error| refuse(&error))
    }

    /// Removes the directory `name` from the directory `parent`, if it is empty.
    pub(crate) async fn rmdir(&self, caller: Caller, parent: u64, name: &[u8]) -> Answer<()> {
        let dir = self.handle(parent)?;
        let removed = self.client(caller).rmdir_in(&dir, name).await;
        removed.map_err(|error| refuse(&error))
    }

    /// Changes a name, replacing what has the new one. NFSv3 has no other way of renaming.
    pub(crate) async fn rename(
        &self,
        caller: Caller,
        (parent, name): (u64, &[u8]),
        (new_parent, new_name): (u64, &[u8]),
        flags: RenameFlags,
    ) -> Answer<()> {
        if !flags.is_empty() {
            return Err(Errno::EINVAL);
        }
        let (dir, new_dir) = (self.handle(parent)?, self.handle(new_parent)?);
        let client = self.client(caller);
        let replaced = match self.in_the_way(&client, &new_dir, new_name).await? {
            // A name renamed to itself replaces nothing.
            Some(_) if dir == new_dir && name == new_name => None,
            other => other,
        };
        let mut kept = None;
        if let Some(file) = replaced {
            match self.keep(&client, &new_dir, &file).await? {
                Some(spare) => kept = Some((file, spare)),
                None => self.hide(caller, &new_dir, new_name, &file).await?,
            }
        }
        let renamed = client.rename_in(&dir, name, &new_dir, new_name).await;
        if let Some((file, spare)) = kept {
            if renamed.is_ok() {
                self.hidden(client, &new_dir, spare, &file).await;
            } else if let Err(error) = client.remove_in(&new_dir, &spare).await {
                tracing::warn!(%error, "cannot remove {}", spare.escape_ascii());
            }
        }
        renamed.map_err(|error| refuse(&error))
    }

    fn made(&self, made: Result<Node, ClientError>) -> Answer<FileAttr> {
        let node = made.map_err(|error| refuse(&error))?;
        Ok(self.told_of(&node)?.1)
    }
}

pub(super) fn with_mode(mode: u32) -> Sattr3 {
    Sattr3 {
        mode: Some(mode & 0o7777),
        ..Sattr3::default()
    }
}
