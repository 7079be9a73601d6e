//! An object of an export that some client holds a handle of: its descriptors and what is
//! remembered about it while it is in the [file cache](crate::vfs::file_cache).
//!
//! An `Object` lives as long as the cache or a running call holds it; its descriptors close with
//! it. It never caches attributes: changes made on the server's own host show at once. It does
//! remember permission checks, tied to the ctime they were made at.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::vfs::fh::Handle;
use nfs_io::caps::{self, Capability};
use nfs_io::fs::{self, OFlags, Stat, Timestamp};
use nfs_io::identity::{Guard, ServerIdentity};
use nfs_io::{Creds, Errno};
use parking_lot::{Mutex, RwLock};

use super::closing::Writing;
use super::gate::{Gate, Gates};
use super::io::{Refusals, Rounds};
use super::tree::Mount;
use super::{Access, Actor, Attributes, Error, FileKind, Result, Wcc};
use crate::exports::policy::Io;
use crate::limits;
use crate::vfs::Author;
use crate::vfs::file_cache::{FdBudget, FdSlot};

/// See the module.
pub(crate) struct Object {
    pub(crate) handle: Handle,
    pub(crate) mount: Arc<Mount>,
    /// The device of the inode: a btrfs subvolume has its own, within one mount.
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    pub(crate) kind: FileKind,
    /// Opened with `O_PATH`: names the object, needs no right on it.
    path: OwnedFd,
    /// What counts against the descriptor budget for `path`.
    _slot: FdSlot,
    read: Mutex<Option<Open>>,
    pub(super) write: Mutex<Writing>,
    direct_read: Mutex<Option<Open>>,
    pub(super) direct_write: Mutex<Option<Open>>,
    /// Ways of moving bytes that it did not take.
    pub(super) refusals: Refusals,
    /// Pages that went into the page cache although they were meant to go past it, about.
    pub(super) edge_pages: AtomicU32,
    /// Set by the first write.
    gate: OnceLock<Arc<Gate>>,
    permits: Mutex<Permits>,
    changes: Mutex<Changes>,
    /// Held on a helper thread while attributes are compared with a guard and set.
    pub(super) setattr_turn: Mutex<()>,
    /// Of a directory whose entries are in the handle table: written while a name goes, read
    /// while one comes, until the table knows.
    pub(super) names_turn: RwLock<()>,
    sync_turn: tokio::sync::Mutex<()>,
    pub(super) rounds: Rounds,
    pub(super) unstable: Mutex<super::stable::Unstable>,
    /// The name by which it was last found, where a rule of its export asks for names.
    name: Mutex<Option<Arc<[u8]>>>,
    /// Of a directory: when it was last seen to be in the export, since it came into the cache.
    place_seen: Mutex<Option<Instant>>,
    /// Touched since the clock's hand last passed.
    pub(crate) used: AtomicBool,
    /// Somebody is about to sync it so that it may leave the cache.
    pub(crate) cleaning: AtomicBool,
}

/// An open descriptor and its place in the budget.
pub(super) struct Open {
    pub(super) fd: Arc<OwnedFd>,
    pub(super) _slot: FdSlot,
}

impl Open {
    /// Nobody but its object has it. True for as long as the caller holds the lock of its place.
    pub(super) fn is_unused(&self) -> bool {
        Arc::strong_count(&self.fd) == 1
    }
}

impl Object {
    pub(crate) fn new(
        handle: Handle,
        mount: Arc<Mount>,
        path: OwnedFd,
        slot: FdSlot,
        stat: &Stat,
    ) -> Self {
        Self {
            handle,
            mount,
            dev: stat.dev,
            ino: stat.ino,
            kind: stat.kind(),
            path,
            _slot: slot,
            read: Mutex::default(),
            write: Mutex::default(),
            direct_read: Mutex::default(),
            direct_write: Mutex::default(),
            refusals: Refusals::default(),
            edge_pages: AtomicU32::new(0),
            gate: OnceLock::new(),
            permits: Mutex::default(),
            changes: Mutex::default(),
            setattr_turn: Mutex::default(),
            names_turn: RwLock::default(),
            sync_turn: tokio::sync::Mutex::default(),
            rounds: Rounds::default(),
            unstable: Mutex::default(),
            name: Mutex::default(),
            place_seen: Mutex::default(),
            used: AtomicBool::new(true),
            cleaning: AtomicBool::new(false),
        }
    }

