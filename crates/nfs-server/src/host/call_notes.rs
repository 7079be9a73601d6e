//! What calls that change names noted of themselves, in a file of the state directory: a server that was
//! killed and started anew finishes a call that comes again, instead of running it twice.
//!
//! Before such a call changes anything it notes what its names lead to, and afterwards what it
//! made, removed or moved. Both are written (into the page cache, which outlives a killed process)
//! by the helper thread that makes the change. When the call comes again in a later life of the
//! server it runs as any other, but it is known then what was found before: a MKDIR that found no such
//! name then and finds the directory now has made it, and goes on from there, with its attributes, the flush
//! and a reply of now. Nothing is believed that is not there, so a power cut that takes the change back while
//! the note stays does no harm: the call runs again. (docs/design has the reasons.)
//!
//! Two calls that want the same name are told apart by what others have noted to have made. What a
//! process of the server's own host does to the same name between a kill and the repetition cannot be told from
//! the call's own doing.
//!
//! The file has a header and [`limits::CALL_NOTES_MAX`] places of a fixed size, each with a checksum under
//! the file's own key. A place belongs to the call whose reply is kept, and is free again when that is
//! forgotten; a place that is not as it was written is ignored. Without the file (a full disk, a
//! directory that cannot be written) everything works but this, and the log says so once.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use siphasher::sip::SipHasher13;

use crate::limits;

/// What calls that change names noted of themselves, kept in a file of the state directory for the server's
/// next life.
pub(crate) struct CallNotes {
    /// The file of the notes; without it nothing is noted.
    file: Option<File>,
    /// The key of the checksums and of the hashes of calls: it must be the same in the server's next life.
    key: [u8; 16],
    /// Connections of this life of the server are numbered from here.
    connection_first: u64,
    table: Mutex<Table>,
    /// Numbers notes in their order, over all lives of the server.
    order: AtomicU64,
    /// The next place in the header for a connection that ended in order.
    ended_next: AtomicUsize,
    failed: AtomicU64,
    said: AtomicBool,
}

#[derive(Default)]
struct Table {
    free: Vec<u32>,
    /// The notes of calls whose replies are kept, or that came before this life of the server, by place.
    notes: HashMap<u32, Note>,
    /// Calls of an earlier life that have not come again.
    earlier: HashMap<CallKey, u32>,
}

/// What makes two calls the same call: a hash of who sent it and of its bytes, under the key of the notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallKey {
    first: u64,
    second: u64,
}

impl CallKey {
    pub(crate) const fn words(self) -> [u64; 2] {
        [self.first, self.second]
    }

    pub(crate) const fn of_words([first, second]: [u64; 2]) -> Self {
        Self { first, second }
    }
}

impl Hash for CallKey {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.first);
    }
}

/// What one call noted of itself: what its names led to before, and what it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Note {
    key: CallKey,
    before: Before,
    /// What it made, removed or moved, once it had; else [`Known::NOTHING`].
    done: Known,
    /// Numbers in the order of all notes: of what it found, and of what it did.
    begun_at: u64,
    done_at: u64,
    /// The number of the connection that the call came over.
    connection: u64,
    /// When the call was noted, in seconds since 1970.
    seconds: u64,
}

/// What a call found before it changed anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Before {
    pub(crate) change: Change,
    /// Stands for the name (directory and entry) that is made, removed or moved to.
    pub(crate) place: u64,
    /// What that name leads to; of a RENAME what the old one does.
    pub(crate) found: Known,
}

/// What a call does to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The name leads to something from now on: CREATE and its like, LINK, and RENAME at the new name.
    Make,
    /// The name leads to nothing from now on: REMOVE and RMDIR.
    Take,
}

/// Stands for an object of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known(u64);

impl Known {
    /// Stands for "no object": a name that led to nothing, or a change that is not made yet.
    pub(crate) const NOTHING: Self = Self(0);
}

const NAME: &str = "calls.notes";
const MAGIC: [u8; 16] = *b"penstock calls 1";
const HEADER_BYTES: usize = 4096;
/// Where in the header the list begins of the connections that ended in order, in bytes.
const ENDED_AT: usize = 1024;
const ENDED_COUNT: usize = 256;
/// A power of two: no place lies on two pages, so that a kill leaves none half written.
const NOTE_BYTES: usize = 128;
const CHECKSUM_BYTES: usize = 8;

