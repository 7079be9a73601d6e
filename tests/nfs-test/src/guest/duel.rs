//! The clients' part of [`crate::duel`]: two mounts, each with a server that treats it in a way of its own.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use fastrand::Rng;

use super::Report;
use super::check::same;
use crate::duel::{self, Expected, LENGTH, LOCAL, OWNERS};

/// How long the local program's last write may take to show.
const LAST_WRITE_DEADLINE: Duration = Duration::from_secs(30);

/// Writes and reads for `rounds` rounds on both mounts of one directory, then tells the host, and waits
/// for what the host writes last.
pub(super) fn run(mounts: [&Path; 2], rounds: u64, seed: u64, report: &mut Report) -> Result<()> {
    report.line("progress duel begins")?;
    let fought = fight(mounts, rounds, seed).with_context(|| format!("seed {seed}"));
    report.verdict("duel/clients", &fought)?;
    report.line("progress duel over")?;
    report.verdict("duel/end", &end(mounts))
}

/// Past the client's cache: the server gets every WRITE with exactly these bytes.
fn open(mount: &Path) -> Result<File> {
    let direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(direct);
    options.open(mount.join(duel::FILE)).context("open")
}

fn fight(mounts: [&Path; 2], rounds: u64, seed: u64) -> Result<()> {
    let device = |path: &Path| fs::metadata(path).map(|meta| meta.dev());
    let one = device(mounts[0])? == device(mounts[1])?;
    same(one, false, "both mounts are one")?;
    let barrier = Barrier::new(mounts.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(mounts)
            .map(|(owner, mount)| {
                let barrier = &barrier;
                scope.spawn(move || client(owner, mount, rounds, seed, barrier))
            })
            .collect();
        for thread in threads {
            thread.join().map_err(|_| anyhow!("a client panicked"))??;
        }
        Ok(())
    })
}

fn client(owner: u64, mount: &Path, rounds: u64, seed: u64, barrier: &Barrier) -> Result<()> {
    let mut random = Rng::with_seed(seed + owner);
    let file = open(mount);
    // Both are there before anything fails, so that none waits for ever.
    barrier.wait();
    let file = file?;
    let write = |offset: u64, data: &[u8]| Ok(file.write_all_at(data, offset)?);
    for round in 0..rounds {
        duel::write_round(owner, Some(round), &mut random, write)?;
        let mut expected = [Expected::Any; OWNERS as usize];
        expected[owner as usize] = Expected::Round(round);
        for _ in 0..4 {
            duel::read_some(&file, &mut random, expected)
                .with_context(|| format!("mount {owner}, round {round}"))?;
        }
    }
    duel::write_round(owner, None, &mut random, write)?;
    // UNSTABLE or not: another client sees it now.
    file.sync_all().context("fsync")
}

/// Both clients have ended, and each sees the last of everybody.
fn end(mounts: [&Path; 2]) -> Result<()> {
    let deadline = Instant::now() + LAST_WRITE_DEADLINE;
    for mount in mounts {
        let file = open(mount)?;
        let mut expected = [Expected::Last; OWNERS as usize];
        expected[LOCAL as usize] = Expected::Any;
        duel::read_all(&file, expected).context("when both clients had ended")?;
        // The host writes for the last time about now.
        while let Err(error) = duel::read_all(&file, [Expected::Last; OWNERS as usize]) {
            if Instant::now() > deadline {
                return Err(error.context("the local program's last write does not show"));
            }
        }
        same(file.metadata()?.len(), LENGTH, "size")?;
    }
    Ok(())
}
