//! A directory that the responder answers out of, as the shortest server would that keeps what it says.
//!
//! Names are made and looked up, files are read and written by the thread of the connection, one call after the other,
//! with one system call each. Nobody is asked who they are, and no attributes are read for a reply that may leave them
//! out. READ, WRITE and COMMIT, CREATE, REMOVE, LOOKUP and GETATTR work; everything else is answered as the responder
//! answers it that touches no file.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use nfs_wire::nfs3::{Nfsstat3, Procedure, StableHow};
use rustix::fs::OFlags;

use super::{Caller, DATA_BYTES, Kind, Object, attributes, handle, words};
use crate::input::InputError;
use crate::limits::RESPONDER_FILES_MAX;

/// What is read and written, and how.
#[derive(Debug)]
pub struct Files {
    /// Whether files are read and written past the page cache (`O_DIRECT`).
    is_direct: bool,
    /// What handles were given of, by their number; the directory itself is the first.
    known: RwLock<Vec<Arc<Known>>>,
}

#[derive(Debug)]
struct Known {
    path: PathBuf,
    /// The open file; `None` of directories.
    file: Option<File>,
}

impl Files {
    /// Those below `directory`, through the page cache or past it.
    ///
    /// # Errors
    /// There is no such directory.
    pub fn new(directory: &Path, is_direct: bool) -> io::Result<Self> {
        let root = Known {
            path: fs::canonicalize(directory)?,
            file: None,
        };
        Ok(Self {
            is_direct,
            known: RwLock::new(vec![Arc::new(root)]),
        })
    }

    fn known(&self, object: Object) -> Result<Arc<Known>, Nfsstat3> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let found = usize::try_from(object.id).ok().and_then(|id| known.get(id));
        found.cloned().ok_or(Nfsstat3::Stale)
    }

    /// The name's path in a directory.
    fn path(&self, dir: Object, name: &[u8]) -> Result<PathBuf, Nfsstat3> {
        if matches!(name, b"" | b"." | b"..") || name.iter().any(|byte| b"/\0".contains(byte)) {
            return Err(Nfsstat3::Inval);
        }
        Ok(self.known(dir)?.path.join(OsStr::from_bytes(name)))
    }

    /// The object at `path`, which is opened, and made if that is to be, where it has no handle yet.
    fn object(&self, path: PathBuf, is_made: bool) -> Result<Object, Nfsstat3> {
        let is_dir = match fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => true,
            Ok(found) if found.is_file() => false,
            Ok(_) => return Err(Nfsstat3::Notsupp),
            Err(error) if error.kind() == io::ErrorKind::NotFound && is_made => false,
            Err(error) => return Err(status(&error)),
        };
        let kind = if is_dir { Kind::Directory } else { Kind::File };
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let id = match known.iter().position(|known| known.path == path) {
            Some(id) => id,
            None if known.len() >= RESPONDER_FILES_MAX => return Err(Nfsstat3::Nospc),
            None => {
                let file = match is_dir {
                    true => None,
                    false => Some(self.open(&path, is_made).map_err(|error| status(&error))?),
                };
                known.push(Arc::new(Known { path, file }));
                known.len() - 1
            }
        };
        let id = u32::try_from(id).map_err(|_| Nfsstat3::Nospc)?;
        Ok(Object { kind, id })
    }

    fn open(&self, path: &Path, is_made: bool) -> io::Result<File> {
        let direct = match self.is_direct {
            true => OFlags::DIRECT,
            false => OFlags::empty(),
        };
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(is_made)
            .truncate(false)
            .custom_flags((OFlags::NOFOLLOW | direct).bits().cast_signed())
            .open(path)
    }

    /// Does something with an open file.
    fn with<T>(
        &self,
        object: Object,
        work: impl FnOnce(&File) -> io::Result<T>,
    ) -> Result<T, Nfsstat3> {
        let known = self.known(object)?;
        let file = known.file.as_ref().ok_or(Nfsstat3::Isdir)?;
        work(file).map_err(|error| status(&error))
    }

    fn size(&self, object: Object) -> Result<u64, Nfsstat3> {
        let known = self.known(object)?;
        let found = match &known.file {
            Some(file) => file.metadata(),
            None => fs::metadata(&known.path),
        };
        found
            .map(|found| found.len())
            .map_err(|error| status(&error))
    }

    fn remove(&self, path: &Path) -> Result<(), Nfsstat3> {
        fs::remove_file(path).map_err(|error| status(&error))?;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        // The handles of others keep their numbers; the name is another file's when it comes again.
        if let Some(removed) = known.iter_mut().find(|known| known.path == path) {
            *removed = Arc::new(Known {
                path: PathBuf::new(),
                file: None,
            });
        }
        Ok(())
    }
}

