//! From a handle's parts, or a descriptor that a look-up returned, to an [`Object`].

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::vfs::fh::Handle;
use nfs_io::fs::{self, OFlags, Stat};
use nfs_io::identity::Guard;
use nfs_io::{Client, Errno, Queue};

use super::{Actor, Error, FileKind, Mount, Object, Result, Tree, Turn};
use crate::exports::Export;
use crate::operate::calls::{StepKind, step};
use crate::vfs::fh::{HandleBody, HandleError, HandleParts, MountKey, own_table_id};
use crate::vfs::file_cache::{InodeId, Leaving};
use crate::vfs::handle_table::{HandleTable, Identity, NewObject, TableError, TableId};
use crate::vfs::{Target, Vfs};

impl Object {
    pub(crate) fn inode_id(&self) -> InodeId {
        InodeId {
            fsid: self.mount.fsid,
            dev: self.dev,
            ino: self.ino,
        }
    }

    pub(crate) fn export_id(&self) -> u32 {
        self.mount.export_id
    }

    /// The root of a file system of an export; it stays in the cache while that is served.
    pub(crate) fn is_root(&self) -> bool {
        self.mount.root_ino() == self.ino && self.mount.dev == self.dev && !self.mount.is_retired()
    }
}

/// What a handle leads to, before anybody was let in: nothing has been opened for the caller yet.
pub(crate) struct Located {
    pub(crate) tree: Arc<Tree>,
    found: Found,
}

enum Found {
    /// The object is in the file cache.
    Cached(Arc<Object>),
    /// The handle is one of this server's; what it names is still to be opened.
    Named(Handle, Box<HandleParts>),
}

impl Vfs {
    /// Finds the export of a handle. Whether the caller may use that export is to be asked before
    /// [`Vfs::open_located`].
    ///
    /// # Errors
    /// [`Error::BadHandle`] and [`Error::Stale`].
    pub(crate) async fn locate(self: &Arc<Self>, handle: &Handle) -> Result<Located> {
        let looking = step(StepKind::FileCache);
        let cached = self
            .files
            .by_handle(handle)
            .filter(|object| self.is_kept(object));
        looking.hit(cached.is_some());
        looking.end();
        if let Some(object) = cached {
            if !object.mount.is_retired() {
                let tree = self.trees.load().by_id(object.export_id()).cloned();
                return Ok(Located {
                    tree: tree.ok_or(Error::Stale)?,
                    found: Found::Cached(object),
                });
            }
            self.put_out(object).await?;
        }
        let trees = self.trees.load_full();
        let place_of = |export| Some(*trees.by_id(export)?.mark());
        let parts = self
            .key
            .open(handle, place_of)
            .map_err(|error| match error {
                HandleError::Malformed => Error::BadHandle,
                HandleError::NoExport | HandleError::Forged | HandleError::Outdated => Error::Stale,
            })?;
        let tree = trees.by_id(parts.export).cloned().ok_or(Error::Stale)?;
        Ok(Located {
            tree,
            found: Found::Named(*handle, Box::new(parts)),
        })
    }

    /// Whether an object that is in the cache is used from there; otherwise it leaves it.
    fn is_kept(&self, object: &Arc<Object>) -> bool {
        let may_leave = self.keeps_no_files.load(Ordering::Relaxed)
            && !object.is_root()
            && !object.io.must_stay()
            && !object.is_open();
        if may_leave {
            self.files.remove(object);
        }
        !may_leave
    }

    /// Whether a handle was made by this server for an export of which `admits` is true.
    pub(crate) fn is_of_export(
        &self,
        handle: &Handle,
        admits: impl FnOnce(&Export) -> bool,
    ) -> bool {
        let trees = self.trees.load();
        let place_of = |export| Some(*trees.by_id(export)?.mark());
        let opened = self.key.open(handle, place_of);
        let tree = opened.ok().and_then(|parts| trees.by_id(parts.export));
        tree.is_some_and(|tree| admits(&tree.export))
    }

    /// The object that a handle leads to, for a caller that the export lets in. `now` is when the call began.
    ///
    /// # Errors
    /// [`Error::Stale`] when it is gone or was moved out of the export.
    pub(crate) async fn open_located(
        self: &Arc<Self>,
        located: Located,
        turn: &Turn,
        actor: &Actor,
        now: Instant,
    ) -> Result<(Arc<Tree>, Arc<Object>)> {
        let Located { tree, found } = located;
        self.take_turn(turn, &tree, actor.sharer()).await?;
        let client = actor.client();
        let object = match found {
            Found::Cached(object) => {
                self.check_place(&tree, &object, client, now).await?;
                object
            }
            // Boxed: it is rare, and every call would have room for what it keeps in mind.
            Found::Named(handle, parts) => {
                Box::pin(self.open_handle(&tree, handle, *parts, client)).await?
            }
        };
        Ok((tree, object))
    }

