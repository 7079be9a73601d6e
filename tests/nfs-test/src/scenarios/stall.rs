//! A file system that stalls: hundreds of calls wait on it, and all others go on, on the same
//! connection too. Once it is let go, every call gets its reply.
//!
//! Two stalled file systems, both below the export: one served by this process (FUSE), whose reads
//! wait until they are told to go on; and one that is frozen, on which changes wait.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use nfs_client::Nfs3;
use nfs_lab::held_fs::HeldFs;
use nfs_lab::pattern;
use nfs_lab::{Frozen, FsKind, LoopFs, Server, ServerOptions, counter};
use nfs_wire::nfs3::{CreateHow, FileHandle, Sattr3, SetTime, StableHow};
use tokio::task::JoinSet;

use crate::host::Context;
use crate::host::wire::{
    CALL_DEADLINE, block_on, connect_from, connect_with, mount, mount_path, ok, walk,
};

/// Stalled calls on the connection that other calls use as well.
const SAME_CONNECTION: usize = 300;
/// Further connections, and the stalled calls of each.
const CONNECTIONS: usize = 4;
const OF_EACH: usize = 50;
/// Connections of the client that asks for more than may wait, and its calls on each: more than a lane's
/// threads and queue together hold, and no more than are read of a connection.
const GREEDY_CONNECTIONS: usize = 5;
const GREEDY_OF_EACH: usize = 1000;
/// How often the other client mounts, looks up and creates meanwhile.
const POLITE_ROUNDS: u64 = 10;
/// How long a stalled call may take: longer than the whole scenario does.
const STALL_DEADLINE: Duration = Duration::from_secs(300);
/// Size of the file whose READs stall, in bytes. It holds the pattern of [`TAG`].
const SIZE: usize = 1 << 20;
const TAG: u64 = 77;
/// Length of one stalled READ in bytes.
const READ_BYTES: u32 = 4096;

pub(super) fn fuse(context: &Context) -> Result<String> {
    let (export, server) = serve(context, |export| {
        let point = export.join("stalled");
        fs::create_dir(&point)?;
        let held = HeldFs::mount(&point, pattern::bytes(TAG, 0, SIZE))?;
        held.hold_reads();
        Ok(held)
    })?;
    let (held, server, export) = (export.1, server, export.0);
    let done = block_on(reads(&export, &server, &held));
    held.let_all_go();
    done?;
    server.stop()?;
    drop(held);
    Ok(format!(
        "{} READs stalled and let go",
        SAME_CONNECTION + CONNECTIONS * OF_EACH
    ))
}

/// One client has more calls on a file system that holds READs back than may wait for it. Another's calls on
/// that file system come through meanwhile, also those that need a place that the first had; and what
/// was told to come again was the first client's alone.
pub(super) fn greedy(context: &Context) -> Result<String> {
    let (export, server) = serve(context, |export| {
        let point = export.join("stalled");
        fs::create_dir(&point)?;
        let held = HeldFs::mount(&point, pattern::bytes(TAG, 0, SIZE))?;
        held.hold_reads();
        Ok(held)
    })?;
    let (held, server) = (export.1, server);
    let state = context.lab.dir.join("state");
    // A procedure that was not called is not listed.
    let counted = |name: &str| counter(&context.lab, &state, name).unwrap_or(0);
    let done = block_on(beside_a_greedy_client(&server, &held, &counted));
    held.let_all_go();
    let told = done?;
    server.stop()?;
    drop(held);
    Ok(format!(
        "{told} READs of the greedy client told to come again"
    ))
}

