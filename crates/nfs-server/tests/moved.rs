//! Directories that somebody moves on the server's own host.

mod support;

use nfs_wire::nfs3::Nfsstat3;
use support::moved::{check_moved, make_deep};
use support::{Served, block_on, create, mkdir, ok, scratch, status};

#[test]
fn a_directory_moved_out_is_stale_soon_even_while_it_is_used() {
    let outside = scratch(0o755);
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        check_moved(&client, &root, [served.path(), outside.path()]).await;
    });
}

/// What a handle of a file is worth: docs/threat-model.md says that it stays good.
#[test]
fn a_file_moved_out_stays_usable_by_its_handle() {
    let outside = scratch(0o755);
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let dir = mkdir(&client, &root, b"dir").await;
        let file = create(&client, &dir, b"file").await;
        let from = served.path().join("dir");
        std::fs::rename(from, outside.path().join("dir")).unwrap();
        assert_eq!(status(client.getattr(&file).await), Nfsstat3::Ok);
    });
}

#[test]
fn a_directory_deeper_than_a_path_can_say_is_found_again() {
    let served = Served::start();
    let deep = block_on(async {
        let client = served.client().await;
        make_deep(&client, &served.root(&client).await).await
    });
    let (files, state) = served.stop();
    let served = Served::over(files, Some(state), |_config| {});
    block_on(async {
        let client = served.client().await;
        ok(client.getattr(&deep).await);
        create(&client, &deep, b"file").await;
        ok(client.lookup(&deep, b"..").await);
    });
}
