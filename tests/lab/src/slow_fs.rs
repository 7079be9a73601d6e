//! A file system served by this process (FUSE) with one file, whose reads wait until they are let
//! go.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr,
    ReplyData, ReplyDirectory, ReplyEntry, ReplyOpen, Request, SessionACL,
};
use tokio::sync::Notify;

use crate::pattern;

/// Size of the one file in bytes.
pub const SIZE: u64 = 1 << 20;
/// The file's content is the pattern of this tag.
pub const TAG: u64 = 77;
/// How long the kernel may remember names and attributes.
const TTL: Duration = Duration::from_secs(3600);
/// How long the first read may take to come.
const READ_DEADLINE: Duration = Duration::from_secs(20);
const FILE: INodeNo = INodeNo(2);

/// The mounted file system. On drop its reads are let go and it is unmounted.
pub struct SlowFs {
    gate: Arc<Gate>,
    session: Option<BackgroundSession>,
}

/// The place where reads wait until they are let go.
#[derive(Default)]
struct Gate {
    state: Mutex<State>,
    /// Wakes whoever waits for a read to come.
    waits: Notify,
}

#[derive(Default)]
struct State {
    open: bool,
    waiting: Vec<(u64, u32, ReplyData)>,
}

impl Gate {
    fn read(&self, offset: u64, size: u32, reply: ReplyData) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.open {
            drop(state);
            answer(offset, size, reply);
        } else {
            state.waiting.push((offset, size, reply));
            drop(state);
            self.waits.notify_one();
        }
    }

    fn release(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.open = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        for (offset, size, reply) in waiting {
            answer(offset, size, reply);
        }
    }
}

fn answer(offset: u64, size: u32, reply: ReplyData) {
    let len = u64::from(size).min(SIZE.saturating_sub(offset));
    reply.data(&pattern::bytes(TAG, offset, len as usize));
}

impl SlowFs {
    /// Mounts the file system on `point`.
    ///
    /// # Errors
    /// When FUSE is not available.
    pub fn mount(point: &Path) -> Result<Self> {
        let gate = Arc::new(Gate::default());
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("slow".to_owned()), MountOption::RO];
        config.acl = SessionACL::All;
        let session = fuser::spawn_mount(Served(Arc::clone(&gate)), point, &config);
        let session = Some(session.context("mount a FUSE file system")?);
        Ok(Self { gate, session })
    }

    /// Waits until a read waits.
    ///
    /// # Errors
    /// When none comes.
    pub async fn wait_for_a_read(&self) -> Result<()> {
        tokio::time::timeout(READ_DEADLINE, self.gate.waits.notified())
            .await
            .context("no READ has reached the stalled file system")
    }

    /// Lets all reads go, and those that are still to come.
    pub fn release(&self) {
        self.gate.release();
    }
}

impl Drop for SlowFs {
    fn drop(&mut self) {
        self.release();
        if let Some(session) = self.session.take()
            && let Err(error) = session.umount_and_join()
        {
            println!("     left behind: a FUSE mount ({error})");
        }
    }
}

struct Served(Arc<Gate>);

fn attributes(ino: INodeNo) -> FileAttr {
    let is_file = ino == FILE;
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
            Some("file") => Some(FILE),
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
        // Past the page cache: each read comes here.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
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
        self.0.read(offset, size, reply);
    }

    fn readdir(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let entries = [
            (INodeNo::ROOT, FileType::Directory, "."),
            (INodeNo::ROOT, FileType::Directory, ".."),
            (FILE, FileType::RegularFile, "file"),
        ];
        for (next, (ino, kind, name)) in (1..).zip(entries).skip(offset as usize) {
            if reply.add(ino, next, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
