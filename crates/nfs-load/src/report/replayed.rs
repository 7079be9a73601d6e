//! Reports of a replayed recording: what was played, and the answer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Report, Row, counted, number};

/// The row of the recording itself, among those of the targets.
pub const RECORDED: &str = "as recorded";
/// The step that all calls count in.
pub const ALL: &str = "all calls";

/// What of a recording was played.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replayed {
    /// When it was recorded, in nanoseconds since 1970.
    pub recorded_ns: u64,
    /// Version of the server that was recorded.
    pub server: String,
    /// Calls that it has.
    pub calls: u64,
    /// Calls of these that are played.
    pub played: u64,
    /// Calls that are left out, by procedure and reason.
    pub left_out: BTreeMap<String, u64>,
    /// Calls that are missing in it, as they came faster than they were recorded.
    pub lost: u64,
    /// Whether its file was cut off.
    pub is_cut: bool,
    /// Clients that it has.
    pub clients: usize,
    /// Seconds from its first call to its last.
    pub seconds: f64,
    /// How many times as fast it is replayed; `None` for as fast as the server answers.
    pub speed: Option<f64>,
    /// What targets refused that was answered when it was recorded: by target, procedure and status.
    pub refused: BTreeMap<String, u64>,
}

/// How the load is told; `None` where it is no replay.
pub(super) fn load(report: &Report) -> Option<String> {
    let replay = report.replay.as_ref()?;
    let speed = replay
        .speed
        .map_or("as fast as it is answered".to_owned(), |times| {
            format!("{times} times as fast")
        });
    Some(format!(
        "{} calls of {} in {} s, recorded on penstock {}, replayed {speed}",
        replay.played,
        counted(replay.clients, "client"),
        number(replay.seconds),
        replay.server
    ))
}

/// What has to be known of a replay.
pub(super) fn notes(report: &Report) -> Vec<String> {
    let Some(replay) = &report.replay else {
        return Vec::new();
    };
    let mut notes = Vec::new();
    let left_out: u64 = replay.left_out.values().sum();
    if left_out > 0 {
        notes.push(format!(
            "{left_out} of {} calls of the recording are left out: {}.",
            replay.calls,
            listed(&replay.left_out)
        ));
    }
    if replay.lost > 0 {
        notes.push(format!(
            "{} calls are missing in the recording: they came faster than they were written.",
            replay.lost
        ));
    }
    if replay.is_cut {
        notes.push("The recording was cut off: its last calls are missing.".to_owned());
    }
    if !replay.refused.is_empty() {
        notes.push(format!(
            "Refused, and answered when it was recorded: {}.",
            listed(&replay.refused)
        ));
    }
    notes.push(format!(
        "{RECORDED}: what the recorded server took, from when it had a call whole; the network and the client are not in it."
    ));
    notes
}

fn listed(counts: &BTreeMap<String, u64>) -> String {
    /// Reasons that are told; more would bury the first.
    const TOLD: usize = 8;
    let told = counts.iter().take(TOLD);
    let mut told: Vec<String> = told
        .map(|(what, count)| format!("{count} {what}"))
        .collect();
    if counts.len() > TOLD {
        told.push(format!("and {} other kinds", counts.len() - TOLD));
    }
    told.join("; ")
}

/// What each target would have done for the load, the best first.
pub(super) fn answer(report: &Report) -> String {
    let is_paced = report
        .replay
        .as_ref()
        .is_some_and(|replay| replay.speed.is_some());
    let mut rows: Vec<&Row> = report
        .of_step(ALL)
        .filter(|row| row.target != RECORDED)
        .collect();
    let figure = |row: &Row| match is_paced {
        true => row.figures.p99_us,
        // A load that is done sooner is the better one.
        false => row.figures.throughput.times(-1.0),
    };
    rows.sort_by(|one, other| figure(one).median.total_cmp(&figure(other).median));
    let told = rows.iter().map(|row| {
        let value = number(figure(row).median.abs());
        format!("{value} with {}", row.target)
    });
    let told = told.collect::<Vec<_>>().join(", ");
    let recorded = report.row(ALL, RECORDED).map_or(String::new(), |row| {
        let value = number(figure(row).median.abs());
        format!("; {value} {RECORDED}")
    });
    let spread = match (rows.first(), rows.last()) {
        (Some(best), Some(last)) if rows.len() > 1 && meet(best, last, is_paced) => {
            " No difference is larger than the spread."
        }
        _ => "",
    };
    match is_paced {
        true => format!(
            "99 of 100 calls of this load would have taken at most, in µs: {told}{recorded}.{spread}"
        ),
        false => format!(
            "Calls of this load that would have been answered in a second: {told}{recorded}.{spread}"
        ),
    }
}

fn meet(one: &Row, other: &Row, is_paced: bool) -> bool {
    let figure = |row: &Row| match is_paced {
        true => row.figures.p99_us,
        false => row.figures.throughput,
    };
    let (one, other) = (figure(one), figure(other));
    one.min <= other.max && other.min <= one.max
}
