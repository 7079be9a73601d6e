//! Clients in different modes and a local process on one file: every acknowledged write is what
//! every later read returns, in each mode, over NFS and on the server's own machine, all the time
//! and at the end; no COMMIT fails and no verifier changes.
//!
//! The file is small and hot, and its cells lie across pages and blocks, so that the cached edges
//! of direct WRITEs, cached WRITEs, direct middles, local writes and maps meet in the same pages
//! again and again. Who clients are is tried in both ways: three exports of one directory, and one
//! export with rules by client address; each without and with staged WRITEs, which the server's own machine may see
//! late.

use std::cell::{Cell as Shared, RefCell};
use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result, anyhow, ensure};
use bytes::Bytes;
use fastrand::Rng;
use nfs_client::nfs3::{FileHandle, StableHow};

use super::bed::{Bed, Client, Ground, Mode, drop_cache, pipelined, same};
use super::cells::{Cell, Cells, Expected, Owner};
use super::figures::Control;
use crate::host::Context;
use crate::host::wire::{block_on, ok};
use crate::map::Map;

const GROUNDS: [Ground; 3] = [Ground::Xfs, Ground::Ext4, Ground::Btrfs];
/// Size of the hot file in bytes.
const SIZE: u64 = 192 << 10;
/// Most bytes that one READ asks for.
const READ_MAX: u64 = 40 << 10;
/// Sequences that write, and sequences that read, over NFS.
const WRITERS: usize = 20;
const READERS: usize = 10;
/// After how many WRITEs a COMMIT comes, and after how many the cache is dropped.
const WRITES_PER_COMMIT: u64 = 40;
const WRITES_PER_DROP: u64 = 300;
const NAME: &str = "hot";

pub(in crate::scenarios) fn run(context: &Context) -> Result<String> {
    let mut random = Rng::with_seed(context.seed);
    let mut log = KernelLog::open();
    let (mut writes, mut reads, mut locals) = (0, 0, 0);
    for ground in GROUNDS {
        let mut bed = Bed::new(context, ground, 320)?;
        for round in Round::ALL {
            let what = || format!("{}, {round:?}, seed {}", ground.name(), context.seed);
            round.prepare(context, &bed).context("ctl io")?;
            let done = hammer(context, &bed, round, &mut random).with_context(what)?;
            writes += done.writes;
            reads += done.reads;
            locals += done.locals;
        }
        // btrfs does not say how direct I/O is aligned.
        let staged = nfs_lab::counter(&context.lab, bed.state(), "staged_writes")?;
        ensure!(staged > 0 || ground == Ground::Btrfs, "no WRITE was staged");
        bed.stop()?;
    }
    let complaints = log.as_mut().map(KernelLog::invalidation_failures);
    if let Some(lines) = &complaints {
        ensure!(
            lines.is_empty(),
            "the kernel's log has {} complaints such as {:?}",
            lines.len(),
            lines[0]
        );
    }
    let log = if complaints.is_some() {
        ""
    } else {
        "; the kernel's log cannot be read"
    };
    Ok(format!(
        "{writes} WRITEs and {reads} READs in 3 modes, {locals} local operations, {} file systems{log}",
        GROUNDS.len()
    ))
}

/// One time that everybody writes and reads the file.
#[derive(Debug, Clone, Copy)]
struct Round {
    /// The local process has the file mapped, and clients find their modes by rules of one export.
    mapped: bool,
    /// Direct WRITEs are staged and put in order, with space ahead of them.
    staged: bool,
}

impl Round {
    /// All of them, in an order in which rules once made stay.
    const ALL: [Self; 4] = [
        Self::new(false, false),
        Self::new(false, true),
        Self::new(true, false),
        Self::new(true, true),
    ];

    const fn new(mapped: bool, staged: bool) -> Self {
        Self { mapped, staged }
    }

    /// Tells the server how bytes are to travel.
    fn prepare(self, context: &Context, bed: &Bed) -> Result<()> {
        let export = Mode::Direct.export();
        let how = if self.staged { "on" } else { "off" };
        let mut words = vec!["io", &export, "--staging", how];
        words.extend(["--order", how, "--reserve", how, "--splice", how]);
        // The export serves all then: who comes from where says how.
        let rule =
            |(mode, host): (Mode, u8)| format!("client=127.0.0.{host}/32,mode={}", mode.word());
        let rules: Vec<String> = Mode::ALL.into_iter().zip(1..).map(rule).collect();
        if self.mapped {
            words.extend(rules.iter().flat_map(|rule| ["--rule", rule.as_str()]));
        }
        Control::new(&context.lab.program, bed.state()).tell(&words)
    }

