//! Who may do what: the kernel's answer for the caller's identity, and the export's rules.

mod support;

use std::fs::Permissions;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};

use bytes::Bytes;
use nfs_client::{Identity, Nfs3};
use nfs_io::fs::{self, AclKind, Perms, PosixAcl};
use nfs_server::exports::ExportTable;
use nfs_server::exports::config::{Access, SquashKind};
use nfs_wire::nfs3::{
    ACCESS3_EXECUTE, ACCESS3_EXTEND, ACCESS3_LOOKUP, ACCESS3_MODIFY, ACCESS3_READ, CreateHow,
    FileHandle, Mknoddata, Nfsstat3, PipeData, Sattr3, StableHow,
};
use support::{Served, block_on, create, is_root, lookup, mode, ok, skip, status};

const ALICE: u32 = 4711;
const BOB: u32 = 4712;
const STAFF: u32 = 4800;

fn user(client: &Nfs3, uid: u32, groups: &[u32]) -> Nfs3 {
    client.with_identity(Identity::sys(uid, uid, groups))
}

fn file(path: &Path, owner: u32, group: u32, mode: u32) {
    std::fs::write(path, b"contents").unwrap();
    chown(path, Some(owner), Some(group)).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

async fn access(client: &Nfs3, object: &FileHandle) -> u32 {
    let all = ACCESS3_READ | ACCESS3_MODIFY | ACCESS3_EXTEND | ACCESS3_EXECUTE;
    ok(client.access(object, all).await).access
}

const READ_WRITE: u32 = ACCESS3_READ | ACCESS3_MODIFY | ACCESS3_EXTEND;

async fn write(client: &Nfs3, file: &FileHandle) -> Nfsstat3 {
    let data = Bytes::from_static(b"C");
    status(client.write(file, 0, StableHow::Unstable, data).await)
}

#[test]
fn groups_and_others_are_told_apart() {
    if !is_root() {
        skip!("acting as other users needs root");
    }
    let served = Served::start();
    file(&served.path().join("f"), ALICE, STAFF, 0o640);
    block_on(async {
        let client = served.client().await;
        let f = lookup(&client, &served.root(&client).await, b"f").await;
        for (who, granted) in [
            (user(&client, ALICE, &[]), READ_WRITE),
            (user(&client, BOB, &[STAFF]), ACCESS3_READ),
            (user(&client, BOB, &[1, 2, 3]), 0),
            (client.with_identity(Identity::none()), 0),
        ] {
            assert_eq!(access(&who, &f).await, granted);
            let may_read = granted & ACCESS3_READ != 0;
            assert_eq!(status(who.read(&f, 0, 9).await) == Nfsstat3::Ok, may_read);
            let may_write = granted & ACCESS3_MODIFY != 0;
            assert_eq!(write(&who, &f).await == Nfsstat3::Ok, may_write);
        }
    });
}

#[test]
fn names_are_looked_up_only_by_who_may_search_the_directory() {
    if !is_root() {
        skip!("acting as other users needs root");
    }
    let served = Served::start();
    let path = served.path().join("d");
    std::fs::create_dir(&path).unwrap();
    chown(&path, None, Some(STAFF)).unwrap();
    let set_mode = |mode| std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    set_mode(0o710);
    file(&path.join("f"), ALICE, ALICE, 0o644);
    block_on(async {
        let root = served.client().await;
        let dir = lookup(&root, &served.root(&root).await, b"d").await;
        let (member, alice) = (user(&root, BOB, &[STAFF]), user(&root, ALICE, &[]));
        let refused = Nfsstat3::Acces;
        assert_eq!(status(alice.lookup(&dir, b"f").await), refused);
        // Others find it, so that the server knows where the name leads.
        lookup(&root, &dir, b"f").await;
        lookup(&member, &dir, b"f").await;
        for name in [&b"f"[..], b"f", b"none", b"."] {
            assert_eq!(status(alice.lookup(&dir, name).await), refused);
        }
        set_mode(0o711);
        lookup(&alice, &dir, b"f").await;
        set_mode(0o710);
        assert_eq!(status(alice.lookup(&dir, b"f").await), refused);
        // Known names lead where they lead now.
        std::fs::rename(path.join("f"), path.join("g")).unwrap();
        assert_eq!(status(member.lookup(&dir, b"f").await), Nfsstat3::Noent);
        file(&path.join("f"), BOB, BOB, 0o600);
        assert_ne!(
            lookup(&member, &dir, b"f").await,
            lookup(&member, &dir, b"g").await
        );
    });
}

#[test]
fn a_grant_by_acl_alone_is_a_grant() {
    if !is_root() {
        skip!("acting as other users needs root");
    }
    let served = Served::start();
    let path = served.path().join("f");
    file(&path, 0, 0, 0o600);
    let mut set = Command::new("setfacl");
    set.arg("-m")
        .arg(format!("u:{ALICE}:r,u:{BOB}:rw"))
        .arg(&path);
    if !set.status().is_ok_and(|status| status.success()) {
        skip!("setfacl is missing, or the file system has no ACLs");
    }
    block_on(async {
        let client = served.client().await;
        let f = lookup(&client, &served.root(&client).await, b"f").await;
        let (alice, bob) = (user(&client, ALICE, &[]), user(&client, BOB, &[]));
        assert_eq!(access(&alice, &f).await, ACCESS3_READ);
        assert_eq!(&ok(alice.read(&f, 0, 9).await).data[..], b"contents");
        assert_eq!(write(&alice, &f).await, Nfsstat3::Acces);
        assert_eq!(access(&bob, &f).await, READ_WRITE);
        assert_eq!(write(&bob, &f).await, Nfsstat3::Ok);
        assert_eq!(access(&user(&client, 4799, &[]), &f).await, 0);
        // Taken away again: what was remembered of it is not used.
        let mut take = Command::new("setfacl");
        assert!(take.arg("-b").arg(&path).status().unwrap().success());
        assert_eq!(status(bob.read(&f, 0, 9).await), Nfsstat3::Acces);
        assert_eq!(access(&bob, &f).await, 0);
    });
}

#[test]
fn a_chmod_takes_effect_on_the_next_call() {
    if !is_root() {
        skip!("acting as other users needs root");
    }
    let served = Served::start();
    let path = served.path().join("f");
    file(&path, ALICE, ALICE, 0o644);
    block_on(async {
        let client = served.client().await;
        let f = lookup(&client, &served.root(&client).await, b"f").await;
        let (alice, bob) = (user(&client, ALICE, &[]), user(&client, BOB, &[]));
        for _ in 0..30 {
            ok(alice.setattr(&f, &mode(0o644), None).await);
            assert_eq!(status(bob.read(&f, 0, 9).await), Nfsstat3::Ok);
            ok(alice.setattr(&f, &mode(0o600), None).await);
            assert_eq!(status(bob.read(&f, 0, 9).await), Nfsstat3::Acces);
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o604)).unwrap();
            assert_eq!(status(bob.read(&f, 0, 9).await), Nfsstat3::Ok);
        }
    });
}

