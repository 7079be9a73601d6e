//! SETATTR alone, of files with much data that nobody committed, and of a symbolic link: its reply does not wait
//! for that data, and the power goes before anything else is synced. One change in each round, as whatever is
//! synced later would carry along what was forgotten.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use nfs_client::Nfs3;
use nfs_lab::{FsKind, LoopFs, Server, ServerOptions, pattern};
use nfs_wire::nfs3::{CreateHow, FileHandle, Nfstime3, Sattr3, SetTime, StableHow};

use super::worker::nothing;
use crate::host::Context;
use crate::host::wire::{block_on, mount, ok};

/// Data of a file that waits in the page cache, and how it is written, in bytes.
const DATA: u64 = 16 << 20;
const WRITE: u64 = 1 << 20;
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
}

pub(in super::super) fn attributes(context: &Context) -> Result<String> {
    let changes = [
        Set::Mode,
        Set::Time,
        Set::Size(LONGER),
        Set::Size(SHORTER),
        Set::TimeOfLink,
    ];
    for (kind, mib) in [(FsKind::Xfs, 320), (FsKind::Ext4, 128)] {
        let export = context.lab.dir.join(format!("{kind:?}"));
        let mut file_system = LoopFs::new(kind, mib, &export)?;
        for (round, set) in changes.into_iter().enumerate() {
            let state = context.lab.dir.join("state");
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
    };
    ok("SETATTR", nfs.setattr(&object, &wanted, None)).await?;
    knife.cut()
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
        Set::TimeOfLink => ensure!(time(&link) == wanted, "the time is {:?}", time(&link)),
    }
    Ok(())
}
