//! An address as far as one host cannot choose it, which is what shares, quotas and blocks are counted by.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// An IPv4 address, or the first half of an IPv6 address: of the second half a host takes what it likes.
/// An IPv4 address written as IPv6 (`::ffff:10.0.0.1`) is the IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Network(IpAddr);

impl Network {
    /// The network that `addr` is counted under.
    pub(crate) fn of(addr: IpAddr) -> Self {
        Self(match addr.to_canonical() {
            IpAddr::V4(v4) => IpAddr::V4(v4),
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
        })
    }
}

impl Network {
    /// The network as a number, of which the last 64 bits are 0 or those of an IPv4 address in IPv6.
    pub(crate) const fn number(self) -> u128 {
        match self.0 {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
            IpAddr::V6(v6) => v6.to_bits(),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(v4) => write!(f, "{v4}"),
            IpAddr::V6(v6) => write!(f, "{v6}/64"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(addr: &str) -> Network {
        Network::of(addr.parse().unwrap())
    }

    #[test]
    fn a_host_is_one_network_whatever_it_calls_itself() {
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:0:2"));
        assert_eq!(network("10.0.0.1"), network("::ffff:10.0.0.1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_ne!(network("10.0.0.1"), network("10.0.0.2"));
    }

    #[test]
    fn it_is_shown_as_an_operator_writes_it() {
        assert_eq!(network("::ffff:10.0.0.1").to_string(), "10.0.0.1");
        assert_eq!(network("2001:db8::1").to_string(), "2001:db8::/64");
    }
}
