//! An open file of this host, and how its bytes travel: through the page cache, through it and dropped
//! behind, or past it. Every call may block: callers are on threads for that.
//!
//! What the plan of a range allows is moved as asked; the rest, and all of it once the file system has
//! refused, goes through the page cache. No copy fails because a way was not possible.

use std::fs::File as LocalFile;
use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use nfs_io::buffer::{Buf, BufferPool};
use nfs_io::plan::{self, Alignment};
use nfs_io::{Mode, fs};
use rustix::fs::OFlags;

use super::piece::Piece;
use super::watch::Watch;
use crate::limits::{DIRECT_ALIGN_BYTES, LOCAL_PIECES_MAX};

/// An open regular file of this host.
#[derive(Debug)]
pub(super) struct Disk {
    file: LocalFile,
    mode: Mode,
    /// The same file once more, open with `O_DIRECT`; made when it is first wanted.
    past: OnceLock<Option<Past>>,
    /// The file system, or the kernel, has refused the mode.
    refused: AtomicBool,
    watch: Watch,
}

/// A way past the page cache.
#[derive(Debug)]
struct Past {
    fd: OwnedFd,
    alignment: Alignment,
}

impl Disk {
    /// `file`, moved as `how` says; `watch` is told if that is refused.
    pub(super) fn new(file: LocalFile, how: Mode, watch: &Watch) -> Self {
        Self {
            file,
            mode: how,
            past: OnceLock::new(),
            refused: AtomicBool::new(false),
            watch: watch.clone(),
        }
    }

    /// The file itself, for everything but its content.
    pub(super) fn file(&self) -> &LocalFile {
        &self.file
    }

    /// Closes a file that was written. Some file systems tell only now that what they took did not get
    /// to its place: each descriptor is asked, for each tells of its own writes.
    pub(super) fn close(self) -> io::Result<()> {
        let past = self.past.into_inner().flatten();
        let past = past.map_or(Ok(()), |past| fs::close(past.fd));
        let file = fs::close(self.file.into());
        Ok(past.and(file)?)
    }

    /// How it is moved from now on.
    fn mode(&self) -> Mode {
        if self.refused.load(Ordering::Relaxed) {
            Mode::Buffered
        } else {
            self.mode
        }
    }

    /// Pieces that are moved at once. Past the page cache several, so that the device has more than one
    /// to do. The page cache takes each in its turn anyway, best while it is in the processor's cache.
    pub(super) fn pieces_at_once(&self) -> usize {
        match self.mode() {
            Mode::Direct => LOCAL_PIECES_MAX,
            Mode::Buffered | Mode::DontCache => 1,
        }
    }

    /// From now on through the page cache, which is counted once.
    fn refuse(&self) {
        if !self.refused.swap(true, Ordering::Relaxed) {
            self.watch.local_refused();
        }
    }

    fn past(&self) -> Option<&Past> {
        if self.mode() != Mode::Direct {
            return None;
        }
        let past = self.past.get_or_init(|| open_past(&self.file).ok());
        if past.is_none() {
            self.refuse();
        }
        past.as_ref()
    }

    /// Up to `len` bytes at `offset`: fewer only at the end of the file.
    pub(super) fn read(&self, offset: u64, len: usize, pool: &BufferPool) -> io::Result<Bytes> {
        Ok(self
            .read_some(offset, &[len], pool)?
            .pop()
            .unwrap_or_default())
    }