    /// Puts an object out of the cache whose export is served no more, or from another directory.
    async fn put_out(self: &Arc<Self>, object: Arc<Object>) -> Result<()> {
        if object.io.must_stay() {
            let (vfs, dirty) = (Arc::clone(self), Arc::clone(&object));
            self.blocking(object.mount.lane(), move || vfs.make_ready_to_leave(&dirty))
                .await?;
        }
        self.files.remove(&object);
        Ok(())
    }

    /// Opens what a verified handle names.
    ///
    /// # Errors
    /// [`Error::Stale`] when it is gone.
    async fn open_handle(
        self: &Arc<Self>,
        tree: &Arc<Tree>,
        handle: Handle,
        parts: HandleParts,
        client: Client,
    ) -> Result<Arc<Object>> {
        let _step = step(StepKind::OpenHandle);
        let (vfs, tree) = (Arc::clone(self), Arc::clone(tree));
        let queue = |mount: &Mount| Queue {
            lane: mount.lane(),
            client,
            weight: None,
        };
        let mount = self
            .blocking(queue(&tree.root_mount()), {
                let tree = Arc::clone(&tree);
                move || tree.mount_by_key(parts.mount)
            })
            .await??;
        self.opening(queue(&mount), move || match parts.body {
            HandleBody::Kernel(kernel) => {
                let opening = step(StepKind::OpenByHandle);
                let fd = fs::open_by_handle(mount.fd(), &kernel, OFlags::PATH | OFlags::NOFOLLOW)
                    .map_err(gone)?;
                opening.end();
                let asking = step(StepKind::Attributes);
                let stat = fs::statx(fd.as_fd())?;
                asking.end();
                // A directory that was moved out of the export on the server takes what is in it along.
                if stat.kind() == FileKind::Directory && !tree.contains(fd.as_fd())? {
                    return Err(Error::Stale);
                }
                let path = tree.wants_name_of(&stat).then(|| fs::fd_path(fd.as_fd()));
                let object = vfs.insert(handle, mount, fd, &stat)?;
                // The client found it by a name while another object stood for it, or in a listing. The
                // kernel still knows one if the name is in its memory.
                if let Some(name) = path.and_then(known_name) {
                    object.remember_name_if_none(&name);
                }
                Ok(object)
            }
            HandleBody::Table(id) => vfs.open_table_id(&tree, id),
        })
        .await?
    }

    /// Looks now and then whether a directory of the cache is still in its export: its descriptor stays good
    /// wherever somebody moves it on the server's host, with all that is in it. What is opened anew is looked
    /// at in any case.
    ///
    /// # Errors
    /// [`Error::Stale`] when it was moved out.
    async fn check_place(
        &self,
        tree: &Arc<Tree>,
        object: &Arc<Object>,
        client: Client,
        now: Instant,
    ) -> Result<()> {
        if !object.is_directory() || object.is_root() || !object.place_is_due(now) {
            return Ok(());
        }
        let inside = match tree.contains_by_path(object.path()) {
            Err(Error::Errno(Errno::NAMETOOLONG)) => {
                let (tree, object) = (Arc::clone(tree), Arc::clone(object));
                let lane = object.mount.lane();
                let queue = Queue {
                    lane,
                    client,
                    weight: None,
                };
                // Boxed, as it is rare.
                Box::pin(self.blocking(queue, move || tree.contains(object.path()))).await?
            }
            answer => answer,
        };
        if inside? {
            return Ok(());
        }
        self.files.remove(object);
        Err(Error::Stale)
    }

    /// Makes the object of a descriptor that was reached by name. `place` is where: the parent's
    /// table id is looked up for a server that keeps its handles in a table.
    ///
    /// # Errors
    /// When no handle can be made for it. May wait for the disk with a table.
    pub(super) fn intern(
        self: &Arc<Self>,
        parent: &Object,
        tree: &Tree,
        name: &[u8],
        fd: OwnedFd,
        stat: &Stat,
    ) -> Result<Arc<Object>> {
        let mount = tree.mount_of(&parent.mount, stat)?;
        let id = InodeId {
            fsid: mount.fsid,
            dev: stat.dev,
            ino: stat.ino,
        };
        if let Some(object) = self.files.by_inode(id) {
            tree.found_as(&object, name);
            return Ok(object);
        }
        let handle = match self.table(tree) {
            None => self.kernel_handle(tree, &mount, &fd)?,
            Some(table) => {
                let new = NewObject {
                    identity: identity(tree, &mount, fd.as_fd(), stat)?,
                    parent: table_id(parent)?.number,
                    name: name.to_vec(),
                };
                let ids = table.intern(vec![new]).map_err(table_failed)?;
                let id = ids.first().copied().ok_or(Error::NoHandle)?;
                self.table_handle(tree, id)?
            }
        };
        let object = self.insert(handle, mount, fd, stat)?;
        tree.found_as(&object, name);
        Ok(object)
    }

