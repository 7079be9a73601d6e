//! Changing attributes of everything in a tree, as `chmod -R` and `chown -R` do.

use std::collections::VecDeque;

use nfs_wire::nfs3::{Fattr3, Ftype3, Nfsstat3, Sattr3};
use tokio::task::JoinSet;

use super::Step;
use crate::client::{Client, Found, Tree, TreeOptions, Visit};
use crate::error::ClientError;
use crate::limits::TREE_CALLS_MAX;
use crate::nfs3::Node;

/// The change of one tree on its way, by up to [`TREE_CALLS_MAX`] calls at once. `P` says for the
/// present attributes of each thing what is to be changed.
///
/// A directory is changed before what is in it is looked at, because the change may be what makes it
/// readable. What was removed meanwhile is nobody's failure and not told.
pub struct ChangeTree<P> {
    client: Client,
    plan: P,
    symbolic_links: bool,
    /// `None` once the walk is over.
    walk: Option<Tree>,
    /// The change of the directory that the walk has come to and waits for.
    entering: JoinSet<Changed>,
    calls: JoinSet<Changed>,
    steps: VecDeque<Step<Vec<u8>>>,
}

/// The path of what was to be changed, and the server's answer.
type Changed = (Vec<u8>, Result<(), ClientError>);

impl<P: Fn(&Fattr3) -> Sattr3> ChangeTree<P> {
    /// Begins at the directory `root`, which steps call `path`. Symbolic links in the tree are changed
    /// themselves with `symbolic_links`, and else left alone.
    pub fn new(client: &Client, root: Node, path: &[u8], symbolic_links: bool, plan: P) -> Self {
        // Nothing is listed ahead: whether a directory can be read may be what changes.
        let options = TreeOptions {
            ahead: 0,
            ..TreeOptions::default()
        };
        Self {
            client: client.clone(),
            plan,
            symbolic_links,
            walk: Some(client.tree(root, path, options)),
            entering: JoinSet::new(),
            calls: JoinSet::new(),
            steps: VecDeque::new(),
        }
    }

    /// The path of the next thing that was changed, or what failed; `None` at the end.
    pub async fn next(&mut self) -> Option<Step<Vec<u8>>> {
        loop {
            if let Some(step) = self.steps.pop_front() {
                return Some(step);
            }
            let most = match self.walk {
                Some(_) => TREE_CALLS_MAX - 1,
                None => 0,
            };
            if let Some(ended) = self.entering.join_next().await {
                self.end(ended.ok());
            } else if self.calls.len() > most {
                let ended = self.calls.join_next().await;
                self.end(ended.and_then(Result::ok));
            } else {
                match self.walk.as_mut()?.next().await {
                    Some(visit) => self.visit(visit),
                    None => self.walk = None,
                }
            }
        }
    }

    /// Begins no further change; those under way end and are told.
    pub fn stop(&mut self) {
        self.walk = None;
    }

    fn visit(&mut self, visit: Visit) {
        match visit {
            Visit::Enter(found) => {
                let new = (self.plan)(&found.node.attributes);
                self.entering.spawn(change(self.client.clone(), found, new));
            }
            Visit::File(found) => {
                if found.node.attributes.ftype == Ftype3::Lnk && !self.symbolic_links {
                    return;
                }
                let new = (self.plan)(&found.node.attributes);
                self.calls.spawn(change(self.client.clone(), found, new));
            }
            Visit::Leave(_) => {}
            Visit::Failed { path, error } => self.steps.push_back(Step::Failed { path, error }),
        }
    }

    fn end(&mut self, ended: Option<Changed>) {
        let Some((path, outcome)) = ended else {
            return;
        };
        match outcome {
            Ok(()) => self.steps.push_back(Step::Done(path)),
            Err(error) if error.status() == Some(Nfsstat3::Stale) => {}
            Err(error) => self.steps.push_back(Step::Failed { path, error }),
        }
    }
}

/// The call that changes `found`.
async fn change(client: Client, found: Found, new: Sattr3) -> Changed {
    let changed = client.setattr_handle(&found.node.handle, &new).await;
    (found.path, changed.map(drop))
}
