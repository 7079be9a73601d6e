//! The client for programs without an event loop: each call waits for its answer.
//!
//! A [`Client`] has a thread, on which connections, reads ahead and writes behind live; calls are made from any
//! thread, many at a time. It wraps the asynchronous client and hides nothing: [`Client::inner`] and
//! [`File::inner`] are what it wraps, and [`Client::wait`] waits for any future of theirs.
//!
//! # Panics
//! What waits panics inside an asynchronous runtime, which it would stop: call the asynchronous client there.
//! Dropping is allowed anywhere.
//!
//! A process that forks leaves the thread behind: mount in the child.

use std::future::Future;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use nfs_wire::nfs3::{Fattr3, Sattr3};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _};
use tokio::sync::oneshot;

use crate::client::{self, DirEntry, DirStream, MountOptions};
use crate::cursor::Cursor;
use crate::error::ClientError;
use crate::file;
use crate::identity::Identity;
use crate::nfs3::Node;
use crate::path::AsPath;
use crate::url::NfsUrl;

/// A mounted export. Clones share it. See the module's documentation.
///
/// Paths begin at the export's root. Symbolic links are followed, except in the last name of a path that is made,
/// removed or renamed.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/served/mod.rs"));
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let served = Served::start();
/// # let url = served.url.clone();
/// use std::io::{BufRead as _, BufReader, Write as _};
///
/// let (client, _) = nfs_client::blocking::Client::mount(&url)?;
/// client.mkdir("letters", 0o755)?;
/// let mut file = client.create("letters/first.txt", 0o644)?;
/// writeln!(file, "Dear reader,")?;
/// writeln!(file, "this is all.")?;
/// // Only this tells that what was written is on stable storage.
/// file.close()?;
///
/// let file = BufReader::new(client.open("letters/first.txt")?);
/// assert_eq!(file.lines().nth(1).transpose()?, Some("this is all.".to_owned()));
/// for entry in client.read_dir("letters")? {
///     assert_eq!(entry?.name, b"first.txt");
/// }
/// client.unmount()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    inner: client::Client,
    thread: Arc<Thread>,
}

impl Client {
    /// Mounts the export that holds the URL's path, and returns the rest of the path: see
    /// [`client::Client::mount`].
    pub fn mount(url: &NfsUrl) -> Result<(Self, Vec<u8>), ClientError> {
        Self::mount_with(url, &MountOptions::default())
    }

    /// Mounts the export that holds the URL's path as `options` say, where the URL says nothing else.
    pub fn mount_with(
        url: &NfsUrl,
        options: &MountOptions,
    ) -> Result<(Self, Vec<u8>), ClientError> {
        let thread = Arc::new(Thread::start().map_err(|cause| ClientError::Thread {
            cause: Arc::new(cause),
        })?);
        let (inner, rest) = thread.wait(client::Client::mount_with(url, options))?;
        Ok((Self { inner, thread }, rest))
    }

    /// The asynchronous client. What is done with it is waited for by [`Client::wait`].
    pub fn inner(&self) -> &client::Client {
        &self.inner
    }

    /// Waits for a future that needs this client's runtime: all of [`Client::inner`]'s do.
    pub fn wait<F: Future>(&self, future: F) -> F::Output {
        self.thread.wait(future)
    }

    /// A client of this export over the same connections, called as `identity`.
    pub fn with_identity(&self, identity: Identity) -> Self {
        Self {
            inner: self.inner.with_identity(identity),
            thread: self.thread.clone(),
        }
    }

    /// The attributes of what `path` leads to.
    pub fn stat(&self, path: impl AsPath) -> Result<Fattr3, ClientError> {
        self.wait(self.inner.stat(path.as_path()))
    }

    /// The attributes of what `path` names, be it a symbolic link.
    pub fn stat_link(&self, path: impl AsPath) -> Result<Fattr3, ClientError> {
        let node = self.wait(self.inner.resolve_link(path.as_path()))?;
        Ok(node.attributes)
    }

