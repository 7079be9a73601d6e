//! Extended attributes over NFSv4.2 (RFC 8276), on real files.

mod support;

use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;

use nfs_client::Identity;
use nfs_io::fs::{self, XattrFlags};
use nfs_server::exports::Versions;
use nfs_server::exports::config::Access;
use nfs_wire::nfs4::ops::{
    ACCESS4_READ, ACCESS4_XALIST, ACCESS4_XAREAD, ACCESS4_XAWRITE, AccessArgs, GetattrArgs,
    ListxattrsArgs, SetxattrArgs, SetxattrOption4, XattrNameArgs,
};
use nfs_wire::nfs4::{
    ArgOp, Attribute, ChangeInfo4, Component4, FileHandle, Nfsstat4, ResOp, Xattrvalue4,
};
use support::v4::{Client, lookup, putfh};
use support::{Served, block_on, skip};

const EITHER: SetxattrOption4 = SetxattrOption4::Either;

/// Serves a directory with the file `f`.
fn serve() -> Served {
    let served = Served::with(|config| config.server.versions = Versions::ALL);
    std::fs::write(served.path().join("f"), "text").unwrap();
    served
}

fn has_xattrs(served: &Served) -> bool {
    fs::has_user_xattrs(fs::open_dir(served.path()).unwrap().as_fd())
}

fn getxattr(name: &[u8]) -> ArgOp<'_> {
    let name = Component4(name);
    ArgOp::Getxattr(XattrNameArgs { name })
}

fn removexattr(name: &[u8]) -> ArgOp<'_> {
    let name = Component4(name);
    ArgOp::Removexattr(XattrNameArgs { name })
}

fn setxattr<'a>(option: SetxattrOption4, key: &'a [u8], value: &'a [u8]) -> ArgOp<'a> {
    ArgOp::Setxattr(SetxattrArgs {
        option,
        key: Component4(key),
        value: Xattrvalue4(value),
    })
}

async fn get(client: &mut Client, file: &FileHandle, name: &[u8]) -> Result<Vec<u8>, Nfsstat4> {
    let ops = vec![putfh(file), getxattr(name)];
    client
        .call(ops, |status, results| match results {
            [_, ResOp::Getxattr(Ok(value))] => Ok(value.0.to_vec()),
            _ => Err(status),
        })
        .await
}

async fn change(
    client: &mut Client,
    file: &FileHandle,
    op: ArgOp<'_>,
) -> Result<ChangeInfo4, Nfsstat4> {
    client
        .call(vec![putfh(file), op], |status, results| match results {
            [_, ResOp::Setxattr(Ok(info)) | ResOp::Removexattr(Ok(info))] => Ok(*info),
            _ => Err(status),
        })
        .await
}

/// Names from a cookie on, the next cookie, and whether there are no more.
type Listed = Result<(Vec<String>, u64, bool), Nfsstat4>;

async fn list(client: &mut Client, file: &FileHandle, cookie: u64, maxcount: u32) -> Listed {
    let list = ArgOp::Listxattrs(ListxattrsArgs { cookie, maxcount });
    client
        .call(vec![putfh(file), list], |status, results| match results {
            [_, ResOp::Listxattrs(Ok(ok))] => {
                let names = ok.names.iter();
                let names = names.map(|name| String::from_utf8(name.0.to_vec()).unwrap());
                Ok((names.collect(), ok.cookie, ok.eof))
            }
            _ => Err(status),
        })
        .await
}

async fn change_attribute(client: &mut Client, file: &FileHandle) -> u64 {
    let attr_request = Attribute::Change.bit();
    let ops = vec![putfh(file), ArgOp::Getattr(GetattrArgs { attr_request })];
    client
        .call(ops, |_, results| match results {
            [_, ResOp::Getattr(Ok(ok))] => ok.obj_attributes.decode_values().unwrap().change,
            other => panic!("{other:?}"),
        })
        .await
        .unwrap()
        .value
}

#[test]
fn attributes_are_set_read_and_removed() {
    let served = serve();
    if !has_xattrs(&served) {
        skip!("the file system of the temporary directory has no extended attributes");
    }
    block_on(async {
        let mut client = Client::new(&served, 2, b"one").await;
        let root = client.root().await;
        let file = client.handle(vec![putfh(&root), lookup(b"f")]).await;
        for object in [&file, &root] {
            let none = get(&mut client, object, b"a").await;
            assert_eq!(none, Err(Nfsstat4::Noxattr));
            let before = change_attribute(&mut client, object).await;
            let create = setxattr(SetxattrOption4::Create, b"a", b"first");
            let info = change(&mut client, object, create.clone()).await.unwrap();
            assert!(info.atomic);
            assert_eq!(info.before.value, before);
            assert_eq!(
                info.after.value,
                change_attribute(&mut client, object).await
            );
            assert_eq!(get(&mut client, object, b"a").await.unwrap(), b"first");
            let again = change(&mut client, object, create).await;
            assert_eq!(again, Err(Nfsstat4::Exist));
            let replace = setxattr(SetxattrOption4::Replace, b"a", b"second\0");
            change(&mut client, object, replace).await.unwrap();
            assert_eq!(get(&mut client, object, b"a").await.unwrap(), b"second\0");
            let none = setxattr(SetxattrOption4::Replace, b"b", b"x");
            let none = change(&mut client, object, none).await;
            assert_eq!(none, Err(Nfsstat4::Noxattr));
            change(&mut client, object, setxattr(EITHER, b"a", b""))
                .await
                .unwrap();
            assert_eq!(get(&mut client, object, b"a").await.unwrap(), b"");
            change(&mut client, object, removexattr(b"a"))
                .await
                .unwrap();
            let none = change(&mut client, object, removexattr(b"a")).await;
            assert_eq!(none, Err(Nfsstat4::Noxattr));
        }
        // On the disk they have the user's namespace, and no way leads to another.
        change(&mut client, &file, setxattr(EITHER, b"security.x", b"y"))
            .await
            .unwrap();
        let opened = std::fs::File::open(served.path().join("f")).unwrap();
        let names = fs::user_xattrs(opened.as_fd()).unwrap();
        assert_eq!(names, b"security.x\0");
    });
}

