//! What a load is put on: a directory of an NFS server, or one of this host.
//!
//! Both are asked in the same words. What the local file system is asked blocks the thread, which is therefore one of
//! the load's alone; calls to a server wait for each other on one thread for each connection.

use std::fs::{File, FileTimes, Permissions};
use std::io;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use nfs_client::connection::Procedure;
use nfs_client::nfs_wire::nfs3::{
    self, ACCESS3_READ, CreateHow, FileHandle, Nfstime3, Sattr3, SetTime, StableHow,
};
use nfs_client::nfs3::Outcome;
use nfs_client::trees::{RemoveTree, Step};
use nfs_client::{Budget, BufferPool, Client, MountOptions, NfsUrl};

use crate::error::LoadError;
use crate::limits::{PIECE_BYTES_MAX, READ_MEMORY_BYTES};
use crate::noise::Noise;

mod here;

pub use here::{Here, Way};

/// The time that unpacked files get, in seconds since 1970.
const PACKED_SECONDS: u32 = 1_000_000_000;

/// A directory that a load works in.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a run has a few of them")]
pub enum Place {
    /// On a server.
    Nfs {
        /// Address of the directory in which files are made.
        url: NfsUrl,
        /// How it is mounted.
        options: MountOptions,
    },
    /// On this host.
    Local {
        /// Directory in which files are made.
        directory: PathBuf,
        /// How its file system is asked.
        way: Way,
    },
}

impl Place {
    /// The directory `name` in this one.
    #[must_use]
    pub fn below(&self, name: &str) -> Self {
        match self {
            Self::Nfs { url, options } => {
                let mut path = url.path.clone();
                if path.last() != Some(&b'/') {
                    path.push(b'/');
                }
                path.extend_from_slice(name.as_bytes());
                Self::Nfs {
                    url: url.with_path(path),
                    options: options.clone(),
                }
            }
            Self::Local { directory, way } => Self::Local {
                directory: directory.join(name),
                way: *way,
            },
        }
    }
}

/// A place that was gone to: a connection of its own, or nothing but a path.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each connection"
)]
pub enum Session {
    /// A mounted server.
    Nfs(Remote),
    /// This host.
    Local(Here),
}

/// A connection to a server, and the directory that names are in.
#[derive(Clone, Debug)]
pub struct Remote {
    client: Client,
    directory: FileHandle,
    pool: BufferPool,
    read_bytes: usize,
    write_bytes: usize,
}

/// A file that is read or written.
#[derive(Clone, Debug)]
pub enum Open {
    /// On a server.
    Nfs(FileHandle),
    /// On this host.
    Local(Arc<(File, PathBuf)>),
}

/// How soon a WRITE has to be on stable storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stable {
    /// With the COMMIT at the end.
    AtTheEnd,
    /// Before it is answered.
    AtOnce,
}

/// What a server says to tell its lives apart; this host says nothing.
pub type Verifier = Option<[u8; 8]>;

impl Session {
    /// Goes to the place, which has to be there.
    ///
    /// # Errors
    /// It cannot be mounted, or there is no such directory.
    pub async fn open(place: &Place) -> Result<Self, LoadError> {
        let (url, options) = match place {
            Place::Local { directory, way } => {
                return Here::open(directory.clone(), *way).map(Self::Local);
            }
            Place::Nfs { url, options } => (url, options),
        };
        let told = || LoadError::client(shown(url));
        let (client, path) = Client::mount_with(url, options).await.map_err(told())?;
        let node = client.resolve(&path).await.map_err(told())?;
        let sizes = client.transfer_sizes();
        Ok(Self::Nfs(Remote {
            directory: node.handle,
            pool: BufferPool::keeping(Budget::new(READ_MEMORY_BYTES), READ_MEMORY_BYTES),
            read_bytes: piece(sizes.read),
            write_bytes: piece(sizes.write),
            client,
        }))
    }

    /// Makes the directory `name`, which must not be there.
    ///
    /// # Errors
    /// It is there, or the directory may not be written.
    pub async fn make_directory(&self, name: &str) -> Result<(), LoadError> {
        match self {
            Self::Nfs(remote) => {
                let attributes = mode(0o755);
                let dir = &remote.directory;
                let made = remote.client.mkdir_in(dir, name.as_bytes(), &attributes);
                made.await.map(drop).map_err(LoadError::client("MKDIR"))
            }
            Self::Local(here) => here.change(name, |path| std::fs::create_dir(path)),
        }
    }

