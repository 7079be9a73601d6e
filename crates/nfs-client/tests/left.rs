//! WRITEs that a file dropped without close leaves on their way: what the same client does to the file next
//! is ordered behind them, and nothing of them stays when they are answered.

mod answers;
mod store;

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use nfs_wire::nfs3::Sattr3;

use store::{Action, Server, TRANSFER, content, soon, windows};

/// Whether `future` is ready when it is asked once.
async fn is_ready(mut future: std::pin::Pin<&mut impl Future>) -> bool {
    std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await
}

/// A server whose file was written, 400 bytes of `content`, and dropped with two WRITEs on their way.
async fn left() -> Server {
    let hold = |call: &str, _| match call.starts_with("WRITE") {
        true => Action::Hold,
        false => Action::Answer,
    };
    let server = Server::new(TRANSFER, windows(2), hold).await;
    let file = server.open().await;
    file.write_at(0, content(400)).await.unwrap();
    server.until("WRITE", 2).await;
    drop(file);
    server
}

fn answer_all(server: &Server) {
    server.store().set_script(|_, _| Action::Answer);
    while !server.held().is_empty() {
        server.let_go(0);
    }
}

#[tokio::test]
async fn what_is_written_through_the_next_open_comes_out_on_top() {
    let server = left().await;
    let file = server.open().await;
    file.write_at(150, vec![7; 100]).await.unwrap();
    let mut flush = pin!(file.flush());
    assert!(!is_ready(flush.as_mut()).await);
    // The first is answered: there is room in the window for what overlaps the second, and for what does
    // not. Only that is sent.
    server.let_go(0);
    server.until("WRITE 200+50", 1).await;
    assert_eq!(server.calls(&["WRITE 150"]), [""; 0]);
    assert_eq!(file.committed(), 0);
    answer_all(&server);
    soon(flush).await.unwrap();
    soon(file.clone().close()).await.unwrap();
    let expected = [&content(150)[..], &[7; 100]].concat();
    assert_eq!(server.store().cache, expected);
    // What waited when the file was dropped was not sent.
    assert_eq!(server.calls(&["WRITE"]).len(), 4);
}

#[tokio::test]
async fn the_length_is_set_behind_them() {
    let server = left().await;
    let node = server.client.resolve(b"file").await.unwrap();
    let new = Sattr3 {
        size: Some(50),
        ..Sattr3::default()
    };
    let mut cut = pin!(server.client.setattr_handle(&node.handle, &new));
    assert!(!is_ready(cut.as_mut()).await);
    server.store().set_script(|_, _| Action::Answer);
    // What the server did not take of them is not sent again: nobody wants it.
    server.let_go_as(1, Action::Short(10));
    server.client.stat_handle(&node.handle).await.unwrap();
    assert_eq!(server.calls(&["SETATTR"]), [""; 0]);
    server.let_go(0);
    soon(cut).await.unwrap();
    assert_eq!(server.store().cache, content(50));
    assert_eq!(server.calls(&["WRITE"]).len(), 2);
}

#[tokio::test]
async fn a_read_through_the_next_open_sees_them() {
    let server = left().await;
    let file = server.open().await;
    assert_eq!(file.stat().await.unwrap().size, 200);
    let mut read = pin!(file.read_at(0, 200));
    assert!(!is_ready(read.as_mut()).await);
    answer_all(&server);
    assert_eq!(soon(read).await.unwrap().data, content(200));
}

#[tokio::test]
async fn nothing_of_them_stays_when_they_are_answered() {
    let server = left().await;
    assert!(server.client.window_bytes().1 > 0, "on their way");
    answer_all(&server);
    // Let go in the background, whenever the answers are taken in.
    let gone = async {
        while server.client.window_bytes().1 > 0 || server.client.files_known() > 0 {
            server.client.stat(b"file").await.unwrap();
        }
    };
    soon(gone).await;
    assert_eq!(server.calls(&["WRITE", "COMMIT"]).len(), 2);
}
