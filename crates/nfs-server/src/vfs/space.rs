//! The space of a file: taken, given back, looked through for holes, and shared with another file; and bytes that
//! go from one file to another without leaving the kernel.

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use nfs_io::Errno;
use nfs_io::fs::{self, Stat};
use nfs_io::identity::Guard;

use super::gate::Changing;
use super::staging::{WHOLE, Why};
use super::{Access, Error, FileKind, Object, Result};
use crate::limits;
use crate::vfs::{Target, Vfs};

/// What is looked for in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Data,
    Hole,
}

/// Bytes of a file: where they begin, and how many they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// Where a range of a file has data and where holes.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) segments: Vec<(Content, Range<u64>)>,
    /// Bytes of the file.
    pub(crate) size: u64,
}

/// The unit in which statx(2) counts an object's blocks, whatever the file system's are.
const STAT_BLOCK_BYTES: u64 = 512;

impl Vfs {
    /// Takes space for bytes of a file, so that writing there does not fail for want of it. The file becomes as long as
    /// that, if it was shorter; it is so on stable storage when this returns.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is no regular file or for no bytes, else the kernel's.
    pub(crate) async fn allocate(self: &Arc<Self>, target: &Target, what: Extent) -> Result<()> {
        self.change_space(target, move |fd| {
            fs::allocate(fd.as_fd(), what.offset, what.len)
        })
        .await
    }

    /// Gives back the space of bytes of a file, which are zeros from then on; on stable storage when this returns.
    ///
    /// # Errors
    /// As [`Vfs::allocate`].
    pub(crate) async fn deallocate(self: &Arc<Self>, target: &Target, what: Extent) -> Result<()> {
        self.change_space(target, move |fd| {
            fs::punch_hole(fd.as_fd(), what.offset, what.len)
        })
        .await
    }

    /// Lets bytes of a file be those of another, in the same blocks until one of the two is written. A length of 0 means
    /// up to the end of `from`. On stable storage when this returns.
    ///
    /// # Errors
    /// [`Error::CrossDevice`], EOPNOTSUPP where the file system shares no blocks, and the kernel's others.
    pub(crate) async fn clone_range(
        self: &Arc<Self>,
        (from, what): (&Target, Extent),
        (to, at): (&Target, u64),
    ) -> Result<()> {
        let source = self.source(from, to).await?;
        self.change_space(to, move |fd| {
            fs::clone_range((source.as_fd(), what.offset), (fd.as_fd(), at), what.len)
        })
        .await
    }

    /// Copies bytes of a file to another, at most [`limits::COPY_BYTES_MAX`] at once; a length of 0 means up to the end
    /// of `from`. Returns how many, and the write verifier from before: they are unstable.
    ///
    /// # Errors
    /// As [`Vfs::clone_range`].
    pub(crate) async fn copy_range(
        self: &Arc<Self>,
        (from, what): (&Target, Extent),
        (to, at): (&Target, u64),
    ) -> Result<(u64, [u8; 8])> {
        let source = self.source(from, to).await?;
        let verifier = self.verifier.bytes();
        let wanted = match what.len {
            0 => limits::COPY_BYTES_MAX,
            len => len.min(limits::COPY_BYTES_MAX),
        };
        let (vfs, object) = (Arc::clone(self), Arc::clone(&to.object));
        let copied = self.changing(to, move |fd| {
            vfs.zero_before_copy(&object, fd.as_fd(), at)?;
            let mut copied = 0;
            while copied < wanted {
                let (from_at, to_at) = (what.offset + copied, at + copied);
                // At most COPY_BYTES_MAX.
                let left = usize::try_from(wanted - copied).unwrap_or(usize::MAX);
                match fs::copy_range((source.as_fd(), from_at), (fd.as_fd(), to_at), left) {
                    Ok(0) => break,
                    Ok(len) => copied += len as u64,
                    // What was copied before is told; the next COPY meets the error.
                    Err(_) if copied > 0 => break,
                    Err(error) => return Err(error),
                }
            }
            Ok(copied)
        });
        let copied = copied.await?;
        to.object.io.note_unstable(to.actor.author, copied);
        Ok((copied, verifier))
    }

    /// Where the next data or hole of a file begins, from `offset` on; the end of the file is a hole. Returns whether the
    /// file ends there.
    ///
    /// # Errors
    /// ENXIO for an offset at or behind the end of the file, and for data where none is behind it.
    pub(crate) async fn seek(
        self: &Arc<Self>,
        target: &Target,
        offset: u64,
        content: Content,
    ) -> Result<(u64, bool)> {
        let file = self.readable(target).await?;
        if i64::try_from(offset).is_err() {
            // No file is as long, and the kernel would take it for a negative one.
            return Err(Errno::NXIO.into());
        }
        let object = Arc::clone(&target.object);
        let look = move || {
            let found = match content {
                Content::Data => fs::next_data(file.as_fd(), offset)?,
                Content::Hole => fs::next_hole(file.as_fd(), offset)?,
            };
            Ok((found, found >= object.stat()?.size))
        };
        self.blocking(target.queue(), look).await?
    }

