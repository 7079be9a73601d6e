//! What the double keeps: a file tree in memory that knows what is on stable storage and what is not.

use std::collections::BTreeMap;

use nfs_client::nfs3::{
    Fattr3, FileHandle, Ftype3, Nfsstat3, Nfstime3, Sattr3, SetTime, Specdata3, StableHow, WccAttr,
    WccData,
};

use super::chance::Chance;

pub(crate) type Id = u64;
type Answer<T> = Result<T, Nfsstat3>;

pub(crate) const ROOT: Id = 1;

#[derive(Debug)]
pub(crate) struct Store {
    nodes: BTreeMap<Id, Node>,
    next: Id,
    /// Each change has a time of its own.
    clock: u32,
    pub(crate) verifier: u64,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    mode: u32,
    uid: u32,
    gid: u32,
    nlink: u32,
    atime: Nfstime3,
    mtime: Nfstime3,
    ctime: Nfstime3,
    /// The verifier of an exclusive CREATE that made it.
    exclusive: Option<[u8; 8]>,
}

#[derive(Debug)]
pub(crate) enum Kind {
    File(Content),
    Dir(BTreeMap<Vec<u8>, Id>),
    Link(Vec<u8>),
}

/// The bytes of a file.
#[derive(Debug)]
pub(crate) struct Content {
    /// The bytes that READ gives.
    pub(crate) now: Vec<u8>,
    /// What is left after a power cut.
    pub(crate) stable: Vec<u8>,
    /// What was written since the last COMMIT, in order: where, what, and whether it is stable.
    written: Vec<(usize, Vec<u8>, bool)>,
    /// The lengths of `now` after each change so far, in order, beginning with that of the new file; bytes.
    pub(crate) sizes: Vec<usize>,
}

impl Default for Content {
    /// A new file, which is empty.
    fn default() -> Self {
        Self {
            now: Vec::new(),
            stable: Vec::new(),
            written: Vec::new(),
            sizes: vec![0],
        }
    }
}

impl Content {
    fn write(&mut self, offset: usize, data: &[u8], stable: bool) {
        put(&mut self.now, offset, data);
        if stable {
            put(&mut self.stable, offset, data);
        }
        self.written.push((offset, data.to_vec(), stable));
        self.sizes.push(self.now.len());
    }

    fn commit(&mut self) {
        self.stable.clone_from(&self.now);
        self.written.clear();
    }

    fn set_len(&mut self, len: usize) {
        self.now.resize(len, 0);
        // The length is an attribute, and stable at once; unstable bytes beyond it are gone for good.
        self.stable.resize(len, 0);
        for (offset, data, _) in &mut self.written {
            data.truncate(len.saturating_sub(*offset));
        }
        self.sizes.push(len);
    }

    /// Some of what was not stable came to the disk all the same, in the order it was written.
    fn lose(&mut self, chance: &mut Chance) {
        for (offset, data, stable) in std::mem::take(&mut self.written) {
            if stable || chance.one_in(3) {
                put(&mut self.stable, offset, &data);
            }
        }
        self.now.clone_from(&self.stable);
        self.sizes.push(self.now.len());
    }
}

fn put(bytes: &mut Vec<u8>, offset: usize, data: &[u8]) {
    let end = offset + data.len();
    if bytes.len() < end && !data.is_empty() {
        bytes.resize(end, 0);
    }
    if let Some(place) = bytes.get_mut(offset..end) {
        place.copy_from_slice(data);
    }
}

impl Store {
    pub(crate) fn new() -> Self {
        let mut store = Self {
            nodes: BTreeMap::new(),
            next: ROOT,
            clock: 0,
            verifier: 1,
        };
        store.insert(Kind::Dir(BTreeMap::new()), &Sattr3::default(), 0o755);
        store
    }

    /// The power is cut: what is not stable is lost, or not.
    pub(crate) fn restart(&mut self, chance: &mut Chance) {
        self.verifier += 1;
        for node in self.nodes.values_mut() {
            if let Kind::File(content) = &mut node.kind {
                content.lose(chance);
            }
        }
    }

    pub(crate) fn handle(id: Id) -> FileHandle {
        FileHandle::new(&[b"double--", id.to_be_bytes().as_slice()].concat()).unwrap()
    }

