//! Trace events: what READ, WRITE and COMMIT do, in the words of the Linux kernel's server (its
//! `nfsd:*` trace points, without the prefix), for the log and for `penstock ctl trace follow`.
//!
//! Every event of the server is in this module. While nobody listens to an event it costs one relaxed
//! load and a branch that is not taken. When somebody does, a record of fixed size goes to a bounded
//! queue for each listener and is put into words on the listener's own thread: a listener that reads too
//! slowly loses events, is told how many, and holds nobody up.

mod line;
mod listen;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use nfs_io::{Mode, auto};
use parking_lot::{Mutex, RwLock};

use crate::exports::Export;
use crate::exports::policy::Io;
use crate::operate::io_counters::Reason;

pub(crate) use line::time;
pub use line::{
    EventStatus, FollowRequest, TRACE_LOG_TARGET, TraceEvent, TraceLine, TraceStatus, UnknownEvent,
    check_event,
};
pub use listen::Follower;
use listen::{Listener, Log};

macro_rules! events {
    ($( $variant:ident $word:literal $meaning:literal; )*) => {
        /// One kind of event that a trace can tell of.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Event { $( $variant ),* }

        impl Event {
            /// All kinds of event, in the order in which the operator is shown them.
            pub(crate) const ALL: &[Self] = &[$( Self::$variant ),*];

            /// The kernel's name, without `nfsd_`.
            pub(crate) const fn word(self) -> &'static str {
                match self { $( Self::$variant => $word, )* }
            }

            /// The meaning of the event, in words for the operator.
            const fn meaning(self) -> &'static str {
                match self { $( Self::$variant => $meaning, )* }
            }
        }
    };
}

events! {
    ReadStart "read_start" "a READ begins; offset and len as the client asked";
    ReadVector "read_vector" "a part of it is read through the page cache (buffered, dontcache)";
    ReadDirect "read_direct" "a part of it is read past the page cache: the range rounded out to the alignment";
    ReadSplice "read_splice" "the pages that the page cache has are sent without a copy; len bytes";
    ReadAhead "read_ahead" "past the page cache, a piece is read that this READ did not ask for: the next ones will";
    ReadFromAhead "read_from_ahead" "the READ is answered with what was read ahead; len bytes of it";
    ReadIoDone "read_io_done" "the file was read; len is what came of the range asked for";
    ReadErr "read_err" "the READ fails; status is what the client is told";
    ReadDone "read_done" "the READ is answered; len bytes go back, took_us after read_start";
    WriteStart "write_start" "a WRITE begins, its data is here; offset and len as the client sent";
    WriteOpened "write_opened" "the file is open and the caller may write to it";
    WriteDirect "write_direct" "a segment of it is written past the page cache";
    WriteVector "write_vector" "a segment of it is written through the page cache (buffered, dontcache)";
    WriteIoDone "write_io_done" "the file was written; len is how much of it";
    WriteErr "write_err" "the WRITE fails; status is what the client is told";
    WriteDone "write_done" "the WRITE is answered; len bytes are acknowledged, took_us after write_start";
    ModeChange "mode_change" "auto gives the file's calls of this direction another mode from this one on; because says why";
    ModeWouldChange "mode_would_change" "the same in a dry run: the mode in force stays";
    CommitStart "commit_start" "a COMMIT begins; offset and len as the client asked (the whole file is synced)";
    CommitErr "commit_err" "the COMMIT fails; status is what the client is told";
    CommitDone "commit_done" "the COMMIT is answered, took_us after commit_start";
}

/// A set of events, a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Events(u32);

impl Events {
    pub(crate) const ALL: Self = Self((1 << Event::ALL.len()) - 1);

    const fn of(event: Event) -> Self {
        Self(1 << event as u32)
    }

    const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    const fn has(self, event: Event) -> bool {
        self.0 & Self::of(event).0 != 0
    }

    const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Which call this is, as it travels from dispatch to whoever has something to tell of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallId {
    pub(crate) xid: u32,
    /// Address and port that it came from.
    pub(crate) client: SocketAddr,
    /// When the record of the call had come whole.
    pub(crate) started: Instant,
}

/// What an event is about: a call and the file it names.
#[derive(Clone, Copy)]
pub(crate) struct About<'a> {
    pub(crate) call: &'a CallId,
    /// The bytes of the file's handle.
    pub(crate) file: &'a [u8],
}

/// The events of one server and who listens to them.
pub(crate) struct Trace {
    wanted: Wanted,
    listeners: ArcSwap<Vec<Arc<Listener>>>,
    /// Held while listeners come, go or change their minds.
    log: Mutex<Option<Log>>,
    names: ExportNames,
    export_of: ExportOf,
    /// Events that were lost, by all listeners together.
    lost: Arc<AtomicU64>,
}

