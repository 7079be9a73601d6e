//! What single calls tell of themselves: the steps of each kind of call, their times, who sees which calls.

mod support;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;

use bytes::Bytes;
use nfs_client::{Identity, Nfs3, Procedure as Number, RawConnection};
use nfs_server::exports::policy::{IoPolicy, Mode};
use nfs_server::operate::control::{
    CallFollower, CallLine, CallQuery, CallTree, ChromeTrace, FileNumber, RecorderLevel,
};
use nfs_wire::nfs3::{
    FileHandle, Mknoddata, Nfsstat3, PipeData, Procedure, ReadArgs, Sattr3, StableHow,
};
use nfs_wire::nfs4::ops::{Createhow4, OPEN4_SHARE_ACCESS_BOTH, Openflag4};
use nfs_wire::nlm4;
use nfs_wire::record::FragmentHeader;
use support::trees::{check_times, follow, named, names, recorded, settle, told};
use support::v4::{Client, fattr, of_mode, open_args};
use support::wire::{answer, record};
use support::{Served, block_on, create, mkdir, mode, ok};
use tokio::task::JoinSet;

fn is_part(expected: &[&str], names: &[String]) -> bool {
    let mut names = names.iter();
    expected.iter().all(|step| names.any(|name| name == step))
}

async fn write(client: &Nfs3, file: &FileHandle, offset: u64, stable: StableHow) {
    let data = Bytes::from(vec![7; 4096]);
    ok(client.write(file, offset, stable, data).await);
}

#[test]
fn every_procedure_of_nfsv3_and_mount_tells_its_steps() {
    let served = Served::with(|config| {
        config.exports[0].io = IoPolicy {
            read: Mode::Buffered.into(),
            write: Mode::Buffered.into(),
            ..IoPolicy::default()
        };
    });
    let mut follower = follow(&served, &CallQuery::default());
    block_on(every_procedure(&served));
    let calls = told(&mut follower);
    let mut seen: BTreeMap<String, Vec<CallTree>> = BTreeMap::new();
    for call in calls {
        check_times(&call);
        assert_eq!(call.left_out, 0, "{call}");
        seen.entry(call.call.clone()).or_default().push(call);
    }
    let around = ["receive", "wait_turn", "decode", "credentials"];
    let target = ["target", "handle_check", "file_cache", "export_rules"];
    let change = [
        &around[..],
        &["reply_cache"],
        &target,
        &[
            "helper",
            "wait_helper",
            "run",
            "group_commit",
            "encode",
            "send",
        ],
    ]
    .concat();
    let look = [&around[..], &target, &["attributes", "encode", "send"]].concat();
    for (name, expected) in [
        ("NULL", [&around[..], &["send"]].concat()),
        ("MNT", [&around[..], &["helper", "send"]].concat()),
        ("GETATTR", look.clone()),
        (
            "ACCESS",
            [
                &around[..],
                &target,
                &["attributes", "permission", "encode", "send"],
            ]
            .concat(),
        ),
        (
            "LOOKUP",
            [
                &around[..],
                &target,
                &["attributes", "permission", "resolve", "encode", "send"],
            ]
            .concat(),
        ),
        (
            "READLINK",
            [&around[..], &target, &["helper", "send"]].concat(),
        ),
        (
            "READDIR",
            [&around[..], &target, &["helper", "send"]].concat(),
        ),
        (
            "READDIRPLUS",
            [&around[..], &target, &["helper", "send"]].concat(),
        ),
        (
            "FSSTAT",
            [&around[..], &target, &["helper", "encode", "send"]].concat(),
        ),
        (
            "FSINFO",
            [&around[..], &target, &["encode", "send"]].concat(),
        ),
        (
            "PATHCONF",
            [&around[..], &target, &["encode", "send"]].concat(),
        ),
        ("SETATTR", change.clone()),
        ("CREATE", change.clone()),
        ("MKDIR", change.clone()),
        ("SYMLINK", change.clone()),
        ("MKNOD", change.clone()),
        ("REMOVE", change.clone()),
        ("RMDIR", change.clone()),
        ("RENAME", change.clone()),
        ("LINK", change.clone()),
        (
            "READ",
            [
                &around[..],
                &target,
                &[
                    "attributes",
                    "permission",
                    "decide",
                    "open_file",
                    "page_cache",
                    "encode",
                    "send",
                ],
            ]
            .concat(),
        ),
        (
            "WRITE",
            [
                &around[..],
                &["reply_cache"],
                &target,
                &[
                    "attributes",
                    "permission",
                    "open_file",
                    "wait_memory",
                    "decide",
                    "stage",
                    "wait_gate",
                    "segment",
                    "attributes",
                    "encode",
                    "send",
                ],
            ]
            .concat(),
        ),
        (
            "COMMIT",
            [
                &around[..],
                &target,
                &[
                    "attributes",
                    "permission",
                    "open_file",
                    "wait_sync",
                    "sync",
                    "attributes",
                    "encode",
                    "send",
                ],
            ]
            .concat(),
        ),
    ] {
        let calls = seen
            .get(name)
            .unwrap_or_else(|| panic!("no {name} was told: {:?}", seen.keys()));
        let good = calls
            .iter()
            .any(|call| is_part(&expected, &names(&call.steps)));
        assert!(good, "{name} without {expected:?}:\n{}", calls[0]);
    }
}

