//! Walking a tree: what `find`, `du`, `rm -r` and `chmod -R` have in common.
//!
//! A [`Tree`] tells of each entry below a directory, each directory before and after what is in it, in
//! the order of a walk by hand. It holds one page of entries per level and begins the listings of the
//! next few directories ahead, so that a tree of small directories does not cost a round trip each. It
//! goes by handles and never follows a symbolic link: what it finds is below where it began, whatever
//! others rename meanwhile.

use nfs_wire::nfs3::{FileHandle, Ftype3, Nfsstat3};
use tokio::task::JoinHandle;

use super::directory::DirStream;
use super::{Client, DirEntry};
use crate::error::{ClientError, printable};
use crate::limits::{TREE_AHEAD_DEFAULT, TREE_AHEAD_KEPT_MAX, TREE_AHEAD_LOOK_MAX, TREE_DEPTH_MAX};
use crate::nfs3::Node;

/// How a tree is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeOptions {
    /// Directories this many levels below the root are told, but not looked into; 0 is the root alone.
    pub depth_max: usize,
    /// Directories whose listing is begun before the walk comes to them. 0 where the walk itself
    /// decides whether a directory can be read.
    pub ahead: usize,
}

impl Default for TreeOptions {
    fn default() -> Self {
        Self {
            depth_max: usize::MAX,
            ahead: TREE_AHEAD_DEFAULT,
        }
    }
}

/// Something that a walk has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The path that the walk began with, and the names down to it, joined by `/`.
    pub path: Vec<u8>,
    /// The directory that it is in; `None` for the root of the walk.
    pub parent: Option<FileHandle>,
    /// Levels below the root of the walk, which has 0.
    pub depth: usize,
    /// Handle and attributes as the listing told them.
    pub node: Node,
}

impl Found {
    /// The last name of the path.
    pub fn name(&self) -> &[u8] {
        self.path
            .rsplit(|&byte| byte == b'/')
            .next()
            .unwrap_or_default()
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.node.attributes.ftype == Ftype3::Dir
    }
}

/// One step of a walk.
#[derive(Clone, Debug)]
pub enum Visit {
    /// A directory, before what is in it. [`Tree::skip`] leaves that out.
    Enter(Found),
    /// Anything that is not a directory.
    File(Found),
    /// A directory, after what is in it.
    Leave(Found),
    /// The path cannot be looked at, or a directory not be read to its end; then what was not read is
    /// left out, and [`Visit::Leave`] follows.
    Failed {
        /// The path, made as [`Found::path`] is.
        path: Vec<u8>,
        /// Why it cannot be looked at.
        error: ClientError,
    },
}

/// A walk on its way. See the module's documentation.
#[derive(Debug)]
#[must_use = "nothing is asked of the server before the next step is"]
pub struct Tree {
    client: Client,
    options: TreeOptions,
    /// What is still to be told, the next one last.
    stack: Vec<Frame>,
    /// The directory told last, not yet looked into.
    entered: Option<(Found, Option<Ahead>)>,
    /// Frames that have a listing begun ahead.
    ahead: usize,
}

#[derive(Debug)]
enum Frame {
    Item(Found, Option<Ahead>),
    /// A name that the listing gave without attributes.
    Unknown {
        path: Vec<u8>,
        parent: FileHandle,
        depth: usize,
    },
    Listing {
        dir: Found,
        page: Option<Vec<DirEntry>>,
        stream: Box<DirStream>,
    },
}

/// The first page of a listing on its way. Dropped, it is given up.
#[derive(Debug)]
struct Ahead(JoinHandle<(Box<DirStream>, FirstPage)>);

type FirstPage = Result<Option<Vec<DirEntry>>, ClientError>;

impl Drop for Ahead {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Client {
    /// Walks the tree at `root`, whose path is `path` in what the walk tells. A root that is not a
    /// directory is told and that is all.
    pub fn tree(&self, root: Node, path: &[u8], options: TreeOptions) -> Tree {
        let root = Found {
            path: path.to_vec(),
            parent: None,
            depth: 0,
            node: root,
        };
        Tree {
            client: self.clone(),
            options,
            stack: vec![Frame::Item(root, None)],
            entered: None,
            ahead: 0,
        }
    }
}

impl Tree {
    /// The next step; `None` after the last. Dropped before it is ready, it has lost no entry.
    ///
    /// A name that is gone when the walk comes to it is left out.
    pub async fn next(&mut self) -> Option<Visit> {
        loop {
            if let Some(failed) = self.look_into_entered().await {
                return Some(failed);
            }
            match self.stack.last_mut()? {
                Frame::Item(..) => {
                    if let Some(Frame::Item(found, ahead)) = self.stack.pop() {
                        self.ahead -= usize::from(ahead.is_some());
                        return Some(self.told(found, ahead));
                    }
                }
                Frame::Unknown {
                    path,
                    parent,
                    depth,
                } => {
                    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
                    let node = self.client.lookup(parent, name).await;
                    let (parent, depth, path) = (Some(*parent), *depth, std::mem::take(path));
                    self.stack.pop();
                    match node {
                        Ok(node) => {
                            let found = Found {
                                path,
                                parent,
                                depth,
                                node,
                            };
                            self.stack.push(Frame::Item(found, None));
                        }
                        Err(error) if error.status() == Some(Nfsstat3::Noent) => {}
                        Err(error) => {
                            let error = error.of(&path);
                            return Some(Visit::Failed { path, error });
                        }
                    }
                }
                Frame::Listing { dir, page, stream } => {
                    if page.is_none() {
                        match stream.next().await {
                            Ok(next) => *page = next,
                            Err(error) => {
                                let path = dir.path.clone();
                                let error = error.of(&path);
                                return Some(Visit::Failed { path, error });
                            }
                        }
                    }
                    if let Some(left) = self.next_page() {
                        return Some(left);
                    }
                }
            }
        }
    }

