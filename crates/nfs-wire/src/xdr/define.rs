//! What defines messages: each is written down once, and is read and written by that.

/// Defines a message as a struct whose fields are encoded and decoded in order.
macro_rules! xdr_struct {
    (
        $(#[$meta:meta])*
        pub struct $name:ident $(<$life:lifetime>)? {
            $( $(#[$field_meta:meta])* pub $field:ident : $type:ty ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        pub struct $name $(<$life>)? {
            $( $(#[$field_meta])* pub $field: $type, )*
        }

        $crate::xdr::define::xdr_struct!(@decode $name, ($($life)?), $($field),*);

        impl $(<$life>)? $crate::Encode for $name $(<$life>)? {
            fn encode(&self, e: &mut $crate::Encoder<'_>) {
                $( $crate::Encode::encode(&self.$field, e); )*
            }
        }
    };
    (@decode $name:ident, (), $($field:ident),*) => {
        impl $crate::Decode<'_> for $name {
            fn decode(d: &mut $crate::Decoder<'_>) -> Result<Self, $crate::DecodeError> {
                Ok(Self {
                    $( $field: $crate::Decode::decode(d)
                        .map_err(|error: $crate::DecodeError| error.within(stringify!($field)))?, )*
                })
            }
        }
    };
    (@decode $name:ident, ($life:lifetime), $($field:ident),*) => {
        impl<$life> $crate::Decode<$life> for $name<$life> {
            fn decode(d: &mut $crate::Decoder<$life>) -> Result<Self, $crate::DecodeError> {
                Ok(Self {
                    $( $field: $crate::Decode::decode(d)
                        .map_err(|error: $crate::DecodeError| error.within(stringify!($field)))?, )*
                })
            }
        }
    };
}

/// Defines an enumeration of the wire, whose values are read by `TryFrom` and by `Decode`.
macro_rules! xdr_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident as $field:literal {
            $( $(#[$variant_meta:meta])* $variant:ident = $value:literal, )*
        }
    ) => {
        $(#[$meta])*
        pub enum $name {
            $( $(#[$variant_meta])* $variant = $value, )*
        }

        impl TryFrom<u32> for $name {
            type Error = $crate::DecodeError;

            fn try_from(value: u32) -> Result<Self, $crate::DecodeError> {
                match value {
                    $( $value => Ok(Self::$variant), )*
                    value => Err($crate::DecodeError::BadValue { field: $field, value }),
                }
            }
        }

        impl $crate::Decode<'_> for $name {
            fn decode(d: &mut $crate::Decoder<'_>) -> Result<Self, $crate::DecodeError> {
                d.u32($field)?.try_into()
            }
        }

        impl $crate::Encode for $name {
            fn encode(&self, e: &mut $crate::Encoder<'_>) {
                e.u32(*self as u32);
            }
        }
    };
}

/// Defines a discriminated union (RFC 4506 §4.15): an enumeration whose variants say what follows their number.
macro_rules! xdr_union {
    (
        $(#[$meta:meta])*
        pub enum $name:ident $(<$life:lifetime>)? as $field:literal {
            $( $(#[$variant_meta:meta])* $variant:ident $(($type:ty))? = $value:literal, )*
        }
    ) => {
        $(#[$meta])*
        pub enum $name $(<$life>)? {
            $( $(#[$variant_meta])* $variant $(($type))?, )*
        }

        $crate::xdr::define::xdr_union!(@decode $name, ($($life)?), $field,
            $( $variant $(($type))? = $value, )*);

        impl $(<$life>)? $crate::Encode for $name $(<$life>)? {
            fn encode(&self, e: &mut $crate::Encoder<'_>) {
                match self {
                    $( Self::$variant $(($crate::xdr::define::xdr_union!(@bind value $type)))? => {
                        e.u32($value);
                        $( $crate::xdr::define::xdr_union!(@encode value, e, $type) )?
                    } )*
                }
            }
        }
    };
    (@bind $value:ident $type:ty) => { $value };
    (@encode $value:ident, $e:ident, $type:ty) => { <$type as $crate::Encode>::encode($value, $e) };
    (@decode $name:ident, (), $field:literal,
        $( $variant:ident $(($type:ty))? = $value:literal, )*) => {
        impl $crate::Decode<'_> for $name {
            fn decode(d: &mut $crate::Decoder<'_>) -> Result<Self, $crate::DecodeError> {
                Ok(match d.u32($field)? {
                    $( $value => Self::$variant $((<$type as $crate::Decode>::decode(d)?))?, )*
                    value => return Err($crate::DecodeError::BadValue { field: $field, value }),
                })
            }
        }
    };
    (@decode $name:ident, ($life:lifetime), $field:literal,
        $( $variant:ident $(($type:ty))? = $value:literal, )*) => {
        impl<$life> $crate::Decode<$life> for $name<$life> {
            fn decode(d: &mut $crate::Decoder<$life>) -> Result<Self, $crate::DecodeError> {
                Ok(match d.u32($field)? {
                    $( $value => Self::$variant $((<$type as $crate::Decode>::decode(d)?))?, )*
                    value => return Err($crate::DecodeError::BadValue { field: $field, value }),
                })
            }
        }
    };
}

/// Defines variable-length opaque data or a string of bounded length, which is borrowed from the message.
macro_rules! xdr_opaque {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident<'a> as $field:literal, $max:expr;
    )*) => { $(
        $(#[$meta])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name<'a>(pub &'a [u8]);

        impl<'a> $crate::Decode<'a> for $name<'a> {
            fn decode(d: &mut $crate::Decoder<'a>) -> Result<Self, $crate::DecodeError> {
                d.opaque($max, $field).map(Self)
            }
        }

        impl $crate::Encode for $name<'_> {
            fn encode(&self, e: &mut $crate::Encoder<'_>) {
                e.opaque(self.0);
            }
        }

        impl ::core::fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                write!(f, "\"{}\"", self.0.escape_ascii())
            }
        }
    )* };
}

/// Defines fixed-length opaque data, which is copied out of the message.
macro_rules! xdr_fixed {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident([u8; $len:expr]) as $field:literal;
    )*) => { $(
        $(#[$meta])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; $len]);

        impl $crate::Decode<'_> for $name {
            fn decode(d: &mut $crate::Decoder<'_>) -> Result<Self, $crate::DecodeError> {
                d.opaque_fixed($field).map(Self)
            }
        }

        impl $crate::Encode for $name {
            fn encode(&self, e: &mut $crate::Encoder<'_>) {
                e.opaque_fixed(&self.0);
            }
        }

        impl ::core::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    )* };
}

/// Defines a program's procedures and their calls: for each its variant, number, RFC word and arguments.
macro_rules! procedures {
    (
        $(#[$procedure_meta:meta])*
        pub enum Procedure;
        $(#[$call_meta:meta])*
        pub enum Call $(<$life:lifetime>)?;
        $( $(#[$meta:meta])* $name:ident = $value:literal $word:literal ($args:ty), )*
    ) => {
        $(#[$procedure_meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Procedure {
            $( $(#[$meta])* $name = $value, )*
        }

        impl Procedure {
            /// Every procedure that is known here, in the RFC's order.
            pub const ALL: &[Self] = &[$( Self::$name ),*];

            /// The name that the RFC gives the procedure.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $( Self::$name => $word, )* }
            }
        }

        impl TryFrom<u32> for Procedure {
            type Error = $crate::DecodeError;

            fn try_from(value: u32) -> Result<Self, $crate::DecodeError> {
                match value {
                    $( $value => Ok(Self::$name), )*
                    value => Err($crate::DecodeError::BadValue { field: "procedure", value }),
                }
            }
        }

        $(#[$call_meta])*
        pub enum Call $(<$life>)? {
            $( $(#[$meta])* $name($args), )*
        }

        $crate::xdr::define::procedures!(@decode ($($life)?) $($name)*);

        impl $(<$life>)? Call $(<$life>)? {
            /// The procedure that this is a call of.
            #[must_use]
            pub const fn procedure(&self) -> Procedure {
                match self { $( Self::$name(_) => Procedure::$name, )* }
            }
        }

        impl $(<$life>)? $crate::Encode for Call $(<$life>)? {
            fn encode(&self, e: &mut $crate::Encoder<'_>) {
                match self { $( Self::$name(args) => $crate::Encode::encode(args, e), )* }
            }
        }
    };
    (@decode () $($name:ident)*) => {
        impl Call {
            /// Reads the arguments of a procedure; the caller checks that nothing is left.
            ///
            /// # Errors
            /// [`DecodeError`](crate::DecodeError), which becomes GARBAGE_ARGS.
            pub fn decode(
                procedure: Procedure,
                d: &mut $crate::Decoder<'_>,
            ) -> Result<Self, $crate::DecodeError> {
                Ok(match procedure {
                    $( Procedure::$name => Self::$name($crate::Decode::decode(d)?), )*
                })
            }
        }
    };
    (@decode ($life:lifetime) $($name:ident)*) => {
        impl<$life> Call<$life> {
            /// Reads the arguments of a procedure; the caller checks that nothing is left.
            ///
            /// # Errors
            /// [`DecodeError`](crate::DecodeError), which becomes GARBAGE_ARGS.
            pub fn decode(
                procedure: Procedure,
                d: &mut $crate::Decoder<$life>,
            ) -> Result<Self, $crate::DecodeError> {
                Ok(match procedure {
                    $( Procedure::$name => Self::$name($crate::Decode::decode(d)?), )*
                })
            }
        }
    };
}

pub(crate) use {procedures, xdr_enum, xdr_fixed, xdr_opaque, xdr_struct, xdr_union};
