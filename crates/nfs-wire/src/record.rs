//! Record marking: messages on a byte stream (RFC 5531 §11).
//!
//! A record is one or more fragments, each of them behind four bytes that tell its length and
//! whether it is the last. The length is a peer's claim: memory grows with the bytes that come, never
//! with what is announced.

use crate::limits::{RECORD_BYTES_MAX, RECORD_FRAGMENTS_MAX};

/// The four bytes before a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FragmentHeader {
    /// Whether the record ends with this fragment.
    pub last: bool,
    /// The fragment's bytes without these four: 0 to [`FragmentHeader::LEN_MAX`].
    pub len: u32,
}

/// Puts records together from the bytes of a stream as they arrive.
#[derive(Debug)]
pub struct RecordAssembler {
    limits: RecordLimits,
    state: State,
    /// What the current record holds so far.
    record: Vec<u8>,
    /// How many fragments of the current record have begun.
    fragments: u32,
}

/// What one record may be at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLimits {
    /// Bytes of all fragments together.
    pub record_bytes_max: usize,
    /// Number of fragments.
    pub fragments_max: u32,
}

/// Why a stream cannot be read on: where its next record begins is not known any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// A record would be longer than allowed. Known from the fragment's header, before its bytes.
    #[error("a record of at least {len} bytes; at most {max} are allowed")]
    TooLarge {
        /// The record's bytes with the fragment that was announced.
        len: u64,
        /// The limit.
        max: usize,
    },
    /// A record comes in more fragments than allowed.
    #[error("a record of more than {max} fragments")]
    TooManyFragments {
        /// The limit.
        max: u32,
    },
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Within a header, `have` bytes of which are here.
    Header { bytes: [u8; 4], have: usize },
    /// Within a fragment, `left` bytes of which are to come.
    Fragment { last: bool, left: usize },
    /// Over.
    Failed(RecordError),
}

impl FragmentHeader {
    /// The longest fragment: 31 bits.
    pub const LEN_MAX: u32 = (1 << 31) - 1;

    /// Reads a header; any four bytes are one.
    #[must_use]
    pub const fn parse(bytes: [u8; 4]) -> Self {
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
    pub const fn to_bytes(self) -> [u8; 4] {
        assert!(self.len <= Self::LEN_MAX, "a fragment beyond 31 bits");
        let last = if self.last { 1 << 31 } else { 0 };
        (self.len | last).to_be_bytes()
    }
}

impl Default for RecordLimits {
    fn default() -> Self {
        Self {
            record_bytes_max: RECORD_BYTES_MAX,
            fragments_max: RECORD_FRAGMENTS_MAX,
        }
    }
}

impl RecordAssembler {
    /// Begins with a stream's first byte.
    #[must_use]
    pub const fn new(limits: RecordLimits) -> Self {
        Self {
            limits,
            state: State::START,
            record: Vec::new(),
            fragments: 0,
        }
    }

    /// Takes bytes from the front of `bytes` until a record is complete or none are left. Call it
    /// again with what it left: `None` means that it took everything and wants more.
    ///
    /// A record may be empty.
    ///
    /// # Errors
    /// [`RecordError`] when a record breaks a limit; then on every further call too.
    pub fn feed(&mut self, bytes: &mut &[u8]) -> Result<Option<Vec<u8>>, RecordError> {
        loop {
            match self.state {
                State::Failed(error) => return Err(error),
                State::Fragment { last, left: 0 } => {
                    self.state = State::START;
                    if last {
                        self.fragments = 0;
                        return Ok(Some(core::mem::take(&mut self.record)));
                    }
                }
                _ if bytes.is_empty() => return Ok(None),
                State::Header {
                    bytes: header,
                    have,
                } => {
                    self.state = self.feed_header(header, have, bytes);
                }
                State::Fragment { last, left } => {
                    let taken = take_front(bytes, left);
                    self.record.extend_from_slice(taken);
                    self.state = State::Fragment {
                        last,
                        left: left - taken.len(),
                    };
                }
            }
        }
    }

