//! The tables of the handle table's file, and the changes of one transaction.
//!
//! ```text
//! objects  number             -> (stamp, nonce, identity, locations)
//! ids      identity           -> number
//! names    (parent, name)     -> number of the object last seen there
//! ages     (stamp, number)    -> ()       all objects but the roots: the first is forgotten first
//! meta     "format", "next_id": the next number
//! ```

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io;
use std::sync::Arc;

use redb::{Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};

use super::file::TableFile;
use super::{Change, Identity, Location, NewObject, Object, TableError, TableId};
use crate::limits;

type Result<T> = std::result::Result<T, TableError>;

/// Export, file system, inode, birth time (seconds, nanoseconds; [`NO_BTIME`] when there is none).
type IdentityKey = (u32, u64, u64, i64, u32);
/// The record of an object: stamp, nonce, identity and encoded locations.
type Record = (u64, u64, IdentityKey, &'static [u8]);

const OBJECTS: TableDefinition<'_, u64, Record> = TableDefinition::new("objects");
const IDS: TableDefinition<'_, IdentityKey, u64> = TableDefinition::new("ids");
const NAMES: TableDefinition<'_, (u64, &[u8]), u64> = TableDefinition::new("names");
const AGES: TableDefinition<'_, (u64, u64), ()> = TableDefinition::new("ages");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

/// Format 1 had no nonces, and identities with device numbers. No handle that was given out by such
/// a table is good any more, so it is emptied rather than carried over.
const FORMAT: u64 = 2;
const FORMAT_WITHOUT_NONCES: u64 = 1;
const FIRST_NUMBER: u64 = 1;
const NO_BTIME: (i64, u32) = (i64::MIN, 0);
/// The stamp of an export's root: it has no age.
const ROOT_STAMP: u64 = u64::MAX;

#[derive(Debug)]
pub(super) struct Store {
    database: Database,
    file: TableFile,
    /// The file could not be written when the store was opened: it is good for reading.
    read_only: bool,
}

/// Whether all of the file is looked at before it is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// Every page, by its checksum: redb may panic on a damaged file otherwise. Reads the whole file.
    All,
    /// Look only for what a crash may have left.
    AfterCrash,
}

impl Store {
    /// The store, and the next number to give.
    pub(super) fn open(file: &Arc<File>, check: Check, cache_bytes: usize) -> Result<(Self, u64)> {
        let file = TableFile::new(Arc::clone(file));
        let mut builder = Database::builder();
        builder.set_cache_size(cache_bytes);
        builder.set_check_integrity_on_open(check == Check::All);
        let database = builder.create_with_backend(file.clone())?;
        let transaction = database.begin_write()?;
        let (next_number, changed) = prepare(&transaction)?;
        if changed {
            transaction.commit()?;
        } else {
            transaction.abort()?;
        }
        let read_only = file.failure().is_some();
        let store = Self {
            database,
            file,
            read_only,
        };
        Ok((store, next_number))
    }

    /// Why nothing is written any more; `None` while all is. What this store says then may be lost with it,
    /// unless it was opened so.
    pub(super) fn write_failure(&self) -> Option<Arc<io::Error>> {
        self.file.failure()
    }

    /// True for a store that has the same as its file: reads may be believed.
    pub(super) fn is_current(&self) -> bool {
        self.read_only || self.file.failure().is_none()
    }

    #[cfg(test)]
    pub(super) fn objects(&self) -> Result<u64> {
        Ok(self.database.begin_read()?.open_table(OBJECTS)?.len()?)
    }

    /// The object with this id and its stamp; `None` where it is not known.
    pub(super) fn object(&self, id: TableId) -> Result<Option<(Object, u64)>> {
        let objects = self.database.begin_read()?.open_table(OBJECTS)?;
        let Some(found) = objects.get(id.number)? else {
            return Ok(None);
        };
        let (stamp, nonce, key, locations) = found.value();
        if nonce != id.nonce {
            return Ok(None);
        }
        let locations = decode_locations(locations).ok_or(TableError::Damaged(id.number))?;
        Ok(Some((
            Object {
                identity: identity_of(key),
                locations,
            },
            stamp,
        )))
    }

