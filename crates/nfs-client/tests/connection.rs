//! The connection against a scripted responder that answers late, out of order, twice, wrongly or not
//! at all. In every case each call ends, with its own reply or a typed error, and nothing panics.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use nfs_client::connection::{ConnectOptions, Connection, Procedure, Reconnect, Target};
use nfs_client::error::{Framing, Lost, RpcError};
use nfs_client::{Identity, RawConnection};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

const PROCEDURE: Procedure = Procedure { program: 100_003, version: 3, number: 0 };

/// Long enough for a busy machine; reached only when something hangs.
const HANG: Duration = Duration::from_secs(30);

/// A responder on a port of its own; `script` gets the listener.
async fn responder<F>(script: impl FnOnce(TcpListener) -> F) -> (Target, JoinHandle<()>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    (address.into(), tokio::spawn(script(listener)))
}

async fn accept(listener: &TcpListener) -> RawConnection {
    RawConnection::from_stream(listener.accept().await.unwrap().0)
}

/// The next call's xid and arguments.
async fn receive(connection: &mut RawConnection) -> (u32, Vec<u8>) {
    let record = connection.receive_record().await.unwrap().expect("a call");
    (xid(&record), arguments(&record).to_vec())
}

fn xid(record: &[u8]) -> u32 {
    u32::from_be_bytes(*record.first_chunk().unwrap())
}

