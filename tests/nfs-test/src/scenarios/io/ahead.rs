//! What is read ahead of direct READs, while the file is written to: by other clients, past the cache and through
//! it, and by a process on the server's own machine. Every byte that a READ brings is one that the file held when
//! or after the READ was sent.
//!
//! A file that is written to all the time is not read ahead. So writes come in bursts, with pauses in between in
//! which the readers, which never stop, get ahead of themselves.

use std::cell::{Cell as Shared, RefCell};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use fastrand::Rng;
use nfs_client::nfs3::{FileHandle, StableHow};

use super::bed::{Bed, Client, Ground, Mode, pipelined};
use super::cells::{Cells, Owner};
use super::figures::{Ahead, Control};
use crate::host::Context;
use crate::host::wire::{block_on, ok};

const GROUNDS: [Ground; 2] = [Ground::Xfs, Ground::Ext4];
/// Size of the file in bytes.
const SIZE: u64 = 4 << 20;
/// The length of the READs of each reader, in bytes.
const READS: [u64; 4] = [64 << 10, 256 << 10, 100_000, 1 << 20];
/// How long the file is left alone between two bursts: longer than the server waits until it reads ahead.
const PAUSE: Duration = Duration::from_millis(150);
/// Writes of a burst, by clients and by the local process.
const WRITES: [usize; 2] = [12, 4];
/// Bursts at least, and with `--quick`.
const BURSTS: [u32; 2] = [25, 8];
/// How long bursts go on until each kind of write has met what was read ahead. It takes as many as above.
const PATIENCE: Duration = Duration::from_secs(120);
const NAME: &str = "streamed";

pub(in crate::scenarios) fn run(context: &Context) -> Result<String> {
    let mut random = Rng::with_seed(context.seed);
    let mut notes = Vec::new();
    for ground in GROUNDS {
        let mut bed = Bed::new(context, ground, 320)?;
        let cells = Arc::new(Cells::new(&mut random, SIZE, false));
        std::fs::write(bed.path(NAME), cells.initial())?;
        let (reads, bursts) = block_on(readers_and_writers(context, &bed, &cells, &mut random))
            .with_context(|| format!("{}, seed {}", ground.name(), context.seed))?;
        let control = Control::new(&context.lab.program, bed.state());
        let ahead = control.figures()?.ahead(&Mode::Direct.export());
        notes.push(format!(
            "{}: {reads} READs, {} of them from {} pieces, beside {bursts} bursts",
            ground.name(),
            ahead.answered,
            ahead.pieces
        ));
        bed.stop()?;
    }
    Ok(notes.join("; "))
}

async fn readers_and_writers(
    context: &Context,
    bed: &Bed,
    cells: &Arc<Cells>,
    random: &mut Rng,
) -> Result<(u64, u32)> {
    let end = Rc::new(Shared::new(false));
    let mut readers = Vec::new();
    for len in READS {
        let reader = Rc::new(Reader {
            client: Client::new(bed.address, Mode::Direct).await?,
            cells: Arc::clone(cells),
            at: Shared::new(0),
            len,
        });
        let file = reader.client.find(NAME).await?;
        let end = Rc::clone(&end);
        let until_the_end = std::iter::from_fn(move || (!end.get()).then_some(()));
        readers.push(tokio::task::spawn_local(pipelined(
            1,
            until_the_end,
            move |()| {
                let reader = Rc::clone(&reader);
                async move { reader.read(&file).await }
            },
        )));
    }
    let writers = Writers::new(bed, cells, random).await?;
    let control = Control::new(&context.lab.program, bed.state());
    let bursts = bursts(context, &writers, &control, &readers).await;
    end.set(true);
    let mut reads = 0;
    for reader in readers {
        reads += reader.await??;
    }
    Ok((reads, bursts?))
}

