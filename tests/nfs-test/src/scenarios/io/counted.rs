//! What a large transfer in each mode leaves in the page cache, copies in user space, and asks of
//! the kernel. 256 MiB; 4 GiB with `--full`.
//!
//! System calls are listed for the reader and not judged: how many there are depends on how much
//! arrives at once.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use nfs_client::nfs3::StableHow;
use nfs_lab::{Running, output};
use rustix::process::Signal;

use super::bed::{Bed, Client, Ground, Mode, Source, pipelined, same};
use super::figures::{Control, Sum};
use crate::host::Context;
use crate::host::wire::{block_on, ok};

/// Length of one READ or WRITE in bytes.
const CALL: u64 = 1 << 20;
/// Number of calls under way at once.
const DEPTH: usize = 16;
/// A direct transfer may leave at most one part in this many of the file in the page cache.
const CACHED_PART_MAX: u64 = 100;
/// Most bytes of a WRITE that may be copied: what came in with the head of the call.
const COPIED_PER_WRITE_MAX: u64 = 64 << 10;
const NAME: &str = "large";

pub(in crate::scenarios) fn run(context: &Context) -> Result<String> {
    let mib: u32 = if context.full { 4096 } else { 256 };
    let mut bed = Bed::new(context, Ground::Xfs, mib + 320)?;
    let control = Control::new(&context.lab.program, bed.state());
    // Each byte is to be moved once, for the READ that asks for it.
    control.tell(&["io", &Mode::Direct.export(), "--read-ahead", "0"])?;
    let mut notes = Vec::new();
    let mib = u64::from(mib);
    for mode in Mode::ALL {
        let up = moved(&mut bed, &control, mode, mib, Direction::Up);
        let up = up.with_context(|| format!("{} up", mode.word()))?;
        let down = moved(&mut bed, &control, mode, mib, Direction::Down);
        let down = down.with_context(|| format!("{} down", mode.word()))?;
        if mode == Mode::Direct {
            judge(&up, &down, mib)?;
        }
        notes.push(format!("{}: up {up}; down {down}", mode.word()));
    }
    for mode in Mode::ALL {
        let calls = system_calls(context, &mut bed, mode);
        let calls = calls.with_context(|| format!("system calls of {}", mode.word()))?;
        notes.push(format!("{} per MiB: {calls}", mode.word()));
    }
    bed.stop()?;
    Ok(format!("{mib} MiB; {}", notes.join(" | ")))
}

fn judge(up: &Moved, down: &Moved, mib: u64) -> Result<()> {
    for (direction, moved) in [("up", up), ("down", down)] {
        ensure!(
            moved.cached <= (mib << 20) / CACHED_PART_MAX,
            "{direction}: {} KiB of the file are in the page cache",
            moved.cached >> 10
        );
        let direct = moved.sum.moved_as(Mode::Direct);
        ensure!(
            direct == mib << 20,
            "{direction}: {direct} bytes were moved past the cache: {:?}",
            moved.sum
        );
    }
    let most = up.sum.calls * COPIED_PER_WRITE_MAX;
    ensure!(
        up.sum.copied <= most,
        "WRITEs: {} payload bytes copied in user space, {most} at most",
        up.sum.copied
    );
    ensure!(
        down.sum.copied == 0,
        "READs: {} payload bytes copied in user space",
        down.sum.copied
    );
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// Figures of one transfer of the whole file.
struct Moved {
    /// Bytes of the file in the page cache afterwards.
    cached: u64,
    sum: Sum,
}

impl std::fmt::Display for Moved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} KiB cached, {} KiB copied",
            self.cached >> 10,
            self.sum.copied >> 10
        )
    }
}

