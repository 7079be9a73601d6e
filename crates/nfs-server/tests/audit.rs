//! The audit, by a real client: what is told of each call, where it goes, and what bounds it.

mod support;

use bytes::Bytes;
use nfs_client::Identity;
use nfs_server::exports::ExportTable;
use nfs_server::exports::config::Audited;
use nfs_server::limits;
use nfs_server::operate::control::{AuditEvent, AuditFollower, AuditLine};
use nfs_wire::nfs3::{CreateHow, Mknoddata, Nfsstat3, PipeData, Sattr3, StableHow};
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
        let pipe = Mknoddata::Fifo(PipeData {
            pipe_attributes: mode(0o622),
        });
        ok(client.mknod(&dir, b"pipe", &pipe).await);
        // To whoever owns it already, which every user may do.
        let present = ok(client.getattr(&file).await);
        let owner = Sattr3 {
            uid: Some(present.obj_attributes.uid),
            gid: Some(present.obj_attributes.gid),
            ..Sattr3::default()
        };
        ok(client.setattr(&file, &owner, None).await);
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
    let (uid, gid) = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    let owner_set = format!("setattr owner {uid} group {gid} NFS3_OK");
    let expected = [
        "create file mode 0644 NFS3_OK",
        "create file mode 0600 NFS3ERR_EXIST",
        "mkdir dir\\x0a mode 0755 NFS3_OK",
        "symlink link NFS3_OK",
        "link >hard NFS3_OK",
        "rename file >\\xffnew NFS3_OK",
        "setattr mode 4711 size 7 NFS3_OK",
        "mknod pipe mode 0622 NFS3_OK",
        &owner_set,
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

/// Only paths, of the objects and, where there is one, of the new directory.
fn paths(event: &AuditEvent) -> (&str, Option<&str>, Option<&str>) {
    let (path, to_path) = (event.path.as_deref(), event.to_path.as_deref());
    (event.operation.as_str(), path, to_path)
}

#[test]
fn it_is_told_where_in_the_export_a_thing_was_as_far_as_that_is_known() {
    let served = served(Audited::Changes);
    let mut follower = served.server.follow_audit().unwrap();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let dir = mkdir(&client, &root, b"dir\x1b").await;
        let file = create(&client, &dir, b"file").await;
        ok(client.setattr(&file, &mode(0o600), None).await);
        ok(client.rename(&root, b"dir\x1b", &root, b"moved").await);
        ok(client.rename(&dir, b"file", &root, b"other").await);
        ok(client.setattr(&file, &mode(0o640), None).await);
        ok(client.remove(&root, b"other").await);
        // Removed on the host and known to the server still: without a place.
        let gone = create(&client, &root, b"gone").await;
        std::fs::remove_file(served.config.exports[0].path.join("gone")).unwrap();
        let set = client.setattr(&gone, &mode(0o600), None).await;
        assert_eq!(status(set), Nfsstat3::Stale);
    });
    let events = told(&mut follower);
    let told: Vec<_> = events.iter().map(paths).collect();
    let expected = [
        ("mkdir", Some("/"), None),
        ("create", Some("/dir\\x1b"), None),
        ("setattr", Some("/dir\\x1b/file"), None),
        ("rename", Some("/"), Some("/")),
        ("rename", Some("/moved"), Some("/")),
        ("setattr", Some("/other"), None),
        ("remove", Some("/"), None),
        ("create", Some("/"), None),
        ("setattr", None, None),
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_path_longer_than_what_is_kept_is_left_out() {
    let served = served(Audited::Changes);
    let mut follower = served.server.follow_audit().unwrap();
    let names = limits::AUDIT_PATH_BYTES_MAX / limits::AUDIT_NAME_BYTES_MAX + 1;
    let name = "d".repeat(limits::AUDIT_NAME_BYTES_MAX);
    block_on(async {
        let client = served.client().await;
        let mut at = served.root(&client).await;
        for _ in 0..names {
            at = mkdir(&client, &at, name.as_bytes()).await;
        }
        mkdir(&client, &at, b"last").await;
    });
    let events = told(&mut follower);
    assert!(events[0].path.is_some() && events.last().unwrap().path.is_none());
    assert_eq!(events.last().unwrap().name.as_deref(), Some("last"));
}

#[test]
fn a_file_that_is_full_becomes_the_old_one_and_nothing_is_lost() {
    let served = served(Audited::Off);
    let state = served.server.status().state_dir;
    let log = std::fs::File::create(state.join("audit.jsonl")).unwrap();
    log.set_len(limits::AUDIT_FILE_BYTES_MAX).unwrap();
    let mut config = served.config.clone();
    config.exports[0].audit = Audited::Changes;
    served
        .server
        .apply(ExportTable::new(&config).unwrap())
        .unwrap();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        mkdir(&client, &root, b"first").await;
    });
    let (_files, state) = served.stop();
    let old = state.path().join("audit.jsonl.1").metadata().unwrap();
    assert_eq!(old.len(), limits::AUDIT_FILE_BYTES_MAX);
    let log = std::fs::read_to_string(state.path().join("audit.jsonl")).unwrap();
    assert_eq!(log.lines().count(), 1);
    assert!(log.contains("\"name\":\"first\""), "{log}");
}

#[test]
fn a_call_that_no_rule_lets_in_is_not_told_of() {
    let served = Served::with(|config| {
        config.server.trust_loopback = true;
        config.exports[0].audit = Audited::Changes;
    });
    let mut follower = served.server.follow_audit().unwrap();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let mut config = served.config.clone();
        config.exports[0].clients[0].net = "10.0.0.0/8".parse().unwrap();
        served
            .server
            .apply(ExportTable::new(&config).unwrap())
            .unwrap();
        assert_eq!(status(client.remove(&root, b"x").await), Nfsstat3::Acces);
    });
    assert_eq!(told(&mut follower), []);
    assert_eq!(served.counter("audit_records"), 0);
}
