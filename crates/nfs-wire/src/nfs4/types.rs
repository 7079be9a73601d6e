//! Basic types of all minor versions (RFC 8881 §3.3, RFC 7862 §3 and after).

use super::Bitmap4;
use crate::handle::Handle;
use crate::limits::{
    ATTRLIST_BYTES_MAX, FILE_HANDLE4_BYTES_MAX, GSS_OPAQUE_BYTES_MAX, LAYOUT_BODY_BYTES_MAX,
    NAME_BYTES_MAX, NETADDR_BYTES_MAX, OPAQUE4_BYTES_MAX, PATH_BYTES_MAX, TAG_BYTES_MAX,
    XATTR_VALUE_BYTES_MAX,
};
use crate::xdr::define::{xdr_enum, xdr_fixed, xdr_opaque, xdr_struct, xdr_union};

/// `nfs_fh4`: what a server calls an object, up to 128 bytes that mean nothing to a client (NFS4_FHSIZE).
pub type FileHandle = Handle<FILE_HANDLE4_BYTES_MAX>;

xdr_fixed! {
    /// `verifier4`: eight bytes that are compared and mean nothing otherwise.
    pub struct Verifier4([u8; 8]) as "verifier4";

    /// `sessionid4`: what a server calls a session.
    pub struct Sessionid4([u8; 16]) as "sessionid4";

    /// `deviceid4`: what a metadata server calls a storage device of a layout.
    pub struct Deviceid4([u8; 16]) as "deviceid4";
}

xdr_opaque! {
    /// `component4`: the name of an entry, any bytes.
    pub struct Component4<'a> as "component4", NAME_BYTES_MAX;

    /// `linktext4`: the contents of a symlink, any bytes.
    pub struct Linktext4<'a> as "linktext4", PATH_BYTES_MAX;

    /// `utf8string` in its other uses: names of owners and hosts. Whether it is UTF-8 is not looked at.
    pub struct Utf8str<'a> as "utf8string", NAME_BYTES_MAX;

    /// The tag of a COMPOUND, which says to a person what it is for, and comes back with the reply.
    pub struct Tag<'a> as "tag", TAG_BYTES_MAX;

    /// The name that a client, a server or an owner has for itself: at most 1024 bytes (NFS4_OPAQUE_LIMIT).
    pub struct Opaque4<'a> as "opaque<NFS4_OPAQUE_LIMIT>", OPAQUE4_BYTES_MAX;

    /// What only a type of layout explains: `loc_body`, `da_addr_body`, `loh_body`, `lou_body`, `lrf_body`.
    pub struct LayoutBody<'a> as "layout body", LAYOUT_BODY_BYTES_MAX;

    /// A network id or a universal address (RFC 5665) as it travels.
    pub struct NetString<'a> as "netaddr4", NETADDR_BYTES_MAX;

    /// A GSS handle, an object identifier, a digest or a secret.
    pub struct GssOpaque<'a> as "opaque", GSS_OPAQUE_BYTES_MAX;

    /// `xattrvalue4`: the value of an extended attribute (RFC 8276 §8.2).
    pub struct Xattrvalue4<'a> as "xattrvalue4", XATTR_VALUE_BYTES_MAX;

    /// `attrlist4`: the values of attributes, one behind the other; see [`Fattr4`].
    pub struct Attrlist4<'a> as "attrlist4", ATTRLIST_BYTES_MAX;
}

xdr_struct! {
    /// `clientid4`: what a server calls a client.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Clientid4 {
        /// The number, which means nothing to the client.
        pub id: u64,
    }
}

xdr_struct! {
    /// `changeid4`: a number that becomes another one with each change of an object.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Changeid4 {
        /// The number. That a later one is higher is promised only by the attribute `change_attr_type`.
        pub value: u64,
    }
}

xdr_struct! {
    /// `stateid4`: what a server calls an open, a lock or a delegation, and which state of it.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Stateid4 {
        /// Counts the changes of the state, from 1 on. 0 asks for the most recent one.
        pub seqid: u32,
        /// The state itself.
        pub other: [u8; 12],
    }
}

/// What a stateid is used for, as far as its bytes alone tell (RFC 8881 §8.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StateidKind {
    /// All zeros: no state at all.
    Anonymous,
    /// All ones: a READ that may pass over locks. For any other operation it is as if anonymous.
    ReadBypass,
    /// The stateid that an earlier operation of the same COMPOUND gave.
    Current,
    /// A stateid that is never valid.
    Invalid,
    /// It has the form of a special stateid and is none: NFS4ERR_BAD_STATEID.
    Undefined,
    /// A stateid that a server may have given.
    Given,
}

