//! Changes of a directory's entries: making, linking, removing and moving them.
//!
//! Each runs as one job on the helper pool: attributes before, the change as the caller,
//! attributes after. Then it waits, without a thread, for its share of a group commit, and its shard hears of both at
//! once.

use std::os::fd::AsFd;
use std::sync::Arc;

use nfs_io::Errno;
use nfs_io::fs::{self, ResolveFlags, Stat, Timestamp};
use nfs_io::identity::Guard;
use parking_lot::RwLockWriteGuard;

use super::changing::names_lock;
use super::lookup::open_entry;
use super::resolve::{identity, table_failed, table_id};
use super::stable::Flush;
use super::staging::Pause;
use super::{
    Attributes, EntryName, Error, FileKind, Object, Result, SetAttributes, TimeChange, Wcc, WithWcc,
};
use crate::host::call_notes::Change;
use crate::vfs::file_cache::InodeId;
use crate::vfs::handle_table::{HandleTable, NewObject};
use crate::vfs::{Target, Vfs};

mod node;

use node::create_node;

/// What CREATE does when the name is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precondition {
    /// A regular file of that name will do; its size is set if the call says one.
    Unchecked,
    /// An object of that name is an error.
    Guarded,
    /// An object of that name is an error unless it is an empty regular file with these times, which an
    /// earlier try of the same call gave it. Nobody may use the new file until its attributes are set.
    Marked(Mark),
}

/// Times by which a front knows a file again that it has made. They are kept until somebody sets others, and a
/// file system without nanoseconds gives them back as 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) mtime: Timestamp,
    pub(crate) atime: Timestamp,
}

impl Mark {
    fn to_set(self) -> SetAttributes {
        SetAttributes {
            mtime: TimeChange::To(self.mtime),
            atime: TimeChange::To(self.atime),
            ..SetAttributes::default()
        }
    }

    /// Is this the empty file that was made with the mark?
    fn is_on(self, stat: &Stat) -> bool {
        let same = |kept: Timestamp, given: Timestamp| {
            kept.sec == given.sec && (kept.nsec == given.nsec || kept.nsec == 0)
        };
        stat.size == 0 && same(stat.mtime, self.mtime) && same(stat.atime, self.atime)
    }
}

/// The object that a call is to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NewNode {
    File(Precondition),
    Directory,
    Symlink { target: Vec<u8> },
    Fifo,
    Socket,
    CharacterDevice { major: u32, minor: u32 },
    BlockDevice { major: u32, minor: u32 },
}

/// The new object, with its attributes.
pub(crate) struct Created {
    pub(crate) object: Arc<Object>,
    /// This call made it, and did not find it there.
    pub(crate) is_new: bool,
    pub(crate) attributes: Attributes,
}

impl Vfs {
    /// Makes a node of any kind.
    pub(crate) async fn create(
        self: &Arc<Self>,
        directory: &Target,
        name: EntryName<'_>,
        node: NewNode,
        set: SetAttributes,
    ) -> WithWcc<Created> {
        let name = name.bytes().to_vec();
        let pause = match self.pause_entry(directory, &name, &set).await {
            Ok(pause) => pause,
            Err(busy) => return (Err(busy), self.wcc_unchanged(directory).await),
        };
        self.change_directory(directory, move |vfs, directory| {
            let _pause = pause;
            create_node(vfs, directory, &name, &node, &set)
        })
        .await
    }

    /// A file may be there that is to be cut: has nothing of it staged meanwhile.
    async fn pause_entry(
        self: &Arc<Self>,
        directory: &Target,
        name: &[u8],
        set: &SetAttributes,
    ) -> Result<Option<Pause>> {
        if set.size.is_none() || !self.stages.has_files() {
            return Ok(None);
        }
        let (job, name) = (Arc::clone(&directory.object), name.to_vec());
        let look = move || fs::statx_at(job.path(), &name);
        match self.blocking(directory.queue(), look).await? {
            Ok(stat) => self.pause_staging((stat.dev, stat.ino)).await,
            Err(_not_there) => Ok(None),
        }
    }

