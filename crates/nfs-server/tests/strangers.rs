//! Hosts that nobody let in, and hosts that take more than their share of the connections.

mod support;

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::time::Duration;

use nfs_client::Identity;
use nfs_server::exports::ExportTable;
use nfs_server::exports::config::Config;
use nfs_wire::nfs3::{FileHandle, Nfsstat3, Procedure, StableHow, WriteArgs};
use nfs_wire::rpc::{ReplyBody, ReplyHeader};
use nfs_wire::{Decode as _, Decoder};
use support::wire::{DEADLINE, call_as, connect_from, marked, record, until};
use support::{Served, block_on, create, scratch};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A connection from this loopback address; `None` when it was reset already.
async fn connect_as(served: &Served, last: u8) -> Option<TcpStream> {
    match connect_from(Ipv4Addr::new(127, 0, 0, last), served.addr).await {
        Ok(stream) => Some(stream),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            None
        }
    }
}

/// A connection from this loopback address over which a call is answered; `None` when the server closed it.
async fn served_from(served: &Served, last: u8) -> Option<TcpStream> {
    let mut stream = connect_as(served, last).await?;
    is_served(&mut stream).await.then_some(stream)
}

/// Whether a NULL call over this connection is answered; if not, the server has closed it.
async fn is_served(stream: &mut TcpStream) -> bool {
    let asked = async {
        stream.write_all(&record(1, Procedure::Null, &())).await?;
        stream.read_exact(&mut [0; 4]).await
    };
    let asked = tokio::time::timeout(DEADLINE, asked).await;
    match asked.expect("neither served nor closed") {
        Ok(_) => {
            let mut rest = [0; 24];
            stream.read_exact(&mut rest).await.unwrap();
            true
        }
        Err(error) => {
            let kinds = [
                ErrorKind::ConnectionReset,
                ErrorKind::BrokenPipe,
                ErrorKind::UnexpectedEof,
            ];
            assert!(kinds.contains(&error.kind()), "{error}");
            false
        }
    }
}

#[test]
fn a_host_that_no_export_names_is_not_listened_to_until_a_reload_names_it() {
    let served = Served::with(|config| {
        config.server.trust_loopback = true;
        config.exports[0].clients[0].net = "127.0.0.1/32".parse().unwrap();
    });
    block_on(async {
        for _ in 0..100 {
            assert!(served_from(&served, 2).await.is_none());
        }
        assert!(served_from(&served, 1).await.is_some());
        assert_eq!(served.counter("connections_not_admitted"), 100);
        assert_eq!(served.counter("connections_accepted"), 1);

        let mut config = served.config.clone();
        config.exports[0].clients[0].net = "127.0.0.2/32".parse().unwrap();
        served
            .server
            .apply(ExportTable::new(&config).unwrap())
            .unwrap();
        assert!(served_from(&served, 2).await.is_some());
        assert!(served_from(&served, 1).await.is_none());
    });
}

#[test]
fn who_runs_the_server_may_look_at_it_from_its_own_machine() {
    let served = Served::with(|config| config.exports[0].clients.clear());
    block_on(async {
        assert!(served_from(&served, 1).await.is_some());
        let client = served.client().await;
        let refused = nfs_wire::mount3::Mountstat3::Acces;
        assert_eq!(support::mount(&client, b"/").await, Err(refused));
    });
}

/// A server with room for 32 connections, 8 of each host.
fn small() -> Served {
    let change = |config: &mut Config| {
        config.server.trust_loopback = true;
        config.exports[0].clients[0].net = "127.0.0.0/8".parse().unwrap();
    };
    Served::within(64, scratch(0o755), None, change)
}

