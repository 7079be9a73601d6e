//! The types of attributes that nothing else uses.

use crate::nfs4::{Bitmap4, Component4, LayoutBody, Nfstime4, Utf8str};
use crate::xdr::define::{xdr_enum, xdr_struct};

xdr_struct! {
    /// `pathname4`: a path, name by name; empty at the root.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Pathname4<'a> {
        /// The names, from the root down.
        pub components: Vec<Component4<'a>>,
    }
}

xdr_struct! {
    /// `fs_location4`: servers that have a file system, and where.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct FsLocation4<'a> {
        /// The servers' names or addresses.
        pub server: Vec<Utf8str<'a>>,
        /// The file system's root on each of them.
        pub rootpath: Pathname4<'a>,
    }
}

xdr_struct! {
    /// `fs_locations4`: where else a file system is.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct FsLocations4<'a> {
        /// The file system's root on this server.
        pub fs_root: Pathname4<'a>,
        /// The other places where the file system is to be found.
        pub locations: Vec<FsLocation4<'a>>,
    }
}

xdr_struct! {
    /// `fs_locations_server4`: one replica of a file system (RFC 8881 §11.17).
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct FsLocationsServer4<'a> {
        /// How far behind it is, seconds.
        pub currency: i32,
        /// Flags, classes, ranks and orders, one byte each: `FSLI4BX_*`.
        pub info: LayoutBody<'a>,
        /// The server's name or address.
        pub server: Utf8str<'a>,
    }
}

xdr_struct! {
    /// `fs_locations_item4`: replicas of a file system that have the same root.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct FsLocationsItem4<'a> {
        /// The servers of the replicas, each with what is known of it.
        pub entries: Vec<FsLocationsServer4<'a>>,
        /// The file system's root on each of them.
        pub rootpath: Pathname4<'a>,
    }
}

xdr_struct! {
    /// `fs_locations_info4`: where else a file system is, and what differs there.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct FsLocationsInfo4<'a> {
        /// `FSLI4IF_*`.
        pub flags: u32,
        /// Seconds for which the list may be used.
        pub valid_for: i32,
        /// The file system's root on this server.
        pub fs_root: Pathname4<'a>,
        /// The replicas, each with its servers and its path.
        pub items: Vec<FsLocationsItem4<'a>>,
    }
}

xdr_struct! {
    /// `change_policy4`: changes with the server's policy about the file system.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ChangePolicy4 {
        /// The number's upper half.
        pub major: u64,
        /// The number's lower half.
        pub minor: u64,
    }
}

xdr_struct! {
    /// `fs4_status`: where a file system's contents come from.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct FsStatus4<'a> {
        /// The file system is not here.
        pub absent: bool,
        /// `fs4_status_type`, 1 to 5.
        pub status_type: u32,
        /// What it was made from.
        pub source: Utf8str<'a>,
        /// Where it is current.
        pub current: Utf8str<'a>,
        /// Seconds since it was brought up to date; negative where that is not known.
        pub age: i32,
        /// The version of the contents.
        pub version: Nfstime4,
    }
}

xdr_struct! {
    /// `layouthint4`: how a client would like a new file to be laid out.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Layouthint4<'a> {
        /// `layouttype4`.
        pub layout_type: u32,
        /// The hint, in the form that the layout type defines.
        pub body: LayoutBody<'a>,
    }
}

xdr_struct! {
    /// `threshold_item4`: from which sizes on a layout of one type pays.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ThresholdItem4<'a> {
        /// `layouttype4`.
        pub layout_type: u32,
        /// Which thresholds there are: `TH4_*`.
        pub hintset: Bitmap4,
        /// The thresholds, encoded one behind the other.
        pub hintlist: LayoutBody<'a>,
    }
}

xdr_struct! {
    /// `retention_get4`: how long an object is kept.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct RetentionGet4 {
        /// How long it lasts, in seconds.
        pub duration: u64,
        /// Since when, where it has begun.
        pub begin_time: Option<Nfstime4>,
    }
}

xdr_struct! {
    /// `retention_set4`: how long an object is to be kept.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct RetentionSet4 {
        /// Begin with it.
        pub enable: bool,
        /// How long it is to last, in seconds.
        pub duration: Option<u64>,
    }
}

xdr_enum! {
    /// `change_attr_type4`: what the order of change attributes says (RFC 7862 §12.2.3).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ChangeAttrType4 as "change_attr_type4" {
        /// It grows with every change.
        MonotonicIncr = 0,
        /// It grows by one with every change.
        VersionCounter = 1,
        /// It grows by one with every change, except with pNFS.
        VersionCounterNopnfs = 2,
        /// It is the time of the last change.
        TimeMetadata = 3,
        /// Nothing.
        Undefined = 4,
    }
}

xdr_struct! {
    /// `sec_label4`: a label of mandatory access control (RFC 7862 §9.6).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SecLabel4<'a> {
        /// The number of the format: `lfs_lfs`.
        pub lfs: u32,
        /// The number of the policy: `lfs_pi`.
        pub pi: u32,
        /// The label, in the form that its format defines.
        pub data: LayoutBody<'a>,
    }
}

xdr_struct! {
    /// `open_arguments4`: what OPEN takes here (RFC 9754 §3).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct OpenArguments4 {
        /// Accesses: `OPEN_ARGS_SHARE_ACCESS_*`.
        pub share_access: Bitmap4,
        /// Denials: `OPEN_ARGS_SHARE_DENY_*`.
        pub share_deny: Bitmap4,
        /// What may be said about delegations: `OPEN_ARGS_SHARE_ACCESS_WANT_*`.
        pub share_access_want: Bitmap4,
        /// Claims: `OPEN_ARGS_OPEN_CLAIM_*`.
        pub open_claim: Bitmap4,
        /// Ways to create: `OPEN_ARGS_CREATEMODE_*`.
        pub create_mode: Bitmap4,
    }
}
