//! A mount that is gone when its owner is: file systems without a disk of their own.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::process::output;

/// A mounted directory, which is unmounted on drop.
pub struct Mounted(PathBuf);

impl Mounted {
    /// A file system in memory with room for `size_mib` MiB, on `point`, which is created.
    ///
    /// # Errors
    /// When mount fails.
    pub fn tmpfs(size_mib: u32, point: &Path) -> Result<Self> {
        Self::new("tmpfs", &format!("size={size_mib}M"), point)
    }

    /// An overlay on `point`, which is created: the directories `lower`, `upper` and `work` are made
    /// in `base`, and changes go to `upper`.
    ///
    /// # Errors
    /// When mount fails.
    pub fn overlay(base: &Path, point: &Path) -> Result<Self> {
        let [lower, upper, work] = ["lower", "upper", "work"].map(|name| base.join(name));
        for dir in [&lower, &upper, &work] {
            std::fs::create_dir_all(dir)?;
        }
        let options = format!(
            "lowerdir={},upperdir={},workdir={},index=on,nfs_export=on",
            lower.display(),
            upper.display(),
            work.display()
        );
        Self::new("overlay", &options, point)
    }

    /// The directory `from` on `point` too, which has to be there.
    ///
    /// # Errors
    /// When mount fails.
    pub fn bind(from: &Path, point: &Path) -> Result<Self> {
        output(Command::new("mount").arg("--bind").args([from, point]))?;
        Ok(Self(point.to_path_buf()))
    }

    fn new(kind: &str, options: &str, point: &Path) -> Result<Self> {
        std::fs::create_dir_all(point)?;
        let mut command = Command::new("mount");
        command.args(["-t", kind, "-o", options, kind]).arg(point);
        output(&mut command)?;
        Ok(Self(point.to_path_buf()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: what still looks at it must not keep a finished test from ending.
        if let Err(error) = output(Command::new("umount").arg("--lazy").arg(&self.0)) {
            println!("     left behind: {} ({error:#})", self.0.display());
        }
    }
}
