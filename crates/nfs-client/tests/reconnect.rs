//! The connection against a scripted responder that hangs up: what is sent again, what fails, and that
//! every call ends.

mod responder;

use std::io;
use std::time::Duration;

use nfs_client::connection::{ConnectOptions, Connection, Liveness, Reconnect, Target};
use nfs_client::error::{Foreign, Lost, RpcError};
use nfs_wire::record::RecordError;
use tokio::net::TcpListener;
use tokio::time::timeout;

use responder::*;

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
        peer.send_record(&success(xid(&again), arguments(&again)))
            .await
            .unwrap();
    })
    .await;
    let connection = connect(target, Reconnect::Resend).await;
    assert_eq!(call(&connection, b"args").await.unwrap(), b"args");
    let stats = connection.stats();
    assert_eq!(
        (stats.reconnects, stats.resent_calls, stats.replies),
        (1, 1, 1)
    );
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
        assert_eq!(
            call(&connection, &words(&[number])).await.unwrap(),
            words(&[number])
        );
    }
    script.abort();
}

/// A server's reply cache drops a repetition of a call that it is still at work on, and the reply goes to
/// the connection that is no more.
#[tokio::test]
async fn a_repetition_that_is_dropped_is_made_again_though_others_are_answered() {
    let (target, script) = responder(async |listener| {
        let mut peer = accept(&listener).await;
        assert_eq!(receive(&mut peer).await.1, b"slow");
        drop(peer);
        // Where this machine stands still the client takes a connection for silent, and what it sends over the next
        // one is a first repetition once more.
        loop {
            let mut peer = accept(&listener).await;
            let mut slow = 0;
            while let Ok(Some(call)) = peer.receive_record().await {
                let (xid, args) = (xid(&call), arguments(&call).to_vec());
                slow += u32::from(args == b"slow");
                // A client that has hung up sends nothing more.
                if args != b"slow" || slow == 2 {
                    let _ = peer.send_record(&success(xid, &args)).await;
                }
            }
        }
    })
    .await;
    let options = ConnectOptions {
        retry_after: Duration::from_millis(200),
        call_timeout: HANG,
        ..ConnectOptions::default()
    };
    let connection = connect_with(target, options).await;
    let others = connection.clone();
    let others = tokio::spawn(async move {
        loop {
            call(&others, b"fast").await.unwrap();
            // SLEEP: so that the connection is never silent, and the processor not busy with that.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    // It was answered the second time that it came over one connection, beside others that were answered.
    assert_eq!(call(&connection, b"slow").await.unwrap(), b"slow");
    others.abort();
    end(script).await;
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
        // SLEEP: the outage itself; right whatever the client does in it.
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
    let options = ConnectOptions {
        call_timeout,
        ..ConnectOptions::default()
    };
    let connection = connect_with(target, options).await;
    let result = call(&connection, b"").await;
    assert!(
        matches!(result, Err(RpcError::Timeout { .. })),
        "{result:?}"
    );
    let reconnects = connection.stats().reconnects;
    assert!(
        reconnects < 20,
        "{reconnects} connections in 300 ms: the pauses do not grow"
    );
    script.abort();
}

#[tokio::test]
async fn broken_record_marks_end_the_connection_and_its_calls() {
    let streams: [Vec<u8>; 3] = [
        words(&[u32::MAX]),
        words(&[0x7fff_ffff]),
        words(&[0]).repeat(10_000),
    ];
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
                RecordError::TooLarge { .. } | RecordError::TooManyFragments { .. },
            ))) => {}
            other => panic!("{other:?}"),
        }
    }
    drop(connection);
    script.await.unwrap();
}

#[tokio::test]
async fn what_answers_something_else_is_named_and_not_asked_again() {
    let (target, script) = responder(async move |listener| {
        let mut peer = accept(&listener).await;
        receive(&mut peer).await;
        peer.send(b"HTTP/1.1 400 Bad Request\r\n").await.unwrap();
        let mut rest = Vec::new();
        let _ = tokio::io::AsyncReadExt::read_to_end(peer.stream(), &mut rest).await;
        // After a reply, the same bytes are a broken reply and no more.
        let mut peer = accept(&listener).await;
        let (called, _) = receive(&mut peer).await;
        peer.send_record(&success(called, b"")).await.unwrap();
        receive(&mut peer).await;
        peer.send(b"HTTP/1.1 400 Bad Request\r\n").await.unwrap();
        let _ = tokio::io::AsyncReadExt::read_to_end(peer.stream(), &mut rest).await;
    })
    .await;
    let connection = connect(target, Reconnect::Resend).await;
    match call(&connection, b"").await {
        Err(RpcError::Disconnected(Lost::Foreign(Foreign::Http))) => {}
        other => panic!("{other:?}"),
    }
    call(&connection, b"").await.unwrap();
    match call(&connection, b"").await {
        Err(RpcError::Disconnected(Lost::Framing(_))) => {}
        other => panic!("{other:?}"),
    }
    drop(connection);
    script.await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_waited_for_and_says_nothing_is_silent() {
    let (answer, told) = tokio::sync::oneshot::channel();
    let (target, script) = responder(async move |listener| {
        let mut peer = accept(&listener).await;
        let (called, _) = receive(&mut peer).await;
        told.await.unwrap();
        peer.send_record(&success(called, b"")).await.unwrap();
        assert!(peer.receive_record().await.unwrap().is_none());
    })
    .await;
    let liveness = Liveness::default();
    let options = ConnectOptions {
        liveness: liveness.clone(),
        ..ConnectOptions::default()
    };
    let connection = Connection::connect(target.clone(), options).await.unwrap();
    assert_eq!(liveness.silent(Duration::ZERO), [], "nobody waits");
    let mut waits = Box::pin(call(&connection, b""));
    assert!(polled(&mut waits).await.is_pending());
    let silent = liveness.silent(Duration::ZERO);
    assert_eq!(silent.len(), 1);
    assert_eq!(silent[0].target, target);
    assert_eq!(liveness.silent(Duration::from_secs(3600)), []);
    assert_eq!(liveness.heard_at(&target), None);
    answer.send(()).unwrap();
    waits.await.unwrap();
    assert_eq!(liveness.silent(Duration::ZERO), []);
    assert!(liveness.heard_at(&target).is_some());
    drop(connection);
    script.await.unwrap();
}

/// Ends a script that goes on for ever; one that failed says why.
async fn end(script: tokio::task::JoinHandle<()>) {
    script.abort();
    if let Err(ended) = script.await {
        assert!(ended.is_cancelled(), "{ended}");
    }
}

/// Polls a future once.
async fn polled<F: Future + Unpin>(future: &mut F) -> std::task::Poll<F::Output> {
    std::future::poll_fn(|cx| std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx)))
        .await
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
    timeout(HANG, script)
        .await
        .expect("the connection stays open")
        .unwrap();
}

