//! What a transfer costs in numbers that no clock is needed for: system calls and bytes copied in user space.
//!
//! System calls are strace's, of any server. What the server itself says (`penstock ctl status`) is ours only: how many
//! bytes went in which mode, what fell back, and how many payload bytes were copied from memory to memory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicU64;

use anyhow::{Context, Result};
use nfs_load::cgroup::Cgroup;
use serde::{Deserialize, Serialize};

use super::contender::{Contender, Serving};
use super::measure::{Common, job, start};
use super::stream;
use super::work::Work;
use crate::counters;
use crate::servers;
use crate::stage::output;
use crate::volume::Volume;
use nfs_load::table::Table;

/// Bytes that a counted load moves: enough for figures per MiB that do not depend on where a run begins, and
/// little enough for strace.
const COUNTED_BYTES: u64 = 256 << 20;

/// The counts of one workload on one server.
#[derive(Clone, Debug, Serialize)]
pub struct Count {
    /// The workload that was counted.
    pub work: Work,
    /// The server whose calls were counted.
    pub contender: Contender,
    /// System calls per MiB, the most frequent first.
    pub system_calls: Vec<(String, f64)>,
    /// The server's own figures, which only the server of this project has.
    pub own: Option<Own>,
}

/// Figures that the server of this project gives about the calls of one operation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Own {
    /// Number of READ or WRITE calls.
    pub calls: u64,
    /// Payload bytes of the calls: those that READs returned or WRITEs acknowledged.
    pub bytes: u64,
    /// Number of segments, the parts of a call that are moved in one mode each.
    pub segments: u64,
    /// Bytes between memory and file, by the mode in which they went.
    pub moved_bytes: BTreeMap<String, u64>,
    /// Calls that went another way than was chosen, by reason.
    pub fallbacks: BTreeMap<String, u64>,
    /// Payload bytes copied from memory to memory in user space.
    pub copied_bytes: u64,
    operation: String,
}

/// Counts `work` of `contender`, which has to be a server; `turn` as for a measurement.
///
/// # Errors
/// strace is missing or may not attach, or the server fails.
pub fn count(
    common: &Common,
    volume: &Volume,
    work: Work,
    contender: Contender,
    turn: usize,
) -> Result<Count> {
    let cgroup = Cgroup::new(&format!("{}{turn}", common.cgroups), common.memory_bytes)?;
    let wrapper = cgroup.wrapper();
    let server = start(common, volume, contender, turn, &wrapper)?;
    let mut job = job(common, volume, work, contender);
    job.file_bytes = job.file_bytes.min(COUNTED_BYTES);
    let run = || stream::run(&server.server.place, &job, &AtomicU64::new(0));
    let counted = counters::system_calls(server.server.pid, &common.root, run);
    let own = contender
        .mode()
        .map(|_| own(&server.work.join("state"), work))
        .transpose();
    drop(server);
    if work.direction() == super::work::Direction::Write {
        let _ = std::fs::remove_file(volume.directory.join(&job.name));
    }
    let (outcome, calls) = counted?;
    let mib = outcome.bytes as f64 / f64::from(1 << 20);
    Ok(Count {
        work,
        contender,
        system_calls: calls
            .into_iter()
            .map(|(name, n)| (name, n as f64 / mib))
            .collect(),
        own: own?,
    })
}

fn own(state: &Path, work: Work) -> Result<Own> {
    parse(&status(state)?, work).context("the server's own figures")
}

/// Parts of blocks that the server of this project left to the page cache since it began.
///
/// # Errors
/// It is not ours, or does not answer.
pub(super) fn read_modify_writes(serving: &Serving) -> Result<u64> {
    /// The part of the status that is looked at.
    #[derive(Deserialize)]
    struct Status {
        counters: BTreeMap<String, u64>,
    }

    let status = status(&serving.work.join("state"))?;
    let counters = serde_json::from_str::<Status>(&status)?.counters;
    let counted = counters.get("read_modify_writes").copied();
    counted.context("the server counts no read-modify-writes")
}

/// What the server with this state says of itself, as JSON.
fn status(state: &Path) -> Result<String> {
    let binary = servers::binary()?.display().to_string();
    let state = state.display().to_string();
    output(&binary, &["ctl", "--state-dir", &state, "--json", "status"])
}

/// The row of `work`'s direction, of a server that did nothing else.
fn parse(json: &str, work: Work) -> Result<Own> {
    /// The part of the status that is looked at.
    #[derive(Deserialize)]
    struct Status {
        io: Vec<Own>,
    }

    let rows = serde_json::from_str::<Status>(json)?.io;
    let operation = match work.direction() {
        super::work::Direction::Read => "read",
        super::work::Direction::Write => "write",
    };
    rows.into_iter()
        .filter(|row| row.operation == operation && row.calls > 0)
        .max_by_key(|row| row.bytes)
        .context("nothing was counted")
}

/// A table of everything that was counted, with one row for each count.
pub fn table(counts: &[Count]) -> Table {
    let heading = [
        "",
        "system calls / MiB",
        "which",
        "copied bytes / MiB",
        "moved",
        "fell back",
    ];
    let rows = counts.iter().map(|count| {
        let all: f64 = count.system_calls.iter().map(|(_, each)| each).sum();
        let most = count.system_calls.iter().take(4);
        let which: Vec<String> = most
            .map(|(name, each)| format!("{name} {each:.2}"))
            .collect();
        let own = |text: fn(&Own) -> String| count.own.as_ref().map_or("-".to_owned(), text);
        vec![
            format!("{}, {}", count.work.name(), count.contender.name()),
            format!("{all:.2}"),
            which.join(", "),
            own(|own| {
                format!(
                    "{:.0}",
                    own.copied_bytes as f64 / own.bytes.max(1) as f64 * f64::from(1 << 20)
                )
            }),
            own(|own| {
                let share = |bytes: u64| bytes as f64 * 100.0 / own.bytes.max(1) as f64;
                let parts = own.moved_bytes.iter().filter(|(_, bytes)| **bytes > 0);
                let parts: Vec<String> = parts
                    .map(|(mode, &bytes)| format!("{mode} {:.1} %", share(bytes)))
                    .collect();
                parts.join(", ")
            }),
            own(|own| {
                let parts = own.fallbacks.iter().filter(|(_, calls)| **calls > 0);
                let parts: Vec<String> = parts
                    .map(|(reason, calls)| format!("{reason} {calls}"))
                    .collect();
                if parts.is_empty() {
                    "none".to_owned()
                } else {
                    parts.join(", ")
                }
            }),
        ]
    });
    Table::new("counted", &heading, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_of_the_direction_is_taken() {
        let json = r#"{"io": [{"export": "/", "operation": "write", "mode": "direct", "calls": 0},
            {"export": "/", "operation": "read", "mode": "direct", "calls": 3, "bytes": 300, "copied_bytes": 7,
             "moved_bytes": {"direct": 4096}, "fallbacks": {}, "later": 1}]}"#;
        let own = parse(json, Work::SeqRead1m).unwrap();
        assert_eq!((own.calls, own.copied_bytes), (3, 7));
        assert!(
            parse(json, Work::SeqWrite1m).is_err(),
            "no WRITE was counted"
        );
    }
}