    fn feed_header(&mut self, mut header: [u8; 4], have: usize, bytes: &mut &[u8]) -> State {
        let taken = take_front(bytes, header.len() - have);
        for (slot, byte) in header.iter_mut().skip(have).zip(taken) {
            *slot = *byte;
        }
        let have = have + taken.len();
        if have < header.len() {
            return State::Header {
                bytes: header,
                have,
            };
        }
        match self.begin_fragment(FragmentHeader::parse(header)) {
            Ok(state) => state,
            Err(error) => {
                self.record = Vec::new();
                State::Failed(error)
            }
        }
    }

    fn begin_fragment(&mut self, header: FragmentHeader) -> Result<State, RecordError> {
        let RecordLimits {
            record_bytes_max,
            fragments_max,
        } = self.limits;
        if self.fragments >= fragments_max {
            return Err(RecordError::TooManyFragments { max: fragments_max });
        }
        self.fragments += 1;
        let too_large = RecordError::TooLarge {
            len: self.record.len() as u64 + u64::from(header.len),
            max: record_bytes_max,
        };
        let left = usize::try_from(header.len).map_err(|_| too_large)?;
        if left > record_bytes_max - self.record.len() {
            return Err(too_large);
        }
        Ok(State::Fragment {
            last: header.last,
            left,
        })
    }

    /// Whether the last record is complete and nothing of the next is here: where a peer may close
    /// the stream without losing anything.
    #[must_use]
    pub const fn is_between_records(&self) -> bool {
        self.fragments == 0 && matches!(self.state, State::Header { have: 0, .. })
    }
}

impl Default for RecordAssembler {
    fn default() -> Self {
        Self::new(RecordLimits::default())
    }
}

impl State {
    const START: Self = Self::Header {
        bytes: [0; 4],
        have: 0,
    };
}

/// At most `len` bytes from the front of `bytes`, which keeps the rest.
fn take_front<'a>(bytes: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at_checked(len).unwrap_or((bytes, &[]));
    *bytes = rest;
    taken
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SMALL: RecordLimits = RecordLimits {
        record_bytes_max: 64,
        fragments_max: 4,
    };

    /// A record of these fragments as it travels.
    fn framed(fragments: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        for (index, fragment) in fragments.iter().enumerate() {
            let header = FragmentHeader {
                last: index + 1 == fragments.len(),
                len: u32::try_from(fragment.len()).unwrap(),
            };
            out.extend(header.to_bytes());
            out.extend_from_slice(fragment);
        }
        out
    }

    /// All the records in `pieces`, which arrive one after the other.
    fn assemble(limits: RecordLimits, pieces: &[&[u8]]) -> Result<Vec<Vec<u8>>, RecordError> {
        let mut assembler = RecordAssembler::new(limits);
        let mut records = Vec::new();
        for mut piece in pieces.iter().copied() {
            while let Some(record) = assembler.feed(&mut piece)? {
                records.push(record);
            }
            assert!(piece.is_empty(), "None means that all was taken");
        }
        Ok(records)
    }

    proptest! {
        #[test]
        fn header_round_trips(bytes: [u8; 4]) {
            let header = FragmentHeader::parse(bytes);
            prop_assert!(header.len <= FragmentHeader::LEN_MAX);
            prop_assert_eq!(header.to_bytes(), bytes);
        }

        #[test]
        fn records_survive_any_fragments_and_pieces(
            records in proptest::collection::vec(
                proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 1..6),
                0..6,
            ),
            piece_len in 1_usize..50,
        ) {
            let mut stream = Vec::new();
            for fragments in &records {
                let fragments: Vec<&[u8]> = fragments.iter().map(Vec::as_slice).collect();
                stream.extend(framed(&fragments));
            }
            let pieces: Vec<&[u8]> = stream.chunks(piece_len).collect();
            let expected: Vec<Vec<u8>> = records.iter().map(|record| record.concat()).collect();
            prop_assert_eq!(assemble(RecordLimits::default(), &pieces), Ok(expected));
        }

