//! The library itself, at the level of procedures and at that of files.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use fastrand::Rng;
use nfs_client::{Client, File, NfsUrl};
use nfs_lab::pattern;
use nfs_wire::nfs3::{CreateHow, Nfsstat3, Sattr3};

use crate::host::PeerServer;
use crate::host::wire::{block_on, ok};

/// The file that is written in pieces, in bytes, and the pieces.
const FILE_BYTES: usize = 6_000_007;
const PIECES: u64 = 300;
const PIECE_MAX: u64 = 90_000;

/// Runs in a thread of its own, in the namespace of the server; returns how many checks there were.
///
/// # Errors
/// What is wrong.
pub(super) fn run(server: &PeerServer<'_>) -> Result<u32> {
    let url = server.url("");
    server.netns().within(|| {
        block_on(async {
            let (client, _) = Client::mount(&url).await?;
            let checks = procedures(&client).await.context("procedures")?
                + files(&url, &client).await.context("files")?
                + names(&client).await.context("names")?;
            client.unmount().await?;
            Ok(checks)
        })
    })
}

/// Level one: a procedure, its arguments, its results.
async fn procedures(client: &Client) -> Result<u32> {
    let nfs = client.nfs().v3().context("the procedures of NFSv3")?;
    let root = client.root();
    nfs.null().await.context("NULL")?;
    let made = ok("MKDIR", nfs.mkdir(root, b"raw", &Sattr3::default())).await?;
    let dir = made.obj.context("MKDIR gives a handle")?;
    let how = CreateHow::Guarded(Sattr3 {
        mode: Some(0o604),
        ..Sattr3::default()
    });
    let made = ok("CREATE", nfs.create(&dir, b"file", &how)).await?;
    let file = made.obj.context("CREATE gives a handle")?;
    let again = nfs.create(&dir, b"file", &how).await?;
    let status = again.err().map(|failure| failure.status);
    ensure!(status == Some(Nfsstat3::Exist), "CREATE again: {status:?}");
    let data = Bytes::from(pattern::bytes(3, 0, 30_000));
    let stable = nfs_wire::nfs3::StableHow::Unstable;
    let written = ok("WRITE", nfs.write(&file, 5, stable, data.clone())).await?;
    ensure!(written.count == 30_000, "WRITE: {}", written.count);
    let committed = ok("COMMIT", nfs.commit(&file, 0, 0)).await?;
    ensure!(committed.verf == written.verf, "the verifier has changed");
    let read = ok("READ", nfs.read(&file, 0, 65_536)).await?;
    let right = read.eof && read.data[..5] == [0; 5] && read.data[5..] == data;
    ensure!(right, "READ: {} bytes, eof {}", read.data.len(), read.eof);
    let attributes = ok("GETATTR", nfs.getattr(&file)).await?;
    let size = attributes.obj_attributes.size;
    ensure!(size == 30_005, "GETATTR: {size}");
    ok("FSINFO", nfs.fsinfo(root)).await?;
    ok("FSSTAT", nfs.fsstat(root)).await?;
    ok("PATHCONF", nfs.pathconf(root)).await?;
    Ok(11)
}