    /// The handle table, for a tree whose handles are in it.
    pub(super) fn table(&self, tree: &Tree) -> Option<&HandleTable> {
        // Opened before the first such tree is served.
        self.table.get().filter(|_| tree.is_by_table())
    }

    /// The root of an export.
    ///
    /// # Errors
    /// When no handle can be made for it.
    pub(crate) fn root(self: &Arc<Self>, tree: &Arc<Tree>) -> Result<Arc<Object>> {
        if let Some(root) = tree.root() {
            return Ok(root);
        }
        let mount = tree.root_mount();
        let fd = fs::reopen(mount.fd(), OFlags::PATH | OFlags::DIRECTORY)?;
        let stat = fs::statx(fd.as_fd())?;
        let handle = match self.table(tree) {
            None => self.kernel_handle(tree, &mount, &fd)?,
            Some(table) => {
                let identity = identity(tree, &mount, fd.as_fd(), &stat)?;
                let id = table.root(identity).map_err(table_failed)?;
                self.table_handle(tree, id)?
            }
        };
        let root = self.insert(handle, mount, fd, &stat)?;
        tree.set_root(Arc::clone(&root));
        Ok(root)
    }

    fn kernel_handle(&self, tree: &Tree, mount: &Mount, fd: &OwnedFd) -> Result<Handle> {
        let (kernel, _mount_id) = fs::name_to_handle(fd.as_fd())?;
        let parts = HandleParts {
            export: tree.export.id,
            mount: mount.key,
            body: HandleBody::Kernel(kernel),
        };
        Ok(self.key.seal(&parts, tree.mark())?)
    }

    fn table_handle(&self, tree: &Tree, id: TableId) -> Result<Handle> {
        let parts = HandleParts {
            export: tree.export.id,
            mount: MountKey::ROOT,
            body: HandleBody::Table(id),
        };
        Ok(self.key.seal(&parts, tree.mark())?)
    }

    /// Walks to the places where the object was seen and takes the first that still is it.
    pub(super) fn open_table_id(
        self: &Arc<Self>,
        tree: &Arc<Tree>,
        id: TableId,
    ) -> Result<Arc<Object>> {
        let table = self.table(tree).ok_or(Error::Stale)?;
        let mount = tree.root_mount();
        let root = self.root(tree)?;
        if table_id(&root)? == id {
            return Ok(root);
        }
        let wanted = table.object(id).map_err(table_failed)?;
        let wanted = wanted.ok_or(Error::Stale)?.identity;
        for path in table.paths(id).map_err(table_failed)? {
            let Ok(fd) = tree.open_below(&path, OFlags::PATH) else {
                continue;
            };
            let stat = fs::statx(fd.as_fd())?;
            let mount = tree.mount_of(&mount, &stat)?;
            if identity(tree, &mount, fd.as_fd(), &stat)? == wanted {
                let handle = self.table_handle(tree, id)?;
                let object = self.insert(handle, mount, fd, &stat)?;
                let name = path.rsplit(|byte| *byte == b'/').next();
                tree.found_as(&object, name.unwrap_or_default());
                return Ok(object);
            }
        }
        Err(Error::Stale)
    }

    /// The handle of an entry that a listing shows, without opening a place in the cache for it.
    pub(super) fn handle_of(
        self: &Arc<Self>,
        directory: &Target,
        mount: &Arc<Mount>,
        name: &[u8],
        fd: OwnedFd,
        stat: &Stat,
    ) -> Result<Handle> {
        let id = InodeId {
            fsid: mount.fsid,
            dev: stat.dev,
            ino: stat.ino,
        };
        match self.files.by_inode(id) {
            Some(object) => {
                directory.tree.found_as(&object, name);
                Ok(object.handle)
            }
            None if !directory.tree.is_by_table() => {
                self.kernel_handle(&directory.tree, mount, &fd)
            }
            None => {
                let object = self.intern(&directory.object, &directory.tree, name, fd, stat)?;
                Ok(object.handle)
            }
        }
    }

