//! SETATTR alone, of files with much data that nobody committed, and of a symbolic link: its reply does not wait
//! for that data, and the power goes before anything else is synced. One change in each round, as whatever is
//! synced later would carry along what was forgotten.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use nfs_client::Nfs3;
use nfs_lab::{FsKind, LoopFs, Server, ServerOptions, pattern};
use nfs_wire::nfs3::{CreateHow, FileHandle, Nfstime3, Sattr3, SetTime, StableHow};
use nfs_wire::nfs4::ops::{
    CreateArgs, Createhow4, Createtype4, LookupArgs, OpenArgs, OpenClaim4, Openflag4,
    ReclaimCompleteArgs, SetattrArgs,
};
use nfs_wire::nfs4::{
    ACE4_READ_DATA, ArgOp, Attributes, Component4, Fattr4, Nfsace4, Nfsstat4, Opaque4, StateOwner4,
    Stateid4, Utf8str,
};
use nfs_wire::{Encode as _, Encoder, decode_all};

use super::worker::nothing;
use crate::host::Context;
use crate::host::raw_client4::RawClient4;
use crate::host::wire::{block_on, mount, ok};

/// Data of a file that waits in the page cache, and how it is written, in bytes.
const DATA: u64 = 16 << 20;
const WRITE: u64 = 1 << 20;
/// Size of a file system, in MiB: the file of each round has its place, whatever of it outlives the cut.
const MIB: u32 = 320;
/// A size behind what was written, and one in its middle.
const LONGER: u64 = DATA + 12_345;
const SHORTER: u64 = DATA / 2 + 777;
const MODE: u32 = 0o641;
const TIME: Nfstime3 = Nfstime3 {
    seconds: 1_000_000_007,
    nseconds: 123_456_789,
};

#[derive(Clone, Copy, Debug)]
enum Set {
    Mode,
    Time,
    Size(u64),
    TimeOfLink,
    /// The rest is of NFSv4.
    Acl(Acl),
}

/// What brings an ACL.
#[derive(Clone, Copy, Debug)]
enum Acl {
    /// SETATTR of a file with data that nobody committed.
    Set,
    /// CREATE of a directory.
    Create,
    /// OPEN that makes a file.
    Open,
}

/// Who is in the ACL besides the owner.
const SOMEBODY: &str = "4321";

pub(in super::super) fn attributes(context: &Context) -> Result<String> {
    let changes = [
        Set::Mode,
        Set::Time,
        Set::Size(LONGER),
        Set::Size(SHORTER),
        Set::TimeOfLink,
        Set::Acl(Acl::Set),
        Set::Acl(Acl::Create),
        Set::Acl(Acl::Open),
    ];
    for kind in [FsKind::Xfs, FsKind::Ext4] {
        let export = context.lab.dir.join(format!("{kind:?}"));
        let mut file_system = LoopFs::new(kind, MIB, &export)?;
        for (round, set) in changes.into_iter().enumerate() {
            // No client of an earlier round is waited for.
            let state = context.lab.dir.join(format!("state-{kind:?}-{round}"));
            let options = ServerOptions::default();
            let mut server = Server::start(&context.lab, &export, &state, &options)?;
            let change = change(&server, &file_system, round, set);
            block_on(change).with_context(|| format!("{kind:?}, {set:?}"))?;
            server.kill()?;
            file_system.unmount()?;
            file_system.mount()?;
            check(&export, round, set).with_context(|| format!("{kind:?}, {set:?}"))?;
        }
        file_system.unmount()?;
    }
    Ok(format!("{} cuts", 2 * changes.len()))
}

async fn change(server: &Server, disk: &LoopFs, round: usize, set: Set) -> Result<()> {
    let (nfs, root) = mount(server.address()).await?;
    let file = written(&nfs, &root, &format!("file-{round}")).await?;
    let link = format!("link-{round}");
    let plain = nothing();
    let link = nfs.symlink(&root, link.as_bytes(), &plain, b"nowhere");
    let link = ok("SYMLINK", link).await?.obj;
    let link = link.context("SYMLINK gave no handle")?;
    let knife = disk.knife()?;
    let (object, wanted) = match set {
        Set::Mode => (
            file,
            Sattr3 {
                mode: Some(MODE),
                ..nothing()
            },
        ),
        Set::Size(size) => (
            file,
            Sattr3 {
                size: Some(size),
                ..nothing()
            },
        ),
        Set::Time | Set::TimeOfLink => {
            let object = if matches!(set, Set::Time) { file } else { link };
            let mtime = SetTime::ClientTime(TIME);
            (object, Sattr3 { mtime, ..nothing() })
        }
        Set::Acl(how) => {
            give_acl(server, round, how).await?;
            return knife.cut();
        }
    };
    ok("SETATTR", nfs.setattr(&object, &wanted, None)).await?;
    knife.cut()
}

