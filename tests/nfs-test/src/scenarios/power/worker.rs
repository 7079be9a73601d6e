//! One sequence of calls, each checked against the reply it got and noted in a model.

use std::collections::BTreeMap;
use std::rc::Rc;

use anyhow::{Context as _, Result, anyhow};
use fastrand::Rng;
use nfs_client::Nfs3;
use nfs_client::nfs3::Outcome;
use nfs_wire::nfs3::{
    CreateHow, CreateOk, FileHandle, Mknoddata, Nfstime3, PipeData, Sattr3, SetTime, StableHow,
};

use super::content::Content;
use super::model::{Change, Kind, Model, Object, Place};
use super::traffic::Traffic;

/// One kind of step: a row of the durability table, or part of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// WRITEs of every shape: whole pages, odd ends, records, behind the end, into holes.
    WriteFileSync,
    WriteDataSync,
    WriteUnstable,
    WriteThenCommit,
    /// A WRITE of whole pages into a hole or behind the end: in direct mode all of it goes past the page
    /// cache, and what it allocates is put on stable storage by nothing else.
    PagesDataSync,
    /// A WRITE over data that is on stable storage: no size and no allocation is put there with it,
    /// which would carry the timestamps along.
    OverwriteFileSync,
    OverwriteDataSync,
    /// Neighbouring records, all on their way at once.
    RecordsFileSync,
    RecordsThenCommit,
    /// Not a change: what was written is read.
    Read,
    CreateUnchecked,
    CreateGuarded,
    CreateExclusive,
    Mkdir,
    Symlink,
    Mknod,
    Link,
    Remove,
    Rmdir,
    Rename,
    RenameOver,
    RenameAcross,
    SetMode,
    SetOwner,
    SetSize,
    SetTimes,
}

impl Act {
    /// The acts that move a file's bytes, in the export's I/O mode.
    pub(super) const DATA: &[Self] = &[
        Self::WriteFileSync,
        Self::WriteDataSync,
        Self::WriteUnstable,
        Self::WriteThenCommit,
        Self::PagesDataSync,
        Self::OverwriteFileSync,
        Self::OverwriteDataSync,
        Self::RecordsFileSync,
        Self::RecordsThenCommit,
        Self::Read,
    ];

    /// Whether the act sends WRITEs.
    pub(super) fn writes(self) -> bool {
        Self::DATA.contains(&self) && self != Self::Read
    }

    /// The acts that move no file's bytes.
    pub(super) const OTHER: &[Self] = &[
        Self::CreateUnchecked,
        Self::CreateGuarded,
        Self::CreateExclusive,
        Self::Mkdir,
        Self::Symlink,
        Self::Mknod,
        Self::Link,
        Self::Remove,
        Self::Rmdir,
        Self::Rename,
        Self::RenameOver,
        Self::RenameAcross,
        Self::SetMode,
        Self::SetOwner,
        Self::SetSize,
        Self::SetTimes,
    ];

    /// The acts that change names only: no data is synced on their behalf.
    pub(super) const NAMES: &[Self] = &[
        Self::CreateUnchecked,
        Self::CreateGuarded,
        Self::CreateExclusive,
        Self::Mkdir,
        Self::Symlink,
        Self::Mknod,
        Self::Link,
        Self::Remove,
        Self::Rmdir,
        Self::Rename,
        Self::RenameOver,
        Self::RenameAcross,
    ];
}

/// One sequence of random calls, with the model of what they have done.
pub(super) struct Worker {
    pub(super) nfs: Nfs3,
    /// The two directories that the sequence works in.
    pub(super) dirs: [FileHandle; 2],
    pub(super) model: Model,
    pub(super) handles: BTreeMap<u64, FileHandle>,
    /// The calls that were under way when the power went.
    pub(super) under_way: Vec<Change>,
    /// The server's write verifier as it was last seen.
    pub(super) verifier: Option<[u8; 8]>,
    /// An object that was removed, by the handle it had.
    pub(super) removed: Option<FileHandle>,
    /// The least that each WRITE has to be answered.
    pub(super) floor: StableHow,
    pub(super) random: Rng,
    next: u64,
    pub(super) traffic: Rc<Traffic>,
}