impl Caller {
    /// The results of a call that is about files, where there are any; `None` of the others.
    pub(super) fn file_results(
        &mut self,
        procedure: Procedure,
        out: &mut Vec<u8>,
        room: &mut [u8],
    ) -> Result<Option<usize>, InputError> {
        let Some(files) = self.files.clone() else {
            return Ok(None);
        };
        match procedure {
            Procedure::Read => return self.read_file(&files, out, room).map(Some),
            Procedure::Write => self.write_file(&files, out)?,
            Procedure::Commit => {
                let synced = files.with(self.handle()?, File::sync_data);
                tell(out, synced, &[0, 0], |out, ()| words(out, &[0, 0, 0, 0]));
            }
            Procedure::Getattr => {
                let object = self.handle()?;
                let told = |out: &mut Vec<u8>, size| attributes(object, size, out);
                tell(out, files.size(object), &[], told);
            }
            Procedure::Lookup => {
                let path = files.path(self.handle()?, &self.name()?);
                let found = path.and_then(|path| files.object(path, false));
                tell(out, found, &[0], |out, object| {
                    handle(object, out);
                    words(out, &[0, 0]);
                });
            }
            Procedure::Create => {
                let path = files.path(self.handle()?, &self.name()?);
                let made = path.and_then(|path| files.object(path, true));
                tell(out, made, &[0, 0], |out, object| {
                    words(out, &[1]);
                    handle(object, out);
                    words(out, &[0, 0, 0]);
                });
            }
            Procedure::Remove => {
                let path = files.path(self.handle()?, &self.name()?);
                let removed = path.and_then(|path| files.remove(&path));
                tell(out, removed, &[0, 0], |out, ()| words(out, &[0, 0]));
            }
            _ => return Ok(None),
        }
        Ok(Some(0))
    }

    /// Reads a file into `room`, and gives how much of it there was.
    fn read_file(
        &mut self,
        files: &Files,
        out: &mut Vec<u8>,
        room: &mut [u8],
    ) -> Result<usize, InputError> {
        let (object, offset) = (self.handle()?, self.offset()?);
        let asked = usize::try_from(self.input.word()?)?.min(DATA_BYTES);
        let read = files.with(object, |file| {
            let room = room.get_mut(..asked).ok_or(io::ErrorKind::InvalidInput)?;
            file.read_at(room, offset)
        });
        let len = read.unwrap_or(0);
        let count = u32::try_from(len)?;
        let is_end = u32::from(len < asked);
        tell(out, read, &[0], |out, _len| {
            words(out, &[0, count, is_end, count]);
        });
        Ok(len)
    }

    /// Writes what the call has.
    fn write_file(&mut self, files: &Files, out: &mut Vec<u8>) -> Result<(), InputError> {
        let (object, offset) = (self.handle()?, self.offset()?);
        let (_count, stable, count) = (self.input.word()?, self.input.word()?, self.input.word()?);
        let Some(payload) = self.payload.get_mut(..usize::try_from(count)?) else {
            tell(out, Err::<(), _>(Nfsstat3::Inval), &[0, 0], |_out, ()| ());
            return Ok(());
        };
        self.input.take(payload)?;
        let payload = &*payload;
        let written = files.with(object, |file| {
            file.write_all_at(payload, offset)?;
            match stable == StableHow::Unstable as u32 {
                true => Ok(()),
                false => file.sync_data(),
            }
        });
        tell(out, written, &[0, 0], |out, ()| {
            words(out, &[0, 0, count, stable, 0, 0]);
        });
        Ok(())
    }
}

/// The status of a result, and what follows it: `refused` has the attributes that are not told of a failure.
fn tell<T>(
    out: &mut Vec<u8>,
    result: Result<T, Nfsstat3>,
    refused: &[u32],
    told: impl FnOnce(&mut Vec<u8>, T),
) {
    match result {
        Ok(done) => {
            words(out, &[Nfsstat3::Ok as u32]);
            told(out, done);
        }
        Err(why) => {
            words(out, &[why as u32]);
            words(out, refused);
        }
    }
}

/// What NFSv3 calls it; what it has no word for is an input or output error.
fn status(error: &io::Error) -> Nfsstat3 {
    match error.kind() {
        io::ErrorKind::NotFound => Nfsstat3::Noent,
        io::ErrorKind::PermissionDenied => Nfsstat3::Acces,
        io::ErrorKind::InvalidInput => Nfsstat3::Inval,
        io::ErrorKind::StorageFull => Nfsstat3::Nospc,
        io::ErrorKind::IsADirectory => Nfsstat3::Isdir,
        _ => Nfsstat3::Io,
    }
}
