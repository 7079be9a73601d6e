//! Ends of direct writes that fill no whole block, held until a neighbour completes the block.
//!
//! Direct I/O moves whole blocks. A write whose ends lie within blocks has an aligned middle, and at each end
//! a part of a block that belongs to a neighbour as well. [`Staging`] is the state of one file: it holds these
//! parts, and when the neighbour comes whose part completes the block, that neighbour's middle and the whole
//! block go out as one larger direct write. What never completes is taken out again
//! ([`Staging::take`]) and written as it is: exactly the bytes that were given, none beyond them.
//!
//! Pure: no file, no clock, no memory of its own. What it needs is handed in, and what is to be done comes out:
//! whoever owns it does that and reports the end ([`Staging::done`], [`Staging::restore`]).
//!
//! The rules that keep the file right:
//!
//! - A block that was taken out is *under way* until its end was reported. Nobody writes to it meanwhile, and
//!   who reads it waits: two writes to one block are never on their way at once.
//! - Of bytes that are held, those that came last count. A held part is never older than what the file
//!   has there: whoever writes past the staging takes it out first.
//! - Bytes that were taken out stay in memory until they are known to be in the file. If the write fails that
//!   took them along, they are held again: one sender's failure does not lose what another was told is accepted.
//!
//! A block of which one part was written as it is will not be complete any more when the other part comes:
//! to hold that one would take memory for nothing, just when there is too little of it. Such blocks are
//! remembered, and their other part is refused.
//!
//! A held part reaches from the beginning of its block ([`Block`]'s head, the end of some write) or to the end of
//! it (the beginning of one). A write without a whole block in it is not for staging: nothing of it would show in
//! the file's times when it is answered.

use std::collections::BTreeMap;
use std::ops::{DerefMut, Range};

use crate::limits;

/// What one file holds. `M` is the memory of one block, `S` stands for a sender.
#[derive(Debug)]
pub struct Staging<M, S> {
    /// A power of two.
    block_bytes: u64,
    /// The parts that are held, by where their block begins in the file.
    held: BTreeMap<u64, Block<M, S>>,
    /// The blocks that were taken out, with the number of the oldest write in each.
    under_way: BTreeMap<u64, u64>,
    /// The blocks of which one part, this one, went into the file without the other, which is yet to come.
    written_in_part: BTreeMap<u64, Side>,
    /// The number of the next write.
    next: u64,
    /// How many want nothing to be held for now.
    paused: u32,
    /// Where the last byte ends that was accepted and is perhaps not in the file yet.
    end: u64,
    /// How often nothing was held any more.
    emptied: u64,
}

/// The parts of one block that are held.
#[derive(Debug)]
pub struct Block<M, S> {
    bytes: M,
    /// From the beginning of the block to `at`.
    head: Option<Part<S>>,
    /// From `at` to the end of the block, behind the head.
    tail: Option<Part<S>>,
    since: u64,
}

/// A block, and where it begins in the file.
type Placement<M, S> = (u64, Block<M, S>);

#[derive(Debug)]
struct Part<S> {
    at: usize,
    sender: S,
    /// The write that came last of those whose bytes these are.
    write: u64,
    /// The write that came first. Where it is another one, its bytes cannot be had back.
    oldest: u64,
}

/// Which blocks are taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those with bytes of a write from before this [moment](Staging::moment).
    Before(u64),
    /// Those that are held since this time, or longer.
    HeldSince(u64),
}

/// Blocks that were taken out and are under way.
#[derive(Debug)]
#[must_use = "they stay under way until the end is reported"]
pub struct Taken<M, S> {
    blocks: Vec<Placement<M, S>>,
}

/// What becomes of a write that was taken in.
#[derive(Debug)]
#[must_use]
pub struct Placed<M, S> {
    /// Stands for the write in [`Staging::retract`].
    pub number: u64,
    /// What is to be written directly, now: the aligned middle, and the blocks at its ends that are
    /// complete.
    pub run: Range<u64>,
    /// The bytes before the middle, where they complete no block.
    pub head: End,
    /// The bytes behind the middle, where they complete no block.
    pub tail: End,
    /// Blocks at the ends of the run that this write completes, with bytes of others.
    pub taken: Taken<M, S>,
}

