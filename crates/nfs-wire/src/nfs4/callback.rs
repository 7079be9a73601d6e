//! Callbacks: what a server calls a client for (RFC 8881 §20, RFC 7862 §16).
//!
//! The program's number is the client's choice. From minor version 1 on the calls travel on connections that the
//! client made, and begin with CB_SEQUENCE.

use super::define::operations;
use super::ops::{Layoutiomode4, OpenDelegation4, WriteResponse4};
use super::{
    Available, Bitmap4, Fattr4, FileHandle, Fsid4, MinorVersion, Nfsstat4, Res, Sessionid4,
    StateOwner4, Stateid4, Tag,
};
use crate::limits::COMPOUND_OPS_MAX;
use crate::xdr::define::{xdr_opaque, xdr_struct, xdr_union};
use crate::{Decode, DecodeError, Decoder, Encode, Encoder};

/// The program that Linux's client names: the first of those that are free for any use.
pub const CALLBACK_PROGRAM: u32 = 0x4000_0000;
/// The version of the callback program.
pub const CALLBACK_VERSION: u32 = 1;
/// The procedure that does nothing, and so tells that the client can be called.
pub const PROC_CB_NULL: u32 = 0;
/// The procedure that carries out operations.
pub const PROC_CB_COMPOUND: u32 = 1;

xdr_struct! {
    /// `CB_GETATTR4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CbGetattrArgs {
        /// A file that is delegated to the client for writing.
        pub fh: FileHandle,
        /// The attributes that are asked for: size, change and times.
        pub attr_request: Bitmap4,
    }
}

xdr_struct! {
    /// `CB_GETATTR4resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CbGetattrOk<'a> {
        /// The attributes as the client has them.
        pub obj_attributes: Fattr4<'a>,
    }
}

xdr_struct! {
    /// `CB_RECALL4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CbRecallArgs {
        /// The delegation to be given back.
        pub stateid: Stateid4,
        /// The file is about to be cut to no bytes, so that its data need not be sent.
        pub truncate: bool,
        /// The file whose delegation is called back.
        pub fh: FileHandle,
    }
}

xdr_struct! {
    /// `layoutrecall_file4`: layouts of one file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LayoutrecallFile4 {
        /// The file whose layouts are called back.
        pub fh: FileHandle,
        /// Where the range begins, bytes.
        pub offset: u64,
        /// How many bytes it has.
        pub length: u64,
        /// The layouts of the file.
        pub stateid: Stateid4,
    }
}

xdr_union! {
    /// `layoutrecall4`: which layouts are to be given back.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Layoutrecall4 as "layoutrecall_type4" {
        /// Those of a file: LAYOUTRECALL4_FILE.
        File(LayoutrecallFile4) = 1,
        /// Those of a file system: LAYOUTRECALL4_FSID.
        Fsid(Fsid4) = 2,
        /// All that the client has: LAYOUTRECALL4_ALL.
        All = 3,
    }
}

xdr_struct! {
    /// `CB_LAYOUTRECALL4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CbLayoutrecallArgs {
        /// `layouttype4`.
        pub layout_type: u32,
        /// What the layouts are for.
        pub iomode: Layoutiomode4,
        /// They have changed, so that nothing more is to be written by them.
        pub changed: bool,
        /// Which layouts are called back.
        pub recall: Layoutrecall4,
    }
}

xdr_opaque! {
    /// `notifylist4`: notifications, one behind the other.
    pub struct Notifylist4<'a> as "notifylist4", crate::limits::ATTRLIST_BYTES_MAX;
}

xdr_struct! {
    /// `notify4`: notifications, and of which types they are.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Notify4<'a> {
        /// The types, of `notify_type4` or `notify_deviceid_type4`.
        pub notify_mask: Bitmap4,
        /// The notifications, each of one of these kinds.
        pub notify_vals: Notifylist4<'a>,
    }
}

