//! Files on their way to be objects: under a name that no object has, until they are complete and safe.

use std::fmt;

use async_trait::async_trait;
use nfs_client::nfs3::{Fattr3, Nfsstat3};
use nfs_client::{Client, ClientError, File};
use object_store::path::Path;
use object_store::{MultipartUpload, PutPayload, PutResult, Result, UploadPart};

use crate::error::{generic, told};
use crate::put_result;

/// A file that is written and is no object yet. Dropped, it is removed.
pub(crate) struct Staged {
    client: Client,
    file: File,
    /// Its own name, and the one that it is to have.
    name: Vec<u8>,
    path: Vec<u8>,
    /// Where the next part begins, bytes.
    end: u64,
    /// It has its name, or is gone.
    done: bool,
}

impl Staged {
    pub(crate) fn new(client: Client, file: File, name: Vec<u8>, path: Vec<u8>) -> Self {
        Self {
            client,
            file,
            name,
            path,
            end: 0,
            done: false,
        }
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// The place of the next part, which is `len` bytes long.
    fn reserve(&mut self, len: usize) -> u64 {
        let at = self.end;
        self.end += len as u64;
        at
    }

    /// Brings it to stable storage and gives it its name; what had the name is replaced.
    pub(crate) async fn publish(mut self) -> Result<Fattr3, ClientError> {
        self.complete().await
    }

    /// As [`Staged::publish`], unless something has the name.
    pub(crate) async fn publish_new(mut self) -> Result<Fattr3, ClientError> {
        self.file.sync().await?;
        self.client.link(&self.name, &self.path).await?;
        // What follows does not make the object less.
        let attributes = self.file.refresh().await?;
        self.remove().await?;
        Ok(attributes)
    }

    async fn complete(&mut self) -> Result<Fattr3, ClientError> {
        self.file.sync().await?;
        let attributes = self.file.refresh().await?;
        self.client.rename(&self.name, &self.path).await?;
        self.done = true;
        Ok(attributes)
    }

    async fn remove(&mut self) -> Result<(), ClientError> {
        let removed = self.client.remove(&self.name).await;
        self.done = true;
        match removed {
            Err(error) if error.status() != Some(Nfsstat3::Noent) => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        let Some(runtime) = tokio::runtime::Handle::try_current()
            .ok()
            .filter(|_| !self.done)
        else {
            return;
        };
        let (client, name) = (self.client.clone(), std::mem::take(&mut self.name));
        // Nobody is there to be told, and a file that stays is not listed as an object.
        runtime.spawn(async move { drop(client.remove(&name).await) });
    }
}

/// An upload in parts. They are written where they belong, in whatever order they come to be written.
pub(crate) struct Upload {
    location: Path,
    staged: Staged,
}

impl Upload {
    pub(crate) fn new(location: Path, staged: Staged) -> Self {
        Self { location, staged }
    }
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload")
            .field("location", &self.location)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let mut at = self.staged.reserve(data.content_length());
        let (file, location) = (self.staged.file.clone(), self.location.clone());
        Box::pin(async move {
            for piece in data {
                let len = piece.len() as u64;
                let written = file.write_at(at, piece).await;
                written.map_err(|error| told(&location, error))?;
                at += len;
            }
            Ok(())
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        if self.staged.done {
            return Err(generic(format!("{}: the upload is over", self.location)));
        }
        let attributes = self.staged.complete().await;
        Ok(put_result(
            &attributes.map_err(|error| told(&self.location, error))?,
        ))
    }

    async fn abort(&mut self) -> Result<()> {
        let removed = self.staged.remove().await;
        removed.map_err(|error| told(&self.location, error))
    }
}
