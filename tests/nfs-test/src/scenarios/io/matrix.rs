//! Offsets and lengths around the edges of sectors, blocks and pages, in each mode, on each file
//! system, against a model in memory.
//!
//! READs: every pair of edges (each multiple of the sector and of the page up to 3 blocks, two
//! bytes either side) and a random sample, on files that end at and beside an edge, with holes; on
//! disks with sectors of 512 bytes also every offset from 0 to 3 sectors with each edge as length
//! and the other way round, and with `--full` every offset with every length. WRITEs: the same
//! pairs and a sample, each in a slot of its own of one file, many at once, so that neighbours meet
//! in pages and blocks; the file is also cut down and grows again.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use nfs_client::nfs3::FileHandle;

use super::bed::{Bed, Client, DEPTH, Ground, Mode, Source, drop_cache, local_is, pipelined, same};
use super::figures::Control;
use super::{large, records};
use crate::host::Context;
use crate::host::wire::{block_on, ok};

const GROUNDS: [Ground; 6] = [
    Ground::Xfs,
    Ground::XfsOn4096,
    Ground::Ext4,
    Ground::Btrfs,
    Ground::Tmpfs,
    Ground::Overlay,
];
/// Bytes of a block of the file systems, at whose multiples a direct WRITE is split.
const BLOCK: u64 = 4096;
/// Size in bytes of a sector of the smaller kind.
const SECTOR: u64 = 512;
/// Bytes of the file that belong to one WRITE at a time: it begins and ends in the first 6 blocks,
/// and what the next slot does shares the last page.
const SLOT: u64 = 6 * BLOCK + 1;
/// Number of WRITEs under way at once.
const SLOTS: u64 = 48;

pub(in crate::scenarios) fn run(context: &Context) -> Result<String> {
    let mut random = Rng::with_seed(context.seed);
    let (mut reads, mut writes, mut bytes) = (0, 0, 0);
    for ground in GROUNDS {
        let mut bed = Bed::new(context, ground, 512)?;
        for mode in Mode::ALL {
            let what = || {
                format!(
                    "{} on {}, seed {}",
                    mode.word(),
                    ground.name(),
                    context.seed
                )
            };
            let random = &mut random;
            let done = block_on(async {
                let client = Client::new(bed.address, mode).await?;
                let reads = read_cases(context, &bed, &client, ground, random).await?;
                let writes = write_cases(context, &bed, &client, random).await?;
                let moved = large::run(context, &bed, &client, random.fork()).await?;
                let moved = moved + records::run(context, &bed, &client, random.fork()).await?;
                Ok((reads, writes, moved))
            });
            let done = done.with_context(what)?;
            reads += done.0;
            writes += done.1;
            bytes += done.2;
        }
        let figures = Control::new(&context.lab.program, bed.state()).figures()?;
        for mode in Mode::ALL {
            let what = || format!("{} on {}", mode.word(), ground.name());
            figures.went_as_decided(mode).with_context(what)?;
        }
        let what = || format!("staged on {}, seed {}", ground.name(), context.seed);
        let done = staged(context, &bed, ground, &mut random).with_context(what)?;
        writes += done.0;
        bytes += done.1;
        bed.stop()?;
    }
    Ok(format!(
        "{reads} READs and {writes} WRITEs at edges, {} MiB in large and random ones, {} file systems x {} modes",
        bytes >> 20,
        GROUNDS.len(),
        Mode::ALL.len()
    ))
}

/// The WRITEs again in mode direct with their ends staged. Whatever is held goes into the file before the server's
/// own disk is looked at: a client has read all of it by then, or committed it.
async fn staged_writes(context: &Context, bed: &Bed, random: &mut Rng) -> Result<(u64, u64)> {
    let client = Client::new(bed.address, Mode::Direct).await?;
    let writes = write_cases(context, bed, &client, random).await?;
    let bytes = records::run(context, bed, &client, random.fork()).await?;
    Ok((writes, bytes))
}

fn staged(context: &Context, bed: &Bed, ground: Ground, random: &mut Rng) -> Result<(u64, u64)> {
    let control = Control::new(&context.lab.program, bed.state());
    control.tell(&["io", &Mode::Direct.export(), "--staging", "on"])?;
    let done = block_on(staged_writes(context, bed, random))?;
    let count = |name| nfs_lab::counter(&context.lab, bed.state(), name);
    // These say how direct I/O is aligned.
    if !matches!(ground, Ground::Btrfs | Ground::Tmpfs) {
        for name in ["staged_writes", "staged_blocks_completed"] {
            ensure!(count(name)? > 0, "{name} is 0");
        }
    }
    ensure!(count("staged_blocks_lost")? == 0, "held bytes were lost");
    Ok(done)
}

