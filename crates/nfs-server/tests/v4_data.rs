//! The data of NFSv4's WRITEs: received apart from its record, as NFSv3's is, whatever stands around it.

mod support;

use std::os::unix::fs::MetadataExt as _;

use nfs_client::{Identity, RawConnection};
use nfs_server::exports::config::Config;
use nfs_server::exports::policy::Mode;
use nfs_server::exports::{ExportTable, Versions};
use nfs_wire::nfs4::ops::{
    Createhow4, GetattrArgs, Openflag4, ReadArgs, SequenceArgs, WriteArgs, WriteOk,
};
use nfs_wire::nfs4::{
    self, ArgOp, Attribute, CompoundArgs, CompoundRes, FileHandle, Nfsstat4, ResOp, StableHow4,
    Stateid4, Tag,
};
use nfs_wire::record::FragmentHeader;
use nfs_wire::rpc::{AcceptStat, ReplyBody, ReplyHeader};
use nfs_wire::{Decode as _, Decoder, Payload, encode_to_vec};
use rustix::time::{ClockId, clock_gettime};
use support::v4::{Client, fattr, of_mode, open_args, putfh, raw};
use support::wire::{DEADLINE, connect_from, marked, until};
use support::{Served, block_on};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const MIB: usize = 1 << 20;
/// More than is received with its record.
const LARGE: usize = 20_001;

fn serve(change: impl FnOnce(&mut Config)) -> Served {
    Served::with(|config| {
        config.server.versions = Versions::ALL;
        change(config);
    })
}

async fn opened(client: &mut Client) -> (FileHandle, Stateid4) {
    let root = client.root().await;
    let mode = of_mode(0o644);
    let how = Openflag4::Create(Createhow4::Unchecked(fattr(&mode)));
    let open = client.open(&root, open_args(b"f", 3, how)).await;
    open.unwrap()
}

fn write_op(stateid: Stateid4, offset: u64, data: &[u8]) -> ArgOp<'_> {
    ArgOp::Write(WriteArgs {
        stateid,
        offset,
        stable: StableHow4::Unstable,
        data: Payload::Here(data),
    })
}

fn size() -> ArgOp<'static> {
    let attr_request = Attribute::Size.bit();
    ArgOp::Getattr(GetattrArgs { attr_request })
}

/// The bytes of a COMPOUND's call, without its record mark.
fn call_body(identity: &Identity, argarray: Vec<ArgOp<'_>>) -> Vec<u8> {
    let procedure = nfs_client::Procedure {
        program: nfs4::PROGRAM,
        version: nfs4::VERSION,
        number: nfs4::PROC_COMPOUND,
    };
    let args = CompoundArgs {
        tag: Tag(b"test"),
        minorversion: 1,
        argarray,
    };
    RawConnection::call_body(9, procedure, identity, &args)
}

