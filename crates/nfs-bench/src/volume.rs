//! The fast device: a file system in memory that takes direct I/O, so that what is measured is the path and not a disk.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::content::Data;
use crate::stage::output;

/// A directory on some file system that files are served from.
#[derive(Debug)]
pub struct Volume {
    /// The directory that is exported.
    pub directory: PathBuf,
    /// Short name of the volume, for tables and for `--on`.
    pub name: &'static str,
    /// Description of the file system, for the report's header.
    pub description: String,
    /// Contents of the files on this volume.
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

    /// Brings everything written to the device, and gives the blocks of deleted files back to it where that
    /// frees memory.
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
