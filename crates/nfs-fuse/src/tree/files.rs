//! Open files: what is read and written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use fuser::{Errno, FileAttr, FopenFlags, LockOwner, OpenAccMode, OpenFlags};
use nfs_client::Node;
use nfs_client::nfs3::{
    ACCESS3_EXECUTE, ACCESS3_EXTEND, ACCESS3_MODIFY, ACCESS3_READ, CreateHow, Fattr3, FileHandle,
    Ftype3, Nfsstat3,
};
use nfs_client::{Client, ClientError, File};
use rustix::fs::OFlags;
use tokio::task::JoinSet;

use super::names::with_mode;
use super::{Answer, Tree, refuse};
use crate::attributes::Version;
use crate::callers::Caller;
use crate::writers::{Writer, Writers};

/// What the kernel opens a program with that it is about to run (`__FMODE_EXEC`).
const OPEN_TO_RUN: i32 = 0x20;

/// A file that is open once.
#[derive(Debug)]
pub(super) struct OpenFile {
    number: u64,
    writable: bool,
    /// Told of the errors of what was written through it.
    file: File,
    /// A program has been told that what was written is not safe.
    told: AtomicBool,
}

/// What the kernel is told of a file that was opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened {
    pub(crate) open: u64,
    pub(crate) flags: FopenFlags,
}

/// Where the data of a write request goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wrote {
    pub(crate) offset: u64,
    /// To the end of the file, wherever that is.
    pub(crate) append: bool,
    /// The program goes on when the data is on stable storage.
    pub(crate) sync: bool,
    /// Who writes, if the kernel says so: it does for what passes its pages by.
    owner: Option<LockOwner>,
}

impl Wrote {
    /// Where a WRITE of the kernel goes. `pages` says that it writes back a mapping, which knows the
    /// place of each byte.
    pub(crate) fn new(
        offset: u64,
        flags: OpenFlags,
        pages: bool,
        owner: Option<LockOwner>,
    ) -> Self {
        let flags = oflags(flags.0);
        Self {
            offset,
            owner: owner.filter(|_| !pages),
            append: flags.contains(OFlags::APPEND) && !pages,
            sync: flags.intersects(OFlags::DSYNC | OFlags::SYNC),
        }
    }
}

fn oflags(flags: i32) -> OFlags {
    OFlags::from_bits_retain(flags.cast_unsigned())
}

impl Tree {
    /// Opens the regular file `number`, if the server would let the caller read and write as `flags` say.
    pub(crate) async fn open(
        &self,
        caller: Caller,
        number: u64,
        flags: OpenFlags,
    ) -> Answer<Opened> {
        let client = self.client(caller);
        let handle = self.handle(number)?;
        let mut attributes = self.may_open(&client, &handle, flags).await?;
        if oflags(flags.0).contains(OFlags::TRUNC) {
            let changes = crate::attributes::Changes {
                size: Some(0),
                ..Default::default()
            };
            self.setattr(caller, number, None, changes).await?;
            // The end is elsewhere now, and an append goes there.
            let now = client.stat_handle(&handle).await;
            attributes = now.map_err(|error| refuse(&error))?;
        }
        self.attach(client, number, Node { handle, attributes }, flags)
    }

    /// The attributes of a file, if the caller may open it with `flags` in the server's opinion.
    async fn may_open(
        &self,
        client: &Client,
        handle: &FileHandle,
        flags: OpenFlags,
    ) -> Answer<Fattr3> {
        let write = ACCESS3_MODIFY | ACCESS3_EXTEND;
        let asked = match flags.acc_mode() {
            OpenAccMode::O_RDONLY if flags.0 & OPEN_TO_RUN != 0 => ACCESS3_READ | ACCESS3_EXECUTE,
            OpenAccMode::O_RDONLY => ACCESS3_READ,
            OpenAccMode::O_WRONLY => write,
            OpenAccMode::O_RDWR => ACCESS3_READ | write,
        };
        let (granted, attributes) = self.granted(client, handle, asked).await?;
        let to_run = asked & ACCESS3_EXECUTE != 0 && granted & ACCESS3_EXECUTE != 0;
        let may_read = asked & ACCESS3_READ == 0 || granted & ACCESS3_READ != 0 || to_run;
        let may_write = asked & write == 0 || granted & write != 0;
        if !may_read || !may_write {
            return Err(Errno::EACCES);
        }
        match attributes {
            Some(attributes) => Ok(attributes),
            None => {
                let attributes = client.stat_handle(handle).await;
                attributes.map_err(|error| refuse(&error))
            }
        }
    }