impl CallNotes {
    /// Reads what an earlier life of the server left in `state_dir`, or makes an empty file there.
    ///
    /// `random`: numbers that no other server has, for a key and for telling its lives apart.
    pub(crate) fn open(state_dir: &Path, random: [u8; 24]) -> Self {
        let path = state_dir.join(NAME);
        let [new_key @ .., a, b, c, d, e, f, g, h] = random;
        let life = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        let opened = Contents::read_or_make(&path, new_key);
        let (file, contents) = match opened {
            Ok((file, contents)) => (Some(file), contents),
            Err(error) => {
                tracing::warn!(
                    %error, path = %path.display(),
                    "calls cannot be noted: should this server be killed, a client that repeats a call may \
                     be told that its own change is in the way; cure: room and rights in the state directory"
                );
                (None, Contents::empty(new_key))
            }
        };
        Self::of(file, &contents, life)
    }

    fn of(file: Option<File>, contents: &Contents, connection_first: u64) -> Self {
        let table = contents.table(unix_seconds());
        let last = table.notes.values();
        let last = last.map(|note| note.begun_at.max(note.done_at)).max();
        Self {
            file,
            key: contents.key,
            connection_first,
            table: Mutex::new(table),
            order: AtomicU64::new(last.unwrap_or(0).saturating_add(1)),
            ended_next: AtomicUsize::new(0),
            failed: AtomicU64::new(0),
            said: AtomicBool::new(false),
        }
    }

    /// Notes that are kept nowhere, for tests.
    #[cfg(test)]
    pub(crate) fn nowhere() -> Self {
        Self::of(None, &Contents::empty([7; 16]), 0)
    }

    /// The key under which calls are hashed.
    pub(crate) fn key(&self) -> [u8; 16] {
        self.key
    }

    /// Notes that could not be written.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// A call that is about to run, which came over connection `number` of this life.
    pub(crate) fn call(self: &Arc<Self>, key: CallKey, number: u64) -> Arc<NotedCall> {
        let mut table = self.table.lock();
        let place = table.earlier.remove(&key);
        let earlier = place.and_then(|place| table.notes.get(&place).copied());
        Arc::new(NotedCall {
            notes: Arc::clone(self),
            key,
            connection: self.connection_first.wrapping_add(number),
            begun_at: self.next(),
            place: Mutex::new(place),
            earlier,
        })
    }

    /// Connection `number` of this life ended in order: who has the same calls in the server's next
    /// life is a newcomer. May wait for the disk.
    pub(crate) fn connection_ended(&self, number: u64) {
        let connection = self.connection_first.wrapping_add(number);
        let next = self.ended_next.fetch_add(1, Ordering::Relaxed) % ENDED_COUNT;
        self.write(&connection.to_be_bytes(), ENDED_AT + next * 8);
    }

    /// Forgets calls of an earlier life that come no more.
    pub(crate) fn expire(&self) {
        let mut table = self.table.lock();
        let Table {
            free,
            notes,
            earlier,
        } = &mut *table;
        let now = unix_seconds();
        earlier.retain(|_, place| {
            let kept = notes.get(place).is_some_and(|note| note.is_recent(now));
            if !kept {
                notes.remove(place);
                free.push(*place);
            }
            kept
        });
    }

    /// Stands for an object with this inode number and birth time; an inode number alone is soon given to
    /// another.
    pub(crate) fn known(&self, ino: u64, birth: (i64, u32)) -> Known {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write_u64(ino);
        hasher.write_i64(birth.0);
        hasher.write_u32(birth.1);
        Known(hasher.finish().max(1))
    }

    /// Stands for a name in the directory with this handle.
    pub(crate) fn place(&self, directory: &[u8], name: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write_usize(directory.len());
        hasher.write(directory);
        hasher.write(name);
        hasher.finish()
    }

    /// Has another call noted, since `mine` began, to have done to the object what `mine` was to do?
    fn is_anothers(&self, mine: &Note, object: Known) -> bool {
        let table = self.table.lock();
        table.notes.values().any(|note| {
            let same = (note.before.place, note.before.change, note.done)
                == (mine.before.place, mine.before.change, object);
            same && note.key != mine.key && note.done_at > mine.begun_at
        })
    }

    fn next(&self) -> u64 {
        self.order.fetch_add(1, Ordering::Relaxed)
    }

    fn put(&self, place: u32, note: Note) {
        self.table.lock().notes.insert(place, note);
        let at = HEADER_BYTES + place as usize * NOTE_BYTES;
        self.write(&note.to_bytes(&self.key), at);
    }

