//! The clients of a replay at one target, the files that they find, and what became of their calls.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};

use hdrhistogram::Histogram;
use nfs_client::nfs_wire::nfs3::{ACCESS3_READ, CreateHow, FileHandle, Sattr3, StableHow};
use nfs_client::{Budget, BufferPool, Client, ClientError};

use super::script::{Act, Form, Group, Name, Object, Script};
use crate::error::LoadError;
use crate::limits;
use crate::noise::Noise;
use crate::place::{Place, done, mode};

/// What symbolic links say: what they said when they were recorded is in no recording.
const LINK_TARGET: &[u8] = b"a/link/of/the/replay";

/// The directory that clients are in, and their connections.
pub(super) struct Players {
    clients: Vec<Client>,
    top: FileHandle,
    pool: BufferPool,
    read_bytes: u32,
    write_bytes: u32,
    noise: Noise,
    handles: Vec<Cell<Option<FileHandle>>>,
    /// How far each client's listing of a directory came: cookie and cookie verifier. There are no more than listings in
    /// the script.
    listings: RefCell<HashMap<Listing, (u64, [u8; 8])>>,
    verifier: Cell<Option<[u8; 8]>>,
    refused: RefCell<BTreeMap<String, u64>>,
}

/// A client's listing of a directory.
type Listing = (usize, Object);

/// What the calls of one group came to.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) calls: u64,
    pub(super) bytes: u64,
    pub(super) latencies: Histogram<u64>,
}

impl Tally {
    pub(super) fn new() -> Result<Self, LoadError> {
        let latencies = Histogram::new_with_bounds(1, limits::LATENCY_NANOSECONDS_MAX, 3);
        Ok(Self {
            calls: 0,
            bytes: 0,
            latencies: latencies
                .map_err(|error| LoadError::Setting(format!("histogram: {error}")))?,
        })
    }

    /// Counts a call that took so many nanoseconds and moved so many bytes.
    pub(super) fn count(&mut self, nanoseconds: u64, bytes: u64) {
        self.calls += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.latencies.saturating_record(nanoseconds.max(1));
    }
}

/// The groups' tallies, in the order of [`Group::ALL`].
pub(super) fn tallies() -> Result<[Tally; 4], LoadError> {
    Ok([Tally::new()?, Tally::new()?, Tally::new()?, Tally::new()?])
}

/// The tally of a group.
pub(super) const fn place_of(group: Group) -> usize {
    match group {
        Group::Read => 0,
        Group::Write => 1,
        Group::Commit => 2,
        Group::Metadata => 3,
    }
}

impl Players {
    /// Goes to the directory, which is empty, with a client for each of the script's.
    pub(super) async fn enter(
        place: &Place,
        script: &Script,
        noise: &Noise,
    ) -> Result<Self, LoadError> {
        let Place::Nfs { url, options } = place else {
            return Err(LoadError::Setting("a replay takes a server".to_owned()));
        };
        let mut clients = Vec::new();
        let mut top = None;
        for connections in &script.clients {
            let mut options = options.clone();
            options.nconnect = u32::try_from(*connections).unwrap_or(1).max(1);
            let told = || LoadError::client(url.host.clone());
            let (client, path) = Client::mount_with(url, &options).await.map_err(told())?;
            if top.is_none() {
                top = Some(client.resolve(&path).await.map_err(told())?.handle);
            }
            clients.push(client);
        }
        let (Some(top), Some(client)) = (top, clients.first()) else {
            return Err(LoadError::Setting("the recording has no client".to_owned()));
        };
        let sizes = client.transfer_sizes();
        let piece = |bytes: u32| bytes.clamp(512, limits::PIECE_BYTES_MAX);
        let memory = limits::READ_MEMORY_BYTES;
        Ok(Self {
            top,
            pool: BufferPool::keeping(Budget::new(memory), memory),
            read_bytes: piece(sizes.read),
            write_bytes: piece(sizes.write),
            noise: noise.clone(),
            handles: script.objects.iter().map(|_| Cell::new(None)).collect(),
            listings: RefCell::default(),
            verifier: Cell::new(None),
            refused: RefCell::default(),
            clients,
        })
    }

