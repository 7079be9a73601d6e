//! NFSv4.1 over the wire: clients, sessions, and COMPOUNDs on real files.

mod support;

use std::fs::File;
use std::os::fd::AsFd as _;
use std::time::Duration;

use nfs_client::{Identity, Procedure};
use nfs_io::Errno;
use nfs_io::fs::{self, OfdLock};
use nfs_server::exports::config::Config;
use nfs_server::exports::{NfsVersion, Versions};
use nfs_wire::nfs4::ops::{
    AccessArgs, AllocateArgs, CloseArgs, CommitArgs, CopyArgs, CreateArgs, Createhow4, Createtype4,
    DataContent4, GetattrArgs, LinkArgs, LockArgs, Locker4, LocktArgs, LockuArgs, OpenArgs,
    OpenDowngradeArgs, OpenToLockOwner4, Openflag4, ReadArgs, ReaddirArgs, RemoveArgs, RenameArgs,
    SecinfoNoNameArgs, SecinfoStyle4, SeekArgs, SequenceArgs, SetattrArgs, VerifyArgs,
};
use nfs_wire::nfs4::{
    ArgOp, Attributes, Bitmap4, Component4, CompoundRes, Ftype4, Linktext4, LockType4, Nfsstat4,
    ResOp, Sessionid4, Stateid4, Verifier4,
};
use nfs_wire::{encode_to_vec, nfs4};
use support::v4::{
    Client, NO_ATTRIBUTES, encoded, exchange_id, fattr, lookup, of_mode, open_args, owner, putfh,
    raw,
};
use support::{Served, block_on};

const ALL: Versions = Versions::ALL;

/// Serves an empty directory in all versions.
fn serve() -> Served {
    Served::with(|config| config.server.versions = ALL)
}

const READ: u32 = 1;
const WRITE: u32 = 2;
const BOTH: u32 = 3;

#[test]
fn a_file_is_made_written_read_and_closed() {
    let served = serve();
    block_on(async {
        for minor in [1, 2] {
            let owner = format!("of minor version {minor}");
            let mut client = Client::new(&served, minor, owner.as_bytes()).await;
            let root = client.root().await;
            let name = format!("f{minor}");
            let mode = of_mode(0o640);
            let how = Openflag4::Create(Createhow4::Unchecked(fattr(&mode)));
            let made = client
                .open(&root, open_args(name.as_bytes(), BOTH, how))
                .await;
            let (file, stateid) = made.unwrap();
            assert_eq!(client.write(&file, stateid, (0, b"hello ")).await, Ok(6));
            let long = vec![7; 300_000];
            assert_eq!(client.write(&file, stateid, (6, &long)).await, Ok(300_000));
            let commit = ArgOp::Commit(CommitArgs {
                offset: 0,
                count: 0,
            });
            client.ok(vec![putfh(&file), commit]).await;
            let (data, eof) = client.read(&file, stateid, (3, 100)).await.unwrap();
            assert_eq!(
                (&data[..3], &data[3..], eof),
                (&b"lo "[..], &[7; 97][..], false)
            );
            let (data, eof) = client.read(&file, stateid, (6, 400_000)).await.unwrap();
            assert!(data == long && eof);
            assert_eq!(client.stat(&file).await, (300_006, 0o640, 1));
            let close = ArgOp::Close(CloseArgs {
                seqid: 0,
                open_stateid: stateid,
            });
            client.ok(vec![putfh(&file), close]).await;
            let after = client.read(&file, stateid, (0, 1)).await;
            assert_eq!(after, Err(Nfsstat4::BadStateid));
            let on_disk = std::fs::read(served.path().join(&name)).unwrap();
            assert_eq!(on_disk.len(), 300_006);
        }
    });
}