    /// Gives an object another name.
    pub(crate) async fn link(
        self: &Arc<Self>,
        object: Arc<Object>,
        directory: &Target,
        name: EntryName<'_>,
    ) -> WithWcc<()> {
        let error = if object.mount.fsid != directory.object.mount.fsid {
            Some(Error::CrossDevice)
        } else {
            object.is_directory().then_some(Error::WrongType)
        };
        if let Some(error) = error {
            return (Err(error), self.wcc_unchanged(directory).await);
        }
        let name = name.bytes().to_vec();
        self.change_directory(directory, move |vfs, directory| {
            let noted = directory.noted(Change::Make, &name);
            let made_before = noted.linked(directory, &name, &object);
            // Before it is made, so that a table that cannot be written stops it. A place too many does no
            // harm; one that another object has would be taken from that, and the kernel refuses
            // such a link.
            if let Some(table) = vfs.table(&directory.tree)
                && (made_before || fs::statx_at(directory.object.path(), &name).is_err())
            {
                note_place(table, directory, &name, &object)?;
            }
            let linked = {
                let _identity = Guard::enter(&directory.actor.creds)?;
                fs::linkat(object.path(), directory.object.path(), &name)
            };
            match linked {
                Err(Errno::EXIST) if made_before => {}
                linked => linked?,
            }
            noted.made_name_of(&object);
            directory.tree.found_as(&object, &name);
            Ok(((), vec![]))
        })
        .await
    }

    /// Removes an entry: a directory, which has to be empty (`directories` true), or anything else (false).
    pub(crate) async fn remove(
        self: &Arc<Self>,
        directory: &Target,
        name: EntryName<'_>,
        directories: bool,
    ) -> WithWcc<()> {
        let name = name.bytes().to_vec();
        self.change_directory(directory, move |vfs, directory| {
            // Between the removal and the table's knowing of it nobody may take the name again.
            let table = vfs.table(&directory.tree);
            let _turn = table.map(|_| directory.object.names_turn.write());
            let found = fs::statx_at(directory.object.path(), &name).ok();
            let noted = directory.noted_found(Change::Take, &name, found.as_ref());
            let doomed = found.and_then(|stat| last_name(directory, &stat));
            if !noted.removed() {
                let _identity = Guard::enter(&directory.actor.creds)?;
                let parent = directory.object.path();
                if directories {
                    fs::rmdirat(parent, &name)?;
                } else {
                    fs::unlinkat(parent, &name)?;
                }
                noted.took_it();
            } else if !noted.is_free() {
                // Somebody else has the name by now.
                return Ok(((), vec![]));
            }
            if let Some(table) = table {
                let parent = table_id(&directory.object)?;
                table.removed(parent.number, &name).map_err(table_failed)?;
            }
            vfs.forget(doomed);
            Ok(((), vec![]))
        })
        .await
    }

    /// Moves an entry to another name, in the same directory or another; both directories' attributes are
    /// returned.
    pub(crate) async fn rename(
        self: &Arc<Self>,
        from: &Target,
        from_name: EntryName<'_>,
        to: &Target,
        to_name: EntryName<'_>,
    ) -> (Result<()>, Wcc, Wcc) {
        let valid = check_rename(from, to);
        if let Err(error) = valid {
            let unchanged = self.wcc_unchanged(from).await;
            return (Err(error), unchanged, self.wcc_unchanged(to).await);
        }
        let changes = (
            from.object.begin_change(from.actor.author),
            to.object.begin_change(to.actor.author),
        );
        let (vfs, job) = (Arc::clone(self), (from.clone(), to.clone()));
        let names = (from_name.bytes().to_vec(), to_name.bytes().to_vec());
        let done = self
            .changing_metadata(from, Some(names_lock(&from.object)), move || {
                let (from, to) = &job;
                let before = of_both(from, to, Object::stat);
                let result = vfs.rename_now(from, &names.0, to, &names.1);
                let after = of_both(from, to, Object::attributes);
                let from_wcc = Wcc {
                    before: before.0,
                    after: after.0,
                };
                let to_wcc = Wcc {
                    before: before.1,
                    after: after.1,
                };
                (result.map(|flushes| ((), flushes)), (from_wcc, to_wcc))
            })
            .await;
        let (result, (mut from_wcc, mut to_wcc)) =
            done.unwrap_or_else(|busy| (Err(busy), Default::default()));
        if !changes.0.is_unmixed() {
            from_wcc.before = None;
        }
        if !changes.1.is_unmixed() {
            to_wcc.before = None;
        }
        (result, from_wcc, to_wcc)
    }

