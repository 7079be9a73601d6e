//! A file system of our own in an image file, on a loop device, whose power can be cut.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::process::{Running, output, run};

/// How long an unmounted file system may stay busy: a ring that was killed with its process gives
/// its files back a little later.
const UNMOUNT_DEADLINE: Duration = Duration::from_secs(20);
/// The pause between two attempts to unmount the file system.
const UNMOUNT_PAUSE: Duration = Duration::from_millis(2);

/// The kinds of file system that an image can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FsKind {
    /// XFS, whose image needs at least 300 MiB.
    Xfs,
    /// ext4, with inodes of 256 bytes.
    Ext4,
    /// btrfs, whose image needs at least 110 MiB.
    Btrfs,
}

/// A mounted loop file system; unmounted, and its image removed if it made that, on drop.
pub struct LoopFs {
    image: PathBuf,
    /// The directory of an image that it made. It is in memory if there is /dev/shm, since what a power cut drops
    /// is decided above the loop device.
    _place: Option<tempfile::TempDir>,
    point: PathBuf,
    /// Bytes of a sector of the device: what direct I/O has to be aligned to.
    sector: u32,
    mounted: bool,
}

impl LoopFs {
    /// Makes a file system of `size_mib` MiB on a device with sectors of 512 bytes and mounts it on
    /// `point`, which is created. XFS wants at least 300 MiB, btrfs 110; what is never written
    /// takes no space.
    ///
    /// # Errors
    /// When a tool fails: no loop device, no space, no such file system in the kernel.
    pub fn new(kind: FsKind, size_mib: u32, point: &Path) -> Result<Self> {
        Self::with_sectors(kind, 512, size_mib, point)
    }

    /// Makes and mounts a file system as [`LoopFs::new`] does, on a device with sectors of `sector`
    /// bytes: 512 or 4096.
    ///
    /// # Errors
    /// Those of [`LoopFs::new`].
    pub fn with_sectors(kind: FsKind, sector: u32, size_mib: u32, point: &Path) -> Result<Self> {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() {
            memory
        } else {
            Path::new("/var/tmp")
        };
        let place = tempfile::Builder::new()
            .prefix("nfs-test-image-")
            .tempdir_in(parent)?;
        let image = place.path().join("disk.img");
        let path = image.to_str().context("a path that is UTF-8")?;
        run("truncate", &["-s", &format!("{size_mib}M"), path])?;
        match kind {
            FsKind::Xfs => {
                let size = format!("size={sector}");
                run("mkfs.xfs", &["-q", "-s", &size, path])?;
            }
            FsKind::Ext4 => run("mkfs.ext4", &["-q", "-F", "-I", "256", path])?,
            FsKind::Btrfs => run("mkfs.btrfs", &["-q", "-f", path])?,
        }
        std::fs::create_dir_all(point)?;
        let point = point.to_path_buf();
        let mut fs = Self {
            image,
            _place: Some(place),
            point,
            sector,
            mounted: false,
        };
        fs.mount()?;
        Ok(fs)
    }

    /// Mounts the file system that is in an image, on a device with sectors of 512 bytes, on `point`, which is
    /// created.
    ///
    /// # Errors
    /// When a tool fails, as in [`LoopFs::new`].
    pub fn of_image(image: &Path, point: &Path) -> Result<Self> {
        std::fs::create_dir_all(point)?;
        let mut fs = Self {
            image: image.to_path_buf(),
            _place: None,
            point: point.to_path_buf(),
            sector: 512,
            mounted: false,
        };
        fs.mount()?;
        Ok(fs)
    }

    /// The directory that the file system is mounted on.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// The file that holds the disk's image; one that this value made goes with it.
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// Mounts the file system (again), which recovers from its log.
    ///
    /// # Errors
    /// When mount fails.
    pub fn mount(&mut self) -> Result<()> {
        let sector = self.sector.to_string();
        let device = output(
            Command::new("losetup")
                .args(["--find", "--show", "--sector-size", &sector])
                .arg(&self.image),
        )?;
        let device = String::from_utf8(device)?;
        let device = device.trim();
        let mounted = output(Command::new("mount").arg(device).arg(&self.point));
        // Of a mounted device this only says that it is to go with the mount.
        run("losetup", &["--detach", device])?;
        mounted?;
        self.mounted = true;
        Ok(())
    }

    /// Unmounts the file system, and waits up to 20 seconds for what still uses it.
    ///
    /// # Errors
    /// When it stays busy.
    pub fn unmount(&mut self) -> Result<()> {
        let deadline = Instant::now() + UNMOUNT_DEADLINE;
        loop {
            match output(Command::new("umount").arg(&self.point)) {
                Ok(_) => break,
                Err(error) if Instant::now() > deadline => return Err(error),
                // SLEEP: between two tries.
                Err(_) => std::thread::sleep(UNMOUNT_PAUSE),
            }
        }
        self.mounted = false;
        Ok(())
    }

    /// A knife that cuts its power without delay.
    ///
    /// # Errors
    /// When xfs_io cannot be started.
    pub fn knife(&self) -> Result<Knife> {
        let mut command = Command::new("xfs_io");
        command.arg("-x").arg(&self.point);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut process = Running::start(&mut command)?;
        let input = process
            .child()
            .stdin
            .take()
            .context("xfs_io's standard input")?;
        Ok(Knife { process, input })
    }
}

impl Drop for LoopFs {
    fn drop(&mut self) {
        if self.mounted
            && let Err(error) = self.unmount()
        {
            println!("     left behind: {} ({error:#})", self.point.display());
        }
    }
}

/// An xfs_io that has the mount open and waits for its command.
pub struct Knife {
    process: Running,
    input: ChildStdin,
}

impl Knife {
    /// The file system drops everything that is not on stable storage (the shutdown ioctl of XFS
    /// and ext4, without a flush of the log). When this returns, it is done.
    ///
    /// # Errors
    /// When xfs_io fails.
    pub fn cut(mut self) -> Result<()> {
        self.input
            .write_all(b"shutdown\nquit\n")
            .context("tell xfs_io")?;
        drop(self.input);
        let status = self.process.wait(Duration::from_secs(30))?;
        ensure!(status.success(), "xfs_io: {status}");
        Ok(())
    }
}
