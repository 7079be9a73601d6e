//! Recordings of a load: which procedure on which part of which file, when, for how long and with what result. No data
//! and no names: what would name something is a number that its recording alone has.
//!
//! The fronts tell each procedure and operation ([`Action`]) when it is over. While nobody records, that costs them a
//! load and a branch. A recorder that reads too slowly loses what does not fit in its queue and is told how much.

use std::fmt;
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::Instant;

use super::clock::{nanoseconds, now};
use super::record::with_record;
use super::ring::{Recorder, recorder_here};
use crate::limits;

/// Which calls are recorded, and for how long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RecordingQuery {
    /// Only calls on this export, by the path that clients mount.
    pub export: Option<String>,
    /// Only calls that come from this address.
    pub client: Option<IpAddr>,
    /// How long to record, in milliseconds; `None` for no end.
    pub for_ms: Option<u64>,
}

/// What a procedure of NFSv3, or an operation of NFSv4, did, as far as it is recorded. Objects and names are told by
/// [`Recorder::number_of`] and [`Recorder::number_of_name`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Action {
    /// Version of NFS, 3 or 4, and the number that its RFC gives the procedure or operation.
    pub(crate) version: u8,
    pub(crate) number: u32,
    /// It is not the first of its COMPOUND that is recorded.
    pub(crate) follows: bool,
    /// The object that it is on: for one that is about a name, the directory.
    pub(crate) on: Option<u64>,
    pub(crate) name: Option<u64>,
    /// The object that it found or made; of RENAME and LINK the directory that the new name is in.
    pub(crate) to: Option<u64>,
    pub(crate) to_name: Option<u64>,
    /// Offset and length, in bytes: what is to be read, written or committed. Of READDIR the cookie and the most bytes;
    /// of what sets a file's size that size, and 0.
    pub(crate) range: Option<(u64, u64)>,
    /// Of WRITE its stable_how; of NFSv3's CREATE its createmode3, and of OPEN 1 if the file may be made; of NFSv4's
    /// CREATE the type.
    pub(crate) how: Option<u32>,
    pub(crate) status: u32,
    /// Bytes that were read or written.
    pub(crate) moved: Option<u64>,
}

/// An action with its call.
#[derive(Clone, Copy, Debug)]
struct Recorded {
    action: Action,
    client: SocketAddr,
    /// In ticks.
    begun: u64,
    ended: u64,
}

/// One procedure or operation, as a recording has it. Each number that stands for a file, a name or a client is made
/// with a key that is thrown away with the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedCall {
    /// When it began, in nanoseconds since the server started, by a clock that nobody sets.
    pub at_ns: u64,
    /// Nanoseconds that it took: a procedure from when its call had come whole, an operation from the end of the one
    /// before it in its COMPOUND.
    pub took_ns: u64,
    /// Version of NFS, 3 or 4.
    pub version: u8,
    /// The number that the RFC gives the procedure or operation.
    pub number: u32,
    /// It is part of the same COMPOUND as the one before it that came from there.
    #[serde(default, skip_serializing_if = "is_false")]
    pub follows: bool,
    /// The address that it came from.
    pub client: u32,
    /// The connection that it came over.
    pub connection: u32,
    /// The object that it is on: for one that is about a name, the directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<u64>,
    /// The name in that directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<u64>,
    /// The object that it found or made; of RENAME and LINK the directory that the new name is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    /// The name in that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_name: Option<u64>,
    /// Offset and length in bytes; of READDIR the cookie and the most bytes, of what sets a file's size that size and 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<(u64, u64)>,
    /// Of WRITE its stable_how, of NFSv3's CREATE its createmode3, of OPEN 1 if the file may be made, of NFSv4's CREATE
    /// the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub how: Option<u32>,
    /// The status that it was answered with; 0 where it went well.
    pub status: u32,
    /// Bytes that were read or written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// What one that records gets, line by line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RecordingLine {
    /// A call.
    Call(RecordedCall),
    /// So many calls are missing here.
    Lost {
        /// How many were lost.
        lost: u64,
    },
}

