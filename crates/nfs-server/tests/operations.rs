//! Operations on files over the wire: what succeeds, what fails, and with which words.

mod support;

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use bytes::Bytes;
use nfs_client::Nfs3;
use nfs_server::exports::policy::StableFloor;
use nfs_wire::nfs3::{
    ACCESS3_LOOKUP, CreateHow, FileHandle, Nfsstat3, Nfstime3, Sattr3, SetTime, StableHow, WccData,
};
use support::{Served, block_on, create, lookup, mkdir, mode, mount, ok, status};
use tokio::task::JoinSet;

async fn getattr(client: &Nfs3, object: &FileHandle) -> nfs_wire::nfs3::Fattr3 {
    ok(client.getattr(object).await).obj_attributes
}

#[test]
fn data_is_written_and_read_in_every_stability() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        let mut expected = Vec::new();
        let stabilities = [
            StableHow::Unstable,
            StableHow::DataSync,
            StableHow::FileSync,
        ];
        for (at, (stable, len)) in stabilities
            .into_iter()
            .zip([3, 70_000, 1 << 20])
            .enumerate()
        {
            let data = Bytes::from(vec![at as u8 + 1; len]);
            let done = ok(client
                .write(&file, expected.len() as u64, stable, data.clone())
                .await);
            assert_eq!((done.count as usize, done.committed), (len, stable));
            let wcc = done.file_wcc;
            assert_eq!(wcc.before.unwrap().size, expected.len() as u64);
            expected.extend_from_slice(&data);
            assert_eq!(wcc.after.unwrap().size, expected.len() as u64);
        }
        let committed = ok(client.commit(&file, 0, 0).await);
        let again = ok(client
            .write(&file, 0, StableHow::Unstable, Bytes::from_static(b"x"))
            .await);
        assert_eq!(committed.verf, again.verf);
        let read = ok(client.read(&file, 1, 2 << 20).await);
        assert!(read.eof && read.data[..] == expected[1..]);
        let behind = ok(client.read(&file, 5 << 20, 100).await);
        assert!(behind.eof && behind.data.is_empty());
        assert_eq!(status(client.read(&root, 0, 10).await), Nfsstat3::Inval);
        let huge = Bytes::from_static(b"xx");
        let beyond = client
            .write(&file, i64::MAX as u64, StableHow::Unstable, huge)
            .await;
        assert_eq!(status(beyond), Nfsstat3::Fbig);
    });
    assert_eq!(served.counter("written_bytes"), 3 + 70_000 + (1 << 20) + 1);
    assert_eq!(served.counter("read_bytes"), 3 + 70_000 + (1 << 20) - 1);
}

#[test]
fn a_removed_file_is_stale_and_a_forged_handle_is_bad() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        ok(client
            .write(&file, 0, StableHow::Unstable, Bytes::from_static(b"x"))
            .await);
        ok(client.link(&file, &root, b"g").await);
        ok(client.remove(&root, b"f").await);
        assert_eq!(getattr(&client, &file).await.nlink, 1);
        ok(client.remove(&root, b"g").await);
        assert_eq!(status(client.getattr(&file).await), Nfsstat3::Stale);
        let data = Bytes::from_static(b"y");
        let write = client.write(&file, 0, StableHow::FileSync, data).await;
        assert_eq!(status(write), Nfsstat3::Stale);
        assert_eq!(status(client.read(&file, 0, 1).await), Nfsstat3::Stale);
        assert_eq!(status(client.commit(&file, 0, 0).await), Nfsstat3::Stale);
        assert!(std::fs::read_dir(served.path()).unwrap().next().is_none());

        let dir = mkdir(&client, &root, b"d").await;
        ok(client.rmdir(&root, b"d").await);
        let how = CreateHow::Unchecked(Sattr3::default());
        assert_eq!(
            status(client.create(&dir, b"x", &how).await),
            Nfsstat3::Stale
        );

        let mut forged = root.as_ref().to_vec();
        for bit in 0..forged.len() * 8 {
            forged[bit / 8] ^= 1 << (bit % 8);
            let answer = status(client.getattr(&FileHandle::new(&forged).unwrap()).await);
            assert!(
                matches!(answer, Nfsstat3::Badhandle | Nfsstat3::Stale),
                "bit {bit}: {answer:?}"
            );
            forged[bit / 8] ^= 1 << (bit % 8);
        }
        for len in 0..forged.len() {
            let short = FileHandle::new(&forged[..len]).unwrap();
            assert_eq!(
                status(client.getattr(&short).await),
                Nfsstat3::Badhandle,
                "{len} bytes"
            );
        }
    });
}

