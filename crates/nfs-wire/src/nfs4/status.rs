//! `nfsstat4`: how an operation ended, in all minor versions.

use std::fmt;

use crate::{Decode, DecodeError, Decoder, Encode, Encoder};

macro_rules! nfsstat4 {
    ($( $(#[$meta:meta])* $name:ident = $value:literal $word:literal, )*) => {
        /// `nfsstat4`: how an operation ended (RFC 7530 §13, RFC 8881 §15, RFC 7862 §11, RFC 8276 §8.5).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Nfsstat4 {
            $( $(#[$meta])* $name = $value, )*
        }

        impl Nfsstat4 {
            /// Every status, in the order of its number.
            pub const ALL: &[Self] = &[$( Self::$name ),*];

            /// The word that the RFCs have for it.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $( Self::$name => $word, )* }
            }
        }

        impl TryFrom<u32> for Nfsstat4 {
            type Error = DecodeError;

            fn try_from(value: u32) -> Result<Self, DecodeError> {
                match value {
                    $( $value => Ok(Self::$name), )*
                    value => Err(DecodeError::BadValue { field: "nfsstat4", value }),
                }
            }
        }
    };
}

nfsstat4! {
    /// The operation was carried out: NFS4_OK.
    Ok = 0 "NFS4_OK",
    /// Not the owner, or not privileged.
    Perm = 1 "NFS4ERR_PERM",
    /// No such file or directory.
    Noent = 2 "NFS4ERR_NOENT",
    /// A hard error of the disk, for example.
    Io = 5 "NFS4ERR_IO",
    /// There is no such device or address.
    Nxio = 6 "NFS4ERR_NXIO",
    /// The caller may not do this.
    Access = 13 "NFS4ERR_ACCESS",
    /// An object of this name exists already.
    Exist = 17 "NFS4ERR_EXIST",
    /// The link or rename would cross file systems.
    Xdev = 18 "NFS4ERR_XDEV",
    /// The object is not a directory, as it would have to be.
    Notdir = 20 "NFS4ERR_NOTDIR",
    /// The object is a directory, and must not be one.
    Isdir = 21 "NFS4ERR_ISDIR",
    /// An argument is invalid for this operation.
    Inval = 22 "NFS4ERR_INVAL",
    /// The file would become larger than the server allows.
    Fbig = 27 "NFS4ERR_FBIG",
    /// The file system has no space left.
    Nospc = 28 "NFS4ERR_NOSPC",
    /// The file system can only be read.
    Rofs = 30 "NFS4ERR_ROFS",
    /// The object has as many names (hard links) as it may have.
    Mlink = 31 "NFS4ERR_MLINK",
    /// The name is too long.
    Nametoolong = 63 "NFS4ERR_NAMETOOLONG",
    /// The directory is not empty.
    Notempty = 66 "NFS4ERR_NOTEMPTY",
    /// A quota is used up.
    Dquot = 69 "NFS4ERR_DQUOT",
    /// The object of the handle is gone.
    Stale = 70 "NFS4ERR_STALE",
    /// The handle is not one of this server.
    Badhandle = 10001 "NFS4ERR_BADHANDLE",
    /// The cookie of a READDIR is stale.
    BadCookie = 10003 "NFS4ERR_BAD_COOKIE",
    /// The operation is not supported.
    Notsupp = 10004 "NFS4ERR_NOTSUPP",
    /// The reply does not fit into what the caller has room for.
    Toosmall = 10005 "NFS4ERR_TOOSMALL",
    /// An error of the server that fits nothing else.
    Serverfault = 10006 "NFS4ERR_SERVERFAULT",
    /// An object of that type cannot be made.
    Badtype = 10007 "NFS4ERR_BADTYPE",
    /// The operation takes long: try again later.
    Delay = 10008 "NFS4ERR_DELAY",
    /// NVERIFY: the attributes are the same.
    Same = 10009 "NFS4ERR_SAME",
    /// Somebody else holds a lock that is in the way.
    Denied = 10010 "NFS4ERR_DENIED",
    /// The lease has run out, and the state that it held was needed.
    Expired = 10011 "NFS4ERR_EXPIRED",
    /// A lock forbids this READ or WRITE.
    Locked = 10012 "NFS4ERR_LOCKED",
    /// The server has restarted and takes only state that was held before.
    Grace = 10013 "NFS4ERR_GRACE",
    /// The handle is volatile and has expired.
    Fhexpired = 10014 "NFS4ERR_FHEXPIRED",
    /// Somebody has opened the file and denies this to others.
    ShareDenied = 10015 "NFS4ERR_SHARE_DENIED",
    /// The security mechanism is not one that is accepted here.
    Wrongsec = 10016 "NFS4ERR_WRONGSEC",
    /// The client's name is in use by another principal.
    ClidInuse = 10017 "NFS4ERR_CLID_INUSE",
    /// The server lacks a resource. Only in minor version 0.
    Resource = 10018 "NFS4ERR_RESOURCE",
    /// The file system is not here, or no more.
    Moved = 10019 "NFS4ERR_MOVED",
    /// The operation needs a current file handle and there is none.
    Nofilehandle = 10020 "NFS4ERR_NOFILEHANDLE",
    /// The minor version is not served.
    MinorVersMismatch = 10021 "NFS4ERR_MINOR_VERS_MISMATCH",
    /// The client id is of an earlier life of the server.
    StaleClientid = 10022 "NFS4ERR_STALE_CLIENTID",
    /// The stateid is of an earlier life of the server.
    StaleStateid = 10023 "NFS4ERR_STALE_STATEID",
    /// The stateid's seqid is not the most recent one.
    OldStateid = 10024 "NFS4ERR_OLD_STATEID",
    /// The stateid names no state that the operation could use.
    BadStateid = 10025 "NFS4ERR_BAD_STATEID",
    /// The seqid of an owner is out of order. Only in minor version 0.
    BadSeqid = 10026 "NFS4ERR_BAD_SEQID",
    /// VERIFY: the attributes are not the same; or a READDIR's verifier is stale.
    NotSame = 10027 "NFS4ERR_NOT_SAME",
    /// The range covers a part of a lock only, which the server cannot do.
    LockRange = 10028 "NFS4ERR_LOCK_RANGE",
    /// The object is a symlink, and must not be one.
    Symlink = 10029 "NFS4ERR_SYMLINK",
    /// There is no saved file handle to be restored. Only in minor version 0.
    Restorefh = 10030 "NFS4ERR_RESTOREFH",
    /// Some file system with state has moved. Only in minor version 0.
    LeaseMoved = 10031 "NFS4ERR_LEASE_MOVED",
    /// An attribute to be set or compared is not supported.
    Attrnotsupp = 10032 "NFS4ERR_ATTRNOTSUPP",
    /// State cannot be reclaimed any more.
    NoGrace = 10033 "NFS4ERR_NO_GRACE",
    /// The state to be reclaimed is known not to have been held.
    ReclaimBad = 10034 "NFS4ERR_RECLAIM_BAD",
    /// The state to be reclaimed conflicts with other state.
    ReclaimConflict = 10035 "NFS4ERR_RECLAIM_CONFLICT",
    /// The arguments cannot be decoded.
    Badxdr = 10036 "NFS4ERR_BADXDR",
    /// Locks are held, so that the file cannot be closed or the owner let go.
    LocksHeld = 10037 "NFS4ERR_LOCKS_HELD",
    /// The file is not opened for this.
    Openmode = 10038 "NFS4ERR_OPENMODE",
    /// The name of an owner or group means nobody here.
    Badowner = 10039 "NFS4ERR_BADOWNER",
    /// A name has a character that the server does not take.
    Badchar = 10040 "NFS4ERR_BADCHAR",
    /// The name is one that cannot be used.
    Badname = 10041 "NFS4ERR_BADNAME",
    /// The range is beyond what the server can lock.
    BadRange = 10042 "NFS4ERR_BAD_RANGE",
    /// A lock cannot be changed atomically from one kind to the other.
    LockNotsupp = 10043 "NFS4ERR_LOCK_NOTSUPP",
    /// There is no such operation.
    OpIllegal = 10044 "NFS4ERR_OP_ILLEGAL",
    /// The lock would wait for itself.
    Deadlock = 10045 "NFS4ERR_DEADLOCK",
    /// The object is open, which forbids this.
    FileOpen = 10046 "NFS4ERR_FILE_OPEN",
    /// The server's administrator took the state away.
    AdminRevoked = 10047 "NFS4ERR_ADMIN_REVOKED",
    /// The client cannot be called back. Only in minor version 0.
    CbPathDown = 10048 "NFS4ERR_CB_PATH_DOWN",
    /// A layout was asked for in a mode that is impossible here.
    Badiomode = 10049 "NFS4ERR_BADIOMODE",
    /// The layout is not valid.
    Badlayout = 10050 "NFS4ERR_BADLAYOUT",
    /// The digest of a SET_SSV is wrong.
    BadSessionDigest = 10051 "NFS4ERR_BAD_SESSION_DIGEST",
    /// The session does not exist.
    Badsession = 10052 "NFS4ERR_BADSESSION",
    /// The slot is beyond what the session has.
    Badslot = 10053 "NFS4ERR_BADSLOT",
    /// RECLAIM_COMPLETE was sent before.
    CompleteAlready = 10054 "NFS4ERR_COMPLETE_ALREADY",
    /// The connection is not bound to the session.
    ConnNotBoundToSession = 10055 "NFS4ERR_CONN_NOT_BOUND_TO_SESSION",
    /// The delegation is already asked for.
    DelegAlreadyWanted = 10056 "NFS4ERR_DELEG_ALREADY_WANTED",
    /// The session has calls to the client under way.
    BackChanBusy = 10057 "NFS4ERR_BACK_CHAN_BUSY",
    /// The layout cannot be had just now.
    Layouttrylater = 10058 "NFS4ERR_LAYOUTTRYLATER",
    /// There are no layouts for this file.
    Layoutunavailable = 10059 "NFS4ERR_LAYOUTUNAVAILABLE",
    /// The client has no layout that matches the recall.
    NomatchingLayout = 10060 "NFS4ERR_NOMATCHING_LAYOUT",
    /// A recall of a layout is under way.
    Recallconflict = 10061 "NFS4ERR_RECALLCONFLICT",
    /// The type of layout is not known.
    UnknownLayouttype = 10062 "NFS4ERR_UNKNOWN_LAYOUTTYPE",
    /// The sequence id of the slot is not the next one.
    SeqMisordered = 10063 "NFS4ERR_SEQ_MISORDERED",
    /// SEQUENCE is not the first operation.
    SequencePos = 10064 "NFS4ERR_SEQUENCE_POS",
    /// The request is longer than the session allows.
    ReqTooBig = 10065 "NFS4ERR_REQ_TOO_BIG",
    /// The reply would be longer than the session allows.
    RepTooBig = 10066 "NFS4ERR_REP_TOO_BIG",
    /// The reply would be longer than the session keeps for a repetition.
    RepTooBigToCache = 10067 "NFS4ERR_REP_TOO_BIG_TO_CACHE",
    /// The request came before, and its reply was not kept.
    RetryUncachedRep = 10068 "NFS4ERR_RETRY_UNCACHED_REP",
    /// A restart within this compound could not be recovered from.
    UnsafeCompound = 10069 "NFS4ERR_UNSAFE_COMPOUND",
    /// The compound has more operations than the session allows.
    TooManyOps = 10070 "NFS4ERR_TOO_MANY_OPS",
    /// The operation has to stand behind a SEQUENCE.
    OpNotInSession = 10071 "NFS4ERR_OP_NOT_IN_SESSION",
    /// None of the hash algorithms is supported.
    HashAlgUnsupp = 10072 "NFS4ERR_HASH_ALG_UNSUPP",
    /// The client id still has state.
    ClientidBusy = 10074 "NFS4ERR_CLIENTID_BUSY",
    /// The data is in a hole of the layout.
    PnfsIoHole = 10075 "NFS4ERR_PNFS_IO_HOLE",
    /// The request has the sequence id of another one.
    SeqFalseRetry = 10076 "NFS4ERR_SEQ_FALSE_RETRY",
    /// The highest slot is beyond what the session has.
    BadHighSlot = 10077 "NFS4ERR_BAD_HIGH_SLOT",
    /// The session is gone, and so the request was not carried out.
    Deadsession = 10078 "NFS4ERR_DEADSESSION",
    /// None of the encryption algorithms is supported.
    EncrAlgUnsupp = 10079 "NFS4ERR_ENCR_ALG_UNSUPP",
    /// The client has no layout for this.
    PnfsNoLayout = 10080 "NFS4ERR_PNFS_NO_LAYOUT",
    /// The operation has to be alone in its compound.
    NotOnlyOp = 10081 "NFS4ERR_NOT_ONLY_OP",
    /// The credential is not the one that this is bound to.
    WrongCred = 10082 "NFS4ERR_WRONG_CRED",
    /// The operation cannot be done on an object of this type.
    WrongType = 10083 "NFS4ERR_WRONG_TYPE",
    /// The directory cannot be delegated.
    DirdelegUnavail = 10084 "NFS4ERR_DIRDELEG_UNAVAIL",
    /// The client refuses the delegation.
    RejectDeleg = 10085 "NFS4ERR_REJECT_DELEG",
    /// A return of a layout is under way.
    Returnconflict = 10086 "NFS4ERR_RETURNCONFLICT",
    /// The delegation or layout was revoked.
    DelegRevoked = 10087 "NFS4ERR_DELEG_REVOKED",
    /// The other server does not support this copy.
    PartnerNotsupp = 10088 "NFS4ERR_PARTNER_NOTSUPP",
    /// The other server does not authorise this copy.
    PartnerNoAuth = 10089 "NFS4ERR_PARTNER_NO_AUTH",
    /// The arm of a union is not supported.
    UnionNotsupp = 10090 "NFS4ERR_UNION_NOTSUPP",
    /// The copy is not allowed.
    OffloadDenied = 10091 "NFS4ERR_OFFLOAD_DENIED",
    /// The label is of another format.
    WrongLfs = 10092 "NFS4ERR_WRONG_LFS",
    /// The label is not valid.
    Badlabel = 10093 "NFS4ERR_BADLABEL",
    /// The copy cannot be done as it is required.
    OffloadNoReqs = 10094 "NFS4ERR_OFFLOAD_NO_REQS",
    /// The object has no such extended attribute.
    Noxattr = 10095 "NFS4ERR_NOXATTR",
    /// The extended attribute's value is too long.
    Xattr2big = 10096 "NFS4ERR_XATTR2BIG",
}

impl fmt::Display for Nfsstat4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Decode<'_> for Nfsstat4 {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.u32("nfsstat4")?.try_into()
    }
}

impl Encode for Nfsstat4 {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.u32(*self as u32);
    }
}

/// The result of an operation whose failure says nothing but its status, which is never [`Nfsstat4::Ok`].
pub type Res<T> = Result<T, Nfsstat4>;

impl<'a, T: Decode<'a>> Decode<'a> for Res<T> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(match Nfsstat4::decode(d)? {
            Nfsstat4::Ok => Ok(T::decode(d)?),
            status => Err(status),
        })
    }
}

impl<T: Encode> Encode for Res<T> {
    fn encode(&self, e: &mut Encoder<'_>) {
        match self {
            Ok(ok) => {
                Nfsstat4::Ok.encode(e);
                ok.encode(e);
            }
            Err(status) => status.encode(e),
        }
    }
}
