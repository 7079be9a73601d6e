//! Byte ranges, and which of them are locked by whom: pure arithmetic over sorted lists, the whole of POSIX's
//! rules about splitting, merging, upgrading and downgrading, and the union that the host is shown.

use crate::error::Error;
use crate::limits;

/// Bytes of a file, both ends included, so that the last byte of the largest file has a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range {
    first: u64,
    last: u64,
}

impl Range {
    /// All of a file, up to whatever its end will be.
    pub const WHOLE: Self = Self {
        first: 0,
        last: u64::MAX,
    };

    /// `length` bytes from `offset`; a length of all ones reaches to the end of the file, wherever that will be.
    /// [`Error::Inval`] for no bytes, and for an end beyond 64 bits (RFC 8881 §18.10.3).
    pub const fn new(offset: u64, length: u64) -> Result<Self, Error> {
        match length {
            0 => Err(Error::Inval),
            u64::MAX => Ok(Self {
                first: offset,
                last: u64::MAX,
            }),
            _ => match offset.checked_add(length) {
                Some(end) => Ok(Self {
                    first: offset,
                    last: end - 1,
                }),
                None => Err(Error::Inval),
            },
        }
    }

    /// The first byte.
    #[must_use]
    pub const fn offset(self) -> u64 {
        self.first
    }

    /// How many bytes; all ones where it reaches to the end of the file.
    #[must_use]
    pub const fn length(self) -> u64 {
        match self.last {
            u64::MAX => u64::MAX,
            last => last - self.first + 1,
        }
    }

    /// As the host's calls want it: start, and length with 0 for "to the end". None where it begins beyond what
    /// a file of the host can have, and so can be in nobody's way there.
    #[must_use]
    pub fn on_host(self) -> Option<(i64, i64)> {
        let start = i64::try_from(self.first).ok()?;
        let length = match i64::try_from(self.last) {
            Ok(last) if last < i64::MAX => last - start + 1,
            _ => 0,
        };
        Some((start, length))
    }

    /// Whether they have a byte in common.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// Overlaps, or one begins right behind the other.
    const fn touches(self, other: Self) -> bool {
        self.first <= other.last.saturating_add(1) && other.first <= self.last.saturating_add(1)
    }

    /// The part of it that is in `window`.
    fn within(self, window: Self) -> Option<Self> {
        self.overlaps(window).then(|| Self {
            first: self.first.max(window.first),
            last: self.last.min(window.last),
        })
    }

    pub(crate) const fn hull(self, other: Self) -> Self {
        Self {
            first: if self.first < other.first {
                self.first
            } else {
                other.first
            },
            last: if self.last > other.last {
                self.last
            } else {
                other.last
            },
        }
    }

    /// What of `self` is before and what is behind `cut`, which overlaps it.
    fn without(self, cut: Self) -> (Option<Self>, Option<Self>) {
        let before = (self.first < cut.first).then(|| Self {
            first: self.first,
            last: cut.first - 1,
        });
        let behind = (cut.last < self.last).then(|| Self {
            first: cut.last + 1,
            last: self.last,
        });
        (before, behind)
    }
}

/// How a range is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockKind {
    /// Shared with other readers.
    Read,
    /// Nobody else's.
    Write,
}

impl LockKind {
    pub(crate) const fn conflicts(self, other: Self) -> bool {
        matches!((self, other), (Self::Write, _) | (_, Self::Write))
    }
}

/// A range that `owner` has locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Locked<O> {
    pub(crate) range: Range,
    pub(crate) kind: LockKind,
    pub(crate) owner: O,
}

/// The locked ranges of one file, in the order of their first bytes. Ranges of one owner never overlap, and
/// never touch where they are of one kind.
#[derive(Debug)]
pub(crate) struct RangeTable<O> {
    held: Vec<Locked<O>>,
}

impl<O> Default for RangeTable<O> {
    fn default() -> Self {
        Self { held: Vec::new() }
    }
}

impl<O: Clone + Eq> RangeTable<O> {
    /// A range of somebody else that is in the way.
    pub(crate) fn conflict(&self, owner: &O, range: Range, kind: LockKind) -> Option<&Locked<O>> {
        self.in_reach(range).find(|held| {
            held.owner != *owner && held.range.overlaps(range) && held.kind.conflicts(kind)
        })
    }

    /// Makes `range` locked by `owner` as `kind` says, or not at all. What it had there is split, changed or
    /// merged; others are not looked at.
    pub(crate) fn set(&mut self, owner: &O, range: Range, kind: Option<LockKind>) {
        let mut whole = range;
        let mut pieces = Vec::new();
        self.held.retain(|held| {
            let merges = kind == Some(held.kind) && held.range.touches(range);
            if held.owner != *owner || !(merges || held.range.overlaps(range)) {
                return true;
            }
            if merges {
                whole = whole.hull(held.range);
            } else {
                let (before, behind) = held.range.without(range);
                pieces.extend(before.into_iter().chain(behind).map(|r| (r, held.kind)));
            }
            false
        });
        pieces.extend(kind.map(|kind| (whole, kind)));
        for (range, kind) in pieces {
            let at = self.held.partition_point(|h| h.range.first <= range.first);
            let owner = owner.clone();
            self.held.insert(at, Locked { range, kind, owner });
        }
    }

