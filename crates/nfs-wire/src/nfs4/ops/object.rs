//! Handles, names and attributes of objects: PUTFH, GETFH, LOOKUP, ACCESS, GETATTR, SETATTR, VERIFY, SECINFO
//! (RFC 8881 §18.1, §18.7, §18.8, §18.13, §18.15, §18.17, §18.19, §18.29 to §18.31, §18.45).

use crate::auth::RPCSEC_GSS;
use crate::nfs4::{Bitmap4, Component4, Fattr4, FileHandle, GssOpaque, Nfsstat4, Stateid4};
use crate::xdr::define::{xdr_enum, xdr_struct};
use crate::{Decode, DecodeError, Decoder, Encode, Encoder};

xdr_struct! {
    /// `PUTFH4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PutfhArgs {
        /// The handle that becomes the current one.
        pub object: FileHandle,
    }
}

xdr_struct! {
    /// `GETFH4resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct GetfhOk {
        /// The current handle.
        pub object: FileHandle,
    }
}

xdr_struct! {
    /// `LOOKUP4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LookupArgs<'a> {
        /// The name in the current directory.
        pub objname: Component4<'a>,
    }
}

xdr_struct! {
    /// `ACCESS4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AccessArgs {
        /// What the caller would do: `ACCESS4_*`.
        pub access: u32,
    }
}

xdr_struct! {
    /// `ACCESS4resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AccessOk {
        /// Those of the bits asked for that the server can tell.
        pub supported: u32,
        /// Those of them that the caller may do.
        pub access: u32,
    }
}

/// Reading a file's data or listing a directory.
pub const ACCESS4_READ: u32 = 0x01;
/// Looking up a name in a directory.
pub const ACCESS4_LOOKUP: u32 = 0x02;
/// Changing what a file or directory has.
pub const ACCESS4_MODIFY: u32 = 0x04;
/// Adding data to a file or entries to a directory.
pub const ACCESS4_EXTEND: u32 = 0x08;
/// Removing an entry of a directory.
pub const ACCESS4_DELETE: u32 = 0x10;
/// Executing a file.
pub const ACCESS4_EXECUTE: u32 = 0x20;
/// Reading extended attributes (RFC 8276 §8.5).
pub const ACCESS4_XAREAD: u32 = 0x40;
/// Setting extended attributes (RFC 8276 §8.5).
pub const ACCESS4_XAWRITE: u32 = 0x80;
/// Listing extended attributes (RFC 8276 §8.5).
pub const ACCESS4_XALIST: u32 = 0x100;

/// Handles never expire: a value of the attribute `fh_expire_type`.
pub const FH4_PERSISTENT: u32 = 0x0;
/// Volatile handles do not expire while the file is open.
pub const FH4_NOEXPIRE_WITH_OPEN: u32 = 0x1;
/// Handles may expire at any time.
pub const FH4_VOLATILE_ANY: u32 = 0x2;
/// Handles expire when the file system moves.
pub const FH4_VOL_MIGRATION: u32 = 0x4;
/// Handles expire when the object is renamed.
pub const FH4_VOL_RENAME: u32 = 0x8;

/// Names may be other than UTF-8: a bit of the attribute `fs_charset_cap`.
pub const FSCHARSET_CAP4_CONTAINS_NON_UTF8: u32 = 0x1;
/// Names that are not UTF-8 are refused.
pub const FSCHARSET_CAP4_ALLOWS_ONLY_UTF8: u32 = 0x2;

xdr_struct! {
    /// `GETATTR4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct GetattrArgs {
        /// The attributes that are asked for. Those that the server does not know are left out.
        pub attr_request: Bitmap4,
    }
}

xdr_struct! {
    /// `GETATTR4resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct GetattrOk<'a> {
        /// The attributes of the current object.
        pub obj_attributes: Fattr4<'a>,
    }
}

xdr_struct! {
    /// `SETATTR4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SetattrArgs<'a> {
        /// The open or delegation by which the size is changed.
        pub stateid: Stateid4,
        /// The attributes to be set.
        pub obj_attributes: Fattr4<'a>,
    }
}

xdr_struct! {
    /// `SETATTR4res`: unlike others it says the same with every status.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SetattrRes {
        /// Success, or why not everything was set.
        pub status: Nfsstat4,
        /// The attributes that were set.
        pub attrsset: Bitmap4,
    }
}

xdr_struct! {
    /// `VERIFY4args` and `NVERIFY4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct VerifyArgs<'a> {
        /// The attributes to be compared with those of the current object.
        pub obj_attributes: Fattr4<'a>,
    }
}

xdr_struct! {
    /// `SECINFO4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SecinfoArgs<'a> {
        /// The name in the current directory.
        pub name: Component4<'a>,
    }
}

xdr_enum! {
    /// `secinfo_style4`: of what SECINFO_NO_NAME tells.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum SecinfoStyle4 as "secinfo_style4" {
        /// Of the current object.
        CurrentFh = 0,
        /// Of the current directory's parent.
        Parent = 1,
    }
}

xdr_struct! {
    /// `SECINFO_NO_NAME4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SecinfoNoNameArgs {
        /// Of what it tells.
        pub style: SecinfoStyle4,
    }
}

xdr_struct! {
    /// `rpcsec_gss_info`: a GSS mechanism.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RpcsecGssInfo<'a> {
        /// The mechanism's object identifier, in DER.
        pub oid: GssOpaque<'a>,
        /// The quality of protection; 0 is the mechanism's default.
        pub qop: u32,
        /// `rpc_gss_svc_t`: 1 nothing, 2 integrity, 3 privacy.
        pub service: u32,
    }
}

/// `secinfo4`: a security mechanism that is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secinfo4<'a> {
    /// A flavor of RPC other than RPCSEC_GSS.
    Flavor(u32),
    /// RPCSEC_GSS with this mechanism.
    Gss(RpcsecGssInfo<'a>),
}

impl<'a> Decode<'a> for Secinfo4<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(match d.u32("flavor")? {
            RPCSEC_GSS => Self::Gss(Decode::decode(d)?),
            flavor => Self::Flavor(flavor),
        })
    }
}

impl Encode for Secinfo4<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        match self {
            Self::Flavor(flavor) => e.u32(*flavor),
            Self::Gss(info) => {
                e.u32(RPCSEC_GSS);
                info.encode(e);
            }
        }
    }
}

xdr_struct! {
    /// `SECINFO4resok`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SecinfoOk<'a> {
        /// The mechanisms that are accepted, in the server's order of preference.
        pub mechanisms: Vec<Secinfo4<'a>>,
    }
}
