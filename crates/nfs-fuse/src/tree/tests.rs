//! The operations without a kernel, against the client's misbehaving server.

use bytes::Bytes;
// The double, whose source this includes, draws its decisions from it.
use fastrand as _;
use fuser::{AccessFlags, Errno, INodeNo, LockOwner, OpenFlags, RenameFlags};
use nfs_client::Client;
use nfs_wire::nfs3::Procedure;
use rustix::fs::OFlags;

use super::*;
use crate::attributes::Changes;
use crate::inodes::ROOT;

#[path = "../../../nfs-client/tests/double/mod.rs"]
mod double;

use double::Double;
use double::faults::{Fault, Profile};

const CALLER: Caller = Caller {
    uid: 0,
    gid: 0,
    pid: 1,
};
const OWNER: LockOwner = LockOwner(7);

/// A mount of a server that behaves so far.
async fn mounted() -> (Double, Tree) {
    let double = Double::start(1).await;
    let (client, _) = Client::mount(&double.url("")).await.unwrap();
    let root = client.resolve(b"").await.unwrap();
    let tree = Tree::new(client, &root, Options::default());
    (double, tree)
}

fn flags(flags: OFlags) -> OpenFlags {
    OpenFlags(flags.bits().cast_signed())
}

/// Creates `name` in the root and opens it for reading and writing; its number, and the open's.
async fn create(tree: &Tree, name: &str) -> (u64, u64) {
    let made = tree.create(CALLER, ROOT, name.as_bytes(), 0o644, flags(OFlags::RDWR));
    let (attr, opened) = made.await.unwrap();
    (attr.ino.0, opened.open)
}

async fn write(tree: &Tree, open: u64, offset: u64, data: &'static str) -> Answer<()> {
    let to = Wrote::new(offset, flags(OFlags::RDWR), false, Some(OWNER));
    tree.write(open, to, Bytes::from_static(data.as_bytes()))
        .await
}

/// The names in the root of the server.
fn names(double: &Double) -> Vec<String> {
    let name = |name: &Vec<u8>| String::from_utf8(name.clone()).unwrap();
    double.with(|store| {
        let root = store.dir(double::store::ROOT).unwrap();
        root.keys().map(name).collect()
    })
}

fn code<T: std::fmt::Debug>(answer: Answer<T>) -> i32 {
    answer.unwrap_err().code()
}

#[tokio::test]
async fn what_was_written_is_read_and_safe_at_a_close() {
    let (double, tree) = mounted().await;
    let (number, open) = create(&tree, "f").await;
    write(&tree, open, 0, "hello ").await.unwrap();
    write(&tree, open, 6, "world").await.unwrap();
    assert_eq!(tree.read(open, 0, 100).await.unwrap(), "hello world");
    assert_eq!(tree.getattr(CALLER, number).await.unwrap().size, 11);
    // Another process with a copy of the descriptor wrote nothing, and waits for nothing.
    tree.flush(open, LockOwner(8)).await.unwrap();
    assert_eq!(double.calls(Procedure::Commit), 0);
    tree.flush(open, OWNER).await.unwrap();
    assert_eq!(double.stable("f").unwrap(), b"hello world");
    tree.release(open).await.unwrap();
    assert_eq!(code(tree.read(open, 0, 1).await), Errno::EBADF.code());
    assert!(tree.end().await.is_empty());
}

#[tokio::test]
async fn what_a_restart_loses_is_sent_again() {
    let (double, tree) = mounted().await;
    let (_, open) = create(&tree, "f").await;
    write(&tree, open, 0, "before").await.unwrap();
    assert_eq!(tree.read(open, 0, 6).await.unwrap(), "before");
    double.restart();
    write(&tree, open, 6, " after").await.unwrap();
    tree.fsync(open).await.unwrap();
    assert_eq!(double.stable("f").unwrap(), b"before after");
}

#[tokio::test]
async fn a_failed_write_is_told_once_or_kept_for_the_end() {
    let (double, tree) = mounted().await;
    let (_, told) = create(&tree, "told").await;
    let (number, untold) = create(&tree, "untold").await;
    double.misbehave(Profile::only(Fault::WriteNospc, 1));
    write(&tree, told, 0, "data").await.unwrap();
    write(&tree, untold, 0, "data").await.unwrap();
    assert_eq!(code(tree.flush(told, OWNER).await), Errno::ENOSPC.code());
    assert_eq!(code(tree.release(told).await), Errno::ENOSPC.code());
    // Nobody closes this one and waits: the kernel ignores what a release says.
    assert_eq!(code(tree.release(untold).await), Errno::ENOSPC.code());
    let lost = tree.end().await;
    assert_eq!(lost.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [number]);
}