impl Stateid4 {
    /// Length on the wire, bytes.
    pub const ENCODED_LEN: usize = 16;
    /// No state at all.
    pub const ANONYMOUS: Self = Self {
        seqid: 0,
        other: [0; 12],
    };
    /// A READ that may pass over locks.
    pub const READ_BYPASS: Self = Self {
        seqid: u32::MAX,
        other: [0xff; 12],
    };
    /// The stateid that an earlier operation of the same COMPOUND gave. From minor version 1 on.
    pub const CURRENT: Self = Self {
        seqid: 1,
        other: [0; 12],
    };
    /// A stateid that is never valid. From minor version 1 on.
    pub const INVALID: Self = Self {
        seqid: u32::MAX,
        other: [0; 12],
    };

    /// Whether it is one of the special stateids.
    #[must_use]
    pub const fn kind(&self) -> StateidKind {
        let other = u128::from_be_bytes(widened(self.other));
        match (self.seqid, other) {
            (0, OTHER_ZEROS) => StateidKind::Anonymous,
            (1, OTHER_ZEROS) => StateidKind::Current,
            (u32::MAX, OTHER_ZEROS) => StateidKind::Invalid,
            (u32::MAX, OTHER_ONES) => StateidKind::ReadBypass,
            (_, OTHER_ZEROS | OTHER_ONES) => StateidKind::Undefined,
            _ => StateidKind::Given,
        }
    }
}

/// The bytes of a stateid's `other`, of which all are zero or all are ones, as a number.
const OTHER_ZEROS: u128 = 0;
const OTHER_ONES: u128 = u128::MAX >> 32;

/// Twelve bytes behind four of zero.
const fn widened(other: [u8; 12]) -> [u8; 16] {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = other;
    [0, 0, 0, 0, a, b, c, d, e, f, g, h, i, j, k, l]
}

xdr_enum! {
    /// `nfs_ftype4`: the type of an object.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Ftype4 as "nfs_ftype4" {
        /// A regular file, which holds bytes: NF4REG.
        Reg = 1,
        /// A directory, which holds names: NF4DIR.
        Dir = 2,
        /// The node of a block device: NF4BLK.
        Blk = 3,
        /// The node of a character device: NF4CHR.
        Chr = 4,
        /// A symbolic link, which holds a path: NF4LNK.
        Lnk = 5,
        /// A socket of the file system: NF4SOCK.
        Sock = 6,
        /// A named pipe (FIFO): NF4FIFO.
        Fifo = 7,
        /// The directory of an object's named attributes: NF4ATTRDIR.
        AttrDir = 8,
        /// A named attribute, which holds bytes: NF4NAMEDATTR.
        NamedAttr = 9,
    }
}

xdr_struct! {
    /// `specdata4`: the numbers of a device.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Specdata4 {
        /// The device's major number: `specdata1`.
        pub major: u32,
        /// The device's minor number: `specdata2`.
        pub minor: u32,
    }
}

xdr_struct! {
    /// `nfstime4`: seconds and nanoseconds since 1970.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Nfstime4 {
        /// Whole seconds since the beginning of 1970, UTC; negative before that.
        pub seconds: i64,
        /// Nanoseconds behind the whole second. From 10^9 on the time is invalid.
        pub nseconds: u32,
    }
}

impl Nfstime4 {
    /// Whether its nanoseconds are less than a second, as they have to be (RFC 8881 §3.3.1).
    #[must_use]
    pub const fn is_valid(&self) -> bool {
        self.nseconds < 1_000_000_000
    }
}

xdr_union! {
    /// `settime4`: what to set a time to.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Settime4 as "time_how4" {
        /// The server's present time: SET_TO_SERVER_TIME4.
        ServerTime = 0,
        /// This time: SET_TO_CLIENT_TIME4.
        ClientTime(Nfstime4) = 1,
    }
}

xdr_struct! {
    /// `fsid4`: tells a file system from others of the server.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Fsid4 {
        /// The number's upper half, of which the server alone knows the meaning.
        pub major: u64,
        /// The number's lower half.
        pub minor: u64,
    }
}

xdr_struct! {
    /// `change_info4`: a directory before and after an operation changed it.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ChangeInfo4 {
        /// Nothing but this operation lies between the two.
        pub atomic: bool,
        /// The directory's change attribute before.
        pub before: Changeid4,
        /// The directory's change attribute after.
        pub after: Changeid4,
    }
}

xdr_struct! {
    /// `mode_masked4`: bits of a mode, and which of them are meant.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ModeMasked4 {
        /// The values of the bits.
        pub value_to_set: u32,
        /// The bits that are to be set to these values; the others stay.
        pub mask_bits: u32,
    }
}

xdr_struct! {
    /// `mode_umask4`: a mode and the umask of who makes the object (RFC 8275 §4).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ModeUmask4 {
        /// The mode that was asked for, without the umask applied.
        pub mode: u32,
        /// The bits that are taken off unless the directory has a default ACL.
        pub umask: u32,
    }
}