#[test]
fn a_file_that_is_open_stays_readable_after_its_last_name_has_gone() {
    let served = serve();
    std::fs::write(served.path().join("f"), "text").unwrap();
    block_on(async {
        let mut client = Client::new(&served, 1, b"one").await;
        let root = client.root().await;
        let opened = client.open(&root, open_args(b"f", READ, Openflag4::Nocreate));
        let (file, stateid) = opened.await.unwrap();
        let target = Component4(b"f");
        let remove = ArgOp::Remove(RemoveArgs { target });
        client.ok(vec![putfh(&root), remove]).await;
        assert_eq!(client.names(&root, 4096).await, [""; 0]);
        let read = client.read(&file, stateid, (0, 10)).await.unwrap();
        assert_eq!(read, (b"text".to_vec(), true));
        let close = ArgOp::Close(CloseArgs {
            seqid: 0,
            open_stateid: stateid,
        });
        client.ok(vec![putfh(&file), close]).await;
        // What was open is let go of on a helper thread, some time after the reply.
        let gone = async {
            let anonymous = Stateid4::ANONYMOUS;
            while client.read(&file, anonymous, (0, 10)).await != Err(Nfsstat4::Stale) {}
        };
        let gone = tokio::time::timeout(Duration::from_secs(60), gone).await;
        gone.expect("stale in the end");
    });
}

#[test]
fn names_are_made_moved_linked_listed_and_removed() {
    let served = serve();
    block_on(async {
        let mut client = Client::new(&served, 1, b"one").await;
        let root = client.root().await;
        let mode = of_mode(0o755);
        let mkdir = |name: &'static [u8], createattrs| {
            ArgOp::Create(CreateArgs {
                objtype: Createtype4::Dir,
                objname: Component4(name),
                createattrs,
            })
        };
        let dir = client
            .handle(vec![putfh(&root), mkdir(b"d", fattr(&mode))])
            .await;
        let symlink = ArgOp::Create(CreateArgs {
            objtype: Createtype4::Lnk(Linktext4(b"d/target")),
            objname: Component4(b"s"),
            createattrs: NO_ATTRIBUTES,
        });
        client.ok(vec![putfh(&root), symlink]).await;
        let read = vec![putfh(&root), lookup(b"s"), ArgOp::Readlink(())];
        client
            .call(read, |_, results| match results.last() {
                Some(ResOp::Readlink(Ok(ok))) => assert_eq!(ok.link.0, b"d/target"),
                other => panic!("{other:?}"),
            })
            .await;
        for number in 0..100 {
            std::fs::write(served.path().join(format!("d/{number:03}")), "").unwrap();
        }
        assert_eq!(client.names(&dir, 2000).await.len(), 100, "in many parts");
        assert_eq!(client.names(&root, 8192).await, ["d", "s"]);
        let rename = ArgOp::Rename(RenameArgs {
            oldname: Component4(b"000"),
            newname: Component4(b"moved"),
        });
        let save = ArgOp::Savefh(());
        client
            .ok(vec![putfh(&dir), save.clone(), putfh(&root), rename])
            .await;
        let link = ArgOp::Link(LinkArgs {
            newname: Component4(b"linked"),
        });
        let moved = vec![putfh(&root), lookup(b"moved"), save, putfh(&dir), link];
        client.ok(moved).await;
        let file = client.handle(vec![putfh(&dir), lookup(b"linked")]).await;
        assert_eq!(client.stat(&file).await.2, 2);
        let remove = |name: &'static [u8]| {
            ArgOp::Remove(RemoveArgs {
                target: Component4(name),
            })
        };
        let not_empty = client.status(vec![putfh(&root), remove(b"d")]).await;
        assert_eq!(not_empty, Nfsstat4::Notempty);
        client
            .ok(vec![putfh(&root), remove(b"moved"), remove(b"s")])
            .await;
        let up = vec![putfh(&dir), ArgOp::Lookupp(())];
        assert_eq!(client.handle(up).await, root);
        let above = client.status(vec![putfh(&root), ArgOp::Lookupp(())]).await;
        assert_eq!(above, Nfsstat4::Noent);
        for (name, expected) in [
            (&b""[..], Nfsstat4::Inval),
            (b"..", Nfsstat4::Badname),
            (b"a/b", Nfsstat4::Badchar),
            (b"none", Nfsstat4::Noent),
        ] {
            let status = client.status(vec![putfh(&root), lookup(name)]).await;
            assert_eq!(status, expected, "{name:?}");
        }
        let in_a_file = client.status(vec![putfh(&file), lookup(b"x")]).await;
        assert_eq!(in_a_file, Nfsstat4::Notdir);
    });
}

