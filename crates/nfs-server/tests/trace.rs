//! What READ, WRITE and COMMIT say of themselves: the events of each call and the figures of all.

mod support;

use std::os::fd::AsFd as _;

use bytes::Bytes;
use nfs_client::{Identity, RawConnection};
use nfs_io::Errno;
use nfs_io::faults::{Call, Fault, Rule};
use nfs_server::exports::ExportTable;
use nfs_server::exports::policy::{IoPolicy, Mode};
use nfs_server::operate::control::{FollowRequest, Follower, IoStatus, TraceEvent, TraceLine};
use nfs_wire::Encode;
use nfs_wire::nfs3::{CommitArgs, FileHandle, Nfsstat3, Procedure, ReadArgs, StableHow, WriteArgs};
use support::{Served, block_on, create, ok, skip, status};

fn served(mode: Mode) -> Served {
    Served::with(|config| {
        config.exports[0].io = IoPolicy {
            read: mode.into(),
            write: mode.into(),
            // The figures are to be those of the calls alone.
            read_ahead: 0,
            ..IoPolicy::default()
        };
    })
}

fn follow(served: &Served, request: FollowRequest) -> Follower {
    served.server.follow(&request).unwrap()
}

fn all() -> FollowRequest {
    FollowRequest {
        events: vec!["all".to_owned()],
        ..FollowRequest::default()
    }
}

/// What happened so far. A call's events are all there when its reply is.
fn events(follower: &mut Follower) -> Vec<TraceEvent> {
    std::iter::from_fn(|| follower.at_once())
        .map(|line| match line {
            TraceLine::Event(event) => *event,
            TraceLine::Lost { lost } => panic!("{lost} events lost"),
        })
        .collect()
}

/// Name, offset, length, and what else there is but times and addresses.
fn short(event: &TraceEvent) -> String {
    let mut text = format!("{} {}", event.event, event.offset);
    if let Some(len) = event.len {
        text.push_str(&format!(" {len}"));
    }
    for word in [&event.mode, &event.fallback, &event.status]
        .into_iter()
        .flatten()
    {
        text.push_str(&format!(" {word}"));
    }
    text
}

async fn call<A: Encode>(raw: &mut RawConnection, xid: u32, procedure: Procedure, args: &A) {
    let procedure = nfs_client::nfs3::number(procedure);
    let body = RawConnection::call_body(xid, procedure, &Identity::sys(0, 0, &[]), args);
    let reply = raw.exchange(&body).await.unwrap().unwrap();
    assert_eq!(reply[..4], xid.to_be_bytes());
}

const WRITE: (u64, usize) = (100, 12_288);
const READ: (u64, u32) = (50, 9000);

/// The events of a WRITE, a READ and a COMMIT with the xids 1, 2 and 3, and of a READ of a directory
/// with 4.
fn traced(mode: Mode) -> (Vec<TraceEvent>, u64) {
    let served = served(mode);
    let mut follower = follow(&served, all());
    let client_port = block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        let mut raw = RawConnection::connect(served.addr).await.unwrap();
        let data = vec![7; WRITE.1];
        let write = WriteArgs {
            file,
            offset: WRITE.0,
            count: WRITE.1 as u32,
            stable: StableHow::Unstable,
            data: &data,
        };
        call(&mut raw, 1, Procedure::Write, &write).await;
        call(&mut raw, 2, Procedure::Read, &read_args(&file)).await;
        let commit = CommitArgs {
            file,
            offset: 5,
            count: 6,
        };
        call(&mut raw, 3, Procedure::Commit, &commit).await;
        call(&mut raw, 4, Procedure::Read, &read_args(&root)).await;
        raw.stream().local_addr().unwrap()
    });
    let file = std::fs::File::open(served.path().join("f")).unwrap();
    let stat = nfs_io::fs::statx(file.as_fd()).unwrap();
    let align = match stat.dio_read_offset_align {
        0 => stat.dio_offset_align,
        align => align,
    };
    let events = events(&mut follower);
    for event in &events {
        assert_eq!(event.client, client_port);
        assert_eq!(event.export.as_deref(), Some("/"));
        let is_done = event.event.ends_with("_done") && !event.event.ends_with("_io_done");
        assert_eq!(event.took_us.is_some(), is_done, "{event:?}");
    }
    (events, align.into())
}

fn read_args(file: &FileHandle) -> ReadArgs {
    ReadArgs {
        file: *file,
        offset: READ.0,
        count: READ.1,
    }
}

fn of_xid(events: &[TraceEvent], xid: u32) -> Vec<String> {
    let xid = format!("{xid:#010x}");
    let calls = events.iter().filter(|event| event.xid == xid);
    calls.map(short).collect()
}