/// The sending end of the queue of one that records.
pub(super) struct Sink {
    export: Option<u32>,
    client: Option<IpAddr>,
    queue: mpsc::Sender<Recorded>,
    lost: Arc<AtomicU64>,
    lost_by_all: Arc<AtomicU64>,
}

/// Somebody who records, for as long as it is kept.
pub struct Recording {
    recorder: Arc<Recorder>,
    sink: Option<Arc<Sink>>,
    queue: mpsc::Receiver<Recorded>,
    until: Option<Instant>,
    /// Calls that were lost, and how many of them were told.
    lost: Arc<AtomicU64>,
    told_lost: u64,
    /// Makes this recording's numbers.
    salt: RandomState,
}

impl Recorder {
    /// Does anybody record?
    #[inline(always)]
    pub(crate) fn is_recording(&self) -> bool {
        self.is_recording.load(Ordering::Relaxed)
    }

    /// The number by which actions tell the object of a handle.
    pub(crate) fn number_of(&self, handle: &[u8]) -> u64 {
        self.hasher.hash_one(handle)
    }

    /// The number by which actions tell a name in a directory.
    pub(crate) fn number_of_name(&self, directory: &[u8], name: &[u8]) -> u64 {
        self.hasher.hash_one((directory, name))
    }

    /// Records calls from now on.
    ///
    /// # Errors
    /// In words: an export that is not served, too many that record.
    pub(crate) fn record(self: &Arc<Self>, query: &RecordingQuery) -> Result<Recording, String> {
        let export = match &query.export {
            Some(pseudo) => Some(self.exports.id_of(pseudo)?),
            None => None,
        };
        let (queue, calls) = mpsc::channel(limits::RECORDING_QUEUE_MAX);
        let lost: Arc<AtomicU64> = Arc::default();
        let sink = Arc::new(Sink {
            export,
            client: query.client.map(|client| client.to_canonical()),
            queue,
            lost: Arc::clone(&lost),
            lost_by_all: Arc::clone(&self.lost),
        });
        self.add_sink(&sink)?;
        let limit = query.for_ms.map(Duration::from_millis);
        Ok(Recording {
            recorder: Arc::clone(self),
            sink: Some(sink),
            queue: calls,
            until: limit.and_then(|limit| Instant::now().checked_add(limit)),
            lost,
            told_lost: 0,
            salt: RandomState::new(),
        })
    }

    fn add_sink(&self, sink: &Arc<Sink>) -> Result<(), String> {
        let mut full = false;
        self.sinks.rcu(|present| {
            full = present.len() >= limits::RECORDINGS_MAX;
            let mut sinks = present.to_vec();
            if !full {
                sinks.push(Arc::clone(sink));
            }
            sinks
        });
        if full {
            let most = limits::RECORDINGS_MAX;
            return Err(format!(
                "{most} record calls already, which is the most that may; end one of them"
            ));
        }
        self.recount();
        Ok(())
    }

    fn remove_sink(&self, sink: &Arc<Sink>) {
        self.sinks.rcu(|present| {
            let mut sinks = present.to_vec();
            sinks.retain(|one| !Arc::ptr_eq(one, sink));
            sinks
        });
        self.recount();
    }
}

/// The time at which the action begins that this call is about to carry out, in ticks: the time at which the call had
/// come whole, if it is its first.
pub(crate) fn action_begins(is_first: bool) -> u64 {
    let received = || with_record(|record| record.times.received);
    let received = is_first.then(received).flatten();
    received.filter(|at| *at > 0).unwrap_or_else(now)
}

/// Tells those who record of an action of the call that is being polled, which began at `begun` and is over.
pub(crate) fn acted(action: Action, begun: u64) {
    // One that was under way before anything was kept of calls has no record, and is left out.
    let Some((client, export)) = with_record(|record| (record.client, record.export)) else {
        return;
    };
    let recorded = Recorded {
        action,
        client,
        begun,
        ended: now(),
    };
    recorder_here(|recorder| {
        for sink in recorder.sinks.load().iter() {
            sink.offer(recorded, export);
        }
    });
}

