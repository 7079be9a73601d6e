//! Between the words of `vfs` and those of NFSv3.

use nfs_io::fs::{FileKind, Stat, Timestamp};
use nfs_wire::nfs3::{
    Failure, Fattr3, Ftype3, Nfstime3, Sattr3, SetTime, Specdata3, WccAttr, WccData,
};

use super::status::status;
use crate::vfs::{Attributes, Error, SetAttributes, TimeChange, Wcc};

pub(super) fn fail<F>(error: Error, body: F) -> Failure<F> {
    Failure {
        status: status(error),
        body,
    }
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

/// The wire has 32 bits of seconds (RFC 1813 §2.5); what lies beyond is cut off, as every server
/// does it, so that times before 1970 come back as they went.
fn nfstime3(time: Timestamp) -> Nfstime3 {
    let seconds = (time.sec & 0xffff_ffff) as u32;
    Nfstime3 {
        seconds,
        nseconds: time.nsec,
    }
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
        // A client's 32 bits are signed: what all clients mean by them.
        SetTime::ClientTime(time) => Ok(TimeChange::To(Timestamp {
            sec: i64::from(time.seconds.cast_signed()),
            nsec: time.nseconds,
        })),
    }
}
