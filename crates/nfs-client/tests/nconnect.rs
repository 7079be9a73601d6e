//! Several connections to one server: how calls are shared out among them, and that one which is lost
//! or cannot be made does not hurt the others.

mod responder;

use nfs_client::connection::{ConnectOptions, Connections, Reconnect, Target};
use nfs_client::{Connection, Identity, Nfs3};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;

use responder::*;

async fn connections(target: Target, count: u32) -> Connections {
    let first = connect(target, Reconnect::Resend).await;
    Connections::more(first, count).await
}

/// Makes `count` NULL calls at once, in order; the responder must let them end.
fn null_calls(connections: &Connections, count: usize) -> JoinSet<()> {
    let mut calls = JoinSet::new();
    for _ in 0..count {
        let nfs = Nfs3::new(connections.clone(), Identity::none());
        calls.spawn(async move {
            let done = timeout(HANG, nfs.null()).await;
            done.expect("the call hangs").unwrap();
        });
    }
    calls
}

#[tokio::test]
async fn calls_go_where_the_fewest_are() {
    const EACH: usize = 3;
    let (target, script) = responder(async |listener| {
        let mut peers = Vec::new();
        for _ in 0..4 {
            peers.push(accept(&listener).await);
        }
        // All twelve are here before the first is answered: three over each.
        let mut calls = Vec::new();
        for peer in &mut peers {
            for _ in 0..EACH {
                calls.push(receive(peer).await.0);
            }
        }
        for (index, peer) in peers.iter_mut().enumerate() {
            for xid in &calls[index * EACH..][..EACH] {
                peer.send_record(&success(*xid, b"")).await.unwrap();
            }
        }
    })
    .await;
    let connections = connections(target, 4).await;
    assert_eq!(connections.all().len(), 4);
    null_calls(&connections, 4 * EACH).join_all().await;
    let stats = connections.stats();
    assert_eq!((stats.calls, stats.replies), (12, 12));
    for one in connections.all() {
        assert_eq!(one.stats().replies, 3);
    }
    script.await.unwrap();
}

#[tokio::test]
async fn a_lost_connection_is_made_again_while_the_others_work() {
    let (target, script) = responder(async |listener| {
        let mut first = accept(&listener).await;
        let second = accept(&listener).await;
        drop(second);
        // One after the other: each goes over the first until the second is back.
        let mut back = None;
        while back.is_none() {
            tokio::select! {
                peer = accept(&listener) => back = Some(peer),
                (xid, _) = receive(&mut first) => {
                    first.send_record(&success(xid, b"")).await.unwrap();
                }
            }
        }
        let mut back = back.unwrap();
        loop {
            tokio::select! {
                (xid, _) = receive(&mut first) => {
                    first.send_record(&success(xid, b"")).await.unwrap();
                }
                (xid, _) = receive(&mut back) => {
                    back.send_record(&success(xid, b"")).await.unwrap();
                }
            }
        }
    })
    .await;
    let connections = connections(target, 2).await;
    // Two at once: one over each, as soon as there are two.
    let second = &connections.all()[1];
    while second.stats().replies < 2 {
        null_calls(&connections, 2).join_all().await;
    }
    assert_eq!(second.stats().reconnects, 1);
    assert_eq!(connections.first().stats().reconnects, 0);
    script.abort();
}

#[tokio::test]
async fn connections_that_cannot_be_made_are_done_without() {
    let listener = TcpListener::bind(own_address()).await.unwrap();
    let target = Target::from(listener.local_addr().unwrap());
    let first = Connection::connect(target.clone(), ConnectOptions::default());
    let (first, accepted) = tokio::join!(first, accept(&listener));
    let mut peer = accepted;
    drop(listener);
    let connections = Connections::more(first.unwrap(), 8).await;
    assert_eq!(connections.all().len(), 8);
    let mut calls = null_calls(&connections, 20);
    let mut rest = Vec::new();
    for _ in 0..20 {
        rest.push(receive(&mut peer).await.0);
    }
    for xid in rest {
        peer.send_record(&success(xid, b"")).await.unwrap();
    }
    while let Some(done) = calls.join_next().await {
        done.unwrap();
    }
    assert_eq!(connections.first().stats().replies, 20);
}

#[tokio::test]
async fn no_more_than_the_cap() {
    let (target, script) = responder(async |listener| {
        let mut peers = Vec::new();
        loop {
            peers.push(accept(&listener).await);
        }
    })
    .await;
    let connections = connections(target, 1000).await;
    assert_eq!(connections.all().len(), 16);
    script.abort();
}