/// What becomes of the bytes at one end of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// There are none: the end is aligned.
    Aligned,
    /// They complete their block, which is part of the run.
    Completes,
    /// They are held.
    Held,
    /// They cannot be held for want of memory: the caller writes them.
    Refused,
}

/// Why a write cannot be taken in now. Nothing of it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It has no whole block, or its end passes the end of any file.
    NoMiddle,
    /// Nothing is held for now: somebody changes the whole file.
    Paused,
    /// A block at one of its ends is under way.
    UnderWay,
    /// Parts of blocks are held or under way that its middle covers: they are to be taken out and written first.
    Covers,
}

impl<M: DerefMut<Target = [u8]>, S: Clone> Staging<M, S> {
    /// Holds nothing yet.
    ///
    /// # Panics
    /// For a block that is not a power of two.
    #[must_use]
    pub fn new(block_bytes: usize) -> Self {
        assert!(block_bytes.is_power_of_two(), "{block_bytes}");
        Self {
            block_bytes: block_bytes as u64,
            held: BTreeMap::new(),
            under_way: BTreeMap::new(),
            written_in_part: BTreeMap::new(),
            next: 0,
            paused: 0,
            end: 0,
            emptied: 0,
        }
    }

    /// Takes in a write of `data` at `offset`, which came at `now` (of any clock that only goes forward).
    /// `memory` is asked for a block of memory for each part that is to be held.
    ///
    /// # Errors
    /// Why it cannot be taken in: see there what to do first.
    pub fn write(
        &mut self,
        offset: u64,
        data: &[u8],
        sender: &S,
        now: u64,
        mut memory: impl FnMut() -> Option<M>,
    ) -> Result<Placed<M, S>, Obstacle> {
        let end = offset
            .checked_add(data.len() as u64)
            .filter(|end| *end <= i64::MAX as u64)
            .ok_or(Obstacle::NoMiddle)?;
        let middle = offset.next_multiple_of(self.block_bytes)..self.start_of(end);
        if middle.start >= middle.end {
            return Err(Obstacle::NoMiddle);
        }
        if self.paused > 0 {
            return Err(Obstacle::Paused);
        }
        if self.held.range(middle.clone()).next().is_some()
            || self.under_way.range(middle.clone()).next().is_some()
        {
            return Err(Obstacle::Covers);
        }
        if self.is_under_way(&(offset..end), u64::MAX) {
            return Err(Obstacle::UnderWay);
        }
        let number = self.next;
        self.next += 1;
        let mut placed = Placed {
            number,
            run: middle.clone(),
            head: End::Aligned,
            tail: End::Aligned,
            taken: Taken { blocks: Vec::new() },
        };
        let before = (middle.start - offset) as usize;
        let behind = (end - middle.end) as usize;
        let mut part = |side, bytes: &[u8]| {
            let start = match side {
                Side::Head => middle.end,
                Side::Tail => middle.start - self.block_bytes,
            };
            let sender = sender.clone();
            self.place(start, side, bytes, (sender, number, now), &mut memory)
        };
        // The beginning of the write is the tail of its block.
        if before > 0 {
            let (end, complete) = part(Side::Tail, &data[..before]);
            placed.head = end;
            placed.taken.blocks.extend(complete);
        }
        if behind > 0 {
            let (end, complete) = part(Side::Head, &data[data.len() - behind..]);
            placed.tail = end;
            placed.taken.blocks.extend(complete);
        }
        if placed.head == End::Completes {
            placed.run.start -= self.block_bytes;
        }
        if placed.tail == End::Completes {
            placed.run.end += self.block_bytes;
        }
        for (start, block) in &placed.taken.blocks {
            self.under_way.insert(*start, block.oldest());
        }
        Ok(placed)
    }