/// Level two: a file that is written in pieces at once, read in all ways, cut, and appended to.
async fn files(url: &NfsUrl, client: &Client) -> Result<u32> {
    let mut random = Rng::with_seed(8);
    let file = client.create_new(b"/levels", 0o644).await?;
    let mut model = pattern::bytes(1, 0, FILE_BYTES);
    for (offset, piece) in (0..).step_by(777_777).zip(model.chunks(777_777)) {
        file.write_at(offset, piece.to_vec()).await?;
    }
    for tag in 0..PIECES {
        let at = random.usize(..FILE_BYTES - PIECE_MAX as usize);
        let data = pattern::bytes(10 + tag, at as u64, 1 + random.u64(..PIECE_MAX) as usize);
        model[at..at + data.len()].copy_from_slice(&data);
        file.write_at(at as u64, data).await?;
        if tag % 10 == 0 {
            // What is still on its way is seen.
            let back = file.read_at(at as u64, 5_000).await?;
            let expected = &model[at..(at + 5_000).min(FILE_BYTES)];
            ensure!(back.data == expected, "a read after a write at {at}");
        }
    }
    ensure!(file.stat().await?.size == FILE_BYTES as u64, "the size");
    file.sync().await?;
    // As another client sees it.
    let (other, _) = Client::mount(url).await?;
    let seen = other.open(b"/levels").await?;
    let mut stream = seen.stream(0);
    let mut at = 0;
    while let Some(data) = stream.next().await? {
        ensure!(model[at..].starts_with(&data), "the stream after {at}");
        at += data.len();
    }
    ensure!(at == FILE_BYTES, "the stream has {at} bytes");
    for _ in 0..40 {
        let at = random.usize(..FILE_BYTES + 1000);
        let len = 1 + random.usize(..200_000);
        let back = seen.read_at(at as u64, len).await?;
        let end = (at + len).min(FILE_BYTES);
        ensure!(back.data == model[at.min(end)..end], "{len} bytes at {at}");
        ensure!(
            back.eof == (at + len >= FILE_BYTES),
            "the end, {len} at {at}"
        );
    }
    overwritten_ahead(&file, &mut model).await?;
    file.set_len(1_000_000).await?;
    ensure!(file.append(&b"appended"[..]).await? == 1_000_000, "append");
    file.set_len(1_000_100).await?;
    file.close().await?;
    Ok(45 + PIECES as u32 / 10)
}

/// Checks that what was read ahead is not what is read once it was written over.
async fn overwritten_ahead(file: &File, model: &mut [u8]) -> Result<()> {
    let step = 40_000;
    for at in (0..FILE_BYTES - 10 * step).step_by(step) {
        let back = file.read_at(at as u64, step).await?;
        ensure!(back.data == model[at..at + step], "in order, at {at}");
        // Next, and further on: in what a reader who reads in order has on its way.
        for ahead in [1, 5] {
            let from = at + ahead * step + 1_000;
            let data = pattern::bytes(700 + ahead as u64, from as u64, 3_000);
            model[from..from + data.len()].copy_from_slice(&data);
            file.write_at(from as u64, data).await?;
        }
    }
    Ok(())
}

async fn names(client: &Client) -> Result<u32> {
    client.mkdir(b"/names", 0o755).await?;
    client.symlink(b"/names/link", b"some\xffwhere").await?;
    let link = client.resolve_link(b"/names/link").await?;
    let target = client.readlink(&link.handle).await?;
    ensure!(target == b"some\xffwhere", "{target:?}");
    client.link(b"/levels", b"/names/second").await?;
    client.rename(b"/names/second", b"/names/third").await?;
    ensure!(client.stat(b"/names/third").await?.nlink == 2, "links");
    let missing = client.stat(b"/names/second").await;
    let status = missing.err().and_then(|error| error.status());
    ensure!(status == Some(Nfsstat3::Noent), "renamed: {status:?}");
    for i in 0..700 {
        let name = format!("/names/file-{i}");
        client
            .create_new(name.as_bytes(), 0o600)
            .await?
            .close()
            .await?;
    }
    let dir = client.resolve(b"/names").await?;
    let mut list = client.list(&dir.handle, true);
    let mut count = 0;
    while let Some(page) = list.next().await? {
        count += page.iter().filter(|entry| !entry.is_dot()).count();
    }
    ensure!(count == 702, "{count} names");
    for i in 0..700 {
        client.remove(format!("/names/file-{i}").as_bytes()).await?;
    }
    Ok(706)
}

/// Checks on the server's disk what the library's calls have left there.
///
/// # Errors
/// What is not.
pub(super) fn on_disk(rest: &Path) -> Result<()> {
    let data = fs::read(rest.join("levels"))?;
    let end = [&b"appended"[..], &[0; 92]].concat();
    ensure!(data.len() == 1_000_100 && data.ends_with(&end), "levels");
    ensure!(fs::read_dir(rest.join("names"))?.count() == 2, "names");
    let raw = fs::read(rest.join("raw/file"))?;
    ensure!(raw[5..] == pattern::bytes(3, 0, 30_000), "raw");
    Ok(())
}