xdr_struct! {
    /// `CB_NOTIFY4args`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CbNotifyArgs<'a> {
        /// The delegation of the directory.
        pub stateid: Stateid4,
        /// The directory that the notifications are about.
        pub fh: FileHandle,
        /// What has changed.
        pub changes: Vec<Notify4<'a>>,
    }
}

xdr_struct! {
    /// `CB_PUSH_DELEG4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CbPushDelegArgs<'a> {
        /// The file whose delegation is offered.
        pub fh: FileHandle,
        /// The delegation that the client asked for earlier.
        pub delegation: OpenDelegation4<'a>,
    }
}

xdr_struct! {
    /// `CB_RECALL_ANY4args` and `CB_RECALLABLE_OBJ_AVAIL4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CbRecallAnyArgs {
        /// How many the client may keep.
        pub objects_to_keep: u32,
        /// Of which types: `RCA4_TYPE_MASK_*`.
        pub type_mask: Bitmap4,
    }
}

xdr_struct! {
    /// `CB_RECALL_SLOT4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CbRecallSlotArgs {
        /// The highest slot that the client is to use from now on.
        pub target_highest_slotid: u32,
    }
}

xdr_struct! {
    /// `referring_call4`: a call of the client that a callback is about.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ReferringCall4 {
        /// Its number in its slot.
        pub sequenceid: u32,
        /// The slot that the call came in.
        pub slotid: u32,
    }
}

xdr_struct! {
    /// `referring_call_list4`: calls of the client, of one session.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ReferringCallList4 {
        /// The session that the calls came in.
        pub sessionid: Sessionid4,
        /// The calls, each by its slot and sequence number.
        pub referring_calls: Vec<ReferringCall4>,
    }
}

xdr_struct! {
    /// `CB_SEQUENCE4args`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CbSequenceArgs {
        /// The session of the request.
        pub sessionid: Sessionid4,
        /// Counts the slot's requests, from 1 on.
        pub sequenceid: u32,
        /// The slot that the request is in.
        pub slotid: u32,
        /// The highest slot that has a request under way.
        pub highest_slotid: u32,
        /// The reply is to be kept for a repetition.
        pub cachethis: bool,
        /// Calls of the client whose replies it has to wait for before it carries this out.
        pub referring_call_lists: Vec<ReferringCallList4>,
    }
}

xdr_struct! {
    /// `CB_SEQUENCE4resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CbSequenceOk {
        /// The session of the request.
        pub sessionid: Sessionid4,
        /// The request's number within its slot.
        pub sequenceid: u32,
        /// The slot that the request is in.
        pub slotid: u32,
        /// The highest slot that the client takes at present.
        pub highest_slotid: u32,
        /// The highest slot that the client would have the server use.
        pub target_highest_slotid: u32,
    }
}

xdr_struct! {
    /// `CB_WANTS_CANCELLED4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CbWantsCancelledArgs {
        /// What was to be given when nobody contends any more is given up.
        pub contended_wants_cancelled: bool,
        /// What was to be told when there is a resource again is given up.
        pub resourced_wants_cancelled: bool,
    }
}

xdr_struct! {
    /// `CB_NOTIFY_LOCK4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CbNotifyLockArgs<'a> {
        /// The file whose lock may be had now.
        pub fh: FileHandle,
        /// Whose LOCK was denied and may now be granted.
        pub lock_owner: StateOwner4<'a>,
    }
}

xdr_struct! {
    /// `CB_NOTIFY_DEVICEID4args`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CbNotifyDeviceidArgs<'a> {
        /// What has changed.
        pub changes: Vec<Notify4<'a>>,
    }
}

/// `offload_info4`: how a copy ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffloadInfo4 {
    /// All was copied.
    Done(WriteResponse4),
    /// It failed with this status, which is no success, after so many bytes.
    Failed(Nfsstat4, u64),
}

impl Decode<'_> for OffloadInfo4 {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(match Nfsstat4::decode(d)? {
            Nfsstat4::Ok => Self::Done(Decode::decode(d)?),
            status => Self::Failed(status, d.u64("coa_bytes_copied")?),
        })
    }
}

