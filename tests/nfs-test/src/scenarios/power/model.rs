//! What must be on the disk after a power cut, from what was acknowledged before it.
//!
//! A model belongs to one sequence of calls in two directories of its own. A call that is under way
//! when the power goes may have happened or not; everything acknowledged has.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use anyhow::Result;
use nfs_wire::nfs3::Nfstime3;

use super::content::Content;

/// The kind of an object, with its content.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    File(Content),
    Dir,
    Symlink(Vec<u8>),
    Fifo,
}

/// What an object has to be like on the disk; `None` where nothing was promised.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) kind: Kind,
    pub(super) mode: Option<u32>,
    pub(super) owner: Option<(u32, u32)>,
    pub(super) mtime: Option<Nfstime3>,
    pub(super) ctime: Option<Nfstime3>,
}

impl Object {
    pub(super) const fn new(kind: Kind, mode: Option<u32>, owner: Option<(u32, u32)>) -> Self {
        Self {
            kind,
            mode,
            owner,
            mtime: None,
            ctime: None,
        }
    }
}

/// A name: which of the two directories, and the name in it.
pub(super) type Place = (usize, String);

/// The effect that one call has on names and objects.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Write {
        object: u64,
        range: Range<u64>,
        tag: u64,
        stable: bool,
    },
    Commit {
        object: u64,
        range: Range<u64>,
    },
    Resize {
        object: u64,
        size: u64,
    },
    Mode {
        object: u64,
        mode: u32,
    },
    Owner {
        object: u64,
        owner: (u32, u32),
    },
    Mtime {
        object: u64,
        mtime: Nfstime3,
    },
    New {
        place: Place,
        id: u64,
        object: Object,
    },
    Link {
        place: Place,
        id: u64,
    },
    Remove {
        place: Place,
    },
    Rename {
        from: Place,
        to: Place,
    },
}

/// The two directories and what is in them.
#[derive(Clone, Default)]
pub(super) struct Model {
    pub(super) names: BTreeMap<Place, u64>,
    pub(super) objects: BTreeMap<u64, Object>,
    /// Whether the server takes space ahead of WRITEs. It gives that back when a file was not written to for a second,
    /// which moves the file's ctime (docs/io-modes.md).
    pub(super) gives_back: bool,
}

impl Model {
    /// Number of names that an object has.
    pub(super) fn links(&self, id: u64) -> usize {
        self.names.values().filter(|other| **other == id).count()
    }