#[test]
fn the_owner_reads_and_writes_whatever_the_mode_says_and_nobody_else() {
    if !is_root() {
        skip!("acting as other users needs root");
    }
    let served = Served::start();
    file(&served.path().join("f"), ALICE, ALICE, 0o000);
    block_on(async {
        let client = served.client().await;
        let f = lookup(&client, &served.root(&client).await, b"f").await;
        let (alice, bob) = (user(&client, ALICE, &[]), user(&client, BOB, &[ALICE]));
        assert_eq!(&ok(alice.read(&f, 0, 9).await).data[..], b"contents");
        assert_eq!(write(&alice, &f).await, Nfsstat3::Ok);
        // ACCESS says what the mode says: the client's open must fail as a local one would.
        assert_eq!(access(&alice, &f).await, 0);
        assert_eq!(status(bob.read(&f, 0, 9).await), Nfsstat3::Acces);
        assert_eq!(write(&bob, &f).await, Nfsstat3::Acces);
        // Who may execute may read: it is the same.
        ok(alice.setattr(&f, &mode(0o711), None).await);
        assert_eq!(
            &ok(user(&client, BOB, &[]).read(&f, 0, 9).await).data[..],
            b"Contents"
        );
    });
}

#[test]
fn a_write_by_another_takes_set_user_id_away() {
    if !is_root() {
        skip!("acting as other users needs root");
    }
    let served = Served::start();
    let path = served.path().join("f");
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        for truncates in [false, true] {
            file(&path, ALICE, ALICE, 0o6777);
            let f = lookup(&client, &root, b"f").await;
            let bob = user(&client, BOB, &[]);
            if truncates {
                let empty = Sattr3 {
                    size: Some(1),
                    ..Sattr3::default()
                };
                ok(bob.setattr(&f, &empty, None).await);
            } else {
                assert_eq!(write(&bob, &f).await, Nfsstat3::Ok);
            }
            assert_eq!(
                path.metadata().unwrap().mode() & 0o7777,
                0o777,
                "{truncates}"
            );
        }
    });
}

