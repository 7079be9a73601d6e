//! The statistics of a client as JSON: what `--json` prints, and what goes over the socket of a mount. Its form is
//! described in `docs/client.md`.

use std::time::Duration;

use nfs_client::Depth;
use nfs_client::connection::{Kind, Latencies, Operation, Stats};
use nfs_client::file::{CacheStatistics, WindowStatistics};
use nfs_client::nfs3::Nfsstat3;
use nfs_client::nfs4::Nfsstat4;
use nfs_client::{NfsUrl, Statistics};
use serde::{Deserialize, Serialize};

/// The version of this form: another number where the meaning of a member has changed or one is gone.
pub(crate) const VERSION: u32 = 1;

/// Whose statistics they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct About {
    /// What was mounted, or the server.
    pub(crate) url: String,
    /// Of `penstock mount`, where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mount: Option<Mounted>,
}

impl About {
    /// Of a command that moved something from or to the server of `url`.
    pub(crate) fn transfer(url: &NfsUrl) -> Self {
        Self {
            url: url.to_string(),
            mount: None,
        }
    }
}

/// A mount, as it tells about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mounted {
    /// The mount point. What of it is no UTF-8 is replaced.
    pub(crate) dir: String,
    /// Device number: `MAJOR:MINOR`, as in `/proc/self/mountinfo`.
    pub(crate) device: String,
    /// The process that serves it.
    pub(crate) pid: u32,
    /// The kernel keeps file contents (`--cached`).
    pub(crate) cached: bool,
}

