//! Clients that want all there is, beside polite ones.

mod support;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use nfs_client::RawConnection;
use nfs_lab::Engine;
use nfs_lab::held_fs::{self, HeldFs};
use nfs_lab::needs::{Need, missing};
use nfs_wire::nfs3::{self, FileHandle, Procedure, ReadArgs, ReaddirplusArgs, StableHow};
use support::wire::{DEADLINE, connect_from, record, until};
use support::{Served, block_on, create, lookup, ok, scratch};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// Another client than those of 127.0.0.1.
const GREEDY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// A connection of the greedy client.
async fn greedy(addr: SocketAddr) -> TcpStream {
    connect_from(GREEDY, addr).await.unwrap()
}

fn readdirplus(dir: FileHandle) -> ReaddirplusArgs {
    ReaddirplusArgs {
        dir,
        cookie: 0,
        cookieverf: [0; 8],
        dircount: 64 << 10,
        maxcount: 256 << 10,
    }
}

fn reads(file: FileHandle, count: u32) -> Vec<u8> {
    (0..count)
        .flat_map(|xid| {
            let args = ReadArgs {
                file,
                offset: 0,
                count: 1 << 20,
            };
            record(xid, Procedure::Read, &args)
        })
        .collect()
}

#[test]
fn who_takes_no_replies_leaves_memory_to_others_and_is_let_be() {
    let served = Served::with(|config| config.server.memory_bytes = 16 << 20);
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        let data = Bytes::from(vec![3; 1 << 20]);
        ok(client.write(&file, 0, StableHow::Unstable, data).await);
        let mut silent = Vec::new();
        for _ in 0..8 {
            let mut stream = greedy(served.addr).await;
            stream.write_all(&reads(file, 100)).await.unwrap();
            silent.push(stream);
        }
        for _ in 0..20 {
            let read = ok(client.read(&file, 0, 1 << 20).await);
            assert_eq!(read.data.len(), 1 << 20);
        }
        // Had the polite client waited for memory, somebody would have been given up for it.
        assert_eq!(served.counter("connections_dropped"), 0);
        drop(silent);
    });
}

/// A file system that holds every READ back, and a client that asks for more than its READs may hold: another
/// client's READ gets its memory, and reaches the file system.
#[test]
fn reads_that_wait_for_their_file_leave_memory_to_other_clients() {
    for need in [Need::Root, Need::Fuse] {
        if let Some(missing) = missing(need, Engine::Threads) {
            return nfs_lab::skipped(&missing);
        }
    }
    let files = scratch(0o755);
    let held = HeldFs::mount(files.path(), vec![7; 64 << 20]).unwrap();
    let served = Served::over(files, None, |config| {
        config.server.memory_bytes = 16 << 20;
    });
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = lookup(&client, &root, held_fs::FILE.as_bytes()).await;
        held.hold_reads();
        let mut stream = greedy(served.addr).await;
        for xid in 0..40 {
            let args = ReadArgs {
                file,
                offset: u64::from(xid) << 20,
                count: 1 << 20,
            };
            let call = record(xid, Procedure::Read, &args);
            stream.write_all(&call).await.unwrap();
        }
        // So many it may have; which of them are first is not said.
        held.wait_for(3).await.unwrap();
        let polite = 63 << 20;
        let read = client.read(&file, polite, 4096);
        let reached = async {
            held.wait_for_read_at(polite).await.unwrap();
            held.let_all_go();
        };
        let (read, ()) = tokio::join!(read, reached);
        assert_eq!(ok(read).data.len(), 4096);
        drop(stream);
    });
    let kept = served.stop();
    drop(held);
    drop(kept);
}

/// Waits until no reply gets on: what the sockets take they have.
async fn until_nothing_moves(served: &Served) {
    let begun = |served: &Served| -> u64 {
        let clients = served.server.clients();
        clients.iter().map(|it| it.sent_bytes).sum()
    };
    let (mut before, mut still) = (0, 0);
    while still < 3 {
        // SLEEP: that nothing moves is seen after a while.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let now = begun(served);
        still = if now == before { still + 1 } else { 0 };
        before = now;
    }
}

