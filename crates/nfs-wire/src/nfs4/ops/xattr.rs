//! Extended attributes: GETXATTR, SETXATTR, LISTXATTRS, REMOVEXATTR (RFC 8276 §8.4).

use crate::nfs4::{Component4, Xattrvalue4};
use crate::xdr::define::{xdr_enum, xdr_struct};

xdr_struct! {
    /// `GETXATTR4args` and `REMOVEXATTR4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct XattrNameArgs<'a> {
        /// The attribute's name, without Linux's `user.`.
        pub name: Component4<'a>,
    }
}

xdr_enum! {
    /// `setxattr_option4`: what to do when the attribute is there, or not.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum SetxattrOption4 as "setxattr_option4" {
        /// The attribute is made, or its value replaced.
        Either = 0,
        /// It must not be there.
        Create = 1,
        /// The attribute must be there already; its value is replaced.
        Replace = 2,
    }
}

xdr_struct! {
    /// `SETXATTR4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SetxattrArgs<'a> {
        /// What to do when the attribute is there, or not.
        pub option: SetxattrOption4,
        /// The attribute's name, without Linux's `user.`.
        pub key: Component4<'a>,
        /// The value that the attribute is to have.
        pub value: Xattrvalue4<'a>,
    }
}

xdr_struct! {
    /// `LISTXATTRS4args`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ListxattrsArgs {
        /// Where to go on: 0 for the beginning, or what the last reply gave.
        pub cookie: u64,
        /// The largest `LISTXATTRS4resok` wanted, bytes.
        pub maxcount: u32,
    }
}

xdr_struct! {
    /// `LISTXATTRS4resok`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ListxattrsOk<'a> {
        /// The cookie of the next LISTXATTRS, which goes on behind these names.
        pub cookie: u64,
        /// The names of the attributes, in the order of the server.
        pub names: Vec<Component4<'a>>,
        /// True when there are no more.
        pub eof: bool,
    }
}
