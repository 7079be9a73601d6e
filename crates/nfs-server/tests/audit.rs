//! The audit, by a real client: what is told of each call, where it goes, and what bounds it.

mod support;

use bytes::Bytes;
use nfs_client::Identity;
use nfs_server::exports::ExportTable;
use nfs_server::exports::config::Audited;
use nfs_server::limits;
use nfs_server::operate::control::{AuditEvent, AuditFollower, AuditLine};
use nfs_wire::nfs3::{CreateHow, Nfsstat3, Sattr3, StableHow};
use support::{Served, block_on, connect, create, lookup, mkdir, mode, ok, status};

fn served(audited: Audited) -> Served {
    Served::with(|config| config.exports[0].audit = audited)
}

/// What was told so far. A call is told of before it is answered.
fn told(follower: &mut AuditFollower) -> Vec<AuditEvent> {
    std::iter::from_fn(|| follower.at_once())
        .map(|line| match line {
            AuditLine::Event(event) => *event,
            AuditLine::Lost { lost } => panic!("{lost} lost"),
        })
        .collect()
}

/// All but times, addresses and handles.
fn short(event: &AuditEvent) -> String {
    let mut words = vec![event.operation.clone()];
    let numbers = [event.owner, event.group].map(|id| id.map(|id| id.to_string()));
    let [owner, group] = numbers;
    let size = event.size.map(|size| size.to_string());
    let fields = [
        ("", &event.name),
        (">", &event.to_name),
        ("mode ", &event.mode),
        ("owner ", &owner),
        ("group ", &group),
        ("size ", &size),
        ("", &event.status),
    ];
    for (what, word) in fields {
        words.extend(word.as_ref().map(|word| format!("{what}{word}")));
    }
    words.join(" ")
}

#[test]
fn every_change_is_told_with_who_and_what_and_its_status() {
    let served = served(Audited::Changes);
    let mut follower = served.server.follow_audit().unwrap();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"file").await;
        let again = CreateHow::Guarded(mode(0o600));
        assert_eq!(
            status(client.create(&root, b"file", &again).await),
            Nfsstat3::Exist
        );
        let dir = mkdir(&client, &root, b"dir\n").await;
        ok(client
            .symlink(&root, b"link", &Sattr3::default(), b"file")
            .await);
        ok(client.link(&file, &dir, b"hard").await);
        ok(client.rename(&root, b"file", &dir, b"\xffnew").await);
        let set = Sattr3 {
            mode: Some(0o4711),
            size: Some(7),
            ..Sattr3::default()
        };
        ok(client.setattr(&file, &set, None).await);
        let data = Bytes::from_static(b"data");
        ok(client.write(&file, 0, StableHow::Unstable, data).await);
        ok(client.read(&file, 0, 4).await);
        ok(client.getattr(&file).await);
        lookup(&client, &dir, b"hard").await;
        assert_eq!(
            status(client.rmdir(&root, b"dir\n").await),
            Nfsstat3::Notempty
        );
        ok(client.remove(&dir, b"hard").await);
        assert_eq!(status(client.remove(&dir, b"hard").await), Nfsstat3::Noent);
        if support::is_root() {
            let other = connect(served.addr, Identity::sys(4711, 4712, &[])).await;
            assert_eq!(status(other.remove(&root, b"link").await), Nfsstat3::Acces);
        }
    });
    let events = told(&mut follower);
    let mut shown: Vec<String> = events.iter().map(short).collect();
    if support::is_root() {
        assert_eq!(events.last().unwrap().uid, Some(4711));
        assert_eq!(shown.pop().unwrap(), "remove link NFS3ERR_ACCES");
    }
    let expected = [
        "create file mode 0644 NFS3_OK",
        "create file mode 0600 NFS3ERR_EXIST",
        "mkdir dir\\x0a mode 0755 NFS3_OK",
        "symlink link NFS3_OK",
        "link >hard NFS3_OK",
        "rename file >\\xffnew NFS3_OK",
        "setattr mode 4711 size 7 NFS3_OK",
        "rmdir dir\\x0a NFS3ERR_NOTEMPTY",
        "remove hard NFS3_OK",
        "remove hard NFS3ERR_NOENT",
    ];
    assert_eq!(shown, expected);
    for event in &events {
        assert!(event.client.starts_with("127.0.0.1:"), "{event:?}");
        assert_eq!(event.export, "/");
        assert!(event.handle.len() >= 16, "{event:?}");
    }
    assert_eq!(served.counter("audit_records"), events.len() as u64);
}

