//! What the server counts: everything a remote user can repeat is a number here, not a log line.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nfs_wire::nfs3::Procedure;
use nfs_wire::nfs4::Opnum;

use super::access_counters::AccessCounters;
use super::call_counters::{CallCounters, Called};
use super::latency::{Latency, ProcedureStatus};
use super::stripes::Striped;

const PROCEDURES: usize = Procedure::ALL.len();
const OPERATIONS: usize = Opnum::ALL.len();

/// How long calls took of which one shard counts.
struct Latencies {
    procedures: [Latency; PROCEDURES],
    /// In the order of [`Opnum::ALL`].
    operations: Box<[Latency]>,
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            procedures: Default::default(),
            operations: (0..OPERATIONS).map(|_| Latency::default()).collect(),
        }
    }
}

/// Shared by all shards; every field only grows, but for `connections` and `calls_running`.
#[derive(Default)]
pub(crate) struct Counters {
    latencies: Striped<Latencies>,
    /// What became of calls that belong to no export: NULL, sessions, handles that are none.
    pub(crate) no_export: CallCounters,
    /// Who was let in and who was not.
    pub(crate) access: AccessCounters,
    /// Connections that are open now.
    pub(crate) connections: AtomicU64,
    pub(crate) connections_accepted: AtomicU64,
    /// Connections refused at the cap.
    pub(crate) connections_refused: AtomicU64,
    /// Connections of hosts that no export names.
    pub(crate) connections_not_admitted: AtomicU64,
    /// Idle connections that were closed at the cap to make room for others.
    pub(crate) connections_displaced: AtomicU64,
    /// Connections that went from a shard to another.
    pub(crate) connections_moved: AtomicU64,
    /// Connections closed because the peer stalled or broke the protocol.
    pub(crate) connections_dropped: AtomicU64,
    /// Connections of programs of this machine whose user the kernel did not tell.
    pub(crate) local_untold: AtomicU64,
    /// Connections of programs of this machine that may use no export.
    pub(crate) local_barred: AtomicU64,
    /// Records that no call could be taken from.
    pub(crate) bad_records: AtomicU64,
    /// Replies that came though the server sent no call.
    pub(crate) stray_replies: AtomicU64,
    /// Calls with arguments that cannot be decoded.
    pub(crate) bad_calls: AtomicU64,
    /// Calls with credentials that were refused.
    pub(crate) denied: AtomicU64,
    /// Repeated calls answered from the reply cache.
    pub(crate) replayed: AtomicU64,
    /// Repeated calls dropped because the first was still running.
    pub(crate) repeated_in_progress: AtomicU64,
    /// Locks that a client asked for; there are none here.
    pub(crate) locks_refused: AtomicU64,
    /// Calls that run now and wait for something, those of connections that have gone among them.
    pub(crate) calls_running: AtomicU64,
    /// Turns that connections were given on the threads of their shards.
    pub(crate) turns_given: AtomicU64,
    /// Large WRITEs of which the data was not received at once, because enough of its client was being copied into the page cache.
    pub(crate) data_put_off: AtomicU64,
    /// Calls after which a client had to pause, for the rate that its rule says.
    pub(crate) paused: AtomicU64,
    /// Bytes of files sent in READ replies.
    pub(crate) bytes_read: AtomicU64,
    /// Bytes written to files by WRITE calls.
    pub(crate) bytes_written: AtomicU64,
}

impl Counters {
    /// Counts a call that was answered, or an operation, in the figures of all exports together.
    pub(crate) fn called(&self, called: Called, took: Duration) {
        let latency = self.latencies.own().and_then(|own| match called {
            Called::V3(procedure) => own.procedures.get(procedure as usize),
            Called::V4(operation) => {
                let found = Opnum::ALL.binary_search_by_key(&operation.number(), |it| it.number());
                own.operations.get(found.ok()?)
            }
        });
        if let Some(latency) = latency {
            latency.record(took);
        }
    }

    /// The figures of every operation of NFSv4 that was carried out or refused, in the order of their numbers.
    pub(crate) fn operations(&self) -> Vec<ProcedureStatus> {
        let operations = Opnum::ALL.iter().enumerate();
        operations
            .filter_map(|(place, operation)| {
                let of_shards = self.latencies.all();
                let of_shards = of_shards.filter_map(|own| own.operations.get(place));
                Latency::status(of_shards, operation.name())
            })
            .collect()
    }

    /// Connections that were served and have ended.
    pub(crate) fn connections_ended(&self) -> u64 {
        // Those that are open first: one that comes meanwhile is counted as accepted before it is as open.
        let open = self.connections.load(Ordering::Relaxed);
        let accepted = self.connections_accepted.load(Ordering::Relaxed);
        accepted.saturating_sub(open)
    }

    /// The figures of every procedure that was called, in the order of their numbers.
    pub(crate) fn procedures(&self) -> Vec<ProcedureStatus> {
        let procedures = Procedure::ALL.iter().enumerate();
        procedures
            .filter_map(|(place, procedure)| {
                let of_shards = self.latencies.all();
                let of_shards = of_shards.filter_map(|own| own.procedures.get(place));
                Latency::status(of_shards, procedure.name())
            })
            .collect()
    }

    /// Everything else by the name under which `ctl status` shows it, but for the connections that are open.
    pub(crate) fn named(&self) -> [(&'static str, u64); 21] {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("connections_accepted", load(&self.connections_accepted)),
            ("connections_refused", load(&self.connections_refused)),
            (
                "connections_not_admitted",
                load(&self.connections_not_admitted),
            ),
            ("connections_displaced", load(&self.connections_displaced)),
            ("connections_moved", load(&self.connections_moved)),
            ("connections_dropped", load(&self.connections_dropped)),
            ("local_connections_untold", load(&self.local_untold)),
            ("local_connections_barred", load(&self.local_barred)),
            ("bad_records", load(&self.bad_records)),
            ("stray_replies", load(&self.stray_replies)),
            ("bad_calls", load(&self.bad_calls)),
            ("denied_calls", load(&self.denied)),
            ("replayed_replies", load(&self.replayed)),
            (
                "repeated_calls_in_progress",
                load(&self.repeated_in_progress),
            ),
            ("locks_refused", load(&self.locks_refused)),
            ("calls_running", load(&self.calls_running)),
            ("turns_given", load(&self.turns_given)),
            ("data_put_off", load(&self.data_put_off)),
            ("rate_pauses", load(&self.paused)),
            ("read_bytes", load(&self.bytes_read)),
            ("written_bytes", load(&self.bytes_written)),
        ]
    }
}

/// Adds one to a counter.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Adds a number of bytes.
pub(crate) fn count_bytes(counter: &AtomicU64, bytes: usize) {
    counter.fetch_add(bytes as u64, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_is_counted_under_its_name() {
        let counters = Counters::default();
        for (times, operation) in Opnum::ALL.iter().enumerate() {
            for _ in 0..=times {
                counters.called(Called::V4(*operation), Duration::ZERO);
            }
        }
        let counted = counters.operations();
        assert_eq!(counted.len(), OPERATIONS);
        for ((times, operation), status) in Opnum::ALL.iter().enumerate().zip(counted) {
            assert_eq!(status.procedure, operation.name());
            assert_eq!(status.calls, times as u64 + 1, "{operation}");
        }
    }
}
