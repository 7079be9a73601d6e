//! `penstock find --delete`: removes what was found, by the handles of the directories it is in.
//!
//! Files go by many calls at once. A directory is decided when the walk leaves it, after all calls
//! before it have ended, and goes only if the server finds it empty.

use std::collections::VecDeque;

use nfs_client::client::{Found, Tree, Visit};
use nfs_client::nfs3::{FileHandle, Nfsstat3};
use nfs_client::{Client, ClientError, NfsUrl};
use tokio::task::JoinSet;

use crate::limits::CALLS_IN_FLIGHT_MAX;
use crate::session::{Session, Stop};

/// Where the tree to look in hangs.
pub(super) enum Root {
    /// It is the root of an export, which stays.
    Export,
    /// In this directory, under this name.
    In(FileHandle, Vec<u8>),
}

/// Finds out where `url` hangs; `None` after having refused it.
pub(super) async fn root(session: &mut Session, url: &NfsUrl) -> Result<Option<Root>, ClientError> {
    let mut names = url.path.split(|&byte| byte == b'/');
    let last = names.rfind(|name| !name.is_empty());
    if matches!(last, Some(b"." | b"..")) {
        session.refused(url, "ends in . or .., below which nothing is removed");
        return Ok(None);
    }
    let (client, path) = session.at(url).await?;
    if nfs_client::url::components(&path).next().is_none() {
        return Ok(Some(Root::Export));
    }
    let (parent, name) = client.parent(&path).await?;
    Ok(Some(Root::In(parent, name.to_vec())))
}

/// The removal of what is found in one tree.
pub(super) struct Removal<'a> {
    url: &'a NfsUrl,
    client: Client,
    root: Root,
    /// Directories that are not empty are not meant, and no error.
    empty: bool,
    calls: JoinSet<(Found, Result<(), ClientError>)>,
    /// What was removed and is not printed yet.
    removed: VecDeque<Found>,
    count: u64,
}

impl<'a> Removal<'a> {
    pub(super) fn new(url: &'a NfsUrl, client: Client, root: Root, empty: bool) -> Self {
        Self {
            url,
            client,
            root,
            empty,
            calls: JoinSet::new(),
            removed: VecDeque::new(),
            count: 0,
        }
    }

    /// Walks, and removes what `is_meant` holds for; tells `print` of it.
    pub(super) async fn run(
        &mut self,
        session: &mut Session,
        mut walk: Tree,
        is_meant: impl Fn(&Found) -> bool,
        mut print: impl FnMut(&Found),
    ) {
        let stop = session.stop();
        while !stop.is_set() {
            let Some(visit) = next(&mut walk, &stop).await else {
                break;
            };
            match visit {
                Visit::File(found) if is_meant(&found) => self.begin(found),
                Visit::Leave(found) if is_meant(&found) => {
                    // It may be empty only now.
                    self.end(session, 0).await;
                    self.begin(found);
                    self.end(session, 0).await;
                }
                Visit::Failed { path, error } => session.failed(&self.url.with_path(path), error),
                Visit::Enter(_) | Visit::File(_) | Visit::Leave(_) => {}
            }
            self.end(session, CALLS_IN_FLIGHT_MAX - 1).await;
            self.tell(&mut print);
        }
        self.end(session, 0).await;
        self.tell(&mut print);
        if stop.is_set() {
            eprintln!(
                "penstock: interrupted: {} removed below {}; run it again to go on",
                self.count, self.url
            );
        }
    }

    fn begin(&mut self, found: Found) {
        let (parent, name) = match (found.parent, &self.root) {
            (Some(parent), _) => (parent, found.name().to_vec()),
            (None, Root::In(parent, name)) => (*parent, name.clone()),
            (None, Root::Export) => return,
        };
        let client = self.client.clone();
        self.calls.spawn(async move {
            let done = match found.is_dir() {
                true => client.rmdir_in(&parent, &name).await,
                false => client.remove_in(&parent, &name).await,
            };
            (found, done)
        });
    }

    /// Waits until at most `most` calls are on their way.
    async fn end(&mut self, session: &mut Session, most: usize) {
        while self.calls.len() > most {
            let Some(Ok((found, outcome))) = self.calls.join_next().await else {
                continue;
            };
            let status = outcome.as_ref().err().and_then(ClientError::status);
            let not_empty = matches!(status, Some(Nfsstat3::Notempty | Nfsstat3::Exist));
            match outcome {
                Ok(()) => {
                    self.count += 1;
                    self.removed.push_back(found);
                }
                // Somebody else was faster; what was to go is gone.
                Err(_) if status == Some(Nfsstat3::Noent) => {}
                Err(_) if found.is_dir() && not_empty && self.empty => {}
                Err(error) => session.failed(&self.url.with_path(found.path), error),
            }
        }
    }

    fn tell(&mut self, print: &mut impl FnMut(&Found)) {
        while let Some(found) = self.removed.pop_front() {
            print(&found);
        }
    }
}

async fn next(walk: &mut Tree, stop: &Stop) -> Option<Visit> {
    tokio::select! {
        visit = walk.next() => visit,
        () = stop.asked() => None,
    }
}