        #[test]
        fn any_bytes_keep_to_the_limits(stream in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(records) = assemble(SMALL, &[&stream]) {
                for record in records {
                    prop_assert!(record.len() <= SMALL.record_bytes_max);
                }
            }
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

    #[test]
    fn two_records_split_at_every_byte() {
        let mut stream = framed(&[b"one", b"", b"two"]);
        stream.extend(framed(&[b"three"]));
        for cut in 0..=stream.len() {
            let (front, back) = stream.split_at(cut);
            assert_eq!(
                assemble(SMALL, &[front, back]),
                Ok(vec![b"onetwo".to_vec(), b"three".to_vec()]),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn stream_may_end_between_records_only() {
        let stream = framed(&[b"one", b"two"]);
        for cut in 0..=stream.len() {
            let mut assembler = RecordAssembler::new(SMALL);
            let mut front = &stream[..cut];
            let record = assembler.feed(&mut front).unwrap();
            assert_eq!(record.is_some(), cut == stream.len());
            assert_eq!(
                assembler.is_between_records(),
                cut == 0 || cut == stream.len(),
                "after {cut} bytes"
            );
        }
    }

    #[test]
    fn bytes_after_a_record_are_left() {
        let mut stream = framed(&[b"one"]);
        stream.extend(b"rest");
        let mut bytes = stream.as_slice();
        let record = RecordAssembler::new(SMALL).feed(&mut bytes);
        assert_eq!(record, Ok(Some(b"one".to_vec())));
        assert_eq!(bytes, b"rest");
    }

    #[test]
    fn empty_record_is_a_record() {
        assert_eq!(assemble(SMALL, &[&framed(&[b""])]), Ok(vec![Vec::new()]));
        assert_eq!(
            assemble(SMALL, &[&framed(&[b"", b"", b""])]),
            Ok(vec![Vec::new()])
        );
    }

    #[test]
    fn length_beyond_the_limit_fails_before_its_bytes() {
        let header = FragmentHeader {
            last: true,
            len: 65,
        };
        let error = RecordError::TooLarge { len: 65, max: 64 };
        assert_eq!(assemble(SMALL, &[&header.to_bytes()]), Err(error));
        assert_eq!(
            assemble(SMALL, &[&framed(&[&[7; 64]])]),
            Ok(vec![vec![7; 64]])
        );
    }

    #[test]
    fn length_counts_all_fragments() {
        let stream = framed(&[&[7; 60], &[7; 5]]);
        let error = RecordError::TooLarge { len: 65, max: 64 };
        assert_eq!(assemble(SMALL, &[&stream]), Err(error));
    }

    #[test]
    fn announced_length_is_not_allocated() {
        let header = FragmentHeader {
            last: true,
            len: 1 << 24,
        };
        let mut assembler = RecordAssembler::default();
        let mut bytes = header.to_bytes().to_vec();
        bytes.extend([7; 10]);
        assert_eq!(assembler.feed(&mut bytes.as_slice()), Ok(None));
        assert!(assembler.record.capacity() < 100);
    }

    #[test]
    fn endless_empty_fragments_are_ended() {
        assert!(assemble(SMALL, &[&framed(&[b"", b"", b"", b"x"])]).is_ok());
        assert_eq!(
            assemble(SMALL, &[&framed(&[b"", b"", b"", b"", b"x"])]),
            Err(RecordError::TooManyFragments { max: 4 })
        );
    }

    #[test]
    fn fragments_are_counted_per_record() {
        let stream = framed(&[b"a", b"b", b"c"]).repeat(5);
        assert_eq!(assemble(SMALL, &[&stream]), Ok(vec![b"abc".to_vec(); 5]));
    }

    #[test]
    fn failed_stream_stays_failed() {
        let mut assembler = RecordAssembler::new(SMALL);
        let error = assembler.feed(&mut [0xff; 4].as_slice()).unwrap_err();
        let stream = framed(&[b"one"]);
        assert_eq!(assembler.feed(&mut stream.as_slice()), Err(error));
        assert_eq!(assembler.feed(&mut [].as_slice()), Err(error));
        assert!(!assembler.is_between_records());
    }
}