#[test]
fn attributes_are_set_and_compared() {
    let served = serve();
    std::fs::write(served.path().join("f"), "0123456789").unwrap();
    block_on(async {
        let mut client = Client::new(&served, 1, b"one").await;
        let root = client.root().await;
        let file = client.handle(vec![putfh(&root), lookup(b"f")]).await;
        let values = encoded(&Attributes {
            size: Some(3),
            mode: Some(0o600),
            ..Attributes::default()
        });
        let set = ArgOp::Setattr(SetattrArgs {
            stateid: Stateid4::ANONYMOUS,
            obj_attributes: fattr(&values),
        });
        client.ok(vec![putfh(&file), set]).await;
        let (size, mode, _) = client.stat(&file).await;
        assert_eq!((size, mode), (3, 0o600));
        let same = VerifyArgs {
            obj_attributes: fattr(&values),
        };
        client.ok(vec![putfh(&file), ArgOp::Verify(same)]).await;
        let nverify = client
            .status(vec![putfh(&file), ArgOp::Nverify(same)])
            .await;
        assert_eq!(nverify, Nfsstat4::Same);
        let other = encoded(&Attributes {
            ftype: Some(Ftype4::Dir),
            ..Attributes::default()
        });
        let not = VerifyArgs {
            obj_attributes: fattr(&other),
        };
        let verify = client.status(vec![putfh(&file), ArgOp::Verify(not)]).await;
        assert_eq!(verify, Nfsstat4::NotSame);
        let read_only = ArgOp::Setattr(SetattrArgs {
            stateid: Stateid4::ANONYMOUS,
            obj_attributes: fattr(&other),
        });
        let status = client.status(vec![putfh(&file), read_only]).await;
        assert_eq!(status, Nfsstat4::Inval);
        let named = encoded(&Attributes {
            owner: Some(nfs_wire::nfs4::Utf8str(b"root@example.org")),
            ..Attributes::default()
        });
        let chown = ArgOp::Setattr(SetattrArgs {
            stateid: Stateid4::ANONYMOUS,
            obj_attributes: fattr(&named),
        });
        let status = client.status(vec![putfh(&file), chown]).await;
        assert_eq!(status, Nfsstat4::Badowner);
        // Every attribute that is there has a value, of a directory above the exports too.
        let all = Bitmap4::of(
            &(0..86)
                .filter(|it| *it != 48 && *it != 54)
                .collect::<Vec<_>>(),
        );
        let getattr = ArgOp::Getattr(GetattrArgs { attr_request: all });
        let supported = client.call(vec![putfh(&file), getattr], |_, results| {
            let [_, ResOp::Getattr(Ok(ok))] = results else {
                panic!("{results:?}")
            };
            let values = ok.obj_attributes.decode_values().unwrap();
            let set_only = Bitmap4::of(&[48, 54, 74]);
            assert_eq!(
                values.supported_attrs.unwrap().minus(&set_only),
                values.present()
            );
        });
        supported.await;
        let access = ArgOp::Access(AccessArgs { access: 0x3f });
        client
            .call(vec![putfh(&file), access], |_, results| match results {
                [_, ResOp::Access(Ok(ok))] => assert_eq!((ok.supported, ok.access), (0x2d, 0x0d)),
                other => panic!("{other:?}"),
            })
            .await;
    });
}

#[test]
fn what_one_denies_another_does_not_get_until_it_is_closed() {
    let served = serve();
    std::fs::write(served.path().join("f"), "text").unwrap();
    block_on(async {
        let mut one = Client::new(&served, 1, b"one").await;
        let mut two = Client::new(&served, 1, b"two").await;
        let root = one.root().await;
        let denying = OpenArgs {
            share_deny: WRITE,
            ..open_args(b"f", BOTH, Openflag4::Nocreate)
        };
        let (file, stateid) = one.open(&root, denying).await.unwrap();
        let write = open_args(b"f", WRITE, Openflag4::Nocreate);
        assert_eq!(two.open(&root, write).await, Err(Nfsstat4::ShareDenied));
        let anonymous = two.write(&file, Stateid4::ANONYMOUS, (0, b"x")).await;
        assert_eq!(anonymous, Err(Nfsstat4::Locked));
        let read = open_args(b"f", READ, Openflag4::Nocreate);
        let (_, of_two) = two.open(&root, read).await.unwrap();
        let through_read = two.write(&file, of_two, (0, b"x")).await;
        assert_eq!(through_read, Err(Nfsstat4::Openmode));
        let stolen = two.read(&file, stateid, (0, 1)).await;
        assert_eq!(stolen, Err(Nfsstat4::BadStateid), "another client's");
        let downgrade = ArgOp::OpenDowngrade(OpenDowngradeArgs {
            open_stateid: stateid,
            seqid: 0,
            share_access: READ,
            share_deny: 0,
        });
        // What it never asked for by itself it cannot go back to (RFC 8881 §18.18.3).
        let status = one.status(vec![putfh(&file), downgrade]).await;
        assert_eq!(status, Nfsstat4::Inval);
        let close = ArgOp::Close(CloseArgs {
            seqid: 0,
            open_stateid: stateid,
        });
        one.ok(vec![putfh(&file), close]).await;
        assert!(two.open(&root, write).await.is_ok());
    });
}

