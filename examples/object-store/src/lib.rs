//! An NFS export as an object store: what is written for [`object_store`] (DataFusion, Delta Lake, Parquet readers and
//! others) reads and writes it without a kernel mount.
//!
//! An object is a regular file, and `/` in its location is a directory. It is written under another name,
//! brought to stable storage and then renamed, so that nobody ever sees a part of it; [`PutMode::Create`] and the
//! `_if_not_exists` operations are a LINK, which the server refuses if the name is taken. A file is never changed after
//! that, so a copy is a further name of it (LINK), without a byte moved.
//!
//! An etag is made of the file's number, its size and the time of its last change. What has none in an NFS server is
//! refused: conditional updates ([`PutMode::Update`]) and attributes. What is no object is not listed:
//! symbolic links, devices, and names that no location can have. Directories stay when they are empty.

mod error;
mod upload;

use std::fmt;
use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt as _, StreamExt as _};
use nfs_client::client::{TreeOptions, Visit};
use nfs_client::nfs3::{Fattr3, Ftype3, Nfsstat3};
use nfs_client::{Client, ClientError, File, NfsUrl};
use object_store::path::Path;
use object_store::{
    Attributes, CopyMode, CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, RenameOptions, RenameTargetMode, Result,
};

use self::error::{ANSWERS_NOTHING, generic, told, unsupported};
use self::upload::{Staged, Upload};

/// Deletions that are on their way together.
const DELETES_MAX: usize = 16;

/// Does what makes a name at a path; once more when its directories are made, if they are missing.
macro_rules! in_directory {
    ($store:expr, $path:expr, $make:expr) => {
        match $make.await {
            Err(error) if error.status() == Some(Nfsstat3::Noent) => {
                match $store.make_parents($path).await {
                    Ok(()) => $make.await,
                    Err(error) => Err(error),
                }
            }
            made => made,
        }
    };
}

/// A directory of an export as an object store. Clones share the connection.
#[derive(Clone, Debug)]
pub struct NfsStore {
    client: Client,
    /// The path of the directory below the export.
    root: Vec<u8>,
}

impl NfsStore {
    /// Mounts the export and takes the directory that the URL leads to.
    pub async fn mount(url: &NfsUrl) -> Result<Self, ClientError> {
        let (client, root) = Client::mount(url).await?;
        Ok(Self::new(client, root))
    }

    /// The directory `root` of a client's export.
    pub fn new(client: Client, root: impl Into<Vec<u8>>) -> Self {
        let root = root.into();
        Self { client, root }
    }

    /// Where the file of `location` is.
    fn path(&self, location: &Path) -> Result<Vec<u8>> {
        if location
            .parts()
            .any(|part| is_staged(part.as_ref().as_bytes()))
        {
            let text = format!("{location}: a name that begins with {STAGED:?} is for uploads");
            return Err(generic(text));
        }
        Ok(self.path_of(location))
    }

    fn path_of(&self, location: &Path) -> Vec<u8> {
        [&self.root, b"/".as_slice(), location.as_ref().as_bytes()].concat()
    }

    /// Creates the directories that lead to `path`.
    async fn make_parents(&self, path: &[u8]) -> Result<(), ClientError> {
        let ends = path
            .iter()
            .enumerate()
            .filter(|&(at, &byte)| byte == b'/' && at > 0);
        for (end, _) in ends {
            let (parent, _) = path.split_at(end);
            match self.client.mkdir(parent, 0o777).await {
                Err(error) if error.status() != Some(Nfsstat3::Exist) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// A file in the directory of `path`, under a name that no object has.
    async fn staged(&self, path: Vec<u8>) -> Result<Staged, ClientError> {
        let staged = staged_beside(&path);
        let file = in_directory!(self, &path, self.client.create_new(&staged, 0o666))?;
        Ok(Staged::new(self.client.clone(), file, staged, path))
    }

    async fn copy_over(&self, from: &[u8], to: &[u8]) -> Result<(), ClientError> {
        let staged = staged_beside(to);
        in_directory!(self, to, self.client.link(from, &staged))?;
        let renamed = self.client.rename(&staged, to).await;
        // Where both names are of one file, a rename does nothing.
        match self.client.remove(&staged).await {
            Err(error) if error.status() != Some(Nfsstat3::Noent) => renamed.and(Err(error)),
            _ => renamed,
        }
    }

    async fn copy_new(&self, from: &[u8], to: &[u8]) -> Result<(), ClientError> {
        in_directory!(self, to, self.client.link(from, to))
    }

    /// The regular files below `prefix`, in the order of a walk.
    async fn walk(&self, prefix: &Path) -> Result<BoxStream<'static, Result<ObjectMeta>>> {
        let path = self.path_of(prefix);
        let root = match self.client.resolve(&path).await {
            Ok(root) if root.attributes.ftype == Ftype3::Dir => root,
            Ok(_) => return Ok(stream::empty().boxed()),
            Err(error) if ANSWERS_NOTHING.contains(&error.kind()) => {
                return Ok(stream::empty().boxed());
            }
            Err(error) => return Err(told(prefix, error)),
        };
        let tree = self
            .client
            .tree(root, prefix.as_ref().as_bytes(), TreeOptions::default());
        let found = stream::unfold(tree, async |mut tree| {
            loop {
                let found = match tree.next().await? {
                    Visit::File(found) => object(&found.path, &found.node.attributes).map(Ok),
                    Visit::Failed { path, error } => failed(&path, error),
                    Visit::Enter(_) | Visit::Leave(_) => None,
                };
                if let Some(found) = found {
                    return Some((found, tree));
                }
            }
        });
        Ok(found.fuse().boxed())
    }
}

impl fmt::Display for NfsStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (export, root) = (
            self.client.export().escape_ascii(),
            self.root.escape_ascii(),
        );
        write!(f, "NfsStore({export}:{root})")
    }
}

