//! Attributes of an object: reading them, asking what a caller may do, and setting them.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use nfs_io::fs::{self, SetTime, Stat, Timestamp};
use nfs_io::identity::Guard;
use nfs_io::{Creds, Errno, LocalGid, LocalUid};

use super::gate::Changing;
use super::seen::Latest;
use super::stable::Flush;
use super::{Access, Error, FileKind, Object, Result, Wcc, WithWcc};
use crate::limits;
use crate::operate::calls::{StepKind, step};
use crate::vfs::{Target, Vfs};

/// Attributes with the identity of the file system, as clients are told it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes {
    pub(crate) stat: Stat,
    pub(crate) fsid: u64,
}

/// What to do with one timestamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TimeChange {
    #[default]
    Keep,
    /// Set the time to what the server's clock says.
    Now,
    To(Timestamp),
}

/// Attributes to set; what is `None` or [`TimeChange::Keep`] stays.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SetAttributes {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) atime: TimeChange,
    pub(crate) mtime: TimeChange,
}

impl SetAttributes {
    /// True when there is nothing to set.
    pub(crate) fn is_empty(&self) -> bool {
        let Self {
            mode,
            uid,
            gid,
            size,
            atime,
            mtime,
        } = self;
        mode.is_none()
            && uid.is_none()
            && gid.is_none()
            && size.is_none()
            && *atime == TimeChange::Keep
            && *mtime == TimeChange::Keep
    }

    /// These attributes without the mode, which the call that made the object has set already.
    pub(super) fn without_mode(self) -> Self {
        Self { mode: None, ..self }
    }
}

/// Which parts of a [`SetAttributes`] were set. They are set one after the other, and those before one that fails stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) size: bool,
    /// The owner and the group, which the kernel sets by one call.
    pub(crate) owner: bool,
    pub(crate) mode: bool,
    pub(crate) times: bool,
}

impl Parts {
    /// Everything that was wanted.
    pub(crate) const ALL: Self = Self {
        size: true,
        owner: true,
        mode: true,
        times: true,
    };
    const NONE: Self = Self {
        size: false,
        owner: false,
        mode: false,
        times: false,
    };
}

/// What became of a SETATTR before anything was flushed.
struct Applied {
    result: Result<()>,
    /// What was set.
    parts: Parts,
    /// What has to be flushed for that to be stable.
    flush: Option<Flush>,
}

impl Applied {
    fn nothing(result: Result<()>) -> Self {
        Self {
            result,
            parts: Parts::NONE,
            flush: None,
        }
    }
}

impl Object {
    pub(crate) fn attributes(&self) -> Result<Attributes> {
        Ok(Attributes {
            stat: self.stat()?,
            fsid: self.mount.fsid,
        })
    }
}

/// Remembers attributes that this thread has just asked for on behalf of a call, for the rest of it and for calls that
/// came together with it.
pub(super) fn note_look(by: &Target, object: &Object, stat: Stat) {
    // Elsewhere another thread looks, and a change may have ended meanwhile.
    if object.mount.local {
        Latest::note(by.actor.call.started, object.inode_id(), stat);
    }
}

impl Vfs {
    /// The attributes of an object as they are now.
    ///
    /// # Errors
    /// [`Error::Stale`] when it is gone.
    pub(crate) async fn attributes(&self, target: &Target) -> Result<Attributes> {
        let stat = self.look(target, Object::stat).await?;
        let fsid = target.object.mount.fsid;
        Ok(Attributes { stat, fsid })
    }

    /// The attributes of an object from no sooner than the call came, which must have changed nothing: calls that came
    /// together share a look.
    ///
    /// # Errors
    /// As [`Vfs::attributes`].
    pub(crate) async fn attributes_since_call(&self, target: &Target) -> Result<Attributes> {
        let (came, inode) = (target.actor.call.started, target.object.inode_id());
        if let Some(stat) = Latest::since(came, inode) {
            let fsid = target.object.mount.fsid;
            return Ok(Attributes { stat, fsid });
        }
        let attributes = self.attributes(target).await?;
        note_look(target, &target.object, attributes.stat);
        Ok(attributes)
    }

    /// The attributes of an object as they are now, without `mtime` and `ctime`.
    ///
    /// # Errors
    /// As [`Vfs::attributes`].
    pub(super) async fn untimed_attributes(&self, target: &Target) -> Result<Stat> {
        self.look(target, Object::stat_untimed).await
    }

    async fn look(&self, target: &Target, stat: fn(&Object) -> Result<Stat>) -> Result<Stat> {
        let _step = step(StepKind::Attributes);
        let object = &target.object;
        let found = if object.mount.local {
            stat(object)
        } else {
            let object = Arc::clone(object);
            let looking = self.blocking(target.queue(), move || stat(&object));
            looking.await?
        };
        if let Err(Error::Stale) = found {
            self.files.remove(object);
        }
        found
    }

