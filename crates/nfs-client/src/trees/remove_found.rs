//! Removing what is found in a tree, as `find -delete` does.

use std::collections::VecDeque;

use nfs_wire::nfs3::{FileHandle, Nfsstat3};
use tokio::task::JoinSet;

use super::{Criteria, Step};
use crate::client::{Client, Found, Tree, TreeOptions, Visit};
use crate::error::ClientError;
use crate::limits::TREE_CALLS_MAX;
use crate::nfs3::Node;

/// The removal of what is found in one tree on its way, by the handles of the directories it is in.
///
/// Files go by up to [`TREE_CALLS_MAX`] calls at once. A directory is decided when the walk leaves it,
/// after all calls before it have ended, and goes only if the server finds it empty. What somebody else
/// removed first is not told.
#[derive(Debug)]
pub struct RemoveFound {
    client: Client,
    criteria: Criteria,
    root_entry: Option<(FileHandle, Vec<u8>)>,
    /// `None` once the walk is over.
    walk: Option<Tree>,
    /// A directory that goes when all calls before it have ended.
    leaving: Option<Found>,
    /// The one call on its way removes a directory; nothing goes on before it has ended.
    alone: bool,
    calls: JoinSet<(Found, Result<(), ClientError>)>,
    steps: VecDeque<Step<Found>>,
}

impl RemoveFound {
    /// Begins at `root`, which steps call `path`. `root_entry` is the directory that it is in and its
    /// name there; without that it stays, as the root of an export has to.
    ///
    /// With [`Criteria::empty`], directories that are not empty stay too, and are no failure.
    pub fn new(
        client: &Client,
        root: Node,
        path: &[u8],
        root_entry: Option<(FileHandle, Vec<u8>)>,
        options: TreeOptions,
        criteria: Criteria,
    ) -> Self {
        Self {
            client: client.clone(),
            criteria,
            root_entry,
            walk: Some(client.tree(root, path, options)),
            leaving: None,
            alone: false,
            calls: JoinSet::new(),
            steps: VecDeque::new(),
        }
    }

    /// The next thing that was removed, or what failed; `None` at the end.
    pub async fn next(&mut self) -> Option<Step<Found>> {
        loop {
            if let Some(step) = self.steps.pop_front() {
                return Some(step);
            }
            let all = self.walk.is_none() || self.leaving.is_some() || self.alone;
            let most = if all { 0 } else { TREE_CALLS_MAX - 1 };
            if self.calls.len() > most {
                let ended = self.calls.join_next().await;
                self.end(ended.and_then(Result::ok));
                continue;
            }
            self.alone = false;
            if let Some(dir) = self.leaving.take() {
                // It may be empty only now.
                self.alone = true;
                self.begin(dir);
                continue;
            }
            match self.walk.as_mut()?.next().await {
                None => self.walk = None,
                Some(Visit::File(found)) if self.criteria.hold(&found) => self.begin(found),
                Some(Visit::Leave(found)) if self.criteria.hold(&found) => {
                    self.leaving = Some(found);
                }
                Some(Visit::Failed { path, error }) => return Some(Step::Failed { path, error }),
                Some(Visit::Enter(_) | Visit::File(_) | Visit::Leave(_)) => {}
            }
        }
    }

    /// Begins no further removal; those under way end and are told.
    pub fn stop(&mut self) {
        self.walk = None;
        self.leaving = None;
    }

    fn begin(&mut self, found: Found) {
        let (parent, name) = match (found.parent, &self.root_entry) {
            (Some(parent), _) => (parent, found.name().to_vec()),
            (None, Some((parent, name))) => (*parent, name.clone()),
            (None, None) => return,
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

    fn end(&mut self, ended: Option<(Found, Result<(), ClientError>)>) {
        let Some((found, outcome)) = ended else {
            return;
        };
        let status = outcome.as_ref().err().and_then(ClientError::status);
        let not_empty = matches!(status, Some(Nfsstat3::Notempty | Nfsstat3::Exist));
        match outcome {
            Ok(()) => self.steps.push_back(Step::Done(found)),
            // Somebody else was faster; what was to go is gone.
            Err(_) if status == Some(Nfsstat3::Noent) => {}
            Err(_) if found.is_dir() && not_empty && self.criteria.empty => {}
            Err(error) => self.steps.push_back(Step::Failed {
                path: found.path,
                error,
            }),
        }
    }
}
