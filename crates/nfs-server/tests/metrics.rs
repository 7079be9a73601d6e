//! The figures that the server tells about itself, against what was really done.

mod support;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use bytes::Bytes;
use nfs_io::Mode;
use nfs_server::limits;
use nfs_server::metrics::{self, Definition, Kind, Snapshot, TABLE, Value};
use nfs_server::operate::control::{Asker, VerifierOrder};
use nfs_server::operate::live::{Watch, client_rows, export_rows};
use nfs_wire::nfs3::{Nfsstat3, StableHow};
use support::page_cache::Kept;
use support::{Served, block_on, create, mode, mount, ok, skip, status};

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

/// The names of metrics in a text that queries them.
fn metrics_in(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("penstock_"))
}

#[test]
fn the_dashboard_and_the_alerts_ask_for_metrics_that_there_are() {
    let dashboard = include_str!("../../../docs/examples/grafana.json");
    let alerts = include_str!("../../../docs/examples/alerts.yml");
    let panels: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    let panels = panels["panels"].as_array().unwrap();
    for panel in panels {
        let targets = panel["targets"].as_array().unwrap();
        for target in targets {
            let query = target["expr"].as_str().unwrap();
            assert!(metrics_in(query).count() > 0, "{query}");
        }
    }
    for text in [dashboard, alerts] {
        assert!(metrics_in(text).count() > 10);
        for word in metrics_in(text) {
            assert!(metric(word).is_some(), "{word} is no metric");
        }
    }
    let of_panels = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap());
    let of_panels = of_panels.map(|target| target["expr"].as_str().unwrap());
    let of_alerts = alerts.lines().filter_map(|line| line.split_once("expr: "));
    let queries = of_panels.chain(of_alerts.map(|(_, query)| query));
    for query in queries {
        let metrics: Vec<_> = metrics_in(query).filter_map(metric).collect();
        for label in labels_in(query) {
            let has = |metric: &&Definition| metric.labels.contains(&label);
            let of_prometheus = ["le", "instance", "job"].contains(&label);
            let is_label = of_prometheus || metrics.iter().all(has);
            // `up` is Prometheus's own.
            assert!(is_label || metrics.is_empty(), "{label} in {query}");
        }
    }
}

/// The metric that a word of a query names.
fn metric(word: &str) -> Option<&'static Definition> {
    let mut of_table = TABLE.iter().copied();
    of_table.find(|definition| match definition.kind {
        Kind::Counter | Kind::Gauge => definition.name == word,
        Kind::Histogram => word
            .strip_prefix(definition.name)
            .is_some_and(|suffix| ["_bucket", "_sum", "_count"].contains(&suffix)),
    })
}