    /// What a read on the server's own machine that begins now may find.
    fn begin_local_read(self, cells: &Cells, range: std::ops::Range<u64>) -> Expected<'_> {
        if self.staged {
            cells.begin_read_beside_staging(range)
        } else {
            cells.begin_read(range)
        }
    }
}

struct Done {
    writes: u64,
    reads: u64,
    locals: u64,
}

fn hammer(context: &Context, bed: &Bed, round: Round, random: &mut Rng) -> Result<Done> {
    let mapped = round.mapped;
    let cells = Arc::new(Cells::new(random, SIZE, mapped));
    let path = bed.path(NAME);
    std::fs::write(&path, cells.initial())?;
    let local = Local::start(&path, &cells, round, random)?;
    let count = if context.quick { 1500 } else { 6000 };
    let over_nfs = block_on(over_nfs(bed.address, mapped, &cells, &path, count, random));
    // Whichever failed first: the other may have failed of it.
    let locals = local.stop();
    let (writes, reads) = over_nfs?;
    let locals = locals.context("on the server's own machine")?;
    block_on(at_the_end(bed.address, mapped, &cells, &path)).context("after the last write")?;
    Ok(Done {
        writes,
        reads,
        locals,
    })
}

/// The hot file, as the clients of each mode see it.
struct Views(Vec<(Client, FileHandle, Mode)>);

impl Views {
    async fn new(address: SocketAddr, rules: bool) -> Result<Self> {
        let mut views = Vec::new();
        for (mode, host) in Mode::ALL.into_iter().zip(1..) {
            let from = IpAddr::V4(Ipv4Addr::new(127, 0, 0, host));
            let export = if rules { Mode::Direct } else { mode }.export();
            let client = Client::from(Some(from), address, &export).await?;
            let file = client.find(NAME).await?;
            views.push((client, file, mode));
        }
        Ok(Self(views))
    }

    fn any(&self, random: &mut Rng) -> &(Client, FileHandle, Mode) {
        &self.0[random.usize(..self.0.len())]
    }
}

async fn over_nfs(
    address: SocketAddr,
    rules: bool,
    cells: &Arc<Cells>,
    path: &Path,
    count: u64,
    random: &mut Rng,
) -> Result<(u64, u64)> {
    let share = Rc::new(Share {
        views: Views::new(address, rules).await?,
        cells: Arc::clone(cells),
        path: path.to_path_buf(),
        random: RefCell::new(random.fork()),
        verifier: Shared::new(None),
        written: Shared::new(0),
        end: Shared::new(false),
    });
    let (writer, reader, until) = (Rc::clone(&share), Rc::clone(&share), Rc::clone(&share));
    let as_long_as_there_are_writers = std::iter::from_fn(move || (!until.end.get()).then_some(()));
    let readers = tokio::task::spawn_local(pipelined(
        READERS,
        as_long_as_there_are_writers,
        move |()| {
            let share = Rc::clone(&reader);
            async move { share.read().await }
        },
    ));
    let written = pipelined(WRITERS, 0..count, move |_| {
        let share = Rc::clone(&writer);
        async move { share.write().await }
    })
    .await;
    share.end.set(true);
    let reads = readers.await?;
    Ok((written?, reads?))
}

/// The state that all sequences of the NFS clients share.
struct Share {
    views: Views,
    cells: Arc<Cells>,
    path: PathBuf,
    random: RefCell<Rng>,
    verifier: Shared<Option<[u8; 8]>>,
    written: Shared<u64>,
    end: Shared<bool>,
}