#[test]
fn a_call_tells_its_stages_in_order() {
    for mode in [Mode::Buffered, Mode::DontCache, Mode::Direct] {
        let (events, align) = traced(mode);
        let (write, read) = moves(mode, align, &events);
        let mut expected = vec![
            "write_start 100 12288".to_owned(),
            "write_opened 100 12288".to_owned(),
        ];
        expected.extend(write);
        expected.push("write_io_done 100 12288".to_owned());
        expected.push("write_done 100 12288".to_owned());
        assert_eq!(of_xid(&events, 1), expected, "{mode:?}");
        let mut expected = vec!["read_start 50 9000".to_owned()];
        expected.extend(read);
        expected.push("read_io_done 50 9000".to_owned());
        expected.push("read_done 50 9000".to_owned());
        assert_eq!(of_xid(&events, 2), expected, "{mode:?}");
        assert_eq!(of_xid(&events, 3), ["commit_start 5 6", "commit_done 5 6"]);
        let failed = [
            "read_start 50 9000",
            "read_err 50 NFS3ERR_INVAL",
            "read_done 50 0",
        ];
        assert_eq!(of_xid(&events, 4), failed);
        let told: usize = (1..=4).map(|xid| of_xid(&events, xid).len()).sum();
        assert_eq!(told, events.len(), "some events belong to no call");
        let same_file = |xid: u32| {
            let xid = format!("{xid:#010x}");
            let event = events.iter().find(|event| event.xid == xid);
            event.unwrap().fh_hash.clone()
        };
        assert_eq!(same_file(1), same_file(3));
        assert_ne!(same_file(1), same_file(4));
    }
}

/// The segments of the WRITE and the READ of [`traced`], by what the file system there can do.
fn moves(mode: Mode, align: u64, events: &[TraceEvent]) -> (Vec<String>, Vec<String>) {
    let plain = |word: &str| {
        (
            vec![format!("write_vector 100 12288 {word}")],
            vec![format!("read_vector 50 9000 {word}")],
        )
    };
    match mode {
        Mode::Buffered => plain("buffered"),
        Mode::DontCache => {
            let refused = events
                .iter()
                .any(|event| event.fallback.as_deref() == Some("refused-dontcache"));
            if !refused {
                return plain("dontcache");
            }
            let (mut write, read) = plain("buffered refused-dontcache");
            write.insert(0, "write_vector 100 12288 dontcache".to_owned());
            (write, read)
        }
        Mode::Direct if align == 0 => plain("buffered alignment-unknown"),
        Mode::Direct => {
            let end = (READ.0 + u64::from(READ.1)).next_multiple_of(align);
            let write = [
                "write_vector 100 3996 buffered",
                "write_direct 4096 8192 direct",
                "write_vector 12288 100 buffered",
            ];
            (
                write.map(str::to_owned).to_vec(),
                vec![format!("read_direct 0 {end} direct")],
            )
        }
    }
}

fn row<'r>(rows: &'r [IoStatus], operation: &str) -> &'r IoStatus {
    let mut found = rows.iter().filter(|row| row.operation == operation);
    let row = found.next().unwrap();
    assert!(found.next().is_none(), "two modes: {rows:?}");
    row
}

#[test]
fn procedures_are_shown_with_how_long_they_took() {
    let served = served(Mode::Buffered);
    assert!(served.server.status().procedures.is_empty());
    let began = std::time::Instant::now();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        for offset in 0..3 {
            let data = Bytes::from_static(b"three");
            ok(client.write(&file, offset, StableHow::FileSync, data).await);
        }
        for _ in 0..2 {
            ok(client.read(&file, 0, 100).await);
        }
    });
    let most = began.elapsed().as_micros() as u64;
    let procedures = served.server.status().procedures;
    let calls = |name: &str| {
        let found = procedures.iter().find(|status| status.procedure == name);
        found.map_or(0, |status| status.calls)
    };
    assert_eq!((calls("WRITE"), calls("READ"), calls("CREATE")), (3, 2, 1));
    assert_eq!(calls("RENAME"), 0, "what was not called is not there");
    for status in &procedures {
        assert!(status.p50_below_us <= status.p99_below_us, "{status:?}");
        assert!(status.p99_below_us <= status.max_us + 1, "{status:?}");
        assert!(status.max_us <= most, "{status:?}");
    }
    let write = procedures.iter().find(|status| status.procedure == "WRITE");
    assert!(write.unwrap().max_us > 0, "a WRITE takes some time");
}

