//! Trace events in words: what goes over the control socket, to a terminal and to the log.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::{Event, Events, ExportNames, Record};
use crate::operate::io_counters::Reason;

/// One event of one call, as a listener is told it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceEvent {
    /// When it happened: UTC, to the microsecond, as in RFC 3339.
    pub time: String,
    /// The event's name, the kernel's without `nfsd_`.
    pub event: String,
    /// The call's, as eight hexadecimal digits after `0x`.
    pub xid: String,
    /// CRC-32 of the file handle, as eight hexadecimal digits after `0x`: the number by which the Linux
    /// kernel's trace points and Wireshark name it too.
    pub fh_hash: String,
    /// Where in the file the range of the event begins, in bytes.
    pub offset: u64,
    /// Bytes; what of is said by the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub len: Option<u64>,
    /// How a segment is moved: `buffered`, `dontcache` or `direct`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Why that is not the mode that was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// Of a change of mode, the operation: `read` or `write`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<String>,
    /// Of a change of mode, the one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Of a change of mode, why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// What the client is told of a failure, the RFC's word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Microseconds since the call began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_us: Option<u64>,
    /// Address and port that the call came from.
    pub client: SocketAddr,
    /// The export, as clients mount it; nothing where the handle names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub export: Option<String>,
}

/// What a follower gets, line by line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TraceLine {
    /// Something that a call did.
    Event(Box<TraceEvent>),
    /// Events that happened and were not kept, because the reader was slow.
    Lost {
        /// How many since this was last said.
        lost: u64,
    },
}

/// The events that somebody wants to follow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FollowRequest {
    /// Names of events, or `all`.
    pub events: Vec<String>,
    /// Only calls on this export, by the path that clients mount.
    pub export: Option<String>,
    /// Only calls that came from this address.
    pub client: Option<IpAddr>,
}

/// Which events there are and who listens to each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceStatus {
    /// Every event there is, in the order in which they come.
    pub events: Vec<EventStatus>,
    /// Events lost so far because somebody read too slowly.
    pub lost: u64,
}

/// One event: what it means and who listens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventStatus {
    /// The event's name, as it is switched on by.
    pub name: String,
    /// What the event says, in a sentence.
    pub meaning: String,
    /// Whether the event goes to the log.
    pub log: bool,
    /// How many connections of `ctl trace follow` listen to it.
    pub followers: u64,
}

/// A name that is no event's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no trace event; there are: {names}, or all", names = every_name())]
pub struct UnknownEvent(pub String);

/// Whether this is an event's name, or `all`; for the parser of a command line.
///
/// # Errors
/// If not, with all the names.
pub fn check_event(word: &str) -> Result<String, UnknownEvent> {
    event_named(word).map(|_| word.to_owned())
}

pub(super) fn events_named(words: &[String]) -> Result<Events, UnknownEvent> {
    words.iter().try_fold(Events::default(), |events, word| {
        Ok(events.with(event_named(word)?))
    })
}

fn event_named(word: &str) -> Result<Events, UnknownEvent> {
    if word == "all" {
        return Ok(Events::ALL);
    }
    let found = Event::ALL.iter().find(|event| event.word() == word);
    found
        .map(|event| Events::of(*event))
        .ok_or_else(|| UnknownEvent(word.to_owned()))
}

fn every_name() -> String {
    let names: Vec<&str> = Event::ALL.iter().map(|event| event.word()).collect();
    names.join(", ")
}

pub(super) fn event(record: &Record, names: &ExportNames) -> TraceEvent {
    let details = record.details;
    let export = record.export.and_then(|id| names.name(id));
    TraceEvent {
        time: time(record.time),
        event: record.event.word().to_owned(),
        xid: format!("{:#010x}", record.xid),
        fh_hash: format!("{:#010x}", record.fh_hash),
        offset: record.offset,
        len: details.len,
        mode: details.mode.map(|mode| mode.word().to_owned()),
        fallback: details.fallback.map(Reason::word).map(str::to_owned),
        op: details.change.map(|(io, _, _)| io.word().to_owned()),
        from: details.change.map(|(_, from, _)| from.word().to_owned()),
        because: details.change.map(|(_, _, why)| why.word().to_owned()),
        status: details.status.map(str::to_owned),
        took_us: details
            .took
            .map(|took| u64::try_from(took.as_micros()).unwrap_or(u64::MAX)),
        client: record.client,
        export: export.map(|export| export.to_string()),
    }
}

/// The target under which trace events are logged, at level INFO.
pub const TRACE_LOG_TARGET: &str = "penstock_trace";

/// Writes a line to the server's log.
pub(super) fn log(line: &TraceLine) {
    match line {
        TraceLine::Event(event) => tracing::info!(
            target: TRACE_LOG_TARGET,
            xid = %event.xid,
            fh_hash = %event.fh_hash,
            offset = event.offset,
            len = event.len,
            mode = event.mode.as_deref().map(tracing::field::display),
            fallback = event.fallback.as_deref().map(tracing::field::display),
            op = event.op.as_deref().map(tracing::field::display),
            from = event.from.as_deref().map(tracing::field::display),
            because = event.because.as_deref().map(tracing::field::display),
            status = event.status.as_deref().map(tracing::field::display),
            took_us = event.took_us,
            client = %event.client,
            export = event.export.as_deref().map(tracing::field::display),
            at = %event.time,
            "{}",
            event.event
        ),
        TraceLine::Lost { lost } => {
            tracing::info!(target: TRACE_LOG_TARGET, lost, "{line}");
        }
    }
}

impl fmt::Display for TraceEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            time,
            event,
            xid,
            fh_hash,
            offset,
            ..
        } = self;
        write!(
            f,
            "{time} {event:<13} xid={xid} fh_hash={fh_hash} offset={offset}"
        )?;
        if let Some(len) = self.len {
            write!(f, " len={len}")?;
        }
        let words = [
            ("mode", &self.mode),
            ("fallback", &self.fallback),
            ("op", &self.op),
            ("from", &self.from),
            ("because", &self.because),
            ("status", &self.status),
        ];
        for (name, word) in words {
            if let Some(word) = word {
                write!(f, " {name}={word}")?;
            }
        }
        if let Some(took) = self.took_us {
            write!(f, " took_us={took}")?;
        }
        write!(f, " client={}", self.client)?;
        if let Some(export) = &self.export {
            write!(f, " export={export}")?;
        }
        Ok(())
    }
}

impl fmt::Display for TraceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event(event) => event.fmt(f),
            Self::Lost { lost } => write!(
                f,
                "{lost} events lost: they came faster than they were read"
            ),
        }
    }
}

/// UTC, to the microsecond. A clock that stands before 1970 is shown as 1970, and one behind the calendar's end as that.
pub(crate) fn time(time: SystemTime) -> String {
    let time = match time.duration_since(UNIX_EPOCH) {
        Ok(_) => jiff::Timestamp::try_from(time).unwrap_or(jiff::Timestamp::MAX),
        Err(_) => jiff::Timestamp::UNIX_EPOCH,
    };
    format!("{time:.6}")
}
