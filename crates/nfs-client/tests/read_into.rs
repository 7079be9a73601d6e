//! READ into given memory, against a responder that cuts its replies anywhere or sends other replies
//! than it should: the data is exact, or there is a typed error, and all memory comes back.

mod answers;
mod responder;

use std::sync::Arc;

use nfs_client::error::{BadReply, Lost, RpcError};
use nfs_client::nfs3::{Nfsstat3, PostOpAttr, ReadInto};
use nfs_client::{Connection, Identity, Nfs3, RawConnection, Reconnect};
use nfs_io::{Budget, Buf, BufferPool};
use nfs_wire::nfs3::{ReadArgs, ReadOk};
use nfs_wire::{Decode, Decoder};
use tokio::sync::Notify;
use tokio::time::timeout;

use answers::{fail, handle, ok, post};
use responder::{HANG, accept, connect, record, responder, success, xid};

type Outcome = Result<Result<ReadInto, Nfsstat3>, RpcError>;

fn pool() -> BufferPool {
    BufferPool::new(Budget::new(64 << 20))
}

fn memory(pool: &BufferPool, len: usize) -> Buf {
    pool.try_take(len).unwrap()
}

/// All memory is back in the pool or free.
fn assert_all_back(pool: &BufferPool) {
    assert_eq!(pool.budget().in_use(), pool.idle_bytes());
}

fn nfs(connection: &Connection) -> Nfs3 {
    Nfs3::new(connection.clone(), Identity::none())
}

async fn read(connection: &Connection, offset: u64, memory: Buf) -> Outcome {
    let nfs = nfs(connection);
    let file = handle(b"file");
    let reply = timeout(HANG, nfs.read_into(&file, offset, memory));
    let outcome = reply.await.expect("the read hangs")?;
    Ok(outcome.map_err(|failure| failure.status))
}

/// The next call's xid and READ arguments.
async fn receive(peer: &mut RawConnection) -> (u32, ReadArgs) {
    let record = peer.receive_record().await.unwrap().expect("a call");
    let mut d = Decoder::new(responder::arguments(&record));
    (xid(&record), ReadArgs::decode(&mut d).unwrap())
}

/// What the file holds at `offset`.
fn content(offset: u64, len: usize) -> Vec<u8> {
    let byte = |i: u64| (i.wrapping_mul(31) >> 3).to_le_bytes()[0];
    (0..u64::try_from(len).unwrap())
        .map(|i| byte(offset + i))
        .collect()
}

/// The right reply to READ of `len` bytes.
fn reply(xid: u32, offset: u64, len: usize, attributes: PostOpAttr) -> Vec<u8> {
    let data = content(offset, len);
    let results = ok(&ReadOk {
        file_attributes: attributes,
        count: u32::try_from(len).unwrap(),
        eof: len % 2 == 1,
        data: &data,
    });
    success(xid, &results)
}

#[tokio::test]
async fn data_is_exact_however_the_stream_is_cut() {
    const LENGTHS: [usize; 7] = [0, 5, 8000, 70_001, 70_002, 100_003, 131_072];
    const PIECES: [usize; 6] = [1, 132, 133, 4096, 65_535, 1 << 20];
    let (target, script) = responder(async |listener| {
        let mut peer = accept(&listener).await;
        for piece in PIECES {
            // Both calls are here before the first reply: their replies come in one stream.
            for len in LENGTHS {
                let (first, args) = receive(&mut peer).await;
                assert_eq!(usize::try_from(args.count).unwrap(), len.max(1));
                let (second, _) = receive(&mut peer).await;
                let stream = [
                    record(&reply(second, 77, len, None)),
                    record(&reply(first, 0, len, post())),
                ]
                .concat();
                let piece = if piece == 1 && len > 8000 { 977 } else { piece };
                for piece in stream.chunks(piece) {
                    peer.send(piece).await.unwrap();
                }
            }
        }
    })
    .await;
    let connection = connect(target, Reconnect::Never).await;
    let pool = pool();
    for _ in PIECES {
        for len in LENGTHS {
            let (first, second) = tokio::join!(
                read(&connection, 0, memory(&pool, len.max(1))),
                read(&connection, 77, memory(&pool, len.max(1))),
            );
            for (read, offset, attributes) in [(first, 0, post()), (second, 77, None)] {
                let ok = read.unwrap().unwrap();
                assert!(ok.data[..] == content(offset, len), "{len} bytes differ");
                assert_eq!((ok.eof, ok.file_attributes), (len % 2 == 1, attributes));
            }
        }
    }
    assert_all_back(&pool);
    script.await.unwrap();
}