impl Worker {
    /// A worker on directories that hold what `model` says, of a server that makes every WRITE at least
    /// as stable as `floor`.
    pub(super) fn new(
        nfs: Nfs3,
        dirs: [FileHandle; 2],
        model: Model,
        handles: BTreeMap<u64, FileHandle>,
        floor: StableHow,
        random: Rng,
        traffic: Rc<Traffic>,
    ) -> Self {
        let next = 1 + model.objects.keys().copied().max().unwrap_or(0);
        Self {
            nfs,
            dirs,
            model,
            handles,
            under_way: Vec::new(),
            verifier: None,
            removed: None,
            floor,
            random,
            next,
            traffic,
        }
    }

    /// Goes on with acts of these kinds until the power is cut or `steps` are done.
    ///
    /// # Errors
    /// When a call fails before the cut, is not answered at all, or its reply breaks a promise.
    pub(super) async fn work(&mut self, acts: &[Act], steps: u32) -> Result<()> {
        for _ in 0..steps {
            let act = acts[self.random.usize(..acts.len())];
            self.act(act).await.with_context(|| format!("{act:?}"))?;
            if self.traffic.cut() {
                break;
            }
        }
        Ok(())
    }

    async fn act(&mut self, act: Act) -> Result<()> {
        match act {
            Act::WriteFileSync => self.write(StableHow::FileSync).await,
            Act::WriteDataSync => self.write(StableHow::DataSync).await,
            Act::WriteUnstable => self.write(StableHow::Unstable).await,
            Act::WriteThenCommit => self.write_then_commit().await,
            Act::PagesDataSync => self.write_pages(StableHow::DataSync).await,
            Act::OverwriteFileSync => self.overwrite(StableHow::FileSync).await,
            Act::OverwriteDataSync => self.overwrite(StableHow::DataSync).await,
            Act::RecordsFileSync => self.records(StableHow::FileSync).await,
            Act::RecordsThenCommit => self.records(StableHow::Unstable).await,
            Act::Read => self.read().await,
            Act::CreateUnchecked | Act::CreateGuarded | Act::CreateExclusive => {
                self.create(act).await
            }
            Act::Mkdir | Act::Symlink | Act::Mknod => self.make(act).await,
            Act::Link => self.link().await,
            Act::Remove => self.remove(false).await,
            Act::Rmdir => self.remove(true).await,
            Act::Rename | Act::RenameOver | Act::RenameAcross => self.rename(act).await,
            Act::SetMode | Act::SetOwner | Act::SetTimes => self.set_attribute(act).await,
            Act::SetSize => self.set_size().await,
        }
    }

    /// Notes `change` as under way, makes the call, and applies the change when it is acknowledged;
    /// `None` when the power went meanwhile.
    pub(super) async fn call<T, F>(
        &mut self,
        change: Change,
        call: impl Future<Output = Outcome<T, F>>,
    ) -> Result<Option<T>> {
        self.under_way = vec![change.clone()];
        match self.traffic.counted(call.await)? {
            None => Ok(None),
            Some(Ok(ok)) => {
                self.model.apply(&change);
                self.under_way.clear();
                Ok(Some(ok))
            }
            Some(Err(failure)) => Err(anyhow!("{:?} for {change:?}", failure.status)),
        }
    }

    async fn create(&mut self, act: Act) -> Result<()> {
        let place = self.new_place("f");
        let id = self.fresh();
        let kind = Kind::File(Content::default());
        let (how, object) = match act {
            Act::CreateExclusive => (
                CreateHow::Exclusive(id.to_be_bytes()),
                Object::new(kind, None, Some((0, 0))),
            ),
            Act::CreateGuarded => {
                let mut object = Object::new(kind, Some(0o640), Some((501, 502)));
                let mtime = Nfstime3 {
                    seconds: 1_000_000,
                    nseconds: 42,
                };
                object.mtime = Some(mtime);
                let attributes = Sattr3 {
                    mode: Some(0o640),
                    uid: Some(501),
                    gid: Some(502),
                    mtime: SetTime::ClientTime(mtime),
                    ..nothing()
                };
                (CreateHow::Guarded(attributes), object)
            }
            _ => {
                let attributes = Sattr3 {
                    mode: Some(0o604),
                    ..nothing()
                };
                (
                    CreateHow::Unchecked(attributes),
                    Object::new(kind, Some(0o604), Some((0, 0))),
                )
            }
        };
        let nfs = self.nfs.clone();
        let dir = self.dirs[place.0];
        let change = Change::New {
            place: place.clone(),
            id,
            object,
        };
        let made = self
            .call(change, nfs.create(&dir, place.1.as_bytes(), &how))
            .await?;
        self.remember(id, made.as_ref())
    }

