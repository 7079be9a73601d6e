//! The power is cut at each write and each sync of the records' file: what was acknowledged is there in the next
//! life, and nothing else than what was about to be.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use nfs_state::{ClientId, OwnerBytes, Principal};
use parking_lot::Mutex;

use super::*;

/// Ways in which what was not synced may be lost: none of it reaches the disk, all of it, or any part.
const FATES: u64 = 6;
/// More calls than a run of the script makes.
const ENOUGH_CALLS: u64 = 10_000;

/// A disk with a cache in front of it, whose power goes at a given call.
#[derive(Debug)]
struct Disk {
    /// What the next life finds, once the cache is lost.
    stable: Vec<u8>,
    /// The same with the cache.
    seen: Vec<u8>,
    /// What has been done since the last sync, in order.
    cached: Vec<Change>,
    /// Calls that change something, until the power goes.
    calls_left: u64,
    /// Calls so far.
    calls: u64,
}

#[derive(Clone, Debug)]
enum Change {
    Length(usize),
    Bytes(usize, Vec<u8>),
}

impl Change {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Self::Length(length) => to.resize(*length, 0),
            Self::Bytes(at, bytes) => {
                let end = at + bytes.len();
                // A write that survives the change of length that made room for it makes that room itself.
                to.resize(to.len().max(end), 0);
                to[*at..end].copy_from_slice(bytes);
            }
        }
    }
}

impl Disk {
    fn with(content: Vec<u8>, calls_left: u64) -> Backend {
        Backend(Arc::new(Mutex::new(Self {
            stable: content.clone(),
            seen: content,
            cached: Vec::new(),
            calls_left,
            calls: 0,
        })))
    }

    fn call(&mut self) -> io::Result<()> {
        self.calls += 1;
        let left = self.calls_left.checked_sub(1);
        self.calls_left = left.ok_or_else(|| io::Error::other("the power is gone"))?;
        Ok(())
    }

    fn change(&mut self, change: Change) -> io::Result<()> {
        self.call()?;
        change.apply(&mut self.seen);
        self.cached.push(change);
        Ok(())
    }

    /// What the next life finds.
    fn left_after(&self, fate: u64) -> Vec<u8> {
        let mut left = self.stable.clone();
        for (number, change) in self.cached.iter().enumerate() {
            let stays = match fate {
                0 => false,
                1 => true,
                _ => is_drawn(fate, number),
            };
            if stays {
                change.apply(&mut left);
            }
        }
        left
    }
}

/// Yes or no, as if at random.
fn is_drawn(fate: u64, number: usize) -> bool {
    use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    hasher.hash_one((fate, number)).is_multiple_of(2)
}

#[derive(Clone, Debug)]
struct Backend(Arc<Mutex<Disk>>);

impl redb::StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let at = usize::try_from(offset).unwrap();
        let disk = self.0.lock();
        let found = disk.seen.get(at..at + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let length = usize::try_from(len).unwrap();
        self.0.lock().change(Change::Length(length))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut disk = self.0.lock();
        disk.call()?;
        disk.stable = disk.seen.clone();
        disk.cached.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let at = usize::try_from(offset).unwrap();
        self.0.lock().change(Change::Bytes(at, data.to_vec()))
    }
}

/// A file that has just been made. While that goes on it has another name.
fn made() -> Vec<u8> {
    let disk = Disk::with(Vec::new(), ENOUGH_CALLS);
    drop(
        Database::builder()
            .create_with_backend(disk.clone())
            .unwrap(),
    );
    disk.0.lock().seen.clone()
}

fn open(backend: &Backend) -> Result<(Records, Found)> {
    let database = Database::builder().create_with_backend(backend.clone())?;
    let fresh = Fresh {
        epoch: 1,
        server_id: [7; 16],
    };
    let found = begin_epoch(&database, fresh)?;
    let kept = Mutex::new(Kept::of(database));
    Ok((Records { kept }, found))
}

/// What the records are to say: by name, the epoch in which each was written.
type Said = BTreeMap<Vec<u8>, u32>;

