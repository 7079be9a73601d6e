//! Directories that are moved on the server's own host, out of the export and within it, while a client
//! goes on using them.

use std::path::Path;
use std::time::{Duration, Instant};

use nfs_client::Nfs3;
use nfs_wire::nfs3::{CreateHow, FileHandle, Nfsstat3};

use super::{create, lookup, mkdir, mode, ok, status};

/// How long a client may go on using what was moved out: far longer than the server says.
const DEADLINE: Duration = Duration::from_secs(30);
/// Directories one in the other whose path is longer than the kernel tells at once (4096 bytes).
const DEPTH: usize = 30;

/// The export `files` is on the same file system as the directory `outside`.
pub(crate) async fn check_moved(client: &Nfs3, root: &FileHandle, [files, outside]: [&Path; 2]) {
    let leaves = mkdir(client, root, b"leaves").await;
    let below = mkdir(client, &leaves, b"below").await;
    let file = create(client, &below, b"file").await;
    let from = mkdir(client, root, b"from").await;
    mkdir(client, root, b"to").await;
    let stays = mkdir(client, &from, b"stays").await;
    let inner = mkdir(client, &stays, b"inner").await;
    let deep = make_deep(client, root).await;

    std::fs::rename(files.join("leaves"), outside.join("left")).unwrap();
    let deadline = Instant::now() + DEADLINE;
    let mut parents = ["from", "to"];
    let mut stale = [false; 2];
    // Used all the time, so that nothing of it leaves the server's cache for want of use.
    while stale != [true; 2] {
        for (directory, stale) in [&leaves, &below].into_iter().zip(&mut stale) {
            let now = touch(client, directory).await;
            assert!(!*stale || now, "a directory outside came back");
            *stale = now;
        }
        // Moves within the export are nobody's business.
        let [old, new] = parents;
        let moved = std::fs::rename(files.join(old).join("stays"), files.join(new).join("stays"));
        moved.unwrap();
        parents = [new, old];
        for directory in [&stays, &inner, &deep, root] {
            assert!(!touch(client, directory).await, "stale, and in the export");
        }
        assert!(
            Instant::now() < deadline,
            "usable for {DEADLINE:?}: {stale:?}"
        );
        // SLEEP: between two looks; the server tells nobody when it finds out.
        std::thread::sleep(Duration::from_millis(20));
    }
    let how = CreateHow::Guarded(mode(0o644));
    for directory in [&leaves, &below] {
        assert_eq!(
            status(client.create(directory, b"new", &how).await),
            Nfsstat3::Stale
        );
        assert_eq!(
            status(client.lookup(directory, b"..").await),
            Nfsstat3::Stale
        );
    }
    assert!(!outside.join("left/new").exists());
    // Back in the export, they are what they were.
    std::fs::rename(outside.join("left"), files.join("leaves")).unwrap();
    assert!(!touch(client, &leaves).await);
    assert_eq!(lookup(client, &below, b"file").await, file);
}

/// Uses a directory; true if it is stale.
async fn touch(client: &Nfs3, directory: &FileHandle) -> bool {
    match status(client.getattr(directory).await) {
        Nfsstat3::Ok => false,
        Nfsstat3::Stale => true,
        other => panic!("{other:?}"),
    }
}

/// A directory deeper than a path can say.
pub(crate) async fn make_deep(client: &Nfs3, root: &FileHandle) -> FileHandle {
    let name = [b'n'; 200];
    let mut at = *root;
    for _ in 0..DEPTH {
        at = ok(client.mkdir(&at, &name, &mode(0o755)).await)
            .obj
            .unwrap();
    }
    at
}
