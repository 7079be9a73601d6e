//! Basic types (RFC 1813 §2.3 to §2.6).

use std::fmt;

use super::Fattr3;
use crate::handle::Handle;
use crate::limits::{FILE_HANDLE_BYTES_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX};
use crate::{Decode, DecodeError, Decoder, Encode, Encoder};

/// `nfs_fh3`: what a server calls an object, up to 64 bytes that mean nothing to a client (NFS3_FHSIZE,
/// RFC 1813 §2.4).
pub type FileHandle = Handle<FILE_HANDLE_BYTES_MAX>;

/// `filename3`: the name of a directory entry, any bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Filename<'a>(pub &'a [u8]);

impl<'a> Decode<'a> for Filename<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self(d.opaque(NAME_BYTES_MAX, "filename3")?))
    }
}

impl Encode for Filename<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.opaque(self.0);
    }
}

impl fmt::Debug for Filename<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// `nfspath3`: the contents of a symlink, any bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Nfspath3<'a>(pub &'a [u8]);

impl<'a> Decode<'a> for Nfspath3<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self(d.opaque(PATH_BYTES_MAX, "nfspath3")?))
    }
}

impl Encode for Nfspath3<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.opaque(self.0);
    }
}

impl fmt::Debug for Nfspath3<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// `post_op_attr`: attributes after an operation, where the server had them.
pub type PostOpAttr = Option<Fattr3>;
/// `post_op_fh3`: the handle of what was made, where the server had one.
pub type PostOpFh3 = Option<FileHandle>;

crate::xdr::define::xdr_struct! {
    /// `diropargs3`: an entry of a directory.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct DirOpArgs<'a> {
        /// The handle of the directory that has the entry.
        pub dir: FileHandle,
        /// The name of the entry in that directory.
        pub name: Filename<'a>,
    }
}

/// The part of a result that says why not, with the attributes that RFC 1813 sends along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure<F> {
    /// The reason of the failure: never [`Nfsstat3::Ok`].
    pub status: Nfsstat3,
    /// What the procedure tells with a failure: `resfail`.
    pub body: F,
}

impl<'a, O: Decode<'a>, F: Decode<'a>> Decode<'a> for Result<O, Failure<F>> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(match Nfsstat3::decode(d)? {
            Nfsstat3::Ok => Ok(O::decode(d)?),
            status => Err(Failure {
                status,
                body: F::decode(d)?,
            }),
        })
    }
}

impl<O: Encode, F: Encode> Encode for Result<O, Failure<F>> {
    fn encode(&self, e: &mut Encoder<'_>) {
        match self {
            Ok(ok) => {
                Nfsstat3::Ok.encode(e);
                ok.encode(e);
            }
            Err(failure) => {
                failure.status.encode(e);
                failure.body.encode(e);
            }
        }
    }
}

macro_rules! nfsstat3 {
    ($( $(#[$meta:meta])* $name:ident = $value:literal $word:literal, )*) => {
        /// `nfsstat3`: how an operation ended (RFC 1813 §2.6).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Nfsstat3 {
            $( $(#[$meta])* $name = $value, )*
        }

        impl Nfsstat3 {
            /// Every status, in the RFC's order.
            pub const ALL: &[Self] = &[$( Self::$name ),*];

            /// The word that RFC 1813 has for it.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $( Self::$name => $word, )* }
            }
        }

        impl TryFrom<u32> for Nfsstat3 {
            type Error = DecodeError;

            fn try_from(value: u32) -> Result<Self, DecodeError> {
                match value {
                    $( $value => Ok(Self::$name), )*
                    value => Err(DecodeError::BadValue { field: "nfsstat3", value }),
                }
            }
        }
    };
}

nfsstat3! {
    /// The call was carried out: NFS3_OK.
    Ok = 0 "NFS3_OK",
    /// Not the owner, or not privileged.
    Perm = 1 "NFS3ERR_PERM",
    /// No such file or directory.
    Noent = 2 "NFS3ERR_NOENT",
    /// A hard error of the disk, for example.
    Io = 5 "NFS3ERR_IO",
    /// There is no such device or address.
    Nxio = 6 "NFS3ERR_NXIO",
    /// The caller may not do this.
    Acces = 13 "NFS3ERR_ACCES",
    /// An object of this name exists already.
    Exist = 17 "NFS3ERR_EXIST",
    /// The hard link would cross file systems.
    Xdev = 18 "NFS3ERR_XDEV",
    /// There is no such device here.
    Nodev = 19 "NFS3ERR_NODEV",
    /// The object is not a directory, as it would have to be.
    Notdir = 20 "NFS3ERR_NOTDIR",
    /// The object is a directory, and must not be one.
    Isdir = 21 "NFS3ERR_ISDIR",
    /// An invalid or unsupported argument.
    Inval = 22 "NFS3ERR_INVAL",
    /// The file would become larger than the server allows.
    Fbig = 27 "NFS3ERR_FBIG",
    /// The file system has no space left.
    Nospc = 28 "NFS3ERR_NOSPC",
    /// The file system can only be read.
    Rofs = 30 "NFS3ERR_ROFS",
    /// The object has as many names (hard links) as it may have.
    Mlink = 31 "NFS3ERR_MLINK",
    /// The name is too long.
    Nametoolong = 63 "NFS3ERR_NAMETOOLONG",
    /// The directory is not empty.
    Notempty = 66 "NFS3ERR_NOTEMPTY",
    /// A quota is used up.
    Dquot = 69 "NFS3ERR_DQUOT",
    /// The object of the handle is gone.
    Stale = 70 "NFS3ERR_STALE",
    /// Too many levels of remote in path.
    Remote = 71 "NFS3ERR_REMOTE",
    /// The handle is not one of this server.
    Badhandle = 10001 "NFS3ERR_BADHANDLE",
    /// The guard of a SETATTR did not match.
    NotSync = 10002 "NFS3ERR_NOT_SYNC",
    /// The cookie of a READDIR is stale.
    BadCookie = 10003 "NFS3ERR_BAD_COOKIE",
    /// The operation is not supported.
    Notsupp = 10004 "NFS3ERR_NOTSUPP",
    /// A buffer or request is too small.
    Toosmall = 10005 "NFS3ERR_TOOSMALL",
    /// An error of the server that fits nothing else.
    Serverfault = 10006 "NFS3ERR_SERVERFAULT",
    /// An object of that type cannot be made.
    Badtype = 10007 "NFS3ERR_BADTYPE",
    /// The call takes long: try again later, with a new xid.
    Jukebox = 10008 "NFS3ERR_JUKEBOX",
}

impl fmt::Display for Nfsstat3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Decode<'_> for Nfsstat3 {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.u32("nfsstat3")?.try_into()
    }
}

impl Encode for Nfsstat3 {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.u32(*self as u32);
    }
}
