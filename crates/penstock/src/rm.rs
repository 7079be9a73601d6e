//! `penstock rm`: removes names, and whole trees.
//!
//! A tree is removed while it is walked: files by up to [`CALLS_IN_FLIGHT_MAX`] calls at once, a
//! directory when all that was in it is gone. What has to wait for what is kept by [`Ledger`], which
//! holds the directories that are not gone yet, and no file names.

use std::collections::HashMap;
use std::io::Write as _;
use std::process::ExitCode;

use nfs_client::client::{Found, Tree, TreeOptions, Visit};
use nfs_client::nfs3::{FileHandle, Ftype3, Nfsstat3};
use nfs_client::{Client, ClientError, NfsUrl, Node};
use serde_json::json;
use tokio::task::JoinSet;

use crate::limits::{CALLS_IN_FLIGHT_MAX, REMOVE_ROUNDS_MAX};
use crate::session::{self, Common, Session, Stop};
use crate::show;

/// Remove files on an NFS server, and with -r whole trees
///
/// Symbolic links are removed themselves; what they lead to is never touched. The root of
/// an export, and paths that end in `.` or `..`, are refused. A tree is removed by many
/// calls at once; what cannot be removed is told, and the rest goes on.
///
/// Examples:
///
///   penstock rm nfs://localhost:20049/notes.txt
///
///   penstock rm -r nfs://server/export/build nfs://server/export/tmp
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, after_long_help = show::AFTER_HELP)]
pub(crate) struct Args {
    /// Remove directories too, with everything in them
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,

    /// Say nothing of what is not there
    #[arg(short, long)]
    force: bool,

    /// Remove empty directories too
    #[arg(short, long)]
    dir: bool,

    /// Print the URL of each thing that was removed
    #[arg(short, long)]
    verbose: bool,

    /// Print one JSON object per URL: url, files, directories, failed
    #[arg(long, conflicts_with = "verbose")]
    json: bool,

    #[command(flatten)]
    common: Common,

    /// What to remove: nfs://HOST[:PORT]/EXPORT/PATH
    #[arg(required = true, value_name = "URL")]
    urls: Vec<NfsUrl>,
}

/// What became of one operand.
#[derive(Default)]
struct Count {
    files: u64,
    directories: u64,
    failed: u64,
}

impl Args {
    /// Removes everything that is named.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        session::run(&self.common, async |session| {
            for url in &self.urls {
                let mut count = Count::default();
                if let Err(error) = self.remove(session, url, &mut count).await {
                    let absent = error.status() == Some(Nfsstat3::Noent);
                    if !(self.force && absent) {
                        count.failed += 1;
                        session.failed(url, error);
                    }
                }
                if self.json {
                    let line = json!({
                        "url": url.to_string(),
                        "files": count.files,
                        "directories": count.directories,
                        "failed": count.failed,
                    });
                    writeln!(std::io::stdout(), "{line}")?;
                }
                if session.stop().is_set() {
                    let removed = count.files + count.directories;
                    eprintln!(
                        "penstock: interrupted: {removed} removed below {url}; run it again to go on"
                    );
                    break;
                }
            }
            Ok(())
        })
    }

    async fn remove(
        &self,
        session: &mut Session,
        url: &NfsUrl,
        count: &mut Count,
    ) -> Result<(), ClientError> {
        let mut segments = url.path.split(|&byte| byte == b'/');
        let last = segments.rfind(|name| !name.is_empty());
        // As rm(1): whoever writes `*/..` or `.` by mistake does not mean what these lead to.
        if matches!(last, Some(b"." | b"..")) {
            session.refused(url, "ends in . or .., which is not removed");
            count.failed += 1;
            return Ok(());
        }
        let (client, path) = session.at(url).await?;
        if nfs_client::url::components(&path).next().is_none() {
            session.refused(url, "is the root of an export, which is not removed");
            count.failed += 1;
            return Ok(());
        }
        let (parent, name) = client.parent(&path).await?;
        let node = client.lookup(&parent, name).await?;
        let is_dir = node.attributes.ftype == Ftype3::Dir;
        if !is_dir && path.ends_with(b"/") {
            session.refused(url, "is not a directory: leave out the / at its end");
            count.failed += 1;
            return Ok(());
        }
        if is_dir && self.recursive {
            let mut removal = Removal {
                url,
                verbose: self.verbose,
                client,
                ledger: Ledger::default(),
                calls: JoinSet::new(),
                again: false,
                count,
            };
            removal.tree(session, node, (parent, name)).await;
            return Ok(());
        }
        if is_dir && !self.dir {
            session.refused(
                url,
                "is a directory: give -r to remove it and all that is in it",
            );
            count.failed += 1;
            return Ok(());
        }
        if is_dir {
            client.rmdir_in(&parent, name).await?;
            count.directories += 1;
        } else {
            client.remove_in(&parent, name).await?;
            count.files += 1;
        }
        if self.verbose {
            show::say(url);
        }
        Ok(())
    }
}

