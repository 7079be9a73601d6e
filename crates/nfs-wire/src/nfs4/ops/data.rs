//! A file's bytes: READ, WRITE, COMMIT (RFC 8881 §18.3, §18.22, §18.32), and READ_PLUS, SEEK, ALLOCATE,
//! DEALLOCATE, IO_ADVISE, WRITE_SAME (RFC 7862 §15).

use crate::limits::DATA_BYTES_MAX;
use crate::nfs4::{Bitmap4, GssOpaque, StableHow4, Stateid4, Verifier4};
use crate::xdr::define::{xdr_enum, xdr_struct, xdr_union};
use crate::{Decode, DecodeError, Decoder, Encode, Encoder, Payload};

xdr_struct! {
    /// `READ4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ReadArgs {
        /// The open, lock or delegation by which it is read.
        pub stateid: Stateid4,
        /// Where in the file to begin, bytes.
        pub offset: u64,
        /// How many bytes are asked for at most.
        pub count: u32,
    }
}

/// `READ4resok`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOk<'a> {
    /// True when the read ended at the end of the file.
    pub eof: bool,
    /// The bytes that were read.
    pub data: Payload<'a>,
}

impl<'a> Decode<'a> for ReadOk<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            eof: d.bool("eof")?,
            data: d.payload(DATA_BYTES_MAX, "data")?,
        })
    }
}

impl Encode for ReadOk<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.bool(self.eof);
        e.payload(&self.data);
    }
}

/// `WRITE4args`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteArgs<'a> {
    /// The open, lock or delegation by which it is written.
    pub stateid: Stateid4,
    /// Where in the file to begin, bytes.
    pub offset: u64,
    /// What the reply has to promise at least.
    pub stable: StableHow4,
    /// The bytes that are to be written from the offset on.
    pub data: Payload<'a>,
}

impl<'a> Decode<'a> for WriteArgs<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            stateid: Decode::decode(d)?,
            offset: d.u64("offset")?,
            stable: Decode::decode(d)?,
            data: d.payload(DATA_BYTES_MAX, "data")?,
        })
    }
}

impl Encode for WriteArgs<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        self.stateid.encode(e);
        e.u64(self.offset);
        self.stable.encode(e);
        e.payload(&self.data);
    }
}

xdr_struct! {
    /// `WRITE4resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct WriteOk {
        /// How many bytes were written.
        pub count: u32,
        /// What is promised: at least what was asked for.
        pub committed: StableHow4,
        /// Another value than before means that unstable data may be lost.
        pub writeverf: Verifier4,
    }
}

xdr_struct! {
    /// `COMMIT4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CommitArgs {
        /// Where the range begins, bytes.
        pub offset: u64,
        /// How many bytes the range has; 0 means up to the end of the file.
        pub count: u32,
    }
}

xdr_struct! {
    /// `COMMIT4resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CommitOk {
        /// The same as in the WRITEs' replies if their data is stable now.
        pub writeverf: Verifier4,
    }
}

xdr_struct! {
    /// `data_info4`: a range without data.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct DataInfo4 {
        /// Where it begins in the file, bytes.
        pub offset: u64,
        /// How many bytes it has.
        pub length: u64,
    }
}

/// `data4`: a range with its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data4<'a> {
    /// Where it begins in the file, bytes.
    pub offset: u64,
    /// The bytes that the file has there.
    pub data: Payload<'a>,
}

impl<'a> Decode<'a> for Data4<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            offset: d.u64("offset")?,
            data: d.payload(DATA_BYTES_MAX, "data")?,
        })
    }
}

impl Encode for Data4<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.u64(self.offset);
        e.payload(&self.data);
    }
}

xdr_union! {
    /// `read_plus_content`: a part of what READ_PLUS read.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ReadPlusContent<'a> as "data_content4" {
        /// Data: NFS4_CONTENT_DATA.
        Data(Data4<'a>) = 0,
        /// A hole, which reads as zeros: NFS4_CONTENT_HOLE.
        Hole(DataInfo4) = 1,
    }
}

xdr_struct! {
    /// `read_plus_res4`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ReadPlusOk<'a> {
        /// True when the read ended at the end of the file.
        pub eof: bool,
        /// What was read, in ascending order. One that ends in data sent apart has that last.
        pub contents: Vec<ReadPlusContent<'a>>,
    }
}

