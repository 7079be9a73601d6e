//! The figures that the server tells about itself, against what was really done.

mod support;

use bytes::Bytes;
use nfs_server::metrics::{self, Kind, Snapshot, TABLE, Value};
use nfs_wire::nfs3::StableHow;
use support::{Served, block_on, create, ok};

/// The table of docs/metrics.md as the code has it.
fn table() -> String {
    let mut table =
        String::from("| metric | kind | labels | means | `ctl status` |\n|---|---|---|---|---|\n");
    for definition in TABLE {
        let kind = match definition.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let labels = definition.labels.iter().map(|label| format!("`{label}`"));
        let labels: Vec<String> = labels.collect();
        let counters = definition.counters.iter();
        let counters: Vec<String> = counters.map(|(name, _)| format!("`{name}`")).collect();
        let row = [
            format!("`{}`", definition.name),
            kind.to_owned(),
            labels.join(", "),
            definition.help.to_owned(),
            counters.join(", "),
        ];
        table.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    table
}

#[test]
fn the_document_has_the_table() {
    let document = include_str!("../../../docs/metrics.md");
    let table = table();
    assert!(
        document.contains(&table),
        "docs/metrics.md is to have this table:\n{table}"
    );
}

/// Counters of `ctl status` that the metrics tell in more detail, by the metric.
const IN_DETAIL: [(&str, &str); 4] = [
    ("calls_", "penstock_operations_total"),
    ("operations_", "penstock_operations_total"),
    ("read_bytes", "penstock_read_bytes_total"),
    ("written_bytes", "penstock_written_bytes_total"),
];

#[test]
fn every_counter_of_the_status_is_a_metric_and_the_other_way_round() {
    let served = Served::start();
    let counters = served.server.status().counters;
    let told = |name: &str| {
        let of_table = TABLE.iter().flat_map(|definition| definition.counters);
        of_table.into_iter().any(|(counter, _)| *counter == name)
    };
    let in_detail = |name: &str| {
        IN_DETAIL.iter().any(|(begin, metric)| {
            name.starts_with(begin) && TABLE.iter().any(|definition| definition.name == *metric)
        })
    };
    for name in counters.keys() {
        assert!(told(name) || in_detail(name), "{name} is in no metric");
    }
    for definition in TABLE {
        for (counter, _) in definition.counters {
            assert!(counters.contains_key(*counter), "{counter} is no counter");
        }
    }
}

#[test]
fn what_is_in_the_state_directory_is_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let served = Served::with(|config| {
        for export in &mut config.exports {
            export.audit = nfs_server::exports::config::Audited::All;
        }
    });
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        create(&client, &root, b"f").await;
    });
    let state = served.server.status().state_dir;
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&state).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{:?} has mode {mode:o}", entry.path());
        files.push(entry.file_name());
    }
    for name in ["handle.key", "clients.redb", "audit.jsonl", "calls.notes"] {
        assert!(
            files.iter().any(|file| file == name),
            "{name} among {files:?}"
        );
    }
}

/// The count of the histogram of a procedure of NFSv3, and its sum in seconds.
fn duration(snapshot: &Snapshot, procedure: &str) -> (u64, f64) {
    let family = snapshot.family(&metrics::OPERATION_DURATION);
    let samples = family.into_iter().flat_map(|family| &family.samples);
    let labels = [("procedure", procedure), ("version", "3")];
    let mut of_it = samples.filter(|sample| sample.has(&labels));
    match of_it.next().map(|sample| &sample.value) {
        Some(Value::Histogram(histogram)) => (histogram.count, histogram.sum),
        other => panic!("{procedure}: {other:?}"),
    }
}

#[test]
fn a_known_run_is_told_exactly() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        for at in 0..3 {
            let data = Bytes::from(vec![7; 1000]);
            ok(client
                .write(&file, at * 1000, StableHow::Unstable, data)
                .await);
        }
        for _ in 0..5 {
            ok(client.read(&file, 0, 100).await);
        }
        ok(client.commit(&file, 0, 0).await);
    });
    let snapshot = served.server.metrics();
    let calls = [("CREATE", 1), ("WRITE", 3), ("READ", 5), ("COMMIT", 1)];
    for (procedure, count) in calls {
        let labels = [("procedure", procedure), ("version", "3")];
        assert_eq!(
            snapshot.sum(&metrics::OPERATIONS, &labels),
            f64::from(count),
            "{procedure}"
        );
        let (counted, sum) = duration(&snapshot, procedure);
        assert_eq!(counted, count as u64, "{procedure}");
        assert!(sum > 0.0, "{procedure}");
    }
    let buffered = [("export", "/"), ("mode", "buffered")];
    assert_eq!(snapshot.sum(&metrics::WRITTEN_BYTES, &buffered), 3000.0);
    assert_eq!(snapshot.sum(&metrics::READ_BYTES, &buffered), 500.0);
    assert_eq!(
        snapshot.sum(&metrics::CONNECTIONS_ACCEPTED, &[]),
        served.counter("connections_accepted") as f64
    );
    assert_eq!(snapshot.sum(&metrics::EXPORTS, &[]), 1.0);
    let receive = [("direction", "receive"), ("state", "limit")];
    let half = served.config.server.memory_bytes / 2;
    assert_eq!(snapshot.sum(&metrics::BUFFER_BYTES, &receive), half as f64);
}
