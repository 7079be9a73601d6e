//! What has to survive the server: one record for each client that may have state, and the proofs that it
//! is on the disk, or is not any more.
//!
//! A record is written before the reply to the first request that makes state, once for a client, and says: this
//! client had nothing left to reclaim and may hold state of this epoch. It is removed before anything of an
//! expired client is granted to others. A grace period ends by removing all records of earlier epochs. So whoever
//! has a record after a restart holds what it says it holds, and nobody else was given it (RFC 8881 §8.4.3).

use crate::error::Error;
use crate::id::{ClientId, OwnerBytes, Principal};

/// A client, as the disk remembers it. The key is [`Record::owner`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The client's own name.
    pub owner: OwnerBytes,
    /// What the server called it, with the epoch.
    pub client: ClientId,
    /// Who it was: nobody else reclaims in its name.
    pub principal: Principal,
}

impl Record {
    /// The value to be stored under [`Record::owner`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.client.to_wire().to_be_bytes());
        bytes.extend_from_slice(self.principal.as_bytes());
        bytes
    }

    /// Reads what [`Record::encode`] made, of this version or of an earlier one. None for anything else: the
    /// driver says so aloud and goes on without it, as the client can then only be told that it lost its state.
    #[must_use]
    pub fn decode(owner: &[u8], value: &[u8]) -> Option<Self> {
        let (version, rest) = value.split_first()?;
        if *version != VERSION {
            return None;
        }
        let (client, principal) = rest.split_first_chunk::<8>()?;
        Some(Self {
            owner: OwnerBytes::new(owner).ok()?,
            client: ClientId::from_wire(u64::from_be_bytes(*client)),
            principal: Principal::new(principal).ok()?,
        })
    }
}

/// The first byte of a stored record.
const VERSION: u8 = 1;

/// A record that must be removed durably before what its client held is given to anybody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordRemoval {
    /// The key.
    pub owner: OwnerBytes,
    /// The client whose record is meant.
    pub client: ClientId,
}

impl RecordRemoval {
    /// Whether the record that is stored under the key now is the one that is meant. A later life of the client
    /// may have written its own meanwhile, and that one stays.
    #[must_use]
    pub fn applies_to(&self, stored: &Record) -> bool {
        stored.client == self.client
    }
}

/// What a disk that could not be written to means: the request is answered so, and nothing was granted.
pub const NOT_ON_DISK: Error = Error::Delay;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Epoch;

    fn record() -> Record {
        Record {
            owner: OwnerBytes::new(b"Linux NFSv4.1 one").expect("short"),
            client: ClientId {
                epoch: Epoch(3),
                index: 77,
            },
            principal: Principal::new(b"sys:0").expect("short"),
        }
    }

    #[test]
    fn a_record_survives_the_disk() {
        let record = record();
        let stored = record.encode();
        assert_eq!(
            Record::decode(record.owner.as_bytes(), &stored),
            Some(record)
        );
    }

    #[test]
    fn the_first_version_is_read_for_ever() {
        let stored = b"\x01\0\0\0\x03\0\0\0\x4dsys:0";
        assert_eq!(Record::decode(b"Linux NFSv4.1 one", stored), Some(record()));
    }

    #[test]
    fn what_is_cut_or_unknown_is_no_record() {
        let stored = record().encode();
        for length in 0..9 {
            assert_eq!(Record::decode(b"x", &stored[..length]), None);
        }
        let mut other = stored;
        other[0] = 2;
        assert_eq!(Record::decode(b"x", &other), None);
        let long = [&[1; 9][..], &[0; crate::limits::PRINCIPAL_BYTES_MAX + 1]].concat();
        assert_eq!(Record::decode(b"x", &long), None);
    }
}
