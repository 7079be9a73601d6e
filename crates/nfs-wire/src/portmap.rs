//! The port mapper, version 2 (RFC 1833 §3): on which port of this host a program is served.
//!
//! CALLIT, which has the port mapper call another program in the caller's name, is left out: it
//! lends the port mapper's address to anyone.

use crate::xdr::define::{procedures, xdr_struct};
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

/// The port mapper's program, which it shares with rpcbind.
pub const PROGRAM: u32 = 100_000;
/// The version that speaks of ports.
pub const VERSION: u32 = 2;
/// The port that the port mapper listens on, of TCP and of UDP.
pub const PORT: u16 = 111;

/// The number that stands for TCP as a [`Mapping::protocol`].
pub const IPPROTO_TCP: u32 = 6;
/// The number that stands for UDP as a [`Mapping::protocol`].
pub const IPPROTO_UDP: u32 = 17;

procedures! {
    /// The procedures of the port mapper, without CALLIT.
    pub enum Procedure;

    /// A call of any procedure, with its arguments.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Call;

    /// Does nothing, and so tells that the program is there.
    Null = 0 "NULL" (()),
    /// Registers a mapping. Gives a boolean: whether it was done.
    Set = 1 "SET" (Mapping),
    /// Removes the mappings of a program's version; protocol and port do not matter. Gives a boolean:
    /// whether it was done.
    Unset = 2 "UNSET" (Mapping),
    /// Looks up a port; the one that is given does not matter. Gives the port as an unsigned integer, 0
    /// when there is none.
    Getport = 3 "GETPORT" (Mapping),
    /// Returns all mappings: a [`MappingList`].
    Dump = 4 "DUMP" (()),
}

xdr_struct! {
    /// Where a program's version is served: `mapping`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Mapping {
        /// The number of the program that is registered.
        pub program: u32,
        /// The version of the program that is registered.
        pub version: u32,
        /// What it is reached by: [`IPPROTO_TCP`] or [`IPPROTO_UDP`].
        pub protocol: u32,
        /// The port; a number beyond 65535 decodes, and means nothing.
        pub port: u32,
    }
}

/// The result of DUMP: `pmaplist`, bounded by the record it comes in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MappingList(pub Vec<Mapping>);

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
            Just(Call::Null(())),
            mapping().prop_map(Call::Set),
            mapping().prop_map(Call::Unset),
            mapping().prop_map(Call::Getport),
            Just(Call::Dump(())),
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
