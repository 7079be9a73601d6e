//! Finding things in a tree by name, type, length, time and mode.
//!
//! The criteria mean what the tests of find(1) mean; a pure function, [`Criteria::hold`], decides.

use nfs_io::glob::Glob;
use nfs_wire::nfs3::{Fattr3, FileHandle, Ftype3, Nfstime3};

use super::Step;
use crate::client::{Client, Found, Tree, TreeOptions, Visit};
use crate::error::ClientError;
use crate::nfs3::Node;

/// What has to hold for a thing to be found: every field that restricts, and all elements of a list
/// unless its text says otherwise. The default holds for everything.
#[derive(Clone, Debug, Default)]
pub struct Criteria {
    /// The last name matches these patterns.
    pub names: Vec<Glob>,
    /// The whole path matches these patterns, in which `*` goes across `/`.
    pub paths: Vec<Glob>,
    /// It is of one of these types; of any if there is none.
    pub types: Vec<Ftype3>,
    /// The file's length, as `ls` shows it.
    pub lengths: Vec<Length>,
    /// How many times 24 hours ago its contents changed, rounded down.
    pub days: Vec<Compare>,
    /// How many minutes ago its contents changed. More and less count seconds; equal is within the
    /// minute that ends there.
    pub minutes: Vec<Compare>,
    /// Its contents changed after this time.
    pub newer: Option<Nfstime3>,
    /// It belongs to this user.
    pub uid: Option<u32>,
    /// It belongs to this group.
    pub gid: Option<u32>,
    /// The permission bits of its mode.
    pub permissions: Vec<Permissions>,
    /// It is a regular file of length 0, or a directory with nothing in it.
    pub empty: bool,
    /// It is at least so many levels below the root of the walk.
    pub depth_min: usize,
    /// The time that ages are counted back from.
    pub now: Nfstime3,
}

impl Criteria {
    /// Whether all of them hold. Of a directory, [`Self::empty`] is still to be seen.
    pub fn hold(&self, found: &Found) -> bool {
        let a = &found.node.attributes;
        let name = found.name();
        found.depth >= self.depth_min
            && self.names.iter().all(|glob| glob.matches(name))
            && self.paths.iter().all(|glob| glob.matches(&found.path))
            && (self.types.is_empty() || self.types.contains(&a.ftype))
            && self.uid.is_none_or(|uid| uid == a.uid)
            && self.gid.is_none_or(|gid| gid == a.gid)
            && self.permissions.iter().all(|bits| bits.hold(a.mode))
            && (!self.empty || found.is_dir() || (a.ftype == Ftype3::Reg && a.size == 0))
            && self.length_and_time_hold(a)
    }

    fn length_and_time_hold(&self, a: &Fattr3) -> bool {
        let age = u64::from(self.now.seconds.saturating_sub(a.mtime.seconds));
        let key = |time: Nfstime3| (time.seconds, time.nseconds);
        self.lengths.iter().all(|length| length.holds(a.size))
            && self.days.iter().all(|days| days.holds(age / 86_400))
            // As find(1): minutes are compared as they are, without rounding.
            && self.minutes.iter().all(|minutes| minutes.holds_scaled(age, 60))
            && self.newer.is_none_or(|newer| key(a.mtime) > key(newer))
    }
}

/// Permission bits, 0 to 0o7777, to compare a mode with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permissions {
    /// These bits are set, and no others.
    Exactly(u32),
    /// All of these; 0 holds for everything.
    All(u32),
    /// One of these; 0 holds for everything, as in find(1).
    Any(u32),
}

impl Permissions {
    /// Whether a file with this mode has them.
    pub fn hold(self, mode: u32) -> bool {
        let mode = mode & 0o7777;
        match self {
            Self::Exactly(bits) => mode == bits,
            Self::All(bits) => mode & bits == bits,
            Self::Any(bits) => bits == 0 || mode & bits != 0,
        }
    }
}

/// A number to compare another one with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The other one is larger.
    More(u64),
    /// The other one is smaller.
    Less(u64),
    /// The other one is the same.
    Equal(u64),
}

impl Compare {
    /// Whether `number` is as it should be.
    pub fn holds(self, number: u64) -> bool {
        match self {
            Self::More(than) => number > than,
            Self::Less(than) => number < than,
            Self::Equal(to) => number == to,
        }
    }

    /// Whether `number`, in parts of which `scale` make a unit, is as it should be. Equal is within the
    /// unit that ends there.
    pub fn holds_scaled(self, number: u64, scale: u64) -> bool {
        match self {
            Self::More(than) => number > than.saturating_mul(scale),
            Self::Less(than) => number < than.saturating_mul(scale),
            Self::Equal(to) => number.div_ceil(scale) == to,
        }
    }
}

/// A length to compare with, in units: lengths are rounded up to these first, as in find(1), so that one
/// byte counts as a whole megabyte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// What is asked of the number of units.
    pub units: Compare,
    /// Bytes of one unit, at least 1.
    pub unit_bytes: u64,
}

impl Length {
    /// Whether a file of `bytes` is as long as it should be.
    pub fn holds(self, bytes: u64) -> bool {
        self.units.holds(bytes.div_ceil(self.unit_bytes.max(1)))
    }
}

/// A search on its way: directories come before what is in them.
#[derive(Debug)]
pub struct Find {
    client: Client,
    criteria: Criteria,
    depth_max: usize,
    walk: Tree,
    /// A directory that may be empty, until the walk tells what is in it.
    maybe_empty: Option<Found>,
}

impl Find {
    /// Begins at `root`, which steps call `path`.
    pub fn new(
        client: &Client,
        root: Node,
        path: &[u8],
        options: TreeOptions,
        criteria: Criteria,
    ) -> Self {
        Self {
            client: client.clone(),
            criteria,
            depth_max: options.depth_max,
            walk: client.tree(root, path, options),
            maybe_empty: None,
        }
    }

    /// The next thing for which the criteria hold, or what could not be looked at; `None` at the end.
    pub async fn next(&mut self) -> Option<Step<Found>> {
        while let Some(visit) = self.walk.next().await {
            let held = self.maybe_empty.take();
            match visit {
                Visit::Enter(found) if self.criteria.hold(&found) => {
                    if let Some(step) = self.enter(found).await {
                        return Some(step);
                    }
                }
                Visit::File(found) if self.criteria.hold(&found) => return Some(Step::Done(found)),
                Visit::Leave(_) => {
                    if let Some(found) = held {
                        return Some(Step::Done(found));
                    }
                }
                Visit::Failed { path, error } => return Some(Step::Failed { path, error }),
                Visit::Enter(_) | Visit::File(_) => {}
            }
        }
        None
    }

    /// A directory for which all holds, unless it should be empty and that is still to be seen.
    async fn enter(&mut self, found: Found) -> Option<Step<Found>> {
        if !self.criteria.empty {
            return Some(Step::Done(found));
        }
        if found.depth < self.depth_max {
            self.maybe_empty = Some(found);
            return None;
        }
        // The walk does not look into it.
        match is_empty(&self.client, &found.node.handle).await {
            Ok(empty) => empty.then_some(Step::Done(found)),
            Err(error) => Some(Step::Failed {
                path: found.path,
                error,
            }),
        }
    }
}

/// Whether nothing is in a directory.
async fn is_empty(client: &Client, dir: &FileHandle) -> Result<bool, ClientError> {
    let mut listing = client.list(dir, false);
    while let Some(page) = listing.next().await? {
        if page.iter().any(|entry| !entry.is_dot()) {
            return Ok(false);
        }
    }
    Ok(true)
}
