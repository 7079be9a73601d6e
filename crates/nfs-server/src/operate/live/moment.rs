//! One point of the curves: what is kept of an interval when it is over.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::distribution::{Distribution, Percentiles};
use super::figures::MovedKey;
use super::interval::{HostRates, Interval};
use crate::limits::LIVE_EXPORTS_MAX;

/// A point of the curves. Rates are per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Moment {
    /// The end of the interval, in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// How long it was, in seconds; 0 where there are no rates, because the server was started again or nobody
    /// looked for long. Curves have a gap there.
    pub seconds: f64,
    /// The process and its machine.
    pub host: HostRates,
    /// What all exports did together.
    pub all: Flow,
    /// The exports with the most traffic, by name; those that there is no room for are in `others`.
    pub exports: BTreeMap<String, Flow>,
    /// All exports together that are not in `exports`; `None` where none is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others: Option<Flow>,
}

/// What one export did in an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Flow {
    /// Calls a second, of every procedure.
    pub operations: f64,
    /// Calls a second that were answered with an error.
    pub errors: f64,
    /// READs and WRITEs a second that did not go in the mode that was chosen.
    pub fallbacks: f64,
    /// How long the calls took that are neither READ nor WRITE.
    pub other: Percentiles,
    /// What the calls of READ moved.
    pub read: Moving,
    /// What the calls of WRITE moved.
    pub write: Moving,
    /// Bytes in the page cache; `None` where it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache_bytes: Option<f64>,
}

/// READs or WRITEs of an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Moving {
    /// Calls that were answered in a second.
    pub operations: f64,
    /// Bytes that were moved in a second.
    pub bytes: f64,
    /// How long the calls took.
    pub took: Percentiles,
    /// The same for each mode in which some were moved.
    pub modes: BTreeMap<String, Way>,
}

/// READs or WRITEs of an interval in one mode.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Way {
    /// Calls that were answered in a second.
    pub operations: f64,
    /// Bytes that were moved in a second.
    pub bytes: f64,
    /// How long the calls took.
    pub took: Percentiles,
}

impl Moment {
    /// What is kept of `interval`.
    pub(super) fn of(interval: &Interval) -> Self {
        let mut exports = Sums::by_export(interval);
        let mut all = Sums::default();
        for sums in exports.values() {
            all.add(sums);
        }
        let mut others = None;
        if exports.len() > LIVE_EXPORTS_MAX {
            let mut names: Vec<(f64, String)> = exports
                .iter()
                .map(|(name, sums)| (sums.weight(), name.clone()))
                .collect();
            // The busiest first; of equals always the same.
            names.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
            let rest = others.insert(Sums::default());
            for (_, name) in names.split_off(LIVE_EXPORTS_MAX) {
                if let Some(sums) = exports.remove(&name) {
                    rest.add(&sums);
                }
            }
        }
        let exports = exports.into_iter();
        Self {
            at_unix_ms: interval.at_unix_ms,
            seconds: interval.seconds,
            host: interval.host,
            all: all.flow(),
            exports: exports.map(|(name, sums)| (name, sums.flow())).collect(),
            others: others.map(|sums| sums.flow()),
        }
    }
}

/// What one export did, before the percentiles are taken.
#[derive(Default)]
pub(super) struct Sums {
    operations: f64,
    errors: f64,
    fallbacks: f64,
    other: Distribution,
    read: BTreeMap<String, WaySums>,
    write: BTreeMap<String, WaySums>,
    page_cache_bytes: Option<f64>,
}

#[derive(Clone, Default)]
struct WaySums {
    operations: f64,
    bytes: f64,
    took: Distribution,
}

impl Sums {
    /// What each export did. Calls that are about none have the empty name.
    pub(super) fn by_export(interval: &Interval) -> BTreeMap<String, Self> {
        let mut exports = BTreeMap::<String, Self>::new();
        for (key, calls) in &interval.calls {
            let sums = exports.entry(key.export.clone()).or_default();
            sums.operations += calls.operations;
            sums.errors += calls.errors;
            let ways = match key.procedure.as_str() {
                "READ" => &mut sums.read,
                "WRITE" => &mut sums.write,
                _ => {
                    sums.other.add(&calls.took);
                    continue;
                }
            };
            if calls.operations > 0.0 {
                let way = ways.entry(key.mode.clone()).or_default();
                way.took.add(&calls.took);
                if interval.moves.is_none() {
                    way.operations += calls.operations;
                }
            }
        }
        let mut way = |key: &MovedKey, add: &dyn Fn(&mut WaySums)| {
            let sums = exports.entry(key.export.clone()).or_default();
            let ways = if key.is_read {
                &mut sums.read
            } else {
                &mut sums.write
            };
            add(ways.entry(key.mode.clone()).or_default());
        };
        for (key, bytes) in &interval.moved {
            way(key, &|way| way.bytes += bytes);
        }
        for (key, operations) in interval.moves.iter().flatten() {
            way(key, &|way| way.operations += operations);
        }
        for (export, fallbacks) in &interval.fallbacks {
            exports.entry(export.clone()).or_default().fallbacks += fallbacks;
        }
        for (export, bytes) in &interval.page_cache_bytes {
            exports.entry(export.clone()).or_default().page_cache_bytes = Some(*bytes);
        }
        exports
    }

    /// Takes in what another export did.
    pub(super) fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.errors += other.errors;
        self.fallbacks += other.fallbacks;
        self.other.add(&other.other);
        for (own, others) in [
            (&mut self.read, &other.read),
            (&mut self.write, &other.write),
        ] {
            for (mode, way) in others {
                own.entry(mode.clone()).or_default().add(way);
            }
        }
        if let Some(bytes) = other.page_cache_bytes {
            self.page_cache_bytes = Some(self.page_cache_bytes.unwrap_or(0.0) + bytes);
        }
    }

    /// What is shown of it.
    pub(super) fn flow(&self) -> Flow {
        let (read, write) = (moving(&self.read), moving(&self.write));
        Flow {
            // A server that counts calls without their export knows at least these.
            operations: self.operations.max(read.operations + write.operations),
            errors: self.errors,
            fallbacks: self.fallbacks,
            other: self.other.percentiles(),
            read,
            write,
            page_cache_bytes: self.page_cache_bytes,
        }
    }

    /// How busy the export is, to choose those that are kept: a call weighs as much as 4 KiB.
    fn weight(&self) -> f64 {
        let ways = self.read.values().chain(self.write.values());
        self.operations * 4096.0 + ways.map(|way| way.bytes).sum::<f64>()
    }
}

impl WaySums {
    fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.took.add(&other.took);
    }
}

fn moving(ways: &BTreeMap<String, WaySums>) -> Moving {
    let mut all = WaySums::default();
    for way in ways.values() {
        all.add(way);
    }
    let of = |way: &WaySums| Way {
        operations: way.operations,
        bytes: way.bytes,
        took: way.took.percentiles(),
    };
    Moving {
        operations: all.operations,
        bytes: all.bytes,
        took: all.took.percentiles(),
        modes: ways
            .iter()
            .map(|(mode, way)| (mode.clone(), of(way)))
            .collect(),
    }
}
