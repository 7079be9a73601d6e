//! An export that `penstock mount` has mounted.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use nfs_lab::Running;
use rustix::process::Signal;

use crate::servers::binary;
use crate::stage::output;

/// How long the mount may take.
const MOUNT_DEADLINE: Duration = Duration::from_secs(10);
/// The pause between two looks whether it is there.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// A mount, and the process that serves it; both end when dropped, which has to be before the server ends.
pub(crate) struct Mounted {
    /// Where it is mounted.
    pub(crate) directory: PathBuf,
    process: Running,
}

impl Mounted {
    /// Mounts the export of `url` at the new directory `at`; `command` is put before the program's words, and messages go
    /// to a file beside the directory.
    pub(crate) fn start(mut command: Command, url: &str, at: &Path) -> Result<Self> {
        fs::create_dir(at)?;
        command.arg(binary()?).arg("mount").arg(url).arg(at);
        command
            .stdout(Stdio::null())
            .stderr(File::create(at.with_extension("log"))?);
        let process = Running::start(&mut command)?;
        let deadline = Instant::now() + MOUNT_DEADLINE;
        while output("mountpoint", &["-q", &at.display().to_string()]).is_err() {
            ensure!(
                Instant::now() < deadline,
                "penstock mount is not there: {}",
                fs::read_to_string(at.with_extension("log")).unwrap_or_default()
            );
            // SLEEP: between two looks at the mount.
            std::thread::sleep(BETWEEN_LOOKS);
        }
        Ok(Self {
            directory: at.to_owned(),
            process,
        })
    }

    /// The process that serves it.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Without it the mount would wait for its server; with the namespace it goes in any case.
        self.process.signal(Signal::TERM);
    }
}