    /// The `O_PATH` descriptor.
    pub(crate) fn path(&self) -> BorrowedFd<'_> {
        self.path.as_fd()
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }

    /// The attributes as they are now. May wait for a peer on file systems that are not
    /// [local](Mount::local).
    ///
    /// # Errors
    /// [`Error::Stale`] when the last name of the object is gone.
    pub(crate) fn stat(&self) -> Result<Stat> {
        let stat = fs::statx(self.path())?;
        if stat.nlink == 0 {
            Err(Error::Stale)
        } else {
            Ok(stat)
        }
    }

    /// The descriptor for READ, READDIR's sync and COMMIT, opened at first use with the server's
    /// own rights: whoever uses it has asked [`Object::check`] first.
    pub(crate) fn read_fd(&self, slots: &FdBudget) -> Result<Arc<OwnedFd>> {
        self.open(&mut self.read.lock(), OFlags::RDONLY, slots)
    }

    /// The descriptor for READ if it is open already. Never waits: somebody may be opening it on a
    /// file system that does not answer.
    pub(crate) fn read_fd_if_open(&self) -> Option<Arc<OwnedFd>> {
        let place = self.read.try_lock()?;
        place.as_ref().map(|open| Arc::clone(&open.fd))
    }

    /// The descriptor for direct READs or WRITEs; see [`Object::read_fd`].
    ///
    /// # Errors
    /// EINVAL where the file system has no direct I/O.
    pub(crate) fn direct_fd(&self, io: Io, slots: &FdBudget) -> Result<Arc<OwnedFd>> {
        let (place, access) = match io {
            Io::Read => (&self.direct_read, OFlags::RDONLY),
            Io::Write => (&self.direct_write, OFlags::WRONLY),
        };
        self.open(&mut place.lock(), access | OFlags::DIRECT, slots)
    }

    /// The descriptor for direct I/O if it is open already; see [`Object::read_fd_if_open`].
    pub(crate) fn direct_fd_if_open(&self, io: Io) -> Option<Arc<OwnedFd>> {
        let place = match io {
            Io::Read => &self.direct_read,
            Io::Write => &self.direct_write,
        };
        place.try_lock()?.as_ref().map(|open| Arc::clone(&open.fd))
    }

    /// The descriptor in `place`, opened if there is none.
    pub(super) fn open(
        &self,
        place: &mut Option<Open>,
        access: OFlags,
        slots: &FdBudget,
    ) -> Result<Arc<OwnedFd>> {
        if let Some(open) = &*place {
            return Ok(Arc::clone(&open.fd));
        }
        let kind_flags = match self.kind {
            FileKind::Regular => OFlags::empty(),
            FileKind::Directory => OFlags::DIRECTORY,
            // Opening a device or a FIFO has effects of its own; NFS never does.
            FileKind::Symlink
            | FileKind::BlockDevice
            | FileKind::CharDevice
            | FileKind::Fifo
            | FileKind::Socket
            | FileKind::Unknown => return Err(Error::WrongType),
        };
        // O_NONBLOCK: a lease held by a local process answers EWOULDBLOCK instead of stalling.
        let fd = fs::reopen(self.path(), access | kind_flags | OFlags::NONBLOCK)?;
        let fd = Arc::new(fd);
        *place = Some(Open {
            fd: Arc::clone(&fd),
            _slot: slots.take(),
        });
        Ok(fd)
    }

    /// May these credentials do this? As the kernel says, remembered for as long as the ctime
    /// stays what `stat` says.
    ///
    /// # Errors
    /// The kernel's refusal: EACCES, or EROFS for a write.
    pub(crate) fn check(&self, creds: &Creds, access: Access, stat: &Stat) -> Result<()> {
        if let Some(answer) = self.permits.lock().recall(creds, access, stat) {
            return answer;
        }
        let answer = {
            let _identity = Guard::enter(creds)?;
            fs::access(self.path(), access.kernel())
        };
        match answer {
            Ok(()) => self.permits.lock().remember(creds, access, stat, true),
            Err(Errno::ACCESS) => self.permits.lock().remember(creds, access, stat, false),
            Err(_) => {}
        }
        Ok(answer?)
    }

    /// Like [`Object::check`] for reading and writing a regular file. Where the actor asks for that, the owner is let
    /// through whatever the mode says. A READ is also granted to who may execute the file, since executing it is
    /// reading it.
    ///
    /// # Errors
    /// As [`Object::check`].
    pub(crate) fn check_io(&self, actor: &Actor, access: Access, stat: &Stat) -> Result<()> {
        let creds = &actor.creds;
        let goes_on = actor.owner_goes_on && creds.uid().0 == stat.uid;
        if goes_on || self.server_may(creds) {
            return Ok(());
        }
        match self.check(creds, access, stat) {
            Err(Error::Errno(Errno::ACCESS)) if access == Access::READ => {
                self.check(creds, Access::EXECUTE, stat)
            }
            answer => answer,
        }
    }

    /// What the kernel refuses when a file is opened for writing, whoever asks, and not when it is written
    /// through a descriptor that is open already, as the server's is: a file that was made append-only or
    /// immutable since. The kernel's NFS server, which opens for each call, refuses both for every offset.
    ///
    /// # Errors
    /// EPERM.
    pub(crate) fn check_sealed(stat: &Stat) -> Result<()> {
        if stat.append_only || stat.immutable {
            return Err(Error::Errno(Errno::PERM));
        }
        Ok(())
    }

    /// True for the server's own identity where no mode binds it: asking the kernel would say yes
    /// (a read-only file system says no when the file is opened).
    fn server_may(&self, creds: &Creds) -> bool {
        self.mount.local && creds == ServerIdentity::current().creds() && *OVERRIDES
    }

    /// May the server open the file for writing once more? It may have been let by the call that made
    /// the file, whose mode forbids it from then on.
    pub(super) fn may_be_opened_again(&self) -> bool {
        *OVERRIDES || fs::access(self.path(), Access::WRITE.kernel()).is_ok()
    }

    /// Lets go of descriptors that nobody uses and that are only there to be found open.
    pub(crate) fn close_spare(&self) {
        for place in [&self.read, &self.direct_read] {
            let spare = place
                .try_lock()
                .and_then(|mut open| open.take_if(|open| open.is_unused()));
            // Closed outside the lock.
            drop(spare);
        }
    }

    /// The name by which it was last found, if that was worth remembering.
    pub(crate) fn name(&self) -> Option<Arc<[u8]>> {
        self.name.lock().clone()
    }

    /// It was found as `name` in a tree whose rules ask for names.
    pub(super) fn remember_name(&self, name: &[u8]) {
        let mut place = self.name.lock();
        if place.as_deref() != Some(name) && name.len() <= limits::NAME_BYTES_MAX {
            *place = Some(Arc::from(name));
        }
    }

    /// The same from a worse source.
    pub(super) fn remember_name_if_none(&self, name: &[u8]) {
        if self.name.lock().is_none() {
            self.remember_name(name);
        }
    }

    /// Starts a change by `client`; the ticket tells at its end whether the attributes from
    /// before may be told to that client.
    pub(crate) fn begin_change(self: &Arc<Self>, client: Author) -> Change {
        self.changes.lock().begin(client);
        Change {
            object: Arc::clone(self),
        }
    }

    /// Is it time to look whether this directory is still in its export? Says so to one caller, who is to
    /// look.
    pub(super) fn place_is_due(&self, now: Instant) -> bool {
        let most = Duration::from_secs(limits::DIRECTORY_PLACE_SECONDS_MAX);
        let mut seen = self.place_seen.lock();
        let due = seen.is_none_or(|seen| now.saturating_duration_since(seen) >= most);
        if due {
            *seen = Some(now);
        }
        due
    }

    /// What keeps writes through the page cache and past it apart.
    pub(super) fn gate(&self, gates: &Gates) -> &Arc<Gate> {
        self.gate.get_or_init(|| gates.of((self.dev, self.ino)))
    }

    /// Waits until no other COMMIT of this file runs.
    pub(super) async fn sync_turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.sync_turn.lock().await
    }

    /// The same without waiting: `None` while a COMMIT runs.
    pub(super) fn try_sync_turn(&self) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        self.sync_turn.try_lock().ok()
    }

    pub(crate) fn touch(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }
}