xdr_enum! {
    /// `data_content4`: data or a hole.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum DataContent4 as "data_content4" {
        /// Data: NFS4_CONTENT_DATA.
        Data = 0,
        /// A hole: NFS4_CONTENT_HOLE.
        Hole = 1,
    }
}

/// `SEEK4args`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeekArgs {
    /// The open, lock or delegation by which it is asked.
    pub stateid: Stateid4,
    /// Where the search begins, in bytes from the start of the file.
    pub offset: u64,
    /// What is looked for, or the number of something that is not known: NFS4ERR_UNION_NOTSUPP (RFC 7862
    /// §15.11.3).
    pub what: Result<DataContent4, u32>,
}

impl Decode<'_> for SeekArgs {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            stateid: Decode::decode(d)?,
            offset: d.u64("sa_offset")?,
            what: {
                let what = d.u32("sa_what")?;
                DataContent4::try_from(what).map_err(|_| what)
            },
        })
    }
}

impl Encode for SeekArgs {
    fn encode(&self, e: &mut Encoder<'_>) {
        self.stateid.encode(e);
        e.u64(self.offset);
        match self.what {
            Ok(what) => what.encode(e),
            Err(what) => e.u32(what),
        }
    }
}

xdr_struct! {
    /// `seek_res4`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SeekOk {
        /// There is no such place up to the end of the file.
        pub eof: bool,
        /// Where what was sought begins, in bytes from the start of the file.
        pub offset: u64,
    }
}

xdr_struct! {
    /// `ALLOCATE4args` and `DEALLOCATE4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AllocateArgs {
        /// The open, lock or delegation by which it is done.
        pub stateid: Stateid4,
        /// Where the range begins, bytes.
        pub offset: u64,
        /// How many bytes it has.
        pub length: u64,
    }
}

xdr_struct! {
    /// `IO_ADVISE4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct IoAdviseArgs {
        /// The open, lock or delegation that will be used.
        pub stateid: Stateid4,
        /// Where the range begins, bytes.
        pub offset: u64,
        /// How many bytes it has; 0 reaches to the end of the file.
        pub count: u64,
        /// What will be done: bits [`IoAdviseType4`].
        pub hints: Bitmap4,
    }
}

xdr_struct! {
    /// `IO_ADVISE4resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct IoAdviseOk {
        /// Those of the hints that the server follows.
        pub hints: Bitmap4,
    }
}

xdr_enum! {
    /// `IO_ADVISE_type4`: what a client will do with a range.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum IoAdviseType4 as "IO_ADVISE_type4" {
        /// Nothing in particular.
        Normal = 0,
        /// Sequential access.
        Sequential = 1,
        /// Sequential access from the end to the beginning.
        SequentialBackwards = 2,
        /// Random access.
        Random = 3,
        /// Access soon.
        Willneed = 4,
        /// Access soon, perhaps.
        WillneedOpportunistic = 5,
        /// No access soon.
        Dontneed = 6,
        /// One access, and no more.
        Noreuse = 7,
        /// The range will be read.
        Read = 8,
        /// The range will be written.
        Write = 9,
        /// The range is important, as it begins a proximity group.
        InitProximity = 10,
    }
}

xdr_struct! {
    /// `app_data_block4`: a pattern that is to be repeated.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AppDataBlock4<'a> {
        /// Where the first block begins, bytes.
        pub offset: u64,
        /// Bytes of a block.
        pub block_size: u64,
        /// How many blocks.
        pub block_count: u64,
        /// Where in a block its number is, bytes.
        pub reloff_blocknum: u64,
        /// The first block's number.
        pub block_num: u32,
        /// Where in a block the pattern is, bytes.
        pub reloff_pattern: u64,
        /// The bytes of the pattern that each block has there.
        pub pattern: GssOpaque<'a>,
    }
}

xdr_struct! {
    /// `WRITE_SAME4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct WriteSameArgs<'a> {
        /// The open, lock or delegation by which it is written.
        pub stateid: Stateid4,
        /// What the reply has to promise at least.
        pub stable: StableHow4,
        /// The blocks that are to be written.
        pub adb: AppDataBlock4<'a>,
    }
}
