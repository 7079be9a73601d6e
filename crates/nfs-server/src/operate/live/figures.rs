//! What the screens need of a [`Snapshot`], by names of families and labels. What is not there is not shown: a server
//! of another version may count less.

use std::collections::BTreeMap;

use crate::operate::metrics::{Histogram, Sample, Snapshot, Value};

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
    /// To the client.
    pub(super) sent_bytes: f64,
    /// From the client.
    pub(super) received_bytes: f64,
    pub(super) throttled_seconds: f64,
    /// Now, not since then.
    pub(super) in_flight_bytes: Option<f64>,
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
    /// Reads what `snapshot` has.
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let mut figures = Self {
            at_unix_ms: snapshot.at_unix_ms,
            ..Self::default()
        };
        for family in &snapshot.families {
            for sample in &family.samples {
                match &sample.value {
                    Value::Histogram(took) => {
                        if family.name == "penstock_operation_duration_seconds" {
                            figures.took.insert(call_key(sample), took.clone());
                        }
                    }
                    Value::Number(number) => figures.take(&family.name, sample, number.as_f64()),
                }
            }
        }
        figures
    }

    fn take(&mut self, family: &str, sample: &Sample, number: f64) {
        let export = || label(sample, "export");
        let client = || label(sample, "client");
        let moved = |is_read| MovedKey {
            export: export(),
            is_read,
            mode: label(sample, "mode"),
        };
        let clients = &mut self.clients;
        let host = &mut self.host;
        match family {
            "penstock_operation_errors_total" => {
                *self.errors.entry(call_key(sample)).or_default() += number;
            }
            "penstock_read_bytes_total" => {
                *self.moved_bytes.entry(moved(true)).or_default() += number;
            }
            "penstock_written_bytes_total" => {
                *self.moved_bytes.entry(moved(false)).or_default() += number;
            }
            "penstock_io_calls_total" => {
                let is_read = label(sample, "operation") == "read";
                *self.moves.entry(moved(is_read)).or_default() += number;
            }
            "penstock_io_fallbacks_total" => {
                *self.fallbacks.entry(export()).or_default() += number;
            }
            "penstock_page_cache_bytes" => {
                *self.page_cache_bytes.entry(export()).or_default() += number;
            }
            "penstock_client_operations_total" => {
                clients.entry(client()).or_default().operations += number;
            }
            "penstock_client_bytes_total" => {
                let client = clients.entry(client()).or_default();
                match label(sample, "direction").as_str() {
                    "sent" => client.sent_bytes += number,
                    _ => client.received_bytes += number,
                }
            }
            "penstock_client_throttled_seconds_total" => {
                clients.entry(client()).or_default().throttled_seconds += number;
            }
            "penstock_client_in_flight_bytes" => {
                let client = clients.entry(client()).or_default();
                client.in_flight_bytes = Some(client.in_flight_bytes.unwrap_or(0.0) + number);
            }
            "penstock_uptime_seconds" => host.uptime_seconds = Some(number),
            "penstock_process_cpu_seconds_total" => match label(sample, "mode").as_str() {
                "user" => host.user_seconds = Some(number),
                _ => host.system_seconds = Some(number),
            },
            "penstock_process_resident_bytes" => host.resident_bytes = Some(number),
            "penstock_memory_used_bytes" => host.memory_used_bytes = Some(number),
            "penstock_memory_limit_bytes" => host.memory_limit_bytes = Some(number),
            "penstock_connections" => {
                host.connections = Some(host.connections.unwrap_or(0.0) + number);
            }
            "penstock_pressure_seconds_total" => {
                let key = (label(sample, "resource"), label(sample, "kind"));
                host.pressure_seconds.insert(key, number);
            }
            _ => {}
        }
    }
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