/// Writes, with pauses, until what was read ahead has met every kind of write. Ends early where a reader has.
async fn bursts(
    context: &Context,
    writers: &Writers,
    control: &Control,
    readers: &[tokio::task::JoinHandle<Result<u64>>],
) -> Result<u32> {
    let least = BURSTS[usize::from(context.quick)];
    let until = Instant::now() + PATIENCE;
    let mut bursts = 0;
    while !readers.iter().any(|reader| reader.is_finished()) {
        // SLEEP: a file is read ahead when nobody has changed it for some time.
        tokio::time::sleep(PAUSE).await;
        let ahead = control.figures()?.ahead(&Mode::Direct.export());
        if bursts >= least && has_met_all(&ahead) {
            break;
        }
        ensure!(
            Instant::now() < until,
            "after {bursts} bursts writes have not met what was read ahead: {ahead:?}"
        );
        if bursts % 2 == 0 {
            writers.over_nfs().await?;
        } else {
            writers.locally().await?;
        }
        bursts += 1;
    }
    Ok(bursts)
}

fn has_met_all(ahead: &Ahead) -> bool {
    let met = |why| ahead.dropped_bytes.get(why).is_some_and(|bytes| *bytes > 0);
    ahead.answered > 0 && met("written") && met("changed-locally")
}

/// Reads the file from one end to the other, again and again, one READ at a time.
struct Reader {
    client: Client,
    cells: Arc<Cells>,
    at: Shared<u64>,
    len: u64,
}

impl Reader {
    async fn read(&self, file: &FileHandle) -> Result<()> {
        let (start, size) = (self.at.get(), self.cells.size());
        let end = (start + self.len).min(size);
        let expected = self.cells.begin_read(start..end);
        let (data, eof) = self.client.read(file, start, self.len as u32).await?;
        expected
            .check(&data)
            .with_context(|| format!("READ of {} at {start}", self.len))?;
        ensure!(eof == (end == size), "the end of the file at {end}: {eof}");
        self.at.set(if eof { 0 } else { end });
        Ok(())
    }
}

struct Writers {
    views: Vec<(Client, FileHandle)>,
    cells: Arc<Cells>,
    local: Arc<File>,
    random: RefCell<Rng>,
}

impl Writers {
    async fn new(bed: &Bed, cells: &Arc<Cells>, random: &mut Rng) -> Result<Self> {
        let mut views = Vec::new();
        for mode in Mode::ALL {
            let client = Client::new(bed.address, mode).await?;
            let file = client.find(NAME).await?;
            views.push((client, file));
        }
        let local = OpenOptions::new().write(true).open(bed.path(NAME))?;
        Ok(Self {
            views,
            cells: Arc::clone(cells),
            local: Arc::new(local),
            random: RefCell::new(random.fork()),
        })
    }

    /// By clients in every mode, each through an export of its own.
    async fn over_nfs(&self) -> Result<()> {
        for number in 0..WRITES[0] {
            let claimed = self
                .cells
                .claim(&mut self.random.borrow_mut(), Owner::Remote);
            let Some((cell, data)) = claimed else {
                continue;
            };
            let (client, file) = &self.views[number % self.views.len()];
            let data = Bytes::from(data);
            let stable = StableHow::Unstable;
            client.write(file, cell.file.start, stable, data).await?;
            cell.acknowledge();
        }
        let (client, file) = &self.views[0];
        ok("COMMIT", client.nfs.commit(file, 0, 0)).await?;
        Ok(())
    }

    /// By a program of the server's own machine, beside the READs.
    async fn locally(&self) -> Result<()> {
        let (cells, file) = (Arc::clone(&self.cells), Arc::clone(&self.local));
        let mut random = self.random.borrow_mut().fork();
        let writes = tokio::task::spawn_blocking(move || {
            for _ in 0..WRITES[1] {
                if let Some((cell, data)) = cells.claim(&mut random, Owner::Local) {
                    file.write_all_at(&data, cell.file.start)?;
                    cell.acknowledge();
                }
            }
            anyhow::Ok(())
        });
        writes.await?
    }
}
