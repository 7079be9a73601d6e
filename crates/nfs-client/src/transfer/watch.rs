//! What a copy tells while it runs, and how it is stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

use super::error::TransferError;
use super::place::Location;

/// Sees how far a copy has come, gets its reports, and stops it. Clones share it.
#[derive(Clone, Default)]
pub struct Watch {
    inner: Arc<Inner>,
}

type Report = Box<dyn Fn(Event<'_>) + Send + Sync>;
type Ask = Box<dyn Fn(&Location) -> bool + Send + Sync>;

#[derive(Default)]
struct Inner {
    report: Option<Report>,
    ask: Option<Ask>,
    stopped: AtomicBool,
    /// Wakes those who wait for [`Self::stopped`].
    stop: Notify,
    streams: AtomicU64,
    walked: AtomicBool,
    files_found: AtomicU64,
    files_done: AtomicU64,
    files_left: AtomicU64,
    removed: AtomicU64,
    bytes_found: AtomicU64,
    bytes_done: AtomicU64,
    bytes_left: AtomicU64,
    failed: AtomicU64,
    owners_not_kept: AtomicU64,
    times_not_kept: AtomicU64,
    local_refused: AtomicU64,
}

/// How far a copy has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// All sources were walked: what was found is all there is.
    pub walked: bool,
    /// Files found so far; directories are not counted.
    pub files_found: u64,
    /// Of [`Self::files_found`], streams: how many bytes come is known at their end.
    pub streams: u64,
    /// Files done, also those left as they were.
    pub files_done: u64,
    /// Of [`Self::files_done`], those that were left as they were.
    pub files_left: u64,
    /// Files and directories removed because the source does not have them; in a dry run, those to be removed.
    pub removed: u64,
    /// Bytes of the files found so far.
    pub bytes_found: u64,
    /// Bytes of the files done so far and of those in work, holes and what was left as it was included. In a
    /// dry run, what would be done.
    pub bytes_done: u64,
    /// Of [`Self::bytes_done`], those that nobody had to move: of files left as they were, of the beginnings of
    /// files that were gone on with, and of further names of files.
    pub bytes_left: u64,
    /// Files and directories that failed.
    pub failed: u64,
    /// Files and directories whose owner could not be kept.
    pub owners_not_kept: u64,
    /// Files and directories of this host, among those whose times are to be kept, with times before
    /// 1970 or after 2106, which NFSv3 cannot say: the copy has the nearest that it can.
    pub times_not_kept: u64,
    /// Files of this host that went through the page cache because their file system refused
    /// the way of [`super::Options::local`].
    pub local_refused: u64,
}

/// What became of one thing that was to be copied.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// It was done, or would be, or nothing had to be done.
    Done(&'a Done),
    /// It could not be copied.
    Failed(&'a TransferError),
}

/// What was done with one file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// Where it is copied from.
    pub source: Location,
    /// Where it is copied to.
    pub destination: Location,
    /// What was done with it.
    pub what: What,
    /// The length of its content, in bytes.
    pub bytes: u64,
    /// Checksum of both sides (BLAKE3, hexadecimal), if it was asked for.
    pub checksum: Option<String>,
}

/// What was done, or would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A new file was made.
    Copied,
    /// A file that was there got new content.
    Replaced,
    /// What was there stayed, and the rest was copied from this offset, bytes.
    Resumed {
        /// The offset that the copy went on from, in bytes.
        from: u64,
    },
    /// A further name of a file copied before.
    Linked,
    /// A new directory was made.
    Directory,
    /// A new symbolic link was made.
    Symlink,
    /// A new fifo, socket or device.
    Special,
    /// Mode, times or owner were set; its content was as it is to be.
    Attributes,
    /// Removed, for the source does not have it.
    Removed,
    /// Left as it was: it is there already.
    Exists,
    /// Left as it was: it is not older than the source.
    NotOlder,
    /// Left as it was: an earlier copy had done it.
    Complete,
}

impl What {
    /// Nothing was done: what was there stays.
    pub fn is_left(self) -> bool {
        match self {
            Self::Exists | Self::NotOlder | Self::Complete => true,
            Self::Copied
            | Self::Replaced
            | Self::Resumed { .. }
            | Self::Linked
            | Self::Directory
            | Self::Symlink
            | Self::Special
            | Self::Attributes
            | Self::Removed => false,
        }
    }

