//! A directory of either side, and what is done in it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use nfs_wire::nfs3::{
    CreateHow, DeviceData, Fattr3, FileHandle, Ftype3, Mknoddata, Nfsstat3, PipeData, Sattr3,
};

use super::error::TransferError;
use super::item::Item;
use super::local;
use super::place::Location;
use super::threads::blocking;
use crate::client::Client;
use crate::error::ClientError;
use crate::nfs3::Node;

/// A directory, open (this host) or known by its handle (a server). Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Dir {
    pub(super) side: Side,
    pub(super) location: Location,
}

#[derive(Clone, Debug)]
pub(super) enum Side {
    Local(Arc<OwnedFd>),
    Remote {
        client: Arc<Client>,
        handle: FileHandle,
    },
}

/// What making something came to.
#[derive(Debug)]
pub(super) enum Made<T> {
    New(T),
    Exists,
}

impl Dir {
    /// Whether both are sides of this host, or directories of one server's file system.
    pub(super) fn is_same_side(&self, other: &Self) -> bool {
        match (&self.side, &other.side) {
            (Side::Local(_), Side::Local(_)) => true,
            (Side::Remote { client: a, .. }, Side::Remote { client: b, .. }) => {
                a.nfs().connection().target() == b.nfs().connection().target()
            }
            _ => false,
        }
    }

    /// Runs `work` with the descriptor of this host's directory.
    pub(super) async fn local<T, F>(
        &self,
        dir: &Arc<OwnedFd>,
        name: &[u8],
        operation: &'static str,
        work: F,
    ) -> Result<T, TransferError>
    where
        T: Send + 'static,
        F: FnOnce(&OwnedFd, &[u8]) -> io::Result<T> + Send + 'static,
    {
        let (dir, own) = (dir.clone(), name.to_vec());
        let done = blocking(move || work(&dir, &own)).await;
        done.map_err(|error| TransferError::local(&self.location.join(name), operation, error))
    }

    fn remote(&self, name: &[u8], error: ClientError) -> TransferError {
        error.of(&self.location.join(name).name()).into()
    }

    /// What has the name `name`, a symbolic link itself; `None` for nothing.
    pub(super) async fn look_up(&self, name: &[u8]) -> Result<Option<Item>, TransferError> {
        match &self.side {
            Side::Local(dir) => {
                let found = self.local(dir, name, "stat", |dir, name| {
                    match local::look_up(dir, name, false) {
                        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                        found => found.map(Some),
                    }
                });
                found.await
            }
            Side::Remote { client, handle } => match client.lookup(handle, name).await {
                Ok(node) => Ok(Some(Item::of(name, node))),
                Err(error) if error.status() == Some(Nfsstat3::Noent) => Ok(None),
                Err(error) => Err(self.remote(name, error)),
            },
        }
    }

    /// Opens the directory `item`, which is in this one.
    pub(super) async fn open_dir(&self, item: &Item) -> Result<Self, TransferError> {
        let location = self.location.join(&item.name);
        let side = match &self.side {
            Side::Local(dir) => {
                let follow = item.follow;
                let opened = self.local(dir, &item.name, "open", move |dir, name| {
                    local::open_dir(dir, name, follow)
                });
                Side::Local(Arc::new(opened.await?))
            }
            Side::Remote { client, handle } => Side::Remote {
                client: client.clone(),
                handle: match item.handle {
                    Some(handle) => handle,
                    None => {
                        let node = client.lookup(handle, &item.name).await;
                        node.map_err(|error| self.remote(&item.name, error))?.handle
                    }
                },
            },
        };
        Ok(Self { side, location })
    }