/// Each procedure at least once, with success.
async fn every_procedure(served: &Served) {
    let client = served.client().await;
    client.null().await.unwrap();
    let root = served.root(&client).await;
    let file = create(&client, &root, b"f").await;
    let dir = mkdir(&client, &root, b"d").await;
    let link = ok(client.symlink(&root, b"s", &Sattr3::default(), b"f").await);
    let pipe = Mknoddata::Fifo(PipeData {
        pipe_attributes: mode(0o600),
    });
    ok(client.mknod(&root, b"p", &pipe).await);
    ok(client.getattr(&file).await);
    ok(client.setattr(&file, &mode(0o600), None).await);
    ok(client.lookup(&root, b"f").await);
    ok(client.access(&file, 0x3f).await);
    ok(client.readlink(&link.obj.unwrap()).await);
    write(&client, &file, 0, StableHow::Unstable).await;
    ok(client.read(&file, 0, 4096).await);
    ok(client.commit(&file, 0, 0).await);
    ok(client.readdir(&root, 0, [0; 8], 4096).await);
    ok(client.readdirplus(&root, 0, [0; 8], 4096, 8192).await);
    ok(client.fsstat(&root).await);
    ok(client.fsinfo(&root).await);
    ok(client.pathconf(&root).await);
    ok(client.link(&file, &dir, b"l").await);
    ok(client.rename(&root, b"f", &root, b"g").await);
    ok(client.remove(&root, b"g").await);
    ok(client.remove(&dir, b"l").await);
    ok(client.rmdir(&root, b"d").await);
    let lock_manager = Number {
        program: nlm4::PROGRAM,
        version: nlm4::VERSION,
        number: 0,
    };
    let connection = client.connection();
    let null = connection.call_raw(lock_manager, client.identity(), &[]);
    null.await.unwrap();
    settle(served).await;
}

#[test]
fn a_compound_tells_its_operations() {
    let served = Served::start();
    let mut follower = follow(&served, &named(&["OPEN", "WRITE", "READ", "COMPOUND"]));
    let mut reads = follow(&served, &named(&["READ"]));
    block_on(async {
        let mut client = Client::new(&served, 2, b"one").await;
        let root = client.root().await;
        let mode = of_mode(0o644);
        let how = Openflag4::Create(Createhow4::Unchecked(fattr(&mode)));
        let open = open_args(b"f", OPEN4_SHARE_ACCESS_BOTH, how);
        let (file, stateid) = client.open(&root, open).await.unwrap();
        let written = client.write(&file, stateid, (0, &[1; 4096])).await;
        assert_eq!(written, Ok(4096));
        for _ in 0..2 {
            client.read(&file, stateid, (0, 4096)).await.unwrap();
        }
        settle(&served).await;
    });
    let calls = told(&mut follower);
    for call in &calls {
        check_times(call);
        assert_eq!((&*call.program, &*call.call), ("NFSv4", "COMPOUND"));
    }
    let with = |operation: &str| {
        let has = |call: &&CallTree| call.steps.iter().any(|step| step.step == operation);
        calls.iter().filter(has).collect::<Vec<_>>()
    };
    let counts = ["OPEN", "WRITE", "READ"].map(|operation| with(operation).len());
    assert_eq!(counts, [1, 1, 2]);
    assert_eq!(told(&mut reads).len(), 2);
    let write = with("WRITE")[0];
    let expected = "receive wait_turn decode credentials decode SEQUENCE slot PUTFH target WRITE attributes \
                    open_file decide segment encode send";
    let expected: Vec<&str> = expected.split_whitespace().collect();
    assert!(is_part(&expected, &names(&write.steps)), "{write}");
    // Nobody has asked for those from after the WRITE.
    let asked = names(&write.steps)
        .iter()
        .filter(|step| **step == "attributes")
        .count();
    assert_eq!(asked, 1, "{write}");
    let operation = write.steps.iter().find(|step| step.step == "WRITE");
    assert_eq!(operation.unwrap().note.as_deref(), Some("NFS4_OK"));
    assert_eq!((write.offset, write.len), (Some(0), Some(4096)));
    assert_eq!(write.status.as_deref(), Some("NFS4_OK"));
}