    /// Where a range of a file has data and where holes, in ascending order and without gaps, and how long the file is.
    /// There are at most `segments_max` (1 at least); what would be more is taken for data, which a hole can be
    /// read as, and so are holes that are not worth a segment. A file that takes as much space as it is long is not
    /// looked through.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is no regular file, EACCES, and the kernel's others.
    pub(crate) async fn layout(
        self: &Arc<Self>,
        target: &Target,
        what: Extent,
        segments_max: usize,
    ) -> Result<Layout> {
        must_be_regular(&target.object)?;
        let stat = self.attributes(target).await?.stat;
        if stat.blocks.saturating_mul(STAT_BLOCK_BYTES) >= stat.size {
            let segments = in_file(what, stat.size).map(|range| (Content::Data, range));
            return Ok(Layout {
                segments: segments.into_iter().collect(),
                size: stat.size,
            });
        }
        let file = self.readable(target).await?;
        let object = Arc::clone(&target.object);
        let look = move || {
            // As it is by now: what was staged has been written.
            let size = object.stat()?.size;
            let next = |content, at| match content {
                Content::Data => fs::next_data(file.as_fd(), at),
                Content::Hole => fs::next_hole(file.as_fd(), at),
            };
            let segments = match in_file(what, size) {
                Some(range) => segments(&range, size, segments_max, next)?,
                None => Vec::new(),
            };
            Ok(Layout { segments, size })
        };
        self.blocking(target.queue(), look).await?
    }

    /// The descriptor of a file that its bytes come from.
    async fn source(self: &Arc<Self>, from: &Target, to: &Target) -> Result<Arc<OwnedFd>> {
        if from.object.mount.fsid != to.object.mount.fsid {
            return Err(Error::CrossDevice);
        }
        self.readable(from).await
    }

    /// A descriptor for reading, of a file that the caller may read and of which nothing is staged.
    pub(super) async fn readable(self: &Arc<Self>, target: &Target) -> Result<Arc<OwnedFd>> {
        must_be_regular(&target.object)?;
        self.settle(target.object.inode(), &WHOLE, Why::Read)
            .await?;
        let (vfs, job) = (Arc::clone(self), target.clone());
        self.opening(target.queue(), move || {
            let stat = job.object.stat()?;
            job.object.check_io(&job.actor, Access::READ, &stat)?;
            job.object.read_fd(vfs.files.budget())
        })
        .await?
    }

    /// Changes the space of a file and puts that on stable storage.
    async fn change_space(
        self: &Arc<Self>,
        target: &Target,
        change: impl FnOnce(&OwnedFd) -> nfs_io::Result<()> + Send + 'static,
    ) -> Result<()> {
        self.changing(target, change).await?;
        let flush = self.flush_of(&target.object);
        self.flush(target, vec![flush]).await
    }

    /// Does something to a file's bytes on the helper pool, as the caller, who is let write.
    async fn changing<T: Send + 'static>(
        self: &Arc<Self>,
        target: &Target,
        change: impl FnOnce(&OwnedFd) -> nfs_io::Result<T> + Send + 'static,
    ) -> Result<T> {
        must_be_regular(&target.object)?;
        target.must_be_writable()?;
        let running = target.object.begin_change(target.actor.author);
        let pause = self.pause_staging(target.object.inode()).await?;
        let (vfs, job) = (Arc::clone(self), target.clone());
        let done = self.opening(target.queue(), move || {
            let _pause = pause;
            let object = &job.object;
            let before: Stat = object.stat()?;
            object.check_io(&job.actor, Access::WRITE, &before)?;
            Object::check_sealed(&before)?;
            let fd = object.write_fd(vfs.files.budget(), &vfs.writers)?;
            let _changing = Changing::of(object.gate(&vfs.gates));
            let done = {
                let _identity = Guard::enter(&job.actor.creds)?;
                change(&fd)?
            };
            let after = object.stat()?.size;
            if after != before.size {
                object.io.truncated(before.size, after);
            }
            Ok(done)
        });
        let done = done.await?;
        drop(running);
        if let Err(Error::Errno(Errno::IO)) = done {
            self.lost(&target.object);
        }
        done
    }
}

