//! The fast device: a file system in memory that takes direct I/O, so that what is measured is the path and not a disk.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::content::Data;
use crate::stage::output;

const ZRAM_CONTROL: &str = "/sys/class/zram-control";

/// A zram disk of our own; given back when dropped. Whoever mounted it has to be gone by then.
#[derive(Debug)]
pub struct Zram {
    number: u32,
}

impl Zram {
    /// A new one of `bytes`, or `None` where the kernel has no zram.
    ///
    /// # Errors
    /// There is zram, but no disk can be had.
    pub fn new(bytes: u64) -> Result<Option<Self>> {
        // Where zram is a module, loading it is what makes the control directory appear.
        if !Path::new(ZRAM_CONTROL).exists() && output("modprobe", &["zram"]).is_err() {
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

    /// Where it is.
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

/// A place that files are served from.
#[derive(Debug)]
pub struct Volume {
    /// The exported directory.
    pub directory: PathBuf,
    /// Short, for tables.
    pub name: &'static str,
    /// What it is, for the report.
    pub description: String,
    /// What files on it hold.
    pub data: Data,
    /// Whether freed blocks are given back between measurements, because they are the machine's memory.
    pub trimmed: bool,
}

impl Volume {
    /// A new XFS, mounted at `directory`, on `zram` or on a loop device over a file of `bytes` in a tmpfs.
    ///
    /// # Errors
    /// xfsprogs are missing, or a mount is refused.
    pub fn fast(zram: Option<&Path>, directory: &Path, bytes: u64, data: Data) -> Result<Self> {
        std::fs::create_dir_all(directory)?;
        let at = directory.display().to_string();
        let description = if let Some(device) = zram {
            let device = device.display().to_string();
            output("mkfs.xfs", &["-q", "-f", &device])?;
            output("mount", &[&device, &at])?;
            "XFS on zram"
        } else {
            let image = directory.with_extension("img");
            let image_text = image.display().to_string();
            std::fs::File::create(&image)?.set_len(bytes)?;
            output("mkfs.xfs", &["-q", &image_text])?;
            // The loop device goes with the mount, the mount with the namespace.
            output("mount", &["-o", "loop", &image_text, &at])?;
            "XFS on a loop device over tmpfs"
        };
        Ok(Self {
            directory: directory.to_owned(),
            name: "fast",
            data,
            description: format!(
                "{description}, {}",
                match data {
                    Data::Noise => "files of noise",
                    Data::Filled => "files whose every block repeats a stamp of its own",
                }
            ),
            trimmed: true,
        })
    }

    /// A directory of the machine's own disk.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn disk(directory: &Path) -> Result<Self> {
        std::fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        let at = directory.display().to_string();
        let kind = output("findmnt", &["-n", "-o", "FSTYPE,SOURCE", "-T", &at])?;
        let words: Vec<&str> = kind.split_whitespace().collect();
        Ok(Self {
            directory: directory.to_owned(),
            name: "disk",
            data: Data::Noise,
            description: words.join(" on "),
            trimmed: false,
        })
    }

    /// Everything written is on the device, and what was freed is given back.
    ///
    /// # Errors
    /// The file system cannot be synced.
    pub fn settle(&self) -> Result<()> {
        let directory = std::fs::File::open(&self.directory)?;
        rustix::fs::syncfs(&directory).context("syncfs")?;
        if self.trimmed {
            // A loop device over tmpfs punches holes, zram frees pages; without either it only costs memory.
            let _ = output("fstrim", &[&self.directory.display().to_string()]);
        }
        Ok(())
    }
}
