//! The connection on a runtime of several threads: the driver's task, the calls and the announcements
//! of new bytes run at the same time.

mod responder;

use nfs_client::connection::Reconnect;
use tokio::task::JoinSet;

use responder::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_announcement_of_new_bytes_is_overlooked() {
    const TASKS: u32 = 3;
    const CALLS: u32 = 500;
    let (target, script) = responder(async |listener| {
        let mut peer = accept(&listener).await;
        while let Ok(Some(call)) = peer.receive_record().await {
            // In two pieces: the second comes while the first is looked at.
            let reply = record(&success(xid(&call), arguments(&call)));
            for piece in reply.chunks(20) {
                if peer.send(piece).await.is_err() {
                    return;
                }
            }
        }
    })
    .await;
    let connection = connect(target, Reconnect::Resend).await;
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let connection = connection.clone();
        tasks.spawn(async move {
            for number in 0..CALLS {
                let args = words(&[task, number]);
                assert_eq!(call(&connection, &args).await.unwrap(), args);
            }
        });
    }
    tasks.join_all().await;
    // A reply that is overlooked is asked for again when the connection counts as silent.
    assert_eq!(connection.stats().reconnects, 0);
    drop(connection);
    script.await.unwrap();
}
