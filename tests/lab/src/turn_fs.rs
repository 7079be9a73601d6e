//! A file system served by this process (FUSE) with one file, on which the WRITEs of given bytes wait until
//! they are let go, one by one. Others pass them.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr,
    ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, SessionACL, WriteFlags,
};
use tokio::sync::Notify;

/// Name of the one file, in the root directory.
pub const FILE: &str = "file";
/// Size of the one file in bytes.
pub const SIZE: u64 = 2 << 20;
/// How long the kernel may remember names and attributes.
const TTL: Duration = Duration::from_secs(3600);
/// How long the first write may take to come.
const WRITE_DEADLINE: Duration = Duration::from_secs(20);
const INODE: INodeNo = INodeNo(2);

/// The mounted file system. On drop its writes are let go and it is unmounted.
pub struct TurnFs {
    gate: Arc<Gate>,
    session: Option<BackgroundSession>,
}

struct Gate {
    state: Mutex<State>,
    /// Wakes whoever waits for a held write to come.
    waits: Notify,
}

struct State {
    content: Vec<u8>,
    /// The bytes whose writes wait, if any do.
    held: Option<Vec<u8>>,
    waiting: Vec<Waiting>,
}

struct Waiting {
    offset: usize,
    data: Vec<u8>,
    reply: ReplyWrite,
}

impl State {
    /// Carries out a write and answers it; one beyond the end of the file fails with EFBIG.
    fn write(
        &mut self,
        Waiting {
            offset,
            data,
            reply,
        }: Waiting,
    ) {
        let end = offset.saturating_add(data.len());
        match self.content.get_mut(offset..end) {
            Some(place) => {
                place.copy_from_slice(&data);
                reply.written(data.len() as u32);
            }
            None => reply.error(Errno::EFBIG),
        }
    }
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the longest-waiting write go; false if none waits.
    fn let_one_go(&self) -> bool {
        let mut state = self.lock();
        let is_one = !state.waiting.is_empty();
        if is_one {
            let first = state.waiting.remove(0);
            state.write(first);
        }
        is_one
    }

    fn let_all_go(&self) {
        let mut state = self.lock();
        state.held = None;
        for waiting in std::mem::take(&mut state.waiting) {
            state.write(waiting);
        }
    }
}

impl TurnFs {
    /// Mounts the file system on `point`.
    ///
    /// # Errors
    /// When FUSE is not available.
    pub fn mount(point: &Path) -> Result<Self> {
        let gate = Arc::new(Gate {
            state: Mutex::new(State {
                content: vec![0; SIZE as usize],
                held: None,
                waiting: Vec::new(),
            }),
            waits: Notify::new(),
        });
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("turns".to_owned())];
        config.acl = SessionACL::All;
        let session = fuser::spawn_mount(Served(Arc::clone(&gate)), point, &config);
        let session = Some(session.context("mount a FUSE file system")?);
        Ok(Self { gate, session })
    }

    /// Writes of exactly these bytes wait from now on.
    pub fn hold(&self, data: &[u8]) {
        self.gate.lock().held = Some(data.to_vec());
    }

    /// Waits until a write waits, and lets it go.
    ///
    /// # Errors
    /// When none comes.
    pub async fn let_one_go(&self) -> Result<()> {
        while !self.gate.let_one_go() {
            tokio::time::timeout(WRITE_DEADLINE, self.gate.waits.notified())
                .await
                .context("no WRITE has reached the file system")?;
        }
        Ok(())
    }

    /// Lets all writes go, and holds none from now on.
    pub fn let_all_go(&self) {
        self.gate.let_all_go();
    }

    /// At most `len` bytes of the file, from `offset` on.
    pub fn content(&self, offset: u64, len: usize) -> Vec<u8> {
        let state = self.gate.lock();
        let found = state.content.iter().skip(offset as usize).take(len);
        found.copied().collect()
    }
}

impl Drop for TurnFs {
    fn drop(&mut self) {
        self.let_all_go();
        if let Some(session) = self.session.take()
            && let Err(error) = session.umount_and_join()
        {
            println!("     left behind: a FUSE mount ({error})");
        }
    }
}

struct Served(Arc<Gate>);

fn attributes(ino: INodeNo) -> FileAttr {
    let is_file = ino == INODE;
    FileAttr {
        ino,
        size: if is_file { SIZE } else { 0 },
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
            _ => None,
        };
        match found {
            Some(ino) => reply.entry(&TTL, &attributes(ino), Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &attributes(ino));
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
        let state = self.0.lock();
        let start = (offset.min(SIZE)) as usize;
        let end = start.saturating_add(size as usize).min(SIZE as usize);
        reply.data(state.content.get(start..end).unwrap_or_default());
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
        let mut state = self.0.lock();
        let waiting = Waiting {
            offset: offset as usize,
            data: data.to_vec(),
            reply,
        };
        if state.held.as_deref() == Some(data) {
            state.waiting.push(waiting);
            self.0.waits.notify_one();
        } else {
            state.write(waiting);
        }
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
