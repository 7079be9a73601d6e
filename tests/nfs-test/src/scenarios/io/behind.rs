//! Files that were cut off within a block, and WRITEs that begin at their new end or behind it: after a power cut, and
//! after the client has sent again what was not committed, zeros lie between, never what was cut off.
//!
//! Each file has one change of its size, by a client or by a program of this host, and one WRITE by a client, in each
//! mode and of each stability, which begins at the end, in the last block, or behind that. The power goes once, when
//! all are acknowledged, and no file is synced but by its own WRITE.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use nfs_client::nfs3::{FileHandle, StableHow};

use super::bed::{Bed, Client, Ground, Mode, local_is, same};
use crate::host::Context;
use crate::host::wire::{block_on, ok};

/// A file's length before, of which the first [`DATA`] bytes are data: one of more than 1 MiB is put on stable
/// storage without its data by SETATTR.
const LONG: u64 = (2 << 20) + 8192;
const DATA: usize = 12_288;
/// The length to which it is cut, within its second block.
const SHORT: u64 = 4173;
const OLD: u8 = 0xd0;
const NEW: u8 = 0x4e;
/// Where WRITEs begin: at the file's end, in the last block, at its end, in a block behind it, at the edges of others.
const OFFSETS: [u64; 6] = [SHORT, 5000, 8192, 92_563, 12_288, 40_960];
/// Bytes of a WRITE, with a ragged end and without.
const WRITES: [u64; 2] = [19_858, 20_480];
/// UNSTABLE first: what is stable takes the journal of the others along.
const STABILITIES: [StableHow; 3] = [
    StableHow::Unstable,
    StableHow::DataSync,
    StableHow::FileSync,
];

/// Who cuts the file off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Client,
    Host,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    number: usize,
    stable: StableHow,
    mode: Mode,
    by: By,
    offset: u64,
    /// Whether the server has written the file before it is cut off.
    is_known: bool,
}

impl Case {
    fn all() -> Vec<Self> {
        let mut cases = Vec::new();
        let mut add = |stable, mode, by, is_known| {
            for offset in OFFSETS {
                cases.push(Self {
                    number: cases.len(),
                    stable,
                    mode,
                    by,
                    offset,
                    is_known,
                });
            }
        };
        for stable in STABILITIES {
            for mode in Mode::ALL {
                for by in [By::Client, By::Host] {
                    add(stable, mode, by, false);
                    add(stable, mode, by, true);
                }
            }
        }
        cases
    }

    fn name(&self) -> String {
        format!("behind-{}", self.number)
    }

    /// Bytes of its WRITE: where one begins at the edge of a block, it ends at one too.
    const fn bytes(&self) -> u64 {
        WRITES[self.offset.is_multiple_of(8192) as usize]
    }

    /// What the file has to be in the end.
    fn content(&self) -> Vec<u8> {
        let mut content = vec![OLD; SHORT as usize];
        content.resize(self.offset as usize, 0);
        content.resize((self.offset + self.bytes()) as usize, NEW);
        content
    }
}

pub(in super::super) fn behind(context: &Context) -> Result<String> {
    let cases = Case::all();
    let mut longer = 0;
    for ground in [Ground::Xfs, Ground::Ext4] {
        longer += cut(context, ground, &cases).with_context(|| ground.name())?;
    }
    ensure!(
        longer > 0,
        "no length of an UNSTABLE WRITE came to the disk"
    );
    Ok(format!(
        "{} files cut off, {longer} of those with UNSTABLE WRITEs longer after the power cut",
        2 * cases.len()
    ))
}