/// The next reply on a connection.
async fn answered<T>(stream: &mut TcpStream, look: impl FnOnce(CompoundRes<'_>) -> T) -> T {
    let answered = async {
        let len = stream.read_u32().await.unwrap() & 0x7fff_ffff;
        let mut reply = vec![0; len as usize];
        stream.read_exact(&mut reply).await.unwrap();
        reply
    };
    let reply = tokio::time::timeout(DEADLINE, answered).await;
    let reply = reply.expect("no answer");
    let mut decoder = Decoder::new(&reply);
    let header = ReplyHeader::decode(&mut decoder).unwrap();
    let accepted = AcceptStat::Success;
    assert!(matches!(header.body, ReplyBody::Accepted { stat, .. } if stat == accepted));
    look(CompoundRes::decode(&mut decoder).unwrap())
}

fn next_sequence(client: &mut Client, cachethis: bool) -> SequenceArgs {
    match client.sequence() {
        ArgOp::Sequence(sequence) => SequenceArgs {
            cachethis,
            ..sequence
        },
        _ => unreachable!(),
    }
}

#[test]
fn large_payloads_are_not_copied_but_for_what_comes_with_the_first_head() {
    for mode in [Mode::Buffered, Mode::DontCache, Mode::Direct] {
        let served = serve(|config| {
            config.exports[0].io.read = mode.into();
            config.exports[0].io.write = mode.into();
        });
        block_on(async {
            let mut client = Client::new(&served, 1, b"one").await;
            let (file, stateid) = opened(&mut client).await;
            for number in 0..20_u64 {
                let data = vec![number as u8; MIB];
                let offset = (number << 20) + 77;
                let write = write_op(stateid, offset, &data);
                let ops = vec![putfh(&file), write, size()];
                let told = client.call(ops, |status, results| match results {
                    [
                        _,
                        ResOp::Write(Ok(WriteOk { count, .. })),
                        ResOp::Getattr(Ok(got)),
                    ] => {
                        let values = got.obj_attributes.decode_values().unwrap();
                        (*count as usize, values.size.unwrap())
                    }
                    _ => panic!("{status}: {results:?}"),
                });
                assert_eq!(told.await, (MIB, offset + MIB as u64));
            }
            for number in 0..20_u64 {
                let at = ((number << 20) + 77, MIB as u32);
                let (data, _) = client.read(&file, stateid, at).await.unwrap();
                assert!(data == [number as u8; MIB]);
            }
        });
        let rows = served.server.status().io;
        let row = |word: &str| rows.iter().find(|row| row.operation == word).unwrap();
        assert_eq!(row("read").copied_bytes, 0);
        // One read of the socket, when no WRITE was expected yet.
        assert!(row("write").copied_bytes <= 256 << 10, "{mode:?}");
        assert_eq!(row("write").bytes, 20 << 20);
    }
}

/// A look at the times before the second would give it a time of its own: docs/durability.md.
#[test]
fn the_writes_of_one_tick_share_its_time() {
    let served = serve(|_config| {});
    let path = served.path().join("f");
    let now = || {
        let now = clock_gettime(ClockId::RealtimeCoarse);
        (now.tv_sec, now.tv_nsec)
    };
    block_on(async {
        let mut client = Client::new(&served, 1, b"one").await;
        let (file, stateid) = opened(&mut client).await;
        let mut shared = false;
        // Anybody on this machine whose change gets a time of its own takes the rest of the tick along.
        for _ in 0..1000 {
            let before = now();
            while now() == before {}
            let begun = now();
            let write = || write_op(stateid, 0, b"x");
            client.ok(vec![putfh(&file), write(), write()]).await;
            let stat = std::fs::metadata(&path).unwrap();
            shared |= (stat.ctime(), stat.ctime_nsec()) == begun;
            if shared {
                break;
            }
        }
        assert!(shared);
    });
}

#[test]
fn what_stands_around_the_data_is_carried_out_in_its_place() {
    let served = serve(|_config| {});
    block_on(async {
        let mut client = Client::new(&served, 1, b"one").await;
        let (file, stateid) = opened(&mut client).await;
        let before = served.server.status().memory.in_use_bytes;
        let large = vec![1; LARGE];
        let counts = |_: Nfsstat4, results: &[ResOp<'_>]| -> Vec<Result<u32, Nfsstat4>> {
            let writes = results.iter().filter_map(|result| match result {
                ResOp::Write(done) => Some(done.as_ref().map(|ok| ok.count).map_err(|it| *it)),
                _ => None,
            });
            writes.collect()
        };
        // A second WRITE comes with the record, and so does a READ of what both wrote.
        let ops = vec![
            putfh(&file),
            write_op(stateid, 0, &large),
            write_op(stateid, 5, b"second"),
            ArgOp::Read(ReadArgs {
                stateid,
                offset: 4,
                count: 8,
            }),
        ];
        let read = client.call(ops, |status, results| match results.last() {
            Some(ResOp::Read(Ok(ok))) => assert_eq!(ok.data, Payload::Here(b"\x01second\x01")),
            other => panic!("{status}: {other:?}"),
        });
        read.await;
        // Data for a handle that is none, or for what was not opened for it, belongs to nobody.
        let forged = FileHandle::new(&[7; 40]).unwrap();
        let ops = vec![putfh(&forged), write_op(stateid, 0, &large), size()];
        assert_eq!(client.status(ops).await, Nfsstat4::Badhandle);
        let root = client.root().await;
        let ops = vec![putfh(&root), write_op(stateid, 0, &large), size()];
        assert_eq!(client.status(ops).await, Nfsstat4::Isdir);
        // The data of the first WRITE is not the second one's, though the first fails.
        let denied = vec![
            putfh(&file),
            write_op(Stateid4::CURRENT, 0, &large),
            write_op(stateid, 0, b"no"),
        ];
        assert_eq!(
            client.call(denied, counts).await,
            [Err(Nfsstat4::BadStateid)]
        );
        let nothing = vec![putfh(&file), write_op(stateid, 0, b"")];
        assert_eq!(client.call(nothing, counts).await, [Ok(0)]);
        // As much as was agreed on, and more than that.
        let longest = vec![2; MIB];
        let ops = vec![putfh(&file), write_op(stateid, 0, &longest)];
        assert_eq!(client.call(ops, counts).await, [Ok(MIB as u32)]);
        let too_long = vec![3; MIB + 8192];
        let sequence = client.sequence();
        let ops = vec![sequence, putfh(&file), write_op(stateid, 0, &too_long)];
        let status = raw(&client.nfs, 1, ops, |res| res.status).await;
        assert_eq!(status, Nfsstat4::ReqTooBig);
        client.sequence -= 1;
        let (data, _) = client.read(&file, stateid, (0, MIB as u32)).await.unwrap();
        assert!(data == longest);
        let idle = served.server.status().memory;
        assert!(idle.in_use_bytes >= before, "{idle:?}");
    });
}

#[test]
fn a_write_that_is_to_be_refused_takes_no_memory_and_has_its_answer() {
    const HELD: usize = 100_000;
    let served = serve(|config| config.server.memory_bytes = 16 << 20);
    block_on(async {
        let mut client = Client::new(&served, 1, b"one").await;
        let (file, stateid) = opened(&mut client).await;
        let before = served.server.status().memory.in_use_bytes;
        let root = Identity::sys(0, 0, &[]);
        let data = vec![7; MIB];
        let mut forged = file.as_ref().to_vec();
        *forged.last_mut().unwrap() ^= 1;
        let forged = FileHandle::new(&forged).unwrap();
        let own = std::net::Ipv4Addr::LOCALHOST;
        let mut check = async |file: FileHandle, expected: Nfsstat4| {
            let sequence = ArgOp::Sequence(next_sequence(&mut client, false));
            let ops = vec![sequence, putfh(&file), write_op(stateid, 0, &data), size()];
            let record = marked(&call_body(&root, ops));
            let mut stream = connect_from(own, served.addr).await.unwrap();
            stream.write_all(&record[..HELD]).await.unwrap();
            until("the server reads", || {
                let clients = served.server.clients();
                clients.iter().any(|it| it.received_bytes == HELD as u64)
            })
            .await;
            assert_eq!(served.server.status().memory.in_use_bytes, before);
            stream.write_all(&record[HELD..]).await.unwrap();
            let status = answered(&mut stream, |res| res.status).await;
            assert_eq!(status, expected);
        };
        check(forged, Nfsstat4::Stale).await;
        check(FileHandle::new(&[7; 32]).unwrap(), Nfsstat4::Badhandle).await;
        let mut config = served.config.clone();
        config.exports[0].clients[0].versions = Versions::V3;
        let table = ExportTable::new(&config).unwrap();
        served.server.apply(table).unwrap();
        check(file, Nfsstat4::Access).await;
        assert_eq!(served.server.status().memory.peak_bytes, before);
    });
}

#[test]
fn the_same_write_is_known_again_however_it_is_sent() {
    let served = serve(|_config| {});
    block_on(async {
        let mut client = Client::new(&served, 1, b"one").await;
        let (file, stateid) = opened(&mut client).await;
        let sequence = ArgOp::Sequence(next_sequence(&mut client, true));
        let data = vec![1; LARGE];
        let record = |identity: &Identity, data: &[u8]| {
            let write = write_op(stateid, 0, data);
            call_body(
                identity,
                vec![sequence.clone(), putfh(&file), write, size()],
            )
        };
        let root = Identity::sys(0, 0, &[]);
        let own = std::net::Ipv4Addr::LOCALHOST;
        let mut stream = connect_from(own, served.addr).await.unwrap();
        let mut send = async |bytes: &[u8]| {
            stream.write_all(bytes).await.unwrap();
            let whole = |res: CompoundRes<'_>| (res.status, encode_to_vec(&res));
            answered(&mut stream, whole).await
        };
        let first = send(&marked(&record(&root, &data))).await;
        assert_eq!(first.0, Nfsstat4::Ok);
        let mut v4 = Client::new(&served, 1, b"two").await;
        let (_, mine) = opened(&mut v4).await;
        assert_eq!(v4.write(&file, mine, (0, b"later")).await, Ok(5));
        assert!(send(&marked(&record(&root, &data))).await == first);
        // In fragments all of it comes in one piece of memory.
        let body = record(&root, &data);
        let mut fragments = Vec::new();
        for (part, last) in [(&body[..2000], false), (&body[2000..], true)] {
            let len = part.len() as u32;
            fragments.extend(FragmentHeader { last, len }.to_bytes());
            fragments.extend(part);
        }
        assert!(send(&fragments).await == first);
        for at in [0, LARGE - 1] {
            let mut other = data.clone();
            other[at] = 2;
            let (status, _) = send(&marked(&record(&root, &other))).await;
            assert_eq!(status, Nfsstat4::SeqFalseRetry, "{at}");
        }
        let somebody = Identity::sys(1000, 1000, &[]);
        let (status, _) = send(&marked(&record(&somebody, &data))).await;
        assert_eq!(status, Nfsstat4::SeqFalseRetry);
        let on_disk = std::fs::read(served.path().join("f")).unwrap();
        assert!(on_disk.starts_with(b"later\x01") && on_disk.len() == LARGE);
    });
}

#[test]
fn what_cannot_be_read_behind_the_data_fails_where_it_stands() {
    let served = serve(|_config| {});
    block_on(async {
        let mut client = Client::new(&served, 1, b"one").await;
        let (file, stateid) = opened(&mut client).await;
        let own = std::net::Ipv4Addr::LOCALHOST;
        let root = Identity::sys(0, 0, &[]);
        let data = vec![1; LARGE];
        let mut stream = connect_from(own, served.addr).await.unwrap();
        // Padding that is not zero; an operation without its arguments; none where one was announced.
        for (cut, expected) in [
            (0, Nfsstat4::Ok),
            (4, Nfsstat4::Badxdr),
            (12, Nfsstat4::Badxdr),
        ] {
            let sequence = ArgOp::Sequence(next_sequence(&mut client, false));
            let write = write_op(stateid, 0, &data);
            let mut body = call_body(&root, vec![sequence, putfh(&file), write, size()]);
            let getattr = 4 + encode_to_vec(&Attribute::Size.bit()).len();
            let padding = body.len() - getattr - 3;
            body[padding..padding + 3].fill(0xff);
            body.truncate(body.len() - cut);
            stream.write_all(&marked(&body)).await.unwrap();
            let (status, results) = answered(&mut stream, |res| {
                let wrote = matches!(res.resarray.get(2), Some(ResOp::Write(Ok(ok))) if ok.count as usize == LARGE);
                assert!(wrote, "{res:?}");
                (res.status, res.resarray.len())
            })
            .await;
            assert_eq!((status, results), (expected, 4), "{cut}");
        }
    });
}
