//! Attributes of NFSv4 that say how the server's files hang together, on real files.

mod support;

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nfs_lab::Mounted;
use nfs_server::exports::Versions;
use nfs_server::exports::config::{Config, ExportConfig};
use nfs_wire::nfs4::ops::{GetattrArgs, ReaddirArgs};
use nfs_wire::nfs4::{ArgOp, Attribute, Bitmap4, FileHandle, ResOp, Verifier4};
use support::v4::{Client, lookup, putfh};
use support::{Served, block_on, skip};

/// The numbers `fileid` and `mounted_on_fileid` of an object.
async fn numbers(client: &mut Client, object: &FileHandle) -> (u64, u64) {
    let asked = [Attribute::Fileid, Attribute::MountedOnFileid];
    let attr_request = asked.iter().map(|it| it.number()).collect();
    let ops = vec![putfh(object), ArgOp::Getattr(GetattrArgs { attr_request })];
    client
        .call(ops, |_, results| match results {
            [_, ResOp::Getattr(Ok(ok))] => {
                let values = ok.obj_attributes.decode_values().unwrap();
                (values.fileid.unwrap(), values.mounted_on_fileid.unwrap())
            }
            other => panic!("{other:?}"),
        })
        .await
}

/// Serves these directories by these paths.
fn export_all(config: &mut Config, exports: &[(&Path, &str)]) {
    config.server.versions = Versions::ALL;
    let first = config.exports[0].clone();
    let exports = exports.iter().map(|(path, pseudo)| ExportConfig {
        path: path.to_path_buf(),
        pseudo: (*pseudo).to_owned(),
        ..first.clone()
    });
    config.exports = exports.collect();
}

#[test]
fn the_root_of_an_export_in_another_tells_which_directory_it_covers() {
    let files = support::scratch(0o755);
    let path = |name: &str| files.path().join(name);
    for name in ["outer/d/side", "inner", "other"] {
        std::fs::create_dir_all(path(name)).unwrap();
    }
    let (outer, inner, other) = (path("outer"), path("inner"), path("other"));
    let served = Served::over(files, None, |config| {
        export_all(
            config,
            &[
                (&outer, "/out"),
                (&inner, "/out/d/side"),
                (&other, "/out/d/nowhere"),
            ],
        );
    });
    let number = |name: &str| std::fs::metadata(served.path().join(name)).unwrap().ino();
    block_on(async {
        let mut client = Client::new(&served, 2, b"one").await;
        let root = client.root().await;
        let directory = vec![putfh(&root), lookup(b"out"), lookup(b"d")];
        let directory = client.handle(directory).await;
        let (of_directory, side) = (number("outer/d"), number("outer/d/side"));
        let told = numbers(&mut client, &directory).await;
        assert_eq!(told, (of_directory, of_directory));
        // The answer is kept: the second is the same.
        for _ in 0..2 {
            let inner = client
                .handle(vec![putfh(&directory), lookup(b"side")])
                .await;
            let told = numbers(&mut client, &inner).await;
            assert_eq!(told, (number("inner"), side));
        }
        // A listing of the directory above leads where its names do.
        let path = vec![putfh(&directory), lookup(b"side")];
        let inner = client.handle(path).await;
        let readdir = ArgOp::Readdir(ReaddirArgs {
            cookie: 0,
            cookieverf: Verifier4::default(),
            dircount: 4096,
            maxcount: 4096,
            attr_request: [
                Attribute::Filehandle,
                Attribute::Fileid,
                Attribute::MountedOnFileid,
            ]
            .iter()
            .map(|it| it.number())
            .collect(),
        });
        let ops = vec![putfh(&directory), readdir];
        let listed = client.call(ops, |_, results| match results {
            [_, ResOp::Readdir(Ok(ok))] => {
                let [entry] = ok.entries.as_slice() else {
                    panic!("{ok:?}")
                };
                assert_eq!(entry.name.0, b"side");
                let values = entry.attrs.decode_values().unwrap();
                (values.filehandle, values.fileid, values.mounted_on_fileid)
            }
            other => panic!("{other:?}"),
        });
        let expected = (Some(inner), Some(number("inner")), Some(side));
        assert_eq!(listed.await, expected);
        let nowhere = vec![putfh(&directory), lookup(b"nowhere")];
        let nowhere = client.handle(nowhere).await;
        let own = number("other");
        assert_eq!(numbers(&mut client, &nowhere).await, (own, own));
    });
}

#[test]
fn a_file_system_that_is_exported_by_itself_covers_the_directory_it_is_mounted_on() {
    if !support::is_root() {
        skip!("mounting needs root");
    }
    let files = support::scratch(0o755);
    let (outer, point) = (files.path().join("outer"), files.path().join("outer/d/t"));
    std::fs::create_dir_all(&point).unwrap();
    let covered = std::fs::metadata(&point).unwrap().ino();
    let Ok(tmpfs) = Mounted::tmpfs(4, &point) else {
        skip!("tmpfs cannot be mounted");
    };
    let own = std::fs::metadata(&point).unwrap().ino();
    assert_ne!(own, covered);
    let served = Served::over(files, None, |config| {
        export_all(config, &[(&outer, "/out"), (&point, "/out/d/t")]);
    });
    block_on(async {
        let mut client = Client::new(&served, 2, b"one").await;
        let root = client.root().await;
        let path = vec![putfh(&root), lookup(b"out"), lookup(b"d"), lookup(b"t")];
        let root = client.handle(path).await;
        assert_eq!(numbers(&mut client, &root).await, (own, covered));
    });
    let (files, _state) = served.stop();
    drop(tmpfs);
    drop(files);
}

#[test]
fn what_an_open_may_say_is_told() {
    let served = Served::with(|config| config.server.versions = Versions::ALL);
    block_on(async {
        let mut client = Client::new(&served, 2, b"one").await;
        let root = client.root().await;
        let attr_request = Attribute::OpenArguments.bit();
        let ops = vec![putfh(&root), ArgOp::Getattr(GetattrArgs { attr_request })];
        let told = client.call(ops, |_, results| match results {
            [_, ResOp::Getattr(Ok(ok))] => {
                ok.obj_attributes.decode_values().unwrap().open_arguments
            }
            other => panic!("{other:?}"),
        });
        let told = told.await.unwrap();
        assert!(told.open_claim.contains(4) && !told.open_claim.contains(2));
        assert_eq!(told.share_access_want, Bitmap4::of(&[4]), "no delegations");
    });
}
