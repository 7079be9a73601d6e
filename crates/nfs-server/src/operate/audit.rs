//! The audit: who created, removed, renamed or changed what, on the exports that ask for it.
//!
//! A call that is audited leaves a record of fixed cost in one bounded queue
//! ([`limits::AUDIT_QUEUE_RECORDS_MAX`]) and goes on; nothing here waits. Whoever reads the queue puts
//! the records into words on a thread of its own: the log of the audit, a file or the journal, and each
//! follower. A reader that is too slow loses records, which is counted and said in its lines.
//!
//! READs and WRITEs are too many for that. Of them only the first is told that a user of a client makes
//! of a file, and the next one ten minutes later ([`limits::AUDIT_AGAIN_SECONDS`]).

mod line;
mod log;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Mutex, RwLock};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use crate::exports::Export;
use crate::exports::config::{AuditTo, Audited};
use crate::limits;

pub(crate) use line::{Asked, Deed, Named, Operation};
pub use line::{AuditEvent, AuditLine};
use log::Log;

/// The audit of one server.
pub(crate) struct Audit {
    /// Is any export audited? Apart from whatever is written to often.
    wanted: AtomicBool,
    exports: RwLock<Exports>,
    /// `None` once the server ends.
    queue: RwLock<Option<broadcast::Sender<Arc<Record>>>>,
    first: Mutex<Firsts>,
    log: Mutex<Option<Log>>,
    counts: Arc<Counts>,
}

/// What is counted, for `penstock ctl status`.
#[derive(Default)]
struct Counts {
    told: AtomicU64,
    lost: AtomicU64,
    unwritten: AtomicU64,
    followers: AtomicU64,
}

/// The exports that are audited, by id.
type Exports = HashMap<u32, (Arc<str>, Audited)>;

/// A call as it was made and answered.
#[derive(Debug)]
struct Record {
    time: SystemTime,
    deed: Deed,
    export: Arc<str>,
    /// The RFC's word; `None` where the client left before it was answered.
    status: Option<&'static str>,
}

/// When a READ or WRITE of a file was told last, by a hash of who and which file.
#[derive(Default)]
struct Firsts {
    seen: HashMap<u64, Instant>,
    hasher: RandomState,
}

/// Somebody who follows the audit.
pub struct AuditFollower {
    queue: broadcast::Receiver<Arc<Record>>,
    counts: Arc<Counts>,
}

impl Audit {
    /// The audit of a server with this state directory, which the log is kept in if it is a file.
    pub(crate) fn new(state_dir: &Path, to: AuditTo) -> Self {
        let (queue, _) = broadcast::channel(limits::AUDIT_QUEUE_RECORDS_MAX);
        let counts = Arc::default();
        let log = Log::new(state_dir, to, Arc::clone(&counts));
        Self {
            wanted: AtomicBool::new(false),
            exports: RwLock::default(),
            queue: RwLock::new(Some(queue)),
            first: Mutex::default(),
            log: Mutex::new(Some(log)),
            counts,
        }
    }

