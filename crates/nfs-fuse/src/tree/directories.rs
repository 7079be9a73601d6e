//! Open directories: what is listed.

use std::collections::VecDeque;
use std::sync::Arc;

use fuser::{Errno, FileAttr};
use nfs_client::Node;
use nfs_client::nfs3::{ACCESS3_READ, EntryPlus3, Fattr3, FileHandle, Nfsstat3};
use nfs_client::{Client, ClientError, RpcError};
use tokio::sync::Mutex;

use super::{Answer, Tree, refuse};
use crate::callers::Caller;
use crate::errno;
use crate::limits::{DIRECTORY_REPLY_BYTES, NAME_BYTES_MAX};

/// A directory that is open once.
#[derive(Debug)]
pub(super) struct OpenDirectory {
    client: Client,
    handle: FileHandle,
    part: Mutex<Part>,
}

/// The part of a directory that the server told last.
#[derive(Debug, Default)]
struct Part {
    /// The cookie that its first entry follows.
    after: u64,
    entries: VecDeque<Entry>,
    cookieverf: [u8; 8],
    /// The directory's last entry is the last of these.
    eof: bool,
    /// The server has told anything yet.
    told: bool,
    /// The server has no READDIRPLUS.
    names_only: bool,
}

/// One entry, with what is known about it.
#[derive(Clone, Debug)]
struct Entry {
    name: Vec<u8>,
    fileid: u64,
    cookie: u64,
    node: Option<Node>,
    attributes: Option<Fattr3>,
}

/// One entry for the kernel.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) name: Vec<u8>,
    /// Where the listing goes on after it.
    pub(crate) cookie: u64,
    /// The number that programs see.
    pub(crate) fileid: u64,
    /// Its attributes, if the server told them.
    pub(crate) attributes: Option<Fattr3>,
    /// Its handle and attributes, if the server told both.
    pub(crate) node: Option<Node>,
}

impl Listed {
    /// The directory itself or the one above it: entries that the kernel knows already.
    pub(crate) fn is_dot(&self) -> bool {
        self.name == b"." || self.name == b".."
    }
}

impl Tree {
    /// Opens the directory `number`; returns what the kernel calls the open by.
    pub(crate) async fn opendir(&self, caller: Caller, number: u64) -> Answer<u64> {
        let client = self.client(caller);
        let handle = self.handle(number)?;
        if self.granted(&client, &handle, ACCESS3_READ).await?.0 & ACCESS3_READ == 0 {
            return Err(Errno::EACCES);
        }
        let directory = OpenDirectory {
            client,
            handle,
            part: Mutex::default(),
        };
        self.open_number(&self.directories, directory)
    }

    /// Forgets the open directory `open`, which the kernel has closed.
    pub(crate) fn releasedir(&self, open: u64) {
        self.directories.lock().remove(&open);
    }

    /// Entries after `cookie`, 0 for the first; none at the end. As many as one reply of the server
    /// holds.
    pub(crate) async fn list(&self, open: u64, cookie: u64) -> Answer<Vec<Listed>> {
        let directory = self.directories.lock().get(&open).map(Arc::clone);
        let directory = directory.ok_or(Errno::EBADF)?;
        let mut part = directory.part.lock().await;
        // The first part is always asked for anew: that is what rewinding is for.
        if let Some(entries) = part.after_cookie(cookie)
            && (!entries.is_empty() || part.eof)
        {
            return Ok(entries);
        }
        directory.fetch(&mut part, cookie).await?;
        let entries: Vec<Listed> = part.entries.iter().map(Listed::from).collect();
        if entries.is_empty() && !part.eof {
            // Asking again would bring the same.
            return Err(Errno::EIO);
        }
        Ok(entries)
    }

    /// The kernel is told of a listed object, if there is room for it in the table.
    pub(crate) fn told_of_listed(&self, node: &Node) -> Option<(u64, FileAttr)> {
        self.told_of(node).ok()
    }
}

impl Part {
    /// The entries after `cookie`, if this part holds that place.
    fn after_cookie(&self, cookie: u64) -> Option<Vec<Listed>> {
        if !self.told || cookie == 0 {
            return None;
        }
        let skip = if cookie == self.after {
            0
        } else {
            1 + self
                .entries
                .iter()
                .position(|entry| entry.cookie == cookie)?
        };
        Some(self.entries.iter().skip(skip).map(Listed::from).collect())
    }
}

impl From<&Entry> for Listed {
    fn from(entry: &Entry) -> Self {
        Self {
            name: entry.name.clone(),
            cookie: entry.cookie,
            fileid: entry.fileid,
            attributes: entry.attributes,
            node: entry.node,
        }
    }
}

