//! How a range of a file is moved: a pure function from what is asked and what is possible to at
//! most three segments. No file, no clock, no memory is touched here.
//!
//! The segments are in ascending order and cover the range exactly: an unaligned head, an
//! aligned middle, an unaligned tail, where the way of moving the bytes distinguishes these.
//! Moving through the page cache does not; it is the only way so far.

use std::ops::Range;

use crate::limits::SEGMENTS_MAX;

/// How bytes travel between memory and disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Through the page cache, and kept there.
    Buffered,
}

/// One contiguous part of the range, moved in one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Bytes of the file: `start..end`, never empty.
    pub file: Range<u64>,
    /// How it is moved.
    pub mode: Mode,
}

/// The segments for one read or write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    segments: [Option<Segment>; SEGMENTS_MAX],
}

impl Plan {
    /// The segments in ascending order; none for an empty range.
    pub fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().flatten()
    }
}

/// Plans the move of `len` bytes at `offset`. `None` where the range would pass 2^63 - 1, the
/// end of any file.
#[must_use]
pub fn plan(mode: Mode, offset: u64, len: u64) -> Option<Plan> {
    let end = offset
        .checked_add(len)
        .filter(|&end| i64::try_from(end).is_ok())?;
    let mut plan = Plan::default();
    if len > 0 {
        match mode {
            Mode::Buffered => {
                plan.segments[0] = Some(Segment {
                    file: offset..end,
                    mode,
                })
            }
        }
    }
    Some(plan)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn segments_cover_the_range_exactly(
            offset in prop_oneof![0..1_u64 << 40, any::<u64>()],
            len in prop_oneof![0..1_u64 << 24, any::<u64>()],
        ) {
            let fits = offset.checked_add(len).is_some_and(|end| end <= i64::MAX as u64);
            let plan = plan(Mode::Buffered, offset, len);
            prop_assert_eq!(plan.is_some(), fits);
            if let Some(plan) = plan {
                let mut reached = offset;
                for segment in plan.segments() {
                    prop_assert_eq!(segment.file.start, reached);
                    prop_assert!(segment.file.end > segment.file.start);
                    reached = segment.file.end;
                }
                prop_assert_eq!(reached, offset + len);
            }
        }
    }
}