async fn beside_a_greedy_client(
    server: &Server,
    held: &HeldFs,
    counted: &dyn Fn(&str) -> u64,
) -> Result<u64> {
    const SENT: u64 = (GREEDY_CONNECTIONS * GREEDY_OF_EACH) as u64;
    let (nfs, root) = mount(server.address()).await?;
    let file = walk(&nfs, &root, "stalled/file").await?;
    let mut greedy = JoinSet::new();
    for _ in 0..GREEDY_CONNECTIONS {
        let nfs = connect_with(server.address(), STALL_DEADLINE).await?;
        for i in 0..GREEDY_OF_EACH {
            greedy.spawn_local(read(nfs.clone(), file, i));
        }
    }
    // Whoever is told to come again comes again: it is another call.
    let told = async {
        loop {
            match counted("calls_read").saturating_sub(SENT) {
                // SLEEP: the calls go out meanwhile.
                0 => tokio::time::sleep(Duration::from_millis(20)).await,
                told => return told,
            }
        }
    };
    let told = tokio::time::timeout(CALL_DEADLINE, told)
        .await
        .context("the greedy client's calls all found room")?;
    // A MNT of the greedy client, which may have no place any more, has no status to come again with.
    let mounting = connect_with(server.address(), STALL_DEADLINE).await?;
    let mounting = tokio::task::spawn_local(async move { mount_path(&mounting, "/stalled").await });
    let polite = Some(std::net::Ipv4Addr::new(127, 0, 0, 2).into());
    let nfs = connect_from(polite, server.address(), CALL_DEADLINE).await?;
    let before = counted("calls_lookup");
    for round in 0..POLITE_ROUNDS {
        let dir = mount_path(&nfs, "/stalled").await?;
        ok("LOOKUP", nfs.lookup(&dir, b"file")).await?;
        let how = CreateHow::Guarded(nothing());
        let name = format!("polite-{round}");
        ok("CREATE", nfs.create(&dir, name.as_bytes(), &how)).await?;
    }
    for (name, before) in [("calls_lookup", before), ("calls_create", 0)] {
        let calls = counted(name) - before;
        ensure!(
            calls == POLITE_ROUNDS,
            "{name}: {calls}, so some came again"
        );
    }
    if let Some(outcome) = greedy.try_join_next() {
        bail!("a stalled READ was answered: {outcome:?}");
    }
    held.let_all_go();
    while let Some(outcome) = greedy.join_next().await {
        outcome??;
    }
    mounting.await?.context("MNT of the greedy client")?;
    Ok(told)
}

pub(super) fn frozen(context: &Context) -> Result<String> {
    let (export, server) = serve(context, |export| {
        LoopFs::new(FsKind::Xfs, 320, &export.join("stalled"))
    })?;
    let (mut stalled, server, export) = (export.1, server, export.0);
    let frozen = Frozen::new(stalled.point())?;
    let done = block_on(changes(&export, &server, &frozen));
    frozen.thaw()?;
    done?;
    server.stop()?;
    stalled.unmount()?;
    Ok(format!(
        "{} changes stalled and let go",
        SAME_CONNECTION + CONNECTIONS * OF_EACH
    ))
}

/// An export with a second file system in it, and the server on it.
fn serve<T>(
    context: &Context,
    make: impl FnOnce(&Path) -> Result<T>,
) -> Result<((std::path::PathBuf, T), Server)> {
    let export = context.lab.dir.join("export");
    fs::create_dir(&export)?;
    fs::write(export.join("cached"), pattern::bytes(1, 0, 100_000))?;
    let stalled = make(&export)?;
    let config = context.lab.dir.join("penstock.toml");
    let text = format!(
        "[[export]]\npath = \"{}\"\npseudo = \"/\"\nclients = [\"127.0.0.0/8\"]\n\
         squash = \"none\"\ncrossmnt = true\n",
        export.display()
    );
    fs::write(&config, text)?;
    let options = ServerOptions {
        config: Some(config),
        ..ServerOptions::default()
    };
    let server = Server::start(
        &context.lab,
        &export,
        &context.lab.dir.join("state"),
        &options,
    )?;
    Ok(((export, stalled), server))
}

async fn reads(export: &Path, server: &Server, held: &HeldFs) -> Result<()> {
    let (_, root) = mount(server.address()).await?;
    let nfs = connect_with(server.address(), STALL_DEADLINE).await?;
    let file = walk(&nfs, &root, "stalled/file").await?;
    let mut stalled = JoinSet::new();
    for i in 0..SAME_CONNECTION {
        stalled.spawn_local(read(nfs.clone(), file, i));
    }
    for connection in 0..CONNECTIONS {
        let nfs = connect_with(server.address(), STALL_DEADLINE).await?;
        for i in 0..OF_EACH {
            stalled.spawn_local(read(nfs.clone(), file, connection * OF_EACH + i));
        }
    }
    held.wait_for_one().await?;
    for round in 0..20 {
        tokio::time::timeout(CALL_DEADLINE, elsewhere(export, &nfs, &root, round))
            .await
            .context("no answer while READs stall")?
            .context("while READs stall")?;
    }
    if let Some(outcome) = stalled.try_join_next() {
        bail!("a stalled READ was answered: {outcome:?}");
    }
    held.let_all_go();
    finish(stalled).await
}