#[tokio::test]
async fn a_stream_of_large_reads_is_received_in_place() {
    const LEN: usize = 1 << 20;
    const READS: u64 = 32;
    let (target, script) = responder(async |listener| {
        let mut peer = accept(&listener).await;
        for _ in 0..READS {
            let (xid, args) = receive(&mut peer).await;
            peer.send_record(&reply(xid, args.offset, LEN, post()))
                .await
                .unwrap();
        }
    })
    .await;
    let connection = connect(target, Reconnect::Never).await;
    let pool = pool();
    for offset in 0..READS {
        let ok = read(&connection, offset, memory(&pool, LEN)).await;
        assert!(ok.unwrap().unwrap().data[..] == content(offset, LEN));
    }
    // Only the beginning of the first, which nobody could expect.
    let copied = connection.stats().copied_bytes;
    assert!(copied < 64 << 10, "{copied} bytes were copied");
    script.await.unwrap();
}

/// A reply to READ of 100,000 bytes, and what has to come of it.
type Case = (fn(u32) -> Vec<u8>, fn(&Outcome) -> bool);

fn wrong_replies() -> [Case; 9] {
    let undecodable: fn(&Outcome) -> bool =
        |o| matches!(o, Err(RpcError::BadReply(BadReply::Decode(_))));
    fn read_ok(count: u32, len: usize) -> Vec<u8> {
        ok(&ReadOk {
            file_attributes: None,
            count,
            eof: false,
            data: &content(0, len),
        })
    }
    [
        // More data than asked for; another count than data, both ways; long failures and noise.
        (
            |xid| reply(xid, 0, 100_001, post()),
            |o| {
                matches!(
                    o,
                    Err(RpcError::BadReply(BadReply::ReadCount {
                        count: 100_001,
                        ..
                    }))
                )
            },
        ),
        (
            |xid| success(xid, &read_ok(90_001, 90_000)),
            |o| {
                matches!(
                    o,
                    Err(RpcError::BadReply(BadReply::ReadCount {
                        count: 90_001,
                        ..
                    }))
                )
            },
        ),
        (
            |xid| success(xid, &read_ok(89_999, 90_000)),
            |o| {
                matches!(
                    o,
                    Err(RpcError::BadReply(BadReply::ReadCount {
                        count: 89_999,
                        ..
                    }))
                )
            },
        ),
        // The record ends before its data does, or goes on behind it.
        (
            |xid| reply(xid, 0, 90_000, post())[..80_000].to_vec(),
            undecodable,
        ),
        (
            |xid| [reply(xid, 0, 90_000, post()), vec![0; 4]].concat(),
            undecodable,
        ),
        (
            |xid| [reply(xid, 0, 40, post()), vec![0; 4]].concat(),
            undecodable,
        ),
        // A failure, short or followed by noise.
        (
            |xid| success(xid, &fail(Nfsstat3::Stale, &PostOpAttr::None)),
            |o| matches!(o, Ok(Err(Nfsstat3::Stale))),
        ),
        (
            |xid| {
                let fail = fail(Nfsstat3::Stale, &PostOpAttr::None);
                success(xid, &[fail, vec![0; 90_000]].concat())
            },
            undecodable,
        ),
        (|xid| success(xid, &[0xff; 90_000]), undecodable),
    ]
}

#[tokio::test]
async fn wrong_replies_are_typed_errors() {
    let table = wrong_replies();
    let (target, script) = responder(async move |listener| {
        let mut peer = accept(&listener).await;
        for (make, _) in table {
            let (xid, _) = receive(&mut peer).await;
            peer.send_record(&make(xid)).await.unwrap();
            let (xid, _) = receive(&mut peer).await;
            peer.send_record(&reply(xid, 3, 100_000, post()))
                .await
                .unwrap();
        }
    })
    .await;
    let connection = connect(target, Reconnect::Never).await;
    let pool = pool();
    for (index, (_, check)) in table.iter().enumerate() {
        let outcome = read(&connection, 0, memory(&pool, 100_000)).await;
        assert!(check(&outcome), "case {index}: {outcome:?}");
        // The connection goes on.
        let good = read(&connection, 3, memory(&pool, 100_000)).await;
        assert!(good.unwrap().unwrap().data[..] == content(3, 100_000));
    }
    assert_all_back(&pool);
    script.await.unwrap();
}