    async fn make(&mut self, act: Act) -> Result<()> {
        let nfs = self.nfs.clone();
        let id = self.fresh();
        let attributes = Sattr3 {
            mode: Some(0o750),
            ..nothing()
        };
        let made = match act {
            Act::Mkdir => {
                let place = self.new_place("d");
                let object = Object::new(Kind::Dir, Some(0o750), Some((0, 0)));
                let change = Change::New {
                    place: place.clone(),
                    id,
                    object,
                };
                let dir = self.dirs[place.0];
                self.call(change, nfs.mkdir(&dir, place.1.as_bytes(), &attributes))
                    .await?
            }
            Act::Symlink => {
                let place = self.new_place("s");
                let target = "t".repeat(1 + self.random.usize(..300)).into_bytes();
                let object = Object::new(Kind::Symlink(target.clone()), None, Some((0, 0)));
                let change = Change::New {
                    place: place.clone(),
                    id,
                    object,
                };
                let dir = self.dirs[place.0];
                let plain = nothing();
                let call = nfs.symlink(&dir, place.1.as_bytes(), &plain, &target);
                self.call(change, call).await?
            }
            _ => {
                let place = self.new_place("p");
                let object = Object::new(Kind::Fifo, Some(0o750), Some((0, 0)));
                let change = Change::New {
                    place: place.clone(),
                    id,
                    object,
                };
                let what = Mknoddata::Fifo(PipeData {
                    pipe_attributes: attributes,
                });
                let dir = self.dirs[place.0];
                self.call(change, nfs.mknod(&dir, place.1.as_bytes(), &what))
                    .await?
            }
        };
        self.remember(id, made.as_ref())
    }

    fn remember(&mut self, id: u64, made: Option<&CreateOk>) -> Result<()> {
        if let Some(made) = made {
            self.handles
                .insert(id, made.obj.context("a reply without the new handle")?);
        }
        Ok(())
    }

    async fn link(&mut self) -> Result<()> {
        let Some(id) = self.pick(|kind| matches!(kind, Kind::File(_))) else {
            return Ok(());
        };
        let place = self.new_place("l");
        let nfs = self.nfs.clone();
        let (handle, dir) = (self.handles[&id], self.dirs[place.0]);
        let change = Change::Link {
            place: place.clone(),
            id,
        };
        self.call(change, nfs.link(&handle, &dir, place.1.as_bytes()))
            .await
            .map(drop)
    }

    async fn remove(&mut self, directory: bool) -> Result<()> {
        let wanted = |kind: &Kind| matches!(kind, Kind::Dir) == directory;
        let Some(place) = self.pick_place(wanted) else {
            return Ok(());
        };
        let id = self.model.names[&place];
        let nfs = self.nfs.clone();
        let dir = self.dirs[place.0];
        let change = Change::Remove {
            place: place.clone(),
        };
        let done = if directory {
            self.call(change, nfs.rmdir(&dir, place.1.as_bytes()))
                .await?
        } else {
            self.call(change, nfs.remove(&dir, place.1.as_bytes()))
                .await?
        };
        if done.is_some() && self.model.links(id) == 0 {
            self.removed = self.handles.remove(&id);
        }
        Ok(())
    }