    /// The file is open from now on: finds the data that all who have it open share.
    fn attach(&self, client: Client, number: u64, node: Node, flags: OpenFlags) -> Answer<Opened> {
        let writable = flags.acc_mode() != OpenAccMode::O_RDONLY;
        let name = format!("file {}", node.attributes.fileid);
        let now = Version::of(&node.attributes);
        let (stale, unchanged, file) = {
            let mut inodes = self.inodes.lock();
            let kept = inodes.beside(number).ok_or(Errno::ESTALE)?;
            let file = open(&client, node, &name)?;
            kept.data.get_or_insert_with(|| file.clone());
            let stale = kept.told.replace(now) != Some(now);
            let unchanged = kept.pages.replace(now) == Some(now);
            inodes.opened(number);
            (stale, unchanged, file)
        };
        if stale && let Some(notifier) = self.notifier.get() {
            // What the kernel remembers is older than this open.
            let _ = notifier.inval_inode(fuser::INodeNo(number), -1, 0);
        }
        let opened = OpenFile {
            number,
            writable,
            file,
            told: AtomicBool::new(false),
        };
        let open = match self.open_number(&self.files, opened) {
            Ok(open) => open,
            Err(error) => {
                self.inodes.lock().released(number, |kept| kept.data = None);
                return Err(error);
            }
        };
        let flags = self.open_flags(flags, writable, unchanged);
        Ok(Opened { open, flags })
    }

    fn open_flags(&self, flags: OpenFlags, writable: bool, unchanged: bool) -> FopenFlags {
        let mut answer = FopenFlags::empty();
        let append = oflags(flags.0).contains(OFlags::APPEND);
        if !self.options.cached {
            answer |= FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        } else if append && writable {
            // Where the end is, the client knows better than the kernel.
            answer |= FopenFlags::FOPEN_DIRECT_IO;
        } else if unchanged {
            answer |= FopenFlags::FOPEN_KEEP_CACHE;
        }
        if !writable {
            answer |= FopenFlags::FOPEN_NOFLUSH;
        }
        answer
    }

    /// Creates a regular file and opens it; opens the one that is there unless `flags` forbid it.
    pub(crate) async fn create(
        &self,
        caller: Caller,
        parent: u64,
        name: &[u8],
        mode: u32,
        flags: OpenFlags,
    ) -> Answer<(FileAttr, Opened)> {
        let dir = self.handle(parent)?;
        let client = self.client(caller);
        let exclusive = oflags(flags.0).contains(OFlags::EXCL);
        let made = if exclusive {
            client.create_new_in(&dir, name, &with_mode(mode)).await
        } else {
            let how = CreateHow::Guarded(with_mode(mode));
            client.create_in(&dir, name, &how).await
        };
        let (node, is_new) = match made {
            Ok(node) => (node, true),
            Err(error) if !exclusive && error.status() == Some(Nfsstat3::Exist) => {
                let there = client.lookup(&dir, name).await;
                (there.map_err(|error| refuse(&error))?, false)
            }
            Err(error) => return Err(refuse(&error)),
        };
        if node.attributes.ftype != Ftype3::Reg {
            // Somebody else made it since the kernel looked; it looks again.
            return Err(Errno::ESTALE);
        }
        let (number, attr) = self.told_of(&node)?;
        let opened = if is_new {
            self.attach(client, number, node, flags)
        } else {
            self.open(caller, number, flags).await
        };
        match opened {
            Ok(opened) => Ok((attr, opened)),
            Err(error) => {
                self.forget(number, 1);
                Err(error)
            }
        }
    }

    fn opened(&self, open: u64) -> Answer<Arc<OpenFile>> {
        self.files.lock().get(&open).cloned().ok_or(Errno::EBADF)
    }

    /// Reads `len` bytes from `offset`, fewer only at the end of the file.
    pub(crate) async fn read(&self, open: u64, offset: u64, len: u32) -> Answer<Bytes> {
        let opened = self.opened(open)?;
        let len = usize::try_from(len).map_err(|_| Errno::EINVAL)?;
        let read = opened.file.read_at(offset, len).await;
        Ok(read.map_err(|error| refuse(&error))?.data)
    }