/// A READ needs attributes from no sooner than it came, and tells those from before its data.
#[test]
fn reads_that_came_together_ask_for_attributes_once() {
    use std::io::{Read as _, Write as _};

    const READS: u32 = 8;
    let served = Served::start();
    let mut follower = follow(&served, &named(&["READ"]));
    let file = block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        write(&client, &file, 0, StableHow::Unstable).await;
        file
    });
    let read = ReadArgs {
        file,
        offset: 0,
        count: 512,
    };
    let burst = |first: u32| -> Vec<u8> {
        let xids = first..first + READS;
        xids.flat_map(|xid| record(xid, Procedure::Read, &read))
            .collect()
    };
    let mut stream = std::net::TcpStream::connect(served.addr).unwrap();
    for first in [1, 100] {
        stream.write_all(&burst(first)).unwrap();
        for _ in 0..READS {
            let mut mark = [0; 4];
            stream.read_exact(&mut mark).unwrap();
            let mut reply = vec![0; FragmentHeader::parse(mark).len as usize];
            stream.read_exact(&mut reply).unwrap();
            assert_eq!(answer(&reply).1, Nfsstat3::Ok);
        }
    }
    block_on(settle(&served));
    let mut calls = told(&mut follower);
    // Calls are told as they end, and a READ whose page is not at hand ends after those behind it.
    calls.sort_by(|one, other| one.xid.cmp(&other.xid));
    let asked: Vec<bool> = calls
        .iter()
        .map(|call| names(&call.steps).iter().any(|name| name == "attributes"))
        .collect();
    let once: Vec<bool> = (0..READS).map(|number| number == 0).collect();
    assert_eq!(asked, [&once[..], &once].concat());
}

#[test]
fn every_call_is_told_what_it_was_about() {
    let served = Served::start();
    let mut follower = follow(&served, &named(&["READ", "WRITE", "COMMIT"]));
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        write(&client, &file, 8192, StableHow::FileSync).await;
        ok(client.read(&file, 8192, 4096).await);
        ok(client.commit(&file, 0, 0).await);
        settle(&served).await;
    });
    let stat = std::fs::metadata(served.path().join("f")).unwrap();
    let calls = told(&mut follower);
    let words: Vec<_> = calls.iter().map(|call| call.call.as_str()).collect();
    assert_eq!(words, ["WRITE", "READ", "COMMIT"]);
    for call in &calls {
        assert_eq!(call.program, "NFSv3");
        assert_eq!(call.status.as_deref(), Some("NFS3_OK"));
        assert_eq!(call.export.as_deref(), Some("/"));
        let file = call.file.unwrap();
        assert_eq!((file.dev, file.inode), (stat.dev(), stat.ino()));
    }
    assert_eq!((calls[0].offset, calls[0].len), (Some(8192), Some(4096)));
    let segment = names(&calls[0].steps);
    assert!(segment.iter().any(|name| name == "segment"), "{}", calls[0]);
}

#[test]
fn a_hit_asks_the_kernel_for_nothing_before_the_attributes() {
    let served = Served::start();
    let mut follower = follow(&served, &named(&["READ"]));
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        write(&client, &file, 0, StableHow::Unstable).await;
        for _ in 0..3 {
            ok(client.read(&file, 0, 4096).await);
        }
        settle(&served).await;
    });
    let calls = told(&mut follower);
    let last = calls.last().unwrap();
    let names = names(&last.steps);
    for step in ["helper", "ask_kernel", "open_handle", "open_by_handle_at"] {
        assert!(!names.iter().any(|name| name == step), "{last}");
    }
    let target = last
        .steps
        .iter()
        .find(|step| step.step == "target")
        .unwrap();
    assert_eq!(
        target.steps[0].steps[0].note.as_deref(),
        Some("hit"),
        "{last}"
    );
}

