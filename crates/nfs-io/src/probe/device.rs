//! What a file system is on: sysfs, for hints. Nothing here is needed to serve files, so
//! whatever cannot be read is simply not known.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

use crate::mounts::Mount;

/// A block device as sysfs shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The kernel's name of the whole device: `nvme0n1`, `loop3`.
    pub name: String,
    /// Major and minor number of what is mounted, which may be a partition.
    pub number: (u32, u32),
    /// What kind of block device this is.
    pub kind: DeviceKind,
    /// Smallest unit it can be asked for, in bytes.
    pub logical_block_bytes: Option<u64>,
    /// Smallest unit it writes without reading first, in bytes.
    pub physical_block_bytes: Option<u64>,
    /// Whether the disk has turning platters, so that seeks cost time; `None` where sysfs does not tell.
    pub rotational: Option<bool>,
    /// Whether it holds writes in a cache that a flush has to empty.
    pub write_back_cache: Option<bool>,
    /// Whether pages are to stay as they are while it writes them back, since it reads them more than once or takes
    /// their checksum before.
    pub stable_pages: Option<bool>,
}

/// What kind of block device, as far as it matters to what is measured on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A disk, or what looks like one.
    Disk,
    /// A loop device, which shows a file of another file system as a disk.
    Loop {
        /// The file behind the loop device, as the kernel names it; `None` where sysfs does not tell.
        backing: Option<PathBuf>,
        /// Whether the loop device reads and writes that file past the page cache.
        direct: Option<bool>,
    },
    /// A disk of compressed memory.
    Zram,
    /// A disk of memory that is not compressed, such as `brd` makes.
    Ramdisk,
    /// Another machine's disk: a network block device.
    Network,
    /// Put together of others by device mapper or md.
    Stacked,
}

impl Device {
    /// The device beneath a mount. `None` where it has none (tmpfs, overlayfs, NFS) or sysfs
    /// does not tell.
    #[must_use]
    pub fn of(mount: &Mount) -> Option<Self> {
        let number = if mount.dev.0 == 0 {
            // btrfs mounts have a number of no device; the source names one of its devices.
            let device = std::fs::metadata(Path::new("/").join(&mount.source)).ok()?;
            let rdev = device.rdev();
            device
                .file_type()
                .is_block_device()
                .then(|| (major(rdev), minor(rdev)))?
        } else {
            mount.dev
        };
        Self::numbered(number)
    }

    /// The device with a major and a minor number. `None` where sysfs does not tell, and for the numbers that the
    /// kernel gives to file systems without a device.
    #[must_use]
    pub fn numbered(number: (u32, u32)) -> Option<Self> {
        let sysfs = PathBuf::from(format!("/sys/dev/block/{}:{}", number.0, number.1));
        let mut dir = std::fs::canonicalize(sysfs).ok()?;
        if dir.join("partition").exists() {
            dir.pop();
        }
        Some(Self::in_sysfs(&dir, number))
    }

    fn in_sysfs(dir: &Path, number: (u32, u32)) -> Self {
        let name = dir.file_name().map_or_else(String::new, |name| {
            // An exclamation mark stands for the slash of names such as cciss/c0d0.
            name.to_string_lossy().replace('!', "/")
        });
        let attribute = |path: &str| text(&dir.join(path));
        let bytes = |path: &str| attribute(path).and_then(|text| text.parse().ok());
        Self {
            kind: kind_of(&name, dir),
            name,
            number,
            logical_block_bytes: bytes("queue/logical_block_size"),
            physical_block_bytes: bytes("queue/physical_block_size"),
            rotational: attribute("queue/rotational").map(|text| text == "1"),
            write_back_cache: attribute("queue/write_cache").map(|text| text == "write back"),
            stable_pages: attribute("queue/stable_writes").map(|text| text == "1"),
        }
    }
}

fn kind_of(name: &str, dir: &Path) -> DeviceKind {
    let is = |prefix: &str| name.starts_with(prefix);
    if is("loop") {
        DeviceKind::Loop {
            backing: text(&dir.join("loop/backing_file")).map(PathBuf::from),
            direct: text(&dir.join("loop/dio")).map(|text| text == "1"),
        }
    } else if is("zram") {
        DeviceKind::Zram
    } else if is("ram") || is("pmem") && dir.join("device/memmap").exists() {
        DeviceKind::Ramdisk
    } else if is("nbd") || is("rbd") || is("drbd") {
        DeviceKind::Network
    } else if is("dm-") || is("md") {
        DeviceKind::Stacked
    } else {
        DeviceKind::Disk
    }
}

fn text(path: &Path) -> Option<String> {
    let text = std::fs::read(path).ok()?;
    Some(String::from_utf8_lossy(&text).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn understands_a_sysfs_directory() {
        let sysfs = tempfile::tempdir().unwrap();
        let dir = sysfs.path().join("loop7");
        for (path, value) in [
            ("queue/logical_block_size", "4096\n"),
            ("queue/rotational", "0\n"),
            ("queue/write_cache", "write back\n"),
            ("queue/stable_writes", "1\n"),
            ("loop/backing_file", "/srv/image\n"),
            ("loop/dio", "1\n"),
        ] {
            let path = dir.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, value).unwrap();
        }
        let device = Device::in_sysfs(&dir, (7, 7));
        assert_eq!(device.name, "loop7");
        let kind = DeviceKind::Loop {
            backing: Some("/srv/image".into()),
            direct: Some(true),
        };
        assert_eq!(device.kind, kind);
        assert_eq!(device.logical_block_bytes, Some(4096));
        assert_eq!(device.physical_block_bytes, None, "not there");
        assert_eq!(
            (
                device.rotational,
                device.write_back_cache,
                device.stable_pages
            ),
            (Some(false), Some(true), Some(true))
        );
    }

    #[test]
    fn names_tell_kinds() {
        let nowhere = Path::new("/nonexistent");
        for (name, kind) in [
            ("sda", DeviceKind::Disk),
            ("nvme0n1", DeviceKind::Disk),
            ("vda", DeviceKind::Disk),
            ("zram0", DeviceKind::Zram),
            ("ram0", DeviceKind::Ramdisk),
            ("nbd3", DeviceKind::Network),
            ("dm-0", DeviceKind::Stacked),
            ("md127", DeviceKind::Stacked),
        ] {
            assert_eq!(kind_of(name, nowhere), kind, "{name}");
        }
    }

    #[test]
    fn a_mount_without_a_device_has_none() {
        let mounts = crate::mounts::mounts().unwrap();
        for mount in mounts.iter().filter(|mount| mount.fs_type == "proc") {
            assert_eq!(Device::of(mount), None);
        }
    }
}