    /// Where the symbolic link `path` points: bytes that the server does not interpret.
    pub fn read_link(&self, path: impl AsPath) -> Result<Vec<u8>, ClientError> {
        self.wait(async {
            let link = self.inner.resolve_link(path.as_path()).await?;
            let target = self.inner.readlink(&link.handle).await;
            target.map_err(|error| error.of(path.as_path()))
        })
    }

    /// Opens the regular file that `path` leads to.
    pub fn open(&self, path: impl AsPath) -> Result<File, ClientError> {
        let file = self.wait(self.inner.open(path.as_path()))?;
        Ok(self.file(file))
    }

    /// Creates a regular file with permission bits `mode`, or opens the one that is there, whose content stays.
    pub fn create(&self, path: impl AsPath, mode: u32) -> Result<File, ClientError> {
        let file = self.wait(self.inner.create(path.as_path(), mode))?;
        Ok(self.file(file))
    }

    /// Creates a regular file with permission bits `mode`, which must not be there yet.
    pub fn create_new(&self, path: impl AsPath, mode: u32) -> Result<File, ClientError> {
        let file = self.wait(self.inner.create_new(path.as_path(), mode))?;
        Ok(self.file(file))
    }

    /// The names in the directory that `path` leads to, with handles and attributes if the server gives them;
    /// `.` and `..` are left out.
    pub fn read_dir(&self, path: impl AsPath) -> Result<ReadDir, ClientError> {
        let dir = self.wait(self.inner.resolve(path.as_path()))?;
        Ok(ReadDir {
            stream: self.inner.list(&dir.handle, true),
            page: Vec::new().into_iter(),
            path: path.as_path().to_vec(),
            thread: self.thread.clone(),
        })
    }

    /// Creates a directory with permission bits `mode`.
    pub fn mkdir(&self, path: impl AsPath, mode: u32) -> Result<Node, ClientError> {
        self.wait(self.inner.mkdir(path.as_path(), mode))
    }

    /// Creates a symbolic link at `path` that points to `target`.
    pub fn symlink(&self, path: impl AsPath, target: impl AsPath) -> Result<Node, ClientError> {
        self.wait(self.inner.symlink(path.as_path(), target.as_path()))
    }

    /// Gives what `existing` names the further name `path`.
    pub fn link(&self, existing: impl AsPath, path: impl AsPath) -> Result<(), ClientError> {
        self.wait(self.inner.link(existing.as_path(), path.as_path()))
    }

    /// Removes a name that is not a directory's.
    pub fn remove(&self, path: impl AsPath) -> Result<(), ClientError> {
        self.wait(self.inner.remove(path.as_path()))
    }

    /// Removes the directory `path`, which has to be empty.
    pub fn rmdir(&self, path: impl AsPath) -> Result<(), ClientError> {
        self.wait(self.inner.rmdir(path.as_path()))
    }

    /// Renames `from` to `to`, replacing what `to` names.
    pub fn rename(&self, from: impl AsPath, to: impl AsPath) -> Result<(), ClientError> {
        self.wait(self.inner.rename(from.as_path(), to.as_path()))
    }

    /// Changes attributes of what `path` leads to.
    pub fn setattr(&self, path: impl AsPath, new: &Sattr3) -> Result<(), ClientError> {
        self.wait(self.inner.setattr(path.as_path(), new))
    }

    /// Ends the use of the export: see [`client::Client::unmount`], which also tells of data that was lost
    /// after its file was dropped without [`File::close`].
    pub fn unmount(self) -> Result<(), ClientError> {
        self.thread.wait(self.inner.unmount())
    }

    fn file(&self, file: file::File) -> File {
        File {
            cursor: file.cursor(),
            thread: self.thread.clone(),
        }
    }
}

