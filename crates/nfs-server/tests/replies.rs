//! What a call gets that comes again: over the same connection, over another, by a newcomer, after others
//! have filled the reply cache, after the server was started anew.

mod support;

use std::net::SocketAddr;

use nfs_client::{Identity, RawConnection};
use nfs_server::exports::ExportTable;
use nfs_wire::nfs3::{
    DirOpArgs, FileHandle, Filename, MkdirArgs, Nfsstat3, Procedure, RemoveArgs, Sattr3,
    SetattrArgs, StableHow, WriteArgs,
};
use nfs_wire::rpc::ReplyHeader;
use nfs_wire::{Decode, Decoder, Encode};
use support::{Served, block_on, create, mode};
use tokio::io::Interest;
use tokio::net::TcpSocket;

fn call(xid: u32, procedure: Procedure, args: &impl Encode) -> Vec<u8> {
    let procedure = nfs_client::nfs3::number(procedure);
    RawConnection::call_body(xid, procedure, &Identity::sys(0, 0, &[]), args)
}

fn write(xid: u32, file: FileHandle, data: &[u8], stable: StableHow) -> Vec<u8> {
    let args = WriteArgs {
        file,
        offset: 0,
        count: data.len() as u32,
        stable,
        data,
    };
    call(xid, Procedure::Write, &args)
}

fn place<'a>(dir: &FileHandle, name: &'a [u8]) -> DirOpArgs<'a> {
    DirOpArgs {
        dir: *dir,
        name: Filename(name),
    }
}

fn mkdir(xid: u32, dir: &FileHandle, name: &[u8]) -> Vec<u8> {
    let args = MkdirArgs {
        where_: place(dir, name),
        attributes: mode(0o755),
    };
    call(xid, Procedure::Mkdir, &args)
}

fn status_of(reply: &[u8]) -> Nfsstat3 {
    let mut decoder = Decoder::new(reply);
    ReplyHeader::decode(&mut decoder).unwrap();
    Nfsstat3::decode(&mut decoder).unwrap()
}

async fn exchange(connection: &mut RawConnection, body: &[u8]) -> Vec<u8> {
    connection.exchange(body).await.unwrap().unwrap()
}

/// A connection from another address of this host.
async fn connect_from(source: [u8; 4], to: SocketAddr) -> RawConnection {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((source, 0))).unwrap();
    RawConnection::from_stream(socket.connect(to).await.unwrap())
}

/// Waits until the server has seen the end of all connections but `left`.
async fn until_connections(served: &Served, left: u64) {
    while served.server.status().connections > left {
        // SLEEP: a poll of the server's own figure; nothing announces its change.
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

#[test]
fn a_write_that_comes_again_late_does_not_stand_over_a_later_one() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let mut first = RawConnection::connect(served.addr).await.unwrap();
        let mut second = RawConnection::connect(served.addr).await.unwrap();
        let lens = [1, 1000, 8192, 50_000, 1 << 20];
        for (number, len) in (1_u32..).zip(lens) {
            for stable in [StableHow::Unstable, StableHow::FileSync] {
                let name = format!("f{number}{stable:?}");
                let file = create(&client, &root, name.as_bytes()).await;
                let old = write(number * 2, file, &vec![b'a'; len], stable);
                let new = write(number * 2 + 1, file, &vec![b'b'; len], stable);
                let reply = exchange(&mut first, &old).await;
                assert_eq!(status_of(&reply), Nfsstat3::Ok);
                exchange(&mut first, &new).await;
                assert!(exchange(&mut first, &old).await == reply);
                assert!(exchange(&mut second, &old).await == reply);
                let found = std::fs::read(served.path().join(name)).unwrap();
                assert!(found == vec![b'b'; len], "{len} bytes, {stable:?}");
            }
        }
    });
}

