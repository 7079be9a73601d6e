//! Reports as a run would give them, for the tests of what is made of them.

use super::contender::Contender;
use super::measure::Figures;
use super::run::{Header, Report, Row};
use super::stream::Outcome;
use super::work::Work;
use crate::turns::Machine;

/// A row of rounds that each moved 1 GiB: (MiB/s, CPU seconds, bytes cached).
pub(crate) fn row(work: Work, contender: Contender, rounds: &[(f64, f64, u64)]) -> Row {
    let figures = |&(rate, cpu, cached): &(f64, f64, u64)| Figures {
        outcome: Outcome {
            bytes: 1 << 30,
            calls: 1024,
            seconds: 1024.0 / rate,
            commit_seconds: 0.0,
            p50_us: 1000.0,
            p99_us: 2000.0,
            p999_us: 3000.0,
            max_us: 4000.0,
            checked_bytes: 0,
        },
        user: cpu / 4.0,
        system: cpu * 3.0 / 4.0,
        load: 512.0 / rate,
        elsewhere: 0.0,
        cached_bytes: cached,
        cached_peak_bytes: cached,
        resident_peak_bytes: 0,
        charged_peak_bytes: None,
        device_read_bytes: None,
        read_modify_writes: None,
        points: Vec::new(),
    };
    Row {
        volume: "fast",
        work,
        contender,
        rounds: rounds.iter().map(figures).collect(),
    }
}

/// A report of these rows, all on the fast volume.
pub(crate) fn report(rows: Vec<Row>) -> Report {
    Report {
        header: Header {
            machine: Machine {
                kernel: String::new(),
                cpus: 2,
                commit: String::new(),
                cores: (0, 1),
                busy_before: 0.0,
                cores_apart: None,
            },
            volumes: vec![("fast", String::new())],
            versions: Vec::new(),
            file_bytes: 1 << 30,
            memory_bytes: 1 << 29,
            clients: 1,
            depth: 32,
            reserve: None,
            seconds_at_most: None,
            rounds: 3,
            run_seconds: 1.0,
        },
        rows,
        counts: Vec::new(),
        missing: Vec::new(),
    }
}