    /// Holds one part of a block, or takes the block out if it is complete with it.
    fn place(
        &mut self,
        start: u64,
        side: Side,
        data: &[u8],
        (sender, write, now): (S, u64, u64),
        memory: &mut impl FnMut() -> Option<M>,
    ) -> (End, Option<Placement<M, S>>) {
        let block_bytes = self.block_bytes as usize;
        let went_alone = self.written_in_part.remove(&start);
        let mut block = match self.held.remove(&start) {
            Some(block) => block,
            None if went_alone.is_some_and(|went| went != side) => return (End::Refused, None),
            None => match memory() {
                Some(bytes) if bytes.len() == block_bytes => Block {
                    bytes,
                    head: None,
                    tail: None,
                    since: now,
                },
                _ => {
                    self.note_written_in_part(start, side);
                    return (End::Refused, None);
                }
            },
        };
        let place = match side {
            Side::Head => 0..data.len(),
            Side::Tail => block_bytes - data.len()..block_bytes,
        };
        // If the write fails that takes the block along, the others' bytes are to be there as they were.
        let head = block.head.as_ref().map_or(0, |head| head.at);
        let tail = block.tail.as_ref().map_or(block_bytes, |tail| tail.at);
        let complete = match side {
            Side::Head => place.end >= tail,
            Side::Tail => place.start <= head,
        };
        if complete {
            return (End::Completes, Some((start, block)));
        }
        block.bytes[place.clone()].copy_from_slice(data);
        let (old, at) = match side {
            Side::Head => (&mut block.head, place.end.max(head)),
            Side::Tail => (&mut block.tail, place.start.min(tail)),
        };
        let oldest = old.as_ref().map_or(write, |part| part.oldest);
        *old = Some(Part {
            at,
            sender,
            write,
            oldest,
        });
        self.held.insert(start, block);
        (End::Held, None)
    }

    /// Takes out those blocks of `range` that `which` names. `None` where there are none.
    pub fn take(&mut self, range: &Range<u64>, which: Which) -> Option<Taken<M, S>> {
        let wanted = |block: &Block<M, S>| match which {
            Which::Before(moment) => block.oldest() < moment,
            Which::HeldSince(at) => block.since <= at,
        };
        let starts: Vec<u64> = self
            .held
            .range(self.blocks_of(range))
            .filter(|(_, block)| wanted(block))
            .map(|(start, _)| *start)
            .collect();
        let mut blocks = Vec::with_capacity(starts.len());
        for start in starts {
            if let Some(block) = self.held.remove(&start) {
                self.under_way.insert(start, block.oldest());
                match (&block.head, &block.tail) {
                    (Some(_), None) => self.note_written_in_part(start, Side::Head),
                    (None, Some(_)) => self.note_written_in_part(start, Side::Tail),
                    _ => {}
                }
                blocks.push((start, block));
            }
        }
        (!blocks.is_empty()).then_some(Taken { blocks })
    }

    /// Reports that what was taken out is in the file, or is lost. It is handed back to be dropped.
    pub fn done(&mut self, taken: Taken<M, S>) -> Vec<Block<M, S>> {
        for (start, _) in &taken.blocks {
            self.under_way.remove(start);
        }
        self.note_if_empty();
        taken.blocks.into_iter().map(|(_, block)| block).collect()
    }

    /// Reports that what was taken out is perhaps not in the file: it is held again.
    pub fn restore(&mut self, taken: Taken<M, S>) {
        for (start, block) in taken.blocks {
            self.under_way.remove(&start);
            self.written_in_part.remove(&start);
            self.held.insert(start, block);
        }
    }

    /// Takes note that a write which was taken in is answered with success: whoever asks, the file reaches to its
    /// `end`.
    pub fn accepted(&mut self, end: u64) {
        let start = self.start_of(end);
        // Perhaps a later write's bytes by now.
        let head = self.held.get(&start).and_then(|block| block.head.as_ref());
        if head.is_some_and(|head| start + head.at as u64 >= end)
            || self.under_way.contains_key(&start)
        {
            self.end = self.end.max(end);
        }
    }

    /// Forgets what is held of a write that failed, or of its bytes behind `offset`, as far as nobody
    /// else's were in their place.
    pub fn retract(&mut self, number: u64, range: &Range<u64>) {
        let of_write = |part: &mut Part<S>| part.write == number && part.oldest == number;
        for at in [range.start, range.end] {
            let start = self.start_of(at);
            if let Some(block) = self.held.get_mut(&start) {
                block.head.take_if(of_write);
                block.tail.take_if(of_write);
                if block.head.is_none() && block.tail.is_none() {
                    self.held.remove(&start);
                }
            }
        }
        self.note_if_empty();
    }

    /// Is something held of the blocks that `range` touches?
    #[must_use]
    pub fn holds(&self, range: &Range<u64>) -> bool {
        self.held.range(self.blocks_of(range)).next().is_some()
    }