#[test]
fn ranges_are_locked_against_other_owners() {
    let served = serve();
    std::fs::write(served.path().join("f"), "text").unwrap();
    block_on(async {
        let mut one = Client::new(&served, 1, b"one").await;
        let mut two = Client::new(&served, 1, b"two").await;
        let root = one.root().await;
        let open = open_args(b"f", BOTH, Openflag4::Nocreate);
        let (file, of_one) = one.open(&root, open).await.unwrap();
        let (_, of_two) = two.open(&root, open).await.unwrap();
        let lock = |open_stateid, (offset, length)| {
            let new = OpenToLockOwner4 {
                open_seqid: 0,
                open_stateid,
                lock_seqid: 0,
                lock_owner: owner(b"locker"),
            };
            ArgOp::Lock(LockArgs {
                locktype: LockType4::Write,
                reclaim: false,
                offset,
                length,
                locker: Locker4::New(new),
            })
        };
        let granted = vec![putfh(&file), lock(of_one, (0, 10))];
        let lock_stateid = one.call(granted, |status, results| match results {
            [_, ResOp::Lock(Ok(stateid))] => *stateid,
            _ => panic!("{status}: {results:?}"),
        });
        let lock_stateid = lock_stateid.await;
        let denied = vec![putfh(&file), lock(of_two, (9, 1))];
        two.call(denied, |status, results| {
            assert_eq!(status, Nfsstat4::Denied);
            assert!(
                matches!(results, [_, ResOp::Lock(Err(nfs4::ops::LockFailure::Denied(denied)))]
                if (denied.offset, denied.length) == (0, 10))
            );
        })
        .await;
        two.ok(vec![putfh(&file), lock(of_two, (10, 1))]).await;
        let unlock = ArgOp::Locku(LockuArgs {
            locktype: LockType4::Write,
            seqid: 0,
            lock_stateid,
            offset: 0,
            length: u64::MAX,
        });
        one.ok(vec![putfh(&file), unlock]).await;
        two.ok(vec![putfh(&file), lock(of_two, (0, 5))]).await;
        let empty = two.status(vec![putfh(&file), lock(of_two, (0, 0))]).await;
        assert_eq!(empty, Nfsstat4::Inval);
    });
}

