//! Order and bounds of writing behind: answers that come late and in any order, writes that overlap,
//! changes of the length, appends, reads of what was just written, and memory that is short.

mod answers;
mod store;

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use nfs_client::nfs3::{Nfstime3, SetTime, StableHow};
use nfs_client::{Depth, Identity, Windows};

use store::{Action, Server, TRANSFER, content, soon, windows};

/// Whether `future` is ready when it is asked once.
async fn is_ready(mut future: std::pin::Pin<&mut impl Future>) -> bool {
    std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await
}

fn hold_writes(call: &str, _number: usize) -> Action {
    if call.starts_with("WRITE") {
        Action::Hold
    } else {
        Action::Answer
    }
}

#[tokio::test]
async fn answers_in_any_order_and_late_are_taken() {
    let server = Server::new(TRANSFER, windows(4), |call, number| {
        match call.split(' ').next() {
            Some("WRITE") if number % 2 == 0 => Action::Hold,
            Some("WRITE") => Action::Late,
            _ => Action::Answer,
        }
    })
    .await;
    let file = server.open().await;
    let all = content(1200);
    file.write_at(0, all[..800].to_vec()).await.unwrap();
    server.until("WRITE", 4).await;
    assert_eq!(server.held().len(), 4, "the window is full");
    // The newest first; then a restart, before anything that was answered is committed.
    for done in 1..4 {
        server.let_go(3);
        server.until("WRITE", 4 + done).await;
    }
    server.restart();
    server.store().set_script(|_, _| Action::Answer);
    for _ in server.held() {
        server.let_go(2);
    }
    file.write_at(800, all[800..].to_vec()).await.unwrap();
    soon(file.close()).await.unwrap();
    assert_eq!(server.store().disk, all);
    assert_eq!(server.store().in_flight_max, 4);
}

#[tokio::test]
async fn writes_that_overlap_are_never_on_their_way_together() {
    let server = Server::new(TRANSFER, windows(8), hold_writes).await;
    let file = server.open().await;
    file.write_at(300, vec![3; 100]).await.unwrap();
    file.write_at(0, vec![1; 100]).await.unwrap();
    server.until("WRITE", 2).await;
    file.write_at(50, vec![2; 100]).await.unwrap();
    let flush = file.flush();
    let mut flush = pin!(flush);
    assert!(!is_ready(flush.as_mut()).await);
    server.until("WRITE", 3).await;
    let sent = ["300+100", "0+100", "100+50"].map(|range| format!("WRITE {range} UNSTABLE"));
    assert_eq!(server.held(), sent, "what overlaps the first one waits");
    server.let_go(1);
    server.until("WRITE 50+50", 1).await;
    for _ in server.held() {
        server.let_go(0);
    }
    soon(flush).await.unwrap();
    server.store().set_script(|_, _| Action::Answer);
    soon(file.clone().close()).await.unwrap();
    let expected = [vec![1; 50], vec![2; 100], vec![0; 150], vec![3; 100]].concat();
    assert_eq!(server.store().disk, expected);
}

#[tokio::test]
async fn of_what_is_written_twice_before_it_is_sent_the_newer_goes() {
    let server = Server::new(TRANSFER, windows(1), hold_writes).await;
    let file = server.open().await;
    file.write_at(500, vec![9; 100]).await.unwrap();
    server.until("WRITE", 1).await;
    file.write_at(0, vec![1; 60]).await.unwrap();
    file.write_at(20, vec![2; 30]).await.unwrap();
    server.store().set_script(|_, _| Action::Answer);
    server.let_go(0);
    soon(file.close()).await.unwrap();
    let expected = [vec![1; 20], vec![2; 30], vec![1; 10]].concat();
    assert_eq!(server.store().disk[..60], expected);
}

#[tokio::test]
async fn a_dropped_file_gives_up_without_hanging() {
    let server = Server::new(TRANSFER, windows(2), hold_writes).await;
    let file = server.open().await;
    file.write_at(0, content(400)).await.unwrap();
    server.until("WRITE", 2).await;
    drop(file);
    server.let_go(0);
    server.let_go(0);
    server.store().set_script(|_, _| Action::Answer);
    // Nothing of it is left: the next open of the file waits for nothing and sends nothing old.
    let file = server.open().await;
    assert_eq!(file.stat().await.unwrap().size, 200);
    file.write_at(0, vec![7; 100]).await.unwrap();
    soon(file.close()).await.unwrap();
    assert_eq!(server.calls(&["WRITE"]).len(), 3);
    assert_eq!(server.client.window_bytes().1, 0, "memory that nobody uses");
}

