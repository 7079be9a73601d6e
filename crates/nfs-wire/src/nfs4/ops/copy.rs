//! Copies: COPY, COPY_NOTIFY, OFFLOAD_CANCEL, OFFLOAD_STATUS, CLONE (RFC 7862 §15).

use crate::nfs4::{Netloc4, Nfsstat4, Nfstime4, StableHow4, Stateid4, Verifier4};
use crate::xdr::define::xdr_struct;
use crate::{Decode, DecodeError, Decoder, Encode, Encoder};

xdr_struct! {
    /// `COPY4args`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CopyArgs<'a> {
        /// The open, lock or delegation by which the saved file is read.
        pub src_stateid: Stateid4,
        /// The open, lock or delegation by which the current file is written.
        pub dst_stateid: Stateid4,
        /// Where to begin in the saved file, bytes.
        pub src_offset: u64,
        /// Where to begin in the current file, bytes.
        pub dst_offset: u64,
        /// How many bytes; 0 means up to the end of the saved file.
        pub count: u64,
        /// In ascending order.
        pub consecutive: bool,
        /// Done when the reply comes.
        pub synchronous: bool,
        /// The server that has the source, if it is another one.
        pub source_server: Vec<Netloc4<'a>>,
    }
}

xdr_struct! {
    /// `write_response4`: what was written.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct WriteResponse4 {
        /// What CB_OFFLOAD will name it by, where it goes on.
        pub callback_id: Option<Stateid4>,
        /// How many bytes are written by now.
        pub count: u64,
        /// What is promised of them.
        pub committed: StableHow4,
        /// As with WRITE.
        pub writeverf: Verifier4,
    }
}

xdr_struct! {
    /// `copy_requirements4`: how a copy is done.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CopyRequirements4 {
        /// In ascending order.
        pub consecutive: bool,
        /// Done when the reply comes.
        pub synchronous: bool,
    }
}

xdr_struct! {
    /// `COPY4resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CopyOk {
        /// What was written.
        pub response: WriteResponse4,
        /// How it was done.
        pub requirements: CopyRequirements4,
    }
}

/// Why COPY failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFailure {
    /// It can be done only so: NFS4ERR_OFFLOAD_NO_REQS.
    OffloadNoReqs(CopyRequirements4),
    /// Any other status but success.
    Other(Nfsstat4),
}

/// `COPY4res`.
pub type CopyRes = Result<CopyOk, CopyFailure>;

impl Decode<'_> for CopyRes {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(match Nfsstat4::decode(d)? {
            Nfsstat4::Ok => Ok(Decode::decode(d)?),
            Nfsstat4::OffloadNoReqs => Err(CopyFailure::OffloadNoReqs(Decode::decode(d)?)),
            status => Err(CopyFailure::Other(status)),
        })
    }
}

impl Encode for CopyRes {
    fn encode(&self, e: &mut Encoder<'_>) {
        match self {
            Ok(ok) => {
                Nfsstat4::Ok.encode(e);
                ok.encode(e);
            }
            Err(CopyFailure::OffloadNoReqs(requirements)) => {
                Nfsstat4::OffloadNoReqs.encode(e);
                requirements.encode(e);
            }
            Err(CopyFailure::Other(status)) => status.encode(e),
        }
    }
}

xdr_struct! {
    /// `COPY_NOTIFY4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CopyNotifyArgs<'a> {
        /// The open, lock or delegation by which the source is read.
        pub src_stateid: Stateid4,
        /// The server that will read it.
        pub destination_server: Netloc4<'a>,
    }
}

xdr_struct! {
    /// `COPY_NOTIFY4resok`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CopyNotifyOk<'a> {
        /// How long the stateid is good.
        pub lease_time: Nfstime4,
        /// What the other server reads by.
        pub stateid: Stateid4,
        /// Where it reads from.
        pub source_server: Vec<Netloc4<'a>>,
    }
}

xdr_struct! {
    /// `OFFLOAD_CANCEL4args` and `OFFLOAD_STATUS4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OffloadArgs {
        /// What COPY gave as `callback_id`.
        pub stateid: Stateid4,
    }
}

xdr_struct! {
    /// `OFFLOAD_STATUS4resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OffloadStatusOk {
        /// How many bytes are written by now.
        pub count: u64,
        /// How it ended, if it has.
        pub complete: Option<Nfsstat4>,
    }
}

xdr_struct! {
    /// `CLONE4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CloneArgs {
        /// The open, lock or delegation by which the saved file is read.
        pub src_stateid: Stateid4,
        /// The open, lock or delegation by which the current file is written.
        pub dst_stateid: Stateid4,
        /// Where to begin in the saved file, bytes.
        pub src_offset: u64,
        /// Where to begin in the current file, bytes.
        pub dst_offset: u64,
        /// How many bytes; 0 means up to the end of the saved file.
        pub count: u64,
    }
}