#[tokio::test]
async fn fragments_and_repeats_do_no_harm() {
    let (target, script) = responder(async |listener| {
        let mut peer = accept(&listener).await;
        for _ in 0..2 {
            let (xid, _) = receive(&mut peer).await;
            let body = reply(xid, 9, 100_000, post());
            let mut stream = Vec::new();
            for (index, part) in body.chunks(33_000).enumerate() {
                let last = (index + 1) * 33_000 >= body.len();
                let mark = u32::from(last) << 31 | u32::try_from(part.len()).unwrap();
                stream.extend_from_slice(&mark.to_be_bytes());
                stream.extend_from_slice(part);
            }
            peer.send(&stream).await.unwrap();
            // Once more, now that nobody waits for it, and in one piece.
            peer.send_record(&body).await.unwrap();
        }
    })
    .await;
    let connection = connect(target, Reconnect::Never).await;
    let pool = pool();
    for _ in 0..2 {
        let ok = read(&connection, 9, memory(&pool, 100_000)).await;
        assert!(ok.unwrap().unwrap().data[..] == content(9, 100_000));
    }
    assert_all_back(&pool);
    script.await.unwrap();
}

#[tokio::test]
async fn a_call_given_up_half_way_leaves_its_memory_until_its_reply_ends() {
    let (half, rest) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (half_sent, send_rest) = (half.clone(), rest.clone());
    let (target, script) = responder(async move |listener| {
        let mut peer = accept(&listener).await;
        let (gone, _) = receive(&mut peer).await;
        let whole = record(&reply(gone, 0, 1 << 20, post()));
        // A second call answered behind the first half proves that this has arrived.
        peer.send(&whole[..1 << 19]).await.unwrap();
        half_sent.notify_one();
        send_rest.notified().await;
        peer.send(&whole[1 << 19..]).await.unwrap();
        let (kept, _) = receive(&mut peer).await;
        peer.send_record(&reply(kept, 5, 1 << 20, post()))
            .await
            .unwrap();
    })
    .await;
    let connection = connect(target, Reconnect::Never).await;
    let pool = pool();
    tokio::select! {
        biased;
        outcome = read(&connection, 0, memory(&pool, 1 << 20)) => panic!("too early: {outcome:?}"),
        () = half.notified() => {}
    }
    rest.notify_one();
    let kept = read(&connection, 5, memory(&pool, 1 << 20)).await;
    assert!(kept.unwrap().unwrap().data[..] == content(5, 1 << 20));
    assert_all_back(&pool);
    assert_eq!(connection.stats().stray_replies, 1);
    script.await.unwrap();
}

#[tokio::test]
async fn a_read_whose_reply_is_cut_off_is_sent_again_with_its_memory() {
    let (target, script) = responder(async |listener| {
        for cut in [1000, 70_000, 200_000] {
            let mut peer = accept(&listener).await;
            let (xid, _) = receive(&mut peer).await;
            let whole = record(&reply(xid, 1, 200_000, post()));
            peer.send(&whole[..cut]).await.unwrap();
        }
        let mut peer = accept(&listener).await;
        let (xid, _) = receive(&mut peer).await;
        peer.send_record(&reply(xid, 1, 200_000, post()))
            .await
            .unwrap();
        // And without another try: it fails.
        receive(&mut peer).await;
    })
    .await;
    let connection = connect(target.clone(), Reconnect::Resend).await;
    let pool = pool();
    let ok = read(&connection, 1, memory(&pool, 200_000)).await;
    assert!(ok.unwrap().unwrap().data[..] == content(1, 200_000));
    assert_eq!(connection.stats().resent_calls, 3);
    assert_all_back(&pool);
    drop(connection);
    script.abort();
}

#[tokio::test]
async fn a_connection_lost_half_way_gives_the_memory_back() {
    let (target, script) = responder(async |listener| {
        let mut peer = accept(&listener).await;
        let (xid, _) = receive(&mut peer).await;
        let whole = record(&reply(xid, 1, 200_000, post()));
        peer.send(&whole[..150_000]).await.unwrap();
    })
    .await;
    let connection = connect(target, Reconnect::Never).await;
    let pool = pool();
    let lost = read(&connection, 1, memory(&pool, 200_000)).await;
    assert!(
        matches!(
            lost,
            Err(RpcError::Disconnected(Lost::ByServer | Lost::Io(_)))
        ),
        "{lost:?}"
    );
    assert_all_back(&pool);
    script.await.unwrap();
}
