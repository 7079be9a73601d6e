//! What remote clients have locked in a file, shown to the programs of this host, and theirs to the clients.
//!
//! All clients together have one lock of the host, on an open file description of the object's own: the union of
//! what they have locked. It is opened with the first lock and closed with the last, so that a file is kept from
//! being executed only as long as something in it is locked. What there is to be done on the host,
//! [`FileState::host_turn`](nfs_state::FileState::host_turn) says.
//!
//! Where a file system has no such locks, those of remote clients stand against each other only. A write lock of
//! a file that the server cannot open for writing is shown as a read lock.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use nfs_io::Errno;
use nfs_io::fs::{OFlags, OfdHolder, OfdLock, ofd_lock_holder, set_ofd_lock};
use nfs_state::{HostWork, LockKind, Range, Step};
use parking_lot::Mutex;

use super::file_io::Open;
use super::{Error, Object, Result};
use crate::vfs::file_cache::FdBudget;
use crate::vfs::{Target, Vfs};

/// The object's lock on the host: the description that has it, if something is locked.
#[derive(Default)]
pub(super) struct HostLock(Mutex<Option<Open>>);

/// What the host says to a lock that a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostSays {
    Agreed,
    /// A local program has a part of it; which, if that is known.
    Refused(Option<OfdHolder>),
}

impl Vfs {
    /// Tells the host what is locked and reserved in a file. What it says to `wanted`, which is reserved.
    ///
    /// # Errors
    /// [`Error::Busy`], and the kernel's, such as that there is no memory for locks: then the host was not told all.
    pub(crate) async fn tell_host(
        self: &Arc<Self>,
        target: &Target,
        wanted: Option<Range>,
    ) -> Result<HostSays> {
        let (vfs, object) = (Arc::clone(self), Arc::clone(&target.object));
        self.blocking(target.queue(), move || {
            object.tell_host(wanted, vfs.files.budget())
        })
        .await?
    }

    /// Which local program's lock a client's would meet.
    ///
    /// # Errors
    /// [`Error::Busy`], and the kernel's.
    pub(crate) async fn host_holder(
        self: &Arc<Self>,
        target: &Target,
        (range, kind): (Range, LockKind),
    ) -> Result<Option<OfdHolder>> {
        let (vfs, object) = (Arc::clone(self), Arc::clone(&target.object));
        self.blocking(target.queue(), move || {
            object.host_holder(range, kind, vfs.files.budget())
        })
        .await?
    }
}

impl Object {
    /// See [`Vfs::tell_host`]; for a helper thread.
    pub(crate) fn tell_host(&self, wanted: Option<Range>, slots: &FdBudget) -> Result<HostSays> {
        let mut description = self.host_lock.0.lock();
        let mut says = HostSays::Agreed;
        if let HostWork::Turn(mut turn) = self.file_state().host_turn() {
            let fd = self.description(&mut description, slots)?;
            while let Some(step) = turn.next_step() {
                match carry_out(&fd, step) {
                    Err(Errno::AGAIN) => {
                        if wanted.is_some_and(|wanted| wanted.overlaps(step.range)) {
                            says = HostSays::Refused(holder_of(&fd, step)?);
                        }
                        turn.refused();
                    }
                    Err(error) if !is_without_locks(error) => return Err(error.into()),
                    Ok(()) | Err(_) => turn.succeeded(),
                }
            }
        }
        if self.file_state().is_free_on_host() {
            *description = None;
        }
        Ok(says)
    }

    /// See [`Vfs::host_holder`]; for a thread that may block.
    pub(crate) fn host_holder(
        &self,
        range: Range,
        kind: LockKind,
        slots: &FdBudget,
    ) -> Result<Option<OfdHolder>> {
        let mut description = self.host_lock.0.lock();
        let fd = self.description(&mut description, slots)?;
        let step = Step {
            range,
            kind: Some(kind),
        };
        let holder = holder_of(&fd, step);
        if self.file_state().is_free_on_host() {
            *description = None;
        }
        holder
    }

    fn description(&self, place: &mut Option<Open>, slots: &FdBudget) -> Result<Arc<OwnedFd>> {
        match self.open(place, OFlags::RDWR, slots) {
            Err(Error::Errno(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::TXTBSY)) => {
                self.open(place, OFlags::RDONLY, slots)
            }
            opened => opened,
        }
    }
}

fn carry_out(fd: &OwnedFd, step: Step) -> nfs_io::Result<()> {
    let Some(bytes) = step.range.on_host() else {
        // No file of this host has bytes there.
        return Ok(());
    };
    match set_ofd_lock(fd.as_fd(), step.kind.map(as_on_host), bytes) {
        Err(Errno::BADF) => set_ofd_lock(fd.as_fd(), Some(OfdLock::Read), bytes),
        done => done,
    }
}

/// Who holds what a step meets. It may be gone by now.
fn holder_of(fd: &OwnedFd, step: Step) -> Result<Option<OfdHolder>> {
    let (Some(bytes), Some(kind)) = (step.range.on_host(), step.kind) else {
        return Ok(None);
    };
    match ofd_lock_holder(fd.as_fd(), as_on_host(kind), bytes) {
        Err(error) if is_without_locks(error) => Ok(None),
        holder => Ok(holder?),
    }
}

const fn as_on_host(kind: LockKind) -> OfdLock {
    match kind {
        LockKind::Read => OfdLock::Read,
        LockKind::Write => OfdLock::Write,
    }
}

/// The file system has no locks, or none that belong to a description.
fn is_without_locks(error: Errno) -> bool {
    [Errno::BADF, Errno::INVAL, Errno::NOSYS, Errno::NOTSUP].contains(&error)
}
