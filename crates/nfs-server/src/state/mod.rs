//! Drives [`nfs_state`]: gives it the time, writes on the disk what has to be there first, and does what it says has to
//! be done. What a client may do and what stands in its way, it decides.
//!
//! One for the whole server, made if a minor version of NFSv4 is served. What an open pins is an
//! [`Opened`](crate::vfs::Opened): the object stays what its handle leads to.

pub(crate) mod notices;
mod records;
mod watched;

use std::hash::{BuildHasher as _, Hash as _, Hasher as _};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use foldhash::quality::RandomState;
use nfs_io::{Lane, Sharer};
use nfs_state::{
    Admission, Bounds, Channel, Claim, ClientId, Completion, Config, Count, CreateSession, Created,
    Digest, Error, Expiry, FileState, LockKind, Millis, NewPermit, Notify, Range, ReclaimPermit,
    Record, RecordRemoval, Released, Sequenced, State, Why, record,
};

use parking_lot::Mutex;
use smallvec::SmallVec;

use self::notices::Notices;
use self::records::{Fresh, Records};
use self::watched::Watched;
use crate::limits;
use crate::vfs::{Object, Opened, Vfs};

/// Work on the server's own files: no file system of an export has this number.
const OWN_FILES: Lane = Lane(u64::MAX - 2);
/// Bytes at each end of a request that its digest is made of, beside its length: all of most requests, and enough to
/// tell a WRITE from another without a look at all of its data. RFC 8881 §2.10.6.1.3.1 permits a server to tell a false
/// retry and demands it only of one by another user, so that it is not worth a pass over the data, which nobody else
/// looks at on its way to the disk.
const DIGESTED_BYTES: usize = 1024;

/// The state of all NFSv4 clients, and what it needs of the world.
pub(crate) struct States {
    pub(crate) core: State<Opened>,
    records: Arc<Records>,
    /// Somebody looks after the records' file.
    is_looking: Arc<AtomicBool>,
    /// What tells this server from all others, whatever address a client comes to.
    pub(crate) server_id: [u8; 16],
    /// Files whose locks the host could not be told of: each tick tries again.
    untold: Arc<Mutex<Vec<Arc<Object>>>>,
    /// Files of which local programs have locked what clients wait for: each tick looks.
    watched: Watched,
    /// Who is to be told that a lock may be had now.
    pub(crate) notices: Arc<Notices>,
    start: Instant,
    /// Makes the digests of requests. A client that finds two requests with the same digest deceives only itself, about a
    /// slot of its own.
    digests: RandomState,
}

/// On what ground a client makes state.
pub(crate) enum Permit {
    /// It is new.
    New(NewPermit),
    /// It was held before the server's restart.
    Reclaim(ReclaimPermit),
}

impl Permit {
    pub(crate) const fn claim(&self) -> Claim<'_> {
        match self {
            Self::New(permit) => Claim::New(permit),
            Self::Reclaim(permit) => Claim::Reclaim(permit),
        }
    }
}

impl States {
    /// Begins a life of the server with what is in `state_dir`. `io_bytes_max`: the largest READ and WRITE. `times`: how
    /// long a client may be silent, and how long a grace period lasts at most, in seconds.
    ///
    /// # Errors
    /// When the records of clients cannot be read or written.
    pub(crate) fn open(
        state_dir: &Path,
        io_bytes_max: u32,
        times: (u32, u32),
    ) -> Result<Self, String> {
        let path = state_dir.join("clients.redb");
        let (records, found) =
            Records::open(&path, fresh()?).map_err(|error| cannot_open(&path, &error))?;
        let bytes = io_bytes_max + limits::COMPOUND_BYTES_BESIDE_DATA;
        let channel = Channel {
            request_bytes_max: bytes,
            response_bytes_max: bytes,
            cached_bytes_max: nfs_state::limits::CACHED_REPLY_BYTES_MAX,
            operations_max: limits::COMPOUND_OPERATIONS_MAX,
            slots_max: nfs_state::limits::SLOTS_MAX,
        };
        let config = Config {
            lease_ms: u64::from(times.0) * 1000,
            grace_ms: u64::from(times.1) * 1000,
            reply_bytes_max: limits::KEPT_REPLIES_BYTES_MAX,
            bounds: Bounds::DEFAULT,
            fore: channel,
            back: channel,
        };
        tell_of_grace(found.recovered.records.len(), config.grace_ms);
        Ok(Self {
            core: State::new(config, found.recovered, Millis(0)),
            records: Arc::new(records),
            is_looking: Arc::default(),
            server_id: found.server_id,
            untold: Arc::default(),
            watched: Watched::default(),
            notices: Arc::default(),
            start: Instant::now(),
            digests: RandomState::default(),
        })
    }