#[test]
fn what_is_made_belongs_to_who_made_it() {
    if !is_root() {
        skip!("acting as other users needs root");
    }
    let served = Served::start();
    let open = std::fs::Permissions::from_mode(0o1777);
    std::fs::set_permissions(served.path(), open).unwrap();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let alice = client.with_identity(Identity::sys(ALICE, STAFF, &[BOB]));
        create(&alice, &root, b"f").await;
        ok(alice.mkdir(&root, b"d", &mode(0o700)).await);
        ok(alice.symlink(&root, b"l", &Sattr3::default(), b"f").await);
        for name in ["f", "d", "l"] {
            let made = served.path().join(name).symlink_metadata().unwrap();
            assert_eq!((made.uid(), made.gid()), (ALICE, STAFF), "{name}");
        }
        // Ids that a client sends along: another owner is not made, a group of one's own is.
        let set = Sattr3 {
            mode: Some(0o644),
            uid: Some(BOB),
            gid: Some(BOB),
            ..Sattr3::default()
        };
        ok(alice.create(&root, b"g", &CreateHow::Guarded(set)).await);
        let made = served.path().join("g").metadata().unwrap();
        assert_eq!((made.uid(), made.gid()), (ALICE, BOB));
        // Root may give away; the bits that a change of owner clears are set all the same.
        let set = Sattr3 {
            mode: Some(0o6755),
            ..set
        };
        ok(client.create(&root, b"s", &CreateHow::Guarded(set)).await);
        let made = served.path().join("s").metadata().unwrap();
        assert_eq!((made.uid(), made.gid()), (BOB, BOB));
        assert_eq!(made.mode() & 0o7777, 0o6755);
        // The sticky bit, and another's directory.
        let bob = user(&client, BOB, &[]);
        assert!(matches!(
            status(bob.remove(&root, b"f").await),
            Nfsstat3::Acces | Nfsstat3::Perm
        ));
        let d = lookup(&client, &root, b"d").await;
        assert_eq!(status(bob.lookup(&d, b"x").await), Nfsstat3::Acces);
        assert_eq!(
            status(bob.readdir(&d, 0, [0; 8], 4096).await),
            Nfsstat3::Acces
        );
        assert_eq!(
            status(bob.setattr(&d, &mode(0o777), None).await),
            Nfsstat3::Perm
        );
        ok(alice.remove(&root, b"f").await);
    });
}

#[test]
fn squashed_users_are_the_anonymous_one() {
    if !is_root() {
        skip!("acting as other users needs root");
    }
    for (kind, alice_is_squashed) in [(SquashKind::Root, false), (SquashKind::All, true)] {
        let served = Served::with(|config| {
            for client in &mut config.exports[0].clients {
                client.squash = kind;
                client.anonuid = BOB;
                client.anongid = BOB;
            }
        });
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(served.path(), open).unwrap();
        file(&served.path().join("roots"), 0, 0, 0o600);
        block_on(async {
            let client = served.client().await;
            let root = served.root(&client).await;
            create(&client, &root, b"by-root").await;
            create(&user(&client, ALICE, &[]), &root, b"by-alice").await;
            let owner = |name: &str| served.path().join(name).metadata().unwrap().uid();
            assert_eq!(owner("by-root"), BOB);
            assert_eq!(
                owner("by-alice"),
                if alice_is_squashed { BOB } else { ALICE }
            );
            let roots = lookup(&client, &root, b"roots").await;
            assert_eq!(status(client.read(&roots, 0, 9).await), Nfsstat3::Acces);
        });
    }
}

#[test]
fn a_read_only_export_changes_in_no_way() {
    let served = Served::with(|config| {
        for client in &mut config.exports[0].clients {
            client.access = Access::ReadOnly;
        }
    });
    std::fs::write(served.path().join("f"), b"contents").unwrap();
    let before = served.path().join("f").metadata().unwrap();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let f = lookup(&client, &root, b"f").await;
        let none = Sattr3::default();
        let rofs = Nfsstat3::Rofs;
        assert_eq!(write(&client, &f).await, rofs);
        assert_eq!(status(client.commit(&f, 0, 0).await), rofs);
        assert_eq!(status(client.setattr(&f, &mode(0o777), None).await), rofs);
        assert_eq!(status(client.setattr(&f, &none, None).await), rofs);
        for how in [
            CreateHow::Unchecked(none),
            CreateHow::Guarded(none),
            CreateHow::Exclusive([1; 8]),
        ] {
            assert_eq!(status(client.create(&root, b"f", &how).await), rofs);
            assert_eq!(status(client.create(&root, b"new", &how).await), rofs);
        }
        assert_eq!(status(client.mkdir(&root, b"d", &none).await), rofs);
        assert_eq!(status(client.symlink(&root, b"l", &none, b"f").await), rofs);
        assert_eq!(status(client.remove(&root, b"f").await), rofs);
        assert_eq!(status(client.rmdir(&root, b"f").await), rofs);
        assert_eq!(status(client.rename(&root, b"f", &root, b"g").await), rofs);
        assert_eq!(status(client.link(&f, &root, b"g").await), rofs);
        let granted = access(&client, &f).await;
        assert_eq!(granted & !ACCESS3_EXECUTE, ACCESS3_READ);
        let all = ACCESS3_LOOKUP | ACCESS3_MODIFY | ACCESS3_EXTEND;
        assert_eq!(ok(client.access(&root, all).await).access, ACCESS3_LOOKUP);
        assert_eq!(&ok(client.read(&f, 0, 9).await).data[..], b"contents");
    });
    let after = served.path().join("f").metadata().unwrap();
    assert_eq!(
        (before.ctime(), before.ctime_nsec()),
        (after.ctime(), after.ctime_nsec())
    );
    assert_eq!(std::fs::read_dir(served.path()).unwrap().count(), 1);
}

