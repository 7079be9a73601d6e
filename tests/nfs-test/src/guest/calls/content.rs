//! The bytes of files.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, Result};
use nfs_lab::pattern;

use crate::guest::check::{forget_pages, holds_pattern, holds_zeros, same};
use crate::map::Map;

/// Makes a file that must not be there yet, open for reading and writing.
pub(super) fn new_file(path: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .with_context(|| format!("create {}", path.display()))
}

pub(super) fn create_write_read(dir: &Path) -> Result<()> {
    const SIZES: &[usize] = &[
        0, 1, 3, 4095, 4096, 4097, 65_536, 1_048_575, 1_048_579, 9_000_001,
    ];
    for (tag, size) in (1..).zip(SIZES) {
        let path = dir.join(format!("size-{size}"));
        let mut file = new_file(&path)?;
        file.write_all(&pattern::bytes(tag, 0, *size))
            .context("write")?;
        same(file.metadata()?.len(), *size as u64, "size while open")?;
        forget_pages(&file)?;
        drop(file);
        let mut file = File::open(&path)?;
        let mut found = Vec::new();
        file.read_to_end(&mut found)?;
        same(found.len(), *size, "bytes read")?;
        same(
            pattern::first_difference(tag, 0, &found),
            None,
            "first wrong byte",
        )?;
        // Overwriting a piece in the middle leaves the rest alone.
        if *size > 5000 {
            let file = OpenOptions::new().read(true).write(true).open(&path)?;
            file.write_all_at(&pattern::bytes(tag + 100, 2500, 1000), 2500)?;
            forget_pages(&file)?;
            holds_pattern(&file, tag, 0, 2500)?;
            holds_pattern(&file, tag + 100, 2500, 1000)?;
            holds_pattern(&file, tag, 3500, size - 3500)?;
        }
    }
    Ok(())
}

pub(super) fn append(dir: &Path) -> Result<()> {
    let path = dir.join("log");
    let mut at = 0;
    for round in 0..20_usize {
        let mut file = OpenOptions::new().append(true).create(true).open(&path)?;
        for _ in 0..5 {
            let len = 100 + round * 37;
            file.write_all(&pattern::bytes(7, at, len))?;
            at += len as u64;
        }
        if round % 4 == 0 {
            // O_APPEND goes to the end wherever the file position is.
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&pattern::bytes(7, at, 11))?;
            at += 11;
        }
    }
    same(fs::metadata(&path)?.len(), at, "size")?;
    let file = File::open(&path)?;
    holds_pattern(&file, 7, 0, at as usize)
}

pub(super) fn truncate(dir: &Path) -> Result<()> {
    let path = dir.join("file");
    let file = new_file(&path)?;
    file.write_all_at(&pattern::bytes(3, 0, 50_000), 0)?;
    for size in [
        49_999, 20_480, 20_481, 4_097, 4_096, 10, 30_000, 30_001, 100_000,
    ] {
        let before = file.metadata()?.len();
        file.set_len(size)
            .with_context(|| format!("set size {size}"))?;
        same(file.metadata()?.len(), size, "size after ftruncate")?;
        forget_pages(&file)?;
        let kept = before.min(size).min(10);
        holds_pattern(&file, 3, 0, kept as usize)?;
        if size > before {
            holds_zeros(&file, before, (size - before) as usize)?;
        }
    }
    // What was cut off must not come back.
    holds_zeros(&file, 10, 99_990)?;
    drop(file);
    // By path: open with O_TRUNC, then truncate up.
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .truncate(true)
        .open(&path)?;
    same(file.metadata()?.len(), 0, "size after O_TRUNC")?;
    file.set_len(777)?;
    holds_zeros(&file, 0, 777)
}

pub(super) fn sparse(dir: &Path) -> Result<()> {
    let path = dir.join("sparse");
    let file = new_file(&path)?;
    let places: [u64; 3] = [0, (1 << 20) + 5, 20 << 20];
    for at in places {
        file.write_all_at(&pattern::bytes(5, at, 6000), at)?;
    }
    forget_pages(&file)?;
    for at in places {
        holds_pattern(&file, 5, at, 6000)?;
    }
    holds_zeros(&file, 6000, (1 << 20) + 5 - 6000)?;
    holds_zeros(&file, (1 << 20) + 6005, 1 << 20)?;
    holds_zeros(&file, (20 << 20) - 70_000, 70_000)?;
    let meta = file.metadata()?;
    same(meta.len(), (20 << 20) + 6000, "size")?;
    same(
        meta.blocks() * 512 < (1 << 20),
        true,
        "a sparse file's `used` is small",
    )
}