/// What happens in the script's lives, as the driver of the state does it.
#[derive(Clone, Copy, Debug)]
enum Step {
    Write(&'static [u8]),
    Remove(&'static [u8]),
    RemoveEarlier,
}

/// Lives, each from one opening to the next: clients come, one is expired, a grace period ends, one restart follows
/// another.
const LIVES: &[&[Step]] = &[
    &[
        Step::Write(b"one"),
        Step::Write(b"two"),
        Step::Remove(b"one"),
    ],
    &[],
    &[
        Step::Write(b"two"),
        Step::Write(b"three"),
        Step::RemoveEarlier,
    ],
    &[Step::RemoveEarlier],
];

impl Step {
    fn change(self, said: &mut Said, epoch: u32) {
        match self {
            Self::Write(name) => _ = said.insert(name.to_vec(), epoch),
            Self::Remove(name) => _ = said.remove(name),
            Self::RemoveEarlier => said.retain(|_, of| *of == epoch),
        }
    }

    fn run(self, records: &Records, epoch: u32) -> Result<()> {
        match self {
            Self::Write(name) => records.write(&record(name, epoch)),
            Self::Remove(name) => {
                let Record { owner, client, .. } = record(name, epoch);
                records.remove(&RecordRemoval { owner, client })
            }
            Self::RemoveEarlier => records.remove_before(Epoch(epoch)),
        }
    }
}

fn record(name: &[u8], epoch: u32) -> Record {
    Record {
        owner: OwnerBytes::new(name).unwrap(),
        client: ClientId {
            epoch: Epoch(epoch),
            index: 1,
        },
        principal: Principal::new(b"sys:0").unwrap(),
    }
}

fn told(found: &Found) -> (u32, Said) {
    let records = found.recovered.records.iter();
    let said = records.map(|r| (r.owner.as_bytes().to_vec(), r.client.epoch.0));
    (found.recovered.epoch.0, said.collect())
}

/// What was acknowledged when the power went, and what it may have become besides.
struct Cut {
    said: Said,
    /// With the step that was going on.
    or: Said,
    /// The last life's epoch that was acknowledged; none before the first.
    epoch: Option<u32>,
}

/// Runs the script until the power goes; `None` when it does not.
fn script(backend: &Backend) -> Option<Cut> {
    let (mut said, mut last) = (Said::new(), None);
    for steps in LIVES {
        let Ok((records, found)) = open(backend) else {
            let or = said.clone();
            return Some(Cut {
                said,
                or,
                epoch: last,
            });
        };
        let (epoch, found) = told(&found);
        assert_eq!(found, said, "a life without a power cut");
        assert!(last.is_none_or(|last| epoch > last));
        last = Some(epoch);
        for step in *steps {
            let mut then = said.clone();
            step.change(&mut then, epoch);
            if step.run(&records, epoch).is_err() {
                return Some(Cut {
                    said,
                    or: then,
                    epoch: last,
                });
            }
            said = then;
        }
    }
    None
}

#[test]
fn wherever_the_power_goes_the_next_life_finds_what_was_acknowledged() {
    let made = made();
    let whole = Disk::with(made.clone(), ENOUGH_CALLS);
    assert!(script(&whole).is_none(), "the script needs more calls");
    let calls = whole.0.lock().calls;
    assert!(calls > 30, "{calls} calls: there is nothing to cut");
    for at in 0..calls {
        for fate in 0..FATES {
            let disk = Disk::with(made.clone(), at);
            let Some(cut) = script(&disk) else {
                // What is written last is written when the file is closed, and nothing rests on it.
                continue;
            };
            let left = disk.0.lock().left_after(fate);
            let next = Disk::with(left, ENOUGH_CALLS);
            let found = open(&next).map(|(_, found)| told(&found));
            let (epoch, found) =
                found.unwrap_or_else(|error| panic!("cut at {at}, fate {fate}: {error}"));
            assert!(
                found == cut.said || found == cut.or,
                "cut at {at}, fate {fate}: {found:?}, should be {:?} or {:?}",
                cut.said,
                cut.or
            );
            let is_new = cut.epoch.is_none_or(|last| epoch > last);
            assert!(is_new, "cut at {at}, fate {fate}: epoch {epoch} again");
        }
    }
}

#[test]
fn a_full_disk_acknowledges_nothing_and_loses_nothing() {
    let whole = Disk::with(made(), ENOUGH_CALLS);
    let (records, found) = open(&whole).unwrap();
    let (epoch, _) = told(&found);
    records.write(&record(b"one", epoch)).unwrap();
    whole.0.lock().calls_left = 0;
    assert!(records.write(&record(b"two", epoch)).is_err());
    assert!(records.remove_before(Epoch(epoch + 1)).is_err());
    drop(records);
    let left = whole.0.lock().left_after(1);
    let (_, found) = open(&Disk::with(left, ENOUGH_CALLS)).unwrap();
    let (_, said) = told(&found);
    assert_eq!(said, Said::from([(b"one".to_vec(), epoch)]));
}
