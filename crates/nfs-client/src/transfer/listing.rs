//! The entries of a directory, a part at a time: a directory of any size costs the memory of one part.

use std::collections::VecDeque;

use nfs_wire::nfs3::Nfsstat3;

use super::dir::{Dir, Item, Side, blocking};
use super::error::TransferError;
use super::local;
use crate::client::{Client, ClientError, refused};
use crate::nfs3::FileHandle;

/// A directory on its way through. `.` and `..` are left out.
#[derive(Debug)]
pub(super) struct Listing {
    dir: Dir,
    ready: VecDeque<Result<Item, TransferError>>,
    cookie: u64,
    cookieverf: [u8; 8],
    /// The server has no READDIRPLUS.
    plain: bool,
    ended: bool,
}

impl Listing {
    pub(super) fn new(dir: Dir) -> Self {
        Self {
            dir,
            ready: VecDeque::new(),
            cookie: 0,
            cookieverf: [0; 8],
            plain: false,
            ended: false,
        }
    }

    /// The next entry; `None` at the end. An error about one entry is followed by more; one about the
    /// directory is the last.
    pub(super) async fn next(&mut self) -> Option<Result<Item, TransferError>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(item);
            }
            if self.ended {
                return None;
            }
            if let Err(error) = self.fill().await {
                self.ended = true;
                return Some(Err(error));
            }
        }
    }

    async fn fill(&mut self) -> Result<(), TransferError> {
        match self.dir.side.clone() {
            Side::Local(dir) => {
                let listed = blocking(move || local::list(&dir)).await;
                let location = &self.dir.location;
                let items =
                    listed.map_err(|error| TransferError::local(location, "readdir", error))?;
                self.ended = items.is_empty();
                self.ready.extend(items.into_iter().map(|item| {
                    item.map_err(|(name, error)| {
                        TransferError::local(&location.join(&name), "stat", error)
                    })
                }));
                Ok(())
            }
            Side::Remote { client, handle } => {
                let filled = self.fill_remote(&client, &handle).await;
                filled.map_err(|error| error.of(&self.dir.location.name()).into())
            }
        }
    }

    async fn fill_remote(&mut self, client: &Client, dir: &FileHandle) -> Result<(), ClientError> {
        let (cookie, cookieverf) = (self.cookie, self.cookieverf);
        let bytes = client.transfer_sizes().directory;
        if self.plain {
            let part = client.nfs().readdir(dir, cookie, cookieverf, bytes).await?;
            let part = part.map_err(|failure| refused("READDIR", &[], failure.status))?;
            self.cookieverf = part.cookieverf;
            let last = part.entries.last().map(|entry| entry.cookie);
            for entry in part.entries {
                self.put(client, dir, entry.name, None).await;
            }
            return self.advance(last, part.eof);
        }
        let nfs = client.nfs();
        let part = nfs.readdirplus(dir, cookie, cookieverf, bytes, bytes);
        let part = match part.await {
            Ok(Err(failure)) if failure.status == Nfsstat3::Notsupp => {
                self.plain = true;
                return Ok(());
            }
            Err(crate::RpcError::ProcUnavail) => {
                self.plain = true;
                return Ok(());
            }
            part => part?.map_err(|failure| refused("READDIRPLUS", &[], failure.status))?,
        };
        self.cookieverf = part.cookieverf;
        let last = part.entries.last().map(|entry| entry.cookie);
        for entry in part.entries {
            let known = match (entry.name_handle, entry.name_attributes) {
                (Some(handle), Some(attributes)) => Some((handle, attributes)),
                _ => None,
            };
            self.put(client, dir, entry.name, known).await;
        }
        self.advance(last, part.eof)
    }

    async fn put(
        &mut self,
        client: &Client,
        dir: &FileHandle,
        name: Vec<u8>,
        known: Option<(FileHandle, crate::nfs3::Fattr3)>,
    ) {
        if name == b"." || name == b".." {
            return;
        }
        // A name with a slash would lead out of the directory on the other side; no server may send
        // one (RFC 1813 §3.2).
        if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
            let bad = refused("READDIRPLUS", &name, Nfsstat3::Inval);
            self.ready.push_back(Err(bad.into()));
            return;
        }
        let item = match known {
            Some((handle, attributes)) => Item {
                name,
                attributes,
                handle: Some(handle),
                follow: false,
            },
            // Both are optional in the reply (RFC 1813 §3.3.17), and a name may be gone by now.
            None => match client.lookup(dir, &name).await {
                Ok(node) => Item {
                    name,
                    attributes: node.attributes,
                    handle: Some(node.handle),
                    follow: false,
                },
                Err(error) if error.status() == Some(Nfsstat3::Noent) => return,
                Err(error) => {
                    let path = self.dir.location.join(&name).name();
                    self.ready.push_back(Err(error.of(&path).into()));
                    return;
                }
            },
        };
        self.ready.push_back(Ok(item));
    }

    fn advance(&mut self, last: Option<u64>, eof: bool) -> Result<(), ClientError> {
        self.ended = eof;
        match last {
            _ if eof => Ok(()),
            Some(last) if last != self.cookie => {
                self.cookie = last;
                Ok(())
            }
            _ => Err(ClientError::EndlessDirectory),
        }
    }
}