#[test]
fn queries_choose_by_call_client_export_file_and_time() {
    let served = Served::start();
    let file_of = |name: &str| {
        let stat = std::fs::metadata(served.path().join(name)).unwrap();
        FileNumber {
            dev: stat.dev(),
            inode: stat.ino(),
        }
    };
    std::fs::write(served.path().join("b"), b"b").unwrap();
    let queries = [
        named(&["WRITE"]),
        CallQuery {
            file: Some(file_of("b")),
            ..CallQuery::default()
        },
        CallQuery {
            client: Some("127.0.0.1".parse().unwrap()),
            ..named(&["READ"])
        },
        CallQuery {
            client: Some("127.0.0.9".parse().unwrap()),
            ..CallQuery::default()
        },
        CallQuery {
            export: Some("/".to_owned()),
            ..named(&["read"])
        },
        CallQuery {
            slower_than_us: Some(3_600_000_000),
            ..CallQuery::default()
        },
    ];
    let mut followers = queries.map(|query| follow(&served, &query));
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let first = create(&client, &root, b"a").await;
        let second = ok(client.lookup(&root, b"b").await).object;
        write(&client, &first, 0, StableHow::Unstable).await;
        for _ in 0..2 {
            ok(client.read(&first, 0, 100).await);
        }
        ok(client.read(&second, 0, 100).await);
        settle(&served).await;
    });
    let count = |follower: &mut CallFollower| told(follower).len();
    let counts = followers.each_mut().map(count);
    assert_eq!(counts, [1, 1, 3, 0, 3, 0]);
    let refused = |query: CallQuery| served.server.follow_calls(&query).unwrap_err();
    assert!(refused(named(&["READING"])).contains("no procedure"));
    let nowhere = CallQuery {
        export: Some("/no".to_owned()),
        ..CallQuery::default()
    };
    assert!(refused(nowhere).contains("served are: /"));
    let none = CallQuery {
        slowest: Some(0),
        ..CallQuery::default()
    };
    assert!(refused(none).contains("slowest"));
}

#[test]
fn the_slowest_are_kept_and_told_when_the_time_is_over() {
    let served = Served::start();
    let query = CallQuery {
        slowest: Some(3),
        for_ms: Some(1500),
        ..named(&["READ"])
    };
    let mut few = follow(&served, &query);
    let mut all = follow(&served, &named(&["READ"]));
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        for _ in 0..40 {
            ok(client.read(&file, 0, 100).await);
        }
        let mut slowest = Vec::new();
        while let Some(line) = few.next().await {
            let CallLine::Call(call) = line else {
                panic!("{line}")
            };
            slowest.push(call.took_ns);
        }
        let mut took: Vec<u64> = told(&mut all).iter().map(|call| call.took_ns).collect();
        assert_eq!(took.len(), 40);
        took.sort_by_key(|took| std::cmp::Reverse(*took));
        assert_eq!(slowest, took[..3]);
    });
}

#[test]
fn the_flight_recorder_has_the_last_calls_with_the_steps_that_wait() {
    let served = Served::start();
    assert_eq!(served.server.recorder_level(None), RecorderLevel::Waits);
    let run = |name: &str, count: u64| {
        block_on(async {
            let client = served.client().await;
            let root = served.root(&client).await;
            let file = create(&client, &root, name.as_bytes()).await;
            for offset in 0..count {
                write(&client, &file, offset * 4096, StableHow::Unstable).await;
            }
            settle(&served).await;
        });
    };
    run("many", 2000);
    let calls = told(&mut follow(&served, &recorded()));
    assert_eq!(calls.len(), 1024, "one shard's");
    for call in &calls {
        check_times(call);
        if call.call == "NULL" {
            continue;
        }
        assert_eq!(call.call, "WRITE");
        let names = names(&call.steps);
        assert!(
            is_part(
                &["receive", "wait_turn", "attributes", "segment", "send"],
                &names
            ),
            "{call}"
        );
        assert!(!names.iter().any(|name| name == "decode"), "{call}");
    }
    assert!(calls.is_sorted_by_key(|call| call.begun_ns));
    let slowest = CallQuery {
        slowest: Some(5),
        ..recorded()
    };
    let slowest = told(&mut follow(&served, &slowest));
    let longest = calls.iter().map(|call| call.took_ns).max().unwrap();
    assert_eq!((slowest.len(), slowest[0].took_ns), (5, longest));
    assert_eq!(
        served.server.recorder_level(Some(RecorderLevel::All)),
        RecorderLevel::All
    );
    run("one", 1);
    let calls = told(&mut follow(&served, &recorded()));
    let mut writes = calls.iter().filter(|call| call.call == "WRITE");
    let last = writes.next_back().unwrap();
    assert!(
        names(&last.steps).iter().any(|name| name == "decode"),
        "{last}"
    );
    served.server.recorder_level(Some(RecorderLevel::Off));
    run("two", 1);
    let then = told(&mut follow(&served, &recorded()));
    let is_later = |call: &CallTree| call.call == "WRITE" && call.begun_ns > last.begun_ns;
    assert!(!then.iter().any(is_later), "nothing came in");
}

