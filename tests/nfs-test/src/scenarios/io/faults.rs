//! Disks that fill up, are limited or fail in the middle of a split WRITE, in each mode: the reply
//! tells no more than what is in the file, other bytes stay what they were, the server goes on, and
//! a client that does what the replies ask for loses nothing.
//!
//! Quotas are those of btrfs, which no kernel with btrfs lacks.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use bytes::Bytes;
use fastrand::Rng;
use nfs_client::nfs3::{FileHandle, Nfsstat3, StableHow};
use nfs_lab::output;

use super::bed::{Bed, Client, Ground, Mode, Source, drop_cache, local_is, pipelined, same};
use super::cut;
use crate::host::Context;
use crate::host::wire::{block_on, ok};

const BLOCK: u64 = 4096;
/// The WRITE that is split: it begins and ends inside a block.
const START: u64 = 100;
const END: u64 = 9 * BLOCK + 200;

pub(in crate::scenarios) fn run(context: &Context) -> Result<String> {
    let mut random = Rng::with_seed(context.seed);
    let mut notes = Vec::new();
    for ground in [Ground::Xfs, Ground::Ext4] {
        let what = || format!("a full {}, seed {}", ground.name(), context.seed);
        notes.push(full(context, ground, &mut random).with_context(what)?);
    }
    notes.push(limited(context, &mut random).context("a quota of btrfs")?);
    notes.push(too_long(context).context("a limit on the length of files")?);
    for ground in [Ground::Xfs, Ground::Ext4] {
        for mode in Mode::ALL {
            let what = || {
                let (mode, ground) = (mode.word(), ground.name());
                format!("{ground} fails under {mode} WRITEs, seed {}", context.seed)
            };
            notes.push(cut::run(context, ground, mode, false, &mut random).with_context(what)?);
            cut::at_rest(context, ground, mode).with_context(what)?;
        }
        let what = || {
            format!(
                "{} fails under staged WRITEs, seed {}",
                ground.name(),
                context.seed
            )
        };
        let done = cut::run(context, ground, Mode::Direct, true, &mut random);
        notes.push(done.with_context(what)?);
    }
    Ok(notes.join(", "))
}

/// The blocks of a file that are there before its disk is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum There {
    /// The first and the last block: what is missing is the middle, which a direct WRITE moves
    /// past the cache.
    Edges,
    /// All but the first and the last block.
    Middle,
    /// All blocks but the last one.
    AllButLast,
}

impl There {
    const ALL: [Self; 3] = [Self::Edges, Self::Middle, Self::AllButLast];

    /// Makes the file, with its blocks on the disk.
    fn make(self, path: &Path) -> Result<()> {
        let file = File::create(path)?;
        file.set_len(END + BLOCK)?;
        let blocks: Vec<u64> = match self {
            Self::Edges => vec![0, 9],
            Self::Middle => (1..9).collect(),
            Self::AllButLast => (0..9).collect(),
        };
        for block in blocks {
            file.write_all_at(&vec![0x5a; BLOCK as usize], block * BLOCK)?;
        }
        Ok(file.sync_all()?)
    }

    /// Offset up to which the WRITE can go without another block.
    const fn reach(self) -> u64 {
        match self {
            Self::Edges => BLOCK,
            Self::Middle => START,
            Self::AllButLast => 9 * BLOCK,
        }
    }
}

fn full(context: &Context, ground: Ground, random: &mut Rng) -> Result<String> {
    let mut bed = Bed::new(context, ground, 64)?;
    let source = Source::new(random.fork(), 256 << 10);
    let mut cases = Vec::new();
    for mode in Mode::ALL {
        for stable in [StableHow::Unstable, StableHow::FileSync] {
            for there in There::ALL {
                let name = format!("{}-{there:?}-{stable:?}", mode.word());
                there.make(&bed.path(&name))?;
                cases.push((mode, stable, there, name));
            }
        }
        File::create(bed.path(&format!("new-{}", mode.word())))?;
    }
    let ballast = bed.path("ballast");
    fill_up(&ballast)?;
    let mut told = BTreeSet::new();
    for (mode, stable, there, name) in &cases {
        let what = || format!("{} {stable:?}, {there:?} there", mode.word());
        let case = block_on(async {
            let client = Client::new(bed.address, *mode).await?;
            let file = client.find(name).await?;
            let data = source.take((END - START) as usize);
            let written = split_write(&client, &file, *stable, &data, &bed.path(name)).await?;
            Ok((written, data))
        });
        let (written, data) = case.with_context(what)?;
        let reach = (there.reach() - START) as usize;
        ensure!(
            written <= reach,
            "{}: {written} bytes written, there was room for {reach}",
            what()
        );
        // A failed edge or middle takes nothing of what was before it along.
        if *mode == Mode::Direct {
            ensure!(
                written == reach || *stable != StableHow::Unstable,
                "{}: {written} of {reach} bytes written",
                what()
            );
        }
        told.insert(format!("{}/{reach}", written));
        ensure!(written < data.len(), "{}: the disk is not full", what());
    }
    for mode in Mode::ALL {
        block_on(until_full(&bed, mode, &source)).with_context(|| mode.word())?;
        bed.server()?.alive()?;
    }
    std::fs::remove_file(&ballast)?;
    for (mode, stable, _, name) in &cases {
        block_on(room_again(&bed, *mode, *stable, name, &source))
            .with_context(|| format!("{name}, with room again"))?;
    }
    bed.stop()?;
    let told: Vec<_> = told.into_iter().collect();
    Ok(format!(
        "full {}: {} WRITEs ({})",
        ground.name(),
        cases.len(),
        told.join(" ")
    ))
}

