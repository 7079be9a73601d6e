//! The device number of an exported file system is another after a restart: a loop or device-mapper
//! device was attached in another order, or the kernel makes the number up at each mount.

use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail, ensure};
use nfs_lab::{FsKind, LoopFs, Mounted, output};
use nfs_wire::nfs3::{FileHandle, Nfsstat3};

use super::{NOBODY, for_nobody, own_dir, start};
use crate::host::Context;
use crate::host::wire::{block_on, mount, ok, walk};

/// Size of the loop file systems in MiB: enough for the smallest XFS.
const LOOP_MIB: u32 = 320;
/// How often a mount is tried that is to get another device number.
const NUMBERS_TAKEN_MAX: usize = 10;
/// The paths that are looked up below the mount; `sub` is a subvolume on btrfs.
const PATHS: [&str; 4] = ["file", "dir", "dir/inner", "sub/file"];

pub(in crate::scenarios) fn run(context: &Context) -> Result<String> {
    let context = &for_nobody(context)?;
    let mut checks = 0;
    for kind in [FsKind::Ext4, FsKind::Xfs, FsKind::Btrfs] {
        for (below, unprivileged) in [(false, true), (true, true), (false, false)] {
            let name = format!("{kind:?}-{below}-{unprivileged}");
            let dir = own_dir(&context.lab.dir.join(&name))?;
            checks += one(context, kind, &dir, below, unprivileged)
                .map_err(|error| error.context(name))?;
        }
    }
    Ok(format!("{checks} handles"))
}

/// Tests one file system, exported itself or, with `below`, mounted below the exported directory.
fn one(
    context: &Context,
    kind: FsKind,
    dir: &Path,
    below: bool,
    unprivileged: bool,
) -> Result<usize> {
    let export = own_dir(&dir.join("export"))?;
    let point = if below {
        export.join("disk")
    } else {
        export.clone()
    };
    let state = if unprivileged {
        own_dir(&dir.join("state"))?
    } else {
        dir.join("state-of-root")
    };
    let prefix = if below { "disk/" } else { "" };
    let mut disk = LoopFs::new(kind, LOOP_MIB, &point)?;
    fill(kind, &point)?;

    let server = start(context, &export, &state, unprivileged)?;
    let handles = block_on(handles(server.address(), prefix))?;
    server.stop()?;

    let taken = mount_under_another_number(&mut disk, &point, dir)?;
    let server = start(context, &export, &state, unprivileged)?;
    block_on(good(server.address(), prefix, &handles))?;
    server.stop()?;

    // Another file system with the same names and inode numbers in its place.
    disk.unmount()?;
    let other = LoopFs::new(kind, LOOP_MIB, &point)?;
    fill(kind, &point)?;
    let server = start(context, &export, &state, unprivileged)?;
    block_on(stale(server.address(), &handles))?;
    server.stop()?;
    drop(other);

    // And the first one again.
    disk.mount()?;
    let server = start(context, &export, &state, unprivileged)?;
    block_on(good(server.address(), prefix, &handles))?;
    server.stop()?;
    drop(taken);
    Ok(handles.len())
}

/// Mounts a file system anew so that its device number is another. Its numbers, a loop device's and one without
/// a device, are taken by others meanwhile; where something else on the machine gives numbers back at that very
/// moment, more than one of each has to be taken.
fn mount_under_another_number(
    disk: &mut LoopFs,
    point: &Path,
    dir: &Path,
) -> Result<Vec<(LoopFs, Mounted)>> {
    let before = point.metadata()?.dev();
    let mut taken = Vec::new();
    for number in 0..NUMBERS_TAKEN_MAX {
        disk.unmount()?;
        let spare = LoopFs::new(FsKind::Ext4, 16, &dir.join(format!("spare-{number}")))?;
        let memory = Mounted::tmpfs(1, &dir.join(format!("memory-{number}")))?;
        taken.push((spare, memory));
        disk.mount()?;
        if point.metadata()?.dev() != before {
            return Ok(taken);
        }
    }
    bail!("the device number is the same after {NUMBERS_TAKEN_MAX} tries");
}

/// Makes files whose contents are their paths.
fn fill(kind: FsKind, point: &Path) -> Result<()> {
    let sub = point.join("sub");
    if kind == FsKind::Btrfs {
        output(
            Command::new("btrfs")
                .args(["-q", "subvolume", "create"])
                .arg(&sub),
        )?;
    } else {
        std::fs::create_dir(&sub)?;
    }
    std::fs::create_dir(point.join("dir"))?;
    for path in PATHS.iter().filter(|path| **path != "dir") {
        std::fs::write(point.join(path), path)?;
    }
    let all = PATHS.iter().map(|path| point.join(path));
    for path in all.chain([point.to_path_buf(), sub]) {
        chown(path, Some(NOBODY), Some(NOBODY))?;
    }
    Ok(())
}

async fn handles(address: std::net::SocketAddr, prefix: &str) -> Result<Vec<FileHandle>> {
    let (nfs, root) = mount(address).await?;
    let mut handles = Vec::new();
    for path in PATHS {
        handles.push(walk(&nfs, &root, &format!("{prefix}{path}")).await?);
    }
    Ok(handles)
}

/// The handles are those that are given out now, and lead to what they were made for.
async fn good(address: std::net::SocketAddr, prefix: &str, handles: &[FileHandle]) -> Result<()> {
    let (nfs, root) = mount(address).await?;
    for (path, handle) in PATHS.iter().zip(handles) {
        if *path == "dir" {
            ok(path, nfs.getattr(handle)).await?;
        } else {
            let read = ok(path, nfs.read(handle, 0, 100)).await?;
            ensure!(read.data == path.as_bytes(), "{path}: another file");
        }
        let now = walk(&nfs, &root, &format!("{prefix}{path}")).await?;
        ensure!(now == *handle, "{path} has another handle");
    }
    Ok(())
}

async fn stale(address: std::net::SocketAddr, handles: &[FileHandle]) -> Result<()> {
    let (nfs, _root) = mount(address).await?;
    for (path, handle) in PATHS.iter().zip(handles) {
        let answer = nfs.getattr(handle).await?;
        let status = answer.map_or_else(|failure| failure.status, |_| Nfsstat3::Ok);
        ensure!(
            status == Nfsstat3::Stale,
            "{path}: {status:?} on another disk"
        );
    }
    Ok(())
}