/// The labels that a query chooses by, in braces, and those that it groups by.
fn labels_in(query: &str) -> Vec<&str> {
    let mut labels = Vec::new();
    for (begin, end) in [('{', '}'), ('(', ')')] {
        for (at, _) in query.match_indices(begin) {
            if begin == '(' && !query[..at].ends_with("by ") {
                continue;
            }
            let within = &query[at + 1..];
            let within = &within[..within.find(end).unwrap()];
            // No value here has a comma in it.
            let parts = within.split(',').map(|part| {
                let name = part.split(['=', '!']).next().unwrap_or_default();
                name.trim()
            });
            labels.extend(parts);
        }
    }
    labels
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
    // The audit writes behind the calls: all of it is there when the server has stopped.
    let (_exported, state) = served.stop();
    let mut files = Vec::new();
    for entry in std::fs::read_dir(state.path()).unwrap() {
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

/// The count of the histogram with these labels, and its sum in seconds.
fn duration(snapshot: &Snapshot, labels: &[(&str, &str)]) -> (u64, f64) {
    let family = snapshot.family(&metrics::OPERATION_DURATION);
    let samples = family.into_iter().flat_map(|family| &family.samples);
    let mut of_it = samples.filter(|sample| sample.has(labels));
    match of_it.next().map(|sample| &sample.value) {
        Some(Value::Histogram(histogram)) => (histogram.count, histogram.sum),
        other => panic!("{labels:?}: {other:?}"),
    }
}

#[test]
fn a_known_run_is_told_exactly() {
    let served = Served::with(|config| {
        let export = &mut config.exports[0];
        export.pseudo = "/a".to_owned();
        let (read, write) = (Mode::DontCache.into(), Mode::Buffered.into());
        (export.io.read, export.io.write) = (read, write);
    });
    let got = block_on(async {
        let client = served.client().await;
        let root = mount(&client, b"/a").await.unwrap();
        let file = create(&client, &root, b"f").await;
        for at in 0..3 {
            let data = Bytes::from(vec![7; 1000]);
            let written = client.write(&file, at * 1000, StableHow::Unstable, data);
            ok(written.await);
        }
        for _ in 0..5 {
            ok(client.read(&file, 0, 100).await);
        }
        ok(client.commit(&file, 0, 0).await);
        for name in [&b"none"[..], b"none", b"f"] {
            drop(client.lookup(&root, name).await.unwrap());
        }
        assert_eq!(status(client.read(&root, 0, 1).await), Nfsstat3::Inval);
        assert_eq!(
            status(client.mkdir(&root, b"f", &mode(0o755)).await),
            Nfsstat3::Exist
        );
        // While the connection is open, and its bytes are all counted.
        served.server.metrics()
    });
    let v3 = |procedure, mode| {
        [
            ("export", "/a"),
            ("procedure", procedure),
            ("version", "3"),
            ("mode", mode),
        ]
    };
    let calls = [
        ("CREATE", "", 1),
        ("WRITE", "buffered", 3),
        ("READ", "dontcache", 5),
        ("READ", "", 1),
        ("COMMIT", "", 1),
        ("LOOKUP", "", 3),
        ("MKDIR", "", 1),
    ];
    for (procedure, mode, count) in calls {
        let labels = v3(procedure, mode);
        assert_eq!(
            got.sum(&metrics::OPERATIONS, &labels),
            count as f64,
            "{labels:?}"
        );
        let (counted, sum) = duration(&got, &labels);
        assert!(counted == count && sum > 0.0, "{labels:?}");
    }
    let errors = [
        ("LOOKUP", "NFS3ERR_NOENT", 2.0),
        ("READ", "NFS3ERR_INVAL", 1.0),
        ("MKDIR", "NFS3ERR_EXIST", 1.0),
    ];
    for (procedure, status, count) in errors {
        let labels = [
            ("procedure", procedure),
            ("status", status),
            ("export", "/a"),
        ];
        assert_eq!(
            got.sum(&metrics::OPERATION_ERRORS, &labels),
            count,
            "{labels:?}"
        );
    }
    let all: f64 = errors.map(|(_, _, count)| count).iter().sum();
    assert_eq!(
        got.sum(&metrics::OPERATION_ERRORS, &[]),
        all,
        "and no others"
    );
    let written = [("export", "/a"), ("mode", "buffered")];
    assert_eq!(got.sum(&metrics::WRITTEN_BYTES, &written), 3000.0);
    let read = [("export", "/a"), ("mode", "dontcache")];
    assert_eq!(got.sum(&metrics::READ_BYTES, &read), 500.0);
    assert_eq!(got.sum(&metrics::EXPORTS, &[]), 1.0);
    let receive = [("direction", "receive"), ("state", "limit")];
    let half = served.config.server.memory_bytes / 2;
    assert_eq!(got.sum(&metrics::BUFFER_BYTES, &receive), half as f64);
    assert!(got.sum(&metrics::PROCESS_RESIDENT, &[]) > 0.0);
    assert_eq!(
        got.sum(&metrics::CLIENT_CONNECTIONS, &[]),
        got.sum(&metrics::CONNECTIONS, &[])
    );
}

/// The figures once `known` says that what was asked for has been found out.
fn figures_when(served: &Served, known: impl Fn(&Snapshot) -> bool) -> Snapshot {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let got = served.server.metrics();
        if known(&got) {
            return got;
        }
        assert!(Instant::now() < deadline, "{got:?}");
        // SLEEP: between two looks.
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_page_cache_of_open_files_is_told_by_export() {
    let elsewhere = tempfile::tempdir().unwrap();
    if let Err(error) =
        nfs_io::fs::cachestat(std::fs::File::open(elsewhere.path()).unwrap().as_fd(), 0, 0)
    {
        skip!("cachestat needs Linux 6.5: {error}");
    }
    let served = Served::with(|config| {
        config.exports[0].pseudo = "/a".to_owned();
        let mut export = config.exports[0].clone();
        (export.path, export.pseudo) = (elsewhere.path().to_owned(), "/b".to_owned());
        config.exports.push(export);
    });
    let page = rustix::param::page_size();
    let got = block_on(async {
        let client = served.client().await;
        let root = mount(&client, b"/a").await.unwrap();
        let mut kept = Vec::new();
        for name in ["f", "g"] {
            let file = create(&client, &root, name.as_bytes()).await;
            let data = Bytes::from(vec![7; 5 * page]);
            let written = client.write(&file, 0, StableHow::FileSync, data);
            ok(written.await);
            // In the third piece that is looked at, with nothing in the second.
            let far = 2 * limits::PAGE_CACHE_PIECE_BYTES + 3 * page as u64;
            let data = Bytes::from(vec![7; page]);
            ok(client.write(&file, far, StableHow::FileSync, data).await);
            let pages = [0..5 * page as u64, far..far + page as u64];
            kept.push(Kept::new(&served.path().join(name), &pages));
        }
        // What was looked at and neither read nor written is no open file, whatever is in memory of it.
        std::fs::write(served.path().join("h"), vec![7; 3 * page]).unwrap();
        ok(client.lookup(&root, b"h").await);
        let first = served.server.metrics();
        assert!(first.family(&metrics::PAGE_CACHE).is_none(), "nobody asked");
        figures_when(&served, |got| got.family(&metrics::PAGE_CACHE).is_some())
    });
    let of = |export| got.sum(&metrics::PAGE_CACHE, &[("export", export)]);
    assert_eq!((of("/a"), of("/b")), ((12 * page) as f64, 0.0));
    assert_eq!(got.family(&metrics::PAGE_CACHE).unwrap().samples.len(), 2);
}

#[test]
fn a_file_that_nobody_uses_is_opened_once_for_the_page_cache() {
    use rustix::fs::inotify::{self, ReadFlags, WatchFlags};
    let served = Served::start();
    let directory = std::fs::File::open(served.path()).unwrap();
    if let Err(error) = nfs_io::fs::cachestat(directory.as_fd(), 0, 0) {
        skip!("cachestat needs Linux 6.5: {error}");
    }
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    let got = block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        let data = Bytes::from(vec![7; 4096]);
        ok(client.write(&file, 0, StableHow::FileSync, data).await);
        let path = served.path().join("f");
        let written = 0..4096;
        let _kept = Kept::new(&path, &[written]);
        // The ends as well: events that are alike and follow each other are told as one.
        let flags = WatchFlags::OPEN | WatchFlags::CLOSE_NOWRITE;
        inotify::add_watch(&watch, path, flags).unwrap();
        let got = figures_when(&served, |got| got.sum(&metrics::PAGE_CACHE, &[]) > 0.0);
        // The looks at the page cache are as often as the sweeps.
        let sweeps = |got: &Snapshot| got.sum(&metrics::FILE_CACHE_SWEEPS, &[]);
        figures_when(&served, |now| sweeps(now) >= sweeps(&got) + 4.0)
    });
    assert_eq!(got.sum(&metrics::PAGE_CACHE, &[]), 4096.0);
    let mut space = [std::mem::MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(&watch, &mut space);
    let mut opened = 0;
    while let Ok(event) = events.next() {
        opened += usize::from(event.events().contains(ReadFlags::OPEN));
    }
    assert_eq!(opened, 1);
}

#[test]
fn the_engines_the_buffers_and_the_kept_replies_are_told_exactly() {
    let served = Served::with(|config| {
        let export = &mut config.exports[0];
        (export.io.read, export.io.write) = (Mode::Buffered.into(), Mode::Buffered.into());
    });
    let before = served.server.metrics();
    let (during, after) = block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        let written = served.server.metrics();
        use StableHow::{DataSync, FileSync, Unstable};
        for (at, stable) in (0..).zip([FileSync, Unstable, DataSync, Unstable, FileSync]) {
            let data = Bytes::from(vec![7; 1000]);
            let written = client.write(&file, at * 1000, stable, data);
            ok(written.await);
        }
        (written, served.server.metrics())
    });
    let grown = |definition, engine: &str, result: Option<&str>| {
        let mut labels = vec![("engine", engine)];
        labels.extend(result.map(|result| ("result", result)));
        after.sum(definition, &labels) - during.sum(definition, &labels)
    };
    // All go to the ring, if there is one: a stable WRITE too, which goes to the helper pool only beside others of its
    // file.
    let is_ring = served.server.status().engine.starts_with("io_uring");
    let expected = match is_ring {
        true => [("threads", 0.0), ("io_uring", 5.0)],
        false => [("threads", 5.0), ("io_uring", 0.0)],
    };
    for (engine, times) in expected {
        let submitted = grown(&metrics::ENGINE_SUBMITTED, engine, None);
        let completed = grown(&metrics::ENGINE_ENDED, engine, Some("completed"));
        let ended = grown(&metrics::ENGINE_ENDED, engine, None);
        assert_eq!(
            (submitted, completed, ended),
            (times, times, times),
            "{engine}"
        );
    }
    assert_eq!(after.sum(&metrics::ENGINE_IN_FLIGHT, &[]), 0.0);
    for ring in [metrics::RING_WAITED, metrics::RING_SUBMITS] {
        assert_eq!(after.family(&ring).is_some(), is_ring, "{}", ring.name);
    }
    // The CREATE is kept, and each WRITE.
    let kept = |calls| [("calls", calls), ("state", "kept")];
    assert_eq!(
        before.sum(&metrics::REPLY_CACHE_REPLIES, &kept("other")),
        0.0
    );
    assert_eq!(
        after.sum(&metrics::REPLY_CACHE_REPLIES, &kept("other")),
        1.0
    );
    assert_eq!(
        after.sum(&metrics::REPLY_CACHE_REPLIES, &kept("WRITE")),
        5.0
    );
    let limit = [("calls", "WRITE"), ("state", "limit")];
    let most = limits::REPLY_CACHE_WRITES_MAX as f64;
    assert_eq!(after.sum(&metrics::REPLY_CACHE_REPLIES, &limit), most);
    let bytes = after.sum(&metrics::REPLY_CACHE_BYTES, &[("calls", "WRITE")]);
    assert_eq!(bytes, 5.0 * WRITE_REPLY_BYTES);
    assert_eq!(after.sum(&metrics::REPLY_CACHE_EVICTIONS, &[]), 0.0);
    // What is in use when nothing is under way is what is kept to be used again.
    let receive = |state| [("direction", "receive"), ("state", state)];
    let in_use = after.sum(&metrics::BUFFER_BYTES, &receive("in-use"));
    let idle = after.sum(&metrics::BUFFER_BYTES, &receive("idle"));
    assert_eq!(in_use, idle);
    assert!(idle > 0.0 && idle <= after.sum(&metrics::BUFFER_BYTES, &receive("peak")));
}

