//! The table of operations, and what is known of each.

mod copy;
mod data;
mod directory;
mod layout;
mod legacy;
mod lock;
mod object;
mod open;
mod session;
mod xattr;

pub use copy::*;
pub use data::*;
pub use directory::*;
pub use layout::*;
pub use legacy::*;
pub use lock::*;
pub use object::*;
pub use open::*;
pub use session::*;
pub use xattr::*;

use super::define::operations;
use super::{Bitmap4, ChangeInfo4, MinorVersion, Nfsstat4, Res, Stateid4, Xattrvalue4};
use crate::xdr::padding;
use crate::{Encode, Encoder};

/// Which minor versions have an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Minors {
    /// All of them.
    All,
    /// 4.0 only. Later ones know it, and are not to have it.
    Only0,
    /// 4.1 and later.
    From1,
    /// 4.2 and later.
    From2,
}

/// Whether a minor version has an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Available {
    /// It has it.
    Yes,
    /// It knows it and is not to have it: NFS4ERR_NOTSUPP.
    NotSupported,
    /// It does not know it: NFS4ERR_OP_ILLEGAL.
    Unknown,
}

impl Minors {
    /// Whether this minor version is one of them.
    #[must_use]
    pub const fn available_in(self, minor: MinorVersion) -> Available {
        match (self, minor) {
            (Self::All, _)
            | (Self::Only0, MinorVersion::V0)
            | (Self::From1, MinorVersion::V1 | MinorVersion::V2)
            | (Self::From2, MinorVersion::V2) => Available::Yes,
            (Self::Only0, MinorVersion::V1 | MinorVersion::V2) => Available::NotSupported,
            (Self::From1, MinorVersion::V0)
            | (Self::From2, MinorVersion::V0 | MinorVersion::V1) => Available::Unknown,
        }
    }
}

/// Which file handles an operation needs. Without one it is answered with NFS4ERR_NOFILEHANDLE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Needs {
    /// None.
    Nothing,
    /// The current one.
    Current,
    /// The saved one.
    Saved,
    /// Both.
    Both,
}

/// Where an operation may stand in a COMPOUND, from minor version 1 on (RFC 8881 §2.10.2.1, §18.46.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Behind SEQUENCE only, else NFS4ERR_OP_NOT_IN_SESSION.
    Behind,
    /// First, as SEQUENCE is; elsewhere NFS4ERR_SEQUENCE_POS.
    First,
    /// Behind SEQUENCE, or without a session if it is the only one, else NFS4ERR_NOT_ONLY_OP.
    Alone,
}

/// Whether an operation changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// It may be carried out again.
    Reads,
    /// It must not be carried out twice.
    Changes,
}

/// A result that has a status.
pub trait OpStatus {
    /// How the operation ended.
    fn status(&self) -> Nfsstat4;
}

impl<T> OpStatus for Res<T> {
    fn status(&self) -> Nfsstat4 {
        self.as_ref().err().copied().unwrap_or(Nfsstat4::Ok)
    }
}

impl<T> OpStatus for Result<T, LockFailure<'_>> {
    fn status(&self) -> Nfsstat4 {
        match self {
            Ok(_) => Nfsstat4::Ok,
            Err(LockFailure::Denied(_)) => Nfsstat4::Denied,
            Err(LockFailure::Other(status)) => *status,
        }
    }
}

impl OpStatus for SetattrRes {
    fn status(&self) -> Nfsstat4 {
        self.status
    }
}

impl OpStatus for SetclientidRes<'_> {
    fn status(&self) -> Nfsstat4 {
        match self {
            Ok(_) => Nfsstat4::Ok,
            Err(SetclientidFailure::ClidInuse(_)) => Nfsstat4::ClidInuse,
            Err(SetclientidFailure::Other(status)) => *status,
        }
    }
}

impl OpStatus for CopyRes {
    fn status(&self) -> Nfsstat4 {
        match self {
            Ok(_) => Nfsstat4::Ok,
            Err(CopyFailure::OffloadNoReqs(_)) => Nfsstat4::OffloadNoReqs,
            Err(CopyFailure::Other(status)) => *status,
        }
    }
}

impl OpStatus for LayoutgetRes<'_> {
    fn status(&self) -> Nfsstat4 {
        match self {
            Ok(_) => Nfsstat4::Ok,
            Err(LayoutgetFailure::TryLater(_)) => Nfsstat4::Layouttrylater,
            Err(LayoutgetFailure::Other(status)) => *status,
        }
    }
}