impl Share {
    async fn write(&self) -> Result<()> {
        let claimed = {
            let random = &mut self.random.borrow_mut();
            let (first, then) = if random.u64(..2) == 0 {
                (Owner::Contended, Owner::Remote)
            } else {
                (Owner::Remote, Owner::Contended)
            };
            let claimed = self.cells.claim(random, first);
            let claimed = claimed.or_else(|| self.cells.claim(random, then));
            let stable = match random.u64(..40) {
                0 => StableHow::FileSync,
                1 => StableHow::DataSync,
                _ => StableHow::Unstable,
            };
            claimed.map(|(cell, data)| (self.views.any(random), cell, data, stable))
        };
        let Some((view, cell, data, stable)) = claimed else {
            // All are being written or looked at: others go on first.
            tokio::task::yield_now().await;
            return Ok(());
        };
        let (client, file, mode) = view;
        let verifier = client
            .write(file, cell.file.start, stable, Bytes::from(data))
            .await
            .with_context(|| mode.word())?;
        if cell.acknowledge() {
            self.same_for_all(cell)
                .await
                .with_context(|| format!("after WRITEs at once to {:?}", cell.file))?;
            cell.release();
        }
        self.same_verifier(verifier).context("WRITE")?;
        self.written.set(self.written.get() + 1);
        if self.written.get().is_multiple_of(WRITES_PER_COMMIT) {
            let commit = ok("COMMIT", client.nfs.commit(file, 0, 0)).await?;
            self.same_verifier(commit.verf).context("COMMIT")?;
        }
        if self.written.get().is_multiple_of(WRITES_PER_DROP) {
            drop_cache(&self.path)?;
        }
        Ok(())
    }

    /// Checks that READ finds in each mode what pread finds on the server's machine.
    async fn same_for_all(&self, cell: &Cell) -> Result<()> {
        let (start, len) = (cell.file.start, (cell.file.end - cell.file.start) as usize);
        let mut read = Vec::new();
        // The first READ has what is held of the range written.
        for (client, file, mode) in &self.views.0 {
            let (data, _) = client.read(file, start, len as u32).await?;
            read.push((data, mode));
        }
        let mut local = vec![0; len];
        File::open(&self.path)?.read_exact_at(&mut local, start)?;
        for (data, mode) in read {
            same(&local, &data).with_context(|| format!("{} against pread", mode.word()))?;
        }
        Ok(())
    }

    /// Checks that the write verifier is the one of before: another one says that data was lost, which it was
    /// not.
    fn same_verifier(&self, verifier: [u8; 8]) -> Result<()> {
        let first = self.verifier.get().unwrap_or(verifier);
        self.verifier.set(Some(first));
        ensure!(first == verifier, "another verifier");
        Ok(())
    }

    async fn read(&self) -> Result<()> {
        let (view, range) = {
            let random = &mut self.random.borrow_mut();
            (self.views.any(random), range(random, self.cells.size()))
        };
        let (client, file, mode) = view;
        let expected = self.cells.begin_read(range.clone());
        let count = (range.end - range.start) as u32;
        let (data, _) = client
            .read(file, range.start, count)
            .await
            .with_context(|| mode.word())?;
        expected
            .check(&data)
            .with_context(|| format!("READ, {}", mode.word()))
    }
}

fn range(random: &mut Rng, size: u64) -> std::ops::Range<u64> {
    let start = random.u64(..size);
    let most = if random.u64(..3) == 0 { READ_MAX } else { 6000 };
    start..(start + 1 + random.u64(..most)).min(size)
}

/// Every byte is the last write's: in each mode, on the server's machine, from the disk.
async fn at_the_end(address: SocketAddr, rules: bool, cells: &Cells, path: &Path) -> Result<()> {
    let views = Views::new(address, rules).await?;
    let (client, file, _) = &views.0[0];
    // What is held goes into the file.
    ok("COMMIT", client.nfs.commit(file, 0, 0)).await?;
    let before = std::fs::read(path)?;
    for from in ["as it is", "from the disk"] {
        for (client, file, mode) in &views.0 {
            let what = || format!("{from}, {}", mode.word());
            ok("COMMIT", client.nfs.commit(file, 0, 0))
                .await
                .with_context(what)?;
            let expected = cells.begin_read(0..cells.size());
            let (data, _) = client.read(file, 0, cells.size() as u32).await?;
            expected.check(&data).with_context(what)?;
            same(&before, &data).with_context(what)?;
        }
        let found = std::fs::read(path)?;
        cells
            .begin_read(0..cells.size())
            .check(&found)
            .with_context(|| format!("{from}, on the server's machine"))?;
        drop_cache(path)?;
    }
    Ok(())
}

/// A thread that reads and writes the file where it is, until it is told to stop.
struct Local {
    end: Arc<AtomicBool>,
    thread: JoinHandle<Result<u64>>,
}

