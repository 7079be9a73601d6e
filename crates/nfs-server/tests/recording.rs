//! What a recording has of calls: all that a replay needs, and nothing that names a file, a client or what was written.

mod support;

use std::collections::BTreeSet;

use bytes::Bytes;
use nfs_server::operate::control::{RecordedCall, Recording, RecordingLine, RecordingQuery};
use nfs_wire::nfs3::{Procedure, Sattr3, StableHow};
use nfs_wire::nfs4::Opnum;
use nfs_wire::nfs4::ops::{Createhow4, OPEN4_SHARE_ACCESS_BOTH, Openflag4};
use support::trees::settle;
use support::v4::{Client, fattr, of_mode, open_args};
use support::{Served, block_on, create, lookup, ok};

fn record(served: &Served) -> Recording {
    let all = RecordingQuery::default();
    served.server.record_calls(&all).unwrap()
}

/// The calls that were recorded so far.
fn told(recording: &mut Recording) -> Vec<RecordedCall> {
    let lines = std::iter::from_fn(|| recording.at_once());
    let calls = lines.map(|line| match line {
        RecordingLine::Call(call) => call,
        RecordingLine::Lost { lost } => panic!("{lost} calls lost"),
    });
    calls.collect()
}

fn of_v3(calls: &[RecordedCall], procedure: Procedure) -> RecordedCall {
    let is_of = |call: &&RecordedCall| (call.version, call.number) == (3, procedure as u32);
    *calls.iter().find(is_of).unwrap()
}

fn of_v4(calls: &[RecordedCall], operation: Opnum) -> RecordedCall {
    let is_of = |call: &&RecordedCall| (call.version, call.number) == (4, operation.number());
    *calls.iter().find(is_of).unwrap()
}

#[test]
fn calls_of_nfsv3_are_recorded_with_what_a_replay_needs() {
    let served = Served::start();
    let [mut recording, mut other] = [record(&served), record(&served)];
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"plans-for-monday").await;
        let data = Bytes::from_static(b"the secret plan");
        ok(client.write(&file, 4096, StableHow::DataSync, data).await);
        ok(client.read(&file, 4096, 8192).await);
        ok(client.commit(&file, 0, 0).await);
        ok(client.getattr(&file).await);
        assert_eq!(lookup(&client, &root, b"plans-for-monday").await, file);
        let shorter = Sattr3 {
            size: Some(100),
            ..Sattr3::default()
        };
        ok(client.setattr(&file, &shorter, None).await);
        ok(client
            .rename(&root, b"plans-for-monday", &root, b"done")
            .await);
        ok(client.remove(&root, b"done").await);
        let gone = client.getattr(&file).await;
        assert!(!matches!(gone, Ok(Ok(_))));
        settle(&served).await;
    });
    let calls = told(&mut recording);
    let made = of_v3(&calls, Procedure::Create);
    let (file, directory) = (made.to.unwrap(), made.on.unwrap());
    let written = of_v3(&calls, Procedure::Write);
    assert_eq!((written.on, written.range), (Some(file), Some((4096, 15))));
    assert_eq!((written.how, written.moved), (Some(1), Some(15)));
    let read = of_v3(&calls, Procedure::Read);
    assert_eq!((read.on, read.range), (Some(file), Some((4096, 8192))));
    assert_eq!((read.moved, read.status), (Some(15), 0));
    assert_eq!(of_v3(&calls, Procedure::Commit).on, Some(file));
    let found = of_v3(&calls, Procedure::Lookup);
    assert_eq!(
        (found.on, found.name, found.to),
        (Some(directory), made.name, Some(file))
    );
    assert_eq!(of_v3(&calls, Procedure::Setattr).range, Some((100, 0)));
    let renamed = of_v3(&calls, Procedure::Rename);
    assert_eq!((renamed.on, renamed.to), (Some(directory), Some(directory)));
    let removed = of_v3(&calls, Procedure::Remove);
    assert_eq!((renamed.name, renamed.to_name), (made.name, removed.name));
    assert_ne!(renamed.name, removed.name);
    let last = calls.iter().rfind(|call| call.on == Some(file)).unwrap();
    assert_eq!((last.number, last.status), (Procedure::Getattr as u32, 70));
    let apart = told(&mut other);
    let numbers = |calls: &[RecordedCall]| -> BTreeSet<u64> {
        let all = calls
            .iter()
            .flat_map(|call| [call.on, call.name, call.to, call.to_name]);
        all.flatten().collect()
    };
    assert_eq!(apart.len(), calls.len());
    assert!(
        numbers(&apart).is_disjoint(&numbers(&calls)),
        "each recording has a key of its own"
    );
    let json = serde_json::to_string(&calls).unwrap();
    assert!(
        !json.contains("plan") && !json.contains("127.0.0.1"),
        "{json}"
    );
}

#[test]
fn operations_of_nfsv4_are_recorded_one_by_one() {
    let served = Served::start();
    let mut recording = record(&served);
    block_on(async {
        let mut client = Client::new(&served, 2, b"recorded").await;
        let root = client.root().await;
        let mode = of_mode(0o644);
        let how = Openflag4::Create(Createhow4::Unchecked(fattr(&mode)));
        let args = open_args(b"file", OPEN4_SHARE_ACCESS_BOTH, how);
        let (file, stateid) = client.open(&root, args).await.unwrap();
        let written = client.write(&file, stateid, (8192, &[7; 512])).await;
        assert_eq!(written, Ok(512));
        let read = client.read(&file, stateid, (8192, 4096)).await;
        assert!(read.is_ok());
        settle(&served).await;
    });
    let calls = told(&mut recording);
    let opened = of_v4(&calls, Opnum::Open);
    let file = opened.to.unwrap();
    assert_eq!((opened.how, opened.status), (Some(1), 0));
    let written = of_v4(&calls, Opnum::Write);
    assert_eq!((written.on, written.range), (Some(file), Some((8192, 512))));
    assert_eq!(written.moved, Some(512));
    let read = of_v4(&calls, Opnum::Read);
    assert_eq!(
        (read.on, read.range, read.moved),
        (Some(file), Some((8192, 4096)), Some(512))
    );
    assert!(
        !read.follows,
        "SEQUENCE and PUTFH are the protocol's, not the load's"
    );
    let left_out = [
        Opnum::Sequence,
        Opnum::Putfh,
        Opnum::Getfh,
        Opnum::ExchangeId,
    ];
    let has = |operation: &Opnum| {
        calls
            .iter()
            .any(|call| call.number == operation.number() && call.version == 4)
    };
    assert!(!left_out.iter().any(has), "{calls:?}");
}

#[test]
fn nothing_is_kept_for_one_that_has_gone_and_there_are_not_many() {
    let served = Served::start();
    let both = [record(&served), record(&served)];
    let all = RecordingQuery::default();
    let refused = served.server.record_calls(&all).unwrap_err();
    assert!(refused.contains("end one of them"), "{refused}");
    drop(both);
    let wrong = RecordingQuery {
        export: Some("/elsewhere".to_owned()),
        ..RecordingQuery::default()
    };
    assert!(
        served
            .server
            .record_calls(&wrong)
            .unwrap_err()
            .contains("served are: /")
    );
    let mut recording = record(&served);
    block_on(settle(&served));
    assert!(!told(&mut recording).is_empty());
}