    fn rename_now(
        self: &Arc<Self>,
        from: &Target,
        from_name: &[u8],
        to: &Target,
        to_name: &[u8],
    ) -> Result<Vec<Flush>> {
        let flushes = vec![self.flush_of(&from.object), self.flush_of(&to.object)];
        let table = self.table(&from.tree);
        let _turns = table.map(|_| names_turns(&from.object, &to.object));
        let found = fs::statx_at(from.object.path(), from_name).ok();
        let noted = from.noted_move(found.as_ref(), (to, to_name));
        if noted.moved(to, to_name) {
            return self
                .moved_before(from, from_name, to, to_name)
                .map(|()| flushes);
        }
        let doomed = fs::statx_at(to.object.path(), to_name).ok();
        let doomed = doomed.and_then(|stat| last_name(to, &stat));
        let mut moved = found;
        if let Some(table) = table
            && let Ok((fd, stat)) = open_entry(from, from_name, ResolveFlags::empty())
        {
            let stat = moved.insert(stat);
            let mount = from.tree.mount_of(&from.object.mount, stat)?;
            // Known at its new place before it is there: a crash between must not lose it.
            let new = NewObject {
                identity: identity(&to.tree, &mount, fd.as_fd(), stat)?,
                parent: table_id(&to.object)?.number,
                name: to_name.to_vec(),
            };
            table.intern(vec![new]).map_err(table_failed)?;
        }
        {
            let _identity = Guard::enter(&from.actor.creds)?;
            fs::renameat(from.object.path(), from_name, to.object.path(), to_name)?;
        }
        noted.took_it();
        if let Some(table) = table {
            let (from, to) = (table_id(&from.object)?, table_id(&to.object)?);
            table
                .renamed((from.number, from_name), (to.number, to_name))
                .map_err(table_failed)?;
        }
        // Renaming one link of a file over another does nothing: then it still has a name.
        let same = |stat: &Stat| doomed.as_ref().is_some_and(|id| id.ino == stat.ino);
        if !moved.as_ref().is_some_and(same) {
            self.forget(doomed);
        }
        if let Some(stat) = &moved {
            self.found_again(to, to_name, stat);
        }
        Ok(flushes)
    }

    /// What is left to be done where an earlier run of the server made the move: the handle table may not
    /// know of it.
    fn moved_before(
        self: &Arc<Self>,
        from: &Target,
        from_name: &[u8],
        to: &Target,
        to_name: &[u8],
    ) -> Result<()> {
        let Some(table) = self.table(&from.tree) else {
            return Ok(());
        };
        let (fd, stat) = open_entry(to, to_name, ResolveFlags::empty())?;
        let mount = to.tree.mount_of(&to.object.mount, &stat)?;
        let new = NewObject {
            identity: identity(&to.tree, &mount, fd.as_fd(), &stat)?,
            parent: table_id(&to.object)?.number,
            name: to_name.to_vec(),
        };
        table.intern(vec![new]).map_err(table_failed)?;
        if fs::statx_at(from.object.path(), from_name).is_ok() {
            // Somebody else has the old name by now.
            return Ok(());
        }
        table
            .removed(table_id(&from.object)?.number, from_name)
            .map_err(table_failed)
    }

