//! What a client wrote itself it does not read again. The host counts the READs between the steps, and
//! changes the files itself before the last one.
//!
//! A file that is cut to nothing and written anew is not among these: the kernel's client reads it again,
//! from its own kernel's server too.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use nfs_lab::pattern;

use super::Report;
use super::check::wait_for;

/// The files' sizes, in bytes: edges of pages and of transfers, and one of many WRITEs.
pub(crate) const SIZES: &[usize] = &[
    1, 4095, 4096, 4097, 65_536, 100_003, 1_048_577, 3_000_000, 20_000_001,
];
/// The steps; the host is told when each has ended.
pub(crate) const STEPS: usize = 4;
/// How often a step is made, at most, until the client has read nothing again.
///
/// Linux's client goes by the order in which it handles the replies to WRITEs. Several threads do that, so now and
/// then it handles two in another order than they came in, takes the gap between them for somebody else's change,
/// and reads the file again (since 6.5 only where both tell one time). A server cannot prevent that; with replies
/// that are not chained it happens each time.
pub(crate) const ATTEMPTS: usize = 3;
/// The host's answer when the step is to be made again.
pub(crate) const AGAIN: &str = "again";
/// The tag of the bytes that the host writes.
pub(crate) const FOREIGN_TAG: u64 = 4_000;
/// Size in bytes of the largest of the files that are made all at once. Of larger ones the client, busy with
/// all of them, reads one again much more often than of one alone.
const SMALL_MAX: usize = 100_003;
/// How often each file is made in the step that makes all files at once.
const ROUNDS: u64 = 3;
/// Name of the file whose size is `SIZES[index]`.
pub(crate) fn name_of(index: usize) -> String {
    format!("own-{index}")
}

/// Runs the steps in `dir`. After each attempt at one the host is told (`progress own NAME STEP ATTEMPT`), and answers
/// with a file `NAME-STEP-ATTEMPT` in `gates`, in which [`AGAIN`] may stand.
pub(super) fn run(dir: &Path, gates: &Path, name: &str, report: &mut Report) -> Result<()> {
    type Step = fn(&Path) -> Result<()>;
    let steps: [(&str, Step); STEPS] = [
        ("written", written),
        ("changed", changed),
        ("side-by-side", side_by_side),
        ("foreign", foreign),
    ];
    for (step, run) in steps {
        for attempt in 0..ATTEMPTS {
            if attempt > 0 && step == "changed" {
                written(dir)?;
            }
            let outcome = run(dir);
            report.line(&format!("progress own {name} {step} {attempt}"))?;
            let gate = gates.join(format!("{name}-{step}-{attempt}"));
            wait_for(&gate)?;
            if outcome.is_ok() && fs::read(&gate)? == AGAIN.as_bytes() {
                continue;
            }
            report.verdict(&format!("own/{name}/{step}"), &outcome)?;
            break;
        }
    }
    Ok(())
}

fn same_bytes(path: &Path, expected: &[u8]) -> Result<()> {
    let mut found = Vec::new();
    File::open(path)?.read_to_end(&mut found)?;
    match found.iter().zip(expected).position(|(a, b)| a != b) {
        _ if found.len() != expected.len() => {
            bail!("{} bytes, should be {}", found.len(), expected.len())
        }
        Some(at) => bail!("byte {at} is wrong"),
        None => Ok(()),
    }
}

/// Writes each file, which is a new one, closes it, and reads it back after another open.
fn written(dir: &Path) -> Result<()> {
    for (index, size) in SIZES.iter().enumerate() {
        let path = dir.join(name_of(index));
        if path.exists() {
            fs::remove_file(&path)?;
        }
        let data = pattern::bytes(index as u64, 0, *size);
        fs::write(&path, &data)?;
        same_bytes(&path, &data).with_context(|| format!("{size} bytes"))?;
    }
    Ok(())
}

/// Open again to change and to append, close; open, read.
fn changed(dir: &Path) -> Result<()> {
    for (index, size) in SIZES.iter().enumerate() {
        let path = dir.join(name_of(index));
        let mut data = pattern::bytes(index as u64, 0, *size);
        let (at, len) = (size / 3, size / 2);
        let piece = pattern::bytes(1_000 + index as u64, 0, len);
        let mut file = OpenOptions::new().read(true).write(true).open(&path)?;
        file.seek(SeekFrom::Start(at as u64))?;
        file.write_all(&piece)?;
        drop(file);
        let more = pattern::bytes(2_000 + index as u64, 0, 5_000);
        let mut file = OpenOptions::new().append(true).open(&path)?;
        file.write_all(&more)?;
        drop(file);
        data[at..at + len].copy_from_slice(&piece);
        data.extend_from_slice(&more);
        same_bytes(&path, &data).with_context(|| format!("{size} bytes"))?;
    }
    Ok(())
}

/// Small files of all sizes at once, each by a thread of its own.
fn side_by_side(dir: &Path) -> Result<()> {
    let one = |index: usize, size: usize| -> Result<()> {
        for round in 0..ROUNDS {
            let path = dir.join(format!("side-{round}-{index}"));
            let data = pattern::bytes(3_000 + round, 0, size);
            fs::write(&path, &data)?;
            same_bytes(&path, &data).with_context(|| format!("{size} bytes, round {round}"))?;
            fs::remove_file(&path)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let small = SIZES.iter().filter(|size| **size <= SMALL_MAX);
        let threads: Vec<_> = (0..)
            .zip(small)
            .map(|(index, size)| scope.spawn(move || one(index, *size)))
            .collect();
        for thread in threads {
            match thread.join() {
                Ok(outcome) => outcome?,
                Err(_) => bail!("a thread panicked"),
            }
        }
        Ok(())
    })
}

/// The host has written other bytes: they are seen.
fn foreign(dir: &Path) -> Result<()> {
    for (index, size) in SIZES.iter().enumerate() {
        let expected = pattern::bytes(FOREIGN_TAG + index as u64, 0, *size);
        same_bytes(&dir.join(name_of(index)), &expected)
            .with_context(|| format!("{size} bytes"))?;
    }
    Ok(())
}
