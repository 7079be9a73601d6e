//! A file in which every byte has an owner and says which of the owner's writes it is from, so that
//! any read, by anybody, at any time, can be checked without stopping the writers.
//!
//! A cell is written whole, with a number that grows by one. A read that began when write `n` was
//! acknowledged and ended when write `m` had been sent may find, for each byte, any write from `n`
//! to `m` and no other.
//!
//! Most cells have one writer at a time. Contended ones have a few at once, in different modes: what
//! is there afterwards may be of any of these, byte by byte, but it has to be the same for everybody.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, bail};
use fastrand::Rng;

/// Values that tell writes apart; a prime, so that neighbours differ. A read that meets as many
/// writes of one cell says nothing.
const VALUES: u64 = 251;

/// Writes of a contended cell that are under way at once.
const CONTENDERS: u64 = 3;

/// The kind of writer that writes a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// NFS clients, in any mode, one write at a time.
    Remote,
    /// NFS clients, in any mode, several writes at once.
    Contended,
    /// A process on the server's own machine, by pwrite.
    Local,
    /// A process on the server's own machine, by a shared map.
    Mapped,
}

/// A run of bytes that one kind of writer writes.
pub(super) struct Cell {
    pub(super) file: Range<u64>,
    pub(super) owner: Owner,
    issued: AtomicU64,
    acknowledged: AtomicU64,
    group: Mutex<Group>,
}

/// The writes of a cell that overlap in time.
#[derive(Default)]
struct Group {
    /// Number of the group's first write.
    first: u64,
    size: u64,
    under_way: u64,
    /// Whether all writes of the group have ended, and somebody looks at what they left.
    looked_at: bool,
}

/// All cells of a file, in order, without gaps.
pub(super) struct Cells {
    cells: Vec<Cell>,
    size: u64,
}

impl Cells {
    /// Makes cells of mixed sizes, most of them off every alignment, up to about `size` bytes.
    pub(super) fn new(random: &mut Rng, size: u64, mapped: bool) -> Self {
        let mut cells = Vec::new();
        let mut at = 0;
        while at < size {
            let len = match random.u64(..12) {
                0 => 1,
                1 => 1 + random.u64(..16),
                2 => 512,
                3 => 1 + random.u64(..1000),
                4 => 4096,
                // On to a page's edge: what follows begins aligned.
                5 => 4096 - at % 4096,
                6 | 7 => 4096 + random.u64(..6000),
                8 | 9 => 8192 + random.u64(..20_000),
                _ => 1 + random.u64(..5000),
            };
            let owner = match random.u64(..8) {
                0 => Owner::Local,
                1 if mapped => Owner::Mapped,
                // Long enough for a middle that goes past the cache.
                2..5 if len > 8192 => Owner::Contended,
                _ => Owner::Remote,
            };
            cells.push(Cell {
                file: at..at + len,
                owner,
                issued: AtomicU64::new(0),
                acknowledged: AtomicU64::new(0),
                group: Mutex::default(),
            });
            at += len;
        }
        Self { cells, size: at }
    }

    pub(super) const fn size(&self) -> u64 {
        self.size
    }

    /// What is in the file before the first write.
    pub(super) fn initial(&self) -> Vec<u8> {
        content(0..self.size, 0)
    }

    /// A random cell of `owner` that may be written now, and the bytes to write.
    pub(super) fn claim(&self, random: &mut Rng, owner: Owner) -> Option<(&Cell, Vec<u8>)> {
        // Free ones are many more than writers.
        for _ in 0..1000 {
            let cell = &self.cells[random.usize(..self.cells.len())];
            if cell.owner == owner
                && let Some(number) = cell.begin()
            {
                return Some((cell, content(cell.file.clone(), number)));
            }
        }
        None
    }

    /// Notes what a local read of the range `file` that begins now may find of a server that stages WRITEs: what
    /// clients wrote may be there or not be there yet, whether or not it was acknowledged. How long it may take has
    /// a bound in time, which is for other tests; here bytes that nobody wrote are looked for.
    pub(super) fn begin_read_beside_staging(&self, file: Range<u64>) -> Expected<'_> {
        let mut expected = self.begin_read(file);
        for (cell, oldest) in expected.cells.iter().zip(&mut expected.oldest) {
            if matches!(cell.owner, Owner::Remote | Owner::Contended) {
                *oldest = 0;
            }
        }
        expected
    }

    /// Notes what a read of the range `file` that begins now may find.
    pub(super) fn begin_read(&self, file: Range<u64>) -> Expected<'_> {
        let first = self.cells.partition_point(|c| c.file.end <= file.start);
        let last = self.cells.partition_point(|c| c.file.start < file.end);
        let cells = &self.cells[first..last.max(first)];
        let oldest = cells
            .iter()
            .map(|cell| cell.acknowledged.load(Ordering::SeqCst))
            .collect();
        Expected {
            file,
            cells,
            oldest,
        }
    }
}

