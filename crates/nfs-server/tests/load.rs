//! Many calls at once: shared flushes, and a file cache that is too small.

mod support;

use bytes::Bytes;
use nfs_client::Nfs3;
use nfs_wire::nfs3::{CreateHow, FileHandle, Nfsstat3, StableHow};
use support::{Served, block_on, create, mkdir, mode, ok, status};

/// Runs a future for each number at once.
async fn at_once<F: Future<Output = ()> + 'static>(count: usize, make: impl Fn(usize) -> F) {
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            let tasks: Vec<_> = (0..count)
                .map(|number| tokio::task::spawn_local(make(number)))
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        })
        .await;
}

#[test]
fn each_of_many_creates_at_once_asks_for_a_flush() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        at_once(200, |number| {
            let client = client.clone();
            async move {
                create(&client, &root, format!("f{number}").as_bytes()).await;
            }
        })
        .await;
    });
    let (requests, rounds) = (
        served.counter("commit_requests"),
        served.counter("commit_rounds"),
    );
    // How many share one is up to the disk's pace; that they do, a test of the committer shows.
    assert_eq!(requests, 200);
    assert!((1..=requests).contains(&rounds), "{rounds} rounds");
    assert_eq!(std::fs::read_dir(served.path()).unwrap().count(), 200);
}

#[test]
fn an_asynchronous_export_waits_for_no_flush() {
    let served = Served::with(|config| {
        config.exports[0].durability = nfs_server::exports::config::Durability::Async;
    });
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        create(&client, &root, b"f").await;
        ok(client.remove(&root, b"f").await);
    });
    assert_eq!(served.counter("commit_requests"), 0);
}

async fn work_on(client: Nfs3, root: FileHandle, number: usize) {
    let name = format!("f{number}").into_bytes();
    let file = create(&client, &root, &name).await;
    let data = Bytes::from(number.to_string().into_bytes());
    let unstable = StableHow::Unstable;
    let written = ok(client.write(&file, 0, unstable, data.clone()).await);
    for round in 0..5 {
        ok(client.getattr(&file).await);
        let read = ok(client.read(&file, 0, 100).await);
        assert_eq!(read.data, data, "{number} in round {round}");
        ok(client.setattr(&file, &mode(0o600 + round), None).await);
        ok(client.write(&file, 0, unstable, data.clone()).await);
    }
    let committed = ok(client.commit(&file, 0, 0).await);
    assert_eq!(committed.verf, written.verf, "nothing was lost");
    if number.is_multiple_of(3) {
        ok(client.remove(&root, &name).await);
        assert_eq!(status(client.getattr(&file).await), Nfsstat3::Stale);
    }
}

#[test]
fn a_file_cache_that_is_too_small_serves_the_right_files() {
    // The smallest the server makes it: 64 descriptors, for hundreds of files in use.
    let served = Served::within(600, support::scratch(0o755), None, |_| {});
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        for _ in 0..3 {
            let dir = mkdir(&client, &root, b"d").await;
            at_once(200, |number| work_on(client.clone(), dir, number)).await;
            ok(client.rename(&root, b"d", &root, b"old").await);
            std::fs::remove_dir_all(served.path().join("old")).unwrap();
        }
        // What is not in use goes when the next comes.
        let dir = mkdir(&client, &root, b"d").await;
        for number in 0..500 {
            create(&client, &dir, format!("f{number}").as_bytes()).await;
        }
    });
    assert!(served.counter("file_cache_evictions") > 500);
    let fds = served.counter("file_cache_fds");
    assert!(fds < 64 + 40, "{fds} descriptors");
    assert_eq!(served.counter("verifier_changes"), 0);
}

#[test]
fn guarded_creates_of_one_name_make_it_once() {
    let served = Served::start();
    block_on(async {
        let root = served.root(&served.client().await).await;
        let mut clients = Vec::new();
        for _ in 0..8 {
            clients.push(served.client().await);
        }
        let made = std::rc::Rc::new(std::cell::Cell::new(0));
        at_once(80, |number| {
            let (client, made) = (clients[number % 8].clone(), std::rc::Rc::clone(&made));
            async move {
                let how = CreateHow::Guarded(mode(0o600));
                match status(client.create(&root, b"one", &how).await) {
                    Nfsstat3::Ok => made.set(made.get() + 1),
                    Nfsstat3::Exist => {}
                    other => panic!("{other:?}"),
                }
            }
        })
        .await;
        assert_eq!(made.get(), 1);
    });
}
