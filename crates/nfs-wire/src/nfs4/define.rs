//! What defines a table of operations: each is written down once, and its number, properties, arguments and
//! results follow.

/// Defines the operations of a COMPOUND or CB_COMPOUND: for each its variant, number, RFC word, arguments and
/// result; which minor versions have it, which handles it needs, where it may stand, whether it changes
/// something, and the most bytes that its `resop` takes where its arguments do not decide that.
macro_rules! operations {
    (
        $(#[$num_meta:meta])*
        pub enum $Opnum:ident as $field:literal;
        $(#[$arg_meta:meta])*
        pub enum $ArgOp:ident<'a>;
        $(#[$res_meta:meta])*
        pub enum $ResOp:ident<'a>;
        $(
            $(#[$meta:meta])*
            $name:ident = $number:literal $word:literal ($args:ty) -> ($res:ty),
                $minors:ident, $needs:ident, $place:ident, $effect:ident, $len_max:expr;
        )*
    ) => {
        $(#[$num_meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $Opnum {
            $( $(#[$meta])* $name = $number, )*
        }

        impl $Opnum {
            /// Every operation that is known here, in the order of its number.
            pub const ALL: &[Self] = &[$( Self::$name ),*];

            /// Its number on the wire.
            #[must_use]
            pub const fn number(self) -> u32 {
                self as u32
            }

            /// The name that the RFCs give it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $( Self::$name => $word, )* }
            }

            /// Which minor versions have it.
            #[must_use]
            pub const fn minors(self) -> $crate::nfs4::Minors {
                match self { $( Self::$name => $crate::nfs4::Minors::$minors, )* }
            }

            /// Which file handles it needs.
            #[must_use]
            pub const fn needs(self) -> $crate::nfs4::Needs {
                match self { $( Self::$name => $crate::nfs4::Needs::$needs, )* }
            }

            /// Where it may stand in a COMPOUND of a session.
            #[must_use]
            pub const fn place(self) -> $crate::nfs4::Place {
                match self { $( Self::$name => $crate::nfs4::Place::$place, )* }
            }

            /// Whether it changes something, so that it must not be carried out twice and its reply has to
            /// have room before it begins.
            #[must_use]
            pub const fn changes(self) -> bool {
                matches!(
                    match self { $( Self::$name => $crate::nfs4::Effect::$effect, )* },
                    $crate::nfs4::Effect::Changes
                )
            }

            /// The most bytes that its result takes in the reply, number and status included, without what
            /// its arguments ask for.
            #[must_use]
            pub const fn reply_len_base(self) -> usize {
                match self { $( Self::$name => $len_max, )* }
            }
        }

        impl TryFrom<u32> for $Opnum {
            type Error = $crate::DecodeError;

            fn try_from(value: u32) -> Result<Self, $crate::DecodeError> {
                match value {
                    $( $number => Ok(Self::$name), )*
                    value => Err($crate::DecodeError::BadValue { field: $field, value }),
                }
            }
        }

        impl ::core::fmt::Display for $Opnum {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.write_str(self.name())
            }
        }

        $(#[$arg_meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $ArgOp<'a> {
            $( $(#[$meta])* $name($args), )*
        }

        impl<'a> $ArgOp<'a> {
            /// The operation that this is.
            #[must_use]
            pub const fn opnum(&self) -> $Opnum {
                match self { $( Self::$name(_) => $Opnum::$name, )* }
            }

            /// Reads the arguments of an operation, whose number has been read.
            ///
            /// # Errors
            /// [`DecodeError`](crate::DecodeError), which becomes NFS4ERR_BADXDR.
            pub fn decode_args(
                opnum: $Opnum,
                d: &mut $crate::Decoder<'a>,
            ) -> Result<Self, $crate::DecodeError> {
                Ok(match opnum {
                    $( $Opnum::$name => Self::$name($crate::Decode::decode(d)?), )*
                })
            }
        }

        impl $Opnum {
            /// Passes over the arguments of an operation, whose number has been read: they are looked at as
            /// by `decode_args`, and not kept, which takes a fraction of the time.
            ///
            /// # Errors
            /// [`DecodeError`](crate::DecodeError), which becomes NFS4ERR_BADXDR.
            pub fn pass_args<'a>(self, d: &mut $crate::Decoder<'a>) -> Result<(), $crate::DecodeError> {
                match self {
                    $( Self::$name => <$args as $crate::Decode>::decode(d).map(drop), )*
                }
            }
        }

        /// The number, and what it says follows.
        impl<'a> $crate::Decode<'a> for $ArgOp<'a> {
            fn decode(d: &mut $crate::Decoder<'a>) -> Result<Self, $crate::DecodeError> {
                let opnum = d.u32($field)?.try_into()?;
                Self::decode_args(opnum, d)
            }
        }

        impl $crate::Encode for $ArgOp<'_> {
            fn encode(&self, e: &mut $crate::Encoder<'_>) {
                e.u32(self.opnum().number());
                match self { $( Self::$name(args) => $crate::Encode::encode(args, e), )* }
            }
        }

        $(#[$res_meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $ResOp<'a> {
            $( $(#[$meta])* $name($res), )*
        }

        impl<'a> $ResOp<'a> {
            /// The operation that this is the result of.
            #[must_use]
            pub const fn opnum(&self) -> $Opnum {
                match self { $( Self::$name(_) => $Opnum::$name, )* }
            }

            /// How the operation ended.
            #[must_use]
            pub fn status(&self) -> $crate::nfs4::Nfsstat4 {
                match self { $( Self::$name(res) => $crate::nfs4::OpStatus::status(res), )* }
            }

            /// Reads the result of an operation, whose number has been read.
            ///
            /// # Errors
            /// [`DecodeError`](crate::DecodeError).
            pub fn decode_res(
                opnum: $Opnum,
                d: &mut $crate::Decoder<'a>,
            ) -> Result<Self, $crate::DecodeError> {
                Ok(match opnum {
                    $( $Opnum::$name => Self::$name($crate::Decode::decode(d)?), )*
                })
            }
        }

        /// The number, and what it says follows.
        impl<'a> $crate::Decode<'a> for $ResOp<'a> {
            fn decode(d: &mut $crate::Decoder<'a>) -> Result<Self, $crate::DecodeError> {
                let opnum = d.u32($field)?.try_into()?;
                Self::decode_res(opnum, d)
            }
        }

        impl $crate::Encode for $ResOp<'_> {
            fn encode(&self, e: &mut $crate::Encoder<'_>) {
                e.u32(self.opnum().number());
                match self { $( Self::$name(res) => $crate::Encode::encode(res, e), )* }
            }
        }
    };
}

pub(super) use operations;
