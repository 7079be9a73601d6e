//! The persistent handle table of a server without CAP_DAC_READ_SEARCH.
//!
//! Such a server cannot open a file by its kernel handle, so it gives every object that it hands
//! out an id and remembers where the object was seen: a parent's id and a name, up to
//! [`limits::HANDLE_TABLE_LOCATIONS_MAX`] of them. A handle carries the id. To find the object
//! again, the caller walks from a location's parent and compares the identity of what it finds;
//! a location is a hint, the identity is the truth. So a change made behind the server's back costs
//! at most a stale handle, never the wrong file. That holds for the table's own file too: an id has
//! a random part ([`TableId`]), so that a handle finds the record that it was made with or none,
//! whatever somebody puts in the file's place.
//!
//! What it promises: an id returned by [`HandleTable::intern`] is on stable storage; ids are never
//! given twice; the table survives `kill -9` and power cuts (redb commits are atomic). One thread
//! commits; callers that wait meanwhile share the next transaction and its flush.
//!
//! What it does not promise: an object is forgotten when the table is full and it is among the
//! longest unused ([`limits::HANDLE_TABLE_OBJECTS_MAX`]). Its handles are stale from then on; a
//! LOOKUP makes new ones. "Used" is noted in steps of a sixteenth of the table, not per call.
//! Without a birth time (`btime`) from the file system a new file that got the inode number of a
//! file removed behind the server's back cannot be told from it.
//!
//! A table that cannot be written goes on telling what it knows, and is tried again (`committer.rs`).
//! One that is damaged is refused when it is opened.
//!
//! All calls here may block on the disk: they belong on the helper pool, not on a shard.

mod committer;
mod file;
mod store;

use std::collections::HashSet;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};

use crate::limits;
use committer::Committer;
use store::{Check, Store};

/// How a handle names an object of the table.
///
/// Numbers begin anew in a table that replaces a lost one, and come again after an older copy of the
/// table was put back, or on a second server that works on a copy. The nonce does not: it is drawn
/// for each object when its record is made, so that a handle finds the record that it was made
/// with, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TableId {
    /// The number of the object's record, unique in one table.
    pub(crate) number: u64,
    /// A random number that is kept in the object's record, too.
    pub(crate) nonce: u64,
}

/// What makes an object the same object, as statx tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    /// The export it was reached through: the same file in two exports is two objects.
    pub(crate) export: u32,
    /// Stands for its file system. Not the device number, which may be another after a restart of
    /// the machine: what `vfs::Mount` makes of the place and the root of the file system.
    pub(crate) file_system: u64,
    /// Inode number of the object in its file system.
    pub(crate) ino: u64,
    /// Birth time, seconds and nanoseconds, where the file system keeps one.
    pub(crate) btime: Option<(i64, u32)>,
}

/// An object about to be handed out.
#[derive(Clone, Debug)]
pub(crate) struct NewObject {
    /// What the object is, to be recognised by.
    pub(crate) identity: Identity,
    /// The number of the directory it was seen in.
    pub(crate) parent: u64,
    /// The name that the object has in that directory.
    pub(crate) name: Vec<u8>,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Location {
    /// The number of the directory.
    pub(crate) parent: u64,
    /// The name that the directory has for the object.
    pub(crate) name: Vec<u8>,
}

/// What the table knows of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    /// What the object is; to be compared with what a location leads to.
    pub(crate) identity: Identity,
    /// Where it was seen, latest first. Empty only for the root of an export.
    pub(crate) locations: Vec<Location>,
}

/// The reason for which the table could not do what was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum TableError {
    /// The file cannot be opened or made.
    #[error(
        "the file cannot be opened ({0}); it must be a file that the server's user may read and write: chown or chmod it, or give another directory with --state-dir"
    )]
    Open(Arc<io::Error>),
    /// Another process has the file of the table open.
    #[error(
        "another server has the file open; stop it, or give another directory with --state-dir"
    )]
    InUse,
    /// The file is a database, but not of a format that this version knows.
    #[error("{}; run that program, or move the file away: then a new one is made, handles given out until now are stale, and clients mount again", match .0 {
        Some(format) => format!("the file is of a newer version of Penstock (format {format})"),
        None => "the file is another program's database".to_owned(),
    })]
    Foreign(Option<u64>),
    /// Reading failed, or what was read is no handle table.
    #[error(
        "the file is damaged or cannot be read ({0}); put a copy back, or remove it: then a new one is made, handles given out until now are stale, and clients mount again; no file of an export is lost"
    )]
    Storage(Arc<redb::Error>),
    /// Writing failed. It is tried again after [`limits::HANDLE_TABLE_RETRY`].
    #[error(
        "the handle table cannot be written ({0}); make room on the state directory's file system, or mend its disk"
    )]
    NotWritten(Arc<io::Error>),
    /// A record does not decode, or is that of another object.
    #[error(
        "the handle table is damaged at object {0}; stop the server and remove the table: handles given out until now are stale then, and clients mount again"
    )]
    Damaged(u64),
    /// A name that no file system takes: empty, too long, or with a slash or NUL byte.
    #[error("not a file name")]
    NotAName,
    /// More objects at once than one transaction takes ([`limits::HANDLE_TABLE_GROUP_MAX`]).
    #[error("{0} objects at once are too many")]
    BatchTooLarge(usize),
    /// The kernel gives no random numbers.
    #[error("the kernel gives no random numbers for handles")]
    NoRandomness,
    /// The committer has ended: it panicked, or the table is being dropped.
    #[error("the handle table is closed")]
    Closed,
}