#[test]
fn the_server_may_know_a_users_groups_better() {
    if !is_root() {
        skip!("acting as other users needs root");
    }
    // A user of every Debian with a group list of its own; one that the database does not know.
    let groups = nfs_io::accounts::group_list(1).unwrap().unwrap_or_default();
    let Some(own) = groups.first().copied() else {
        skip!("uid 1 has no groups in this system's database");
    };
    let served = Served::with(|config| config.server.server_groups = true);
    file(&served.path().join("own"), 0, own, 0o640);
    file(&served.path().join("said"), 0, STAFF, 0o640);
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let who = client.with_identity(Identity::sys(1, 4799, &[STAFF]));
        let own = lookup(&client, &root, b"own").await;
        let said = lookup(&client, &root, b"said").await;
        assert_eq!(status(who.read(&own, 0, 9).await), Nfsstat3::Ok);
        assert_eq!(
            status(who.read(&said, 0, 9).await),
            Nfsstat3::Acces,
            "the call's list counts not"
        );
    });
}

#[test]
fn a_reload_changes_rights_and_keeps_what_is_open() {
    let served = Served::start();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let f = create(&client, &root, b"f").await;
        assert_eq!(write(&client, &f).await, Nfsstat3::Ok);
        let mut config = served.config.clone();
        for client in &mut config.exports[0].clients {
            client.access = Access::ReadOnly;
        }
        served
            .server
            .apply(ExportTable::new(&config).unwrap())
            .unwrap();
        assert_eq!(write(&client, &f).await, Nfsstat3::Rofs);
        assert_eq!(&ok(client.read(&f, 0, 9).await).data[..], b"C");
        served
            .server
            .apply(ExportTable::new(&served.config).unwrap())
            .unwrap();
        assert_eq!(write(&client, &f).await, Nfsstat3::Ok);
        let committed = ok(client.commit(&f, 0, 0).await);
        let after = client
            .write(&f, 0, StableHow::Unstable, Bytes::from_static(b"D"))
            .await;
        assert_eq!(ok(after).verf, committed.verf);
    });
}

#[test]
fn another_directory_under_the_same_path_is_another_place() {
    let served = Served::start();
    let other = support::scratch(0o755);
    std::fs::write(served.path().join("secret"), b"secret").unwrap();
    std::fs::write(other.path().join("f"), b"other").unwrap();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let secret = lookup(&client, &root, b"secret").await;
        assert_eq!(write(&client, &secret).await, Nfsstat3::Ok);
        let mut config = served.config.clone();
        config.exports[0].path = other.path().to_owned();
        served
            .server
            .apply(ExportTable::new(&config).unwrap())
            .unwrap();
        for _ in 0..2 {
            assert_eq!(status(client.read(&secret, 0, 9).await), Nfsstat3::Stale);
            assert_eq!(status(client.getattr(&root).await), Nfsstat3::Stale);
            assert_eq!(
                status(client.lookup(&root, b"secret").await),
                Nfsstat3::Stale
            );
        }
        let new_root = served.root(&client).await;
        let f = lookup(&client, &new_root, b"f").await;
        assert_eq!(&ok(client.read(&f, 0, 9).await).data[..], b"other");
        // Back again: the old handles are good again.
        served
            .server
            .apply(ExportTable::new(&served.config).unwrap())
            .unwrap();
        assert_eq!(&ok(client.read(&secret, 0, 9).await).data[..], b"Cecret");
        assert_eq!(status(client.getattr(&f).await), Nfsstat3::Stale);
        // Gone: stale.
        let mut config = served.config.clone();
        config.exports[0].pseudo = "/elsewhere".to_owned();
        served
            .server
            .apply(ExportTable::new(&config).unwrap())
            .unwrap();
        assert_eq!(status(client.getattr(&root).await), Nfsstat3::Stale);
    });
}