/// What follows the header of a call with AUTH_NONE: ten words.
fn arguments(record: &[u8]) -> &[u8] {
    &record[40..]
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// An accepted, successful reply.
fn success(xid: u32, results: &[u8]) -> Vec<u8> {
    [words(&[xid, 1, 0, 0, 0, 0]), results.to_vec()].concat()
}

fn record(body: &[u8]) -> Vec<u8> {
    let mark = 1 << 31 | u32::try_from(body.len()).unwrap();
    [words(&[mark]), body.to_vec()].concat()
}

async fn connect(target: Target, reconnect: Reconnect) -> Connection {
    let options = ConnectOptions { reconnect, ..ConnectOptions::default() };
    connect_with(target, options).await
}

async fn connect_with(target: Target, options: ConnectOptions) -> Connection {
    Connection::connect(target, options).await.unwrap()
}

async fn call(connection: &Connection, args: &[u8]) -> Result<Vec<u8>, RpcError> {
    let identity = Identity::none();
    let reply = connection.call_raw(PROCEDURE, &identity, args);
    timeout(HANG, reply).await.expect("the call hangs").map(|bytes| bytes.to_vec())
}

/// Calls with arguments 0, 1, ... at once; each must get its own reply.
async fn call_many(connection: &Connection, count: u32) {
    let mut calls = JoinSet::new();
    for number in 0..count {
        let connection = connection.clone();
        calls.spawn(async move {
            let reply = call(&connection, &words(&[number])).await.unwrap();
            assert_eq!(reply, words(&[number]));
        });
    }
    while let Some(result) = calls.join_next().await {
        result.unwrap();
    }
}

#[tokio::test]
async fn replies_in_any_order_reach_their_calls() {
    let (target, script) = responder(async |listener| {
        let mut peer = accept(&listener).await;
        for round in 0..4 {
            let mut calls = Vec::new();
            for _ in 0..64 {
                calls.push(receive(&mut peer).await);
            }
            if round % 2 == 0 {
                calls.reverse();
            } else {
                calls.sort_by_key(|(xid, _)| xid % 7);
            }
            for (xid, args) in calls {
                peer.send_record(&success(xid, &args)).await.unwrap();
            }
        }
    })
    .await;
    let connection = connect(target, Reconnect::Never).await;
    for _ in 0..4 {
        call_many(&connection, 64).await;
    }
    assert_eq!(connection.stats().replies, 256);
    script.await.unwrap();
}

#[tokio::test]
async fn late_and_repeated_and_unknown_replies_are_ignored() {
    let (target, script) = responder(async |listener| {
        let mut peer = accept(&listener).await;
        let (late, _) = receive(&mut peer).await;
        let (first, args) = receive(&mut peer).await;
        peer.send_record(&success(late, b"late")).await.unwrap();
        peer.send_record(&success(first.wrapping_add(77), b"none")).await.unwrap();
        peer.send_record(&success(first, &args)).await.unwrap();
        peer.send_record(&success(first, b"twice")).await.unwrap();
        let (second, args) = receive(&mut peer).await;
        peer.send_record(&success(second, &args)).await.unwrap();
    })
    .await;
    let connection = connect(target, Reconnect::Never).await;
    let given_up = call(&connection, b"gone");
    assert!(timeout(Duration::from_millis(20), given_up).await.is_err());
    assert_eq!(call(&connection, b"one.").await.unwrap(), b"one.");
    assert_eq!(call(&connection, b"two.").await.unwrap(), b"two.");
    let stats = connection.stats();
    assert_eq!((stats.replies, stats.stray_replies), (2, 3));
    script.await.unwrap();
}

#[tokio::test]
async fn a_call_without_reply_times_out_and_its_slot_is_free() {
    let (target, script) = responder(async |listener| {
        let mut peer = accept(&listener).await;
        receive(&mut peer).await;
        let (second, args) = receive(&mut peer).await;
        peer.send_record(&success(second, &args)).await.unwrap();
    })
    .await;
    let call_timeout = Duration::from_millis(50);
    let options = ConnectOptions { in_flight_max: 1, call_timeout, ..ConnectOptions::default() };
    let connection = connect_with(target.clone(), options).await;
    let silent = call(&connection, b"").await;
    assert!(matches!(silent, Err(RpcError::Timeout { after }) if after == call_timeout));
    // The same again may time out on a slow machine, but must not wait for a slot.
    let second = call(&connection, b"two.").await;
    assert!(matches!(second, Ok(_) | Err(RpcError::Timeout { .. })), "{second:?}");
    script.await.unwrap();
}

#[tokio::test]
async fn a_dropped_call_frees_its_slot() {
    let (target, script) = responder(async |listener| {
        let mut peer = accept(&listener).await;
        for _ in 0..20 {
            receive(&mut peer).await;
        }
        let (last, args) = receive(&mut peer).await;
        peer.send_record(&success(last, &args)).await.unwrap();
    })
    .await;
    let options = ConnectOptions { in_flight_max: 2, ..ConnectOptions::default() };
    let connection = connect_with(target, options).await;
    for _ in 0..20 {
        let dropped = call(&connection, b"drop");
        assert!(timeout(Duration::from_millis(2), dropped).await.is_err());
    }
    assert_eq!(call(&connection, b"kept").await.unwrap(), b"kept");
    script.await.unwrap();
}

#[tokio::test]
async fn no_more_calls_are_in_flight_than_allowed() {
    let (target, script) = responder(async |listener| {
        let mut peer = accept(&listener).await;
        let mut open = Vec::new();
        for _ in 0..4 {
            open.push(receive(&mut peer).await);
        }
        let fifth = timeout(Duration::from_millis(50), receive(&mut peer)).await;
        assert!(fifth.is_err(), "a fifth call came before a reply was sent");
        for _ in 0..12 {
            let (xid, args) = open.remove(0);
            peer.send_record(&success(xid, &args)).await.unwrap();
            open.push(receive(&mut peer).await);
        }
        for (xid, args) in open {
            peer.send_record(&success(xid, &args)).await.unwrap();
        }
    })
    .await;
    let options = ConnectOptions { in_flight_max: 4, ..ConnectOptions::default() };
    let connection = connect_with(target, options).await;
    call_many(&connection, 16).await;
    script.await.unwrap();
}

#[tokio::test]
async fn a_connection_lost_in_a_reply_is_made_again_and_the_same_call_sent_again() {
    let (target, script) = responder(async |listener| {
        let mut peer = accept(&listener).await;
        let first = peer.receive_record().await.unwrap().unwrap();
        let whole = record(&success(xid(&first), b"half"));
        peer.send(&whole[..whole.len() / 2]).await.unwrap();
        drop(peer);
        let mut peer = accept(&listener).await;
        let again = peer.receive_record().await.unwrap().unwrap();
        assert_eq!(first, again, "the same xid, the same bytes");
        peer.send_record(&success(xid(&again), arguments(&again))).await.unwrap();
    })
    .await;
    let connection = connect(target, Reconnect::Resend).await;
    assert_eq!(call(&connection, b"args").await.unwrap(), b"args");
    let stats = connection.stats();
    assert_eq!((stats.reconnects, stats.resent_calls, stats.replies), (1, 1, 1));
    script.await.unwrap();
}

#[tokio::test]
async fn many_calls_survive_many_lost_connections() {
    let (target, script) = responder(async |listener| {
        let mut answered = 0;
        for life in 1.. {
            let mut peer = accept(&listener).await;
            for _ in 0..life {
                let (xid, args) = receive(&mut peer).await;
                peer.send_record(&success(xid, &args)).await.unwrap();
                answered += 1;
                if answered == 40 {
                    return;
                }
            }
        }
    })
    .await;
    let connection = connect(target, Reconnect::Resend).await;
    // A reply may be lost with its connection; then the call is answered a second time, so the
    // responder may stop before all are: only those 40 or fewer are waited for.
    for number in 0..20_u32 {
        assert_eq!(call(&connection, &words(&[number])).await.unwrap(), words(&[number]));
    }
    script.abort();
}

#[tokio::test]
async fn without_resending_calls_on_their_way_fail_and_later_ones_connect_again() {
    let (target, script) = responder(async |listener| {
        let mut peer = accept(&listener).await;
        receive(&mut peer).await;
        drop(peer);
        let mut peer = accept(&listener).await;
        let (xid, args) = receive(&mut peer).await;
        assert_eq!(args, b"new.");
        peer.send_record(&success(xid, &args)).await.unwrap();
    })
    .await;
    let connection = connect(target, Reconnect::ForNewCalls).await;
    let lost = call(&connection, b"lost").await;
    assert!(matches!(lost, Err(RpcError::Disconnected(_))), "{lost:?}");
    assert_eq!(call(&connection, b"new.").await.unwrap(), b"new.");
    script.await.unwrap();
}

#[tokio::test]
async fn without_reconnecting_a_lost_connection_stays_lost() {
    let (target, script) = responder(async |listener| {
        let mut peer = accept(&listener).await;
        receive(&mut peer).await;
    })
    .await;
    let connection = connect(target, Reconnect::Never).await;
    for _ in 0..3 {
        let lost = call(&connection, b"lost").await;
        assert!(matches!(lost, Err(RpcError::Disconnected(_))), "{lost:?}");
    }
    script.await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_away_for_a_while_is_waited_for() {
    let (target, script) = responder(async |listener| {
        let address = listener.local_addr().unwrap();
        let mut peer = accept(&listener).await;
        drop(listener);
        let (xid, args) = receive(&mut peer).await;
        peer.send_record(&success(xid, &args)).await.unwrap();
        // The next call is answered by nobody until the port is taken again.
        receive(&mut peer).await;
        drop(peer);
        tokio::time::sleep(Duration::from_millis(100)).await;
        let listener = TcpListener::bind(address).await.unwrap();
        let mut peer = accept(&listener).await;
        let (xid, args) = receive(&mut peer).await;
        peer.send_record(&success(xid, &args)).await.unwrap();
    })
    .await;
    let connection = connect(target, Reconnect::Resend).await;
    assert_eq!(call(&connection, b"one.").await.unwrap(), b"one.");
    assert_eq!(call(&connection, b"two.").await.unwrap(), b"two.");
    script.await.unwrap();
}

#[tokio::test]
async fn a_server_that_hangs_up_on_everybody_ends_in_a_timeout() {
    let (target, script) = responder(async |listener| {
        loop {
            drop(listener.accept().await);
        }
    })
    .await;
    let call_timeout = Duration::from_millis(300);
    let options = ConnectOptions { call_timeout, ..ConnectOptions::default() };
    let connection = connect_with(target, options).await;
    let result = call(&connection, b"").await;
    assert!(matches!(result, Err(RpcError::Timeout { .. })), "{result:?}");
    let reconnects = connection.stats().reconnects;
    assert!(reconnects < 20, "{reconnects} connections in 300 ms: the pauses do not grow");
    script.abort();
}

#[tokio::test]
async fn garbage_replies_fail_their_call_only() {
    let bodies: [fn(u32) -> Vec<u8>; 7] = [
        // An xid and nothing more, a call instead of a reply, an unknown reply status, a verifier
        // that is longer than the record, an unknown accept status, an unknown rejection, half a word.
        |xid| words(&[xid]),
        |xid| words(&[xid, 0, 2, 100_003, 3, 0, 0, 0, 0, 0]),
        |xid| words(&[xid, 1, 2, 0, 0, 0]),
        |xid| words(&[xid, 1, 0, 0, 400]),
        |xid| words(&[xid, 1, 0, 0, 0, 99]),
        |xid| words(&[xid, 1, 1, 99, 0]),
        |xid| [words(&[xid, 1]), vec![0, 0]].concat(),
    ];
    let (target, script) = responder(async move |listener| {
        let mut peer = accept(&listener).await;
        for body in bodies {
            let (bad, _) = receive(&mut peer).await;
            // Records that are shorter than an xid belong to no call.
            peer.send_record(&[]).await.unwrap();
            peer.send_record(&[1, 2, 3]).await.unwrap();
            peer.send_record(&body(bad)).await.unwrap();
            let (good, args) = receive(&mut peer).await;
            peer.send_record(&success(good, &args)).await.unwrap();
        }
    })
    .await;
    let connection = connect(target, Reconnect::Never).await;
    for _ in bodies {
        let bad = call(&connection, b"bad.").await;
        assert!(matches!(bad, Err(RpcError::BadReply(_))), "{bad:?}");
        assert_eq!(call(&connection, b"good").await.unwrap(), b"good");
    }
    assert_eq!(connection.stats().garbage_records, 14);
    script.await.unwrap();
}

#[tokio::test]
async fn broken_record_marks_end_the_connection_and_its_calls() {
    let streams: [Vec<u8>; 3] =
        [words(&[u32::MAX]), words(&[0x7fff_ffff]), words(&[0]).repeat(10_000)];
    let count = streams.len();
    let (target, script) = responder(async move |listener| {
        for stream in streams {
            let mut peer = accept(&listener).await;
            receive(&mut peer).await;
            // The client hangs up in the middle of it.
            let _ = peer.send(&stream).await;
            let mut rest = Vec::new();
            let _ = tokio::io::AsyncReadExt::read_to_end(peer.stream(), &mut rest).await;
        }
    })
    .await;
    let connection = connect(target, Reconnect::Resend).await;
    for _ in 0..count {
        let lost = call(&connection, b"").await;
        match lost {
            Err(RpcError::Disconnected(Lost::Framing(
                Framing::TooLarge { .. } | Framing::TooManyFragments { .. },
            ))) => {}
            other => panic!("{other:?}"),
        }
    }
    drop(connection);
    script.await.unwrap();
}

#[tokio::test]
async fn replies_in_small_pieces_and_many_fragments() {
    let results: Vec<u8> = (0..300_000_u32).map(|i| i.to_be_bytes()[3]).collect();
    let expected = results.clone();
    let (target, script) = responder(async move |listener| {
        let mut peer = accept(&listener).await;
        let (xid, _) = receive(&mut peer).await;
        let body = success(xid, &results);
        let mut stream = Vec::new();
        for (index, part) in body.chunks(1000).enumerate() {
            let last = (index + 1) * 1000 >= body.len();
            let mark = u32::from(last) << 31 | u32::try_from(part.len()).unwrap();
            stream.extend_from_slice(&words(&[mark]));
            stream.extend_from_slice(part);
        }
        for piece in stream.chunks(777) {
            peer.send(piece).await.unwrap();
        }
        let (xid, args) = receive(&mut peer).await;
        for piece in record(&success(xid, &args)).chunks(1) {
            peer.send(piece).await.unwrap();
        }
    })
    .await;
    let connection = connect(target, Reconnect::Never).await;
    assert_eq!(call(&connection, b"").await.unwrap(), expected);
    assert_eq!(call(&connection, b"byte").await.unwrap(), b"byte");
    script.await.unwrap();
}

#[tokio::test]
async fn payloads_arrive_whole_beside_small_calls() {
    let (target, script) = responder(async |listener| {
        let mut peer = accept(&listener).await;
        for _ in 0..64 {
            let (xid, args) = receive(&mut peer).await;
            let sum: u32 = args.iter().map(|&byte| u32::from(byte)).sum();
            let len = u32::try_from(args.len()).unwrap();
            peer.send_record(&success(xid, &words(&[len, sum]))).await.unwrap();
        }
    })
    .await;
    let connection = connect(target, Reconnect::Never).await;
    let mut calls = JoinSet::new();
    for number in 0..64_u32 {
        let connection = connection.clone();
        calls.spawn(async move {
            // 0 to 126,000 bytes, with every padding.
            let len = number * 2001;
            let payload = vec![1_u8; usize::try_from(len).unwrap()];
            let identity = Identity::none();
            let call = connection.call_with_payload(PROCEDURE, &identity, &7_u32, payload.into());
            let reply = timeout(HANG, call).await.expect("the call hangs").unwrap();
            assert_eq!(reply, words(&[4 + len.next_multiple_of(4), 7 + len]));
        });
    }
    while let Some(result) = calls.join_next().await {
        result.unwrap();
    }
    script.await.unwrap();
}

#[tokio::test]
async fn rpc_errors_are_typed() {
    type Check = fn(&RpcError) -> bool;
    let table: [(&'static [u32], Check); 8] = [
        (&[0, 0, 0, 1], |e| matches!(e, RpcError::ProgUnavail { program: 100_003 })),
        (&[0, 0, 0, 2, 3, 4], |e| matches!(e, RpcError::ProgMismatch { low: 3, high: 4 })),
        (&[0, 0, 0, 3], |e| matches!(e, RpcError::ProcUnavail)),
        (&[0, 0, 0, 4], |e| matches!(e, RpcError::GarbageArgs)),
        (&[0, 0, 0, 5], |e| matches!(e, RpcError::SystemErr)),
        (&[1, 0, 2, 2], |e| matches!(e, RpcError::RpcMismatch { low: 2, high: 2 })),
        (&[1, 1, 1], |e| matches!(e, RpcError::Denied { .. })),
        (&[1, 1, 5], |e| matches!(e, RpcError::Denied { .. })),
    ];
    let (target, script) = responder(async move |listener| {
        let mut peer = accept(&listener).await;
        for (body, _) in table {
            let (xid, _) = receive(&mut peer).await;
            peer.send_record(&[words(&[xid, 1]), words(body)].concat()).await.unwrap();
        }
    })
    .await;
    let connection = connect(target, Reconnect::Never).await;
    for (body, check) in table {
        let error = call(&connection, b"").await.unwrap_err();
        assert!(check(&error), "{body:?}: {error:?}");
        assert!(!error.to_string().is_empty());
    }
    script.await.unwrap();
}

#[tokio::test]
async fn the_last_clone_closes_the_connection() {
    let (target, script) = responder(async |listener| {
        let mut peer = accept(&listener).await;
        assert!(peer.receive_record().await.unwrap().is_none());
    })
    .await;
    let connection = connect(target, Reconnect::Resend).await;
    let other = connection.clone();
    drop(connection);
    assert_eq!(other.stats().calls, 0);
    drop(other);
    timeout(HANG, script).await.expect("the connection stays open").unwrap();
}

#[tokio::test]
async fn nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = Target::from(listener.local_addr().unwrap());
    drop(listener);
    let refused = Connection::connect(target, ConnectOptions::default()).await;
    match refused {
        Err(RpcError::Connect { cause, .. }) => {
            assert_eq!(cause.kind(), io::ErrorKind::ConnectionRefused);
        }
        other => panic!("{other:?}"),
    }
}
