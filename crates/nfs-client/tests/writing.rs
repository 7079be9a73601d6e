//! Writing behind, against a server that restarts, fails, answers short and in any order: what was
//! written comes to stable storage in the order it was written, or an error says that it did not.

mod answers;
mod store;

use nfs_client::ClientError;
use nfs_client::nfs3::{Nfsstat3, StableHow};

use store::{Action, Server, TRANSFER, content, soon, windows};

#[tokio::test]
async fn a_small_file_is_one_stable_write() {
    let server = Server::new(TRANSFER, windows(4), |_, _| Action::Answer).await;
    let file = server.open().await;
    file.write_at(0, content(60)).await.unwrap();
    assert_eq!(file.stat().await.unwrap().size, 60);
    assert_eq!(file.committed(), 0);
    soon(file.close()).await.unwrap();
    assert_eq!(
        server.store().calls,
        ["LOOKUP", "WRITE 0+60 FILE_SYNC"],
        "the fewest calls that are safe"
    );
    assert_eq!(server.store().disk, content(60));
}

#[tokio::test]
async fn closing_commits() {
    let server = Server::new(TRANSFER, windows(4), |_, _| Action::Answer).await;
    let file = server.open().await;
    file.write_at(0, content(1050)).await.unwrap();
    soon(file.close()).await.unwrap();
    assert_eq!(server.store().disk, content(1050));
    assert_eq!(server.calls(&["COMMIT"]).len(), 1);
    let writes = server.calls(&["WRITE"]);
    assert_eq!(writes.len(), 11, "{writes:?}");
    assert!(writes.iter().all(|write| write.ends_with("UNSTABLE")));
}

#[tokio::test]
async fn small_neighbours_go_in_one_write_and_do_not_linger() {
    let server = Server::new(TRANSFER, windows(4), |_, _| Action::Answer).await;
    let file = server.open().await;
    let all = content(250);
    for (at, piece) in all.chunks(10).enumerate() {
        file.write_at(at as u64 * 10, piece.to_vec()).await.unwrap();
    }
    // The last one waits for a neighbour, but not for ever.
    server.until("WRITE", 3).await;
    let writes = server.calls(&["WRITE"]);
    let expected = ["0+100", "100+100", "200+50"].map(|range| format!("WRITE {range} UNSTABLE"));
    assert_eq!(writes, expected);
    // Not neighbours: each by itself.
    for offset in [700, 500, 600] {
        file.write_at(offset, vec![1; 10]).await.unwrap();
    }
    soon(file.sync()).await.unwrap();
    let writes = server.calls(&["WRITE"]);
    let expected = ["700+10", "500+10", "600+10"].map(|range| format!("WRITE {range} UNSTABLE"));
    assert_eq!(writes[3..], expected);
    assert_eq!(server.store().disk[..250], all);
}

#[tokio::test]
async fn a_server_that_writes_stable_at_once_is_not_asked_to_commit() {
    for stable in [StableHow::DataSync, StableHow::FileSync] {
        let server = Server::new(TRANSFER, windows(4), move |call, _| match call {
            "COMMIT" => Action::Status(Nfsstat3::Serverfault),
            _ => Action::Stable(stable),
        })
        .await;
        let file = server.open().await;
        file.write_at(0, content(1000)).await.unwrap();
        soon(file.close()).await.unwrap();
        assert_eq!(server.store().disk, content(1000));
    }
}