#[test]
fn figures_are_what_was_sent() {
    /// Offset and length of each WRITE and then READ.
    const CALLS: [(u64, usize); 4] = [(0, 100), (100, 50_000), (4096, 1 << 20), (1 << 20, 65_536)];
    for mode in [Mode::Buffered, Mode::DontCache, Mode::Direct] {
        let served = served(mode);
        assert!(served.server.io().is_empty());
        block_on(async {
            let client = served.client().await;
            let root = served.root(&client).await;
            let file = create(&client, &root, b"f").await;
            for (offset, len) in CALLS {
                let data = Bytes::from(vec![1; len]);
                let done = client.write(&file, offset, StableHow::FileSync, data).await;
                assert_eq!(ok(done).count as usize, len);
            }
            for (offset, len) in CALLS {
                let read = ok(client.read(&file, offset, len as u32).await);
                assert_eq!(read.data.len(), len);
            }
            // Nothing is left to read there; it is a READ all the same.
            assert!(ok(client.read(&file, 1 << 30, 10).await).eof);
        });
        let rows = served.server.io();
        let (read, write) = (row(&rows, "read"), row(&rows, "write"));
        let word = format!("{mode:?}").to_lowercase();
        assert_eq!((&read.mode, &write.mode), (&word, &word));
        let bytes: u64 = CALLS.iter().map(|(_, len)| *len as u64).sum();
        let sum = |row: &IoStatus| row.moved_bytes.values().sum::<u64>();
        assert_eq!((read.calls, read.bytes, read.segments), (5, bytes, 4));
        assert_eq!((write.calls, write.bytes, sum(write)), (4, bytes, bytes));
        assert_eq!(read.copied_bytes, 0);
        // All of the smallest, which came in one piece. Of the next as much as came along with its
        // head; from then on the connection expects such WRITEs, and nothing of them is copied.
        let copied = write.copied_bytes;
        assert!((100..=100 + 50_000).contains(&copied), "{copied}");
        if write.moved_bytes.contains_key("direct") {
            assert!(sum(read) > bytes, "READs were not rounded out");
            assert_eq!(read.moved_bytes.len(), 1);
            assert!(read.fallbacks.is_empty(), "{:?}", read.fallbacks);
            // 1 + 3 (head, middle, tail) + 1 + 1.
            assert_eq!(write.segments, 6);
            let short = [("shorter-than-alignment".to_owned(), 1)];
            assert_eq!(write.fallbacks, short.into());
        } else {
            assert_eq!((sum(read), write.segments), (bytes, 4));
        }
    }
}

#[test]
fn a_refusal_is_counted_once_for_each_call_and_traced_where_it_was_met() {
    let served = served(Mode::Direct);
    let mut follower = follow(&served, all());
    let events = block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        let local = std::fs::File::open(served.path().join("f")).unwrap();
        if nfs_io::fs::statx(local.as_fd()).unwrap().dio_offset_align == 0 {
            return Err("no direct I/O in the directory for scratch files");
        }
        let refused = Rule::new(Call::Write, Fault::Fail(Errno::INVAL))
            .in_mode(nfs_io::Mode::Direct)
            .of_file(&local)
            .inject();
        for _ in 0..3 {
            let data = Bytes::from(vec![1; 12_288]);
            ok(client.write(&file, 100, StableHow::Unstable, data).await);
        }
        assert_eq!(refused.hits(), 1, "the refusal is remembered");
        Ok(events(&mut follower))
    });
    let events = match events {
        Ok(events) => events,
        Err(reason) => skip!("{reason}"),
    };
    let rows = served.server.io();
    let row = row(&rows, "write");
    let fallbacks = [("refused-direct".to_owned(), 3)];
    assert_eq!((row.calls, &row.fallbacks), (3, &fallbacks.into()));
    assert_eq!((row.segments, row.bytes), (3 + 1 + 1, 3 * 12_288));
    let moved = [("buffered".to_owned(), 3 * 12_288)];
    assert_eq!(row.moved_bytes, moved.into());
    let moves = events
        .iter()
        .map(short)
        .filter(|event| event.starts_with("write_vector") || event.starts_with("write_direct"));
    let expected = [
        "write_vector 100 3996 buffered",
        "write_direct 4096 8192 direct",
        "write_vector 4096 8192 buffered refused-direct",
        "write_vector 12288 100 buffered refused-direct",
        "write_vector 100 12288 buffered refused-direct",
        "write_vector 100 12288 buffered refused-direct",
    ];
    assert_eq!(moves.collect::<Vec<_>>(), expected);
}

