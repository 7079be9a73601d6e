//! A server, as Python's file system stands on it.

use std::sync::Arc;

use nfs_client::client::{TreeOptions, Visit};
use nfs_client::nfs3::{Ftype3, Sattr3, SetTime};
use nfs_client::trees::{DirModes, RemoveTree, Step, make_dirs};
use nfs_client::{Client, ClientError, NfsUrl, Node};
use pyo3::prelude::*;
use rustix::io::Errno;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::engine::{Engine, Running};
use crate::entry::{self, Entry, Told};
use crate::errors::{self, Failure};
use crate::exports::{Exports, Place};
use crate::file::File;
use crate::limits::{FAREWELL_MAX, RANGES_AT_ONCE};

/// A server as one identity. Paths are those of the server's name space. All calls wait without holding up Python's other
/// threads.
#[pyclass(frozen, weakref, module = "penstock._native")]
pub(crate) struct Session(Running<Arc<Exports>>);

/// Names, or paths, with what is told of each.
type Listing = Vec<(Vec<u8>, Told)>;

impl Session {
    fn engine(&self) -> &Arc<Engine> {
        self.0.engine()
    }

    /// Waits for what `call` does with the server.
    fn with<T: Send, F: Future<Output = Result<T, Failure>> + Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(Arc<Exports>) -> F,
    ) -> PyResult<T> {
        self.engine().wait(py, call(self.0.get()?))
    }

    fn open_file<F: Future<Output = Result<nfs_client::File, Failure>> + Send>(
        &self,
        py: Python<'_>,
        open: impl FnOnce(Arc<Exports>) -> F,
    ) -> PyResult<File> {
        Ok(File::new(self.engine(), self.with(py, open)?))
    }
}

#[pymethods]
impl Session {
    /// The server of an `nfs://` URL, whose path does not count. Nothing is asked yet.
    #[new]
    fn new(url: &str) -> PyResult<Self> {
        let url: NfsUrl = url.parse().map_err(|error| errors::bad_url(&error))?;
        let engine = Engine::start()?;
        Ok(Self(Running::new(&engine, Arc::new(Exports::new(&url)))))
    }

    /// Whether this process is the one that the session was made in.
    fn is_ours(&self) -> bool {
        self.engine().is_ours()
    }

    /// What `path` leads to; symbolic links are followed.
    fn stat(&self, py: Python<'_>, path: &[u8]) -> PyResult<Told> {
        self.with(py, |exports| async move {
            match exports.place(path).await? {
                Place::Above(_) => Ok(Told::above()),
                Place::Inside(client, rest) => {
                    let node = client.resolve_link(&rest).await?;
                    Ok(Entry::of(&client, &rest, &node).await?.told(true))
                }
            }
        })
    }

    /// The names in a directory, in their order; `None` where `path` leads to something else.
    fn list(&self, py: Python<'_>, path: &[u8]) -> PyResult<Option<Listing>> {
        self.with(py, |exports| async move {
            let (client, rest) = match exports.place(path).await? {
                Place::Above(names) => {
                    return Ok(Some(
                        names
                            .into_iter()
                            .map(|name| (name, Told::above()))
                            .collect(),
                    ));
                }
                Place::Inside(client, rest) => (client, rest),
            };
            let node = client.resolve(&rest).await?;
            match node.attributes.ftype {
                Ftype3::Dir => Ok(Some(list(&client, &rest, &node).await?)),
                _ => Ok(None),
            }
        })
    }

    /// What is below a directory, `depth` levels of it or all, each with its path below. Symbolic links are not gone through.
    /// What cannot be looked at is left out, or raises with `strict`.
    #[pyo3(signature = (path, depth, strict))]
    fn tree(
        &self,
        py: Python<'_>,
        path: &[u8],
        depth: Option<usize>,
        strict: bool,
    ) -> PyResult<Listing> {
        self.with(py, |exports| async move {
            let (client, rest) = exports.inside(path).await?;
            Ok(tree(&client, &rest, depth.unwrap_or(usize::MAX), strict).await?)
        })
    }

    /// Makes a directory.
    fn mkdir(&self, py: Python<'_>, path: &[u8], mode: u32) -> PyResult<()> {
        self.with(py, |exports| async move {
            let (client, rest) = exports.inside(path).await?;
            Ok(client.mkdir(&rest, mode).await.map(drop)?)
        })
    }

    /// Makes a directory and those above it that are missing; whether it itself was made, and not there before.
    fn make_dirs(&self, py: Python<'_>, path: &[u8], mode: u32) -> PyResult<bool> {
        self.with(py, |exports| async move {
            let (client, rest) = exports.inside(path).await?;
            let modes = DirModes {
                last: mode,
                above: mode,
            };
            let mut last = Vec::new();
            make_dirs(&client, &rest, modes, |made| last = made.to_vec()).await?;
            let names = nfs_client::url::components(&rest);
            Ok(!last.is_empty() && names.eq(nfs_client::url::components(&last)))
        })
    }

