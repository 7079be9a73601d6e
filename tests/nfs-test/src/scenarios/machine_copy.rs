//! A copy of this machine, in which a scenario does as it likes: files, network and processes are its own, and gone
//! afterwards.

use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use nfs_lab::{Mounted, output_within};

use crate::host::Context;

/// This machine's files, with changes that nobody else sees and that are gone afterwards.
pub(super) struct MachineCopy {
    memory: PathBuf,
    // They lie in what is mounted below, and go first.
    given: Vec<Mounted>,
    _mounted: Mounted,
}

impl MachineCopy {
    /// The copy, with changes of up to a gibibyte.
    ///
    /// # Errors
    /// When it cannot be mounted below this name in the scenario's directory.
    pub(super) fn new(context: &Context, name: &str) -> Result<Self> {
        let memory = context.lab.dir.join(name);
        let mounted = Mounted::tmpfs(1024, &memory)?;
        for name in ["changes", "work", "whole", "given"] {
            std::fs::create_dir(memory.join(name))?;
        }
        Ok(Self {
            memory,
            given: Vec::new(),
            _mounted: mounted,
        })
    }

    /// A file or a directory of this machine that the copy finds below /run/given.
    pub(super) fn give(&mut self, from: &Path, name: &str) -> Result<()> {
        let at = self.put(name);
        if from.is_dir() {
            std::fs::create_dir(&at)?;
        } else {
            std::fs::write(&at, "")?;
        }
        self.given.push(Mounted::bind(from, &at)?);
        Ok(())
    }

    /// Where something is put that the copy finds below /run/given.
    pub(super) fn put(&self, name: &str) -> PathBuf {
        self.memory.join("given").join(name)
    }

    /// Runs a script of the shell in the copy, which has a network and processes of its own.
    pub(super) fn run(&self, script: &str, within: Duration) -> Result<()> {
        std::fs::write(self.put("script"), script)?;
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--net", "--pid", "--fork", "--kill-child"]);
        unshare.args(["sh", "-eu", "-c", include_str!("machine_copy.sh"), "sh"]);
        output_within(unshare.arg(&self.memory), within).map(drop)
    }

    /// The files that are there now and were not, or not so, before, below its root; but for those that begin so.
    pub(super) fn left(&self, but: &[&str]) -> Result<Vec<String>> {
        let changes = self.memory.join("changes");
        let mut left = Vec::new();
        let mut directories = vec![changes.clone()];
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(&directory)? {
                let entry = entry?;
                let kind = entry.file_type()?;
                // An overlay's mark for what is not there any more.
                if kind.is_char_device() {
                    continue;
                }
                if kind.is_dir() {
                    directories.push(entry.path());
                    continue;
                }
                let path = entry.path();
                let path = path.strip_prefix(&changes)?.display().to_string();
                if !but.iter().any(|begin| path.starts_with(begin)) {
                    left.push(path);
                }
            }
        }
        left.sort();
        Ok(left)
    }
}
