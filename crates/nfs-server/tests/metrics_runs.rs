//! Figures of known runs: NFSv4's operations, what is in flight, clients that are held back, limits that are reached, and
//! scrapes under load.

mod support;

use std::time::Instant;

use nfs_io::Mode;
use nfs_server::exports::Versions;
use nfs_server::metrics::{self, Definition, Snapshot, Value};
use nfs_wire::nfs3::{self, Procedure, StableHow};
use nfs_wire::nfs4::ops::{CreateSessionArgs, Createhow4, Openflag4};
use nfs_wire::nfs4::{ArgOp, Nfsstat4, ResOp};
use support::v4::{Client, channel, encoded, exchange_id, fattr, lookup, open_args, putfh, raw};
use support::wire::{connect_from, record, until};
use support::{Served, block_on, create, ok};
use tokio::io::AsyncWriteExt as _;

/// The sum of a family over the samples with these labels, as a whole number.
fn sum(got: &Snapshot, definition: &Definition, labels: &[(&str, &str)]) -> u64 {
    got.sum(definition, labels) as u64
}

#[test]
fn operations_of_nfsv4_are_told_by_export() {
    let elsewhere = tempfile::tempdir().unwrap();
    let served = Served::with(|config| {
        config.server.versions = Versions::ALL;
        let (read, write) = (Mode::DontCache.into(), Mode::Buffered.into());
        (config.exports[0].io.read, config.exports[0].io.write) = (read, write);
        config.exports[0].pseudo = "/a".to_owned();
        let mut export = config.exports[0].clone();
        (export.path, export.pseudo) = (elsewhere.path().to_owned(), "/b".to_owned());
        config.exports.push(export);
    });
    let got = block_on(async {
        let mut client = Client::new(&served, 2, b"one").await;
        let [a, b] = {
            let root = |name| vec![ArgOp::Putrootfh(()), lookup(name)];
            [
                client.handle(root(b"a")).await,
                client.handle(root(b"b")).await,
            ]
        };
        let values = encoded(&Default::default());
        let how = Openflag4::Create(Createhow4::Unchecked(fattr(&values)));
        let (file, stateid) = client.open(&a, open_args(b"f", 3, how)).await.unwrap();
        for at in 0..3 {
            let written = client.write(&file, stateid, (at * 1000, &[7; 1000])).await;
            assert_eq!(written, Ok(1000));
        }
        for _ in 0..5 {
            client.read(&file, stateid, (0, 100)).await.unwrap();
        }
        client.stat(&file).await;
        client.stat(&b).await;
        for name in [&b"none"[..], b"none"] {
            let refused = client.status(vec![putfh(&b), lookup(name)]).await;
            assert_eq!(refused, Nfsstat4::Noent);
        }
        served.server.metrics()
    });
    // Each of the 16 requests in the session begins with SEQUENCE; the exports' roots are looked up from above them, and
    // belong to where they led.
    let counted = [
        ("", "EXCHANGE_ID", "", 1),
        ("", "CREATE_SESSION", "", 1),
        ("", "SEQUENCE", "", 16),
        ("", "RECLAIM_COMPLETE", "", 1),
        ("", "PUTROOTFH", "", 2),
        ("/a", "LOOKUP", "", 1),
        ("/a", "GETFH", "", 2),
        ("/a", "PUTFH", "", 10),
        ("/a", "OPEN", "", 1),
        ("/a", "WRITE", "buffered", 3),
        ("/a", "READ", "dontcache", 5),
        ("/a", "GETATTR", "", 1),
        ("/b", "LOOKUP", "", 3),
        ("/b", "GETFH", "", 1),
        ("/b", "PUTFH", "", 3),
        ("/b", "GETATTR", "", 1),
    ];
    for (export, procedure, mode, times) in counted {
        let labels = [
            ("export", export),
            ("procedure", procedure),
            ("mode", mode),
            ("version", "4"),
        ];
        let counted = sum(&got, &metrics::OPERATIONS, &labels);
        assert_eq!(counted, times, "{labels:?}");
        assert_eq!(took(&got, &labels), times, "{labels:?}");
    }
    let all: u64 = counted.iter().map(|(.., times)| times).sum();
    assert_eq!(sum(&got, &metrics::OPERATIONS, &[]), all, "and no others");
    let failed = [
        ("export", "/b"),
        ("procedure", "LOOKUP"),
        ("version", "4"),
        ("status", "NFS4ERR_NOENT"),
    ];
    assert_eq!(sum(&got, &metrics::OPERATION_ERRORS, &failed), 2);
    assert_eq!(
        sum(&got, &metrics::OPERATION_ERRORS, &[]),
        2,
        "and no others"
    );
    let bytes = |definition, mode| sum(&got, definition, &[("export", "/a"), ("mode", mode)]);
    assert_eq!(bytes(&metrics::WRITTEN_BYTES, "buffered"), 3000);
    assert_eq!(bytes(&metrics::READ_BYTES, "dontcache"), 500);
    assert_eq!(sum(&got, &metrics::WRITTEN_BYTES, &[]), 3000);
    assert_eq!(sum(&got, &metrics::READ_BYTES, &[]), 500);
}