#[test]
fn what_was_refused_when_it_was_opened_is_counted_as_that_every_time() {
    let served = served(Mode::Direct);
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        let local = std::fs::File::open(served.path().join("f")).unwrap();
        let _refused = Rule::new(Call::OpenDirect, Fault::Fail(Errno::INVAL))
            .of_file(&local)
            .inject();
        for _ in 0..3 {
            let data = Bytes::from(vec![1; 12_288]);
            ok(client.write(&file, 0, StableHow::Unstable, data).await);
            ok(client.read(&file, 0, 12_288).await);
        }
    });
    let rows = served.server.io();
    for operation in ["read", "write"] {
        let row = row(&rows, operation);
        let (word, calls) = row.fallbacks.first_key_value().unwrap();
        assert_eq!((row.fallbacks.len(), *calls), (1, 3));
        // Where direct I/O is not offered at all nothing is opened for it.
        assert!(
            ["open-refused", "alignment-unknown"].contains(&word.as_str()),
            "{word}"
        );
        assert_eq!(
            row.moved_bytes,
            [("buffered".to_owned(), 3 * 12_288)].into()
        );
    }
}

#[test]
fn a_call_that_fails_in_the_middle_is_counted_with_what_was_moved() {
    let served = served(Mode::Buffered);
    let mut follower = follow(&served, all());
    let events = block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        let data = Bytes::from_static(b"abc");
        ok(client
            .write(&file, 0, StableHow::Unstable, data.clone())
            .await);
        let local = std::fs::File::open(served.path().join("f")).unwrap();
        let _failing = [Call::Write, Call::Read].map(|call| {
            Rule::new(call, Fault::Fail(Errno::IO))
                .of_file(&local)
                .inject()
        });
        let written = client.write(&file, 0, StableHow::Unstable, data).await;
        assert_eq!(status(written), Nfsstat3::Io);
        assert_eq!(status(client.read(&file, 0, 3).await), Nfsstat3::Io);
        events(&mut follower)
    });
    let rows = served.server.io();
    let (read, write) = (row(&rows, "read"), row(&rows, "write"));
    assert_eq!((write.calls, write.bytes, write.segments), (2, 3, 1));
    assert_eq!((read.calls, read.bytes, read.segments), (1, 0, 0));
    let told: Vec<String> = events.iter().map(short).collect();
    let (_, failed) = told.split_at(5);
    let expected = [
        "write_start 0 3",
        "write_opened 0 3",
        "write_vector 0 3 buffered",
        "write_err 0 NFS3ERR_IO",
        "write_done 0 0",
        "read_start 0 3",
        "read_vector 0 3 buffered",
        "read_err 0 NFS3ERR_IO",
        "read_done 0 0",
    ];
    assert_eq!(failed, expected);
}

#[test]
fn a_reload_keeps_an_exports_figures() {
    let served = served(Mode::Buffered);
    let write = |name: &'static [u8]| {
        block_on(async {
            let client = served.client().await;
            let root = served.root(&client).await;
            let file = create(&client, &root, name).await;
            let data = Bytes::from_static(b"abc");
            ok(client.write(&file, 0, StableHow::Unstable, data).await);
        });
    };
    write(b"f");
    let mut config = served.config.clone();
    config.exports[0].io.write = Mode::DontCache.into();
    served
        .server
        .apply(ExportTable::new(&config).unwrap())
        .unwrap();
    write(b"g");
    let rows = served.server.io();
    let counted: Vec<(&str, u64)> = rows
        .iter()
        .map(|row| (row.mode.as_str(), row.bytes))
        .collect();
    assert_eq!(counted, [("buffered", 3), ("dontcache", 3)]);
}

#[test]
fn calls_of_other_exports_and_clients_are_not_followed() {
    let served = served(Mode::Buffered);
    let elsewhere = FollowRequest {
        client: Some("192.0.2.1".parse().unwrap()),
        ..all()
    };
    let here = FollowRequest {
        events: vec!["write_done".to_owned()],
        export: Some("/".to_owned()),
        client: Some("127.0.0.1".parse().unwrap()),
    };
    let nowhere = FollowRequest {
        export: Some("/other".to_owned()),
        ..all()
    };
    assert!(
        served
            .server
            .follow(&nowhere)
            .unwrap_err()
            .contains("served are: /")
    );
    let (mut elsewhere, mut here) = (follow(&served, elsewhere), follow(&served, here));
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        let data = Bytes::from_static(b"abc");
        ok(client.write(&file, 0, StableHow::Unstable, data).await);
    });
    assert!(elsewhere.at_once().is_none());
    let seen: Vec<String> = events(&mut here).iter().map(short).collect();
    assert_eq!(seen, ["write_done 0 3"]);
}