/// Returns how many files were found to be longer than they were cut to though nothing of them was promised.
fn cut(context: &Context, ground: Ground, cases: &[Case]) -> Result<usize> {
    let mut bed = Bed::new(context, ground, 320)?;
    for case in cases {
        let file = File::create(bed.path(&case.name()))?;
        file.write_all_at(&[OLD; DATA], 0)?;
        file.set_len(LONG)?;
    }
    rustix::fs::syncfs(File::open(&bed.export)?)?;
    let disk = bed.disk.under.as_ref().context("a disk")?;
    let knife = disk.knife()?;
    block_on(async {
        let clients = clients(&bed).await?;
        for case in cases {
            change(&bed, &clients, case)
                .await
                .with_context(|| format!("{case:?}"))?;
        }
        anyhow::Ok(())
    })?;
    knife.cut()?;
    bed.server()?.kill()?;
    let disk = bed.disk.under.as_mut().context("a disk")?;
    disk.unmount()?;
    disk.mount()?;
    let (mut longer, mut wrong) = (0, Vec::new());
    for case in cases {
        let found = fs::read(bed.path(&case.name()))?;
        match is_right(case, &found) {
            Ok(is_longer) => longer += usize::from(is_longer),
            Err(error) => wrong.push(format!("{case:?}: {error:#}")),
        }
    }
    ensure!(
        wrong.is_empty(),
        "{} of {} files: {}",
        wrong.len(),
        cases.len(),
        wrong.join(" | ")
    );
    bed.start(context, &[])?;
    block_on(async {
        let clients = clients(&bed).await?;
        for case in cases {
            again(&bed, &clients, case)
                .await
                .with_context(|| format!("sent again: {case:?}"))?;
        }
        anyhow::Ok(())
    })?;
    bed.stop()?;
    Ok(longer)
}

async fn clients(bed: &Bed) -> Result<Vec<(Mode, Client)>> {
    let mut clients = Vec::new();
    for mode in Mode::ALL {
        clients.push((mode, Client::new(bed.address, mode).await?));
    }
    Ok(clients)
}

async fn of<'c>(clients: &'c [(Mode, Client)], case: &Case) -> Result<(&'c Client, FileHandle)> {
    let found = clients.iter().find(|(mode, _)| *mode == case.mode);
    let (_, client) = found.context("a client of each mode")?;
    let file = client.find(&case.name()).await?;
    Ok((client, file))
}

async fn change(bed: &Bed, clients: &[(Mode, Client)], case: &Case) -> Result<()> {
    let (client, file) = of(clients, case).await?;
    if case.is_known {
        let data = Bytes::from_static(&[OLD; 100]);
        let stable = StableHow::Unstable;
        client.write(&file, 0, stable, data).await?;
    }
    match case.by {
        By::Client => client.resize(&file, SHORT).await?,
        By::Host => {
            let file = File::options().write(true).open(bed.path(&case.name()))?;
            file.set_len(SHORT)?;
        }
    }
    write(client, &file, case).await
}

async fn write(client: &Client, file: &FileHandle, case: &Case) -> Result<()> {
    let data = Bytes::from(vec![NEW; case.bytes() as usize]);
    client
        .write(file, case.offset, case.stable, data)
        .await
        .map(drop)
}

/// Checks a file after the power cut; returns whether it is longer than was promised.
fn is_right(case: &Case, found: &[u8]) -> Result<bool> {
    if case.stable != StableHow::Unstable {
        same(&case.content(), found)?;
        return Ok(false);
    }
    // Of a file that this host's program cut off, and of one that is longer again, either length is right.
    let mut kept = vec![OLD; SHORT as usize];
    if found.len() as u64 == LONG {
        ensure!(case.by == By::Host, "its size is as before SETATTR");
        return Ok(false);
    }
    kept.resize(case.offset as usize, 0);
    let before = found.len().min(kept.len());
    ensure!(before as u64 >= SHORT, "{before} bytes");
    same(&kept[..before], &found[..before])?;
    let behind = &found[SHORT as usize..];
    ensure!(!behind.contains(&OLD), "what was cut off is there again");
    Ok(found.len() as u64 > SHORT)
}

/// A client does as RFC 1813 says: what was not committed is sent again, and nothing else.
async fn again(bed: &Bed, clients: &[(Mode, Client)], case: &Case) -> Result<()> {
    let (client, file) = of(clients, case).await?;
    if case.stable == StableHow::Unstable {
        // The power has undone what the host's program did: that file's WRITE is behind nothing any more.
        if case.by == By::Host && fs::metadata(bed.path(&case.name()))?.len() == LONG {
            return Ok(());
        }
        write(client, &file, case).await?;
        ok("COMMIT", client.nfs.commit(&file, 0, 0)).await?;
    }
    let content = case.content();
    local_is(&bed.path(&case.name()), 0, &content, content.len() as u64)
}
