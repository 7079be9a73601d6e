//! MNT of paths that lead through symbolic links: followed inside the export, never out of it.

mod support;

use std::os::unix::fs::symlink;

use nfs_server::exports::config::ExportConfig;
use nfs_wire::mount3::Mountstat3;
use nfs_wire::nfs3::FileHandle;
use support::links::{check_links, plant_links};
use support::{Served, block_on, lookup, mount, scratch};

#[test]
fn a_path_is_followed_through_links_inside_the_export_only() {
    let served = Served::start();
    plant_links(served.path());
    block_on(async {
        let client = served.client().await;
        check_links(&client).await;
    });
}

#[test]
fn no_link_leads_into_another_export() {
    let other = scratch(0o755);
    std::fs::create_dir(other.path().join("dir")).unwrap();
    let served = Served::with(|config| {
        config.exports[0].pseudo = "/one".to_owned();
        let export = ExportConfig::new(other.path(), "/two");
        config.exports.push(export);
    });
    symlink(other.path().join("dir"), served.path().join("disk")).unwrap();
    symlink("/two/dir", served.path().join("mounted")).unwrap();
    block_on(async {
        let client = served.client().await;
        assert!(mount(&client, b"/two/dir").await.is_ok());
        for name in ["disk", "mounted"] {
            let path = format!("/one/{name}");
            let got = mount(&client, path.as_bytes()).await;
            assert_eq!(got, Err(Mountstat3::Acces), "{path}");
        }
    });
}

/// The operator names the export by a path with a link in it, and links below it say the same path.
#[test]
fn an_absolute_target_may_use_the_exports_configured_path() {
    let base = scratch(0o755);
    let served = Served::start();
    let alias = base.path().join("alias");
    symlink(served.path(), &alias).unwrap();
    let (files, _state) = served.stop();
    std::fs::create_dir(files.path().join("dir")).unwrap();
    symlink(alias.join("dir"), files.path().join("link")).unwrap();
    let served = Served::over(files, None, |config| {
        config.exports[0].path.clone_from(&alias);
    });
    block_on(async {
        let client = served.client().await;
        let root: FileHandle = served.root(&client).await;
        let dir = lookup(&client, &root, b"dir").await;
        assert_eq!(mount(&client, b"/link").await, Ok(dir));
    });
}
