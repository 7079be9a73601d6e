//! What a program was told is on stable storage, while the power of the server's disk is cut: the host cuts it in
//! the middle, and looks at the disk before anything can be sent again.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use nfs_lab::pattern;
use rustix::fs::OFlags;

use super::Report;
use super::check::wait_for;

/// How a file is written, and so when its bytes have to be on stable storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Each write is on stable storage when it returns.
    OSync,
    /// Everything is on stable storage when fsync has returned; the file stays open.
    Fsync,
    /// Everything is on stable storage when close has returned.
    Close,
    /// Nothing is promised before the power is cut, but that it can be read, and will be there at last.
    Nothing,
}

impl Way {
    pub(crate) const ALL: [Self; 4] = [Self::OSync, Self::Fsync, Self::Close, Self::Nothing];

    /// The file of this way, in round `round`.
    pub(crate) fn name(self, round: u64) -> String {
        format!("{self:?}-{round}")
    }

    /// The bytes that are written in round `round`.
    pub(crate) fn content(self, round: u64) -> Vec<u8> {
        // Several WRITEs, and a ragged end; in each second round one small one.
        let len = if round.is_multiple_of(2) {
            2_500_003
        } else {
            3_001
        };
        pattern::bytes(6_000 + 10 * round + self as u64, 0, len)
    }
}

/// Writes in all ways, `rounds` times. After each round the host is told (`progress stable ROUND`), and answers
/// with a file `stable-ROUND` in `gates` when the server is back.
pub(super) fn run(dir: &Path, gates: &Path, rounds: u64, report: &mut Report) -> Result<()> {
    for round in 0..rounds {
        let outcome = one(dir, gates, round, report);
        report.verdict(&format!("stable/{round}"), &outcome)?;
    }
    Ok(())
}

fn one(dir: &Path, gates: &Path, round: u64, report: &mut Report) -> Result<()> {
    let mut open = Vec::new();
    for way in Way::ALL {
        let file = write(&dir.join(way.name(round)), way, &way.content(round))
            .with_context(|| format!("{way:?}"))?;
        open.extend(file.map(|file| (way, file)));
    }
    report.line(&format!("progress stable {round}"))?;
    wait_for(&gates.join(format!("stable-{round}")))?;
    for (way, file) in &open {
        same(file, &way.content(round)).with_context(|| format!("{way:?}, still open"))?;
    }
    drop(open);
    for way in Way::ALL {
        let file = File::open(dir.join(way.name(round)))?;
        same(&file, &way.content(round)).with_context(|| format!("{way:?}, opened again"))?;
    }
    Ok(())
}

/// Writes a file; it is returned if it stays open.
fn write(path: &Path, way: Way, content: &[u8]) -> Result<Option<File>> {
    let flags = if way == Way::OSync {
        OFlags::SYNC
    } else {
        OFlags::empty()
    };
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    for piece in content.chunks(777_777) {
        file.write_all(piece)?;
    }
    match way {
        Way::OSync | Way::Nothing => Ok(Some(file)),
        Way::Fsync => {
            file.sync_all()?;
            Ok(Some(file))
        }
        Way::Close => Ok(None),
    }
}

fn same(file: &File, expected: &[u8]) -> Result<()> {
    let mut found = vec![0; expected.len() + 1];
    let mut len = 0;
    loop {
        match file.read_at(&mut found[len..], len as u64)? {
            0 => break,
            more => len += more,
        }
    }
    ensure!(
        len == expected.len(),
        "{len} bytes, should be {}",
        expected.len()
    );
    let wrong = found.iter().zip(expected).position(|(a, b)| a != b);
    ensure!(wrong.is_none(), "byte {wrong:?} is wrong");
    Ok(())
}
