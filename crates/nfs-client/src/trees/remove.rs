//! Removing a whole tree, as `rm -r` does.

use std::collections::{HashMap, VecDeque};

use nfs_wire::nfs3::{FileHandle, Nfsstat3};
use tokio::task::JoinSet;

use super::Step;
use crate::client::{Client, Found, Tree, TreeOptions, Visit};
use crate::error::ClientError;
use crate::limits::{REMOVE_ROUNDS_MAX, TREE_CALLS_MAX};
use crate::nfs3::Node;

/// The removal of one tree on its way, while it is walked.
///
/// Files go by up to [`TREE_CALLS_MAX`] calls at once, a directory when all that was in it is gone.
/// What somebody else removed first counts as gone, and is not told. Where a directory is not empty
/// although all that was listed is gone, the tree is walked again, up to [`REMOVE_ROUNDS_MAX`] times.
/// The removal holds the directories that are not gone yet, and no file names but those of calls on
/// their way.
#[derive(Debug)]
pub struct RemoveTree {
    client: Client,
    root: Node,
    /// The directory that the root is in.
    parent: FileHandle,
    path: Vec<u8>,
    /// `None` once the walk of this round is over.
    walk: Option<Tree>,
    round: u32,
    ledger: Ledger,
    calls: JoinSet<(Work, Result<(), ClientError>)>,
    /// A directory was not empty although all that was listed is gone.
    not_empty_seen: bool,
    removed_in_round: u64,
    stopped: bool,
    steps: VecDeque<Step<Removed>>,
}

/// Something in the tree that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The path that the removal began with, and the names down to it, joined by `/`.
    pub path: Vec<u8>,
    /// Whether it was a directory.
    pub is_dir: bool,
}

/// One call, and what it is about.
#[derive(Debug)]
struct Work {
    /// The directory whose turn comes when this is done, in the ledger.
    within: Option<usize>,
    parent: FileHandle,
    path: Vec<u8>,
    is_dir: bool,
}

impl Work {
    fn name(&self) -> &[u8] {
        self.path
            .rsplit(|&byte| byte == b'/')
            .next()
            .unwrap_or_default()
    }
}

impl RemoveTree {
    /// Begins at the directory `root`, which is in the directory `parent`. Steps call it `path`, which
    /// ends in its name there; slashes behind that count for nothing.
    pub fn new(client: &Client, root: Node, parent: FileHandle, path: &[u8]) -> Self {
        let end = path.len() - path.iter().rev().take_while(|&&byte| byte == b'/').count();
        let path = path.get(..end).unwrap_or_default().to_vec();
        let walk = client.tree(root, &path, TreeOptions::default());
        Self {
            client: client.clone(),
            root,
            parent,
            path,
            walk: Some(walk),
            round: 1,
            ledger: Ledger::default(),
            calls: JoinSet::new(),
            not_empty_seen: false,
            removed_in_round: 0,
            stopped: false,
            steps: VecDeque::new(),
        }
    }

    /// The next thing that is gone, or what stays; `None` at the end.
    pub async fn next(&mut self) -> Option<Step<Removed>> {
        loop {
            if let Some(step) = self.steps.pop_front() {
                return Some(step);
            }
            let most = match self.walk {
                Some(_) => TREE_CALLS_MAX - 1,
                None => 0,
            };
            if self.calls.len() > most {
                if let Some(Ok((work, outcome))) = self.calls.join_next().await {
                    self.end(work, outcome);
                }
            } else if let Some(walk) = &mut self.walk {
                match walk.next().await {
                    Some(visit) => self.visit(visit),
                    None => self.walk = None,
                }
            } else if !self.begin_round() {
                return None;
            }
        }
    }

    /// Begins nothing more but the removal of directories that wait for nothing but calls on their way.
    pub fn stop(&mut self) {
        self.stopped = true;
        self.walk = None;
    }

    /// Walks the tree again if that may help.
    fn begin_round(&mut self) -> bool {
        let helps = self.not_empty_seen && self.removed_in_round > 0;
        if !helps || self.stopped || self.round >= REMOVE_ROUNDS_MAX {
            return false;
        }
        let options = TreeOptions::default();
        self.walk = Some(self.client.tree(self.root, &self.path, options));
        self.round += 1;
        self.ledger = Ledger::default();
        self.not_empty_seen = false;
        self.removed_in_round = 0;
        true
    }

    fn visit(&mut self, visit: Visit) {
        match visit {
            Visit::Enter(found) => {
                let parent = found.parent.unwrap_or(self.parent);
                self.ledger.enter(found.path, parent);
            }
            Visit::File(found) => {
                let within = self.ledger.begin_file();
                self.begin(file(found, within, self.parent));
            }
            Visit::Leave(_) => {
                if let Some(work) = self.ledger.leave() {
                    self.begin(work);
                }
            }
            Visit::Failed { path, error } => {
                self.ledger.fail_here();
                self.steps.push_back(Step::Failed { path, error });
            }
        }
    }

    fn begin(&mut self, work: Work) {
        let client = self.client.clone();
        self.calls.spawn(async move {
            let call = match work.is_dir {
                true => client.rmdir_in(&work.parent, work.name()).await,
                false => client.remove_in(&work.parent, work.name()).await,
            };
            (work, call)
        });
    }

