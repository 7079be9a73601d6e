//! Directories and files of this host, by descriptor and name. Every call here may block: callers are
//! on threads for that.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use nfs_wire::nfs3::{Fattr3, Ftype3, Nfstime3, Sattr3, SetTime, Specdata3};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RawDir, Statx, StatxFlags, Timespec, Timestamps,
    UTIME_NOW, UTIME_OMIT,
};

use super::item::Item;

/// The buffer of one getdents64, in bytes.
const LISTING_BYTES: usize = 64 * 1024;

/// Opens the directory `path`, following symbolic links.
pub(super) fn open_path(path: &std::path::Path) -> io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() {
        std::path::Path::new(".")
    } else {
        path
    };
    Ok(rustix::fs::openat(CWD, path, DIRECTORY, Mode::empty())?)
}

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// Opens the directory `name` in `dir`; a symbolic link only if `follow`.
pub(super) fn open_dir(dir: &OwnedFd, name: &[u8], follow: bool) -> io::Result<OwnedFd> {
    let flags = DIRECTORY | nofollow(follow);
    Ok(rustix::fs::openat(dir, name, flags, Mode::empty())?)
}

fn nofollow(follow: bool) -> OFlags {
    if follow {
        OFlags::empty()
    } else {
        OFlags::NOFOLLOW
    }
}

/// What has the name `name` in `dir`.
pub(super) fn look_up(dir: &OwnedFd, name: &[u8], follow: bool) -> io::Result<Item> {
    let flags = if follow {
        AtFlags::empty()
    } else {
        AtFlags::SYMLINK_NOFOLLOW
    };
    let statx = rustix::fs::statx(dir, name, flags, StatxFlags::BASIC_STATS)?;
    Ok(Item {
        name: name.to_vec(),
        attributes: attributes(&statx),
        handle: None,
        follow,
        times_cut: [statx.stx_atime, statx.stx_mtime]
            .iter()
            .any(|time| !Nfstime3::can_say(time.tv_sec)),
    })
}

/// The attributes of an open file or directory.
pub(super) fn attributes_of(file: &impl std::os::fd::AsFd) -> io::Result<Fattr3> {
    let statx = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
    Ok(attributes(&statx))
}

/// An entry, or its name and why its attributes cannot be had.
pub(super) type Listed = Result<Item, (Vec<u8>, io::Error)>;

/// The next entries of an open directory, with attributes; empty at its end. An entry whose
/// attributes cannot be had comes as its name and the error.
pub(super) fn list(dir: &OwnedFd) -> io::Result<Vec<Listed>> {
    let mut buffer = Vec::with_capacity(LISTING_BYTES);
    let mut raw = RawDir::new(dir, buffer.spare_capacity_mut());
    let mut items = Vec::new();
    while let Some(entry) = raw.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            items.push(look_up(dir, name, false).map_err(|error| (name.to_vec(), error)));
        }
        if raw.is_buffer_empty() && !items.is_empty() {
            break;
        }
    }
    Ok(items)
}

/// Opens a regular file for reading.
pub(super) fn open_read(dir: &OwnedFd, item: &Item) -> io::Result<File> {
    // A fifo that took the file's place meanwhile must not hold us up.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | nofollow(item.follow);
    open(dir, &item.name, flags)
}

/// Opens a fifo or device, as `flags` say; that of a fifo waits for its other end.
pub(super) fn open_stream(dir: &OwnedFd, name: &[u8], flags: OFlags) -> io::Result<File> {
    // A terminal does not become ours.
    let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = File::from(rustix::fs::openat(dir, name, flags, Mode::empty())?);
    if file.metadata()?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "is a regular file now",
        ));
    }
    Ok(file)
}

/// Opens a regular file for writing and reading; what is in it stays.
pub(super) fn open_write(dir: &OwnedFd, name: &[u8], follow: bool) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK | nofollow(follow);
    open(dir, name, flags).or_else(|error| {
        let writable_only = error.kind() == io::ErrorKind::PermissionDenied;
        if !writable_only {
            return Err(error);
        }
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | nofollow(follow);
        open(dir, name, flags)
    })
}

fn open(dir: &OwnedFd, name: &[u8], flags: OFlags) -> io::Result<File> {
    let file = File::from(rustix::fs::openat(dir, name, flags, Mode::empty())?);
    // Somebody else may have put something in its place since it was looked at: a fifo reads as empty.
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "is not a regular file any more",
        ));
    }
    Ok(file)
}

/// Makes the regular file `name`; it is an error if it exists.
pub(super) fn create(dir: &OwnedFd, name: &[u8], mode: u32) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, name, flags, Mode::from_raw_mode(mode))?.into())
}

/// Makes the directory `name` in `dir`.
pub(super) fn make_dir(dir: &OwnedFd, name: &[u8], mode: u32) -> io::Result<()> {
    Ok(rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(mode))?)
}

/// Makes the symbolic link `name` that points to `target`.
pub(super) fn make_symlink(dir: &OwnedFd, name: &[u8], target: &[u8]) -> io::Result<()> {
    Ok(rustix::fs::symlinkat(target, dir, name)?)
}

/// Where the symbolic link `name` points.
pub(super) fn read_link(dir: &OwnedFd, name: &[u8]) -> io::Result<Vec<u8>> {
    Ok(rustix::fs::readlinkat(dir, name, Vec::new())?.into_bytes())
}