    /// Makes what is there when the replay begins; with `is_filled`, files have their bytes.
    pub(super) async fn make(&self, script: &Script, is_filled: bool) -> Result<(), LoadError> {
        let client = self.client(0)?;
        self.check_room(client, script.bytes()).await?;
        for (object, place) in script.objects.iter().enumerate() {
            let Some(size) = place.size else {
                continue;
            };
            let (directory, name) = match place.name {
                // Its directory is made by a call of the replay, which the recording should have shown: it has none.
                Some((directory, name)) => match self.handle(directory) {
                    Some(handle) => (handle, text(name)),
                    None => continue,
                },
                None => (self.top, format!("object-{object}")),
            };
            let name = name.as_bytes();
            let node = match place.form {
                Form::Directory => client.mkdir_in(&directory, name, &mode(0o755)).await,
                Form::Link => {
                    let none = Sattr3::default();
                    client
                        .symlink_in(&directory, name, LINK_TARGET, &none)
                        .await
                }
                Form::File => {
                    let how = CreateHow::Guarded(mode(0o644));
                    client.create_in(&directory, name, &how).await
                }
            };
            let node = node.map_err(LoadError::client("making the files of the recording"))?;
            self.keep(object, node.handle);
            if is_filled && size > 0 && place.form == Form::File {
                self.fill(client, &node.handle, size).await?;
            }
        }
        Ok(())
    }

    /// A recording may come from somebody else: what it says of the size of files must not fill a server.
    async fn check_room(&self, client: &Client, needed: u64) -> Result<(), LoadError> {
        if needed == 0 {
            return Ok(());
        }
        let answer = client.nfs().fsstat(&self.top).await;
        let free = done("FSSTAT", answer)?.abytes;
        match needed <= free / 2 {
            true => Ok(()),
            false => Err(LoadError::Setting(format!(
                "the server has room for {free} bytes, and the files of the recording take {needed}: record with --client \
                 or --export, or name another server"
            ))),
        }
    }

    async fn fill(&self, client: &Client, file: &FileHandle, size: u64) -> Result<(), LoadError> {
        let mut offset = 0;
        while offset < size {
            let len = (size - offset).min(self.write_bytes.into());
            let len = u32::try_from(len).unwrap_or(self.write_bytes);
            let data = self
                .noise
                .at(offset, usize::try_from(len).unwrap_or_default());
            let answer = client
                .nfs()
                .write(file, offset, StableHow::Unstable, data)
                .await;
            let written = done("WRITE", answer)?;
            if written.count == 0 {
                return Err(short(offset, len));
            }
            offset += u64::from(written.count);
        }
        let answer = client.nfs().commit(file, 0, 0).await;
        done("COMMIT", answer).map(drop)
    }

    /// Makes a call and gives the bytes that it moved. One that the server refuses is counted, and goes on.
    pub(super) async fn act(&self, client: usize, act: &Act) -> Result<u64, LoadError> {
        let called = match *act {
            Act::Readdir(directory, goes_on, most) => {
                self.list((client, directory), goes_on, most).await
            }
            _ => self.call(self.client(client)?, act).await,
        };
        let outcome = match called {
            Err(LoadError::Status { doing, status }) => Err(format!("{doing}: {status:?}")),
            Err(LoadError::Client {
                doing,
                error: ClientError::Nfs { status, .. },
            }) => Err(format!("{doing}: {status:?}")),
            Err(error) => return Err(error),
            Ok(None) => Err("what it is on was not made".to_owned()),
            Ok(Some(bytes)) => Ok(bytes),
        };
        outcome.or_else(|words| {
            *self.refused.borrow_mut().entry(words).or_default() += 1;
            Ok(0)
        })
    }

