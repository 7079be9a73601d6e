//! Owners by name over NFSv4 (RFC 8881 §5.9): sent where the machine's user database has a name, taken where it has a
//! number.

mod support;

use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, chown};

use nfs_client::Identity;
use nfs_io::{accounts, fs};
use nfs_server::exports::Versions;
use nfs_wire::nfs4::ops::{CreateArgs, Createtype4, GetattrArgs, ReaddirArgs, SetattrArgs};
use nfs_wire::nfs4::{
    ACE4_READ_DATA, ArgOp, Attribute, Attributes, Component4, FileHandle, Nfsace4, Nfsstat4, ResOp,
    Stateid4, Utf8str, Verifier4,
};
use support::v4::{Client, encoded, fattr, lookup, putfh};
use support::{Served, block_on, is_root, skip};

const NOBODYS: u32 = 4_000_000_123;

fn serve(domain: Option<&str>) -> Served {
    Served::with(|config| {
        config.server.versions = Versions::ALL;
        config.server.idmap_domain = domain.map(str::to_owned);
    })
}

/// A user and a group that this machine knows besides the superuser, by number and name.
fn known() -> ((u32, String), (u32, String)) {
    let name = |name: Option<Vec<u8>>| String::from_utf8(name.unwrap()).unwrap();
    let user = name(accounts::user_name(1).unwrap());
    let group = name(accounts::group_name(2).unwrap());
    ((1, user), (2, group))
}

async fn root_and_file(served: &Served) -> (Client, FileHandle, FileHandle) {
    let mut client = Client::of(served, 2, b"one", Identity::sys(0, 0, &[])).await;
    let root = client.root().await;
    let file = client.handle(vec![putfh(&root), lookup(b"f")]).await;
    (client, root, file)
}

/// Owner and group of an object as they are sent.
async fn owners(client: &mut Client, object: &FileHandle) -> (String, String) {
    let asked = [Attribute::Owner, Attribute::OwnerGroup];
    let attr_request = asked.iter().map(|it| it.number()).collect();
    let ops = vec![putfh(object), ArgOp::Getattr(GetattrArgs { attr_request })];
    let told = client.call(ops, |status, results| match results {
        [_, ResOp::Getattr(Ok(ok))] => {
            let values = ok.obj_attributes.decode_values().unwrap();
            (text(values.owner), text(values.owner_group))
        }
        _ => panic!("{status}: {results:?}"),
    });
    told.await
}

fn text(name: Option<Utf8str<'_>>) -> String {
    String::from_utf8(name.unwrap().0.to_vec()).unwrap()
}

async fn set(client: &mut Client, object: &FileHandle, values: &Attributes<'_>) -> Nfsstat4 {
    let attributes = encoded(values);
    let setattr = ArgOp::Setattr(SetattrArgs {
        stateid: Stateid4::ANONYMOUS,
        obj_attributes: fattr(&attributes),
    });
    client.status(vec![putfh(object), setattr]).await
}

async fn set_owner(client: &mut Client, object: &FileHandle, owner: &[u8]) -> Nfsstat4 {
    let owner = Attributes {
        owner: Some(Utf8str(owner)),
        ..Attributes::default()
    };
    set(client, object, &owner).await
}

#[test]
fn names_are_sent_where_there_are_some_and_numbers_elsewhere() {
    if !is_root() {
        skip!("giving files away needs root");
    }
    let ((uid, user), (gid, group)) = known();
    let domain = format!("{user}@example.org");
    for (served, of_user) in [
        (serve(Some("example.org")), domain.as_str()),
        (serve(None), "1"),
    ] {
        let path = served.path().join("f");
        std::fs::write(&path, "").unwrap();
        chown(&path, Some(uid), Some(NOBODYS)).unwrap();
        block_on(async {
            let (mut client, root, file) = root_and_file(&served).await;
            let expected = (of_user.to_owned(), NOBODYS.to_string());
            assert_eq!(owners(&mut client, &file).await, expected);
            chown(&path, Some(NOBODYS), Some(gid)).unwrap();
            let has_names = served.config.server.idmap_domain.is_some();
            let of_group = if has_names {
                format!("{group}@example.org")
            } else {
                gid.to_string()
            };
            let expected = (NOBODYS.to_string(), of_group.clone());
            assert_eq!(owners(&mut client, &file).await, expected);
            let readdir = ArgOp::Readdir(ReaddirArgs {
                cookie: 0,
                cookieverf: Verifier4::default(),
                dircount: 4096,
                maxcount: 4096,
                attr_request: Attribute::OwnerGroup.bit(),
            });
            let listed = client.call(vec![putfh(&root), readdir], |status, results| {
                let [_, ResOp::Readdir(Ok(ok))] = results else {
                    panic!("{status}: {results:?}")
                };
                let group = |entry: &nfs_wire::nfs4::ops::Entry4<'_>| {
                    text(entry.attrs.decode_values().unwrap().owner_group)
                };
                ok.entries.iter().map(group).collect::<Vec<_>>()
            });
            assert_eq!(listed.await, [of_group]);
        });
    }
}