impl Local {
    fn start(path: &Path, cells: &Arc<Cells>, round: Round, random: &mut Rng) -> Result<Self> {
        let end = Arc::new(AtomicBool::new(false));
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let direct = OpenOptions::new()
            .read(true)
            .custom_flags(rustix::fs::OFlags::DIRECT.bits().cast_signed())
            .open(path)?;
        let mut process = Process {
            map: Map::new(&file, cells.size() as usize)?,
            file,
            direct,
            cells: Arc::clone(cells),
            round,
            random: random.fork(),
        };
        let stop = Arc::clone(&end);
        let thread = std::thread::Builder::new()
            .name("local".to_owned())
            .spawn(move || {
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    process.step()?;
                    count += 1;
                }
                Ok(count)
            })?;
        Ok(Self { end, thread })
    }

    fn stop(self) -> Result<u64> {
        self.end.store(true, Ordering::Relaxed);
        let ended = self.thread.join();
        ended.map_err(|_| anyhow!("the local process panicked"))?
    }
}

struct Process {
    file: File,
    /// The file, opened with `O_DIRECT` besides.
    direct: File,
    map: Map,
    cells: Arc<Cells>,
    round: Round,
    random: Rng,
}

impl Process {
    fn step(&mut self) -> Result<()> {
        match self.random.u64(..8) {
            0 | 1 => self.write(),
            2 => self.store(),
            3 | 4 => self.load(),
            5 => self.read_direct(),
            _ => self.read(),
        }
    }

    fn write(&mut self) -> Result<()> {
        if let Some((cell, data)) = self.cells.claim(&mut self.random, Owner::Local) {
            self.file.write_all_at(&data, cell.file.start)?;
            cell.acknowledge();
        }
        Ok(())
    }

    fn store(&mut self) -> Result<()> {
        if let Some((cell, data)) = self.cells.claim(&mut self.random, Owner::Mapped) {
            self.map.write(cell.file.start as usize, &data)?;
            cell.acknowledge();
        }
        Ok(())
    }

    fn load(&mut self) -> Result<()> {
        let range = range(&mut self.random, self.cells.size());
        let expected = self.round.begin_local_read(&self.cells, range.clone());
        let mut found = vec![0; (range.end - range.start) as usize];
        self.map.read(range.start as usize, &mut found)?;
        expected.check(&found).context("by a map")
    }

    fn read(&mut self) -> Result<()> {
        let range = range(&mut self.random, self.cells.size());
        let expected = self.round.begin_local_read(&self.cells, range.clone());
        let mut found = vec![0; (range.end - range.start) as usize];
        self.file.read_exact_at(&mut found, range.start)?;
        expected.check(&found).context("by pread")
    }

    fn read_direct(&mut self) -> Result<()> {
        const PAGE: u64 = 4096;
        let range = range(&mut self.random, self.cells.size() / PAGE * PAGE - PAGE);
        let range = range.start / PAGE * PAGE..range.end.next_multiple_of(PAGE);
        let expected = self.round.begin_local_read(&self.cells, range.clone());
        let len = (range.end - range.start) as usize;
        let mut memory = vec![0_u8; len + PAGE as usize];
        let start = memory.as_ptr().align_offset(PAGE as usize);
        let found = &mut memory[start..start + len];
        self.direct.read_exact_at(found, range.start)?;
        expected.check(found).context("by a direct pread")
    }
}

/// The kernel's log from the time on at which it was opened.
struct KernelLog(File);

impl KernelLog {
    /// Opens the log at its end; `None` where it may not be read.
    fn open() -> Option<Self> {
        let mut file = OpenOptions::new()
            .read(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
            .open("/dev/kmsg")
            .ok()?;
        std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).ok()?;
        Some(Self(file))
    }

    /// What the kernel says when a direct write has left cached pages behind: whoever syncs the
    /// file next is told of an error that was none.
    fn invalidation_failures(&mut self) -> Vec<String> {
        let mut found = Vec::new();
        let mut record = [0; 8192];
        // One record at a time; nothing more is an error of its own.
        while let Ok(n) = self.0.read(&mut record) {
            let text = String::from_utf8_lossy(&record[..n]);
            if text.contains("Page cache invalidation failure") {
                found.push(text.trim().to_owned());
            }
        }
        found
    }
}