    pub(crate) fn id(&self, handle: &FileHandle) -> Answer<Id> {
        let bytes = handle.as_ref().strip_prefix(b"double--");
        let id = bytes
            .and_then(|bytes| bytes.try_into().ok())
            .map(Id::from_be_bytes);
        let id = id.ok_or(Nfsstat3::Badhandle)?;
        match self.nodes.contains_key(&id) {
            true => Ok(id),
            false => Err(Nfsstat3::Stale),
        }
    }

    pub(crate) fn node(&self, id: Id) -> &Node {
        &self.nodes[&id]
    }

    pub(crate) fn dir(&self, id: Id) -> Answer<&BTreeMap<Vec<u8>, Id>> {
        match &self.nodes[&id].kind {
            Kind::Dir(entries) => Ok(entries),
            _ => Err(Nfsstat3::Notdir),
        }
    }

    fn dir_mut(&mut self, id: Id) -> Answer<&mut BTreeMap<Vec<u8>, Id>> {
        match &mut self.nodes.get_mut(&id).unwrap().kind {
            Kind::Dir(entries) => Ok(entries),
            _ => Err(Nfsstat3::Notdir),
        }
    }

    pub(crate) fn content(&self, id: Id) -> Answer<&Content> {
        match &self.nodes[&id].kind {
            Kind::File(content) => Ok(content),
            Kind::Dir(_) => Err(Nfsstat3::Isdir),
            Kind::Link(_) => Err(Nfsstat3::Inval),
        }
    }

    fn content_mut(&mut self, id: Id) -> Answer<&mut Content> {
        match &mut self.nodes.get_mut(&id).unwrap().kind {
            Kind::File(content) => Ok(content),
            Kind::Dir(_) => Err(Nfsstat3::Isdir),
            Kind::Link(_) => Err(Nfsstat3::Inval),
        }
    }

    pub(crate) fn lookup(&self, dir: Id, name: &[u8]) -> Answer<Id> {
        self.dir(dir)?.get(name).copied().ok_or(Nfsstat3::Noent)
    }

    /// A path's object, for the tests.
    pub(crate) fn at(&self, path: &str) -> Option<Id> {
        path.split('/')
            .filter(|name| !name.is_empty())
            .try_fold(ROOT, |dir, name| self.lookup(dir, name.as_bytes()).ok())
    }

    pub(crate) fn attributes(&self, id: Id) -> Fattr3 {
        let node = &self.nodes[&id];
        let (ftype, size) = match &node.kind {
            Kind::File(content) => (Ftype3::Reg, content.now.len() as u64),
            Kind::Dir(entries) => (Ftype3::Dir, 100 + entries.len() as u64),
            Kind::Link(target) => (Ftype3::Lnk, target.len() as u64),
        };
        Fattr3 {
            ftype,
            mode: node.mode,
            nlink: node.nlink,
            uid: node.uid,
            gid: node.gid,
            size,
            used: size.next_multiple_of(512),
            rdev: Specdata3 { major: 0, minor: 0 },
            fsid: 77,
            fileid: id,
            atime: node.atime,
            mtime: node.mtime,
            ctime: node.ctime,
        }
    }

    pub(crate) fn before(&self, id: Id) -> WccAttr {
        let now = self.attributes(id);
        WccAttr {
            size: now.size,
            mtime: now.mtime,
            ctime: now.ctime,
        }
    }

    pub(crate) fn wcc(&self, id: Id, before: WccAttr) -> WccData {
        WccData {
            before: Some(before),
            after: Some(self.attributes(id)),
        }
    }

    pub(crate) fn insert(&mut self, kind: Kind, new: &Sattr3, mode: u32) -> Id {
        let id = self.next;
        self.next += 1;
        let now = self.tick();
        let is_dir = matches!(kind, Kind::Dir(_));
        let node = Node {
            kind,
            mode,
            uid: 0,
            gid: 0,
            nlink: if is_dir { 2 } else { 1 },
            atime: now,
            mtime: now,
            ctime: now,
            exclusive: None,
        };
        self.nodes.insert(id, node);
        self.set(id, new);
        id
    }