#[test]
fn names_of_the_domain_and_numbers_are_taken() {
    if !is_root() {
        skip!("giving files away needs root");
    }
    let ((uid, user), (gid, group)) = known();
    let served = serve(Some("example.org"));
    let path = served.path().join("f");
    std::fs::write(&path, "").unwrap();
    block_on(async {
        let (mut client, root, file) = root_and_file(&served).await;
        let both = format!("{user}@Example.ORG");
        let of_group = format!("{group}@example.org");
        let values = Attributes {
            owner: Some(Utf8str(both.as_bytes())),
            owner_group: Some(Utf8str(of_group.as_bytes())),
            ..Attributes::default()
        };
        assert_eq!(set(&mut client, &file, &values).await, Nfsstat4::Ok);
        let metadata = path.metadata().unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (uid, gid));
        assert_eq!(set_owner(&mut client, &file, b"7").await, Nfsstat4::Ok);
        assert_eq!(path.metadata().unwrap().uid(), 7);
        let long = [&[b'a'; 1024][..], b"@example.org"].concat();
        let plain = user.as_bytes();
        let foreign = format!("{user}@example.com");
        for owner in [
            plain,
            foreign.as_bytes(),
            b"no such user@example.org",
            // Nobody is called so, whoever has the number.
            b"0@example.org",
            b"root\0@example.org",
            b"root\n@example.org",
            b"root@example.org@example.org",
            b"@example.org",
            b"",
            &long,
        ] {
            let status = set_owner(&mut client, &file, owner).await;
            assert_eq!(status, Nfsstat4::Badowner, "{owner:?}");
        }
        assert_eq!(path.metadata().unwrap().uid(), 7);
        let values = encoded(&Attributes {
            owner: Some(Utf8str(both.as_bytes())),
            mode: Some(0o700),
            ..Attributes::default()
        });
        let create = ArgOp::Create(CreateArgs {
            objtype: Createtype4::Dir,
            objname: Component4(b"d"),
            createattrs: fattr(&values),
        });
        client.ok(vec![putfh(&root), create]).await;
        assert_eq!(served.path().join("d").metadata().unwrap().uid(), uid);
    });
}

#[test]
fn entries_of_an_acl_have_names() {
    let served = serve(Some("example.org"));
    if !fs::has_posix_acls(fs::open_dir(served.path()).unwrap().as_fd()) {
        skip!("a file system with ACLs");
    }
    let ((_, user), (_, group)) = known();
    std::fs::write(served.path().join("f"), "").unwrap();
    block_on(async {
        let (mut client, _root, file) = root_and_file(&served).await;
        let names = [
            (format!("{user}@example.org"), 0),
            (format!("{group}@example.org"), 0x40),
            (NOBODYS.to_string(), 0),
        ];
        let ace = |(who, flag): &(String, u32)| (who.clone(), *flag);
        let mut sent: Vec<(String, u32)> = names.iter().map(ace).collect();
        let acl = |sent: &[(String, u32)]| -> Vec<(u32, Vec<u8>)> {
            let who = |(who, flag): &(String, u32)| (*flag, who.clone().into_bytes());
            sent.iter().map(who).collect()
        };
        let given = acl(&sent);
        let aces: Vec<Nfsace4<'_>> = given.iter().map(|(flag, who)| reads(*flag, who)).collect();
        let values = Attributes {
            acl: Some(aces),
            ..Attributes::default()
        };
        assert_eq!(set(&mut client, &file, &values).await, Nfsstat4::Ok);
        let asked = ArgOp::Getattr(GetattrArgs {
            attr_request: Attribute::Acl.bit(),
        });
        let told = client.call(vec![putfh(&file), asked], |status, results| {
            let [_, ResOp::Getattr(Ok(ok))] = results else {
                panic!("{status}: {results:?}")
            };
            let aces = ok.obj_attributes.decode_values().unwrap().acl.unwrap();
            let reads = aces.iter().filter(|ace| {
                let is_special = ace.who.0.ends_with(b"@");
                !is_special && ace.access_mask & ACE4_READ_DATA != 0
            });
            let told = reads.map(|ace| (text(Some(ace.who)), ace.flag));
            told.collect::<std::collections::BTreeSet<_>>()
        });
        sent.sort();
        assert_eq!(told.await.into_iter().collect::<Vec<_>>(), sent);
        let unknown = Attributes {
            acl: Some(vec![reads(0, b"no such user@example.org")]),
            ..Attributes::default()
        };
        assert_eq!(set(&mut client, &file, &unknown).await, Nfsstat4::Badowner);
    });
}

fn reads(flag: u32, who: &[u8]) -> Nfsace4<'_> {
    Nfsace4 {
        acetype: 0,
        flag,
        access_mask: ACE4_READ_DATA,
        who: Utf8str(who),
    }
}
