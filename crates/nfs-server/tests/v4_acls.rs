//! ACLs and the umask over NFSv4, on real files, against what the kernel makes of them.

mod support;

use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;

use nfs_client::Identity;
use nfs_io::Errno;
use nfs_io::faults::{Call, Fault, Rule};
use nfs_io::fs::{self, AclKind, Perms, PosixAcl};
use nfs_lab::held_fs::{self, HeldFs};
use nfs_lab::needs::{Need, missing};
use nfs_lab::{Engine, Mounted};
use nfs_server::exports::Versions;
use nfs_server::exports::config::Access;
use nfs_wire::nfs4::ops::{
    ACCESS4_EXECUTE, ACCESS4_MODIFY, ACCESS4_READ, AccessArgs, CreateArgs, CreateVerfAttr,
    Createhow4, Createtype4, GetattrArgs, OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_ACCESS_WRITE,
    Openflag4, ReaddirArgs, SetattrArgs, VerifyArgs,
};
use nfs_wire::nfs4::{
    ACE4_APPEND_DATA, ACE4_DELETE_CHILD, ACE4_DIRECTORY_INHERIT_ACE, ACE4_EXECUTE,
    ACE4_FILE_INHERIT_ACE, ACE4_IDENTIFIER_GROUP, ACE4_READ_ACL, ACE4_READ_DATA, ACE4_WRITE_DATA,
    ArgOp, Attribute, Attributes, Bitmap4, Component4, FileHandle, Linktext4, ModeUmask4, Nfsace4,
    Nfsstat4, ResOp, Stateid4, Utf8str, Verifier4,
};
use support::v4::{Client, encoded, fattr, lookup, of_mode, open_args, putfh};
use support::{Served, block_on, skip};

const OWNER: u32 = 1000;
const FRIEND: u32 = 4711;
const STRANGER: u32 = 4712;
const TEAM: u32 = 77;

/// Serves a directory with the file `f` and the directory `d`, both of `OWNER`'s and for it alone.
fn serve() -> Served {
    let served = Served::with(|config| config.server.versions = Versions::ALL);
    std::fs::write(served.path().join("f"), "text").unwrap();
    std::fs::create_dir(served.path().join("d")).unwrap();
    for (name, mode) in [("f", 0o600), ("d", 0o700)] {
        let path = served.path().join(name);
        if support::is_root() {
            std::os::unix::fs::chown(&path, Some(OWNER), Some(OWNER)).unwrap();
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    served
}

fn cannot(served: &Served) -> bool {
    let has = fs::has_posix_acls(fs::open_dir(served.path()).unwrap().as_fd());
    !has || !support::is_root()
}

macro_rules! needs_acls {
    ($served:expr) => {
        if cannot(&$served) {
            skip!("acting for several users needs root, and a directory with ACLs");
        }
    };
}

/// What the kernel has of an object.
fn kept(served: &Served, name: &str, kind: AclKind) -> Option<PosixAcl> {
    let object = std::fs::File::open(served.path().join(name)).unwrap();
    fs::posix_acl(object.as_fd(), kind).unwrap()
}

fn mode(served: &Served, name: &str) -> u32 {
    let found = std::fs::symlink_metadata(served.path().join(name));
    found.unwrap().permissions().mode() & 0o7777
}

const R: u32 = ACE4_READ_DATA;
const W: u32 = ACE4_WRITE_DATA | ACE4_APPEND_DATA;
const X: u32 = ACE4_EXECUTE;
/// Without it a directory is not written.
const DELETE_CHILD: u32 = ACE4_DELETE_CHILD;
const INHERITED: u32 = ACE4_FILE_INHERIT_ACE | ACE4_DIRECTORY_INHERIT_ACE;

fn allow(who: &str, access_mask: u32) -> Nfsace4<'_> {
    Nfsace4 {
        acetype: 0,
        flag: 0,
        access_mask,
        who: Utf8str(who.as_bytes()),
    }
}

fn deny(who: &str, access_mask: u32) -> Nfsace4<'_> {
    Nfsace4 {
        acetype: 1,
        ..allow(who, access_mask)
    }
}

