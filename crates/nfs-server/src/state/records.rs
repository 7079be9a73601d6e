//! What of the clients' state must be on the disk before anything rests on it: the server's epoch, and one record
//! for each client that may have state. `clients.redb` in the state directory.
//!
//! ```text
//! records  the client's own name -> Record::encode
//! meta     "epoch" -> the epoch of the last life; "server_id" -> 16 random bytes, the same for ever
//! ```
//!
//! The first epoch of a file is a random one. Where the file was lost, an earlier life's ids are still with its
//! clients, and an epoch that begins at 1 again would soon take them for its own.
//!
//! Each change is one transaction, which is synced when it returns. What becomes of the file while the server runs, and of
//! the disk that it is on, is `kept.rs`'s business.

mod kept;

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Instant;

use nfs_state::{Epoch, Record, RecordRemoval, Recovered};
use parking_lot::Mutex;
#[cfg(test)]
use redb::ReadableDatabase as _;
use redb::backends::FileBackend;
use redb::{Database, ReadableTable, TableDefinition, WriteTransaction};

use self::kept::Kept;

const RECORDS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records");
const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
const EPOCH: &str = "epoch";
const SERVER_ID: &str = "server_id";
/// Memory for pages of the file, in bytes: records are few and short.
const CACHE_BYTES: usize = 1 << 20;
/// The mode of the file.
const OWNER_ONLY: u32 = 0o600;

/// The records of clients, open for the server's life.
pub(super) struct Records {
    kept: Mutex<Kept>,
}

/// What a server begins with that has no records of an earlier life: random bits.
#[derive(Clone, Copy)]
pub(super) struct Fresh {
    /// The first epoch, any number; 0 is taken as 1.
    pub(super) epoch: u32,
    pub(super) server_id: [u8; 16],
}

/// What an earlier life of the server left.
pub(super) struct Found {
    pub(super) recovered: Recovered,
    /// What tells this server from all others, whatever addresses it has.
    pub(super) server_id: [u8; 16],
}

type Result<T> = std::result::Result<T, redb::Error>;

impl Records {
    /// Opens the records, or makes them, and begins a new epoch, which is on the disk when this returns. `fresh` is for a
    /// server that has no records yet.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub(super) fn open(path: &Path, fresh: Fresh) -> Result<(Self, Found)> {
        if path.exists() {
            // Earlier versions made it open to everybody who could reach it.
            fs::set_permissions(path, Permissions::from_mode(OWNER_ONLY))?;
        } else {
            make(path)?;
        }
        let kept = Kept::open(path)?;
        let found = begin_epoch(kept.database()?, fresh)?;
        let kept = Mutex::new(kept);
        Ok((Self { kept }, found))
    }

    /// Writes a record over whatever is there; synced when this returns.
    ///
    /// # Errors
    /// When it is not on the disk, for all that is known. The first of several failures is logged, and their end.
    pub(super) fn write(&self, record: &Record) -> Result<()> {
        self.change(|database| put(database, record))
    }

    /// Removes a client's record, unless a later life of the client wrote its own meanwhile; synced when this returns.
    ///
    /// # Errors
    /// As [`Records::write`]. The client keeps what it holds then: if its record is gone nevertheless, it is put back as
    /// soon as the file can be written.
    pub(super) fn remove(&self, removal: &RecordRemoval) -> Result<()> {
        self.remove_by(removal, |transaction| Ok(transaction.commit()?))
    }

    fn remove_by(
        &self,
        removal: &RecordRemoval,
        commit: impl FnOnce(WriteTransaction) -> Result<()>,
    ) -> Result<()> {
        let mut kept = self.kept.lock();
        let mut removed = None;
        let done = kept.change(Instant::now(), |database| {
            let transaction = database.begin_write()?;
            {
                let mut table = transaction.open_table(RECORDS)?;
                let owner = removal.owner.as_bytes();
                let stored = table.get(owner)?;
                let stored = stored.and_then(|value| Record::decode(owner, value.value()));
                if let Some(stored) = stored.filter(|stored| removal.applies_to(stored)) {
                    table.remove(owner)?;
                    removed = Some(stored);
                }
            }
            commit(transaction)
        });
        if done.is_err() {
            kept.put_back(removed);
        }
        done
    }

    /// Removes all records of earlier epochs than this one; synced when this returns.
    ///
    /// # Errors
    /// As [`Records::write`].
    pub(super) fn remove_before(&self, epoch: Epoch) -> Result<()> {
        self.change(|database| {
            let transaction = database.begin_write()?;
            transaction.open_table(RECORDS)?.retain(|owner, value| {
                Record::decode(owner, value).is_some_and(|record| record.client.epoch == epoch)
            })?;
            Ok(transaction.commit()?)
        })
    }

    /// Looks whether the file still has its name, and whether it can be written again if it could not. To be called now
    /// and then; of no effect while a change is being made.
    pub(super) fn look(&self) {
        if let Some(mut kept) = self.kept.try_lock() {
            kept.look(Instant::now());
        }
    }

    fn change(&self, change: impl FnOnce(&Database) -> Result<()>) -> Result<()> {
        self.kept.lock().change(Instant::now(), change)
    }

    /// How many records there are.
    #[cfg(test)]
    fn len(&self) -> usize {
        let kept = self.kept.lock();
        let transaction = kept.database().unwrap().begin_read().unwrap();
        transaction
            .open_table(RECORDS)
            .unwrap()
            .iter()
            .unwrap()
            .count()
    }
}

