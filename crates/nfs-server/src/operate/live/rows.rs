//! The tables of the screens: what happened in an interval by export, procedure, mode or client.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::distribution::{Distribution, Percentiles};
use super::figures::MovedKey;
use super::interval::{ClientRates, Interval};
use super::moment::{Flow, Sums};
use crate::operate::control::IoState;
use crate::operate::metrics::OTHERS;

/// What an export did in an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExportRow {
    /// The path that clients mount; empty for calls that are about no export.
    pub export: String,
    /// How READs are to travel, in the words of the configuration; empty where that is not known.
    pub reads: String,
    /// How WRITEs are to travel, likewise.
    pub writes: String,
    /// How long all calls took.
    pub took: Percentiles,
    /// What was done on the export.
    #[serde(flatten)]
    pub flow: Flow,
}

/// Calls that are shown in one row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallRow {
    /// The version of NFS, `3` or `4`; empty where the row is of both.
    pub version: String,
    /// The procedure or operation, by its name in the RFC.
    pub procedure: String,
    /// The export; empty where the row is of all.
    pub export: String,
    /// The mode; empty where the row is of all, or there is none.
    pub mode: String,
    /// Calls that were answered in a second.
    pub operations: f64,
    /// Calls a second that were answered with an error.
    pub errors: f64,
    /// Bytes that were moved in a second.
    pub bytes: f64,
    /// How long these calls took.
    pub took: Percentiles,
}

/// What a client had in an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientRow {
    /// Its address; `others` are those that there was no room for.
    pub client: String,
    /// Calls that were answered in a second.
    pub operations: f64,
    /// Bytes sent to it a second, all of each reply.
    pub sent_bytes: f64,
    /// Bytes received from it a second, all of each call.
    pub received_bytes: f64,
    /// Bytes on their way now; `None` where it is not known.
    pub in_flight_bytes: Option<f64>,
    /// Connections that it has open now; `None` where it is not known.
    pub connections: Option<f64>,
    /// The part of the time for which it was held back by its limits; 1 is all of it.
    pub throttled: f64,
}

/// What the rows of calls are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// One row for each version and procedure.
    Procedure,
    /// One row for each export, READ or WRITE, and mode.
    Mode,
}

/// One row for each export, by name: those that were used, and those of `policies`, whose modes the rows tell.
#[must_use]
pub fn export_rows(interval: &Interval, policies: &[IoState]) -> Vec<ExportRow> {
    let mut took = BTreeMap::<&str, Distribution>::new();
    for (key, calls) in &interval.calls {
        took.entry(&key.export).or_default().add(&calls.took);
    }
    let mut sums = Sums::by_export(interval);
    // A server that counts calls without their export: they are of no row.
    if interval.calls.keys().all(|key| key.export.is_empty()) {
        sums.remove("");
    }
    let mut modes = BTreeMap::new();
    for policy in policies {
        sums.entry(policy.export.clone()).or_default();
        modes.insert(
            policy.export.as_str(),
            (&policy.now.read, &policy.now.write),
        );
    }
    let row = |(export, sums): (String, Sums)| {
        let took = took.get(export.as_str()).map(Distribution::percentiles);
        let (reads, writes) = modes.get(export.as_str()).copied().unzip();
        ExportRow {
            reads: reads.cloned().unwrap_or_default(),
            writes: writes.cloned().unwrap_or_default(),
            took: took.unwrap_or_default(),
            flow: sums.flow(),
            export,
        }
    };
    sums.into_iter().map(row).collect()
}

/// Rows of calls as `group` says, by name.
#[must_use]
pub fn call_rows(interval: &Interval, group: Group) -> Vec<CallRow> {
    let mut rows = BTreeMap::<[&str; 4], (CallRow, Distribution)>::new();
    for (key, calls) in &interval.calls {
        let is_moving = matches!(key.procedure.as_str(), "READ" | "WRITE");
        let cells = match group {
            Group::Procedure => [key.version.as_str(), &key.procedure, "", ""],
            // What was refused before it had a mode is among the procedures.
            Group::Mode if is_moving && !key.mode.is_empty() => {
                ["", &key.procedure, &key.export, &key.mode]
            }
            Group::Mode => continue,
        };
        let (row, took) = rows.entry(cells).or_default();
        if group == Group::Procedure || interval.moves.is_none() {
            row.operations += calls.operations;
        }
        row.errors += calls.errors;
        took.add(&calls.took);
    }
    if group == Group::Mode {
        for (key, bytes) in &interval.moved {
            rows.entry(moved_cells(key)).or_default().0.bytes += bytes;
        }
        for (key, operations) in interval.moves.iter().flatten() {
            rows.entry(moved_cells(key)).or_default().0.operations += operations;
        }
    }
    let named = |([version, procedure, export, mode], (row, took)): (
        [&str; 4],
        (CallRow, Distribution),
    )| CallRow {
        version: version.to_owned(),
        procedure: procedure.to_owned(),
        export: export.to_owned(),
        mode: mode.to_owned(),
        took: took.percentiles(),
        ..row
    };
    rows.into_iter().map(named).collect()
}

/// The cells that tell the row of what moved from others.
const fn moved_cells(key: &MovedKey) -> [&str; 4] {
    let procedure = if key.is_read { "READ" } else { "WRITE" };
    ["", procedure, key.export.as_str(), key.mode.as_str()]
}

/// One row for each client, by name; those that there was no room for have one together, if they had anything.
#[must_use]
pub fn client_rows(interval: &Interval) -> Vec<ClientRow> {
    let had_something = |rates: &ClientRates| {
        let now = [rates.connections, rates.in_flight_bytes];
        rates.operations > 0.0 || now.into_iter().flatten().any(|number| number > 0.0)
    };
    let clients = interval.clients.iter();
    clients
        .filter(|(client, rates)| *client != OTHERS || had_something(rates))
        .map(|(client, rates)| ClientRow {
            client: client.clone(),
            operations: rates.operations,
            sent_bytes: rates.sent_bytes,
            received_bytes: rates.received_bytes,
            in_flight_bytes: rates.in_flight_bytes,
            connections: rates.connections,
            throttled: rates.throttled,
        })
        .collect()
}