    /// Writes. The data may still be on its way when this returns.
    pub(crate) async fn write(&self, open: u64, to: Wrote, data: Bytes) -> Answer<()> {
        let opened = self.opened(open)?;
        let file = &opened.file;
        let writer = to.owner.map(|owner| (open, owner));
        // A write that fails or is given up may have been accepted in part.
        self.wrote(opened.number, writer);
        let written = if to.append {
            file.append(data).await.map(drop)
        } else {
            file.write_at(to.offset, data).await
        };
        written.map_err(|error| refuse(&error))?;
        // Of what was accepted, a sync that began before knows nothing.
        self.wrote(opened.number, writer);
        if to.sync {
            self.synced(&opened).await?;
        }
        Ok(())
    }

    /// Something was written to a file, by `writer` if the kernel says so.
    fn wrote(&self, number: u64, writer: Option<Writer>) {
        if let Some(kept) = self.inodes.lock().beside(number) {
            kept.pages = None;
            kept.writers.wrote(writer);
        }
    }

    /// Brings everything that was written to a file to stable storage. A program is told the error.
    async fn synced(&self, opened: &OpenFile) -> Answer<()> {
        let last = self
            .inodes
            .lock()
            .beside(opened.number)
            .map_or(0, |kept| kept.writers.last());
        match opened.file.sync().await {
            Ok(()) => {
                if let Some(kept) = self.inodes.lock().beside(opened.number) {
                    kept.writers.safe(last);
                }
                Ok(())
            }
            Err(error) => {
                opened.told.store(true, Ordering::Relaxed);
                Err(refuse(&error))
            }
        }
    }

    /// Sets the length of what is open, bytes.
    pub(super) async fn set_len(&self, open: u64, len: u64) -> Answer<()> {
        let opened = self.opened(open)?;
        opened
            .file
            .set_len(len)
            .await
            .map_err(|error| refuse(&error))
    }

    /// Brings everything that was written to stable storage. What could not be is told, by number.
    pub(crate) async fn sync_all(&self) -> Vec<(u64, ClientError)> {
        let mut syncs = JoinSet::new();
        for opened in self.files.lock().values().filter(|opened| opened.writable) {
            let opened = Arc::clone(opened);
            syncs.spawn(async move { (opened.number, opened.file.sync().await) });
        }
        let mut failed = Vec::new();
        while let Some(synced) = syncs.join_next().await {
            if let Ok((number, Err(error))) = synced {
                failed.push((number, error));
            }
        }
        failed
    }

    /// What the kernel's pages hold is not what was found at the last open.
    pub(super) fn pages_differ(&self, number: u64) {
        if let Some(kept) = self.inodes.lock().beside(number) {
            kept.pages = None;
        }
    }

    /// A descriptor is closed: what `owner` wrote through it is for others to see, and safe. Who wrote
    /// nothing, as a child that was started with a copy of the descriptor, waits for nothing.
    pub(crate) async fn flush(&self, open: u64, owner: LockOwner) -> Answer<()> {
        let opened = self.opened(open)?;
        let waits = opened.writable
            && self
                .inodes
                .lock()
                .beside(opened.number)
                .is_none_or(|kept| kept.writers.waits_for((open, owner)));
        match waits {
            true => self.synced(&opened).await,
            false => Ok(()),
        }
    }

    /// Brings what was written to stable storage.
    pub(crate) async fn fsync(&self, open: u64) -> Answer<()> {
        let opened = self.opened(open)?;
        self.synced(&opened).await
    }

    /// The last descriptor of an open is closed.
    pub(crate) async fn release(&self, open: u64) -> Answer<()> {
        let opened = self.opened(open)?;
        // A mapping may have written after the last close, and a program that was ended has not waited.
        // It counts as open meanwhile: whoever unmounts waits.
        let synced = match opened.writable {
            true => opened.file.sync().await,
            false => Ok(()),
        };
        if self.files.lock().remove(&open).is_none() {
            return Err(Errno::EBADF);
        }
        if let Err(error) = &synced
            && !opened.told.load(Ordering::Relaxed)
        {
            self.lost(opened.number, error.clone());
        }
        let last = self.inodes.lock().released(opened.number, |kept| {
            kept.writers = Writers::default();
            (kept.data.take(), kept.silly.take())
        });
        drop(opened);
        if let Some((data, Some(silly))) = last {
            // Nothing of it is on its way when it goes.
            drop(data);
            silly.remove().await;
        }
        synced.map_err(|error| refuse(&error))
    }
}

fn open(client: &Client, node: Node, name: &str) -> Answer<File> {
    let file = client.open_node(node, name.as_bytes());
    file.map_err(|error| refuse(&error))
}
