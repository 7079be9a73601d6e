//! The attacks, by name.

use std::net::Ipv4Addr;

use clap::ValueEnum;
use serde::Serialize;

/// The address of the polite client.
pub const POLITE: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// The address of a peer that the export admits.
pub const GREEDY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// The network of that address alone, as the configuration names it.
pub const GREEDY_NETWORK: &str = "127.0.0.2";
/// How many silent or half-open connections one attacker has: more than the descriptors of most servers.
pub const CONNECTIONS: usize = 10_000;
/// The address of a peer that no export of ours admits. Ganesha is configured to admit everybody.
pub const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

/// What a hostile or greedy peer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Attack {
    /// Connections that announce a WRITE of 4 MiB to a handle that is none, and send it slowly.
    WriteHeads,
    /// The slow WRITEs of a host that no export admits.
    WriteHeadsOfAStranger,
    /// Connections that say nothing, as many as there may be.
    IdleConnections,
    /// The silent connections of a host that no export admits.
    IdleConnectionsOfAStranger,
    /// Connections that stop in the middle of a record's mark, as many as there may be.
    HalfOpen,
    /// Connections that send bytes at random until the server ends them.
    Noise,
    /// Connections that ask for READs of 1 MiB and take the replies slowly.
    SlowReaders,
    /// Connections with a thousand READDIRPLUS each, closed as soon as these are sent, over and over.
    Bursts,
    /// Files made and removed, as fast as the server does it, hundreds of calls in flight.
    Names,
    /// Small WRITEs that have to be on stable storage, hundreds in flight.
    StableWrites,
    /// READs of 1 MiB over 16 connections, 64 in flight.
    ReadStream,
    /// UNSTABLE WRITEs of 1 MiB over 16 connections, 64 in flight.
    WriteStream,
}

impl Attack {
    /// Every attack, in the order of the report.
    pub const ALL: [Self; 12] = [
        Self::WriteHeads,
        Self::WriteHeadsOfAStranger,
        Self::IdleConnections,
        Self::IdleConnectionsOfAStranger,
        Self::HalfOpen,
        Self::Noise,
        Self::SlowReaders,
        Self::Bursts,
        Self::Names,
        Self::StableWrites,
        Self::ReadStream,
        Self::WriteStream,
    ];

    /// The attack's name on the command line and in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::WriteHeads => "write-heads",
            Self::WriteHeadsOfAStranger => "write-heads-of-a-stranger",
            Self::IdleConnections => "idle-connections",
            Self::IdleConnectionsOfAStranger => "idle-connections-of-a-stranger",
            Self::HalfOpen => "half-open",
            Self::Noise => "noise",
            Self::SlowReaders => "slow-readers",
            Self::Bursts => "bursts",
            Self::Names => "names",
            Self::StableWrites => "stable-writes",
            Self::ReadStream => "read-stream",
            Self::WriteStream => "write-stream",
        }
    }

    /// The address that it comes from.
    pub fn from(self) -> Ipv4Addr {
        match self {
            Self::WriteHeadsOfAStranger | Self::IdleConnectionsOfAStranger => STRANGER,
            Self::WriteHeads
            | Self::IdleConnections
            | Self::HalfOpen
            | Self::Noise
            | Self::SlowReaders
            | Self::Bursts
            | Self::Names
            | Self::StableWrites
            | Self::ReadStream
            | Self::WriteStream => GREEDY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line() {
        for attack in Attack::ALL {
            assert_eq!(Attack::from_str(attack.name(), false), Ok(attack));
        }
    }
}