#[test]
fn an_exclusive_create_is_recognised_when_it_is_repeated() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        for verifier in [[0; 8], [0xff; 8], *b"verifier"] {
            let how = CreateHow::Exclusive(verifier);
            let first = ok(client.create(&root, b"f", &how).await).obj;
            // Another xid: not the reply cache answers but the file.
            assert_eq!(ok(client.create(&root, b"f", &how).await).obj, first);
            let other = CreateHow::Exclusive([7; 8]);
            assert_eq!(
                status(client.create(&root, b"f", &other).await),
                Nfsstat3::Exist
            );
            ok(client.setattr(&first.unwrap(), &mode(0o600), None).await);
            ok(client.remove(&root, b"f").await);
        }
    });
}

#[test]
fn create_minds_what_is_there() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        ok(client
            .write(&file, 0, StableHow::FileSync, Bytes::from_static(b"data"))
            .await);
        let guarded = CreateHow::Guarded(Sattr3::default());
        assert_eq!(
            status(client.create(&root, b"f", &guarded).await),
            Nfsstat3::Exist
        );
        let unchecked = CreateHow::Unchecked(Sattr3::default());
        assert_eq!(
            ok(client.create(&root, b"f", &unchecked).await).obj,
            Some(file)
        );
        assert_eq!(getattr(&client, &file).await.size, 4);
        let empty = Sattr3 {
            size: Some(0),
            ..Sattr3::default()
        };
        ok(client
            .create(&root, b"f", &CreateHow::Unchecked(empty))
            .await);
        assert_eq!(getattr(&client, &file).await.size, 0);
        mkdir(&client, &root, b"d").await;
        std::os::unix::fs::symlink("f", served.path().join("l")).unwrap();
        for name in [&b"d"[..], b"l", b".", b".."] {
            let there = client.create(&root, name, &unchecked).await;
            assert_eq!(status(there), Nfsstat3::Exist, "{name:?}");
        }
        let huge = Sattr3 {
            size: Some(1 << 63),
            ..Sattr3::default()
        };
        let too_big = client
            .create(&root, b"huge", &CreateHow::Guarded(huge))
            .await;
        assert_eq!(status(too_big), Nfsstat3::Fbig);
        assert!(!served.path().join("huge").exists());
    });
}

#[test]
fn a_new_file_that_is_to_be_empty_is_flushed_with_its_directory() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let made = async |name: &[u8], size: Option<u64>| {
            let before = served.counter("commit_syncs");
            let set = Sattr3 {
                size,
                ..mode(0o640)
            };
            let how = CreateHow::Unchecked(set);
            let made = ok(client.create(&root, name, &how).await);
            let found = made.obj_attributes.unwrap();
            assert_eq!((found.mode, found.size), (0o640, size.unwrap_or(0)));
            served.counter("commit_syncs") - before
        };
        assert_eq!(made(b"plain", None).await, 1);
        assert_eq!(made(b"empty", Some(0)).await, 1);
        assert_eq!(made(b"long", Some(5)).await, 2);
        assert_eq!(made(b"long", Some(0)).await, 2, "it was there, and is cut");
    });
}

#[test]
fn calls_find_what_was_changed_before_they_were_sent() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let other = served.client().await;
        let root = served.root(&client).await;
        let dir = mkdir(&client, &root, b"d").await;
        create(&client, &dir, b"f").await;
        let on_this_host = served.path().join("d");
        for at in 0..20 {
            let mode = 0o700 | (at % 8);
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&on_this_host, permissions).unwrap();
            for client in [&client, &other] {
                assert_eq!(getattr(client, &dir).await.mode, mode);
                let found = ok(client.lookup(&dir, b"f").await);
                assert_eq!(found.dir_attributes.unwrap().mode, mode);
                let asked = ok(client.access(&dir, ACCESS3_LOOKUP).await);
                assert_eq!(asked.obj_attributes.unwrap().mode, mode);
            }
            let set = Sattr3 {
                mode: Some(0o711),
                ..Sattr3::default()
            };
            ok(client.setattr(&dir, &set, None).await);
            assert_eq!(getattr(&other, &dir).await.mode, 0o711);
        }
    });
}