    /// `None` where an object of the call is not there.
    async fn call(&self, client: &Client, act: &Act) -> Result<Option<u64>, LoadError> {
        let nfs = client.nfs();
        let Some(handle) = self.handle(act.on()) else {
            return Ok(None);
        };
        let on = &handle;
        match *act {
            Act::Getattr(_) => done("GETATTR", nfs.getattr(on).await).map(drop)?,
            Act::Access(_) => done("ACCESS", nfs.access(on, ACCESS3_READ).await).map(drop)?,
            Act::Setattr(_) => {
                let answer = nfs.setattr(on, &mode(0o755), None).await;
                done("SETATTR", answer).map(drop)?;
            }
            Act::Resize(_, size) => {
                let size = Sattr3 {
                    size: Some(size),
                    ..Sattr3::default()
                };
                done("SETATTR", nfs.setattr(on, &size, None).await).map(drop)?;
            }
            Act::Lookup(_, name, _) => {
                // That it is missing may be what was recorded.
                let found = nfs.lookup(on, text(name).as_bytes()).await;
                drop(found.map_err(|error| LoadError::Rpc {
                    doing: "LOOKUP",
                    error,
                })?);
            }
            Act::Read(_, offset, len) => return self.read(client, on, offset, len).await.map(Some),
            Act::Write(_, offset, len, how) => {
                return self.write(client, on, (offset, len), how).await.map(Some);
            }
            Act::Commit(_, offset, len) => {
                let verifier = done("COMMIT", nfs.commit(on, offset, len).await)?.verf;
                self.same_verifier(verifier)?;
            }
            Act::Readlink(_) => done("READLINK", nfs.readlink(on).await).map(drop)?,
            Act::Fsstat(_) => done("FSSTAT", nfs.fsstat(on).await).map(drop)?,
            Act::Fsinfo(_) => done("FSINFO", nfs.fsinfo(on).await).map(drop)?,
            Act::Pathconf(_) => done("PATHCONF", nfs.pathconf(on).await).map(drop)?,
            Act::Create(..)
            | Act::Mkdir(..)
            | Act::Remove(..)
            | Act::Rmdir(..)
            | Act::Rename(..)
            | Act::Symlink(..)
            | Act::Link(..) => {
                return self.change(client, on, act).await;
            }
            // `Players::list` makes it.
            Act::Readdir(..) => {}
        }
        Ok(Some(0))
    }

    /// A part of a listing, by a client of a directory. Cookies are each server's own: one that goes on does so where the
    /// part before it ended here.
    async fn list(
        &self,
        listing: Listing,
        goes_on: bool,
        most: u32,
    ) -> Result<Option<u64>, LoadError> {
        let (client, directory) = (self.client(listing.0)?, self.handle(listing.1));
        let Some(directory) = directory else {
            return Ok(None);
        };
        let before = self.listings.borrow().get(&listing).copied();
        let (cookie, verifier) = before.filter(|_| goes_on).unwrap_or_default();
        let nfs = client.nfs();
        let answer = nfs.readdirplus(&directory, cookie, verifier, most / 4, most);
        let listed = done("READDIRPLUS", answer.await)?;
        let last = listed.entries.last().map_or(cookie, |entry| entry.cookie);
        let ended = (last, listed.cookieverf);
        self.listings.borrow_mut().insert(listing, ended);
        Ok(Some(0))
    }

    /// A call that changes names.
    async fn change(
        &self,
        client: &Client,
        on: &FileHandle,
        act: &Act,
    ) -> Result<Option<u64>, LoadError> {
        match *act {
            Act::Create(_, name, made) => {
                let how = CreateHow::Unchecked(mode(0o644));
                let node = client.create_in(on, text(name).as_bytes(), &how).await;
                self.keep(made, node.map_err(LoadError::client("CREATE"))?.handle);
            }
            Act::Mkdir(_, name, made) => {
                let node = client
                    .mkdir_in(on, text(name).as_bytes(), &mode(0o755))
                    .await;
                self.keep(made, node.map_err(LoadError::client("MKDIR"))?.handle);
            }
            Act::Symlink(_, name, made) => {
                let (name, none) = (text(name), Sattr3::default());
                let node = client
                    .symlink_in(on, name.as_bytes(), LINK_TARGET, &none)
                    .await;
                self.keep(made, node.map_err(LoadError::client("SYMLINK"))?.handle);
            }
            Act::Link(_, directory, name) => {
                let Some(directory) = self.handle(directory) else {
                    return Ok(None);
                };
                let linked = client.link_in(on, &directory, text(name).as_bytes()).await;
                linked.map_err(LoadError::client("LINK"))?;
            }
            Act::Remove(_, name, _) => {
                let removed = client.remove_in(on, text(name).as_bytes()).await;
                removed.map_err(LoadError::client("REMOVE"))?;
            }
            Act::Rmdir(_, name, _) => {
                let removed = client.rmdir_in(on, text(name).as_bytes()).await;
                removed.map_err(LoadError::client("RMDIR"))?;
            }
            Act::Rename(_, old, to, new, _) => {
                let Some(to) = self.handle(to) else {
                    return Ok(None);
                };
                let (old, new) = (text(old), text(new));
                match client.nfs().v3() {
                    Some(nfs) => {
                        let answer = nfs.rename(on, old.as_bytes(), &to, new.as_bytes()).await;
                        done("RENAME", answer).map(drop)?;
                    }
                    None => {
                        let renamed = client.rename_in(on, old.as_bytes(), &to, new.as_bytes());
                        renamed.await.map_err(LoadError::client("RENAME"))?;
                    }
                }
            }
            _ => {}
        }
        Ok(Some(0))
    }