#[test]
fn who_takes_a_reply_slowly_loses_its_connection_when_others_wait() {
    const SLOW: usize = 24;
    let served = Served::with(|config| config.server.memory_bytes = 16 << 20);
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        let data = Bytes::from(vec![3; 1 << 20]);
        ok(client.write(&file, 0, StableHow::Unstable, data).await);
        // Hosts enough that there is nothing left for one more.
        let mut slow = Vec::new();
        for host in 0..SLOW as u8 {
            let mut stream = connect_from(Ipv4Addr::new(127, 0, 1, host), served.addr)
                .await
                .unwrap();
            stream.write_all(&reads(file, 100)).await.unwrap();
            slow.push(stream);
        }
        until_nothing_moves(&served).await;
        // 10 KB/s each: a reply takes far longer than a polite client is let wait.
        let trickle = async {
            let mut taken = [0; 2048];
            loop {
                for stream in &mut slow {
                    // Those that the server gave up are at their end.
                    let _given_up = stream.try_read(&mut taken);
                }
                // SLEEP: the peers' own pace is what is tested.
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        let polite = async {
            for _ in 0..3 {
                let read = tokio::time::timeout(DEADLINE, client.read(&file, 0, 1 << 20));
                let read = ok(read.await.expect("slow readers keep the memory"));
                assert_eq!(read.data.len(), 1 << 20);
            }
        };
        tokio::select! {
            () = trickle => {}
            () = polite => {}
        }
    });
    assert!(served.counter("connections_dropped") > 0);
}

#[test]
fn listings_that_nobody_awaits_any_more_are_not_made() {
    const CALLS: u32 = 1000;
    const CONNECTIONS: u32 = 6;
    let served = Served::start();
    for number in 0..200 {
        std::fs::write(served.path().join(format!("f{number}")), b"").unwrap();
    }
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let burst: Vec<u8> = (0..CALLS)
            .flat_map(|xid| record(xid, Procedure::Readdirplus, &readdirplus(root)))
            .collect();
        for _ in 0..CONNECTIONS {
            let mut stream = greedy(served.addr).await;
            stream.write_all(&burst).await.unwrap();
        }
        // The polite client's own listing waits for those of the dead only as far as they have begun.
        let listed = client.readdirplus(&root, 0, [0; 8], 64 << 10, 256 << 10);
        assert_eq!(ok(listed.await).entries.len(), 202);
    });
    let procedures = served.server.status().procedures;
    let listings = procedures.iter().find(|one| one.procedure == "READDIRPLUS");
    let made = listings.unwrap().calls;
    assert!(made < u64::from(CALLS * CONNECTIONS) / 2, "{made} listings");
}

#[test]
fn a_call_that_changes_something_runs_though_its_connection_has_gone() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let names: Vec<String> = (0..200).map(|number| format!("f{number}")).collect();
        let mut burst = Vec::new();
        for (xid, name) in names.iter().enumerate() {
            let where_ = nfs3::DirOpArgs {
                dir: root,
                name: nfs3::Filename(name.as_bytes()),
            };
            let how = nfs3::CreateHow::Guarded(support::mode(0o600));
            let args = nfs3::CreateArgs { where_, how };
            burst.extend(record(xid as u32, Procedure::Create, &args));
        }
        let mut stream = greedy(served.addr).await;
        stream.write_all(&burst).await.unwrap();
        // In order: what was sent before is read before the end is.
        stream.shutdown().await.unwrap();
        let count = || std::fs::read_dir(served.path()).unwrap().count();
        while count() < names.len() {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn a_client_with_a_rate_pauses_and_gets_all_its_answers() {
    let served = Served::with(|config| {
        config.exports[0].clients[0].allowance.bytes_per_second = Some(1 << 20);
        config.exports[0].clients[0].allowance.weight = 5;
    });
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        let data = Bytes::from(vec![3; 1 << 20]);
        ok(client.write(&file, 0, StableHow::Unstable, data).await);
        assert_eq!(served.counter("rate_pauses"), 0, "a second's worth");
        // What is asked for counts: it is more than a second's worth at once, however slow this runs.
        let read = ok(client.read(&file, 0, 2 << 20).await);
        assert_eq!(read.data.len(), 1 << 20);
        assert_eq!(served.counter("rate_pauses"), 1);
        ok(client.getattr(&file).await);
    });
}

/// Sends so many READs of 1 MiB at once, and takes their replies.
async fn stream(addr: SocketAddr, file: FileHandle, count: u32) {
    let mut raw = RawConnection::from_stream(greedy(addr).await);
    raw.send(&reads(file, count)).await.unwrap();
    for _ in 0..count {
        let reply = tokio::time::timeout(DEADLINE, raw.receive_record()).await;
        assert!(reply.expect("no answer").unwrap().is_some());
    }
}

#[test]
fn what_moves_much_takes_turns_where_others_are_beside() {
    let served = Served::start();
    let file = block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        let data = Bytes::from(vec![3; 1 << 20]);
        ok(client.write(&file, 0, StableHow::Unstable, data).await);
        file
    });
    let turns = || served.counter("turns_given");
    block_on(async {
        until("the client has gone", || served.server.clients().is_empty()).await;
        let before = turns();
        stream(served.addr, file, 4).await;
        assert_eq!(turns(), before, "alone it has no turns");
        let beside = served.client().await;
        let root = served.root(&beside).await;
        let before = turns();
        stream(served.addr, file, 4).await;
        assert!(turns() > before, "beside another it has");
        ok(beside.getattr(&root).await);
    });
}
