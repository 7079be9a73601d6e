//! CREATE, MKDIR, SYMLINK, MKNOD (RFC 1813 §3.3.8 to §3.3.11). All four answer with [`CreateOk`] or,
//! on failure, with the directory's `wcc_data`.

use super::{DirOpArgs, Ftype3, Nfspath3, PostOpAttr, PostOpFh3, Sattr3, Specdata3, WccData};
use crate::xdr::define::xdr_struct;
use crate::{Decode, DecodeError, Decoder, Encode, Encoder};

xdr_struct! {
    /// What was made: `CREATE3resok`, `MKDIR3resok`, `SYMLINK3resok`, `MKNOD3resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CreateOk {
        /// The handle of what was made.
        pub obj: PostOpFh3,
        /// The attributes of the object that was made.
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
    /// A name that is there already is an error: GUARDED.
    Guarded(Sattr3),
    /// A name that is there already is an error unless this call made it, which the verifier tells: EXCLUSIVE
    /// with its `createverf3`.
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
    /// The arguments of CREATE: `CREATE3args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CreateArgs<'a> {
        /// The directory to make the file in, and its name there.
        pub where_: DirOpArgs<'a>,
        /// What to do when the name is taken, and the attributes.
        pub how: CreateHow,
    }
}

xdr_struct! {
    /// The arguments of MKDIR: `MKDIR3args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct MkdirArgs<'a> {
        /// The directory to make the new one in, and its name there.
        pub where_: DirOpArgs<'a>,
        /// The attributes that the new directory is to have.
        pub attributes: Sattr3,
    }
}

xdr_struct! {
    /// What a new symlink is to be: `symlinkdata3`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SymlinkData<'a> {
        /// The attributes that the symlink is to have.
        pub symlink_attributes: Sattr3,
        /// The path that the symlink is to hold.
        pub symlink_data: Nfspath3<'a>,
    }
}

xdr_struct! {
    /// The arguments of SYMLINK: `SYMLINK3args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SymlinkArgs<'a> {
        /// The directory to make the symlink in, and its name there.
        pub where_: DirOpArgs<'a>,
        /// The attributes and the contents that it is to have.
        pub symlink: SymlinkData<'a>,
    }
}

xdr_struct! {
    /// What a new device file is to be: `devicedata3`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct DeviceData {
        /// The attributes that the device file is to have.
        pub dev_attributes: Sattr3,
        /// The numbers of the device that it stands for.
        pub spec: Specdata3,
    }
}

xdr_struct! {
    /// The attributes of a FIFO or socket to make.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PipeData {
        /// The attributes that the socket or FIFO is to have.
        pub pipe_attributes: Sattr3,
    }
}

/// What MKNOD is to make: `mknoddata3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mknoddata {
    /// The node of a character device, with its numbers: NF3CHR.
    CharacterDevice(DeviceData),
    /// The node of a block device, with its numbers: NF3BLK.
    BlockDevice(DeviceData),
    /// A socket of the file system: NF3SOCK.
    Socket(PipeData),
    /// A named pipe (FIFO): NF3FIFO.
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
    /// The arguments of MKNOD: `MKNOD3args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct MknodArgs<'a> {
        /// The directory to make the object in, and its name there.
        pub where_: DirOpArgs<'a>,
        /// The kind of object to make, with what that needs.
        pub what: Mknoddata,
    }
}
