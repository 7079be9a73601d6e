//! Connections: bytes that are no calls, peers that stall, repeated calls, and the server's end.

mod support;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use bytes::Bytes;
use nfs_client::RawConnection;
use nfs_server::exports::policy::Mode;
use nfs_wire::encode_to_vec;
use nfs_wire::nfs3::{
    self, CreateArgs, CreateHow, DirOpArgs, FileHandle, Filename, GetattrArgs, Nfsstat3, Procedure,
    ReadArgs, RemoveArgs, Sattr3, StableHow, WriteArgs,
};
use nfs_wire::record::FragmentHeader;
use nfs_wire::rpc::{AcceptStat, ReplyHeader};
use support::wire::{answer, call, marked, record};
use support::{Served, block_on, create, lookup, mkdir, mode, ok, status};

fn place<'a>(dir: &FileHandle, name: &'a [u8]) -> DirOpArgs<'a> {
    DirOpArgs {
        dir: *dir,
        name: Filename(name),
    }
}

#[test]
fn a_repeated_call_gets_the_first_reply() {
    let served = Served::start();
    block_on(async {
        let root = served.root(&served.client().await).await;
        let mut first = RawConnection::connect(served.addr).await.unwrap();
        let mut second = RawConnection::connect(served.addr).await.unwrap();
        let how = CreateHow::Guarded(mode(0o644));
        let where_ = place(&root, b"f");
        let make = call(77, Procedure::Create, &CreateArgs { where_, how });
        let remove = call(78, Procedure::Remove, &RemoveArgs { object: where_ });
        for body in [&make, &remove] {
            let reply = first.exchange(body).await.unwrap().unwrap();
            assert_eq!(answer(&reply).1, Nfsstat3::Ok);
            assert_eq!(first.exchange(body).await.unwrap().unwrap(), reply);
            assert_eq!(second.exchange(body).await.unwrap().unwrap(), reply);
        }
        // Under another xid it is another call.
        let again = call(79, Procedure::Remove, &RemoveArgs { object: where_ });
        let reply = second.exchange(&again).await.unwrap().unwrap();
        assert_eq!(answer(&reply), (79, Nfsstat3::Noent));
    });
    assert_eq!(served.counter("replayed_replies"), 4);
    // What is answered from the reply cache is answered as well, and soon.
    let procedures = served.server.status().procedures;
    let calls = |name| {
        let procedure = procedures.iter().find(|one| one.procedure == name);
        procedure.map(|one| one.calls)
    };
    assert_eq!((calls("CREATE"), calls("REMOVE")), (Some(3), Some(4)));
}

#[test]
fn a_call_that_is_cut_anywhere_is_answered() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        let mut raw = RawConnection::connect(served.addr).await.unwrap();
        let data = vec![9; 20_000];
        let args = WriteArgs {
            file,
            offset: 0,
            count: data.len() as u32,
            stable: StableHow::Unstable,
            data: &data,
        };
        let body = call(1, Procedure::Write, &args);
        let mut bytes = marked(&body);
        bytes.extend(record(2, Procedure::Getattr, &GetattrArgs { object: file }));
        for cut in (0..300).chain([1024, 1028, 8192, 20_100, bytes.len() - 1]) {
            raw.send(&bytes[..cut]).await.unwrap();
            tokio::task::yield_now().await;
            raw.send(&bytes[cut..]).await.unwrap();
            let mut xids = Vec::new();
            for _ in 0..2 {
                let reply = raw.receive_record().await.unwrap().unwrap();
                let (xid, status) = answer(&reply);
                assert_eq!(status, Nfsstat3::Ok, "cut at {cut}");
                xids.push(xid);
            }
            xids.sort_unstable();
            assert_eq!(xids, [1, 2], "cut at {cut}");
        }
        // The same in fragments of a WRITE's record.
        for len in [1, 100, 1000, 5000] {
            let mut bytes = Vec::new();
            let pieces = body.chunks(len.max(body.len() / 500)).collect::<Vec<_>>();
            for (at, piece) in pieces.iter().enumerate() {
                let last = at + 1 == pieces.len();
                let len = piece.len() as u32;
                bytes.extend(FragmentHeader { last, len }.to_bytes());
                bytes.extend_from_slice(piece);
            }
            raw.send(&bytes).await.unwrap();
            let reply = raw.receive_record().await.unwrap().unwrap();
            assert_eq!(answer(&reply), (1, Nfsstat3::Ok));
        }
        // One that ends before its data does is garbage, and the next call is heard.
        let cut = &body[..20_000];
        let (first, last) = cut.split_at(5000);
        let mut bytes = Vec::new();
        for (piece, is_last) in [(first, false), (last, true)] {
            let len = piece.len() as u32;
            bytes.extend(FragmentHeader { last: is_last, len }.to_bytes());
            bytes.extend_from_slice(piece);
        }
        raw.send(&bytes).await.unwrap();
        let reply = raw.receive_record().await.unwrap().unwrap();
        let garbage = encode_to_vec(&ReplyHeader::accepted(1, AcceptStat::GarbageArgs));
        assert_eq!(reply, garbage);
        let reply = raw.exchange(&body).await.unwrap().unwrap();
        assert_eq!(answer(&reply), (1, Nfsstat3::Ok));
        let read = ok(client.read(&file, 0, 30_000).await);
        assert!(read.data[..] == data[..]);
    });
}