    /// Makes an entry; `exclusive` is the verifier of an exclusive CREATE.
    pub(crate) fn make(
        &mut self,
        dir: Id,
        name: &[u8],
        kind: Kind,
        new: &Sattr3,
        exclusive: Option<[u8; 8]>,
    ) -> Answer<Id> {
        if let Ok(there) = self.lookup(dir, name) {
            let same = exclusive.is_some() && self.nodes[&there].exclusive == exclusive;
            return if same {
                Ok(there)
            } else {
                Err(Nfsstat3::Exist)
            };
        }
        self.dir(dir)?;
        let mode = if matches!(kind, Kind::Dir(_)) {
            0o755
        } else {
            0o644
        };
        let id = self.insert(kind, new, mode);
        self.nodes.get_mut(&id).unwrap().exclusive = exclusive;
        self.dir_mut(dir)?.insert(name.to_vec(), id);
        self.touch(dir);
        Ok(id)
    }

    pub(crate) fn remove(&mut self, dir: Id, name: &[u8], is_rmdir: bool) -> Answer<()> {
        let id = self.lookup(dir, name)?;
        match (&self.nodes[&id].kind, is_rmdir) {
            (Kind::Dir(_), false) => return Err(Nfsstat3::Isdir),
            (Kind::Dir(entries), true) if !entries.is_empty() => return Err(Nfsstat3::Notempty),
            (Kind::File(_) | Kind::Link(_), true) => return Err(Nfsstat3::Notdir),
            _ => {}
        }
        self.dir_mut(dir)?.remove(name);
        self.touch(dir);
        let node = self.nodes.get_mut(&id).unwrap();
        node.nlink -= 1;
        if node.nlink == 0 || is_rmdir {
            self.nodes.remove(&id);
        }
        Ok(())
    }

    pub(crate) fn rename(&mut self, from: (Id, &[u8]), to: (Id, &[u8])) -> Answer<()> {
        let id = self.lookup(from.0, from.1)?;
        match self.lookup(to.0, to.1) {
            Ok(there) if there == id => return Ok(()),
            Ok(there) => {
                let is_dir = matches!(self.nodes[&there].kind, Kind::Dir(_));
                self.remove(to.0, to.1, is_dir)?;
            }
            Err(_) => {}
        }
        self.dir_mut(from.0)?.remove(from.1);
        self.dir_mut(to.0)?.insert(to.1.to_vec(), id);
        self.touch(from.0);
        self.touch(to.0);
        Ok(())
    }

    pub(crate) fn link(&mut self, file: Id, dir: Id, name: &[u8]) -> Answer<()> {
        if self.lookup(dir, name).is_ok() {
            return Err(Nfsstat3::Exist);
        }
        self.dir_mut(dir)?.insert(name.to_vec(), file);
        let now = self.tick();
        let node = self.nodes.get_mut(&file).unwrap();
        node.nlink += 1;
        node.ctime = now;
        self.touch(dir);
        Ok(())
    }

    pub(crate) fn write(
        &mut self,
        id: Id,
        offset: u64,
        data: &[u8],
        stable: StableHow,
    ) -> Answer<()> {
        let offset = usize::try_from(offset).map_err(|_| Nfsstat3::Fbig)?;
        self.content_mut(id)?
            .write(offset, data, stable != StableHow::Unstable);
        self.touch(id);
        Ok(())
    }

    pub(crate) fn commit(&mut self, id: Id) -> Answer<()> {
        self.content_mut(id)?.commit();
        Ok(())
    }

    pub(crate) fn set(&mut self, id: Id, new: &Sattr3) {
        let now = self.tick();
        let node = self.nodes.get_mut(&id).unwrap();
        node.mode = new.mode.unwrap_or(node.mode);
        node.uid = new.uid.unwrap_or(node.uid);
        node.gid = new.gid.unwrap_or(node.gid);
        if let (Some(size), Kind::File(content)) = (new.size, &mut node.kind) {
            content.set_len(usize::try_from(size).unwrap());
            node.mtime = now;
        }
        let time = |old, how| match how {
            SetTime::DontChange => old,
            SetTime::ServerTime => now,
            SetTime::ClientTime(time) => time,
        };
        node.atime = time(node.atime, new.atime);
        node.mtime = time(node.mtime, new.mtime);
        node.ctime = now;
    }

    fn touch(&mut self, id: Id) {
        let now = self.tick();
        let node = self.nodes.get_mut(&id).unwrap();
        (node.mtime, node.ctime) = (now, now);
    }

    fn tick(&mut self) -> Nfstime3 {
        self.clock += 1;
        Nfstime3 {
            seconds: 1_700_000_000 + self.clock / 1000,
            nseconds: self.clock % 1000 * 1_000_000,
        }
    }
}