/// The removal of one tree.
struct Removal<'a> {
    url: &'a NfsUrl,
    verbose: bool,
    client: Client,
    ledger: Ledger,
    calls: JoinSet<(Work, Result<(), ClientError>)>,
    /// A directory was not empty although all that was listed is gone.
    again: bool,
    count: &'a mut Count,
}

/// One call, and what it is about.
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

impl Removal<'_> {
    /// Removes the tree at `root`, which has the given name in its parent.
    async fn tree(&mut self, session: &mut Session, root: Node, at: (FileHandle, &[u8])) {
        let path = self.url.path.clone();
        let end = path.len() - path.iter().rev().take_while(|&&byte| byte == b'/').count();
        let path = path.get(..end).unwrap_or_default();
        for round in 1..=REMOVE_ROUNDS_MAX {
            self.again = false;
            let removed_before = self.count.files + self.count.directories;
            let walk = self.client.tree(root, path, TreeOptions::default());
            self.round(session, walk, at, round == REMOVE_ROUNDS_MAX)
                .await;
            let removed = self.count.files + self.count.directories > removed_before;
            if !self.again || !removed || session.stop().is_set() {
                return;
            }
        }
    }

    async fn round(
        &mut self,
        session: &mut Session,
        mut walk: Tree,
        root: (FileHandle, &[u8]),
        last: bool,
    ) {
        let stop = session.stop();
        self.ledger = Ledger::default();
        while !stop.is_set() {
            let Some(visit) = next(&mut walk, &stop).await else {
                break;
            };
            match visit {
                Visit::Enter(found) => {
                    let parent = found.parent.unwrap_or(root.0);
                    self.ledger.enter(found.path, parent);
                }
                Visit::File(found) => {
                    let within = self.ledger.begin_file();
                    self.begin(work(found, within, root.0));
                }
                Visit::Leave(_) => {
                    if let Some(work) = self.ledger.leave() {
                        self.begin(work);
                    }
                }
                Visit::Failed { path, error } => {
                    self.count.failed += 1;
                    session.failed(&self.url.with_path(path), error);
                    self.ledger.fail_here();
                }
            }
            while self.calls.len() >= CALLS_IN_FLIGHT_MAX {
                self.end_one(session, last).await;
            }
        }
        while !self.calls.is_empty() {
            self.end_one(session, last).await;
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

    /// Waits for one call and begins what waited for it.
    async fn end_one(&mut self, session: &mut Session, last: bool) {
        let Some(Ok((work, outcome))) = self.calls.join_next().await else {
            return;
        };
        let status = outcome.as_ref().err().and_then(ClientError::status);
        let not_empty = matches!(status, Some(Nfsstat3::Notempty | Nfsstat3::Exist));
        let done = match outcome {
            Ok(()) => {
                let url = self.url.with_path(work.path.as_slice());
                if self.verbose {
                    show::say(&url);
                }
                match work.is_dir {
                    true => self.count.directories += 1,
                    false => self.count.files += 1,
                }
                true
            }
            // Somebody else was faster; what was to go is gone.
            Err(_) if status == Some(Nfsstat3::Noent) => true,
            Err(_) if work.is_dir && not_empty && !last => {
                self.again = true;
                false
            }
            Err(error) => {
                self.count.failed += 1;
                session.failed(&self.url.with_path(work.path.as_slice()), error);
                false
            }
        };
        if let Some(next) = work.within.and_then(|dir| self.ledger.end(dir, done)) {
            self.begin(next);
        }
    }
}

async fn next(walk: &mut Tree, stop: &Stop) -> Option<Visit> {
    tokio::select! {
        visit = walk.next() => visit,
        () = stop.asked() => None,
    }
}

fn work(found: Found, within: Option<usize>, root: FileHandle) -> Work {
    Work {
        within,
        parent: found.parent.unwrap_or(root),
        path: found.path,
        is_dir: false,
    }
}

/// Which directories wait for what is in them.
#[derive(Default)]
struct Ledger {
    dirs: HashMap<usize, Dir>,
    /// The directories that the walk is in, the innermost last.
    open: Vec<usize>,
    next: usize,
}

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