#[test]
fn what_is_no_call_ends_its_connection_and_no_other() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let endless = [0x7f, 0xff, 0xff, 0xff];
        let noise: Vec<u8> = (0..100_000_u32)
            .map(|at| 200 + (at * 31 % 50) as u8)
            .collect();
        let neither = marked(&[0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0]);
        let empty = marked(&[]);
        let no_end = [0; 4].repeat(2000);
        for bytes in [
            &endless[..],
            b"\xff\xff\xff\xff",
            &noise,
            &neither,
            &empty,
            &no_end,
        ] {
            let mut raw = RawConnection::connect(served.addr).await.unwrap();
            // The server may have closed it before all of it is sent.
            let _sent = raw.send(bytes).await;
            assert!(matches!(raw.receive_record().await, Ok(None) | Err(_)));
        }
        ok(client.getattr(&root).await);
    });
    assert_eq!(served.counter("connections_dropped"), 6);
    assert_eq!(served.counter("bad_records"), 6);
}

#[test]
fn a_reply_that_nobody_awaits_is_counted_and_the_stream_goes_on() {
    let served = Served::start();
    block_on(async {
        let root = served.root(&served.client().await).await;
        let mut raw = RawConnection::connect(served.addr).await.unwrap();
        let stray = encode_to_vec(&ReplyHeader::accepted(9, AcceptStat::Success));
        let long = [stray.clone(), vec![0; 50_000]].concat();
        raw.send_record(&stray).await.unwrap();
        raw.send_record(&long).await.unwrap();
        let getattr = call(9, Procedure::Getattr, &GetattrArgs { object: root });
        let reply = raw.exchange(&getattr).await.unwrap().unwrap();
        assert_eq!(answer(&reply), (9, Nfsstat3::Ok));
    });
    assert_eq!(served.counter("stray_replies"), 2);
    assert_eq!(served.counter("bad_records"), 0);
}

#[test]
fn a_write_whose_count_is_not_its_length_writes_nothing() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        let mut raw = RawConnection::connect(served.addr).await.unwrap();
        for len in [10, 20_000] {
            for count in [0, len - 1, len + 1, u32::MAX] {
                let args = WriteArgs {
                    file,
                    offset: 0,
                    count,
                    stable: StableHow::FileSync,
                    data: &vec![1; len as usize],
                };
                let body = call(count, Procedure::Write, &args);
                let reply = raw.exchange(&body).await.unwrap().unwrap();
                assert_eq!(answer(&reply).1, Nfsstat3::Inval);
            }
        }
        assert_eq!(ok(client.getattr(&file).await).obj_attributes.size, 0);
    });
}

#[test]
fn calls_in_one_burst_are_all_answered() {
    // More than may run at once on a connection, and a listing each, which always leaves the shard.
    const CALLS: u32 = 3000;
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let raw = RawConnection::connect(served.addr).await.unwrap();
        let args = nfs3::ReaddirArgs {
            dir: root,
            cookie: 0,
            cookieverf: [0; 8],
            count: 4096,
        };
        let burst: Vec<u8> = (0..CALLS)
            .flat_map(|xid| record(xid, Procedure::Readdir, &args))
            .collect();
        let mut seen = receive_while_sending(raw, burst, CALLS as usize).await;
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..CALLS));
    });
}

#[test]
fn a_peer_that_waits_for_a_whole_burst_has_the_first_half_of_the_replies_early() {
    let served = Served::start();
    let root = block_on(async { served.root(&served.client().await).await });
    let args = GetattrArgs { object: root };
    has_half_early(&served, |xid| record(xid, Procedure::Getattr, &args));
}

