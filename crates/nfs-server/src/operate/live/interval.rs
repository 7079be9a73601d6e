//! Two moments, and what happened between them: rates out of counters.

use std::collections::BTreeMap;

use super::distribution::Distribution;
use crate::operate::metrics::Histogram;

use super::figures::{CallKey, ClientFigures, Figures, HostFigures, MovedKey};

/// What happened between two looks at a server. Rates are per second.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    /// When the second look was, in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// How long the interval was, in seconds; 0 where nothing can be said of it.
    pub seconds: f64,
    /// The calls that were answered, by export, version, procedure and mode; only those that came.
    pub calls: BTreeMap<CallKey, Calls>,
    /// What moved, by export, in which direction and in which mode; only where something did.
    pub(super) moved: BTreeMap<MovedKey, f64>,
    /// READs and WRITEs in the same way. `None` where the server does not count them so.
    pub(super) moves: Option<BTreeMap<MovedKey, f64>>,
    /// READs and WRITEs that did not go in the mode that was chosen, by export.
    pub fallbacks: BTreeMap<String, f64>,
    /// Bytes in the page cache at the end, by export.
    pub page_cache_bytes: BTreeMap<String, f64>,
    /// What each client had. Those that had nothing are there, too.
    pub clients: BTreeMap<String, ClientRates>,
    /// The process and its machine.
    pub host: HostRates,
}

/// Calls of an interval that are counted together.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// Calls that were answered in a second.
    pub operations: f64,
    /// Calls a second that were answered with an error.
    pub errors: f64,
    /// How long these calls took.
    pub took: Distribution,
}

/// What a client had in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClientRates {
    /// Calls of the client that were answered in a second.
    pub operations: f64,
    /// Bytes sent to it a second, all of each reply.
    pub sent_bytes: f64,
    /// Bytes received from it a second, all of each call.
    pub received_bytes: f64,
    /// The part of the time, 0 to 1, for which the client was held back by its limits. More where several
    /// connections were.
    pub throttled: f64,
    /// Bytes on their way at the end.
    pub in_flight_bytes: Option<f64>,
    /// Its connections that are open at the end.
    pub connections: Option<f64>,
}

/// What the process and its machine had in an interval. `None` where the server does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct HostRates {
    /// Processors that the process kept busy with code of its own.
    pub cpu_user: Option<f64>,
    /// Processors that the kernel kept busy for the process.
    pub cpu_system: Option<f64>,
    /// The part of the time, 0 to 1, in which some task waited for memory.
    pub memory_some: Option<f64>,
    /// The part of the time, 0 to 1, in which all tasks waited for memory.
    pub memory_full: Option<f64>,
    /// The part of the time, 0 to 1, in which some task waited for I/O.
    pub io_some: Option<f64>,
    /// The part of the time, 0 to 1, in which some task waited for a processor.
    pub cpu_some: Option<f64>,
    /// Memory of the process, in bytes.
    pub resident_bytes: Option<f64>,
    /// Memory in use where the limit applies, page cache included, in bytes.
    pub memory_used_bytes: Option<f64>,
    /// The limit of memory, in bytes.
    pub memory_limit_bytes: Option<f64>,
    /// Connections of clients at the end.
    pub connections: Option<f64>,
}

impl Interval {
    /// What happened between `before` and `now`. Where `can_compare` is not so, there are no rates, only what is
    /// true of the moment.
    pub(super) fn between(
        before: &Figures,
        now: &Figures,
        seconds: f64,
        can_compare: bool,
    ) -> Self {
        let mut interval = Self {
            at_unix_ms: now.at_unix_ms,
            seconds: if can_compare { seconds } else { 0.0 },
            page_cache_bytes: now.page_cache_bytes.clone(),
            host: host(&before.host, &now.host, can_compare.then_some(seconds)),
            ..Self::default()
        };
        let rate = |before: f64, now: f64| match can_compare {
            true => rate(before, now, seconds),
            false => 0.0,
        };
        let client = |name: &String, now: &ClientFigures| {
            let unknown = ClientFigures::default();
            let before = before.clients.get(name).unwrap_or(&unknown);
            ClientRates {
                operations: rate(before.operations, now.operations),
                sent_bytes: rate(before.sent_bytes, now.sent_bytes),
                received_bytes: rate(before.received_bytes, now.received_bytes),
                throttled: rate(before.throttled_seconds, now.throttled_seconds),
                in_flight_bytes: now.in_flight_bytes,
                connections: now.connections,
            }
        };
        let clients = now.clients.iter();
        interval.clients = clients
            .map(|(name, now)| (name.clone(), client(name, now)))
            .collect();
        if can_compare {
            interval.fallbacks = rates(&before.fallbacks, &now.fallbacks, seconds);
            let counted = (!now.moves.is_empty()).then_some((&before.moves, &now.moves));
            interval.moves = counted.map(|(before, now)| rates(before, now, seconds));
            interval.moved = rates(&before.moved_bytes, &now.moved_bytes, seconds);
            interval.take_calls(before, now);
        }
        interval
    }

    fn take_calls(&mut self, before: &Figures, now: &Figures) {
        let none = Histogram::default();
        for (key, now) in &now.took {
            let before = before.took.get(key).unwrap_or(&none);
            if before.count == now.count {
                continue;
            }
            let took =
                Distribution::between((&before.buckets, before.count), (&now.buckets, now.count));
            let Some(took) = took else { continue };
            let operations = took.count() as f64 / self.seconds;
            let calls = Calls {
                operations,
                took,
                errors: 0.0,
            };
            self.calls.insert(key.clone(), calls);
        }
        for (key, errors) in rates(&before.errors, &now.errors, self.seconds) {
            self.calls.entry(key).or_default().errors += errors;
        }
    }
}

/// The rates of those counters that grew.
fn rates<K: Ord + Clone>(
    before: &BTreeMap<K, f64>,
    now: &BTreeMap<K, f64>,
    seconds: f64,
) -> BTreeMap<K, f64> {
    let one = |(key, now): (&K, &f64)| {
        let before = before.get(key).copied().unwrap_or(0.0);
        let rate = rate(before, *now, seconds);
        (rate > 0.0).then(|| (key.clone(), rate))
    };
    now.iter().filter_map(one).collect()
}

/// A counter that went back was begun anew, nobody knows when: it is left out for this interval.
fn rate(before: f64, now: f64, seconds: f64) -> f64 {
    let came = now - before;
    match came.is_finite() && came > 0.0 {
        true => came / seconds,
        false => 0.0,
    }
}

fn host(before: &HostFigures, now: &HostFigures, seconds: Option<f64>) -> HostRates {
    let busy = |before: Option<f64>, now: Option<f64>| Some(rate(before?, now?, seconds?));
    let waited = |resource: &str, kind: &str| {
        let key = (resource.to_owned(), kind.to_owned());
        let of = |figures: &HostFigures| figures.pressure_seconds.get(&key).copied();
        // Counted by another clock than ours, it may be a little more than the whole.
        busy(of(before), of(now)).map(|part| part.min(1.0))
    };
    HostRates {
        cpu_user: busy(before.user_seconds, now.user_seconds),
        cpu_system: busy(before.system_seconds, now.system_seconds),
        memory_some: waited("memory", "some"),
        memory_full: waited("memory", "full"),
        io_some: waited("io", "some"),
        cpu_some: waited("cpu", "some"),
        resident_bytes: now.resident_bytes,
        memory_used_bytes: now.memory_used_bytes,
        memory_limit_bytes: now.memory_limit_bytes,
        connections: now.connections,
    }
}