#[test]
fn locks_of_clients_and_of_local_programs_exclude_each_other() {
    let served = serve();
    let path = served.path().join("f");
    std::fs::write(&path, "text").unwrap();
    let local = File::options().read(true).write(true).open(&path).unwrap();
    let set = |lock, range| fs::set_ofd_lock(local.as_fd(), lock, range);
    block_on(async {
        let mut client = Client::new(&served, 1, b"one").await;
        let root = client.root().await;
        let open = open_args(b"f", BOTH, Openflag4::Nocreate);
        let (file, open_stateid) = client.open(&root, open).await.unwrap();
        let lock = |(offset, length)| {
            let new = OpenToLockOwner4 {
                open_seqid: 0,
                open_stateid,
                lock_seqid: 0,
                lock_owner: owner(b"locker"),
            };
            ArgOp::Lock(LockArgs {
                locktype: LockType4::Write,
                reclaim: false,
                offset,
                length,
                locker: Locker4::New(new),
            })
        };
        let lock_stateid =
            client.call(
                vec![putfh(&file), lock((0, 10))],
                |status, results| match results {
                    [_, ResOp::Lock(Ok(stateid))] => *stateid,
                    _ => panic!("{status}: {results:?}"),
                },
            );
        let lock_stateid = lock_stateid.await;
        assert_eq!(set(Some(OfdLock::Read), (9, 1)), Err(Errno::AGAIN));
        set(Some(OfdLock::Write), (20, 10)).expect("free");
        let test = ArgOp::Lockt(LocktArgs {
            locktype: LockType4::Read,
            offset: 29,
            length: 1,
            owner: owner(b"locker"),
        });
        let tested = client.status(vec![putfh(&file), test]).await;
        assert_eq!(tested, Nfsstat4::Denied);
        // It meets the local program's lock and leaves nothing behind, neither here nor on the host.
        client
            .call(vec![putfh(&file), lock((5, 20))], |status, results| {
                assert_eq!(status, Nfsstat4::Denied);
                assert!(
                    matches!(results, [_, ResOp::Lock(Err(nfs4::ops::LockFailure::Denied(denied)))]
                    if (denied.offset, denied.length) == (20, 10) && denied.owner.owner.0 == b"local")
                );
            })
            .await;
        set(None, (20, 10)).expect("its own");
        let unlock = ArgOp::Locku(LockuArgs {
            locktype: LockType4::Write,
            seqid: 0,
            lock_stateid,
            offset: 0,
            length: u64::MAX,
        });
        client.ok(vec![putfh(&file), unlock]).await;
        set(Some(OfdLock::Write), (0, 0)).expect("nobody else has anything");
        set(None, (0, 0)).expect("its own");
        client.ok(vec![putfh(&file), lock((5, 20))]).await;
        assert_eq!(set(Some(OfdLock::Write), (0, 0)), Err(Errno::AGAIN));
    });
}

#[test]
fn an_exclusive_open_is_known_again_and_gives_what_was_asked_for() {
    let served = serve();
    block_on(async {
        let mut client = Client::new(&served, 1, b"one").await;
        let root = client.root().await;
        let mode = of_mode(0o600);
        let how = |verf| {
            Openflag4::Create(Createhow4::Exclusive41(nfs4::ops::CreateVerfAttr {
                verf: Verifier4(verf),
                attrs: fattr(&mode),
            }))
        };
        let first = client
            .open(&root, open_args(b"f", BOTH, how(*b"verifier")))
            .await;
        let (file, _) = first.unwrap();
        let again = client
            .open(&root, open_args(b"f", BOTH, how(*b"verifier")))
            .await;
        assert_eq!(again.unwrap().0, file);
        let other = client
            .open(&root, open_args(b"f", BOTH, how(*b"another!")))
            .await;
        assert_eq!(other, Err(Nfsstat4::Exist));
        assert_eq!(client.stat(&file).await.1, 0o600);
        if support::is_root() {
            // Whoever knows the verifier, or finds an empty file with such times, has no right to it by that.
            let stranger = Identity::sys(4711, 4711, &[]);
            let mut stranger = Client::of(&served, 1, b"two", stranger).await;
            let open = stranger.open(&root, open_args(b"f", BOTH, how(*b"verifier")));
            assert_eq!(open.await, Err(Nfsstat4::Access));
        }
        let guarded = Openflag4::Create(Createhow4::Guarded(NO_ATTRIBUTES));
        let guarded = client.open(&root, open_args(b"f", BOTH, guarded)).await;
        assert_eq!(guarded, Err(Nfsstat4::Exist));
        std::fs::create_dir(served.path().join("d")).unwrap();
        let unchecked = Openflag4::Create(Createhow4::Unchecked(NO_ATTRIBUTES));
        let directory = client.open(&root, open_args(b"d", READ, unchecked)).await;
        assert_eq!(directory, Err(Nfsstat4::Isdir));
    });
}

