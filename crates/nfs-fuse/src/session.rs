//! Requests of the kernel: each is handed to the runtime and answered from there, so none waits for
//! another.

use std::ffi::OsStr;
use std::future::Future;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use fuser::{
    AccessFlags, BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::attributes::{self, Changes};
use crate::callers::Caller;
use crate::endings::{Rest, unless_ended};
use crate::limits::{
    BACKGROUND_REQUESTS_MAX, IN_WORK_BYTES_MAX, REQUEST_BYTES, TRANSFER_BYTES_MAX,
};
use crate::tree::{Answer, Listed, Special, Tree, Wrote};

/// The unit of the space that `df` shows, bytes.
const SPACE_UNIT: u32 = 4096;

/// Handles are never used for another object while the kernel remembers them.
const GENERATION: Generation = Generation(0);

/// Takes the kernel's requests, and hands each to the runtime.
pub(crate) struct Session {
    tree: Arc<Tree>,
    runtime: Handle,
    /// One permit for each byte of [`IN_WORK_BYTES_MAX`].
    room: Arc<Semaphore>,
}

impl Session {
    pub(crate) fn new(tree: Arc<Tree>, runtime: Handle) -> Self {
        let room = usize::try_from(IN_WORK_BYTES_MAX).unwrap_or(Semaphore::MAX_PERMITS);
        Self {
            tree,
            runtime,
            room: Arc::new(Semaphore::new(room)),
        }
    }

    /// Works on a request that keeps so many bytes busy. The kernel's next request is taken when there
    /// is room for this one.
    fn go(&self, bytes: u32, work: impl Future<Output = ()> + Send + 'static) {
        let permits = bytes.clamp(REQUEST_BYTES, IN_WORK_BYTES_MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(permits);
        // Closed never; and this thread is none of the runtime's.
        let Ok(permit) = self.runtime.block_on(room) else {
            return;
        };
        self.runtime.spawn(async move {
            work.await;
            drop(permit);
        });
    }

    fn attr_ttl(&self) -> Duration {
        self.tree.options().attr_timeout
    }

    fn entry_ttl(&self) -> Duration {
        self.tree.options().entry_timeout
    }

    /// Works on a request that is answered with an entry.
    fn go_entry(
        &self,
        caller: Caller,
        rest: Rest,
        reply: ReplyEntry,
        work: impl Future<Output = Answer<FileAttr>> + Send + 'static,
    ) {
        let (attr, entry) = (self.attr_ttl(), self.entry_ttl());
        let tree = Arc::clone(&self.tree);
        self.go(0, async move {
            let mut work = pin!(work);
            match unless_ended(caller.pid, work.as_mut()).await {
                Some(Ok(found)) => reply.entry_with_ttls(&attr, &entry, &found, GENERATION),
                Some(Err(error)) => reply.error(error),
                None => {
                    reply.error(Errno::EINTR);
                    if rest == Rest::GoesOn
                        && let Ok(found) = work.await
                    {
                        // The kernel does not know of it.
                        tree.forget(found.ino.0, 1);
                    }
                }
            }
        });
    }

    /// Works on a request that is answered with attributes.
    fn go_attr(
        &self,
        caller: Caller,
        rest: Rest,
        reply: ReplyAttr,
        work: impl Future<Output = Answer<FileAttr>> + Send + 'static,
    ) {
        let ttl = self.attr_ttl();
        self.go(0, async move {
            let answer = |answer| match answer {
                Ok(found) => reply.attr(&ttl, &found),
                Err(error) => reply.error(error),
            };
            answer_or_rest(caller, rest, work, answer).await;
        });
    }

    /// Works on a request that is answered with success or not.
    fn go_empty(
        &self,
        caller: Caller,
        rest: Rest,
        reply: ReplyEmpty,
        work: impl Future<Output = Answer<()>> + Send + 'static,
    ) {
        self.go(0, async move {
            let answer = |answer| match answer {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(error),
            };
            answer_or_rest(caller, rest, work, answer).await;
        });
    }
}

/// Answers with what `work` brings, or with EINTR once the caller is asked to end; `rest` says what
/// becomes of `work` then.
async fn answer_or_rest<T>(
    caller: Caller,
    rest: Rest,
    work: impl Future<Output = Answer<T>>,
    answer: impl FnOnce(Answer<T>),
) {
    let mut work = pin!(work);
    match unless_ended(caller.pid, work.as_mut()).await {
        Some(done) => answer(done),
        None => {
            answer(Err(Errno::EINTR));
            if rest == Rest::GoesOn {
                let _nobody_waits = work.await;
            }
        }
    }
}

/// What `work` brings, or EINTR once the caller is asked to end; it is given up then.
async fn or_ended<T>(caller: Caller, work: impl Future<Output = Answer<T>>) -> Answer<T> {
    let done = unless_ended(caller.pid, pin!(work)).await;
    done.unwrap_or(Err(Errno::EINTR))
}

fn caller(request: &Request) -> Caller {
    Caller {
        uid: request.uid(),
        gid: request.gid(),
        pid: request.pid(),
    }
}

fn owned(name: &OsStr) -> Vec<u8> {
    name.as_bytes().to_vec()
}

impl Filesystem for Session {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // What a kernel does not have it does without.
        let _ = config.set_max_write(TRANSFER_BYTES_MAX);
        if let Err(most) = config.set_max_readahead(TRANSFER_BYTES_MAX) {
            let _ = config.set_max_readahead(most);
        }
        let _ = config.set_max_background(BACKGROUND_REQUESTS_MAX);
        let mut wanted = vec![
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
            InitFlags::FUSE_NO_EXPORT_SUPPORT,
        ];
        if self.tree.options().cached {
            wanted.push(InitFlags::FUSE_AUTO_INVAL_DATA);
        }
        for flag in wanted {
            let _ = config.add_capabilities(flag);
        }
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (tree, caller, name) = (Arc::clone(&self.tree), caller(request), owned(name));
        self.go_entry(caller, Rest::Stops, reply, async move {
            tree.lookup(caller, parent.0, &name).await
        });
    }

    fn forget(&self, _request: &Request, ino: INodeNo, lookups: u64) {
        self.tree.forget(ino.0, lookups);
    }

    fn getattr(
        &self,
        request: &Request,
        ino: INodeNo,
        _open: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        let (tree, caller) = (Arc::clone(&self.tree), caller(request));
        self.go_attr(caller, Rest::Stops, reply, async move {
            tree.getattr(caller, ino.0).await
        });
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        open: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let (tree, caller) = (Arc::clone(&self.tree), caller(request));
        let changes = Changes {
            mode,
            uid,
            gid,
            size,
            atime,
            mtime,
        };
        self.go_attr(caller, Rest::GoesOn, reply, async move {
            tree.setattr(caller, ino.0, open.map(|open| open.0), changes)
                .await
        });
    }

    fn readlink(&self, request: &Request, ino: INodeNo, reply: ReplyData) {
        let (tree, caller) = (Arc::clone(&self.tree), caller(request));
        self.go(0, async move {
            match or_ended(caller, tree.readlink(caller, ino.0)).await {
                Ok(target) => reply.data(&target),
                Err(error) => reply.error(error),
            }
        });
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let (tree, caller, name) = (Arc::clone(&self.tree), caller(request), owned(name));
        let special = Special { mode, device };
        self.go_entry(caller, Rest::GoesOn, reply, async move {
            tree.mknod(caller, parent.0, &name, special).await
        });
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let (tree, caller, name) = (Arc::clone(&self.tree), caller(request), owned(name));
        self.go_entry(caller, Rest::GoesOn, reply, async move {
            tree.mkdir(caller, parent.0, &name, mode).await
        });
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (tree, caller, name) = (Arc::clone(&self.tree), caller(request), owned(name));
        self.go_empty(caller, Rest::GoesOn, reply, async move {
            tree.unlink(caller, parent.0, &name).await
        });
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (tree, caller, name) = (Arc::clone(&self.tree), caller(request), owned(name));
        self.go_empty(caller, Rest::GoesOn, reply, async move {
            tree.rmdir(caller, parent.0, &name).await
        });
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let (tree, caller, name) = (Arc::clone(&self.tree), caller(request), owned(name));
        let target = owned(target.as_os_str());
        self.go_entry(caller, Rest::GoesOn, reply, async move {
            tree.symlink(caller, parent.0, &name, &target).await
        });
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (tree, caller) = (Arc::clone(&self.tree), caller(request));
        let (name, new_name) = (owned(name), owned(new_name));
        self.go_empty(caller, Rest::GoesOn, reply, async move {
            let (from, to) = ((parent.0, &name[..]), (new_parent.0, &new_name[..]));
            tree.rename(caller, from, to, flags).await
        });
    }

    fn link(
        &self,
        request: &Request,
        ino: INodeNo,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        let (tree, caller, name) = (Arc::clone(&self.tree), caller(request), owned(name));
        self.go_entry(caller, Rest::GoesOn, reply, async move {
            tree.link(caller, ino.0, parent.0, &name).await
        });
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let (tree, caller) = (Arc::clone(&self.tree), caller(request));
        self.go(0, async move {
            let mut work = pin!(tree.open(caller, ino.0, flags));
            match unless_ended(caller.pid, work.as_mut()).await {
                Some(Ok(opened)) => reply.opened(FileHandle(opened.open), opened.flags),
                Some(Err(error)) => reply.error(error),
                None => {
                    reply.error(Errno::EINTR);
                    // It may be a truncation as well.
                    if let Ok(opened) = work.await {
                        let _nobody_waits = tree.release(opened.open).await;
                    }
                }
            }
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (tree, caller, name) = (Arc::clone(&self.tree), caller(request), owned(name));
        // One time for both: the shorter.
        let ttl = self.attr_ttl().min(self.entry_ttl());
        self.go(0, async move {
            let mut made = pin!(tree.create(caller, parent.0, &name, mode, OpenFlags(flags)));
            match unless_ended(caller.pid, made.as_mut()).await {
                Some(Ok((attr, opened))) => {
                    let open = FileHandle(opened.open);
                    reply.created(&ttl, &attr, GENERATION, open, opened.flags);
                }
                Some(Err(error)) => reply.error(error),
                None => {
                    reply.error(Errno::EINTR);
                    if let Ok((attr, opened)) = made.await {
                        let _nobody_waits = tree.release(opened.open).await;
                        tree.forget(attr.ino.0, 1);
                    }
                }
            }
        });
    }

    fn read(
        &self,
        request: &Request,
        _ino: INodeNo,
        open: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let (tree, caller) = (Arc::clone(&self.tree), caller(request));
        self.go(size, async move {
            match or_ended(caller, tree.read(open.0, offset, size)).await {
                Ok(data) => reply.data(&data),
                Err(error) => reply.error(error),
            }
        });
    }

    fn write(
        &self,
        request: &Request,
        _ino: INodeNo,
        open: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let (tree, mut caller) = (Arc::clone(&self.tree), caller(request));
        let pages = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        if pages {
            // Of a mapping; no program waits for it.
            caller.pid = 0;
        }
        let to = Wrote::new(offset, flags, pages, lock_owner);
        // The buffer is the session's, for the next request.
        let data = Bytes::copy_from_slice(data);
        let size = u32::try_from(data.len()).unwrap_or(u32::MAX);
        self.go(size, async move {
            match or_ended(caller, tree.write(open.0, to, data)).await {
                Ok(()) => reply.written(size),
                Err(error) => reply.error(error),
            }
        });
    }

    fn flush(
        &self,
        request: &Request,
        _ino: INodeNo,
        open: FileHandle,
        lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        let (tree, caller) = (Arc::clone(&self.tree), caller(request));
        // What is on its way goes on; the release waits for it.
        self.go_empty(caller, Rest::Stops, reply, async move {
            tree.flush(open.0, lock_owner).await
        });
    }

    fn release(
        &self,
        _request: &Request,
        _ino: INodeNo,
        open: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let tree = Arc::clone(&self.tree);
        self.go(0, async move {
            match tree.release(open.0).await {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(error),
            }
        });
    }

    fn fsync(
        &self,
        request: &Request,
        _ino: INodeNo,
        open: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        let (tree, caller) = (Arc::clone(&self.tree), caller(request));
        self.go_empty(caller, Rest::Stops, reply, async move {
            tree.fsync(open.0).await
        });
    }

    fn opendir(&self, request: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let (tree, caller) = (Arc::clone(&self.tree), caller(request));
        self.go(0, async move {
            match or_ended(caller, tree.opendir(caller, ino.0)).await {
                Ok(open) => reply.opened(FileHandle(open), fuser::FopenFlags::empty()),
                Err(error) => reply.error(error),
            }
        });
    }

    fn readdir(
        &self,
        request: &Request,
        _ino: INodeNo,
        open: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let (tree, caller) = (Arc::clone(&self.tree), caller(request));
        self.go(0, async move {
            let listed = match or_ended(caller, tree.list(open.0, offset)).await {
                Ok(listed) => listed,
                Err(error) => return reply.error(error),
            };
            for entry in listed {
                let (name, kind) = (OsStr::from_bytes(&entry.name), kind(&entry));
                if reply.add(INodeNo(entry.fileid), entry.cookie, kind, name) {
                    break;
                }
            }
            reply.ok();
        });
    }

    fn readdirplus(
        &self,
        request: &Request,
        _ino: INodeNo,
        open: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let (tree, caller) = (Arc::clone(&self.tree), caller(request));
        let ttl = self.attr_ttl().min(self.entry_ttl());
        self.go(0, async move {
            let listed = match or_ended(caller, tree.list(open.0, offset)).await {
                Ok(listed) => listed,
                Err(error) => return reply.error(error),
            };
            for entry in listed {
                let name = OsStr::from_bytes(&entry.name);
                let node = entry.node.filter(|_| !entry.is_dot());
                let told = node.and_then(|node| tree.told_of_listed(&node));
                let (number, attr) = match told {
                    Some((number, attr)) => (number, attr),
                    // Number 0: the kernel learns the name and the type, and looks up the rest.
                    None => (0, bare(&entry)),
                };
                if reply.add(INodeNo(number), entry.cookie, name, &ttl, &attr, GENERATION) {
                    if number != 0 {
                        tree.forget(number, 1);
                    }
                    break;
                }
            }
            reply.ok();
        });
    }

    fn releasedir(
        &self,
        _request: &Request,
        _ino: INodeNo,
        open: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.tree.releasedir(open.0);
        reply.ok();
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _open: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        // A server answers a change of names when it is on stable storage (RFC 1813 §4.8).
        reply.ok();
    }

    fn statfs(&self, request: &Request, ino: INodeNo, reply: ReplyStatfs) {
        let (tree, caller) = (Arc::clone(&self.tree), caller(request));
        self.go(0, async move {
            match or_ended(caller, tree.statfs(caller, ino.0)).await {
                Ok((space, names)) => {
                    let units = |bytes: u64| bytes / u64::from(SPACE_UNIT);
                    reply.statfs(
                        units(space.tbytes),
                        units(space.fbytes),
                        units(space.abytes),
                        space.tfiles,
                        space.ffiles,
                        SPACE_UNIT,
                        names,
                        SPACE_UNIT,
                    );
                }
                Err(error) => reply.error(error),
            }
        });
    }

    fn access(&self, request: &Request, ino: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        let (tree, caller) = (Arc::clone(&self.tree), caller(request));
        self.go_empty(caller, Rest::Stops, reply, async move {
            tree.access(caller, ino.0, mask).await
        });
    }

    fn getxattr(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _name: &OsStr,
        _size: u32,
        reply: fuser::ReplyXattr,
    ) {
        // NFSv3 has no extended attributes; after this answer the kernel asks no more.
        reply.error(Errno::ENOSYS);
    }
}

/// The type of an entry. One whose type even a LOOKUP did not tell is taken for a file: FUSE here has
/// no word for "unknown".
fn kind(entry: &Listed) -> FileType {
    let ftype = entry.attributes.map(|attributes| attributes.ftype);
    match (ftype, entry.is_dot()) {
        (Some(ftype), _) => attributes::kind(ftype),
        (None, true) => FileType::Directory,
        (None, false) => FileType::RegularFile,
    }
}

/// What is known of an entry that the kernel does not get to know by number.
fn bare(entry: &Listed) -> FileAttr {
    FileAttr {
        ino: INodeNo(entry.fileid),
        size: 0,
        blocks: 0,
        atime: SystemTime::UNIX_EPOCH,
        mtime: SystemTime::UNIX_EPOCH,
        ctime: SystemTime::UNIX_EPOCH,
        crtime: SystemTime::UNIX_EPOCH,
        kind: kind(entry),
        perm: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        flags: 0,
        blksize: 0,
    }
}
