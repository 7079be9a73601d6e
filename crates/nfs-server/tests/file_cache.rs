//! What the operator sees of the open-file cache, and drops from it, over the wire.

mod support;

use std::sync::Arc;

use bytes::Bytes;
use nfs_server::exports::Versions;
use nfs_server::operate::control::{
    Asker, CacheDropped, CachePage, CacheQuery, CacheRow, CacheTarget, Listed,
};
use nfs_wire::nfs3::{FileHandle, StableHow};
use nfs_wire::nfs4::ArgOp;
use nfs_wire::nfs4::ops::Openflag4;
use serde::de::DeserializeOwned;
use support::page_cache::{Kept, TRIES};
use support::v4::{Client, open_args};
use support::{Served, block_on, create, ok, skip};

/// What the server answers, by the way through JSON.
fn asked<T: DeserializeOwned>(served: &Served, query: &CacheQuery) -> Result<T, String> {
    let asker = Asker { uid: 0, pid: None };
    let answer = served.server.file_cache(query, asker)?;
    Ok(serde_json::from_value(serde_json::to_value(answer).unwrap()).unwrap())
}

fn listed(served: &Served, page: CachePage) -> Listed<CacheRow> {
    asked(served, &CacheQuery::List(page)).unwrap()
}

fn row(served: &Served, file: &str) -> CacheRow {
    let listed = listed(served, CachePage::default());
    let found = listed.rows.iter().find(|row| row.file == file);
    found
        .unwrap_or_else(|| panic!("{file} in {listed:?}"))
        .clone()
}

fn drop_path(served: &Served, path: &str, pages: bool) -> Result<CacheDropped, String> {
    let target = CacheTarget::Path(path.to_owned());
    asked(served, &CacheQuery::Drop { target, pages })
}

/// Makes a file, writes this much to it and reads its beginning.
async fn written(
    client: &nfs_client::Nfs3,
    dir: &FileHandle,
    name: &[u8],
    (bytes, stable): (usize, StableHow),
) -> FileHandle {
    let file = create(client, dir, name).await;
    let data = Bytes::from(vec![7; bytes]);
    ok(client.write(&file, 0, stable, data).await);
    ok(client.read(&file, 0, 100).await);
    file
}

fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// Whether the kernel tells what the page cache holds of a file.
fn has_cachestat(served: &Served) -> bool {
    use std::os::fd::AsFd as _;
    let file = std::fs::File::open(served.path().join("f")).unwrap();
    nfs_io::fs::cachestat(file.as_fd(), 0, 0).is_ok()
}

#[test]
fn what_is_in_the_cache_is_listed_in_parts() {
    let served = Served::with(|config| config.exports[0].pseudo = "/a".to_owned());
    block_on(async {
        let client = served.client().await;
        let root = support::mount(&client, b"/a").await.unwrap();
        let four = 4 * usize::try_from(page_bytes()).unwrap();
        written(&client, &root, b"f", (four, StableHow::FileSync)).await;
        let all = 0..4 * page_bytes();
        let _kept = Kept::new(&served.path().join("f"), &[all]);
        // Nobody reads or writes it.
        std::fs::write(served.path().join("\x1b[2J"), "").unwrap();
        ok(client.lookup(&root, b"\x1b[2J").await);
        let before = row(&served, "/a/f");
        for _ in 0..7 {
            let found = ok(client.lookup(&root, b"f").await).object;
            ok(client.read(&found, 0, 1).await);
        }
        let file = row(&served, "/a/f");
        assert_eq!((file.export.as_str(), file.kind.as_str()), ("/a", "file"));
        assert_eq!(file.open, ["read"]);
        assert_eq!(file.uses - before.uses, 14, "7 names and 7 handles");
        assert!(!file.must_stay && file.client_opens == 0 && file.idle_seconds < 60);
        if has_cachestat(&served) {
            let held = (file.page_cache_bytes, file.dirty_bytes);
            assert_eq!(held, (Some(4 * page_bytes()), Some(0)));
        }
        assert_eq!(row(&served, "/a/").kind, "directory");
        let untouched = row(&served, "/a/\\x1b[2J");
        assert_eq!(
            (untouched.open.len(), untouched.page_cache_bytes),
            (0, None)
        );
    });
    let all = listed(&served, CachePage::default());
    assert_eq!((all.total, all.rows.len()), (3, 3));
    let page = |skip, limit| CachePage {
        export: Some("/a".to_owned()),
        skip,
        limit,
    };
    let parts: Vec<CacheRow> = (0..4)
        .flat_map(|skip| listed(&served, page(skip, 1)).rows)
        .collect();
    let names = |rows: &[CacheRow]| rows.iter().map(|row| row.file.clone()).collect::<Vec<_>>();
    assert_eq!(names(&parts), names(&all.rows));
    let elsewhere = CachePage {
        export: Some("/b".to_owned()),
        ..CachePage::default()
    };
    let refused = asked::<Listed<CacheRow>>(&served, &CacheQuery::List(elsewhere)).unwrap_err();
    assert_eq!(refused, "there is no export \"/b\"; there are: /a");
}

