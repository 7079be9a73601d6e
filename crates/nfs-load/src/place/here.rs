//! A directory of this host, as a load works in it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;

use super::{Open, check_read};
use crate::error::LoadError;
use crate::noise::Noise;

/// Direct I/O of this host begins at a multiple of this in memory.
const ALIGNMENT: usize = 4096;

/// How the file system of this host is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Reads and writes go through the page cache.
    Buffered,
    /// They go past it (`O_DIRECT`).
    Direct,
    /// They go through it, and a name that was made, changed or removed is on stable storage before the next call: its
    /// directory is synced (fsync(2)), as a server does that acknowledges no name before.
    Synced,
}

impl Way {
    /// Every way, in the order in which help texts name them.
    pub const ALL: [Self; 3] = [Self::Buffered, Self::Direct, Self::Synced];

    /// Its name on the command line and in the report.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Buffered => "buffered",
            Self::Direct => "direct",
            Self::Synced => "buffered+sync",
        }
    }
}

/// A directory of this host.
#[derive(Clone, Debug)]
pub struct Here {
    /// The directory that names are in.
    pub(super) directory: PathBuf,
    pub(super) way: Way,
    /// The directory once more, to be synced, where names have to be on stable storage.
    synced: Option<Arc<File>>,
}

impl Here {
    pub(super) fn open(directory: PathBuf, way: Way) -> Result<Self, LoadError> {
        let synced = match way {
            Way::Synced => {
                let opened = File::open(&directory).map_err(LoadError::local(&directory))?;
                Some(Arc::new(opened))
            }
            Way::Buffered | Way::Direct => None,
        };
        Ok(Self {
            directory,
            way,
            synced,
        })
    }

    /// Makes, changes or removes a name.
    pub(super) fn change(
        &self,
        name: &str,
        change: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<(), LoadError> {
        let path = self.directory.join(name);
        change(&path).map_err(LoadError::local(&path))?;
        self.sync()
    }

    /// Puts the names of the directory on stable storage, where they have to be.
    pub(super) fn sync(&self) -> Result<(), LoadError> {
        let synced = self
            .synced
            .as_ref()
            .map_or(Ok(()), |names| names.sync_all());
        synced.map_err(LoadError::local(&self.directory))
    }

    /// Opens the file `name` for reading and writing, and as `how` says.
    pub(super) fn open_file(
        &self,
        name: &str,
        how: impl FnOnce(&mut OpenOptions),
    ) -> Result<Open, LoadError> {
        let path = self.directory.join(name);
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        if self.way == Way::Direct {
            options.custom_flags(OFlags::DIRECT.bits().cast_signed());
        }
        how(&mut options);
        let file = options.open(&path).map_err(LoadError::local(&path))?;
        Ok(Open::Local(Arc::new((file, path))))
    }
}

/// Reads `len` bytes of a file, all of which have to be there.
pub(super) fn read(
    opened: &(File, PathBuf),
    offset: u64,
    len: usize,
    noise: Option<&Noise>,
) -> Result<(), LoadError> {
    thread_local! {
        /// Where this thread reads to: it is the same memory for all of its reads.
        static MEMORY: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    MEMORY.with_borrow_mut(|memory| {
        if memory.len() < len + ALIGNMENT {
            *memory = vec![0; len + ALIGNMENT];
        }
        let skipped = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        let into = memory.get_mut(skipped..skipped + len).unwrap_or_default();
        let (file, path) = opened;
        let read = file.read_at(into, offset).map_err(LoadError::local(path))?;
        check_read(into.get(..read).unwrap_or_default(), offset, len, noise)
    })
}
