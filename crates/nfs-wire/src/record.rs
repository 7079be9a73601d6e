//! Record marking: messages on a byte stream (RFC 5531 §11).
//!
//! A record is one or more fragments, each of them behind four bytes that tell its length and
//! whether it is the last. The length is a peer's claim: memory grows with the bytes that come, or is
//! asked for, and is never allocated for what is only announced.
//!
//! [`Fragments`] knows where the marks are. [`RecordCutter`] puts whole records together on top of it, and
//! leaves out of its memory what is received to a place of its own.

mod cutter;
mod fragments;

pub use cutter::{Hole, Record, RecordCutter, Step, Verdict};
pub use fragments::{Fragments, Position};

use crate::limits::RECORD_FRAGMENTS_MAX;

/// How many bytes a fragment's mark has.
pub const MARK_BYTES: usize = 4;

/// The four bytes before a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FragmentHeader {
    /// Whether the record ends with this fragment.
    pub last: bool,
    /// The fragment's bytes without these four: 0 to [`FragmentHeader::LEN_MAX`].
    pub len: u32,
}

/// What one record may be at most, and what a [`RecordCutter`] does with it at which size. All but
/// the number of fragments are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLimits {
    /// All fragments of a record together, hole included.
    pub record_bytes_max: usize,
    /// Bytes that are put together of a record at most: all of it but its hole.
    pub kept_bytes_max: usize,
    /// How many fragments a record may come in at most.
    pub fragments_max: u32,
    /// A record up to this is not looked at for a hole: copying costs less than a place and a
    /// read of its own.
    pub small_bytes_max: usize,
    /// A record up to this whose rest lies in the bytes at hand is taken without asking for memory.
    pub in_place_bytes_max: usize,
    /// This much of an incomplete record is kept without asking for memory.
    pub unasked_bytes_max: usize,
    /// A hole begins within this, or there is none. At most `unasked_bytes_max`.
    pub head_bytes_max: usize,
    /// What is read at once where the first record begins.
    pub read_ahead_bytes_first: usize,
    /// What is read at once where a record begins, at most.
    pub read_ahead_bytes_max: usize,
}

/// Why a stream cannot be read on: where its next record begins is not known any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// A record would be longer than allowed. Known from a fragment's mark, before its bytes.
    #[error("a record of at least {len} bytes; at most {max} are allowed")]
    TooLarge {
        /// The record's bytes with the fragment that was announced.
        len: u64,
        /// The limit that the record breaks, in bytes.
        max: usize,
    },
    /// A record comes in more fragments than allowed.
    #[error("a record of more than {max} fragments")]
    TooManyFragments {
        /// The limit that the record breaks, in fragments.
        max: u32,
    },
}

impl FragmentHeader {
    /// The longest fragment: 31 bits.
    pub const LEN_MAX: u32 = (1 << 31) - 1;

    /// Reads a header; any four bytes are one.
    #[must_use]
    pub const fn parse(bytes: [u8; MARK_BYTES]) -> Self {
        let word = u32::from_be_bytes(bytes);
        Self {
            last: word > Self::LEN_MAX,
            len: word & Self::LEN_MAX,
        }
    }

    /// The header's bytes.
    ///
    /// # Panics
    /// When `len` is beyond [`FragmentHeader::LEN_MAX`]. No message of ours comes near.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; MARK_BYTES] {
        assert!(self.len <= Self::LEN_MAX, "a fragment beyond 31 bits");
        let last = if self.last { 1 << 31 } else { 0 };
        (self.len | last).to_be_bytes()
    }
}

impl RecordLimits {
    /// Limits for records of at most `record_bytes_max` bytes that have no holes, put together in memory that
    /// grows with the bytes that come.
    #[must_use]
    pub const fn whole(record_bytes_max: usize) -> Self {
        Self {
            record_bytes_max,
            kept_bytes_max: record_bytes_max,
            fragments_max: RECORD_FRAGMENTS_MAX,
            small_bytes_max: record_bytes_max,
            in_place_bytes_max: record_bytes_max,
            unasked_bytes_max: record_bytes_max,
            head_bytes_max: 0,
            read_ahead_bytes_first: record_bytes_max,
            read_ahead_bytes_max: record_bytes_max,
        }
    }
}

/// Takes at most `len` bytes from the front of `bytes`, which keeps the rest.
fn take_front<'a>(bytes: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at_checked(len).unwrap_or((bytes, &[]));
    *bytes = rest;
    taken
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn header_round_trips(bytes: [u8; 4]) {
            let header = FragmentHeader::parse(bytes);
            prop_assert!(header.len <= FragmentHeader::LEN_MAX);
            prop_assert_eq!(header.to_bytes(), bytes);
        }
    }

    #[test]
    fn header_matches_the_rfc() {
        let header = FragmentHeader {
            last: true,
            len: 40,
        };
        assert_eq!(header.to_bytes(), [0x80, 0, 0, 40]);
        assert_eq!(FragmentHeader::parse([0x80, 0, 0, 40]), header);
        assert_eq!(
            FragmentHeader::parse([0x7f, 0xff, 0xff, 0xff]),
            FragmentHeader {
                last: false,
                len: FragmentHeader::LEN_MAX
            }
        );
    }
}