/// A reply to a WRITE that went well: the record mark, the RPC's head, the status, wcc_data with the attributes before
/// and after, count, stability and verifier (RFC 5531 §9 and §11, RFC 1813 §3.3.7).
const WRITE_REPLY_BYTES: f64 = (4 + 24 + 4 + (4 + 24) + (4 + 84) + 4 + 4 + 8) as f64;

/// Labels that the screens read, and the words in them, are those of a real server: each cell that is not empty for a
/// server of this version is looked for.
#[test]
fn the_screens_find_all_that_they_ask_for() {
    let served = Served::with(|config| {
        config.exports[0].pseudo = "/a".to_owned();
        // Neither of a kind that is also the default, so that a word that is misread shows.
        let (read, write) = (Mode::DontCache.into(), Mode::Buffered.into());
        (config.exports[0].io.read, config.exports[0].io.write) = (read, write);
    });
    let page_cache_known = |got: &Snapshot| got.family(&metrics::PAGE_CACHE).is_some();
    let mut watch = Watch::default();
    block_on(async {
        let client = served.client().await;
        let root = mount(&client, b"/a").await.unwrap();
        let file = create(&client, &root, b"f").await;
        let call = async || {
            let data = Bytes::from(vec![7; 4096]);
            ok(client.write(&file, 0, StableHow::Unstable, data).await);
            ok(client.read(&file, 0, 4096).await);
            assert_eq!(status(client.read(&root, 0, 1).await), Nfsstat3::Inval);
        };
        call().await;
        let told = nfs_io::fs::cachestat(
            std::fs::File::open(served.path().join("f"))
                .unwrap()
                .as_fd(),
            0,
            0,
        );
        watch.add(&match told {
            Ok(_) => figures_when(&served, page_cache_known),
            Err(_) => served.server.metrics(),
        });
        call().await;
        // SLEEP: two looks that are closer to each other are one.
        tokio::time::sleep(Duration::from_millis(limits::LIVE_APART_MS_MIN)).await;
        watch.add(&served.server.metrics());
        let now = watch.now().unwrap();
        let rows = export_rows(now, &[]);
        let row = rows.iter().find(|row| row.export == "/a").unwrap();
        assert!(row.took.p99.is_some() && row.flow.errors > 0.0, "{row:?}");
        assert_eq!(row.flow.page_cache_bytes.is_some(), told.is_ok(), "{row:?}");
        let flow = &row.flow;
        for (moving, mode) in [(&flow.read, "dontcache"), (&flow.write, "buffered")] {
            let way = &moving.modes[mode];
            let rates = (way.operations > 0.0, way.bytes > 0.0);
            assert_eq!(
                (rates, way.took.p99.is_some()),
                ((true, true), true),
                "{mode}: {row:?}"
            );
        }
        let clients = client_rows(now);
        let [of_client] = clients.as_slice() else {
            panic!("{clients:?}");
        };
        assert!(of_client.operations > 0.0 && of_client.in_flight_bytes.is_some());
        let bytes = (of_client.sent_bytes, of_client.received_bytes);
        assert!(bytes.0 > 4096.0 && bytes.1 > 4096.0, "{of_client:?}");
        assert_eq!(of_client.connections, Some(1.0));
        let host = &now.host;
        assert!(
            host.cpu_user.is_some() && host.cpu_system.is_some(),
            "{host:?}"
        );
        assert!(host.resident_bytes > Some(0.0) && host.connections == Some(1.0));
        // As far as this machine has them.
        let has = |definition| served.server.metrics().family(definition).is_some();
        let pressure = [
            host.memory_some,
            host.memory_full,
            host.io_some,
            host.cpu_some,
        ];
        assert_eq!(
            pressure.map(|it| it.is_some()),
            [has(&metrics::PRESSURE); 4]
        );
        assert_eq!(host.memory_used_bytes.is_some(), has(&metrics::MEMORY_USED));
        assert_eq!(
            host.memory_limit_bytes.is_some(),
            has(&metrics::MEMORY_LIMIT)
        );
    });
}

