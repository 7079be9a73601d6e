//! Mirrors: what a tree has beyond its source, and what of it is removed.
//!
//! While the walk goes through a directory that was there, [`Extra`] keeps its names; what the source has is
//! taken out, and what is left at the end is beyond it. That is remembered ([`Extras`]) and removed only when all
//! else is done, nothing has failed, and it is no more than may be: a source that was not read to its end must not
//! cost anything. Removal goes by directories that are opened anew, name by name, and never through a link.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use nfs_wire::nfs3::{Fattr3, Ftype3};
use parking_lot::Mutex;

use super::decide;
use super::dir::Dir;
use super::error::TransferError;
use super::item::Item;
use super::job::Context;
use super::listing::Listing;
use super::tree::{Level, is_taken};
use super::watch::{Done, What};
use crate::limits::{MIRROR_EXTRAS_MAX, MIRROR_NAMES_MAX, NAME_BYTES_MAX, TREE_DEPTH_MAX};

/// What a directory of the destination had before it was gone through, by name.
#[derive(Debug, Default)]
pub(super) struct Extra {
    names: HashMap<Vec<u8>, Item>,
}

impl Extra {
    /// Reads the whole of `dir`.
    ///
    /// # Errors
    /// [`TransferError::TooMany`] beyond [`MIRROR_NAMES_MAX`] names.
    pub(super) async fn of(dir: &Dir) -> Result<Self, TransferError> {
        let mut names = HashMap::new();
        let mut listing = Listing::new(dir.clone());
        while let Some(item) = listing.next().await {
            let item = item?;
            if names.len() >= MIRROR_NAMES_MAX {
                return Err(TransferError::TooMany {
                    place: Box::new(dir.location.clone()),
                    max: MIRROR_NAMES_MAX,
                });
            }
            names.insert(item.name.clone(), item);
        }
        Ok(Self { names })
    }

    /// Takes out what has this name.
    pub(super) fn take(&mut self, name: &[u8]) -> Option<Item> {
        self.names.remove(name)
    }
}

/// What is beyond the source in all directories, by their path below the destination.
#[derive(Debug, Default)]
pub(super) struct Extras {
    found: Mutex<Found>,
}

#[derive(Debug, Default)]
struct Found {
    dirs: BTreeMap<Vec<u8>, ExtraOf>,
    count: usize,
    /// There were more than are remembered.
    more: bool,
}

/// What is beyond the source in one directory.
#[derive(Debug)]
struct ExtraOf {
    /// The source's directory: its times are set again when names were removed.
    source: Fattr3,
    /// As the destination's directory was found.
    there: Fattr3,
    names: Vec<Vec<u8>>,
}

impl Extras {
    /// Remembers what is left of the names in the directory at `level`, but for what the filter leaves alone.
    pub(super) fn add(&self, context: &Context, level: &Level, extra: Extra) {
        let is_extra = |item: &Item| is_taken(context, level, item);
        let names = extra.names.into_values().filter(is_extra);
        let mut names: Vec<Vec<u8>> = names.map(|item| item.name).collect();
        if names.is_empty() {
            return;
        }
        names.sort_unstable();
        let mut found = self.found.lock();
        let room = MIRROR_EXTRAS_MAX - found.count;
        found.more |= names.len() > room;
        names.truncate(room);
        found.count += names.len();
        let of = ExtraOf {
            source: level.source,
            there: level.there,
            names,
        };
        found.dirs.insert(level.path.clone(), of);
    }
}

/// The path of `name` in the directory at `path`.
pub(super) fn below(path: &[u8], name: &[u8]) -> Vec<u8> {
    match path.is_empty() {
        true => name.to_vec(),
        false => [path, b"/", name].concat(),
    }
}

