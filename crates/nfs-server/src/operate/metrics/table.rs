//! Which metrics there are: the one place that has their names, kinds, units, labels and help.

use serde::{Deserialize, Serialize};

/// How the values of a metric behave over time.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// It only grows, from 0 at the server's start.
    Counter,
    /// It is what it is at the moment.
    Gauge,
    /// How many took how long; all its numbers only grow.
    Histogram,
}

/// What there is to know of one metric but its values.
#[derive(Debug)]
pub struct Definition {
    /// The name, by the conventions of Prometheus.
    pub name: &'static str,
    /// How its values behave over time.
    pub kind: Kind,
    /// `seconds` or `bytes`; empty for plain numbers.
    pub unit: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// The metric in one sentence.
    pub help: &'static str,
    /// The counters that it is made of: the name in `penstock ctl status`, and the values of the labels. Empty where
    /// the value comes from elsewhere.
    pub counters: &'static [(&'static str, &'static [&'static str])],
}

/// The value of the label `client` of those that have no figures of their own.
pub const OTHERS: &str = "others";

/// Makes a constant of each definition, and [`TABLE`] of all.
macro_rules! metrics {
    ($($constant:ident: $kind:ident $name:literal $unit:literal [$($label:literal),*] $help:literal
        { $($counter:literal $([$($value:literal),*])?),* $(,)? })*) => {
        $(
            #[doc = $help]
            pub const $constant: Definition = Definition {
                name: $name,
                kind: Kind::$kind,
                unit: $unit,
                labels: &[$($label),*],
                help: $help,
                counters: &[$(($counter, &[$($($value),*)?])),*],
            };
        )*
        /// Every metric, in the order in which they are shown.
        pub const TABLE: &[&Definition] = &[$(&$constant),*];
    };
}

