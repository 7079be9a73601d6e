//! The stream of WRITEs that extends a file: how far it has come, and when it wants space ahead of it.
//!
//! A pure value: no I/O, no clock. A client has many WRITEs on their way and they arrive in any order, so what
//! is kept is where the stream ends and which ranges before that have not come yet. A WRITE far from
//! both is no part of it. Everything is bounded by the constants of `limits.rs`; nothing panics on any range.

use std::ops::Range;

use crate::limits::{
    RESERVE_BYTES_FIRST, RESERVE_BYTES_MAX, RESERVE_GAPS_MAX, RESERVE_WINDOW_BYTES_MAX,
};

/// What is known of the WRITEs that extend one file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Stream {
    /// Where the file ended before the first of them; `None` before that.
    base: Option<u64>,
    /// Where those seen so far end.
    end: u64,
    /// Ranges between `base` and `end` that none of them covered yet, in ascending order, none empty.
    gaps: Vec<Range<u64>>,
    /// How many WRITEs moved `end`.
    extending: u32,
    /// Up to where space was taken; 0 while none was.
    taken: u64,
    /// How much was taken ahead the last time.
    ahead: u64,
    /// No space is asked for before the stream ends here.
    not_before: u64,
}

/// Space that a stream wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Where what is to be taken begins.
    pub(super) from: u64,
    /// Where the data ends that has come, or is on its way, or is to come before it.
    pub(super) end: u64,
    /// How much is wanted beyond `end`.
    pub(super) ahead: u64,
}

impl Stream {
    /// Takes note of a WRITE of `range` to a file of `size` bytes, as it is before it. Returns the space that is
    /// wanted now: from the second WRITE on that extends the file, or from the first where one leaves
    /// a gap before it, since others are then on their way.
    pub(super) fn arrived(&mut self, size: u64, range: &Range<u64>) -> Option<Wanted> {
        if range.is_empty() {
            return None;
        }
        let Some(base) = self.base else {
            return self.begin(size, range);
        };
        // Somebody else extended the file: what that covers is not ours to wait for.
        if size > self.end {
            self.end = size;
        }
        if range.start > self.end.saturating_add(RESERVE_WINDOW_BYTES_MAX) {
            return None;
        }
        self.fill(range);
        if range.end <= self.end {
            return None;
        }
        self.extend(range);
        self.wanted(base)
    }

    /// Whether there is space, taken or about to be, for all of a range that was seen.
    pub(super) const fn has_taken(&self, range: &Range<u64>) -> bool {
        range.end <= self.taken
    }

    /// Whether the WRITE of `range` extends the file as far as it was seen, so that space taken ahead is for it.
    pub(super) fn is_extended_by(&self, range: &Range<u64>) -> bool {
        self.base.is_some_and(|base| range.end > base)
    }

    /// Space was taken up to `to`, `ahead` of it beyond the data.
    pub(super) fn took(&mut self, to: u64, ahead: u64) {
        self.taken = self.taken.max(to);
        self.ahead = ahead;
    }

    /// Space was refused: none is asked for until much more data has come.
    pub(super) fn refused(&mut self) {
        self.not_before = self.end.saturating_add(RESERVE_BYTES_MAX);
    }

    /// How much of what was taken lies beyond the data.
    pub(super) const fn beyond(&self) -> u64 {
        self.taken.saturating_sub(self.end)
    }

    /// The ranges that were passed over and have not come: where space was taken there, it is not for data.
    pub(super) fn gaps(&self) -> &[Range<u64>] {
        &self.gaps
    }

    fn begin(&mut self, size: u64, range: &Range<u64>) -> Option<Wanted> {
        let far = range.start > size.saturating_add(RESERVE_WINDOW_BYTES_MAX);
        if range.end <= size || far {
            return None;
        }
        self.base = Some(size);
        self.end = size;
        self.extend(range);
        self.wanted(size)
    }

