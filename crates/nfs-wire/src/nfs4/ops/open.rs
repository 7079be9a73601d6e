//! Opens and delegations: OPEN, CLOSE, OPEN_DOWNGRADE, DELEGRETURN and what belongs to them (RFC 8881
//! §18.2, §18.5, §18.6, §18.16, §18.18, §18.39, §18.49).

use crate::nfs4::{
    Bitmap4, ChangeInfo4, Component4, Fattr4, Nfsace4, Nfstime4, StateOwner4, Stateid4, Verifier4,
};
use crate::xdr::define::{xdr_enum, xdr_struct, xdr_union};

xdr_struct! {
    /// `creatverfattr`: what an exclusive create is known by, and attributes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CreateVerfAttr<'a> {
        /// What a repetition is known by.
        pub verf: Verifier4,
        /// The attributes that the file is to have.
        pub attrs: Fattr4<'a>,
    }
}

xdr_union! {
    /// `createhow4`: what to do when the name is taken.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Createhow4<'a> as "createmode4" {
        /// A file of that name will do: UNCHECKED4.
        Unchecked(Fattr4<'a>) = 0,
        /// A name that is there already is an error: GUARDED4.
        Guarded(Fattr4<'a>) = 1,
        /// A name that is there already is an error unless this call made it: EXCLUSIVE4.
        Exclusive(Verifier4) = 2,
        /// The same, with attributes: EXCLUSIVE4_1.
        Exclusive41(CreateVerfAttr<'a>) = 3,
    }
}

xdr_union! {
    /// `openflag4`: whether OPEN makes the file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Openflag4<'a> as "opentype4" {
        /// The file has to be there: OPEN4_NOCREATE.
        Nocreate = 0,
        /// The file is made: OPEN4_CREATE.
        Create(Createhow4<'a>) = 1,
    }
}

xdr_enum! {
    /// `open_delegation_type4`: what kind of delegation.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum OpenDelegationType4 as "open_delegation_type4" {
        /// None at all.
        None = 0,
        /// Nobody else writes the file.
        Read = 1,
        /// Nobody else uses the file.
        Write = 2,
        /// None, and it is told why.
        NoneExt = 3,
        /// As `Read`, and the client keeps the times (RFC 9754).
        ReadAttrs = 4,
        /// As `Write`, and the client keeps the times (RFC 9754).
        WriteAttrs = 5,
    }
}

xdr_struct! {
    /// `open_claim_delegate_cur4`: an open under a delegation, of a file by its name.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OpenClaimDelegateCur4<'a> {
        /// The stateid of the delegation that the client holds.
        pub delegate_stateid: Stateid4,
        /// The name in the current directory.
        pub file: Component4<'a>,
    }
}

