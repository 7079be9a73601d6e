//! Attributes of NFS as FUSE has them, and back. Pure.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use nfs_client::nfs3::{Fattr3, Ftype3, Nfstime3, Sattr3, SetTime, Specdata3};

/// The unit of `st_blocks`, bytes.
const BLOCK_BYTES: u64 = 512;

/// What a SETATTR of the kernel asks for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Changes {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) atime: Option<TimeOrNow>,
    pub(crate) mtime: Option<TimeOrNow>,
}

impl Changes {
    /// The attributes to set, as SETATTR carries them.
    pub(crate) fn sattr(&self) -> Sattr3 {
        Sattr3 {
            mode: self.mode.map(|mode| mode & 0o7777),
            uid: self.uid,
            gid: self.gid,
            size: self.size,
            atime: set_time(self.atime),
            mtime: set_time(self.mtime),
        }
    }
}

fn set_time(time: Option<TimeOrNow>) -> SetTime {
    match time {
        None => SetTime::DontChange,
        Some(TimeOrNow::Now) => SetTime::ServerTime,
        Some(TimeOrNow::SpecificTime(time)) => SetTime::ClientTime(to_nfs(time)),
    }
}

/// A time as NFSv3 carries it: seconds from 1970 to 2106. What is outside is moved to the nearer end,
/// as Linux does for each of its file systems.
fn to_nfs(time: SystemTime) -> Nfstime3 {
    time.duration_since(UNIX_EPOCH).map_or_else(
        |_| Nfstime3::default(),
        |since| {
            let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
            Nfstime3::nearest(seconds, since.subsec_nanos())
        },
    )
}

/// A time of the server. Nanoseconds that are none are left out.
fn from_nfs(time: Nfstime3) -> SystemTime {
    let nanos = if time.nseconds < 1_000_000_000 {
        time.nseconds
    } else {
        0
    };
    UNIX_EPOCH + Duration::new(u64::from(time.seconds), nanos)
}

/// The type as FUSE has it.
pub(crate) const fn kind(ftype: Ftype3) -> FileType {
    match ftype {
        Ftype3::Reg => FileType::RegularFile,
        Ftype3::Dir => FileType::Directory,
        Ftype3::Blk => FileType::BlockDevice,
        Ftype3::Chr => FileType::CharDevice,
        Ftype3::Lnk => FileType::Symlink,
        Ftype3::Sock => FileType::Socket,
        Ftype3::Fifo => FileType::NamedPipe,
    }
}

/// Attributes for the kernel. `ino` is the number that it knows the object by; `block_bytes` is the
/// size that programs are advised to read and write in.
pub(crate) fn file_attr(ino: u64, attributes: &Fattr3, block_bytes: u32) -> FileAttr {
    FileAttr {
        ino: INodeNo(ino),
        size: attributes.size,
        blocks: attributes.used.div_ceil(BLOCK_BYTES),
        atime: from_nfs(attributes.atime),
        mtime: from_nfs(attributes.mtime),
        ctime: from_nfs(attributes.ctime),
        crtime: UNIX_EPOCH,
        kind: kind(attributes.ftype),
        perm: u16::try_from(attributes.mode & 0o7777).unwrap_or(0),
        nlink: attributes.nlink,
        uid: attributes.uid,
        gid: attributes.gid,
        rdev: device(attributes.rdev),
        blksize: block_bytes,
        flags: 0,
    }
}

/// Device numbers as the FUSE protocol carries them: 12 bits major, 20 bits minor.
const fn device(numbers: Specdata3) -> u32 {
    let (major, minor) = (numbers.major & 0xfff, numbers.minor & 0xf_ffff);
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// Device numbers out of a MKNOD of the kernel.
pub(crate) const fn device_numbers(device: u32) -> Specdata3 {
    Specdata3 {
        major: (device >> 8) & 0xfff,
        minor: (device & 0xff) | ((device >> 12) & 0xf_ff00),
    }
}

/// What tells one content of a file from another (RFC 1813 §2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    size: u64,
    mtime: Nfstime3,
    ctime: Nfstime3,
}

impl Version {
    pub(crate) const fn of(attributes: &Fattr3) -> Self {
        Self {
            size: attributes.size,
            mtime: attributes.mtime,
            ctime: attributes.ctime,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_outside_the_protocol_go_to_its_ends() {
        let before = UNIX_EPOCH - Duration::new(5, 3);
        assert_eq!(to_nfs(before), Nfstime3::default());
        let late = UNIX_EPOCH + Duration::new(1 << 33, 7);
        assert_eq!(to_nfs(late).seconds, u32::MAX);
        let time = Nfstime3 {
            seconds: 4_000_000_000,
            nseconds: 999_999_999,
        };
        assert_eq!(to_nfs(from_nfs(time)), time);
        let wrong = Nfstime3 {
            seconds: 7,
            nseconds: u32::MAX,
        };
        assert_eq!(from_nfs(wrong), UNIX_EPOCH + Duration::from_secs(7));
    }

    #[test]
    fn only_what_was_asked_for_is_set() {
        assert_eq!(Changes::default().sattr(), Sattr3::default());
        let changes = Changes {
            mode: Some(0o100_644),
            atime: Some(TimeOrNow::Now),
            ..Changes::default()
        };
        let expected = Sattr3 {
            mode: Some(0o644),
            atime: SetTime::ServerTime,
            ..Sattr3::default()
        };
        assert_eq!(changes.sattr(), expected);
    }

    proptest::proptest! {
        #[test]
        fn device_numbers_come_back(major in 0..0x1000u32, minor in 0..0x10_0000u32) {
            let numbers = Specdata3 { major, minor };
            proptest::prop_assert_eq!(device_numbers(device(numbers)), numbers);
        }
    }
}