    /// The id and the stamp of the object of this identity.
    pub(super) fn find(&self, identity: &Identity) -> Result<Option<(TableId, u64)>> {
        let transaction = self.database.begin_read()?;
        let ids = transaction.open_table(IDS)?;
        let Some(number) = ids.get(key_of(identity))? else {
            return Ok(None);
        };
        let objects = transaction.open_table(OBJECTS)?;
        let record = objects.get(number.value())?;
        record
            .map(|record| known(number.value(), record.value(), identity))
            .transpose()
    }

    /// The id of a root that is known as one.
    pub(super) fn root(&self, identity: &Identity) -> Result<Option<TableId>> {
        let found = self.find(identity)?;
        Ok(found
            .filter(|(_, stamp)| *stamp == ROOT_STAMP)
            .map(|(id, _)| id))
    }

    /// Paths from an export's root to `id`; `used` is told of every object on a way.
    pub(super) fn paths(&self, id: TableId, used: impl Fn(u64, u64)) -> Result<Vec<Vec<u8>>> {
        let objects = self.database.begin_read()?.open_table(OBJECTS)?;
        let mut paths = Vec::new();
        // Objects on the way up and the path from there down, shortest first. Renames seen in an
        // unlucky order can close a way to a circle, hence the bounds.
        let mut climbing = VecDeque::from([(id.number, Vec::new())]);
        for _ in 0..limits::HANDLE_TABLE_CLIMB_STEPS_MAX {
            let Some((number, below)) = climbing.pop_front() else {
                break;
            };
            let Some(found) = objects.get(number)? else {
                continue;
            };
            let (stamp, nonce, _, locations) = found.value();
            if number == id.number && nonce != id.nonce {
                break;
            }
            used(number, stamp);
            if stamp == ROOT_STAMP {
                if !below.is_empty() {
                    paths.push(below);
                }
                if paths.len() >= limits::HANDLE_TABLE_PATHS_MAX {
                    break;
                }
                continue;
            }
            let locations = decode_locations(locations).ok_or(TableError::Damaged(number))?;
            for location in locations {
                let mut path = location.name;
                if !below.is_empty() {
                    path.push(b'/');
                    path.extend_from_slice(&below);
                }
                if path.len() < limits::HANDLE_TABLE_PATH_BYTES_MAX {
                    climbing.push_back((location.parent, path));
                }
            }
        }
        Ok(paths)
    }

    /// The ids and stamps of `objects` if all of them are known at their locations.
    pub(super) fn all_known(&self, objects: &[NewObject]) -> Result<Option<Vec<(TableId, u64)>>> {
        let transaction = self.database.begin_read()?;
        let ids = transaction.open_table(IDS)?;
        let names = transaction.open_table(NAMES)?;
        let records = transaction.open_table(OBJECTS)?;
        let mut found = Vec::with_capacity(objects.len());
        for object in objects {
            let Some(number) = ids.get(key_of(&object.identity))? else {
                return Ok(None);
            };
            let number = number.value();
            let name = (object.parent, object.name.as_slice());
            // The name table says who was last seen there: if it is this object, its record holds
            // the location, unless more than the record's share of names came after it.
            if names.get(name)?.is_none_or(|seen| seen.value() != number) {
                return Ok(None);
            }
            let Some(record) = records.get(number)? else {
                return Ok(None);
            };
            found.push(known(number, record.value(), &object.identity)?);
        }
        Ok(Some(found))
    }

