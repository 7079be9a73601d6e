//! What the reads of one file have in common: sequential, strided, or nothing. Pure.
//!
//! NFS has no open, and one open file may have many readers at once, so reads are put to *streams* by
//! where they are, not by who makes them. A read that continues no stream is remembered; when it turns
//! out to continue remembered ones, three in a row (two from the file's beginning) or four at the same
//! distance, that is a stream. How far ahead of it one may read grows with what it has read: who is
//! taken for sequential by chance costs little.

use std::collections::VecDeque;

use crate::limits::{READ_STREAMS_MAX, READS_SEEN_MAX, STREAM_CREDIT_MAX, STREAM_HOLES_MAX};

/// Reads in a row that make a stream: in general, and from the file's beginning.
const ROW_READS: u32 = 3;
const ROW_READS_FROM_START: u32 = 2;

/// How far ahead of a stream may be read: so many times what it has read.
const AHEAD_TIMES: u64 = 4;

/// A read this many times its own length before or behind where a stream is belongs to it still: many
/// reads of one reader may be on their way at once and come in another order.
const NEAR_READS: u64 = 8;

/// What may be asked for beside what a read wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    /// What was asked for is read, and nothing ahead of it.
    Exact,
    /// What follows, up to `ahead` bytes behind the stream's end.
    Sequential {
        /// The number of the stream, unique within the file.
        stream: u32,
        /// Where the stream has come to, bytes: the end of its read that reached furthest.
        end: u64,
        /// How far beyond `end` it is worth to read, in bytes.
        ahead: u64,
    },
    /// The next `ahead` reads of the same length, each `stride` bytes from the one before.
    Strided {
        /// The number of the stream, unique within the file.
        stream: u32,
        /// Bytes; negative for a reader that goes backwards.
        stride: i64,
        /// How many further reads it is worth to send.
        ahead: u32,
    },
}

/// The reads of one file. See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    streams: Vec<Stream>,
    /// Reads that belong to no stream, the latest first.
    seen: VecDeque<Seen>,
    /// Streams that are no more and were not told yet.
    gone: Vec<u32>,
    /// Counts the reads: says which stream was used last.
    turn: u64,
    id_next: u32,
}

#[derive(Debug)]
struct Stream {
    id: u32,
    used: u64,
    credit: u32,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Sequential {
        end: u64,
        /// Bytes read in a row.
        row: u64,
        holes: Vec<(u64, u64)>,
    },
    Strided {
        last: u64,
        len: u64,
        stride: i64,
        reads: u32,
    },
}

/// A read, with those in a row before it.
#[derive(Clone, Copy, Debug)]
struct Seen {
    offset: u64,
    len: u64,
    row_start: u64,
    row_reads: u32,
}

impl Seen {
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }
}

impl Patterns {
    /// Takes note of a read of `len` bytes at `offset`.
    pub(super) fn read(&mut self, offset: u64, len: u64) -> Advice {
        self.turn += 1;
        if len == 0 {
            return Advice::Exact;
        }
        if let Some(advice) = self.continued(offset, len) {
            return advice;
        }
        self.found(offset, len)
    }

    /// Takes note of a read of `len` bytes at `offset` by somebody who says that it goes on: that is a stream by
    /// itself.
    pub(super) fn read_sequential(&mut self, offset: u64, len: u64) -> Advice {
        self.turn += 1;
        if len == 0 {
            return Advice::Exact;
        }
        match self.continued(offset, len) {
            Some(advice @ Advice::Sequential { .. }) => advice,
            Some(Advice::Exact | Advice::Strided { .. }) | None => self.begin(Kind::Sequential {
                end: offset.saturating_add(len),
                row: len,
                holes: Vec::new(),
            }),
        }
    }

    /// The next stream that is no more: what was read ahead for it is of no use.
    pub(super) fn next_gone(&mut self) -> Option<u32> {
        self.gone.pop()
    }

    /// An id for a stream that is not found here but told by who reads it.
    pub(super) fn id(&mut self) -> u32 {
        self.id_next = self.id_next.wrapping_add(1);
        self.id_next
    }

    /// The advice of the stream that this read continues.
    fn continued(&mut self, offset: u64, len: u64) -> Option<Advice> {
        let fits = |stream: &Stream| stream.fit(offset, len);
        let (index, fit) = (0..)
            .zip(&self.streams)
            .filter_map(|(index, stream)| Some((index, fits(stream)?)))
            .min_by_key(|(_, fit)| *fit)?;
        let stream = self.streams.get_mut(index)?;
        stream.used = self.turn;
        stream.credit = match fit {
            Fit::Next | Fit::Late => (stream.credit + 1).min(STREAM_CREDIT_MAX),
            Fit::Near => stream.credit.saturating_sub(1),
        };
        stream.advance(offset, len);
        if stream.credit > 0 {
            return Some(stream.advice());
        }
        let gone = self.streams.swap_remove(index);
        self.gone.push(gone.id);
        None
    }