impl<E: Into<redb::Error>> From<E> for TableError {
    fn from(error: E) -> Self {
        Self::Storage(Arc::new(error.into()))
    }
}

/// The table. Dropping it waits for the changes under way.
#[derive(Debug)]
pub(crate) struct HandleTable {
    shared: Arc<Shared>,
    /// The way to the committing thread; `None` only while the table is dropped.
    requests: Option<mpsc::SyncSender<Request>>,
    committer: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    /// Locked, so that no other server uses it.
    file: Arc<File>,
    cache_bytes: usize,
    /// The open database, or why there is none: it could not be opened again after a failure.
    store: RwLock<Result<Store, TableError>>,
    /// The time that the last opening of the file took.
    opening_took: Mutex<Duration>,
    /// False while the committer refuses what is new.
    is_writable: AtomicBool,
    /// Changes refused because the table could not be written.
    refused: AtomicU64,
    /// The number that the next new object gets: the table's clock, as numbers never go back.
    next_number: AtomicU64,
    /// Objects in use whose stamp has become old.
    touched: Mutex<HashSet<u64>>,
    objects_max: u64,
}

/// A change, and where its answer goes.
struct Request {
    change: Change,
    reply: mpsc::SyncSender<Result<Vec<TableId>, TableError>>,
}

/// A change of the table that a caller wants to be on stable storage.
#[derive(Debug)]
enum Change {
    Root(Identity),
    Intern(Vec<NewObject>),
    Renamed {
        from: Location,
        to: Location,
    },
    Linked {
        number: u64,
        at: Location,
    },
    Removed(Location),
    /// No change of the table, but a commit all the same: its result says whether the table can be written.
    Probe,
}

impl Change {
    const fn objects(&self) -> usize {
        match self {
            Self::Intern(objects) => objects.len(),
            Self::Root(_)
            | Self::Renamed { .. }
            | Self::Linked { .. }
            | Self::Removed(_)
            | Self::Probe => 1,
        }
    }
}

/// Opens the table's file, or makes it in the place of whatever is there.
fn open_file(path: &Path, makes: bool) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(makes)
        .truncate(false)
        // Whatever the umask is: names of files are nobody else's business.
        .mode(0o600)
        .open(path)
}

/// Keeps other servers out; a lock that this file has already is kept.
fn lock(file: &File) -> Result<(), TableError> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => TableError::InUse,
        TryLockError::Error(error) => TableError::Open(Arc::new(error)),
    })
}

impl HandleTable {
    /// Opens or creates the table at `path`, for at most `objects_max` objects. Looks at all of the
    /// file, to find damage.
    ///
    /// # Errors
    /// [`TableError`], with the cure.
    pub(crate) fn open(path: &Path, objects_max: u64) -> Result<Self, TableError> {
        Self::open_with_cache(path, objects_max, limits::HANDLE_TABLE_CACHE_BYTES_MAX)
    }

    /// Opens the table as `open` does, with another size of the cache, in bytes.
    fn open_with_cache(
        path: &Path,
        objects_max: u64,
        cache_bytes: usize,
    ) -> Result<Self, TableError> {
        let opened = |error: io::Error| TableError::Open(Arc::new(error));
        match open_file(path, false) {
            Ok(file) => Self::over(path, file, objects_max, cache_bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Self::make(path, objects_max, cache_bytes)
            }
            Err(error) => Err(opened(error)),
        }
    }

    /// Makes a table without objects. Its file gets its name when it is whole and on the disk: what is left of one whose
    /// making was cut off is no database, and a server that found it under that name could not start.
    fn make(path: &Path, objects_max: u64, cache_bytes: usize) -> Result<Self, TableError> {
        let opened = |error: io::Error| TableError::Open(Arc::new(error));
        let unfinished = path.with_extension("redb.new");
        let file = open_file(&unfinished, true).map_err(opened)?;
        lock(&file)?;
        file.set_len(0).map_err(opened)?;
        let table = Self::over(path, file, objects_max, cache_bytes)?;
        let store = table.shared.store.read();
        if let Some(failure) = store.as_ref().ok().and_then(Store::write_failure) {
            return Err(TableError::NotWritten(failure));
        }
        drop(store);
        let named = || {
            table.shared.file.sync_all()?;
            std::fs::rename(&unfinished, path)?;
            File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
        };
        named().map_err(opened)?;
        Ok(table)
    }

