//! A part of a file's content on its way between the two sides.

use std::ops::Range;

use bytes::Bytes;

/// Bytes at a place of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) offset: u64,
    pub(super) data: Bytes,
}

impl Piece {
    /// Where it ends in the file, bytes.
    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(self.data.len() as u64)
    }

    /// What of it lies in `range` of the file.
    pub(super) fn part(&self, range: &Range<u64>) -> &[u8] {
        let into = |at: u64| {
            let into = usize::try_from(at.saturating_sub(self.offset)).unwrap_or(usize::MAX);
            into.min(self.data.len())
        };
        self.data
            .get(into(range.start)..into(range.end))
            .unwrap_or_default()
    }
}