impl Sink {
    fn offer(&self, recorded: Recorded, export: Option<u32>) {
        let is_of_export = self.export.is_none_or(|wanted| export == Some(wanted));
        let from = recorded.client.ip().to_canonical();
        if !is_of_export || self.client.is_some_and(|wanted| wanted != from) {
            return;
        }
        match self.queue.try_send(recorded) {
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

impl Recording {
    /// The next call or loss; `None` when there will be no more. May be dropped and called again without losing any.
    pub async fn next(&mut self) -> Option<RecordingLine> {
        if let Some(line) = self.at_once() {
            return Some(line);
        }
        self.sink.as_ref()?;
        let received = match self.until {
            None => self.queue.recv().await,
            Some(until) => {
                let received = tokio::time::timeout_at(until, self.queue.recv()).await;
                received.unwrap_or_default()
            }
        };
        match received {
            Some(recorded) => Some(RecordingLine::Call(self.told(&recorded))),
            None => {
                self.end();
                // What came in the last moment.
                self.at_once()
            }
        }
    }

    /// The next line if there is one now, without waiting.
    pub fn at_once(&mut self) -> Option<RecordingLine> {
        let lost = self.lost.load(Ordering::Relaxed);
        if lost > self.told_lost {
            let news = lost - self.told_lost;
            self.told_lost = lost;
            return Some(RecordingLine::Lost { lost: news });
        }
        let recorded = self.queue.try_recv().ok()?;
        Some(RecordingLine::Call(self.told(&recorded)))
    }

    fn told(&self, recorded: &Recorded) -> RecordedCall {
        let Recorded {
            action,
            client,
            begun,
            ended,
        } = recorded;
        let client = SocketAddr::new(client.ip().to_canonical(), client.port());
        RecordedCall {
            at_ns: nanoseconds(self.recorder.started, *begun),
            took_ns: nanoseconds(*begun, *ended),
            version: action.version,
            number: action.number,
            follows: action.follows,
            client: self.short(client.ip()),
            connection: self.short(client),
            on: self.salted(action.on),
            name: self.salted(action.name),
            to: self.salted(action.to),
            to_name: self.salted(action.to_name),
            range: action.range,
            how: action.how,
            status: action.status,
            moved: action.moved,
        }
    }

    fn salted(&self, number: Option<u64>) -> Option<u64> {
        number.map(|number| self.salt.hash_one(number))
    }

    /// Clients are few: half the bits tell them apart.
    fn short(&self, what: impl Hash) -> u32 {
        let [a, b, c, d, ..] = self.salt.hash_one(what).to_ne_bytes();
        u32::from_ne_bytes([a, b, c, d])
    }

    fn end(&mut self) {
        if let Some(sink) = self.sink.take() {
            self.recorder.remove_sink(&sink);
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recording")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operate::trace::ExportNames;

    #[test]
    fn one_that_does_not_read_loses_calls_and_is_told_how_many() {
        let recorder = Recorder::new(ExportNames::default());
        let mut recording = recorder.record(&RecordingQuery::default()).unwrap();
        let recorded = Recorded {
            action: Action::default(),
            client: SocketAddr::from(([127, 0, 0, 1], 700)),
            begun: now(),
            ended: now(),
        };
        let sink = Arc::clone(recording.sink.as_ref().unwrap());
        for _ in 0..limits::RECORDING_QUEUE_MAX + 3 {
            sink.offer(recorded, None);
        }
        assert_eq!(recorder.lost(), 3);
        assert_eq!(recording.at_once(), Some(RecordingLine::Lost { lost: 3 }));
        let calls = std::iter::from_fn(|| recording.at_once());
        assert_eq!(calls.count(), limits::RECORDING_QUEUE_MAX);
        drop(recording);
        assert!(!recorder.is_recording());
    }
}
