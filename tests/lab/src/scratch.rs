//! The directory of one test: removed when the test passed, kept (and its logs shown) when it failed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// How many lines of each log are shown after a failure.
const TAIL_LINES: usize = 25;

/// A temporary directory, which is removed on drop.
pub struct Scratch(Option<tempfile::TempDir>);

impl Scratch {
    /// A fresh directory named after the test, on a disk file system that a guest sees as well
    /// (a guest hides the host's `/dev`, `/run` and `/mnt` behind its own).
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub fn new(name: &str) -> Result<Self> {
        let prefix = format!("nfs-test-{}-", name.replace([':', '/'], "-"));
        let dir = tempfile::Builder::new()
            .prefix(&prefix)
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .tempdir_in("/var/tmp")
            .context("make a directory in /var/tmp")?;
        Ok(Self(Some(dir)))
    }

    /// Path of the directory, as long as it is there.
    pub fn path(&self) -> &Path {
        self.0
            .as_ref()
            .map_or_else(|| Path::new("/nonexistent"), |dir| dir.path())
    }

    /// Leaves the directory where it is and prints its path.
    pub fn keep(mut self) {
        if let Some(dir) = self.0.take() {
            println!("     kept {}", dir.keep().display());
        }
    }

    /// Leaves the directory and prints the end of every log in it.
    pub fn keep_and_show(self) {
        for log in logs(self.path()) {
            let Ok(text) = fs::read(&log) else { continue };
            let text = String::from_utf8_lossy(&text);
            let lines: Vec<_> = text.lines().collect();
            println!("     the end of {}:", log.display());
            for line in &lines[lines.len().saturating_sub(TAIL_LINES)..] {
                println!("       {line}");
            }
        }
        self.keep();
    }
}

fn logs(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ext| ext == "log"))
        .collect();
    found.sort();
    found
}