    /// Makes all `changes`, in order, in one durable transaction. Returns the next id to give and
    /// the answer to each change. If nothing changed nothing is written.
    pub(super) fn commit<'c>(
        &self,
        changes: impl Iterator<Item = &'c Change>,
        touched: &HashSet<u64>,
        next_number: u64,
        objects_max: u64,
    ) -> Result<(u64, Vec<Vec<TableId>>)> {
        if let Some(error) = self.write_failure() {
            return Err(TableError::NotWritten(error));
        }
        let transaction = self.database.begin_write()?;
        let mut answers = Vec::new();
        let (next_number, changed) = {
            let mut edit = Edit {
                objects: transaction.open_table(OBJECTS)?,
                ids: transaction.open_table(IDS)?,
                names: transaction.open_table(NAMES)?,
                ages: transaction.open_table(AGES)?,
                next_number,
                objects_max,
                changed: false,
            };
            for id in touched {
                edit.touch(*id)?;
            }
            for change in changes {
                answers.push(edit.apply(change)?);
            }
            transaction
                .open_table(META)?
                .insert("next_id", edit.next_number)?;
            (edit.next_number, edit.changed)
        };
        if changed {
            transaction.commit()?;
        } else {
            transaction.abort()?;
        }
        match self.write_failure() {
            None => Ok((next_number, answers)),
            Some(error) => Err(TableError::NotWritten(error)),
        }
    }
}

/// Makes what a new table lacks and empties one of format 1. Returns the next number to give, and
/// whether anything was changed.
fn prepare(transaction: &redb::WriteTransaction) -> Result<(u64, bool)> {
    let is_new = transaction.list_tables()?.next().is_none();
    let format = transaction
        .open_table(META)?
        .get("format")?
        .map(|found| found.value());
    match format {
        Some(FORMAT) => {}
        None if is_new => {}
        Some(FORMAT_WITHOUT_NONCES) => {
            tracing::warn!(
                "the handle table was made by an earlier version: handles given out until now are stale"
            );
            for table in transaction.list_tables()?.collect::<Vec<_>>() {
                transaction.delete_table(table)?;
            }
        }
        other => return Err(TableError::Foreign(other)),
    }
    let mut meta = transaction.open_table(META)?;
    // So that a reader never meets a table that does not exist.
    transaction.open_table(OBJECTS)?;
    transaction.open_table(IDS)?;
    transaction.open_table(NAMES)?;
    transaction.open_table(AGES)?;
    if format != Some(FORMAT) {
        meta.insert("format", FORMAT)?;
    }
    let next = meta.get("next_id")?;
    let next = next.map_or(FIRST_NUMBER, |found| found.value());
    Ok((next, format != Some(FORMAT)))
}

/// The open tables of one transaction.
struct Edit<'t> {
    objects: redb::Table<'t, u64, Record>,
    ids: redb::Table<'t, IdentityKey, u64>,
    names: redb::Table<'t, (u64, &'static [u8]), u64>,
    ages: redb::Table<'t, (u64, u64), ()>,
    next_number: u64,
    objects_max: u64,
    changed: bool,
}

/// A record taken out of the table to be changed.
struct Loaded {
    number: u64,
    nonce: u64,
    stamp: u64,
    key: IdentityKey,
    locations: Vec<Location>,
}

impl Loaded {
    const fn id(&self) -> TableId {
        TableId {
            number: self.number,
            nonce: self.nonce,
        }
    }
}

