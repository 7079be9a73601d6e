//! Attributes of an object; statx(2).

use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, StatxAttributes, StatxFlags, StatxTimestamp, makedev};
use rustix::io::retry_on_intr;

use super::FileKind;
use super::one_name;
use crate::Result;
use crate::plan::Alignment;

/// A point in time as file systems keep it: seconds since 1970 (negative before) and
/// nanoseconds below 1 000 000 000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds since 1970-01-01 00:00 UTC; negative before.
    pub sec: i64,
    /// Nanoseconds within the second: 0 to 999 999 999.
    pub nsec: u32,
}

/// What statx(2) says about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Device of the file system.
    pub dev: u64,
    /// Inode number, unique within the device.
    pub ino: u64,
    /// `st_mode`: type and permission bits.
    pub mode: u32,
    /// Number of names; 0 for an object that was removed while open.
    pub nlink: u32,
    /// User id of the owner, in the process's user namespace.
    pub uid: u32,
    /// Group id, in the process's user namespace.
    pub gid: u32,
    /// Length of a file in bytes.
    pub size: u64,
    /// Space that is allocated to the object, in units of 512 bytes.
    pub blocks: u64,
    /// Preferred I/O size in bytes.
    pub blksize: u32,
    /// Device number (major, minor) of a device node, else (0, 0).
    pub rdev: (u32, u32),
    /// When the contents were read last, as exactly as the mount keeps it.
    pub atime: Timestamp,
    /// When the data was changed last.
    pub mtime: Timestamp,
    /// When data or attributes were changed last.
    pub ctime: Timestamp,
    /// Birth, where the file system records it.
    pub btime: Option<Timestamp>,
    /// Id of the mount, as in `/proc/self/mountinfo`; 0 on Linux before 5.8.
    pub mnt_id: u64,
    /// The file may only grow, by writers that opened it for appending (`chattr +a`); false where the file
    /// system does not say.
    pub append_only: bool,
    /// Nobody may change it (`chattr +i`); false where the file system does not say.
    pub immutable: bool,
    /// Memory alignment that direct I/O asks for, in bytes; 0 where there is no direct I/O or
    /// the kernel (before 6.1) does not say. Filled for regular files and block devices.
    pub dio_mem_align: u32,
    /// Offset and length alignment of direct writes, and of direct reads where
    /// `dio_read_offset_align` is 0; in bytes.
    pub dio_offset_align: u32,
    /// Offset and length alignment of direct reads, where it differs; in bytes (Linux 6.14).
    pub dio_read_offset_align: u32,
}

impl Stat {
    /// The type of the object.
    #[must_use]
    pub fn kind(&self) -> FileKind {
        FileKind::from_mode(self.mode)
    }

    /// The permission bits with set-user-ID, set-group-ID and sticky (`07777`), without the type.
    #[must_use]
    pub fn permissions(&self) -> u32 {
        self.mode & 0o7777
    }
}

/// Attributes of an open object (an `O_PATH` descriptor too), as the file system has them now.
///
/// # Errors
/// What statx(2) reports.
pub fn statx(fd: BorrowedFd<'_>) -> Result<Stat> {
    ask(fd, b"", AtFlags::EMPTY_PATH)
}

/// Attributes of an open object without `mtime` and `ctime`, which are zero in the result.
///
/// On file systems with multigrain timestamps (XFS, ext4, btrfs and tmpfs since Linux 6.13) whoever is told
/// these times makes the next change dearer: it has to be told from what was seen, so it gets a time of its own
/// and changes the inode, which a write with `RWF_SYNC` then waits for the journal to hold. Where nobody looked,
/// all writes of one tick of the clock have the same time, and but for the first they change data alone.
///
/// # Errors
/// What statx(2) reports.
pub fn statx_untimed(fd: BorrowedFd<'_>) -> Result<Stat> {
    let mask = ASKED - StatxFlags::MTIME - StatxFlags::CTIME;
    let stat = ask_for(fd, b"", AtFlags::EMPTY_PATH, mask)?;
    // A file system without such timestamps tells them unasked.
    Ok(Stat {
        mtime: Timestamp::default(),
        ctime: Timestamp::default(),
        ..stat
    })
}