#[test]
fn a_setattr_with_an_old_ctime_changes_nothing() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        let ctime = getattr(&client, &file).await.ctime;
        let old = Nfstime3 {
            seconds: ctime.seconds - 1,
            ..ctime
        };
        let refused = client.setattr(&file, &mode(0o600), Some(old)).await;
        assert_eq!(status(refused), Nfsstat3::NotSync);
        assert_eq!(getattr(&client, &file).await.mode, 0o644);
        ok(client.setattr(&file, &mode(0o600), Some(ctime)).await);
        assert_eq!(getattr(&client, &file).await.mode, 0o600);
    });
}

#[test]
fn setattr_sets_all_at_once_and_the_times_last() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        let time = |seconds| Nfstime3 {
            seconds,
            nseconds: 500_000_000,
        };
        let all = Sattr3 {
            mode: Some(0o640),
            uid: None,
            gid: None,
            size: Some(5_000_000_000),
            atime: SetTime::ClientTime(time(1_000_000)),
            mtime: SetTime::ClientTime(time(2_000_000)),
        };
        ok(client.setattr(&file, &all, None).await);
        let now = getattr(&client, &file).await;
        assert_eq!((now.mode, now.size), (0o640, 5_000_000_000));
        assert_eq!((now.atime, now.mtime), (time(1_000_000), time(2_000_000)));
        assert!(now.used < 1 << 20, "a hole takes no space");
        let of_root = Sattr3 {
            size: Some(0),
            ..Sattr3::default()
        };
        assert_eq!(
            status(client.setattr(&root, &of_root, None).await),
            Nfsstat3::Isdir
        );
    });
}

/// The seconds are unsigned, and what a program of this host has set beyond them does not wrap round.
#[test]
fn times_reach_from_1970_to_2106() {
    use std::fs::{File, FileTimes};
    use std::os::unix::fs::MetadataExt as _;
    use std::time::{Duration, UNIX_EPOCH};
    let served = Served::start();
    let path = served.files.path().join("f");
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        for seconds in [0, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
            let time = Nfstime3 {
                seconds,
                nseconds: 500_000_000,
            };
            let set = Sattr3 {
                atime: SetTime::ClientTime(time),
                mtime: SetTime::ClientTime(time),
                ..Sattr3::default()
            };
            let wcc = ok(client.setattr(&file, &set, None).await);
            let after = wcc.after.unwrap();
            assert_eq!((after.atime, after.mtime), (time, time));
            let kept = std::fs::metadata(&path).unwrap();
            assert_eq!(
                (kept.atime(), kept.mtime()),
                (seconds.into(), seconds.into())
            );
            assert_eq!(getattr(&client, &file).await.mtime, time);
        }
        let beyond = UNIX_EPOCH + Duration::from_secs(1 << 32);
        let before = UNIX_EPOCH - Duration::from_millis(1500);
        let times = FileTimes::new().set_accessed(before).set_modified(beyond);
        File::open(&path).unwrap().set_times(times).unwrap();
        let shown = getattr(&client, &file).await;
        assert_eq!(
            (shown.atime, shown.mtime),
            (Nfstime3::default(), Nfstime3::MAX)
        );
    });
}

#[test]
fn names_that_are_none_are_refused() {
    let served = Served::start();
    std::fs::write(served.path().join("f"), b"").unwrap();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let dir = mkdir(&client, &root, b"d").await;
        for name in [&b""[..], b"a/b", b"/etc", b"../x", b"d/", b"a\0b"] {
            assert_eq!(
                status(client.lookup(&root, name).await),
                Nfsstat3::Acces,
                "{name:?}"
            );
            assert_eq!(
                status(client.remove(&root, name).await),
                Nfsstat3::Acces,
                "{name:?}"
            );
            let made = client.mkdir(&root, name, &Sattr3::default()).await;
            assert_eq!(status(made), Nfsstat3::Acces, "{name:?}");
        }
        let long = [b'n'; 256];
        assert_eq!(
            status(client.lookup(&root, &long).await),
            Nfsstat3::Nametoolong
        );
        assert_eq!(status(client.rmdir(&root, b".").await), Nfsstat3::Inval);
        assert_eq!(status(client.rmdir(&root, b"..").await), Nfsstat3::Exist);
        assert_eq!(status(client.rmdir(&root, b"f").await), Nfsstat3::Notdir);
        assert_eq!(status(client.remove(&root, b"d").await), Nfsstat3::Isdir);
        assert_eq!(
            status(client.rename(&root, b"..", &dir, b"x").await),
            Nfsstat3::Inval
        );
        assert_eq!(
            status(client.rename(&root, b"d", &dir, b"x").await),
            Nfsstat3::Inval
        );
        assert_eq!(
            status(
                client
                    .lookup(&lookup(&client, &root, b"f").await, b"x")
                    .await
            ),
            Nfsstat3::Notdir
        );
        for name in [&b"\xff\xfe\x80"[..], &[b'n'; 255], b" ", b"..."] {
            let made = create(&client, &root, name).await;
            assert_eq!(lookup(&client, &root, name).await, made);
            ok(client.remove(&root, name).await);
        }
    });
}

