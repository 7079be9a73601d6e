//! Between the words of `vfs` and those of NFSv3.

use nfs_io::fs::{FileKind, Stat, Timestamp};
use nfs_wire::nfs3::{
    Failure, Fattr3, FileHandle, Ftype3, Nfstime3, Sattr3, SetTime, Specdata3, WccAttr, WccData,
};

use super::status::status;
use crate::vfs::fh::Handle;
use crate::vfs::{Attributes, Error, SetAttributes, TimeChange, Wcc};

pub(super) fn fail<F>(error: Error, body: F) -> Failure<F> {
    Failure {
        status: status(error),
        body,
    }
}

/// The handle as NFSv3 sends it.
///
/// # Errors
/// [`Error::NoHandle`] for one of more than 64 bytes, which this server does not make.
pub(crate) fn file_handle(handle: &Handle) -> Result<FileHandle, Error> {
    FileHandle::new(handle.as_ref()).map_err(|_too_long| Error::NoHandle)
}

pub(super) fn fattr3(attributes: &Attributes) -> Fattr3 {
    let stat = &attributes.stat;
    Fattr3 {
        ftype: match stat.kind() {
            FileKind::Regular | FileKind::Unknown => Ftype3::Reg,
            FileKind::Directory => Ftype3::Dir,
            FileKind::Symlink => Ftype3::Lnk,
            FileKind::BlockDevice => Ftype3::Blk,
            FileKind::CharDevice => Ftype3::Chr,
            FileKind::Fifo => Ftype3::Fifo,
            FileKind::Socket => Ftype3::Sock,
        },
        mode: stat.permissions(),
        nlink: stat.nlink,
        uid: stat.uid,
        gid: stat.gid,
        size: stat.size,
        used: stat.blocks.saturating_mul(512),
        rdev: Specdata3 {
            major: stat.rdev.0,
            minor: stat.rdev.1,
        },
        fsid: attributes.fsid,
        fileid: stat.ino,
        atime: nfstime3(stat.atime),
        mtime: nfstime3(stat.mtime),
        ctime: nfstime3(stat.ctime),
    }
}

/// What the wire's 32 unsigned bits of seconds cannot say (RFC 1813 §2.5) becomes the nearest that they
/// can. Linux's server cuts the upper bits off: there a file of 1969 is one of 2106.
fn nfstime3(time: Timestamp) -> Nfstime3 {
    Nfstime3::nearest(time.sec, time.nsec)
}

/// Is this the ctime that a client's guard means?
pub(super) fn same_time(guard: Nfstime3, time: Timestamp) -> bool {
    nfstime3(time) == guard
}

pub(super) fn wcc_data(wcc: &Wcc) -> WccData {
    WccData {
        before: wcc.before.as_ref().map(wcc_attr),
        after: wcc.after.as_ref().map(fattr3),
    }
}

fn wcc_attr(stat: &Stat) -> WccAttr {
    WccAttr {
        size: stat.size,
        mtime: nfstime3(stat.mtime),
        ctime: nfstime3(stat.ctime),
    }
}

/// # Errors
/// [`Error::Invalid`] for nanoseconds of a second or more.
pub(super) fn set_attributes(sattr: &Sattr3) -> Result<SetAttributes, Error> {
    Ok(SetAttributes {
        mode: sattr.mode,
        uid: sattr.uid,
        gid: sattr.gid,
        size: sattr.size,
        atime: time_change(sattr.atime)?,
        mtime: time_change(sattr.mtime)?,
    })
}

fn time_change(set: SetTime) -> Result<TimeChange, Error> {
    match set {
        SetTime::DontChange => Ok(TimeChange::Keep),
        SetTime::ServerTime => Ok(TimeChange::Now),
        SetTime::ClientTime(time) if time.nseconds >= 1_000_000_000 => Err(Error::Invalid),
        // Unsigned, up to 2106. A file system that ends sooner (ext4 with small inodes, XFS without
        // bigtime) keeps the nearest that it can, and the attributes in the reply tell so.
        SetTime::ClientTime(time) => Ok(TimeChange::To(Timestamp {
            sec: i64::from(time.seconds),
            nsec: time.nseconds,
        })),
    }
}
