//! POSIX ACLs of files and directories: reading and setting them, and what they make of a new object's mode. The kernel
//! decides who may set one: the owner; and it keeps mode and ACL the same.

use std::sync::Arc;

use nfs_io::fs::{self, AclKind, PosixAcl};
use nfs_io::{Errno, Reservation, Share};

use super::{Error, Object, Result, WithWcc};
use crate::limits;
use crate::vfs::{Target, Vfs};

/// The ACLs of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acls {
    /// Who may do what with it; of an object that has none, what its mode says.
    pub(crate) access: PosixAcl,
    /// What is made in the directory begins with this one; only directories have one, and not all of them.
    pub(crate) default: Option<PosixAcl>,
}

/// ACLs that were read, with the memory that is reserved for telling them.
pub(crate) struct AclsInMemory {
    pub(crate) acls: Acls,
    pub(crate) memory: Reservation,
    /// What of the client's share that is.
    pub(crate) share: Share,
}

impl Vfs {
    /// The ACLs of an object, for anybody who has its handle, as its mode is. Waits for memory as a READ does.
    ///
    /// # Errors
    /// E2BIG for more entries than are read, and the kernel's.
    pub(crate) async fn acls(self: &Arc<Self>, target: &Target) -> Result<AclsInMemory> {
        let most = limits::ACL_MEMORY_BYTES;
        let (share, _of_mount) = self.room_for(target, most).await;
        let budget = self.read_buffers.budget();
        let memory = budget.reserve(most).await.ok_or(Error::Busy)?;
        let object = Arc::clone(&target.object);
        let read = move || read_acls(&object);
        let acls = self.blocking(target.queue(), read).await??;
        Ok(AclsInMemory {
            acls,
            memory,
            share,
        })
    }

    /// Sets the ACLs of an object, and takes a default ACL that is not among them from a directory; it is so on stable
    /// storage when this returns.
    ///
    /// # Errors
    /// EPERM for whom the object does not belong to, EOPNOTSUPP where there are none (of a symbolic link too), ENOSPC
    /// for more entries than the file system keeps, [`Error::ReadOnly`].
    pub(crate) async fn set_acls(self: &Arc<Self>, target: &Target, acls: Acls) -> WithWcc<()> {
        let object = Arc::clone(&target.object);
        self.change_xattrs(target, move || {
            let fd = object.path();
            fs::set_posix_acl(fd, AclKind::Access, Some(&acls.access))?;
            if object.is_directory() {
                fs::set_posix_acl(fd, AclKind::Default, acls.default.as_ref())?;
            }
            Ok(())
        })
        .await
    }

    /// The mode of what is made in a directory with `mode`: what its default ACL leaves of that, or where it has none,
    /// what the umask does. The kernel does the same with a mode that an object is made with, but for the umask, of
    /// which a server of many clients has none; and it does not with a mode that is set afterwards.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) async fn mode_of_new(
        &self,
        directory: &Target,
        mode: u32,
        umask: u32,
    ) -> Result<u32> {
        if !directory.object.mount.posix_acls {
            return Ok(mode & !umask);
        }
        let object = Arc::clone(&directory.object);
        let look = move || fs::posix_acl(object.path(), AclKind::Default);
        let default = self.blocking(directory.queue(), look).await?;
        Ok(mode_under(default, mode, umask)?)
    }
}

fn read_acls(object: &Object) -> Result<Acls> {
    let read = |kind| match fs::posix_acl(object.path(), kind) {
        // The file system has some, but not of a symbolic link.
        Err(Errno::OPNOTSUPP) => Ok(None),
        read => read,
    };
    let access = match read(AclKind::Access)? {
        Some(access) => access,
        None => PosixAcl::of_mode(object.stat()?.permissions()),
    };
    let default = if object.is_directory() {
        read(AclKind::Default)?
    } else {
        None
    };
    Ok(Acls { access, default })
}

fn mode_under(
    default: nfs_io::Result<Option<PosixAcl>>,
    mode: u32,
    umask: u32,
) -> nfs_io::Result<u32> {
    match default {
        Ok(Some(acl)) => Ok(mode & (acl.mode() | 0o7000)),
        Ok(None) | Err(Errno::OPNOTSUPP) => Ok(mode & !umask),
        // There is one, of which it is not known what it leaves to others.
        Err(Errno::TOOBIG) => Ok(mode & 0o7700),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use nfs_io::fs::Perms;

    use super::*;

    #[test]
    fn a_default_acl_takes_the_place_of_the_umask() {
        let acl = PosixAcl {
            users: vec![(7, Perms::READ)],
            mask: Some(Perms::READ.or(Perms::WRITE)),
            ..PosixAcl::of_mode(0o755)
        };
        for (default, mode, umask, expected) in [
            (Ok(None), 0o4777, 0o027, 0o4750),
            (Ok(Some(acl.clone())), 0o4777, 0o777, 0o4765),
            (Ok(Some(acl)), 0o640, 0, 0o640),
            (Ok(Some(PosixAcl::of_mode(0o70))), 0o777, 0, 0o70),
            (Err(Errno::TOOBIG), 0o2777, 0, 0o2700),
        ] {
            assert_eq!(mode_under(default, mode, umask), Ok(expected));
        }
        assert_eq!(mode_under(Err(Errno::IO), 0o777, 0), Err(Errno::IO));
    }
}