#[tokio::test]
async fn a_commit_that_takes_long_does_not_stop_the_writer() {
    let windows = Windows {
        memory_bytes_max: 128 * 1024,
        ..windows(4)
    };
    let server = Server::new(4096, windows, |call, _| match call {
        "COMMIT" => Action::Hold,
        _ => Action::Answer,
    })
    .await;
    let file = server.open().await;
    let all = content(256 * 1024);
    let (before, after) = all.split_at(96 * 1024);
    // Half of the memory makes a COMMIT due, without anybody asking.
    soon(file.write_at(0, before.to_vec())).await.unwrap();
    server.until("COMMIT", 1).await;
    assert!(server.calls(&["WRITE"]).len() >= 16);
    assert_eq!(file.committed(), 0);
    // Then the memory is full, and the writer waits for the COMMIT.
    let write = file.write_at(96 * 1024, after.to_vec());
    let mut write = pin!(write);
    tokio::select! {
        biased;
        _ = &mut write => panic!("more was accepted than memory may hold"),
        () = server.until("WRITE", 30) => {}
    }
    server.store().set_script(|_, _| Action::Answer);
    server.let_go(0);
    soon(write).await.unwrap();
    soon(file.sync()).await.unwrap();
    assert_eq!(file.committed(), 256 * 1024);
    assert_eq!(server.store().disk, all);
    let (peak, _) = server.client.window_bytes();
    assert!(peak <= 128 * 1024, "{peak} bytes of memory");
    soon(file.clone().close()).await.unwrap();
}

#[tokio::test]
async fn files_that_keep_all_the_memory_commit_when_another_needs_it() {
    let windows = Windows {
        memory_bytes_max: 64 * 1024,
        ..windows(4)
    };
    let server = Server::new(4096, windows, |_, _| Action::Answer).await;
    let file = server.open().await;
    // Less than what makes a COMMIT due.
    file.write_at(0, content(28 * 1024)).await.unwrap();
    soon(file.flush()).await.unwrap();
    assert_eq!(server.calls(&["COMMIT"]).len(), 0);
    let (_, in_use) = server.client.window_bytes();
    assert_eq!(in_use, 28 * 1024);
    let other = server.client.open(b"other").await.unwrap();
    assert_eq!(
        other.handle(),
        file.handle(),
        "this server has one file only"
    );
    other.write_at(28 * 1024, content(64 * 1024)).await.unwrap();
    soon(other.close()).await.unwrap();
    assert!(!server.calls(&["COMMIT"]).is_empty());
    let (peak, in_use) = server.client.window_bytes();
    assert!(peak <= 64 * 1024, "{peak} bytes of memory");
    assert_eq!(in_use, 0);
}

#[tokio::test]
async fn one_transfer_goes_however_little_memory_there_is() {
    let windows = Windows {
        memory_bytes_max: 1024,
        ..windows(4)
    };
    let server = Server::new(4096, windows, |_, _| Action::Answer).await;
    let file = server.open().await;
    soon(file.write_at(0, content(64 * 1024))).await.unwrap();
    for (at, piece) in content(9000).chunks(10).enumerate() {
        let offset = 64 * 1024 + at as u64 * 10;
        soon(file.write_at(offset, piece.to_vec())).await.unwrap();
    }
    soon(file.close()).await.unwrap();
    let expected = [content(64 * 1024), content(9000)].concat();
    assert!(server.store().disk == expected);
}

#[tokio::test]
async fn the_length_is_set_after_what_was_written_before() {
    let server = Server::new(TRANSFER, windows(4), hold_writes).await;
    let file = server.open().await;
    file.write_at(0, content(400)).await.unwrap();
    let cut = file.set_len(150);
    let mut cut = pin!(cut);
    assert!(!is_ready(cut.as_mut()).await);
    server.until("WRITE", 4).await;
    // What is written behind it waits for its turn.
    let write = file.write_at(200, vec![5; 100]);
    let mut write = pin!(write);
    assert!(!is_ready(write.as_mut()).await);
    server.store().set_script(|_, _| Action::Answer);
    while !server.held().is_empty() {
        assert_eq!(server.calls(&["SETATTR"]), [""; 0]);
        server.let_go(1);
    }
    soon(cut).await.unwrap();
    soon(write).await.unwrap();
    assert_eq!(file.stat().await.unwrap().size, 300);
    // What was cut off is not sent again, although the server has lost what was not committed.
    server.restart();
    soon(file.clone().close()).await.unwrap();
    let expected = [&content(150)[..], &[0; 50], &[5; 100]].concat();
    assert_eq!(server.store().disk, expected);
    assert_eq!(server.calls(&["SETATTR"]), ["SETATTR Some(150)"]);
}