/// The server may read and write any file, whatever its mode.
static OVERRIDES: LazyLock<bool> = LazyLock::new(|| caps::has(Capability::DacOverride));

/// Changes of one object that overlap. wcc_data says to a client: between these two sets of
/// attributes lies your change and nothing else. When another client's change overlapped, that is
/// not so, and the attributes from before are left out.
///
/// One client's own changes overlap whenever it has several WRITEs on their way. It then goes by the
/// replies: the attributes from before have to be those that it was told last, or it takes what it
/// wrote itself for somebody else's and throws its cache away. So the replies of a run of overlapping
/// changes are chained, in the order in which they are made.
#[derive(Default)]
struct Changes {
    running: u32,
    /// Whose changes run, while any do.
    client: Option<Author>,
    mixed: bool,
    /// What was told last in this run; at its start, the attributes from before it.
    told: Option<Stat>,
}

impl Changes {
    fn begin(&mut self, client: Author) {
        if self.running == 0 {
            self.client = Some(client);
            self.mixed = false;
            self.told = None;
        } else if self.client != Some(client) {
            self.mixed = true;
        }
        self.running += 1;
    }

    /// The attributes before and after for a reply that is made now, of a change that found `after`.
    fn chain(&mut self, before: Stat, after: Stat) -> (Option<Stat>, Stat) {
        if self.mixed {
            return (None, after);
        }
        let told = self.told.unwrap_or(before);
        // Who was faster had looked later: what it saw has this change in it.
        let after = if after.ctime < told.ctime {
            told
        } else {
            after
        };
        self.told = Some(after);
        (Some(told), after)
    }

