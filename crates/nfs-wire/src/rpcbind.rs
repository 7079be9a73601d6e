//! rpcbind, versions 3 and 4 (RFC 1833 §2): at which address a program is served.
//!
//! The procedures that a program's own registration and its clients need. Those that call another
//! program for the caller, and the statistics, are left out.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::limits::RPCBIND_STRING_BYTES_MAX;
pub use crate::portmap::{PORT, PROGRAM};
use crate::xdr::define::procedures;
use crate::xdr::{Decode, DecodeError, Decoder, Encode, Encoder};

/// The first version that speaks of universal addresses.
pub const VERSION_3: u32 = 3;
/// The version of rpcbind that adds GETVERSADDR.
pub const VERSION_4: u32 = 4;

/// The network id of TCP over IPv4 (RFC 5665 §5.1).
pub const NETID_TCP: &[u8] = b"tcp";
/// The network id of TCP over IPv6.
pub const NETID_TCP6: &[u8] = b"tcp6";
/// The network id of UDP over IPv4.
pub const NETID_UDP: &[u8] = b"udp";
/// The network id of UDP over IPv6.
pub const NETID_UDP6: &[u8] = b"udp6";

procedures! {
    /// The procedures of rpcbind that are known here.
    pub enum Procedure;

    /// A call of any procedure, with its arguments. Which version has it, the caller checks.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Call<'a>;

    /// Does nothing, and so tells that the program is there.
    Null = 0 "NULL" (()),
    /// Registers a service. Gives a boolean: whether it was done.
    Set = 1 "SET" (Rpcb<'a>),
    /// Removes a registration; with an empty network id, on all networks. Gives a boolean: whether it
    /// was done.
    Unset = 2 "UNSET" (Rpcb<'a>),
    /// Looks up an address, a [`UniversalAddress`]; in version 4 any version of the program will do.
    Getaddr = 3 "GETADDR" (Rpcb<'a>),
    /// Returns all registrations: an [`RpcbList`].
    Dump = 4 "DUMP" (()),
    /// Looks up the address of exactly the version asked for. Version 4 only.
    Getversaddr = 9 "GETVERSADDR" (Rpcb<'a>),
}

/// Where a program's version is served: `rpcb`. Its strings hold at most
/// [`RPCBIND_STRING_BYTES_MAX`] bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rpcb<'a> {
    /// The number of the program that is registered.
    pub program: u32,
    /// The version of the program that is registered.
    pub version: u32,
    /// The network, such as [`NETID_TCP`].
    pub netid: &'a [u8],
    /// The address on that network.
    pub address: UniversalAddress<'a>,
    /// Who registered it: a user's name, or a number.
    pub owner: &'a [u8],
}

/// A universal address as it travels; empty where there is none. [`UniversalAddress::socket_addr`]
/// reads those of TCP and UDP, and [`to_universal_address`] writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UniversalAddress<'a>(pub &'a [u8]);

/// The result of DUMP: `rpcblist_ptr`, bounded by the record it comes in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RpcbList<'a>(pub Vec<Rpcb<'a>>);

/// Writes the universal address of a TCP or UDP socket: the address, then the port's high and low byte
/// in decimal, with dots between (RFC 5665 §5.2.3). The scope of an IPv6 address has no place in it.
#[must_use]
pub fn to_universal_address(address: SocketAddr) -> String {
    let [high, low] = address.port().to_be_bytes();
    format!("{}.{high}.{low}", address.ip())
}

impl UniversalAddress<'_> {
    /// The address of a TCP or UDP socket, or `None` when this is not one: another network's address,
    /// an IPv6 address with a scope, an empty or broken one.
    #[must_use]
    pub fn socket_addr(&self) -> Option<SocketAddr> {
        let text = core::str::from_utf8(self.0).ok()?;
        let (rest, low) = text.rsplit_once('.')?;
        let (host, high) = rest.rsplit_once('.')?;
        let ip = match host.parse::<Ipv4Addr>() {
            Ok(v4) => IpAddr::V4(v4),
            Err(_) => IpAddr::V6(host.parse::<Ipv6Addr>().ok()?),
        };
        let port = u16::from_be_bytes([decimal_byte(high)?, decimal_byte(low)?]);
        Some(SocketAddr::new(ip, port))
    }
}

/// A byte as digits alone: the standard library would take a sign as well.
fn decimal_byte(text: &str) -> Option<u8> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

impl<'a> Decode<'a> for Rpcb<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            program: d.u32("r_prog")?,
            version: d.u32("r_vers")?,
            netid: d.opaque(RPCBIND_STRING_BYTES_MAX, "r_netid")?,
            address: UniversalAddress::decode(d)?,
            owner: d.opaque(RPCBIND_STRING_BYTES_MAX, "r_owner")?,
        })
    }
}

impl Encode for Rpcb<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.u32(self.program);
        e.u32(self.version);
        e.opaque(self.netid);
        self.address.encode(e);
        e.opaque(self.owner);
    }
}

