//! Looking names up, and reading symbolic links.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use nfs_io::Errno;
use nfs_io::fs::{self, OFlags, OpenHow, ResolveFlags, Stat};
use nfs_io::identity::Guard;

use super::attributes::note_look;
use super::resolve::{identity, table_failed};
use super::{Access, Attributes, Error, FileKind, Object, Result, Step, Tree};
use crate::operate::calls::{self, StepKind};
use crate::vfs::fh::{Handle, claimed_export};
use crate::vfs::{Target, Vfs};

impl Vfs {
    /// The object that a step from a directory leads to, and the directory's attributes.
    ///
    /// # Errors
    /// As [`Vfs::lookup_in`].
    pub(crate) async fn lookup(
        self: &Arc<Self>,
        directory: &Target,
        step: Step<'_>,
    ) -> (Result<(Arc<Object>, Attributes)>, Option<Attributes>) {
        let attributes = match self.attributes(directory).await {
            Ok(attributes) => attributes,
            Err(error) => return (Err(error), None),
        };
        let found = self.lookup_in(directory, &attributes, step).await;
        (found, Some(attributes))
    }

    /// Where in its export the object of a handle is, as far as that is remembered. Waits for nobody.
    pub(crate) fn path_of(&self, handle: &[u8]) -> Option<Vec<u8>> {
        let export = claimed_export(handle)?;
        let object = self.files.glimpse(&Handle::new(handle).ok()?)?;
        self.trees.load().by_id(export)?.path_of(&object)
    }

    /// Where in its export an object is, as [`Tree::path_of`] finds it. Waits for nobody.
    pub(crate) fn path_of_object(&self, tree: &Tree, object: &Object) -> Option<Vec<u8>> {
        tree.path_of(object)
    }

    /// The path by which clients reach an object, with that of its export. Waits for nobody.
    pub(crate) fn exported_path(&self, object: &Object) -> Option<Vec<u8>> {
        let trees = self.trees.load();
        let tree = trees.by_id(claimed_export(object.handle.as_ref())?)?;
        let below = tree.path_of(object)?;
        let above = tree.export.pseudo.trim_end_matches('/');
        Some([above.as_bytes(), &below].concat())
    }

    /// The object that a step leads to from a directory with these attributes. It is looked for first in the kernel's
    /// memory on this thread; what is not there, or may wait, goes to the helper pool.
    ///
    /// # Errors
    /// The kernel's, for the caller's credentials.
    pub(crate) async fn lookup_in(
        self: &Arc<Self>,
        directory: &Target,
        attributes: &Attributes,
        step: Step<'_>,
    ) -> Result<(Arc<Object>, Attributes)> {
        if !directory.object.is_directory() {
            return Err(Error::Errno(Errno::NOTDIR));
        }
        let name = match step {
            Step::Itself => return self.lookup_self(directory, attributes).await,
            Step::Parent => return self.lookup_parent(directory, attributes).await,
            Step::Entry(name) => name.bytes(),
        };
        if directory.object.mount.local && self.table(&directory.tree).is_none() {
            // What the kernel asks of a look-up: the right to search the directory. It was asked,
            // so the look-up itself needs no change of identity.
            let asking = calls::step(StepKind::Permission);
            directory
                .object
                .check(&directory.actor.creds, Access::EXECUTE, &attributes.stat)?;
            asking.end();
            let _step = calls::step(StepKind::Resolve);
            if let Some(found) = self.lookup_again(directory, name) {
                directory.tree.found_as(&found.0, name);
                note_look(directory, &found.0, found.1.stat);
                return Ok(found);
            }
            let at_once = if self.files.is_overfull() {
                Err(Error::Errno(Errno::MFILE))
            } else {
                self.lookup_at_once(directory, name)
            };
            match at_once {
                // Not in the kernel's memory, or no descriptor is left: room is made where one may wait.
                Err(Error::Errno(Errno::AGAIN | Errno::MFILE | Errno::NFILE)) => {}
                Err(Error::NotExported) if directory.tree.export.crossmnt => {}
                Ok(found) => {
                    note_look(directory, &found.0, found.1.stat);
                    return Ok(found);
                }
                Err(error) => return Err(error),
            }
        }
        let (vfs, job, name) = (Arc::clone(self), directory.clone(), name.to_vec());
        let _step = calls::step(StepKind::Resolve);
        self.opening(directory.queue(), move || {
            vfs.lookup_name(&job, &name, ResolveFlags::empty())
        })
        .await?
    }

    /// A name that was looked up before, if it still leads to the same object.
    fn lookup_again(&self, directory: &Target, name: &[u8]) -> Option<(Arc<Object>, Attributes)> {
        let inode = self.hints.recall(directory.object.inode_id(), name)?;
        let object = self.files.by_inode(inode)?;
        let stat = fs::statx_at(directory.object.path(), name).ok()?;
        let same = stat.ino == inode.ino
            && stat.dev == inode.dev
            && object.mount.is_mounted_as(stat.mnt_id)
            && Arc::ptr_eq(&object.mount, &directory.object.mount);
        if !same {
            return None;
        }
        let attributes = self.attributes_as_told(&object, stat).ok()?;
        Some((object, attributes))
    }