    /// This session, with the names in the directory `name` of the one before.
    ///
    /// # Errors
    /// There is no such directory.
    pub async fn below(&self, name: &str) -> Result<Self, LoadError> {
        match self {
            Self::Nfs(remote) => {
                let found = remote.client.lookup(&remote.directory, name.as_bytes());
                let node = found.await.map_err(LoadError::client("LOOKUP"))?;
                Ok(Self::Nfs(Remote {
                    directory: node.handle,
                    ..remote.clone()
                }))
            }
            Self::Local(here) => Here::open(here.directory.join(name), here.way).map(Self::Local),
        }
    }

    /// Removes the directory `name` with all that is in it.
    ///
    /// # Errors
    /// Something stays.
    pub async fn remove_tree(&self, name: &str) -> Result<(), LoadError> {
        match self {
            Self::Nfs(remote) => {
                let found = remote.client.lookup(&remote.directory, name.as_bytes());
                let node = found.await.map_err(LoadError::client("LOOKUP"))?;
                let (client, parent) = (&remote.client, remote.directory);
                let mut removal = RemoveTree::new(client, node, parent, name.as_bytes());
                while let Some(step) = removal.next().await {
                    if let Step::Failed { error, .. } = step {
                        return Err(LoadError::client("removing what was made")(error));
                    }
                }
                Ok(())
            }
            Self::Local(here) => {
                let path = here.directory.join(name);
                std::fs::remove_dir_all(&path).map_err(LoadError::local(&path))
            }
        }
    }

    /// Makes the empty file `name`, which must not be there, and opens it.
    ///
    /// # Errors
    /// It is there, or the directory may not be written.
    pub async fn create(&self, name: &str) -> Result<Open, LoadError> {
        match self {
            Self::Nfs(remote) => {
                let how = CreateHow::Guarded(mode(0o644));
                let dir = &remote.directory;
                let made = remote.client.create_in(dir, name.as_bytes(), &how).await;
                Ok(Open::Nfs(made.map_err(LoadError::client("CREATE"))?.handle))
            }
            Self::Local(here) => {
                let made = here.open_file(name, |options| {
                    options.create_new(true);
                })?;
                here.sync()?;
                Ok(made)
            }
        }
    }

    /// Opens the file `name`, for reading and writing.
    ///
    /// # Errors
    /// There is no such file.
    pub async fn find(&self, name: &str) -> Result<Open, LoadError> {
        match self {
            Self::Nfs(remote) => {
                let found = remote.client.lookup(&remote.directory, name.as_bytes());
                let node = found.await.map_err(LoadError::client("LOOKUP"))?;
                Ok(Open::Nfs(node.handle))
            }
            Self::Local(here) => here.open_file(name, |_| {}),
        }
    }

    /// Reads `len` bytes, all of which have to be there. `noise` is what they have to begin with, if that is known.
    ///
    /// # Errors
    /// Fewer bytes come, or others.
    pub async fn read(
        &self,
        file: &Open,
        offset: u64,
        len: usize,
        noise: Option<&Noise>,
    ) -> Result<(), LoadError> {
        match (self, file) {
            (Self::Nfs(remote), Open::Nfs(handle)) => remote.read(handle, offset, len, noise).await,
            (_, Open::Local(opened)) => here::read(opened, offset, len, noise),
            (Self::Local(_), Open::Nfs(_)) => Err(wrong_kind()),
        }
    }

    /// Writes the bytes that `noise` has at `offset`.
    ///
    /// # Errors
    /// Not all of them are taken.
    pub async fn write(
        &self,
        file: &Open,
        offset: u64,
        len: usize,
        stable: Stable,
        noise: &Noise,
    ) -> Result<Verifier, LoadError> {
        match (self, file) {
            (Self::Nfs(remote), Open::Nfs(handle)) => {
                remote.write(handle, offset, len, stable, noise).await
            }
            (_, Open::Local(opened)) => {
                let (file, path) = &**opened;
                let data = noise.at(offset, len);
                let written = file.write_all_at(&data, offset);
                written.map_err(LoadError::local(path))?;
                if stable == Stable::AtOnce {
                    file.sync_data().map_err(LoadError::local(path))?;
                }
                Ok(None)
            }
            (Self::Local(_), Open::Nfs(_)) => Err(wrong_kind()),
        }
    }