    /// Looks for a stream that this read makes with those remembered; remembers it if there is none.
    fn found(&mut self, offset: u64, len: u64) -> Advice {
        let mut seen = Seen {
            offset,
            len,
            row_start: offset,
            row_reads: 1,
        };
        if let Some(index) = self.seen.iter().position(|before| before.end() == offset)
            && let Some(before) = self.seen.remove(index)
        {
            seen.row_start = before.row_start;
            seen.row_reads = before.row_reads + 1;
        }
        let enough = if seen.row_start == 0 {
            ROW_READS_FROM_START
        } else {
            ROW_READS
        };
        if seen.row_reads >= enough {
            let end = seen.end();
            return self.begin(Kind::Sequential {
                end,
                row: end - seen.row_start,
                holes: Vec::new(),
            });
        }
        if let Some(stride) = self.stride(offset, len) {
            return self.begin(Kind::Strided {
                last: offset,
                len,
                stride,
                reads: 1,
            });
        }
        self.seen.truncate(READS_SEEN_MAX - 1);
        self.seen.push_front(seen);
        Advice::Exact
    }

    /// The distance at which three remembered reads of this length stand before this one, each older
    /// than the next.
    fn stride(&self, offset: u64, len: u64) -> Option<i64> {
        let at = |from: usize, wanted: u64| {
            let mut rest = self.seen.iter().enumerate().skip(from);
            rest.find(|(_, seen)| seen.offset == wanted && seen.len == len)
                .map(|(index, _)| index + 1)
        };
        self.seen.iter().enumerate().find_map(|(index, seen)| {
            let stride = i64::try_from(i128::from(offset) - i128::from(seen.offset)).ok()?;
            if seen.len != len || stride.unsigned_abs() < len {
                return None;
            }
            let second = seen.offset.checked_add_signed(stride.checked_neg()?)?;
            let third = second.checked_add_signed(stride.checked_neg()?)?;
            at(at(index + 1, second)?, third).map(|_| stride)
        })
    }

    fn begin(&mut self, kind: Kind) -> Advice {
        if self.streams.len() >= READ_STREAMS_MAX
            && let Some((index, _)) = (0..)
                .zip(&self.streams)
                .min_by_key(|(_, stream)| stream.used)
        {
            let gone = self.streams.swap_remove(index);
            self.gone.push(gone.id);
        }
        let stream = Stream {
            id: self.id(),
            used: self.turn,
            credit: 2,
            kind,
        };
        let advice = stream.advice();
        self.streams.push(stream);
        advice
    }
}

/// How well a read fits a stream; the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// It is the very next.
    Next,
    /// It was passed over before.
    Late,
    /// It is not far away.
    Near,
}

impl Stream {
    fn fit(&self, offset: u64, len: u64) -> Option<Fit> {
        match &self.kind {
            Kind::Sequential { end, holes, .. } => {
                let near = len.saturating_mul(NEAR_READS);
                if offset == *end {
                    Some(Fit::Next)
                } else if holes
                    .iter()
                    .any(|&(from, to)| offset >= from && offset < to)
                {
                    Some(Fit::Late)
                } else {
                    (offset.abs_diff(*end) <= near).then_some(Fit::Near)
                }
            }
            &Kind::Strided {
                last,
                len: own,
                stride,
                ..
            } => {
                let distance = i128::from(offset) - i128::from(last);
                let stride = i128::from(stride);
                let near = i128::from(NEAR_READS);
                if len != own || distance % stride != 0 {
                    None
                } else if distance == stride {
                    Some(Fit::Next)
                } else {
                    ((-near..=near).contains(&(distance / stride))).then_some(Fit::Near)
                }
            }
        }
    }

    fn advance(&mut self, offset: u64, len: u64) {
        let read_end = offset.saturating_add(len);
        match &mut self.kind {
            Kind::Sequential { end, row, holes } => {
                holes.retain_mut(|(from, to)| {
                    // A hole is filled from its front as a rule; whatever else is done to it ends it.
                    if offset == *from {
                        *from = read_end.min(*to);
                    }
                    from < to && !(offset > *from && offset < *to)
                });
                match offset.cmp(end) {
                    std::cmp::Ordering::Equal => *row = row.saturating_add(len),
                    std::cmp::Ordering::Greater => {
                        *row = len.max(*row / 2);
                        if holes.len() == STREAM_HOLES_MAX {
                            holes.remove(0);
                        }
                        holes.push((*end, offset));
                    }
                    std::cmp::Ordering::Less => {}
                }
                *end = read_end.max(*end);
            }
            Kind::Strided {
                last,
                stride,
                reads,
                ..
            } => {
                let onward = (offset > *last) == (*stride > 0);
                if onward && offset != *last {
                    *last = offset;
                    *reads = reads.saturating_add(1);
                }
            }
        }
    }

    fn advice(&self) -> Advice {
        match self.kind {
            Kind::Sequential { end, row, .. } => Advice::Sequential {
                stream: self.id,
                end,
                ahead: row.saturating_mul(AHEAD_TIMES),
            },
            Kind::Strided { stride, reads, .. } => Advice::Strided {
                stream: self.id,
                stride,
                ahead: reads,
            },
        }
    }
}

#[cfg(test)]
mod tests;
