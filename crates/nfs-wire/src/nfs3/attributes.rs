//! Attributes (RFC 1813 §2.5, §2.6).

use crate::xdr::define::{xdr_enum, xdr_struct};
use crate::{Decode, DecodeError, Decoder, Encode, Encoder};

xdr_enum! {
    /// `ftype3`: the type of an object.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Ftype3 as "ftype3" {
        /// A regular file, which holds bytes: NF3REG.
        Reg = 1,
        /// A directory, which holds names: NF3DIR.
        Dir = 2,
        /// The node of a block device: NF3BLK.
        Blk = 3,
        /// The node of a character device: NF3CHR.
        Chr = 4,
        /// A symbolic link, which holds a path: NF3LNK.
        Lnk = 5,
        /// A socket of the file system: NF3SOCK.
        Sock = 6,
        /// A named pipe (FIFO): NF3FIFO.
        Fifo = 7,
    }
}

xdr_struct! {
    /// `specdata3`: the numbers of a device.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Specdata3 {
        /// The device's major number: `specdata1`.
        pub major: u32,
        /// The device's minor number: `specdata2`.
        pub minor: u32,
    }
}

xdr_struct! {
    /// `nfstime3`: seconds and nanoseconds since 1970, up to the year 2106: the seconds are unsigned
    /// (RFC 1813 §2.5), and Linux's client and server take them so. See [`Nfstime3::nearest`].
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Nfstime3 {
        /// Whole seconds since the beginning of 1970, UTC.
        pub seconds: u32,
        /// Nanoseconds behind the whole second, below 10^9.
        pub nseconds: u32,
    }
}

impl Nfstime3 {
    /// The last time there is: 2106-02-07 06:28:15 UTC, to its last nanosecond.
    pub const MAX: Self = Self {
        seconds: u32::MAX,
        nseconds: 999_999_999,
    };

    /// The time that many seconds after (before, if negative) the beginning of 1970 and `nseconds`
    /// (below 10^9) later, or the nearest that there is: no time is another one by wrapping round, and
    /// the order of two times stays.
    pub fn nearest(seconds: i64, nseconds: u32) -> Self {
        match u32::try_from(seconds) {
            Ok(seconds) => Self { seconds, nseconds },
            Err(_) if seconds < 0 => Self::default(),
            Err(_) => Self::MAX,
        }
    }

    /// Whether [`Self::nearest`] of these seconds is that very time.
    pub fn can_say(seconds: i64) -> bool {
        u32::try_from(seconds).is_ok()
    }
}

xdr_struct! {
    /// `fattr3`: the attributes of an object.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Fattr3 {
        /// What kind of object it is.
        pub ftype: Ftype3,
        /// Permission bits, set-user-ID, set-group-ID and sticky bit.
        pub mode: u32,
        /// How many names (hard links) it has.
        pub nlink: u32,
        /// The user id of its owner.
        pub uid: u32,
        /// The group id of its group.
        pub gid: u32,
        /// The size of its contents, bytes.
        pub size: u64,
        /// Bytes of disk in use.
        pub used: u64,
        /// Numbers of a device; zero otherwise.
        pub rdev: Specdata3,
        /// A number that tells its file system from others of the server.
        pub fsid: u64,
        /// A number that tells it from others of its file system.
        pub fileid: u64,
        /// When its contents were read last.
        pub atime: Nfstime3,
        /// When the contents were changed last.
        pub mtime: Nfstime3,
        /// When the attributes were changed last.
        pub ctime: Nfstime3,
    }
}

impl Fattr3 {
    /// Length on the wire, bytes.
    pub const ENCODED_LEN: usize = 84;
}

xdr_struct! {
    /// `wcc_attr`: the attributes that weak cache consistency compares.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct WccAttr {
        /// The size that the object had, bytes.
        pub size: u64,
        /// When the contents were changed last.
        pub mtime: Nfstime3,
        /// When the attributes were changed last.
        pub ctime: Nfstime3,
    }
}

xdr_struct! {
    /// `wcc_data`: attributes before and after an operation (RFC 1813 §2.6).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct WccData {
        /// Just before, where nothing but this operation lies between the two.
        pub before: Option<WccAttr>,
        /// All attributes just after the operation.
        pub after: Option<Fattr3>,
    }
}

/// `set_atime`, `set_mtime`: what to do with a timestamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetTime {
    /// The time stays as it is: DONT_CHANGE.
    #[default]
    DontChange,
    /// The time becomes the server's present one: SET_TO_SERVER_TIME.
    ServerTime,
    /// The time becomes this one: SET_TO_CLIENT_TIME.
    ClientTime(Nfstime3),
}

impl Decode<'_> for SetTime {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        const FIELD: &str = "time_how";
        match d.u32(FIELD)? {
            0 => Ok(Self::DontChange),
            1 => Ok(Self::ServerTime),
            2 => Ok(Self::ClientTime(Nfstime3::decode(d)?)),
            value => Err(DecodeError::BadValue {
                field: FIELD,
                value,
            }),
        }
    }
}

impl Encode for SetTime {
    fn encode(&self, e: &mut Encoder<'_>) {
        match self {
            Self::DontChange => e.u32(0),
            Self::ServerTime => e.u32(1),
            Self::ClientTime(time) => {
                e.u32(2);
                time.encode(e);
            }
        }
    }
}

xdr_struct! {
    /// Attributes to set, each of them or not: `sattr3`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Sattr3 {
        /// New permission bits, the lower twelve of a Unix mode.
        pub mode: Option<u32>,
        /// The user id of the new owner.
        pub uid: Option<u32>,
        /// The group id of the new group.
        pub gid: Option<u32>,
        /// The new size, bytes: a file is cut or grows with zeros.
        pub size: Option<u64>,
        /// What becomes of the time of the last access.
        pub atime: SetTime,
        /// When the contents were changed last.
        pub mtime: SetTime,
    }
}