/// What waits for the engine goes to the kernel by halves, which is done with it at once in memory.
#[test]
fn a_peer_that_waits_for_a_burst_of_reads_has_the_first_half_of_them_early() {
    let in_memory = tempfile::tempdir_in("/dev/shm").unwrap();
    std::fs::set_permissions(in_memory.path(), Permissions::from_mode(0o755)).unwrap();
    std::fs::write(in_memory.path().join("f"), [7; 4096]).unwrap();
    let served = Served::over(in_memory, None, |config| {
        config.exports[0].io.read = Mode::Direct.into();
    });
    if !served.server.status().engine.starts_with("io_uring") {
        support::skip!("no io_uring: each READ is handed to a thread when it comes");
    }
    let file = block_on(async {
        let client = served.client().await;
        lookup(&client, &served.root(&client).await, b"f").await
    });
    let args = ReadArgs {
        file,
        offset: 0,
        count: 512,
    };
    has_half_early(&served, |xid| record(xid, Procedure::Read, &args));
}

/// Sends bursts of a call until half of the replies come before the others.
fn has_half_early(served: &Served, call: impl Fn(u32) -> Vec<u8>) {
    use std::io::{Read as _, Write as _};

    const CALLS: u32 = 32;
    let mut stream = std::net::TcpStream::connect(served.addr).unwrap();
    stream.write_all(&call(CALLS)).unwrap();
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).unwrap();
    let mut one = vec![0; FragmentHeader::parse(mark).len as usize];
    stream.read_exact(&mut one).unwrap();
    assert_eq!(answer(&one), (CALLS, Nfsstat3::Ok));
    let len = (mark.len() + one.len()) * CALLS as usize;
    let burst: Vec<u8> = (0..CALLS).flat_map(call).collect();
    // Who is slow to wake finds both halves there.
    let mut rounds = 0..1000;
    let first = rounds.find_map(|_| {
        stream.write_all(&burst).unwrap();
        let mut replies = vec![0; len];
        let first = stream.read(&mut replies).unwrap();
        stream.read_exact(&mut replies[first..]).unwrap();
        (first < len).then_some(first)
    });
    assert_eq!(first, Some(len / 2), "after {rounds:?}");
}

/// Sends all at once and collects the xids of this many replies.
async fn receive_while_sending(raw: RawConnection, bytes: Vec<u8>, count: usize) -> Vec<u32> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut raw = raw;
    let (mut read, mut write) = raw.stream().split();
    let receive = async {
        let mut xids = Vec::new();
        while xids.len() < count {
            let mark = read.read_u32().await.unwrap();
            let mut body = vec![0; (mark & 0x7fff_ffff) as usize];
            read.read_exact(&mut body).await.unwrap();
            let (xid, status) = answer(&body);
            assert_eq!(status, Nfsstat3::Ok);
            xids.push(xid);
        }
        xids
    };
    let (xids, sent) = tokio::join!(receive, write.write_all(&bytes));
    sent.unwrap();
    xids
}

#[test]
fn a_client_that_reads_no_replies_holds_no_more_than_its_share() {
    let served = Served::with(|config| config.server.memory_bytes = 16 << 20);
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        let data = Bytes::from(vec![3; 1 << 20]);
        ok(client.write(&file, 0, StableHow::Unstable, data).await);
        // Enough to hold the whole share. With more, what one is made to give goes to the next first, and each is
        // waited for in turn.
        let mut silent = Vec::new();
        for _ in 0..2 {
            let mut raw = RawConnection::connect(served.addr).await.unwrap();
            let burst: Vec<u8> = (0..200)
                .flat_map(|xid| {
                    let args = ReadArgs {
                        file,
                        offset: 0,
                        count: 1 << 20,
                    };
                    record(xid, Procedure::Read, &args)
                })
                .collect();
            raw.send(&burst).await.unwrap();
            silent.push(raw);
        }
        // Others go on: the silent are given up when somebody waits for what they hold.
        for _ in 0..20 {
            let read = ok(client.read(&file, 0, 1 << 20).await);
            assert_eq!(read.data.len(), 1 << 20);
        }
        let memory = served.server.status().memory;
        assert!(memory.peak_bytes <= memory.budget_bytes);
        drop(silent);
    });
    assert!(served.counter("connections_dropped") > 0);
}