    /// A look-up that does not wait: `EAGAIN` where the kernel's memory has not the answer.
    fn lookup_at_once(
        self: &Arc<Self>,
        directory: &Target,
        name: &[u8],
    ) -> Result<(Arc<Object>, Attributes)> {
        // Not across a mount point: asking what is behind it may wait for somebody.
        let resolve = directory.tree.resolve_flags() | ResolveFlags::CACHED | ResolveFlags::NO_XDEV;
        let how = OpenHow {
            flags: ENTRY,
            mode: 0,
            resolve,
        };
        let fd = fs::openat2(directory.object.path(), name, how).map_err(not_entered)?;
        let stat = fs::statx(fd.as_fd())?;
        let object = self.intern(&directory.object, &directory.tree, name, fd, &stat)?;
        let place = directory.object.inode_id();
        self.hints.remember(place, name, object.inode_id());
        let attributes = self.attributes_as_told(&object, stat)?;
        Ok((object, attributes))
    }

    /// The attributes of an object, which `stat` was just asked for: again, if clients were told of bytes that
    /// the file has not got yet.
    pub(super) fn attributes_as_told(&self, object: &Object, stat: Stat) -> Result<Attributes> {
        match self.stages.of(object.inode()) {
            Some(_) => object.attributes(),
            None => Ok(Attributes {
                stat,
                fsid: object.mount.fsid,
            }),
        }
    }

    fn lookup_name(
        self: &Arc<Self>,
        directory: &Target,
        name: &[u8],
        extra: ResolveFlags,
    ) -> Result<(Arc<Object>, Attributes)> {
        let (fd, stat) = open_entry(directory, name, extra)?;
        let object = self.intern(&directory.object, &directory.tree, name, fd, &stat)?;
        let attributes = self.attributes_as_told(&object, stat)?;
        Ok((object, attributes))
    }

    async fn lookup_self(
        &self,
        directory: &Target,
        attributes: &Attributes,
    ) -> Result<(Arc<Object>, Attributes)> {
        let granted = self.access(directory, Access::EXECUTE, attributes).await?;
        if granted == Access::NONE {
            return Err(Error::Errno(Errno::ACCESS));
        }
        Ok((Arc::clone(&directory.object), *attributes))
    }

    /// `..` of the root is the root ; `..` of a directory that was moved out of
    /// the export on the server is nothing.
    async fn lookup_parent(
        self: &Arc<Self>,
        directory: &Target,
        attributes: &Attributes,
    ) -> Result<(Arc<Object>, Attributes)> {
        let root = self.root(&directory.tree)?;
        if root.handle == directory.object.handle {
            return self.lookup_self(directory, attributes).await;
        }
        let (vfs, job) = (Arc::clone(self), directory.clone());
        self.blocking(directory.queue(), move || {
            if !job.tree.contains(job.object.path())? {
                return Err(Error::Stale);
            }
            let fd = {
                let _identity = Guard::enter(&job.actor.creds)?;
                fs::openat2(job.object.path(), b"..", parent_how(&job.tree))?
            };
            if !job.tree.contains(fd.as_fd())? {
                return Err(Error::Stale);
            }
            let stat = fs::statx(fd.as_fd())?;
            let object = vfs.parent_object(&job, fd, &stat)?;
            let fsid = object.mount.fsid;
            Ok((object, Attributes { stat, fsid }))
        })
        .await?
    }

    fn parent_object(
        self: &Arc<Self>,
        job: &Target,
        fd: OwnedFd,
        stat: &Stat,
    ) -> Result<Arc<Object>> {
        let Some(table) = self.table(&job.tree) else {
            return self.intern(&job.object, &job.tree, b"..", fd, stat);
        };
        // The table knows a directory by its parent; the parent of one it knows, it knows too. What it
        // remembers is not asked who that is: the directory may have been moved on the server's host.
        let mount = job.tree.mount_of(&job.object.mount, stat)?;
        let parent = identity(&job.tree, &mount, fd.as_fd(), stat)?;
        let id = table.find(&parent).map_err(table_failed)?;
        self.open_table_id(&job.tree, id.ok_or(Error::Stale)?)
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// [`Error::Invalid`] for anything but a symlink.
    pub(crate) async fn readlink(&self, target: &Target) -> Result<(Vec<u8>, Attributes)> {
        if target.object.kind != FileKind::Symlink {
            return Err(Error::Invalid);
        }
        let object = Arc::clone(&target.object);
        let read = move || Ok((fs::readlink(object.path())?, object.attributes()?));
        self.blocking(target.queue(), read).await?
    }
}

/// Opens a directory entry by name, as the caller, without following it anywhere.
pub(super) fn open_entry(
    directory: &Target,
    name: &[u8],
    extra: ResolveFlags,
) -> Result<(OwnedFd, Stat)> {
    let fd = {
        let _identity = Guard::enter(&directory.actor.creds)?;
        let resolve = directory.tree.resolve_flags() | extra;
        let how = OpenHow {
            flags: ENTRY,
            mode: 0,
            resolve,
        };
        fs::openat2(directory.object.path(), name, how).map_err(not_entered)?
    };
    let stat = fs::statx(fd.as_fd())?;
    Ok((fd, stat))
}

/// EXDEV of a look-up: a mount point that the export does not cross.
pub(super) fn not_entered(errno: Errno) -> Error {
    if errno == Errno::XDEV {
        Error::NotExported
    } else {
        errno.into()
    }
}

/// An entry is named, not opened; a symlink is itself the object.
pub(super) const ENTRY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW);

/// `..` leaves the directory by its nature; [`Tree::contains`] judges where it led.
fn parent_how(tree: &Tree) -> OpenHow {
    let resolve = tree.resolve_flags() - ResolveFlags::BENEATH;
    OpenHow {
        flags: OFlags::PATH | OFlags::DIRECTORY,
        mode: 0,
        resolve,
    }
}
