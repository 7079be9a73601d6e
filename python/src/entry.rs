//! What Python is told of a file.

use std::sync::Arc;

use nfs_client::nfs3::{Fattr3, Ftype3, Nfstime3};
use nfs_client::{Client, ClientError, Node};
use pyo3::prelude::*;
use tokio::task::JoinSet;

use crate::limits::LINKS_AT_ONCE;

/// A file: its attributes, and for a symbolic link where it points. A link has the attributes of what it leads to, if
/// there is something.
pub(crate) struct Entry {
    attributes: Fattr3,
    /// Where a symbolic link points.
    destination: Option<Vec<u8>>,
    /// Whether the attributes are those of a symbolic link itself.
    is_dangling: bool,
}

/// What Python gets: type, size, mode with the type's bits, uid, gid, mtime, ctime, fileid, links, and where it points.
#[derive(IntoPyObject)]
pub(crate) struct Told(
    &'static str,
    u64,
    u32,
    u32,
    u32,
    f64,
    f64,
    u64,
    u32,
    Option<Vec<u8>>,
);

impl Told {
    /// A directory above exports, which no server has.
    pub(crate) const fn above() -> Self {
        Self("directory", 0, 0o040_555, 0, 0, 0.0, 0.0, 0, 1, None)
    }
}

impl Entry {
    /// `node`, which `path` names.
    pub(crate) async fn of(client: &Client, path: &[u8], node: &Node) -> Result<Self, ClientError> {
        let mut entry = Self::plain(node.attributes);
        if node.attributes.ftype == Ftype3::Lnk {
            entry.destination = Some(client.readlink(&node.handle).await?);
            match client.stat(path).await {
                Ok(attributes) => {
                    entry.attributes = attributes;
                    entry.is_dangling = false;
                }
                // A link that leads nowhere is there all the same.
                Err(error) if is_about_the_file(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(entry)
    }

    /// A file with these attributes.
    pub(crate) fn plain(attributes: Fattr3) -> Self {
        Self {
            attributes,
            destination: None,
            is_dangling: attributes.ftype == Ftype3::Lnk,
        }
    }

    /// As Python gets it. With `follows`, a symbolic link to a directory is one; without, it is something else, so that who
    /// goes down a tree does not go through it.
    pub(crate) fn told(self, follows: bool) -> Told {
        let Fattr3 { ftype, .. } = self.attributes;
        let is_link = self.destination.is_some();
        let word = match ftype {
            Ftype3::Reg => "file",
            Ftype3::Dir if follows || !is_link => "directory",
            _ => "other",
        };
        let size = if self.is_dangling {
            0
        } else {
            self.attributes.size
        };
        Told(
            word,
            size,
            type_bits(ftype) | self.attributes.mode & 0o7777,
            self.attributes.uid,
            self.attributes.gid,
            seconds(self.attributes.mtime),
            seconds(self.attributes.ctime),
            self.attributes.fileid,
            self.attributes.nlink,
            self.destination,
        )
    }
}

/// The entries of `nodes`, each with its path, in their order. Symbolic links are looked at side by side; what is gone by
/// then, or must not be looked at, is a link that leads nowhere.
pub(crate) async fn of_all(
    client: &Client,
    nodes: Vec<(Vec<u8>, Node)>,
) -> Result<Vec<(Vec<u8>, Entry)>, ClientError> {
    let mut entries: Vec<_> = nodes
        .iter()
        .map(|(path, node)| (path.clone(), Entry::plain(node.attributes)))
        .collect();
    let nodes = Arc::new(nodes);
    let is_link = |&index: &usize| {
        let node = nodes.get(index).map(|(_, node)| node.attributes.ftype);
        node == Some(Ftype3::Lnk)
    };
    let mut links = (0..entries.len()).filter(is_link);
    let mut looks = JoinSet::new();
    loop {
        while looks.len() < LINKS_AT_ONCE
            && let Some(index) = links.next()
        {
            let (client, nodes) = (client.clone(), nodes.clone());
            looks.spawn(async move {
                let (path, node) = nodes.get(index)?;
                Some((index, Entry::of(&client, path, node).await))
            });
        }
        match looks.join_next().await {
            None => return Ok(entries),
            Some(Ok(Some((index, Ok(entry))))) => {
                if let Some((_, place)) = entries.get_mut(index) {
                    *place = entry;
                }
            }
            Some(Ok(Some((_, Err(error))))) if !is_about_the_file(&error) => return Err(error),
            Some(_) => {}
        }
    }
}

/// Whether the server said so of the file, and did not fail to answer.
fn is_about_the_file(error: &ClientError) -> bool {
    !matches!(error, ClientError::Rpc(_) | ClientError::Nfs4 { .. })
}

/// The bits that stand for a type in a file's mode (`S_IFMT`).
const fn type_bits(ftype: Ftype3) -> u32 {
    match ftype {
        Ftype3::Fifo => 0o010_000,
        Ftype3::Chr => 0o020_000,
        Ftype3::Dir => 0o040_000,
        Ftype3::Blk => 0o060_000,
        Ftype3::Reg => 0o100_000,
        Ftype3::Lnk => 0o120_000,
        Ftype3::Sock => 0o140_000,
    }
}

/// Seconds since 1970, as Python's `st_mtime` has them.
fn seconds(time: Nfstime3) -> f64 {
    f64::from(time.seconds) + f64::from(time.nseconds) / 1e9
}