/// The count of the one histogram with these labels.
fn took(got: &Snapshot, labels: &[(&str, &str)]) -> u64 {
    let family = got.family(&metrics::OPERATION_DURATION).unwrap();
    let mut of_it = family.samples.iter().filter(|sample| sample.has(labels));
    match of_it.next().map(|sample| &sample.value) {
        Some(Value::Histogram(histogram)) => histogram.count,
        other => panic!("{labels:?}: {other:?}"),
    }
}

#[test]
fn what_is_on_its_way_in_is_told_to_the_byte() {
    let served = Served::with(|config| config.server.trust_loopback = true);
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        let args = nfs3::WriteArgs {
            file,
            offset: 0,
            count: 100_000,
            stable: StableHow::Unstable,
            data: &[7; 100_000],
        };
        let call = record(1, Procedure::Write, &args);
        let (last, others) = call.split_last().unwrap();
        let mut stream = connect_from([127, 0, 0, 9].into(), served.addr)
            .await
            .unwrap();
        stream.write_all(others).await.unwrap();
        let in_flight = |labels: &[(&str, &str)]| {
            let got = served.server.metrics();
            sum(&got, &metrics::CLIENT_BYTES_IN_FLIGHT, labels)
        };
        let of_client = [("client", "127.0.0.9")];
        until("the data of the call", || in_flight(&of_client) > 0).await;
        assert_eq!(in_flight(&of_client), 100_000, "room for all of its data");
        assert_eq!(in_flight(&[]), 100_000, "and nobody else's");
        stream.write_all(&[*last]).await.unwrap();
        until("the end of the call", || in_flight(&[]) == 0).await;
    });
}

#[test]
fn who_is_held_back_is_told_for_how_long() {
    const RATE: u32 = 1 << 20;
    let served = Served::with(|config| {
        config.server.trust_loopback = true;
        let clients = &mut config.exports[0].clients;
        clients[0].allowance.bytes_per_second = Some(RATE.into());
    });
    let (took, got) = block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        let from = Instant::now();
        // What is asked for counts: it is more than a second's worth at once, however slow this runs.
        ok(client.read(&file, 0, 2 * RATE).await);
        ok(client.getattr(&file).await);
        (from.elapsed(), served.server.metrics())
    });
    let throttled = |labels: &[(&str, &str)]| got.sum(&metrics::CLIENT_THROTTLED, labels);
    let of_client = throttled(&[("client", "127.0.0.1")]);
    assert!(
        of_client > 0.0 && of_client <= took.as_secs_f64(),
        "{of_client} of {took:?}"
    );
    assert_eq!(throttled(&[]), of_client, "and nobody else");
    assert_eq!(sum(&got, &metrics::RATE_PAUSES, &[]), 1);
}