#[test]
fn exports_are_found_by_their_paths_from_the_root_on() {
    let served = Served::with(|config: &mut Config| {
        config.server.versions = ALL;
        let mut other = config.exports[0].clone();
        config.exports[0].pseudo = "/a/one".to_owned();
        other.pseudo = "/a/b/two".to_owned();
        // Nobody here may use it.
        let mut hidden = other.clone();
        hidden.pseudo = "/hidden/three".to_owned();
        for client in &mut hidden.clients {
            client.versions = Versions::NONE.with(NfsVersion::V3);
        }
        config.exports.extend([other, hidden]);
    });
    std::fs::write(served.path().join("f"), "text").unwrap();
    block_on(async {
        let mut client = Client::new(&served, 1, b"one").await;
        let root = client.root().await;
        assert_eq!(client.names(&root, 4096).await, ["a"]);
        let above = client.handle(vec![putfh(&root), lookup(b"a")]).await;
        assert_eq!(client.names(&above, 4096).await, ["b", "one"]);
        let path = vec![ArgOp::Putrootfh(()), lookup(b"a"), lookup(b"one")];
        let export = client.handle(path).await;
        assert_eq!(client.names(&export, 4096).await, ["f"]);
        let up = vec![putfh(&export), ArgOp::Lookupp(())];
        assert_eq!(client.handle(up).await, above);
        let up = vec![putfh(&above), ArgOp::Lookupp(())];
        assert_eq!(client.handle(up).await, root);
        let file = client.handle(vec![putfh(&export), lookup(b"f")]).await;
        assert_eq!(client.stat(&file).await.0, 4);
        for (cookie, expected) in [
            (1, Nfsstat4::BadCookie),
            (u64::MAX, Nfsstat4::Ok),
            (u64::MAX - 1, Nfsstat4::Ok),
        ] {
            let readdir = ArgOp::Readdir(ReaddirArgs {
                cookie,
                cookieverf: Verifier4::default(),
                dircount: 4096,
                maxcount: 4096,
                attr_request: Bitmap4::EMPTY,
            });
            let status = client.status(vec![putfh(&root), readdir]).await;
            assert_eq!(status, expected, "behind the end there is nothing");
        }
        let hidden = client.status(vec![putfh(&root), lookup(b"hidden")]).await;
        assert_eq!(hidden, Nfsstat4::Noent);
        let remove = ArgOp::Remove(RemoveArgs {
            target: Component4(b"one"),
        });
        let removed = client.status(vec![putfh(&above), remove]).await;
        assert_eq!(removed, Nfsstat4::Rofs);
        let secinfo = ArgOp::SecinfoNoName(SecinfoNoNameArgs {
            style: SecinfoStyle4::CurrentFh,
        });
        let used_up = vec![putfh(&root), secinfo, ArgOp::Getfh(())];
        assert_eq!(client.status(used_up).await, Nfsstat4::Nofilehandle);
        // The same handle in NFSv3, and of a directory above the exports none.
        let v3 = served.client().await;
        let mounted = support::mount(&v3, b"/a/one").await.unwrap();
        assert_eq!(mounted.as_ref(), export.as_ref());
        assert!(support::mount(&v3, b"/a").await.is_err());
        let of_node = nfs_wire::nfs3::FileHandle::new(root.as_ref()).unwrap();
        let status = support::status(v3.getattr(&of_node).await);
        assert_eq!(status, nfs_wire::nfs3::Nfsstat3::Stale);
    });
}

