//! The directory of the examination's own, from its making to its removal.

use nfs_wire::nfs3::{FileHandle, MkdirArgs, Nfsstat3, RmdirArgs};

use super::{answered, flat, mode};
use crate::client::Client;
use crate::doctor::facts::Refusal;
use crate::error::RpcError;
use crate::limits::{DOCTOR_CLEAN_UP_MAX, DOCTOR_NAMES_TRIED_MAX};
use crate::nfs3::{Node, entry};
use crate::random;
use crate::trees::{RemoveTree, Step};

/// A directory that this examination made, and nobody else uses.
pub(super) struct Own {
    parent: FileHandle,
    name: Vec<u8>,
    pub(super) handle: FileHandle,
}

impl Own {
    /// Makes one in `parent`, with a name that has 64 random bits, for its owner alone. MKDIR fails where the name
    /// is taken, so that what is there is never used, nor removed.
    ///
    /// # Errors
    /// [`NotMade`], with what may be left all the same.
    pub(super) async fn make(client: &Client, parent: &FileHandle) -> Result<Self, NotMade> {
        let nfs = client.nfs();
        let mut refusal = Refusal::Status(Nfsstat3::Exist);
        for _ in 0..DOCTOR_NAMES_TRIED_MAX {
            let number = u64::from_ne_bytes(random::bytes());
            let name = format!(".penstock-doctor-{number:016x}").into_bytes();
            let args = MkdirArgs {
                where_: entry(parent, &name),
                attributes: mode(0o700),
            };
            let made = match nfs.mkdir(&args).await {
                Ok(answer) => answered(answer.outcome),
                Err(error) => return Err(NotMade::unanswered(client, parent, name, error).await),
            };
            match made {
                Ok(made) => {
                    let looked_up = match made.obj {
                        Some(handle) => Ok(handle),
                        None => flat(nfs.lookup(parent, &name).await).map(|found| found.object),
                    };
                    let handle = match looked_up {
                        Ok(handle) => handle,
                        Err(refusal) => {
                            let left = NotMade::rmdir(client, parent, &name).await;
                            return Err(NotMade {
                                refusal,
                                left: left.err().map(|why| (name, why)),
                            });
                        }
                    };
                    return Ok(Self {
                        parent: *parent,
                        name,
                        handle,
                    });
                }
                Err(Refusal::Status(Nfsstat3::Exist)) => {}
                Err(other) => {
                    refusal = other;
                    break;
                }
            }
        }
        Err(NotMade {
            refusal,
            left: None,
        })
    }

    /// Its path, below `parent`.
    pub(super) fn path(&self, parent: &[u8]) -> Vec<u8> {
        path_in(parent, &self.name)
    }

    /// Removes it and all that is in it, within [`DOCTOR_CLEAN_UP_MAX`].
    pub(super) async fn remove(&self, client: &Client) -> Result<(), String> {
        let removal = tokio::time::timeout(DOCTOR_CLEAN_UP_MAX, self.remove_all(client));
        removal.await.unwrap_or_else(|_| {
            let seconds = DOCTOR_CLEAN_UP_MAX.as_secs();
            Err(format!(
                "the server did not answer within {seconds} seconds"
            ))
        })
    }

    async fn remove_all(&self, client: &Client) -> Result<(), String> {
        let attributes = flat(client.nfs().getattr(&self.handle).await);
        let attributes = attributes.map_err(|refusal| refusal.to_string())?;
        let root = Node {
            handle: self.handle,
            attributes: attributes.obj_attributes,
        };
        let mut removal = RemoveTree::new(client, root, self.parent, &self.name);
        let mut failure = Ok(());
        while let Some(step) = removal.next().await {
            if let Step::Failed { path, error } = step {
                failure = Err(error.of(&path).to_string());
            }
        }
        failure
    }
}

/// No directory that could be used.
pub(super) struct NotMade {
    pub(super) refusal: Refusal,
    /// The name of one that may have been made all the same, and why it could not be removed.
    pub(super) left: Option<(Vec<u8>, String)>,
}

impl NotMade {
    /// MKDIR brought no reply: the directory may be there.
    async fn unanswered(
        client: &Client,
        parent: &FileHandle,
        name: Vec<u8>,
        error: RpcError,
    ) -> Self {
        let left = Self::rmdir(client, parent, &name).await.err();
        Self {
            refusal: error.into(),
            left: left.map(|why| {
                let why = format!("whether it was made is not known, and RMDIR: {why}");
                (name, why)
            }),
        }
    }

    /// RMDIR, which takes an empty directory only; one that is not there is as good.
    async fn rmdir(client: &Client, parent: &FileHandle, name: &[u8]) -> Result<(), String> {
        let args = RmdirArgs {
            object: entry(parent, name),
        };
        let done = tokio::time::timeout(DOCTOR_CLEAN_UP_MAX, client.nfs().rmdir(&args)).await;
        match done {
            Err(_) => Err("the server does not answer".to_owned()),
            Ok(Err(error)) => Err(error.to_string()),
            Ok(Ok(answer)) => match answered(answer.outcome) {
                Ok(_) | Err(Refusal::Status(Nfsstat3::Noent)) => Ok(()),
                Err(refusal) => Err(refusal.to_string()),
            },
        }
    }
}

/// The path of a name in a directory.
pub(super) fn path_in(parent: &[u8], name: &[u8]) -> Vec<u8> {
    let end = parent.iter().rposition(|&byte| byte != b'/');
    let parent = end.and_then(|end| parent.get(..=end)).unwrap_or_default();
    [parent, b"/", name].concat()
}
