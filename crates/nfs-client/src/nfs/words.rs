//! From the words of NFSv4 to those of NFSv3 and back. Pure.

use std::sync::Arc;

use nfs_wire::nfs3::{
    Failure, Fattr3, Ftype3, Nfsstat3, Nfstime3, Sattr3, SetTime, Specdata3, StableHow,
};
use nfs_wire::nfs4::{
    Attributes, Ftype4, Nfsstat4, Nfstime4, Settime4, Specdata4, StableHow4, Utf8str,
};

use crate::error::RpcError;
use crate::nfs3::Outcome;
use crate::nfs4::{Nfs4Error, Stat4};

/// The owner that is told where a server names one by another word than a number.
const NOBODY: u32 = 65_534;

/// What an operation came to, as NFSv3 would say it. A status that it has no word for is an error.
pub(super) fn outcome<O, F: Default>(done: Result<O, Nfs4Error>) -> Outcome<O, F> {
    let error = match done {
        Ok(ok) => return Ok(Ok(ok)),
        Err(Nfs4Error::Rpc(error)) => return Err(error),
        Err(error) => error,
    };
    if let Nfs4Error::Status { status, .. } = &error
        && let Some(status) = status_of(*status)
    {
        let body = F::default();
        return Ok(Err(Failure { status, body }));
    }
    Err(RpcError::Nfs4(Arc::new(error)))
}

/// The status of NFSv3 that means the same.
fn status_of(status: Nfsstat4) -> Option<Nfsstat3> {
    match status {
        Nfsstat4::Symlink | Nfsstat4::WrongType | Nfsstat4::Badname | Nfsstat4::Badchar => {
            Some(Nfsstat3::Inval)
        }
        Nfsstat4::Grace => Some(Nfsstat3::Jukebox),
        Nfsstat4::Fhexpired => Some(Nfsstat3::Stale),
        Nfsstat4::Attrnotsupp => Some(Nfsstat3::Notsupp),
        // It is not for this client to give the file to somebody whom the server does not know.
        Nfsstat4::Badowner => Some(Nfsstat3::Perm),
        // Those that both versions have are of the same numbers (RFC 1813 §2.6, RFC 8881 §15.1).
        status => Nfsstat3::try_from(status as u32).ok(),
    }
}

impl Stat4 {
    /// The attributes in NFSv3's words. Owners that are no numbers become 65534, times before 1970 and after 2106 the
    /// nearest that there is.
    #[must_use]
    pub fn as_nfs3(&self) -> Fattr3 {
        Fattr3 {
            ftype: kind(self.ftype),
            mode: self.mode,
            nlink: self.numlinks,
            uid: number(&self.owner),
            gid: number(&self.owner_group),
            size: self.size,
            used: self.space_used,
            rdev: Specdata3 {
                major: self.rawdev.major,
                minor: self.rawdev.minor,
            },
            fsid: self.fsid.major ^ self.fsid.minor.rotate_left(32),
            fileid: self.fileid,
            atime: time(self.time_access),
            mtime: time(self.time_modify),
            ctime: time(self.time_metadata),
        }
    }
}

fn kind(ftype: Ftype4) -> Ftype3 {
    match ftype {
        Ftype4::Reg | Ftype4::NamedAttr => Ftype3::Reg,
        Ftype4::Dir | Ftype4::AttrDir => Ftype3::Dir,
        Ftype4::Blk => Ftype3::Blk,
        Ftype4::Chr => Ftype3::Chr,
        Ftype4::Lnk => Ftype3::Lnk,
        Ftype4::Sock => Ftype3::Sock,
        Ftype4::Fifo => Ftype3::Fifo,
    }
}

fn number(owner: &[u8]) -> u32 {
    let text = std::str::from_utf8(owner).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(NOBODY)
}

fn time(time: Nfstime4) -> Nfstime3 {
    let nearest = if time.seconds < 0 { 0 } else { u32::MAX };
    Nfstime3 {
        seconds: u32::try_from(time.seconds).unwrap_or(nearest),
        nseconds: time.nseconds,
    }
}

