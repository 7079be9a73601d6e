//! What a file's bytes may be: for each run of bytes what was promised to be there, and what was written
//! over it since without a promise.

use std::ops::Range;

use nfs_lab::pattern;

/// No file grows beyond this many bytes: five records of 47008 bytes fit.
pub(super) const SIZE_MAX: u64 = 240 * 1024;

/// A run of bytes with one history. It begins where the one before it ends.
#[derive(Clone, Debug)]
struct Run {
    /// Offset of the first byte behind the run.
    end: u64,
    /// The tag of the pattern that is on stable storage; 0 for zeros.
    stable: u64,
    /// Tags of patterns written since, not promised to be there.
    maybe: Vec<u64>,
    /// Zeros are as good: the file was being cut off within this block.
    torn: bool,
}

/// A file system clears the rest of the block that a file is cut off in, or that it grows from; blocks are
/// this long at most.
const BLOCK_MAX: u64 = 4096;

/// The bytes and the sizes that a file may have after a cut.
#[derive(Clone, Debug)]
pub(super) struct Content {
    /// The runs from 0 up to [`SIZE_MAX`], without a gap.
    runs: Vec<Run>,
    /// What the size has to be at least on stable storage, and what it is while the server runs, which
    /// is the most it may be after a cut.
    size: (u64, u64),
}

impl Default for Content {
    fn default() -> Self {
        let hole = Run {
            end: SIZE_MAX,
            stable: 0,
            maybe: Vec::new(),
            torn: false,
        };
        Self {
            runs: vec![hole],
            size: (0, 0),
        }
    }
}

impl Content {
    /// A file of `size` bytes, all on stable storage: a hole, but for the pattern of `tag` in `filled`.
    pub(super) fn on_disk(size: u64, filled: Range<u64>, tag: u64) -> Self {
        let mut content = Self::default();
        if !filled.is_empty() {
            content.write(filled, tag, true);
        }
        content.size = (size, size);
        content
    }

    /// Size of the file in bytes while the server runs.
    pub(super) const fn live_size(&self) -> u64 {
        self.size.1
    }

    /// Whether the whole file is data that is on stable storage, with nothing written over it since; false
    /// for an empty file.
    pub(super) fn is_solid(&self) -> bool {
        let (least, most) = self.size;
        let solid = |run: &Run| run.stable != 0 && run.maybe.is_empty() && !run.torn;
        let mut inside = self.ranges().take_while(|(range, _)| range.start < most);
        least == most && most > 0 && inside.all(|(_, run)| solid(run))
    }

    /// What a client has to send again after the verifier changed: ranges and the tag of the last write of
    /// each.
    pub(super) fn resend(&self) -> Vec<(Range<u64>, u64)> {
        let last = |run: &Run| run.maybe.last().copied();
        self.ranges()
            .filter_map(|(range, run)| Some((range, last(run)?)))
            .collect()
    }

    pub(super) fn write(&mut self, range: Range<u64>, tag: u64, stable: bool) {
        let end = range.end;
        for run in self.within(range) {
            run.maybe.push(tag);
            if stable {
                run.stable = tag;
                run.maybe.clear();
                run.torn = false;
            }
        }
        self.size.1 = self.size.1.max(end);
        if stable {
            self.size.0 = self.size.0.max(end);
        }
    }

    pub(super) fn commit(&mut self, range: Range<u64>) {
        let mut size = self.size.0;
        for run in self.within(range) {
            if let Some(tag) = run.maybe.last() {
                run.stable = *tag;
                run.maybe.clear();
                run.torn = false;
                size = size.max(run.end);
            }
        }
        self.size.0 = size;
    }

    /// The power went while the file was made `size` bytes long, and it was not.
    ///
    /// A file that shrinks: what is behind its new end in the same block may have been cleared already.
    /// A file that grows: XFS clears the rest of its last block and writes that block back, with a size
    /// in its log that reaches to the end of the block, before the new size is logged.
    pub(super) fn resize_was_begun(&mut self, size: u64) {
        self.size.1 = self
            .size
            .1
            .next_multiple_of(BLOCK_MAX)
            .min(size)
            .max(self.size.1);
        let end = size.next_multiple_of(BLOCK_MAX).min(self.size.1);
        if size < end {
            self.within(size..end)
                .iter_mut()
                .for_each(|run| run.torn = true);
        }
    }

    pub(super) fn resize(&mut self, size: u64) {
        for run in self.within(size..SIZE_MAX) {
            run.stable = 0;
            run.maybe.clear();
            run.torn = false;
        }
        self.size = (size, size);
    }

    /// What is wrong with these bytes of the disk, if anything is.
    pub(super) fn fault(&self, found: &[u8]) -> Option<String> {
        let size = found.len() as u64;
        if size < self.size.0 || size > self.size.1 {
            return Some(format!(
                "size {size}, should be {} to {}",
                self.size.0, self.size.1
            ));
        }
        self.ranges()
            .take_while(|(range, _)| range.start < size)
            .find_map(|(range, run)| run.fault(range.start, part(found, 0, &range)))
    }

    /// What is wrong with these bytes at `offset`, read from the server that took all the writes.
    pub(super) fn live_fault(&self, offset: u64, found: &[u8]) -> Option<String> {
        let end = offset + found.len() as u64;
        self.ranges()
            .filter(|(range, _)| range.end > offset && range.start < end)
            .find_map(|(range, run)| {
                let at = range.start.max(offset);
                let latest = Run {
                    end: run.end,
                    stable: run.maybe.last().copied().unwrap_or(run.stable),
                    maybe: Vec::new(),
                    torn: false,
                };
                latest.fault(at, part(found, offset, &range))
            })
    }