    fn end(&mut self) {
        self.running -= 1;
    }
}

/// A change that is going on; ends when dropped.
pub(crate) struct Change {
    object: Arc<Object>,
}

impl Change {
    /// True while only one client's changes overlapped this one.
    pub(crate) fn is_unmixed(&self) -> bool {
        !self.object.changes.lock().mixed
    }

    /// Notes the attributes from before the change. To be called before anything is changed.
    pub(super) fn found(&self, before: &Stat) {
        self.object.changes.lock().told.get_or_insert(*before);
    }

    /// The attributes for the reply, which is to be sent next: `before` as found, `after` as they are now.
    pub(super) fn wcc(&self, before: Stat, after: Option<Attributes>) -> Wcc {
        let Some(mut after) = after else {
            return Wcc::default();
        };
        let (before, stat) = self.object.changes.lock().chain(before, after.stat);
        after.stat = stat;
        Wcc {
            before,
            after: Some(after),
        }
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        self.object.changes.lock().end();
    }
}

/// Permission checks that were made, valid for one ctime.
#[derive(Default)]
struct Permits {
    ctime: Timestamp,
    entries: Vec<Permit>,
    next: usize,
}

struct Permit {
    creds: Creds,
    granted: Access,
    refused: Access,
}

impl Permits {
    fn recall(&self, creds: &Creds, access: Access, stat: &Stat) -> Option<Result<()>> {
        if self.ctime != stat.ctime {
            return None;
        }
        let permit = self.entries.iter().find(|permit| permit.creds == *creds)?;
        if permit.granted.contains(access) {
            Some(Ok(()))
        } else if access.each().any(|one| permit.refused.contains(one)) {
            Some(Err(Error::Errno(Errno::ACCESS)))
        } else {
            None
        }
    }

    fn remember(&mut self, creds: &Creds, access: Access, stat: &Stat, granted: bool) {
        // A change within the same tick of the kernel's clock would not move the ctime.
        if !is_settled(stat.ctime) {
            return;
        }
        if self.ctime != stat.ctime {
            self.ctime = stat.ctime;
            self.entries.clear();
        }
        let index = self
            .entries
            .iter()
            .position(|permit| permit.creds == *creds);
        let index = index.unwrap_or_else(|| self.place(creds));
        let permit = &mut self.entries[index];
        if granted {
            permit.granted |= access;
        } else if access.each().count() == 1 {
            permit.refused |= access;
        }
    }