/// A client may have changed a page since it sent it first.
#[test]
fn a_write_is_known_by_its_head() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        let mut raw = RawConnection::connect(served.addr).await.unwrap();
        for len in [100, 50_000] {
            let call = |data: u8| write(5, file, &vec![data; len], StableHow::FileSync);
            let reply = exchange(&mut raw, &call(1)).await;
            assert!(exchange(&mut raw, &call(2)).await == reply);
            let found = std::fs::read(served.path().join("f")).unwrap();
            assert_eq!(&found[..len], vec![1; len]);
        }
        // Another xid, or another length, is another call.
        for (xid, len) in [(6, 100), (5, 101)] {
            exchange(
                &mut raw,
                &write(xid, file, &vec![3; len], StableHow::Unstable),
            )
            .await;
            let found = std::fs::read(served.path().join("f")).unwrap();
            assert_eq!(&found[..len], vec![3; len]);
        }
    });
}

#[test]
fn a_newcomer_gets_no_reply_of_a_client_that_went_away_in_order() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let make = mkdir(1, &root, b"d");
        for _ in 0..3 {
            let mut raw = RawConnection::connect(served.addr).await.unwrap();
            let reply = exchange(&mut raw, &make).await;
            assert_eq!(status_of(&reply), Nfsstat3::Ok);
            // Fails where no directory was made.
            std::fs::remove_dir(served.path().join("d")).unwrap();
            drop(raw);
            until_connections(&served, 1).await;
        }
    });
    assert_eq!(served.counter("replayed_replies"), 0);
}

#[test]
fn who_comes_again_from_another_port_after_a_broken_connection_is_known() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let make = mkdir(1, &root, b"d");
        let mut raw = RawConnection::connect(served.addr).await.unwrap();
        raw.send_record(&make).await.unwrap();
        // The reply is here and is not read: closing the socket resets the connection.
        raw.stream().ready(Interest::READABLE).await.unwrap();
        drop(raw);
        until_connections(&served, 1).await;
        let mut raw = RawConnection::connect(served.addr).await.unwrap();
        let reply = exchange(&mut raw, &make).await;
        assert_eq!(status_of(&reply), Nfsstat3::Ok, "not NFS3ERR_EXIST");
        assert!(exchange(&mut raw, &make).await == reply);
    });
    assert_eq!(served.counter("replayed_replies"), 2);
}

#[test]
fn a_strangers_flood_leaves_the_replies_of_others() {
    const FLOOD: u32 = 20_000;
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        create(&client, &root, b"f").await;
        let object = place(&root, b"f");
        let remove = call(1, Procedure::Remove, &RemoveArgs { object });
        let mut raw = RawConnection::connect(served.addr).await.unwrap();
        let reply = exchange(&mut raw, &remove).await;
        assert_eq!(status_of(&reply), Nfsstat3::Ok);
        let stranger = connect_from([127, 0, 0, 2], served.addr).await;
        flood(stranger, &root, FLOOD).await;
        assert!(exchange(&mut raw, &remove).await == reply);
    });
}

/// This many SETATTRs that change nothing, a hundred at a time.
async fn flood(mut raw: RawConnection, object: &FileHandle, count: u32) {
    for first in (0..count).step_by(100) {
        for xid in first..first + 100 {
            let args = SetattrArgs {
                object: *object,
                new_attributes: Sattr3::default(),
                guard: None,
            };
            let body = call(xid, Procedure::Setattr, &args);
            raw.send_record(&body).await.unwrap();
        }
        for _ in 0..100 {
            let reply = raw.receive_record().await.unwrap().unwrap();
            assert_eq!(status_of(&reply), Nfsstat3::Ok);
        }
    }
}

#[test]
fn a_call_that_was_refused_is_not_remembered() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let mut raw = RawConnection::connect(served.addr).await.unwrap();
        let make = mkdir(1, &root, b"d");
        let mut config = served.config.clone();
        for export in &mut config.exports {
            export.clients.clear();
        }
        let refuse = ExportTable::new(&config).unwrap();
        served.server.apply(refuse).unwrap();
        let reply = exchange(&mut raw, &make).await;
        assert_eq!(status_of(&reply), Nfsstat3::Acces);
        let admit = ExportTable::new(&served.config).unwrap();
        served.server.apply(admit).unwrap();
        let reply = exchange(&mut raw, &make).await;
        assert_eq!(status_of(&reply), Nfsstat3::Ok);
        assert!(served.path().join("d").is_dir());
    });
}