    fn ranges(&self) -> impl Iterator<Item = (Range<u64>, &Run)> {
        let starts = std::iter::once(0).chain(self.runs.iter().map(|run| run.end));
        starts
            .zip(&self.runs)
            .map(|(start, run)| (start..run.end, run))
    }

    /// The runs that make up exactly `range`; those across its ends are split.
    fn within(&mut self, range: Range<u64>) -> &mut [Run] {
        let first = self.split(range.start);
        let behind = self.split(range.end);
        self.runs.get_mut(first..behind).unwrap_or_default()
    }

    /// The index of the run that begins at `at`, made by splitting if need be.
    fn split(&mut self, at: u64) -> usize {
        let index = self.runs.partition_point(|run| run.end <= at);
        let start = match index {
            0 => 0,
            _ => self.runs[index - 1].end,
        };
        if start == at || index == self.runs.len() {
            return index;
        }
        let mut before = self.runs[index].clone();
        before.end = at;
        self.runs.insert(index, before);
        index + 1
    }
}

/// The bytes of `range` in `found`, which begins at `offset` of the file.
fn part<'a>(found: &'a [u8], offset: u64, range: &Range<u64>) -> &'a [u8] {
    let place = |at: u64| (at.saturating_sub(offset) as usize).min(found.len());
    &found[place(range.start)..place(range.end)]
}

impl Run {
    /// The first of the bytes at `start` that is none of what it may be.
    fn fault(&self, start: u64, found: &[u8]) -> Option<String> {
        let of_tag = |tag: u64| match tag {
            0 => vec![0; found.len()],
            _ => pattern::bytes(tag, start, found.len()),
        };
        let zeros = self.torn.then_some(0);
        let allowed = [self.stable]
            .into_iter()
            .chain(self.maybe.iter().copied())
            .chain(zeros);
        // All of one write, as it nearly always is; else it may be mixed.
        let mut candidates = Vec::new();
        for tag in allowed {
            let bytes = of_tag(tag);
            if bytes == found {
                return None;
            }
            candidates.push(bytes);
        }
        let fits = |i: usize, byte: u8| candidates.iter().any(|bytes| bytes[i] == byte);
        let wrong = found.iter().enumerate().find(|(i, byte)| !fits(*i, **byte));
        wrong.map(|(i, byte)| format!("byte {} is {byte:#x}: {self:?}", start + i as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_split_runs_and_keep_their_neighbours() {
        let mut content = Content::default();
        content.write(0..10_000, 1, true);
        content.write(3_000..5_000, 2, false);
        content.write(4_999..20_000, 3, false);
        assert_eq!(
            content.resend(),
            [
                (3_000..4_999, 2),
                (4_999..5_000, 3),
                (5_000..10_000, 3),
                (10_000..20_000, 3)
            ]
        );
        assert_eq!(content.size, (10_000, 20_000));
        content.commit(5_000..10_000);
        assert_eq!(content.size, (10_000, 20_000));
        content.commit(0..SIZE_MAX);
        assert_eq!((content.resend(), content.size), (vec![], (20_000, 20_000)));
    }

    #[test]
    fn a_file_that_grows_may_end_where_its_last_block_does() {
        let mut content = Content::on_disk(5_000, 0..5_000, 1);
        let mut grown = pattern::bytes(1, 0, 5_000);
        grown.resize(8_192, 0);
        assert!(content.fault(&grown).is_some());
        content.resize_was_begun(20_000);
        assert!(content.fault(&grown[..5_000]).is_none());
        assert!(content.fault(&grown).is_none());
        grown.push(0);
        assert!(content.fault(&grown).is_some());
        grown.truncate(8_192);
        grown[8_191] = 1;
        assert!(content.fault(&grown).is_some());

        let mut content = Content::on_disk(5_000, 0..5_000, 1);
        content.resize_was_begun(6_000);
        grown[8_191] = 0;
        assert!(content.fault(&grown[..6_000]).is_none());
        assert!(content.fault(&grown[..6_001]).is_some());
    }

    #[test]
    fn what_is_read_live_is_the_last_write() {
        let mut content = Content::on_disk(9_000, 1_000..2_000, 1);
        content.write(1_500..1_501, 2, false);
        let mut whole = vec![0; 9_000];
        whole[1_000..2_000].copy_from_slice(&pattern::bytes(1, 1_000, 1_000));
        assert!(content.fault(&whole).is_none());
        assert!(
            content
                .live_fault(0, &whole)
                .is_some_and(|text| text.contains("byte 1500"))
        );
        whole[1_500] = pattern::byte(2, 1_500);
        assert!(content.fault(&whole).is_none());
        assert!(content.live_fault(0, &whole).is_none());
        assert!(content.live_fault(1_499, &whole[1_499..1_502]).is_none());
        assert!(content.live_fault(1_498, &whole[1_499..1_502]).is_some());
        content.resize_was_begun(1_200);
        whole[1_200..1_900].fill(0);
        assert!(content.fault(&whole).is_none());
        whole[1_199] = 0;
        assert!(
            content
                .fault(&whole)
                .is_some_and(|text| text.contains("byte 1199"))
        );
        whole[1_199..2_000].copy_from_slice(&pattern::bytes(1, 1_199, 801));
        content.resize(1_200);
        content.resize(1_300);
        assert!(
            content
                .fault(&whole[..1_300])
                .is_some_and(|text| text.contains("byte 1200"))
        );
    }
}