    /// Makes the directory `name`, and opens it.
    pub(super) async fn make_dir(
        &self,
        name: &[u8],
        mode: u32,
    ) -> Result<Made<(Self, Fattr3)>, TransferError> {
        let location = self.location.join(name);
        match &self.side {
            Side::Local(dir) => {
                let made = self.local(dir, name, "mkdir", move |dir, name| {
                    if is_taken(local::make_dir(dir, name, mode))?.is_none() {
                        return Ok(None);
                    }
                    let new = local::open_dir(dir, name, false)?;
                    let attributes = local::attributes_of(&new)?;
                    Ok(Some((new, attributes)))
                });
                Ok(match made.await? {
                    None => Made::Exists,
                    Some((new, attributes)) => {
                        let side = Side::Local(Arc::new(new));
                        Made::New((Self { side, location }, attributes))
                    }
                })
            }
            Side::Remote { client, handle } => {
                let attributes = Sattr3 {
                    mode: Some(mode),
                    ..Sattr3::default()
                };
                let made = client.mkdir_in(handle, name, &attributes).await;
                Ok(match self.made(name, made)? {
                    Made::Exists => Made::Exists,
                    Made::New(node) => {
                        let side = Side::Remote {
                            client: client.clone(),
                            handle: node.handle,
                        };
                        Made::New((Self { side, location }, node.attributes))
                    }
                })
            }
        }
    }

    fn made(
        &self,
        name: &[u8],
        made: Result<Node, ClientError>,
    ) -> Result<Made<Node>, TransferError> {
        match made {
            Ok(node) => Ok(Made::New(node)),
            Err(error) if error.status() == Some(Nfsstat3::Exist) => Ok(Made::Exists),
            Err(error) => Err(self.remote(name, error)),
        }
    }

    /// Where the symbolic link `item` points.
    pub(super) async fn read_link(&self, item: &Item) -> Result<Vec<u8>, TransferError> {
        match (&self.side, item.handle) {
            (Side::Local(dir), _) => {
                self.local(dir, &item.name, "readlink", local::read_link)
                    .await
            }
            (Side::Remote { client, .. }, Some(handle)) => {
                let target = client.readlink(&handle).await;
                target.map_err(|error| self.remote(&item.name, error))
            }
            (Side::Remote { client, handle }, None) => {
                let target = async {
                    let link = client.lookup(handle, &item.name).await?;
                    client.readlink(&link.handle).await
                };
                target.await.map_err(|error| self.remote(&item.name, error))
            }
        }
    }

    /// Makes the symbolic link `name` that points to `target`.
    pub(super) async fn make_symlink(
        &self,
        name: &[u8],
        target: Vec<u8>,
    ) -> Result<Made<Item>, TransferError> {
        match &self.side {
            Side::Local(dir) => {
                let made = self.local(dir, name, "symlink", move |dir, name| {
                    match is_taken(local::make_symlink(dir, name, &target))? {
                        None => Ok(None),
                        Some(()) => local::look_up(dir, name, false).map(Some),
                    }
                });
                Ok(made.await?.map_or(Made::Exists, Made::New))
            }
            Side::Remote { client, handle } => {
                let none = Sattr3::default();
                let made = client.symlink_in(handle, name, &target, &none).await;
                self.item(name, made)
            }
        }
    }

    fn item(
        &self,
        name: &[u8],
        made: Result<Node, ClientError>,
    ) -> Result<Made<Item>, TransferError> {
        Ok(match self.made(name, made)? {
            Made::New(node) => Made::New(Item::of(name, node)),
            Made::Exists => Made::Exists,
        })
    }

    /// Makes a fifo, socket or device like `like`.
    pub(super) async fn make_special(
        &self,
        name: &[u8],
        like: &Fattr3,
        mode: u32,
    ) -> Result<Made<Item>, TransferError> {
        match &self.side {
            Side::Local(dir) => {
                let like = *like;
                let made = self.local(dir, name, "mknod", move |dir, name| {
                    match is_taken(local::make_special(dir, name, &like, mode))? {
                        None => Ok(None),
                        Some(()) => local::look_up(dir, name, false).map(Some),
                    }
                });
                Ok(made.await?.map_or(Made::Exists, Made::New))
            }
            Side::Remote { client, handle } => {
                let made = client.mknod_in(handle, name, &special(like, mode)).await;
                self.item(name, made)
            }
        }
    }

