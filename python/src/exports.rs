//! Which export a path is in.
//!
//! Over NFSv3 each export is a mount of its own. They are mounted when the first path in them is asked for, and kept.
//! Above them there are directories that no server has: they are made of the exports' names. Over NFSv4 the server has
//! them, and everything is one mount.

use std::collections::BTreeSet;

use nfs_client::client::MountOptions;
use nfs_client::url::components;
use nfs_client::{Client, ClientError, NfsUrl, Version};
use rustix::io::Errno;
use tokio::sync::RwLock;

use crate::errors::Failure;

/// The exports of one server.
pub(crate) struct Exports {
    /// The server and the options; the path is none.
    url: NfsUrl,
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    /// What the server exports, once it was asked; nothing where it does not say.
    listed: Option<Vec<Vec<u8>>>,
    mounted: Vec<Client>,
}

/// Where a path leads.
pub(crate) enum Place {
    /// Into an export: its client, and the path below it.
    Inside(Box<Client>, Vec<u8>),
    /// To a directory above exports, with the names in it.
    Above(BTreeSet<Vec<u8>>),
}

impl Exports {
    /// The exports of the URL's server. Nothing is asked before the first path is.
    pub(crate) fn new(url: &NfsUrl) -> Self {
        Self {
            url: url.with_path("/"),
            known: RwLock::default(),
        }
    }

    /// The client of the export that `path` is in, and the path below it.
    pub(crate) async fn inside(&self, path: &[u8]) -> Result<(Client, Vec<u8>), Failure> {
        match self.place(path).await? {
            Place::Inside(client, rest) => Ok((*client, rest)),
            Place::Above(_) => Err(Failure::Path(
                Errno::ROFS,
                "the path is in no export: only what is below an export can be opened or changed",
            )),
        }
    }

    /// Where `path` leads.
    pub(crate) async fn place(&self, path: &[u8]) -> Result<Place, Failure> {
        if components(path).any(|name| name == b"..") {
            let why = "the path has '..' in it: write it without";
            return Err(Failure::Path(Errno::INVAL, why));
        }
        if let Some(found) = self.known.read().await.find(path) {
            return Ok(found);
        }
        let mut known = self.known.write().await;
        // Others may have been at it meanwhile.
        if let Some(found) = known.find(path) {
            return Ok(found);
        }
        if known.listed.is_none() && self.url.version == Version::V3 {
            known.listed = Some(self.list().await?);
        }
        match Client::mount(&self.url.with_path(path)).await {
            Ok((client, rest)) => {
                known
                    .mounted
                    .retain(|other| other.export() != client.export());
                known.mounted.push(client.clone());
                Ok(Place::Inside(client.into(), rest))
            }
            Err(error @ ClientError::Mount { .. }) => match known.names_below(path) {
                names if names.is_empty() => Err(error.into()),
                names => Ok(Place::Above(names)),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// Ends all mounts, and with them sessions of NFSv4.
    pub(crate) async fn end(&self) -> Result<(), Failure> {
        let mounted = std::mem::take(&mut *self.known.write().await).mounted;
        let mut outcome = Ok(());
        for client in mounted {
            outcome = outcome.and(client.unmount().await);
        }
        Ok(outcome?)
    }

    async fn list(&self) -> Result<Vec<Vec<u8>>, Failure> {
        let mount = Client::mount_program(&self.url, &MountOptions::default()).await?;
        // Servers may keep their list to themselves; what matters is whether they let us mount.
        let exports = mount.export().await.unwrap_or_default();
        Ok(exports.into_iter().map(|export| export.directory).collect())
    }
}

impl Known {
    /// The place of a path in an export that is mounted, unless a nearer one is listed and not mounted yet.
    fn find(&self, path: &[u8]) -> Option<Place> {
        let depth = |export: &[u8]| components(export).count();
        let mounted = self.mounted.iter().filter_map(|client| {
            let rest = client.below_export(path)?;
            Some((depth(client.export()), client, rest))
        });
        let (mounted, client, rest) = mounted.max_by_key(|(depth, ..)| *depth)?;
        let listed = self.listed.iter().flatten();
        let nearest = listed.filter(|export| is_below(path, export));
        let nearest = nearest.map(|export| depth(export)).max();
        let is_nearest = nearest.is_none_or(|nearest| nearest <= mounted);
        is_nearest.then(|| Place::Inside(client.clone().into(), rest))
    }

    /// The names in the directory `path` that lead to exports below it.
    fn names_below(&self, path: &[u8]) -> BTreeSet<Vec<u8>> {
        let below = self.listed.iter().flatten().filter_map(|export| {
            let mut names = components(export);
            let above = components(path).all(|name| names.next() == Some(name));
            names.next().filter(|_| above).map(<[u8]>::to_vec)
        });
        below.collect()
    }
}

/// Whether `path` is `directory` or below it.
fn is_below(path: &[u8], directory: &[u8]) -> bool {
    let mut names = components(path);
    components(directory).all(|name| names.next() == Some(name))
}