    /// Is a block of `range` under way that has bytes of a write from before this moment? If that fails they are
    /// held again: whoever waits for them looks for both.
    #[must_use]
    pub fn is_under_way(&self, range: &Range<u64>, moment: u64) -> bool {
        let mut blocks = self.under_way.range(self.blocks_of(range));
        blocks.any(|(_, oldest)| *oldest < moment)
    }

    /// Now, as a moment: after all writes that were taken in, and before those to come.
    #[must_use]
    pub fn moment(&self) -> u64 {
        self.next
    }

    /// From now on nothing is held, until [`Staging::resume`] was called as often.
    pub fn pause(&mut self) {
        self.paused += 1;
    }

    /// Undoes one [`Staging::pause`].
    pub fn resume(&mut self) {
        self.paused = self.paused.saturating_sub(1);
    }

    /// Where the file ends at least, with what is held of it (0 where nothing is), and how often this was set
    /// back: if that differs before and after the file itself was asked, ask again.
    #[must_use]
    pub fn end(&self) -> (u64, u64) {
        (self.end, self.emptied)
    }

    /// How many blocks are held or under way.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.held.len() + self.under_way.len()
    }

    /// Is nothing held or under way, and nobody has paused it?
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.blocks() == 0 && self.paused == 0
    }

    /// Of many such blocks those at the lowest offsets are forgotten: a stream has passed them.
    fn note_written_in_part(&mut self, start: u64, side: Side) {
        self.written_in_part.insert(start, side);
        if self.written_in_part.len() > limits::STAGING_WRITTEN_IN_PART_MAX {
            self.written_in_part.pop_first();
        }
    }

    fn note_if_empty(&mut self) {
        if self.blocks() == 0 {
            self.end = 0;
            self.emptied += 1;
        }
    }

    fn start_of(&self, at: u64) -> u64 {
        at - at % self.block_bytes
    }

    /// Where the blocks begin that a range touches.
    fn blocks_of(&self, range: &Range<u64>) -> Range<u64> {
        let start = self.start_of(range.start);
        start..range.end.max(start)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Head,
    Tail,
}

impl<M: DerefMut<Target = [u8]>, S> Placed<M, S> {
    /// The bytes of others that stand before those of the write `asked` in its run, and behind them.
    #[must_use]
    pub fn of_others(&self, asked: &Range<u64>) -> (&[u8], &[u8]) {
        let before = asked.start.saturating_sub(self.run.start) as usize;
        let behind = self.run.end.saturating_sub(asked.end) as usize;
        let blocks = &self.taken.blocks;
        let front = match (self.head, blocks.first()) {
            (End::Completes, Some((_, block))) => &block.bytes[..before],
            _ => &[],
        };
        let back = match (self.tail, blocks.last()) {
            (End::Completes, Some((_, block))) => &block.bytes[block.bytes.len() - behind..],
            _ => &[],
        };
        (front, back)
    }
}

impl<M, S> Taken<M, S> {
    /// How many blocks were taken out.
    #[must_use]
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Was nothing taken out?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The blocks in ascending order, each with where it begins in the file.
    pub fn blocks_mut(&mut self) -> impl Iterator<Item = (u64, &mut Block<M, S>)> {
        self.blocks.iter_mut().map(|(start, block)| (*start, block))
    }
}

impl<M, S> Block<M, S> {
    /// The number of the oldest write that has bytes in it.
    fn oldest(&self) -> u64 {
        let parts = self.head.iter().chain(&self.tail);
        parts.map(|part| part.oldest).min().unwrap_or(u64::MAX)
    }
}

impl<M: DerefMut<Target = [u8]>, S> Block<M, S> {
    /// The memory of the whole block. Only its [`Block::parts`] are the file's bytes.
    pub fn memory_mut(&mut self) -> &mut M {
        &mut self.bytes
    }

    /// The parts that are held, in ascending order, with who sent them.
    pub fn parts(&self) -> impl Iterator<Item = (Range<usize>, &S)> {
        let len = self.bytes.len();
        let head = self.head.iter().map(|part| (0..part.at, &part.sender));
        let tail = self
            .tail
            .iter()
            .map(move |part| (part.at..len, &part.sender));
        head.chain(tail)
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
