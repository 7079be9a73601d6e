//! On a file system of our own, on which a second A waits until B has been acknowledged.

use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use nfs_lab::held_fs::{FILE, HeldFs};
use nfs_lab::{Engine, Server, ServerOptions};
use nfs_wire::nfs3::{FileHandle, StableHow};

use super::lane::{Lane, Pair};
use crate::host::wire::{block_on, mount, walk};
use crate::host::{Context, IoSetting, Mode};

/// Longest WRITE in blocks: FUSE passes it on in one piece.
const BLOCKS_MAX: u64 = 16;
const BLOCK: u64 = 4096;
/// Size of the one file in bytes.
const SIZE: u64 = 2 << 20;

/// One pair for each mode, each way to be stable, and each connection that the repetition may come by.
pub(super) fn run(context: &Context, random: &mut Rng) -> Result<usize> {
    let point = context.lab.dir.join("turns");
    std::fs::create_dir(&point)?;
    let turns = HeldFs::mount(&point, vec![0; SIZE as usize])?;
    let mut wrong = Vec::new();
    let mut number = 0;
    for mode in Mode::ALL {
        let server = start(context, mode)?;
        let address = server.address();
        let pairs = block_on(async {
            let (nfs, root) = mount(address).await?;
            let file = walk(&nfs, &root, FILE).await?;
            let mut pairs = deal(context.lab.engine, file, &mut number, random);
            for pair in &mut pairs {
                one(address, &turns, pair).await?;
            }
            // It ends when all that came has been answered or dropped.
            tokio::task::spawn_blocking(move || server.stop()).await??;
            Ok(pairs)
        })
        .with_context(|| mode.word())?;
        for pair in &pairs {
            let found = pair.overwritten(&turns.content(pair.offset, pair.len))?;
            wrong.extend(found.map(|pair| format!("{}: {pair}", mode.word())));
        }
    }
    ensure!(
        wrong.is_empty(),
        "acknowledged bytes were overwritten in {} of {number} pairs: {}",
        wrong.len(),
        wrong.join(" | ")
    );
    Ok(number as usize)
}

fn start(context: &Context, mode: Mode) -> Result<Server> {
    let point = context.lab.dir.join("turns");
    let config = context.lab.dir.join("turns.toml");
    let text = format!(
        "[[export]]\npath = {:?}\npseudo = \"/\"\nsquash = \"none\"\nclients = [\"127.0.0.0/8\"]\n{}",
        point.display(),
        IoSetting::all(mode).toml()
    );
    std::fs::write(&config, text)?;
    let options = ServerOptions {
        config: Some(config),
        ..ServerOptions::default()
    };
    Server::start(
        &context.lab,
        &point,
        &context.lab.dir.join("state-turns"),
        &options,
    )
}

fn deal(engine: Engine, file: FileHandle, number: &mut u32, random: &mut Rng) -> Vec<Pair> {
    // A ring runs the buffered WRITEs of one file in the order in which they came, so that a second A
    // by the same connection would keep B from the file system.
    let ways: &[bool] = match engine {
        Engine::Threads => &[false, true],
        Engine::Uring => &[true],
    };
    let how = [
        StableHow::Unstable,
        StableHow::DataSync,
        StableHow::FileSync,
    ];
    let mut pairs = Vec::new();
    for elsewhere in ways {
        for stable in how {
            let blocks = 1 + random.u64(..BLOCKS_MAX);
            pairs.push(Pair {
                number: *number,
                file,
                offset: u64::from(*number) * BLOCKS_MAX * BLOCK,
                len: (blocks * BLOCK) as usize,
                stable: [stable, how[random.usize(..how.len())]],
                elsewhere: *elsewhere,
                late: false,
            });
            *number += 1;
        }
    }
    assert!(
        u64::from(*number) * BLOCKS_MAX * BLOCK <= SIZE,
        "all fit into the file"
    );
    pairs
}

/// Sends A twice; lets the first go, and the second when B has been acknowledged.
async fn one(address: std::net::SocketAddr, turns: &HeldFs, pair: &Pair) -> Result<()> {
    let mut lane = Lane::connect(address, vec![pair.clone()]).await?;
    turns.hold_writes_of(&pair.content(0));
    lane.send_twice().await?;
    turns.let_one_go().await?;
    let written = lane.write_anew().await;
    turns.let_all_go();
    written
}
