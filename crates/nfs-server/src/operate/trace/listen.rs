//! Who listens to trace events: followers, and the log.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::line::{self, EventStatus, FollowRequest, TraceLine, TraceStatus};
use super::{Event, Events, ExportNames, Record, Trace};
use crate::limits;

/// The sending end of one listener's queue. The queue ends with it.
pub(super) struct Listener {
    events: AtomicU32,
    only: Only,
    is_log: bool,
    queue: mpsc::Sender<Record>,
    lost: Arc<AtomicU64>,
    lost_by_all: Arc<AtomicU64>,
}

/// What of the events a listener wants.
#[derive(Clone, Copy, Default)]
struct Only {
    export: Option<u32>,
    client: Option<IpAddr>,
}

/// The end of a listener's queue that its own thread reads.
pub(super) struct Reader {
    queue: mpsc::Receiver<Record>,
    names: ExportNames,
    lost: Arc<AtomicU64>,
    /// How many lost events the listener was told of already.
    told: u64,
    /// An event that was read from the queue and is to be told after a loss.
    kept: Option<Record>,
}

/// The log's listening; its thread ends when the listener does.
pub(super) struct Log {
    listener: Arc<Listener>,
    /// Says that the thread has ended by being closed.
    ended: std::sync::mpsc::Receiver<()>,
}

/// Somebody who follows events. They are switched off again when it is dropped, unless somebody else
/// listens to them too.
pub struct Follower {
    trace: Arc<Trace>,
    listener: Arc<Listener>,
    reader: Reader,
}

impl Listener {
    fn events(&self) -> Events {
        Events(self.events.load(Ordering::Relaxed))
    }

    pub(super) fn offer(&self, mut record: Record) {
        let Only { export, client } = self.only;
        let wanted = self.events().has(record.event)
            && export.is_none_or(|export| record.export == Some(export))
            && client.is_none_or(|client| record.client.ip().to_canonical() == client);
        if !wanted {
            return;
        }
        record.lost_before = self.lost.load(Ordering::Relaxed);
        match self.queue.try_send(record) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
                self.lost_by_all.fetch_add(1, Ordering::Relaxed);
            }
            // Its reader has just gone.
            Err(TrySendError::Closed(_)) => {}
        }
    }
}

impl Trace {
    /// Sends events to the server's log too, from now on.
    ///
    /// # Errors
    /// In words: a name that is no event's, or no thread to be had.
    pub(crate) fn log_on(&self, words: &[String]) -> Result<TraceStatus, String> {
        let events = line::events_named(words).map_err(|unknown| unknown.to_string())?;
        let mut log = self.log.lock();
        if let Some(log) = &*log {
            log.set(log.listener.events().with(events));
        } else if !events.is_empty() {
            let (listener, reader) = self.listener(events, Only::default(), true);
            let (alive, ended) = std::sync::mpsc::channel();
            // A thread of its own: a log that is not read stops whoever writes to it.
            std::thread::Builder::new()
                .name("trace-log".to_owned())
                .spawn(move || {
                    write_log(reader);
                    drop(alive);
                })
                .map_err(|error| format!("no thread to write the log: {error}"))?;
            self.enter(&listener);
            *log = Some(Log { listener, ended });
        }
        self.recount();
        drop(log);
        Ok(self.status())
    }

    /// Sends events to the log no more: those named, or all. Those who follow them still get them.
    ///
    /// # Errors
    /// In words: a name that is no event's.
    pub(crate) fn log_off(&self, words: &[String]) -> Result<TraceStatus, String> {
        let events = if words.is_empty() {
            Events::ALL
        } else {
            line::events_named(words).map_err(|unknown| unknown.to_string())?
        };
        let mut log = self.log.lock();
        if let Some(present) = &*log {
            let left = present.listener.events().without(events);
            present.set(left);
            if left.is_empty() {
                self.leave(&present.listener);
                *log = None;
            }
        }
        self.recount();
        drop(log);
        Ok(self.status())
    }

    /// Switches the log's events off and waits until it has what was on its way to it, but not for long:
    /// a log that nobody reads is no reason not to end. For the end of the server.
    pub(crate) fn close(&self) {
        let mut log = self.log.lock();
        let Some(Log { listener, ended }) = log.take() else {
            return;
        };
        self.leave(&listener);
        self.recount();
        drop((log, listener));
        let patience = Duration::from_secs(limits::TRACE_LOG_END_SECONDS_MAX);
        match ended.recv_timeout(patience) {
            // The thread never says a word: it has ended, or it is too slow.
            Ok(()) | Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => {}
        }
    }