/// Sets or clears flags of a file as chattr(1) does; undone when dropped, or nobody could remove the file.
struct Flagged<'p>(&'p Path);

impl<'p> Flagged<'p> {
    /// `None` where the file system has no such flags.
    fn new(path: &'p Path, flag: char) -> Option<Self> {
        chattr(path, &format!("+{flag}")).then(|| Self(path))
    }
}

impl Drop for Flagged<'_> {
    fn drop(&mut self) {
        chattr(self.0, "-ai");
    }
}

fn chattr(path: &Path, change: &str) -> bool {
    let status = Command::new("chattr")
        .arg(change)
        .arg(path)
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// The kernel judges by these flags when a file is opened, and the server has it open since the first WRITE.
#[test]
fn a_file_made_append_only_or_immutable_after_the_first_write_is_written_no_more() {
    if !is_root() {
        skip!("such flags need root");
    }
    let served = Served::start();
    for (flag, owner) in [('a', 0), ('a', 1000), ('i', 0), ('i', 1000)] {
        let name = format!("{flag}{owner}");
        let path = served.path().join(&name);
        std::fs::write(&path, b"0123456789").unwrap();
        chown(&path, Some(owner), Some(owner)).unwrap();
        block_on(async {
            let client = user(&served.client().await, owner, &[]);
            let root = served.root(&client).await;
            let file = lookup(&client, &root, name.as_bytes()).await;
            let write = async |offset: u64| {
                let data = Bytes::from_static(b"x");
                status(client.write(&file, offset, StableHow::Unstable, data).await)
            };
            assert_eq!(write(0).await, Nfsstat3::Ok);
            let Some(flagged) = Flagged::new(&path, flag) else {
                nfs_lab::skipped("this file system has no such flags");
                return;
            };
            // Over what is there, at the end, and beyond: the kernel's server refuses each.
            for offset in [0, 10, 100] {
                assert_eq!(write(offset).await, Nfsstat3::Perm, "+{flag}, at {offset}");
            }
            let size = |size| Sattr3 {
                size: Some(size),
                ..Sattr3::default()
            };
            for length in [0, 20] {
                let cut = status(client.setattr(&file, &size(length), None).await);
                assert_eq!(cut, Nfsstat3::Perm, "+{flag}, cut to {length}");
                let how = CreateHow::Unchecked(size(length));
                let made = status(client.create(&root, name.as_bytes(), &how).await);
                assert_eq!(made, Nfsstat3::Perm, "+{flag}, made anew with {length}");
            }
            // What was acknowledged before can still be put on stable storage, and read.
            ok(client.commit(&file, 0, 0).await);
            assert_eq!(
                ok(client.read(&file, 0, 100).await).data,
                &b"x123456789"[..]
            );
            drop(flagged);
            assert_eq!(write(10).await, Nfsstat3::Ok);
        });
    }
}

#[test]
fn what_is_made_with_set_id_bits_keeps_within_the_default_acl() {
    if !is_root() {
        skip!("acting as other users needs root");
    }
    let served = Served::start();
    let directory = fs::open_dir(served.path()).unwrap();
    if !fs::has_posix_acls(directory.as_fd()) {
        skip!("a file system with ACLs");
    }
    let acl = PosixAcl {
        users: vec![(STAFF, Perms::READ)],
        mask: Some(Perms::READ),
        ..PosixAcl::of_mode(0o740)
    };
    fs::set_posix_acl(directory.as_fd(), AclKind::Default, Some(&acl)).unwrap();
    block_on(async {
        let client = served.client().await;
        let root = served.root(&client).await;
        let attributes = Sattr3 {
            // A change of owner takes the bits away, and they are set again.
            uid: Some(BOB),
            ..mode(0o6777)
        };
        ok(client.mkdir(&root, b"d", &attributes).await);
        let how = CreateHow::Unchecked(attributes);
        ok(client.create(&root, b"f", &how).await);
        let fifo = Mknoddata::Fifo(PipeData {
            pipe_attributes: attributes,
        });
        ok(client.mknod(&root, b"p", &fifo).await);
    });
    for name in ["d", "f", "p"] {
        let made = served.path().join(name).metadata().unwrap();
        assert_eq!((made.mode() & 0o7777, made.uid()), (0o6740, BOB), "{name}");
    }
}