/// Asks statx(2) as [`statx`] does, but is content with what the kernel has in memory (`AT_STATX_DONT_SYNC`):
/// no network file system asks its server.
///
/// # Errors
/// What statx(2) reports.
pub fn statx_cached(fd: BorrowedFd<'_>) -> Result<Stat> {
    ask(fd, b"", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC)
}

/// Attributes of the object `name` in `dir`; a symbolic link is not followed, a mount point is
/// the root of what is mounted there (not triggered if automounted).
///
/// # Errors
/// What statx(2) reports.
pub fn statx_at(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Stat> {
    ask(
        dir,
        one_name(name)?,
        AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT,
    )
}

fn ask(fd: BorrowedFd<'_>, path: &[u8], flags: AtFlags) -> Result<Stat> {
    ask_for(fd, path, flags, ASKED)
}

fn ask_for(fd: BorrowedFd<'_>, path: &[u8], flags: AtFlags, mask: StatxFlags) -> Result<Stat> {
    let raw = retry_on_intr(|| rustix::fs::statx(fd, path, flags, mask))?;
    let filled = StatxFlags::from_bits_retain(raw.stx_mask);
    let dio = filled.contains(StatxFlags::DIOALIGN);
    let dio_read = dio && filled.contains(DIO_READ_ALIGN);
    Ok(Stat {
        dev: makedev(raw.stx_dev_major, raw.stx_dev_minor),
        ino: raw.stx_ino,
        mode: u32::from(raw.stx_mode),
        nlink: raw.stx_nlink,
        uid: raw.stx_uid,
        gid: raw.stx_gid,
        size: raw.stx_size,
        blocks: raw.stx_blocks,
        blksize: raw.stx_blksize,
        rdev: (raw.stx_rdev_major, raw.stx_rdev_minor),
        atime: timestamp(raw.stx_atime),
        mtime: timestamp(raw.stx_mtime),
        ctime: timestamp(raw.stx_ctime),
        btime: filled
            .contains(StatxFlags::BTIME)
            .then(|| timestamp(raw.stx_btime)),
        mnt_id: if filled.contains(StatxFlags::MNT_ID) {
            raw.stx_mnt_id
        } else {
            0
        },
        append_only: raw.stx_attributes.contains(StatxAttributes::APPEND),
        immutable: raw.stx_attributes.contains(StatxAttributes::IMMUTABLE),
        dio_mem_align: if dio { raw.stx_dio_mem_align } else { 0 },
        dio_offset_align: if dio { raw.stx_dio_offset_align } else { 0 },
        dio_read_offset_align: if dio_read {
            raw.stx_dio_read_offset_align
        } else {
            0
        },
    })
}

fn timestamp(raw: StatxTimestamp) -> Timestamp {
    Timestamp {
        sec: raw.tv_sec,
        nsec: raw.tv_nsec,
    }
}

const ASKED: StatxFlags = StatxFlags::BASIC_STATS
    .union(StatxFlags::BTIME)
    .union(StatxFlags::MNT_ID)
    .union(StatxFlags::DIOALIGN)
    .union(DIO_READ_ALIGN);

/// `STATX_DIO_READ_ALIGN`, which rustix has no name for yet.
const DIO_READ_ALIGN: StatxFlags = StatxFlags::from_bits_retain(0x0002_0000);

impl Stat {
    /// What direct I/O on this file asks for, in a file system with blocks of `block` bytes
    /// ([`super::FsStat::bsize`]; 0 where that is not known).
    #[must_use]
    pub fn alignment(&self, block: u64) -> Alignment {
        let page = rustix::param::page_size() as u64;
        Alignment {
            memory: self.dio_mem_align,
            offset: self.dio_offset_align,
            read_offset: self.dio_read_offset_align,
            // What is larger than any block is refused as "not a power of two" is.
            block: u32::try_from(block.max(page)).unwrap_or(u32::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;

    use rustix::time::{ClockId, clock_gettime};

    use super::super::symlinkat;
    use super::*;
    use crate::Errno;
    use crate::testing::Scratch;

    #[test]
    fn agrees_with_the_standard_library() {
        let scratch = Scratch::new();
        let file = scratch.file("f", &[1; 5000]);
        let path = scratch.path.path().join("f");
        let expected = std::fs::metadata(path).unwrap();
        let object = scratch.object("f");
        for stat in [
            statx(file.as_fd()).unwrap(),
            statx(object.as_fd()).unwrap(),
            statx_cached(object.as_fd()).unwrap(),
            statx_at(scratch.dir(), b"f").unwrap(),
        ] {
            assert_eq!((stat.dev, stat.ino), (expected.dev(), expected.ino()));
            assert_eq!(
                (stat.mode, u64::from(stat.nlink)),
                (expected.mode(), expected.nlink())
            );
            assert_eq!((stat.uid, stat.gid), (expected.uid(), expected.gid()));
            assert_eq!((stat.size, stat.blocks), (5000, expected.blocks()));
            assert_eq!(stat.mtime.sec, expected.mtime());
            assert_eq!(i64::from(stat.mtime.nsec), expected.mtime_nsec());
            assert_eq!(stat.kind(), FileKind::Regular);
            assert_eq!(
                (stat.rdev, stat.blksize),
                ((0, 0), expected.blksize() as u32)
            );
        }
    }

    /// Whether two writes within a tick of the kernel's clock have its time, with a look between them.
    fn is_of_a_tick(look: fn(BorrowedFd<'_>) -> Result<Stat>) -> bool {
        let scratch = Scratch::new();
        let file = scratch.file("f", &[1; 4096]);
        let now = || clock_gettime(ClockId::RealtimeCoarse);
        let is_so = |_| {
            let before = now();
            // A tick of which nothing was seen so far.
            while now() == before {}
            let begun = now();
            rustix::io::pwrite(&file, b"x", 0).unwrap();
            look(file.as_fd()).unwrap();
            rustix::io::pwrite(&file, b"y", 0).unwrap();
            let ctime = statx(file.as_fd()).unwrap().ctime;
            (ctime.sec, i64::from(ctime.nsec)) == (begun.tv_sec, begun.tv_nsec)
        };
        // Anybody on this machine whose change gets a time of its own takes the rest of the tick along.
        (0..1000).any(is_so)
    }

    #[test]
    fn a_look_without_times_leaves_the_next_change_the_time_of_its_tick() {
        assert!(is_of_a_tick(statx_untimed));
        let scratch = Scratch::new();
        let file = scratch.file("f", &[1; 5000]);
        let (timed, untimed) = (statx(file.as_fd()), statx_untimed(file.as_fd()));
        let (mtime, ctime) = (Timestamp::default(), Timestamp::default());
        let expected = Stat {
            mtime,
            ctime,
            ..timed.unwrap()
        };
        assert_eq!(untimed.unwrap(), expected);
    }

    #[test]
    fn looks_at_links_and_devices_themselves() {
        let scratch = Scratch::new();
        symlinkat(b"nowhere", scratch.dir(), b"l").unwrap();
        let stat = statx_at(scratch.dir(), b"l").unwrap();
        assert_eq!((stat.kind(), stat.size), (FileKind::Symlink, 7));
        assert_eq!(statx_at(scratch.dir(), b"nowhere"), Err(Errno::NOENT));
        assert_eq!(statx_at(scratch.dir(), b"a/b"), Err(Errno::INVAL));
        let null = std::fs::File::open("/dev/null").unwrap();
        let stat = statx(null.as_fd()).unwrap();
        assert_eq!((stat.kind(), stat.rdev), (FileKind::CharDevice, (1, 3)));
    }
}