impl Encode for OffloadInfo4 {
    fn encode(&self, e: &mut Encoder<'_>) {
        match self {
            Self::Done(response) => {
                Nfsstat4::Ok.encode(e);
                response.encode(e);
            }
            Self::Failed(status, bytes) => {
                status.encode(e);
                e.u64(*bytes);
            }
        }
    }
}

xdr_struct! {
    /// `CB_OFFLOAD4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CbOffloadArgs {
        /// The file that was written.
        pub fh: FileHandle,
        /// What COPY gave as `callback_id`.
        pub stateid: Stateid4,
        /// How it ended.
        pub offload_info: OffloadInfo4,
    }
}

/// Bytes of a result that is a status and nothing more.
const MIN: usize = super::ops::RESOP_LEN_MIN;
/// Most bytes of the attributes that CB_GETATTR answers with.
const CB_ATTRS: usize = Bitmap4::ENCODED_LEN_MAX + 4 + 8 + 8 + 12 + 12;

operations! {
    /// A callback operation: `nfs_cb_opnum4`.
    pub enum CbOpnum as "nfs_cb_opnum4";

    /// A callback operation with its arguments: `nfs_cb_argop4`.
    pub enum CbArgOp<'a>;

    /// A callback operation with its result: `nfs_cb_resop4`.
    pub enum CbResOp<'a>;

    /// Asks for the attributes of a file that the client may have changed.
    Getattr = 3 "CB_GETATTR" (CbGetattrArgs) -> (Res<CbGetattrOk<'a>>),
        All, Nothing, Behind, Reads, MIN + CB_ATTRS;
    /// Asks for a delegation back.
    Recall = 4 "CB_RECALL" (CbRecallArgs) -> (Res<()>),
        All, Nothing, Behind, Changes, MIN;
    /// Asks for layouts back.
    Layoutrecall = 5 "CB_LAYOUTRECALL" (CbLayoutrecallArgs) -> (Res<()>),
        From1, Nothing, Behind, Changes, MIN;
    /// Tells what has changed in a directory.
    Notify = 6 "CB_NOTIFY" (CbNotifyArgs<'a>) -> (Res<()>),
        From1, Nothing, Behind, Changes, MIN;
    /// Gives a delegation that was asked for earlier.
    PushDeleg = 7 "CB_PUSH_DELEG" (CbPushDelegArgs<'a>) -> (Res<()>),
        From1, Nothing, Behind, Changes, MIN;
    /// Asks for some delegations or layouts back.
    RecallAny = 8 "CB_RECALL_ANY" (CbRecallAnyArgs) -> (Res<()>),
        From1, Nothing, Behind, Changes, MIN;
    /// Tells that there is a resource for delegations or layouts again.
    RecallableObjAvail = 9 "CB_RECALLABLE_OBJ_AVAIL" (CbRecallAnyArgs) -> (Res<()>),
        From1, Nothing, Behind, Changes, MIN;
    /// Asks for slots back.
    RecallSlot = 10 "CB_RECALL_SLOT" (CbRecallSlotArgs) -> (Res<()>),
        From1, Nothing, Behind, Changes, MIN;
    /// Puts a CB_COMPOUND into a slot of a session.
    Sequence = 11 "CB_SEQUENCE" (CbSequenceArgs) -> (Res<CbSequenceOk>),
        From1, Nothing, First, Reads, MIN + 16 + 4 * 4;
    /// Tells that what was wanted is given up.
    WantsCancelled = 12 "CB_WANTS_CANCELLED" (CbWantsCancelledArgs) -> (Res<()>),
        From1, Nothing, Behind, Changes, MIN;
    /// Tells that a lock may now be had.
    NotifyLock = 13 "CB_NOTIFY_LOCK" (CbNotifyLockArgs<'a>) -> (Res<()>),
        From1, Nothing, Behind, Changes, MIN;
    /// Tells what has changed about storage devices.
    NotifyDeviceid = 14 "CB_NOTIFY_DEVICEID" (CbNotifyDeviceidArgs<'a>) -> (Res<()>),
        From1, Nothing, Behind, Changes, MIN;
    /// Tells how a copy ended.
    Offload = 15 "CB_OFFLOAD" (CbOffloadArgs) -> (Res<()>),
        From2, Nothing, Behind, Changes, MIN;
    /// No operation: what an unknown one is answered with.
    Illegal = 10044 "CB_ILLEGAL" (()) -> (Res<()>),
        All, Nothing, Behind, Reads, MIN;
}

/// `CB_COMPOUND4args`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CbCompoundArgs<'a> {
    /// What it is for; comes back in the reply.
    pub tag: Tag<'a>,
    /// The minor version that it is in.
    pub minorversion: u32,
    /// Minor version 0: what the client gave with SETCLIENTID.
    pub callback_ident: u32,
    /// The operations.
    pub argarray: Vec<CbArgOp<'a>>,
}

impl<'a> CbCompoundArgs<'a> {
    /// Reads a CB_COMPOUND as far as it can be carried out. An operation that cannot ends it, and the answer to
    /// that comes beside the others: the operation that it names, and the status.
    ///
    /// # Errors
    /// [`DecodeError`], which becomes GARBAGE_ARGS.
    pub fn decode_good(
        d: &mut Decoder<'a>,
    ) -> Result<(Self, Option<(CbOpnum, Nfsstat4)>), DecodeError> {
        let mut args = Self::decode_head(d)?;
        for _ in 0..d.u32("argarray")? {
            if args.argarray.len() == COMPOUND_OPS_MAX {
                return Ok((args, Some((CbOpnum::Illegal, Nfsstat4::TooManyOps))));
            }
            match args.decode_op(d) {
                Ok(op) => args.argarray.push(op),
                Err(bad) => return Ok((args, Some(bad))),
            }
        }
        Ok((args, None))
    }

    fn decode_head(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            tag: Decode::decode(d)?,
            minorversion: d.u32("minorversion")?,
            callback_ident: d.u32("callback_ident")?,
            argarray: Vec::new(),
        })
    }

    fn decode_op(&self, d: &mut Decoder<'a>) -> Result<CbArgOp<'a>, (CbOpnum, Nfsstat4)> {
        let illegal = (CbOpnum::Illegal, Nfsstat4::OpIllegal);
        let number = d
            .u32("nfs_cb_opnum4")
            .map_err(|_| (CbOpnum::Illegal, Nfsstat4::Badxdr))?;
        let opnum = CbOpnum::try_from(number).map_err(|_| illegal)?;
        let minor = MinorVersion::try_from(self.minorversion).map_err(|_| illegal)?;
        let known = opnum.minors().available_in(minor) == Available::Yes;
        if !known || opnum == CbOpnum::Illegal {
            return Err(illegal);
        }
        CbArgOp::decode_args(opnum, d).map_err(|_| (opnum, Nfsstat4::Badxdr))
    }
}

impl<'a> Decode<'a> for CbCompoundArgs<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        let mut args = Self::decode_head(d)?;
        args.argarray = d.array_of(COMPOUND_OPS_MAX, "argarray")?;
        Ok(args)
    }
}

impl Encode for CbCompoundArgs<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        self.tag.encode(e);
        e.u32(self.minorversion);
        e.u32(self.callback_ident);
        e.array_of(&self.argarray);
    }
}

/// `CB_COMPOUND4res`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CbCompoundRes<'a> {
    /// The status of the last operation that was carried out.
    pub status: Nfsstat4,
    /// The tag of the call.
    pub tag: Tag<'a>,
    /// The results, up to the first that is no success.
    pub resarray: Vec<CbResOp<'a>>,
}

impl<'a> Decode<'a> for CbCompoundRes<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            status: Decode::decode(d)?,
            tag: Decode::decode(d)?,
            resarray: d.array_of(COMPOUND_OPS_MAX, "resarray")?,
        })
    }
}

impl Encode for CbCompoundRes<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        self.status.encode(e);
        self.tag.encode(e);
        e.array_of(&self.resarray);
    }
}