/// Takes every free block of the file system with the new file `path`.
pub(in crate::scenarios) fn fill_up(path: &Path) -> Result<()> {
    let file = File::create(path)?;
    let mut at = 0;
    let mut step: u64 = 64 << 20;
    while step >= BLOCK {
        let flags = rustix::fs::FallocateFlags::empty();
        match rustix::fs::fallocate(&file, flags, at, step) {
            Ok(()) => at += step,
            Err(rustix::io::Errno::NOSPC) => step /= 2,
            Err(error) => return Err(error).context("fallocate"),
        }
    }
    // An allocation holds some blocks back for the tree of extents; a write takes those as well.
    let block = vec![0xbb; BLOCK as usize];
    for _ in 0..100_000 {
        match rustix::io::pwrite(&file, &block, at) {
            Ok(n) => at += n as u64,
            Err(rustix::io::Errno::NOSPC) => return Ok(rustix::fs::fsync(&file)?),
            Err(error) => return Err(error).context("fill up"),
        }
    }
    bail!("the disk does not fill up")
}

/// WRITEs `data` at [`START`] of a file that held only 0x5a and holes; returns how much the reply
/// says is written, after comparing the file with it.
async fn split_write(
    client: &Client,
    file: &FileHandle,
    stable: StableHow,
    data: &Bytes,
    path: &Path,
) -> Result<usize> {
    let before = std::fs::read(path)?;
    let reply = client.nfs.write(file, START, stable, data.clone()).await?;
    let written = match reply {
        Ok(ok) => ok.count as usize,
        Err(failure) if full_status(failure.status) => 0,
        Err(failure) => bail!("{:?}", failure.status),
    };
    ensure!(written <= data.len(), "{written} of {}", data.len());
    let mut expected = before.clone();
    let start = START as usize;
    expected[start..start + written].copy_from_slice(&data[..written]);
    // Behind what was acknowledged there may be more of the WRITE, never anything else.
    let found = std::fs::read(path)?;
    same(&expected[..start + written], &found[..start + written]).context("acknowledged bytes")?;
    for at in start + written..found.len() {
        let new = data.get(at - start);
        ensure!(
            found[at] == before[at] || Some(&found[at]) == new,
            "byte {at} is {:#04x}: neither old nor new, {written} acknowledged",
            found[at]
        );
    }
    // What a client reads is the same.
    let (data, _) = client.read(file, 0, found.len() as u32).await?;
    same(&found, &data).context("READ")?;
    Ok(written)
}

const fn full_status(status: Nfsstat3) -> bool {
    matches!(status, Nfsstat3::Nospc | Nfsstat3::Dquot)
}

/// WRITEs to a new file until nothing goes any more, many at once.
async fn until_full(bed: &Bed, mode: Mode, source: &Source) -> Result<u64> {
    let client = Client::new(bed.address, mode).await?;
    let name = format!("new-{}", mode.word());
    let file = client.find(&name).await?;
    let path: Rc<PathBuf> = Rc::new(bed.path(&name));
    let writes: Vec<_> = (0..40_u64)
        .map(|i| (i * 50_001, source.take(50_001)))
        .collect();
    let writer = client.clone();
    let local = Rc::clone(&path);
    pipelined(16, writes, move |(offset, data)| {
        let (client, path) = (writer.clone(), Rc::clone(&local));
        async move {
            let reply = client
                .nfs
                .write(&file, offset, StableHow::Unstable, data.clone())
                .await?;
            let written = match reply {
                Ok(ok) => ok.count as usize,
                Err(failure) if full_status(failure.status) => 0,
                Err(failure) => bail!("WRITE at {offset}: {:?}", failure.status),
            };
            let mut found = vec![0; written];
            File::open(&*path)?.read_exact_at(&mut found, offset)?;
            same(&data[..written], &found).with_context(|| format!("WRITE at {offset}"))
        }
    })
    .await?;
    match client.nfs.commit(&file, 0, 0).await? {
        Ok(_) => {}
        Err(failure) if full_status(failure.status) => {}
        Err(failure) => bail!("COMMIT: {:?}", failure.status),
    }
    Ok(0)
}