/// The events that anybody listens to, apart from whatever is written to often.
#[derive(Default)]
#[repr(align(128))]
struct Wanted(AtomicU32);

/// Which export the bytes of a handle say it is of. Nothing of that is checked.
pub(crate) type ExportOf = fn(&[u8]) -> Option<u32>;

/// The exports' pseudo paths by their ids.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExportNames(Arc<RwLock<HashMap<u32, Arc<str>>>>);

impl ExportNames {
    /// The path that clients mount; `None` where no such export is served any more.
    pub(crate) fn name(&self, id: u32) -> Option<String> {
        self.0.read().get(&id).map(|name| name.as_ref().to_owned())
    }

    /// The id of the export that clients mount so.
    ///
    /// # Errors
    /// In words: it is not served, but these are.
    pub(crate) fn id_of(&self, pseudo: &str) -> Result<u32, String> {
        let names = self.0.read();
        let found = names.iter().find(|(_, name)| &***name == pseudo);
        found.map(|(id, _)| *id).ok_or_else(|| {
            let mut served: Vec<&str> = names.values().map(AsRef::as_ref).collect();
            served.sort_unstable();
            format!("no export is {pseudo:?}; served are: {}", served.join(" "))
        })
    }
}

/// One event as it happened. Plain data: nothing is allocated or put into words on a shard.
#[derive(Clone, Copy, Debug)]
struct Record {
    time: SystemTime,
    since_start: Duration,
    event: Event,
    xid: u32,
    client: SocketAddr,
    export: Option<u32>,
    fh_hash: u32,
    offset: u64,
    details: Details,
    /// Events that this listener had lost when this one was sent.
    lost_before: u64,
}

/// The fields of an event that not every kind has.
#[derive(Clone, Copy, Debug, Default)]
struct Details {
    len: Option<u64>,
    mode: Option<Mode>,
    fallback: Option<Reason>,
    status: Option<&'static str>,
    /// The operation, the mode before and why it is another one now.
    change: Option<(Io, Mode, auto::Reason)>,
    took: Option<Duration>,
}

impl Trace {
    pub(crate) fn new(export_of: ExportOf) -> Arc<Self> {
        Arc::new(Self {
            export_of,
            wanted: Wanted::default(),
            listeners: ArcSwap::default(),
            log: Mutex::default(),
            names: ExportNames::default(),
            lost: Arc::default(),
        })
    }

    /// Does anybody listen to `event`?
    #[inline(always)]
    pub(crate) fn on(&self, event: Event) -> bool {
        Events(self.wanted.0.load(Ordering::Relaxed)).has(event)
    }

    /// `read_start`, `write_start`, `commit_start`: the call begins, as it was asked. Its time is the one
    /// from which `took_us` counts.
    #[inline(always)]
    pub(crate) fn start(&self, event: Event, about: About<'_>, offset: u64, len: u64) {
        if self.on(event) {
            self.started(event, about, offset, len);
        }
    }

    /// `read_splice`, `read_ahead`, `read_from_ahead`, `write_opened`, `read_io_done`, `write_io_done`: a stage of a call
    /// is reached.
    #[inline(always)]
    pub(crate) fn io(&self, event: Event, about: About<'_>, offset: u64, len: u64) {
        if self.on(event) {
            self.reached(event, about, offset, len);
        }
    }

    /// `read_vector`, `read_direct`, `write_vector` or `write_direct`: a segment is about to be moved in
    /// mode `kind`; `fallback` says why that is not the mode that was chosen.
    #[inline(always)]
    pub(crate) fn segment(
        &self,
        io: Io,
        about: About<'_>,
        (offset, len): (u64, u64),
        kind: Mode,
        fallback: Option<Reason>,
    ) {
        let event = segment_event(io, kind);
        if self.on(event) {
            self.segment_begun(event, about, (offset, len), kind, fallback);
        }
    }

    /// `mode_change`, or in a dry run (not `taken`) `mode_would_change`: this call is the first of the file that is
    /// given another mode.
    pub(crate) fn mode_changed(
        &self,
        io: Io,
        about: About<'_>,
        (offset, len): (u64, u64),
        switch: &auto::Switch,
        taken: bool,
    ) {
        let event = match taken {
            true => Event::ModeChange,
            false => Event::ModeWouldChange,
        };
        if self.on(event) {
            let details = Details {
                len: Some(len),
                mode: Some(switch.to),
                change: Some((io, switch.from, switch.reason)),
                ..Details::default()
            };
            self.send(self.record(event, about, offset, details));
        }
    }