#[test]
fn nothing_leads_out_of_the_export() {
    let served = Served::start();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), b"secret").unwrap();
    std::os::unix::fs::symlink(outside.path(), served.path().join("way")).unwrap();
    std::fs::create_dir_all(served.path().join("a/b")).unwrap();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        assert_eq!(lookup(&client, &root, b"..").await, root);
        let a = lookup(&client, &root, b"a").await;
        let b = lookup(&client, &a, b"b").await;
        assert_eq!(
            (
                lookup(&client, &b, b"..").await,
                lookup(&client, &a, b".").await
            ),
            (a, a)
        );
        assert_eq!(lookup(&client, &a, b"..").await, root);
        let way = lookup(&client, &root, b"way").await;
        assert_eq!(
            ok(client.readlink(&way).await).data,
            outside.path().as_os_str().as_encoded_bytes()
        );
        assert_eq!(
            status(client.lookup(&way, b"secret").await),
            Nfsstat3::Notdir
        );
        assert_eq!(status(client.read(&way, 0, 9).await), Nfsstat3::Inval);
        assert_eq!(
            status(client.readdir(&way, 0, [0; 8], 4096).await),
            Nfsstat3::Notdir
        );
        for path in [&b"/.."[..], b"/a/../..", b"/way", b"/a/b/c", b"a", b"/a\0"] {
            assert!(mount(&client, path).await.is_err(), "{path:?}");
        }
        // What libnfs sends for the root, and other ways to write paths.
        assert_eq!(mount(&client, b"").await, Ok(root));
        assert_eq!(mount(&client, b"//a/./b/").await, Ok(b));

        // A directory that the server's owner moved away takes the way up with it.
        std::fs::rename(served.path().join("a/b"), outside.path().join("b")).unwrap();
        assert_eq!(status(client.lookup(&b, b"..").await), Nfsstat3::Stale);
    });
}

#[test]
fn a_directory_moved_out_of_the_export_is_stale_for_a_new_server() {
    let served = Served::start();
    let outside = tempfile::tempdir().unwrap();
    std::fs::create_dir(served.path().join("d")).unwrap();
    let (root, dir) = block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        (root, lookup(&client, &root, b"d").await)
    });
    let (files, state) = served.stop();
    std::fs::rename(files.path().join("d"), outside.path().join("d")).unwrap();
    std::fs::write(outside.path().join("d/secret"), b"secret").unwrap();
    let served = Served::over(files, Some(state), |_| {});
    block_on(async {
        let client = served.client().await;
        ok(client.getattr(&root).await);
        assert_eq!(status(client.getattr(&dir).await), Nfsstat3::Stale);
        assert_eq!(
            status(client.lookup(&dir, b"secret").await),
            Nfsstat3::Stale
        );
    });
}

#[test]
fn wcc_data_frames_the_change_of_a_directory() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let made = ok(client.mkdir(&root, b"d", &mode(0o755)).await);
        assert!(made.dir_wcc.before.is_some() && made.dir_wcc.after.is_some());
        let (from, to) = (made.obj.unwrap(), root);
        create(&client, &from, b"f").await;
        let moved = ok(client.rename(&from, b"f", &to, b"g").await);
        let within = ok(client.rename(&to, b"g", &to, b"h").await);
        let one = (moved.fromdir_wcc, moved.todir_wcc);
        assert_ne!(one.0, one.1);
        assert_eq!(within.fromdir_wcc, within.todir_wcc, "one directory");
        for wcc in [one.0, one.1, within.fromdir_wcc] {
            let (before, after) = (wcc.before.unwrap(), wcc.after.unwrap());
            assert_ne!(before.ctime, after.ctime);
        }
        let failed = client.remove(&root, b"none").await.unwrap().unwrap_err();
        assert_eq!(failed.status, Nfsstat3::Noent);
        assert!(failed.body.after.is_some());
    });
}

