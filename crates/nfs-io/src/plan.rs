//! How a range of a file is moved: pure functions from what is asked and what is possible to at
//! most three segments. No file, no clock, no memory is touched here.
//!
//! The segments are in ascending order and cover the range exactly: an unaligned head, an
//! aligned middle, an unaligned tail, where the way of moving the bytes distinguishes these.

use std::fmt;
use std::ops::Range;

use crate::limits::{BUFFER_ALIGN_BYTES, DIRECT_WRITE_ALIGN_BYTES_MIN, SEGMENTS_MAX};
use crate::mode::Mode;

/// What direct I/O on a file asks for, in bytes; 0 where it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Alignment {
    /// Alignment of the address of the memory, in bytes (`stx_dio_mem_align`).
    pub memory: u32,
    /// Alignment of offset and length of writes, and of reads where `read_offset` is 0, in bytes
    /// (`stx_dio_offset_align`).
    pub offset: u32,
    /// Alignment of offset and length of reads where it is not that of writes, in bytes; 0 where it is
    /// (`stx_dio_read_offset_align`).
    pub read_offset: u32,
    /// What the page cache keeps whole: the larger of a block of the file system and a page.
    pub block: u32,
}

impl Alignment {
    /// What the direct middle of a write begins and ends at a multiple of, in bytes; 0 where that is not known.
    #[must_use]
    pub fn of_writes(&self) -> u64 {
        write_align(self).unwrap_or(0)
    }
}

fn write_align(alignment: &Alignment) -> Result<u64, Fallback> {
    let known = |align| power_of_two(align).ok_or(Fallback::AlignmentUnknown);
    let block = match alignment.block {
        0 => 1,
        block => known(block)?,
    };
    let offset = known(alignment.offset)?;
    Ok(offset.max(block).max(DIRECT_WRITE_ALIGN_BYTES_MIN))
}

/// Why a range is not moved directly although that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fallback {
    /// Neither the kernel nor the file system says what direct I/O on this file asks for, or it
    /// offers none.
    AlignmentUnknown,
    /// A write of fewer bytes than the alignment.
    ShorterThanAlignment,
    /// A write long enough that yet holds no aligned part, or an end too close to the end of
    /// the largest possible file to be rounded.
    NoAlignedMiddle,
    /// The aligned part lies in memory where direct I/O cannot take it from.
    MemoryNotCongruent,
}

impl Fallback {
    /// All reasons, in the order in which they are looked for.
    pub const ALL: [Self; 4] = [
        Self::AlignmentUnknown,
        Self::ShorterThanAlignment,
        Self::NoAlignedMiddle,
        Self::MemoryNotCongruent,
    ];

    /// The word for it in counters and traces.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::AlignmentUnknown => "alignment-unknown",
            Self::ShorterThanAlignment => "shorter-than-alignment",
            Self::NoAlignedMiddle => "no-aligned-middle",
            Self::MemoryNotCongruent => "memory-not-congruent",
        }
    }
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AlignmentUnknown => "the file system does not say how direct I/O is aligned",
            Self::ShorterThanAlignment => "shorter than the alignment of direct I/O",
            Self::NoAlignedMiddle => "no part of the range is aligned for direct I/O",
            Self::MemoryNotCongruent => "the data lies in memory that direct I/O cannot use",
        })
    }
}

/// One contiguous part of the range, moved in one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Bytes of the file: `start..end`, never empty.
    pub file: Range<u64>,
    /// The way in which these bytes are moved.
    pub mode: Mode,
}

/// The segments for one read or write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    segments: [Option<Segment>; SEGMENTS_MAX],
    fallback: Option<Fallback>,
}

impl Plan {
    /// The segments in ascending order; none for an empty range.
    pub fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().flatten()
    }

    /// The reason why there is no direct segment although `Direct` was asked for; `None` where there is one
    /// or none was asked for.
    #[must_use]
    pub fn fallback(&self) -> Option<Fallback> {
        self.fallback
    }

    /// A plan that moves all of `file` in one way.
    fn whole(file: Range<u64>, mode: Mode, fallback: Option<Fallback>) -> Self {
        let segment = (!file.is_empty()).then_some(Segment { file, mode });
        Self {
            segments: [segment, None, None],
            fallback,
        }
    }
}

/// How to read a range: what is to be read, and where in it is what was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadPlan {
    plan: Plan,
    rounded: Range<u64>,
    window: Range<usize>,
}

impl ReadPlan {
    /// One segment, which is [`ReadPlan::rounded`]; none for an empty range.
    pub fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.plan.segments()
    }

    /// The reason why the range is not read directly although `Direct` was asked for; `None` where it is or
    /// that was not asked for.
    #[must_use]
    pub fn fallback(&self) -> Option<Fallback> {
        self.plan.fallback()
    }

    /// Bytes of the file to read: what was asked, or that rounded out to the alignment.
    #[must_use]
    pub fn rounded(&self) -> Range<u64> {
        self.rounded.clone()
    }

    /// Where in [`ReadPlan::rounded`] the asked bytes are.
    #[must_use]
    pub fn window(&self) -> Range<usize> {
        self.window.clone()
    }

    /// The asked bytes among `read` ones from the start of [`ReadPlan::rounded`] on: shorter
    /// than the window, or empty, where the file ended before.
    #[must_use]
    pub fn window_of(&self, read: usize) -> Range<usize> {
        let end = self.window.end.min(read);
        self.window.start.min(end)..end
    }
}

