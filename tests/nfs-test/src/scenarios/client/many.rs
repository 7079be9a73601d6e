//! Very many small files: up, listed, found, down, compared, removed.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use nfs_lab::Engine;
use nfs_lab::pattern;

use super::penstock;
use crate::host::{Context, Peer, PeerServer};
use crate::manifest;

/// Number of files in each directory.
const IN_A_DIRECTORY: u32 = 2500;

/// Copies 100,000 files with one engine, or with both in the long form, and 10,000 otherwise.
pub(crate) fn penstock_server(context: &Context) -> Result<String> {
    let all = context.full || (context.lab.engine == Engine::Uring && !context.quick);
    run(context, Peer::Penstock, if all { 100_000 } else { 10_000 })
}

pub(crate) fn ganesha(context: &Context) -> Result<String> {
    run(context, Peer::Ganesha, foreign(context))
}

pub(crate) fn nfsd(context: &Context) -> Result<String> {
    run(context, Peer::KernelNfsd, foreign(context))
}

/// Number of files for a foreign server, which is slow in a guest: 100,000 in the long form, 5,000 otherwise.
fn foreign(context: &Context) -> u32 {
    if context.full { 100_000 } else { 5_000 }
}

fn run(context: &Context, peer: Peer, count: u32) -> Result<String> {
    let mut server = PeerServer::start(context, peer, |_| Ok(()))?;
    // In memory, as the server's disk is.
    let local = tempfile::Builder::new()
        .prefix("nfs-test-many-")
        .tempdir_in("/dev/shm")?;
    let (source, down) = (local.path().join("source"), local.path().join("down"));
    make(&source, count)?;
    let expected = manifest::of_tree(&source)?;
    let text = |path: &Path| -> Result<String> { Ok(path.to_str().context("UTF-8")?.to_owned()) };
    let (up, copy) = (server.url("up").to_string(), server.url("copy").to_string());
    penstock(&server, &["cp", "-aT", &text(&source)?, &up]).context("up")?;
    let entries = expected.len();
    let found = penstock(&server, &["find", "-0", &up]).context("find")?;
    let found = found.split(|byte| *byte == 0).count() - 1;
    ensure!(found == entries + 1, "find: {found} of {entries}");
    let one = server.url("up/dir-1").to_string();
    let listed = penstock(&server, &["ls", "-l", &one]).context("ls")?;
    let listed = listed.split(|byte| *byte == b'\n').count() - 1;
    ensure!(listed == IN_A_DIRECTORY as usize, "ls: {listed}");
    penstock(&server, &["cp", "-aT", &up, &text(&down)?]).context("down")?;
    let wrong = manifest::differences(&expected, &manifest::of_tree(&down)?);
    ensure!(
        wrong.is_empty(),
        "down: {} wrong: {:?}",
        wrong.len(),
        wrong.first()
    );
    penstock(&server, &["cp", "-aT", &text(&source)?, &copy]).context("a second time")?;
    penstock(&server, &["rm", "-r", &copy]).context("rm")?;
    let rest = server.at_rest()?;
    let wrong = manifest::differences(&expected, &manifest::of_tree(&rest.join("up"))?);
    ensure!(
        wrong.is_empty(),
        "on the disk: {} wrong: {:?}",
        wrong.len(),
        wrong.first()
    );
    ensure!(!rest.join("copy").exists(), "rm -r left something");
    Ok(format!("{count} files"))
}

fn make(source: &Path, count: u32) -> Result<()> {
    for index in 0..count {
        let dir = source.join(format!("dir-{}", index / IN_A_DIRECTORY));
        if index % IN_A_DIRECTORY == 0 {
            fs::create_dir_all(&dir)?;
        }
        let size = (index % 97) as usize * 43;
        fs::write(
            dir.join(format!("file-{index}")),
            pattern::bytes(u64::from(index), 0, size),
        )?;
    }
    Ok(())
}
