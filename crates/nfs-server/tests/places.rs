//! Mount points inside an export: crossed when the export says so, closed otherwise.

mod support;

use std::os::unix::fs::MetadataExt;

use nfs_client::Nfs3;
use nfs_lab::Mounted;
use nfs_wire::nfs3::{CreateHow, FileHandle, Nfsstat3, Sattr3};
use support::{Served, block_on, create, is_root, lookup, ok, skip, status};

/// How large the mounted file systems are, in MiB.
const TMPFS_MIB: u32 = 4;

async fn fsid(client: &Nfs3, object: &FileHandle) -> u64 {
    ok(client.getattr(object).await).obj_attributes.fsid
}

/// Takes the mounts out of the served directory, which could not be removed under them, and looks whether
/// it goes.
fn end<const N: usize>(served: Served, mounts: [Mounted; N]) {
    let path = served.path().to_owned();
    let (files, _state) = served.stop();
    drop(mounts);
    drop(files);
    assert!(!path.exists(), "{} stays behind", path.display());
}

#[test]
fn a_mount_point_is_closed_unless_the_export_crosses_it() {
    if !is_root() {
        skip!("mounting needs root");
    }
    let served = Served::start();
    let outside = support::scratch(0o755);
    std::fs::write(outside.path().join("secret"), b"secret").unwrap();
    std::fs::create_dir(served.path().join("t")).unwrap();
    std::fs::create_dir(served.path().join("b")).unwrap();
    std::os::unix::fs::symlink("t", served.path().join("link")).unwrap();
    let Ok(tmpfs) = Mounted::tmpfs(TMPFS_MIB, &served.path().join("t")) else {
        skip!("a tmpfs cannot be mounted here");
    };
    let bind = Mounted::bind(outside.path(), &served.path().join("b")).unwrap();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        for name in [b"t", b"b"] {
            assert_eq!(status(client.lookup(&root, name).await), Nfsstat3::Acces);
            let path = [b"/", &name[..]].concat();
            let mounted = support::mount(&client, &path).await;
            assert_eq!(mounted, Err(nfs_wire::mount3::Mountstat3::Acces));
            let mounted = support::mount(&client, b"/link").await;
            assert_eq!(mounted, Err(nfs_wire::mount3::Mountstat3::Acces));
            // A mount point in the way: an error that ends, not one to try again.
            assert_eq!(status(client.rmdir(&root, name).await), Nfsstat3::Acces);
        }
        let whole = ok(client.readdirplus(&root, 0, [0; 8], 8192, 8192).await);
        for entry in whole
            .entries
            .iter()
            .filter(|entry| entry.name.len() == 1 && entry.name != b".")
        {
            assert_eq!(entry.name_handle, None, "{:?}", entry.name);
        }
    });
    end(served, [tmpfs, bind]);
}

#[test]
fn a_crossed_mount_point_is_a_file_system_of_its_own() {
    if !is_root() {
        skip!("mounting needs root");
    }
    let served = Served::with(|config| config.exports[0].crossmnt = true);
    let outside = support::scratch(0o755);
    std::fs::create_dir(outside.path().join("inner")).unwrap();
    std::fs::create_dir(served.path().join("t")).unwrap();
    std::fs::create_dir(served.path().join("b")).unwrap();
    std::os::unix::fs::symlink("t", served.path().join("l")).unwrap();
    std::os::unix::fs::symlink("../l", outside.path().join("back")).unwrap();
    let Ok(tmpfs) = Mounted::tmpfs(TMPFS_MIB, &served.path().join("t")) else {
        skip!("a tmpfs cannot be mounted here");
    };
    let bind = Mounted::bind(outside.path(), &served.path().join("b")).unwrap();
    let (t, b, inner) = block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let t = lookup(&client, &root, b"t").await;
        let b = lookup(&client, &root, b"b").await;
        let fsids = [
            fsid(&client, &root).await,
            fsid(&client, &t).await,
            fsid(&client, &b).await,
        ];
        assert!(
            fsids[0] != fsids[1] && fsids[1] != fsids[2] && fsids[0] != fsids[2],
            "{fsids:x?}"
        );
        let f = create(&client, &t, b"f").await;
        assert_eq!(served.path().join("t/f").metadata().unwrap().size(), 0);
        for dir in [t, b] {
            assert_eq!(lookup(&client, &dir, b"..").await, root);
        }
        // Links lead across as names do, and `..` leads back to where one came from.
        for path in [&b"/l"[..], b"/b/back"] {
            assert_eq!(support::mount(&client, path).await, Ok(t));
        }
        let inner = lookup(&client, &b, b"inner").await;
        assert_eq!(lookup(&client, &inner, b"..").await, b);
        assert_eq!(
            status(client.rename(&t, b"f", &root, b"f").await),
            Nfsstat3::Xdev
        );
        assert_eq!(status(client.link(&f, &root, b"f").await), Nfsstat3::Xdev);
        let space = ok(client.fsstat(&t).await);
        assert_eq!(space.tbytes, 4 << 20);
        let whole = ok(client.readdirplus(&root, 0, [0; 8], 8192, 8192).await);
        let entry = whole
            .entries
            .iter()
            .find(|entry| entry.name == b"t")
            .unwrap();
        assert_eq!(entry.name_handle, Some(t));
        (t, b, inner)
    });
    // Handles into mounts outlive the server.
    let (files, state) = served.stop();
    let served = Served::over(files, Some(state), |config| {
        config.exports[0].crossmnt = true
    });
    block_on(async {
        let client = served.client().await;
        assert_eq!(lookup(&client, &b, b"inner").await, inner);
        ok(client.getattr(&t).await);
    });
    // And are nothing to a server that does not cross.
    let (files, state) = served.stop();
    let served = Served::over(files, Some(state), |_| {});
    block_on(async {
        let client = served.client().await;
        assert_eq!(status(client.getattr(&inner).await), Nfsstat3::Stale);
    });
    end(served, [tmpfs, bind]);
}

#[test]
fn a_full_file_system_says_so_and_loses_nothing() {
    if !is_root() {
        skip!("mounting needs root");
    }
    let files = support::scratch(0o755);
    let Ok(tmpfs) = Mounted::tmpfs(TMPFS_MIB, files.path()) else {
        skip!("a tmpfs cannot be mounted here");
    };
    let served = Served::over(files, None, |_| {});
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let how = CreateHow::Guarded(Sattr3::default());
        let file = ok(client.create(&root, b"f", &how).await).obj.unwrap();
        let mut offset = 0;
        let answer = loop {
            let data = bytes::Bytes::from(vec![7; 300_000]);
            let stable = nfs_wire::nfs3::StableHow::Unstable;
            match client.write(&file, offset, stable, data).await.unwrap() {
                Ok(done) => offset += u64::from(done.count),
                Err(failure) => break failure.status,
            }
        };
        assert_eq!(answer, Nfsstat3::Nospc);
        assert_eq!(ok(client.getattr(&file).await).obj_attributes.size, offset);
        ok(client.commit(&file, 0, 0).await);
        ok(client.remove(&root, b"f").await);
        // The space is there again at once: no descriptor of the cache keeps it.
        let space = ok(client.fsstat(&root).await);
        assert!(space.fbytes > 3 << 20, "{space:?}");
    });
    assert_eq!(served.counter("verifier_changes"), 0);
    end(served, [tmpfs]);
}