/// Removes what is beyond the source below `root`, as the options say. In a dry run, tells it.
///
/// # Errors
/// [`TransferError::NotRemoved`] when something failed before, or when it is more than may be removed: then
/// nothing is. What of it cannot be removed is told to the watch.
pub(super) async fn remove_extras(context: &Context, root: &Dir) -> Result<(), TransferError> {
    let Some(mirror) = &context.options.mirror else {
        return Ok(());
    };
    let Some(delete) = mirror.delete else {
        return Ok(());
    };
    let found = std::mem::take(&mut *context.extras.found.lock());
    if context.watch.is_stopped() || found.dirs.is_empty() {
        return Ok(());
    }
    let not_removed = |why: String| TransferError::NotRemoved {
        place: Box::new(root.location.clone()),
        why,
    };
    let failed = context.watch.figures().failed;
    if failed > 0 {
        return Err(not_removed(format!(
            "{failed} failed before, and a source that was not read whole must cost nothing: mend that, and run \
             it again"
        )));
    }
    if let Some(max) = delete.max {
        let mut counted = Sweep::new(context, true);
        if found.more || counted.all(root, &found, Some(max)).await? {
            return Err(over(root, max));
        }
    }
    let mut sweep = Sweep::new(context, false);
    sweep.all(root, &found, None).await?;
    if found.more {
        return Err(not_removed(format!(
            "{MIRROR_EXTRAS_MAX} names were removed, and there are more: run it again"
        )));
    }
    Ok(())
}

/// Removes what stands at the place of something of another kind, a file at a directory's or a directory at a
/// file's, if what is beyond the source may be removed. Whether it stays.
pub(super) async fn clear_way(
    context: &Context,
    dir: &Dir,
    there: &Item,
    for_dir: bool,
) -> Result<bool, TransferError> {
    let is_dir = there.attributes.ftype == Ftype3::Dir;
    let delete = context.options.mirror.and_then(|mirror| mirror.delete);
    let Some(delete) = delete.filter(|_| is_dir != for_dir) else {
        return Ok(true);
    };
    if let Some(max) = delete.max {
        let mut counted = Sweep::new(context, true);
        counted.one(dir, there.clone(), Some(max)).await?;
        if counted.seen > max {
            return Err(over(dir, max));
        }
    }
    Sweep::new(context, false)
        .one(dir, there.clone(), None)
        .await?;
    Ok(false)
}

fn over(dir: &Dir, max: u64) -> TransferError {
    TransferError::NotRemoved {
        place: Box::new(dir.location.clone()),
        why: format!(
            "more than {max} files and directories would go: is this the right source? Allow as many as should \
             go, and run it again"
        ),
    }
}

/// One pass over what is to be removed.
struct Sweep<'a> {
    context: &'a Context,
    /// Nothing is removed or told; it is counted.
    counts: bool,
    seen: u64,
}

/// A directory on the way down through what is to be removed.
struct Frame {
    dir: Dir,
    listing: Listing,
    /// Its name in the frame above.
    item: Item,
    /// All that was in it is gone, as far as is known.
    is_empty: bool,
}

impl<'a> Sweep<'a> {
    fn new(context: &'a Context, counts: bool) -> Self {
        Self {
            context,
            counts,
            seen: 0,
        }
    }

    /// Goes through all of it; whether it is more than `max`.
    async fn all(
        &mut self,
        root: &Dir,
        found: &Found,
        max: Option<u64>,
    ) -> Result<bool, TransferError> {
        let is_over = |seen: u64| max.is_some_and(|max| seen > max);
        for (path, of) in &found.dirs {
            let dir = reopened(root, path).await?;
            for name in &of.names {
                if self.context.watch.is_stopped() {
                    return Ok(false);
                }
                // Somebody else may have removed it meanwhile.
                let Some(item) = dir.look_up(name).await? else {
                    continue;
                };
                if let Err(error) = self.one(&dir, item, max).await {
                    self.context.watch.failed(&error);
                }
                if is_over(self.seen) {
                    return Ok(true);
                }
            }
            if !self.counts && !self.context.options.dry_run {
                self.dress(&dir, of).await;
            }
        }
        Ok(false)
    }

    /// Sets the times of a directory again that names were removed from.
    async fn dress(&self, dir: &Dir, of: &ExtraOf) {
        let options = &self.context.options;
        let set = decide::last_attributes(&of.source, &of.there, false, options);
        if let Some(set) = set.map(|set| decide::without_owner(&set))
            && let Err(error) = dir.set_attributes(&set).await
        {
            self.context.watch.failed(&error);
        }
    }