#[tokio::test]
async fn a_file_that_is_removed_while_open_is_there_until_it_is_closed() {
    let (double, tree) = mounted().await;
    let (number, open) = create(&tree, "f").await;
    write(&tree, open, 0, "kept").await.unwrap();
    tree.unlink(CALLER, ROOT, b"f").await.unwrap();
    let hidden = names(&double);
    assert!(
        hidden.len() == 1 && hidden[0].starts_with(".nfs"),
        "{hidden:?}"
    );
    assert_eq!(
        code(tree.lookup(CALLER, ROOT, b"f").await),
        Errno::ENOENT.code()
    );
    let busy = tree.unlink(CALLER, ROOT, hidden[0].as_bytes()).await;
    assert_eq!(code(busy), Errno::EBUSY.code());
    assert_eq!(tree.getattr(CALLER, number).await.unwrap().nlink, 0);
    assert_eq!(tree.read(open, 0, 4).await.unwrap(), "kept");
    tree.release(open).await.unwrap();
    assert_eq!(names(&double), [""; 0]);
}

#[tokio::test]
async fn a_file_that_is_replaced_while_open_is_there_until_it_is_closed() {
    let (double, tree) = mounted().await;
    let (_, old) = create(&tree, "old").await;
    let (_, new) = create(&tree, "new").await;
    write(&tree, old, 0, "old").await.unwrap();
    write(&tree, new, 0, "new").await.unwrap();
    let none = RenameFlags::empty();
    let exchange = RenameFlags::RENAME_EXCHANGE;
    let refused = tree
        .rename(CALLER, (ROOT, b"new"), (ROOT, b"old"), exchange)
        .await;
    assert_eq!(code(refused), Errno::EINVAL.code());
    let renamed = tree
        .rename(CALLER, (ROOT, b"new"), (ROOT, b"old"), none)
        .await;
    renamed.unwrap();
    assert_eq!(names(&double).len(), 2, "{:?}", names(&double));
    assert_eq!(tree.read(old, 0, 3).await.unwrap(), "old");
    assert_eq!(tree.read(new, 0, 3).await.unwrap(), "new");
    tree.release(old).await.unwrap();
    assert_eq!(names(&double), ["old"]);
    tree.fsync(new).await.unwrap();
    assert_eq!(double.stable("old").unwrap(), b"new");
}

#[tokio::test]
async fn a_name_that_is_not_the_last_is_removed_as_it_is() {
    let (double, tree) = mounted().await;
    let (number, open) = create(&tree, "f").await;
    let linked = tree.link(CALLER, number, ROOT, b"g").await.unwrap();
    assert_eq!(linked.ino, INodeNo(number));
    tree.unlink(CALLER, ROOT, b"f").await.unwrap();
    assert_eq!(names(&double), ["g"]);
    tree.release(open).await.unwrap();
    assert_eq!(names(&double), ["g"]);
}

#[tokio::test]
async fn a_hidden_name_that_cannot_be_removed_holds_up_nobody() {
    let (double, tree) = mounted().await;
    let (_, open) = create(&tree, "f").await;
    tree.unlink(CALLER, ROOT, b"f").await.unwrap();
    double.misbehave(Profile::only(Fault::NamesIo, 1));
    tree.release(open).await.unwrap();
    assert_eq!(names(&double).len(), 1, "it stays, as after a crash");
}