pub(super) fn time4(time: Nfstime3) -> Nfstime4 {
    Nfstime4 {
        seconds: i64::from(time.seconds),
        nseconds: time.nseconds,
    }
}

/// Owner and group in the words that they have on the wire: numbers in decimal (RFC 8881 §5.9).
#[derive(Debug)]
pub(super) struct Owners {
    user: Option<String>,
    group: Option<String>,
}

impl Owners {
    pub(super) fn of(new: &Sattr3) -> Self {
        Self {
            user: new.uid.map(|uid| uid.to_string()),
            group: new.gid.map(|gid| gid.to_string()),
        }
    }

    /// The attributes that `new`, which these are the owners of, sets.
    pub(super) fn with<'a>(&'a self, new: &Sattr3) -> Attributes<'a> {
        let set = |time| match time {
            SetTime::DontChange => None,
            SetTime::ServerTime => Some(Settime4::ServerTime),
            SetTime::ClientTime(time) => Some(Settime4::ClientTime(time4(time))),
        };
        let name = |text: &'a Option<String>| text.as_ref().map(|text| Utf8str(text.as_bytes()));
        Attributes {
            mode: new.mode,
            size: new.size,
            owner: name(&self.user),
            owner_group: name(&self.group),
            time_access_set: set(new.atime),
            time_modify_set: set(new.mtime),
            ..Attributes::default()
        }
    }
}

pub(super) fn device(spec: Specdata3) -> Specdata4 {
    Specdata4 {
        major: spec.major,
        minor: spec.minor,
    }
}

pub(super) const fn stable4(stable: StableHow) -> StableHow4 {
    match stable {
        StableHow::Unstable => StableHow4::Unstable,
        StableHow::DataSync => StableHow4::DataSync,
        StableHow::FileSync => StableHow4::FileSync,
    }
}

pub(super) const fn stable3(stable: StableHow4) -> StableHow {
    match stable {
        StableHow4::Unstable => StableHow::Unstable,
        StableHow4::DataSync => StableHow::DataSync,
        StableHow4::FileSync => StableHow::FileSync,
    }
}

#[cfg(test)]
mod tests {
    use nfs_wire::nfs4::Opnum;

    use super::*;

    fn told(status: Nfsstat4) -> Outcome<(), ()> {
        let opnum = Opnum::Open;
        outcome(Err(Nfs4Error::Status { opnum, status }))
    }

    #[test]
    fn what_both_versions_have_is_told_in_nfsv3_s_words() {
        let table = [
            (Nfsstat4::Noent, Nfsstat3::Noent),
            (Nfsstat4::Stale, Nfsstat3::Stale),
            (Nfsstat4::Delay, Nfsstat3::Jukebox),
            (Nfsstat4::BadCookie, Nfsstat3::BadCookie),
            (Nfsstat4::Badtype, Nfsstat3::Badtype),
            (Nfsstat4::Badowner, Nfsstat3::Perm),
        ];
        for (status, expected) in table {
            let failure = told(status).unwrap().unwrap_err();
            assert_eq!(failure.status, expected, "{status:?}");
        }
    }

    #[test]
    fn what_only_nfsv4_has_is_told_as_it_is() {
        for status in [Nfsstat4::ShareDenied, Nfsstat4::Locked, Nfsstat4::Wrongsec] {
            let error = told(status).unwrap_err().to_string();
            assert!(error.contains(&status.to_string()), "{error}");
        }
    }

    #[test]
    fn owners_are_numbers_in_decimal() {
        let new = Sattr3 {
            uid: Some(1000),
            gid: Some(0),
            ..Sattr3::default()
        };
        let owners = Owners::of(&new);
        let set = owners.with(&new);
        assert_eq!(set.owner, Some(Utf8str(b"1000")));
        assert_eq!(set.owner_group, Some(Utf8str(b"0")));
        assert_eq!(set.present().iter().count(), 2);
        assert_eq!((number(b"1000"), number(b"root@host")), (1000, NOBODY));
    }
}