    /// Runs a change of one directory: attributes around it, and its flush.
    async fn change_directory<T: Send + 'static>(
        self: &Arc<Self>,
        directory: &Target,
        change: impl FnOnce(&Arc<Self>, &Target) -> Result<(T, Vec<Flush>)> + Send + 'static,
    ) -> WithWcc<T> {
        let valid = directory.must_be_writable().and_then(|()| {
            let is_directory = directory.object.is_directory();
            if is_directory {
                Ok(())
            } else {
                Err(Error::Errno(Errno::NOTDIR))
            }
        });
        if let Err(error) = valid {
            return (Err(error), self.wcc_unchanged(directory).await);
        }
        let running = directory.object.begin_change(directory.actor.author);
        let (vfs, job) = (Arc::clone(self), directory.clone());
        let done = self
            .changing_metadata(directory, Some(names_lock(&directory.object)), move || {
                let before = match job.object.stat() {
                    Ok(before) => before,
                    Err(error) => return (Err(error), Wcc::default()),
                };
                let flush = vfs.flush_of(&job.object);
                let result = change(&vfs, &job).map(|(made, mut flushes)| {
                    flushes.insert(0, flush);
                    (made, flushes)
                });
                let after = job.object.attributes().ok();
                let wcc = Wcc {
                    before: Some(before),
                    after,
                };
                (result, wcc)
            })
            .await;
        let (result, mut wcc) = done.unwrap_or_else(|busy| (Err(busy), Wcc::default()));
        if !running.is_unmixed() {
            wcc.before = None;
        }
        (result, wcc)
    }

    /// Puts a removed inode out of the cache, if indeed it has no name left.
    fn forget(self: &Arc<Self>, doomed: Option<InodeId>) {
        if let Some(object) = doomed.and_then(|id| self.files.by_inode(id))
            && object.stat() == Err(Error::Stale)
        {
            self.files.remove(&object);
        }
    }

    /// An object has another name: clients go on with the handle that they have.
    fn found_again(&self, directory: &Target, name: &[u8], stat: &Stat) {
        let id = InodeId {
            fsid: directory.object.mount.fsid,
            dev: stat.dev,
            ino: stat.ino,
        };
        if directory.tree.wants_name_of(stat)
            && let Some(object) = self.files.by_inode(id)
        {
            directory.tree.found_as(&object, name);
        }
    }
}

/// Tells the handle table of another place of an object.
fn note_place(table: &HandleTable, directory: &Target, name: &[u8], object: &Object) -> Result<()> {
    let parent = table_id(&directory.object)?;
    let id = table_id(object)?;
    table
        .linked(id.number, parent.number, name)
        .map_err(table_failed)
}

/// The inode that loses its last name when this entry of the directory goes, if it is cached: its descriptors
/// would keep its space.
fn last_name(directory: &Target, stat: &Stat) -> Option<InodeId> {
    let last = stat.nlink <= 1 || stat.kind() == FileKind::Directory;
    // (What is mounted there cannot be removed.)
    last.then_some(InodeId {
        fsid: directory.object.mount.fsid,
        dev: stat.dev,
        ino: stat.ino,
    })
}

/// What two directories, which may be one, are asked for; one is asked once.
fn of_both<T: Clone>(
    from: &Target,
    to: &Target,
    ask: fn(&Object) -> Result<T>,
) -> (Option<T>, Option<T>) {
    let of_from = ask(&from.object).ok();
    let of_to = if Arc::ptr_eq(&from.object, &to.object) {
        of_from.clone()
    } else {
        ask(&to.object).ok()
    };
    (of_from, of_to)
}

/// Locks the names of two directories, which may be one, in an order that all keep to.
fn names_turns<'o>(
    from: &'o Object,
    to: &'o Object,
) -> (RwLockWriteGuard<'o, ()>, Option<RwLockWriteGuard<'o, ()>>) {
    match from.inode_id().ino.cmp(&to.inode_id().ino) {
        std::cmp::Ordering::Equal => (from.names_turn.write(), None),
        std::cmp::Ordering::Less => {
            let first = from.names_turn.write();
            (first, Some(to.names_turn.write()))
        }
        std::cmp::Ordering::Greater => {
            let first = to.names_turn.write();
            (first, Some(from.names_turn.write()))
        }
    }
}

fn check_rename(from: &Target, to: &Target) -> Result<()> {
    from.must_be_writable()?;
    to.must_be_writable()?;
    if !from.object.is_directory() || !to.object.is_directory() {
        return Err(Error::Errno(Errno::NOTDIR));
    }
    if from.object.mount.fsid == to.object.mount.fsid {
        Ok(())
    } else {
        Err(Error::CrossDevice)
    }
}