#[test]
fn handles_outlive_the_server() {
    let served = Served::start();
    let (root, file, verifier) = block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        let written = client.write(&file, 0, StableHow::Unstable, Bytes::from_static(b"x"));
        (root, file, ok(written.await).verf)
    });
    let (files, state) = served.stop();
    std::fs::rename(files.path().join("f"), files.path().join("g")).unwrap();
    let served = Served::over(files, Some(state), |_| {});
    block_on(async {
        let client = served.client().await;
        assert_eq!(served.root(&client).await, root);
        assert_eq!(lookup(&client, &root, b"g").await, file);
        let committed = ok(client.commit(&file, 0, 0).await).verf;
        assert_ne!(committed, verifier, "another run, another verifier");
    });
    // Another key: nothing of before is believed.
    let (files, _state) = served.stop();
    let served = Served::over(files, None, |_| {});
    block_on(async {
        let client = served.client().await;
        assert_eq!(status(client.getattr(&file).await), Nfsstat3::Stale);
    });
}

/// What a client tells its own changes from others' by (RFC 1813 §2.6).
type State = (u64, Nfstime3, Nfstime3);

/// Writes a byte of the file as a program of this host does, until its times show it.
fn write_here(path: &Path) -> State {
    let state = || {
        let meta = path.metadata().unwrap();
        let time = |seconds: i64, nanoseconds: i64| Nfstime3 {
            seconds: seconds.try_into().unwrap(),
            nseconds: nanoseconds.try_into().unwrap(),
        };
        let mtime = time(meta.mtime(), meta.mtime_nsec());
        (meta.len(), mtime, time(meta.ctime(), meta.ctime_nsec()))
    };
    let file = OpenOptions::new().write(true).open(path).unwrap();
    let before = state();
    // The kernel's clock for files ticks every few milliseconds.
    while state() == before {
        file.write_all_at(b"h", 5).unwrap();
    }
    state()
}

#[test]
fn an_export_can_leave_attributes_out_of_replies_to_stable_writes() {
    for floor in [StableFloor::Asked, StableFloor::FileSync] {
        let served = Served::with(|config| {
            config.exports[0].stable_write_attributes = false;
            config.exports[0].io.stable = floor;
        });
        block_on(async {
            let client = served.client().await;
            let root = served.root(&client).await;
            let file = create(&client, &root, b"f").await;
            for asked in [
                StableHow::FileSync,
                StableHow::DataSync,
                StableHow::Unstable,
            ] {
                let done = client.write(&file, 0, asked, Bytes::from_static(b"x"));
                let done = ok(done.await);
                let wcc = done.file_wcc;
                if done.committed == StableHow::Unstable {
                    assert!(wcc.before.is_some() && wcc.after.is_some());
                } else {
                    assert_eq!(wcc, WccData::default(), "{asked:?} {floor:?}");
                }
            }
        });
    }
}

/// A local write that comes while the client's writes run is hidden among them: the unit test beside
/// `Changes` shows that.
#[test]
fn a_local_write_is_told_by_the_overlapping_writes_that_follow_it() {
    let served = Served::start();
    let path = served.path().join("f");
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let file = create(&client, &root, b"f").await;
        for round in 0..20 {
            let local = write_here(&path);
            let mut calls = JoinSet::new();
            for at in 0..8 {
                let client = client.clone();
                calls.spawn(async move {
                    let data = Bytes::from(vec![round + 1; 70_000]);
                    let stable = StableHow::Unstable;
                    ok(client.write(&file, at * 70_000, stable, data).await).file_wcc
                });
            }
            let replies = calls.join_all().await;
            let before = replies.iter().map(|wcc| wcc.before.unwrap());
            let before: Vec<State> = before.map(|of| (of.size, of.mtime, of.ctime)).collect();
            let after = replies.iter().map(|wcc| wcc.after.unwrap());
            let after: Vec<State> = after.map(|of| (of.size, of.mtime, of.ctime)).collect();
            let strange = before.iter().filter(|state| !after.contains(state));
            let strange: Vec<&State> = strange.collect();
            assert_eq!(strange, [&local], "round {round}: of nobody's making here");
            let now = getattr(&client, &file).await;
            let now = (now.size, now.mtime, now.ctime);
            assert!(
                after.contains(&now),
                "round {round}: nobody came after them"
            );
        }
        // And after the last reply, whoever looks sees it.
        let local = write_here(&path);
        let now = getattr(&client, &file).await;
        assert_eq!((now.size, now.mtime, now.ctime), local);
    });
}