#[tokio::test]
async fn attributes_of_an_open_file_are_set_in_order_too() {
    let server = Server::new(TRANSFER, windows(4), |_, _| Action::Answer).await;
    let file = server.open().await;
    file.write_at(0, content(10)).await.unwrap();
    let new = nfs_wire::nfs3::Sattr3 {
        mode: Some(0o600),
        ..Default::default()
    };
    let set = server.client.setattr_handle(file.handle(), &new);
    soon(set).await.unwrap();
    let calls = server.calls(&["WRITE", "SETATTR"]);
    assert_eq!(calls, ["WRITE 0+10 UNSTABLE", "SETATTR None"]);
    soon(file.close()).await.unwrap();
}

#[tokio::test]
async fn a_time_that_was_set_outlasts_a_restart() {
    let server = Server::new(TRANSFER, windows(4), |_, _| Action::Answer).await;
    let file = server.open().await;
    file.write_at(0, content(250)).await.unwrap();
    let new = nfs_wire::nfs3::Sattr3 {
        mtime: SetTime::ClientTime(Nfstime3::default()),
        ..Default::default()
    };
    let set = server.client.setattr_handle(file.handle(), &new);
    soon(set).await.unwrap();
    server.restart();
    soon(file.close()).await.unwrap();
    assert_eq!(server.store().disk, content(250));
    // Nothing that changes the time follows.
    let calls = server.calls(&["WRITE", "COMMIT", "SETATTR"]);
    assert_eq!(calls.last().unwrap(), "SETATTR None", "{calls:?}");
}

#[tokio::test]
async fn appends_follow_each_other() {
    let server = Server::new(TRANSFER, windows(1), |_, _| Action::Answer).await;
    let file = server.open().await;
    soon(file.set_len(1000)).await.unwrap();
    server.store().set_script(hold_writes);
    let other = server.open().await;
    // The first one fills the window and waits in the middle; the second waits for the first.
    let mut one = pin!(file.append(vec![1; 500]));
    assert!(!is_ready(one.as_mut()).await);
    let mut two = pin!(other.append(vec![2; 70]));
    assert!(!is_ready(two.as_mut()).await);
    server.until("WRITE", 1).await;
    server.store().set_script(|_, _| Action::Answer);
    server.let_go(0);
    let (one, two) = soon(async { tokio::join!(one, two) }).await;
    assert_eq!((one.unwrap(), two.unwrap()), (1000, 1500));
    soon(file.sync()).await.unwrap();
    let expected = [vec![0; 1000], vec![1; 500], vec![2; 70]].concat();
    assert_eq!(server.store().disk, expected);
    assert_eq!(server.calls(&["GETATTR"]), [""; 0], "the end was known");
}

/// The server looks at the size, executes a WRITE and has it on stable storage, and its answers come the
/// other way round.
#[tokio::test]
async fn an_append_does_not_overwrite_what_came_to_the_server_while_it_asked() {
    let server = Server::new(TRANSFER, windows(4), |call, number| match (call, number) {
        ("GETATTR", _) => Action::Late,
        // Its answer is missing all the time: so the attributes are in doubt, and have to be asked for.
        (call, 0) if call.starts_with("WRITE") => Action::Late,
        (call, 2) if call.starts_with("WRITE") => Action::Hold,
        _ => Action::Stable(StableHow::FileSync),
    })
    .await;
    let file = server.open().await;
    file.write_at(0, content(300)).await.unwrap();
    server.until("WRITE", 3).await;
    soon(file.read_at(100, 100)).await.unwrap();
    let mut append = pin!(file.append(vec![9; 50]));
    assert!(!is_ready(append.as_mut()).await);
    server.until("GETATTR", 1).await;
    let held = server.held();
    let third = held.iter().position(|call| call.starts_with("WRITE 200+"));
    server.let_go_as(third.unwrap(), Action::Stable(StableHow::FileSync));
    soon(file.read_at(200, 100)).await.unwrap();
    let size = server.held().iter().position(|call| call == "GETATTR");
    server.let_go(size.unwrap());
    assert_eq!(soon(append).await.unwrap(), 300);
    server.store().set_script(|_, _| Action::Answer);
    while !server.held().is_empty() {
        server.let_go(0);
    }
    soon(file.sync()).await.unwrap();
    let expected = [&content(300)[..], &[9; 50]].concat();
    assert_eq!(server.store().disk, expected);
}