    fn write(&self, bytes: &[u8], at: usize) {
        let Some(file) = &self.file else { return };
        if let Err(error) = file.write_all_at(bytes, at as u64) {
            self.failed.fetch_add(1, Ordering::Relaxed);
            if !self.said.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    %error,
                    "a call could not be noted in the state directory: should this server be killed, \
                     a client that repeats one may be told that its own change is in the way (said once)"
                );
            }
        }
    }
}

/// A call that notes what it does. Dropped with its reply.
pub(crate) struct NotedCall {
    notes: Arc<CallNotes>,
    key: CallKey,
    connection: u64,
    begun_at: u64,
    place: Mutex<Option<u32>>,
    earlier: Option<Note>,
}

impl NotedCall {
    /// What one takes of memory, with its entry in the table, half of whose places may be free.
    #[cfg(test)]
    pub(crate) const BYTES: usize = size_of::<Self>() + 32 + 2 * size_of::<(u32, Note)>();

    /// Where calls are noted; `None` where they cannot be.
    pub(crate) fn notes(&self) -> Option<&CallNotes> {
        self.notes.file.is_some().then_some(&*self.notes)
    }

    /// Notes what the call found, before it changes anything. If it did so in an earlier life of
    /// the server, that holds.
    pub(crate) fn begin(&self, before: Before) {
        if self.earlier.is_some() {
            return;
        }
        let place = self.notes.table.lock().take_free();
        let Some(place) = place else {
            // More calls at once than there are places: this one is not noted.
            return;
        };
        *self.place.lock() = Some(place);
        self.notes.put(place, self.note(before));
    }

    /// Notes what the call made, removed or moved.
    pub(crate) fn done(&self, before: Before, object: Known) {
        let place = *self.place.lock();
        if let Some(place) = place {
            let note = Note {
                done: object,
                done_at: self.notes.next(),
                ..self.earlier.unwrap_or_else(|| self.note(before))
            };
            self.notes.put(place, note);
        }
    }

    /// Whether the call was noted by an earlier life of the server.
    pub(crate) const fn came_before(&self) -> bool {
        self.earlier.is_some()
    }

    /// Whether an earlier life of the server has made `object` by this call: the call found nothing at its
    /// name then, and nobody else has noted to have made what is there now.
    pub(crate) fn has_made(&self, object: Known) -> bool {
        self.earlier.is_some_and(|earlier| {
            earlier.before.found == Known::NOTHING
                && (earlier.done == Known::NOTHING || earlier.done == object)
                && !self.notes.is_anothers(&earlier, object)
        })
    }

    /// What an earlier life of the server has removed or moved away by this call, if it has: the call found
    /// something at its name then (at the old one of a RENAME), it is not there now, and nobody else has
    /// noted to have taken it away.
    pub(crate) fn has_taken(&self, now: Known) -> Option<Known> {
        let earlier = self.earlier?;
        let found = earlier.before.found;
        let gone = found != Known::NOTHING && found != now;
        (gone && !self.notes.is_anothers(&earlier, found)).then_some(found)
    }

    /// The note of a call that has found this and done nothing yet.
    fn note(&self, before: Before) -> Note {
        Note {
            key: self.key,
            before,
            done: Known::NOTHING,
            begun_at: self.begun_at,
            done_at: 0,
            connection: self.connection,
            seconds: unix_seconds(),
        }
    }
}

impl Drop for NotedCall {
    fn drop(&mut self) {
        if let Some(place) = self.place.get_mut().take() {
            let mut table = self.notes.table.lock();
            table.notes.remove(&place);
            table.free.push(place);
        }
    }
}

impl Table {
    fn take_free(&mut self) -> Option<u32> {
        self.free.pop().or_else(|| {
            // Clients repeat their calls soon after a restart, so what is left by now goes first.
            let (key, place) = self
                .earlier
                .iter()
                .next()
                .map(|(key, place)| (*key, *place))?;
            self.earlier.remove(&key);
            self.notes.remove(&place);
            Some(place)
        })
    }
}

/// What the file of the notes holds when a server starts.
struct Contents {
    key: [u8; 16],
    /// The header and the places, or nothing.
    bytes: Vec<u8>,
}

impl Contents {
    fn empty(key: [u8; 16]) -> Self {
        let bytes = Vec::new();
        Self { key, bytes }
    }