impl Cell {
    /// The number of a write that begins now; `None` if others have to end first.
    fn begin(&self) -> Option<u64> {
        let most = if self.owner == Owner::Contended {
            CONTENDERS
        } else {
            1
        };
        let mut group = self.group();
        if group.looked_at || group.size == most {
            return None;
        }
        let number = self.issued.fetch_add(1, Ordering::SeqCst) + 1;
        if group.size == 0 {
            group.first = number;
        }
        group.size += 1;
        group.under_way += 1;
        Some(number)
    }

    /// The write was acknowledged: no read that begins now may find what was there before. True if
    /// it was the last of several: the cell stays as it is until [`Cell::release`].
    pub(super) fn acknowledge(&self) -> bool {
        let mut group = self.group();
        group.under_way -= 1;
        if group.under_way > 0 {
            return false;
        }
        self.acknowledged.store(group.first, Ordering::SeqCst);
        let several = group.size > 1;
        *group = Group {
            looked_at: several,
            ..Group::default()
        };
        several
    }

    /// What several writes have left was looked at.
    pub(super) fn release(&self) {
        self.group().looked_at = false;
    }

    fn group(&self) -> std::sync::MutexGuard<'_, Group> {
        self.group
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// What a read may find, noted by [`Cells::begin_read`].
pub(super) struct Expected<'a> {
    file: Range<u64>,
    cells: &'a [Cell],
    oldest: Vec<u64>,
}

impl Expected<'_> {
    /// Checks what a read that has ended now has found.
    ///
    /// # Errors
    /// With the first cell that has other bytes than one of its writes may have left.
    pub(super) fn check(&self, found: &[u8]) -> Result<()> {
        if found.len() as u64 != self.file.end - self.file.start {
            bail!("{} bytes of {:?}", found.len(), self.file);
        }
        for (cell, oldest) in self.cells.iter().zip(&self.oldest) {
            let newest = cell.issued.load(Ordering::SeqCst);
            let file = cell.file.start.max(self.file.start)..cell.file.end.min(self.file.end);
            let start = (file.start - self.file.start) as usize;
            let bytes = &found[start..start + (file.end - file.start) as usize];
            let wrong = (file.start..)
                .zip(bytes)
                .find(|(at, byte)| !may_be(**byte, *at, *oldest, newest));
            if let Some((at, byte)) = wrong {
                let age = (VALUES + oldest % VALUES - number_of(*byte, at)) % VALUES;
                let count = (file.start..)
                    .zip(bytes)
                    .filter(|(at, byte)| !may_be(**byte, *at, *oldest, newest))
                    .count();
                bail!(
                    "{count} wrong bytes of the cell {:?} ({:?}): at {at} {byte:#04x}, which is {age} \
                     writes older than number {oldest}, acknowledged before this read of {:?} began, \
                     or no byte of this file; sent so far: {newest}",
                    cell.file,
                    cell.owner,
                    self.file
                );
            }
        }
        Ok(())
    }
}

/// The bytes of write `number` of a cell.
fn content(file: Range<u64>, number: u64) -> Vec<u8> {
    file.map(|at| 1 + ((number + at * 7) % VALUES) as u8)
        .collect()
}

/// The number of the write that a byte is from, modulo [`VALUES`].
const fn number_of(byte: u8, at: u64) -> u64 {
    (byte as u64 + 2 * VALUES - 1 - (at * 7) % VALUES) % VALUES
}

const fn may_be(byte: u8, at: u64, oldest: u64, newest: u64) -> bool {
    let after = (number_of(byte, at) + VALUES - oldest % VALUES) % VALUES;
    // 0 is no write's, nor is anything above the values.
    byte != 0 && byte as u64 <= VALUES && after <= newest - oldest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_finds_no_write_older_than_the_last_acknowledged_and_none_that_was_not_sent() {
        let cells = Cells::new(&mut Rng::with_seed(1), 10_000, false);
        let (cell, data) = cells
            .claim(&mut Rng::with_seed(2), Owner::Remote)
            .expect("a free cell");
        let expected = cells.begin_read(cell.file.clone());
        // Under way: both.
        expected.check(&data).expect("the new bytes");
        expected
            .check(&content(cell.file.clone(), 0))
            .expect("the old bytes");
        expected
            .check(&content(cell.file.clone(), 2))
            .expect_err("bytes that nobody has sent");
        cell.acknowledge();
        let expected = cells.begin_read(cell.file.clone());
        expected.check(&data).expect("the new bytes");
        expected
            .check(&content(cell.file.clone(), 0))
            .expect_err("the old bytes");
        cells
            .begin_read_beside_staging(cell.file.clone())
            .check(&content(cell.file.clone(), 0))
            .expect("old bytes, on the server's machine");
        expected.check(&vec![0; data.len()]).expect_err("a hole");
        expected.check(&vec![0xff; data.len()]).expect_err("poison");
    }
}
