//! The file of the records while the server runs, whatever becomes of it and of its disk.
//!
//! A database of redb that met one failed write answers nothing any more: it is opened anew, after a pause, until it can
//! be written again. Meanwhile nothing is written, and nobody is granted what would rest on it. The first failure is
//! logged, with its cure, and the end of it.
//!
//! The file itself stays open. If it loses its name, as an administrator's mistake would have it, it is copied to a new
//! one of that name. A file that somebody has put in its place is let be, and is a failure like others: nobody but who did
//! it knows which of the two is to stay.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use nfs_state::Record;
use redb::backends::FileBackend;
use redb::{Database, ReadableTable as _};

use super::{CACHE_BYTES, EPOCH, META, Result, begin_to_make, name, put};
use crate::limits;

/// Bytes that are written over themselves in one piece.
const REWRITTEN_AT_ONCE: usize = 64 << 10;

pub(super) struct Kept {
    /// `None` after a failure, until it is opened anew.
    database: Option<Database>,
    /// Where it is kept; none in tests that have no file.
    place: Option<Place>,
    /// Since it cannot be written.
    failing: Option<Failing>,
    /// The record whose removal failed. It is put back before the next change, so that there is never a second one.
    put_back: Option<Record>,
}

struct Place {
    path: PathBuf,
    /// The file that the database is in, whatever its name has become.
    file: File,
}

struct Failing {
    retry_at: Instant,
    /// Changes that were not made.
    refused: u64,
}

impl Kept {
    /// Opens the file at `path`, which is there.
    ///
    /// # Errors
    /// When it cannot be opened, or is no sound database.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let place = Place {
            path: path.to_owned(),
            file,
        };
        Ok(Self {
            database: Some(place.open()?),
            place: Some(place),
            failing: None,
            put_back: None,
        })
    }

    #[cfg(test)]
    pub(super) const fn of(database: Database) -> Self {
        Self {
            database: Some(database),
            place: None,
            failing: None,
            put_back: None,
        }
    }

    pub(super) fn database(&self) -> Result<&Database> {
        self.database.as_ref().ok_or(redb::Error::PreviousIo)
    }

    /// Makes a change, which is on the disk when this returns.
    ///
    /// # Errors
    /// When it is not, for all that is known; the same without a try for [`limits::RECORDS_RETRY`] after a failure.
    pub(super) fn change(
        &mut self,
        now: Instant,
        change: impl FnOnce(&Database) -> Result<()>,
    ) -> Result<()> {
        if let Some(failing) = &mut self.failing
            && now < failing.retry_at
        {
            failing.refused += 1;
            return Err(redb::Error::PreviousIo);
        }
        let done = self.try_change(change);
        match &done {
            Ok(()) => self.ended(),
            Err(error) => self.failed(error, now),
        }
        done
    }

    /// Nobody knows whether this record is still there, as its removal failed. It is to be there again before anything
    /// else is changed.
    pub(super) fn put_back(&mut self, removed: Option<Record>) {
        self.put_back = removed.or(self.put_back.take());
    }

    /// Tries to write if that failed, and sees that the file has its name.
    pub(super) fn look(&mut self, now: Instant) {
        let is_due = match &self.failing {
            Some(failing) => now >= failing.retry_at,
            None => !self.has_its_name(),
        };
        if !is_due {
            return;
        }
        // A change that changes nothing: it tells whether the disk takes one. A failure is logged there.
        let _told = self.change(now, |database| {
            let transaction = database.begin_write()?;
            {
                let mut meta = transaction.open_table(META)?;
                let epoch = meta.get(EPOCH)?.map(|epoch| epoch.value().to_vec());
                if let Some(epoch) = epoch {
                    meta.insert(EPOCH, epoch.as_slice())?;
                }
            }
            Ok(transaction.commit()?)
        });
    }

    fn try_change(&mut self, change: impl FnOnce(&Database) -> Result<()>) -> Result<()> {
        if let Some(place) = &mut self.place
            && !place.has_its_name()?
        {
            // What it still has to write, it writes now.
            self.database = None;
            place.copy()?;
            tracing::warn!(
                file = %place.path.display(),
                "the records of NFSv4 clients were removed while the server runs; they are there again, and none is lost"
            );
        }
        if self.database.is_none() {
            let place = self.place.as_ref().ok_or(redb::Error::PreviousIo)?;
            if self.failing.is_some() {
                place.write_again()?;
            }
            self.database = Some(place.open()?);
        }
        let done = self.restore().and_then(|()| change(self.database()?));
        if done.is_err() {
            // Whether it is on the disk, the next opening finds out.
            self.database = None;
        }
        done
    }

    /// Puts back what [`Kept::put_back`] was told.
    fn restore(&mut self) -> Result<()> {
        if let Some(record) = &self.put_back {
            put(self.database()?, record)?;
            self.put_back = None;
        }
        Ok(())
    }

    fn has_its_name(&self) -> bool {
        let place = self.place.as_ref();
        place.is_none_or(|place| place.has_its_name().unwrap_or(false))
    }

    fn failed(&mut self, error: &redb::Error, now: Instant) {
        let retry_at = now + limits::RECORDS_RETRY;
        if let Some(failing) = &mut self.failing {
            failing.refused += 1;
            failing.retry_at = retry_at;
            return;
        }
        self.failing = Some(Failing {
            retry_at,
            refused: 1,
        });
        let path = self.place.as_ref().map(|place| place.path.as_path());
        tracing::error!(
            file = %path.unwrap_or(Path::new("")).display(),
            "the records of NFSv4 clients cannot be written: {error}; clients that hold something go on, those that \
             hold nothing yet get no open and no lock until they can; {}",
            cure(error)
        );
    }

    fn ended(&mut self) {
        if let Some(failing) = self.failing.take() {
            tracing::info!(
                refused = failing.refused,
                "the records of NFSv4 clients can be written again"
            );
        }
    }
}