/// What of an extent lies in a file of so many bytes.
fn in_file(what: Extent, size: u64) -> Option<Range<u64>> {
    let end = what.offset.saturating_add(what.len).min(size);
    (what.offset < end).then_some(what.offset..end)
}

/// Cuts a range, which lies in a file of `size` bytes, where `next` says that its data and holes begin.
fn segments(
    range: &Range<u64>,
    size: u64,
    segments_max: usize,
    next: impl Fn(Content, u64) -> nfs_io::Result<u64>,
) -> Result<Vec<(Content, Range<u64>)>> {
    let mut segments = Vec::new();
    // Data is known from here to `at`.
    let mut data_from = range.start;
    let mut at = range.start;
    while at < range.end {
        let data = match next(Content::Data, at) {
            Ok(data) => data.min(size),
            // No data is behind it.
            Err(Errno::NXIO) => size,
            Err(error) => return Err(error.into()),
        };
        // The hole, and data on its two sides: what is behind it needs one more at least.
        let needed = usize::from(data_from < at) + 1 + usize::from(data < range.end);
        let fits = segments.len() + needed <= segments_max;
        if data.saturating_sub(at) >= limits::READ_PLUS_HOLE_BYTES_MIN && fits {
            if data_from < at {
                segments.push((Content::Data, data_from..at));
            }
            data_from = data.min(range.end);
            segments.push((Content::Hole, at..data_from));
        } else if !fits {
            break;
        }
        if data >= range.end {
            break;
        }
        at = match next(Content::Hole, data) {
            Ok(hole) => hole,
            // The file was cut meanwhile.
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
    }
    if data_from < range.end {
        segments.push((Content::Data, data_from..range.end));
    }
    Ok(segments)
}

fn must_be_regular(object: &Object) -> Result<()> {
    if object.kind == FileKind::Regular {
        Ok(())
    } else {
        Err(Error::Invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLE: u64 = limits::READ_PLUS_HOLE_BYTES_MIN;
    use Content::{Data, Hole};

    /// Cuts a range of a file that has data in these ranges only.
    fn cut(
        data: &[Range<u64>],
        (range, size): (Range<u64>, u64),
        most: usize,
    ) -> Vec<(Content, Range<u64>)> {
        let next = |content, at: u64| {
            let mut all = data.iter();
            match content {
                _ if at >= size => Err(Errno::NXIO),
                Data => {
                    let here = all.find(|data| data.end > at);
                    here.map(|data| data.start.max(at)).ok_or(Errno::NXIO)
                }
                Hole => Ok(all
                    .find(|data| data.contains(&at))
                    .map_or(at, |data| data.end)),
            }
        };
        let cut = segments(&range, size, most, next).unwrap();
        assert!(cut.len() <= most, "{cut:?}");
        let mut at = range.start;
        for (content, part) in &cut {
            assert_eq!(part.start, at, "without gaps: {cut:?}");
            assert!(part.start < part.end, "{cut:?}");
            let has_data = data
                .iter()
                .any(|data| data.start < part.end && part.start < data.end);
            assert!(*content == Data || !has_data, "{cut:?}");
            at = part.end;
        }
        assert_eq!(at, range.end, "{cut:?}");
        cut
    }

    #[test]
    fn a_range_is_cut_where_large_holes_begin_and_end() {
        let size = 10 * HOLE;
        let data = [0..HOLE, 3 * HOLE..4 * HOLE, 5 * HOLE - 1..6 * HOLE];
        assert_eq!(
            cut(&data, (0..size, size), 8),
            [
                (Data, 0..HOLE),
                (Hole, HOLE..3 * HOLE),
                // The hole in it is one byte short.
                (Data, 3 * HOLE..6 * HOLE),
                (Hole, 6 * HOLE..size),
            ]
        );
        let in_a_hole = 7 * HOLE..7 * HOLE + 1;
        assert_eq!(
            cut(&data, (in_a_hole.clone(), size), 8),
            [(Hole, in_a_hole)]
        );
        assert_eq!(cut(&[], (0..size, size), 1), [(Hole, 0..size)]);
        let whole = 0..size;
        let all = std::slice::from_ref(&whole);
        assert_eq!(cut(all, (5..size, size), 8), [(Data, 5..size)]);
    }

    #[test]
    fn what_would_be_too_many_segments_is_read_as_data() {
        let size = 100 * HOLE;
        let data: Vec<_> = (0..50)
            .map(|at| 2 * at * HOLE..(2 * at + 1) * HOLE)
            .collect();
        for most in 1..=9 {
            for start in [0, 1, HOLE, HOLE + 1] {
                let cut = cut(&data, (start..size - 1, size), most);
                assert!(most < 3 || cut.iter().any(|(content, _)| *content == Hole));
            }
        }
    }
}