#[tokio::test]
async fn nobody_listens() {
    let listener = TcpListener::bind(own_address()).await.unwrap();
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

#[tokio::test]
async fn a_call_times_out_and_a_silent_connection_is_replaced() {
    let (target, script) = responder(async |listener| {
        let mut silent = accept(&listener).await;
        receive(&mut silent).await;
        let mut peer = accept(&listener).await;
        // The client has hung up on the silent one.
        assert!(silent.receive_record().await.unwrap().is_none());
        loop {
            while let Ok(Some(record)) = peer.receive_record().await {
                // A client that has hung up sends nothing more.
                let reply = success(xid(&record), arguments(&record));
                let _ = peer.send_record(&reply).await;
            }
            peer = accept(&listener).await;
        }
    })
    .await;
    let call_timeout = Duration::from_millis(300);
    let options = ConnectOptions {
        in_flight_max: 1,
        call_timeout,
        ..ConnectOptions::default()
    };
    let connection = connect_with(target, options).await;
    let silent = call(&connection, b"one.").await;
    assert!(matches!(silent, Err(RpcError::Timeout { after }) if after == call_timeout));
    // The slot of the first is free for the second, which goes over a new connection. Where this machine stands still
    // it runs out of time, too, and is made again.
    let mut late = 0;
    let reply = loop {
        match call(&connection, b"two.").await {
            Err(RpcError::Timeout { .. }) if late < 100 => late += 1,
            ended => break ended.unwrap(),
        }
    };
    assert_eq!(reply, b"two.");
    let reconnects = connection.stats().reconnects;
    assert!((1..=1 + late).contains(&reconnects), "{reconnects}");
    drop(connection);
    end(script).await;
}

#[tokio::test]
async fn a_call_over_a_silent_connection_is_sent_again_over_another() {
    let (target, script) = responder(async |listener| {
        let mut silent = accept(&listener).await;
        let first = silent.receive_record().await.unwrap().unwrap();
        let mut peer = accept(&listener).await;
        // Never a second time over the same connection, which is closed.
        assert!(silent.receive_record().await.unwrap().is_none());
        loop {
            while let Ok(Some(again)) = peer.receive_record().await {
                assert_eq!(first, again, "the same xid, the same bytes");
                // Where this machine stands still the client has hung up on this one, too.
                let reply = success(xid(&again), arguments(&again));
                let _ = peer.send_record(&reply).await;
            }
            peer = accept(&listener).await;
        }
    })
    .await;
    let options = ConnectOptions {
        retry_after: Duration::from_millis(50),
        call_timeout: HANG,
        ..ConnectOptions::default()
    };
    let connection = connect_with(target, options).await;
    assert_eq!(call(&connection, b"args").await.unwrap(), b"args");
    let stats = connection.stats();
    assert!(stats.resent_calls >= 1);
    assert_eq!(stats.reconnects, stats.resent_calls, "{stats:?}");
    end(script).await;
}

#[tokio::test]
async fn waiting_for_a_turn_ends_with_the_call_s_time() {
    let (target, script) = responder(async |listener| {
        let mut peer = accept(&listener).await;
        // The first of two calls, of which one may be on its way at a time.
        receive(&mut peer).await;
        while peer
            .receive_record()
            .await
            .is_ok_and(|record| record.is_some())
        {}
    })
    .await;
    let options = ConnectOptions {
        in_flight_max: 1,
        call_timeout: Duration::from_millis(100),
        ..ConnectOptions::default()
    };
    let connection = connect_with(target, options).await;
    let (first, second) = tokio::join!(call(&connection, b"one."), call(&connection, b"two."));
    for ended in [first, second] {
        assert!(matches!(ended, Err(RpcError::Timeout { .. })), "{ended:?}");
    }
    drop(connection);
    script.abort();
}
