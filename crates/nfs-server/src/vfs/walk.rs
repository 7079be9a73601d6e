//! MOUNT's walk: from an export's root along a client's path to a directory.
//!
//! Symbolic links are followed here, and nowhere else in the server: a client mounts `/data/current` and means
//! what an operator reads there. Each name is opened by itself, beneath the directory before it, so the
//! kernel follows none; a link's target is split into names that are walked the same way. So no target leads
//! out of the export, into a mount point that is not crossed, or on for ever.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use nfs_io::Errno;
use nfs_io::fs::{self, Dirents, OFlags, OpenHow};

use super::lookup::{ENTRY, not_entered};
use super::{EntryName, Error, FileKind, Object, Result, Tree};
use crate::limits;
use crate::vfs::{Target, Vfs};

impl Vfs {
    /// The directory that `names` lead to from an export's root, as the server: who may mount is
    /// the export's rules' decision.
    ///
    /// # Errors
    /// [`Error::NotExported`] for a link that leads out of the export, ENOENT, ENOTDIR, ELOOP and the
    /// kernel's others.
    pub(crate) async fn walk(
        self: &Arc<Self>,
        root: Target,
        names: &[&[u8]],
    ) -> Result<Arc<Object>> {
        let mut walk = Walk {
            vfs: Arc::clone(self),
            reached: Vec::new(),
            pending: Vec::new(),
            names: 0,
            links: 0,
            root,
        };
        walk.add(names.iter().copied())?;
        self.blocking(walk.root.queue(), move || walk.run()).await?
    }
}

impl Vfs {
    /// The number that the entry `name` of a directory of the export `outer` has there, whatever is mounted over it;
    /// `None` where there is no such entry. `inner` is in the tree that is found in its place, which keeps the answer: it
    /// is looked for once after a reload, as the server.
    pub(crate) async fn covered(
        self: &Arc<Self>,
        inner: &Target,
        outer: &Arc<Tree>,
        directory: &[u8],
        name: &[u8],
    ) -> Option<u64> {
        if let Some(known) = inner.tree.covered.get() {
            return *known;
        }
        let (vfs, tree) = (Arc::clone(self), Arc::clone(outer));
        let queue = inner.queue();
        let root = self.blocking(queue, move || vfs.root(&tree)).await;
        let root = Target {
            tree: Arc::clone(outer),
            object: root.ok()?.ok()?,
            actor: inner.actor.clone(),
        };
        let names = directory.split(|byte| *byte == b'/');
        let names: Vec<&[u8]> = names.filter(|name| !name.is_empty()).collect();
        let looked = match self.walk(root, &names).await {
            Ok(directory) => {
                let name = name.to_vec();
                let look = move || number_of_entry(&directory, &name);
                self.blocking(queue, look).await
            }
            Err(Error::Busy) => Err(Error::Busy),
            Err(_not_there) => Ok(None),
        };
        // What was too busy to be asked is asked again.
        let number = looked.ok()?;
        *inner.tree.covered.get_or_init(|| number)
    }
}

/// The number of an entry as its directory has it. The directory is only read where the kernel would go on to something
/// else: a file system that is mounted there, or a subvolume.
fn number_of_entry(directory: &Object, name: &[u8]) -> Option<u64> {
    let here = fs::statx(directory.path()).ok()?;
    let found = fs::statx_at(directory.path(), name).ok()?;
    if (found.mnt_id, found.dev) == (here.mnt_id, here.dev) {
        return Some(found.ino);
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let fd = fs::reopen(directory.path(), flags).ok()?;
    let mut dirents = Dirents::new(fd, 0).ok()?;
    loop {
        let batch = dirents.next_batch().ok()?;
        if batch.is_empty() {
            return None;
        }
        if let Some(entry) = batch.iter().find(|entry| entry.name == name) {
            return Some(entry.ino);
        }
    }
}

/// A walk that is under way.
struct Walk {
    vfs: Arc<Vfs>,
    root: Target,
    /// The directories that were walked through, each in the one before it: `..` leads back through them.
    reached: Vec<Target>,
    /// The names to come, the next one last.
    pending: Vec<Vec<u8>>,
    /// How many names there were in all.
    names: usize,
    /// How many links were followed.
    links: usize,
}

impl Walk {
    fn run(mut self) -> Result<Arc<Object>> {
        while let Some(name) = self.pending.pop() {
            if name == b".." {
                self.reached.pop().ok_or(Error::NotExported)?;
            } else {
                self.step(&name)?;
            }
        }
        Ok(Arc::clone(&self.at().object))
    }

    fn at(&self) -> &Target {
        self.reached.last().unwrap_or(&self.root)
    }

    /// Into a directory, or to where a link points.
    fn step(&mut self, name: &[u8]) -> Result<()> {
        let name = EntryName::new(name)?.bytes();
        let at = self.at();
        let how = OpenHow {
            flags: ENTRY,
            mode: 0,
            resolve: at.tree.resolve_flags(),
        };
        let fd = fs::openat2(at.object.path(), name, how).map_err(not_entered)?;
        let stat = fs::statx(fd.as_fd())?;
        match stat.kind() {
            FileKind::Directory => {
                let object = self.vfs.intern(&at.object, &at.tree, name, fd, &stat)?;
                let next = at.with_object(object);
                self.reached.push(next);
                Ok(())
            }
            FileKind::Symlink => self.follow(&fs::readlink(fd.as_fd())?),
            _ => Err(Error::Errno(Errno::NOTDIR)),
        }
    }

    fn follow(&mut self, target: &[u8]) -> Result<()> {
        self.links += 1;
        if self.links > limits::MOUNT_WALK_LINKS_MAX {
            return Err(Error::Errno(Errno::LOOP));
        }
        if !target.starts_with(b"/") {
            return self.add(names_of(target));
        }
        let below = below(&self.root.tree, target)?.ok_or(Error::NotExported)?;
        self.reached.clear();
        self.add(names_of(below.as_os_str().as_bytes()))
    }

    /// Puts names before those that are to come.
    fn add<'n>(&mut self, names: impl DoubleEndedIterator<Item = &'n [u8]>) -> Result<()> {
        let before = self.pending.len();
        self.pending.extend(names.rev().map(<[u8]>::to_vec));
        self.names += self.pending.len() - before;
        if self.names > limits::MOUNT_WALK_NAMES_MAX {
            return Err(Error::NameTooLong);
        }
        Ok(())
    }
}

/// What an absolute target means below the export's root. It is read as a program on the server's host reads
/// it, and as the kernel's mountd does: it has to begin with the directory that is exported, by its real path
/// or by the one that the operator gave.
fn below<'t>(tree: &Tree, target: &'t [u8]) -> Result<Option<&'t Path>> {
    let target = Path::new(OsStr::from_bytes(target));
    let real = fs::fd_path(tree.root_mount().fd())?;
    let below = target.strip_prefix(real);
    let below = below.or_else(|_| target.strip_prefix(&tree.export.path));
    Ok(below.ok())
}

fn names_of(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty() && *name != b".")
}