#[test]
fn what_is_too_long_is_refused_in_its_own_word() {
    let served = serve();
    if !has_xattrs(&served) {
        skip!("the file system of the temporary directory has no extended attributes");
    }
    block_on(async {
        let mut client = Client::new(&served, 2, b"one").await;
        let root = client.root().await;
        let file = client.handle(vec![putfh(&root), lookup(b"f")]).await;
        let large = vec![7; (64 << 10) + 1];
        let large = change(&mut client, &file, setxattr(EITHER, b"a", &large)).await;
        assert_eq!(large, Err(Nfsstat4::Xattr2big));
        for (name, expected) in [
            (&[b'n'; 251][..], Nfsstat4::Nametoolong),
            (b"", Nfsstat4::Inval),
            (b"a\0b", Nfsstat4::Inval),
        ] {
            let set = change(&mut client, &file, setxattr(EITHER, name, b"x")).await;
            assert_eq!(set, Err(expected));
            assert_eq!(get(&mut client, &file, name).await, Err(expected));
            let removed = change(&mut client, &file, removexattr(name)).await;
            assert_eq!(removed, Err(expected));
        }
        let longest = [b'n'; 250];
        change(&mut client, &file, setxattr(EITHER, &longest, b"x"))
            .await
            .unwrap();
        let value = vec![9; 3000];
        change(&mut client, &file, setxattr(EITHER, b"v", &value))
            .await
            .unwrap();
        assert!(get(&mut client, &file, b"v").await.unwrap() == value);
        // More values than one reply may have: those that fit are there.
        let mut ops = vec![putfh(&file)];
        ops.extend((0..6).map(|_| getxattr(b"v")));
        client.ok(ops).await;
    });
}

#[test]
fn names_are_listed_in_parts() {
    let served = serve();
    if !has_xattrs(&served) {
        skip!("the file system of the temporary directory has no extended attributes");
    }
    block_on(async {
        let mut client = Client::new(&served, 2, b"one").await;
        let root = client.root().await;
        let file = client.handle(vec![putfh(&root), lookup(b"f")]).await;
        let nothing = list(&mut client, &file, 0, 8192).await;
        assert_eq!(nothing, Ok((vec![], 0, true)));
        let opened = std::fs::File::open(served.path().join("f")).unwrap();
        let mut expected: Vec<String> = (0..20).map(|number| format!("n{number:02}")).collect();
        for name in &expected {
            let flags = XattrFlags::empty();
            fs::set_user_xattr(opened.as_fd(), name.as_bytes(), b"x", flags).unwrap();
        }
        // 16 bytes beside the names, 8 for each.
        for maxcount in [15, 16, 23] {
            let none = list(&mut client, &file, 0, maxcount).await;
            assert_eq!(none, Err(Nfsstat4::Toosmall), "{maxcount}");
        }
        let (mut names, mut cookie, mut parts) = (vec![], 0, 0);
        loop {
            let (some, next, eof) = list(&mut client, &file, cookie, 16 + 3 * 8).await.unwrap();
            assert_eq!(next, cookie + some.len() as u64);
            names.extend(some);
            (cookie, parts) = (next, parts + 1);
            if eof {
                break;
            }
        }
        assert_eq!(parts, 7);
        names.sort();
        expected.sort();
        assert_eq!(names, expected);
        let behind = list(&mut client, &file, 21, 8192).await;
        assert_eq!(behind, Ok((vec![], 21, true)), "some may be gone meanwhile");
        let never = list(&mut client, &file, u64::MAX, 8192).await;
        assert_eq!(never, Err(Nfsstat4::BadCookie));
    });
}

async fn may(client: &mut Client, object: &FileHandle, asked: u32) -> (u32, u32) {
    let access = ArgOp::Access(AccessArgs { access: asked });
    client
        .call(vec![putfh(object), access], |_, results| match results {
            [_, ResOp::Access(Ok(ok))] => (ok.supported, ok.access),
            other => panic!("{other:?}"),
        })
        .await
}