    /// Pieces of `lens` bytes from `offset` on, one behind the other: at least the first, as many as there
    /// is memory for, and fewer bytes only at the end of the file.
    pub(super) fn read_some(
        &self,
        offset: u64,
        lens: &[usize],
        pool: &BufferPool,
    ) -> io::Result<Vec<Bytes>> {
        let Some(mut bufs) = take(lens, pool) else {
            let mut plain = vec![0; lens.first().copied().unwrap_or_default()];
            let have = self.fill(offset, &mut [IoSliceMut::new(&mut plain)], self.cached())?;
            plain.truncate(have);
            return Ok(Vec::from_iter((have > 0).then(|| plain.into())));
        };
        let asked = lens.iter().zip(&bufs).map(|(len, _)| *len).sum();
        let first = bufs.first().map_or(0, Buf::address);
        let plan = self.past().and_then(|past| {
            let plan = plan::plan_read(Mode::Direct, offset, asked, first, &past.alignment)?;
            let fits = plan.fallback().is_none() && plan.rounded().start == offset;
            fits.then(|| plan.rounded())
        });
        let mode = plan.as_ref().map_or(self.cached(), |_| Mode::Direct);
        let wanted = plan.map_or(asked as u64, |rounded| rounded.end - rounded.start);
        if let Some((last, before)) = bufs.split_last_mut() {
            let before: usize = before.iter().map(|buf| buf.len()).sum();
            let left = usize::try_from(wanted).unwrap_or(asked) - before;
            // What an alignment beyond our own leaves no room for is refused.
            last.set_len(left.min(last.capacity()));
        }
        let mut slices: Vec<_> = bufs.iter_mut().map(|buf| IoSliceMut::new(buf)).collect();
        let mut have = self.fill(offset, &mut slices, mode)?.min(asked);
        drop(slices);
        for (buf, &len) in bufs.iter_mut().zip(lens) {
            buf.truncate(len.min(have));
            have -= buf.len();
        }
        let filled = bufs.into_iter().filter(|buf| !buf.is_empty());
        Ok(filled.map(Bytes::from_owner).collect())
    }

    /// How what cannot go past the page cache goes.
    fn cached(&self) -> Mode {
        match self.mode() {
            Mode::DontCache => Mode::DontCache,
            Mode::Buffered | Mode::Direct => Mode::Buffered,
        }
    }

