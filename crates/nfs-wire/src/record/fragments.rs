//! Where a stream's next byte belongs: to a mark, to a fragment, or to the next record.

use super::{FragmentHeader, MARK_BYTES, RecordError, take_front};

/// Reads the marks of a stream and counts the bytes between them. Holds no byte of a record: who uses it
/// takes these from the stream by itself and says how many, or leaves that to a
/// [`RecordCutter`](super::RecordCutter).
#[derive(Clone, Debug)]
pub struct Fragments {
    record_bytes_max: usize,
    fragments_max: u32,
    mark: [u8; MARK_BYTES],
    mark_have: usize,
    left: usize,
    last: bool,
    count: u32,
    /// Bytes of the current record that its marks have announced so far.
    announced: usize,
    failed: Option<RecordError>,
}

/// What the next byte of a stream is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// A mark, which is not here as a whole.
    Mark {
        /// Bytes of it that are to come, 1 to 4.
        missing: usize,
    },
    /// The bytes of a fragment, behind its mark.
    Fragment {
        /// Bytes of it that are to come, at least 1.
        left: usize,
        /// Whether the record ends with the fragment.
        last: bool,
    },
    /// The record is complete, and the next byte is of the next record's mark.
    End,
}

impl Fragments {
    /// Begins with a stream's first byte. `record_bytes_max` bounds the bytes of one record,
    /// `fragments_max` the number of its fragments.
    #[must_use]
    pub const fn new(record_bytes_max: usize, fragments_max: u32) -> Self {
        Self {
            record_bytes_max,
            fragments_max,
            mark: [0; MARK_BYTES],
            mark_have: 0,
            left: 0,
            last: false,
            count: 0,
            announced: 0,
            failed: None,
        }
    }

    /// Says where the stream's next byte belongs, after a mark has been taken from the front of `bytes`
    /// if one is due. [`Position::End`] is said once for each record.
    ///
    /// # Errors
    /// [`RecordError`] when a mark breaks a limit; then on every further call too.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Result<Position, RecordError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        while self.left == 0 {
            if self.last {
                self.end_record();
                return Ok(Position::End);
            }
            let taken = take_front(bytes, MARK_BYTES - self.mark_have);
            // Nearly all marks are here as a whole.
            match taken.first_chunk() {
                Some(whole) => self.mark = *whole,
                None => {
                    for (slot, byte) in self.mark.iter_mut().skip(self.mark_have).zip(taken) {
                        *slot = *byte;
                    }
                }
            }
            self.mark_have += taken.len();
            if self.mark_have < MARK_BYTES {
                let missing = MARK_BYTES - self.mark_have;
                return Ok(Position::Mark { missing });
            }
            self.mark_have = 0;
            if let Err(error) = self.begin(FragmentHeader::parse(self.mark)) {
                return Err(self.fail(error));
            }
        }
        Ok(Position::Fragment {
            left: self.left,
            last: self.last,
        })
    }

    /// Says that `len` bytes of the fragment were taken from the stream.
    ///
    /// # Panics
    /// When the fragment has fewer left, which is a mistake of the caller.
    pub fn take(&mut self, len: usize) {
        assert!(len <= self.left, "more than the fragment's bytes are taken");
        self.left -= len;
    }

    /// Whether the last record is complete and nothing of the next is here: where a peer may close
    /// the stream without losing anything.
    #[must_use]
    pub const fn is_between_records(&self) -> bool {
        self.count == 0 && self.mark_have == 0 && self.failed.is_none()
    }

    /// How many fragments of the current record have begun.
    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    /// Bytes of the current fragment that are to come; 0 within a mark.
    pub(super) const fn left(&self) -> usize {
        self.left
    }

    /// Bytes of a mark that are here.
    pub(super) const fn mark_have(&self) -> usize {
        self.mark_have
    }

    /// Begins a new record behind the bytes taken so far.
    pub(super) const fn end_record(&mut self) {
        self.last = false;
        self.count = 0;
        self.announced = 0;
    }

    /// Makes every further call fail with `error`, which it returns.
    pub(super) const fn fail(&mut self, error: RecordError) -> RecordError {
        self.failed = Some(error);
        error
    }

    fn begin(&mut self, header: FragmentHeader) -> Result<(), RecordError> {
        if self.count >= self.fragments_max {
            let max = self.fragments_max;
            return Err(RecordError::TooManyFragments { max });
        }
        self.count += 1;
        let too_large = RecordError::TooLarge {
            len: self.announced as u64 + u64::from(header.len),
            max: self.record_bytes_max,
        };
        let left = usize::try_from(header.len).map_err(|_| too_large)?;
        if left > self.record_bytes_max - self.announced {
            return Err(too_large);
        }
        self.announced += left;
        self.left = left;
        self.last = header.last;
        Ok(())
    }
}