    /// Forgets all that the owners have for whom `gone` says so. What they had, in order.
    pub(crate) fn remove(&mut self, gone: impl Fn(&O) -> bool) -> Vec<Locked<O>> {
        let mut removed = Vec::new();
        self.held.retain(|held| {
            let goes = gone(&held.owner);
            if goes {
                removed.push(held.clone());
            }
            !goes
        });
        removed
    }

    pub(crate) fn holds(&self, owner: &O) -> bool {
        self.held.iter().any(|held| held.owner == *owner)
    }

    pub(crate) const fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether one more change may come: each adds two ranges at most.
    pub(crate) fn has_room(&self) -> bool {
        self.held.len() + 2 <= limits::RANGES_PER_FILE_MAX
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Locked<O>> {
        self.held.iter()
    }

    fn in_reach(&self, range: Range) -> impl Iterator<Item = &Locked<O>> {
        let beyond = self.held.partition_point(|h| h.range.first <= range.last);
        self.held.iter().take(beyond)
    }
}

/// The strongest lock on each byte, whoever has it: sorted, disjoint, merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Union(Vec<(Range, LockKind)>);

impl Union {
    /// Of ranges in any order, overlapping as they like; only what is in `window`.
    pub(crate) fn of(ranges: impl Iterator<Item = (Range, LockKind)>, window: Range) -> Self {
        let clipped = ranges.filter_map(|(range, kind)| Some((range.within(window)?, kind)));
        let (reads, writes): (Vec<_>, Vec<_>) =
            clipped.partition(|(_, kind)| *kind == LockKind::Read);
        let (reads, writes) = (merged(reads), merged(writes));
        let mut union: Vec<_> = reads
            .into_iter()
            .flat_map(|read| minus(read, &writes))
            .map(|range| (range, LockKind::Read))
            .collect();
        union.extend(writes.into_iter().map(|range| (range, LockKind::Write)));
        union.sort_unstable();
        Self(union)
    }

    /// Makes all of `range` so.
    pub(crate) fn set(&mut self, range: Range, kind: Option<LockKind>) {
        let all = std::mem::take(&mut self.0).into_iter();
        let held = all.map(|(range, kind)| Locked {
            range,
            kind,
            owner: (),
        });
        let mut table = RangeTable {
            held: held.collect(),
        };
        table.set(&(), range, kind);
        self.0 = table.held.into_iter().map(|h| (h.range, h.kind)).collect();
    }

    /// What has to be done in `window` so that `self` becomes `wanted` there. What is given back comes first:
    /// others wait for it, and a step that the host refuses then leaves the least undone.
    pub(crate) fn steps_to(&self, wanted: &Self, window: Range) -> Vec<Step> {
        let mut edges = vec![window.first];
        for (range, _) in self.0.iter().chain(&wanted.0) {
            edges.push(range.first);
            edges.extend(range.last.checked_add(1));
        }
        edges.retain(|edge| (window.first..=window.last).contains(edge));
        edges.sort_unstable();
        edges.dedup();
        let ends = edges
            .iter()
            .skip(1)
            .map(|edge| edge - 1)
            .chain([window.last]);
        let mut steps = Vec::new();
        for (first, last) in edges.iter().copied().zip(ends) {
            let (is, shall) = (self.at(first), wanted.at(first));
            if is != shall {
                push(&mut steps, Range { first, last }, shall);
            }
        }
        steps.sort_by_key(|step| step.kind.is_some());
        steps
    }

    fn at(&self, byte: u64) -> Option<LockKind> {
        let behind = self.0.partition_point(|(range, _)| range.first <= byte);
        let (range, kind) = self.0.get(behind.checked_sub(1)?)?;
        (byte <= range.last).then_some(*kind)
    }
}

/// The bytes of all `ranges`, as few as possible and in order.
fn merged(mut ranges: Vec<(Range, LockKind)>) -> Vec<Range> {
    ranges.sort_unstable();
    let mut merged: Vec<Range> = Vec::with_capacity(ranges.len());
    for (range, _) in ranges {
        match merged.last_mut() {
            Some(last) if last.touches(range) => *last = last.hull(range),
            _ => merged.push(range),
        }
    }
    merged
}

/// What of `range` is in none of `cuts`, which are in order and apart.
fn minus(range: Range, cuts: &[Range]) -> Vec<Range> {
    let from = cuts.partition_point(|cut| cut.last < range.first);
    let mut left = Vec::new();
    let mut rest = Some(range);
    for cut in cuts.iter().skip(from) {
        let Some(whole) = rest.filter(|rest| rest.overlaps(*cut)) else {
            break;
        };
        let (before, behind) = whole.without(*cut);
        left.extend(before);
        rest = behind;
    }
    left.extend(rest);
    left
}

/// Adds a step, as part of the one before where they are the same and meet.
fn push(steps: &mut Vec<Step>, range: Range, kind: Option<LockKind>) {
    if let Some(before) = steps.last_mut()
        && before.kind == kind
        && before.range.last.checked_add(1) == Some(range.first)
    {
        before.range.last = range.last;
        return;
    }
    steps.push(Step { range, kind });
}

/// One thing to be done to the host's lock of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Where.
    pub range: Range,
    /// What it is to be: locked so, or not at all.
    pub kind: Option<LockKind>,
}

#[cfg(test)]
mod tests;
