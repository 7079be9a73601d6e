//! A file system that is frozen for a while: changes of it wait, and all else goes on.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};

use crate::run;

/// A file system that can be frozen; thawed on drop.
pub struct Frozen {
    point: String,
    frozen: AtomicBool,
}

impl Frozen {
    /// The file system that is mounted on `point`, as yet not frozen.
    ///
    /// # Errors
    /// When the path is not UTF-8.
    pub fn new(point: &Path) -> Result<Self> {
        let point = point.to_str().context("a path that is UTF-8")?.to_owned();
        Ok(Self {
            point,
            frozen: AtomicBool::new(false),
        })
    }

    /// Freezes the file system: changes of it wait from now on.
    ///
    /// # Errors
    /// When the kernel does not do it.
    pub fn freeze(&self) -> Result<()> {
        run("fsfreeze", &["--freeze", &self.point])?;
        self.frozen.store(true, Ordering::Release);
        Ok(())
    }

    /// Thaws the file system: the changes that wait go on.
    ///
    /// # Errors
    /// When the kernel does not do it.
    pub fn thaw(&self) -> Result<()> {
        if self.frozen.swap(false, Ordering::AcqRel) {
            run("fsfreeze", &["--unfreeze", &self.point])?;
        }
        Ok(())
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        if let Err(error) = self.thaw() {
            println!("     left frozen: {} ({error:#})", self.point);
        }
    }
}