/// Makes a fifo, socket or device.
pub(super) fn make_special(dir: &OwnedFd, name: &[u8], like: &Fattr3, mode: u32) -> io::Result<()> {
    let kind = match like.ftype {
        Ftype3::Fifo => FileType::Fifo,
        Ftype3::Sock => FileType::Socket,
        Ftype3::Chr => FileType::CharacterDevice,
        Ftype3::Blk => FileType::BlockDevice,
        Ftype3::Reg | Ftype3::Dir | Ftype3::Lnk => {
            return Err(io::ErrorKind::InvalidInput.into());
        }
    };
    let device = rustix::fs::makedev(like.rdev.major, like.rdev.minor);
    let mode = Mode::from_raw_mode(mode);
    Ok(rustix::fs::mknodat(dir, name, kind, mode, device)?)
}

/// Gives the file at `existing` the further name `name`.
pub(super) fn link(existing: &std::path::Path, dir: &OwnedFd, name: &[u8]) -> io::Result<()> {
    Ok(rustix::fs::linkat(
        CWD,
        existing,
        dir,
        name,
        AtFlags::empty(),
    )?)
}

/// Removes a name that is not a directory's.
pub(super) fn remove(dir: &OwnedFd, name: &[u8]) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(dir, name, AtFlags::empty())?)
}

/// Removes an empty directory.
pub(super) fn remove_dir(dir: &OwnedFd, name: &[u8]) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR)?)
}

/// Gives `from` the name `to` in the same directory, in place of what has it.
pub(super) fn rename(dir: &OwnedFd, from: &[u8], to: &[u8]) -> io::Result<()> {
    Ok(rustix::fs::renameat(dir, from, dir, to)?)
}

/// Changes owner, mode and times of an open file or directory, in this order: a change of owner takes
/// set-user-ID away.
pub(super) fn set_attributes(file: &impl std::os::fd::AsFd, new: &Sattr3) -> io::Result<()> {
    if new.uid.is_some() || new.gid.is_some() {
        rustix::fs::fchown(file, owner(new.uid), group(new.gid))?;
    }
    if let Some(mode) = new.mode {
        rustix::fs::fchmod(file, Mode::from_raw_mode(mode))?;
    }
    if let Some(times) = times(new) {
        rustix::fs::futimens(file, &times)?;
    }
    Ok(())
}

/// As [`set_attributes`], for what cannot be opened: a symbolic link, a fifo, a device.
pub(super) fn set_attributes_at(dir: &OwnedFd, name: &[u8], new: &Sattr3) -> io::Result<()> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    if new.uid.is_some() || new.gid.is_some() {
        rustix::fs::chownat(dir, name, owner(new.uid), group(new.gid), flags)?;
    }
    if let Some(mode) = new.mode {
        rustix::fs::chmodat(dir, name, Mode::from_raw_mode(mode), AtFlags::empty())?;
    }
    if let Some(times) = times(new) {
        rustix::fs::utimensat(dir, name, &times, flags)?;
    }
    Ok(())
}

fn owner(uid: Option<u32>) -> Option<rustix::fs::Uid> {
    uid.map(rustix::fs::Uid::from_raw)
}

fn group(gid: Option<u32>) -> Option<rustix::fs::Gid> {
    gid.map(rustix::fs::Gid::from_raw)
}

fn times(new: &Sattr3) -> Option<Timestamps> {
    let time = |time: SetTime| match time {
        SetTime::DontChange => special_time(UTIME_OMIT),
        SetTime::ServerTime => special_time(UTIME_NOW),
        SetTime::ClientTime(time) => Timespec {
            tv_sec: time.seconds.into(),
            tv_nsec: time.nseconds.min(999_999_999).into(),
        },
    };
    let wanted = new.atime != SetTime::DontChange || new.mtime != SetTime::DontChange;
    wanted.then(|| Timestamps {
        last_access: time(new.atime),
        last_modification: time(new.mtime),
    })
}

fn special_time(nanoseconds: i64) -> Timespec {
    Timespec {
        tv_sec: 0,
        tv_nsec: nanoseconds,
    }
}

fn attributes(statx: &Statx) -> Fattr3 {
    let time = |time: rustix::fs::StatxTimestamp| Nfstime3::nearest(time.tv_sec, time.tv_nsec);
    let mode = u32::from(statx.stx_mode);
    let ftype = match FileType::from_raw_mode(mode) {
        FileType::Directory => Ftype3::Dir,
        FileType::Symlink => Ftype3::Lnk,
        FileType::Fifo => Ftype3::Fifo,
        FileType::Socket => Ftype3::Sock,
        FileType::CharacterDevice => Ftype3::Chr,
        FileType::BlockDevice => Ftype3::Blk,
        FileType::RegularFile | FileType::Unknown => Ftype3::Reg,
    };
    Fattr3 {
        ftype,
        mode: mode & 0o7777,
        nlink: statx.stx_nlink,
        uid: statx.stx_uid,
        gid: statx.stx_gid,
        size: statx.stx_size,
        used: statx.stx_blocks.saturating_mul(512),
        rdev: Specdata3 {
            major: statx.stx_rdev_major,
            minor: statx.stx_rdev_minor,
        },
        fsid: u64::from(statx.stx_dev_major) << 32 | u64::from(statx.stx_dev_minor),
        fileid: statx.stx_ino,
        atime: time(statx.stx_atime),
        mtime: time(statx.stx_mtime),
        ctime: time(statx.stx_ctime),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_a_file_s_place_is_not_copied_for_it() {
        let here = tempfile::tempdir().unwrap();
        let dir = open_path(here.path()).unwrap();
        std::fs::write(here.path().join("file"), "content").unwrap();
        let item = look_up(&dir, b"file", false).unwrap();
        assert!(open_read(&dir, &item).is_ok());
        remove(&dir, b"file").unwrap();
        let fifo = Fattr3 {
            ftype: Ftype3::Fifo,
            ..item.attributes
        };
        make_special(&dir, b"file", &fifo, 0o600).unwrap();
        assert!(open_read(&dir, &item).is_err());
        assert!(open_write(&dir, b"file", false).is_err());
    }
}