/// Has somebody else read an object, by an operation of NFSv4.
async fn give_acl(server: &Server, round: usize, how: Acl) -> Result<()> {
    let mut client = RawClient4::new(Ipv4Addr::LOCALHOST, server.address(), "acl").await?;
    let allow = |who: &'static str| Nfsace4 {
        acetype: 0,
        flag: 0,
        access_mask: ACE4_READ_DATA,
        who: Utf8str(who.as_bytes()),
    };
    let mut bytes = Vec::new();
    let acl = Attributes {
        acl: Some(vec![allow("OWNER@"), allow(SOMEBODY)]),
        ..Attributes::default()
    };
    acl.encode(&mut Encoder::new(&mut bytes));
    let acl: Fattr4<'_> = decode_all(&bytes)?;
    let (file, made) = (format!("file-{round}"), format!("made-{round}"));
    let objname = Component4(made.as_bytes());
    let complete = ArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
    let mut ops = vec![ArgOp::Putrootfh(())];
    match how {
        Acl::Set => {
            ops.push(ArgOp::Lookup(LookupArgs {
                objname: Component4(file.as_bytes()),
            }));
            ops.push(ArgOp::Setattr(SetattrArgs {
                stateid: Stateid4::ANONYMOUS,
                obj_attributes: acl,
            }));
        }
        Acl::Create => ops.push(ArgOp::Create(CreateArgs {
            objtype: Createtype4::Dir,
            objname,
            createattrs: acl,
        })),
        Acl::Open => ops.push(ArgOp::Open(OpenArgs {
            seqid: 0,
            share_access: 3,
            share_deny: 0,
            owner: StateOwner4 {
                clientid: Default::default(),
                owner: Opaque4(b"opener"),
            },
            openhow: Openflag4::Create(Createhow4::Guarded(acl)),
            claim: OpenClaim4::Null(objname),
        })),
    }
    for ops in [vec![complete], ops] {
        let done = client.call(ops, |status, results| {
            ensure!(status == Nfsstat4::Ok, "{status}: {results:?}");
            Ok(())
        });
        done.await?;
    }
    Ok(())
}

/// The ACL of the kernel lets somebody read.
fn check_acl(path: &Path) -> Result<()> {
    let mut bytes = vec![0; 4096];
    let len = rustix::fs::getxattr(path, "system.posix_acl_access", bytes.as_mut_slice())
        .with_context(|| format!("the ACL of {}", path.display()))?;
    // ACL_USER, reading, and who: as linux/posix_acl_xattr.h has an entry, behind the version.
    let entry = [
        &2u16.to_le_bytes()[..],
        &4u16.to_le_bytes(),
        &SOMEBODY.parse::<u32>()?.to_le_bytes(),
    ]
    .concat();
    let mut entries = bytes[..len].get(4..).unwrap_or_default().chunks(8);
    ensure!(entries.any(|it| it == entry), "{:?}", &bytes[..len]);
    Ok(())
}

/// A file whose data was accepted and is not on stable storage.
async fn written(nfs: &Nfs3, root: &FileHandle, name: &str) -> Result<FileHandle> {
    let how = CreateHow::Guarded(nothing());
    let made = ok("CREATE", nfs.create(root, name.as_bytes(), &how)).await?;
    let file = made.obj.context("CREATE gave no handle")?;
    for offset in (0..DATA).step_by(WRITE as usize) {
        let data = Bytes::from(pattern::bytes(1, offset, WRITE as usize));
        let write = nfs.write(&file, offset, StableHow::Unstable, data);
        ok("WRITE", write).await?;
    }
    Ok(file)
}

fn check(export: &Path, round: usize, set: Set) -> Result<()> {
    let found = fs::metadata(export.join(format!("file-{round}")))?;
    let link = fs::symlink_metadata(export.join(format!("link-{round}")))?;
    let time = |of: &fs::Metadata| (of.mtime(), of.mtime_nsec());
    let wanted = (i64::from(TIME.seconds), i64::from(TIME.nseconds));
    match set {
        Set::Mode => {
            let mode = found.permissions().mode() & 0o7777;
            ensure!(mode == MODE, "the mode is {mode:o}");
        }
        Set::Size(size) => ensure!(found.len() == size, "the size is {}", found.len()),
        Set::Time => ensure!(time(&found) == wanted, "the time is {:?}", time(&found)),
        Set::Acl(Acl::Set) => check_acl(&export.join(format!("file-{round}")))?,
        Set::Acl(_) => check_acl(&export.join(format!("made-{round}")))?,
        Set::TimeOfLink => ensure!(time(&link) == wanted, "the time is {:?}", time(&link)),
    }
    Ok(())
}
