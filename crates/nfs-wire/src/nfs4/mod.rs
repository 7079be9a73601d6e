//! NFS version 4, minor versions 0 to 2 (RFC 7530, RFC 8881, RFC 7862), with extended attributes (RFC 8276)
//! and callbacks.
//!
//! Two procedures: NULL, and COMPOUND, which is a list of operations. [`Opnum`] is the table of these,
//! [`Attribute`] the table of attributes; arguments, results and values follow from the tables. A server
//! looks a COMPOUND through first ([`Compound::scan`]), then carries its operations out one after the other
//! ([`Compound::ops`]) and puts the results into a [`CompoundReply`]. An operation that is malformed ends its
//! COMPOUND where it stands; those before it are carried out.
//!
//! The RFCs' words with Rust's capitals: `OPEN4args` is [`ops::OpenArgs`], `OPEN4res` is
//! [`Res<OpenOk>`](Res). Names and data are borrowed from the message; handles, stateids and sets are copied out.

mod acl;
mod attributes;
mod bitmap;
mod callback;
mod compound;
mod define;
pub mod ops;
mod reply;
mod status;
mod types;
mod write_head;

pub use acl::*;
pub use attributes::{
    Attribute, AttributeError, AttributeWriter, Attributes, ChangeAttrType4, ChangePolicy4,
    FsLocation4, FsLocations4, FsLocationsInfo4, FsLocationsItem4, FsLocationsServer4, FsStatus4,
    Layouthint4, OpenArguments4, Pathname4, RetentionGet4, RetentionSet4, SecLabel4, Source,
    ThresholdItem4, Use,
};
pub use bitmap::Bitmap4;
pub use callback::*;
pub use compound::{BadOp, Compound, CompoundArgs, CompoundRes, Ops, Scan};
pub use ops::{ArgOp, Available, Effect, Minors, Needs, OpStatus, Opnum, Place, ResOp};
pub use reply::{CompoundReply, ReplyLimits};
pub use status::{Nfsstat4, Res};
pub use types::*;
pub use write_head::WriteHead;

use crate::DecodeError;

/// The program number of NFS.
pub const PROGRAM: u32 = 100_003;
/// The version of this module.
pub const VERSION: u32 = 4;
/// The procedure that does nothing, and so tells that the program is there.
pub const PROC_NULL: u32 = 0;
/// The procedure that carries out operations.
pub const PROC_COMPOUND: u32 = 1;

/// A minor version of NFSv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MinorVersion {
    /// NFSv4.0: RFC 7530.
    V0 = 0,
    /// NFSv4.1: RFC 8881.
    V1 = 1,
    /// NFSv4.2: RFC 7862 and its extensions.
    V2 = 2,
}

impl TryFrom<u32> for MinorVersion {
    type Error = DecodeError;

    fn try_from(value: u32) -> Result<Self, DecodeError> {
        match value {
            0 => Ok(Self::V0),
            1 => Ok(Self::V1),
            2 => Ok(Self::V2),
            value => Err(DecodeError::BadValue {
                field: "minorversion",
                value,
            }),
        }
    }
}

#[cfg(test)]
mod tests;
