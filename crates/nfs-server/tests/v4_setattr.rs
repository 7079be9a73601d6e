//! What SETATTR over NFSv4 tells of the attributes that are set, when it fails and when it does not (RFC 8881 §18.30).

mod support;

use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};

use nfs_client::Identity;
use nfs_io::fs;
use nfs_server::exports::Versions;
use nfs_wire::nfs4::ops::SetattrArgs;
use nfs_wire::nfs4::{
    ACE4_READ_DATA, ArgOp, Attribute, Attributes, Bitmap4, FileHandle, Nfsace4, Nfsstat4, ResOp,
    Stateid4, Utf8str,
};
use support::v4::{Client, encoded, fattr, lookup, putfh};
use support::{Served, block_on, skip};

const OWNER: u32 = 1000;

/// Serves a directory with the file `f`, which is `OWNER`'s; `None` where nobody can act for him.
fn serve() -> Option<Served> {
    let served = Served::with(|config| config.server.versions = Versions::ALL);
    let path = served.path().join("f");
    std::fs::write(&path, "12345678").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    chown(&path, Some(OWNER), Some(OWNER)).ok()?;
    Some(served)
}

/// The owner's client, and the file.
async fn owners(served: &Served) -> (Client, FileHandle) {
    let identity = Identity::sys(OWNER, OWNER, &[]);
    let mut client = Client::of(served, 2, b"one", identity).await;
    let root = client.root().await;
    let file = client.handle(vec![putfh(&root), lookup(b"f")]).await;
    (client, file)
}

/// The status of a SETATTR and the attributes that it tells to be set.
async fn told(
    client: &mut Client,
    object: &FileHandle,
    wanted: &Attributes<'_>,
) -> (Nfsstat4, Bitmap4) {
    let attributes = encoded(wanted);
    let setattr = ArgOp::Setattr(SetattrArgs {
        stateid: Stateid4::ANONYMOUS,
        obj_attributes: fattr(&attributes),
    });
    let ops = vec![putfh(object), setattr];
    let told = client.call(ops, |_, results| match results {
        [_, ResOp::Setattr(told)] => (told.status, told.attrsset),
        other => panic!("{other:?}"),
    });
    told.await
}

fn may_read(who: &str) -> Nfsace4<'_> {
    Nfsace4 {
        acetype: 0,
        flag: 0,
        access_mask: ACE4_READ_DATA,
        who: Utf8str(who.as_bytes()),
    }
}

#[test]
fn what_was_set_before_a_failure_is_told() {
    let Some(served) = serve() else {
        skip!("acting for several users needs root");
    };
    block_on(async {
        let (mut client, file) = owners(&served).await;
        // A user may cut the file that is his, and not give it away.
        let size_and_owner = Attributes {
            size: Some(3),
            owner: Some(Utf8str(b"0")),
            mode: Some(0o640),
            ..Attributes::default()
        };
        let set = told(&mut client, &file, &size_and_owner).await;
        assert_eq!(set, (Nfsstat4::Perm, Attribute::Size.bit()));
        let metadata = served.path().join("f").metadata().unwrap();
        assert_eq!((metadata.len(), metadata.mode() & 0o7777), (3, 0o600));
        // What is refused before anything is done.
        let no_such_owner = Attributes {
            owner: Some(Utf8str(b"somebody")),
            ..Attributes::default()
        };
        let set = told(&mut client, &file, &no_such_owner).await;
        assert_eq!(set, (Nfsstat4::Badowner, Bitmap4::EMPTY));
    });
}

#[test]
fn a_mode_stays_and_is_told_when_the_acl_beside_it_is_refused() {
    let Some(served) = serve() else {
        skip!("acting for several users needs root");
    };
    let path = served.path().join("f");
    if !fs::has_posix_acls(fs::open_dir(served.path()).unwrap().as_fd()) {
        skip!("a file system with ACLs");
    }
    block_on(async {
        let (mut client, file) = owners(&served).await;
        let numbers: Vec<String> = (0..1000u32).map(|id| (9000 + id).to_string()).collect();
        let too_long = Attributes {
            mode: Some(0o640),
            acl: Some(numbers.iter().map(|id| may_read(id)).collect()),
            ..Attributes::default()
        };
        let set = told(&mut client, &file, &too_long).await;
        if set.0 == Nfsstat4::Ok {
            skip!("a file system that keeps no ACL of 1000 entries, as ext4");
        }
        assert_eq!(set, (Nfsstat4::Nospc, Attribute::Mode.bit()));
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o640);
        let fits = Attributes {
            mode: Some(0o600),
            acl: Some(vec![may_read("OWNER@")]),
            ..Attributes::default()
        };
        let both = Attribute::Mode.bit().or(&Attribute::Acl.bit());
        assert_eq!(told(&mut client, &file, &fits).await, (Nfsstat4::Ok, both));
    });
}