    /// Takes in what one call came to, and begins what waited for it.
    fn end(&mut self, work: Work, outcome: Result<(), ClientError>) {
        let status = outcome.as_ref().err().and_then(ClientError::status);
        let not_empty = matches!(status, Some(Nfsstat3::Notempty | Nfsstat3::Exist));
        let Work { path, is_dir, .. } = work;
        let gone = match outcome {
            Ok(()) => {
                self.removed_in_round += 1;
                self.steps.push_back(Step::Done(Removed { path, is_dir }));
                true
            }
            // Somebody else was faster; what was to go is gone.
            Err(_) if status == Some(Nfsstat3::Noent) => true,
            Err(_) if is_dir && not_empty && self.round < REMOVE_ROUNDS_MAX => {
                self.not_empty_seen = true;
                false
            }
            Err(error) => {
                self.steps.push_back(Step::Failed { path, error });
                false
            }
        };
        if let Some(next) = work.within.and_then(|dir| self.ledger.end(dir, gone)) {
            self.begin(next);
        }
    }
}

fn file(found: Found, within: Option<usize>, root_parent: FileHandle) -> Work {
    Work {
        within,
        parent: found.parent.unwrap_or(root_parent),
        path: found.path,
        is_dir: false,
    }
}

/// Which directories wait for what is in them.
#[derive(Debug, Default)]
struct Ledger {
    dirs: HashMap<usize, Dir>,
    /// The directories that the walk is in, the innermost last.
    open: Vec<usize>,
    next: usize,
}

#[derive(Debug)]
struct Dir {
    path: Vec<u8>,
    parent: FileHandle,
    within: Option<usize>,
    /// Calls on their way and directories not gone yet.
    pending: usize,
    /// The walk has told all that is in it.
    left: bool,
    /// Something in it stays, so it stays too.
    kept: bool,
}

impl Ledger {
    fn enter(&mut self, path: Vec<u8>, parent: FileHandle) {
        let within = self.begin_file();
        let dir = Dir {
            path,
            parent,
            within,
            pending: 0,
            left: false,
            kept: false,
        };
        self.dirs.insert(self.next, dir);
        self.open.push(self.next);
        self.next += 1;
    }

    /// Something in the innermost directory is about to go; the directory waits for it.
    fn begin_file(&mut self) -> Option<usize> {
        let within = self.open.last().copied();
        if let Some(dir) = within.and_then(|id| self.dirs.get_mut(&id)) {
            dir.pending += 1;
        }
        within
    }

    /// Something in the innermost directory stays.
    fn fail_here(&mut self) {
        let within = self.open.last();
        if let Some(dir) = within.and_then(|id| self.dirs.get_mut(id)) {
            dir.kept = true;
        }
    }

    /// The walk leaves the innermost directory. Returns what can be begun now.
    fn leave(&mut self) -> Option<Work> {
        let id = self.open.pop()?;
        self.dirs.get_mut(&id)?.left = true;
        self.settle(id)
    }

    /// Something in the directory is gone, or stays. Returns what can be begun now.
    fn end(&mut self, id: usize, gone: bool) -> Option<Work> {
        let dir = self.dirs.get_mut(&id)?;
        dir.pending = dir.pending.saturating_sub(1);
        dir.kept |= !gone;
        self.settle(id)
    }

    fn settle(&mut self, mut id: usize) -> Option<Work> {
        loop {
            let dir = self.dirs.get(&id)?;
            if !dir.left || dir.pending > 0 {
                return None;
            }
            let dir = self.dirs.remove(&id)?;
            if !dir.kept {
                return Some(Work {
                    within: dir.within,
                    parent: dir.parent,
                    path: dir.path,
                    is_dir: true,
                });
            }
            // It stays, and so does what it is in.
            id = dir.within?;
            let outer = self.dirs.get_mut(&id)?;
            outer.pending = outer.pending.saturating_sub(1);
            outer.kept = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle() -> FileHandle {
        FileHandle::new(b"h").unwrap()
    }

    fn path(work: Option<Work>) -> Option<String> {
        work.map(|work| String::from_utf8(work.path).unwrap())
    }

    #[test]
    fn a_directory_goes_after_all_that_is_in_it() {
        let mut ledger = Ledger::default();
        ledger.enter(b"a".to_vec(), handle());
        let file = ledger.begin_file().unwrap();
        ledger.enter(b"a/b".to_vec(), handle());
        let inner = ledger.begin_file().unwrap();
        assert_eq!(path(ledger.leave()), None, "a/b still has a file");
        assert_eq!(path(ledger.leave()), None, "a still has a file and a/b");
        assert_eq!(path(ledger.end(file, true)), None, "a still has a/b");
        assert_eq!(path(ledger.end(inner, true)).as_deref(), Some("a/b"));
        assert_eq!(path(ledger.end(file, true)).as_deref(), Some("a"));
        assert!(ledger.dirs.is_empty() && ledger.open.is_empty());
    }

    #[test]
    fn what_stays_keeps_the_directories_above_it() {
        let mut ledger = Ledger::default();
        ledger.enter(b"a".to_vec(), handle());
        ledger.enter(b"a/b".to_vec(), handle());
        let inner = ledger.begin_file().unwrap();
        assert_eq!(path(ledger.end(inner, false)), None);
        assert_eq!(path(ledger.leave()), None, "a/b is kept");
        ledger.enter(b"a/c".to_vec(), handle());
        assert_eq!(path(ledger.leave()).as_deref(), Some("a/c"));
        assert_eq!(path(ledger.leave()), None, "a waits for a/c");
        assert_eq!(path(ledger.end(0, true)), None, "a is kept for a/b");
        assert!(ledger.dirs.is_empty());
    }
}