    async fn read(
        &self,
        client: &Client,
        file: &FileHandle,
        offset: u64,
        len: u32,
    ) -> Result<u64, LoadError> {
        let mut moved = 0;
        loop {
            let left = len - moved;
            let piece = usize::try_from(left.min(self.read_bytes)).unwrap_or_default();
            let Some(memory) = self.pool.take(piece).await else {
                let asked = "READs of this length do not fit into the memory for them";
                return Err(LoadError::Setting(asked.to_owned()));
            };
            let at = offset + u64::from(moved);
            let answer = client.nfs().read_into(file, at, memory).await;
            let read = u32::try_from(done("READ", answer)?.data.len()).unwrap_or(left);
            moved += read.min(left);
            // Shorter at the end of the file, as it may have been when it was recorded.
            if moved == len || usize::try_from(read).unwrap_or_default() < piece {
                return Ok(moved.into());
            }
        }
    }

    async fn write(
        &self,
        client: &Client,
        file: &FileHandle,
        (offset, len): (u64, u32),
        how: StableHow,
    ) -> Result<u64, LoadError> {
        let mut moved = 0;
        loop {
            let piece = (len - moved).min(self.write_bytes);
            let at = offset + u64::from(moved);
            let data = self
                .noise
                .at(at, usize::try_from(piece).unwrap_or_default());
            let answer = client.nfs().write(file, at, how, data).await;
            let written = done("WRITE", answer)?;
            if how == StableHow::Unstable {
                self.same_verifier(written.verf)?;
            }
            moved += written.count.min(piece);
            if moved == len {
                return Ok(moved.into());
            }
            if written.count == 0 {
                return Err(short(at, piece));
            }
        }
    }

    /// A server that began anew has lost what was not committed, and its times are not those of one that works.
    fn same_verifier(&self, verifier: [u8; 8]) -> Result<(), LoadError> {
        match self.verifier.replace(Some(verifier)) {
            Some(before) if before != verifier => Err(LoadError::VerifierChanged),
            _ => Ok(()),
        }
    }

    /// Ends the sessions; what was refused, and how often.
    pub(super) async fn leave(self) -> BTreeMap<String, u64> {
        for client in self.clients {
            // Whether the server takes our leave does not matter to what was measured.
            let _told = client.unmount().await;
        }
        self.refused.into_inner()
    }

    fn client(&self, number: usize) -> Result<&Client, LoadError> {
        let none = || LoadError::Setting("the recording has no client".to_owned());
        self.clients
            .get(number % self.clients.len().max(1))
            .ok_or_else(none)
    }

    fn handle(&self, object: Object) -> Option<FileHandle> {
        self.handles.get(object)?.get()
    }

    fn keep(&self, object: Object, handle: FileHandle) {
        if let Some(place) = self.handles.get(object) {
            place.set(Some(handle));
        }
    }
}

fn text(name: Name) -> String {
    format!("name-{name}")
}

fn short(offset: u64, len: u32) -> LoadError {
    LoadError::Short {
        doing: "WRITE",
        offset,
        asked: usize::try_from(len).unwrap_or(usize::MAX),
        moved: 0,
    }
}