#[test]
fn of_reads_and_writes_the_first_of_each_user_is_told() {
    let served = served(Audited::All);
    let mut follower = served.server.follow_audit().unwrap();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        for _ in 0..3 {
            let data = Bytes::from_static(b"x");
            ok(client.write(&file, 0, StableHow::Unstable, data).await);
            ok(client.read(&file, 0, 1).await);
        }
        assert_eq!(status(client.read(&root, 0, 1).await), Nfsstat3::Inval);
    });
    let shown: Vec<String> = told(&mut follower).iter().map(short).collect();
    let expected = [
        "create f mode 0644 NFS3_OK",
        "write NFS3_OK",
        "read NFS3_OK",
        "read NFS3ERR_INVAL",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn a_reload_switches_it_on_and_off_and_the_log_has_what_was_told() {
    let served = served(Audited::Off);
    let refused = served.server.follow_audit().unwrap_err();
    assert!(refused.contains("audit ="), "{refused}");
    let switch = |audited| {
        let mut config = served.config.clone();
        config.exports[0].audit = audited;
        served
            .server
            .apply(ExportTable::new(&config).unwrap())
            .unwrap();
    };
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        mkdir(&client, &root, b"before").await;
        switch(Audited::Changes);
        mkdir(&client, &root, b"while").await;
        switch(Audited::Off);
        mkdir(&client, &root, b"after").await;
        switch(Audited::Changes);
        mkdir(&client, &root, b"again").await;
    });
    let (_files, state) = served.stop();
    let log = std::fs::read_to_string(state.path().join("audit.jsonl")).unwrap();
    let events: Vec<AuditEvent> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let names: Vec<&str> = events
        .iter()
        .filter_map(|event| event.name.as_deref())
        .collect();
    assert_eq!(names, ["while", "again"]);
}

#[test]
fn a_log_that_cannot_be_written_holds_up_nobody_and_is_counted() {
    let served = Served::with(|config| config.exports[0].audit = Audited::Off);
    // In place of the file there is a directory.
    std::fs::create_dir(served.server.status().state_dir.join("audit.jsonl")).unwrap();
    let mut config = served.config.clone();
    config.exports[0].audit = Audited::Changes;
    served
        .server
        .apply(ExportTable::new(&config).unwrap())
        .unwrap();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        mkdir(&client, &root, b"a").await;
        while served.counter("audit_records_unwritten") == 0 {
            ok(client.getattr(&root).await);
        }
        std::fs::remove_dir(served.server.status().state_dir.join("audit.jsonl")).unwrap();
        mkdir(&client, &root, b"b").await;
    });
    let (_files, state) = served.stop();
    let log = std::fs::read_to_string(state.path().join("audit.jsonl")).unwrap();
    assert_eq!(log.lines().count(), 1);
    assert!(log.contains("\"name\":\"b\""), "{log}");
}

#[test]
fn a_follower_that_does_not_read_loses_the_oldest_and_is_told_how_many() {
    let served = served(Audited::Changes);
    let mut follower = served.server.follow_audit().unwrap();
    let more = 10;
    let calls = limits::AUDIT_QUEUE_RECORDS_MAX + more;
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        for _ in 0..calls {
            assert_eq!(status(client.remove(&root, b"x").await), Nfsstat3::Noent);
        }
    });
    let lost = AuditLine::Lost { lost: more as u64 };
    assert_eq!(follower.at_once(), Some(lost));
    assert_eq!(told(&mut follower).len(), calls - more);
    assert!(served.counter("audit_records_lost") >= more as u64);
}