    /// Which of `wanted` the caller may do, each asked of the kernel. `attributes` are the object's, for which the
    /// kernel's answers are remembered.
    ///
    /// # Errors
    /// When too much waits for a file system that has to be asked elsewhere.
    pub(crate) async fn access(
        &self,
        target: &Target,
        wanted: Access,
        attributes: &Attributes,
    ) -> Result<Access> {
        let asking = step(StepKind::Permission);
        let granted = if target.object.mount.local {
            granted_of(target, wanted, &attributes.stat)
        } else {
            let (target, stat) = (target.clone(), attributes.stat);
            self.blocking(target.queue(), move || granted_of(&target, wanted, &stat))
                .await?
        };
        asking.end();
        Ok(if target.actor.writable {
            granted
        } else {
            granted - Access::WRITE
        })
    }

    /// SETATTR: all of `set`, if `guard` lets the object's ctime pass, on stable storage when it returns.
    pub(crate) async fn set_attributes(
        self: &Arc<Self>,
        target: &Target,
        set: SetAttributes,
        guard: impl FnOnce(Timestamp) -> bool + Send + 'static,
    ) -> WithWcc<()> {
        let (result, _parts, wcc) = self.set_in_parts(target, set, guard).await;
        (result, wcc)
    }

    /// As [`Vfs::set_attributes`], and tells after a failure which parts are set and on stable storage all the same.
    pub(crate) async fn set_in_parts(
        self: &Arc<Self>,
        target: &Target,
        set: SetAttributes,
        guard: impl FnOnce(Timestamp) -> bool + Send + 'static,
    ) -> (Result<()>, Parts, Wcc) {
        if let Err(error) = target.must_be_writable() {
            return (Err(error), Parts::NONE, self.wcc_unchanged(target).await);
        }
        let change = target.object.begin_change(target.actor.author);
        let pause = match self.pause_staging(target.object.inode()).await {
            Ok(pause) => pause,
            Err(busy) => return (Err(busy), Parts::NONE, self.wcc_unchanged(target).await),
        };
        let (vfs, job) = (Arc::clone(self), target.clone());
        let done = self
            .changing_metadata(target, None, move || {
                let _pause = pause;
                let (applied, wcc) = set_attributes(&vfs, &job, &set, guard);
                let flushes = applied.flush.into_iter().collect();
                // What was set before a failure is flushed as well, and told if that succeeds.
                (Ok((applied.parts, flushes)), (applied.result, wcc))
            })
            .await;
        let (flushed, (result, mut wcc)) =
            done.unwrap_or_else(|busy| (Ok(Parts::NONE), (Err(busy), Wcc::default())));
        if !change.is_unmixed() {
            wcc.before = None;
        }
        match flushed {
            Ok(parts) => (result, parts, wcc),
            // What is not on stable storage is not told to be set.
            Err(unstable) => (result.and(Err(unstable)), Parts::NONE, wcc),
        }
    }

    /// Waits until the flushes are done, unless the export gave that up. The change itself is made by
    /// now, so a full queue is waited out: a client that is told to come again would find its own
    /// change in the way.
    pub(super) async fn flush(self: &Arc<Self>, target: &Target, what: Vec<Flush>) -> Result<()> {
        const AGAIN: Duration = Duration::from_millis(20);
        if target.tree.export.is_async() {
            return Ok(());
        }
        let _step = step(StepKind::GroupCommit);
        loop {
            match self.committer.sync(target.queue(), what.clone()).await {
                Err(Error::Busy) => tokio::time::sleep(AGAIN).await,
                done => return done,
            }
        }
    }

    /// The attributes for a reply to a change that was not tried.
    pub(crate) async fn wcc_unchanged(&self, target: &Target) -> Wcc {
        Wcc {
            before: None,
            after: self.attributes(target).await.ok(),
        }
    }

    /// What has to be flushed for the attributes of an object of `size` bytes to be stable. Data that was not
    /// committed, or was written on the server's own host, is no part of that, and may be much.
    pub(super) fn flush_of_attributes(&self, object: &Object, size: u64) -> Flush {
        let small = size <= limits::FLUSHED_WITH_DATA_BYTES_MAX && !object.io.has_unstable();
        match self.flush_of(object) {
            Flush::Inode { id, fd } if object.kind == FileKind::Regular && !small => {
                Flush::AttributesOf { id, fd }
            }
            flush => flush,
        }
    }

    /// What has to be flushed for this object's attributes, or its entries, to be stable.
    pub(super) fn flush_of(&self, object: &Object) -> Flush {
        match object.read_fd(self.files.budget()) {
            Ok(fd) => Flush::Inode {
                id: (object.dev, object.ino),
                fd,
            },
            // It cannot be opened (a symlink, a device, no right to): the whole file system then.
            Err(_) => Flush::FileSystem {
                fd: object.mount.flush_fd(),
            },
        }
    }
}

