//! What the screens need of a [`Snapshot`]. What is not there is not shown: a server of another version may count less.

use std::collections::BTreeMap;

use crate::operate::metrics::{
    CLIENT_BYTES, CLIENT_BYTES_IN_FLIGHT, CLIENT_CONNECTIONS, CLIENT_OPERATIONS, CLIENT_THROTTLED,
    CONNECTIONS, Definition, Histogram, IO_CALLS, IO_FALLBACKS, MEMORY_LIMIT, MEMORY_USED,
    OPERATION_DURATION, OPERATION_ERRORS, PAGE_CACHE, PRESSURE, PROCESS_CPU, PROCESS_RESIDENT,
    READ_BYTES, Sample, Snapshot, UPTIME, Value, WRITTEN_BYTES,
};

/// Which calls are counted together.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallKey {
    /// The export by the path that clients mount; empty for calls that are about none.
    pub export: String,
    /// The version of NFS, `3` or `4`.
    pub version: String,
    /// The procedure in RFC 1813's words, or the operation in RFC 8881's.
    pub procedure: String,
    /// How READ and WRITE moved their bytes; empty for all others.
    pub mode: String,
}

/// Which bytes are counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MovedKey {
    pub(super) export: String,
    pub(super) is_read: bool,
    pub(super) mode: String,
}

/// What one client had since the server knows it.
#[derive(Clone, Debug, Default)]
pub(super) struct ClientFigures {
    pub(super) operations: f64,
    /// Bytes that were sent to the client.
    pub(super) sent_bytes: f64,
    /// Bytes that came from the client.
    pub(super) received_bytes: f64,
    pub(super) throttled_seconds: f64,
    /// Memory that its calls on their way in hold now.
    pub(super) in_flight_bytes: Option<f64>,
    /// Those that are open now.
    pub(super) connections: Option<f64>,
}

/// What the process and its machine had.
#[derive(Clone, Debug, Default)]
pub(super) struct HostFigures {
    pub(super) uptime_seconds: Option<f64>,
    pub(super) user_seconds: Option<f64>,
    pub(super) system_seconds: Option<f64>,
    /// Time without progress by resource and kind.
    pub(super) pressure_seconds: BTreeMap<(String, String), f64>,
    pub(super) resident_bytes: Option<f64>,
    pub(super) memory_used_bytes: Option<f64>,
    pub(super) memory_limit_bytes: Option<f64>,
    pub(super) connections: Option<f64>,
}

/// The figures of one moment. Sums over labels that no screen shows.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    pub(super) at_unix_ms: u64,
    pub(super) took: BTreeMap<CallKey, Histogram>,
    /// By export, version and procedure; the mode is empty.
    pub(super) errors: BTreeMap<CallKey, f64>,
    pub(super) moved_bytes: BTreeMap<MovedKey, f64>,
    /// READs and WRITEs by the mode that was decided.
    pub(super) moves: BTreeMap<MovedKey, f64>,
    pub(super) fallbacks: BTreeMap<String, f64>,
    pub(super) page_cache_bytes: BTreeMap<String, f64>,
    pub(super) clients: BTreeMap<String, ClientFigures>,
    pub(super) host: HostFigures,
}