/// All statistics of a client over some time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// [`VERSION`].
    pub(crate) v: u32,
    #[serde(flatten)]
    pub(crate) about: About,
    /// When they were taken, in milliseconds since 1970.
    pub(crate) at_unix_ms: u64,
    /// How long the counts are of: since the connections were made, or of one interval.
    pub(crate) seconds: f64,
    connections: Connections,
    operations: Vec<OneOperation>,
    windows: Windows,
    cache: Cache,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Connections {
    count: u32,
    up: u32,
    reconnects: u64,
    calls: u64,
    replies: u64,
    resent_calls: u64,
    timeouts: u64,
    stray_replies: u64,
    garbage_records: u64,
    server_calls: u64,
    sends: u64,
    receives: u64,
    copied_bytes: u64,
    jukebox_waits: u64,
    jukebox_waited_us: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct OneOperation {
    protocol: String,
    name: String,
    calls: u64,
    ops: u64,
    refused: u64,
    timeouts: u64,
    disconnected: u64,
    given_up: u64,
    in_flight: u64,
    transmissions: u64,
    retrans: u64,
    bytes_sent: u64,
    bytes_received: u64,
    errors: u64,
    statuses: Vec<OneStatus>,
    queue: Times,
    rtt: Times,
    execute: Times,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct OneStatus {
    status: u32,
    /// The RFC's word; left out for a number that it does not have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    count: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Times {
    total_us: u64,
    // What can be reckoned from the rest, for readers that do not.
    average_ms: Option<f64>,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    max_ms: Option<f64>,
    /// The last microsecond of each class, and how many calls are in it.
    histogram_us: Vec<(u64, u64)>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Windows {
    read: OneWindow,
    write: OneWindow,
    busy: u32,
    files: u64,
    memory_bytes: u64,
    memory_bytes_peak: u64,
    memory_bytes_max: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct OneWindow {
    /// The depth that was given; none where it is measured.
    given: Option<u32>,
    /// The depth that was measured last.
    found: Option<u32>,
    transfer_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Cache {
    data_ahead: u64,
    data_coming: u64,
    data_asked: u64,
    attributes_known: u64,
    attributes_asked: u64,
}

impl Figures {
    pub(crate) fn new(about: About, at_unix_ms: u64, statistics: &Statistics) -> Self {
        let (windows, cache) = (&statistics.windows, &statistics.cache);
        Self {
            v: VERSION,
            about,
            at_unix_ms,
            seconds: statistics.age.as_secs_f64(),
            connections: Connections::of(statistics),
            operations: statistics.operations.iter().map(one_operation).collect(),
            windows: Windows {
                read: one_window(windows.read, windows.read_found, windows.read_bytes),
                write: one_window(windows.write, windows.write_found, windows.write_bytes),
                busy: windows.busy,
                files: windows.files,
                memory_bytes: windows.memory_bytes,
                memory_bytes_peak: windows.memory_bytes_peak,
                memory_bytes_max: windows.memory_bytes_max,
            },
            cache: Cache {
                data_ahead: cache.data_ahead,
                data_coming: cache.data_coming,
                data_asked: cache.data_asked,
                attributes_known: cache.attributes_known,
                attributes_asked: cache.attributes_asked,
            },
        }
    }

    /// The statistics that it tells of. Operations that are not known here are left out.
    pub(crate) fn statistics(&self) -> Statistics {
        let (windows, cache) = (&self.windows, &self.cache);
        let operations = self.operations.iter().filter_map(OneOperation::known);
        Statistics {
            age: Duration::try_from_secs_f64(self.seconds).unwrap_or_default(),
            connections: self.connections.count,
            connections_up: self.connections.up,
            transport: self.connections.transport(),
            operations: operations.collect(),
            windows: WindowStatistics {
                read: windows.read.depth(),
                read_found: windows.read.found,
                read_bytes: windows.read.transfer_bytes,
                write: windows.write.depth(),
                write_found: windows.write.found,
                write_bytes: windows.write.transfer_bytes,
                busy: windows.busy,
                files: windows.files,
                memory_bytes: windows.memory_bytes,
                memory_bytes_peak: windows.memory_bytes_peak,
                memory_bytes_max: windows.memory_bytes_max,
            },
            cache: CacheStatistics {
                data_ahead: cache.data_ahead,
                data_coming: cache.data_coming,
                data_asked: cache.data_asked,
                attributes_known: cache.attributes_known,
                attributes_asked: cache.attributes_asked,
            },
        }
    }
}

impl Connections {
    fn of(statistics: &Statistics) -> Self {
        let stats = &statistics.transport;
        Self {
            count: statistics.connections,
            up: statistics.connections_up,
            reconnects: stats.reconnects,
            calls: stats.calls,
            replies: stats.replies,
            resent_calls: stats.resent_calls,
            timeouts: stats.timeouts,
            stray_replies: stats.stray_replies,
            garbage_records: stats.garbage_records,
            server_calls: stats.server_calls,
            sends: stats.sends,
            receives: stats.receives,
            copied_bytes: stats.copied_bytes,
            jukebox_waits: stats.jukebox_waits,
            jukebox_waited_us: microseconds(stats.jukebox_waited),
        }
    }

    fn transport(&self) -> Stats {
        Stats {
            calls: self.calls,
            replies: self.replies,
            stray_replies: self.stray_replies,
            garbage_records: self.garbage_records,
            server_calls: self.server_calls,
            timeouts: self.timeouts,
            reconnects: self.reconnects,
            resent_calls: self.resent_calls,
            receives: self.receives,
            sends: self.sends,
            copied_bytes: self.copied_bytes,
            jukebox_waits: self.jukebox_waits,
            jukebox_waited: Duration::from_micros(self.jukebox_waited_us),
        }
    }
}

fn one_operation(one: &Operation) -> OneOperation {
    let status = |&(status, count): &(u32, u64)| OneStatus {
        status,
        name: status_word(one.kind, status).map(str::to_owned),
        count,
    };
    OneOperation {
        protocol: one.kind.protocol().to_owned(),
        name: one.kind.name().to_owned(),
        calls: one.calls,
        ops: one.ops,
        refused: one.refused,
        timeouts: one.timeouts,
        disconnected: one.disconnected,
        given_up: one.given_up,
        in_flight: one.in_flight,
        transmissions: one.transmissions,
        retrans: one.resent,
        bytes_sent: one.bytes_sent,
        bytes_received: one.bytes_received,
        errors: one.errors,
        statuses: one.statuses.iter().map(status).collect(),
        queue: times(&one.queue),
        rtt: times(&one.rtt),
        execute: times(&one.execute),
    }
}

impl OneOperation {
    fn known(&self) -> Option<Operation> {
        let is_it = |kind: &Kind| kind.protocol() == self.protocol && kind.name() == self.name;
        let kind = Kind::all().find(is_it)?;
        let statuses = self.statuses.iter().map(|one| (one.status, one.count));
        Some(Operation {
            kind,
            calls: self.calls,
            ops: self.ops,
            refused: self.refused,
            timeouts: self.timeouts,
            disconnected: self.disconnected,
            given_up: self.given_up,
            in_flight: self.in_flight,
            transmissions: self.transmissions,
            resent: self.retrans,
            bytes_sent: self.bytes_sent,
            bytes_received: self.bytes_received,
            errors: self.errors,
            statuses: statuses.collect(),
            queue: self.queue.latencies(),
            rtt: self.rtt.latencies(),
            execute: self.execute.latencies(),
        })
    }
}

fn times(times: &Latencies) -> Times {
    let ms = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * 1e3);
    Times {
        total_us: microseconds(times.total()),
        average_ms: ms(times.average()),
        p50_ms: ms(times.quantile(0.5)),
        p99_ms: ms(times.quantile(0.99)),
        max_ms: ms(times.max()),
        histogram_us: times.classes().collect(),
    }
}

impl Times {
    fn latencies(&self) -> Latencies {
        let total = Duration::from_micros(self.total_us);
        Latencies::from_classes(self.histogram_us.iter().copied(), total)
    }
}

fn one_window(depth: Depth, found: Option<u32>, transfer_bytes: u64) -> OneWindow {
    OneWindow {
        given: match depth {
            Depth::Measured => None,
            Depth::Fixed(depth) => Some(depth),
        },
        found,
        transfer_bytes,
    }
}

impl OneWindow {
    fn depth(&self) -> Depth {
        self.given.map_or(Depth::Measured, Depth::Fixed)
    }
}

/// The RFC's word for a status of a procedure or operation; `None` for a number that it does not have.
pub(crate) fn status_word(kind: Kind, status: u32) -> Option<&'static str> {
    match kind {
        Kind::Nfs3(_) => Nfsstat3::try_from(status).ok().map(Nfsstat3::word),
        Kind::Nfs4(_) => Nfsstat4::try_from(status).ok().map(Nfsstat4::word),
        Kind::Mount3(_) | Kind::Other => None,
    }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