    /// The exports as they are served from now on. The log begins with the first that is audited.
    pub(crate) fn set_exports<'e>(&self, exports: impl Iterator<Item = &'e Export>) {
        let audited = exports.filter(|export| export.audit != Audited::Off);
        let audited: Exports = audited
            .map(|export| (export.id, (Arc::from(export.pseudo.as_str()), export.audit)))
            .collect();
        let wanted = !audited.is_empty();
        if wanted && let (Some(log), Some(queue)) = (&mut *self.log.lock(), &*self.queue.read()) {
            log.begin(queue.subscribe());
        }
        *self.exports.write() = audited;
        self.wanted.store(wanted, Ordering::Relaxed);
    }

    /// Is any export audited?
    #[inline(always)]
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Tells of `deed`, a call on the export with this id that its rules let in, if it is audited there.
    /// `path_of` says where in the export the object of a handle is.
    #[cold]
    pub(crate) fn tell(
        &self,
        export: u32,
        mut deed: Deed,
        status: Option<&'static str>,
        path_of: impl Fn(&[u8]) -> Option<Vec<u8>>,
    ) {
        let Some((export, audited)) = self.exports.read().get(&export).cloned() else {
            return;
        };
        let is_data = deed.operation.is_data();
        let is_told = match audited {
            Audited::Off => false,
            Audited::Changes => !is_data,
            Audited::All => !is_data || self.first.lock().is_first(&deed, Instant::now()),
        };
        if !is_told {
            return;
        }
        for named in std::iter::once(&mut deed.on).chain(&mut deed.to) {
            let path = path_of(&named.handle);
            let path = path.filter(|path| path.len() <= limits::AUDIT_PATH_BYTES_MAX);
            named.path = path.map(Vec::into_boxed_slice);
        }
        let record = Record {
            time: SystemTime::now(),
            deed,
            export,
            status,
        };
        if let Some(queue) = &*self.queue.read() {
            self.counts.told.fetch_add(1, Ordering::Relaxed);
            // Without a reader there is nobody to tell.
            let _readers = queue.send(Arc::new(record));
        }
    }

    /// Follows the audit from now on.
    ///
    /// # Errors
    /// In words: no export is audited, too many followers.
    pub(crate) fn follow(&self) -> Result<AuditFollower, String> {
        if !self.is_wanted() {
            return Err(
                "no export is audited; write audit = \"changes\" or \"all\" in its section and \
                 reload"
                    .to_owned(),
            );
        }
        let queue = self.queue.read();
        let Some(queue) = &*queue else {
            return Err("the server ends".to_owned());
        };
        let followers = self.counts.followers.fetch_add(1, Ordering::Relaxed);
        let follower = AuditFollower {
            queue: queue.subscribe(),
            counts: Arc::clone(&self.counts),
        };
        if followers >= limits::AUDIT_FOLLOWERS_MAX {
            return Err(format!(
                "{followers} follow the audit already, which is the most that may; end one of them"
            ));
        }
        Ok(follower)
    }

    /// The counters of the audit, by name.
    pub(crate) fn counters(&self) -> [(&'static str, u64); 3] {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("audit_records", load(&self.counts.told)),
            ("audit_records_lost", load(&self.counts.lost)),
            ("audit_records_unwritten", load(&self.counts.unwritten)),
        ]
    }

    /// Ends the audit, and waits until the log has what was on its way to it, but not for long.
    pub(crate) fn close(&self) {
        self.wanted.store(false, Ordering::Relaxed);
        drop(self.queue.write().take());
        if let Some(log) = self.log.lock().take() {
            log.end(Duration::from_secs(limits::AUDIT_LOG_END_SECONDS_MAX));
        }
    }
}

impl AuditFollower {
    /// The next event or loss; `None` once the server ends. May be dropped and called again without
    /// losing any.
    pub async fn next(&mut self) -> Option<AuditLine> {
        match self.queue.recv().await {
            Ok(record) => Some(AuditLine::of(&record)),
            Err(RecvError::Lagged(lost)) => Some(self.lose(lost)),
            Err(RecvError::Closed) => None,
        }
    }

    /// The next line if there is one now, without waiting.
    pub fn at_once(&mut self) -> Option<AuditLine> {
        match self.queue.try_recv() {
            Ok(record) => Some(AuditLine::of(&record)),
            Err(TryRecvError::Lagged(lost)) => Some(self.lose(lost)),
            Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        }
    }

    fn lose(&self, lost: u64) -> AuditLine {
        self.counts.lost.fetch_add(lost, Ordering::Relaxed);
        AuditLine::Lost { lost }
    }
}

impl std::fmt::Debug for AuditFollower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AuditFollower")
    }
}

impl Drop for AuditFollower {
    fn drop(&mut self) {
        self.counts.followers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Firsts {
    /// Whether this READ or WRITE is the first of its user and client on its file for a while.
    fn is_first(&mut self, deed: &Deed, now: Instant) -> bool {
        let while_ = Duration::from_secs(limits::AUDIT_AGAIN_SECONDS);
        let who = (deed.client.ip(), deed.uid, deed.operation);
        let key = self.hasher.hash_one((who, &deed.on.handle));
        if let Some(told) = self.seen.get(&key)
            && now.saturating_duration_since(*told) < while_
        {
            return false;
        }
        if self.seen.len() >= limits::AUDIT_FILES_MAX {
            self.seen
                .retain(|_, told| now.saturating_duration_since(*told) < while_);
            // Told again rather than not at all.
            if self.seen.len() >= limits::AUDIT_FILES_MAX {
                self.seen.clear();
            }
        }
        self.seen.insert(key, now);
        true
    }
}
