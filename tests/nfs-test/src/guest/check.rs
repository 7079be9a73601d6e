//! Small checks that say what they found.

use std::fmt::Debug;
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nfs_lab::pattern;
use rustix::fs::Advice;
use rustix::io::Errno;

/// How long the host may take to answer.
const HOST_DEADLINE: Duration = Duration::from_secs(60);
/// The pause between two looks for its answer, or for a change.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits for the host's answer: the file `gate`.
pub(super) fn wait_for(gate: &Path) -> Result<()> {
    until("the host's answer", || Ok(gate.exists()))
}

/// Looks again and again until `seen` says yes.
pub(super) fn until(what: &str, mut seen: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + HOST_DEADLINE;
    while !seen()? {
        ensure!(Instant::now() < deadline, "{what} does not come");
        // SLEEP: between two looks; nothing wakes a client when somebody else changes a file.
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Checks that a call failed with `errno`.
pub(super) fn fails<T, E: Into<std::io::Error>>(
    outcome: Result<T, E>,
    errno: Errno,
    what: &str,
) -> Result<()> {
    match outcome {
        Ok(_) => bail!("{what}: succeeded, should be {errno:?}"),
        Err(error) => {
            let error: std::io::Error = error.into();
            let found = error.raw_os_error();
            ensure!(
                found == Some(errno.raw_os_error()),
                "{what}: {error}, should be {errno:?}"
            );
            Ok(())
        }
    }
}

/// Checks that the value found is the one expected.
pub(super) fn same<T: PartialEq + Debug>(found: T, expected: T, what: &str) -> Result<()> {
    ensure!(
        found == expected,
        "{what}: {found:?}, should be {expected:?}"
    );
    Ok(())
}

/// The names in a directory, sorted by their bytes.
pub(super) fn names(dir: &Path) -> Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))? {
        names.push(entry?.file_name().into_vec());
    }
    names.sort();
    Ok(names)
}

/// Forgets the client's cached pages of a file (after writing them back), so that the next read
/// asks the server.
pub(super) fn forget_pages(file: &File) -> Result<()> {
    file.sync_all().context("fsync")?;
    rustix::fs::fadvise(file, 0, None, Advice::DontNeed).context("fadvise")?;
    Ok(())
}

/// `len` bytes at `offset` have to be the pattern of `tag`.
pub(super) fn holds_pattern(file: &File, tag: u64, offset: u64, len: usize) -> Result<()> {
    let mut found = vec![0; len];
    file.read_exact_at(&mut found, offset)
        .with_context(|| format!("read {len} at {offset}"))?;
    match pattern::first_difference(tag, offset, &found) {
        None => Ok(()),
        Some(at) => bail!("wrong byte at {at} (read of {len} at {offset})"),
    }
}

/// `len` bytes at `offset` have to be zero.
pub(super) fn holds_zeros(file: &File, offset: u64, len: usize) -> Result<()> {
    let mut found = vec![1; len];
    file.read_exact_at(&mut found, offset)
        .with_context(|| format!("read {len} at {offset}"))?;
    match found.iter().position(|byte| *byte != 0) {
        None => Ok(()),
        Some(at) => bail!("byte at {} of a hole is not zero", offset + at as u64),
    }
}
