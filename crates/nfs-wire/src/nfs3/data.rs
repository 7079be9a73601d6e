//! READ, WRITE, COMMIT (RFC 1813 §3.3.6, §3.3.7, §3.3.21).

use super::{FileHandle, PostOpAttr, WccData};
use crate::limits::DATA_BYTES_MAX;
use crate::xdr::define::{xdr_enum, xdr_struct};
use crate::xdr::padding;
use crate::{Decode, DecodeError, Decoder, Encode, Encoder};

xdr_struct! {
    /// The arguments of READ: `READ3args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ReadArgs {
        /// The handle of the file to read.
        pub file: FileHandle,
        /// Where in the file to begin, bytes.
        pub offset: u64,
        /// How many bytes are asked for at most.
        pub count: u32,
    }
}

/// `READ3resok`; the failure carries the file's attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOk<'a> {
    /// The file's attributes after the READ.
    pub file_attributes: PostOpAttr,
    /// How many bytes were read.
    pub count: u32,
    /// True when the read ended at the end of the file.
    pub eof: bool,
    /// The bytes that were read, `count` of them.
    pub data: &'a [u8],
}

impl<'a> Decode<'a> for ReadOk<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            file_attributes: Decode::decode(d)?,
            count: d.u32("count")?,
            eof: d.bool("eof")?,
            data: d.opaque(DATA_BYTES_MAX, "data")?,
        })
    }
}

impl Encode for ReadOk<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        self.file_attributes.encode(e);
        e.u32(self.count);
        e.bool(self.eof);
        e.opaque(self.data);
    }
}

/// [`ReadOk`] up to its data, which a server sends from the buffer it was read into: after this come
/// `data_len` bytes and [`padding`] of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOkHead {
    /// The file's attributes after the READ.
    pub file_attributes: PostOpAttr,
    /// True when the read ended at the end of the file.
    pub eof: bool,
    /// How many bytes of data follow.
    pub data_len: u32,
}

impl Encode for ReadOkHead {
    fn encode(&self, e: &mut Encoder<'_>) {
        self.file_attributes.encode(e);
        e.u32(self.data_len);
        e.bool(self.eof);
        e.u32(self.data_len);
    }
}

xdr_enum! {
    /// `stable_how`: what a WRITE promises.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum StableHow as "stable_how" {
        /// May be lost until a COMMIT.
        Unstable = 0,
        /// The data, and what is needed to read it back, are on stable storage.
        DataSync = 1,
        /// Data and all attributes are on stable storage.
        FileSync = 2,
    }
}

/// `WRITE3args`; the failure carries `wcc_data`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteArgs<'a> {
    /// The handle of the file to write.
    pub file: FileHandle,
    /// Where in the file to begin, bytes.
    pub offset: u64,
    /// How many bytes are to be written.
    pub count: u32,
    /// What the reply has to promise at least.
    pub stable: StableHow,
    /// The bytes; RFC 1813 wants `count` of them.
    pub data: &'a [u8],
}

impl<'a> Decode<'a> for WriteArgs<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            file: FileHandle::decode(d)?,
            offset: d.u64("offset")?,
            count: d.u32("count")?,
            stable: StableHow::decode(d)?,
            data: d.opaque(DATA_BYTES_MAX, "data")?,
        })
    }
}

impl Encode for WriteArgs<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        self.file.encode(e);
        e.u64(self.offset);
        e.u32(self.count);
        self.stable.encode(e);
        e.opaque(self.data);
    }
}

/// [`WriteArgs`] up to the data: enough to choose where to receive the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteHead {
    /// The handle of the file to write.
    pub file: FileHandle,
    /// Where in the file to begin, bytes.
    pub offset: u64,
    /// How many bytes are to be written.
    pub count: u32,
    /// What the reply has to promise at least.
    pub stable: StableHow,
    /// How many bytes of data follow, before their padding.
    pub data_len: u32,
}

impl WriteHead {
    /// How many bytes follow the head: data and padding.
    #[must_use]
    pub fn tail_len(&self) -> usize {
        let len = usize::try_from(self.data_len).unwrap_or(usize::MAX);
        len.saturating_add(padding(len))
    }
}

impl Decode<'_> for WriteHead {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            file: FileHandle::decode(d)?,
            offset: d.u64("offset")?,
            count: d.u32("count")?,
            stable: StableHow::decode(d)?,
            data_len: {
                d.clone().len(DATA_BYTES_MAX, "data")?;
                d.u32("data")?
            },
        })
    }
}

impl Encode for WriteHead {
    fn encode(&self, e: &mut Encoder<'_>) {
        self.file.encode(e);
        e.u64(self.offset);
        e.u32(self.count);
        self.stable.encode(e);
        e.u32(self.data_len);
    }
}

xdr_struct! {
    /// What became of a WRITE: `WRITE3resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct WriteOk {
        /// The file's attributes before and after.
        pub file_wcc: WccData,
        /// How many bytes were written.
        pub count: u32,
        /// What is promised: at least what was asked for.
        pub committed: StableHow,
        /// `writeverf3`: another value than before means that unstable data may be lost.
        pub verf: [u8; 8],
    }
}

xdr_struct! {
    /// `COMMIT3args`; the failure carries `wcc_data`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CommitArgs {
        /// The handle of the file to put on stable storage.
        pub file: FileHandle,
        /// Where the range begins, bytes.
        pub offset: u64,
        /// How many bytes the range has; 0 means up to the end of the file.
        pub count: u32,
    }
}

xdr_struct! {
    /// What became of a COMMIT: `COMMIT3resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CommitOk {
        /// The file's attributes before and after.
        pub file_wcc: WccData,
        /// `writeverf3`: the same as in the WRITEs' replies if their data is stable now.
        pub verf: [u8; 8],
    }
}
