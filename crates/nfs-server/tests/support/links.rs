//! Symbolic links for MNT to follow, or not.

use std::os::unix::fs::symlink;
use std::path::Path;

use nfs_client::Nfs3;
use nfs_wire::mount3::Mountstat3;

use super::mount;

/// Links in a chain: one more than are followed.
const CHAIN: usize = 41;

/// A tree of directories and links in an empty directory.
pub(crate) fn plant_links(files: &Path) {
    let link = |target: &str, name: &str| symlink(target, files.join(name)).unwrap();
    std::fs::create_dir_all(files.join("dir/sub/deep")).unwrap();
    std::fs::create_dir(files.join("other")).unwrap();
    std::fs::write(files.join("file"), b"").unwrap();
    let own = files.to_str().unwrap();
    link("dir", "link");
    link("dir/./sub//", "sub");
    link("../other", "dir/beside");
    link("../../dir/sub/../sub/deep", "dir/sub/around");
    link(&format!("{own}/dir"), "absolute");
    link(&format!("{own}/dir/../other"), "absolute-around");
    link(own, "top");
    link(".", "here");
    link("link", "chain");
    // Out of the export, by every way.
    let parent = files.parent().unwrap().to_str().unwrap();
    let name = files.file_name().unwrap().to_str().unwrap();
    link("..", "up");
    link("/", "slash");
    link("/etc", "etc");
    link(parent, "parent");
    link(&format!("../{name}/dir"), "out-and-in");
    link(&format!("{own}/../{name}/dir"), "absolute-out-and-in");
    link(&format!("{own}x"), "beside");
    link("dir/../../..", "dir-up");
    link("../..", "dir/up-two");
    link("/proc/self/root", "magic");
    // To no directory.
    link("file", "to-file");
    link("file/../dir", "through-file");
    link("missing", "dangling");
    link("loop-b", "loop-a");
    link("loop-a", "loop-b");
    link("self/self", "self");
    for at in 0..CHAIN {
        link(&format!("chain-{}", at + 1), &format!("chain-{at}"));
    }
    link("dir", &format!("chain-{CHAIN}"));
    // A path that grows at each step.
    link(&"grow/".repeat(800), "grow");
}

/// MNT of each of them, which are in an export `/`.
pub(crate) async fn check_links(client: &Nfs3) {
    let mnt = async |path: &str| mount(client, format!("/{path}").as_bytes()).await;
    for (path, place) in [
        ("link", "dir"),
        ("link/", "dir"),
        ("link/sub", "dir/sub"),
        ("sub/deep", "dir/sub/deep"),
        ("dir/beside", "other"),
        ("link/beside", "other"),
        ("dir/sub/around", "dir/sub/deep"),
        ("absolute", "dir"),
        ("absolute/sub", "dir/sub"),
        ("absolute-around", "other"),
        ("top/here/top", ""),
        ("here/here/link", "dir"),
        ("chain/sub", "dir/sub"),
        ("chain-2", "dir"),
    ] {
        let expected = mnt(place).await.unwrap();
        assert_eq!(mnt(path).await, Ok(expected), "{path}");
    }
    for (path, why) in [
        ("up", Mountstat3::Acces),
        ("slash", Mountstat3::Acces),
        ("etc", Mountstat3::Acces),
        ("parent", Mountstat3::Acces),
        ("out-and-in", Mountstat3::Acces),
        ("absolute-out-and-in", Mountstat3::Acces),
        ("beside", Mountstat3::Acces),
        ("dir-up", Mountstat3::Acces),
        ("dir/up-two", Mountstat3::Acces),
        ("magic", Mountstat3::Acces),
        ("to-file", Mountstat3::Notdir),
        ("through-file", Mountstat3::Notdir),
        ("dangling", Mountstat3::Noent),
        ("link/missing", Mountstat3::Noent),
        ("loop-a", Mountstat3::Notdir),
        ("self", Mountstat3::Notdir),
        ("chain-0", Mountstat3::Notdir),
        ("grow", Mountstat3::Nametoolong),
    ] {
        assert_eq!(mnt(path).await, Err(why), "{path}");
    }
}