/// Writes a record over whatever is there.
fn put(database: &Database, record: &Record) -> Result<()> {
    let transaction = database.begin_write()?;
    transaction
        .open_table(RECORDS)?
        .insert(record.owner.as_bytes(), record.encode().as_slice())?;
    Ok(transaction.commit()?)
}

fn begin_epoch(database: &Database, fresh: Fresh) -> Result<Found> {
    let transaction = database.begin_write()?;
    let found = {
        let mut meta = transaction.open_table(META)?;
        let last = meta.get(EPOCH)?.map(|value| number(value.value()));
        let next = last.map_or(fresh.epoch, |last| last.wrapping_add(1));
        // Never 0, so that no id is all zeros.
        let epoch = next.max(1);
        meta.insert(EPOCH, epoch.to_be_bytes().as_slice())?;
        let kept = meta
            .get(SERVER_ID)?
            .and_then(|id| id.value().try_into().ok());
        let server_id = kept.unwrap_or(fresh.server_id);
        meta.insert(SERVER_ID, server_id.as_slice())?;
        let table = transaction.open_table(RECORDS)?;
        let mut records = Vec::new();
        for entry in table.iter()? {
            let (owner, value) = entry?;
            match Record::decode(owner.value(), value.value()) {
                Some(record) => records.push(record),
                None => tracing::warn!(
                    "a record of an NFSv4 client in clients.redb is damaged: this client loses its opens and \
                         locks"
                ),
            }
        }
        Found {
            recovered: Recovered {
                epoch: Epoch(epoch),
                records,
            },
            server_id,
        }
    };
    transaction.commit()?;
    Ok(found)
}

/// Makes a file without records.
fn make(path: &Path) -> Result<()> {
    let unfinished = begin_to_make(path)?;
    drop(Database::builder().create_with_backend(FileBackend::new(unfinished)?)?);
    name(path).map_err(redb::Error::Io)
}

/// A new file beside the one at `path`. It gets its name when it is whole and on the disk ([`name`]): what is left of one
/// whose making was cut off is no database, and a server that found it under that name could not start.
fn begin_to_make(path: &Path) -> Result<File> {
    let unfinished = path.with_extension("redb.new");
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(redb::Error::Io(error));
        }
        _ => {}
    }
    // Whatever the umask is, which is 0 in a server: who could write the records could end clients' state.
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    let made = options.mode(OWNER_ONLY).open(&unfinished);
    made.map_err(redb::Error::Io)
}

/// Puts the file of [`begin_to_make`] on the disk under its name.
fn name(path: &Path) -> io::Result<()> {
    let unfinished = path.with_extension("redb.new");
    File::open(&unfinished)?.sync_all()?;
    fs::rename(&unfinished, path)?;
    let dir = path.parent().unwrap_or(Path::new("."));
    File::open(dir)?.sync_all()
}

fn number(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(0, u32::from_be_bytes)
}

#[cfg(test)]
mod power;

#[cfg(test)]
mod tests {
    use nfs_state::{ClientId, OwnerBytes, Principal};

    use super::*;