pub(super) fn beyond_4_gib(dir: &Path) -> Result<()> {
    const GIB_4: u64 = 1 << 32;
    let file = new_file(&dir.join("large"))?;
    for at in [GIB_4 - 3000, GIB_4 * 2 + 1, 1 << 40] {
        file.write_all_at(&pattern::bytes(6, at, 6000), at)
            .with_context(|| format!("write at {at}"))?;
        same(file.metadata()?.len(), at + 6000, "size")?;
    }
    forget_pages(&file)?;
    for at in [GIB_4 - 3000, GIB_4 * 2 + 1, 1 << 40] {
        holds_pattern(&file, 6, at, 6000).with_context(|| format!("read at {at}"))?;
    }
    // Offsets that differ only above bit 32 must not be mixed up.
    holds_zeros(&file, 0, 6000)?;
    holds_zeros(&file, GIB_4 * 2 - 3000, 3000)?;
    file.set_len(GIB_4 + 1)?;
    holds_pattern(&file, 6, GIB_4 - 3000, 3001)?;
    same(file.metadata()?.len(), GIB_4 + 1, "size after truncation")
}

pub(super) fn mmap_read(dir: &Path) -> Result<()> {
    let path = dir.join("mapped");
    let size = 1_500_001;
    let file = new_file(&path)?;
    file.write_all_at(&pattern::bytes(8, 0, size), 0)?;
    forget_pages(&file)?;
    let map = Map::new(&file, size)?;
    for at in [0, 4095, 700_001, size - 5000] {
        let mut found = vec![0; 5000];
        map.read(at, &mut found)?;
        same(
            pattern::first_difference(8, at as u64, &found),
            None,
            "first wrong byte",
        )?;
    }
    // What write() changes shows in the map.
    file.write_all_at(&pattern::bytes(9, 4000, 300), 4000)?;
    let mut found = vec![0; 300];
    map.read(4000, &mut found)?;
    same(
        pattern::first_difference(9, 4000, &found),
        None,
        "write() seen through the map",
    )
}

pub(super) fn mmap_write(dir: &Path) -> Result<()> {
    let path = dir.join("mapped");
    let size = 300_000;
    let file = new_file(&path)?;
    file.set_len(size as u64)?;
    let map = Map::new(&file, size)?;
    for at in [0_usize, 5000, 123_457, size - 10] {
        let len = (size - at).min(4500);
        map.write(at, &pattern::bytes(10, at as u64, len))?;
    }
    drop(map);
    forget_pages(&file)?;
    holds_pattern(&file, 10, 0, 4500)?;
    holds_zeros(&file, 4500, 500)?;
    holds_pattern(&file, 10, 5000, 4500)?;
    holds_pattern(&file, 10, 123_457, 4500)?;
    holds_pattern(&file, 10, size as u64 - 10, 10)?;
    same(file.metadata()?.len(), size as u64, "size")
}

pub(super) fn direct(dir: &Path) -> Result<()> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .custom_flags(rustix::fs::OFlags::DIRECT.bits().cast_signed())
        .open(dir.join("direct"))?;
    let size = 3 << 20;
    file.write_all_at(&pattern::bytes(11, 0, size), 0)?;
    holds_pattern(&file, 11, 0, size)?;
    // NFS takes any alignment.
    file.write_all_at(&pattern::bytes(12, 1001, 70_003), 1001)?;
    holds_pattern(&file, 12, 1001, 70_003)?;
    holds_pattern(&file, 11, 71_004, 100_000)?;
    let mut past_end = [0; 100];
    same(
        file.read_at(&mut past_end, size as u64 + 5)?,
        0,
        "read past the end",
    )?;
    same(
        file.read_at(&mut past_end, size as u64 - 40)?,
        40,
        "read across the end",
    )
}

pub(super) fn synchronous(dir: &Path) -> Result<()> {
    for (name, flag) in [
        ("sync", rustix::fs::OFlags::SYNC),
        ("dsync", rustix::fs::OFlags::DSYNC),
    ] {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .custom_flags(flag.bits().cast_signed())
            .open(dir.join(name))?;
        for i in 0..20 {
            let at = i * 5000;
            file.write_all_at(&pattern::bytes(13, at, 5000), at)?;
        }
        forget_pages(&file)?;
        holds_pattern(&file, 13, 0, 100_000)?;
    }
    Ok(())
}

pub(super) fn streams_of_many_threads(dir: &Path) -> Result<()> {
    let shared = new_file(&dir.join("shared"))?;
    let shared = &shared;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4_u64)
            .map(|worker| {
                scope.spawn(move || -> Result<()> {
                    let own = new_file(&dir.join(format!("own-{worker}")))?;
                    for i in 0..64 {
                        let at = i * 65_536;
                        own.write_all_at(&pattern::bytes(20 + worker, at, 65_536), at)?;
                        let at = (i * 4 + worker) * 10_000;
                        shared.write_all_at(&pattern::bytes(30, at, 10_000), at)?;
                    }
                    forget_pages(&own)?;
                    holds_pattern(&own, 20 + worker, 0, 64 * 65_536)
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| {
            worker
                .join()
                .unwrap_or_else(|_| Err(anyhow::anyhow!("a writer panicked")))
        })
    })?;
    forget_pages(shared)?;
    holds_pattern(shared, 30, 0, 64 * 4 * 10_000)
}
