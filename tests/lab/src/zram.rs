//! A disk in memory that takes direct I/O: what is measured on it is the path to the disk and no disk.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::output;

const ZRAM_CONTROL: &str = "/sys/class/zram-control";

/// A zram disk that is nobody else's; given back when dropped. Whoever mounted it has to be gone by then.
#[derive(Debug)]
pub struct Zram {
    number: u32,
}

impl Zram {
    /// Makes a disk of `bytes`; `None` where the kernel has no zram.
    ///
    /// # Errors
    /// There is zram, but no disk can be had.
    pub fn new(bytes: u64) -> Result<Option<Self>> {
        // Where zram is a module, loading it is what makes the control directory appear.
        if !Path::new(ZRAM_CONTROL).exists()
            && output(Command::new("modprobe").arg("zram")).is_err()
        {
            return Ok(None);
        }
        let hot_add = Path::new(ZRAM_CONTROL).join("hot_add");
        let Ok(number) = std::fs::read_to_string(&hot_add) else {
            return Ok(None);
        };
        let zram = Self {
            number: number
                .trim()
                .parse()
                .context("the number of the new zram disk")?,
        };
        zram.write("disksize", &bytes.to_string())?;
        Ok(Some(zram))
    }

    /// Path of the block device in `/dev`.
    pub fn device(&self) -> PathBuf {
        PathBuf::from(format!("/dev/zram{}", self.number))
    }

    fn write(&self, name: &str, value: &str) -> std::io::Result<()> {
        std::fs::write(format!("/sys/block/zram{}/{name}", self.number), value)
    }

    fn give_back(&self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(20);
        while let Err(error) = self.write("reset", "1") {
            if error.kind() != std::io::ErrorKind::ResourceBusy || Instant::now() > deadline {
                bail!("resetting: {error}");
            }
            // SLEEP: a poll for the kernel to take down the mount of a namespace that has ended.
            std::thread::sleep(Duration::from_millis(50));
        }
        let hot_remove = Path::new(ZRAM_CONTROL).join("hot_remove");
        std::fs::write(hot_remove, self.number.to_string()).context("removing")
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        if let Err(error) = self.give_back() {
            let device = self.device();
            eprintln!("cannot give {} back: {error:#}", device.display());
        }
    }
}