metrics! {
    BUILD_INFO: Gauge "penstock_build_info" "" ["version"]
        "Always 1; the label tells which version of Penstock serves." {}
    UPTIME: Gauge "penstock_uptime_seconds" "seconds" []
        "Time since the server started." {}
    EXPORTS: Gauge "penstock_exports" "" []
        "Exports that are served." {}

    OPERATIONS: Counter "penstock_operations_total" "" ["export", "procedure", "version", "mode"]
        "Calls of NFSv3 that were answered, and operations of NFSv4 that were carried out or refused. The export is \
         empty for what belongs to none, the mode for all but READs and WRITEs that went well." {}
    OPERATION_ERRORS: Counter "penstock_operation_errors_total" "" ["export", "procedure", "version", "status"]
        "Those of them that failed, by the status that the client was told." {}
    OPERATION_DURATION: Histogram "penstock_operation_duration_seconds" "seconds"
        ["export", "procedure", "version", "mode"]
        "How long they took: a call of NFSv3 from when it was received whole to when its reply was ready, an operation \
         of NFSv4 from when it was looked at to when its result was in the reply." {}
    READ_BYTES: Counter "penstock_read_bytes_total" "bytes" ["export", "mode"]
        "Bytes of files in the replies of READs, by the I/O mode that was decided for them." {}
    WRITTEN_BYTES: Counter "penstock_written_bytes_total" "bytes" ["export", "mode"]
        "Bytes that the replies of WRITEs acknowledged, by the I/O mode that was decided for them." {}
    CLIENT_OPERATIONS: Counter "penstock_client_operations_total" "" ["client"]
        "Calls of each client, by its address (an IPv6 /64 is one) or local user; those of the least active ones \
         together as others." {}
    CLIENT_BYTES: Counter "penstock_client_bytes_total" "bytes" ["client", "direction"]
        "Bytes that came from each client, and that were sent to it, on its connections." {}
    CLIENT_CONNECTIONS: Gauge "penstock_client_connections" "" ["client"]
        "Connections of each client that are open." {}
    CLIENT_CALLS_IN_FLIGHT: Gauge "penstock_client_calls_in_flight" "" ["client"]
        "Calls of each client that wait for something at the moment." {}
    CLIENT_BYTES_IN_FLIGHT: Gauge "penstock_client_in_flight_bytes" "bytes" ["client"]
        "Memory that each client's calls on their way in hold at the moment." {}
    CLIENT_THROTTLED: Counter "penstock_client_throttled_seconds_total" "seconds" ["client"]
        "Time in which connections of each client were not read, for the rate that its rule says." {}

    IO_CALLS: Counter "penstock_io_calls_total" "" ["export", "operation", "mode"]
        "READs and WRITEs by the I/O mode that was decided for them, failed ones included." {}
    IO_MOVED_BYTES: Counter "penstock_io_moved_bytes_total" "bytes" ["export", "operation", "mode", "moved_as"]
        "Bytes moved between memory and files, by the mode that was decided and the one in which they really went; \
         what was rounded out or read ahead is included." {}
    IO_COPIED_BYTES: Counter "penstock_io_copied_bytes_total" "bytes" ["export", "operation", "mode"]
        "Bytes of READs and WRITEs that the server copied from memory to memory." {}
    READ_SPLICED_BYTES: Counter "penstock_read_spliced_bytes_total" "bytes" ["export", "mode"]
        "Bytes of READs that were sent from the page cache without a copy, by the I/O mode that was decided for them." {}
    IO_FALLBACKS: Counter "penstock_io_fallbacks_total" "" ["export", "operation", "mode", "reason"]
        "READs and WRITEs that went another way than the decided mode, as a whole or in part, by the reason." {}
    READ_AHEAD_BYTES: Counter "penstock_read_ahead_bytes_total" "bytes" ["export"]
        "Bytes read ahead of direct READs." {}
    READ_AHEAD_ANSWERED_BYTES: Counter "penstock_read_ahead_answered_bytes_total" "bytes" ["export"]
        "Bytes of READs that were answered from what was read ahead." {}
    READ_AHEAD_DROPPED_BYTES: Counter "penstock_read_ahead_dropped_bytes_total" "bytes" ["export", "reason"]
        "Bytes read ahead that no READ was answered with, by why they were dropped." {}
    AUTO_CALLS: Counter "penstock_auto_calls_total" "" ["export", "operation", "mode", "use"]
        "READs and WRITEs for which auto chose the mode: taken, or only told in a dry run." {}
    AUTO_CHANGES: Counter "penstock_auto_changes_total" "" ["export", "operation", "mode", "reason"]
        "Times that auto changed a file's calls to this mode, by why." {}

    CONNECTIONS: Gauge "penstock_connections" "" []
        "Connections that are open." {}
    CONNECTIONS_ACCEPTED: Counter "penstock_connections_accepted_total" "" []
        "Connections that were served." { "connections_accepted" }
    CONNECTIONS_DISPLACED: Counter "penstock_connections_displaced_total" "" []
        "Idle connections that were closed at the limit to make room for others." { "connections_displaced" }
    CONNECTIONS_MOVED: Counter "penstock_connections_moved_total" "" []
        "Connections that went to another event-loop thread, as theirs had more to do." { "connections_moved" }
    CONNECTIONS_DROPPED: Counter "penstock_connections_dropped_total" "" []
        "Connections that were closed because the peer stalled or broke the protocol." { "connections_dropped" }
    CONNECTIONS_TURNED_AWAY: Counter "penstock_connections_turned_away_total" "" ["reason"]
        "Connections that were not listened to, because no export names the host or the operator shut it out." {
        "connections_not_admitted" ["not-admitted"],
        "connections_blocked" ["blocked"],
    }
    LOCAL_CONNECTIONS: Counter "penstock_local_connections_total" "" ["standing"]
        "Connections of programs of the server's own machine whose user the kernel did not tell, or that may use \
         nothing." {
        "local_connections_untold" ["untold"],
        "local_connections_barred" ["barred"],
    }
    CALLS_RUNNING: Gauge "penstock_calls_running" "" []
        "Calls that wait for something at the moment: a file system, memory." { "calls_running" }
    TURNS: Counter "penstock_turns_given_total" "" []
        "Turns that connections were given on the threads of their shards." { "turns_given" }
    DATA_PUT_OFF: Counter "penstock_data_put_off_total" "" []
        "Large WRITEs of which the data was not received at once, because enough of its client was being copied into the page cache." {
        "data_put_off"
    }
    RATE_PAUSES: Counter "penstock_rate_pauses_total" "" []
        "Calls after which a client had to pause for the rate that its rule says." { "rate_pauses" }
    REFUSALS: Counter "penstock_refusals_total" "" ["limit"]
        "What was refused or put off because a limit was reached, by the limit." {
        "connections_refused" ["connections"],
        "helper_jobs_refused" ["helper-jobs"],
        "handle_table_refused" ["handle-table"],
        "staged_refused" ["staging"],
        "nfs4_sessions_refused" ["nfs4-sessions"],
        "nfs4_opens_refused" ["nfs4-opens"],
        "nfs4_locks_refused" ["nfs4-locks"],
        "nfs4_waiters_refused" ["nfs4-waiters"],
    }
    MOUNTS: Counter "penstock_mounts_total" "" ["result"]
        "MNTs of the MOUNT protocol by what came of them." {
        "mounts_granted" ["granted"],
        "mounts_refused_host" ["refused-host"],
        "mounts_refused_port" ["refused-port"],
        "mounts_refused_version" ["refused-version"],
        "mounts_refused_local_program" ["refused-local-program"],
        "mounts_refused_identity" ["refused-identity"],
        "mounts_of_no_path" ["no-such-path"],
    }
    CALLS_REFUSED: Counter "penstock_calls_refused_total" "" ["reason"]
        "Calls that the rules of exports, a block or the credential's kind refused." {
        "calls_refused_host" ["host"],
        "calls_refused_port" ["port"],
        "calls_refused_version" ["version"],
        "calls_refused_local_program" ["local-program"],
        "calls_refused_identity" ["identity"],
        "calls_blocked" ["blocked"],
        "denied_calls" ["credential"],
    }
    MALFORMED: Counter "penstock_malformed_total" "" ["what"]
        "What came and could not be understood: records without a call, calls with wrong arguments, replies that \
         nobody waits for." {
        "bad_records" ["record"],
        "bad_calls" ["call"],
        "stray_replies" ["reply"],
    }
    CLIENT_NAMES: Gauge "penstock_client_names" "" []
        "Names of hosts and netgroups that rules of exports have." { "client_names" }
    CLIENT_NAMES_UNRESOLVED: Gauge "penstock_client_names_unresolved" "" []
        "Those of them that have no address, and so match nobody." { "client_names_unresolved" }
    CLIENT_NAME_LOOKUPS: Counter "penstock_client_name_lookups_total" "" []
        "Look-ups of such names, and of the hosts of netgroups." { "client_name_lookups" }
    CLIENT_NAME_LOOKUPS_FAILED: Counter "penstock_client_name_lookups_failed_total" "" []
        "Those that gave nothing." { "client_name_lookups_failed" }
    FIRST_USES: Counter "penstock_first_uses_total" "" []
        "Clients and exports that were used for the first time, each pair once." { "first_uses" }
    NLM_LOCKS_REFUSED: Counter "penstock_nlm_locks_refused_total" "" []
        "Locks that clients of NFSv3 asked for; there are none." { "locks_refused" }

    REPLY_CACHE_ANSWERS: Counter "penstock_reply_cache_answers_total" "" ["version"]
        "Repeated calls that were answered from the reply cache: of NFSv3 by their bytes, of NFSv4 from the slots of \
         sessions." {
        "replayed_replies" ["3"],
        "nfs4_replayed" ["4"],
    }
    REPLY_CACHE_IN_PROGRESS: Counter "penstock_reply_cache_in_progress_total" "" []
        "Repeated calls of NFSv3 that came while the first one was still running." { "repeated_calls_in_progress" }
    REPLY_CACHE_REPLIES: Gauge "penstock_reply_cache_replies" "" ["calls", "state"]
        "Replies that are kept for repeated calls of NFSv3, of WRITEs and of other calls that must not run twice: those \
         that are (kept), and how many may be (limit)." {}
    REPLY_CACHE_BYTES: Gauge "penstock_reply_cache_bytes" "bytes" ["calls"]
        "Bytes of these replies, without what it takes to find them." {}
    REPLY_CACHE_EVICTIONS: Counter "penstock_reply_cache_evictions_total" "" ["calls"]
        "Replies that were forgotten early, to make room for those of other calls." {}
    CALL_NOTES_FAILED: Counter "penstock_call_notes_failed_total" "" []
        "Calls that change names of which no note could be made for the server's next life." { "call_notes_failed" }

    FILE_CACHE_OBJECTS: Gauge "penstock_file_cache_objects" "" []
        "Objects in the open-file cache." { "file_cache_objects" }
    FILE_CACHE_DESCRIPTORS: Gauge "penstock_file_cache_descriptors" "" []
        "Descriptors that the open-file cache holds." { "file_cache_fds" }
    FILE_CACHE_DESCRIPTORS_LIMIT: Gauge "penstock_file_cache_descriptors_limit" "" []
        "Descriptors that the open-file cache may hold." { "file_cache_fds_max" }
    FILE_CACHE_HITS: Counter "penstock_file_cache_hits_total" "" []
        "Handles whose object was in the open-file cache." { "file_cache_hits" }
    FILE_CACHE_MISSES: Counter "penstock_file_cache_misses_total" "" []
        "Handles whose object had to be opened." { "file_cache_misses" }
    FILE_CACHE_EVICTIONS: Counter "penstock_file_cache_evictions_total" "" []
        "Objects that left the open-file cache to make room for others." { "file_cache_evictions" }
    FILE_CACHE_WRITE_OPENS: Counter "penstock_file_cache_write_opens_total" "" []
        "Times that a file was opened for writing." { "file_cache_write_opens" }
    FILE_CACHE_SYNCED_FOR_ROOM: Counter "penstock_file_cache_synced_for_room_total" "" []
        "Files that were synced early so that their descriptors could go." { "file_cache_synced_for_room" }
    FILE_CACHE_REMOVED_LOCALLY: Counter "penstock_file_cache_removed_locally_total" "" []
        "Cached objects that were found removed on the server's own host." { "file_cache_removed_locally" }
    FILE_CACHE_SWEEPS: Counter "penstock_file_cache_sweeps_total" "" []
        "Sweeps through the open-file cache; one a second while the server is well." { "file_cache_sweeps" }

    COMMIT_REQUESTS: Counter "penstock_commit_requests_total" "" []
        "Calls that asked for data on stable storage: COMMITs, stable WRITEs, changes of names." { "commit_requests" }
    COMMIT_ROUNDS: Counter "penstock_commit_rounds_total" "" []
        "Rounds in which such calls were put together." { "commit_rounds" }
    COMMIT_SYNCS: Counter "penstock_commit_syncs_total" "" []
        "System calls that synced something for them." { "commit_syncs" }
    VERIFIER_CHANGES: Counter "penstock_verifier_changes_total" "" []
        "Times that the write verifier was changed since the start: acknowledged UNSTABLE data may be lost, and \
         clients send it again." { "verifier_changes" }

    BUFFER_BYTES: Gauge "penstock_buffer_bytes" "bytes" ["direction", "state"]
        "Memory of I/O buffers: what is in use, of that what is only kept to be used again (idle), the most that ever \
         was in use, and the limit, for calls on their way in (receive) and replies on their way out (send)." {}
    PAGE_CACHE: Gauge "penstock_page_cache_bytes" "bytes" ["export"]
        "What the kernel's page cache holds of files in the open-file cache that were read or written, sampled; absent \
         where the kernel does not say, and until it was found out." {}
    ENGINE_SUBMITTED: Counter "penstock_engine_submitted_total" "" ["engine"]
        "Reads, writes and syncs of files that were given to the shards' rings (io_uring) or to the helper pool \
         (threads): those that may wait for a disk. What the page cache answers at once is not among them." {}
    ENGINE_ENDED: Counter "penstock_engine_ended_total" "" ["engine", "result"]
        "Those that have ended: carried out, refused because too many waited, or left out because nobody waited for \
         them any more." {}
    ENGINE_IN_FLIGHT: Gauge "penstock_engine_in_flight" "" ["engine"]
        "Those that have not ended: with the kernel or a helper thread, or waiting for their turn." {}
    RING_WAITED: Counter "penstock_ring_waited_total" "" []
        "Those that found no place in their ring, since as many as may be were with the kernel: they waited or were \
         refused." {}
    RING_WAITING: Gauge "penstock_ring_waiting" "" []
        "Those that wait for a place in their ring at the moment." {}
    RING_SUBMITS: Counter "penstock_ring_submits_total" "" ["result"]
        "System calls that offered operations of a ring to the kernel: it took some, or none (busy) because it was \
         short of memory or completions had to be taken first." {}
    RING_OVERFLOWS: Counter "penstock_ring_overflows_total" "" []
        "Completions that the kernel had to keep because a ring's queue of them was full." {}
    SHARDS: Counter "penstock_shards_seconds_total" "seconds" ["doing"]
        "Time of the threads that serve connections, all of them together: at work, and looking for more to do before \
         they sleep (busy_poll). They sleep for the rest of it." {}
    PROCESS_CPU: Counter "penstock_process_cpu_seconds_total" "seconds" ["mode"]
        "Processor time of the server's process, in its own code (user) and in the kernel (system)." {}
    PROCESS_RESIDENT: Gauge "penstock_process_resident_bytes" "bytes" []
        "Memory that the server's process has in RAM." {}
    PROCESS_THREADS: Gauge "penstock_process_threads" "" []
        "Threads of the server's process." {}
    MEMORY_LIMIT: Gauge "penstock_memory_limit_bytes" "bytes" []
        "The smallest limit of the process's control group and those above it; absent without one." {}
    MEMORY_USED: Gauge "penstock_memory_used_bytes" "bytes" []
        "Memory that the process's control group has, page cache included; absent without one." {}
    PRESSURE: Counter "penstock_pressure_seconds_total" "seconds" ["resource", "kind"]
        "Time since the machine started in which tasks of the process's control group, or else of the machine, waited \
         for a resource: some of them, or all (full)." {}
    HELPER_THREADS: Gauge "penstock_helper_threads" "" []
        "Threads of the helper pool." { "helper_threads" }
    HELPER_JOBS: Gauge "penstock_helper_jobs" "" ["state"]
        "Jobs of the helper pool that run, and that wait for a thread." {
        "helper_jobs_running" ["running"],
        "helper_jobs_queued" ["queued"],
    }

    STAGED_WRITES: Counter "penstock_staged_writes_total" "" []
        "Direct WRITEs of which an end was held in memory for its neighbour." { "staged_writes" }
    STAGED_BLOCKS: Counter "penstock_staged_blocks_total" "" ["result"]
        "Held blocks that a neighbour completed, and that were lost because writing them failed." {
        "staged_blocks_completed" ["completed"],
        "staged_blocks_lost" ["lost"],
    }
    STAGED_FLUSHES: Counter "penstock_staged_flushes_total" "" ["reason"]
        "Held blocks that were written without a neighbour, by what made it necessary." {
        "staged_flushed_commit" ["commit"],
        "staged_flushed_read" ["read"],
        "staged_flushed_setattr" ["setattr"],
        "staged_flushed_write" ["write"],
        "staged_flushed_time" ["time"],
        "staged_flushed_end" ["end"],
    }
    STAGED_BYTES: Gauge "penstock_staged_bytes" "bytes" []
        "Memory that held ends of direct WRITEs take." { "staged_bytes_held" }
    READ_MODIFY_WRITES: Counter "penstock_read_modify_writes_total" "" []
        "Parts of blocks of direct WRITEs that went through the page cache." { "read_modify_writes" }
    RESERVE: Counter "penstock_reserve_total" "" ["result"]
        "Space ahead of streams of WRITEs: taken, given back, kept because that failed, or refused and why." {
        "reserve_taken" ["taken"],
        "reserve_given_back" ["given-back"],
        "reserve_kept" ["kept"],
        "reserve_refused_unsupported" ["refused-unsupported"],
        "reserve_refused_full" ["refused-full"],
        "reserve_refused_nearly_full" ["refused-nearly-full"],
        "reserve_refused_failed" ["refused-failed"],
    }
    WRITES_OUT_OF_ORDER: Counter "penstock_writes_out_of_order_total" "" ["result"]
        "WRITEs that came before others of their stream: left as they were, or put in order by waiting." {
        "writes_out_of_order" ["left"],
        "writes_put_in_order" ["put-in-order"],
    }

    NFS4_CLIENTS: Gauge "penstock_nfs4_clients" "" ["state"]
        "Clients of NFSv4: confirmed ones, those that have not confirmed yet, and those that a grace period still \
         waits for." {
        "nfs4_clients" ["confirmed"],
        "nfs4_clients_unconfirmed" ["unconfirmed"],
        "nfs4_grace_waiting" ["awaited"],
    }
    NFS4_CLIENTS_ENDED: Counter "penstock_nfs4_clients_ended_total" "" ["reason"]
        "Clients of NFSv4 whose state was given up: their lease was over, or they came back in a new life." {
        "nfs4_clients_expired" ["expired"],
        "nfs4_clients_replaced" ["replaced"],
    }
    NFS4_REPLY_BYTES: Gauge "penstock_nfs4_reply_bytes" "bytes" []
        "Memory of the replies that sessions of NFSv4 keep for repeated requests." { "nfs4_reply_bytes" }
    NFS4_SEQUENCE_ERRORS: Counter "penstock_nfs4_sequence_errors_total" "" ["error"]
        "Requests of NFSv4 sessions that were answered with an error about their sequence, or put off." {
        "nfs4_false_retries" ["false-retry"],
        "nfs4_misordered" ["misordered"],
        "nfs4_delayed" ["delay"],
    }
    NFS4_CALLBACKS: Counter "penstock_nfs4_callbacks_total" "" ["result"]
        "Calls to NFSv4 clients: all that were made, those of them that failed, and clients that could not be told \
         of a lock." {
        "nfs4_callbacks" ["made"],
        "nfs4_callbacks_failed" ["failed"],
        "nfs4_waiters_untold" ["untold"],
    }
    NFS4_NAMES_SHARED: Counter "penstock_nfs4_names_shared_total" "" []
        "Names of NFSv4 clients under which two machines were seen." { "nfs4_names_shared" }

    AUDIT_RECORDS: Counter "penstock_audit_records_total" "" ["result"]
        "Records of the audit: all that were told, those that a reader lost, and those that could not be written." {
        "audit_records" ["told"],
        "audit_records_lost" ["lost"],
        "audit_records_unwritten" ["unwritten"],
    }
    TRACE_EVENTS_LOST: Counter "penstock_trace_events_lost_total" "" []
        "Trace events that a listener was too slow for." { "trace_events_lost" }
    TRACE_CALLS_LOST: Counter "penstock_trace_calls_lost_total" "" []
        "Calls that one who follows them was too slow for." { "trace_calls_lost" }
    SYSTEM_CALLS_REFUSED: Counter "penstock_system_calls_refused_total" "" []
        "System calls that the confinement refused; 0 while all is well." { "system_calls_refused" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_conventions_of_prometheus() {
        for definition in TABLE {
            let Definition {
                name, kind, unit, ..
            } = definition;
            let of_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(
                name.starts_with("penstock_") && name.chars().all(of_word),
                "{name}"
            );
            let base = match kind {
                Kind::Counter => name
                    .strip_suffix("_total")
                    .unwrap_or_else(|| panic!("{name}")),
                Kind::Gauge | Kind::Histogram => name,
            };
            assert!(!base.ends_with("_total"), "{name}");
            for unit_word in ["seconds", "bytes"] {
                assert_eq!(base.ends_with(unit_word), *unit == unit_word, "{name}");
            }
            assert!(definition.help.ends_with('.'), "{name}");
            for label in definition.labels {
                assert!(
                    label.chars().all(of_word) && *label != "le",
                    "{name} {label}"
                );
            }
            for (counter, values) in definition.counters {
                assert_eq!(values.len(), definition.labels.len(), "{name} {counter}");
            }
        }
    }

    #[test]
    fn no_name_and_no_counter_stands_twice() {
        let mut names: Vec<&str> = TABLE.iter().map(|definition| definition.name).collect();
        let counters = TABLE.iter().flat_map(|definition| definition.counters);
        let mut counters: Vec<&str> = counters.map(|(counter, _)| *counter).collect();
        for list in [&mut names, &mut counters] {
            let before = list.len();
            list.sort_unstable();
            list.dedup();
            assert_eq!(list.len(), before);
        }
    }
}
