//! On XFS and ext4 that are frozen for a moment, in each I/O mode.
//!
//! Many pairs at a time: the threads that are let go with the file system get in each other's way.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use nfs_lab::{Frozen, FsKind, LoopFs, Server, ServerOptions};
use nfs_wire::nfs3::StableHow;
use tokio::task::JoinSet;

use super::lane::{Lane, Pair};
use crate::host::wire::{block_on, connect, mount_path, walk};
use crate::host::{Context, IoSetting, Mode};

/// Number of pairs of WRITEs in one freeze.
const PAIRS: u32 = 32;
/// Number of lanes that the pairs are dealt to.
const LANES: usize = 4;
/// Number of freezes; with `--full` ten times as many.
const ROUNDS: u32 = 8;
/// Number of files of each export that are written.
const FILES: u64 = 4;
/// Longest WRITE, and the room that each pair has in its file, bytes.
const WRITE_MAX: u64 = 1 << 20;
const ROOM: u64 = WRITE_MAX + 8192;
/// Length of the shortest WRITE in bytes.
const WRITE_MIN: u64 = 4096;

/// A pair and where it is on the server's disk.
struct Written {
    pair: Pair,
    path: PathBuf,
}

/// Runs all freezes; returns how many pairs there were.
pub(super) fn run(context: &Context, random: &mut Rng) -> Result<u32> {
    let exports = context.lab.dir.join("export");
    let mut disks = Vec::new();
    for (name, kind) in [("xfs", FsKind::Xfs), ("ext4", FsKind::Ext4)] {
        let disk = LoopFs::new(kind, 512, &exports.join(name))?;
        for mode in Mode::ALL {
            fs::create_dir(disk.point().join(mode.word()))?;
        }
        disks.push(disk);
    }
    let rounds = match (context.quick, context.full) {
        (true, _) => 2,
        (_, true) => 10 * ROUNDS,
        _ => ROUNDS,
    };
    let mut wrong = Vec::new();
    for number in 0..rounds {
        let disk = &disks[number as usize % disks.len()];
        let found = round(context, disk.point(), number, random);
        wrong.extend(found.with_context(|| format!("freeze {number}"))?);
    }
    for disk in &mut disks {
        disk.unmount()?;
    }
    ensure!(
        wrong.is_empty(),
        "acknowledged bytes were overwritten in {} of {} pairs: {}",
        wrong.len(),
        rounds * PAIRS,
        wrong
            .iter()
            .take(5)
            .cloned()
            .collect::<Vec<_>>()
            .join(" | ")
    );
    Ok(rounds * PAIRS)
}

/// Runs one freeze of the file system on `point`; returns a line for each pair whose B was overwritten.
fn round(context: &Context, point: &Path, number: u32, random: &mut Rng) -> Result<Vec<String>> {
    for mode in Mode::ALL {
        for file in 0..FILES {
            let file = File::create(point.join(mode.word()).join(file.to_string()))?;
            file.set_len(u64::from(PAIRS) * ROOM)?;
        }
    }
    let server = start(context, point)?;
    let frozen = Frozen::new(point)?;
    let pairs = block_on(async {
        let pairs = deal(server.address(), point, number, random).await?;
        play(server, frozen, &pairs).await?;
        Ok(pairs)
    })?;
    let mut wrong = Vec::new();
    for Written { pair, path } in &pairs {
        let mut found = vec![0; pair.len];
        File::open(path)?.read_exact_at(&mut found, pair.offset)?;
        let pair = pair.overwritten(&found)?;
        wrong.extend(pair.map(|pair| format!("{}: {pair}", path.display())));
    }
    Ok(wrong)
}

/// A server with an export for each mode.
fn start(context: &Context, point: &Path) -> Result<Server> {
    let section = |mode: Mode| {
        let word = mode.word();
        format!(
            "[[export]]\npath = {:?}\npseudo = \"/{word}\"\nsquash = \"none\"\n\
             clients = [\"127.0.0.0/8\"]\n{}",
            point.join(word).display(),
            IoSetting::all(mode).toml()
        )
    };
    let config = context.lab.dir.join("frozen.toml");
    fs::write(&config, Mode::ALL.map(section).concat())?;
    let options = ServerOptions {
        config: Some(config),
        ..ServerOptions::default()
    };
    Server::start(
        &context.lab,
        point,
        &context.lab.dir.join("state-frozen"),
        &options,
    )
}

/// The pairs of a round, over the exports of one file system.
async fn deal(
    address: SocketAddr,
    point: &Path,
    round: u32,
    random: &mut Rng,
) -> Result<Vec<Written>> {
    let nfs = connect(address).await?;
    let how = [
        StableHow::Unstable,
        StableHow::DataSync,
        StableHow::FileSync,
    ];
    let mut pairs = Vec::new();
    for place in 0..PAIRS {
        let mode = Mode::ALL[random.usize(..Mode::ALL.len())].word();
        let name = random.u64(..FILES).to_string();
        let root = mount_path(&nfs, &format!("/{mode}")).await?;
        // Every magnitude as often; half of them begin and end anywhere.
        let magnitudes = u64::from((WRITE_MAX / WRITE_MIN).ilog2());
        let mut len = WRITE_MIN << random.u64(..magnitudes + 1);
        let mut offset = u64::from(place) * ROOM;
        if random.u64(..2) == 0 {
            offset += random.u64(..ROOM - WRITE_MAX);
            len -= random.u64(..WRITE_MIN / 2);
        }
        let pair = Pair {
            number: round * PAIRS + place,
            file: walk(&nfs, &root, &name).await?,
            offset,
            len: len as usize,
            stable: [
                how[random.usize(..how.len())],
                how[random.usize(..how.len())],
            ],
            elsewhere: random.u64(..2) == 0,
            late: random.u64(..2) == 0,
        };
        let path = point.join(mode).join(name);
        pairs.push(Written { pair, path });
    }
    Ok(pairs)
}

/// Sends all A twice to the frozen file system, lets it go, answers each first reply with B, and ends the
/// server, which it does when all that came has been answered or dropped.
async fn play(server: Server, frozen: Frozen, pairs: &[Written]) -> Result<()> {
    let mut lanes = Vec::new();
    for lane in 0..LANES {
        let own = pairs.iter().skip(lane).step_by(LANES);
        let own = own.map(|written| written.pair.clone()).collect();
        lanes.push(Lane::connect(server.address(), own).await?);
    }
    frozen.freeze()?;
    for lane in &mut lanes {
        lane.send_twice().await?;
    }
    let mut written = JoinSet::new();
    for mut lane in lanes {
        written.spawn_local(async move { lane.write_anew().await.map(|()| lane) });
    }
    // Who waits for replies must not wait for the program that thaws.
    tokio::task::spawn_blocking(move || frozen.thaw()).await??;
    let mut open = Vec::new();
    while let Some(done) = written.join_next().await {
        open.push(done??);
    }
    tokio::task::spawn_blocking(move || server.stop()).await?
}