#[test]
fn a_verifier_that_the_operator_changes_is_another_one_to_clients() {
    let served = Served::start();
    let asker = Asker { uid: 0, pid: None };
    let order = |change| served.server.verifier(VerifierOrder { change }, asker);
    let told = block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        let before = ok(client.commit(&file, 0, 0).await).verf;
        let shown = order(false);
        let again = ok(client.commit(&file, 0, 0).await).verf;
        assert_eq!((shown.changes, again), (0, before));
        let changed = order(true);
        assert_ne!(changed.verifier, shown.verifier);
        let after = ok(client.commit(&file, 0, 0).await).verf;
        assert_ne!(after, before);
        changed
    });
    assert_eq!(order(false), told);
    let changes = served.server.metrics().sum(&metrics::VERIFIER_CHANGES, &[]);
    assert_eq!((changes, told.changes), (1.0, 1));
}

#[test]
fn ten_thousand_addresses_leave_the_labels_bounded_and_the_sums_right() {
    let served = Served::with(|config| config.server.trust_loopback = true);
    let call = null_call();
    let addresses = 10_000_u32;
    for number in 0..addresses {
        let from = Ipv4Addr::from_bits(Ipv4Addr::new(127, 1, 0, 1).to_bits() + number);
        let mut stream = connect_from(from, served.addr);
        stream.write_all(&call).unwrap();
        let mut reply = [0; 28];
        stream.read_exact(&mut reply).unwrap();
    }
    // The last connections end when the server has read that their peers have gone.
    let deadline = Instant::now() + Duration::from_secs(30);
    while served.server.metrics().sum(&metrics::CONNECTIONS, &[]) > 0.0 {
        assert!(Instant::now() < deadline, "connections stay open");
        // SLEEP: between two looks.
        std::thread::sleep(Duration::from_millis(20));
    }
    let got = served.server.metrics();
    let family = got.family(&metrics::CLIENT_OPERATIONS).unwrap();
    assert_eq!(family.samples.len(), limits::CLIENT_FIGURES_MAX + 1);
    let all = f64::from(addresses);
    assert_eq!(got.sum(&metrics::CLIENT_OPERATIONS, &[]), all);
    let others = got.sum(&metrics::CLIENT_OPERATIONS, &[("client", "others")]);
    assert_eq!(others, all - limits::CLIENT_FIGURES_MAX as f64);
    let received = [("direction", "received")];
    let bytes = all * call.len() as f64;
    assert_eq!(got.sum(&metrics::CLIENT_BYTES, &received), bytes);
    let text = metrics::prometheus(&got);
    assert!(text.len() < 1 << 20, "{} bytes", text.len());
}

/// A NULL call of NFSv3 as it is on the wire.
fn null_call() -> Vec<u8> {
    let words: [u32; 11] = [1 << 31 | 40, 7, 0, 2, 100_003, 3, 0, 0, 0, 0, 0];
    words.into_iter().flat_map(u32::to_be_bytes).collect()
}

/// A connection to `to` from the address `from`, which a machine has as many of as loopback has.
fn connect_from(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType};
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from((from, 0))).unwrap();
    rustix::net::connect(&socket, &to).unwrap();
    TcpStream::from(socket)
}
