//! Flushes of a server that wait until the test lets them go: what they make stable has been changed,
//! and nothing has been answered yet.
//!
//! The server is built with the feature `faults`; see `crates/nfs-io/src/faults.rs`.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::fs::{CWD, Mode, OFlags, mkfifoat, open};
use rustix::io::Errno;

/// The pause between two looks whether a flush has come.
const PAUSE: Duration = Duration::from_millis(1);

/// Where the flushes of one server are held.
pub struct Hold {
    rules: PathBuf,
    fifo: PathBuf,
}

/// One flush or several that wait; they go on when this is dropped.
#[must_use = "lets the flush go when it is dropped"]
pub struct Held {
    _writer: OwnedFd,
}

impl Hold {
    /// Makes the named pipe of a hold that holds nothing yet. Its files are in `dir` and their names begin
    /// with `name`.
    ///
    /// # Errors
    /// When the named pipe cannot be made.
    pub fn new(dir: &Path, name: &str) -> Result<Self> {
        let fifo = dir.join(format!("{name}.fifo"));
        mkfifoat(CWD, &fifo, Mode::RUSR | Mode::WUSR).context("make a named pipe")?;
        Ok(Self {
            rules: dir.join(format!("{name}.faults")),
            fifo,
        })
    }

    /// The file that the server is to find its faults in.
    pub fn rules(&self) -> &Path {
        &self.rules
    }

    /// Each flush of a file or directory waits from the `nth` on, which is 1 for the next.
    ///
    /// # Errors
    /// When the rule cannot be written.
    pub fn begin(&self, nth: u64) -> Result<()> {
        let rule = format!("call=fsync nth={nth} hold={}\n", self.fifo.display());
        let new = self.rules.with_extension("new");
        fs::write(&new, rule)?;
        Ok(fs::rename(&new, &self.rules)?)
    }

    /// None waits that comes from now on.
    ///
    /// # Errors
    /// When the rule cannot be taken away.
    pub fn end(&self) -> Result<()> {
        match fs::remove_file(&self.rules) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Waits until a flush waits. `None` when `go_on` says no before.
    ///
    /// # Errors
    /// Those of `go_on`.
    pub fn caught(&self, mut go_on: impl FnMut() -> Result<bool>) -> Result<Option<Held>> {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        loop {
            match open(&self.fifo, flags, Mode::empty()) {
                Ok(writer) => return Ok(Some(Held { _writer: writer })),
                // Nobody reads: no flush has come.
                Err(Errno::NXIO) => {}
                Err(error) => return Err(error).context("open a named pipe"),
            }
            if !go_on()? {
                return Ok(None);
            }
            // SLEEP: between two looks; an opening that waits could not be given up.
            std::thread::sleep(PAUSE);
        }
    }
}
