//! REMOVE, RMDIR, RENAME, LINK (RFC 1813 §3.3.12 to §3.3.15).

use super::{DirOpArgs, FileHandle, PostOpAttr, WccData};
use crate::xdr::define::xdr_struct;

xdr_struct! {
    /// `REMOVE3args`; both results carry the directory's `wcc_data`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RemoveArgs<'a> {
        /// The directory to remove the entry from, and its name.
        pub object: DirOpArgs<'a>,
    }
}

xdr_struct! {
    /// `RMDIR3args`; both results carry the directory's `wcc_data`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RmdirArgs<'a> {
        /// The directory to remove the entry from, and its name.
        pub object: DirOpArgs<'a>,
    }
}

xdr_struct! {
    /// What SETATTR, REMOVE and RMDIR tell with success and failure alike: the object's or the directory's
    /// `wcc_data`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RemoveOk {
        /// The directory's attributes before and after.
        pub wcc: WccData,
    }
}

xdr_struct! {
    /// The arguments of RENAME: `RENAME3args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RenameArgs<'a> {
        /// The old directory and name.
        pub from: DirOpArgs<'a>,
        /// The directory that it is to be in, and its name there.
        pub to: DirOpArgs<'a>,
    }
}

xdr_struct! {
    /// What RENAME says, done or failed: `RENAME3resok` and `RENAME3resfail`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct RenameBody {
        /// The old directory's attributes before and after.
        pub fromdir_wcc: WccData,
        /// The new directory's attributes before and after.
        pub todir_wcc: WccData,
    }
}

xdr_struct! {
    /// The arguments of LINK: `LINK3args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LinkArgs<'a> {
        /// The handle of the object that gets another name.
        pub file: FileHandle,
        /// Directory and name of the new link.
        pub link: DirOpArgs<'a>,
    }
}

xdr_struct! {
    /// What LINK says, done or failed: `LINK3resok` and `LINK3resfail`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct LinkBody {
        /// The object's attributes after the call.
        pub file_attributes: PostOpAttr,
        /// The directory's attributes before and after.
        pub linkdir_wcc: WccData,
    }
}
