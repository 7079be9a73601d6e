//! Locks on a mount without `nolock`, of a server that has none: each call fails, and none hangs.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk};

use super::Report;
use super::check::{fails, same};

/// Number of verdicts that the suite gives.
pub(crate) const TESTS: usize = 7;

pub(super) fn run(dir: &Path, name: &str, report: &mut Report) -> Result<()> {
    let path = dir.join("locked");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    let mut file = options.open(&path).context("a file to lock")?;
    file.write_all(b"before")?;
    for (call, operation) in [
        ("at once", FlockOperation::NonBlockingLockExclusive),
        ("and wait", FlockOperation::LockExclusive),
    ] {
        let outcome = fails(flock(&file, operation), Errno::NOLCK, "flock");
        report.verdict(&format!("locks/{name}/flock {call}"), &outcome)?;
        let outcome = fails(fcntl_lock(&file, operation), Errno::NOLCK, "fcntl");
        report.verdict(&format!("locks/{name}/fcntl {call}"), &outcome)?;
    }
    let asked = fcntl_getlk(&file, &Flock::from(FlockType::WriteLock));
    let outcome = fails(asked, Errno::NOLCK, "F_GETLK");
    report.verdict(&format!("locks/{name}/ask"), &outcome)?;
    let unlocked = flock(&file, FlockOperation::Unlock).context("unlock");
    report.verdict(&format!("locks/{name}/unlock"), &unlocked)?;
    // The file is as usable as it was.
    let outcome = file
        .write_all_at(b"after!", 0)
        .and_then(|()| file.sync_all());
    let outcome = outcome
        .and_then(|()| std::fs::read(&path))
        .context("write and read")
        .and_then(|content| same(content.as_slice(), &b"after!"[..], "the file"));
    report.verdict(&format!("locks/{name}/write"), &outcome)
}