fn group(ace: Nfsace4<'_>) -> Nfsace4<'_> {
    Nfsace4 {
        flag: ace.flag | ACE4_IDENTIFIER_GROUP,
        ..ace
    }
}

fn of_acl(aces: &[Nfsace4<'_>]) -> (Bitmap4, Vec<u8>) {
    encoded(&Attributes {
        acl: Some(aces.to_vec()),
        ..Attributes::default()
    })
}

fn of_umask(mode: u32, umask: u32) -> (Bitmap4, Vec<u8>) {
    encoded(&Attributes {
        mode_umask: Some(ModeUmask4 { mode, umask }),
        ..Attributes::default()
    })
}

async fn set(client: &mut Client, object: &FileHandle, attrs: &(Bitmap4, Vec<u8>)) -> Nfsstat4 {
    let setattr = ArgOp::Setattr(SetattrArgs {
        stateid: Stateid4::ANONYMOUS,
        obj_attributes: fattr(attrs),
    });
    client.status(vec![putfh(object), setattr]).await
}

/// The ACL as `type:flags:who:mask`, in the words of nfs4_getfacl(1) but for the mask.
async fn get(client: &mut Client, object: &FileHandle) -> Result<Vec<String>, Nfsstat4> {
    let attr_request = Attribute::Acl.bit();
    let ops = vec![putfh(object), ArgOp::Getattr(GetattrArgs { attr_request })];
    client
        .call(ops, |status, results| match results {
            [_, ResOp::Getattr(Ok(ok))] => {
                let acl = ok.obj_attributes.decode_values().unwrap().acl;
                let aces = acl.unwrap_or_default().into_iter().map(|ace| {
                    let kind = if ace.acetype == 0 { 'A' } else { 'D' };
                    let who = String::from_utf8(ace.who.0.to_vec()).unwrap();
                    let mask = ace.access_mask & (R | W | X);
                    format!("{kind}:{:#x}:{who}:{mask:#x}", ace.flag)
                });
                Ok(aces.collect())
            }
            _ => Err(status),
        })
        .await
}

async fn attributes<T>(
    client: &mut Client,
    object: &FileHandle,
    asked: &[Attribute],
    look: impl FnOnce(Attributes<'_>) -> T,
) -> T {
    let attr_request = asked.iter().map(|it| it.number()).collect();
    let ops = vec![putfh(object), ArgOp::Getattr(GetattrArgs { attr_request })];
    client
        .call(ops, |_, results| match results {
            [_, ResOp::Getattr(Ok(ok))] => look(ok.obj_attributes.decode_values().unwrap()),
            other => panic!("{other:?}"),
        })
        .await
}

async fn may(client: &mut Client, object: &FileHandle) -> u32 {
    let access = ACCESS4_READ | ACCESS4_MODIFY | ACCESS4_EXECUTE;
    let access = ArgOp::Access(AccessArgs { access });
    client
        .call(vec![putfh(object), access], |_, results| match results {
            [_, ResOp::Access(Ok(ok))] => ok.access,
            other => panic!("{other:?}"),
        })
        .await
}

async fn open(client: &mut Client, dir: &FileHandle, access: u32) -> Result<(), Nfsstat4> {
    let opened = client.open(dir, open_args(b"f", access, Openflag4::Nocreate));
    opened.await.map(drop)
}

/// Serves an empty tmpfs, which keeps longer ACLs than file systems on disks do.
fn on_tmpfs() -> Option<(Served, Mounted)> {
    let files = support::scratch(0o755);
    let point = files.path().join("t");
    let mounted = Mounted::tmpfs(4, &point).ok()?;
    let served = Served::over(files, None, |config| {
        config.server.versions = Versions::ALL;
        config.exports[0].path = point;
    });
    Some((served, mounted))
}

async fn of_user(served: &Served, name: &[u8], user: u32, groups: &[u32]) -> Client {
    Client::of(served, 2, name, Identity::sys(user, user, groups)).await
}

#[test]
fn an_acl_lets_others_do_what_it_says_and_no_more() {
    let served = serve();
    needs_acls!(served);
    block_on(async {
        let mut owner = of_user(&served, b"owner", OWNER, &[]).await;
        let mut friend = of_user(&served, b"friend", FRIEND, &[]).await;
        let mut member = of_user(&served, b"member", STRANGER, &[TEAM]).await;
        let mut stranger = of_user(&served, b"stranger", STRANGER, &[]).await;
        let root = owner.root().await;
        let file = owner.handle(vec![putfh(&root), lookup(b"f")]).await;
        for client in [&mut friend, &mut member, &mut stranger] {
            assert_eq!(may(client, &file).await, 0);
        }
        let acl = [
            allow("OWNER@", R | W),
            allow("4711", R),
            deny("GROUP@", R | W | X),
            group(allow("77", R | W)),
            allow("EVERYONE@", 0),
        ];
        assert_eq!(set(&mut owner, &file, &of_acl(&acl)).await, Nfsstat4::Ok);
        let expected = PosixAcl {
            users: vec![(FRIEND, Perms::READ)],
            groups: vec![(TEAM, Perms::NONE)],
            mask: Some(Perms::READ),
            ..PosixAcl::of_mode(0o600)
        };
        // Who is in the team may be in the owner's group, which is denied all before the team is allowed anything.
        assert_eq!(kept(&served, "f", AclKind::Access), Some(expected));
        assert_eq!(may(&mut member, &file).await, 0);

        let acl = [
            allow("OWNER@", R | W),
            allow("4711", R),
            group(allow("77", R | W)),
        ];
        assert_eq!(set(&mut owner, &file, &of_acl(&acl)).await, Nfsstat4::Ok);
        assert_eq!(may(&mut friend, &file).await, ACCESS4_READ);
        let both = ACCESS4_READ | ACCESS4_MODIFY;
        assert_eq!(may(&mut member, &file).await, both);
        assert_eq!(may(&mut stranger, &file).await, 0);
        let (reads, writes) = (OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_ACCESS_WRITE);
        let refused = Err(Nfsstat4::Access);
        assert_eq!(open(&mut friend, &root, reads).await, Ok(()));
        assert_eq!(open(&mut friend, &root, writes).await, refused);
        assert_eq!(open(&mut member, &root, writes).await, Ok(()));
        assert_eq!(open(&mut stranger, &root, reads).await, refused);
        // Its mode has the mask in the group's place, and to set that narrows what the ACL lets do.
        assert_eq!(mode(&served, "f"), 0o660);
        assert_eq!(set(&mut owner, &file, &of_mode(0o600)).await, Nfsstat4::Ok);
        assert_eq!(may(&mut friend, &file).await, 0);
        assert_eq!(may(&mut member, &file).await, 0);
        // Only the owner sets it, be it as generous as it likes.
        let acl = of_acl(&[allow("EVERYONE@", R | W | X)]);
        assert_eq!(set(&mut friend, &file, &acl).await, Nfsstat4::Perm);
        assert_eq!(may(&mut friend, &file).await, 0);
    });
}

#[test]
fn what_was_set_on_the_server_is_told_and_both_are_the_same_to_the_kernel() {
    let served = serve();
    needs_acls!(served);
    let object = std::fs::File::open(served.path().join("f")).unwrap();
    block_on(async {
        let mut client = Client::new(&served, 1, b"one").await;
        let root = client.root().await;
        let file = client.handle(vec![putfh(&root), lookup(b"f")]).await;
        let told = get(&mut client, &file).await.unwrap();
        let of_mode = [
            "A:0x0:OWNER@:0x7",
            "A:0x0:GROUP@:0x0",
            "A:0x0:EVERYONE@:0x0",
        ];
        assert_eq!(told, of_mode);
        let acl = PosixAcl {
            users: vec![(FRIEND, Perms::NONE)],
            groups: vec![(TEAM, Perms::READ)],
            mask: Some(Perms::READ),
            ..PosixAcl::of_mode(0o640)
        };
        fs::set_posix_acl(object.as_fd(), AclKind::Access, Some(&acl)).unwrap();
        let told = get(&mut client, &file).await.unwrap();
        let expected = [
            "A:0x0:OWNER@:0x7",
            "D:0x0:4711:0x1",
            "A:0x0:4711:0x0",
            "A:0x0:GROUP@:0x1",
            "A:0x40:77:0x1",
            "A:0x0:EVERYONE@:0x0",
        ];
        assert_eq!(told, expected);
        let asked = [Attribute::Aclsupport, Attribute::SupportedAttrs];
        let (support, supported) = attributes(&mut client, &file, &asked, |values| {
            (values.aclsupport, values.supported_attrs.unwrap())
        })
        .await;
        assert_eq!(support, Some(3));
        assert!(supported.contains(Attribute::Acl.number()));
        assert!(!supported.contains(Attribute::ModeUmask.number()));
        // The ACL can be compared, and what is told can be set again.
        let attr_request = Attribute::Acl.bit();
        let ops = vec![putfh(&file), ArgOp::Getattr(GetattrArgs { attr_request })];
        let own = client
            .call(ops, |_, results| match results {
                [_, ResOp::Getattr(Ok(ok))] => {
                    let attributes = ok.obj_attributes;
                    (attributes.attrmask, attributes.attr_vals.0.to_vec())
                }
                other => panic!("{other:?}"),
            })
            .await;
        let verify = |attrs| {
            let obj_attributes = fattr(attrs);
            ArgOp::Verify(VerifyArgs { obj_attributes })
        };
        client.ok(vec![putfh(&file), verify(&own)]).await;
        let other = of_acl(&[allow("OWNER@", R)]);
        let not_same = client.status(vec![putfh(&file), verify(&other)]).await;
        assert_eq!(not_same, Nfsstat4::NotSame);
        assert_eq!(set(&mut client, &file, &own).await, Nfsstat4::Ok);
        assert_eq!(kept(&served, "f", AclKind::Access), Some(acl));
    });
}

#[test]
fn what_cannot_be_kept_is_refused_and_nothing_changes() {
    let served = serve();
    needs_acls!(served);
    block_on(async {
        let mut client = Client::new(&served, 2, b"one").await;
        let root = client.root().await;
        let file = client.handle(vec![putfh(&root), lookup(b"f")]).await;
        let numbers: Vec<String> = (0..1025u32).map(|id| id.to_string()).collect();
        let many: Vec<_> = numbers.iter().map(|id| allow(id, R)).collect();
        let inherited = Nfsace4 {
            flag: INHERITED,
            ..allow("EVERYONE@", R)
        };
        let audit = Nfsace4 {
            acetype: 2,
            ..allow("EVERYONE@", R)
        };
        for (aces, expected) in [
            (&[allow("root", R)][..], Nfsstat4::Badowner),
            (&[allow("alice@example.org", R)], Nfsstat4::Badowner),
            (&[allow("", R)], Nfsstat4::Badowner),
            (&[allow("00000000001", R)], Nfsstat4::Badowner),
            (&[audit], Nfsstat4::Attrnotsupp),
            (&[inherited], Nfsstat4::Attrnotsupp),
            (&[deny("EVERYONE@", ACE4_READ_ACL)], Nfsstat4::Attrnotsupp),
            (&many, Nfsstat4::Fbig),
        ] {
            let answered = set(&mut client, &file, &of_acl(aces)).await;
            assert_eq!(answered, expected, "{:?}", aces.first());
        }
        assert_eq!(mode(&served, "f"), 0o600);
        assert_eq!(kept(&served, "f", AclKind::Access), None);
        let link = CreateArgs {
            objtype: Createtype4::Lnk(Linktext4(b"f")),
            objname: Component4(b"l"),
            createattrs: support::v4::NO_ATTRIBUTES,
        };
        let link = client.handle(vec![putfh(&root), ArgOp::Create(link)]).await;
        let answered = set(&mut client, &link, &of_acl(&[allow("OWNER@", R)])).await;
        assert_eq!(answered, Nfsstat4::Attrnotsupp);
        let told = get(&mut client, &link).await.unwrap();
        assert_eq!(told.len(), 3, "as its mode says: {told:?}");
        for attribute in [Attribute::Dacl, Attribute::Sacl] {
            let acl = Some(nfs_wire::nfs4::Nfsacl41::default());
            let values = match attribute {
                Attribute::Dacl => Attributes {
                    dacl: acl,
                    ..Attributes::default()
                },
                _ => Attributes {
                    sacl: acl,
                    ..Attributes::default()
                },
            };
            let answered = set(&mut client, &file, &encoded(&values)).await;
            assert_eq!(answered, Nfsstat4::Attrnotsupp);
        }
        // A listing does not tell ACLs.
        let readdir = ArgOp::Readdir(ReaddirArgs {
            cookie: 0,
            cookieverf: Verifier4::default(),
            dircount: 4096,
            maxcount: 4096,
            attr_request: Attribute::Acl.bit().or(&Attribute::Fileid.bit()),
        });
        let listed = client.call(vec![putfh(&root), readdir], |_, results| match results {
            [_, ResOp::Readdir(Ok(ok))] => {
                let mut entries = ok.entries.iter();
                entries.all(|entry| entry.attrs.attrmask == Attribute::Fileid.bit())
            }
            other => panic!("{other:?}"),
        });
        assert!(listed.await);
    });
}

#[test]
fn what_was_set_can_be_read_even_if_it_is_the_longest() {
    let Some((served, mounted)) = on_tmpfs() else {
        skip!("mounting needs root");
    };
    block_on(async {
        let mut client = Client::new(&served, 2, b"one").await;
        let root = client.root().await;
        let numbers: Vec<String> = (1..=1024u32).map(|id| id.to_string()).collect();
        let aces = numbers.iter().map(|id| Nfsace4 {
            flag: INHERITED,
            ..allow(id, R)
        });
        let longest = of_acl(&aces.collect::<Vec<_>>());
        assert_eq!(set(&mut client, &root, &longest).await, Nfsstat4::Ok);
        let told = get(&mut client, &root).await.unwrap();
        // The owner is denied what the users are allowed, and then allowed nothing, as its group and all others are.
        assert_eq!(told.len(), 2 * (1024 + 4), "{:?}", told.first());
        // One more, by somebody on the server, is too long to be told.
        let directory = fs::open_dir(&served.path().join("t")).unwrap();
        let mut acl = fs::posix_acl(directory.as_fd(), AclKind::Access)
            .unwrap()
            .unwrap();
        acl.users.push((5000, Perms::READ));
        let bytes = acl.to_xattr();
        let path = served.path().join("t");
        let flags = fs::XattrFlags::empty();
        rustix::fs::setxattr(&path, "system.posix_acl_access", &bytes, flags).unwrap();
        assert_eq!(get(&mut client, &root).await, Err(Nfsstat4::RepTooBig));
        // An ACL that is shorter takes its place.
        let short = of_acl(&[allow("OWNER@", R | W | X)]);
        assert_eq!(set(&mut client, &root, &short).await, Nfsstat4::Ok);
        assert_eq!(get(&mut client, &root).await.unwrap().len(), 3);
    });
    let (files, _state) = served.stop();
    drop(mounted);
    drop(files);
}

#[test]
fn an_acl_that_is_not_on_stable_storage_is_not_acknowledged() {
    let served = serve();
    needs_acls!(served);
    block_on(async {
        let mut client = of_user(&served, b"one", OWNER, &[]).await;
        let root = client.root().await;
        for name in ["f", "d"] {
            let path = vec![putfh(&root), lookup(name.as_bytes())];
            let object = client.handle(path).await;
            let acl = of_acl(&[allow("OWNER@", R), allow("4711", R)]);
            let kept = std::fs::File::open(served.path().join(name)).unwrap();
            let rule = Rule::new(Call::Fsync, Fault::Fail(Errno::IO));
            let fails = rule.of_file(&kept).inject();
            assert_eq!(
                set(&mut client, &object, &acl).await,
                Nfsstat4::Io,
                "{name}"
            );
            assert_eq!(fails.hits(), 1, "{name}");
            drop(fails);
            assert_eq!(
                set(&mut client, &object, &acl).await,
                Nfsstat4::Ok,
                "{name}"
            );
        }
    });
}

/// How a client makes a file or a directory, each of a kind of its own.
#[derive(Clone, Copy, Debug)]
enum Making {
    Unchecked,
    Guarded,
    Exclusive,
    Directory,
}

const MAKING: [Making; 4] = [
    Making::Unchecked,
    Making::Guarded,
    Making::Exclusive,
    Making::Directory,
];

/// Makes an object of this name, and returns its handle and the attributes that it was told to have by then.
async fn make(
    client: &mut Client,
    dir: &FileHandle,
    (name, making): (&[u8], Making),
    attrs: &(Bitmap4, Vec<u8>),
) -> Result<(FileHandle, Bitmap4), Nfsstat4> {
    let attrs = fattr(attrs);
    let how = match making {
        Making::Unchecked => Createhow4::Unchecked(attrs),
        Making::Guarded => Createhow4::Guarded(attrs),
        Making::Exclusive | Making::Directory => Createhow4::Exclusive41(CreateVerfAttr {
            verf: Verifier4(*b"verifier"),
            attrs,
        }),
    };
    let op = match making {
        Making::Directory => ArgOp::Create(CreateArgs {
            objtype: Createtype4::Dir,
            objname: Component4(name),
            createattrs: attrs,
        }),
        _ => {
            let create = Openflag4::Create(how);
            ArgOp::Open(open_args(name, OPEN4_SHARE_ACCESS_WRITE, create))
        }
    };
    let ops = vec![putfh(dir), op, ArgOp::Getfh(())];
    client
        .call(ops, |status, results| match results {
            [_, ResOp::Open(Ok(ok)), ResOp::Getfh(Ok(fh))] => Ok((fh.object, ok.attrset)),
            [_, ResOp::Create(Ok(ok)), ResOp::Getfh(Ok(fh))] => Ok((fh.object, ok.attrset)),
            _ => Err(status),
        })
        .await
}

#[test]
fn the_umask_is_applied_unless_the_directory_has_a_default_acl() {
    let served = serve();
    needs_acls!(served);
    block_on(async {
        let mut client = of_user(&served, b"one", OWNER, &[]).await;
        let root = client.root().await;
        let dir = client.handle(vec![putfh(&root), lookup(b"d")]).await;
        let directory = fs::open_dir(&served.path().join("d")).unwrap();
        let acl = PosixAcl {
            users: vec![(FRIEND, Perms::READ.or(Perms::WRITE))],
            mask: Some(Perms::ALL),
            ..PosixAcl::of_mode(0o750)
        };
        let asked = Attribute::ModeUmask.bit();
        for (round, default, of_all, of_set_id) in [
            ("plain", None, 0o750, 0o4750),
            ("default", Some(&acl), 0o770, 0o4770),
        ] {
            fs::set_posix_acl(directory.as_fd(), AclKind::Default, default).unwrap();
            for making in MAKING {
                let name = format!("d/{round}-{making:?}");
                let umask = of_umask(0o777, 0o027);
                let of_name = (&name.as_bytes()[2..], making);
                let (_, set) = make(&mut client, &dir, of_name, &umask).await.unwrap();
                assert!(asked.is_within(&set), "{name}: {set:?}");
                assert_eq!(mode(&served, &name), of_all, "{name}");
                let expected = default.map(|acl| PosixAcl {
                    other: Perms::NONE,
                    ..acl.clone()
                });
                assert_eq!(kept(&served, &name, AclKind::Access), expected, "{name}");

                let name = format!("d/{round}-{making:?}-set-id");
                let of_name = (&name.as_bytes()[2..], making);
                let umask = of_umask(0o4777, 0o027);
                make(&mut client, &dir, of_name, &umask).await.unwrap();
                assert_eq!(mode(&served, &name), of_set_id, "{name}");
                // The mode alone: as with no umask.
                let name = format!("d/{round}-{making:?}-mode");
                let of_name = (&name.as_bytes()[2..], making);
                make(&mut client, &dir, of_name, &of_mode(0o757))
                    .await
                    .unwrap();
                let expected = if default.is_some() { 0o750 } else { 0o757 };
                assert_eq!(mode(&served, &name), expected, "{name}");
            }
        }
    });
}

#[test]
fn a_umask_belongs_to_what_is_made_and_to_no_mode_beside_it() {
    let served = serve();
    needs_acls!(served);
    block_on(async {
        let mut client = Client::new(&served, 2, b"one").await;
        let root = client.root().await;
        let file = client.handle(vec![putfh(&root), lookup(b"f")]).await;
        let umask = of_umask(0o666, 0o022);
        assert_eq!(set(&mut client, &file, &umask).await, Nfsstat4::Inval);
        let attr_request = Attribute::ModeUmask.bit();
        let ops = vec![putfh(&file), ArgOp::Getattr(GetattrArgs { attr_request })];
        assert_eq!(client.status(ops).await, Nfsstat4::Inval);
        let both = encoded(&Attributes {
            mode: Some(0o666),
            mode_umask: Some(ModeUmask4 {
                mode: 0o666,
                umask: 0,
            }),
            ..Attributes::default()
        });
        for attrs in [both, of_umask(0o666, 0o1000)] {
            for making in MAKING {
                let made = make(&mut client, &root, (b"x", making), &attrs).await;
                assert_eq!(made, Err(Nfsstat4::Inval), "{making:?}");
            }
        }
        assert!(!served.path().join("x").exists());
        // Minor version 1 has no such attribute.
        let mut older = Client::new(&served, 1, b"two").await;
        let made = make(&mut older, &root, (b"x", Making::Guarded), &umask).await;
        assert_eq!(made, Err(Nfsstat4::Attrnotsupp));
        let asked = [Attribute::SupportedAttrs, Attribute::SuppattrExclcreat];
        attributes(&mut client, &file, &asked, |values| {
            for set in [values.supported_attrs, values.suppattr_exclcreat] {
                assert!(set.unwrap().contains(Attribute::ModeUmask.number()));
            }
        })
        .await;
    });
}

#[test]
fn an_object_is_made_with_its_acl() {
    let served = serve();
    needs_acls!(served);
    block_on(async {
        let mut client = of_user(&served, b"one", OWNER, &[]).await;
        let mut friend = of_user(&served, b"friend", FRIEND, &[]).await;
        let root = client.root().await;
        let dir = client.handle(vec![putfh(&root), lookup(b"d")]).await;
        let acl = of_acl(&[allow("OWNER@", R | W | X | DELETE_CHILD), allow("4711", R)]);
        for making in MAKING {
            let name = format!("{making:?}");
            let of_name = (name.as_bytes(), making);
            let (made, set) = make(&mut client, &dir, of_name, &acl).await.unwrap();
            assert!(set.contains(Attribute::Acl.number()));
            let expected = PosixAcl {
                users: vec![(FRIEND, Perms::READ)],
                mask: Some(Perms::READ),
                ..PosixAcl::of_mode(0o700)
            };
            let name = format!("d/{making:?}");
            assert_eq!(kept(&served, &name, AclKind::Access), Some(expected));
            assert_eq!(may(&mut friend, &made).await, ACCESS4_READ);
            // An ACL that cannot be taken makes nothing.
            let bad = of_acl(&[allow("alice@example.org", R)]);
            let refused = make(&mut client, &dir, (b"bad", making), &bad).await;
            assert_eq!(refused, Err(Nfsstat4::Badowner));
        }
        // What is there keeps its own.
        let again = (&b"Unchecked"[..], Making::Unchecked);
        let all = of_acl(&[allow("EVERYONE@", R | W)]);
        let (found, set) = make(&mut client, &dir, again, &all).await.unwrap();
        assert_eq!(set, Bitmap4::EMPTY);
        assert_eq!(may(&mut friend, &found).await, ACCESS4_READ);
        // A symbolic link has none: it is made, and told not to have it.
        let link = CreateArgs {
            objtype: Createtype4::Lnk(Linktext4(b"f")),
            objname: Component4(b"l"),
            createattrs: fattr(&acl),
        };
        let set = client.call(
            vec![putfh(&dir), ArgOp::Create(link)],
            |_, results| match results {
                [_, ResOp::Create(Ok(ok))] => ok.attrset,
                other => panic!("{other:?}"),
            },
        );
        assert_eq!(set.await, Bitmap4::EMPTY);
        assert!(!served.path().join("d/bad").exists());
        // One that the file system has no room for is told to be missing, and the mode that was to go with it.
        let numbers: Vec<String> = (0..1000u32).map(|id| (9000 + id).to_string()).collect();
        let too_long = encoded(&Attributes {
            mode: Some(0o640),
            acl: Some(numbers.iter().map(|id| allow(id, R)).collect()),
            ..Attributes::default()
        });
        let of_name = (&b"long"[..], Making::Guarded);
        let (_, set) = make(&mut client, &dir, of_name, &too_long).await.unwrap();
        if kept(&served, "d/long", AclKind::Access).is_some() {
            skip!("a file system that keeps no ACL of 1000 entries, as ext4");
        }
        assert_eq!(set, Bitmap4::EMPTY);
        assert_eq!(mode(&served, "d/long") & 0o077, 0);
    });
}

#[test]
fn a_directory_passes_its_entries_on() {
    let served = serve();
    needs_acls!(served);
    block_on(async {
        let mut client = of_user(&served, b"one", OWNER, &[]).await;
        let mut friend = of_user(&served, b"friend", FRIEND, &[]).await;
        let root = client.root().await;
        let dir = client.handle(vec![putfh(&root), lookup(b"d")]).await;
        let passed_on = Nfsace4 {
            flag: INHERITED,
            ..allow("4711", R | X)
        };
        let acl = of_acl(&[allow("OWNER@", R | W | X | DELETE_CHILD), passed_on]);
        assert_eq!(set(&mut client, &dir, &acl).await, Nfsstat4::Ok);
        let expected = PosixAcl {
            users: vec![(FRIEND, Perms::READ.or(Perms::EXECUTE))],
            mask: Some(Perms::READ.or(Perms::EXECUTE)),
            ..PosixAcl::of_mode(0o700)
        };
        for kind in [AclKind::Access, AclKind::Default] {
            assert_eq!(kept(&served, "d", kind), Some(expected.clone()), "{kind:?}");
        }
        let told = get(&mut client, &dir).await.unwrap();
        let expected = [
            "A:0x0:OWNER@:0x27",
            "A:0x0:4711:0x21",
            "A:0x0:GROUP@:0x0",
            "A:0x0:EVERYONE@:0x0",
            "A:0xb:OWNER@:0x27",
            "A:0xb:4711:0x21",
            "A:0xb:GROUP@:0x0",
            "A:0xb:EVERYONE@:0x0",
        ];
        assert_eq!(told, expected);
        let umask = of_umask(0o666, 0o077);
        let of_name = (&b"new"[..], Making::Guarded);
        let (made, _) = make(&mut client, &dir, of_name, &umask).await.unwrap();
        assert_eq!(may(&mut friend, &made).await, ACCESS4_READ);
        assert_eq!(mode(&served, "d/new"), 0o640);
        // An ACL without entries that pass on takes the default ACL away.
        let acl = of_acl(&[allow("OWNER@", R | W | X | DELETE_CHILD)]);
        assert_eq!(set(&mut client, &dir, &acl).await, Nfsstat4::Ok);
        assert_eq!(kept(&served, "d", AclKind::Default), None);
        let of_name = (&b"later"[..], Making::Guarded);
        let (made, _) = make(&mut client, &dir, of_name, &umask).await.unwrap();
        assert_eq!(may(&mut friend, &made).await, 0);
    });
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
    needs_acls!(served);
    block_on(async {
        let mut client = Client::new(&served, 2, b"one").await;
        let above = client.root().await;
        let asked = [Attribute::Aclsupport, Attribute::SupportedAttrs];
        let told = attributes(&mut client, &above, &asked, |values| {
            let supported = values.supported_attrs.unwrap();
            (
                values.aclsupport,
                supported.contains(Attribute::Acl.number()),
            )
        });
        assert_eq!(told.await, (Some(0), false));
        assert_eq!(get(&mut client, &above).await, Ok(vec![]));
        let data = client.handle(vec![putfh(&above), lookup(b"data")]).await;
        let acl = of_acl(&[allow("EVERYONE@", R)]);
        for object in [&above, &data] {
            assert_eq!(set(&mut client, object, &acl).await, Nfsstat4::Rofs);
        }
        assert_eq!(get(&mut client, &data).await.unwrap().len(), 3);
    });
}

/// Of FUSE the kernel says that it has ACLs, whether its server has or not.
#[test]
fn a_file_system_that_takes_no_acls_says_so_when_it_is_given_one() {
    for need in [Need::Root, Need::Fuse] {
        if let Some(missing) = missing(need, Engine::Threads) {
            return nfs_lab::skipped(&missing);
        }
    }
    let files = support::scratch(0o755);
    let held = HeldFs::mount(files.path(), vec![1; 4096]).unwrap();
    let served = Served::over(files, None, |config| config.server.versions = Versions::ALL);
    block_on(async {
        let mut client = Client::new(&served, 2, b"one").await;
        let root = client.root().await;
        let name = held_fs::FILE.as_bytes();
        let file = client.handle(vec![putfh(&root), lookup(name)]).await;
        let told = get(&mut client, &file).await.unwrap();
        assert_eq!(told.len(), 3, "as its mode says: {told:?}");
        let acl = of_acl(&[allow("OWNER@", R), allow("4711", R)]);
        let answered = set(&mut client, &file, &acl).await;
        assert_eq!(answered, Nfsstat4::Attrnotsupp);
        let of_name = (&b"made"[..], Making::Guarded);
        let (_, set) = make(&mut client, &root, of_name, &acl).await.unwrap();
        assert_eq!(set, Bitmap4::EMPTY);
    });
    let kept = served.stop();
    drop(held);
    drop(kept);
}
