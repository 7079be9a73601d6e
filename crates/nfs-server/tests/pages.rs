//! READs whose data is sent from the page cache: what clients get, and what one that takes nothing holds.

mod support;

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use nfs_server::exports::Versions;
use nfs_server::exports::policy::{IoPolicy, Mode};
use nfs_server::limits;
use nfs_wire::Payload;
use nfs_wire::nfs3::{self, FileHandle, Procedure};
use nfs_wire::nfs4::ops::{Openflag4, ReadArgs, ReadOk};
use nfs_wire::nfs4::{ArgOp, Nfsstat4, ResOp};
use support::page_cache::Kept;
use support::v4::{Client, open_args, putfh};
use support::wire::{record, until};
use support::{Served, block_on, lookup, ok};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

const NAME: &str = "f";
const MIB: usize = 1 << 20;
/// So that it ends within a page, and off a word of XDR.
const LEN: usize = 2 * MIB + 4099;

fn byte_at(at: usize) -> u8 {
    (at % 251) as u8 ^ (at / 4096) as u8
}

fn content() -> Vec<u8> {
    (0..LEN).map(byte_at).collect()
}

fn buffered() -> IoPolicy {
    IoPolicy {
        read: Mode::Buffered.into(),
        splice: true,
        ..IoPolicy::default()
    }
}

/// A server of one file, which it reads through the page cache.
fn serve(policy: IoPolicy) -> Served {
    let served = Served::with(|config| {
        config.server.versions = Versions::ALL;
        config.exports[0].io = policy;
    });
    std::fs::write(served.path().join(NAME), content()).unwrap();
    served
}

/// Bytes that were sent from the page cache.
fn spliced(served: &Served) -> u64 {
    let rows = served.server.io();
    rows.iter().map(|row| row.spliced_bytes).sum()
}

#[test]
fn what_comes_is_what_the_file_has() {
    let served = serve(buffered());
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = lookup(&client, &root, NAME.as_bytes()).await;
        let content = content();
        let lens = [1, 4096, 16 << 10, 65_537, 100_003, 300_001, MIB];
        let offsets = [0, 1, 4095, 70_000, LEN - MIB, LEN - 20_000, LEN - 3, LEN];
        let asked = lens.map(|len| offsets.map(|offset| (offset, len)));
        let asked = asked.as_flattened();
        for _ in 0..3 {
            // All at once, so that replies with and without pages come behind each other.
            let mut reads = JoinSet::new();
            for &(offset, len) in asked {
                let client = client.clone();
                reads.spawn(async move {
                    let read = ok(client.read(&file, offset as u64, len as u32).await);
                    (offset, len, read.data, read.eof)
                });
            }
            for (offset, len, data, eof) in reads.join_all().await {
                let end = LEN.min(offset + len);
                assert!(data[..] == content[offset..end], "{len} bytes at {offset}");
                assert_eq!(eof, end == LEN, "{len} bytes at {offset}");
            }
        }
        // The machine may have had no memory for them between two READs, but not each time.
        assert!(spliced(&served) > 0);
    });
}

#[test]
fn whether_pages_are_sent_is_a_choice() {
    const BYTES: u64 = 64 << 10;
    for splice in [true, false] {
        let served = serve(IoPolicy {
            splice,
            ..buffered()
        });
        let _kept = Kept::new(&served.path().join(NAME), std::slice::from_ref(&(0..BYTES)));
        block_on(async {
            let client = served.client().await;
            let root = served.root(&client).await;
            let file = lookup(&client, &root, NAME.as_bytes()).await;
            // The first READ of a file may wait for its map, and is copied then.
            for _ in 0..2 {
                ok(client.read(&file, 0, 4096).await);
            }
            let small = limits::SPLICED_BYTES_MIN - 1;
            ok(client.read(&file, 0, small as u32).await);
            assert_eq!(spliced(&served), 0, "so little is copied");
            let read = ok(client.read(&file, 0, BYTES as u32).await);
            assert!(read.data[..] == content()[..BYTES as usize]);
            assert_eq!(spliced(&served), if splice { BYTES } else { 0 });
        });
    }
}