#[tokio::test]
async fn who_gives_up_waiting_for_a_stream_has_not_come_to_the_end() {
    let server = Server::new(TRANSFER, windows(4), |call, _| {
        match call.starts_with("READ") {
            true => Action::Late,
            false => Action::Answer,
        }
    })
    .await;
    server.store().cache = content(150);
    let file = server.open().await;
    let mut stream = file.stream(0);
    {
        let mut next = pin!(stream.next());
        assert!(!is_ready(next.as_mut()).await);
        server.until("READ", 1).await;
    }
    server.store().set_script(|_, _| Action::Answer);
    while !server.held().is_empty() {
        server.let_go(0);
    }
    let mut read = Vec::new();
    while let Some(data) = soon(stream.next()).await.unwrap() {
        read.extend_from_slice(&data);
    }
    assert_eq!(read, content(150));
}

#[tokio::test]
async fn a_read_waits_for_writes_of_its_range_and_no_others() {
    let server = Server::new(TRANSFER, windows(4), hold_writes).await;
    let file = server.open().await;
    file.write_at(0, content(400)).await.unwrap();
    server.until("WRITE", 4).await;
    server.let_go(0);
    let other = server.open().await;
    let part = soon(other.read_at(0, 100)).await.unwrap();
    assert_eq!(part.data, content(100));
    let read = other.read_at(90, 20);
    let mut read = pin!(read);
    assert!(!is_ready(read.as_mut()).await);
    server.let_go(0);
    assert_eq!(soon(read).await.unwrap().data, content(110)[90..]);
    // What is still being put together is seen as well, and so is the end that it makes.
    server.store().set_script(|_, _| Action::Answer);
    while !server.held().is_empty() {
        server.let_go(0);
    }
    file.write_at(450, vec![3; 10]).await.unwrap();
    assert_eq!(other.stat().await.unwrap().size, 460);
    let part = soon(other.read_at(400, 55)).await.unwrap();
    assert_eq!(part.data, [[0; 50].as_slice(), &[3; 5]].concat());
    soon(file.close()).await.unwrap();
}

#[tokio::test]
async fn two_identities_have_one_file() {
    let server = Server::new(TRANSFER, windows(4), hold_writes).await;
    let file = server.open().await;
    let client = server.client.with_identity(Identity::sys(5, 5, &[]));
    let other = client.open(b"file").await.unwrap();
    // Each is sent as who wrote it, in the order it was written, and never together.
    file.write_at(0, vec![1; 60]).await.unwrap();
    file.write_at(60, vec![1; 20]).await.unwrap();
    other.write_at(80, vec![2; 10]).await.unwrap();
    let read = other.read_at(0, 90);
    let mut read = pin!(read);
    assert!(!is_ready(read.as_mut()).await);
    other.write_at(40, vec![2; 30]).await.unwrap();
    assert_eq!(file.stat().await.unwrap().size, 90);
    server.until("WRITE", 1).await;
    server.store().set_script(|_, _| Action::Answer);
    while !server.held().is_empty() {
        server.let_go(0);
    }
    soon(read).await.unwrap();
    // The length is changed in order with what both have written, and what one read ahead is dropped
    // when the other writes.
    let mut stream = other.stream(0);
    assert_eq!(soon(stream.next()).await.unwrap().unwrap().len(), 90);
    soon(client.setattr_handle(file.handle(), &cut_to(75)))
        .await
        .unwrap();
    assert_eq!(soon(file.append(vec![3; 5])).await.unwrap(), 75);
    let all = [vec![1; 40], vec![2; 30], vec![1; 5], vec![3; 5]].concat();
    assert_eq!(soon(other.read_at(0, 100)).await.unwrap().data, all);
    soon(file.close()).await.unwrap();
    assert_eq!(server.store().disk, all);
    let flavors = server.store().flavors.clone();
    assert!(flavors.contains(&0) && flavors.contains(&1), "{flavors:?}");
    assert_eq!(flavors.len(), server.calls(&["WRITE", "COMMIT"]).len());
    soon(other.clone().close()).await.unwrap();
}

fn cut_to(len: u64) -> nfs_wire::nfs3::Sattr3 {
    nfs_wire::nfs3::Sattr3 {
        size: Some(len),
        ..Default::default()
    }
}

