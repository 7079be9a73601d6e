//! REMOVE, RMDIR, RENAME, LINK (RFC 1813 §3.3.12 to §3.3.15).

use super::{DirOpArgs, FileHandle, PostOpAttr, WccData};
use crate::xdr::define::xdr_struct;

xdr_struct! {
    /// `REMOVE3args`; both results carry the directory's `wcc_data`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RemoveArgs<'a> {
        /// Directory and name.
        pub object: DirOpArgs<'a>,
    }
}

xdr_struct! {
    /// `RMDIR3args`; both results carry the directory's `wcc_data`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RmdirArgs<'a> {
        /// Directory and name.
        pub object: DirOpArgs<'a>,
    }
}

xdr_struct! {
    /// Both results of SETATTR, REMOVE and RMDIR: the object's or the directory's `wcc_data`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RemoveOk {
        /// Attributes before and after.
        pub wcc: WccData,
    }
}

xdr_struct! {
    /// `RENAME3args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RenameArgs<'a> {
        /// The old directory and name.
        pub from: DirOpArgs<'a>,
        /// The new ones.
        pub to: DirOpArgs<'a>,
    }
}

xdr_struct! {
    /// Both results of RENAME.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct RenameBody {
        /// The old directory's attributes before and after.
        pub fromdir_wcc: WccData,
        /// The new directory's.
        pub todir_wcc: WccData,
    }
}

xdr_struct! {
    /// `LINK3args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LinkArgs<'a> {
        /// The object.
        pub file: FileHandle,
        /// Directory and name of the new link.
        pub link: DirOpArgs<'a>,
    }
}

xdr_struct! {
    /// Both results of LINK.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct LinkBody {
        /// The object's attributes.
        pub file_attributes: PostOpAttr,
        /// The directory's attributes before and after.
        pub linkdir_wcc: WccData,
    }
}