impl Edit<'_> {
    fn apply(&mut self, change: &Change) -> Result<Vec<TableId>> {
        match change {
            Change::Root(identity) => Ok(vec![self.root(identity)?]),
            Change::Intern(objects) => objects
                .iter()
                .map(|object| self.intern(object))
                .collect::<Result<Vec<_>>>(),
            Change::Renamed { from, to } => self.renamed(from, to).map(|()| Vec::new()),
            Change::Linked { number, at } => self.linked(*number, at).map(|()| Vec::new()),
            Change::Removed(at) => self.removed(at).map(|()| Vec::new()),
            Change::Probe => {
                self.changed = true;
                Ok(Vec::new())
            }
        }
    }

    fn root(&mut self, identity: &Identity) -> Result<TableId> {
        let mut record = self.find_or_new(identity)?;
        if record.stamp != ROOT_STAMP {
            self.ages.remove((record.stamp, record.number))?;
            record.stamp = ROOT_STAMP;
            self.store(&record)?;
        }
        Ok(record.id())
    }

    fn intern(&mut self, object: &NewObject) -> Result<TableId> {
        let record = self.find_or_new(&object.identity)?;
        let id = record.id();
        let at = Location {
            parent: object.parent,
            name: object.name.clone(),
        };
        self.add_location(record, &at)?;
        Ok(id)
    }

    fn linked(&mut self, number: u64, at: &Location) -> Result<()> {
        match self.load(number)? {
            Some(record) => self.add_location(record, at),
            None => Ok(()),
        }
    }

    /// Makes `at` the latest location of an object, unless it is one already.
    fn add_location(&mut self, mut record: Loaded, at: &Location) -> Result<()> {
        let id = record.number;
        let name = (at.parent, at.name.as_slice());
        let seen_there = self.names.get(name)?.map(|seen| seen.value());
        if seen_there == Some(id) && record.locations.contains(at) {
            return Ok(());
        }
        self.names.insert(name, id)?;
        record.locations.retain(|location| location != at);
        record.locations.insert(0, at.clone());
        if record.locations.len() > limits::HANDLE_TABLE_LOCATIONS_MAX
            && let Some(oldest) = record.locations.pop()
        {
            self.forget_name(&oldest, id)?;
        }
        self.store(&record)
    }

    fn renamed(&mut self, from: &Location, to: &Location) -> Result<()> {
        if from == to {
            return Ok(());
        }
        let moved = self.names.remove((from.parent, from.name.as_slice()))?;
        let moved = moved.map(|moved| moved.value());
        let replaced = self.names.remove((to.parent, to.name.as_slice()))?;
        let replaced = replaced.map(|replaced| replaced.value());
        if let Some(id) = replaced
            && replaced != moved
        {
            self.changed = true;
            self.drop_location(id, to)?;
        }
        let Some(id) = moved else { return Ok(()) };
        self.changed = true;
        let Some(mut record) = self.load(id)? else {
            return Ok(());
        };
        self.names.insert((to.parent, to.name.as_slice()), id)?;
        record
            .locations
            .retain(|location| location != from && location != to);
        record.locations.insert(0, to.clone());
        self.store(&record)
    }

    fn removed(&mut self, at: &Location) -> Result<()> {
        let removed = self.names.remove((at.parent, at.name.as_slice()))?;
        let Some(id) = removed.map(|removed| removed.value()) else {
            return Ok(());
        };
        self.changed = true;
        self.drop_location(id, at)
    }

    /// Takes one location from an object, and forgets an object that has none left.
    fn drop_location(&mut self, id: u64, at: &Location) -> Result<()> {
        let Some(mut record) = self.load(id)? else {
            return Ok(());
        };
        record.locations.retain(|location| location != at);
        if record.locations.is_empty() && record.stamp != ROOT_STAMP {
            return self.forget(id);
        }
        self.store(&record)
    }

    /// The record of `identity`; a new one, with the next id, if it is not known.
    fn find_or_new(&mut self, identity: &Identity) -> Result<Loaded> {
        let key = key_of(identity);
        let known = self.ids.get(key)?.map(|number| number.value());
        if let Some(number) = known
            && let Some(record) = self.load(number)?
        {
            // A damaged index must not hand out another object's id.
            return if record.key == key {
                Ok(record)
            } else {
                Err(TableError::Damaged(number))
            };
        }
        while self.objects.len()? >= self.objects_max {
            let oldest = self.ages.pop_first()?.map(|(age, _)| age.value().1);
            // Nothing but roots: then the table has to be larger than was asked.
            let Some(oldest) = oldest else { break };
            self.forget(oldest)?;
        }
        let number = self.next_number;
        self.next_number += 1;
        self.ids.insert(key, number)?;
        self.ages.insert((number, number), ())?;
        let record = Loaded {
            number,
            nonce: getrandom::u64().map_err(|_| TableError::NoRandomness)?,
            stamp: number,
            key,
            locations: Vec::new(),
        };
        self.store(&record)?;
        Ok(record)
    }

    fn touch(&mut self, id: u64) -> Result<()> {
        let Some(mut record) = self.load(id)? else {
            return Ok(());
        };
        if record.stamp == ROOT_STAMP {
            return Ok(());
        }
        self.ages.remove((record.stamp, id))?;
        record.stamp = self.next_number;
        self.ages.insert((record.stamp, id), ())?;
        self.store(&record)
    }

    /// Removes all trace of an object.
    fn forget(&mut self, id: u64) -> Result<()> {
        let Some(record) = self.load(id)? else {
            return Ok(());
        };
        self.changed = true;
        for location in &record.locations {
            self.forget_name(location, id)?;
        }
        self.ids.remove(record.key)?;
        self.ages.remove((record.stamp, id))?;
        self.objects.remove(id)?;
        Ok(())
    }

    /// Removes a name that leads to `id`; one that leads elsewhere by now stays.
    fn forget_name(&mut self, location: &Location, id: u64) -> Result<()> {
        let name = (location.parent, location.name.as_slice());
        let leads_to = self.names.get(name)?.map(|seen| seen.value());
        if leads_to == Some(id) {
            self.names.remove(name)?;
        }
        Ok(())
    }

    fn load(&self, id: u64) -> Result<Option<Loaded>> {
        let Some(found) = self.objects.get(id)? else {
            return Ok(None);
        };
        let (stamp, nonce, key, locations) = found.value();
        let locations = decode_locations(locations).ok_or(TableError::Damaged(id))?;
        Ok(Some(Loaded {
            number: id,
            nonce,
            stamp,
            key,
            locations,
        }))
    }

    fn store(&mut self, record: &Loaded) -> Result<()> {
        self.changed = true;
        let locations = encode_locations(&record.locations)?;
        let fields = (record.stamp, record.nonce, record.key, locations.as_slice());
        self.objects.insert(record.number, fields)?;
        Ok(())
    }
}

