//! READDIR and READDIRPLUS: whole, in parts of any size, and while entries come and go.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nfs_client::Nfs3;
use nfs_wire::nfs3::{FileHandle, Ftype3, Nfsstat3};
use support::{Served, block_on, lookup, ok, status};

/// All names with how often each came, by READDIR in parts of `count` bytes.
async fn names(client: &Nfs3, dir: &FileHandle, count: u32) -> BTreeMap<Vec<u8>, usize> {
    let mut seen = BTreeMap::new();
    let (mut cookie, mut verifier) = (0, [0; 8]);
    loop {
        let part = ok(client.readdir(dir, cookie, verifier, count).await);
        verifier = part.cookieverf;
        for entry in &part.entries {
            cookie = entry.cookie;
            *seen.entry(entry.name.clone()).or_default() += 1;
        }
        assert!(part.eof || !part.entries.is_empty());
        if part.eof {
            return seen;
        }
    }
}

#[test]
fn every_entry_comes_once_in_parts_of_every_size() {
    let served = Served::start();
    let mut expected: BTreeSet<Vec<u8>> = [b".".to_vec(), b"..".to_vec()].into();
    for number in 0..300_usize {
        let mut name = format!("{number:x}-").into_bytes();
        name.resize(3 + number * 7 % 250, 0xf0 + (number % 13) as u8);
        std::fs::write(served.path().join(std::ffi::OsStr::from_bytes(&name)), b"").unwrap();
        expected.insert(name);
    }
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        for count in [500, 512, 1000, 4096, 8192, 1 << 20, u32::MAX] {
            let seen = names(&client, &root, count).await;
            assert!(seen.keys().eq(&expected), "parts of {count}");
            assert!(seen.values().all(|times| *times == 1), "parts of {count}");
        }
        for count in [0, 1, 100, 130] {
            let answer = client.readdir(&root, 0, [0; 8], count).await;
            assert_eq!(status(answer), Nfsstat3::Toosmall, "{count}");
            let answer = client.readdirplus(&root, 0, [0; 8], count, count).await;
            assert_eq!(status(answer), Nfsstat3::Toosmall, "{count}");
        }
    });
}

#[test]
fn readdirplus_says_what_getattr_and_lookup_say() {
    let served = Served::start();
    let path = served.path();
    std::fs::create_dir(path.join("d")).unwrap();
    std::fs::write(path.join("f"), b"five!").unwrap();
    std::os::unix::fs::symlink("f", path.join("l")).unwrap();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let whole = ok(client.readdirplus(&root, 0, [0; 8], 8192, 8192).await);
        assert!(whole.eof);
        assert_eq!(whole.entries.len(), 5);
        for entry in &whole.entries {
            if entry.name == b".." {
                // Its own number: what is above the export is nobody's business.
                let own = ok(client.getattr(&root).await).obj_attributes.fileid;
                assert_eq!(entry.fileid, own);
                continue;
            }
            let handle = lookup(&client, &root, &entry.name).await;
            assert_eq!(entry.name_handle, Some(handle));
            let attributes = ok(client.getattr(&handle).await).obj_attributes;
            assert_eq!(entry.name_attributes, Some(attributes));
            assert_eq!(entry.fileid, attributes.fileid);
            let expected = match entry.name.as_slice() {
                b"f" => Ftype3::Reg,
                b"l" => Ftype3::Lnk,
                _ => Ftype3::Dir,
            };
            assert_eq!(attributes.ftype, expected);
        }
        // dircount bounds the names, and lets the first entry through.
        let one = ok(client.readdirplus(&root, 0, [0; 8], 1, 8192).await);
        assert_eq!((one.entries.len(), one.eof), (1, false));
        let two = ok(client.readdirplus(&root, 0, [0; 8], 64, 8192).await);
        assert_eq!((two.entries.len(), two.eof), (2, false));
    });
}

#[test]
fn cookies_that_are_none_of_ours_are_refused() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let first = ok(client.readdir(&root, 0, [0; 8], 4096).await);
        let last = first.entries.last().unwrap().cookie;
        let mut other = first.cookieverf;
        other[0] ^= 1;
        assert_eq!(
            status(client.readdir(&root, last, other, 4096).await),
            Nfsstat3::BadCookie
        );
        let beyond = client
            .readdir(&root, u64::MAX, first.cookieverf, 4096)
            .await;
        assert_eq!(status(beyond), Nfsstat3::BadCookie);
        let end = ok(client.readdir(&root, last, first.cookieverf, 4096).await);
        assert!(end.eof && end.entries.is_empty());
        // Any other number may be one of the file system's: it must answer, whatever it says.
        for cookie in [1, 2, 3, 1 << 20, 1 << 40, i64::MAX as u64] {
            let answer = client.readdir(&root, cookie, first.cookieverf, 4096).await;
            assert!(answer.is_ok(), "{cookie}");
        }
    });
}

#[test]
fn what_stays_is_listed_once_while_other_entries_come_and_go() {
    let served = Served::start();
    let path = served.path().to_owned();
    let stays: BTreeSet<Vec<u8>> = (0..2000)
        .map(|number| format!("stays-{number}").into_bytes())
        .collect();
    for name in &stays {
        std::fs::write(path.join(std::ffi::OsStr::from_bytes(name)), b"").unwrap();
    }
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let comes_and_goes = std::thread::spawn(move || {
        let mut rounds = 0;
        while !stopped.load(Ordering::Relaxed) {
            for number in 0..200 {
                std::fs::write(path.join(format!("comes-{rounds}-{number}")), b"").unwrap();
            }
            for number in 0..200 {
                std::fs::remove_file(path.join(format!("comes-{rounds}-{number}"))).unwrap();
            }
            rounds += 1;
        }
    });
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        for count in [600, 2000, 8192, 8192, 8192] {
            let seen = names(&client, &root, count).await;
            for name in &stays {
                assert_eq!(
                    seen.get(name),
                    Some(&1),
                    "{}",
                    String::from_utf8_lossy(name)
                );
            }
        }
    });
    stop.store(true, Ordering::Relaxed);
    comes_and_goes.join().unwrap();
}

#[test]
fn a_hundred_thousand_entries_are_listed() {
    let served = Served::start();
    let first = served.path().join("0");
    std::fs::write(&first, b"").unwrap();
    // Links are made faster than files, and are entries all the same.
    let mut source = first;
    for number in 1..100_000 {
        let name = served.path().join(number.to_string());
        if number % 30_000 == 0 {
            std::fs::write(&name, b"").unwrap();
            source = name;
        } else {
            std::fs::hard_link(&source, &name).unwrap();
        }
    }
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let seen = names(&client, &root, 1 << 20).await;
        assert_eq!(seen.len(), 100_002);
        assert!(seen.values().all(|times| *times == 1));
    });
}
