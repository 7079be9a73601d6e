//! A program that holds opens and locks of each kind while the host kills the server, and goes on with them.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use rustix::fs::{FlockOperation, OFlags, flock};

use super::Report;
use super::check::same;

/// The file of which ranges are locked.
pub(crate) const RANGES: &str = "ranges";
/// The file that is locked as a whole, by flock(2).
pub(crate) const WHOLE: &str = "whole";
/// The file that is open, and no more.
pub(crate) const OPEN: &str = "open";
/// The ranges of [`RANGES`] that are locked, first and end: by the process for writing and for reading, and by an
/// open file for writing.
pub(crate) const LOCKED: [(u64, u64); 3] = [(0, 100), (200, 300), (400, 500)];
/// The pause between two uses of what is held.
const PAUSE: Duration = Duration::from_millis(20);

/// Holds what it can until the host makes the file `release`; tells of each use (`progress hold N`).
pub(super) fn run(dir: &Path, release: &Path, report: &mut Report) -> Result<()> {
    let outcome = hold(dir, release, report);
    report.verdict("hold", &outcome)
}

fn hold(dir: &Path, release: &Path, report: &mut Report) -> Result<()> {
    let [ranges, again, whole, open] = [RANGES, RANGES, WHOLE, OPEN].map(|name| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        // What is read is what the server has.
        options.custom_flags(OFlags::DIRECT.bits().cast_signed());
        options.open(dir.join(name)).context(name)
    });
    let (ranges, again, whole, open) = (ranges?, again?, whole?, open?);
    let [written, read, of_file] = LOCKED;
    // Written before it is locked for reading.
    ranges.write_all_at(&[7; 100], read.0)?;
    fcntl(&ranges, FcntlArg::F_SETLK(&lock(libc::F_WRLCK, written))).context("lock for writing")?;
    fcntl(&ranges, FcntlArg::F_SETLK(&lock(libc::F_RDLCK, read))).context("lock for reading")?;
    fcntl(&again, FcntlArg::F_OFD_SETLK(&lock(libc::F_WRLCK, of_file)))
        .context("lock by an open file")?;
    flock(&whole, FlockOperation::NonBlockingLockExclusive).context("flock")?;
    let mut uses = 0_u64;
    while !release.exists() {
        uses += 1;
        use_range(&ranges, written.0, uses).context("what the process has locked")?;
        use_range(&again, of_file.0, uses).context("what the open file has locked")?;
        use_range(&whole, 0, uses).context("what is locked as a whole")?;
        use_range(&open, 0, uses).context("what is open")?;
        let mut found = [0; 100];
        ranges.read_exact_at(&mut found, read.0)?;
        same(found, [7; 100], "what is locked for reading")?;
        report.line(&format!("progress hold {uses}"))?;
        // SLEEP: the locks are held meanwhile, and that nobody gets them is what is tested.
        std::thread::sleep(PAUSE);
    }
    // Closing unlocks, too; here nothing else could be wrong any more.
    for range in LOCKED {
        fcntl(&ranges, FcntlArg::F_SETLK(&lock(libc::F_UNLCK, range))).context("unlock")?;
        fcntl(&again, FcntlArg::F_OFD_SETLK(&lock(libc::F_UNLCK, range))).context("unlock")?;
    }
    flock(&whole, FlockOperation::Unlock).context("unlock")
}

/// Finds there what was written last time, and writes something else.
fn use_range(file: &File, at: u64, uses: u64) -> Result<()> {
    if uses > 1 {
        let mut found = [0; 8];
        file.read_exact_at(&mut found, at).context("read")?;
        same(u64::from_be_bytes(found), uses - 1, "what was written")?;
    }
    file.write_all_at(&uses.to_be_bytes(), at).context("write")
}

fn lock(how: libc::c_int, (start, end): (u64, u64)) -> libc::flock {
    libc::flock {
        l_type: i16::try_from(how).unwrap_or_default(),
        l_whence: i16::try_from(libc::SEEK_SET).unwrap_or_default(),
        l_start: start.cast_signed(),
        l_len: (end - start).cast_signed(),
        l_pid: 0,
    }
}