#[tokio::test]
async fn what_was_read_ahead_of_a_write_is_not_given_out() {
    // One READ ahead: what is asked is known.
    let windows = Windows {
        read: Depth::Fixed(1),
        ..windows(4)
    };
    let server = Server::new(TRANSFER, windows, |_, _| Action::Answer).await;
    let file = server.open().await;
    file.write_at(0, vec![1; 1000]).await.unwrap();
    soon(file.sync()).await.unwrap();
    server.store().set_script(hold_writes);
    let mut stream = file.stream(0);
    let mut read = soon(stream.next()).await.unwrap().unwrap().to_vec();
    file.write_at(500, vec![2; 100]).await.unwrap();
    let written = server.calls(&["WRITE"]).len();
    server.until("WRITE", written + 1).await;
    // READs ahead go on while the WRITE is held, and bring what was there before.
    while read.len() < 500 {
        read.extend_from_slice(&soon(stream.next()).await.unwrap().unwrap());
    }
    server.until("READ 500+", 1).await;
    server.let_go(0);
    soon(file.flush()).await.unwrap();
    while let Some(data) = soon(stream.next()).await.unwrap() {
        read.extend_from_slice(&data);
    }
    let expected = [vec![1; 500], vec![2; 100], vec![1; 400]].concat();
    assert!(read == expected, "old bytes after the write");
    // And what somebody else changed is not given out once it is known.
    server.store().set_script(|_, _| Action::Answer);
    let asked = server.calls(&["READ 100+"]).len();
    let mut stream = file.stream(0);
    assert_eq!(soon(stream.next()).await.unwrap().unwrap().len(), 100);
    server.until("READ 100+", asked + 1).await;
    server.store().cache.fill(3);
    server.change();
    soon(file.refresh()).await.unwrap();
    while let Some(data) = soon(stream.next()).await.unwrap() {
        assert!(
            data.iter().all(|&byte| byte == 3),
            "old bytes after the change"
        );
    }
    soon(file.clone().close()).await.unwrap();
}

#[tokio::test]
async fn own_writes_are_no_foreign_changes_and_others_changes_are_seen() {
    let server = Server::new(TRANSFER, windows(4), |_, number| {
        [Action::Answer, Action::Late][number % 2]
    })
    .await;
    server.store().set_script(hold_writes);
    let file = server.open().await;
    file.write_at(0, content(800)).await.unwrap();
    for sent in 4..12 {
        server.until("WRITE", sent.min(8)).await;
        let held = server.held().len();
        server.let_go(held.saturating_sub(1));
    }
    soon(file.flush()).await.unwrap();
    assert_eq!(file.foreign_changes(), 0);
    assert_eq!(file.stat().await.unwrap().size, 800);
    assert_eq!(
        server.calls(&["GETATTR"]),
        [""; 0],
        "the attributes were known"
    );
    server.store().set_script(|_, _| Action::Answer);
    server.change();
    file.write_at(0, content(100)).await.unwrap();
    soon(file.sync()).await.unwrap();
    assert_eq!(file.foreign_changes(), 1);
    server.change();
    file.refresh().await.unwrap();
    assert_eq!(file.foreign_changes(), 2);
    soon(file.close()).await.unwrap();
}

#[tokio::test]
async fn offsets_that_no_file_has_are_refused() {
    let server = Server::new(TRANSFER, windows(4), |_, _| {
        Action::Stable(StableHow::FileSync)
    })
    .await;
    let file = server.open().await;
    let refused = file.write_at(u64::MAX - 5, vec![0; 10]).await;
    assert!(refused.is_err());
    file.write_at(u64::MAX - 5, Vec::new()).await.unwrap();
    soon(file.close()).await.unwrap();
    assert_eq!(server.calls(&["WRITE"]), [""; 0]);
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
}

/// A program that makes a runtime for each of its calls.
#[test]
fn what_was_written_does_not_end_with_its_caller_s_runtime() {
    let main = runtime();
    let server = main.block_on(Server::new(TRANSFER, windows(4), hold_writes));
    let file = main.block_on(server.open());
    let short = runtime();
    short.block_on(file.write_at(0, content(250))).unwrap();
    drop(short);
    main.block_on(async {
        server.until("WRITE", 2).await;
        server.store().set_script(|_, _| Action::Answer);
        while !server.held().is_empty() {
            server.let_go(0);
        }
        soon(file.close()).await.unwrap();
    });
    assert_eq!(server.store().disk, content(250));
}

#[test]
fn the_end_of_the_connection_s_runtime_is_told_to_who_waits() {
    let (main, other) = (runtime(), runtime());
    let server = main.block_on(Server::new(TRANSFER, windows(4), hold_writes));
    let file = main.block_on(server.open());
    main.block_on(async {
        file.write_at(0, content(250)).await.unwrap();
        server.until("WRITE", 2).await;
    });
    drop(main);
    other.block_on(async {
        for _ in 0..2 {
            assert!(soon(file.sync()).await.is_err());
        }
        // Nor does what is written from now on hang.
        let _told = soon(file.write_at(0, content(300))).await;
        assert!(soon(file.set_len(7)).await.is_err());
        assert!(soon(file.close()).await.is_err());
    });
}