    /// Makes the table from its open file.
    fn over(
        path: &Path,
        file: File,
        objects_max: u64,
        cache_bytes: usize,
    ) -> Result<Self, TableError> {
        let opened = |error: io::Error| TableError::Open(Arc::new(error));
        lock(&file)?;
        let shared = Shared {
            path: path.to_owned(),
            file: Arc::new(file),
            cache_bytes,
            store: RwLock::new(Err(TableError::Closed)),
            opening_took: Mutex::default(),
            is_writable: AtomicBool::new(true),
            refused: AtomicU64::new(0),
            next_number: AtomicU64::new(0),
            touched: Mutex::new(HashSet::new()),
            objects_max,
        };
        let (store, next_number) = shared.open_store(Check::All)?;
        *shared.store.write() = Ok(store);
        shared.next_number.store(next_number, Ordering::Relaxed);
        let shared = Arc::new(shared);
        let (requests, incoming) = mpsc::sync_channel(limits::HANDLE_TABLE_QUEUE_MAX);
        let committer = std::thread::Builder::new()
            .name("handle-table".to_owned())
            .spawn({
                let committer = Committer::new(Arc::clone(&shared));
                move || committer.run(&incoming)
            })
            .map_err(opened)?;
        Ok(Self {
            shared,
            requests: Some(requests),
            committer: Some(committer),
        })
    }

    /// Succeeds if what is new can be handed out now, as far as is known: to be asked before something
    /// is made that needs a handle. Costs nothing but while the table cannot be written.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub(crate) fn check_writable(&self) -> Result<(), TableError> {
        if self.shared.is_writable.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.change(Change::Probe).map(drop)
    }

    /// Changes refused because the table could not be written.
    #[must_use]
    pub(crate) fn refused(&self) -> u64 {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// The id of an export's root, which is found by the export's path and never forgotten.
    ///
    /// # Errors
    /// See [`TableError`].
    pub(crate) fn root(&self, identity: Identity) -> Result<TableId, TableError> {
        if let Some(id) = self.read(|store| store.root(&identity))? {
            return Ok(id);
        }
        self.change(Change::Root(identity))?
            .first()
            .copied()
            .ok_or(TableError::Closed)
    }

    /// The ids of `objects`, in their order. New ones and new locations are on stable storage when
    /// this returns; if there are none nothing is written.
    ///
    /// # Errors
    /// See [`TableError`]; then nothing of the batch may be handed out.
    pub(crate) fn intern(&self, objects: Vec<NewObject>) -> Result<Vec<TableId>, TableError> {
        if objects.len() > limits::HANDLE_TABLE_GROUP_MAX {
            return Err(TableError::BatchTooLarge(objects.len()));
        }
        for object in &objects {
            check_name(&object.name)?;
        }
        if let Some(found) = self.read(|store| store.all_known(&objects))? {
            for (id, stamp) in &found {
                self.shared.used(id.number, *stamp);
            }
            return Ok(found.into_iter().map(|(id, _)| id).collect());
        }
        self.change(Change::Intern(objects))
    }

    /// What is known of `id`; `None` if this table never gave it, or has forgotten it.
    ///
    /// # Errors
    /// See [`TableError`].
    pub(crate) fn object(&self, id: TableId) -> Result<Option<Object>, TableError> {
        let Some((object, stamp)) = self.read(|store| store.object(id))? else {
            return Ok(None);
        };
        self.shared.used(id.number, stamp);
        Ok(Some(object))
    }

    /// The id of the object of this identity, if it has one.
    ///
    /// # Errors
    /// See [`TableError`].
    pub(crate) fn find(&self, identity: &Identity) -> Result<Option<TableId>, TableError> {
        let Some((id, stamp)) = self.read(|store| store.find(identity))? else {
            return Ok(None);
        };
        self.shared.used(id.number, stamp);
        Ok(Some(id))
    }

    /// Where to look for `id`: paths from the export's root, names joined by slashes, shortest
    /// first, at most [`limits::HANDLE_TABLE_PATHS_MAX`]. Empty for the root itself, for what is
    /// not known, and where a directory on every way has been forgotten.
    ///
    /// # Errors
    /// See [`TableError`].
    pub(crate) fn paths(&self, id: TableId) -> Result<Vec<Vec<u8>>, TableError> {
        self.read(|store| store.paths(id, |number, stamp| self.shared.used(number, stamp)))
    }

    /// The object numbered `number` has, or is about to get, the name `name` in `parent` too. Durable
    /// when this returns.
    ///
    /// # Errors
    /// See [`TableError`].
    pub(crate) fn linked(&self, number: u64, parent: u64, name: &[u8]) -> Result<(), TableError> {
        check_name(name)?;
        let at = Location {
            parent,
            name: name.to_vec(),
        };
        self.change(Change::Linked { number, at }).map(drop)
    }

    /// The object last seen at `from` (a directory's number and a name) is now at `to`; what was at
    /// `to` is there no longer. Durable when this returns. Where a handle must survive a crash
    /// between the rename and this call, call [`HandleTable::linked`] with the new name before: a
    /// location too many does no harm.
    ///
    /// # Errors
    /// See [`TableError`].
    pub(crate) fn renamed(&self, from: (u64, &[u8]), to: (u64, &[u8])) -> Result<(), TableError> {
        check_name(to.1)?;
        let location = |(parent, name): (u64, &[u8])| Location {
            parent,
            name: name.to_vec(),
        };
        self.change(Change::Renamed {
            from: location(from),
            to: location(to),
        })
        .map(drop)
    }

    /// The name `name` in `parent` is gone. An object of which no other name is known is forgotten
    /// with it.
    ///
    /// # Errors
    /// See [`TableError`].
    pub(crate) fn removed(&self, parent: u64, name: &[u8]) -> Result<(), TableError> {
        self.change(Change::Removed(Location {
            parent,
            name: name.to_vec(),
        }))
        .map(drop)
    }

    /// How many objects are known, export roots included.
    ///
    /// # Errors
    /// See [`TableError`].
    #[cfg(test)]
    pub(crate) fn objects(&self) -> Result<u64, TableError> {
        self.read(Store::objects)
    }

    /// Asks the store. One that has just failed may know what is lost with it: the committer opens
    /// the file anew then, and who asks waits for that.
    fn read<T>(&self, ask: impl Fn(&Store) -> Result<T, TableError>) -> Result<T, TableError> {
        for _ in 0..limits::HANDLE_TABLE_READ_TRIES_MAX {
            let answer = {
                let store = self.shared.store.read();
                let store = store.as_ref();
                store.map_or_else(
                    |error| Err(error.clone()),
                    |store| {
                        let answer = ask(store);
                        if store.is_current() {
                            answer.map(Some)
                        } else {
                            Ok(None)
                        }
                    },
                )
            };
            match answer {
                Ok(Some(answer)) => return Ok(answer),
                Err(error @ TableError::Damaged(_)) => return Err(error),
                // The committer's answer to this says only whether the table can be written.
                Ok(None) | Err(_) => drop(self.change(Change::Probe)),
            }
        }
        let store = self.shared.store.read();
        ask(store.as_ref().map_err(Clone::clone)?)
    }

    fn change(&self, change: Change) -> Result<Vec<TableId>, TableError> {
        let (reply, answer) = mpsc::sync_channel(1);
        let requests = self.requests.as_ref().ok_or(TableError::Closed)?;
        requests
            .send(Request { change, reply })
            .map_err(|_| TableError::Closed)?;
        answer.recv().map_err(|_| TableError::Closed)?
    }
}

