//! A server that is not ready yet: every procedure waits and asks again, as a new call, until the
//! call's time is over.

mod answers;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use nfs_client::nfs3::{Nfsstat3, PostOpAttr, StableHow};
use nfs_client::{ConnectOptions, RpcError};
use nfs_io::{Budget, BufferPool};
use nfs_wire::nfs3::Call;
use tokio::time::timeout;

use answers::*;

#[tokio::test]
async fn a_call_is_made_again_until_the_server_is_ready() {
    let calls = Arc::new(Mutex::new(0));
    let seen = calls.clone();
    let (nfs, _) = client_of(move |call| {
        let mut calls = calls.lock().unwrap();
        *calls += 1;
        if *calls % 2 == 1 {
            return match call {
                Call::Getattr(_) => fail(Nfsstat3::Jukebox, &()),
                Call::Write(_) => fail(Nfsstat3::Jukebox, &wcc()),
                _ => fail(Nfsstat3::Jukebox, &PostOpAttr::None),
            };
        }
        good(call.procedure())
    })
    .await;
    let file = handle(b"f");
    nfs.getattr(&file).await.unwrap().unwrap();
    nfs.read(&file, 0, 5).await.unwrap().unwrap();
    let data = Bytes::from(vec![1; 10_000]);
    let how = StableHow::FileSync;
    nfs.write(&file, 0, how, data).await.unwrap().unwrap();
    let pool = BufferPool::new(Budget::new(1 << 20));
    let memory = pool.try_take(5).unwrap();
    let ok = nfs.read_into(&file, 0, memory).await.unwrap().unwrap();
    assert_eq!(&ok.data[..], b"bytes");
    assert_eq!(*seen.lock().unwrap(), 8);
}

#[tokio::test]
async fn when_the_time_is_over_the_status_is_told() {
    let options = ConnectOptions {
        call_timeout: Duration::from_millis(250),
        ..ConnectOptions::default()
    };
    let always = |_: Call<'_>| fail(Nfsstat3::Jukebox, &PostOpAttr::None);
    let (nfs, _) = client_with(options, always).await;
    let answer = timeout(HANG, nfs.lookup(&handle(b"d"), b"n")).await;
    match answer.expect("the call hangs") {
        Ok(Err(failure)) => assert_eq!(failure.status, Nfsstat3::Jukebox),
        // On a very slow machine no answer comes in time.
        Err(RpcError::Timeout { .. }) => {}
        other => panic!("{other:?}"),
    }
}
