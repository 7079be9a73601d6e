//! Opening a file for a client that says so: whether it may, asked once, and what keeps the file what its
//! handle leads to.

use nfs_io::fs::Stat;

use super::{Access, Error, FileKind, Object, Opened, Result};
use crate::vfs::{Target, Vfs};

impl Vfs {
    /// Opens a regular file for reading, writing or both, if the kernel lets the caller. No descriptor is opened:
    /// READ and WRITE share the object's, and open them at the first need.
    ///
    /// # Errors
    /// [`Error::WrongType`] for what is no regular file, [`Error::ReadOnly`], and the kernel's.
    pub(crate) async fn open_file(&self, target: &Target, access: Access) -> Result<Opened> {
        if target.object.kind != FileKind::Regular {
            return Err(Error::WrongType);
        }
        if access.contains(Access::WRITE) {
            target.must_be_writable()?;
        }
        // First, so that it is not removed between the look and this.
        let opened = target.object.opened();
        let stat = self.attributes(target).await?.stat;
        if target.object.mount.local {
            may_open(target, access, &stat)?;
        } else {
            let job = target.clone();
            self.blocking(target.queue(), move || may_open(&job, access, &stat))
                .await??;
        }
        Ok(opened)
    }
}

/// As open(2) would decide: the mode binds the owner too, and a file that may be executed may be read.
fn may_open(target: &Target, access: Access, stat: &Stat) -> Result<()> {
    let mut actor = target.actor.clone();
    actor.owner_goes_on = false;
    for one in access.each() {
        target.object.check_io(&actor, one, stat)?;
    }
    if access.contains(Access::WRITE) {
        Object::check_sealed(stat)?;
    }
    Ok(())
}