fn granted_of(target: &Target, wanted: Access, stat: &Stat) -> Access {
    wanted
        .each()
        .filter(|access| {
            target
                .object
                .check(&target.actor.creds, *access, stat)
                .is_ok()
        })
        .fold(Access::NONE, |granted, access| granted | access)
}

fn set_attributes(
    vfs: &Arc<Vfs>,
    target: &Target,
    set: &SetAttributes,
    guard: impl FnOnce(Timestamp) -> bool,
) -> (Applied, Wcc) {
    let object = &target.object;
    // Of two calls with the same guard one must see the other's change.
    let _turn = object.setattr_turn.lock();
    let before = match object.stat() {
        Ok(before) => before,
        Err(error) => return (Applied::nothing(Err(error)), Wcc::default()),
    };
    let applied = if !guard(before.ctime) {
        Applied::nothing(Err(Error::Changed))
    } else if set.is_empty() {
        Applied::nothing(Ok(()))
    } else {
        // Opened before the change: afterwards the mode may forbid it to an unprivileged server.
        let flush = vfs.flush_of_attributes(object, before.size);
        let mut parts = Parts::NONE;
        let result = apply_to_object(vfs, target, set, &before, &mut parts);
        let changed = result.is_ok() || parts != Parts::NONE;
        Applied {
            result,
            parts,
            flush: changed.then_some(flush),
        }
    };
    let after = object.attributes().ok();
    (
        applied,
        Wcc {
            before: Some(before),
            after,
        },
    )
}

/// Sets attributes in an order in which no step undoes another: the size first (it needs the old mode's
/// rights and moves the times), the owner before the mode (a new owner clears set-user-ID), the times last.
/// Tells in `parts` what is set.
fn apply_to_object(
    vfs: &Vfs,
    target: &Target,
    set: &SetAttributes,
    before: &Stat,
    parts: &mut Parts,
) -> Result<()> {
    let object = &target.object;
    if let Some(size) = set.size {
        match object.kind {
            FileKind::Regular => {}
            FileKind::Directory => return Err(Error::Errno(Errno::ISDIR)),
            FileKind::Symlink
            | FileKind::BlockDevice
            | FileKind::CharDevice
            | FileKind::Fifo
            | FileKind::Socket
            | FileKind::Unknown => return Err(Error::Invalid),
        }
        object.check_io(&target.actor, Access::WRITE, before)?;
        Object::check_sealed(before)?;
        let fd = object.write_fd(vfs.files.budget(), &vfs.writers)?;
        let size = i64::try_from(size).map_err(|_| Error::Errno(Errno::FBIG))?;
        let _change = Changing::of(object.gate(&vfs.gates));
        let _identity = Guard::enter(&target.actor.creds)?;
        fs::truncate(fd.as_fd(), size.unsigned_abs())?;
        object.io.truncated(before.size, size.unsigned_abs());
        parts.size = true;
    }
    let rest = SetAttributes { size: None, ..*set };
    apply_in_parts(
        object.path(),
        &target.actor.creds,
        &rest,
        object.kind,
        parts,
    )
}

/// Sets owner, mode and times through a descriptor of any kind, as the caller.
pub(super) fn apply(
    fd: BorrowedFd<'_>,
    creds: &Creds,
    set: &SetAttributes,
    kind: FileKind,
) -> Result<()> {
    let mut parts = Parts::NONE;
    apply_in_parts(fd, creds, set, kind, &mut parts)
}

fn apply_in_parts(
    fd: BorrowedFd<'_>,
    creds: &Creds,
    set: &SetAttributes,
    kind: FileKind,
    parts: &mut Parts,
) -> Result<()> {
    let _identity = Guard::enter(creds)?;
    if set.uid.is_some() || set.gid.is_some() {
        fs::chown(fd, set.uid.map(LocalUid), set.gid.map(LocalGid))?;
        parts.owner = true;
    }
    // A symlink has no mode of its own on Linux; RFC 1813 lets a server ignore the request.
    if let Some(mode) = set.mode
        && kind != FileKind::Symlink
    {
        fs::chmod(fd, mode & 0o7777)?;
        parts.mode = true;
    }
    if set.atime != TimeChange::Keep || set.mtime != TimeChange::Keep {
        fs::set_times(fd, kernel_time(set.atime), kernel_time(set.mtime))?;
        parts.times = true;
    }
    Ok(())
}

fn kernel_time(change: TimeChange) -> SetTime {
    match change {
        TimeChange::Keep => SetTime::Omit,
        TimeChange::Now => SetTime::Now,
        TimeChange::To(time) => SetTime::At(time),
    }
}
