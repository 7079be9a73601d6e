//! The connection against a scripted responder that answers late, out of order, twice or wrongly. In
//! every case each call ends, with its own reply or a typed error, and nothing panics.

mod responder;

use std::sync::Arc;
use std::time::Duration;

use nfs_client::Identity;
use nfs_client::connection::{ConnectOptions, Connection, Reconnect};
use nfs_client::error::RpcError;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use responder::*;

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
    let received = Arc::new(Notify::new());
    let receipt = received.clone();
    let (target, script) = responder(async move |listener| {
        let mut peer = accept(&listener).await;
        let (late, _) = receive(&mut peer).await;
        receipt.notify_one();
        let (first, args) = receive(&mut peer).await;
        peer.send_record(&success(late, b"late")).await.unwrap();
        peer.send_record(&success(first.wrapping_add(77), b"none"))
            .await
            .unwrap();
        peer.send_record(&success(first, &args)).await.unwrap();
        peer.send_record(&success(first, b"twice")).await.unwrap();
        let (second, args) = receive(&mut peer).await;
        peer.send_record(&success(second, &args)).await.unwrap();
    })
    .await;
    let connection = connect(target, Reconnect::Never).await;
    give_up_once_received(&connection, &received).await;
    assert_eq!(call(&connection, b"one.").await.unwrap(), b"one.");
    assert_eq!(call(&connection, b"two.").await.unwrap(), b"two.");
    let stats = connection.stats();
    assert_eq!((stats.replies, stats.stray_replies), (2, 3));
    script.await.unwrap();
}

#[tokio::test]
async fn a_call_of_the_server_is_answered_and_touches_no_call_of_ours() {
    let (target, script) = responder(async |listener| {
        let mut peer = accept(&listener).await;
        for round in 0..3 {
            let (xid, args) = receive(&mut peer).await;
            // A callback with the xid of the call that waits: each direction has xids of its own.
            let callback = words(&[xid, 0, 2, 0x4000_0000, 1, round, 0, 0, 0, 0]);
            let answer = peer.exchange(&callback).await.unwrap().unwrap();
            assert_eq!(answer, words(&[xid, 1, 0, 0, 0, 1]), "PROG_UNAVAIL");
            let other_rpc = peer.exchange(&words(&[5, 0, 3])).await.unwrap().unwrap();
            assert_eq!(other_rpc, words(&[5, 1, 1, 0, 2, 2]), "RPC_MISMATCH");
            peer.send_record(&success(xid, &args)).await.unwrap();
        }
    })
    .await;
    let connection = connect(target, Reconnect::Never).await;
    call_many(&connection, 1).await;
    call_many(&connection, 1).await;
    call_many(&connection, 1).await;
    let stats = connection.stats();
    assert_eq!((stats.replies, stats.server_calls), (3, 6));
    assert_eq!((stats.stray_replies, stats.garbage_records), (0, 0));
    script.await.unwrap();
}

/// Makes a call and drops it when the responder says that it has it.
async fn give_up_once_received(connection: &Connection, received: &Notify) {
    tokio::select! {
        biased;
        reply = call(connection, b"gone") => panic!("nobody answers this call: {reply:?}"),
        () = received.notified() => {}
    }
}

#[tokio::test]
async fn a_dropped_call_frees_its_slot() {
    let received = Arc::new(Notify::new());
    let receipt = received.clone();
    let (target, script) = responder(async move |listener| {
        let mut peer = accept(&listener).await;
        for _ in 0..20 {
            receive(&mut peer).await;
            receipt.notify_one();
        }
        let (last, args) = receive(&mut peer).await;
        peer.send_record(&success(last, &args)).await.unwrap();
    })
    .await;
    let options = ConnectOptions {
        in_flight_max: 2,
        ..ConnectOptions::default()
    };
    let connection = connect_with(target, options).await;
    for _ in 0..20 {
        give_up_once_received(&connection, &received).await;
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
    let options = ConnectOptions {
        in_flight_max: 4,
        ..ConnectOptions::default()
    };
    let connection = connect_with(target, options).await;
    call_many(&connection, 16).await;
    script.await.unwrap();
}

#[tokio::test]
async fn garbage_replies_fail_their_call_only() {
    let bodies: [fn(u32) -> Vec<u8>; 7] = [
        // An xid and nothing more, neither a call nor a reply, an unknown reply status, a verifier
        // that is longer than the record, an unknown accept status, an unknown rejection, half a word.
        |xid| words(&[xid]),
        |xid| words(&[xid, 2, 2, 100_003, 3, 0, 0, 0, 0, 0]),
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
            peer.send_record(&success(xid, &words(&[len, sum])))
                .await
                .unwrap();
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
        (&[0, 0, 0, 1], |e| {
            matches!(e, RpcError::ProgUnavail { program: 100_003 })
        }),
        (&[0, 0, 0, 2, 3, 4], |e| {
            matches!(e, RpcError::ProgMismatch { low: 3, high: 4 })
        }),
        (&[0, 0, 0, 3], |e| matches!(e, RpcError::ProcUnavail)),
        (&[0, 0, 0, 4], |e| matches!(e, RpcError::GarbageArgs)),
        (&[0, 0, 0, 5], |e| matches!(e, RpcError::SystemErr)),
        (&[1, 0, 2, 2], |e| {
            matches!(e, RpcError::RpcMismatch { low: 2, high: 2 })
        }),
        (&[1, 1, 1], |e| matches!(e, RpcError::Denied { .. })),
        (&[1, 1, 5], |e| matches!(e, RpcError::Denied { .. })),
    ];
    let (target, script) = responder(async move |listener| {
        let mut peer = accept(&listener).await;
        for (body, _) in table {
            let (xid, _) = receive(&mut peer).await;
            peer.send_record(&[words(&[xid, 1]), words(body)].concat())
                .await
                .unwrap();
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
async fn times_may_be_for_ever() {
    let (target, script) = responder(async |listener| {
        let mut peer = accept(&listener).await;
        let (xid, args) = receive(&mut peer).await;
        peer.send_record(&success(xid, &args)).await.unwrap();
    })
    .await;
    let options = ConnectOptions {
        call_timeout: Duration::MAX,
        retry_after: Duration::MAX,
        connect_timeout: Duration::MAX,
        ..ConnectOptions::default()
    };
    let connection = connect_with(target, options).await;
    assert_eq!(call(&connection, b"args").await.unwrap(), b"args");
    script.await.unwrap();
}
