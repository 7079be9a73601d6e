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
    /// A regular file, which holds bytes.
    Regular,
    /// A directory, which holds names.
    Directory,
    /// A symbolic link, which holds a path.
    Symlink,
    /// The node of a block device.
    BlockDevice,
    /// The node of a character device.
    CharDevice,
    /// A named pipe, also called FIFO.
    Fifo,
    /// A socket of the file system (`AF_UNIX`).
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

    /// Begins to read a directory as [`Dirents::new`] does, with a hint how many bytes of entries one batch
    /// should hold (an entry takes 24 and its name).
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

    /// The number of entries in this batch.
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

/// One entry of a directory, as getdents64(2) tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dirent<'a> {
    /// Inode number. For a mount point that of the directory underneath.
    pub ino: u64,
    /// The position from which reading goes on behind this entry.
    pub next_cookie: u64,
    /// Type, [`FileKind::Unknown`] where the file system does not say.
    pub kind: FileKind,
    /// The entry's name, without a slash and without a terminating zero byte.
    pub name: &'a [u8],
}

#[derive(Debug)]
struct Entry {
    ino: u64,
    next_cookie: u64,
    kind: FileKind,
    name: std::ops::Range<usize>,
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::{OFlags, mkdirat, unlinkat};
    use super::*;
    use crate::testing::Scratch;

    fn names(batch: &Batch) -> Vec<Vec<u8>> {
        let dots = |name: &&[u8]| *name != b"." && *name != b"..";
        batch
            .iter()
            .map(|entry| entry.name)
            .filter(dots)
            .map(<[u8]>::to_vec)
            .collect()
    }

    #[test]
    fn ten_thousand_entries_are_seen_once_each_while_some_are_removed() {
        let scratch = Scratch::new();
        let all: HashSet<Vec<u8>> = (0..10_000)
            .map(|n| format!("entry-{n:05}").into_bytes())
            .collect();
        for name in &all {
            let flags = OFlags::CREATE | OFlags::WRONLY;
            drop(super::super::openat_create(scratch.dir(), name, flags, 0o600).unwrap());
        }
        let mut seen = HashSet::new();
        let (mut cookie, mut batches) = (0, 0);
        loop {
            // Each batch by a descriptor of its own, as a server without state does.
            let fd = scratch.open(".", OFlags::RDONLY).unwrap();
            let batch = Dirents::with_batch_bytes(fd, cookie, 8192)
                .unwrap()
                .next_batch()
                .unwrap();
            let Some(last) = batch.iter().last() else {
                break;
            };
            cookie = last.next_cookie;
            batches += 1;
            for name in names(&batch) {
                unlinkat(scratch.dir(), &name).unwrap();
                assert!(seen.insert(name), "twice");
            }
        }
        assert_eq!(seen, all);
        assert!(batches > 10);
    }

    #[test]
    fn reading_goes_on_behind_any_entry() {
        let scratch = Scratch::new();
        for n in 0..20 {
            drop(scratch.file(&format!("f{n}"), b""));
        }
        let open = || scratch.open(".", OFlags::RDONLY).unwrap();
        let whole = Dirents::new(open(), 0).unwrap().next_batch().unwrap();
        assert_eq!(whole.len(), 22);
        for (at, entry) in whole.iter().enumerate() {
            let mut rest = Dirents::new(open(), entry.next_cookie).unwrap();
            let rest: Vec<Vec<u8>> = rest
                .next_batch()
                .unwrap()
                .iter()
                .map(|entry| entry.name.to_vec())
                .collect();
            let expected: Vec<Vec<u8>> = whole
                .iter()
                .skip(at + 1)
                .map(|entry| entry.name.to_vec())
                .collect();
            assert_eq!(rest, expected);
        }
    }

    #[test]
    fn kinds_and_the_end_are_told() {
        let scratch = Scratch::new();
        mkdirat(scratch.dir(), b"d", 0o755).unwrap();
        let mut dirents = Dirents::new(scratch.dir(), 0).unwrap();
        let batch = dirents.next_batch().unwrap();
        let d = batch.iter().find(|entry| entry.name == b"d").unwrap();
        assert!([FileKind::Directory, FileKind::Unknown].contains(&d.kind));
        assert!(dirents.next_batch().unwrap().is_empty());
        assert!(dirents.next_batch().unwrap().is_empty());
    }

    #[test]
    fn wrong_objects_and_cookies_are_refused() {
        let scratch = Scratch::new();
        assert_eq!(
            Dirents::new(scratch.dir(), u64::MAX).err(),
            Some(Errno::INVAL)
        );
        let file = scratch.file("f", b"");
        let batch = Dirents::new(file, 0).unwrap().next_batch();
        assert_eq!(batch.err(), Some(Errno::NOTDIR));
        mkdirat(scratch.dir(), b"gone", 0o755).unwrap();
        let gone = scratch.open("gone", OFlags::RDONLY).unwrap();
        super::super::rmdirat(scratch.dir(), b"gone").unwrap();
        assert_eq!(
            Dirents::new(gone, 0).unwrap().next_batch().err(),
            Some(Errno::NOENT)
        );
    }
}