    /// What is counted of the state, by the name under which `ctl status` shows it.
    pub(crate) fn named(&self) -> [(&'static str, u64); 18] {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let notices = &self.notices;
        let counters = self.core.counters();
        let grace = self.core.grace();
        [
            ("nfs4_clients", self.core.clients().len() as u64),
            ("nfs4_clients_unconfirmed", self.core.unconfirmed() as u64),
            ("nfs4_grace_waiting", grace.waiting as u64),
            ("nfs4_reply_bytes", self.core.reply_bytes() as u64),
            ("nfs4_replayed", counters.get(Count::Replayed)),
            ("nfs4_false_retries", counters.get(Count::FalseRetries)),
            ("nfs4_misordered", counters.get(Count::Misordered)),
            ("nfs4_delayed", counters.get(Count::Delayed)),
            ("nfs4_sessions_refused", counters.get(Count::SessionsFull)),
            ("nfs4_opens_refused", counters.get(Count::OpensFull)),
            ("nfs4_locks_refused", counters.get(Count::LocksFull)),
            ("nfs4_waiters_refused", counters.get(Count::WaitersFull)),
            ("nfs4_waiters_untold", load(&notices.untold)),
            ("nfs4_callbacks", load(&notices.callbacks)),
            ("nfs4_callbacks_failed", load(&notices.callbacks_failed)),
            ("nfs4_clients_expired", counters.get(Count::Expired)),
            ("nfs4_clients_replaced", counters.get(Count::Replaced)),
            ("nfs4_names_shared", counters.get(Count::SharedNames)),
        ]
    }

    /// Seconds that a client may be silent.
    pub(crate) fn lease_seconds(&self) -> u32 {
        u32::try_from(self.core.config().lease_ms / 1000).unwrap_or(u32::MAX)
    }

    /// The time, as the state counts it.
    pub(crate) fn now(&self) -> Millis {
        let since = self.start.elapsed().as_millis();
        Millis(u64::try_from(since).unwrap_or(u64::MAX))
    }

    /// What tells a request from another with the same sequence: who sends it, and the bytes of its operations, in
    /// parts that follow each other. Where the parts are divided makes no difference.
    pub(crate) fn digest<const N: usize>(&self, user: Option<u32>, request: [&[u8]; N]) -> Digest {
        let mut hasher = self.digests.build_hasher();
        let len = request.iter().map(|part| part.len()).sum();
        (user, len).hash(&mut hasher);
        let first = 0..DIGESTED_BYTES.min(len);
        let last = first.end.max(len.saturating_sub(DIGESTED_BYTES))..len;
        let mut pieces = SmallVec::<[&[u8]; 2]>::new();
        for end in [first, last] {
            let mut at = 0;
            for part in request {
                let place = |of: usize| of.saturating_sub(at).min(part.len());
                let digested = part.get(place(end.start)..place(end.end));
                pieces.extend(digested.filter(|piece| !piece.is_empty()));
                at += part.len();
            }
        }
        // At once: to this hasher bytes in two pieces are others than the same in one.
        match pieces[..] {
            [whole] => hasher.write(whole),
            _ => hasher.write(&pieces.concat()),
        }
        Digest(hasher.finish())
    }

    /// The permit to make state. Before a client gets something for the first time, a record of it is on the disk.
    ///
    /// # Errors
    /// [`Error::Grace`], [`Error::NoGrace`], [`Error::ReclaimBad`]; [`Error::Delay`] where the record cannot be
    /// written.
    pub(crate) async fn permit(
        &self,
        vfs: &Vfs,
        by: &Sequenced<Opened>,
        reclaims: bool,
    ) -> Result<Permit, Error> {
        if reclaims {
            return self.core.permit_reclaim(by).map(Permit::Reclaim);
        }
        match self.core.permit_new(by)? {
            Admission::Granted(permit) => Ok(Permit::New(permit)),
            Admission::Record(write) => {
                self.write(vfs, write.record()).await?;
                Ok(Permit::New(write.on_disk()))
            }
        }
    }

    /// RECLAIM_COMPLETE for all file systems.
    ///
    /// # Errors
    /// [`Error::CompleteAlready`]; [`Error::Delay`] where the record cannot be written.
    pub(crate) async fn reclaim_complete(
        &self,
        vfs: &Vfs,
        by: &Sequenced<Opened>,
    ) -> Result<(), Error> {
        loop {
            match self.core.reclaim_complete(by, self.now())? {
                Completion::Done { grace_is_due } => {
                    if grace_is_due {
                        self.end_grace(vfs).await;
                    }
                    return Ok(());
                }
                Completion::Record(write) => {
                    self.write(vfs, write.record()).await?;
                    let _permit = write.on_disk();
                }
            }
        }
    }

    /// CREATE_SESSION. Where its host has its share of the clients, another client of it gives way that is silent and
    /// holds nothing, or whose lease is over.
    ///
    /// # Errors
    /// Those of [`State::create_session`].
    pub(crate) async fn create_session(
        &self,
        vfs: &Arc<Vfs>,
        asked: &CreateSession<'_>,
    ) -> Result<Created<Opened>, Error> {
        for _ in 0..limits::EXPIRIES_PER_OPERATION_MAX {
            let now = self.now();
            let created = self.core.create_session(asked, now);
            let Err(Error::Resource) = created else {
                return created;
            };
            match self.core.who_gives_way(asked.client, now) {
                Some(other) => self.expire(vfs, other, Why::Room).await?,
                None => return created,
            }
        }
        self.core.create_session(asked, self.now())
    }

    /// Expires a client: one who is in somebody's way, or as the operator says.
    ///
    /// # Errors
    /// [`Error::Delay`]: not now.
    pub(crate) async fn expire(
        &self,
        vfs: &Arc<Vfs>,
        client: ClientId,
        why: Why,
    ) -> Result<(), Error> {
        let released = match self.core.expire(client, why, self.now())? {
            Expiry::Done(released) => released,
            Expiry::Remove(expiring) => {
                self.remove(vfs, expiring.removal().clone()).await?;
                self.core.record_removed(expiring, self.now())
            }
        };
        self.release(vfs, released);
        Ok(())
    }

    /// Lets go of what a client held, also on the host. Closing a file may take time.
    pub(crate) fn release(&self, vfs: &Arc<Vfs>, mut released: Released<Opened>) {
        if released.is_empty() {
            return;
        }
        self.notices.put_all(std::mem::take(&mut released.notify));
        let files = released.files.iter();
        for object in files.filter_map(|file| object_of(&released, file)) {
            self.tell_host_in_a_while(vfs, object);
        }
        drop(vfs.pool.submit(OWN_FILES, released, drop));
    }

    /// Has waiters told that may try now, all of one file.
    pub(crate) fn notify(&self, file: &Arc<FileState>, notify: Vec<Notify>) {
        self.notices.put(file, notify);
    }

    /// Tells the host what is locked in a file, where nobody has to wait for that.
    pub(crate) fn tell_host_in_a_while(&self, vfs: &Arc<Vfs>, object: Arc<Object>) {
        let (told, later) = (Arc::clone(vfs), Arc::clone(&self.untold));
        let lane = object.mount.lane();
        let submitted = vfs.pool.submit(lane, object, move |object| {
            if object.tell_host(None, told.files.budget()).is_err() {
                later.lock().push(object);
            }
        });
        if let Err(refused) = submitted {
            self.untold.lock().push(refused.input);
        }
    }

    /// A local program has locked in this file what a client of this host waits for, who stands among the waiters.
    pub(crate) fn watch_host(&self, object: &Arc<Object>, host: Sharer) {
        self.watched.add(object, host);
    }

    /// Looks whether local programs have let go what clients wait for.
    fn look_at_watched(&self, vfs: &Arc<Vfs>) {
        for object in self.watched.to_look_at() {
            let (used, notices) = (Arc::clone(vfs), Arc::clone(&self.notices));
            let (watched, now) = (self.watched.clone(), self.now());
            let lane = object.mount.lane();
            let submitted = vfs.pool.submit(lane, object, move |object| {
                let file = object.file_state();
                let wanted = file.wanted_first(limits::WATCHED_WAITERS_MAX);
                let is_free = |(range, kind): &(Range, LockKind)| {
                    let held = object.host_holder(*range, *kind, used.files.budget());
                    matches!(held, Ok(None))
                };
                let free: Vec<_> = wanted.into_iter().filter(is_free).collect();
                if !free.is_empty() {
                    notices.put(file, file.host_let_go(&free, now));
                }
                watched.looked_at(&object);
            });
            if let Err(refused) = submitted {
                self.watched.looked_at(&refused.input);
            }
        }
    }

    /// Looks after the file of the records, where nobody has to wait for that.
    fn look_at_records(&self, vfs: &Arc<Vfs>) {
        if self.is_looking.swap(true, Ordering::Relaxed) {
            return;
        }
        let job = (Arc::clone(&self.records), Arc::clone(&self.is_looking));
        let submitted = vfs.pool.submit(OWN_FILES, job, |(records, is_looking)| {
            records.look();
            is_looking.store(false, Ordering::Relaxed);
        });
        if submitted.is_err() {
            self.is_looking.store(false, Ordering::Relaxed);
        }
    }

    /// Does what is due; to be called about once a second.
    pub(crate) async fn tick(&self, vfs: &Arc<Vfs>) {
        let untold = std::mem::take(&mut *self.untold.lock());
        for object in untold {
            self.tell_host_in_a_while(vfs, object);
        }
        self.look_at_watched(vfs);
        self.look_at_records(vfs);
        let tick = self.core.tick(self.now());
        for client in tick.expire {
            if let Err(error) = self.expire(vfs, client, Why::LeaseOver).await {
                tracing::debug!(%error, "an NFSv4 client whose lease is over stays for now");
            }
        }
        if tick.grace_is_due {
            self.end_grace(vfs).await;
        }
    }

    /// Ends the grace period, if no reclaim is in progress and the disk takes it. Who has not come back has lost what it
    /// held.
    pub(crate) async fn end_grace(&self, vfs: &Vfs) {
        let Some(ending) = self.core.end_grace() else {
            return;
        };
        let missing = self.core.grace().waiting;
        let (records, epoch) = (Arc::clone(&self.records), ending.epoch());
        let removed = vfs.blocking(OWN_FILES, move || records.remove_before(epoch));
        // If not, it is tried again with the next tick. That the file cannot be written is logged once.
        if let Ok(Ok(())) = removed.await {
            ending.records_removed();
            tell_of_graces_end(missing, self.now());
        }
    }

    /// # Errors
    /// [`Error::Delay`] where it is not on the disk: then nothing may rest on it.
    pub(crate) async fn remove(&self, vfs: &Vfs, removal: RecordRemoval) -> Result<(), Error> {
        let records = Arc::clone(&self.records);
        let removed = vfs.blocking(OWN_FILES, move || records.remove(&removal));
        on_disk(removed.await)
    }

    async fn write(&self, vfs: &Vfs, record: Record) -> Result<(), Error> {
        let records = Arc::clone(&self.records);
        let written = vfs.blocking(OWN_FILES, move || records.write(&record));
        on_disk(written.await)
    }
}

/// Says in the log what a start means to NFSv4 clients.
fn tell_of_grace(clients: usize, grace_ms: u64) {
    if clients == 0 {
        tracing::info!("no NFSv4 client held anything before this start: there is no grace period");
        return;
    }
    tracing::info!(
        clients,
        seconds_max = grace_ms / 1000,
        "NFSv4 clients may reclaim what they held before this start; until all have, nobody gets anything new"
    );
}

/// Says in the log why the grace period has ended; `missing` clients did not come back.
fn tell_of_graces_end(missing: usize, now: Millis) {
    let seconds = now.0 / 1000;
    if missing == 0 {
        tracing::info!(
            seconds,
            "the grace period is over: all NFSv4 clients came back"
        );
        return;
    }
    tracing::info!(
        seconds,
        missing,
        "the grace period is over: some NFSv4 clients did not come back, and have lost what they held"
    );
}

/// # Errors
/// In words: the system has no random numbers.
fn fresh() -> Result<Fresh, String> {
    let (mut epoch, mut server_id) = ([0; 4], [0; 16]);
    let filled = getrandom::fill(&mut epoch).and_then(|()| getrandom::fill(&mut server_id));
    filled.map_err(|error| format!("random numbers: {error}"))?;
    Ok(Fresh {
        epoch: u32::from_ne_bytes(epoch),
        server_id,
    })
}

fn cannot_open(path: &Path, error: &redb::Error) -> String {
    let file = path.display();
    let cure = match error {
        redb::Error::DatabaseAlreadyOpen => {
            "another penstock serves from this state directory: end that, or give this one a directory of its own"
        }
        redb::Error::Io(error) if error.kind() != io::ErrorKind::InvalidData => {
            "see that the state directory can be read and written and has room, or serve NFSv3 alone: versions = \
             [\"3\"] in [server]"
        }
        _ => {
            "the file is damaged, or of another version. Move it away to start without it: NFSv4 clients lose the \
             opens and locks that they hold. Or serve NFSv3 alone until then, which does not use it: versions = \
             [\"3\"] in [server]"
        }
    };
    format!("the records of NFSv4 clients {file}: {error}; {cure}")
}

fn on_disk(done: crate::vfs::Result<Result<(), redb::Error>>) -> Result<(), Error> {
    match done {
        Ok(Ok(())) => Ok(()),
        // Logged once, however often clients ask.
        Ok(Err(_)) | Err(_) => Err(record::NOT_ON_DISK),
    }
}

/// The object that a file's state hangs from, by an open of it.
fn object_of(released: &Released<Opened>, file: &Arc<FileState>) -> Option<Arc<Object>> {
    let mut opens = released.opens.iter();
    let open = opens.find(|open| Arc::ptr_eq(open.file(), file))?;
    Some(Arc::clone(open.pin().object()))
}

/// How often [`States::tick`] is to be called.
pub(crate) const TICK: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of opening the state where `clients.redb` is what `make` leaves there.
    fn error_with(make: impl FnOnce(&Path)) -> String {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("clients.redb");
        make(&path);
        States::open(scratch.path(), 1 << 20, (60, 60))
            .err()
            .unwrap()
    }