    /// Fills `slices` from `offset` on, or up to the end of the file; the bytes there.
    fn fill(&self, offset: u64, slices: &mut [IoSliceMut<'_>], mode: Mode) -> io::Result<usize> {
        let wanted: usize = slices.iter().map(|slice| slice.len()).sum();
        let mut left = slices;
        let mut mode = mode;
        let mut have = 0;
        while have < wanted {
            let fd = match (mode, self.past()) {
                (Mode::Direct, Some(past)) => past.fd.as_fd(),
                _ => self.file.as_fd(),
            };
            let at = offset.saturating_add(have as u64);
            // The slices that are handed over are used up: those behind them stay.
            let mut handed: Vec<_> = left
                .iter_mut()
                .map(|slice| IoSliceMut::new(slice))
                .collect();
            match fs::read_pieces(fd, &mut handed, at, mode) {
                Ok(count) => {
                    drop(handed);
                    IoSliceMut::advance_slices(&mut left, count);
                    have += count;
                    // Short through the page cache is the end; past it, it may be the middle of a block.
                    if mode != Mode::Direct {
                        break;
                    }
                    mode = Mode::Buffered;
                }
                Err(errno) if mode.is_refused_by(errno) => {
                    self.refuse();
                    mode = Mode::Buffered;
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(have)
    }

    /// Whether `next` can be written together with what ends with `last`.
    pub(super) fn joins(&self, last: &Piece, next: &Piece) -> bool {
        let aligned = |at: usize| at.is_multiple_of(DIRECT_ALIGN_BYTES);
        let end = last.end();
        end == next.offset
            && end.is_multiple_of(DIRECT_ALIGN_BYTES as u64)
            && aligned(next.data.as_ptr().addr())
            && self.past().is_some()
    }

    /// Writes all of `pieces`, each of which [joins](Self::joins) the one before it.
    pub(super) fn write(&self, pieces: &[Piece], pool: &BufferPool) -> io::Result<()> {
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else {
            return Ok(());
        };
        let all = first.offset..last.end();
        let len = usize::try_from(all.end - all.start).unwrap_or(usize::MAX);
        let Some(past) = self.past() else {
            return self.write_range(pieces, all, self.cached());
        };
        let planned = |address| {
            let plan = plan::plan_write(Mode::Direct, all.start, len, address, &past.alignment);
            plan.ok_or(io::ErrorKind::FileTooLarge)
        };
        let plan = planned(first.data.as_ptr().addr())?;
        if plan.fallback() != Some(plan::Fallback::MemoryNotCongruent) {
            return plan.segments().try_for_each(|segment| {
                self.write_range(pieces, segment.file.clone(), segment.mode)
            });
        }
        let Some(copy) = placed(first, pool).filter(|_| pieces.len() == 1) else {
            return self.write_range(pieces, all, Mode::Buffered);
        };
        let plan = planned(copy.as_ptr().addr())?;
        let copy = [Piece {
            offset: first.offset,
            data: copy,
        }];
        plan.segments()
            .try_for_each(|segment| self.write_range(&copy, segment.file.clone(), segment.mode))
    }

    /// Writes what `pieces` have for `range` of the file.
    fn write_range(&self, pieces: &[Piece], range: Range<u64>, mode: Mode) -> io::Result<()> {
        let mut mode = mode;
        let mut at = range.start;
        while at < range.end {
            let fd = match (mode, self.past()) {
                (Mode::Direct, Some(past)) => past.fd.as_fd(),
                (Mode::Direct, None) => {
                    mode = Mode::Buffered;
                    self.file.as_fd()
                }
                _ => self.file.as_fd(),
            };
            let parts = pieces.iter().map(|piece| piece.part(&(at..range.end)));
            let mut slices: Vec<_> = parts.map(IoSlice::new).collect();
            match fs::write_pieces(fd, &mut slices, at, mode) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    at += count as u64;
                    // What is left may begin in the middle of a block, or meet an error.
                    if mode == Mode::Direct {
                        mode = Mode::Buffered;
                    }
                }
                Err(errno) if mode.is_refused_by(errno) => {
                    self.refuse();
                    mode = Mode::Buffered;
                    // A refused beginning may be there, or half of it.
                    at = range.start;
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }
}

/// Buffers for as many pieces as there is memory for, with room to round the last one up; `None` if there
/// is none even for the first.
fn take(lens: &[usize], pool: &BufferPool) -> Option<Vec<Buf>> {
    let rounded = |len: usize| len.next_multiple_of(DIRECT_ALIGN_BYTES);
    let taken = lens.iter().map_while(|&len| {
        let mut buf = pool.try_take(rounded(len))?;
        buf.truncate(len);
        Some(buf)
    });
    let bufs: Vec<_> = taken.collect();
    (!bufs.is_empty()).then_some(bufs)
}

/// A copy of a piece that lies in memory as it will in the file.
fn placed(piece: &Piece, pool: &BufferPool) -> Option<Bytes> {
    let start = plan::placement(piece.offset);
    let mut buf = pool.try_take_placed(piece.data.len(), start)?;
    buf.copy_from_slice(&piece.data);
    Some(Bytes::from_owner(buf))
}

fn open_past(file: &LocalFile) -> nfs_io::Result<Past> {
    let access = rustix::fs::fcntl_getfl(file)? & OFlags::RWMODE;
    let flags = access | OFlags::DIRECT | OFlags::NONBLOCK;
    let fd = fs::reopen(file.as_fd(), flags)?;
    let block = fs::statfs(fd.as_fd())?.bsize;
    let said = fs::statx(fd.as_fd())?.alignment(block);
    // A file system that does not say, but opens: enough for every disk that Linux knows, and it refuses
    // what it does not like.
    let enough = u32::try_from(DIRECT_ALIGN_BYTES).unwrap_or(u32::MAX);
    let or_enough = |said: u32| if said == 0 { enough } else { said };
    let alignment = Alignment {
        memory: or_enough(said.memory),
        offset: or_enough(said.offset),
        ..said
    };
    Ok(Past { fd, alignment })
}

#[cfg(test)]
mod tests;
