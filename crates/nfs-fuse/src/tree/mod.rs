//! The operations of the file system on a client: what a request of the kernel becomes.

mod directories;
mod files;
mod names;
mod objects;
mod silly;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use fuser::{Errno, FileAttr, Notifier};
use nfs_client::Node;
use nfs_client::nfs3::{Fattr3, FileHandle};
use nfs_client::{Client, ClientError, File};
use parking_lot::Mutex;

pub(crate) use self::directories::Listed;
use self::directories::OpenDirectory;
use self::files::OpenFile;
pub(crate) use self::files::Wrote;
pub(crate) use self::names::Special;
use self::silly::Silly;
use crate::attributes::{self, Version};
use crate::callers::{Caller, Callers};
use crate::errno;
use crate::inodes::Inodes;
use crate::limits::{INODES_MAX, LOST_MAX, OPEN_MAX};
use crate::options::Options;
use crate::writers::Writers;

/// What an operation gives to the kernel: its result, or an error number.
pub(crate) type Answer<T> = Result<T, Errno>;

/// The file system: the objects that the kernel knows, and what is done to them.
#[derive(Debug)]
pub(crate) struct Tree {
    callers: Callers,
    options: Options,
    inodes: Mutex<Inodes<Kept>>,
    files: Mutex<HashMap<u64, Arc<OpenFile>>>,
    directories: Mutex<HashMap<u64, Arc<OpenDirectory>>>,
    next_open: AtomicU64,
    /// Files of which something was lost when nobody could be told any more, at most [`LOST_MAX`].
    lost: Mutex<Vec<(u64, ClientError)>>,
    /// Tells the kernel what to forget, once the session is there.
    notifier: OnceLock<Notifier>,
}

/// What is kept beside each object.
#[derive(Debug, Default)]
struct Kept {
    /// One of the opens of a file that is open: what it says of the attributes holds for all.
    data: Option<File>,
    /// What the kernel was told last.
    told: Option<Version>,
    /// What the kernel's pages hold, if they hold the server's.
    pages: Option<Version>,
    /// The file has no name but one that this mount gave it, to be removed when it is closed.
    silly: Option<Silly>,
    /// Who waits at a close for what was written.
    writers: Writers,
}

impl Tree {
    /// The file system below `root`.
    pub(crate) fn new(client: Client, root: &Node, options: Options) -> Self {
        let inodes = Inodes::new(root.handle, root.attributes.fsid, INODES_MAX);
        Self {
            callers: Callers::new(client, options.each_caller),
            options,
            inodes: Mutex::new(inodes),
            files: Mutex::default(),
            directories: Mutex::default(),
            next_open: AtomicU64::new(1),
            lost: Mutex::default(),
            notifier: OnceLock::new(),
        }
    }

    /// From now on the kernel can be told what to forget.
    pub(crate) fn set_notifier(&self, notifier: Notifier) {
        let _ = self.notifier.set(notifier);
    }

    /// How this file system is mounted.
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    fn client(&self, caller: Caller) -> Client {
        self.callers.client(caller)
    }

    fn handle(&self, number: u64) -> Answer<FileHandle> {
        // The kernel asks about what it was told of; anything else is long gone.
        self.inodes.lock().handle(number).ok_or(Errno::ESTALE)
    }

    /// The kernel is told of `node` once more.
    fn told_of(&self, node: &Node) -> Answer<(u64, FileAttr)> {
        let number = self
            .inodes
            .lock()
            .look_up(&node.handle, &node.attributes)
            .map_err(|_| Errno::ENOMEM)?;
        Ok((number, self.attributes_of(number, &node.attributes)))
    }

    /// Attributes for the kernel, which knows them from now on.
    fn attributes_of(&self, number: u64, attributes: &Fattr3) -> FileAttr {
        let mut shown = *attributes;
        if let Some(kept) = self.inodes.lock().beside(number) {
            kept.told = Some(Version::of(attributes));
            if kept.silly.is_some() {
                // The name that is left is nobody's.
                shown.nlink = shown.nlink.saturating_sub(1);
            }
        }
        attributes::file_attr(number, &shown, self.options.block_bytes())
    }

    /// The kernel has forgotten the object `lookups` times.
    pub(crate) fn forget(&self, number: u64, lookups: u64) {
        self.inodes.lock().forget(number, lookups);
    }

    /// A number for something open, if there is room for one more.
    fn open_number<T>(&self, open: &Mutex<HashMap<u64, Arc<T>>>, what: T) -> Answer<u64> {
        let number = self.next_open.fetch_add(1, Ordering::Relaxed);
        let mut open = open.lock();
        if open.len() >= OPEN_MAX {
            return Err(Errno::ENFILE);
        }
        open.insert(number, Arc::new(what));
        Ok(number)
    }

    /// One of the file's opens, if it is open.
    fn data(&self, number: u64) -> Option<File> {
        self.inodes.lock().beside(number)?.data.clone()
    }

    /// Something of the file `number` was lost, and no program was told.
    fn lost(&self, number: u64, error: ClientError) {
        let mut lost = self.lost.lock();
        if lost.len() < LOST_MAX {
            lost.push((number, error));
        }
    }

    /// Ends everything that is still open: the kernel asks for nothing any more. What was lost since
    /// the beginning without a program being told is told, too.
    pub(crate) async fn end(&self) -> Vec<(u64, ClientError)> {
        let mut failed = self.sync_all().await;
        failed.append(&mut self.lost.lock());
        let silly: Vec<Silly> = self
            .inodes
            .lock()
            .all_open()
            .filter_map(|(_, kept)| {
                kept.data = None;
                kept.silly.take()
            })
            .collect();
        self.files.lock().clear();
        for name in silly {
            name.remove().await;
        }
        failed
    }
}

/// Turns a client's error into a program's, and notes it where somebody looks for it.
fn refuse(error: &ClientError) -> Errno {
    let number = errno::of(error);
    tracing::debug!(%error, errno = number.code(), "refused");
    number
}