#[test]
fn a_request_that_comes_again_is_answered_from_its_slot() {
    let served = serve();
    block_on(async {
        let mut client = Client::new(&served, 1, b"one").await;
        let root = client.root().await;
        let ArgOp::Sequence(mut sequence) = client.sequence() else {
            unreachable!()
        };
        sequence.cachethis = true;
        let mkdir = |name: &'static [u8]| {
            ArgOp::Create(CreateArgs {
                objtype: Createtype4::Dir,
                objname: Component4(name),
                createattrs: NO_ATTRIBUTES,
            })
        };
        let call = |name| vec![ArgOp::Sequence(sequence), putfh(&root), mkdir(name)];
        let whole = |res: CompoundRes<'_>| encode_to_vec(&res);
        let first = raw(&client.nfs, 1, call(b"d"), whole).await;
        let again = raw(&client.nfs, 1, call(b"d"), whole).await;
        assert!(first == again);
        let status = |res: CompoundRes<'_>| res.status;
        let other = raw(&client.nfs, 1, call(b"e"), status).await;
        assert_eq!(other, Nfsstat4::SeqFalseRetry);
        assert_eq!(client.names(&root, 4096).await, ["d"]);
        // One with data in its reply.
        std::fs::write(served.path().join("f"), "text").unwrap();
        let ArgOp::Sequence(mut sequence) = client.sequence() else {
            unreachable!()
        };
        sequence.cachethis = true;
        let read = ArgOp::Read(ReadArgs {
            stateid: Stateid4::ANONYMOUS,
            offset: 0,
            count: 10,
        });
        let call = || {
            let file = [putfh(&root), lookup(b"f"), read.clone()];
            std::iter::once(ArgOp::Sequence(sequence))
                .chain(file)
                .collect()
        };
        let first = raw(&client.nfs, 1, call(), whole).await;
        std::fs::write(served.path().join("f"), "else").unwrap();
        let again = raw(&client.nfs, 1, call(), whole).await;
        assert!(first == again && first.windows(4).any(|part| part == b"text"));
        // One whose reply was not to be kept.
        let ArgOp::Sequence(sequence) = client.sequence() else {
            unreachable!()
        };
        let call = || vec![ArgOp::Sequence(sequence), putfh(&root), mkdir(b"g")];
        assert_eq!(raw(&client.nfs, 1, call(), status).await, Nfsstat4::Ok);
        let uncached = raw(&client.nfs, 1, call(), status).await;
        assert_eq!(uncached, Nfsstat4::RetryUncachedRep);
        let misordered = ArgOp::Sequence(SequenceArgs {
            sequenceid: sequence.sequenceid + 7,
            ..sequence
        });
        let misordered = raw(&client.nfs, 1, vec![misordered], status).await;
        assert_eq!(misordered, Nfsstat4::SeqMisordered);
    });
}

#[test]
fn what_does_not_belong_where_it_stands_is_refused() {
    let served = serve();
    block_on(async {
        let mut client = Client::new(&served, 1, b"one").await;
        let status = |res: CompoundRes<'_>| res.status;
        let root = || ArgOp::Putrootfh(());
        let refused = raw(&client.nfs, 1, vec![root()], status).await;
        assert_eq!(refused, Nfsstat4::OpNotInSession);
        let two = vec![exchange_id(b"x"), root()];
        let refused = raw(&client.nfs, 1, two, status).await;
        assert_eq!(refused, Nfsstat4::NotOnlyOp);
        for minor in [0, 3] {
            let refused = raw(&client.nfs, minor, vec![root()], status).await;
            assert_eq!(refused, Nfsstat4::MinorVersMismatch);
        }
        assert_eq!(raw(&client.nfs, 1, vec![], status).await, Nfsstat4::Ok);
        let getfh = client.status(vec![ArgOp::Getfh(())]).await;
        assert_eq!(getfh, Nfsstat4::Nofilehandle);
        let many = client.sequence();
        let many = std::iter::once(many)
            .chain((0..8).map(|_| root()))
            .collect();
        let refused = raw(&client.nfs, 1, many, status).await;
        assert_eq!(refused, Nfsstat4::TooManyOps);
        client.sequence -= 1;
        let seconds = vec![root(), client.sequence()];
        client.sequence -= 1;
        assert_eq!(client.status(seconds).await, Nfsstat4::SequencePos);
        let illegal = client.status(vec![root(), ArgOp::Illegal(())]).await;
        assert_eq!(illegal, Nfsstat4::OpIllegal);
        let of_v0 = ArgOp::Renew(nfs4::ops::RenewArgs {
            clientid: Default::default(),
        });
        assert_eq!(client.status(vec![of_v0]).await, Nfsstat4::Notsupp);
        let session = Sessionid4([9; 16]);
        let mine = std::mem::replace(&mut client.session, session);
        let sequence = vec![client.sequence()];
        let refused = raw(&client.nfs, 1, sequence, status).await;
        assert_eq!(refused, Nfsstat4::Badsession);
        (client.session, client.sequence) = (mine, client.sequence - 1);
        client.ok(vec![root()]).await;
    });
}