#[test]
fn refusals_are_told_by_the_limit() {
    const SESSIONS: usize = nfs_state::limits::SESSIONS_PER_CLIENT_MAX;
    let served = Served::with(|config| config.server.versions = Versions::ALL);
    block_on(async {
        let nfs = served.client().await;
        let exchanged = raw(&nfs, 2, vec![exchange_id(b"one")], |res| {
            match res.resarray.as_slice() {
                [ResOp::ExchangeId(Ok(ok))] => (ok.clientid, ok.sequenceid),
                other => panic!("{other:?}"),
            }
        });
        let (clientid, first) = exchanged.await;
        for number in 0..SESSIONS + 3 {
            let create = ArgOp::CreateSession(CreateSessionArgs {
                clientid,
                sequence: first + number.min(SESSIONS) as u32,
                flags: 0,
                fore_chan_attrs: channel(),
                back_chan_attrs: channel(),
                cb_program: 0x4000_0000,
                sec_parms: vec![],
            });
            let status = raw(&nfs, 2, vec![create], |res| res.status).await;
            assert_eq!(
                status == Nfsstat4::Ok,
                number < SESSIONS,
                "{number}: {status}"
            );
        }
    });
    let got = served.server.metrics();
    let limit = [("limit", "nfs4-sessions")];
    assert_eq!(sum(&got, &metrics::REFUSALS, &limit), 3);
    assert_eq!(
        sum(&got, &metrics::REFUSALS, &[]),
        3,
        "and by no other limit"
    );
}

#[test]
fn connections_beyond_the_limit_are_told() {
    // Half of the descriptors are for connections, and of these a quarter for one host.
    const OF_HOST: u64 = 25;
    const TRIED: u64 = OF_HOST + 20;
    let served = Served::within(8 * OF_HOST, support::scratch(0o755), None, |_config| {});
    block_on(async {
        let mut open = Vec::new();
        for _ in 0..TRIED {
            // One that is turned away at once is reset.
            let connected = connect_from([127, 0, 0, 1].into(), served.addr).await;
            open.extend(connected.ok());
        }
        let told = || {
            let got = served.server.metrics();
            [
                sum(&got, &metrics::REFUSALS, &[("limit", "connections")]),
                sum(&got, &metrics::CONNECTIONS_ACCEPTED, &[]),
                sum(&got, &metrics::CONNECTIONS_DISPLACED, &[]),
                sum(&got, &metrics::CONNECTIONS, &[]),
            ]
        };
        // One that was idle for long enough gives way to another, where this machine is slow.
        until("all of them", || {
            let [refused, accepted, displaced, open] = told();
            refused + accepted == TRIED && accepted - displaced == OF_HOST && open == OF_HOST
        })
        .await;
    });
}

#[test]
fn scrapes_under_load_are_whole_and_only_grow() {
    const CALLS: u64 = 2000;
    let served = Served::start();
    let done = std::sync::atomic::AtomicBool::new(false);
    let reads = [("procedure", "READ"), ("version", "3")];
    let scrapes = std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let (mut scrapes, mut before) = (0, 0);
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let got = served.server.metrics();
                let now = sum(&got, &metrics::OPERATIONS, &reads);
                assert!(now >= before, "{now} after {before}");
                let family = got.family(&metrics::OPERATION_DURATION);
                for sample in family.iter().flat_map(|family| &family.samples) {
                    let Value::Histogram(took) = &sample.value else {
                        panic!("{sample:?}");
                    };
                    let rises = took.buckets.is_sorted_by_key(|(_, count)| *count);
                    let last = took.buckets.last().map_or(0, |(_, count)| *count);
                    assert!(rises && last <= took.count, "{sample:?}");
                }
                (scrapes, before) = (scrapes + 1, now);
            }
            scrapes
        });
        block_on(async {
            let client = served.client().await;
            let root = served.root(&client).await;
            let file = create(&client, &root, b"f").await;
            for _ in 0..CALLS / 50 {
                let calls = (0..50).map(|_| client.read(&file, 0, 100));
                let calls: Vec<_> = calls.map(Box::pin).collect();
                for call in calls {
                    ok(call.await);
                }
            }
        });
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        watching.join().unwrap()
    });
    assert!(scrapes > 0);
    let got = served.server.metrics();
    assert_eq!(sum(&got, &metrics::OPERATIONS, &reads), CALLS);
}