    /// One word for it, in the past tense; part of the JSON of `penstock cp`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Copied => "copied",
            Self::Replaced => "replaced",
            Self::Resumed { .. } => "resumed",
            Self::Linked => "linked",
            Self::Directory => "directory",
            Self::Symlink => "symlink",
            Self::Special => "special",
            Self::Attributes => "attributes",
            Self::Removed => "removed",
            Self::Exists => "exists",
            Self::NotOlder => "not older",
            Self::Complete => "complete",
        }
    }
}

impl Watch {
    /// A watch that hands each event to `report`, on the thread that runs the copy: it should not
    /// block for long.
    pub fn new(report: impl Fn(Event<'_>) + Send + Sync + 'static) -> Self {
        let inner = Inner {
            report: Some(Box::new(report)),
            ..Inner::default()
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// As [`Self::new`], and asks `ask` before a file that is there is written over
    /// ([`Existing::Ask`](super::Existing::Ask)): on threads that may block, one file after the other if it sees to
    /// that.
    pub fn asking(
        report: impl Fn(Event<'_>) + Send + Sync + 'static,
        ask: impl Fn(&Location) -> bool + Send + Sync + 'static,
    ) -> Self {
        let inner = Inner {
            report: Some(Box::new(report)),
            ask: Some(Box::new(ask)),
            ..Inner::default()
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// How far it has come.
    pub fn figures(&self) -> Figures {
        let inner = &self.inner;
        let read = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        Figures {
            walked: inner.walked.load(Ordering::Relaxed),
            files_found: read(&inner.files_found),
            streams: read(&inner.streams),
            files_done: read(&inner.files_done),
            files_left: read(&inner.files_left),
            removed: read(&inner.removed),
            bytes_found: read(&inner.bytes_found),
            bytes_done: read(&inner.bytes_done),
            bytes_left: read(&inner.bytes_left),
            failed: read(&inner.failed),
            owners_not_kept: read(&inner.owners_not_kept),
            times_not_kept: read(&inner.times_not_kept),
            local_refused: read(&inner.local_refused),
        }
    }

    /// Stops the copy: nothing new is begun, what is on its way is brought to an end, and each file
    /// in work fails with [`TransferError::Stopped`].
    pub fn stop(&self) {
        self.inner.stopped.store(true, Ordering::Relaxed);
        self.inner.stop.notify_waiters();
    }

    /// Whether the copy was asked to stop by [`Self::stop`].
    pub fn is_stopped(&self) -> bool {
        self.inner.stopped.load(Ordering::Relaxed)
    }

    /// Returns when the copy is asked to stop.
    pub(super) async fn stop_asked(&self) {
        let mut asked = std::pin::pin!(self.inner.stop.notified());
        asked.as_mut().enable();
        if !self.is_stopped() {
            asked.await;
        }
    }

    /// Whether the file at `place` may be written over; yes if nobody is there to be asked. Blocks.
    pub(super) fn may_replace(&self, place: &Location) -> bool {
        self.inner.ask.as_ref().is_none_or(|ask| ask(place))
    }

    pub(super) fn found_stream(&self) {
        self.inner.streams.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn found(&self, bytes: u64) {
        self.inner.files_found.fetch_add(1, Ordering::Relaxed);
        self.inner.bytes_found.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn moved(&self, bytes: u64) {
        self.inner.bytes_done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes as done that nobody had to move.
    pub(super) fn left(&self, bytes: u64) {
        self.inner.bytes_left.fetch_add(bytes, Ordering::Relaxed);
        self.inner.bytes_done.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn walked(&self) {
        self.inner.walked.store(true, Ordering::Relaxed);
    }

    pub(super) fn owner_not_kept(&self) {
        self.inner.owners_not_kept.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn time_not_kept(&self) {
        self.inner.times_not_kept.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn local_refused(&self) {
        self.inner.local_refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn done(&self, done: &Done) {
        if done.what.is_left() {
            self.inner.files_left.fetch_add(1, Ordering::Relaxed);
        }
        if done.what == What::Removed {
            self.inner.removed.fetch_add(1, Ordering::Relaxed);
        } else if done.what != What::Directory {
            self.inner.files_done.fetch_add(1, Ordering::Relaxed);
        }
        self.report(Event::Done(done));
    }

    pub(super) fn failed(&self, error: &TransferError) {
        self.inner.failed.fetch_add(1, Ordering::Relaxed);
        self.report(Event::Failed(error));
    }

    fn report(&self, event: Event<'_>) {
        if let Some(report) = &self.inner.report {
            report(event);
        }
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watch({:?})", self.figures())
    }
}