impl Figures {
    /// The figures that `snapshot` has, as far as screens show them.
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let mut figures = Self {
            at_unix_ms: snapshot.at_unix_ms,
            ..Self::default()
        };
        for sample in samples(snapshot, &OPERATION_DURATION) {
            if let Value::Histogram(took) = &sample.value {
                figures.took.insert(call_key(sample), took.clone());
            }
        }
        figures.take_exports(snapshot);
        figures.take_clients(snapshot);
        figures.take_host(snapshot);
        figures
    }

    fn take_exports(&mut self, snapshot: &Snapshot) {
        for (sample, number) in numbers(snapshot, &OPERATION_ERRORS) {
            *self.errors.entry(call_key(sample)).or_default() += number;
        }
        let moved = |sample, is_read| MovedKey {
            export: label(sample, "export"),
            is_read,
            mode: label(sample, "mode"),
        };
        for (definition, is_read) in [(&READ_BYTES, true), (&WRITTEN_BYTES, false)] {
            for (sample, number) in numbers(snapshot, definition) {
                *self.moved_bytes.entry(moved(sample, is_read)).or_default() += number;
            }
        }
        for (sample, number) in numbers(snapshot, &IO_CALLS) {
            let is_read = label(sample, "operation") == "read";
            *self.moves.entry(moved(sample, is_read)).or_default() += number;
        }
        for (definition, into) in [
            (&IO_FALLBACKS, &mut self.fallbacks),
            (&PAGE_CACHE, &mut self.page_cache_bytes),
        ] {
            for (sample, number) in numbers(snapshot, definition) {
                *into.entry(label(sample, "export")).or_default() += number;
            }
        }
    }

    fn take_clients(&mut self, snapshot: &Snapshot) {
        let mut each = |definition, add: &dyn Fn(&mut ClientFigures, &Sample, f64)| {
            for (sample, number) in numbers(snapshot, definition) {
                let client = self.clients.entry(label(sample, "client")).or_default();
                add(client, sample, number);
            }
        };
        each(&CLIENT_OPERATIONS, &|client, _, number| {
            client.operations += number;
        });
        each(
            &CLIENT_BYTES,
            &|client, sample, number| match label(sample, "direction").as_str() {
                "sent" => client.sent_bytes += number,
                _ => client.received_bytes += number,
            },
        );
        each(&CLIENT_THROTTLED, &|client, _, number| {
            client.throttled_seconds += number;
        });
        each(&CLIENT_BYTES_IN_FLIGHT, &|client, _, number| {
            client.in_flight_bytes = Some(client.in_flight_bytes.unwrap_or(0.0) + number);
        });
        each(&CLIENT_CONNECTIONS, &|client, _, number| {
            client.connections = Some(client.connections.unwrap_or(0.0) + number);
        });
    }

    fn take_host(&mut self, snapshot: &Snapshot) {
        let one = |definition: &Definition| numbers(snapshot, definition).next().map(|it| it.1);
        let host = &mut self.host;
        host.uptime_seconds = one(&UPTIME);
        host.resident_bytes = one(&PROCESS_RESIDENT);
        host.memory_used_bytes = one(&MEMORY_USED);
        host.memory_limit_bytes = one(&MEMORY_LIMIT);
        host.connections = one(&CONNECTIONS);
        for (sample, number) in numbers(snapshot, &PROCESS_CPU) {
            match label(sample, "mode").as_str() {
                "user" => host.user_seconds = Some(number),
                _ => host.system_seconds = Some(number),
            }
        }
        for (sample, number) in numbers(snapshot, &PRESSURE) {
            let key = (label(sample, "resource"), label(sample, "kind"));
            host.pressure_seconds.insert(key, number);
        }
    }
}

fn samples<'s>(
    snapshot: &'s Snapshot,
    definition: &Definition,
) -> impl Iterator<Item = &'s Sample> + use<'s> {
    let family = snapshot.family(definition).into_iter();
    family.flat_map(|family| &family.samples)
}

fn numbers<'s>(
    snapshot: &'s Snapshot,
    definition: &Definition,
) -> impl Iterator<Item = (&'s Sample, f64)> + use<'s> {
    samples(snapshot, definition).filter_map(|sample| match &sample.value {
        Value::Number(number) => Some((sample, number.as_f64())),
        Value::Histogram(_) => None,
    })
}

fn call_key(sample: &Sample) -> CallKey {
    CallKey {
        export: label(sample, "export"),
        version: label(sample, "version"),
        procedure: label(sample, "procedure"),
        mode: label(sample, "mode"),
    }
}

fn label(sample: &Sample, name: &str) -> String {
    sample.labels.get(name).cloned().unwrap_or_default()
}