    /// Applies a change whose call was acknowledged.
    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Write {
                object,
                range,
                tag,
                stable,
            } => {
                if let Some(content) = self.touch(*object) {
                    content.write(range.clone(), *tag, *stable);
                }
            }
            Change::Commit { object, range } => {
                if let Some(Object {
                    kind: Kind::File(content),
                    ..
                }) = self.objects.get_mut(object)
                {
                    content.commit(range.clone());
                }
            }
            Change::Resize { object, size } => {
                if let Some(content) = self.touch(*object) {
                    content.resize(*size);
                }
            }
            Change::Mode { object, mode } => self.change(*object, |o| o.mode = Some(*mode)),
            Change::Owner { object, owner } => self.change(*object, |o| o.owner = Some(*owner)),
            Change::Mtime { object, mtime } => self.change(*object, |o| o.mtime = Some(*mtime)),
            Change::New { place, id, object } => {
                self.objects.insert(*id, object.clone());
                self.names.insert(place.clone(), *id);
            }
            Change::Link { place, id } => {
                self.change(*id, |_| ());
                self.names.insert(place.clone(), *id);
            }
            Change::Remove { place } => self.unname(place),
            Change::Rename { from, to } => {
                if let Some(id) = self.names.get(from).copied() {
                    self.unname(to);
                    self.names.remove(from);
                    self.change(id, |_| ());
                    self.names.insert(to.clone(), id);
                }
            }
        }
    }

    /// The states that the disk may be in when these calls were under way. Calls that are under way
    /// together do not depend on each other.
    pub(super) fn may_be(&self, under_way: &[Change]) -> Vec<Self> {
        let mut states = vec![self.clone()];
        for change in under_way {
            let done = match change {
                Change::Write {
                    object, range, tag, ..
                } => {
                    let (object, range, tag) = (*object, range.clone(), *tag);
                    let maybe = Change::Write {
                        object,
                        range,
                        tag,
                        stable: false,
                    };
                    states.iter_mut().for_each(|state| state.apply(&maybe));
                    continue;
                }
                Change::Commit { .. } => continue,
                Change::New { place, id, object } => Change::New {
                    place: place.clone(),
                    id: *id,
                    // The name can be there before the attributes are.
                    object: Object::new(object.kind.clone(), None, None),
                },
                other => other.clone(),
            };
            let mut after = states.clone();
            if let Change::Resize { object, size } = change {
                let begun = |state: &mut Self| {
                    let object = state.objects.get_mut(object);
                    if let Some(Object {
                        kind: Kind::File(content),
                        ..
                    }) = object
                    {
                        content.resize_was_begun(*size);
                    }
                };
                states.iter_mut().for_each(begun);
            }
            after.iter_mut().for_each(|state| state.apply(&done));
            states.extend(after);
        }
        states
    }

    fn unname(&mut self, place: &Place) {
        if let Some(id) = self.names.remove(place) {
            self.change(id, |_| ());
            if self.links(id) == 0 {
                self.objects.remove(&id);
            }
        }
    }

    fn change(&mut self, id: u64, what: impl FnOnce(&mut Object)) {
        if let Some(object) = self.objects.get_mut(&id) {
            object.ctime = None;
            what(object);
        }
    }

    fn touch(&mut self, id: u64) -> Option<&mut Content> {
        let object = self.objects.get_mut(&id)?;
        (object.mtime, object.ctime) = (None, None);
        match &mut object.kind {
            Kind::File(content) => Some(content),
            _ => None,
        }
    }

    /// What the two directories on the disk have that the model does not allow.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(super) fn faults(&self, dirs: &[&Path; 2]) -> Result<Vec<String>> {
        let mut faults = Vec::new();
        for (index, dir) in (0..).zip(dirs) {
            for entry in fs::read_dir(dir)? {
                let name = entry?.file_name().to_string_lossy().into_owned();
                if !self.names.contains_key(&(index, name.clone())) {
                    faults.push(format!("{name} should not exist"));
                }
            }
        }
        for ((index, name), id) in &self.names {
            let path = dirs[*index].join(name);
            let Ok(meta) = fs::symlink_metadata(&path) else {
                faults.push(format!("{name} is missing"));
                continue;
            };
            if let Some(fault) = self.fault(*id, &path, &meta)? {
                faults.push(format!("{name}: {fault}"));
            }
        }
        Ok(faults)
    }

    fn fault(&self, id: u64, path: &Path, meta: &Metadata) -> Result<Option<String>> {
        let Some(object) = self.objects.get(&id) else {
            return Ok(None);
        };
        let right = match &object.kind {
            Kind::File(content) => {
                if !meta.is_file() {
                    return Ok(Some("not a file".to_owned()));
                }
                if let Some(fault) = content.fault(&fs::read(path)?) {
                    return Ok(Some(fault));
                }
                true
            }
            Kind::Dir => meta.is_dir(),
            Kind::Symlink(target) => {
                let found = fs::read_link(path).unwrap_or_default();
                found.as_os_str().as_encoded_bytes() == target
            }
            Kind::Fifo => meta.file_type().is_fifo(),
        };
        if !right {
            return Ok(Some(format!(
                "is {:?}, not {:?}",
                meta.file_type(),
                object.kind
            )));
        }
        let time = |sec: i64, nsec: i64| Nfstime3 {
            seconds: sec as u32,
            nseconds: nsec as u32,
        };
        let mut faults = Vec::new();
        let mut check = |name: &str, wrong: bool, found: String| {
            if wrong {
                faults.push(format!("{name} is {found}"));
            }
        };
        let mode = meta.mode() & 0o7777;
        check(
            "mode",
            object.mode.is_some_and(|m| m != mode),
            format!("{mode:o}"),
        );
        let owner = (meta.uid(), meta.gid());
        check(
            "owner",
            object.owner.is_some_and(|o| o != owner),
            format!("{owner:?}"),
        );
        let mtime = time(meta.mtime(), meta.mtime_nsec());
        check(
            "mtime",
            object.mtime.is_some_and(|t| t != mtime),
            format!("{mtime:?}"),
        );
        let ctime = time(meta.ctime(), meta.ctime_nsec());
        check(
            "ctime",
            object.ctime.is_some_and(|promised| {
                let may_be_newer = self.gives_back && matches!(object.kind, Kind::File(_));
                ctime < promised || ctime > promised && !may_be_newer
            }),
            format!("{ctime:?}"),
        );
        let links = self.links(id) as u64;
        check(
            "nlink",
            !meta.is_dir() && meta.nlink() != links,
            meta.nlink().to_string(),
        );
        let Object {
            mode,
            owner,
            mtime,
            ctime,
            ..
        } = object;
        let promised = format!("mode {mode:?}, owner {owner:?}, mtime {mtime:?}, ctime {ctime:?}");
        let faults = faults.join(", ");
        Ok((!faults.is_empty()).then(|| format!("{faults}; promised: {promised}, {links} links")))
    }
}