    /// Puts what was written on stable storage.
    ///
    /// # Errors
    /// It did not get there.
    pub async fn commit(&self, file: &Open) -> Result<Verifier, LoadError> {
        match (self, file) {
            (Self::Nfs(remote), Open::Nfs(handle)) => {
                let answer = remote.client.nfs().commit(handle, 0, 0).await;
                Ok(Some(done("COMMIT", answer)?.verf))
            }
            (_, Open::Local(opened)) => {
                let (file, path) = &**opened;
                file.sync_all().map_err(LoadError::local(path))?;
                Ok(None)
            }
            (Self::Local(_), Open::Nfs(_)) => Err(wrong_kind()),
        }
    }

    /// The attributes of what has the name: LOOKUP, or stat(2).
    ///
    /// # Errors
    /// There is no such name.
    pub async fn stat(&self, name: &str) -> Result<(), LoadError> {
        match self {
            Self::Nfs(remote) => {
                let (nfs, dir) = (remote.client.nfs(), &remote.directory);
                done("LOOKUP", nfs.lookup(dir, name.as_bytes()).await).map(drop)
            }
            Self::Local(here) => {
                let path = here.directory.join(name);
                let found = std::fs::symlink_metadata(&path);
                found.map(drop).map_err(LoadError::local(&path))
            }
        }
    }

    /// The attributes of an open file: GETATTR, or fstat(2).
    ///
    /// # Errors
    /// The file is gone.
    pub async fn attributes(&self, file: &Open) -> Result<(), LoadError> {
        match (self, file) {
            (Self::Nfs(remote), Open::Nfs(handle)) => {
                let answer = remote.client.nfs().getattr(handle).await;
                done("GETATTR", answer).map(drop)
            }
            (_, Open::Local(opened)) => {
                let found = opened.0.metadata();
                found.map(drop).map_err(LoadError::local(&opened.1))
            }
            (Self::Local(_), Open::Nfs(_)) => Err(wrong_kind()),
        }
    }

    /// Whether a file of a server may be read: ACCESS.
    ///
    /// # Errors
    /// The file is gone, or it is not a server's.
    pub async fn access(&self, file: &Open) -> Result<(), LoadError> {
        let (Self::Nfs(remote), Open::Nfs(handle)) = (self, file) else {
            return Err(wrong_kind());
        };
        let answer = remote.client.nfs().access(handle, ACCESS3_READ).await;
        done("ACCESS", answer).map(drop)
    }

    /// NULL, which asks a server for nothing but its answer.
    ///
    /// # Errors
    /// There is no answer, or this is no server.
    pub async fn null(&self) -> Result<(), LoadError> {
        let Self::Nfs(remote) = self else {
            return Err(wrong_kind());
        };
        let nfs = remote.client.nfs();
        let null = Procedure {
            program: nfs3::PROGRAM,
            version: nfs.v3().map_or(4, |_| nfs3::VERSION),
            number: 0,
        };
        let answered = nfs.connection().call(null, nfs.identity(), &()).await;
        answered.map(drop).map_err(|error| LoadError::Rpc {
            doing: "NULL",
            error,
        })
    }

    /// Gives what has the name another one.
    ///
    /// # Errors
    /// There is no such name.
    pub async fn rename(&self, from: &str, to: &str) -> Result<(), LoadError> {
        match self {
            Self::Nfs(remote) => {
                let (dir, from, to) = (&remote.directory, from.as_bytes(), to.as_bytes());
                match remote.client.nfs().v3() {
                    Some(nfs) => done("RENAME", nfs.rename(dir, from, dir, to).await).map(drop),
                    None => {
                        let renamed = remote.client.rename_in(dir, from, dir, to).await;
                        renamed.map_err(LoadError::client("RENAME"))
                    }
                }
            }
            Self::Local(here) => {
                let to = here.directory.join(to);
                here.change(from, |path| std::fs::rename(path, to))
            }
        }
    }

    /// Removes the file with the name.
    ///
    /// # Errors
    /// There is no such file.
    pub async fn remove(&self, name: &str) -> Result<(), LoadError> {
        match self {
            Self::Nfs(remote) => {
                let (client, dir) = (&remote.client, &remote.directory);
                let removed = client.remove_in(dir, name.as_bytes()).await;
                removed.map_err(LoadError::client("REMOVE"))
            }
            Self::Local(here) => here.change(name, |path| std::fs::remove_file(path)),
        }
    }

