//! A scripted responder, and calls to it that cannot hang.
#![allow(dead_code, reason = "each test file uses its part")]

#[path = "../loopback/mod.rs"]
mod loopback;

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use nfs_client::connection::{ConnectOptions, Connection, Procedure, Reconnect, Target};
use nfs_client::error::RpcError;
use nfs_client::{Identity, RawConnection};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

pub(crate) use loopback::own_address;

/// What the tests call; the responder does not look at it.
pub(crate) const PROCEDURE: Procedure = Procedure {
    program: 100_003,
    version: 3,
    number: 0,
};

/// Long enough for a busy machine; reached only when something hangs.
pub(crate) const HANG: Duration = Duration::from_secs(300);

/// A responder on a port of its own; `script` gets the listener.
pub(crate) async fn responder<F>(script: impl FnOnce(TcpListener) -> F) -> (Target, JoinHandle<()>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind(own_address()).await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    (address.into(), tokio::spawn(script(listener)))
}

pub(crate) async fn accept(listener: &TcpListener) -> RawConnection {
    RawConnection::from_stream(listener.accept().await.unwrap().0)
}

/// The next call's xid and arguments.
pub(crate) async fn receive(connection: &mut RawConnection) -> (u32, Vec<u8>) {
    let record = connection.receive_record().await.unwrap().expect("a call");
    (xid(&record), arguments(&record).to_vec())
}

pub(crate) fn xid(record: &[u8]) -> u32 {
    u32::from_be_bytes(*record.first_chunk().unwrap())
}

/// What follows the header of a call with AUTH_NONE: ten words.
pub(crate) fn arguments(record: &[u8]) -> &[u8] {
    &record[40..]
}

pub(crate) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// The record of an accepted, successful reply to the call `xid`.
pub(crate) fn success(xid: u32, results: &[u8]) -> Vec<u8> {
    [words(&[xid, 1, 0, 0, 0, 0]), results.to_vec()].concat()
}

pub(crate) fn record(body: &[u8]) -> Vec<u8> {
    let mark = 1 << 31 | u32::try_from(body.len()).unwrap();
    [words(&[mark]), body.to_vec()].concat()
}

pub(crate) async fn connect(target: Target, reconnect: Reconnect) -> Connection {
    let options = ConnectOptions {
        reconnect,
        ..ConnectOptions::default()
    };
    connect_with(target, options).await
}

pub(crate) async fn connect_with(target: Target, options: ConnectOptions) -> Connection {
    Connection::connect(target, options).await.unwrap()
}

pub(crate) async fn call(connection: &Connection, args: &[u8]) -> Result<Vec<u8>, RpcError> {
    let identity = Identity::none();
    let reply = connection.call_raw(PROCEDURE, &identity, args);
    timeout(HANG, reply)
        .await
        .expect("the call hangs")
        .map(|bytes| bytes.to_vec())
}

/// Calls with arguments 0, 1, ... at once; each must get its own reply.
pub(crate) async fn call_many(connection: &Connection, count: u32) {
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