impl OpStatus for GetdeviceinfoRes<'_> {
    fn status(&self) -> Nfsstat4 {
        match self {
            Ok(_) => Nfsstat4::Ok,
            Err(GetdeviceinfoFailure::TooSmall(_)) => Nfsstat4::Toosmall,
            Err(GetdeviceinfoFailure::Other(status)) => *status,
        }
    }
}

/// Bytes of a result that is a status and nothing more: the operation's number and the status.
pub const RESOP_LEN_MIN: usize = 8;
/// Bytes of `change_info4`.
const CHANGE_INFO: usize = 20;
/// Bytes of a stateid.
const STATEID: usize = Stateid4::ENCODED_LEN;
/// Most bytes of a set of attributes, operations or hints.
const BITMAP: usize = Bitmap4::ENCODED_LEN_MAX;
/// Most bytes of an `opaque<NFS4_OPAQUE_LIMIT>`, with its length.
const OPAQUE: usize = 4 + crate::limits::OPAQUE4_BYTES_MAX;
/// Most bytes of a `write_response4`.
const WRITE_RESPONSE: usize = 4 + STATEID + 8 + 4 + 8;
/// Most bytes of the names in a result that no limit has: a principal, a program, an address. What is made
/// here is far shorter.
const NAME: usize = 4 + 256;
/// Most bytes of an `open_delegation4`.
const DELEGATION: usize = 4 + STATEID + 4 + 12 + 12 + NAME;
/// Most bytes of a symlink's contents on Linux, with their length.
const LINKTEXT: usize = 4 + 4096;
/// Most bytes of a list of security mechanisms: some flavors and the three services of Kerberos.
const SECINFO: usize = 4 + 8 * 32;