const OF_XATTRS: u32 = ACCESS4_XAREAD | ACCESS4_XAWRITE | ACCESS4_XALIST;

#[test]
fn who_may_not_read_or_write_the_file_has_no_way_to_its_attributes() {
    let served = serve();
    if !has_xattrs(&served) || !support::is_root() {
        skip!("acting for two users needs root, and a directory with extended attributes");
    }
    let path = served.path().join("f");
    let file = std::fs::File::open(&path).unwrap();
    fs::set_user_xattr(file.as_fd(), b"a", b"x", XattrFlags::empty()).unwrap();
    block_on(async {
        let stranger = Identity::sys(4711, 4711, &[]);
        let mut client = Client::of(&served, 2, b"one", stranger).await;
        let root = client.root().await;
        let file = client.handle(vec![putfh(&root), lookup(b"f")]).await;
        let refused = Err(Nfsstat4::Access);
        for (mode, reads, writes) in [
            (0o600, false, false),
            (0o604, true, false),
            (0o602, false, true),
        ] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let value = if reads {
                Ok(b"x".to_vec())
            } else {
                Err(Nfsstat4::Access)
            };
            assert_eq!(get(&mut client, &file, b"a").await, value);
            let listed = list(&mut client, &file, 0, 8192).await;
            assert_eq!(listed.is_ok(), reads, "{listed:?}");
            let set = change(&mut client, &file, setxattr(EITHER, b"b", b"y")).await;
            let removed = change(&mut client, &file, removexattr(b"b")).await;
            assert!(if writes {
                set.is_ok() && removed.is_ok()
            } else {
                set == refused && removed == refused
            });
            let mut granted = 0;
            if reads {
                granted |= ACCESS4_XAREAD | ACCESS4_XALIST;
            }
            if writes {
                granted |= ACCESS4_XAWRITE;
            }
            let told = may(&mut client, &file, OF_XATTRS).await;
            assert_eq!(told, (OF_XATTRS, granted), "{mode:o}");
        }
        // Of minor version 1 they are no bits at all.
        let mut older = Client::new(&served, 1, b"two").await;
        let told = may(&mut older, &root, OF_XATTRS | ACCESS4_READ).await;
        assert_eq!(told, (ACCESS4_READ, ACCESS4_READ));
    });
}

async fn xattr_support(client: &mut Client, object: &FileHandle) -> Option<bool> {
    let attr_request = Attribute::XattrSupport.bit();
    let ops = vec![putfh(object), ArgOp::Getattr(GetattrArgs { attr_request })];
    client
        .call(ops, |_, results| match results {
            [_, ResOp::Getattr(Ok(ok))] => ok.obj_attributes.decode_values().unwrap().xattr_support,
            other => panic!("{other:?}"),
        })
        .await
}

#[test]
fn an_export_for_reading_changes_none_and_above_the_exports_there_are_none() {
    let served = Served::with(|config| {
        config.server.versions = Versions::ALL;
        config.exports[0].pseudo = "/data".to_owned();
        for client in &mut config.exports[0].clients {
            client.access = Access::ReadOnly;
        }
    });
    if !has_xattrs(&served) {
        skip!("the file system of the temporary directory has no extended attributes");
    }
    std::fs::write(served.path().join("f"), "text").unwrap();
    let file = std::fs::File::open(served.path().join("f")).unwrap();
    fs::set_user_xattr(file.as_fd(), b"a", b"x", XattrFlags::empty()).unwrap();
    block_on(async {
        let mut client = Client::new(&served, 2, b"one").await;
        let above = client.root().await;
        assert_eq!(xattr_support(&mut client, &above).await, Some(false));
        let not = Nfsstat4::Notsupp;
        assert_eq!(get(&mut client, &above, b"a").await, Err(not));
        assert_eq!(list(&mut client, &above, 0, 8192).await, Err(not));
        let set = change(&mut client, &above, setxattr(EITHER, b"a", b"x")).await;
        assert_eq!(set, Err(not));
        assert_eq!(may(&mut client, &above, OF_XATTRS).await, (0, 0));
        let path = vec![putfh(&above), lookup(b"data"), lookup(b"f")];
        let file = client.handle(path).await;
        assert_eq!(xattr_support(&mut client, &file).await, Some(true));
        assert_eq!(get(&mut client, &file, b"a").await.unwrap(), b"x");
        let set = change(&mut client, &file, setxattr(EITHER, b"a", b"y")).await;
        assert_eq!(set, Err(Nfsstat4::Rofs));
        let removed = change(&mut client, &file, removexattr(b"a")).await;
        assert_eq!(removed, Err(Nfsstat4::Rofs));
        let told = may(&mut client, &file, OF_XATTRS).await;
        assert_eq!(told, (OF_XATTRS, ACCESS4_XAREAD | ACCESS4_XALIST));
        let mut older = Client::new(&served, 1, b"two").await;
        assert_eq!(xattr_support(&mut older, &file).await, None);
        let of_later = older.status(vec![putfh(&file), getxattr(b"a")]).await;
        assert_eq!(of_later, Nfsstat4::OpIllegal);
    });
}