    /// `read_err`, `write_err`, `commit_err`: the call fails, and `status` (the RFC's word) is what the
    /// client is told.
    #[inline(always)]
    pub(crate) fn error(&self, event: Event, about: About<'_>, offset: u64, status: &'static str) {
        if self.on(event) {
            self.failed(event, about, offset, status);
        }
    }

    /// `read_done`, `write_done`, `commit_done`: the call, failed or not, is answered with `len` bytes
    /// sent back or acknowledged.
    #[inline(always)]
    pub(crate) fn done(&self, event: Event, about: About<'_>, offset: u64, len: u64) {
        if self.on(event) {
            self.answered(event, about, offset, len);
        }
    }

    /// The exports as they are served from now on.
    pub(crate) fn set_exports<'e>(&self, exports: impl Iterator<Item = &'e Export>) {
        let names = exports.map(|export| (export.id, Arc::from(export.pseudo.as_str())));
        *self.names.0.write() = names.collect();
    }

    /// The exports as they are served, now and later.
    pub(crate) fn exports(&self) -> ExportNames {
        self.names.clone()
    }

    /// Events lost by all listeners so far.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    #[cold]
    #[inline(never)]
    fn started(&self, event: Event, about: About<'_>, offset: u64, len: u64) {
        let details = Details {
            len: Some(len),
            ..Details::default()
        };
        let mut record = self.record(event, about, offset, details);
        record.time -= record.since_start;
        self.send(record);
    }

    #[cold]
    #[inline(never)]
    fn reached(&self, event: Event, about: About<'_>, offset: u64, len: u64) {
        let details = Details {
            len: Some(len),
            ..Details::default()
        };
        self.send(self.record(event, about, offset, details));
    }

    #[cold]
    #[inline(never)]
    fn segment_begun(
        &self,
        event: Event,
        about: About<'_>,
        (offset, len): (u64, u64),
        kind: Mode,
        fallback: Option<Reason>,
    ) {
        let details = Details {
            len: Some(len),
            mode: Some(kind),
            fallback,
            ..Details::default()
        };
        self.send(self.record(event, about, offset, details));
    }

    #[cold]
    #[inline(never)]
    fn failed(&self, event: Event, about: About<'_>, offset: u64, status: &'static str) {
        let details = Details {
            status: Some(status),
            ..Details::default()
        };
        self.send(self.record(event, about, offset, details));
    }

    #[cold]
    #[inline(never)]
    fn answered(&self, event: Event, about: About<'_>, offset: u64, len: u64) {
        let details = Details {
            len: Some(len),
            ..Details::default()
        };
        let mut record = self.record(event, about, offset, details);
        record.details.took = Some(record.since_start);
        self.send(record);
    }

    fn record(&self, event: Event, about: About<'_>, offset: u64, details: Details) -> Record {
        let About { call, file } = about;
        // Read together, so that the times of a call's events differ by what they say they took.
        let (time, since_start) = (SystemTime::now(), call.started.elapsed());
        Record {
            time,
            since_start,
            event,
            xid: call.xid,
            client: call.client,
            export: (self.export_of)(file),
            fh_hash: crc32(file),
            offset,
            details,
            lost_before: 0,
        }
    }
    fn send(&self, record: Record) {
        for listener in self.listeners.load().iter() {
            listener.offer(record);
        }
    }
}

impl CallId {
    pub(crate) const fn new(xid: u32, client: (IpAddr, u16), started: Instant) -> Self {
        let (addr, port) = client;
        Self {
            xid,
            client: SocketAddr::new(addr, port),
            started,
        }
    }
}

#[inline(always)]
const fn segment_event(io: Io, kind: Mode) -> Event {
    match (io, kind) {
        (Io::Read, Mode::Buffered | Mode::DontCache) => Event::ReadVector,
        (Io::Read, Mode::Direct) => Event::ReadDirect,
        (Io::Write, Mode::Buffered | Mode::DontCache) => Event::WriteVector,
        (Io::Write, Mode::Direct) => Event::WriteDirect,
    }
}

/// The CRC-32 of IEEE 802.3 of a handle's bytes: how the Linux kernel's trace points and Wireshark name a handle
/// in short. Not for tables: a client could make handles that collide. Bit by bit, as it is computed for at
/// most 64 bytes, and only while somebody traces.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let crc = bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            let polynomial = if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
            crc >> 1 ^ polynomial
        })
    });
    !crc
}
