//! An object of an export that some client holds a handle of: its descriptors and what is
//! remembered about it while it is in the [file cache](crate::vfs::file_cache).
//!
//! An `Object` lives as long as the cache or a running call holds it; its descriptors close with
//! it. It never caches attributes: changes made on the server's own host show at once. It does
//! remember permission checks, tied to the ctime they were made at.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::{Duration, Instant};

use nfs_io::auto::Hint;
use nfs_io::caps::{self, Capability};
use nfs_io::fs::{self, Stat};
use nfs_io::identity::{Guard, ServerIdentity};
use nfs_io::{Creds, Errno};
use nfs_state::FileState;
use parking_lot::{Mutex, RwLock};

use super::advise::Advice;
use super::file_io::FileIo;
use super::permits::Permits;
use super::staging::Stages;
use super::tree::Mount;
use super::wcc::WccChain;
use super::{Access, Actor, Error, FileKind, Result};
use crate::limits;
use crate::operate::calls::{StepKind, step};
use crate::vfs::fh::Handle;
use crate::vfs::file_cache::FdSlot;
use crate::vfs::host_lock::HostLock;

/// An object of an export that some client holds a handle of, with its descriptors and what is remembered
/// about it.
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
    /// Where ends of its direct WRITEs are held.
    pub(super) stages: Arc<Stages>,
    /// What the moving of its bytes needs: descriptors, refusals, unstable data.
    pub(super) io: FileIo,
    permits: Mutex<Permits>,
    /// The changes of the object that overlap, for wcc_data.
    pub(super) wcc: WccChain,
    /// Held on a helper thread while attributes are compared with a guard and set.
    pub(super) setattr_turn: Mutex<()>,
    /// Used for a directory whose entries are in the handle table: locked for writing while a name goes, for
    /// reading while one comes, until the table knows.
    pub(super) names_turn: RwLock<()>,
    /// The name by which it was last found, where a rule of its export asks for names.
    name: Mutex<Option<Arc<[u8]>>>,
    /// Kept for a directory: when it was last seen to be in the export, since it came into the cache.
    place_seen: Mutex<Option<Instant>>,
    /// What NFSv4's clients hold of it: opens and locks.
    file_state: OnceLock<Arc<FileState>>,
    /// The lock of the host that stands for those of NFSv4's clients.
    pub(super) host_lock: HostLock,
    /// How many [`Opened`] there are of it.
    opens: AtomicU32,
    /// The object was used since the clock's hand last passed it.
    pub(crate) used: AtomicBool,
    /// How often it was found by its handle or its inode since it came into the cache.
    uses: AtomicU64,
    /// The second of the cache's clock in which it was last found.
    used_at: AtomicU32,
    /// Somebody is about to put the object on stable storage so that it may leave the cache.
    pub(crate) cleaning: AtomicBool,
}