impl Place {
    fn open(&self) -> Result<Database> {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        // redb may panic on what is damaged, unless it has looked at all of it. The file is small.
        builder.set_check_integrity_on_open(true);
        let backend = FileBackend::new(self.file.try_clone()?)?;
        Ok(builder.create_with_backend(backend)?)
    }

    /// # Errors
    /// When there is another file of that name, or it cannot be told.
    fn has_its_name(&self) -> io::Result<bool> {
        let found = match fs::metadata(&self.path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        let own = self.file.metadata()?;
        if (found.dev(), found.ino()) == (own.dev(), own.ino()) {
            Ok(true)
        } else {
            Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "another file was put in its place while the server runs",
            ))
        }
    }

    /// Writes all of the file over itself. The kernel takes pages whose writing failed for clean afterwards: they are
    /// read from memory as if they were on the disk, and no later sync would write them.
    fn write_again(&self) -> Result<()> {
        let mut piece = vec![0; REWRITTEN_AT_ONCE];
        let mut offset = 0;
        loop {
            let read = self.file.read_at(&mut piece, offset)?;
            let Some(bytes) = piece.get(..read).filter(|bytes| !bytes.is_empty()) else {
                return Ok(self.file.sync_all()?);
            };
            self.file.write_all_at(bytes, offset)?;
            offset += bytes.len() as u64;
        }
    }

    /// Puts a copy in the place of the file that has no name any more. What was committed is in it: it is as after a crash.
    fn copy(&mut self) -> Result<()> {
        let mut copy = begin_to_make(&self.path)?;
        self.file.rewind()?;
        io::copy(&mut self.file, &mut copy)?;
        name(&self.path)?;
        self.file = copy;
        Ok(())
    }
}