operations! {
    /// An operation: `nfs_opnum4`.
    pub enum Opnum as "nfs_opnum4";

    /// An operation with its arguments: `nfs_argop4`.
    pub enum ArgOp<'a>;

    /// An operation with its result: `nfs_resop4`.
    pub enum ResOp<'a>;

    /// Asks what the caller may do.
    Access = 3 "ACCESS" (AccessArgs) -> (Res<AccessOk>),
        All, Current, Behind, Reads, RESOP_LEN_MIN + 8;
    /// Ends an open.
    Close = 4 "CLOSE" (CloseArgs) -> (Res<Stateid4>),
        All, Current, Behind, Changes, RESOP_LEN_MIN + STATEID;
    /// Puts written data on stable storage.
    Commit = 5 "COMMIT" (CommitArgs) -> (Res<CommitOk>),
        All, Current, Behind, Changes, RESOP_LEN_MIN + 8;
    /// Makes an object that is no regular file.
    Create = 6 "CREATE" (CreateArgs<'a>) -> (Res<CreateOk>),
        All, Current, Behind, Changes, RESOP_LEN_MIN + CHANGE_INFO + BITMAP;
    /// Lets go of delegations from before the client restarted.
    Delegpurge = 7 "DELEGPURGE" (DelegpurgeArgs) -> (Res<()>),
        All, Nothing, Behind, Changes, RESOP_LEN_MIN;
    /// Gives a delegation back.
    Delegreturn = 8 "DELEGRETURN" (DelegreturnArgs) -> (Res<()>),
        All, Current, Behind, Changes, RESOP_LEN_MIN;
    /// Asks for attributes.
    Getattr = 9 "GETATTR" (GetattrArgs) -> (Res<GetattrOk<'a>>),
        All, Current, Behind, Reads, RESOP_LEN_MIN + BITMAP + 4;
    /// Asks for the current handle.
    Getfh = 10 "GETFH" (()) -> (Res<GetfhOk>),
        All, Current, Behind, Reads, RESOP_LEN_MIN + 4 + 128;
    /// Gives the saved object another name: a hard link.
    Link = 11 "LINK" (LinkArgs<'a>) -> (Res<ChangeInfo4>),
        All, Both, Behind, Changes, RESOP_LEN_MIN + CHANGE_INFO;
    /// Locks a range of bytes.
    Lock = 12 "LOCK" (LockArgs<'a>) -> (LockRes<'a>),
        All, Current, Behind, Changes, RESOP_LEN_MIN + 8 + 8 + 4 + 8 + OPAQUE;
    /// Asks whether a lock could be had.
    Lockt = 13 "LOCKT" (LocktArgs<'a>) -> (LocktRes<'a>),
        All, Current, Behind, Reads, RESOP_LEN_MIN + 8 + 8 + 4 + 8 + OPAQUE;
    /// Gives a lock back.
    Locku = 14 "LOCKU" (LockuArgs) -> (Res<Stateid4>),
        All, Current, Behind, Changes, RESOP_LEN_MIN + STATEID;
    /// Makes the object of a name the current one.
    Lookup = 15 "LOOKUP" (LookupArgs<'a>) -> (Res<()>),
        All, Current, Behind, Reads, RESOP_LEN_MIN;
    /// Makes the parent directory the current one.
    Lookupp = 16 "LOOKUPP" (()) -> (Res<()>),
        All, Current, Behind, Reads, RESOP_LEN_MIN;
    /// Goes on only if attributes differ.
    Nverify = 17 "NVERIFY" (VerifyArgs<'a>) -> (Res<()>),
        All, Current, Behind, Reads, RESOP_LEN_MIN;
    /// Opens a regular file, and makes it if need be.
    Open = 18 "OPEN" (OpenArgs<'a>) -> (Res<OpenOk<'a>>),
        All, Current, Behind, Changes,
        RESOP_LEN_MIN + STATEID + CHANGE_INFO + 4 + BITMAP + DELEGATION;
    /// Makes the directory of named attributes the current one.
    Openattr = 19 "OPENATTR" (OpenattrArgs) -> (Res<()>),
        All, Current, Behind, Changes, RESOP_LEN_MIN;
    /// Confirms an open.
    OpenConfirm = 20 "OPEN_CONFIRM" (OpenConfirmArgs) -> (Res<Stateid4>),
        Only0, Current, Behind, Changes, RESOP_LEN_MIN + STATEID;
    /// Opens a file for less.
    OpenDowngrade = 21 "OPEN_DOWNGRADE" (OpenDowngradeArgs) -> (Res<Stateid4>),
        All, Current, Behind, Changes, RESOP_LEN_MIN + STATEID;
    /// Makes a handle the current one.
    Putfh = 22 "PUTFH" (PutfhArgs) -> (Res<()>),
        All, Nothing, Behind, Reads, RESOP_LEN_MIN;
    /// Makes the public handle the current one.
    Putpubfh = 23 "PUTPUBFH" (()) -> (Res<()>),
        All, Nothing, Behind, Reads, RESOP_LEN_MIN;
    /// Makes the root's handle the current one.
    Putrootfh = 24 "PUTROOTFH" (()) -> (Res<()>),
        All, Nothing, Behind, Reads, RESOP_LEN_MIN;
    /// Reads a range of a file's bytes.
    Read = 25 "READ" (ReadArgs) -> (Res<ReadOk<'a>>),
        All, Current, Behind, Reads, RESOP_LEN_MIN + 8;
    /// Lists a directory's entries with attributes.
    Readdir = 26 "READDIR" (ReaddirArgs) -> (Res<ReaddirOk<'a>>),
        All, Current, Behind, Reads, RESOP_LEN_MIN;
    /// Asks for what a symlink holds.
    Readlink = 27 "READLINK" (()) -> (Res<ReadlinkOk<'a>>),
        All, Current, Behind, Reads, RESOP_LEN_MIN + LINKTEXT;
    /// Removes an entry.
    Remove = 28 "REMOVE" (RemoveArgs<'a>) -> (Res<ChangeInfo4>),
        All, Current, Behind, Changes, RESOP_LEN_MIN + CHANGE_INFO;
    /// Renames an entry from the saved into the current directory.
    Rename = 29 "RENAME" (RenameArgs<'a>) -> (Res<RenameOk>),
        All, Both, Behind, Changes, RESOP_LEN_MIN + 2 * CHANGE_INFO;
    /// Renews a client's lease.
    Renew = 30 "RENEW" (RenewArgs) -> (Res<()>),
        Only0, Nothing, Behind, Reads, RESOP_LEN_MIN;
    /// Makes the saved handle the current one.
    Restorefh = 31 "RESTOREFH" (()) -> (Res<()>),
        All, Saved, Behind, Reads, RESOP_LEN_MIN;
    /// Makes the current handle the saved one.
    Savefh = 32 "SAVEFH" (()) -> (Res<()>),
        All, Current, Behind, Reads, RESOP_LEN_MIN;
    /// Asks which security mechanisms are accepted for a name.
    Secinfo = 33 "SECINFO" (SecinfoArgs<'a>) -> (Res<SecinfoOk<'a>>),
        All, Current, Behind, Reads, RESOP_LEN_MIN + SECINFO;
    /// Sets attributes.
    Setattr = 34 "SETATTR" (SetattrArgs<'a>) -> (SetattrRes),
        All, Current, Behind, Changes, RESOP_LEN_MIN + BITMAP;
    /// Says who the client is.
    Setclientid = 35 "SETCLIENTID" (SetclientidArgs<'a>) -> (SetclientidRes<'a>),
        Only0, Nothing, Behind, Changes, RESOP_LEN_MIN + 2 * NAME;
    /// Confirms who the client is.
    SetclientidConfirm = 36 "SETCLIENTID_CONFIRM" (SetclientidConfirmArgs) -> (Res<()>),
        Only0, Nothing, Behind, Changes, RESOP_LEN_MIN;
    /// Goes on only if attributes are the same.
    Verify = 37 "VERIFY" (VerifyArgs<'a>) -> (Res<()>),
        All, Current, Behind, Reads, RESOP_LEN_MIN;
    /// Writes bytes to a file.
    Write = 38 "WRITE" (WriteArgs<'a>) -> (Res<WriteOk>),
        All, Current, Behind, Changes, RESOP_LEN_MIN + 16;
    /// Says that an owner will lock nothing more.
    ReleaseLockowner = 39 "RELEASE_LOCKOWNER" (ReleaseLockownerArgs<'a>) -> (Res<()>),
        Only0, Nothing, Behind, Changes, RESOP_LEN_MIN;
    /// Changes how the client is to be called.
    BackchannelCtl = 40 "BACKCHANNEL_CTL" (BackchannelCtlArgs<'a>) -> (Res<()>),
        From1, Nothing, Behind, Changes, RESOP_LEN_MIN;
    /// Binds the connection to a session.
    BindConnToSession = 41 "BIND_CONN_TO_SESSION"
        (BindConnToSessionArgs) -> (Res<BindConnToSessionOk>),
        From1, Nothing, Alone, Changes, RESOP_LEN_MIN + 16 + 4 + 4;
    /// Says who the client is, and asks who the server is.
    ExchangeId = 42 "EXCHANGE_ID" (ExchangeIdArgs<'a>) -> (Res<ExchangeIdOk<'a>>),
        From1, Nothing, Alone, Changes,
        RESOP_LEN_MIN + 8 + 4 + 4 + (4 + 2 * BITMAP) + (8 + OPAQUE) + OPAQUE + (4 + 2 * NAME + 12);
    /// Begins a session.
    CreateSession = 43 "CREATE_SESSION" (CreateSessionArgs<'a>) -> (Res<CreateSessionOk>),
        From1, Nothing, Alone, Changes, RESOP_LEN_MIN + 16 + 4 + 4 + 2 * 32;
    /// Ends a session.
    DestroySession = 44 "DESTROY_SESSION" (DestroySessionArgs) -> (Res<()>),
        From1, Nothing, Alone, Changes, RESOP_LEN_MIN;
    /// Lets a state be forgotten.
    FreeStateid = 45 "FREE_STATEID" (FreeStateidArgs) -> (Res<()>),
        From1, Nothing, Behind, Changes, RESOP_LEN_MIN;
    /// Asks for a delegation of a directory.
    GetDirDelegation = 46 "GET_DIR_DELEGATION"
        (GetDirDelegationArgs) -> (Res<GetDirDelegationRes>),
        From1, Current, Behind, Changes, RESOP_LEN_MIN + 4 + 8 + STATEID + 3 * BITMAP;
    /// Asks where a storage device is.
    Getdeviceinfo = 47 "GETDEVICEINFO" (GetdeviceinfoArgs) -> (GetdeviceinfoRes<'a>),
        From1, Nothing, Behind, Reads, RESOP_LEN_MIN + BITMAP;
    /// Asks which storage devices there are.
    Getdevicelist = 48 "GETDEVICELIST" (GetdevicelistArgs) -> (Res<GetdevicelistOk>),
        From1, Current, Behind, Reads, RESOP_LEN_MIN + 8 + 8 + 4 + 4;
    /// Tells what was written by layouts.
    Layoutcommit = 49 "LAYOUTCOMMIT" (LayoutcommitArgs<'a>) -> (Res<LayoutcommitOk>),
        From1, Current, Behind, Changes, RESOP_LEN_MIN + 4 + 8;
    /// Asks for layouts.
    Layoutget = 50 "LAYOUTGET" (LayoutgetArgs) -> (LayoutgetRes<'a>),
        From1, Current, Behind, Changes, RESOP_LEN_MIN + 4 + STATEID + 4;
    /// Gives layouts back.
    Layoutreturn = 51 "LAYOUTRETURN" (LayoutreturnArgs<'a>) -> (Res<Option<Stateid4>>),
        From1, Current, Behind, Changes, RESOP_LEN_MIN + 4 + STATEID;
    /// Asks which security mechanisms are accepted for the current object.
    SecinfoNoName = 52 "SECINFO_NO_NAME" (SecinfoNoNameArgs) -> (Res<SecinfoOk<'a>>),
        From1, Current, Behind, Reads, RESOP_LEN_MIN + SECINFO;
    /// Puts a COMPOUND into a slot of a session.
    Sequence = 53 "SEQUENCE" (SequenceArgs) -> (Res<SequenceOk>),
        From1, Nothing, First, Reads, RESOP_LEN_MIN + 16 + 5 * 4;
    /// Changes a secret state verifier.
    SetSsv = 54 "SET_SSV" (SetSsvArgs<'a>) -> (Res<SetSsvOk<'a>>),
        From1, Nothing, Behind, Changes, RESOP_LEN_MIN + NAME;
    /// Asks whether states are still good.
    TestStateid = 55 "TEST_STATEID" (TestStateidArgs) -> (Res<TestStateidOk>),
        From1, Nothing, Behind, Reads, RESOP_LEN_MIN + 4;
    /// Asks for a delegation without an open.
    WantDelegation = 56 "WANT_DELEGATION" (WantDelegationArgs) -> (Res<OpenDelegation4<'a>>),
        From1, Current, Behind, Changes, RESOP_LEN_MIN + DELEGATION;
    /// Has a client forgotten.
    DestroyClientid = 57 "DESTROY_CLIENTID" (DestroyClientidArgs) -> (Res<()>),
        From1, Nothing, Alone, Changes, RESOP_LEN_MIN;
    /// Says that nothing more will be reclaimed.
    ReclaimComplete = 58 "RECLAIM_COMPLETE" (ReclaimCompleteArgs) -> (Res<()>),
        From1, Nothing, Behind, Changes, RESOP_LEN_MIN;
    /// Takes space for a range.
    Allocate = 59 "ALLOCATE" (AllocateArgs) -> (Res<()>),
        From2, Current, Behind, Changes, RESOP_LEN_MIN;
    /// Copies from the saved to the current file.
    Copy = 60 "COPY" (CopyArgs<'a>) -> (CopyRes),
        From2, Both, Behind, Changes, RESOP_LEN_MIN + WRITE_RESPONSE + 8;
    /// Says that another server will read the current file.
    CopyNotify = 61 "COPY_NOTIFY" (CopyNotifyArgs<'a>) -> (Res<CopyNotifyOk<'a>>),
        From2, Current, Behind, Changes, RESOP_LEN_MIN + 12 + STATEID + 4 + 2 * NAME;
    /// Gives the space of a range back.
    Deallocate = 62 "DEALLOCATE" (AllocateArgs) -> (Res<()>),
        From2, Current, Behind, Changes, RESOP_LEN_MIN;
    /// Says what will be done with a range.
    IoAdvise = 63 "IO_ADVISE" (IoAdviseArgs) -> (Res<IoAdviseOk>),
        From2, Current, Behind, Reads, RESOP_LEN_MIN + BITMAP;
    /// Tells of errors of storage devices.
    Layouterror = 64 "LAYOUTERROR" (LayouterrorArgs) -> (Res<()>),
        From2, Current, Behind, Changes, RESOP_LEN_MIN;
    /// Tells how layouts were used.
    Layoutstats = 65 "LAYOUTSTATS" (LayoutstatsArgs<'a>) -> (Res<()>),
        From2, Current, Behind, Changes, RESOP_LEN_MIN;
    /// Ends a copy that goes on.
    OffloadCancel = 66 "OFFLOAD_CANCEL" (OffloadArgs) -> (Res<()>),
        From2, Current, Behind, Changes, RESOP_LEN_MIN;
    /// Asks how far a copy is.
    OffloadStatus = 67 "OFFLOAD_STATUS" (OffloadArgs) -> (Res<OffloadStatusOk>),
        From2, Current, Behind, Reads, RESOP_LEN_MIN + 8 + 8;
    /// Reads a range of a file's bytes, holes as holes.
    ReadPlus = 68 "READ_PLUS" (ReadArgs) -> (Res<ReadPlusOk<'a>>),
        From2, Current, Behind, Reads, RESOP_LEN_MIN + 8;
    /// Looks for data or a hole.
    Seek = 69 "SEEK" (SeekArgs) -> (Res<SeekOk>),
        From2, Current, Behind, Reads, RESOP_LEN_MIN + 12;
    /// Writes a pattern again and again.
    WriteSame = 70 "WRITE_SAME" (WriteSameArgs<'a>) -> (Res<WriteResponse4>),
        From2, Current, Behind, Changes, RESOP_LEN_MIN + WRITE_RESPONSE;
    /// Lets the current file share a range with the saved one.
    Clone = 71 "CLONE" (CloneArgs) -> (Res<()>),
        From2, Both, Behind, Changes, RESOP_LEN_MIN;
    /// Asks for an extended attribute.
    Getxattr = 72 "GETXATTR" (XattrNameArgs<'a>) -> (Res<Xattrvalue4<'a>>),
        From2, Current, Behind, Reads, RESOP_LEN_MIN + 4 + 65_536;
    /// Sets an extended attribute.
    Setxattr = 73 "SETXATTR" (SetxattrArgs<'a>) -> (Res<ChangeInfo4>),
        From2, Current, Behind, Changes, RESOP_LEN_MIN + CHANGE_INFO;
    /// Lists extended attributes.
    Listxattrs = 74 "LISTXATTRS" (ListxattrsArgs) -> (Res<ListxattrsOk<'a>>),
        From2, Current, Behind, Reads, RESOP_LEN_MIN;
    /// Removes an extended attribute.
    Removexattr = 75 "REMOVEXATTR" (XattrNameArgs<'a>) -> (Res<ChangeInfo4>),
        From2, Current, Behind, Changes, RESOP_LEN_MIN + CHANGE_INFO;
    /// No operation: what an unknown one is answered with.
    Illegal = 10044 "ILLEGAL" (()) -> (Res<()>),
        All, Nothing, Behind, Reads, RESOP_LEN_MIN;
}

impl ArgOp<'_> {
    /// The most bytes that the result takes in the reply, number and status included. For an operation that
    /// changes something it is never less than what a server of ours answers; for others it may be, where
    /// neither the arguments nor the RFCs set a limit (owners, ACLs).
    #[must_use]
    pub fn reply_len_max(&self) -> usize {
        let asked = match self {
            Self::Getattr(args) => args
                .attr_request
                .iter()
                .filter_map(|number| super::Attribute::try_from(number).ok())
                .map(super::Attribute::encoded_len_max)
                .sum(),
            Self::Read(args) | Self::ReadPlus(args) => {
                let count = bytes(args.count);
                count.saturating_add(padding(count))
            }
            Self::Readdir(args) => bytes(args.maxcount),
            Self::Listxattrs(args) => bytes(args.maxcount),
            Self::Getdeviceinfo(args) => bytes(args.maxcount),
            Self::Layoutget(args) => bytes(args.maxcount),
            Self::Getdevicelist(args) => bytes(args.maxdevices).saturating_mul(16),
            Self::TestStateid(args) => args.stateids.len().saturating_mul(4),
            _ => 0,
        };
        self.opnum().reply_len_base().saturating_add(asked)
    }
}

fn bytes(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

impl Opnum {
    /// Writes the result of an operation that failed with nothing to say but its status.
    pub fn encode_failure(self, status: Nfsstat4, e: &mut Encoder<'_>) {
        e.u32(self.number());
        status.encode(e);
        if self == Self::Setattr {
            Bitmap4::EMPTY.encode(e);
        }
    }
}