/// 0 to 3 blocks: each multiple of `step` with two bytes either side.
fn edges(step: u64, within: u64) -> BTreeSet<u64> {
    (0..=within / step)
        .map(|i| i * step)
        .flat_map(|edge| edge.saturating_sub(2)..=edge + 2)
        .filter(|at| *at <= within)
        .collect()
}

fn pairs(a: &BTreeSet<u64>, b: &BTreeSet<u64>) -> Vec<(u64, u64)> {
    a.iter().flat_map(|a| b.iter().map(|b| (*a, *b))).collect()
}

fn sample(random: &mut Rng, count: usize) -> impl Iterator<Item = (u64, u64)> {
    (0..count).map(|_| (random.u64(..3 * BLOCK + 1), random.u64(..3 * BLOCK + 1)))
}

/// A file to read: how long, and where it has a hole.
struct Content {
    size: u64,
    hole: Option<std::ops::Range<u64>>,
}

const CONTENTS: [Content; 7] = [
    whole(3 * BLOCK),
    whole(3 * BLOCK - 1),
    whole(2 * BLOCK + SECTOR + 1),
    whole(SECTOR),
    whole(1),
    whole(0),
    Content {
        size: 3 * BLOCK - 700,
        hole: Some(BLOCK..2 * BLOCK),
    },
];

const fn whole(size: u64) -> Content {
    Content { size, hole: None }
}

impl Content {
    /// Writes the file and returns its bytes.
    fn make(&self, path: &Path, source: &Source) -> Result<Vec<u8>> {
        let mut bytes = source.take(self.size as usize).to_vec();
        let file = File::create(path)?;
        file.set_len(self.size)?;
        if let Some(hole) = &self.hole {
            bytes[hole.start as usize..hole.end as usize].fill(0);
            file.write_all_at(&bytes[..hole.start as usize], 0)?;
            file.write_all_at(&bytes[hole.end as usize..], hole.end)?;
        } else {
            file.write_all_at(&bytes, 0)?;
        }
        Ok(bytes)
    }
}

async fn read_cases(
    context: &Context,
    bed: &Bed,
    client: &Client,
    ground: Ground,
    random: &mut Rng,
) -> Result<u64> {
    let source = Source::new(random.fork(), 3 * BLOCK as usize);
    let around_blocks = edges(BLOCK, 3 * BLOCK);
    let mut done = 0;
    for (i, content) in CONTENTS.iter().enumerate() {
        let name = format!("read-{i}");
        let bytes = content.make(&bed.path(&name), &source)?;
        let file = client.find(&name).await?;
        let mut cases = pairs(&around_blocks, &around_blocks);
        cases.extend(sample(random, if context.quick { 100 } else { 400 }));
        if i == 2 {
            cases.extend(sector_cases(context, ground));
        }
        for cached in [true, false] {
            if !cached {
                drop_cache(&bed.path(&name))?;
            }
            done += read_all(client, file, &bytes, &cases)
                .await
                .with_context(|| format!("a file of {} bytes", content.size))?;
        }
        local_is(&bed.path(&name), 0, &bytes, content.size)?;
    }
    Ok(done)
}

/// Where the disk's sectors are smaller than a page, READs are rounded to them.
fn sector_cases(context: &Context, ground: Ground) -> Vec<(u64, u64)> {
    let around = edges(SECTOR, 3 * SECTOR);
    let all: BTreeSet<u64> = (0..=3 * SECTOR).collect();
    match ground {
        Ground::Xfs if context.full => pairs(&all, &all),
        Ground::Xfs if !context.quick => [pairs(&all, &around), pairs(&around, &all)].concat(),
        _ => pairs(&around, &around),
    }
}