impl Object {
    pub(crate) fn new(
        handle: Handle,
        mount: Arc<Mount>,
        path: OwnedFd,
        slot: FdSlot,
        stages: Arc<Stages>,
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
            stages,
            io: FileIo::default(),
            permits: Mutex::default(),
            wcc: WccChain::default(),
            setattr_turn: Mutex::default(),
            names_turn: RwLock::default(),
            name: Mutex::default(),
            place_seen: Mutex::default(),
            file_state: OnceLock::new(),
            host_lock: HostLock::default(),
            opens: AtomicU32::new(0),
            used: AtomicBool::new(true),
            uses: AtomicU64::new(0),
            used_at: AtomicU32::new(0),
            cleaning: AtomicBool::new(false),
        }
    }

    /// The descriptor that names the object, opened with `O_PATH`.
    pub(crate) fn path(&self) -> BorrowedFd<'_> {
        self.path.as_fd()
    }

    /// The device and number of the inode, which two exports may have in common.
    pub(super) fn inode(&self) -> (u64, u64) {
        (self.dev, self.ino)
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }

    /// The attributes as they are now. May wait for a peer on file systems that are not
    /// [local](Mount::local).
    ///
    /// # Errors
    /// [`Error::Stale`] when the last name of the object is gone and no client has it open.
    pub(crate) fn stat(&self) -> Result<Stat> {
        self.stat_by(fs::statx)
    }

    /// [`Object::stat`] without `mtime` and `ctime`: see [`fs::statx_untimed`].
    ///
    /// # Errors
    /// As [`Object::stat`].
    pub(super) fn stat_untimed(&self) -> Result<Stat> {
        self.stat_by(fs::statx_untimed)
    }

    fn stat_by(&self, statx: fn(BorrowedFd<'_>) -> nfs_io::Result<Stat>) -> Result<Stat> {
        let ask = || Ok(statx(self.path())?);
        let stat = self.stages.stat(self.inode(), ask)?;
        if stat.nlink == 0 && self.opens.load(Ordering::Relaxed) == 0 {
            Err(Error::Stale)
        } else {
            Ok(stat)
        }
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
            let _step = step(StepKind::AskKernel);
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

    /// Like [`Object::check`] for reading and writing a regular file. Who opened it for that is let through, and,
    /// where the actor asks for it, the owner, whatever the mode says. A READ is also granted to who may execute the file, since executing it is
    /// reading it.
    ///
    /// # Errors
    /// As [`Object::check`].
    pub(crate) fn check_io(&self, actor: &Actor, access: Access, stat: &Stat) -> Result<()> {
        if self.may_unasked(actor, access, stat.uid) {
            return Ok(());
        }
        let creds = &actor.creds;
        match self.check(creds, access, stat) {
            Err(Error::Errno(Errno::ACCESS)) if access == Access::READ => {
                self.check(creds, Access::EXECUTE, stat)
            }
            answer => answer,
        }
    }

    /// May the actor read or write the file of this owner without the kernel being asked?
    pub(super) fn may_unasked(&self, actor: &Actor, access: Access, owner: u32) -> bool {
        let goes_on = actor.owner_goes_on && actor.creds.uid().0 == owner;
        goes_on || actor.opened_for.contains(access) || self.server_may(&actor.creds)
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

    /// The name by which it was last found, if that was worth remembering.
    pub(crate) fn name(&self) -> Option<Arc<[u8]>> {
        self.name.lock().clone()
    }

    /// Remembers that the object was found as `name`, in a tree whose rules ask for names.
    pub(super) fn remember_name(&self, name: &[u8]) {
        let mut place = self.name.lock();
        if place.as_deref() != Some(name) && name.len() <= limits::NAME_BYTES_MAX {
            *place = Some(Arc::from(name));
        }
    }

    /// Remembers `name` where no name is known: for names from a source that a look-up by a client outdoes.
    pub(super) fn remember_name_if_none(&self, name: &[u8]) {
        if self.name.lock().is_none() {
            self.remember_name(name);
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

    /// What NFSv4's clients hold of it. It lives as long as the object, which every open keeps.
    pub(crate) fn file_state(&self) -> &Arc<FileState> {
        self.file_state.get_or_init(Arc::default)
    }

    /// Opens the object for a client: for as long as what is returned is kept, the object stays what its handle
    /// leads to, also when its last name goes.
    pub(crate) fn opened(self: &Arc<Self>) -> Opened {
        self.opens.fetch_add(1, Ordering::Relaxed);
        Opened {
            object: Arc::clone(self),
            advice: Mutex::default(),
        }
    }

    /// Whether a client has it open.
    pub(super) fn is_open(&self) -> bool {
        self.opens() > 0
    }

    /// How many times NFSv4's clients have it open.
    pub(super) fn opens(&self) -> u32 {
        self.opens.load(Ordering::Relaxed)
    }

    /// Notes that the object was found, in this second of the cache's clock.
    pub(crate) fn touch(&self, second: u32) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        self.uses.fetch_add(1, Ordering::Relaxed);
        self.used_in(second);
    }

    /// Notes that the object was used in this second of the cache's clock.
    pub(crate) fn used_in(&self, second: u32) {
        if self.used_at.load(Ordering::Relaxed) != second {
            self.used_at.store(second, Ordering::Relaxed);
        }
    }

    /// How often it was found in the cache, and the second of the cache's clock in which it was last used.
    pub(super) fn uses(&self) -> (u64, u32) {
        let second = self.used_at.load(Ordering::Relaxed);
        (self.uses.load(Ordering::Relaxed), second)
    }
}

/// An object that a client has open. It holds no descriptor of its own.
pub(crate) struct Opened {
    object: Arc<Object>,
    pub(super) advice: Mutex<Advice>,
}

impl Opened {
    pub(crate) const fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// What the client said last of the calls to come, of those at this place if there is one.
    pub(crate) fn hint(&self, at: Option<u64>) -> Hint {
        let advice = self.advice.lock();
        at.map_or(advice.whole, |at| advice.at(at))
    }

    /// Keeps what the client says of the calls to come, for as long as it has the file open.
    pub(crate) fn advise(&self, hint: Hint) {
        self.advice.lock().whole = hint;
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // Where its last name has gone meanwhile, the look at what the cache holds lets go of it.
        self.object.opens.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The server may read and write any file, whatever its mode.
pub(super) static OVERRIDES: LazyLock<bool> = LazyLock::new(|| caps::has(Capability::DacOverride));