xdr_union! {
    /// `open_claim4`: which file is opened, and by what right.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum OpenClaim4<'a> as "open_claim_type4" {
        /// This name in the current directory: CLAIM_NULL.
        Null(Component4<'a>) = 0,
        /// The current file, which was open before the server restarted: CLAIM_PREVIOUS.
        Previous(OpenDelegationType4) = 1,
        /// A name in the current directory, by a delegation: CLAIM_DELEGATE_CUR.
        DelegateCur(OpenClaimDelegateCur4<'a>) = 2,
        /// This name in the current directory, by a delegation from before the client restarted:
        /// CLAIM_DELEGATE_PREV.
        DelegatePrev(Component4<'a>) = 3,
        /// The current file: CLAIM_FH.
        Fh = 4,
        /// The current file, by a delegation: CLAIM_DELEG_CUR_FH.
        DelegCurFh(Stateid4) = 5,
        /// The current file, by a delegation from before the client restarted: CLAIM_DELEG_PREV_FH.
        DelegPrevFh = 6,
    }
}

xdr_struct! {
    /// `OPEN4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OpenArgs<'a> {
        /// Minor version 0: the owner's next seqid.
        pub seqid: u32,
        /// What the owner wants to do, and what it wants of delegations: `OPEN4_SHARE_ACCESS_*`.
        pub share_access: u32,
        /// What others may not do meanwhile: `OPEN4_SHARE_DENY_*`.
        pub share_deny: u32,
        /// The open-owner on whose behalf the file is opened.
        pub owner: StateOwner4<'a>,
        /// Whether the file is made.
        pub openhow: Openflag4<'a>,
        /// Which file, and by what right.
        pub claim: OpenClaim4<'a>,
    }
}

/// The owner reads.
pub const OPEN4_SHARE_ACCESS_READ: u32 = 1;
/// The owner writes.
pub const OPEN4_SHARE_ACCESS_WRITE: u32 = 2;
/// The owner reads and writes.
pub const OPEN4_SHARE_ACCESS_BOTH: u32 = 3;
/// Others may do everything.
pub const OPEN4_SHARE_DENY_NONE: u32 = 0;
/// Others may not read.
pub const OPEN4_SHARE_DENY_READ: u32 = 1;
/// Others may not write.
pub const OPEN4_SHARE_DENY_WRITE: u32 = 2;
/// Others may neither read nor write.
pub const OPEN4_SHARE_DENY_BOTH: u32 = 3;
/// The bits that say which delegation is wanted.
pub const OPEN4_SHARE_ACCESS_WANT_DELEG_MASK: u32 = 0xff00;
/// Whatever the server thinks right.
pub const OPEN4_SHARE_ACCESS_WANT_NO_PREFERENCE: u32 = 0x0000;
/// A read delegation is wanted.
pub const OPEN4_SHARE_ACCESS_WANT_READ_DELEG: u32 = 0x0100;
/// A write delegation is wanted.
pub const OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG: u32 = 0x0200;
/// Any delegation is wanted.
pub const OPEN4_SHARE_ACCESS_WANT_ANY_DELEG: u32 = 0x0300;
/// No delegation is wanted.
pub const OPEN4_SHARE_ACCESS_WANT_NO_DELEG: u32 = 0x0400;
/// A delegation that was asked for earlier is not wanted any more.
pub const OPEN4_SHARE_ACCESS_WANT_CANCEL: u32 = 0x0500;
/// The client is to be told when a delegation can be had that cannot be had now.
pub const OPEN4_SHARE_ACCESS_WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL: u32 = 0x1_0000;
/// The client is to be given a delegation when nobody contends any more.
pub const OPEN4_SHARE_ACCESS_WANT_PUSH_DELEG_WHEN_UNCONTENDED: u32 = 0x2_0000;
/// The client would keep the times of a file that is delegated to it (RFC 9754).
pub const OPEN4_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS: u32 = 0x10_0000;
/// With a delegation no open stateid is needed (RFC 9754).
pub const OPEN4_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION: u32 = 0x20_0000;

xdr_struct! {
    /// `nfs_modified_limit4`: a limit in blocks.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct NfsModifiedLimit4 {
        /// How many blocks the client may write before it has to ask.
        pub num_blocks: u32,
        /// How many bytes each of these blocks has.
        pub bytes_per_block: u32,
    }
}

xdr_union! {
    /// `nfs_space_limit4`: how much may be written under a delegation before it is sent to the server.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum NfsSpaceLimit4 as "limit_by4" {
        /// Up to this size of the file, bytes: NFS_LIMIT_SIZE.
        Size(u64) = 1,
        /// So many blocks: NFS_LIMIT_BLOCKS.
        Blocks(NfsModifiedLimit4) = 2,
    }
}

xdr_struct! {
    /// `open_read_delegation4`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OpenReadDelegation4<'a> {
        /// The stateid of the delegation that is granted.
        pub stateid: Stateid4,
        /// It is recalled at once.
        pub recall: bool,
        /// Who may open the file for reading without asking the server.
        pub permissions: Nfsace4<'a>,
    }
}

xdr_struct! {
    /// `open_write_delegation4`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OpenWriteDelegation4<'a> {
        /// The stateid of the delegation that is granted.
        pub stateid: Stateid4,
        /// It is recalled at once.
        pub recall: bool,
        /// How much may be written before it is sent to the server.
        pub space_limit: NfsSpaceLimit4,
        /// Who may open the file without asking the server.
        pub permissions: Nfsace4<'a>,
    }
}

xdr_union! {
    /// `open_none_delegation4`: why there is no delegation.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum OpenNoneDelegation4 as "why_no_delegation4" {
        /// The client did not want one.
        NotWanted = 0,
        /// Somebody else uses the file. True: the server will give it later.
        Contention(bool) = 1,
        /// The server lacks a resource. True: the server will tell when it has it.
        Resource(bool) = 2,
        /// Files of this type are not delegated.
        NotSuppFtype = 3,
        /// Files of this type are not delegated for writing.
        WriteDelegNotSuppFtype = 4,
        /// A read delegation cannot become a write delegation.
        NotSuppUpgrade = 5,
        /// A write delegation cannot become a read delegation.
        NotSuppDowngrade = 6,
        /// The client cancelled what it had asked for.
        Cancelled = 7,
        /// It is a directory.
        IsDir = 8,
    }
}