#[tokio::test]
async fn what_a_restart_lost_is_sent_again() {
    // Where the server restarts: at these calls, counted over WRITEs and COMMITs.
    let cases: [&[(&str, usize)]; 5] = [
        &[("WRITE", 5)],
        &[("COMMIT", 0)],
        &[("WRITE", 3), ("WRITE", 7)],
        &[("WRITE", 9), ("COMMIT", 0)],
        &[("COMMIT", 0), ("WRITE", 12), ("COMMIT", 1), ("COMMIT", 2)],
    ];
    for restarts in cases {
        let server = Server::new(TRANSFER, windows(3), move |call, number| {
            let here = |&(word, at): &(&str, usize)| call.starts_with(word) && at == number;
            if restarts.iter().any(here) {
                Action::Restart
            } else {
                Action::Answer
            }
        })
        .await;
        let file = server.open().await;
        file.write_at(0, content(1000)).await.unwrap();
        soon(file.sync()).await.unwrap();
        assert_eq!(server.store().disk, content(1000), "{restarts:?}");
        assert_eq!(file.committed(), 1000);
        let writes = server.calls(&["WRITE"]).len();
        assert!(writes > 10, "{writes} after {restarts:?}");
        soon(file.close()).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_restarts_for_ever_is_an_error() {
    for word in ["COMMIT", "WRITE"] {
        let server = Server::new(TRANSFER, windows(2), move |call, _| {
            if call.starts_with(word) {
                Action::Restart
            } else {
                Action::Answer
            }
        })
        .await;
        let file = server.open().await;
        file.write_at(0, content(400)).await.unwrap();
        for result in [soon(file.sync()).await, soon(file.close()).await] {
            assert!(
                matches!(result, Err(ClientError::VerifierKeepsChanging { .. })),
                "{word}: {result:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_failed_write_is_told_at_the_next_call_and_when_closing() {
    let server = Server::new(TRANSFER, windows(1), |call, number| {
        if call.starts_with("WRITE") && number == 2 {
            Action::Status(Nfsstat3::Nospc)
        } else {
            Action::Answer
        }
    })
    .await;
    let file = server.open().await;
    let other = server.open().await;
    let nospc = |result: Result<(), ClientError>| {
        let error = result.expect_err("it failed before");
        assert_eq!(error.status(), Some(Nfsstat3::Nospc), "{error}");
        assert!(error.to_string().contains("file"), "{error}");
    };
    for block in 0..3 {
        let offset = block * u64::from(TRANSFER);
        file.write_at(offset, content(100)).await.unwrap();
    }
    server.until("WRITE", 3).await;
    nospc(soon(file.flush()).await);
    // Told once, then it is tried again; but nothing is called safe.
    file.write_at(300, content(100)).await.unwrap();
    assert_eq!(file.committed(), 0);
    nospc(soon(file.sync()).await);
    assert_eq!(
        file.committed(),
        200,
        "what came there is committed all the same"
    );
    nospc(soon(file.close()).await);
    // Who has the same file open is told as well; who opens it afterwards is not.
    nospc(other.write_at(0, content(1)).await);
    let later = server.open().await;
    nospc(soon(other.close()).await);
    later.write_at(200, content(100)).await.unwrap();
    soon(later.close()).await.unwrap();
    assert_eq!(server.store().disk.len(), 400);
}

#[tokio::test]
async fn a_failed_commit_is_told() {
    let server = Server::new(TRANSFER, windows(2), |call, _| match call {
        "COMMIT" => Action::Status(Nfsstat3::Io),
        _ => Action::Answer,
    })
    .await;
    let file = server.open().await;
    file.write_at(0, content(400)).await.unwrap();
    for result in [soon(file.sync()).await, soon(file.close()).await] {
        assert_eq!(result.unwrap_err().status(), Some(Nfsstat3::Io));
    }
}

#[tokio::test]
async fn short_writes_go_on_where_they_ended() {
    let server = Server::new(TRANSFER, windows(3), |call, number| {
        if call.starts_with("WRITE") {
            Action::Short([37, 0, 100, 1, 0][number % 5])
        } else {
            Action::Answer
        }
    })
    .await;
    let file = server.open().await;
    file.write_at(0, content(600)).await.unwrap();
    soon(file.close()).await.unwrap();
    assert_eq!(server.store().disk, content(600));
}

#[tokio::test]
async fn a_server_that_takes_nothing_is_not_asked_for_ever() {
    let server = Server::new(TRANSFER, windows(3), |call, _| {
        if call.starts_with("WRITE 200+") {
            Action::Short(0)
        } else {
            Action::Answer
        }
    })
    .await;
    let file = server.open().await;
    file.write_at(0, content(400)).await.unwrap();
    let result = soon(file.close()).await;
    assert!(
        matches!(result, Err(ClientError::NoProgress { offset: 200, .. })),
        "{result:?}"
    );
}
