//! The fast device: a file system in memory that takes direct I/O, so that what is measured is the path and not a disk.

use std::os::unix::fs::MetadataExt as _;
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
    /// The volumes of a comparison: the fast one of `fast_bytes` if that is wanted, and the one on disk unless `on`
    /// names another.
    ///
    /// # Errors
    /// See [`Self::fast`] and [`Self::disk`].
    pub fn wanted(
        (zram, fast_at, fast_bytes): (Option<&Path>, &Path, Option<u64>),
        disk: &Path,
        on: Option<&str>,
        data: Data,
    ) -> Result<Vec<Self>> {
        let mut volumes = Vec::new();
        if let Some(bytes) = fast_bytes {
            volumes.push(Self::fast(zram, fast_at, bytes, data)?);
        }
        if on.is_none_or(|on| on == "disk") {
            volumes.push(Self::disk(disk)?);
        }
        Ok(volumes)
    }

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

    /// Bytes that the volume's device was read since it is there, by whomever; `None` where the kernel does not
    /// tell, as for file systems without a device.
    pub fn device_read_bytes(&self) -> Option<u64> {
        let dev = std::fs::metadata(&self.directory).ok()?.dev();
        let (major, minor) = (rustix::fs::major(dev), rustix::fs::minor(dev));
        let stat = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
        read_bytes(&stat)
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

/// A new XFS, mounted at `directory`, on a loop device over a file of `bytes` beside it, whose blocks are taken: a flush
/// is one of the disk, and what is written past the page cache passes that of the disk's file system as well.
///
/// # Errors
/// xfsprogs are missing, the disk is full, or a mount is refused.
pub fn xfs_in_a_file(directory: &Path, bytes: u64) -> Result<()> {
    std::fs::create_dir_all(directory)?;
    let (at, image) = (directory.display(), directory.with_extension("img"));
    let image = image.display().to_string();
    output("fallocate", &["--length", &bytes.to_string(), &image])?;
    output("mkfs.xfs", &["-q", &image])?;
    let device = output("losetup", &["--find", "--show", "--direct-io=on", &image])?;
    let mounted = output("mount", &[&device, &at.to_string()]);
    // Of a mounted device this only says that it is to go with the mount, and the mount goes with the namespace.
    output("losetup", &["--detach", &device])?;
    mounted.map(drop)
}

/// The bytes that were read, by the line of figures that the kernel has of a block device: reads, merged reads and
/// sectors of 512 bytes come first (Documentation/block/stat.rst).
fn read_bytes(stat: &str) -> Option<u64> {
    let sectors: u64 = stat.split_whitespace().nth(2)?.parse().ok()?;
    sectors.checked_mul(512)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_figure_of_a_device_is_sectors_that_were_read() {
        let stat = "    7      1       24        3    9 8 7 6 5 4 3\n";
        assert_eq!(read_bytes(stat), Some(24 * 512));
        assert_eq!(read_bytes("7 1"), None);
    }
}