    /// Makes the regular file `name` on a server.
    pub(super) async fn create_remote(
        &self,
        client: &Client,
        handle: &FileHandle,
        name: &[u8],
        mode: u32,
    ) -> Result<Made<Node>, TransferError> {
        let attributes = Sattr3 {
            mode: Some(mode),
            ..Sattr3::default()
        };
        let how = CreateHow::Guarded(attributes);
        let made = client.create_in(handle, name, &how).await;
        self.made(name, made)
    }

    /// Removes a name that is not a directory's.
    pub(super) async fn remove(&self, name: &[u8]) -> Result<(), TransferError> {
        match &self.side {
            Side::Local(dir) => self.local(dir, name, "unlink", local::remove).await,
            Side::Remote { client, handle } => {
                let removed = client.remove_in(handle, name).await;
                removed.map_err(|error| self.remote(name, error))
            }
        }
    }

    /// Removes an empty directory.
    pub(super) async fn remove_dir(&self, name: &[u8]) -> Result<(), TransferError> {
        match &self.side {
            Side::Local(dir) => self.local(dir, name, "rmdir", local::remove_dir).await,
            Side::Remote { client, handle } => {
                let removed = client.rmdir_in(handle, name).await;
                removed.map_err(|error| self.remote(name, error))
            }
        }
    }

    /// Gives `from` the name `to`, in place of what has it.
    pub(super) async fn rename(&self, from: &[u8], to: &[u8]) -> Result<(), TransferError> {
        match &self.side {
            Side::Local(dir) => {
                let to = to.to_vec();
                let renamed = self.local(dir, from, "rename", move |dir, from| {
                    local::rename(dir, from, &to)
                });
                renamed.await
            }
            Side::Remote { client, handle } => {
                let renamed = client.rename_in(handle, from, handle, to).await;
                renamed.map_err(|error| self.remote(to, error))
            }
        }
    }

    /// Changes attributes of this directory.
    pub(super) async fn set_attributes(&self, new: &Sattr3) -> Result<(), TransferError> {
        match &self.side {
            Side::Local(dir) => {
                let (dir, new) = (dir.clone(), *new);
                let set = blocking(move || local::set_attributes(&*dir, &new)).await;
                set.map_err(|error| TransferError::local(&self.location, "set attributes", error))
            }
            Side::Remote { client, handle } => {
                let set = client.setattr_handle(handle, new).await;
                set.map(drop)
                    .map_err(|error| error.of(&self.location.name()).into())
            }
        }
    }

    /// Changes attributes of `item`, which is neither a regular file nor a directory.
    pub(super) async fn set_attributes_of(
        &self,
        item: &Item,
        new: &Sattr3,
    ) -> Result<(), TransferError> {
        match (&self.side, item.handle) {
            (Side::Local(dir), _) => {
                let new = *new;
                let set = self.local(dir, &item.name, "set attributes", move |dir, name| {
                    local::set_attributes_at(dir, name, &new)
                });
                set.await
            }
            (Side::Remote { client, .. }, Some(handle)) => {
                let set = client.setattr_handle(&handle, new).await;
                set.map(drop)
                    .map_err(|error| self.remote(&item.name, error))
            }
            (Side::Remote { .. }, None) => Ok(()),
        }
    }
}

/// `None` if the name is taken.
pub(super) fn is_taken<T>(made: io::Result<T>) -> io::Result<Option<T>> {
    match made {
        Ok(made) => Ok(Some(made)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
        Err(error) => Err(error),
    }
}

fn special(like: &Fattr3, mode: u32) -> Mknoddata {
    let attributes = Sattr3 {
        mode: Some(mode),
        ..Sattr3::default()
    };
    let device = DeviceData {
        dev_attributes: attributes,
        spec: like.rdev,
    };
    let pipe = PipeData {
        pipe_attributes: attributes,
    };
    match like.ftype {
        Ftype3::Chr => Mknoddata::CharacterDevice(device),
        Ftype3::Blk => Mknoddata::BlockDevice(device),
        Ftype3::Sock => Mknoddata::Socket(pipe),
        Ftype3::Fifo => Mknoddata::Fifo(pipe),
        other @ (Ftype3::Reg | Ftype3::Dir | Ftype3::Lnk) => Mknoddata::Other(other),
    }
}