/// The id and the stamp of an object that an index led to.
fn known(
    number: u64,
    (stamp, nonce, key, _): (u64, u64, IdentityKey, &[u8]),
    identity: &Identity,
) -> Result<(TableId, u64)> {
    // A damaged index must not hand out another object's id.
    if key != key_of(identity) {
        return Err(TableError::Damaged(number));
    }
    Ok((TableId { number, nonce }, stamp))
}

fn key_of(identity: &Identity) -> IdentityKey {
    let (seconds, nanoseconds) = identity.btime.unwrap_or(NO_BTIME);
    (
        identity.export,
        identity.file_system,
        identity.ino,
        seconds,
        nanoseconds,
    )
}

fn identity_of((export, file_system, ino, seconds, nanoseconds): IdentityKey) -> Identity {
    let btime = (seconds, nanoseconds);
    Identity {
        export,
        file_system,
        ino,
        btime: (btime != NO_BTIME).then_some(btime),
    }
}

/// Per location: parent (8 bytes), length of the name (2), name; numbers little-endian.
fn encode_locations(locations: &[Location]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for location in locations {
        let length = u16::try_from(location.name.len()).map_err(|_| TableError::NotAName)?;
        bytes.extend_from_slice(&location.parent.to_le_bytes());
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&location.name);
    }
    Ok(bytes)
}

fn decode_locations(mut bytes: &[u8]) -> Option<Vec<Location>> {
    let mut locations = Vec::new();
    while !bytes.is_empty() {
        let (parent, rest) = bytes.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<2>()?;
        let (name, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
        let parent = u64::from_le_bytes(*parent);
        locations.push(Location {
            parent,
            name: name.to_vec(),
        });
        bytes = rest;
    }
    Some(locations)
}