    #[test]
    fn the_file_is_its_owners_alone_whatever_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("clients.redb");
        let fresh = Fresh {
            epoch: 1,
            server_id: [7; 16],
        };
        let mode = || path.metadata().unwrap().permissions().mode() & 0o777;
        nfs_io::fs::umask_zero();
        drop(Records::open(&path, fresh).unwrap());
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        drop(Records::open(&path, fresh).unwrap());
        assert_eq!(mode(), 0o600);
    }

    fn record(owner: &[u8], epoch: u32) -> Record {
        Record {
            owner: OwnerBytes::new(owner).unwrap(),
            client: ClientId {
                epoch: Epoch(epoch),
                index: 1,
            },
            principal: Principal::new(b"sys:0").unwrap(),
        }
    }

    const fn fresh(epoch: u32, id: u8) -> Fresh {
        Fresh {
            epoch,
            server_id: [id; 16],
        }
    }

    /// What the next life finds after a removal that the disk did not acknowledge, which `commit` makes.
    fn found_after_failed_removal(
        commit: impl FnOnce(WriteTransaction) -> Result<()>,
        then: impl FnOnce(&Records),
    ) -> Vec<Record> {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("clients.redb");
        let (records, _) = Records::open(&path, fresh(1, 7)).unwrap();
        records.write(&record(b"one", 1)).unwrap();
        let Record { owner, client, .. } = record(b"one", 1);
        let removal = RecordRemoval { owner, client };
        assert!(records.remove_by(&removal, commit).is_err());
        then(&records);
        drop(records);
        let (_, found) = Records::open(&path, fresh(1, 7)).unwrap();
        found.recovered.records
    }

    /// The worst that a failed sync leaves: all of it is on the disk, and the error says that it is not.
    fn reaches_the_disk(transaction: WriteTransaction) -> Result<()> {
        transaction.commit()?;
        Err(redb::Error::Io(io::Error::other("fsync failed")))
    }

    /// The other way: nothing of it is.
    fn is_lost(_transaction: WriteTransaction) -> Result<()> {
        Err(redb::Error::Io(io::Error::other("fsync failed")))
    }

    #[test]
    fn who_was_not_removed_has_its_record_whatever_the_disk_did() {
        let later = |records: &Records| {
            let later = Instant::now() + crate::limits::RECORDS_RETRY;
            records.kept.lock().look(later);
        };
        let one = [record(b"one", 1)];
        assert_eq!(found_after_failed_removal(reaches_the_disk, later), one);
        assert_eq!(found_after_failed_removal(is_lost, later), one);
        // The power goes before anything could be put back: all or nothing of it.
        let at_once = |_: &Records| ();
        assert_eq!(found_after_failed_removal(reaches_the_disk, at_once), []);
        assert_eq!(found_after_failed_removal(is_lost, at_once), one);
    }

    #[test]
    fn a_later_life_and_a_second_removal_win_over_what_is_put_back() {
        let as_of = |epoch| {
            move |records: &Records| {
                let mut kept = records.kept.lock();
                let later = Instant::now() + crate::limits::RECORDS_RETRY;
                let of_later = record(b"one", epoch);
                kept.change(later, |database| put(database, &of_later))
                    .unwrap();
            }
        };
        let found = found_after_failed_removal(reaches_the_disk, as_of(2));
        assert_eq!(found, [record(b"one", 2)]);
        let again = |records: &Records| {
            records
                .kept
                .lock()
                .look(Instant::now() + crate::limits::RECORDS_RETRY);
            let Record { owner, client, .. } = record(b"one", 1);
            records.remove(&RecordRemoval { owner, client }).unwrap();
            records.look();
        };
        assert_eq!(found_after_failed_removal(reaches_the_disk, again), []);
    }

    #[test]
    fn no_epoch_is_0() {
        let scratch = tempfile::tempdir().unwrap();
        for (first, name) in [(0, "zero.redb"), (u32::MAX, "last.redb")] {
            let path = scratch.path().join(name);
            for _life in 0..2 {
                let (_records, found) = Records::open(&path, fresh(first, 7)).unwrap();
                assert_ne!(found.recovered.epoch, Epoch(0), "{name}");
            }
        }
    }

    /// Whatever is wrong with the file, the server ends with a word about it or goes on, and never panics.
    #[test]
    fn damaged_records_are_refused_or_read() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("clients.redb");
        let (records, _found) = Records::open(&path, fresh(1, 7)).unwrap();
        for owner in 0..100_u8 {
            records.write(&record(&[owner; 100], 1)).unwrap();
        }
        drop(records);
        let whole = std::fs::read(&path).unwrap();
        let mut refused = 0;
        for seed in 0..200_usize {
            let mut damaged = whole.clone();
            // Somewhere in the pages that are used: a few hundred bytes of it.
            let at = seed * 257 % damaged.len().min(64 << 10);
            let end = (at + 300).min(damaged.len());
            damaged[at..end].iter_mut().for_each(|byte| *byte ^= 0x55);
            std::fs::write(&path, &damaged).unwrap();
            refused += u32::from(Records::open(&path, fresh(1, 7)).is_err());
        }
        assert!(refused > 20, "{refused} of 200 were refused");
    }

    #[test]
    fn a_server_starts_whose_first_start_was_cut_off() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("clients.redb");
        // As long as redb makes a file at first, and nothing in it: seen with the power cut at its second call.
        fs::write(scratch.path().join("clients.redb.new"), vec![0; 1 << 20]).unwrap();
        drop(Records::open(&path, fresh(1, 7)).unwrap());
        let names = fs::read_dir(scratch.path()).unwrap();
        let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["clients.redb"]);
    }

    #[test]
    fn each_life_has_an_epoch_of_its_own_and_finds_the_records_of_the_last() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("clients.redb");
        let (records, found) = Records::open(&path, fresh(1000, 7)).unwrap();
        assert_eq!(found.recovered.epoch, Epoch(1000));
        assert!(found.recovered.records.is_empty());
        records.write(&record(b"one", 1000)).unwrap();
        records.write(&record(b"two", 1000)).unwrap();
        drop(records);

        let (records, found) = Records::open(&path, fresh(9, 8)).unwrap();
        assert_eq!(found.recovered.epoch, Epoch(1001));
        assert_eq!(found.server_id, [7; 16], "the same in each life");
        assert_eq!(found.recovered.records.len(), 2);
        records.write(&record(b"two", 1001)).unwrap();
        // The removal of an earlier life's record leaves the one that was written since.
        let of_earlier = RecordRemoval {
            owner: OwnerBytes::new(b"two").unwrap(),
            client: record(b"two", 1000).client,
        };
        records.remove(&of_earlier).unwrap();
        assert_eq!(records.len(), 2);
        records.remove_before(Epoch(1001)).unwrap();
        assert_eq!(records.len(), 1);
    }
}