/// Connects until the server takes the connection, which is when another one was idle for long enough.
async fn connect_until_served(served: &Served, last: u8) -> TcpStream {
    let connect = async {
        loop {
            if let Some(stream) = served_from(served, last).await {
                return stream;
            }
            // SLEEP: time itself is what is waited for.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(DEADLINE, connect)
        .await
        .expect("never served")
}

#[test]
fn one_host_has_its_part_of_the_connections_and_its_idlest_one_goes_first() {
    let served = small();
    block_on(async {
        let mut held = Vec::new();
        for _ in 0..8 {
            held.push(served_from(&served, 1).await.unwrap());
        }
        // The first one came first, and spoke last.
        assert!(is_served(&mut held[0]).await);
        let mut other = served_from(&served, 2)
            .await
            .expect("another host has room");
        let mut newcomer = connect_until_served(&served, 1).await;
        assert_eq!(served.counter("connections_displaced"), 1);
        let mut displaced = held.remove(1);
        assert!(!is_served(&mut displaced).await, "it was idle for longest");
        for stream in held.iter_mut().chain([&mut other, &mut newcomer]) {
            assert!(is_served(stream).await);
        }
    });
}

#[test]
fn idle_connections_of_a_few_hosts_do_not_lock_others_out() {
    let served = small();
    block_on(async {
        let mut held = Vec::new();
        for attacker in 1..=4 {
            for _ in 0..8 {
                let mut stream = connect_as(&served, attacker).await.unwrap();
                // Half a mark: in the middle of a call that never comes.
                stream.write_all(&[0x80, 0]).await.unwrap();
                held.push(stream);
            }
        }
        let mut polite = connect_until_served(&served, 9).await;
        // They come again and again, and cost each other their places.
        for _ in 0..20 {
            for attacker in 1..=4 {
                if let Some(mut stream) = connect_as(&served, attacker).await {
                    let _either = stream.write_all(&[0x80, 0]).await;
                    held.push(stream);
                }
            }
            assert!(is_served(&mut polite).await);
        }
        let mut second = connect_until_served(&served, 10).await;
        for stream in [&mut polite, &mut second] {
            assert!(is_served(stream).await);
        }
    });
}

/// The record of a WRITE of so many bytes, as the superuser.
fn write_record(file: FileHandle, len: usize) -> Vec<u8> {
    write_record_as(&Identity::sys(0, 0, &[]), file, len)
}

fn write_record_as(identity: &Identity, file: FileHandle, len: usize) -> Vec<u8> {
    let args = WriteArgs {
        file,
        offset: 0,
        count: len as u32,
        stable: StableHow::Unstable,
        data: &vec![7; len],
    };
    marked(&call_as(identity, 1, Procedure::Write, &args))
}

/// The status of the call that is answered next.
async fn status(stream: &mut TcpStream) -> Nfsstat3 {
    answer(stream).await.expect("the credential is refused")
}

/// The status of the call that is answered next, or `None` where its credential is refused.
async fn answer(stream: &mut TcpStream) -> Option<Nfsstat3> {
    let answered = async {
        let len = stream.read_u32().await.unwrap() & 0x7fff_ffff;
        let mut reply = vec![0; len as usize];
        stream.read_exact(&mut reply).await.unwrap();
        let mut decoder = Decoder::new(&reply);
        let header = ReplyHeader::decode(&mut decoder).unwrap();
        match header.body {
            ReplyBody::Accepted { .. } => Some(Nfsstat3::decode(&mut decoder).unwrap()),
            ReplyBody::Denied(_) => None,
        }
    };
    let answered = tokio::time::timeout(DEADLINE, answered).await;
    answered.expect("no answer")
}

/// Waits until the server has read so many bytes from each of so many connections.
async fn until_received(served: &Served, connections: usize, bytes: u64) {
    until("the server reads", || {
        let clients = served.server.clients();
        let have = clients.iter().filter(|it| it.received_bytes >= bytes);
        have.count() >= connections
    })
    .await;
}

const MIB: usize = 1 << 20;

#[test]
fn a_write_that_is_to_be_refused_takes_no_memory_and_has_its_answer() {
    let served = Served::with(|config| config.server.memory_bytes = 16 << 20);
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        // Nothing was made that is kept for later use.
        let before = served.server.status().memory.in_use_bytes;

        let mut forged = file.as_ref().to_vec();
        *forged.last_mut().unwrap() ^= 1;
        let forged = FileHandle::new(&forged).unwrap();
        let garbage = FileHandle::new(&[7; 32]).unwrap();
        let check_as = async |identity: &Identity, file: FileHandle, expected: Option<Nfsstat3>| {
            let record = write_record_as(identity, file, 4 * MIB);
            let mut held = Vec::new();
            for _ in 0..8 {
                let mut stream = connect_as(&served, 1).await.unwrap();
                stream.write_all(&record[..100_000]).await.unwrap();
                held.push(stream);
            }
            until_received(&served, 8, 100_000).await;
            assert_eq!(served.server.status().memory.in_use_bytes, before);
            for stream in &mut held {
                stream.write_all(&record[100_000..]).await.unwrap();
                assert_eq!(answer(stream).await, expected);
                assert!(is_served(stream).await, "the stream goes on behind it");
            }
        };
        let root_user = Identity::sys(0, 0, &[]);
        let check = async |file, expected| check_as(&root_user, file, Some(expected)).await;
        check(garbage, Nfsstat3::Badhandle).await;
        check(forged, Nfsstat3::Stale).await;
        // A flavor that the server does not know, and AUTH_SYS that is cut short.
        for credential in [Identity::raw(6, &[0; 20]), Identity::raw(1, &[0; 4])] {
            check_as(&credential, file, None).await;
        }
        let mut config = served.config.clone();
        config.exports[0].clients[0].net = "192.0.2.1/32".parse().unwrap();
        config.exports[0].clients.truncate(1);
        let table = ExportTable::new(&config).unwrap();
        served.server.apply(table).unwrap();
        check(file, Nfsstat3::Acces).await;
        assert_eq!(served.server.status().memory.peak_bytes, before);
    });
}