    /// Follows events: they are on for as long as the answer is kept.
    ///
    /// # Errors
    /// In words: a name that is no event's, an export that is not served, too many followers.
    pub(crate) fn follow(self: &Arc<Self>, request: &FollowRequest) -> Result<Follower, String> {
        let events = line::events_named(&request.events).map_err(|unknown| unknown.to_string())?;
        let export = match &request.export {
            Some(pseudo) => Some(self.names.id_of(pseudo)?),
            None => None,
        };
        let only = Only {
            export,
            client: request.client.map(|client| client.to_canonical()),
        };
        let turn = self.log.lock();
        let followers = self
            .listeners
            .load()
            .iter()
            .filter(|one| !one.is_log)
            .count();
        if followers >= limits::TRACE_FOLLOWERS_MAX {
            return Err(format!(
                "{followers} follow the trace already, which is the most that may; end one of them"
            ));
        }
        let (listener, reader) = self.listener(events, only, false);
        self.enter(&listener);
        self.recount();
        drop(turn);
        Ok(Follower {
            trace: Arc::clone(self),
            listener,
            reader,
        })
    }

    /// The events that there are, and who listens to each.
    pub(crate) fn status(&self) -> TraceStatus {
        let listeners = self.listeners.load();
        let events = Event::ALL.iter().map(|event| {
            let (log, followers) = listeners
                .iter()
                .filter(|listener| listener.events().has(*event))
                .partition::<Vec<_>, _>(|listener| listener.is_log);
            EventStatus {
                name: event.word().to_owned(),
                meaning: event.meaning().to_owned(),
                log: !log.is_empty(),
                followers: followers.len() as u64,
            }
        });
        TraceStatus {
            events: events.collect(),
            lost: self.lost(),
        }
    }

    fn listener(&self, events: Events, only: Only, is_log: bool) -> (Arc<Listener>, Reader) {
        let (queue, records) = mpsc::channel(limits::TRACE_QUEUE_EVENTS_MAX);
        let lost = Arc::default();
        let listener = Arc::new(Listener {
            events: AtomicU32::new(events.0),
            only,
            is_log,
            queue,
            lost: Arc::clone(&lost),
            lost_by_all: Arc::clone(&self.lost),
        });
        let reader = Reader {
            queue: records,
            names: self.names.clone(),
            lost,
            told: 0,
            kept: None,
        };
        (listener, reader)
    }

    /// The three below are called with `log` locked.
    fn enter(&self, listener: &Arc<Listener>) {
        let mut listeners = self.listeners.load().to_vec();
        listeners.push(Arc::clone(listener));
        self.listeners.store(Arc::new(listeners));
    }

    fn leave(&self, listener: &Arc<Listener>) {
        let mut listeners = self.listeners.load().to_vec();
        listeners.retain(|present| !Arc::ptr_eq(present, listener));
        self.listeners.store(Arc::new(listeners));
    }

    fn recount(&self) {
        let listeners = self.listeners.load();
        let all = listeners.iter().map(|listener| listener.events());
        let wanted = all.fold(Events::default(), Events::with);
        self.wanted.0.store(wanted.0, Ordering::Relaxed);
    }
}

impl Log {
    fn set(&self, events: Events) {
        self.listener.events.store(events.0, Ordering::Relaxed);
    }
}

impl Follower {
    /// The next event or loss. May be dropped and called again without losing any.
    pub async fn next(&mut self) -> TraceLine {
        loop {
            if let Some(line) = self.reader.at_once() {
                return line;
            }
            // The sending end is ours too: the queue never ends.
            self.reader.kept = self.reader.queue.recv().await;
        }
    }

    /// The next line if there is one now, without waiting.
    pub fn at_once(&mut self) -> Option<TraceLine> {
        self.reader.at_once()
    }
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Follower")
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _turn = self.trace.log.lock();
        self.trace.leave(&self.listener);
        self.trace.recount();
    }
}

impl Reader {
    /// What there is to tell now: a loss before the event that came after it.
    fn at_once(&mut self) -> Option<TraceLine> {
        let record = self.kept.take().or_else(|| self.queue.try_recv().ok());
        let lost = match &record {
            Some(record) => record.lost_before,
            None => self.lost.load(Ordering::Relaxed),
        };
        // Shards that send at once may overtake each other; a count of earlier is no news.
        if lost > self.told {
            let news = lost - self.told;
            self.told = lost;
            self.kept = record;
            return Some(TraceLine::Lost { lost: news });
        }
        record.map(|record| TraceLine::Event(Box::new(line::event(&record, &self.names))))
    }
}

/// Writes events to the log until they are switched off there.
fn write_log(mut reader: Reader) {
    let mut ended = false;
    loop {
        while let Some(line) = reader.at_once() {
            line::log(&line);
        }
        if ended {
            return;
        }
        reader.kept = reader.queue.blocking_recv();
        ended = reader.kept.is_none();
    }
}