#[async_trait]
impl ObjectStore for NfsStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        if matches!(opts.mode, PutMode::Update(_)) {
            return Err(unsupported(self, "`put_opts` with `PutMode::Update`"));
        }
        if !opts.attributes.is_empty() {
            return Err(unsupported(self, "`put_opts` with attributes"));
        }
        let path = self.path(location)?;
        let put = async {
            let staged = self.staged(path).await?;
            let mut at = 0;
            for piece in &payload {
                staged.file().write_at(at, piece.clone()).await?;
                at += piece.len() as u64;
            }
            match opts.mode {
                PutMode::Create => staged.publish_new().await,
                PutMode::Overwrite | PutMode::Update(_) => staged.publish().await,
            }
        };
        Ok(put_result(
            &put.await.map_err(|error| told(location, error))?,
        ))
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        if !opts.attributes.is_empty() {
            return Err(unsupported(self, "`put_multipart_opts` with attributes"));
        }
        let staged = self.staged(self.path(location)?).await;
        let staged = staged.map_err(|error| told(location, error))?;
        Ok(Box::new(Upload::new(location.clone(), staged)))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let path = self.path(location)?;
        let opened = async {
            let file = self.client.open(&path).await?;
            let attributes = file.stat().await?;
            Ok((file, attributes))
        };
        let (file, attributes) = opened.await.map_err(|error| told(location, error))?;
        let meta = meta(location.clone(), &attributes);
        options.check_preconditions(&meta)?;
        let range = match &options.range {
            Some(range) => range.as_range(meta.size).map_err(generic)?,
            None => 0..meta.size,
        };
        let data = match options.head {
            true => stream::empty().boxed(),
            false => content(location.clone(), &file, range.clone()),
        };
        Ok(GetResult {
            payload: GetResultPayload::Stream(data),
            meta,
            range,
            attributes: Attributes::default(),
            extensions: Default::default(),
        })
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let store = self.clone();
        let delete = move |location: Result<Path>| {
            let store = store.clone();
            async move {
                let location = location?;
                let removed = store.client.remove(&store.path(&location)?).await;
                removed.map_err(|error| told(&location, error))?;
                Ok(location)
            }
        };
        locations.map(delete).buffered(DELETES_MAX).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (store, prefix) = (self.clone(), prefix.cloned().unwrap_or_default());
        let walk = async move {
            store.walk(&prefix).await.unwrap_or_else(|error| {
                let failed = std::future::ready(Err(error));
                failed.into_stream().boxed()
            })
        };
        walk.flatten_stream().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let prefix = prefix.cloned().unwrap_or_default();
        let mut listed = ListResult {
            common_prefixes: Vec::new(),
            objects: Vec::new(),
            extensions: Default::default(),
        };
        let read = async {
            let dir = self.client.resolve(&self.path_of(&prefix)).await?;
            self.client.read_dir(&dir.handle, true).await
        };
        let entries = match read.await {
            Ok(entries) => entries,
            Err(error) if ANSWERS_NOTHING.contains(&error.kind()) => return Ok(listed),
            Err(error) => return Err(told(&prefix, error)),
        };
        for entry in entries.into_iter().filter(|entry| !entry.is_dot()) {
            let path = [prefix.as_ref().as_bytes(), b"/", &entry.name].concat();
            // A name that went away while the directory was read has no attributes.
            match entry.attributes {
                Some(attributes) if attributes.ftype == Ftype3::Dir => {
                    listed.common_prefixes.extend(location(&path));
                }
                Some(attributes) => listed.objects.extend(object(&path, &attributes)),
                None => {}
            }
        }
        listed.common_prefixes.sort();
        Ok(listed)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let (source, target) = (self.path(from)?, self.path(to)?);
        let copied = match options.mode {
            CopyMode::Overwrite => self.copy_over(&source, &target).await,
            CopyMode::Create => self.copy_new(&source, &target).await,
        };
        copied.map_err(|error| told(to, error))
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let (source, target) = (self.path(from)?, self.path(to)?);
        let renamed = match options.target_mode {
            RenameTargetMode::Overwrite => {
                in_directory!(self, &target, self.client.rename(&source, &target))
            }
            RenameTargetMode::Create => match self.copy_new(&source, &target).await {
                Ok(()) => self.client.remove(&source).await,
                Err(error) => Err(error),
            },
        };
        renamed.map_err(|error| told(to, error))
    }
}

