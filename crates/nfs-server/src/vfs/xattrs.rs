//! Extended attributes of the user's namespace, of files and directories. The kernel decides about each as about the
//! object's bytes: who may read it may read them, who may write it may change them.

use std::sync::Arc;

use nfs_io::fs::{self, XattrFlags};
use nfs_io::identity::Guard;
use nfs_io::{Reservation, Share};

use super::stable::Flush;
use super::{Access, Error, Result, Wcc, WithWcc};
use crate::limits;
use crate::vfs::{Target, Vfs};

/// What to do when the attribute to be set is there already, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetXattr {
    Either,
    /// Only a new one is set.
    Create,
    /// Only one that is there is set.
    Replace,
}

/// Something that was read, with the memory that is reserved for it.
pub(crate) struct InMemory {
    pub(crate) bytes: Vec<u8>,
    pub(crate) memory: Reservation,
    /// What of the client's share that is.
    pub(crate) share: Share,
}

impl Vfs {
    /// The value of an attribute. Waits for memory as a READ does.
    ///
    /// # Errors
    /// ENODATA where there is none of this name, EOPNOTSUPP where the file system has none at all, and the kernel's
    /// others.
    pub(crate) async fn xattr(self: &Arc<Self>, target: &Target, name: &[u8]) -> Result<InMemory> {
        let (job, name) = (target.clone(), name.to_vec());
        self.asked_of_xattrs(target, move || {
            let _identity = Guard::enter(&job.actor.creds)?;
            Ok(fs::user_xattr(job.object.path(), &name)?)
        })
        .await
    }

    /// The names of all attributes, without `user.` and each with a zero byte behind it. Waits for memory as a READ does.
    ///
    /// # Errors
    /// EACCES for who may not read the object, and as [`Vfs::xattr`].
    pub(crate) async fn xattr_names(self: &Arc<Self>, target: &Target) -> Result<InMemory> {
        let job = target.clone();
        self.asked_of_xattrs(target, move || {
            // The kernel would tell them to anybody.
            let stat = job.object.stat()?;
            job.object.check(&job.actor.creds, Access::READ, &stat)?;
            Ok(fs::user_xattrs(job.object.path())?)
        })
        .await
    }

    async fn asked_of_xattrs(
        self: &Arc<Self>,
        target: &Target,
        ask: impl FnOnce() -> Result<Vec<u8>> + Send + 'static,
    ) -> Result<InMemory> {
        let most = limits::XATTR_MEMORY_BYTES;
        let (share, _of_mount) = self.room_for(target, most).await;
        let budget = self.read_buffers.budget();
        let memory = budget.reserve(most).await.ok_or(Error::Busy)?;
        let bytes = self.blocking(target.queue(), ask).await??;
        Ok(InMemory {
            bytes,
            memory,
            share,
        })
    }

    /// Sets an attribute; it is so on stable storage when this returns.
    ///
    /// # Errors
    /// EEXIST and ENODATA by `how`, E2BIG and ENOSPC for values that are too large, [`Error::ReadOnly`], and as
    /// [`Vfs::xattr`].
    pub(crate) async fn set_xattr(
        self: &Arc<Self>,
        target: &Target,
        (name, value): (&[u8], &[u8]),
        how: SetXattr,
    ) -> WithWcc<()> {
        let flags = match how {
            SetXattr::Either => XattrFlags::empty(),
            SetXattr::Create => XattrFlags::CREATE,
            SetXattr::Replace => XattrFlags::REPLACE,
        };
        let (job, name, value) = (target.clone(), name.to_vec(), value.to_vec());
        self.change_xattrs(target, move || {
            fs::set_user_xattr(job.object.path(), &name, &value, flags)
        })
        .await
    }

    /// Removes an attribute; it is so on stable storage when this returns.
    ///
    /// # Errors
    /// ENODATA where there is none of this name, and as [`Vfs::set_xattr`].
    pub(crate) async fn remove_xattr(
        self: &Arc<Self>,
        target: &Target,
        name: &[u8],
    ) -> WithWcc<()> {
        let (job, name) = (target.clone(), name.to_vec());
        self.change_xattrs(target, move || {
            fs::remove_user_xattr(job.object.path(), &name)
        })
        .await
    }

    /// Changes attributes as the caller, and puts that on stable storage as a SETATTR does.
    pub(super) async fn change_xattrs(
        self: &Arc<Self>,
        target: &Target,
        change: impl FnOnce() -> nfs_io::Result<()> + Send + 'static,
    ) -> WithWcc<()> {
        if let Err(error) = target.must_be_writable() {
            return (Err(error), self.wcc_unchanged(target).await);
        }
        let running = target.object.begin_change(target.actor.author);
        let (vfs, job) = (Arc::clone(self), target.clone());
        let done = self
            .opening(target.queue(), move || change_and_look(&vfs, &job, change))
            .await;
        let (result, mut wcc) = done.unwrap_or_else(|busy| (Err(busy), Wcc::default()));
        if !running.is_unmixed() {
            wcc.before = None;
        }
        let result = match result {
            Ok(flush) => self.flush(target, vec![flush]).await,
            Err(error) => Err(error),
        };
        (result, wcc)
    }
}

fn change_and_look(
    vfs: &Vfs,
    target: &Target,
    change: impl FnOnce() -> nfs_io::Result<()>,
) -> WithWcc<Flush> {
    let object = &target.object;
    // Of two changes at once each sees the attributes from before itself alone.
    let _turn = object.setattr_turn.lock();
    let before = match object.stat() {
        Ok(before) => before,
        Err(error) => return (Err(error), Wcc::default()),
    };
    let flush = vfs.flush_of_attributes(object, before.size);
    let changed = Guard::enter(&target.actor.creds).and_then(|_identity| change());
    let wcc = Wcc {
        before: Some(before),
        after: object.attributes().ok(),
    };
    (changed.map(|()| flush).map_err(Error::from), wcc)
}