fn cure(error: &redb::Error) -> &'static str {
    let redb::Error::Io(error) = error else {
        return "the kernel's log may say what is wrong with the disk";
    };
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room in the state directory"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "the kernel may have made it read-only because of an error of the disk, which its log tells: then stop \
             the server, check the file system of the state directory, and mount it again"
        }
        io::ErrorKind::AlreadyExists => {
            "move that file away, and the server puts its own back; or restart the server to have it use that file"
        }
        _ => "the kernel's log may say what is wrong with the disk",
    }
}

#[cfg(test)]
mod tests {
    use nfs_state::{ClientId, Epoch, OwnerBytes, Principal, Record};

    use super::super::{Fresh, Records};
    use super::*;

    const FRESH: Fresh = Fresh {
        epoch: 1000,
        server_id: [7; 16],
    };

    fn record(owner: &[u8]) -> Record {
        Record {
            owner: OwnerBytes::new(owner).unwrap(),
            client: ClientId {
                epoch: Epoch(1000),
                index: 1,
            },
            principal: Principal::new(b"sys:0").unwrap(),
        }
    }

    /// What the next life of the server finds: its epoch, and how many records.
    fn next_life(path: &Path) -> (Epoch, usize) {
        let (_, found) = Records::open(path, FRESH).unwrap();
        (found.recovered.epoch, found.recovered.records.len())
    }

    #[test]
    fn a_removed_file_is_there_again_with_all_that_it_had() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("clients.redb");
        let (records, _) = Records::open(&path, FRESH).unwrap();
        records.write(&record(b"one")).unwrap();
        // Found by who looks, and by who writes.
        fs::remove_file(&path).unwrap();
        records.look();
        assert!(path.exists());
        fs::remove_file(&path).unwrap();
        records.write(&record(b"two")).unwrap();
        records.write(&record(b"three")).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        drop(records);
        assert_eq!(next_life(&path), (Epoch(1001), 3));
    }

    #[test]
    fn a_file_in_its_place_is_let_be_and_nothing_is_granted_beside_it() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("clients.redb");
        let (records, _) = Records::open(&path, FRESH).unwrap();
        records.write(&record(b"one")).unwrap();
        fs::rename(&path, scratch.path().join("own")).unwrap();
        fs::write(&path, "an older copy").unwrap();
        assert!(records.write(&record(b"two")).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"an older copy");
        fs::remove_file(&path).unwrap();
        let later = Instant::now() + limits::RECORDS_RETRY;
        records.kept.lock().look(later);
        drop(records);
        assert_eq!(next_life(&path), (Epoch(1001), 1));
    }

    #[test]
    fn what_could_not_be_written_is_tried_again_after_a_pause() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("clients.redb");
        let (records, _) = Records::open(&path, FRESH).unwrap();
        let now = Instant::now();
        let mut kept = records.kept.lock();
        // As on a file system that became read-only: every write fails.
        let place = kept.place.as_mut().unwrap();
        let own = std::mem::replace(&mut place.file, File::open(&path).unwrap());
        kept.database = None;
        let nothing = |_: &Database| Ok(());
        assert!(matches!(kept.change(now, nothing), Err(redb::Error::Io(_))));
        // All of it is written once more, and is as it was.
        let before = fs::read(&path).unwrap();
        let place = Place {
            path: path.clone(),
            file: own.try_clone().unwrap(),
        };
        place.write_again().unwrap();
        assert_eq!(fs::read(&path).unwrap(), before);
        kept.place.as_mut().unwrap().file = own;
        assert!(matches!(
            kept.change(now, nothing),
            Err(redb::Error::PreviousIo)
        ));
        assert_eq!(kept.failing.as_ref().unwrap().refused, 2);
        kept.look(now + limits::RECORDS_RETRY);
        assert!(kept.failing.is_none());
        kept.change(now, nothing).unwrap();
        drop(kept);
        records.write(&record(b"one")).unwrap();
        drop(records);
        assert_eq!(next_life(&path), (Epoch(1001), 1));
    }
}