async fn read(nfs: Nfs3, file: FileHandle, i: usize) -> Result<()> {
    let offset = i as u64 * u64::from(READ_BYTES) % SIZE as u64;
    let reply = ok("a stalled READ", nfs.read(&file, offset, READ_BYTES)).await?;
    ensure!(
        reply.data.len() == READ_BYTES as usize,
        "a stalled READ of {}",
        reply.data.len()
    );
    let wrong = pattern::first_difference(TAG, offset, &reply.data);
    ensure!(wrong.is_none(), "wrong byte {wrong:?} of a stalled READ");
    Ok(())
}

async fn changes(export: &Path, server: &Server, frozen: &Frozen) -> Result<()> {
    let (_, root) = mount(server.address()).await?;
    let nfs = connect_with(server.address(), STALL_DEADLINE).await?;
    let dir = walk(&nfs, &root, "stalled").await?;
    frozen.freeze()?;
    let mut stalled = JoinSet::new();
    for i in 0..SAME_CONNECTION {
        stalled.spawn_local(create(nfs.clone(), dir, format!("a-{i}")));
    }
    for connection in 0..CONNECTIONS {
        let nfs = connect_with(server.address(), STALL_DEADLINE).await?;
        for i in 0..OF_EACH {
            stalled.spawn_local(create(nfs.clone(), dir, format!("b-{connection}-{i}")));
        }
    }
    for round in 0..20 {
        tokio::time::timeout(CALL_DEADLINE, elsewhere(export, &nfs, &root, round))
            .await
            .context("no answer while changes stall")?
            .context("while changes stall")?;
    }
    if let Some(outcome) = stalled.try_join_next() {
        bail!("a change of a frozen file system was answered: {outcome:?}");
    }
    frozen.thaw()?;
    finish(stalled).await?;
    let found = fs::read_dir(export.join("stalled"))?.count();
    let expected = SAME_CONNECTION + CONNECTIONS * OF_EACH;
    ensure!(found == expected, "{found} files, should be {expected}");
    Ok(())
}

async fn create(nfs: Nfs3, dir: FileHandle, name: String) -> Result<()> {
    let how = CreateHow::Unchecked(nothing());
    ok("a stalled CREATE", nfs.create(&dir, name.as_bytes(), &how))
        .await
        .map(drop)
}

async fn finish(mut stalled: JoinSet<Result<()>>) -> Result<()> {
    let mut replies = 0;
    while let Some(outcome) = stalled.join_next().await {
        outcome?.with_context(|| format!("after {replies} replies"))?;
        replies += 1;
    }
    let expected = SAME_CONNECTION + CONNECTIONS * OF_EACH;
    ensure!(
        replies == expected,
        "{replies} replies, should be {expected}"
    );
    Ok(())
}

/// Calls on the export's own file system, all on the connection of the stalled ones.
async fn elsewhere(export: &Path, nfs: &Nfs3, root: &FileHandle, round: u64) -> Result<()> {
    ok("GETATTR", nfs.getattr(root)).await?;
    let cached = walk(nfs, root, "cached").await?;
    let reply = ok("READ", nfs.read(&cached, 0, 100_000)).await?;
    ensure!(
        pattern::first_difference(1, 0, &reply.data).is_none(),
        "READ of a cached file"
    );
    // A file that is not in the page cache has to come from the disk.
    let name = format!("uncached-{round}");
    let path = export.join(&name);
    fs::write(&path, pattern::bytes(2, 0, 200_000))?;
    let file = File::open(&path)?;
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    let uncached = walk(nfs, root, &name).await?;
    let reply = ok("READ from disk", nfs.read(&uncached, 0, 200_000)).await?;
    ensure!(
        pattern::first_difference(2, 0, &reply.data).is_none(),
        "READ of an uncached file"
    );
    let data = Bytes::from(pattern::bytes(3, 0, 50_000));
    ok("WRITE", nfs.write(&uncached, 0, StableHow::FileSync, data)).await?;
    let new = format!("new-{round}");
    ok(
        "CREATE",
        nfs.create(root, new.as_bytes(), &CreateHow::Guarded(nothing())),
    )
    .await?;
    ok("READDIR", nfs.readdir(root, 0, [0; 8], 32_768)).await?;
    ok("REMOVE", nfs.remove(root, new.as_bytes())).await?;
    Ok(())
}

const fn nothing() -> Sattr3 {
    let (atime, mtime) = (SetTime::DontChange, SetTime::DontChange);
    Sattr3 {
        mode: None,
        uid: None,
        gid: None,
        size: None,
        atime,
        mtime,
    }
}
