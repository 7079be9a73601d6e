//! Layouts of pNFS: LAYOUTGET, LAYOUTCOMMIT, LAYOUTRETURN, GETDEVICEINFO, GETDEVICELIST (RFC 8881 §18.40 to §18.44),
//! LAYOUTERROR, LAYOUTSTATS (RFC 7862 §15.6, §15.7). What a layout says only its type explains.

use crate::nfs4::{Bitmap4, Deviceid4, LayoutBody, Nfsstat4, Nfstime4, Stateid4, Verifier4};
use crate::xdr::define::{xdr_enum, xdr_struct, xdr_union};
use crate::{Decode, DecodeError, Decoder, Encode, Encoder};

/// `layouttype4` of files (RFC 8881 §13).
pub const LAYOUT4_NFSV4_1_FILES: u32 = 1;
/// `layouttype4` of objects (RFC 5664).
pub const LAYOUT4_OSD2_OBJECTS: u32 = 2;
/// `layouttype4` of blocks (RFC 5663).
pub const LAYOUT4_BLOCK_VOLUME: u32 = 3;
/// `layouttype4` of flexible files (RFC 8435).
pub const LAYOUT4_FLEX_FILES: u32 = 4;
/// `layouttype4` of SCSI (RFC 8154).
pub const LAYOUT4_SCSI: u32 = 5;

xdr_enum! {
    /// `layoutiomode4`: what a layout is for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Layoutiomode4 as "layoutiomode4" {
        /// The layout is for READs alone.
        Read = 1,
        /// The layout is for READs and WRITEs.
        Rw = 2,
        /// Of LAYOUTRETURN and CB_LAYOUTRECALL: either.
        Any = 3,
    }
}

xdr_struct! {
    /// `layout4`: where a range of a file is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Layout4<'a> {
        /// Where the range begins, bytes.
        pub offset: u64,
        /// How many bytes it has.
        pub length: u64,
        /// Whether it is for READs alone or for WRITEs too.
        pub iomode: Layoutiomode4,
        /// `layouttype4`.
        pub layout_type: u32,
        /// Where the data is, in the form that the layout type defines.
        pub body: LayoutBody<'a>,
    }
}

xdr_struct! {
    /// `layoutupdate4` and `device_addr4`: what a type of layout explains.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LayoutContent4<'a> {
        /// `layouttype4`.
        pub layout_type: u32,
        /// What is said of the layout, in the form that the layout type defines.
        pub body: LayoutBody<'a>,
    }
}

xdr_struct! {
    /// `LAYOUTGET4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LayoutgetArgs {
        /// The server is to tell when it can be had.
        pub signal_layout_avail: bool,
        /// `layouttype4`.
        pub layout_type: u32,
        /// Whether the layout is wanted for READs alone or for WRITEs too.
        pub iomode: Layoutiomode4,
        /// Where the range begins, bytes.
        pub offset: u64,
        /// How many bytes are wanted.
        pub length: u64,
        /// How many bytes are wanted at least.
        pub minlength: u64,
        /// The open, lock, delegation or layout by which it is asked for.
        pub stateid: Stateid4,
        /// The longest reply wanted, bytes.
        pub maxcount: u32,
    }
}

xdr_struct! {
    /// `LAYOUTGET4resok`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct LayoutgetOk<'a> {
        /// The layout is to be given back with the last CLOSE.
        pub return_on_close: bool,
        /// The layouts of the file.
        pub stateid: Stateid4,
        /// The ranges, in ascending order.
        pub layouts: Vec<Layout4<'a>>,
    }
}

/// Why LAYOUTGET failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutgetFailure {
    /// Not now. True: the server will tell when it can be had: NFS4ERR_LAYOUTTRYLATER.
    TryLater(bool),
    /// Any other status but success.
    Other(Nfsstat4),
}

/// `LAYOUTGET4res`.
pub type LayoutgetRes<'a> = Result<LayoutgetOk<'a>, LayoutgetFailure>;

impl<'a> Decode<'a> for LayoutgetRes<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(match Nfsstat4::decode(d)? {
            Nfsstat4::Ok => Ok(Decode::decode(d)?),
            Nfsstat4::Layouttrylater => Err(LayoutgetFailure::TryLater(Decode::decode(d)?)),
            status => Err(LayoutgetFailure::Other(status)),
        })
    }
}

impl Encode for LayoutgetRes<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        match self {
            Ok(ok) => {
                Nfsstat4::Ok.encode(e);
                ok.encode(e);
            }
            Err(LayoutgetFailure::TryLater(will_signal)) => {
                Nfsstat4::Layouttrylater.encode(e);
                will_signal.encode(e);
            }
            Err(LayoutgetFailure::Other(status)) => status.encode(e),
        }
    }
}

xdr_struct! {
    /// `LAYOUTCOMMIT4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LayoutcommitArgs<'a> {
        /// Where the range begins, bytes.
        pub offset: u64,
        /// How many bytes it has.
        pub length: u64,
        /// It was written before the server restarted.
        pub reclaim: bool,
        /// The layouts of the file.
        pub stateid: Stateid4,
        /// The last byte that was written, where the file may have become longer.
        pub last_write_offset: Option<u64>,
        /// When the contents were changed last, where the client says so.
        pub time_modify: Option<Nfstime4>,
        /// What the type of layout has to say.
        pub layoutupdate: LayoutContent4<'a>,
    }
}

xdr_struct! {
    /// `LAYOUTCOMMIT4resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LayoutcommitOk {
        /// The file's new size in bytes, where it has changed.
        pub newsize: Option<u64>,
    }
}