/// An open regular file and a place in it, as [`std::fs::File`].
///
/// Data is taken over and sent behind. [`Write::flush`], [`File::sync`] and [`File::close`] bring it to stable storage
/// and tell if any of it did not come there. Dropping the file does the same and waits, but can tell nobody:
/// [`Client::unmount`] does then.
#[derive(Debug)]
pub struct File {
    cursor: Cursor,
    thread: Arc<Thread>,
}

impl File {
    /// The asynchronous file.
    pub fn inner(&self) -> &file::File {
        self.cursor.file()
    }

    /// The attributes; the size counts what was written and is still on its way.
    pub fn stat(&self) -> Result<Fattr3, ClientError> {
        self.thread.wait(self.inner().stat())
    }

    /// Sets the length, bytes, after what was written before it.
    pub fn set_len(&self, len: u64) -> Result<(), ClientError> {
        self.thread.wait(self.inner().set_len(len))
    }

    /// Reads from `offset` into `buf`, and returns how many bytes: fewer only at the end of the file. The place of
    /// the file stays.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, ClientError> {
        let read = self.thread.wait(self.inner().read_at(offset, buf.len()))?;
        let len = read.data.len().min(buf.len());
        let (into, _) = buf.split_at_mut(len);
        into.copy_from_slice(&read.data.slice(..len));
        Ok(len)
    }

    /// Writes all of `data` at `offset`. The place of the file stays.
    pub fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), ClientError> {
        let data = bytes::Bytes::copy_from_slice(data);
        self.cursor.mark_unsafe();
        self.thread.wait(self.inner().write_at(offset, data))
    }

    /// Brings everything written so far to stable storage (COMMIT).
    ///
    /// # Errors
    /// Also those of earlier writes: see [`file::File`].
    pub fn sync(&mut self) -> Result<(), ClientError> {
        self.thread.wait(self.cursor.sync())
    }

    /// As [`File::sync`], at the end of the file's use.
    pub fn close(mut self) -> Result<(), ClientError> {
        let synced = self.sync();
        // What failed is told here, and not once more.
        self.cursor.mark_told();
        synced
    }
}

impl Read for File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.thread.wait(self.cursor.read(buf))
    }
}

impl Write for File {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.thread.wait(self.cursor.write(buf))
    }

    /// As [`File::sync`].
    fn flush(&mut self) -> io::Result<()> {
        self.thread.wait(self.cursor.flush())
    }
}

impl Seek for File {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.thread.wait(self.cursor.seek(position))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // In a runtime nothing may wait, and the cursor's own end takes care of it.
        if self.cursor.is_dirty() && tokio::runtime::Handle::try_current().is_err() {
            let synced = self.sync();
            // A failure is remembered for whoever unmounts.
            if synced.is_err() {
                self.cursor.remember(synced);
            }
        }
    }
}

/// The entries of a directory. See [`Client::read_dir`].
///
/// After an error there is nothing more to come.
#[derive(Debug)]
#[must_use = "nothing is asked of the server before the next entry is"]
pub struct ReadDir {
    stream: DirStream,
    page: std::vec::IntoIter<DirEntry>,
    path: Vec<u8>,
    thread: Arc<Thread>,
}

impl Iterator for ReadDir {
    type Item = Result<DirEntry, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.page.find(|entry| !entry.is_dot()) {
                return Some(Ok(entry));
            }
            match self.thread.wait(self.stream.next()) {
                Ok(page) => self.page = page?.into_iter(),
                Err(error) => return Some(Err(error.of(&self.path))),
            }
        }
    }
}

/// The thread that everything lives on: it ends with the last that uses it.
#[derive(Debug)]
struct Thread {
    runtime: tokio::runtime::Handle,
    /// Dropped, it ends the thread. That is not waited for: nothing is left to be done there.
    _stop: oneshot::Sender<()>,
}

impl Thread {
    fn start() -> io::Result<Self> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("nfs-client".to_owned());
        thread.spawn(move || drop(runtime.block_on(stopped)))?;
        Ok(Self {
            runtime: handle,
            _stop: stop,
        })
    }

    fn wait<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }
}
