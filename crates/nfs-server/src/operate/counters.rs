//! What the server counts: everything a remote user can repeat is a number here, not a log line.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nfs_wire::nfs3::Procedure;

const PROCEDURES: usize = Procedure::ALL.len();
/// Buckets of the latency histograms: powers of two of microseconds, the last for all above.
const BUCKETS: usize = 24;

/// Shared by all shards; every field only grows, but for `connections`.
#[derive(Default)]
pub(crate) struct Counters {
    procedures: [PerProcedure; PROCEDURES],
    pub(crate) connections: AtomicU64,
    pub(crate) connections_accepted: AtomicU64,
    pub(crate) connections_refused: AtomicU64,
    pub(crate) connections_dropped: AtomicU64,
    pub(crate) local_untold: AtomicU64,
    pub(crate) local_barred: AtomicU64,
    pub(crate) bad_records: AtomicU64,
    pub(crate) bad_calls: AtomicU64,
    pub(crate) denied: AtomicU64,
    pub(crate) replayed: AtomicU64,
    pub(crate) repeated_in_progress: AtomicU64,
    pub(crate) locks_refused: AtomicU64,
    pub(crate) bytes_read: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
}

#[derive(Default)]
struct PerProcedure {
    calls: AtomicU64,
    microseconds: [AtomicU64; BUCKETS],
}

/// One procedure's figures at one moment.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct ProcedureStats {
    /// The RFC's word.
    pub(crate) procedure: &'static str,
    /// Calls answered.
    pub(crate) calls: u64,
    /// Calls by duration: entry `i` counts those below 2^i microseconds and not below the entry before.
    pub(crate) microseconds_log2: Vec<u64>,
}

/// Everything counted, at one moment.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct CounterStats {
    /// Connections now.
    pub(crate) connections: u64,
    /// Connections accepted.
    pub(crate) connections_accepted: u64,
    /// Connections refused at the cap.
    pub(crate) connections_refused: u64,
    /// Connections closed because the peer stalled or broke the protocol.
    pub(crate) connections_dropped: u64,
    /// Connections of programs of this machine whose user the kernel did not tell.
    pub(crate) local_untold: u64,
    /// Connections of programs of this machine that may use no export.
    pub(crate) local_barred: u64,
    /// Records that no call could be taken from.
    pub(crate) bad_records: u64,
    /// Calls with arguments that cannot be decoded.
    pub(crate) bad_calls: u64,
    /// Calls with credentials that were refused.
    pub(crate) denied: u64,
    /// Repeated calls answered from the reply cache.
    pub(crate) replayed: u64,
    /// Repeated calls dropped because the first was still running.
    pub(crate) repeated_in_progress: u64,
    /// Locks that a client asked for; there are none here.
    pub(crate) locks_refused: u64,
    /// Bytes of files sent in READ replies.
    pub(crate) bytes_read: u64,
    /// Bytes written to files by WRITE calls.
    pub(crate) bytes_written: u64,
    /// Procedures that were called.
    pub(crate) procedures: Vec<ProcedureStats>,
}

impl Counters {
    pub(crate) fn called(&self, procedure: Procedure, took: Duration) {
        let Some(counters) = self.procedures.get(procedure as usize) else {
            return;
        };
        counters.calls.fetch_add(1, Ordering::Relaxed);
        let microseconds = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = (u64::BITS - microseconds.leading_zeros()) as usize;
        if let Some(bucket) = counters.microseconds.get(bucket.min(BUCKETS - 1)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn stats(&self) -> CounterStats {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let procedures = Procedure::ALL
            .iter()
            .zip(&self.procedures)
            .filter(|(_, counters)| load(&counters.calls) > 0)
            .map(|(procedure, counters)| ProcedureStats {
                procedure: procedure.name(),
                calls: load(&counters.calls),
                microseconds_log2: counters.microseconds.iter().map(load).collect(),
            })
            .collect();
        CounterStats {
            connections: load(&self.connections),
            connections_accepted: load(&self.connections_accepted),
            connections_refused: load(&self.connections_refused),
            connections_dropped: load(&self.connections_dropped),
            local_untold: load(&self.local_untold),
            local_barred: load(&self.local_barred),
            bad_records: load(&self.bad_records),
            bad_calls: load(&self.bad_calls),
            denied: load(&self.denied),
            replayed: load(&self.replayed),
            repeated_in_progress: load(&self.repeated_in_progress),
            locks_refused: load(&self.locks_refused),
            bytes_read: load(&self.bytes_read),
            bytes_written: load(&self.bytes_written),
            procedures,
        }
    }
}

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Adds a number of bytes.
pub(crate) fn count_bytes(counter: &AtomicU64, bytes: usize) {
    counter.fetch_add(bytes as u64, Ordering::Relaxed);
}