impl OpenDirectory {
    /// Asks the server for the entries after `cookie`.
    async fn fetch(&self, part: &mut Part, cookie: u64) -> Answer<()> {
        let verifier = if cookie == 0 { [0; 8] } else { part.cookieverf };
        let (mut entries, cookieverf, eof) = if part.names_only {
            self.names(cookie, verifier).await?
        } else {
            match self.plus(cookie, verifier).await? {
                Some(told) => told,
                None => {
                    part.names_only = true;
                    self.names(cookie, verifier).await?
                }
            }
        };
        if entries.iter().any(|entry| entry.cookie == cookie) {
            // It would never end.
            return Err(Errno::EIO);
        }
        entries.retain(|entry| is_name(&entry.name));
        self.complete(&mut entries).await;
        *part = Part {
            after: cookie,
            entries,
            cookieverf,
            eof,
            told: true,
            names_only: part.names_only,
        };
        Ok(())
    }

    /// READDIRPLUS; `None` from a server that does not have it.
    async fn plus(&self, cookie: u64, verifier: [u8; 8]) -> Answer<Option<Told>> {
        let bytes = DIRECTORY_REPLY_BYTES;
        let nfs = self.client.nfs();
        let asked = nfs.readdirplus(&self.handle, cookie, verifier, bytes, bytes);
        match asked.await {
            Ok(Ok(ok)) => {
                let entries = ok.entries.into_iter().map(Entry::from).collect();
                Ok(Some((entries, ok.cookieverf, ok.eof)))
            }
            Ok(Err(failure)) if failure.status == Nfsstat3::Notsupp => Ok(None),
            Err(RpcError::ProcUnavail) => Ok(None),
            Ok(Err(failure)) => Err(errno::of_status(failure.status)),
            Err(error) => Err(refuse(&ClientError::Rpc(error))),
        }
    }

    /// One READDIR from `cookie` on: names without attributes.
    async fn names(&self, cookie: u64, verifier: [u8; 8]) -> Answer<Told> {
        let nfs = self.client.nfs();
        let asked = nfs.readdir(&self.handle, cookie, verifier, DIRECTORY_REPLY_BYTES);
        match asked.await {
            Ok(Ok(ok)) => {
                let entry = |entry: nfs_client::nfs3::Entry3| Entry {
                    name: entry.name,
                    fileid: entry.fileid,
                    cookie: entry.cookie,
                    node: None,
                    attributes: None,
                };
                let entries = ok.entries.into_iter().map(entry).collect();
                Ok((entries, ok.cookieverf, ok.eof))
            }
            Ok(Err(failure)) => Err(errno::of_status(failure.status)),
            Err(error) => Err(refuse(&ClientError::Rpc(error))),
        }
    }

    /// Looks up what came without attributes: programs rely on an entry's type. A name that is gone by
    /// now stays listed, as it may be in any directory that changes while it is read.
    async fn complete(&self, entries: &mut VecDeque<Entry>) {
        for entry in entries {
            if entry.attributes.is_some() || entry.name == b"." || entry.name == b".." {
                continue;
            }
            if let Ok(node) = self.client.lookup(&self.handle, &entry.name).await {
                entry.attributes = Some(node.attributes);
                entry.node = Some(node);
            }
        }
    }
}

/// Whether the kernel takes a listing with such a name; with another one it takes the whole listing for
/// broken, and lists nothing at all. Programs see a name up to its first NUL: not the server's name.
fn is_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && !name.iter().any(|&byte| byte == b'/' || byte == 0)
}

/// Entries, the cookie verifier, and whether they are the last.
type Told = (VecDeque<Entry>, [u8; 8], bool);

impl From<EntryPlus3> for Entry {
    fn from(entry: EntryPlus3) -> Self {
        let node = match (entry.name_handle, entry.name_attributes) {
            (Some(handle), Some(attributes)) => Some(Node { handle, attributes }),
            _ => None,
        };
        Self {
            name: entry.name,
            fileid: entry.fileid,
            cookie: entry.cookie,
            node,
            attributes: entry.name_attributes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_the_kernel_takes() {
        for good in [&b"a"[..], b"..", b"\xff\n", &[b'x'; NAME_BYTES_MAX]] {
            assert!(is_name(good), "{}", good.escape_ascii());
        }
        for bad in [&b""[..], b"a/b", b"/", b"a\0b", &[b'x'; NAME_BYTES_MAX + 1]] {
            assert!(!is_name(bad), "{}", bad.escape_ascii());
        }
    }
}
