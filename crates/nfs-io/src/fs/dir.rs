//! Reading directories from any point on; getdents64(2).

use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use rustix::fs::{FileType, RawDir, SeekFrom};
use rustix::io::retry_on_intr;

use crate::limits::{DIRENTS_BYTES, DIRENTS_BYTES_MAX, DIRENTS_BYTES_MIN};
use crate::{Errno, Result};

/// The type of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// Regular file.
    Regular,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
    /// Block device node.
    BlockDevice,
    /// Character device node.
    CharDevice,
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
    /// Not told: some file systems leave the type out of directory entries.
    Unknown,
}

impl FileKind {
    /// The type in an `st_mode`.
    #[must_use]
    pub fn from_mode(mode: u32) -> Self {
        FileType::from_raw_mode(mode).into()
    }
}

impl From<FileType> for FileKind {
    fn from(file_type: FileType) -> Self {
        match file_type {
            FileType::RegularFile => Self::Regular,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Symlink,
            FileType::Fifo => Self::Fifo,
            FileType::Socket => Self::Socket,
            FileType::CharacterDevice => Self::CharDevice,
            FileType::BlockDevice => Self::BlockDevice,
            FileType::Unknown => Self::Unknown,
        }
    }
}

/// A position in an open directory, read on in batches.
///
/// A cookie is what the file system gave for the entry before (`d_off`); it stays good while
/// entries come and go, in any descriptor of the directory. The position is a property of the
/// open file: the descriptor must not be shared with another reader.
#[derive(Debug)]
pub struct Dirents<Fd> {
    fd: Fd,
    buffer: Vec<MaybeUninit<u8>>,
}

impl<Fd: AsFd> Dirents<Fd> {
    /// Reads `fd` (a directory open for reading) from `cookie` on: 0, or the
    /// [`Dirent::next_cookie`] of the last entry seen.
    ///
    /// # Errors
    /// `EINVAL` for a cookie the file system never gave out, where it can tell.
    pub fn new(fd: Fd, cookie: u64) -> Result<Self> {
        Self::with_batch_bytes(fd, cookie, DIRENTS_BYTES)
    }

    /// As [`Dirents::new`], with a hint how many bytes of entries one batch should hold (an
    /// entry takes 24 and its name).
    ///
    /// # Errors
    /// As [`Dirents::new`].
    pub fn with_batch_bytes(fd: Fd, cookie: u64, bytes: usize) -> Result<Self> {
        if i64::try_from(cookie).is_err() {
            return Err(Errno::INVAL);
        }
        retry_on_intr(|| rustix::fs::seek(&fd, SeekFrom::Start(cookie)))?;
        let bytes = bytes.clamp(DIRENTS_BYTES_MIN, DIRENTS_BYTES_MAX);
        Ok(Self {
            fd,
            buffer: Vec::from_iter(std::iter::repeat_n(MaybeUninit::uninit(), bytes)),
        })
    }

    /// The next entries, `.` and `..` among them; an empty batch at the end.
    ///
    /// # Errors
    /// `ENOENT` for a directory that was removed, else what getdents64(2) reports.
    pub fn next_batch(&mut self) -> Result<Batch> {
        let mut batch = Batch::default();
        let mut raw = RawDir::new(self.fd.as_fd(), &mut self.buffer);
        loop {
            match raw.next() {
                None => return Ok(batch),
                Some(Err(Errno::INTR)) => continue,
                Some(Err(errno)) => return Err(errno),
                Some(Ok(entry)) => {
                    let start = batch.names.len();
                    batch.names.extend_from_slice(entry.file_name().to_bytes());
                    batch.entries.push(Entry {
                        ino: entry.ino(),
                        next_cookie: entry.next_entry_cookie(),
                        kind: entry.file_type().into(),
                        name: start..batch.names.len(),
                    });
                }
            }
            if raw.is_buffer_empty() {
                return Ok(batch);
            }
        }
    }

    /// The descriptor, positioned behind the last batch.
    pub fn into_fd(self) -> Fd {
        self.fd
    }
}

/// The entries of one `getdents64`. Owned, so that a helper thread can read it for another.
#[derive(Debug, Default)]
pub struct Batch {
    entries: Vec<Entry>,
    names: Vec<u8>,
}

impl Batch {
    /// Whether the directory has ended.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The entries in the directory's order.
    pub fn iter(&self) -> impl Iterator<Item = Dirent<'_>> {
        self.entries.iter().map(|entry| Dirent {
            ino: entry.ino,
            next_cookie: entry.next_cookie,
            kind: entry.kind,
            name: &self.names[entry.name.clone()],
        })
    }
}

/// One directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dirent<'a> {
    /// Inode number. For a mount point that of the directory underneath.
    pub ino: u64,
    /// Where reading goes on behind this entry.
    pub next_cookie: u64,
    /// Type, [`FileKind::Unknown`] where the file system does not say.
    pub kind: FileKind,
    /// The name.
    pub name: &'a [u8],
}

#[derive(Debug)]
struct Entry {
    ino: u64,
    next_cookie: u64,
    kind: FileKind,
    name: std::ops::Range<usize>,
}
