//! CREATE, MKDIR, SYMLINK, MKNOD (RFC 1813 §3.3.8 to §3.3.11). All four answer with [`CreateOk`] or,
//! on failure, with the directory's `wcc_data`.

use super::{DirOpArgs, Ftype3, Nfspath3, PostOpAttr, PostOpFh3, Sattr3, Specdata3, WccData};
use crate::xdr::define::xdr_struct;
use crate::{Decode, DecodeError, Decoder, Encode, Encoder};

xdr_struct! {
    /// `CREATE3resok`, `MKDIR3resok`, `SYMLINK3resok`, `MKNOD3resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CreateOk {
        /// The handle of what was made.
        pub obj: PostOpFh3,
        /// Its attributes.
        pub obj_attributes: PostOpAttr,
        /// The directory's attributes before and after.
        pub dir_wcc: WccData,
    }
}

/// `createhow3`: what to do when the name is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateHow {
    /// A file of that name will do.
    Unchecked(Sattr3),
    /// It is an error.
    Guarded(Sattr3),
    /// It is an error unless this call made it: `createverf3` tells.
    Exclusive([u8; 8]),
}

impl Decode<'_> for CreateHow {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        const FIELD: &str = "createmode3";
        match d.u32(FIELD)? {
            0 => Ok(Self::Unchecked(Decode::decode(d)?)),
            1 => Ok(Self::Guarded(Decode::decode(d)?)),
            2 => Ok(Self::Exclusive(d.opaque_fixed("createverf3")?)),
            value => Err(DecodeError::BadValue {
                field: FIELD,
                value,
            }),
        }
    }
}

impl Encode for CreateHow {
    fn encode(&self, e: &mut Encoder<'_>) {
        match self {
            Self::Unchecked(attributes) => {
                e.u32(0);
                attributes.encode(e);
            }
            Self::Guarded(attributes) => {
                e.u32(1);
                attributes.encode(e);
            }
            Self::Exclusive(verifier) => {
                e.u32(2);
                e.opaque_fixed(verifier);
            }
        }
    }
}

xdr_struct! {
    /// `CREATE3args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CreateArgs<'a> {
        /// Directory and name.
        pub where_: DirOpArgs<'a>,
        /// What to do when the name is taken, and the attributes.
        pub how: CreateHow,
    }
}

xdr_struct! {
    /// `MKDIR3args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct MkdirArgs<'a> {
        /// Directory and name.
        pub where_: DirOpArgs<'a>,
        /// The new directory's attributes.
        pub attributes: Sattr3,
    }
}

xdr_struct! {
    /// `symlinkdata3`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SymlinkData<'a> {
        /// The symlink's attributes.
        pub symlink_attributes: Sattr3,
        /// What it holds.
        pub symlink_data: Nfspath3<'a>,
    }
}

xdr_struct! {
    /// `SYMLINK3args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SymlinkArgs<'a> {
        /// Directory and name.
        pub where_: DirOpArgs<'a>,
        /// Attributes and contents.
        pub symlink: SymlinkData<'a>,
    }
}

xdr_struct! {
    /// `devicedata3`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct DeviceData {
        /// The device file's attributes.
        pub dev_attributes: Sattr3,
        /// The device's numbers.
        pub spec: Specdata3,
    }
}

xdr_struct! {
    /// The attributes of a FIFO or socket to make.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PipeData {
        /// Its attributes.
        pub pipe_attributes: Sattr3,
    }
}

/// `mknoddata3`: what to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mknoddata {
    /// NF3CHR.
    CharacterDevice(DeviceData),
    /// NF3BLK.
    BlockDevice(DeviceData),
    /// NF3SOCK.
    Socket(PipeData),
    /// NF3FIFO.
    Fifo(PipeData),
    /// A type that MKNOD cannot make: the server answers NFS3ERR_BADTYPE.
    Other(Ftype3),
}

impl Decode<'_> for Mknoddata {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(match Ftype3::decode(d)? {
            Ftype3::Chr => Self::CharacterDevice(Decode::decode(d)?),
            Ftype3::Blk => Self::BlockDevice(Decode::decode(d)?),
            Ftype3::Sock => Self::Socket(Decode::decode(d)?),
            Ftype3::Fifo => Self::Fifo(Decode::decode(d)?),
            other @ (Ftype3::Reg | Ftype3::Dir | Ftype3::Lnk) => Self::Other(other),
        })
    }
}

impl Encode for Mknoddata {
    fn encode(&self, e: &mut Encoder<'_>) {
        match self {
            Self::CharacterDevice(device) => {
                Ftype3::Chr.encode(e);
                device.encode(e);
            }
            Self::BlockDevice(device) => {
                Ftype3::Blk.encode(e);
                device.encode(e);
            }
            Self::Socket(pipe) => {
                Ftype3::Sock.encode(e);
                pipe.encode(e);
            }
            Self::Fifo(pipe) => {
                Ftype3::Fifo.encode(e);
                pipe.encode(e);
            }
            Self::Other(ftype) => ftype.encode(e),
        }
    }
}

xdr_struct! {
    /// `MKNOD3args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct MknodArgs<'a> {
        /// Directory and name.
        pub where_: DirOpArgs<'a>,
        /// What to make.
        pub what: Mknoddata,
    }
}
