//! READDIR and READDIRPLUS (RFC 1813 §3.3.16, §3.3.17).

use super::{Fattr3, FileHandle, Filename, PostOpAttr, PostOpFh3};
use crate::xdr::define::xdr_struct;
use crate::xdr::padding;
use crate::{Decode, DecodeError, Decoder, Encode, Encoder};

xdr_struct! {
    /// The arguments of READDIR: `READDIR3args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ReaddirArgs {
        /// The handle of the directory to list.
        pub dir: FileHandle,
        /// Where in the directory to go on: 0 for its beginning, or the cookie of the last entry seen.
        pub cookie: u64,
        /// Zero at the beginning, or the verifier that the server gave with the entry of `cookie`.
        pub cookieverf: [u8; 8],
        /// The largest `READDIR3resok` wanted, bytes.
        pub count: u32,
    }
}

xdr_struct! {
    /// The arguments of READDIRPLUS: `READDIRPLUS3args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ReaddirplusArgs {
        /// The handle of the directory to list.
        pub dir: FileHandle,
        /// Behind which entry to go on; 0 means from the beginning.
        pub cookie: u64,
        /// Zero, or what the server gave with that entry.
        pub cookieverf: [u8; 8],
        /// The most of fileids, names and cookies wanted, bytes.
        pub dircount: u32,
        /// The largest `READDIRPLUS3resok` wanted, bytes.
        pub maxcount: u32,
    }
}

/// Bytes of a `READDIR3resok` or `READDIRPLUS3resok` without entries: attributes, verifier, the end of
/// the list and `eof`.
pub const READDIR_OK_FIXED_LEN: usize = 4 + Fattr3::ENCODED_LEN + 8 + 4 + 4;

/// One entry of a directory: `entry3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry3<'a> {
    /// The object's number in its file system.
    pub fileid: u64,
    /// The name of the entry in its directory.
    pub name: Filename<'a>,
    /// The cookie that leads to the entries after this one.
    pub cookie: u64,
}

impl Entry3<'_> {
    /// Bytes on the wire of an entry whose name is `name_len` long, its place in the list included.
    #[must_use]
    pub const fn encoded_len(name_len: usize) -> usize {
        4 + 8 + 4 + name_len + padding(name_len) + 8
    }
}

impl<'a> Decode<'a> for Entry3<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            fileid: d.u64("fileid")?,
            name: Filename::decode(d)?,
            cookie: d.u64("cookie")?,
        })
    }
}

impl Encode for Entry3<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.u64(self.fileid);
        self.name.encode(e);
        e.u64(self.cookie);
    }
}

/// One entry of a directory with what it leads to: `entryplus3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryPlus3<'a> {
    /// The number, name and cookie that READDIR tells of the entry too.
    pub entry: Entry3<'a>,
    /// The attributes of the object that has this name.
    pub name_attributes: PostOpAttr,
    /// The handle of the object that has this name.
    pub name_handle: PostOpFh3,
}

impl EntryPlus3<'_> {
    /// Most bytes on the wire of an entry whose name is `name_len` long: with attributes and the
    /// longest handle.
    #[must_use]
    pub const fn encoded_len_max(name_len: usize) -> usize {
        Entry3::encoded_len(name_len) + 4 + Fattr3::ENCODED_LEN + 4 + 4 + 64
    }
}

impl<'a> Decode<'a> for EntryPlus3<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            entry: Entry3::decode(d)?,
            name_attributes: Decode::decode(d)?,
            name_handle: Decode::decode(d)?,
        })
    }
}

impl Encode for EntryPlus3<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        self.entry.encode(e);
        self.name_attributes.encode(e);
        self.name_handle.encode(e);
    }
}

/// `READDIR3resok`; the failure carries the directory's attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaddirOk<'a> {
    /// The directory's attributes after the call.
    pub dir_attributes: PostOpAttr,
    /// The verifier to send with the next call, beside the cookie.
    pub cookieverf: [u8; 8],
    /// The entries, in the order of the directory.
    pub entries: Vec<Entry3<'a>>,
    /// True when nothing comes after the last entry.
    pub eof: bool,
}

impl<'a> Decode<'a> for ReaddirOk<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            dir_attributes: Decode::decode(d)?,
            cookieverf: d.opaque_fixed("cookieverf")?,
            entries: d.list("value follows")?,
            eof: d.bool("eof")?,
        })
    }
}

impl Encode for ReaddirOk<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        self.dir_attributes.encode(e);
        e.opaque_fixed(&self.cookieverf);
        e.list(&self.entries);
        e.bool(self.eof);
    }
}

/// `READDIRPLUS3resok`; the failure carries the directory's attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaddirplusOk<'a> {
    /// The directory's attributes after the call.
    pub dir_attributes: PostOpAttr,
    /// The verifier to send with the next call, beside the cookie.
    pub cookieverf: [u8; 8],
    /// The entries, in the order of the directory.
    pub entries: Vec<EntryPlus3<'a>>,
    /// True when nothing comes after the last entry.
    pub eof: bool,
}

impl<'a> Decode<'a> for ReaddirplusOk<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            dir_attributes: Decode::decode(d)?,
            cookieverf: d.opaque_fixed("cookieverf")?,
            entries: d.list("value follows")?,
            eof: d.bool("eof")?,
        })
    }
}

impl Encode for ReaddirplusOk<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        self.dir_attributes.encode(e);
        e.opaque_fixed(&self.cookieverf);
        e.list(&self.entries);
        e.bool(self.eof);
    }
}