    async fn rename(&mut self, act: Act) -> Result<()> {
        let file = |kind: &Kind| matches!(kind, Kind::File(_));
        let from = if act == Act::RenameOver {
            self.pick_place(file)
        } else {
            self.pick_place(|_| true)
        };
        let Some(from) = from else { return Ok(()) };
        let to = match act {
            Act::RenameOver => {
                let Some(to) = self.pick_place(file) else {
                    return Ok(());
                };
                // Two names of one object: RENAME does nothing (RFC 1813 §3.3.14).
                if self.model.names[&to] == self.model.names[&from] {
                    return Ok(());
                }
                to
            }
            Act::RenameAcross => (1 - from.0, self.new_place("r").1),
            _ => (from.0, self.new_place("r").1),
        };
        let replaced = self.model.names.get(&to).copied();
        let nfs = self.nfs.clone();
        let dirs = self.dirs;
        let change = Change::Rename {
            from: from.clone(),
            to: to.clone(),
        };
        let call = nfs.rename(
            &dirs[from.0],
            from.1.as_bytes(),
            &dirs[to.0],
            to.1.as_bytes(),
        );
        let done = self.call(change, call).await?;
        if let Some(id) = replaced
            && done.is_some()
            && self.model.links(id) == 0
        {
            self.removed = self.handles.remove(&id);
        }
        Ok(())
    }

    async fn set_attribute(&mut self, act: Act) -> Result<()> {
        let wanted = |kind: &Kind| !matches!(kind, Kind::Symlink(_));
        let Some(id) = self.pick(wanted) else {
            return Ok(());
        };
        let (change, attributes) = match act {
            Act::SetMode => {
                let mode = (self.random.u64(..0o1000) as u32) | 0o200;
                (
                    Change::Mode { object: id, mode },
                    Sattr3 {
                        mode: Some(mode),
                        ..nothing()
                    },
                )
            }
            Act::SetOwner => {
                let owner = (
                    self.random.u64(..60_000) as u32,
                    self.random.u64(..60_000) as u32,
                );
                let (uid, gid) = (Some(owner.0), Some(owner.1));
                (
                    Change::Owner { object: id, owner },
                    Sattr3 {
                        uid,
                        gid,
                        ..nothing()
                    },
                )
            }
            _ => {
                let mtime = Nfstime3 {
                    seconds: self.random.u64(..2_000_000_000) as u32,
                    nseconds: self.random.u64(..1_000_000_000) as u32,
                };
                let set = SetTime::ClientTime(mtime);
                (
                    Change::Mtime { object: id, mtime },
                    Sattr3 {
                        mtime: set,
                        ..nothing()
                    },
                )
            }
        };
        let nfs = self.nfs.clone();
        let handle = self.handles[&id];
        if let Some(wcc) = self
            .call(change, nfs.setattr(&handle, &attributes, None))
            .await?
        {
            self.note_times(id, &wcc, false);
        }
        Ok(())
    }

    pub(super) fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn new_place(&mut self, prefix: &str) -> Place {
        let number = self.fresh();
        // Names of all lengths: long ones grow the directory.
        let padding = "-".repeat(self.random.usize(..60));
        (self.random.usize(..2), format!("{prefix}{number}{padding}"))
    }

    /// Picks any object of a `wanted` kind that this worker has the handle of.
    pub(super) fn pick(&mut self, wanted: impl Fn(&Kind) -> bool) -> Option<u64> {
        let ids: Vec<u64> = self
            .model
            .objects
            .iter()
            .filter(|(id, object)| wanted(&object.kind) && self.handles.contains_key(id))
            .map(|(id, _)| *id)
            .collect();
        (!ids.is_empty()).then(|| ids[self.random.usize(..ids.len())])
    }

    fn pick_place(&mut self, wanted: impl Fn(&Kind) -> bool) -> Option<Place> {
        let places: Vec<&Place> = self
            .model
            .names
            .iter()
            .filter(|(_, id)| self.model.objects.get(id).is_some_and(|o| wanted(&o.kind)))
            .map(|(place, _)| place)
            .collect();
        (!places.is_empty()).then(|| places[self.random.usize(..places.len())].clone())
    }
}

/// Attributes for a call that shall change none of them.
pub(super) const fn nothing() -> Sattr3 {
    Sattr3 {
        mode: None,
        uid: None,
        gid: None,
        size: None,
        atime: SetTime::DontChange,
        mtime: SetTime::DontChange,
    }
}