#[test]
fn times_nest_under_load_of_a_thousand_connections() {
    const CONNECTIONS: usize = 1000;
    let served = Served::with(|config| config.server.shards = Some(2));
    served.server.recorder_level(Some(RecorderLevel::All));
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        write(&client, &file, 0, StableHow::Unstable).await;
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(RawConnection::connect(served.addr).await.unwrap());
        }
        let mut running = JoinSet::new();
        for (number, mut raw) in connections.into_iter().enumerate() {
            running.spawn(async move {
                let args = ReadArgs {
                    file,
                    offset: 0,
                    count: 4096,
                };
                for round in 0..4 {
                    let xid = (number * 4 + round) as u32;
                    let procedure = nfs_client::nfs3::number(Procedure::Read);
                    let identity = Identity::sys(0, 0, &[]);
                    let body = RawConnection::call_body(xid, procedure, &identity, &args);
                    raw.exchange(&body).await.unwrap().unwrap();
                }
            });
        }
        while let Some(ended) = running.join_next().await {
            ended.unwrap();
        }
    });
    let calls = told(&mut follow(&served, &recorded()));
    assert_eq!(calls.len(), 2 * 1024);
    for call in &calls {
        check_times(call);
    }
    check_chrome(&calls);
}

/// What a trace viewer is given is JSON, and on each of its threads no call begins before the last has ended.
fn check_chrome(calls: &[CallTree]) {
    let path = tempfile::NamedTempFile::new().unwrap();
    let mut ended: Vec<&CallTree> = calls.iter().collect();
    ended.sort_by_key(|call| call.begun_ns + call.total_ns);
    let mut trace = ChromeTrace::begin(path.reopen().unwrap()).unwrap();
    for call in ended {
        trace.add(call).unwrap();
    }
    trace.end().unwrap();
    let text = std::fs::read_to_string(path.path()).unwrap();
    let events: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let mut last_ends: BTreeMap<(u64, u64), f64> = BTreeMap::new();
    let mut shown = 0;
    for event in &events {
        assert_eq!(event["ph"], "X");
        let number = |key: &str| event[key].as_u64().unwrap();
        let time = |key: &str| event[key].as_f64().unwrap();
        if event["args"]["xid"].is_string() {
            shown += 1;
            let thread = (number("pid"), number("tid"));
            let end = last_ends.entry(thread).or_default();
            assert!(time("ts") + 0.001 >= *end, "{event} begins before {end}");
            *end = time("ts") + time("dur");
        }
    }
    assert_eq!(shown, calls.len());
    let steps: usize = calls.iter().map(|call| names(&call.steps).len()).sum();
    assert_eq!(events.len(), calls.len() + steps);
}

#[test]
fn without_the_file_cache_every_call_opens_its_file_anew() {
    let served = Served::start();
    served.server.keep_no_files();
    let mut follower = follow(&served, &named(&["READ", "WRITE"]));
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        for _ in 0..3 {
            write(&client, &file, 0, StableHow::FileSync).await;
            ok(client.read(&file, 0, 4096).await);
        }
        settle(&served).await;
    });
    let calls = told(&mut follower);
    assert_eq!(calls.len(), 6);
    for call in &calls {
        check_times(call);
        let target = call.steps.iter().find(|step| step.step == "target");
        let steps = names(&target.unwrap().steps);
        let expected = ["handle_check", "file_cache", "open_handle", "helper", "run"];
        assert!(is_part(&expected, &steps), "{call}");
    }
}