/// READs the cases; all of them have to give exactly what the file has there.
async fn read_all(
    client: &Client,
    file: FileHandle,
    bytes: &[u8],
    cases: &[(u64, u64)],
) -> Result<u64> {
    let (client, bytes) = (client.clone(), Rc::new(bytes.to_vec()));
    pipelined(DEPTH, cases.to_vec(), move |(offset, len)| {
        let (client, bytes) = (client.clone(), Rc::clone(&bytes));
        async move {
            let (data, eof) = client.read(&file, offset, len as u32).await?;
            let size = bytes.len() as u64;
            let expected = &bytes[offset.min(size) as usize..(offset + len).min(size) as usize];
            let what = || format!("READ of {len} at {offset} of {size}");
            same(expected, &data).with_context(what)?;
            ensure!(eof == (offset + len >= size), "{}: eof is {eof}", what());
            Ok(())
        }
    })
    .await
}

async fn write_cases(
    context: &Context,
    bed: &Bed,
    client: &Client,
    random: &mut Rng,
) -> Result<u64> {
    let source = Source::new(random.fork(), 64 << 10);
    let name = "written";
    let path = bed.path(name);
    File::create(&path)?;
    let mut around = edges(BLOCK, 3 * BLOCK);
    around.extend([511, 512, 513, 1024, 3583, 3584, 4608, 7680]);
    let mut cases = pairs(&around, &around);
    cases.extend(sample(random, if context.quick { 200 } else { 1200 }));
    // Not in their order: neighbouring slots do different things at the same time.
    for i in (1..cases.len()).rev() {
        cases.swap(i, random.usize(..i + 1));
    }
    if context.quick {
        cases.truncate(500);
    }
    let slots = Slots {
        client: client.clone(),
        file: client.find(name).await?,
        source,
        model: Rc::default(),
    };
    for (round, batch) in cases.chunks(SLOTS as usize).enumerate() {
        let what = || format!("batch {round}");
        slots.write(batch).await.with_context(what)?;
        slots.read().await.with_context(what)?;
        let model = slots.model.borrow().clone();
        // Not always, so that the pages which this read leaves behind are there for some batches only.
        if round % 3 == 0 {
            local_is(&path, 0, &model, model.len() as u64).with_context(what)?;
        }
        if round % 5 == 4 {
            slots.cut().await.with_context(what)?;
        }
        if round % 4 == 3 {
            drop_cache(&path)?;
        }
    }
    ok("COMMIT", client.nfs.commit(&slots.file, 0, 0)).await?;
    drop_cache(&path)?;
    slots.read().await.context("from the disk")?;
    let model = slots.model.borrow();
    local_is(&path, 0, &model, model.len() as u64)?;
    Ok(cases.len() as u64)
}

/// A file in slots, and what has to be in it.
struct Slots {
    client: Client,
    file: FileHandle,
    source: Source,
    model: Rc<RefCell<Vec<u8>>>,
}

impl Slots {
    /// A WRITE to each slot, all at once.
    async fn write(&self, cases: &[(u64, u64)]) -> Result<u64> {
        let items: Vec<_> = (0..)
            .zip(cases)
            .map(|(slot, (at, len))| {
                let offset = slot * SLOT + at;
                let data = self.source.take(*len as usize);
                let mut model = self.model.borrow_mut();
                let end = (offset + len) as usize;
                // A WRITE of nothing does not make a file longer (RFC 1813 §3.3.7).
                if *len > 0 {
                    if model.len() < end {
                        model.resize(end, 0);
                    }
                    model[offset as usize..end].copy_from_slice(&data);
                }
                (offset, data, self.source.stable())
            })
            .collect();
        let (client, file) = (self.client.clone(), self.file);
        pipelined(SLOTS as usize, items, move |(offset, data, stable)| {
            let client = client.clone();
            async move { client.write(&file, offset, stable, data).await.map(drop) }
        })
        .await
    }

    /// READs the whole file in pieces that know nothing of the slots.
    async fn read(&self) -> Result<u64> {
        let size = self.model.borrow().len() as u64;
        let mut pieces = Vec::new();
        let mut at = 0;
        while at < size {
            let len = 1 + self.source.below(90_000);
            pieces.push((at, len));
            at += len;
        }
        let bytes = self.model.borrow().clone();
        read_all(&self.client, self.file, &bytes, &pieces).await
    }

    /// Cuts the file down somewhere: the next batch makes it grow again, and what was cut off must
    /// not come back.
    async fn cut(&self) -> Result<()> {
        let size = self.source.below(self.model.borrow().len() as u64 + 1);
        self.client.resize(&self.file, size).await?;
        self.model.borrow_mut().truncate(size as usize);
        Ok(())
    }
}