    /// Leaves out what is in the directory that [`Visit::Enter`] told last; [`Visit::Leave`] of it
    /// comes next all the same.
    pub fn skip(&mut self) {
        if let Some((dir, _)) = self.entered.take() {
            self.push_listing(dir, None, None);
        }
    }

    fn told(&mut self, found: Found, ahead: Option<Ahead>) -> Visit {
        if !found.is_dir() {
            return Visit::File(found);
        }
        self.entered = Some((found.clone(), ahead));
        self.begin_ahead();
        Visit::Enter(found)
    }

    /// Puts the listing of the directory that was told last on the stack.
    async fn look_into_entered(&mut self) -> Option<Visit> {
        let (found, ahead) = self.entered.as_mut()?;
        let begun = match ahead {
            // A listing that failed when it was begun ahead may succeed now.
            Some(Ahead(task)) => match task.await {
                Ok((stream, Ok(page))) => Some((stream, page)),
                _ => None,
            },
            None => None,
        };
        let too_deep = found.depth >= TREE_DEPTH_MAX;
        let (dir, _) = self.entered.take()?;
        if too_deep {
            let path = dir.path.clone();
            let error = ClientError::TooManyNames {
                path: printable(&path),
            };
            self.push_listing(dir, None, None);
            return Some(Visit::Failed { path, error });
        }
        if dir.depth >= self.options.depth_max {
            self.push_listing(dir, None, None);
            return None;
        }
        let (stream, page) = match begun {
            Some((stream, page)) => (stream, page),
            None => (Box::new(self.client.list(&dir.node.handle, true)), None),
        };
        self.push_listing(dir, page, Some(stream));
        None
    }

    /// Without a stream there is nothing to come but the end.
    fn push_listing(
        &mut self,
        dir: Found,
        page: Option<Vec<DirEntry>>,
        stream: Option<Box<DirStream>>,
    ) {
        let stream = match stream {
            Some(stream) => stream,
            None => Box::new(DirStream::ended(&self.client, &dir.node.handle)),
        };
        self.stack.push(Frame::Listing { dir, page, stream });
    }

    /// Puts the entries of the page on the stack; where there is none, the directory is left.
    fn next_page(&mut self) -> Option<Visit> {
        let Some(Frame::Listing { dir, page, .. }) = self.stack.last_mut() else {
            return None;
        };
        let Some(page) = page.take() else {
            return match self.stack.pop() {
                Some(Frame::Listing { dir, .. }) => Some(Visit::Leave(dir)),
                _ => None,
            };
        };
        let (parent, depth) = (dir.node.handle, dir.depth + 1);
        let frames = page.into_iter().filter(|entry| !entry.is_dot());
        let frames = frames.map(|entry| {
            let path = join(&dir.path, &entry.name);
            match (entry.handle, entry.attributes) {
                (Some(handle), Some(attributes)) => {
                    let node = Node { handle, attributes };
                    let parent = Some(parent);
                    let found = Found {
                        path,
                        parent,
                        depth,
                        node,
                    };
                    Frame::Item(found, None)
                }
                _ => Frame::Unknown {
                    path,
                    parent,
                    depth,
                },
            }
        });
        let mut frames: Vec<Frame> = frames.collect();
        frames.reverse();
        self.stack.append(&mut frames);
        self.begin_ahead();
        None
    }

    /// Begins the listings of the directories that come next.
    fn begin_ahead(&mut self) {
        let mut wanted = Vec::new();
        let mut seen = 0;
        let upper = self.stack.iter().enumerate().rev();
        for (index, frame) in upper.take(TREE_AHEAD_LOOK_MAX) {
            if seen >= self.options.ahead {
                break;
            }
            if let Frame::Item(found, ahead) = frame
                && found.is_dir()
                && found.depth < self.options.depth_max.min(TREE_DEPTH_MAX)
            {
                seen += 1;
                if ahead.is_none() {
                    wanted.push(index);
                }
            }
        }
        for index in wanted {
            if self.ahead >= TREE_AHEAD_KEPT_MAX {
                self.give_up_farthest(index);
            }
            if let Some(Frame::Item(found, ahead)) = self.stack.get_mut(index) {
                let mut stream = Box::new(self.client.list(&found.node.handle, true));
                *ahead = Some(Ahead(tokio::spawn(async move {
                    let page = stream.next().await;
                    (stream, page)
                })));
                self.ahead += 1;
            }
        }
    }

    /// Gives up the listing that would be needed last, if it comes after the frame `before`.
    fn give_up_farthest(&mut self, before: usize) {
        let lower = self.stack.iter_mut().take(before);
        for frame in lower {
            if let Frame::Item(_, ahead @ Some(_)) = frame {
                *ahead = None;
                self.ahead -= 1;
                return;
            }
        }
    }
}

/// A name in the directory `dir`.
fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    match dir {
        b"" => name.to_vec(),
        dir if dir.ends_with(b"/") => [dir, name].concat(),
        dir => [dir, b"/", name].concat(),
    }
}