#[test]
fn a_host_whose_writes_do_not_get_on_leaves_others_memory() {
    let served = Served::with(|config| {
        config.server.memory_bytes = 16 << 20;
        config.server.trust_loopback = true;
        config.exports[0].clients[0].net = "127.0.0.0/8".parse().unwrap();
    });
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        // More than all memory for what comes, of one host.
        let record = write_record(file, MIB);
        let mut held = Vec::new();
        for _ in 0..20 {
            let mut stream = connect_as(&served, 5).await.unwrap();
            stream.write_all(&record[..100_000]).await.unwrap();
            held.push(stream);
        }
        until_received(&served, 20, 1000).await;
        let mut polite = connect_as(&served, 6).await.unwrap();
        for _ in 0..10 {
            polite.write_all(&write_record(file, MIB)).await.unwrap();
            assert_eq!(status(&mut polite).await, Nfsstat3::Ok);
        }
        // Nobody had to be given up for that.
        assert_eq!(served.counter("connections_dropped"), 0);
        let open = served.server.clients();
        let theirs = open
            .iter()
            .filter(|it| it.address.starts_with("127.0.0.5:"));
        assert_eq!(theirs.count(), 20);
    });
}

#[test]
fn a_host_with_more_than_its_share_makes_room_though_it_keeps_a_pace() {
    let served = Served::with(|config| {
        config.server.memory_bytes = 16 << 20;
        config.server.trust_loopback = true;
        config.exports[0].clients[0].net = "127.0.0.0/8".parse().unwrap();
    });
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        // Hosts have all memory for what comes, with one call each, which anybody may begin.
        let record = write_record(file, MIB);
        let mut slow = Vec::new();
        let half = served.server.status().memory.budget_bytes / 2;
        while served.server.status().memory.in_use_bytes + MIB as u64 <= half {
            let mut stream = connect_as(&served, 10 + slow.len() as u8).await.unwrap();
            stream.write_all(&record[..100_000]).await.unwrap();
            slow.push(stream);
            until_received(&served, slow.len(), 100_000).await;
        }
        // A little more than a sender under pressure has to send.
        let trickle = async {
            for piece in record[100_000..].chunks(10 << 10) {
                for stream in &mut slow {
                    // One that the server gave up fails.
                    let _given_up = stream.write_all(piece).await;
                }
                // SLEEP: the peers' own pace is what is tested.
                tokio::time::sleep(Duration::from_millis(125)).await;
            }
        };
        let polite = async {
            let mut polite = connect_as(&served, 7).await.unwrap();
            polite.write_all(&write_record(file, MIB)).await.unwrap();
            status(&mut polite).await
        };
        tokio::select! {
            biased;
            () = trickle => panic!("others had to wait until all was sent"),
            answered = polite => assert_eq!(answered, Nfsstat3::Ok),
        }
    });
    assert!(served.counter("connections_dropped") > 0);
}