    /// Removes an empty directory.
    fn rmdir(&self, py: Python<'_>, path: &[u8]) -> PyResult<()> {
        self.with(py, |exports| async move {
            let (client, rest) = exports.inside(path).await?;
            Ok(client.rmdir(&rest).await?)
        })
    }

    /// Removes what is not a directory.
    fn remove(&self, py: Python<'_>, path: &[u8]) -> PyResult<()> {
        self.with(py, |exports| async move {
            let (client, rest) = exports.inside(path).await?;
            Ok(client.remove(&rest).await?)
        })
    }

    /// Removes a directory with all that is in it, or what is not a directory. A symbolic link is removed itself.
    fn remove_tree(&self, py: Python<'_>, path: &[u8]) -> PyResult<()> {
        self.with(py, |exports| async move {
            let (client, rest) = exports.inside(path).await?;
            Ok(remove_tree(&client, &rest).await?)
        })
    }

    /// Gives a file or directory another name, replacing what has it.
    fn rename(&self, py: Python<'_>, from: &[u8], to: &[u8]) -> PyResult<()> {
        self.with(py, |exports| async move {
            let (client, from, to) = both(&exports, from, to).await?;
            Ok(client.rename(&from, &to).await?)
        })
    }

    /// Gives a file a further name, which must not be there yet.
    fn link(&self, py: Python<'_>, existing: &[u8], path: &[u8]) -> PyResult<()> {
        self.with(py, |exports| async move {
            let (client, existing, path) = both(&exports, existing, path).await?;
            Ok(client.link(&existing, &path).await?)
        })
    }

    /// Makes a symbolic link at `path` that points to `target`.
    fn symlink(&self, py: Python<'_>, target: &[u8], path: &[u8]) -> PyResult<()> {
        self.with(py, |exports| async move {
            let (client, rest) = exports.inside(path).await?;
            Ok(client.symlink(&rest, target).await.map(drop)?)
        })
    }

    /// Sets the permission bits of what `path` leads to.
    fn chmod(&self, py: Python<'_>, path: &[u8], mode: u32) -> PyResult<()> {
        let new = Sattr3 {
            mode: Some(mode),
            ..Sattr3::default()
        };
        self.with(py, |exports| async move {
            let (client, rest) = exports.inside(path).await?;
            Ok(client.setattr(&rest, &new).await?)
        })
    }

    /// Sets the times of what `path` leads to to the server's present.
    fn touch(&self, py: Python<'_>, path: &[u8]) -> PyResult<()> {
        let new = Sattr3 {
            atime: SetTime::ServerTime,
            mtime: SetTime::ServerTime,
            ..Sattr3::default()
        };
        self.with(py, |exports| async move {
            let (client, rest) = exports.inside(path).await?;
            Ok(client.setattr(&rest, &new).await?)
        })
    }

    /// Copies the content of a regular file; `to` is made with `mode`, or replaced. On stable storage when this returns.
    fn copy(&self, py: Python<'_>, from: &[u8], to: &[u8], mode: u32) -> PyResult<()> {
        self.with(py, |exports| async move {
            let (source, from) = exports.inside(from).await?;
            let (client, to) = exports.inside(to).await?;
            copy(&source.open(&from).await?, &client, &to, mode).await
        })
    }

    /// Opens a regular file.
    fn open(&self, py: Python<'_>, path: &[u8]) -> PyResult<File> {
        self.open_file(py, |exports| async move {
            let (client, rest) = exports.inside(path).await?;
            Ok(client.open(&rest).await?)
        })
    }

    /// Opens a regular file, making it with `mode` where there is none.
    fn create(&self, py: Python<'_>, path: &[u8], mode: u32) -> PyResult<File> {
        self.open_file(py, |exports| async move {
            let (client, rest) = exports.inside(path).await?;
            Ok(client.create(&rest, mode).await?)
        })
    }

    /// Makes a regular file with `mode`, which must not be there yet.
    fn create_new(&self, py: Python<'_>, path: &[u8], mode: u32) -> PyResult<File> {
        self.open_file(py, |exports| async move {
            let (client, rest) = exports.inside(path).await?;
            Ok(client.create_new(&rest, mode).await?)
        })
    }

    /// Reads ranges, `(path, start, end)` each, side by side. What each gave, in their order: bytes, or the exception.
    fn read_ranges(
        &self,
        py: Python<'_>,
        ranges: Vec<(Vec<u8>, u64, u64)>,
    ) -> PyResult<Vec<Py<PyAny>>> {
        let read = self.with(py, |exports| async move {
            Ok::<_, Failure>(read_ranges(&exports, ranges).await)
        })?;
        let told = read.into_iter().map(|outcome| match outcome {
            Ok(data) => Ok(pyo3::types::PyBytes::new(py, &data).into_any().unbind()),
            Err(failure) => Ok(PyErr::from(failure).into_value(py).into_any()),
        });
        told.collect()
    }

    /// Ends the session; what is open in it fails from then on. A server that does not answer is left alone.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        let Some(exports) = self.0.take()? else {
            return Ok(());
        };
        self.engine().wait(py, async move {
            match timeout(FAREWELL_MAX, exports.end()).await {
                Ok(ended) => ended,
                Err(_) => Ok(()),
            }
        })
    }
}

