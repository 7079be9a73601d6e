//! A file system served by this process (FUSE) with one file, on which reads, listings, or the writes of
//! given bytes wait until the test lets them go. Empty files can be made beside it, at once.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request,
    SessionACL, WriteFlags,
};
use rustix::mount::UnmountFlags;
use tokio::sync::Notify;

/// Name of the one file, in the root directory.
pub const FILE: &str = "file";
/// How long the kernel may remember names and attributes.
const TTL: Duration = Duration::from_secs(3600);
/// How long the first request that is to wait may take to come.
const REQUEST_DEADLINE: Duration = Duration::from_secs(20);
const INODE: INodeNo = INodeNo(2);
/// The first file that is made.
const MADE_INODE: u64 = 3;

/// The mounted file system. On drop all that waits is let go, and it is unmounted.
pub struct HeldFs {
    gate: Arc<Gate>,
    point: PathBuf,
    session: Option<BackgroundSession>,
}

struct Gate {
    /// Size of the file in bytes; it never changes.
    size: u64,
    state: Mutex<State>,
    /// Wakes whoever waits for a held request to come.
    came: Notify,
}

struct State {
    content: Vec<u8>,
    held: Held,
    waiting: Vec<Waiting>,
    /// How many requests of a kind that may be held have come.
    came: usize,
    /// The names of the files that were made, in the order of their inode numbers.
    made: Vec<OsString>,
}

/// Which requests wait.
enum Held {
    Nothing,
    Reads,
    Listings,
    /// Writes of exactly these bytes.
    WritesOf(Vec<u8>),
}

/// A request that has come, with the way to answer it.
enum Waiting {
    Read {
        offset: u64,
        size: u32,
        reply: ReplyData,
    },
    Write {
        offset: u64,
        data: Vec<u8>,
        reply: ReplyWrite,
    },
    Listing {
        offset: u64,
        reply: ReplyDirectory,
    },
}

impl State {
    fn holds(&self, request: &Waiting) -> bool {
        match (&self.held, request) {
            (Held::Reads, Waiting::Read { .. }) | (Held::Listings, Waiting::Listing { .. }) => true,
            (Held::WritesOf(held), Waiting::Write { data, .. }) => held == data,
            (Held::Nothing | Held::Reads | Held::Listings | Held::WritesOf(_), _) => false,
        }
    }

    /// Carries out a request and answers it; a write beyond the end of the file fails with EFBIG.
    fn answer(&mut self, request: Waiting) {
        match request {
            Waiting::Read {
                offset,
                size,
                reply,
            } => {
                let len = self.content.len();
                let start = (offset as usize).min(len);
                let end = start.saturating_add(size as usize).min(len);
                reply.data(self.content.get(start..end).unwrap_or_default());
            }
            Waiting::Write {
                offset,
                data,
                reply,
            } => {
                let start = offset as usize;
                let place = self
                    .content
                    .get_mut(start..start.saturating_add(data.len()));
                match place {
                    Some(place) => {
                        place.copy_from_slice(&data);
                        reply.written(data.len() as u32);
                    }
                    None => reply.error(Errno::EFBIG),
                }
            }
            Waiting::Listing { offset, reply } => list(offset, reply),
        }
    }
}

/// Answers with the entries of the one directory behind `offset`, those that were made not among them.
fn list(offset: u64, mut reply: ReplyDirectory) {
    let entries = [
        (INodeNo::ROOT, FileType::Directory, "."),
        (INodeNo::ROOT, FileType::Directory, ".."),
        (INODE, FileType::RegularFile, FILE),
    ];
    for (next, (ino, kind, name)) in (1..).zip(entries).skip(offset as usize) {
        if reply.add(ino, next, kind, name) {
            break;
        }
    }
    reply.ok();
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, request: Waiting) {
        let mut state = self.lock();
        state.came += 1;
        if state.holds(&request) {
            state.waiting.push(request);
            drop(state);
            self.came.notify_one();
        } else {
            state.answer(request);
        }
    }

    /// Lets the longest-waiting request go; false if none waits.
    fn let_one_go(&self) -> bool {
        let mut state = self.lock();
        let is_one = !state.waiting.is_empty();
        if is_one {
            let first = state.waiting.remove(0);
            state.answer(first);
        }
        is_one
    }

    fn made(&self, name: &OsStr) -> Option<INodeNo> {
        let state = self.lock();
        let at = state.made.iter().position(|made| made == name)?;
        Some(INodeNo(MADE_INODE + at as u64))
    }

    fn attributes(&self, ino: INodeNo) -> FileAttr {
        let is_file = ino != INodeNo::ROOT;
        FileAttr {
            ino,
            size: if ino == INODE { self.size } else { 0 },
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_file {
                FileType::RegularFile
            } else {
                FileType::Directory
            },
            perm: if is_file { 0o644 } else { 0o755 },
            nlink: if is_file { 1 } else { 2 },
            uid: 0,
            gid: 0,
            rdev: 0,
            flags: 0,
            blksize: 4096,
        }
    }
}

