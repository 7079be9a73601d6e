//! One sequence of calls, each checked against the reply it got and noted in a model.

use std::collections::BTreeMap;
use std::rc::Rc;

use anyhow::{Context as _, Result, anyhow, ensure};
use bytes::Bytes;
use nfs_client::Nfs3;
use nfs_client::nfs3::Outcome;
use nfs_wire::nfs3::{
    CreateHow, CreateOk, FileHandle, Mknoddata, Nfstime3, PipeData, Sattr3, SetTime, StableHow,
    WccData,
};

use super::model::{Change, Content, Kind, Model, Object, Place, SLOT, SLOTS};
use super::traffic::Traffic;
use crate::pattern;
use crate::random::Random;

/// One kind of step: a row of the durability table, or part of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    WriteFileSync,
    WriteDataSync,
    WriteUnstable,
    WriteThenCommit,
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
    pub(super) const ALL: &[Self] = &[
        Self::WriteFileSync,
        Self::WriteDataSync,
        Self::WriteUnstable,
        Self::WriteThenCommit,
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

    /// Those that change names only: no data is synced on their behalf.
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

/// The sequence.
pub(super) struct Worker {
    nfs: Nfs3,
    /// The two directories it works in.
    pub(super) dirs: [FileHandle; 2],
    pub(super) model: Model,
    pub(super) handles: BTreeMap<u64, FileHandle>,
    /// The call that was under way when the power went.
    pub(super) under_way: Option<Change>,
    /// The server's write verifier, as last seen.
    pub(super) verifier: Option<[u8; 8]>,
    /// An object that was removed, by the handle it had.
    pub(super) removed: Option<FileHandle>,
    random: Random,
    next: u64,
    traffic: Rc<Traffic>,
}

impl Worker {
    /// A worker on directories that hold what `model` says.
    pub(super) fn new(
        nfs: Nfs3,
        dirs: [FileHandle; 2],
        model: Model,
        handles: BTreeMap<u64, FileHandle>,
        random: Random,
        traffic: Rc<Traffic>,
    ) -> Self {
        let next = 1 + model.objects.keys().copied().max().unwrap_or(0);
        Self {
            nfs,
            dirs,
            model,
            handles,
            under_way: None,
            verifier: None,
            removed: None,
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
            let act = acts[self.random.index(acts.len())];
            self.act(act).await.with_context(|| format!("{act:?}"))?;
            if self.traffic.cut() {
                break;
            }
        }
        Ok(())
    }

    async fn act(&mut self, act: Act) -> Result<()> {
        match act {
            Act::WriteFileSync => self.write(StableHow::FileSync).await.map(drop),
            Act::WriteDataSync => self.write(StableHow::DataSync).await.map(drop),
            Act::WriteUnstable => self.write(StableHow::Unstable).await.map(drop),
            Act::WriteThenCommit => self.write_then_commit().await,
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
    async fn call<T, F>(
        &mut self,
        change: Change,
        call: impl Future<Output = Outcome<T, F>>,
    ) -> Result<Option<T>> {
        self.under_way = Some(change.clone());
        let reply = call.await;
        if self.traffic.may_be_silent() {
            return Ok(None);
        }
        let reply = reply.context("no reply")?;
        if self.traffic.cut() {
            return Ok(None);
        }
        match reply {
            Ok(ok) => {
                self.model.apply(&change);
                self.under_way = None;
                self.traffic.acknowledged();
                Ok(Some(ok))
            }
            Err(failure) => Err(anyhow!("{:?} for {change:?}", failure.status)),
        }
    }

    async fn write(&mut self, how: StableHow) -> Result<Option<u64>> {
        let Some(id) = self.pick(|kind| matches!(kind, Kind::File(_))) else {
            return Ok(None);
        };
        let nfs = self.nfs.clone();
        let handle = self.handles[&id];
        let first = self.random.index(SLOTS);
        let count = 1 + self.random.index((SLOTS - first).min(4));
        let tag = self.fresh();
        let stable = how != StableHow::Unstable;
        let change = Change::Write {
            object: id,
            first,
            count,
            tag,
            stable,
        };
        let offset = first as u64 * SLOT;
        let data = Bytes::from(pattern::bytes(tag, offset, count * SLOT as usize));
        let len = data.len();
        let Some(ok) = self
            .call(change, nfs.write(&handle, offset, how, data))
            .await?
        else {
            return Ok(None);
        };
        ensure!(
            ok.count as usize == len,
            "{} of {len} bytes written",
            ok.count
        );
        ensure!(
            ok.committed as u32 >= how as u32,
            "{:?} for {how:?}",
            ok.committed
        );
        let before = *self.verifier.get_or_insert(ok.verf);
        ensure!(
            before == ok.verf,
            "the verifier changed while the server ran"
        );
        if how == StableHow::FileSync {
            self.note_times(id, &ok.file_wcc, true);
        }
        Ok(Some(id))
    }

    async fn write_then_commit(&mut self) -> Result<()> {
        let Some(id) = self.write(StableHow::Unstable).await? else {
            return Ok(());
        };
        let whole = self.random.below(2) == 0;
        let first = if whole { 0 } else { self.random.index(SLOTS) };
        let count = SLOTS - first;
        let nfs = self.nfs.clone();
        let handle = self.handles[&id];
        let change = Change::Commit {
            object: id,
            first,
            count,
        };
        // A count of 0 means to the end of the file (RFC 1813 §3.3.21).
        let bytes = if whole {
            0
        } else {
            (count as u64 * SLOT) as u32
        };
        let commit = nfs.commit(&handle, first as u64 * SLOT, bytes);
        if let Some(ok) = self.call(change, commit).await? {
            ensure!(
                self.verifier == Some(ok.verf),
                "COMMIT has another verifier than WRITE"
            );
        }
        Ok(())
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
                let target = "t".repeat(1 + self.random.index(300)).into_bytes();
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
                let mode = (self.random.below(0o1000) as u32) | 0o200;
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
                    self.random.below(60_000) as u32,
                    self.random.below(60_000) as u32,
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
                    seconds: self.random.below(2_000_000_000) as u32,
                    nseconds: self.random.below(1_000_000_000) as u32,
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

    async fn set_size(&mut self) -> Result<()> {
        let Some(id) = self.pick(|kind| matches!(kind, Kind::File(_))) else {
            return Ok(());
        };
        let slots = self.random.index(SLOTS + 1);
        let attributes = Sattr3 {
            size: Some(slots as u64 * SLOT),
            ..nothing()
        };
        let nfs = self.nfs.clone();
        let handle = self.handles[&id];
        let change = Change::Resize { object: id, slots };
        if let Some(wcc) = self
            .call(change, nfs.setattr(&handle, &attributes, None))
            .await?
        {
            self.note_times(id, &wcc, true);
        }
        Ok(())
    }

    /// The reply's times are a promise. `mtime` too only where the call has to have moved it:
    /// after unstable writes it may be newer in memory than anything promised.
    fn note_times(&mut self, id: u64, wcc: &WccData, mtime: bool) {
        let (Some(object), Some(after)) = (self.model.objects.get_mut(&id), wcc.after) else {
            return;
        };
        object.ctime = Some(after.ctime);
        if mtime {
            object.mtime = Some(after.mtime);
        }
    }

    /// What a client does that sees another verifier: sends again all that no COMMIT has covered,
    /// and commits.
    ///
    /// # Errors
    /// When the verifier is still the old one, or a call fails.
    pub(super) async fn resend(&mut self, nfs: &Nfs3) -> Result<u32> {
        let mut sent = 0;
        let ids: Vec<u64> = self.model.objects.keys().copied().collect();
        for id in ids {
            let Some(handle) = self.handles.get(&id).copied() else {
                continue;
            };
            let Some(Object {
                kind: Kind::File(content),
                ..
            }) = self.model.objects.get(&id)
            else {
                continue;
            };
            let again = content.resend();
            if again.is_empty() {
                continue;
            }
            for (slot, tag) in again {
                let offset = slot as u64 * SLOT;
                let data = Bytes::from(pattern::bytes(tag, offset, SLOT as usize));
                let reply = nfs
                    .write(&handle, offset, StableHow::Unstable, data)
                    .await?;
                let ok = reply.map_err(|failure| anyhow!("resend: {:?}", failure.status))?;
                ensure!(
                    Some(ok.verf) != self.verifier,
                    "the verifier is the one of before"
                );
                sent += 1;
            }
            let reply = nfs.commit(&handle, 0, 0).await?;
            reply.map_err(|failure| anyhow!("COMMIT after resending: {:?}", failure.status))?;
            self.model.apply(&Change::Commit {
                object: id,
                first: 0,
                count: SLOTS,
            });
            if let Some(object) = self.model.objects.get_mut(&id) {
                (object.mtime, object.ctime) = (None, None);
            }
        }
        Ok(sent)
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn new_place(&mut self, prefix: &str) -> Place {
        let number = self.fresh();
        // Names of all lengths: long ones grow the directory.
        let padding = "-".repeat(self.random.index(60));
        (self.random.index(2), format!("{prefix}{number}{padding}"))
    }

    /// Any object of a kind that this worker has the handle of.
    fn pick(&mut self, wanted: impl Fn(&Kind) -> bool) -> Option<u64> {
        let ids: Vec<u64> = self
            .model
            .objects
            .iter()
            .filter(|(id, object)| wanted(&object.kind) && self.handles.contains_key(id))
            .map(|(id, _)| *id)
            .collect();
        (!ids.is_empty()).then(|| ids[self.random.index(ids.len())])
    }

    fn pick_place(&mut self, wanted: impl Fn(&Kind) -> bool) -> Option<Place> {
        let places: Vec<&Place> = self
            .model
            .names
            .iter()
            .filter(|(_, id)| self.model.objects.get(id).is_some_and(|o| wanted(&o.kind)))
            .map(|(place, _)| place)
            .collect();
        (!places.is_empty()).then(|| places[self.random.index(places.len())].clone())
    }
}

/// Attributes that change nothing.
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