#[test]
fn a_dropped_file_is_closed_and_can_be_used_again() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = written(&client, &root, b"f", (5000, StableHow::Unstable)).await;
        assert!(row(&served, "/f").must_stay, "it is not on stable storage");
        let before = ok(client.commit(&file, 0, 0).await).verf;
        let again = Bytes::from_static(b"again");
        ok(client.write(&file, 0, StableHow::Unstable, again).await);
        let descriptors = served.counter("file_cache_fds");

        let dropped = drop_path(&served, "/f", false).unwrap();
        assert_eq!((dropped.was_cached, dropped.has_left), (true, true));
        assert_eq!(dropped.page_cache_bytes, None);
        // The one that names it, and those for reading and writing.
        assert_eq!(descriptors - served.counter("file_cache_fds"), 3);
        assert_eq!(listed(&served, CachePage::default()).total, 1);

        let read = ok(client.read(&file, 0, 5).await);
        assert_eq!(&read.data[..], b"again");
        assert_eq!(ok(client.commit(&file, 0, 0).await).verf, before);
        let on_this_host = served.path().join("f");
        let dropped = drop_path(&served, on_this_host.to_str().unwrap(), false).unwrap();
        assert!(dropped.has_left);

        // By the handle alone, as it is shown of what has no name any more.
        ok(client.read(&file, 0, 5).await);
        let digits = file.as_ref().iter().map(|byte| format!("{byte:02x}"));
        let target = CacheTarget::Handle(digits.collect());
        let query = CacheQuery::Drop {
            target,
            pages: true,
        };
        let dropped: CacheDropped = asked(&served, &query).unwrap();
        assert!(dropped.has_left && dropped.file.starts_with("handle "));
    });
}

#[test]
fn what_the_page_cache_holds_goes_with_it_if_that_is_asked_for() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let bytes = 16 * usize::try_from(page_bytes()).unwrap();
        let file = written(&client, &root, b"f", (bytes, StableHow::FileSync)).await;
        if !has_cachestat(&served) {
            skip!("cachestat needs Linux 6.5");
        }
        let held =
            |dropped: CacheDropped| (dropped.page_cache_bytes_before, dropped.page_cache_bytes);
        let (mut written, mut read) = (Vec::new(), Vec::new());
        let all_went = (Some(bytes as u64), Some(0));
        for _ in 0..TRIES {
            let data = Bytes::from(vec![8; bytes]);
            ok(client.write(&file, 0, StableHow::FileSync, data).await);
            let dropped = drop_path(&served, "/f", true).unwrap();
            assert!(dropped.was_cached && dropped.has_left);
            written.push(held(dropped));
            // The server has nothing of it open; a local program brings it into memory.
            assert_eq!(std::fs::read(served.path().join("f")).unwrap().len(), bytes);
            let dropped = drop_path(&served, "/f", true).unwrap();
            assert!(!dropped.was_cached);
            read.push(held(dropped));
            if written.contains(&all_went) && read.contains(&all_went) {
                return;
            }
        }
        panic!("written {written:?}, read {read:?}");
    });
}

#[test]
fn what_a_client_has_open_stays_and_is_told() {
    let served = Served::with(|config| config.server.versions = Versions::ALL);
    std::fs::write(served.path().join("f"), "text").unwrap();
    block_on(async {
        let mut client = Client::new(&served, 2, b"one").await;
        let root = client.handle(vec![ArgOp::Putrootfh(())]).await;
        let args = open_args(b"f", 1, Openflag4::Nocreate);
        client.open(&root, args).await.unwrap();
        assert_eq!(row(&served, "/f").client_opens, 1);
        let dropped = drop_path(&served, "/f", false).unwrap();
        assert_eq!((dropped.has_left, dropped.client_opens), (false, 1));
        assert_eq!(row(&served, "/f").client_opens, 1);
    });
}

#[test]
fn what_cannot_be_dropped_is_refused_with_the_cure() {
    let served = Served::start();
    std::fs::write(served.path().join("f"), "text").unwrap();
    for (path, part) in [
        ("/f", "--pages drops what the page cache has"),
        ("/none", "check the path"),
        ("/d/../f", "write where it leads"),
    ] {
        let refused = drop_path(&served, path, false).unwrap_err();
        assert!(refused.contains(part), "{path}: {refused}");
    }
    for digits in ["", "0", "0g", "+1", "é", &"00".repeat(65)] {
        let target = CacheTarget::Handle(digits.to_owned());
        let query = CacheQuery::Drop {
            target,
            pages: false,
        };
        let refused = asked::<CacheDropped>(&served, &query).unwrap_err();
        assert!(refused.contains("is no handle"), "{digits}: {refused}");
    }
    let root = block_on(async {
        let client = served.client().await;
        served.root(&client).await;
        let refused = drop_path(&served, "/", true).unwrap_err();
        assert!(refused.contains("no regular file"), "{refused}");
        drop_path(&served, "/", false).unwrap()
    });
    assert!(root.was_cached && !root.has_left);
    let server = Arc::clone(&served.server);
    assert_eq!(server.status().counters["file_cache_objects"], 1);
}
