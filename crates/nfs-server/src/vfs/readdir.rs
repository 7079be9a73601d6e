//! READDIR and READDIRPLUS: entries in the file system's own order, with its own cookies.
//!
//! The cookie of an entry is the position after it as the file system gives it (`d_off`). File
//! systems keep those valid while entries come and go, and over a restart, so a listing that goes
//! on after a change neither repeats nor loses entries that were there all along.

use std::os::fd::AsFd;
use std::sync::Arc;

use crate::vfs::fh::Handle;
use nfs_io::fs::{self, Dirents, OFlags, ResolveFlags};
use nfs_io::{Errno, Reservation, Share};

use super::lookup::open_entry;
use super::{Access, Attributes, Error, Result};
use crate::vfs::{Target, Vfs};

/// One entry of a directory.
pub(crate) struct DirEntry {
    pub(crate) fileid: u64,
    pub(crate) name: Vec<u8>,
    pub(crate) cookie: u64,
    /// The handle and attributes that READDIRPLUS gives; missing where the caller may not look, or the entry
    /// is gone already.
    pub(crate) plus: Option<Box<(Handle, Attributes)>>,
}

/// A part of a directory.
pub(crate) struct Listing {
    pub(crate) entries: Vec<DirEntry>,
    /// True when nothing comes after the last entry.
    pub(crate) eof: bool,
    /// The memory that is reserved for the entries.
    pub(crate) memory: Reservation,
    /// What of the client's share that is.
    pub(crate) share: Share,
}

impl Vfs {
    /// The cookie verifier of a directory, which is the same for as long as its cookies are good.
    pub(crate) fn cookie_verifier(&self, directory: &Target) -> [u8; 8] {
        self.key.cookie_verifier(&directory.object.handle)
    }

    /// The entries after `cookie` (0: from the start) for as long as `fits` says so; `fits` is
    /// asked once for each entry, with its name. `memory`: bytes that the entries may take.
    ///
    /// # Errors
    /// [`Error::TooSmall`] when not even one entry fits.
    pub(crate) async fn read_directory(
        self: &Arc<Self>,
        directory: &Target,
        cookie: u64,
        memory: u64,
        plus: bool,
        fits: impl FnMut(&[u8]) -> bool + Send + 'static,
    ) -> Result<Listing> {
        if !directory.object.is_directory() {
            return Err(Error::Errno(Errno::NOTDIR));
        }
        if i64::try_from(cookie).is_err() {
            return Err(Error::BadCookie);
        }
        let (share, _of_mount) = self.room_for(directory, memory).await;
        let budget = self.read_buffers.budget();
        let memory = budget.reserve(memory).await.ok_or(Error::Busy)?;
        let (vfs, job) = (Arc::clone(self), directory.clone());
        // What waits for a thread is not begun when its caller has gone.
        let caller = Arc::new(());
        let is_wanted = Arc::downgrade(&caller);
        let list = move || match is_wanted.upgrade() {
            Some(_) => vfs.list(&job, cookie, plus, fits),
            None => Err(Error::Busy),
        };
        let (entries, eof) = self.blocking(directory.queue(), list).await??;
        drop(caller);
        Ok(Listing {
            entries,
            eof,
            memory,
            share,
        })
    }

    fn list(
        self: &Arc<Self>,
        directory: &Target,
        cookie: u64,
        plus: bool,
        mut fits: impl FnMut(&[u8]) -> bool,
    ) -> Result<(Vec<DirEntry>, bool)> {
        let stat = directory.object.stat()?;
        directory
            .object
            .check(&directory.actor.creds, Access::READ, &stat)?;
        // A descriptor of its own: the position in a directory belongs to the descriptor.
        let fd = fs::reopen(directory.object.path(), OFlags::RDONLY | OFlags::DIRECTORY)?;
        let root = self.root(&directory.tree)?;
        let at_root = root.handle == directory.object.handle;
        let mut entries = Vec::new();
        let mut dirents = Dirents::new(fd, cookie)?;
        loop {
            let batch = dirents.next_batch()?;
            if batch.is_empty() {
                let entries = self.with_plus(directory, entries, plus);
                return Ok((entries, true));
            }
            for entry in batch.iter() {
                if !fits(entry.name) {
                    if entries.is_empty() {
                        return Err(Error::TooSmall);
                    }
                    let entries = self.with_plus(directory, entries, plus);
                    return Ok((entries, false));
                }
                // The parent of an export's root is nobody's business.
                let own = at_root && entry.name == b"..";
                entries.push(DirEntry {
                    fileid: if own { directory.object.ino } else { entry.ino },
                    name: entry.name.to_vec(),
                    cookie: entry.next_cookie,
                    plus: None,
                });
            }
        }
    }

    fn with_plus(
        self: &Arc<Self>,
        directory: &Target,
        mut entries: Vec<DirEntry>,
        plus: bool,
    ) -> Vec<DirEntry> {
        if plus {
            for entry in &mut entries {
                entry.plus = self.plus_of(directory, &entry.name).ok().map(Box::new);
            }
        }
        entries
    }

    /// The handle and attributes of one entry. Not through the file cache: a listing of a large
    /// directory must not put everything else out of it.
    fn plus_of(self: &Arc<Self>, directory: &Target, name: &[u8]) -> Result<(Handle, Attributes)> {
        match name {
            b"." => return Ok((directory.object.handle, directory.object.attributes()?)),
            b".." => return Err(Error::NoHandle),
            _ => {}
        }
        let (fd, stat) = open_entry(directory, name, ResolveFlags::empty())?;
        let again = || Ok(fs::statx(fd.as_fd())?);
        let stat = match self.stages.of((stat.dev, stat.ino)) {
            Some(_) => self.stages.stat((stat.dev, stat.ino), again)?,
            None => stat,
        };
        let mount = directory.tree.mount_of(&directory.object.mount, &stat)?;
        let fsid = mount.fsid;
        let handle = self.handle_of(directory, &mount, name, fd, &stat)?;
        Ok((handle, Attributes { stat, fsid }))
    }
}