    fn extend(&mut self, range: &Range<u64>) {
        if range.start > self.end {
            if self.gaps.len() < RESERVE_GAPS_MAX {
                self.gaps.push(self.end..range.start);
            } else {
                // Too scattered to be a stream: what was passed over is not kept in mind, and nothing is taken.
                self.not_before = u64::MAX;
            }
        }
        self.end = range.end;
        self.extending = self.extending.saturating_add(1);
    }

    /// Takes `range` out of the gaps.
    fn fill(&mut self, range: &Range<u64>) {
        if self.gaps.is_empty() {
            return;
        }
        let mut left = Vec::with_capacity(self.gaps.len().saturating_add(1));
        for gap in self.gaps.drain(..) {
            let before = gap.start..gap.end.min(range.start);
            let after = gap.start.max(range.end)..gap.end;
            left.extend([before, after].into_iter().filter(|gap| !gap.is_empty()));
        }
        // One range cuts at most one gap in two.
        left.truncate(RESERVE_GAPS_MAX);
        self.gaps = left;
    }

    fn wanted(&self, base: u64) -> Option<Wanted> {
        let is_stream = self.extending >= 2 || !self.gaps.is_empty();
        // Asked for again when half of what was taken the last time is used up.
        let enough = self.taken > self.end && self.beyond() >= self.ahead / 2;
        if !is_stream || enough || self.end < self.not_before {
            return None;
        }
        let ahead = match self.ahead {
            0 => RESERVE_BYTES_FIRST,
            last => last
                .saturating_mul(2)
                .clamp(RESERVE_BYTES_FIRST, RESERVE_BYTES_MAX),
        };
        Some(Wanted {
            from: self.taken.max(base),
            end: self.end,
            ahead,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::IO_BYTES_PREFERRED;

    const STEP: u64 = 64 << 10;

    /// The `number`th piece of a stream.
    fn piece(number: u64) -> Range<u64> {
        number * STEP..(number + 1) * STEP
    }

    #[test]
    fn the_second_extending_write_asks_and_one_write_never_does() {
        let mut stream = Stream::default();
        assert_eq!(stream.arrived(0, &piece(0)), None);
        assert_eq!(stream.arrived(STEP, &piece(0)), None, "the same again");
        let wanted = Wanted {
            from: 0,
            end: 2 * STEP,
            ahead: RESERVE_BYTES_FIRST,
        };
        assert_eq!(stream.arrived(STEP, &piece(1)), Some(wanted));
        // Overwriting a file asks for nothing.
        let mut over = Stream::default();
        for number in 0..100 {
            assert_eq!(over.arrived(100 * STEP, &piece(number)), None);
        }
        assert_eq!(over, Stream::default());
    }

    #[test]
    fn a_write_that_leaves_a_gap_asks_at_once_from_the_end_of_the_file_on() {
        let mut stream = Stream::default();
        let wanted = stream.arrived(STEP, &piece(5)).unwrap();
        assert_eq!((wanted.from, wanted.end), (STEP, 6 * STEP));
        assert_eq!(stream.gaps(), std::slice::from_ref(&(STEP..5 * STEP)));
        assert_eq!(stream.arrived(STEP, &piece(3)), None, "it extends nothing");
        assert_eq!(stream.gaps(), [STEP..3 * STEP, 4 * STEP..5 * STEP]);
        for number in [1, 2, 4] {
            stream.arrived(6 * STEP, &piece(number));
        }
        assert!(stream.gaps().is_empty());
        // A jump is no stream.
        let far = 6 * STEP + RESERVE_WINDOW_BYTES_MAX + 1;
        assert_eq!(stream.arrived(6 * STEP, &(far..far + 1)), None);
        assert!(stream.gaps().is_empty() && stream.end == 6 * STEP);
        assert_eq!(Stream::default().arrived(0, &(far..far + 1)), None);
    }

    #[test]
    fn what_is_taken_doubles_up_to_the_cap_and_is_always_ahead() {
        let mut stream = Stream::default();
        let (mut asked, mut asks) = (Vec::new(), 0);
        let step = u64::from(IO_BYTES_PREFERRED);
        for number in 0..2048 {
            let range = number * step..(number + 1) * step;
            if let Some(wanted) = stream.arrived(range.start, &range) {
                assert!(wanted.from < wanted.end + wanted.ahead && wanted.end == range.end);
                stream.took(wanted.end + wanted.ahead, wanted.ahead);
                asked.push(wanted.ahead);
                asks += 1;
            }
            assert!(number == 0 || stream.has_taken(&range));
            assert!(stream.beyond() <= RESERVE_BYTES_MAX);
        }
        assert_eq!(asked[0], RESERVE_BYTES_FIRST);
        let doubles = |pair: &[u64]| pair[1] == (pair[0] * 2).min(RESERVE_BYTES_MAX);
        assert!(asked.windows(2).all(doubles), "{asked:?}");
        assert!(asks < 80, "{asks} system calls for 2 GiB");
    }

    #[test]
    fn after_a_refusal_much_has_to_come_before_it_asks_again() {
        let mut stream = Stream::default();
        stream.arrived(0, &piece(0));
        assert!(stream.arrived(STEP, &piece(1)).is_some());
        stream.refused();
        let again = (2..).find(|number| stream.arrived(number * STEP, &piece(*number)).is_some());
        let passed = again.unwrap() * STEP;
        assert!((RESERVE_BYTES_MAX..RESERVE_BYTES_MAX + 4 * STEP).contains(&passed));
    }

    #[test]
    fn scattered_writes_are_bounded_and_ask_no_more() {
        let mut stream = Stream::default();
        for number in 0..RESERVE_GAPS_MAX as u64 * 4 {
            stream.arrived(0, &piece(number * 2 + 1));
            assert!(stream.gaps().len() <= RESERVE_GAPS_MAX);
        }
        let next = RESERVE_GAPS_MAX as u64 * 8;
        assert_eq!(stream.arrived(0, &piece(next)), None);
    }

    /// Any order within a window leaves no gap, and gaps are what a simple model says.
    #[test]
    fn shuffled_arrivals_leave_the_gaps_that_a_map_of_pieces_leaves() {
        const PIECES: usize = 512;
        for seed in 1..200_u64 {
            let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut next = |below: usize| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                usize::try_from(random % below as u64).unwrap()
            };
            let mut order: Vec<usize> = (0..PIECES).collect();
            let window = [2, 4, 20, 64][next(4)];
            for chunk in order.chunks_mut(window) {
                for at in (1..chunk.len()).rev() {
                    chunk.swap(at, next(at + 1));
                }
            }
            let mut stream = Stream::default();
            let mut come = [false; PIECES];
            for number in order {
                if let Some(wanted) = stream.arrived(0, &piece(number as u64)) {
                    assert!(wanted.from < wanted.end + wanted.ahead, "seed {seed}");
                    stream.took(wanted.end + wanted.ahead, wanted.ahead);
                }
                come[number] = true;
                let last = come.iter().rposition(|come| *come).unwrap();
                let missing = come[..last].iter().filter(|come| !**come).count() as u64;
                let gaps: u64 = stream.gaps().iter().map(|gap| gap.end - gap.start).sum();
                assert_eq!(gaps, missing * STEP, "seed {seed}");
                let ascending = |pair: &[Range<u64>]| pair[0].end < pair[1].start;
                assert!(stream.gaps().windows(2).all(ascending), "seed {seed}");
            }
            assert!(
                stream.gaps().is_empty() && stream.beyond() > 0,
                "seed {seed}"
            );
        }
    }

    #[test]
    fn ranges_at_the_end_of_numbers_do_no_harm() {
        let most = u64::MAX;
        let mut stream = Stream::default();
        for range in [most - 1..most, 0..most, most..most] {
            stream.arrived(most - 3, &range);
            stream.arrived(0, &range);
        }
        assert!(stream.gaps().len() <= RESERVE_GAPS_MAX);
    }
}