xdr_union! {
    /// `open_delegation4`: the delegation that comes with an open.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum OpenDelegation4<'a> as "open_delegation_type4" {
        /// None at all.
        None = 0,
        /// Nobody else writes the file.
        Read(OpenReadDelegation4<'a>) = 1,
        /// Nobody else uses the file.
        Write(OpenWriteDelegation4<'a>) = 2,
        /// None, and this is why.
        NoneExt(OpenNoneDelegation4) = 3,
        /// As `Read`, and the client keeps the times (RFC 9754).
        ReadAttrs(OpenReadDelegation4<'a>) = 4,
        /// As `Write`, and the client keeps the times (RFC 9754).
        WriteAttrs(OpenWriteDelegation4<'a>) = 5,
    }
}

xdr_struct! {
    /// `OPEN4resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OpenOk<'a> {
        /// The stateid of the open that this makes or adds to.
        pub stateid: Stateid4,
        /// The directory before and after.
        pub cinfo: ChangeInfo4,
        /// `OPEN4_RESULT_*`.
        pub rflags: u32,
        /// The attributes that were set.
        pub attrset: Bitmap4,
        /// The delegation that comes with it.
        pub delegation: OpenDelegation4<'a>,
    }
}

/// Minor version 0: the open has to be confirmed.
pub const OPEN4_RESULT_CONFIRM: u32 = 0x02;
/// Locks are as POSIX has them.
pub const OPEN4_RESULT_LOCKTYPE_POSIX: u32 = 0x04;
/// The file stays while it is open, whatever becomes of its name and of the server.
pub const OPEN4_RESULT_PRESERVE_UNLINKED: u32 = 0x08;
/// There is no open stateid, because there is a delegation (RFC 9754).
pub const OPEN4_RESULT_NO_OPEN_STATEID: u32 = 0x10;
/// The server may tell when a lock can be had: CB_NOTIFY_LOCK.
pub const OPEN4_RESULT_MAY_NOTIFY_LOCK: u32 = 0x20;

xdr_struct! {
    /// `CLOSE4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CloseArgs {
        /// Minor version 0: the owner's next seqid.
        pub seqid: u32,
        /// The open to be ended.
        pub open_stateid: Stateid4,
    }
}

xdr_struct! {
    /// `OPEN_DOWNGRADE4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OpenDowngradeArgs {
        /// The open to be changed.
        pub open_stateid: Stateid4,
        /// Minor version 0: the owner's next seqid.
        pub seqid: u32,
        /// What the owner wants to do from now on.
        pub share_access: u32,
        /// What others may not do from now on.
        pub share_deny: u32,
    }
}

xdr_struct! {
    /// `DELEGPURGE4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct DelegpurgeArgs {
        /// The client that will reclaim no more delegations.
        pub clientid: crate::nfs4::Clientid4,
    }
}

xdr_struct! {
    /// `DELEGRETURN4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct DelegreturnArgs {
        /// The delegation that is given back.
        pub deleg_stateid: Stateid4,
    }
}

xdr_union! {
    /// `deleg_claim4`: by what right a delegation is asked for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum DelegClaim4 as "open_claim_type4" {
        /// It was held before the server restarted: CLAIM_PREVIOUS.
        Previous(OpenDelegationType4) = 1,
        /// No special right: CLAIM_FH.
        Fh = 4,
        /// It was held before the client restarted: CLAIM_DELEG_PREV_FH.
        DelegPrevFh = 6,
    }
}

xdr_struct! {
    /// `WANT_DELEGATION4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct WantDelegationArgs {
        /// Which delegation is wanted: `OPEN4_SHARE_ACCESS_WANT_*`.
        pub want: u32,
        /// By what right.
        pub claim: DelegClaim4,
    }
}

xdr_struct! {
    /// `GET_DIR_DELEGATION4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct GetDirDelegationArgs {
        /// The server is to tell when it can be had.
        pub signal_deleg_avail: bool,
        /// The notifications that are wanted.
        pub notification_types: Bitmap4,
        /// How late changes of entries' attributes may be told.
        pub child_attr_delay: Nfstime4,
        /// How late changes of the directory's attributes may be told.
        pub dir_attr_delay: Nfstime4,
        /// The entries' attributes that are wanted.
        pub child_attributes: Bitmap4,
        /// The directory's attributes that are wanted.
        pub dir_attributes: Bitmap4,
    }
}

xdr_struct! {
    /// `GET_DIR_DELEGATION4resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct GetDirDelegationOk {
        /// The verifier of the directory's cookies.
        pub cookieverf: Verifier4,
        /// The stateid of the delegation that is granted.
        pub stateid: Stateid4,
        /// The notifications that there will be.
        pub notification: Bitmap4,
        /// The entries' attributes that there will be.
        pub child_attributes: Bitmap4,
        /// The directory's attributes that there will be.
        pub dir_attributes: Bitmap4,
    }
}

xdr_union! {
    /// `GET_DIR_DELEGATION4res_non_fatal`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum GetDirDelegationRes as "gddrnf4_status" {
        /// The directory is delegated: GDD4_OK.
        Ok(GetDirDelegationOk) = 0,
        /// It is not. True: the server will tell when it can be: GDD4_UNAVAIL.
        Unavail(bool) = 1,
    }
}