/// Moves the whole file in one direction, begun with nothing of it in the cache.
fn moved(
    bed: &mut Bed,
    control: &Control,
    mode: Mode,
    mib: u64,
    direction: Direction,
) -> Result<Moved> {
    let path = bed.path(NAME);
    if direction == Direction::Up {
        // Emptied, not removed: of a removed file the server would hold the blocks for a while.
        File::create(&path)?;
    }
    super::bed::drop_cache(&path)?;
    let figures = || {
        let operation = match direction {
            Direction::Up => "write",
            Direction::Down => "read",
        };
        Ok::<_, anyhow::Error>(control.figures()?.sum(&mode.export(), operation, None))
    };
    let before = figures()?;
    block_on(transfer(bed, mode, mib, direction))?;
    let mut sum = figures()?;
    sum.calls -= before.calls;
    sum.copied -= before.copied;
    for (kind, bytes) in &before.moved {
        *sum.moved.entry(kind.clone()).or_default() -= bytes;
    }
    let cached = cached(&path)?;
    Ok(Moved { cached, sum })
}

async fn transfer(bed: &Bed, mode: Mode, mib: u64, direction: Direction) -> Result<()> {
    let client = Client::new(bed.address, mode).await?;
    let file = client.find(NAME).await?;
    // Every MiB is another piece of one source, known by its place.
    let source = Source::new(Rng::with_seed(1), 2 << 20);
    let whole = source.whole();
    let room = whole.len() as u64 - CALL;
    let worker = client.clone();
    pipelined(DEPTH, 0..mib, move |i| {
        let client = worker.clone();
        let start = (i * 4093 % room) as usize;
        let data = whole.slice(start..start + CALL as usize);
        async move {
            match direction {
                Direction::Up => client
                    .write(&file, i * CALL, StableHow::Unstable, data)
                    .await
                    .map(drop),
                Direction::Down => {
                    let (found, _) = client.read(&file, i * CALL, CALL as u32).await?;
                    same(&data, &found).with_context(|| format!("MiB {i}"))
                }
            }
        }
    })
    .await?;
    if direction == Direction::Up {
        ok("COMMIT", client.nfs.commit(&file, 0, 0)).await?;
    }
    Ok(())
}

/// Bytes of a file in the page cache.
fn cached(path: &Path) -> Result<u64> {
    let mut command = Command::new("fincore");
    command.args(["--bytes", "--noheadings", "--output", "RES"]);
    let text = String::from_utf8(output(command.arg(path))?)?;
    text.trim()
        .parse()
        .with_context(|| format!("fincore said {text:?}"))
}

/// The system calls of the server for each MiB of WRITEs and of READs.
fn system_calls(context: &Context, bed: &mut Bed, mode: Mode) -> Result<String> {
    const MIB: u64 = 64;
    let path = bed.path(NAME);
    File::create(&path)?;
    let mut found = Vec::new();
    for (direction, word) in [(Direction::Up, "WRITE"), (Direction::Down, "READ")] {
        let table = context
            .lab
            .dir
            .join(format!("calls-{}-{word}", mode.word()));
        let mut strace = Command::new("strace");
        strace
            .args(["-f", "-c", "-U", "name,calls", "-o"])
            .arg(&table)
            .args(["-p", &bed.server()?.id().to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut strace = Running::start(&mut strace)?;
        bed.server()?
            .until_traced(strace.id(), Duration::from_secs(20))?;
        block_on(transfer(bed, mode, MIB, direction))?;
        strace.signal(Signal::INT);
        strace.wait(Duration::from_secs(20))?;
        found.push(format!("{word} {}", per_mib(&table, MIB)?));
    }
    Ok(found.join(", "))
}

/// The calls of strace's table that come at least once in 16 MiB, most frequent first.
fn per_mib(table: &Path, mib: u64) -> Result<String> {
    let text = std::fs::read_to_string(table)?;
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [name, count] = words[..]
            && let Ok(count) = count.parse()
            && name != "total"
        {
            counts.insert(name.to_owned(), count);
        }
    }
    ensure!(!counts.is_empty(), "strace counted nothing: {text:?}");
    let mut counts: Vec<_> = counts.into_iter().filter(|(_, n)| *n * 16 >= mib).collect();
    counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let shown: Vec<_> = counts
        .iter()
        .map(|(name, n)| format!("{name} {:.1}", *n as f64 / mib as f64))
        .collect();
    Ok(shown.join(" "))
}