impl Drop for HandleTable {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(committer) = self.committer.take()
            && committer.join().is_err()
        {
            tracing::error!("the thread of the handle table panicked");
        }
    }
}

impl Drop for Shared {
    /// Closes the database, which may write, and unlocks the file. Closing that would not do: a child process that is
    /// between fork and exec has a descriptor of it too, and the lock would last until its exec.
    fn drop(&mut self) {
        *self.store.get_mut() = Err(TableError::Closed);
        if let Err(error) = self.file.unlock() {
            tracing::warn!(%error, path = %self.path.display(), "the handle table cannot be unlocked");
        }
    }
}

impl Shared {
    fn open_store(&self, check: Check) -> Result<(Store, u64), TableError> {
        let began = Instant::now();
        let opened = Store::open(&self.file, check, self.cache_bytes);
        *self.opening_took.lock() = began.elapsed();
        opened
    }

    /// Notes that an object, last stamped `stamp`, is in use, if its stamp has become old.
    fn used(&self, number: u64, stamp: u64) {
        let step = (self.objects_max / 16).max(1);
        if stamp.saturating_add(step) > self.next_number.load(Ordering::Relaxed) {
            return;
        }
        let mut touched = self.touched.lock();
        if touched.len() < limits::HANDLE_TABLE_TOUCHED_MAX {
            touched.insert(number);
        }
    }
}

fn check_name(name: &[u8]) -> Result<(), TableError> {
    let dots = matches!(name, b"" | b"." | b"..");
    if dots
        || name.len() > limits::HANDLE_TABLE_NAME_BYTES_MAX
        || name.iter().any(|byte| matches!(byte, 0 | b'/'))
    {
        return Err(TableError::NotAName);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