    /// Gives a file the mode and the time that it had where it was packed.
    ///
    /// # Errors
    /// They cannot be set.
    pub async fn stamp(&self, file: &Open) -> Result<(), LoadError> {
        match (self, file) {
            (Self::Nfs(remote), Open::Nfs(handle)) => {
                let then = Nfstime3 {
                    seconds: PACKED_SECONDS,
                    nseconds: 0,
                };
                let new = Sattr3 {
                    atime: SetTime::ClientTime(then),
                    mtime: SetTime::ClientTime(then),
                    ..mode(0o644)
                };
                let answer = remote.client.nfs().setattr(handle, &new, None).await;
                done("SETATTR", answer).map(drop)
            }
            (_, Open::Local(opened)) => {
                let (file, path) = &**opened;
                let then = SystemTime::UNIX_EPOCH + Duration::from_secs(PACKED_SECONDS.into());
                let times = FileTimes::new().set_accessed(then).set_modified(then);
                let mode = Permissions::from_mode(0o644);
                let set = file
                    .set_permissions(mode)
                    .and_then(|()| file.set_times(times));
                set.map_err(LoadError::local(path))
            }
            (Self::Local(_), Open::Nfs(_)) => Err(wrong_kind()),
        }
    }

    /// Makes the symbolic link `name` to `target`.
    ///
    /// # Errors
    /// There is something of this name, or the directory may not be written.
    pub async fn symlink(&self, name: &str, target: &str) -> Result<(), LoadError> {
        match self {
            Self::Nfs(remote) => {
                let (name, target) = (name.as_bytes(), target.as_bytes());
                let attributes = Sattr3::default();
                let (client, dir) = (&remote.client, &remote.directory);
                let made = client.symlink_in(dir, name, target, &attributes).await;
                made.map(drop).map_err(LoadError::client("SYMLINK"))
            }
            Self::Local(here) => here.change(name, |path| std::os::unix::fs::symlink(target, path)),
        }
    }

    /// How many names the directory has, each listed with its attributes.
    ///
    /// # Errors
    /// It cannot be listed.
    pub async fn list(&self) -> Result<u64, LoadError> {
        match self {
            Self::Nfs(remote) => {
                let mut pages = remote.client.list(&remote.directory, true);
                let mut count = 0;
                let failed = || LoadError::client("READDIRPLUS");
                while let Some(page) = pages.next().await.map_err(failed())? {
                    count += page.iter().filter(|entry| !entry.is_dot()).count() as u64;
                }
                Ok(count)
            }
            Self::Local(here) => {
                let each = || -> io::Result<u64> {
                    let entries = std::fs::read_dir(&here.directory)?;
                    entries.map(|entry| entry?.metadata().map(|_| 1)).sum()
                };
                each().map_err(LoadError::local(&here.directory))
            }
        }
    }

    /// Ends the session.
    pub async fn end(self) {
        if let Self::Nfs(remote) = self {
            // Whether the server takes our leave does not matter to what was measured.
            let _told = remote.client.unmount().await;
        }
    }
}

impl Remote {
    async fn read(
        &self,
        file: &FileHandle,
        offset: u64,
        len: usize,
        noise: Option<&Noise>,
    ) -> Result<(), LoadError> {
        let pieces = pieces(offset, len, self.read_bytes);
        if let [(offset, len)] = pieces[..] {
            return self.read_piece(file, offset, len, noise).await;
        }
        let mut calls = tokio::task::JoinSet::new();
        for (offset, len) in pieces {
            let (remote, file, noise) = (self.clone(), *file, noise.cloned());
            calls.spawn_local(async move {
                remote.read_piece(&file, offset, len, noise.as_ref()).await
            });
        }
        while let Some(ended) = calls.join_next().await {
            ended.map_err(|_| wrong_kind())??;
        }
        Ok(())
    }

    async fn read_piece(
        &self,
        file: &FileHandle,
        offset: u64,
        len: usize,
        noise: Option<&Noise>,
    ) -> Result<(), LoadError> {
        let Some(memory) = self.pool.take(len).await else {
            let asked = "READs of this length do not fit into the memory for them";
            return Err(LoadError::Setting(asked.to_owned()));
        };
        let answer = self.client.nfs().read_into(file, offset, memory).await;
        let data = done("READ", answer)?.data;
        check_read(&data, offset, len, noise)
    }

    async fn write(
        &self,
        file: &FileHandle,
        offset: u64,
        len: usize,
        stable: Stable,
        noise: &Noise,
    ) -> Result<Verifier, LoadError> {
        let pieces = pieces(offset, len, self.write_bytes);
        if let [(offset, len)] = pieces[..] {
            let data = noise.at(offset, len);
            return self.write_piece(file, offset, stable, data).await.map(Some);
        }
        let mut calls = tokio::task::JoinSet::new();
        for (offset, len) in pieces {
            let (remote, file, data) = (self.clone(), *file, noise.at(offset, len));
            calls.spawn_local(async move { remote.write_piece(&file, offset, stable, data).await });
        }
        let mut verifier = None;
        while let Some(ended) = calls.join_next().await {
            verifier = same(verifier, Some(ended.map_err(|_| wrong_kind())??))?;
        }
        Ok(verifier)
    }