#[tokio::test]
async fn names_are_made_and_refused() {
    let (double, tree) = mounted().await;
    let dir = tree.mkdir(CALLER, ROOT, b"dir", 0o755).await.unwrap();
    let again = tree.mkdir(CALLER, ROOT, b"dir", 0o755).await;
    assert_eq!(code(again), Errno::EEXIST.code());
    let link = tree
        .symlink(CALLER, dir.ino.0, b"link", b"../f")
        .await
        .unwrap();
    assert_eq!(tree.readlink(CALLER, link.ino.0).await.unwrap(), b"../f");
    assert_eq!(
        code(tree.rmdir(CALLER, ROOT, b"dir").await),
        Errno::ENOTEMPTY.code()
    );
    tree.unlink(CALLER, dir.ino.0, b"link").await.unwrap();
    tree.rmdir(CALLER, ROOT, b"dir").await.unwrap();
    assert_eq!(names(&double), [""; 0]);
    // What the kernel has forgotten, nobody knows.
    tree.forget(dir.ino.0, 1);
    assert_eq!(
        code(tree.lookup(CALLER, dir.ino.0, b"x").await),
        Errno::ESTALE.code()
    );
    double.misbehave(Profile::only(Fault::NamesIo, 1));
    assert_eq!(
        code(tree.lookup(CALLER, ROOT, b"x").await),
        Errno::EIO.code()
    );
}

#[tokio::test]
async fn opening_creates_truncates_and_refuses() {
    let (double, tree) = mounted().await;
    let (number, open) = create(&tree, "f").await;
    write(&tree, open, 0, "content").await.unwrap();
    tree.release(open).await.unwrap();
    let exclusive = flags(OFlags::RDWR | OFlags::EXCL);
    let made = tree.create(CALLER, ROOT, b"f", 0o644, exclusive).await;
    assert_eq!(code(made), Errno::EEXIST.code());
    let (there, opened) = tree
        .create(CALLER, ROOT, b"f", 0o644, flags(OFlags::RDWR))
        .await
        .unwrap();
    assert_eq!((there.ino.0, there.size), (number, 7));
    let size = Changes {
        size: Some(3),
        ..Changes::default()
    };
    let cut = tree.setattr(CALLER, number, Some(opened.open), size).await;
    assert_eq!(cut.unwrap().size, 3);
    let cut = tree
        .open(CALLER, number, flags(OFlags::RDWR | OFlags::TRUNC))
        .await;
    let append = Wrote::new(
        99,
        flags(OFlags::RDWR | OFlags::APPEND | OFlags::SYNC),
        false,
        None,
    );
    tree.write(cut.unwrap().open, append, Bytes::from_static(b"end"))
        .await
        .unwrap();
    assert_eq!(double.stable("f").unwrap(), b"end");
    tree.mkdir(CALLER, ROOT, b"dir", 0o755).await.unwrap();
    let made = tree
        .create(CALLER, ROOT, b"dir", 0o644, flags(OFlags::RDWR))
        .await;
    assert_eq!(
        code(made),
        Errno::ESTALE.code(),
        "somebody made a directory of it"
    );
    tree.access(CALLER, number, AccessFlags::R_OK | AccessFlags::W_OK)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_directory_is_listed_to_its_end() {
    let (_double, tree) = mounted().await;
    for name in ["a", "b", "c"] {
        tree.mkdir(CALLER, ROOT, name.as_bytes(), 0o755)
            .await
            .unwrap();
    }
    let open = tree.opendir(CALLER, ROOT).await.unwrap();
    let (mut cookie, mut found) = (0, Vec::new());
    loop {
        let part = tree.list(open, cookie).await.unwrap();
        let Some(last) = part.last() else { break };
        cookie = last.cookie;
        let names = part.iter().filter(|entry| !entry.is_dot());
        found.extend(names.map(|entry| String::from_utf8(entry.name.clone()).unwrap()));
    }
    found.sort_unstable();
    assert_eq!(found, ["a", "b", "c"]);
    tree.releasedir(open);
    assert_eq!(code(tree.list(open, 0).await), Errno::EBADF.code());
}

/// Every fault that a client has to get over: what programs were told is safe is safe.
#[tokio::test]
async fn programs_see_nothing_of_harmless_faults() {
    for fault in [
        Fault::ShortRead,
        Fault::ShortWrite,
        Fault::Twice,
        Fault::OutOfOrder,
    ] {
        let (double, tree) = mounted().await;
        double.misbehave(Profile::only(fault, 2));
        let (_, open) = create(&tree, "f").await;
        for part in 0..20 {
            write(&tree, open, part * 10, "0123456789").await.unwrap();
        }
        tree.fsync(open).await.unwrap();
        let expected = "0123456789".repeat(20);
        assert_eq!(
            double.stable("f").unwrap(),
            expected.as_bytes(),
            "{fault:?}"
        );
        let read = tree.read(open, 0, 1000).await.unwrap();
        assert_eq!(read, expected, "{fault:?}");
        tree.release(open).await.unwrap();
    }
}
