//! The port mapper, version 2 (RFC 1833 §3): on which port of this host a program is served.
//!
//! CALLIT, which has the port mapper call another program in the caller's name, is left out: it
//! lends the port mapper's address to anyone.

use crate::nfs3::xdr_struct;
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

/// The port mapper's program, which it shares with rpcbind.
pub const PROGRAM: u32 = 100_000;
/// The version that speaks of ports.
pub const VERSION: u32 = 2;
/// Where the port mapper listens.
pub const PORT: u16 = 111;

/// TCP as a [`Mapping::protocol`].
pub const IPPROTO_TCP: u32 = 6;
/// UDP as a [`Mapping::protocol`].
pub const IPPROTO_UDP: u32 = 17;

/// The procedures of the port mapper, without CALLIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Procedure {
    /// Does nothing.
    Null = 0,
    /// Registers a mapping.
    Set = 1,
    /// Removes the mappings of a program's version.
    Unset = 2,
    /// Looks up a port.
    Getport = 3,
    /// Returns all mappings.
    Dump = 4,
}

/// A call's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Without arguments. Without results.
    Null,
    /// What to register. Gives a boolean: whether it was done.
    Set(Mapping),
    /// What to remove; protocol and port do not matter. Gives a boolean: whether it was done.
    Unset(Mapping),
    /// What to look for; the port does not matter. Gives the port as an unsigned integer, 0 when
    /// there is none.
    Getport(Mapping),
    /// Without arguments. Gives a [`MappingList`].
    Dump,
}

xdr_struct! {
    /// Where a program's version is served: `mapping`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Mapping {
        /// The program.
        pub program: u32,
        /// Its version.
        pub version: u32,
        /// [`IPPROTO_TCP`] or [`IPPROTO_UDP`].
        pub protocol: u32,
        /// The port; a number beyond 65535 decodes, and means nothing.
        pub port: u32,
    }
}

/// The result of DUMP: `pmaplist`, bounded by the record it comes in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MappingList(pub Vec<Mapping>);

impl Procedure {
    /// Every procedure, in the RFC's order.
    pub const ALL: &[Self] = &[
        Self::Null,
        Self::Set,
        Self::Unset,
        Self::Getport,
        Self::Dump,
    ];

    /// The RFC's word, without its prefix.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::Set => "SET",
            Self::Unset => "UNSET",
            Self::Getport => "GETPORT",
            Self::Dump => "DUMP",
        }
    }
}

impl TryFrom<u32> for Procedure {
    type Error = DecodeError;

    fn try_from(value: u32) -> Result<Self, DecodeError> {
        let found = Self::ALL.iter().find(|known| **known as u32 == value);
        found.copied().ok_or(DecodeError::BadValue {
            field: "procedure",
            value,
        })
    }
}

impl Call {
    /// Reads the arguments of `procedure`; the caller checks that nothing is left.
    ///
    /// # Errors
    /// [`DecodeError`], which becomes GARBAGE_ARGS.
    pub fn decode(procedure: Procedure, d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(match procedure {
            Procedure::Null => Self::Null,
            Procedure::Set => Self::Set(Mapping::decode(d)?),
            Procedure::Unset => Self::Unset(Mapping::decode(d)?),
            Procedure::Getport => Self::Getport(Mapping::decode(d)?),
            Procedure::Dump => Self::Dump,
        })
    }

    /// Which procedure this calls.
    #[must_use]
    pub const fn procedure(&self) -> Procedure {
        match self {
            Self::Null => Procedure::Null,
            Self::Set(_) => Procedure::Set,
            Self::Unset(_) => Procedure::Unset,
            Self::Getport(_) => Procedure::Getport,
            Self::Dump => Procedure::Dump,
        }
    }
}

impl Encode for Call {
    fn encode(&self, e: &mut Encoder<'_>) {
        match self {
            Self::Set(mapping) | Self::Unset(mapping) | Self::Getport(mapping) => mapping.encode(e),
            Self::Null | Self::Dump => {}
        }
    }
}

impl Decode<'_> for MappingList {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.list("pmaplist").map(Self)
    }
}

impl Encode for MappingList {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.list(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_support::{check_message, check_message_with, hex};
    use crate::{decode_all, encode_to_vec};

    fn mapping() -> impl Strategy<Value = Mapping> {
        any::<[u32; 4]>().prop_map(|[program, version, protocol, port]| Mapping {
            program,
            version,
            protocol,
            port,
        })
    }

    fn call() -> impl Strategy<Value = Call> {
        prop_oneof![
            Just(Call::Null),
            mapping().prop_map(Call::Set),
            mapping().prop_map(Call::Unset),
            mapping().prop_map(Call::Getport),
            Just(Call::Dump),
        ]
    }

    proptest! {
        #[test]
        fn calls_round_trip(call in call()) {
            check_message_with(&call, |d| Call::decode(call.procedure(), d));
        }

        #[test]
        fn mapping_list_round_trips(list in proptest::collection::vec(mapping(), 0..6)) {
            check_message(&MappingList(list));
        }
    }

    #[test]
    fn procedures_are_0_to_4() {
        for value in 0..10 {
            match Procedure::try_from(value) {
                Ok(procedure) => assert_eq!(procedure as u32, value),
                Err(_) => assert!(value > 4, "{value}"),
            }
        }
        let names: Vec<&str> = Procedure::ALL.iter().map(|known| known.name()).collect();
        assert_eq!(names, ["NULL", "SET", "UNSET", "GETPORT", "DUMP"]);
    }

    #[test]
    fn getport_matches_the_rfc() {
        let bytes = hex("000186a3 00000003 00000006 00000000");
        let mapping = Mapping {
            program: 100_003,
            version: 3,
            protocol: IPPROTO_TCP,
            port: 0,
        };
        let call = Call::decode(Procedure::Getport, &mut Decoder::new(&bytes));
        assert_eq!(call, Ok(Call::Getport(mapping)));
        assert_eq!(encode_to_vec(&Call::Getport(mapping)), bytes);
        let list = hex("00000001 000186a3 00000003 00000006 00000000 00000000");
        assert_eq!(decode_all(&list), Ok(MappingList(vec![mapping])));
    }
}