xdr_struct! {
    /// `fattr4`: a set of attributes: which, and their values in the order of their numbers.
    /// [`Attributes`](super::Attributes) are what the values say.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Fattr4<'a> {
        /// The attributes of which there are values.
        pub attrmask: Bitmap4,
        /// The values, encoded one behind the other.
        pub attr_vals: Attrlist4<'a>,
    }
}

xdr_struct! {
    /// `netaddr4`: an address on a network (RFC 5665).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Netaddr4<'a> {
        /// The network, such as `tcp`.
        pub netid: NetString<'a>,
        /// The universal address there.
        pub addr: NetString<'a>,
    }
}

xdr_struct! {
    /// `state_owner4`: `open_owner4` or `lock_owner4`, who opens or locks: a process on a client.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct StateOwner4<'a> {
        /// The client. From minor version 1 on it means nothing: the session says who it is.
        pub clientid: Clientid4,
        /// The client's own name for the owner.
        pub owner: Opaque4<'a>,
    }
}

xdr_enum! {
    /// `stable_how4`: what a WRITE promises.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum StableHow4 as "stable_how4" {
        /// May be lost until a COMMIT.
        Unstable = 0,
        /// The data, and what is needed to read it back, are on stable storage.
        DataSync = 1,
        /// Data and all attributes are on stable storage.
        FileSync = 2,
    }
}

xdr_enum! {
    /// `nfs_lock_type4`: what kind of lock is asked for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum LockType4 as "nfs_lock_type4" {
        /// Shared with other readers: READ_LT.
        Read = 1,
        /// Nobody else's: WRITE_LT.
        Write = 2,
        /// Shared, and the client will go on asking for it: READW_LT.
        ReadWaits = 3,
        /// Nobody else's, and the client will go on asking for it: WRITEW_LT.
        WriteWaits = 4,
    }
}

impl LockType4 {
    /// Whether nobody else's lock may overlap it.
    #[must_use]
    pub const fn is_exclusive(self) -> bool {
        matches!(self, Self::Write | Self::WriteWaits)
    }

    /// Whether the client will ask again until it has the lock.
    #[must_use]
    pub const fn waits(self) -> bool {
        matches!(self, Self::ReadWaits | Self::WriteWaits)
    }
}

xdr_struct! {
    /// `nfs_impl_id4`: which program a peer is, for people who look for mistakes.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct NfsImplId4<'a> {
        /// The domain name of who made it.
        pub domain: Utf8str<'a>,
        /// The product's name and version.
        pub name: Utf8str<'a>,
        /// When it was built or released.
        pub date: Nfstime4,
    }
}

xdr_union! {
    /// `netloc4`: another server, for copies between two (RFC 7862 §3.1.1).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Netloc4<'a> as "netloc_type4" {
        /// The server by its name: NL4_NAME.
        Name(Utf8str<'a>) = 1,
        /// The server by a URL: NL4_URL.
        Url(Utf8str<'a>) = 2,
        /// The server by its address: NL4_NETADDR.
        Netaddr(Netaddr4<'a>) = 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_stateids_are_told_from_others() {
        use StateidKind as Kind;
        let zeros = |seqid| Stateid4 {
            seqid,
            other: [0; 12],
        };
        let ones = |seqid| Stateid4 {
            seqid,
            other: [0xff; 12],
        };
        assert_eq!(zeros(0).kind(), Kind::Anonymous);
        assert_eq!(Stateid4::ANONYMOUS.kind(), Kind::Anonymous);
        assert_eq!(Stateid4::CURRENT.kind(), Kind::Current);
        assert_eq!(Stateid4::INVALID.kind(), Kind::Invalid);
        assert_eq!(Stateid4::READ_BYPASS.kind(), Kind::ReadBypass);
        for seqid in [2, 7, u32::MAX - 1] {
            assert_eq!(zeros(seqid).kind(), Kind::Undefined);
            assert_eq!(ones(seqid).kind(), Kind::Undefined);
        }
        assert_eq!(ones(0).kind(), Kind::Undefined);
        for at in 0..12 {
            let mut given = zeros(0);
            given.other[at] = 1;
            assert_eq!(given.kind(), Kind::Given);
            let mut given = ones(u32::MAX);
            given.other[at] = 0xfe;
            assert_eq!(given.kind(), Kind::Given);
        }
    }

    #[test]
    fn a_time_has_less_than_a_second_of_nanoseconds() {
        let time = |nseconds| Nfstime4 {
            seconds: -1,
            nseconds,
        };
        assert!(time(999_999_999).is_valid());
        assert!(!time(1_000_000_000).is_valid());
    }
}