async fn list(client: &Client, path: &[u8], dir: &Node) -> Result<Listing, ClientError> {
    let listed = client.read_dir(&dir.handle, true).await?;
    let mut nodes = Vec::with_capacity(listed.len());
    for listed in listed {
        // What is gone by now has none.
        if let (false, Some(attributes), Some(handle)) =
            (listed.is_dot(), listed.attributes, listed.handle)
        {
            nodes.push((listed.name, Node { handle, attributes }));
        }
    }
    let nodes = nodes
        .into_iter()
        .map(|(name, node)| (join(path, &name), node));
    let mut entries = entry::of_all(client, nodes.collect()).await?;
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    let name = |path: Vec<u8>| path.rsplit(|&byte| byte == b'/').next().map(<[u8]>::to_vec);
    let told = entries.into_iter();
    let told = told.filter_map(|(path, entry)| Some((name(path)?, entry.told(false))));
    Ok(told.collect())
}

async fn tree(
    client: &Client,
    path: &[u8],
    depth: usize,
    strict: bool,
) -> Result<Listing, ClientError> {
    let root = client.resolve(path).await?;
    let options = TreeOptions {
        depth_max: depth,
        ..TreeOptions::default()
    };
    let mut walk = client.tree(root, path, options);
    let mut nodes = Vec::new();
    while let Some(visit) = walk.next().await {
        match visit {
            Visit::Enter(found) | Visit::File(found) if found.depth > 0 => {
                nodes.push((found.path, found.node));
            }
            Visit::Failed { error, .. } if strict => return Err(error),
            // A server that does not answer is no directory that must not be read.
            Visit::Failed { error, .. } if matches!(error, ClientError::Rpc(_)) => {
                return Err(error);
            }
            _ => {}
        }
    }
    let entries = entry::of_all(client, nodes).await?;
    let below = |found: Vec<u8>| {
        let rest = found.get(path.len()..).unwrap_or_default();
        rest.strip_prefix(b"/").unwrap_or(rest).to_vec()
    };
    let entries = entries.into_iter();
    Ok(entries
        .map(|(path, entry)| (below(path), entry.told(false)))
        .collect())
}

async fn remove_tree(client: &Client, path: &[u8]) -> Result<(), ClientError> {
    let root = client.resolve_link(path).await?;
    if root.attributes.ftype != Ftype3::Dir {
        return client.remove(path).await;
    }
    let (parent, _) = client.parent(path).await?;
    let mut removal = RemoveTree::new(client, root, parent, path);
    let mut outcome = Ok(());
    while let Some(step) = removal.next().await {
        if let Step::Failed { error, .. } = step {
            outcome = outcome.and(Err(error));
        }
    }
    outcome
}

/// The client of the one export that two paths are in, and the paths below it.
async fn both(
    exports: &Exports,
    one: &[u8],
    other: &[u8],
) -> Result<(Client, Vec<u8>, Vec<u8>), Failure> {
    let (client, one) = exports.inside(one).await?;
    let (of_other, other) = exports.inside(other).await?;
    if client.export() != of_other.export() {
        let why = "the two paths are in different exports of the server";
        return Err(Failure::Path(Errno::XDEV, why));
    }
    Ok((client, one, other))
}

async fn copy(
    source: &nfs_client::File,
    client: &Client,
    to: &[u8],
    mode: u32,
) -> Result<(), Failure> {
    let target = client.create(to, mode).await?;
    if target.handle() == source.handle() {
        let why = "the copy would replace its own source";
        return Err(Failure::Path(Errno::INVAL, why));
    }
    if target.stat().await?.size > 0 {
        target.set_len(0).await?;
    }
    let mut stream = source.stream(0);
    let mut offset = 0;
    while let Some(data) = stream.next().await? {
        let length = u64::try_from(data.len()).unwrap_or(u64::MAX);
        target.write_at(offset, data).await?;
        offset = offset.saturating_add(length);
    }
    Ok(target.close().await?)
}

async fn read_ranges(
    exports: &Arc<Exports>,
    ranges: Vec<(Vec<u8>, u64, u64)>,
) -> Vec<Result<bytes::Bytes, Failure>> {
    let places = Arc::new(Semaphore::new(RANGES_AT_ONCE));
    let mut reads = JoinSet::new();
    for (index, (path, start, end)) in ranges.into_iter().enumerate() {
        let (exports, places) = (exports.clone(), places.clone());
        reads.spawn(async move {
            let _place = places.acquire().await;
            let read = async {
                let (client, rest) = exports.inside(&path).await?;
                let file = client.open(&rest).await?;
                let length = usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX);
                Ok(file.read_at(start, length).await?.data)
            };
            (index, read.await)
        });
    }
    let mut read = reads.join_all().await;
    read.sort_by_key(|(index, _)| *index);
    read.into_iter().map(|(_, outcome)| outcome).collect()
}

/// A name in the directory `dir`.
fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    match dir {
        b"" => name.to_vec(),
        dir if dir.ends_with(b"/") => [dir, name].concat(),
        dir => [dir, b"/", name].concat(),
    }
}
