//! Names: CREATE, LINK, REMOVE, RENAME, READDIR, READLINK, OPENATTR (RFC 8881 §18.4, §18.9, §18.17, §18.23 to
//! §18.26).

use crate::nfs4::{
    Bitmap4, ChangeInfo4, Component4, Fattr4, Ftype4, Linktext4, Specdata4, Verifier4,
};
use crate::xdr::define::xdr_struct;
use crate::xdr::padding;
use crate::{Decode, DecodeError, Decoder, Encode, Encoder};

/// `createtype4`: what CREATE is to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Createtype4<'a> {
    /// A symlink that holds this path: NF4LNK.
    Lnk(Linktext4<'a>),
    /// The node of a block device: NF4BLK.
    Blk(Specdata4),
    /// The node of a character device: NF4CHR.
    Chr(Specdata4),
    /// A socket of the file system: NF4SOCK.
    Sock,
    /// A named pipe (FIFO): NF4FIFO.
    Fifo,
    /// A directory: NF4DIR.
    Dir,
    /// A type that CREATE cannot make, whether there is such a type or not: NFS4ERR_BADTYPE.
    Other(u32),
}

impl<'a> Decode<'a> for Createtype4<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        let number = d.u32("nfs_ftype4")?;
        Ok(match Ftype4::try_from(number) {
            Ok(Ftype4::Lnk) => Self::Lnk(Decode::decode(d)?),
            Ok(Ftype4::Blk) => Self::Blk(Decode::decode(d)?),
            Ok(Ftype4::Chr) => Self::Chr(Decode::decode(d)?),
            Ok(Ftype4::Sock) => Self::Sock,
            Ok(Ftype4::Fifo) => Self::Fifo,
            Ok(Ftype4::Dir) => Self::Dir,
            Ok(Ftype4::Reg | Ftype4::AttrDir | Ftype4::NamedAttr) | Err(_) => Self::Other(number),
        })
    }
}

impl Encode for Createtype4<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        match self {
            Self::Lnk(text) => {
                Ftype4::Lnk.encode(e);
                text.encode(e);
            }
            Self::Blk(device) => {
                Ftype4::Blk.encode(e);
                device.encode(e);
            }
            Self::Chr(device) => {
                Ftype4::Chr.encode(e);
                device.encode(e);
            }
            Self::Sock => Ftype4::Sock.encode(e),
            Self::Fifo => Ftype4::Fifo.encode(e),
            Self::Dir => Ftype4::Dir.encode(e),
            Self::Other(number) => e.u32(*number),
        }
    }
}

xdr_struct! {
    /// `CREATE4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CreateArgs<'a> {
        /// What is made.
        pub objtype: Createtype4<'a>,
        /// Its name in the current directory.
        pub objname: Component4<'a>,
        /// The attributes that it is to have.
        pub createattrs: Fattr4<'a>,
    }
}

xdr_struct! {
    /// `CREATE4resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CreateOk {
        /// The directory before and after.
        pub cinfo: ChangeInfo4,
        /// The attributes that were set.
        pub attrset: Bitmap4,
    }
}

xdr_struct! {
    /// `LINK4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LinkArgs<'a> {
        /// The saved object's new name in the current directory.
        pub newname: Component4<'a>,
    }
}

xdr_struct! {
    /// `REMOVE4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RemoveArgs<'a> {
        /// The name in the current directory.
        pub target: Component4<'a>,
    }
}

xdr_struct! {
    /// `RENAME4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RenameArgs<'a> {
        /// The name in the saved directory.
        pub oldname: Component4<'a>,
        /// The new name in the current directory.
        pub newname: Component4<'a>,
    }
}

xdr_struct! {
    /// `RENAME4resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RenameOk {
        /// The saved directory before and after.
        pub source_cinfo: ChangeInfo4,
        /// The current directory before and after.
        pub target_cinfo: ChangeInfo4,
    }
}

xdr_struct! {
    /// `READDIR4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ReaddirArgs {
        /// Where to go on: 0 for the beginning, or the cookie of the last entry seen.
        pub cookie: u64,
        /// Zero at the beginning, or the verifier that the server gave with that entry.
        pub cookieverf: Verifier4,
        /// The most of names and cookies wanted, bytes; a hint.
        pub dircount: u32,
        /// The largest `READDIR4resok` wanted, bytes.
        pub maxcount: u32,
        /// The attributes of each entry that are asked for.
        pub attr_request: Bitmap4,
    }
}

/// Bytes of a `READDIR4resok` without entries: verifier, the end of the list and `eof`.
pub const READDIR_OK_FIXED_LEN: usize = 8 + 4 + 4;

xdr_struct! {
    /// `entry4`: one entry of a directory, without its place in the list.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Entry4<'a> {
        /// The cookie that leads to the entries after this one.
        pub cookie: u64,
        /// The name of the entry in its directory.
        pub name: Component4<'a>,
        /// Those of the object's attributes that were asked for and are supported.
        pub attrs: Fattr4<'a>,
    }
}

impl Entry4<'_> {
    /// Bytes on the wire of an entry whose name is `name_len` long, its place in the list included and its
    /// attributes not.
    #[must_use]
    pub const fn encoded_len_without_attrs(name_len: usize) -> usize {
        4 + 8 + 4 + name_len + padding(name_len)
    }
}

/// `READDIR4resok`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaddirOk<'a> {
    /// The verifier to send with the next call, beside the cookie.
    pub cookieverf: Verifier4,
    /// The entries, in the order of the directory.
    pub entries: Vec<Entry4<'a>>,
    /// True when nothing comes after the last entry.
    pub eof: bool,
}

impl<'a> Decode<'a> for ReaddirOk<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            cookieverf: Decode::decode(d)?,
            entries: d.list("value follows")?,
            eof: d.bool("eof")?,
        })
    }
}

impl Encode for ReaddirOk<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        self.cookieverf.encode(e);
        e.list(&self.entries);
        e.bool(self.eof);
    }
}

xdr_struct! {
    /// `READLINK4resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ReadlinkOk<'a> {
        /// The path that the symlink holds.
        pub link: Linktext4<'a>,
    }
}

xdr_struct! {
    /// `OPENATTR4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OpenattrArgs {
        /// The directory of named attributes is to be made if it is not there.
        pub createdir: bool,
    }
}