    async fn write_piece(
        &self,
        file: &FileHandle,
        offset: u64,
        stable: Stable,
        data: Bytes,
    ) -> Result<[u8; 8], LoadError> {
        let asked = data.len();
        let how = match stable {
            Stable::AtTheEnd => StableHow::Unstable,
            Stable::AtOnce => StableHow::FileSync,
        };
        let answer = self.client.nfs().write(file, offset, how, data).await;
        let written = done("WRITE", answer)?;
        let moved = usize::try_from(written.count).unwrap_or(usize::MAX);
        match moved == asked {
            true => Ok(written.verf),
            false => Err(LoadError::Short {
                doing: "WRITE",
                offset,
                asked,
                moved,
            }),
        }
    }
}

/// The verifier of two answers; they have to agree.
///
/// # Errors
/// They do not, so the server restarted between them.
pub fn same(one: Verifier, other: Verifier) -> Result<Verifier, LoadError> {
    match (one, other) {
        (Some(one), Some(other)) if one != other => Err(LoadError::VerifierChanged),
        (one, other) => Ok(other.or(one)),
    }
}

/// The address of a place without the options that do not say where it is.
fn shown(url: &NfsUrl) -> String {
    format!("nfs://{}{}", url.host, String::from_utf8_lossy(&url.path))
}

fn piece(preferred: u32) -> usize {
    usize::try_from(preferred.clamp(512, PIECE_BYTES_MAX)).unwrap_or(512)
}

/// What a call of the application becomes: READs or WRITEs that the server takes.
fn pieces(offset: u64, len: usize, most: usize) -> Vec<(u64, usize)> {
    (0..len)
        .step_by(most.max(1))
        .map(|at| (offset + at as u64, most.min(len - at)))
        .collect()
}

/// Attributes that set a mode and nothing else.
pub(crate) fn mode(mode: u32) -> Sattr3 {
    Sattr3 {
        mode: Some(mode),
        ..Sattr3::default()
    }
}

/// The results of a call.
pub(crate) fn done<O, F>(doing: &'static str, answer: Outcome<O, F>) -> Result<O, LoadError> {
    match answer {
        Ok(Ok(results)) => Ok(results),
        Ok(Err(failure)) => Err(LoadError::Status {
            doing,
            status: failure.status,
        }),
        Err(error) => Err(LoadError::Rpc { doing, error }),
    }
}

fn wrong_kind() -> LoadError {
    LoadError::Setting("a part of the load ended unasked".to_owned())
}

fn check_read(
    data: &[u8],
    offset: u64,
    asked: usize,
    noise: Option<&Noise>,
) -> Result<(), LoadError> {
    if data.len() != asked {
        return Err(LoadError::Short {
            doing: "READ",
            offset,
            asked,
            moved: data.len(),
        });
    }
    match noise.is_some_and(|noise| !noise.begins(offset, data)) {
        true => Err(LoadError::WrongBytes { offset }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_call_once() {
        assert_eq!(pieces(100, 10, 4), [(100, 4), (104, 4), (108, 2)]);
        assert_eq!(pieces(0, 8, 8), [(0, 8)]);
        assert_eq!(pieces(0, 0, 8), []);
    }

    #[test]
    fn a_verifier_that_changes_is_an_error() {
        let (one, other) = (Some([1; 8]), Some([2; 8]));
        assert_eq!(same(None, one).unwrap(), one);
        assert_eq!(same(one, None).unwrap(), one);
        assert_eq!(same(one, one).unwrap(), one);
        assert!(matches!(same(one, other), Err(LoadError::VerifierChanged)));
    }

    #[test]
    fn short_and_wrong_data_are_told_apart() {
        let noise = Noise::new(4096);
        let right = noise.at(8192, 100);
        check_read(&right, 8192, 100, Some(&noise)).unwrap();
        let short = check_read(&right, 8192, 101, Some(&noise));
        assert!(matches!(short, Err(LoadError::Short { moved: 100, .. })));
        let wrong = check_read(&right, 0, 100, Some(&noise));
        assert!(matches!(wrong, Err(LoadError::WrongBytes { offset: 0 })));
        check_read(&right, 0, 100, None).unwrap();
    }
}