impl<'a> Decode<'a> for UniversalAddress<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        d.opaque(RPCBIND_STRING_BYTES_MAX, "r_addr").map(Self)
    }
}

impl Encode for UniversalAddress<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.opaque(self.0);
    }
}

impl<'a> Decode<'a> for RpcbList<'a> {
    fn decode(d: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        d.list("rpcblist").map(Self)
    }
}

impl Encode for RpcbList<'_> {
    fn encode(&self, e: &mut Encoder<'_>) {
        e.list(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_support::{bytes, check_message, check_message_with, hex};
    use crate::{decode_all, encode_to_vec};

    fn rpcb() -> impl Strategy<Value = Rpcb<'static>> {
        let strings = (bytes(20), bytes(40), bytes(20));
        (any::<(u32, u32)>(), strings).prop_map(|((program, version), (netid, address, owner))| {
            let address = UniversalAddress(address);
            Rpcb {
                program,
                version,
                netid,
                address,
                owner,
            }
        })
    }

    fn call() -> impl Strategy<Value = Call<'static>> {
        prop_oneof![
            Just(Call::Null(())),
            rpcb().prop_map(Call::Set),
            rpcb().prop_map(Call::Unset),
            rpcb().prop_map(Call::Getaddr),
            Just(Call::Dump(())),
            rpcb().prop_map(Call::Getversaddr),
        ]
    }

    proptest! {
        #[test]
        fn calls_round_trip(call in call()) {
            check_message_with(&call, |d| Call::decode(call.procedure(), d));
        }

        #[test]
        fn rpcb_list_round_trips(list in proptest::collection::vec(rpcb(), 0..4)) {
            check_message(&RpcbList(list));
        }

        #[test]
        fn universal_address_round_trips(ip: core::net::IpAddr, port: u16) {
            let address = SocketAddr::new(ip, port);
            let text = to_universal_address(address);
            let universal = UniversalAddress(text.as_bytes());
            prop_assert_eq!(universal.socket_addr(), Some(address));
        }

        #[test]
        fn any_bytes_are_an_address_or_not(text in bytes(60)) {
            let _ = UniversalAddress(text).socket_addr();
        }
    }

    #[test]
    fn universal_addresses_match_the_rfc() {
        for (text, address) in [
            ("10.1.3.7.2.3", "10.1.3.7:515"),
            ("0.0.0.0.8.1", "0.0.0.0:2049"),
            ("127.0.0.1.0.111", "127.0.0.1:111"),
            ("::.8.1", "[::]:2049"),
            ("::1.255.255", "[::1]:65535"),
            ("::ffff:10.1.3.7.0.1", "[::ffff:10.1.3.7]:1"),
        ] {
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(to_universal_address(address), text);
            assert_eq!(
                UniversalAddress(text.as_bytes()).socket_addr(),
                Some(address)
            );
        }
    }

    #[test]
    fn what_is_no_socket_address_gives_none() {
        for text in [
            "",
            ".",
            "..",
            "8.1",
            "127.0.0.1",
            "127.0.0.1.8",
            "127.0.0.1.8.256",
            "127.0.0.1.8.-1",
            "127.0.0.1.+8.1",
            "127.0.0.1.8.",
            "127.0.0.1.8.1 ",
            "fe80::1%eth0.8.1",
            "/run/rpcbind.sock",
        ] {
            assert_eq!(
                UniversalAddress(text.as_bytes()).socket_addr(),
                None,
                "{text}"
            );
        }
        assert_eq!(UniversalAddress(b"\xff.8.1").socket_addr(), None);
    }

    #[test]
    fn procedures_are_those_known() {
        for value in 0..16 {
            match Procedure::try_from(value) {
                Ok(procedure) => assert_eq!(procedure as u32, value),
                Err(_) => assert!(![0, 1, 2, 3, 4, 9].contains(&value), "{value}"),
            }
        }
        let names: Vec<&str> = Procedure::ALL.iter().map(|known| known.name()).collect();
        assert_eq!(
            names,
            ["NULL", "SET", "UNSET", "GETADDR", "DUMP", "GETVERSADDR"]
        );
    }

    #[test]
    fn getaddr_matches_the_rfc() {
        let bytes = hex("000186a3 00000003 00000003 74637000 00000000 00000000");
        let rpcb = Rpcb {
            program: 100_003,
            version: 3,
            netid: NETID_TCP,
            address: UniversalAddress(b""),
            owner: b"",
        };
        let call = Call::decode(Procedure::Getaddr, &mut Decoder::new(&bytes));
        assert_eq!(call, Ok(Call::Getaddr(rpcb)));
        assert_eq!(encode_to_vec(&Call::Getaddr(rpcb)), bytes);
    }

    #[test]
    fn string_of_256_bytes_is_too_long() {
        let bytes = hex("00000001 00000001 00000100");
        assert!(matches!(
            decode_all::<Rpcb<'_>>(&bytes),
            Err(DecodeError::TooLong {
                field: "r_netid",
                ..
            })
        ));
    }
}