/// How the names of files begin that are no objects yet.
const STAGED: &str = "#upload-";

fn is_staged(name: &[u8]) -> bool {
    name.starts_with(STAGED.as_bytes())
}

/// A name in the directory of `path` that nobody else has.
fn staged_beside(path: &[u8]) -> Vec<u8> {
    let dir = path
        .iter()
        .rposition(|&byte| byte == b'/')
        .map_or(0, |at| at + 1);
    let (dir, _) = path.split_at(dir);
    let name = format!("{STAGED}{:032x}", fastrand::u128(..));
    [dir, name.as_bytes()].concat()
}

/// The bytes of a range of a file, read ahead of whoever takes them.
fn content(location: Path, file: &File, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
    let data = file.stream(range.start).until(range.end);
    let state = (data, range.end - range.start, location);
    let next = async |(mut data, left, location): (nfs_client::file::ReadStream, u64, Path)| {
        let (piece, left) = match data.next().await {
            Ok(Some(piece)) => {
                let left = left - piece.len() as u64;
                (Ok(piece), left)
            }
            Ok(None) if left == 0 => return None,
            Ok(None) => (
                Err(generic(format!(
                    "{location}: it became shorter while it was read"
                ))),
                0,
            ),
            Err(error) => (Err(told(&location, error)), 0),
        };
        Some((piece, (data, left, location)))
    };
    stream::unfold(state, next).fuse().boxed()
}

/// What became of a directory on the way. One that is gone has no objects.
fn failed(path: &[u8], error: ClientError) -> Option<Result<ObjectMeta>> {
    let gone = ANSWERS_NOTHING.contains(&error.kind());
    let place = Path::from(String::from_utf8_lossy(path).into_owned());
    (!gone).then(|| Err(told(&place, error)))
}

/// The location of a path below the root, unless no object can have it.
fn location(path: &[u8]) -> Option<Path> {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let text = std::str::from_utf8(path)
        .ok()
        .filter(|_| !is_staged(name))?;
    Path::parse(text).ok()
}

/// What is told of an object, if it is one.
fn object(path: &[u8], attributes: &Fattr3) -> Option<ObjectMeta> {
    let location = location(path).filter(|_| attributes.ftype == Ftype3::Reg)?;
    Some(meta(location, attributes))
}

fn meta(location: Path, attributes: &Fattr3) -> ObjectMeta {
    let time = attributes.mtime;
    let last_modified = DateTime::from_timestamp(time.seconds.into(), time.nseconds);
    ObjectMeta {
        location,
        last_modified: last_modified.unwrap_or(DateTime::<Utc>::UNIX_EPOCH),
        size: attributes.size,
        e_tag: Some(etag(attributes)),
        version: None,
    }
}

fn etag(attributes: &Fattr3) -> String {
    let Fattr3 {
        fileid,
        size,
        mtime,
        ..
    } = attributes;
    let time = (mtime.seconds, mtime.nseconds);
    format!("\"{fileid:x}-{:x}.{:x}-{size:x}\"", time.0, time.1)
}

fn put_result(attributes: &Fattr3) -> PutResult {
    PutResult {
        e_tag: Some(etag(attributes)),
        version: None,
        extensions: Default::default(),
    }
}