#[test]
fn a_server_answers_all_versions_unless_it_is_told_which() {
    let served = Served::start();
    block_on(async {
        for (minor, owner) in [(1, b"one"), (2, b"two")] {
            Client::new(&served, minor, owner).await.root().await;
        }
        served.client().await;
    });
    let served = Served::with(|config| config.server.versions = Versions::V3);
    block_on(async {
        let nfs = served.client().await;
        let null = Procedure {
            program: nfs4::PROGRAM,
            version: nfs4::VERSION,
            number: nfs4::PROC_NULL,
        };
        let refused = nfs.connection().call_raw(null, nfs.identity(), &[]).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains('3'), "{refused}");
    });
    let served = Served::with(|config| {
        config.server.versions = Versions::NONE.with(NfsVersion::V42);
    });
    block_on(async {
        let client = Client::new(&served, 2, b"one").await;
        let status = |res: CompoundRes<'_>| res.status;
        let other = raw(&client.nfs, 1, vec![], status).await;
        assert_eq!(other, Nfsstat4::MinorVersMismatch);
        let mount = Procedure {
            program: nfs_wire::mount3::PROGRAM,
            version: nfs_wire::mount3::VERSION,
            number: 0,
        };
        let identity = client.nfs.identity();
        let refused = client.nfs.connection().call_raw(mount, identity, &[]).await;
        assert!(matches!(
            refused,
            Err(nfs_client::RpcError::ProgUnavail { .. })
        ));
    });
}

#[test]
fn space_is_taken_given_back_found_and_copied() {
    const BLOCK: u64 = 64 << 10;
    let served = serve();
    std::fs::write(served.path().join("from"), vec![7; 3 * BLOCK as usize]).unwrap();
    std::fs::write(served.path().join("to"), "").unwrap();
    block_on(async {
        let mut client = Client::new(&served, 2, b"one").await;
        let root = client.root().await;
        let opened = client.open(&root, open_args(b"from", BOTH, Openflag4::Nocreate));
        let (from, of_from) = opened.await.unwrap();
        let opened = client.open(&root, open_args(b"to", BOTH, Openflag4::Nocreate));
        let (to, of_to) = opened.await.unwrap();
        let space = |offset, length| AllocateArgs {
            stateid: of_from,
            offset,
            length,
        };
        let punch = ArgOp::Deallocate(space(BLOCK, BLOCK));
        client.ok(vec![putfh(&from), punch]).await;
        let allocate = ArgOp::Allocate(space(3 * BLOCK, BLOCK));
        client.ok(vec![putfh(&from), allocate]).await;
        assert_eq!(client.stat(&from).await.0, 4 * BLOCK);
        let none = ArgOp::Allocate(space(0, 0));
        let status = client.status(vec![putfh(&from), none]).await;
        assert_eq!(status, Nfsstat4::Inval);
        let seek = |offset, what| {
            ArgOp::Seek(SeekArgs {
                stateid: of_from,
                offset,
                what: Ok(what),
            })
        };
        for (offset, what, expected) in [
            (0, DataContent4::Hole, BLOCK),
            (BLOCK, DataContent4::Data, 2 * BLOCK),
        ] {
            let found =
                client.call(
                    vec![putfh(&from), seek(offset, what)],
                    |_, results| match results {
                        [_, ResOp::Seek(Ok(ok))] => (ok.offset, ok.eof),
                        other => panic!("{other:?}"),
                    },
                );
            assert_eq!(found.await, (expected, false));
        }
        // A client's lseek(2) to a negative offset comes as one that no file reaches.
        for offset in [4 * BLOCK, 5 * BLOCK, 1 << 63, u64::MAX] {
            for what in [DataContent4::Data, DataContent4::Hole] {
                let behind = vec![putfh(&from), seek(offset, what)];
                assert_eq!(client.status(behind).await, Nfsstat4::Nxio, "{offset}");
            }
        }
        let copy = ArgOp::Copy(CopyArgs {
            src_stateid: of_from,
            dst_stateid: of_to,
            src_offset: 0,
            dst_offset: 1,
            count: 0,
            consecutive: true,
            synchronous: true,
            source_server: vec![],
        });
        let both = vec![putfh(&from), ArgOp::Savefh(()), putfh(&to), copy];
        let copied = client.call(both, |status, results| match results.last() {
            Some(ResOp::Copy(Ok(ok))) => ok.response.count,
            other => panic!("{status}: {other:?}"),
        });
        assert_eq!(copied.await, 4 * BLOCK);
    });
    let from = std::fs::read(served.path().join("from")).unwrap();
    let to = std::fs::read(served.path().join("to")).unwrap();
    assert!(to[1..] == from[..] && to[0] == 0);
    assert!(
        from[BLOCK as usize..2 * BLOCK as usize]
            .iter()
            .all(|byte| *byte == 0)
    );
}
