//! What connections cost in memory, and that it comes back. One test alone in its process: it measures that.

mod support;

use std::time::Duration;

use nfs_wire::nfs3::{Procedure, StableHow, WriteArgs};
use support::wire::record;
use support::{Served, block_on, create};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const MEMORY_BYTES: u64 = 16 * MIB;
/// Of this process, the clients' ends and the system's connections included, without optimisation.
const IDLE_BYTES_MAX: u64 = 8 * KIB;
/// Buffers that connections of a shard may wait with, 64 KiB each.
const LENT_BYTES_MAX: u64 = nfs_server::limits::SCRATCHES_LENT_MAX as u64 * 64 * KIB;
/// What differs from one run to the next.
const SLACK_BYTES: u64 = 6 * MIB;

/// Memory of this process that is no file's, bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() * KIB
}

/// Waits until this is true.
async fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let looked = async {
        while !is_true() {
            // SLEEP: a rest between two looks.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let looked = tokio::time::timeout(Duration::from_secs(60), looked).await;
    assert!(looked.is_ok(), "{what}: {} KiB", resident() / KIB);
}

#[test]
fn connections_cost_what_is_documented_and_give_it_back() {
    // Half of the descriptors are for connections, and a quarter of these is for one user.
    let count = (nfs_io::fs::raise_nofile(u64::MAX) / 10).min(2000);
    let served = Served::with(|config| config.server.memory_bytes = MEMORY_BYTES);
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        let data = vec![7; 4 << 20];
        let args = WriteArgs {
            file,
            offset: 0,
            count: data.len() as u32,
            stable: StableHow::Unstable,
            data: &data,
        };
        let null = record(1, Procedure::Null, &());
        // Behind many small calls, so that much is read at once, the beginning of a large one.
        let mut wide = null.repeat(20);
        wide.extend_from_slice(&record(1, Procedure::Write, &args)[..60_000]);
        drop(data);
        let at_rest = resident();

        let mut connections = Vec::new();
        for _ in 0..count {
            let mut stream = TcpStream::connect(served.addr).await.unwrap();
            stream.write_all(&null).await.unwrap();
            stream.read_exact(&mut [0; 28]).await.unwrap();
            connections.push(stream);
        }
        let idle = resident().saturating_sub(at_rest);
        println!("{} bytes for each idle connection", idle / count);
        assert!(
            idle <= count * IDLE_BYTES_MAX + SLACK_BYTES,
            "{} KiB",
            idle / KIB
        );

        for stream in &mut connections {
            stream.write_all(&wide).await.unwrap();
        }
        drop(client);
        until("the server does not read", || {
            let clients = served.server.clients();
            // One that has memory and does not get on is given up meanwhile.
            clients.iter().all(|it| it.received_bytes > 2 * KIB)
        })
        .await;
        let waiting = resident().saturating_sub(at_rest);
        println!("{} KiB while all wait for memory", waiting / KIB);
        let each = IDLE_BYTES_MAX + 4 * KIB;
        let most = count * each + MEMORY_BYTES + LENT_BYTES_MAX + SLACK_BYTES;
        assert!(waiting <= most, "{} KiB of {}", waiting / KIB, most / KIB);

        drop(connections);
        until("memory stays", || resident() <= at_rest + SLACK_BYTES).await;
        let in_use = || served.server.status().memory.in_use_bytes;
        until("idle buffers stay", || in_use() == 0).await;
    });
}
