//! Which writes to the page cache wait for the disk although they are told not to wait.
//!
//! A ring tries a write within the submission, with `IOCB_NOWAIT`, and hands it to a worker where it would have to wait.
//! The kernel does not hold to that everywhere. A page that is being written back must stay as it is where the device
//! reads it more than once or has taken its checksum (RAID 4 to 6, iSCSI and NVMe over TCP with digests, zram, disks
//! with integrity data), and whoever changes it waits until the device is done with it (`folio_wait_stable` in
//! `__filemap_get_folio`), whatever flags it has (Linux 6.1 to 7.2). A disk that hangs would so hold the thread that
//! submits, and all that it serves.

use rustix::fs::{major, minor};

use crate::fs::statfs::{BTRFS, RAMFS, TMPFS};
use crate::mounts::mounts;
use crate::probe::device::Device;

/// When a write to the page cache of a file system waits for the disk although it is told not to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteWaits {
    /// Never.
    Never,
    /// Where it changes a page that is being written back.
    ForWriteBack,
    /// Also for reading what it does not replace of a page, and perhaps for more: best not tried at all.
    Often,
}

impl WriteWaits {
    /// What is known of a file system of the type `fs_type` ([`crate::fs::FsStat::fs_type`]) whose files have the device
    /// number `dev`. What is not known counts as waiting for write-back, which costs time and does no harm.
    ///
    /// The device says whether it wants pages to stay as they are; a file system asks it when it is mounted, so that a
    /// change of `queue/stable_writes` from then on goes unseen.
    ///
    /// - `tmpfs` and `ramfs` have no disk. (The ring does not try writes to them, nor to ext4, within the submission.)
    /// - btrfs waits for write-back whatever its devices want, as it keeps checksums, and for reading the rest of a page
    ///   of which a write changes a part (`prepare_uptodate_folio`).
    /// - XFS with a realtime device may have files on a device other than the one whose number they have.
    /// - File systems without a block device of their own (network, FUSE, overlayfs) do not say. They are not for the
    ///   ring, see [`crate::fs::is_local`].
    #[must_use]
    pub fn of(fs_type: u32, dev: u64) -> Self {
        let number = (major(dev), minor(dev));
        match fs_type {
            TMPFS | RAMFS => Self::Never,
            BTRFS => Self::Often,
            _ if wants_no_stable_pages(number) && !has_another_device(number) => Self::Never,
            _ => Self::ForWriteBack,
        }
    }
}

fn wants_no_stable_pages(number: (u32, u32)) -> bool {
    Device::numbered(number).and_then(|device| device.stable_pages) == Some(false)
}

/// Whether files of the file system on this device may lie on another one.
fn has_another_device(number: (u32, u32)) -> bool {
    let Ok(mounts) = mounts() else {
        return true;
    };
    mounts.iter().any(|mount| {
        let mut options = mount.super_options.split(',');
        mount.dev == number && options.any(|option| option.starts_with("rtdev="))
    })
}