impl HeldFs {
    /// Mounts the file system on `point`, its file with this content. Nothing waits yet.
    ///
    /// # Errors
    /// When FUSE is not available.
    pub fn mount(point: &Path, content: Vec<u8>) -> Result<Self> {
        let gate = Arc::new(Gate {
            size: content.len() as u64,
            state: Mutex::new(State {
                content,
                held: Held::Nothing,
                waiting: Vec::new(),
                came: 0,
                made: Vec::new(),
            }),
            came: Notify::new(),
        });
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("held".to_owned())];
        config.acl = SessionACL::All;
        let session = fuser::spawn_mount(Served(Arc::clone(&gate)), point, &config);
        let session = Some(session.context("mount a FUSE file system")?);
        let point = point.to_owned();
        Ok(Self {
            gate,
            point,
            session,
        })
    }

    /// All reads wait from now on.
    pub fn hold_reads(&self) {
        self.gate.lock().held = Held::Reads;
    }

    /// All listings of the directory wait from now on.
    pub fn hold_listings(&self) {
        self.gate.lock().held = Held::Listings;
    }

    /// Writes of exactly these bytes wait from now on; others pass them.
    pub fn hold_writes_of(&self, data: &[u8]) {
        self.gate.lock().held = Held::WritesOf(data.to_vec());
    }

    /// Waits until a request waits.
    ///
    /// # Errors
    /// When none comes.
    pub async fn wait_for_one(&self) -> Result<()> {
        self.wait_for(1).await
    }

    /// Waits until so many requests wait.
    ///
    /// # Errors
    /// When fewer come.
    pub async fn wait_for(&self, count: usize) -> Result<()> {
        while self.gate.lock().waiting.len() < count {
            tokio::time::timeout(REQUEST_DEADLINE, self.gate.came.notified())
                .await
                .context("no request that is to wait has reached the file system")?;
        }
        Ok(())
    }

    /// Waits until a read that begins at this offset waits.
    ///
    /// # Errors
    /// When none comes.
    pub async fn wait_for_read_at(&self, offset: u64) -> Result<()> {
        let is_it =
            |one: &Waiting| matches!(one, Waiting::Read { offset: at, .. } if *at == offset);
        while !self.gate.lock().waiting.iter().any(is_it) {
            tokio::time::timeout(REQUEST_DEADLINE, self.gate.came.notified())
                .await
                .with_context(|| format!("no read at {offset} has reached the file system"))?;
        }
        Ok(())
    }

    /// Waits until a request waits, and lets it go.
    ///
    /// # Errors
    /// When none comes.
    pub async fn let_one_go(&self) -> Result<()> {
        while !self.gate.let_one_go() {
            self.wait_for_one().await?;
        }
        Ok(())
    }

    /// Lets everything go, and holds nothing from now on.
    pub fn let_all_go(&self) {
        let mut state = self.gate.lock();
        state.held = Held::Nothing;
        for waiting in std::mem::take(&mut state.waiting) {
            state.answer(waiting);
        }
    }

    /// How many reads, writes and listings have come so far, those that were answered at once among them.
    #[must_use]
    pub fn came(&self) -> usize {
        self.gate.lock().came
    }

    /// At most `len` bytes of the file, from `offset` on.
    #[must_use]
    pub fn content(&self, offset: u64, len: usize) -> Vec<u8> {
        let state = self.gate.lock();
        let found = state.content.iter().skip(offset as usize).take(len);
        found.copied().collect()
    }
}

impl Drop for HeldFs {
    fn drop(&mut self) {
        self.let_all_go();
        // By force: a mount namespace that was made meanwhile has a copy of the mount, and would keep it alive.
        let flags = UnmountFlags::FORCE | UnmountFlags::DETACH;
        let unmounted = rustix::mount::unmount(&self.point, flags);
        let ended = unmounted.map_err(std::io::Error::from).and_then(|()| {
            let session = self.session.take();
            session.map_or(Ok(()), BackgroundSession::join)
        });
        if let Err(error) = ended {
            println!("     left behind: a FUSE mount ({error})");
        }
    }
}

struct Served(Arc<Gate>);

impl Filesystem for Served {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // Handles of its files stay good when the kernel has forgotten them; if the kernel does
        // not offer this, they are good as long as it remembers.
        let _not_offered = config.add_capabilities(InitFlags::FUSE_EXPORT_SUPPORT);
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        // With export support the kernel looks up "." of an inode and ".." of a directory.
        let found = match name.to_str() {
            Some(FILE) => Some(INODE),
            Some(".") => Some(parent),
            Some("..") => Some(INodeNo::ROOT),
            _ => self.0.made(name),
        };
        match found {
            Some(ino) => reply.entry(&TTL, &self.0.attributes(ino), Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &self.0.attributes(ino));
    }

    /// Also what the kernel asks for an open(2) that makes a file, as there is no `create`.
    fn mknod(
        &self,
        _req: &Request,
        _parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        let ino = {
            let mut state = self.0.lock();
            state.made.push(name.to_owned());
            INodeNo(MADE_INODE + state.made.len() as u64 - 1)
        };
        reply.entry(&TTL, &self.0.attributes(ino), Generation(0));
    }

    fn create(
        &self,
        _req: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        reply.error(Errno::ENOSYS);
    }

    fn open(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        // Past the page cache, and one write beside another: each comes here at once.
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.0.take(Waiting::Read {
            offset,
            size,
            reply,
        });
    }

    fn write(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.0.take(Waiting::Write {
            offset,
            data: data.to_vec(),
            reply,
        });
    }

    fn readdir(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        self.0.take(Waiting::Listing { offset, reply });
    }

    fn fsync(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn flush(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }
}
