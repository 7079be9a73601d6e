use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::operate::control::{IoState, IoView};
use crate::operate::metrics::{Family, Histogram, Kind, Number, Sample, Value};

/// A server's figures, as they would be told.
#[derive(Clone, Default)]
struct Server {
    families: BTreeMap<String, Vec<Sample>>,
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

impl Server {
    fn set(&mut self, family: &str, pairs: &[(&str, &str)], number: f64) {
        self.put(family, pairs, Value::Number(Number::Real(number)));
    }

    fn put(&mut self, family: &str, pairs: &[(&str, &str)], value: Value) {
        let labels = labels(pairs);
        let samples = self.families.entry(family.to_owned()).or_default();
        samples.retain(|sample| sample.labels != labels);
        samples.push(Sample { labels, value });
    }

    /// `counts` calls took up to 1 ms, up to 10 ms, and longer.
    fn took(&mut self, export: &str, procedure: &str, mode: &str, counts: [u64; 3]) {
        let [fast, slow, slowest] = counts;
        let count = fast + slow + slowest;
        let buckets = vec![(0.001, fast), (0.01, fast + slow)];
        let sum = 0.0;
        let value = Value::Histogram(Histogram {
            buckets,
            sum,
            count,
        });
        let pairs = [
            ("export", export),
            ("procedure", procedure),
            ("mode", mode),
            ("version", "3"),
        ];
        self.put("penstock_operation_duration_seconds", &pairs, value);
    }