/// The whole WRITE succeeds now, and is there.
async fn room_again(
    bed: &Bed,
    mode: Mode,
    stable: StableHow,
    name: &str,
    source: &Source,
) -> Result<()> {
    let client = Client::new(bed.address, mode).await?;
    let file = client.find(name).await?;
    let path = bed.path(name);
    let mut expected = std::fs::read(&path)?;
    let data = source.take((END - START) as usize);
    expected[START as usize..END as usize].copy_from_slice(&data);
    client.write(&file, START, stable, data).await?;
    ok("COMMIT", client.nfs.commit(&file, 0, 0)).await?;
    drop_cache(&path)?;
    let (found, _) = client.read(&file, 0, expected.len() as u32).await?;
    same(&expected, &found)?;
    local_is(&path, 0, &expected, expected.len() as u64)
}

fn btrfs(arguments: &[&str], point: &Path) -> Result<()> {
    output(Command::new("btrfs").args(arguments).arg(point)).map(drop)
}

/// Checks a file system with a quota, which refuses to hold more than that.
fn limited(context: &Context, random: &mut Rng) -> Result<String> {
    let mut bed = Bed::new(context, Ground::Btrfs, 256)?;
    let source = Source::new(random.fork(), 256 << 10);
    btrfs(&["quota", "enable"], &bed.export)?;
    let mut refused = Vec::new();
    for (i, mode) in (1..).zip(Mode::ALL) {
        btrfs(&["qgroup", "limit", &format!("{}M", 4 * i)], &bed.export)?;
        let count = block_on(until_limit(&bed, mode, &source)).with_context(|| mode.word())?;
        refused.push(count.to_string());
        bed.server()?.alive()?;
    }
    btrfs(&["qgroup", "limit", "none"], &bed.export)?;
    for mode in Mode::ALL {
        block_on(async {
            let client = Client::new(bed.address, mode).await?;
            let file = client.find(&format!("limited-{}", mode.word())).await?;
            client
                .write(&file, START, StableHow::FileSync, source.take(100_000))
                .await
        })
        .with_context(|| format!("{}, without the limit", mode.word()))?;
    }
    bed.stop()?;
    Ok(format!("quota: {} WRITEs refused", refused.join("+")))
}

/// WRITEs until the limit refuses one; returns how many it refused.
async fn until_limit(bed: &Bed, mode: Mode, source: &Source) -> Result<u64> {
    let name = format!("limited-{}", mode.word());
    let path = bed.path(&name);
    File::create(&path)?;
    let client = Client::new(bed.address, mode).await?;
    let file = client.find(&name).await?;
    let (mut at, mut refused) = (START, 0);
    let mut model = vec![0; START as usize];
    for _ in 0..400 {
        let data = source.take(100_003);
        match client
            .nfs
            .write(&file, at, StableHow::Unstable, data.clone())
            .await?
        {
            Ok(ok) => {
                let count = ok.count as usize;
                model.extend_from_slice(&data[..count]);
                at += count as u64;
            }
            Err(failure) if full_status(failure.status) => {
                refused += 1;
                if refused == 5 {
                    break;
                }
            }
            Err(failure) => bail!("WRITE at {at}: {:?}", failure.status),
        }
    }
    ensure!(refused > 0, "{at} bytes and no end");
    let mut found = std::fs::read(&path)?;
    found.truncate(model.len());
    same(&model, &found)?;
    Ok(refused)
}

/// `RLIMIT_FSIZE` in the middle of a WRITE, off every alignment. The kernel's signal for it must
/// not end the server.
fn too_long(context: &Context) -> Result<String> {
    const LIMIT: u64 = (1 << 20) + 1000;
    let mut bed = Bed::new(context, Ground::Xfs, 320)?;
    bed.server()?.limit_file_size(LIMIT)?;
    let source = Source::new(Rng::with_seed(context.seed), 256 << 10);
    for mode in Mode::ALL {
        let name = format!("long-{}", mode.word());
        let path = bed.path(&name);
        File::create(&path)?;
        for stable in [StableHow::Unstable, StableHow::FileSync] {
            let offset = LIMIT - 30_001;
            let data = source.take(60_000);
            let written = block_on(async {
                let client = Client::new(bed.address, mode).await?;
                let file = client.find(&name).await?;
                let beyond = client.nfs.write(&file, LIMIT, stable, data.clone()).await?;
                match beyond {
                    Err(failure) if failure.status == Nfsstat3::Fbig => {}
                    other => bail!("beyond the limit: {other:?}"),
                }
                let reply = client
                    .nfs
                    .write(&file, offset, stable, data.clone())
                    .await?;
                let ok = reply.map_err(|failure| anyhow!("{:?}", failure.status))?;
                Ok(ok.count as usize)
            });
            let what = || format!("{}, {stable:?}", mode.word());
            let written = written.with_context(what)?;
            bed.server()?.alive().with_context(what)?;
            ensure!(
                written > 0 && written as u64 <= LIMIT - offset,
                "{}: {written} bytes written",
                what()
            );
            let mut found = vec![0; written];
            OpenOptions::new()
                .read(true)
                .open(&path)?
                .read_exact_at(&mut found, offset)?;
            same(&data[..written], &found).with_context(what)?;
        }
    }
    bed.stop()?;
    Ok("too long: 12 WRITEs".to_owned())
}