    /// Removes `item` of `dir`, a directory after all that is in it.
    async fn one(&mut self, dir: &Dir, item: Item, max: Option<u64>) -> Result<(), TransferError> {
        if item.attributes.ftype != Ftype3::Dir {
            return self.gone(dir, &item).await;
        }
        let mut frames = vec![Frame::enter(dir, item).await?];
        while let Some(last) = frames.last_mut() {
            if self.context.watch.is_stopped() || max.is_some_and(|max| self.seen > max) {
                return Ok(());
            }
            match last.listing.next().await {
                Some(Ok(item)) if item.attributes.ftype == Ftype3::Dir => {
                    let here = last.dir.clone();
                    if frames.len() >= TREE_DEPTH_MAX {
                        let place = Box::new(here.location.join(&item.name));
                        return Err(TransferError::TooDeep { place });
                    }
                    frames.push(Frame::enter(&here, item).await?);
                }
                Some(Ok(item)) => {
                    let here = last.dir.clone();
                    if let Err(error) = self.gone(&here, &item).await {
                        last.is_empty = false;
                        self.context.watch.failed(&error);
                    }
                }
                Some(Err(error)) => {
                    last.is_empty = false;
                    self.context.watch.failed(&error);
                }
                None => {
                    let Some(done) = frames.pop() else {
                        return Ok(());
                    };
                    let above = frames.last().map_or(dir, |frame| &frame.dir).clone();
                    let gone = match done.is_empty {
                        true => self.gone(&above, &done.item).await,
                        false => Ok(()),
                    };
                    if !done.is_empty || gone.is_err() {
                        frames.iter_mut().for_each(|frame| frame.is_empty = false);
                    }
                    if let Err(error) = gone {
                        self.context.watch.failed(&error);
                    }
                }
            }
        }
        Ok(())
    }

    /// Removes one name, counts and tells it.
    async fn gone(&mut self, dir: &Dir, item: &Item) -> Result<(), TransferError> {
        self.seen += 1;
        if self.counts {
            return Ok(());
        }
        if !self.context.options.dry_run {
            match item.attributes.ftype {
                Ftype3::Dir => dir.remove_dir(&item.name).await?,
                _ => dir.remove(&item.name).await?,
            }
        }
        let place = dir.location.join(&item.name);
        self.context.watch.done(&Done {
            source: place.clone(),
            destination: place,
            what: What::Removed,
            bytes: 0,
            checksum: None,
        });
        Ok(())
    }
}

impl Frame {
    async fn enter(dir: &Dir, item: Item) -> Result<Self, TransferError> {
        let opened = dir.open_dir(&item).await?;
        Ok(Self {
            listing: Listing::new(opened.clone()),
            dir: opened,
            item,
            is_empty: true,
        })
    }
}

/// The directory at `path` below `root`, by its names, through no symbolic link.
async fn reopened(root: &Dir, path: &[u8]) -> Result<Dir, TransferError> {
    let mut at = root.clone();
    for name in path.split(|&byte| byte == b'/') {
        if name.is_empty() {
            continue;
        }
        let item = at.look_up(name).await?;
        let item = item.filter(|item| item.attributes.ftype == Ftype3::Dir);
        let Some(item) = item else {
            return Err(TransferError::Unsteady {
                place: Box::new(at.location.join(name)),
            });
        };
        at = at.open_dir(&item).await?;
    }
    Ok(at)
}

/// The name that the content for `name` from `source` has until it is complete: the same in each run, so that a
/// later one goes on with it, and another for each source.
pub(super) fn partial_name(source: &Dir, name: &[u8]) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&source.location.join(name).name());
    let hash = hasher.finalize().to_hex();
    let hash = hash.get(..PARTIAL_HASH_DIGITS).unwrap_or_default();
    let room = NAME_BYTES_MAX - PARTIAL_HASH_DIGITS - ".".len() - PARTIAL_SUFFIX.len();
    let mut shown = name.get(..name.len().min(room)).unwrap_or_default();
    // No character is cut in its middle, for a server that takes UTF-8 only.
    if let Some(chunk) = shown.utf8_chunks().last()
        && std::str::from_utf8(name).is_ok()
    {
        let cut = shown.len() - chunk.invalid().len();
        shown = shown.get(..cut).unwrap_or_default();
    }
    [b".", shown, PARTIAL_SUFFIX.as_bytes(), hash.as_bytes()].concat()
}