#[cfg(test)]
mod tests {
    use super::super::content::SIZE_MAX;
    use super::*;
    use nfs_lab::pattern;

    /// Bytes of two writes, which is no multiple of a page.
    const END: u64 = 10_000;

    fn written(stable: bool) -> Model {
        let mut model = Model::default();
        let object = Object::new(Kind::File(Content::default()), None, None);
        model.apply(&Change::New {
            place: (0, "f".to_owned()),
            id: 1,
            object,
        });
        model.apply(&Change::Write {
            object: 1,
            range: 0..END,
            tag: 9,
            stable,
        });
        model
    }

    /// What the model says about a disk with `content` in file `f`.
    fn faults(model: &Model, content: &[u8]) -> Result<Vec<String>> {
        let (a, b) = (tempfile::tempdir()?, tempfile::tempdir()?);
        fs::write(a.path().join("f"), content)?;
        model.faults(&[a.path(), b.path()])
    }

    #[test]
    fn acknowledged_stable_data_may_not_be_lost() -> Result<()> {
        let good = pattern::bytes(9, 0, END as usize);
        assert!(faults(&written(true), &good)?.is_empty());
        assert!(faults(&written(true), &good[..9999])?[0].contains("size 9999"));
        let mut bad = good.clone();
        bad[7000] ^= 1;
        assert!(faults(&written(true), &bad)?[0].contains("byte 7000"));
        bad[7000] = 0;
        assert!(faults(&written(true), &bad)?[0].contains("byte 7000"));
        Ok(())
    }

    #[test]
    fn only_space_that_is_given_back_makes_a_promised_ctime_newer() -> Result<()> {
        let good = pattern::bytes(9, 0, END as usize);
        let mut model = written(true);
        let promise = |model: &mut Model, seconds| {
            let object = model.objects.get_mut(&1).expect("written");
            object.ctime = Some(Nfstime3 {
                seconds,
                nseconds: 0,
            });
        };
        promise(&mut model, 1);
        assert!(faults(&model, &good)?[0].contains("ctime"));
        model.gives_back = true;
        assert!(faults(&model, &good)?.is_empty());
        promise(&mut model, u32::MAX);
        assert!(faults(&model, &good)?[0].contains("ctime"), "older");
        Ok(())
    }

    #[test]
    fn unstable_data_may_be_lost_but_not_replaced() -> Result<()> {
        let good = pattern::bytes(9, 0, END as usize);
        assert!(faults(&written(false), &[])?.is_empty());
        assert!(faults(&written(false), &good)?.is_empty());
        let mut mixed = good.clone();
        mixed[4096..].fill(0);
        assert!(faults(&written(false), &mixed)?.is_empty());
        mixed[4096..].fill(1);
        assert!(!faults(&written(false), &mixed)?.is_empty());
        assert!(faults(&written(false), &pattern::bytes(9, 0, 10_001))?[0].contains("size"));
        Ok(())
    }

    #[test]
    fn a_commit_makes_a_promise_of_its_range_only() -> Result<()> {
        let mut model = written(false);
        model.apply(&Change::Commit {
            object: 1,
            range: 0..5_000,
        });
        let good = pattern::bytes(9, 0, END as usize);
        assert!(faults(&model, &good[..5000])?.is_empty());
        assert!(!faults(&model, &good[..4999])?.is_empty());
        model.apply(&Change::Commit {
            object: 1,
            range: 0..SIZE_MAX,
        });
        assert!(!faults(&model, &good[..5000])?.is_empty());
        Ok(())
    }

    #[test]
    fn a_call_under_way_may_have_happened_or_not() -> Result<()> {
        let model = written(true);
        let remove = Change::Remove {
            place: (0, "f".to_owned()),
        };
        let (a, b) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let allowed = |change: &[Change]| -> Result<bool> {
            let dirs = [a.path(), b.path()];
            let faults: Result<Vec<_>> = model
                .may_be(change)
                .iter()
                .map(|state| state.faults(&dirs))
                .collect();
            Ok(faults?.iter().any(Vec::is_empty))
        };
        assert!(allowed(std::slice::from_ref(&remove))?);
        assert!(!allowed(&[])?);
        fs::write(a.path().join("f"), pattern::bytes(9, 0, END as usize))?;
        assert!(allowed(std::slice::from_ref(&remove))?);
        fs::write(a.path().join("x"), "")?;
        assert!(!allowed(std::slice::from_ref(&remove))?);
        Ok(())
    }
}