    pub(super) fn insert(
        self: &Arc<Self>,
        handle: Handle,
        mount: Arc<Mount>,
        fd: OwnedFd,
        stat: &Stat,
    ) -> Result<Arc<Object>> {
        if stat.nlink == 0 {
            return Err(Error::Stale);
        }
        let slot = self.files.budget().take();
        let mut leaving = Leaving::default();
        let stages = Arc::clone(&self.stages);
        let object = Object::new(handle, mount, fd, slot, stages, stat);
        let object = self.files.insert(object, &mut leaving);
        self.let_go(leaving);
        Ok(object)
    }

    /// Drops objects that left the cache, and has done for others what there is to do before they leave.
    pub(crate) fn let_go(self: &Arc<Self>, leaving: Leaving) {
        let (retired, clean): (Vec<_>, Vec<_>) = leaving
            .out
            .into_iter()
            .partition(|object| object.io.must_stay());
        drop(clean);
        for object in leaving.to_sync.into_iter().chain(retired) {
            let lane = object.mount.lane();
            let (vfs, job) = (Arc::clone(self), Cleaning(object));
            let sync = move |job: Cleaning| vfs.make_ready_to_leave(&job.0);
            // Where too much waits it is not done, and tried another time.
            drop(self.pool.submit(lane, job, sync));
        }
    }
}

/// A file that is being synced so that it can leave the cache, until that is over or given up.
struct Cleaning(Arc<Object>);

impl Drop for Cleaning {
    fn drop(&mut self) {
        self.0.cleaning.store(false, Ordering::Relaxed);
    }
}

/// The last name of the path that the kernel shows for a descriptor. A file that was opened by handle and
/// whose names are not in the kernel's memory is shown as a root, which has none; a name that is gone is
/// marked.
fn known_name(path: nfs_io::Result<PathBuf>) -> Option<Vec<u8>> {
    let path = path.ok()?;
    let name = path.file_name()?.as_bytes();
    (!name.ends_with(b" (deleted)")).then(|| name.to_vec())
}

/// What an object is for the handle table.
pub(super) fn identity(
    tree: &Tree,
    mount: &Mount,
    fd: BorrowedFd<'_>,
    stat: &Stat,
) -> Result<Identity> {
    Ok(Identity {
        export: tree.export.id,
        file_system: mount.mark_of(fd, stat)?,
        ino: stat.ino,
        btime: stat.btime.map(|btime| (btime.sec, btime.nsec)),
    })
}

/// The id in the handle table of an object whose handle is of that kind.
pub(super) fn table_id(object: &Object) -> Result<TableId> {
    own_table_id(&object.handle).ok_or(Error::NoHandle)
}

/// What a client is told when the table fails. The log is told by the table itself, once.
pub(super) fn table_failed(error: TableError) -> Error {
    tracing::debug!(%error, "the handle table failed");
    let full = match error {
        TableError::NotWritten(error) => error.raw_os_error().and_then(full),
        _ => None,
    };
    Error::Errno(full.unwrap_or(Errno::IO))
}

/// The error for the client where the handle table has no room: then there is none for files either, and the
/// client's program is told so. `None` for any other failure, such as a state directory that became
/// read-only: it is no matter of the export.
fn full(errno: i32) -> Option<Errno> {
    [Errno::NOSPC, Errno::DQUOT]
        .into_iter()
        .find(|full| full.raw_os_error() == errno)
}

/// Removes what was made just now: its handle could not be recorded, and the call fails. While no entry of
/// the directory may be removed or renamed by a client (`names_turn`), only a program on the
/// server's host can put something else there, between the look and the removal.
pub(super) fn take_back(directory: &Target, name: &[u8], made: &Stat) {
    let parent = directory.object.path();
    let remove = || {
        let found = fs::statx_at(parent, name)?;
        if (found.dev, found.ino, found.btime) != (made.dev, made.ino, made.btime) {
            return Ok(());
        }
        let _identity = Guard::enter(&directory.actor.creds)?;
        if made.kind() == FileKind::Directory {
            fs::rmdirat(parent, name)
        } else {
            fs::unlinkat(parent, name)
        }
    };
    if let Err(error) = remove() {
        tracing::debug!(%error, "what was made without a handle stays");
    }
}

/// ENOENT and EINVAL are what some file systems say of a handle whose inode is gone.
fn gone(errno: Errno) -> Error {
    match errno {
        Errno::NOENT | Errno::INVAL => Error::Stale,
        errno => errno.into(),
    }
}