/// What stands between the file's name and the hash.
const PARTIAL_SUFFIX: &str = ".penstock-";

/// Digits of the hash in a name: 64 bits, so that no two sources meet.
const PARTIAL_HASH_DIGITS: usize = 16;

/// The names that a mirror is restricted to, and which of them were found.
#[derive(Debug, Default)]
pub(super) struct Only {
    paths: BTreeMap<Vec<u8>, std::sync::atomic::AtomicBool>,
}

impl Only {
    /// What is restricted to these paths below the source.
    pub(super) fn new(paths: &[Vec<u8>]) -> Self {
        let clean = |path: &Vec<u8>| {
            let names = crate::url::components(path).collect::<Vec<_>>();
            (names.join(&b'/'), false.into())
        };
        Self {
            paths: paths.iter().map(clean).collect(),
        }
    }

    /// Whether what is at `path` is gone into, or copied: it is one of the paths, leads to one, or lies below one.
    pub(super) fn takes(&self, path: &[u8], is_dir: bool) -> bool {
        if let Some(found) = self.paths.get(path) {
            found.store(true, std::sync::atomic::Ordering::Relaxed);
            return true;
        }
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let mut above = slashes.filter_map(|(at, _)| path.get(..at));
        if above.any(|above| self.paths.contains_key(above)) {
            return true;
        }
        let prefix = [path, b"/"].concat();
        let next = self.paths.range(prefix.clone()..).next();
        is_dir && next.is_some_and(|(next, _)| next.starts_with(&prefix))
    }

    /// The paths that were not found.
    pub(super) fn missing(&self) -> Vec<Vec<u8>> {
        let missing = |found: &std::sync::atomic::AtomicBool| {
            !found.load(std::sync::atomic::Ordering::Relaxed)
        };
        let paths = self.paths.iter().filter(|(_, found)| missing(found));
        paths.map(|(path, _)| path.clone()).collect()
    }
}

/// Whether a level's directory had been there, and is to be read first.
pub(super) async fn extra_of(
    context: &Context,
    level: &Arc<Level>,
) -> Result<Option<Extra>, TransferError> {
    if context.options.mirror.is_none() || level.new {
        return Ok(None);
    }
    Extra::of(&level.to).await.map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_list_takes() {
        let only = Only::new(&[b"a/b/c".to_vec(), b"d/".to_vec(), b"./x".to_vec()]);
        for (path, is_dir, expected) in [
            ("a", true, true),
            ("a", false, false),
            ("a/b", true, true),
            ("a/bb", true, false),
            ("a/b/c", false, true),
            ("a/b/c/below", false, true),
            ("a/b/d", false, false),
            ("d", true, true),
            ("d/e/f", false, true),
            ("y", false, false),
        ] {
            assert_eq!(only.takes(path.as_bytes(), is_dir), expected, "{path}");
        }
        assert_eq!(only.missing(), [b"x".to_vec()]);
    }

    #[test]
    fn partial_names_fit_and_are_the_source_s() {
        use super::super::dir::Side;
        use super::super::place::Location;
        let scratch = tempfile::tempdir().unwrap();
        let fd = super::super::local::open_path(scratch.path()).unwrap();
        let dir = |path: &str| Dir {
            side: Side::Local(Arc::new(fd.try_clone().unwrap())),
            location: Location::Local(path.into()),
        };
        let name = partial_name(&dir("/one"), b"file");
        assert!(name.starts_with(b".file.penstock-"), "{name:?}");
        assert_eq!(name, partial_name(&dir("/one"), b"file"));
        assert_ne!(name, partial_name(&dir("/two"), b"file"));
        let long = "\u{e4}".repeat(127);
        let name = partial_name(&dir("/one"), long.as_bytes());
        assert!(name.len() <= NAME_BYTES_MAX && name.len() > NAME_BYTES_MAX - 3);
        assert!(std::str::from_utf8(&name).is_ok(), "{name:?}");
        assert_eq!(
            partial_name(&dir("/one"), &[0xff; 255]).len(),
            NAME_BYTES_MAX
        );
    }
}