#[test]
fn a_compound_may_have_several() {
    let served = serve(buffered());
    let content = content();
    block_on(async {
        let mut client = Client::new(&served, 1, b"reader").await;
        let root = client.root().await;
        let how = Openflag4::Nocreate;
        let open = client.open(&root, open_args(NAME.as_bytes(), 1, how)).await;
        let (file, stateid) = open.unwrap();
        let asked = [
            (100, 20_001),
            (5, 3),
            (70_003, 100_002),
            (LEN - 20_000, 30_000),
        ];
        for _ in 0..3 {
            let reads = asked.map(|(offset, count)| {
                ArgOp::Read(ReadArgs {
                    stateid,
                    offset: offset as u64,
                    count: count as u32,
                })
            });
            let ops = [vec![putfh(&file)], reads.into()].concat();
            let read = client.call(ops, |status, results| {
                let data = results[1..].iter().map(|result| match result {
                    ResOp::Read(Ok(ReadOk {
                        data: Payload::Here(data),
                        ..
                    })) => data.to_vec(),
                    _ => panic!("{status:?}"),
                });
                Ok::<_, Nfsstat4>(data.collect::<Vec<_>>())
            });
            for ((offset, count), data) in asked.iter().zip(read.await.unwrap()) {
                let end = LEN.min(offset + count);
                assert!(data == content[*offset..end], "{count} bytes at {offset}");
            }
        }
        assert!(spliced(&served) > 0);
    });
}

/// A connection of which the replies to so many READs are not taken.
async fn silent(served: &Served, file: FileHandle, count: usize, bytes: u32) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    // Little waits in the sockets, so that most waits in the server.
    socket.set_recv_buffer_size(16 << 10).unwrap();
    let mut stream = socket.connect(served.addr).await.unwrap();
    for number in 0..count {
        let args = nfs3::ReadArgs {
            file,
            offset: (number % 16) as u64 * 4096,
            count: bytes,
        };
        let call = record(number as u32, Procedure::Read, &args);
        stream.write_all(&call).await.unwrap();
    }
    stream
}

#[test]
fn who_takes_no_replies_keeps_nobody_from_reading() {
    const BYTES: u32 = 64 << 10;
    let served = serve(buffered());
    let content = content();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = lookup(&client, &root, NAME.as_bytes()).await;
        for _ in 0..2 {
            ok(client.read(&file, 0, BYTES).await);
        }
        let in_use = || served.server.status().memory.in_use_bytes;
        let at_rest = in_use();
        // As many as have a pipe each, and then more than there are pipes.
        for (connections, calls) in [(1, limits::PIPES_MAX / 2 - 16), (4, limits::PIPES_MAX)] {
            let mut silent_ones = Vec::new();
            for _ in 0..connections {
                silent_ones.push(silent(&served, file, calls, BYTES).await);
            }
            until("replies wait", || in_use() > at_rest + (1 << 20)).await;
            for number in 0..100_usize {
                let offset = number * 4097;
                let read = ok(client.read(&file, offset as u64, BYTES).await);
                assert!(read.data[..] == content[offset..offset + BYTES as usize]);
            }
            drop(silent_ones);
            if connections == 1 {
                // What a copy took is kept for the next one for a while.
                until("memory comes back", || in_use() <= at_rest + (1 << 20)).await;
            }
        }
    });
}

#[test]
fn a_file_that_is_cut_and_grows_meanwhile_sends_its_bytes_or_zeros() {
    let served = serve(buffered());
    let path = served.path().join(NAME);
    let content = content();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let local = File::options().write(true).open(&path).unwrap();
            while !is_over.load(Ordering::Relaxed) {
                local.set_len(100_000).unwrap();
                local.write_all_at(&content[100_000..], 100_000).unwrap();
            }
        });
        block_on(async {
            let client = served.client().await;
            let root = served.root(&client).await;
            let file = lookup(&client, &root, NAME.as_bytes()).await;
            for number in 0..100_usize {
                let offset = number * 4099 % MIB;
                let bytes = if number % 2 == 0 { 100_000 } else { 400_000 };
                let read = ok(client.read(&file, offset as u64, bytes).await);
                for (at, byte) in read.data.iter().enumerate() {
                    let is_right = *byte == content[offset + at] || *byte == 0;
                    assert!(is_right, "{byte} at {}", offset + at);
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
    });
}