    fn read_or_make(path: &Path, new_key: [u8; 16]) -> io::Result<(File, Self)> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        let mut bytes = vec![0; FILE_BYTES];
        let whole = file.metadata()?.len() == FILE_BYTES as u64;
        if whole {
            file.read_exact_at(&mut bytes, 0)?;
            let key = bytes.get(MAGIC.len()..).and_then(|rest| rest.first_chunk());
            if let Some(key) = key.copied()
                && bytes.starts_with(&MAGIC)
            {
                return Ok((file, Self { key, bytes }));
            }
        }
        let is_new = file.metadata()?.len() == 0;
        if !is_new {
            tracing::warn!(path = %path.display(), "the notes of calls are damaged, and begun anew");
        }
        file.set_len(0)?;
        // Room for all of it: a disk that is full later does not matter.
        match rustix::fs::fallocate(
            &file,
            rustix::fs::FallocateFlags::empty(),
            0,
            FILE_BYTES as u64,
        ) {
            Ok(()) => {}
            Err(rustix::io::Errno::OPNOTSUPP) => file.set_len(FILE_BYTES as u64)?,
            Err(errno) => return Err(errno.into()),
        }
        file.write_all_at(&[MAGIC, new_key].concat(), 0)?;
        Ok((file, Self::empty(new_key)))
    }

    /// What is left to be known of an earlier life.
    fn table(&self, now: u64) -> Table {
        let (header, places) = self
            .bytes
            .split_at_checked(HEADER_BYTES)
            .unwrap_or_default();
        let ended = header.get(ENDED_AT..ENDED_AT + ENDED_COUNT * 8);
        let (ended, _) = ended.unwrap_or_default().as_chunks::<8>();
        let (places, _) = places.as_chunks::<NOTE_BYTES>();
        let mut table = Table::default();
        for place in (0..limits::CALL_NOTES_MAX).rev() {
            let note = usize::try_from(place).ok().and_then(|at| places.get(at));
            let note = note.and_then(|bytes| Note::of_bytes(bytes, &self.key));
            let note = note.filter(|note| {
                note.is_recent(now) && !ended.contains(&note.connection.to_be_bytes())
            });
            match note {
                Some(note) => {
                    table.earlier.insert(note.key, place);
                    table.notes.insert(place, note);
                }
                None => table.free.push(place),
            }
        }
        table
    }
}

const FILE_BYTES: usize = HEADER_BYTES + limits::CALL_NOTES_MAX as usize * NOTE_BYTES;

impl Note {
    fn is_recent(&self, now: u64) -> bool {
        // A clock that was set back makes a note of the future: not to be believed for ever.
        now.abs_diff(self.seconds) < limits::REPLY_CACHE_SECONDS_MAX
    }

    fn to_bytes(self, key: &[u8; 16]) -> [u8; NOTE_BYTES] {
        let mut bytes = [0; NOTE_BYTES];
        let [first, second] = self.key.words();
        let words = [
            0,
            first,
            second,
            self.before.place,
            self.before.found.0,
            self.done.0,
            self.connection,
            self.seconds,
            self.begun_at,
            self.done_at,
            self.before.change as u64,
        ];
        let (places, _) = bytes.as_chunks_mut::<8>();
        for (place, word) in places.iter_mut().zip(words) {
            *place = word.to_be_bytes();
        }
        let sum = checksum(&bytes, key);
        if let Some(place) = bytes.first_chunk_mut() {
            *place = sum;
        }
        bytes
    }

    fn of_bytes(bytes: &[u8; NOTE_BYTES], key: &[u8; 16]) -> Option<Self> {
        let (words, _) = bytes.as_chunks::<8>();
        let [sum, words @ ..] = words.first_chunk::<11>()?;
        if *sum != checksum(bytes, key) {
            return None;
        }
        let words = words.map(u64::from_be_bytes);
        let [
            first,
            second,
            place,
            found,
            done,
            connection,
            seconds,
            begun_at,
            done_at,
            change,
        ] = words;
        Some(Self {
            key: CallKey::of_words([first, second]),
            before: Before {
                change: match change {
                    0 => Change::Make,
                    _ => Change::Take,
                },
                place,
                found: Known(found),
            },
            done: Known(done),
            begun_at,
            done_at,
            connection,
            seconds,
        })
    }
}

fn checksum(note: &[u8; NOTE_BYTES], key: &[u8; 16]) -> [u8; CHECKSUM_BYTES] {
    let mut hasher = SipHasher13::new_with_key(key);
    hasher.write(note.get(CHECKSUM_BYTES..).unwrap_or_default());
    hasher.finish().to_be_bytes()
}

fn unix_seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests;