/// The offset within its first page at which a buffer for bytes at `offset` of a file should begin, so that
/// whatever is aligned in the file is aligned in memory: for [`crate::BufferPool::take_placed`].
#[must_use]
pub fn placement(offset: u64) -> usize {
    (offset % BUFFER_ALIGN_BYTES as u64) as usize
}

/// Plans the reading of `len` bytes at `offset`, into memory whose first byte, which gets the
/// first one of the ROUNDED range, is at `memory` (an address, or a [`placement`]).
///
/// Directly, the range is rounded out to the alignment of reads at both ends, and what was asked
/// for is a window in it. `None` where the range would pass 2^63 - 1, the end of any file.
#[must_use]
pub fn plan_read(
    mode: Mode,
    offset: u64,
    len: usize,
    memory: usize,
    alignment: &Alignment,
) -> Option<ReadPlan> {
    let asked = range(offset, len)?;
    let exact = |mode, fallback| ReadPlan {
        plan: Plan::whole(asked.clone(), mode, fallback),
        rounded: asked.clone(),
        window: 0..len,
    };
    if mode != Mode::Direct || len == 0 {
        return Some(exact(mode, None));
    }
    let (rounded, window) = match round_out(&asked, memory, alignment) {
        Ok(rounded) => rounded,
        Err(reason) => return Some(exact(Mode::Buffered, Some(reason))),
    };
    Some(ReadPlan {
        plan: Plan::whole(rounded.clone(), Mode::Direct, None),
        rounded,
        window,
    })
}

/// The range rounded out for a direct read, and the asked part in it.
fn round_out(
    asked: &Range<u64>,
    memory: usize,
    alignment: &Alignment,
) -> Result<(Range<u64>, Range<usize>), Fallback> {
    let align = match alignment.read_offset {
        0 => alignment.offset,
        read => read,
    };
    let align = power_of_two(align).ok_or(Fallback::AlignmentUnknown)?;
    let memory_align = power_of_two(alignment.memory).ok_or(Fallback::AlignmentUnknown)?;
    let start = round_down(asked.start, align);
    let rounded = asked
        .end
        .checked_next_multiple_of(align)
        .and_then(|end| range(start, usize::try_from(end - start).ok()?))
        .ok_or(Fallback::NoAlignedMiddle)?;
    if !(memory as u64).is_multiple_of(memory_align) {
        return Err(Fallback::MemoryNotCongruent);
    }
    // Both are below the rounded length, which is a `usize`.
    let window = (asked.start - start) as usize..(asked.end - start) as usize;
    Ok((rounded, window))
}

/// Plans the writing of `len` bytes to `offset`, from memory whose first byte is at `memory` (an
/// address, or a [`placement`]).
///
/// Directly, that is an aligned middle; what is before and behind it goes through the page
/// cache. The middle is aligned to whole pages and blocks too: none is then written both through
/// the cache and past it by one write. `None` where the range would pass 2^63 - 1, the end of
/// any file.
#[must_use]
pub fn plan_write(
    mode: Mode,
    offset: u64,
    len: usize,
    memory: usize,
    alignment: &Alignment,
) -> Option<Plan> {
    let asked = range(offset, len)?;
    if mode != Mode::Direct || len == 0 {
        return Some(Plan::whole(asked, mode, None));
    }
    let middle = match aligned_middle(&asked, memory, alignment) {
        Ok(middle) => middle,
        Err(reason) => return Some(Plan::whole(asked, Mode::Buffered, Some(reason))),
    };
    let part = |file: Range<u64>, mode| (!file.is_empty()).then_some(Segment { file, mode });
    Some(Plan {
        segments: [
            part(asked.start..middle.start, Mode::Buffered),
            part(middle.clone(), Mode::Direct),
            part(middle.end..asked.end, Mode::Buffered),
        ],
        fallback: None,
    })
}

/// The largest part of the range that can be written directly.
fn aligned_middle(
    asked: &Range<u64>,
    memory: usize,
    alignment: &Alignment,
) -> Result<Range<u64>, Fallback> {
    let memory_align = power_of_two(alignment.memory).ok_or(Fallback::AlignmentUnknown)?;
    let align = write_align(alignment)?;
    if asked.end - asked.start < align {
        return Err(Fallback::ShorterThanAlignment);
    }
    // Below 2^63, and an alignment is below 2^32: no overflow.
    let start = asked.start.next_multiple_of(align);
    let end = round_down(asked.end, align);
    if start >= end {
        return Err(Fallback::NoAlignedMiddle);
    }
    let in_memory = (memory as u64).wrapping_add(start - asked.start);
    if !in_memory.is_multiple_of(memory_align) {
        return Err(Fallback::MemoryNotCongruent);
    }
    Ok(start..end)
}

fn range(offset: u64, len: usize) -> Option<Range<u64>> {
    let end = offset
        .checked_add(len as u64)
        .filter(|&end| i64::try_from(end).is_ok())?;
    Some(offset..end)
}

fn round_down(offset: u64, align: u64) -> u64 {
    offset - offset % align
}

/// An alignment that can be trusted: the kernel knows no others, and says 0 for "none".
fn power_of_two(align: u32) -> Option<u64> {
    align.is_power_of_two().then_some(u64::from(align))
}

#[cfg(test)]
mod tests;