    fn at(&self, seconds: f64) -> Snapshot {
        let families = self.families.iter().map(|(name, samples)| Family {
            name: name.clone(),
            kind: Kind::Counter,
            unit: String::new(),
            help: String::new(),
            samples: samples.clone(),
        });
        Snapshot {
            at_unix_ms: (seconds * 1000.0) as u64,
            families: families.collect(),
        }
    }
}

fn busy() -> Server {
    let mut server = Server::default();
    server.took("/a", "READ", "direct", [100, 50, 0]);
    server.took("/a", "GETATTR", "", [1000, 0, 0]);
    server.took("/b", "WRITE", "buffered", [10, 0, 0]);
    server.set(
        "penstock_read_bytes_total",
        &[("export", "/a"), ("mode", "direct")],
        1e6,
    );
    server.set(
        "penstock_written_bytes_total",
        &[("export", "/b"), ("mode", "buffered")],
        5e5,
    );
    server.set(
        "penstock_process_cpu_seconds_total",
        &[("mode", "user")],
        10.0,
    );
    server.set(
        "penstock_process_cpu_seconds_total",
        &[("mode", "system")],
        20.0,
    );
    server.set("penstock_page_cache_bytes", &[("export", "/b")], 4096.0);
    server.set(
        "penstock_client_operations_total",
        &[("client", "10.0.0.1")],
        500.0,
    );
    server.set(
        "penstock_pressure_seconds_total",
        &[("resource", "memory"), ("kind", "some")],
        3.0,
    );
    server
}

/// The same server two seconds later.
fn busier() -> Server {
    let mut server = busy();
    server.took("/a", "READ", "direct", [300, 50, 0]);
    server.took("/a", "GETATTR", "", [1000, 0, 0]);
    server.took("/b", "WRITE", "buffered", [10, 8, 2]);
    server.took("/b", "COMMIT", "", [4, 0, 0]);
    server.set(
        "penstock_read_bytes_total",
        &[("export", "/a"), ("mode", "direct")],
        3e6,
    );
    server.set(
        "penstock_process_cpu_seconds_total",
        &[("mode", "system")],
        23.0,
    );
    server.set(
        "penstock_client_operations_total",
        &[("client", "10.0.0.1")],
        700.0,
    );
    server.set(
        "penstock_pressure_seconds_total",
        &[("resource", "memory"), ("kind", "some")],
        4.0,
    );
    server.set(
        "penstock_operation_errors_total",
        &[
            ("export", "/b"),
            ("procedure", "WRITE"),
            ("version", "3"),
            ("status", "NFS3ERR_NOSPC"),
        ],
        6.0,
    );
    server
}

fn watched(snapshots: &[Snapshot]) -> Watch {
    let mut watch = Watch::default();
    for snapshot in snapshots {
        watch.add(snapshot);
    }
    watch
}

#[test]
fn one_look_says_nothing_of_rates() {
    let watch = watched(&[busy().at(100.0)]);
    assert!(watch.now().is_none());
    assert_eq!(watch.moments().len(), 0);
}

#[test]
fn rates_are_differences_by_the_time_between() {
    let watch = watched(&[busy().at(100.0), busier().at(102.0)]);
    let now = watch.now().unwrap();
    let moment = watch.moments().last().unwrap();
    assert_eq!((now.seconds, moment.seconds), (2.0, 2.0));
    assert_eq!(moment.all.read.bytes, 1e6);
    assert_eq!(moment.all.read.modes["direct"].operations, 100.0);
    assert_eq!(moment.exports["/b"].write.operations, 5.0);
    assert_eq!(moment.exports["/b"].errors, 3.0);
    assert_eq!(moment.exports["/b"].page_cache_bytes, Some(4096.0));
    assert_eq!(moment.host.cpu_system, Some(1.5));
    assert_eq!(moment.host.cpu_user, Some(0.0));
    assert_eq!(moment.host.memory_some, Some(0.5));
    assert_eq!(client_rows(now)[0].operations, 100.0);
    // All new READs took up to 1 ms, most new WRITEs up to 10 ms; two took longer than any bound.
    assert!(moment.all.read.took.p99.unwrap() <= 0.001);
    let write = moment.all.write.took;
    assert!(
        write.p50.unwrap() > 0.001 && write.p99 == Some(0.01),
        "{write:?}"
    );
}

#[test]
fn tables_have_what_came_and_nothing_else() {
    let watch = watched(&[busy().at(100.0), busier().at(102.0)]);
    let now = watch.now().unwrap();
    let procedures = call_rows(now, Group::Procedure);
    let shown = |row: &CallRow| (row.procedure.clone(), row.operations, row.errors);
    let expected = [
        ("COMMIT", 2.0, 0.0),
        ("READ", 100.0, 0.0),
        ("WRITE", 5.0, 3.0),
    ];
    let expected = expected.map(|(name, operations, errors)| (name.to_owned(), operations, errors));
    assert_eq!(procedures.iter().map(shown).collect::<Vec<_>>(), expected);
    let modes = call_rows(now, Group::Mode);
    let shown = |row: &CallRow| {
        format!(
            "{} {} {} {}",
            row.export, row.procedure, row.mode, row.bytes
        )
    };
    let shown: Vec<String> = modes.iter().map(shown).collect();
    assert_eq!(shown, ["/a READ direct 1000000", "/b WRITE buffered 0"]);
    let idle = IoState {
        export: "/idle".to_owned(),
        now: IoView {
            read: "direct".to_owned(),
            ..IoView::default()
        },
        ..IoState::default()
    };
    let exports = export_rows(now, &[idle]);
    assert_eq!(exports[1].flow.operations, 7.0);
    assert_eq!((exports.len(), exports[2].reads.as_str()), (3, "direct"));
}

#[test]
fn a_server_that_was_started_again_gives_a_gap_and_no_rates() {
    let mut again = busy();
    again.set(
        "penstock_process_cpu_seconds_total",
        &[("mode", "user")],
        0.1,
    );
    again.set(
        "penstock_read_bytes_total",
        &[("export", "/a"), ("mode", "direct")],
        9e12,
    );
    let mut watch = watched(&[busier().at(100.0), again.at(101.0)]);
    let moment = watch.moments().last().unwrap();
    assert_eq!((moment.seconds, moment.all.read.bytes), (0.0, 0.0));
    assert_eq!(moment.host.cpu_user, None);
    // What is true of the moment is shown.
    assert_eq!(moment.exports["/b"].page_cache_bytes, Some(4096.0));
    again.set(
        "penstock_read_bytes_total",
        &[("export", "/a"), ("mode", "direct")],
        9e12 + 500.0,
    );
    watch.add(&again.at(102.0));
    assert_eq!(watch.moments().last().unwrap().all.read.bytes, 500.0);
}

#[test]
fn looks_that_are_far_apart_or_go_back_in_time_are_not_compared() {
    for (later, expected) in [(101.0, 1.0), (3600.0, 0.0), (50.0, 0.0)] {
        let watch = watched(&[busy().at(100.0), busier().at(later)]);
        assert_eq!(watch.moments().last().unwrap().seconds, expected, "{later}");
    }
    let close = watched(&[busy().at(100.0), busier().at(100.01), busier().at(101.0)]);
    assert_eq!(close.moments().len(), 1, "the second is no look of its own");
    assert_eq!(close.moments().last().unwrap().all.read.bytes, 2e6);
}

#[test]
fn one_counter_that_went_back_is_left_out() {
    let mut odd = busier();
    odd.set(
        "penstock_client_operations_total",
        &[("client", "10.0.0.1")],
        3.0,
    );
    let watch = watched(&[busy().at(100.0), odd.at(102.0)]);
    let now = watch.now().unwrap();
    assert_eq!(client_rows(now)[0].operations, 0.0);
    assert_eq!(
        watch.moments().last().unwrap().all.read.bytes,
        1e6,
        "others are not"
    );
}

#[test]
fn the_history_is_bounded_in_time_and_in_exports() {
    let mut watch = Watch::default();
    let mut server = Server::default();
    for look in 0..LIVE_MOMENTS_MAX + 10 {
        for export in 0..crate::limits::LIVE_EXPORTS_MAX + 5 {
            let count = (look * (export + 1)) as u64;
            server.took(&format!("/{export}"), "READ", "direct", [count, 0, 0]);
        }
        watch.add(&server.at(look as f64));
    }
    assert_eq!(watch.moments().len(), LIVE_MOMENTS_MAX);
    let last = watch.moments().last().unwrap();
    assert_eq!(last.exports.len(), crate::limits::LIVE_EXPORTS_MAX);
    assert!(!last.exports.contains_key("/0"), "the busiest are kept");
    let sum = |exports: usize| (1..=exports).sum::<usize>() as f64;
    assert_eq!(last.others.as_ref().unwrap().operations, sum(5));
    assert_eq!(
        last.all.operations,
        sum(crate::limits::LIVE_EXPORTS_MAX + 5)
    );
}

#[test]
fn reads_are_counted_once_where_they_are_told_twice() {
    let pairs = [("export", "/a"), ("operation", "read"), ("mode", "direct")];
    let (mut before, mut after) = (busy(), busier());
    before.set("penstock_io_calls_total", &pairs, 150.0);
    after.set("penstock_io_calls_total", &pairs, 350.0);
    let watch = watched(&[before.at(100.0), after.at(102.0)]);
    let read = &watch.moments().last().unwrap().exports["/a"].read;
    assert_eq!(
        (read.operations, read.modes["direct"].operations),
        (100.0, 100.0)
    );
    let rows = call_rows(watch.now().unwrap(), Group::Mode);
    assert_eq!((rows[0].operations, rows[0].bytes), (100.0, 1e6));
}

#[test]
fn moments_survive_json() {
    let watch = watched(&[busy().at(100.0), busier().at(102.0)]);
    for moment in watch.moments() {
        let text = serde_json::to_string(moment).unwrap();
        assert_eq!(&serde_json::from_str::<Moment>(&text).unwrap(), moment);
    }
}

proptest! {
    /// Whatever the counters do: no rate is negative, endless or no number.
    #[test]
    fn rates_are_numbers(values in prop::collection::vec((any::<f64>(), any::<u64>(), 0.0_f64..90.0), 2..8)) {
        let mut watch = Watch::default();
        let mut server = Server::default();
        let mut at = 1000.0;
        for (number, count, later) in values {
            server.set("penstock_read_bytes_total", &[("export", "/a"), ("mode", "direct")], number);
            server.set("penstock_client_operations_total", &[("client", "c")], number);
            server.set("penstock_process_cpu_seconds_total", &[("mode", "user")], number);
            server.took("/a", "READ", "direct", [count / 4, count / 4, count / 4]);
            at += later;
            watch.add(&server.at(at));
        }
        for moment in watch.moments() {
            let rates = [moment.all.read.bytes, moment.all.operations, moment.host.cpu_user.unwrap_or(0.0)];
            prop_assert!(rates.iter().all(|rate| *rate >= 0.0 && rate.is_finite()), "{rates:?}");
        }
    }
}
