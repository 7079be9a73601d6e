//! Random READs, WRITEs and changes of size on a sparse file: up to the server's largest transfer,
//! odd offsets, beyond 4 GiB, ends inside a block. One operation after the other on each file,
//! several files at once; everything is compared with a model in memory.

use std::fs::File;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use nfs_client::nfs3::FileHandle;

use super::bed::{Bed, Client, Source, drop_cache, local_is, pipelined, same};
use crate::host::Context;
use crate::host::wire::ok;

/// Number of files that are worked on at once.
const FILES: u64 = 3;
/// Bytes of a window: the parts of the file that are ever written.
const WINDOW: u64 = 6 << 20;
/// Where the windows begin: one passes 4 GiB, one is far out, neither at the edge of a page.
const WINDOWS: [u64; 3] = [0, (4 << 30) - (2 << 20) - 77, (1 << 40) + 4095];
/// How many of the last operations a failure shows.
const HISTORY: usize = 8;

/// Runs on the export of `client`; returns how many bytes were moved.
pub(super) async fn run(
    context: &Context,
    bed: &Bed,
    client: &Client,
    mut random: Rng,
) -> Result<u64> {
    let info = ok("FSINFO", client.nfs.fsinfo(&client.root)).await?;
    let most = u64::from(info.wtmax.min(info.rtmax));
    let steps = if context.quick { 25 } else { 60 };
    let mut works = Vec::new();
    for i in 0..FILES {
        let path = bed.path(&format!("large-{i}"));
        File::create(&path)?;
        let file = client.find(&format!("large-{i}")).await?;
        let model = Model {
            size: 0,
            windows: WINDOWS.map(|start| (start, vec![0; WINDOW as usize])),
        };
        let source = Source::new(random.fork(), most as usize);
        works.push((file, path, model, source));
    }
    let moved = std::rc::Rc::new(std::cell::Cell::new(0));
    let (client, total) = (client.clone(), std::rc::Rc::clone(&moved));
    pipelined(FILES as usize, works, move |(file, path, model, source)| {
        let (client, moved) = (client.clone(), std::rc::Rc::clone(&total));
        async move {
            let mut work = Work {
                client,
                file,
                model,
                source,
                most,
                moved: 0,
                history: Vec::new(),
            };
            let outcome = work.run(&path, steps).await;
            moved.set(moved.get() + work.moved);
            let from = work.history.len().saturating_sub(HISTORY);
            outcome.with_context(|| {
                let last = work.history[from..].join("; ");
                format!("{}: after {last}", path.display())
            })
        }
    })
    .await?;
    for i in 0..FILES {
        std::fs::remove_file(bed.path(&format!("large-{i}")))?;
    }
    Ok(moved.get())
}

/// What has to be in a file: all but the windows is a hole.
struct Model {
    size: u64,
    windows: [(u64, Vec<u8>); WINDOWS.len()],
}

impl Model {
    /// The bytes from `offset` on, no further than the file goes.
    fn bytes(&self, offset: u64, len: u64) -> Vec<u8> {
        let end = (offset + len).min(self.size).max(offset);
        let mut bytes = vec![0; (end - offset) as usize];
        for (start, window) in &self.windows {
            let (from, to) = (offset.max(*start), end.min(start + WINDOW));
            if from < to {
                bytes[(from - offset) as usize..(to - offset) as usize]
                    .copy_from_slice(&window[(from - start) as usize..(to - start) as usize]);
            }
        }
        bytes
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        for (start, window) in &mut self.windows {
            if offset >= *start && offset < *start + WINDOW {
                let at = (offset - *start) as usize;
                window[at..at + data.len()].copy_from_slice(data);
            }
        }
        if !data.is_empty() {
            self.size = self.size.max(offset + data.len() as u64);
        }
    }

    fn resize(&mut self, size: u64) {
        for (start, window) in &mut self.windows {
            let kept = size.saturating_sub(*start).min(WINDOW);
            window[kept as usize..].fill(0);
        }
        self.size = size;
    }
}

struct Work {
    client: Client,
    file: FileHandle,
    model: Model,
    source: Source,
    /// Largest READ or WRITE of the server in bytes.
    most: u64,
    moved: u64,
    history: Vec<String>,
}

impl Work {
    async fn run(&mut self, path: &Path, steps: u32) -> Result<()> {
        for _ in 0..steps {
            match self.source.below(20) {
                0..10 => self.write().await?,
                10..16 => self.read().await?,
                16..18 => self.resize().await?,
                18 => {
                    self.history.push("COMMIT".to_owned());
                    ok("COMMIT", self.client.nfs.commit(&self.file, 0, 0)).await?;
                }
                _ => {
                    self.history.push("drop the cache".to_owned());
                    drop_cache(path)?;
                }
            }
        }
        ok("COMMIT", self.client.nfs.commit(&self.file, 0, 0)).await?;
        drop_cache(path)?;
        for (start, _) in &self.model.windows {
            let expected = self.model.bytes(*start, WINDOW);
            let found = self.read_through(*start, expected.len() as u64).await?;
            same(&expected, &found).with_context(|| format!("at the end, from {start} on"))?;
            if !expected.is_empty() {
                local_is(path, *start, &expected, self.model.size)?;
            }
        }
        Ok(())
    }

    /// Anywhere in a window, of any size up to the largest that fits.
    fn range(&self) -> (u64, u64) {
        let (start, _) = &self.model.windows[self.source.below(WINDOWS.len() as u64) as usize];
        let at = self.source.below(WINDOW);
        let at = if self.source.below(3) == 0 {
            at & !4095
        } else {
            at
        };
        let len = match self.source.below(8) {
            0 => self.most,
            1 => 1 << 20,
            2 => 47_008,
            3 => 4096 * (1 + self.source.below(64)),
            4 | 5 => 1 + self.source.below(1 << 20),
            _ => 1 + self.source.below(20_000),
        };
        (start + at, len.min(WINDOW - at))
    }

    async fn write(&mut self) -> Result<()> {
        let (offset, len) = self.range();
        let stable = self.source.stable();
        self.history
            .push(format!("WRITE of {len} at {offset}, {stable:?}"));
        let data = self.source.take(len as usize);
        self.model.write(offset, &data);
        self.moved += len;
        self.client
            .write(&self.file, offset, stable, data)
            .await
            .map(drop)
    }

    async fn read(&mut self) -> Result<()> {
        let (offset, len) = self.range();
        // Some begin in the hole before a window, some go on into the one after it.
        let back = self.source.below(3) * self.source.below(100_000);
        let offset = offset.saturating_sub(back);
        let len = (len + back).min(self.most);
        self.history.push(format!("READ of {len} at {offset}"));
        self.moved += len;
        let expected = self.model.bytes(offset, len);
        let (data, eof) = self.client.read(&self.file, offset, len as u32).await?;
        same(&expected, &data).with_context(|| format!("READ of {len} at {offset}"))?;
        let end = offset + len >= self.model.size;
        ensure!(eof == end, "READ of {len} at {offset}: eof is {eof}");
        Ok(())
    }

    async fn resize(&mut self) -> Result<()> {
        let size = self.range().0;
        self.history.push(format!("size {size}"));
        self.model.resize(size);
        self.client.resize(&self.file, size).await
    }

    async fn read_through(&self, offset: u64, len: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < len {
            let at = offset + bytes.len() as u64;
            let count = (len - bytes.len() as u64).min(self.most);
            let (data, _) = self.client.read(&self.file, at, count as u32).await?;
            ensure!(!data.is_empty(), "READ at {at}: nothing");
            bytes.extend_from_slice(&data);
        }
        Ok(bytes)
    }
}