    fn place(&mut self, creds: &Creds) -> usize {
        let permit = Permit {
            creds: creds.clone(),
            granted: Access::NONE,
            refused: Access::NONE,
        };
        if self.entries.len() < limits::PERMITS_PER_OBJECT_MAX {
            self.entries.push(permit);
            return self.entries.len() - 1;
        }
        self.next = (self.next + 1) % self.entries.len();
        self.entries[self.next] = permit;
        self.next
    }
}

/// Is this time further back than the coarsest clock tick of a file system?
fn is_settled(time: Timestamp) -> bool {
    // Some file systems keep whole seconds (ext4 with small inodes), FAT every other one.
    let tick_ns: i128 = if time.nsec == 0 {
        2_000_000_000
    } else {
        20_000_000
    };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let time_ns = i128::from(time.sec) * 1_000_000_000 + i128::from(time.nsec);
    i128::try_from(now.as_nanos()).unwrap_or(0) - time_ns > tick_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u64) -> Author {
        Author(number)
    }

    /// Attributes that differ in their ctime.
    fn stats() -> impl Fn(i64) -> Stat {
        let file = tempfile::tempfile().unwrap();
        let stat = fs::statx(file.as_fd()).unwrap();
        move |sec| Stat {
            ctime: Timestamp { sec, nsec: 0 },
            ..stat
        }
    }

    #[test]
    fn only_changes_of_one_client_are_unmixed() {
        let mut changes = Changes::default();
        changes.begin(client(1));
        changes.begin(client(1));
        assert!(!changes.mixed, "a client's own changes may overlap");
        changes.begin(client(2));
        assert!(changes.mixed);
        changes.end();
        changes.end();
        assert!(
            changes.mixed,
            "the one still running overlapped the other's"
        );
        changes.end();
        changes.begin(client(2));
        assert!(!changes.mixed, "nothing of before runs any more");
    }

    #[test]
    fn replies_to_changes_that_overlap_are_chained() {
        let at = stats();
        let mut changes = Changes::default();
        changes.begin(client(1));
        changes.begin(client(1));
        changes.told = Some(at(0));
        // Both had looked before either wrote; the second to be answered had looked first.
        assert_eq!(changes.chain(at(0), at(2)), (Some(at(0)), at(2)));
        changes.end();
        assert_eq!(changes.chain(at(0), at(1)), (Some(at(2)), at(2)));
        changes.end();
        // Somebody else, in between.
        changes.begin(client(1));
        assert_eq!(changes.chain(at(5), at(6)), (Some(at(5)), at(6)));
        changes.begin(client(2));
        assert_eq!(changes.chain(at(6), at(7)), (None, at(7)));
    }

    /// What wcc_data can and cannot tell of a program of the server's host beside one client's changes that
    /// overlap. docs/client.md says so too.
    #[test]
    fn a_local_writer_shows_between_runs_and_in_what_comes_after_them() {
        let at = stats();
        let mut changes = Changes::default();
        // Two WRITEs overlap, at 1 and 3; at 2, the program writes.
        changes.begin(client(1));
        changes.begin(client(1));
        changes.told.get_or_insert(at(0));
        assert_eq!(changes.chain(at(0), at(1)), (Some(at(0)), at(1)));
        changes.end();
        // Hidden: the second found 0 before itself, its reply tells 1, what is after it holds the change of 2.
        assert_eq!(changes.chain(at(0), at(3)), (Some(at(1)), at(3)));
        changes.end();
        // At 4 the program writes again, and nothing of the client's is going on: a client that knows 3 is
        // told 4, and sees that somebody else was there.
        changes.begin(client(1));
        changes.told.get_or_insert(at(4));
        assert_eq!(changes.chain(at(4), at(5)), (Some(at(4)), at(5)));
        // At 6, after the last reply of a run that goes on: what a client asks for next is later than 5.
        changes.begin(client(1));
        assert_eq!(changes.chain(at(4), at(7)), (Some(at(5)), at(7)));
    }
}
