//! Which versions of NFS are served: by the server as a whole, and to the clients of a rule.

use std::fmt;

use nfs_wire::{mount3, nfs3, nfs4, nlm4};

/// A version of NFS that this server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NfsVersion {
    /// NFSv3 (RFC 1813), with MOUNT.
    V3,
    /// NFSv4.1 (RFC 8881).
    V41,
    /// NFSv4.2 (RFC 7862).
    V42,
}

impl NfsVersion {
    /// The words that the configuration has for the values, the oldest version first.
    pub const WORDS: &'static [(&'static str, Self)] =
        &[("3", Self::V3), ("4.1", Self::V41), ("4.2", Self::V42)];

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of versions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Versions(u8);

impl Versions {
    /// No version at all.
    pub const NONE: Self = Self(0);
    /// NFSv3 alone.
    pub const V3: Self = Self(NfsVersion::V3.bit());
    /// Every version that this server speaks: what a server serves that was told nothing.
    pub const ALL: Self = Self::V3.with(NfsVersion::V41).with(NfsVersion::V42);

    /// This set and one version more.
    #[must_use]
    pub const fn with(self, version: NfsVersion) -> Self {
        Self(self.0 | version.bit())
    }

    /// The versions of this set that are not in the other.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The versions that both sets have.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Is the version in the set?
    #[must_use]
    pub const fn contains(self, version: NfsVersion) -> bool {
        self.0 & version.bit() != 0
    }

    /// Is a minor version of NFSv4 in the set?
    #[must_use]
    pub const fn has_v4(self) -> bool {
        self.contains(NfsVersion::V41) || self.contains(NfsVersion::V42)
    }

    /// Is nothing in the set?
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The RPC programs that serve these versions, each with its version, as rpcbind and portmap know them: NFS itself,
    /// and with NFSv3 MOUNT and the lock manager.
    #[must_use]
    pub fn programs(self) -> Vec<(u32, u32)> {
        let mut programs = Vec::new();
        if self.contains(NfsVersion::V3) {
            programs.push((nfs3::PROGRAM, nfs3::VERSION));
        }
        if self.has_v4() {
            programs.push((nfs4::PROGRAM, nfs4::VERSION));
        }
        if self.contains(NfsVersion::V3) {
            programs.push((mount3::PROGRAM, mount3::VERSION));
            programs.push((nlm4::PROGRAM, nlm4::VERSION));
        }
        programs
    }

    /// The versions in the set, the oldest first, as the configuration writes them.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        let words = NfsVersion::WORDS.iter();
        words.filter_map(move |(word, version)| self.contains(*version).then_some(*word))
    }
}

/// As they are said: `3, 4.1`.
impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.words().collect();
        f.write_str(&words.join(", "))
    }
}

impl fmt::Debug for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{self}]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_versions_says_what_is_in_it() {
        assert_eq!(Versions::ALL.to_string(), "3, 4.1, 4.2");
        assert_eq!(Versions::V3.to_string(), "3");
        assert!(!Versions::V3.has_v4() && Versions::ALL.has_v4());
        let four = Versions::ALL.without(Versions::V3);
        assert!(!four.contains(NfsVersion::V3) && four.contains(NfsVersion::V42));
        assert!(four.without(Versions::ALL).is_empty());
    }
}