#[test]
fn senders_that_trickle_do_not_keep_the_memory_from_others() {
    let served = Served::with(|config| config.server.memory_bytes = 16 << 20);
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        let data = vec![4; 1 << 20];
        let args = WriteArgs {
            file,
            offset: 0,
            count: data.len() as u32,
            stable: StableHow::Unstable,
            data: &data,
        };
        let bytes = record(1, Procedure::Write, &args);
        let mut slow = Vec::new();
        for _ in 0..16 {
            let mut raw = RawConnection::connect(served.addr).await.unwrap();
            raw.send(&bytes[..10_000]).await.unwrap();
            slow.push(raw);
        }
        let trickle = async {
            loop {
                for raw in &mut slow {
                    // Those that the server gave up fail.
                    let _given_up = raw.send(&[4]).await;
                }
                // SLEEP: the peer's own pace is what is tested.
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        let write = async {
            for _ in 0..4 {
                let data = Bytes::from(data.clone());
                ok(client.write(&file, 0, StableHow::Unstable, data).await);
            }
        };
        tokio::select! {
            () = trickle => {}
            () = write => {}
        }
    });
    assert!(served.counter("connections_dropped") > 0);
}

#[test]
fn thousands_of_half_open_connections_keep_nobody_out() {
    // Half of the descriptors are for connections, and a quarter of these is for one user.
    let fds = usize::try_from(nfs_io::fs::raise_nofile(u64::MAX)).unwrap_or(usize::MAX);
    let count = (fds / 10).min(4000);
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let mut half_open = Vec::new();
        for number in 0..count {
            let mut raw = RawConnection::connect(served.addr).await.unwrap();
            let beginning = [0x80, 0, 0x10, 0, 1, 2, 3];
            raw.send(&beginning[..number % beginning.len()])
                .await
                .unwrap();
            half_open.push(raw);
        }
        let dir = mkdir(&client, &root, b"d").await;
        for number in 0..50_u32 {
            create(
                &client,
                &dir,
                &number.to_be_bytes().map(|byte| b'a' + byte % 26),
            )
            .await;
            ok(client
                .remove(&dir, &number.to_be_bytes().map(|byte| b'a' + byte % 26))
                .await);
        }
        assert!(served.server.status().memory.in_use_bytes < 8 << 20);
    });
}

#[test]
fn the_end_of_the_server_waits_for_calls_and_sends_their_replies() {
    for _ in 0..5 {
        let served = Served::start();
        block_on(async {
            let client = served.client().await;
            let root = served.root(&client).await;
            let mut raw = RawConnection::connect(served.addr).await.unwrap();
            // One that is answered for certain, so that those behind it are under way.
            let getattr = call(0, Procedure::Getattr, &GetattrArgs { object: root });
            raw.exchange(&getattr).await.unwrap().unwrap();
            let names: Vec<String> = (0..40).map(|number| format!("f{number}")).collect();
            for (xid, name) in (1..).zip(&names) {
                let how = CreateHow::Guarded(Sattr3::default());
                let where_ = place(&root, name.as_bytes());
                let make = call(xid, Procedure::Create, &CreateArgs { where_, how });
                raw.send_record(&make).await.unwrap();
            }
            let first = raw.receive_record().await.unwrap().unwrap();
            assert_eq!(answer(&first).1, Nfsstat3::Ok);
            let (files, _state) = tokio::task::spawn_blocking(|| served.stop()).await.unwrap();
            let mut answered = 1;
            while let Ok(Some(reply)) = raw.receive_record().await {
                assert_eq!(answer(&reply).1, Nfsstat3::Ok);
                answered += 1;
            }
            let made = std::fs::read_dir(files.path()).unwrap().count();
            assert_eq!(made, answered, "what was done was answered");
        });
    }
}

#[test]
fn replies_are_sent_with_the_congestion_control_of_the_configuration() {
    let served = Served::with(|config| config.server.congestion_control = Some("reno".to_owned()));
    let shown = block_on(async {
        let mut raw = RawConnection::connect(served.addr).await.unwrap();
        let null = call(1, Procedure::Null, &());
        raw.exchange(&null).await.unwrap().unwrap();
        let mut ss = std::process::Command::new("ss");
        ss.args(["-Htin", "sport", "="])
            .arg(format!(":{}", served.addr.port()));
        ss.output().expect("ss of the package iproute2")
    });
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(
        shown.split_whitespace().any(|word| word == "reno"),
        "{shown}"
    );
    let told = served.server.status().congestion_control;
    assert_eq!(told.as_deref(), Some("reno"));
}

#[test]
fn connections_are_counted_down_again() {
    let served = Served::start();
    block_on(async {
        for _ in 0..20 {
            let client = served.client().await;
            let root = served.root(&client).await;
            ok(client.getattr(&root).await);
            assert_eq!(status(client.lookup(&root, b"none").await), Nfsstat3::Noent);
        }
        // The last is closed by the server's side some time after ours.
        while served.server.status().connections > 0 {
            tokio::task::yield_now().await;
        }
        assert!(served.server.clients().is_empty());
    });
    assert_eq!(served.counter("connections_accepted"), 20);
}