    #[test]
    fn an_error_of_the_records_tells_its_cause_and_its_cure() {
        let damaged = error_with(|path| std::fs::write(path, vec![7; 20_000]).unwrap());
        assert!(damaged.contains("clients.redb: "), "{damaged}");
        assert!(damaged.contains("the file is damaged"), "{damaged}");
        assert!(damaged.contains("Move it away"), "{damaged}");
        assert!(damaged.contains("lose the opens and locks"), "{damaged}");
        let unreadable = error_with(|path| std::fs::create_dir(path).unwrap());
        assert!(
            unreadable.contains("can be read and written"),
            "{unreadable}"
        );
        let mut first = None;
        let in_use = error_with(|path| {
            first = Some(States::open(path.parent().unwrap(), 1 << 20, (60, 60)).unwrap());
        });
        assert!(in_use.contains("another penstock"), "{in_use}");
        drop(first);
    }

    #[test]
    fn a_server_without_records_begins_at_an_epoch_of_its_own() {
        let scratch = tempfile::tempdir().unwrap();
        let life = || {
            States::open(scratch.path(), 1 << 20, (60, 60))
                .unwrap()
                .core
                .epoch()
        };
        let first = life();
        assert_eq!(life().0, first.0.wrapping_add(1).max(1));
        std::fs::remove_file(scratch.path().join("clients.redb")).unwrap();
        let lost = life();
        assert!(lost.0.abs_diff(first.0) > 2, "{lost:?} after {first:?}");
    }
}