xdr_struct! {
    /// `layoutreturn_file4`: layouts of one file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LayoutreturnFile4<'a> {
        /// Where the range begins, bytes.
        pub offset: u64,
        /// How many bytes it has.
        pub length: u64,
        /// The layouts of the file.
        pub stateid: Stateid4,
        /// What the type of layout has to say.
        pub body: LayoutBody<'a>,
    }
}

xdr_union! {
    /// `layoutreturn4`: which layouts are given back.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Layoutreturn4<'a> as "layoutreturn_type4" {
        /// Those of the current file: LAYOUTRETURN4_FILE.
        File(LayoutreturnFile4<'a>) = 1,
        /// Those of the current object's file system: LAYOUTRETURN4_FSID.
        Fsid = 2,
        /// All that the client has: LAYOUTRETURN4_ALL.
        All = 3,
    }
}

xdr_struct! {
    /// `LAYOUTRETURN4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LayoutreturnArgs<'a> {
        /// They were held before the server restarted.
        pub reclaim: bool,
        /// `layouttype4`.
        pub layout_type: u32,
        /// Whether layouts for READs, for WRITEs or for both are given back.
        pub iomode: Layoutiomode4,
        /// Which layouts are given back.
        pub layoutreturn: Layoutreturn4<'a>,
    }
}

xdr_struct! {
    /// `GETDEVICEINFO4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct GetdeviceinfoArgs {
        /// The device that is asked about.
        pub device_id: Deviceid4,
        /// `layouttype4`.
        pub layout_type: u32,
        /// The longest reply wanted, bytes; 0 asks for notifications only.
        pub maxcount: u32,
        /// The notifications that are wanted.
        pub notify_types: Bitmap4,
    }
}

xdr_struct! {
    /// `GETDEVICEINFO4resok`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct GetdeviceinfoOk<'a> {
        /// Where the device is: `device_addr4`.
        pub device_addr: LayoutContent4<'a>,
        /// The notifications that there will be.
        pub notification: Bitmap4,
    }
}

/// Why GETDEVICEINFO failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetdeviceinfoFailure {
    /// The reply has at least so many bytes: NFS4ERR_TOOSMALL.
    TooSmall(u32),
    /// Any other status but success.
    Other(Nfsstat4),
}

/// `GETDEVICEINFO4res`.
pub type GetdeviceinfoRes<'a> = Result<GetdeviceinfoOk<'a>, GetdeviceinfoFailure>;

impl<'a> Decode<'a> for GetdeviceinfoRes<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(match Nfsstat4::decode(d)? {
            Nfsstat4::Ok => Ok(Decode::decode(d)?),
            Nfsstat4::Toosmall => Err(GetdeviceinfoFailure::TooSmall(Decode::decode(d)?)),
            status => Err(GetdeviceinfoFailure::Other(status)),
        })
    }
}

impl Encode for GetdeviceinfoRes<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        match self {
            Ok(ok) => {
                Nfsstat4::Ok.encode(e);
                ok.encode(e);
            }
            Err(GetdeviceinfoFailure::TooSmall(mincount)) => {
                Nfsstat4::Toosmall.encode(e);
                mincount.encode(e);
            }
            Err(GetdeviceinfoFailure::Other(status)) => status.encode(e),
        }
    }
}

xdr_struct! {
    /// `GETDEVICELIST4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct GetdevicelistArgs {
        /// `layouttype4`.
        pub layout_type: u32,
        /// The most devices wanted.
        pub maxdevices: u32,
        /// The cookie of the reply before, behind which the list goes on; 0 from the start.
        pub cookie: u64,
        /// Zero at the beginning, or what the server gave.
        pub cookieverf: Verifier4,
    }
}

xdr_struct! {
    /// `GETDEVICELIST4resok`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct GetdevicelistOk {
        /// The cookie of the next GETDEVICELIST, which goes on behind these devices.
        pub cookie: u64,
        /// To be sent with the cookie.
        pub cookieverf: Verifier4,
        /// The ids of the devices that are there.
        pub deviceid_list: Vec<Deviceid4>,
        /// True when there are no more.
        pub eof: bool,
    }
}

xdr_struct! {
    /// `device_error4`: an error of a storage device.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct DeviceError4 {
        /// The id of the device that failed.
        pub deviceid: Deviceid4,
        /// What it answered.
        pub status: Nfsstat4,
        /// The operation that it answered, as a number.
        pub opnum: u32,
    }
}

xdr_struct! {
    /// `LAYOUTERROR4args`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct LayouterrorArgs {
        /// Where the range begins, bytes.
        pub offset: u64,
        /// How many bytes it has.
        pub length: u64,
        /// The layouts of the file.
        pub stateid: Stateid4,
        /// What went wrong, for each device.
        pub errors: Vec<DeviceError4>,
    }
}

xdr_struct! {
    /// `io_info4`: how much was read or written.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct IoInfo4 {
        /// How many operations.
        pub count: u64,
        /// How many bytes.
        pub bytes: u64,
    }
}

xdr_struct! {
    /// `LAYOUTSTATS4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LayoutstatsArgs<'a> {
        /// Where the range begins, bytes.
        pub offset: u64,
        /// How many bytes it has.
        pub length: u64,
        /// The layouts of the file.
        pub stateid: Stateid4,
        /// What was read.
        pub read: IoInfo4,
        /// What was written.
        pub write: IoInfo4,
        /// The id of the device that served them.
        pub deviceid: Deviceid4,
        /// What the type of layout has to say.
        pub layoutupdate: LayoutContent4<'a>,
    }
}
