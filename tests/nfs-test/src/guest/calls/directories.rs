//! Directories: large, deep, and changing while they are listed.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::io::Errno;

use crate::guest::check::{fails, names, same};

/// Entries of the large directory: many READDIRPLUS replies.
const MANY: usize = 5000;
/// Entries of a directory that changes while it is listed: a few replies.
const SOME: usize = 2000;

pub(super) fn directories(dir: &Path) -> Result<()> {
    let links = fs::metadata(dir)?.nlink();
    for name in ["a", "b", "c"] {
        fs::create_dir(dir.join(name))?;
    }
    same(
        fs::metadata(dir)?.nlink(),
        links + 3,
        "links of a directory with three more",
    )?;
    fs::write(dir.join("a/file"), "x")?;
    fails(
        fs::remove_dir(dir.join("a")),
        Errno::NOTEMPTY,
        "rmdir of a full directory",
    )?;
    fs::remove_file(dir.join("a/file"))?;
    fs::remove_dir(dir.join("a"))?;
    fails(
        fs::metadata(dir.join("a")),
        Errno::NOENT,
        "the removed directory",
    )?;
    fs::create_dir_all(dir.join("d/e/f"))?;
    fs::write(dir.join("d/e/f/g"), "deep")?;
    fs::remove_dir_all(dir.join("d"))?;
    same(names(dir)?, vec![b"b".to_vec(), b"c".to_vec()], "names")?;
    same(
        fs::metadata(dir.join("b/.."))?.ino(),
        fs::metadata(dir)?.ino(),
        "`..`",
    )?;
    same(
        fs::metadata(dir.join("b/."))?.ino(),
        fs::metadata(dir.join("b"))?.ino(),
        "`.`",
    )
}

pub(super) fn deep_path(dir: &Path) -> Result<()> {
    let mut path = dir.to_path_buf();
    for level in 0..60 {
        path.push(format!("level-{level:02}"));
        fs::create_dir(&path).with_context(|| format!("level {level}"))?;
    }
    fs::write(path.join("bottom"), "here")?;
    same(fs::read(path.join("bottom"))?, b"here".to_vec(), "content")?;
    // Up again by `..`, sixty times.
    let mut up = path.clone();
    for _ in 0..60 {
        up.push("..");
    }
    same(
        fs::metadata(&up)?.ino(),
        fs::metadata(dir)?.ino(),
        "sixty times `..`",
    )
}

pub(super) fn big_directory(dir: &Path) -> Result<()> {
    fill(dir, MANY)?;
    let expected: Vec<Vec<u8>> = (0..MANY).map(|i| name(i).into_bytes()).collect();
    same(names(dir)? == expected, true, "every name is listed once")?;
    // ls -l: attributes of every entry.
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        same(
            meta.is_file() && meta.len() == 0,
            true,
            "attributes of an entry",
        )?;
        same(
            std::os::unix::fs::DirEntryExt::ino(&entry),
            meta.ino(),
            "file id in the listing",
        )?;
    }
    for i in 0..MANY {
        fs::remove_file(dir.join(name(i))).with_context(|| format!("unlink {i}"))?;
    }
    same(names(dir)?.len(), 0, "names left")
}

pub(super) fn unlink_while_listing(dir: &Path) -> Result<()> {
    fill(dir, SOME)?;
    // Every second entry is removed as soon as it is seen; none of the others may be missed, none
    // may be seen twice.
    let mut seen = BTreeSet::new();
    for (i, entry) in fs::read_dir(dir)?.enumerate() {
        let entry = entry.with_context(|| format!("entry {i}"))?;
        same(seen.insert(entry.file_name()), true, "seen once")?;
        if i % 2 == 0 {
            fs::remove_file(entry.path())?;
        }
    }
    same(seen.len(), SOME, "entries seen")?;
    same(names(dir)?.len(), SOME / 2, "names left")?;
    // The way `rm -r` works: until nothing is left.
    for entry in fs::read_dir(dir)? {
        fs::remove_file(entry?.path())?;
    }
    same(names(dir)?.len(), 0, "names left")?;
    fs::remove_dir(dir).context("the emptied directory")?;
    fs::create_dir(dir).context("and a new one of that name")
}

pub(super) fn create_while_listing(dir: &Path) -> Result<()> {
    const START: usize = 1000;
    fill(dir, START)?;
    let mut seen = BTreeSet::new();
    for (i, entry) in fs::read_dir(dir)?.enumerate() {
        let entry = entry?;
        same(seen.insert(entry.file_name()), true, "seen once")?;
        if i < 300 {
            fs::write(dir.join(format!("new-{i}")), "")?;
        }
    }
    let missed = (0..START).find(|i| !seen.contains(std::ffi::OsStr::new(&name(*i))));
    same(
        missed,
        None,
        "an entry that was there all the time but not seen",
    )?;
    same(names(dir)?.len(), START + 300, "names in the end")?;
    let all: Vec<PathBuf> = fs::read_dir(dir)?
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<_>>()?;
    all.into_iter()
        .try_for_each(|path| fs::remove_file(path).map_err(Into::into))
}

fn fill(dir: &Path, count: usize) -> Result<()> {
    for i in 0..count {
        fs::File::create(dir.join(name(i))).with_context(|| format!("create {i}"))?;
    }
    Ok(())
}

/// Names of different lengths that sort like their numbers.
fn name(i: usize) -> String {
    format!("{i:05}{}", "-".repeat(i % 60))
}
