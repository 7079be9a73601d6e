//! The space of a file: taken, given back, looked through for holes, and shared with another file; and bytes that
//! go from one file to another without leaving the kernel.

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
        let copied = self.changing(to, move |fd| {
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
        to.object.io.note_unstable(to.actor.author);
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

    /// The descriptor of a file that its bytes come from.
    async fn source(self: &Arc<Self>, from: &Target, to: &Target) -> Result<Arc<OwnedFd>> {
        if from.object.mount.fsid != to.object.mount.fsid {
            return Err(Error::CrossDevice);
        }
        self.readable(from).await
    }

    /// A descriptor for reading, of a file that the caller may read and of which nothing is staged.
    async fn readable(self: &Arc<Self>, target: &Target) -> Result<Arc<OwnedFd>> {
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

fn must_be_regular(object: &Object) -> Result<()> {
    if object.kind == FileKind::Regular {
        Ok(())
    } else {
        Err(Error::Invalid)
    }
}
